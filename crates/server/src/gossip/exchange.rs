//! One exchange over a connection.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use talaria_cert::View;
use talaria_recon::{
    DecodeError, Decoder, Exchange, ExchangeError, ExchangeOutcome, ExchangeRole, FilterRule,
    GossipMessage, Outbox, Settings,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::answer::Refusal;
use crate::config::Config;
use crate::engine::{Engine, Peer};

/// The time limit of an exchange, as a multiple of that for one answer.
const ANSWERS: u32 = 20;

/// Why an exchange failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ExchangeFailure {
    #[error("cannot connect: {0}")]
    Connect(io::Error),
    #[error("the connection failed: {0}")]
    Io(#[from] io::Error),
    #[error("the peer closed the connection")]
    Closed,
    #[error("the peer did not answer in time")]
    Timeout,
    #[error("the peer sent a malformed message: {0}")]
    Decode(#[from] DecodeError),
    #[error(transparent)]
    Exchange(#[from] ExchangeError),
    #[error("the server cannot maintain the view of the peer: {0}")]
    View(Refusal),
    #[error("the system gives no random numbers: {0}")]
    Random(#[from] getrandom::Error),
}

/// The configuration that a peer announces.
#[derive(Clone, Debug)]
pub(crate) struct Greeting {
    pub(crate) version: String,
    pub(crate) http_port: u16,
    pub(crate) filters: String,
    pub(crate) bit_quantum: u32,
    pub(crate) m_bar: u32,
}

/// The filters that we announce to a peer: those of its view, unless the settings have others.
fn filters<'a>(config: &'a Config, peer: &Peer) -> &'a str {
    let mut known = config.gossip.peers.iter();
    let known = known.find(|known| known.host == peer.host && known.port == peer.port);
    known.and_then(|known| known.filters.as_deref()).unwrap_or_else(|| peer.view.filters())
}

/// Our configuration for a peer.
fn settings(config: &Config, peer: &Peer) -> Settings {
    let http_port = config.gossip.http_port;
    let http_port = http_port.or_else(|| config.http.listen.first().map(SocketAddr::port));
    Settings {
        http_port: http_port.unwrap_or(11371),
        filters: filters(config, peer).to_owned(),
        filter_rule: match peer.view {
            View::Sks | View::Hockeypuck21 => FilterRule::SameNames,
            View::Hockeypuck23 | View::Hockeypuck24 => FilterRule::SameText,
        },
        wanted_max: config.gossip.differences,
        ..Settings::default()
    }
}

/// A connection and the bytes read from it.
struct Wire {
    stream: TcpStream,
    decoder: Decoder,
    patience: Duration,
}

impl Wire {
    fn new(stream: TcpStream, config: &Config) -> Self {
        let _ = stream.set_nodelay(true);
        let patience = Duration::from_secs(config.gossip.timeout_s);
        Self { stream, decoder: Decoder::new(), patience }
    }

    /// The next message, `None` at the end. Only one that may come in the state of the exchange is read whole; the first
    /// one of a connection, for which there is none, is short.
    async fn next(
        &mut self,
        exchange: Option<&Exchange>,
    ) -> Result<Option<GossipMessage>, ExchangeFailure> {
        let mut buffer = vec![0; 16 << 10];
        loop {
            if let (Some(exchange), Some(frame)) = (exchange, self.decoder.announced()) {
                exchange.admit(frame)?;
            }
            if let Some(message) = self.decoder.next_message()? {
                return Ok(Some(message));
            }
            let read = timeout(self.patience, self.stream.read(&mut buffer)).await;
            let n = read.map_err(|_| ExchangeFailure::Timeout)??;
            if n == 0 {
                return Ok(None);
            }
            self.decoder.feed(&buffer[..n]);
        }
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), ExchangeFailure> {
        if bytes.is_empty() {
            return Ok(());
        }
        let written = timeout(self.patience, self.stream.write_all(bytes)).await;
        Ok(written.map_err(|_| ExchangeFailure::Timeout)??)
    }
}

/// Begins an exchange with a peer.
pub(crate) async fn connect(
    engine: &Engine,
    config: &Config,
    peer: &Peer,
) -> Result<(SocketAddr, ExchangeOutcome), ExchangeFailure> {
    keep_view(engine, peer.view).await?;
    let wire = open(config, peer).await?;
    let address = wire.stream.peer_addr()?;
    let settings = settings(config, peer);
    let outcome =
        bounded(config, talk(engine, wire, ExchangeRole::Initiator, peer.view, settings, None));
    Ok((address, outcome.await?))
}

async fn open(config: &Config, peer: &Peer) -> Result<Wire, ExchangeFailure> {
    let patience = Duration::from_secs(config.gossip.timeout_s.min(20));
    let connected = timeout(patience, TcpStream::connect((peer.host.as_str(), peer.port))).await;
    let stream =
        connected.map_err(|_| ExchangeFailure::Timeout)?.map_err(ExchangeFailure::Connect)?;
    Ok(Wire::new(stream, config))
}

/// Takes an exchange that one of `peers` has begun. All of them are at the same address; the filters that
/// the peer announces tell them apart.
pub(crate) async fn accept(
    engine: &Engine,
    config: &Config,
    stream: TcpStream,
    peers: &[Peer],
) -> Result<(Peer, ExchangeOutcome), (Peer, ExchangeFailure)> {
    let mut wire = Wire::new(stream, config);
    let first = bounded(config, async { wire.next(None).await?.ok_or(ExchangeFailure::Closed) });
    let first = first.await.map_err(|error| (peers[0].clone(), error))?;
    let fits = |peer: &&Peer| match &first {
        GossipMessage::Config(theirs) => same_names(&theirs.filters, filters(config, peer)),
        _ => false,
    };
    let peer = peers.iter().find(fits).unwrap_or(&peers[0]).clone();
    let talked = async {
        keep_view(engine, peer.view).await?;
        let settings = settings(config, &peer);
        let talk = talk(engine, wire, ExchangeRole::Acceptor, peer.view, settings, Some(first));
        bounded(config, talk).await
    };
    match talked.await {
        Ok(outcome) => Ok((peer, outcome)),
        Err(error) => Err((peer, error)),
    }
}

/// Whether two lists of filters have the same names in any order.
pub(crate) fn same_names(a: &str, b: &str) -> bool {
    let names = |text: &str| {
        let mut names: Vec<String> = text.split(',').map(|name| name.trim().to_owned()).collect();
        names.sort_unstable();
        names
    };
    names(a) == names(b)
}

async fn bounded<T>(
    config: &Config,
    work: impl Future<Output = Result<T, ExchangeFailure>>,
) -> Result<T, ExchangeFailure> {
    let patience = Duration::from_secs(config.gossip.timeout_s) * ANSWERS;
    timeout(patience, work).await.unwrap_or(Err(ExchangeFailure::Timeout))
}

/// Runs an exchange until it is done. `first` has the bytes read before.
async fn talk(
    engine: &Engine,
    mut wire: Wire,
    role: ExchangeRole,
    view: View,
    settings: Settings,
    mut first: Option<GossipMessage>,
) -> Result<ExchangeOutcome, ExchangeFailure> {
    let mut out = Outbox::new();
    // The peer must not guess it: it decides how long a difference that the peer chooses is searched for.
    let mut exchange = Exchange::start(role, settings, getrandom::u64()?, &mut out);
    loop {
        wire.write(&out.take_due()).await?;
        if let Exchange::Done(outcome) = exchange {
            return Ok(outcome);
        }
        let message = match first.take() {
            Some(message) => Some(message),
            None => wire.next(Some(&exchange)).await?,
        };
        let Some(message) = message else {
            return exchange.into_outcome().ok_or(ExchangeFailure::Closed);
        };
        let stepped = engine.with_tree(view, |tree| exchange.step(message, tree, &mut out));
        let stepped = stepped.unwrap_or(Err(ExchangeError::Unexpected {
            found: "peer of this view",
            due: "peer of another view",
        }));
        match stepped {
            Ok(next) => exchange = next,
            Err(error) => {
                // The peer is told, if it still listens.
                let _ = wire.write(&out.take_due()).await;
                return Err(error.into());
            }
        }
    }
}

/// Asks a peer who it is, and leaves.
pub(crate) async fn greet(config: &Config, peer: &Peer) -> Result<Greeting, ExchangeFailure> {
    let mut wire = open(config, peer).await?;
    let mut out = Outbox::new();
    let _exchange = Exchange::start(ExchangeRole::Initiator, settings(config, peer), 0, &mut out);
    wire.write(&out.take_due()).await?;
    match bounded(config, wire.next(None)).await? {
        Some(GossipMessage::Config(theirs)) => Ok(Greeting {
            version: theirs.version,
            http_port: theirs.http_port,
            filters: theirs.filters,
            bit_quantum: theirs.bit_quantum,
            m_bar: theirs.m_bar,
        }),
        Some(other) => {
            Err(ExchangeError::Unexpected { found: other.name(), due: "a configuration" }.into())
        }
        None => Err(ExchangeFailure::Closed),
    }
}

/// Makes sure that there is a tree for the view of a peer.
async fn keep_view(engine: &Engine, view: View) -> Result<(), ExchangeFailure> {
    engine.follow(Some(view)).await.map_err(|error| ExchangeFailure::View(error.into()))
}
