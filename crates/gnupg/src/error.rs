//! Errors of GnuPG's files, and data that do not fit into them.

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};

use talaria_cert::{ErrorKind, Fingerprint};

/// Why a file could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GnupgError {
    /// The bytes do not start like a trust database of a version that is known.
    #[error("not a trust database of version 3")]
    NotTrustdb,
    /// The database is something else than keyboxd's.
    #[error("{} is not a database of keyboxd", path.display())]
    NotKeyboxd {
        /// The database.
        path: PathBuf,
    },
    /// The file or folder is something else than GnuPG's TOFU database.
    #[error("{} is not a TOFU database of GnuPG", path.display())]
    NotTofudb {
        /// The file or folder.
        path: PathBuf,
    },
    /// The TOFU database is of a version that is not known.
    #[error("{} is a TOFU database of version {found}, only version 1 is read", path.display())]
    TofudbVersion {
        /// The database.
        path: PathBuf,
        /// Its content.
        found: String,
    },
    /// More than is read or written.
    #[error("{} has more than {max} {what}", path.display())]
    TooMany {
        /// The file or folder.
        path: PathBuf,
        /// Of what.
        what: &'static str,
        /// The limit.
        max: usize,
    },
    /// A transaction was broken off, or is not brought into the file yet. Nothing was changed.
    #[error("{} has an unfinished transaction: let gpg open the database once, then try again", path.display())]
    Unfinished {
        /// The database.
        path: PathBuf,
    },
    /// The data are damaged.
    #[error("damaged at offset {offset}: {what}")]
    Damaged {
        /// The fault.
        what: String,
        /// Bytes from the start of the file.
        offset: u64,
    },
    /// A line of an ownertrust list has not the form `FINGERPRINT:VALUE:`.
    #[error("line {line} of the ownertrust list: {what}")]
    Ownertrust {
        /// Number of the line, from 1.
        line: usize,
        /// The fault.
        what: &'static str,
    },
    /// Another process holds the lock for longer than the time limit.
    #[error("{} is locked by process {holder}", path.display())]
    Locked {
        /// The file that is locked.
        path: PathBuf,
        /// Process and machine, as the lock names them.
        holder: String,
    },
    /// GnuPG keeps the keys of this folder in keyboxd and would not look at a file.
    #[error("{} uses keyboxd: import the certificates with gpg", path.display())]
    UsesKeyboxd {
        /// The home directory.
        path: PathBuf,
    },
    /// SQLite refused.
    #[error("cannot read {}", path.display())]
    Database {
        /// The database.
        path: PathBuf,
        /// The error of SQLite, for its text. Its type is not part of the interface.
        source: Box<dyn Error + Send + Sync>,
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
}

impl GnupgError {
    /// The kind.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NotTrustdb
            | Self::NotKeyboxd { .. }
            | Self::NotTofudb { .. }
            | Self::Unfinished { .. }
            | Self::Damaged { .. }
            | Self::Ownertrust { .. }
            | Self::Database { .. } => ErrorKind::Malformed,
            Self::TofudbVersion { .. } => ErrorKind::Unsupported,
            Self::TooMany { .. } => ErrorKind::TooLarge,
            Self::Locked { .. } | Self::UsesKeyboxd { .. } => ErrorKind::Store,
            Self::Io { .. } => ErrorKind::Io,
        }
    }

    /// For `map_err`: adds the file and the operation.
    pub(crate) fn io<'a>(
        action: &'static str,
        path: &'a Path,
    ) -> impl FnOnce(io::Error) -> Self + 'a {
        move |source| Self::Io { action, path: path.to_owned(), source }
    }
}

/// A certificate that was not written because the format, or GnuPG, has no room for it.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{fingerprint}: {reason}")]
pub struct LeftOut {
    /// The certificate.
    pub fingerprint: Fingerprint,
    /// Why.
    pub reason: LeftOutReason,
}

/// Why a certificate was not written.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LeftOutReason {
    /// Larger than GnuPG reads from a keybox.
    #[error("it has {bytes} bytes, and GnuPG reads at most {max}")]
    TooLarge {
        /// Bytes of the entry.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// A key of a version that the format has no place for.
    #[error("keys of version {version} cannot be written there")]
    Version {
        /// The version.
        version: u8,
    },
    /// The existing file cannot be read and was left alone.
    #[error("{} is damaged and was not changed: {reason}", path.display())]
    Damaged {
        /// The file that is there.
        path: PathBuf,
        /// The fault.
        reason: talaria_cert::Reason,
    },
}
