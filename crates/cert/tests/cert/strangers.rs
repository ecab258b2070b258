//! What strangers with keys of their own really sign on a certificate, and in whose name; and what
//! an owner signs with a wrong clock.

use sequoia_openpgp as openpgp;

use openpgp::cert::CertBuilder;
use openpgp::packet::signature::SignatureBuilder;
use openpgp::packet::signature::subpacket::{Subpacket, SubpacketTag, SubpacketValue};
use openpgp::packet::{Signature, UserID};
use openpgp::serialize::MarshalInto as _;
use openpgp::types::{ReasonForRevocation, RevocationKey, SignatureType};
use talaria_cert::{Cert, Serving, Summary, Tag, ThirdParty, Validity, Verdict};

use crate::common::{MADE, at, builder, judged, key, signer};

fn user_id(cert: &openpgp::Cert) -> UserID {
    cert.userids().next().unwrap().userid().clone()
}

/// A signature of a type in the name of some keys, which the hashed area does not have.
fn in_the_name_of(kind: SignatureType, names: &[&openpgp::Cert], second: u32) -> SignatureBuilder {
    let builder = builder(kind, second).modify_unhashed_area(|mut area| {
        for name in names {
            area.add(Subpacket::new(SubpacketValue::Issuer(name.keyid()), false)?)?;
        }
        Ok(area)
    });
    builder.unwrap()
}

/// A certification of the user ID of `on`.
fn certified(by: &openpgp::Cert, on: &openpgp::Cert, builder: SignatureBuilder) -> Signature {
    builder.sign_userid_binding(&mut signer(by), on.primary_key().key(), &user_id(on)).unwrap()
}

/// `of` with signatures on the primary key or the user ID.
fn with(of: &openpgp::Cert, signatures: impl IntoIterator<Item = Signature>) -> Cert {
    let packets = signatures.into_iter().map(openpgp::Packet::from);
    let cert = of.clone().insert_packets(packets).unwrap().0;
    Cert::parse(&cert.to_vec().unwrap()).unwrap()
}

/// The certificate as clients get it from a server that has others, with at most so many signatures
/// of other keys.
fn served(cert: &Cert, others: &[&openpgp::Cert], foreign_signatures: usize) -> Cert {
    let mut known: Vec<_> = others.iter().map(|other| judged(with(other, []))).collect();
    served_by(cert, &mut known, foreign_signatures)
}

fn served_by(cert: &Cert, known: &mut Vec<(Cert, Vec<Verdict>)>, most: usize) -> Cert {
    let (cert, stored) = judged(cert.clone());
    let ranked = cert.certified(&stored, most, known);
    let serving =
        Serving { third_party: ThirdParty::Verified, foreign_signatures: most, attributes: false };
    cert.served(&ranked, serving).unwrap_or(cert)
}

fn has(cert: &Cert, signature: &Signature) -> bool {
    let body = signature.to_vec().unwrap();
    cert.packets().any(|packet| packet.tag == Tag::SIGNATURE && packet.body == body)
}

#[test]
fn a_strangers_revocations_in_the_name_of_a_revoker_displace_no_genuine_one() {
    let [revoker, stranger] = ["Revoker", "Stranger"].map(key);
    let named = revoker.primary_key().key();
    let named = RevocationKey::new(named.pk_algo(), named.fingerprint(), false);
    let owner = CertBuilder::new().set_creation_time(at(MADE)).set_revocation_keys(vec![named]);
    let owner = owner.add_userid("Olga").generate().unwrap().0;
    let revoke = |by: &openpgp::Cert, builder: SignatureBuilder| {
        builder
            .set_reason_for_revocation(ReasonForRevocation::KeyCompromised, b"")
            .unwrap()
            .sign_direct_key(&mut signer(by), Some(owner.primary_key().key()))
            .unwrap()
    };
    let kind = SignatureType::KeyRevocation;
    for second in 0..8 {
        let genuine = revoke(&revoker, in_the_name_of(kind, &[&revoker], 100 + second));
        // Without an issuer in the hashed area, and with the own one, beside which a hint names the
        // revoker.
        let hinted = (0..16).map(|n| {
            revoke(&stranger, in_the_name_of(kind, &[&stranger, &revoker], second * 20 + n))
        });
        let own = (0..16).map(|n| {
            let builder = in_the_name_of(kind, &[&revoker], second * 20 + n);
            revoke(&stranger, builder.set_issuer_fingerprint(stranger.fingerprint()).unwrap())
        });
        for strangers in [hinted.collect::<Vec<_>>(), own.collect()] {
            let cert = with(&owner, strangers.into_iter().chain([genuine.clone()]));
            assert!(has(&served(&cert, &[&revoker, &stranger], 1000), &genuine));
        }
    }
}

#[test]
fn a_certification_is_served_in_the_name_of_the_key_that_made_it() {
    let [owner, famous, stranger] = ["Olga", "Famous", "Stranger"].map(key);
    let kind = SignatureType::PositiveCertification;
    let both = certified(&stranger, &owner, in_the_name_of(kind, &[&famous, &stranger], 1));
    let others = [&famous, &stranger];
    let cert = served(&with(&owner, [both.clone()]), &others, 1000);
    assert!(!has(&cert, &both));
    // The same signature as its maker wrote it.
    let mut plain = both.clone();
    plain.unhashed_area_mut().clear();
    let issuer = Subpacket::new(SubpacketValue::Issuer(stranger.keyid()), false).unwrap();
    plain.unhashed_area_mut().add(issuer).unwrap();
    let cert = served(&with(&owner, [both.clone(), plain.clone()]), &others, 1000);
    assert!(has(&cert, &plain) && !has(&cert, &both));
}

#[test]
fn strangers_on_a_friends_certificate_do_not_hide_that_the_owner_certified_it() {
    let [owner, friend, other] = ["Olga", "Friend", "Other"].map(key);
    let strangers: Vec<openpgp::Cert> = (0..8).map(|n| key(&format!("{n}"))).collect();
    let kind = SignatureType::PositiveCertification;
    let sign = |by: &openpgp::Cert, on: &openpgp::Cert, names: &[&openpgp::Cert]| {
        certified(by, on, in_the_name_of(kind, names, 1))
    };
    let by_friends = [sign(&friend, &owner, &[&friend]), sign(&other, &owner, &[&other])];
    let cert = with(&owner, by_friends.clone());
    let genuine = sign(&owner, &friend, &[&owner]);
    // They name the owner and themselves, and are verified.
    let mixed = strangers.iter().map(|by| sign(by, &friend, &[&owner, by]));
    // User IDs that the friend has not bound, which come first.
    let forged = (0..8).flat_map(|n| {
        let name = openpgp::Packet::from(UserID::from(format!("!{n}")));
        let signatures = strangers.iter().map(|by| sign(by, &friend, &[&owner]));
        [name].into_iter().chain(signatures.map(openpgp::Packet::from)).collect::<Vec<_>>()
    });
    let packets = mixed.chain([genuine]).map(openpgp::Packet::from);
    let whole: Vec<u8> = friend
        .clone()
        .insert_packets(packets)
        .unwrap()
        .0
        .to_vec()
        .unwrap()
        .into_iter()
        .chain(forged.flat_map(|packet| packet.to_vec().unwrap()))
        .collect();
    let (whole, stored) = judged(Cert::parse(&whole).unwrap());
    let mut known: Vec<_> = strangers.iter().map(|cert| judged(with(cert, []))).collect();
    known.extend([judged(with(&owner, [])), judged(with(&other, []))]);
    // Before anybody has looked the friend up, and after that.
    let found = whole.certified(&stored, 1000, &mut known);
    for verdicts in [stored, found] {
        let mut known = known.clone();
        known.push((whole.clone(), verdicts));
        let cert = served_by(&cert, &mut known, 1);
        assert!(has(&cert, &by_friends[0]) && !has(&cert, &by_friends[1]));
    }
}

#[test]
fn a_revocation_of_a_certification_that_is_not_here_is_not_served() {
    let [owner, stranger] = ["Olga", "Stranger"].map(key);
    let sign = |kind| certified(&stranger, &owner, in_the_name_of(kind, &[&stranger], 1));
    let revocation = sign(SignatureType::CertificationRevocation);
    let certification = sign(SignatureType::PositiveCertification);
    let alone = served(&with(&owner, [revocation.clone()]), &[&stranger], 1000);
    assert!(!has(&alone, &revocation));
    let both = with(&owner, [revocation.clone(), certification.clone()]);
    let both = served(&both, &[&stranger], 1000);
    assert!(has(&both, &revocation) && has(&both, &certification));
}

/// RNP refuses a certificate with one of these.
#[test]
fn a_certification_is_never_served_without_its_revocation() {
    let [owner, other] = ["Owner", "Other"].map(key);
    let others: Vec<openpgp::Cert> = (0..6).map(|number| key(&format!("{number}"))).collect();
    let made = |by, kind, second| certified(by, &owner, builder(kind, second));
    let pairs: Vec<[Signature; 2]> = others
        .iter()
        .map(|by| {
            let certification = made(by, SignatureType::PositiveCertification, 1);
            [certification, made(by, SignatureType::CertificationRevocation, 2)]
        })
        .collect();
    let alone = made(&other, SignatureType::PositiveCertification, 1);
    let all = with(&owner, pairs.iter().flatten().chain([&alone]).cloned());
    let known: Vec<&openpgp::Cert> = others.iter().chain([&other]).collect();
    for most in 0..14 {
        let cert = served(&all, &known, most);
        let mut count = 0;
        for [certification, revocation] in &pairs {
            assert_eq!(has(&cert, certification), has(&cert, revocation), "{most}");
            count += 2 * usize::from(has(&cert, certification));
        }
        // A place is left only where two are needed.
        assert_eq!(count, if has(&cert, &alone) { (most.min(13) - 1) / 2 * 2 } else { most });
    }
}

#[test]
fn odd_subpackets_of_strangers_are_not_served() {
    let [owner, stranger] = ["Olga", "Stranger"].map(key);
    let sign = |tag: u8, body: &[u8], critical| {
        let builder = builder(SignatureType::PositiveCertification, 1);
        let value = SubpacketValue::Unknown { tag: SubpacketTag::from(tag), body: body.to_vec() };
        let builder = builder.modify_hashed_area(|mut area| {
            area.add(Subpacket::new(value, critical)?)?;
            Ok(area)
        });
        certified(&stranger, &owner, builder.unwrap())
    };
    for (tag, body, critical, is_served) in [
        (27, &[][..], false, false),
        (23, &[], false, false),
        (30, &[], false, false),
        (31, &[1, 8, 7, 7, 7, 7, 7, 7, 7, 7], false, false),
        (99, &[1], true, false),
        (99, &[1], false, true),
        (27, &[1], false, true),
        (31, &[1; 34], false, true),
    ] {
        let made = sign(tag, body, critical);
        let cert = served(&with(&owner, [made.clone()]), &[&stranger], 1000);
        assert_eq!(has(&cert, &made), is_served, "{tag} {body:?} {critical}");
    }
}

/// GnuPG and sq see it so, too.
#[test]
fn a_hard_revocation_counts_although_its_date_is_ahead() {
    use openpgp::types::ReasonForRevocation::{KeyCompromised, KeyRetired, KeySuperseded};
    let owner = key("Olga");
    let now = MADE + 1000;
    for (reason, expected) in [
        (KeyCompromised, Validity::Revoked),
        (KeyRetired, Validity::Valid),
        (KeySuperseded, Validity::Valid),
    ] {
        let revocation = builder(SignatureType::KeyRevocation, 101_000)
            .set_reason_for_revocation(reason, b"")
            .unwrap()
            .sign_direct_key(&mut signer(&owner), Some(owner.primary_key().key()))
            .unwrap();
        let (cert, verdicts) = judged(with(&owner, [revocation]));
        let validity = |now| Summary::evaluate(&cert, &verdicts, now).validity(now);
        assert_eq!(validity(now), expected, "{reason:?}");
        assert_eq!(validity(now + 100_000), Validity::Revoked);
    }
}
