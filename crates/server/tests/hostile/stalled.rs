//! Uploads that stall: they do not keep the memory that other uploads need.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::alone;
use crate::clients::{connect_from, forged};
use crate::site::{Site, config, generated, wait_for};

/// Networks with a stalled upload, and the bytes of each. Together they leave too little of 36 MiB
/// for the honest upload.
const NETWORKS: u8 = 15;
const EACH: usize = 2_480_000;

/// An upload of which all but the last bytes are sent.
fn unfinished(server: &Site, from: [u8; 4], sent: usize, missing: usize) -> TcpStream {
    let mut stream = connect_from(from, server.http);
    let length = sent + missing;
    let head = format!("POST /pks/add HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(&vec![b'a'; sent]).unwrap();
    stream
}

/// The start of the answer.
fn status(stream: &mut TcpStream) -> String {
    let mut said = [0; 12];
    stream.read_exact(&mut said).unwrap();
    String::from_utf8_lossy(&said).into_owned()
}

#[test]
fn stalled_uploads_of_many_networks_leave_room_for_an_honest_one() {
    let _alone = alone();
    let certs = generated(1);
    let honest = forged(&certs[0], 1000, 870);
    assert!((850_000..950_000).contains(&honest.len()), "{} bytes", honest.len());
    let mut config = config();
    config.policy.foreign_signatures = 100_000;
    let (total, time) = (config.http.requests_bytes, Duration::from_secs(config.http.timeout_s));
    let server = Site::with(&certs, config);
    let began = Instant::now();
    // A short upload may take a break.
    let mut short = unfinished(&server, [127, 0, 1, 1], 30_000, 10_000);
    let mut stalled: Vec<TcpStream> =
        (1..=NETWORKS).map(|n| unfinished(&server, [127, 0, 0, 100 + n], EACH, 1)).collect();
    let held = usize::from(NETWORKS) * EACH;
    assert!(total - held < honest.len());
    wait_for("all is held", || server.metric("request_bytes") > held as u64);
    let reply = server.offer(&honest);
    assert_eq!(reply.status, 200, "{}", reply.text());
    // The stalled uploads had more time of their own.
    assert!(began.elapsed() < time / 2, "{:?}", began.elapsed());
    short.write_all(&[b'a'; 10_000]).unwrap();
    assert_eq!(status(&mut short), "HTTP/1.1 422");
    // Some of the stalled ones have made room.
    let mut said = [0; 12];
    let ended = stalled.iter_mut().filter_map(|stream| {
        stream.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
        stream.read_exact(&mut said).ok().filter(|()| said == *b"HTTP/1.1 408")
    });
    assert!((1..=8).contains(&ended.count()));
}

#[test]
fn a_stalled_upload_ends_only_if_others_need_its_memory() {
    let server = Site::with(&[], config());
    let mut stream = unfinished(&server, [127, 0, 0, 1], 300_000, 100);
    std::thread::sleep(Duration::from_secs(5));
    stream.write_all(&[b'a'; 100]).unwrap();
    assert_eq!(status(&mut stream), "HTTP/1.1 422");
}
