//! HKP in both versions, from the side of a client.

use std::io::Read as _;

use crate::site::{Site, make, wait_for};
use serde_json::Value;
use talaria_cert::{Armor, Cert, enarmor};
use talaria_recon::{Digest, decode_hashreply, encode_hashquery};
use talaria_server::Config;

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
    let options = talaria_bench::Generate { count, ..talaria_bench::Generate::default() };
    talaria_bench::certs(&options)
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
        assert_eq!(answer.header("content-type"), Some("application/pgp-keys;armor=no"));
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
    let answer = ask(&site, "POST", "/pks/hashquery", &[], &encode_hashquery(&asked));
    assert_eq!(answer.header("content-type"), Some("pgp/keys"));
    let found = decode_hashreply(&answer.body).unwrap();
    assert_eq!(found, [certs[1].as_bytes(), certs[3].as_bytes()]);
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
