//! The pages from the side of a browser: well-formed, without injected content,
//! and with the data of the store.

mod browser;
mod html;
mod visitor;

use html::Page;
use sequoia_openpgp as openpgp;
use sequoia_openpgp::cert::CertBuilder;
use sequoia_openpgp::packet::UserID;
use sequoia_openpgp::serialize::MarshalInto as _;
use talaria_corpus::{CorpusProfile, Generate};
use visitor::{Visitor, ring};

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
    let site = Visitor::of(&ring(40));
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
    let site = Visitor::of(&ring(3));
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
    let mut config = visitor::config();
    config.policy.results = 5;
    let site = Visitor::with(&ring(40), config);
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
    let mut config = visitor::config();
    config.policy.user_id_bytes = 64 << 10;
    let site = Visitor::with(&[bytes, long_bytes].concat(), config);
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

/// The texts of strangers can change nothing in the text around them, nor look like another text by
/// what cannot be seen.
#[test]
fn user_ids_cannot_reorder_or_hide_text() {
    let attempts = [
        "ali\u{200d}ce <a@evil.example>",
        "\u{3164}\u{2800}\u{e0041} <b@evil.example>",
        "עברית \u{2067}<c@evil.example>",
        "Zalgo\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}\u{301} <d@evil.example>",
    ];
    let user_ids: Vec<&[u8]> = attempts.iter().map(|text| text.as_bytes()).collect();
    let (fingerprint, bytes) = with_user_ids(&user_ids);
    let (hebrew, second) = with_user_ids(&["אליס <e@evil.example>".as_bytes()]);
    let site = Visitor::of(&[bytes, second].concat());
    for path in
        [format!("/certificate/{fingerprint}"), "/pks/lookup?op=index&search=evil".to_owned()]
    {
        let page = site.page(&path, "en");
        page.check();
        for shown in ["aliU+200Dce", "U+3164U+2800U+E0041", "U+2067", "\u{301}U+0301U+0301U+0301"] {
            assert!(page.text().contains(shown), "{path}: {shown}: {}", page.text());
        }
        for hidden in ['\u{200d}', '\u{3164}', '\u{2800}', '\u{e0041}', '\u{2067}'] {
            assert!(!page.body.contains(hidden), "{path}: {hidden:?}");
        }
        assert!(!page.body.contains(&"\u{301}".repeat(5)), "{path}");
    }
    // Without markup, in titles and in the time line, an isolate ends where it began.
    let page = site.page(&format!("/certificate/{hebrew}"), "en");
    page.check();
    let title = page.one("head").descendants("title").next().unwrap().text();
    assert!(title.starts_with("\u{2068}אליס <e@evil.example>\u{2069} – "), "{title}");
    let line = page.all("svg").find(|svg| svg.has_class("timeline")).unwrap();
    let track = line.descendants("title").map(|title| title.text()).find(|t| t.contains("אליס"));
    assert!(track.unwrap().starts_with("\u{2068}אליס <e@evil.example>\u{2069}: Usable, "));
}

#[test]
fn the_page_of_a_certificate_shows_its_parts() {
    let (fingerprint, bytes) = with_user_ids(&[b"Alice <alice@example.org>", b"Alice at work"]);
    let site = Visitor::of(&bytes);
    let page = site.page(&format!("/certificate/{}", fingerprint.to_lowercase()), "en");
    page.check();
    let text = page.text();
    assert!(text.contains("Alice <alice@example.org>") && text.contains("Alice at work"));
    assert!(text.contains("● Usable") && text.contains("Subkey") && text.contains("sign"));
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
    talaria_corpus::generate(&options, &mut bytes).unwrap();
    let site = Visitor::of(&bytes);
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
    let site = Visitor::of(&ring(3));
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
    let site = Visitor::of(&ring(2));
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
    let site = Visitor::of(&ring(120));
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
    let site = Visitor::of(&ring(60));
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
    let mut config = visitor::config();
    config.policy.word_search = false;
    let closed = Visitor::with(&ring(10), config);
    assert_eq!(closed.get("/suggest?q=example", "en").body, "[]");
    assert!(!closed.page("/", "en").body.contains("data-suggest"));
}

#[test]
fn the_operator_page_has_no_secrets_and_is_closed_to_others() {
    let mut config = visitor::config();
    config.vks.smtp_user = "the-user".into();
    config.vks.smtp_password_file = Some("/the/password".into());
    config.push.targets = vec!["https://user:the-password@keys.example.org".into()];
    let site = Visitor::with(&ring(2), config.clone());
    let page = site.page("/operator", "en");
    assert_eq!(page.status, 200);
    page.check();
    assert!(page.text().contains("keys.example.org") && page.text().contains("Commits"));
    assert!(!page.body.contains("the-user") && !page.body.contains("the-password"));
    assert!(!page.body.contains("/the/password"));
    config.http.operators = vec!["192.0.2.0/24".parse().unwrap()];
    let site = Visitor::with(&ring(2), config);
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
    let site = Visitor::of(&ring(1));
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
        talaria_needs::left_out("debian-keyring");
        return;
    };
    let site = Visitor::of(&bytes);
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

/// A certificate that its owner has revoked, with a reason and a text.
fn revoked() -> openpgp::Cert {
    let cert = crate::site::make(&["Rita <rita@example.org>"]);
    let mut signer = crate::site::signer(&cert);
    let revocation = openpgp::cert::CertRevocationBuilder::new()
        .set_reason_for_revocation(
            openpgp::types::ReasonForRevocation::KeySuperseded,
            "See my\nnew key <b>\u{202e}".as_bytes(),
        )
        .unwrap()
        .build(&mut signer, &cert, None)
        .unwrap();
    cert.insert_packets(revocation).unwrap().0
}

#[test]
fn the_page_of_a_revoked_certificate_says_when_and_why() {
    let cert = revoked();
    let site = Visitor::of(&cert.to_vec().unwrap());
    let page = site.page(&format!("/certificate/{}", cert.fingerprint().to_hex()), "en");
    page.check();
    let note = page.all("aside").find(|aside| aside.has_class("danger")).expect("a red note");
    let text = note.text();
    let today = talaria_cert::timestamp(now())[..10].to_owned();
    assert!(text.contains(&format!("Revoked by its owner on {today}.")), "{text}");
    assert!(text.contains("superseded by another key"), "{text}");
    // A line break is a space.
    assert!(text.contains("See my new key <b>U+202E") && !text.contains("U+000A"), "{text}");
    let badges: Vec<_> = page.all("span").filter(|span| span.has_class("badge")).collect();
    assert!(badges.iter().any(|badge| badge.has_class("revoked")));
    assert!(!badges.iter().any(|badge| badge.has_class("valid")), "no part of it is usable");
}

/// A certificate and the one of its named revoker, who has revoked it, with another revocation in
/// the name of the revoker that somebody else has made.
fn revoked_by_another() -> (String, Vec<u8>) {
    use openpgp::types::{ReasonForRevocation, RevocationKey};
    let past = std::time::SystemTime::now() - std::time::Duration::from_secs(1000 * 86400);
    let make = |name: &str| CertBuilder::new().set_creation_time(past).add_userid(name);
    let key_of = crate::site::signer;
    let (revoker, _) = make("Revoker <revoker@example.org>").generate().unwrap();
    let (stranger, _) = make("Stranger").generate().unwrap();
    let named =
        RevocationKey::new(revoker.primary_key().key().pk_algo(), revoker.fingerprint(), false);
    let (cert, _) = make("Rita <rita@example.org>")
        .add_signing_subkey()
        .set_revocation_keys(vec![named])
        .generate()
        .unwrap();
    let day = std::time::Duration::from_secs(86400);
    let revocation = |by: &openpgp::Cert, text: &str, time| {
        openpgp::packet::signature::SignatureBuilder::new(
            openpgp::types::SignatureType::KeyRevocation,
        )
        .set_signature_creation_time(time)
        .unwrap()
        .set_issuer_fingerprint(revoker.fingerprint())
        .unwrap()
        .set_issuer(revoker.keyid())
        .unwrap()
        .set_reason_for_revocation(ReasonForRevocation::KeyRetired, text)
        .unwrap()
        .sign_direct_key(&mut key_of(by), cert.primary_key().key())
        .unwrap()
    };
    let real = revocation(&revoker, "Rita has left", past + 900 * day);
    let forged = revocation(&stranger, "Send all money to Eve", past + 950 * day);
    let cert = cert.insert_packets([real, forged]).unwrap().0;
    let bytes = [cert.to_vec().unwrap(), revoker.to_vec().unwrap()].concat();
    (cert.fingerprint().to_hex(), bytes)
}

#[test]
fn a_revocation_by_a_named_revoker_ends_the_time_line() {
    let (fingerprint, bytes) = revoked_by_another();
    let mut config = visitor::config();
    config.policy.third_party = talaria_cert::ThirdParty::All;
    let site = Visitor::with(&bytes, config);
    let page = site.page(&format!("/certificate/{fingerprint}"), "en");
    page.check();
    let revoked = talaria_cert::timestamp(now() - 100 * 86400)[..10].to_owned();
    let note = page.all("aside").find(|aside| aside.has_class("danger")).expect("a red note");
    let text = note.text();
    assert!(text.contains(&revoked) && text.contains("Rita has left"), "{text}");
    assert!(!text.contains("Eve"), "a stranger has made it: {text}");
    let line = page.all("svg").find(|svg| svg.has_class("timeline")).unwrap();
    let created = talaria_cert::timestamp(now() - 1000 * 86400)[..10].to_owned();
    let tracks: Vec<String> = line
        .descendants("g")
        .filter(|group| group.has_class("track"))
        .map(|group| group.descendants("title").next().unwrap().text())
        .collect();
    assert_eq!(tracks.len(), 3, "primary key, user ID, subkey");
    for track in &tracks {
        assert!(track.ends_with(&format!("Revoked, {created} – {revoked}")), "{track}");
    }
    let crosses = line.descendants("text").filter(|text| text.has_class("cross"));
    assert_eq!(crosses.count(), 3);
    // Nothing that ended fills the line up to its end.
    for bar in line.descendants("rect").filter(|rect| rect.has_class("bar")) {
        let percent =
            |name: &str| bar.attribute(name).unwrap().trim_end_matches('%').parse::<f64>().unwrap();
        assert!(percent("x") + percent("width") < 99.0);
    }
}

fn now() -> u32 {
    u32::try_from(std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs()).unwrap()
}

#[test]
fn no_page_calls_a_name_valid() {
    let (fingerprint, bytes) = with_user_ids(&[b"Angela Merkel <angela@made-up.example>"]);
    let site = Visitor::of(&bytes);
    for path in
        [format!("/certificate/{fingerprint}"), "/pks/lookup?op=index&search=angela".to_owned()]
    {
        let page = site.page(&path, "en");
        page.check();
        let text = page.text();
        assert!(text.contains("Usable") && text.contains("did not check the name"), "{text}");
        assert!(!text.contains("Valid") && !text.contains('✓'), "{path}: {text}");
        assert!(!site.page(&path, "de").text().contains("Gültig"), "{path}");
    }
}

#[test]
fn bars_are_as_long_as_the_share_that_they_name() {
    let site = Visitor::of(&ring(60));
    let page = site.page("/statistics", "en");
    let mut bars = 0;
    for figure in page.all("figure") {
        let labels: Vec<f64> = figure
            .descendants("text")
            .filter_map(|text| {
                text.text().split_once(" · ")?.1.strip_suffix(" %")?.parse::<f64>().ok()
            })
            .collect();
        let widths: Vec<f64> = figure
            .descendants("rect")
            .filter(|rect| rect.has_class("series-0"))
            .filter_map(|rect| rect.attribute("width")?.strip_suffix('%')?.parse().ok())
            .collect();
        if labels.is_empty() {
            continue;
        }
        assert_eq!(labels.len(), widths.len());
        for (label, width) in labels.iter().zip(&widths) {
            assert!((label - width).abs() < 0.5, "{label} % is {width} % wide");
            bars += 1;
        }
    }
    assert!(bars > 3, "{bars}");
}

#[test]
fn a_page_says_if_nothing_can_be_encrypted_to_a_usable_certificate() {
    let past = std::time::SystemTime::now() - std::time::Duration::from_secs(400 * 86400);
    let day = std::time::Duration::from_secs(86400);
    for (ends, last) in
        [(&[Some(day), Some(2 * day)][..], true), (&[Some(day), None], false), (&[], false)]
    {
        let builder = CertBuilder::new().set_creation_time(past).add_userid("Ed <ed@example.org>");
        let encryption = openpgp::types::KeyFlags::empty().set_transport_encryption();
        let builder = ends.iter().fold(builder.add_signing_subkey(), |builder, &ends| {
            builder.add_subkey(encryption.clone(), ends, None)
        });
        let cert = builder.generate().unwrap().0;
        let site = Visitor::of(&cert.to_vec().unwrap());
        let page = site.page(&format!("/certificate/{}", cert.fingerprint().to_hex()), "en");
        page.check();
        let says = page.all("aside").any(|aside| aside.text().contains("Nothing can be encrypted"));
        assert_eq!(says, last, "{ends:?}");
    }
}

/// A certificate with one user ID and one signature, which its owner made so many seconds from now.
fn signed_at(seconds_ahead: i64) -> (openpgp::Cert, Vec<u8>) {
    use openpgp::packet::signature::SignatureBuilder;
    let cert = crate::site::make(&[]);
    let time = u64::try_from(i64::from(now()) + seconds_ahead).unwrap();
    let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(time);
    let user_id = UserID::from("Fay <fay@example.org>");
    let builder = SignatureBuilder::new(openpgp::types::SignatureType::PositiveCertification)
        .set_signature_creation_time(time)
        .unwrap();
    let signature = user_id.bind(&mut crate::site::signer(&cert), &cert, builder).unwrap();
    let key = talaria_cert::Cert::parse(&cert.to_vec().unwrap()).unwrap().retain(|at, _| at == 0);
    let packets = [openpgp::Packet::from(user_id), signature.into()];
    let mut bytes = key.into_bytes();
    bytes.extend(packets.iter().flat_map(|packet| packet.to_vec().unwrap()));
    (cert, bytes)
}

#[test]
fn the_page_of_an_unusable_certificate_says_why() {
    let day = 86400;
    let ahead = talaria_cert::timestamp(now() + 2 * 86400)[..10].to_owned();
    for (seconds, expected) in [
        (
            2 * day,
            format!("dated in the future. Programs do not use it before that date: {ahead}."),
        ),
        (-2 * day, "dated before its key was created".to_owned()),
    ] {
        let (cert, bytes) = signed_at(seconds);
        let site = Visitor::of(&bytes);
        let page = site.page(&format!("/certificate/{}", cert.fingerprint().to_hex()), "en");
        assert_eq!(page.status, 200, "{expected}");
        page.check();
        let note = page.all("aside").find(|aside| aside.has_class("warning")).expect("a note");
        assert!(note.text().contains(&expected), "{}", note.text());
        assert!(!page.text().contains("no good signature"), "{}", page.text());
        assert!(page.text().contains("Not usable"), "{}", page.text());
    }
}

/// What encryption refuses is not called usable.
#[test]
fn a_certificate_without_a_user_id_that_counts_is_not_usable() {
    use openpgp::cert::UserIDRevocationBuilder;
    use openpgp::types::ReasonForRevocation;
    let (cert, mut bytes) = signed_at(0);
    let address = format!("/certificate/{}", cert.fingerprint().to_hex());
    let page = Visitor::of(&bytes).page(&address, "en");
    assert!(page.text().contains("Usable"), "{}", page.text());
    let revocation = UserIDRevocationBuilder::new()
        .set_reason_for_revocation(ReasonForRevocation::UIDRetired, b"moved")
        .unwrap()
        .build(&mut crate::site::signer(&cert), &cert, &"Fay <fay@example.org>".into(), None)
        .unwrap();
    bytes.extend(openpgp::Packet::from(revocation).to_vec().unwrap());
    let page = Visitor::of(&bytes).page(&address, "en");
    page.check();
    let note = page.all("aside").find(|aside| aside.has_class("warning")).expect("a note");
    assert!(note.text().contains("all its user IDs are revoked or expired"), "{}", note.text());
    assert!(page.text().contains("Not usable"), "{}", page.text());
}

#[test]
fn old_subkeys_are_behind_a_click_and_the_time_line_comes_first() {
    let past = std::time::SystemTime::now() - std::time::Duration::from_secs(400 * 86400);
    let year = std::time::Duration::from_secs(86400);
    let flags = openpgp::types::KeyFlags::empty().set_signing();
    let (cert, _) = CertBuilder::new()
        .set_creation_time(past)
        .add_userid("Olga <olga@example.org>")
        .add_subkey(flags.clone(), year, None)
        .add_subkey(flags, None, None)
        .generate()
        .unwrap();
    let site = Visitor::of(&cert.to_vec().unwrap());
    let page = site.page(&format!("/certificate/{}", cert.fingerprint().to_hex()), "en");
    page.check();
    let folded = page.all("details").find(|details| details.has_class("folded")).unwrap();
    assert!(folded.attribute("open").is_none());
    assert!(folded.text().contains("Expired") && !folded.text().contains("Usable"));
    assert!(folded.text().contains("1 more part, not usable now"), "{}", folded.text());
    let lists: Vec<_> = page.all("ul").filter(|list| list.has_class("components")).collect();
    // Fingerprints are in groups.
    let has = |text: &str, n: usize| {
        let key = cert.keys().subkeys().nth(n).unwrap();
        let digits = &key.key().fingerprint().to_hex()[..16];
        text.split_whitespace().collect::<String>().contains(digits)
    };
    let (folded, open) = (folded.text(), lists[1].text());
    let old = usize::from(!has(&folded, 0));
    assert!(has(&folded, old) && !has(&open, old) && has(&open, 1 - old));
    let place = |id: &str| page.body.find(&format!("id=\"{id}\"")).unwrap();
    assert!(place("timeline-heading") < place("user-ids-heading"));
    assert!(place("user-ids-heading") < place("keys-heading"));
}

#[test]
fn a_long_list_has_pages_and_ways_to_narrow() {
    let site = Visitor::of(&ring(60));
    let search = "/pks/lookup?op=index&search=example";
    let page = site.page(search, "en");
    page.check();
    assert!(
        page.text().contains("60 certificates were found") && page.text().contains("Page 1 of 3")
    );
    let cards = |page: &Page| -> Vec<String> {
        let cards = page.all("article").filter(|card| card.has_class("card"));
        cards
            .map(|card| card.descendants("a").next().unwrap().attribute("href").unwrap().to_owned())
            .collect()
    };
    let mut all = cards(&page);
    assert_eq!(all.len(), 25);
    for number in [2, 3] {
        let next = site.page(&format!("{search}&page={number}"), "en");
        next.check();
        all.extend(cards(&next));
    }
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 60, "each certificate is on one page");
    // A page that does not exist is the nearest one that does.
    for wrong in ["0", "99", "x", "-1"] {
        let page = site.page(&format!("{search}&page={wrong}"), "en");
        page.check();
        assert_eq!(page.status, 200, "{wrong}");
    }
    let narrower = page.all("nav").find(|nav| nav.has_class("narrower")).expect("ways to narrow");
    let link = narrower.descendants("a").next().unwrap().attribute("href").unwrap();
    let fewer = site.page(link, "en");
    assert_eq!(fewer.status, 200);
    let count = |page: &Page| page.text().matches("Created").count();
    assert!(count(&fewer) > 0 && !fewer.text().contains("60 certificates"), "{link}");
}

#[test]
fn a_name_is_found_in_every_spelling() {
    let names = ["Michael Müller", "Michael Mueller", "Michael Muller"];
    let made: Vec<(String, Vec<u8>)> = (names.iter().enumerate())
        .map(|(n, name)| with_user_ids(&[format!("{name} <m{n}@example.org>").as_bytes()]))
        .collect();
    let (other, others) = with_user_ids(&[b"Michael Moller <moller@example.org>"]);
    let all: Vec<u8> = made.iter().flat_map(|(_, bytes)| bytes).chain(&others).copied().collect();
    let site = Visitor::of(&all);
    for text in [
        "M%C3%BCller",
        "mu%CC%88ller",
        "mueller",
        "MULLER",
        "Michael+M%C3%BCller",
        "michael+mueller",
    ] {
        let search = format!("/pks/lookup?op=index&search={text}");
        let page = site.page(&search, "en");
        page.check();
        assert!(page.text().contains("3 certificates were found"), "{text}: {}", page.text());
        let machine = site.get(&format!("{search}&options=mr"), "en").body;
        for (fingerprint, _) in &made {
            assert!(page.body.contains(fingerprint) && machine.contains(fingerprint), "{text}");
        }
        assert!(!page.body.contains(&other) && !machine.contains(&other), "{text}");
    }
    let page = site.page("/pks/lookup?op=index&search=michael", "en");
    assert!(page.text().contains("4 certificates were found"), "{}", page.text());
}

/// The second search takes the short way, because the server knows from the first one that the
/// words are rare.
#[test]
fn a_repeated_search_has_the_same_answer_and_finds_new_certificates() {
    let (_, bytes) = with_user_ids(&["Jörg Adler <joerg@example.org>".as_bytes()]);
    let site = Visitor::of(&bytes);
    let names = ["Jörg Adler", "joerg adler", "Adler", "jorg", "nobody"];
    let ask = |name: &str| {
        let name = name.replace(' ', "+").replace('ö', "%C3%B6");
        let got = site.get(&format!("/pks/lookup?op=index&options=mr&search={name}"), "en");
        (got.status, got.body)
    };
    for count in 1..20 {
        for name in names {
            let (status, body) = ask(name);
            assert_eq!(ask(name), (status, body.clone()), "{name}");
            if name == "nobody" {
                assert_eq!(status, 404);
            } else {
                assert_eq!((status, body.matches("pub:").count()), (200, count), "{name}: {body}");
            }
        }
        // One has more user IDs than the short way reads.
        let more = if count == 7 { 200 } else { 0 };
        let user_ids: Vec<String> = std::iter::once(format!("Joerg Adler {count}"))
            .chain((0..more).map(|n| format!("Another name, number {n}, of some length")))
            .collect();
        let user_ids: Vec<&[u8]> = user_ids.iter().map(String::as_bytes).collect();
        assert_eq!(site.upload_file(&with_user_ids(&user_ids).1).status, 200);
    }
}

/// If there is room for some only, those that are spelled as they were typed are shown.
#[test]
fn the_spelling_that_was_typed_comes_first() {
    let mut all = Vec::new();
    for n in 0..6 {
        all.extend(with_user_ids(&[format!("Joerg {n} <j{n}@example.org>").as_bytes()]).1);
    }
    let (typed, bytes) = with_user_ids(&["Jörg <last@example.org>".as_bytes()]);
    all.extend(bytes);
    let mut config = visitor::config();
    config.policy.results = 5;
    let site = Visitor::with(&all, config);
    let page = site.page("/pks/lookup?op=index&search=j%C3%B6rg", "en");
    assert!(page.body.contains(&typed) && page.text().contains("Only the first 5 are shown"));
}

#[test]
fn a_secret_key_is_refused_in_words() {
    let cert = crate::site::make(&["Sasha <sasha@example.org>"]);
    let site = Visitor::of(&ring(1));
    let armored = String::from_utf8(cert.as_tsk().armored().to_vec().unwrap()).unwrap();
    assert!(armored.contains("PRIVATE KEY BLOCK"));
    let binary = cert.as_tsk().to_vec().unwrap();
    // Secret packets in the armor of a certificate.
    let disguised = String::from_utf8_lossy(talaria_cert::enarmor(&binary).as_bytes()).into_owned();
    assert!(disguised.contains("PUBLIC KEY BLOCK"));
    for page in
        [site.upload_text(&armored), site.upload_text(&disguised), site.upload_file(&binary)]
    {
        assert_eq!(page.status, 422);
        page.check();
        assert!(page.text().contains("This is a secret key"), "{}", page.text());
        assert!(page.text().contains("make a new key"), "{}", page.text());
    }
    let path = format!("/certificate/{}", cert.fingerprint().to_hex());
    assert_eq!(site.page(&path, "en").status, 404, "nothing of it was kept");
}

#[test]
fn pages_have_the_texts_picture_and_colour_of_the_operator() {
    use crate::site::Site;
    let folder = tempfile::tempdir().unwrap();
    let logo = folder.path().join("logo.png");
    std::fs::write(&logo, b"\x89PNG\r\n\x1a\n").unwrap();
    let mut config = talaria_server::Config::default();
    config.server.imprint =
        "Example e.V.\nMain Street 1\n\n<script>alert(1)</script> at https://example.org".into();
    config.server.colour = "#7a1f5c".into();
    config.server.logo = Some(logo);
    config.read_picture().unwrap();
    let site = Site::start(config);
    let home = site.open("/").text();
    for part in ["href=\"/imprint\"", "/static/colour.css?v=7a1f5c", "src=\"/static/logo?v="] {
        assert!(home.contains(part), "{part}");
    }
    assert!(!home.contains("href=\"/privacy\""));
    let imprint = site.open("/imprint");
    assert_eq!(imprint.status, 200);
    let text = imprint.text();
    assert!(text.contains("<p>Example e.V.<br>Main Street 1</p>"), "{text}");
    assert!(text.contains("&lt;script&gt;") && !text.contains("<script>alert"));
    assert!(text.contains("<a href=\"https://example.org\">"));
    assert_eq!(site.open("/privacy").status, 404);
    let picture = site.get("/static/logo");
    assert_eq!((picture.status, picture.header("content-type")), (200, "image/png"));
    let style = site.get("/static/colour.css");
    assert!(style.text().contains("--accent: #7a1f5c"), "{}", style.text());
    assert_eq!(
        Site::start(talaria_server::Config::default()).get("/static/colour.css").status,
        404
    );
}
