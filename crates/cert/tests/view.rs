//! Views, compared with the results of their software for the same certificates.

use proptest::prelude::*;
use talaria_cert::{Cert, PacketRef, Splitter, Tag, Verdict, Verification, View, verdicts};

const KEYRING: &[u8] = include_bytes!("fixtures/hockeypuck-2.3.3.pgp");
const DIGESTS: &str = include_str!("fixtures/hockeypuck-2.3.3.txt");

fn certs(keyring: &[u8]) -> Vec<Cert> {
    let mut splitter = Splitter::new(keyring, 1 << 20);
    let mut certs = Vec::new();
    while let Some(batch) = splitter.next_batch().unwrap() {
        certs.extend(batch.certs().filter_map(|(_, raw)| Cert::parse(raw).ok()));
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
    for cert in certs(KEYRING) {
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
