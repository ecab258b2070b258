//! Certificates as GnuPG writes and joins them.

use openpgp::cert::CertRevocationBuilder;
use openpgp::types::ReasonForRevocation;
use sequoia_openpgp as openpgp;
use sequoia_openpgp::serialize::SerializeInto as _;
use talaria_cert::Cert;
use talaria_server::Config;

use crate::site::{Site, gpg, home, make, newer_gpg};

/// The validity in the first line of a listing for a primary key.
fn validity(listing: &str) -> &str {
    let line = listing.lines().find(|line| line.starts_with("pub:")).unwrap();
    line.split(':').nth(1).unwrap()
}

#[test]
fn an_ed448_certificate_of_gnupg_is_served() {
    let raw = include_bytes!("../../../cert/tests/fixtures/gnupg-2.4-ed448.pgp");
    let cert = Cert::parse(raw).unwrap();
    let site = Site::start(Config::default());
    assert_eq!(site.offer(raw).status, 200);
    let reply = site.get(&format!("/pks/lookup?op=get&options=mr&search=0x{}", cert.fingerprint()));
    assert_eq!(reply.status, 200, "{}", reply.text());
    let Some(listing) = newer_gpg(home().path(), &reply.body) else { return };
    assert_eq!(listing.matches("\nuid:").count(), 1, "{listing}");
    assert_eq!(listing.matches("\nsub:").count(), 2, "{listing}");
}

/// `cat key.pgp revocation.pgp`: GnuPG, sq and RNP take this for a revoked certificate.
#[test]
fn a_revocation_behind_the_certificate_is_served_on_its_primary_key() {
    let alice = make(&["Alice <alice@example.org>"]);
    let mut signer =
        alice.primary_key().key().clone().parts_into_secret().unwrap().into_keypair().unwrap();
    let revocation = CertRevocationBuilder::new()
        .set_reason_for_revocation(ReasonForRevocation::KeyCompromised, b"stolen")
        .unwrap()
        .build(&mut signer, &alice, None)
        .unwrap();
    let revocation = openpgp::Packet::from(revocation).to_vec().unwrap();
    let site = Site::start(Config::default());
    let alone = site.offer(&revocation);
    assert_eq!(alone.status, 422);
    let advice = "send a revocation behind the certificate that it revokes";
    assert!(alone.text().contains(advice), "{}", alone.text());

    let raw = alice.to_vec().unwrap();
    assert_eq!(site.offer(&[&raw[..], &revocation].concat()).status, 200);
    let served = site.fetched(&Cert::parse(&raw).unwrap());
    for import in [gpg, newer_gpg] {
        let Some(listing) = import(home().path(), served.as_bytes()) else { continue };
        assert_eq!(validity(&listing), "r", "{listing}");
    }
}
