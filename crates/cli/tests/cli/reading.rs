//! Attacks on verification and on the kind of a message, compared with the results of gpg.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Output, Stdio};

use talaria::message::openpgp::serialize::stream::{Encryptor, Message};

use crate::program::Program;

/// A folder with a GnuPG home that has the keys of Alice and Mallory, and a store with their
/// certificates.
struct Site {
    program: Program,
    alice: String,
    mallory: String,
}

const TEXT: &str = "pay bob 10 euro\n";
/// The part of the text that gpg's cleartext signature covers. gpg also writes the last line end,
/// which is not signed.
const SIGNED: &str = "pay bob 10 euro";

impl Site {
    /// `None` without gpg.
    fn new() -> Option<Self> {
        if Command::new("gpg").arg("--version").output().is_err() {
            talaria_needs::left_out("gpg");
            return None;
        }
        let program = Program::new();
        fs::create_dir(program.path("gpg")).unwrap();
        fs::set_permissions(program.path("gpg"), fs::Permissions::from_mode(0o700)).unwrap();
        let mut site = Self { program, alice: String::new(), mallory: String::new() };
        for name in ["alice@example.org", "mallory@evil.example"] {
            site.gpg_ok(&["--quick-gen-key", name, "ed25519", "sign,cert", "never"]);
        }
        (site.alice, site.mallory) = (site.fingerprint("alice"), site.fingerprint("mallory"));
        for name in [site.alice.clone(), site.mallory.clone()] {
            site.gpg_ok(&["--quick-add-key", &name, "cv25519", "encr", "never"]);
        }
        site.gpg_ok(&["-o", "certs", "--export"]);
        site.gpg_ok(&["-o", "secret", "--export-secret-keys"]);
        site.write("doc", TEXT);
        site.write("pw", "pass");
        assert!(site.talaria(&["import", "certs"]).status.success());
        Some(site)
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        fs::write(self.program.path(name), content).unwrap();
    }

    fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.program.path(name)).unwrap()
    }

    fn text(&self, name: &str) -> String {
        String::from_utf8(self.read(name)).unwrap()
    }

    fn has(&self, name: &str) -> bool {
        self.program.path(name).exists()
    }

    fn gpg(&self, args: &[&str]) -> Output {
        let mut command = Command::new("gpg");
        command.args(["--batch", "--yes", "--no-tty", "--quiet", "--pinentry-mode", "loopback"]);
        command.args(["--passphrase", "", "--trust-model", "always"]).args(args);
        command.current_dir(self.program.path("")).env("GNUPGHOME", self.program.path("gpg"));
        command.stdin(Stdio::null()).output().unwrap()
    }

    fn gpg_ok(&self, args: &[&str]) -> Vec<u8> {
        let output = self.gpg(args);
        assert!(output.status.success(), "{args:?}: {output:?}");
        output.stdout
    }

    fn fingerprint(&self, name: &str) -> String {
        let listed = String::from_utf8(self.gpg_ok(&["--with-colons", "-k", name])).unwrap();
        let line = listed.lines().find(|line| line.starts_with("fpr:")).unwrap();
        line.split(':').nth(9).unwrap().to_owned()
    }

    /// Signs a file with the key of a user.
    fn sign(&self, who: &str, how: &[&str], from: &str, to: &str) {
        self.gpg_ok(&[&["-u", who, "-o", to], how, &[from]].concat());
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.program.command(args);
        command.current_dir(self.program.path("")).env("GNUPGHOME", self.program.path("none"));
        command
    }

    fn talaria(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// The output of a command that must exit with this status.
    #[track_caller]
    fn status(&self, args: &[&str], status: i32) -> (Vec<u8>, String) {
        let output = self.talaria(args);
        assert_eq!(output.status.code(), Some(status), "{args:?}: {output:?}");
        (output.stdout, String::from_utf8(output.stderr).unwrap())
    }

    /// Encrypts arbitrary packets with a passphrase.
    fn seal_packets(&self, packets: &[u8], to: &str) {
        let mut sealed = Vec::new();
        let message = Encryptor::with_passwords(Message::new(&mut sealed), ["pass"]);
        let mut message = message.build().unwrap();
        message.write_all(packets).unwrap();
        message.finalize().unwrap();
        self.write(to, sealed);
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let mut command = Command::new("gpgconf");
        command.args(["--kill", "all"]).env("GNUPGHOME", self.program.path("gpg"));
        let _ = command.stderr(Stdio::null()).status();
    }
}

#[test]
fn decrypt_accepts_every_input_that_gpg_decrypts() {
    let Some(site) = Site::new() else { return };
    site.sign("alice", &["-s"], "doc", "compressed");
    site.sign("alice", &["-s", "-a"], "doc", "armored");
    site.sign("alice", &["-s", "--compress-algo", "none"], "doc", "inline");
    site.sign("alice", &["--clearsign"], "doc", "clear");
    site.gpg_ok(&["-o", "sealed", "-a", "-u", "alice", "-r", "alice", "-se", "doc"]);
    for name in ["armored", "clear", "sealed"] {
        site.write(&format!("mailed-{name}"), format!("Hello,\n\n{}", site.text(name)));
    }
    let all = ["compressed", "armored", "inline", "clear", "sealed"];
    for name in all.into_iter().chain(["mailed-armored", "mailed-clear", "mailed-sealed"]) {
        let mut theirs = site.gpg_ok(&["-d", name]);
        if name.ends_with("clear") {
            assert_eq!(theirs.pop(), Some(b'\n'));
        }
        let (ours, said) = site.status(&["decrypt", "--key-file", "secret", name], 0);
        assert_eq!(ours, theirs, "{name}: {said}");
        assert!(said.contains("Good signature"), "{name}: {said}");
        let mut child = site.command(&["decrypt", "--key-file", "secret"]);
        let mut child = child.stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(&site.read(name)).unwrap();
        let piped = child.wait_with_output().unwrap();
        assert!(piped.status.success() && piped.stdout == theirs, "{name}: {piped:?}");
        if !name.ends_with("sealed") {
            let (ours, _) = site.status(&["verify", "-o", "-", name], 0);
            assert_eq!(ours, theirs, "{name}");
        }
    }
    let (_, said) = site.status(&["verify", "sealed"], 3);
    assert!(said.contains("an encrypted message") && said.contains("talaria decrypt"), "{said}");
    // gpg writes the content first and then reports the forgery.
    site.write("forged", site.text("clear").replace("10 euro", "99 euro"));
    let theirs = site.gpg(&["-d", "forged"]);
    assert_eq!(theirs.status.code(), Some(1));
    assert_eq!(theirs.stdout, b"pay bob 99 euro\n");
    let (ours, said) = site.status(&["decrypt", "forged"], 1);
    assert!(ours.is_empty() && said.contains("BAD signature"), "{said}");
}

#[test]
fn no_hint_suggests_unpacking_a_signed_message() {
    let Some(site) = Site::new() else { return };
    // gpg compresses signed messages, so they do not look signed from outside.
    site.sign("alice", &["-s"], "doc", "signed");
    site.gpg_ok(&["-o", "packed", "--store", "doc"]);
    for command in [&["decrypt"][..], &["verify"], &["verify", "--overwrite", "-o", "out"]] {
        let output = site.talaria(&[command, &["signed"]].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && !said.contains("unpack"), "{said}");
        let output = site.talaria(&[command, &["packed"]].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("neither encrypted nor signed"), "{said}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn verify_checks_a_detached_signature_on_the_file_beside_it() {
    let Some(site) = Site::new() else { return };
    site.sign("alice", &["-b"], "doc", "doc.sig");
    site.sign("alice", &["-b", "-a"], "doc", "doc.asc");
    for signature in ["doc.sig", "doc.asc"] {
        // In batch mode gpg does not guess the file.
        site.gpg_ok(&["--no-batch", "--verify", signature]);
        let (_, said) = site.status(&["verify", signature], 0);
        assert!(said.contains("Assuming that doc is the signed file"), "{said}");
        assert!(said.contains("Good signature"), "{said}");
    }
    site.write("doc", "pay mallory 10 euro\n");
    assert_eq!(site.gpg(&["--no-batch", "--verify", "doc.sig"]).status.code(), Some(1));
    let (_, said) = site.status(&["verify", "doc.sig"], 1);
    assert!(said.contains("BAD signature"), "{said}");
    fs::rename(site.program.path("doc"), site.program.path("gone")).unwrap();
    let (_, said) = site.status(&["verify", "doc.sig"], 3);
    assert!(
        said.contains("the file doc does not exist")
            && said.contains("talaria verify doc.sig FILE"),
        "{said}"
    );
    // The signed file of a signature from a pipe is unknown.
    site.write("gone.sig2", site.read("doc.sig"));
    site.status(&["verify", "gone.sig2"], 3);
}

/// gpg verifies the message and warns that it did not look at the file.
#[test]
fn a_signed_message_with_the_name_of_a_signature_must_have_the_content_of_the_file() {
    let Some(site) = Site::new() else { return };
    let refused = |name: &str| {
        for args in [&["verify", name][..], &["verify", "--signer", &site.alice, name]] {
            let (_, said) = site.status(&[args, &["--status-fd", "2"]].concat(), 3);
            assert!(said.contains("its content is not that of doc"), "{said}");
            assert!(!said.contains("Good") && !said.contains("GOODSIG"), "{said}");
        }
        let (json, _) = site.status(&["--json", "verify", name], 3);
        assert_eq!(json, b"");
        // The content itself can be had.
        let (out, said) = site.status(&["verify", "-o", "-", name], 0);
        assert_eq!(String::from_utf8(out).unwrap().trim_end(), SIGNED, "{said}");
    };
    let ways = [&["-s"][..], &["-s", "-a"], &["-s", "--textmode"], &["--clearsign"]];
    for how in ways {
        for name in ["doc.sig", "doc.asc", "doc.sign"] {
            site.write("doc", TEXT);
            site.sign("alice", how, "doc", name);
            let (_, said) = site.status(&["verify", name], 0);
            assert!(said.contains("doc has the signed content") && said.contains("Good"), "{said}");
            for other in ["pay mallory 10 euro\n", "", "pay bob 10 euro \n", "pay bob 10 euro\n\n"]
            {
                site.write("doc", other);
                refused(name);
            }
            // A message without a file beside it.
            fs::remove_file(site.program.path("doc")).unwrap();
            let (_, said) = site.status(&["verify", name], 0);
            assert!(said.contains("Good") && !said.contains("signed content"), "{said}");
        }
    }
    // Line ends belong to the content unless it is text.
    for (how, status) in ways.into_iter().zip([3, 3, 0, 0]) {
        site.write("doc", TEXT);
        site.sign("alice", how, "doc", "doc.sig");
        site.write("doc", TEXT.replace('\n', "\r\n"));
        site.status(&["verify", "doc.sig"], status);
    }
}

#[test]
fn damaged_openpgp_data_are_not_taken_for_a_file_to_encrypt() {
    let Some(site) = Site::new() else { return };
    site.gpg_ok(&["-o", "sealed", "-a", "-r", "alice", "-e", "doc"]);
    site.sign("alice", &["--clearsign"], "doc", "clear");
    let line = |text: &str| text.lines().nth(3).unwrap().to_owned();
    let sealed = site.text("sealed");
    site.write("sealed", sealed.replace(&line(&sealed), "~~~~ no base64 ~~~~"));
    let clear = site.text("clear");
    site.write("twice", format!("{clear}\n{clear}"));
    assert!(clear.contains("Hash: SHA"), "{clear}");
    site.write("clear", clear.replace("Hash: SHA", "Hash: sha"));
    site.write("empty", "-----BEGIN PGP MESSAGE-----\n\n-----END PGP MESSAGE-----\n");
    for name in ["sealed", "clear", "twice", "empty"] {
        for command in [&["decrypt", name][..], &["verify", name]] {
            let (_, said) = site.status(command, 3);
            assert!(!said.contains("talaria encrypt"), "{name}: {said}");
            assert!(
                said.contains("Download it again") || said.contains("talaria decrypt"),
                "{said}"
            );
        }
    }
}

/// No option raises the limit.
#[test]
fn a_message_with_too_many_signatures_is_refused_by_name() {
    let Some(site) = Site::new() else { return };
    site.sign("alice", &["-b"], "doc", "one");
    site.write("many", site.read("one").repeat(1000));
    let (_, said) = site.status(&["verify", "many", "doc"], 0);
    assert_eq!(said.matches("Good signature").count(), 1000);
    site.write("many", site.read("one").repeat(1001));
    let (_, said) = site.status(&["verify", "many", "doc"], 3);
    assert!(said.contains("more than 1000 signatures") && !said.contains("--max"), "{said}");
}

/// A session key that unwraps to nothing made Sequoia panic: exit status 101.
#[test]
fn an_empty_wrapped_session_key_is_as_wrong_as_any_other() {
    use talaria::message::openpgp::crypto::SessionKey;
    use talaria::message::openpgp::packet::PKESK;
    use talaria::message::openpgp::packet::pkesk::PKESK3;
    use talaria::message::openpgp::serialize::MarshalInto as _;
    let Some(site) = Site::new() else { return };
    let certs = talaria::message::read_certs(&site.read("certs")).unwrap();
    let cert = certs.into_iter().map(Result::unwrap).next().unwrap();
    let key = cert.keys().find(|key| key.key().pk_algo().for_encryption()).unwrap();
    let said = |content: &[u8]| {
        let sealed = key.key().encrypt(&SessionKey::from(content)).unwrap();
        let packet = PKESK3::new(Some(key.key().keyid()), key.key().pk_algo(), sealed).unwrap();
        let packet = talaria::message::openpgp::Packet::from(PKESK::V3(packet)).to_vec().unwrap();
        site.write("message", [&packet[..], &[0xd2, 60, 1], &[7; 59]].concat());
        let (out, said) = site.status(&["decrypt", "--key-file", "secret", "message"], 3);
        assert!(out.is_empty());
        said
    };
    let wrong = said(&[9; 35]);
    assert!(wrong.contains("your key cannot decrypt the message"), "{wrong}");
    assert_eq!(said(b""), wrong);
}

#[test]
fn a_bad_signature_after_a_good_one_is_reported() {
    let Some(site) = Site::new() else { return };
    site.write("other", "something else\n");
    for (armor, suffix) in [(&["-b", "-a"][..], "asc"), (&["-b"], "sig")] {
        site.sign("alice", armor, "doc", "good");
        site.sign("mallory", armor, "doc", "second");
        site.sign("alice", armor, "other", "bad");
        for (parts, status) in [
            (["good", "second"], 0),
            (["good", "bad"], 1),
            (["bad", "good"], 1),
            (["second", "bad"], 1),
        ] {
            let name = format!("{}-{}.{suffix}", parts[0], parts[1]);
            site.write(&name, parts.map(|part| site.read(part)).concat());
            let theirs = site.gpg(&["--verify", &name, "doc"]);
            assert_eq!(theirs.status.code(), Some(status), "gpg, {name}");
            let (_, said) = site.status(&["verify", "--signature", &name, "doc"], status);
            let signatures = said.lines().filter(|line| line.contains("signature from")).count();
            assert_eq!(signatures, 2, "{name}: {said}");
        }
        // With Alice expected, her good signature is enough, and the bad one is reported.
        let name = format!("good-bad.{suffix}");
        let expected = ["verify", "--signer", &site.alice, "--signature", &name, "doc"];
        let (_, said) = site.status(&expected, 0);
        assert!(said.contains("BAD signature"), "{said}");
    }
}

#[test]
fn all_outputs_report_a_bad_signature_beside_a_good_one() {
    let Some(site) = Site::new() else { return };
    site.sign("alice", &["-s", "--compress-algo", "none"], "doc", "inline");
    // The packets of a good message, wrapped in a one-pass signature by Mallory over other data.
    site.write("other", "something else\n");
    site.sign("mallory", &["-s", "--compress-algo", "none"], "other", "other-inline");
    let packets = |name: &str| split(&site.read(name));
    let ([announced, literal, signature], [around, _, bad]) =
        (packets("inline"), packets("other-inline"));
    // The outer one-pass signature is not marked as the last one.
    let mut around = around;
    let last = around.len() - 1;
    around[last] = 0;
    let both = [around, announced, literal, signature, bad].concat();
    site.write("both", &both);
    site.seal_packets(&both, "sealed");
    assert_eq!(site.gpg(&["--verify", "both"]).status.code(), Some(1));
    let bad = |said: &str| {
        assert!(said.contains("Good signature from alice@example.org"), "{said}");
        assert!(said.contains("BAD signature from mallory@evil.example"), "{said}");
        assert!(said.contains("Not accepted: a signature is bad (signatures: 1 good, 1 bad)"));
    };
    let (out, said) = site.status(&["verify", "-o", "-", "both"], 1);
    assert!(out.is_empty());
    bad(&said);
    let (out, said) = site.status(&["decrypt", "both"], 1);
    assert!(out.is_empty());
    bad(&said);
    let decrypt = ["decrypt", "--passphrase-file", "pw", "--overwrite", "-o", "out", "sealed"];
    let (_, said) = site.status(&decrypt, 1);
    bad(&said);
    assert!(!site.has("out"), "a file with a bad signature is left");
    let (json, _) = site.status(&[&["--json"], &decrypt[..]].concat(), 1);
    let json = String::from_utf8(json).unwrap();
    assert!(json.contains(r#""accepted":false"#), "{json}");
    let (json, _) = site.status(&["--json", "verify", "both"], 1);
    let json = String::from_utf8(json).unwrap();
    let outcome = json.lines().filter(|line| line.contains(r#""outcome":"bad""#)).count();
    assert!(outcome == 1 && json.contains(r#""accepted":false"#), "{json}");
}

/// The three packets of a message signed by gpg, without compression.
fn split(message: &[u8]) -> [Vec<u8>; 3] {
    let mut rest = message;
    let mut packets = Vec::new();
    while !rest.is_empty() {
        let packet = talaria::cert::first_packet(rest).unwrap();
        let length = packet.body.as_ptr_range().end as usize - rest.as_ptr() as usize;
        packets.push(rest[..length].to_vec());
        rest = &rest[length..];
    }
    packets.try_into().unwrap()
}

#[test]
fn nothing_is_written_without_the_expected_signer() {
    let Some(site) = Site::new() else { return };
    // An address names her only because she is confirmed.
    site.program.ok(&["trust", "set", &site.alice, "ultimate"]);
    // More than fits into the memory buffer.
    site.write("large", vec![b'x'; 20 << 20]);
    for (file, who) in [("doc", "alice"), ("doc", "mallory"), ("large", "mallory")] {
        let to = |form: &str| format!("{form}-{file}-{who}");
        site.sign(who, &["-s", "--compress-algo", "none"], file, &to("inline"));
        site.gpg_ok(&["-o", &to("sealed"), "-u", who, "-r", "alice", "-se", file]);
    }
    site.sign("alice", &["--clearsign"], "doc", "clear-doc-alice");
    site.sign("mallory", &["--clearsign"], "doc", "clear-doc-mallory");
    site.gpg_ok(&["-o", "sealed-doc-nobody", "-r", "alice", "-e", "doc"]);
    let alice = [&site.alice[..], "<alice@example.org>", &site.alice[24..]];
    for (name, expected) in [
        ("inline-doc-alice", true),
        ("clear-doc-alice", true),
        ("sealed-doc-alice", true),
        ("inline-doc-mallory", false),
        ("inline-large-mallory", false),
        ("clear-doc-mallory", false),
        ("sealed-doc-mallory", false),
        ("sealed-large-mallory", false),
        ("sealed-doc-nobody", false),
    ] {
        let status = i32::from(!expected);
        for signer in alice {
            let decrypt = ["decrypt", "--key-file", "secret", "--signer", signer];
            let (out, said) = site.status(&[&decrypt[..], &[name]].concat(), status);
            let content = if name.starts_with("clear") { SIGNED } else { TEXT };
            assert_eq!(out, if expected { content } else { "" }.as_bytes(), "{name}: {said}");
            site.status(&[&decrypt[..], &["--overwrite", "-o", "out", name]].concat(), status);
            assert_eq!(site.has("out"), expected, "{name}");
            let _ = fs::remove_file(site.program.path("out"));
            if !name.starts_with("sealed") {
                let verify = ["verify", "--signer", signer];
                let (out, _) = site.status(&[&verify[..], &["-o", "-", name]].concat(), status);
                assert_eq!(out.is_empty(), !expected, "{name}");
                let (_, _) = site
                    .status(&[&verify[..], &["--overwrite", "-o", "out", name]].concat(), status);
                assert_eq!(site.has("out"), expected, "{name}");
                let _ = fs::remove_file(site.program.path("out"));
            }
        }
        // Without the option, gpg and talaria accept any signer of the keyring.
        site.gpg_ok(&["-o", "theirs", "-d", name]);
        let (_, _) =
            site.status(&["decrypt", "--key-file", "secret", "--overwrite", "-o", "out", name], 0);
        assert_eq!(site.text("out").trim_end(), site.text("theirs").trim_end(), "{name}");
        fs::remove_file(site.program.path("out")).unwrap();
    }
    // Both signers are required, and one has signed.
    let both =
        ["decrypt", "--key-file", "secret", "--signer", &site.alice, "--signer", &site.mallory];
    let lines = [&both[..], &["--status-fd", "2", "sealed-doc-alice"]].concat();
    let (out, said) = site.status(&lines, 1);
    assert!(out.is_empty() && said.contains(&format!("ASSERT_SIGNER {}", site.alice)), "{said}");
    assert!(!said.contains(&format!("ASSERT_SIGNER {}", site.mallory)), "{said}");
    assert!(said.contains("Not accepted: there is no good signature from"), "{said}");
    let (_, said) =
        site.status(&["verify", "--signer", "nobody@example.org", "clear-doc-alice"], 1);
    assert!(said.contains("nobody@example.org"), "{said}");
    // A detached signature by another signer.
    site.sign("mallory", &["-b"], "doc", "doc.sig");
    site.status(&["verify", "--signer", &site.alice, "doc.sig"], 1);
    site.status(&["verify", "--signer", &site.mallory, "doc.sig"], 0);
}

#[test]
fn a_closed_output_pipe_makes_decryption_fail() {
    let Some(site) = Site::new() else { return };
    site.write("large", vec![b'x'; 20 << 20]);
    let symmetric = ["encrypt", "--symmetric", "--passphrase-file", "pw"];
    for profile in ["rfc9580", "rfc4880"] {
        site.status(
            &[&symmetric[..], &["--profile", profile, "--overwrite", "-o", profile, "large"]]
                .concat(),
            0,
        );
    }
    let mut damaged = site.read("rfc9580");
    let at = damaged.len() - 100;
    damaged[at] ^= 1;
    site.write("damaged", damaged);
    site.sign("alice", &["-s"], "large", "signed");
    let stopped = |mut command: Command| {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut some = [0; 20];
        child.stdout.take().unwrap().read_exact(&mut some).unwrap();
        child.wait().unwrap().code().unwrap()
    };
    for name in ["rfc9580", "rfc4880", "damaged"] {
        let decrypt = ["decrypt", "--passphrase-file", "pw", name];
        assert_eq!(stopped(site.command(&decrypt)), 5, "{name}");
    }
    assert_eq!(stopped(site.command(&["decrypt", "signed"])), 5);
    assert_eq!(stopped(site.command(&["verify", "-o", "-", "signed"])), 5);
    let mut gpg = Command::new("gpg");
    gpg.args(["--batch", "--quiet", "-d", "signed"]).current_dir(site.program.path(""));
    gpg.env("GNUPGHOME", site.program.path("gpg"));
    assert_eq!(stopped(gpg), 2, "gpg's status of any error");
}

#[test]
fn a_signed_text_may_have_only_hash_headers() {
    let Some(site) = Site::new() else { return };
    site.sign("alice", &["--digest-algo", "SHA512", "--clearsign"], "doc", "clear");
    let clear = site.text("clear");
    assert!(clear.contains("Hash: SHA512\n"), "{clear}");
    // The exit statuses of gpg and talaria.
    for (header, gpg, talaria) in [
        ("Hash: SHA512", 0, 0),
        ("Hash: SHA256, SHA512", 0, 0),
        ("Hash: SHA256,SHA512", 0, 0),
        ("Hash: PLEASE READ: the amount below is 1000 euro", 2, 3),
        ("Hash: SHA512 and pay 1000 euro", 2, 3),
        ("Hash: sha512", 2, 3),
        ("Hash:", 2, 3),
        ("Comment: pay 1000 euro", 2, 3),
        ("Version: 1000 euro", 2, 3),
        ("pay bob 1000 euro", 2, 3),
        // The digest is in RFC 9580, and gpg 2.2 does not support it.
        ("Hash: SHA3-512\nHash: SHA512", 2, 0),
    ] {
        site.write("changed", clear.replace("Hash: SHA512", header));
        assert_eq!(site.gpg(&["--verify", "changed"]).status.code(), Some(gpg), "{header}");
        let (out, _) = site.status(&["verify", "-o", "-", "changed"], talaria);
        assert_eq!(out.is_empty(), talaria != 0, "{header}");
    }
}

#[test]
fn decrypt_writes_exactly_the_signed_text() {
    let Some(site) = Site::new() else { return };
    site.sign("alice", &["--clearsign"], "doc", "clear");
    for white in ["   \t", " ", "\t\t", "\r", " \r"] {
        site.write("padded", site.text("clear").replace("euro", &format!("euro{white}")));
        // gpg keeps a carriage return as part of the line end.
        let theirs = String::from_utf8(site.gpg_ok(&["-d", "padded"])).unwrap();
        assert_eq!(theirs.replace("\r\n", "\n"), TEXT, "gpg, {white:?}");
        let (ours, _) = site.status(&["verify", "-o", "-", "padded"], 0);
        assert_eq!(ours, SIGNED.as_bytes(), "{white:?}");
    }
    // This white space is not ASCII, so it is signed.
    site.write("padded", site.text("clear").replace("euro", "euro\u{b}"));
    assert_eq!(site.gpg(&["--verify", "padded"]).status.code(), Some(1));
    site.status(&["verify", "padded"], 1);
}

#[test]
fn text_around_a_message_is_reported_and_a_second_message_refused() {
    let Some(site) = Site::new() else { return };
    site.write("other", "pay bob 1000 euro\n");
    site.sign("alice", &["--clearsign"], "doc", "clear");
    site.sign("mallory", &["--clearsign"], "other", "second");
    site.sign("alice", &["-s", "-a"], "doc", "inline");
    let parts = |name: &str| (site.text(name), site.text("second").replace("1000", "9999"));
    for name in ["clear", "inline"] {
        let (text, forged) = parts(name);
        site.write("around", format!("Pay 1000.\n\n{text}\nAnd 1000 more.\n"));
        assert_eq!(site.gpg_ok(&["-d", "around"]), TEXT.as_bytes());
        let (ours, said) = site.status(&["verify", "-o", "-", "around"], 0);
        assert_eq!(ours, if name == "clear" { SIGNED } else { TEXT }.as_bytes());
        assert!(said.contains("23 bytes around the signed message are not signed"), "{said}");
        for (second, what) in [(site.text("second"), "good"), (forged, "forged")] {
            site.write("two", format!("{text}\n{second}"));
            let (ours, said) = site.status(&["verify", "-o", "-", "two"], 3);
            assert!(ours.is_empty() && said.contains("another armored block"), "{what}: {said}");
        }
    }
    // gpg also stops after the first text.
    site.write("two", format!("{}{}", site.text("clear"), site.text("second")));
    assert_eq!(site.gpg(&["-d", "two"]).status.code(), Some(2));
}
