//! The audit log: who ordered what about certificates, when, and why. It is a file beside the
//! store, in lines of JSON, and lines are only added.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use talaria_cert::{Fingerprint, timestamp};

use crate::engine::{Command, Outcome};

/// Characters of a name or a reason.
const TEXT_MAX: usize = 1000;

/// Who orders something, and why.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Author {
    /// The name that the operator gives, or that of the user on this machine.
    pub who: String,
    /// The address of the client, for an order over HTTP.
    pub from: Option<String>,
    /// The reason that the operator gives.
    pub reason: Option<String>,
}

/// An entry of the audit log: a command about one certificate.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct AuditEntry {
    /// When, as in RFC 3339.
    pub time: String,
    /// The operator.
    pub who: String,
    /// The address of the client, for an order over HTTP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The name of the command.
    pub action: String,
    /// The certificate.
    pub fingerprint: String,
    /// The result.
    pub outcome: String,
    /// The reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The file of the audit log.
#[derive(Clone, Debug)]
pub(crate) struct Audit(Arc<Path>);

/// The audit log cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} the audit log {}", path.display())]
pub struct AuditError {
    /// What failed.
    pub action: &'static str,
    /// The file.
    pub path: PathBuf,
    /// The error of the operating system.
    pub source: io::Error,
}

impl Audit {
    /// The audit log of a store.
    pub(crate) fn of(store: &Path) -> Self {
        let mut name = store.as_os_str().to_owned();
        name.push(".audit");
        Self(Path::new(&name).into())
    }

    fn failed(&self, action: &'static str) -> impl FnOnce(io::Error) -> AuditError {
        let path = self.0.to_path_buf();
        move |source| AuditError { action, path, source }
    }

    /// Opens the file for entries. Nothing is ordered if that fails.
    pub(crate) fn open(&self) -> Result<OpenAudit, AuditError> {
        let mut options = OpenOptions::new();
        let file = options.append(true).create(true).mode(0o600).open(&self.0);
        Ok(OpenAudit { file: file.map_err(self.failed("open"))?, audit: self.clone() })
    }

    /// Calls `each` with all entries, the oldest first. Lines that are no entries are passed over:
    /// a crash can cut the last one.
    pub(crate) fn for_each(&self, mut each: impl FnMut(AuditEntry)) -> Result<(), AuditError> {
        let file = match File::open(&self.0) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(self.failed("read")(error)),
        };
        for line in BufReader::new(file).split(b'\n') {
            let line = line.map_err(self.failed("read"))?;
            if let Ok(entry) = serde_json::from_slice(&line) {
                each(entry);
            }
        }
        Ok(())
    }
}

/// The audit log, open for entries.
pub(crate) struct OpenAudit {
    audit: Audit,
    file: File,
}

impl OpenAudit {
    /// Adds an entry for each certificate, and waits until they are on disk.
    pub(crate) fn add(
        mut self,
        author: &Author,
        command: &Command,
        outcomes: &[(Fingerprint, Outcome)],
        now: u32,
    ) -> Result<(), AuditError> {
        let mut lines = Vec::new();
        for (fingerprint, outcome) in outcomes {
            let entry = AuditEntry {
                time: timestamp(now),
                who: shortened(&author.who),
                from: author.from.clone(),
                action: command.name().into(),
                fingerprint: fingerprint.to_string(),
                outcome: outcome.words().into(),
                reason: author.reason.as_deref().map(shortened),
            };
            serde_json::to_writer(&mut lines, &entry).expect("texts can be written");
            lines.push(b'\n');
        }
        // One write, so that lines of two programs do not mix.
        let written = self.file.write_all(&lines).and_then(|()| self.file.sync_data());
        written.map_err(self.audit.failed("write"))
    }
}

/// The first characters of a text.
fn shortened(text: &str) -> String {
    text.chars().take(TEXT_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_read_as_they_were_added_even_behind_a_line_that_was_cut() {
        let folder = tempfile::tempdir().unwrap();
        let audit = Audit::of(&folder.path().join("certs.db"));
        audit.for_each(|_| panic!("there is no entry yet")).unwrap();
        let names = [Fingerprint::V4([1; 20]), Fingerprint::V6([2; 32])];
        let author =
            Author { who: "alice\n".into(), from: None, reason: Some("é".repeat(TEXT_MAX + 1)) };
        let done = [(names[0], Outcome::Deleted)];
        audit.open().unwrap().add(&author, &Command::Delete, &done, 0).unwrap();
        let path = folder.path().join("certs.db.audit");
        let cut = [&std::fs::read(&path).unwrap()[..], b"{\"time\": \"20\n"].concat();
        std::fs::write(&path, cut).unwrap();
        let done = [(names[1], Outcome::NotBlocked)];
        audit.open().unwrap().add(&Author::default(), &Command::Unblock, &done, 60).unwrap();
        let mut all = Vec::new();
        audit.for_each(|entry| all.push(entry)).unwrap();
        let actions: Vec<&str> = all.iter().map(|entry| &*entry.action).collect();
        assert_eq!(actions, ["delete", "unblock"]);
        assert_eq!((&*all[0].who, &*all[0].time), ("alice\n", "1970-01-01T00:00:00Z"));
        assert_eq!(all[0].reason, Some("é".repeat(TEXT_MAX)));
        assert_eq!((&*all[1].fingerprint, all[1].reason.as_ref()), (&*names[1].to_string(), None));
    }
}
