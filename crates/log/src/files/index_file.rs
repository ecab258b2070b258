//! The index of a folder: the log in memory as of a place in the segments (`docs/formats/log.md`,
//! Index).
//!
//! The segments are the truth. An index that is missing, damaged, of another log, or of segments
//! that are not there any more is removed, and the log is read from the segments.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use talaria_disk::{WrittenFile, remove_if_there, rename, sync_folder};

use super::file::segment_path;
use crate::bytes::{Fields, Malformed};
use crate::items::{Reader, Writer};
use crate::log::memory::Log;
use crate::name::EntryId;
use crate::segment::{FRAME_BYTES_MAX, FRAME_HEADER_BYTES, HEADER_BYTES, frame_at};

const MAGIC: [u8; 5] = *b"TLGI\x02";
/// Entries behind an index that are read again before it is worth another one.
const TAIL_MIN: usize = 8192;

/// The last whole frame of a segment. Its checksum is in the header.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct LastFrame {
    pub(super) offset: u64,
    pub(super) header: [u8; FRAME_HEADER_BYTES],
}

/// A place in the segments behind a whole frame.
#[derive(Clone, Debug)]
pub(super) struct End {
    pub(super) segment: u64,
    pub(super) offset: u64,
    /// The number of the next frame.
    pub(super) frame: u64,
    /// The last frame of each segment. The last segment can have none.
    pub(super) last_frames: Vec<LastFrame>,
}

impl End {
    /// The start of the first segment.
    pub(super) fn start() -> Self {
        Self { segment: 0, offset: HEADER_BYTES as u64, frame: 0, last_frames: Vec::new() }
    }

    /// Notes the last frame of the segment.
    pub(super) fn note(&mut self, last: LastFrame) {
        self.last_frames.truncate(usize::try_from(self.segment).unwrap_or(usize::MAX));
        self.last_frames.push(last);
    }

    /// Whether there is nothing behind the place yet.
    ///
    /// # Errors
    ///
    /// The error of an operation on a file.
    pub(super) fn is_last(&self, folder: &Path) -> io::Result<bool> {
        let file = File::open(segment_path(folder, self.segment))?;
        let mut bytes = [0; FRAME_HEADER_BYTES];
        match file.read_exact_at(&mut bytes, self.offset) {
            Ok(()) if bytes.iter().any(|&byte| byte != 0) => Ok(false),
            Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => Err(error),
            _ => Ok(!segment_path(folder, self.segment + 1).exists()),
        }
    }

    /// Notes the last frame of a segment that was written anew.
    pub(super) fn replace(&mut self, segment: u64, last: LastFrame) {
        let at = usize::try_from(segment).ok();
        if let Some(known) = at.and_then(|at| self.last_frames.get_mut(at)) {
            *known = last;
        }
    }

    /// Whether the last segment has a frame. An index begins to be checked with it.
    pub(super) fn is_behind_frame(&self) -> bool {
        self.last_frames.len() as u64 == self.segment + 1
    }

    /// The start of the next segment.
    pub(super) fn next_segment(&self) -> Self {
        Self { segment: self.segment + 1, offset: HEADER_BYTES as u64, ..self.clone() }
    }

    /// Whether the segments have the last frames, and no bytes of the last one are changed.
    pub(super) fn is_there(&self, folder: &Path, log: EntryId) -> bool {
        let is_same = |(number, last): (u64, &LastFrame)| -> io::Result<bool> {
            let file = File::open(segment_path(folder, number))?;
            let mut header = [0; FRAME_HEADER_BYTES];
            file.read_exact_at(&mut header, last.offset)?;
            if number < self.segment || header != last.header {
                return Ok(header == last.header);
            }
            let length = self.offset.saturating_sub(last.offset);
            let length = length.min((FRAME_HEADER_BYTES + FRAME_BYTES_MAX) as u64);
            let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
            file.read_exact_at(&mut bytes, last.offset)?;
            let frame = frame_at(&bytes, 0, log, number);
            Ok(frame.is_some_and(|frame| {
                frame.payload.end == bytes.len() && frame.number + 1 == self.frame
            }))
        };
        self.is_behind_frame()
            && (0..).zip(&self.last_frames).all(|last| is_same(last).unwrap_or(false))
    }

    fn write(&self, out: &mut Writer<impl io::Write>) {
        out.item(|out| {
            out.extend(MAGIC);
            for part in [self.segment, self.offset, self.frame] {
                out.extend(part.to_be_bytes());
            }
        });
        for last in &self.last_frames {
            out.item(|out| {
                out.extend(last.offset.to_be_bytes());
                out.extend(last.header);
            });
        }
    }

    fn read(input: &mut Reader<impl io::Read>) -> Result<Self, Malformed> {
        let (segment, offset, frame) = input.item(|fields| {
            if fields.array()? != MAGIC {
                return Err(Malformed::Field("start of an index"));
            }
            Ok((fields.u64()?, fields.u64()?, fields.u64()?))
        })?;
        let last = |fields: &mut Fields<'_>| {
            Ok::<_, Malformed>(LastFrame { offset: fields.u64()?, header: fields.array()? })
        };
        let last_frames = (0..=segment).map(|_| input.item(last)).collect::<Result<_, _>>()?;
        Ok(Self { segment, offset, frame, last_frames })
    }
}

fn index_path(folder: &Path) -> PathBuf {
    folder.join("index")
}

/// An index that is being written. Its name is known, so that a compaction finds what a crash has
/// left of it.
fn new_index_path(folder: &Path) -> PathBuf {
    folder.join("index.new")
}

/// Removes the index for good, and what a crash has left of another one.
///
/// # Errors
///
/// The error of an operation on a file.
pub(super) fn remove(folder: &Path) -> io::Result<()> {
    remove_if_there(&index_path(folder))?;
    remove_if_there(&new_index_path(folder))?;
    sync_folder(folder)
}

/// The log of the index, and the place in the segments that it reaches. `None` without an index
/// that fits the segments.
pub(super) fn read(folder: &Path) -> Option<(Log, End)> {
    let file = File::open(index_path(folder)).ok()?;
    let id = log_of(folder)?;
    let mut input = Reader::new(file, id);
    let end = End::read(&mut input).ok().filter(|end| end.is_there(folder, id))?;
    let log = Log::read_index(id, &mut input).ok()?;
    input.finish().then_some((log, end))
}

/// Like [`read`], for the process that has the log open. An index that does not fit is removed.
pub(super) fn load(folder: &Path) -> Option<(Log, End)> {
    let found = read(folder);
    if found.is_none() {
        // It must not fit by chance later. Without the right to remove it, the caller cannot write
        // either.
        let _ = remove_if_there(&index_path(folder));
    }
    found
}

/// The log that the first segment names.
fn log_of(folder: &Path) -> Option<EntryId> {
    let mut header = [0; HEADER_BYTES];
    File::open(segment_path(folder, 0)).ok()?.read_exact_at(&mut header, 0).ok()?;
    header.last_chunk::<32>().copied().map(EntryId)
}

/// Replaces the index. It needs no sync: one that a crash cuts off has no good checksum.
///
/// # Errors
///
/// The error of an operation on a file.
pub(super) fn save(folder: &Path, log: &Log, end: &End) -> io::Result<()> {
    let (path, new) = (index_path(folder), new_index_path(folder));
    let mut out = Writer::new(WrittenFile::create(&new)?, log.id());
    end.write(&mut out);
    log.write_index(&mut out);
    out.finish()?;
    rename(&new, &path)
}

/// The age of an index.
pub(super) struct Age {
    /// The number of its entries.
    entries: usize,
    written: Instant,
    /// The time that writing it took.
    took: Duration,
}

impl Age {
    /// That of an index of so many entries, whose writing began at `started`.
    pub(super) fn of(entries: usize, started: Instant) -> Self {
        let written = Instant::now();
        Self { entries, written, took: written - started }
    }

    /// Whether a log of `all` entries is worth another index.
    pub(super) fn is_old(&self, all: usize) -> bool {
        let tail = all - self.entries;
        tail >= TAIL_MIN && tail >= all / 64
    }

    /// The same while entries are added. Writing an index costs as much as all its entries, so it
    /// gets at most a thirtieth of the time.
    pub(super) fn is_due(&self, all: usize) -> bool {
        self.is_old(all) && self.written.elapsed() >= self.took * 29
    }
}
