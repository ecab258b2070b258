//! Passphrases that the caller gives (`--pinentry-mode loopback`), by the lines of Maven, python-gnupg
//! and duplicity.

use std::process::Command;

use crate::common::{Desk, Ran};

/// The key of Locked (RSA and X25519) has a passphrase, and that of Alice has none.
fn desk() -> Option<Desk> {
    let desk = Desk::new()?;
    desk.make_key("Alice <alice@example.org>", "ed25519");
    let made = ["--batch", "-q", "--pinentry-mode=loopback", "--passphrase=secret"];
    let key = ["--quick-gen-key", "Locked <locked@example.org>", "rsa1024", "sign,cert", "never"];
    assert_eq!(desk.their_gpg(&[&made[..], &key].concat(), b"").code, 0);
    let subkey = ["--quick-add-key", &desk.fingerprint("locked"), "cv25519", "encr", "never"];
    assert_eq!(desk.their_gpg(&[&made[..], &subkey].concat(), b"").code, 0);
    desk.put("data", "attack at dawn\n");
    desk.gpg(&["--trust-model", "always", "-o", "data.gpg", "-r", "locked", "-e", "data"]);
    desk.put("good", "secret\nand more\n");
    desk.put("bad", "wrong\n");
    desk.refresh();
    Some(desk)
}

/// Runs a program while the agent remembers no passphrase.
fn forgotten(desk: &Desk, run: impl FnOnce() -> Ran) -> Ran {
    let mut kill = Command::new("gpgconf");
    kill.args(["--homedir", &desk.at("home"), "--kill", "all"]);
    assert!(kill.status().unwrap().success());
    run()
}

/// Runs both, and compares what they say. Times and random numbers differ.
#[track_caller]
fn same(desk: &Desk, code: i32, line: &str, input: &[u8]) -> Ran {
    let words: Vec<&str> = line.split(' ').collect();
    let arguments = [&["--batch", "--status-fd", "3", "--pinentry-mode", "loopback"], &words[..]];
    let arguments = arguments.concat();
    let theirs = forgotten(desk, || desk.their_gpg(&arguments, input));
    let ours = forgotten(desk, || desk.our_gpg(&arguments, input));
    let said = |ran: &Ran| {
        let line = |line: &str| match line.split_once("SIG_CREATED") {
            Some((before, rest)) => before.to_owned() + &rest[..8],
            None => line.to_owned(),
        };
        let mut lines: Vec<String> = ran.status.lines().map(line).collect();
        lines.sort();
        (ran.code, ran.err.clone(), lines)
    };
    assert_eq!(said(&ours), said(&theirs), "ours on the left: gpg {arguments:?}");
    assert_eq!(ours.code, code, "{line}: {}", ours.err);
    ours
}

#[test]
fn signatures_are_made_with_the_passphrase_of_the_caller() {
    let Some(desk) = desk() else { return };
    let verified = |ran: &Ran| {
        desk.put("ours.sig", ran.file.as_ref().unwrap_or(&ran.out));
        desk.their_gpg(&["--verify", "ours.sig", "data"], b"").code
    };
    for (line, input) in [
        ("--passphrase-fd 0 -u locked -o output -b data", &b"secret\n"[..]),
        ("--passphrase-fd 0 -u locked -o output -b data", b"secret"),
        ("--passphrase secret -u locked -o output -b data", b""),
        ("--passphrase-file good -u locked -o output -b data", b""),
        ("--passphrase wrong --passphrase-fd 0 -u locked -o output -b data", b"secret\n"),
        ("--passphrase-fd 0 --passphrase wrong -u locked -o output -b data", b"secret\n"),
        // Maven.
        (
            "--passphrase-fd 0 -u locked --armor --detach-sign --no-tty --output output data",
            b"secret\n",
        ),
        ("--passphrase-fd 0 -u locked -o - -ab", b"secret\nattack at dawn\n"),
        ("--passphrase-fd 0 -u locked -u alice -o output -b data", b"secret\n"),
        ("--passphrase-fd 0 -u alice -o output -b data", b"nothing\n"),
    ] {
        assert_eq!(verified(&same(&desk, 0, line, input)), 0, "{line}");
    }
    for (line, input) in [
        ("--passphrase-fd 0 -u locked -o output -b data", &b"wrong\n"[..]),
        ("--passphrase-fd 0 -u locked -o output -b data", b""),
        ("--passphrase-file bad -u locked -o output -b data", b""),
        ("--passphrase wrong -u locked -o output --clearsign data", b""),
    ] {
        assert_eq!(same(&desk, 2, line, input).file, None, "{line}");
    }
    let signed = "--passphrase-fd 0 -u locked -r locked -o output -se data";
    let message = same(&desk, 0, signed, b"secret\n").file.unwrap();
    desk.put("ours.gpg", message);
    assert_eq!(desk.gpg(&["--passphrase=secret", "-d", "ours.gpg"]), desk.get("data"));
    assert_eq!(same(&desk, 2, signed, b"wrong\n").file, None);
}

#[test]
fn messages_are_decrypted_with_the_passphrase_of_the_caller() {
    let Some(desk) = desk() else { return };
    let message = desk.get("data.gpg");
    // python-gnupg.
    let python =
        "--no-tty --no-verbose --fixed-list-mode --with-colons --passphrase-fd 0 --decrypt";
    for (line, input) in [
        ("--passphrase-fd 0 -d data.gpg", &b"secret\n"[..]),
        ("--passphrase secret -d data.gpg", b""),
        ("--passphrase-file good -o output -d data.gpg", b""),
        ("--passphrase secret -d", &message),
        ("--passphrase-fd 0 -d", &[b"secret\n", &message[..]].concat()),
        (python, &[b"secret\n", &message[..]].concat()),
    ] {
        let ran = same(&desk, 0, line, input);
        assert_eq!(ran.file.unwrap_or(ran.out), b"attack at dawn\n", "{line}");
    }
    desk.put("both", [b"secret\n", &message[..]].concat());
    let alone = desk.alone();
    let script = format!(
        "{} -q --batch --pinentry-mode loopback --passphrase-fd 0 -d <both",
        crate::common::OUR_GPG
    );
    let variables = [("TALARIA_GPG_TRIED", &*alone)];
    let ran = desk.run_with(&variables, "/bin/sh".as_ref(), &["-c", &script], b"");
    assert_eq!((ran.0, &ran.1[..]), (0, &b"attack at dawn\n"[..]));
    for (line, input) in [
        ("--passphrase-fd 0 -d data.gpg", &b"wrong\n"[..]),
        ("--passphrase wrong -d data.gpg", b""),
    ] {
        assert!(same(&desk, 2, line, input).out.is_empty(), "{line}");
    }
}

/// Ours makes the key of a passphrase with SHA-256, and wraps the session key with it.
#[test]
fn messages_to_a_passphrase_are_those_of_gpg() {
    let Some(desk) = desk() else { return };
    desk.put("data.gz", [b"\x1f\x8b\x08".as_slice(), &[7; 5000]].concat());
    let run = |line: &str, input: &[u8]| {
        let words: Vec<&str> = line.split(' ').collect();
        let always = ["--batch", "--status-fd", "3", "--pinentry-mode", "loopback"];
        let arguments = [&always[..], &words].concat();
        let theirs = desk.their_gpg(&arguments, input);
        let ours = desk.our_gpg(&arguments, input);
        let status = |ran: &Ran| {
            let lines = ran.status.lines().map(|line| match line.rsplit_once(' ') {
                Some((before, "2" | "8")) if line.contains("NEED_PASSPHRASE_SYM") => before,
                _ => line,
            });
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        let said = |ran: &Ran| (ran.code, ran.err.clone(), status(ran));
        assert_eq!(said(&ours), said(&theirs), "ours on the left: gpg {line}");
        (ours, theirs)
    };
    let content = |message: &[u8]| {
        let line = ["--passphrase=secret", "--list-packets"];
        let listed = String::from_utf8(desk.gpg_with(&line, message)).unwrap();
        let kept = |line: &&str| line.starts_with(":comp") || line.starts_with(":lit");
        listed.lines().filter(kept).map(str::to_owned).collect::<Vec<_>>()
    };
    for (line, input) in [
        ("--passphrase secret -o output -c data", &b""[..]),
        ("--passphrase-fd 0 -o output -c data", b"secret\n"),
        ("--passphrase-file good -a -o output --symmetric data", b""),
        ("--passphrase secret -z 0 --cipher-algo AES -o output -c data", b""),
        ("--passphrase secret --personal-cipher-preferences AES192 -o output -c data", b""),
        ("--passphrase secret --compress-algo bzip2 -o output -c data", b""),
        ("--passphrase secret -o output -c data.gz", b""),
        ("--passphrase secret -o output -c", b"attack at dawn\n"),
        ("--passphrase-fd 0 --armor --symmetric", b"secret\nattack at dawn\n"),
    ] {
        let (ours, theirs) = run(line, input);
        assert_eq!(ours.code, 0, "{line}");
        let written = |ran: Ran| ran.file.unwrap_or(ran.out);
        let (ours, theirs) = (written(ours), written(theirs));
        assert_eq!(content(&ours), content(&theirs), "{line}");
        let wanted = if line.contains("data.gz") { "data.gz" } else { "data" };
        for (name, message) in [("ours.gpg", ours), ("theirs.gpg", theirs)] {
            desk.put(name, message);
            let (ran, _) = run(&format!("--passphrase-fd 0 -d {name}"), b"secret\n");
            assert_eq!((ran.code, ran.out), (0, desk.get(wanted)), "{line}");
        }
    }
    for name in ["ours.gpg", "theirs.gpg"] {
        for more in ["-v", "-q"] {
            assert_eq!(run(&format!("{more} --passphrase secret -d {name}"), b"").0.code, 0);
        }
        let (ran, _) = run(&format!("--passphrase wrong -o output -d {name}"), b"");
        assert_eq!((ran.code, ran.file), (2, None));
        let mut changed = desk.get(name);
        if changed[0] & 0x80 == 0 {
            continue;
        }
        *changed.last_mut().unwrap() ^= 1;
        desk.put("changed.gpg", changed);
        let line = "--batch --pinentry-mode loopback --passphrase secret -d changed.gpg";
        let ran = desk.our_gpg(&line.split(' ').collect::<Vec<_>>(), b"");
        assert_eq!((ran.code, ran.out), (2, Vec::new()), "{}", ran.err);
    }
    for line in ["--passphrase secret -o output -c absent", "--passphrase= -o output -c data"] {
        assert_eq!(run(line, b"").0.code, 2, "{line}");
    }
    for line in [
        "--passphrase secret -c data",
        "--pinentry-mode loopback -c data",
        "--pinentry-mode loopback --passphrase secret -u alice -sc data",
        "--pinentry-mode loopback --passphrase secret -r alice -ec data",
        "--pinentry-mode loopback --passphrase secret --s2k-count 65536 -c data",
        "--pinentry-mode loopback --passphrase secret --s2k-digest-algo SHA512 -c data",
        "--pinentry-mode loopback --passphrase secret --cipher-algo TWOFISH -c data",
        "--pinentry-mode loopback --passphrase secret -v -c data",
        "-d theirs.gpg",
        "--passphrase secret -d theirs.gpg",
        "--pinentry-mode loopback --passphrase secret --list-only -d theirs.gpg",
    ] {
        desk.handed_over(&format!("--batch {line}"));
    }
}

#[test]
fn passphrases_for_other_tasks_are_handed_over() {
    let Some(desk) = desk() else { return };
    desk.gpg(&["-u", "alice", "-o", "signed", "-s", "data"]);
    for line in [
        "--pinentry-mode loopback -u locked -b data",
        "--pinentry-mode loopback -d data.gpg",
        "--pinentry-mode cancel --passphrase x -u locked -b data",
        "--passphrase x --with-colons --list-keys",
        "--passphrase-fd 0 --verify signed",
        "--passphrase-fd 0 -d signed",
        "--passphrase-file absent -u alice -b data",
        "--passphrase x -c data",
        "--passphrase x -r alice -e data",
    ] {
        desk.handed_over(&format!("--batch {line}"));
    }
    // Without a loopback, a passphrase is read and not used.
    let ran = desk.our_gpg(
        &["--batch", "--passphrase-fd", "0", "-u", "alice", "-o", "-", "-b", "data"],
        b"x\n",
    );
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(desk.our_gpg(&["--passphrase", "x", "-d", "signed"], b"").out, desk.get("data"));
}
