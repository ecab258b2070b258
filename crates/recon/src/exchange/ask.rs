//! The acceptor: walks its tree and asks.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::time::Duration;

use fastrand::Rng;

use crate::digest::Digest;
use crate::exchange::bounds::{
    FULL_BELOW, FULL_BITS_MIN, OUTSTANDING_MAX, REPLY_DIGESTS_MAX, REQUESTS_MAX, SMALL_BYTES_MAX,
    set_bytes_max,
};
use crate::exchange::error::ExchangeError;
use crate::exchange::found::{Found, MESSAGE_COST, missing};
use crate::exchange::outbox::Outbox;
use crate::exchange::outcome::{Ending, ExchangeOutcome};
use crate::message::GossipMessage;
use crate::prefix::Prefix;
use crate::tree::PrefixTree;

/// The state of the acceptor: questions still to ask, and questions asked.
#[derive(Debug)]
pub struct Ask {
    found: Found,
    random: Rng,
    /// Last in, first out, which keeps it short.
    queue: Vec<Prefix>,
    /// Answers come in the order of the requests.
    outstanding: VecDeque<Asked>,
    /// The number of `outstanding` requests that the peer was told to answer.
    flushed: usize,
}

#[derive(Clone, Copy, Debug)]
struct Asked {
    prefix: Prefix,
    by: By,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum By {
    Values,
    Digests,
}

impl Ask {
    pub(super) fn start(
        found: Found,
        random: Rng,
        tree: &PrefixTree,
        out: &mut Outbox,
    ) -> ControlFlow<ExchangeOutcome, Self> {
        let (queue, outstanding) = (vec![Prefix::ROOT], VecDeque::new());
        Self { found, random, queue, outstanding, flushed: 0 }.ask(tree, out)
    }

    pub(super) fn elements(
        mut self,
        digests: &[Digest],
        tree: &PrefixTree,
        out: &mut Outbox,
    ) -> Result<ControlFlow<ExchangeOutcome, Self>, ExchangeError> {
        let asked = self.answered("set of missing digests")?;
        self.found.learn(digests, asked.prefix, tree);
        Ok(self.ask(tree, out))
    }

    pub(super) fn full_elements(
        mut self,
        mut theirs: Vec<Digest>,
        tree: &PrefixTree,
        out: &mut Outbox,
    ) -> Result<ControlFlow<ExchangeOutcome, Self>, ExchangeError> {
        let asked = self.answered_by_values("set of all digests")?;
        theirs.sort_unstable();
        let ours = missing(tree.at(asked.prefix), &theirs, REPLY_DIGESTS_MAX);
        self.found.offer(ours.len());
        out.push(&GossipMessage::Elements(ours));
        self.found.learn(&theirs, asked.prefix, tree);
        Ok(self.ask(tree, out))
    }

    pub(super) fn sync_fail(
        mut self,
        tree: &PrefixTree,
        out: &mut Outbox,
    ) -> Result<ControlFlow<ExchangeOutcome, Self>, ExchangeError> {
        let found = "failure to compare";
        let asked = self.answered_by_values(found)?;
        let Some(children) = asked.prefix.children() else {
            return Err(ExchangeError::Unexpected { found, due: self.due() });
        };
        // In an order that differs from exchange to exchange.
        let order = self.random.usize(..4);
        self.queue.extend((0..4).map(|child| children[child ^ order]));
        Ok(self.ask(tree, out))
    }

    pub(super) fn due(&self) -> &'static str {
        match self.outstanding.front() {
            Some(Asked { by: By::Values, .. }) => "an answer",
            Some(Asked { by: By::Digests, .. }) => "a set of missing digests",
            None => "nothing",
        }
    }

    /// The most bytes of a set of missing digests, `None` if none is due.
    pub(super) fn missing_bytes_max(&self) -> Option<usize> {
        Some(match self.outstanding.front()? {
            Asked { by: By::Values, .. } => SMALL_BYTES_MAX,
            Asked { by: By::Digests, prefix } => set_bytes_max(prefix.bits()),
        })
    }

    /// The same of a set of all digests, or of a failure to compare.
    pub(super) fn all_bytes_max(&self) -> Option<usize> {
        let front = self.outstanding.front()?;
        (front.by == By::Values).then_some(SMALL_BYTES_MAX)
    }

    pub(super) fn found(self) -> Found {
        self.found
    }

    pub(super) fn cost(&self) -> Duration {
        self.found.cost
    }

    /// The request that this is the answer to.
    fn answered(&mut self, found: &'static str) -> Result<Asked, ExchangeError> {
        let due = self.due();
        let asked = self.outstanding.pop_front();
        // With the request that follows.
        self.found.cost += 2 * MESSAGE_COST;
        self.flushed = self.flushed.saturating_sub(1);
        asked.ok_or(ExchangeError::Unexpected { found, due })
    }

    /// The same, if the answer would make no sense for a request by digests.
    fn answered_by_values(&mut self, found: &'static str) -> Result<Asked, ExchangeError> {
        let due = self.due();
        let asked = self.answered(found)?;
        match asked.by {
            By::Values => Ok(asked),
            By::Digests => Err(ExchangeError::Unexpected { found, due }),
        }
    }

    /// Asks as much as may be asked at once.
    fn ask(mut self, tree: &PrefixTree, out: &mut Outbox) -> ControlFlow<ExchangeOutcome, Self> {
        if self.found.is_full() || self.found.requests >= REQUESTS_MAX {
            self.found.cut |= !self.queue.is_empty();
            self.queue.clear();
        }
        while self.outstanding.len() < OUTSTANDING_MAX
            && let Some(prefix) = self.queue.pop()
        {
            let (request, by) = request(prefix, tree);
            out.push(&request);
            self.outstanding.push_back(Asked { prefix, by });
            self.found.requests += 1;
        }
        if self.outstanding.is_empty() {
            out.push(&GossipMessage::Done);
            out.flush();
            return ControlFlow::Break(self.found.outcome(Ending::Complete));
        }
        if self.flushed == 0 {
            out.push(&GossipMessage::Flush);
            out.flush();
            self.flushed = self.outstanding.len();
        }
        ControlFlow::Continue(self)
    }
}

fn request(prefix: Prefix, tree: &PrefixTree) -> (GossipMessage, By) {
    let ours = tree.at(prefix);
    if prefix.bits() >= FULL_BITS_MIN && (ours.is_leaf() || ours.len() < FULL_BELOW) {
        return (GossipMessage::Full { prefix, digests: ours.iter().collect() }, By::Digests);
    }
    let len = u32::try_from(ours.len()).expect("more digests than there are certificates");
    (GossipMessage::Poly { prefix, len, values: Box::new(ours.values()) }, By::Values)
}
