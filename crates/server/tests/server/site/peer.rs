//! A gossip peer whose announced and delivered certificates the test chooses.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use talaria_cert::Cert;
use talaria_recon::{
    Decoder, Digest, Exchange, ExchangeRole, Outbox, PrefixTree, Settings, decode_hashquery,
    encode_hashreply,
};

/// The delivered certificates.
struct Gives {
    certs: Vec<Cert>,
    /// All certificates, whatever is requested.
    anything: bool,
    at_most: usize,
    /// The time that an answer takes.
    pause: Duration,
    /// Bytes that follow the number of requested certificates again and again, instead of
    /// certificates.
    endless: Option<Vec<u8>>,
}

/// A peer that others connect to. Its threads end with the process.
pub(crate) struct Peer {
    pub(crate) gossip: SocketAddr,
    exchanges: Arc<AtomicUsize>,
    requests: Arc<AtomicUsize>,
    asked: Arc<Mutex<Vec<Digest>>>,
    gives: Arc<Mutex<Gives>>,
}

impl Peer {
    /// Announces `announced`, and delivers the requested ones of `certs`.
    pub(crate) fn start(announced: &[Digest], certs: Vec<Cert>) -> Self {
        let listen = || TcpListener::bind("127.0.0.1:0").unwrap();
        let (gossip, http) = (listen(), listen());
        let gives = Gives {
            certs,
            anything: false,
            at_most: usize::MAX,
            pause: Duration::ZERO,
            endless: None,
        };
        let peer = Self {
            gossip: gossip.local_addr().unwrap(),
            exchanges: Arc::default(),
            requests: Arc::default(),
            asked: Arc::default(),
            gives: Arc::new(Mutex::new(gives)),
        };
        let settings =
            Settings { http_port: http.local_addr().unwrap().port(), ..Settings::default() };
        let (exchanges, tree) =
            (Arc::clone(&peer.exchanges), PrefixTree::build(announced.iter().copied()));
        thread::spawn(move || {
            for stream in gossip.incoming() {
                if talk(stream.unwrap(), &settings, &tree).is_some() {
                    exchanges.fetch_add(1, Ordering::SeqCst);
                }
            }
        });
        let (asked, gives) = (Arc::clone(&peer.asked), Arc::clone(&peer.gives));
        let requests = Arc::clone(&peer.requests);
        thread::spawn(move || {
            for stream in http.incoming() {
                let _ = give(stream.unwrap(), &requests, &asked, &gives.lock().unwrap());
            }
        });
        peer
    }

    /// Delivers all certificates, whatever is requested.
    pub(crate) fn with_anything(self) -> Self {
        self.gives.lock().unwrap().anything = true;
        self
    }

    /// Delivers at most this number at once.
    pub(crate) fn with_at_most(self, certs: usize) -> Self {
        self.gives.lock().unwrap().at_most = certs;
        self
    }

    /// Takes its time for each delivery.
    pub(crate) fn with_pause(self, pause: Duration) -> Self {
        self.gives.lock().unwrap().pause = pause;
        self
    }

    /// Answers each request with the number of requested certificates, and then with these bytes
    /// again and again.
    pub(crate) fn with_endless(self, bytes: &[u8]) -> Self {
        self.gives.lock().unwrap().endless = Some(bytes.to_vec());
        self
    }

    /// The number of requests for certificates.
    pub(crate) fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }

    /// The number of completed exchanges.
    pub(crate) fn exchanges(&self) -> usize {
        self.exchanges.load(Ordering::SeqCst)
    }

    /// All requested digests.
    pub(crate) fn asked(&self) -> Vec<Digest> {
        self.asked.lock().unwrap().clone()
    }
}

/// One exchange as the accepting side.
fn talk(mut stream: TcpStream, settings: &Settings, tree: &PrefixTree) -> Option<()> {
    stream.set_read_timeout(Some(Duration::from_secs(60))).ok()?;
    let (mut outbox, mut decoder) = (Outbox::new(), Decoder::new());
    let mut exchange = Exchange::start(ExchangeRole::Acceptor, settings.clone(), 1, &mut outbox);
    let mut buffer = vec![0; 4096];
    loop {
        stream.write_all(&outbox.take_due()).ok()?;
        if matches!(exchange, Exchange::Done(_)) {
            return Some(());
        }
        let n = stream.read(&mut buffer).ok().filter(|&n| n > 0)?;
        decoder.feed(&buffer[..n]);
        while !matches!(exchange, Exchange::Done(_))
            && let Some(message) = decoder.next_message().ok()?
        {
            exchange = exchange.step(message, tree, &mut outbox).ok()?;
        }
    }
}

/// Answers one query for certificates. Other requests, as for the name of its software, get no
/// answer.
fn give(
    mut stream: TcpStream,
    requests: &AtomicUsize,
    asked: &Mutex<Vec<Digest>>,
    gives: &Gives,
) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    let (mut request, mut buffer) = (Vec::new(), [0; 4096]);
    let digests = loop {
        let n = stream.read(&mut buffer)?;
        if n == 0 {
            return Ok(());
        }
        request.extend_from_slice(&buffer[..n]);
        if request.starts_with(b"GET ") {
            return Ok(());
        }
        let body = request.windows(4).position(|end| end == b"\r\n\r\n");
        if let Some(digests) = body.and_then(|at| decode_hashquery(&request[at + 4..]).ok()) {
            break digests;
        }
    };
    requests.fetch_add(1, Ordering::SeqCst);
    asked.lock().unwrap().extend(&digests);
    thread::sleep(gives.pause);
    if let Some(bytes) = &gives.endless {
        stream.write_all(b"HTTP/1.0 200 OK\r\ncontent-type: pgp/keys\r\n\r\n")?;
        stream.write_all(&u32::try_from(digests.len()).unwrap().to_be_bytes())?;
        loop {
            stream.write_all(bytes)?;
        }
    }
    let is_given = |cert: &&Cert| gives.anything || digests.contains(&Digest(cert.sks_digest()));
    let certs: Vec<&[u8]> =
        gives.certs.iter().filter(is_given).take(gives.at_most).map(Cert::as_bytes).collect();
    let body = encode_hashreply(&certs);
    let length = body.len();
    let head = format!("HTTP/1.0 200 OK\r\ncontent-type: pgp/keys\r\ncontent-length: {length}");
    stream.write_all(format!("{head}\r\n\r\n").as_bytes())?;
    stream.write_all(&body)
}
