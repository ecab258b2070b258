//! The keyserver: sockets around pure code.
//!
//! A request is read whole (`listen`), given to its handler (`service`), and answered from a
//! snapshot of the store. What writes goes through one thread, which commits in groups (`writer`).
//! Gossip follows the change log through prefix trees in memory (`trees`).

mod admin;
mod admission;
mod answer;
mod budget;
mod certified;
mod clock;
mod config;
mod descriptors;
mod figures;
#[doc(hidden)]
pub mod fuzz;
mod gossip;
mod hkp;
mod intake;
mod limiter;
mod listen;
mod log;
mod mail;
mod metrics;
mod notify;
mod outgoing;
mod owner;
mod page;
mod patient;
mod push;
mod reader;
mod request;
mod search;
mod secret;
mod service;
mod state;
mod submission;
mod token;
mod tools;
mod trees;
mod turns;
mod vks;
mod wkd;
mod writer;

pub use config::{
    Config, ConfigError, Gossip, GossipPeer, Http, Identity, Log, Policy, Push, Rate, Rates, Vks,
    Wkd,
};

pub use gossip::Origin;
pub use log::{LogGuard, start_log};
pub use tools::{PeerError, Probed, Synced, peers, probe, sync};

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use talaria_store::{Access, Store, StoreError};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::listen::Tls;
use crate::reader::Readers;
use crate::request::Via;
use crate::state::State;
use crate::trees::Trees;
use crate::writer::Writer;

/// The interval for reading changes of other processes from the change log.
const FOLLOW: Duration = Duration::from_millis(500);

/// The interval for writing the counts of the day.
const TALLY: Duration = Duration::from_secs(300);

/// The interval for looking whether the store is where it was.
const LOOK: Duration = Duration::from_secs(1);

/// The time that writes get for waiting for other processes when the server goes down.
const LOCK_GRACE: Duration = Duration::from_secs(1);

/// The idle time before indexes are merged.
const QUIET: Duration = Duration::from_millis(500);

/// Why a server cannot be started, or has ended.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
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
    /// Threads or timers.
    #[error("cannot start")]
    Runtime(#[source] std::io::Error),
    /// The store is not the one that was opened: it was moved, replaced or upgraded.
    #[error("the server has ended: {0}")]
    Writer(Arc<StoreError>),
    /// The thread that writes to the store has panicked.
    #[error("the server has ended: a defect stopped the thread that writes to the store")]
    WriterPanicked,
}

/// A server that is listening and not yet answering.
pub struct Server {
    state: Arc<State>,
    listeners: Vec<(Via, TcpListener)>,
    gossip: Vec<TcpListener>,
    tls: Option<Arc<Tls>>,
    writer: std::thread::JoinHandle<writer::Ended>,
    runtime: tokio::runtime::Runtime,
    down: watch::Sender<bool>,
    /// Ends the waits for locks of other processes.
    stop_waiting: Arc<AtomicBool>,
}

/// Tells a server that runs to go down or to read its settings again.
#[derive(Clone)]
pub struct ServerHandle {
    state: Arc<State>,
    tls: Option<Arc<Tls>>,
    down: watch::Sender<bool>,
}

impl ServerHandle {
    /// Lets open requests finish, writes acknowledged uploads, and stops.
    pub fn shut_down(&self) {
        let _ = self.down.send(true);
    }

    /// Reads the certificate and key for TLS and the settings again. Addresses and the names of the files
    /// for TLS stay as they are until a restart.
    ///
    /// # Errors
    ///
    /// [`ServeError`]; the settings in force stay.
    pub fn reload(&self) -> Result<(), ServeError> {
        if let Some(tls) = &self.tls {
            tls.reload().map_err(ServeError::Tls)?;
        }
        let Some(path) = &self.state.config_path else { return Ok(()) };
        let mut config = Config::read(path)?;
        let limits = config.policy.limits();
        // Where it listens may come from the command line, and stays in any case.
        let before = self.state.config.load();
        config.http.listen.clone_from(&before.http.listen);
        config.http.onion_listen.clone_from(&before.http.onion_listen);
        config.http.operator_listen.clone_from(&before.http.operator_listen);
        config.gossip.listen.clone_from(&before.gossip.listen);
        if let Some(chosen) = before.third_party {
            config.set_third_party(chosen);
        }
        self.state.config.store(Arc::new(config));
        let writer = self.state.writer.clone();
        tokio::spawn(async move {
            let _ = writer
                .run(move |store| {
                    store.set_limits(limits);
                    Ok(())
                })
                .await;
        });
        Ok(())
    }
}

impl Server {
    /// Opens the store at `store` (made if it does not exist), builds the trees for gossip, and listens.
    ///
    /// # Errors
    ///
    /// [`ServeError`].
    pub fn start(
        store: &Path,
        mut config: Config,
        config_path: Option<PathBuf>,
    ) -> Result<Self, ServeError> {
        config.validate()?;
        let mut opened = Store::open(store, Access::Create)?;
        if let Some(from) = opened.upgraded_from() {
            tracing::info!(from, to = talaria_store::FORMAT, "upgraded the format of the store");
        }
        if let Some(kind) = opened.network_file_system() {
            tracing::warn!(
                kind,
                "the store is on a network file system: use it from this computer only"
            );
        }
        let trees = Trees::build(&opened)?;
        let secret = opened.secret()?;
        let stop_waiting = Arc::new(AtomicBool::new(false));
        opened.stop_waiting_when(Arc::clone(&stop_waiting))?;
        let readers = Readers::new(store, opened.open_files());
        let (writer, thread) = Writer::start(opened, config.policy.limits());
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .thread_name("talaria-server")
            .enable_all()
            .build()
            .map_err(ServeError::Runtime)?;
        let tls = match (&config.http.tls_certificate, &config.http.tls_key) {
            (Some(certificate), Some(key)) => {
                Some(Arc::new(Tls::new(certificate, key).map_err(ServeError::Tls)?))
            }
            _ => None,
        };
        let bind = |addresses: &[SocketAddr]| -> Result<Vec<TcpListener>, ServeError> {
            let _entered = runtime.enter();
            let bind = |&address| {
                listen::bind(address).map_err(|source| ServeError::Listen { address, source })
            };
            addresses.iter().map(bind).collect()
        };
        let public = bind(&config.http.listen)?;
        let onion = bind(&config.http.onion_listen)?;
        let operator = bind(&config.http.operator_listen)?;
        let gossip = bind(&config.gossip.listen)?;
        descriptors::fit(&mut config.http);
        // Peers are told the port that the system assigned.
        config.http.listen = local_addresses(&public);
        config.http.onion_listen = local_addresses(&onion);
        config.http.operator_listen = local_addresses(&operator);
        let kinds = [(Via::Public, public), (Via::Onion, onion), (Via::Operator, operator)];
        let listeners = kinds
            .into_iter()
            .flat_map(|(via, all)| all.into_iter().map(move |listener| (via, listener)))
            .collect();
        config.gossip.listen = local_addresses(&gossip);
        let state = State::new(config, config_path, readers, writer, trees, secret)
            .map_err(ServeError::Runtime)?;
        let (down, _) = watch::channel(false);
        Ok(Self {
            state: Arc::new(state),
            listeners,
            gossip,
            tls,
            writer: thread,
            runtime,
            down,
            stop_waiting,
        })
    }

    /// The addresses that the server answers on.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.state.config.load().http.listen.clone()
    }

    /// The addresses for an onion service.
    #[must_use]
    pub fn onion_addresses(&self) -> Vec<SocketAddr> {
        self.state.config.load().http.onion_listen.clone()
    }

    /// The addresses for operators.
    #[must_use]
    pub fn operator_addresses(&self) -> Vec<SocketAddr> {
        self.state.config.load().http.operator_listen.clone()
    }

    /// The addresses that the server gossips on.
    #[must_use]
    pub fn gossip_addresses(&self) -> Vec<SocketAddr> {
        local_addresses(&self.gossip)
    }

    /// The signal that stops this server.
    #[must_use]
    pub fn handle(&self) -> ServerHandle {
        let (state, tls) = (Arc::clone(&self.state), self.tls.clone());
        ServerHandle { state, tls, down: self.down.clone() }
    }

    /// Answers until a signal (SIGTERM, SIGINT) or [`ServerHandle::shut_down`] ends it; SIGHUP reads the
    /// settings again.
    ///
    /// # Errors
    ///
    /// [`ServeError::Writer`] and [`ServeError::WriterPanicked`] if nothing can be written any more. Open requests were answered.
    pub fn run(self) -> Result<(), ServeError> {
        let Self { state, listeners, gossip, tls, writer, runtime, down, stop_waiting } = self;
        let handle =
            ServerHandle { state: Arc::clone(&state), tls: tls.clone(), down: down.clone() };
        // Without a writer the server ends, too.
        let (ended, has_ended) = tokio::sync::oneshot::channel();
        let writer = std::thread::spawn(move || {
            let outcome = writer.join();
            let _ = ended.send(());
            outcome
        });
        let without_writer = handle.clone();
        runtime.block_on(async {
            tokio::spawn(async move {
                if has_ended.await.is_ok() {
                    without_writer.shut_down();
                }
            });
            tokio::spawn(stop_waiting_after(down.subscribe(), stop_waiting));
            tokio::spawn(watch_store(Arc::clone(&state), handle.clone()));
            let mut tasks = tokio::task::JoinSet::new();
            for (via, listener) in listeners {
                // An onion service and an operator's address encrypt by other means.
                let tls = tls.clone().filter(|_| via == Via::Public);
                let (state, down) = (Arc::clone(&state), down.subscribe());
                tasks.spawn(listen::serve(state, listener, via, tls, down));
            }
            if !gossip.is_empty() {
                tasks.spawn(gossip::initiate(Arc::clone(&state), down.subscribe()));
            }
            for listener in gossip {
                tasks.spawn(gossip::accept(Arc::clone(&state), listener, down.subscribe()));
            }
            tasks.spawn(follow(Arc::clone(&state), down.subscribe()));
            tasks.spawn(push::run(Arc::clone(&state), down.subscribe()));
            tasks.spawn(tally(Arc::clone(&state), down.subscribe()));
            tasks.spawn(tidy(Arc::clone(&state), down.subscribe()));
            tokio::spawn(signals(handle));
            notify::say("READY=1");
            while tasks.join_next().await.is_some() {}
            state.mails.close().await;
            // Other tasks may still hold the state. The writer refuses their requests from here on.
            state.writer.close().await;
        });
        runtime.shutdown_timeout(Duration::from_secs(5));
        match writer.join() {
            Ok(Ok(Ok(()))) => match state.lost.get() {
                Some(error) => Err(ServeError::Writer(Arc::clone(error))),
                None => Ok(()),
            },
            Ok(Ok(Err(error))) => Err(ServeError::Writer(error)),
            Ok(Err(_)) | Err(_) => Err(ServeError::WriterPanicked),
        }
    }
}

fn local_addresses(listeners: &[TcpListener]) -> Vec<SocketAddr> {
    listeners.iter().filter_map(|listener| listener.local_addr().ok()).collect()
}

/// Waits for signals.
async fn signals(handle: ServerHandle) {
    use tokio::signal::unix::{SignalKind, signal};
    let all = (
        signal(SignalKind::terminate()),
        signal(SignalKind::interrupt()),
        signal(SignalKind::hangup()),
    );
    let (Ok(mut terminate), Ok(mut interrupt), Ok(mut hangup)) = all else { return };
    loop {
        tokio::select! {
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
            _ = hangup.recv() => match handle.reload() {
                Ok(()) => tracing::info!("reloaded the settings"),
                Err(error) => tracing::error!(%error, "cannot reload the settings; the old settings stay in force"),
            },
        }
    }
    tracing::info!("shutting down");
    notify::say("STOPPING=1");
    handle.shut_down();
}

/// Gives up waiting for locks of other processes some time after the server goes down. Uploads that wait get an error.
async fn stop_waiting_after(mut down: watch::Receiver<bool>, stop: Arc<AtomicBool>) {
    if down.wait_for(|down| *down).await.is_ok() {
        tokio::time::sleep(LOCK_GRACE).await;
        stop.store(true, Ordering::Relaxed);
    }
}

/// Ends the server if the store was moved or replaced: readers would answer from the old file for ever.
async fn watch_store(state: Arc<State>, handle: ServerHandle) {
    loop {
        tokio::time::sleep(LOOK).await;
        let looking = Arc::clone(&state);
        let looked = tokio::task::spawn_blocking(move || looking.readers.check());
        if let Ok(Err(error)) = looked.await {
            tracing::error!(%error, "the server ends");
            let _ = state.lost.set(Arc::new(error));
            handle.shut_down();
            return;
        }
        notify::say("WATCHDOG=1");
    }
}

/// Updates the trees with the changes of all processes.
async fn follow(state: Arc<State>, mut down: watch::Receiver<bool>) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(FOLLOW) => {}
            _ = down.wait_for(|down| *down) => return,
        }
        let state = Arc::clone(&state);
        let followed = tokio::task::spawn_blocking(move || {
            let store = state.readers.get()?;
            state.trees.follow(&store)
        });
        if let Ok(Err(error)) = followed.await {
            tracing::error!(%error, "cannot follow the change log");
        }
    }
}

/// Writes the counts of the day now and then, and at the end.
async fn tally(state: Arc<State>, mut down: watch::Receiver<bool>) {
    loop {
        let ends = tokio::select! {
            () = tokio::time::sleep(TALLY) => false,
            _ = down.wait_for(|down| *down) => true,
        };
        let counts = state.take_tally();
        if !counts.is_empty() {
            let written =
                state.writer.run(move |store| store.add_to_tally(clock::today(), &counts)).await;
            if let Err(error) = written {
                tracing::warn!(%error, "cannot write the counts of the day");
            }
        }
        if ends {
            return;
        }
    }
}

/// Merges the pieces of the word index that additions left, once nothing has been added for a moment.
async fn tidy(state: Arc<State>, mut down: watch::Receiver<bool>) {
    let (mut seen, mut tidied) = (0, 0);
    loop {
        tokio::select! {
            () = tokio::time::sleep(QUIET) => {}
            _ = down.wait_for(|down| *down) => return,
        }
        let commits = state.writer.commits();
        let quiet = std::mem::replace(&mut seen, commits) == commits;
        // A step at a time, so that an upload waits for one at most.
        while quiet && tidied != commits && state.writer.commits() == commits && !*down.borrow() {
            match state.writer.run(Store::tidy).await {
                Ok(true) => {}
                Ok(false) => tidied = commits,
                Err(error) => {
                    tracing::warn!(%error, "cannot merge the word index");
                    tidied = commits;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_whose_writer_panics_ends_with_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let mut config = Config::default();
        config.http.listen = vec![SocketAddr::from(([127, 0, 0, 1], 0))];
        let server = Server::start(&folder.path().join("certs.db"), config, None).unwrap();
        let state = Arc::clone(&server.state);
        let running = std::thread::spawn(move || server.run());
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let defect = |_: &mut Store| -> Result<(), StoreError> { panic!("a defect") };
        let answered = runtime.block_on(state.writer.run(defect));
        assert!(matches!(answered, Err(writer::WriteError::Closed)));
        assert!(matches!(running.join().unwrap(), Err(ServeError::WriterPanicked)));
        assert!(matches!(admin::ready(&state), Err(answer::Refusal::Unavailable(_))));
    }
}
