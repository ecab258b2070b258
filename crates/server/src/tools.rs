//! Operations on peers from the command line, without a running server.

use std::path::Path;
use std::sync::Arc;

use talaria_cert::View;
use talaria_store::{Access, Peer, Store};

use crate::ServeError;
use crate::config::Config;
use crate::gossip::{self, Origin};
use crate::reader::Readers;
use crate::state::State;
use crate::trees::Trees;
use crate::writer::Writer;

/// Why a peer could not be reached, or nothing came of it.
#[derive(Debug, thiserror::Error)]
#[error("{}:{}: {what}", peer.host, peer.port)]
pub struct PeerError {
    /// The peer.
    pub peer: Peer,
    /// The error.
    pub what: String,
}

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
    gossip::known(config, store)
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
    let mut opened = Store::open(store, Access::Create)?;
    let trees = Trees::build(&opened)?;
    let secret = opened.secret()?;
    let readers = Readers::new(store, opened.open_files());
    let (writer, thread) = Writer::start(opened, config.policy.limits());
    let state =
        State::new(config, None, readers, writer, trees, secret).map_err(ServeError::Runtime)?;
    let state = Arc::new(state);
    let runtime = runtime()?;
    let exchanged = runtime.block_on(gossip::with(&state, peer));
    drop(runtime);
    drop(state);
    let _ = thread.join();
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
