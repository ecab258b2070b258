//! The server as a process, with the clients that people use.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::program::{Program, Serving, answer, corpus, form};
use talaria::cert::Cert;
use talaria_needs::free_port;

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn has(program: &str) -> bool {
    talaria_needs::peer(program).is_some()
}

/// A GnuPG home with its own daemons, which stop when it is dropped.
struct Gpg {
    home: PathBuf,
    keyserver: String,
}

impl Gpg {
    /// `None` with a notice if there is no gpg or no dirmngr.
    fn new(program: &Program, name: &str, server: &Serving) -> Option<Self> {
        if !has("gpg") || !has("dirmngr") {
            return None;
        }
        let home = program.path(name);
        fs::create_dir(&home).unwrap();
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        fs::set_permissions(&home, private).unwrap();
        Some(Self { home, keyserver: server.keyserver() })
    }

    fn run(&self, args: &[&str]) -> Output {
        Command::new("gpg")
            .args(["--homedir", text(&self.home), "--batch", "--no-auto-check-trustdb"])
            .args(["--pinentry-mode", "loopback", "--passphrase", ""])
            .args(["--keyserver", &self.keyserver])
            .args(args)
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    fn ok(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// The first record of a kind in the listing of a certificate.
    fn record(&self, kind: &str, name: &str) -> Vec<String> {
        let listing = self.ok(&["--with-colons", "--list-keys", name]);
        let line = listing.lines().find(|line| line.starts_with(&format!("{kind}:")));
        line.unwrap().split(':').map(str::to_owned).collect()
    }
}

impl Drop for Gpg {
    fn drop(&mut self) {
        let _ =
            Command::new("gpgconf").args(["--homedir", text(&self.home), "--kill", "all"]).output();
    }
}

#[test]
fn gpg_receives_searches_sends_and_refreshes() {
    let program = Program::new();
    let all = corpus(5);
    let ring = program.ring("ring.pgp", &all);
    program.ok(&["import", text(&ring)]);
    let server = Serving::start(&program, &[]);
    let Some(alice) = Gpg::new(&program, "alice", &server) else { return };
    let Some(bob) = Gpg::new(&program, "bob", &server) else { return };

    let fingerprint = all[0].fingerprint().to_string();
    bob.ok(&["--recv-keys", &fingerprint]);
    assert_eq!(bob.record("fpr", &fingerprint)[9], fingerprint);

    let mail = "alice@keys.example.net";
    alice.ok(&["--quick-generate-key", &format!("Alice <{mail}>"), "ed25519", "sign", "never"]);
    let fingerprint = alice.record("fpr", mail)[9].clone();
    alice.ok(&["--send-keys", &fingerprint]);
    let found = bob.ok(&["--with-colons", "--search-keys", mail]);
    assert!(found.contains(&format!("pub:{fingerprint}:22:")), "{found}");
    assert!(found.contains("uid:Alice <alice@keys.example.net>:"), "{found}");
    bob.ok(&["--recv-keys", &fingerprint]);
    assert_ne!(bob.record("pub", mail)[1], "r");

    // The revocation that gpg keeps beside a key; a colon prevents an accidental import.
    let revocation = alice.home.join(format!("openpgp-revocs.d/{fingerprint}.rev"));
    let armored = fs::read_to_string(&revocation).unwrap().replace(":-----BEGIN", "-----BEGIN");
    fs::write(&revocation, armored).unwrap();
    alice.ok(&["--import", text(&revocation)]);
    alice.ok(&["--send-keys", &fingerprint]);
    bob.ok(&["--refresh-keys"]);
    assert_eq!(bob.record("pub", mail)[1], "r", "{}", server.log());

    let nobody = bob.run(&["--recv-keys", &"0123456789".repeat(4)]);
    let said = String::from_utf8_lossy(&nobody.stderr).into_owned();
    assert!(!nobody.status.success() && said.contains("No data"), "{said}");
    drop(server);
    program.assert_clean();
}

#[test]
fn a_certificate_that_the_server_lacks_is_not_found() {
    let program = Program::new();
    program.ok(&["import", text(&program.ring("ring.pgp", &corpus(1)))]);
    let server = Serving::start(&program, &[]);
    let url = server.keyserver();
    let said = program.fails(&["import", "--keyserver", &url, "nobody@keys.example.net"], 1);
    assert!(said.contains("no such certificate") && said.contains("Ask the owner"), "{said}");
}

#[test]
fn sq_gets_and_sends() {
    if !has("sq") {
        return;
    }
    let program = Program::new();
    let all = corpus(4);
    let ring = program.ring("ring.pgp", &all[..3]);
    program.ok(&["import", text(&ring)]);
    let server = Serving::start(&program, &[]);
    let sq = |args: &[&str]| {
        let keyserver = server.keyserver();
        let fixed = ["keyserver", "-p", "insecure", "-s", &keyserver];
        Command::new("sq").args(fixed).args(args).output().unwrap()
    };
    let got = sq(&["get", "-B", &all[1].fingerprint().to_string()]);
    assert!(got.status.success(), "{got:?}");
    assert_eq!(Cert::parse(&got.stdout).unwrap().fingerprint(), all[1].fingerprint());
    let one = program.ring("one.pgp", &all[3..]);
    let sent = sq(&["send", text(&one)]);
    assert!(sent.status.success(), "{sent:?}");
    assert!(server.finds(&all[3]));
}

#[test]
fn the_server_shows_changes_by_commands_at_once() {
    let program = Program::new();
    let all = corpus(6);
    let server = Serving::start(&program, &[]);
    assert!(!server.finds(&all[0]));
    let ring = program.ring("ring.pgp", &all);
    program.ok(&["import", text(&ring)]);
    assert!(all.iter().all(|cert| server.finds(cert)));
    let [first, second] = [0, 1].map(|at| all[at].fingerprint().to_string());
    program.ok(&["admin", "delete", &first]);
    program.ok(&["admin", "block", &second]);
    assert!(!server.finds(&all[0]) && !server.finds(&all[1]));
    assert_eq!(server.add(&all[0]).0, 200);
    server.add(&all[1]);
    assert!(server.finds(&all[0]), "it was only deleted");
    assert!(!server.finds(&all[1]), "it is blocked");
    program.ok(&["admin", "unblock", &second]);
    server.add(&all[1]);
    assert!(server.finds(&all[1]));
    let search = "/pks/lookup?op=index&options=mr&search=example";
    let count = |body: String| body.lines().next().unwrap().to_owned();
    assert_eq!(count(server.get(search).1), "info:1:6");
    program.ok(&["admin", "redact", &first, "--all"]);
    assert_eq!(count(server.get(search).1), "info:1:5");
    program.ok(&["admin", "reindex"]);
    assert_eq!(count(server.get(search).1), "info:1:5");
    program.assert_clean();
}

#[test]
fn sighup_reloads_settings_and_bad_settings_change_nothing() {
    let program = Program::new();
    let all = corpus(3);
    let config = program.path("server.toml");
    let write = |text: &str| fs::write(&config, text).unwrap();
    write("[policy]\nuploads = true\n");
    let mut server = Serving::start(&program, &["--config", text(&config)]);
    assert_eq!(server.add(&all[0]).0, 200);
    write("[policy]\nuploads = false\n");
    server.signal("HUP");
    server.says("reloaded the settings");
    assert_ne!(server.add(&all[1]).0, 200);
    assert!(!server.finds(&all[1]) && server.finds(&all[0]));
    write("[policy]\nuploads = true\nresutls = 5\n");
    server.signal("HUP");
    server.says("cannot reload the settings; the old settings stay in force");
    server.says("resutls");
    assert_ne!(server.add(&all[1]).0, 200);
    write("");
    server.signal("HUP");
    let started = Instant::now();
    while server.add(&all[1]).0 != 200 {
        assert!(started.elapsed() < Duration::from_secs(30), "{}", server.log());
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn shutdown_finishes_open_requests() {
    let program = Program::new();
    let all = corpus(2);
    let mut server = Serving::start(&program, &[]);
    assert_eq!(server.add(&all[0]).0, 200);
    let body = form(&all[1]);
    let mut open = TcpStream::connect(server.address).unwrap();
    let head = format!(
        "POST /pks/add HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nexpect: 100-continue\r\n\
         content-type: application/x-www-form-urlencoded\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    open.write_all(head.as_bytes()).unwrap();
    // The server asks for the body, so it is reading the request when the signal arrives.
    let mut ready = [0; 25];
    open.read_exact(&mut ready).unwrap();
    assert_eq!(&ready, b"HTTP/1.1 100 Continue\r\n\r\n");
    open.write_all(&body.as_bytes()[..50]).unwrap();
    server.signal("TERM");
    server.says("shutting down");
    let started = Instant::now();
    while TcpStream::connect(server.address).is_ok() {
        assert!(started.elapsed() < Duration::from_secs(5), "new connections are taken");
        thread::sleep(Duration::from_millis(10));
    }
    open.write_all(&body.as_bytes()[50..]).unwrap();
    assert_eq!(answer(&mut open).0, 200);
    assert!(server.wait().success());
    assert_eq!(program.contents().len(), 2, "what was acknowledged is there");
    program.assert_clean();
}

/// A client that keeps its connection open does not keep the server from ending.
#[test]
fn idle_clients_do_not_delay_the_end() {
    let program = Program::new();
    let mut server = Serving::start(&program, &[]);
    let mut idle = TcpStream::connect(server.address).unwrap();
    idle.write_all(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    let mut begun = [0; 12];
    idle.read_exact(&mut begun).unwrap();
    assert_eq!(&begun, b"HTTP/1.1 200");
    server.signal("TERM");
    let started = Instant::now();
    assert!(server.wait().success());
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    drop(idle);
    program.assert_clean();
}

#[test]
fn a_server_that_cannot_start_names_the_cause() {
    let program = Program::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for option in ["--listen", "--gossip"] {
        let args = match option {
            "--listen" => vec!["serve", "--listen", &address],
            _ => vec!["serve", "--listen", "127.0.0.1:0", "--gossip", &address],
        };
        let said = program.fails(&args, 5);
        assert!(
            said.contains(&format!("cannot listen on {address}: Address already in use")),
            "{said}"
        );
        assert!(said.contains("Another program listens on"), "{said}");
    }
    let config = program.path("server.toml");
    fs::write(&config, "[gossip]\ninterval_s = 0.0\n").unwrap();
    let said = program.fails(&["serve", "--config", text(&config)], 3);
    assert!(said.contains("server.toml, line 2: gossip.interval_s: it must be"), "{said}");
    assert!(said.contains("docs/server.toml has all settings"), "{said}");
    fs::write(&config, "[http]\ntls_certificate = \"/no/c\"\ntls_key = \"/no/k\"\n").unwrap();
    let said = program.fails(&["serve", "--listen", "127.0.0.1:0", "--config", text(&config)], 5);
    assert!(said.contains("cannot set up TLS: /no/c"), "{said}");
    program.fails(&["serve", "--config", "/no/such/file"], 3);
    program.fails(&["serve", "--listen", "localhost"], 2);
    let foreign = program.path("foreign.db");
    fs::write(&foreign, "not a store").unwrap();
    let said = program.with_store(foreign).fails(&["serve", "--listen", "127.0.0.1:0"], 4);
    assert!(said.contains("is not a talaria store"), "{said}");
}

#[test]
fn the_settings_in_force_are_shown_and_can_be_read_back() {
    let program = Program::new();
    let shown = program.ok(&["serve", "--show-config", "--listen", "[::]:80"]);
    assert!(shown.contains("[http]\nlisten = [\"[::]:80\"]\n"), "{shown}");
    let config = program.path("server.toml");
    fs::write(&config, &shown).unwrap();
    assert_eq!(program.ok(&["serve", "--show-config", "--config", text(&config)]), shown);
    assert!(!program.store().exists(), "nothing is made");
}

#[test]
fn several_servers_run_on_one_store() {
    let program = Program::new();
    let all = corpus(60);
    let servers = [Serving::start(&program, &[]), Serving::start(&program, &[])];
    thread::scope(|scope| {
        for (server, part) in servers.iter().zip(all.chunks(30)) {
            scope.spawn(move || part.iter().for_each(|cert| assert_eq!(server.add(cert).0, 200)));
        }
    });
    assert!(servers.iter().all(|server| all.iter().all(|cert| server.finds(cert))));
    drop(servers);
    assert_eq!(program.contents().len(), 60);
    program.assert_clean();
}

#[test]
fn backups_and_dumps_during_uploads_are_consistent() {
    let program = Program::new();
    let all = corpus(300);
    let ring = program.ring("ring.pgp", &all[..100]);
    program.ok(&["import", text(&ring)]);
    let server = Serving::start(&program, &[]);
    let (backup, dump) = (program.path("backup.db"), program.path("dump"));
    let stop = AtomicBool::new(false);
    let uploaded = thread::scope(|scope| {
        let uploads: Vec<_> = all[100..]
            .chunks(100)
            .map(|part| {
                let (server, stop) = (&server, &stop);
                scope.spawn(move || {
                    let mut count = 0;
                    for cert in part.iter().take_while(|_| !stop.load(Ordering::Relaxed)) {
                        assert_eq!(server.add(cert).0, 200);
                        count += 1;
                    }
                    count
                })
            })
            .collect();
        program.ok(&["admin", "backup", text(&backup)]);
        program.ok(&["dump", text(&dump), "--certs-per-file", "40"]);
        program.ok(&["dump", text(&dump), "--incremental"]);
        stop.store(true, Ordering::Relaxed);
        uploads.into_iter().map(|upload| upload.join().unwrap()).sum::<usize>()
    });
    assert!(uploaded > 0, "nothing was uploaded meanwhile");
    program.ok(&["dump", text(&dump), "--incremental"]);
    let whole = program.contents();
    assert_eq!(whole.len(), 100 + uploaded);
    let built = Program::new();
    built.ok(&["build", text(&dump)]);
    assert_eq!(built.contents(), whole);
    built.assert_clean();
    drop(server);
    program.assert_clean();
    let copy = program.with_store(backup);
    copy.assert_clean();
    let held = copy.contents();
    assert!((100..=whole.len()).contains(&held.len()));
    assert!(held.iter().all(|(fingerprint, cert)| whole.get(fingerprint) == Some(cert)));
}

/// The messages that systemd gets with `Type=notify`.
#[test]
fn the_service_manager_is_told_the_state_of_the_server() {
    let program = Program::new();
    let path = program.path("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let next = || {
        let mut buffer = [0; 256];
        let n = socket.recv(&mut buffer).unwrap();
        String::from_utf8(buffer[..n].to_vec()).unwrap()
    };
    let free = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let listen = free.to_string();
    let mut command = program.command(&["serve", "--listen", &listen]);
    let child = command.env("NOTIFY_SOCKET", &path).stderr(Stdio::null()).spawn().unwrap();
    assert_eq!(next(), "READY=1");
    // It listens when it says so.
    assert_eq!(TcpStream::connect(free).map(|_| ()).map_err(|error| error.kind()), Ok(()));
    let mut server = Serving::of_child(child, free);
    assert_eq!(next(), "WATCHDOG=1");
    server.signal("TERM");
    while next() != "STOPPING=1" {}
    assert!(server.wait().success());
}

/// The unit file, with the program and the user replaced by ones that exist.
#[test]
fn the_unit_file_is_valid_and_limits_the_service() {
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/talaria.service");
    let unit = fs::read_to_string(unit).unwrap();
    let wanted = ["Type=notify", "MemoryMax=2G", "TasksMax=1024", "WatchdogSec=60"];
    for line in wanted.into_iter().chain(["SystemCallFilter=setpriority"]) {
        assert!(unit.lines().any(|found| found == line), "{line}");
    }
    if Command::new("systemd-analyze").arg("--version").output().is_err() {
        talaria_needs::left_out("systemd-analyze");
        return;
    }
    let program = Program::new();
    let file = program.path("talaria.service");
    let replaced = unit
        .replace("/usr/bin/talaria", "/bin/true")
        .replace("=talaria\n", "=daemon\n")
        .replace("#LoadCredential", "LoadCredential");
    fs::write(&file, replaced).unwrap();
    let output = Command::new("systemd-analyze").args(["verify", text(&file)]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    // It looks at the other units of the machine, too.
    let ours: Vec<&str> = said.lines().filter(|line| line.contains("talaria.service")).collect();
    assert!(output.status.success() && ours.is_empty(), "{said}");
}
