//! Errors of a backup.

use std::io;

use talaria_cert::ErrorKind;
use talaria_message::MessageError;

/// The result of an operation on a repository.
pub(crate) type Result<T> = std::result::Result<T, BackupError>;

/// An error of a repository or of the files that are backed up or restored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// The storage does not have the object.
    #[error("{name} is missing in the repository")]
    Missing {
        /// The name of the object.
        name: String,
    },
    /// The storage already has an object of this name.
    #[error("{name} already exists in the repository")]
    Exists {
        /// The name of the object.
        name: String,
    },
    /// An object is not what its name, its signature or the format says.
    #[error("{name} is damaged or was changed: {why}")]
    Damaged {
        /// The name of the object.
        name: String,
        /// The reason.
        why: String,
    },
    /// The repository, or a part of it, has a format that this version does not know.
    #[error("{name} has a newer format: {found}; upgrade talaria to read it")]
    Newer {
        /// The name of the object.
        name: String,
        /// The first line of the object.
        found: String,
    },
    /// A snapshot is missing, so a prune cannot know what it needs.
    #[error("{what}: a prune would delete what only it needs")]
    Gap {
        /// The identifier of the snapshot.
        id: String,
        /// The fault in its chain, in words.
        what: String,
    },
    /// The configuration does not allow the operation, or the repository is not the expected one.
    #[error("{0}")]
    Refused(String),
    /// There is a repository already where one would be made.
    #[error("a backup repository exists here already")]
    Occupied,
    /// The repository has no snapshot, or the snapshot no path, of the name that the caller gave.
    #[error("{0}")]
    NotFound(String),
    /// The repository has no snapshot at all.
    #[error("the repository has no snapshot yet")]
    Empty,
    /// None of the caller's secret keys decrypts the keys of the repository.
    #[error(
        "none of your secret keys belongs to a reader ({readers}) or a client ({clients}) of the repository"
    )]
    NoKey {
        /// The fingerprints of the readers.
        readers: String,
        /// The fingerprints of the clients, or `none`.
        clients: String,
    },
    /// The storage failed.
    #[error("{name}: {source}")]
    Storage {
        /// The name of the object or folder.
        name: String,
        /// The error of the storage.
        source: io::Error,
    },
    /// A file that is backed up or restored failed.
    #[error("{path}: {source}")]
    File {
        /// The path, escaped.
        path: String,
        /// The error of the file system.
        source: io::Error,
    },
    /// The caller cancelled the operation.
    #[error("cancelled")]
    Cancelled,
    /// An OpenPGP operation on an object failed.
    #[error("{name}: {source}")]
    Message {
        /// The name of the object.
        name: String,
        /// The error of the OpenPGP operation.
        source: MessageError,
    },
}

impl BackupError {
    /// The kind.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Missing { .. } | Self::Damaged { .. } | Self::Newer { .. } | Self::Gap { .. } => {
                ErrorKind::Store
            }
            Self::Exists { .. } | Self::Occupied => ErrorKind::Exists,
            Self::Refused(_) => ErrorKind::Refused,
            Self::NotFound(_) | Self::Empty | Self::NoKey { .. } => ErrorKind::NotFound,
            Self::Storage { .. } | Self::File { .. } => ErrorKind::Io,
            Self::Cancelled => ErrorKind::Interrupted,
            Self::Message { source, .. } => source.kind(),
        }
    }

    /// Whether the storage failed, so that nothing is known of the object.
    pub(crate) fn is_of_storage(&self) -> bool {
        matches!(self, Self::Storage { .. })
    }

    /// Damage of the object `name`.
    pub(crate) fn damaged(name: impl Into<String>, why: impl Into<String>) -> Self {
        Self::Damaged { name: name.into(), why: why.into() }
    }
}
