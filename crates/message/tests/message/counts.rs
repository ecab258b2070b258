//! The signatures that count. Every reason not to count has a test, with the results of gpgv and
//! sq.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use crate::common::{NOW, STANDARD, key_of};
use talaria_cert::Cert as OwnCert;
use talaria_message::Rules;
use talaria_message::openpgp::cert::{
    CertBuilder, CertRevocationBuilder, CipherSuite, SubkeyRevocationBuilder,
};
use talaria_message::openpgp::crypto::KeyPair;
use talaria_message::openpgp::packet::signature::SignatureBuilder;
use talaria_message::openpgp::packet::signature::subpacket::{
    Subpacket, SubpacketTag, SubpacketValue,
};
use talaria_message::openpgp::packet::{Packet, Signature, UserID};
use talaria_message::openpgp::serialize::SerializeInto as _;
use talaria_message::openpgp::serialize::stream::{
    Encryptor, LiteralWriter, Message, Recipient, Signer,
};
use talaria_message::openpgp::types::{
    HashAlgorithm, KeyFlags, ReasonForRevocation, SignatureType,
};
use talaria_message::openpgp::{self, Cert};
use talaria_message::{
    DecryptOptions, NotCounted, Outcome, Release, Secrets, SignatureReport, Verifier, decrypt,
    decryption_keys, lookup_in, make,
};

/// The creation time of certificates: 400 days before now.
const MADE: u32 = NOW - 400 * DAY;
const DAY: u32 = 86_400;
const DOCUMENT: &[u8] = b"pay bob 10 euro\n";

fn at(seconds: u32) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds.into())
}

fn days(count: u32) -> Duration {
    Duration::from_secs((count * DAY).into())
}

/// A certificate that certifies with its primary key and signs with a subkey.
fn alice() -> Cert {
    builder().generate().unwrap().0
}

fn builder() -> CertBuilder<'static> {
    CertBuilder::new()
        .set_profile(openpgp::Profile::RFC4880)
        .unwrap()
        .set_cipher_suite(CipherSuite::Cv25519)
        .set_creation_time(at(MADE))
        .add_userid("Alice <alice@example.org>")
        .add_signing_subkey()
        .add_transport_encryption_subkey()
}

fn primary(cert: &Cert) -> KeyPair {
    cert.primary_key().key().clone().parts_into_secret().unwrap().into_keypair().unwrap()
}

/// A signature on the document by the signing key.
fn signed(cert: &Cert, builder: SignatureBuilder) -> Signature {
    builder.sign_message(&mut key_of(cert), DOCUMENT).unwrap()
}

fn document_at(time: u32) -> SignatureBuilder {
    SignatureBuilder::new(SignatureType::Binary)
        .set_hash_algo(HashAlgorithm::SHA512)
        .set_signature_creation_time(at(time))
        .unwrap()
}

fn bytes(signature: &Signature) -> Vec<u8> {
    Packet::from(signature.clone()).to_vec().unwrap()
}

fn verifier(certs: &[Cert]) -> Verifier<'static> {
    Verifier::new(lookup_in(certs), Rules::default(), NOW)
}

fn checked(certs: &[Cert], signature: &Signature) -> SignatureReport {
    verifier(certs).one(&bytes(signature), DOCUMENT)
}

fn outcome(cert: &Cert, signature: &Signature) -> Outcome {
    checked(std::slice::from_ref(cert), signature).outcome
}

/// Whether gpgv and sq accept the signature; `None` if they are not installed.
struct Peers {
    gpgv: Option<bool>,
    sq: Option<bool>,
}

fn ask_peers(cert: &Cert, signature: &[u8]) -> Peers {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &[u8]| {
        let path = folder.path().join(name);
        std::fs::File::create(&path).unwrap().write_all(content).unwrap();
        path
    };
    let cert = file("cert.pgp", &cert.to_vec().unwrap());
    let (signature, document) = (file("doc.sig", signature), file("doc", DOCUMENT));
    let status = |command: &mut Command| {
        let command = command.env("LC_ALL", "C").stdout(Stdio::null()).stderr(Stdio::null());
        if let Ok(status) = command.status() {
            Some(status.success())
        } else {
            talaria_needs::left_out(&command.get_program().to_string_lossy());
            None
        }
    };
    let home = folder.path();
    Peers {
        gpgv: status(
            Command::new("gpgv")
                .arg("--homedir")
                .arg(home)
                .arg("--keyring")
                .args([&cert, &signature, &document]),
        ),
        sq: status(
            Command::new("sq")
                .args(["verify", "--signer-cert"])
                .arg(&cert)
                .arg("--detached")
                .args([&signature, &document]),
        ),
    }
}

/// A subpacket: its type, whether it is critical, its body.
type Part = (u8, bool, Vec<u8>);

fn part(&(tag, critical, ref body): &Part) -> Subpacket {
    let value = match tag {
        16 => SubpacketValue::Issuer(openpgp::KeyID::from_bytes(body)),
        33 => SubpacketValue::IssuerFingerprint(
            openpgp::Fingerprint::from_bytes(body[0], &body[1..]).unwrap(),
        ),
        _ => SubpacketValue::Unknown { tag: SubpacketTag::from(tag), body: body.clone() },
    };
    Subpacket::new(value, critical).unwrap()
}

fn with_parts(hashed: &[Part], unhashed: &[Part]) -> SignatureBuilder {
    let mut builder = document_at(NOW - DAY);
    for one in hashed {
        builder.hashed_area_mut().add(part(one)).unwrap();
    }
    for one in unhashed {
        builder.unhashed_area_mut().add(part(one)).unwrap();
    }
    builder
}

fn notation(name: &str) -> Vec<u8> {
    let mut body = vec![0x80, 0, 0, 0, 0, u8::try_from(name.len()).unwrap(), 0, 1];
    body.extend(name.as_bytes());
    body.push(b'1');
    body
}

/// A part, the hashed and unhashed parts that make it, and whether talaria, gpgv and sq accept the
/// signature.
type Row = (&'static str, Vec<Part>, Vec<Part>, [bool; 3]);

/// The effect of a critical subpacket in a signature on a document: one row per type, with the
/// answers of talaria, gpgv (2.2.40) and sq (0.27). If talaria differs from gpgv, the row has the
/// reason.
fn critical_parts(alice: &Cert) -> Vec<Row> {
    let hashed =
        |name, tag, body: &[u8], says| (name, vec![(tag, true, body.to_vec())], Vec::new(), says);
    let primary = alice.fingerprint();
    let revoker = [&[0x80, 22], primary.as_bytes()].concat();
    let recipient = [&[4], primary.as_bytes()].concat();
    let unknown = "unknown@example.org";
    vec![
        hashed("expiry", 3, &[0, 0x7f, 0, 0], [true, true, true]),
        hashed("exportable", 4, &[1], [true, true, true]),
        hashed("trust", 5, &[1, 60], [true, true, true]),
        hashed("regular expression", 6, b"<.*>\0", [true, true, true]),
        hashed("revocable", 7, &[1], [true, true, true]),
        hashed("placeholder", 10, &[1], [false, false, false]),
        hashed("preferred ciphers", 11, &[9], [true, true, true]),
        hashed("revoker", 12, &revoker, [true, true, true]),
        // The single notation is critical, not the subpacket type.
        hashed("unknown notation", 20, &notation(unknown), [false, false, false]),
        hashed("cut notation", 20, &[0x80, 0, 0, 0, 0, 9], [false, false, false]),
        // GnuPG knows this notation.
        hashed("gpg's notation", 20, &notation("pka-address@gnupg.org"), [true, true, false]),
        hashed("preferred digests", 21, &[10], [true, true, true]),
        hashed("preferred compression", 22, &[2], [true, true, true]),
        hashed("keyserver preferences", 23, &[0x80], [false, false, true]),
        hashed("preferred keyserver", 24, b"hkp://example.org", [true, true, true]),
        hashed("primary user ID", 25, &[1], [true, true, true]),
        hashed("policy", 26, b"https://example.org", [true, true, true]),
        hashed("key flags", 27, &[2], [true, true, true]),
        // gpg is stricter than necessary: the subpacket is only a hint at the user ID.
        hashed("signer's user ID", 28, b"alice@example.org", [true, false, true]),
        hashed("reason", 29, &[0], [true, true, true]),
        hashed("features", 30, &[1], [true, true, true]),
        hashed("target", 31, &[8, 10], [false, false, false]),
        hashed("AEAD preferences", 34, &[2], [true, false, true]),
        // The document was not encrypted, and sq accepts that.
        hashed("intended recipient", 35, &recipient, [false, false, true]),
        hashed("unknown type", 60, &[1], [false, false, false]),
        hashed("private type", 101, &[1], [false, false, false]),
        ("not critical", vec![(60, false, vec![1])], Vec::new(), [true, true, true]),
        // In signatures on documents, critical subpackets in the unhashed area count, too.
        ("unhashed unknown", Vec::new(), vec![(60, true, vec![1])], [false, false, true]),
        (
            "unhashed notation",
            Vec::new(),
            vec![(20, true, notation(unknown))],
            [false, false, true],
        ),
        (
            "unhashed policy",
            Vec::new(),
            vec![(26, true, b"https://x".to_vec())],
            [true, true, true],
        ),
        ("unhashed, not critical", Vec::new(), vec![(60, false, vec![1])], [true, true, true]),
    ]
}

#[test]
fn critical_subpackets_are_judged_as_in_gpgv() {
    let alice = alice();
    let mut wrong = Vec::new();
    for (name, hashed, unhashed, [ours, gpgv, sq]) in critical_parts(&alice) {
        let signature = signed(&alice, with_parts(&hashed, &unhashed));
        let found = outcome(&alice, &signature);
        let peers = ask_peers(&alice, &bytes(&signature));
        let fits = (found == Outcome::Good) == ours
            && (ours || matches!(found, Outcome::NotCounted(NotCounted::Critical(_))))
            && peers.gpgv.is_none_or(|says| says == gpgv)
            && peers.sq.is_none_or(|says| says == sq);
        if !fits {
            wrong.push(format!("{name}: {found:?}, gpgv {:?}, sq {:?}", peers.gpgv, peers.sq));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_signature_with_a_known_critical_notation_counts() {
    let alice = alice();
    let name = "known@example.org".to_owned();
    let signature = signed(&alice, with_parts(&[(20, true, notation(&name))], &[]));
    assert!(matches!(outcome(&alice, &signature), Outcome::NotCounted(NotCounted::Critical(_))));
    let verifier = verifier(&[alice]).with_known_notations(vec![name]);
    assert_eq!(verifier.one(&bytes(&signature), DOCUMENT).outcome, Outcome::Good);
}

/// A message that Alice signed and encrypted, for `intended` by a critical part of her signature.
fn sealed(alice: &Cert, to: &[&Cert], intended: &Cert) -> Vec<u8> {
    let mut builder = document_at(NOW - DAY);
    let recipient = SubpacketValue::IntendedRecipient(intended.fingerprint());
    builder.hashed_area_mut().add(Subpacket::new(recipient, true).unwrap()).unwrap();
    let mut out = Vec::new();
    let keys = to.iter().flat_map(|cert| {
        cert.keys().with_policy(STANDARD, at(NOW)).for_transport_encryption().collect::<Vec<_>>()
    });
    let message = Message::new(&mut out);
    let recipients: Vec<Recipient<'_>> = keys.map(Into::into).collect();
    let message = Encryptor::for_recipients(message, recipients).build().unwrap();
    let signer = Signer::with_template(message, key_of(alice), builder).unwrap();
    let message = signer.creation_time(at(NOW - DAY)).build().unwrap();
    let mut message = LiteralWriter::new(message).build().unwrap();
    message.write_all(DOCUMENT).unwrap();
    message.finalize().unwrap();
    out
}

#[test]
fn a_signed_message_for_another_recipient_does_not_count() {
    let (alice, bob, carol) = (alice(), alice(), alice());
    let opened = |message: &[u8], by: &Cert| {
        let keys = decryption_keys([by], |_, _| None);
        let mut secrets = Secrets { keys, ..Secrets::default() };
        let mut options = DecryptOptions::new(Release::Streamed);
        options.threads = 1;
        let (mut plain, from) = (Vec::new(), verifier(std::slice::from_ref(&alice)));
        let opened = decrypt(&mut &message[..], &mut plain, &mut secrets, &from, options).unwrap();
        assert_eq!(plain, DOCUMENT);
        opened.signatures[0].outcome.clone()
    };
    assert_eq!(opened(&sealed(&alice, &[&bob], &bob), &bob), Outcome::Good);
    // Bob took the signature out of what he got, and sent it on to Carol.
    let passed_on = sealed(&alice, &[&carol], &bob);
    assert!(matches!(opened(&passed_on, &carol), Outcome::NotCounted(NotCounted::Critical(_))));
    // Carol's copy does not count, although Bob could read the message as well.
    let both = sealed(&alice, &[&bob, &carol], &bob);
    assert_eq!(opened(&both, &bob), Outcome::Good);
    assert!(matches!(opened(&both, &carol), Outcome::NotCounted(NotCounted::Critical(_))));
}

#[test]
fn a_wrong_issuer_beside_the_right_one_does_no_harm() {
    let (alice, mallory) = (alice(), alice());
    let (ours, others) = (key_of(&alice), key_of(&mallory));
    let (ours, others) = (ours.public().fingerprint(), others.public().fingerprint());
    let id = |of: &openpgp::Fingerprint| openpgp::KeyID::from(of).as_bytes().to_vec();
    let named = |of: &openpgp::Fingerprint| [&[4], of.as_bytes()].concat();
    let cases: [(&str, Vec<Part>, Vec<Part>); 5] = [
        ("wrong first", vec![(33, false, named(&others)), (33, false, named(&ours))], vec![]),
        ("wrong last", vec![(33, false, named(&ours)), (33, false, named(&others))], vec![]),
        ("key IDs", vec![(16, false, id(&others)), (16, false, id(&ours))], vec![]),
        ("unhashed", vec![], vec![(16, false, id(&others)), (16, false, id(&ours))]),
        ("nobody", vec![(16, false, vec![7; 8]), (33, false, named(&ours))], vec![]),
    ];
    for (name, hashed, unhashed) in cases {
        let signature = signed(&alice, with_parts(&hashed, &unhashed));
        for known in [vec![alice.clone()], vec![alice.clone(), mallory.clone()]] {
            let report = checked(&known, &signature);
            assert_eq!(report.outcome, Outcome::Good, "{name}");
            assert_eq!(report.signer.unwrap().key, ours.to_hex(), "{name}");
        }
        // The other key did not make the signature. That does not make it forged.
        let report = checked(std::slice::from_ref(&mallory), &signature);
        assert_ne!(report.outcome, Outcome::Good, "{name}");
        assert!(ask_peers(&alice, &bytes(&signature)).sq.is_none_or(|good| good), "{name}");
    }
}

#[test]
fn expired_future_and_weak_signatures_do_not_count() {
    let alice = alice();
    let over = document_at(NOW - 2 * DAY).set_signature_validity_period(days(1)).unwrap();
    let over = signed(&alice, over);
    assert_eq!(outcome(&alice, &over), Outcome::NotCounted(NotCounted::Expired));
    let peers = ask_peers(&alice, &bytes(&over));
    assert!(peers.sq.is_none_or(|good| !good));
    let future = signed(&alice, document_at(NOW + DAY));
    assert_eq!(outcome(&alice, &future), Outcome::NotCounted(NotCounted::Future));
    // Clocks differ.
    let soon = signed(&alice, document_at(NOW + 60));
    assert_eq!(outcome(&alice, &soon), Outcome::Good);
    let weak = document_at(NOW - DAY).set_hash_algo(HashAlgorithm::SHA1);
    let weak = signed(&alice, weak);
    assert_eq!(outcome(&alice, &weak), Outcome::NotCounted(NotCounted::WeakDigest("SHA1")));
    assert!(ask_peers(&alice, &bytes(&weak)).sq.is_none_or(|good| !good));
}

#[test]
fn signatures_of_other_types_do_not_count() {
    let alice = alice();
    for kind in [SignatureType::Standalone, SignatureType::Timestamp] {
        let builder = SignatureBuilder::new(kind)
            .set_signature_creation_time(at(NOW - DAY))
            .unwrap()
            .set_hash_algo(HashAlgorithm::SHA512);
        let mut hash = HashAlgorithm::SHA512.context().unwrap().for_signature(4);
        hash.update(DOCUMENT);
        let signature = builder.sign_hash(&mut key_of(&alice), hash).unwrap();
        assert!(matches!(outcome(&alice, &signature), Outcome::NotCounted(NotCounted::Misused(_))));
        let peers = ask_peers(&alice, &bytes(&signature));
        assert!(peers.gpgv.is_none_or(|good| !good) && peers.sq.is_none_or(|good| !good));
    }
}

#[test]
fn signatures_by_a_revoked_key_do_not_count() {
    let alice = alice();
    let revoked = |reason, when: u32| {
        let revocation = openpgp::cert::CertRevocationBuilder::new()
            .set_signature_creation_time(at(when))
            .unwrap()
            .set_reason_for_revocation(reason, b"")
            .unwrap()
            .build(&mut primary(&alice), &alice, None)
            .unwrap();
        alice.clone().insert_packets(revocation).unwrap().0
    };
    let (before, after) = (document_at(NOW - 9 * DAY), document_at(NOW - 2 * DAY));
    let (before, after) = (signed(&alice, before), signed(&alice, after));
    let lost = revoked(ReasonForRevocation::KeyCompromised, NOW - 5 * DAY);
    for signature in [&before, &after] {
        assert_eq!(outcome(&lost, signature), Outcome::NotCounted(NotCounted::Revoked));
        assert!(ask_peers(&lost, &bytes(signature)).sq.is_none_or(|good| !good));
    }
    let retired = revoked(ReasonForRevocation::KeyRetired, NOW - 5 * DAY);
    let report = checked(std::slice::from_ref(&retired), &before);
    assert_eq!((report.outcome, report.since), (Outcome::Good, Some(NotCounted::Revoked)));
    assert!(ask_peers(&retired, &bytes(&before)).sq.is_none_or(|good| good));
    assert_eq!(outcome(&retired, &after), Outcome::NotCounted(NotCounted::Revoked));
    // The signing subkey, not the certificate.
    let subkey = key_of(&alice).public().fingerprint();
    let subkey = alice.keys().subkeys().find(|key| key.key().fingerprint() == subkey).unwrap();
    let revocation = SubkeyRevocationBuilder::new()
        .set_signature_creation_time(at(NOW - 5 * DAY))
        .unwrap()
        .set_reason_for_revocation(ReasonForRevocation::KeySuperseded, b"")
        .unwrap()
        .build(&mut primary(&alice), &alice, subkey.key(), None)
        .unwrap();
    let replaced = alice.clone().insert_packets(revocation).unwrap().0;
    assert_eq!(outcome(&replaced, &before), Outcome::Good);
    assert_eq!(outcome(&replaced, &after), Outcome::NotCounted(NotCounted::Revoked));
}

#[test]
fn a_revocation_with_an_unknown_critical_subpacket_counts() {
    let alice = alice();
    let signature = signed(&alice, document_at(NOW - 9 * DAY));
    let mut builder = SignatureBuilder::new(SignatureType::KeyRevocation)
        .set_signature_creation_time(at(NOW - 5 * DAY))
        .unwrap()
        .set_reason_for_revocation(ReasonForRevocation::KeyCompromised, b"")
        .unwrap();
    builder.hashed_area_mut().add(part(&(60, true, vec![1]))).unwrap();
    let revocation = builder.sign_direct_key(&mut primary(&alice), None).unwrap();
    let revoked = alice.clone().insert_packets(revocation).unwrap().0;
    assert_eq!(outcome(&revoked, &signature), Outcome::NotCounted(NotCounted::Revoked));
    // Both programs ignore the revocation.
    let peers = ask_peers(&revoked, &bytes(&signature));
    assert!(peers.gpgv.is_none_or(|good| good) && peers.sq.is_none_or(|good| good));
    let refused =
        talaria_message::Recipients::default().add(&revoked, Rules::default(), &mut |_| None, NOW);
    assert!(refused.unwrap_err().to_string().contains("revoked"));
}

#[test]
fn signatures_by_an_expired_key_do_not_count() {
    let cert = builder().set_validity_period(days(100)).generate().unwrap().0;
    let before = signed(&cert, document_at(MADE + 50 * DAY));
    let report = checked(std::slice::from_ref(&cert), &before);
    assert_eq!((report.outcome, report.since), (Outcome::Good, Some(NotCounted::KeyExpired)));
    let after = signed(&cert, document_at(MADE + 150 * DAY));
    assert_eq!(outcome(&cert, &after), Outcome::NotCounted(NotCounted::KeyExpired));
    assert!(ask_peers(&cert, &bytes(&after)).sq.is_none_or(|good| !good));
    // Before the key was made, too.
    let early = signed(&cert, document_at(MADE - DAY));
    assert!(matches!(outcome(&cert, &early), Outcome::NotCounted(NotCounted::Unbound(_))));
    let peers = ask_peers(&cert, &bytes(&early));
    assert!(peers.gpgv.is_none_or(|good| !good) && peers.sq.is_none_or(|good| !good));
}

/// gpg and keyservers give out the newest self-signatures only.
#[test]
fn the_oldest_self_signature_decides_about_older_signatures_and_that_is_said() {
    let cert = builder().set_validity_period(days(100)).generate().unwrap().0;
    let renewal = MADE + 80 * DAY;
    let renewed = |end| {
        let made = make::set_expiry(&cert, Some(end), &mut |_, _| None, renewal).unwrap();
        cert.clone().insert_packets(made).unwrap().0
    };
    // The copy without the signatures that were replaced.
    let newest = |cert: &Cert| {
        let is_old = |signature: &Signature| {
            signature.typ() != SignatureType::SubkeyBinding
                && signature.signature_creation_time().is_some_and(|made| made < at(renewal))
        };
        let packets = cert.clone().into_packets().filter(|packet| match packet {
            Packet::Signature(signature) => !is_old(signature),
            _ => true,
        });
        Cert::from_packets(packets).unwrap()
    };
    let before = signed(&cert, document_at(MADE + 50 * DAY));
    let whole = renewed(MADE + 900 * DAY);
    let report = checked(&[newest(&whole)], &before);
    let later = Some(NotCounted::BoundLater(renewal));
    assert_eq!((report.outcome, report.since), (Outcome::Good, later));
    let report = checked(&[whole], &before);
    assert_eq!((report.outcome, report.since), (Outcome::Good, None));
    // What happened since then is more important.
    let expired = newest(&renewed(MADE + 200 * DAY));
    let report = checked(std::slice::from_ref(&expired), &before);
    assert_eq!((report.outcome, report.since), (Outcome::Good, Some(NotCounted::KeyExpired)));
    let after = signed(&cert, document_at(MADE + 250 * DAY));
    assert_eq!(outcome(&expired, &after), Outcome::NotCounted(NotCounted::KeyExpired));
    // A date before the key was made is refused all the same.
    let early = signed(&cert, document_at(MADE - DAY));
    assert!(matches!(outcome(&expired, &early), Outcome::NotCounted(NotCounted::Unbound(_))));
}

#[test]
fn signatures_by_a_key_without_the_sign_flag_do_not_count() {
    let alice = alice();
    // The primary key certifies only.
    let signature = document_at(NOW - DAY).sign_message(&mut primary(&alice), DOCUMENT).unwrap();
    assert!(matches!(outcome(&alice, &signature), Outcome::NotCounted(NotCounted::Unbound(_))));
    let peers = ask_peers(&alice, &bytes(&signature));
    assert!(peers.gpgv.is_none_or(|good| !good) && peers.sq.is_none_or(|good| !good));
}

/// Alice, with her signing subkey bound at `bound`. The back signature of the subkey is made at
/// `back` and expires after so many days.
fn bound_again(alice: &Cert, bound: u32, back: u32, days_valid: Option<u32>) -> Cert {
    let mut pair = key_of(alice);
    let fingerprint = pair.public().fingerprint();
    let key = alice.keys().subkeys().find(|key| key.key().fingerprint() == fingerprint).unwrap();
    let key = key.key().clone();
    let mut said = SignatureBuilder::new(SignatureType::PrimaryKeyBinding)
        .set_signature_creation_time(at(back))
        .unwrap();
    if let Some(count) = days_valid {
        said = said.set_signature_validity_period(days(count)).unwrap();
    }
    let said = said.sign_primary_key_binding(&mut pair, alice.primary_key().key(), &key).unwrap();
    let binding = SignatureBuilder::new(SignatureType::SubkeyBinding)
        .set_signature_creation_time(at(bound))
        .unwrap()
        .set_key_flags(KeyFlags::empty().set_signing())
        .unwrap()
        .set_embedded_signature(said)
        .unwrap()
        .sign_subkey_binding(&mut primary(alice), None, &key)
        .unwrap();
    // Without the existing binding signature.
    let packets = alice.clone().strip_secret_key_material().into_packets().collect::<Vec<_>>();
    let mut kept = Vec::new();
    let mut below = false;
    for packet in packets {
        match &packet {
            Packet::PublicSubkey(one) => below = one.fingerprint() == fingerprint,
            Packet::Signature(_) if below => continue,
            _ => {}
        }
        let is_key = matches!(&packet, Packet::PublicSubkey(_)) && below;
        kept.push(packet);
        if is_key {
            kept.push(binding.clone().into());
        }
    }
    Cert::from_packets(kept.into_iter()).unwrap()
}

#[test]
fn an_expired_back_signature_binds_no_subkey() {
    let alice = alice();
    let cert = bound_again(&alice, MADE, MADE, Some(10));
    let (early, late) = (document_at(MADE + 5 * DAY), document_at(MADE + 50 * DAY));
    let (early, late) = (signed(&alice, early), signed(&alice, late));
    // One verifier, in both orders: its cache for one time does not affect the other time.
    for order in [[&early, &late, &early], [&late, &early, &late]] {
        let verifier = verifier(std::slice::from_ref(&cert));
        for signature in order {
            let outcome = verifier.one(&bytes(signature), DOCUMENT).outcome;
            assert_eq!(outcome == Outcome::Good, std::ptr::eq(signature, &raw const early));
        }
    }
    assert!(ask_peers(&cert, &bytes(&late)).sq.is_none_or(|good| !good));
    // A back signature made after the binding signature binds from its creation time on.
    let cert = bound_again(&alice, MADE, MADE + 20 * DAY, None);
    let verifier = verifier(std::slice::from_ref(&cert));
    assert!(matches!(
        verifier.one(&bytes(&early), DOCUMENT).outcome,
        Outcome::NotCounted(NotCounted::Unbound(_))
    ));
    assert_eq!(verifier.one(&bytes(&late), DOCUMENT).outcome, Outcome::Good);
    assert!(ask_peers(&cert, &bytes(&late)).sq.is_none_or(|good| good));
}

#[test]
fn a_subkey_without_a_back_signature_signs_nothing() {
    let (alice, mallory) = (alice(), alice());
    // Mallory binds Alice's key as a subkey of her own.
    let fingerprint = key_of(&alice).public().fingerprint();
    let key = alice.keys().subkeys().find(|key| key.key().fingerprint() == fingerprint).unwrap();
    let key = key.key().clone().take_secret().0;
    let binding = SignatureBuilder::new(SignatureType::SubkeyBinding)
        .set_signature_creation_time(at(MADE))
        .unwrap()
        .set_key_flags(KeyFlags::empty().set_signing())
        .unwrap()
        .sign_subkey_binding(&mut primary(&mallory), None, &key)
        .unwrap();
    let packets = [Packet::from(key), binding.into()];
    let thief = mallory.clone().insert_packets(packets).unwrap().0;
    let signature = signed(&alice, document_at(NOW - DAY));
    assert!(matches!(outcome(&thief, &signature), Outcome::NotCounted(NotCounted::Unbound(_))));
    let peers = ask_peers(&thief, &bytes(&signature));
    assert!(peers.gpgv.is_none_or(|good| !good) && peers.sq.is_none_or(|good| !good));
    // Beside Alice's certificate, Mallory's certificate changes nothing, in any order.
    for known in [[thief.clone(), alice.clone()], [alice.clone(), thief]] {
        let report = checked(&known, &signature);
        assert_eq!(report.outcome, Outcome::Good);
        assert_eq!(report.signer.unwrap().certificate, alice.fingerprint().to_hex());
    }
}

#[test]
fn signatures_made_while_all_user_ids_were_revoked_do_not_count() {
    // Without a direct-key signature, as in certificates made by GnuPG.
    let generated = builder().generate().unwrap().0;
    let packets = generated.clone().strip_secret_key_material().into_packets();
    let mut kept = Vec::new();
    let mut below_primary = true;
    for packet in packets {
        match &packet {
            Packet::UserID(_) => below_primary = false,
            Packet::Signature(_) if below_primary => continue,
            _ => {}
        }
        kept.push(packet);
    }
    let cert = Cert::from_packets(kept.into_iter()).unwrap();
    let user_id = UserID::from("Alice <alice@example.org>");
    let mut pair = primary(&generated);
    let revocation = SignatureBuilder::new(SignatureType::CertificationRevocation)
        .set_signature_creation_time(at(MADE + 10 * DAY))
        .unwrap()
        .set_reason_for_revocation(ReasonForRevocation::UIDRetired, b"")
        .unwrap()
        .sign_userid_binding(&mut pair, None, &user_id)
        .unwrap();
    let again = SignatureBuilder::new(SignatureType::PositiveCertification)
        .set_signature_creation_time(at(MADE + 20 * DAY))
        .unwrap()
        .set_key_flags(KeyFlags::empty().set_certification())
        .unwrap()
        .sign_userid_binding(&mut pair, None, &user_id)
        .unwrap();
    let packets = [Packet::from(user_id.clone()), revocation.into(), again.into()];
    let without_direct = cert.clone();
    let cert = cert.insert_packets(packets.clone()).unwrap().0;
    for (day, counts) in [(5, true), (15, false), (25, true)] {
        let signature = signed(&generated, document_at(MADE + day * DAY));
        let found = outcome(&cert, &signature);
        assert_eq!(found == Outcome::Good, counts, "day {day}: {found:?}");
        // In both programs, the revoked user ID still binds the key.
        let Peers { gpgv, sq } = ask_peers(&cert, &bytes(&signature));
        assert!(gpgv.is_none_or(|good| good) && sq.is_none_or(|good| good), "day {day}");
    }
    // A direct-key signature binds the key independently of its user IDs.
    let with_direct = generated.clone().insert_packets(packets).unwrap().0;
    let signature = signed(&generated, document_at(MADE + 15 * DAY));
    assert_eq!(outcome(&with_direct, &signature), Outcome::Good);
    // A user ID revocation without a reason is not retroactive, unlike that of a key.
    let revocation = SignatureBuilder::new(SignatureType::CertificationRevocation)
        .set_signature_creation_time(at(MADE + 10 * DAY))
        .unwrap()
        .sign_userid_binding(&mut pair, None, &user_id)
        .unwrap();
    let packets = [Packet::from(user_id.clone()), revocation.into()];
    let left = without_direct.clone().insert_packets(packets).unwrap().0;
    for (day, counts) in [(5, true), (15, false)] {
        let signature = signed(&generated, document_at(MADE + day * DAY));
        assert_eq!(outcome(&left, &signature) == Outcome::Good, counts, "day {day}");
    }
    // A revocation with an expiry date holds until then.
    let revocation = SignatureBuilder::new(SignatureType::CertificationRevocation)
        .set_signature_creation_time(at(MADE + 10 * DAY))
        .unwrap()
        .set_signature_validity_period(days(10))
        .unwrap()
        .sign_userid_binding(&mut pair, None, &user_id)
        .unwrap();
    let packets = [Packet::from(user_id), revocation.into()];
    let suspended = without_direct.insert_packets(packets).unwrap().0;
    for (day, counts) in [(5, true), (15, false), (25, true)] {
        let signature = signed(&generated, document_at(MADE + day * DAY));
        assert_eq!(outcome(&suspended, &signature) == Outcome::Good, counts, "day {day}");
    }
}

/// A certificate with designated revokers, and their revocations.
fn with_revokers(
    class: u8,
    revokers: &[&Cert],
    revocations: &[(&Cert, ReasonForRevocation)],
) -> Cert {
    let generated = alice();
    let mut builder = SignatureBuilder::new(SignatureType::DirectKey)
        .set_signature_creation_time(at(MADE))
        .unwrap()
        .set_key_flags(KeyFlags::empty().set_certification())
        .unwrap();
    for revoker in revokers {
        let body = [&[class, 22], revoker.fingerprint().as_bytes()].concat();
        let part = SubpacketValue::Unknown { tag: SubpacketTag::from(12), body };
        builder.hashed_area_mut().add(Subpacket::new(part, false).unwrap()).unwrap();
    }
    let named = builder.sign_direct_key(&mut primary(&generated), None).unwrap();
    let mut packets = vec![Packet::from(named)];
    for (revoker, reason) in revocations {
        let made = SignatureBuilder::new(SignatureType::KeyRevocation)
            .set_signature_creation_time(at(NOW - 5 * DAY))
            .unwrap()
            .set_reason_for_revocation(*reason, b"")
            .unwrap()
            .sign_direct_key(&mut primary(revoker), Some(generated.primary_key().key()))
            .unwrap();
        packets.push(made.into());
    }
    generated.insert_packets(packets).unwrap().0
}

#[test]
fn signatures_by_a_key_that_its_revoker_revoked_do_not_count() {
    const LOST: ReasonForRevocation = ReasonForRevocation::KeyCompromised;
    const RETIRED: ReasonForRevocation = ReasonForRevocation::KeyRetired;
    let (rita, sam, eve) = (alice(), alice(), alice());
    // A revoker whose own key is revoked can still revoke.
    let dead = openpgp::cert::CertRevocationBuilder::new()
        .set_signature_creation_time(at(NOW - 200 * DAY))
        .unwrap()
        .set_reason_for_revocation(LOST, b"")
        .unwrap()
        .build(&mut primary(&sam), &sam, None)
        .unwrap();
    let dead = sam.clone().insert_packets(dead).unwrap().0;
    let revoked = || Outcome::NotCounted(NotCounted::Revoked);
    let check = |cert: &Cert, known: &[&Cert], [before, after]: [Outcome; 2]| {
        let mut certs = vec![cert.clone()];
        certs.extend(known.iter().map(|&cert| cert.clone()));
        let verifier = verifier(&certs);
        for (day, expected) in [(9, before), (2, after)] {
            let signature = signed(cert, document_at(NOW - day * DAY));
            assert_eq!(verifier.one(&bytes(&signature), DOCUMENT).outcome, expected, "{day}");
        }
    };
    let good = || [Outcome::Good, Outcome::Good];
    // One signature names both revokers, and each may revoke.
    for revoker in [&rita, &sam] {
        let lost = with_revokers(0x80, &[&rita, &sam], &[(revoker, LOST)]);
        check(&lost, &[&rita, &dead], [revoked(), revoked()]);
        let retired = with_revokers(0x80, &[&rita, &sam], &[(revoker, RETIRED)]);
        check(&retired, &[&rita, &dead], [Outcome::Good, revoked()]);
        // A revocation by a revoker without a known certificate does not count.
        check(&lost, &[], good());
        let all = [&rita, &dead].map(|cert| OwnCert::parse(&cert.to_vec().unwrap()).unwrap());
        let mut find = |by| all.iter().find(|cert| cert.fingerprint() == by).cloned();
        let mut to = talaria_message::Recipients::default();
        let refused = to.add(&lost, Rules::default(), &mut find, NOW).unwrap_err();
        assert!(refused.to_string().contains("is revoked"), "{refused}");
        to.add(&lost, Rules::default(), &mut |_| None, NOW).unwrap();
    }
    // Sensitive revokers count. Revokers without the required bit do not, and other keys do not.
    let sensitive = with_revokers(0xc0, &[&rita], &[(&rita, LOST)]);
    check(&sensitive, &[&rita], [revoked(), revoked()]);
    check(&with_revokers(0x40, &[&rita], &[(&rita, LOST)]), &[&rita], good());
    check(&with_revokers(0x80, &[&rita], &[(&eve, LOST)]), &[&rita, &eve], good());
    check(&with_revokers(0x80, &[], &[(&rita, LOST)]), &[&rita], good());
    // Rita's revocation is for another key.
    let others = with_revokers(0x80, &[&rita], &[(&rita, LOST)]);
    let theirs = others.primary_key().other_revocations().next().unwrap().clone();
    let victim = with_revokers(0x80, &[&rita], &[]).insert_packets(theirs).unwrap().0;
    check(&victim, &[&rita], good());
}

/// The effect of a critical subpacket in a self-signature, one row per type: whether the user ID is
/// valid in our listings and messages, for gpg (2.2.40) and for sq (0.27).
fn critical_parts_of_certificates() -> Vec<Row> {
    let hashed =
        |name, tag, body: &[u8], says| (name, vec![(tag, true, body.to_vec())], Vec::new(), says);
    let unknown = "unknown@example.org";
    vec![
        hashed("trust", 5, &[1, 60], [true, true, true]),
        hashed("placeholder", 10, &[1], [false, false, false]),
        hashed("preferred ciphers", 11, &[9], [true, true, true]),
        hashed("unknown notation", 20, &notation(unknown), [false, false, false]),
        hashed("gpg's notation", 20, &notation("pka-address@gnupg.org"), [true, true, false]),
        hashed("preferred digests", 21, &[10], [true, true, true]),
        hashed("keyserver preferences", 23, &[0x80], [false, false, true]),
        hashed("preferred keyserver", 24, b"hkp://example.org", [true, true, true]),
        hashed("policy", 26, b"https://example.org", [true, true, true]),
        hashed("signer's user ID", 28, b"alice@example.org", [true, false, true]),
        hashed("features", 30, &[1], [true, true, true]),
        hashed("target", 31, &[8, 10], [false, false, false]),
        hashed("AEAD preferences", 34, &[2], [true, false, true]),
        hashed("unknown type", 60, &[1], [false, false, false]),
        ("not critical", vec![(60, false, vec![1])], Vec::new(), [true, true, true]),
        // Anybody can add it; gpg then ignores the user ID.
        ("unhashed unknown", Vec::new(), vec![(60, true, vec![1])], [true, false, true]),
        ("unhashed notation", Vec::new(), vec![(20, true, notation(unknown))], [true, false, true]),
    ]
}

/// A certificate with only a signing primary key, and a user ID bound with these subpackets.
fn bound_with(hashed: &[Part], unhashed: &[Part]) -> Cert {
    let suite = CertBuilder::new()
        .set_profile(openpgp::Profile::RFC4880)
        .unwrap()
        .set_cipher_suite(CipherSuite::Cv25519)
        .set_creation_time(at(MADE))
        .set_primary_key_flags(KeyFlags::empty().set_certification().set_signing());
    let (bare, _) = suite.generate().unwrap();
    let user_id = UserID::from("Alice <alice@example.org>");
    let mut builder = SignatureBuilder::new(SignatureType::PositiveCertification)
        .set_hash_algo(HashAlgorithm::SHA512)
        .set_signature_creation_time(at(MADE))
        .unwrap()
        .set_key_flags(KeyFlags::empty().set_certification().set_signing())
        .unwrap();
    for one in hashed {
        builder.hashed_area_mut().add(part(one)).unwrap();
    }
    for one in unhashed {
        builder.unhashed_area_mut().add(part(one)).unwrap();
    }
    let binding = user_id.bind(&mut primary(&bare), &bare, builder).unwrap();
    // Without the direct-key signature, which would bind the key by itself.
    let key = bare.primary_key().key().clone();
    let packets: [Packet; 3] = [key.into(), user_id.into(), binding.into()];
    Cert::from_packets(packets.into_iter()).unwrap()
}

#[test]
fn critical_subpackets_in_certificates_are_judged_as_in_gpg() {
    let mut wrong = Vec::new();
    for (name, hashed, unhashed, [ours, gpgv, sq]) in critical_parts_of_certificates() {
        let cert = bound_with(&hashed, &unhashed);
        let public = cert.clone().strip_secret_key_material().to_vec().unwrap();
        let listed = talaria_cert::Cert::parse(&public).unwrap();
        let verdicts = talaria_cert::verdicts(&[&listed], talaria_cert::Verification::Full);
        let summary = talaria_cert::Summary::evaluate(&listed, &verdicts[0], NOW);
        let listed = summary.user_ids[0].validity(NOW) == talaria_cert::Validity::Valid;
        let known = talaria_message::read_cert(&public).unwrap();
        let mut key = primary(&cert);
        let signature = document_at(NOW - DAY).sign_message(&mut key, DOCUMENT).unwrap();
        let counts = outcome(&known, &signature) == Outcome::Good;
        let gpg = gpg_lists(&public);
        let peers = ask_peers(&known, &bytes(&signature));
        if (listed, counts) != (ours, ours)
            || gpg.is_some_and(|says| says != gpgv)
            || peers.sq.is_some_and(|says| says != sq)
        {
            wrong.push(format!(
                "{name}: listed {listed}, counts {counts}, gpg {gpg:?}, sq {:?}",
                peers.sq
            ));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Whether gpg imports a certificate with a valid user ID; `None` if gpg is not installed.
fn gpg_lists(cert: &[u8]) -> Option<bool> {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("cert.pgp");
    std::fs::write(&file, cert).unwrap();
    let run = |args: &[&str]| {
        let mut gpg = Command::new("gpg");
        gpg.env("LC_ALL", "C").args(["--batch", "--no-autostart", "--homedir"]).arg(home.path());
        gpg.args(args).stdin(Stdio::null()).output().ok()
    };
    run(&["--import", file.to_str().unwrap()])?;
    let listing = run(&["--with-colons", "-k"])?.stdout;
    Some(String::from_utf8_lossy(&listing).lines().any(|line| line.starts_with("uid:")))
}

/// Anybody can write data into the unhashed area of a revocation that Sequoia rejects as malformed.
#[test]
fn a_revocation_with_a_malformed_unhashed_area_counts() {
    let alice = alice();
    let revocation = CertRevocationBuilder::new()
        .set_signature_creation_time(at(NOW - DAY))
        .unwrap()
        .set_reason_for_revocation(ReasonForRevocation::KeyCompromised, b"stolen")
        .unwrap()
        .build(&mut primary(&alice), &alice, None)
        .unwrap();
    let mut public = alice.clone().strip_secret_key_material().to_vec().unwrap();
    let packet = Packet::from(revocation).to_vec().unwrap();
    let body = talaria_cert::first_packet(&packet).unwrap().body.to_vec();
    let hashed = usize::from(u16::from_be_bytes([body[4], body[5]]));
    let unhashed = usize::from(u16::from_be_bytes([body[6 + hashed], body[7 + hashed]]));
    let begin = 8 + hashed;
    let rest = &body[begin + unhashed..];
    // An issuer fingerprint of version 6 with 34 bytes, an issuer of 7, a notation without a name,
    // a length beyond the area.
    let mut junk = vec![36, 33, 6];
    junk.extend([0xaa; 34]);
    junk.extend([8, 16, 1, 2, 3, 4, 5, 6, 7, 2, 20, 0x80, 99, 1, 1]);
    let area = [&body[begin..begin + unhashed], &junk].concat();
    let length = u16::try_from(area.len()).unwrap().to_be_bytes();
    let body = [&body[..begin - 2], &length, &area, rest].concat();
    // Behind the primary key.
    let key = talaria_cert::first_packet(&public).unwrap().body.len();
    let behind = key + 2;
    let length = [192, u8::try_from(body.len() - 192).unwrap()];
    public.splice(behind..behind, [&[0xc2][..], &length, &body].concat());
    let listed = talaria_cert::Cert::parse(&public).unwrap();
    let verdicts = talaria_cert::verdicts(&[&listed], talaria_cert::Verification::Full);
    let summary = talaria_cert::Summary::evaluate(&listed, &verdicts[0], NOW);
    assert_eq!(summary.validity(NOW), talaria_cert::Validity::Revoked);
    let read = talaria_message::read_cert(&public).unwrap();
    let found = outcome(&read, &signed(&alice, document_at(NOW - DAY)));
    assert_eq!(found, Outcome::NotCounted(NotCounted::Revoked));
}
