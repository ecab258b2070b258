//! New certificates, which are passed on to other keyservers.

use std::sync::Arc;

use talaria_cert::Fingerprint;
use tokio::sync::broadcast;

/// News that wait for a listener, at most.
const WAITING_MAX: usize = 256;

/// The new certificates.
#[derive(Clone, Debug)]
pub(crate) struct News {
    pub(crate) fingerprints: Vec<Fingerprint>,
    /// The keyserver that passed it on, as it calls itself.
    pub(crate) via: Option<String>,
}

/// Tells whoever listens about new certificates.
#[derive(Clone, Debug)]
pub(crate) struct Newsroom(broadcast::Sender<Arc<News>>);

impl Default for Newsroom {
    fn default() -> Self {
        Self(broadcast::channel(WAITING_MAX).0)
    }
}

impl Newsroom {
    pub(crate) fn announce(&self, fingerprints: Vec<Fingerprint>, via: Option<String>) {
        if !fingerprints.is_empty() {
            // Nobody may listen.
            let _ = self.0.send(Arc::new(News { fingerprints, via }));
        }
    }

    pub(crate) fn listen(&self) -> broadcast::Receiver<Arc<News>> {
        self.0.subscribe()
    }
}
