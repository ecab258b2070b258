//! Sizes of a repository: the files in its snapshots, and the objects in the storage.

use std::sync::Arc;

use crate::error::{BackupError, Result};
use crate::located::Present;
use crate::repository::{Keys, Repository};

/// Sizes of a repository.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Stats {
    /// Snapshots that count.
    pub snapshots: u64,
    /// Bytes of all files of all these snapshots.
    pub files_bytes: u64,
    /// Different chunks that indexes name in packs of the storage.
    pub chunks: u64,
    /// Bytes of these chunks before compression.
    pub plain_bytes: u64,
    /// Bytes of these chunks in the packs.
    pub stored_bytes: u64,
    /// Further copies of chunks: several clients have stored the same.
    pub copies: u64,
    /// Packs of the storage.
    pub packs: u64,
    /// Bytes of the packs.
    pub pack_bytes: u64,
    /// Packs that no index names: of a run that is going on, or was interrupted.
    pub unindexed: u64,
}

impl Repository {
    /// The sizes of the repository, and the documents that cannot be read. Needs no data key.
    ///
    /// # Errors
    ///
    /// Errors of the storage and of temporary files.
    pub fn stats(&self, keys: &Keys, now: u32) -> Result<(Stats, Vec<BackupError>)> {
        let (listed, mut unreadable) = self.snapshots(keys, now)?;
        let mut stats = Stats::default();
        for one in listed.iter().filter(|one| one.standing.counts()) {
            stats.snapshots += 1;
            stats.files_bytes = stats.files_bytes.saturating_add(one.snapshot.bytes);
        }
        let packs = self.listed_packs()?;
        stats.packs = packs.len() as u64;
        stats.pack_bytes = packs.iter().map(|(_, bytes)| bytes).sum();
        let mut seen = Present::new(Arc::clone(self.scratch()));
        let mut indexed = std::collections::HashSet::new();
        let errors = self.indexes(keys, now, &mut |pack, standing| {
            let is_there = packs.get(&pack.hash) == Some(pack.bytes);
            if !is_there || !standing.counts() || !indexed.insert(pack.hash) {
                return Ok(());
            }
            for chunk in &pack.chunks {
                if seen.insert(&chunk.id)? {
                    stats.chunks += 1;
                    stats.plain_bytes += u64::from(chunk.plain);
                    stats.stored_bytes += u64::from(chunk.stored);
                } else {
                    stats.copies += 1;
                }
            }
            Ok(())
        })?;
        unreadable.extend(errors);
        stats.unindexed = packs.len() as u64 - indexed.len() as u64;
        Ok((stats, unreadable))
    }
}
