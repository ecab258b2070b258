//! Passphrases and secret keys from programs and GnuPG: pipes, sockets, keys of gpg 2.4.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::program::{Program, make_gnupg_home};

const PLAIN: &str = "attack at dawn\n";

struct Site {
    program: Program,
}

impl Site {
    fn new() -> Self {
        let site = Self { program: Program::new() };
        make_gnupg_home(&site.home());
        site.write("plain", PLAIN.as_bytes());
        site.write("pw", b"correct horse\n");
        site
    }

    /// The home of a GnuPG.
    fn home(&self) -> PathBuf {
        self.program.path("g")
    }

    fn write(&self, name: &str, content: &[u8]) {
        fs::write(self.program.path(name), content).unwrap();
    }

    fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.program.path(name)).unwrap()
    }

    fn command(&self, words: &str) -> Command {
        let mut command = self.program.command(&words.split(' ').collect::<Vec<_>>());
        command.current_dir(self.program.path(""));
        command.env("GNUPGHOME", self.home()).env_remove("GPG_TTY");
        command
    }

    fn piped(&self, words: &str, input: &[u8]) -> Output {
        let mut child = self.command(words).stdin(Stdio::piped()).spawn().unwrap();
        // The command may not read all of its input.
        let _ = child.stdin.take().unwrap().write_all(input);
        child.wait_with_output().unwrap()
    }

    fn ok(&self, words: &str) -> String {
        let output = self.command(words).output().unwrap();
        assert!(output.status.success(), "{words}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn fails(&self, words: &str, status: i32) -> String {
        let output = self.command(words).output().unwrap();
        assert_eq!(output.status.code(), Some(status), "{words}: {output:?}");
        String::from_utf8(output.stderr).unwrap()
    }

    fn gpg(&self, program: &Path, words: &str) -> Output {
        let mut command = Command::new(program);
        command.args([
            "--batch",
            "--yes",
            "--pinentry-mode",
            "loopback",
            "--passphrase-file",
            "pw",
        ]);
        command.args(words.split(' ')).current_dir(self.program.path(""));
        command.env("GNUPGHOME", self.home()).stdin(Stdio::null()).output().unwrap()
    }

    fn gpg_ok(&self, program: &Path, words: &str) -> Vec<u8> {
        let output = self.gpg(program, words);
        assert!(output.status.success(), "{words}: {output:?}");
        output.stdout
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let mut command = Command::new("gpgconf");
        command.args(["--kill", "all"]).env("GNUPGHOME", self.home());
        let _ = command.stderr(Stdio::null()).status();
    }
}

/// The GnuPG of Debian 12 and GnuPG 2.4, if they are installed.
fn gnupgs() -> Vec<PathBuf> {
    let newer = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/peers/gnupg-2.4/gpg");
    let there = |program: &PathBuf| Command::new(program).arg("--version").output().is_ok();
    let found: Vec<PathBuf> = [PathBuf::from("gpg"), newer].into_iter().filter(there).collect();
    if found.len() < 2 {
        let is_older = found.iter().any(|gpg| gpg.as_os_str() == "gpg");
        talaria_needs::left_out(if is_older { "gpg 2.4" } else { "gpg" });
    }
    found
}

fn gpg_2_4() -> Option<PathBuf> {
    gnupgs().into_iter().find(|program| program.components().count() > 1)
}

/// Scripts pass passphrases as in `echo pw | gpg --passphrase-fd 0 -d`. A pipe can be read once
/// only.
#[test]
fn every_command_reads_passphrases_from_pipes() {
    for from in ["--passphrase-fd 0", "--passphrase-file /dev/fd/0", "--passphrase-file /dev/stdin"]
    {
        let site = Site::new();
        let pw = b"correct horse\nand more";
        let ok = |words: &str| {
            let words = words.replace("PW", from);
            let output = site.piped(&words, pw);
            assert!(output.status.success(), "{words}: {output:?}");
            String::from_utf8(output.stdout).unwrap()
        };
        ok("key generate alice@example.org PW");
        ok("sign plain -o s --overwrite PW");
        site.ok("verify plain --signature s");
        site.ok("encrypt plain --to alice@example.org -o m --overwrite");
        assert_eq!(ok("decrypt m PW"), PLAIN);
        ok("encrypt plain --to alice@example.org --sign-with alice -o m --overwrite PW");
        assert_eq!(ok("decrypt m PW"), PLAIN);
        for profile in ["rfc9580", "rfc4880", "compatible", "librepgp"] {
            ok(&format!("encrypt plain --symmetric --profile {profile} -o c --overwrite PW"));
            assert_eq!(ok("decrypt c PW"), PLAIN);
        }
        ok("key expire alice 1y PW");
        ok("key revoke --yes alice -o revocation --overwrite PW");
        ok("key passphrase alice PW --new-passphrase-file pw");
        // A key without a passphrase gets the given one.
        ok("key generate bob@example.org --no-passphrase");
        site.write("bob", &site.program.run(&["key", "export", "bob"]).stdout);
        site.ok("key delete bob --yes");
        ok("key import bob PW");
        assert!(!site.ok("key list").contains("NOT PROTECTED"));
    }
    // Two lines of one pipe are two passphrases.
    let site = Site::new();
    assert!(site.piped("key generate eve --passphrase-fd 0", b"old").status.success());
    let both = "key passphrase eve --passphrase-fd 0 --new-passphrase-fd 0";
    let output = site.piped(both, b"old\nnew\n");
    assert!(output.status.success(), "{output:?}");
    assert!(site.piped("sign plain -o s --overwrite --passphrase-fd 0", b"new").status.success());
    // Process substitution, as in shells.
    let talaria = env!("CARGO_BIN_EXE_talaria");
    let script = format!(
        "'{talaria}' encrypt -c plain --passphrase-file <(echo x) | \
        '{talaria}' decrypt --passphrase-file <(echo x)"
    );
    let mut bash = Command::new("bash");
    bash.args(["-c", &script]).current_dir(site.program.path(""));
    bash.env("TALARIA_CONFIG", "").env("TALARIA_KEYS", site.program.path("keys"));
    let output = bash.env("TALARIA_STORE", site.program.store()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), PLAIN, "{output:?}");
}

/// An empty passphrase protects nothing, and a truncated passphrase is a different one.
#[test]
fn passphrases_that_are_empty_or_too_long_are_refused() {
    let site = Site::new();
    let long = [b'x'; 4097];
    for words in [
        "encrypt plain --symmetric -o c --overwrite --passphrase-fd 0",
        "decrypt plain --passphrase-fd 0",
        "sign plain -o s --overwrite --passphrase-fd 0",
        "key generate alice --passphrase-fd 0",
    ] {
        for (input, why) in [
            (&b""[..], "is empty"),
            (b"\n", "is empty"),
            (b"\r\nx", "is empty"),
            (&long, "is longer than 4096 bytes"),
        ] {
            let output = site.piped(words, input);
            assert_eq!(output.status.code(), Some(2), "{words}: {output:?}");
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(said.contains(why) && said.contains("file descriptor 0"), "{said}");
        }
    }
    let longest = [&long[..4096], b"\r\n"].concat();
    let output =
        site.piped("encrypt plain --symmetric -o c --overwrite --passphrase-fd 0", &longest);
    assert!(output.status.success(), "{output:?}");
    let output = site.piped("decrypt c --passphrase-fd 0", &longest);
    assert_eq!(String::from_utf8_lossy(&output.stdout), PLAIN);
    let mut command =
        site.command("encrypt plain --symmetric -o d --overwrite --passphrase-env EMPTY");
    assert_eq!(command.env("EMPTY", "").output().unwrap().status.code(), Some(2));
}

/// The standard streams of a child process of Node.js are sockets, which have no path.
#[test]
fn descriptors_may_be_sockets() {
    let site = Site::new();
    let socket = |mut command: Command, input: &[u8]| -> (Output, String) {
        let (mut near, far) = UnixStream::pair().unwrap();
        let owned = OwnedFd::from(far);
        command.stdin(Stdio::from(owned.try_clone().unwrap())).stdout(Stdio::from(owned));
        near.write_all(input).unwrap();
        near.shutdown(std::net::Shutdown::Write).unwrap();
        let output = command.output().unwrap();
        drop(command);
        let mut said = String::new();
        near.read_to_string(&mut said).unwrap();
        (output, said)
    };
    for from in ["--passphrase-fd 0", "--passphrase-file /dev/fd/0"] {
        let command = site.command(&format!("encrypt plain --symmetric -o c --overwrite {from}"));
        let (output, _) = socket(command, b"correct horse\n");
        assert!(output.status.success(), "{output:?}");
    }
    let command = site.command("decrypt c --passphrase-fd 0 --status-fd 1");
    let (output, said) = socket(command, b"correct horse\n");
    assert!(output.status.success(), "{output:?}");
    assert!(said.contains(PLAIN) && said.contains("[GNUPG:] DECRYPTION_OKAY"), "{said}");
    // The message is read and written through the paths of descriptors.
    let command = site.command("decrypt /dev/fd/0 -o /dev/fd/1 --passphrase-file pw");
    let (output, said) = socket(command, &site.read("c"));
    assert!(output.status.success(), "{output:?}");
    assert_eq!(said, PLAIN);
}

/// gpg 2.4 always writes 256 bits for the secrets of its default kind of key. rPGP reads
/// them; Sequoia and so sq do not.
#[test]
fn protected_keys_of_gnupg_are_imported() {
    for gpg in gnupgs() {
        let site = Site::new();
        for number in 0..8 {
            let name = format!("key{number}@example.org");
            site.gpg_ok(&gpg, &format!("--quick-gen-key {name} ed25519 sign,cert never"));
            let listed = site.gpg_ok(&gpg, &format!("--with-colons --list-keys {name}"));
            let listed = String::from_utf8(listed).unwrap();
            let fpr = listed.lines().find_map(|line| line.strip_prefix("fpr:::::::::")).unwrap();
            let fpr = fpr.trim_end_matches(':');
            site.gpg_ok(&gpg, &format!("--quick-add-key {fpr} cv25519 encr never"));
            site.write("key", &site.gpg_ok(&gpg, &format!("--export-secret-keys {name}")));
            site.ok("key import key");
            let with = format!("--with {name} --passphrase-file pw");
            site.ok(&format!("sign plain -o s --overwrite {with}"));
            site.gpg_ok(&gpg, "--verify s plain");
            site.gpg_ok(&gpg, &format!("--trust-model always -o m -r {name} -e plain"));
            assert_eq!(site.ok("decrypt m --passphrase-file pw"), PLAIN);
            let wrong = site.program.path("plain");
            site.fails(
                &format!(
                    "sign plain -o s --overwrite --with {name} --passphrase-file {}",
                    wrong.display()
                ),
                1,
            );
            // With a new passphrase it is an ordinary key.
            site.write("new", b"battery staple");
            site.ok(&format!(
                "key passphrase {name} --passphrase-file pw --new-passphrase-file new"
            ));
            assert_eq!(site.ok("decrypt m --passphrase-file new"), PLAIN);
            fs::remove_file(site.program.path("m")).unwrap();
        }
    }
}

/// gpg 2.4 announces that it reads packet 20 (Debian's only with this option), and reads messages
/// with several passphrases that talaria writes in its profile.
#[test]
fn gnupg_2_4_and_talaria_exchange_aead_messages() {
    let Some(gpg) = gpg_2_4() else { return };
    let site = Site::new();
    site.gpg_ok(&gpg, "--compliance gnupg --quick-gen-key new@example.org default default never");
    site.write("cert", &site.gpg_ok(&gpg, "--export new@example.org"));
    site.ok("import cert");
    site.ok("encrypt plain --to new@example.org -o m --overwrite");
    assert!(site.ok("inspect --packets m").contains("AEAD encrypted data of GnuPG"));
    assert_eq!(site.gpg_ok(&gpg, "-d m"), PLAIN.as_bytes());
    site.write("other", b"battery staple");
    for number in 0..20 {
        let words = "encrypt plain --symmetric --profile librepgp -o m --overwrite";
        site.ok(&format!("{words} --passphrase-file other --passphrase-file pw"));
        assert_eq!(site.gpg_ok(&gpg, "-d m"), PLAIN.as_bytes(), "{number}");
        for password in ["pw", "other"] {
            assert_eq!(site.ok(&format!("decrypt m --passphrase-file {password}")), PLAIN);
        }
    }
}

/// gpg 2.4 makes version 5 keys of Ed448, and 2.2 can make unsupported keys. Errors name them.
#[test]
fn errors_name_unsupported_kinds_of_keys() {
    let Some(gpg) = gpg_2_4() else { return };
    let site = Site::new();
    let make = "--compliance gnupg --quick-gen-key five@example.org ed448 sign,cert never";
    site.gpg_ok(&gpg, make);
    site.write("five", &site.gpg_ok(&gpg, "--export five@example.org"));
    site.ok("import five");
    let said = site.fails("encrypt plain --to five@example.org -o m --overwrite", 1);
    assert!(said.contains("version 5 (LibrePGP), which is not supported"), "{said}");
    site.write("secret", &site.gpg_ok(&gpg, "--export-secret-keys five@example.org"));
    let said = site.fails("key import secret", 3);
    assert!(said.contains("version 5 (LibrePGP), which is not supported"), "{said}");
    site.gpg_ok(&gpg, "--quick-gen-key koblitz@example.org secp256k1 sign,cert never");
    site.write("koblitz", &site.gpg_ok(&gpg, "--export koblitz@example.org"));
    site.ok("import koblitz");
    let said = site.fails("encrypt plain --to koblitz@example.org -o m --overwrite", 1);
    assert!(said.contains("a key on the curve secp256k1, which is not supported"), "{said}");
    site.gpg_ok(&gpg, "--quick-gen-key old@example.org dsa2048 sign,cert never");
    let listing = site.gpg_ok(&gpg, "--with-colons -k old@example.org");
    let listing = String::from_utf8(listing).unwrap();
    let fingerprint = listing.lines().find_map(|line| line.strip_prefix("fpr:::::::::")).unwrap();
    let fingerprint = fingerprint.trim_end_matches(':');
    site.gpg_ok(&gpg, &format!("--quick-add-key {fingerprint} elg1024 encr never"));
    site.write("old", &site.gpg_ok(&gpg, "--export-secret-keys old@example.org"));
    site.ok("key import old");
    site.gpg_ok(&gpg, "--trust-model always -r old@example.org -o e -e plain");
    let said = site.fails("decrypt e --passphrase-file pw", 1);
    assert!(said.contains("is an Elgamal key, which is not supported"), "{said}");
    let said = site.fails("encrypt plain --to old@example.org -o m --overwrite", 1);
    assert!(said.contains("an Elgamal key"), "{said}");
    // The error for an old cipher names the cipher.
    for cipher in ["TWOFISH", "CAST5", "BLOWFISH", "IDEA"] {
        let old = "--allow-old-cipher-algos -o c -c --cipher-algo";
        site.gpg_ok(&gpg, &format!("{old} {cipher} plain"));
        let said = site.fails("decrypt c --passphrase-file pw", 3).to_uppercase();
        assert!(said.contains(&format!("THE CIPHER {cipher}, WHICH IS NOT SUPPORTED")), "{said}");
    }
}

/// The README says which profiles GnuPG can read.
#[test]
fn the_profile_decides_which_gnupg_decrypts_passphrase_messages() {
    let site = Site::new();
    for (profile, old, new) in
        [("compatible", true, true), ("librepgp", true, true), ("rfc9580", false, false)]
    {
        site.ok(&format!(
            "encrypt plain --symmetric --profile {profile} -o m --overwrite --passphrase-file pw"
        ));
        for gpg in gnupgs() {
            let reads = if gpg.components().count() > 1 { new } else { old };
            let output = site.gpg(&gpg, "-d m");
            assert_eq!(output.status.success(), reads, "{profile} {gpg:?}: {output:?}");
            assert!(!reads || output.stdout == PLAIN.as_bytes());
        }
    }
}

/// gpg refuses shorter digests of ECDSA keys on the larger Brainpool curves.
#[test]
fn gnupg_accepts_signatures_of_brainpool_keys() {
    for gpg in gnupgs() {
        let site = Site::new();
        for curve in ["brainpoolP256r1", "brainpoolP384r1", "brainpoolP512r1", "nistp384"] {
            let name = format!("{curve}@example.org");
            site.gpg_ok(&gpg, &format!("--quick-gen-key {name} {curve} sign,cert never"));
            site.write("key", &site.gpg_ok(&gpg, &format!("--export-secret-keys {name}")));
            site.ok("key import key");
            site.ok(&format!("sign plain -o s --overwrite --with {name} --passphrase-file pw"));
            site.gpg_ok(&gpg, "--verify s plain");
        }
    }
}

/// Anybody can append a subkey too large for any signature. It once made every later `verify`
/// panic. gpg, sq and sqop verify nevertheless.
#[test]
fn an_oversized_subkey_added_by_a_stranger_does_no_harm() {
    let site = Site::new();
    site.ok("key generate alice@example.org --passphrase-file pw");
    site.ok("sign plain -o s --overwrite --with alice --passphrase-file pw");
    site.ok("encrypt plain --to alice@example.org --sign-with alice --passphrase-file pw -o m --overwrite");
    let mut body = vec![4, 0x60, 0, 0, 0, 99];
    body.resize(70_000, 7);
    let mut hostile = site.program.run(&["export", "alice", "--binary"]).stdout;
    if hostile.is_empty() {
        hostile = site.program.run(&["export", "alice"]).stdout;
    }
    hostile.extend([0xce, 0xff]);
    hostile.extend(u32::try_from(body.len()).unwrap().to_be_bytes());
    hostile.extend(body);
    site.write("hostile", &hostile);
    let said = site.ok("import hostile");
    assert!(said.contains("1 updated"), "{said}");
    site.ok("verify plain --signature s");
    assert_eq!(site.ok("decrypt m --passphrase-file pw"), PLAIN);
    site.ok("encrypt plain --to alice@example.org -o n --overwrite");
    site.ok("list alice");
    site.ok("check");
}

/// `import` reads only certificates, and must say that it ignored a secret key.
#[test]
fn import_says_that_it_ignored_a_secret_key() {
    let site = Site::new();
    site.ok("key generate alice@example.org --passphrase-file pw");
    site.write("key", &site.program.run(&["key", "export", "alice"]).stdout);
    let output = site.command("import key").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("there is 1 secret key in it"), "{said}");
    assert!(said.contains("talaria key import"), "{said}");
}

/// The agent must not get the passphrase of a message, because it could try it as the PIN of a
/// card: one of three tries would be gone. A running agent is used only with the option.
#[test]
fn the_agent_gets_no_message_passphrase_and_is_used_only_on_request() {
    let Some(gpg) = gnupgs().into_iter().next() else { return };
    let site = Site::new();
    site.gpg_ok(&gpg, "--quick-gen-key zoe@example.org rsa2048 sign,cert,encr never");
    site.write("cert", &site.gpg_ok(&gpg, "--export zoe@example.org"));
    site.ok("import cert");
    site.ok("encrypt plain --to zoe@example.org -o for-key --overwrite");
    // The message has a passphrase different from that of the key.
    site.write("message-pw", b"battery staple");
    site.ok(
        "encrypt plain --to zoe@example.org --symmetric --passphrase-file message-pw -o for-both --overwrite",
    );
    let forget = || {
        let mut command = Command::new("gpg-connect-agent");
        command.args(["reloadagent", "/bye"]).env("GNUPGHOME", site.home());
        assert!(command.output().unwrap().status.success());
    };
    forget();
    assert_eq!(site.ok("decrypt for-both --gpg-agent --passphrase-file message-pw"), PLAIN);
    site.fails("decrypt for-both --gpg-agent --passphrase-file pw", 1);
    site.fails("decrypt for-key --passphrase-file pw", 1);
    assert_eq!(site.ok("decrypt for-key --gpg-agent --passphrase-file pw"), PLAIN);
    // The option can also be in the configuration.
    forget();
    site.write("config", b"gpg-agent = true\n");
    let mut command = site.command("decrypt for-key --passphrase-file pw");
    let output = command.env("TALARIA_CONFIG", site.program.path("config")).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), PLAIN, "{output:?}");
}
