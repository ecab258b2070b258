//! Reading a log from its segments: all of it, or what is behind a place.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::{fs, io};

use super::bodies::Bodies;
use super::error::LogError;
use super::file::{io, segment_path};
use super::index_file::{End, LastFrame};
use crate::bytes::{Fields, Malformed};
use crate::graph::Location;
use crate::log::memory::Log;
use crate::record::{RECORD_BYTES_MAX, Signed, places, read_record};
use crate::refusal::Refusal;
use crate::segment::{FRAME_HEADER_BYTES, HEADER_BYTES, Tail, scan_from};

/// The bytes that opening found behind the last whole group.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Recovered {
    /// Nothing.
    Clean,
    /// Bytes of a group that a crash has cut off. They were never acknowledged, and are
    /// overwritten.
    Torn,
}

/// The places of the entries of the record at `at` of a segment, in the frame at `frame`.
pub(super) fn locations(
    segment: u64,
    frame: usize,
    at: usize,
    record: &[u8],
) -> Result<Vec<Location>, Malformed> {
    // A segment has 16 MiB, and a log fewer than 2^32 of them.
    let short = |number: usize| u32::try_from(number).map_err(|_| Malformed::Field("place"));
    let segment = u32::try_from(segment).map_err(|_| Malformed::Field("number of a segment"))?;
    let (frame, at) = (short(frame)?, at);
    let place = |entry: Range<usize>| {
        let (bytes, entry) = (short(entry.len())?, short(at + entry.start)?);
        Ok(Location { segment, frame, record: short(at)?, entry, bytes })
    };
    places(record)?.into_iter().map(place).collect()
}

/// The log of a folder, from its index and what is behind it. `None` if there is none.
pub(super) fn load(
    folder: &Path,
    index: Option<(Log, End)>,
    bodies: &Arc<Bodies>,
) -> Result<Option<(Log, End, Recovered)>, LogError> {
    let (mut log, from) = index.map_or((None, End::start()), |(log, end)| (Some(log), end));
    if let Some(log) = &mut log {
        log.read_from(Arc::clone(bodies) as _);
    }
    let (end, recovered) = each_record(folder, from, |path, signed, location| match &mut log {
        None => {
            let begun = Log::begin_own(Arc::clone(&signed.entry), signed.bytes.len())?;
            let log = log.insert(begun);
            log.read_from(Arc::clone(bodies) as _);
            log.stored(&signed.id, location);
            Ok(())
        }
        Some(log) => restore(log, path, &signed, location),
    })?;
    let Some(mut log) = log else { return Ok(None) };
    log.settle();
    bodies.take_failure().map_or(Ok(()), Err)?;
    Ok(Some((log, end, recovered)))
}

/// Reads on, behind what a log has.
pub(super) fn extend(
    folder: &Path,
    from: End,
    log: &mut Log,
) -> Result<(End, Recovered), LogError> {
    let read =
        each_record(folder, from, |path, signed, location| restore(log, path, &signed, location))?;
    log.settle();
    Ok(read)
}

/// Adds an entry that was admitted before it was written.
fn restore(
    log: &mut Log,
    path: &Path,
    signed: &Signed,
    location: Location,
) -> Result<(), LogError> {
    log.restore(signed).map_err(|refusal| LogError::Stored {
        path: path.to_owned(),
        id: signed.id,
        refusal: Box::new(refusal),
    })?;
    log.stored(&signed.id, location);
    Ok(())
}

/// Calls a function with each entry on disk that is behind `end`.
pub(super) fn each_record(
    folder: &Path,
    mut end: End,
    mut see: impl FnMut(&Path, Signed, Location) -> Result<(), LogError>,
) -> Result<(End, Recovered), LogError> {
    let (first, mut log) = (end.segment, None);
    let mut recovered = Recovered::Clean;
    for number in first.. {
        let path = segment_path(folder, number);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound && number > first => break,
            Err(error) => return Err(io("read", &path)(error)),
        };
        let damaged =
            |offset: usize| LogError::Damaged { path: path.clone(), offset: offset as u64 };
        // Only the last segment has a tail, and begins after all before it were whole.
        if recovered == Recovered::Torn {
            let path = segment_path(folder, number - 1);
            return Err(LogError::Damaged { path, offset: end.offset });
        }
        // A crash may come before the header of a new segment is on disk. Then there is nothing
        // else.
        if number > first && bytes.iter().all(|&byte| byte == 0) {
            break;
        }
        let begin = if number == first { end.offset } else { HEADER_BYTES as u64 };
        let begin = usize::try_from(begin).unwrap_or(usize::MAX);
        let scan = scan_from(&bytes, begin, end.frame).map_err(|_| damaged(0))?;
        if scan.segment != number || log.is_some_and(|log| log != scan.log) {
            return Err(damaged(0));
        }
        match scan.tail {
            Tail::Clean => {}
            Tail::Torn => recovered = Recovered::Torn,
            Tail::Damaged => return Err(damaged(scan.end)),
        }
        for frame in &scan.frames {
            let mut fields = Fields(&bytes[frame.payload.clone()]);
            while !fields.0.is_empty() {
                // The checksum is right, so this was written by another program or version.
                let wrong = |_| damaged(frame.payload.start);
                let record = fields.part(4, RECORD_BYTES_MAX, "record").map_err(wrong)?;
                let at = frame.payload.end - fields.0.len() - record.len();
                let start = frame.payload.start - FRAME_HEADER_BYTES;
                let locations = locations(number, start, at, record).map_err(wrong)?;
                let entries = read_record(record).map_err(wrong)?;
                for (signed, location) in entries.into_iter().zip(locations) {
                    if signed.log() != scan.log {
                        let refusal = Box::new(Refusal::OtherLog);
                        return Err(LogError::Stored {
                            path: path.clone(),
                            id: signed.id,
                            refusal,
                        });
                    }
                    see(&path, signed, location)?;
                }
            }
        }
        log = Some(scan.log);
        (end.segment, end.offset) = (number, scan.end as u64);
        end.frame += scan.frames.len() as u64;
        if let Some(last) = scan.frames.last() {
            let offset = last.payload.start - FRAME_HEADER_BYTES;
            let header = bytes[offset..].first_chunk().expect("a whole frame");
            end.note(LastFrame { offset: offset as u64, header: *header });
        }
    }
    Ok((end, recovered))
}
