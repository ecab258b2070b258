//! The sockets: accepting, TLS, the PROXY protocol, bounds and deadlines. It has no opinion about
//! OpenPGP.

use std::collections::HashMap;
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use ipnet::IpNet;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, Sleep};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::answer::{Answer, Refusal};
use crate::metrics::count;
use crate::request::Request;
use crate::service;
use crate::state::State;

/// Seconds that open requests get when the server goes down.
const GRACE: Duration = Duration::from_secs(10);

/// Bytes of the header of the PROXY protocol.
const PROXY_HEADER_BYTES: usize = 4096;

/// Bytes of the headers of a request.
const HEADER_BYTES: usize = 16 << 10;

/// Connections that the system keeps until they are accepted.
const BACKLOG: u32 = 4096;

/// Bytes of large request bodies, and of large answers that are on their way, in all: slow clients
/// hold no more.
const BODIES_BYTES: usize = 512 << 20;
const ANSWERS_BYTES: usize = 512 << 20;

/// The bound above which answers are counted.
const LARGE: usize = 256 << 10;

/// Listens on an address.
pub(crate) fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // As the standard library does: a restart need not wait for old connections to be forgotten.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// The memory limit for large requests and answers together, in KiB.
#[derive(Debug)]
pub(crate) struct Memory {
    bodies: Arc<Semaphore>,
    answers: Arc<Semaphore>,
}

impl Default for Memory {
    fn default() -> Self {
        Self {
            bodies: Arc::new(Semaphore::new(BODIES_BYTES >> 10)),
            answers: Arc::new(Semaphore::new(ANSWERS_BYTES >> 10)),
        }
    }
}

/// Room for so many bytes, `Err` if there is none just now.
fn room(all: &Arc<Semaphore>, bytes: usize) -> Result<Option<OwnedSemaphorePermit>, Refusal> {
    if bytes <= LARGE {
        return Ok(None);
    }
    let kib = u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX);
    match Arc::clone(all).try_acquire_many_owned(kib) {
        Ok(permit) => Ok(Some(permit)),
        Err(_) => Err(Refusal::Unavailable("the server is busy; try again later".into())),
    }
}

/// A body of an answer and the room that it takes until it is sent.
pub(crate) struct Outgoing {
    bytes: Full<Bytes>,
    _room: Option<OwnedSemaphorePermit>,
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Pin::new(&mut self.bytes).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.bytes.size_hint()
    }
}

/// Sets up TLS from PEM files.
pub(crate) fn tls(certificate: &Path, key: &Path) -> io::Result<TlsAcceptor> {
    let named = |path: &Path, error: &dyn std::fmt::Display| {
        io::Error::new(io::ErrorKind::InvalidData, format!("{}: {error}", path.display()))
    };
    let chain: Result<Vec<_>, _> = CertificateDer::pem_file_iter(certificate)
        .map_err(|error| named(certificate, &error))?
        .collect();
    let chain = chain.map_err(|error| named(certificate, &error))?;
    let key = PrivateKeyDer::from_pem_file(key).map_err(|error| named(key, &error))?;
    // A program may have several providers of primitives, so the choice is not left to chance.
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| named(certificate, &error))?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|error| named(certificate, &error))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Connections by network.
#[derive(Clone, Debug, Default)]
struct Counts(Arc<Mutex<HashMap<IpNet, usize>>>);

/// One of them.
struct Counted {
    counts: Counts,
    net: IpNet,
}

impl Counts {
    /// Counts a connection, unless its network has too many.
    fn enter(&self, net: IpNet, max: usize) -> Option<Counted> {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(net).or_default();
        if *count >= max {
            return None;
        }
        *count += 1;
        Some(Counted { counts: self.clone(), net })
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut counts = self.counts.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.net) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.net);
            }
        }
    }
}

/// Serves a socket until `down` says so, then waits for open requests.
pub(crate) async fn serve(
    state: Arc<State>,
    listener: TcpListener,
    acceptor: Option<TlsAcceptor>,
    mut down: watch::Receiver<bool>,
) {
    let http = state.config.load().http.clone();
    let permits = Arc::new(Semaphore::new(http.connections));
    let counts = Counts::default();
    let graceful = GracefulShutdown::new();
    loop {
        let accepted = tokio::select! {
            accepted = accept(&listener, &permits) => accepted,
            _ = down.wait_for(|down| *down) => break,
        };
        let (stream, address, permit) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of file descriptors, most likely: others have to end first.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        count(&state.metrics.connections, 1);
        let _ = stream.set_nodelay(true);
        let connection = Connection {
            state: Arc::clone(&state),
            acceptor: acceptor.clone(),
            counts: counts.clone(),
            watcher: graceful.watcher(),
        };
        tokio::spawn(connection.run(stream, address, permit));
    }
    drop(listener);
    tokio::select! {
        () = graceful.shutdown() => {}
        () = tokio::time::sleep(GRACE) => tracing::warn!("some requests did not finish in time"),
    }
}

async fn accept(
    listener: &TcpListener,
    permits: &Arc<Semaphore>,
) -> io::Result<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
    let permit = Arc::clone(permits).acquire_owned().await.map_err(io::Error::other)?;
    let (stream, address) = listener.accept().await?;
    Ok((stream, address, permit))
}

/// Everything that a connection needs.
struct Connection {
    state: Arc<State>,
    acceptor: Option<TlsAcceptor>,
    counts: Counts,
    watcher: hyper_util::server::graceful::Watcher,
}

impl Connection {
    async fn run(self, stream: TcpStream, address: SocketAddr, permit: OwnedSemaphorePermit) {
        let config = self.state.config.load_full();
        let http = &config.http;
        let timeout = Duration::from_secs(http.timeout_s);
        let mut stream = Prefixed { ahead: Bytes::new(), stream };
        let mut client = address.ip();
        if http.proxy_protocol {
            match tokio::time::timeout(timeout, proxy_header(&mut stream)).await {
                Ok(Ok(Some(address))) => client = address,
                Ok(Ok(None)) => {}
                Ok(Err(error)) => {
                    tracing::debug!(%error, %address, "the PROXY protocol header is missing or malformed");
                    return;
                }
                Err(_) => return,
            }
        }
        let net = config.rates.net(client);
        let Some(counted) = self.counts.enter(net, http.connections_per_network) else {
            count(&self.state.metrics.connections_refused, 1);
            return;
        };
        let held = (permit, counted);
        let idle = Duration::from_secs(http.idle_s);
        match self.acceptor.clone() {
            None => self.http(Patient::new(stream, idle), client, timeout).await,
            Some(acceptor) => {
                let accepted = tokio::time::timeout(timeout, acceptor.accept(stream)).await;
                if let Ok(Ok(stream)) = accepted {
                    self.http(Patient::new(stream, idle), client, timeout).await;
                }
            }
        }
        drop(held);
    }

    async fn http<S>(self, stream: S, client: IpAddr, timeout: Duration)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let mut builder = auto::Builder::new(TokioExecutor::new());
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(timeout)
            .max_buf_size(HEADER_BYTES.max(8192))
            .pipeline_flush(true)
            // Who has said all may close their side and still wait for the answer.
            .half_close(true);
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(100)
            .max_header_list_size(u32::try_from(HEADER_BYTES).unwrap_or(u32::MAX))
            .keep_alive_interval(Some(timeout))
            .keep_alive_timeout(timeout);
        let state = Arc::clone(&self.state);
        let service = service_fn(move |request: http::Request<Incoming>| {
            let state = Arc::clone(&state);
            async move { Ok::<_, Infallible>(answer(&state, request, client, timeout).await) }
        });
        let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
        if let Err(error) = self.watcher.watch(connection.into_owned()).await {
            tracing::debug!(%error, "a connection ended");
        }
    }
}

/// Reads a request whole and answers it.
async fn answer(
    state: &Arc<State>,
    request: http::Request<Incoming>,
    client: IpAddr,
    timeout: Duration,
) -> http::Response<Outgoing> {
    let max = state.config.load().http.body_bytes;
    let (parts, body) = request.into_parts();
    let body = if body.is_end_stream() {
        Ok((Bytes::new(), None))
    } else {
        tokio::time::timeout(timeout, whole(&state.memory, body, max))
            .await
            .unwrap_or_else(|_| Err(Refusal::BadRequest("the body did not arrive in time".into())))
    };
    let answer: Answer = match body {
        Ok((body, _room)) => service::handle(state, &Request { parts, body, client }).await,
        Err(refusal) => refusal.text(),
    };
    match room(&state.memory.answers, answer.body().len()) {
        Ok(room) => answer.map(|bytes| Outgoing { bytes: Full::new(bytes), _room: room }),
        Err(refusal) => {
            refusal.text().map(|bytes| Outgoing { bytes: Full::new(bytes), _room: None })
        }
    }
}

/// Reads a body of at most `max` bytes.
async fn whole(
    memory: &Memory,
    mut body: Incoming,
    max: usize,
) -> Result<(Bytes, Option<OwnedSemaphorePermit>), Refusal> {
    let mut bytes = BytesMut::new();
    let mut held: Option<OwnedSemaphorePermit> = None;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Refusal::BadRequest("the body was truncated".into()))?;
        let Ok(data) = frame.into_data() else { continue };
        if bytes.len() + data.len() > max {
            return Err(Refusal::TooLarge(format!(
                "the body of a request may have at most {max} bytes"
            )));
        }
        bytes.extend_from_slice(&data);
        // Only what came takes room: nobody can reserve it.
        let taken = held.as_ref().map_or(0, OwnedSemaphorePermit::num_permits) << 10;
        if bytes.len() > LARGE && bytes.len() > taken {
            let more = room(&memory.bodies, (bytes.len() - taken).max(LARGE + 1))?;
            match (&mut held, more) {
                (Some(held), Some(more)) => held.merge(more),
                (held, more) => *held = more,
            }
        }
    }
    Ok((bytes.freeze(), held))
}

/// Takes the header of the PROXY protocol off a connection: the address of the client, `None` if the
/// proxy speaks for itself.
async fn proxy_header(stream: &mut Prefixed<TcpStream>) -> io::Result<Option<IpAddr>> {
    let mut bytes = BytesMut::new();
    loop {
        let header = ppp::HeaderResult::parse(&bytes);
        let complete = !ppp::PartialResult::is_incomplete(&header);
        if complete && !bytes.is_empty() {
            let (client, length) = match &header {
                ppp::HeaderResult::V1(Ok(header)) => (v1_client(header), header.header.len()),
                ppp::HeaderResult::V2(Ok(header)) => (v2_client(header), header.len()),
                _ => return Err(io::ErrorKind::InvalidData.into()),
            };
            stream.ahead = bytes.freeze().slice(length..);
            return Ok(client);
        }
        if bytes.len() >= PROXY_HEADER_BYTES {
            return Err(io::ErrorKind::InvalidData.into());
        }
        if stream.stream.read_buf(&mut bytes).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

fn v1_client(header: &ppp::v1::Header<'_>) -> Option<IpAddr> {
    match header.addresses {
        ppp::v1::Addresses::Tcp4(addresses) => Some(addresses.source_address.into()),
        ppp::v1::Addresses::Tcp6(addresses) => Some(addresses.source_address.into()),
        ppp::v1::Addresses::Unknown => None,
    }
}

fn v2_client(header: &ppp::v2::Header<'_>) -> Option<IpAddr> {
    match header.addresses {
        ppp::v2::Addresses::IPv4(addresses) => Some(addresses.source_address.into()),
        ppp::v2::Addresses::IPv6(addresses) => Some(addresses.source_address.into()),
        ppp::v2::Addresses::Unix(_) | ppp::v2::Addresses::Unspecified => None,
    }
}

/// A stream of which the first bytes were read already.
struct Prefixed<S> {
    ahead: Bytes,
    stream: S,
}

impl<S: AsyncRead + Unpin> AsyncRead for Prefixed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.ahead.is_empty() {
            return Pin::new(&mut self.stream).poll_read(cx, out);
        }
        let n = self.ahead.len().min(out.remaining());
        out.put_slice(&self.ahead.split_to(n));
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Prefixed<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// A stream that ends when nothing moves on it for a while: for idle clients, for those that stop in
/// the midst of a request, and for those that do not take their answer.
struct Patient<S> {
    stream: S,
    idle: Duration,
    deadline: Pin<Box<Sleep>>,
}

impl<S> Patient<S> {
    fn new(stream: S, idle: Duration) -> Self {
        Self { stream, idle, deadline: Box::pin(tokio::time::sleep(idle)) }
    }

    /// Passes on what the stream says; where it waits, the deadline is watched.
    fn watched<T>(
        &mut self,
        cx: &mut Context<'_>,
        poll: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if poll.is_ready() {
            let next = Instant::now() + self.idle;
            // Setting a timer costs; a second's precision is enough.
            if next.duration_since(self.deadline.deadline()) > Duration::from_secs(1) {
                self.deadline.as_mut().reset(next);
            }
            return poll;
        }
        match self.deadline.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let poll = Pin::new(&mut self.stream).poll_read(cx, out);
        self.watched(cx, poll)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.watched(cx, poll)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.stream).poll_write_vectored(cx, bytes);
        self.watched(cx, poll)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let poll = Pin::new(&mut self.stream).poll_flush(cx);
        self.watched(cx, poll)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let poll = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.watched(cx, poll)
    }
}
