//! What can go wrong with a store.

use std::io;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;
use talaria_cert::Fingerprint;

use crate::place::file_kind;

/// Why the store could not do what was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// There is no store at the path.
    #[error("no store at {}", path.display())]
    Missing {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// The file is something else.
    #[error("{} is not a talaria store", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// The file was written by a newer talaria. Nothing was changed.
    #[error("{} has store format {found}, this version reads up to {known}", path.display())]
    Format {
        /// The store.
        path: PathBuf,
        /// Its format.
        found: i64,
        /// The newest format known here.
        known: i64,
    },
    /// The file was written by an older talaria, and cannot be written to make it one of this format.
    /// Nothing was changed.
    #[error(
        "{} has store format {found}, and cannot be written to make that {known}", path.display()
    )]
    Outdated {
        /// The store.
        path: PathBuf,
        /// Its format.
        found: i64,
        /// The format that this version reads and writes.
        known: i64,
    },
    /// There is no store, but the log or journal of one, which would become that of the next store there.
    #[error(
        "there is no store at {}, but {} is there, which may hold changes of one",
        path.display(), log.display()
    )]
    Orphan {
        /// The store.
        path: PathBuf,
        /// Its log or journal.
        log: PathBuf,
    },
    /// A write to a store that was opened for reading, or that cannot be written.
    #[error("{} is read-only", path.display())]
    ReadOnly {
        /// The store.
        path: PathBuf,
    },
    /// Another process has held the store for longer than the time limit.
    #[error("{} is in use by another process", path.display())]
    Busy {
        /// The store.
        path: PathBuf,
    },
    /// The disk has no room left. Nothing was changed.
    #[error("no space left on the disk of {}", path.display())]
    Full {
        /// The store.
        path: PathBuf,
    },
    /// What is on disk is not what was written.
    #[error("{} is damaged: {what}", path.display())]
    Damaged {
        /// The store.
        path: PathBuf,
        /// The object that is damaged.
        what: String,
    },
    /// The caller named a certificate that the store does not have.
    #[error("no certificate {0}")]
    NotFound(Fingerprint),
    /// An operation on the file failed.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// The engine refused for a reason that has no variant of its own.
    #[error("{}: {source}", path.display())]
    Engine {
        /// The store.
        path: PathBuf,
        /// What SQLite said.
        source: rusqlite::Error,
    },
}

impl StoreError {
    /// Sorts an error of SQLite on the store at `path`.
    pub(crate) fn engine(path: &Path, source: rusqlite::Error) -> Self {
        let path = path.to_owned();
        match source.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt) => Self::Damaged { path, what: source.to_string() },
            Some(ErrorCode::NotADatabase) => Self::Foreign { path },
            Some(ErrorCode::DiskFull) => Self::Full { path },
            Some(ErrorCode::ReadOnly) => Self::ReadOnly { path },
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Busy { path },
            Some(ErrorCode::CannotOpen) => {
                // The engine does not say why; the system does.
                match file_kind(&path).err() {
                    Some(source) => Self::Io { action: "open", path, source },
                    None => Self::Engine { path, source },
                }
            }
            _ => Self::Engine { path, source },
        }
    }
}
