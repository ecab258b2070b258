//! The threads on which exchanges compute differences, and the CPU time that each peer may take of
//! them.
//!
//! A peer can ask for arithmetic with few bytes. So no thread that answers clients does any, peers
//! take turns of milliseconds, and a peer that brings no certificates has a small share.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::turns::{BEHIND, FairTurns, TurnError, Turns};

/// The CPU time that a peer may take at once, by the model of [`talaria_recon::Exchange::cost`]. An
/// exchange that finds 10,000 differences takes less.
const SHARE: Duration = Duration::from_secs(1);

/// A peer gets this part of the time that passes as CPU time. While it takes some, it gets none: a
/// machine may be slower than the model.
const REFILL_PART: u32 = 20;
const REFILL_BEGINS: Duration = Duration::from_secs(1);

/// An exchange begins only if this part of [`SHARE`] is there.
const BEGIN_PART: u32 = 4;

/// The CPU time that a peer gets back for each certificate that it brought and that was new here.
/// To find a difference takes a tenth of it.
const GIVEN_BACK: Duration = Duration::from_millis(1);

/// The time that a turn waits for those of other peers. The exchange has a time limit of its own.
const PATIENCE: Duration = Duration::from_secs(600);

/// The lane of all exchanges.
#[derive(Debug)]
pub(super) struct Lane {
    turns: FairTurns<Arc<str>>,
    shares: Mutex<HashMap<Arc<str>, Share>>,
}

/// The CPU time that a peer may still take, as of `since`. Peers that are not known have all of it.
#[derive(Clone, Copy, Debug)]
struct Share {
    left: Duration,
    since: Instant,
}

impl Share {
    fn at(self, now: Instant) -> Self {
        let passed = now.saturating_duration_since(self.since);
        let more = if passed < REFILL_BEGINS { Duration::ZERO } else { passed / REFILL_PART };
        Self { left: self.left.saturating_add(more).min(SHARE), since: now }
    }
}

impl Lane {
    pub(super) fn start() -> io::Result<Self> {
        let turns = Turns::start_behind("gossip", 1, BEHIND)?;
        let turns = FairTurns::of(turns).with_patience(PATIENCE);
        Ok(Self { turns, shares: Mutex::default() })
    }

    /// Runs a piece of work for a peer, when it is the turn of the peer.
    ///
    /// # Errors
    ///
    /// [`TurnError`].
    pub(super) async fn run<T: Send + 'static>(
        &self,
        peer: &Arc<str>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, TurnError> {
        self.turns.run(Arc::clone(peer), async move || Ok(work())).await
    }

    /// Whether an exchange with a peer may begin.
    pub(super) fn may_begin(&self, peer: &str) -> bool {
        let share = self.shares.lock().get(peer).copied();
        share.is_none_or(|share| share.at(Instant::now()).left >= SHARE / BEGIN_PART)
    }

    /// Takes CPU time from the share of a peer. Returns whether some is left.
    pub(super) fn charge(&self, peer: &Arc<str>, cost: Duration) -> bool {
        self.change(peer, |left| left.saturating_sub(cost)) > Duration::ZERO
    }

    /// Gives a peer CPU time back for so many certificates that were new here.
    pub(super) fn give_back(&self, peer: &Arc<str>, certs: usize) {
        let certs = u32::try_from(certs).unwrap_or(u32::MAX);
        self.change(peer, |left| left.saturating_add(GIVEN_BACK.saturating_mul(certs)).min(SHARE));
    }

    fn change(&self, peer: &Arc<str>, change: impl FnOnce(Duration) -> Duration) -> Duration {
        let now = Instant::now();
        let mut shares = self.shares.lock();
        // A whole share is as good as none.
        shares.retain(|_, share| share.at(now).left < SHARE);
        let share = shares.get(peer).map_or(SHARE, |share| share.at(now).left);
        let left = change(share);
        shares.insert(Arc::clone(peer), Share { left, since: now });
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_that_brings_nothing_has_a_small_share_of_its_own() {
        let lane = Lane::start().unwrap();
        let [hostile, honest]: [Arc<str>; 2] = ["hostile:1".into(), "honest:1".into()];
        let most = SHARE.saturating_sub(Duration::from_millis(100));
        assert!(lane.may_begin("hostile:1") && lane.charge(&hostile, most));
        assert!(!lane.may_begin("hostile:1") && !lane.charge(&hostile, most));
        // Others lose nothing, and certificates pay for the arithmetic that found them.
        for _ in 0..10 {
            assert!(lane.may_begin("honest:1") && lane.charge(&honest, most));
            lane.give_back(&honest, 15_000);
        }
        let share = |ms| {
            let share = lane.shares.lock()["hostile:1"];
            share.at(share.since + Duration::from_millis(ms)).left
        };
        let left = [900, 10_000, 600_000].map(share);
        assert_eq!(left, [0, 500, 1000].map(Duration::from_millis));
    }
}
