//! GnuPG, for tests that ask it about certificates of a server.

use std::path::Path;

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
        let out = std::process::Command::new("gpg")
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

    pub(crate) fn path(&self) -> &Path {
        self.home.path()
    }
}

impl Drop for Gpg {
    fn drop(&mut self) {
        let _ = std::process::Command::new("gpgconf")
            .env("GNUPGHOME", self.home.path())
            .args(["--kill", "all"])
            .status();
    }
}
