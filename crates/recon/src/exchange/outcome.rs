//! The end of an exchange.

use std::time::Duration;

use crate::digest::Digest;

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
    /// The CPU time that it took here, see [`Exchange::cost`](crate::exchange::Exchange::cost).
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
