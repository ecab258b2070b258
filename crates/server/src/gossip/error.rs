//! Why an exchange with a peer came to nothing.

use std::io;
use std::time::Duration;

use talaria_recon::ExchangeError;

use super::exchange::ExchangeFailure;
use crate::answer::Refusal;

/// Why an exchange with a peer came to nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GossipError {
    #[error(transparent)]
    Exchange(#[from] ExchangeFailure),
    #[error("cannot fetch from {url}: {what}")]
    Fetch { url: String, what: String },
    /// One certificate alone is larger than an answer may be, again and again.
    #[error("the answer of {url} has more than {max} bytes")]
    LargeReply { url: String, max: usize },
    #[error("the answers of {url} in one exchange have more than {max} bytes")]
    ManyBytes { url: String, max: usize },
    /// It has taken its share of CPU time, and nothing came of it.
    #[error("comparing with the peer took {} ms of CPU time and found nothing that it delivers", cost.as_millis())]
    Fruitless { cost: Duration },
    #[error("verifying the certificates of {url} takes too much CPU time for one exchange")]
    TooCostly { url: String },
    #[error("{0}")]
    Store(Refusal),
}

impl From<Refusal> for GossipError {
    fn from(refusal: Refusal) -> Self {
        Self::Store(refusal)
    }
}

impl GossipError {
    /// Whether the exchange ends with it: the server cannot continue, or the peer has had its
    /// share.
    pub(crate) fn is_final(&self) -> bool {
        matches!(
            self,
            Self::Store(_)
                | Self::LargeReply { .. }
                | Self::ManyBytes { .. }
                | Self::TooCostly { .. }
        )
    }

    /// Whether the peer has ended the connection.
    pub(crate) fn has_hung_up(&self) -> bool {
        match self {
            Self::Exchange(ExchangeFailure::Closed) => true,
            Self::Exchange(ExchangeFailure::Connect(error) | ExchangeFailure::Io(error)) => {
                matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe)
            }
            _ => false,
        }
    }

    /// Whether the peer is running and busy: SKS closes the connection while it fetches,
    /// Hockeypuck says so.
    pub(crate) fn is_busy(&self) -> bool {
        match self {
            Self::Exchange(ExchangeFailure::Closed | ExchangeFailure::Io(_)) => true,
            Self::Exchange(ExchangeFailure::Exchange(
                ExchangeError::Refused(reason) | ExchangeError::Peer(reason),
            )) => reason.contains("not available"),
            _ => false,
        }
    }
}
