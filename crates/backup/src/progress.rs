//! Counters of a run that others can read while it works, and its cancellation.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::error::{BackupError, Result};

/// Counters of a run. All but [`Self::cancel`] is for reading by others.
#[derive(Debug, Default)]
pub struct BackupProgress {
    /// Entries of the tree so far.
    pub entries: AtomicU64,
    /// Bytes of files so far, as their sizes say, read or known to be unchanged.
    pub bytes: AtomicU64,
    /// Bytes of files that were read.
    pub read_bytes: AtomicU64,
    /// Chunks that the repository did not have.
    pub new_chunks: AtomicU64,
    /// Bytes of their plaintext.
    pub new_bytes: AtomicU64,
    /// Bytes of them in packs, after compression.
    pub stored_bytes: AtomicU64,
    /// Packs that were written.
    pub packs: AtomicU64,
    /// Bytes of all objects that were written.
    pub written_bytes: AtomicU64,
    cancelled: AtomicBool,
}

impl BackupProgress {
    /// Ends the run soon, with [`Cancelled`](BackupError::Cancelled).
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// # Errors
    ///
    /// [`Cancelled`](BackupError::Cancelled) after [`Self::cancel`].
    pub fn go_on(&self) -> Result<()> {
        if self.cancelled.load(Ordering::Relaxed) { Err(BackupError::Cancelled) } else { Ok(()) }
    }

    pub(crate) fn add(counter: &AtomicU64, n: u64) {
        counter.fetch_add(n, Ordering::Relaxed);
    }
}
