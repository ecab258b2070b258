//! Exchanges with a running SKS in both roles, until both sides have the same certificates.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::peers::Side;
use talaria_cert::{BATCH_BYTES, Cert, Splitter};
use talaria_recon::{
    Digest, Ending, ExchangeOutcome, ExchangeRole, PrefixTree, Settings, decode_hashquery,
    decode_hashreply, encode_hashquery, encode_hashreply,
};

/// Keyrings with certificates that SKS stores unchanged.
const RINGS: [&str; 2] =
    ["/usr/share/keyrings/debian-nonupload.gpg", "/usr/share/keyrings/debian-maintainers.gpg"];

/// The address to which SKS connects: it never connects to its own address.
const OUR_ADDRESS: &str = "127.0.0.2";

/// The time limit for SKS, which gossips every six seconds.
const PATIENCE: Duration = Duration::from_secs(300);

/// Both processes of a server, which end with the test.
struct Sks {
    processes: Vec<Child>,
    hkp_port: u16,
    recon_port: u16,
}

impl Drop for Sks {
    fn drop(&mut self) {
        for process in &mut self.processes {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

#[test]
fn sks_and_talaria_converge() {
    if !RINGS.iter().all(|ring| Path::new(ring).exists()) || Command::new("sks").output().is_err() {
        talaria_needs::left_out("sks or debian-keyring");
        return;
    }
    let certs: Vec<(Digest, Vec<u8>)> = certs().into_iter().collect();
    assert!(certs.len() > 200, "{} certificates are too few", certs.len());
    // SKS lacks the last forty, we the first thirty.
    let (theirs, only_ours) = certs.split_at(certs.len() - 40);
    let (only_theirs, ours) = certs.split_at(30);
    let digests = |certs: &[(Digest, Vec<u8>)]| certs.iter().map(|(d, _)| *d).collect::<Vec<_>>();
    let mut tree = PrefixTree::build(digests(ours));

    let folder = tempfile::tempdir().unwrap();
    let listen = |address| TcpListener::bind((address, 0)).unwrap();
    let (recon, http) = (listen(OUR_ADDRESS), listen("127.0.0.1"));
    for listener in [&recon, &http] {
        listener.set_nonblocking(true).unwrap();
    }
    let settings = Settings { http_port: http.local_addr().unwrap().port(), ..Settings::default() };
    let sks = start(folder.path(), theirs, recon.local_addr().unwrap().port());

    // We connect and answer.
    let outcome = connect(&sks, &settings, &tree);
    assert_eq!(outcome.wanted, digests(only_theirs));
    assert_eq!((outcome.ending, outcome.peer_http_port), (Ending::Complete, sks.hkp_port));

    // SKS fetches its missing certificates.
    let mut asked = serve(&http, &certs);
    asked.sort();
    assert_eq!(asked, digests(only_ours));

    // We accept a connection and send requests, after we lost some more certificates.
    assert_eq!(tree.remove_many(digests(&ours[..25])), 25);
    let deadline = Instant::now() + PATIENCE;
    let outcome = loop {
        let Some(outcome) =
            talk(accept(&recon, deadline), ExchangeRole::Acceptor, &settings, &tree)
        else {
            continue;
        };
        // SKS connects again while it still stores the fetched certificates.
        if outcome.ending == Ending::Complete && outcome.wanted.len() == 55 {
            break outcome;
        }
        assert!(Instant::now() < deadline, "{outcome:?}");
    };
    assert_eq!(outcome.wanted, digests(&certs[..55]));
    let fetched = fetch(&sks, &outcome.wanted);
    assert_eq!(fetched, outcome.wanted);
    tree.insert_many(fetched);

    // Now both sets are equal.
    let deadline = Instant::now() + PATIENCE;
    loop {
        let outcome = connect(&sks, &settings, &tree);
        assert_eq!(outcome.wanted, []);
        if outcome.requests == 1 {
            break;
        }
        assert!(Instant::now() < deadline, "{outcome:?}");
    }
}

/// All certificates of the rings.
fn certs() -> BTreeMap<Digest, Vec<u8>> {
    let mut certs = BTreeMap::new();
    for ring in RINGS {
        let mut splitter = Splitter::new(fs::File::open(ring).unwrap(), BATCH_BYTES);
        while let Some(batch) = splitter.next_batch().unwrap() {
            for (_, raw) in batch.certs() {
                let digest = Cert::parse(raw).unwrap().sks_digest();
                certs.insert(Digest(digest), raw.to_vec());
            }
        }
    }
    certs
}

/// Builds and starts a server with these certificates and us as its only peer.
fn start(base: &Path, certs: &[(Digest, Vec<u8>)], peer_port: u16) -> Sks {
    for part in [
        "etc/sks",
        "var/lib/sks/dump",
        "var/lib/sks/www",
        "var/log/sks",
        "var/run/sks",
        "var/spool/sks/messages",
        "var/spool/sks/failed_messages",
    ] {
        fs::create_dir_all(base.join(part)).unwrap();
    }
    let port = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (hkp_port, recon_port) = (port(), port());
    let configuration = format!(
        "hostname: localhost\nnodename: test\nhkp_address: 127.0.0.1\nhkp_port: {hkp_port}\n\
         recon_address: 127.0.0.1\nrecon_port: {recon_port}\npagesize: 16\nptree_pagesize: 16\n\
         disable_mailsync:\ngossip_interval: 0.1\nmembership_reload_interval: 0.01\n\
         debuglevel: 6\n"
    );
    fs::write(base.join("etc/sks/sksconf"), configuration).unwrap();
    // We connect from the first.
    let membership = format!("127.0.0.1 {peer_port}\n{OUR_ADDRESS} {peer_port}\n");
    fs::write(base.join("etc/sks/membership"), membership).unwrap();
    let dump = base.join("var/lib/sks/dump/0.pgp");
    fs::write(&dump, certs.iter().flat_map(|(_, raw)| raw).copied().collect::<Vec<_>>()).unwrap();
    let sks = |arguments: &[&str]| {
        let mut sks = Command::new("sks");
        sks.args(arguments).arg("-basedir").arg(base).stdout(Stdio::null()).stderr(Stdio::null());
        sks
    };
    let build = ["build", dump.to_str().unwrap(), "-n", "10", "-cache", "50"];
    let tree = ["pbuild", "-cache", "20", "-ptree_cache", "70"];
    for arguments in [&build[..], &["cleandb"], &tree] {
        assert!(sks(arguments).status().unwrap().success(), "{arguments:?}");
    }
    let mut processes = vec![sks(&["db"]).spawn().unwrap()];
    // `sks recon` ends if it starts before `sks db` answers.
    let deadline = Instant::now() + PATIENCE;
    while TcpStream::connect(("127.0.0.1", hkp_port)).is_err() {
        assert!(Instant::now() < deadline, "SKS does not start");
        thread::sleep(Duration::from_millis(100));
    }
    processes.push(sks(&["recon"]).spawn().unwrap());
    Sks { processes, hkp_port, recon_port }
}

/// One exchange as the initiator, as soon as SKS accepts.
fn connect(sks: &Sks, settings: &Settings, tree: &PrefixTree) -> ExchangeOutcome {
    let deadline = Instant::now() + PATIENCE;
    loop {
        assert!(Instant::now() < deadline, "SKS does not talk");
        // While it fetches or starts, it does not listen or closes at once.
        if let Ok(stream) = TcpStream::connect(("127.0.0.1", sks.recon_port))
            && let Some(outcome) = talk(stream, ExchangeRole::Initiator, settings, tree)
            && outcome.ending == Ending::Complete
        {
            return outcome;
        }
        thread::sleep(Duration::from_millis(200));
    }
}

fn accept(listener: &TcpListener, deadline: Instant) -> TcpStream {
    loop {
        if let Ok((stream, _)) = listener.accept() {
            stream.set_nonblocking(false).unwrap();
            return stream;
        }
        assert!(Instant::now() < deadline, "SKS does not connect");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Runs an exchange over a connection; an error of the connection is its end.
fn talk(
    mut stream: TcpStream,
    role: ExchangeRole,
    settings: &Settings,
    tree: &PrefixTree,
) -> Option<ExchangeOutcome> {
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut side = Side::new(role, settings.clone(), 1);
    let mut buffer = vec![0; 4096];
    loop {
        if stream.write_all(&side.outbox.take_due()).is_err() || side.is_done() {
            return side.outcome();
        }
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return side.outcome(),
            Ok(len) => side.receive(&buffer[..len], tree).unwrap(),
        }
    }
}

/// Answers one query for certificates, and returns the requested digests.
fn serve(http: &TcpListener, certs: &[(Digest, Vec<u8>)]) -> Vec<Digest> {
    let mut stream = accept(http, Instant::now() + PATIENCE);
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let (mut request, mut buffer) = (Vec::new(), [0; 4096]);
    let asked = loop {
        let len = stream.read(&mut buffer).unwrap();
        assert_ne!(len, 0, "{}", String::from_utf8_lossy(&request));
        request.extend(&buffer[..len]);
        let body = request.windows(4).position(|end| end == b"\r\n\r\n");
        if let Some(asked) = body.and_then(|at| decode_hashquery(&request[at + 4..]).ok()) {
            break asked;
        }
    };
    assert!(request.starts_with(b"POST /pks/hashquery "));
    let found: Vec<&Vec<u8>> =
        certs.iter().filter(|(digest, _)| asked.contains(digest)).map(|(_, raw)| raw).collect();
    let body = encode_hashreply(&found);
    write!(
        stream,
        "HTTP/1.0 200 OK\r\nContent-Type: pgp/keys\r\nContent-Length: {}\r\n\r\n",
        body.len()
    )
    .unwrap();
    stream.write_all(&body).unwrap();
    asked
}

/// Fetches certificates from SKS; returns their digests as we compute them, in order.
fn fetch(sks: &Sks, digests: &[Digest]) -> Vec<Digest> {
    let body = encode_hashquery(digests);
    let mut stream = TcpStream::connect(("127.0.0.1", sks.hkp_port)).unwrap();
    write!(stream, "POST /pks/hashquery HTTP/1.0\r\ncontent-length: {}\r\n\r\n", body.len())
        .unwrap();
    stream.write_all(&body).unwrap();
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).unwrap();
    let body = reply.windows(4).position(|end| end == b"\r\n\r\n").unwrap() + 4;
    let certs = decode_hashreply(&reply[body..], digests.len()).unwrap();
    let mut digests: Vec<_> =
        certs.iter().map(|raw| Digest(Cert::parse(raw).unwrap().sks_digest())).collect();
    digests.sort();
    digests
}
