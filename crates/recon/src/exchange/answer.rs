//! The initiator: answers the requests of the acceptor.

use std::ops::ControlFlow;
use std::time::Duration;

use fastrand::Rng;

use crate::digest::Digest;
use crate::exchange::bounds::{
    FULL_BELOW, REPLY_DIGESTS_MAX, REQUESTS_MAX, SENT_DIGESTS_MAX, set_bytes_max,
};
use crate::exchange::error::ExchangeError;
use crate::exchange::found::{COMPARISON_COST, DIGEST_COST, Found, MESSAGE_COST, missing};
use crate::exchange::outbox::Outbox;
use crate::exchange::outcome::{Ending, ExchangeOutcome};
use crate::field::{POINTS, Values, Zp};
use crate::message::GossipMessage;
use crate::poly::{Difference, reconcile};
use crate::prefix::Prefix;
use crate::tree::{PrefixTree, Subtree};

/// The state of the initiator.
#[derive(Debug)]
pub struct Answer {
    found: Found,
    random: Rng,
    /// The number of whole sets of digests to which the peer may still answer with those that it
    /// lacks.
    invited: u64,
    /// The shortest prefix, in bits, of such a set.
    invited_bits: u32,
    sent: usize,
}

impl Answer {
    pub(super) fn new(found: Found, random: Rng) -> Self {
        Self { found, random, invited: 0, invited_bits: 128, sent: 0 }
    }

    pub(super) fn poly(
        mut self,
        prefix: Prefix,
        len: u32,
        values: &Values,
        tree: &PrefixTree,
        out: &mut Outbox,
    ) -> ControlFlow<ExchangeOutcome, Self> {
        let ours = tree.at(prefix);
        let answer = if let Some((wanted, offered)) = self.compare(prefix, len, values, ours, tree)
        {
            self.found.learn(&wanted, prefix, tree);
            self.found.offer(offered.len());
            GossipMessage::Elements(offered)
        } else if ours.is_leaf() || ours.len() < FULL_BELOW {
            self.invited += 1;
            self.invited_bits = self.invited_bits.min(prefix.bits());
            GossipMessage::FullElements(ours.iter().collect())
        } else {
            GossipMessage::SyncFail
        };
        self.reply(&answer, out)
    }

    pub(super) fn full(
        mut self,
        prefix: Prefix,
        mut theirs: Vec<Digest>,
        tree: &PrefixTree,
        out: &mut Outbox,
    ) -> ControlFlow<ExchangeOutcome, Self> {
        theirs.sort_unstable();
        let offered = missing(tree.at(prefix), &theirs, REPLY_DIGESTS_MAX);
        self.found.offer(offered.len());
        self.found.learn(&theirs, prefix, tree);
        self.reply(&GossipMessage::Elements(offered), out)
    }

    /// The peer's answer to a set of all digests.
    pub(super) fn elements(
        mut self,
        digests: &[Digest],
        tree: &PrefixTree,
    ) -> Result<Self, ExchangeError> {
        let Some(invited) = self.invited.checked_sub(1) else {
            let (found, due) = ("set of missing digests", "a request");
            return Err(ExchangeError::Unexpected { found, due });
        };
        self.invited = invited;
        self.found.cost += MESSAGE_COST;
        self.found.learn(digests, Prefix::ROOT, tree);
        Ok(self)
    }

    pub(super) fn flush(mut self, out: &mut Outbox) -> Self {
        self.found.cost += MESSAGE_COST;
        out.flush();
        self
    }

    pub(super) fn done(self, out: &mut Outbox) -> ExchangeOutcome {
        out.flush();
        self.found.outcome(Ending::Complete)
    }

    /// The most bytes of a set of missing digests, `None` if none is due.
    pub(super) fn missing_bytes_max(&self) -> Option<usize> {
        (self.invited > 0).then(|| set_bytes_max(self.invited_bits))
    }

    pub(super) fn found(self) -> Found {
        self.found
    }

    pub(super) fn cost(&self) -> Duration {
        self.found.cost
    }

    /// The digests that only the peer has and those that only we have. `None` if the values are too
    /// few to find them, or the result contradicts our tree.
    fn compare(
        &mut self,
        prefix: Prefix,
        len: u32,
        values: &Values,
        ours: Subtree<'_>,
        tree: &PrefixTree,
    ) -> Option<(Vec<Digest>, Vec<Digest>)> {
        let local = ours.values();
        let surplus = i64::from(len) - i64::try_from(ours.len()).ok()?;
        if surplus != 0 || *values != local {
            self.found.cost += COMPARISON_COST;
        }
        let mut random = || self.random.u128(..);
        let Difference { remote_only, local_only } =
            reconcile(&POINTS, values, &local, surplus, &mut random)?;
        let digests = |elements: Vec<_>, ours: bool| -> Option<Vec<Digest>> {
            let digests: Vec<_> = elements.into_iter().map(Zp::digest).collect::<Option<_>>()?;
            let fits = |d: &Digest| prefix.contains(d) && tree.contains(d) == ours;
            digests.iter().all(fits).then_some(digests)
        };
        Some((digests(remote_only, false)?, digests(local_only, true)?))
    }

    fn reply(
        mut self,
        answer: &GossipMessage,
        out: &mut Outbox,
    ) -> ControlFlow<ExchangeOutcome, Self> {
        if let GossipMessage::Elements(digests) | GossipMessage::FullElements(digests) = answer {
            self.sent += digests.len();
        }
        if let GossipMessage::FullElements(digests) = answer {
            self.found.cost += DIGEST_COST * u32::try_from(digests.len()).unwrap_or(u32::MAX);
        }
        self.found.cost += MESSAGE_COST;
        out.push(answer);
        self.found.requests += 1;
        if self.found.requests >= REQUESTS_MAX || self.sent > SENT_DIGESTS_MAX {
            out.flush();
            return ControlFlow::Break(self.found.outcome(Ending::Cut));
        }
        ControlFlow::Continue(self)
    }
}
