//! The reasons why a log in a folder could not do what was asked.

use std::io;
use std::path::PathBuf;

use talaria_cert::ErrorKind;
use talaria_message::MessageError;

use crate::bytes::Malformed;
use crate::certificate::SignerError;
use crate::log::error::{DraftError, GenesisError, UpdateError};
use crate::name::EntryId;
use crate::refusal::Refusal;
use crate::snapshot::{BadSnapshot, EVIDENCE_MAX};
use crate::snapshot_file::SnapshotError;

/// The reason why a log in a folder could not do what was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// An operation on a file failed.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// The operation.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The folder has no log.
    #[error("{} has no log", path.display())]
    NotALog {
        /// The folder.
        path: PathBuf,
    },
    /// There is something in the folder where a log is to be made.
    #[error("{} is not empty", path.display())]
    Occupied {
        /// The folder.
        path: PathBuf,
    },
    /// A segment has bytes that no crash leaves behind. Nothing was changed.
    #[error("{} is damaged at offset {offset}", path.display())]
    Damaged {
        /// The segment.
        path: PathBuf,
        /// The place of the damage.
        offset: u64,
    },
    /// A file is no export of a log.
    #[error("{name} is not an export of a log: {source}")]
    NotAnExport {
        /// The name of the file.
        name: String,
        /// The reason.
        source: Malformed,
    },
    /// An export is damaged, or cut off.
    #[error("{name} is damaged or cut off after {entries} whole entries: {source}")]
    DamagedExport {
        /// The name of the file.
        name: String,
        /// The number of entries before the damage.
        entries: u64,
        /// The reason.
        source: Malformed,
    },
    /// An entry of the file belongs to another log than that of the folder.
    #[error("{name} has an entry of another log, {found}")]
    OtherLog {
        /// The name of the file.
        name: String,
        /// The log of the file.
        found: EntryId,
    },
    /// An entry on disk is not one that this node can have admitted.
    #[error("the entry {id} in {} is refused: {refusal}", path.display())]
    Stored {
        /// The segment or folder.
        path: PathBuf,
        /// The entry.
        id: EntryId,
        /// The reason.
        refusal: Box<Refusal>,
    },
    /// The caller expects another log.
    #[error("{name} has the log {found}, not {wanted}")]
    Unexpected {
        /// The name of the file or folder.
        name: String,
        /// The log that is there.
        found: EntryId,
        /// The log that the caller expects.
        wanted: EntryId,
    },
    /// A log cannot begin with this entry.
    #[error(transparent)]
    Genesis(#[from] GenesisError),
    /// An entry cannot be written.
    #[error(transparent)]
    Draft(#[from] DraftError),
    /// An update is no change of the log as it is.
    #[error(transparent)]
    Update(#[from] UpdateError),
    /// A certificate is not fit to sign entries.
    #[error(transparent)]
    Signer(#[from] SignerError),
    /// The key of an epoch cannot be encrypted for its readers.
    #[error("the key cannot be encrypted for the readers: {source}")]
    Readers {
        /// The reason.
        source: MessageError,
    },
    /// The entry is no snapshot of this log.
    #[error("the log has no snapshot {id}")]
    NoSnapshot {
        /// The entry.
        id: EntryId,
    },
    /// A snapshot has not enough owners, or does not count.
    #[error(
        "the snapshot {id} is not in force: {agreed} of the owners have signed it, and the log demands {needed}"
    )]
    SnapshotNotInForce {
        /// Its entry.
        id: EntryId,
        /// The number of owners whose entries count.
        agreed: usize,
        /// The threshold.
        needed: u8,
    },
    /// So many entries show who has signed a snapshot that no file can have them.
    #[error("more than {EVIDENCE_MAX} entries show who has signed the snapshot {id}")]
    SnapshotEvidence {
        /// Its entry.
        id: EntryId,
    },
    /// A snapshot in the log is wrong.
    #[error("the snapshot {id} is not right: {source}")]
    BadSnapshot {
        /// Its entry.
        id: EntryId,
        /// The reason.
        source: BadSnapshot,
    },
    /// A file does not show what the log was.
    #[error("{name} does not show what the log was: {source}")]
    Snapshot {
        /// The name of the file.
        name: String,
        /// The reason.
        source: SnapshotError,
    },
    /// An entry has no form on disk.
    #[error("an entry cannot be written: {source}")]
    Unwritable {
        /// The reason.
        source: Malformed,
    },
    /// Another process has the log open.
    #[error("another process has the log in {} open", path.display())]
    InUse {
        /// The folder.
        path: PathBuf,
    },
    /// An earlier write failed, so that the log in memory is ahead of that on disk. Open the log
    /// again.
    #[error("an earlier write to the log failed")]
    Failed,
    /// The system gives no random numbers.
    #[error("the system gives no random numbers")]
    Random,
}

impl LogError {
    /// The kind.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NotALog { .. } | Self::NoSnapshot { .. } => ErrorKind::NotFound,
            Self::Occupied { .. } => ErrorKind::Exists,
            Self::NotAnExport { .. } | Self::DamagedExport { .. } => ErrorKind::Malformed,
            Self::OtherLog { .. } | Self::Unexpected { .. } => ErrorKind::Unexpected,
            Self::Genesis(error) => error.kind(),
            Self::Draft(error) => error.kind(),
            Self::Update(error) => error.kind(),
            Self::Signer(error) => error.kind(),
            Self::Readers { source } => source.kind(),
            Self::SnapshotNotInForce { .. } => ErrorKind::Refused,
            Self::BadSnapshot { .. } => ErrorKind::Unproven,
            Self::Snapshot { source, .. } => source.kind(),
            Self::Damaged { .. } | Self::Stored { .. } | Self::Failed => ErrorKind::Store,
            Self::SnapshotEvidence { .. }
            | Self::Unwritable { .. }
            | Self::InUse { .. }
            | Self::Random
            | Self::Io { .. } => ErrorKind::StoreIo,
        }
    }
}
