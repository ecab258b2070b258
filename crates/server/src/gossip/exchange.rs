//! One exchange over a connection.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use talaria_cert::View;
use talaria_recon::{
    DecodeError, Decoder, Exchange, ExchangeError, ExchangeOutcome, ExchangeRole, FilterRule,
    GossipMessage, Outbox, Settings,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::lane::Lane;
use super::peers::name;
use crate::answer::Refusal;
use crate::config::Config;
use crate::engine::{Engine, Peer};
use crate::turns::TurnError;

/// The time limit of an exchange, as a multiple of that for one answer.
const ANSWERS: u32 = 20;

/// Bytes that are read at a time.
const READ_BYTES: usize = 16 << 10;

/// The time for which an exchange computes before it is the turn of another peer.
const TURN: Duration = Duration::from_millis(2);

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
    #[error("the difference was not computed")]
    Turn(TurnError),
}

impl From<TurnError> for ExchangeFailure {
    fn from(error: TurnError) -> Self {
        Self::Turn(error)
    }
}

/// The differences that an exchange found.
#[derive(Debug)]
pub(crate) struct Compared {
    pub(crate) outcome: ExchangeOutcome,
    /// Whether it ended because the peer has taken its share of CPU time. The next exchange
    /// continues.
    pub(crate) is_spent: bool,
}

/// Everything that exchanges share.
#[derive(Clone, Copy)]
pub(super) struct Table<'a> {
    pub(super) engine: &'a Engine,
    pub(super) config: &'a Config,
    pub(super) lane: &'a Lane,
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

/// A connection to a peer.
struct Wire {
    stream: TcpStream,
    patience: Duration,
}

impl Wire {
    fn new(stream: TcpStream, config: &Config) -> Self {
        let _ = stream.set_nodelay(true);
        let patience = Duration::from_secs(config.gossip.timeout_s);
        Self { stream, patience }
    }

    /// The first message of a connection, which is short.
    async fn first(&mut self, decoder: &mut Decoder) -> Result<GossipMessage, ExchangeFailure> {
        loop {
            if let Some(message) = decoder.next_message()? {
                return Ok(message);
            }
            if !self.read(decoder).await? {
                return Err(ExchangeFailure::Closed);
            }
        }
    }

    /// Reads some bytes. Returns `false` at the end.
    async fn read(&mut self, decoder: &mut Decoder) -> Result<bool, ExchangeFailure> {
        let mut buffer = vec![0; READ_BYTES];
        let read = timeout(self.patience, self.stream.read(&mut buffer)).await;
        let n = read.map_err(|_| ExchangeFailure::Timeout)??;
        decoder.feed(&buffer[..n]);
        Ok(n > 0)
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
pub(super) async fn connect(
    table: Table<'_>,
    peer: &Peer,
) -> Result<(SocketAddr, Compared), ExchangeFailure> {
    let config = table.config;
    keep_view(table.engine, peer.view).await?;
    let wire = open(config, peer).await?;
    let address = wire.stream.peer_addr()?;
    let begun = Comparison::start(ExchangeRole::Initiator, settings(config, peer))?;
    Ok((address, bounded(config, talk(table, wire, begun, peer)).await?))
}

async fn open(config: &Config, peer: &Peer) -> Result<Wire, ExchangeFailure> {
    let patience = Duration::from_secs(config.gossip.timeout_s.min(20));
    let connected = timeout(patience, TcpStream::connect((peer.host.as_str(), peer.port))).await;
    let stream =
        connected.map_err(|_| ExchangeFailure::Timeout)?.map_err(ExchangeFailure::Connect)?;
    Ok(Wire::new(stream, config))
}

/// Takes an exchange that one of `peers` has begun. All of them are at the same address; the
/// filters that the peer announces tell them apart.
pub(super) async fn accept(
    table: Table<'_>,
    stream: TcpStream,
    peers: &[Peer],
) -> Result<(Peer, Compared), (Peer, ExchangeFailure)> {
    let config = table.config;
    let (mut wire, mut decoder) = (Wire::new(stream, config), Decoder::new());
    let first = bounded(config, wire.first(&mut decoder));
    let first = first.await.map_err(|error| (peers[0].clone(), error))?;
    let fits = |peer: &&Peer| match &first {
        GossipMessage::Config(theirs) => same_names(&theirs.filters, filters(config, peer)),
        _ => false,
    };
    let peer = peers.iter().find(fits).unwrap_or(&peers[0]).clone();
    let talked = async {
        keep_view(table.engine, peer.view).await?;
        let begun = Comparison::start(ExchangeRole::Acceptor, settings(config, &peer))?;
        let begun = Comparison { decoder, first: Some(first), ..begun };
        bounded(config, talk(table, wire, begun, &peer)).await
    };
    match talked.await {
        Ok(compared) => Ok((peer, compared)),
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

/// The state of an exchange, the bytes that have arrived, and those to be sent.
struct Comparison {
    /// `None` behind a failure.
    exchange: Option<Exchange>,
    decoder: Decoder,
    /// A message that was read before.
    first: Option<GossipMessage>,
    out: Outbox,
    /// The CPU time until now.
    cost: Duration,
}

impl Comparison {
    fn start(role: ExchangeRole, settings: Settings) -> Result<Self, ExchangeFailure> {
        let mut out = Outbox::new();
        // The peer must not guess it: it decides how long a difference that the peer chooses is
        // searched for.
        let exchange = Exchange::start(role, settings, getrandom::u64()?, &mut out);
        let (decoder, cost) = (Decoder::new(), Duration::ZERO);
        Ok(Self { exchange: Some(exchange), decoder, first: None, out, cost })
    }

    /// Takes messages that have arrived, for the time of a turn. Returns whether it needs further
    /// bytes.
    fn advance(&mut self, engine: &Engine, view: View) -> Result<bool, ExchangeFailure> {
        let end = Instant::now() + TURN;
        while let Some(exchange) = self.exchange.take() {
            self.cost = exchange.cost();
            if matches!(exchange, Exchange::Done(_)) || Instant::now() >= end {
                self.exchange = Some(exchange);
                break;
            }
            let mut message = self.first.take();
            if message.is_none() {
                // Only a message that may come in this state is read whole.
                if let Some(frame) = self.decoder.announced() {
                    exchange.admit(frame)?;
                }
                message = self.decoder.next_message()?;
            }
            let Some(message) = message else {
                self.exchange = Some(exchange);
                return Ok(true);
            };
            let out = &mut self.out;
            let stepped = engine.with_tree(view, |tree| exchange.step(message, tree, out));
            let stepped = stepped.unwrap_or(Err(ExchangeError::Unexpected {
                found: "peer of this view",
                due: "peer of another view",
            }));
            self.exchange = Some(stepped?);
        }
        Ok(false)
    }
}

/// Runs an exchange until it is done, or the peer has taken its share of CPU time.
async fn talk(
    table: Table<'_>,
    mut wire: Wire,
    mut comparison: Comparison,
    peer: &Peer,
) -> Result<Compared, ExchangeFailure> {
    let (name, view): (Arc<str>, _) = (name(peer).into(), peer.view);
    wire.write(&comparison.out.take_due()).await?;
    loop {
        let (engine, before) = (table.engine.clone(), comparison.cost);
        let turn = move || {
            let advanced = comparison.advance(&engine, view);
            (comparison, advanced)
        };
        let advanced;
        (comparison, advanced) = table.lane.run(&name, turn).await?;
        let is_left = table.lane.charge(&name, comparison.cost.saturating_sub(before));
        // The peer is told of an error, too, if it still listens.
        let written = wire.write(&comparison.out.take_due()).await;
        let needs_more = advanced?;
        written?;
        let is_done = matches!(comparison.exchange, Some(Exchange::Done(_)));
        if is_done || !is_left || needs_more && !wire.read(&mut comparison.decoder).await? {
            let outcome = comparison.exchange.and_then(Exchange::into_outcome);
            let outcome = outcome.ok_or(ExchangeFailure::Closed)?;
            return Ok(Compared { outcome, is_spent: !is_done && !is_left });
        }
    }
}

/// Asks a peer who it is, and leaves.
pub(crate) async fn greet(config: &Config, peer: &Peer) -> Result<Greeting, ExchangeFailure> {
    let mut wire = open(config, peer).await?;
    let mut out = Outbox::new();
    let _exchange = Exchange::start(ExchangeRole::Initiator, settings(config, peer), 0, &mut out);
    wire.write(&out.take_due()).await?;
    match bounded(config, wire.first(&mut Decoder::new())).await? {
        GossipMessage::Config(theirs) => Ok(Greeting {
            version: theirs.version,
            http_port: theirs.http_port,
            filters: theirs.filters,
            bit_quantum: theirs.bit_quantum,
            m_bar: theirs.m_bar,
        }),
        other => {
            Err(ExchangeError::Unexpected { found: other.name(), due: "a configuration" }.into())
        }
    }
}

/// Makes sure that there is a tree for the view of a peer.
async fn keep_view(engine: &Engine, view: View) -> Result<(), ExchangeFailure> {
    engine.follow(Some(view)).await.map_err(|error| ExchangeFailure::View(error.into()))
}
