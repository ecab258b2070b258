//! Peers that ask for arithmetic: clients are answered meanwhile, and honest peers get their turns.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use talaria_cert::{Cert, View};
use talaria_recon::{Digest, GossipMessage, Prefix, PrefixTree};

use crate::clients::greeting;
use crate::site::{Site, generated, gossiping, wait_for};
use crate::thousand::p99_of_others;
use crate::{alone, assert_serves};

/// Hostile peers.
const HOSTILE: u8 = 4;

/// The certificates that only the honest peer has, in the usual and in the full run.
const DIFFERENCES: [u64; 2] = [10_000, 100_000];

/// The time in which 99 of 100 look-ups are answered beside hostile peers.
const ANSWERED: Duration = Duration::from_millis(100);

/// A hostile peer at an address of its own. To everybody who begins an exchange, it sends requests
/// without a pause, and reads nothing of the answers. Returns its address, and the number of
/// exchanges.
fn hostile(number: u8, requests: Arc<Vec<u8>>) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 4, number], 0))).unwrap();
    let address = listener.local_addr().unwrap();
    let begun = Arc::new(AtomicUsize::new(0));
    let exchanges = Arc::clone(&begun);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            exchanges.fetch_add(1, Ordering::SeqCst);
            let mut answers = stream.try_clone().unwrap();
            let reading = thread::spawn(move || {
                let mut buffer = vec![0; 64 << 10];
                while answers.read(&mut buffer).is_ok_and(|n| n > 0) {}
            });
            if stream.write_all(&greeting()).is_ok() {
                while stream.write_all(&requests).is_ok() {}
            }
            reading.join().unwrap();
        }
    });
    (address, begun)
}

/// Requests whose five differences from these certificates factor, for as many bytes as a server
/// reads at once.
fn factorable(digests: impl IntoIterator<Item = [u8; 16]>) -> Vec<u8> {
    let digests: Vec<Digest> = digests.into_iter().map(Digest).collect();
    let len = u32::try_from(digests.len() + 5).unwrap();
    let more = (1..=5).map(|n| Digest([n; 16]));
    let values =
        Box::new(PrefixTree::build(digests.into_iter().chain(more)).at(Prefix::ROOT).values());
    let mut requests = Vec::new();
    while requests.len() < 16 << 10 {
        let (prefix, values) = (Prefix::ROOT, values.clone());
        GossipMessage::Poly { prefix, len, values }.encode(&mut requests);
    }
    GossipMessage::Flush.encode(&mut requests);
    requests
}

/// A server in a process of its own, and hostile peers with which it has begun exchanges.
fn under_attack(own: &[Cert]) -> (Site, Vec<Arc<AtomicUsize>>) {
    let server = Site::apart(own, gossiping());
    let requests = Arc::new(factorable(server.digests(View::Sks)));
    let begun: Vec<Arc<AtomicUsize>> = (1..=HOSTILE)
        .map(|number| {
            let (address, begun) = hostile(number, Arc::clone(&requests));
            server.add_peer(address, View::Sks);
            begun
        })
        .collect();
    wait_for("exchanges with all hostile peers", || {
        begun.iter().all(|begun| begun.load(Ordering::SeqCst) > 0)
    });
    (server, begun)
}

#[test]
fn hostile_peers_delay_no_look_up_and_are_left_alone() {
    let _alone = alone();
    let certs = generated(20);
    let (server, begun) = under_attack(&certs);
    let began = Instant::now();
    let is_enough = || began.elapsed() > Duration::from_secs(8);
    let p99 = p99_of_others(&server, &certs[0], is_enough);
    eprintln!("beside {HOSTILE} hostile peers, p99 of look-ups {p99:?}");
    assert!(p99 < ANSWERED, "{p99:?}");
    // Each has taken its share of CPU time, and gets no exchange until it has some again.
    wait_for("failures", || server.metric("gossip_exchanges_failed_total") >= HOSTILE.into());
    let before = server.process().cpu();
    thread::sleep(Duration::from_secs(2));
    let taken = server.process().cpu().saturating_sub(before);
    assert!(taken < Duration::from_millis(600), "{taken:?} in 2 s");
    let all: usize = begun.iter().map(|begun| begun.load(Ordering::SeqCst)).sum();
    assert!(all <= 2 * usize::from(HOSTILE), "{all} exchanges");
    assert_serves(&server, &certs[0]);
}

/// The time in which a server gets all certificates of an honest peer.
fn caught_up(server: &Site, honest: &Site, all: u64) -> Duration {
    let began = Instant::now();
    server.add_peer(honest.gossip.unwrap(), View::Sks);
    wait_for("all certificates", || {
        thread::sleep(Duration::from_millis(200));
        server.metric("certs") >= all
    });
    began.elapsed()
}

#[test]
fn hostile_peers_slow_an_honest_one_by_half_at_most() {
    let _alone = alone();
    let count = talaria_needs::short_or_full(DIFFERENCES[0], DIFFERENCES[1]);
    let certs = generated(count);
    let mut settings = gossiping();
    settings.gossip.interval_s = 1e6;
    let honest = Site::apart(&certs, settings);
    honest.add_peer(SocketAddr::from(([127, 0, 0, 1], 9)), View::Sks);
    let alone = caught_up(&Site::apart(&certs[..20], gossiping()), &honest, count);
    let (server, begun) = under_attack(&certs[..20]);
    let beside = caught_up(&server, &honest, count);
    let exchanges: usize = begun.iter().map(|begun| begun.load(Ordering::SeqCst)).sum();
    eprintln!(
        "{count} differences: {alone:?} alone, {beside:?} beside {exchanges} hostile exchanges"
    );
    assert!(beside < 2 * alone, "{beside:?} beside hostile peers, {alone:?} alone");
}
