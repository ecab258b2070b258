//! Programs that start gpgv or gpg, and their command lines.

use std::path::PathBuf;

use crate::common::{Desk, OUR_GPG};

/// A `Release` file as an archive has it.
fn release() -> String {
    let sums: String = (0..2000)
        .map(|at| format!(" {:064x} {at:>8} main/binary-{at}/Packages\n", at * at))
        .collect();
    format!("Origin: Debian\nSuite: stable\nDate: Sat, 10 Jun 2023 08:53:33 UTC\nSHA256:\n{sums}")
}

/// apt starts gpgv with the signature and the data apart, also for `InRelease`, which it splits.
#[test]
fn apt_gets_the_same_status_lines() {
    let Some(desk) = Desk::with_alice() else { return };
    desk.make_key("Archive <archive@example.org>", "rsa2048");
    desk.export("all.gpg");
    desk.put("Release", release());
    let users = ["-u", "archive", "-u", "alice"];
    desk.gpg(&[&users[..], &["-a", "-b", "-o", "Release.gpg", "Release"]].concat());
    desk.gpg(&[&users[..], &["--clearsign", "-o", "InRelease", "Release"]].concat());
    let home = desk.at("home");
    for (code, rings) in [
        (0, "--keyring ./all.gpg"),
        (2, "--keyring ./keys.gpg"),
        (0, "--keyring ./keys.gpg --keyring ./all.gpg"),
    ] {
        let line = format!("--homedir {home} {rings} --ignore-time-conflict");
        desk.same_as(code, &format!("{line} Release.gpg Release"));
        desk.same_as(code, &format!("{line} InRelease"));
        desk.same_as(1, &format!("{line} Release.gpg InRelease"));
    }
}

/// The lists of the machine, with the keyring of Debian.
#[test]
fn releases_of_debian_are_verified() {
    const RING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
    let Some(desk) = Desk::new() else { return };
    let lists = std::fs::read_dir("/var/lib/apt/lists").into_iter().flatten().flatten();
    let named = |path: &PathBuf| path.to_string_lossy().ends_with("InRelease");
    for path in lists.map(|entry| entry.path()).filter(named) {
        let path = path.to_str().unwrap();
        for options in ["", "-v ", "--ignore-time-conflict ", "-o output "] {
            desk.same(&format!("--keyring {RING} {options}{path}"));
        }
    }
}

/// dpkg-source of Debian 12 takes the content of a `.dsc` from `--output`.
#[test]
fn dpkg_source_gets_the_content_of_a_signed_text() {
    let Some(desk) = Desk::with_alice() else { return };
    desk.put("x.dsc", "Format: 3.0 (quilt)\nSource: x\nVersion: 1-1\n");
    desk.gpg(&["-u", "alice", "--clearsign", "-o", "signed.dsc", "x.dsc"]);
    std::fs::create_dir(desk.path("empty")).unwrap();
    desk.put("empty/trustedkeys.gpg", "");
    let line = "--weak-digest SHA1 --weak-digest RIPEMD160 --homedir empty";
    let ran = desk.same_as(0, &format!("{line} --keyring ./keys.gpg --output output signed.dsc"));
    assert_eq!(ran.file.unwrap(), desk.get("x.dsc"));
    desk.same_as(2, &format!("{line} signed.dsc"));
}

/// debootstrap, debmirror, uscan, and debsig-verify's policy with gpgv in its place.
#[test]
fn others_get_the_same_results() {
    let Some(desk) = Desk::with_alice() else { return };
    let ring = desk.at("keys.gpg");
    for line in [
        format!("--status-fd 1 --keyring {ring} --ignore-time-conflict data.sig data"),
        format!("--status-fd 2 --keyring {ring} data.sig data"),
        format!("--homedir /dev/null --keyring {ring} data.sig data"),
        format!("-q --status-fd=1 --logger-fd=1 --keyring={ring} data.sig data"),
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        assert_eq!(desk.same_with(&words, b"").code, 0);
    }
    // debsig-verify gives the data on the standard input.
    let line = ["--status-fd", "1", "--keyring", &ring, "data.sig", "-"];
    assert_eq!(desk.same_with(&line, &desk.get("data")).code, 0);
}

/// pass does all of its work with ours alone, and reads with either what the other has written.
#[test]
fn pass_keeps_passwords() {
    let Some(desk) = Desk::new() else { return };
    let pass = Some(PathBuf::from("/usr/bin/pass")).filter(|path| path.exists());
    let Some(pass) = talaria_needs::found(pass, "pass") else { return };
    for user_id in ["Alice <alice@example.org>", "Bob <bob@example.org>"] {
        desk.make_key(user_id, "ed25519");
        let name = desk.fingerprint(user_id.split(' ').next().unwrap());
        desk.gpg(&["--quick-add-key", &name, "cv25519", "encr", "never"]);
    }
    desk.refresh();
    std::fs::create_dir(desk.path("bin")).unwrap();
    std::os::unix::fs::symlink(OUR_GPG, desk.path("bin/gpg")).unwrap();
    let (store, alone) = (desk.at("store"), desk.alone());
    let (usual, ours) = ("/usr/bin:/bin".to_owned(), desk.at("bin") + ":/usr/bin:/bin");
    let run = |path: &str, words: &[&str], input: &[u8]| {
        let variables = [
            ("PATH", path),
            ("PASSWORD_STORE_DIR", &*store),
            ("TALARIA_GPG_TRIED", &*alone),
            ("HOME", &*store),
        ];
        let (code, out, err) = desk.run_with(&variables, &pass, words, input);
        assert_eq!(code, 0, "pass {words:?}: {}", String::from_utf8_lossy(&err));
        String::from_utf8(out).unwrap()
    };
    run(&ours, &["init", "alice@example.org"], b"");
    run(&ours, &["insert", "-f", "site"], b"secret\nsecret\n");
    run(&ours, &["insert", "-m", "notes"], b"one\ntwo\n");
    run(&ours, &["generate", "-n", "other", "20"], b"");
    for path in [&usual, &ours] {
        assert_eq!(run(path, &["show", "site"], b""), "secret\n");
        assert_eq!(run(path, &["show", "notes"], b""), "one\ntwo\n");
    }
    assert_eq!(run(&ours, &["show", "other"], b""), run(&usual, &["show", "other"], b""));
    // All are encrypted again, and only those that are not so already.
    assert!(run(&ours, &["init", "alice@example.org", "bob@example.org"], b"").contains("site"));
    assert!(!run(&ours, &["init", "alice@example.org", "bob@example.org"], b"").contains("site"));
    assert_eq!(run(&usual, &["show", "site"], b""), "secret\n");
    run(&usual, &["insert", "-m", "theirs"], b"three\n");
    assert_eq!(run(&ours, &["show", "theirs"], b""), "three\n");
}
