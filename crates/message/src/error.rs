//! What can go wrong with a message.

use std::io;

use crate::accept::NotAccepted;
use crate::kind::MessageKind;

/// Why a message could not be made or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MessageError {
    /// The bytes are no OpenPGP message, or not one of the wanted kind.
    #[error("not an OpenPGP message: {0}")]
    Malformed(&'static str),
    /// The input is OpenPGP data of another kind than the operation takes.
    #[error("{}", other_kind(*found, wanted))]
    OtherKind {
        /// What it is.
        found: MessageKind,
        /// What it should be.
        wanted: &'static str,
    },
    /// The message could be read, and its signatures are not those that it must have. Nothing of it was
    /// given out.
    #[error("the message is not accepted: {0}")]
    NotAccepted(NotAccepted),
    /// The message ends too early.
    #[error("the message is cut off: {0}")]
    Truncated(&'static str),
    /// What protects the message from changes does not hold.
    #[error("the message was changed: {0}")]
    Tampered(&'static str),
    /// A key that the message is for does not open it, or what it opens was changed. Which of the two is not
    /// said: whoever sends messages to a service could compute with its key by the answers (RFC 9580,
    /// section 13.6 and before).
    #[error(
        "the message was changed, or was encrypted to another key: it does not decrypt with yours"
    )]
    Unopened,
    /// Nothing protects the message from changes, so nothing in it can be believed.
    #[error("the message has no integrity protection (packet type 9) and is not decrypted")]
    Unprotected,
    /// Something in the message cannot be computed here.
    #[error("the message uses {0}, which is not supported")]
    Unsupported(String),
    /// None of the keys and passphrases opens the message.
    #[error("none of your keys and passphrases decrypts the message ({})", openers(recipients, *passwords))]
    NoSecret {
        /// Key IDs or fingerprints that the message names.
        recipients: Vec<String>,
        /// How many passphrases it can be opened with.
        passwords: usize,
    },
    /// A part of the message is larger than what is read of it.
    #[error("the message has {what} beyond the limit of {limit}")]
    TooLarge {
        /// Which part.
        what: &'static str,
        /// The limit, in the unit of the part.
        limit: u64,
    },
    /// A certificate cannot be encrypted to, or a key cannot sign.
    #[error("{name}: {why}")]
    Key {
        /// Its fingerprint.
        name: String,
        /// What is missing.
        why: String,
    },
    /// What was asked for does not go together.
    #[error("{0}")]
    Usage(&'static str),
    /// A secret key or a token refused to work.
    #[error("the key could not be used")]
    Secret(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Reading the input failed.
    #[error("cannot read the input")]
    Read(#[source] io::Error),
    /// Writing the output failed.
    #[error("cannot write the output")]
    Write(#[source] io::Error),
}

fn other_kind(found: MessageKind, wanted: &str) -> String {
    match found {
        MessageKind::Other => format!("it is not {wanted}, and not OpenPGP data of any known kind"),
        found => format!("it is {found}, not {wanted}"),
    }
}

fn openers(recipients: &[String], passwords: usize) -> String {
    match (recipients, passwords) {
        ([], 0) => "it names no recipient".to_owned(),
        ([], 1) => "encrypted with a passphrase".to_owned(),
        ([], n) => format!("encrypted with {n} passphrases"),
        (names, 0) => format!("encrypted to {}", names.join(", ")),
        (names, _) => format!("encrypted to {} or a passphrase", names.join(", ")),
    }
}

impl MessageError {
    /// An error of the input side, which may carry one of ours.
    pub(crate) fn read(error: io::Error) -> Self {
        Self::unwrap(error, Self::Read)
    }

    /// An error of the output side, which may carry one of ours.
    pub(crate) fn write(error: io::Error) -> Self {
        Self::unwrap(error, Self::Write)
    }

    fn unwrap(error: io::Error, outer: fn(io::Error) -> Self) -> Self {
        match error.downcast::<Self>() {
            Ok(ours) => ours,
            Err(error) => outer(error),
        }
    }

    pub(crate) fn secret(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Secret(error.into())
    }
}

/// Carries one of our errors through `Read` and `Write`.
impl From<MessageError> for io::Error {
    fn from(error: MessageError) -> Self {
        match error {
            MessageError::Read(error) | MessageError::Write(error) => error,
            error => Self::other(error),
        }
    }
}

pub(crate) type Result<T> = std::result::Result<T, MessageError>;
