//! Hostile clients and peers: they use few resources, and other clients are served meanwhile.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use sequoia_openpgp::cert::{CertBuilder, CipherSuite};
use sequoia_openpgp::packet::UserID;
use sequoia_openpgp::serialize::MarshalInto as _;
use talaria_cert::{Cert, Tag, View};
use talaria_needs::free_port;
use talaria_recon::{Digest, GossipMessage, Prefix, PrefixTree};
use talaria_server::Rate;

use crate::attacks::with_signatures;
use crate::http2;
use crate::site::{
    Got, NOW, PATIENCE, Site, config, connect, generated, get, gossiping, read_to_end, request,
    wait_for,
};
use crate::{DELAY, MIB, alone, assert_serves, beside_others, open_files, tls};

/// Sends a text slowly until the server closes the connection, and returns its answer.
fn drip(address: SocketAddr, at_once: &str, slowly: &[u8]) -> Vec<u8> {
    let mut stream = connect(address);
    stream.write_all(at_once.as_bytes()).unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let (mut said, mut buffer) = (Vec::new(), [0; 4096]);
    for byte in slowly.iter().cycle() {
        if stream.write_all(&[*byte]).is_err() {
            break;
        }
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => said.extend_from_slice(&buffer[..n]),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => break,
        }
    }
    said
}

#[test]
fn slow_clients_are_disconnected_in_time() {
    let _alone = alone();
    let certs = generated(2);
    let mut config = config();
    (config.http.timeout_s, config.http.idle_s) = (2, 4);
    let server = Site::with(&certs, config);
    let address = server.http;
    // Each text is endless.
    let head = "POST /pks/add HTTP/1.1\r\nhost: x\r\ncontent-length: 100000\r\n\r\n";
    let slow: [(&str, &[u8]); 4] = [
        ("", b"G"),
        ("GET / HTTP/1.1\r\nx-slow: ", b"a"),
        ("GET / HTTP/1.1\r\n", b"x: y\r\n"),
        (head, b"a"),
    ];
    let threads: Vec<_> = slow
        .into_iter()
        .map(|(at_once, slowly)| thread::spawn(move || drip(address, at_once, slowly)))
        .collect();
    assert_serves(&server, &certs[0]);
    for (thread, (at_once, _)) in threads.into_iter().zip(slow) {
        let said = thread.join().unwrap();
        let said = String::from_utf8_lossy(&said);
        let refused = said.is_empty() || said.starts_with("HTTP/1.1 4");
        assert!(refused, "{at_once:?}: {said}");
    }
    // A client that sends nothing, and a client that stops in the middle.
    for text in ["", "GET / HT", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", head] {
        let mut stream = connect(address);
        stream.write_all(text.as_bytes()).unwrap();
        read_to_end(&mut stream);
    }
    // A client that sent everything and waits for the answer.
    for _ in 0..50 {
        let mut half = connect(address);
        half.write_all(b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
        half.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(Got::parse(&read_to_end(&mut half)).status, 200);
    }
    assert_serves(&server, &certs[1]);
}

/// A server without certificates that waits so many seconds for the rest of a request, and for a
/// request.
fn with_times(timeout_s: u64, idle_s: u64) -> Site {
    let mut config = config();
    (config.http.timeout_s, config.http.idle_s) = (timeout_s, idle_s);
    Site::with(&[], config)
}

/// Asks for the health of a server over a connection, which is kept.
fn ask(stream: &mut TcpStream) {
    stream.write_all(b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    let (mut all, mut buffer) = (Vec::new(), [0; 4096]);
    while !all.ends_with(b"ok\n") {
        let n = stream.read(&mut buffer).unwrap();
        assert!(n > 0, "it was closed");
        all.extend_from_slice(&buffer[..n]);
    }
}

#[test]
fn a_kept_connection_has_the_idle_time() {
    let server = with_times(1, 5);
    let mut stream = connect(server.http);
    ask(&mut stream);
    thread::sleep(Duration::from_secs(3));
    let last = Instant::now();
    ask(&mut stream);
    assert_eq!(read_to_end(&mut stream), b"");
    let idle = last.elapsed();
    assert!(idle >= Duration::from_secs(5), "it was closed after {idle:?}");
}

#[test]
fn a_request_that_has_begun_does_not_have_the_idle_time() {
    let server = with_times(1, 600);
    let mut kept = connect(server.http);
    ask(&mut kept);
    for mut stream in [kept, connect(server.http)] {
        stream.write_all(b"GET / HT").unwrap();
        assert_eq!(read_to_end(&mut stream), b"");
    }
}

/// The head comes in two pieces, and the body later than the head might have come.
#[test]
fn a_body_has_its_own_time_behind_a_slow_head() {
    let server = with_times(5, 600);
    let mut stream = connect(server.http);
    for _ in 0..2 {
        let parts =
            ["POST /pks/add HTTP/1.1\r\nhost: x\r\n", "content-length: 9\r\n\r\n", "keytext=x"];
        for (number, part) in parts.into_iter().enumerate() {
            if number > 0 {
                thread::sleep(Duration::from_secs(3));
            }
            stream.write_all(part.as_bytes()).unwrap();
        }
        let mut said = [0; 4096];
        let n = stream.read(&mut said).unwrap();
        assert!(said[..n].starts_with(b"HTTP/1.1 422"), "{}", String::from_utf8_lossy(&said[..n]));
    }
}

#[test]
fn oversized_requests_are_refused() {
    let certs = generated(1);
    let mut config = config();
    config.http.body_bytes = 100_000;
    let server = Site::with(&certs, config);
    let large = vec![b'a'; 200_000];
    let post = |head: &str, body: &[u8]| {
        let mut stream = connect(server.http);
        stream
            .write_all(format!("POST /pks/add HTTP/1.1\r\nhost: x\r\n{head}\r\n").as_bytes())
            .unwrap();
        // The server may refuse the request before it is complete.
        let _ = stream.write_all(body);
        let mut said = vec![0; 12];
        let came = stream.read_exact(&mut said);
        came.map(|()| String::from_utf8(said).unwrap()).unwrap_or_default()
    };
    // If the rest of the body reaches a closed connection, the answer may be lost.
    let is = |said: &str, status: &str| said.is_empty() || said == format!("HTTP/1.1 {status}");
    assert!(is(&post("content-length: 200000\r\n", &large), "413"));
    let said = post("content-length: 200000\r\n", b"");
    assert!(said.is_empty() || said.starts_with("HTTP/1.1 4"), "{said}");
    let chunk = [b"30d40\r\n", &large[..], b"\r\n0\r\n\r\n"].concat();
    assert!(is(&post("transfer-encoding: chunked\r\n", &chunk), "413"));
    assert!(is(&post("transfer-encoding: chunked\r\n", b"fffffffffffffffff\r\n"), "400"));
    // Lengths that contradict each other.
    let said = post("content-length: 5\r\ncontent-length: 6\r\n", b"keytext");
    assert!(is(&said, "400"), "{said}");
    // Headers, and one line.
    let long = format!("x: {}\r\n", "y".repeat(100_000));
    assert!(is(&post(&long, b""), "431"));
    assert!(is(&post(&"x: y\r\n".repeat(50_000), b""), "431"));
    let mut stream = connect(server.http);
    let line = format!("GET /{} HTTP/1.1\r\nhost: x\r\n\r\n", "a".repeat(1_000_000));
    let _ = stream.write_all(line.as_bytes());
    let said = String::from_utf8_lossy(&read_to_end(&mut stream)).into_owned();
    assert!(said.is_empty() || said.starts_with("HTTP/1.1 4"), "{said}");
    assert_serves(&server, &certs[0]);
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let certs = generated(1);
    let server = Site::with(&certs, config());
    let mut stream = connect(server.http);
    let mut all = String::new();
    for at in 0..200 {
        let path = if at % 2 == 0 { "/health" } else { "/nowhere" };
        all += &format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n");
    }
    all += "GET /health HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    stream.write_all(all.as_bytes()).unwrap();
    let said = String::from_utf8(read_to_end(&mut stream)).unwrap();
    let codes: Vec<&str> =
        said.split("HTTP/1.1 ").skip(1).map(|answer| answer.split(' ').next().unwrap()).collect();
    let expected: Vec<&str> = (0..201).map(|at| if at % 2 == 0 { "200" } else { "404" }).collect();
    assert_eq!(codes, expected);
}

/// Random bytes.
fn garbage(seed: u64, length: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..length).map(|_| random.u8(..)).collect()
}

#[test]
fn garbage_does_not_disturb_other_clients() {
    let certs = generated(2);
    let server = Site::with(&certs, gossiping());
    let gossip = server.gossip.unwrap();
    // Clients at this address may gossip.
    server.add_peer(SocketAddr::from(([127, 0, 0, 1], 9)), View::Sks);
    for seed in 1..60 {
        let bytes = garbage(seed, 1 << (seed % 17));
        for address in [server.http, gossip] {
            let mut stream = connect(address);
            let _ = stream.write_all(&bytes);
            let _ = stream.shutdown(std::net::Shutdown::Write);
            read_to_end(&mut stream);
        }
        // As uploads, in all formats.
        for media in ["application/pgp-keys", "multipart/form-data; boundary=x", "text/plain"] {
            let status = server.post("/pks/v2/certs", media, &bytes).status;
            assert!((400..500).contains(&status), "{media}: {status}");
        }
        let status = server.post("/pks/hashquery", "sks/hashquery", &bytes).status;
        assert!((200..500).contains(&status), "{status}");
    }
    assert_serves(&server, &certs[0]);
}

/// Sends bytes to the gossip port like a peer, and waits for the end.
fn lie(gossip: SocketAddr, messages: &[u8], repeated: Option<&[u8]>) {
    let mut stream = connect(gossip);
    if stream.write_all(messages).is_err() {
        return;
    }
    while let Some(repeated) = repeated {
        if stream.write_all(repeated).is_err() {
            return;
        }
    }
    read_to_end(&mut stream);
}

/// The handshake of a peer.
pub(crate) fn greeting() -> Vec<u8> {
    let mut bytes = Vec::new();
    GossipMessage::Config(talaria_recon::PeerConfig {
        version: "1.1.6".into(),
        http_port: 9,
        bit_quantum: 2,
        m_bar: 5,
        filters: View::Sks.filters().into(),
    })
    .encode(&mut bytes);
    GossipMessage::Passed.encode(&mut bytes);
    bytes
}

#[test]
fn a_lying_peer_costs_little_memory_and_time() {
    let _alone = alone();
    let certs = generated(300);
    let mut config = gossiping();
    config.gossip.timeout_s = 3;
    let server = Site::apart(&certs, config);
    let gossip = server.gossip.unwrap();
    server.add_peer(SocketAddr::from(([127, 0, 0, 1], 9)), View::Sks);
    let before = server.process().resident();
    let message = |message: GossipMessage| {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        bytes
    };
    let many: Vec<Digest> = (0..100_000u32).map(|n| Digest(spread(n))).collect();
    let elements = message(GossipMessage::Elements(many.clone()));
    let root = Prefix::new(Digest([0; 16]), 0).unwrap();
    let poly = GossipMessage::Poly {
        prefix: root,
        len: 7,
        values: Box::new(PrefixTree::default().at(root).values()),
    };
    let frame = |length: u32, rest: &[u8]| [&length.to_be_bytes(), rest].concat();
    let talk = |rest: &[u8]| [&greeting()[..], rest].concat();
    let (zeros, ones) = (vec![0; 65_536], vec![255; 65_536]);
    // Frames that are too long, shorter than their content, or endless.
    lie(gossip, &frame(u32::MAX, &[10]), Some(&zeros));
    lie(gossip, &frame(16 << 20, &[10]), Some(&zeros));
    lie(gossip, &talk(&frame(u32::MAX, &[2])), Some(&zeros));
    lie(gossip, &talk(&frame((16 << 20) - 1, &[2])), Some(&ones));
    lie(gossip, &talk(&frame(0, &[])), None);
    lie(gossip, &talk(&frame(5, &[2, 255, 255, 255, 255])), None);
    // Unrequested messages, once and endlessly.
    lie(gossip, &talk(&elements), None);
    lie(gossip, &talk(b""), Some(&elements));
    lie(gossip, &talk(b""), Some(&message(GossipMessage::SyncFail)));
    lie(gossip, &talk(b""), Some(&message(GossipMessage::FullElements(many))));
    lie(gossip, &talk(b""), Some(&message(poly)));
    lie(gossip, &talk(b""), Some(&message(GossipMessage::Flush)));
    lie(gossip, &greeting(), Some(&greeting()));
    // More silent peers than the limit of exchanges.
    let silent: Vec<TcpStream> = (0..200).filter_map(|_| TcpStream::connect(gossip).ok()).collect();
    assert_serves(&server, &certs[0]);
    drop(silent);
    let grown = server.process().peak().saturating_sub(before);
    eprintln!("a lying peer: {} MiB more", grown / MIB);
    assert!(grown < 64 * MIB, "{} MiB more", grown / MIB);
    assert_eq!(server.metric("certs"), 300);
}

/// Any number as a digest.
fn spread(n: u32) -> [u8; 16] {
    const MARKS: [u16; 4] = [0x0000, 0x1111, 0x2222, 0x3333];
    let mut digest = [0; 16];
    for (at, part) in digest.chunks_mut(4).enumerate() {
        let mixed = (n ^ u32::from(MARKS[at])).wrapping_mul(0x9e37_79b1);
        part.copy_from_slice(&(mixed ^ mixed >> 15).to_be_bytes());
    }
    digest
}

#[test]
fn a_new_client_is_served_beside_ten_thousand_connections() {
    let _alone = alone();
    let files = open_files();
    let wanted = 10_000.min(files.saturating_sub(1000));
    if wanted < 10_000 {
        eprintln!("only {wanted} connections, since {files} files may be open");
    }
    let certs = generated(1);
    let mut config = config();
    config.http.connections_per_network = config.http.connections;
    let server = Site::apart(&certs, config);
    let before = server.process().resident();
    let mut open = Vec::new();
    for _ in 0..wanted {
        open.push(TcpStream::connect(server.http).unwrap());
    }
    wait_for("all are accepted", || server.metric("connections_total") > wanted);
    assert_serves(&server, &certs[0]);
    for stream in &mut open {
        stream.write_all(b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    }
    assert_serves(&server, &certs[0]);
    let mut served = 0;
    for stream in &mut open {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut said = [0; 12];
        served += u64::from(stream.read_exact(&mut said).is_ok() && said == *b"HTTP/1.1 200");
    }
    assert_eq!(served, wanted);
    let each = server.process().peak().saturating_sub(before) / wanted;
    eprintln!("{each} bytes for each of {wanted} connections");
    assert!(each < 20 << 10, "{each} bytes for each connection");
}

#[test]
fn each_network_has_a_limit_of_connections() {
    let certs = generated(1);
    let mut config = config();
    config.http.connections_per_network = 5;
    let second = SocketAddr::from(([127, 0, 0, 1], free_port()));
    config.http.listen.push(second);
    let server = Site::with(&certs, config);
    let open: Vec<TcpStream> = (0..5)
        .map(|_| {
            let mut stream = connect(server.http);
            stream.write_all(b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
            stream.read_exact(&mut [0; 12]).unwrap();
            stream
        })
        .collect();
    for address in [server.http, second] {
        let mut more = connect(address);
        let _ = more.write_all(b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n");
        assert_eq!(read_to_end(&mut more), b"", "{address}");
    }
    // Those for operators have places of their own.
    assert_eq!(get(server.operator, "/health").status, 200);
    drop(open);
    wait_for("there is room again", || {
        let mut stream = connect(server.http);
        let _ = stream.write_all(b"GET /health HTTP/1.0\r\n\r\n");
        read_to_end(&mut stream).starts_with(b"HTTP/1.0 200")
    });
}

/// A connection from an address.
pub(crate) fn connect_from(from: [u8; 4], server: SocketAddr) -> TcpStream {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
    let stream = runtime.block_on(async {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::from((from, 0))).unwrap();
        socket.connect(server).await.unwrap().into_std().unwrap()
    });
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

#[test]
fn one_network_with_idle_connections_shuts_nobody_out() {
    let mut config = config();
    (config.http.connections, config.http.connections_per_network) = (20, 256);
    (config.http.timeout_s, config.http.idle_s) = (600, 600);
    let server = Site::with(&[], config);
    // The oldest connection of all belongs to somebody else, and the oldest one of the network has
    // a request.
    let mut other = connect_from([127, 0, 0, 3], server.http);
    ask(&mut other);
    let mut busy = connect(server.http);
    busy.write_all(b"POST /pks/add HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nkey").unwrap();
    let mut kept = connect(server.http);
    ask(&mut kept);
    let texts = ["", "GET / HT", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"];
    let idle: Vec<TcpStream> = (0..50)
        .map(|number| {
            let mut stream = connect(server.http);
            // The server may have ended it by now.
            let _ = stream.write_all(texts[number % texts.len()].as_bytes());
            stream
        })
        .collect();
    for _ in 0..30 {
        let mut newcomer = connect_from([127, 0, 0, 2], server.http);
        ask(&mut newcomer);
    }
    assert_eq!(read_to_end(&mut kept), b"");
    ask(&mut other);
    busy.write_all(b"text=x").unwrap();
    let mut said = [0; 12];
    busy.read_exact(&mut said).unwrap();
    assert_eq!(said, *b"HTTP/1.1 422");
    assert!(server.metric("connections_refused_total") >= 33);
    drop(idle);
}

#[test]
fn clients_of_an_onion_service_are_no_operators() {
    let mut config = config();
    let onion = SocketAddr::from(([127, 0, 0, 1], free_port()));
    config.http.onion_listen = vec![onion];
    let server = Site::with(&[], config);
    assert_eq!(get(onion, "/health").status, 200);
    for path in ["/metrics", "/operator"] {
        assert_eq!(get(server.operator, path).status, 200, "{path}");
        assert_eq!(get(onion, path).status, 403, "{path}");
    }
}

#[test]
fn the_rate_limit_answers_with_retry_after() {
    let certs = generated(3);
    let config_of_rates = || {
        let mut config = config();
        config.rates.exempt.clear();
        config.rates.lookups = Rate { per_second: 0.01, burst: 5.0 };
        config.rates.searches = Rate { per_second: 0.01, burst: 3.0 };
        config.rates.uploads = Rate { per_second: 0.01, burst: 2.0 };
        config
    };
    let config = config_of_rates();
    let server = Site::with(&certs[..1], config);
    let get = format!("/pks/lookup?op=get&options=mr&search=0x{}", certs[0].fingerprint());
    for (path, burst) in [(get.as_str(), 5), ("/pks/lookup?op=index&options=mr&search=example", 3)]
    {
        for _ in 0..burst {
            assert_ne!(server.get(path).status, 429, "{path}");
        }
        let reply = server.get(path);
        assert_eq!(reply.status, 429, "{path}");
        let seconds: u64 = reply.header("retry-after").parse().unwrap();
        assert!((1..=100).contains(&seconds), "{seconds}");
    }
    assert_eq!(server.put(&certs[1]).status, 200);
    assert_eq!(server.put(&certs[2]).status, 200);
    assert_eq!(server.put(&certs[2]).status, 429);
    assert_eq!(server.metric("rate_limited_total"), 3);
    server.stop();

    // An address that nobody has is searched for as words, which costs a search as well.
    let mut config = config_of_rates();
    config.rates.lookups = Rate { per_second: 0.01, burst: 20.0 };
    let server = Site::with(&certs[..1], config);
    let none = "/pks/lookup?op=get&options=mr&search=nobody@example.org";
    let statuses: Vec<u16> = (0..5).map(|_| server.get(none).status).collect();
    assert_eq!(statuses, [404, 404, 404, 429, 429]);
    assert_eq!(server.get(&get).status, 200);
    // Rate limits do not apply to health checks.
    assert_eq!(server.get("/health").status, 200);
}

#[test]
fn the_proxy_protocol_gives_the_address_of_the_client() {
    let certs = generated(1);
    let mut config = config();
    config.http.proxy_protocol = true;
    (config.http.timeout_s, config.http.idle_s) = (2, 4);
    config.rates.lookups = Rate { per_second: 0.001, burst: 1.0 };
    let server = Site::with(&certs, config);
    let once = |header: &[u8]| {
        let mut stream = connect(server.http);
        let request = b"GET /upload HTTP/1.0\r\n\r\n";
        let _ = stream.write_all(&[header, request].concat());
        let said = read_to_end(&mut stream);
        String::from_utf8_lossy(&said[..said.len().min(12)]).into_owned()
    };
    let ask = |header: &[u8]| {
        once(header);
        once(header)
    };
    let v2 = |command: u8, family: u8, addresses: &[u8]| {
        let mut header = b"\r\n\r\n\0\r\nQUIT\n".to_vec();
        header.extend([0x20 | command, family]);
        header.extend(u16::try_from(addresses.len()).unwrap().to_be_bytes());
        header.extend(addresses);
        header
    };
    let from = |ip: [u8; 4]| [&ip[..], &[192, 0, 2, 9], &[0x12, 0x34, 0, 80]].concat();
    // This machine has no rate limit, so the second answer shows which address the server assumes.
    let (near, stranger) = ("HTTP/1.0 200", "HTTP/1.0 429");
    assert_eq!(ask(b"PROXY TCP4 127.0.0.9 192.0.2.9 4660 80\r\n"), near);
    assert_eq!(ask(b"PROXY TCP4 192.0.2.1 192.0.2.9 4660 80\r\n"), stranger);
    assert_eq!(ask(b"PROXY TCP6 2001:db8::1 2001:db8::2 4660 80\r\n"), stranger);
    assert_eq!(ask(b"PROXY UNKNOWN\r\n"), near);
    assert_eq!(ask(&v2(1, 0x11, &from([127, 0, 0, 9]))), near);
    assert_eq!(ask(&v2(1, 0x11, &from([192, 0, 2, 1]))), stranger);
    // The proxy itself, with an address that does not count.
    assert_eq!(ask(&v2(0, 0, b"")), near);
    assert_eq!(ask(&v2(0, 0x11, &from([192, 0, 2, 1]))), near);
    // No header, a wrong one, an endless one, a truncated one.
    let endless = [&b"PROXY TCP4 "[..], &[b'1'; 10_000]].concat();
    let wrong: [&[u8]; 5] = [
        b"",
        b"PROXY TCP4 127.0.0.1\r\n",
        b"PROXY TCP4 999.0.0.1 192.0.2.9 4660 80\r\n",
        &endless,
        &v2(1, 0x11, &[127, 0, 0, 9]),
    ];
    for header in wrong {
        assert_eq!(ask(header), "", "{}", String::from_utf8_lossy(header));
    }
    let mut silent = connect(server.http);
    silent.write_all(b"PRO").unwrap();
    assert_eq!(read_to_end(&mut silent), b"");
}

/// A proxy appends the address of its client to the bytes that the client sent.
#[test]
fn a_client_behind_a_proxy_cannot_lift_its_limits() {
    let mut config = config();
    config.http.proxies = vec!["127.0.0.1/32".parse().unwrap()];
    config.rates.lookups = Rate { per_second: 0.001, burst: 2.0 };
    let server = Site::with(&[], config);
    let ask = |forwarded: &[u8]| {
        let mut stream = connect(server.http);
        let head = b"GET /upload HTTP/1.0\r\nx-forwarded-for: ";
        stream.write_all(&[head, forwarded, b"\r\n\r\n"].concat()).unwrap();
        Got::parse(&read_to_end(&mut stream)).status
    };
    assert_eq!([(); 3].map(|()| ask(b"198.51.100.7")), [200, 200, 429]);
    for sent in [&b"\xff"[..], b"unknown", b"127.0.0.1", b"127.0.0.1, \xff", b"", b"\xff\xfe,,"] {
        assert_eq!(ask(&[sent, b", 198.51.100.7"].concat()), 429, "{sent:?}");
        assert_eq!(
            ask(&[sent, b"\r\nx-forwarded-for: 198.51.100.7:5555"].concat()),
            429,
            "{sent:?}"
        );
    }
    assert_eq!(ask(b"198.51.100.8"), 200);
    // Clients that the proxy does not name share one limit.
    let unreadable = [&b"unknown"[..], b"203.0.113.9, x", b"127.0.0.1, \xff"];
    assert_eq!(unreadable.map(ask), [200, 200, 429]);
    // A request of the proxy itself has no limit.
    assert_eq!([(); 3].map(|()| server.get("/upload").status), [200; 3]);
}

/// Runs curl and returns its output; `None` if curl is not installed.
fn curl(arguments: &[&str]) -> Option<String> {
    let mut curl = Command::new("curl");
    let output =
        curl.args(["--silent", "--show-error", "--max-time", "60"]).args(arguments).output();
    let Ok(output) = output else {
        talaria_needs::left_out("curl");
        return None;
    };
    assert!(output.status.success(), "{output:?}");
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn an_upload_that_cannot_be_kept_now_is_refused_before_it_is_sent() {
    let mut config = config();
    config.http.body_bytes = 1 << 20;
    config.http.requests_bytes = 4 * (config.http.body_bytes + (64 << 10));
    let server = Site::start(config);
    let head = "POST /pks/add HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000\r\n\r\n";
    let begin = || {
        let mut stream = connect(server.http);
        stream.write_all(head.as_bytes()).unwrap();
        stream
    };
    let mut first = begin();
    first.write_all("a".repeat(900_000).as_bytes()).unwrap();
    wait_for("most of it is there", || server.metric("request_bytes") > 900_000);
    let mut said = [0; 12];
    begin().read_exact(&mut said).unwrap();
    assert_eq!(&said, b"HTTP/1.1 503");
    first.write_all("a".repeat(100_000).as_bytes()).unwrap();
    first.read_exact(&mut said).unwrap();
    assert_eq!(&said, b"HTTP/1.1 422");
}

#[test]
fn the_server_speaks_tls_http_1_and_http_2() {
    let folder = tempfile::tempdir().unwrap();
    let Some((certificate, key)) = tls::certificate(folder.path(), "server") else { return };
    let certs = generated(1);
    let mut settings = config();
    (settings.http.timeout_s, settings.http.idle_s) = (2, 4);
    let plain = Site::with(&certs, settings.clone());
    settings.http.tls_certificate = Some(certificate.clone());
    settings.http.tls_key = Some(key);
    let secure = Site::with(&certs, settings);
    let path = format!("/pks/lookup?op=get&options=mr&search=0x{}", certs[0].fingerprint());
    let https = format!("https://localhost:{}{path}", secure.http.port());
    let http = format!("http://localhost:{}{path}", plain.http.port());
    let ca = certificate.to_str().unwrap();
    let format = "\n%{http_code} %{http_version}";
    for (arguments, version) in [
        (&["--http2", "--cacert", ca, "-4", &https][..], "2"),
        (&["--http1.1", "--cacert", ca, "-4", &https], "1.1"),
        (&["--http2-prior-knowledge", "-4", &http], "2"),
        (&["--http1.1", "-4", &http], "1.1"),
    ] {
        let Some(said) = curl(&[arguments, &["--write-out", format]].concat()) else { return };
        assert!(said.contains("BEGIN PGP PUBLIC KEY BLOCK"), "{said}");
        assert!(said.ends_with(&format!("\n200 {version}")), "{said}");
    }
    // A client without TLS, a silent client, and garbage.
    let first: [&[u8]; 3] = [b"GET / HTTP/1.1\r\nhost: x\r\n\r\n", b"", &garbage(3, 5000)];
    for bytes in first {
        let mut stream = connect(secure.http);
        let _ = stream.write_all(bytes);
        let said = read_to_end(&mut stream);
        assert!(!said.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&said));
    }
    let Some(said) = curl(&["--cacert", ca, "-4", &https]) else { return };
    assert!(said.contains("BEGIN PGP PUBLIC KEY BLOCK"));
}

/// A certificate with forged signatures on its first user ID.
pub(crate) fn forged(cert: &Cert, signatures: u32, value_bytes: u16) -> Vec<u8> {
    let forged = |number: u32| {
        let mut body = vec![3, 5, 0x13];
        body.extend((NOW - number).to_be_bytes());
        body.extend(u64::from(number).to_be_bytes());
        body.extend([1, 8, 0, 0]);
        body.extend((8 * value_bytes).to_be_bytes());
        let value = number.to_be_bytes();
        body.push(0x80);
        body.extend((1..value_bytes).map(|at| value[usize::from(at) % 4]));
        body
    };
    with_signatures(cert, &(0..signatures).map(forged).collect::<Vec<_>>())
}

#[test]
fn a_flood_of_signatures_neither_blocks_nor_fills_the_server() {
    let _alone = alone();
    let certs = generated(3);
    let server = Site::with(&certs, config());
    let address = server.http;
    let done = Arc::new(AtomicBool::new(false));
    let flood: Vec<Vec<u8>> = certs[..2].iter().map(|cert| forged(cert, 100_000, 8)).collect();
    let uploads: Vec<_> = flood
        .into_iter()
        .map(|raw| {
            thread::spawn(move || {
                request(
                    address,
                    "POST",
                    "/pks/v2/certs",
                    "content-type: application/pgp-keys\r\n",
                    &raw,
                )
            })
        })
        .collect();
    let others = {
        let (done, path) = (
            Arc::clone(&done),
            format!("/pks/lookup?op=get&options=mr&search=0x{}", certs[2].fingerprint()),
        );
        thread::spawn(move || {
            let mut answered = 0;
            while !done.load(Ordering::SeqCst) {
                assert_eq!(get(address, &path).status, 200);
                answered += 1;
            }
            answered
        })
    };
    for upload in uploads {
        let reply = upload.join().unwrap();
        assert!(matches!(reply.status, 200 | 422), "{}: {}", reply.status, reply.text());
    }
    done.store(true, Ordering::SeqCst);
    assert!(others.join().unwrap() > 0);
    for cert in &certs[..2] {
        for op in ["get", "index", "vindex"] {
            let path = format!("/pks/lookup?op={op}&options=mr&search=0x{}", cert.fingerprint());
            let reply = server.get(&path);
            assert_eq!(reply.status, 200, "{}", reply.text());
            assert!(reply.body.len() < 1 << 20, "{op}: {} bytes", reply.body.len());
        }
        // The owner's signatures are not left out.
        let path = format!("/pks/lookup?op=index&options=mr&search=0x{}", cert.fingerprint());
        assert!(server.get(&path).text().contains("\nuid:"));
    }
}

#[test]
fn thousands_of_copies_of_one_certificate_delay_no_other_upload() {
    let _alone = alone();
    let certs = generated(302);
    let server = Site::with(&certs[..2], config());
    // 8 MiB: each copy has a forged signature of its own.
    let copies: Vec<u8> = (0..9000u32)
        .flat_map(|number| {
            let mut copy = forged(&certs[0], 1, 800);
            let last = copy.len() - 4;
            copy[last..].copy_from_slice(&number.to_be_bytes());
            copy
        })
        .collect();
    let reply = beside_others(&server, &certs[2..], || server.offer(&copies));
    assert!(matches!(reply.status, 200 | 422), "{}: {}", reply.status, reply.text());
}

/// A key for a slow algorithm, and its revocation.
fn slow_owner() -> (Cert, Cert) {
    let builder = CertBuilder::new().set_cipher_suite(CipherSuite::P384);
    let (cert, revocation) = builder.add_userid("Slow <slow@example.org>").generate().unwrap();
    let public = |cert: &sequoia_openpgp::Cert| Cert::parse(&cert.to_vec().unwrap()).unwrap();
    let revoked = cert.clone().insert_packets(revocation).unwrap().0;
    (public(&cert), public(&revoked))
}

/// A certificate with forged signatures in the name of its owner, which has a key for ECDSA with
/// 384 bits.
fn forged_by_owner(cert: &Cert, signatures: u32) -> Vec<u8> {
    let forged = |number: u32| {
        let mut body = vec![4, 0x13, 19, 8, 0, 16, 5, 2];
        body.extend(NOW.to_be_bytes());
        body.extend([9, 16]);
        body.extend(cert.fingerprint().key_id().0.to_be_bytes());
        body.extend([0, 0, 0, 0]);
        for _ in 0..2 {
            body.extend(384u16.to_be_bytes());
            body.push(0x80);
            body.extend(number.to_be_bytes());
            body.extend([7; 43]);
        }
        body
    };
    with_signatures(cert, &(1..=signatures).map(forged).collect::<Vec<_>>())
}

#[test]
fn a_costly_upload_delays_no_other_and_its_owner_overtakes_it() {
    let _alone = alone();
    let certs = generated(402);
    let (slow, revoked) = slow_owner();
    let server = Site::with(&certs[..1], config());
    assert_eq!(server.put(&slow).status, 200);
    // 3 s of CPU time.
    let costly = forged_by_owner(&slow, 4000);
    // The revocation comes while it is verified.
    let mut others = certs[1..].to_vec();
    others.insert(30, revoked);
    let reply = beside_others(&server, &others, || server.offer(&costly));
    assert!(matches!(reply.status, 200 | 422), "{}: {}", reply.status, reply.text());
    let path = format!("/pks/lookup?op=index&options=mr&search=0x{}", slow.fingerprint());
    let text = server.get(&path).text();
    let line = text.lines().find(|line| line.starts_with("pub:")).unwrap();
    assert!(line.ends_with(":r"), "{text}");
}

/// Three uploads of seconds from one network run one after the other. A costly one from another
/// network runs beside them.
#[test]
fn costly_uploads_of_one_network_do_not_delay_those_of_others() {
    let _alone = alone();
    let certs = generated(1);
    let mut config = config();
    config.http.proxies = vec!["127.0.0.1/32".parse().unwrap()];
    let server = Site::with(&certs, config);
    let address = server.http;
    let upload = move |from: &str, raw: &[u8]| {
        let head = format!("content-type: application/pgp-keys\r\nx-forwarded-for: {from}\r\n");
        let began = Instant::now();
        let reply = request(address, "POST", "/pks/v2/certs", &head, raw);
        assert!(matches!(reply.status, 200 | 422), "{}: {}", reply.status, reply.text());
        began.elapsed()
    };
    // Above the 50 ms up to which an upload is cheap.
    let other = |number: u8| {
        let raw = forged_by_owner(&slow_owner().0, 150);
        upload(&format!("198.51.100.{number}"), &raw)
    };
    let usual = (1..=5).map(other).max().unwrap();
    let hostile: Vec<_> = (0..3)
        .map(|_| {
            let raw = forged_by_owner(&slow_owner().0, 4000);
            thread::spawn(move || upload("192.0.2.1", &raw))
        })
        .collect();
    thread::sleep(Duration::from_millis(500));
    let slowest = (6..=10).map(other).max().unwrap();
    let took: Vec<Duration> = hostile.into_iter().map(|one| one.join().unwrap()).collect();
    eprintln!("{slowest:?} beside uploads of {took:?}, {usual:?} before");
    assert!(slowest < usual + DELAY, "{slowest:?}, {usual:?} before");
}

#[test]
fn an_upload_above_its_budget_is_refused_whole_before_any_work() {
    let _alone = alone();
    let certs = generated(302);
    let (slow, _) = slow_owner();
    let server = Site::with(&certs[..1], config());
    let before = server.metric("last_change");
    // 30 s of CPU time, behind a certificate that costs nothing.
    let hostile = [certs[301].as_bytes(), &forged_by_owner(&slow, 40_000)].concat();
    let began = Instant::now();
    let reply = server.offer(&hostile);
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    assert_eq!(reply.status, 413, "{}", reply.text());
    let said = reply.text();
    assert!(said.contains("CPU time") && said.contains("10.0 s are allowed"), "{said}");
    assert_eq!(server.metric("uploads_too_costly_total"), 1);
    assert_eq!(server.metric("last_change"), before);
    let reply = beside_others(&server, &certs[1..300], || server.offer(&hostile));
    assert_eq!(reply.status, 413, "{}", reply.text());
    assert_serves(&server, &certs[0]);
}

/// Signatures by keys in the store have to be verified before some of them are dropped. They refuse
/// nothing, and take a quarter of the budget.
#[test]
fn signatures_by_known_keys_have_a_part_of_the_budget() {
    let _alone = alone();
    let certs = generated(2);
    let (slow, _) = slow_owner();
    let mut config = config();
    config.policy.upload_cpu_ms = 1000;
    let server = Site::apart(&[certs[0].clone(), slow.clone()], config);
    // The same signatures on a certificate of somebody else, with a fast key. To verify all of them
    // takes 2.3 s.
    let forged = Cert::parse(&forged_by_owner(&slow, 3000)).unwrap();
    let bodies = forged.packets().filter(|packet| packet.tag == Tag::SIGNATURE);
    let raw =
        with_signatures(&certs[0], &bodies.map(|packet| packet.body.to_vec()).collect::<Vec<_>>());
    let before = server.process().cpu();
    let reply = server.post("/pks/v2/certs", "application/pgp-keys", &raw);
    let taken = server.process().cpu().saturating_sub(before);
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert!(taken < Duration::from_secs(1), "{taken:?}");
    assert_serves(&server, &certs[0]);
}

#[test]
fn clients_that_read_no_answers_use_bounded_memory() {
    let _alone = alone();
    let certs = generated(8);
    let mut config = config();
    config.policy.foreign_signatures = 100_000;
    let server = Site::apart(&certs, config);
    let query = query_for_all(&server, &certs);
    server.process().forget_peak();
    let before = server.process().resident();
    let head = format!(
        "POST /pks/hashquery HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n",
        query.len()
    );
    let open: Vec<TcpStream> = (0..60)
        .map(|_| {
            let mut stream = connect(server.http);
            stream.write_all(head.as_bytes()).unwrap();
            stream.write_all(&query).unwrap();
            stream
        })
        .collect();
    for _ in 0..50 {
        assert_eq!(server.get("/health").status, 200);
        thread::sleep(Duration::from_millis(50));
    }
    let most = server.process().peak().saturating_sub(before);
    eprintln!("60 clients that read no answers: {} MiB more", most / MIB);
    assert!(most < 100 * MIB, "{} MiB more", most / MIB);
    drop(open);
    wait_for("there is room again", || server.post("/pks/hashquery", "x/y", &query).status == 200);
}

#[test]
fn a_connection_of_http_2_without_requests_ends_although_it_pings() {
    let server = with_times(20, 2);
    let mut stream = connect(server.http);
    stream.write_all(&http2::opening(None)).unwrap();
    assert_ends_although_it_pings(stream);
}

/// Pings until the server ends a connection of HTTP/2.
fn assert_ends_although_it_pings(mut stream: TcpStream) {
    let ping = http2::frame(6, 0, 0, &[1; 8]);
    let began = Instant::now();
    while stream.write_all(&ping).is_ok() {
        assert!(began.elapsed() < Duration::from_secs(30), "it is still open");
        thread::sleep(Duration::from_millis(200));
    }
}

/// The client says that no byte of its answer may be sent.
#[test]
fn a_connection_of_http_2_that_takes_no_answer_ends_although_it_pings() {
    let server = with_times(20, 2);
    let mut stream = connect(server.http);
    stream.write_all(&http2::opening(Some(0))).unwrap();
    stream.write_all(&http2::get(1, "/upload")).unwrap();
    assert_ends_although_it_pings(stream);
}

/// Makes eight certificates large, and returns a query for all of them: an answer of 16 MiB.
fn query_for_all(server: &Site, certs: &[Cert]) -> Vec<u8> {
    for cert in certs {
        assert_eq!(server.offer(&forged(cert, 2700, 900)).status, 200);
    }
    let digests: Vec<Digest> = server.digests(View::Sks).into_iter().map(Digest).collect();
    talaria_recon::encode_hashquery(&digests)
}

/// A server whose clients are idle after two seconds, and a query for an answer of 16 MiB.
fn impatient() -> (Site, Vec<u8>) {
    let certs = generated(8);
    let mut config = config();
    (config.http.timeout_s, config.http.idle_s) = (20, 2);
    config.policy.foreign_signatures = 100_000;
    let server = Site::with(&certs, config);
    let query = query_for_all(&server, &certs);
    let length = query.len();
    let head =
        format!("POST /pks/hashquery HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n");
    (server, [head.as_bytes(), &query].concat())
}

#[test]
fn a_client_that_reads_well_stays_connected_beyond_the_idle_time() {
    let (server, query) = impatient();
    let mut stream = connect(server.http);
    let (began, mut buffer, mut all) = (Instant::now(), vec![0; 256 << 10], 0);
    while began.elapsed() < Duration::from_secs(8) {
        stream.write_all(&query).unwrap();
        // A chunk without bytes is the last one.
        let mut end = Vec::new();
        while !end.ends_with(b"\r\n0\r\n\r\n") {
            let n = stream.read(&mut buffer).unwrap();
            assert!(n > 0, "it was cut off after {:?} and {all} bytes", began.elapsed());
            all += n;
            end.extend_from_slice(&buffer[..n]);
            end.drain(..end.len().saturating_sub(16));
        }
        thread::sleep(Duration::from_millis(500));
    }
    assert!(all as u64 > 50 * MIB, "{all} bytes");
}

#[test]
fn a_client_that_read_fast_gets_no_time_for_reading_slowly() {
    let (server, query) = impatient();
    // What the systems of both sides hold is less than the second half of the answer.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
    let mut stream = runtime.block_on(async {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(64 << 10).unwrap();
        socket.connect(server.http).await.unwrap().into_std().unwrap()
    });
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(&query).unwrap();
    // At the pace of the slowest clients, this much takes half an hour.
    stream.read_exact(&mut vec![0; 8 << 20]).unwrap();
    let began = Instant::now();
    wait_for("the answer is given up", || {
        thread::sleep(Duration::from_millis(100));
        stream.read_exact(&mut [0; 64]).unwrap();
        server.metric("answer_bytes") == 0
    });
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    let rest = read_to_end(&mut stream);
    assert!(!rest.ends_with(b"\r\n0\r\n\r\n"), "it got the whole answer");
}

#[test]
fn no_query_string_makes_a_search_a_lookup() {
    let mut config = config();
    config.rates.exempt.clear();
    config.rates.searches = Rate { per_second: 0.001, burst: 3.0 };
    let server = Site::with(&generated(3), config);
    let searches = [
        "op=index&options=mr&search=foo&x=op=get",
        "op=get&options=mr&search=two+words",
        "x=op=get&op=vindex&options=mr&search=foo",
        "%6fp=index&search=foo&options=mr",
    ];
    let statuses = searches.map(|query| server.get(&format!("/pks/lookup?{query}")).status);
    assert_eq!(statuses[3], 429, "{statuses:?}");
}

/// A certificate with these user IDs.
pub(crate) fn named(user_ids: &[&[u8]]) -> Cert {
    let builder = CertBuilder::new();
    let builder = user_ids.iter().fold(builder, |b, id| b.add_userid(UserID::from(id.to_vec())));
    let (cert, _) = builder.generate().unwrap();
    Cert::parse(&cert.to_vec().unwrap()).unwrap()
}

#[test]
fn a_user_id_cannot_leave_its_field_in_any_output() {
    let long = format!("{} <long@hostile.example>", "x".repeat(1900));
    let names: [&[u8]; 8] = [
        b"<script>alert(1)</script> <a@hostile.example>",
        b"x\r\nHTTP/1.1 200 OK\r\n\r\npub:0:1:2:3:: <b@hostile.example>",
        b"a:b:c%0Auid:evil <c@hostile.example>",
        "\u{202e}elpmaxe\u{202c}\u{200b}\u{feff} <d@hostile.example>".as_bytes(),
        b"\x1b[31mred\x07\0null <e@hostile.example>",
        b"\xff\xfe\xc3( <f@hostile.example>",
        long.as_bytes(),
        b"\",\"isRevoked\":true,\"x\":\" <g@hostile.example>",
    ];
    let cert = named(&names);
    let server = Site::with(&[], config());
    assert_eq!(server.put(&cert).status, 200);
    let fingerprint = cert.fingerprint();
    let reply = server.get(&format!("/pks/lookup?op=index&options=mr&search=0x{fingerprint}"));
    let text = reply.text();
    let lines: Vec<&str> = text.split('\n').collect();
    assert_eq!((lines[0], lines.len()), ("info:1:1", 2 + names.len() + 1), "{text}");
    assert!(lines[1].starts_with(&format!("pub:{fingerprint}:")), "{text}");
    for line in &lines[2..2 + names.len()] {
        assert_eq!((line.split(':').count(), &line[..4]), (5, "uid:"), "{line}");
    }
    assert!(text.bytes().all(|byte| matches!(byte, b'\n' | b' '..=b'~')), "{text}");
    // The text in the answer equals the user ID.
    let read: Vec<Vec<u8>> = lines[2..2 + names.len()]
        .iter()
        .map(|line| percent_encoding::percent_decode_str(line.split(':').nth(1).unwrap()).collect())
        .collect();
    for name in names {
        assert!(read.iter().any(|read| read == name), "{}", String::from_utf8_lossy(name));
    }
    for path in [
        "/pks/lookup?op=index&options=json&search=d@hostile.example",
        "/pks/v2/index/d@hostile.example",
    ] {
        let reply = server.get(path);
        let json = reply.value();
        assert_eq!(json[0]["userIDs"].as_array().unwrap().len(), names.len(), "{path}");
        assert_eq!(json[0]["userIDs"][0]["isRevoked"], false);
        assert_eq!(json[0]["fingerprint"], fingerprint.to_string().to_ascii_lowercase());
    }
    // A user ID above the limit is not stored.
    let longer = named(&[format!("{} <z@hostile.example>", "y".repeat(10_000)).as_bytes()]);
    let reply = server.put(&longer);
    assert!(matches!(reply.status, 200 | 422), "{}", reply.text());
    let reply =
        server.get(&format!("/pks/lookup?op=index&options=mr&search=0x{}", longer.fingerprint()));
    assert!(reply.body.len() < 1000, "{}", reply.text());
}

#[test]
fn a_search_cannot_inject_into_the_answer() {
    let server = Site::with(&generated(5), config());
    let long = "a".repeat(10_000);
    let searches = [
        "%3Cscript%3Ealert(1)%3C/script%3E",
        "0x%3Cscript%3E",
        "0x%0D%0ASet-Cookie:%20a=b",
        "%0D%0A%0D%0AHTTP/1.1%20200%20OK",
        "%00",
        "%FF%FE",
        "%E2%80%AEgro",
        "'%20OR%201=1%20--",
        "%22%20NEAR(a)%20OR%20*",
        "*",
        "%25",
        "%",
        "%zz",
        "+",
        "0x",
        "@",
        "=",
        long.as_str(),
    ];
    for search in searches {
        for rest in [
            "op=get",
            "op=index&options=mr",
            "op=index&options=json",
            "op=vindex&options=mr&exact=on",
            "op=hget",
        ] {
            let reply = server.get(&format!("/pks/lookup?{rest}&search={search}"));
            assert!((400..500).contains(&reply.status), "{rest} {search}: {}", reply.status);
            assert!(!reply.headers.contains_key("set-cookie"), "{:?}", reply.headers);
            assert_eq!(reply.header("content-type"), "text/plain; charset=utf-8", "{rest}");
            assert_eq!(reply.header("x-content-type-options"), "nosniff");
            assert!(reply.body.len() < 1000, "{}", reply.body.len());
            let text = reply.text();
            let odd = text.chars().find(|c| c.is_control() && *c != '\n' || *c == '\u{202e}');
            assert_eq!(odd, None, "{rest} {search}: {text:?}");
        }
        for path in [
            "/pks/v2/certs/by-vfingerprint/",
            "/pks/v2/certs/by-keyid/",
            "/pks/v2/certs/by-identity/",
            "/pks/v2/index/",
            "/pks/v2/prefixlog/",
        ] {
            let reply = server.get(&format!("{path}{search}"));
            assert!((400..502).contains(&reply.status), "{path}{search}: {}", reply.status);
            assert!(reply.value()["error"].is_string());
            assert!(reply.body.len() < 1000, "{}", reply.body.len());
        }
    }
}
