//! The CPU time that the signatures of other keys on one certificate may take.

use std::time::Duration;

/// The CPU time that the signatures of other keys on one certificate may take, by the model of
/// [`Cert::cost`](crate::cert::Cert::cost): a quarter of it for finding the keys that they name,
/// and a quarter for finding out which of these keys the owner has certified. Signatures beyond it
/// are not verified.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TimeForOthers {
    /// The time that they may take.
    pub allowed: Duration,
    /// The time that they have taken, or would have taken if more had been allowed: more than that
    /// if any of them were left out.
    pub needed: Duration,
}

impl TimeForOthers {
    /// Without a limit.
    pub const UNBOUNDED: Self = Self::of(Duration::MAX);

    /// The allowed time, of which nothing is taken yet.
    #[must_use]
    pub const fn of(allowed: Duration) -> Self {
        Self { allowed, needed: Duration::ZERO }
    }

    /// The parts of the allowed time.
    pub(super) fn left(self) -> TimeLeft {
        let allowed = u64::try_from(self.allowed.as_nanos()).unwrap_or(u64::MAX);
        let part = |quarters| if allowed == u64::MAX { allowed } else { allowed / 4 * quarters };
        TimeLeft {
            finding_ns: part(1),
            verifying_ns: part(2),
            ranking_ns: part(1),
            needed_ns: 0,
            is_cut: false,
        }
    }

    pub(super) fn take(&mut self, left: &TimeLeft) {
        let needed = Duration::from_nanos(left.needed_ns);
        // The parts are not for each other, so the whole may be enough for less than all.
        self.needed =
            if left.is_cut { needed.max(self.allowed + Duration::from_nanos(1)) } else { needed };
    }
}

/// What is left of the time for the signatures of other keys.
pub(super) struct TimeLeft {
    /// For finding keys.
    pub(super) finding_ns: u64,
    /// For verifying the signatures.
    pub(super) verifying_ns: u64,
    /// For verifying what the owner has signed on the certificates of their issuers.
    pub(super) ranking_ns: u64,
    pub(super) needed_ns: u64,
    /// Whether it was not enough.
    pub(super) is_cut: bool,
}

impl TimeLeft {
    /// Takes time from a part. False if nothing was left of it.
    pub(super) fn take(&mut self, part: impl FnOnce(&mut Self) -> &mut u64, cost_ns: u64) -> bool {
        let left = part(self);
        let had_some = *left > 0;
        *left = left.saturating_sub(cost_ns);
        self.is_cut |= !had_some;
        had_some
    }
}
