//! The commands of operators, without a running server.
//!
//! They are the same orders as those of `/admin/`. `talaria admin backup`, `restore`, `reindex` and
//! `set-aside` work on SQLite's file instead, because another engine has copies and indexes of its
//! own kind.

use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use arc_swap::ArcSwap;
use talaria_cert::{Fingerprint, Limits, Query, Summary, View};
use tokio::runtime::Runtime;

use crate::admin::orders::{self, OrderError};
use crate::audit::{Audit, AuditEntry, Author};
use crate::config::{Config, Settings};
use crate::engine::{
    Access, Bounds, Command, Ended, Engine, EngineError, GivenUp, KeptOut, Note, Opened, Outcome,
    Peer, Purpose, Terms,
};
use crate::error::{PeerError, ServeError};
use crate::gossip::error::GossipError;
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

impl From<OrderError> for ServeError {
    fn from(error: OrderError) -> Self {
        match error {
            OrderError::Engine(error) => error.into(),
            OrderError::Audit(error) => error.into(),
        }
    }
}

fn runtime() -> Result<Runtime, ServeError> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(ServeError::Runtime)
}

/// What a keyserver keeps, opened for the commands of an operator. A server may use it at the same
/// time. The engine decides what a command means, as it does for those that a server gets over
/// HTTP.
pub struct Operator {
    /// There until the value is dropped.
    opened: Option<(Engine, JoinHandle<Ended>)>,
    runtime: Runtime,
    audit: Audit,
}

impl Operator {
    /// Opens the store at `path`.
    ///
    /// # Errors
    ///
    /// [`ServeError::Store`] and [`ServeError::Runtime`].
    pub fn open(path: &Path, access: Access) -> Result<Self, ServeError> {
        let opened = Engine::open(path, Purpose::Operate(access), Arc::default())?;
        let Opened { engine, writer, .. } = opened;
        Ok(Self { opened: Some((engine, writer)), runtime: runtime()?, audit: Audit::of(path) })
    }

    fn engine(&self) -> &Engine {
        let (engine, _) = self.opened.as_ref().expect("there until the value is dropped");
        engine
    }

    fn run<T>(
        &self,
        work: impl AsyncFnOnce(&Engine) -> Result<T, EngineError>,
    ) -> Result<T, ServeError> {
        Ok(self.runtime.block_on(work(self.engine()))?)
    }

    /// Those of the certificates with these fingerprints that are here.
    ///
    /// # Errors
    ///
    /// [`ServeError::Store`].
    pub fn summaries(&self, fingerprints: &[Fingerprint]) -> Result<Vec<Summary>, ServeError> {
        self.run(async |engine| {
            let rows = engine.reading().await?.rows(fingerprints).await?;
            Ok(rows.into_iter().map(|row| row.summary).collect())
        })
    }

    /// The certificates that match `query`, at most `max` of them.
    ///
    /// # Errors
    ///
    /// [`ServeError::Store`].
    pub fn find(&self, query: &Query, max: usize) -> Result<Vec<Summary>, ServeError> {
        self.run(async |engine| {
            let bounds = Bounds { results: max, looks: max };
            let found = engine.reading().await?.find(query, bounds).await?;
            Ok(found.rows.into_iter().map(|row| row.summary).collect())
        })
    }

    /// Carries out a command about each of the certificates, or about none if one of them fails, at
    /// `now` (seconds since 1970), and records it in the audit log.
    ///
    /// # Errors
    ///
    /// [`ServeError::Store`], or [`ServeError::Audit`]: if the audit log cannot be opened, nothing
    /// was done.
    pub fn carry_out(
        &self,
        author: &Author,
        fingerprints: &[Fingerprint],
        command: &Command,
        now: u32,
    ) -> Result<Vec<Outcome>, ServeError> {
        let terms = Terms { limits: Limits::default(), now };
        let (engine, audit) = (self.engine(), &self.audit);
        let done = orders::carry_out(engine, audit, author, fingerprints, command, terms);
        Ok(self.runtime.block_on(done)?)
    }

    /// Calls `each` with all entries of the audit log, the oldest first.
    ///
    /// # Errors
    ///
    /// [`ServeError::Audit`].
    pub fn for_each_audit_entry(&self, each: impl FnMut(AuditEntry)) -> Result<(), ServeError> {
        Ok(self.audit.for_each(each)?)
    }

    /// All blocked certificates, and all redactions.
    ///
    /// # Errors
    ///
    /// [`ServeError::Store`].
    pub fn kept_out(&self) -> Result<Vec<KeptOut>, ServeError> {
        self.run(async |engine| engine.reading().await?.kept_out().await)
    }

    /// The gossip peers that were added.
    ///
    /// # Errors
    ///
    /// [`ServeError::Store`].
    pub fn peers(&self) -> Result<Vec<Peer>, ServeError> {
        self.run(async |engine| engine.reading().await?.peers().await)
    }

    /// Adds a gossip peer, or changes one.
    ///
    /// # Errors
    ///
    /// [`ServeError::Store`].
    pub fn add_peer(&self, peer: Peer) -> Result<(), ServeError> {
        self.run(async |engine| engine.note(Note::Peer(peer)).await.map(drop))
    }

    /// Removes a gossip peer. Returns whether there was one.
    ///
    /// # Errors
    ///
    /// [`ServeError::Store`].
    pub fn remove_peer(&self, host: &str, port: u16) -> Result<bool, ServeError> {
        let host = host.to_owned();
        self.run(async |engine| Ok(engine.note(Note::NoPeer { host, port }).await? > 0))
    }

    /// The certificates that peers announced and did not deliver.
    ///
    /// # Errors
    ///
    /// [`ServeError::Store`].
    pub fn given_up(&self) -> Result<Vec<GivenUp>, ServeError> {
        self.run(async |engine| engine.reading().await?.given_up().await)
    }

    /// Lets a peer be asked again for certificates that it did not deliver. Returns the number of
    /// these.
    ///
    /// # Errors
    ///
    /// [`ServeError::Store`].
    pub fn ask_again(&self, host: &str, port: u16) -> Result<u64, ServeError> {
        let peer = Peer::name(host, port);
        self.run(async |engine| engine.note(Note::NothingInVain { peer }).await)
    }
}

impl Drop for Operator {
    /// Closes the store.
    fn drop(&mut self) {
        if let Some((engine, writer)) = self.opened.take() {
            drop(engine);
            let _ = writer.join();
        }
    }
}

/// The peers of a server with these settings, and where each is named. `stored` are those that were
/// added to its store.
///
/// # Errors
///
/// [`ServeError::Config`] if the membership file cannot be read.
pub fn peers(config: &Config, stored: Vec<Peer>) -> Result<Vec<(Peer, Origin)>, ServeError> {
    Ok(gossip::known(config, stored)?)
}

/// Asks a peer who it is.
///
/// # Errors
///
/// [`ServeError::Peer`] if it cannot be reached or is no keyserver.
pub fn probe(config: &Config, peer: &Peer) -> Result<Probed, ServeError> {
    let greeting = runtime()?.block_on(gossip::greet(config, peer));
    let greeting = greeting.map_err(|error| of_peer(peer, &error.into()))?;
    Ok(Probed {
        version: greeting.version,
        http_port: greeting.http_port,
        filters: greeting.filters,
        bit_quantum: greeting.bit_quantum,
        m_bar: greeting.m_bar,
    })
}

fn of_peer(peer: &Peer, error: &GossipError) -> PeerError {
    PeerError { peer: peer.clone(), what: error.to_string(), has_hung_up: error.has_hung_up() }
}

/// Compares the store with a peer once, and fetches the missing certificates.
///
/// # Errors
///
/// [`ServeError`]; certificates fetched before it are in the store.
pub fn sync(store: &Path, config: Config, peer: &Peer) -> Result<Synced, ServeError> {
    let Opened { engine, writer, .. } = Engine::open(store, Purpose::Serve, Arc::default())?;
    let gossip = gossip(config, engine).map_err(ServeError::Runtime)?;
    let runtime = runtime()?;
    let exchanged = runtime.block_on(gossip.with(peer));
    drop(runtime);
    drop(gossip);
    let _ = writer.join();
    let exchanged = exchanged.map_err(|error| of_peer(peer, &error))?;
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
    Gossip::new(settings, engine, Arc::new(lanes), metrics, peers, tally)
}
