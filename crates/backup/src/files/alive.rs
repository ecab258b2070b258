//! The lease of a run, and its signs of life.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use talaria_disk::{NewFile, Readers, remove_if_there};
use talaria_message::SigningKey;
use talaria_message::openpgp::Fingerprint;

use super::state::State;
use crate::backend::Backend;
use crate::error::Result;
use crate::id::{Id, RepositoryId, in_folder};
use crate::lease::{Beat, LEASES, RunOf, text};
use crate::repository::{Keys, Repository, random};
use crate::signed::{DocumentWriter, Header};
use crate::snapshot::{PREPARED, Snapshot};

/// The interval at which a run shows that it lives. A prune waits for 15 times as long.
const BEAT: Duration = Duration::from_secs(60);
/// The file with the names of the objects of the last run that it deletes at its end, in the state
/// folder.
const NAME: &str = "leases";

/// A run that holds a lease and keeps what its prepared snapshots need, until it is dropped.
pub(crate) struct Alive {
    beats: Arc<Beats>,
    /// The file with the names of the objects.
    path: PathBuf,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

struct Beats {
    backend: Arc<dyn Backend>,
    repository: RepositoryId,
    run: RunOf,
    began: Instant,
    now: u32,
    signer: Option<Arc<Mutex<SigningKey>>>,
    writer: DocumentWriter,
    /// The leases of this run: the first one, and that of the newest beat.
    leases: Mutex<Vec<String>>,
    /// The snapshots that this run has prepared.
    prepared: Mutex<Vec<String>>,
}

impl Alive {
    /// Takes a lease. The leases and prepared snapshots of an earlier run of this machine, which
    /// has ended, are deleted: the caller has the lock of the run.
    pub(crate) fn begin(
        repository: &Repository,
        keys: &Keys,
        client: Option<&Fingerprint>,
        signer: Option<Arc<Mutex<SigningKey>>>,
        state: &State,
        now: u32,
    ) -> Result<Self> {
        let path = state.folder().join(NAME);
        for left in fs::read_to_string(&path).unwrap_or_default().lines() {
            if [LEASES, PREPARED].iter().any(|folder| in_folder::<Id>(folder, left).is_some()) {
                // Where it cannot be deleted, prunes wait until it is too old.
                let _ = repository.backend().delete(left);
            }
        }
        let mut run = [0; 16];
        random(&mut run)?;
        let beats = Arc::new(Beats {
            backend: Arc::clone(repository.backend()),
            repository: repository.id(),
            run: (client.cloned(), run),
            began: Instant::now(),
            now,
            signer,
            writer: DocumentWriter::new(repository, keys, now)?,
            leases: Mutex::default(),
            prepared: Mutex::default(),
        });
        beats.write(Beat::Number(0))?;
        beats.note(&path);
        let (stop, stopped) = channel();
        let thread = {
            let beats = Arc::clone(&beats);
            std::thread::spawn(move || {
                let mut number = 0;
                while stopped.recv_timeout(BEAT) == Err(RecvTimeoutError::Timeout) {
                    number += 1;
                    // A prune that sees no beat no longer waits, and the end of the run notices its
                    // deletions.
                    let _ = beats.beat(number);
                }
            })
        };
        Ok(Self { beats, path, stop: Some(stop), thread: Some(thread) })
    }

    /// Takes the lease again: a prune that no longer waited may have deleted it.
    pub(crate) fn renew(&self) -> Result<()> {
        let before = std::mem::take(&mut *self.beats.leases.lock());
        self.beats.write(Beat::Number(0))?;
        self.beats.note(&self.path);
        before.iter().try_for_each(|name| self.beats.backend.delete(name))
    }

    /// Prepares snapshots, whose chunks are all stored: prunes keep what they need. Those that were
    /// prepared before are given up.
    pub(crate) fn prepare<'a>(
        &self,
        snapshots: impl Iterator<Item = (&'a Id, &'a [u8])>,
    ) -> Result<()> {
        let Beats { backend, prepared, .. } = &*self.beats;
        let mut before = prepared.lock().clone();
        for (id, sealed) in snapshots {
            let name = Snapshot::prepared_name(id);
            if before.contains(&name) {
                // It is the same snapshot.
                before.retain(|before| *before != name);
                continue;
            }
            prepared.lock().push(name.clone());
            self.beats.note(&self.path);
            backend.put(&name, &[sealed])?;
        }
        before.iter().try_for_each(|name| backend.delete(name))?;
        prepared.lock().retain(|name| !before.contains(name));
        Ok(())
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let prepared = std::mem::take(&mut *self.beats.prepared.lock());
        let leases = std::mem::take(&mut *self.beats.leases.lock());
        let failed = |names: &[String]| {
            let deleted = names.iter().map(|name| self.beats.backend.delete(name));
            deleted.fold(false, |failed, one| failed | one.is_err())
        };
        let (are_prepared_left, are_leases_left) = (failed(&prepared), failed(&leases));
        if are_leases_left {
            let _ = self.beats.write(Beat::End);
        }
        if !are_prepared_left && !are_leases_left {
            let _ = remove_if_there(&self.path);
        }
    }
}

/// Writes the names of objects to a file. A name that a crash has damaged is that of no object.
fn write_names(path: &Path, names: &[String]) -> io::Result<()> {
    let mut file = NewFile::replacing(path)?;
    file.write_all(names.join("\n").as_bytes())?;
    file.name_unsynced(Readers::Owner)
}

impl Beats {
    /// Notes the names of the objects for the next run, which is not wrong without them.
    fn note(&self, path: &Path) {
        let names = [&self.leases, &self.prepared].map(|names| names.lock().clone()).concat();
        let _ = write_names(path, &names);
    }

    fn write(&self, beat: Beat) -> Result<()> {
        let elapsed = u32::try_from(self.began.elapsed().as_secs()).unwrap_or(0);
        let now = self.now.saturating_add(elapsed);
        let text = text(self.repository, Header::new(now)?, &self.run, beat);
        let mut signer = self.signer.as_ref().map(|signer| signer.lock());
        let id = self.writer.write(LEASES, &text, signer.as_deref_mut(), now)?;
        self.leases.lock().push(format!("{LEASES}/{id}"));
        Ok(())
    }

    /// Writes the next beat, and deletes the one before. The lease itself stays.
    fn beat(&self, number: u64) -> Result<()> {
        self.write(Beat::Number(number))?;
        let before = {
            let mut leases = self.leases.lock();
            (leases.len() > 2).then(|| leases.remove(1))
        };
        before.map_or(Ok(()), |before| self.backend.delete(&before))
    }
}
