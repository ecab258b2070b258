//! Why nodes do not exchange entries.

use std::io;

use talaria_cert::ErrorKind;
use talaria_log::{LogError, SyncError};
use tokio_rustls::rustls;

use crate::key::NodePublic;

/// The reason why nodes do not exchange entries.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NetError {
    /// The node cannot listen.
    #[error("cannot listen at {address}")]
    Listen {
        /// The address.
        address: String,
        /// The cause.
        source: io::Error,
    },
    /// There is no connection.
    #[error("cannot connect to {address}")]
    Connect {
        /// The address.
        address: String,
        /// The cause.
        source: io::Error,
    },
    /// The connection was lost.
    #[error("the connection was lost")]
    Connection {
        /// The cause.
        source: io::Error,
    },
    /// The peer closed the connection in the middle of an exchange.
    #[error("the peer closed the connection")]
    Closed,
    /// The other side is no node of a log.
    #[error("there is no node of a log at {address}")]
    NotANode {
        /// The address.
        address: String,
    },
    /// The key of the peer is not published in the log, or not any more.
    #[error("the key {key} of the peer is not published in the log")]
    NotPublished {
        /// The key.
        key: NodePublic,
    },
    /// The key of this node is not published in the copy of the log that the peer has, or not any
    /// more.
    #[error("the key {key} of this node is not published in the log of the peer")]
    OwnNotPublished {
        /// The key.
        key: NodePublic,
    },
    /// The peer has another key than the one that the caller expects.
    #[error("the peer has the key {found}, not {wanted}")]
    OtherKey {
        /// The key of the peer.
        found: NodePublic,
        /// The key that the caller expects.
        wanted: NodePublic,
    },
    /// The node is connected with itself.
    #[error("{address} is this node itself")]
    Own {
        /// The address.
        address: String,
    },
    /// The stream of a NATS server cannot be used.
    #[error("the stream of {address} cannot be used: {source}")]
    Nats {
        /// The server, without a password.
        address: String,
        /// The cause.
        source: async_nats::Error,
    },
    /// The exchange ended before its time.
    #[error(transparent)]
    Sync(#[from] SyncError<LogError>),
    /// The log cannot be read or written.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The process cannot start what it needs.
    #[error("cannot start the node")]
    Start {
        /// The cause.
        source: io::Error,
    },
    /// The key cannot be used for TLS.
    #[error("the key of this node cannot be used for TLS")]
    Tls {
        /// The cause.
        source: rustls::Error,
    },
}

impl NetError {
    /// The kind.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Own { .. } => ErrorKind::Usage,
            Self::NotPublished { .. } | Self::OwnNotPublished { .. } => ErrorKind::Refused,
            Self::NotANode { .. } | Self::OtherKey { .. } => ErrorKind::Unexpected,
            Self::Sync(error) => error.kind(LogError::kind),
            Self::Log(error) => error.kind(),
            Self::Listen { .. }
            | Self::Connect { .. }
            | Self::Connection { .. }
            | Self::Closed
            | Self::Nats { .. }
            | Self::Start { .. }
            | Self::Tls { .. } => ErrorKind::Io,
        }
    }

    /// The reason in one word.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Listen { .. } => "listen",
            Self::Connect { .. } => "connect",
            Self::Connection { .. } | Self::Closed => "connection",
            Self::NotANode { .. } => "not-a-node",
            Self::NotPublished { .. } | Self::OwnNotPublished { .. } => "not-published",
            Self::OtherKey { .. } => "other-key",
            Self::Own { .. } => "own",
            Self::Nats { .. } => "nats",
            Self::Sync(error) => error.word(),
            Self::Log(_) => "failed",
            Self::Start { .. } | Self::Tls { .. } => "start",
        }
    }
}
