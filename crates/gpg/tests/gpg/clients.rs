//! Programs that start gpgv or gpg, and their command lines.

use std::path::{Path, PathBuf};

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

/// A program of others, which must be installed.
fn client(path: &str) -> Option<PathBuf> {
    let found = Some(PathBuf::from(path)).filter(|path| path.exists());
    talaria_needs::found(found, path.rsplit('/').next().unwrap())
}

/// A desk with keys that sign and that decrypt, and a folder in which our program is `gpg`.
fn desk_with_keys(user_ids: &[&str]) -> Option<Desk> {
    let desk = Desk::new()?;
    for user_id in user_ids {
        desk.make_key(user_id, "ed25519");
        let name = desk.fingerprint(user_id.split(' ').next().unwrap());
        desk.gpg(&["--quick-add-key", &name, "cv25519", "encr", "never"]);
    }
    desk.refresh();
    std::fs::create_dir(desk.path("bin")).unwrap();
    std::os::unix::fs::symlink(OUR_GPG, desk.path("bin/gpg")).unwrap();
    Some(desk)
}

/// Runs a program that finds one of the two as `gpg`; ours hands nothing over.
#[track_caller]
fn run_client(desk: &Desk, ours: bool, program: &Path, words: &[&str], input: &[u8]) -> String {
    let usual = "/usr/bin:/bin";
    let path = if ours { format!("{}:{usual}", desk.at("bin")) } else { usual.to_owned() };
    let (folder, alone) = (desk.at("client"), desk.alone());
    let variables = [
        ("PATH", &*path),
        ("HOME", &*folder),
        ("PASSWORD_STORE_DIR", &*folder),
        ("PASSPHRASE", "secret"),
        ("TALARIA_GPG_TRIED", &*alone),
    ];
    let (code, out, err) = desk.run_with(&variables, program, words, input);
    let out = String::from_utf8_lossy(&out).into_owned();
    assert_eq!(code, 0, "{} {words:?}: {out}{}", program.display(), String::from_utf8_lossy(&err));
    out
}

/// pass does all of its work with ours alone, and reads with either what the other has written.
#[test]
fn pass_keeps_passwords() {
    let Some(pass) = client("/usr/bin/pass") else { return };
    let users = ["Alice <alice@example.org>", "Bob <bob@example.org>"];
    let Some(desk) = desk_with_keys(&users) else { return };
    let run = |ours, words: &[&str], input: &[u8]| run_client(&desk, ours, &pass, words, input);
    run(true, &["init", "alice@example.org"], b"");
    run(true, &["insert", "-f", "site"], b"secret\nsecret\n");
    run(true, &["insert", "-m", "notes"], b"one\ntwo\n");
    run(true, &["generate", "-n", "other", "20"], b"");
    for ours in [false, true] {
        assert_eq!(run(ours, &["show", "site"], b""), "secret\n");
        assert_eq!(run(ours, &["show", "notes"], b""), "one\ntwo\n");
    }
    assert_eq!(run(true, &["show", "other"], b""), run(false, &["show", "other"], b""));
    // All are encrypted again, and only those that are not so already.
    let both = ["init", "alice@example.org", "bob@example.org"];
    assert!(run(true, &both, b"").contains("site"));
    assert!(!run(true, &both, b"").contains("site"));
    assert_eq!(run(false, &["show", "site"], b""), "secret\n");
    run(false, &["insert", "-m", "theirs"], b"three\n");
    assert_eq!(run(true, &["show", "theirs"], b""), "three\n");
}

/// duplicity makes a full and an incremental backup with either program, and restores them with the
/// other: with keys, and with a passphrase.
#[test]
fn duplicity_backs_up_and_restores() {
    let Some(duplicity) = client("/usr/bin/duplicity") else { return };
    let Some(desk) = desk_with_keys(&["Alice <alice@example.org>"]) else { return };
    let key = desk.fingerprint("alice");
    let keys = ["--encrypt-key", &key[24..], "--sign-key", &key[24..]];
    std::fs::create_dir(desk.path("files")).unwrap();
    let mut random = fastrand::Rng::with_seed(7);
    let numbers: Vec<u8> = (0..200_000).map(|_| random.u8(..)).collect();
    for (round, (ours, keys)) in
        [(true, &keys[..]), (false, &keys), (true, &[]), (false, &[])].into_iter().enumerate()
    {
        let at = |name: &str| desk.at(&format!("{name}-{round}"));
        let (place, cache, other) = (format!("file://{}", at("place")), at("cache"), at("other"));
        let run = |ours, words: &[&str]| {
            run_client(&desk, ours, &duplicity, &[words, keys].concat(), b"")
        };
        desk.put("files/a", &numbers);
        for how in ["full", "incr"] {
            let said = run(ours, &[how, "--archive-dir", &cache, "files", &place]);
            assert!(said.contains("Errors 0"), "{said}");
            desk.put("files/b", "more\n");
        }
        run(ours, &["verify", "--archive-dir", &cache, &place, "files"]);
        run(!ours, &["restore", "--archive-dir", &other, &place, &at("restored")]);
        assert_eq!(desk.get(&format!("restored-{round}/a")), numbers);
        assert_eq!(desk.get(&format!("restored-{round}/b")), b"more\n");
        std::fs::remove_file(desk.path("files/b")).unwrap();
    }
}

/// gpgme's lines: the status lines in a descriptor of their own, and messages in others.
#[test]
fn gpgme_gets_the_same_results() {
    let Some(_) = client("/usr/lib/python3/dist-packages/gpg/__init__.py") else { return };
    let Some(desk) = desk_with_keys(&["Alice <alice@example.org>"]) else { return };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/gpg/gpgme.py");
    for (ours, program) in [(true, desk.at("bin/gpg")), (false, "/usr/bin/gpg".to_owned())] {
        let words = [script.to_str().unwrap(), &program, &desk.at("home")];
        let said = run_client(&desk, ours, Path::new("/usr/bin/python3"), &words, b"");
        assert_eq!(said, "all is well\n");
    }
}

/// python-gnupg's own tests, by both. What fails with ours alone are signatures with SHA-1, which
/// 1024-bit DSA keys make.
#[test]
fn the_tests_of_python_gnupg_pass() {
    const REFUSED: [&str; 3] =
        ["test_encryption_and_decryption", "test_passing_paths", "test_signature_verification"];
    if talaria_needs::short_or_full(0, 1) == 0 {
        return;
    }
    let Some(desk) = desk_with_keys(&[]) else { return };
    let name = "python-gnupg==0.5.5";
    let line =
        ["-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:", "-d", ".", name];
    let got = desk.run_with(&[], Path::new("python3"), &line, b"");
    assert_eq!(got.0, 0, "{}", String::from_utf8_lossy(&got.2));
    let tar = desk.run_with(&[], Path::new("tar"), &["xf", "python-gnupg-0.5.5.tar.gz"], b"");
    assert_eq!(tar.0, 0);
    let failed = |program: &str| {
        let script = "cd python-gnupg-0.5.5 && exec timeout 900 /usr/bin/python3 test_gnupg.py";
        let variables = [("GPGBINARY", program), ("NO_EXTERNAL_TESTS", "1")];
        let (_, _, said) = desk.run_with(&variables, Path::new("/bin/sh"), &["-c", script], b"");
        let said = String::from_utf8_lossy(&said).into_owned();
        assert!(said.contains("Ran 43 tests"), "{said}");
        let names = said.lines().filter_map(|line| {
            let rest = line.strip_prefix("FAIL: ").or(line.strip_prefix("ERROR: "))?;
            rest.split(' ').next().map(str::to_owned)
        });
        names.collect::<Vec<_>>()
    };
    let theirs = failed("/usr/bin/gpg");
    let mut ours = failed(&desk.at("bin/gpg"));
    ours.retain(|name| !theirs.contains(name));
    ours.sort();
    assert_eq!(ours, REFUSED, "gpg itself fails {theirs:?}");
}
