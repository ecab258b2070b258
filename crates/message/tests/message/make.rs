//! Making and changing keys: Sequoia accepts the results, and forged signatures change nothing.

use crate::common::STANDARD;
use std::time::{Duration, SystemTime};

use talaria_message::Rules;
use talaria_message::make::{
    self, CertifyOptions, GenerateOptions, Introduction, KeyProfile, MakeError, Protection, Rank,
    RenewOptions, RevocationReason, Revoked, SubkeyOptions, SubkeyUse,
};
use talaria_message::openpgp::Cert;
use talaria_message::openpgp::cert::amalgamation::ValidAmalgamation as _;
use talaria_message::openpgp::crypto::Password;
use talaria_message::openpgp::packet::signature::SignatureBuilder;
use talaria_message::openpgp::packet::signature::subpacket::{
    Subpacket, SubpacketTag, SubpacketValue,
};
use talaria_message::openpgp::packet::{Key, UserID};
use talaria_message::openpgp::types::{RevocationStatus, SignatureType};

const NOW: u32 = 1_750_000_000;
const DAY: u32 = 86400;
const PROFILES: [KeyProfile; 2] = [KeyProfile::Rfc4880, KeyProfile::Rfc9580];

fn at(time: u32) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(time.into())
}

fn open<P, R>(_: usize, _: &Key<P, R>) -> Option<Password>
where
    P: talaria_message::openpgp::packet::key::KeyParts,
    R: talaria_message::openpgp::packet::key::KeyRole,
{
    None
}

fn key(name: &str, profile: KeyProfile) -> Cert {
    let mut options = GenerateOptions::default();
    options.user_ids = vec![format!("{name} <{name}@example.org>")];
    options.profile = profile;
    make::generate(&options, &Protection::Unprotected, NOW).unwrap().cert
}

fn user_ids(cert: &Cert, time: u32) -> Vec<String> {
    let found = make::certifiable(cert, Rules::default(), time).unwrap();
    found.iter().map(|id| String::from_utf8_lossy(id.value()).into_owned()).collect()
}

/// Anybody can add forged signatures in our name, with any date, to another certificate.
#[test]
fn forged_certifications_change_no_date_and_never_count() {
    let (alice, bob) = (key("alice", PROFILES[0]), key("bob", PROFILES[0]));
    let mallory = key("mallory", PROFILES[0]);
    let user_id = UserID::from("bob <bob@example.org>");
    let mut signer = make::certifier(&mallory, Rules::default(), NOW, &mut open).unwrap();
    let issuer = alice.fingerprint();
    let forged = SignatureBuilder::new(SignatureType::GenericCertification)
        .set_signature_creation_time(at(NOW + 9999 * DAY))
        .unwrap()
        .set_issuer_fingerprint(issuer.clone())
        .unwrap()
        .set_issuer(issuer.into())
        .unwrap();
    let forged = user_id.bind(&mut signer, &bob, forged).unwrap();
    let bob = bob.insert_packets([forged]).unwrap().0;

    let says = CertifyOptions::default();
    assert!(!make::is_certified(&bob, &user_id, &alice, &says, NOW + 9999 * DAY));
    let mut signer = make::certifier(&alice, Rules::default(), NOW + 5, &mut open).unwrap();
    let made = make::certify(&bob, &user_id, &mut signer, &says, NOW + 5).unwrap();
    assert_eq!(made.signature_creation_time(), Some(at(NOW + 5)));
    let bob = bob.insert_packets([made]).unwrap().0;
    assert!(make::is_certified(&bob, &user_id, &alice, &says, NOW + 5));
    // A certification with other subpackets is a new one, and the latest one counts.
    let mut local = says;
    local.local = true;
    assert!(!make::is_certified(&bob, &user_id, &alice, &local, NOW + 5));
    let made = make::certify(&bob, &user_id, &mut signer, &local, NOW + 5).unwrap();
    assert_eq!(made.signature_creation_time(), Some(at(NOW + 6)));
}

#[test]
fn a_certification_has_the_requested_subpackets() {
    for profile in PROFILES {
        let (alice, bob) = (key("alice", profile), key("bob", profile));
        let user_id = UserID::from("bob <bob@example.org>");
        let mut signer = make::certifier(&alice, Rules::default(), NOW, &mut open).unwrap();
        let mut says = CertifyOptions::default();
        says.local = true;
        says.introduction = Some(Introduction { depth: 2, amount: 60 });
        says.expires = Some(NOW + DAY);
        let made = make::certify(&bob, &user_id, &mut signer, &says, NOW).unwrap();
        assert_eq!(made.exportable_certification(), Some(false));
        assert_eq!(made.trust_signature(), Some((2, 60)));
        assert_eq!(made.signature_expiration_time(), Some(at(NOW + DAY)));
        // The non-exportable flag is critical, so that programs without support do not export the
        // certification.
        let local = made.subpacket(SubpacketTag::ExportableCertification);
        assert!(local.is_some_and(Subpacket::critical));
        let bob = bob.insert_packets([made]).unwrap().0;
        assert!(make::is_certified(&bob, &user_id, &alice, &says, NOW));
        assert!(!make::is_certified(&bob, &user_id, &alice, &says, NOW + DAY));
        says.expires = Some(NOW);
        let refused = make::certify(&bob, &user_id, &mut signer, &says, NOW);
        assert!(matches!(refused, Err(MakeError::EndsTooEarly)), "{refused:?}");
    }
}

#[test]
fn revoked_expired_and_unsigned_user_ids_are_not_certifiable() {
    for profile in PROFILES {
        let mut bob = key("bob", profile);
        let add = |bob: Cert, text: &str, time| {
            let made =
                make::add_user_id(&bob, text, Rank::Further, &mut open, Rules::default(), time);
            bob.insert_packets(made.unwrap()).unwrap().0
        };
        bob = add(bob, "b@example.net", NOW + 1);
        bob = bob.insert_packets([UserID::from("evil@example.net")]).unwrap().0;
        assert_eq!(user_ids(&bob, NOW + 2), ["b@example.net", "bob <bob@example.org>"]);
        let user_id = UserID::from("b@example.net");
        let reason = RevocationReason::Retired;
        let what = Revoked::UserId(&user_id);
        // Also in the same second as the binding.
        let made = make::revoke(&bob, what, reason, "", &mut open, NOW + 1).unwrap();
        let bob = bob.insert_packets([made]).unwrap().0;
        assert_eq!(user_ids(&bob, NOW + 3), ["bob <bob@example.org>"]);
        let back = add(bob.clone(), "b@example.net", NOW + 2);
        assert_eq!(user_ids(&back, NOW + 4).len(), 2);

        let ends = make::set_expiry(&bob, Some(NOW + DAY), &mut open, NOW + 5).unwrap();
        let ending = bob.clone().insert_packets(ends).unwrap().0;
        let refused = make::certifiable(&ending, Rules::default(), NOW + DAY + 1);
        assert!(matches!(refused, Err(MakeError::Unusable { .. })), "{refused:?}");
        assert!(matches!(
            make::may_certify(&ending, Rules::default(), NOW + DAY + 1),
            Err(MakeError::Unusable { .. })
        ));
        let made = make::revoke(&bob, Revoked::Certificate, reason, "", &mut open, NOW).unwrap();
        let revoked = bob.insert_packets([made]).unwrap().0;
        let refused = make::certifiable(&revoked, Rules::default(), NOW + 9);
        assert!(matches!(refused, Err(MakeError::Revoked { .. })), "{refused:?}");
        assert!(make::may_certify(&revoked, Rules::default(), NOW + 9).is_err());
    }
}

#[test]
fn a_key_without_the_certify_flag_certifies_nothing() {
    let alice = key("alice", PROFILES[0]);
    let mut signer = make::certifier(&alice, Rules::default(), NOW, &mut open).unwrap();
    let flags = talaria_message::openpgp::types::KeyFlags::empty().set_signing();
    let bound = SignatureBuilder::new(SignatureType::PositiveCertification)
        .set_signature_creation_time(at(NOW + 1))
        .unwrap()
        .set_key_flags(flags.clone())
        .unwrap()
        .set_primary_userid(true)
        .unwrap();
    let user_id = UserID::from("alice <alice@example.org>");
    let bound = user_id.bind(&mut signer, &alice, bound).unwrap();
    let direct = SignatureBuilder::new(SignatureType::DirectKey)
        .set_signature_creation_time(at(NOW + 1))
        .unwrap()
        .set_key_flags(flags)
        .unwrap()
        .sign_direct_key(&mut signer, Some(alice.primary_key().key()))
        .unwrap();
    let alice = alice.insert_packets([bound, direct]).unwrap().0;
    let refused = make::may_certify(&alice, Rules::default(), NOW + 2);
    assert!(matches!(refused, Err(MakeError::Unusable { .. })), "{refused:?}");
}

#[test]
fn a_new_subkey_has_its_flags_and_is_bound_to_one_key() {
    for profile in PROFILES {
        let alice = key("alice", profile);
        for (uses, signs, encrypts, authenticates) in [
            (SubkeyUse::Encrypt, false, true, false),
            (SubkeyUse::Sign, true, false, false),
            (SubkeyUse::Authenticate, false, false, true),
            (SubkeyUse::SignAndAuthenticate, true, false, true),
        ] {
            let mut options = SubkeyOptions::default();
            options.uses = uses;
            options.validity_seconds = Some(DAY);
            let made =
                make::add_subkey(&alice, &options, &mut open, Rules::default(), NOW + 9).unwrap();
            let changed = alice.clone().insert_packets(made).unwrap().0;
            let valid = changed.with_policy(STANDARD, at(NOW + 9)).unwrap();
            let subkey =
                valid.keys().subkeys().find(|key| key.key().creation_time() == at(NOW + 9));
            let subkey = subkey.unwrap();
            assert_eq!(subkey.for_signing(), signs);
            assert_eq!(subkey.for_transport_encryption(), encrypts);
            assert_eq!(subkey.for_storage_encryption(), encrypts);
            assert_eq!(subkey.for_authentication(), authenticates);
            assert_eq!(subkey.key_expiration_time(), Some(at(NOW + 9 + DAY)));
            assert!(subkey.key().has_unencrypted_secret());
            let agreed = subkey.binding_signature().embedded_signatures().count();
            assert_eq!(agreed, usize::from(!encrypts));
        }
    }
}

/// A subkey gets the passphrase of the primary key.
#[test]
fn a_new_subkey_has_the_passphrase_of_its_key() {
    for profile in PROFILES {
        let password = Password::from("correct horse");
        let mut options = GenerateOptions::default();
        options.profile = profile;
        let protection = Protection::Passphrase(password.clone());
        let alice = make::generate(&options, &protection, NOW).unwrap().cert;
        let add = |ask: &mut talaria_message::AskForKey<'_>| {
            make::add_subkey(&alice, &SubkeyOptions::default(), ask, Rules::default(), NOW + 1)
        };
        assert!(matches!(add(&mut open), Err(MakeError::Locked(_))));
        let mut wrong = |asked: usize, _: &_| (asked == 0).then(|| Password::from("wrong"));
        assert!(matches!(add(&mut wrong), Err(MakeError::Locked(_))));
        let mut right = |asked: usize, _: &_| match asked {
            0 => Some(Password::from("wrong")),
            1 => Some(password.clone()),
            _ => None,
        };
        let made = add(&mut right).unwrap();
        let changed = alice.clone().insert_packets(made).unwrap().0;
        assert_eq!(changed.keys().secret().count(), 4);
        assert_eq!(changed.keys().unencrypted_secret().count(), 0);
        let opened =
            make::unlocked(changed.clone(), &mut |asked, _| (asked == 0).then(|| password.clone()));
        assert_eq!(opened.unwrap().keys().unencrypted_secret().count(), 4);
        // Adding a subkey needs the secret of the primary key.
        let public = changed.strip_secret_key_material();
        let refused = make::add_subkey(
            &public,
            &SubkeyOptions::default(),
            &mut right,
            Rules::default(),
            NOW + 2,
        );
        assert!(matches!(refused, Err(MakeError::NoSecret { .. })));
    }
}

#[test]
fn revoking_a_subkey_leaves_the_others() {
    for profile in PROFILES {
        let alice = key("alice", profile);
        let subkey = alice.keys().subkeys().next().unwrap().key().clone();
        for reason in [RevocationReason::Superseded, RevocationReason::Compromised] {
            let what = Revoked::Subkey(&subkey);
            let made = make::revoke(&alice, what, reason, "lost", &mut open, NOW).unwrap();
            assert_eq!(made.reason_for_revocation().unwrap().1, b"lost");
            let changed = alice.clone().insert_packets([made]).unwrap().0;
            let valid = changed.with_policy(STANDARD, at(NOW + 9)).unwrap();
            assert!(!matches!(valid.revocation_status(), RevocationStatus::Revoked(_)));
            for key in valid.keys().subkeys() {
                let is_revoked = matches!(key.revocation_status(), RevocationStatus::Revoked(_));
                assert_eq!(is_revoked, key.key().fingerprint() == subkey.fingerprint());
            }
        }
    }
}

/// A new user ID copies the key preferences of the primary user ID, and no subpackets about the
/// user ID itself.
#[test]
fn a_new_user_id_copies_only_the_preferences() {
    let alice = key("alice", PROFILES[0]);
    let made = make::add_user_id(
        &alice,
        "a@example.net",
        Rank::Further,
        &mut open,
        Rules::default(),
        NOW + 1,
    );
    let changed = alice.insert_packets(made.unwrap()).unwrap().0;
    let valid = changed.with_policy(STANDARD, at(NOW + 2)).unwrap();
    assert_eq!(valid.primary_userid().unwrap().userid().value(), b"alice <alice@example.org>");
    let signature = |text: &str| {
        let mut ids = valid.userids();
        ids.find(|id| id.userid().value() == text.as_bytes()).unwrap().binding_signature().clone()
    };
    let (old, new) = (signature("alice <alice@example.org>"), signature("a@example.net"));
    assert_eq!(old.features(), new.features());
    assert_eq!(old.key_flags(), new.key_flags());
    assert_eq!(old.preferred_symmetric_algorithms(), new.preferred_symmetric_algorithms());
    assert_eq!(new.primary_userid(), None);
    let says = |value: &SubpacketValue| matches!(value, SubpacketValue::PrimaryUserID(_));
    assert!(!new.hashed_area().iter().any(|subpacket| says(subpacket.value())));

    let add = |text: &str, rank| {
        make::add_user_id(&changed, text, rank, &mut open, Rules::default(), NOW + 1)
    };
    assert!(matches!(add("a@example.net", Rank::Further), Err(MakeError::UserIdExists { .. })));
    let first = changed.clone().insert_packets(add("b@example.net", Rank::Primary).unwrap());
    let first = first.unwrap().0;
    let valid = first.with_policy(STANDARD, at(NOW + 9)).unwrap();
    assert_eq!(valid.primary_userid().unwrap().userid().value(), b"b@example.net");
    for bad in ["", " \t", "a\nb", "a\u{85}b", &"a".repeat(2049)] {
        assert!(matches!(add(bad, Rank::Further), Err(MakeError::UserId(_))), "{bad:?}");
    }
}

/// An expired key is extended by the same duration; a valid key is not changed.
#[test]
fn renew_extends_expired_keys_and_leaves_valid_ones() {
    for profile in PROFILES {
        let mut options = GenerateOptions::default();
        options.user_ids = vec!["alice <alice@example.org>".into()];
        options.profile = profile;
        options.uses = make::KeyUses::Sign;
        options.validity_seconds = Some(10 * DAY);
        let alice = make::generate(&options, &Protection::Unprotected, NOW).unwrap().cert;
        let renew =
            |cert: &Cert, options, time| make::renew(cert, options, &mut open, time).unwrap();
        assert!(renew(&alice, RenewOptions::Keep, NOW + DAY).is_empty());
        let packets = renew(&alice, RenewOptions::Extend, NOW + 20 * DAY);
        let renewed = alice.clone().insert_packets(packets).unwrap().0;
        let valid = renewed.with_policy(STANDARD, at(NOW + 25 * DAY)).unwrap();
        assert!(valid.alive().is_ok());
        assert_eq!(valid.keys().alive().for_transport_encryption().count(), 1);
        assert!(renew(&renewed, RenewOptions::Extend, NOW + 21 * DAY).is_empty());
    }
}
