//! The installed gpg with its own home directory.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

pub(crate) struct Gpg {
    program: PathBuf,
    home: tempfile::TempDir,
}

impl Gpg {
    /// `None` if gpg is not installed.
    pub(crate) fn new() -> Option<Self> {
        Self::at(talaria_needs::found(talaria_needs::peer("gpg"), "gpg")?)
    }

    /// GnuPG 2.4; `None` if `scripts/gnupg-2.4` has not put it beside the installed one.
    #[allow(dead_code, reason = "not all tests ask for it")]
    pub(crate) fn new_2_4() -> Option<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        Self::at(root.join("target/peers/gnupg-2.4/gpg"))
    }

    fn at(program: PathBuf) -> Option<Self> {
        let found =
            Command::new(&program).arg("--version").output().is_ok_and(|o| o.status.success());
        found.then(|| Self { program, home: tempfile::tempdir().unwrap() })
    }

    #[allow(dead_code, reason = "not all tests look into it")]
    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    /// The output of gpg.
    pub(crate) fn run(&self, args: &[&str]) -> Vec<u8> {
        let output = Command::new(&self.program)
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
