//! A GnuPG home directory to make keys and signatures in, and both programs on the same files.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The program that is tested.
pub(crate) const OURS: &str = env!("CARGO_BIN_EXE_talaria-gpgv");

/// A text that gpgv writes about every keybox, since it asks for a lock that it has disabled
/// itself. We take no lock.
const LOCK: &str = "gpgv: can't allocate lock for ";

/// The results of a program.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct Ran {
    /// The exit status.
    pub(crate) code: i32,
    /// The standard output.
    pub(crate) out: Vec<u8>,
    /// The texts for people.
    pub(crate) err: String,
    /// The status lines.
    pub(crate) status: String,
    /// The file of the option `--output`, if there is one.
    pub(crate) file: Option<Vec<u8>>,
}

/// A folder with files, and a GnuPG home directory in it.
pub(crate) struct Desk {
    folder: tempfile::TempDir,
    gpg: PathBuf,
    gpgv: PathBuf,
}

impl Desk {
    /// A folder, if both GnuPG's programs are there.
    pub(crate) fn new() -> Option<Self> {
        let gpg = talaria_needs::found(talaria_needs::peer("gpg"), "gpg")?;
        let gpgv = talaria_needs::found(talaria_needs::peer("gpgv"), "gpgv")?;
        let said = Command::new(&gpgv).arg("--version").output().unwrap();
        // The texts and the status lines that are compared are those of 2.2.
        if !String::from_utf8_lossy(&said.stdout).starts_with("gpgv (GnuPG) 2.2.") {
            talaria_needs::left_out("gpgv");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("home");
        fs::create_dir(&home).unwrap();
        #[cfg(unix)]
        fs::set_permissions(&home, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        Some(Self { folder, gpg, gpgv })
    }

    /// A folder with the key of Alice (Ed25519), her certificate in `keys.gpg`, data in `data`, and
    /// its detached signature in `data.sig`.
    pub(crate) fn with_alice() -> Option<Self> {
        let desk = Self::new()?;
        desk.make_key("Alice <alice@example.org>", "ed25519");
        desk.put("data", (0..4096_u32).map(|at| (at * 7 % 251) as u8).collect::<Vec<_>>());
        desk.gpg(&["-u", "alice", "-b", "-o", "data.sig", "data"]);
        desk.export("keys.gpg");
        Some(desk)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The absolute path of a file as text.
    pub(crate) fn at(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    pub(crate) fn put(&self, name: &str, content: impl AsRef<[u8]>) {
        fs::write(self.path(name), content).unwrap();
    }

    pub(crate) fn get(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }

    /// Makes a key that signs and certifies.
    pub(crate) fn make_key(&self, user_id: &str, algorithm: &str) {
        self.gpg(&["--quick-gen-key", user_id, algorithm, "sign,cert", "never"]);
    }

    /// Writes all certificates of the home directory as a keyring.
    pub(crate) fn export(&self, name: &str) {
        self.gpg(&["--yes", "-o", name, "--export"]);
    }

    /// The fingerprint of the first key that a name stands for.
    pub(crate) fn fingerprint(&self, name: &str) -> String {
        let listed = self.gpg(&["--with-colons", "--list-keys", name]);
        let listed = String::from_utf8(listed).unwrap();
        let line = listed.lines().find(|line| line.starts_with("fpr:")).unwrap();
        line.split(':').nth(9).unwrap().to_owned()
    }

    /// Runs gpg.
    #[track_caller]
    pub(crate) fn gpg(&self, arguments: &[&str]) -> Vec<u8> {
        self.gpg_with(arguments, b"")
    }

    /// Runs gpg with an input.
    #[track_caller]
    pub(crate) fn gpg_with(&self, arguments: &[&str], input: &[u8]) -> Vec<u8> {
        let always = ["--batch", "-q", "--no-tty", "--pinentry-mode=loopback", "--passphrase="];
        let (code, out, err) = self.run(&self.gpg, &[&always, arguments].concat(), input);
        assert_eq!(code, 0, "gpg {arguments:?}: {}", String::from_utf8_lossy(&err));
        out
    }

    fn run(&self, program: &Path, arguments: &[&str], input: &[u8]) -> (i32, Vec<u8>, Vec<u8>) {
        let mut child = Command::new(program)
            .args(arguments)
            .current_dir(self.folder.path())
            .env("GNUPGHOME", self.path("home"))
            .env("LC_ALL", "C.UTF-8")
            .env("TZ", "UTC")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_vec();
        // A program may not read all of its input.
        let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap();
        (output.status.code().unwrap_or(-1), output.stdout, output.stderr)
    }

    /// Runs one of the programs. A shell opens the descriptor 3 for the status lines.
    fn one(&self, program: &Path, arguments: &[&str], input: &[u8]) -> Ran {
        let _ = fs::remove_file(self.path("output"));
        let program = program.to_str().unwrap();
        let script = ["-c", "exec \"$0\" \"$@\" 3>status", program];
        let (code, out, err) = self.run("/bin/sh".as_ref(), &[&script, arguments].concat(), input);
        let err = String::from_utf8_lossy(&err);
        let err = err.split_inclusive('\n').filter(|line| !line.starts_with(LOCK)).collect();
        let status = String::from_utf8_lossy(&self.get("status")).into_owned();
        let file = fs::read(self.path("output")).ok();
        Ran { code, out, err, status, file }
    }

    /// Runs ours.
    pub(crate) fn ours(&self, arguments: &[&str], input: &[u8]) -> Ran {
        self.one(OURS.as_ref(), arguments, input)
    }

    /// Runs gpgv.
    pub(crate) fn theirs(&self, arguments: &[&str], input: &[u8]) -> Ran {
        self.one(&self.gpgv, arguments, input)
    }

    /// Runs both with an input, and compares all results. Returns them.
    #[track_caller]
    pub(crate) fn same_with(&self, arguments: &[&str], input: &[u8]) -> Ran {
        let theirs = self.theirs(arguments, input);
        let ours = self.ours(arguments, input);
        assert_eq!(ours, theirs, "ours on the left: gpgv {arguments:?}");
        ours
    }

    /// Runs both with `--status-fd 3` and compares all results.
    #[track_caller]
    pub(crate) fn same(&self, line: &str) -> Ran {
        let words: Vec<&str> = line.split_whitespace().collect();
        self.same_with(&[&["--status-fd", "3"], &words[..]].concat(), b"")
    }

    /// As [`Self::same`], with the exit status.
    #[track_caller]
    pub(crate) fn same_as(&self, code: i32, line: &str) -> Ran {
        let ran = self.same(line);
        assert_eq!(ran.code, code, "gpgv {line}: {}", ran.err);
        ran
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        if let Some(gpgconf) = talaria_needs::peer("gpgconf") {
            self.run(&gpgconf, &["--kill", "all"], b"");
        }
    }
}
