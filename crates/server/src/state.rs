//! State that all parts of the server share.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use arc_swap::ArcSwap;
use talaria_cert::{Cert, Fingerprint};
use talaria_store::{IngestOutcome, Ingested, StoreError};
use tokio::sync::broadcast;

use crate::answer::Refusal;
use crate::config::Config;
use crate::figures::Figures;
use crate::gossip::{Addresses, GossipTurns};
use crate::intake::{self, Lanes};
use crate::limiter::Limiter;
use crate::listen::Memory;
use crate::mail::Mails;
use crate::metrics::Metrics;
use crate::reader::Readers;
use crate::trees::Trees;
use crate::turns::Turns;
use crate::wkd::Directories;
use crate::writer::Writer;

/// Runs work that may take milliseconds off the threads that answer requests.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|_| {
        Err(Refusal::Unavailable("the request failed inside the server".into()))
    })
}

/// The shared state.
pub(crate) struct State {
    /// The settings; replaced as a whole on reload.
    pub(crate) config: ArcSwap<Config>,
    /// The configuration file, if there is one.
    pub(crate) config_path: Option<PathBuf>,
    /// Why the store is lost, if it was moved or replaced.
    pub(crate) lost: OnceLock<Arc<StoreError>>,
    pub(crate) readers: Readers,
    pub(crate) writer: Writer,
    pub(crate) trees: Trees,
    pub(crate) metrics: Metrics,
    pub(crate) limiter: Limiter,
    pub(crate) memory: Memory,
    pub(crate) started: Instant,
    pub(crate) turns: Turns,
    pub(crate) lanes: Lanes,
    /// The statistics that pages show about the whole store.
    pub(crate) figures: Figures,
    /// A secret of the store, for tokens.
    pub(crate) secret: Vec<u8>,
    /// The new certificates, to be pushed.
    pub(crate) news: broadcast::Sender<Arc<News>>,
    /// The mails to owners of addresses.
    pub(crate) mails: Mails,
    /// Counts of requests to the web key directories.
    pub(crate) directories: Directories,
    /// The state of the peers.
    pub(crate) peers: Mutex<Vec<PeerStatus>>,
    pub(crate) gossip: GossipTurns,
    pub(crate) peer_addresses: Addresses,
    /// Counts that wait to be written into the tally of the day.
    tallied: Mutex<BTreeMap<String, u64>>,
}

/// The new certificates.
#[derive(Clone, Debug)]
pub(crate) struct News {
    pub(crate) fingerprints: Vec<Fingerprint>,
    /// The keyserver that passed it on, as it calls itself.
    pub(crate) via: Option<String>,
}

/// The state of gossip with a peer.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub(crate) struct PeerStatus {
    /// Its name and gossip port.
    pub(crate) name: String,
    pub(crate) view: String,
    /// The address from which its certificates are fetched.
    pub(crate) http: Option<String>,
    /// The software that it announces.
    pub(crate) version: Option<String>,
    /// The end of the last finished exchange, in seconds since 1970.
    pub(crate) last_exchange: Option<u32>,
    pub(crate) exchanges: u64,
    pub(crate) failures: u64,
    /// Failures since the last success.
    pub(crate) failing: u32,
    pub(crate) last_failure: Option<u32>,
    pub(crate) last_error: Option<String>,
    /// Digests that it had and we had not, over all exchanges.
    pub(crate) learnt: u64,
    pub(crate) fetched: u64,
    /// The requests of the last exchange; one is enough where all is equal.
    pub(crate) last_requests: u64,
    /// The seconds that the last exchange took, with fetching and storing.
    pub(crate) last_seconds: f64,
}

impl State {
    pub(crate) fn new(
        config: Config,
        config_path: Option<PathBuf>,
        readers: Readers,
        writer: Writer,
        trees: Trees,
        secret: Vec<u8>,
    ) -> io::Result<Self> {
        Ok(Self {
            config: ArcSwap::from_pointee(config),
            config_path,
            lost: OnceLock::new(),
            readers,
            writer,
            trees,
            metrics: Metrics::default(),
            limiter: Limiter::default(),
            memory: Memory::default(),
            started: Instant::now(),
            turns: Turns::start("read")?,
            lanes: Lanes::start()?,
            figures: Figures::default(),
            secret,
            news: broadcast::channel(256).0,
            mails: Mails::default(),
            directories: Directories::default(),
            peers: Mutex::default(),
            gossip: GossipTurns::default(),
            peer_addresses: Addresses::default(),
            tallied: Mutex::default(),
        })
    }

    /// Adds certificates that a client uploaded: counted and passed on, but not to the keyserver `via`
    /// which they came. Signatures that are marked as local are not taken.
    pub(crate) async fn add(
        &self,
        certs: Vec<Cert>,
        via: Option<String>,
    ) -> Result<Vec<Ingested>, Refusal> {
        let certs: Vec<Cert> = certs.iter().map(Cert::exportable).collect();
        let fingerprints: Vec<Fingerprint> = certs.iter().map(Cert::fingerprint).collect();
        let outcomes = intake::add(self, certs).await?;
        let news = fingerprints.into_iter().zip(&outcomes);
        let news = news
            .filter(|(_, new)| matches!(new.outcome, IngestOutcome::New | IngestOutcome::Updated));
        self.announce(news.map(|(fingerprint, _)| fingerprint).collect(), via);
        Ok(outcomes)
    }

    /// Notifies the pusher about new certificates.
    pub(crate) fn announce(&self, fingerprints: Vec<Fingerprint>, via: Option<String>) {
        if !fingerprints.is_empty() {
            // Nobody may listen.
            let _ = self.news.send(Arc::new(News { fingerprints, via }));
        }
    }

    /// Adds to the counts that are written with the next tally.
    pub(crate) fn note_for_tally(&self, counts: &[(String, u64)]) {
        let mut tallied = self.tallied.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, n) in counts {
            *tallied.entry(name.clone()).or_default() += n;
        }
    }

    /// All counts since the last call.
    pub(crate) fn take_tally(&self) -> Vec<(String, u64)> {
        let mut tallied = self.tallied.lock().unwrap_or_else(PoisonError::into_inner);
        let noted = std::mem::take(&mut *tallied);
        drop(tallied);
        self.metrics.since_last_tally().into_iter().chain(noted).collect()
    }

    /// Changes the status of a peer.
    pub(crate) fn note_peer(&self, name: &str, change: impl FnOnce(&mut PeerStatus)) {
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        let at = peers.iter().position(|peer| peer.name == name).unwrap_or_else(|| {
            peers.push(PeerStatus { name: name.to_owned(), ..PeerStatus::default() });
            peers.len() - 1
        });
        change(&mut peers[at]);
    }

    /// The state of the peers.
    pub(crate) fn peer_statuses(&self) -> Vec<PeerStatus> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
