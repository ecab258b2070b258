//! Segments: frames behind a header, and zero bytes behind the frames.

use std::convert::Infallible;
use std::ops::Range;

use talaria_cert::sha256;

use crate::bytes::{Fields, Malformed};
use crate::name::EntryId;

/// The length of a segment in bytes.
pub const SEGMENT_BYTES: usize = 16 << 20;
/// Longest payload of a frame, in bytes.
pub const FRAME_BYTES_MAX: usize = 4 << 20;

pub(crate) const HEADER_BYTES: usize = 48;
pub(crate) const FRAME_HEADER_BYTES: usize = 40;
const MAGIC: [u8; 8] = *b"TLGS\x01\0\0\0";
const FRAME_MAGIC: [u8; 4] = *b"TLGF";

/// The header of the segment `number`.
#[must_use]
pub fn header(number: u64, log: EntryId) -> Vec<u8> {
    [&MAGIC[..], &number.to_be_bytes(), &log.0].concat()
}

/// The frame `number` of the log, in a segment and a group, with its payload. A group is named by
/// the number of its first frame.
#[must_use]
pub fn frame(log: EntryId, segment: u64, number: u64, group: u64, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(FRAME_HEADER_BYTES + payload.len());
    let written = write_frame(&mut out, log, segment, number, group, |out| {
        out.extend_from_slice(payload);
        Ok::<_, Infallible>(())
    });
    let Ok(()) = written;
    out
}

/// Appends a [`frame`] whose payload `write` appends.
///
/// # Errors
///
/// The error of `write`.
pub(crate) fn write_frame<E>(
    out: &mut Vec<u8>,
    log: EntryId,
    segment: u64,
    number: u64,
    group: u64,
    write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
) -> Result<(), E> {
    let start = out.len();
    out.extend([0; FRAME_HEADER_BYTES]);
    write(out)?;
    let (head, payload) = out[start..].split_at_mut(FRAME_HEADER_BYTES);
    let length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
    head[..4].copy_from_slice(&FRAME_MAGIC);
    head[4..8].copy_from_slice(&length.to_be_bytes());
    head[8..16].copy_from_slice(&number.to_be_bytes());
    head[16..24].copy_from_slice(&group.to_be_bytes());
    let sum = checksum(log, segment, &head[..24], payload);
    head[24..].copy_from_slice(&sum);
    Ok(())
}

fn checksum(log: EntryId, segment: u64, head: &[u8], payload: &[u8]) -> [u8; 16] {
    let hash = sha256(&[&log.0, &segment.to_be_bytes(), head, payload]);
    let mut sum = [0; 16];
    sum.copy_from_slice(&hash[..16]);
    sum
}

/// A whole frame.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Frame {
    /// The number of the frame in the log.
    pub number: u64,
    /// The number of the first frame of its group.
    pub group: u64,
    /// The place of the payload in the segment.
    pub payload: Range<usize>,
}

/// The bytes behind the last whole frame.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Tail {
    /// Zero bytes.
    Clean,
    /// Bytes of a group that a crash has cut off.
    Torn,
    /// A frame of a later group: the place before it was whole once.
    Damaged,
}

/// The frames of a segment.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Scan {
    /// The number of the segment.
    pub segment: u64,
    /// The log that the header names.
    pub log: EntryId,
    /// The frames, in order.
    pub frames: Vec<Frame>,
    /// The place behind the last frame.
    pub end: usize,
    /// The kind of bytes behind it.
    pub tail: Tail,
}

/// Reads a segment whose first frame has the number `first`.
///
/// # Errors
///
/// [`Malformed`] if the bytes do not begin with the header of a segment.
pub fn scan(bytes: &[u8], first: u64) -> Result<Scan, Malformed> {
    scan_from(bytes, HEADER_BYTES, first)
}

/// Reads a segment behind a place where a group begins, or would.
pub(crate) fn scan_from(bytes: &[u8], begin: usize, first: u64) -> Result<Scan, Malformed> {
    let mut fields = Fields(bytes);
    if fields.array()? != MAGIC {
        return Err(Malformed::Field("start of a segment"));
    }
    let (segment, log) = (fields.u64()?, fields.id()?);
    let mut frames: Vec<Frame> = Vec::new();
    let (mut end, mut number) = (begin, first);
    while let Some(frame) = frame_at(bytes, end, log, segment) {
        let follows = frame.number == number
            && match frames.last() {
                // A frame begins a group or goes on with that of the frame before.
                Some(before) => frame.group == before.group || frame.group == number,
                None => frame.group == number,
            };
        if !follows {
            break;
        }
        end = frame.payload.end;
        number += 1;
        frames.push(frame);
    }
    let rest = bytes.get(end..).ok_or(Malformed::Short)?;
    // Sixteen million bytes are looked at in pieces, which is many times faster than one by one.
    let is_zero = |piece: &[u8]| piece.iter().fold(0, |all, byte| all | byte) == 0;
    let tail = if rest.chunks(4096).all(is_zero) {
        Tail::Clean
    } else if later_group(bytes, end, number, log, segment) {
        Tail::Damaged
    } else {
        Tail::Torn
    };
    Ok(Scan { segment, log, frames, end, tail })
}

/// The whole frame at a place.
pub(crate) fn frame_at(bytes: &[u8], at: usize, log: EntryId, segment: u64) -> Option<Frame> {
    let rest = bytes.get(at..)?;
    let mut fields = Fields(rest);
    if fields.array().ok()? != FRAME_MAGIC {
        return None;
    }
    let length = fields.u32().ok()? as usize;
    let (number, group) = (fields.u64().ok()?, fields.u64().ok()?);
    let sum: [u8; 16] = fields.array().ok()?;
    if length == 0 || length > FRAME_BYTES_MAX || group > number {
        return None;
    }
    let payload = fields.take(length).ok()?;
    let is_whole = checksum(log, segment, &rest[..24], payload) == sum;
    let start = at + FRAME_HEADER_BYTES;
    is_whole.then(|| Frame { number, group, payload: start..start + length })
}

/// Most places that are tried as frames of a later group. Payloads can hold what looks like a
/// frame.
const CANDIDATES_MAX: usize = 4096;

/// Whether a whole frame of a group that began behind frame `number` stands somewhere behind a
/// place.
fn later_group(bytes: &[u8], from: usize, number: u64, log: EntryId, segment: u64) -> bool {
    let places = bytes[from..].windows(4).enumerate().filter(|(_, four)| *four == FRAME_MAGIC);
    places
        .take(CANDIDATES_MAX)
        .filter_map(|(at, _)| frame_at(bytes, from + at, log, segment))
        .any(|frame| frame.group > number)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: EntryId = EntryId([3; 32]);

    /// A segment with groups of frames, and the places of the frames.
    fn segment(groups: &[usize]) -> (Vec<u8>, Vec<usize>) {
        let mut bytes = header(2, LOG);
        let mut places = Vec::new();
        let mut number = 7;
        for &frames in groups {
            let group = number;
            for _ in 0..frames {
                places.push(bytes.len());
                let payload = vec![u8::try_from(number).unwrap(); 90];
                bytes.extend(frame(LOG, 2, number, group, &payload));
                number += 1;
            }
        }
        bytes.resize(bytes.len() + 500, 0);
        (bytes, places)
    }

    #[test]
    fn whole_frames_are_read_to_the_end() {
        let (bytes, places) = segment(&[1, 3, 2]);
        let scan = scan(&bytes, 7).unwrap();
        assert_eq!((scan.frames.len(), scan.tail, scan.segment), (6, Tail::Clean, 2));
        assert_eq!(bytes[scan.frames[2].payload.clone()], [9; 90]);
        assert_eq!(scan.frames[2].payload.start, places[2] + FRAME_HEADER_BYTES);
        // Frames of another place in the log are none of this one.
        assert_eq!(super::scan(&bytes, 8).unwrap().frames, []);
    }

    /// Any cut within the last group is a torn tail. A broken frame before it is damage.
    #[test]
    fn only_the_last_group_can_be_torn() {
        let (bytes, places) = segment(&[1, 3, 2]);
        for (at, &place) in places.iter().enumerate() {
            for offset in [0, 5, 13, 30, FRAME_HEADER_BYTES + 40] {
                let mut broken = bytes.clone();
                broken[place + offset] ^= 1;
                let scan = scan(&broken, 7).unwrap();
                let wanted = if at >= 4 { Tail::Torn } else { Tail::Damaged };
                assert_eq!((scan.frames.len(), scan.tail), (at, wanted), "{at} {offset}");
            }
            let mut lost = bytes.clone();
            lost[place..place + 130].fill(0);
            let tail = scan(&lost, 7).unwrap().tail;
            let wanted = match at {
                0..4 => Tail::Damaged,
                4 => Tail::Torn,
                _ => Tail::Clean,
            };
            assert_eq!(tail, wanted, "{at}");
        }
    }
}
