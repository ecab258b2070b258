//! A GnuPG home directory to make keys and signatures in, and both programs on the same files.

use std::cell::Cell;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The programs that are tested.
pub(crate) const OURS: &str = env!("CARGO_BIN_EXE_talaria-gpgv");
pub(crate) const OUR_GPG: &str = env!("CARGO_BIN_EXE_talaria-gpg");

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
    /// gpg has computed the trust database since the last change.
    is_fresh: Cell<bool>,
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
        Some(Self { folder, gpg, gpgv, is_fresh: Cell::new(false) })
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
        self.is_fresh.set(false);
        let (code, out, err) = self.run(&self.gpg, &[&always, arguments].concat(), input);
        assert_eq!(code, 0, "gpg {arguments:?}: {}", String::from_utf8_lossy(&err));
        out
    }

    fn run(&self, program: &Path, arguments: &[&str], input: &[u8]) -> (i32, Vec<u8>, Vec<u8>) {
        self.run_with(&[], program, arguments, input)
    }

    /// Runs a program with variables in its environment.
    pub(crate) fn run_with(
        &self,
        variables: &[(&str, &str)],
        program: &Path,
        arguments: &[&str],
        input: &[u8],
    ) -> (i32, Vec<u8>, Vec<u8>) {
        let mut child = Command::new(program)
            .args(arguments)
            .current_dir(self.folder.path())
            .env("GNUPGHOME", self.path("home"))
            .env("LC_ALL", "C.UTF-8")
            .env("TZ", "UTC")
            .envs(variables.iter().copied())
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
        self.one_with(&[], program, arguments, input)
    }

    fn one_with(
        &self,
        variables: &[(&str, &str)],
        program: &Path,
        arguments: &[&str],
        input: &[u8],
    ) -> Ran {
        let _ = fs::remove_file(self.path("output"));
        let program = program.to_str().unwrap();
        let script = ["-c", "exec \"$0\" \"$@\" 3>status", program];
        let line = [&script, arguments].concat();
        let (code, out, err) = self.run_with(variables, "/bin/sh".as_ref(), &line, input);
        let err = String::from_utf8_lossy(&err);
        let is_kept = |line: &&str| {
            // gpg makes files in a home directory, and says so. We do not.
            let is_made = line.starts_with("gpg: ") && line.ends_with(" created\n");
            !line.starts_with(LOCK) && !is_made
        };
        let err = err.split_inclusive('\n').filter(is_kept).collect();
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

    /// The variable by which our gpg finds no other one.
    pub(crate) fn alone(&self) -> String {
        let id = |path: &Path| {
            let meta = fs::metadata(path).ok()?;
            use std::os::unix::fs::MetadataExt as _;
            Some(format!("{}:{}", meta.dev(), meta.ino()))
        };
        let all = ["/usr/bin/gpg".as_ref(), self.gpg.as_path()];
        let in_path = std::env::var_os("PATH").unwrap_or_default();
        let in_path = std::env::split_paths(&in_path).map(|folder| folder.join("gpg"));
        let all = all.into_iter().map(Path::to_owned).chain(in_path);
        all.filter_map(|path| id(&path)).collect::<Vec<_>>().join(",")
    }

    /// Runs our gpg, which hands nothing over.
    pub(crate) fn our_gpg(&self, arguments: &[&str], input: &[u8]) -> Ran {
        let variables = [("TALARIA_GPG_TRIED", &*self.alone())];
        self.one_with(&variables, OUR_GPG.as_ref(), arguments, input)
    }

    /// Makes sure that our gpg hands a line over, and writes nothing.
    #[track_caller]
    pub(crate) fn handed_over(&self, line: &str) {
        let ran = self.our_gpg(&line.split(' ').collect::<Vec<_>>(), b"");
        assert_eq!((ran.code, &ran.out[..]), (2, &b""[..]), "{line}: {}", ran.err);
        assert!(ran.err.contains("no GnuPG to hand it over to"), "{line}: {}", ran.err);
    }

    /// Runs our gpg, which may hand over.
    pub(crate) fn our_gpg_or_theirs(&self, arguments: &[&str], input: &[u8]) -> Ran {
        self.one(OUR_GPG.as_ref(), arguments, input)
    }

    /// Runs the real gpg.
    pub(crate) fn their_gpg(&self, arguments: &[&str], input: &[u8]) -> Ran {
        self.one(&self.gpg, arguments, input)
    }

    /// Runs both gpgs with an input, and compares all results. Returns them.
    #[track_caller]
    pub(crate) fn same_gpg_with(&self, arguments: &[&str], input: &[u8]) -> Ran {
        self.refresh();
        let theirs = self.their_gpg(arguments, input);
        let ours = self.our_gpg(arguments, input);
        compare(&ours, &theirs, &format!("gpg {arguments:?}"));
        ours
    }

    /// Runs both gpgs with `--status-fd 3` and compares all results.
    #[track_caller]
    pub(crate) fn same_gpg(&self, code: i32, line: &str) -> Ran {
        let words: Vec<&str> = line.split_whitespace().collect();
        let ran = self.same_gpg_with(&[&["--status-fd", "3"], &words[..]].concat(), b"");
        assert_eq!(ran.code, code, "gpg {line}: {}", ran.err);
        ran
    }

    /// Compares both gpgs on a command line for gpgv, if they have all of its options.
    #[track_caller]
    fn same_as_gpg(&self, arguments: &[&str], input: &[u8]) {
        const GPGV_ONLY: [&str; 4] = ["--debug", "--log-file", "--dump", "nonsense"];
        let has_keyring = arguments.iter().any(|word| word.starts_with("--keyring"));
        let is_gpgv_only = |word: &&str| GPGV_ONLY.iter().any(|option| word.starts_with(option));
        // gpg cannot live without a home directory.
        let has_no_home = arguments.contains(&"/dev/null");
        if !has_keyring || has_no_home || arguments.iter().any(is_gpgv_only) {
            return;
        }
        let line = [&["--no-default-keyring", "--verify"], arguments].concat();
        self.refresh();
        let mut theirs = self.their_gpg(&line, input);
        let ours = self.our_gpg(&line, input);
        if ours.status.is_empty() && theirs.status.starts_with("[GNUPG:] FAILURE option-parser ") {
            // Refused by us alone, without a line.
            theirs.status.clear();
        }
        compare(&ours, &theirs, &format!("gpg {line:?}"));
    }

    /// Lets gpg compute the trust database, unless it is as gpg left it.
    pub(crate) fn refresh(&self) {
        if !self.is_fresh.replace(true) {
            self.run(&self.gpg, &["--batch", "-q", "--check-trustdb"], b"");
        }
    }

    /// Runs both with an input, and compares all results. Returns them.
    #[track_caller]
    pub(crate) fn same_with(&self, arguments: &[&str], input: &[u8]) -> Ran {
        let theirs = self.theirs(arguments, input);
        let ours = self.ours(arguments, input);
        assert_eq!(ours, theirs, "ours on the left: gpgv {arguments:?}");
        self.same_as_gpg(arguments, input);
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

/// Compares results line by line.
#[track_caller]
fn compare(ours: &Ran, theirs: &Ran, line: &str) {
    let text = |ran: &Ran| {
        let out = String::from_utf8_lossy(&ran.out).into_owned();
        format!("status {}\n{}{}{out}", ran.code, ran.err, ran.status)
    };
    let (ours_text, theirs_text) = (text(ours), text(theirs));
    let lines = |text: &str| -> Vec<String> { text.lines().map(str::to_owned).collect() };
    let (a, b) = (lines(&ours_text), lines(&theirs_text));
    let first = a.iter().zip(&b).take_while(|(a, b)| a == b).count();
    let part = |all: &[String]| all[first..all.len().min(first + 12)].join("\n");
    assert!(ours == theirs, "{line}\nours:\n{}\ntheirs:\n{}", part(&a), part(&b));
}

impl Drop for Desk {
    fn drop(&mut self) {
        if let Some(gpgconf) = talaria_needs::peer("gpgconf") {
            self.run(&gpgconf, &["--kill", "all"], b"");
        }
    }
}
