//! Whose word counts: an address names a signer, an author or an owner only if the user has
//! confirmed the certificate.

use std::fs;

use crate::program::Program;

/// A user with a key, and two people who claim one address: its owner, and a stranger.
struct Site {
    user: Program,
    alice: Program,
    mallory: Program,
}

const ADDRESS: &str = "alice@example.org";

impl Site {
    fn new() -> Self {
        let site = Self { user: Program::new(), alice: Program::new(), mallory: Program::new() };
        site.user.ok(&["key", "generate", "--no-passphrase", "Me <me@example.org>"]);
        fs::write(site.at("doc"), "a document\n").unwrap();
        for (name, person, user_id) in [
            ("alice", &site.alice, "Alice <alice@example.org>"),
            ("mallory", &site.mallory, "Mallory <alice@example.org>"),
        ] {
            person.ok(&["key", "generate", "--no-passphrase", "--expires", "30d", user_id]);
            person.ok(&["export", "-a", "-o", &site.at(&format!("{name}.asc"))]);
            person.ok(&["sign", &site.at("doc"), "-o", &site.at(&format!("{name}.sig"))]);
        }
        site
    }

    fn at(&self, name: &str) -> String {
        self.user.path(name).to_str().unwrap().to_owned()
    }

    fn fingerprint(person: &Program) -> String {
        let json = person.ok(&["--json", "list"]);
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        json["fingerprint"].as_str().unwrap().to_owned()
    }

    /// The exit status of a verification of a person's signature with more options, and the
    /// messages.
    fn verify(&self, who: &str, options: &[&str]) -> (i32, String) {
        let (signature, doc) = (self.at(&format!("{who}.sig")), self.at("doc"));
        let output = self.user.run(&[&["verify", &signature, &doc], options].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code().unwrap(), said)
    }
}

#[test]
fn an_address_names_a_signer_only_if_it_is_confirmed() {
    let site = Site::new();
    let signer = ["--signer", ADDRESS];
    site.user.ok(&["import", &site.at("mallory.asc")]);
    // Trust on first sight, a default policy and a model that checks nothing confirm nobody.
    for model in [
        &[][..],
        &["--trust-model", "tofu"],
        &["--trust-model", "tofu", "--tofu-default-policy", "good"],
        &["--trust-model", "always"],
    ] {
        let (status, said) = site.verify("mallory", &[&signer, model].concat());
        assert_eq!(status, 1, "{model:?}: {said}");
        assert!(
            said.contains("no certificate is confirmed to belong to alice@example.org"),
            "{said}"
        );
        let mallory = Site::fingerprint(&site.mallory);
        assert!(said.contains(&format!("talaria certify --local {mallory}")), "{said}");
    }
    let alice = Site::fingerprint(&site.alice);
    site.user.ok(&["import", &site.at("alice.asc")]);
    assert_eq!(site.verify("alice", &signer).0, 1);
    assert_eq!(site.verify("alice", &["--signer", &alice]).0, 0);
    // A stranger who claims the address does not make a confirmed certificate ambiguous.
    site.user.ok(&["certify", "--local", &alice]);
    assert_eq!(site.verify("alice", &signer).0, 0);
    assert_eq!(site.verify("mallory", &signer).0, 1);
    // Nobody takes the place of an expired or revoked one.
    let later = (seconds_now() + 60 * 86400).to_string();
    let late = ["--faked-time", &later];
    assert_eq!(site.verify("mallory", &[&signer, &late[..]].concat()).0, 1);
    assert_eq!(site.verify("alice", &[&signer, &late[..]].concat()).0, 0);
    let revocation = site.at("revocation.asc");
    site.alice.ok(&["key", "revoke", "--reason", "compromised", ADDRESS, "-o", &revocation]);
    site.user.ok(&["import", &revocation]);
    assert_eq!(site.verify("mallory", &signer).0, 1);
    assert_eq!(site.verify("alice", &signer).0, 1);
}

#[test]
fn two_confirmed_certificates_may_both_sign_and_a_right_goes_to_one() {
    let site = Site::new();
    let folder = site.at("log");
    let log = |args: &[&str]| {
        let output = site.user.run(&[&["--json", "log", "--log", &folder], args].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code().unwrap(), said)
    };
    assert_eq!(log(&["init"]).0, 0);
    site.user.ok(&["import", &site.at("alice.asc"), &site.at("mallory.asc")]);
    let (alice, mallory) = (Site::fingerprint(&site.alice), Site::fingerprint(&site.mallory));
    let repository = site.at("backup");
    let state = site.at("state");
    let backup = |args: &[&str]| {
        let mut command = site.user.command(&[&["backup", "--repo", &repository], args].concat());
        let output = command.env("TALARIA_BACKUP_STATE", &state).output().unwrap();
        (output.status.code().unwrap(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    assert_eq!(backup(&["init", "--profile", "rfc4880"]).0, 0);
    // Nobody gets a right by a claim.
    for (status, said) in [
        log(&["grant", ADDRESS]),
        log(&["init", "--owner", ADDRESS]),
        backup(&["client", "add", ADDRESS]),
        backup(&["key", "add", ADDRESS]),
    ] {
        assert!(status == 1 && said.contains("no certificate is confirmed"), "{said}");
    }
    site.user.fails(&["trust", "set", ADDRESS, "full"], 1);
    site.user.ok(&["certify", "--local", &alice]);
    assert_eq!(log(&["grant", ADDRESS]).0, 0);
    site.user.ok(&["trust", "set", ADDRESS, "full"]);
    site.user.ok(&["certify", "--local", &mallory]);
    assert_eq!(site.verify("alice", &["--signer", ADDRESS]).0, 0);
    assert_eq!(site.verify("mallory", &["--signer", ADDRESS]).0, 0);
    let both = ["--signer", &alice, "--signer", &mallory];
    assert_eq!(site.verify("alice", &both).0, 1);
    for (status, said) in [log(&["grant", ADDRESS]), backup(&["client", "add", ADDRESS])] {
        assert!(status == 1 && said.contains("ambiguous"), "{said}");
    }
    let exact = [log(&["grant", &mallory]), backup(&["client", "add", &alice])];
    assert!(exact.iter().all(|(status, _)| *status == 0), "{exact:?}");
    // A decision against a certificate takes its word, and the other one is left.
    site.user.ok(&["tofu", "policy", &mallory, "bad"]);
    assert_eq!(site.verify("mallory", &["--signer", ADDRESS]).0, 1);
    assert_eq!(site.verify("mallory", &["--signer", &mallory]).0, 1);
    assert_eq!(backup(&["key", "add", ADDRESS]).0, 0);
    assert_eq!(log(&["grant", &mallory]).0, 1);
}

#[test]
fn a_file_of_signers_needs_no_store() {
    let site = Site::new();
    let file = |name: &str| ["--signer-file".to_owned(), site.at(name)];
    let verify = |who: &str, files: &[&str], store: &str| {
        let mut options: Vec<String> = files.iter().flat_map(|name| file(name)).collect();
        options.extend(["--store".to_owned(), store.to_owned()]);
        let (signature, doc) = (site.at(&format!("{who}.sig")), site.at("doc"));
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_talaria"));
        command.args(["verify", &signature, &doc]).args(&options).env("TALARIA_CONFIG", "");
        let output = command.output().unwrap();
        (output.status.code().unwrap(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (none, store) = (site.at("no.db"), site.user.store().to_str().unwrap().to_owned());
    site.alice.ok(&["export", "-o", &site.at("alice.pgp")]);
    let ring = [site.at("alice.pgp"), site.at("mallory.pgp")];
    site.mallory.ok(&["export", "-o", &ring[1]]);
    fs::write(
        site.at("both.pgp"),
        [fs::read(&ring[0]).unwrap(), fs::read(&ring[1]).unwrap()].concat(),
    )
    .unwrap();
    for store in [&none, &store] {
        assert_eq!(verify("alice", &["alice.asc"], store).0, 0);
        assert_eq!(verify("alice", &["alice.pgp"], store).0, 0);
        assert_eq!(verify("mallory", &["alice.asc"], store).0, 1);
        // A keyring names people of whom one must have signed; each file is one more signer.
        assert_eq!(verify("mallory", &["both.pgp"], store).0, 0);
        assert_eq!(verify("alice", &["alice.asc", "both.pgp"], store).0, 0);
        let (status, said) = verify("alice", &["alice.asc", "mallory.asc"], store);
        assert!(status == 1 && said.contains(&Site::fingerprint(&site.mallory)), "{said}");
    }
    assert!(!site.user.path("no.db").exists());
    let (status, said) = verify("alice", &["doc"], &none);
    assert!(status == 3 && said.contains("no OpenPGP data found"), "{said}");
    assert_eq!(verify("alice", &["missing.asc"], &none).0, 5);
    // What the store knows of a certificate counts, too.
    let revocation = site.at("revocation.asc");
    site.alice.ok(&["key", "revoke", "--reason", "compromised", ADDRESS, "-o", &revocation]);
    site.user.ok(&["import", &site.at("alice.asc"), &revocation]);
    assert_eq!(verify("alice", &["alice.asc"], &store).0, 1);
    assert_eq!(verify("alice", &["alice.asc"], &none).0, 0);
}

#[test]
fn only_a_confirmed_certificate_is_listed_with_a_tick() {
    let site = Site::new();
    site.user.ok(&["import", &site.at("alice.asc"), &site.at("mallory.asc")]);
    let (alice, mallory) = (Site::fingerprint(&site.alice), Site::fingerprint(&site.mallory));
    let short = |who: &str| site.user.ok(&["list", "--format", "short", who]);
    let words = |who: &str| {
        let (listed, shown) = (site.user.ok(&["list", who]), site.user.ok(&["show", who]));
        let word = |text: &str| {
            let line = text.lines().find(|line| line.starts_with("uid")).unwrap().to_owned();
            line.split(['[', ']']).nth(1).unwrap().trim().to_owned()
        };
        assert_eq!(word(&listed), word(&shown));
        let json = site.user.ok(&["--json", "list", who]);
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["confirmed"], json["user_ids"][0]["confirmed"]);
        (word(&listed), json["confirmed"].as_bool().unwrap_or_default())
    };
    assert!(short(&alice).starts_with("○ ") && short("me@example.org").starts_with("✓ "));
    assert_eq!(words(&alice), ("usable".to_owned(), false));
    assert_eq!(words("me@example.org"), ("confirmed".to_owned(), true));
    site.user.ok(&["certify", "--local", &alice]);
    site.user.ok(&["tofu", "policy", &mallory, "bad"]);
    assert!(short(&alice).starts_with("✓ ") && short(&mallory).starts_with("⊘ "));
    assert_eq!(words(&alice), ("confirmed".to_owned(), true));
    assert_eq!(words(&mallory), ("bad".to_owned(), false));
}

fn seconds_now() -> u64 {
    std::time::UNIX_EPOCH.elapsed().unwrap().as_secs()
}
