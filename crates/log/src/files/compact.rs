//! Compaction: deleted values leave the disk, and all entries stay.
//!
//! A segment with deleted values is written anew beside the old one, which it replaces when it is
//! on disk. A crash leaves one of the two, and the next compaction goes on from there.

use std::collections::HashSet;
use std::fs;

use talaria_disk::{WrittenFile, rename, sync_folder};

use super::error::LogError;
use super::file::{io, new_segment_path, segment_path};
use super::folder::LogFolder;
use super::index_file::LastFrame;
use super::load::locations;
use crate::bytes::{Fields, write_part};
use crate::graph::Location;
use crate::log::memory::Log;
use crate::name::EntryId;
use crate::record::{RECORD_BYTES_MAX, read_record, to_records};
use crate::segment::{FRAME_HEADER_BYTES, SEGMENT_BYTES, Scan, Tail, frame, header, scan};

/// The result of a compaction.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Compacted {
    /// The number of deleted values that have left the disk.
    pub values: u64,
    /// The number of segments that were written anew.
    pub segments: u64,
    /// The bytes by which the log became shorter.
    pub bytes: u64,
}

/// A step of a compaction that is done. A crash between two steps loses nothing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CompactStep {
    /// The new form of the segment with this number is on disk, beside the old one.
    Written(u64),
    /// It has replaced the old one.
    Replaced(u64),
}

/// A segment without deleted values.
struct Rewritten {
    bytes: Vec<u8>,
    /// The places of its entries.
    locations: Vec<(EntryId, Location)>,
    values: u64,
    /// The place and the header of its last frame.
    last: Option<LastFrame>,
}

impl Rewritten {
    /// A segment without deleted values. Fails with the place of a frame that has no records.
    fn of(
        log: EntryId,
        bytes: &[u8],
        scan: &Scan,
        deleted: &HashSet<EntryId>,
    ) -> Result<Self, usize> {
        let start = header(scan.segment, log);
        let mut rewritten = Self { bytes: start, locations: Vec::new(), values: 0, last: None };
        for old in &scan.frames {
            let payload = rewritten.payload(&bytes[old.payload.clone()], scan.segment, deleted);
            let payload = payload.ok_or(old.payload.start)?;
            let new = frame(log, scan.segment, old.number, old.group, &payload);
            let offset = rewritten.bytes.len() as u64;
            let header = new.first_chunk().copied();
            rewritten.last = header.map(|header| LastFrame { offset, header });
            rewritten.bytes.extend(new);
        }
        Ok(rewritten)
    }

    /// The payload of the next frame without deleted values. `None` if the bytes are no records.
    fn payload(
        &mut self,
        payload: &[u8],
        segment: u64,
        deleted: &HashSet<EntryId>,
    ) -> Option<Vec<u8>> {
        let start = self.bytes.len();
        let mut fields = Fields(payload);
        let mut out = Vec::with_capacity(payload.len());
        while !fields.0.is_empty() {
            let record = fields.part(4, RECORD_BYTES_MAX, "record").ok()?;
            let mut entries = read_record(record).ok()?;
            let mut removed = 0;
            for signed in &mut entries {
                if signed.opening.is_some() && deleted.contains(&signed.id) {
                    signed.opening = None;
                    removed += 1;
                }
            }
            let mut records = Vec::new();
            let record = if removed == 0 {
                record
            } else {
                to_records(&entries, &mut records);
                // The entries of a record fit into one without their values, too.
                records.first().filter(|_| records.len() == 1)?
            };
            self.values += removed;
            let at = start + FRAME_HEADER_BYTES + out.len() + 4;
            let locations = locations(segment, start, at, record).ok()?;
            self.locations.extend(entries.iter().map(|signed| signed.id).zip(locations));
            write_part(&mut out, 4, record);
        }
        Some(out)
    }
}

impl LogFolder {
    /// Removes deleted values from disk. The entries stay, with the commitments: their signatures
    /// hold as before. Calls `done` after each step, while the log is locked.
    ///
    /// The bytes of old segments are free for other files, and are not overwritten.
    ///
    /// # Errors
    ///
    /// [`LogError::Io`], [`LogError::Damaged`] or [`LogError::Failed`]. The log is whole; what was
    /// removed before stays removed.
    pub fn compact(&self, mut done: impl FnMut(CompactStep)) -> Result<Compacted, LogError> {
        let deleted = self.read(|log| log.state().deleted().clone())?;
        // A deletion must be on disk before its values are gone.
        self.append(|_| Ok::<_, LogError>((Vec::new(), ())))?;
        let mut compacted = Compacted::default();
        if deleted.is_empty() {
            return Ok(compacted);
        }
        let mut disk = self.disk.lock();
        let mut first = 0;
        for number in 0..=disk.end.segment {
            let path = segment_path(self.path(), number);
            let bytes = fs::read(&path).map_err(io("read", &path))?;
            let damaged = |at: usize| LogError::Damaged { path: path.clone(), offset: at as u64 };
            let scan = scan(&bytes, first).map_err(|_| damaged(0))?;
            if scan.tail != Tail::Clean {
                return Err(damaged(scan.end));
            }
            first += scan.frames.len() as u64;
            let rewritten = Rewritten::of(self.id(), &bytes, &scan, &deleted).map_err(damaged)?;
            if rewritten.values == 0 {
                continue;
            }
            if compacted.segments == 0 {
                // It has the values, too.
                self.remove_index()?;
            }
            let length = rewritten.bytes.len();
            let is_last = number == disk.end.segment;
            let mut file = self.write_new(&rewritten.bytes, is_last)?;
            done(CompactStep::Written(number));
            {
                // Whoever reads entries has their places from before or from after.
                let mut last_frame = self.last_frame.lock();
                *last_frame = None;
                self.configure(|log| {
                    let new = new_segment_path(self.path());
                    rename(&new, &path).map_err(io("replace", &path))?;
                    self.bodies.forget();
                    rewritten.locations.iter().for_each(|(id, at)| log.moved(id, *at));
                    Ok::<_, LogError>(())
                })?;
            }
            if let Some(last) = rewritten.last {
                disk.end.replace(number, last);
            }
            if is_last {
                file.renamed(&path);
                (disk.file, disk.end.offset) = (file, length as u64);
            }
            // What is written to the new file from now on must not vanish with its name.
            let segments = self.path().join("segments");
            sync_folder(&segments).map_err(io("write", &segments)).inspect_err(|_| self.fail())?;
            done(CompactStep::Replaced(number));
            compacted.values += rewritten.values;
            compacted.segments += 1;
            compacted.bytes += (scan.end - length) as u64;
        }
        self.configure(Log::drop_deleted);
        Ok(compacted)
    }

    /// Writes the new form of a segment beside it. The last segment has room for more.
    fn write_new(&self, bytes: &[u8], is_last: bool) -> Result<WrittenFile, LogError> {
        let path = new_segment_path(self.path());
        let file = WrittenFile::create(&path).map_err(io("make", &path))?;
        if is_last {
            file.reserve(SEGMENT_BYTES as u64).map_err(io("make", &path))?;
        }
        file.write_all_at(bytes, 0).map_err(io("write", &path))?;
        file.sync().map_err(io("write", &path))?;
        Ok(file)
    }
}
