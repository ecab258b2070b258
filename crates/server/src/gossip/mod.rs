//! Gossip: the sockets and timers around [`talaria_recon`], and fetching the certificates that an exchange found.
//!
//! Each peer has a view, the data set that its software keeps; each view has a tree of its own. So
//! one server exchanges with SKS and with Hockeypuck at the same time.

mod exchange;
mod fetch;
pub(crate) mod peers;
mod turns;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use talaria_cert::View;
use talaria_recon::{ExchangeError, ExchangeOutcome};
use talaria_store::Peer;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use crate::answer::Refusal;
use crate::clock;
use crate::metrics::count;
use crate::state::State;

pub use peers::Origin;

pub(crate) use exchange::{ExchangeFailure, greet, same_names};
pub(crate) use fetch::Fetched;
pub(crate) use peers::{Addresses, known};
pub(crate) use turns::GossipTurns;

/// Connections whose address is being looked up among those of the peers, at most.
const STRANGERS_MAX: usize = 256;

/// The longest pause before a peer that fails is tried again.
const PAUSE_MAX: Duration = Duration::from_secs(3600);

/// Why an exchange with a peer came to nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GossipError {
    #[error(transparent)]
    Exchange(#[from] ExchangeFailure),
    #[error("cannot fetch from {url}: {what}")]
    Fetch { url: String, what: String },
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
    fn is_busy(&self) -> bool {
        match self {
            Self::Exchange(ExchangeFailure::Closed | ExchangeFailure::Io(_)) => true,
            Self::Exchange(ExchangeFailure::Exchange(
                ExchangeError::Refused(reason) | ExchangeError::Peer(reason),
            )) => reason.contains("not available"),
            _ => false,
        }
    }
}

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

/// The name of a peer in the log and on the pages.
pub(crate) fn name(peer: &Peer) -> String {
    format!("{}:{}", peer.host, peer.port)
}

/// Takes exchanges that peers begin.
pub(crate) async fn accept(
    state: Arc<State>,
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
        let state = Arc::clone(&state);
        tokio::spawn(async move {
            let peers = peers::at(&state, address.ip()).await;
            drop(stranger);
            accepted_one(&state, stream, address, &peers).await;
        });
    }
}

async fn accepted_one(state: &Arc<State>, stream: TcpStream, address: SocketAddr, peers: &[Peer]) {
    if peers.is_empty() {
        tracing::info!(%address, "refused an exchange: the address is not that of a peer");
        return;
    }
    // Like SKS, a server that is busy closes the connection, and the peer comes again.
    let max = state.config.load().gossip.exchanges;
    let Some(_turn) = state.gossip.accept(address.ip(), max) else { return };
    let started = Instant::now();
    match exchange::accept(state, stream, peers).await {
        Ok((peer, outcome)) => finish(state, &peer, address, outcome, started).await,
        Err((peer, error)) => failed(state, &peer, &error.into()),
    }
}

/// Begins exchanges side by side: now and then one with a peer drawn at random among those with which none is running.
pub(crate) async fn initiate(state: Arc<State>, mut down: watch::Receiver<bool>) {
    let mut seed = u64::from(clock::now()) ^ u64::from(std::process::id()) << 32;
    // They end with this value.
    let mut running = JoinSet::new();
    loop {
        let interval = state.config.load().gossip.interval_s;
        // Peers that were started together should not stay in step.
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        #[expect(clippy::cast_precision_loss, reason = "some randomness")]
        let jitter = 0.75 + (seed >> 40) as f64 / f64::from(1 << 25);
        tokio::select! {
            () = tokio::time::sleep(Duration::from_secs_f64(interval * jitter)) => {}
            _ = down.wait_for(|down| *down) => return,
        }
        while running.try_join_next().is_some() {}
        let peers = match peers::all(&state) {
            Ok(peers) => peers,
            Err(error) => {
                tracing::error!(%error, "cannot read the list of peers");
                continue;
            }
        };
        let is_ready = |peer: &&Peer| !state.gossip.is_running(&name(peer)) && is_due(&state, peer);
        let ready: Vec<&Peer> = peers.iter().filter(is_ready).collect();
        if ready.is_empty() {
            continue;
        }
        let peer = ready[usize::try_from(seed >> 33).unwrap_or(0) % ready.len()].clone();
        let state = Arc::clone(&state);
        running.spawn(async move {
            let Some(_turn) = state.gossip.begin(name(&peer)) else { return };
            if let Err(error) = with(&state, &peer).await {
                failed(&state, &peer, &error);
            }
        });
    }
}

/// Whether the pause of a failing peer is over.
fn is_due(state: &State, peer: &Peer) -> bool {
    let name = name(peer);
    let status = state.peer_statuses().into_iter().find(|status| status.name == name);
    let Some(status) = status.filter(|status| status.failing > 0) else { return true };
    let interval = Duration::from_secs_f64(state.config.load().gossip.interval_s);
    let since = clock::now().saturating_sub(status.last_failure.unwrap_or(0));
    u64::from(since) >= pause(interval, status.failing).as_secs()
}

/// The pause of a peer after this number of consecutive failures.
fn pause(interval: Duration, failing: u32) -> Duration {
    interval.saturating_mul(1 << failing.min(10)).min(PAUSE_MAX)
}

/// Starts one exchange with a peer, and fetches the missing certificates.
pub(crate) async fn with(state: &Arc<State>, peer: &Peer) -> Result<Exchanged, GossipError> {
    let started = Instant::now();
    let (address, outcome) = exchange::connect(state, peer).await?;
    complete(state, peer, address, outcome, started).await
}

async fn finish(
    state: &Arc<State>,
    peer: &Peer,
    address: SocketAddr,
    outcome: ExchangeOutcome,
    started: Instant,
) {
    if let Err(error) = complete(state, peer, address, outcome, started).await {
        failed(state, peer, &error);
    }
}

/// Fetches the missing certificates, and records the result.
async fn complete(
    state: &Arc<State>,
    peer: &Peer,
    address: SocketAddr,
    outcome: ExchangeOutcome,
    started: Instant,
) -> Result<Exchanged, GossipError> {
    let port = peer.http_port.unwrap_or(outcome.peer_http_port);
    let url = format!("http://{}", SocketAddr::new(address.ip(), port));
    let wanted = outcome.wanted.len();
    let (fetched, given_up) = fetch::all(state, peer, &url, outcome.wanted).await?;
    count(&state.metrics.exchanges, 1);
    let seconds = started.elapsed().as_secs_f64();
    state.note_peer(&name(peer), |status| {
        status.view = peer.view.name().into();
        status.http = Some(url.clone());
        status.version = Some(outcome.peer_version.clone());
        status.last_exchange = Some(clock::now());
        status.exchanges += 1;
        status.failing = 0;
        status.learnt += wanted as u64;
        status.fetched += fetched.certs as u64;
        status.last_requests = outcome.requests;
        status.last_seconds = seconds;
    });
    let day = [
        (format!("gossip.{}.exchanges", name(peer)), 1),
        (format!("gossip.{}.fetched", name(peer)), fetched.certs as u64),
    ];
    state.note_for_tally(&day);
    // Certificates that are not asked for any more are nothing new.
    if wanted == given_up {
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

fn failed(state: &State, peer: &Peer, error: &GossipError) {
    count(&state.metrics.exchanges_failed, 1);
    tracing::warn!(peer = name(peer), %error, "an exchange failed");
    state.note_peer(&name(peer), |status| {
        status.view = peer.view.name().into();
        status.failures += 1;
        // One that is busy is not left alone for longer and longer.
        status.failing = if error.is_busy() { 1 } else { status.failing + 1 };
        status.last_failure = Some(clock::now());
        status.last_error = Some(error.to_string());
    });
}

/// Makes sure that the store keeps the view of a peer, and that there is a tree for it.
pub(crate) async fn ensure_view(state: &Arc<State>, view: View) -> Result<(), Refusal> {
    if state.trees.views().contains(&view) {
        return Ok(());
    }
    // A step at a time, so that an upload waits for one at most.
    while state.writer.run(move |store| store.add_view_step(view)).await? {}
    let state = Arc::clone(state);
    crate::state::blocking(move || Ok(state.trees.add(view, &*state.readers.get()?)?)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delay_grows_with_each_failure_of_a_peer() {
        let interval = Duration::from_secs(60);
        let pauses: Vec<u64> = (0..8).map(|failing| pause(interval, failing).as_secs()).collect();
        assert_eq!(pauses, [60, 120, 240, 480, 960, 1920, 3600, 3600]);
        assert_eq!(pause(Duration::MAX, u32::MAX), PAUSE_MAX);
    }
}
