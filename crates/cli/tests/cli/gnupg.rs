//! Certificates go to the real gpg and back, and nothing is lost.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::program::{Home, Program, make_gnupg_home};

const RING: &str = "/usr/share/keyrings/debian-maintainers.gpg";

/// A home directory of gpg, or `None` with a notice if there is no gpg or no keyring.
fn home(program: &Program, name: &str) -> Option<String> {
    if !Path::new(RING).exists() || talaria_needs::peer("gpg").is_none() {
        talaria_needs::left_out("gpg or debian-keyring");
        return None;
    }
    let home = program.path(name);
    fs::create_dir(&home).unwrap();
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    fs::set_permissions(&home, private).unwrap();
    Some(home.to_str().unwrap().to_owned())
}

fn gpg(home: &str, args: &[&str]) -> String {
    let output = Command::new("gpg")
        .args(["--homedir", home, "--batch", "--no-autostart", "--no-auto-check-trustdb"])
        .args(args)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The release of the installed gpg, as talaria knows them.
fn release() -> &'static str {
    let output = Command::new("gpg").arg("--version").output().unwrap();
    let is_2_2 = String::from_utf8_lossy(&output.stdout).starts_with("gpg (GnuPG) 2.2.");
    if is_2_2 { "2.2" } else { "2.4" }
}

/// A listing by talaria. Not every user ID is UTF-8.
fn list(program: &Program, args: &[&str]) -> String {
    // In the form of the installed gpg.
    let policy = format!("gnupg-{}", release());
    let output = program.run(&[&["list", "--with-colons", "--policy", &policy], args].concat());
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The sorted records of a listing that do not depend on where a certificate is stored.
fn records(listing: &str) -> Vec<String> {
    let mut records: Vec<String> = listing
        .lines()
        .filter(|line| {
            ["pub:", "sub:", "uid:", "uat:", "fpr:", "sig:", "rev:"]
                .iter()
                .any(|k| line.starts_with(k))
        })
        .map(str::to_owned)
        .collect();
    records.sort();
    records
}

/// gpg drops older binding signatures of subkeys during an import. So the test compares gpg's
/// listing of our export with gpg's listing of the original.
#[test]
fn gpg_imports_an_export_like_the_original() {
    let program = Program::new();
    let Some(original) = home(&program, "original") else { return };
    let Some(exported) = home(&program, "exported") else { return };
    program.ok(&["import", RING]);
    let file = program.path("export.pgp");
    program.ok(&["export", "--output", file.to_str().unwrap()]);
    gpg(&original, &["--import", RING]);
    gpg(&exported, &["--import", file.to_str().unwrap()]);
    let theirs = records(&gpg(&original, &["--with-colons", "--list-sigs"]));
    assert!(theirs.len() > 5000, "{}", theirs.len());
    assert_eq!(records(&gpg(&exported, &["--with-colons", "--list-sigs"])), theirs);
    // And back: all certificates of gpg, from its keybox, its home directory and its export.
    let export = program.path("gpg-export.asc");
    fs::write(&export, gpg(&exported, &["--armor", "--export"])).unwrap();
    let keybox = format!("{exported}/pubring.kbx");
    for back in [exported.as_str(), keybox.as_str(), export.to_str().unwrap()] {
        let copy = Program::new();
        copy.ok(&["import", back]);
        assert_eq!(records(&list(&copy, &["--with-sigs"])), theirs, "{back}");
    }
}

#[test]
fn gpg_reads_an_exported_home_directory() {
    let program = Program::new();
    let Some(home) = home(&program, "gnupg") else { return };
    program.ok(&["import", RING]);
    program.ok(&["export", "--to-gnupg", &home]);
    let theirs = records(&gpg(&home, &["--with-colons", "--list-keys"]));
    assert_eq!(records(&list(&program, &[])), theirs);
}

/// The old keyring format has trust packets, which are not part of a certificate.
#[test]
fn import_reads_a_keyring_with_trust_packets() {
    let program = Program::new();
    let Some(home) = home(&program, "gnupg") else { return };
    let ring = format!("{home}/pubring.gpg");
    // gpg keeps the old format if there is a file in it.
    fs::write(&ring, "").unwrap();
    gpg(&home, &["--import-options", "fast-import", "--import", RING]);
    let bytes = fs::read(&ring).unwrap();
    let trust_packets = bytes.windows(2).filter(|two| two[0] == 0xb0).count();
    assert!(trust_packets > 1000, "{trust_packets}");
    program.ok(&["import", &ring]);
    let theirs = gpg(&home, &["--with-colons", "--list-sigs"]);
    assert_eq!(records(&list(&program, &["--with-sigs"])), records(&theirs));
    let copy = Program::new();
    copy.ok(&["import", &home]);
    assert_eq!(copy.contents(), program.contents());
}

/// gpg writes a revocation certificate beside every new key.
#[test]
fn import_merges_a_bare_revocation_into_its_certificate() {
    let program = Program::new();
    let Some(home) = home(&program, "gnupg") else { return };
    let make =
        ["--passphrase", "", "--quick-gen-key", "Rita <rita@example.org>", "ed25519", "sign"];
    Command::new("gpg")
        .args(["--homedir", &home, "--batch", "--quiet"])
        .args(make)
        .output()
        .unwrap();
    let folder = fs::read_dir(format!("{home}/openpgp-revocs.d"));
    let Some(Ok(file)) = folder.ok().and_then(|mut folder| folder.next()) else {
        talaria_needs::left_out("gpg that makes keys");
        return;
    };
    let _ = Command::new("gpgconf").args(["--homedir", &home, "--kill", "all"]).output();
    // A colon prevents an accidental import.
    let text = fs::read_to_string(file.path()).unwrap().replace(":-----BEGIN", "-----BEGIN");
    let revocation = program.path("revocation.asc");
    fs::write(&revocation, text).unwrap();
    let revocation = revocation.to_str().unwrap();
    program.ok(&["import", RING]);
    let output = program.run(&["import", revocation]);
    assert_eq!(output.status.code(), Some(3));
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        err.contains("a revocation by") && err.contains("certificate is not in the store"),
        "{err}"
    );
    program.ok(&["import", &home]);
    assert!(list(&program, &["<rita@example.org>"]).starts_with("pub:u:"));
    assert!(program.ok(&["import", revocation]).contains("1 updated"));
    assert!(list(&program, &["<rita@example.org>"]).starts_with("pub:r:"));
    assert!(program.ok(&["import", revocation]).contains("1 unchanged"));
    program.assert_clean();
}

#[test]
fn import_takes_owner_trust_along() {
    let program = Program::new();
    let Some(home) = home(&program, "gnupg") else { return };
    program.ok(&["import", RING]);
    let all = list(&program, &[]);
    let name =
        all.lines().find(|line| line.starts_with("fpr:")).unwrap().split(':').nth(9).unwrap();
    let text = program.path("ownertrust.txt");
    fs::write(&text, format!("# a comment\n{name}:5:\n")).unwrap();
    let report = program.ok(&["import", text.to_str().unwrap()]);
    assert!(report.contains("(ownertrust)") && report.contains("1 owner trust value"), "{report}");
    let line = list(&program, &[name]);
    assert_eq!(line.lines().next().unwrap().split(':').nth(8), Some("f"));
    // From gpg's own trust database as well.
    gpg(&home, &["--import-ownertrust", text.to_str().unwrap()]);
    let other = Program::new();
    other.ok(&["import", &home]);
    let other_ring = other.ok(&["import", RING]);
    assert!(other_ring.contains("231 new"), "{other_ring}");
    assert_eq!(list(&other, &[name]), line);
}

/// gpg encrypts to a certificate that only SHA-1 binds. talaria names the reason, and its owner can
/// do what the hint says.
#[test]
fn the_hint_about_a_certificate_that_sha_1_binds_helps() {
    let root = tempfile::tempdir().unwrap();
    let home = Home(root.path().to_owned());
    make_gnupg_home(&root.path().join("home/.gnupg"));
    let gpg = "gpg -q --batch --passphrase '' --pinentry-mode loopback";
    home.sh(&format!("{gpg} --cert-digest-algo SHA1 --quick-gen-key Old rsa2048 sign,cert 0"));
    let listed = home.sh("gpg -q --list-keys --with-colons");
    let fingerprint = listed.lines().find_map(|line| line.strip_prefix("fpr:::::::::")).unwrap();
    let fingerprint = fingerprint.trim_end_matches(':');
    let encrypt = format!(
        "gpg --export | talaria -q import - > import.log && echo hello > letter && \
         talaria encrypt --to {fingerprint} -o out letter"
    );
    let refused_for = |what: &str| {
        let refused = home.try_sh(&encrypt);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(1), "{said}");
        assert!(said.contains(&format!("only signatures with SHA-1 bind {what}, ")), "{said}");
        said.split_once("gpg signs it anew: ").unwrap().1.to_owned()
    };
    let subkey = format!("--quick-add-key {fingerprint} rsa2048 encr 0");
    home.sh(&format!("{gpg} --cert-digest-algo SHA1 {subkey}"));
    refused_for("it");
    home.sh(&format!("{gpg} --quick-set-expire {fingerprint} 2y"));
    let remedy = refused_for("its encryption key");
    home.sh(&remedy);
    home.sh(&encrypt);
    home.sh("gpgconf --kill all");
}

/// A certificate of 2015 that only SHA-1 binds is encrypted to with a note, not by the strict
/// rules. Its owner is told, and renews it.
#[test]
fn an_old_key_is_named_and_renewed() {
    let root = tempfile::tempdir().unwrap();
    let home = Home(root.path().to_owned());
    make_gnupg_home(&root.path().join("home/.gnupg"));
    let gpg = "gpg -q --batch --passphrase '' --pinentry-mode loopback \
               --faked-system-time 20150101T000000 --cert-digest-algo SHA1";
    home.sh(&format!("{gpg} --quick-gen-key 'Old <old@example.org>' rsa2048 sign,cert 0"));
    let listed = home.sh("gpg -q --list-keys --with-colons");
    let fingerprint = listed.lines().find_map(|line| line.strip_prefix("fpr:::::::::")).unwrap();
    let fingerprint = fingerprint.trim_end_matches(':');
    home.sh(&format!("{gpg} --quick-add-key {fingerprint} rsa2048 encr 0"));
    home.sh(
        "gpg --export-secret-keys | talaria -q key import --no-passphrase - && echo hello > letter",
    );
    let encrypt = |policy: &str| {
        let words = "--trust-model always -o out --overwrite letter";
        home.try_sh(&format!("talaria --policy {policy} encrypt --to {fingerprint} {words}"))
    };
    let said = |output: &std::process::Output| String::from_utf8_lossy(&output.stderr).into_owned();
    let usable = |policy: &str| {
        let listed = home.sh(&format!("talaria --policy {policy} --json list {fingerprint}"));
        let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
        listed["usable"].as_str().unwrap().to_owned()
    };
    let done = encrypt("standard");
    assert!(done.status.success() && said(&done).contains("SHA-1"), "{}", said(&done));
    let done = encrypt("gnupg-2.2");
    assert!(done.status.success() && !said(&done).contains("SHA-1"), "{}", said(&done));
    let refused = encrypt("strict");
    assert_eq!(refused.status.code(), Some(1), "{}", said(&refused));
    assert!(said(&refused).contains("only signatures with SHA-1 bind it, "), "{}", said(&refused));
    assert!(usable("standard").contains('E') && !usable("strict").contains('E'));
    // What only SHA-1 binds makes no signatures.
    let refused = home.try_sh("talaria sign letter");
    assert!(!refused.status.success(), "{}", said(&refused));
    let checked = home.try_sh("talaria key check");
    assert_eq!(checked.status.code(), Some(1));
    let text = String::from_utf8_lossy(&checked.stdout);
    assert!(text.contains("user ID Old <old@example.org>: bound by signatures with SHA-1 only"));
    assert!(text.contains(&format!("talaria key renew {fingerprint}")), "{text}");
    home.sh(&format!("talaria key renew {fingerprint}"));
    assert_eq!(home.sh("talaria -q key check"), "");
    assert!(encrypt("strict").status.success() && usable("strict").contains('E'));
    home.sh("talaria sign letter");
    // A subkey without an end of its own expires with its primary key.
    let end = "2031-01-01";
    home.sh(&format!("talaria key expire {fingerprint} {end}"));
    let soon = home.try_sh("talaria --faked-time 1919808000 key check");
    let text = String::from_utf8_lossy(&soon.stdout);
    assert!(text.contains(&format!("primary key: expires on {end}")), "{text}");
    // A renewal would leave it, since more than half of its time may be left.
    assert!(text.contains(&format!("talaria key expire {fingerprint} 2y")), "{text}");
    assert!(!text.contains("key renew"), "{text}");
    let late = home.try_sh("talaria --faked-time 2000000000 key check");
    let text = String::from_utf8_lossy(&late.stdout);
    assert!(text.matches(&format!("expired on {end}")).count() >= 2, "{text}");
    home.sh("gpgconf --kill all");
}
