//! A server in a process of its own, so that its memory is not that of the test, and its log can be
//! read.

use std::fs;
use std::io::Read as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use talaria_server::{Config, Server, start_log};

use super::wait_for;

/// The variable with the folder of the server: its store and its settings, and, once it listens,
/// its addresses.
const FOLDER: &str = "TALARIA_SITE";

/// The process. It ends when its standard input does.
pub(crate) struct Apart {
    child: Child,
    log: PathBuf,
}

/// The addresses of a server: for clients, operators, and peers if it gossips.
pub(super) struct Addresses {
    pub(super) http: SocketAddr,
    pub(super) operator: SocketAddr,
    pub(super) gossip: Option<SocketAddr>,
}

impl Addresses {
    /// A server on all addresses is reached at one of them.
    pub(super) fn of(server: &Server) -> Self {
        let local = |address: SocketAddr| {
            let is_any = address.ip().is_unspecified();
            if is_any { SocketAddr::from(([127, 0, 0, 1], address.port())) } else { address }
        };
        Self {
            http: local(server.addresses()[0]),
            operator: server.operator_addresses()[0],
            gossip: server.gossip_addresses().first().copied().map(local),
        }
    }

    fn write(&self, folder: &Path) {
        let all = [Some(self.http), Some(self.operator), self.gossip];
        let lines: String = all.iter().flatten().map(|address| format!("{address}\n")).collect();
        fs::write(folder.join("addresses.new"), lines).unwrap();
        fs::rename(folder.join("addresses.new"), folder.join("addresses")).unwrap();
    }

    fn read(folder: &Path) -> Self {
        let text = fs::read_to_string(folder.join("addresses")).unwrap();
        let mut all = text.lines().map(|line| line.parse().unwrap());
        Self { http: all.next().unwrap(), operator: all.next().unwrap(), gossip: all.next() }
    }
}

impl Apart {
    /// Starts a server on the store in a folder.
    pub(super) fn start(folder: &Path, config: &Config) -> (Self, Addresses) {
        fs::write(folder.join("server.toml"), config.to_toml()).unwrap();
        // Of a server before.
        let _ = fs::remove_file(folder.join("addresses"));
        let log = folder.join("log");
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "site::apart::serve", "--ignored", "--nocapture"])
            .env(FOLDER, folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(fs::File::create(&log).unwrap())
            .spawn()
            .unwrap();
        wait_for("the server listens", || {
            assert_eq!(child.try_wait().unwrap(), None, "{}", fs::read_to_string(&log).unwrap());
            folder.join("addresses").exists()
        });
        (Self { child, log }, Addresses::read(folder))
    }

    fn proc(&self, file: &str) -> PathBuf {
        Path::new("/proc").join(self.child.id().to_string()).join(file)
    }

    /// Bytes in a line of the status of the process.
    fn status(&self, name: &str) -> u64 {
        let text = fs::read_to_string(self.proc("status")).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim_start_matches(':').trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap()
            << 10
    }

    /// Its memory now.
    pub(crate) fn resident(&self) -> u64 {
        self.status("VmRSS")
    }

    /// The most memory that it had since [`Self::forget_peak`].
    pub(crate) fn peak(&self) -> u64 {
        self.status("VmHWM")
    }

    pub(crate) fn forget_peak(&self) {
        fs::write(self.proc("clear_refs"), "5").unwrap();
    }

    /// The CPU time that it has used.
    pub(crate) fn cpu(&self) -> Duration {
        let text = fs::read_to_string(self.proc("stat")).unwrap();
        // Behind the name of the program: 11 other fields, then user and system time in ticks of
        // 10 ms.
        let fields = text.rsplit_once(") ").unwrap().1.split(' ').skip(11).take(2);
        Duration::from_millis(fields.map(|ticks| 10 * ticks.parse::<u64>().unwrap()).sum())
    }

    /// All lines of the log.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    /// Asks the server to read its settings again.
    pub(crate) fn hang_up(&self) {
        kill_process(Pid::from_child(&self.child), Signal::HUP).unwrap();
    }

    pub(super) fn end(&mut self) {
        drop(self.child.stdin.take());
        let ended = self.child.wait().unwrap();
        if !thread::panicking() {
            assert!(ended.success(), "{ended}: {}", self.log());
        }
    }
}

#[test]
#[ignore = "a server that other tests start in a process of its own"]
fn serve() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    let path = folder.join("server.toml");
    let config = Config::read(&path).unwrap();
    let _log = start_log(&config.log);
    let server = Server::start(&folder.join("certs.db"), config, Some(path)).unwrap();
    Addresses::of(&server).write(&folder);
    let handle = server.handle();
    thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        handle.shut_down();
    });
    server.run().unwrap();
}
