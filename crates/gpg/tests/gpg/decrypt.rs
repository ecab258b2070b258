//! Decryption by `talaria-gpg` and by gpg: the same content, texts and status lines.

use std::process::Command;

use crate::common::{Desk, Ran};

/// Keys that decrypt: Alice (X25519), Bob (RSA) and Carol (P-384); and Frank, of whom only the
/// certificate is there.
fn desk() -> Option<Desk> {
    let desk = Desk::new()?;
    for (user_id, algorithm, subkey) in [
        ("Alice <alice@example.org>", "ed25519", "cv25519"),
        ("Bob <bob@example.org>", "rsa2048", "rsa1024"),
        ("Carol", "nistp384", "nistp384"),
        ("Frank <frank@example.org>", "ed25519", "cv25519"),
    ] {
        desk.make_key(user_id, algorithm);
        let name = desk.fingerprint(user_id.split(' ').next().unwrap());
        desk.gpg(&["--quick-add-key", &name, subkey, "encr", "never"]);
    }
    let frank = desk.fingerprint("frank");
    desk.gpg(&["--yes", "--delete-secret-keys", &frank]);
    desk.put("data", "attack at dawn\n");
    let mut numbers = fastrand::Rng::with_seed(7);
    desk.put("large", (0..3_000_000).map(|_| numbers.u8(..)).collect::<Vec<_>>());
    Some(desk)
}

fn encrypt(desk: &Desk, output: &str, line: &str) {
    let always = ["--yes", "--trust-model", "always", "-o", output];
    desk.gpg(&[&always, &line.split(' ').collect::<Vec<_>>()[..]].concat());
}

#[test]
fn messages_are_decrypted_as_gpg_decrypts_them() {
    let Some(desk) = desk() else { return };
    for (name, line) in [
        ("alice", "-r alice -e data"),
        ("bob", "-r bob -e data"),
        ("carol", "-r carol -e data"),
        ("several", "-r frank -r alice -r bob -e data"),
        ("other", "-r bob -r frank -r frank -r carol -e data"),
        ("plain", "-z 0 -r alice -e data"),
        ("zlib", "--compress-algo zlib -r alice -e large"),
        ("bzip2", "--compress-algo bzip2 -r bob -e large"),
        ("large", "-z 0 -r bob -e large"),
        ("armored", "-a -r alice -e data"),
        ("armored-large", "-a -r alice -r bob -e large"),
        ("aes128", "--cipher-algo AES -r alice -e data"),
        ("camellia", "--cipher-algo CAMELLIA192 -r alice -e data"),
        ("aes192", "--cipher-algo AES192 -r alice -e data"),
        ("3des", "--cipher-algo 3DES -r alice -e data"),
        ("text", "-t -r alice -e data"),
        ("eyes", "--for-your-eyes-only -r alice -e data"),
        ("named", "--set-filename a%20b -r alice -e data"),
    ] {
        let file = format!("{name}.gpg");
        let target = if name == "large" { "large.msg" } else { &file };
        encrypt(&desk, target, line);
        let wanted = if line.ends_with("large") { desk.get("large") } else { desk.get("data") };
        let ran = desk.same_gpg(0, &format!("--batch -o output -d {target}"));
        assert_eq!(ran.file.unwrap(), wanted, "{name}");
        let all = ["", "-q", "-v", "--trust-model always", "-u bob", "--keyid-format short"];
        let is_usual = matches!(name, "several" | "other" | "camellia" | "armored");
        for more in if is_usual { &all[..] } else { &all[..1] } {
            assert_eq!(desk.same_gpg(0, &format!("--batch {more} -d {target}")).out, wanted);
        }
        // The same through a pipe, and with the line of gpgme.
        let message = desk.get(target);
        let pipe = ["--batch", "--status-fd", "3", "-d"];
        assert_eq!(desk.same_gpg_with(&pipe, &message).out, wanted);
        let gpgme = "--enable-special-filenames --batch --no-sk-comments --status-fd 3 --no-tty \
                     --charset utf8 --enable-progress-filter --exit-on-status-write-error \
                     --logger-fd 2 --decrypt -- -&0";
        let ran = desk.our_gpg(&gpgme.split_whitespace().collect::<Vec<_>>(), &message);
        assert_eq!((ran.code, ran.out), (0, wanted), "{}", ran.err);
    }
    // pass lists the keys of a message.
    for file in ["alice.gpg", "several.gpg", "other.gpg", "armored.gpg"] {
        for more in ["", "-q", "-v", "-v --keyid-format long"] {
            let line = format!("{more} --no-secmem-warning --no-permission-warning --list-only");
            assert!(desk.same_gpg(0, &format!("{line} --decrypt {file}")).out.is_empty());
        }
    }
    // Without a command, the file gets the name without its end.
    desk.same_gpg(0, "--batch -o output alice.gpg");
    let line = ["--batch", "--status-fd", "3", "alice.gpg"];
    let theirs = desk.their_gpg(&line, b"");
    std::fs::remove_file(desk.path("alice")).unwrap();
    assert_eq!(desk.our_gpg(&line, b""), theirs);
    assert_eq!(desk.get("alice"), desk.get("data"));
}

#[test]
fn signatures_in_encrypted_messages_are_verified_as_by_gpg() {
    let Some(desk) = desk() else { return };
    encrypt(&desk, "signed.gpg", "-u bob -r alice -se data");
    encrypt(&desk, "twice.gpg", "-u alice -u carol -r bob -se large");
    encrypt(&desk, "sha1.gpg", "--digest-algo SHA1 -u bob -r alice -se data");
    for (file, content) in [("signed.gpg", "data"), ("twice.gpg", "large")] {
        let ran = desk.same_gpg(0, &format!("--batch -d {file}"));
        assert_eq!(ran.out, desk.get(content));
        let ran = desk.same_gpg(0, &format!("--batch -o output -d {file}"));
        assert_eq!(ran.file.unwrap(), desk.get(content));
    }
    // gpg accepts SHA-1 on documents.
    let ran = desk.our_gpg(&["--batch", "--status-fd", "3", "-d", "sha1.gpg"], b"");
    assert_eq!((ran.code, &ran.out[..]), (2, &b"attack at dawn\n"[..]));
    assert!(ran.status.contains("ERRSIG") && ran.status.contains("DECRYPTION_OKAY"));
    // Without the signer's certificate, the content is written, and the status is 2.
    let bob = desk.fingerprint("bob");
    desk.gpg(&["--yes", "--delete-secret-and-public-key", &bob]);
    let ran = desk.same_gpg(2, "--batch -o output -d signed.gpg");
    assert_eq!(ran.file.unwrap(), b"attack at dawn\n");
    assert!(ran.status.contains("NO_PUBKEY"), "{}", ran.status);
}

/// A message within a message, by a sender who has made a bad signature of a good one.
#[test]
fn content_with_a_bad_signature_is_not_written() {
    let Some(desk) = desk() else { return };
    desk.gpg(&["--yes", "-z", "0", "-u", "bob", "-o", "signed", "-s", "data"]);
    let mut signed = desk.get("signed");
    let at = signed.windows(6).position(|part| part == b"attack").unwrap();
    signed[at] = b'A';
    desk.put("bad", &signed);
    encrypt(&desk, "bad.gpg", "--no-literal -z 0 -r alice -e bad");
    for batch in ["--batch", "--no-batch"] {
        let line = [batch, "--status-fd", "3", "-d", "bad.gpg"];
        let (ours, theirs) = (desk.our_gpg(&line, b""), desk.their_gpg(&line, b""));
        assert_eq!((ours.code, theirs.code), (1, 1));
        assert_eq!((&ours.out[..], &theirs.out[..]), (&b""[..], &b"Attack at dawn\n"[..]));
        assert_eq!((ours.status, ours.err), (theirs.status, theirs.err));
    }
}

/// A certificate in an encrypted message, in front of long content that is then not read: the
/// reason is named. gpg passes such a certificate over.
#[test]
fn content_that_is_no_message_is_refused() {
    let Some(desk) = desk() else { return };
    desk.gpg(&["--yes", "-z", "0", "-o", "packed", "--store", "large"]);
    desk.put("odd", [desk.gpg(&["--export", "bob"]), desk.get("packed")].concat());
    encrypt(&desk, "odd.gpg", "--no-literal -z 0 -r alice -e odd");
    let ran = desk.our_gpg(&["--batch", "-q", "-d", "odd.gpg"], b"");
    assert_eq!((ran.code, ran.out), (2, Vec::new()));
    assert_eq!(ran.err, "gpg: decryption failed: Unexpected error\n");
}

/// Nothing of a message that was changed is written, wherever it was changed.
#[test]
fn changed_messages_are_refused() {
    let Some(desk) = desk() else { return };
    desk.refresh();
    encrypt(&desk, "small.gpg", "-z 0 -r bob -e data");
    encrypt(&desk, "big.gpg", "-z 0 -r alice -e large");
    for file in ["small.gpg", "big.gpg"] {
        let whole = desk.get(file);
        let step = (whole.len() / 60).max(1);
        for at in (0..whole.len()).step_by(step).chain([whole.len() - 1]) {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            desk.put("changed.gpg", &changed);
            let line = ["--batch", "--ignore-mdc-error", "-o", "output", "-d", "changed.gpg"];
            let ran = desk.our_gpg(&line, b"");
            assert_eq!((ran.code, ran.file), (2, None), "{file}, byte {at}: {}", ran.err);
            let cut = desk.our_gpg(&["--batch", "-d"], &whole[..at]);
            assert_eq!((cut.code, cut.out), (2, Vec::new()), "{file}, {at} bytes: {}", cut.err);
        }
    }
    // A changed end is called so.
    let mut changed = desk.get("small.gpg");
    *changed.last_mut().unwrap() ^= 1;
    desk.put("changed.gpg", &changed);
    let ran = desk.our_gpg(&["--batch", "--status-fd", "3", "-d", "changed.gpg"], b"");
    assert!(
        ran.status
            .ends_with("[GNUPG:] BADMDC\n[GNUPG:] DECRYPTION_FAILED\n[GNUPG:] END_DECRYPTION\n"),
        "{}",
        ran.status
    );
    // Something behind the message looks like a part of it.
    let twice = [desk.get("small.gpg"), desk.get("small.gpg")].concat();
    let ran = desk.our_gpg(&["--batch", "-d"], &twice);
    assert_eq!(ran.code, 2, "{}", ran.err);
}

#[test]
fn what_is_not_decrypted_here_is_handed_over() {
    let Some(desk) = desk() else { return };
    encrypt(&desk, "alice.gpg", "-r alice -e data");
    encrypt(&desk, "hidden.gpg", "-R alice -e data");
    encrypt(&desk, "frank.gpg", "-r frank -e data");
    encrypt(&desk, "shared.gpg", "--passphrase secret -r alice -c -e data");
    encrypt(&desk, "twofish.gpg", "--cipher-algo TWOFISH -r alice -e data");
    desk.gpg(&["-u", "alice", "-o", "signed", "-s", "data"]);
    encrypt(&desk, "there", "-r alice -e data");
    desk.gpg(&["--passphrase", "secret", "-o", "symmetric.gpg", "-c", "data"]);
    desk.refresh();
    for line in [
        "-d hidden.gpg",
        "-d frank.gpg",
        "-d shared.gpg",
        "-d twofish.gpg",
        "-d symmetric.gpg",
        "-d absent.gpg",
        "-d data",
        "-d home",
        "-d alice.gpg alice.gpg",
        "-vv -d alice.gpg",
        "--list-only -d hidden.gpg",
        "--list-only -d signed",
        "--list-only alice.gpg",
        "--show-session-key -d alice.gpg",
        "--pinentry-mode loopback -d alice.gpg",
        "--ttyname /dev/pts/9 -d alice.gpg",
        "--dry-run -d alice.gpg",
        "-o data -d alice.gpg",
        "there",
    ] {
        desk.handed_over(&format!("--batch {line}"));
    }
    // Options that ask for nothing unusual, or that have an effect only on signatures.
    for line in [
        "--default-key bob --digest-algo SHA256 --no-symkey-cache",
        "--pinentry-mode ask --use-agent --no-tty --passphrase x",
        "--try-secret-key bob --skip-hidden-recipients --ignore-mdc-error",
        "-r frank --always-trust --comment hello",
    ] {
        assert_eq!(
            desk.same_gpg(0, &format!("--batch {line} -d alice.gpg")).out,
            b"attack at dawn\n"
        );
    }
    let ran = desk.our_gpg_or_theirs(&["--batch", "-q", "-d"], &desk.get("hidden.gpg"));
    assert_eq!((ran.code, &ran.out[..]), (0, &b"attack at dawn\n"[..]), "{}", ran.err);
}

/// The agent asks for the passphrase, and may not get it.
#[test]
fn a_locked_key_asks_or_is_passed_over() {
    let Some(desk) = desk() else { return };
    let made = ["--batch", "-q", "--pinentry-mode=loopback", "--passphrase=secret"];
    let key = ["--quick-gen-key", "Locked", "rsa1024", "sign,encr", "never"];
    assert_eq!(desk.their_gpg(&[&made[..], &key].concat(), b"").code, 0);
    let subkey = ["--quick-add-key", &desk.fingerprint("locked"), "cv25519", "encr", "never"];
    assert_eq!(desk.their_gpg(&[&made[..], &subkey].concat(), b"").code, 0);
    encrypt(&desk, "locked.gpg", "-r locked -e data");
    encrypt(&desk, "either.gpg", "-r locked -r bob -e data");
    let pinentry = |program: &str| {
        desk.put("home/gpg-agent.conf", format!("pinentry-program {program}\n"));
        let mut kill = Command::new("gpgconf");
        kill.args(["--homedir", &desk.at("home"), "--kill", "all"]);
        assert!(kill.status().unwrap().success());
    };
    pinentry("/bin/false");
    desk.same_gpg(2, "--batch -o output -d locked.gpg");
    assert_eq!(desk.same_gpg(0, "--batch -d either.gpg").out, b"attack at dawn\n");
    // One that knows it, and writes down what it was told.
    let script = format!(
        "#!/bin/sh\necho OK\nwhile read line; do\n  echo \"$line\" >>{0}\n  case $line in\n  \
         GETPIN*) echo 'D secret' ;;\n  BYE) echo OK; exit ;;\n  esac\n  echo OK\ndone\n",
        desk.at("asked")
    );
    desk.put("pinentry", script);
    std::fs::set_permissions(
        desk.path("pinentry"),
        std::os::unix::fs::PermissionsExt::from_mode(0o700),
    )
    .unwrap();
    let asked = |program: &dyn Fn() -> Ran| {
        pinentry(&desk.at("pinentry"));
        desk.put("asked", "");
        let ran = program();
        assert_eq!((ran.code, &ran.out[..]), (0, &b"attack at dawn\n"[..]), "{}", ran.err);
        let asked = String::from_utf8(desk.get("asked")).unwrap();
        asked
            .lines()
            .filter(|line| line.starts_with("SETDESC"))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let line = ["--batch", "-d", "locked.gpg"];
    let (ours, theirs) =
        (asked(&|| desk.our_gpg(&line, b"")), asked(&|| desk.their_gpg(&line, b"")));
    assert_eq!(ours, theirs);
    assert!(ours.len() == 1 && ours[0].contains("main key ID"), "{ours:?}");
}

/// The key has expired since, or the user has said that it is not theirs.
#[test]
fn keys_of_former_times_decrypt() {
    let Some(desk) = desk() else { return };
    let then = ["--faked-system-time", "20200101T000000!"];
    let make = |words: &[&str]| desk.gpg(&[&then[..], words].concat());
    let name = |user_id: &str| {
        let listed = desk.gpg(&["--with-colons", "--list-keys", user_id]);
        let listed = String::from_utf8(listed).unwrap();
        listed.lines().find_map(|line| line.strip_prefix("fpr:::::::::")).unwrap()[..40].to_owned()
    };
    // All of the certificate, the subkey alone, and the primary key alone.
    make(&["--quick-gen-key", "Short <short@example.org>", "rsa1024", "sign,encr", "1y"]);
    make(&["--quick-gen-key", "Sub <sub@example.org>", "ed25519", "sign,cert", "never"]);
    make(&["--quick-add-key", &name("sub@"), "cv25519", "encr", "1y"]);
    make(&["--quick-gen-key", "Main <main@example.org>", "ed25519", "sign,cert", "1y"]);
    make(&["--quick-add-key", &name("main@"), "cv25519", "encr", "never"]);
    for user in ["short", "sub", "main"] {
        let file = format!("{user}.gpg");
        make(&["--trust-model", "always", "-o", &file, "-r", &format!("{user}@"), "-e", "data"]);
        for more in ["", "-q", "-v", "--keyid-format short"] {
            let ran = desk.same_gpg(0, &format!("--batch {more} -d {file}"));
            assert_eq!(ran.out, b"attack at dawn\n", "{user}");
        }
    }
    encrypt(&desk, "alice.gpg", "-r alice -e data");
    let alice = desk.fingerprint("alice");
    desk.gpg_with(&["--import-ownertrust"], format!("{alice}:3:\n").as_bytes());
    assert_eq!(desk.same_gpg(0, "--batch -d alice.gpg").out, b"attack at dawn\n");
    let line = "--batch --trust-model always -d alice.gpg";
    assert_eq!(desk.same_gpg(0, line).out, b"attack at dawn\n");
}
