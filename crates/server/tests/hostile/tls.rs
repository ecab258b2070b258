//! TLS: the certificate of a server changes while it runs, and clients are told to use TLS only.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;

use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore};

use crate::site::{Got, Site, config, get, wait_for};

/// A new certificate for `localhost` that only itself vouches for, and its key. `None` if openssl
/// is not installed.
pub(crate) fn certificate(folder: &Path, name: &str) -> Option<(PathBuf, PathBuf)> {
    let file = |end: &str| folder.join(format!("{name}{end}"));
    let (certificate, key) = (file(".pem"), file(".key.pem"));
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"])
        .args(["-nodes", "-days", "2", "-subj", "/CN=localhost"])
        .args(["-addext", "subjectAltName=DNS:localhost", "-keyout"])
        .arg(&key)
        .arg("-out")
        .arg(&certificate)
        .output();
    let Ok(made) = made else {
        talaria_needs::left_out("openssl");
        return None;
    };
    assert!(made.status.success(), "{made:?}");
    Some((certificate, key))
}

/// The first message of a client.
pub(crate) fn client_hello() -> Vec<u8> {
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    let name = "localhost".try_into().unwrap();
    let mut hello = Vec::new();
    ClientConnection::new(Arc::new(config), name).unwrap().write_tls(&mut hello).unwrap();
    hello
}

/// A client that keeps its connection, and trusts one certificate.
pub(crate) struct Client {
    openssl: Child,
    answers: BufReader<ChildStdout>,
}

impl Client {
    pub(crate) fn open(server: &Site, trusted: &Path) -> Self {
        let mut openssl = Command::new("openssl")
            .args(["s_client", "-quiet", "-verify_return_error", "-verify_hostname", "localhost"])
            .arg("-CAfile")
            .arg(trusted)
            .arg("-connect")
            .arg(server.http.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let answers = BufReader::new(openssl.stdout.take().unwrap());
        Self { openssl, answers }
    }

    /// The answer to a request, `None` if there is no connection.
    pub(crate) fn ask(&mut self, path: &str) -> Option<Got> {
        let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
        self.openssl.stdin.as_mut().unwrap().write_all(request.as_bytes()).ok()?;
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if self.answers.read_line(&mut head).ok()? == 0 {
                return None;
            }
        }
        let mut got = Got::parse(head.as_bytes());
        got.body = vec![0; got.header("content-length").parse().unwrap()];
        self.answers.read_exact(&mut got.body).ok()?;
        Some(got)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.openssl.kill();
        let _ = self.openssl.wait();
    }
}

#[test]
fn a_new_certificate_is_used_without_a_restart_and_a_broken_one_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let Some(first) = certificate(folder.path(), "first") else { return };
    let second = certificate(folder.path(), "second").unwrap();
    let used = (folder.path().join("used.pem"), folder.path().join("used.key.pem"));
    let put = |certificate: &Path, key: &Path| {
        fs::copy(certificate, &used.0).unwrap();
        fs::copy(key, &used.1).unwrap();
    };
    put(&first.0, &first.1);
    let mut settings = config();
    settings.http.tls_certificate = Some(used.0.clone());
    settings.http.tls_key = Some(used.1.clone());
    settings.log.level = "info".into();
    let server = Site::apart(&[], settings);
    // Whether a new client gets an answer with a certificate.
    let serves = |certificate: &Path| Client::open(&server, certificate).ask("/health").is_some();
    let mut old = Client::open(&server, &first.0);
    assert_eq!(old.ask("/health").unwrap().status, 200);
    assert!(serves(&first.0) && !serves(&second.0));

    put(&second.0, &second.1);
    server.process().hang_up();
    wait_for("a reload", || server.process().log().contains("reloaded the settings"));
    assert!(serves(&second.0) && !serves(&first.0));
    assert_eq!(old.ask("/health").unwrap().status, 200);

    let refused = || server.process().log().matches("cannot reload the settings").count();
    // No certificate, half of one, and one with the key of another.
    let half = fs::read_to_string(&first.0).unwrap();
    for (number, text) in ["", &half[..half.len() / 2], &half].into_iter().enumerate() {
        fs::write(&used.0, text).unwrap();
        server.process().hang_up();
        wait_for("it is refused", || refused() == number + 1);
        let log = server.process().log();
        let line = log.lines().last().unwrap();
        assert!(line.contains("used.pem"), "{line}");
        assert!(serves(&second.0) && !serves(&first.0));
        assert_eq!(old.ask("/health").unwrap().status, 200);
    }
    fs::write(&used.0, half).unwrap();
    fs::copy(&first.1, &used.1).unwrap();
    server.process().hang_up();
    wait_for("another reload", || {
        server.process().log().matches("reloaded the settings").count() == 2
    });
    assert!(serves(&first.0) && !serves(&second.0));
    assert_eq!(old.ask("/health").unwrap().status, 200);

    // Of new files, one of which is broken, none is used.
    let path = server.folder.path().join("server.toml");
    let settings = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("nonsense = 1\n{settings}")).unwrap();
    put(&second.0, &second.1);
    server.process().hang_up();
    wait_for("it is refused", || refused() == 4);
    assert!(serves(&first.0) && !serves(&second.0));
    // What changes only at a restart is named.
    fs::write(&path, settings.replace("level = \"info\"", "level = \"debug\"")).unwrap();
    server.process().hang_up();
    wait_for("a third reload", || {
        server.process().log().matches("reloaded the settings").count() == 3
    });
    assert!(serves(&second.0) && !serves(&first.0));
    let log = server.whole_log();
    let named = log.lines().filter(|line| line.contains("change only at a restart"));
    let named: Vec<&str> = named.collect();
    assert!(matches!(named[..], [line] if line.contains("log.level")), "{named:?}");
}

#[test]
fn clients_are_told_to_use_tls_only_where_they_use_it() {
    const HSTS: &str = "strict-transport-security";
    let folder = tempfile::tempdir().unwrap();
    let Some((certificate, key)) = certificate(folder.path(), "server") else { return };
    let plain = Site::with(&[], config());
    assert!(!plain.get("/health").headers.contains_key(HSTS));
    let mut settings = config();
    (settings.http.tls_certificate, settings.http.tls_key) = (Some(certificate.clone()), Some(key));
    let secure = Site::with(&[], settings.clone());
    let mut client = Client::open(&secure, &certificate);
    for path in ["/health", "/", "/nowhere", "/pks/lookup?op=get&search=0x0123456789ABCDEF"] {
        let got = client.ask(path).unwrap();
        assert_eq!(got.header(HSTS), "max-age=31536000", "{path}");
    }
    // The address for operators has no TLS.
    assert!(!get(secure.operator, "/metrics").headers.contains_key(HSTS));
    settings.http.hsts_s = 0;
    let silent = Site::with(&[], settings);
    let got = Client::open(&silent, &certificate).ask("/health").unwrap();
    assert!(!got.headers.contains_key(HSTS));
}
