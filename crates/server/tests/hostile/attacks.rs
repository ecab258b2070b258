//! Attacks by uploads on certificates of others: what is kept, what is served, and what GnuPG and
//! sq make of it.

use std::time::{Duration, SystemTime};

use sequoia_openpgp as openpgp;

use openpgp::Packet;
use openpgp::cert::{CertBuilder, CipherSuite};
use openpgp::packet::signature::SignatureBuilder;
use openpgp::packet::{Signature, key};
use openpgp::parse::Parse as _;
use openpgp::policy::StandardPolicy;
use openpgp::serialize::MarshalInto;
use openpgp::types::{KeyFlags, RevocationKey, SignatureType};
use talaria_cert::{Cert, Fingerprint, PacketRef, Tag, ThirdParty};

use crate::site::{
    Gpg, Site, assert_sq_reads, config, generated, gpg, home, newer_gpg, revocation, signer,
};
use crate::{MIB, alone, beside_others};

/// Memory of the server beyond that when idle, while the uploads of one attack run.
const MEMORY: u64 = 100 * MIB;

/// Bytes by which an attack makes the victim's certificate larger for clients.
const MORE_BYTES: usize = 512;

/// Runs an attack on the certificate of a victim, and returns its result and what the server then
/// serves of the certificate.
///
/// Meanwhile others are served as ever, and the server takes at most [`MEMORY`] more. Afterwards
/// GnuPG makes of the served certificate what it makes of the victim's own copy, and it is at most
/// [`MORE_BYTES`] larger.
pub(crate) fn under_attack<T: Send>(
    server: &Site,
    victim: &Cert,
    attack: impl FnOnce() -> T + Send,
) -> (T, Cert) {
    let _alone = alone();
    let others = generated(120);
    let process = server.process();
    process.forget_peak();
    let idle = process.resident();
    let result = beside_others(server, &others, attack);
    let grown = process.peak().saturating_sub(idle);
    let served = server.fetched(victim);
    let [before, after] = [victim, &served].map(|cert| cert.as_bytes().len());
    eprintln!("{} MiB more; {before} bytes of the victim, {after} are served", grown / MIB);
    assert!(grown < MEMORY, "{} MiB more", grown / MIB);
    assert!(after <= before + MORE_BYTES, "{before} bytes of the victim, {after} are served");
    assert_sq_reads(served.as_bytes());
    assert_eq!(in_gpg(&served), in_gpg(victim));
    (result, served)
}

/// What each version of GnuPG makes of a certificate, except the time of the listing. `None` if it
/// is not installed.
fn in_gpg(cert: &Cert) -> [Option<Vec<String>>; 2] {
    let of = |listing: String| {
        listing.lines().filter(|line| !line.starts_with("tru:")).map(str::to_owned).collect()
    };
    [gpg, newer_gpg].map(|gpg| gpg(home().path(), cert.as_bytes()).map(of))
}

/// The owner of a certificate, with a signing subkey.
pub(crate) fn owner(user_id: &str) -> openpgp::Cert {
    let past = SystemTime::now() - Duration::from_secs(7200);
    let builder = CertBuilder::new().set_creation_time(past).add_userid(user_id);
    builder.add_signing_subkey().add_transport_encryption_subkey().generate().unwrap().0
}

/// The public part.
pub(crate) fn public(cert: &openpgp::Cert) -> Cert {
    Cert::parse(&cert.to_vec().unwrap()).unwrap()
}

/// The certificate with the given key and packets.
pub(crate) fn packets<'a>(packets: impl IntoIterator<Item = (Tag, &'a [u8])>) -> Vec<u8> {
    let mut raw = Vec::new();
    for (tag, body) in packets {
        raw.extend([0xc0 | tag.0, 255]);
        raw.extend(u32::try_from(body.len()).unwrap().to_be_bytes());
        raw.extend_from_slice(body);
    }
    raw
}

/// The primary key and the first user ID, with these signatures on it.
pub(crate) fn with_signatures(cert: &Cert, signatures: &[Vec<u8>]) -> Vec<u8> {
    let all: Vec<PacketRef<'_>> = cert.packets().collect();
    let user_id = all.iter().find(|packet| packet.tag == Tag::USER_ID).unwrap();
    let head = [(all[0].tag, all[0].body), (user_id.tag, user_id.body)];
    packets(head.into_iter().chain(signatures.iter().map(|body| (Tag::SIGNATURE, &body[..]))))
}

/// The bytes of the unhashed area of a version 4 signature, with its length. The first bytes of the
/// digest follow, then the numbers.
pub(crate) fn unhashed(body: &[u8]) -> std::ops::Range<usize> {
    let start = usize::from(u16::from_be_bytes([body[4], body[5]])) + 6;
    start..start + 2 + usize::from(u16::from_be_bytes([body[start], body[start + 1]]))
}

/// A version 4 signature with further subpackets in the unhashed area.
pub(crate) fn with_unhashed(body: &[u8], more: &[u8]) -> Vec<u8> {
    let std::ops::Range { start, end } = unhashed(body);
    let length = u16::try_from(end - start - 2 + more.len()).unwrap().to_be_bytes();
    [&body[..start], &length, &body[start + 2..end], more, &body[end..]].concat()
}

/// A forged version 4 signature by another key, with a number of 256 bits.
fn forged(kind: u8, created: u32, signer: u64) -> Vec<u8> {
    let mut body = vec![4, kind, 1, 8, 0, 6, 5, 2];
    body.extend(created.to_be_bytes());
    body.extend([0, 10, 9, 16]);
    body.extend(signer.to_be_bytes());
    body.extend([1, 2, 1, 0, 0xff]);
    body.extend(signer.to_be_bytes());
    body.extend([7; 23]);
    body
}

pub(crate) fn read(cert: &Cert) -> openpgp::Cert {
    openpgp::Cert::from_bytes(cert.as_bytes()).unwrap()
}

pub(crate) fn bodies(cert: &Cert) -> impl Iterator<Item = &[u8]> {
    cert.packets().filter(|packet| packet.tag == Tag::SIGNATURE).map(|packet| packet.body)
}

/// A certificate, a revoker whom its owner named, and the revoker's revocation of it.
pub(crate) fn revoked_by_a_revoker() -> (openpgp::Cert, openpgp::Cert, Signature) {
    let revoker = owner("Revoker <revoker@example.org>");
    let named =
        RevocationKey::new(revoker.primary_key().key().pk_algo(), revoker.fingerprint(), false);
    let past = SystemTime::now() - Duration::from_secs(7200);
    let alice = CertBuilder::new().set_creation_time(past).add_userid("Alice <alice@example.org>");
    let alice = alice.set_revocation_keys(vec![named]).generate().unwrap().0;
    let real = revocation(&revoker, &alice);
    (alice, revoker, real)
}

/// The line of the primary key in a listing.
pub(crate) fn primary_line(listing: &str) -> Vec<String> {
    let line = listing.lines().find(|line| line.starts_with("pub:")).unwrap();
    line.split(':').map(str::to_owned).collect()
}

#[test]
fn two_thousand_unhashed_variants_of_a_self_signature() {
    let alice = owner("Alice <alice@example.org>");
    let cert = public(&alice);
    let server = Site::apart(std::slice::from_ref(&cert), config());
    let mut on_user_id = cert.packets().skip_while(|packet| packet.tag != Tag::USER_ID).skip(1);
    let own = on_user_id.next().unwrap().body;
    let copy = |n: u32| with_unhashed(own, &[&[5, 100][..], &n.to_be_bytes()].concat());
    let copies: Vec<_> = (0..2000).map(copy).collect();
    let raw = with_signatures(&cert, &copies);
    let (reply, _) = under_attack(&server, &cert, || server.offer(&raw));
    assert_eq!(reply.status, 200, "{}", reply.text());
    // The signature is here, in some of the packets.
    assert!(!reply.text().contains("not kept"), "{}", reply.text());

    // The owner extends the certificate and adds a subkey.
    let until = SystemTime::now() + Duration::from_secs(400 * 86_400);
    let policy = &StandardPolicy::new();
    let valid = alice.with_policy(policy, None).unwrap();
    let extended =
        valid.primary_key().set_expiration_time(&mut signer(&alice), Some(until)).unwrap();
    let alice = alice.insert_packets(extended).unwrap().0;
    let reply = server.offer(public(&alice).as_bytes());
    assert_eq!(reply.value()["updated"].as_array().unwrap().len(), 1, "{}", reply.text());
    assert!(!reply.text().contains("not kept"), "{}", reply.text());
    let served = server.fetched(&cert);
    assert!(served.as_bytes().len() < 8192, "{} bytes", served.as_bytes().len());
    let valid = read(&served);
    let valid = valid.with_policy(policy, None).unwrap();
    assert!(valid.primary_key().key_expiration_time().is_some());
    assert_eq!(valid.keys().for_signing().count(), 1);
    let home = home();
    let Some(listing) = gpg(home.path(), served.as_bytes()) else { return };
    assert!(!primary_line(&listing)[6].is_empty(), "{listing}");
}

/// The certificate, with nothing in the unhashed areas of its signatures.
fn without_hints(cert: &Cert) -> Vec<u8> {
    let mut raw = Vec::new();
    for packet in cert.packets() {
        let mut body = packet.body.to_vec();
        if packet.tag == Tag::SIGNATURE {
            body.splice(unhashed(&body), [0, 0]);
        }
        raw.extend(packets([(packet.tag, &body[..])]));
    }
    raw
}

/// Changes the parts of a version 4 signature that its issuer has not signed, as a whole.
fn with_other_hints(body: &mut Vec<u8>, random: &mut fastrand::Rng) {
    let area = unhashed(body);
    match random.usize(..6) {
        0 => drop(body.splice(area, [0, 0])),
        1 => drop(body.splice(area, [0, 10, 9, 16, 1, 2, 3, 4, 5, 6, 7, 8])),
        2 => {
            // A back signature with empty numbers.
            let embedded = [4, 0x19, 22, 8, 0, 6, 5, 2, 0, 0, 0, 1, 0, 0, 1, 2, 0, 0, 0, 0];
            *body = with_unhashed(body, &[&[21, 32][..], &embedded].concat());
        }
        3 => {
            body.truncate(area.end + 2);
            body.extend([0, 0, 0, 0]);
        }
        4 => {
            body.truncate(area.end + 2);
            body.extend([0, 0, 0, 8, 0x80]);
        }
        _ => body[area.end] ^= 1,
    }
}

/// GnuPG writes the key ID of the issuer into the unhashed area, and version 2.2 reads no other
/// name of it.
#[test]
fn signatures_without_the_key_id_of_their_issuer() {
    let owner = Gpg::new();
    owner.run(&["--quick-gen-key", "Alice <alice@example.org>", "ed25519", "cert,sign"]);
    owner.run(&["--quick-gen-key", "Bob <bob@example.org>", "ed25519", "cert,sign"]);
    owner.run(&["--quick-sign-key", &owner.fingerprint("alice")]);
    owner.run(&["--default-key", "bob", "--quick-sign-key", &owner.fingerprint("alice")]);
    let exported = |name: &str| {
        let armored = owner.run(&["--armor", "--export", name]);
        let mut raw = Vec::new();
        std::io::Read::read_to_end(&mut talaria_cert::Armor::new(armored.as_bytes()), &mut raw)
            .unwrap();
        Cert::parse(&raw).unwrap()
    };
    let (alice, bob) = (exported("alice"), exported("bob"));
    let stripped = without_hints(&alice);
    assert!(stripped.len() < alice.as_bytes().len());
    let server = Site::apart(std::slice::from_ref(&bob), config());
    // At first, the server has nothing but the stripped copy.
    for copy in [&stripped[..], alice.as_bytes(), &stripped] {
        let (reply, served) = under_attack(&server, &alice, || server.offer(copy));
        assert_eq!(reply.status, 200, "{}", reply.text());
        let home = home();
        let Some(_) = gpg(home.path(), bob.as_bytes()) else { return };
        let listing = gpg(home.path(), served.as_bytes()).unwrap();
        let usable = listing.lines().filter(|line| line.starts_with("uid:"));
        assert_eq!(usable.count(), 2, "{listing}");
    }

    let revoker = home();
    let file = owner.path().join(format!("openpgp-revocs.d/{}.rev", alice.fingerprint()));
    let revocation = std::fs::read_to_string(file).unwrap().replace(":-----BEGIN", "-----BEGIN");
    gpg(revoker.path(), alice.as_bytes()).unwrap();
    let file = revoker.path().join("revocation");
    std::fs::write(&file, revocation).unwrap();
    owner.run(&["--import", file.to_str().unwrap()]);
    let revoked = exported("alice");
    let reply = server.offer(&without_hints(&revoked));
    assert_eq!(reply.value()["updated"].as_array().unwrap().len(), 1, "{}", reply.text());
    let served = server.fetched(&alice);
    assert_eq!(in_gpg(&served), in_gpg(&revoked));
    let listing = gpg(revoker.path(), served.as_bytes()).unwrap();
    assert_eq!(primary_line(&listing)[1], "r", "{listing}");
}

/// GnuPG 2.4 aborts at a number without bytes, and imports nothing.
#[test]
fn signatures_with_numbers_of_no_bits() {
    let alice = owner("Alice <alice@example.org>");
    let cert = public(&alice);
    let mut settings = config();
    settings.policy.third_party = ThirdParty::All;
    let server = Site::apart(std::slice::from_ref(&cert), settings);
    let number = [&[1, 0, 0xff][..], &[7; 31]].concat();
    let ed448 = [&[3, 0x97, 0x40][..], &[7; 114]].concat();
    let numbers = [
        [&[0, 0][..], &number].concat(),
        [&number[..], &[0, 0]].concat(),
        vec![0, 0, 0, 0],
        [&ed448[..], &[0, 0]].concat(),
        [&ed448[..], &number].concat(),
    ];
    let forged = |algorithm: u8| {
        // The last one is for Ed448 only.
        let count = if algorithm == 22 { numbers.len() } else { numbers.len() - 1 };
        numbers[..count].iter().map(move |numbers| {
            let mut body = forged(0x10, 9, 7);
            body[2] = algorithm;
            body.truncate(body.len() - 34);
            [&body[..], numbers].concat()
        })
    };
    let all: Vec<_> = [17, 19, 22].into_iter().flat_map(forged).collect();
    let raw = with_signatures(&cert, &all);
    let (reply, served) = under_attack(&server, &cert, || server.offer(&raw));
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert_eq!(served, cert);
}

/// Bytes that are read into many times as much memory.
#[test]
fn uploads_of_tiny_parts() {
    let alice = owner("Alice <alice@example.org>");
    let cert = public(&alice);
    let mut settings = config();
    settings.vks.enabled = true;
    let server = Site::apart(std::slice::from_ref(&cert), settings);
    let bytes = 8 << 20;
    let empty_keys = [0xc6, 0].repeat(bytes / 2);
    let fields = b"a&".repeat(bytes / 2);
    let key = cert.packets().next().unwrap();
    let names = (0..1_500_000u32).flat_map(|n| {
        let [_, a, b, c] = n.to_be_bytes();
        [0xcd, 3, a, b, c]
    });
    let names: Vec<u8> = packets([(key.tag, key.body)]).into_iter().chain(names).collect();
    let addresses = [b"{\"token\":\"x\",\"addresses\":[".to_vec(), b"\"\",".repeat(2_700_000)];
    let addresses = [addresses.concat(), b"\"\"]}".to_vec()].concat();
    let uploads = [
        ("/pks/v2/certs", "application/pgp-keys", empty_keys.clone(), 422),
        ("/pks/add", "application/pgp-keys", empty_keys, 422),
        ("/pks/add", "application/x-www-form-urlencoded", fields, 422),
        ("/pks/add", "application/pgp-keys", names, 413),
        ("/vks/v1/request-verify", "application/json", addresses, 413),
    ];
    for (path, media, body, status) in uploads {
        let (reply, _) = under_attack(&server, &cert, || server.post(path, media, &body));
        assert_eq!(reply.status, status, "{path}: {}", reply.text());
        assert!(reply.body.len() < 1 << 20, "{path}: {} bytes", reply.body.len());
    }
}

/// An RSA key whose public exponent is as long as its modulus: a signature takes a hundred times as
/// long as usual.
fn slow_key(number: u8) -> Cert {
    let mut body = vec![4, 0x50, 0, 0, number, 1];
    for _ in 0..2 {
        body.extend([12, 0, 0xc0 | number]);
        body.extend([0xb5; 383]);
    }
    Cert::parse(&packets([(Tag::PUBLIC_KEY, &body[..])])).unwrap()
}

/// Signatures of other keys are verified at the first look-up, and nobody has paid for them.
#[test]
fn look_ups_of_signatures_in_the_name_of_slow_keys() {
    let (alice, friends, genuine) = certified();
    let cert = public(&alice);
    let slow: Vec<Cert> = (0..16).map(slow_key).collect();
    let known: Vec<Cert> = friends.iter().map(public).chain(slow.iter().cloned()).collect();
    let server = Site::apart(&known, config());
    // Of each key, no more than are kept without verification; each names all of them.
    let hints: Vec<u8> = slow
        .iter()
        .flat_map(|key| [&[9, 16][..], &key.fingerprint().key_id().0.to_be_bytes()].concat())
        .collect();
    let forged = |n: u32| {
        let length = u16::try_from(hints.len()).unwrap().to_be_bytes();
        let mut body = vec![4, 0x10, 1, 12, 0, 6, 5, 2];
        body.extend(n.to_be_bytes());
        body.extend([&length[..], &hints, &[1, 2, 12, 0, 0x80]].concat());
        body.extend([7; 383]);
        body
    };
    let all: Vec<_> = (0..8).map(forged).collect();
    assert_eq!(server.offer(cert.as_bytes()).status, 200);
    let reply = server.offer(&with_signatures(&cert, &all));
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert!(!reply.text().contains("not kept"), "{}", reply.text());
    let before = server.process().cpu();
    let served = server.fetched(&cert);
    let taken = server.process().cpu().saturating_sub(before);
    eprintln!("{taken:?} of CPU time for the look-up");
    assert!(taken < Duration::from_millis(600), "{taken:?}");
    for body in &genuine {
        assert!(bodies(&served).any(|served| served == body), "a genuine certification is missing");
    }
}

/// The certificate with a certification of its user ID by another key.
fn certified_by(cert: openpgp::Cert, other: &openpgp::Cert) -> openpgp::Cert {
    let user_id = cert.userids().next().unwrap().userid().clone();
    let kind = SignatureType::PositiveCertification;
    let made = user_id.certify(&mut signer(other), &cert, kind, None, None).unwrap();
    cert.insert_packets(Packet::from(made)).unwrap().0
}

/// A certificate with genuine certifications by ten other keys, and the bodies of these.
fn certified() -> (openpgp::Cert, Vec<openpgp::Cert>, Vec<Vec<u8>>) {
    let alice = owner("Alice <alice@example.org>");
    let friends: Vec<_> =
        (0..10).map(|n| owner(&format!("Friend {n} <f{n}@example.org>"))).collect();
    let user_id = alice.userids().next().unwrap().userid().clone();
    let made: Vec<Signature> = friends
        .iter()
        .map(|friend| {
            user_id
                .certify(
                    &mut signer(friend),
                    &alice,
                    SignatureType::GenericCertification,
                    None,
                    None,
                )
                .unwrap()
        })
        .collect();
    let bodies = made.iter().map(|made| MarshalInto::to_vec(made).unwrap()).collect();
    let alice = alice.insert_packets(made).unwrap().0;
    (alice, friends, bodies)
}

fn flood(kind: u8, created: impl Fn(u32) -> u32, count: u32) {
    let (alice, friends, genuine) = certified();
    let cert = public(&alice);
    let known: Vec<Cert> = friends.iter().map(public).chain([cert.clone()]).collect();
    let server = Site::apart(&known, config());
    let flood: Vec<_> = (0..count).map(|n| forged(kind, created(n), u64::from(n) + 1)).collect();
    let raw = with_signatures(&cert, &flood);
    let (reply, served) = under_attack(&server, &cert, || server.offer(&raw));
    assert_eq!(reply.status, 200, "{}", reply.text());
    for body in &genuine {
        let id = talaria_cert::Signature::parse(body).unwrap().id();
        let is_there = bodies(&served)
            .any(|body| talaria_cert::Signature::parse(body).is_some_and(|s| s.id() == id));
        assert!(is_there, "a genuine certification is not served");
    }
}

#[test]
fn five_thousand_forged_signatures_dated_2106() {
    flood(0x10, |n| u32::MAX - n, 5000);
}

#[test]
fn six_thousand_forged_revocations_dated_1970() {
    flood(0x30, |n| n + 1, 6000);
}

/// GnuPG refuses a whole certificate for one of these.
fn unreadable() -> Vec<Vec<u8>> {
    let issuer = [9, 16, 1, 2, 3, 4, 5, 6, 7, 8];
    let head = |kind: u8| [&[4, kind, 1, 8, 0, 0, 0, 10][..], &issuer, &[1, 2]].concat();
    let no_numbers =
        [&[4, 0x10, 1, 8, 0, 6, 5, 2, 0, 0, 0, 1, 0, 10][..], &issuer, &[1, 2]].concat();
    assert_eq!(no_numbers.len(), 26);
    let version_3 = [&[3, 5, 0x10, 0, 0, 0, 1][..], &[1; 8], &[99, 8, 1, 2, 3, 4]].concat();
    let cut = [&head(0x10)[..], &[1, 0, 0xff, 1]].concat();
    let mut version_6 = vec![6, 0x10, 27, 8, 0, 0, 0, 6, 5, 2, 0, 0, 0, 1, 0, 0, 0, 0, 1, 2, 16];
    version_6.extend([9; 16 + 64]);
    let long = [&head(0x10)[..], &16_400u16.to_be_bytes(), &[0xff; 2050]].concat();
    let mut large = forged(0x10, 1, 7);
    large.splice(12..12, [&[255, 0, 0, 0x27, 0x11, 100][..], &[0; 10_000]].concat());
    large.splice(4..6, 10_012u16.to_be_bytes());
    vec![no_numbers, version_3, cut, version_6, long, large]
}

#[test]
fn a_forged_signature_of_26_bytes_keeps_no_revocation_away() {
    let server = Site::apart(&[], config());
    for body in unreadable() {
        let alice = owner("Alice <alice@example.org>");
        let cert = public(&alice);
        assert_eq!(server.put(&cert).status, 200);
        let home = home();
        let known = gpg(home.path(), cert.as_bytes());
        let mut on_user_id = cert.packets().skip_while(|packet| packet.tag != Tag::USER_ID).skip(1);
        let own = on_user_id.next().unwrap().body;
        // The owner's own signature with an area that is too large.
        let large = [&[255, 0, 0, 0x27, 0x11, 100][..], &[0; 10_000]].concat();
        let all = vec![body.clone(), with_unhashed(own, &large)];
        let key = cert.packets().next().unwrap();
        let direct = packets([(Tag::PUBLIC_KEY, key.body), (Tag::SIGNATURE, &body)]);
        let raw = with_signatures(&cert, &all);
        let (statuses, _) =
            under_attack(&server, &cert, || [&raw, &direct].map(|raw| server.offer(raw).status));
        assert_eq!(statuses, [200, 200]);
        let revoked = alice.clone().insert_packets(revocation(&alice, &alice)).unwrap().0;
        let reply = server.offer(public(&revoked).as_bytes());
        assert_eq!(reply.value()["updated"].as_array().unwrap().len(), 1, "{}", reply.text());
        let served = server.fetched(&cert);
        assert_sq_reads(served.as_bytes());
        if known.is_some() {
            let listing = gpg(home.path(), served.as_bytes()).unwrap();
            assert_eq!(primary_line(&listing)[1], "r", "{listing}");
        }
    }
}

#[test]
fn a_back_signature_that_does_not_verify_displaces_none_that_does() {
    let alice = owner("Alice <alice@example.org>");
    let cert = public(&alice);
    let server = Site::apart(&[], config());
    // A newer back signature by somebody else, in front of and behind the genuine one.
    let fake = forged(0x19, 2_000_000_000, 7);
    let mut subpacket = vec![u8::try_from(fake.len() + 1).unwrap(), 32];
    subpacket.extend(&fake);
    let mut raw = Vec::new();
    for packet in cert.packets() {
        let is_binding = packet.tag == Tag::SIGNATURE && packet.body[1] == 0x18;
        let body =
            if is_binding { with_unhashed(packet.body, &subpacket) } else { packet.body.to_vec() };
        raw.extend(packets([(packet.tag, &body[..])]));
    }
    // At first, the server has nothing but the poisoned copy.
    for copy in [&raw[..], cert.as_bytes()] {
        let (reply, served) = under_attack(&server, &cert, || server.offer(copy));
        assert_eq!(reply.status, 200, "{}", reply.text());
        let policy = &StandardPolicy::new();
        let read = read(&served);
        assert_eq!(read.with_policy(policy, None).unwrap().keys().for_signing().count(), 1);
        let home = home();
        let Some(listing) = gpg(home.path(), served.as_bytes()) else { return };
        let usable = listing.lines().filter(|line| line.starts_with("sub:"));
        let signing = usable.filter(|line| line.split(':').nth(11) == Some("s"));
        assert_eq!(signing.count(), 1, "{listing}");
    }
}

/// Verifying all of them would take longer than a look-up may.
#[test]
fn false_back_signatures_on_old_bindings_do_not_displace_that_on_the_newest() {
    let made = |days: u64| SystemTime::now() - Duration::from_secs(86_400 * days);
    let alice = CertBuilder::new()
        .set_creation_time(made(40))
        .set_cipher_suite(CipherSuite::P521)
        .add_userid("Alice <alice@example.org>")
        .add_signing_subkey()
        .generate()
        .unwrap()
        .0;
    let subkey = alice.keys().subkeys().next().unwrap().key().clone();
    let secret = subkey.clone().parts_into_secret().unwrap();
    let mut by_subkey = secret.into_keypair().unwrap();
    let primary = alice.primary_key().key();
    let bindings = (1..=20).map(|days| {
        let back = SignatureBuilder::new(SignatureType::PrimaryKeyBinding)
            .set_signature_creation_time(made(days))
            .unwrap()
            .sign_primary_key_binding(&mut by_subkey, primary, &subkey)
            .unwrap();
        let binding = SignatureBuilder::new(SignatureType::SubkeyBinding)
            .set_signature_creation_time(made(days))
            .unwrap()
            .set_key_flags(KeyFlags::empty().set_signing())
            .unwrap();
        let binding = binding.sign_subkey_binding(&mut signer(&alice), primary, &subkey).unwrap();
        [back, binding].map(|signature| MarshalInto::to_vec(&signature).unwrap())
    });
    let public = public(&alice);
    let head: Vec<(Tag, &[u8])> = public
        .packets()
        .filter(|packet| packet.body[..2] != [4, 0x18])
        .map(|packet| (packet.tag, packet.body))
        .collect();
    let (mut genuine, mut poisoned) = (packets(head.clone()), packets(head));
    for [back, binding] in bindings {
        let with = |back: &[u8]| {
            let length = u32::try_from(back.len() + 1).unwrap().to_be_bytes();
            with_unhashed(&binding, &[&[255][..], &length, &[32], back].concat())
        };
        genuine.extend(packets([(Tag::SIGNATURE, &with(&back)[..])]));
        for number in 0..3 {
            let mut fake = back.clone();
            *fake.last_mut().unwrap() ^= number + 1;
            // Another time, so that it stands before the genuine one.
            let time = fake.windows(2).position(|two| two == [5, 0x82]).unwrap() + 2;
            fake[time..time + 4].fill(number);
            poisoned.extend(packets([(Tag::SIGNATURE, &with(&fake)[..])]));
        }
    }
    let cert = Cert::parse(&genuine).unwrap();
    let server = Site::apart(std::slice::from_ref(&cert), config());
    let (reply, served) = under_attack(&server, &cert, || server.offer(&poisoned));
    assert_eq!(reply.status, 200, "{}", reply.text());
    let (read, policy) = (read(&served), &StandardPolicy::new());
    let valid = read.with_policy(policy, None).unwrap();
    assert_eq!(valid.keys().for_signing().subkeys().count(), 1);
    let newest = valid.keys().for_signing().subkeys().next().unwrap();
    assert!(newest.binding_signature().signature_creation_time().unwrap() > made(2));
}

#[test]
fn forged_revocations_in_the_name_of_a_revoker() {
    let (alice, revoker, real) = revoked_by_a_revoker();
    let revoked = public(&alice.clone().insert_packets(real.clone()).unwrap().0);
    let mut settings = config();
    settings.policy.signatures = 6000;
    let server = Site::apart(&[public(&revoker), revoked.clone()], settings);

    // More than the server reads of one certificate, with the revoker as one of two issuers, or
    // alone and signed.
    let id = public(&revoker).fingerprint().key_id().0;
    let beside = |n: u32| {
        let mut body = forged(0x20, n, u64::from(n) + 1);
        let issuer = [&[9, 16][..], &id.to_be_bytes()].concat();
        body.splice(14..24, [&[9, 16][..], &(u64::from(n) + 1).to_be_bytes(), &issuer].concat());
        body[13] = 20;
        body
    };
    let alone = |n: u32| {
        let issuer = [&[9, 16][..], &id.to_be_bytes()].concat();
        let mut body = forged(0x20, n, u64::from(n) + 1);
        body.splice(12..24, [&issuer[..], &[0, 0]].concat());
        body[5] = 16;
        body
    };
    let key = revoked.packets().next().unwrap();
    let round = |round: u32| {
        let numbers = 2000 * round..2000 * (round + 1);
        let flood: Vec<Vec<u8>> = numbers.flat_map(|n| [beside(n), alone(n)]).collect();
        let all = flood.iter().map(|body| (Tag::SIGNATURE, &body[..]));
        packets([(Tag::PUBLIC_KEY, key.body)].into_iter().chain(all))
    };
    let rounds = [0, 1, 2].map(round);
    let (replies, served) =
        under_attack(&server, &revoked, || rounds.each_ref().map(|raw| server.offer(raw)));
    for reply in &replies {
        assert!([200, 422].contains(&reply.status), "{}", reply.text());
        assert!(reply.text().contains("not kept"), "{}", reply.text());
    }
    let real = MarshalInto::to_vec(&real).unwrap();
    let id_of = |body: &[u8]| talaria_cert::Signature::parse(body).map(|signature| signature.id());
    assert!(bodies(&served).any(|body| id_of(body) == id_of(&real)));
    let home = home();
    if gpg(home.path(), public(&revoker).as_bytes()).is_some() {
        let listing = gpg(home.path(), served.as_bytes()).unwrap();
        let of_alice = listing.find("pub:r:");
        assert!(of_alice.is_some(), "{listing}");
    }

    // The owner's own revocation is taken, too.
    let by_owner = alice.clone().insert_packets(revocation(&alice, &alice)).unwrap().0;
    let reply = server.offer(public(&by_owner).as_bytes());
    assert_eq!(reply.value()["updated"].as_array().unwrap().len(), 1, "{}", reply.text());
    let served = read(&server.fetched(&revoked));
    assert_eq!(served.primary_key().self_revocations().count(), 1);
}

#[test]
fn long_hints_of_forged_signatures_do_not_fill_a_certificate() {
    let alice = owner("Alice <alice@example.org>");
    let cert = public(&alice);
    let server = Site::apart(std::slice::from_ref(&cert), config());
    let long = [vec![255, 0, 0, 0xea, 0x60, 100], vec![7; 59_999]].concat();
    let flood: Vec<_> =
        (0..100).map(|n| with_unhashed(&forged(0x10, n, u64::from(n) + 1), &long)).collect();
    let raw = with_signatures(&cert, &flood);
    let (reply, served) = under_attack(&server, &cert, || server.offer(&raw));
    assert_eq!(served, cert);
    assert_eq!(reply.status, 422, "{}", reply.text());
    assert!(reply.text().contains("not kept: 100 signatures"), "{}", reply.text());
}

/// A certificate of 58 kB with a key for DSA of 10,000 bits, and signatures in its name: 6 s of CPU
/// time, if all were verified.
fn of_10_000_bits() -> Vec<u8> {
    let mut key = vec![4, 0, 0, 0, 1, 17];
    for bits in [10_000u16, 512, 10_000, 10_000] {
        key.extend(bits.to_be_bytes());
        key.extend(vec![0xfb; usize::from(bits / 8)]);
    }
    let signature = |number: u32| {
        let head = [4, 0x13, 17, 8, 0, 6, 5, 2, 0, 0, 0, 2, 0, 0, 0, 0];
        let numbers = [&[1, 0, 0x80][..], &number.to_be_bytes(), &[7; 27], &[0, 8, 0x80]].concat();
        [&head[..], &numbers].concat()
    };
    let signatures: Vec<Vec<u8>> = (0..940).map(signature).collect();
    let user_id = b"Costly <costly@example.org>";
    let head = [(Tag::PUBLIC_KEY, &key[..]), (Tag::USER_ID, &user_id[..])];
    packets(head.into_iter().chain(signatures.iter().map(|body| (Tag::SIGNATURE, &body[..]))))
}

#[test]
fn a_key_for_dsa_of_10_000_bits_costs_no_time() {
    let alice = owner("Alice <alice@example.org>");
    let cert = public(&alice);
    let server = Site::apart(std::slice::from_ref(&cert), config());
    let raw = of_10_000_bits();
    assert!((56_000..60_000).contains(&raw.len()), "{}", raw.len());
    let before = server.process().cpu();
    for _ in 0..10 {
        server.offer(&raw);
    }
    let each = server.process().cpu().saturating_sub(before) / 10;
    eprintln!("{each:?} of CPU time for one");
    assert!(each < Duration::from_millis(100), "{each:?}");
    under_attack(&server, &cert, || {
        for _ in 0..20 {
            server.offer(&raw);
        }
    });
}

/// The paths that give out the certificate with a key ID.
fn by_key_id(id: talaria_cert::KeyId) -> [String; 3] {
    [
        format!("/pks/lookup?op=get&options=mr&search=0x{id}"),
        format!("/vks/v1/by-keyid/{id}"),
        format!("/pks/v2/certs/by-keyid/{id}"),
    ]
}

/// The paths that give out the certificate with a key.
fn by_key(fingerprint: Fingerprint) -> impl Iterator<Item = String> {
    let by_fingerprint = [
        format!("/pks/lookup?op=get&options=mr&search=0x{fingerprint}"),
        format!("/vks/v1/by-fingerprint/{fingerprint}"),
        format!("/pks/v2/certs/by-vfingerprint/04{fingerprint}"),
    ];
    by_fingerprint.into_iter().chain(by_key_id(fingerprint.key_id()))
}

/// The fingerprints of the certificates that are given out at a path.
fn given_out(server: &Site, path: &str) -> Vec<String> {
    let reply = server.get(path);
    assert_eq!(reply.status, 200, "{path}: {}", reply.text());
    reply.certs().iter().map(|cert| cert.fingerprint().to_hex()).collect()
}

/// A key of version 3 with this key ID, and nothing else. Anybody can make one.
fn version_3(id: u64, number: u8) -> Cert {
    let mut body = vec![3, 0x30, 0, 0, number, 0, 0, 1, 4, 0, 0xc0];
    body.extend([number; 119]);
    body.extend(id.to_be_bytes());
    body.extend([0, 17, 1, 0, 1]);
    Cert::parse(&packets([(Tag::PUBLIC_KEY, &body[..])])).unwrap()
}

#[test]
fn keys_of_version_3_with_the_key_id_of_a_newcomer() {
    let alice = owner("Alice <alice@example.org>");
    let bob = owner("Bob <bob@example.org>");
    let bob = certified_by(bob, &alice);
    let id = public(&alice).fingerprint().key_id();
    let strangers: Vec<Cert> = (1..=20).map(|number| version_3(id.0, number)).collect();
    assert!(strangers.iter().all(|cert| cert.fingerprint().key_id() == id));
    let mut settings = config();
    settings.vks.enabled = true;
    let server = Site::apart(&strangers, settings);
    let all: Vec<u8> = strangers.iter().flat_map(|cert| cert.as_bytes().to_vec()).collect();
    under_attack(&server, &public(&alice), || {
        server.offer(&all);
        for cert in [&alice, &bob] {
            assert_eq!(server.offer(public(cert).as_bytes()).status, 200);
        }
        server.offer(&all);
    });
    for path in by_key_id(id) {
        assert_eq!(given_out(&server, &path)[0], alice.fingerprint().to_hex(), "{path}");
    }
    // The signature by Alice is verified, and so it is served.
    let served = read(&server.fetched(&public(&bob)));
    assert_eq!(served.userids().next().unwrap().certifications().count(), 1);
}

/// A certificate that has the primary key of another one as its subkey for encryption.
fn adopter(victim: &openpgp::Cert, number: usize) -> Cert {
    let cert = CertBuilder::new().add_userid(format!("Adopter {number}")).generate().unwrap().0;
    let subkey = victim.primary_key().key().clone().role_into_subordinate();
    let subkey: openpgp::packet::Key<key::PublicParts, key::SubordinateRole> = subkey;
    let binding = SignatureBuilder::new(SignatureType::SubkeyBinding)
        .set_key_flags(KeyFlags::empty().set_transport_encryption())
        .unwrap()
        .sign_subkey_binding(&mut signer(&cert), cert.primary_key().key(), &subkey)
        .unwrap();
    let packets: Vec<Packet> = vec![subkey.into(), binding.into()];
    public(&cert.insert_packets(packets).unwrap().0)
}

#[test]
fn six_hundred_adopters_of_a_primary_key() {
    let alice = owner("Alice <alice@example.org>");
    let cert = public(&alice);
    let all: Vec<Cert> = (0..600).map(|number| adopter(&alice, number)).collect();
    let mut settings = config();
    settings.vks.enabled = true;
    // Half of them were here before her.
    let (first, later) = all.split_at(300);
    let server = Site::apart(first, settings);
    under_attack(&server, &cert, || {
        assert_eq!(server.put(&cert).status, 200);
        for some in later.chunks(30) {
            let raw: Vec<u8> = some.iter().flat_map(|cert| cert.as_bytes().to_vec()).collect();
            assert_eq!(server.offer(&raw).status, 200);
        }
    });
    let fingerprint = cert.fingerprint();
    for path in by_key(fingerprint) {
        assert_eq!(given_out(&server, &path), [fingerprint.to_string()], "{path}");
    }
    for op in ["index", "vindex"] {
        let reply = server.get(&format!("/pks/lookup?op={op}&options=mr&search=0x{fingerprint}"));
        assert!(reply.text().starts_with("info:1:1\n"), "{}", reply.text());
    }
    let page = server.get(&format!("/certificate/{fingerprint}"));
    assert_eq!(page.status, 200);
    assert!(page.text().contains("Alice") && !page.text().contains("Adopter"));

    // On the pages of others, a signature by the key leads to the owner.
    let bob = owner("Bob <bob@example.org>");
    let bob = public(&certified_by(bob, &alice));
    assert_eq!(server.offer(bob.as_bytes()).status, 200);
    let page = server.get(&format!("/certificate/{}", bob.fingerprint()));
    let leads_to =
        |cert: &Cert| page.text().contains(&format!("/certificate/{}", cert.fingerprint()));
    assert!(leads_to(&cert), "{}", page.text());
    assert!(!all.iter().any(leads_to), "{}", page.text());

    // A key for encryption that several certificates have: the first of them, and no more than
    // eight.
    let stranger = owner("Bob <bob@example.org>");
    let all: Vec<Cert> = (0..20).map(|number| adopter(&stranger, number)).collect();
    let server = Site::with(&all, config());
    let path =
        format!("/pks/lookup?op=index&options=mr&search=0x{}", stranger.fingerprint().to_hex());
    let reply = server.get(&path);
    assert!(reply.text().starts_with("info:1:8\n"), "{}", reply.text());
    assert_eq!(reply.header("x-hkp-results-more"), "true");
}

/// Certificates of strangers that have somebody's signing subkey, and were there first. Who
/// verifies a signature looks for the subkey.
#[test]
fn six_thousand_adopters_of_a_signing_subkey() {
    let alice = owner("Alice <alice@example.org>");
    let cert = public(&alice);
    let policy = &StandardPolicy::new();
    let valid = alice.with_policy(policy, None).unwrap();
    let signing = valid.keys().for_signing().subkeys().next().unwrap().key().fingerprint();
    let is_signing = |packet: &PacketRef<'_>| {
        packet.tag == Tag::PUBLIC_SUBKEY
            && talaria_cert::Key::parse(*packet)
                .is_ok_and(|key| key.fingerprint().to_string() == signing.to_hex())
    };
    let subkey = cert.packets().find(is_signing).unwrap();
    let fingerprint = talaria_cert::Key::parse(subkey).unwrap().fingerprint();
    let bare = |number: u32| {
        let mut key = vec![4, 0x50, 0, 0, 0, 1, 8, 0, 0xc0];
        key.extend(number.to_be_bytes());
        key.extend([7; 251]);
        key.extend([0, 17, 1, 0, 1]);
        packets([(Tag::PUBLIC_KEY, &key[..]), (Tag::PUBLIC_SUBKEY, subkey.body)])
    };
    // More than a look-up looks at.
    let mut all: Vec<u8> = (0..6000).flat_map(bare).collect();
    // Some that have signed the subkey as their own, with back signatures that are false.
    let mallories: Vec<_> =
        (0..30).map(|n| owner(&format!("Mallory {n} <mallory{n}@example.org>"))).collect();
    let stolen: openpgp::packet::Key<key::PublicParts, key::SubordinateRole> =
        match Packet::from_bytes(&packets([(Tag::PUBLIC_SUBKEY, subkey.body)])).unwrap() {
            Packet::PublicSubkey(key) => key,
            _ => unreachable!(),
        };
    for (mallory, second) in mallories.iter().flat_map(|mallory| (0..3).map(move |n| (mallory, n)))
    {
        let made = SystemTime::now() - Duration::from_secs(3600 + second);
        let binding = SignatureBuilder::new(SignatureType::SubkeyBinding)
            .set_signature_creation_time(made)
            .unwrap()
            .set_key_flags(KeyFlags::empty().set_signing())
            .unwrap()
            .sign_subkey_binding(&mut signer(mallory), mallory.primary_key().key(), &stolen)
            .unwrap();
        let fake = forged(0x19, 2_000_000_000, 7);
        let hint = [&[u8::try_from(fake.len() + 1).unwrap(), 32][..], &fake].concat();
        let body = with_unhashed(&MarshalInto::to_vec(&binding).unwrap(), &hint.repeat(4));
        let key = public(mallory);
        let key = key.packets().next().unwrap();
        let parts = [(Tag::PUBLIC_SUBKEY, subkey.body), (Tag::SIGNATURE, &body[..])];
        all.extend(packets([(Tag::PUBLIC_KEY, key.body)].into_iter().chain(parts)));
    }
    let mut settings = config();
    settings.vks.enabled = true;
    let server = Site::apart(&[], settings);
    under_attack(&server, &cert, || {
        assert_eq!(server.offer(&all).status, 200);
        assert_eq!(server.put(&cert).status, 200);
    });
    for path in by_key(fingerprint) {
        assert_eq!(given_out(&server, &path)[0], alice.fingerprint().to_hex(), "{path}");
    }
}

/// GnuPG keeps one of two signatures with the same numbers, whatever they sign.
#[test]
fn a_copy_of_the_numbers_of_a_self_signature() {
    let alice = owner("Alice <alice@example.org>");
    let cert = public(&alice);
    let server = Site::apart(std::slice::from_ref(&cert), config());
    let mut on_user_id = cert.packets().skip_while(|packet| packet.tag != Tag::USER_ID).skip(1);
    let own = on_user_id.next().unwrap().body;
    // Another issuer in the hashed area, with and without the owner's fingerprint beside it.
    let id = cert.fingerprint().key_id().0.to_be_bytes();
    let copies: Vec<Vec<u8>> = (0..50)
        .map(|n| {
            let mut copy = own.to_vec();
            let at = copy.windows(8).position(|window| window == id).unwrap();
            copy[at] ^= n + 1;
            if n % 2 == 0 {
                let fingerprint = cert.fingerprint();
                let bytes = fingerprint.as_bytes();
                let at = copy.windows(20).position(|window| window == bytes);
                at.into_iter().for_each(|at| copy[at] ^= n + 1);
            }
            copy
        })
        .collect();
    let raw = with_signatures(&cert, &copies);
    let (reply, served) = under_attack(&server, &cert, || server.offer(&raw));
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert_eq!(served, cert);
}

#[test]
fn mutated_uploads_leave_every_certificate_importable() {
    for third_party in [ThirdParty::Verified, ThirdParty::All] {
        mutated_uploads(third_party);
    }
}

fn mutated_uploads(third_party: ThirdParty) {
    let owners: Vec<_> = (0..8).map(|n| owner(&format!("Owner {n} <o{n}@example.org>"))).collect();
    let certs: Vec<Cert> = owners.iter().map(public).collect();
    let mut settings = config();
    settings.policy.third_party = third_party;
    let server = Site::apart(&certs, settings);
    let mut random = fastrand::Rng::with_seed(1);
    let mut mutated = || {
        let mut raw = Vec::new();
        for cert in &certs {
            for _ in 0..10 {
                for packet in cert.packets() {
                    let mut body = packet.body.to_vec();
                    if packet.tag == Tag::SIGNATURE {
                        let mut bytes = random.usize(..4);
                        match random.usize(..8) {
                            0 => body.truncate(random.usize(1..=body.len())),
                            1 => body.extend(0..random.u8(..30)),
                            2..4 => {}
                            _ => {
                                with_other_hints(&mut body, &mut random);
                                bytes = 0;
                            }
                        }
                        for _ in 0..bytes {
                            let at = random.usize(..body.len());
                            body[at] = random.u8(..);
                        }
                    }
                    raw.extend(packets([(packet.tag, &body[..])]));
                }
            }
        }
        raw
    };
    let uploads: Vec<Vec<u8>> = (0..20).map(|_| mutated()).collect();
    under_attack(&server, &certs[0], || {
        for raw in &uploads {
            let status = server.offer(raw).status;
            assert!(matches!(status, 200 | 422), "{status}");
        }
    });
    let (home, newer_home) = (home(), home());
    for (owner, cert) in owners.iter().zip(&certs) {
        let revoked = owner.clone().insert_packets(revocation(owner, owner)).unwrap().0;
        assert_eq!(server.offer(public(&revoked).as_bytes()).status, 200);
        let served = server.fetched(cert);
        assert_sq_reads(served.as_bytes());
        newer_gpg(newer_home.path(), served.as_bytes());
        let Some(listing) = gpg(home.path(), served.as_bytes()) else { return };
        let fingerprint = cert.fingerprint().to_string();
        let at = listing.find(&format!("fpr:::::::::{fingerprint}:")).unwrap();
        let line = listing[..at].lines().rfind(|line| line.starts_with("pub:")).unwrap();
        assert_eq!(line.split(':').nth(1), Some("r"), "{listing}");
    }
}
