//! Certificates, or parts of them, that only signatures with SHA-1 bind.

use std::time::{Duration, SystemTime};

use talaria_message::make::{self, MakeError};
use talaria_message::openpgp::cert::{CertBuilder, CipherSuite};
use talaria_message::openpgp::packet::signature::SignatureBuilder;
use talaria_message::openpgp::parse::Parse as _;
use talaria_message::openpgp::serialize::SerializeInto as _;
use talaria_message::openpgp::types::{HashAlgorithm, ReasonForRevocation, SignatureType};
use talaria_message::openpgp::{Cert, Packet, PacketPile};
use talaria_message::{
    Bound, KeyFault, MessageError, Outcome, Purpose, Recipients, Rules, Verifier, judge, lookup_in,
    sign_detached, signing_key,
};

use crate::common::NOW;

/// 2020-01-01, before SHA-1 ceased to count, and 2024-01-01.
const BEFORE: u32 = 1_577_836_800;
const AFTER: u32 = 1_704_067_200;

fn at(seconds: u32) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds.into())
}

/// A certificate of a time.
fn made(time: u32) -> Cert {
    let builder = CertBuilder::new()
        .set_creation_time(at(time))
        .add_userid("Alice <alice@example.org>")
        .set_cipher_suite(CipherSuite::Cv25519)
        .add_signing_subkey()
        .add_transport_encryption_subkey();
    builder.generate().unwrap().0
}

/// The packets of a certificate, with its secrets.
fn packets_of(cert: &Cert) -> Vec<Packet> {
    let bytes = cert.as_tsk().to_vec().unwrap();
    PacketPile::from_bytes(&bytes).unwrap().into_children().collect()
}

/// Signatures like those of some types in `cert`, with another hash function and `more` changes.
fn again(
    cert: &Cert,
    types: &[SignatureType],
    hash: HashAlgorithm,
    more: impl Fn(SignatureBuilder) -> SignatureBuilder,
) -> Vec<Packet> {
    let primary = cert.primary_key().key();
    let mut signer = primary.clone().parts_into_secret().unwrap().into_keypair().unwrap();
    let user_id = cert.userids().next().unwrap().userid().clone();
    let mut packets = Vec::new();
    let mut subkey = None;
    for packet in packets_of(cert) {
        match packet {
            Packet::PublicSubkey(key) => subkey = Some(key),
            Packet::SecretSubkey(key) => subkey = Some(key.parts_into_public()),
            Packet::Signature(old) if types.contains(&old.typ()) => {
                let time = old.signature_creation_time().unwrap();
                let builder = SignatureBuilder::from(old.clone()).set_hash_algo(hash);
                let builder = more(builder.set_signature_creation_time(time).unwrap());
                let new = match old.typ() {
                    SignatureType::SubkeyBinding => {
                        builder.sign_subkey_binding(&mut signer, primary, subkey.as_ref().unwrap())
                    }
                    SignatureType::DirectKey => builder.sign_direct_key(&mut signer, primary),
                    _ => builder.sign_userid_binding(&mut signer, primary, &user_id),
                };
                packets.push(new.unwrap().into());
            }
            _ => {}
        }
    }
    packets
}

/// A certificate of a time of which the signatures of some types are made with SHA-1 instead.
fn with_sha1(time: u32, types: &[SignatureType]) -> Cert {
    let cert = made(time);
    let weak = again(&cert, types, HashAlgorithm::SHA1, |builder| builder);
    let keep = |packet: &Packet| !matches!(packet, Packet::Signature(signature) if types.contains(&signature.typ()));
    let rest = Cert::from_packets(packets_of(&cert).into_iter().filter(keep)).unwrap();
    rest.insert_packets(weak).unwrap().0
}

const ALL: [SignatureType; 3] =
    [SignatureType::DirectKey, SignatureType::PositiveCertification, SignatureType::SubkeyBinding];

/// The result of encrypting to a certificate: whether it rests on a signature with SHA-1.
fn encrypted(cert: &Cert, rules: Rules) -> Result<bool, KeyFault> {
    match Recipients::default().add(cert, rules, &mut |_| None, NOW) {
        Ok(weak) => Ok(weak.is_some()),
        Err(MessageError::Key { why, .. }) => Err(why),
        Err(other) => panic!("{other:?}"),
    }
}

const GNUPG: Rules = Rules::Gnupg(talaria_cert::Gnupg::V2_2);

#[test]
fn the_reason_names_the_hash_function() {
    let said = encrypted(&with_sha1(AFTER, &ALL), Rules::Standard).unwrap_err();
    assert!(matches!(&said, KeyFault::Weak { what: Bound::Certificate, hash: "SHA-1", .. }));
    let said = said.to_string();
    assert!(
        said.starts_with("only signatures with SHA-1 bind it, the newest of 2024-01-01"),
        "{said}"
    );

    let subkeys = with_sha1(AFTER, &[SignatureType::SubkeyBinding]);
    let said = encrypted(&subkeys, Rules::Standard).unwrap_err().to_string();
    assert!(said.starts_with("only signatures with SHA-1 bind its encryption key"), "{said}");
}

#[test]
fn an_old_signature_with_sha_1_binds_what_nothing_better_binds() {
    let (old, new) = (with_sha1(BEFORE, &ALL), with_sha1(AFTER, &ALL));
    for (rules, of_old, of_new) in [
        (Rules::Standard, Some(true), None),
        (Rules::Strict, None, None),
        (GNUPG, Some(false), Some(false)),
    ] {
        assert_eq!(encrypted(&old, rules).ok(), of_old, "{rules:?}");
        assert_eq!(encrypted(&new, rules).ok(), of_new, "{rules:?}");
    }
    // A better signature beside it is enough.
    let one = with_sha1(AFTER, &[SignatureType::PositiveCertification]);
    assert_eq!(encrypted(&one, Rules::Strict), Ok(false));
}

#[test]
fn what_sha_1_binds_makes_no_signatures_but_those_made_with_it_count() {
    let weak = with_sha1(BEFORE, &ALL);
    let refused = signing_key(&weak, Rules::Standard, NOW, &mut |_, _| None).err().unwrap();
    assert!(refused.to_string().contains("only signatures with SHA-1 bind it"), "{refused}");
    let refused = make::certifiable(&weak, Rules::Standard, NOW);
    assert!(matches!(refused, Err(MakeError::Unusable { .. })), "{refused:?}");

    let mut key = signing_key(&weak, GNUPG, NOW, &mut |_, _| None).unwrap();
    let mut signature = Vec::new();
    sign_detached(&mut &b"text"[..], &mut signature, std::slice::from_mut(&mut key), false, NOW)
        .unwrap();
    let verifier = Verifier::new(lookup_in([weak]), Rules::Standard, NOW);
    let report = verifier.detached(&signature, &mut &b"text"[..]).unwrap().remove(0);
    assert_eq!(report.outcome, Outcome::Good);
}

#[test]
fn sha_1_lengthens_no_life_and_adds_no_right() {
    use SignatureType::{DirectKey, PositiveCertification, SubkeyBinding};
    let types = [DirectKey, PositiveCertification, SubkeyBinding];
    // The good signatures end a year later; those with SHA-1 do not end.
    let year = Duration::from_secs(365 * 86_400);
    let cert = made(BEFORE);
    let ending = again(&cert, &types, HashAlgorithm::SHA256, |builder| {
        builder.set_key_validity_period(year).unwrap()
    });
    let endless = again(&cert, &types, HashAlgorithm::SHA1, |builder| builder);
    let keep = |packet: &Packet| !matches!(packet, Packet::Signature(_));
    let bare = Cert::from_packets(packets_of(&cert).into_iter().filter(keep)).unwrap();
    let ended = bare.clone().insert_packets(ending.clone()).unwrap().0;
    let both = ended.clone().insert_packets(endless.clone()).unwrap().0;
    assert!(matches!(encrypted(&ended, Rules::Standard), Err(KeyFault::Expired(Some(_)))));
    assert!(matches!(encrypted(&both, Rules::Standard), Err(KeyFault::Expired(Some(_)))));
    assert_eq!(encrypted(&bare.insert_packets(endless).unwrap().0, Rules::Standard), Ok(true));
}

#[test]
fn revocations_count_with_sha_1_by_all_rules() {
    let cert = made(BEFORE);
    let secret = cert.primary_key().key().clone().parts_into_secret().unwrap();
    let mut signer = secret.into_keypair().unwrap();
    let revocation = SignatureBuilder::new(SignatureType::KeyRevocation)
        .set_hash_algo(HashAlgorithm::SHA1)
        .set_signature_creation_time(at(AFTER))
        .unwrap()
        .set_reason_for_revocation(ReasonForRevocation::KeyCompromised, b"")
        .unwrap()
        .sign_direct_key(&mut signer, cert.primary_key().key())
        .unwrap();
    let revoked = cert.insert_packets(revocation).unwrap().0;
    for rules in [Rules::Standard, Rules::Strict, GNUPG] {
        assert_eq!(encrypted(&revoked, rules), Err(KeyFault::Revoked), "{rules:?}");
        let judge = judge(&revoked, rules, &mut |_| None, NOW).unwrap();
        assert!(judge.usable(Purpose::Sign, BEFORE + 1).is_err(), "a hard one, at any time");
    }
}
