//! The address of a user ID: user IDs that an attacker writes to be taken for somebody else,
//! and the results of the real gpg for the same user IDs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::{Command, Output, Stdio};

use rusqlite::Connection;
use talaria::cert::address::gnupg_name;

use crate::program::Program;

/// gpg with its own home directory.
struct Gpg(String);

impl Gpg {
    /// `None` with a notice if no gpg known to the tests is installed, or if it cannot make keys.
    fn with_keys(program: &Program, user_ids: &[&str]) -> Option<Self> {
        talaria_needs::found(talaria_needs::peer("gpg"), "gpg")?;
        let home = program.path("gnupg");
        fs::create_dir(&home).unwrap();
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        fs::set_permissions(&home, private).unwrap();
        let gpg = Self(home.to_str().unwrap().to_owned());
        for user_id in user_ids {
            let made = gpg.run(&["--quick-gen-key", user_id, "ed25519", "sign,cert", "never"]);
            if !made.is_some_and(|made| made.status.success()) {
                talaria_needs::left_out("gpg that makes keys");
                return None;
            }
        }
        for fingerprint in gpg.fingerprints("") {
            gpg.run(&["--quick-add-key", &fingerprint, "cv25519", "encr"]);
        }
        // gpg treats all of them as its user's own keys.
        let _ = fs::remove_file(home.join("trustdb.gpg"));
        Some(gpg)
    }

    fn run(&self, args: &[&str]) -> Option<Output> {
        Command::new("gpg")
            .args(["--homedir", &self.0, "--batch", "--quiet", "--no-auto-check-trustdb", "--yes"])
            .args(["--utf8-strings", "--passphrase", ""])
            .args(args)
            .stdin(Stdio::null())
            .output()
            .ok()
    }

    fn lines(&self, args: &[&str]) -> Vec<String> {
        let output = self.run(&[&["--with-colons"], args].concat()).unwrap();
        String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
    }

    /// The fingerprints of the primary keys that a search finds; all for an empty one.
    fn fingerprints(&self, search: &str) -> BTreeSet<String> {
        let args = ["--list-keys", search];
        primaries(&self.lines(if search.is_empty() { &args[..1] } else { &args }))
    }
}

impl Drop for Gpg {
    fn drop(&mut self) {
        let _ = Command::new("gpgconf").args(["--homedir", &self.0, "--kill", "all"]).output();
    }
}

fn primaries(colons: &[String]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut is_primary = false;
    for line in colons {
        let fields: Vec<&str> = line.split(':').collect();
        match fields[0] {
            "pub" => is_primary = true,
            "fpr" if is_primary => {
                found.insert(fields[9].to_owned());
                is_primary = false;
            }
            _ => {}
        }
    }
    found
}

fn ours(program: &Program, search: &str) -> BTreeSet<String> {
    let output = program.run(&["list", "--with-colons", search]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    primaries(&text.lines().map(str::to_owned).collect::<Vec<_>>())
}

/// The validity of each certificate by its user ID, in the trust model tofu.
fn first_use(lines: &[String]) -> BTreeMap<String, String> {
    let user_ids = lines.iter().filter(|line| line.starts_with("uid:"));
    user_ids
        .map(|line| {
            let fields: Vec<&str> = line.split(':').collect();
            (fields[9].to_owned(), fields[1].to_owned())
        })
        .collect()
}

fn our_first_use(program: &Program) -> BTreeMap<String, String> {
    let text = program.ok(&["list", "--with-colons", "--trust-model", "tofu"]);
    first_use(&text.lines().map(str::to_owned).collect::<Vec<_>>())
}

const ALICE: &str = "Alice <alice@bank.example>";

#[test]
fn a_second_address_in_a_user_id_hides_no_conflict() {
    let program = Program::new();
    let attack = "Alice <alice@bank.example> <mallory@evil.example>";
    let Some(gpg) = Gpg::with_keys(&program, &[ALICE, attack]) else { return };
    program.ok(&["import", &gpg.0]);
    for (search, count) in [("<alice@bank.example>", 2), ("<mallory@evil.example>", 0)] {
        assert_eq!(ours(&program, search).len(), count, "{search}");
        assert_eq!(ours(&program, search), gpg.fingerprints(search), "{search}");
    }
    // The first listing of gpg finds only conflicts with certificates listed before.
    gpg.lines(&["--trust-model", "tofu", "--list-keys"]);
    let theirs = first_use(&gpg.lines(&["--trust-model", "tofu", "--list-keys"]));
    assert_eq!(theirs.len(), 2);
    assert!(theirs.values().all(|letter| letter == "q"), "{theirs:?}");
    assert_eq!(our_first_use(&program), theirs);
    let conflicts = program.ok(&["tofu", "conflicts"]);
    assert_eq!(conflicts.lines().next(), Some("alice@bank.example"), "{conflicts}");
    assert_eq!(conflicts.matches("made on").count(), 2, "{conflicts}");
}

/// Each of these becomes `support@bank.example` if characters are mapped, folded or dropped.
const LOOK_ALIKES: [&str; 6] = [
    "Bank <support@ban\u{212a}.example>",
    "Bank <support@ba\u{ad}nk.example>",
    "Bank <support@bank\u{3002}example>",
    "Bank <support@\u{ff42}ank.example>",
    "Bank <support@bank\u{200b}.example>",
    "Bank <\u{17f}upport@bank.example>",
];

#[test]
fn lookalike_characters_make_another_address_as_in_gpg() {
    let program = Program::new();
    let Some(gpg) = Gpg::with_keys(&program, &LOOK_ALIKES) else { return };
    program.ok(&["import", &gpg.0]);
    fs::write(program.path("text"), "secret").unwrap();
    let (text, out) = (program.path("text"), program.path("out"));
    let (text, out) = (text.to_str().unwrap(), out.to_str().unwrap());
    for search in ["<support@bank.example>", "support@bank.example"] {
        assert!(gpg.fingerprints(search).is_empty());
        let theirs = gpg.run(&["--trust-model", "always", "-r", search, "-o", out, "-e", text]);
        assert_eq!(theirs.unwrap().status.code(), Some(2));
        let refused = program.run(&["encrypt", "--to", search, "-o", out, text]);
        assert_eq!(refused.status.code(), Some(1), "{refused:?}");
        assert!(!program.path("out").exists());
    }
    // Each is its own address, so there is no conflict.
    for user_id in LOOK_ALIKES {
        let address = &user_id[user_id.find('<').unwrap()..];
        assert_eq!(ours(&program, address), gpg.fingerprints(address), "{address}");
        assert_eq!(ours(&program, address).len(), 1);
        program.ok(&["encrypt", "--to", address, "-o", out, text]);
        fs::remove_file(out).unwrap();
    }
    assert_eq!(program.ok(&["tofu", "conflicts"]), "");
    assert_eq!(
        our_first_use(&program),
        first_use(&gpg.lines(&["--trust-model", "tofu", "--list-keys"]))
    );
}

/// gpg compares bytes here and sees two addresses; talaria is stricter.
#[test]
fn unicode_and_punycode_domains_are_one_address_and_conflict() {
    let program = Program::new();
    let user_ids = ["A <user@bücher.example>", "B <user@XN--bcher-kva.example>"];
    let Some(gpg) = Gpg::with_keys(&program, &user_ids) else { return };
    program.ok(&["import", &gpg.0]);
    for search in ["<user@bücher.example>", "<user@Bücher.example>", "<user@xn--bcher-kva.example>"]
    {
        assert_eq!(ours(&program, search), gpg.fingerprints(""), "{search}");
    }
    assert!(ours(&program, "<user@BÜCHER.example>").is_empty());
    gpg.lines(&["--trust-model", "tofu", "--list-keys"]);
    let theirs = first_use(&gpg.lines(&["--trust-model", "tofu", "--list-keys"]));
    assert!(theirs.values().all(|letter| letter == "m"), "{theirs:?}");
    assert!(our_first_use(&program).values().all(|letter| letter == "q"));
    let conflicts = program.ok(&["tofu", "conflicts"]);
    assert_eq!(conflicts.lines().next(), Some("user@xn--bcher-kva.example"), "{conflicts}");
    // Decisions that gpg recorded under one form are imported and exported under that form.
    program.ok(&["tofu", "import", &format!("{}/tofu.db", gpg.0)]);
    let back = program.path("back.db");
    program.ok(&["tofu", "export", back.to_str().unwrap()]);
    let names = |path: &str| -> BTreeSet<Vec<u8>> {
        let database = Connection::open(path).unwrap();
        let mut rows = database.prepare("SELECT CAST(email AS BLOB) FROM bindings").unwrap();
        rows.query_map((), |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    assert_eq!(names(back.to_str().unwrap()), names(&format!("{}/tofu.db", gpg.0)));
}

/// The addresses under which gpg records user IDs, with an example for each of gpg's rules.
#[test]
fn tofu_addresses_of_user_ids_equal_those_of_gpg() {
    let program = Program::new();
    let user_ids = [
        "Plain <Plain@Example.ORG>",
        "bare@example.org",
        "dots..twice@example.org",
        "Dots <dots..within@example.org>",
        "Dots <dots@example..org>",
        "Dot <dot@example.org.>",
        "Two <two@one@example.org> <two@example.org>",
        "Open <open@example.org",
        "Empty <> <empty@example.org>",
        "Nested <nes<ted@example.org>",
        "Space <spa ce@example.org>",
        "Delete <del\u{7f}ete@example.org>",
        "Blank <blank\u{a0}@example.org>",
        "Paren <par(en)@example.org>",
        "paren(bare)@example.org",
        "under_score@exam_ple.org",
        "Text <no address>",
        "Some Host",
        "Kelvin <\u{212a}@example.org>",
        "Umlaut <ÜNAL@BÜCHER.example>",
        "behind@example.org (behind)",
        "Close > <close@example.org>",
    ];
    let Some(gpg) = Gpg::with_keys(&program, &user_ids) else { return };
    gpg.lines(&["--trust-model", "tofu", "--list-keys"]);
    let database = Connection::open(format!("{}/tofu.db", gpg.0)).unwrap();
    let mut rows = database
        .prepare("SELECT CAST(user_id AS BLOB), CAST(email AS BLOB) FROM bindings")
        .unwrap();
    let theirs: BTreeMap<Vec<u8>, Vec<u8>> = rows
        .query_map((), |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!(theirs.len(), user_ids.len());
    for (user_id, name) in theirs {
        let shown = String::from_utf8_lossy(&user_id);
        assert_eq!(
            String::from_utf8_lossy(&gnupg_name(&user_id)),
            String::from_utf8_lossy(&name),
            "{shown}"
        );
    }
}

#[test]
fn encryption_to_a_part_of_a_name_is_refused_with_candidates() {
    let program = Program::new();
    let user_id = "Malice <malice@evil.example>";
    let Some(gpg) = Gpg::with_keys(&program, &[user_id]) else { return };
    program.ok(&["import", &gpg.0]);
    let fingerprint = gpg.fingerprints("").pop_first().unwrap();
    let (text, out) = (program.path("text"), program.path("out"));
    fs::write(&text, "secret").unwrap();
    let (text, out) = (text.to_str().unwrap(), out.to_str().unwrap());
    for part in ["alice", "lice@evil.example", "*alice", "@evil.example", ".example", "+malice"] {
        let refused = program.fails(&["encrypt", "--to", part, "-o", out, text], 1);
        assert!(refused.contains(&format!("{part} is neither a fingerprint")), "{refused}");
        assert!(refused.contains(&format!("  {fingerprint} {user_id}")), "{refused}");
        assert!(!program.path("out").exists(), "{part}");
    }
    // A part of a name does not select a trust root or a binding either.
    for part in ["alice", "lice@evil.example"] {
        for command in [&["trust", "set", part, "full"][..], &["tofu", "policy", part, "good"]] {
            let refused = program.fails(command, 1);
            assert!(refused.contains(&format!("  {fingerprint} {user_id}")), "{refused}");
        }
    }
    let missing = program.fails(&["encrypt", "--to", "nobody@evil.example", "-o", out, text], 1);
    assert!(missing.contains("no certificate found for nobody@evil.example"), "{missing}");
    for exact in [
        "malice@evil.example",
        "MALICE@evil.example",
        "<malice@evil.example>",
        user_id,
        &format!("={user_id}"),
        &fingerprint,
        &format!("0x{fingerprint}"),
        &fingerprint[24..],
    ] {
        program.ok(&["encrypt", "--to", exact, "-o", out, text]);
        fs::remove_file(out).unwrap();
    }
}

/// A revoked user ID selects no recipient. gpg uses the certificate nevertheless.
#[test]
fn encryption_to_a_revoked_address_is_refused() {
    let program = Program::new();
    let Some(gpg) = Gpg::with_keys(&program, &[ALICE]) else { return };
    let fingerprint = gpg.fingerprints("").pop_first().unwrap();
    gpg.run(&["--quick-add-uid", &fingerprint, "Alice <alice@old.example>"]);
    gpg.run(&["--quick-revoke-uid", &fingerprint, "Alice <alice@old.example>"]);
    // gpg dates a revocation one second ahead if the user ID was made in the same second.
    std::thread::sleep(std::time::Duration::from_millis(2100));
    let _ = fs::remove_file(format!("{}/trustdb.gpg", gpg.0));
    program.ok(&["import", &gpg.0]);
    let (text, out) = (program.path("text"), program.path("out"));
    fs::write(&text, "secret").unwrap();
    let (text, out) = (text.to_str().unwrap(), out.to_str().unwrap());
    for gone in ["alice@old.example", "<alice@old.example>", "=Alice <alice@old.example>"] {
        let refused = program.fails(&["encrypt", "--to", gone, "-o", out, text], 1);
        assert!(refused.contains(&fingerprint), "{refused}");
    }
    program.ok(&["encrypt", "--to", "alice@bank.example", "-o", out, text]);
}

/// Mallory's own address is valid, and Alice's address in the same certificate is not. The message
/// is for Alice.
#[test]
fn the_validity_of_a_recipient_is_that_of_the_named_address() {
    let program = Program::new();
    let user_ids = ["Me <me@own.example>", "Mallory <mallory@evil.example>"];
    let Some(gpg) = Gpg::with_keys(&program, &user_ids) else { return };
    let one = |search: &str| gpg.fingerprints(search).pop_first().unwrap();
    let (me, mallory) = (one("me@own.example"), one("mallory@evil.example"));
    gpg.run(&["--local-user", &me, "--quick-sign-key", &mallory]);
    gpg.run(&["--quick-add-uid", &mallory, ALICE]);
    let _ = fs::remove_file(format!("{}/trustdb.gpg", gpg.0));
    program.ok(&["import", &gpg.0]);
    program.ok(&["trust", "set", &me, "ultimate"]);
    let (text, out) = (program.path("text"), program.path("out"));
    fs::write(&text, "secret").unwrap();
    let (text, out) = (text.to_str().unwrap(), out.to_str().unwrap());
    let encrypt =
        |to: &str| program.run(&["encrypt", "--trusted-only", "--to", to, "-o", out, text]);
    for alice in ["alice@bank.example", ALICE, "=Alice <alice@bank.example>"] {
        let refused = encrypt(alice);
        assert_eq!(refused.status.code(), Some(1), "{refused:?}");
        assert!(!program.path("out").exists());
    }
    for mallory in ["mallory@evil.example", &mallory] {
        let sealed = encrypt(mallory);
        assert!(sealed.status.success(), "{sealed:?}");
        fs::remove_file(out).unwrap();
    }
    // gpg: the same.
    gpg.run(&["--import-ownertrust"]);
    fs::write(program.path("trust"), format!("{me}:6:\n")).unwrap();
    gpg.run(&["--import-ownertrust", program.path("trust").to_str().unwrap()]);
    gpg.run(&["--check-trustdb"]);
    let theirs = |to: &str| gpg.run(&["-r", to, "-o", out, "-e", text]).unwrap().status.success();
    assert!(!theirs("alice@bank.example"));
    assert!(theirs("mallory@evil.example"));
}
