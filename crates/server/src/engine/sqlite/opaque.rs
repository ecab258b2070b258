//! What SQLite's part puts into the opaque types of the interface. Nothing else looks into it.

use talaria_store::{CertId, ChangeNumber};

pub(crate) use talaria_store::Intake;

/// A certificate as a reading has seen it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(super) id: CertId,
    pub(super) change: ChangeNumber,
    /// The number of the reading.
    pub(super) reading: u64,
    pub(super) is_judged: bool,
}

impl Place {
    pub(crate) fn change(self) -> Change {
        Change(self.change)
    }

    pub(crate) fn is_judged(self) -> bool {
        self.is_judged
    }
}

/// A change in the log.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Change(pub(super) ChangeNumber);

/// The last certificate that was counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Last(pub(super) CertId);
