//! Certificates with foreign additions and changes: nothing panics, and the owner's parts still
//! count.

use proptest::prelude::*;
use talaria_message::Rules;
use talaria_message::openpgp::Cert;
use talaria_message::openpgp::parse::Parse as _;
use talaria_message::openpgp::serialize::MarshalInto as _;
use talaria_message::{
    Outcome, Recipients, Verifier, decryption_keys, lookup_in, read_cert, read_certs, signing_key,
};

use crate::common::{NOW, Parties};

/// A version 4 key with `bytes` bytes: RSA with the largest possible numbers,
/// or an unknown algorithm.
fn subkey(tag: u8, algorithm: u8, length: usize) -> Vec<u8> {
    let mut body = vec![4, 0x60, 0, 0, 0, algorithm];
    while body.len() < length {
        let bytes = (length - body.len()).saturating_sub(2).min(8191);
        let bits = u16::try_from(bytes * 8).unwrap();
        body.extend(bits.to_be_bytes());
        body.extend(std::iter::repeat_n(0xff, bytes));
    }
    let mut packet = vec![0xc0 | tag, 0xff];
    packet.extend(u32::try_from(body.len()).unwrap().to_be_bytes());
    packet.extend(body);
    packet
}

/// All operations on a certificate, given as bytes.
fn use_all(bytes: &[u8], signature: &[u8]) -> Vec<Cert> {
    let certs: Vec<Cert> =
        read_certs(bytes).map_or_else(|_| Vec::new(), |read| read.into_iter().flatten().collect());
    let _ = read_cert(bytes);
    for cert in &certs {
        use_one(cert, signature);
    }
    certs
}

fn use_one(cert: &Cert, signature: &[u8]) -> Outcome {
    let _ = Recipients::default().add(cert, Rules::default(), &mut |_| None, NOW);
    let _ = signing_key(cert, Rules::default(), NOW, &mut |_, _| None);
    let _ = decryption_keys([cert], |_, _| None);
    let verifier = Verifier::new(lookup_in([cert.clone()]), Rules::default(), NOW);
    verifier.one(signature, b"text").outcome
}

/// gpg and sq verify with such a certificate; Sequoia itself panics.
#[test]
fn an_oversized_subkey_is_left_out() {
    let parties = Parties::new();
    for cert in &parties.certs {
        let mut signer = signing_key(cert, Rules::default(), NOW, &mut |_, _| None).unwrap();
        let signature = signer.sign(b"text", NOW).unwrap();
        let public = cert.to_vec().unwrap();
        let before = read_cert(&public).unwrap();
        // 65,535 bytes is the most that a length of two bytes can say.
        for (algorithm, bytes) in [(1, 70_000), (99, 65_535), (99, 65_536), (99, 200_000)] {
            let hostile = [&public[..], &subkey(14, algorithm, bytes)].concat();
            let certs = use_all(&hostile, &signature);
            assert_eq!(certs.len(), 1, "{algorithm} {bytes}");
            assert_eq!(use_one(&certs[0], &signature), Outcome::Good);
            let kept = certs[0].keys().count() - before.keys().count();
            assert_eq!(kept, usize::from(bytes <= 65_535), "{algorithm} {bytes}");
            // A caller may have parsed the certificate with Sequoia.
            let theirs = Cert::from_bytes(&hostile).unwrap();
            assert_eq!(use_one(&theirs, &signature), Outcome::Good);
        }
    }
}

/// Packets after an oversized primary key must not become a part of the certificate before it.
#[test]
fn a_certificate_with_an_oversized_primary_key_is_left_out() {
    let parties = Parties::new();
    let public = parties.certs[0].to_vec().unwrap();
    let user_id = [&[0xcd, 3][..], b"Eve"].concat();
    let hostile = [&public[..], &subkey(6, 99, 70_000), &user_id, &public].concat();
    let certs: Vec<Cert> = read_certs(&hostile).unwrap().into_iter().map(Result::unwrap).collect();
    assert_eq!(certs.len(), 2);
    assert!(certs.iter().all(|cert| cert.userids().count() == 1));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Bytes of a certificate are changed, removed and repeated: nothing panics.
    #[test]
    fn changed_certificates_cause_no_panic(
        party in 0usize..2,
        changes in prop::collection::vec((any::<u16>(), any::<u8>(), 0u8..4), 1..12),
        oversized in prop::option::of((any::<u16>(), prop::sample::select(vec![1u8, 18, 22, 99]))),
        secret: bool,
    ) {
        let cert = &Parties::new().certs[party];
        let mut signer = signing_key(cert, Rules::default(), NOW, &mut |_, _| None).unwrap();
        let signature = signer.sign(b"text", NOW).unwrap();
        let mut bytes =
            if secret { cert.as_tsk().to_vec().unwrap() } else { cert.to_vec().unwrap() };
        for (at, byte, how) in changes {
            let at = usize::from(at) % bytes.len();
            match how {
                0 => bytes[at] = byte,
                1 => bytes[at] ^= 1 << (byte % 8),
                2 => drop(bytes.splice(at..at, std::iter::repeat_n(byte, usize::from(byte)))),
                _ => drop(bytes.drain(at..(at + usize::from(byte)).min(bytes.len() - 1).max(at))),
            }
        }
        if let Some((at, algorithm)) = oversized {
            let at = usize::from(at) % bytes.len();
            bytes.splice(at..at, subkey(14, algorithm, 66_000));
        }
        use_all(&bytes, &signature);
    }
}
