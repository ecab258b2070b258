//! What a session did, and why it ended before its time.

use std::collections::BTreeMap;

use talaria_cert::ErrorKind;

use super::frame::{Farewell, Took};
use super::limits::{FRAMES_MAX, HEADS_KEPT_MAX};
use super::replica::Taken;
use crate::bytes::Malformed;
use crate::name::EntryId;
use crate::refusal::Refusal;

/// What a session did so far.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct SessionReport {
    /// Entries from the peer that were new.
    pub added: u64,
    /// Entries from the peer that were here.
    pub known: u64,
    /// Deletable values from the peer that came to entries that were here without them.
    pub values: u64,
    /// Entries from the peer that wait for others, or were not kept since too many do.
    pub waiting: u64,
    /// Entries from the peer that wait for the clock of this node.
    pub ahead: u64,
    /// Entries from the peer that were refused, by kind.
    pub refused: BTreeMap<&'static str, u64>,
    /// Heads that the peer announced and that are lacking, as of the last look.
    pub lacking: u64,
    /// Entries that were sent.
    pub sent: u64,
    /// What the peer said about them: the sums of its reports.
    pub peer: Took,
}

impl SessionReport {
    /// Whether this node has everything that the peer announced.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.waiting == 0 && self.ahead == 0 && self.lacking == 0
    }

    /// Counts entries that the peer has sent.
    pub(super) fn count(&mut self, taken: &Taken) {
        self.added += taken.added;
        self.known += taken.known;
        self.values += taken.values;
        self.waiting += taken.waiting + taken.not_kept;
        self.ahead += taken.ahead;
        for (_, refusal) in &taken.refused {
            *self.refused.entry(refusal.kind()).or_default() += 1;
        }
    }
}

/// The reason why a session ended before its time.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SyncError<E> {
    /// A frame or a record is not one that the format allows.
    #[error("the peer sent what the protocol does not allow: {0}")]
    Malformed(#[from] Malformed),
    /// A frame came out of order.
    #[error("the peer sent a frame out of order: {0}")]
    Unexpected(&'static str),
    /// The peer has another log.
    #[error("the peer has another log, {0}")]
    OtherLog(EntryId),
    /// The peer sent an entry that it cannot have admitted.
    #[error("the peer sent the entry {id}, which is refused: {refusal}")]
    Refused {
        /// The entry.
        id: EntryId,
        /// The reason.
        refusal: Box<Refusal>,
    },
    /// The peer did not do something in time.
    #[error("the peer is too slow: {0}")]
    Slow(&'static str),
    /// The peer sends too many frames.
    #[error("the peer sends more than {FRAMES_MAX} frames in a second")]
    Flood,
    /// The peer announces more heads than a session keeps.
    #[error("the peer announces more than {HEADS_KEPT_MAX} heads")]
    Heads,
    /// The peer announces entries and does not send them.
    #[error("the peer announces entries and does not send them")]
    Promise,
    /// The peer ended the session.
    #[error("the peer ended the exchange: {}{}{told}", reason.kind(), if told.is_empty() { "" } else { ": " })]
    Bye {
        /// The reason.
        reason: Farewell,
        /// Its text.
        told: String,
    },
    /// The copy of the log cannot be read or written.
    #[error("the log cannot be read or written")]
    Replica(E),
}

impl<E> SyncError<E> {
    /// Whether an honest peer cannot have caused it.
    #[must_use]
    pub fn is_fault_of_peer(&self) -> bool {
        !matches!(self, Self::Replica(_) | Self::Bye { .. } | Self::OtherLog(_) | Self::Slow(_))
    }

    /// The kind; `of_replica` gives the kind of an error of the copy.
    #[must_use]
    pub fn kind(&self, of_replica: impl FnOnce(&E) -> ErrorKind) -> ErrorKind {
        match self {
            Self::Malformed(_)
            | Self::Unexpected(_)
            | Self::Refused { .. }
            | Self::Flood
            | Self::Heads
            | Self::Promise => ErrorKind::Malformed,
            Self::OtherLog(_) => ErrorKind::Unexpected,
            Self::Slow(_) | Self::Bye { .. } => ErrorKind::Io,
            Self::Replica(error) => of_replica(error),
        }
    }

    /// The reason in one word.
    #[must_use]
    pub fn word(&self) -> &'static str {
        self.farewell().kind()
    }

    pub(super) fn farewell(&self) -> Farewell {
        match self {
            Self::Malformed(_) | Self::Unexpected(_) => Farewell::Protocol,
            Self::OtherLog(_) => Farewell::OtherLog,
            Self::Refused { .. } => Farewell::Refused,
            Self::Slow(_) => Farewell::Slow,
            Self::Flood | Self::Heads => Farewell::Flood,
            Self::Promise => Farewell::Promise,
            Self::Replica(_) => Farewell::Failed,
            Self::Bye { reason, .. } => *reason,
        }
    }
}
