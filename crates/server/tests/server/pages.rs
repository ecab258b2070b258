//! The pages from the side of a browser: well-formed, without injected content,
//! and with the data of the store.

mod browser;
mod html;
mod site;

use html::Page;
use sequoia_openpgp::cert::CertBuilder;
use sequoia_openpgp::packet::UserID;
use sequoia_openpgp::serialize::MarshalInto as _;
use site::{Site, generated};
use talaria_bench::{CorpusProfile, Generate};

/// A certificate with these user IDs, as bytes.
fn with_user_ids(user_ids: &[&[u8]]) -> (String, Vec<u8>) {
    let builder = CertBuilder::new().set_creation_time(None).add_signing_subkey();
    let builder = user_ids.iter().fold(builder, |b, id| b.add_userid(UserID::from(id.to_vec())));
    let (cert, _) = builder.generate().unwrap();
    (cert.fingerprint().to_hex(), cert.to_vec().unwrap())
}

/// Attempts of attackers.
const HOSTILE: [&str; 6] = [
    "<script>alert(1)</script> <a@hostile.example>",
    "\"><img src=x onerror=alert(2)> <b@hostile.example>",
    "' onmouseover='alert(3)' x=' <c@hostile.example>",
    "Eve \u{202e}gro.elpmaxe@ecila\u{202c} <d@hostile.example>",
    "bell \u{7} escape \u{1b}[31m null \u{0} line\nbreak <e@hostile.example>",
    "</title></textarea><style>*{display:none}</style> <f@hostile.example>",
];

#[test]
fn every_page_is_well_formed_and_loads_only_local_resources() {
    let site = Site::start(&generated(40));
    let fingerprint = site.fingerprints[0].clone();
    let paths = [
        "/".to_owned(),
        "/upload".into(),
        "/pks/add".into(),
        "/statistics".into(),
        "/pks/lookup?op=stats".into(),
        "/peers".into(),
        "/operator".into(),
        "/pks/lookup?op=index&search=example".into(),
        format!("/pks/lookup?op=index&search=0x{fingerprint}"),
        format!("/pks/lookup?op=vindex&search=0x{fingerprint}"),
        format!("/pks/lookup?op=get&search=0x{fingerprint}"),
        format!("/certificate/{fingerprint}"),
    ];
    for path in paths {
        for language in ["en", "de"] {
            let page = site.page(&path, language);
            assert_eq!(page.status, 200, "{path}");
            page.check();
            assert_eq!(page.one("html").attribute("lang"), Some(language), "{path}");
        }
    }
}

#[test]
fn refusals_have_an_explanation_and_a_status() {
    let site = Site::start(&generated(3));
    let cases = [
        ("/nowhere", 404),
        ("/certificate/0000000000000000000000000000000000000000", 404),
        ("/certificate/%3Cscript%3E", 404),
        ("/pks/lookup?op=index&search=nobody-has-this-name", 404),
        ("/pks/lookup?op=index&search=0x%3Cscript%3Ealert(1)%3C/script%3E", 400),
        ("/pks/lookup?op=index&search=", 400),
        ("/pks/lookup?op=cook&search=x", 501),
    ];
    for (path, status) in cases {
        let page = site.page(path, "en");
        assert_eq!(page.status, status, "{path}");
        page.check();
        assert!(page.text().contains(&status.to_string()), "{path}");
        assert!(!page.body.contains("<script>alert"), "{path}");
    }
}

#[test]
fn a_page_with_the_first_results_says_that_there_are_more() {
    let mut config = site::config();
    config.policy.results = 5;
    let site = Site::start_with(&generated(40), config);
    let page = site.page("/pks/lookup?op=index&search=example", "en");
    assert_eq!(page.status, 200);
    page.check();
    assert!(page.text().contains("Only the first 5 are shown"));
}

#[test]
fn user_ids_cannot_inject_html() {
    let user_ids: Vec<&[u8]> = HOSTILE.iter().map(|text| text.as_bytes()).collect();
    let (fingerprint, bytes) = with_user_ids(&user_ids);
    let long = "long ".repeat(400);
    let (long_fingerprint, long_bytes) =
        with_user_ids(&[format!("{long}<g@hostile.example>").as_bytes(), b"\xff\xfe no text"]);
    let mut config = site::config();
    config.policy.user_id_bytes = 64 << 10;
    let site = Site::start_with(&[bytes, long_bytes].concat(), config);
    for path in [
        format!("/certificate/{fingerprint}"),
        "/pks/lookup?op=index&search=a@hostile.example".into(),
        "/pks/lookup?op=index&search=hostile".into(),
    ] {
        let page = site.page(&path, "en");
        assert_eq!(page.status, 200, "{path}");
        page.check();
        assert!(page.all("img").next().is_none() && page.all("style").next().is_none());
        let text = page.text();
        for visible in ["U+202E", "U+0007", "U+001B", "U+000A", "<script>alert(1)</script>"] {
            assert!(text.contains(visible), "{path}: {visible}");
        }
        for hidden in ['\u{202e}', '\u{7}', '\u{1b}', '\u{0}'] {
            assert!(!page.body.contains(hidden), "{path}: {hidden:?}");
        }
    }
    let page = site.page(&format!("/certificate/{long_fingerprint}"), "en");
    page.check();
    let whole = page.all("details").find(|details| details.has_class("whole")).unwrap();
    assert!(whole.text().contains(&long), "{}", whole.text().len());
    assert!(whole.text().contains("Whole text (2,019 characters)"));
    assert!(page.one("h1").text().chars().count() < 200);
    // The page repeats the search as text.
    let page = site.page("/pks/lookup?op=index&search=%22%3E%3Cb%3Ehostile%E2%80%AE", "en");
    page.check();
    assert!(page.all("b").next().is_none() && !page.body.contains('\u{202e}'));
    assert!(page.text().contains("\">") && page.text().contains("U+202E"));
}

#[test]
fn the_page_of_a_certificate_shows_its_parts() {
    let (fingerprint, bytes) = with_user_ids(&[b"Alice <alice@example.org>", b"Alice at work"]);
    let site = Site::start(&bytes);
    let page = site.page(&format!("/certificate/{}", fingerprint.to_lowercase()), "en");
    page.check();
    let text = page.text();
    assert!(text.contains("Alice <alice@example.org>") && text.contains("Alice at work"));
    assert!(text.contains("✓ Valid") && text.contains("Subkey") && text.contains("sign"));
    assert!(text.contains(&format!("--recv-keys {fingerprint}")));
    let links: Vec<&str> = page.all("a").filter_map(|a| a.attribute("href")).collect();
    let armored = format!("/pks/lookup?op=get&options=mr&search=0x{fingerprint}");
    let binary = format!("/pks/v2/certs/by-vfingerprint/04{fingerprint}");
    assert!(links.contains(&armored.as_str()) && links.contains(&binary.as_str()));
    assert!(site.get(&armored, "en").body.starts_with("-----BEGIN PGP PUBLIC KEY BLOCK-----"));
    assert_eq!(site.get_bytes(&binary), bytes_of_one(&bytes));
    let pictures = page.all("svg").filter(|svg| svg.attribute("role") == Some("img"));
    assert_eq!(pictures.count(), 2, "the QR code and the time line");
    // A fingerprint in groups without 0x, as people copy it.
    let grouped: Vec<&str> = (0..40).step_by(4).map(|at| &fingerprint[at..at + 4]).collect();
    let page = site.page(&format!("/pks/lookup?op=index&search={}", grouped.join("+")), "en");
    assert!(page.text().contains("1 certificate was found"));
}

/// The served form of a certificate that the server stores completely: its canonical form.
fn bytes_of_one(bytes: &[u8]) -> Vec<u8> {
    talaria_cert::Cert::parse(bytes).unwrap().into_bytes()
}

#[test]
fn the_names_of_signers_are_links() {
    let profile = CorpusProfile { certifications_median: 6.0, ..CorpusProfile::small() };
    let mut bytes = Vec::new();
    let options = Generate { count: 60, profile, ..Generate::default() };
    talaria_bench::generate(&options, &mut bytes).unwrap();
    let site = Site::start(&bytes);
    let mut named = 0;
    for fingerprint in &site.fingerprints {
        let page = site.page(&format!("/certificate/{fingerprint}"), "en");
        page.check();
        for row in page.all("table").flat_map(|table| table.descendants("tr")) {
            let Some(link) = row.descendants("a").next() else { continue };
            let path = link.attribute("href").unwrap();
            let signer = path.strip_prefix("/certificate/").unwrap();
            assert!(site.fingerprints.iter().any(|known| known == signer));
            named += 1;
        }
    }
    assert!(named > 100, "{named}");
}

#[test]
fn pages_are_in_the_language_of_the_reader() {
    let site = Site::start(&generated(3));
    let german = site.page("/", "de-DE,de;q=0.9,en;q=0.5");
    assert!(german.text().contains("OpenPGP-Zertifikate finden"));
    assert_eq!(german.header("content-language"), "de");
    assert!(german.header("vary").contains("Accept-Language"));
    assert!(site.page("/", "fr").text().contains("Find OpenPGP certificates"));
    assert!(site.page("/nowhere", "de").text().contains("Hier ist nichts"));
}

#[test]
fn the_page_after_an_upload_reports_the_changes() {
    let (fingerprint, bytes) = with_user_ids(&[b"Alice <alice@example.org>"]);
    let site = Site::start(&generated(2));
    let armored = String::from_utf8_lossy(talaria_cert::enarmor(&bytes).as_bytes()).into_owned();
    let page = site.upload_text(&armored);
    assert_eq!(page.status, 200);
    page.check();
    assert!(page.text().contains("New (1)") && page.text().contains("Alice"));
    let link = format!("/certificate/{fingerprint}");
    assert!(page.all("a").any(|a| a.attribute("href") == Some(&link)));
    let page = site.upload_file(&bytes);
    page.check();
    assert!(page.text().contains("Unchanged (1)"), "{}", page.text());
    let page = site.upload_text("no certificate at all");
    assert_eq!(page.status, 422);
    page.check();
}

#[test]
fn statistics_count_the_certificates_in_the_store() {
    let site = Site::start(&generated(120));
    let page = site.page("/pks/lookup?op=stats", "en");
    page.check();
    let text = page.text();
    assert!(text.contains("120 certificates in this keyserver"), "{text}");
    assert!(page.body.contains("Total number of keys: 120<"));
    // Each chart has a table, and the states add up to all certificates.
    let states = page
        .all("figure")
        .find(|figure| figure.descendants("h3").any(|h| h.text() == "By state"))
        .expect("a chart by state");
    let sum: u64 =
        states.descendants("td").map(|td| td.text().replace(',', "").parse::<u64>().unwrap()).sum();
    assert_eq!(sum, 120);
    let growth = page.all("figure").next().unwrap();
    let new: u64 = growth
        .descendants("tbody")
        .flat_map(|body| body.descendants("tr"))
        .map(|row| {
            row.descendants("td").next().unwrap().text().replace(',', "").parse::<u64>().unwrap()
        })
        .sum();
    assert_eq!(new, 120);
}

#[test]
fn suggestions_are_few_and_only_of_self_signed_user_ids() {
    let site = Site::start(&generated(60));
    let ask = |q: &str| -> Vec<serde_json::Value> {
        let answer = site.get(&format!("/suggest?q={q}"), "en");
        assert_eq!(answer.status, 200);
        serde_json::from_str(&answer.body).unwrap()
    };
    assert!(ask("ex").is_empty(), "too short");
    let found = ask("example");
    assert_eq!(found.len(), 10);
    for one in &found {
        let fingerprint = one["fingerprint"].as_str().unwrap();
        assert!(site.fingerprints.iter().any(|known| known == fingerprint));
        assert!(one["address"].as_str().unwrap().contains("example"));
        assert!(!one["name"].as_str().unwrap().is_empty());
    }
    assert!(ask("nobody-has-this").is_empty());
    let mut config = site::config();
    config.policy.word_search = false;
    let closed = Site::start_with(&generated(10), config);
    assert_eq!(closed.get("/suggest?q=example", "en").body, "[]");
    assert!(!closed.page("/", "en").body.contains("data-suggest"));
}

#[test]
fn the_operator_page_has_no_secrets_and_is_closed_to_others() {
    let mut config = site::config();
    config.vks.smtp_user = "the-user".into();
    config.vks.smtp_password_file = Some("/the/password".into());
    config.push.targets = vec!["https://user:the-password@keys.example.org".into()];
    let site = Site::start_with(&generated(2), config.clone());
    let page = site.page("/operator", "en");
    assert_eq!(page.status, 200);
    page.check();
    assert!(page.text().contains("keys.example.org") && page.text().contains("Commits"));
    assert!(!page.body.contains("the-user") && !page.body.contains("the-password"));
    assert!(!page.body.contains("/the/password"));
    config.http.operators = vec!["192.0.2.0/24".parse().unwrap()];
    let site = Site::start_with(&generated(2), config);
    let page = site.page("/operator", "en");
    assert_eq!(page.status, 403);
    page.check();
    // Nobody is an operator on the address for everybody, whatever name a client gives.
    for path in ["/operator?x", "/metrics"] {
        assert_eq!(site.page(path, "en").status, 403, "{path}");
    }
}

#[test]
fn browsers_may_cache_the_resources_of_pages() {
    let site = Site::start(&generated(1));
    let page = site.page("/", "en");
    let files = page.all("link").filter_map(|link| link.attribute("href"));
    let files: Vec<&str> =
        files.chain(page.all("script").filter_map(|script| script.attribute("src"))).collect();
    assert_eq!(files.len(), 3);
    for file in files {
        let answer = site.get(file, "en");
        assert_eq!(answer.status, 200, "{file}");
        assert!(answer.header("cache-control").contains("immutable"), "{file}");
    }
    assert!(site.get("/robots.txt", "en").body.contains("Disallow: /pks/"));
    assert_eq!(site.get("/favicon.ico", "en").header("content-type"), "image/svg+xml");
}

/// A thousand real certificates, with thousands of signatures on some.
#[test]
fn every_certificate_of_a_distribution_has_a_page() {
    let ring = "/usr/share/keyrings/debian-keyring.gpg";
    let Ok(bytes) = std::fs::read(ring) else {
        eprintln!("skipped: needs debian-keyring");
        return;
    };
    let site = Site::start(&bytes);
    assert!(site.fingerprints.len() > 800);
    for fingerprint in &site.fingerprints {
        let page = site.page(&format!("/certificate/{fingerprint}"), "en");
        // Some have no user ID bound with a supported algorithm.
        assert!(matches!(page.status, 200 | 404), "{fingerprint}: {}", page.status);
        page.check();
        assert!(page.body.len() < 2 << 20, "{fingerprint}: {} bytes", page.body.len());
    }
    let page: Page = site.page("/pks/lookup?op=index&search=debian.org", "en");
    assert_eq!(page.status, 200);
    page.check();
}
