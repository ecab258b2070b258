//! Gossip between real servers: with SKS, with talaria in several views, and with lying peers.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::site::peer::Peer;
use crate::site::sks::{self, Sks};
use crate::site::{NOW, Site, generated, gossiping, wait_for};
use talaria_cert::{BATCH_BYTES, Cert, Splitter, Tag, View};
use talaria_needs::free_port;
use talaria_recon::{Digest, PrefixTree};
use talaria_server::GossipPeer;
use talaria_store::{Return, Store};

/// Keyrings with certificates that SKS stores unchanged.
const RINGS: [&str; 2] =
    ["/usr/share/keyrings/debian-nonupload.gpg", "/usr/share/keyrings/debian-maintainers.gpg"];

/// Certificates of a keyring.
fn ring(path: &str) -> Vec<Cert> {
    let mut certs = Vec::new();
    let mut splitter = Splitter::new(fs::File::open(path).unwrap(), BATCH_BYTES);
    while let Some(batch) = splitter.next_batch().unwrap() {
        certs.extend(batch.certs().map(|(_, raw)| Cert::parse(raw).unwrap()));
    }
    certs
}

/// Real certificates; none if a required program is not installed.
fn real_certs(needs_sks: bool) -> Option<Vec<Cert>> {
    let missing = RINGS.iter().any(|ring| !Path::new(ring).exists());
    if missing || needs_sks && !sks::is_installed() {
        talaria_needs::left_out("sks or debian-keyring");
        return None;
    }
    let mut certs: Vec<Cert> = RINGS.into_iter().flat_map(ring).collect();
    certs.sort_by_key(Cert::fingerprint);
    certs.dedup_by_key(|cert| cert.fingerprint());
    assert!(certs.len() > 200, "{} certificates are too few", certs.len());
    Some(certs)
}

/// The certificate without every second third-party signature.
fn thinned(cert: &Cert, odd: usize) -> Cert {
    let own = cert.fingerprint().key_id();
    cert.retain(|at, packet| {
        packet.tag != Tag::SIGNATURE
            || at % 2 == odd
            || talaria_cert::Signature::parse(packet.body).is_some_and(|s| s.names(own))
    })
}

/// Certificates for two servers: each has some that the other lacks, and every tenth of the
/// common ones differs.
fn two_parts(certs: &[Cert], only: usize) -> [Vec<Cert>; 2] {
    let shared = only..certs.len() - only;
    let part = |odd: usize| {
        let copies = certs.iter().enumerate().map(|(at, cert)| match at % 10 {
            3 if shared.contains(&at) => thinned(cert, odd),
            _ => cert.clone(),
        });
        copies.collect::<Vec<_>>()
    };
    let [mut ours, mut theirs] = [part(0), part(1)];
    ours.truncate(certs.len() - only);
    theirs.drain(..only);
    [ours, theirs]
}

fn tree(digests: &BTreeSet<[u8; 16]>) -> PrefixTree {
    PrefixTree::build(digests.iter().copied().map(Digest))
}

fn sks_digests(certs: &[Cert]) -> BTreeSet<[u8; 16]> {
    certs.iter().map(Cert::sks_digest).collect()
}

/// The side that starts the exchanges.
enum Begins {
    Sks,
    We,
}

fn converges_with_sks(begins: &Begins) {
    let Some(certs) = real_certs(true) else { return };
    let [ours, theirs] = two_parts(&certs, 40);
    let folder = tempfile::tempdir().unwrap();
    let mut config = gossiping();
    // SKS fetches certificates from our gossip address, and from the address of our connections.
    config.http.listen = vec!["0.0.0.0:0".parse().unwrap()];
    // SKS connects to 127.0.0.2 and lets 127.0.0.1 connect.
    config.gossip.listen = vec!["127.0.0.2:0".parse().unwrap()];
    let membership = folder.path().join("membership");
    fs::write(&membership, "# none yet\n").unwrap();
    config.gossip.membership = Some(membership.clone());
    if matches!(begins, Begins::Sks) {
        config.gossip.interval_s = 1e6;
    }
    let server = Site::with(&ours, config);
    let nowhere = SocketAddr::from(([127, 0, 0, 2], 9));
    let local = SocketAddr::from(([127, 0, 0, 1], 9));
    let sks = match begins {
        // At the address to which SKS may connect, there is no server.
        Begins::We => Sks::start(folder.path(), &theirs, &[nowhere, local]),
        Begins::Sks => Sks::start(folder.path(), &theirs, &[server.gossip.unwrap(), local]),
    };
    match begins {
        Begins::We => server.add_peer(sks.recon, View::Sks),
        Begins::Sks => {
            let line = format!("{}\t{} # an SKS\n", sks.recon.ip(), sks.recon.port());
            fs::write(&membership, line).unwrap();
        }
    }
    let whole = sks_digests(&certs);
    wait_for("we have all that SKS had", || server.digests(View::Sks) == whole);
    wait_for("SKS has all that we had", || sks.has(&tree(&whole)));
    let has_ended = || server.peer(sks.recon)["exchanges"].as_u64().unwrap() > 0;
    wait_for("an exchange is counted", has_ended);
    // The handshake says 1.1.6 for every Hockeypuck, too.
    let names_itself = || {
        let version = &server.peer(sks.recon)["version"];
        version.as_str().is_some_and(|version| version.starts_with("sks_www/1."))
    };
    wait_for("the peer names its software", names_itself);
    let peer = server.peer(sks.recon);
    // The certificates that we lacked, and the different ones that SKS had, too.
    assert!(peer["fetched"].as_u64().unwrap() >= 40, "{peer}");
    assert_eq!(server.metric("digests_sks"), whole.len() as u64);
}

#[test]
fn sks_and_talaria_converge_if_talaria_initiates() {
    converges_with_sks(&Begins::We);
}

#[test]
fn sks_and_talaria_converge_if_sks_initiates() {
    converges_with_sks(&Begins::Sks);
}

#[test]
fn two_servers_exchange_hundreds_of_differences_among_thousands() {
    let certs = generated(2300);
    let left = Site::with(&certs[..2000], gossiping());
    let right = Site::with(&certs[300..], gossiping());
    left.add_peer(right.gossip.unwrap(), View::Sks);
    right.add_peer(left.gossip.unwrap(), View::Sks);
    let whole = sks_digests(&certs);
    for server in [&left, &right] {
        wait_for("both have all", || server.digests(View::Sks) == whole);
    }
    for (server, peer) in [(&left, &right), (&right, &left)] {
        let peer = peer.gossip.unwrap();
        // Later exchanges only confirm that both sets are equal.
        wait_for("one request", || server.peer(peer)["last_requests"] == 1);
        let before = server.peer(peer)["exchanges"].as_u64().unwrap();
        wait_for("more exchanges", || server.peer(peer)["exchanges"].as_u64() > Some(before + 3));
        let status = server.peer(peer);
        assert_eq!((&status["last_requests"], &status["failing"]), (&1.into(), &0.into()));
        assert_eq!(server.metric("certs"), 2300);
    }
}

#[test]
fn one_server_gossips_in_two_views_concurrently() {
    let Some(certs) = real_certs(false) else { return };
    let third = certs.len() / 3;
    // Both peers connect from the same address and differ only in their handshake.
    let ours = Site::with(&certs[third / 2..2 * third], gossiping());
    let sks = Site::with(&two_parts(&certs[..2 * third], 0)[0], gossiping());
    let hockeypuck = Site::with(&two_parts(&certs[third..], 0)[1], gossiping());
    for (peer, view) in [(&sks, View::Sks), (&hockeypuck, View::Hockeypuck23)] {
        ours.add_peer(peer.gossip.unwrap(), view);
        peer.add_peer(ours.gossip.unwrap(), view);
    }
    let fingerprints = |server: &Site| server.metric("certs");
    wait_for("all have all certificates", || {
        [&ours, &sks, &hockeypuck].iter().all(|server| fingerprints(server) >= third as u64 * 3)
    });
    for (peer, view) in [(&sks, View::Sks), (&hockeypuck, View::Hockeypuck23)] {
        wait_for("the view of a peer", || {
            let digests = ours.digests(view);
            !digests.is_empty() && peer.digests(view) == digests
        });
    }
    // One view contains less than the other.
    assert_ne!(ours.digests(View::Sks), ours.digests(View::Hockeypuck23));
    for peer in [&sks, &hockeypuck] {
        let status = ours.peer(peer.gossip.unwrap());
        assert_eq!(status["failures"], 0, "{status}");
    }
}

#[test]
fn missing_certificates_are_requested_from_a_peer_rarely() {
    let certs = generated(210);
    let (ours, rest) = certs.split_at(200);
    // The peer announces one further certificate that it has, and some that do not exist.
    let honest = &rest[0];
    let invented: Vec<Digest> = (1..=5).map(|n| Digest([n; 16])).collect();
    let announced = tree(&sks_digests(&[ours, &rest[..1]].concat()));
    let announced: Vec<Digest> = announced.iter().chain(invented.iter().copied()).collect();
    let peer = Peer::start(&announced, vec![honest.clone()]);
    let server = Site::with(ours, gossiping());
    server.add_peer(peer.gossip, View::Sks);
    wait_for("some exchanges", || peer.exchanges() >= 6);
    assert_eq!(server.metric("certs"), 201);
    let asked = peer.asked();
    for digest in &invented {
        let times = asked.iter().filter(|asked| *asked == digest).count();
        // Once with others, of which one arrived, and once again.
        assert!((1..=2).contains(&times), "{digest}: {times}");
    }
    assert_eq!(asked.iter().filter(|digest| digest.0 == honest.sks_digest()).count(), 1);
    assert_eq!(server.metric("gossip_unobtainable"), 5);
}

#[test]
fn substituted_certificates_are_kept_and_not_requested_again() {
    let certs = generated(203);
    let (ours, others) = certs.split_at(200);
    let invented: Vec<Digest> = (1..=3).map(|n| Digest([n; 16])).collect();
    let announced = tree(&sks_digests(ours));
    let announced: Vec<Digest> = announced.iter().chain(invented.iter().copied()).collect();
    let peer = Peer::start(&announced, others.to_vec()).with_anything();
    let server = Site::with(ours, gossiping());
    server.add_peer(peer.gossip, View::Sks);
    wait_for("some exchanges", || peer.exchanges() >= 6);
    assert_eq!(server.metric("certs"), 203);
    assert_eq!(peer.asked().len(), 3);
}

#[test]
fn a_peer_that_delivers_something_else_keeps_no_certificate_away() {
    let certs = generated(205);
    let (ours, others) = certs.split_at(200);
    let (wanted, others) = others.split_at(1);
    let announced: Vec<Digest> = tree(&sks_digests(&[ours, wanted].concat())).iter().collect();
    let liar = Peer::start(&announced, others.to_vec()).with_anything().with_at_most(1);
    let server = Site::with(ours, gossiping());
    server.add_peer(liar.gossip, View::Sks);
    wait_for("the liar is asked", || liar.exchanges() >= 3);
    assert_eq!(server.store().keyserver().unobtainable_count().unwrap(), 1);
    assert!(!server.digests(View::Sks).contains(&wanted[0].sks_digest()));
    let honest = Peer::start(&announced, wanted.to_vec());
    server.add_peer(honest.gossip, View::Sks);
    wait_for("it comes from another peer", || {
        server.digests(View::Sks).contains(&wanted[0].sks_digest())
    });
    // The liar was asked for it once.
    let digest = wanted[0].sks_digest();
    assert_eq!(liar.asked().iter().filter(|asked| asked.0 == digest).count(), 1);
}

#[test]
fn a_reply_with_more_certificates_than_were_asked_for_is_refused() {
    let certs = generated(205);
    let (ours, others) = certs.split_at(200);
    let announced: Vec<Digest> = tree(&sks_digests(&certs[..201])).iter().collect();
    let liar = Peer::start(&announced, others.to_vec()).with_anything();
    let server = Site::with(ours, gossiping());
    server.add_peer(liar.gossip, View::Sks);
    wait_for("the liar is asked", || liar.exchanges() >= 3 && !liar.asked().is_empty());
    assert_eq!(server.metric("certs"), 200);
    // It keeps nothing away.
    let honest = Peer::start(&announced, others[..1].to_vec());
    server.add_peer(honest.gossip, View::Sks);
    wait_for("it comes from another peer", || server.metric("certs") == 201);
}

#[test]
fn partial_answers_are_completed_by_another_request() {
    let certs = generated(260);
    let (ours, theirs) = certs.split_at(200);
    let announced: Vec<Digest> = tree(&sks_digests(&certs)).iter().collect();
    // An answer has at most seven certificates, whatever was requested.
    let peer = Peer::start(&announced, theirs.to_vec()).with_at_most(7);
    let server = Site::with(ours, gossiping());
    server.add_peer(peer.gossip, View::Sks);
    let whole = sks_digests(&certs);
    wait_for("all came", || server.digests(View::Sks) == whole);
    assert_eq!(server.store().keyserver().unobtainable_count().unwrap(), 0);
}

#[test]
fn an_answer_above_the_limit_is_asked_for_in_parts() {
    let certs = generated(20);
    let largest = certs.iter().map(|cert| cert.as_bytes().len()).max().unwrap();
    let all: usize = certs.iter().map(|cert| cert.as_bytes().len()).sum();
    let mut config = gossiping();
    // Room for three of them, but not for the large one.
    config.gossip.fetch_bytes = 3 * largest;
    let large = with_long_names(&certs[0], 4 * largest);
    let mut announced: Vec<Cert> = certs[1..].to_vec();
    announced.push(large);
    let digests: Vec<Digest> = announced.iter().map(|cert| Digest(cert.sks_digest())).collect();
    assert!(all > 2 * config.gossip.fetch_bytes);
    let peer = Peer::start(&digests, announced);
    let site = Site::start(config);
    site.add_peer(peer.gossip, View::Sks);
    wait_for("the small ones", || site.digests(View::Sks).len() == 19);
    // The large one is not asked for again and again.
    let large = digests[19];
    let seen = peer.exchanges();
    wait_for("two more exchanges", || peer.exchanges() >= seen + 2);
    let times = || peer.asked().iter().filter(|digest| **digest == large).count();
    let before = times();
    let seen = peer.exchanges();
    wait_for("two more exchanges", || peer.exchanges() >= seen + 2);
    assert_eq!(times(), before);
}

#[test]
fn an_endless_reply_ends_the_exchange_after_few_requests() {
    let certs = generated(20);
    let invented = (0..100u8).map(|n| Digest([n; 16]));
    let announced: Vec<Digest> = tree(&sks_digests(&certs)).iter().chain(invented).collect();
    let garbage = [&1_000_000u32.to_be_bytes()[..], &vec![0; 1_000_000]].concat();
    let endless: [(&[u8], &str); 3] = [
        // Certificates without bytes, and then more of them than were requested.
        (&[0; 4096], "not a list"),
        // Each certificate has 1 GiB.
        (&[0x40, 0, 0, 0], "the answer of"),
        // Many that cannot be read, one in each answer.
        (&garbage, "the answers of"),
    ];
    for (bytes, cause) in endless {
        let liar = Peer::start(&announced, Vec::new()).with_endless(bytes);
        let mut config = gossiping();
        config.gossip.fetch_bytes = 1 << 20;
        let server = Site::with(&certs, config);
        server.add_peer(liar.gossip, View::Sks);
        wait_for("a failure", || server.peer(liar.gossip)["failures"].as_u64() >= Some(1));
        let requests = liar.requests() as u64;
        let status = server.peer(liar.gossip);
        let failures = status["failures"].as_u64().unwrap();
        // The last exchange may be running.
        assert!(requests <= 10 * (failures + 1), "{requests} requests, {status}");
        assert!(status["last_error"].as_str().unwrap().contains(cause), "{cause}: {status}");
    }
}

#[test]
fn a_certificate_above_the_limit_is_passed_over_and_the_others_come() {
    let mut certs = generated(20);
    let mut config = gossiping();
    config.gossip.fetch_bytes = 1 << 20;
    // Three large ones stand before the others in each answer.
    for cert in &mut certs[..3] {
        *cert = with_long_names(cert, 1 << 20);
    }
    let digests: Vec<Digest> = certs.iter().map(|cert| Digest(cert.sks_digest())).collect();
    let peer = Peer::start(&digests, certs);
    let site = Site::start(config);
    site.add_peer(peer.gossip, View::Sks);
    wait_for("the small ones", || site.digests(View::Sks).len() == 17);
    wait_for("the peer is well", || {
        let status = site.peer(peer.gossip);
        status["failing"] == 0 && status["exchanges"].as_u64() > Some(0)
    });
    assert_eq!(site.store().keyserver().unobtainable_count().unwrap(), 3);
}

#[test]
fn a_certificate_with_too_many_packets_keeps_no_other_away() {
    let mut certs = generated(205);
    let tiny = |raw: &mut Vec<u8>, number: u32| {
        raw.extend([0xc0 | Tag::USER_ID.0, 4]);
        raw.extend(number.to_be_bytes());
    };
    let mut raw = certs[204].as_bytes().to_vec();
    (0..5000).for_each(|number| tiny(&mut raw, number));
    certs[204] = Cert::parse(&raw).unwrap();
    let announced: Vec<Digest> = tree(&sks_digests(&certs)).iter().collect();
    let peer = Peer::start(&announced, certs[200..].to_vec());
    let server = Site::with(&certs[..200], gossiping());
    server.add_peer(peer.gossip, View::Sks);
    wait_for("some exchanges", || peer.exchanges() >= 6);
    assert_eq!(server.metric("certs"), 204);
    assert_eq!(server.store().keyserver().unobtainable_count().unwrap(), 1);
    assert_eq!(server.peer(peer.gossip)["failures"], 0);
}

/// The certificate with user IDs of so many bytes that nobody has bound.
fn with_long_names(cert: &Cert, bytes: usize) -> Cert {
    let mut raw = cert.as_bytes().to_vec();
    for number in 0..bytes.div_ceil(1000) {
        let name = format!("{number:01000}");
        raw.extend([0xc0 | Tag::USER_ID.0, 255]);
        raw.extend(u32::try_from(name.len()).unwrap().to_be_bytes());
        raw.extend(name.bytes());
    }
    Cert::parse(&raw).unwrap()
}

#[test]
fn a_blocked_certificate_does_not_return_by_gossip() {
    let certs = generated(203);
    let gone = [certs[0].fingerprint(), certs[1].fingerprint()];
    let peer = Peer::start(&tree(&sks_digests(&certs)).iter().collect::<Vec<_>>(), certs.clone());
    let server = Site::with(&certs[..200], gossiping());
    server.store().delete(&gone, Return::Blocked, NOW.into()).unwrap();
    server.add_peer(peer.gossip, View::Sks);
    wait_for("some exchanges", || peer.exchanges() >= 6 && server.metric("certs") == 201);
    let store: Store = server.store();
    for fingerprint in gone {
        assert!(store.get(fingerprint).unwrap().is_none());
    }
    // The two that are blocked and the three that are new, each once.
    let mut asked = peer.asked();
    asked.sort();
    let expected: BTreeSet<Digest> = [&certs[..2], &certs[200..]]
        .concat()
        .iter()
        .map(|cert| Digest(cert.sks_digest()))
        .collect();
    assert_eq!(asked, expected.into_iter().collect::<Vec<_>>());
}

#[test]
fn gossip_resumes_with_a_peer_that_was_down() {
    let certs = generated(30);
    let ours = Site::with(&certs[..20], gossiping());
    let port = SocketAddr::from(([127, 0, 0, 1], free_port()));
    ours.add_peer(port, View::Sks);
    wait_for("it fails", || ours.peer(port)["failing"].as_u64() >= Some(2));
    let status = ours.peer(port);
    assert_eq!(status["exchanges"], 0, "{status}");
    assert!(status["last_error"].as_str().unwrap().contains("cannot connect"), "{status}");
    let mut config = gossiping();
    config.gossip.listen = vec![port];
    let theirs = Site::with(&certs[10..], config);
    theirs.add_peer(ours.gossip.unwrap(), View::Sks);
    let whole = sks_digests(&certs);
    for server in [&ours, &theirs] {
        wait_for("both have all", || server.digests(View::Sks) == whole);
    }
    wait_for("it is well again", || ours.peer(port)["failing"] == 0);
}

#[test]
fn gossip_is_refused_to_other_addresses_than_peers() {
    let certs = generated(10);
    let ours = Site::with(&certs, gossiping());
    let strangers = Site::with(&generated(12)[2..], gossiping());
    // We are their peer, and they are not our peers.
    strangers.add_peer(ours.gossip.unwrap(), View::Sks);
    let us = ours.gossip.unwrap();
    wait_for("they try", || strangers.peer(us)["failing"].as_u64() >= Some(1));
    assert_eq!((ours.metric("certs"), strangers.metric("certs")), (10, 10));
}

/// A peer that sends one byte now and then, of a message that does not end.
fn drip(mut stream: TcpStream) {
    // Nothing is wrong with it so far: it may be a configuration.
    let endless = [&[0, 0, 63, 0, 10][..], &[0; 4096]].concat();
    for byte in endless {
        if stream.write_all(&[byte]).is_err() {
            return;
        }
        thread::sleep(Duration::from_millis(200));
    }
}

/// An address of a peer of its own, at which nobody listens yet.
fn address(ip: [u8; 4]) -> SocketAddr {
    TcpListener::bind(SocketAddr::from((ip, 0))).unwrap().local_addr().unwrap()
}

#[test]
fn dripping_peers_hold_up_nobody_and_end() {
    const DRIPPING: [u8; 4] = [127, 0, 0, 7];
    let certs = generated(300);
    let mut config = gossiping();
    config.gossip.timeout_s = 1;
    let ours = Site::with(&certs[..200], config);
    let dripper = TcpListener::bind(SocketAddr::from((DRIPPING, 0))).unwrap();
    let name = dripper.local_addr().unwrap();
    ours.add_peer(name, View::Sks);
    let called = Arc::new(AtomicUsize::new(0));
    let calls = Arc::clone(&called);
    thread::spawn(move || {
        for stream in dripper.incoming() {
            calls.fetch_add(1, Ordering::SeqCst);
            thread::spawn(move || drip(stream.unwrap()));
        }
    });
    // It calls, too, more often than all exchanges from its address may be.
    let us = ours.gossip.unwrap();
    let calling: Vec<_> = (0..12)
        .map(|_| {
            thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
                let stream = runtime.unwrap().block_on(async {
                    let socket = tokio::net::TcpSocket::new_v4().unwrap();
                    socket.bind(SocketAddr::from((DRIPPING, 0))).unwrap();
                    socket.connect(us).await.unwrap().into_std().unwrap()
                });
                stream.set_nonblocking(false).unwrap();
                drip(stream);
            })
        })
        .collect();
    wait_for("the dripping peer is called", || called.load(Ordering::SeqCst) > 0);
    let began = Instant::now();
    let theirs = Site::with(&certs[100..], gossiping());
    ours.add_peer(theirs.gossip.unwrap(), View::Sks);
    theirs.add_peer(us, View::Sks);
    let whole = sks_digests(&certs);
    for server in [&ours, &theirs] {
        wait_for("both have all", || server.digests(View::Sks) == whole);
    }
    eprintln!("both had all after {:?}", began.elapsed());
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    // None of the exchanges with the dripping peer has ended: it was called once.
    assert_eq!(called.load(Ordering::SeqCst), 1);
    assert_eq!(ours.peer(name)["exchanges"].as_u64().unwrap_or(0), 0);
    // It never makes us wait for longer than a second, and all of an exchange has 20.
    wait_for("they end", || ours.peer(name)["failures"].as_u64() >= Some(2));
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    let status = ours.peer(name);
    assert!(status["last_error"].as_str().unwrap().contains("in time"), "{status}");
    for caller in calling {
        caller.join().unwrap();
    }
}

#[test]
fn a_certificate_that_two_peers_announce_is_fetched_from_one() {
    let certs = generated(230);
    let announced: Vec<Digest> = tree(&sks_digests(&certs)).iter().collect();
    let slow = |pause_ms| {
        let peer = Peer::start(&announced, certs[200..].to_vec());
        peer.with_pause(Duration::from_millis(pause_ms))
    };
    // In three requests each. The slowest one ends its first when another one has had the rest.
    let peers = [slow(2000), slow(2000), slow(200)];
    let mut config = gossiping();
    config.gossip.interval_s = 0.1;
    config.gossip.fetch_certs = 10;
    let server = Site::with(&certs[..200], config);
    for peer in &peers {
        server.add_peer(peer.gossip, View::Sks);
    }
    wait_for("exchanges with all", || peers.iter().all(|peer| peer.exchanges() >= 2));
    wait_for("all came", || server.metric("certs") == 230);
    let mut asked: Vec<Digest> = peers.iter().flat_map(Peer::asked).collect();
    asked.sort();
    let expected: BTreeSet<Digest> =
        certs[200..].iter().map(|cert| Digest(cert.sks_digest())).collect();
    assert_eq!(asked, expected.into_iter().collect::<Vec<_>>());
}

#[test]
fn a_repeated_exchange_with_nothing_new_logs_nothing() {
    let certs = generated(210);
    // One peer has what we have, and another one announces what it never delivers.
    let theirs = Site::with(&certs, gossiping());
    let announced = tree(&sks_digests(&certs));
    let invented = (1..=3).map(|n| Digest([n; 16]));
    let announced: Vec<Digest> = announced.iter().chain(invented).collect();
    let in_vain = Peer::start(&announced, Vec::new());
    let mut config = gossiping();
    config.log.level = "info".into();
    let ours = Site::apart(&certs[..200], config);
    ours.add_peer(theirs.gossip.unwrap(), View::Sks);
    theirs.add_peer(ours.gossip.unwrap(), View::Sks);
    wait_for("all came", || ours.metric("certs") == 210);
    ours.add_peer(in_vain.gossip, View::Sks);
    wait_for("it is given up", || ours.metric("gossip_unobtainable") == 3);
    let exchanges = || {
        let by = |address| ours.peer(address)["exchanges"].as_u64().unwrap_or(0);
        (by(theirs.gossip.unwrap()), by(in_vain.gossip))
    };
    let more = |wanted: u64| {
        let (first, second) = exchanges();
        wait_for("more exchanges", || {
            let (now, then) = exchanges();
            now >= first + wanted && then >= second + wanted
        });
    };
    more(2);
    let before = ours.process().log();
    assert!(before.contains("exchange"), "{before}");
    more(6);
    let log = ours.process().log();
    assert_eq!(log, before, "{}", &log[before.len()..]);
}

/// A server that begins no exchange and has a log.
fn listening(level: &str, addresses: bool) -> Site {
    let mut config = gossiping();
    config.gossip.interval_s = 1e6;
    (config.log.level, config.log.addresses) = (level.into(), addresses);
    Site::apart(&[], config)
}

#[test]
fn strangers_do_not_fill_the_log() {
    for (level, addresses) in [("info", true), ("debug", false), ("debug", true)] {
        let server = listening(level, addresses);
        for _ in 0..20 {
            drop(TcpStream::connect(server.gossip.unwrap()).unwrap());
        }
        wait_for("all are counted", || server.metric("gossip_strangers_total") == 20);
        let log = server.whole_log();
        let lines: Vec<&str> =
            log.lines().filter(|line| line.contains("refused an exchange")).collect();
        let named = lines.iter().filter(|line| line.contains("127.0.0.1")).count();
        let expected = if level == "info" { 0 } else { 20 };
        assert_eq!(lines.len(), expected, "{log}");
        assert_eq!(named, if addresses { expected } else { 0 }, "{log}");
    }
}

#[test]
fn a_peer_does_not_fill_the_log() {
    let server = listening("info", false);
    server.add_peer(SocketAddr::from(([127, 0, 0, 1], 9)), View::Sks);
    let lie = |bytes: &[u8], failures| {
        // Of those that come at the same time, some get no turn.
        wait_for("failures", || {
            let mut stream = TcpStream::connect(server.gossip.unwrap()).unwrap();
            stream.write_all(bytes).unwrap();
            drop(stream);
            server.metric("gossip_exchanges_failed_total") >= failures
        });
    };
    // A text of the peer is another one each time, and the cause is the same.
    for (number, failures) in (0..10).zip(10..) {
        lie(&[0, 0, 0, 6, 7, 0, 0, 0, 1, b'a' + number], failures);
    }
    // A type that there is not.
    lie(&[0, 0, 0, 1, 11], 30);
    let log = server.whole_log();
    let failures = log.lines().filter(|line| line.contains("an exchange failed"));
    let failures: Vec<&str> = failures.collect();
    assert!((2..=4).contains(&failures.len()), "{log}");
    for cause in ["the peer reported", "malformed"] {
        assert_eq!(failures.iter().filter(|line| line.contains(cause)).count(), 1, "{log}");
    }
}

/// A certificate whose key is one for DSA with 4,096 bits, and that has signatures in the name of
/// this key. Each `number` is another key.
fn costly(number: u8, signatures: u32) -> Cert {
    let mut raw = Vec::new();
    let mut write = |tag: Tag, body: &[u8]| {
        raw.extend([0xc0 | tag.0, 255]);
        raw.extend(u32::try_from(body.len()).unwrap().to_be_bytes());
        raw.extend_from_slice(body);
    };
    let mut key = vec![4, 0, 0, 0, number, 17];
    for bits in [4096u16, 512, 4096, 4096] {
        key.extend(bits.to_be_bytes());
        key.extend(vec![0xfb; usize::from(bits / 8)]);
    }
    write(Tag::PUBLIC_KEY, &key);
    write(Tag::USER_ID, b"Costly <costly@example.org>");
    for number in 0..signatures {
        let head = [4, 0x13, 17, 8, 0, 6, 5, 2, 0, 0, 0, 2, 0, 0, 0, 0];
        let numbers = [&[1, 0, 0x80][..], &number.to_be_bytes(), &[7; 27], &[0, 8, 0x80]].concat();
        write(Tag::SIGNATURE, &[&head[..], &numbers].concat());
    }
    Cert::parse(&raw).unwrap()
}

#[test]
fn a_costly_certificate_of_a_peer_is_left_out_and_the_others_come() {
    let certs = generated(205);
    let costly = costly(1, 500);
    assert!(costly.cost() > Duration::from_millis(1500), "{:?}", costly.cost());
    let theirs = [&certs[200..], std::slice::from_ref(&costly)].concat();
    let announced: Vec<Digest> =
        tree(&sks_digests(&[&certs[..200], &theirs].concat())).iter().collect();
    let peer = Peer::start(&announced, theirs);
    let mut config = gossiping();
    config.policy.upload_cpu_ms = 1000;
    let server = Site::with(&certs[..200], config);
    server.add_peer(peer.gossip, View::Sks);
    wait_for("some exchanges", || peer.exchanges() >= 6);
    assert_eq!(server.metric("certs"), 205);
    assert_eq!(server.metric("gossip_certs_too_costly_total"), 1);
    // It is not asked for again.
    let digest = costly.sks_digest();
    assert_eq!(peer.asked().iter().filter(|asked| asked.0 == digest).count(), 1);
}

#[test]
fn costly_certificates_of_a_peer_end_its_exchange_and_those_of_others_arrive() {
    let certs = generated(210);
    let (ours, theirs) = certs.split_at(200);
    let costly: Vec<Cert> = (1..=12).map(|number| costly(number, 250)).collect();
    let each = costly[0].cost();
    assert!((Duration::from_millis(800)..Duration::from_millis(980)).contains(&each), "{each:?}");
    let announced: Vec<Digest> = tree(&sks_digests(&[ours, &costly].concat())).iter().collect();
    let liar = Peer::start(&announced, costly);
    let announced: Vec<Digest> = tree(&sks_digests(&certs)).iter().collect();
    let honest = Peer::start(&announced, theirs.to_vec());
    let mut config = gossiping();
    config.policy.upload_cpu_ms = 1000;
    let server = Site::with(ours, config);
    server.add_peer(liar.gossip, View::Sks);
    wait_for("the liar is asked", || liar.requests() > 0);
    server.add_peer(honest.gossip, View::Sks);
    let wanted = sks_digests(theirs);
    wait_for("those of the other peer", || server.digests(View::Sks).is_superset(&wanted));
    wait_for("a failure", || server.peer(liar.gossip)["failures"].as_u64() >= Some(1));
    let status = server.peer(liar.gossip);
    assert!(status["last_error"].as_str().unwrap().contains("CPU time"), "{status}");
    assert_eq!(server.peer(honest.gossip)["failures"], 0);
    // Two of them cost as much as an exchange may. The others are not asked for at once again.
    let seen = liar.exchanges();
    wait_for("two more exchanges", || liar.exchanges() >= seen + 2);
    assert_eq!((server.metric("certs"), liar.requests()), (212, 1));
}

/// A server that knows peers, each with a view and filters of its own.
fn filtering(certs: &[Cert], gossip: SocketAddr, peers: &[(SocketAddr, View, &str)]) -> Site {
    let mut config = gossiping();
    config.gossip.listen = vec![gossip];
    let peer = |&(address, view, filters): &(SocketAddr, View, &str)| GossipPeer {
        host: address.ip().to_string(),
        port: address.port(),
        http_port: None,
        view: view.name().into(),
        filters: Some(filters.into()),
    };
    config.gossip.peers = peers.iter().map(peer).collect();
    Site::with(certs, config)
}

#[test]
fn each_peer_is_told_filters_of_its_own() {
    const ONE: &str = "talaria.one,talaria.more";
    const TWO: &str = "talaria.two,yminsky.dedup";
    let Some(certs) = real_certs(false) else { return };
    let third = certs.len() / 3;
    // All at the same address: the filters that a caller announces tell which one it is.
    let [ours, one, two, other] = [(); 4].map(|()| address([127, 0, 0, 1]));
    let know = [(one, View::Sks, ONE), (two, View::Hockeypuck23, TWO), (other, View::Sks, ONE)];
    let left = filtering(&certs[..third], ours, &know);
    let first = filtering(&certs[third..2 * third], one, &[(ours, View::Sks, ONE)]);
    let second = filtering(&certs[2 * third..], two, &[(ours, View::Hockeypuck23, TWO)]);
    // One whose operator believes in other filters than ours.
    let stray = filtering(&[], other, &[(ours, View::Sks, "talaria.three")]);
    let all = certs.len() as u64;
    wait_for("two peers have all", || {
        [&left, &first, &second].iter().all(|server| server.metric("certs") == all)
    });
    assert_eq!(left.digests(View::Sks), first.digests(View::Sks));
    wait_for("the view of the other one", || {
        left.digests(View::Hockeypuck23) == second.digests(View::Hockeypuck23)
    });
    wait_for("the last one is refused", || {
        stray.peer(ours)["failures"].as_u64() >= Some(2)
            && left.peer(other)["failures"].as_u64() >= Some(1)
    });
    assert_eq!(stray.metric("certs"), 0);
    for (server, peer) in [(&stray, ours), (&left, other)] {
        let status = server.peer(peer);
        assert_eq!(status["exchanges"], 0, "{status}");
        assert!(status["last_error"].as_str().unwrap().contains("filter"), "{status}");
    }
    for (server, peer) in [(&left, one), (&left, two), (&first, ours), (&second, ours)] {
        let status = server.peer(peer);
        assert!(status["exchanges"].as_u64() > Some(0), "{status}");
    }
}
