//! Nodes of a log exchange entries over TLS (`docs/formats/log-sync.md`).
//!
//! [`serve`] keeps a log open, listens, and stays connected with peers and a NATS server. [`sync`] exchanges once. The protocol is
//! [`talaria_log::Session`]; this crate has the sockets, the keys of nodes and the limits on connections.
//!
//! A peer is never trusted: what it sends is offered to the log like an import. Its key decides only whether it may
//! connect. The keys are in the log (`talaria log node publish`).

mod connection;
mod error;
mod key;
mod nats;
mod node;
#[cfg(test)]
mod tests;
mod tls;

pub use error::NetError;
pub use key::{KeyError, NodePublic, NodeSecret};
pub use node::{Event, Peer, ServeOptions, Stop, Synced, serve, sync};

use std::time::Duration;

/// Most connections whose keys are not known yet.
pub const HANDSHAKES_MAX: usize = 64;
/// Most of them from one IPv4 address, or one IPv6 network of 64 bits.
pub const HANDSHAKES_PER_NETWORK: usize = 8;
/// Most connections of a node.
pub const CONNECTIONS_MAX: usize = 64;
/// Most connections with one key.
pub const CONNECTIONS_PER_KEY: usize = 4;
/// Octets of entries in a message of a NATS stream. Servers allow 1 MiB by default.
pub const MESSAGE_OCTETS: usize = 256 << 10;
/// Longest message of a NATS stream that is read, in octets.
pub const MESSAGE_OCTETS_MAX: usize = 1 << 20;
/// Time for a connection and its TLS handshake.
pub const CONNECT: Duration = Duration::from_secs(10);
/// Time for the last octets of a connection.
pub const FAREWELL: Duration = Duration::from_secs(3);
/// Time before a node connects to a peer again. It doubles with each failure, up to [`RETRY_MAX`].
pub const RETRY_MIN: Duration = Duration::from_millis(500);
/// Longest time before a node connects to a peer again.
pub const RETRY_MAX: Duration = Duration::from_secs(60);
