//! A server as a child process: started, asked what it costs, ended with the measurement.

use std::fmt::Display;
use std::fs::{self, File};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use talaria_cert::Cert;

use super::client::{Client, Reply};
use super::figures::float;
use crate::error::BenchError;
use crate::measure::{memory, process_cpu_s};

/// The time limit until a server answers.
const PATIENCE: Duration = Duration::from_secs(120);

/// A server that runs. It is killed when this is dropped: its data are not needed any more.
pub(super) struct Server {
    pub(super) name: &'static str,
    pub(super) address: SocketAddr,
    /// Where talaria answers operators.
    operator: Option<SocketAddr>,
    /// The one that answers is the first.
    processes: Vec<Child>,
    log: PathBuf,
    started: Instant,
    /// Seconds from its start to its first answer.
    pub(super) ready_s: f64,
}

impl Server {
    /// Starts a server process for an address. Its output goes to `log`.
    pub(super) fn start(
        name: &'static str,
        command: Command,
        address: SocketAddr,
        log: &Path,
    ) -> Result<Self, BenchError> {
        let mut server = Self {
            name,
            address,
            operator: None,
            processes: Vec::new(),
            log: log.to_owned(),
            started: Instant::now(),
            ready_s: 0.0,
        };
        fs::write(log, "").map_err(BenchError::io("write", log))?;
        server.also(command)?;
        Ok(server)
    }

    /// Starts another process of the same server.
    pub(super) fn also(&mut self, mut command: Command) -> Result<(), BenchError> {
        let log = File::options().append(true).open(&self.log);
        let log = log.map_err(BenchError::io("open", &self.log))?;
        let other = log.try_clone().map_err(BenchError::io("open", &self.log))?;
        command.stdin(Stdio::null()).stdout(other).stderr(log).env_remove("TALARIA_STORE");
        let program = command.get_program().to_string_lossy().into_owned();
        let child = command.spawn().map_err(|source| BenchError::Start { program, source })?;
        self.processes.push(child);
        Ok(())
    }

    /// Waits until it answers.
    pub(super) fn wait(&mut self) -> Result<(), BenchError> {
        // "Not found" is an answer, too.
        let path = "/pks/lookup?op=get&options=mr&search=0x0000000000000000";
        loop {
            let reply = Client::new(self.address).get(path);
            if reply.is_ok() {
                self.ready_s = self.started.elapsed().as_secs_f64();
                return Ok(());
            }
            let ended = self
                .processes
                .iter_mut()
                .any(|process| matches!(process.try_wait(), Ok(Some(_)) | Err(_)));
            if ended || self.started.elapsed() > PATIENCE {
                let said = self.said();
                let said = said.lines().next_back().unwrap_or_default();
                return Err(self.silent(&said));
            }
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// The content of its log.
    pub(super) fn said(&self) -> String {
        fs::read(&self.log).map_or(String::new(), |log| String::from_utf8_lossy(&log).into_owned())
    }

    pub(super) fn silent(&self, said: &dyn Display) -> BenchError {
        let server = format!("{} at {}", self.name, self.address);
        BenchError::Silent { server, said: said.to_string() }
    }

    /// An answer that is not as it has to be.
    pub(super) fn wrong(&self, request: &str, reply: &Reply) -> BenchError {
        BenchError::Answer {
            server: self.name.to_owned(),
            request: request.to_owned(),
            status: reply.status,
            said: reply.text().chars().take(300).collect(),
        }
    }

    /// CPU seconds that each of its processes has used.
    pub(super) fn cpu_s(&self) -> Vec<f64> {
        let folder = |child: &Child| PathBuf::from(format!("/proc/{}", child.id()));
        self.processes.iter().map(|child| process_cpu_s(&folder(child)).unwrap_or(0.0)).collect()
    }

    /// CPU seconds that all of it has used.
    pub(super) fn cpu_all_s(&self) -> f64 {
        self.cpu_s().iter().sum()
    }

    /// Bytes of memory that each of its processes has.
    pub(super) fn resident_bytes(&self) -> Vec<f64> {
        let bytes = |child: &Child| float(memory(child.id(), "VmRSS:").unwrap_or(0));
        self.processes.iter().map(bytes).collect()
    }

    /// Memory in bytes that is not backed by files.
    pub(super) fn anonymous_bytes(&self) -> f64 {
        let bytes = |child: &Child| float(memory(child.id(), "RssAnon:").unwrap_or(0));
        self.processes.iter().map(bytes).sum()
    }

    /// A figure of talaria's metrics.
    pub(super) fn metric(&self, name: &str) -> Result<f64, BenchError> {
        let operator = self.operator.unwrap_or(self.address);
        let reply = Client::new(operator).get("/metrics").map_err(|error| self.silent(&error))?;
        let name = format!("talaria_{name} ");
        let text = reply.text();
        let line = text.lines().find_map(|line| line.strip_prefix(&name));
        line.and_then(|value| value.trim().parse().ok())
            .ok_or_else(|| self.wrong("/metrics", &reply))
    }

    /// Whether the server has a certificate.
    pub(super) fn finds(&self, client: &mut Client, cert: &Cert) -> Result<bool, BenchError> {
        let path = lookup_path(cert);
        let reply = client.get(&path).map_err(|error| self.silent(&error))?;
        match reply.status {
            404 => Ok(false),
            200 if reply.text().contains("-----BEGIN PGP PUBLIC KEY BLOCK-----") => Ok(true),
            _ => Err(self.wrong(&path, &reply)),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        for process in &mut self.processes {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// The path for a certificate by its fingerprint.
pub(super) fn lookup_path(cert: &Cert) -> String {
    format!("/pks/lookup?op=get&options=mr&search=0x{}", cert.fingerprint())
}

/// A port that nobody has at the moment.
pub(super) fn free_port(address: &str) -> Result<u16, BenchError> {
    let listener = TcpListener::bind((address, 0)).and_then(|listener| listener.local_addr());
    let error = |source| BenchError::Start { program: format!("a server at {address}"), source };
    Ok(listener.map_err(error)?.port())
}

/// Starts `talaria serve` on a store, with further settings, and waits until it answers.
pub(super) fn talaria(
    program: &Path,
    store: &Path,
    port: u16,
    settings: &str,
) -> Result<Server, BenchError> {
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let operator = SocketAddr::from(([127, 0, 0, 1], free_port("127.0.0.1")?));
    let config = store.with_extension("toml");
    // Loopback has no limit of requests as it is.
    let text = format!(
        "[http]\nlisten = [\"{address}\"]\noperator_listen = [\"{operator}\"]\n\
         connections_per_network = 16384\n\n[log]\nformat = \"json\"\n\n{settings}"
    );
    fs::write(&config, text).map_err(BenchError::io("write", &config))?;
    let mut command = Command::new(program);
    command.arg("--quiet").arg("--store").arg(store).arg("serve").arg("--config").arg(&config);
    let log = store.with_extension("log");
    let mut server = Server::start("talaria", command, address, &log)?;
    server.operator = Some(operator);
    server.wait()?;
    Ok(server)
}
