//! Requests signed by owners with GnuPG, and attacks by thieves.

use std::time::SystemTime;

use crate::site::{Got, Gpg, Site, armored, make, next_second, user_ids};
use sequoia_openpgp as openpgp;
use sequoia_openpgp::packet::signature::SignatureBuilder;
use sequoia_openpgp::parse::Parse as _;
use sequoia_openpgp::policy::StandardPolicy;
use sequoia_openpgp::serialize::MarshalInto as _;
use sequoia_openpgp::types::{ReasonForRevocation, SignatureType};
use talaria_server::Config;

/// An owner who uses GnuPG.
struct Owner {
    gpg: Gpg,
    fingerprint: String,
}

impl Owner {
    fn new(user_ids: &[&str]) -> Self {
        let gpg = Gpg::new();
        gpg.run(&["--quick-gen-key", user_ids[0], "ed25519", "sign", "never"]);
        let fingerprint = gpg.fingerprint(user_ids[0]);
        for user_id in &user_ids[1..] {
            gpg.run(&["--quick-add-uid", &fingerprint, user_id]);
        }
        Self { gpg, fingerprint }
    }

    fn cert(&self) -> openpgp::Cert {
        openpgp::Cert::from_bytes(self.export().as_bytes()).unwrap()
    }

    fn export(&self) -> String {
        self.gpg.run(&["--armor", "--export", &self.fingerprint])
    }

    /// The text of a request, and the signature that the user makes with these options.
    fn request(&self, path: &str, options: &[&str]) -> (String, String) {
        let keytext = format!("{path}\n{}", self.export());
        let file = self.gpg.path().join("request");
        std::fs::write(&file, &keytext).unwrap();
        let mut arguments = vec!["--armor", "--output", "-"];
        arguments.extend(options);
        arguments.extend(["--detach-sign", file.to_str().unwrap()]);
        (keytext, self.gpg.run(&arguments))
    }
}

fn send(site: &Site, path: &str, keytext: &str, keysig: &str) -> Got {
    site.form(path, &[("keytext", keytext), ("keysig", keysig)])
}

/// Signs with the primary key or a subkey, ignoring the key flags.
fn sign(
    key: openpgp::packet::Key<
        openpgp::packet::key::SecretParts,
        openpgp::packet::key::UnspecifiedRole,
    >,
    text: &str,
) -> String {
    let mut signer = key.into_keypair().unwrap();
    let signature =
        SignatureBuilder::new(SignatureType::Binary).sign_message(&mut signer, text).unwrap();
    let packet = openpgp::Packet::from(signature).to_vec().unwrap();
    let mut writer =
        openpgp::armor::Writer::new(Vec::new(), openpgp::armor::Kind::Signature).unwrap();
    std::io::Write::write_all(&mut writer, &packet).unwrap();
    String::from_utf8(writer.finalize().unwrap()).unwrap()
}

fn sign_by_primary(cert: &openpgp::Cert, text: &str) -> String {
    let key = cert.primary_key().key().clone().parts_into_secret().unwrap();
    sign(key.role_into_unspecified(), text)
}

fn revoked(cert: &openpgp::Cert) -> openpgp::Cert {
    let mut signer = crate::site::signer(cert);
    let revocation =
        cert.revoke(&mut signer, ReasonForRevocation::KeyCompromised, b"stolen").unwrap();
    cert.clone().insert_packets(revocation).unwrap().0
}

#[test]
fn a_certificate_deleted_by_its_owner_does_not_return() {
    let site = Site::start(Config::default());
    let owner = Owner::new(&["Olga <olga@example.org>"]);
    assert_eq!(site.upload(&owner.cert()).status, 200);
    let (keytext, keysig) = owner.request("/pks/delete", &[]);
    let got = send(&site, "/pks/delete", &keytext, &keysig);
    assert_eq!(got.status, 200, "{}", got.text());
    let deleted = &got.value()["deleted"][0]["fingerprint"];
    assert_eq!(deleted, &owner.fingerprint.to_lowercase());
    assert!(site.cert(&owner.fingerprint).is_none());
    // Copies from peers and strangers do not bring the certificate back.
    assert_eq!(site.upload(&owner.cert()).status, 422);
    assert!(site.cert(&owner.fingerprint).is_none());
    assert_eq!(send(&site, "/pks/delete", &keytext, &keysig).status, 404);
}

#[test]
fn changed_line_ends_do_not_invalidate_a_request() {
    let site = Site::start(Config::default());
    for (options, network) in [(&["--textmode"][..], false), (&["--textmode"], true), (&[], true)] {
        let owner = Owner::new(&["Olga <olga@example.org>"]);
        assert_eq!(site.upload(&owner.cert()).status, 200);
        let (keytext, keysig) = owner.request("/pks/delete", options);
        let keytext = if network { keytext.replace('\n', "\r\n") } else { keytext };
        let got = send(&site, "/pks/delete", &keytext, &keysig);
        assert_eq!(got.status, 200, "{options:?} {network}: {}", got.text());
        assert!(site.cert(&owner.fingerprint).is_none());
    }
}

#[test]
fn requests_need_the_signature_of_the_owner_over_that_request() {
    let site = Site::start(Config::default());
    let (owner, other) = (Owner::new(&["Olga <olga@example.org>"]), Owner::new(&["Eve <e@x.org>"]));
    site.upload(&owner.cert());
    site.upload(&other.cert());
    let (keytext, keysig) = owner.request("/pks/delete", &[]);
    let (_, foreign) = other.request("/pks/delete", &[]);
    // Eve signs the same text.
    let file = other.gpg.path().join("request");
    std::fs::write(&file, &keytext).unwrap();
    let signed_by_other =
        other.gpg.run(&["--armor", "--output", "-", "--detach-sign", file.to_str().unwrap()]);
    let (replacing, replacing_sig) = owner.request("/pks/replace", &[]);
    let longer = format!("{keytext}\n");
    let cases: [(&str, &str, &str, u16); 9] = [
        ("/pks/delete", &keytext, &foreign, 422),
        ("/pks/delete", &keytext, &signed_by_other, 422),
        ("/pks/delete", &longer, &keysig, 422),
        ("/pks/delete", &replacing, &replacing_sig, 400),
        ("/pks/replace", &keytext, &keysig, 400),
        ("/pks/delete", &keytext, "", 400),
        ("/pks/delete", "", &keysig, 400),
        ("/pks/delete", &keytext, "no signature", 422),
        ("/pks/delete", "/pks/delete\n", &keysig, 422),
    ];
    for (path, keytext, keysig, status) in cases {
        let got = send(&site, path, keytext, keysig);
        assert_eq!(got.status, status, "{path} {keytext:.20} {}", got.text());
        assert!(site.cert(&owner.fingerprint).is_some());
    }
    assert_eq!(site.get("/pks/delete").status, 405);
}

#[test]
fn parts_removed_by_the_owner_do_not_return() {
    let site = Site::start(Config::default());
    let owner = Owner::new(&["Olga <olga@example.org>", "forget me <old@example.org>"]);
    let whole = owner.cert();
    assert_eq!(site.upload(&whole).status, 200);
    let kept = whole
        .clone()
        .retain_userids(|user_id| user_id.userid().value() == b"Olga <olga@example.org>");
    next_second();
    let keytext = format!("/pks/replace\n{}", armored(&kept));
    let file = owner.gpg.path().join("request");
    std::fs::write(&file, &keytext).unwrap();
    let keysig =
        owner.gpg.run(&["--armor", "--output", "-", "--detach-sign", file.to_str().unwrap()]);
    let got = send(&site, "/pks/replace", &keytext, &keysig);
    assert_eq!(got.status, 200, "{}", got.text());
    assert_eq!(got.value()["updated"][0]["fingerprint"], owner.fingerprint.to_lowercase());
    let expected = ["Olga <olga@example.org>"];
    assert_eq!(user_ids(&site.cert(&owner.fingerprint).unwrap()), expected);
    let search = |text| site.get(&format!("/pks/lookup?op=get&options=mr&search={text}")).status;
    assert_eq!((search("old@example.org"), search("olga@example.org")), (404, 200));
    site.upload(&whole);
    assert_eq!(user_ids(&site.cert(&owner.fingerprint).unwrap()), expected);
    assert_eq!(search("old@example.org"), 404);
}

#[test]
fn a_replayed_request_changes_nothing() {
    let site = Site::start(Config::default());
    let owner = Owner::new(&["Olga <olga@example.org>"]);
    site.upload(&owner.cert());
    let replace = owner.request("/pks/replace", &[]);
    let delete = owner.request("/pks/delete", &[]);
    assert_eq!(send(&site, "/pks/replace", &replace.0, &replace.1).status, 200);
    next_second();
    owner.gpg.run(&["--quick-add-uid", &owner.fingerprint, "Olga <new@example.org>"]);
    assert_eq!(site.upload(&owner.cert()).status, 200);
    for (path, (keytext, keysig)) in [("/pks/replace", replace), ("/pks/delete", delete)] {
        let got = send(&site, path, &keytext, &keysig);
        assert_eq!(got.status, 422);
        assert!(got.text().contains("sign it again"), "{}", got.text());
    }
    assert_eq!(user_ids(&site.cert(&owner.fingerprint).unwrap()).len(), 2);
    let (keytext, keysig) = owner.request("/pks/delete", &[]);
    assert_eq!(send(&site, "/pks/delete", &keytext, &keysig).status, 200);
}

#[test]
fn a_request_with_a_secret_key_is_refused_in_words() {
    let site = Site::start(Config::default());
    let cert = make(&["Olga <olga@example.org>"]);
    site.upload(&cert);
    let secret = String::from_utf8(cert.as_tsk().armored().to_vec().unwrap()).unwrap();
    let keytext = format!("/pks/replace\n{secret}");
    let got = send(&site, "/pks/replace", &keytext, &sign_by_primary(&cert, &keytext));
    assert!((400..500).contains(&got.status), "{}", got.status);
    assert!(got.text().contains("this is a secret key"), "{}", got.text());
}

/// Dated by a clock that is so many seconds ahead.
fn ahead(owner: &Owner, path: &str, seconds: u64) -> (String, String) {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    owner.request(path, &["--faked-system-time", &(now + seconds).to_string()])
}

#[test]
fn a_request_by_a_clock_that_is_ahead_waits_so_that_its_copy_is_old() {
    let site = Site::start(Config::default());
    let owner = Owner::new(&["Olga <olga@example.org>"]);
    site.upload(&owner.cert());
    let (keytext, keysig) = ahead(&owner, "/pks/replace", 60);
    let got = send(&site, "/pks/replace", &keytext, &keysig);
    assert_eq!(got.status, 422, "{}", got.text());
    let (keytext, keysig) = ahead(&owner, "/pks/replace", 4);
    let got = send(&site, "/pks/replace", &keytext, &keysig);
    assert_eq!(got.status, 200, "{}", got.text());
    next_second();
    owner.gpg.run(&["--quick-add-uid", &owner.fingerprint, "Olga <new@example.org>"]);
    assert_eq!(site.upload(&owner.cert()).status, 200);
    let copy = send(&site, "/pks/replace", &keytext, &keysig);
    assert_eq!(copy.status, 422, "{}", copy.text());
    assert!(copy.text().contains("sign it again"), "{}", copy.text());
    assert_eq!(user_ids(&site.cert(&owner.fingerprint).unwrap()).len(), 2);
}

#[test]
fn a_stolen_key_cannot_remove_a_revocation() {
    let site = Site::start(Config::default());
    let before = make(&["Olga <olga@example.org>"]);
    let fingerprint = before.fingerprint().to_hex();
    let after = revoked(&before);
    site.upload(&after);
    let is_revoked = |cert: &openpgp::Cert| {
        let policy = StandardPolicy::new();
        matches!(
            cert.revocation_status(&policy, None),
            openpgp::types::RevocationStatus::Revoked(_)
        )
    };
    let keytext = format!("/pks/replace\n{}", armored(&before));
    let got = send(&site, "/pks/replace", &keytext, &sign_by_primary(&before, &keytext));
    assert_eq!(got.status, 200, "{}", got.text());
    assert!(is_revoked(&site.cert(&fingerprint).unwrap()));
    next_second();
    let keytext = format!("/pks/delete\n{}", armored(&before));
    let got = send(&site, "/pks/delete", &keytext, &sign_by_primary(&before, &keytext));
    assert_eq!(got.status, 200, "{}", got.text());
    // Personal data are gone, and the revocation of the key stays.
    let left = site.cert(&fingerprint).unwrap();
    assert!(is_revoked(&left) && user_ids(&left).is_empty());
    assert_eq!(site.get("/pks/lookup?op=get&options=mr&search=olga@example.org").status, 404);
}

#[test]
fn a_signing_subkey_may_sign_requests_until_it_is_revoked() {
    let site = Site::start(Config::default());
    let policy = StandardPolicy::new();
    let with_subkey = |cert: &openpgp::Cert, text: &str| {
        let valid = cert.keys().with_policy(&policy, None).secret().for_signing();
        let key = valid.subkeys().next().unwrap().key().clone();
        sign(key.role_into_unspecified(), text)
    };
    let with_encryption_subkey = |cert: &openpgp::Cert| {
        let keys = cert.keys().subkeys().with_policy(&policy, None).for_transport_encryption();
        keys.map(|key| key.key().fingerprint()).next().unwrap()
    };
    let cert = make(&["Olga <olga@example.org>"]);
    assert_ne!(with_encryption_subkey(&cert), cert.fingerprint());
    let keytext = format!("/pks/delete\n{}", armored(&cert));
    let keysig = with_subkey(&cert, &keytext);
    let subkey = cert.keys().subkeys().with_policy(&policy, None).for_signing().next().unwrap();
    let mut signer = crate::site::signer(&cert);
    let revocation = openpgp::cert::SubkeyRevocationBuilder::new()
        .set_reason_for_revocation(ReasonForRevocation::KeyCompromised, b"")
        .unwrap()
        .build(&mut signer, &cert, &subkey.key().clone().role_into_subordinate(), None)
        .unwrap();
    let after = cert.clone().insert_packets(revocation).unwrap().0;

    site.upload(&after);
    assert_eq!(send(&site, "/pks/delete", &keytext, &keysig).status, 422);
    let fingerprint = cert.fingerprint().to_hex();
    // The owner's new copy has neither the revocation nor the subkey: both stay.
    let bare = format!("/pks/replace\n{}", armored(&cert.clone().retain_subkeys(|_| false)));
    let got = send(&site, "/pks/replace", &bare, &sign_by_primary(&cert, &bare));
    assert_eq!(got.status, 200, "{}", got.text());
    let left = site.cert(&fingerprint).unwrap();
    assert_eq!(left.keys().subkeys().count(), 1);
    next_second();
    let keysig = with_subkey(&cert, &keytext);
    assert_eq!(send(&site, "/pks/delete", &keytext, &keysig).status, 422);

    let other = make(&["Otto <otto@example.org>"]);
    site.upload(&other);
    let keytext = format!("/pks/delete\n{}", armored(&other));
    let got = send(&site, "/pks/delete", &keytext, &with_subkey(&other, &keytext));
    assert_eq!(got.status, 200, "{}", got.text());
}

#[test]
fn an_operator_can_disable_requests_of_owners() {
    let mut config = Config::default();
    config.policy.owner_requests = false;
    let site = Site::start(config);
    let cert = make(&["Olga <olga@example.org>"]);
    site.upload(&cert);
    let keytext = format!("/pks/delete\n{}", armored(&cert));
    assert_eq!(send(&site, "/pks/delete", &keytext, &sign_by_primary(&cert, &keytext)).status, 403);
    assert!(site.cert(&cert.fingerprint().to_hex()).is_some());
}
