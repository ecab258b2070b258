//! A certification with SHA-1 that was copied from one certificate to another.
//!
//! The two certificates are those of Gaëtan Leurent and Thomas Peyrin, "SHA-1 is a Shambles" (2020,
//! sha-mbles.github.io): a CA has certified a user attribute of Bob, and its signature has the same
//! digest on the user ID of Alice.

use talaria_cert::{
    Armor, Cert, CertificationVerifier, Earlier, Judge, Key, KeySetup, PacketRef, Purpose, Rules,
    Signature, Summary, Tag, Verdict, Verification, Verified, packets, renewed, verdicts,
};

const ALICE: &str = include_str!("../fixtures/sha-mbles.alice.asc");
const BOB: &str = include_str!("../fixtures/sha-mbles.bob.asc");
const SHA1: u8 = 2;

fn read(armored: &str) -> Cert {
    let mut packets = Vec::new();
    std::io::Read::read_to_end(&mut Armor::new(armored.as_bytes()), &mut packets).unwrap();
    Cert::parse(&packets).unwrap()
}

/// The signatures with SHA-1, each with its component.
fn with_sha1(cert: &Cert) -> Vec<(PacketRef<'_>, &[u8])> {
    let mut component = cert.packets().next().unwrap();
    let mut found = Vec::new();
    for packet in cert.packets() {
        if packet.tag != Tag::SIGNATURE {
            component = packet;
        } else if Signature::parse(packet.body).is_some_and(|made| made.hash == SHA1) {
            found.push((component, packet.body));
        }
    }
    found
}

#[test]
fn a_certification_of_a_collision_of_sha_1_counts_for_nobody() {
    let mut values = Vec::new();
    for cert in [read(ALICE), read(BOB)] {
        let key = cert.packets().next().unwrap();
        let issuer = Key::parse(key).unwrap();
        let mut verifier = CertificationVerifier::new(&cert).unwrap();
        let certified = with_sha1(&cert);
        assert!(!certified.is_empty());
        for (component, body) in certified {
            let verdict = verifier.by(&issuer, &KeySetup::default(), component, body);
            assert_eq!(verdict, Verdict::Weak);
            values.push(body[body.len() - 200..].to_vec());
        }
        assert!(packets(cert.as_bytes()).count() > 3);
    }
    // One of Bob's signatures is that of Alice.
    assert!(values[1..].contains(&values[0]));
}

/// The certificate with the name of its own key as the maker of the CA's signatures, as if they had
/// been copied to it as self-signatures.
fn with_own_signatures(cert: &Cert) -> Cert {
    let own = cert.fingerprint().key_id().0.to_be_bytes();
    let mut bytes = cert.as_bytes().to_vec();
    for (_, body) in with_sha1(cert) {
        let at = body.as_ptr() as usize - cert.as_bytes().as_ptr() as usize;
        let body = &mut bytes[at..at + body.len()];
        let ca = body.windows(2).position(|pair| pair == [9, 16]).unwrap() + 2;
        body[ca..ca + 8].copy_from_slice(&own);
    }
    Cert::parse(&bytes).unwrap()
}

#[test]
fn a_collision_of_sha_1_is_no_self_signature() {
    for cert in [read(ALICE), read(BOB)] {
        let claimed = with_own_signatures(&cert);
        let judged = verdicts(&[&claimed], Verification::Full).remove(0);
        let weak = judged.iter().filter(|&&verdict| verdict == Verdict::Weak).count();
        assert_eq!(weak, with_sha1(&cert).len(), "{judged:?}");
        // The day after the self-signatures, which last until then.
        let now = 2_146_000_000;
        for rules in Rules::ALL {
            let state = |cert: &Cert, verdicts: &[Verdict]| Summary::by(rules, cert, verdicts, now);
            let before = verdicts(&[&cert], Verification::Full).remove(0);
            assert_eq!(state(&claimed, &judged), state(&cert, &before));
            let judge = |cert: &Cert| Judge::new(Verified::new(cert.clone()), rules, now, |_| None);
            let (judge, without) = (judge(&claimed), judge(&cert));
            for purpose in Purpose::ALL {
                assert_eq!(judge.usable(purpose, now), without.usable(purpose, now));
            }
        }
    }
}

/// Verifiers up to number 6 did not detect collisions.
#[test]
fn earlier_verdicts_on_signatures_with_sha_1_are_renewed() {
    let cert = read(ALICE);
    let count = cert.signature_count();
    for verifier in [2, 6] {
        let earlier = Earlier { verdicts: &vec![Verdict::Good; count], verifier };
        let judged = renewed(&[(&cert, earlier)], Verification::Full).remove(0);
        let good = judged.iter().filter(|&&verdict| verdict == Verdict::Good).count();
        assert_eq!(good, count - with_sha1(&cert).len(), "{judged:?}");
    }
}
