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
use crate::id::RepositoryId;
use crate::lease::{Beat, LEASES, RunOf, text};
use crate::repository::{Keys, Repository, random};
use crate::signed::{DocumentWriter, Header};

/// The interval at which a run shows that it lives. A prune waits for 15 times as long.
const BEAT: Duration = Duration::from_secs(60);
/// The file with the leases of the last run, in the state folder.
const NAME: &str = "leases";

/// A run that holds a lease, until it is dropped.
pub(crate) struct Alive {
    beats: Arc<Beats>,
    /// The file with the name of the lease.
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
    /// The objects of this run: its lease, and the newest beat.
    objects: Mutex<Vec<String>>,
}

impl Alive {
    /// Takes a lease. The leases of an earlier run of this machine, which has ended, are deleted:
    /// the caller has the lock of the run.
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
            if left.starts_with("leases/") && !left.contains("..") {
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
            objects: Mutex::default(),
        });
        beats.write(Beat::Number(0))?;
        // The name is for the next run, which is not wrong without it.
        let _ = write_names(&path, &beats.objects.lock());
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
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let objects = std::mem::take(&mut *self.beats.objects.lock());
        let deleted = objects.iter().map(|name| self.beats.backend.delete(name));
        if deleted.fold(false, |failed, one| failed | one.is_err()) {
            let _ = self.beats.write(Beat::End);
        } else {
            let _ = remove_if_there(&self.path);
        }
    }
}

/// Writes the names of leases to a file. A name that a crash has damaged is that of no object.
fn write_names(path: &Path, names: &[String]) -> io::Result<()> {
    let mut file = NewFile::replacing(path)?;
    file.write_all(names.join("\n").as_bytes())?;
    file.name_unsynced(Readers::Owner)
}

impl Beats {
    fn write(&self, beat: Beat) -> Result<()> {
        let elapsed = u32::try_from(self.began.elapsed().as_secs()).unwrap_or(0);
        let now = self.now.saturating_add(elapsed);
        let text = text(self.repository, Header::new(now)?, &self.run, beat);
        let mut signer = self.signer.as_ref().map(|signer| signer.lock());
        let id = self.writer.write(LEASES, &text, signer.as_deref_mut(), now)?;
        self.objects.lock().push(format!("{LEASES}/{id}"));
        Ok(())
    }

    /// Writes the next beat, and deletes the one before. The lease itself stays.
    fn beat(&self, number: u64) -> Result<()> {
        self.write(Beat::Number(number))?;
        let before = {
            let mut objects = self.objects.lock();
            (objects.len() > 2).then(|| objects.remove(1))
        };
        before.map_or(Ok(()), |before| self.backend.delete(&before))
    }
}
