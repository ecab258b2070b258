//! A thousand hostile clients of each kind at once.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use talaria_cert::{Cert, View};
use talaria_recon::Digest;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::clients::{forged, named};
use crate::site::{Site, config, generated, gossiping};
use crate::{MIB, alone, assert_serves, http2, open_files, tls};

/// Clients of each kind.
const EACH: usize = 1000;

/// Memory of both servers together beyond that when idle.
const MEMORY: u64 = 300_000_000;

/// The time in which 99 of 100 look-ups of others are answered, once the hostile clients are there.
const ANSWERED: Duration = Duration::from_millis(100);

/// Connections from one address, which is a network of its own. A network may have 256.
const FROM_ONE: usize = 240;

/// What a hostile client does, once it is connected.
#[derive(Clone)]
pub(crate) enum Kind {
    /// It sends something, reads nothing, and stays.
    Sends(Arc<Vec<u8>>),
    /// It uploads one of these certificates after the other, and waits for each answer.
    Uploads(Arc<Vec<Cert>>),
    /// It sends a byte now and then.
    Drips(Arc<Vec<u8>>),
}

/// Requests on a connection of HTTP/2. The server takes eight at once.
const STREAMS: u32 = 16;

/// The bytes that the system keeps for a hostile client, so that the server notices early that it
/// does not read.
const CLIENT_BUFFER: u32 = 4096;

/// Is a hostile client until the end of the test. `number` is its own among those of its kind.
pub(crate) async fn attack(
    server: SocketAddr,
    from: [u8; 4],
    kind: Kind,
    number: usize,
    begun: &AtomicUsize,
) {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(CLIENT_BUFFER).unwrap();
    socket.bind(SocketAddr::from((from, 0))).unwrap();
    let mut stream = socket.connect(server).await.unwrap();
    match kind {
        Kind::Sends(bytes) => {
            let sends = stream.write_all(&bytes);
            let _ = tokio::time::timeout(Duration::from_secs(5), sends).await;
            begun.fetch_add(1, Ordering::SeqCst);
        }
        Kind::Uploads(certs) => {
            begun.fetch_add(1, Ordering::SeqCst);
            for cert in certs.iter().cycle().skip(number % certs.len()) {
                if upload(&mut stream, cert.as_bytes()).await.is_none() {
                    break;
                }
            }
        }
        Kind::Drips(bytes) => {
            begun.fetch_add(1, Ordering::SeqCst);
            for byte in bytes.iter() {
                let _ = stream.write_all(&[*byte]).await;
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        }
    }
    // It stays, also if the server has closed the connection.
    std::future::pending::<()>().await;
}

/// Uploads a certificate, and reads the start of the answer. `None` at the end of the connection.
async fn upload(stream: &mut TcpStream, raw: &[u8]) -> Option<()> {
    let head = format!(
        "POST /pks/v2/certs HTTP/1.1\r\nhost: x\r\ncontent-type: application/pgp-keys\r\ncontent-length: {}\r\n\r\n",
        raw.len()
    );
    stream.write_all(&[head.as_bytes(), raw].concat()).await.ok()?;
    let read = stream.read(&mut [0; 4096]).await.ok()?;
    (read > 0).then_some(())
}

/// A connection of HTTP/2 with requests for these paths, as many as the server takes at once.
pub(crate) fn reading_nothing(window: u32, paths: &[String]) -> Kind {
    let mut bytes = http2::opening(Some(window));
    for (stream, path) in (0..STREAMS).map(|n| 2 * n + 1).zip(paths.iter().cycle()) {
        bytes.extend(http2::get(stream, path));
    }
    Kind::Sends(Arc::new(bytes))
}

/// A server for the hostile clients, with large certificates of one address; the digests of all
/// certificates.
fn plain(certs: &[Cert]) -> (Site, Vec<Digest>) {
    let mut settings = gossiping();
    settings.gossip.interval_s = 1e6;
    settings.policy.foreign_signatures = 100_000;
    (settings.policy.served_foreign_signatures, settings.policy.own_signatures) = (4000, 100);
    // Nobody has made the signatures of the large certificates.
    settings.policy.third_party = talaria_cert::ThirdParty::All;
    let server = Site::apart(&certs[..1], settings.clone());
    for cert in &certs[1..] {
        assert_eq!(server.offer(&forged(cert, 4000, 900)).status, 200);
    }
    let digests = server.digests(View::Sks).into_iter().map(Digest).collect();
    // Without the memory of these uploads.
    (Site::apart_in(server.stop(), &[], settings), digests)
}

/// What clients do over HTTP without TLS.
fn over_http(large: &Cert, all: &[Digest]) -> Vec<Kind> {
    let sends = |bytes: Vec<u8>| Kind::Sends(Arc::new(bytes));
    let post = |path: &str, length: usize, body: &[u8]| {
        let head = format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n");
        sends([head.as_bytes(), body].concat())
    };
    let get = |path: &str| {
        let head = "HTTP/1.1\r\nhost: x\r\naccept: text/html\r\n\r\n";
        sends(format!("GET {path} {head}").into_bytes())
    };
    let query = talaria_recon::encode_hashquery(all);
    let address = "many@hostile.example";
    let paths = [
        format!("/pks/lookup?op=get&options=mr&search={address}"),
        format!("/pks/v2/index/{address}"),
        format!("/certificate/{}", large.fingerprint()),
    ];
    let uploads = (0..32).map(|n| http2::unfinished(2 * n + 1, "/pks/add", 7000));
    vec![
        post("/pks/hashquery", query.len(), &query),
        // Uploads without an end.
        post("/pks/add", 300_000, &vec![b'a'; 255 << 10]),
        sends([http2::opening(None), uploads.flatten().collect()].concat()),
        // HTTP/2 without requests.
        sends(http2::opening(None)),
        // Large answers, of which nothing is read.
        get(&paths[0]),
        get(&paths[1]),
        get(&paths[2]),
        reading_nothing(65_535, &paths),
        reading_nothing(http2::WIDE, &paths),
        Kind::Uploads(Arc::new(generated(1000).split_off(100))),
    ]
}

/// What peers do, and others at the port for peers.
fn at_the_gossip_port() -> Vec<Kind> {
    let mut greeting = Vec::new();
    talaria_recon::GossipMessage::Config(talaria_recon::PeerConfig {
        version: "1.1.6".into(),
        http_port: 9,
        bit_quantum: 2,
        m_bar: 5,
        filters: View::Sks.filters().into(),
    })
    .encode(&mut greeting);
    let half = greeting[..greeting.len() / 2].to_vec();
    let whole = Arc::new(greeting);
    [Kind::Sends(Arc::default()), Kind::Sends(Arc::new(half)), Kind::Drips(whole)].to_vec()
}

/// A server with TLS, and what clients do in the midst of a handshake. `None` without openssl.
fn with_tls(folder: &std::path::Path, cert: &Cert) -> Option<(Site, Vec<Kind>)> {
    let (certificate, key) = tls::certificate(folder, "server")?;
    let mut settings = config();
    settings.http.tls_certificate = Some(certificate);
    settings.http.tls_key = Some(key);
    let server = Site::apart(std::slice::from_ref(cert), settings);
    let hello = tls::client_hello();
    let half = hello[..hello.len() / 2].to_vec();
    Some((server, vec![Kind::Sends(Arc::new(hello)), Kind::Sends(Arc::new(half))]))
}

/// Asks for a certificate until it is enough, 300 times at least. Returns the time in which 99 of
/// 100 requests are answered.
pub(crate) fn p99_of_others(server: &Site, cert: &Cert, is_enough: impl Fn() -> bool) -> Duration {
    let mut times = Vec::new();
    while !is_enough() || times.len() < 300 {
        let began = Instant::now();
        assert_serves(server, cert);
        times.push(began.elapsed());
        thread::sleep(Duration::from_millis(5));
    }
    times.sort();
    times[times.len() * 99 / 100]
}

#[test]
fn a_thousand_hostile_clients_of_each_kind_use_bounded_memory_and_others_are_served() {
    let _alone = alone();
    let mut certs = generated(1);
    certs.extend((0..4).map(|_| named(&[b"Many <many@hostile.example>"])));
    let folder = tempfile::tempdir().unwrap();
    let (server, digests) = plain(&certs);
    let peers = (1..=20).map(|n| [127, 0, 2, n]);
    for peer in peers {
        server.add_peer(SocketAddr::from((peer, 9)), View::Sks);
    }
    let secure = with_tls(folder.path(), &certs[0]);
    let gossip = server.gossip.unwrap();
    let mut kinds: Vec<(SocketAddr, Kind)> = Vec::new();
    kinds.extend(over_http(&certs[1], &digests).into_iter().map(|kind| (server.http, kind)));
    kinds.extend(at_the_gossip_port().into_iter().map(|kind| (gossip, kind)));
    if let Some((site, stops)) = &secure {
        kinds.extend(stops.iter().map(|kind| (site.http, kind.clone())));
    }
    // Each connection is a file here, and another one in the server.
    let files = usize::try_from(open_files()).unwrap_or(usize::MAX);
    let each = EACH.min(files.saturating_sub(1000) / kinds.len());
    if each < EACH {
        eprintln!("only {each} clients of each kind, since {files} files may be open");
    }
    assert_serves(&server, &certs[0]);
    let processes: Vec<_> =
        [Some(&server), secure.as_ref().map(|(site, _)| site)].into_iter().flatten().collect();
    let idle: Vec<u64> = processes.iter().map(|site| site.process().resident()).collect();
    processes.iter().for_each(|site| site.process().forget_peak());
    let begun = Arc::new(AtomicUsize::new(0));
    let all = each * kinds.len();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let began = Instant::now();
    let are_there = || begun.load(Ordering::SeqCst) == all;
    let connecting = thread::scope(|scope| {
        let others = scope.spawn(|| p99_of_others(&server, &certs[0], are_there));
        for client in 0..all {
            let (number, (address, kind)) =
                (client / kinds.len(), kinds[client % kinds.len()].clone());
            // At the port for peers, those who are peers call.
            let is_peer = address == gossip;
            let (network, of) = if is_peer { (2, 20) } else { (1, all.div_ceil(FROM_ONE)) };
            let from = [127, 0, network, u8::try_from(client % of).unwrap() + 1];
            let begun = Arc::clone(&begun);
            runtime.spawn(async move { attack(address, from, kind, number, &begun).await });
            if client % 300 == 299 {
                thread::sleep(Duration::from_millis(100));
            }
        }
        others.join().unwrap()
    });
    eprintln!(
        "{all} hostile clients within {:?}; meanwhile, p99 of others {connecting:?}",
        began.elapsed()
    );
    let p99 = p99_of_others(&server, &certs[0], || true);
    let connected = server.metric("connections_total");
    let peaks = processes.iter().map(|site| site.process().peak());
    let grown: Vec<u64> = peaks.zip(&idle).map(|(peak, idle)| peak.saturating_sub(*idle)).collect();
    let most = grown.iter().sum::<u64>();
    eprintln!(
        "{} MiB more at most ({:?} MiB for each server); p99 of others {p99:?}; {} certificates uploaded",
        most / MIB,
        grown.iter().map(|bytes| bytes / MIB).collect::<Vec<_>>(),
        server.metric("certs_new_total") + server.metric("certs_unchanged_total"),
    );
    assert!(connected >= 9 * each as u64, "{connected} connections");
    assert!(most < MEMORY, "{} MiB more", most / MIB);
    assert!(p99 < ANSWERED, "{p99:?}");
    if let Some((site, _)) = &secure {
        let certificate = folder.path().join("server.pem");
        assert!(tls::Client::open(site, &certificate).ask("/health").is_some());
    }
    drop(runtime);
}
