//! The sockets: accepting, TLS, the PROXY protocol, bounds and deadlines. It has no opinion about
//! OpenPGP.

mod body;
mod client;
mod flight;
mod frames;
mod places;

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::{Bytes, BytesMut};
use futures_util::FutureExt as _;
use futures_util::future::{AbortHandle, Abortable, Aborted};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use ipnet::IpNet;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;

use crate::answer::{Content, Refusal, open_to_all};
use crate::config::Settings;
use crate::engine::Engine;
use crate::memory::{self, Memory, SMALL};
use crate::metrics::{Metrics, count};
use crate::outgoing::{Outgoing, while_taken};
use crate::patient::{Activity, OpenRequest, Patient};
use crate::request::{Request, Via};
use crate::router::Router;

use body::whole;
use client::{client_of, is_in, v1_client, v2_client};
use flight::Flight;
use frames::{Frames, HTTP2_PREFACE};
use places::Place;
pub(crate) use places::Places;

/// Seconds that open requests get when the server goes down.
const GRACE: Duration = Duration::from_secs(10);

/// Bytes of the header of the PROXY protocol.
const PROXY_HEADER_BYTES: usize = 4096;

/// Bytes of the headers of a request.
const HEADER_BYTES: usize = 16 << 10;

/// Connections that the system keeps until they are accepted.
const BACKLOG: u32 = 4096;

/// The memory of a request beside its bytes: its task, and its parsed headers.
const REQUEST_BYTES: usize = 6 << 10;

/// Bytes that a header takes in memory beside its own.
const HEADER_ENTRY_BYTES: usize = 128;

/// The settings of HTTP/2: requests at once on a connection, and bytes that are received or sent
/// ahead.
const STREAMS: u32 = 8;
const STREAM_WINDOW: u32 = 32 << 10;
const CONNECTION_WINDOW: u32 = 64 << 10;
const SEND_BUFFER: usize = 32 << 10;

/// Listens on an address.
pub(crate) fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // As the standard library does: a restart need not wait for old connections to be forgotten.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// The certificate for TLS, which can be read again while connections go on.
pub(crate) struct Tls {
    certificate: PathBuf,
    key: PathBuf,
    current: Arc<Current>,
    acceptor: TlsAcceptor,
}

#[derive(Debug)]
struct Current(ArcSwap<CertifiedKey>);

impl ResolvesServerCert for Current {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.load_full())
    }
}

impl Tls {
    /// Sets up TLS from PEM files.
    pub(crate) fn new(certificate: &Path, key: &Path) -> io::Result<Self> {
        let current = Arc::new(Current(ArcSwap::from(certified(certificate, key)?)));
        // A program may have several providers of primitives, so the choice is not left to chance.
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| named(certificate, &error))?
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(&current) as Arc<dyn ResolvesServerCert>);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(config));
        Ok(Self { certificate: certificate.to_owned(), key: key.to_owned(), current, acceptor })
    }

    /// Reads the files again, for new connections. On an error the certificate in force stays.
    pub(crate) fn reload(&self) -> io::Result<()> {
        self.current.0.store(certified(&self.certificate, &self.key)?);
        Ok(())
    }
}

fn named(path: &Path, error: &dyn std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{}: {error}", path.display()))
}

fn certified(certificate: &Path, key: &Path) -> io::Result<Arc<CertifiedKey>> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_file_iter(certificate)
        .map_err(|error| named(certificate, &error))?
        .collect();
    let chain = chain.map_err(|error| named(certificate, &error))?;
    let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| named(key, &error))?;
    CertifiedKey::from_der(chain, secret, &ring::default_provider())
        .map(Arc::new)
        .map_err(|error| named(certificate, &error))
}

/// The parts of a server that all sockets share.
pub(crate) struct Front {
    pub(crate) settings: Settings,
    /// Makes the pieces of large answers.
    pub(crate) engine: Engine,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) memory: Arc<Memory>,
    pub(crate) router: Router,
}

/// Serves a socket until `down` says so, then waits for open requests.
pub(crate) async fn serve(
    front: Arc<Front>,
    listener: TcpListener,
    via: Via,
    places: Places,
    tls: Option<Arc<Tls>>,
    mut down: watch::Receiver<bool>,
) {
    let graceful = GracefulShutdown::new();
    loop {
        let accepted = tokio::select! {
            accepted = accept(&front, &listener, &places) => accepted,
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
        count(&front.metrics.connections, 1);
        let _ = stream.set_nodelay(true);
        let (end, ended) = AbortHandle::new_pair();
        let connection = Connection {
            front: Arc::clone(&front),
            via,
            acceptor: tls.as_ref().map(|tls| tls.acceptor.clone()),
            watcher: graceful.watcher(),
        };
        // At once, so that all connections with a place are known when the next one needs some
        // room.
        let (net, max) = connection.share(address.ip(), connection.is_behind_proxy());
        let Some(place) = places.enter(permit, net, max, end) else {
            count(&front.metrics.connections_refused, 1);
            continue;
        };
        let mut down = down.clone();
        let begins = async move {
            tokio::select! {
                () = connection.begin(stream, address, place) => {}
                _ = down.wait_for(|down| *down) => {}
            }
        };
        tokio::spawn(Abortable::new(begins, ended));
    }
    drop(listener);
    tokio::select! {
        () = graceful.shutdown() => {}
        () = tokio::time::sleep(GRACE) => tracing::warn!("some requests did not finish in time"),
    }
}

async fn accept(
    front: &Front,
    listener: &TcpListener,
    places: &Places,
) -> io::Result<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
    let permit = places.take(&front.metrics.connections_refused).await?;
    let (stream, address) = listener.accept().await?;
    Ok((stream, address, permit))
}

/// Everything that a connection needs.
struct Connection {
    front: Arc<Front>,
    via: Via,
    acceptor: Option<TlsAcceptor>,
    watcher: hyper_util::server::graceful::Watcher,
}

impl Connection {
    /// Whether the PROXY protocol names the client.
    fn is_behind_proxy(&self) -> bool {
        self.via == Via::Public && self.front.settings.load().http.proxy_protocol
    }

    /// The network of an address, and the number of connections that it may have.
    fn share(&self, address: IpAddr, is_proxy: bool) -> (IpNet, usize) {
        let config = self.front.settings.load();
        let http = &config.http;
        // All clients of an onion service and of a proxy come from one address.
        let speaks_for_others = is_proxy
            || matches!(self.via, Via::Onion | Via::Operator)
            || is_in(&http.proxies, address);
        let max = if speaks_for_others { http.connections } else { http.connections_per_network };
        (config.rates.net(address), max)
    }

    /// Finds out who connects and which version of HTTP the client speaks, and then serves it.
    async fn begin(self, stream: TcpStream, address: SocketAddr, mut place: Place) {
        let timeout = Duration::from_secs(self.front.settings.load().http.timeout_s);
        let mut stream = Prefixed::new(stream);
        let mut client = address.ip();
        if self.is_behind_proxy() {
            match tokio::time::timeout(timeout, stream.proxy_header()).await {
                Ok(Ok(Some(address))) => client = address,
                Ok(Ok(None)) => {}
                Ok(Err(error)) => {
                    tracing::debug!(%error, %address, "the PROXY protocol header is missing or malformed");
                    return;
                }
                Err(_) => return,
            }
            let (net, max) = self.share(client, false);
            if !place.moves(net, max) {
                count(&self.front.metrics.connections_refused, 1);
                return;
            }
        }
        match self.acceptor.clone() {
            None => self.hear(stream, client, place).await,
            Some(acceptor) => {
                // A connection without TLS keeps no room for the handshake.
                let payer = self.front.settings.load().rates.payer(client, self.via);
                let stream = Flight::new(stream, Arc::clone(&self.front.memory), payer);
                let accepting = acceptor.accept(stream).boxed();
                if let Ok(Ok(mut stream)) = tokio::time::timeout(timeout, accepting).await {
                    stream.get_mut().0.ends();
                    self.hear(Prefixed::new(stream), client, place).boxed().await;
                }
            }
        }
    }

    /// Waits until it is clear whether a client speaks HTTP/1 or HTTP/2.
    async fn hear<S>(self, mut stream: Prefixed<S>, client: IpAddr, place: Place)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let idle = Duration::from_secs(self.front.settings.load().http.idle_s);
        if let Ok(Ok(version)) = tokio::time::timeout(idle, stream.version()).await {
            self.serve(stream, version, client, place);
        }
    }

    /// Answers the requests of a connection in a task of its own, which needs no memory for what
    /// was before.
    fn serve<S>(self, stream: Prefixed<S>, version: http::Version, client: IpAddr, place: Place)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let config = self.front.settings.load();
        let timeout = Duration::from_secs(config.http.timeout_s);
        let head = (version != http::Version::HTTP_2).then_some(timeout);
        let activity = Activity::new(Duration::from_secs(config.http.idle_s), head);
        let asker = Arc::new(Asker {
            front: Arc::clone(&self.front),
            via: self.via,
            secure: self.acceptor.is_some(),
            client,
            activity: activity.clone(),
            timeout,
        });
        // hyper keeps room for a future of a service as long as the connection is there: here, for
        // a pointer.
        let service = service_fn(move |request: http::Request<Incoming>| {
            let asker = Arc::clone(&asker);
            async move { Ok::<_, Infallible>(asker.answer(request).await) }.boxed()
        });
        let (end, registration) = AbortHandle::new_pair();
        place.serves(activity.clone(), end);
        let stream = Patient::new(stream, activity);
        // An async block would have room for a connection twice.
        let end = move |ended: Result<hyper::Result<()>, Aborted>| {
            if let Ok(Err(error)) = ended {
                tracing::debug!(%error, "a connection ended");
            }
            drop(place);
        };
        if version == http::Version::HTTP_2 {
            let stream = TokioIo::new(Frames::new(stream));
            let connection = http2::Builder::new(Streams)
                .timer(TokioTimer::new())
                .max_concurrent_streams(STREAMS)
                .initial_stream_window_size(STREAM_WINDOW)
                .initial_connection_window_size(CONNECTION_WINDOW)
                .max_send_buf_size(SEND_BUFFER)
                .max_header_list_size(u32::try_from(HEADER_BYTES).unwrap_or(u32::MAX))
                .keep_alive_interval(Some(timeout))
                .keep_alive_timeout(timeout)
                .serve_connection(stream, service);
            tokio::spawn(Abortable::new(self.watcher.watch(connection), registration).map(end));
        } else {
            let stream = TokioIo::new(stream);
            let connection = http1::Builder::new()
                // Its timer would end idle connections as well, and start with each request.
                .header_read_timeout(None)
                .max_buf_size(HEADER_BYTES.max(8192))
                // A client may half-close the connection and still wait for the answer.
                .half_close(true)
                .serve_connection(stream, service);
            tokio::spawn(Abortable::new(self.watcher.watch(connection), registration).map(end));
        }
    }
}

/// Runs each request of a connection of HTTP/2 in a task of its own.
#[derive(Clone, Copy, Debug)]
struct Streams;

impl<F> hyper::rt::Executor<F> for Streams
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, stream: F) {
        tokio::spawn(while_taken(stream));
    }
}

/// The client of a connection, and the data that its requests need.
struct Asker {
    front: Arc<Front>,
    via: Via,
    secure: bool,
    client: IpAddr,
    activity: Activity,
    timeout: Duration,
}

impl Asker {
    /// Answers a request. Its rate and length are looked at before its body is read.
    async fn answer(&self, request: http::Request<Incoming>) -> http::Response<Outgoing> {
        let open = self.activity.request();
        let config = self.front.settings.load_full();
        let (parts, body) = request.into_parts();
        let client = client_of(&parts.headers, self.client, &config.http.proxies);
        let payer = config.rates.payer(client, self.via);
        let heads = parts.headers.iter();
        let heads =
            heads.map(|(name, value)| HEADER_ENTRY_BYTES + name.as_str().len() + value.len());
        let target = parts.uri.path_and_query().map_or(0, |target| target.as_str().len());
        let size = REQUEST_BYTES + heads.sum::<usize>() + target;
        let room = self.front.memory.for_request(&config.http, payer, size);
        let mut room = match room {
            Ok(room) => room,
            Err(refusal) => return self.without_room(&refusal, open),
        };
        let announced = parts.headers.get(http::header::CONTENT_LENGTH).cloned();
        let request = Request::new(parts, self.via, self.secure, client);
        let whole = whole(&config.http, &mut room, body, announced.as_ref(), self.timeout);
        let answer = self.front.router.handle(request, whole).await;
        // With HTTP/2, the task of a request stays until its answer is sent.
        let held = (open, Some(room.keep(REQUEST_BYTES)));
        let (mut parts, content) = answer.into_parts();
        let bytes = match &content {
            Content::Whole(bytes) => bytes.len(),
            // The end of one piece is being sent while the next one is made.
            Content::Pieces(pieces) => 2 * pieces.largest().max(SMALL),
        };
        let before = memory::held(&mut parts);
        let room = match self.front.memory.for_answer(&config.http, payer, before, bytes) {
            Ok(room) => room,
            Err(refusal) => return self.without_room(&refusal, held.0),
        };
        let activity = self.activity.clone();
        let outgoing = match content {
            Content::Whole(bytes) => Outgoing::whole(bytes, Some(room), activity, held),
            Content::Pieces(pieces) => {
                Outgoing::pieces(self.front.engine.clone(), pieces, room, activity, held)
            }
        };
        http::Response::from_parts(parts, outgoing)
    }

    /// Refuses a request that there is no memory for. Without a body, the answer needs none.
    fn without_room(&self, refusal: &Refusal, open: OpenRequest) -> http::Response<Outgoing> {
        let (parts, _) = open_to_all(refusal.text()).into_parts();
        let outgoing = Outgoing::whole(Bytes::new(), None, self.activity.clone(), (open, None));
        http::Response::from_parts(parts, outgoing)
    }
}

/// A stream of which the first bytes were read already.
struct Prefixed<S> {
    ahead: Bytes,
    stream: S,
}

impl<S: AsyncRead + Unpin> Prefixed<S> {
    fn new(stream: S) -> Self {
        Self { ahead: Bytes::new(), stream }
    }

    /// Takes the header of the PROXY protocol off: the address of the client, `None` if the header
    /// names none. Then the connection counts as one of the proxy itself.
    async fn proxy_header(&mut self) -> io::Result<Option<IpAddr>> {
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
                self.ahead = bytes.freeze().slice(length..);
                return Ok(client);
            }
            if bytes.len() >= PROXY_HEADER_BYTES {
                return Err(io::ErrorKind::InvalidData.into());
            }
            if self.stream.read_buf(&mut bytes).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// The version of HTTP that the client speaks, by its first bytes, which can still be read
    /// afterwards.
    async fn version(&mut self) -> io::Result<http::Version> {
        let mut first = [0; HTTP2_PREFACE.len()];
        let mut length = 0;
        let version = loop {
            let more = self.read(&mut first[length..]).await?;
            length += more;
            if length == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if more == 0 || !HTTP2_PREFACE.starts_with(&first[..length]) {
                break http::Version::HTTP_11;
            }
            if length == first.len() {
                break http::Version::HTTP_2;
            }
        };
        self.ahead = [&first[..length], &self.ahead].concat().into();
        Ok(version)
    }
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
        if !self.ahead.is_empty() {
            return Poll::Ready(Ok(()));
        }
        // hyper takes more memory if a request comes in two parts.
        match Pin::new(&mut self.stream).poll_read(cx, out) {
            Poll::Pending => Poll::Ready(Ok(())),
            ready @ Poll::Ready(_) => ready,
        }
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

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    #[test]
    fn the_first_bytes_tell_the_version_and_stay() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        // One byte after the other.
        let version = |text: &'static str| {
            runtime.block_on(async move {
                let (mut client, server) = tokio::io::duplex(1);
                tokio::spawn(async move { client.write_all(text.as_bytes()).await });
                let mut stream = Prefixed::new(server);
                let version = stream.version().await?;
                let mut all = String::new();
                stream.read_to_string(&mut all).await?;
                assert_eq!(all, text);
                Ok::<_, io::Error>(version)
            })
        };
        let of_2 = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n and frames";
        assert_eq!(version(of_2).unwrap(), http::Version::HTTP_2);
        for of_1 in ["GET / HTTP/1.1\r\n\r\n", "PUT /", "P", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r"] {
            assert_eq!(version(of_1).unwrap(), http::Version::HTTP_11, "{of_1}");
        }
        assert_eq!(version("").unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
