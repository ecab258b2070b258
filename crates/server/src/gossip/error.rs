//! Why an exchange with a peer came to nothing.

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
    #[error("the answer of {url} has more than {max} bytes")]
    LargeReply { url: String, max: usize },
    #[error("{0}")]
    Store(Refusal),
}

impl From<Refusal> for GossipError {
    fn from(refusal: Refusal) -> Self {
        Self::Store(refusal)
    }
}

impl GossipError {
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
