//! One comparison with one peer, from the first message to the last.
//!
//! The [`ExchangeRole::Acceptor`] of the connection asks: it walks down its tree, each time with
//! the values or the digests of a node, and the [`ExchangeRole::Initiator`] answers. In the end
//! each knows the certificates that it has to fetch from the other.

mod answer;
mod ask;
pub(crate) mod bounds;
pub(crate) mod error;
mod found;
pub(crate) mod greet;
pub(crate) mod outbox;
pub(crate) mod outcome;

use std::ops::ControlFlow;
use std::time::Duration;

use crate::decoder::Frame;
use crate::exchange::answer::Answer;
use crate::exchange::ask::Ask;
use crate::exchange::bounds::SMALL_BYTES_MAX;
use crate::exchange::error::ExchangeError;
use crate::exchange::greet::{Agree, ExchangeRole, Greet, Settings};
use crate::exchange::outbox::Outbox;
use crate::exchange::outcome::{Ending, ExchangeOutcome};
use crate::message::{GossipMessage, HANDSHAKE_BYTES_MAX, kind_name};
use crate::tree::PrefixTree;

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

impl Exchange {
    /// Begins an exchange: our configuration goes to `out`.
    ///
    /// `seed` may be anything that varies. It decides the order of requests, so that an exchange
    /// that is cut does not always begin with the same part.
    #[must_use]
    pub fn start(role: ExchangeRole, settings: Settings, seed: u64, out: &mut Outbox) -> Self {
        Self::Greet(Greet::start(role, settings, seed, out))
    }

    /// Checks that a message of this type and length may come now. A caller that asks before the
    /// message has arrived whole needs no memory for messages that [`Self::step`] would refuse.
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
    /// [`ExchangeError`]; the outbox has a message for the peer if the protocol has one for the
    /// error.
    pub fn step(
        self,
        got: GossipMessage,
        tree: &PrefixTree,
        out: &mut Outbox,
    ) -> Result<Self, ExchangeError> {
        match (self, got) {
            (_, GossipMessage::Error(text)) => Err(ExchangeError::Peer(shortened(&text))),
            (Self::Greet(state), GossipMessage::Config(theirs)) => {
                state.config(theirs, out).map(Self::Agree)
            }
            (Self::Agree(Agree { role, found, random }), GossipMessage::Passed) => Ok(match role {
                ExchangeRole::Acceptor => Ask::start(found, random, tree, out).into(),
                ExchangeRole::Initiator => Self::Answer(Answer::new(found, random)),
            }),
            (Self::Agree(_), GossipMessage::Failed(reason)) => {
                Err(ExchangeError::Refused(shortened(&reason)))
            }
            (Self::Ask(state), GossipMessage::Elements(digests)) => {
                state.elements(&digests, tree, out).map(Self::from)
            }
            (Self::Ask(state), GossipMessage::FullElements(digests)) => {
                state.full_elements(digests, tree, out).map(Self::from)
            }
            (Self::Ask(state), GossipMessage::SyncFail) => {
                state.sync_fail(tree, out).map(Self::from)
            }
            (Self::Answer(state), GossipMessage::Poly { prefix, len, values }) => {
                Ok(state.poly(prefix, len, &values, tree, out).into())
            }
            (Self::Answer(state), GossipMessage::Full { prefix, digests }) => {
                Ok(state.full(prefix, digests, tree, out).into())
            }
            (Self::Answer(state), GossipMessage::Elements(digests)) => {
                state.elements(&digests, tree).map(Self::Answer)
            }
            (Self::Answer(state), GossipMessage::Flush) => Ok(Self::Answer(state.flush(out))),
            (Self::Answer(state), GossipMessage::Done) => Ok(Self::Done(state.done(out))),
            (state, got) => Err(ExchangeError::Unexpected { found: got.name(), due: state.due() }),
        }
    }

    /// The differences found so far, for a connection that ended early. `None` before both sides
    /// agreed to talk.
    #[must_use]
    pub fn into_outcome(self) -> Option<ExchangeOutcome> {
        match self {
            Self::Greet(_) | Self::Agree(_) => None,
            Self::Ask(state) => Some(state.found().outcome(Ending::Cut)),
            Self::Answer(state) => Some(state.found().outcome(Ending::Cut)),
            Self::Done(outcome) => Some(outcome),
        }
    }

    /// The CPU time of all steps so far, by a model and not by a clock: it is the same on every
    /// machine and under any load.
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

/// The acceptor asks on until the exchange is done.
impl From<ControlFlow<ExchangeOutcome, Ask>> for Exchange {
    fn from(next: ControlFlow<ExchangeOutcome, Ask>) -> Self {
        match next {
            ControlFlow::Continue(state) => Self::Ask(state),
            ControlFlow::Break(outcome) => Self::Done(outcome),
        }
    }
}

/// The initiator answers on until the exchange is done.
impl From<ControlFlow<ExchangeOutcome, Answer>> for Exchange {
    fn from(next: ControlFlow<ExchangeOutcome, Answer>) -> Self {
        match next {
            ControlFlow::Continue(state) => Self::Answer(state),
            ControlFlow::Break(outcome) => Self::Done(outcome),
        }
    }
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
