//! Following a log that another process writes.

use std::path::{Path, PathBuf};

use super::LogError;
use super::folder::{End, extend, load};
use crate::log::Log;
use crate::name::EntryId;

/// A reader of a log in a folder, which takes no lock: other processes write meanwhile.
pub struct Follower {
    folder: PathBuf,
    log: Log,
    end: End,
}

impl Follower {
    /// Reads what is in the log now.
    ///
    /// # Errors
    ///
    /// As [`super::LogFolder::open`], without [`LogError::InUse`].
    pub fn open(folder: &Path) -> Result<Self, LogError> {
        let not_a_log = || LogError::NotALog { path: folder.to_owned() };
        if !folder.join("segments").is_dir() {
            return Err(not_a_log());
        }
        let mut log: Option<Log> = None;
        let (end, _) = load(folder, &mut log)?;
        let mut log = log.ok_or_else(not_a_log)?;
        log.settle();
        Ok(Self { folder: folder.to_owned(), log, end })
    }

    /// The log, as far as it was read.
    #[must_use]
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Reads on. Returns the entries that came, in their order.
    ///
    /// # Errors
    ///
    /// As [`Self::open`]. Then the log must be opened again.
    pub fn advance(&mut self) -> Result<Vec<EntryId>, LogError> {
        if self.end.is_last(&self.folder)? {
            return Ok(Vec::new());
        }
        let before = self.log.len();
        // A group that is being written is like one that a crash has cut off: its whole frames are there for good.
        self.end = extend(&self.folder, self.end, &mut self.log)?.0;
        self.log.settle();
        Ok(self.log.entries().skip(before).map(|(id, _)| id).collect())
    }
}
