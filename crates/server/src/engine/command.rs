//! What operators say about certificates, by a command or over HTTP, and what comes of it.

use talaria_cert::{Fingerprint, Redaction, Timestamp};

/// A command about one certificate, which need not be in the store.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Command {
    /// The certificate is deleted. It may come back.
    Delete,
    /// The certificate is deleted and kept out.
    Block,
    /// The certificate may come back.
    Unblock,
    /// User IDs are removed and kept out.
    Redact(Vec<Redaction>),
    /// User IDs may come back.
    Unredact,
}

impl Command {
    /// The name, as operators type it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Delete => "delete",
            Self::Block => "block",
            Self::Unblock => "unblock",
            Self::Redact(_) => "redact",
            Self::Unredact => "unredact",
        }
    }
}

/// What a [`Command`] has done.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Outcome {
    /// The certificate was here, and is deleted.
    Deleted,
    /// There was no certificate to delete.
    NotHere,
    /// The certificate was here, is deleted, and is kept out.
    DeletedAndBlocked,
    /// The certificate was not here, and is kept out.
    Blocked,
    /// The certificate was kept out, and may come back.
    Unblocked,
    /// The certificate was not kept out.
    NotBlocked,
    /// The user IDs are removed from the certificate here, and kept out.
    Redacted,
    /// The certificate is not here. The user IDs will be kept out when it comes.
    RedactedBefore,
    /// User IDs were kept out, and may come back.
    Unredacted,
    /// No user ID was kept out.
    NotRedacted,
}

/// Something that a store keeps out.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum KeptOut {
    /// A certificate, and since when, if the log of changes still has it.
    Blocked {
        /// The certificate.
        fingerprint: Fingerprint,
        /// The time of the command.
        since: Option<Timestamp>,
    },
    /// User IDs of a certificate.
    Redacted {
        /// The certificate.
        fingerprint: Fingerprint,
        /// The user IDs.
        redaction: Redaction,
    },
}

impl KeptOut {
    /// The certificate.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        match self {
            Self::Blocked { fingerprint, .. } | Self::Redacted { fingerprint, .. } => *fingerprint,
        }
    }
}

impl Outcome {
    /// The outcome in words, such as `deleted and blocked`.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Deleted => "deleted",
            Self::NotHere => "not here",
            Self::DeletedAndBlocked => "deleted and blocked",
            Self::Blocked => "blocked",
            Self::Unblocked => "unblocked",
            Self::NotBlocked => "not blocked",
            Self::Redacted => "redacted",
            Self::RedactedBefore => "redacted before it is there",
            Self::Unredacted => "unredacted",
            Self::NotRedacted => "not redacted",
        }
    }

    /// Whether there was anything to do.
    #[must_use]
    pub fn did_something(self) -> bool {
        !matches!(self, Self::NotHere | Self::NotBlocked | Self::NotRedacted)
    }
}
