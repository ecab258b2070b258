//! Exchanges with peers: those that they begin, and those that this server begins.

use std::collections::HashMap;
use std::io;
use std::mem::{Discriminant, discriminant};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fastrand::Rng;
use parking_lot::Mutex;
use talaria_recon::ExchangeError;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use super::error::GossipError;
use super::exchange::{self, Compared, ExchangeFailure, Table};
use super::fetch::{Fetched, Fetcher};
use super::lane::Lane;
use super::peers::{PeerStatus, Peers, name};
use super::software;
use super::turns::GossipTurns;
use crate::budget::Budget;
use crate::clock;
use crate::config::{Config, Settings};
use crate::engine::{Engine, Peer};
use crate::intake::Lanes;
use crate::metrics::{Metrics, count};
use crate::tally::Tally;

/// Connections whose address is being looked up among those of the peers, at most.
const STRANGERS_MAX: usize = 256;

/// The longest pause before a peer that fails is tried again.
const PAUSE_MAX: Duration = Duration::from_secs(3600);

/// The time for which failures of a peer with the same cause are one line in the log.
const LOGGED: Duration = Duration::from_secs(60);

/// The result of an exchange with a peer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Exchanged {
    /// Digests that the peer has and we had not.
    pub(crate) wanted: usize,
    /// Of these, the ones that are not asked for any more.
    pub(crate) given_up: usize,
    pub(crate) fetched: Fetched,
    pub(crate) requests: u64,
}

/// Gossip with all peers.
#[derive(Debug)]
pub(crate) struct Gossip {
    settings: Settings,
    engine: Engine,
    metrics: Arc<Metrics>,
    peers: Arc<Peers>,
    tally: Arc<Tally>,
    turns: Arc<GossipTurns>,
    lane: Lane,
    fetcher: Fetcher,
    complaints: Complaints,
}

impl Gossip {
    pub(crate) fn new(
        settings: Settings,
        engine: Engine,
        lanes: Arc<Lanes>,
        metrics: Arc<Metrics>,
        peers: Arc<Peers>,
        tally: Arc<Tally>,
    ) -> io::Result<Self> {
        let turns = Arc::new(GossipTurns::default());
        let fetcher = Fetcher {
            settings: Arc::clone(&settings),
            engine: engine.clone(),
            lanes,
            metrics: Arc::clone(&metrics),
            turns: Arc::clone(&turns),
            memory: Budget::default(),
        };
        let (lane, complaints) = (Lane::start()?, Complaints::default());
        Ok(Self { settings, engine, metrics, peers, tally, turns, lane, fetcher, complaints })
    }

    /// Takes exchanges that peers begin.
    pub(crate) async fn accept(
        self: Arc<Self>,
        listener: TcpListener,
        mut down: watch::Receiver<bool>,
    ) {
        let strangers = Arc::new(Semaphore::new(STRANGERS_MAX));
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                _ = down.wait_for(|down| *down) => return,
            };
            let (stream, address) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a peer");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            let Ok(stranger) = Arc::clone(&strangers).try_acquire_owned() else { continue };
            let this = Arc::clone(&self);
            tokio::spawn(async move {
                let peers = this.peers.at(address.ip()).await;
                drop(stranger);
                this.accepted_one(stream, address, &peers).await;
            });
        }
    }

    async fn accepted_one(&self, stream: TcpStream, address: SocketAddr, peers: &[Peer]) {
        let config = self.settings.load_full();
        if peers.is_empty() {
            count(&self.metrics.strangers, 1);
            let client = config.log.addresses.then(|| address.ip().to_string());
            tracing::debug!(client, "refused an exchange: the address is not that of a peer");
            return;
        }
        // Like SKS, a server that is busy closes the connection, and the peer comes again.
        let max = config.gossip.exchanges;
        let Some(_turn) = self.turns.accept(address.ip(), max) else { return };
        if !peers.iter().any(|peer| self.lane.may_begin(&name(peer))) {
            return;
        }
        let started = Instant::now();
        match exchange::accept(self.table(&config), stream, peers).await {
            Ok((peer, compared)) => self.finish(&peer, address, compared, started).await,
            Err((peer, error)) => self.failed(&peer, &error.into()),
        }
    }

    /// Begins exchanges side by side: now and then one with a peer drawn at random among those with
    /// which none is running.
    pub(crate) async fn initiate(self: Arc<Self>, mut down: watch::Receiver<bool>) {
        // Nobody else must know when an exchange begins, and with whom.
        let mut random = match getrandom::u64() {
            Ok(seed) => Rng::with_seed(seed),
            Err(error) => {
                tracing::error!(%error, "no gossip is begun: the system gives no random numbers");
                return;
            }
        };
        // They end with this value.
        let mut running = JoinSet::new();
        loop {
            let interval = self.settings.load().gossip.interval_s;
            // Peers that were started together should not stay in step.
            let jitter = 0.75 + random.f64() / 2.0;
            tokio::select! {
                () = tokio::time::sleep(Duration::from_secs_f64(interval * jitter)) => {}
                _ = down.wait_for(|down| *down) => return,
            }
            while running.try_join_next().is_some() {}
            let peers = match self.peers.all().await {
                Ok(peers) => peers,
                Err(error) => {
                    tracing::error!(%error, "cannot read the list of peers");
                    continue;
                }
            };
            let is_ready = |peer: &&Peer| !self.turns.is_running(&name(peer)) && self.is_due(peer);
            let ready: Vec<&Peer> = peers.iter().filter(is_ready).collect();
            let Some(peer) = random.choice(ready).cloned() else { continue };
            let this = Arc::clone(&self);
            running.spawn(async move {
                let Some(_turn) = this.turns.begin(name(&peer)) else { return };
                if let Err(error) = this.with(&peer).await {
                    this.failed(&peer, &error);
                }
            });
        }
    }

    fn table<'a>(&'a self, config: &'a Config) -> Table<'a> {
        Table { engine: &self.engine, config, lane: &self.lane }
    }

    /// Whether the pause of a failing peer is over, and it has CPU time for an exchange.
    fn is_due(&self, peer: &Peer) -> bool {
        if !self.lane.may_begin(&name(peer)) {
            return false;
        }
        let status = self.peers.status(&name(peer));
        let Some(status) = status.filter(|status| status.failing > 0) else { return true };
        let interval = Duration::from_secs_f64(self.settings.load().gossip.interval_s);
        let since = clock::now().saturating_sub(status.last_failure.unwrap_or(0));
        u64::from(since) >= pause(interval, status.failing).as_secs()
    }

    /// Starts one exchange with a peer, and fetches the missing certificates.
    pub(crate) async fn with(&self, peer: &Peer) -> Result<Exchanged, GossipError> {
        let started = Instant::now();
        let config = self.settings.load_full();
        let (address, compared) = exchange::connect(self.table(&config), peer).await?;
        self.complete(peer, address, compared, started).await
    }

    async fn finish(&self, peer: &Peer, address: SocketAddr, compared: Compared, started: Instant) {
        if let Err(error) = self.complete(peer, address, compared, started).await {
            self.failed(peer, &error);
        }
    }

    /// Fetches the missing certificates, and records the result.
    async fn complete(
        &self,
        peer: &Peer,
        address: SocketAddr,
        compared: Compared,
        started: Instant,
    ) -> Result<Exchanged, GossipError> {
        let Compared { outcome, is_spent } = compared;
        let port = peer.http_port.unwrap_or(outcome.peer_http_port);
        let http = SocketAddr::new(address.ip(), port);
        let wanted = outcome.wanted.len();
        let (fetched, given_up, failure) = self.fetcher.all(peer, http, outcome.wanted).await?;
        self.lane.give_back(&name(peer).into(), fetched.new + fetched.updated);
        let is_fruitless = is_spent && fetched.certs == 0 && outcome.offered == 0;
        let failure =
            failure.or(is_fruitless.then_some(GossipError::Fruitless { cost: outcome.cost }));
        let seconds = started.elapsed().as_secs_f64();
        self.ask_software(peer, http);
        self.peers.note(&name(peer), |status| {
            status.view = peer.view.name().into();
            status.http = Some(format!("http://{http}"));
            status.learnt += wanted as u64;
            status.fetched += fetched.certs as u64;
            status.last_requests = outcome.requests;
            status.last_seconds = seconds;
        });
        if let Some(failure) = failure {
            return Err(failure);
        }
        count(&self.metrics.exchanges, 1);
        self.peers.note(&name(peer), |status| {
            status.last_exchange = Some(clock::now());
            status.exchanges += 1;
            status.failing = 0;
        });
        let day = [
            (format!("gossip.{}.exchanges", name(peer)), 1),
            (format!("gossip.{}.fetched", name(peer)), fetched.certs as u64),
        ];
        self.tally.note(&day);
        // Certificates that are not asked for any more, or that come from another peer, are nothing
        // new.
        if fetched.certs == 0 {
            tracing::debug!(peer = name(peer), seconds, "an exchange found nothing new");
        } else {
            tracing::info!(
                peer = name(peer),
                wanted,
                given_up,
                fetched = fetched.certs,
                new = fetched.new,
                updated = fetched.updated,
                requests = outcome.requests,
                seconds,
                "exchange"
            );
        }
        Ok(Exchanged { wanted, given_up, fetched, requests: outcome.requests })
    }

    /// Asks a peer now and then for the software that it runs. Nothing waits for the answer.
    fn ask_software(&self, peer: &Peer, http: SocketAddr) {
        let (name, now) = (name(peer), clock::now());
        let is_known =
            |status: PeerStatus| now.saturating_sub(status.asked) < software::ASK_AGAIN_S;
        if self.peers.status(&name).is_some_and(is_known) {
            return;
        }
        self.peers.note(&name, |status| status.asked = now);
        let peers = Arc::clone(&self.peers);
        drop(tokio::task::spawn_blocking(move || {
            if let Some(software) = software::of(http) {
                peers.note(&name, |status| status.version = Some(software));
            }
        }));
    }

    fn failed(&self, peer: &Peer, error: &GossipError) {
        count(&self.metrics.exchanges_failed, 1);
        if self.complaints.is_due(name(peer), error, Instant::now()) {
            tracing::warn!(peer = name(peer), %error, "an exchange failed");
        }
        self.peers.note(&name(peer), |status| {
            status.view = peer.view.name().into();
            status.failures += 1;
            // One that is busy is not left alone for longer and longer.
            status.failing = if error.is_busy() { 1 } else { status.failing + 1 };
            status.last_failure = Some(clock::now());
            status.last_error = Some(error.to_string());
        });
    }
}

/// The failures that were logged lately, so that no peer fills the log.
#[derive(Debug, Default)]
struct Complaints(Mutex<HashMap<(String, Cause), Instant>>);

/// The kind of a failure. Its text may be the peer's.
type Cause = (
    Discriminant<GossipError>,
    Option<Discriminant<ExchangeFailure>>,
    Option<Discriminant<ExchangeError>>,
);

fn cause(error: &GossipError) -> Cause {
    let failure = match error {
        GossipError::Exchange(failure) => Some(failure),
        _ => None,
    };
    let inner = match failure {
        Some(ExchangeFailure::Exchange(inner)) => Some(discriminant(inner)),
        _ => None,
    };
    (discriminant(error), failure.map(discriminant), inner)
}

impl Complaints {
    /// Whether a failure is to be logged: no other one of the peer with the same cause was within
    /// [`LOGGED`].
    fn is_due(&self, peer: String, error: &GossipError, now: Instant) -> bool {
        let mut logged = self.0.lock();
        logged.retain(|_, last| now.duration_since(*last) < LOGGED);
        let key = (peer, cause(error));
        let is_due = !logged.contains_key(&key);
        if is_due {
            logged.insert(key, now);
        }
        is_due
    }
}

/// The pause of a peer after this number of consecutive failures.
fn pause(interval: Duration, failing: u32) -> Duration {
    interval.saturating_mul(1 << failing.min(10)).min(PAUSE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_logged_once_a_minute_for_each_peer_and_cause() {
        let (complaints, start) = (Complaints::default(), Instant::now());
        let is_due = |peer: &str, error: ExchangeFailure, s| {
            let error = GossipError::Exchange(error);
            complaints.is_due(peer.into(), &error, start + Duration::from_secs(s))
        };
        let said = |text: &str| ExchangeFailure::Exchange(ExchangeError::Peer(text.into()));
        let refused = || ExchangeFailure::Exchange(ExchangeError::Refused("one".into()));
        assert!(is_due("a", said("one"), 0) && !is_due("a", said("two"), 59));
        assert!(is_due("b", said("one"), 59));
        assert!(is_due("a", refused(), 1) && is_due("a", ExchangeFailure::Closed, 1));
        assert!(is_due("a", said("three"), 60) && !is_due("a", refused(), 60));
        assert!(!is_due("b", said("two"), 118) && is_due("b", said("two"), 119));
    }

    #[test]
    fn the_delay_grows_with_each_failure_of_a_peer() {
        let interval = Duration::from_secs(60);
        let pauses: Vec<u64> = (0..8).map(|failing| pause(interval, failing).as_secs()).collect();
        assert_eq!(pauses, [60, 120, 240, 480, 960, 1920, 3600, 3600]);
        assert_eq!(pause(Duration::MAX, u32::MAX), PAUSE_MAX);
    }
}
