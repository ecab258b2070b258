//! The one set-up of a server for tests: it runs within the process, or in one of its own, in a
//! folder of its own, with some certificates.

#![allow(dead_code, unused_imports, reason = "both programs of tests use what each needs")]

mod apart;
mod client;
mod gpg;
pub(crate) mod peer;
pub(crate) mod sks;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use sequoia_openpgp as openpgp;
use sequoia_openpgp::cert::prelude::*;
use sequoia_openpgp::crypto::KeyPair;
use sequoia_openpgp::packet::Signature;
use sequoia_openpgp::parse::Parse as _;
use sequoia_openpgp::serialize::SerializeInto as _;
use sequoia_openpgp::types::ReasonForRevocation;
use talaria_cert::{Cert, Verification, View};
use talaria_corpus::{CorpusProfile, Generate};
use talaria_server::{Config, Server, ServerHandle};
use talaria_store::{Access, Peer, Store};
use tempfile::TempDir;

use apart::{Addresses, Apart};
pub(crate) use client::{Got, agent, connect, get, read_to_end, request};
pub(crate) use gpg::{Gpg, assert_sq_reads, gpg, home, newer_gpg};

/// The time limit of a step on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);

/// A time at which the generated certificates are valid.
pub(crate) const NOW: u32 = 1_740_000_000;

/// A server that runs until it is dropped.
pub(crate) struct Site {
    pub(crate) folder: TempDir,
    pub(crate) http: SocketAddr,
    /// The address for operators.
    pub(crate) operator: SocketAddr,
    /// The gossip address, if the server gossips.
    pub(crate) gossip: Option<SocketAddr>,
    running: Running,
}

/// Where a server runs.
enum Running {
    Here { handle: ServerHandle, thread: Option<thread::JoinHandle<()>> },
    Apart(Apart),
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

impl Site {
    /// Starts a server without certificates.
    pub(crate) fn start(config: Config) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), &[], config)
    }

    /// Starts a server that has these certificates.
    pub(crate) fn with(certs: &[Cert], config: Config) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), certs, config)
    }

    /// Starts a server on the store in a folder, which gets these certificates first.
    pub(crate) fn start_in(folder: TempDir, certs: &[Cert], config: Config) -> Self {
        Self::start_at(folder, certs, NOW, config)
    }

    /// The same for certificates that come at `time`.
    pub(crate) fn start_at(folder: TempDir, certs: &[Cert], time: u32, mut config: Config) -> Self {
        let path = prepare(&folder, certs, time, &mut config);
        let server = Server::start(&path, config, None).unwrap();
        let Addresses { http, operator, gossip } = Addresses::of(&server);
        let handle = server.handle();
        let thread = Some(thread::spawn(move || server.run().unwrap()));
        Self { folder, http, operator, gossip, running: Running::Here { handle, thread } }
    }

    /// Starts a server that has these certificates, in a process of its own.
    pub(crate) fn apart(certs: &[Cert], config: Config) -> Self {
        Self::apart_in(tempfile::tempdir().unwrap(), certs, config)
    }

    /// The same on the store in a folder.
    pub(crate) fn apart_in(folder: TempDir, certs: &[Cert], mut config: Config) -> Self {
        prepare(&folder, certs, NOW, &mut config);
        let (process, Addresses { http, operator, gossip }) = Apart::start(folder.path(), &config);
        Self { folder, http, operator, gossip, running: Running::Apart(process) }
    }

    /// The process of the server, if it has one of its own.
    pub(crate) fn process(&self) -> &Apart {
        match &self.running {
            Running::Apart(process) => process,
            Running::Here { .. } => panic!("the server runs in the process of the test"),
        }
    }

    /// Ends the server, and returns its log. While a server runs, the last lines may wait for the
    /// thread that writes them.
    pub(crate) fn whole_log(mut self) -> String {
        self.end();
        self.process().log()
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
        self.store().keyserver_mut().add_peer(&Peer { host, port, http_port: None, view }).unwrap();
    }

    pub(crate) fn url(&self, path: &str) -> String {
        let is_for_operators = matches!(path, "/metrics" | "/operator");
        format!("http://{}{path}", if is_for_operators { self.operator } else { self.http })
    }

    /// The address of a path on the listener for operators.
    pub(crate) fn operator_url(&self, path: &str) -> String {
        format!("http://{}{path}", self.operator)
    }

    pub(crate) fn get(&self, path: &str) -> Got {
        Got::of(agent().get(self.url(path)).call())
    }

    /// The request of a browser that opens a link.
    pub(crate) fn open(&self, path: &str) -> Got {
        Got::of(agent().get(self.url(path)).header("Accept", "text/html").call())
    }

    pub(crate) fn form(&self, path: &str, fields: &[(&str, &str)]) -> Got {
        Got::of(agent().post(self.url(path)).send_form(fields.iter().copied()))
    }

    pub(crate) fn json(&self, path: &str, value: &serde_json::Value) -> Got {
        let request = agent().post(self.url(path)).header("Content-Type", "application/json");
        Got::of(request.send(value.to_string()))
    }

    pub(crate) fn post(&self, path: &str, media: &str, body: &[u8]) -> Got {
        let head = format!("content-type: {media}\r\n");
        request(self.http, "POST", path, &head, body)
    }

    /// Uploads a certificate by the form.
    pub(crate) fn upload(&self, cert: &openpgp::Cert) -> Got {
        self.form("/pks/add", &[("keytext", &armored(cert))])
    }

    /// Uploads a certificate as it is.
    pub(crate) fn put(&self, cert: &Cert) -> Got {
        self.post("/pks/v2/certs", "application/pgp-keys", cert.as_bytes())
    }

    /// Uploads any bytes as certificates.
    pub(crate) fn offer(&self, raw: &[u8]) -> Got {
        self.post("/pks/v2/certs", "application/pgp-keys", raw)
    }

    /// A certificate as a client gets it.
    pub(crate) fn fetched(&self, cert: &Cert) -> Cert {
        let fingerprint = cert.fingerprint();
        let reply = self.get(&format!("/pks/v2/certs/by-vfingerprint/04{fingerprint}"));
        assert_eq!(reply.status, 200, "{}", reply.text());
        Cert::parse(&reply.body).unwrap()
    }

    /// A certificate by its fingerprint over HKP, if the server serves it.
    pub(crate) fn cert(&self, fingerprint: &str) -> Option<openpgp::Cert> {
        let got = self.get(&format!("/pks/lookup?op=get&options=mr&search=0x{fingerprint}"));
        (got.status == 200).then(|| openpgp::Cert::from_bytes(&got.body).unwrap())
    }

    /// A value in the metrics.
    pub(crate) fn metric(&self, name: &str) -> u64 {
        let body = get(self.operator, "/metrics").text();
        let line = body.lines().find_map(|line| line.strip_prefix(&format!("talaria_{name} ")));
        line.unwrap_or_else(|| panic!("no {name} in {body}")).parse().unwrap()
    }

    /// The status of a peer; `null` if unknown.
    pub(crate) fn peer(&self, address: SocketAddr) -> serde_json::Value {
        let stats = self.get("/pks/lookup?op=stats&options=mr").value();
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
        match &mut self.running {
            Running::Here { handle, thread } => {
                handle.shut_down();
                if let Some(thread) = thread.take() {
                    let ended = thread.join();
                    if !thread::panicking() {
                        ended.unwrap();
                    }
                }
            }
            Running::Apart(process) => process.end(),
        }
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.end();
    }
}

/// Puts certificates into the store of a folder, and has the settings listen on ports that are
/// free. Returns the store.
fn prepare(folder: &TempDir, certs: &[Cert], time: u32, config: &mut Config) -> PathBuf {
    let free = vec![SocketAddr::from(([127, 0, 0, 1], 0))];
    if config.http.listen == Config::default().http.listen {
        config.http.listen.clone_from(&free);
    }
    config.http.operator_listen = free;
    let path = folder.path().join("certs.db");
    if !certs.is_empty() {
        let mut store = Store::open(&path, Access::Create).unwrap();
        store.ingest(certs.to_vec(), Verification::Full, time.into()).unwrap();
    }
    path
}

/// A certificate with these user IDs and subkeys for signing and encryption, created some time ago.
pub(crate) fn make(user_ids: &[&str]) -> openpgp::Cert {
    let past = SystemTime::now() - Duration::from_secs(3600);
    let mut builder = CertBuilder::new().set_creation_time(past);
    for user_id in user_ids {
        builder = builder.add_userid(*user_id);
    }
    builder.add_signing_subkey().add_transport_encryption_subkey().generate().unwrap().0
}

/// The primary key of a certificate, for signing.
pub(crate) fn signer(cert: &openpgp::Cert) -> KeyPair {
    cert.primary_key().key().clone().parts_into_secret().unwrap().into_keypair().unwrap()
}

/// A revocation of the key of a certificate: by its owner, or by somebody else.
pub(crate) fn revocation(by: &openpgp::Cert, of: &openpgp::Cert) -> Signature {
    CertRevocationBuilder::new()
        .set_reason_for_revocation(ReasonForRevocation::KeyCompromised, b"stolen")
        .unwrap()
        .build(&mut signer(by), of, None)
        .unwrap()
}

pub(crate) fn armored(cert: &openpgp::Cert) -> String {
    String::from_utf8(cert.armored().to_vec().unwrap()).unwrap()
}

/// The texts of the user IDs, sorted.
pub(crate) fn user_ids(cert: &openpgp::Cert) -> Vec<String> {
    let mut texts: Vec<String> = cert
        .userids()
        .map(|user_id| String::from_utf8_lossy(user_id.userid().value()).into_owned())
        .collect();
    texts.sort();
    texts
}

/// Waits until a condition holds.
pub(crate) fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Waits for the next second, because times in certificates and in the log have that resolution.
pub(crate) fn next_second() {
    std::thread::sleep(Duration::from_millis(1100));
}

/// The digests of all certificates of a store in a view.
pub(crate) fn digests(path: &Path, view: View) -> BTreeSet<[u8; 16]> {
    let mut all = BTreeSet::new();
    let store = Store::open(path, Access::Read).unwrap();
    store.digests().for_each(view, |digest, _| all.extend([digest])).unwrap();
    all
}

/// Small certificates, of which the first ones are the same each time.
pub(crate) fn generated(count: u64) -> Vec<Cert> {
    talaria_corpus::certs(&Generate { seed: 21, first: 0, count, profile: CorpusProfile::small() })
}
