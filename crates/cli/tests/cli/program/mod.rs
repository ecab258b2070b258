//! The real program, run on a store in a folder of its own.

mod disk;
mod home;
mod serving;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use talaria::cert::{BATCH_BYTES, Cert, Fingerprint, Splitter, Tag};
use talaria_corpus::{CorpusProfile, Generate, certs};

pub(crate) use disk::{Disk, Mount};
pub(crate) use home::{Home, prepared};
pub(crate) use serving::{Serving, answer, form, operator_settings};

/// Certificates by fingerprint.
pub(crate) type Contents = BTreeMap<Fingerprint, Cert>;

pub(crate) struct Program {
    folder: tempfile::TempDir,
    store: PathBuf,
}

impl Program {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("certs.db");
        Self { folder, store }
    }

    /// The same with the store elsewhere.
    pub(crate) fn with_store(self, store: PathBuf) -> Self {
        Self { store, ..self }
    }

    pub(crate) fn store(&self) -> &Path {
        &self.store
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a keyring and returns where it is.
    pub(crate) fn ring(&self, name: &str, certs: &[Cert]) -> PathBuf {
        let bytes: Vec<&[u8]> = certs.iter().map(Cert::as_bytes).collect();
        fs::write(self.path(name), bytes.concat()).unwrap();
        self.path(name)
    }

    /// The program with these arguments behind the option for the store.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        self.set_up(Command::new(env!("CARGO_BIN_EXE_talaria")), args)
    }

    /// The same, started by another program that has these arguments before.
    pub(crate) fn command_under(&self, other: &str, before: &[&str], args: &[&str]) -> Command {
        let mut command = Command::new(other);
        command.args(before).arg(env!("CARGO_BIN_EXE_talaria"));
        self.set_up(command, args)
    }

    fn set_up(&self, mut command: Command, args: &[&str]) -> Command {
        command.arg("--store").arg(&self.store).args(args).env_remove("TALARIA_STORE");
        // Not the keys and settings of whoever runs the tests.
        command.env("TALARIA_KEYS", self.path("keys")).env("TALARIA_CONFIG", "");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Runs a command that must succeed, and returns its output.
    pub(crate) fn ok(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs a command that must fail with this exit status, and returns its standard error.
    pub(crate) fn fails(&self, args: &[&str], status: i32) -> String {
        let output = self.run(args);
        assert_eq!(output.status.code(), Some(status), "{args:?}: {output:?}");
        String::from_utf8(output.stderr).unwrap()
    }

    pub(crate) fn assert_clean(&self) {
        self.ok(&["check"]);
    }

    /// Everything in the store, by way of an export.
    pub(crate) fn contents(&self) -> Contents {
        if !self.store.exists() {
            return Contents::new();
        }
        let output = self.run(&["export", "--signatures", "all"]);
        assert!(output.status.success(), "{output:?}");
        let mut splitter = Splitter::new(&output.stdout[..], BATCH_BYTES);
        let mut contents = Contents::new();
        while let Some(batch) = splitter.next_batch().unwrap() {
            assert_eq!(batch.rejects().count(), 0);
            for (_, raw) in batch.certs() {
                let cert = Cert::parse(raw).unwrap();
                contents.insert(cert.fingerprint(), cert);
            }
        }
        contents
    }
}

/// Makes a folder for gpg. The agent hashes passphrases fewer times than for people: it would do so
/// for 0.1 s each time.
pub(crate) fn make_gnupg_home(folder: &Path) {
    fs::create_dir_all(folder).unwrap();
    fs::set_permissions(folder, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    fs::write(folder.join("gpg-agent.conf"), "s2k-count 65536\n").unwrap();
}

pub(crate) fn corpus(count: u64) -> Vec<Cert> {
    certs(&Generate { seed: 11, first: 0, count, profile: CorpusProfile::small() })
}

/// Copies of certificates with half of their signatures: the even ones or the odd ones.
pub(crate) fn half(certs: &[Cert], odd: usize) -> Vec<Cert> {
    let part =
        |cert: &Cert| cert.retain(|at, packet| packet.tag != Tag::SIGNATURE || at % 2 == odd);
    certs.iter().map(part).collect()
}

/// The content of the store after a merge with `certs`.
pub(crate) fn joined(mut contents: Contents, certs: &[Cert]) -> Contents {
    for cert in certs {
        let union = contents.get(&cert.fingerprint()).map(|ours| ours.union(cert));
        contents.insert(cert.fingerprint(), union.unwrap_or_else(|| cert.clone()));
    }
    contents
}
