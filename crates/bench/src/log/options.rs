//! Options of the measurement.

use std::path::PathBuf;

/// Options of the measurement.
#[derive(Clone, Debug)]
pub struct LogOptions {
    /// Updates in each run.
    pub updates: usize,
    /// Runs that alternate between all ways.
    pub runs: usize,
    /// Runs of gpg and git, which take half a minute each.
    pub slow_runs: usize,
    /// Numbers of updates of a log that grows; those below 100 are left out.
    pub growth: Vec<usize>,
    /// The gpg to compare with.
    pub gpg: PathBuf,
    /// The command `talaria`, or a program that knows `--version` and `log --log FOLDER get OBJECT
    /// FIELD`.
    pub program: PathBuf,
    /// A folder on the disk to measure.
    pub scratch: PathBuf,
    /// The folder for CSV files.
    pub results: Option<PathBuf>,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self {
            updates: 1000,
            runs: 9,
            slow_runs: 3,
            growth: vec![10_000, 100_000, 1_000_000],
            gpg: "gpg".into(),
            program: "talaria".into(),
            scratch: std::env::temp_dir(),
            results: None,
        }
    }
}
