//! What the engine knows beside certificates.

use std::collections::BTreeMap;

use talaria_cert::{Address, Fingerprint, Peer, View};

use super::row::Position;

/// Seconds for which an engine remembers at least that links in mails have ended.
pub(crate) const LINK_SECONDS_MAX: u32 = 30 * 86400;

/// What its owner and operators have said about a certificate.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    /// The addresses by which it is found, because its owner confirmed them.
    pub(crate) published: Vec<Address>,
    /// Whether a part of it was removed for good.
    pub(crate) is_redacted: bool,
}

/// New, updated and deleted certificates by day (days since 1970).
pub(crate) type Changes = Vec<(u32, [u64; 3])>;

/// Counts by day and name.
pub(crate) type Tally = BTreeMap<(u32, String), u64>;

/// The figures of some days.
#[derive(Debug)]
pub(crate) struct Days {
    pub(crate) changes: Changes,
    pub(crate) tally: Tally,
}

/// The certificates that changed after a position in the log.
#[derive(Debug)]
pub(crate) struct Changed {
    /// Each certificate once.
    pub(crate) fingerprints: Vec<Fingerprint>,
    /// The end of the log.
    pub(crate) end: Position,
}

/// What an engine is opened for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Purpose {
    /// A server: the store is made if it does not exist, and its trees are built.
    Serve,
    /// The commands of an operator.
    Operate(Access),
}

/// What the commands of an operator may do.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Access {
    /// They read a store.
    Read,
    /// They change a store that exists.
    Write,
    /// They change a store, which is made if it does not exist.
    Create,
}

/// A certificate that a peer announced and did not deliver.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct GivenUp {
    /// Host and gossip port of the peer, with a colon between them.
    pub peer: String,
    /// The view in which the peer announced it.
    pub view: View,
    /// Its digest in this view.
    pub digest: [u8; 16],
    /// How often it was asked for.
    pub tries: u32,
    /// When it was asked for last (seconds since 1970).
    pub time: u32,
}

/// Requests to a peer for a certificate that were in vain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InVain {
    pub(crate) tries: u32,
    /// The last one (seconds since 1970).
    pub(crate) time: u32,
}

/// Something to keep beside certificates, or to forget.
#[derive(Debug)]
pub(crate) enum Note {
    /// A peer did not deliver certificates that it had announced, in so many tries.
    InVain {
        peer: String,
        view: View,
        digests: Vec<[u8; 16]>,
        tries: u32,
    },
    /// A peer is asked for everything again.
    NothingInVain {
        peer: String,
    },
    /// More for the counts of today.
    Counts(Vec<(String, u64)>),
    Peer(Peer),
    NoPeer {
        host: String,
        port: u16,
    },
}

/// How writing goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    /// Transactions so far.
    pub(crate) commits: u64,
    /// Changes that wait.
    pub(crate) waiting: usize,
    /// Whether nothing can be written any more.
    pub(crate) has_ended: bool,
    /// Whether verdicts that were found while reading are to be written.
    pub(crate) has_verdicts: bool,
}
