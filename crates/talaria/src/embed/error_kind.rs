//! The kinds of errors, for callers in other languages.

use talaria_log::{DraftError, LogError, SnapshotError, UpdateError, WitnessError};
use talaria_log_net::NetError;
use talaria_message::MessageError;
use talaria_store::StoreError;

use crate::error::Error;

/// The kind of an error, for callers in other languages.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ErrorKind {
    /// The arguments contradict each other.
    Usage,
    /// The bytes have the wrong format.
    Malformed,
    /// An integrity check of a message failed or is missing.
    Tampered,
    /// No key and no passphrase decrypts the message.
    NoSecret,
    /// A certificate has no key to encrypt to, or a key cannot sign or is locked.
    Key,
    /// A message uses an algorithm or a form that is not supported.
    Unsupported,
    /// A part of a message exceeds its limit.
    TooLarge,
    /// The store does not exist, or has no such certificate.
    NotFound,
    /// Several certificates match the name, or none matches it exactly.
    Ambiguous,
    /// A signature of the message is bad, or a required signature is missing.
    NotAccepted,
    /// A log does not allow a change, or is another log than expected.
    Refused,
    /// The store cannot be read.
    Store,
    /// A bug in talaria: a panic that was caught.
    Bug,
    /// Any other error.
    Other,
}

impl From<&Error> for ErrorKind {
    fn from(error: &Error) -> Self {
        match error {
            Error::Message(error) => Self::of_message(error),
            Error::Store(StoreError::Missing { .. } | StoreError::NotFound(_))
            | Error::NotFound { .. } => Self::NotFound,
            Error::Store(_) => Self::Store,
            Error::Bug => Self::Bug,
            Error::Ambiguous { .. }
            | Error::Inexact { .. }
            | Error::InexactUserId { .. }
            | Error::Unconfirmed { .. } => Self::Ambiguous,
            Error::Distrusted { .. } => Self::Key,
            Error::Log(error) => Self::of_log(error),
            Error::LogUpdate { source, .. } => Self::of_log(source),
            Error::Net(error) => Self::of_net(error),
            Error::NodeKey(_) => Self::Key,
            Error::Witness(error) => Self::of_witness(error),
            Error::Query(_) => Self::Usage,
            Error::Unrecognised { .. } => Self::Malformed,
            _ => Self::Other,
        }
    }
}

impl ErrorKind {
    fn of_net(error: &NetError) -> Self {
        match error {
            NetError::Own { .. } => Self::Usage,
            NetError::NotPublished { .. }
            | NetError::OwnNotPublished { .. }
            | NetError::OtherKey { .. }
            | NetError::NotANode { .. } => Self::Refused,
            NetError::Log(error) => Self::of_log(error),
            _ => Self::Other,
        }
    }

    fn of_witness(error: &WitnessError) -> Self {
        match error {
            WitnessError::Objection(_)
            | WitnessError::Unknown { .. }
            | WitnessError::OtherKey { .. } => Self::Refused,
            WitnessError::Name(_)
            | WitnessError::NotAWitness { .. }
            | WitnessError::Many
            | WitnessError::Cosigners { .. } => Self::Usage,
            WitnessError::NoKey { .. } => Self::Key,
            WitnessError::Request { .. } => Self::Malformed,
            _ => Self::Other,
        }
    }

    fn of_message(error: &MessageError) -> Self {
        match error {
            MessageError::Usage(_) => Self::Usage,
            MessageError::Malformed(_)
            | MessageError::OtherKind { .. }
            | MessageError::Truncated(_) => Self::Malformed,
            MessageError::NotAccepted(_) => Self::NotAccepted,
            MessageError::Tampered(_)
            | MessageError::Unopened { .. }
            | MessageError::Unprotected => Self::Tampered,
            MessageError::NoSecret { .. } => Self::NoSecret,
            MessageError::Key { .. } | MessageError::Secret(_) => Self::Key,
            MessageError::Unsupported(_) => Self::Unsupported,
            MessageError::TooLarge { .. } | MessageError::OverLimit { .. } => Self::TooLarge,
            _ => Self::Other,
        }
    }

    fn of_log(error: &LogError) -> Self {
        match error {
            LogError::Update(error) => match error {
                UpdateError::NoObject(_)
                | UpdateError::Absent { .. }
                | UpdateError::NoEntry(_)
                | UpdateError::NoDeletable(_) => Self::NotFound,
                UpdateError::Ambiguous { .. } => Self::Ambiguous,
                UpdateError::NotReader { .. } => Self::NoSecret,
                UpdateError::EncryptionLost(_) => Self::Refused,
                _ => Self::Usage,
            },
            LogError::NotALog { .. } => Self::NotFound,
            LogError::Draft(DraftError::Key(_)) | LogError::Signer(_) => Self::Key,
            LogError::Readers { source } => Self::of_message(source),
            LogError::Draft(_)
            | LogError::Genesis(_)
            | LogError::OtherLog { .. }
            | LogError::Unexpected { .. }
            | LogError::SnapshotNotInForce { .. }
            | LogError::BadSnapshot { .. } => Self::Refused,
            LogError::NoSnapshot { .. } => Self::NotFound,
            LogError::NotAnExport { .. }
            | LogError::DamagedExport { .. }
            | LogError::Snapshot { source: SnapshotError::Malformed(_), .. } => Self::Malformed,
            LogError::Snapshot { .. } => Self::Refused,
            _ => Self::Store,
        }
    }
}
