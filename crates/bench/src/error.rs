//! Why a measurement could not be made.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

use talaria_log::LogError;
use talaria_store::StoreError;

/// Why a measurement could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    /// A program that is measured did not start.
    #[error("cannot run {program}")]
    Start {
        /// The command.
        program: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A program that is measured failed, so its time means nothing.
    #[error("{command} failed ({status}): {stderr}")]
    Failed {
        /// The program and its arguments.
        command: String,
        /// How it ended.
        status: ExitStatus,
        /// The end of its output.
        stderr: String,
    },
    /// A program that is measured did not end and was stopped.
    #[error(
        "{command} did not end within {after_s} s and was stopped, after {cpu_s:.1} s of CPU time"
    )]
    Endless {
        /// The program and its arguments.
        command: String,
        /// The seconds that it had.
        after_s: u64,
        /// The CPU time until then.
        cpu_s: f64,
    },
    /// A backup program restored something else than it was given.
    #[error("{program} restored something else than was backed up")]
    Restored {
        /// The program.
        program: String,
    },
    /// Something that a measurement needs could not be made.
    #[error("cannot make {what}: {why}")]
    Prepare {
        /// The object that could not be made.
        what: String,
        /// The reason.
        why: String,
    },
    /// The measurement was asked to stop.
    #[error("the measurement was stopped")]
    Stopped,
    /// A server that is measured does not answer.
    #[error("{server} does not answer: {said}")]
    Silent {
        /// Its name and address.
        server: String,
        /// The last attempt, or the last output.
        said: String,
    },
    /// A server answered otherwise than it has to, so its speed means nothing.
    #[error("{server} answered {request} with {status}: {said}")]
    Answer {
        /// Its name.
        server: String,
        /// The request.
        request: String,
        /// The status of HTTP.
        status: u16,
        /// The beginning of its answer.
        said: String,
    },
    /// There is nothing in the input to measure with.
    #[error("{} has no certificate with a user ID, an address and a subkey", path.display())]
    Empty {
        /// The keyring.
        path: PathBuf,
    },
    /// An operation on a file failed.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// The operation that failed.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A file of results is not as this program writes it.
    #[error("{} is not a table of results: its quotes or columns do not match", path.display())]
    Csv {
        /// The file.
        path: PathBuf,
    },
    /// A folder has no results.
    #[error("{} has no results (*.csv)", folder.display())]
    NoResults {
        /// The folder.
        folder: PathBuf,
    },
    /// A page of text does not have a place for each table.
    #[error("{} {what}", page.display())]
    Page {
        /// The page.
        page: PathBuf,
        /// The reason.
        what: String,
    },
    /// A log refused.
    #[error(transparent)]
    Log(LogError),
    /// The store refused.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The results could not be printed.
    #[error("cannot write the results")]
    Output(#[source] io::Error),
}

impl BenchError {
    /// Adds the operation and the file.
    pub(crate) fn io(action: &'static str, path: impl Into<PathBuf>) -> impl Fn(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { action, path: path.clone(), source }
    }
}
