//! A server on an address of this machine, certificates for it, and requests of clients.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use sequoia_openpgp as openpgp;
use sequoia_openpgp::cert::prelude::*;
use sequoia_openpgp::parse::Parse as _;
use sequoia_openpgp::serialize::SerializeInto as _;
use talaria_server::{Config, Server, ServerHandle};

/// A server that runs until it is dropped.
pub(crate) struct Site {
    pub(crate) address: SocketAddr,
    /// The address for operators.
    operator: SocketAddr,
    handle: Option<ServerHandle>,
    thread: Option<JoinHandle<()>>,
    _folder: tempfile::TempDir,
}

impl Site {
    pub(crate) fn start(mut config: Config) -> Self {
        let folder = tempfile::tempdir().unwrap();
        if config.http.listen == Config::default().http.listen {
            config.http.listen = vec![SocketAddr::from(([127, 0, 0, 1], 0))];
        }
        config.http.operator_listen = vec![SocketAddr::from(([127, 0, 0, 1], 0))];
        let server = Server::start(&folder.path().join("store"), config, None).unwrap();
        let (address, handle) = (server.addresses()[0], Some(server.handle()));
        let operator = server.operator_addresses()[0];
        let thread = Some(std::thread::spawn(move || server.run().unwrap()));
        Self { address, operator, handle, thread, _folder: folder }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        let is_for_operators = matches!(path, "/metrics" | "/operator");
        format!("http://{}{path}", if is_for_operators { self.operator } else { self.address })
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

    pub(crate) fn upload(&self, cert: &openpgp::Cert) -> Got {
        self.form("/pks/add", &[("keytext", &armored(cert))])
    }

    /// A certificate by its fingerprint over HKP, if the server serves it.
    pub(crate) fn cert(&self, fingerprint: &str) -> Option<openpgp::Cert> {
        let got = self.get(&format!("/pks/lookup?op=get&options=mr&search=0x{fingerprint}"));
        (got.status == 200).then(|| openpgp::Cert::from_bytes(&got.body).unwrap())
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        // The server ends when all handles are dropped.
        self.handle.take().unwrap().shut_down();
        let ended = self.thread.take().unwrap().join();
        if !std::thread::panicking() {
            ended.unwrap();
        }
    }
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Got {
    pub(crate) status: u16,
    pub(crate) headers: http::HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Got {
    pub(crate) fn of(answer: Result<http::Response<ureq::Body>, ureq::Error>) -> Self {
        let mut answer = answer.unwrap();
        Self {
            status: answer.status().as_u16(),
            headers: answer.headers().clone(),
            body: answer.body_mut().read_to_vec().unwrap(),
        }
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    pub(crate) fn value(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("{}", self.text()))
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    pub(crate) fn certs(&self) -> Vec<openpgp::Cert> {
        CertParser::from_bytes(&self.body).unwrap().map(Result::unwrap).collect()
    }
}

pub(crate) fn agent() -> ureq::Agent {
    ureq::Agent::config_builder().http_status_as_error(false).build().into()
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

/// An unused port.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Waits until a condition holds.
pub(crate) fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !done() {
        assert!(Instant::now() < end, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits for the next second, because times in certificates and in the log have that resolution.
pub(crate) fn next_second() {
    std::thread::sleep(Duration::from_millis(1100));
}

/// GnuPG with its own home directory.
pub(crate) struct Gpg {
    home: tempfile::TempDir,
}

impl Gpg {
    pub(crate) fn new() -> Self {
        let home = tempfile::Builder::new().prefix("g").tempdir().unwrap();
        Self { home }
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> String {
        let out = std::process::Command::new("gpg")
            .env("GNUPGHOME", self.home.path())
            .args([
                "--batch",
                "--quiet",
                "--yes",
                "--passphrase",
                "",
                "--pinentry-mode",
                "loopback",
            ])
            .args(arguments)
            .output()
            .unwrap();
        assert!(out.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    }

    pub(crate) fn path(&self) -> &Path {
        self.home.path()
    }
}

impl Drop for Gpg {
    fn drop(&mut self) {
        let _ = std::process::Command::new("gpgconf")
            .env("GNUPGHOME", self.home.path())
            .args(["--kill", "all"])
            .status();
    }
}
