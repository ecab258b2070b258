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
