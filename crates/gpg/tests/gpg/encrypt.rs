//! Encryption by `talaria-gpg` and by gpg: the same texts, status lines, packets and content.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::process::Command;

use crate::common::{Desk, OUR_GPG, Ran};

/// The keys of Alice (two RSA subkeys), Bob (Cv25519), Carol (P-256), and one that only signs.
fn desk() -> Option<Desk> {
    let desk = Desk::with_alice()?;
    let alice = desk.fingerprint("alice");
    desk.gpg(&["--quick-add-key", &alice, "rsa2048", "encr", "never"]);
    desk.gpg(&["--quick-add-key", &alice, "rsa1024", "encr", "2y"]);
    for (user_id, primary, subkey) in
        [("Bob <bob@example.org>", "ed25519", "cv25519"), ("Carol", "nistp256", "nistp256")]
    {
        desk.make_key(user_id, primary);
        let name = user_id.split(' ').next().unwrap();
        desk.gpg(&["--quick-add-key", &desk.fingerprint(name), subkey, "encr", "never"]);
    }
    desk.make_key("Signer <signer@example.org>", "ed25519");
    desk.put("data", "attack at dawn\n");
    Some(desk)
}

/// The content of a message, and its packets without what is random.
fn read(desk: &Desk, message: &[u8]) -> (Vec<u8>, Vec<String>) {
    let content = desk.gpg_with(&["--decrypt"], message);
    let listed = desk.gpg_with(&["--list-packets"], message);
    let listed = String::from_utf8_lossy(&listed).into_owned();
    let is_kept = |line: &&str| line.starts_with(':') || line.contains("name=");
    let plain = |line: &str| match line.split_once("created ") {
        Some((before, rest)) => format!("{before}{}", rest.split_once(',').unwrap().1),
        None => line.to_owned(),
    };
    (content, listed.lines().filter(is_kept).map(plain).collect())
}

/// Runs both with an input, and compares what they say and what they write.
#[track_caller]
fn same_with(desk: &Desk, arguments: &[&str], input: &[u8]) -> Ran {
    desk.refresh();
    let arguments = [&["--status-fd", "3"], arguments].concat();
    let theirs = desk.their_gpg(&arguments, input);
    let ours = desk.our_gpg(&arguments, input);
    let said = |ran: &Ran| (ran.code, ran.err.clone(), ran.status.clone());
    assert_eq!(said(&ours), said(&theirs), "ours on the left: gpg {arguments:?}");
    let message = |ran: &Ran| ran.file.clone().unwrap_or_else(|| ran.out.clone());
    let (ours_message, theirs_message) = (message(&ours), message(&theirs));
    assert_eq!(ours_message.is_empty(), theirs_message.is_empty(), "gpg {arguments:?}");
    if ours.code == 0 {
        let (ours, theirs) = (read(desk, &ours_message), read(desk, &theirs_message));
        assert_eq!(ours, theirs, "ours on the left: gpg {arguments:?}");
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
fn messages_are_those_of_gpg() {
    let Some(desk) = desk() else { return };
    let (alice, bob) = (desk.fingerprint("alice"), desk.fingerprint("bob"));
    desk.put("bob.gpg", desk.gpg(&["--export", "bob"]));
    desk.put("bob.asc", desk.gpg(&["-a", "--export", "bob"]));
    fs::create_dir(desk.path("folder")).unwrap();
    desk.put("folder/inner.txt", "inner\n");
    desk.put("empty", "");
    desk.put("-dash", "a name with a dash\n");
    desk.put("packed.gz", b"\x1f\x8b\x08\0\0\0\0\0nonsense");
    desk.put("packed.gpg", b"\xa3\x02nonsense");
    for line in [
        "-e -r alice data",
        "-ea -r bob data",
        "-e -r carol folder/inner.txt",
        "-e -r bob empty",
        "-e -r bob packed.gz",
        "-e -r bob packed.gpg",
        "-e -r bob -- -dash",
        "-e -r alice -r bob -r carol data",
        "-e -r alice -R bob data",
        "-e --throw-keyids -r alice -r bob data",
        "-e --throw-keyids --no-throw-keyids -r bob data",
        "-e -r alice -r alice data",
        "-q -e -r alice -r alice data",
        "-e -r alice@example.org data",
        "-e -r <alice@example.org> data",
        "-e -r *LICE data",
        "-e --encrypt-to bob -r alice data",
        "-e --encrypt-to bob --hidden-encrypt-to carol -r bob data",
        "-e --no-encrypt-to --encrypt-to bob -r alice data",
        "-e --default-recipient bob data",
        "-e --default-recipient bob --encrypt-to bob data",
        "-e --default-recipient nobody --default-recipient carol data",
        "-e -f bob.gpg -F bob.asc data",
        "-e -F bob.asc -r alice data",
        "-e --always-trust -r bob data",
        "-e --trust-model always -r bob data",
        "-e --cipher-algo AES -r bob data",
        "-e --cipher-algo aes192 --compress-algo none -r bob data",
        "-e -z 0 -r bob data",
        "-e -z 9 --compress-algo zip -r bob data",
        "-e --compress-algo bzip2 --bzip2-compress-level 1 -r bob data",
        "-e --compress-level 1 -r bob data",
        "-e --set-filename /a/b/other -r bob data",
        "-e --digest-algo SHA512 --s2k-count 65536 --force-mdc -r bob data",
    ] {
        same(&desk, 0, &format!("--batch -o output {line}"));
    }
    same(&desk, 0, &format!("--batch -o - -e -r {alice} -r 0x{} data", &bob[24..]));
    same(&desk, 0, &format!("-o - -e -r {} data", &bob[32..]));
    let groups = ["--group", "us=alice bob", "--group", "US = carol", "--group", "other=alice"];
    for line in ["-r us", "-r other -R Us", "-r bob -r us"] {
        let words = ["--batch", "-o", "output"].into_iter().chain(groups);
        let words = words.chain(line.split(' ')).chain(["-e", "data"]);
        same_with(&desk, &words.collect::<Vec<_>>(), b"");
    }
}

/// All lengths at which the encoding of packets changes, from a file and from a pipe.
#[test]
fn contents_of_all_lengths_arrive() {
    let Some(desk) = desk() else { return };
    desk.refresh();
    let content: Vec<u8> =
        (0..10_000_000_u32).map(|at| (at.wrapping_mul(at) >> 7).to_le_bytes()[0]).collect();
    for bytes in [0, 1, 191, 192, 8191, 8192, 65_535, 300_000, 10_000_000] {
        let content = &content[..bytes];
        desk.put("data", content);
        for line in ["--batch -e -r bob --compress-algo none data", "--batch -ea -r bob data"] {
            let line = format!("-o output {line}");
            let ran = desk.our_gpg(&line.split(' ').collect::<Vec<_>>(), b"");
            assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{bytes} bytes");
            assert!(desk.gpg_with(&["-d"], &ran.file.unwrap()) == content, "{bytes} bytes");
        }
        let ran = desk.our_gpg(&["-e", "-r", "bob"], content);
        assert!(desk.gpg_with(&["-d"], &ran.out) == content, "{bytes} bytes by a pipe");
    }
    for input in [&b""[..], b"x", &content[..5000]] {
        same_with(&desk, &["--batch", "-e", "-r", "bob"], input);
        same_with(&desk, &["--batch", "-ea", "--set-filename", "n", "-r", "bob", "-"], input);
    }
}

#[test]
fn keys_of_all_kinds_are_encrypted_to() {
    let Some(desk) = Desk::with_alice() else { return };
    desk.put("data", "attack at dawn\n");
    let mut names = Vec::new();
    for (name, primary, subkey) in [
        ("Three", "nistp384", "nistp384"),
        ("Five", "nistp521", "nistp521"),
        ("Pool", "brainpoolP256r1", "brainpoolP256r1"),
        ("Large", "brainpoolP512r1", "brainpoolP512r1"),
        ("Long", "ed25519", "rsa3072"),
    ] {
        desk.make_key(name, primary);
        desk.gpg(&["--quick-add-key", &desk.fingerprint(name), subkey, "encr", "never"]);
        names.extend(["-r", name]);
        same(&desk, 0, &format!("--batch -o output -e -r {name} data"));
    }
    let line = [&["--batch", "-o", "output", "-e"], &names[..], &["data"]].concat();
    same_with(&desk, &line, b"");
    // A primary key for all purposes.
    desk.gpg(&["--quick-gen-key", "One", "rsa2048", "sign,cert,encr", "never"]);
    same(&desk, 0, "--batch -o output -e -r One data");
    // Nobody here computes with these.
    let elgamal = "%no-protection\nKey-Type: DSA\nKey-Length: 1024\nSubkey-Type: ELG-E\n\
                   Subkey-Length: 1024\nName-Real: Elgamal\n%commit\n";
    desk.gpg_with(&["--gen-key"], elgamal.as_bytes());
    desk.make_key("Coin", "ed25519");
    desk.gpg(&["--quick-add-key", &desk.fingerprint("Coin"), "secp256k1", "encr", "never"]);
    desk.refresh();
    for name in ["Elgamal", "Coin"] {
        desk.handed_over(&format!("--batch -e -r {name} data"));
        let ran = desk.our_gpg_or_theirs(&["--batch", "-o", "-", "-e", "-r", name, "data"], b"");
        assert_eq!(desk.gpg_with(&["-d"], &ran.out), b"attack at dawn\n", "{}", ran.err);
    }
}

#[test]
fn addressees_are_refused_as_gpg_refuses_them() {
    let Some(desk) = desk() else { return };
    let then = ["--faked-system-time", "20200101T000000!"];
    let make = |user_id: &str, until: &str, subkey_until: &str| {
        let line = ["--quick-gen-key", user_id, "ed25519", "sign,cert", until];
        desk.gpg(&[&then[..], &line].concat());
        let fingerprint = desk.fingerprint(user_id);
        let line = ["--quick-add-key", &fingerprint, "cv25519", "encr", subkey_until];
        desk.gpg(&[&then[..], &line].concat());
        fingerprint
    };
    let short = make("Short <short@example.org>", "1y", "never");
    let stale = make("Stale <stale@example.org>", "never", "1y");
    let names = ["gone", "off", "weak", "never", "unknown"];
    for name in names {
        desk.make_key(&format!("{name} <{name}@example.org>"), "ed25519");
        let fingerprint = desk.fingerprint(name);
        desk.gpg(&["--quick-add-key", &fingerprint, "cv25519", "encr", "never"]);
    }
    let path = format!("home/openpgp-revocs.d/{}.rev", desk.fingerprint("gone"));
    let text = String::from_utf8(desk.get(&path)).unwrap().replace("\n:---", "\n---");
    desk.gpg_with(&["--import"], text.as_bytes());
    let edit = ["--no-batch", "--command-fd", "0", "--edit-key", "off"];
    desk.gpg_with(&edit, b"disable\nsave\n");
    // Bob, whom Alice certifies, is marginally trusted and certifies one of them.
    for (by, of) in [("alice", "bob"), ("bob", "weak")] {
        desk.gpg(&["-u", by, "--yes", "--quick-sign-key", &desk.fingerprint(of)]);
    }
    let owner = |name: &str, value: u8| format!("{}:{value}:\n", desk.fingerprint(name));
    let owners = [owner("bob", 4), owner("weak", 3), owner("never", 3), owner("unknown", 2)];
    desk.gpg_with(&["--import-ownertrust"], owners.concat().as_bytes());
    let [gone, off, unknown] = ["gone", "off", "unknown"].map(|name| desk.fingerprint(name));
    for line in [
        "-e -r nobody data",
        "-e -r bob -r nobody data",
        "-e -r nobody -r bob data",
        "-e --encrypt-to nobody -r bob data",
        "-e --encrypt-to signer -r bob data",
        "-e -r 0xDEADBEEF data",
        "-e -r signer data",
        "-e -r short data",
        "-e -r stale data",
        "-e -r gone data",
        "-e -r off data",
        "-e -r never data",
        "-e -r unknown data",
        "-e -r unknown@example.org data",
        "-e -r alice -r unknown data",
        "-e data",
        "-e --encrypt-to bob data",
        "-e --default-recipient nobody data",
        "-e --default-recipient signer data",
        "-e -r bob absent",
        "-e -r nobody absent",
        "-e --always-trust -r short data",
        "-e --always-trust -r off data",
        "-e --keyid-format 0xshort -r unknown data",
    ] {
        same(&desk, 2, &format!("--batch -o output {line}"));
    }
    for name in [&short, &stale, &gone, &off, &unknown] {
        same(&desk, 2, &format!("--batch -o output -e -r {name} data"));
    }
    for line in [
        "-e -r weak data".to_owned(),
        "-e --always-trust -r unknown data".to_owned(),
        format!("-e --always-trust -r {off} data"),
        format!("-e --encrypt-to {unknown} -r bob data"),
        format!("-e --default-recipient {unknown} data"),
        format!("-e --encrypt-to {off} -r bob data"),
    ] {
        same(&desk, 0, &format!("--batch -o output {line}"));
    }
    desk.handed_over(&format!("--batch -e -r {}! data", desk.fingerprint("bob")));
    // gpg would look it up, or ask.
    for line in [
        "--batch -e -r nobody@example.net data",
        "--batch -e -r short@example.org data",
        "-e -r unknown data",
        "-e data",
        "--batch -e --default-recipient-self data",
        "--batch -e --encrypt-to-default-key -r bob data",
        "--batch -e -r @example data",
        "--batch -e -r bob home",
    ] {
        desk.handed_over(line);
    }
}

#[test]
fn preferences_of_all_recipients_decide() {
    let Some(desk) = desk() else { return };
    let set = |name: &str, preferences: &str| {
        let edit = ["--no-batch", "--command-fd", "0", "--edit-key", name];
        desk.gpg_with(&edit, format!("setpref {preferences}\ny\nsave\n").as_bytes());
    };
    set("alice", "AES192 AES256 SHA512 BZIP2 ZIP");
    set("bob", "AES SHA256 Uncompressed");
    for line in [
        "-r alice",
        "-r bob",
        "-r alice -r carol",
        "-r alice -r bob -r carol --cipher-algo AES256",
        "-r alice --cipher-algo AES --compress-algo zlib",
        "-r alice --cipher-algo AES --compress-algo zlib --expert",
        "-r bob --compress-algo zip",
    ] {
        same(&desk, 0, &format!("--batch -o output {line} -e data"));
    }
    for personal in ["AES256", "TWOFISH,AES", "S7 S9 SHA512 ZIP", "BZIP2,ZLIB"] {
        for option in ["--personal-cipher-preferences", "--personal-compress-prefs"] {
            for name in ["alice", "bob", "carol"] {
                let line = ["--batch", "-o", "output", option, personal, "-r", name, "-e", "data"];
                same_with(&desk, &line, b"");
            }
        }
    }
    // They have only 3DES in common.
    desk.handed_over("--batch -r alice -r bob -e data");
    // Preferences of the user ID that was meant.
    set("carol", "AES192 BZIP2");
    desk.gpg(&["--quick-add-uid", "carol", "Second <second@example.org>"]);
    let carol = desk.fingerprint("carol");
    for name in ["Second", "second@example.org", "Carol", &carol] {
        same(&desk, 0, &format!("--batch -o output --always-trust -r {name} -e data"));
    }
}

/// What exists is not overwritten without `--yes`, and nothing is half written.
#[test]
fn outputs_appear_whole_or_not_at_all() {
    let Some(desk) = desk() else { return };
    desk.refresh();
    let alone = desk.alone();
    let run = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let variables = [("TALARIA_GPG_TRIED", &*alone)];
        desk.run_with(&variables, OUR_GPG.as_ref(), &words, b"").0
    };
    let decrypted = |name: &str| desk.gpg(&["-d", name]);
    assert_eq!(run("--batch -r bob -e data"), 0);
    assert_eq!(run("--batch -r bob -ea data"), 0);
    for name in ["data.gpg", "data.asc"] {
        assert_eq!(decrypted(name), b"attack at dawn\n");
        let mode = fs::metadata(desk.path(name)).unwrap().permissions().mode();
        desk.gpg(&["--yes", "-r", "bob", "-e", "-o", "theirs", "data"]);
        assert_eq!(mode, fs::metadata(desk.path("theirs")).unwrap().permissions().mode());
    }
    desk.put("there", "precious");
    fs::set_permissions(desk.path("there"), fs::Permissions::from_mode(0o600)).unwrap();
    symlink("there", desk.path("link")).unwrap();
    symlink("nowhere", desk.path("dangling")).unwrap();
    fs::hard_link(desk.path("there"), desk.path("second")).unwrap();
    desk.put("there.gpg", "precious");
    for line in [
        "--batch -r bob -o there -e data",
        "--batch -r bob -e there",
        "--batch --no -r bob -o there -e data",
        "--batch -r bob -o link -e data",
        "--batch -r bob -o dangling -e data",
        "--batch --yes -r bob -o link -e data",
        "--batch --yes -r bob -o dangling -e data",
        "--batch --yes -r bob -o second -e data",
        "--batch --yes -r bob -o home -e data",
        "--batch --yes -r bob -o absent/output -e data",
        "--batch --yes -r nobody -o there -e data",
        "--batch --yes -r bob -o there -e absent",
    ] {
        assert_eq!(run(line), 2, "{line}");
        assert_eq!(desk.get("there"), b"precious", "{line}");
        assert_eq!(desk.get("there.gpg"), b"precious", "{line}");
        assert!(fs::symlink_metadata(desk.path("nowhere")).is_err(), "{line}");
    }
    fs::remove_file(desk.path("second")).unwrap();
    assert_eq!(run("--batch --yes -r bob -o there -e data"), 0);
    assert_eq!(decrypted("there"), b"attack at dawn\n");
    assert_eq!(fs::metadata(desk.path("there")).unwrap().mode() & 0o777, 0o600);
    // gpg would empty the input first.
    assert_eq!(run("--batch --yes -r bob -o data -e data"), 0);
    assert_eq!(decrypted("data"), b"attack at dawn\n");
    assert!(
        fs::read_dir(desk.path(""))
            .unwrap()
            .flatten()
            .all(|entry| { !entry.file_name().to_string_lossy().starts_with(".tmp-") })
    );
}

/// Files of which something would be lost if they were looked at are left to the real gpg.
#[test]
fn pipes_are_not_read_before_a_hand_over() {
    let Some(desk) = desk() else { return };
    desk.refresh();
    let pipe = desk.at("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for line in [
        "--batch -r bob -o - -e pipe",
        "--batch -f pipe -o - -e data",
        "--batch --yes -r bob -o pipe -e data",
    ] {
        desk.handed_over(line);
    }
    // The line of a passphrase is no part of the content, whoever reads it.
    let line = ["--batch", "--passphrase-fd", "0", "--pinentry-mode=loopback", "-r", "bob", "-e"];
    let ran = same_with(&desk, &line, b"secret\nattack at dawn\n");
    assert_eq!(read(&desk, &ran.out).0, b"attack at dawn\n");
}

#[test]
fn other_encryptions_are_handed_over() {
    let Some(desk) = desk() else { return };
    desk.refresh();
    for line in [
        "--batch -r bob -ec data",
        "--batch -r bob --encrypt-files data",
        "--batch -v -r bob -e data",
        "--batch -t -r bob -e data",
        "--batch --textmode -r bob -e data",
        "--batch --dry-run -r bob -e data",
        "--batch --cipher-algo TWOFISH -r bob -e data",
        "--batch --cipher-algo CAMELLIA256 -r bob -e data",
        "--batch --personal-cipher-preferences none -r bob -e data",
        "--batch --personal-compress-preferences ZIP,ZIP -r bob -e data",
        "--batch --comment x -r bob -ea data",
        "--batch --emit-version -r bob -ea data",
        "--batch --for-your-eyes-only -r bob -e data",
        "--batch --auto-key-locate nodefault,wkd -r bob -e data",
        "--batch --compress-level 10 -r bob -e data",
        "--batch --rfc4880 -r bob -e data",
        "--batch --passphrase-fd 0 --list-config --with-colons",
    ] {
        desk.handed_over(line);
    }
    desk.put("home/gpg.conf", "encrypt-to alice\nrecipient carol\nno-emit-version\n");
    same(&desk, 0, "--batch -r bob -o output -e data");
}

/// Whole lines of programs that start gpg.
#[test]
fn programs_encrypt() {
    let Some(desk) = desk() else { return };
    let home = desk.at("home");
    let bob = desk.fingerprint("bob");
    for line in [
        // pass
        format!("-e -r {bob} -o output --quiet --yes --compress-algo=none --no-encrypt-to data"),
        format!(
            "-e -r {bob} -o output --quiet --yes --compress-algo=none --no-encrypt-to --batch --use-agent"
        ),
        // python-gnupg
        format!(
            "--status-fd 3 --no-tty --no-verbose --fixed-list-mode --batch --with-colons --homedir \
             {home} --encrypt --recipient {bob} --armor --always-trust"
        ),
        // duplicity
        format!(
            "--logger-fd 2 --passphrase-fd 0 --pinentry-mode=loopback --batch --no-tty --force-mdc \
             --no-secmem-warning -r {bob} --trust-model always --encrypt"
        ),
        // gpgme
        format!(
            "--enable-special-filenames --batch --no-sk-comments --lc-ctype C --lc-messages C \
             --no-tty --charset utf8 --enable-progress-filter --exit-on-status-write-error \
             --ttyname /dev/null --ttytype xterm --display :0 --encrypt --always-trust -r {bob} \
             --output - -- -&0"
        ),
    ] {
        let words: Vec<&str> = line.split_whitespace().collect();
        same_with(&desk, &words, b"a line\nanother one\n");
    }
    let content: Vec<u8> = (0..3_000_000_u32).map(|at| at.to_le_bytes()[1]).collect();
    desk.put("large", &content);
    for (name, input) in [("large", &b""[..]), ("-", &content), ("-", b"")] {
        let line = ["--batch", "--enable-progress-filter", "-r", "bob", "-o", "output", "-e", name];
        same_with(&desk, &line, input);
    }
}
