//! Why a server cannot be started, or has ended; and why a peer could not be reached.

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;

use crate::audit::AuditError;
use crate::config::ConfigError;
use crate::engine::{EngineError, OpenError, Peer};

/// Why a server cannot be started, or has ended.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The store.
    #[error(transparent)]
    Store(Arc<dyn Error + Send + Sync>),
    /// An address cannot be listened on.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The certificate or key for TLS.
    #[error("cannot set up TLS: {0}")]
    Tls(std::io::Error),
    /// A peer.
    #[error(transparent)]
    Peer(#[from] PeerError),
    /// The audit log.
    #[error(transparent)]
    Audit(#[from] AuditError),
    /// Threads or timers.
    #[error("cannot start")]
    Runtime(#[source] std::io::Error),
    /// The store is not the one that was opened: it was moved, replaced or upgraded.
    #[error("the server has ended: {0}")]
    Writer(Arc<dyn Error + Send + Sync>),
    /// The thread that writes to the store has panicked.
    #[error("the server has ended: a defect stopped the thread that writes to the store")]
    WriterPanicked,
}

impl From<OpenError> for ServeError {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Store(cause) => Self::Store(cause),
            OpenError::Threads(error) => Self::Runtime(error),
        }
    }
}

impl From<EngineError> for ServeError {
    fn from(error: EngineError) -> Self {
        Self::Store(error.into_cause())
    }
}

/// Why a peer could not be reached, or nothing came of it.
#[derive(Debug, thiserror::Error)]
#[error("{}:{}: {what}", peer.host, peer.port)]
pub struct PeerError {
    /// The peer.
    pub peer: Peer,
    /// The error.
    pub what: String,
    /// Whether the peer has ended the connection, as it does with addresses that are not those of
    /// its peers.
    pub has_hung_up: bool,
}
