//! Web key directories, from the side of clients.
//!
//! GnuPG and sq use only TLS with a name that the system trusts, which is impossible on this
//! machine alone. So the tests send the same requests themselves.

use std::time::{Duration, SystemTime};

use crate::site::{Got, Site, agent, make, user_ids};
use sequoia_openpgp as openpgp;
use sequoia_openpgp::cert::prelude::*;
use sequoia_openpgp::types::ReasonForRevocation;
use talaria_cert::user_id::web_key_hash;
use talaria_server::Config;

fn site() -> Site {
    let mut config = Config::default();
    config.wkd.domains = vec!["Example.ORG".into(), "example.net".into()];
    Site::start(config)
}

/// The advanced form.
fn advanced(site: &Site, domain: &str, local: &str, named: bool) -> Got {
    let hash = web_key_hash(local);
    let query = if named { format!("?l={local}") } else { String::new() };
    site.get(&format!("/.well-known/openpgpkey/{domain}/hu/{hash}{query}"))
}

/// The direct form, where the name of the server is the domain.
fn direct(site: &Site, host: &str, rest: &str) -> Got {
    let url = site.url(&format!("/.well-known/openpgpkey/{rest}"));
    Got::of(agent().get(url).header("Host", host).call())
}

#[test]
fn both_methods_return_the_certificate_with_that_user_id_only() {
    let site = site();
    let cert = make(&["Joe <Joe.Doe@example.org>", "Joe <joe@work.example>", "no address"]);
    site.upload(&cert);
    let hash = "iy9q119eutrkn8s1mk4r39qejnbu3n5q";
    let answers = [
        advanced(&site, "example.org", "Joe.Doe", true),
        advanced(&site, "EXAMPLE.org", "joe.doe", true),
        advanced(&site, "example.org", "Joe.Doe", false),
        direct(&site, "example.org", &format!("hu/{hash}?l=Joe.Doe")),
        direct(&site, "Example.Org:443", &format!("hu/{hash}")),
    ];
    for got in answers {
        assert_eq!(got.status, 200, "{}", got.text());
        assert_eq!(got.header("content-type"), "application/octet-stream");
        assert_eq!(got.header("access-control-allow-origin"), "*");
        // Binary: the first byte of a packet has its high bit set.
        assert!(got.body[0] & 0x80 != 0);
        let certs = got.certs();
        assert_eq!(certs.len(), 1);
        assert_eq!(certs[0].fingerprint(), cert.fingerprint());
        assert_eq!(user_ids(&certs[0]), ["Joe <Joe.Doe@example.org>"]);
        assert_eq!(certs[0].keys().subkeys().count(), 2);
    }
    let path = format!("/.well-known/openpgpkey/example.org/hu/{hash}?l=Joe.Doe");
    let head = Got::of(agent().head(site.url(&path)).call());
    assert_eq!((head.status, head.body.len()), (200, 0));
    assert_eq!(head.header("content-length"), site.get(&path).body.len().to_string());
}

#[test]
fn other_domains_and_mismatched_hashes_are_not_found() {
    let site = site();
    site.upload(&make(&["Joe <joe@example.org>", "Joe <joe@work.example>"]));
    assert_eq!(advanced(&site, "work.example", "joe", true).status, 404);
    assert_eq!(advanced(&site, "example.net", "joe", true).status, 404);
    assert_eq!(advanced(&site, "example.net", "joe", false).status, 404);
    assert_eq!(direct(&site, "work.example", &format!("hu/{}", web_key_hash("joe"))).status, 404);
    let hash = web_key_hash("jane");
    let got = site.get(&format!("/.well-known/openpgpkey/example.org/hu/{hash}?l=joe"));
    assert_eq!(got.status, 404);
    assert_eq!(got.header("access-control-allow-origin"), "*");
    for path in ["hu", "", "submission-address", "example.org/submission-address"] {
        assert_eq!(direct(&site, "example.org", path).status, 404, "{path}");
    }
}

/// Each becomes the requested address if characters are mapped, folded or dropped.
#[test]
fn a_lookalike_address_is_not_in_the_directory() {
    let mut config = Config::default();
    config.wkd.domains = vec!["bank.example".into()];
    let site = Site::start(config);
    site.upload(&make(&["<support@ban\u{212a}.example>", "<\u{17f}upport@bank.example>"]));
    site.upload(&make(&["<support@ba\u{ad}nk.example>", "<support@bank\u{3002}example>"]));
    site.upload(&make(&["Bank <mallory@evil.example> <support@bank.example>"]));
    for named in [true, false] {
        assert_eq!(advanced(&site, "bank.example", "support", named).status, 404);
        assert_eq!(advanced(&site, "ban%E2%84%AA.example", "support", named).status, 404);
    }
    let get = "/pks/lookup?op=get&options=mr&exact=on&search=";
    assert_eq!(site.get(&format!("{get}support@bank.example")).status, 404);
    assert_eq!(site.get(&format!("{get}mallory@evil.example")).status, 200);
    let real = make(&["<support@bank.example>"]);
    site.upload(&real);
    for named in [true, false] {
        let found = advanced(&site, "bank.example", "support", named).certs();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].fingerprint(), real.fingerprint());
    }
}

#[test]
fn unicode_and_punycode_domains_have_one_directory() {
    for hosted in ["bücher.example", "XN--bcher-kva.example"] {
        let mut config = Config::default();
        config.wkd.domains = vec![hosted.into()];
        let site = Site::start(config);
        site.upload(&make(&["Joe <joe@bücher.example>"]));
        site.upload(&make(&["Jane <jane@xn--bcher-kva.example>"]));
        for local in ["joe", "jane"] {
            for named in [true, false] {
                let got = advanced(&site, "xn--bcher-kva.example", local, named);
                assert_eq!(got.status, 200, "{hosted} {local} {named}");
                assert_eq!(got.certs().len(), 1);
            }
        }
    }
}

#[test]
fn the_policy_file_is_served() {
    let site = site();
    for got in [
        site.get("/.well-known/openpgpkey/example.org/policy"),
        direct(&site, "example.net", "policy"),
    ] {
        assert_eq!((got.status, got.body.len()), (200, 0));
        assert!(got.header("content-type").starts_with("text/plain"));
    }
    assert_eq!(site.get("/.well-known/openpgpkey/work.example/policy").status, 404);
}

#[test]
fn a_lookup_by_hash_finds_later_uploads() {
    let site = site();
    assert_eq!(advanced(&site, "example.org", "joe", false).status, 404);
    site.upload(&make(&["Joe <joe@example.org>"]));
    assert_eq!(advanced(&site, "example.org", "joe", false).status, 200);
    assert_eq!(advanced(&site, "example.org", "jane", false).status, 404);
    site.upload(&make(&["Jane <jane@example.org>"]));
    assert_eq!(advanced(&site, "example.org", "jane", false).status, 200);
}

#[test]
fn valid_certificates_come_first() {
    let site = site();
    let past = SystemTime::now() - Duration::from_secs(86_400);
    let expired = CertBuilder::new()
        .set_creation_time(past)
        .set_validity_period(Duration::from_secs(3600))
        .add_userid("<joe@example.org>")
        .generate()
        .unwrap()
        .0;
    let stolen = make(&["<joe@example.org>"]);
    let mut signer = crate::site::signer(&stolen);
    let revocation = stolen.revoke(&mut signer, ReasonForRevocation::KeyCompromised, b"").unwrap();
    let stolen: openpgp::Cert = stolen.insert_packets(revocation).unwrap().0;
    let good = make(&["<joe@example.org>"]);
    for cert in [&stolen, &expired, &good] {
        site.upload(cert);
    }
    let found = advanced(&site, "example.org", "joe", true).certs();
    let order: Vec<_> = found.iter().map(openpgp::Cert::fingerprint).collect();
    assert_eq!(order, [good.fingerprint(), expired.fingerprint(), stolen.fingerprint()]);
}
