//! The installed gpg, in a home directory of its own.

use std::path::Path;
use std::process::Command;
use std::time::SystemTime;

pub(crate) struct Gpg {
    home: tempfile::TempDir,
}

impl Gpg {
    /// `None` if gpg is not installed.
    pub(crate) fn new() -> Option<Self> {
        let found = Command::new("gpg").arg("--version").output().is_ok_and(|o| o.status.success());
        found.then(|| Self { home: tempfile::tempdir().unwrap() })
    }

    #[allow(dead_code, reason = "not all tests look into it")]
    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    /// What gpg writes.
    pub(crate) fn run(&self, args: &[&str]) -> Vec<u8> {
        let output = Command::new("gpg")
            .arg("--homedir")
            .arg(self.home.path())
            .args(["--batch", "--no-tty", "--no-auto-check-trustdb"])
            .args(args)
            .env("LC_ALL", "C")
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "gpg {args:?}: {errors}");
        output.stdout
    }
}

/// Seconds since 1970.
pub(crate) fn now() -> u32 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    u32::try_from(now.as_secs()).unwrap()
}
