//! The CPU time that the signatures of other keys on one certificate may take.

use std::time::Duration;

use crate::work::Work;

/// What is left of the time for the signatures of other keys on one certificate: a quarter for
/// finding the keys that they name, and a quarter for finding out which of these keys the owner has
/// certified. Signatures beyond it are not verified.
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
    /// The parts of what is left.
    pub(super) fn of(work: Work) -> Self {
        let left = u64::try_from(work.left().as_nanos()).unwrap_or(u64::MAX);
        let part = |quarters| if left == u64::MAX { left } else { left / 4 * quarters };
        Self {
            finding_ns: part(1),
            verifying_ns: part(2),
            ranking_ns: part(1),
            needed_ns: 0,
            is_cut: false,
        }
    }

    /// Takes time from a part. False if nothing was left of it.
    pub(super) fn take(&mut self, part: impl FnOnce(&mut Self) -> &mut u64, cost_ns: u64) -> bool {
        let left = part(self);
        let had_some = *left > 0;
        *left = left.saturating_sub(cost_ns);
        self.is_cut |= !had_some;
        had_some
    }

    /// The time that was needed: more than was left of the whole, if any signatures were left out.
    pub(super) fn needed(&self, work: Work) -> Duration {
        let needed = Duration::from_nanos(self.needed_ns);
        // The parts are not for each other, so the whole may be enough for less than all.
        let more = work.left().saturating_add(Duration::from_nanos(1));
        if self.is_cut { needed.max(more) } else { needed }
    }
}
