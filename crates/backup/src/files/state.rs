//! This machine's record of a repository, which reveals a rollback.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use talaria_disk::{Readers, make_folder, open_lock, replace};
use talaria_message::openpgp::Fingerprint;

use crate::config::fingerprint;
use crate::error::{BackupError, Result};
use crate::files::scratch::ScratchFolder;
use crate::id::RepositoryId;
use crate::repository::Expected;
use crate::snapshot::Head;
use crate::snapshot::Heads;
use crate::table::Scratch;
use crate::text::{Lines, Place, escaped};

const DOMAIN: &str = "talaria backup state";
const NAME: &str = "seen";

/// This machine's record of one repository, in its own folder.
pub struct State {
    folder: PathBuf,
    repository: RepositoryId,
    /// The least that the repository must have.
    pub expected: Expected,
    /// The newest snapshots that were seen.
    pub heads: Heads,
}

/// A lock that only one process has.
///
/// Dropping it gives the lock up. Closing the file alone would not do that at once: a program that
/// another thread is just starting has a copy of it for a moment.
#[derive(Debug)]
pub struct RunLock(File);

impl Drop for RunLock {
    fn drop(&mut self) {
        // Closing the file gives the lock up, too, as soon as nobody has a copy.
        let _ = self.0.unlock();
    }
}

impl State {
    /// Reads the state of a repository below `folder`. A repository that was never seen has an
    /// empty one.
    ///
    /// # Errors
    ///
    /// [`BackupError::Damaged`] if it cannot be read; errors of the file system.
    pub fn open(folder: &Path, repository: RepositoryId) -> Result<Self> {
        let folder = folder.join(repository.to_string());
        let failed = |source| BackupError::File { path: folder.display().to_string(), source };
        make_folder(&folder, 0o700).map_err(failed)?;
        let (expected, heads) = (Expected::default(), Heads::new());
        let mut state = Self { folder, repository, expected, heads };
        state.read()?;
        Ok(state)
    }

    /// Refuses another repository in a place than the one that [`Self::remember_place`] noted:
    /// whoever replaces a repository gives it another id, for which nothing is remembered.
    ///
    /// # Errors
    ///
    /// [`BackupError::Refused`] if the place had another repository; errors of the file system.
    pub fn check_place(folder: &Path, place: &str, id: RepositoryId) -> Result<()> {
        let path = place_path(folder, place);
        match fs::read_to_string(&path) {
            Ok(known) if known == place_text(place, id) => Ok(()),
            Ok(known) => {
                let known = known.split(' ').next().unwrap_or_default();
                Err(BackupError::Refused(format!(
                    "{place} has the repository {id} now, and had {known} before: somebody may have replaced it; if you \
                     did, give the fingerprint of its owner with --owner"
                )))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(source) => Err(BackupError::File { path: path.display().to_string(), source }),
        }
    }

    /// Remembers that a place has this repository, after it was opened as its owner's.
    ///
    /// # Errors
    ///
    /// Errors of the file system.
    pub fn remember_place(folder: &Path, place: &str, id: RepositoryId) -> Result<()> {
        let (path, text) = (place_path(folder, place), place_text(place, id));
        if fs::read_to_string(&path).is_ok_and(|known| known == text) {
            return Ok(());
        }
        let places = path.parent().unwrap_or(folder);
        make_folder(places, 0o700)
            .and_then(|()| replace(&path, text.as_bytes(), Readers::Owner))
            .map_err(|source| BackupError::File { path: path.display().to_string(), source })
    }

    /// Temporary files in this folder.
    #[must_use]
    pub fn scratch(&self) -> Arc<dyn Scratch> {
        Arc::new(ScratchFolder::new(&self.folder))
    }

    /// Keeps other runs on this machine away: two at once would give two snapshots one number.
    ///
    /// # Errors
    ///
    /// [`BackupError::Refused`] if another process has the lock; errors of the file system.
    pub fn lock_run(&self) -> Result<RunLock> {
        let (file, path) = self.lock_file("run")?;
        match file.try_lock() {
            Ok(()) => Ok(RunLock(file)),
            Err(TryLockError::WouldBlock) => Err(BackupError::Refused(format!(
                "another process is backing up to this repository ({path} is locked); wait until it has ended"
            ))),
            Err(TryLockError::Error(source)) => Err(BackupError::File { path, source }),
        }
    }

    /// A file that is only locked, and its name.
    fn lock_file(&self, name: &str) -> Result<(File, String)> {
        let path = self.folder.join(name);
        let name = path.display().to_string();
        match open_lock(&path, 0o600) {
            Ok(file) => Ok((file, name)),
            Err(source) => Err(BackupError::File { path: name, source }),
        }
    }

    fn read(&mut self) -> Result<()> {
        let path = self.folder.join(NAME);
        let name = path.display().to_string();
        match fs::read(&path) {
            Ok(text) => self.parse(&name, &text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(source) => Err(BackupError::File { path: name, source }),
        }
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
            let newest = self.heads.entry(client).or_insert(head);
            if newest.number < head.number {
                *newest = head;
            }
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
        let (lock, path) = self.lock_file("lock")?;
        lock.lock().map_err(|source| BackupError::File { path, source })?;
        // Another process may have seen more.
        self.read()?;
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
        replace(&self.folder.join(NAME), text.as_bytes(), Readers::Owner)
            .map_err(|source| BackupError::File { path: self.folder.display().to_string(), source })
    }
}

fn place_path(folder: &Path, place: &str) -> PathBuf {
    folder.join("places").join(blake3::hash(place.as_bytes()).to_hex().as_str())
}

fn place_text(place: &str, id: RepositoryId) -> String {
    format!("{id} {}\n", escaped(place.as_bytes(), Place::Last))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Id;

    #[test]
    fn another_repository_in_a_known_place_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let id = |byte| RepositoryId([byte; 16]);
        let check = |place, byte| State::check_place(folder.path(), place, id(byte));
        let remember = |place, byte| State::remember_place(folder.path(), place, id(byte)).unwrap();
        check("/mnt/a", 1).unwrap();
        // To look is not to remember.
        check("/mnt/a", 2).unwrap();
        remember("/mnt/a", 1);
        remember("/mnt/b", 2);
        check("/mnt/a", 1).unwrap();
        let refused = check("/mnt/a", 2).unwrap_err().to_string();
        assert!(refused.contains("/mnt/a") && refused.contains("replaced"), "{refused}");
        remember("/mnt/a", 2);
        check("/mnt/a", 2).unwrap();
        assert!(check("/mnt/a", 1).is_err());
    }

    #[test]
    fn the_seen_state_is_remembered_and_never_goes_back() {
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
        let run = state.lock_run().unwrap();
        assert!(matches!(state.lock_run(), Err(BackupError::Refused(_))));
        // A program that is being started has a copy of the file.
        let _copy = run.0.try_clone().unwrap();
        drop(run);
        state.lock_run().unwrap();
        let state = State::open(folder.path(), repository).unwrap();
        assert_eq!(state.expected, Expected { owner: Some(owner.clone()), configuration: 3 });
        assert_eq!(state.heads, heads(5));
        assert!(State::open(folder.path(), RepositoryId([2; 16])).unwrap().heads.is_empty());
    }
}
