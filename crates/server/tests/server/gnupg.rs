//! Certificates as GnuPG writes and joins them.

use sequoia_openpgp as openpgp;
use sequoia_openpgp::serialize::SerializeInto as _;
use talaria_cert::Cert;
use talaria_server::Config;

use crate::site::{Site, gpg, home, make, newer_gpg, revocation};

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
    let revocation = revocation(&alice, &alice);
    let revocation = openpgp::Packet::from(revocation).to_vec().unwrap();
    let site = Site::start(Config::default());
    let raw = alice.to_vec().unwrap();
    assert_eq!(site.offer(&[&raw[..], &revocation].concat()).status, 200);
    assert_is_revoked(&site, &raw);
}

fn assert_is_revoked(site: &Site, raw: &[u8]) {
    let served = site.fetched(&Cert::parse(raw).unwrap());
    for import in [gpg, newer_gpg] {
        let Some(listing) = import(home().path(), served.as_bytes()) else { continue };
        assert_eq!(validity(&listing), "r", "{listing}");
    }
}

/// Whoever has lost a key has often nothing but the revocation that `gpg --gen-revoke` or `talaria
/// key generate` wrote.
#[test]
fn a_revocation_alone_finds_its_certificate() {
    let (alice, bob) = (make(&["Alice <alice@example.org>"]), make(&["Bob <bob@example.org>"]));
    let by = |by: &openpgp::Cert| openpgp::Packet::from(revocation(by, &alice)).to_vec().unwrap();
    let site = Site::start(Config::default());
    let raw = alice.to_vec().unwrap();
    let genuine = by(&alice);
    // The certificate is not here yet.
    let reply = site.offer(&genuine);
    assert_eq!(reply.status, 422);
    let advice = "send a revocation together with the certificate that it revokes";
    assert!(reply.text().contains(advice), "{}", reply.text());
    assert_eq!([&raw, &bob.to_vec().unwrap()].map(|raw| site.offer(raw).status), [200, 200]);
    // By somebody else, and one that was changed.
    let mut forged = genuine.clone();
    *forged.last_mut().unwrap() ^= 1;
    for other in [by(&bob), forged] {
        assert_eq!(site.offer(&other).status, 422);
        assert_eq!(site.fetched(&Cert::parse(&raw).unwrap()).signature_count(), {
            Cert::parse(&raw).unwrap().signature_count()
        });
    }
    let reply = site.offer(&genuine);
    assert_eq!(reply.status, 200, "{}", reply.text());
    let updated = &reply.value()["updated"][0];
    assert_eq!(updated["fingerprint"], alice.fingerprint().to_hex().to_lowercase());
    assert_is_revoked(&site, &raw);
}
