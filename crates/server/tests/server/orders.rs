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
