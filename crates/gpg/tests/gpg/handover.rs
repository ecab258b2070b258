//! What `talaria-gpg` does not do itself: the configuration that is not obeyed, the commands that the
//! real gpg does, and what happens without it.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

use crate::common::{Desk, OUR_GPG};

/// A program in gpg's place that writes what it gets.
const RECORDER: &str = "#!/bin/sh\nprintf '%s|' \"$0\" \"$@\"; cat; cat <&7; exit 7\n";

fn program(desk: &Desk, name: &str, text: &str) {
    desk.put(name, text);
    fs::set_permissions(desk.path(name), fs::Permissions::from_mode(0o755)).unwrap();
}

/// Runs our gpg by a name, with a `PATH`, and with text on the input and on descriptor 7.
fn run(desk: &Desk, name: &str, path: &str, line: &str) -> (i32, String, String) {
    let script = format!("exec {name} {line} 7<seven");
    desk.put("seven", "seventh");
    let path = format!("{path}:/usr/bin:/bin");
    let (code, out, err) =
        desk.run_with(&[("PATH", &path)], "/bin/sh".as_ref(), &["-c", &script], b"input,");
    (code, String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
}

#[test]
fn arguments_descriptors_and_the_input_arrive_as_they_are() {
    let Some(desk) = Desk::new() else { return };
    fs::create_dir(desk.path("bin")).unwrap();
    program(&desk, "bin/gpg", RECORDER);
    let bin = desk.at("bin");
    for line in [
        "-ca --local-user 'a  b' --yes",
        "--decrypt",
        "--verify --auto-key-retrieve a b",
        "--bogus --sign",
        "--output",
        "-seb --no-such-option=3",
        "--encrypt --symmetric -r bob -- --x",
        "--list-packets",
        "--import",
        "--verify --sign",
        "--trust-model tofu --verify a b",
        "--passphrase-fd 0 --verify a b",
    ] {
        let (code, out, err) = run(&desk, OUR_GPG, &bin, line);
        assert_eq!((code, err.as_str()), (7, ""), "{line}");
        let words = line.replace('\'', "");
        let words: Vec<&str> = if line.contains('\'') {
            vec!["-ca", "--local-user", "a  b", "--yes"]
        } else {
            words.split(' ').collect()
        };
        let program = desk.at("bin/gpg");
        assert_eq!(out, format!("{program}|{}|input,seventh", words.join("|")), "{line}");
    }
}

/// `PATH` may have our program as `gpg`: by a link, by a copy, or by a script.
#[test]
fn no_program_calls_itself_in_a_circle() {
    let Some(desk) = Desk::new() else { return };
    for folder in ["link", "copy", "script", "last"] {
        fs::create_dir(desk.path(folder)).unwrap();
    }
    symlink(OUR_GPG, desk.path("link/gpg")).unwrap();
    fs::copy(OUR_GPG, desk.path("copy/gpg")).unwrap();
    program(&desk, "script/gpg", &format!("#!/bin/sh\nexec {OUR_GPG} \"$@\"\n"));
    program(&desk, "last/gpg", RECORDER);
    let path = ["link", "copy", "script", "last"].map(|folder| desk.at(folder)).join(":");
    for name in [OUR_GPG, "gpg"] {
        let (code, out, err) = run(&desk, name, &path, "--symmetric");
        assert_eq!((code, err.as_str()), (7, ""), "{name}");
        assert!(out.ends_with("gpg|--symmetric|input,seventh"), "{out}");
    }
}

#[test]
fn without_a_real_gpg_the_reason_is_named() {
    let Some(desk) = Desk::with_alice() else { return };
    for (line, text) in [
        ("--symmetric", "gpg: --symmetric is not implemented"),
        ("-c", "gpg: --symmetric is not implemented"),
        (
            "--verify --auto-key-retrieve data.sig data",
            "gpg: --auto-key-retrieve is not implemented",
        ),
        ("--trust-model tofu --verify data.sig data", "gpg: --trust-model tofu is not implemented"),
        ("--cipher-algo nonsense --verify data.sig data", "gpg: --cipher-algo nonsense is not"),
        ("--bogus", "invalid option \"--bogus\""),
        ("--no-such=3 --sign", "invalid option \"--no-such=3\""),
        ("--verify --sign", "gpg: conflicting commands"),
        ("--status-fd 99 --verify data.sig data", "gpg: Fatal: status-fd is invalid: Bad file"),
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let ran = desk.our_gpg(&words, b"");
        assert_eq!((ran.code, ran.out.as_slice()), (2, &b""[..]), "{line}");
        assert!(ran.err.starts_with(text), "{line}: {}", ran.err);
    }
    let text = "gpg: Fatal: status-fd is invalid: Bad file descriptor\n";
    let theirs = desk.their_gpg(&["--status-fd", "99", "--verify", "data.sig", "data"], b"");
    assert_eq!((theirs.code, theirs.err.as_str()), (2, text));
}

#[test]
fn configuration_is_obeyed_or_handed_over() {
    let Some(desk) = Desk::with_alice() else { return };
    desk.same_gpg(0, "--verify data.sig data");
    desk.gpg(&["-u", "alice", "-b", "-a", "-o", "data.asc", "data"]);
    let line = "--verify data.sig data";
    for config in [
        "# nothing\n\n   \n",
        "keyid-format 0xlong\nverbose\n",
        "  keyid-format   \"short\"  \nverbose",
        "\u{feff}quiet\n",
        "no-greeting\nuse-agent\ncharset utf-8\nkeyserver hkps://keys.openpgp.org\n",
        "personal-digest-preferences SHA512 SHA384 SHA256\ncert-digest-algo SHA512\n",
        "default-preference-list SHA512 AES256 ZLIB\nno-emit-version\nno-comments\n",
        "default-key 0123456789ABCDEF\nencrypt-to alice\ngroup us = alice bob\n",
        "trust-model always\nverify-options no-show-uid-validity\n",
        "list-options show-uid-validity\nwith-fingerprint\n",
        "keyserver-options no-honor-keyserver-url include-revoked\n",
        "weak-digest SHA512\n",
        "keyring ./absent\n",
        "verify-options show-uid-validity show-unusable-uids\n",
    ] {
        desk.put("home/gpg.conf", config);
        for options in ["", "--no-options ", "--keyid-format long ", "--options other "] {
            desk.put("other", "verbose\n");
            let words = format!("--status-fd 3 {options}{line}");
            desk.same_gpg_with(&words.split(' ').collect::<Vec<_>>(), b"");
        }
    }
    for (config, text) in [
        ("quiet\nbogus\n", "gpg.conf:2: invalid option \"bogus\""),
        ("quiet 3\n", "gpg.conf:1: argument not expected \"quiet\""),
        ("keyid-format\n", "gpg.conf:1: missing argument \"keyid-format\""),
        ("auto-key-retrieve\n", "gpg.conf:1: --auto-key-retrieve is not implemented"),
        ("\n\ntrust-model tofu+pgp\n", "gpg.conf:3: --trust-model tofu+pgp is not implemented"),
        ("cipher-algo ROT13\n", "gpg.conf:1: --cipher-algo ROT13 is not implemented"),
        ("[x]\n", "gpg.conf:1: [x] is not implemented"),
        ("version\n", "gpg.conf:1: version is not implemented"),
    ] {
        desk.put("home/gpg.conf", config);
        let ran = desk.our_gpg(&line.split(' ').collect::<Vec<_>>(), b"");
        assert_eq!(ran.code, 2, "{config}");
        assert!(ran.err.contains(text), "{config}: {}", ran.err);
        let words = format!("--status-fd 3 {line}");
        let words: Vec<&str> = words.split(' ').collect();
        assert_eq!(desk.our_gpg_or_theirs(&words, b""), desk.their_gpg(&words, b""), "{config}");
    }
    // The first file that may be read counts.
    desk.put("home/gpg.conf", "bogus\n");
    desk.put("home/gpg.conf-2", "bogus\n");
    desk.put("home/gpg.conf-2.2", "verbose\n");
    desk.same_gpg(0, line);
    let ran = desk.our_gpg(&["--options", "absent", "--verify", "data.sig", "data"], b"");
    let theirs = desk.their_gpg(&["--options", "absent", "--verify", "data.sig", "data"], b"");
    assert_eq!(ran, theirs);
}

/// git signs by hand-over, and verifies here.
#[test]
fn git_signs_and_verifies() {
    let Some(desk) = Desk::with_alice() else { return };
    let has_git = Command::new("git").arg("--version").output().is_ok();
    let git = Some(Path::new("git")).filter(|_| has_git);
    let Some(git) = talaria_needs::found(git, "git") else { return };
    let key = desk.fingerprint("alice");
    let git = |line: &[&str]| {
        let always = ["-c", "user.name=Alice", "-c", "user.email=alice@example.org"];
        let program = format!("gpg.program={OUR_GPG}");
        let signer = format!("user.signingkey={key}");
        let always = [&always[..], &["-c", &program, "-c", &signer, "-C", "repository"]].concat();
        let variables = [("GIT_CONFIG_GLOBAL", "/dev/null"), ("GIT_CONFIG_SYSTEM", "/dev/null")];
        let (code, out, err) = desk.run_with(&variables, git, &[&always, line].concat(), b"");
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (code, text(out), text(err))
    };
    fs::create_dir(desk.path("repository")).unwrap();
    for line in [
        &["init", "-q"][..],
        &["commit", "-q", "--allow-empty", "-S", "-m", "first"],
        &["tag", "-s", "-m", "tag", "v1"],
    ] {
        let (code, _, err) = git(line);
        assert_eq!(code, 0, "{line:?}: {err}");
    }
    for (line, text) in [
        (&["verify-commit", "-v", "HEAD"][..], "Good signature from \"Alice"),
        (&["verify-tag", "v1"], "Good signature from \"Alice"),
        (&["log", "--show-signature"], "Good signature from \"Alice"),
        (&["log", "--format=%G? %GK %GF %GS %GT"], "G "),
    ] {
        let (code, out, err) = git(line);
        assert_eq!(code, 0, "{line:?}: {err}");
        assert!(format!("{out}{err}").contains(text), "{line:?}: {out}{err}");
    }
    assert!(git(&["log", "--format=%GT"]).1.starts_with("ultimate"));
}

/// The options that programs give with `--verify`.
#[test]
fn others_get_the_same_results() {
    let Some(desk) = Desk::with_alice() else { return };
    desk.same_gpg(0, "--verify data.sig data");
    let home = desk.at("home");
    let ring = desk.at("keys.gpg");
    for line in [
        // python-gnupg
        format!(
            "--status-fd 2 --no-tty --no-verbose --fixed-list-mode --batch --with-colons \
             --homedir {home} --verify data.sig data"
        ),
        // dpkg
        format!(
            "--no-options --no-default-keyring --batch --quiet --weak-digest SHA1 \
             --weak-digest RIPEMD160 --keyring {ring} --verify data.sig data"
        ),
        // duplicity
        "--status-fd 1 --logger-fd 1 --no-secmem-warning --batch --no-tty --pinentry-mode=loopback \
         --force-mdc --verify data.sig data"
            .to_owned(),
        // debsig-verify, devscripts
        format!(
            "--no-options --no-default-keyring --batch --no-secmem-warning --no-permission-warning \
             --no-mdc-warning --no-auto-check-trustdb --keyring {ring} --verify data.sig data"
        ),
        "-v --no-permission-warning --list-options no-show-policy-urls --verify data.sig data".to_owned(),
    ] {
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(desk.same_gpg_with(&words, b"").code, 0, "{line}");
    }
}
