//! Following a log that another process writes.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::bodies::Bodies;
use super::error::LogError;
use super::file::{io, segment_path};
use super::index_file::{self, End};
use super::load::{extend, load};
use crate::log::memory::Log;
use crate::name::EntryId;

/// A reader of a log in a folder, which takes no lock: other processes write meanwhile.
pub struct Follower {
    folder: PathBuf,
    log: Log,
    end: End,
    bodies: Arc<Bodies>,
}

impl Follower {
    /// Reads what is in the log now.
    ///
    /// # Errors
    ///
    /// As [`super::LogFolder::open`], without [`LogError::InUse`].
    pub fn open(folder: &Path) -> Result<Self, LogError> {
        let not_a_log = || LogError::NotALog { path: folder.to_owned() };
        if !segment_path(folder, 0).is_file() {
            return Err(not_a_log());
        }
        let bodies = Arc::new(Bodies::new(folder));
        let loaded = load(folder, index_file::read(folder), &bodies)?;
        let (log, end, _) = loaded.ok_or_else(not_a_log)?;
        Ok(Self { folder: folder.to_owned(), log, end, bodies })
    }

    /// Asks the log, as far as it was read.
    ///
    /// # Errors
    ///
    /// [`LogError::Io`] if a part of the log cannot be read from disk.
    pub fn read<T>(&self, read: impl FnOnce(&Log) -> T) -> Result<T, LogError> {
        let value = read(&self.log);
        self.bodies.take_failure().map_or(Ok(value), Err)
    }

    /// Reads on. Returns the entries that came, in their order.
    ///
    /// # Errors
    ///
    /// As [`Self::open`]. Then the log must be opened again.
    pub fn advance(&mut self) -> Result<Vec<EntryId>, LogError> {
        let from = if self.end.is_there(&self.folder, self.log.id()) {
            let path = segment_path(&self.folder, self.end.segment);
            if self.end.is_last(&self.folder).map_err(io("read", &path))? {
                return Ok(Vec::new());
            }
            self.end.clone()
        } else {
            // A compaction has written segments anew, with all entries at other places.
            self.bodies.forget();
            End::start()
        };
        let before = self.log.len();
        // A group that is being written is like one that a crash has cut off: its whole frames are
        // there for good.
        self.end = extend(&self.folder, from, &mut self.log)?.0;
        self.read(|log| log.ids().skip(before).collect())
    }
}
