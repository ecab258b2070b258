//! `talaria serve` as a process, and requests to it.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use talaria::cert::{Cert, enarmor};
use talaria_needs::free_port;

use super::Program;

/// How long a server may take for anything.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server, which ends with the value.
pub(crate) struct Serving {
    child: Child,
    pub(crate) address: SocketAddr,
    /// Where it gossips, if it does.
    pub(crate) gossip: Option<SocketAddr>,
    log: Arc<Mutex<String>>,
    /// Reads the log until the process ends.
    reader: Option<JoinHandle<()>>,
}

/// Writes settings with a token of operators, `of-a-test`, and returns their path.
pub(crate) fn operator_settings(program: &Program) -> PathBuf {
    let (settings, token) = (program.path("operator.toml"), program.path("operator-token"));
    std::fs::write(&token, "of-a-test\n").unwrap();
    let text = format!("[http]\noperator_token_file = {:?}\n", token.to_str().unwrap());
    std::fs::write(&settings, text).unwrap();
    settings
}

impl Serving {
    /// Starts a server on the store of `program` at a free port.
    pub(crate) fn start(program: &Program, args: &[&str]) -> Self {
        let all = [&["serve", "--listen", "127.0.0.1:0"], args].concat();
        let mut child = program.command(&all).spawn().unwrap();
        let said = BufReader::new(child.stderr.take().unwrap());
        let log = Arc::new(Mutex::new(String::new()));
        let reader = thread::spawn({
            let log = Arc::clone(&log);
            move || {
                for line in said.lines().map_while(Result::ok) {
                    let mut log = log.lock().unwrap();
                    log.push_str(&line);
                    log.push('\n');
                }
            }
        });
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut serving = Self { child, address: any, gossip: None, log, reader: Some(reader) };
        let line = serving.says(" at http://");
        let address = line.rsplit("http://").next().unwrap().trim_end_matches('/');
        serving.address = address.parse().unwrap();
        if args.contains(&"--gossip") {
            let line = serving.says("Gossiping at ");
            serving.gossip = line.rsplit(' ').next().unwrap().parse().ok();
        }
        serving
    }

    /// Starts a server with further settings, whose standard error goes to `log`, and waits until
    /// it answers.
    pub(crate) fn start_with_log(program: &Program, settings: &str, log: Stdio) -> Self {
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let listen = address.to_string();
        let file = operator_settings(program);
        let all = std::fs::read_to_string(&file).unwrap() + settings;
        std::fs::write(&file, all).unwrap();
        let all = ["serve", "--listen", &listen, "--config", file.to_str().unwrap()];
        Self::of_child(program.command(&all).stderr(log).spawn().unwrap(), address)
    }

    /// A server that was started to listen at `address`, when it does.
    pub(crate) fn of_child(child: Child, address: SocketAddr) -> Self {
        let mut serving = Self { child, address, gossip: None, log: Arc::default(), reader: None };
        let started = Instant::now();
        while TcpStream::connect(address).is_err() {
            let ended = serving.child.try_wait().unwrap();
            assert!(ended.is_none() && started.elapsed() < PATIENCE, "{ended:?}");
            thread::sleep(Duration::from_millis(10));
        }
        serving
    }

    /// The value of a metric.
    pub(crate) fn metric(&self, name: &str) -> u64 {
        let head =
            "GET /metrics HTTP/1.0\r\nhost: localhost\r\nauthorization: Bearer of-a-test\r\n\r\n";
        let (_, metrics) = self.request(head);
        let line = metrics.lines().find_map(|line| line.strip_prefix(&format!("talaria_{name} ")));
        line.unwrap_or_else(|| panic!("{metrics}")).parse().unwrap()
    }

    /// Its output so far.
    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// Waits until it says something, and returns the line.
    pub(crate) fn says(&mut self, text: &str) -> String {
        let started = Instant::now();
        loop {
            if let Some(line) = self.log().lines().find(|line| line.contains(text)) {
                return line.to_owned();
            }
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none() && started.elapsed() < PATIENCE, "{ended:?}: {}", self.log());
            thread::sleep(Duration::from_millis(10));
        }
    }

    pub(crate) fn keyserver(&self) -> String {
        format!("hkp://{}", self.address)
    }

    pub(crate) fn get(&self, path: &str) -> (u16, String) {
        self.request(&format!("GET {path} HTTP/1.0\r\nhost: localhost\r\n\r\n"))
    }

    /// Uploads a certificate as gpg does.
    pub(crate) fn add(&self, cert: &Cert) -> (u16, String) {
        let body = form(cert);
        self.request(&format!(
            "POST /pks/add HTTP/1.0\r\nhost: localhost\r\ncontent-length: {}\r\n\
             content-type: application/x-www-form-urlencoded\r\n\r\n{body}",
            body.len()
        ))
    }

    fn request(&self, request: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        answer(&mut stream)
    }

    /// The status of a look-up.
    pub(crate) fn finds(&self, cert: &Cert) -> bool {
        let path = format!("/pks/lookup?op=get&options=mr&search=0x{}", cert.fingerprint());
        match self.get(&path).0 {
            200 => true,
            404 => false,
            status => panic!("{status} for {path}"),
        }
    }

    pub(crate) fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.child.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    }

    /// Waits until it has ended by itself. The log is whole then.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let started = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                if let Some(reader) = self.reader.take() {
                    reader.join().unwrap();
                }
                return status;
            }
            assert!(started.elapsed() < PATIENCE, "it does not end: {}", self.log());
            thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads an answer to its end: status and body.
pub(crate) fn answer(stream: &mut TcpStream) -> (u16, String) {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let status = text.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.unwrap_or_else(|| panic!("no answer: {text:?}"));
    let (_, body) = text.split_once("\r\n\r\n").unwrap();
    (status, body.to_owned())
}

/// The form in which gpg uploads.
pub(crate) fn form(cert: &Cert) -> String {
    let mut out = String::from("keytext=");
    for byte in enarmor(cert.as_bytes()).bytes() {
        match byte {
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => out.push(byte.into()),
            _ => write!(out, "%{byte:02X}").unwrap(),
        }
    }
    out
}
