//! A disk for the segments of a log: writes are durable after a sync, and a crash keeps, loses or
//! tears the others.

use talaria_log::{
    EntryId, Signed, Tail, read_record, scan, segment_frame, segment_header, to_records,
};

use super::defect::Defect;
use crate::disk::Fate;
use crate::numbers::Numbers;

/// The unit in which a disk writes.
const SECTOR_BYTES: usize = 512;
/// The length of a segment: small, so that logs have several.
const SEGMENT_BYTES: usize = 24 << 10;
/// The payload of a frame, so that groups have several.
const PAYLOAD_BYTES: usize = 2 << 10;

/// The segments of a node.
#[derive(Clone, Debug)]
pub(super) struct Disk {
    log: EntryId,
    segments: Vec<Vec<u8>>,
    /// Writes since the last sync: segment, offset, bytes.
    pending: Vec<(usize, usize, Vec<u8>)>,
    /// The place behind the last frame of the last segment.
    offset: usize,
    /// The number of the next frame.
    frame: u64,
    /// The number of segments that have room.
    pub(super) segments_max: usize,
    defect: Defect,
}

/// The end of a commit that did not succeed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Stopped {
    /// The disk is full.
    Full,
    /// The power was cut.
    Cut,
}

/// The step of a commit at which the power is cut, if it is.
pub(super) struct Cut(pub(super) Option<usize>);

impl Cut {
    /// Whether the power is on after one more step.
    fn step(&mut self) -> Result<(), Stopped> {
        match &mut self.0 {
            None => Ok(()),
            Some(0) => Err(Stopped::Cut),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
        }
    }
}

/// The content of a disk after a restart.
pub(super) struct Recovered {
    pub(super) entries: Vec<Signed>,
    /// Whether a crash has cut off a group.
    pub(super) is_torn: bool,
}

impl Disk {
    /// An empty disk.
    pub(super) fn new(log: EntryId, defect: Defect) -> Self {
        let mut disk = Self {
            log,
            segments: Vec::new(),
            pending: Vec::new(),
            offset: 0,
            frame: 0,
            segments_max: usize::MAX,
            defect,
        };
        disk.begin(&mut Cut(None)).expect("a new disk has room");
        disk
    }

    /// Begins a segment, as `Disk::begin` of a folder does.
    fn begin(&mut self, cut: &mut Cut) -> Result<(), Stopped> {
        if self.segments.len() >= self.segments_max {
            return Err(Stopped::Full);
        }
        let number = self.segments.len();
        self.segments.push(vec![0; SEGMENT_BYTES]);
        cut.step()?;
        let header = segment_header(number as u64, self.log);
        self.offset = header.len();
        self.pending.push((number, 0, header));
        cut.step()?;
        self.sync();
        cut.step()
    }

    /// Writes entries as one group, with one sync. A group does not go over to another segment.
    pub(super) fn commit(&mut self, entries: &[Signed], cut: &mut Cut) -> Result<(), Stopped> {
        if entries.is_empty() {
            return Ok(());
        }
        let mut records = Vec::new();
        to_records(entries, &mut records);
        let mut payloads: Vec<Vec<u8>> = Vec::new();
        for record in records {
            let length = u32::try_from(record.len()).expect("records are short").to_be_bytes();
            match payloads.last_mut() {
                Some(last) if last.len() + 4 + record.len() <= PAYLOAD_BYTES => {
                    last.extend(length);
                    last.extend(record);
                }
                _ => payloads.push([&length[..], &record].concat()),
            }
        }
        let mut group = self.frame;
        let mut bytes: Vec<u8> = Vec::new();
        for payload in payloads {
            let last = (self.segments.len() - 1) as u64;
            let frame = segment_frame(self.log, last, self.frame, group, &payload);
            if self.offset + bytes.len() + frame.len() > SEGMENT_BYTES {
                self.put(&mut bytes, cut)?;
                self.begin(cut)?;
                group = self.frame;
                let last = (self.segments.len() - 1) as u64;
                bytes = segment_frame(self.log, last, self.frame, group, &payload);
            } else {
                bytes.extend(frame);
            }
            self.frame += 1;
        }
        self.put(&mut bytes, cut)
    }

    fn put(&mut self, bytes: &mut Vec<u8>, cut: &mut Cut) -> Result<(), Stopped> {
        if bytes.is_empty() {
            return Ok(());
        }
        let bytes = std::mem::take(bytes);
        let length = bytes.len();
        self.pending.push((self.segments.len() - 1, self.offset, bytes));
        cut.step()?;
        self.sync();
        self.offset += length;
        cut.step()
    }

    fn sync(&mut self) {
        if self.defect == Defect::SyncsIgnored {
            return;
        }
        for (segment, offset, bytes) in std::mem::take(&mut self.pending) {
            self.segments[segment][offset..offset + bytes.len()].copy_from_slice(&bytes);
        }
    }

    /// The power is cut: each write that is not durable meets `fate`.
    pub(super) fn crash(&mut self, fate: Fate, numbers: &mut Numbers) {
        for (segment, offset, bytes) in std::mem::take(&mut self.pending) {
            if !fate.keeps(numbers) {
                continue;
            }
            let is_torn = fate.tears(numbers);
            let mut at = 0;
            while at < bytes.len() {
                let end = bytes.len().min(at + SECTOR_BYTES - (offset + at) % SECTOR_BYTES);
                if !is_torn || numbers.percent(50) {
                    self.segments[segment][offset + at..offset + end]
                        .copy_from_slice(&bytes[at..end]);
                }
                at = end;
            }
        }
    }

    /// Reads the segments after a restart, by the rules of `LogFolder::open`, and makes the disk
    /// ready for the next frame.
    pub(super) fn recover(&mut self) -> Result<Recovered, String> {
        let mut recovered = Recovered { entries: Vec::new(), is_torn: false };
        let mut frames = 0;
        let count = self.segments.len();
        for number in 0..count {
            let bytes = &self.segments[number];
            if recovered.is_torn {
                return Err(format!("segment {} is torn, and another one follows", number - 1));
            }
            if number > 0 && bytes.iter().all(|&byte| byte == 0) {
                // The crash came before the header was on disk.
                if number + 1 != count {
                    return Err(format!("segment {number} is empty, and another one follows"));
                }
                self.segments.pop();
                break;
            }
            let scan = scan(bytes, frames).map_err(|error| format!("segment {number}: {error}"))?;
            match scan.tail {
                Tail::Clean => {}
                Tail::Torn => recovered.is_torn = true,
                Tail::Damaged => {
                    return Err(format!("segment {number} is damaged at offset {}", scan.end));
                }
            }
            for frame in &scan.frames {
                let mut rest = &bytes[frame.payload.clone()];
                while let Some((length, behind)) = rest.split_first_chunk::<4>() {
                    let (record, behind) = behind.split_at(u32::from_be_bytes(*length) as usize);
                    let entries = read_record(record).map_err(|error| error.to_string())?;
                    recovered.entries.extend(entries);
                    rest = behind;
                }
            }
            frames += scan.frames.len() as u64;
            self.offset = scan.end;
        }
        self.frame = frames;
        if recovered.is_torn {
            let last = self.segments.len() - 1;
            self.segments[last][self.offset..].fill(0);
        }
        Ok(recovered)
    }

    /// From now on, the disk has a defect.
    pub(super) fn set_defect(&mut self, defect: Defect) {
        self.defect = defect;
    }

    /// The number of segments.
    pub(super) fn segments(&self) -> usize {
        self.segments.len()
    }
}
