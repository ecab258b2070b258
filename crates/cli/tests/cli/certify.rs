//! Certifying the user IDs of others: attempts of attackers, and comparisons with `gpg`.

use std::fs;

use serde_json::Value;

use crate::keys::{DAY, THEN, User, has_gpg};
use crate::program::Serving;

/// Alice with her own key, and a store with the certificates of others.
struct Alice {
    user: User,
    fingerprint: String,
}

impl Alice {
    fn new() -> Self {
        let user = User::new();
        let fingerprint = user.generate("alice", "--no-passphrase");
        Self { user, fingerprint }
    }

    /// Makes another user with a key for NAME@example.org, and imports the certificate.
    fn meet(&self, name: &str) -> (User, String) {
        let other = User::new();
        let fingerprint = other.generate(name, "--no-passphrase");
        self.update(&other);
        (other, fingerprint)
    }

    /// Imports the certificate of another user again.
    fn update(&self, other: &User) {
        other.ok_at(
            THEN,
            &format!("export -o {} --overwrite --signatures all", self.user.path("theirs")),
        );
        self.user.ok_at(THEN, "import theirs");
    }

    fn certify(&self, words: &str) -> String {
        self.user.ok_at(THEN + DAY, &format!("certify {words}"))
    }

    fn fails(&self, words: &str, status: i32) -> String {
        self.user.fails_at(THEN + DAY, &format!("certify {words}"), status)
    }

    /// The JSON report of `certify`.
    fn report(&self, words: &str) -> Value {
        serde_json::from_str(&self.certify(&format!("{words} --json"))).unwrap()
    }

    /// The valid user IDs of a certificate.
    fn believed(&self, fingerprint: &str) -> Vec<String> {
        let listed = self
            .user
            .run(&format!("--faked-time {} trust path {fingerprint} --json", THEN + 2 * DAY));
        let text = String::from_utf8(listed.stdout).unwrap();
        let path = |line: &str| -> Value { serde_json::from_str(line).unwrap() };
        text.lines().map(|line| path(line)["user_id"].as_str().unwrap().to_owned()).collect()
    }
}

/// A user ID packet.
fn user_id_packet(text: &str) -> Vec<u8> {
    [&[0xcd, u8::try_from(text.len()).unwrap()], text.as_bytes()].concat()
}

#[test]
fn encrypt_warns_until_the_certificate_is_certified() {
    let alice = Alice::new();
    let (_bob, fingerprint) = alice.meet("bob");
    let encrypt =
        format!("--faked-time {} encrypt plain --to bob@example.org -o m --overwrite", THEN + DAY);
    let before = alice.user.run(&encrypt);
    assert!(before.status.success() && !before.stderr.is_empty(), "{before:?}");
    alice.user.fails(&format!("{encrypt} --trusted-only"), 1);
    assert!(alice.believed(&fingerprint).is_empty());

    let said = alice.certify(&fingerprint);
    assert!(said.contains("[  full   ] bob@example.org"), "{said}");
    let after = alice.user.run(&encrypt);
    assert!(after.status.success() && after.stderr.is_empty(), "{after:?}");
    alice.user.ok(&format!("{encrypt} --trusted-only"));
    assert_eq!(alice.believed(&fingerprint), ["bob@example.org"]);
    // The same certification is not made twice.
    let again = alice.report(&fingerprint);
    assert_eq!(again["user_ids"][0]["before"], true, "{again}");
    alice.user.program.assert_clean();
}

/// The owner of a certificate can add any user ID, for example the address of a bank.
#[test]
fn an_address_certifies_no_other_user_id_of_the_certificate() {
    let alice = Alice::new();
    let (bob, fingerprint) = alice.meet("bob");
    for evil in
        ["bank@example.com", "bob@example.org.evil.example", "Bob <bob@example.org> <x@y.z>"]
    {
        bob.run_with(
            &[
                "--faked-time",
                &(THEN + 1).to_string(),
                "key",
                "add-user-id",
                "bob@example.org",
                evil,
            ],
            b"",
        );
    }
    alice.update(&bob);
    let report = alice.report("bob@example.org");
    assert_eq!(report["fingerprint"], fingerprint.as_str());
    let certified = report["user_ids"].as_array().unwrap();
    let texts: Vec<&str> = certified.iter().map(|id| id["user_id"].as_str().unwrap()).collect();
    assert!(texts.contains(&"bob@example.org"), "{report}");
    assert!(!texts.contains(&"bank@example.com"), "{report}");
    assert!(!texts.contains(&"bob@example.org.evil.example"), "{report}");
    assert!(report["left_out"].to_string().contains("bank@example.com"), "{report}");
    assert!(!alice.believed(&fingerprint).iter().any(|id| id.contains("bank")));
}

/// Anybody who transmits a certificate can append a user ID to it.
#[test]
fn a_user_id_that_its_holder_did_not_sign_is_never_certified() {
    let alice = Alice::new();
    let (bob, fingerprint) = alice.meet("bob");
    let mut cert = bob.program.run(&["export", "bob"]).stdout;
    cert.extend(user_id_packet("Bob <bob@evil.example>"));
    alice.user.write("forged", &cert);
    alice.user.ok_at(THEN, "import forged");
    let report = alice.report(&fingerprint);
    assert_eq!(report["user_ids"].as_array().unwrap().len(), 1, "{report}");
    assert_eq!(report["user_ids"][0]["user_id"], "bob@example.org");
    for name in [
        format!("{fingerprint} --user-id bob@evil.example"),
        "bob@evil.example".to_owned(),
        "<bob@evil.example>".to_owned(),
    ] {
        let err = alice.fails(&name, 1);
        assert!(err.contains("no valid user ID"), "{err}");
    }
}

#[test]
fn certify_refuses_a_part_of_a_name_and_shows_candidates() {
    let alice = Alice::new();
    let (_bob, fingerprint) = alice.meet("bob");
    let subkey = |at: usize| {
        let listed = alice.user.ok_at(THEN, "list --json bob");
        let json: Value = serde_json::from_str(&listed).unwrap();
        json["subkeys"][at]["fingerprint"].as_str().unwrap().to_owned()
    };
    let id = &fingerprint[24..];
    for name in
        ["bob", "example.org", "ob@example.org", "@example.org", "*bob@example.org", ".org", id]
            .into_iter()
            .map(str::to_owned)
            .chain([subkey(0), subkey(1), format!("0x{id}")])
    {
        let err = alice.fails(&name, 1);
        assert!(err.contains(&fingerprint) && err.contains("bob@example.org"), "{name}: {err}");
    }
    alice.fails("nobody@example.org", 1);
    alice.fails(&format!("{fingerprint} --user-id bob"), 1);
    alice.fails(&format!("{fingerprint} --user-id example.org"), 1);
    assert!(alice.believed(&fingerprint).is_empty());
    for name in ["BOB@example.org", "<bob@example.org>", "=bob@example.org"] {
        alice.certify(name);
    }
    assert_eq!(alice.believed(&fingerprint), ["bob@example.org"]);
}

/// A user who imports certificates from mails also has the attacker's certificate in the store.
#[test]
fn certify_refuses_an_address_of_two_certificates() {
    let alice = Alice::new();
    let (_bob, right) = alice.meet("bob");
    let (evil, wrong) = alice.meet("bob");
    let err = alice.fails("bob@example.org", 1);
    assert!(err.contains(&right) && err.contains(&wrong), "{err}");
    assert!(alice.believed(&right).is_empty() && alice.believed(&wrong).is_empty());
    alice.certify(&right);
    assert_eq!(alice.believed(&right), ["bob@example.org"]);
    // A revoked certificate is not a candidate.
    evil.ok_at(THEN + 1, "key revoke --yes bob");
    alice.update(&evil);
    alice.certify("bob@example.org");
    assert!(alice.believed(&wrong).is_empty());
}

#[test]
fn certify_refuses_revoked_and_expired_certificates() {
    let alice = Alice::new();
    let (bob, revoked) = alice.meet("bob");
    bob.ok_at(THEN + 1, "key revoke --yes bob");
    alice.update(&bob);
    for name in [&revoked[..], "bob@example.org"] {
        let err = alice.fails(name, 1);
        assert!(err.contains("is revoked"), "{err}");
    }
    let (carol, expired) = alice.meet("carol");
    carol.ok_at(THEN + 1, "key expire carol 1d");
    alice.update(&carol);
    let certify = format!("certify {expired}");
    let err = alice.user.fails_at(THEN + 3 * DAY, &certify, 1);
    assert!(err.contains("expired"), "{err}");
    // A user ID alone can be revoked as well.
    let (dave, fingerprint) = alice.meet("dave");
    dave.ok_at(THEN + 1, "key add-user-id dave dave@example.net");
    dave.ok_at(THEN + 2, "key revoke --yes dave --user-id dave@example.org");
    alice.update(&dave);
    alice.fails("dave@example.org", 1);
    alice.fails(&format!("{fingerprint} --user-id dave@example.org"), 1);
    let report = alice.report(&fingerprint);
    assert_eq!(report["user_ids"].as_array().unwrap().len(), 1, "{report}");
    assert_eq!(alice.believed(&fingerprint), ["dave@example.net"]);
}

#[test]
fn a_key_without_the_certify_flag_certifies_nothing() {
    let alice = Alice::new();
    let (_bob, fingerprint) = alice.meet("bob");
    let err = alice.fails(&alice.fingerprint, 2);
    assert!(err.contains("is your own key"), "{err}");
    let err = alice.fails(&format!("{fingerprint} --with nobody"), 1);
    assert!(err.contains("no secret key found"), "{err}");
    alice.fails(&format!("{fingerprint} --expires now"), 2);
    alice.fails(&format!("{fingerprint} --depth 0"), 2);
    alice.fails(&format!("{fingerprint} --amount 60"), 2);
    alice.user.ok_at(THEN + 1, "key revoke --yes alice");
    let err = alice.fails(&format!("{fingerprint} --with alice"), 1);
    assert!(err.contains("is revoked"), "{err}");
    let err = alice.fails(&fingerprint, 1);
    assert!(err.contains("no secret key that can certify"), "{err}");
    assert!(alice.believed(&fingerprint).is_empty());
}

/// Certifications by a trusted introducer count; certifications by a certified user do not.
#[test]
fn only_trusted_introducers_confirm_identities() {
    for (words, is_believed) in [("", false), ("--depth 1", true), ("--depth 1 --amount 60", false)]
    {
        let alice = Alice::new();
        let (bob, fingerprint) = alice.meet("bob");
        let (carol, hers) = alice.meet("carol");
        carol.ok_at(THEN, &format!("export -o {} --overwrite", bob.path("carol")));
        bob.ok_at(THEN, "import carol");
        bob.ok_at(THEN + 1, &format!("certify {hers}"));
        bob.ok_at(THEN + 1, &format!("export carol -o {} --overwrite", alice.user.path("carol")));
        alice.user.ok_at(THEN + 2, "import carol");
        assert!(alice.believed(&hers).is_empty());
        alice.certify(format!("{fingerprint} {words}").trim_end());
        let believed = alice.user.run(&format!(
            "--faked-time {} encrypt plain --to carol@example.org -o m --overwrite --trusted-only",
            THEN + 2 * DAY
        ));
        let by_wot = format!("--faked-time {} trust path {hers} --model wot", THEN + 2 * DAY);
        let by_wot = alice.user.run(&by_wot);
        if words.is_empty() {
            assert!(!believed.status.success(), "{believed:?}");
        }
        if is_believed {
            assert!(by_wot.status.success(), "{by_wot:?}");
        }
    }
}

#[test]
fn a_certification_expires_on_its_date() {
    let alice = Alice::new();
    let (_bob, fingerprint) = alice.meet("bob");
    alice.certify(&format!("{fingerprint} --expires 10d"));
    let encrypt = "encrypt plain --to bob@example.org -o m --overwrite --trusted-only";
    alice.user.ok_at(THEN + 5 * DAY, encrypt);
    alice.user.fails_at(THEN + 12 * DAY, encrypt, 1);
    // A newer certification replaces the older one, with a longer or a shorter validity.
    alice.certify(&format!("{fingerprint} --expires never"));
    alice.user.ok_at(THEN + 12 * DAY, encrypt);
    alice.certify(&format!("{fingerprint} --expires 3d"));
    alice.user.fails_at(THEN + 5 * DAY, encrypt, 1);
}

#[test]
fn a_local_certification_counts_here_and_is_never_exported() {
    let alice = Alice::new();
    let (_bob, fingerprint) = alice.meet("bob");
    alice.certify(&format!("{fingerprint} --local"));
    assert_eq!(alice.believed(&fingerprint), ["bob@example.org"]);
    let count = |words: &str| {
        let bytes = alice.user.run(&format!("export {fingerprint}{words}")).stdout;
        let elsewhere = User::new();
        elsewhere.write("ring", &bytes);
        elsewhere.ok_at(THEN, "import ring");
        let listed = elsewhere.ok_at(THEN, &format!("show {fingerprint} --json"));
        listed.matches(&alice.fingerprint[24..]).count()
    };
    assert_eq!(count(""), 0);
    assert_eq!(count(" --signatures minimal"), 0);
    assert!(count(" --signatures all") > 0);
    alice.user.ok_at(THEN, &format!("dump {}", alice.user.path("dumped")));
    let dumped = fs::read_dir(alice.user.path("dumped")).unwrap();
    for entry in dumped.map(|entry| entry.unwrap().path()).filter(|path| path.is_file()) {
        let elsewhere = User::new();
        let imported = elsewhere.run(&format!("import {}", entry.display()));
        if imported.status.success() {
            let listed = elsewhere.run(&format!("show {fingerprint} --json")).stdout;
            let listed = String::from_utf8(listed).unwrap();
            assert!(!listed.contains(&alice.fingerprint[24..]), "{listed}");
        }
    }
    if has_gpg() {
        fs::write(alice.user.path("all"), {
            let own = alice.user.run("export --signatures all");
            own.stdout
        })
        .unwrap();
        // gpg imports local certifications only with an option, and does not export them either.
        alice.user.gpg_ok("--import-options import-local-sigs --import all");
        let listed = alice.user.gpg_ok(&format!("--with-colons --check-sigs {fingerprint}"));
        let listed = String::from_utf8(listed).unwrap();
        let local = |line: &&str| line.contains(&alice.fingerprint[24..]) && line.contains(":10l:");
        assert!(listed.lines().find(local).unwrap().starts_with("sig:!:"), "{listed}");
    }
    // A keyserver on the store serves no local certifications.
    let server = Serving::start(&alice.user.program, &[]);
    let got = |user: &User| {
        let path = format!("/pks/lookup?op=get&options=mr&search=0x{fingerprint}");
        let (status, text) = server.get(&path);
        assert_eq!(status, 200, "{text}");
        user.write("got", text.as_bytes());
        user.ok("import got");
        user.ok(&format!("show {fingerprint} --json")).contains(&alice.fingerprint[24..])
    };
    assert!(!got(&User::new()));
    alice.user.ok_at(THEN + 2 * DAY, &format!("certify {fingerprint}"));
    assert!(got(&User::new()));
    drop(server);
}

#[test]
fn gpg_accepts_certifications_and_computes_the_same_validity() {
    if !has_gpg() {
        return;
    }
    for words in ["", "--depth 1", "--depth 2 --amount 60", "--expires 2040-01-01"] {
        let alice = Alice::new();
        let (_bob, fingerprint) = alice.meet("bob");
        alice.certify(format!("{fingerprint} {words}").trim_end());
        fs::write(alice.user.path("all"), alice.user.run("export").stdout).unwrap();
        alice.user.gpg_ok("--import all");
        let listed = alice.user.gpg_ok(&format!("--with-colons --check-sigs {fingerprint}"));
        let listed = String::from_utf8(listed).unwrap();
        let by_alice = listed.lines().find(|line| line.contains(&alice.fingerprint[24..])).unwrap();
        assert!(by_alice.starts_with("sig:!:"), "{words}: {listed}");
        let fields: Vec<&str> = by_alice.split(':').collect();
        assert_eq!(fields[10], "10x", "{by_alice}");
        let trust = match words {
            "--depth 1" => "1 120",
            "--depth 2 --amount 60" => "2 60",
            _ => "",
        };
        assert_eq!(fields[7], trust, "{by_alice}");
        alice.user.write("owner", format!("{}:6:\n", alice.fingerprint).as_bytes());
        alice.user.gpg_ok("--import-ownertrust owner");
        let listed = alice.user.gpg_ok(&format!("--with-colons --list-keys {fingerprint}"));
        let listed = String::from_utf8(listed).unwrap();
        let uid = listed.lines().find(|line| line.starts_with("uid:")).unwrap();
        assert!(uid.starts_with("uid:f:"), "{uid}");
    }
}

/// Version 6 keys certify and are certified like version 4 keys.
#[test]
fn version_6_keys_certify_and_are_certified() {
    let alice = User::new();
    alice.generate("alice", "--no-passphrase --profile rfc9580");
    let bob = User::new();
    let fingerprint = bob.generate("bob", "--no-passphrase --profile rfc9580");
    bob.ok_at(THEN, &format!("export -o {} --overwrite", alice.path("theirs")));
    alice.ok_at(THEN, "import theirs");
    alice.ok_at(THEN + DAY, &format!("certify {fingerprint}"));
    alice.ok_at(THEN + DAY, "encrypt plain --to bob@example.org -o m --overwrite --trusted-only");
}

/// The records of `--with-colons` that both programs print equally: keys, user IDs and
/// fingerprints.
fn records(listing: &str) -> Vec<String> {
    let wanted = ["pub:", "sub:", "uid:", "fpr:"];
    let mut records: Vec<String> = listing
        .lines()
        .filter(|line| wanted.iter().any(|kind| line.starts_with(kind)))
        .map(|line| {
            let mut fields: Vec<&str> = line.split(':').collect();
            // Validity and owner trust depend on the trust settings of each program; only bad
            // validity is compared.
            if !matches!(fields[1], "r" | "e") {
                fields[1] = "";
            }
            if fields[0] == "pub" {
                fields[8] = "";
            }
            fields.truncate(12);
            fields.join(":")
        })
        .collect();
    records.sort();
    records
}

#[test]
fn gpg_lists_changed_keys_like_talaria() {
    if !has_gpg() {
        return;
    }
    for algorithm in ["curve25519", "rsa3072"] {
        let user = User::new();
        let fingerprint = user.generate("alice", "--passphrase-file pw");
        let given = "--passphrase-file pw";
        let add = |time: u32, words: &str| {
            let text = user.ok_at(
                time,
                &format!("key add-subkey alice --algorithm {algorithm} {words} {given} --json"),
            );
            let json: Value = serde_json::from_str(&text).unwrap();
            json["added"].as_str().unwrap().to_owned()
        };
        let signing = add(THEN + 10, "--sign --expires 9y");
        let encryption = add(THEN + 11, "--encrypt");
        let login = add(THEN + 12, "--authenticate");
        user.ok_at(
            THEN + 13,
            &format!("key add-user-id alice alice@example.net --primary {given}"),
        );
        user.ok_at(THEN + 14, &format!("key add-user-id alice alice@example.com {given}"));
        let revoke = format!("key revoke --yes alice --subkey {login} --reason retired {given}");
        user.ok_at(THEN + 20, &revoke);

        user.ok_at(THEN + 30, "key export alice -o exported --overwrite");
        user.gpg_ok("--import exported");
        let theirs = user.gpg_ok("--with-colons --fixed-list-mode --list-keys alice");
        let theirs = String::from_utf8(theirs).unwrap();
        let ours = user.ok("list --with-colons alice");
        assert_eq!(records(&ours), records(&theirs));
        for (subkey, is_revoked) in [(&signing, false), (&encryption, false), (&login, true)] {
            let listed = theirs
                .lines()
                .find(|line| line.starts_with("sub:") && line.contains(&subkey[24..]));
            assert_eq!(listed.unwrap().starts_with("sub:r:"), is_revoked, "{theirs}");
        }
        // Both programs use the new subkeys and user IDs.
        user.ok("sign plain -o s --overwrite --passphrase-file pw");
        let status = user.gpg_ok("--status-fd 1 --verify s plain");
        assert!(String::from_utf8(status).unwrap().contains(&format!("VALIDSIG {signing}")));
        user.ok("encrypt plain --to alice@example.org -o message --overwrite");
        let listed = user.gpg("--batch --list-packets message");
        let listed = String::from_utf8(listed.stdout).unwrap();
        assert!(listed.contains(&encryption[24..]), "{listed}");
        assert_eq!(user.gpg_ok("--decrypt message"), b"attack at dawn\n");
        assert_eq!(user.ok("decrypt message --passphrase-file pw"), "attack at dawn\n");
        let listed = user.ok("list --json alice");
        let json: Value = serde_json::from_str(&listed).unwrap();
        assert_eq!(json["fingerprint"], fingerprint.as_str());
    }
}

#[test]
fn a_new_subkey_has_the_passphrase_of_its_key() {
    for profile in ["rfc4880", "rfc9580"] {
        let user = User::new();
        user.generate("alice", &format!("--passphrase-file pw --profile {profile}"));
        let add = "key add-subkey alice --encrypt --passphrase-file";
        let err = user.fails_at(THEN + 1, &format!("{add} other-pw"), 1);
        assert!(err.contains("the passphrase is wrong"), "{err}");
        user.ok_at(THEN + 1, &format!("{add} pw"));
        assert!(!user.ok("key list").contains("NOT PROTECTED"));
        user.ok_at(THEN + DAY, "encrypt plain --to alice@example.org -o message --overwrite");
        user.fails_at(THEN + DAY, "decrypt message --passphrase-file other-pw", 1);
        user.ok_at(THEN + DAY, "decrypt message --passphrase-file pw");
    }
}

#[test]
fn a_revoked_subkey_is_unused_and_the_others_still_work() {
    for profile in ["rfc4880", "rfc9580"] {
        let user = User::new();
        let key = user.generate("alice", &format!("--no-passphrase --profile {profile}"));
        let listed = user.ok_at(THEN, "list --json alice");
        let json: Value = serde_json::from_str(&listed).unwrap();
        let subkeys = json["subkeys"].as_array().unwrap();
        let with = |letter: char| {
            let has =
                |key: &&Value| key["capabilities"].to_string().to_lowercase().contains(letter);
            subkeys.iter().find(has).unwrap()["fingerprint"].as_str().unwrap().to_owned()
        };
        let (signing, encryption) = (with('s'), with('e'));
        let err = user.fails_at(THEN, &format!("key revoke --yes alice --subkey {key}"), 1);
        assert!(err.contains("has no subkey"), "{err}");
        user.fails_at(THEN, &format!("key revoke --yes alice --subkey {}", "0".repeat(40)), 1);
        user.ok_at(THEN, "encrypt plain --to alice@example.org -o old --overwrite");
        // A revocation written to a file changes nothing until the file is imported.
        let revoke = format!("key revoke --yes alice --subkey {encryption} --reason superseded");
        user.ok_at(THEN + DAY, &format!("{revoke} -o revocation --overwrite"));
        user.ok_at(THEN + DAY, "encrypt plain --to alice@example.org -o m --overwrite");
        user.ok_at(THEN + DAY, "import revocation");
        user.fails_at(THEN + DAY + 1, "encrypt plain --to alice@example.org -o m --overwrite", 1);
        assert_eq!(user.ok_at(THEN + DAY, "decrypt old"), "attack at dawn\n");
        user.ok_at(THEN + DAY, "sign plain -o s --overwrite");
        user.ok_at(
            THEN + DAY,
            &format!("key revoke --yes alice --subkey {signing} --reason compromised"),
        );
        user.fails_at(THEN + DAY + 1, "sign plain -o s --overwrite", 1);
        user.fails_at(THEN + DAY + 1, "verify plain --signature s", 1);
        user.ok_at(THEN + 2 * DAY, "key add-subkey alice --sign");
        user.ok_at(THEN + 2 * DAY, "sign plain -o s --overwrite");
        user.ok_at(THEN + 2 * DAY, "verify plain --signature s");
    }
}

#[test]
fn a_new_user_id_becomes_primary_only_with_the_option() {
    for profile in ["rfc4880", "rfc9580"] {
        let user = User::new();
        user.generate("alice", &format!("--no-passphrase --profile {profile}"));
        let first = |time: u32| {
            let listed = user.ok_at(time, "list --json");
            let json: Value = serde_json::from_str(listed.lines().next().unwrap()).unwrap();
            let user_ids = json["user_ids"].as_array().unwrap().clone();
            let primary = user_ids.iter().find(|id| id["primary"] == true).unwrap();
            (
                primary["text"].as_str().or(primary["user_id"].as_str()).unwrap().to_owned(),
                user_ids.len(),
            )
        };
        user.ok_at(THEN + 1, "key add-user-id alice alice@example.net");
        assert_eq!(first(THEN + 2), ("alice@example.org".to_owned(), 2));
        user.ok_at(THEN + 3, "key add-user-id alice alice@example.com --primary");
        assert_eq!(first(THEN + 4), ("alice@example.com".to_owned(), 3));
        let err = user.fails_at(THEN + 5, "key add-user-id alice alice@example.net", 3);
        assert!(err.contains("already"), "{err}");
        // A revoked user ID can be added again.
        user.ok_at(THEN + 6, "key revoke --yes alice --user-id alice@example.net");
        let revoked = "[ revoked ] alice@example.net";
        assert!(user.ok_at(THEN + 7, "list").contains(revoked));
        user.ok_at(THEN + 8, "key add-user-id alice alice@example.net");
        let listed = user.ok_at(THEN + 9, "list");
        assert!(listed.contains("alice@example.net") && !listed.contains(revoked), "{listed}");
        for bad in ["", " ", "a\nb", "a\u{7}b"] {
            let time = (THEN + 10).to_string();
            let args = ["--faked-time", &time, "key", "add-user-id", "alice", bad];
            let output = user.run_with(&args, b"");
            assert_eq!(output.status.code(), Some(2), "{bad:?}: {output:?}");
        }
    }
}
