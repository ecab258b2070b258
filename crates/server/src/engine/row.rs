//! Certificates as the engine gives them, and the bounds of searches for them.

use talaria_cert::merge::Stored;
use talaria_cert::{Fingerprint, Summary, View};

use super::sqlite::opaque;

/// A certificate in a listing.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// The summary as it holds at the moment of the reading.
    pub(crate) summary: Summary,
    pub(super) place: Place,
}

/// What an engine keeps in a row for itself, so that it need not look the fingerprint up again.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    Sqlite(opaque::Place),
}

impl Row {
    /// The name of the certificate.
    pub(crate) fn fingerprint(&self) -> Fingerprint {
        self.summary.fingerprint()
    }

    /// The change that made the certificate what it is.
    pub(crate) fn position(&self) -> Position {
        let Place::Sqlite(place) = &self.place;
        Position::Sqlite(place.change())
    }

    /// Whether the signatures of other keys were verified lately, so that [`Judging::All`] costs
    /// nothing.
    pub(crate) fn is_judged(&self) -> bool {
        let Place::Sqlite(place) = &self.place;
        place.is_judged()
    }
}

/// A certificate that was found by a digest.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Digested {
    /// The view that has the digest.
    pub(crate) view: View,
    pub(crate) fingerprint: Fingerprint,
    /// The bytes of the certificate.
    pub(crate) length: u64,
}

/// The only certificate with a name.
#[derive(Clone, Debug)]
pub(crate) struct Sole {
    pub(crate) stored: Stored,
    /// The digest of its bytes, if it is known: [`talaria_cert::merge::bytes_digest`].
    pub(crate) digest: Option<[u8; 16]>,
}

/// The signatures of a certificate on which there are to be verdicts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Judging {
    /// Those that were verified when it was written.
    Stored,
    /// All that its own key may have made.
    Own,
    /// Those of other keys, too. Which keys are here is known as of a few minutes ago. If there are
    /// more than `unranked` good ones, it is found out which of their keys the owner has certified.
    All {
        /// A limit, as [`talaria_cert::Limits`] count.
        unranked: usize,
    },
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

/// A position in the log of changes, of which only the engine that gave it knows more.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Position {
    Sqlite(opaque::Change),
}

/// A count over all certificates, as far as it has come.
#[derive(Debug, Default)]
pub(crate) struct Counting {
    pub(crate) holds: talaria::Statistics,
    /// Where it goes on, `None` at the start and at the end.
    pub(super) after: Option<Last>,
}

/// The last certificate that was counted.
#[derive(Clone, Copy, Debug)]
pub(super) enum Last {
    Sqlite(opaque::Last),
}

impl Counting {
    /// Whether there are more certificates to be counted.
    pub(crate) fn goes_on(&self) -> bool {
        self.after.is_some()
    }
}
