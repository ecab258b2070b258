//! The report on SKS again (2011), and what has to hold for a keyserver today: built from a dump, asked,
//! written to and gossiped with, by talaria and by SKS in turn.
//!
//! Measures the program as it is installed: `talaria build` and `talaria serve` beside
//! `sks build` and `sks db`, each with the data of the other. wrk asks; what uploads is a small
//! client of ours, which looks at every answer. Repetitions alternate, so that both sides have the
//! same weather.

mod builds;
mod client;
mod dump;
mod gossip;
mod queries;
mod server;
pub(crate) mod sks;
mod trees;
mod uploads;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::BenchError;
use crate::generate::CorpusProfile;
use crate::measure::own_program;
use crate::results;
use crate::storage::PAGE_SIZES;
use crate::table::Table;

use dump::Dump;
use sks::Sks;

/// A part of the measurement.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Part {
    /// Builds from a dump.
    Builds,
    /// The prefix tree.
    Trees,
    /// Lookups under load, and memory.
    Queries,
    /// Durable uploads.
    Uploads,
    /// Gossip between two servers.
    Gossip,
    /// SKS in all of them.
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
    pub skip: Vec<Part>,
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

/// Data that all parts share.
struct Bench<'a> {
    options: &'a KeyserverOptions,
    folder: &'a Path,
    dump: &'a Dump,
    /// Whether SKS is installed and selected.
    has_sks: bool,
}

impl Bench<'_> {
    fn has(&self, part: Part) -> bool {
        !self.options.skip.contains(&part)
    }

    fn runs(&self) -> usize {
        self.options.runs.max(1)
    }

    /// A place for SKS, `None` if it is not measured.
    fn sks(&self, name: &str) -> Result<Option<Sks>, BenchError> {
        let make = || Sks::new(&self.options.sks, &self.folder.join(name), "127.0.0.1");
        self.has_sks.then(make).transpose()
    }
}

/// A table, and the name of the file that it is kept in.
struct Results {
    name: &'static str,
    table: Table,
}

/// Measures all parts, prints a table for each and returns them.
///
/// # Errors
///
/// When talaria fails or answers wrongly, or the scratch folder cannot be written. What is not
/// installed is left out.
pub fn run(options: &KeyserverOptions, out: &mut dyn Write) -> Result<Vec<Table>, BenchError> {
    // Short, since SKS puts sockets into it.
    let folder = tempfile::Builder::new()
        .prefix("ks")
        .tempdir_in(&options.scratch)
        .map_err(BenchError::io("make a folder in", &options.scratch))?;
    let mut counts = options.growth.clone();
    counts.push(options.certs);
    let dump = Dump::write(&options.profile, &counts, folder.path())?;
    let has_sks = !options.skip.contains(&Part::Sks) && sks::is_there(&options.sks);
    let bench = Bench { options, folder: folder.path(), dump: &dump, has_sks };
    type Measure = fn(&Bench<'_>) -> Result<Option<Results>, BenchError>;
    let parts: [(Part, Measure); 5] = [
        (Part::Builds, |bench| builds::run(bench).map(Some)),
        (Part::Trees, |bench| trees::run(bench).map(Some)),
        (Part::Queries, queries::run),
        (Part::Uploads, |bench| uploads::run(bench).map(Some)),
        (Part::Gossip, |bench| gossip::run(bench).map(Some)),
    ];
    let mut tables = Vec::new();
    for (_, measure) in parts.iter().filter(|(part, _)| bench.has(*part)) {
        let Some(Results { name, table }) = measure(&bench)? else { continue };
        table.print(out).map_err(BenchError::Output)?;
        out.flush().map_err(BenchError::Output)?;
        results::save(options.results.as_deref(), name, &table)?;
        tables.push(table);
    }
    Ok(tables)
}

/// The median of figures, of at least one.
fn middle(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// A figure as a number of which three digits count.
#[expect(clippy::cast_precision_loss, reason = "three digits count")]
fn float(count: u64) -> f64 {
    count as f64
}
