//! Reading entries on disk again, with what proves them: by identity, along a branch, or as far as
//! a peer lacks them.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use super::bodies::FrameEntries;
use super::error::LogError;
use super::file::{io, segment_path};
use super::folder::LogFolder;
use crate::bytes::Fields;
use crate::graph::{Location, Number};
use crate::log::catch_up::CatchUp;
use crate::log::memory::Log;
use crate::name::EntryId;
use crate::record::{RECORD_BYTES_MAX, Signed, places, read_record};
use crate::segment::{FRAME_BYTES_MAX, FRAME_HEADER_BYTES, frame_at};

impl LogFolder {
    /// An entry with what proves it, from disk. `None` if the log does not have it, or not on disk
    /// yet.
    ///
    /// # Errors
    ///
    /// [`LogError::Io`] or [`LogError::Damaged`].
    pub fn signed(&self, id: &EntryId) -> Result<Option<Signed>, LogError> {
        self.signed_at(*id)
    }

    /// The place of an entry in the order of admission. `None` if it is not admitted.
    ///
    /// # Errors
    ///
    /// [`LogError::Io`].
    pub fn place(&self, id: &EntryId) -> Result<Option<u64>, LogError> {
        self.read(|log| log.number(id).map(u64::from))
    }

    /// The entry with a number in the order of admission, with what proves it. `None` if it is not
    /// on disk.
    pub(super) fn signed_with_number(&self, number: u64) -> Result<Option<Signed>, LogError> {
        let id = self.read(|log| {
            let number = Number::try_from(number).ok().filter(|&one| (one as usize) < log.len())?;
            Some(log.id_of(number))
        })?;
        id.map_or(Ok(None), |id| self.signed_at(id))
    }

    /// The place for a peer that has the entries `heads` and their past; for one that has nothing
    /// without heads. Heads that are not here are left out.
    ///
    /// # Errors
    ///
    /// [`LogError::Io`].
    pub fn catch_up(&self, heads: &[EntryId]) -> Result<CatchUp, LogError> {
        self.read(|log| log.catch_up(heads))
    }

    /// Takes the next entries that the peer lacks, each behind its past: at least one, and no more
    /// when they have `bytes_max` bytes. None if the peer has all that is on disk; later there can
    /// be more.
    ///
    /// The entries of a batch that stand together on disk stay together, so that one record can
    /// have them. A batch has at most 3 MiB.
    ///
    /// # Errors
    ///
    /// [`LogError::Io`] or [`LogError::Damaged`]; then `place` is where it was.
    pub fn next_lacking(
        &self,
        place: &mut CatchUp,
        bytes_max: usize,
    ) -> Result<Vec<Signed>, LogError> {
        let (entries, next) = self.read(|log| {
            let mut next = place.clone();
            let entries = self.piece(log, log.lacking_from(place), bytes_max);
            entries.iter().for_each(|(number, ..)| next.pass(log, *number));
            (entries, next)
        })?;
        let signed = self.signed_all(entries)?;
        *place = next;
        Ok(signed)
    }

    /// The entries of the branch that ends with `tip`, behind the sequence `behind`, ascending;
    /// from the first one without it. At least one if there is one, and no more when they have
    /// `bytes_max` bytes. None if `tip` is not here.
    ///
    /// # Errors
    ///
    /// [`LogError::Io`] or [`LogError::Damaged`].
    pub fn branch_behind(
        &self,
        tip: &EntryId,
        behind: Option<u64>,
        bytes_max: usize,
    ) -> Result<Vec<Signed>, LogError> {
        let entries = self.read(|log| {
            let parts = log.branch_behind(tip, behind).into_iter();
            let numbers = parts.flat_map(|(branch, first, last)| {
                (first..=last).filter_map(move |sequence| log.at_place(branch, sequence))
            });
            self.piece(log, numbers, bytes_max)
        })?;
        self.signed_all(entries)
    }

    /// The next of `numbers` that are on disk, until they have enough bytes.
    #[expect(clippy::unused_self, reason = "the places are those of this folder")]
    fn piece(
        &self,
        log: &Log,
        numbers: impl Iterator<Item = Number>,
        bytes_max: usize,
    ) -> Vec<(Number, EntryId, Location)> {
        let mut piece: Vec<(Number, EntryId, Location)> = Vec::new();
        let mut bytes = 0;
        for number in numbers {
            let Some(location) = log.location(number) else { break };
            let is_together = piece.last().is_some_and(|(_, _, last)| {
                (last.segment, last.record) == (location.segment, location.record)
            });
            if bytes >= bytes_max && !is_together && !piece.is_empty() {
                break;
            }
            bytes += location.bytes as usize + log.state().value_bytes(&log.id_of(number));
            piece.push((number, log.id_of(number), location));
        }
        piece
    }

    fn signed_all(
        &self,
        entries: Vec<(Number, EntryId, Location)>,
    ) -> Result<Vec<Signed>, LogError> {
        let signed = entries.into_iter().map(|(_, id, _)| self.signed_at(id));
        signed.filter_map(Result::transpose).collect()
    }

    fn signed_at(&self, id: EntryId) -> Result<Option<Signed>, LogError> {
        let mut last = self.last_frame.lock();
        // A compaction changes places while it holds the last frame.
        let location = self.read(|log| log.number(&id).and_then(|number| log.location(number)))?;
        let Some(location) = location else { return Ok(None) };
        let known = last
            .take()
            .filter(|known| (known.segment, known.frame) == (location.segment, location.frame));
        let frame = match known {
            Some(frame) => frame,
            None => self.frame(location)?,
        };
        let found = frame.find(&id, location).cloned();
        *last = Some(frame);
        let mut signed = found.ok_or_else(|| self.damaged(location))?;
        self.withhold(&mut signed)?;
        Ok(Some(signed))
    }

    fn damaged(&self, location: Location) -> LogError {
        let path = segment_path(self.path(), u64::from(location.segment));
        LogError::Damaged { path, offset: u64::from(location.frame) }
    }

    /// Reads the frame of an entry again, with its checksum.
    fn frame(&self, location: Location) -> Result<FrameEntries, LogError> {
        let path = segment_path(self.path(), u64::from(location.segment));
        let file = File::open(&path).map_err(io("open", &path))?;
        let mut bytes = vec![0; FRAME_HEADER_BYTES];
        let start = u64::from(location.frame);
        file.read_exact_at(&mut bytes, start).map_err(io("read", &path))?;
        let length: [u8; 4] = bytes[4..8].try_into().unwrap_or_default();
        let length = u32::from_be_bytes(length) as usize;
        if length > FRAME_BYTES_MAX {
            return Err(self.damaged(location));
        }
        bytes.resize(FRAME_HEADER_BYTES + length, 0);
        let payload = &mut bytes[FRAME_HEADER_BYTES..];
        let behind = start + FRAME_HEADER_BYTES as u64;
        file.read_exact_at(payload, behind).map_err(io("read", &path))?;
        let damaged = |_| self.damaged(location);
        let is_whole = frame_at(&bytes, 0, self.id(), u64::from(location.segment)).is_some();
        if !is_whole {
            return Err(self.damaged(location));
        }
        let mut fields = Fields(&bytes[FRAME_HEADER_BYTES..]);
        let mut entries = Vec::new();
        while !fields.0.is_empty() {
            let record = fields.part(4, RECORD_BYTES_MAX, "record").map_err(damaged)?;
            let at = bytes.len() - fields.0.len() - record.len();
            let starts = places(record).map_err(damaged)?.into_iter().map(|entry| {
                let start = u32::try_from(at + entry.start).unwrap_or(u32::MAX);
                location.frame.saturating_add(start)
            });
            entries.extend(starts.zip(read_record(record).map_err(damaged)?));
        }
        let entries = Arc::new(entries);
        Ok(FrameEntries { segment: location.segment, frame: location.frame, entries })
    }
}
