//! What this machine remembers of a repository, so that it notices a rollback.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use talaria_message::openpgp::Fingerprint;

use crate::chain::Heads;
use crate::config::fingerprint;
use crate::error::{BackupError, Result};
use crate::id::RepositoryId;
use crate::repository::Expected;
use crate::snapshot::Head;
use crate::text::Lines;

const DOMAIN: &str = "talaria backup state";
const NAME: &str = "seen";

/// The folder with what this machine remembers of one repository, locked while this value lives: two runs at once
/// would give two snapshots one number.
pub struct State {
    folder: PathBuf,
    repository: RepositoryId,
    /// What the repository must at least have.
    pub expected: Expected,
    /// The newest snapshots that were seen.
    pub heads: Heads,
    _lock: File,
}

impl State {
    /// Reads the state of a repository below `folder`. A repository that was never seen has an empty one.
    ///
    /// # Errors
    ///
    /// [`BackupError::Refused`] if another process has locked it; [`BackupError::Damaged`] if it cannot be
    /// read; errors of the file system.
    pub fn open(folder: &Path, repository: RepositoryId) -> Result<Self> {
        let folder = folder.join(repository.to_string());
        let failed = |source| BackupError::File { path: folder.display().to_string(), source };
        DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(failed)?;
        let lock = File::create(folder.join("lock")).map_err(failed)?;
        match rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(error) if error == rustix::io::Errno::WOULDBLOCK => {
                return Err(BackupError::Refused(format!(
                    "another talaria works with this repository ({} is locked); wait until it has ended",
                    folder.display()
                )));
            }
            Err(error) => return Err(failed(error.into())),
        }
        let mut state = Self {
            repository,
            expected: Expected::default(),
            heads: Heads::new(),
            _lock: lock,
            folder,
        };
        let path = state.folder.join(NAME);
        match fs::read(&path) {
            Ok(text) => state.parse(&path.display().to_string(), &text)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(source) => {
                return Err(BackupError::File { path: path.display().to_string(), source });
            }
        }
        Ok(state)
    }

    /// The folder of the state, for caches.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn parse(&mut self, name: &str, text: &[u8]) -> Result<()> {
        let id = self.repository.to_string();
        let mut lines = Lines::open(name, text, DOMAIN, Some(&id))?;
        let owner = lines.one("owner")?;
        let owner =
            fingerprint(owner).ok_or_else(|| lines.damaged("its owner is no fingerprint"))?;
        let configuration = lines.one("configuration")?;
        let configuration =
            configuration.parse().map_err(|_| lines.damaged("its configuration is no number"))?;
        for fields in lines.many("head") {
            let head = (|| {
                let mut fields = fields.splitn(3, ' ');
                let client = match fields.next()? {
                    "none" => None,
                    text => Some(fingerprint(text)?),
                };
                let number = fields.next()?.parse().ok()?;
                Some((client, Head { number, id: fields.next()?.parse().ok()? }))
            })();
            let (client, head) = head.ok_or_else(|| lines.damaged("a head cannot be read"))?;
            self.heads.insert(client, head);
        }
        lines.end()?;
        self.expected = Expected { owner: Some(owner), configuration };
        Ok(())
    }

    /// Remembers the owner, the configuration, and heads that are newer than the known ones.
    ///
    /// # Errors
    ///
    /// Errors of the file system.
    pub fn remember(
        &mut self,
        owner: &Fingerprint,
        configuration: u32,
        heads: &Heads,
    ) -> Result<()> {
        for (client, head) in heads {
            let newest = self.heads.entry(client.clone()).or_insert(*head);
            if newest.number < head.number {
                *newest = *head;
            }
        }
        let configuration = configuration.max(self.expected.configuration);
        self.expected = Expected { owner: Some(owner.clone()), configuration };
        let mut text = format!(
            "{DOMAIN} 1\nrepository {}\nowner {}\nconfiguration {configuration}\n",
            self.repository,
            owner.to_hex()
        );
        for (client, Head { number, id }) in &self.heads {
            let client = client.as_ref().map_or("none".into(), Fingerprint::to_hex);
            text.push_str(&format!("head {client} {number} {id}\n"));
        }
        let write = || -> io::Result<()> {
            let mut file = tempfile::NamedTempFile::new_in(&self.folder)?;
            file.write_all(text.as_bytes())?;
            file.as_file().sync_all()?;
            file.persist(self.folder.join(NAME))?;
            File::open(&self.folder)?.sync_all()
        };
        write()
            .map_err(|source| BackupError::File { path: self.folder.display().to_string(), source })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Id;

    #[test]
    fn what_was_seen_is_remembered_and_never_goes_back() {
        let folder = tempfile::tempdir().unwrap();
        let repository = RepositoryId([1; 16]);
        let owner = Fingerprint::from_bytes(4, &[1; 20]).unwrap();
        let head = |number| Head { number, id: Id([u8::try_from(number).unwrap(); 32]) };
        let heads =
            |number| Heads::from([(Some(owner.clone()), head(number)), (None, head(number))]);
        let mut state = State::open(folder.path(), repository).unwrap();
        assert_eq!(state.expected, Expected::default());
        state.remember(&owner, 3, &heads(5)).unwrap();
        state.remember(&owner, 2, &heads(4)).unwrap();
        assert!(State::open(folder.path(), repository).is_err(), "locked");
        drop(state);
        let state = State::open(folder.path(), repository).unwrap();
        assert_eq!(state.expected, Expected { owner: Some(owner.clone()), configuration: 3 });
        assert_eq!(state.heads, heads(5));
        assert!(State::open(folder.path(), RepositoryId([2; 16])).unwrap().heads.is_empty());
    }
}
