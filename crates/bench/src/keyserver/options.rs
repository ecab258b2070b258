//! Options of the measurement, and its parts.

use std::path::PathBuf;
use std::time::Duration;

use crate::measure::own_program;
use crate::storage::PAGE_SIZES;
use talaria_corpus::CorpusProfile;

/// A part of the measurement.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub enum Section {
    /// Builds from a dump
    Builds,
    /// The prefix tree
    Trees,
    /// Lookups under load, and memory
    Lookups,
    /// Durable uploads
    Uploads,
    /// Gossip between two servers
    Gossip,
    /// SKS in all parts
    Sks,
}

/// Options of the measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyserverOptions {
    /// Certificates in the dump and in the servers.
    pub certs: u64,
    /// Further dumps that talaria alone builds; it serves the last of them.
    pub growth: Vec<u64>,
    /// The profile of the certificates.
    pub profile: CorpusProfile,
    /// The page sizes, in bytes.
    pub page_sizes: Vec<u32>,
    /// Parts to skip.
    pub skip: Vec<Section>,
    /// Digests in the prefix trees of talaria; SKS builds a tree of the fewest of its own.
    pub digests: Vec<u64>,
    /// Certificates that are uploaded over several connections in one run. SKS gets a tenth.
    pub uploads: usize,
    /// Certificates that two servers do not share.
    pub differences: u64,
    /// Seconds of each load.
    pub load: Duration,
    /// Seconds after which a build of SKS with its smallest pages is given up.
    pub patience: Duration,
    /// The talaria executable.
    pub program: PathBuf,
    /// The SKS to compare with, if it is installed.
    pub sks: PathBuf,
    /// The load generator. Without it there are no figures for look-ups.
    pub wrk: PathBuf,
    /// A folder with room for eight times the certificates (1 KB each) of the largest dump.
    pub scratch: PathBuf,
    /// Runs of all that is repeated, of which the median is taken.
    pub runs: usize,
    /// The folder for tables and plots (`keyserver-build.csv` and others), if any.
    pub results: Option<PathBuf>,
}

impl Default for KeyserverOptions {
    fn default() -> Self {
        Self {
            certs: 200_000,
            growth: vec![100_000, 1_000_000],
            profile: CorpusProfile::small(),
            page_sizes: PAGE_SIZES.to_vec(),
            skip: Vec::new(),
            digests: vec![50_000, 100_000, 1_000_000],
            uploads: 4000,
            differences: 1000,
            load: Duration::from_secs(3),
            patience: Duration::from_secs(60),
            program: own_program(),
            sks: "sks".into(),
            wrk: "wrk".into(),
            scratch: std::env::temp_dir(),
            runs: 3,
            results: None,
        }
    }
}
