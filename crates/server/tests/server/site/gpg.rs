//! GnuPG and sq, for tests that ask them about certificates of a server.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// GnuPG with its own home directory.
pub(crate) struct Gpg {
    home: tempfile::TempDir,
}

impl Gpg {
    pub(crate) fn new() -> Self {
        let home = tempfile::Builder::new().prefix("g").tempdir().unwrap();
        Self { home }
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> String {
        let out = Command::new("gpg")
            .env("GNUPGHOME", self.home.path())
            .args([
                "--batch",
                "--quiet",
                "--yes",
                "--passphrase",
                "",
                "--pinentry-mode",
                "loopback",
            ])
            .args(arguments)
            .output()
            .unwrap();
        assert!(out.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    }

    /// The fingerprint of a key.
    pub(crate) fn fingerprint(&self, name: &str) -> String {
        let listing = self.run(&["--with-colons", "--list-keys", name]);
        let fingerprint = listing.lines().find_map(|line| line.strip_prefix("fpr:::::::::"));
        fingerprint.unwrap().trim_end_matches(':').to_owned()
    }

    pub(crate) fn path(&self) -> &Path {
        self.home.path()
    }
}

impl Drop for Gpg {
    fn drop(&mut self) {
        let _ = Command::new("gpgconf")
            .env("GNUPGHOME", self.home.path())
            .args(["--kill", "all"])
            .status();
    }
}

/// Imports certificates into GnuPG, and returns its listing with colons. `None` if it is not
/// installed.
pub(crate) fn gpg(home: &Path, certs: &[u8]) -> Option<String> {
    imported(Path::new("gpg"), home, certs)
}

/// As [`gpg`], with GnuPG 2.4, which `scripts/gnupg-2.4` puts beside the installed one.
pub(crate) fn newer_gpg(home: &Path, certs: &[u8]) -> Option<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    imported(&root.join("target/peers/gnupg-2.4/gpg"), home, certs)
}

fn imported(program: &Path, home: &Path, certs: &[u8]) -> Option<String> {
    let gpg = || {
        let mut gpg = Command::new(program);
        gpg.args(["--batch", "--no-tty", "--no-auto-check-trustdb", "--homedir"]).arg(home);
        gpg
    };
    let child = gpg()
        .arg("--import")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut child) = child else {
        talaria_needs::left_out(if program.is_absolute() { "gpg 2.4" } else { "gpg" });
        return None;
    };
    child.stdin.take().unwrap().write_all(certs).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    // Version 2.4 also fails if it does not have the key of a revoker.
    let is_without_revoker = said.contains("can't apply revocation certificate");
    let is_imported = is_without_revoker && said.contains("imported: ");
    assert!(output.status.success() || is_imported, "{said}");
    let listing = gpg().args(["--with-colons", "--list-keys"]).output().unwrap();
    Some(String::from_utf8(listing.stdout).unwrap())
}

/// A home directory that gpg accepts.
pub(crate) fn home() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("gpg").tempdir_in("/tmp").unwrap()
}

/// Checks that sq reads the certificates, if it is installed.
pub(crate) fn assert_sq_reads(certs: &[u8]) {
    let mut sq = Command::new("sq");
    sq.args(["inspect"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let Ok(mut child) = sq.spawn() else {
        talaria_needs::left_out("sq");
        return;
    };
    child.stdin.take().unwrap().write_all(certs).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
