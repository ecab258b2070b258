//! Options of the measurement.

use std::env;
use std::path::PathBuf;

use crate::measure::own_program;

/// Options of the measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct BackupOptions {
    /// The number of files with one byte each; 0 leaves this measurement out.
    pub files: usize,
    /// The length of the large file in bytes; 0 leaves this measurement out.
    pub bytes: u64,
    /// A folder with a source tree, if it is to be measured.
    pub tree: Option<PathBuf>,
    /// Numbers of chunks in the repositories whose memory is measured.
    pub chunks: Vec<u64>,
    /// The talaria executable.
    pub program: PathBuf,
    /// A folder on the disk that is to be measured.
    pub scratch: PathBuf,
    /// Runs of which the median is taken. The programs take turns.
    pub runs: usize,
    /// Runs of each profile, in turns, from which the cost of encryption is computed; 0 leaves it
    /// out.
    pub profile_runs: usize,
    /// The folder for tables and plots, if any.
    pub results: Option<PathBuf>,
}

impl Default for BackupOptions {
    fn default() -> Self {
        Self {
            files: 102_400,
            bytes: 1_000_000_000,
            tree: None,
            chunks: Vec::new(),
            program: own_program(),
            scratch: env::temp_dir(),
            runs: 5,
            profile_runs: 10,
            results: None,
        }
    }
}
