//! The two sides of chunk storage, as the tree sees them.

use crate::error::Result;
use crate::id::{Id, Kind};

/// Reads chunks of a repository.
pub trait ReadChunks: Sync {
    /// The plaintext of a chunk. Its identifier was computed again and is `id`.
    ///
    /// # Errors
    ///
    /// [`Missing`](crate::BackupError::Missing) if no index names the chunk; [`Damaged`](crate::BackupError::Damaged) if no
    /// copy of it is good; errors of the storage.
    fn read(&self, kind: Kind, id: &Id) -> Result<Vec<u8>>;
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
