//! A server: put together from its parts, started and stopped. No other file uses this one.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::admin::Admin;
use crate::admin::orders::Orders;
use crate::audit::Audit;
use crate::config::{Config, Settings};
use crate::engine::{Cause, Ended, Engine, EngineError, Note, Opened, Purpose};
use crate::error::ServeError;
use crate::figures::Figures;
use crate::gate::Gate;
use crate::gossip::{Gossip, Peers};
use crate::hkp::add::Adds;
use crate::hkp::hashquery::HashQueries;
use crate::hkp::lookup::Lookups;
use crate::hkp::statistics::Statistics;
use crate::hkp::v2::Version2;
use crate::intake::Lanes;
use crate::listen::{Front, Places, Tls};
use crate::mail::Mails;
use crate::memory::Memory;
use crate::metrics::Metrics;
use crate::news::Newsroom;
use crate::owner::Owners;
use crate::page::Pages;
use crate::push::Pusher;
use crate::request::Via;
use crate::router::Router;
use crate::tally::Tally;
use crate::token::Tokens;
use crate::uploads::Uploads;
use crate::vks::Vks;
use crate::wkd::WebKeys;
use crate::{descriptors, listen, notify};

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

/// A server that is listening and not yet answering.
pub struct Server {
    parts: Parts,
    written: Option<Arc<Config>>,
    listeners: [(Via, Vec<TcpListener>); 3],
    gossip_listeners: Vec<TcpListener>,
    tls: Option<Arc<Tls>>,
    writer: std::thread::JoinHandle<Ended>,
    runtime: tokio::runtime::Runtime,
    down: watch::Sender<bool>,
    /// Ends the waits for locks of other processes.
    stop_waiting: Arc<AtomicBool>,
    /// Why the store is lost, if it was moved or replaced.
    lost: Arc<OnceLock<Cause>>,
}

/// The parts of a server that run side by side.
struct Parts {
    settings: Settings,
    config_path: Option<PathBuf>,
    engine: Engine,
    front: Arc<Front>,
    gossip: Arc<Gossip>,
    pusher: Pusher,
    mails: Arc<Mails>,
    tally: Arc<Tally>,
}

impl Parts {
    /// Puts a server together.
    fn new(
        config: Config,
        config_path: Option<PathBuf>,
        engine: Engine,
        secret: Vec<u8>,
        audit: Audit,
    ) -> std::io::Result<Self> {
        let common = Common::new(config, engine)?;
        let router = common.router(secret, audit);
        let Common { settings, engine, metrics, memory, peers, lanes, mails, news, .. } = common;
        let front = Arc::new(Front {
            settings: Arc::clone(&settings),
            engine: engine.clone(),
            metrics: Arc::clone(&metrics),
            memory,
            router,
        });
        let tally = Arc::new(Tally::new(Arc::clone(&metrics)));
        let gossip = Arc::new(Gossip::new(
            Arc::clone(&settings),
            engine.clone(),
            lanes,
            Arc::clone(&metrics),
            peers,
            Arc::clone(&tally),
        )?);
        let pusher =
            Pusher { settings: Arc::clone(&settings), engine: engine.clone(), metrics, news };
        Ok(Self { settings, config_path, engine, front, gossip, pusher, mails, tally })
    }
}

/// The parts that many others use.
struct Common {
    settings: Settings,
    engine: Engine,
    metrics: Arc<Metrics>,
    memory: Arc<Memory>,
    figures: Arc<Figures>,
    peers: Arc<Peers>,
    lanes: Arc<Lanes>,
    uploads: Arc<Uploads>,
    mails: Arc<Mails>,
    news: Newsroom,
    started: Instant,
}

impl Common {
    fn new(config: Config, engine: Engine) -> std::io::Result<Self> {
        let settings: Settings = Arc::new(ArcSwap::from_pointee(config));
        let started = Instant::now();
        let metrics = Arc::new(Metrics::default());
        let memory = Arc::new(Memory::new(Arc::clone(&metrics)));
        let news = Newsroom::default();
        let mails = Arc::new(Mails::new(Arc::clone(&metrics)));
        let figures = Arc::new(Figures::new(engine.clone(), Arc::clone(&metrics)));
        let peers = Arc::new(Peers::new(Arc::clone(&settings), engine.clone()));
        let lanes = Lanes::start(Arc::clone(&settings), engine.clone(), Arc::clone(&metrics))?;
        let lanes = Arc::new(lanes);
        let uploads = Arc::new(Uploads {
            settings: Arc::clone(&settings),
            engine: engine.clone(),
            lanes: Arc::clone(&lanes),
            metrics: Arc::clone(&metrics),
            news: news.clone(),
        });
        Ok(Self {
            settings,
            engine,
            metrics,
            memory,
            figures,
            peers,
            lanes,
            uploads,
            mails,
            news,
            started,
        })
    }

    fn statistics(&self) -> Arc<Statistics> {
        Arc::new(Statistics {
            settings: Arc::clone(&self.settings),
            engine: self.engine.clone(),
            figures: Arc::clone(&self.figures),
            metrics: Arc::clone(&self.metrics),
            peers: Arc::clone(&self.peers),
            started: self.started,
        })
    }

    fn pages(&self) -> Arc<Pages> {
        Arc::new(Pages {
            settings: Arc::clone(&self.settings),
            engine: self.engine.clone(),
            figures: Arc::clone(&self.figures),
            metrics: Arc::clone(&self.metrics),
            peers: Arc::clone(&self.peers),
            started: self.started,
        })
    }

    /// The handlers of all paths.
    fn router(&self, secret: Vec<u8>, audit: Audit) -> Router {
        let tokens = Tokens::new(Arc::clone(&self.settings), secret);
        let (statistics, pages) = (self.statistics(), self.pages());
        let gate = Arc::new(Gate::new(Arc::clone(&self.settings), Arc::clone(&self.metrics)));
        Router {
            settings: Arc::clone(&self.settings),
            gate: Arc::clone(&gate),
            metrics: Arc::clone(&self.metrics),
            lookups: Lookups {
                settings: Arc::clone(&self.settings),
                gate,
                engine: self.engine.clone(),
                pages: Arc::clone(&pages),
                statistics: Arc::clone(&statistics),
                memory: Arc::clone(&self.memory),
            },
            adds: Adds {
                settings: Arc::clone(&self.settings),
                engine: self.engine.clone(),
                tokens: tokens.clone(),
                uploads: Arc::clone(&self.uploads),
            },
            hash_queries: HashQueries {
                settings: Arc::clone(&self.settings),
                engine: self.engine.clone(),
                metrics: Arc::clone(&self.metrics),
            },
            statistics,
            owners: Owners {
                settings: Arc::clone(&self.settings),
                engine: self.engine.clone(),
                lanes: Arc::clone(&self.lanes),
            },
            version2: Version2 {
                settings: Arc::clone(&self.settings),
                engine: self.engine.clone(),
                uploads: Arc::clone(&self.uploads),
                memory: Arc::clone(&self.memory),
            },
            vks: Vks {
                settings: Arc::clone(&self.settings),
                engine: self.engine.clone(),
                tokens,
                mails: Arc::clone(&self.mails),
                uploads: Arc::clone(&self.uploads),
                news: self.news.clone(),
            },
            web_keys: WebKeys::new(Arc::clone(&self.settings), self.engine.clone()),
            admin: Admin {
                settings: Arc::clone(&self.settings),
                engine: self.engine.clone(),
                figures: Arc::clone(&self.figures),
                metrics: Arc::clone(&self.metrics),
                memory: Arc::clone(&self.memory),
                started: self.started,
            },
            orders: Orders {
                settings: Arc::clone(&self.settings),
                engine: self.engine.clone(),
                audit,
            },
            pages,
        }
    }
}

/// Tells a server that runs to go down or to read its settings again.
#[derive(Clone)]
pub struct ServerHandle {
    settings: Settings,
    config_path: Option<PathBuf>,
    /// The settings in the file at the start, without those of the command line.
    written: Option<Arc<Config>>,
    tls: Option<Arc<Tls>>,
    down: watch::Sender<bool>,
}

impl ServerHandle {
    /// Lets open requests finish, writes acknowledged uploads, and stops.
    pub fn shut_down(&self) {
        // A server that does not run yet has no receivers, and stops when it runs.
        self.down.send_replace(true);
    }

    /// Reads the certificate and key for TLS and the settings again. Addresses and the names of the
    /// files for TLS stay as they are until a restart.
    ///
    /// # Errors
    ///
    /// [`ServeError`]; the settings in force stay.
    pub fn reload(&self) -> Result<(), ServeError> {
        let config = self.config_path.as_deref().map(Config::read).transpose()?;
        if let Some(config) = &config {
            config.check_files()?;
        }
        // Nothing can fail behind this, so all is reloaded or nothing.
        if let Some(tls) = &self.tls {
            tls.reload().map_err(ServeError::Tls)?;
        }
        let Some(mut config) = config else { return Ok(()) };
        let fixed: Vec<&str> =
            self.written.iter().flat_map(|at_start| config.fixed_changes(at_start)).collect();
        if !fixed.is_empty() {
            let settings = fixed.join(", ");
            tracing::warn!(settings, "these settings change only at a restart");
        }
        // Where it listens may come from the command line, and stays in any case.
        let before = self.settings.load();
        config.http.listen.clone_from(&before.http.listen);
        config.http.onion_listen.clone_from(&before.http.onion_listen);
        config.http.operator_listen.clone_from(&before.http.operator_listen);
        config.gossip.listen.clone_from(&before.gossip.listen);
        if let Some(chosen) = before.third_party {
            config.set_third_party(chosen);
        }
        self.settings.store(Arc::new(config));
        Ok(())
    }
}

impl Server {
    /// Opens the store at `store` (made if it does not exist), builds the trees for gossip, and
    /// listens.
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
        let written = config_path.as_deref().and_then(|path| Config::read(path).ok()).map(Arc::new);
        let stop_waiting = Arc::new(AtomicBool::new(false));
        let opened = Engine::open(store, Purpose::Serve, Arc::clone(&stop_waiting))?;
        let Opened { engine, writer, secret } = opened;
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
        let listeners = [(Via::Public, public), (Via::Onion, onion), (Via::Operator, operator)];
        config.gossip.listen = local_addresses(&gossip);
        let parts = Parts::new(config, config_path, engine, secret, Audit::of(store))
            .map_err(ServeError::Runtime)?;
        let (down, _) = watch::channel(false);
        Ok(Self {
            parts,
            written,
            listeners,
            gossip_listeners: gossip,
            tls,
            writer,
            runtime,
            down,
            stop_waiting,
            lost: Arc::default(),
        })
    }

    /// The addresses that the server answers on.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.parts.settings.load().http.listen.clone()
    }

    /// The addresses for an onion service.
    #[must_use]
    pub fn onion_addresses(&self) -> Vec<SocketAddr> {
        self.parts.settings.load().http.onion_listen.clone()
    }

    /// The addresses for operators.
    #[must_use]
    pub fn operator_addresses(&self) -> Vec<SocketAddr> {
        self.parts.settings.load().http.operator_listen.clone()
    }

    /// The addresses that the server gossips on.
    #[must_use]
    pub fn gossip_addresses(&self) -> Vec<SocketAddr> {
        local_addresses(&self.gossip_listeners)
    }

    /// The signal that stops this server.
    #[must_use]
    pub fn handle(&self) -> ServerHandle {
        ServerHandle {
            settings: Arc::clone(&self.parts.settings),
            config_path: self.parts.config_path.clone(),
            written: self.written.clone(),
            tls: self.tls.clone(),
            down: self.down.clone(),
        }
    }

    /// Answers until a signal (SIGTERM, SIGINT) or [`ServerHandle::shut_down`] ends it; SIGHUP
    /// reads the settings again.
    ///
    /// # Errors
    ///
    /// [`ServeError::Writer`] and [`ServeError::WriterPanicked`] if nothing can be written any
    /// more. Open requests were answered.
    pub fn run(self) -> Result<(), ServeError> {
        let handle = self.handle();
        let Self { parts, listeners, gossip_listeners, tls, writer, runtime, down, .. } = self;
        let (stop_waiting, lost) = (self.stop_waiting, self.lost);
        let Parts { settings, engine, front, gossip, pusher, mails, tally, .. } = parts;
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
            tokio::spawn(watch_store(engine.clone(), Arc::clone(&lost), handle.clone()));
            let mut tasks = tokio::task::JoinSet::new();
            for (via, sockets) in listeners {
                let places = Places::new(&settings.load().http, sockets.len());
                // An onion service and an operator's address encrypt by other means.
                let tls = tls.clone().filter(|_| via == Via::Public);
                for listener in sockets {
                    let (front, places) = (Arc::clone(&front), places.clone());
                    let (tls, down) = (tls.clone(), down.subscribe());
                    tasks.spawn(listen::serve(front, listener, via, places, tls, down));
                }
            }
            if !gossip_listeners.is_empty() {
                tasks.spawn(Arc::clone(&gossip).initiate(down.subscribe()));
            }
            for listener in gossip_listeners {
                tasks.spawn(Arc::clone(&gossip).accept(listener, down.subscribe()));
            }
            tasks.spawn(follow(engine.clone(), down.subscribe()));
            tasks.spawn(pusher.run(down.subscribe()));
            tasks.spawn(write_tally(engine.clone(), tally, down.subscribe()));
            tasks.spawn(tidy(engine.clone(), down.subscribe()));
            tokio::spawn(signals(handle));
            warn_if_peers_cannot_fetch(&settings.load());
            notify::say("READY=1");
            while tasks.join_next().await.is_some() {}
            mails.close().await;
            // Other tasks may still hold the engine. The writer refuses their requests from here
            // on.
            engine.close().await;
        });
        runtime.shutdown_timeout(Duration::from_secs(5));
        match writer.join() {
            Ok(Ok(Ok(()))) => match lost.get() {
                Some(error) => Err(ServeError::Writer(Arc::clone(error))),
                None => Ok(()),
            },
            Ok(Ok(Err(error))) => Err(ServeError::Writer(error)),
            Ok(Err(_)) | Err(_) => Err(ServeError::WriterPanicked),
        }
    }
}

/// Warns if peers on other machines can compare certificates with this server, and fetch none.
fn warn_if_peers_cannot_fetch(config: &Config) {
    let is_here = |address: &SocketAddr| address.ip().to_canonical().is_loopback();
    let Config { http, gossip, .. } = config;
    if gossip.http_port.is_none()
        && !gossip.listen.iter().all(is_here)
        && http.listen.iter().all(is_here)
    {
        tracing::warn!(
            "peers on other machines cannot fetch certificates: http.listen answers only this machine; add an \
             address such as \"[::]:11371\", or set gossip.http_port if a proxy stands in front of it"
        );
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

/// Gives up waiting for locks of other processes some time after the server goes down. Uploads that
/// wait get an error.
async fn stop_waiting_after(mut down: watch::Receiver<bool>, stop: Arc<AtomicBool>) {
    if down.wait_for(|down| *down).await.is_ok() {
        tokio::time::sleep(LOCK_GRACE).await;
        stop.store(true, Ordering::Relaxed);
    }
}

/// Ends the server if the store was moved or replaced: readers would answer from the old file for
/// ever.
async fn watch_store(engine: Engine, lost: Arc<OnceLock<Cause>>, handle: ServerHandle) {
    loop {
        tokio::time::sleep(LOOK).await;
        match engine.check().await {
            Ok(()) | Err(EngineError::Closed) => {}
            Err(error) => {
                tracing::error!(%error, "the server ends");
                let _ = lost.set(error.into_cause());
                handle.shut_down();
                return;
            }
        }
        notify::say("WATCHDOG=1");
    }
}

/// Updates the trees with the changes of all processes.
async fn follow(engine: Engine, mut down: watch::Receiver<bool>) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(FOLLOW) => {}
            _ = down.wait_for(|down| *down) => return,
        }
        if let Err(error) = engine.follow(None).await {
            tracing::error!(%error, "cannot follow the change log");
        }
    }
}

/// Writes the counts of the day now and then, and at the end.
async fn write_tally(engine: Engine, tally: Arc<Tally>, mut down: watch::Receiver<bool>) {
    loop {
        let ends = tokio::select! {
            () = tokio::time::sleep(TALLY) => false,
            _ = down.wait_for(|down| *down) => true,
        };
        let counts = tally.take();
        if !counts.is_empty() {
            let written = engine.note(Note::Counts(counts)).await;
            if let Err(error) = written {
                tracing::warn!(%error, "cannot write the counts of the day");
            }
        }
        if ends {
            return;
        }
    }
}

/// Merges the pieces of the word index that additions left, once nothing has been added for a
/// moment, and writes the verdicts that look-ups have found.
async fn tidy(engine: Engine, mut down: watch::Receiver<bool>) {
    let (mut seen, mut tidied) = (0, 0);
    loop {
        tokio::select! {
            () = tokio::time::sleep(QUIET) => {}
            _ = down.wait_for(|down| *down) => return,
        }
        let commits = engine.progress().commits;
        let quiet = std::mem::replace(&mut seen, commits) == commits;
        // A step at a time, so that an upload waits for one at most.
        let goes_on = || engine.progress().commits == commits && !*down.borrow();
        let is_due = |tidied| tidied != commits || engine.progress().has_verdicts;
        while quiet && is_due(tidied) && goes_on() {
            match engine.tidy_step().await {
                Ok(true) => {}
                Ok(false) => tidied = commits,
                Err(error) => {
                    tracing::warn!(%error, "cannot merge the word index, or write verdicts");
                    tidied = commits;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::Refusal;

    #[test]
    fn a_server_whose_writer_panics_ends_with_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let mut config = Config::default();
        config.http.listen = vec![SocketAddr::from(([127, 0, 0, 1], 0))];
        let server = Server::start(&folder.path().join("certs.db"), config, None).unwrap();
        let (engine, front) = (server.parts.engine.clone(), Arc::clone(&server.parts.front));
        let running = std::thread::spawn(move || server.run());
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let answered = runtime.block_on(engine.panic());
        assert!(matches!(answered, Err(EngineError::Closed)));
        assert!(matches!(running.join().unwrap(), Err(ServeError::WriterPanicked)));
        assert!(matches!(
            runtime.block_on(front.router.admin.ready()),
            Err(Refusal::Unavailable(_))
        ));
    }
}
