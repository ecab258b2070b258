//! Certificates as the engine names them, and searches for them.

use talaria_cert::{Fingerprint, Summary};
use talaria_store::{CertId, ChangeNumber};

/// The place of a certificate in an engine: a shortcut past the look-up of its fingerprint.
///
/// Only the engine that gave it can read it. The certificate may have been deleted since.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Place(pub(super) CertId);

/// The name of a certificate.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Name {
    Fingerprint(Fingerprint),
    Place(Place),
}

impl From<Fingerprint> for Name {
    fn from(fingerprint: Fingerprint) -> Self {
        Self::Fingerprint(fingerprint)
    }
}

impl From<Place> for Name {
    fn from(place: Place) -> Self {
        Self::Place(place)
    }
}

/// A certificate in a listing.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// The summary as it holds at the moment of the reading.
    pub(crate) summary: Summary,
    pub(crate) place: Place,
    /// The change that made the certificate what it is.
    pub(super) change: ChangeNumber,
    /// The number of the reading that it is from.
    pub(super) reading: u64,
}

impl Row {
    /// The name of the certificate.
    pub(crate) fn fingerprint(&self) -> Fingerprint {
        self.summary.fingerprint()
    }
}

/// Bounds of a search.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Certificates that are returned, at most.
    pub(crate) results: usize,
    /// Certificates that are looked at, at most.
    pub(crate) looks: usize,
}

/// The first certificates that a search found.
#[derive(Debug, Default)]
pub(crate) struct Page {
    pub(crate) rows: Vec<Row>,
    /// Whether there are more.
    pub(crate) more: bool,
}

/// A position in the log of changes. Those of one engine are comparable, and nothing else can be computed with them.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Position(pub(super) ChangeNumber);

impl Position {
    /// A number that grows with the changes, for people.
    pub(crate) fn number(self) -> i64 {
        self.0.get()
    }
}
