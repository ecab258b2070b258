//! Confirmation of addresses with a running mail server, whose mails the tests read.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::site::{Got, Site, agent, armored, make, request, user_ids, wait_for};
use sequoia_openpgp as openpgp;
use sequoia_openpgp::parse::Parse as _;
use sequoia_openpgp::serialize::MarshalInto as _;
use sequoia_openpgp::types::{ReasonForRevocation, SignatureType};
use serde_json::{Value, json};
use talaria_needs::free_port;
use talaria_server::Config;

/// Debian's `python3-aiosmtpd`, which puts mails into a folder.
struct MailServer {
    port: u16,
    folder: tempfile::TempDir,
    process: Child,
}

impl MailServer {
    fn start(options: &[&str]) -> Self {
        // Another test may have taken the port meanwhile.
        (0..5).find_map(|_| Self::start_at(free_port(), options)).expect("a port for mails")
    }

    /// `None` if the port is taken.
    fn start_at(port: u16, options: &[&str]) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let python = PathBuf::from("/usr/bin/python3");
        let python = if python.exists() { python } else { "python3".into() };
        let process = Command::new(python)
            .args(["-m", "aiosmtpd", "-n", "-l", &format!("127.0.0.1:{port}")])
            .args(options)
            .args(["-c", "aiosmtpd.handlers.Mailbox"])
            .arg(folder.path().join("mail"))
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut server = Self { port, folder, process };
        let mut greets = false;
        wait_for("the mail server", || {
            greets = TcpStream::connect(("127.0.0.1", port)).is_ok_and(|mut connection| {
                let mut greeting = [0; 3];
                connection.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
                // With options it speaks TLS first.
                !options.is_empty()
                    || connection.read_exact(&mut greeting).is_ok() && greeting == *b"220"
            });
            greets || server.process.try_wait().unwrap().is_some()
        });
        (greets && server.process.try_wait().unwrap().is_none()).then_some(server)
    }

    /// The mails so far, oldest first, with the transfer encoding decoded.
    fn mails(&self) -> Vec<String> {
        let Ok(files) = std::fs::read_dir(self.folder.path().join("mail/new")) else {
            return Vec::new();
        };
        let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
        files.sort_by_key(|path| std::fs::metadata(path).unwrap().modified().unwrap());
        files.iter().map(|path| plain(&std::fs::read_to_string(path).unwrap())).collect()
    }
}

impl Drop for MailServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Undoes quoted-printable.
fn plain(mail: &str) -> String {
    let mail = mail.replace("\r\n", "\n");
    if !mail.to_ascii_lowercase().contains("content-transfer-encoding: quoted-printable") {
        return mail;
    }
    let mut bytes = Vec::new();
    let mut rest = mail.as_bytes();
    while let [first, behind @ ..] = rest {
        rest = behind;
        match (first, behind) {
            (b'=', [b'\n', behind @ ..]) => rest = behind,
            (b'=', [a, b, behind @ ..]) if a.is_ascii_hexdigit() && b.is_ascii_hexdigit() => {
                let digits = std::str::from_utf8(&[*a, *b]).unwrap().to_owned();
                bytes.push(u8::from_str_radix(&digits, 16).unwrap());
                rest = behind;
            }
            _ => bytes.push(*first),
        }
    }
    String::from_utf8(bytes).unwrap()
}

/// The path of the link in a mail.
fn link(mail: &str) -> &str {
    let links: Vec<&str> =
        mail.lines().filter_map(|line| line.strip_prefix("https://keys.example.org")).collect();
    assert_eq!(links.len(), 1, "{mail}");
    links[0]
}

fn site(mails: &MailServer) -> Site {
    Site::start(config(mails.port))
}

fn config(port: u16) -> Config {
    let mut config = Config::default();
    config.server.hostname = "keys.example.org".into();
    config.vks.enabled = true;
    config.vks.base_url = "https://keys.example.org/".into();
    config.vks.smtp = format!("127.0.0.1:{port}");
    config.vks.from = "Keys <keys@example.org>".into();
    config
}

fn upload(site: &Site, cert: &openpgp::Cert) -> Value {
    let got = site.json("/vks/v1/upload", &json!({ "keytext": armored(cert) }));
    assert_eq!(got.status, 200, "{}", got.text());
    got.value()
}

fn request_verify(site: &Site, token: &Value, addresses: &[&str], locale: &[&str]) -> Got {
    let request = json!({ "token": token, "addresses": addresses, "locale": locale });
    site.json("/vks/v1/request-verify", &request)
}

fn by_email(site: &Site, address: &str) -> Got {
    site.get(&format!("/vks/v1/by-email/{}", address.replace('@', "%40")))
}

/// Uploads and confirms, as a user does.
fn publish(site: &Site, mails: &MailServer, cert: &openpgp::Cert, address: &str) {
    let token = upload(site, cert)["token"].clone();
    assert_eq!(request_verify(site, &token, &[address], &[]).status, 200);
    let mail = mails.mails().pop().unwrap();
    assert_eq!(site.form(link(&mail), &[]).status, 200);
}

/// A mail server that says nothing more after the text of a first mail, and takes all others.
fn silent_at_first() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let is_first = Arc::new(AtomicBool::new(true));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, is_first) = (stream.unwrap(), Arc::clone(&is_first));
            std::thread::spawn(move || {
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
                let mut say = |text: &str| stream.write_all(text.as_bytes()).is_ok();
                say("220 here\r\n");
                while let Some(Ok(line)) = lines.next() {
                    if line == "DATA" {
                        say("354 go on\r\n");
                        while lines.next().is_some_and(|line| line.is_ok_and(|line| line != ".")) {}
                        if is_first.swap(false, Ordering::Relaxed) {
                            std::thread::sleep(Duration::from_secs(600));
                        }
                    }
                    say("250 ok\r\n");
                }
            });
        }
    });
    port
}

#[test]
fn a_mail_without_an_answer_does_not_hold_up_others() {
    let site = Site::start(config(silent_at_first()));
    for (name, status) in [("first", 503), ("second", 200)] {
        let address = format!("{name}@example.org");
        let uploaded = upload(&site, &make(&[&format!("<{address}>")]));
        let got = request_verify(&site, &uploaded["token"], &[&address], &[]);
        assert_eq!(got.status, status, "{}", got.text());
    }
}

#[test]
fn revocations_by_named_revokers_are_given_out() {
    let site = Site::start(config(9));
    let revoker = make(&["revoker"]);
    let key = revoker.primary_key().key();
    let named =
        sequoia_openpgp::types::RevocationKey::new(key.pk_algo(), revoker.fingerprint(), false);
    let builder = openpgp::cert::CertBuilder::new().add_userid("alice");
    let (alice, _) = builder.set_revocation_keys(vec![named]).generate().unwrap();
    let revocation = openpgp::cert::CertRevocationBuilder::new()
        .set_reason_for_revocation(ReasonForRevocation::KeyCompromised, b"")
        .unwrap()
        .build(&mut crate::site::signer(&revoker), &alice, None)
        .unwrap();
    let revoked = alice.clone().insert_packets(revocation).unwrap().0;
    let path = format!("/vks/v1/by-fingerprint/{}", alice.fingerprint().to_hex());
    // The revoker comes later.
    for cert in [&revoked, &revoker] {
        assert_eq!(site.upload(cert).status, 200);
        let given = openpgp::Cert::from_bytes(&site.get(&path).body).unwrap();
        assert_eq!(given.primary_key().other_revocations().count(), 1);
    }
}

#[test]
fn an_address_is_found_once_its_owner_has_confirmed_it() {
    let mails = MailServer::start(&[]);
    let site = site(&mails);
    let cert = make(&["Alice <Alice+x@example.org>", "Alice <alice@work.example>"]);
    let fingerprint = cert.fingerprint().to_hex();
    let uploaded = upload(&site, &cert);
    assert_eq!(uploaded["key_fpr"], fingerprint);
    let (first, second) = ("alice+x@example.org", "alice@work.example");
    let statuses = json!({ first: "unpublished", second: "unpublished" });
    assert_eq!(uploaded["status"], statuses);

    // The certificate is found by fingerprint and key ID at once, also of a subkey, without user
    // IDs.
    let subkey = cert.keys().subkeys().next().unwrap().key().fingerprint();
    for path in [
        format!("by-fingerprint/{fingerprint}"),
        format!("by-fingerprint/{}", subkey.to_hex()),
        format!("by-keyid/{}", cert.keyid().to_hex()),
    ] {
        let got = site.get(&format!("/vks/v1/{path}"));
        assert_eq!(got.status, 200, "{path}");
        assert_eq!(got.header("content-type"), "application/pgp-keys");
        let given = openpgp::Cert::from_bytes(&got.body).unwrap();
        assert_eq!(given.fingerprint(), cert.fingerprint());
        assert_eq!(given.userids().count(), 0);
        assert_eq!(given.keys().subkeys().count(), 2);
    }
    let missing = by_email(&site, first);
    assert_eq!(missing.status, 404);
    assert!(missing.header("content-type").starts_with("text/plain"));

    let got = request_verify(&site, &uploaded["token"], &["Alice+X@example.org"], &["en_GB"]);
    assert_eq!(got.status, 200, "{}", got.text());
    assert_eq!(got.value()["status"], json!({ first: "pending", second: "unpublished" }));
    let received = mails.mails();
    assert_eq!(received.len(), 1);
    let mail = &received[0];
    assert!(mail.contains(&format!("To: {first}")) && mail.contains("From: Keys <keys@"), "{mail}");
    assert!(mail.contains("Auto-Submitted: auto-generated"), "{mail}");
    assert!(mail.contains("MIME-Version: 1.0"), "{mail}");
    let ids: Vec<&str> = mail.lines().filter(|line| line.starts_with("Message-ID: <")).collect();
    assert!(ids.len() == 1 && ids[0].ends_with("@keys.example.org>"), "{mail}");
    assert!(mail.replace(' ', "").contains(&fingerprint), "{mail}");

    // A mail scanner may open the link any number of times.
    let path = link(mail).to_owned();
    for _ in 0..3 {
        let opened = site.open(&path);
        assert_eq!(opened.status, 200);
        assert!(opened.text().contains("<form method=\"post\">"), "{}", opened.text());
        assert!(opened.header("content-security-policy").contains("form-action 'self'"));
        assert_eq!(Got::of(agent().head(site.url(&path)).call()).status, 200);
        assert_eq!(by_email(&site, first).status, 404);
    }

    let confirmed = site.form(&path, &[]);
    assert_eq!(confirmed.status, 200, "{}", confirmed.text());
    assert!(confirmed.text().contains(first));
    let found = by_email(&site, first);
    assert_eq!(found.status, 200);
    assert_eq!(
        user_ids(&openpgp::Cert::from_bytes(&found.body).unwrap()),
        ["Alice <Alice+x@example.org>"]
    );
    assert_eq!(by_email(&site, second).status, 404);
    let by_fingerprint = site.get(&format!("/vks/v1/by-fingerprint/{fingerprint}"));
    let given = openpgp::Cert::from_bytes(&by_fingerprint.body).unwrap();
    assert_eq!(user_ids(&given), ["Alice <Alice+x@example.org>"]);
    let again = upload(&site, &cert);
    assert_eq!(again["status"], json!({ first: "published", second: "unpublished" }));
    // There are no more addresses to confirm.
    let got = request_verify(&site, &again["token"], &[first], &[]);
    assert_eq!((got.status, mails.mails().len()), (200, 1));
}

#[test]
fn mails_are_in_the_requested_language() {
    let mails = MailServer::start(&[]);
    let site = site(&mails);
    let uploaded = upload(&site, &make(&["Änne <aenne@example.org>"]));
    let got = request_verify(
        &site,
        &uploaded["token"],
        &["aenne@example.org"],
        &["fr_FR", "de_DE", "en"],
    );
    assert_eq!(got.status, 200, "{}", got.text());
    let mail = mails.mails().pop().unwrap();
    assert!(mail.contains("Guten Tag") && mail.contains("öffnen"), "{mail}");
    let answer = agent().get(site.url(link(&mail))).header("Accept-Language", "de").call();
    assert!(Got::of(answer).text().contains("Ja, meine Adresse"));
}

#[test]
fn confirmed_addresses_can_be_withdrawn() {
    let mails = MailServer::start(&[]);
    let site = site(&mails);
    let cert = make(&["Alice <alice@example.org>", "Alice <alice@work.example>"]);
    publish(&site, &mails, &cert, "alice@example.org");
    publish(&site, &mails, &cert, "alice@work.example");
    assert!(site.open("/vks/manage").text().contains("name=\"address\""));
    assert_eq!(site.form("/vks/manage", &[("address", "eve@example.org")]).status, 404);
    assert_eq!(site.form("/vks/manage", &[("address", "nobody")]).status, 400);
    assert_eq!(mails.mails().len(), 2);

    let asked = site.form("/vks/manage", &[("address", "Alice@example.org")]);
    assert_eq!(asked.status, 200, "{}", asked.text());
    let mail = mails.mails().pop().unwrap();
    let path = link(&mail).to_owned();
    let list = site.open(&path).text();
    assert!(list.contains("alice@example.org") && list.contains("alice@work.example"), "{list}");
    let left = site.form(&path, &[("address", "alice@work.example")]).text();
    assert!(left.contains("alice@example.org") && !left.contains("alice@work.example"), "{left}");
    assert_eq!(by_email(&site, "alice@work.example").status, 404);
    assert_eq!(by_email(&site, "alice@example.org").status, 200);
    assert!(left.contains("These addresses of the key are confirmed"), "{left}");
    // A link works for one action only.
    let token = path.rsplit('/').next().unwrap();
    assert_eq!(site.form(&format!("/vks/confirm/{token}"), &[]).status, 400);
    assert_eq!(request_verify(&site, &json!(token), &["alice@work.example"], &[]).status, 400);
}

#[test]
fn a_failing_mail_server_changes_nothing() {
    let site = Site::start(config(free_port()));
    let uploaded = upload(&site, &make(&["Alice <alice@example.org>"]));
    // The limit of mails is not used up either, although there are more tries than allowed mails.
    for _ in 0..6 {
        let got = request_verify(&site, &uploaded["token"], &["alice@example.org"], &[]);
        assert_eq!(got.status, 503);
        assert!(got.value()["error"].as_str().unwrap().contains("no mail can be sent"));
    }
    assert_eq!(by_email(&site, "alice@example.org").status, 404);
}

#[test]
fn requests_cannot_flood_an_address_with_mails() {
    let mails = MailServer::start(&[]);
    let site = site(&mails);
    let uploaded = upload(&site, &make(&["Alice <alice@example.org>"]));
    let send = || request_verify(&site, &uploaded["token"], &["alice@example.org"], &[]);
    let statuses: Vec<u16> = (0..6).map(|_| send().status).collect();
    assert_eq!(statuses, [200, 200, 200, 200, 429, 429]);
    assert_eq!(mails.mails().len(), 4);
}

/// A server that believes this machine for whom it asks.
fn behind_proxy(mails: &MailServer) -> Site {
    let mut config = config(mails.port);
    config.http.proxies = vec!["127.0.0.1/32".parse().unwrap()];
    config.rates.exempt = Vec::new();
    Site::start(config)
}

/// Asks for mails to all addresses of a certificate, as a client of a network.
fn ask_from(site: &Site, network: &str, cert: &openpgp::Cert, emails: &[String]) -> Got {
    let token = upload(site, cert)["token"].clone();
    let body = json!({ "token": token, "addresses": emails, "locale": [] }).to_string();
    let head = format!("content-type: application/json\r\nx-forwarded-for: {network}\r\n");
    request(site.http, "POST", "/vks/v1/request-verify", &head, body.as_bytes())
}

fn count_pending(got: &Got) -> usize {
    got.text().matches("\"pending\"").count()
}

#[test]
fn many_networks_cannot_flood_a_mailbox_with_its_addresses() {
    let mails = MailServer::start(&[]);
    let site = behind_proxy(&mails);
    for network in 1..=10 {
        let emails: Vec<String> =
            (0..20).map(|n| format!("victim+{network}.{n}@bank.example")).collect();
        let user_ids: Vec<&str> = emails.iter().map(String::as_str).collect();
        let got = ask_from(&site, &format!("198.51.100.{network}"), &make(&user_ids), &emails);
        let sent = if network <= 2 { 2 } else { 0 };
        assert_eq!((count_pending(&got), got.status == 200), (sent, sent > 0), "{}", got.text());
    }
    assert_eq!(mails.mails().len(), 4);
}

#[test]
fn the_limit_of_a_domain_binds_networks_that_have_confirmed_nothing() {
    let mails = MailServer::start(&[]);
    let site = behind_proxy(&mails);
    let of = |name: &str, domain: &str, count: usize| {
        let emails: Vec<String> = (0..count).map(|n| format!("{name}{n}@{domain}")).collect();
        let user_ids: Vec<&str> = emails.iter().map(String::as_str).collect();
        (make(&user_ids), emails)
    };
    let ask = |network: &str, name: &str, domain: &str, count: usize| {
        let (cert, emails) = of(name, domain, count);
        count_pending(&ask_from(&site, network, &cert, &emails))
    };
    // Somebody in one network reads the mail of an address.
    let known = "203.0.113.1";
    assert_eq!(ask(known, "alice", "home.example", 1), 1);
    let confirm = link(&mails.mails().pop().unwrap()).to_owned();
    let head = format!("x-forwarded-for: {known}\r\n");
    let path = &confirm[confirm.find("/vks/").unwrap()..];
    assert_eq!(request(site.http, "POST", path, &head, b"").status, 200);
    for network in 1..=5 {
        let pending =
            ask(&format!("198.51.100.{network}"), &format!("a{network}-"), "bank.example", 20);
        assert_eq!(pending, 20);
    }
    assert_eq!(mails.mails().len(), 101);
    // Mails of others wait, four of each network.
    assert_eq!(ask("198.51.100.6", "b", "bank.example", 9), 4);
    assert_eq!(ask("198.51.100.7", "c", "bank.example", 1), 1);
    assert_eq!(mails.mails().len(), 101);
    assert_eq!(ask("198.51.100.6", "b", "shop.example", 2), 2);
    assert_eq!(ask(known, "d", "bank.example", 2), 2);
    assert_eq!(mails.mails().len(), 105);
}

/// A certificate authority in a folder (`ca.pem`), and its certificate for this machine
/// (`cert.pem`, `key.pem`).
fn authority() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let request = |arguments: &[&str]| {
        let made = Command::new("openssl")
            .current_dir(folder.path())
            .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"])
            .args(arguments)
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    };
    request(&["-subj", "/CN=authority", "-keyout", "ca.key", "-out", "ca.pem"]);
    let names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"];
    let ours =
        ["-CA", "ca.pem", "-CAkey", "ca.key", "-addext", "basicConstraints=critical,CA:false"];
    let files = ["-keyout", "key.pem", "-out", "cert.pem"];
    request(&[&names[..], &ours, &files].concat());
    folder
}

/// Requests a mail with both kinds of TLS, and with a mail server that wrongly does not use TLS.
/// Returns the status and the number of mails that arrived.
fn over_tls(folder: &Path) -> [(u16, usize); 3] {
    let (key, certificate) = (folder.join("key.pem"), folder.join("cert.pem"));
    let (key, certificate) = (key.to_str().unwrap(), certificate.to_str().unwrap());
    [
        ("starttls", vec!["--tlscert", certificate, "--tlskey", key, "--no-requiretls"]),
        ("tls", vec!["--smtpscert", certificate, "--smtpskey", key]),
        ("starttls", vec![]),
    ]
    .map(|(security, options)| {
        let mails = MailServer::start(&options);
        let mut config = config(mails.port);
        config.vks.smtp_security = security.into();
        let site = Site::start(config);
        let uploaded = upload(&site, &make(&["Alice <alice@example.org>"]));
        let got = request_verify(&site, &uploaded["token"], &["alice@example.org"], &[]);
        (got.status, mails.mails().len())
    })
}

#[test]
fn a_mail_server_with_an_invalid_certificate_gets_no_mail() {
    assert_eq!(over_tls(authority().path()), [(503, 0); 3]);
}

/// A process reads the system's authorities once, so this test starts itself again.
#[test]
fn a_mail_server_with_a_valid_certificate_gets_mail_over_tls() {
    if let Ok(folder) = std::env::var("TALARIA_TEST_AUTHORITY") {
        assert_eq!(over_tls(Path::new(&folder)), [(200, 1), (200, 1), (503, 0)]);
        return;
    }
    let folder = authority();
    let again = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "vks::a_mail_server_with_a_valid_certificate_gets_mail_over_tls"])
        .env("TALARIA_TEST_AUTHORITY", folder.path())
        .env("SSL_CERT_FILE", folder.path().join("ca.pem"))
        .output()
        .unwrap();
    let out = String::from_utf8_lossy(&again.stdout);
    assert!(again.status.success() && out.contains("1 passed"), "{out}");
}

#[test]
fn an_upload_of_which_a_part_was_not_kept_says_so() {
    let mails = MailServer::start(&[]);
    let mut config = config(mails.port);
    config.policy.user_id_bytes = 100;
    let site = Site::start(config);
    let whole = make(&["Alice <alice@example.org>"]);
    assert!(upload(&site, &whole).get("comment").is_none());
    assert!(upload(&site, &whole).get("comment").is_none(), "nothing new, and nothing left out");
    let long = format!("{} <bob@example.net>", "Bob".repeat(40));
    let cut = make(&["Bob <bob@example.org>", &long]);
    for _ in 0..2 {
        let answer = upload(&site, &cut);
        let comment = answer["comment"].as_str().unwrap();
        assert!(
            comment.starts_with("not kept: 1 component and 1 signature, which exceed"),
            "{comment}"
        );
        // An address that was not kept is not among those that can be confirmed.
        assert_eq!(answer["status"], json!({ "bob@example.org": "unpublished" }));
        assert_eq!(answer["key_fpr"], cut.fingerprint().to_hex());
    }
    // Bytes behind a certificate that are none.
    use base64::Engine as _;
    let bytes = [whole.to_vec().unwrap(), vec![0x99, 0x01, 0x00, 4, 1, 2]].concat();
    let digits = base64::engine::general_purpose::STANDARD.encode(bytes);
    let got = site.json("/vks/v1/upload", &json!({ "keytext": digits }));
    assert_eq!(got.status, 200, "{}", got.text());
    let answer = got.value();
    assert!(answer["comment"].as_str().unwrap().starts_with("at byte "), "{answer}");
}

#[test]
fn malformed_requests_are_refused_in_json() {
    let mails = MailServer::start(&[]);
    let site = site(&mails);
    let cert = make(&["Alice <alice@example.org>"]);
    let token = upload(&site, &cert)["token"].clone();
    let mut forged = token.as_str().unwrap().to_owned();
    forged.replace_range(10..11, if &forged[10..11] == "A" { "B" } else { "A" });
    let two = armored(&cert) + &armored(&make(&["Bob <bob@example.org>"]));
    let verify = "/vks/v1/request-verify";
    let cases = [
        ("/vks/v1/upload", json!({})),
        ("/vks/v1/upload", json!({ "keytext": "" })),
        ("/vks/v1/upload", json!({ "keytext": "no key" })),
        ("/vks/v1/upload", json!({ "keytext": two })),
        (verify, json!({ "token": token })),
        (verify, json!({ "token": token, "addresses": [] })),
        (verify, json!({ "token": token, "addresses": ["eve@example.org"] })),
        (verify, json!({ "token": forged, "addresses": ["alice@example.org"] })),
        (verify, json!({ "token": "", "addresses": ["alice@example.org"] })),
    ];
    for (path, request) in cases {
        let got = site.json(path, &request);
        assert_eq!(got.status, 400, "{request}: {}", got.text());
        assert_eq!(got.header("content-type"), "application/json");
        assert!(got.value()["error"].is_string());
    }
    for path in ["by-fingerprint/0x12", "by-keyid/12345678", "by-email/nobody"] {
        assert_eq!(site.get(&format!("/vks/v1/{path}")).status, 400, "{path}");
    }
    assert_eq!(site.get("/vks/v1/upload").status, 405);
    assert!(mails.mails().is_empty());
    // Binary, in base64.
    use base64::Engine as _;
    let digits = base64::engine::general_purpose::STANDARD.encode(cert.to_vec().unwrap());
    let got = site.json("/vks/v1/upload", &json!({ "keytext": digits }));
    assert_eq!(got.value()["key_fpr"], cert.fingerprint().to_hex());
}

#[test]
fn without_the_setting_vks_is_off() {
    let site = Site::start(Config::default());
    let cert = make(&["Alice <alice@example.org>"]);
    site.upload(&cert);
    let fingerprint = cert.fingerprint().to_hex();
    assert_eq!(site.get(&format!("/vks/v1/by-fingerprint/{fingerprint}")).status, 404);
    assert_eq!(site.json("/vks/v1/upload", &json!({ "keytext": armored(&cert) })).status, 404);
    assert_eq!(site.open("/vks/manage").status, 404);
}

#[test]
fn third_party_signatures_and_revoked_user_ids_are_not_served() {
    let mails = MailServer::start(&[]);
    let site = site(&mails);
    let alice = make(&["Alice <alice@example.org>"]);
    let bob = make(&["Bob <bob@example.org>"]);
    let mut signer = crate::site::signer(&bob);
    let user_id = alice.userids().next().unwrap().userid().clone();
    let certification = user_id
        .certify(&mut signer, &alice, SignatureType::PositiveCertification, None, None)
        .unwrap();
    let certified = alice.clone().insert_packets(certification).unwrap().0;
    publish(&site, &mails, &certified, "alice@example.org");
    let given = openpgp::Cert::from_bytes(&by_email(&site, "alice@example.org").body).unwrap();
    assert_eq!(given.userids().next().unwrap().certifications().count(), 0);

    // Eve's certificate with Alice's address changes nothing, whichever way it arrived.
    let eve = make(&["Alice <alice@example.org>"]);
    site.upload(&eve);
    let found = openpgp::Cert::from_bytes(&by_email(&site, "alice@example.org").body).unwrap();
    assert_eq!(found.fingerprint(), alice.fingerprint());

    let mut signer = crate::site::signer(&alice);
    let revocation = openpgp::cert::UserIDRevocationBuilder::new()
        .set_reason_for_revocation(ReasonForRevocation::UIDRetired, b"")
        .unwrap()
        .build(&mut signer, &alice, &user_id, None)
        .unwrap();
    let revoked = alice.clone().insert_packets(revocation).unwrap().0;
    assert_eq!(upload(&site, &revoked)["status"], json!({ "alice@example.org": "revoked" }));
    assert_eq!(by_email(&site, "alice@example.org").status, 404);
}

#[test]
fn hkp_and_wkd_can_be_limited_to_confirmed_addresses() {
    let mails = MailServer::start(&[]);
    let mut config = config(mails.port);
    config.vks.only_confirmed = true;
    config.wkd.domains = vec!["example.org".into()];
    let site = Site::start(config);
    let (alice, eve) = (make(&["<alice@example.org>"]), make(&["<alice@example.org>"]));
    let hash = talaria_cert::user_id::web_key_hash("alice");
    let wkd = || site.get(&format!("/.well-known/openpgpkey/example.org/hu/{hash}?l=alice"));
    site.upload(&eve);
    upload(&site, &alice);
    assert_eq!(site.get("/pks/lookup?op=get&search=alice@example.org").status, 404);
    assert_eq!(wkd().status, 404);
    publish(&site, &mails, &alice, "alice@example.org");
    let found = wkd().certs();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].fingerprint(), alice.fingerprint());
    let got = site.get("/pks/lookup?op=get&options=mr&search=alice@example.org").certs();
    assert_eq!(got.len(), 1);
    assert_eq!(got[0].fingerprint(), alice.fingerprint());
}

/// In the default, HKP and the pages find a certificate by every address in it, and all texts have
/// to say so.
#[test]
fn texts_about_unconfirmed_addresses_agree_with_the_searches() {
    let by_all = "find a key by each address in it, confirmed or not";
    let by_confirmed = "shows no other addresses than confirmed ones";
    for only_confirmed in [false, true] {
        let mails = MailServer::start(&[]);
        let mut config = config(mails.port);
        config.vks.only_confirmed = only_confirmed;
        config.server.contact = "operator@example.org".into();
        let site = Site::start(config);
        let (says, conceals) =
            if only_confirmed { (by_confirmed, by_all) } else { (by_all, by_confirmed) };
        let agrees = |page: &str| page.contains(says) && !page.contains(conceals);
        let cert = make(&["Alice <alice@example.org>"]);
        let request = agent().post(site.url("/pks/add")).header("Accept", "text/html");
        let added = Got::of(request.send_form([("keytext", armored(&cert).as_str())])).text();
        assert!(added.contains("Confirm your addresses"), "{added}");
        let offers = "find your certificate by each address in it, confirmed or not";
        assert_eq!(added.contains(offers), !only_confirmed, "{added}");

        let token = upload(&site, &cert)["token"].clone();
        assert_eq!(request_verify(&site, &token, &["alice@example.org"], &[]).status, 200);
        let mail = mails.mails().pop().unwrap();
        assert!(mail.contains("the address stays unconfirmed"), "{mail}");
        let question = site.open(link(&mail)).text();
        assert!(agrees(&question) && question.contains("is not confirmed then"), "{question}");
        assert_eq!(site.form(link(&mail), &[]).status, 200);

        let (pages, mr) = ("/pks/lookup?op=index&search=alice@example.org", "&options=mr");
        let searches = [pages.to_owned(), format!("{pages}{mr}")];
        let statuses = || searches.each_ref().map(|search| site.open(search).status);
        assert_eq!(statuses(), [200, 200]);
        assert_eq!(site.form("/vks/manage", &[("address", "alice@example.org")]).status, 200);
        let mail = mails.mails().pop().unwrap();
        let left = site.form(link(&mail), &[("address", "alice@example.org")]).text();
        assert!(left.contains("No address of this key is confirmed") && agrees(&left), "{left}");
        assert!(left.contains("can remove an address") && left.contains("operator@example.org"));
        assert_eq!(by_email(&site, "alice@example.org").status, 404);
        assert_eq!(statuses(), if only_confirmed { [404, 404] } else { [200, 200] });
    }
}

#[test]
fn the_first_address_of_a_user_id_gets_the_confirmation_mail() {
    let mails = MailServer::start(&[]);
    let site = site(&mails);
    let attack = make(&[
        "Bank <support@bank.example> <mallory@evil.example>",
        "<support@ban\u{212a}.example>",
        "<support@ba\u{ad}nk.example>",
        "Idn <user@B\u{fc}cher.example>",
    ]);
    let uploaded = upload(&site, &attack);
    // No mail is sent to a domain that a mail server could map to another one.
    let addresses: Vec<&String> = uploaded["status"].as_object().unwrap().keys().collect();
    assert_eq!(addresses, ["support@bank.example", "user@xn--bcher-kva.example"]);
    for refused in ["mallory@evil.example", "support@ban\u{212a}.example"] {
        assert_eq!(request_verify(&site, &uploaded["token"], &[refused], &[]).status, 400);
    }
    assert!(mails.mails().is_empty());
    publish(&site, &mails, &attack, "user@b\u{fc}cher.example");
    assert!(mails.mails()[0].contains("user@xn--bcher-kva.example"));
    for form in ["user@xn--bcher-kva.example", "user@b%C3%BCcher.example"] {
        let got = by_email(&site, form);
        assert_eq!(got.status, 200, "{form}");
        assert_eq!(user_ids(&got.certs()[0]), ["Idn <user@B\u{fc}cher.example>"]);
    }
}

#[test]
fn a_link_ends_when_it_was_used_or_its_address_was_taken_back() {
    let mails = MailServer::start(&[]);
    let site = site(&mails);
    let (old, new) = (make(&["<alice@example.org>"]), make(&["<alice@example.org>"]));
    let ask = |cert: &openpgp::Cert| {
        let token = upload(&site, cert)["token"].clone();
        assert_eq!(request_verify(&site, &token, &["alice@example.org"], &[]).status, 200);
        link(&mails.mails().pop().unwrap()).to_owned()
    };
    let holder = || {
        let got = by_email(&site, "alice@example.org");
        (got.status == 200).then(|| got.certs()[0].fingerprint())
    };
    let first = ask(&old);
    assert_eq!(site.form(&first, &[]).status, 200);
    assert_eq!(holder(), Some(old.fingerprint()));
    // A reload of the page harms nobody.
    assert_eq!(site.form(&first, &[]).status, 200);
    assert!(site.open(&first).text().contains("Your address is confirmed"));
    // The address moves to the new certificate. The old link does not move it back.
    assert_eq!(site.form(&ask(&new), &[]).status, 200);
    assert_eq!(holder(), Some(new.fingerprint()));
    assert_eq!(site.open(&first).status, 400);
    let refused = site.form(&first, &[]);
    assert!(refused.status == 400 && refused.text().contains("it was used"), "{}", refused.text());
    assert_eq!(holder(), Some(new.fingerprint()));
    // What was taken back does not return by a link from before.
    let pending = ask(&old);
    assert_eq!(site.form("/vks/manage", &[("address", "alice@example.org")]).status, 200);
    let manage = link(&mails.mails().pop().unwrap()).to_owned();
    assert_eq!(site.form(&manage, &[("address", "alice@example.org")]).status, 200);
    assert_eq!(holder(), None);
    assert_eq!(site.open(&manage).status, 400, "its own address was taken back");
    // A link that was sent for another certificate was not used.
    assert_eq!(site.form(&pending, &[]).status, 200);
    assert_eq!(holder(), Some(old.fingerprint()));
}

#[test]
fn the_page_after_an_upload_offers_to_confirm_the_addresses() {
    let mails = MailServer::start(&[]);
    let site = site(&mails);
    let cert = make(&["Alice <alice@example.org>", "Alice <alice@work.example>", "no address"]);
    let add = |cert: &openpgp::Cert| {
        let request = agent().post(site.url("/pks/add")).header("Accept", "text/html");
        Got::of(request.send_form([("keytext", armored(cert).as_str())])).text()
    };
    let page = add(&cert);
    assert!(
        page.contains("action=\"/vks/request\"") && page.contains("alice@work.example"),
        "{page}"
    );
    let token = page.split("name=\"token\" value=\"").nth(1).unwrap().split('"').next().unwrap();
    let fields =
        [("token", token), ("address", "alice@example.org"), ("address", "alice@work.example")];
    let sent = site.form("/vks/request", &fields);
    assert_eq!(sent.status, 200, "{}", sent.text());
    assert!(
        sent.text().contains("alice@example.org") && sent.text().contains("alice@work.example")
    );
    let received = mails.mails();
    assert_eq!(received.len(), 2);
    for mail in &received {
        assert_eq!(site.form(link(mail), &[]).status, 200);
    }
    assert_eq!(by_email(&site, "alice@example.org").status, 200);
    // Nothing is left to be confirmed, the page of the certificate says so, and every page leads to
    // the addresses.
    assert!(!add(&cert).contains("/vks/request"));
    let shown = site.open(&format!("/certificate/{}", cert.fingerprint().to_hex())).text();
    assert!(shown.contains("Address confirmed") && shown.contains("href=\"/vks/manage\""));
    // Somebody else's token and addresses that are not in the certificate get no mail.
    for wrong in [
        [("token", "x"), ("address", "alice@example.org")],
        [("token", token), ("address", "eve@example.org")],
    ] {
        assert_eq!(site.form("/vks/request", &wrong).status, 400);
    }
    assert_eq!(site.form("/vks/request", &[("token", token)]).status, 400);
    assert_eq!(mails.mails().len(), 2);
}

#[test]
fn a_list_marks_the_confirmed_address_and_no_other_name() {
    let mails = MailServer::start(&[]);
    let site = site(&mails);
    let eve = make(&["Angela <angela@bund.example>", "Eve <eve@example.org>"]);
    publish(&site, &mails, &eve, "eve@example.org");
    // A stranger has the same address in a certificate that says it is newer.
    let stranger = make(&["Eve <eve@example.org>"]);
    upload(&site, &stranger);
    let list = site.open("/pks/lookup?op=index&search=eve%40example.org").text();
    assert_eq!(list.matches("badge confirmed").count(), 1, "{list}");
    let at = |what: &str| list.find(what).unwrap_or_else(|| panic!("no {what}: {list}"));
    let (heading, item) = (at("Angela"), at("<ul class=\"names\""));
    assert!(heading < item && item < at("badge confirmed"), "{list}");
    let page = |cert: &openpgp::Cert| at(&format!("/certificate/{}", cert.fingerprint().to_hex()));
    assert!(page(&eve) < page(&stranger), "{list}");
}

#[test]
fn the_sign_of_a_confirmed_address_names_it_beside_a_misleading_user_id() {
    let mut config = config(1);
    config.vks.enabled = true;
    let site = Site::start(config);
    // Each user ID has the address of the other end: with two addresses in it, with letters of
    // another script, and with a domain that only looks like one.
    let misleading = [
        ("security@bank.example <eve@evil.example>", Some("eve@evil.example")),
        ("\u{430}lice <eve2@evil.example>", Some("eve2@evil.example")),
        ("Alice <eve3@\u{440}\u{430}ypal.example>", Some("eve3@xn--ypal-43d9g.example")),
        ("Eve <eve4@evil.example>", None),
    ];
    let cert = make(&misleading.map(|(user_id, _)| user_id));
    assert_eq!(site.upload(&cert).status, 200);
    let fingerprint =
        talaria_cert::Fingerprint::V4(cert.fingerprint().as_bytes().try_into().unwrap());
    for (user_id, _) in misleading {
        let address = talaria_cert::Address::of_user_id(user_id.as_bytes()).unwrap();
        let now = talaria_cert::Timestamp::from(crate::site::NOW);
        site.store().keyserver_mut().publish(fingerprint, &address, now).unwrap();
    }
    for path in [
        format!("/certificate/{}", cert.fingerprint().to_hex()),
        format!("/pks/lookup?op=index&search=0x{}", cert.fingerprint().to_hex()),
    ] {
        let body = site.open(&path).text();
        assert_eq!(body.matches("badge confirmed").count(), 4, "{path}: {body}");
        for (_, address) in misleading {
            let Some(address) = address else { continue };
            assert!(
                body.contains(&format!("Address confirmed: <bdi>{address}</bdi>")),
                "{path} {address}: {body}"
            );
        }
        assert_eq!(body.matches("Address confirmed:").count(), 3, "{path}");
    }
}

/// A certificate with some addresses, and these.
fn with_addresses(name: &str, count: usize) -> (openpgp::Cert, Vec<String>) {
    let emails: Vec<String> = (0..count).map(|n| format!("{name}{n}@example.org")).collect();
    let user_ids: Vec<&str> = emails.iter().map(String::as_str).collect();
    (make(&user_ids), emails)
}

#[test]
fn a_certificate_and_a_network_get_a_limited_number_of_mails() {
    let mails = MailServer::start(&[]);
    let mut config = config(mails.port);
    config.rates.exempt = Vec::new();
    let site = Site::start(config);
    let ask = |name: &str, count: usize| {
        let (cert, emails) = with_addresses(name, count);
        let token = upload(&site, &cert)["token"].clone();
        let emails: Vec<&str> = emails.iter().map(String::as_str).collect();
        request_verify(&site, &token, &emails, &[])
    };
    let pending = |got: &Got| got.text().matches("\"pending\"").count();
    // Of one certificate with many addresses, the first get a mail.
    let first = ask("a", 30);
    assert_eq!((first.status, pending(&first), mails.mails().len()), (200, 20, 20));
    assert_eq!(pending(&ask("b", 20)), 20);
    assert_eq!(pending(&ask("c", 20)), 20);
    let over = ask("d", 5);
    assert_eq!((over.status, mails.mails().len()), (429, 60), "{}", over.text());
    assert!(over.header("retry-after").parse::<u64>().unwrap() > 3000);
}

#[test]
fn all_mails_go_over_one_connection() {
    use std::net::TcpListener;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    let mails = MailServer::start(&[]);
    let (listener, behind) = (TcpListener::bind("127.0.0.1:0").unwrap(), mails.port);
    let port = listener.local_addr().unwrap().port();
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&connections);
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            counted.fetch_add(1, Ordering::SeqCst);
            let server = TcpStream::connect(("127.0.0.1", behind)).unwrap();
            for (mut from, mut to) in
                [(client.try_clone().unwrap(), server.try_clone().unwrap()), (server, client)]
            {
                std::thread::spawn(move || std::io::copy(&mut from, &mut to));
            }
        }
    });
    let site = Site::start(config(port));
    let (cert, emails) = with_addresses("a", 10);
    let token = upload(&site, &cert)["token"].clone();
    for email in &emails {
        assert_eq!(request_verify(&site, &token, &[email], &[]).status, 200);
    }
    assert_eq!(mails.mails().len(), 10);
    assert_eq!(connections.load(Ordering::SeqCst), 1);
}

/// A mail server that knows no address whose name starts with "unknown".
fn refusing_mail_server() -> u16 {
    use std::io::{BufRead as _, Write as _};
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut client in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || {
                client.write_all(b"220 refusing\r\n").unwrap();
                let lines = std::io::BufReader::new(client.try_clone().unwrap()).lines();
                let mut in_data = false;
                for line in lines.map_while(Result::ok) {
                    let answer = match line.as_str() {
                        "." => "250 taken",
                        _ if in_data => continue,
                        "DATA" => "354 go on",
                        line if line.starts_with("RCPT") && line.contains("<unknown") => {
                            match line.as_bytes()["RCPT TO:<unknown".len()] {
                                b'1' => "554 no relay",
                                b'2' => "556 no mail here",
                                b'3' => "450 later",
                                _ => "550 nobody",
                            }
                        }
                        _ => "250 fine",
                    };
                    in_data = line == "DATA";
                    client.write_all(format!("{answer}\r\n").as_bytes()).unwrap();
                }
            });
        }
    });
    port
}

#[test]
fn an_address_to_which_no_mail_can_be_sent_is_the_fault_of_the_request() {
    let site = Site::start(config(refusing_mail_server()));
    let cert = make(&["<known@example.org>", "<j\u{f6}rg@example.org>", "<known@[127.0.0.1]>"]);
    let token = upload(&site, &cert)["token"].clone();
    for email in ["j\u{f6}rg@example.org", "known@[127.0.0.1]"] {
        let refused = request_verify(&site, &token, &[email], &[]);
        assert_eq!(refused.status, 400, "{email}: {}", refused.text());
        assert!(refused.text().contains("mail cannot be sent to"), "{}", refused.text());
        // The others get theirs.
        let got = request_verify(&site, &token, &[email, "known@example.org"], &[]);
        assert_eq!(got.status, 200, "{}", got.text());
        assert_eq!(got.value()["status"]["known@example.org"], "pending");
        assert_eq!(got.value()["status"][email], "unpublished");
    }
}

#[test]
fn nobody_learns_which_addresses_the_mail_server_knows() {
    let mut config = config(refusing_mail_server());
    config.rates.exempt = Vec::new();
    let site = Site::start(config);
    let emails = ["known@example.org", "unknown@example.org"];
    let emails = [&emails[..], &["unknown1@example.org", "unknown2@example.org"]].concat();
    let later = "unknown3@example.org";
    let user_ids = emails.iter().chain([&later]).map(|email| format!("<{email}>"));
    let user_ids: Vec<String> = user_ids.collect();
    let user_ids: Vec<&str> = user_ids.iter().map(String::as_str).collect();
    let token = upload(&site, &make(&user_ids))["token"].clone();
    // With those that are refused, the share that the network has of each mailbox is used up as
    // with the others.
    for status in [200, 200, 429] {
        for email in &emails {
            let got = request_verify(&site, &token, &[email], &[]);
            assert_eq!(got.status, status, "{email}: {}", got.text());
            if status == 200 {
                assert_eq!(got.value()["status"][*email], "pending", "{email}");
            }
        }
    }
    let metrics = site.get("/metrics").text();
    for line in ["talaria_mails_total 2", "talaria_mails_refused_total 6"] {
        assert!(metrics.lines().any(|l| l == line), "no {line}");
    }
    // A mail that the server does not take now has reached it, too.
    for status in [503, 503, 429] {
        assert_eq!(request_verify(&site, &token, &[later], &[]).status, status);
    }
    // The limit of the network is used up as well: 8 + 2 + 50 mails.
    let ask = |name: &str| {
        let (cert, emails) = with_addresses(name, 20);
        let token = upload(&site, &cert)["token"].clone();
        let emails: Vec<&str> = emails.iter().map(String::as_str).collect();
        request_verify(&site, &token, &emails, &[])
    };
    for (name, sent) in [("unknown-a", 20), ("unknown-b", 20), ("c", 10)] {
        assert_eq!(ask(name).text().matches("\"pending\"").count(), sent, "{name}");
    }
    assert_eq!(ask("d").status, 429);
}

#[test]
fn a_secret_key_is_refused() {
    let mails = MailServer::start(&[]);
    let site = site(&mails);
    let cert = make(&["Sasha <sasha@example.org>"]);
    let armored = String::from_utf8(cert.as_tsk().armored().to_vec().unwrap()).unwrap();
    let got = site.json("/vks/v1/upload", &json!({ "keytext": armored }));
    assert_eq!(got.status, 400);
    assert!(got.text().contains("this is a secret key"), "{}", got.text());
    let fingerprint = cert.fingerprint().to_hex();
    assert_eq!(site.get(&format!("/vks/v1/by-fingerprint/{fingerprint}")).status, 404);
}
