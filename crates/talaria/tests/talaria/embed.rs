//! The base of the bindings, tested without another language.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};

use talaria::cert::{ErrorKind, Rules};
use talaria::embed::{
    Certificates, SharedKey, SharedOpener, SharedVerifier, fingerprints, seal_signed, sealer,
};
use talaria::message::openpgp::cert::CertBuilder;
use talaria::message::openpgp::packet::Key;
use talaria::message::openpgp::packet::key::{Key4, SubordinateRole};
use talaria::message::openpgp::packet::signature::SignatureBuilder;
use talaria::message::openpgp::serialize::SerializeInto as _;
use talaria::message::openpgp::types::{
    Curve, HashAlgorithm, KeyFlags, ReasonForRevocation, SignatureType,
};
use talaria::message::openpgp::{Cert, Packet};
use talaria::message::{NotCounted, Outcome, Profile};
use talaria::store::{Access, Binding, Query, Store};
use talaria::trust_models::tofu::Policy;
use talaria::{Error, ImportOptions, Input, Monitor, import};

const NOBODY: [&str; 0] = [];

/// A secret key made an hour ago, so that signatures made now are newer than the key.
fn generate(name: &str) -> Cert {
    let made = SystemTime::now() - Duration::from_secs(3600);
    let builder = CertBuilder::general_purpose(Some(name)).set_creation_time(made);
    builder.generate().unwrap().0
}

fn secret(cert: &Cert) -> Vec<u8> {
    cert.as_tsk().to_vec().unwrap()
}

fn public(cert: &Cert) -> Vec<u8> {
    cert.to_vec().unwrap()
}

fn add(store: &Path, cert: &Cert) {
    add_bytes(store, &public(cert));
}

fn add_bytes(store: &Path, bytes: &[u8]) {
    let mut store = Store::open(store, Access::Create).unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let options = ImportOptions::new(u32::try_from(now).unwrap());
    let stop = AtomicBool::new(false);
    let mut monitor = Monitor { report: &mut |_| {}, stop: &stop };
    let input = Input::Path(file.path().to_owned());
    import(&mut store, &[input], options, &mut monitor).unwrap();
}

fn kind<T>(result: Result<T, Error>) -> ErrorKind {
    result.err().expect("it must fail").kind()
}

/// The user chooses the rules: of this certificate, SHA-1 binds the key for encryption.
#[test]
fn the_rules_are_those_that_were_chosen() {
    let made = SystemTime::UNIX_EPOCH + Duration::from_secs(1_640_995_200);
    let builder = CertBuilder::new().set_creation_time(made).add_userid("<old@example.org>");
    let (cert, _) = builder.generate().unwrap();
    let subkey = Key4::generate_ecc(false, Curve::Cv25519).unwrap();
    let mut subkey = Key::<_, SubordinateRole>::from(subkey);
    subkey.set_creation_time(made).unwrap();
    let primary = cert.primary_key().key().clone().parts_into_secret().unwrap();
    let binding = SignatureBuilder::new(SignatureType::SubkeyBinding)
        .set_hash_algo(HashAlgorithm::SHA1)
        .set_signature_creation_time(made)
        .unwrap()
        .set_key_flags(KeyFlags::empty().set_transport_encryption())
        .unwrap()
        .sign_subkey_binding(&mut primary.into_keypair().unwrap(), None, &subkey)
        .unwrap();
    let cert = cert.insert_packets([Packet::from(subkey), binding.into()]).unwrap().0;
    assert!(sealer(&NOBODY, &[public(&cert)], None, Rules::Standard).is_ok());
    let refused = sealer(&NOBODY, &[public(&cert)], None, Rules::Strict);
    assert_eq!(kind(refused), ErrorKind::UnusableKey);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.db");
    add(&path, &cert);
    let find = |rules| Certificates::open(&path, rules).unwrap().recipient("old@example.org");
    assert!(find(Rules::Standard).is_ok());
    assert_eq!(kind(find(Rules::Strict)), ErrorKind::UnusableKey);
}

#[test]
fn a_message_to_keys_and_passphrases_opens_with_either() {
    let alice = generate("<alice@example.org>");
    for profile in [Profile::Rfc9580, Profile::Rfc4880, Profile::LibrePgp] {
        let sealer = sealer(&["pass"], &[public(&alice)], Some(profile), Rules::Standard).unwrap();
        let sealed = sealer.seal(b"text").unwrap();
        let by_key = SharedOpener::new(&NOBODY, &[secret(&alice)], &NOBODY).unwrap();
        let by_passphrase = SharedOpener::new(&["other", "pass"], &NOBODY, &NOBODY).unwrap();
        assert_eq!(by_key.open(&sealed).unwrap(), b"text");
        assert_eq!(by_passphrase.open(&sealed).unwrap(), b"text");
        let stranger = SharedOpener::new(&["other"], &NOBODY, &NOBODY).unwrap();
        assert_eq!(kind(stranger.open(&sealed)), ErrorKind::NoSecret);
        let mut changed = sealed;
        *changed.last_mut().unwrap() ^= 1;
        assert_eq!(kind(by_key.open(&changed)), ErrorKind::Tampered, "{profile:?}");
    }
    assert_eq!(kind(sealer(&NOBODY, &NOBODY, None, Rules::Standard)), ErrorKind::Usage);
    // An empty passphrase protects nothing.
    assert_eq!(kind(sealer(&[""], &NOBODY, None, Rules::Standard)), ErrorKind::Usage);
    assert_eq!(
        kind(sealer(&["pass", ""], &[public(&alice)], None, Rules::Standard)),
        ErrorKind::Usage
    );
    assert_eq!(kind(SharedOpener::new(&["pass", ""], &NOBODY, &NOBODY)), ErrorKind::Usage);
    assert_eq!(kind(SharedOpener::new(&NOBODY, &[secret(&alice)], &[""])), ErrorKind::Usage);
    assert_eq!(
        kind(SharedKey::from_bytes(&secret(&alice), Some(b""), Rules::Standard)),
        ErrorKind::Usage
    );
    assert_eq!(
        kind(sealer(&NOBODY, &["no certificate"], None, Rules::Standard)),
        ErrorKind::Malformed
    );
    assert_eq!(kind(SharedOpener::new(&NOBODY, &[public(&alice)], &NOBODY)), ErrorKind::Malformed);
}

/// A session key that unwraps to nothing is as wrong as any other; it made Sequoia panic.
#[test]
fn an_empty_wrapped_session_key_is_tampered() {
    use talaria::message::openpgp::crypto::SessionKey;
    use talaria::message::openpgp::packet::PKESK;
    use talaria::message::openpgp::packet::pkesk::PKESK3;
    let alice = generate("<alice@example.org>");
    let key = alice.keys().find(|key| key.key().pk_algo().for_encryption()).unwrap();
    let opener = SharedOpener::new(&NOBODY, &[secret(&alice)], &NOBODY).unwrap();
    for content in [&b""[..], &[9; 35]] {
        let sealed = key.key().encrypt(&SessionKey::from(content)).unwrap();
        let packet = PKESK3::new(Some(key.key().keyid()), key.key().pk_algo(), sealed).unwrap();
        let packet = Packet::from(PKESK::V3(packet)).to_vec().unwrap();
        let message = [&packet[..], &[0xd2, 60, 1], &[7; 59]].concat();
        assert_eq!(kind(opener.open(&message)), ErrorKind::Tampered);
    }
}

#[test]
fn the_right_passphrase_unlocks_a_key() {
    let alice = generate("<alice@example.org>");
    let mut locked = alice.clone();
    for key in alice.keys().secret() {
        let key = key.key().clone().encrypt_secret(&"lock".into()).unwrap();
        let packet: Packet = if key.fingerprint() == alice.fingerprint() {
            key.role_into_primary().into()
        } else {
            key.role_into_subordinate().into()
        };
        locked = locked.insert_packets(packet).unwrap().0;
    }
    let sealed =
        sealer(&NOBODY, &[public(&alice)], None, Rules::Standard).unwrap().seal(b"text").unwrap();
    let opener = SharedOpener::new(&NOBODY, &[secret(&locked)], &["other", "lock"]).unwrap();
    assert_eq!(opener.open(&sealed).unwrap(), b"text");
    let opener = SharedOpener::new(&NOBODY, &[secret(&locked)], &["other"]).unwrap();
    assert_eq!(kind(opener.open(&sealed)), ErrorKind::UnusableKey);
    assert!(SharedKey::from_bytes(&secret(&locked), Some(b"lock"), Rules::Standard).is_ok());
    assert_eq!(
        kind(SharedKey::from_bytes(&secret(&locked), Some(b"other"), Rules::Standard)),
        ErrorKind::UnusableKey
    );
    assert_eq!(
        kind(SharedKey::from_bytes(&secret(&locked), None, Rules::Standard)),
        ErrorKind::UnusableKey
    );
}

#[test]
fn a_verifier_sees_certificates_added_to_its_store() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("certs.db");
    let (alice, bob) = (generate("<alice@example.org>"), generate("<bob@example.org>"));
    add(&path, &bob);
    let store = Certificates::open(&path, Rules::Standard).unwrap();
    let verifier = SharedVerifier::with_store(&store).unwrap();
    let signature = SharedKey::from_bytes(&secret(&alice), None, Rules::Standard)
        .unwrap()
        .sign(b"data")
        .unwrap();
    assert_eq!(verifier.verify(&signature, b"data", None).unwrap().report.outcome, Outcome::NoKey);
    add(&path, &alice);
    let report = verifier.verify(&signature, b"data", None).unwrap().report;
    assert!(report.is_good());
    assert_eq!(report.signer.unwrap().certificate, alice.fingerprint().to_hex());
    let key = alice.primary_key().key().clone().parts_into_secret().unwrap();
    let revocation = alice
        .revoke(
            &mut key.into_keypair().unwrap(),
            ReasonForRevocation::KeyCompromised,
            b"it was stolen",
        )
        .unwrap();
    add(&path, &alice.clone().insert_packets(revocation).unwrap().0);
    let report = verifier.verify(&signature, b"data", None).unwrap().report;
    assert_eq!(report.outcome, Outcome::NotCounted(NotCounted::Revoked));
}

#[test]
fn a_verifier_refuses_whom_the_user_of_its_store_called_bad() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("certs.db");
    let mallory = generate("<mallory@example.org>");
    add(&path, &mallory);
    let signature = SharedKey::from_bytes(&secret(&mallory), None, Rules::Standard)
        .unwrap()
        .sign(b"data")
        .unwrap();
    let outcome = || {
        let verifier =
            SharedVerifier::with_store(&Certificates::open(&path, Rules::Standard).unwrap())
                .unwrap();
        let checked = verifier.verify(&signature, b"data", None).unwrap();
        assert_eq!(checked.decision.is_ok(), checked.report.is_good());
        checked.report.outcome
    };
    assert_eq!(outcome(), Outcome::Good);
    let mut store = Store::open(&path, Access::Write).unwrap();
    let query: Query = mallory.fingerprint().to_hex().parse().unwrap();
    let row = store.select(&query, 1).unwrap().rows.remove(0);
    let bindings = talaria::tofu::bindings_of(&row, u32::MAX / 2);
    let bad = bindings.into_iter().map(|binding| Binding { policy: Policy::Bad, ..binding });
    store.tofu_mut().set_bindings(&bad.collect::<Vec<_>>()).unwrap();
    assert_eq!(outcome(), Outcome::Distrusted);
    assert_eq!(
        kind(Certificates::open(&path, Rules::Standard).unwrap().recipient("mallory@example.org")),
        ErrorKind::UnusableKey
    );
}

#[test]
fn one_bad_signature_among_several_makes_all_of_them_bad() {
    let (alice, bob) = (generate("<alice@example.org>"), generate("<bob@example.org>"));
    let verifier =
        SharedVerifier::with_certs(&[public(&alice), public(&bob)], Rules::Standard).unwrap();
    let sign = |cert: &Cert, data: &[u8]| {
        SharedKey::from_bytes(&secret(cert), None, Rules::Standard).unwrap().sign(data).unwrap()
    };
    let both = [sign(&alice, b"data"), sign(&bob, b"data")].concat();
    assert!(verifier.verify(&both, b"data", None).unwrap().report.is_good());
    let mixed = [sign(&alice, b"data"), sign(&bob, b"other")].concat();
    assert_eq!(verifier.verify(&mixed, b"data", None).unwrap().report.outcome, Outcome::Bad);
    let stranger = generate("<carol@example.org>");
    let partly_known = [sign(&stranger, b"data"), sign(&bob, b"data")].concat();
    assert!(verifier.verify(&partly_known, b"data", None).unwrap().report.is_good());
    // Data after a signature are not ignored.
    let trailing = [sign(&alice, b"data"), b"junk".to_vec()].concat();
    let report = verifier.verify(&trailing, b"data", None).unwrap().report;
    assert!(matches!(report.outcome, Outcome::Unchecked(_)), "{report:?}");
}

#[test]
fn verify_many_reports_in_the_order_of_its_input() {
    let alice = generate("<alice@example.org>");
    let key = SharedKey::from_bytes(&secret(&alice), None, Rules::Standard).unwrap();
    let verifier = SharedVerifier::with_certs(&[public(&alice)], Rules::Standard).unwrap();
    let documents: Vec<Vec<u8>> = (0..600u32).map(|n| n.to_be_bytes().to_vec()).collect();
    let mut items: Vec<_> = key.sign_many(&documents).unwrap().into_iter().zip(documents).collect();
    items[7].0 = b"junk".to_vec();
    items[300].1 = b"other".to_vec();
    items[400].0 = [items[400].0.clone(), items[401].0.clone()].concat();
    let reports = verifier.verify_many(&items, None).unwrap();
    for (at, report) in reports.iter().enumerate() {
        let expected = match at {
            7 => "unchecked",
            300 | 400 => "bad",
            _ => "good",
        };
        assert_eq!(report.report.outcome.name(), expected, "{at}");
    }
}

#[test]
fn recipient_requires_one_match_and_lookup_returns_all() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("certs.db");
    assert_eq!(kind(Certificates::open(&path, Rules::Standard)), ErrorKind::NoStore);
    let (alice, other) = (generate("<alice@example.org>"), generate("<alice@example.org>"));
    add(&path, &alice);
    let store = Certificates::open(&path, Rules::Standard).unwrap();
    let recipient = store.recipient("<alice@example.org>").unwrap();
    assert_eq!(recipient, store.lookup("alice").unwrap().concat());
    assert_eq!(store.recipient("Alice@example.org").unwrap(), recipient);
    assert!(sealer(&NOBODY, &[recipient], None, Rules::Standard).is_ok());
    // A part of a name finds certificates and selects none: `alice` is also in `malice`.
    for part in ["alice", "lice@example.org", "*alice", "@example.org"] {
        assert_eq!(store.lookup(part).unwrap().len(), 1);
        assert_eq!(kind(store.recipient(part)), ErrorKind::Ambiguous, "{part}");
    }
    add(&path, &other);
    assert_eq!(store.lookup("alice").unwrap().len(), 2);
    assert_eq!(kind(store.recipient("<alice@example.org>")), ErrorKind::Ambiguous);
    assert!(store.recipient(&alice.fingerprint().to_hex()).is_ok());
    assert_eq!(kind(store.lookup("bob")), ErrorKind::NotFound);
    assert_eq!(kind(store.lookup("")), ErrorKind::Usage);
}

#[test]
fn a_panic_becomes_an_error() {
    let seven = talaria::embed::guarded(|| Ok(7));
    assert_eq!(seven.unwrap(), 7);
    let stopped = talaria::embed::guarded(|| -> Result<(), Error> { panic!("on purpose") });
    assert_eq!(kind(stopped), ErrorKind::Bug);
}

#[test]
fn a_message_opens_only_with_its_expected_signers() {
    let (alice, mallory) = (generate("<alice@example.org>"), generate("<mallory@evil.example>"));
    let sealer = sealer(&["pass"], &NOBODY, None, Rules::Standard).unwrap();
    let opener = SharedOpener::new(&["pass"], &NOBODY, &NOBODY).unwrap();
    let verifier =
        SharedVerifier::with_certs(&[public(&alice), public(&mallory)], Rules::Standard).unwrap();
    let signed = |cert: &Cert| {
        let key = SharedKey::from_bytes(&secret(cert), None, Rules::Standard).unwrap();
        seal_signed(&sealer, b"text", &key).unwrap()
    };
    let names = [alice.fingerprint().to_hex().to_lowercase()];
    let expected = fingerprints(&names).unwrap();
    let open = |message: &[u8], signers| opener.open_verified(message, &verifier, signers);
    let (plain, reports) = open(&signed(&alice), Some(&expected)).unwrap();
    assert!(plain == b"text" && reports.len() == 1 && reports[0].is_good());
    assert_eq!(kind(open(&signed(&mallory), Some(&expected))), ErrorKind::NotAccepted);
    assert_eq!(kind(open(&sealer.seal(b"text").unwrap(), Some(&expected))), ErrorKind::NotAccepted);
    assert!(open(&signed(&mallory), None).is_ok());
    assert!(open(&sealer.seal(b"text").unwrap(), None).is_ok());
    // Anybody can claim a name, but not a fingerprint.
    for name in ["alice", "", "<alice@example.org>", &names[0][..39]] {
        assert_eq!(kind(fingerprints(&[name])), ErrorKind::Usage, "{name}");
    }
    let signature = SharedKey::from_bytes(&secret(&mallory), None, Rules::Standard)
        .unwrap()
        .sign(b"data")
        .unwrap();
    let checked = verifier.verify(&signature, b"data", Some(&expected)).unwrap();
    assert!(checked.decision.is_err() && checked.report.is_good(), "{checked:?}");
    assert!(verifier.verify(&signature, b"data", None).unwrap().decision.is_ok());
}

/// Foreign changes to a certificate cause no panic, neither with the store that
/// imported it nor with the bytes themselves.
#[test]
fn changed_certificates_in_a_store_cause_no_panic() {
    let alice = generate("<alice@example.org>");
    let key = SharedKey::from_bytes(&secret(&alice), None, Rules::Standard).unwrap();
    let signature = key.sign(b"text").unwrap();
    let name = alice.fingerprint().to_hex();
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state >> 8).unwrap() % below
    };
    let mut verified = 0;
    for round in 0..48 {
        let is_secret = round % 4 == 3;
        let mut bytes = if is_secret { secret(&alice) } else { public(&alice) };
        for _ in 0..random(6) {
            let at = random(bytes.len());
            match random(3) {
                0 => bytes[at] ^= 1 << random(8),
                1 => drop(bytes.splice(at..at, std::iter::repeat_n(7, random(300)))),
                _ => drop(bytes.drain(at..(at + random(40)).min(bytes.len()))),
            }
        }
        // An unbound subkey whose length cannot be hashed, of a known and of an unknown algorithm.
        let mut body = vec![4, 0x60, 0, 0, 0, [1, 22, 99][random(3)]];
        body.resize(65_000 + random(2000), 0x1f);
        bytes.extend([0xce, 0xff]);
        bytes.extend(u32::try_from(body.len()).unwrap().to_be_bytes());
        bytes.extend(body);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("certs.db");
        add(&path, &alice);
        add_bytes(&path, &bytes);
        let store = Certificates::open(&path, Rules::Standard).unwrap();
        let verifier = SharedVerifier::with_store(&store).unwrap();
        let report = verifier.verify(&signature, b"text", None).unwrap();
        verified += usize::from(report.report.outcome == Outcome::Good);
        let _ = verifier.verify_many(&[(&signature, b"text"), (&signature, b"test")], None);
        let recipient = store.recipient(&name);
        for cert in store.lookup(&name).unwrap().into_iter().chain(recipient) {
            let _ =
                sealer(&NOBODY, &[cert], None, Rules::Standard).map(|sealer| sealer.seal(b"text"));
        }
        let _ = sealer(&NOBODY, &[&bytes], None, Rules::Standard);
        let _ = SharedOpener::new(&NOBODY, &[&bytes], &NOBODY);
        let _ = SharedKey::from_bytes(&bytes, None, Rules::Standard);
        let _ = SharedVerifier::with_certs(&[&bytes], Rules::Standard)
            .map(|v| v.verify(&signature, b"text", None));
    }
    // Alice's own parts stay in the store, whatever was added.
    assert!(verified > 40, "{verified}");
}
