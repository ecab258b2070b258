//! Clients of HTTP/2 and of TLS that make the server keep or do much: answers that nobody reads,
//! frames that ask for nothing, and handshakes without an end.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use talaria_cert::{Cert, ThirdParty};

use crate::clients::{connect_from, forged, named};
use crate::site::{Site, config, connect, generated, get, wait_for};
use crate::thousand::{attack, reading_nothing};
use crate::{MIB, alone, assert_serves, http2, open_files, tls};

/// Networks of hostile clients, and the connections of each.
const NETWORKS: u8 = 14;
const EACH: usize = 200;

/// The memory beyond that when idle.
const MEMORY: u64 = 300_000_000;

/// The time in which answers that nobody takes give their memory back: the server waits for five
/// seconds, and the machine may have other work.
const BACK: Duration = Duration::from_secs(20);

/// A server that serves certificates as they are, in a process of its own: a usual one, and one
/// with each number of signatures of 900 bytes.
fn serving(signatures: &[u32]) -> (Site, Vec<Cert>) {
    let mut certs = generated(1);
    certs.extend(signatures.iter().map(|n| named(&[format!("<{n}@hostile.example>").as_bytes()])));
    let mut settings = config();
    settings.policy.foreign_signatures = 100_000;
    (settings.policy.served_foreign_signatures, settings.policy.own_signatures) = (4000, 100);
    settings.policy.third_party = ThirdParty::All;
    let server = Site::apart(&certs, settings.clone());
    for (cert, &n) in certs[1..].iter().zip(signatures) {
        let got = server.offer(&forged(cert, n, 900));
        assert_eq!(got.status, 200, "{}", got.text());
    }
    // Without the memory of these uploads.
    (Site::apart_in(server.stop(), &[], settings), certs)
}

fn path(cert: &Cert) -> String {
    format!("/pks/lookup?op=get&options=mr&search=0x{}", cert.fingerprint())
}

#[test]
fn large_certificates_that_nobody_reads_use_bounded_memory_and_give_it_back() {
    let _alone = alone();
    let (server, certs) = serving(&[450, 3500]);
    let large: Vec<usize> =
        certs[1..].iter().map(|cert| server.get(&path(cert)).body.len()).collect();
    assert!((500_000..700_000).contains(&large[0]) && large[1] > 4_000_000, "{large:?}");
    let files = usize::try_from(open_files()).unwrap_or(usize::MAX);
    let each = EACH.min(files.saturating_sub(1000) / usize::from(NETWORKS));
    let paths: Vec<String> = certs[1..].iter().map(path).collect();
    server.process().forget_peak();
    let idle = server.process().resident();
    let (begun, all) = (Arc::new(AtomicUsize::new(0)), each * usize::from(NETWORKS));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    for client in 0..all {
        let from = [127, 0, 5, u8::try_from(client % usize::from(NETWORKS)).unwrap() + 1];
        let (address, begun) = (server.http, Arc::clone(&begun));
        let kind = reading_nothing(0, &paths);
        runtime.spawn(async move { attack(address, from, kind, client, &begun).await });
    }
    // Somebody else asks meanwhile, for the usual and for the large certificate.
    let (mut times, mut failed) = (Vec::new(), 0);
    while begun.load(Ordering::SeqCst) < all || times.len() < 300 {
        let asked = if times.len() % 10 == 9 { &paths[0] } else { &path(&certs[0]) };
        let began = Instant::now();
        failed += usize::from(get(server.http, asked).status != 200);
        times.push(began.elapsed());
        thread::sleep(Duration::from_millis(5));
    }
    times.sort();
    let p99 = times[times.len() * 99 / 100];
    let most = server.process().peak().saturating_sub(idle);
    eprintln!(
        "{all} clients: {} MiB more at most; {} look-ups of others, p99 {p99:?}, {failed} refused",
        most / MIB,
        times.len()
    );
    assert!(most < MEMORY, "{} MiB more", most / MIB);
    assert!(p99 < Duration::from_secs(1), "{p99:?}");
    assert!(failed * 100 <= times.len(), "{failed} of {} were refused", times.len());
    // The clients are still there, and their answers are not.
    let began = Instant::now();
    wait_for("the memory is free", || {
        server.metric("answer_bytes") < MIB
            && server.process().resident().saturating_sub(idle) < MEMORY / 2
    });
    assert!(began.elapsed() < BACK, "{:?}", began.elapsed());
    drop(runtime);
    assert_serves(&server, &certs[0]);
}

/// The frames that come until the connection ends: type, stream, and payload.
fn frames_until_end(stream: &mut TcpStream) -> Vec<(u8, u32, Vec<u8>)> {
    let mut frames = Vec::new();
    let mut head = [0; 9];
    while stream.read_exact(&mut head).is_ok() {
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; length as usize];
        if stream.read_exact(&mut payload).is_err() {
            break;
        }
        frames.push((head[3], u32::from_be_bytes(head[5..9].try_into().unwrap()), payload));
    }
    frames
}

#[test]
fn an_answer_that_stalls_ends_and_others_on_its_connection_do_not() {
    let (server, certs) = serving(&[450]);
    // No byte of the first answer may be sent, and all of the second one.
    let mut stream = connect(server.http);
    stream.write_all(&http2::opening(Some(0))).unwrap();
    stream.write_all(&http2::get(1, &path(&certs[1]))).unwrap();
    let began = Instant::now();
    wait_for("the answer is there", || server.metric("answer_bytes") > 500_000);
    wait_for("the answer is gone", || server.metric("answer_bytes") == 0);
    let took = began.elapsed();
    assert!((Duration::from_secs(4)..BACK).contains(&took), "{took:?}");
    stream.write_all(&http2::get(3, "/health")).unwrap();
    stream.write_all(&http2::frame(8, 0, 3, &1000_u32.to_be_bytes())).unwrap();
    wait_for("the other answer", || server.metric("answer_bytes") == 0);
    thread::sleep(Duration::from_millis(500));
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let frames = frames_until_end(&mut stream);
    let of = |stream: u32, kind: u8| frames.iter().filter(move |f| (f.1, f.0) == (stream, kind));
    assert_eq!(of(1, 3).count(), 1, "the first one was reset");
    let body: Vec<u8> = of(3, 0).flat_map(|(.., payload)| payload.clone()).collect();
    assert_eq!(body, b"ok\n");

    // With HTTP/1.1, the connection is the answer.
    let mut stream = connect_from([127, 0, 5, 99], server.http);
    let request = format!("GET {} HTTP/1.1\r\nhost: x\r\n\r\n", path(&certs[1]));
    stream.write_all(request.repeat(20).as_bytes()).unwrap();
    let began = Instant::now();
    wait_for("an answer waits", || server.metric("answer_bytes") > 500_000);
    wait_for("it does not wait any longer", || server.metric("answer_bytes") == 0);
    assert!(began.elapsed() < BACK, "{:?}", began.elapsed());
}

#[test]
fn frames_of_http_2_without_a_request_end_the_connection() {
    let _alone = alone();
    let (server, certs) = serving(&[]);
    let before = server.process().cpu();
    let floods = [
        ("SETTINGS", http2::frame(4, 0, 0, &[])),
        ("PING", http2::frame(6, 0, 0, &[1; 8])),
        ("PRIORITY", http2::frame(2, 0, 5, &[0, 0, 0, 0, 9])),
        ("WINDOW_UPDATE", http2::frame(8, 0, 0, &1_u32.to_be_bytes())),
        ("unknown", http2::frame(0xfa, 0, 0, &[0; 1000])),
    ];
    for (name, frame) in floods {
        let mut stream = connect(server.http);
        stream.write_all(&http2::opening(None)).unwrap();
        let mut answers = stream.try_clone().unwrap();
        let reading = thread::spawn(move || frames_until_end(&mut answers));
        let (began, mut sent) = (Instant::now(), 0);
        while stream.write_all(&frame.repeat(100)).is_ok() && sent < 2_000_000 {
            sent += 100;
        }
        assert!(began.elapsed() < Duration::from_secs(5), "{name}: {:?}", began.elapsed());
        assert!(sent < 2_000_000, "{name}: {sent} frames were taken");
        let frames = reading.join().unwrap();
        let calm = |(kind, _, payload): &(u8, u32, Vec<u8>)| {
            *kind == 7 && payload[4..8] == 0xb_u32.to_be_bytes()
        };
        assert!(frames.iter().any(calm), "{name}: no GOAWAY among {} frames", frames.len());
    }
    let taken = server.process().cpu().saturating_sub(before);
    eprintln!("five floods of frames: {taken:?} of CPU time");
    assert!(taken < Duration::from_millis(500), "{taken:?}");
    assert_serves(&server, &certs[0]);
}

/// The first bytes of a message of 65,000 bytes that a client begins a handshake with.
fn endless_hello() -> Vec<u8> {
    let message = [&[1, 0, 0xfd, 0xe8, 3, 3][..], &vec![7; 60_000]].concat();
    let records = message.chunks(16_000).flat_map(|part| {
        let length = u16::try_from(part.len()).unwrap().to_be_bytes();
        [&[22, 3, 1][..], &length, part].concat()
    });
    records.collect()
}

#[test]
fn handshakes_without_an_end_are_cut_off_and_use_little_memory() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let Some((certificate, key)) = tls::certificate(folder.path(), "server") else { return };
    let mut settings = config();
    settings.http.tls_certificate = Some(certificate.clone());
    settings.http.tls_key = Some(key);
    let server = Site::apart(&generated(1), settings);
    assert!(tls::Client::open(&server, &certificate).ask("/health").is_some());
    server.process().forget_peak();
    let idle = server.process().resident();
    let hello = endless_hello();
    let mut clients: Vec<TcpStream> = (0..1000_usize)
        .map(|client| {
            let from = [127, 0, 5, u8::try_from(client / EACH).unwrap() + 1];
            let mut stream = connect_from(from, server.http);
            // The server may have closed it by now.
            let _ = stream.write_all(&hello);
            stream
        })
        .collect();
    let began = Instant::now();
    for stream in &mut clients {
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
    }
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    let most = server.process().peak().saturating_sub(idle);
    eprintln!("1,000 endless handshakes: {} MiB more", most / MIB);
    assert!(most < 30 * MIB, "{} MiB more", most / MIB);
    assert!(tls::Client::open(&server, &certificate).ask("/health").is_some());
}
