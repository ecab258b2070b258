//! `kill -9` of a keyserver during uploads: every acknowledged upload is stored, and everything
//! derived from it is as if nothing had happened.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::program::{Program, half, operator_settings};
use talaria::cert::{Cert, View};
use talaria::store::{Access, Store};
use talaria_corpus::{CorpusProfile, Generate, certs};
use talaria_needs::free_port;

/// The time limit for the server on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// The number of concurrent uploading clients.
const CLIENTS: usize = 4;

/// The maximum number of uploads before a kill.
const UPLOADS_MAX: usize = 24;

fn start(program: &Program, address: SocketAddr) -> Child {
    let (settings, address_text) = (operator_settings(program), address.to_string());
    let config = ["--config", settings.to_str().unwrap()];
    let child =
        program.command(&[&["-q", "serve", "--listen", &address_text], &config[..]].concat());
    let mut child = { child }.stderr(std::process::Stdio::null()).spawn().unwrap();
    let deadline = Instant::now() + PATIENCE;
    while ask(address, "GET /ready HTTP/1.0\r\n\r\n", b"")
        .is_none_or(|reply| !reply.starts_with("HTTP/1.0 200"))
    {
        assert_eq!(child.try_wait().unwrap(), None, "it ended by itself");
        assert!(Instant::now() < deadline, "it does not start");
        thread::sleep(Duration::from_millis(5));
    }
    child
}

/// The answer, if there was one.
fn ask(address: SocketAddr, head: &str, body: &[u8]) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream.write_all(head.as_bytes()).ok()?;
    stream.write_all(body).ok()?;
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).ok()?;
    Some(String::from_utf8_lossy(&reply).into_owned())
}

/// Whether the upload of a certificate was acknowledged.
fn upload(address: SocketAddr, cert: &Cert) -> bool {
    let bytes = cert.as_bytes();
    let head = format!(
        "POST /pks/v2/certs HTTP/1.0\r\ncontent-type: application/pgp-keys\r\n\
         content-length: {}\r\n\r\n",
        bytes.len()
    );
    // The answer must be complete: it ends with its JSON.
    ask(address, &head, bytes)
        .is_some_and(|reply| reply.starts_with("HTTP/1.0 200") && reply.ends_with('}'))
}

fn metric(address: SocketAddr, name: &str) -> u64 {
    let reply =
        ask(address, "GET /metrics HTTP/1.0\r\nauthorization: Bearer of-a-test\r\n\r\n", b"")
            .unwrap();
    let line = reply.lines().find_map(|line| line.strip_prefix(&format!("talaria_{name} ")));
    line.unwrap_or_else(|| panic!("{reply}")).parse().unwrap()
}

#[test]
fn acknowledged_uploads_survive_a_killed_server() {
    let kills = talaria_needs::short_or_full(40, 200);
    let program = Program::new();
    // Halves of certificates, so that some uploads add certificates and some merge.
    let all = certs(&Generate { seed: 12, first: 0, count: 1500, profile: CorpusProfile::small() });
    let uploads: Vec<Cert> = (0..2).flat_map(|odd| half(&all, odd)).collect();
    let port = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let acknowledged: Arc<Mutex<BTreeSet<usize>>> = Arc::default();
    let next = Arc::new(AtomicUsize::new(0));
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut checked = 0;
    for round in 0..kills {
        let mut server = start(&program, port);
        let already = acknowledged.lock().unwrap().len();
        let dying = Arc::new(AtomicBool::new(false));
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| {
                let (acknowledged, next) = (Arc::clone(&acknowledged), Arc::clone(&next));
                let (dying, uploads) = (Arc::clone(&dying), uploads.clone());
                thread::spawn(move || {
                    while !dying.load(Ordering::SeqCst) {
                        let at = next.fetch_add(1, Ordering::SeqCst) % uploads.len();
                        if !upload(port, &uploads[at]) {
                            // The server is dead.
                            break;
                        }
                        acknowledged.lock().unwrap().insert(at);
                    }
                })
            })
            .collect();
        // Some uploads are acknowledged, others are pending.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let wanted = already + 1 + (state >> 33) as usize % UPLOADS_MAX;
        let deadline = Instant::now() + PATIENCE;
        let all_done = || next.load(Ordering::SeqCst) >= 2 * uploads.len();
        while acknowledged.lock().unwrap().len() < wanted.min(uploads.len()) && !all_done() {
            assert!(Instant::now() < deadline, "round {round}: no uploads");
            thread::sleep(Duration::from_micros(200));
        }
        server.kill().unwrap();
        server.wait().unwrap();
        dying.store(true, Ordering::SeqCst);
        clients.into_iter().for_each(|client| client.join().unwrap());
        // The acknowledged uploads of all rounds must be in the store after the crash.
        let acknowledged = acknowledged.lock().unwrap();
        let store = Store::open(program.store(), Access::Read).unwrap();
        for &at in acknowledged.iter() {
            let sent = uploads[at].exportable();
            let stored = store.get(sent.fingerprint()).unwrap();
            let stored = stored.unwrap_or_else(|| panic!("round {round}: {at} is lost")).cert;
            assert!(stored.union(&sent) == stored, "round {round}: something of {at} is lost");
            checked += 1;
        }
        if round % 20 == 19 {
            drop(store);
            program.assert_clean();
        }
    }
    program.assert_clean();
    // The tree of the next server matches the certificates.
    let mut server = start(&program, port);
    let store = Store::open(program.store(), Access::Read).unwrap();
    let count = store.count().unwrap();
    assert_eq!(metric(port, "certs"), count);
    assert_eq!(metric(port, "digests_sks"), count);
    let mut digests = BTreeSet::new();
    store.digests().for_each(View::Sks, |digest, _| digests.extend([digest])).unwrap();
    let contents = program.contents();
    let computed: BTreeSet<[u8; 16]> = contents.values().map(Cert::sks_digest).collect();
    assert!(digests == computed, "the digests are not those of the certificates");
    let uploaded = acknowledged.lock().unwrap().len();
    println!("{kills} killed, {uploaded} uploads acknowledged, looked for {checked} times");
    assert!(uploaded >= kills.min(uploads.len()));
    server.kill().unwrap();
    server.wait().unwrap();
}

/// Locks on a file, as the system lists them. While other processes lock and unlock, a list can
/// miss some, so the longest of several lists counts.
fn locks(path: &std::path::Path) -> usize {
    let inode = format!(":{} ", std::fs::metadata(path).unwrap().ino());
    let listed = || std::fs::read_to_string("/proc/locks").unwrap();
    let count = || listed().lines().filter(|line| line.contains(&inode)).count();
    (0..50).map(|_| count()).max().unwrap()
}

/// The pages of the server: those without a link, and all that can be reached from them by links.
/// Of the pages about single certificates and of the results of searches, there is one of each
/// kind.
struct Pages {
    waiting: Vec<String>,
    kinds: BTreeSet<String>,
}

impl Pages {
    fn new(cert: &Cert) -> Self {
        let name = cert.fingerprint();
        let mut pages = Self { waiting: Vec::new(), kinds: BTreeSet::new() };
        for page in [
            "/",
            "/operator",
            "/peers",
            "/metrics",
            "/health",
            "/ready",
            "/pks/health",
            "/suggest?q=bench",
            "/vks/manage",
            "/pks/lookup?op=stats",
            "/pks/lookup?op=stats&options=mr",
            "/pks/lookup?op=index&search=bench",
            "/pks/lookup?op=vindex&options=mr&search=bench",
            "/.well-known/openpgpkey/policy",
        ] {
            pages.add(page);
        }
        pages.add(&format!("/pks/lookup?op=get&search=0x{name}"));
        pages.add(&format!("/pks/v2/certs/by-vfingerprint/04{name}"));
        pages.add(&format!("/vks/v1/by-fingerprint/{name}"));
        pages.add(&format!("/certificate/{name}"));
        pages
    }

    /// Adds a page unless there was one of its kind.
    fn add(&mut self, address: &str) {
        let is_name = |part: &&str| part.len() > 15 && part.bytes().all(|b| b.is_ascii_hexdigit());
        let kind = address.split(['/', '=', '&', '?']).filter(|part| !is_name(part));
        let kind: Vec<&str> = kind.filter(|part| !part.starts_with("0x")).collect();
        if self.kinds.insert(kind.join("/")) {
            self.waiting.push(address.to_owned());
        }
    }

    fn next(&mut self) -> Option<String> {
        self.waiting.pop()
    }

    /// Adds the pages that an answer links to.
    fn follow(&mut self, answer: &str) {
        for link in ["href=\"/", "src=\"/", "action=\"/"] {
            for rest in answer.split(link).skip(1) {
                let (address, _) = rest.split_once('"').unwrap();
                self.add(&format!("/{}", address.replace("&amp;", "&")));
            }
        }
    }
}

/// Debian's SQLite, which is older than that of the server, reads, checkpoints, vacuums and closes
/// the store after every page, and tries to leave the mode with a log. If the server had lost its
/// locks by answering the page, this would remove the log under the running server, and all that is
/// acknowledged later would go with the server.
#[test]
fn another_sqlite_program_costs_no_acknowledged_upload() {
    let program = Program::new();
    let all = certs(&Generate { seed: 3, first: 0, count: 200, profile: CorpusProfile::small() });
    let port = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let mut server = start(&program, port);
    let foreign = |wait_ms: u32, sql: &str| {
        let wait = format!(".timeout {wait_ms}");
        let mut sqlite = Command::new("sqlite3");
        sqlite.args(["-batch", "-cmd", &wait]).arg(program.store()).arg(sql);
        let output = sqlite.output().expect("sqlite3 is installed");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (String::from_utf8(output.stdout).unwrap().trim().to_owned(), said)
    };
    let log = PathBuf::from(format!("{}-wal", program.store().display()));
    let (first, rest) = all.split_first().unwrap();
    assert!(upload(port, first));
    let log_file = std::fs::metadata(&log).unwrap().ino();
    let mut acknowledged = vec![first];
    let mut pages = Pages::new(first);
    let mut rest = rest.iter();
    while let Some(page) = pages.next() {
        let head = format!("GET {page} HTTP/1.0\r\nauthorization: Bearer of-a-test\r\n\r\n");
        let answer = ask(port, &head, b"").unwrap();
        // Addresses of forms take no GET.
        let is_answer = ["200", "400", "404", "405"].contains(&&answer[9..12]);
        assert!(is_answer, "{page}: {answer}");
        pages.follow(&answer);
        assert!(locks(program.store()) > 0, "{page} has dropped the locks of the server");
        let (stored, said) = foreign(60_000, "SELECT count(*) FROM cert");
        assert_eq!((stored, said), (acknowledged.len().to_string(), String::new()), "{page}");
        let (_, said) = foreign(60_000, "PRAGMA wal_checkpoint(TRUNCATE); VACUUM");
        assert_eq!(said, "", "{page}");
        let (mode, said) = foreign(0, "PRAGMA journal_mode = DELETE");
        assert!(said.contains("locked") || mode == "wal", "{page}: {mode} {said}");
        assert_eq!(std::fs::metadata(&log).unwrap().ino(), log_file, "{page}: the log is gone");
        let cert = rest.next().expect("the certificates are enough for all pages");
        assert!(upload(port, cert), "{page}");
        acknowledged.push(cert);
    }
    for kind in ["statistics", "operator", "upload", "certificate"] {
        assert!(pages.kinds.iter().any(|known| known.contains(kind)), "{kind}: {:?}", pages.kinds);
    }
    server.kill().unwrap();
    server.wait().unwrap();
    let store = Store::open(program.store(), Access::Read).unwrap();
    for cert in acknowledged {
        assert!(store.get(cert.fingerprint()).unwrap().is_some(), "{} is lost", cert.fingerprint());
    }
    drop(store);
    program.assert_clean();
}

/// A server whose store gets another file under its name acknowledges nothing that would be gone
/// with the process, and ends.
#[test]
fn a_server_whose_store_is_replaced_ends() {
    let program = Program::new();
    let all = certs(&Generate { count: 12, ..Generate::default() });
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    program.ok(&["import", program.ring("first.pgp", &all[..1]).to_str().unwrap()]);
    let mut server = start(&program, address);
    assert!(all[1..4].iter().all(|cert| upload(address, cert)));
    let store = program.store();
    let moved = program.path("moved.db");
    std::fs::rename(store, &moved).unwrap();
    std::fs::copy(&moved, store).unwrap();
    assert!(!upload(address, &all[4]), "it would be in a file without a name");
    let deadline = Instant::now() + PATIENCE;
    let ended = loop {
        if let Some(status) = server.try_wait().unwrap() {
            break status;
        }
        assert!(Instant::now() < deadline, "the server goes on");
        thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(ended.code(), Some(5));
    // The acknowledged ones are where the log went: with the file that was moved.
    let log = |path: &std::path::Path| PathBuf::from(format!("{}-wal", path.display()));
    if log(store).exists() {
        std::fs::rename(log(store), log(&moved)).unwrap();
    }
    let moved = Store::open(&moved, Access::Read).unwrap();
    for cert in &all[..4] {
        assert!(moved.get(cert.fingerprint()).unwrap().is_some());
    }
    assert!(moved.get(all[4].fingerprint()).unwrap().is_none());
}
