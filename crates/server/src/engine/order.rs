//! Changes that operators and owners order, and what came of them.

use talaria_cert::Fingerprint;
use talaria_store::{IngestOutcome, Intake, Redaction};

/// An order about one certificate.
#[derive(Debug)]
pub(crate) struct Order {
    pub(crate) fingerprint: Fingerprint,
    pub(crate) wish: Wish,
    /// The order holds only if the certificate is here and has not changed after this time (seconds since 1970).
    pub(crate) unless_changed_since: Option<u32>,
}

/// What is ordered.
#[derive(Debug)]
pub(crate) enum Wish {
    /// Deleted, and may come back.
    Delete,
    /// Deleted, and kept out.
    Block,
    Unblock,
    Redact(Vec<Redaction>),
    Unredact,
    /// Deleted by its owner, and kept out. One that is revoked stays with its revocation and loses its names.
    Withdraw,
    /// Replaced by its owner's copy.
    Replace(Box<Replacement>),
}

/// A certificate that is ready to replace the stored one.
#[derive(Debug)]
pub(crate) struct Replacement {
    pub(crate) intake: Intake,
    /// User IDs that it lacks, and that are not to return from peers.
    pub(crate) gone: Vec<Redaction>,
}

/// What an order has done.
#[derive(Debug)]
pub(crate) enum Done {
    /// Whether the certificate was here before.
    Deleted {
        was_here: bool,
    },
    /// Whether it was blocked before.
    Unblocked {
        was_blocked: bool,
    },
    Redacted {
        is_here: bool,
    },
    /// Whether anything of it was redacted before.
    Unredacted {
        was_redacted: bool,
    },
    /// Its names are gone, and its revocation stays.
    Bared,
    Replaced(IngestOutcome),
}

/// Why orders were not carried out.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Conflict {
    /// The certificate is not here.
    Missing(Fingerprint),
    /// It has changed since.
    Changed(Fingerprint),
}

/// Something that is kept out.
#[derive(Debug)]
pub(crate) enum KeptOut {
    /// A certificate, and since when (seconds since 1970), if the log still has it.
    Blocked {
        fingerprint: Fingerprint,
        since: Option<u32>,
    },
    Redacted {
        fingerprint: Fingerprint,
        redaction: Redaction,
    },
}
