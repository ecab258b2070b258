//! A server within the test process, and plain clients for it.

#![allow(dead_code, reason = "`hostile.rs` and these tests use what each needs")]

pub(crate) mod peer;
pub(crate) mod sks;

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use talaria_bench::{CorpusProfile, Generate};
use talaria_cert::{Cert, Verification, View};
use talaria_server::{Config, Server, ServerHandle};
use talaria_store::{Access, Peer, Store};
use tempfile::TempDir;

/// The time limit of a step on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);

/// A time at which the generated certificates are valid.
pub(crate) const NOW: u32 = 1_740_000_000;

/// A server, which ends with the test.
pub(crate) struct Running {
    pub(crate) folder: TempDir,
    pub(crate) http: SocketAddr,
    /// The address for operators.
    pub(crate) operator: SocketAddr,
    /// The gossip address, if the server gossips.
    pub(crate) gossip: Option<SocketAddr>,
    handle: ServerHandle,
    thread: Option<thread::JoinHandle<()>>,
}

/// Settings with ports that are free, for loopback only.
pub(crate) fn config() -> Config {
    let mut config = Config::default();
    config.http.listen = vec!["127.0.0.1:0".parse().unwrap()];
    config.log.level = "off".into();
    config
}

/// The same for a server that gossips often.
pub(crate) fn gossiping() -> Config {
    let mut config = config();
    config.gossip.listen = vec!["127.0.0.1:0".parse().unwrap()];
    config.gossip.interval_s = 0.3;
    config.gossip.timeout_s = 20;
    config
}

impl Running {
    /// Starts a server that has these certificates.
    pub(crate) fn start(certs: &[Cert], config: Config) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), certs, config)
    }

    pub(crate) fn start_in(folder: TempDir, certs: &[Cert], mut config: Config) -> Self {
        config.http.operator_listen = vec!["127.0.0.1:0".parse().unwrap()];
        let path = folder.path().join("certs.db");
        let mut store = Store::open(&path, Access::Create).unwrap();
        store.ingest(certs.to_vec(), Verification::Full, NOW.into()).unwrap();
        drop(store);
        let server = Server::start(&path, config, None).unwrap();
        // A server on all addresses is reached at this one.
        let local = |address: SocketAddr| {
            let ip =
                if address.ip().is_unspecified() { [127, 0, 0, 1].into() } else { address.ip() };
            SocketAddr::new(ip, address.port())
        };
        let http = local(server.addresses()[0]);
        let operator = server.operator_addresses()[0];
        let gossip = server.gossip_addresses().first().copied().map(local);
        let handle = server.handle();
        let thread = Some(thread::spawn(move || server.run().unwrap()));
        Self { folder, http, operator, gossip, handle, thread }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("certs.db")
    }

    pub(crate) fn store(&self) -> Store {
        Store::open(&self.path(), Access::Create).unwrap()
    }

    /// The digests of all certificates in a view.
    pub(crate) fn digests(&self, view: View) -> BTreeSet<[u8; 16]> {
        digests(&self.path(), view)
    }

    pub(crate) fn add_peer(&self, address: SocketAddr, view: View) {
        let (host, port) = (address.ip().to_string(), address.port());
        self.store().add_peer(&Peer { host, port, http_port: None, view }).unwrap();
    }

    pub(crate) fn get(&self, path: &str) -> Reply {
        get(self.http, path)
    }

    pub(crate) fn post(&self, path: &str, media: &str, body: &[u8]) -> Reply {
        let head = format!("content-type: {media}\r\n");
        request(self.http, "POST", path, &head, body)
    }

    /// Uploads one certificate.
    pub(crate) fn upload(&self, cert: &Cert) -> Reply {
        self.post("/pks/v2/certs", "application/pgp-keys", cert.as_bytes())
    }

    /// A value in the metrics.
    pub(crate) fn metric(&self, name: &str) -> u64 {
        let body = get(self.operator, "/metrics").text();
        let line = body.lines().find_map(|line| line.strip_prefix(&format!("talaria_{name} ")));
        line.unwrap_or_else(|| panic!("no {name} in {body}")).parse().unwrap()
    }

    /// The status of a peer; `null` if unknown.
    pub(crate) fn peer(&self, address: SocketAddr) -> serde_json::Value {
        let stats = self.get("/pks/lookup?op=stats&options=mr").json();
        let name = address.to_string();
        let peers = stats["peers"].as_array().unwrap();
        peers.iter().find(|peer| peer["name"] == name.as_str()).cloned().unwrap_or_default()
    }

    /// Stops the server and returns its folder.
    pub(crate) fn stop(mut self) -> TempDir {
        self.end();
        std::mem::replace(&mut self.folder, tempfile::tempdir().unwrap())
    }

    fn end(&mut self) {
        self.handle.shut_down();
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            if !thread::panicking() {
                ended.unwrap();
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

/// An answer of a server.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    /// The status line and the headers, in lower case.
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    /// Parses an answer from all received bytes.
    pub(crate) fn parse(bytes: &[u8]) -> Self {
        let end = bytes.windows(4).position(|end| end == b"\r\n\r\n");
        let end = end.unwrap_or_else(|| panic!("no answer: {:?}", String::from_utf8_lossy(bytes)));
        let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap();
        Self { status, head, body: bytes[end + 4..].to_vec() }
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("{}", self.text()))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }
}

pub(crate) fn get(address: SocketAddr, path: &str) -> Reply {
    request(address, "GET", path, "", b"")
}

pub(crate) fn request(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &str,
    body: &[u8],
) -> Reply {
    let mut stream = connect(address);
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{headers}\
         content-length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    // A server that refuses need not read all of it.
    let _ = stream.write_all(body);
    Reply::parse(&read_to_end(&mut stream))
}

pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// All bytes until the connection ends.
pub(crate) fn read_to_end(stream: &mut TcpStream) -> Vec<u8> {
    let (mut all, mut buffer) = (Vec::new(), vec![0; 64 << 10]);
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return all,
            Ok(n) => all.extend_from_slice(&buffer[..n]),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                panic!("nothing comes, and no end")
            }
            Err(_) => return all,
        }
    }
}

/// Waits until a condition holds.
pub(crate) fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        thread::sleep(Duration::from_millis(100));
    }
}

/// The digests of all certificates of a store in a view.
pub(crate) fn digests(path: &Path, view: View) -> BTreeSet<[u8; 16]> {
    let mut all = BTreeSet::new();
    let store = Store::open(path, Access::Read).unwrap();
    store.for_each_digest(view, |digest, _| all.extend([digest])).unwrap();
    all
}

/// Small certificates, of which the first ones are the same each time.
pub(crate) fn generated(count: u64) -> Vec<Cert> {
    talaria_bench::certs(&Generate { seed: 21, first: 0, count, profile: CorpusProfile::small() })
}
