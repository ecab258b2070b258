//! Views, compared with the results of their software for the same certificates.

use openpgp::Profile;
use openpgp::cert::CertBuilder;
use openpgp::crypto::mpi;
use openpgp::packet;
use openpgp::packet::key::{PublicParts, SubordinateRole};
use openpgp::packet::signature::SignatureBuilder;
use openpgp::serialize::SerializeInto as _;
use openpgp::types::{KeyFlags, PublicKeyAlgorithm, SignatureType};
use proptest::prelude::*;
use sequoia_openpgp as openpgp;
use talaria_cert::{Cert, PacketRef, Reason, Splitter, Tag, Verdict, Verification, View, verdicts};

use crate::common::{MADE, at, builder, judged as judged_cert, key, signer};

const KEYRING: &[u8] = include_bytes!("../fixtures/hockeypuck-2.3.3.pgp");
const DIGESTS: &str = include_str!("../fixtures/hockeypuck-2.3.3.txt");

fn certs(keyring: &[u8]) -> Vec<Cert> {
    certs_by(Cert::parse, keyring)
}

fn certs_by(parse: impl Fn(&[u8]) -> Result<Cert, Reason>, keyring: &[u8]) -> Vec<Cert> {
    let mut splitter = Splitter::new(keyring, 1 << 20);
    let mut certs = Vec::new();
    while let Some(batch) = splitter.next_batch().unwrap() {
        certs.extend(batch.certs().filter_map(|(_, raw)| parse(raw).ok()));
    }
    certs
}

fn judged(cert: &Cert) -> Vec<Verdict> {
    verdicts(&[cert], Verification::Full).remove(0)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn the_hockeypuck_view_has_the_digests_that_hockeypuck_stored() {
    let mut measured = DIGESTS.lines().filter(|line| !line.starts_with('#'));
    for cert in certs_by(Cert::parse_in_place, KEYRING) {
        let line = measured.next().unwrap();
        let fields: Vec<&str> = line.splitn(3, ' ').collect();
        let digest = View::Hockeypuck23.digest(&cert, &judged(&cert));
        let digest = digest.map_or("-".to_owned(), |digest| hex(&digest));
        assert_eq!(hex(cert.fingerprint().as_bytes()), fields[0]);
        assert_eq!(digest, fields[1], "{line}");
    }
    assert_eq!(measured.next(), None);
}

/// The laws of every view, for any certificate.
fn check_laws(cert: &Cert) -> Result<(), TestCaseError> {
    let verdicts = judged(cert);
    prop_assert_eq!(View::Sks.digest(cert, &verdicts), Some(cert.sks_digest()));
    for view in View::ALL {
        let digest = view.digest(cert, &verdicts);
        let seen = view.cert(cert, &verdicts);
        prop_assert_eq!(seen.as_ref().map(Cert::sks_digest), digest);
        // Cached verdicts save work and do not change the result.
        prop_assert_eq!(view.digest(cert, &[]), digest);
        if let Some(seen) = seen {
            prop_assert_eq!(seen.fingerprint(), cert.fingerprint());
            prop_assert_eq!(&cert.union(&seen), cert);
            let again = view.cert(&seen, &judged(&seen));
            prop_assert_eq!(again.as_ref(), Some(&seen), "a view sees all of itself");
        }
    }
    Ok(())
}

#[test]
fn a_view_is_a_subset_and_its_own_view() {
    for cert in certs(KEYRING) {
        check_laws(&cert).unwrap();
    }
}

/// One change to a packet of a certificate.
#[derive(Clone, Debug)]
enum Damage {
    Flip { packet: usize, at: usize, bit: u8 },
    Cut { packet: usize, by: usize },
    Lengthen { packet: usize },
    Remove { packet: usize },
    Move { packet: usize, to: usize },
    Retag { packet: usize, tag: u8 },
}

fn damage() -> impl Strategy<Value = Damage> {
    let any = 0usize..1 << 16;
    prop_oneof![
        (any.clone(), any.clone(), 0u8..8).prop_map(|(packet, at, bit)| Damage::Flip {
            packet,
            at,
            bit
        }),
        (any.clone(), 1usize..4).prop_map(|(packet, by)| Damage::Cut { packet, by }),
        any.clone().prop_map(|packet| Damage::Lengthen { packet }),
        any.clone().prop_map(|packet| Damage::Remove { packet }),
        (any.clone(), any.clone()).prop_map(|(packet, to)| Damage::Move { packet, to }),
        (any, 1u8..64).prop_map(|(packet, tag)| Damage::Retag { packet, tag }),
    ]
}

fn apply(packets: &mut Vec<(u8, Vec<u8>)>, damage: &Damage) {
    let (Damage::Flip { packet, .. }
    | Damage::Cut { packet, .. }
    | Damage::Lengthen { packet }
    | Damage::Remove { packet }
    | Damage::Move { packet, .. }
    | Damage::Retag { packet, .. }) = *damage;
    let which = packet % packets.len();
    let (tag, body) = &mut packets[which];
    match *damage {
        Damage::Flip { at, bit, .. } if !body.is_empty() => {
            let at = at % body.len();
            body[at] ^= 1 << bit;
        }
        Damage::Cut { by, .. } => body.truncate(body.len().saturating_sub(by)),
        Damage::Lengthen { .. } => body.push(0),
        Damage::Retag { tag: other, .. } if which > 0 => *tag = other,
        Damage::Remove { .. } if which > 0 => drop(packets.remove(which)),
        Damage::Move { to, .. } if which > 0 => {
            let packet = packets.remove(which);
            packets.insert(1 + to % packets.len(), packet);
        }
        _ => {}
    }
}

fn write(packets: &[(u8, Vec<u8>)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (tag, body) in packets {
        out.extend_from_slice(&[0xc0 | tag, 255]);
        out.extend_from_slice(&u32::try_from(body.len()).unwrap().to_be_bytes());
        out.extend_from_slice(body);
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Any readable certificate has its views, however damaged it is.
    #[test]
    fn the_laws_of_views_hold_for_damaged_certificates(
        which in 0usize..1 << 16,
        damages in prop::collection::vec(damage(), 1..4),
    ) {
        thread_local!(static CERTS: Vec<Cert> = certs(KEYRING));
        let mut packets: Vec<(u8, Vec<u8>)> = CERTS.with(|certs| {
            let whole = |PacketRef { tag: Tag(tag), body }: PacketRef<'_>| (tag, body.to_vec());
            certs[which % certs.len()].packets().map(whole).collect()
        });
        for damage in &damages {
            apply(&mut packets, damage);
        }
        if let Ok(cert) = Cert::parse(&write(&packets)) {
            check_laws(&cert)?;
        }
    }
}

/// A packet with a header in the OpenPGP format.
fn framed(tag: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).unwrap().to_be_bytes();
    [&[0xc0 | tag, 0xff][..], &length, body].concat()
}

/// An RSA key of 1,024 bits with this exponent, as the body of a packet.
fn rsa(exponent: &[u8]) -> Vec<u8> {
    let bits = |number: &[u8]| {
        let zeros = number[0].leading_zeros();
        u16::try_from(number.len() * 8).unwrap() - u16::try_from(zeros).unwrap()
    };
    let modulus = [0xab; 128];
    let mut body = vec![4, 0x4f, 0, 0, 0, 1];
    for number in [&modulus[..], exponent] {
        body.extend(bits(number).to_be_bytes());
        body.extend(number);
    }
    body
}

#[test]
fn hockeypuck_2_1_loses_large_packets_and_keys_that_go_cannot_read() {
    let usual = [1, 0, 1];
    // That of old smartcards for authentication.
    let long = [0x01, 0x00, 0x00, 0x01];
    let signature = [&[4, 0x18, 1, 8, 0, 0, 0, 0, 0, 0][..], &[0, 1, 1]].concat();
    let user_id = framed(13, b"Alice <alice@example.org>");
    let cert = |primary: &[u8], subkey: &[u8], photo: usize| {
        let mut raw = framed(6, &rsa(primary));
        raw.extend(&user_id);
        raw.extend(framed(2, &signature));
        raw.extend(framed(17, &vec![1; photo]));
        raw.extend(framed(2, &signature));
        raw.extend(framed(14, &rsa(subkey)));
        raw.extend(framed(2, &signature));
        Cert::parse(&raw).unwrap()
    };
    let seen = |cert: &Cert| View::Hockeypuck21.cert(cert, &[]);
    let plain = cert(&usual, &usual, 100);
    assert_eq!(seen(&plain).as_ref(), Some(&plain));
    assert_eq!(View::Hockeypuck21.digest(&plain, &[]), Some(plain.sks_digest()));
    let tags = |cert: &Cert| cert.packets().map(|packet| packet.tag).collect::<Vec<_>>();
    // The subkey goes with the signature on it, and so does the photo.
    let without_subkey = seen(&cert(&usual, &long, 100)).unwrap();
    assert!(!tags(&without_subkey).contains(&Tag::PUBLIC_SUBKEY));
    assert_eq!(without_subkey.packets().len(), plain.packets().len() - 2);
    let without_photo = seen(&cert(&usual, &usual, 8193)).unwrap();
    assert!(!tags(&without_photo).contains(&Tag::USER_ATTRIBUTE));
    assert_eq!(without_photo.packets().len(), plain.packets().len() - 2);
    assert_eq!(seen(&cert(&usual, &usual, 8192)).unwrap().packets().len(), plain.packets().len());
    assert_eq!(seen(&cert(&long, &usual, 100)), None);
}

/// Four of the certificates that differed between SKS and Hockeypuck 2.1.2 are in Debian's keyring
/// of 2022.
#[test]
fn hockeypuck_2_1_sees_nearly_all_real_certificates_as_sks_does() {
    let Ok(ring) = std::fs::read("/usr/share/keyrings/debian-keyring.gpg") else {
        talaria_needs::left_out("debian-keyring");
        return;
    };
    let all = certs(&ring);
    let differs =
        |cert: &&Cert| View::Hockeypuck21.digest(cert, &[]) != View::Sks.digest(cert, &[]);
    assert!(all.len() > 800);
    assert_eq!(all.iter().filter(differs).count(), 4);
}

/// A certificate of version 6 with a subkey of this algorithm, bound by its primary key.
fn with_subkey(profile: Profile, algorithm: u8, bytes: usize) -> Cert {
    let cert = if profile == Profile::RFC9580 {
        let builder = CertBuilder::new().set_profile(profile).unwrap();
        builder.set_creation_time(at(MADE)).add_userid("Alice").generate().unwrap().0
    } else {
        key("Alice")
    };
    let public = mpi::PublicKey::Unknown { mpis: [].into(), rest: vec![9; bytes].into() };
    let algorithm = PublicKeyAlgorithm::from(algorithm);
    let subkey: packet::Key<PublicParts, SubordinateRole> = match profile {
        Profile::RFC9580 => packet::key::Key6::new(at(MADE), algorithm, public).unwrap().into(),
        _ => packet::key::Key4::new(at(MADE), algorithm, public).unwrap().into(),
    };
    let binding = builder_of_binding();
    let binding = subkey.bind(&mut signer(&cert), &cert, binding).unwrap();
    let packets = [openpgp::Packet::from(subkey), binding.into()];
    let cert = cert.insert_packets(packets).unwrap().0;
    Cert::parse(&cert.to_vec().unwrap()).unwrap()
}

fn builder_of_binding() -> SignatureBuilder {
    let flags = KeyFlags::empty().set_transport_encryption();
    builder(SignatureType::SubkeyBinding, 1).set_key_flags(flags).unwrap()
}

/// Hockeypuck 2.4 reads post-quantum keys for encryption, and 2.3 does not.
#[test]
fn hockeypuck_2_4_keeps_the_post_quantum_subkeys_that_it_reads() {
    let (old, new) = (View::Hockeypuck23, View::Hockeypuck24);
    for (profile, algorithm, bytes, is_kept) in [
        (Profile::RFC4880, 35, 32 + 1184, true),
        (Profile::RFC9580, 35, 32 + 1184, true),
        (Profile::RFC9580, 36, 56 + 1568, true),
        // Too short; only for version 6; nobody knows it.
        (Profile::RFC9580, 35, 32 + 1183, false),
        (Profile::RFC4880, 36, 56 + 1568, false),
        (Profile::RFC9580, 37, 1216, false),
    ] {
        let (cert, verdicts) = judged_cert(with_subkey(profile, algorithm, bytes));
        let subkeys = |view: View| {
            let seen = view.cert(&cert, &verdicts).unwrap();
            seen.packets().filter(|packet| packet.tag == Tag::PUBLIC_SUBKEY).count()
        };
        let case = format!("{profile:?} {algorithm} {bytes}");
        assert_eq!((subkeys(old), subkeys(new)), (0, usize::from(is_kept)), "{case}");
        assert_eq!(new.digest(&cert, &verdicts), new.digest(&cert, &[]), "{case}");
    }
}

/// All others are in both views alike, but for signatures that are too long for 2.3.
#[test]
fn hockeypuck_2_4_keeps_what_2_3_keeps_and_longer_signatures() {
    let mut long = 0;
    for cert in certs(KEYRING) {
        let verdicts = judged(&cert);
        let [old, new] =
            [View::Hockeypuck23, View::Hockeypuck24].map(|view| view.digest(&cert, &verdicts));
        let is_long = |packet: PacketRef<'_>| {
            packet.tag == Tag::SIGNATURE && (8193..=65_536).contains(&packet.body.len())
        };
        let has_long = cert.packets().any(is_long);
        assert_eq!(old != new, has_long, "{}", cert.fingerprint());
        long += usize::from(has_long);
    }
    assert_eq!(long, 1, "the fixture has one of 8,271 bytes");
}

/// Hockeypuck 2.1 keeps them without user IDs and subkeys.
#[test]
fn hockeypuck_2_1_has_no_certificate_of_version_6() {
    let cert = with_subkey(Profile::RFC9580, 35, 1216);
    assert_eq!(cert.fingerprint().version(), 6);
    assert_eq!(View::Hockeypuck21.digest(&cert, &[]), None);
    assert_eq!(View::Hockeypuck21.cert(&cert, &[]), None);
    let cert = with_subkey(Profile::RFC4880, 35, 1216);
    assert!(View::Hockeypuck21.digest(&cert, &[]).is_some());
}
