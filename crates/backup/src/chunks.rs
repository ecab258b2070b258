//! The two sides of chunk storage, as the tree sees them.

use std::sync::Arc;

use crate::error::Result;
use crate::id::{Id, Kind};

/// The maximum number of bytes in the plaintext of a chunk.
pub const CHUNK_BYTES_MAX: usize = 8 << 20;

/// Reads chunks of a repository.
pub trait ReadChunks: Sync {
    /// The plaintext of a chunk. Its identifier was computed again and is `id`.
    ///
    /// # Errors
    ///
    /// [`Missing`](crate::BackupError::Missing) if no index names the chunk;
    /// [`Damaged`](crate::BackupError::Damaged) if no copy of it is good; errors of the storage.
    fn read(&self, kind: Kind, id: &Id) -> Result<Vec<u8>>;

    /// Like [`Self::read`], from a small cache: for chunks that several small files share.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::read`].
    fn read_shared(&self, kind: Kind, id: &Id) -> Result<Arc<Vec<u8>>> {
        self.read(kind, id).map(Arc::new)
    }

    /// A number by which chunks can be sorted so that those in one pack are next to each other;
    /// `None` if no index names the chunk.
    fn place(&self, id: &Id) -> Option<u64> {
        let _ = id;
        Some(0)
    }
}

/// Writes chunks to a repository.
pub trait WriteChunks {
    /// Stores a chunk unless the repository has it, and returns its identifier.
    ///
    /// # Errors
    ///
    /// Errors of the storage.
    fn write(&mut self, kind: Kind, plain: &[u8]) -> Result<Id>;
}
