//! Errors of reading and writing messages.

use std::{fmt, io};

use talaria_cert::{ErrorKind, day};

use crate::accept::NotAccepted;
use crate::kind::MessageKind;

/// The reason why a message could not be made or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MessageError {
    /// The input is no OpenPGP message, or not one of the expected kind.
    #[error("not an OpenPGP message: {0}")]
    Malformed(&'static str),
    /// The input is OpenPGP data of another kind than the operation accepts.
    #[error("{}", other_kind(*found, wanted))]
    OtherKind {
        /// The kind of the input.
        found: MessageKind,
        /// The kind that the operation accepts.
        wanted: &'static str,
    },
    /// The message could be read, but its signatures do not meet the requirements. No content was
    /// released.
    #[error("the message is not accepted: {0}")]
    NotAccepted(NotAccepted),
    /// The message ends too early.
    #[error("the message is truncated: {0}")]
    Truncated(&'static str),
    /// An integrity check of the message failed.
    #[error("the message was modified: {0}")]
    Tampered(&'static str),
    /// The message names a key as its recipient that does not decrypt it, or the decrypted data was
    /// changed. The error does not tell which of the two: a sender of messages to a service could
    /// use the answers to compute with the service's key (RFC 9580, section 13.6 and before).
    #[error(
        "your key cannot decrypt the message: it was modified or damaged, or wrongly encrypted ({})",
        openers(recipients, 0)
    )]
    Unopened {
        /// The recipients of the message: key IDs or fingerprints.
        recipients: Vec<String>,
    },
    /// The message has no integrity protection, so its content cannot be trusted.
    #[error("the message has no integrity protection (packet type 9) and is not decrypted")]
    Unprotected,
    /// The message uses an algorithm or a form that is not supported.
    #[error("the message uses {0}, which is not supported")]
    Unsupported(String),
    /// No key and no passphrase decrypts the message.
    #[error("none of your keys and passphrases decrypts the message ({})", openers(recipients, *passwords))]
    NoSecret {
        /// The recipients of the message: key IDs or fingerprints.
        recipients: Vec<String>,
        /// The number of passphrases that can decrypt the message.
        passwords: usize,
    },
    /// A part of the message exceeds its limit, which nobody can raise.
    #[error("the message has more than {limit} {what}")]
    TooLarge {
        /// The part.
        what: &'static str,
        /// The limit, in the unit of the part.
        limit: u64,
    },
    /// The message exceeds one of the [`ReadLimits`](crate::ReadLimits), which the caller has set.
    #[error("the message has more than {limit} {what}")]
    OverLimit {
        /// The cost that is limited.
        what: Cost,
        /// The limit, in the unit of the cost.
        limit: u64,
    },
    /// A certificate has no key to encrypt to, or a key cannot sign.
    #[error("{name}: {why}")]
    Key {
        /// The fingerprint of the certificate or key.
        name: String,
        /// The reason.
        why: KeyFault,
    },
    /// The options of a call contradict each other.
    #[error("{0}")]
    Usage(&'static str),
    /// A secret key or a token refused the operation.
    #[error("cannot use the key")]
    Secret(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Reading the input failed.
    #[error("cannot read the input")]
    Read(#[source] io::Error),
    /// Writing the output failed.
    #[error("cannot write the output")]
    Write(#[source] io::Error),
}

/// The reason why a certificate or key cannot be used.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum KeyFault {
    /// It is revoked.
    Revoked,
    /// It has expired, at this time in seconds since 1970, if that is known.
    Expired(Option<u32>),
    /// A passphrase protects it, and none was given.
    Locked,
    /// None of the given passphrases unlocks it.
    WrongPassphrase,
    /// Only signatures with a broken hash function bind it, or its encryption key.
    Weak {
        /// What they bind.
        what: Bound,
        /// The hash function of the newest of them.
        hash: &'static str,
        /// The time of the newest of them, in seconds since 1970.
        made: u32,
    },
    /// Any other reason.
    Other(String),
}

/// What the self-signatures of a certificate bind.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Bound {
    /// The primary key and its user IDs.
    Certificate,
    /// The subkeys for encryption.
    EncryptionKey,
}

impl fmt::Display for KeyFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Revoked => "is revoked",
            Self::Expired(Some(end)) => return write!(f, "expired on {}", day(*end)),
            Self::Expired(None) => "has expired",
            Self::Locked => "is protected by a passphrase, and none was given",
            Self::WrongPassphrase => "the passphrase is wrong",
            Self::Weak { what, hash, made } => {
                let what = match what {
                    Bound::Certificate => "it",
                    Bound::EncryptionKey => "its encryption key",
                };
                let day = day(*made);
                return write!(
                    f,
                    "only signatures with {hash} bind {what}, the newest of {day}, and these no longer count"
                );
            }
            Self::Other(why) => why,
        })
    }
}

/// A cost of reading a message that the caller limits with [`ReadLimits`](crate::ReadLimits).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Cost {
    /// Content in relation to the size of the message:
    /// [`ReadLimits::expansion`](crate::ReadLimits::expansion).
    Expansion,
    /// Trying passphrases: [`ReadLimits::argon2_mib`](crate::ReadLimits::argon2_mib).
    Argon2,
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expansion => "times its size as content",
            Self::Argon2 => "units of Argon2 cost (MiB of memory times passes, over all tries)",
        })
    }
}

fn other_kind(found: MessageKind, wanted: &str) -> String {
    match found {
        MessageKind::Other => {
            format!("the input is not {wanted}, and not OpenPGP data of any other kind")
        }
        found => format!("the input is {found}, not {wanted}"),
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
    /// The kind.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Malformed(_) | Self::OtherKind { .. } | Self::Truncated(_) => {
                ErrorKind::Malformed
            }
            Self::NotAccepted(_) => ErrorKind::NotAccepted,
            Self::Tampered(_) | Self::Unopened { .. } | Self::Unprotected => ErrorKind::Tampered,
            Self::Unsupported(_) => ErrorKind::Unsupported,
            Self::NoSecret { .. } => ErrorKind::NoSecret,
            Self::TooLarge { .. } | Self::OverLimit { .. } => ErrorKind::TooLarge,
            Self::Key { .. } => ErrorKind::UnusableKey,
            Self::Usage(_) => ErrorKind::Usage,
            Self::Secret(_) => ErrorKind::KeyHolder,
            Self::Read(_) | Self::Write(_) => ErrorKind::Io,
        }
    }

    /// Turns an error of the input into a [`MessageError`]; a [`MessageError`] inside it is taken
    /// out.
    pub(crate) fn read(error: io::Error) -> Self {
        Self::unwrap(error, Self::Read)
    }

    /// Turns an error of the output into a [`MessageError`]; a [`MessageError`] inside it is taken
    /// out.
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

/// Lets a [`MessageError`] pass through `Read` and `Write`.
impl From<MessageError> for io::Error {
    fn from(error: MessageError) -> Self {
        match error {
            MessageError::Read(error) | MessageError::Write(error) => error,
            error => Self::other(error),
        }
    }
}

pub(crate) type Result<T> = std::result::Result<T, MessageError>;
