//! Reading ahead: neighbouring ranges of an object come in one request.
//!
//! A restore reads the chunks of a pack one after the other, and each request costs a round trip.
//! So a range that begins where the one before it ended is read with the bytes after it.

use std::collections::VecDeque;
use std::ops::Range;

/// Bytes of a request that reads ahead.
const AHEAD_BYTES: u64 = 4 << 20;
/// A range that begins this close behind the one before it is its neighbour.
const GAP_BYTES: u64 = 256 << 10;
/// The number of parts that are kept: at most 32 MiB, as no other request is kept.
const PARTS: usize = 8;
/// The number of ends of ranges that are remembered.
const ENDS: usize = 64;

/// The data that was read ahead, and the ends of reads.
#[derive(Default)]
pub(crate) struct Ahead {
    parts: VecDeque<Fetched>,
    ends: VecDeque<(String, u64)>,
}

struct Fetched {
    name: String,
    offset: u64,
    bytes: Vec<u8>,
}

impl Ahead {
    /// A range that was read ahead.
    pub(crate) fn get(&self, name: &str, offset: u64, length: u64) -> Option<Vec<u8>> {
        let part = self.parts.iter().find(|part| {
            let end = part.offset + part.bytes.len() as u64;
            part.name == name && part.offset <= offset && offset.saturating_add(length) <= end
        })?;
        let at = |byte: u64| usize::try_from(byte - part.offset).ok();
        part.bytes.get(at(offset)?..at(offset + length)?).map(<[u8]>::to_vec)
    }

    /// The range to ask for when this one is wanted.
    pub(crate) fn plan(&self, name: &str, offset: u64, length: u64) -> Range<u64> {
        let follows = |end: u64| (end..=end.saturating_add(GAP_BYTES)).contains(&offset);
        let is_next = self.ends.iter().any(|(known, end)| known == name && follows(*end));
        let length = if is_next { length.max(AHEAD_BYTES) } else { length };
        offset..offset.saturating_add(length)
    }

    /// Notes a range that was wanted, and the bytes from its offset on that were read. Returns the
    /// wanted ones.
    pub(crate) fn note(
        &mut self,
        name: &str,
        offset: u64,
        length: u64,
        mut bytes: Vec<u8>,
    ) -> Vec<u8> {
        let wanted = usize::try_from(length).unwrap_or(usize::MAX).min(bytes.len());
        self.ended(name, offset.saturating_add(length));
        if wanted == bytes.len() || bytes.len() as u64 > AHEAD_BYTES {
            bytes.truncate(wanted);
            return bytes;
        }
        let given = bytes[..wanted].to_vec();
        self.parts.push_back(Fetched { name: name.to_owned(), offset, bytes });
        if self.parts.len() > PARTS {
            self.parts.pop_front();
        }
        given
    }

    /// Notes that a read ended here.
    pub(crate) fn ended(&mut self, name: &str, end: u64) {
        match self.ends.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => *known = end,
            None => self.ends.push_back((name.to_owned(), end)),
        }
        if self.ends.len() > ENDS {
            self.ends.pop_front();
        }
    }

    /// Forgets an object.
    pub(crate) fn forget(&mut self, name: &str) {
        self.parts.retain(|part| part.name != name);
        self.ends.retain(|(known, _)| known != name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbouring_ranges_need_one_request() {
        let object: Vec<u8> = (0..10_000_000_u32).map(|n| (n % 251) as u8).collect();
        let (mut ahead, mut requests) = (Ahead::default(), 0);
        let mut read = |name: &str, offset: usize, length: usize| {
            let (from, count) = (offset as u64, length as u64);
            let bytes = if let Some(bytes) = ahead.get(name, from, count) {
                ahead.ended(name, from + count);
                bytes
            } else {
                requests += 1;
                let range = ahead.plan(name, from, count);
                let at = |byte: u64| usize::try_from(byte).unwrap().min(object.len());
                let bytes = object[at(range.start)..at(range.end)].to_vec();
                ahead.note(name, from, count, bytes)
            };
            assert!(bytes == object[offset..offset + length], "{name} {offset} {length}");
            requests
        };
        assert_eq!(read("a", 0, 70_000), 1);
        // Beside it, another one. Its ranges are far from each other.
        assert_eq!(read("b", 0, 70_000), 2);
        assert_eq!(read("b", 5_000_000, 1000), 3);
        assert_eq!(read("b", 9_000_000, 1000), 4);
        for step in 0..80 {
            let requests = read("a", 70_000 + step * 50_000, 49_000);
            assert_eq!(requests, 5, "{step}");
        }
        assert_eq!(read("a", 4_300_000, 9000), 6);
        // The end of the object.
        assert_eq!(read("a", 9_990_000, 10_000), 7);
        for name in 0..200 {
            let name = name.to_string();
            read(&name, 0, 10);
            read(&name, 10, 10);
        }
        assert!(ahead.parts.len() <= PARTS && ahead.ends.len() <= ENDS);
        ahead.forget("199");
        assert!(ahead.get("199", 10, 10).is_none() && ahead.get("198", 10, 10).is_some());
    }
}
