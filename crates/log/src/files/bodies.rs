//! Entries that were read again from the segments: one for the log in memory, or all of a frame.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::error::LogError;
use super::file::{io, segment_path};
use crate::entry::{ENTRY_BYTES_MAX, Entry};
use crate::graph::{Location, Source};
use crate::name::EntryId;
use crate::record::Signed;

/// The entries of a frame, by their places.
#[derive(Clone)]
pub(super) struct FrameEntries {
    pub(super) segment: u32,
    pub(super) frame: u32,
    /// Each entry with the start of its bytes, ascending.
    pub(super) entries: Arc<Vec<(u32, Signed)>>,
}

impl FrameEntries {
    pub(super) fn find(&self, id: &EntryId, location: Location) -> Option<&Signed> {
        let at = self.entries.binary_search_by_key(&location.entry, |(start, _)| *start).ok()?;
        Some(&self.entries[at].1).filter(|signed| signed.id == *id)
    }
}

/// Reads entries from the segments for the log in memory, and keeps the reason when it could not.
pub(super) struct Bodies {
    folder: PathBuf,
    /// The segment that was read last.
    segment: Mutex<Option<(u32, File)>>,
    failure: Mutex<Option<LogError>>,
}

impl Bodies {
    pub(super) fn new(folder: &Path) -> Self {
        let folder = folder.to_owned();
        Self { folder, segment: Mutex::new(None), failure: Mutex::new(None) }
    }

    /// Forgets the open segment, which another file has replaced.
    pub(super) fn forget(&self) {
        *self.segment.lock() = None;
    }

    /// The first reason, since the last call, why an entry could not be read.
    pub(super) fn take_failure(&self) -> Option<LogError> {
        self.failure.lock().take()
    }

    fn read(&self, id: &EntryId, location: Location) -> Result<Entry, LogError> {
        let Location { segment, entry, bytes, .. } = location;
        let path = segment_path(&self.folder, u64::from(segment));
        let mut last = self.segment.lock();
        let (_, file) = match last.take().filter(|(number, _)| *number == segment) {
            Some(known) => last.insert(known),
            None => last.insert((segment, File::open(&path).map_err(io("open", &path))?)),
        };
        let mut read = vec![0; (bytes as usize).min(ENTRY_BYTES_MAX)];
        file.read_exact_at(&mut read, u64::from(entry)).map_err(io("read", &path))?;
        let found = Entry::read(&read).ok().filter(|_| EntryId::of(&read) == *id);
        found.ok_or(LogError::Damaged { path, offset: u64::from(entry) })
    }
}

impl Source for Bodies {
    fn entry(&self, id: &EntryId, location: Location) -> Option<Entry> {
        match self.read(id, location) {
            Ok(entry) => Some(entry),
            Err(failure) => {
                self.failure.lock().get_or_insert(failure);
                None
            }
        }
    }
}
