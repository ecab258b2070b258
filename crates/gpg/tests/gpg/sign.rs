//! Signatures by `talaria-gpg` and by gpg: the same texts, status lines and packets, and each is good
//! for the other.

use std::fs;
use std::process::Command;

use crate::common::{Desk, OUR_GPG, Ran};

/// Keys that sign: Alice (Ed25519), Bob (RSA), Carol (P-384), Dora (with subkeys for signing), and
/// Erin, who can only encrypt with a subkey.
fn desk() -> Option<Desk> {
    let desk = Desk::new()?;
    for (user_id, algorithm) in [
        ("Alice <alice@example.org>", "ed25519"),
        ("Bob <bob@example.org>", "rsa2048"),
        ("Carol", "nistp384"),
        ("Dora <dora@example.org>", "rsa1024"),
        ("Erin <erin@example.org>", "nistp256"),
    ] {
        desk.make_key(user_id, algorithm);
    }
    let dora = desk.fingerprint("dora");
    for (algorithm, usage) in [("ed25519", "sign"), ("rsa1024", "sign"), ("cv25519", "encr")] {
        // The newest one signs.
        std::thread::sleep(std::time::Duration::from_millis(1100));
        desk.gpg(&["--quick-add-key", &dora, algorithm, usage, "never"]);
    }
    desk.gpg(&["--quick-add-key", &desk.fingerprint("erin"), "nistp256", "encr", "never"]);
    desk.put("data", "attack at dawn\n");
    Some(desk)
}

/// Status lines without the time of the signature.
fn timeless(status: &str) -> String {
    let line = |line: &str| {
        let mut words: Vec<&str> = line.split(' ').collect();
        if words.get(1) == Some(&"SIG_CREATED") {
            words.remove(6);
        }
        words.join(" ") + "\n"
    };
    status.lines().map(line).collect()
}

/// The packets of a signature without what differs between two of them.
fn packets(desk: &Desk, signature: &[u8]) -> Vec<String> {
    let listed = desk.gpg_with(&["--list-packets"], signature);
    let listed = String::from_utf8_lossy(&listed).into_owned();
    let is_kept = |line: &&str| {
        let is_random = ["# off=", "begin of digest", "data:", "sig created", "length:"];
        !is_random.iter().any(|part| line.contains(part))
    };
    let mut lines: Vec<String> = listed
        .lines()
        .filter(is_kept)
        .map(|line| {
            let line = line.replace("critical ", "");
            line.split_once(", created ").map_or(line.clone(), |(before, _)| before.to_owned())
        })
        .collect();
    // The order of subpackets means nothing.
    lines.sort();
    lines
}

/// Runs both with an input, and compares what they say and what they write.
#[track_caller]
fn same_with(desk: &Desk, arguments: &[&str], input: &[u8]) -> Ran {
    desk.refresh();
    let arguments = [&["--status-fd", "3"], arguments].concat();
    let theirs = desk.their_gpg(&arguments, input);
    let ours = desk.our_gpg(&arguments, input);
    let said = |ran: &Ran| (ran.code, ran.err.clone(), timeless(&ran.status));
    assert_eq!(said(&ours), said(&theirs), "ours on the left: gpg {arguments:?}");
    let written = |ran: &Ran| ran.file.clone().unwrap_or_else(|| ran.out.clone());
    let (ours_written, theirs_written) = (written(&ours), written(&theirs));
    assert_eq!(ours_written.is_empty(), theirs_written.is_empty(), "gpg {arguments:?}");
    if ours.code == 0 {
        assert_eq!(
            packets(desk, &ours_written),
            packets(desk, &theirs_written),
            "ours on the left: gpg {arguments:?}"
        );
    }
    ours
}

/// The same with the words of a line, without an input.
#[track_caller]
fn same(desk: &Desk, code: i32, line: &str) -> Ran {
    let ran = same_with(desk, &line.split(' ').collect::<Vec<_>>(), b"");
    assert_eq!(ran.code, code, "gpg {line}: {}", ran.err);
    ran
}

#[test]
fn signatures_are_those_of_gpg() {
    let Some(desk) = desk() else { return };
    let bob = desk.fingerprint("bob");
    desk.put("empty", "");
    desk.put("-dash", "a name with a dash\n");
    desk.put("large", vec![7; 300_000]);
    for line in [
        "-b data",
        "-ba data",
        "-bsa data",
        "--detach-sign --armor data",
        "-bau bob data",
        "-b -u bob empty",
        "-b -u bob large",
        "-b -u bob -- -dash",
        "-b -u alice@example.org data",
        "-b -u <bob@example.org> data",
        "-b -u *ARO data",
        "-b -u carol data",
        "-b -u dora data",
        "-b -u erin data",
        "-b -u bob -u alice data",
        "-ba -u carol -u dora -u bob data",
        "-b -u bob -u nobody data",
        "-b --disable-signer-uid -u bob data",
        "-b --personal-digest-preferences SHA256,SHA384 -u bob data",
        "-b --personal-digest-prefs AES256,H9,ZIP -u bob data",
        "-b --cipher-algo AES -z 0 --encrypt-to bob --throw-keyids -u bob data",
        "-b --no-encrypt-to --pinentry-mode ask --cert-digest-algo SHA512 -u bob data",
        "--no-options --no-tty --use-agent -bu bob data",
        "-b --default-key bob data",
        "-q -b --default-key <bob@example.org> data",
        "-b --default-key bob --default-key dora data",
        "-b --default-key bob -u alice data",
        "-b --digest-algo SHA256 -u bob data",
        "-b --digest-algo SHA512 -u carol -u alice data",
        "-b --digest-algo H9 --personal-digest-prefs SHA512 -u dora data",
    ] {
        let code = if line.contains("nobody") { 2 } else { 0 };
        let ran = same(&desk, code, &format!("--batch -o output {line}"));
        desk.put("ours.sig", ran.file.unwrap());
        let file = line.rsplit(' ').next().unwrap();
        desk.same_gpg(0, &format!("--verify ours.sig ./{file}"));
    }
    for name in [&bob[..], &format!("0x{}", &bob[24..]), &bob[32..]] {
        same(&desk, 0, &format!("--batch -o output -b -u {name} data"));
        same(&desk, 0, &format!("-o - -bau {name} data"));
    }
    // git gives the content on the standard input, and reads the status on its error output.
    for input in [&b""[..], b"tree 1\nauthor A\n\nmessage\n", &vec![0; 200_000]] {
        let ran = same_with(&desk, &["-bsau", &bob], input);
        desk.put("ours.sig", ran.out);
        assert_eq!(desk.their_gpg(&["--verify", "ours.sig", "-"], input).code, 0);
        same_with(&desk, &["-bsau", "dora", "-"], input);
    }
}

#[test]
fn signed_texts_are_those_of_gpg() {
    let Some(desk) = desk() else { return };
    for (at, text) in [
        "",
        "\n",
        "one line\n",
        "no end",
        "-dash\n- two\nFrom here\n from\n--\n",
        "white \t\nspace  \n",
        "\r\nDOS\r\nlines\r\n",
        "a\rb\n",
        "\n\n\nempty\n\n\n",
        "ümläut \u{feff}\n",
    ]
    .into_iter()
    .enumerate()
    {
        desk.put("text", text);
        for user in ["bob", "dora"] {
            let line = ["--batch", "-o", "output", "--clearsign", "-u", user, "text"];
            desk.refresh();
            let arguments = [&["--status-fd", "3"], &line[..]].concat();
            let theirs = desk.their_gpg(&arguments, b"");
            let ours = desk.our_gpg(&arguments, b"");
            let said = |ran: &Ran| (ran.code, ran.err.clone(), timeless(&ran.status));
            assert_eq!(said(&ours), said(&theirs), "text {at}");
            let before = |ran: &Ran| {
                let text = String::from_utf8(ran.file.clone().unwrap()).unwrap();
                text.split_once("-----BEGIN PGP SIGNATURE").unwrap().0.to_owned()
            };
            assert_eq!(before(&ours), before(&theirs), "text {at}");
            desk.put("ours.asc", ours.file.unwrap());
            desk.same_gpg(0, "--verify ours.asc");
        }
    }
    // debsign's line.
    let line = ["--local-user", "bob", "--clearsign", "--list-options", "no-show-policy-urls"];
    let ran = desk.our_gpg(&[&line[..], &["--armor", "-o", "-"]].concat(), b"Format: 3.0\n");
    assert_eq!((ran.code, &ran.err[..]), (0, ""));
    assert_eq!(desk.gpg_with(&["-d"], &ran.out), b"Format: 3.0\n");
}

#[test]
fn signed_messages_are_those_of_gpg() {
    let Some(desk) = desk() else { return };
    desk.put("empty", "");
    desk.put("-dash", "a name with a dash\n");
    desk.put("large", vec![7; 300_000]);
    for line in [
        "-s data",
        "-sa -u bob data",
        "--sign --armor -u dora data",
        "-s -u carol -z 0 data",
        "-s -u bob --compress-algo zlib data",
        "-s --compress-algo BZIP2 -z 9 data",
        "-s --personal-compress-preferences BZIP2 data",
        "-s -u bob -u alice -u dora data",
        "-s -u bob --personal-digest-preferences SHA256 data",
        "-s -u bob empty",
        "-s -u bob large",
        "-s -u bob -- -dash",
        "-s -u bob -u nobody data",
    ] {
        let code = if line.contains("nobody") { 2 } else { 0 };
        let ran = same(&desk, code, &format!("--batch -o output {line}"));
        desk.put("ours.gpg", ran.file.unwrap());
        let ran = desk.same_gpg(0, "--batch -d ours.gpg");
        let file = line.rsplit(' ').next().unwrap();
        assert_eq!(ran.out, desk.get(file), "{line}");
    }
    for input in [&b""[..], b"attack\n", &vec![0; 200_000]] {
        let ran = same_with(&desk, &["--batch", "-sau", "bob", "-u", "alice"], input);
        desk.put("ours.gpg", ran.out);
        assert_eq!(desk.same_gpg(0, "--batch -d ours.gpg").out, input);
    }
    desk.our_gpg(&["--batch", "-s", "data"], b"");
    assert_eq!(desk.gpg(&["-d", "data.gpg"]), desk.get("data"));
}

/// The lines about signing and about encryption come in another order: gpg's depends on how much of
/// the content it has read.
#[test]
fn signed_and_encrypted_messages_are_those_of_gpg() {
    let Some(desk) = desk() else { return };
    desk.put("large", vec![7; 300_000]);
    let old = ["--default-preference-list", "AES256 SHA1 ZIP", "--quick-gen-key"];
    desk.gpg(&[&old[..], &["Old <old@example.org>", "rsa1024", "sign,cert", "never"]].concat());
    desk.gpg(&["--quick-add-key", &desk.fingerprint("old@"), "rsa1024", "encr", "never"]);
    let run = |arguments: &[&str], input: &[u8]| {
        desk.refresh();
        let arguments = [&["--batch", "--status-fd", "3"], arguments].concat();
        let theirs = desk.their_gpg(&arguments, input);
        let ours = desk.our_gpg(&arguments, input);
        let said = |ran: &Ran| {
            let mut lines: Vec<String> = timeless(&ran.status).lines().map(str::to_owned).collect();
            lines.sort();
            (ran.code, ran.err.clone(), lines)
        };
        assert_eq!(said(&ours), said(&theirs), "ours on the left: gpg {arguments:?}");
        let written = |ran: &Ran| ran.file.clone().unwrap_or_else(|| ran.out.clone());
        let (ours_written, theirs_written) = (written(&ours), written(&theirs));
        if ours.code == 0 {
            let (ours, theirs) = (packets(&desk, &ours_written), packets(&desk, &theirs_written));
            assert_eq!(ours, theirs, "ours on the left: gpg {arguments:?}");
        }
        (ours.code, ours_written)
    };
    for line in [
        "-se -r dora data",
        "-se -u bob -r erin -r dora data",
        "-sea -u alice -r dora data",
        "-se -u carol -z 0 -r dora data",
        "-se -u bob -u alice -r erin data",
        "-se -u bob -u carol -r dora data",
        "-se -u bob -u carol -u erin -r dora data",
        "-se -u erin -u carol -r dora data",
        "-se -u bob --personal-digest-preferences SHA256 -r dora data",
        "-se -u alice --digest-algo SHA384 --default-key bob -r dora data",
        "-se --default-key bob -r dora data",
        "-se -u bob --cipher-algo AES --compress-algo zlib -r dora data",
        "-se -u bob --set-filename name -R dora data",
        "-se -u bob --throw-keyids -r dora large",
        "--encrypt --sign -u bob --encrypt-to erin -r dora large",
    ] {
        let words = [&["-o", "output"], &line.split(' ').collect::<Vec<_>>()[..]].concat();
        let (code, message) = run(&words, b"");
        assert_eq!(code, 0, "{line}");
        desk.put("ours.gpg", message);
        let file = line.rsplit(' ').next().unwrap();
        assert_eq!(desk.their_gpg(&["--batch", "-d", "ours.gpg"], b"").out, desk.get(file));
    }
    let (_, message) = run(&["-sea", "-u", "bob", "-r", "dora"], b"attack\n");
    assert_eq!(desk.their_gpg(&["--batch", "-d"], &message).out, b"attack\n");
    for line in [
        "-se -u bob -r nobody data",
        "-se -u nobody -r dora data",
        "-se -u nobody -r nobody data",
        "-se -u bob -r dora absent",
    ] {
        let words = [&["-o", "output"], &line.split(' ').collect::<Vec<_>>()[..]].concat();
        assert_eq!(run(&words, b"").0, 2, "{line}");
    }
    for line in [
        "-se -u bob -r old data",
        "-se -u carol --personal-digest-preferences SHA256 -r dora data",
        "-se -u bob -r dora -t data",
        "-se -u bob -r dora --comment hello data",
        "-se -u bob -r dora --pinentry-mode loopback data",
        "-se -c -u bob -r dora data",
        "-seb -u bob -r dora data",
    ] {
        desk.handed_over(&format!("--batch {line}"));
    }
}

#[test]
fn keys_are_refused_as_gpg_refuses_them() {
    let Some(desk) = desk() else { return };
    for line in [
        "-b -u nobody data",
        "-b -u nobody@example.org data",
        "-b -u 0xDEADBEEF data",
        "-b absent",
        "-b -u bob absent",
        "-b -u nobody -u nothing data",
        "--clearsign -u nobody data",
        "-s -u nobody data",
        "-s absent",
    ] {
        same(&desk, 2, &format!("--batch -o output {line}"));
    }
    for line in [
        "--batch -s -r bob data",
        "--batch -s --set-filename name data",
        "--batch -s -t data",
        "--batch -s data data",
        "--batch -be -r bob data",
        "--batch -b --clearsign data",
        "--batch -b -u bob -u bob data",
        "--batch -b -r alice data",
        "--batch -b -t data",
        "--batch -b --comment hello data",
        "--batch -b --default-key nobody data",
        "--batch -b --default-key nobody --default-key bob data",
        "--batch -b --digest-algo SHA1 -u bob data",
        "--batch -b --digest-algo SHA256 -u carol data",
        "--batch -b --personal-digest-preferences SHA1 -u bob data",
        "--batch -b --personal-digest-preferences SHA512 -u alice data",
        "--batch -b --pinentry-mode loopback data",
        "--batch -b --include-key-block data",
        "--batch -b --ttyname /dev/pts/9 data",
        "--batch -b --ask-sig-expire data",
        "--batch -v -b data",
        "--batch -b data data",
        "--batch -b home",
        "--batch --clearsign --not-dash-escaped data",
    ] {
        desk.handed_over(line);
    }
    let bob = desk.fingerprint("bob");
    desk.handed_over(&format!("--batch -b -u {bob}! data"));
    // Nobody here signs by these.
    desk.gpg(&["--quick-gen-key", "Old", "dsa1024", "sign,cert", "never"]);
    desk.gpg(&["--quick-gen-key", "Coin", "secp256k1", "sign,cert", "never"]);
    let then = ["--faked-system-time", "20200101T000000!"];
    let short = ["--quick-gen-key", "Short", "ed25519", "sign,cert", "1y"];
    desk.gpg(&[&then[..], &short].concat());
    desk.refresh();
    for name in ["Old", "Coin", "Short"] {
        desk.handed_over(&format!("--batch -b -u {name} data"));
    }
    for name in ["Old", "Coin"] {
        let ran = desk.our_gpg_or_theirs(&["--batch", "-o", "-", "-b", "-u", name, "data"], b"");
        assert_eq!(ran.code, 0, "{}", ran.err);
        desk.put("theirs.sig", ran.out);
        assert_eq!(desk.their_gpg(&["--verify", "theirs.sig", "data"], b"").code, 0);
    }
}

/// What exists is not overwritten without `--yes`, and a signature that was not made leaves nothing.
#[test]
fn signatures_appear_whole_or_not_at_all() {
    let Some(desk) = desk() else { return };
    desk.refresh();
    desk.put("data.sig", "mine");
    desk.handed_over("--batch -b -u bob data");
    assert_eq!(desk.get("data.sig"), b"mine");
    assert_eq!(desk.our_gpg(&["--batch", "--yes", "-b", "-u", "bob", "data"], b"").code, 0);
    assert_eq!(desk.their_gpg(&["--verify", "data.sig"], b"").code, 0);
    // A key whose passphrase nobody can be asked for.
    let made = ["--batch", "-q", "--pinentry-mode=loopback", "--passphrase=secret"];
    let key = ["--quick-gen-key", "Locked", "ed25519", "sign,cert", "never"];
    assert_eq!(desk.their_gpg(&[&made[..], &key].concat(), b"").code, 0);
    desk.put("home/gpg-agent.conf", "pinentry-program /bin/false\n");
    let mut kill = Command::new("gpgconf");
    assert!(
        kill.args(["--homedir", &desk.at("home"), "--kill", "all"]).status().unwrap().success()
    );
    for line in ["-b -u locked data", "--clearsign -u locked data", "-s -u locked data"] {
        let ran = same(&desk, 2, &format!("--batch -o output {line}"));
        assert_eq!(ran.file, None, "{line}");
    }
    // gpg says of a signature that is never written that it was made.
    let line = "--batch -o output --status-fd 3 -b -u bob -u locked data";
    let ran = desk.our_gpg(&line.split(' ').collect::<Vec<_>>(), b"");
    assert_eq!((ran.code, ran.file), (2, None));
    assert!(!ran.status.contains("SIG_CREATED"), "{}", ran.status);
    // The agent has the passphrase once it was given.
    let unlock = [&made[..], &["-u", "locked", "-o", "/dev/null", "--yes", "-b", "data"]].concat();
    assert_eq!(desk.their_gpg(&unlock, b"").code, 0);
    same(&desk, 0, "--batch -o output -b -u locked data");
    assert!(fs::read_dir(desk.path(".")).unwrap().all(|entry| {
        let name = entry.unwrap().file_name().into_string().unwrap();
        !name.contains("talaria") && !name.contains(".new")
    }));
}

/// git signs and verifies commits and tags with either program.
#[test]
fn git_signs_with_ours_and_verifies_with_both() {
    let Some(desk) = desk() else { return };
    let has_git = Command::new("git").arg("--version").output().is_ok();
    if talaria_needs::found(has_git.then_some(()), "git").is_none() {
        return;
    }
    desk.refresh();
    let alone = desk.alone();
    let git = |program: &str, words: &[&str]| {
        let program = format!("gpg.program={program}");
        let user = ["-c", "user.name=Bob", "-c", "user.email=bob@example.org", "-c", &program];
        let words = [&["-C", "tree"], &user[..], words].concat();
        let variables = [("TALARIA_GPG_TRIED", &*alone), ("GIT_CONFIG_NOSYSTEM", "1")];
        let (code, out, err) = desk.run_with(&variables, "git".as_ref(), &words, b"");
        let err = String::from_utf8_lossy(&err).into_owned();
        assert_eq!(code, 0, "git {words:?}: {err}");
        String::from_utf8_lossy(&out).into_owned() + &err
    };
    fs::create_dir(desk.path("tree")).unwrap();
    git(OUR_GPG, &["init", "-q"]);
    git(OUR_GPG, &["commit", "-q", "--allow-empty", "-S", "-m", "signed"]);
    git(OUR_GPG, &["tag", "-s", "-m", "tagged", "-u", "dora", "v1"]);
    for program in [OUR_GPG, "gpg"] {
        let said = git(program, &["verify-commit", "HEAD"]) + &git(program, &["verify-tag", "v1"]);
        assert_eq!(said.matches("Good signature from").count(), 2, "{said}");
        assert_eq!(git(program, &["log", "--format=%G?%GS"]), "GBob <bob@example.org>\n");
    }
}
