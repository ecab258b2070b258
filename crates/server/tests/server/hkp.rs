//! HKP in both versions, from the side of a client.

use std::collections::BTreeSet;
use std::io::Read as _;

use crate::site::{Site, make, revocation, wait_for};
use sequoia_openpgp as openpgp;
use sequoia_openpgp::serialize::SerializeInto as _;
use serde_json::Value;
use talaria_cert::{Armor, Cert, PacketRef, Signature, Tag, enarmor, kind};
use talaria_recon::{Digest, decode_hashreply, encode_hashquery};
use talaria_server::Config;
use talaria_store::{Access, Layout, Store, TextIndex};

/// A server that has the first `count` of [`certs`].
fn server(count: u64) -> Site {
    server_with(count, Config::default())
}

fn server_with(count: u64, config: Config) -> Site {
    let site = Site::start(config);
    let all: Vec<u8> =
        certs(count).iter().flat_map(|cert| cert.as_bytes().iter().copied()).collect();
    let binary = ("content-type", "application/pgp-keys;armor=no");
    assert_eq!(ask(&site, "POST", "/pks/v2/certs", &[binary], &all).status, 200);
    site
}

/// An answer.
struct Answer {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    fn json(&self) -> Value {
        assert_eq!(self.header("content-type"), Some("application/json"));
        serde_json::from_slice(&self.body).unwrap()
    }

    fn armored(&self) -> Cert {
        assert_eq!(self.header("content-type"), Some("application/pgp-keys"));
        let mut bytes = Vec::new();
        Armor::new(&self.body[..]).read_to_end(&mut bytes).unwrap();
        Cert::parse(&bytes).unwrap()
    }
}

/// Sends a request.
fn ask(site: &Site, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .allow_non_standard_methods(true)
        .build()
        .into();
    let mut request = ureq::http::Request::builder().method(method).uri(site.url(path));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let answer = if body.is_empty() && method != "POST" {
        agent.run(request.body(()).unwrap())
    } else {
        agent.run(request.body(body).unwrap())
    };
    let answer = answer.unwrap();
    let status = answer.status().as_u16();
    let headers = answer
        .headers()
        .iter()
        .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
        .collect();
    let mut body = Vec::new();
    answer.into_body().into_reader().read_to_end(&mut body).unwrap();
    Answer { status, headers, body }
}

fn get(site: &Site, path: &str) -> Answer {
    ask(site, "GET", path, &[], b"")
}

/// Certificates; the first one has a user ID for every form of search.
fn certs(count: u64) -> Vec<Cert> {
    let options = talaria_corpus::Generate { count, ..talaria_corpus::Generate::default() };
    talaria_corpus::certs(&options)
}

fn email(cert: &Cert) -> String {
    cert.user_ids().find_map(talaria_cert::Address::of_user_id).unwrap().to_string()
}

#[test]
fn a_certificate_is_found_by_every_search_form_of_hkp() {
    let site = server(20);
    let certs = certs(20);
    let cert = certs.iter().find(|cert| cert.keys().count() > 1).unwrap();
    let subkey = cert.keys().nth(1).unwrap().fingerprint();
    let digest: String = cert.sks_digest().iter().map(|byte| format!("{byte:02x}")).collect();
    let names = [
        format!("op=get&search=0x{}", cert.fingerprint()),
        format!("op=get&search=0x{}", cert.fingerprint().key_id()),
        format!("op=get&search=0x{}", cert.fingerprint().to_string().to_lowercase()),
        format!("op=get&search=0x{subkey}"),
        format!("op=get&search=0x{}", subkey.key_id()),
        format!("op=get&search={}", email(cert)),
        format!("op=get&exact=on&search={}", email(cert).to_uppercase().to_lowercase()),
        format!("op=hget&search={digest}"),
    ];
    for name in names {
        let answer = get(&site, &format!("/pks/lookup?{name}&options=mr"));
        assert_eq!(answer.status, 200, "{name}");
        assert_eq!(answer.armored().fingerprint(), cert.fingerprint(), "{name}");
        assert_eq!(answer.header("x-hkp-results-count"), Some("1"), "{name}");
        assert_eq!(answer.header("access-control-allow-origin"), Some("*"), "{name}");
    }
}

#[test]
fn words_of_every_script_are_found() {
    let site = Site::start(Config::default());
    let hindi = make(&["हिन्दी भाषा <hindi@example.org>"]);
    let turkish = make(&["İSTANBUL Müller"]);
    site.upload(&hindi);
    site.upload(&turkish);
    let cases = [
        ("हिन्दी", Some(&hindi)),
        ("istanbul muller", Some(&turkish)),
        ("हन्दी", None),
        ("\u{301}", None),
    ];
    for (words, expected) in cases {
        let escaped: String = words.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let answer = get(&site, &format!("/pks/lookup?op=get&options=mr&search={escaped}"));
        assert_eq!(answer.status, if expected.is_some() { 200 } else { 404 }, "{words}");
        if let Some(expected) = expected {
            let found = answer.armored().fingerprint().to_string();
            assert_eq!(found, expected.fingerprint().to_string(), "{words}");
        }
        let suggested = get(&site, &format!("/suggest?q={escaped}")).json();
        assert_eq!(suggested.as_array().unwrap().len(), usize::from(expected.is_some()), "{words}");
    }
}

#[test]
fn each_kind_of_refusal_has_its_http_status() {
    let site = server(3);
    let cases = [
        ("GET", "/pks/lookup?op=get&search=0x00000000&options=mr", 400),
        ("GET", "/pks/lookup?op=get&search=0x123&options=mr", 400),
        ("GET", "/pks/lookup?op=get&search=&options=mr", 400),
        ("GET", "/pks/lookup?op=get", 400),
        ("GET", "/pks/lookup?search=x", 400),
        ("GET", "/pks/lookup?op=cook&search=x", 501),
        ("GET", "/pks/lookup?op=get&search=0x0000000000000000&options=mr", 404),
        ("GET", "/pks/lookup?op=get&search=nobody@example.invalid&options=mr", 404),
        ("GET", "/pks/lookup?op=hget&search=00000000000000000000000000000000", 404),
        ("GET", "/pks/lookup?op=hget&search=nothing", 400),
        ("DELETE", "/pks/lookup?op=get&search=x", 405),
        ("GET", "/pks/hashquery", 405),
        ("POST", "/pks/hashquery", 400),
        ("POST", "/pks/add", 422),
        ("GET", "/nothing", 404),
    ];
    for (method, path, status) in cases {
        let answer = ask(&site, method, path, &[], b"");
        assert_eq!(answer.status, status, "{method} {path}");
        assert!(!answer.body.is_empty(), "{method} {path} says nothing");
    }
}

#[test]
fn a_search_with_too_many_results_gets_the_first_and_is_told_so() {
    let mut config = Config::default();
    config.policy.results = 5;
    let site = server_with(40, config);
    let answer = get(&site, "/pks/lookup?op=index&search=example&options=mr");
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("x-hkp-results-more"), Some("true"));
    assert!(answer.text().starts_with("info:1:5\n"), "{}", answer.text());
}

#[test]
fn the_machine_readable_index_has_every_match() {
    let site = server(20);
    let certs = certs(20);
    let answer = get(&site, "/pks/lookup?op=index&search=example&options=mr");
    let lines: Vec<&str> = answer.text().lines().collect();
    assert_eq!(lines[0], "info:1:20");
    let mut found: Vec<&str> = lines
        .iter()
        .filter_map(|line| line.strip_prefix("pub:"))
        .map(|rest| rest.split(':').next().unwrap())
        .collect();
    let mut expected: Vec<String> =
        certs.iter().map(|cert| cert.fingerprint().to_string()).collect();
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected);
    for line in &lines[1..] {
        let fields = line.split(':').count();
        assert_eq!(fields, if line.starts_with("pub:") { 7 } else { 5 }, "{line}");
    }
    assert_eq!(answer.header("x-hkp-results-count"), Some("20"));
}

#[test]
fn an_upload_is_reported_and_stored() {
    let site = server(2);
    let certs = certs(6);
    let (known, new) = (&certs[0], &certs[3]);
    let both = [known.as_bytes(), new.as_bytes()].concat();
    let armored = enarmor(&both);
    let form: String = form_urlencoded::Serializer::new(String::new())
        .append_pair("keytext", &armored)
        .append_pair("options", "json")
        .finish();
    let kind = ("content-type", "application/x-www-form-urlencoded");
    let answer = ask(&site, "POST", "/pks/add", &[kind], form.as_bytes());
    assert_eq!(answer.status, 200);
    let report = answer.json();
    let named = |list: &str| -> Vec<String> {
        let entries = report[list].as_array().unwrap().iter();
        entries.map(|entry| entry["fingerprint"].as_str().unwrap().to_uppercase()).collect()
    };
    assert_eq!(named("inserted"), [new.fingerprint().to_string()]);
    assert_eq!(named("ignored"), [known.fingerprint().to_string()]);
    let found = get(&site, &format!("/pks/lookup?op=get&search=0x{}", new.fingerprint()));
    assert_eq!(found.armored(), *new);

    // The same in version 2, binary, and as a part of a form.
    let binary = ("content-type", "application/pgp-keys;armor=no");
    let answer = ask(&site, "POST", "/pks/v2/certs", &[binary], certs[4].as_bytes());
    assert_eq!(answer.status, 200);
    assert_eq!(answer.json()["inserted"][0]["version"], 4);
    let part = ("content-type", "multipart/form-data; boundary=xx");
    let body = [
        b"--xx\r\nContent-Disposition: form-data; name=\"keytext\"\r\n\r\n",
        certs[5].as_bytes(),
        b"\r\n--xx--\r\n",
    ]
    .concat();
    let answer = ask(&site, "POST", "/pks/v2/certs", &[part], &body);
    assert_eq!(answer.json()["inserted"].as_array().unwrap().len(), 1);
    for garbage in [&b"nothing"[..], b"\x99\xff\xff", b""] {
        let answer = ask(&site, "POST", "/pks/v2/certs", &[binary], garbage);
        assert_eq!(answer.status, 422);
        assert_eq!(answer.header("access-control-allow-origin"), Some("*"));
    }
}

#[test]
fn hkp_version_2_finds_exact_matches_only() {
    let site = server(20);
    let certs = certs(20);
    let cert = &certs[7];
    let fingerprint = cert.fingerprint();
    for path in [
        format!("by-vfingerprint/04{fingerprint}"),
        format!("by-vfingerprint/04{}", fingerprint.to_string().to_lowercase()),
        format!("by-vfingerprint/04/{fingerprint}"),
        format!("by-keyid/{}", fingerprint.key_id()),
        format!("by-identity/{}", email(cert)),
        format!("by-identity/%3C{}%3E", email(cert).to_uppercase()),
    ] {
        let answer = get(&site, &format!("/pks/v2/certs/{path}"));
        assert_eq!(answer.status, 200, "{path}");
        assert_eq!(answer.header("content-type"), Some("application/pgp"));
        assert_eq!(answer.header("access-control-allow-origin"), Some("*"));
        assert!(Cert::parse(&answer.body).is_ok_and(|found| found == *cert), "{path}");
        let head = ask(&site, "HEAD", &format!("/pks/v2/certs/{path}"), &[], b"");
        assert_eq!((head.status, head.body.len()), (200, 0));
        assert_eq!(head.header("content-length"), answer.header("content-length"));
    }
    let part = email(cert)[1..].to_owned();
    for (path, status) in [
        (format!("certs/by-vfingerprint/{fingerprint}"), 404),
        (format!("certs/by-vfingerprint/06{fingerprint}"), 404),
        (format!("certs/by-keyid/{fingerprint}"), 404),
        (format!("certs/by-identity/{part}"), 404),
        ("certs/by-identity/".into(), 403),
        ("certs".into(), 403),
        ("canonical/somebody@example.org".into(), 404),
        ("sendtoken".into(), 501),
        ("oven".into(), 501),
        ("prefixlog/yesterday".into(), 400),
    ] {
        let answer = get(&site, &format!("/pks/v2/{path}"));
        assert_eq!(answer.status, status, "{path}");
        assert!(answer.json()["error"].is_string(), "{path}");
        assert_eq!(answer.header("access-control-allow-origin"), Some("*"), "{path}");
    }
    for (path, allow) in [
        ("certs", "POST, OPTIONS"),
        ("certs/by-keyid/x", "GET, HEAD, OPTIONS"),
        ("index/x", "GET, HEAD, OPTIONS"),
    ] {
        let answer = ask(&site, "OPTIONS", &format!("/pks/v2/{path}"), &[], b"");
        assert_eq!((answer.status, answer.header("allow")), (200, Some(allow)));
    }
    let index = get(&site, &format!("/pks/v2/index/{}", email(cert))).json();
    assert_eq!(index[0]["fingerprint"], fingerprint.to_string().to_lowercase());
    let user_ids = index[0]["userIDs"].as_array().unwrap();
    assert!(user_ids.iter().any(|id| id["uidString"].as_str().unwrap().contains(&email(cert))));
    let today = get(&site, "/pks/lookup?op=stats&options=mr").json()["days"][0]["day"].clone();
    let log = get(&site, &format!("/pks/v2/prefixlog/{}", today.as_str().unwrap()));
    let prefix = fingerprint.to_string()[..8].to_lowercase();
    assert!(log.text().split("\r\n").any(|line| line == prefix));
}

/// draft-ietf-openpgp-hkp-01 has one media type for certificates without armor, and earlier drafts
/// had another one.
#[test]
fn certificates_without_armor_have_the_media_type_that_the_client_takes() {
    let site = server(1);
    let cert = &certs(1)[0];
    let fingerprint = cert.fingerprint();
    let (new, earlier) = ("application/pgp", "application/pgp-keys;armor=no");
    let version_2 = format!("/pks/v2/certs/by-vfingerprint/04/{fingerprint}");
    let version_1 = format!("/pks/lookup?op=get&options=bin&search=0x{fingerprint}");
    for (accept, media) in [
        (None, new),
        (Some("*/*"), new),
        (Some("application/pgp"), new),
        (Some("application/pgp-keys;armor=no"), earlier),
        (Some("application/pgp-keys, application/pgp;q=0.5"), earlier),
        (Some("application/pgp-keys;q=0.5, application/*"), new),
    ] {
        let headers: Vec<(&str, &str)> = accept.iter().map(|accept| ("accept", *accept)).collect();
        for path in [&version_2, &version_1] {
            let answer = ask(&site, "GET", path, &headers, b"");
            assert_eq!(
                (answer.status, answer.header("content-type")),
                (200, Some(media)),
                "{path}"
            );
            assert_eq!(answer.header("vary"), Some("Accept"));
            assert_eq!(Cert::parse(&answer.body).unwrap(), *cert);
        }
    }
    assert_eq!(get(&site, &version_1).header("access-control-allow-origin"), Some("*"));
    let nobody = "/pks/lookup?op=get&options=bin&search=0x0123456789ABCDEF";
    assert_eq!(get(&site, nobody).status, 404);
}

/// What Hockeypuck 2.4 sends.
#[test]
fn uploads_may_have_the_media_type_of_the_draft() {
    let site = Site::start(Config::default());
    let certs = certs(2);
    for (path, cert) in [("/pks/v2/certs", &certs[0]), ("/pks/add", &certs[1])] {
        let kind = ("content-type", "application/pgp");
        let answer =
            ask(&site, "POST", path, &[kind, ("accept", "application/json")], cert.as_bytes());
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(answer.json()["inserted"].as_array().unwrap().len(), 1);
    }
    let options = ask(&site, "OPTIONS", "/pks/v2/certs", &[], b"");
    let taken = options.header("accept").unwrap();
    assert!(taken.split(", ").any(|media| media == "application/pgp"), "{taken}");
}

/// A certificate with a primary key of a post-quantum algorithm, and a user ID. Nobody here can
/// check a signature on it.
fn post_quantum(version: u8, number: u8) -> Vec<u8> {
    let mut key = vec![version, 0x60, 0, 0, number, 30];
    if version > 4 {
        key.extend(1984u32.to_be_bytes());
    }
    key.extend([7; 1984]);
    let length = u32::try_from(key.len()).unwrap().to_be_bytes();
    [&[0xc6, 0xff][..], &length, &key, &[0xcd, 21], b"Quentin <q@pq.example"].concat()
}

#[test]
fn a_certificate_that_cannot_be_verified_is_not_called_added() {
    let site = Site::start(Config::default());
    let is_told = |comment: &str, given: &str| {
        comment.contains("kept for other keyservers") && comment.ends_with(given)
    };
    for (version, given) in [(6, "clients get the primary key only"), (4, "clients do not get it")]
    {
        // Over version 1.
        let raw = post_quantum(version, 1);
        let answer = ask(&site, "POST", "/pks/add", &[("content-type", "application/pgp")], &raw);
        let text = answer.text();
        assert!(answer.status == 200 && !text.contains("added"), "{text}");
        assert!(text.starts_with("1 key(s) kept for other keyservers only"), "{text}");
        assert!(text.trim_end().ends_with(given), "{text}");
        // Over version 2, new and unchanged.
        let raw = post_quantum(version, 2);
        for list in ["inserted", "ignored"] {
            let answer = ask(&site, "POST", "/pks/v2/certs", &BINARY, &raw).json();
            let comment = answer[list][0]["comment"].as_str().unwrap().to_owned();
            assert!(is_told(&comment, given), "{comment}");
        }
    }
    // A usual one beside it is added.
    let both = [post_quantum(6, 3), make(&["Alice"]).to_vec().unwrap()].concat();
    let answer = ask(&site, "POST", "/pks/add", &[("content-type", "application/pgp")], &both);
    assert!(answer.text().starts_with("1 key(s) added successfully.\n1 key(s) kept for other"));
    // The page says that nothing was checked.
    let fingerprint = Cert::parse(&post_quantum(6, 1)).unwrap().fingerprint();
    let page = [("accept", "text/html"), ("accept-language", "en")];
    let shown = ask(&site, "GET", &format!("/certificate/{fingerprint}"), &page, b"");
    assert_eq!(shown.status, 200);
    for word in ["Not checked here", "mldsa65+ed25519", "cannot check any signature"] {
        assert!(shown.text().contains(word), "{word}");
    }
    for word in ["Not usable", "no good signature"] {
        assert!(!shown.text().contains(word), "{word}");
    }
    let form = [("accept", "text/html"), ("content-type", "application/pgp")];
    let report = ask(&site, "POST", "/pks/add", &form, &post_quantum(6, 4));
    assert!(report.text().contains("Kept for other keyservers"), "{}", report.text());
}

#[test]
fn an_identity_in_another_case_is_not_looked_for_in_every_certificate() {
    let path = |name: &str| format!("/pks/v2/certs/by-identity/{name}");
    for (has_parts, status) in [(true, 200), (false, 404)] {
        let folder = tempfile::tempdir().unwrap();
        let mut layout = Layout::default();
        if !has_parts {
            layout.text = vec![TextIndex::Words];
        }
        drop(Store::open_with(&folder.path().join("certs.db"), Access::Create, &layout).unwrap());
        let site = Site::start_in(folder, &[], Config::default());
        assert_eq!(site.upload(&make(&["J\u{f6}rg"])).status, 200);
        assert_eq!(get(&site, &path("J%C3%B6rg")).status, 200);
        assert_eq!(get(&site, &path("j%C3%96RG")).status, status, "{has_parts}");
    }
}

/// A primary key, and nothing else.
fn bare(number: u32) -> Cert {
    let mut body = vec![4];
    body.extend(number.to_be_bytes());
    // RSA with a number of 32 bits.
    body.extend([1, 0, 32, 0x80, 0, 0, 1, 0, 17, 1, 0, 1]);
    Cert::parse(&[&[0xc6, u8::try_from(body.len()).unwrap()], &body[..]].concat()).unwrap()
}

/// The packets of a certificate for which `keep` returns `true`.
fn reduced(cert: &openpgp::Cert, keep: impl Fn(PacketRef<'_>, Option<u8>) -> bool) -> Cert {
    let kind = |packet: PacketRef<'_>| {
        let signature = Signature::parse(packet.body).filter(|_| packet.tag == Tag::SIGNATURE);
        signature.map(|signature| signature.kind)
    };
    let whole = Cert::parse(&cert.to_vec().unwrap()).unwrap();
    whole.retain(|_, packet| keep(packet, kind(packet)))
}

/// A certificate whose named revoker, who is not on the server, has revoked it.
fn revoked_by_a_named_revoker() -> openpgp::Cert {
    let revoker = make(&["Revoker <revoker@example.org>"]);
    let algorithm = revoker.primary_key().key().pk_algo();
    let named = openpgp::types::RevocationKey::new(algorithm, revoker.fingerprint(), false);
    let hour_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
    let (cert, _) = openpgp::cert::CertBuilder::new()
        .set_creation_time(hour_ago)
        .add_userid("Rita <rita@example.org>")
        .set_revocation_keys(vec![named])
        .generate()
        .unwrap();
    let revocation = revocation(&revoker, &cert);
    cert.insert_packets(revocation).unwrap().0
}

/// GnuPG fails for a certificate that a list has and that cannot be fetched.
#[test]
fn lists_have_the_certificates_that_can_be_fetched_and_no_others() {
    const USER_ID: Tag = Tag::USER_ID;
    let on_key = [kind::DIRECT_KEY, kind::KEY_REVOCATION];
    let is_on_key = |kind: Option<u8>| kind.is_some_and(|kind| on_key.contains(&kind));
    let (alice, bob) = (make(&["Alice <alice@lists.example>"]), make(&["Bob <bob@lists.example>"]));
    let by_owner = revocation(&bob, &bob);
    let revoked = bob.insert_packets(by_owner).unwrap().0;
    let eve = make(&["Eve <eve@lists.example>"]);
    let of_whole = |cert: &openpgp::Cert| reduced(cert, |_, _| true);
    // Each with whether it is given out.
    let cases = [
        (of_whole(&alice), true),
        (reduced(&revoked, |_, kind| is_on_key(kind)), true),
        (reduced(&revoked_by_a_named_revoker(), |_, kind| is_on_key(kind)), true),
        // A user ID that the owner has not signed.
        (reduced(&eve, |packet, _| packet.tag == USER_ID), false),
        (reduced(&make(&["Nobody"]), |_, _| false), false),
    ];
    let certs: Vec<Cert> = cases.iter().map(|(cert, _)| cert.clone()).collect();
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let folder = tempfile::tempdir().unwrap();
    let now = u32::try_from(now).unwrap();
    let site = Site::start_at(folder, &certs, now, Config::default());
    let page = ("accept", "text/html");
    for (cert, is_given) in &cases {
        let status = if *is_given { 200 } else { 404 };
        let fingerprint = cert.fingerprint();
        for (path, headers) in [
            (format!("/pks/lookup?op=get&options=mr&search=0x{fingerprint}"), &[][..]),
            (format!("/pks/lookup?op=index&options=mr&search=0x{fingerprint}"), &[]),
            (format!("/pks/lookup?op=index&options=json&search=0x{fingerprint}"), &[]),
            (format!("/pks/lookup?op=index&search=0x{fingerprint}"), &[page]),
            (format!("/pks/lookup?op=vindex&search=0x{fingerprint}"), &[page]),
            (format!("/certificate/{fingerprint}"), &[page]),
        ] {
            assert_eq!(ask(&site, "GET", &path, headers, b"").status, status, "{path}");
        }
    }
    // By words, in the lists for programs and for people.
    let alone = get(&site, "/pks/lookup?op=index&options=mr&search=lists");
    assert_eq!(alone.header("x-hkp-results-count"), Some("1"), "{}", alone.text());
    assert!(alone.text().starts_with("info:1:1\n") && !alone.text().contains("eve"));
    let cards = ask(&site, "GET", "/pks/lookup?op=index&search=lists", &[page], b"");
    assert!(cards.text().contains("alice@lists.example") && !cards.text().contains("eve@"));
    for path in ["/pks/lookup?op=index&options=mr&search=eve", "/pks/v2/index/eve@lists.example"] {
        assert_eq!(get(&site, path).status, 404, "{path}");
    }
}

#[test]
fn the_changes_of_a_large_day_are_all_listed() {
    let certs: Vec<Cert> = (0..10_000).map(bare).collect();
    let site = Site::with(&certs, Config::default());
    // The day of the store's first certificates.
    let log = get(&site, "/pks/v2/prefixlog/2025-02-19");
    let listed: Vec<&str> = log.text().lines().collect();
    let prefixes: BTreeSet<String> =
        certs.iter().map(|cert| cert.fingerprint().to_string()[..8].to_lowercase()).collect();
    assert_eq!(listed, prefixes.iter().map(String::as_str).collect::<Vec<_>>());
    // It is not made whole in memory.
    assert_eq!(log.header("content-length"), None);
    assert_eq!(get(&site, "/pks/v2/prefixlog/2025-02-18").text(), "");
}

#[test]
fn an_unchanged_certificate_is_answered_with_not_modified() {
    let site = server(2);
    let cert = &certs(2)[0];
    let path = format!("/pks/v2/certs/by-vfingerprint/04{}", cert.fingerprint());
    let whole = get(&site, &path);
    let tag = whole.header("etag").unwrap();
    let again = ask(&site, "GET", &path, &[("if-none-match", tag)], b"");
    assert_eq!((again.status, again.body.len()), (304, 0));
    let part = ask(&site, "GET", &path, &[("range", "bytes=3-9")], b"");
    assert_eq!((part.status, &part.body[..]), (206, &whole.body[3..10]));
    let range = format!("bytes 3-9/{}", whole.body.len());
    assert_eq!(part.header("content-range"), Some(range.as_str()));
    let beyond = ask(&site, "GET", &path, &[("range", "bytes=99999999-")], b"");
    assert_eq!(beyond.status, 416);
    let stale = ask(&site, "GET", &path, &[("range", "bytes=3-9"), ("if-range", "\"x\"")], b"");
    assert_eq!((stale.status, stale.body), (200, whole.body));
}

#[test]
fn hashquery_returns_known_digests_and_skips_unknown_ones() {
    let site = server(5);
    let certs = certs(5);
    let asked = [Digest(certs[1].sks_digest()), Digest([7; 16]), Digest(certs[3].sks_digest())];
    // However often the same one is asked for.
    for asked in [asked.to_vec(), asked.repeat(70)] {
        let answer = ask(&site, "POST", "/pks/hashquery", &[], &encode_hashquery(&asked));
        assert_eq!(answer.header("content-type"), Some("pgp/keys"));
        let found = decode_hashreply(&answer.body, 100).unwrap();
        assert_eq!(found, [certs[1].as_bytes(), certs[3].as_bytes()]);
    }
}

#[test]
fn a_search_of_any_protocol_has_a_limited_length() {
    let site = server(2);
    for path in
        ["/pks/lookup?op=get&options=mr&search=", "/pks/v2/index/", "/pks/v2/certs/by-identity/"]
    {
        let status = |length| get(&site, &format!("{path}{}", "a".repeat(length))).status;
        assert_eq!((status(2048), status(2049)), (404, 400), "{path}");
    }
    assert_eq!(
        get(&site, &format!("/suggest?q={}", "a".repeat(2049))).json(),
        serde_json::json!([])
    );
}

#[test]
fn health_and_metrics_are_served() {
    let site = server(2);
    for path in ["/health", "/ready", "/metrics"] {
        assert_eq!(get(&site, path).status, 200, "{path}");
    }
    let shows = |line: &str| get(&site, "/metrics").text().lines().any(|l| l.starts_with(line));
    assert!(shows("talaria_certs 2"));
    assert!(shows("talaria_http_request_duration_seconds_bucket{kind=\"other\",le=\"+Inf\"} "));
    // The trees follow the change log a moment later.
    wait_for("the tree", || shows("talaria_digests_sks 2"));
}

/// The alert rules and the dashboard ask for metrics that there are.
#[test]
fn packaged_rules_and_the_dashboard_name_metrics_of_the_server() {
    let packaging = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging");
    let mut config = Config::default();
    config.gossip.listen = vec!["127.0.0.1:0".parse().unwrap()];
    let site = Site::start(config);
    let metrics = get(&site, "/metrics");
    let exported: BTreeSet<&str> = metrics
        .text()
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next())
        .collect();
    assert!(exported.contains("talaria_certs"), "{exported:?}");
    for file in ["prometheus-alerts.yml", "grafana-dashboard.json"] {
        let text = std::fs::read_to_string(packaging.join(file)).unwrap();
        let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        let named = text.match_indices("talaria_").map(|(at, _)| {
            let rest = &text[at..];
            &rest[..rest.find(|c| !is_part(c)).unwrap_or(rest.len())]
        });
        let named: BTreeSet<&str> =
            named.map(|name| name.strip_suffix("_bucket").unwrap_or(name)).collect();
        assert!(named.len() > 5, "{file}");
        for name in named {
            assert!(exported.contains(name), "{file}: {name}");
        }
    }
    let dashboard = std::fs::read(packaging.join("grafana-dashboard.json")).unwrap();
    let dashboard: Value = serde_json::from_slice(&dashboard).unwrap();
    let mut ids: Vec<u64> = Vec::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        ids.push(panel["id"].as_u64().unwrap());
        assert!(!panel["targets"].as_array().unwrap().is_empty(), "{panel}");
    }
    assert!(ids.is_sorted() && ids.len() > 5);
}

#[test]
fn the_index_of_version_2_has_the_fields_of_the_draft() {
    let site = server(3);
    let cert = &certs(3)[0];
    let entry = get(&site, &format!("/pks/v2/index/{}", email(cert))).json()[0].clone();
    let time = entry["creation"].as_str().unwrap();
    assert!(time.len() == 20 && time.ends_with('Z'), "{entry}");
    assert!(entry["userIDs"][0]["creation"].is_string(), "{entry}");
    let text = entry.to_string();
    assert!(!text.contains("creationDate") && !text.contains("expirationDate"), "{text}");
    assert!(entry.get("expiration").is_none(), "{entry}");
    let year = std::time::Duration::from_secs(365 * 86_400);
    let builder = openpgp::cert::CertBuilder::new().add_userid("<expiring@example.org>");
    let expiring = builder.set_validity_period(year).generate().unwrap().0;
    assert_eq!(site.upload(&expiring).status, 200);
    let entry = get(&site, "/pks/v2/index/expiring@example.org").json()[0].clone();
    let time = entry["expiration"].as_str().unwrap();
    assert!(time.len() == 20 && time.ends_with('Z'), "{entry}");
}

#[test]
fn an_identity_of_version_2_is_a_whole_address_or_user_id_in_any_case() {
    let site = Site::start(Config::default());
    let alice = make(&["Alice Example <alice@example.org>"]);
    let robot = make(&["Robot \u{c4}"]);
    for cert in [&alice, &robot] {
        assert_eq!(site.upload(cert).status, 200);
    }
    let asks = |identity: &str| {
        let escaped: String = identity.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let statuses = ["certs/by-identity", "index"]
            .map(|category| get(&site, &format!("/pks/v2/{category}/{escaped}")).status);
        assert_eq!(statuses[0], statuses[1], "{identity}");
        statuses[0]
    };
    for whole in [
        "alice@example.org",
        "ALICE@EXAMPLE.ORG",
        "<Alice@example.org>",
        "Alice Example <alice@example.org>",
        "alice example <ALICE@example.org>",
        "Robot \u{c4}",
        "ROBOT \u{e4}",
    ] {
        assert_eq!(asks(whole), 200, "{whole}");
    }
    for part in [
        "Alice",
        "Alice Example",
        "Eve <alice@example.org>",
        "text with alice@example.org in it",
        "Alice Example <alice@example.org> <eve@example.org>",
        "Robot",
        "Robot A",
        "lice@example.org",
    ] {
        assert_eq!(asks(part), 404, "{part}");
    }
}

#[test]
fn the_case_of_an_identity_makes_no_difference_in_any_script() {
    let mut config = Config::default();
    config.policy.results = 5;
    let site = Site::start(config);
    // More than the results of an answer have the text as a part.
    for n in 0..8 {
        assert_eq!(site.upload(&make(&[&format!("Ёлкин {n}")])).status, 200);
    }
    let lower = make(&["ёлкин", "jürgen@straße.example", "jürgen@bücher.example"]);
    let upper = make(&["ЁЛКИН", "JÜRGEN@BÜCHER.example"]);
    let alike = make(&["jürgen@strasse.example", "jürgen@bücher.example\u{200b}", "елкин"]);
    for cert in [&lower, &upper, &alike] {
        assert_eq!(site.upload(cert).status, 200);
    }
    let found = |identity: &str| {
        let escaped: String = identity.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let got = site.get(&format!("/pks/v2/certs/by-identity/{escaped}"));
        assert_eq!(got.status, 200, "{identity}");
        let mut found: Vec<_> = got.certs().iter().map(openpgp::Cert::fingerprint).collect();
        found.sort();
        found
    };
    let mut both = vec![lower.fingerprint(), upper.fingerprint()];
    both.sort();
    for identity in ["Ёлкин", "ЁЛКИН", "jürgen@bücher.example", "Jürgen@BÜCHER.EXAMPLE"]
    {
        assert_eq!(found(identity), both, "{identity}");
    }
    for identity in ["jürgen@straße.example", "JÜRGEN@STRAẞE.EXAMPLE"] {
        assert_eq!(found(identity), [lower.fingerprint()], "{identity}");
    }
    for identity in ["JÜRGEN@strasse.example", "Елкин"] {
        assert_eq!(found(identity), [alike.fingerprint()], "{identity}");
    }
}

#[test]
fn every_answer_of_version_2_is_open_to_programs_in_browsers() {
    let site = server(1);
    let identity = email(&certs(1)[0]);
    for (method, path, status) in [
        ("GET", "/pks/v2", 501),
        ("GET", "/pks/v2/", 501),
        ("PUT", "/pks/v2/canonical/alice@example.org", 405),
        ("DELETE", "/pks/v2/certs", 405),
        ("POST", "/pks/v2/certs", 422),
        ("POST", "/pks/v2/sendtoken", 501),
        ("GET", "/pks/v2/certs/by-identity/%FF", 400),
        ("GET", &format!("/pks/v2/index/{identity}"), 200),
    ] {
        let answer = ask(&site, method, path, &[], b"");
        assert_eq!(answer.status, status, "{method} {path}");
        assert_eq!(answer.header("access-control-allow-origin"), Some("*"), "{method} {path}");
        assert_eq!(answer.header("content-type"), Some("application/json"), "{method} {path}");
    }
    let put = ask(&site, "PUT", "/pks/v2/canonical/alice@example.org", &[], b"x");
    assert_eq!(put.header("allow"), Some("GET, HEAD, OPTIONS"));
    assert!(put.json()["error"].as_str().unwrap().contains("/vks/v1/request-verify"));
}

#[test]
fn an_ignored_certificate_has_a_comment() {
    let site = server(1);
    let cert = &certs(1)[0];
    let answer = ask(&site, "POST", "/pks/v2/certs", &BINARY, cert.as_bytes());
    let report = answer.json();
    assert_eq!(report["ignored"][0]["comment"], "the server already had every part of it");
    assert_eq!(report["inserted"], serde_json::json!([]));
}

const BINARY: [(&str, &str); 1] = [("content-type", "application/pgp-keys;armor=no")];

#[test]
fn statistics_have_the_fields_that_crawlers_read() {
    let mut config = Config::default();
    config.server.hostname = "keys.example.org".into();
    config.gossip.peers = vec![talaria_server::GossipPeer {
        host: "peer.example.org".into(),
        port: 11370,
        http_port: None,
        view: "sks".into(),
        filters: None,
    }];
    let site = server_with(7, config);
    let stats = get(&site, "/pks/stats");
    assert_eq!((stats.status, stats.header("content-type")), (200, Some("application/json")));
    let stats = stats.json();
    assert_eq!((&stats["numkeys"], &stats["Total"]), (&7.into(), &7.into()));
    for (field, expected) in [
        ("hostname", "keys.example.org"),
        ("nodename", "keys.example.org"),
        ("software", "talaria"),
    ] {
        assert_eq!(stats[field], expected);
    }
    assert_eq!(stats["httpAddr"], format!("keys.example.org:{}", site.http.port()));
    assert!(stats["now"].as_str().unwrap().ends_with('Z') && stats["version"].is_string());
    assert_eq!(stats["peers"][0]["Name"], "peer.example.org:11370");
    assert_eq!(stats["peers"][0]["reconAddr"], "peer.example.org:11370");
    assert_eq!(get(&site, "/pks/health").text(), "ok\n");
    let same = get(&site, "/pks/lookup?op=stats&options=mr").json();
    assert_eq!(same["numkeys"], 7);
}

#[test]
fn statistics_are_counted_once_for_many_visits() {
    let site = server(30);
    let metric = |name: &str| {
        let metrics = site.get("/metrics").text();
        let line = metrics.lines().find_map(|l| l.strip_prefix(&format!("talaria_{name} ")));
        line.unwrap_or_else(|| panic!("no {name} in {metrics}")).parse::<u64>().unwrap()
    };
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for path in ["/statistics", "/pks/stats", "/pks/lookup?op=stats"] {
                    assert_eq!(get(&site, path).status, 200, "{path}");
                }
            });
        }
    });
    // The contents for the pages, and the changes for the programs.
    assert_eq!(metric("counted_total"), 2);
    let more = ask(&site, "POST", "/pks/v2/certs", &BINARY, certs(31)[30].as_bytes());
    assert_eq!(more.status, 200);
    for _ in 0..5 {
        let stats = get(&site, "/pks/stats").json();
        // The number is that of now. The answer says from when the changes are.
        assert_eq!(stats["numkeys"], 31);
        assert_eq!(stats["days"][0]["new"], 30);
        assert!(stats["days_counted"].as_str().unwrap() <= stats["now"].as_str().unwrap());
        let page = site.open("/statistics").text();
        assert!(page.contains("Total number of keys: 30<"), "{page}");
        assert!(page.contains("Counted at"), "{page}");
    }
    assert_eq!((metric("counted_total"), metric("certs")), (2, 31));
}

/// The status line of the answer to these bytes.
fn raw(site: &Site, bytes: &[u8]) -> String {
    use std::io::{Read as _, Write as _};
    let mut stream = std::net::TcpStream::connect(site.http).unwrap();
    stream.set_read_timeout(Some(std::time::Duration::from_secs(30))).unwrap();
    // The server may answer and close before it has read all.
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(n) = stream.read(&mut buffer) {
        if n == 0 {
            break;
        }
        answer.extend_from_slice(&buffer[..n]);
        if answer.windows(4).any(|window| window == b"\r\n\r\n") {
            break;
        }
    }
    String::from_utf8_lossy(&answer).lines().next().unwrap_or_default().to_owned()
}

#[test]
fn requests_that_are_too_large_get_a_status() {
    let site = server(1);
    let long = "x".repeat(9000);
    for (request, status) in [
        ("POST /pks/add HTTP/1.1\r\nhost: x\r\ncontent-length: 9000000\r\n\r\n".to_owned(), "413"),
        (format!("GET /{long} HTTP/1.1\r\nhost: x\r\n\r\n"), "414"),
        (format!("GET /{} HTTP/1.1\r\nhost: x\r\n\r\n", long.repeat(8)), "431"),
        (format!("GET / HTTP/1.1\r\nhost: x\r\na: {}\r\n\r\n", long.repeat(8)), "431"),
        (format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(2000)), "431"),
    ] {
        let line = raw(&site, request.as_bytes());
        assert!(line.contains(status), "{}: {line:?}", &request[..20]);
    }
}

#[test]
fn uploads_can_be_limited_to_domains() {
    let mut config = Config::default();
    config.policy.upload_domains = vec!["Example.org".into()];
    let site = Site::start(config);
    let ours = make(&["Alice <alice@example.org>", "<alice@elsewhere.example>"]);
    let theirs = make(&["Eve <eve@elsewhere.example>"]);
    assert_eq!(site.upload(&ours).status, 200);
    let refused = site.upload(&theirs);
    assert_eq!(refused.status, 422);
    assert!(refused.text().contains("only certificates with an address at Example.org"));
    assert!(site.cert(&theirs.fingerprint().to_hex()).is_none());
    // A user ID of our domain that the owner did not sign opens no door.
    let user_id = sequoia_openpgp::packet::UserID::from("Boss <boss@example.org>");
    let forged = theirs.insert_packets(user_id).unwrap().0;
    assert_eq!(site.upload(&forged).status, 422);
    assert!(get(&site, "/pks/lookup?op=get&options=mr&search=boss@example.org").status == 404);
    // A certificate that is here is updated whatever the update has: here a revocation alone.
    let mut signer = crate::site::signer(&ours);
    let revocation = sequoia_openpgp::cert::CertRevocationBuilder::new()
        .set_reason_for_revocation(sequoia_openpgp::types::ReasonForRevocation::KeyRetired, b"")
        .unwrap()
        .build(&mut signer, &ours, None)
        .unwrap();
    let bare = ours.clone().retain_userids(|_| false).insert_packets(revocation).unwrap().0;
    assert_eq!(site.upload(&bare).status, 200);
    let served = get(&site, "/pks/v2/index/alice@example.org").json();
    assert_eq!(served[0]["isRevoked"], true);
}
