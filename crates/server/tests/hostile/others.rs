//! Signatures and certificates of others: they refuse nothing of the owner, and hide nothing that
//! the owner or a revoker made.

use std::time::{Duration, SystemTime};

use sequoia_openpgp as openpgp;

use openpgp::cert::CertBuilder;
use openpgp::packet::signature::SignatureBuilder;
use openpgp::packet::signature::subpacket::NotationDataFlags;
use openpgp::serialize::MarshalInto;
use openpgp::types::{RevocationKey, SignatureType};
use talaria_cert::{Cert, Key, PacketRef, Tag};

use crate::attacks::{
    bodies, owner, packets, primary_line, public, read, revoked_by_a_revoker, under_attack,
    unhashed, with_unhashed,
};
use crate::site::{Site, config, gpg, home, newer_gpg, revocation, signer, wait_for};

/// A number of this many bits.
fn number(bits: u16, last: u8) -> Vec<u8> {
    let mut bytes = vec![0x5a; usize::from(bits.div_ceil(8))];
    bytes[0] = 0x80 >> ((8 - bits % 8) % 8);
    *bytes.last_mut().unwrap() = last;
    [&bits.to_be_bytes()[..], &bytes].concat()
}

/// A DSA key whose signatures take as long as possible to verify: 4,096 and 512 bits.
fn slow_key(n: u8) -> Vec<u8> {
    let numbers = [number(4096, n), number(512, 1), number(4094, 3), number(4093, 5)].concat();
    [&[4, 0x50, 0, 0, 0, 17][..], &numbers].concat()
}

/// A forged certification by DSA that names these key IDs in bytes that are not signed.
fn forged_dsa(kind: u8, n: u32, ids: &[u64]) -> Vec<u8> {
    let mut body = vec![4, kind, 17, 8, 0, 6, 5, 2];
    body.extend((0x6000_0000 + n).to_be_bytes());
    let area: Vec<u8> =
        ids.iter().flat_map(|id| [&[9, 16][..], &id.to_be_bytes()].concat()).collect();
    body.extend(u16::try_from(area.len()).unwrap().to_be_bytes());
    body.extend(area);
    body.extend([1, 2]);
    body.extend([number(256, 7), number(256, 9)].concat());
    body
}

fn key_id(body: &[u8]) -> u64 {
    let key = Key::parse(PacketRef { tag: Tag::PUBLIC_KEY, body }).unwrap();
    key.fingerprint().key_id().0
}

/// Verifying all that they name would take many times the CPU time of an upload.
#[test]
fn forged_signatures_in_the_name_of_slow_keys_refuse_no_revocation() {
    let alice = owner("Alice <alice@example.org>");
    let cert = public(&alice);
    let revoked = public(&alice.clone().insert_packets(revocation(&alice, &alice)).unwrap().0);
    let server = Site::apart(std::slice::from_ref(&cert), config());
    let slow: Vec<Vec<u8>> = (0..16).map(|n| slow_key(2 * n + 1)).collect();
    let ids: Vec<u64> = slow.iter().map(|body| key_id(body)).collect();
    let forged: Vec<Vec<u8>> = (0..1000).map(|n| forged_dsa(0x10, n, &ids)).collect();
    let all: Vec<PacketRef<'_>> = cert.packets().collect();
    let user_id = all.iter().find(|packet| packet.tag == Tag::USER_ID).unwrap();
    let head = [(all[0].tag, all[0].body), (user_id.tag, user_id.body)];
    let flood =
        packets(head.into_iter().chain(forged.iter().map(|body| (Tag::SIGNATURE, &body[..]))));
    under_attack(&server, &cert, || {
        assert_eq!(server.offer(&flood).status, 200);
        for (n, body) in (b'a'..).zip(&slow) {
            let raw = packets([(Tag::PUBLIC_KEY, &body[..]), (Tag::USER_ID, &[n])]);
            assert_eq!(server.offer(&raw).status, 200);
        }
    });
    let reply = server.put(&revoked);
    assert_eq!(reply.status, 200, "{}", reply.text());
    let served = server.fetched(&cert);
    let listing = gpg(home().path(), served.as_bytes());
    if let Some(listing) = listing {
        assert_eq!(primary_line(&listing)[1], "r", "{listing}");
    }
    let index =
        server.get(&format!("/pks/lookup?op=index&options=mr&search=0x{}", cert.fingerprint()));
    let line = index.text().lines().find(|line| line.starts_with("pub:")).unwrap().to_owned();
    assert!(line.ends_with(":r"), "{line}");
}

/// They name a newcomer as their revoker, and have forged revocations in its name.
#[test]
fn certificates_that_name_a_newcomer_as_their_revoker_do_not_keep_it_out() {
    let newcomer = owner("Newcomer <newcomer@example.org>");
    let cert = public(&newcomer);
    let id = cert.fingerprint().key_id().0;
    let key = newcomer.primary_key().key();
    let server = Site::apart(&[], config());
    let flood = |n: u8| {
        let named = RevocationKey::new(key.pk_algo(), newcomer.fingerprint(), false);
        let name = format!("Naming {n} <naming{n}@example.org>");
        let naming = CertBuilder::new().add_userid(name).set_revocation_keys(vec![named]);
        let naming = public(&naming.generate().unwrap().0);
        let forged: Vec<Vec<u8>> = (0..4000).map(|n| forged_eddsa(0x20, n, id)).collect();
        let mut all: Vec<(Tag, &[u8])> =
            naming.packets().map(|packet| (packet.tag, packet.body)).collect();
        all.splice(1..1, forged.iter().map(|body| (Tag::SIGNATURE, &body[..])));
        packets(all)
    };
    // One is honest, and stands behind the others.
    let honest =
        CertBuilder::new().add_userid("Honest <honest@example.org>").set_revocation_keys(vec![
            RevocationKey::new(key.pk_algo(), newcomer.fingerprint(), false),
        ]);
    let honest = honest.generate().unwrap().0;
    let by_newcomer = revocation(&newcomer, &honest);
    let honest = public(&honest.insert_packets(by_newcomer).unwrap().0);
    for n in 0..9 {
        let reply = server.offer(&flood(n));
        assert!([200, 422].contains(&reply.status), "{}", reply.text());
    }
    assert_eq!(server.put(&honest).status, 200);
    let (reply, served) = under_attack(&server, &cert, || server.put(&cert));
    assert_eq!((reply.status, served), (200, cert), "{}", reply.text());
    // The index says so soon.
    let path = format!("/pks/lookup?op=index&options=mr&search=0x{}", honest.fingerprint());
    wait_for("the honest certificate is revoked", || {
        server
            .get(&path)
            .text()
            .lines()
            .any(|line| line.starts_with("pub:") && line.ends_with(":r"))
    });
}

/// A forged signature by Ed25519 that names a key ID in bytes that are not signed.
fn forged_eddsa(kind: u8, n: u32, id: u64) -> Vec<u8> {
    let mut body = vec![4, kind, 22, 8, 0, 6, 5, 2];
    body.extend((0x6000_0000 + n).to_be_bytes());
    body.extend([0, 10, 9, 16]);
    body.extend(id.to_be_bytes());
    body.extend([1, 2]);
    body.extend([number(255, 7), number(252, 9)].concat());
    body
}

#[test]
fn other_writings_of_a_designated_revocation_do_not_displace_it() {
    let (alice, revoker, real) = revoked_by_a_revoker();
    let body = MarshalInto::to_vec(&real).unwrap();
    let revoked = public(&alice.clone().insert_packets(real).unwrap().0);
    let server = Site::apart(&[public(&revoker), revoked.clone()], config());
    // The lengths of the numbers in bits are not signed.
    let start = unhashed(&body).end + 2;
    let writings = (1..=6_u16).map(|less| {
        let mut other = body.clone();
        let bits = u16::from_be_bytes([other[start], other[start + 1]]);
        let bytes = bits.div_ceil(8);
        // As many bytes as before.
        let bits = (bits - less).max(8 * (bytes - 1) + 1);
        other[start..start + 2].copy_from_slice(&bits.to_be_bytes());
        other[start - 1] ^= u8::try_from(less).unwrap();
        other
    });
    let writings: Vec<Vec<u8>> = writings.collect();
    let key = revoked.packets().next().unwrap();
    let raw = packets(
        [(key.tag, key.body)]
            .into_iter()
            .chain(writings.iter().map(|body| (Tag::SIGNATURE, &body[..]))),
    );
    let path = format!("/pks/lookup?op=index&options=mr&search=0x{}", revoked.fingerprint());
    let is_revoked = || {
        server
            .get(&path)
            .text()
            .lines()
            .any(|line| line.starts_with("pub:") && line.ends_with(":r"))
    };
    assert!(is_revoked());
    let (reply, _) = under_attack(&server, &revoked, || server.offer(&raw));
    assert!([200, 422].contains(&reply.status), "{}", reply.text());
    assert!(is_revoked());
    // Everything of it is here, in one writing or another.
    let reply = server.put(&revoked);
    assert_eq!(reply.status, 200, "{}", reply.text());
}

#[test]
fn long_certifications_do_not_make_a_certificate_longer_than_gnupg_reads() {
    let alice = owner("Alice <alice@example.org>");
    let cert = public(&alice);
    let user_id = alice.userids().next().unwrap().userid().clone();
    let friends: Vec<_> =
        (0..90).map(|n| owner(&format!("Friend {n} <friend{n}@example.org>"))).collect();
    let certifications: Vec<Vec<u8>> = friends
        .iter()
        .flat_map(|friend| (0..8).map(move |n| (friend, n)))
        .map(|(friend, n)| {
            let flags = NotationDataFlags::empty().set_human_readable();
            let builder = SignatureBuilder::new(SignatureType::GenericCertification)
                .set_signature_creation_time(SystemTime::now() - Duration::from_secs(60 + n))
                .unwrap()
                .set_notation("padding@example.org", vec![b'x'; 8000], flags, false)
                .unwrap();
            let made = user_id.bind(&mut signer(friend), &alice, builder).unwrap();
            MarshalInto::to_vec(&made).unwrap()
        })
        .collect();
    let known: Vec<Cert> = friends.iter().map(public).chain([cert.clone()]).collect();
    let mut settings = config();
    settings.policy.signatures = 6000;
    let server = Site::apart(&known, settings);
    let packet = cert.packets().find(|packet| packet.tag == Tag::USER_ID).unwrap();
    let key = cert.packets().next().unwrap();
    for part in certifications.chunks(80) {
        let head = [(key.tag, key.body), (packet.tag, packet.body)];
        let raw =
            packets(head.into_iter().chain(part.iter().map(|body| (Tag::SIGNATURE, &body[..]))));
        assert_eq!(server.offer(&raw).status, 200);
    }
    let served = server.fetched(&cert);
    assert!(served.as_bytes().len() < 4 << 20, "{} bytes", served.as_bytes().len());
    for gpg in [gpg, newer_gpg] {
        let Some(listing) = gpg(home().path(), served.as_bytes()) else { continue };
        assert!(listing.lines().any(|line| line.starts_with("uid:")), "{listing}");
    }
}

#[test]
fn a_stranger_revokes_no_key_of_others() {
    let alice = owner("Alice <alice@example.org>");
    let cert = public(&alice);
    let mallory = owner("Mallory <mallory@example.org>");
    let server = Site::apart(&[cert.clone(), public(&mallory)], config());
    let revocation = revocation(&mallory, &alice);
    let naming = SignatureBuilder::new(SignatureType::DirectKey)
        .set_revocation_key(RevocationKey::new(
            mallory.primary_key().key().pk_algo(),
            mallory.fingerprint(),
            false,
        ))
        .unwrap()
        .sign_direct_key(&mut signer(&mallory), alice.primary_key().key())
        .unwrap();
    let made = [revocation, naming].map(|made| MarshalInto::to_vec(&made).unwrap());
    let key = cert.packets().next().unwrap();
    let raw = packets(
        [(key.tag, key.body)]
            .into_iter()
            .chain(made.iter().map(|body| (Tag::SIGNATURE, &body[..]))),
    );
    let (reply, served) = under_attack(&server, &cert, || server.offer(&raw));
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert_eq!(served, cert);
}

/// An owner who sends the certificate again is not told that something of it was refused.
#[test]
fn what_is_kept_in_another_packet_is_not_refused() {
    let alice = owner("Alice <alice@example.org>");
    let cert = public(&alice);
    let server = Site::apart(std::slice::from_ref(&cert), config());
    let mut raw = Vec::new();
    for packet in cert.packets() {
        raw.extend(packets([(packet.tag, packet.body)]));
        if packet.tag == Tag::SIGNATURE {
            for n in 0..8 {
                let mut body = packet.body.to_vec();
                // Shorter than the genuine one, and before it.
                let area = unhashed(&body);
                body.splice(area, [0, 0]);
                let body = with_unhashed(&body, &[2, 100, n]);
                raw.extend(packets([(Tag::SIGNATURE, &body[..])]));
            }
        }
    }
    let (_, served) = under_attack(&server, &cert, || server.offer(&raw));
    assert_eq!(bodies(&served).count(), bodies(&cert).count());
    let reply = server.put(&cert);
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert!(read(&served).fingerprint() == alice.fingerprint());
}
