//! Programs run in their own folder, with the files of a user.
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

pub(crate) const SOP: &str = env!("CARGO_BIN_EXE_talaria-sop");

/// The result of a program.
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: Vec<u8>,
    pub(crate) err: String,
}

impl Ran {
    /// The output of a successful program.
    #[track_caller]
    pub(crate) fn ok(self) -> Vec<u8> {
        assert_eq!(self.code, 0, "{}", self.err);
        self.out
    }

    /// The same, as text.
    #[track_caller]
    pub(crate) fn text(self) -> String {
        String::from_utf8(self.ok()).unwrap()
    }

    /// Checks that the program failed with this exit code of the draft.
    #[track_caller]
    pub(crate) fn fails(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{}", self.err);
        self
    }
}

/// A folder to work in.
pub(crate) struct Desk(tempfile::TempDir);

impl Desk {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn put(&self, name: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.path().join(name), content).unwrap();
    }

    pub(crate) fn get(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path().join(name)).unwrap()
    }

    /// The same path, with the old file removed, because programs do not overwrite files.
    pub(crate) fn take(&self, name: &str) -> Vec<u8> {
        let content = self.get(name);
        std::fs::remove_file(self.path().join(name)).unwrap();
        content
    }

    /// Runs `talaria-sop`; `line` is split at white space.
    pub(crate) fn sop(&self, line: &str, input: impl AsRef<[u8]>) -> Ran {
        self.run(SOP, &line.split_whitespace().collect::<Vec<_>>(), input)
    }

    pub(crate) fn run(&self, program: &str, arguments: &[&str], input: impl AsRef<[u8]>) -> Ran {
        let mut child = Command::new(program)
            .args(arguments)
            .current_dir(self.path())
            .env("GNUPGHOME", self.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.as_ref().to_vec();
        // A failing program may not read all of its input.
        let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap();
        Ran {
            code: output.status.code().unwrap_or(-1),
            out: output.stdout,
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Makes `NAME.key` and `NAME.cert` of the user ID `NAME <NAME@example.org>`.
    pub(crate) fn party(&self, name: &str, profile: &str) {
        self.party_by(SOP, name, &["--profile", profile]);
    }

    pub(crate) fn party_by(&self, program: &str, name: &str, options: &[&str]) {
        let user_id = format!("{name} <{name}@example.org>");
        let arguments = [&["generate-key"], options, &[&user_id]].concat();
        let key = self.run(program, &arguments, "").ok();
        self.put(&format!("{name}.cert"), self.run(program, &["extract-cert"], &key).ok());
        self.put(&format!("{name}.key"), key);
    }
}

/// The path of a program, if it is installed in a known version; otherwise it is skipped by name.
pub(crate) fn peer(name: &str) -> Option<String> {
    talaria_needs::peer(name).map(|path| path.to_str().unwrap().to_owned())
}

/// The same message with one byte in the middle of its armor changed.
pub(crate) fn changed(armored: &[u8]) -> Vec<u8> {
    let mut changed = armored.to_vec();
    let middle =
        (armored.len() / 2..armored.len()).find(|&at| armored[at].is_ascii_alphabetic()).unwrap();
    changed[middle] = if changed[middle] == b'A' { b'B' } else { b'A' };
    changed
}
