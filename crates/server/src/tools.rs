//! Operations on peers from the command line, without a running server.

use std::path::Path;
use std::sync::Arc;

use arc_swap::ArcSwap;
use talaria_cert::View;

use crate::config::{Config, Settings};
use crate::engine::{Engine, OpenError, Opened, Peer, Store};
use crate::error::{PeerError, ServeError};
use crate::gossip::{self, Gossip, Origin, Peers};
use crate::intake::Lanes;
use crate::metrics::Metrics;
use crate::tally::Tally;

/// The configuration that a peer announces.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Probed {
    /// The version of its software.
    pub version: String,
    /// The port at which it serves certificates.
    pub http_port: u16,
    /// The filters that it applies to certificates before it makes their digests.
    pub filters: String,
    /// Bits per level of its tree.
    pub bit_quantum: u32,
    /// Differences that one request can find.
    pub m_bar: u32,
}

impl Probed {
    /// The view that has the data set of the peer, if there is one.
    #[must_use]
    pub fn view(&self) -> Option<View> {
        View::ALL.into_iter().find(|view| gossip::same_names(&self.filters, view.filters()))
    }
}

/// The result of an exchange with a peer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Synced {
    /// Certificates that the peer has and we had not.
    pub wanted: u64,
    /// Of these, the ones that are not asked for any more, since that was in vain.
    pub given_up: u64,
    /// Certificates that came.
    pub fetched: u64,
    /// Of these, new ones.
    pub new: u64,
    /// Of these, ones that had something new.
    pub updated: u64,
    /// Requests of the exchange.
    pub requests: u64,
}

fn runtime() -> Result<tokio::runtime::Runtime, ServeError> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(ServeError::Runtime)
}

/// The peers of a server with these settings on this store, and where each is named.
///
/// # Errors
///
/// [`ServeError::Config`] if the membership file cannot be read, and errors of reading the store.
pub fn peers(config: &Config, store: Option<&Store>) -> Result<Vec<(Peer, Origin)>, ServeError> {
    let stored = store.map_or_else(|| Ok(Vec::new()), |store| store.keyserver().peers())?;
    Ok(gossip::known(config, stored)?)
}

/// Asks a peer who it is.
///
/// # Errors
///
/// [`ServeError::Peer`] if it cannot be reached or is no keyserver.
pub fn probe(config: &Config, peer: &Peer) -> Result<Probed, ServeError> {
    let greeting = runtime()?.block_on(gossip::greet(config, peer));
    let greeting =
        greeting.map_err(|error| PeerError { peer: peer.clone(), what: error.to_string() });
    let greeting = greeting?;
    Ok(Probed {
        version: greeting.version,
        http_port: greeting.http_port,
        filters: greeting.filters,
        bit_quantum: greeting.bit_quantum,
        m_bar: greeting.m_bar,
    })
}

/// Compares the store with a peer once, and fetches the missing certificates.
///
/// # Errors
///
/// [`ServeError`]; certificates fetched before it are in the store.
pub fn sync(store: &Path, config: Config, peer: &Peer) -> Result<Synced, ServeError> {
    let opened = Engine::open(store, config.policy.limits(), Arc::default());
    let Opened { engine, writer, .. } = opened.map_err(|error| match error {
        OpenError::Store(error) => ServeError::Store(error),
        OpenError::Threads(error) => ServeError::Runtime(error),
    })?;
    let gossip = gossip(config, engine).map_err(ServeError::Runtime)?;
    let runtime = runtime()?;
    let exchanged = runtime.block_on(gossip.with(peer));
    drop(runtime);
    drop(gossip);
    let _ = writer.join();
    let exchanged =
        exchanged.map_err(|error| PeerError { peer: peer.clone(), what: error.to_string() })?;
    Ok(Synced {
        wanted: exchanged.wanted as u64,
        given_up: exchanged.given_up as u64,
        fetched: exchanged.fetched.certs as u64,
        new: exchanged.fetched.new as u64,
        updated: exchanged.fetched.updated as u64,
        requests: exchanged.requests,
    })
}

/// Gossip without a server around it.
fn gossip(config: Config, engine: Engine) -> std::io::Result<Gossip> {
    let settings: Settings = Arc::new(ArcSwap::from_pointee(config));
    let metrics = Arc::new(Metrics::default());
    let lanes = Lanes::start(Arc::clone(&settings), engine.clone(), Arc::clone(&metrics))?;
    let peers = Arc::new(Peers::new(Arc::clone(&settings), engine.clone()));
    let tally = Arc::new(Tally::new(Arc::clone(&metrics)));
    Ok(Gossip::new(settings, engine, Arc::new(lanes), metrics, peers, tally))
}
