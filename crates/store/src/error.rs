//! Errors of a store.

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;
use talaria_cert::{ErrorKind, Fingerprint, TooCostly};

use crate::file_kind::file_kind;
use crate::number::CertId;
use crate::second_name::SecondName;

/// Why an operation on the store failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// There is no store at the path.
    #[error("no store at {}", path.display())]
    Missing {
        /// The path.
        path: PathBuf,
    },
    /// There is a file where a store is to be built.
    #[error("cannot build {}: it already exists", path.display())]
    Exists {
        /// The path.
        path: PathBuf,
    },
    /// The file is not a store.
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
        /// Format of the store.
        found: i64,
        /// The newest format that this version knows.
        known: i64,
    },
    /// The file was written by an older talaria, in a format that is read only after an upgrade.
    /// Opening it for writing upgrades it. Nothing was changed.
    #[error(
        "{} has store format {found}, which must be upgraded to {known} before it can be read",
        path.display()
    )]
    Outdated {
        /// The store.
        path: PathBuf,
        /// Format of the store.
        found: i64,
        /// The format that this version reads and writes.
        known: i64,
    },
    /// There is no store, but a log or journal is there. SQLite would apply that file to the next
    /// store at this path.
    #[error(
        "no store at {}, but its log {} exists and may have changes",
        path.display(), log.display()
    )]
    Orphan {
        /// The store.
        path: PathBuf,
        /// The log or journal file.
        log: PathBuf,
    },
    /// A write to a store that was opened for reading, or that is not writable.
    #[error("{} is read-only", path.display())]
    ReadOnly {
        /// The store.
        path: PathBuf,
    },
    /// The database has a second name, and was to be opened for writing. Nothing was changed.
    #[error(
        "{} {name}; programs that use different names of a store lose each other's changes", path.display()
    )]
    SecondName {
        /// The store.
        path: PathBuf,
        /// The kind of the second name.
        name: SecondName,
    },
    /// The log has changes, and this user can neither read an index of it nor make one, for want of
    /// permission to write to the folder of the store.
    #[error(
        "{} has changes that are not in {} yet, and reading them needs an index in its folder, which is not writable",
        log.display(), path.display()
    )]
    NoIndex {
        /// The store.
        path: PathBuf,
        /// The log, or the journal of a killed process.
        log: PathBuf,
    },
    /// Another process has changed the store, while it was read without locks for want of
    /// permission to write to its folder.
    #[error("{} was changed while it was read", path.display())]
    Changed {
        /// The store.
        path: PathBuf,
    },
    /// Another process has locked the store for longer than the time limit.
    #[error("{} is in use by another process", path.display())]
    Busy {
        /// The store.
        path: PathBuf,
    },
    /// The store or its log was moved, replaced or deleted while it was open. The change does not
    /// count.
    #[error("{} or its log was moved, replaced or deleted while it was in use", path.display())]
    Moved {
        /// The store.
        path: PathBuf,
    },
    /// The disk is full. Nothing was changed.
    #[error("no space left on the disk of {}", path.display())]
    Full {
        /// The store.
        path: PathBuf,
    },
    /// A file of the store would be larger than this process may write (`ulimit -f`). Nothing was
    /// changed.
    #[error("file too large: {} cannot grow beyond the limit on the size of files", path.display())]
    TooLarge {
        /// The store.
        path: PathBuf,
    },
    /// The data on disk are not those that were written.
    #[error("{} is damaged: {what}", path.display())]
    Damaged {
        /// The store.
        path: PathBuf,
        /// The damaged object.
        what: String,
    },
    /// A certificate or its verdicts are not those that were written. The rest of the store may be
    /// good.
    #[error(
        "{} is damaged: certificate {} is missing, or does not match its checksum", path.display(),
        fingerprint.map_or_else(|| format!("number {}", id.get()), |fingerprint| fingerprint.to_string())
    )]
    DamagedCert {
        /// The store.
        path: PathBuf,
        /// The number of the certificate in the store.
        id: CertId,
        /// The fingerprint in the row of the certificate, if it can be read.
        fingerprint: Option<Fingerprint>,
    },
    /// The given certificates take more CPU time than [`crate::Preparation::work`] allows. Nothing
    /// was changed.
    #[error(transparent)]
    TooCostly(#[from] TooCostly),
    /// The copies that the store has of the given certificates are too long to be changed together.
    /// Nothing was changed.
    #[error(
        "the copies of these certificates have more than {} MiB; offer fewer at once", bytes_max >> 20
    )]
    TooLong {
        /// The bytes of copies that may be changed together.
        bytes_max: usize,
    },
    /// The caller named a certificate that is not in the store.
    #[error("no certificate {0}")]
    NotFound(Fingerprint),
    /// An operation on the file failed.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// The operation that failed.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// SQLite returned an error that has no variant of its own.
    #[error("{}: {source}", path.display())]
    Engine {
        /// The store.
        path: PathBuf,
        /// The error of SQLite, for its text. Its type is not part of the interface.
        source: Box<dyn Error + Send + Sync>,
    },
}

impl StoreError {
    /// The kind.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NotFound(_) => ErrorKind::NotFound,
            Self::Missing { .. } => ErrorKind::NoStore,
            Self::Exists { .. }
            | Self::NoIndex { .. }
            | Self::Changed { .. }
            | Self::Full { .. }
            | Self::TooLarge { .. }
            | Self::Io { .. } => ErrorKind::StoreIo,
            Self::Foreign { .. }
            | Self::Format { .. }
            | Self::Outdated { .. }
            | Self::Orphan { .. }
            | Self::ReadOnly { .. }
            | Self::SecondName { .. }
            | Self::Busy { .. }
            | Self::Moved { .. }
            | Self::Damaged { .. }
            | Self::DamagedCert { .. }
            | Self::TooCostly(_)
            | Self::TooLong { .. }
            | Self::Engine { .. } => ErrorKind::Store,
        }
    }

    /// Converts an error of SQLite on the store at `path`.
    pub(crate) fn engine(path: &Path, source: rusqlite::Error) -> Self {
        let path = path.to_owned();
        match source.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt) => Self::Damaged { path, what: source.to_string() },
            Some(ErrorCode::NotADatabase) => Self::Foreign { path },
            Some(ErrorCode::DiskFull) => Self::Full { path },
            Some(ErrorCode::ReadOnly) => Self::ReadOnly { path },
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Busy { path },
            Some(ErrorCode::SystemIoFailure) if is_at_size_limit(&source) => {
                Self::TooLarge { path }
            }
            Some(ErrorCode::CannotOpen) => {
                // SQLite does not give the reason; the operating system does.
                match file_kind(&path).err() {
                    Some(source) => Self::Io { action: "open", path, source },
                    None => Self::Engine { path, source: source.into() },
                }
            }
            _ => Self::Engine { path, source: source.into() },
        }
    }
}

/// Whether a write failed because of the limit on the size of files. SQLite does not give the
/// reason of the system. If the process has such a limit, it is by far the most likely one: a full
/// disk has an error of its own.
fn is_at_size_limit(error: &rusqlite::Error) -> bool {
    use rusqlite::ffi::{SQLITE_IOERR_SHMSIZE, SQLITE_IOERR_TRUNCATE, SQLITE_IOERR_WRITE};
    use rustix::process::{Resource, getrlimit};

    let code = error.sqlite_error().map(|error| error.extended_code);
    let is_growing = [SQLITE_IOERR_WRITE, SQLITE_IOERR_TRUNCATE, SQLITE_IOERR_SHMSIZE];
    code.is_some_and(|code| is_growing.contains(&code))
        && getrlimit(Resource::Fsize).current.is_some()
}
