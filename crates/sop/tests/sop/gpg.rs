//! Exchange with GnuPG in both directions, in the formats of RFC 4880.

use crate::common::{Desk, peer};

/// GnuPG whose home directory is the test folder.
struct Gpg {
    desk: Desk,
    program: String,
}

impl Gpg {
    fn new() -> Option<Self> {
        let program = talaria_needs::found(peer("gpg"), "gpg")?;
        Some(Self { desk: Desk::new(), program })
    }

    fn run(&self, line: &str, input: &[u8]) -> Vec<u8> {
        let quiet = ["--batch", "--quiet", "--no-tty", "--pinentry-mode=loopback", "--passphrase="];
        let arguments: Vec<&str> = quiet.into_iter().chain(line.split_whitespace()).collect();
        let ran = self.desk.run(&self.program, &arguments, input);
        assert_eq!(ran.code, 0, "gpg {line}: {}", ran.err);
        ran.out
    }
}

impl Drop for Gpg {
    fn drop(&mut self) {
        if let Some(gpgconf) = peer("gpgconf") {
            self.desk.run(&gpgconf, &["--kill", "all"], "");
        }
    }
}

fn long() -> Vec<u8> {
    (0..700_000u32).map(|at| at.wrapping_mul(2_654_435_761).to_be_bytes()[1]).collect()
}

#[test]
fn gpg_reads_the_output_of_talaria_sop() {
    let Some(gpg) = Gpg::new() else { return };
    let desk = &gpg.desk;
    desk.party("ours", "rfc4880");
    gpg.run("--import ours.key", b"");
    let listed = String::from_utf8(gpg.run("--with-colons --list-keys", b"")).unwrap();
    assert!(listed.contains(":ours <ours@example.org>:"), "{listed}");
    desk.put("password", "correct horse");

    let sealed = desk.sop("encrypt --profile rfc4880 --sign-with ours.key ours.cert", long()).ok();
    assert!(gpg.run("--decrypt", &sealed) == long());
    // Without a profile, too: our keys for old programs announce only features of RFC 4880.
    let sealed = desk.sop("encrypt ours.cert", long()).ok();
    assert!(gpg.run("--decrypt", &sealed) == long());
    let sealed = desk.sop("encrypt --profile rfc4880 --with-password password", long()).ok();
    assert!(gpg.run("--passphrase-file password --decrypt", &sealed) == long());

    desk.put("data", long());
    desk.put("sig", desk.sop("sign ours.key", long()).ok());
    gpg.run("--verify sig data", b"");
    desk.put("text", "one\r\ntwo\n");
    desk.put("sig", desk.sop("sign --as=text ours.key", "one\ntwo\n").ok());
    gpg.run("--verify sig text", b"");
    let signed = desk.sop("inline-sign ours.key", "one\n- two\n").ok();
    assert_eq!(gpg.run("--decrypt", &signed), b"one\n- two\n");
    // GnuPG writes line ends of text messages unchanged; they should be CRLF.
    let signed = desk.sop("inline-sign --as=text ours.key", "one\r\n- two\r\n").ok();
    assert_eq!(gpg.run("--decrypt", &signed), b"one\n- two\n");
    let signed = desk.sop("inline-sign --as=clearsigned ours.key", "one\n- two").ok();
    assert_eq!(gpg.run("--decrypt", &signed), b"one\n- two\n");
    gpg.run("--import", &desk.sop("revoke-key", desk.get("ours.key")).ok());
    let listed = String::from_utf8(gpg.run("--with-colons --list-keys", b"")).unwrap();
    assert!(listed.contains("\npub:r:"), "{listed}");
}

#[test]
fn gpg_unlocks_keys_of_talaria_sop() {
    let Some(gpg) = Gpg::new() else { return };
    let desk = &gpg.desk;
    desk.put("password", "correct horse");
    let line = "generate-key --profile rfc4880 --with-key-password password a@example.org";
    let key = desk.sop(line, "").ok();
    desk.put("cert", desk.sop("extract-cert", &key).ok());
    gpg.run("--passphrase-file password --import", &key);
    let sealed = desk.sop("encrypt cert", "text").ok();
    assert_eq!(gpg.run("--passphrase-file password --decrypt", &sealed), b"text");
}

#[test]
fn talaria_sop_reads_the_output_of_gpg() {
    let Some(gpg) = Gpg::new() else { return };
    let desk = &gpg.desk;
    gpg.run("--quick-gen-key theirs@example.org default default never", b"");
    desk.put("theirs.key", gpg.run("--export-secret-keys --armor", b""));
    desk.put("theirs.cert", gpg.run("--export --armor", b""));
    assert_eq!(
        desk.sop("extract-cert", desk.get("theirs.key")).ok(),
        desk.sop("merge-certs", desk.get("theirs.cert")).ok()
    );
    let to = "--trust-model always --recipient theirs@example.org";
    desk.put("password", "correct horse");
    for options in ["", "--armor"] {
        let sealed = gpg.run(&format!("{options} {to} --sign --encrypt"), &long());
        let verify = "--verify-with theirs.cert --verifications-out verified";
        assert!(desk.sop(&format!("decrypt {verify} theirs.key"), &sealed).ok() == long());
        assert_eq!(String::from_utf8(desk.get("verified")).unwrap().lines().count(), 1);
        std::fs::remove_file(desk.path().join("verified")).unwrap();
        let sealed = gpg.run(&format!("{options} --passphrase-file password --symmetric"), &long());
        assert!(desk.sop("decrypt --with-password password", &sealed).ok() == long());
        desk.put("sig", gpg.run(&format!("{options} --detach-sign"), &long()));
        desk.sop("verify sig theirs.cert", long()).ok();
        let signed = gpg.run(&format!("{options} --sign"), &long());
        assert!(desk.sop("inline-verify theirs.cert", signed).ok() == long());
    }
    let signed = gpg.run("--clear-sign", b"one\n- two\n");
    assert_eq!(desk.sop("inline-verify theirs.cert", signed).ok(), b"one\n- two");
}

#[test]
fn update_key_modernises_an_old_key_of_gpg() {
    let Some(gpg) = Gpg::new() else { return };
    let desk = &gpg.desk;
    // The key is expired, and its self-signatures have an outdated digest.
    let then = "--faked-system-time 20150101T000000! --cert-digest-algo SHA1";
    gpg.run(&format!("{then} --quick-gen-key theirs@example.org rsa2048 default 1y"), b"");
    gpg.run(&format!("{then} --quick-add-uid theirs@example.org second@example.org"), b"");
    desk.put("old.key", gpg.run("--export-secret-keys", b""));
    desk.put("old.cert", desk.sop("extract-cert", desk.get("old.key")).ok());
    desk.sop("encrypt old.cert", "text").fails(17);
    desk.sop("sign old.key", "text").fails(79);
    let updated = desk.sop("update-key --no-armor", desk.get("old.key")).ok();
    desk.put("new.key", &updated);
    desk.put("new.cert", desk.sop("extract-cert", &updated).ok());
    let sealed = desk.sop("encrypt --sign-with new.key new.cert", "text").ok();
    let verify = "--verify-with new.cert --verifications-out verified";
    assert_eq!(desk.sop(&format!("decrypt {verify} new.key"), &sealed).ok(), b"text");
    assert_ne!(desk.get("verified"), b"");
    assert_eq!(desk.sop("update-key --no-armor", &updated).ok(), updated);
    gpg.run("--import new.cert", b"");
    let listed = String::from_utf8(gpg.run("--with-colons --list-keys", b"")).unwrap();
    assert_eq!(listed.matches("\nuid:u:").count(), 2, "{listed}");
}
