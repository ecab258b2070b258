//! Connections to the store for reading: as many as there are threads that read at once.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use talaria_store::{Access, OpenFiles, Snapshot, Store, StoreError};

use crate::certified::Certified;

/// Page cache of one connection: 4 MiB. The system caches the file for all of them.
const CACHE_BYTES: u64 = 4 << 20;

/// Connections that are not in use, at most; more are closed.
const IDLE_MAX: usize = 32;

/// Hands out connections for reading.
#[derive(Clone, Debug)]
pub(crate) struct Readers {
    path: PathBuf,
    /// The files of the store that the server has opened.
    files: Arc<Mutex<Option<OpenFiles>>>,
    idle: Arc<Mutex<Vec<Store>>>,
    certified: Arc<Certified>,
}

impl Readers {
    pub(crate) fn new(path: &Path, files: Option<OpenFiles>) -> Self {
        Self {
            path: path.to_owned(),
            files: Arc::new(Mutex::new(files)),
            idle: Arc::default(),
            certified: Arc::default(),
        }
    }

    /// Checks that the store has not been moved or replaced.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.as_ref().map_or(Ok(()), OpenFiles::check)
    }

    /// A connection that sees the store as it is at this moment, and goes back when it is dropped.
    pub(crate) fn get(&self) -> Result<Reader, StoreError> {
        let idle = self.idle.lock().unwrap_or_else(std::sync::PoisonError::into_inner).pop();
        let store = if let Some(store) = idle {
            store
        } else {
            let store = Store::open(&self.path, Access::Read)?;
            // The system caches the pages of the file. Mapped pages would count as this process's memory.
            store.set_memory(CACHE_BYTES, 0)?;
            store
        };
        Ok(Reader {
            snapshot: Some(store.into_snapshot()?),
            idle: Arc::clone(&self.idle),
            certified: Arc::clone(&self.certified),
        })
    }
}

/// A store for reading.
#[derive(Debug)]
pub(crate) struct Reader {
    snapshot: Option<Snapshot<Store>>,
    idle: Arc<Mutex<Vec<Store>>>,
    certified: Arc<Certified>,
}

impl Reader {
    /// The verdicts on signatures of other keys.
    pub(crate) fn certified(&self) -> &Certified {
        &self.certified
    }
}

impl Deref for Reader {
    type Target = Store;

    fn deref(&self) -> &Store {
        self.snapshot.as_ref().expect("there until it is dropped")
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let Some(snapshot) = self.snapshot.take() else { return };
        // One that cannot let go is closed.
        if let Ok(store) = snapshot.end() {
            let mut idle = self.idle.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            if idle.len() < IDLE_MAX {
                idle.push(store);
            }
        }
    }
}
