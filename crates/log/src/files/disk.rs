//! The end of a log on disk, where groups of entries are written.

use std::path::Path;

use talaria_disk::{WrittenFile, remove_if_there, rename, sync_folder};

use super::error::LogError;
use super::file::{SEGMENTS, io, new_segment_path, segment_path};
use super::index_file::{End, LastFrame};
use super::load::{Recovered, locations};
use crate::bytes::write_part;
use crate::graph::Location;
use crate::name::EntryId;
use crate::record::{Signed, to_records};
use crate::segment::{FRAME_BYTES_MAX, FRAME_HEADER_BYTES, SEGMENT_BYTES, header, write_frame};

/// The end of the log on disk.
pub(super) struct Disk {
    pub(super) file: WrittenFile,
    pub(super) end: End,
    /// The number of appends that are on disk.
    pub(super) done: u64,
    pub(super) syncs: u64,
}

impl Disk {
    /// The end of the log. What is behind it is overwritten.
    pub(super) fn open(folder: &Path, end: End, recovered: Recovered) -> Result<Self, LogError> {
        let path = segment_path(folder, end.segment);
        let file = WrittenFile::open(&path).map_err(io("open", &path))?;
        let next = segment_path(folder, end.segment + 1);
        let disk = Self { file, end, done: 0, syncs: 0 };
        if recovered == Recovered::Torn {
            disk.overwrite_rest()?;
        }
        // A segment that was begun and has nothing.
        remove_if_there(&next).map_err(io("remove", &next))?;
        Ok(disk)
    }

    /// Begins a segment.
    pub(super) fn begin(folder: &Path, end: End, log: EntryId) -> Result<Self, LogError> {
        let disk = Self::make(&segment_path(folder, end.segment), end, log)?;
        sync_segments(folder)?;
        Ok(disk)
    }

    /// Begins a log. Its first segment has no number until its first entry is on disk: a crash
    /// leaves no log, or a whole one.
    pub(super) fn begin_log(folder: &Path, genesis: &Signed) -> Result<(), LogError> {
        let new = new_segment_path(folder);
        let mut disk = Self::make(&new, End::start(), genesis.id)?;
        disk.write(folder, genesis.id, std::slice::from_ref(genesis))?;
        let first = segment_path(folder, 0);
        rename(&new, &first).map_err(io("make", &first))?;
        sync_segments(folder)
    }

    /// Makes a segment.
    fn make(path: &Path, end: End, log: EntryId) -> Result<Self, LogError> {
        let file = WrittenFile::create_new(path).map_err(io("make", path))?;
        // Blocks that are there already need no change of metadata with each sync.
        file.reserve(SEGMENT_BYTES as u64).map_err(io("make", path))?;
        file.write_all_at(&header(end.segment, log), 0).map_err(io("write", path))?;
        file.sync().map_err(io("write", path))?;
        Ok(Self { file, end, done: 0, syncs: 0 })
    }

    /// Writes entries as one group, with one sync. Entries that do not fit into the segment go to
    /// the next one, in a group of their own. Gives the place of each entry.
    pub(super) fn write(
        &mut self,
        folder: &Path,
        log: EntryId,
        entries: &[Signed],
    ) -> Result<Vec<Location>, LogError> {
        let mut places = Vec::with_capacity(entries.len());
        if entries.is_empty() {
            return Ok(places);
        }
        // Only a bug could write a record that has no places.
        let unplaced = |source| LogError::Unwritable { source };
        let mut records = Vec::new();
        to_records(entries, &mut records);
        let mut frames = Vec::new();
        let (mut first, mut sum) = (0, 0);
        for (at, record) in records.iter().enumerate() {
            if at > first && sum + 4 + record.len() > FRAME_BYTES_MAX / 4 {
                frames.push((first..at, sum));
                (first, sum) = (at, 0);
            }
            sum += 4 + record.len();
        }
        frames.push((first..records.len(), sum));
        let (mut group, mut at) = (self.end.frame, self.end.offset);
        let all: usize = frames.iter().map(|(_, payload)| FRAME_HEADER_BYTES + payload).sum();
        let mut bytes = Vec::with_capacity(all.min(SEGMENT_BYTES));
        for (of_frame, payload) in frames {
            let length = (FRAME_HEADER_BYTES + payload) as u64;
            if at + bytes.len() as u64 + length > SEGMENT_BYTES as u64 {
                self.put(at, &bytes)?;
                let (done, syncs) = (self.done, self.syncs);
                *self = Self { done, syncs, ..Self::begin(folder, self.end.next_segment(), log)? };
                (group, at) = (self.end.frame, self.end.offset);
                bytes.clear();
            }
            let start = usize::try_from(at).unwrap_or(usize::MAX).saturating_add(bytes.len());
            let begin = bytes.len();
            write_frame(&mut bytes, log, self.end.segment, self.end.frame, group, |bytes| {
                for record in &records[of_frame] {
                    write_part(bytes, 4, record);
                    let at = start + bytes.len() - begin - record.len();
                    places.extend(locations(self.end.segment, start, at, record)?);
                }
                Ok(())
            })
            .map_err(unplaced)?;
            let header = *bytes[begin..].first_chunk().expect("a frame has a header");
            self.end.note(LastFrame { offset: start as u64, header });
            self.end.frame += 1;
        }
        self.put(at, &bytes)?;
        Ok(places)
    }

    fn put(&mut self, at: u64, bytes: &[u8]) -> Result<(), LogError> {
        if bytes.is_empty() {
            return Ok(());
        }
        let failed = || io("write", self.file.path());
        self.file.write_all_at(bytes, at).map_err(failed())?;
        self.file.sync_data().map_err(failed())?;
        self.end.offset = at + bytes.len() as u64;
        self.syncs += 1;
        Ok(())
    }

    /// Overwrites the bytes that a crash has left behind the last whole group.
    fn overwrite_rest(&self) -> Result<(), LogError> {
        let failed = || io("write", self.file.path());
        let zeros = vec![0; 1 << 16];
        let mut at = self.end.offset;
        while at < SEGMENT_BYTES as u64 {
            let length = (SEGMENT_BYTES as u64 - at).min(zeros.len() as u64);
            let zeros = &zeros[..usize::try_from(length).unwrap_or(zeros.len())];
            self.file.write_all_at(zeros, at).map_err(failed())?;
            at += length;
        }
        self.file.sync_data().map_err(failed())
    }
}

/// Brings the names of segments to disk.
fn sync_segments(folder: &Path) -> Result<(), LogError> {
    let segments = folder.join(SEGMENTS);
    sync_folder(&segments).map_err(io("write", &segments))
}
