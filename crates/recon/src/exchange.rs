//! One comparison with one peer, from the first message to the last.
//!
//! The [`ExchangeRole::Acceptor`] of the connection asks: it walks down its tree, each time with the values
//! or the digests of a node, and the [`ExchangeRole::Initiator`] answers. In the end each knows the
//! certificates that it has to fetch from the other.

mod answer;
mod ask;
mod greet;
mod outbox;

pub use answer::{REPLY_DIGESTS_MAX, SENT_DIGESTS_MAX};
pub use ask::OUTSTANDING_MAX;
pub use greet::{FilterRule, Settings};
pub use outbox::Outbox;

use std::collections::BTreeSet;
use std::time::Duration;

use answer::Answer;
use ask::Ask;
use greet::{Agree, Greet};

use crate::decoder::Frame;
use crate::digest::Digest;
use crate::field::Zp;
use crate::message::{GossipMessage, HANDSHAKE_BYTES_MAX, MESSAGE_BYTES_MAX, kind_name};
use crate::prefix::Prefix;
use crate::tree::{PrefixTree, Subtree};

/// Nodes with fewer digests are compared by digests instead of values, as in SKS.
pub const FULL_BELOW: usize = 150;

/// Maximum number of requests in one exchange; a walk through the whole tree of 10 million
/// digests needs fewer.
pub const REQUESTS_MAX: u64 = 1 << 20;

/// The longest request, and the longest answer to a request by values, with up to 3,800 digests. Peers compare by
/// digests below 150 of them.
const SMALL_BYTES_MAX: usize = 64 << 10;

/// The model of CPU time: what a message takes, what a digest in it takes, and what a comparison of values takes that are not
/// equal. To factor the polynomials of five differences takes 0.10 to 0.14 ms.
const MESSAGE_COST: Duration = Duration::from_micros(1);
const DIGEST_COST: Duration = Duration::from_nanos(500);
const COMPARISON_COST: Duration = Duration::from_micros(120);

/// The side of the connection that we are on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ExchangeRole {
    /// The peer connected to us. We ask.
    Acceptor,
    /// We connected to the peer. We answer.
    Initiator,
}

/// The state of an exchange.
///
/// Sockets, deadlines and the tree are the caller's. The tree may change between two steps: what
/// changed is then found or not, and is found the next time.
#[derive(Debug)]
pub enum Exchange {
    /// Our configuration is sent, theirs is due.
    Greet(Greet),
    /// We accepted their configuration, their verdict on ours is due.
    Agree(Agree),
    /// We are the acceptor; answers are due.
    Ask(Ask),
    /// We are the initiator; requests are due.
    Answer(Answer),
    /// The exchange is complete: write the outbox and close the connection.
    Done(ExchangeOutcome),
}

/// The differences that an exchange found.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ExchangeOutcome {
    /// The digests that only the peer has, in order.
    pub wanted: Vec<Digest>,
    /// Whether that is all.
    pub ending: Ending,
    /// The HTTP port of the peer, at the address we talked to.
    pub peer_http_port: u16,
    /// The version that the peer said it has.
    pub peer_version: String,
    /// Number of requests that were answered, by us or by the peer.
    pub requests: u64,
    /// Number of digests that the peer lacks, as far as it was told.
    pub offered: usize,
    /// The CPU time that it took here, see [`Exchange::cost`].
    pub cost: Duration,
}

/// The end of an exchange: complete, or cut short.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Ending {
    /// The difference is known.
    Complete,
    /// A bound was reached or the connection ended; there may be more.
    Cut,
}

/// The reason why an exchange failed. Write the outbox, then close the connection.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ExchangeError {
    /// The peer's version is not three numbers, or is too old.
    #[error("the peer has version {0:?}, and at least 0.1.5 is required")]
    Version(String),
    /// The peer's tree is built otherwise.
    #[error("the peer has {name} {theirs}, not {ours}")]
    Parameter {
        /// Its name in the configuration.
        name: &'static str,
        /// The peer's number.
        theirs: u32,
        /// Ours, the only one we know.
        ours: u32,
    },
    /// The peer makes its digests from other data.
    #[error("the peer has filters {theirs:?}, not {ours:?}")]
    Filters {
        /// As the peer said.
        theirs: String,
        /// As set for this peer.
        ours: String,
    },
    /// The peer does not like our configuration, and why, in its first words.
    #[error("the peer refused: {0:?}")]
    Refused(String),
    /// The peer gave up, and why, in its first words.
    #[error("the peer reported: {0:?}")]
    Peer(String),
    /// The message is longer than any of its type has to be here.
    #[error("the peer announced {announced} bytes as {found}, the limit is {max}")]
    TooLong {
        /// The announced data.
        found: &'static str,
        /// The announced length.
        announced: u32,
        /// The most bytes that are read.
        max: usize,
    },
    /// The message is known but makes no sense here.
    #[error("unexpected {found}, expected {due}")]
    Unexpected {
        /// The received data.
        found: &'static str,
        /// The expected values.
        due: &'static str,
    },
}

impl Exchange {
    /// Begins an exchange: our configuration goes to `out`.
    ///
    /// `seed` may be anything that varies. It decides the order of requests, so that an exchange
    /// that is cut does not always begin with the same part.
    #[must_use]
    pub fn start(role: ExchangeRole, settings: Settings, seed: u64, out: &mut Outbox) -> Self {
        Self::Greet(Greet::start(role, settings, seed, out))
    }

    /// Checks that a message of this type and length may come now. A caller that asks before the message has arrived
    /// whole needs no memory for messages that [`Self::step`] would refuse.
    ///
    /// # Errors
    ///
    /// [`ExchangeError::Unexpected`] or [`ExchangeError::TooLong`].
    pub fn admit(&self, frame: Frame) -> Result<(), ExchangeError> {
        let found = kind_name(frame.kind);
        let max = match (self, frame.kind) {
            (_, 7) | (Self::Greet(_), 10) => Some(HANDSHAKE_BYTES_MAX),
            (Self::Ask(state), 2) => state.missing_bytes_max(),
            (Self::Ask(state), 3 | 4) => state.all_bytes_max(),
            (Self::Answer(state), 2) => state.missing_bytes_max(),
            (Self::Answer(_), 0 | 1 | 5 | 6) => Some(SMALL_BYTES_MAX),
            _ => None,
        };
        let max = max.ok_or(ExchangeError::Unexpected { found, due: self.due() })?;
        if frame.len as usize > max {
            return Err(ExchangeError::TooLong { found, announced: frame.len, max });
        }
        Ok(())
    }

    /// Takes one message, appends the answers to `out`, and returns the next state.
    ///
    /// # Errors
    ///
    /// [`ExchangeError`]; the outbox has a message for the peer if the protocol has one for the error.
    pub fn step(
        self,
        got: GossipMessage,
        tree: &PrefixTree,
        out: &mut Outbox,
    ) -> Result<Self, ExchangeError> {
        match (self, got) {
            (_, GossipMessage::Error(text)) => Err(ExchangeError::Peer(shortened(&text))),
            (Self::Greet(state), GossipMessage::Config(theirs)) => state.config(theirs, out),
            (Self::Agree(state), GossipMessage::Passed) => Ok(state.passed(tree, out)),
            (Self::Agree(_), GossipMessage::Failed(reason)) => {
                Err(ExchangeError::Refused(shortened(&reason)))
            }
            (Self::Ask(state), GossipMessage::Elements(digests)) => {
                state.elements(&digests, tree, out)
            }
            (Self::Ask(state), GossipMessage::FullElements(digests)) => {
                state.full_elements(digests, tree, out)
            }
            (Self::Ask(state), GossipMessage::SyncFail) => state.sync_fail(tree, out),
            (Self::Answer(state), GossipMessage::Poly { prefix, len, values }) => {
                Ok(state.poly(prefix, len, &values, tree, out))
            }
            (Self::Answer(state), GossipMessage::Full { prefix, digests }) => {
                Ok(state.full(prefix, digests, tree, out))
            }
            (Self::Answer(state), GossipMessage::Elements(digests)) => {
                state.elements(&digests, tree)
            }
            (Self::Answer(state), GossipMessage::Flush) => Ok(state.flush(out)),
            (Self::Answer(state), GossipMessage::Done) => Ok(state.done(out)),
            (state, got) => Err(ExchangeError::Unexpected { found: got.name(), due: state.due() }),
        }
    }

    /// The differences found so far, for a connection that ended early. `None` before both sides agreed to talk.
    #[must_use]
    pub fn into_outcome(self) -> Option<ExchangeOutcome> {
        match self {
            Self::Greet(_) | Self::Agree(_) => None,
            Self::Ask(state) => Some(state.found().outcome(Ending::Cut)),
            Self::Answer(state) => Some(state.found().outcome(Ending::Cut)),
            Self::Done(outcome) => Some(outcome),
        }
    }

    /// The CPU time of all steps so far, by a model and not by a clock: it is the same on every machine and under any load.
    #[must_use]
    pub fn cost(&self) -> Duration {
        match self {
            Self::Greet(_) | Self::Agree(_) => Duration::ZERO,
            Self::Done(outcome) => outcome.cost,
            Self::Ask(state) => state.cost(),
            Self::Answer(state) => state.cost(),
        }
    }

    fn due(&self) -> &'static str {
        match self {
            Self::Greet(_) => "a configuration",
            Self::Agree(_) => "a verdict",
            Self::Ask(state) => state.due(),
            Self::Answer(_) => "a request",
            Self::Done(_) => "nothing",
        }
    }
}

/// The knowledge so far, in both roles.
#[derive(Debug)]
struct Found {
    wanted: BTreeSet<Digest>,
    wanted_max: usize,
    /// Something was left out.
    cut: bool,
    requests: u64,
    offered: usize,
    cost: Duration,
    peer_http_port: u16,
    peer_version: String,
}

impl Found {
    /// Notes the digests that the peer has and we have not, as far as they belong to the node in question.
    /// Other digests are ignored.
    fn learn<'a>(
        &mut self,
        digests: impl IntoIterator<Item = &'a Digest>,
        prefix: Prefix,
        tree: &PrefixTree,
    ) {
        for digest in digests {
            self.cost += DIGEST_COST;
            if !prefix.contains(digest) || tree.contains(digest) {
                continue;
            }
            if self.is_full() && !self.wanted.contains(digest) {
                self.cut = true;
                break;
            }
            self.wanted.insert(*digest);
        }
    }

    /// Counts digests that only we have.
    fn offer(&mut self, count: usize) {
        self.offered += count;
        self.cost += DIGEST_COST.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX));
    }

    fn is_full(&self) -> bool {
        self.wanted.len() >= self.wanted_max
    }

    fn outcome(self, ending: Ending) -> ExchangeOutcome {
        ExchangeOutcome {
            wanted: self.wanted.into_iter().collect(),
            ending: if self.cut { Ending::Cut } else { ending },
            peer_http_port: self.peer_http_port,
            peer_version: self.peer_version,
            requests: self.requests,
            offered: self.offered,
            cost: self.cost,
        }
    }
}

/// Our digests that are not in `theirs`, which is sorted; at most `max`.
fn missing(ours: Subtree<'_>, theirs: &[Digest], max: usize) -> Vec<Digest> {
    ours.iter().filter(|digest| theirs.binary_search(digest).is_err()).take(max).collect()
}

/// The most bytes of a set of all that a peer has and we have not below a prefix. Digests are spread evenly, so each
/// bit halves the set. Whoever makes certificates can crowd some of them below one prefix; they have to be as many as
/// a whole answer of ours.
fn set_bytes_max(prefix_bits: u32) -> usize {
    let share = MESSAGE_BYTES_MAX >> prefix_bits.saturating_sub(ask::FULL_BITS_MIN).min(24);
    share.max(REPLY_DIGESTS_MAX * Zp::BYTES + 5)
}

/// Characters of a text of a peer that are kept.
const TEXT_CHARS_MAX: usize = 200;

fn shortened(text: &str) -> String {
    text.chars().take(TEXT_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_peer_is_one_short_line_in_an_error() {
        let text = shortened(&"a\u{1b}[2J\n\u{202e}".repeat(1000));
        for error in [ExchangeError::Peer(text.clone()), ExchangeError::Refused(text)] {
            let shown = error.to_string();
            assert!(!shown.chars().any(|c| c.is_control() || c == '\u{202e}'), "{shown}");
            assert!(shown.len() < 2000, "{shown}");
        }
    }
}
