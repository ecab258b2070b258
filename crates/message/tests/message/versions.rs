//! Signatures whose version is not that of their key (RFC 9580, sections 5.2 and 10.3.2.2), and
//! many signatures.

use talaria_cert::{CertificationVerifier, Key, KeySetup, PacketRef, Tag, Verdict, Verification};
use talaria_message::openpgp::crypto::{KeyPair, Signer, mpi};
use talaria_message::openpgp::serialize::{Marshal as _, MarshalInto as _};
use talaria_message::openpgp::types::HashAlgorithm;
use talaria_message::openpgp::{self, Cert};
use talaria_message::{
    EncryptOptions, MessageError, Outcome, ReadLimits, SignatureReport, SigningKey, detach, pack,
    sign_detached, verify_inline,
};

use crate::common::{NOW, Parties, key_of};

const TEXT: &[u8] = b"attack at dawn";

/// A packet in the old form that every length fits.
fn packet(tag: u8, body: &[u8]) -> Vec<u8> {
    let mut packet = vec![0xc0 | tag, 0xff];
    packet.extend(u32::try_from(body.len()).unwrap().to_be_bytes());
    packet.extend_from_slice(body);
    packet
}

/// The body of a signature of a version on `data`, with SHA-256.
fn signature(version: u8, kind: u8, pair: &mut KeyPair, data: &[&[u8]]) -> Vec<u8> {
    let fingerprint = pair.public().fingerprint();
    let mut area = vec![5, 2];
    area.extend((NOW - 9).to_be_bytes());
    area.extend([u8::try_from(fingerprint.as_bytes().len()).unwrap() + 2, 33]);
    area.push(if matches!(fingerprint, openpgp::Fingerprint::V6(_)) { 6 } else { 4 });
    area.extend_from_slice(fingerprint.as_bytes());
    let byte = u8::try_from(area.len()).unwrap();
    let wide = if version == 6 { &[0, 0, 0, byte][..] } else { &[0, byte] };
    let mut body = vec![version, kind, pair.public().pk_algo().into(), 8];
    body.extend_from_slice(wide);
    body.extend(area);
    let salt: &[u8] = if version == 6 { &[7; 16] } else { &[] };
    let trailer =
        [&[version, 0xff][..], &u32::try_from(body.len()).unwrap().to_be_bytes()].concat();
    let digest = aws_lc_rs::digest::digest(
        &aws_lc_rs::digest::SHA256,
        &[salt, &data.concat(), &body, &trailer].concat(),
    );
    let made = pair.sign(HashAlgorithm::SHA256, digest.as_ref()).unwrap();
    body.extend_from_slice(&wide.iter().map(|_| 0).collect::<Vec<u8>>());
    body.extend_from_slice(&digest.as_ref()[..2]);
    if version == 6 {
        body.push(16);
        body.extend_from_slice(salt);
    }
    match made {
        mpi::Signature::EdDSA { r, s } => {
            r.serialize(&mut body).unwrap();
            s.serialize(&mut body).unwrap();
        }
        mpi::Signature::Ed25519 { s } => body.extend_from_slice(&*s),
        other => panic!("{other:?}"),
    }
    body
}

#[test]
fn a_signature_on_a_document_with_another_version_than_its_key_is_bad() {
    let parties = Parties::new();
    for (cert, own) in parties.certs.iter().zip([4, 6]) {
        for version in [4, 6] {
            let made = packet(2, &signature(version, 0, &mut key_of(cert), &[TEXT]));
            let wanted = if version == own { Outcome::Good } else { Outcome::Bad };
            assert_eq!(parties.verifier().one(&made, TEXT).outcome, wanted, "{own} {version}");
        }
    }
}

/// The public primary key of a certificate, and what signatures hash of it.
fn primary(cert: &Cert) -> (Vec<u8>, Vec<u8>) {
    let body = cert.primary_key().key().to_vec().unwrap();
    let len = u32::try_from(body.len()).unwrap().to_be_bytes();
    let prefix =
        if body[0] == 6 { [&[0x9b][..], &len].concat() } else { [&[0x99], &len[2..]].concat() };
    let hashed = [prefix, body.clone()].concat();
    (body, hashed)
}

fn primary_pair(cert: &Cert) -> KeyPair {
    let key = cert.primary_key().key().clone().parts_into_secret().unwrap();
    key.role_into_unspecified().into_keypair().unwrap()
}

#[test]
fn a_certification_with_another_version_than_its_key_is_bad() {
    let user_id: &[u8] = b"Mallory <mallory@example.org>";
    let user_id_hashed =
        [&[0xb4][..], &u32::try_from(user_id.len()).unwrap().to_be_bytes(), user_id].concat();
    let certs = &Parties::new().certs;
    for (signer, own) in certs.iter().zip([4, 6]) {
        for version in [4, 6] {
            let wanted = if version == own { Verdict::Good } else { Verdict::Bad };
            let mut pair = primary_pair(signer);
            // On its own user ID.
            let (body, hashed) = primary(signer);
            let made = signature(version, 0x13, &mut pair, &[&hashed, &user_id_hashed]);
            let raw = [packet(6, &body), packet(13, user_id), packet(2, &made)].concat();
            let cert = talaria_cert::Cert::parse(&raw).unwrap();
            let found = talaria_cert::verdicts(&[&cert], Verification::Full);
            assert_eq!(found, [[wanted]], "{own} {version}");
            // On the user ID of another key.
            for other in certs {
                let (theirs, hashed) = primary(other);
                let made = signature(version, 0x10, &mut pair, &[&hashed, &user_id_hashed]);
                let raw = [packet(6, &theirs), packet(13, user_id)].concat();
                let cert = talaria_cert::Cert::parse(&raw).unwrap();
                let component = cert.packets().nth(1).unwrap();
                let issuer = Key::parse(PacketRef { tag: Tag::PUBLIC_KEY, body: &body }).unwrap();
                let mut verifier = CertificationVerifier::new(&cert).unwrap();
                let verdict = verifier.by(&issuer, &KeySetup::default(), component, &made);
                assert_eq!(verdict, wanted, "{own} {version}");
            }
        }
    }
}

/// Signatures by keys of both versions in turn.
fn signers(count: usize) -> Vec<SigningKey> {
    let parties = Parties::new();
    let mut signers = Vec::new();
    while signers.len() < count {
        signers.extend(parties.signers());
    }
    signers.truncate(count);
    signers
}

/// sqop and rsop read 1,000 signatures, too.
#[test]
fn a_thousand_signatures_are_verified_and_more_are_refused() {
    let verifier = Parties::new().verifier();
    let is_refused = |error: MessageError| {
        matches!(error, MessageError::TooLarge { what: "signatures", limit: 1000 })
    };
    for (count, fits) in [(1000, true), (1001, false)] {
        let mut signers = signers(count);
        let mut inline = Vec::new();
        pack(TEXT, &mut inline, &mut signers, &EncryptOptions::default(), NOW).unwrap();
        let limits = ReadLimits::default();
        let mut out = Vec::new();
        match verify_inline(&mut &inline[..], &mut out, &verifier, limits) {
            Ok((_, reports)) => {
                assert!(fits && out == TEXT);
                assert_eq!(reports.iter().filter(|report| report.is_good()).count(), count);
            }
            Err(error) => assert!(!fits && is_refused(error)),
        }
        let mut detached = Vec::new();
        sign_detached(&mut &TEXT[..], &mut detached, &mut signers, false, NOW).unwrap();
        match verifier.detached(&detached, &mut &TEXT[..]) {
            Ok(reports) => assert!(fits && reports.iter().all(SignatureReport::is_good)),
            Err(error) => assert!(!fits && is_refused(error)),
        }
        // The old form: signatures before the data.
        let literal = packet(11, &[&[b'b', 0, 0, 0, 0, 0], TEXT].concat());
        let old = [&detached[..], &literal].concat();
        let read = verify_inline(&mut &old[..], &mut Vec::new(), &verifier, limits);
        assert_eq!(read.is_ok_and(|(_, reports)| reports.len() == count), fits);
        let split = detach(&mut &inline[..], &mut Vec::new(), limits);
        assert_eq!(split.is_ok(), fits);
    }
}

/// Signatures that share no digest are hashed one by one, and the others only once.
#[test]
fn signatures_of_all_kinds_on_one_document_are_verified_together() {
    let parties = Parties::new();
    let text = b"one\r\ntwo\nthree\r";
    let mut all = Vec::new();
    for as_text in [false, true, false, true] {
        for hash in [8, 10] {
            let mut signers = signers(2);
            signers.iter_mut().for_each(|signer| signer.set_hash(hash).unwrap());
            sign_detached(&mut &text[..], &mut all, &mut signers, as_text, NOW).unwrap();
        }
    }
    let reports = parties.verifier().detached(&all, &mut &text[..]).unwrap();
    assert!(reports.len() == 16 && reports.iter().all(SignatureReport::is_good), "{reports:?}");
}
