//! Changes of certificates: what arrives, what operators and owners order, and what came of it.

use talaria_cert::merge::{IngestOutcome, Ingested};
use talaria_cert::{Address, Cert, Fingerprint, Limits, Redaction, Work};

use super::command::{Command, Outcome};
use super::row::Position;
use super::sqlite::opaque;
use crate::clock;

/// How certificates are prepared: all their signatures are verified.
#[derive(Clone, Debug)]
pub(crate) struct Preparation {
    /// The limits on each certificate.
    pub(crate) limits: Limits,
    /// The CPU time that all of them may take together.
    pub(crate) work: Work,
}

/// Certificates that are to be written.
#[derive(Debug)]
pub(crate) enum Arrival {
    /// Joined with the stored ones.
    Copies(Vec<Cert>),
    /// Instead of the stored one.
    Replacement(Cert),
    /// Prepared before, but somebody else has changed the stored ones since.
    Overtaken(Box<Intake>),
}

/// Certificates that are prepared, and only have to be written.
#[derive(Debug)]
pub(crate) enum Intake {
    Sqlite(opaque::Intake),
}

impl Intake {
    /// Whether all certificates are written or refused.
    pub(crate) fn is_written(&self) -> bool {
        let Self::Sqlite(intake) = self;
        intake.is_written()
    }

    /// Whether some certificates have to be prepared again, because somebody else changed them
    /// first.
    pub(crate) fn is_overtaken(&self) -> bool {
        let Self::Sqlite(intake) = self;
        intake.is_overtaken()
    }

    /// The CPU time that preparing them has taken so far.
    pub(crate) fn work(&self) -> Work {
        let Self::Sqlite(intake) = self;
        intake.work()
    }

    /// One outcome for each certificate, in their order, once all is written.
    pub(crate) fn into_ingested(self) -> Vec<Ingested> {
        let Self::Sqlite(intake) = self;
        intake.into_ingested()
    }
}

/// The limits and the time of a change.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    /// Those on each certificate that is written.
    pub(crate) limits: Limits,
    /// Seconds since 1970.
    pub(crate) now: u32,
}

impl Terms {
    pub(crate) fn now(limits: Limits) -> Self {
        Self { limits, now: clock::now() }
    }
}

/// An order about one certificate.
#[derive(Debug)]
pub(crate) struct Order {
    pub(crate) fingerprint: Fingerprint,
    pub(crate) wish: Wish,
    /// The order holds only if the certificate is here and has not changed since.
    pub(crate) unless_changed_since: Option<Since>,
}

/// The time of a look at a certificate.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Since {
    /// Seconds since 1970.
    Time(u32),
    Position(Position),
}

/// What is ordered.
#[derive(Debug)]
pub(crate) enum Wish {
    /// What an operator says.
    Command(Command),
    /// Deleted by its owner, and kept out. One that is revoked stays with its revocation and loses
    /// its names.
    Withdraw,
    /// Replaced by its owner's copy.
    Replace(Box<Replacement>),
    /// Found by an address from now on, if the links to the address are still of this generation.
    /// Links end.
    Publish { email: Address, generation: u32 },
    /// Not found by an address any more. Links to it end.
    Unpublish(Address),
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
    Published,
    Unpublished,
}

/// Why orders were not carried out.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Conflict {
    /// The certificate is not here.
    Missing(Fingerprint),
    /// It has changed since.
    Changed(Fingerprint),
}
