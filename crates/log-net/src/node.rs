//! A node: its listener, its connections with peers, and its log.

use std::collections::HashMap;
use std::hash::Hash;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use talaria_log::{Farewell, FolderReplica, LogFolder, Mode, SessionReport};
use tokio::net::{TcpListener, TcpStream, lookup_host};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::connection::{Shared, exchange, refuse};
use crate::error::NetError;
use crate::key::{NodePublic, NodeSecret};
use crate::nats::{carry, without_password};
use crate::{
    CONNECT, CONNECTIONS_MAX, CONNECTIONS_PER_KEY, FAREWELL, HANDSHAKES_MAX,
    HANDSHAKES_PER_NETWORK, RETRY_MAX, RETRY_MIN, tls,
};

/// Time between two looks whether another process waits for the log.
const LEND: Duration = Duration::from_millis(20);

/// A peer of a connection.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Peer {
    /// Its address, as the caller wrote it if this node has connected.
    pub address: String,
    /// Its key.
    pub key: NodePublic,
    /// Its name in the log; it may be empty.
    pub name: String,
    /// Whether this node has connected.
    pub is_outgoing: bool,
}

/// What happens at a node.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// The node listens.
    Listening(SocketAddr),
    /// An exchange with a peer has begun.
    Opened(Peer),
    /// An exchange with a peer has ended, if not as it should, then with the reason.
    Closed(Peer, SessionReport, Option<NetError>),
    /// The node uses the stream of a NATS server.
    Streaming(String),
    /// A peer or a NATS server cannot be reached. It is tried again after this time, if it can
    /// help.
    Unreachable(String, NetError, Option<Duration>),
    /// A connection was refused: its address, and the key if it was shown.
    Refused(SocketAddr, Option<NodePublic>, Farewell),
    /// Another process had the log meanwhile.
    Lent,
}

/// The addresses of a node and its peers.
#[derive(Clone, Debug, Default)]
pub struct ServeOptions {
    /// Where the node listens, as `HOST:PORT`. Without one, it only connects.
    pub listen: Option<String>,
    /// Peers to stay connected with, as `HOST:PORT`.
    pub peers: Vec<String>,
    /// A NATS server with `JetStream`, as `nats://HOST:PORT` or `tls://HOST:PORT`, with user and
    /// password if it wants them.
    pub nats: Option<String>,
}

/// Stops a node. Clones stop the same one.
#[derive(Clone, Debug)]
pub struct Stop(watch::Sender<bool>);

impl Default for Stop {
    fn default() -> Self {
        Self(watch::Sender::new(false))
    }
}

impl Stop {
    /// Stops the node. Exchanges end with a farewell.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

/// The result of one exchange.
#[derive(Debug)]
pub struct Synced {
    /// The peer.
    pub peer: NodePublic,
    /// What was exchanged.
    pub report: SessionReport,
    /// The log; `None` if nothing came that could begin it.
    pub log: Option<Arc<LogFolder>>,
    /// The reason why the exchange ended before its time. What came before stays.
    pub result: Result<(), NetError>,
}

fn runtime() -> Result<Runtime, NetError> {
    Builder::new_multi_thread().enable_all().build().map_err(|source| NetError::Start { source })
}

/// Exchanges once with the node at `address`: afterwards each side has what the other one had.
///
/// If the peer is `expected`, it must have that key, which need not be published in the log that is
/// here. Other peers must be published. While the exchange lasts, other processes wait for the log.
///
/// # Errors
///
/// [`NetError`] if there was no exchange.
pub fn sync(
    mut replica: FolderReplica,
    secret: &NodeSecret,
    expected: Option<NodePublic>,
    address: &str,
    stop: &Stop,
) -> Result<Synced, NetError> {
    let config = tls::client(secret).map_err(|source| NetError::Tls { source })?;
    let shared = Shared::new(secret.public(), stop.0.subscribe());
    let done = runtime()?.block_on(async {
        let (stream, peer) = tokio::select! {
            connected = connect(address, TlsConnector::from(config)) => connected?,
            () = shared.stopped() => return Ok(None),
        };
        if peer == shared.own {
            return Err(NetError::Own { address: address.to_owned() });
        }
        if let Some(wanted) = expected.filter(|wanted| *wanted != peer) {
            return Err(NetError::OtherKey { found: peer, wanted });
        }
        let (report, result) =
            exchange(stream, (peer, expected), &mut replica, &shared, Mode::Once).await;
        Ok(Some((peer, report, result)))
    })?;
    let (peer, report, result) = done.ok_or(NetError::Closed)?;
    Ok(Synced { peer, report, log: replica.log().cloned(), result })
}

type ClientStream = tokio_rustls::client::TlsStream<TcpStream>;

async fn connect(
    address: &str,
    connector: TlsConnector,
) -> Result<(ClientStream, NodePublic), NetError> {
    let failed = |source| NetError::Connect { address: address.to_owned(), source };
    let late = || failed(io::ErrorKind::TimedOut.into());
    let tried = timeout(CONNECT, async {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for address in lookup_host(address).await? {
            match TcpStream::connect(address).await {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            }
        }
        Err(last)
    });
    let stream = tried.await.map_err(|_| late())?.map_err(failed)?;
    stream.set_nodelay(true).map_err(failed)?;
    // Raw keys have no names, and none is sent.
    let name = ServerName::IpAddress(IpAddr::from([127, 0, 0, 1]).into());
    let not_a_node = || NetError::NotANode { address: address.to_owned() };
    let stream = timeout(CONNECT, connector.connect(name, stream)).await.map_err(|_| late())?;
    let stream = stream.map_err(|error| match error.kind() {
        io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => not_a_node(),
        _ => failed(error),
    })?;
    let peer = tls::peer(stream.get_ref().1).ok_or_else(not_a_node)?;
    Ok((stream, peer))
}

/// Counts of what is open, by a key, each with a limit.
struct Counts<K>(Mutex<HashMap<K, usize>>, usize);

impl<K: Eq + Hash + Copy> Counts<K> {
    fn new(most: usize) -> Arc<Self> {
        Arc::new(Self(Mutex::default(), most))
    }

    fn enter(self: &Arc<Self>, key: K) -> Option<Counted<K>> {
        let mut counts = self.0.lock();
        let count = counts.entry(key).or_default();
        if *count >= self.1 {
            return None;
        }
        *count += 1;
        Some(Counted(Arc::clone(self), key))
    }
}

struct Counted<K: Eq + Hash>(Arc<Counts<K>>, K);

impl<K: Eq + Hash> Drop for Counted<K> {
    fn drop(&mut self) {
        let mut counts = self.0.0.lock();
        if let Some(count) = counts.get_mut(&self.1) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.1);
            }
        }
    }
}

/// The network of an address: all of an IPv4 address, half of an IPv6 address.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => IpAddr::V6((address.to_bits() >> 64 << 64).into()),
    }
}

/// The pauses between attempts: twice as long each time, and short again after an attempt that
/// held.
struct Retry {
    began: Instant,
    pause: Duration,
}

impl Default for Retry {
    fn default() -> Self {
        Self { began: Instant::now(), pause: RETRY_MIN }
    }
}

impl Retry {
    fn begin(&mut self) {
        self.began = Instant::now();
    }

    /// How long [`wait`](Self::wait) will last.
    fn pause(&mut self) -> Duration {
        if self.began.elapsed() > RETRY_MAX {
            self.pause = RETRY_MIN;
        }
        self.pause
    }

    async fn wait(&mut self) {
        let pause = self.pause();
        self.pause = (pause * 2).min(RETRY_MAX);
        sleep(pause).await;
    }
}

/// Everything that a connection needs.
struct Node {
    shared: Shared,
    replica: FolderReplica,
    open: Arc<Counts<()>>,
    by_key: Arc<Counts<NodePublic>>,
    tell: Box<dyn Fn(Event) + Send + Sync>,
}

/// Serves a log until it is stopped: listens, stays connected with peers, and lends the log to
/// other processes of this machine that wait for it. `tell` is called for each event, from any
/// thread.
///
/// # Errors
///
/// [`NetError::Listen`]; [`NetError::Log`] if the log cannot be read or written any more, after
/// which it must be opened again.
pub fn serve(
    log: Arc<LogFolder>,
    secret: &NodeSecret,
    options: &ServeOptions,
    stop: &Stop,
    tell: impl Fn(Event) + Send + Sync + 'static,
) -> Result<(), NetError> {
    let as_tls = |source| NetError::Tls { source };
    let acceptor = TlsAcceptor::from(tls::server(secret).map_err(as_tls)?);
    let connector = TlsConnector::from(tls::client(secret).map_err(as_tls)?);
    let node = Arc::new(Node {
        shared: Shared::new(secret.public(), stop.0.subscribe()),
        replica: FolderReplica::new(Arc::clone(&log)),
        open: Counts::new(CONNECTIONS_MAX),
        by_key: Counts::new(CONNECTIONS_PER_KEY),
        tell: Box::new(tell),
    });
    let runtime = runtime()?;
    let result = runtime.block_on(async {
        let mut tasks = JoinSet::new();
        if let Some(address) = &options.listen {
            let as_listen = |source| NetError::Listen { address: address.clone(), source };
            let listener = TcpListener::bind(address).await.map_err(as_listen)?;
            (node.tell)(Event::Listening(listener.local_addr().map_err(as_listen)?));
            tasks.spawn(Arc::clone(&node).accept(listener, acceptor));
        }
        for address in &options.peers {
            tasks.spawn(Arc::clone(&node).keep(address.clone(), connector.clone()));
        }
        if let Some(url) = &options.nats {
            tasks.spawn(Arc::clone(&node).stream(Arc::clone(&log), url.clone()));
        }
        let keeper = Arc::clone(&node);
        let kept = tokio::task::spawn_blocking(move || keeper.watch(&log));
        let kept = kept.await.map_err(|error| NetError::Start { source: error.into() });
        let _ = timeout(FAREWELL, tasks.join_all()).await;
        kept?
    });
    // Connections that are still open have no more to say.
    runtime.shutdown_timeout(FAREWELL);
    result
}

impl Node {
    /// Tells the sessions of changes of the log, and lends it to others, until the node stops.
    fn watch(&self, log: &LogFolder) -> Result<(), NetError> {
        let mut known = log.durable();
        while !*self.shared.stop.borrow() {
            if log.lend()? {
                (self.tell)(Event::Lent);
            }
            let durable = log.wait_beyond(known, LEND);
            if durable != known {
                known = durable;
                self.shared.changed.send_replace(());
            }
        }
        Ok(())
    }

    async fn accept(self: Arc<Self>, listener: TcpListener, acceptor: TlsAcceptor) {
        let handshakes = Counts::new(HANDSHAKES_MAX);
        let networks = Counts::new(HANDSHAKES_PER_NETWORK);
        let mut tasks = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = self.shared.stopped() => break,
                Some(_) = tasks.join_next() => continue,
            };
            let Ok((stream, address)) = accepted else {
                // Such as too many open files.
                sleep(Duration::from_millis(100)).await;
                continue;
            };
            let counted = (handshakes.enter(()), networks.enter(network(address.ip())));
            let (Some(one), Some(other)) = counted else {
                (self.tell)(Event::Refused(address, None, Farewell::Busy));
                continue;
            };
            let (node, acceptor) = (Arc::clone(&self), acceptor.clone());
            tasks.spawn(async move {
                let shaken = timeout(CONNECT, async {
                    stream.set_nodelay(true)?;
                    acceptor.accept(stream).await
                });
                let stream = shaken.await;
                drop((one, other));
                if let Ok(Ok(stream)) = stream
                    && let Some(key) = tls::peer(stream.get_ref().1)
                {
                    node.answer(stream, address, key).await;
                }
            });
        }
        tasks.join_all().await;
    }

    async fn answer(
        &self,
        stream: tokio_rustls::server::TlsStream<TcpStream>,
        address: SocketAddr,
        key: NodePublic,
    ) {
        // Only those who may connect take the places.
        let counted = match self.name(key) {
            Some(_) => self.open.enter(()).zip(self.by_key.enter(key)).ok_or(Farewell::Busy),
            None => Err(Farewell::NotPublished),
        };
        match counted {
            Ok(counted) => {
                let peer = self.peer(address.to_string(), key, false);
                self.exchange(stream, peer).await;
                drop(counted);
            }
            Err(reason) => {
                (self.tell)(Event::Refused(address, Some(key), reason));
                refuse(stream, reason).await;
            }
        }
    }

    /// Stays connected with a peer.
    async fn keep(self: Arc<Self>, address: String, connector: TlsConnector) {
        let mut retry = Retry::default();
        loop {
            retry.begin();
            let connected = tokio::select! {
                connected = connect(&address, connector.clone()) => connected,
                () = self.shared.stopped() => return,
            };
            match connected {
                Ok((_, key)) if key == self.shared.own => {
                    let error = NetError::Own { address: address.clone() };
                    (self.tell)(Event::Unreachable(address, error, None));
                    return;
                }
                Ok((stream, key)) => {
                    let peer = self.peer(address.clone(), key, true);
                    self.exchange(stream, peer).await;
                }
                Err(error) => {
                    let pause = Some(retry.pause());
                    (self.tell)(Event::Unreachable(address.clone(), error, pause));
                }
            }
            tokio::select! {
                () = retry.wait() => {}
                () = self.shared.stopped() => return,
            }
        }
    }

    /// Carries entries to and from the stream of a NATS server.
    async fn stream(self: Arc<Self>, log: Arc<LogFolder>, url: String) {
        let address = without_password(&url);
        let mut retry = Retry::default();
        loop {
            retry.begin();
            let connected = || (self.tell)(Event::Streaming(address.clone()));
            let carried = tokio::select! {
                carried = carry(&log, &self.shared, &url, connected) => carried,
                () = self.shared.stopped() => return,
            };
            if let Err(error) = carried {
                let pause = Some(retry.pause());
                (self.tell)(Event::Unreachable(address.clone(), error, pause));
            }
            tokio::select! {
                () = retry.wait() => {}
                () = self.shared.stopped() => return,
            }
        }
    }

    fn name(&self, key: NodePublic) -> Option<String> {
        let log = self.replica.log()?;
        log.read(|log| log.node(&key.0).map(|(_, node)| node.name.clone())).ok()?
    }

    fn peer(&self, address: String, key: NodePublic, is_outgoing: bool) -> Peer {
        Peer { address, key, name: self.name(key).unwrap_or_default(), is_outgoing }
    }

    async fn exchange(
        &self,
        stream: impl tokio::io::AsyncRead + tokio::io::AsyncWrite,
        peer: Peer,
    ) {
        (self.tell)(Event::Opened(peer.clone()));
        let mut replica = self.replica.clone();
        let (report, result) =
            exchange(stream, (peer.key, None), &mut replica, &self.shared, Mode::Stay).await;
        (self.tell)(Event::Closed(peer, report, result.err()));
    }
}
