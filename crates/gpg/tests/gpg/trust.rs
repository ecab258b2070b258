//! `talaria-gpg --verify` beside gpg: whether keys belong to whom they name, by the home directory.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::common::{Desk, OUR_GPG, Ran};

/// The command lines that matter for a signature in `name`, with its data in `data`.
#[track_caller]
fn compare(desk: &Desk, home: &str, name: &str) -> Ran {
    for options in [
        "",
        "-v",
        "-q",
        "--batch",
        "--trust-model always",
        "--always-trust -q",
        "--trust-model always --with-fingerprint",
        "--with-fingerprint",
        "--no-auto-check-trustdb",
        "--keyid-format short -v",
        "--keyid-format 0xlong -v",
        "--keyid-format long --batch --no-tty",
        "--verify-options no-show-uid-validity",
        "--verify-options show-unusable-uids,no-show-policy-urls",
        "--verify-options show-primary-uid-only",
        "--trust-model pgp",
        "--enable-progress-filter",
    ] {
        let line = format!("--homedir {home} {options} --verify {name} data");
        let words: Vec<&str> = line.split_whitespace().collect();
        desk.same_gpg_with(&[&["--status-fd", "3"], &words[..]].concat(), b"");
    }
    let line = format!("--status-fd 3 --homedir {home} --verify {name} data");
    desk.our_gpg(&line.split_whitespace().collect::<Vec<_>>(), b"")
}

/// Another home directory, with the certificates of `keys.gpg`.
fn other_home(desk: &Desk, name: &str) {
    fs::create_dir(desk.path(name)).unwrap();
    fs::set_permissions(desk.path(name), fs::Permissions::from_mode(0o700)).unwrap();
    desk.gpg(&["--homedir", name, "--import", "keys.gpg"]);
}

#[test]
fn own_keys_are_ultimately_trusted_and_unknown_ones_are_not() {
    let Some(desk) = Desk::with_alice() else { return };
    let ran = compare(&desk, "home", "data.sig");
    assert!(ran.status.contains("TRUST_ULTIMATE 0 pgp"), "{}", ran.status);
    other_home(&desk, "other");
    let ran = compare(&desk, "other", "data.sig");
    assert!(ran.status.contains("TRUST_UNDEFINED 0 pgp"), "{}", ran.status);
    assert_eq!(ran.code, 0);
}

#[test]
fn ownertrust_and_certifications_count_as_in_gpg() {
    let Some(desk) = Desk::with_alice() else { return };
    for name in ["bob", "carol", "dave", "erin", "frank"] {
        desk.make_key(&format!("{name} <{name}@example.org>"), "ed25519");
        desk.gpg(&["-u", name, "-b", "-o", &format!("{name}.sig"), "data"]);
    }
    let introducers = ["bob", "carol", "dave"];
    for name in introducers {
        desk.gpg(&["-u", name, "--yes", "--quick-sign-key", &desk.fingerprint("frank")]);
    }
    desk.gpg(&["-u", "bob", "--yes", "--quick-sign-key", &desk.fingerprint("erin")]);
    desk.gpg(&["-u", "alice", "--yes", "--quick-sign-key", &desk.fingerprint("bob")]);
    desk.gpg(&["-u", "alice", "--yes", "--quick-sign-key", &desk.fingerprint("carol")]);
    desk.gpg(&["-u", "alice", "--yes", "--quick-sign-key", &desk.fingerprint("dave")]);
    desk.export("keys.gpg");
    other_home(&desk, "other");
    let trust = |lines: &[(&str, u8)]| {
        let text: String = lines
            .iter()
            .map(|(name, value)| format!("{}:{value}:\n", desk.fingerprint(name)))
            .collect();
        desk.gpg_with(&["--homedir", "other", "--import-ownertrust"], text.as_bytes());
        desk.gpg(&["--homedir", "other", "--check-trustdb"]);
    };
    let mut seen = Vec::new();
    for ownertrust in [
        &[("alice", 6)][..],
        &[("alice", 6), ("bob", 4)],
        &[("alice", 6), ("bob", 4), ("carol", 4), ("dave", 4)],
        &[("alice", 6), ("bob", 5), ("carol", 3), ("dave", 2)],
        &[("alice", 6 | 128), ("bob", 5 | 128)],
    ] {
        trust(ownertrust);
        for name in ["data", "bob", "erin", "frank"] {
            let ran = compare(&desk, "other", &format!("{name}.sig"));
            seen.extend(
                ran.status.lines().filter(|line| line.contains("TRUST_")).map(str::to_owned),
            );
        }
    }
    for word in ["ULTIMATE", "FULLY", "MARGINAL", "UNDEFINED"] {
        assert!(seen.iter().any(|line| line.contains(word)), "{word}: {seen:?}");
    }
}

/// Whatever is wrong with the trust database, gpg computes or repairs it.
#[test]
fn a_trust_database_that_is_stale_or_damaged_is_handed_over() {
    let Some(desk) = Desk::with_alice() else { return };
    desk.same_gpg(0, "--verify data.sig data");
    let fresh = desk.get("home/trustdb.gpg");
    let line = ["--status-fd", "3", "--verify", "data.sig", "data"];
    for (at, value) in [(19, 1), (5, 7), (4, 9), (8, 6)] {
        let mut changed = fresh.clone();
        changed[at] = value;
        desk.put("home/trustdb.gpg", &changed);
        let ours = desk.our_gpg(&line, b"");
        assert_eq!((ours.code, ours.status.as_str()), (2, ""), "{}", ours.err);
        assert!(ours.err.contains("needed, and there is no GnuPG"), "{}", ours.err);
        assert_eq!(desk.get("home/trustdb.gpg"), changed);
        let handed = desk.our_gpg_or_theirs(&line, b"");
        desk.put("home/trustdb.gpg", &changed);
        assert_eq!(handed, desk.their_gpg(&line, b""));
    }
    // Damage in the records that gpg reads on the way.
    let mut changed = fresh.clone();
    changed.truncate(fresh.len() - 40);
    desk.put("home/trustdb.gpg", &changed);
    let (ours, theirs) = (desk.our_gpg(&line, b""), desk.their_gpg(&line, b""));
    assert!(ours.code != 0 || theirs.code == 0, "{}", ours.err);
    desk.put("home/trustdb.gpg", "");
    assert_eq!(desk.our_gpg(&line, b"").code, 0);
}

#[test]
fn without_own_keys_a_stale_trust_database_says_nothing() {
    let Some(desk) = Desk::with_alice() else { return };
    other_home(&desk, "other");
    desk.same_gpg(0, "--homedir other --verify data.sig data");
    let mut changed = desk.get("other/trustdb.gpg");
    changed[19] = 1;
    let line = ["--status-fd", "3", "--homedir", "other", "--verify", "data.sig", "data"];
    desk.put("other/trustdb.gpg", &changed);
    let ours = desk.our_gpg(&line, b"");
    assert_eq!(ours, desk.their_gpg(&line, b""));
    assert_eq!(ours.code, 0);
}

#[test]
fn a_home_directory_is_not_changed() {
    let Some(desk) = Desk::with_alice() else { return };
    let listed = |name: &str| {
        let mut all: Vec<_> = fs::read_dir(desk.path(name))
            .unwrap()
            .map(|entry| entry.unwrap())
            .map(|entry| (entry.file_name(), entry.metadata().unwrap().modified().unwrap()))
            .collect();
        all.sort();
        all
    };
    desk.same_gpg(0, "--verify data.sig data");
    fs::create_dir(desk.path("empty")).unwrap();
    fs::set_permissions(desk.path("empty"), fs::Permissions::from_mode(0o700)).unwrap();
    for (home, code) in [("home", 0), ("empty", 2)] {
        let before = listed(home);
        let line = ["--homedir", home, "--verify", "data.sig", "data"];
        assert_eq!(desk.our_gpg(&line, b"").code, code);
        assert_eq!(listed(home), before);
    }
    assert_eq!(desk.our_gpg(&["--homedir", "absent", "--verify", "data.sig", "data"], b"").code, 2);
    assert!(!desk.path("absent").exists());
}

#[test]
fn homes_and_keyrings_are_found_as_gpg_finds_them() {
    let Some(desk) = Desk::with_alice() else { return };
    desk.same_gpg(0, "--verify data.sig data");
    fs::create_dir(desk.path("open")).unwrap();
    fs::set_permissions(desk.path("open"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir(desk.path("old")).unwrap();
    fs::set_permissions(desk.path("old"), fs::Permissions::from_mode(0o700)).unwrap();
    desk.put("old/pubring.gpg", desk.get("keys.gpg"));
    desk.put("text", "no keyring\n");
    for line in [
        "--homedir absent --verify data.sig data",
        "--homedir open --verify data.sig data",
        "--homedir open --no-permission-warning --verify data.sig data",
        "--homedir old --verify data.sig data",
        "--homedir home/ --verify data.sig data",
        "--homedir open --keyring ./keys.gpg --verify data.sig data",
        "--homedir open --keyring pubring.gpg --keyring ./keys.gpg --verify data.sig data",
        "--no-default-keyring --keyring ./keys.gpg --verify data.sig data",
        "--no-default-keyring --verify data.sig data",
        "--keyring ./absent --verify data.sig data",
        "--no-default-keyring --keyring ./no/absent --verify data.sig data",
        "--no-default-keyring --keyring ./text --verify data.sig data",
        "--primary-keyring ./keys.gpg --verify data.sig data",
        "--keyring other:keys.gpg --verify data.sig data",
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        desk.same_gpg_with(&[&["--status-fd", "3"], &words[..]].concat(), b"");
        for made in ["open/pubring.kbx", "open/trustdb.gpg"] {
            let _ = fs::remove_file(desk.path(made));
        }
    }
}

#[test]
fn a_home_with_keyboxd_is_handed_over() {
    let Some(desk) = Desk::with_alice() else { return };
    desk.put("home/common.conf", "use-keyboxd\n");
    let ran = desk.our_gpg(&["--verify", "data.sig", "data"], b"");
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("there is no GnuPG to hand it over to"), "{}", ran.err);
}

/// Nobody but root may look into the home directory of another user.
#[test]
fn a_home_that_may_not_be_read_is_handed_over() {
    let Some(desk) = Desk::with_alice() else { return };
    desk.same_gpg(0, "--verify data.sig data");
    let setpriv = Path::new("/usr/bin/setpriv");
    let setpriv = Some(setpriv).filter(|setpriv| setpriv.exists());
    let Some(setpriv) = talaria_needs::found(setpriv, "setpriv") else { return };
    let user = ["--reuid=65534", "--clear-groups", "--"];
    // Without root, the directory is one's own.
    let is_root = rustix::process::getuid().is_root();
    fs::set_permissions(desk.path(""), fs::Permissions::from_mode(0o755)).unwrap();
    let mode = if is_root { 0o700 } else { 0 };
    fs::set_permissions(desk.path("home"), fs::Permissions::from_mode(mode)).unwrap();
    // The program may lie where that user may not go.
    fs::copy(OUR_GPG, desk.path("ours")).unwrap();
    let ours = desk.at("ours");
    let run = |program: &str, alone: &str| {
        let line = [program, "--verify", "data.sig", "data"];
        let line = [&user[..], &line].concat();
        let variables = [("TALARIA_GPG_TRIED", alone)];
        if is_root {
            desk.run_with(&variables, setpriv, &line, b"")
        } else {
            desk.run_with(&variables, program.as_ref(), &line[user.len() + 1..], b"")
        }
    };
    let (code, out, err) = run(&ours, &desk.alone());
    assert_eq!((code, out), (2, Vec::new()));
    let err = String::from_utf8(err).unwrap();
    assert!(err.contains("there is no GnuPG to hand it over to"), "{err}");
    let (theirs, handed) = (run("/usr/bin/gpg", ""), run(&ours, ""));
    // The names of lock files differ.
    let text = |(code, out, err): (i32, Vec<u8>, Vec<u8>)| {
        let err = String::from_utf8(err).unwrap();
        let lines: Vec<String> = err
            .lines()
            .filter(|line| !line.contains("temporary file"))
            .map(str::to_owned)
            .collect();
        (code, out, lines)
    };
    assert_eq!(text(handed), text(theirs));
    fs::set_permissions(desk.path("home"), fs::Permissions::from_mode(0o700)).unwrap();
}
