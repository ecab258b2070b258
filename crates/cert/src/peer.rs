//! Gossip peers.

use crate::view::View;

/// A gossip peer.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Peer {
    /// Host name or address of the peer.
    pub host: String,
    /// Gossip port of the peer.
    pub port: u16,
    /// HKP port of the peer, if it differs from the port that the peer announces.
    pub http_port: Option<u16>,
    /// The view to reconcile with the peer.
    pub view: View,
}

impl Peer {
    /// The name of a peer: its host and gossip port.
    #[must_use]
    pub fn name(host: &str, port: u16) -> String {
        format!("{host}:{port}")
    }
}
