//! Options of the measurement.

use std::path::PathBuf;

use crate::measure::own_program;

/// Options of the measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct RatiosOptions {
    /// The CSV file with the ratios of an earlier run.
    pub recorded: PathBuf,
    /// Whether to write the ratios of this run into that file.
    pub record: bool,
    /// Pairs of runs of each task.
    pub pairs: usize,
    /// The talaria executable.
    pub program: PathBuf,
    /// A keyring in OpenPGP's own format.
    pub keyring: PathBuf,
    /// A folder with a short path, since gpg has its sockets there.
    pub scratch: PathBuf,
}

impl Default for RatiosOptions {
    fn default() -> Self {
        Self {
            recorded: "crates/bench/ratios.csv".into(),
            record: false,
            pairs: 9,
            program: own_program(),
            keyring: "/usr/share/keyrings/debian-keyring.gpg".into(),
            scratch: std::env::temp_dir(),
        }
    }
}
