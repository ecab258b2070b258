//! Whole answers, as GnuPG imports them. Nobody hides a certificate by another one with the same
//! address.

use std::time::{Duration, SystemTime};

use crate::site::{Got, Site, gpg, home, make, newer_gpg, next_second};
use sequoia_openpgp as openpgp;
use sequoia_openpgp::cert::prelude::*;
use sequoia_openpgp::packet::key::{Key4, PrimaryRole, SecretParts};
use sequoia_openpgp::packet::signature::SignatureBuilder;
use sequoia_openpgp::packet::{Key, UserID};
use sequoia_openpgp::serialize::SerializeInto as _;
use sequoia_openpgp::types::{KeyFlags, SignatureType};
use talaria_cert::user_id::web_key_hash;
use talaria_cert::{Address, Cert};
use talaria_server::Config;

const VICTIM: &str = "Victim <victim@bank.example>";

/// A server with a directory for the domain of [`VICTIM`].
fn site() -> Site {
    let mut config = Config::default();
    config.wkd.domains = vec!["bank.example".into()];
    Site::start(config)
}

fn an_hour_ago() -> SystemTime {
    SystemTime::now() - Duration::from_secs(3600)
}

/// A certificate of version 6.
fn version_6() -> Vec<u8> {
    let builder = CertBuilder::new()
        .set_profile(openpgp::Profile::RFC9580)
        .unwrap()
        .set_creation_time(an_hour_ago())
        .add_userid(VICTIM)
        .add_signing_subkey();
    builder.generate().unwrap().0.to_vec().unwrap()
}

/// A certificate of version 4 with Ed25519 of RFC 9580, which no GnuPG knows.
fn new_ed25519() -> Vec<u8> {
    let key: Key<SecretParts, PrimaryRole> = Key4::generate_ed25519().unwrap().into();
    let mut signer = key.clone().into_keypair().unwrap();
    let cert = openpgp::Cert::try_from(vec![key.into()]).unwrap();
    let user_id = UserID::from(VICTIM);
    let binding = SignatureBuilder::new(SignatureType::PositiveCertification)
        .set_key_flags(KeyFlags::empty().set_certification().set_signing())
        .unwrap();
    let binding = user_id.bind(&mut signer, &cert, binding).unwrap();
    let packets = [openpgp::Packet::from(user_id), binding.into()];
    cert.insert_packets(packets).unwrap().0.to_vec().unwrap()
}

/// A primary key that cannot be verified here, and a user ID. Nothing signs it.
fn unsigned(version: u8, algorithm: u8, bytes: usize) -> Vec<u8> {
    let mut key = vec![version, 0x60, 0, 0, 0, algorithm];
    if version > 4 {
        key.extend(u32::try_from(bytes).unwrap().to_be_bytes());
    }
    key.extend(vec![0x40; bytes]);
    let mut packets = vec![0xc6, 0xff];
    packets.extend(u32::try_from(key.len()).unwrap().to_be_bytes());
    packets.extend(key);
    packets.extend([0xcd, u8::try_from(VICTIM.len()).unwrap()]);
    packets.extend(VICTIM.as_bytes());
    packets
}

/// A certificate that has ended.
fn expired() -> Vec<u8> {
    let builder = CertBuilder::new()
        .set_creation_time(an_hour_ago())
        .set_validity_period(Duration::from_secs(60))
        .add_userid(VICTIM);
    builder.generate().unwrap().0.to_vec().unwrap()
}

fn fingerprint(raw: &[u8]) -> String {
    Cert::parse(raw).unwrap().fingerprint().to_string()
}

/// Each answer in which the certificate of [`VICTIM`] is, besides those for its fingerprint and key
/// ID.
fn answers(site: &Site) -> Vec<(String, Got)> {
    let hash = web_key_hash("victim");
    let directory = format!("/.well-known/openpgpkey/bank.example/hu/{hash}");
    let mut paths = vec![format!("{directory}?l=victim"), directory];
    for search in ["victim@bank.example", "Victim%20%3Cvictim@bank.example%3E"] {
        for exact in ["", "&exact=on"] {
            paths.push(format!("/pks/lookup?op=get&options=mr&search={search}{exact}"));
        }
    }
    paths.push("/pks/lookup?op=get&options=mr&search=victim".into());
    paths.into_iter().map(|path| (path.clone(), site.get(&path))).collect()
}

/// The fingerprints of the primary keys that both versions of GnuPG have after importing an answer.
fn imported(answer: &Got) -> Vec<Vec<String>> {
    let listings = [gpg, newer_gpg].map(|import| import(home().path(), &answer.body));
    let of_primary = |listing: String| {
        let lines: Vec<&str> = listing.lines().collect();
        let keys = lines.windows(2).filter(|pair| pair[0].starts_with("pub:"));
        let mut all: Vec<String> =
            keys.map(|pair| pair[1].split(':').nth(9).unwrap().to_owned()).collect();
        all.sort();
        all
    };
    listings.into_iter().flatten().map(of_primary).collect()
}

#[test]
fn no_certificate_of_strangers_hides_another_one_from_gnupg() {
    for seed in 0..4 {
        let victim = make(&[VICTIM]).to_vec().unwrap();
        let other = make(&[VICTIM]).to_vec().unwrap();
        let expired = expired();
        let mut expected = [&victim, &other, &expired].map(|raw| fingerprint(raw)).to_vec();
        expected.sort();
        let mut all = vec![victim.clone(), other, expired, version_6(), version_6(), new_ed25519()];
        // A key of LibrePGP; post-quantum ones of versions 6 and 4; an unknown one.
        all.extend([(5, 27, 32), (6, 30, 1984), (4, 35, 1216), (4, 99, 40)].map(|of| {
            let (version, algorithm, bytes) = of;
            unsigned(version, algorithm, bytes)
        }));
        fastrand::Rng::with_seed(seed).shuffle(&mut all);
        let site = site();
        for raw in &all {
            assert_eq!(site.offer(raw).status, 200, "{}", fingerprint(raw));
        }
        for (path, answer) in answers(&site) {
            assert_eq!(answer.status, 200, "{path}: {}", answer.text());
            for listing in imported(&answer) {
                assert_eq!(listing, expected, "seed {seed}: {path}");
            }
        }
        // GnuPG fetches by fingerprint what it finds in a list.
        let list = "/pks/lookup?op=index&options=mr&search=victim";
        for list in [list.to_owned(), format!("{list}@bank.example")] {
            let list = site.get(&list).text();
            let keys = list.lines().filter_map(|line| line.strip_prefix("pub:"));
            let mut listed: Vec<&str> = keys.filter_map(|key| key.split(':').next()).collect();
            listed.sort_unstable();
            assert_eq!(listed, expected, "seed {seed}");
        }
        let id = Cert::parse(&victim).unwrap().fingerprint().key_id();
        for search in [fingerprint(&victim), id.to_string()] {
            let answer = site.get(&format!("/pks/lookup?op=get&options=mr&search=0x{search}"));
            for listing in imported(&answer) {
                assert_eq!(listing, [fingerprint(&victim)], "seed {seed}");
            }
        }
    }
}

#[test]
fn a_certificate_that_gnupg_does_not_know_is_given_for_its_fingerprint() {
    let site = site();
    let (victim, later, new) = (make(&[VICTIM]).to_vec().unwrap(), version_6(), new_ed25519());
    for raw in [&victim, &later, &new] {
        assert_eq!(site.offer(raw).status, 200);
    }
    for raw in [&later, &new] {
        let cert = Cert::parse(raw).unwrap();
        let get =
            |search: &str| site.get(&format!("/pks/lookup?op=get&options=mr&search=0x{search}"));
        let found = get(&cert.fingerprint().to_string()).certs();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].fingerprint().to_string(), cert.fingerprint().to_string());
        let by_id = get(&cert.fingerprint().key_id().to_string());
        assert_eq!(by_id.status, 404);
        assert!(by_id.text().contains("/pks/v2/"), "{}", by_id.text());
    }
    let subkey = Cert::parse(&later).unwrap().keys().nth(1).unwrap().fingerprint();
    let by_subkey = site.get(&format!("/pks/lookup?op=get&options=mr&search=0x{subkey}"));
    assert_eq!(by_subkey.certs()[0].fingerprint().to_hex(), fingerprint(&later));
    // Programs that speak version 2 know all versions, and people see all.
    assert_eq!(site.get("/pks/v2/certs/by-identity/victim@bank.example").certs().len(), 3);
    assert_eq!(site.get("/pks/v2/index/victim@bank.example").value().as_array().unwrap().len(), 3);
    let page = site.open("/pks/lookup?op=index&search=victim@bank.example").text();
    for raw in [&victim, &later, &new] {
        assert!(page.contains(&fingerprint(raw)), "{}", fingerprint(raw));
    }
}

#[test]
fn a_confirmed_certificate_of_version_6_is_alone_in_answers_to_its_address() {
    let folder = site_with_confirmations();
    let (victim, later) = (make(&[VICTIM]).to_vec().unwrap(), version_6());
    for raw in [&victim, &later] {
        assert_eq!(folder.offer(raw).status, 200);
    }
    let address: Address = "victim@bank.example".parse().unwrap();
    let confirmed = Cert::parse(&later).unwrap().fingerprint();
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let now = u32::try_from(now).unwrap();
    folder.store().keyserver_mut().publish(confirmed, &address, now.into()).unwrap();
    for (path, answer) in answers(&folder) {
        let certs = answer.certs();
        let found: Vec<String> = certs.iter().map(|cert| cert.fingerprint().to_hex()).collect();
        let is_of_address = !path.ends_with("search=victim");
        let expected = if is_of_address { fingerprint(&later) } else { fingerprint(&victim) };
        assert_eq!(found, [expected], "{path}");
    }
    let list = folder.get("/pks/lookup?op=index&options=mr&search=victim@bank.example").text();
    assert!(list.starts_with("info:1:1\n") && list.contains(&fingerprint(&later)), "{list}");
}

fn site_with_confirmations() -> Site {
    let mut config = Config::default();
    config.wkd.domains = vec!["bank.example".into()];
    config.vks.enabled = true;
    config.vks.base_url = "https://keys.example.org".into();
    config.vks.smtp = "127.0.0.1:9".into();
    config.vks.from = "keys@example.org".into();
    Site::start(config)
}

/// A web key directory gives out few certificates. The newest were first, so that anybody could
/// take the places.
#[test]
fn newer_certificates_displace_no_older_one_from_a_directory() {
    let site = site();
    let victim = make(&[VICTIM]).to_vec().unwrap();
    assert_eq!(site.offer(&victim).status, 200);
    next_second();
    for _ in 0..6 {
        let newer = CertBuilder::new().set_creation_time(SystemTime::now()).add_userid(VICTIM);
        assert_eq!(site.upload(&newer.generate().unwrap().0).status, 200);
    }
    let (path, answer) = answers(&site).swap_remove(0);
    assert!(path.contains("openpgpkey"));
    let certs = answer.certs();
    assert_eq!(certs.len(), 5);
    assert_eq!(certs[0].fingerprint().to_hex(), fingerprint(&victim));
}

/// GnuPG takes at most 256 KiB from a web key directory, and nothing of a longer answer.
#[test]
fn a_long_certificate_makes_no_answer_of_a_directory_too_long() {
    let long = || {
        let mut builder = CertBuilder::new().set_creation_time(an_hour_ago()).add_userid(VICTIM);
        for _ in 0..1500 {
            builder = builder.add_transport_encryption_subkey();
        }
        builder.generate().unwrap().0.to_vec().unwrap()
    };
    let long = long();
    assert!(long.len() > 256 << 10, "{}", long.len());
    let site = site();
    assert_eq!(site.offer(&long).status, 200);
    let path = format!("/.well-known/openpgpkey/bank.example/hu/{}", web_key_hash("victim"));
    // Alone it is served: other programs may take it.
    assert_eq!(site.get(&path).certs()[0].fingerprint().to_hex(), fingerprint(&long));
    let victim = make(&[VICTIM]).to_vec().unwrap();
    assert_eq!(site.offer(&victim).status, 200);
    let answer = site.get(&path);
    assert!(answer.body.len() <= 256 << 10);
    assert_eq!(answer.certs().len(), 1);
    assert_eq!(answer.certs()[0].fingerprint().to_hex(), fingerprint(&victim));
}
