//! Third-party signatures, from the side of a client.

use std::net::SocketAddr;

use openpgp::types::{ReasonForRevocation, RevocationKey, SignatureType};
use sequoia_openpgp as openpgp;
use sequoia_openpgp::parse::Parse as _;
use sequoia_openpgp::serialize::SerializeInto as _;
use talaria_cert::ThirdParty;
use talaria_needs::free_port;
use talaria_server::Config;

use crate::site::{Gpg, Site, armored, make, next_second, wait_for};

/// `of` with a signature by `by` on its user ID.
fn certified(of: &openpgp::Cert, by: &openpgp::Cert) -> openpgp::Cert {
    let mut signer = crate::site::signer(by);
    let user_id = of.userids().next().unwrap().userid().clone();
    let signature =
        user_id.certify(&mut signer, of, SignatureType::PositiveCertification, None, None).unwrap();
    of.clone().insert_packets(signature).unwrap().0
}

/// `of` with a signature by `forger` on its user ID, in the name of another key.
fn forged(of: &openpgp::Cert, name: &openpgp::Cert, forger: &openpgp::Cert) -> openpgp::Cert {
    let user_id = of.userids().next().unwrap().userid().clone();
    let made =
        openpgp::packet::signature::SignatureBuilder::new(SignatureType::PositiveCertification)
            .set_issuer(name.keyid())
            .unwrap()
            .set_issuer_fingerprint(name.fingerprint())
            .unwrap()
            .sign_userid_binding(&mut crate::site::signer(forger), of.primary_key().key(), &user_id)
            .unwrap();
    of.clone().insert_packets(made).unwrap().0
}

fn serving(third_party: ThirdParty) -> Config {
    let mut config = Config::default();
    config.policy.third_party = third_party;
    config
}

/// The key IDs of the signatures, other than self-signatures, that gpg receives from a server.
fn received(site: &Site, cert: &openpgp::Cert) -> Vec<String> {
    let gpg = Gpg::new();
    let keyserver = format!("hkp://{}", site.http);
    let fingerprint = cert.fingerprint().to_hex();
    // Without this option, gpg drops all third-party signatures from keyservers.
    let keep = ["--keyserver-options", "no-self-sigs-only,no-import-clean"];
    gpg.run(&[&["--keyserver", &keyserver], &keep[..], &["--recv-keys", &fingerprint]].concat());
    let listing = gpg.run(&["--with-colons", "--list-sigs", &fingerprint]);
    let own = cert.keyid().to_hex();
    let signatures = listing.lines().filter(|line| line.starts_with("sig:"));
    let issuers = signatures.filter_map(|line| line.split(':').nth(4));
    let mut others: Vec<String> =
        issuers.filter(|issuer| *issuer != own).map(str::to_owned).collect();
    others.sort();
    others
}

#[test]
fn the_setting_decides_which_third_party_signatures_gpg_receives() {
    let [alice, bob, carol] = ["alice", "bob", "carol"].map(|name| make(&[name]));
    let both = certified(&certified(&alice, &bob), &carol);
    let mut ids = vec![bob.keyid().to_hex(), carol.keyid().to_hex()];
    ids.sort();
    for (chosen, expected) in
        [(ThirdParty::Verified, vec![bob.keyid().to_hex()]), (ThirdParty::All, ids)]
    {
        let site = Site::start(serving(chosen));
        // The certificate comes before its issuer. Carol's is not here.
        for cert in [&both, &bob] {
            assert_eq!(site.upload(cert).status, 200);
        }
        assert_eq!(received(&site, &alice), expected, "{chosen:?}");
        // The second look-up takes what the first one has verified.
        assert_eq!(received(&site, &alice), expected, "{chosen:?}");
    }
}

/// Has sq attest all signatures of others on a key, or none.
fn attested(cert: &openpgp::Cert, which: &str) -> openpgp::Cert {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key.pgp");
    std::fs::write(&path, cert.as_tsk().to_vec().unwrap()).unwrap();
    let mut sq = std::process::Command::new("sq");
    let out = sq.args(["key", "attest-certifications", which]).arg(&path).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    openpgp::Cert::from_bytes(&out.stdout).unwrap()
}

#[test]
fn what_the_owner_attests_is_served_although_its_issuer_is_unknown() {
    let site = Site::start(serving(ThirdParty::Verified));
    let [alice, bob, carol] = ["alice", "bob", "carol"].map(|name| make(&[name]));
    let by_bob = attested(&certified(&alice, &bob), "--all");
    let by_both = certified(&by_bob, &carol);
    assert_eq!(site.upload(&by_both).status, 200);
    assert_eq!(received(&site, &alice), [bob.keyid().to_hex()]);
    // Clients that know attestations get what they need to check it.
    let served = site.cert(&alice.fingerprint().to_hex()).unwrap();
    let policy = openpgp::policy::StandardPolicy::new();
    let user_id = served.with_policy(&policy, None).unwrap().userids().next().unwrap();
    assert_eq!(user_id.approved_certifications().count(), 1);
    // The owner takes it back.
    next_second();
    assert_eq!(site.upload(&attested(&by_both, "--none")).status, 200);
    assert_eq!(received(&site, &alice), Vec::<String>::new());
}

#[test]
fn an_attestation_by_somebody_else_changes_nothing() {
    let site = Site::start(serving(ThirdParty::Verified));
    let [alice, bob, mallory] = ["alice", "bob", "mallory"].map(|name| make(&[name]));
    let by_bob = certified(&alice, &bob);
    // Mallory attests the same on a copy of alice's user ID, and brings it to alice's certificate.
    let theirs = attested(&certified(&mallory, &bob), "--all");
    let attestations = theirs.userids().next().unwrap().approvals().cloned().collect::<Vec<_>>();
    assert!(!attestations.is_empty());
    let user_id = by_bob.userids().next().unwrap().userid().clone();
    let packets = [openpgp::Packet::from(user_id)]
        .into_iter()
        .chain(attestations.into_iter().map(openpgp::Packet::from));
    let attacked = by_bob.insert_packets(packets).unwrap().0;
    site.upload(&attacked);
    assert_eq!(received(&site, &alice), Vec::<String>::new());
}

#[test]
fn a_signature_in_the_name_of_a_known_key_is_not_verified() {
    let site = Site::start(serving(ThirdParty::Verified));
    let [alice, bob, mallory] = ["alice", "bob", "mallory"].map(|name| make(&[name]));
    let attacked = forged(&alice, &bob, &mallory);
    for cert in [&bob, &mallory, &attacked] {
        assert_eq!(site.upload(cert).status, 200);
    }
    assert_eq!(received(&site, &alice), Vec::<String>::new());
}

#[test]
fn signatures_of_throw_away_keys_do_not_displace_those_of_friends() {
    let mut config = serving(ThirdParty::Verified);
    config.policy.served_foreign_signatures = 8;
    let site = Site::start(config);
    let [alice, friend] = ["alice", "friend"].map(|name| make(&[name]));
    let strangers: Vec<openpgp::Cert> = (0..40).map(|n| make(&[&format!("{n}")])).collect();
    // Alice has certified the friend, and every stranger forges that she has.
    let befriended = certified(&friend, &alice);
    for stranger in &strangers {
        assert_eq!(site.upload(&forged(stranger, &alice, stranger)).status, 200);
    }
    let by_all = strangers.iter().fold(alice.clone(), |all, by| certified(&all, by));
    for cert in [&befriended, &certified(&by_all, &friend)] {
        assert_eq!(site.upload(cert).status, 200);
    }
    for _ in 0..2 {
        let others = received(&site, &alice);
        assert_eq!(others.len(), 8);
        assert!(others.contains(&friend.keyid().to_hex()), "{others:?}");
    }
}

#[test]
fn a_new_signature_is_verified_although_older_ones_are_remembered() {
    let site = Site::start(serving(ThirdParty::Verified));
    let [alice, bob, carol] = ["alice", "bob", "carol"].map(|name| make(&[name]));
    let by_bob = certified(&alice, &bob);
    for cert in [&bob, &carol, &by_bob] {
        assert_eq!(site.upload(cert).status, 200);
    }
    assert_eq!(received(&site, &alice), [bob.keyid().to_hex()]);
    assert_eq!(site.upload(&certified(&alice, &carol)).status, 200);
    let mut both = [bob.keyid().to_hex(), carol.keyid().to_hex()];
    both.sort();
    assert_eq!(received(&site, &alice), both);
}

#[test]
fn a_revocation_by_a_named_revoker_who_is_unknown_is_served() {
    let site = Site::start(serving(ThirdParty::Verified));
    let revoker = make(&["revoker"]);
    let mut of_revoker = crate::site::signer(&revoker);
    let named =
        RevocationKey::new(revoker.primary_key().key().pk_algo(), revoker.fingerprint(), false);
    let (alice, _) = openpgp::cert::CertBuilder::new()
        .add_userid("alice")
        .set_revocation_keys(vec![named])
        .generate()
        .unwrap();
    let revocation = openpgp::cert::CertRevocationBuilder::new()
        .set_reason_for_revocation(ReasonForRevocation::KeyCompromised, b"")
        .unwrap()
        .build(&mut of_revoker, &alice, None)
        .unwrap();
    let revoked = alice.clone().insert_packets(revocation).unwrap().0;
    assert_eq!(site.upload(&revoked).status, 200);
    let served = site.cert(&alice.fingerprint().to_hex()).unwrap();
    assert_eq!(served.primary_key().other_revocations().count(), 1);
}

#[test]
fn other_keyservers_get_signatures_whose_issuers_are_unknown_here() {
    let port = free_port();
    let mut all = serving(ThirdParty::All);
    all.http.listen = vec![SocketAddr::from(([127, 0, 0, 1], port))];
    let target = Site::start(all);
    let mut verified = serving(ThirdParty::Verified);
    verified.push.targets = vec![format!("http://127.0.0.1:{port}")];
    let source = Site::start(verified);
    let [alice, bob] = ["alice", "bob"].map(|name| make(&[name]));
    let by_bob = certified(&alice, &bob);
    assert_eq!(source.form("/pks/add", &[("keytext", &armored(&by_bob))]).status, 200);
    let fingerprint = alice.fingerprint().to_hex();
    wait_for("the push", || target.cert(&fingerprint).is_some());
    let others = |site: &Site| {
        let cert = site.cert(&fingerprint).unwrap();
        cert.userids().next().unwrap().certifications().count()
    };
    assert_eq!((others(&source), others(&target)), (0, 1));
}
