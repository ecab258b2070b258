//! The lines of `--status-fd`, compared with those that gpg writes about the same files.

use std::fs;
use std::process::{Command, Output, Stdio};

use crate::program::{Program, make_gnupg_home};

/// The creation time of all test data, in seconds since 1970.
const THEN: u32 = 1_750_000_000;
const DAY: u32 = 86400;

/// Lines that only gpg writes: about its keyring and trust, and facts that are known only before
/// the content has been read (docs/replacing-gpg.md).
const UNSAID: [&str; 8] = [
    "KEY_CONSIDERED",
    "KEYEXPIRED",
    "SIG_ID",
    "FAILURE",
    "PLAINTEXT_LENGTH",
    "TRUST_UNDEFINED",
    "TRUST_ULTIMATE",
    "CARDCTRL",
];

/// Files and two users, each with a GnuPG home and a store with the same keys. `own` has all keys,
/// `other` only Bob's certificate.
struct Site {
    program: Program,
}

impl Site {
    fn new() -> Self {
        let site = Self { program: Program::new() };
        for home in ["own", "other"] {
            make_gnupg_home(&site.program.path(home));
        }
        for (name, content) in
            [("text", "attack at dawn\n"), ("another", "attack at noon\n"), ("empty", "")]
        {
            fs::write(site.program.path(name), content).unwrap();
        }
        fs::copy(site.program.path("text"), site.program.path("näme 100%")).unwrap();
        fs::write(site.program.path("pw"), "right\n").unwrap();
        fs::write(site.program.path("wrong"), "wrong\n").unwrap();
        site
    }

    /// Makes keys: Alice signs with a subkey, Bob with his primary key, Olga's key expires after
    /// ten days, Rita's is revoked, Pat's has a passphrase.
    fn with_keys(self) -> Self {
        let generate = |name: &str, algorithm: &str, usage: &str, expires: &str| {
            self.gpg(THEN, "own", &["--quick-gen-key", name, algorithm, usage, expires]);
        };
        generate("Zoë 100% <alice@example.org>", "ed25519", "cert", "never");
        generate("bob@example.org", "rsa2048", "sign,cert", "never");
        generate("olga@example.org", "ed25519", "sign,cert", "10d");
        generate("rita@example.org", "ed25519", "sign,cert", "never");
        for (name, algorithm, usage) in
            [("alice", "ed25519", "sign"), ("alice", "cv25519", "encr"), ("bob", "rsa2048", "encr")]
        {
            let fingerprint = self.fingerprint(name);
            self.gpg(THEN, "own", &["--quick-add-key", &fingerprint, algorithm, usage]);
        }
        self.gpg(THEN, "own", &["-o", "bob.pgp", "--export", "bob"]);
        self.gpg(THEN, "own", &["-o", "keys.pgp", "--export-secret-keys"]);
        self.gpg(THEN, "other", &["--import", "bob.pgp"]);
        self
    }

    /// Imports the current certificates for both users.
    fn imported(&self) {
        self.gpg(THEN, "own", &["-o", "certs.pgp", "--export"]);
        for (home, file) in [("own", "certs.pgp"), ("other", "bob.pgp")] {
            let output = self.talaria(THEN, home, &["import", file]);
            assert!(output.status.success(), "{output:?}");
        }
    }

    fn fingerprint(&self, name: &str) -> String {
        let listed = self.gpg(THEN, "own", &["--with-colons", "--list-keys", name]);
        let listed = String::from_utf8(listed.stdout).unwrap();
        let line = listed.lines().find(|line| line.starts_with("fpr:")).unwrap();
        line.split(':').nth(9).unwrap().to_owned()
    }

    fn gpg_command(&self, time: u32, home: &str, args: &[&str]) -> Command {
        let mut command = Command::new("gpg");
        command.args(["--batch", "--yes", "--no-tty", "--pinentry-mode", "loopback"]);
        command.args(["--trust-model", "always", "--faked-system-time", &format!("{time}!")]);
        if !args.contains(&"--passphrase-file") {
            command.args(["--passphrase", ""]);
        }
        command.args(args).current_dir(self.program.path(""));
        command.env("GNUPGHOME", self.program.path(home)).stdin(Stdio::null());
        command
    }

    /// Runs gpg, which must succeed.
    fn gpg(&self, time: u32, home: &str, args: &[&str]) -> Output {
        let output = self.gpg_command(time, home, args).output().unwrap();
        assert!(output.status.success(), "{args:?}: {output:?}");
        output
    }

    fn talaria(&self, time: u32, home: &str, args: &[&str]) -> Output {
        let mut command = self.program.command(&["--faked-time", &time.to_string()]);
        command.env("GNUPGHOME", self.program.path("none")).current_dir(self.program.path(""));
        command.args(args).args(["--store", &format!("{home}.db")]);
        command.output().unwrap()
    }

    /// The status lines of gpg and talaria for the same input, without the lines that talaria
    /// omits.
    fn both(
        &self,
        (time, home): (u32, &str),
        gpg: &[&str],
        talaria: &[&str],
        unsaid: &[&str],
    ) -> [Vec<String>; 2] {
        let mut command = self.gpg_command(time, home, &["--status-fd", "2"]);
        let theirs = command.args(gpg).output().unwrap();
        let ours = self.talaria(time, home, &[talaria, &["--status-fd", "2"]].concat());
        [theirs, ours].map(|output| {
            let text = String::from_utf8(output.stderr).unwrap();
            let lines = text.lines().filter_map(|line| line.strip_prefix("[GNUPG:] "));
            let said = |line: &&str| {
                let keyword = line.split(' ').next().unwrap();
                !UNSAID.contains(&keyword) && !unsaid.contains(&keyword)
            };
            lines.filter(said).map(comparable).collect()
        })
    }

    /// The lines about signatures, by gpg and by talaria, are the same.
    #[track_caller]
    fn verified_alike(&self, at: (u32, &str), signature: Option<&str>, file: &str) -> Vec<String> {
        let [theirs, ours] = match signature {
            Some(signature) => self.both(
                at,
                &["--verify", signature, file],
                &["verify", "--signature", signature, file],
                &[],
            ),
            None => self.both(at, &["--verify", file], &["verify", file], &[]),
        };
        assert_eq!(theirs, ours, "gpg's on the left");
        ours
    }

    /// The same for encrypted messages.
    #[track_caller]
    fn decrypted_alike(&self, home: &str, file: &str, unsaid: &[&str]) -> Vec<String> {
        let mut ours = vec!["decrypt", file];
        if home == "own" {
            ours.extend(["--key-file", "keys.pgp"]);
        }
        let [theirs, ours] = self.both((THEN, home), &["--decrypt", file], &ours, unsaid);
        assert_eq!(theirs, ours, "gpg's on the left");
        ours
    }

    /// The same for messages with a passphrase.
    #[track_caller]
    fn opened_alike(&self, passphrase: &str, file: &str, unsaid: &[&str]) -> Vec<String> {
        let with = ["--passphrase-file", passphrase];
        let gpg = [&with[..], &["--decrypt", file]].concat();
        let talaria = [&["decrypt", file][..], &with].concat();
        let [theirs, ours] = self.both((THEN, "other"), &gpg, &talaria, unsaid);
        assert_eq!(theirs, ours, "gpg's on the left");
        ours
    }

    /// Changes a byte near the end of a file.
    fn damaged(&self, file: &str) -> String {
        let mut bytes = fs::read(self.program.path(file)).unwrap();
        let at = bytes.len() - 10;
        bytes[at] ^= 1;
        let name = format!("{file}-damaged");
        fs::write(self.program.path(&name), bytes).unwrap();
        name
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        for home in ["own", "other"] {
            let mut command = Command::new("gpgconf");
            command.args(["--kill", "all"]).env("GNUPGHOME", self.program.path(home));
            let _ = command.stderr(Stdio::null()).status();
        }
    }
}

/// A line without the intended differences: the user ID of the signer, the owner trust,
/// and the number that gpg's agent gives an error.
fn comparable(line: &str) -> String {
    let words: Vec<&str> = line.split(' ').collect();
    match words[..] {
        ["NEWSIG", ..] => "NEWSIG".to_owned(),
        ["DECRYPTION_KEY", key, certificate, _] => format!("DECRYPTION_KEY {key} {certificate}"),
        ["ERROR", what @ "pkdecrypt_failed", ..] => format!("ERROR {what}"),
        _ => line.to_owned(),
    }
}

fn sorted(mut lines: Vec<String>) -> Vec<String> {
    lines.sort();
    lines
}

fn keywords(lines: &[String]) -> Vec<&str> {
    lines.iter().map(|line| line.split(' ').next().unwrap()).collect()
}

fn has_gpg() -> bool {
    talaria_needs::found(talaria_needs::peer("gpg"), "gpg").is_some()
}

#[test]
fn status_lines_about_signatures_equal_those_of_gpg() {
    if !has_gpg() {
        return;
    }
    let site = Site::new().with_keys();
    let own = |time| (time, "own");
    let sign = |options: &[&str], out: &str| {
        site.gpg(THEN, "own", &[options, &["-o", out, "-b", "text"]].concat());
    };
    sign(&["-u", "alice"], "alice.sig");
    sign(&["-u", "alice", "-u", "bob", "--armor"], "two.sig");
    sign(&["-u", "alice", "--default-sig-expire", "5d"], "brief.sig");
    sign(&["-u", "olga"], "olga.sig");
    sign(&["-u", "rita"], "rita.sig");
    site.gpg(THEN, "own", &["-u", "bob", "-u", "alice", "-o", "inline", "-s", "text"]);
    site.gpg(THEN, "own", &["-u", "bob", "-o", "clear", "--clearsign", "text"]);
    let clear = fs::read_to_string(site.program.path("clear")).unwrap();
    fs::write(site.program.path("clear-changed"), clear.replace("dawn", "dusk")).unwrap();
    // GnuPG keeps a revocation for each key, and a colon at its start prevents an accidental
    // import.
    let revocation = format!("own/openpgp-revocs.d/{}.rev", site.fingerprint("rita"));
    let revocation = fs::read_to_string(site.program.path(&revocation)).unwrap();
    fs::write(site.program.path("revocation"), revocation.replace(":-----", "-----")).unwrap();
    site.gpg(THEN, "own", &["--import", "revocation"]);
    site.imported();

    let lines = site.verified_alike(own(THEN), Some("alice.sig"), "text");
    assert_eq!(keywords(&lines), ["NEWSIG", "GOODSIG", "VALIDSIG"]);
    assert!(lines[1].ends_with(" Zoë 100%25 <alice@example.org>"), "{lines:?}");
    let lines = site.verified_alike(own(THEN), Some("alice.sig"), "another");
    assert_eq!(keywords(&lines), ["NEWSIG", "BADSIG"]);
    let lines = site.verified_alike(own(THEN), Some("two.sig"), "text");
    assert_eq!(
        keywords(&lines),
        ["NEWSIG", "GOODSIG", "VALIDSIG", "NEWSIG", "GOODSIG", "VALIDSIG"]
    );
    let lines = site.verified_alike(own(THEN), None, "inline");
    assert_eq!(
        keywords(&lines),
        ["NEWSIG", "GOODSIG", "VALIDSIG", "NEWSIG", "GOODSIG", "VALIDSIG"]
    );
    let lines = site.verified_alike(own(THEN), None, "clear");
    assert_eq!(keywords(&lines), ["NEWSIG", "GOODSIG", "VALIDSIG"]);
    let lines = site.verified_alike(own(THEN), None, "clear-changed");
    assert_eq!(keywords(&lines), ["NEWSIG", "BADSIG"]);
    let lines = site.verified_alike(own(THEN + DAY), Some("brief.sig"), "text");
    assert_eq!(keywords(&lines), ["NEWSIG", "GOODSIG", "VALIDSIG"]);
    let lines = site.verified_alike(own(THEN + 6 * DAY), Some("brief.sig"), "text");
    assert_eq!(keywords(&lines), ["NEWSIG", "EXPSIG", "VALIDSIG"]);
    let lines = site.verified_alike(own(THEN + 20 * DAY), Some("olga.sig"), "text");
    assert_eq!(keywords(&lines), ["NEWSIG", "EXPKEYSIG", "VALIDSIG"]);
    let lines = site.verified_alike(own(THEN), Some("rita.sig"), "text");
    assert_eq!(keywords(&lines), ["NEWSIG", "REVKEYSIG", "VALIDSIG"]);
    let lines = site.verified_alike((THEN, "other"), Some("alice.sig"), "text");
    assert_eq!(keywords(&lines), ["NEWSIG", "ERRSIG", "NO_PUBKEY"]);
    let lines = site.verified_alike((THEN, "other"), Some("two.sig"), "text");
    assert_eq!(
        keywords(&lines),
        ["NEWSIG", "ERRSIG", "NO_PUBKEY", "NEWSIG", "GOODSIG", "VALIDSIG"]
    );
}

#[test]
fn status_lines_about_encryption_and_signing_equal_those_of_gpg() {
    if !has_gpg() {
        return;
    }
    let site = Site::new().with_keys();
    site.imported();
    // gpg reports the encryption before it signs, and the purpose of the passphrase.
    let unsaid = ["NEED_PASSPHRASE_SYM"];
    let alike = |gpg: &[&str], talaria: &[&str]| {
        let gpg = [&["--digest-algo", "SHA256", "-o", "out"], gpg, &["text"]].concat();
        let keys = ["--overwrite", "-o", "out", "text", "--key-file", "keys.pgp"];
        let [theirs, ours] = site.both((THEN, "own"), &gpg, &[talaria, &keys].concat(), &unsaid);
        assert_eq!(theirs, ours, "gpg's on the left");
        ours
    };
    let lines = alike(&["-u", "alice", "-b"], &["sign", "--with", "alice"]);
    assert_eq!(keywords(&lines), ["BEGIN_SIGNING", "SIG_CREATED"]);
    alike(&["-u", "bob", "-b", "--textmode"], &["sign", "--with", "bob", "--text"]);
    alike(&["-u", "alice", "--clearsign"], &["sign", "--with", "alice", "--cleartext"]);
    alike(&["-u", "bob", "-s"], &["sign", "--with", "bob", "--inline"]);
    let lines = alike(&["-r", "bob", "-e"], &["encrypt", "--to", "bob@example.org"]);
    assert_eq!(lines, ["BEGIN_ENCRYPTION 2 9", "END_ENCRYPTION"]);
    let both = ["encrypt", "--to", "bob@example.org", "--sign-with", "alice"];
    // bob takes several digests. gpg chooses the first one of his list, and talaria the cheapest.
    let lines = alike(&["-r", "bob", "-u", "alice", "-s", "-e"], &both);
    assert_eq!(
        keywords(&lines),
        ["BEGIN_SIGNING", "SIG_CREATED", "BEGIN_ENCRYPTION", "END_ENCRYPTION"]
    );
    let with = ["--passphrase-file", "pw"];
    let symmetric = ["encrypt", "--symmetric", "--profile", "rfc4880"];
    alike(&[&with[..], &["-c"]].concat(), &[&symmetric[..], &with].concat());
    let lines =
        alike(&["-u", "nobody@example.org", "-b"], &["sign", "--with", "nobody@example.org"]);
    assert_eq!(lines, ["INV_SGNR 9 nobody@example.org"]);
    // gpg gives no reason; talaria reports that the key was not found.
    let [theirs, ours] = site.both(
        (THEN, "own"),
        &["-r", "nobody@example.org", "-o", "out", "-e", "text"],
        &["encrypt", "--to", "nobody@example.org", "--overwrite", "-o", "out", "text"],
        &unsaid,
    );
    assert_eq!(theirs, ["INV_RECP 0 nobody@example.org"]);
    assert_eq!(ours, ["INV_RECP 1 nobody@example.org"]);
}

#[test]
fn status_lines_about_decryption_equal_those_of_gpg() {
    if !has_gpg() {
        return;
    }
    let site = Site::new().with_keys();
    let encrypt = |options: &[&str], out: &str, file: &str| {
        site.gpg(THEN, "own", &[&["-o", out][..], options, &["-e", file]].concat());
    };
    encrypt(&["-r", "alice"], "alice.pgp", "text");
    encrypt(&["-r", "bob", "--armor"], "named.pgp", "näme 100%");
    encrypt(&["-r", "alice", "-s", "-u", "bob", "-u", "alice"], "signed.pgp", "text");
    encrypt(&["-r", "alice", "-r", "bob"], "both.pgp", "text");
    encrypt(&["-R", "alice"], "hidden.pgp", "text");
    let damaged = site.damaged("alice.pgp");
    site.imported();

    let lines = site.decrypted_alike("own", "alice.pgp", &[]);
    assert_eq!(
        keywords(&lines),
        [
            "ENC_TO",
            "DECRYPTION_KEY",
            "BEGIN_DECRYPTION",
            "DECRYPTION_INFO",
            "PLAINTEXT",
            "DECRYPTION_OKAY",
            "GOODMDC",
            "END_DECRYPTION"
        ]
    );
    let lines = site.decrypted_alike("own", "named.pgp", &[]);
    assert!(lines.contains(&format!("PLAINTEXT 62 {THEN} näme%20100%25")), "{lines:?}");
    let lines = site.decrypted_alike("own", "signed.pgp", &[]);
    assert_eq!(lines.iter().filter(|line| line.starts_with("GOODSIG ")).count(), 2, "{lines:?}");
    site.decrypted_alike("own", "hidden.pgp", &[]);
    // gpg names the key between the recipients, and reports unneeded keys as missing.
    let decrypt = ["decrypt", "both.pgp", "--key-file", "keys.pgp"];
    let own = (THEN, "own");
    let [theirs, ours] = site.both(own, &["-d", "both.pgp"], &decrypt, &["NO_SECKEY"]).map(sorted);
    assert_eq!(theirs, ours, "gpg's on the left");

    let lines = site.decrypted_alike("other", "alice.pgp", &[]);
    assert_eq!(
        keywords(&lines),
        ["ENC_TO", "NO_SECKEY", "BEGIN_DECRYPTION", "DECRYPTION_FAILED", "END_DECRYPTION"]
    );
    site.decrypted_alike("other", "hidden.pgp", &[]);
    let [theirs, ours] =
        site.both((THEN, "other"), &["-d", "both.pgp"], &["decrypt", "both.pgp"], &[]).map(sorted);
    assert_eq!(theirs, ours, "gpg's on the left");
    // gpg has already written a part of the damaged content.
    let unsaid = ["DECRYPTION_KEY", "DECRYPTION_INFO", "PLAINTEXT"];
    let lines = site.decrypted_alike("own", &damaged, &unsaid);
    assert_eq!(
        keywords(&lines),
        ["ENC_TO", "BEGIN_DECRYPTION", "BADMDC", "DECRYPTION_FAILED", "END_DECRYPTION"]
    );
}

#[test]
fn status_lines_about_passphrases_equal_those_of_gpg() {
    if !has_gpg() {
        return;
    }
    let site = Site::new().with_keys();
    let with = ["--passphrase-file", "pw"];
    let symmetric = |options: &[&str], out: &str| {
        site.gpg(THEN, "own", &[&with, options, &["-o", out, "-c", "text"]].concat());
    };
    symmetric(&[], "aes256.pgp");
    symmetric(&["--cipher-algo", "AES", "--s2k-digest-algo", "SHA512"], "aes128.pgp");
    symmetric(&["--s2k-mode", "1"], "salted.pgp");
    symmetric(&["-e", "-r", "bob"], "either.pgp");
    let damaged = site.damaged("aes256.pgp");
    let generate = ["--quick-gen-key", "pat@example.org", "rsa2048", "encr,cert,sign"];
    site.gpg(THEN, "own", &[&with[..], &generate].concat());
    site.gpg(THEN, "own", &["-o", "pat.pgp", "-r", "pat", "-e", "text"]);
    site.gpg(
        THEN,
        "own",
        &[&with[..], &["-o", "pat-key.pgp", "--export-secret-keys", "pat"]].concat(),
    );
    site.imported();

    for file in ["aes256.pgp", "aes128.pgp", "salted.pgp"] {
        site.opened_alike("pw", file, &[]);
        let lines = site.opened_alike("wrong", file, &[]);
        assert_eq!(
            keywords(&lines),
            [
                "NEED_PASSPHRASE_SYM",
                "BEGIN_DECRYPTION",
                "DECRYPTION_INFO",
                "ERROR",
                "DECRYPTION_FAILED",
                "END_DECRYPTION"
            ]
        );
    }
    // With a wrong passphrase the cipher is unknown.
    site.opened_alike("wrong", "either.pgp", &["DECRYPTION_INFO"]);
    let lines = site.opened_alike("pw", &damaged, &["PLAINTEXT"]);
    assert!(lines.contains(&"BADMDC".to_owned()), "{lines:?}");

    let mut kill = Command::new("gpgconf");
    kill.args(["--kill", "gpg-agent"]).env("GNUPGHOME", site.program.path("own"));
    assert!(kill.status().unwrap().success());
    let with = ["--passphrase-file", "wrong"];
    let gpg = [&with[..], &["--decrypt", "pat.pgp"]].concat();
    let talaria = [&["decrypt", "pat.pgp", "--key-file", "pat-key.pgp"][..], &with].concat();
    let [theirs, ours] = site.both((THEN, "own"), &gpg, &talaria, &[]);
    assert_eq!(theirs, ours, "gpg's on the left");
    assert!(ours.contains(&"ERROR pkdecrypt_failed".to_owned()), "{ours:?}");
}

#[test]
fn status_lines_about_other_files_equal_those_of_gpg() {
    if !has_gpg() {
        return;
    }
    let site = Site::new().with_keys();
    site.gpg(THEN, "own", &["-o", "packed", "--store", "text"]);
    site.gpg(THEN, "own", &["-o", "sealed", "-r", "alice", "-e", "text"]);
    fs::write(site.program.path("bytes"), b"\xa3\x09nothing that is known").unwrap();
    site.imported();
    let own = (THEN, "own");
    for (file, wanted) in [("text", &["NODATA 1", "NODATA 2"][..]), ("empty", &["NODATA 2"])] {
        assert_eq!(site.verified_alike(own, Some(file), "text"), wanted);
        assert_eq!(site.verified_alike(own, None, file), wanted);
        assert_eq!(site.decrypted_alike("own", file, &[]), wanted);
    }
    assert_eq!(site.verified_alike(own, None, "packed"), ["NODATA 4"]);
    assert_eq!(site.verified_alike(own, None, "sealed"), ["UNEXPECTED 0"]);
}

/// gpg 2.2 accepts damaged AEAD messages, so the test cannot compare with it.
#[test]
fn status_lines_name_aead() {
    let site = Site::new();
    for (profile, info) in [("rfc9580", "0 9 3"), ("librepgp", "0 9 2")] {
        let encrypt = ["encrypt", "--symmetric", "--profile", profile, "--passphrase-file", "pw"];
        let output = site.talaria(
            THEN,
            "own",
            &[&encrypt[..], &["--overwrite", "-o", "sealed", "text"]].concat(),
        );
        assert!(output.status.success(), "{output:?}");
        let damaged = site.damaged("sealed");
        let lines = |file: &str, passphrase: &str| {
            let decrypt = ["decrypt", "--status-fd", "2", "--passphrase-file", passphrase, file];
            let text = String::from_utf8(site.talaria(THEN, "own", &decrypt).stderr).unwrap();
            let lines = text.lines().filter_map(|line| line.strip_prefix("[GNUPG:] "));
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        let opened = lines("sealed", "pw");
        assert!(opened.contains(&format!("DECRYPTION_INFO {info}")), "{opened:?}");
        assert!(opened.contains(&"GOODMDC".to_owned()), "{opened:?}");
        let changed = lines(&damaged, "pw");
        assert!(
            changed
                .ends_with(&["BADMDC", "DECRYPTION_FAILED", "END_DECRYPTION"].map(str::to_owned))
        );
        let refused = lines("sealed", "wrong");
        assert!(refused.iter().any(|line| line.starts_with("ERROR symkey_decrypt")), "{refused:?}");
    }
}
