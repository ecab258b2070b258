//! The reasons why a log cannot begin, and why an entry or an update cannot be written.

use talaria_cert::ErrorKind;
use talaria_message::MessageError;

use super::standing::Standing;
use crate::action::REPLACED_MAX;
use crate::bytes::Malformed;
use crate::encrypted::{READERS_MAX, Unreadable};
use crate::name::{EntryId, KeyName, ObjectId};
use crate::refusal::Refusal;
use crate::snapshot::BadSnapshot;

/// A log cannot begin with an entry.
#[derive(Debug, thiserror::Error)]
pub enum GenesisError {
    /// The entry is no genesis.
    #[error("the entry does not begin a log")]
    NotGenesis,
    /// The author of genesis is no owner with this key, or the signature does not hold.
    #[error("genesis is not signed by an owner: {0}")]
    Refused(Refusal),
    /// The bytes are no genesis.
    #[error(transparent)]
    Malformed(#[from] Malformed),
}

impl GenesisError {
    /// The kind.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NotGenesis | Self::Refused(_) | Self::Malformed(_) => ErrorKind::Unexpected,
        }
    }
}

/// The reason why an entry cannot be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DraftError {
    /// The log would refuse the entry.
    #[error("the log does not allow it: {0}")]
    Refused(#[from] Refusal),
    /// The chain has two ends, or does not count any more.
    #[error("the chain of this key does not count any more: {0:?}")]
    Ended(Standing),
    /// A listener of this node rejects the change.
    #[error("a check of this node rejects it: {0}")]
    Rejected(String),
    /// The key is expired, by the certificate in the log.
    #[error(
        "{key} is expired by the certificate in this log; an owner must give a grant with a newer certificate"
    )]
    Expired {
        /// The key.
        key: KeyName,
    },
    /// The key for checkpoints is not that which genesis names.
    #[error("this is not the key of the checkpointer of this log")]
    NotCheckpointer,
    /// The snapshot to approve is wrong, or cannot be computed.
    #[error("the snapshot is not right: {0}")]
    Snapshot(#[from] BadSnapshot),
    /// The clock has reached its end.
    #[error("the clock of the log has reached its end")]
    Clock,
    /// An operation names entries of more chains than an entry can link to.
    #[error("the operation names entries of too many chains")]
    Links,
    /// The key does not sign.
    #[error("the key does not sign")]
    Key(#[source] MessageError),
    /// The signature of the key has no form that the log stores.
    #[error("the signature cannot be stored: {0}")]
    Signature(#[source] Malformed),
}

impl DraftError {
    /// The kind.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Refused(_)
            | Self::Ended(_)
            | Self::Rejected(_)
            | Self::Expired { .. }
            | Self::NotCheckpointer
            | Self::Snapshot(_)
            | Self::Clock
            | Self::Links => ErrorKind::Refused,
            Self::Key(error) => error.kind(),
            Self::Signature(_) => ErrorKind::Unexpected,
        }
    }
}

/// The reason why an update is no change of the log as it is.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum UpdateError {
    /// No object has this name.
    #[error("no object {0}")]
    NoObject(String),
    /// Several objects have this name.
    #[error("{name} is ambiguous: {} objects have this name", objects.len())]
    Ambiguous {
        /// The name.
        name: String,
        /// The objects, each with its creator.
        objects: Vec<(ObjectId, KeyName)>,
    },
    /// The text cannot name an object, or a field.
    #[error("{0:?} is no name: a name has 1 to 256 bytes, and no control characters")]
    Name(String),
    /// A counter takes integers only.
    #[error("{0} is a counter: its value is an integer that is added")]
    NotInteger(String),
    /// A counter has no value to remove.
    #[error("{0} is a counter: to take something away, add a negative number")]
    Counter(String),
    /// The field has no deletable value that is not deleted.
    #[error("{0} has no deletable value")]
    NoDeletable(String),
    /// A field with several elements, and no element is named.
    #[error("{0} has elements: name the one to remove")]
    WhichElement(String),
    /// A field with one value, and an element is named.
    #[error("{0} has one value: remove it without naming it")]
    OneValue(String),
    /// The field has no such value.
    #[error("{field} has no value{}{value}", if value.is_empty() { "" } else { " " })]
    Absent {
        /// The field.
        field: String,
        /// The value; empty for any.
        value: String,
    },
    /// Nobody can say which entries of the author count: two of them are at one place.
    #[error(
        "the author has made two different entries at one place: name the last entry of each device that counts"
    )]
    Forked,
    /// The log has no such entry.
    #[error("no entry {0} is in this log")]
    NoEntry(EntryId),
    /// The field is encrypted, and the author has not the key.
    #[error("{field} is encrypted, and you cannot write to it: {why}")]
    NotReader {
        /// The field.
        field: String,
        /// The reason why the key is not there.
        why: Unreadable,
    },
    /// The field was encrypted, and what began this does not count any more.
    #[error(
        "{0} was encrypted by an entry that does not count any more, so a value would be readable for all"
    )]
    EncryptionLost(String),
    /// The numbers of a counter cannot be encrypted.
    #[error("{0} is a counter, and counters cannot be encrypted")]
    EncryptedCounter(String),
    /// The readers of an epoch have too many keys.
    #[error(
        "the readers have {found} encryption keys together, and an epoch has at most {READERS_MAX}"
    )]
    TooManyReaders {
        /// The number of keys.
        found: usize,
    },
    /// More values are side by side than one entry can replace.
    #[error(
        "{field} has {found} values side by side, and one entry replaces at most {REPLACED_MAX}"
    )]
    TooMany {
        /// The field.
        field: String,
        /// The number of values.
        found: usize,
    },
}

impl UpdateError {
    /// The kind.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NoObject(_) | Self::NoDeletable(_) | Self::Absent { .. } | Self::NoEntry(_) => {
                ErrorKind::NotFound
            }
            Self::Ambiguous { .. } => ErrorKind::Ambiguous,
            Self::NotReader { .. } => ErrorKind::NoSecret,
            Self::EncryptionLost(_) => ErrorKind::Refused,
            Self::Name(_)
            | Self::NotInteger(_)
            | Self::Counter(_)
            | Self::WhichElement(_)
            | Self::OneValue(_)
            | Self::Forked
            | Self::EncryptedCounter(_)
            | Self::TooManyReaders { .. }
            | Self::TooMany { .. } => ErrorKind::Usage,
        }
    }
}
