//! The commands of operators over HTTP.

use crate::site::{Got, Gpg, Site, agent, armored, make, user_ids};
use sequoia_openpgp::serialize::MarshalInto as _;
use serde_json::{Value, json};
use talaria_server::Config;

/// Sends a command to the address for operators.
fn order(site: &Site, action: &str, value: &Value) -> Got {
    let url = site.operator_url(&format!("/admin/{action}"));
    let request = agent().post(url).header("Content-Type", "application/json");
    Got::of(request.send(value.to_string()))
}

fn list(site: &Site) -> Value {
    Got::of(agent().get(site.operator_url("/admin/list")).call()).value()
}

#[test]
fn operators_block_and_redact_over_http() {
    let site = Site::start(Config::default());
    let (alice, bob) =
        (make(&["Alice <alice@example.org>", "Alice at work"]), make(&["<bob@example.org>"]));
    site.upload(&alice);
    site.upload(&bob);
    let [alice_fpr, bob_fpr] = [&alice, &bob].map(|cert| cert.fingerprint().to_hex());
    assert_eq!(list(&site), json!([]));
    let done = order(&site, "block", &json!({ "fingerprints": [bob_fpr] }));
    assert_eq!(done.value()[0]["outcome"], "deleted and blocked", "{}", done.text());
    assert!(site.cert(&bob_fpr).is_none());
    assert_eq!(site.upload(&bob).status, 422);
    let done = order(
        &site,
        "redact",
        &json!({ "fingerprints": [alice_fpr], "user_ids": ["Alice at work"] }),
    );
    assert_eq!(done.value()[0]["outcome"], "redacted", "{}", done.text());
    assert_eq!(user_ids(&site.cert(&alice_fpr).unwrap()), ["Alice <alice@example.org>"]);
    let all = list(&site);
    assert_eq!(all[0]["fingerprint"], bob_fpr);
    assert_eq!(all[0]["what"], "blocked");
    assert!(all[0]["since"].as_str().unwrap().ends_with('Z'));
    assert_eq!(all[1]["what"], "redacted");
    assert_eq!(all[1]["user_id_sha256"].as_str().unwrap().len(), 64);
    for action in ["unblock", "unredact"] {
        order(&site, action, &json!({ "fingerprints": [bob_fpr, alice_fpr] }));
    }
    assert_eq!(list(&site), json!([]));
    assert_eq!(site.upload(&bob).status, 200);
}

#[test]
fn commands_are_closed_to_everybody_else() {
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    std::fs::write(&token, "of-a-test\n").unwrap();
    let mut config = Config::default();
    config.http.operator_token_file = Some(token);
    let site = Site::start(config);
    let cert = make(&["<alice@example.org>"]);
    site.upload(&cert);
    let body = json!({ "fingerprints": [cert.fingerprint().to_hex()] }).to_string();
    let send = |url: String, headers: &[(&str, &str)]| {
        let mut request = agent().post(url);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        Got::of(request.send(body.as_str())).status
    };
    const JSON: (&str, &str) = ("Content-Type", "application/json");
    let public = || site.url("/admin/block");
    assert_eq!(send(public(), &[JSON]), 403);
    assert_eq!(send(public(), &[JSON, ("Authorization", "Bearer of-a-tesT")]), 403);
    assert_eq!(send(public(), &[JSON, ("Host", "localhost")]), 403);
    assert_eq!(site.get("/admin/list").status, 403);
    // The form of another site in the browser of an operator, and a name that leads here.
    let near = || site.operator_url("/admin/block");
    assert_eq!(send(near(), &[("Content-Type", "text/plain")]), 400);
    assert_eq!(send(near(), &[JSON, ("Host", "evil.example")]), 403);
    assert!(site.cert(&cert.fingerprint().to_hex()).is_some(), "nothing was blocked");
    for wrong in [
        json!({}),
        json!({ "fingerprints": [] }),
        json!({ "fingerprints": ["0123"] }),
        json!({ "fingerprints": [cert.fingerprint().to_hex()], "fingerprint": 1 }),
    ] {
        assert_eq!(order(&site, "block", &wrong).status, 400, "{wrong}");
    }
    let no_user_id = json!({ "fingerprints": [cert.fingerprint().to_hex()] });
    assert_eq!(order(&site, "redact", &no_user_id).status, 400);
    assert_eq!(order(&site, "explode", &no_user_id).status, 404);
    assert_eq!(send(public(), &[JSON, ("Authorization", "Bearer of-a-test")]), 200);
    assert!(site.cert(&cert.fingerprint().to_hex()).is_none());
}

#[test]
fn a_redacted_certificate_still_brings_subkeys_and_revocations() {
    let site = Site::start(Config::default());
    let cert = make(&["Alice <alice@example.org>"]);
    let fingerprint = cert.fingerprint().to_hex();
    site.upload(&cert);
    let friend = Gpg::new();
    let file = friend.path().join("cert.pgp");
    std::fs::write(&file, cert.to_vec().unwrap()).unwrap();
    friend.run(&["--import", file.to_str().unwrap()]);
    let done = order(&site, "redact", &json!({ "fingerprints": [fingerprint], "all": true }));
    assert_eq!(done.status, 200, "{}", done.text());
    let served = site.cert(&fingerprint).expect("the key is served");
    assert_eq!((served.userids().count(), served.keys().subkeys().count()), (0, 2));
    assert_eq!(site.get("/pks/lookup?op=get&options=mr&search=alice@example.org").status, 404);
    let page = site.open(&format!("/certificate/{fingerprint}"));
    assert_eq!(page.status, 200);
    assert!(!page.text().contains("alice@example.org"));
    // The owner revokes. Whoever has the certificate learns of it.
    let revocation = crate::site::revocation(&cert, &cert);
    let revoked = cert.insert_packets(revocation).unwrap().0;
    site.form("/pks/add", &[("keytext", &armored(&revoked))]);
    let path = format!("/pks/lookup?op=get&options=mr&search=0x{fingerprint}");
    std::fs::write(&file, site.get(&path).body).unwrap();
    friend.run(&["--import", file.to_str().unwrap()]);
    let listing = friend.run(&["--with-colons", "--list-keys", &fingerprint]);
    assert!(listing.lines().any(|line| line.starts_with("pub:r:")), "{listing}");
    // The server says so, too.
    let index = site.get(&path.replace("op=get", "op=index")).text();
    assert!(index.lines().any(|line| line.starts_with("pub:") && line.ends_with(":r")), "{index}");
    let page = site.open(&format!("/certificate/{fingerprint}"));
    assert!(page.text().contains("<article class=\"certificate revoked\">"), "{}", page.text());
}

fn log(site: &Site) -> Value {
    Got::of(agent().get(site.operator_url("/admin/log")).call()).value()
}

#[test]
fn commands_are_recorded_with_their_author_and_reason() {
    let site = Site::start(Config::default());
    let cert = make(&["<alice@example.org>"]);
    site.upload(&cert);
    let fingerprint = cert.fingerprint().to_hex();
    assert_eq!(log(&site), json!([]));
    let why = "request of 2026-11-20\n\u{1b}[31m";
    let body = json!({ "fingerprints": [fingerprint], "who": "bob", "reason": why });
    order(&site, "block", &body);
    order(&site, "unblock", &json!({ "fingerprints": [fingerprint] }));
    // One that is refused is no order.
    assert_eq!(order(&site, "block", &json!({ "fingerprints": ["0123"] })).status, 400);
    let all = log(&site);
    assert_eq!(all.as_array().unwrap().len(), 2, "{all}");
    let (block, unblock) = (&all[0], &all[1]);
    assert_eq!(
        (&block["action"], &block["who"], &block["outcome"], &block["reason"]),
        (&json!("block"), &json!("bob"), &json!("deleted and blocked"), &json!(why))
    );
    assert_eq!((&block["fingerprint"], &block["from"]), (&json!(fingerprint), &json!("127.0.0.1")));
    assert_eq!((&unblock["who"], &unblock["reason"]), (&json!("operator"), &Value::Null));
    assert_eq!(site.get("/admin/log").status, 403);
    // A command that cannot be recorded is not carried out.
    let path = site.folder.path().join("certs.db.audit");
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    site.upload(&cert);
    let refused = order(&site, "delete", &json!({ "fingerprints": [fingerprint] }));
    assert_eq!(refused.status, 503, "{}", refused.text());
    assert!(!refused.text().contains("certs.db"));
    assert!(site.cert(&fingerprint).is_some());
}

/// Somebody else could upload the certificate again, and the address would be published as before.
#[test]
fn deletion_ends_the_confirmations_of_addresses() {
    let site = Site::start(Config::default());
    let cert = make(&["<alice@example.org>"]);
    let stored = talaria_cert::Cert::parse(&cert.to_vec().unwrap()).unwrap();
    let (fingerprint, address) = (stored.fingerprint(), "alice@example.org".parse().unwrap());
    for actions in [&["delete"][..], &["block", "unblock"]] {
        site.upload(&cert);
        let mut store = site.store();
        store.keyserver_mut().publish(fingerprint, &address, crate::site::NOW.into()).unwrap();
        assert_eq!(store.keyserver().published(fingerprint).unwrap().len(), 1);
        for action in actions {
            let done = order(&site, action, &json!({ "fingerprints": [fingerprint.to_string()] }));
            assert_eq!(done.status, 200, "{}", done.text());
        }
        site.upload(&cert);
        let store = site.store();
        assert!(store.row(fingerprint).unwrap().is_some());
        assert!(store.keyserver().published(fingerprint).unwrap().is_empty(), "{actions:?}");
    }
}

#[test]
fn requests_of_banned_networks_are_refused_and_counted() {
    let mut config = Config::default();
    config.http.banned = vec!["192.0.2.0/24".parse().unwrap(), "2001:db8::/32".parse().unwrap()];
    config.http.proxies = vec!["127.0.0.0/8".parse().unwrap()];
    let site = Site::start(config);
    let from = |address: &str| {
        let request = agent().get(site.url("/pks/lookup?op=stats&options=mr"));
        Got::of(request.header("X-Forwarded-For", address).call()).status
    };
    for (address, status) in [
        ("192.0.2.77", 403),
        ("::ffff:192.0.2.1", 403),
        ("2001:db8::1", 403),
        ("198.51.100.1", 200),
        ("2001:db9::1", 200),
    ] {
        assert_eq!(from(address), status, "{address}");
    }
    assert_eq!(site.metric("banned_total"), 3);
}
