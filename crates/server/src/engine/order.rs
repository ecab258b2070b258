//! Changes that operators and owners order, and what came of them.

use talaria::operator::{Command, Outcome};
use talaria_cert::{Cert, Fingerprint};
use talaria_store::{IngestOutcome, Intake, Redaction};

/// Certificates that are to be written.
#[derive(Debug)]
pub(crate) enum Arrival {
    /// Joined with the stored ones.
    Copies(Vec<Cert>),
    /// Instead of the stored one.
    Replacement(Cert),
}

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
    /// What an operator says.
    Command(Command),
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
    /// What the operator's command has done.
    Command(Outcome),
    /// The certificate was here, and is deleted and kept out.
    Withdrawn,
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
