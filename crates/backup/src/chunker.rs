//! Content-defined chunking: the cuts follow the content, so an insertion moves few of them.
//!
//! The rolling hash is a gear hash with a secret table (Xia et al., "The Design of Fast
//! Content-Defined Chunking",
//! 2020) over the last 64 bytes. A cut is where its highest bits are zero: more bits below the
//!       average length
//! than above it, so that most chunks have similar lengths. Because the hash depends on 64 bytes
//! only, four parts of a block are searched at once, which takes half of the time of one after the
//! other (`docs/decisions/0005-backup-chunks.md`).
//!
//! The table depends on the group secret, so that the cuts of a known file cannot be predicted from
//! outside. Published attacks recover such tables from the lengths of chosen files' chunks; packs
//! hide these lengths.

use crate::id::Identifiers;

/// The minimum length of a chunk, unless the file ends.
pub(crate) const CHUNK_MIN: usize = 512 << 10;
/// The length from which a cut is eight times as likely.
const CHUNK_TURN: usize = 1 << 20;
/// The maximum length of a chunk.
pub(crate) const CHUNK_MAX: usize = 4 << 20;

/// The number of the highest bits that are zero at a cut before [`CHUNK_TURN`], and after it. With
/// these, the average length is 1.1 MiB.
const BITS_BEFORE: u32 = 21;
const BITS_AFTER: u32 = 18;

/// Bytes that the hash depends on.
const WINDOW: usize = 64;
/// Bytes of each of the four parts that are searched at once.
const LANE: usize = 4096;

/// Finds the ends of chunks.
pub(crate) struct Chunker {
    gear: [u64; 256],
}

impl Chunker {
    /// The chunker of a repository.
    pub(crate) fn new(identifiers: &Identifiers) -> Self {
        let mut bytes = [0; 2048];
        identifiers.secret("chunks", &mut bytes);
        let mut gear = [0; 256];
        for (value, bytes) in gear.iter_mut().zip(bytes.chunks_exact(8)) {
            *value = u64::from_be_bytes(bytes.try_into().expect("eight bytes"));
        }
        Self { gear }
    }

    /// The length of the first chunk of `data`, if a cut is found. The first `searched` bytes were
    /// searched before. Without a cut, the chunk goes on after `data`, or ends with the file.
    pub(crate) fn cut(&self, data: &[u8], searched: usize) -> Option<usize> {
        let data = &data[..data.len().min(CHUNK_MAX)];
        let turn = CHUNK_TURN.min(data.len());
        let cut = self.search(data, searched.max(CHUNK_MIN - 1)..turn, BITS_BEFORE);
        let cut =
            cut.or_else(|| self.search(data, searched.max(CHUNK_TURN)..data.len(), BITS_AFTER));
        cut.map(|last| last + 1).or((data.len() == CHUNK_MAX).then_some(CHUNK_MAX))
    }

    /// The first byte in a range, none of the first 63, at which the highest `bits` bits of the
    /// hash are zero.
    fn search(&self, data: &[u8], range: std::ops::Range<usize>, bits: u32) -> Option<usize> {
        let limit = 1 << (64 - bits);
        let mut start = range.start;
        while start + 4 * LANE <= range.end {
            if self.strip(data, start) < limit {
                // It is rare, so the part may be searched twice.
                let found = self.one(data, start..start + 4 * LANE, limit);
                if found.is_some() {
                    return found;
                }
            }
            start += 4 * LANE;
        }
        (start < range.end).then(|| self.one(data, start..range.end, limit))?
    }

    /// The hash of the bytes before `at`.
    fn before(&self, data: &[u8], at: usize) -> u64 {
        data[at + 1 - WINDOW..at].iter().fold(0, |hash, byte| self.next(hash, *byte))
    }

    fn next(&self, hash: u64, byte: u8) -> u64 {
        (hash << 1).wrapping_add(self.gear[usize::from(byte)])
    }

    fn one(&self, data: &[u8], range: std::ops::Range<usize>, limit: u64) -> Option<usize> {
        let mut hash = self.before(data, range.start);
        let found = data[range.clone()].iter().position(|byte| {
            hash = self.next(hash, *byte);
            hash < limit
        });
        found.map(|at| range.start + at)
    }

    /// The lowest hash in the four parts from `start` on.
    fn strip(&self, data: &[u8], start: usize) -> u64 {
        let lane = |n: usize| {
            let at = start + n * LANE;
            (self.before(data, at), &data[at..at + LANE])
        };
        let [(mut a, one), (mut b, two), (mut c, three), (mut d, four)] = [0, 1, 2, 3].map(lane);
        let mut low = u64::MAX;
        for (((w, x), y), z) in one.iter().zip(two).zip(three).zip(four) {
            a = self.next(a, *w);
            b = self.next(b, *x);
            c = self.next(c, *y);
            d = self.next(d, *z);
            low = low.min(a.min(b).min(c.min(d)));
        }
        low
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use zeroize::Zeroizing;

    use super::*;
    use crate::id::{GroupSecret, RepositoryId};

    fn chunker(byte: u8) -> Chunker {
        let group = GroupSecret(Zeroizing::new([byte; 32]));
        Chunker::new(&Identifiers::new(&group, RepositoryId([2; 16])))
    }

    fn random(bytes: usize) -> Vec<u8> {
        let mut out = vec![0; bytes];
        blake3::Hasher::new().update(b"test").finalize_xof().fill(&mut out);
        out
    }

    fn lengths(chunker: &Chunker, mut data: &[u8]) -> Vec<usize> {
        let mut lengths = Vec::new();
        while !data.is_empty() {
            let length = chunker.cut(data, 0).unwrap_or(data.len());
            lengths.push(length);
            data = &data[length..];
        }
        lengths
    }

    /// The rule as it is written down, without lanes.
    fn cut_by_rule(chunker: &Chunker, data: &[u8]) -> Option<usize> {
        (CHUNK_MIN - 1..data.len().min(CHUNK_MAX))
            .find(|last| {
                let window = &data[last + 1 - WINDOW..=*last];
                let hash = window.iter().fold(0_u64, |hash, byte| {
                    hash.wrapping_mul(2).wrapping_add(chunker.gear[usize::from(*byte)])
                });
                hash.leading_zeros() >= if *last < CHUNK_TURN { BITS_BEFORE } else { BITS_AFTER }
            })
            .map(|last| last + 1)
            .or((data.len() >= CHUNK_MAX).then_some(CHUNK_MAX))
    }

    #[test]
    fn chunks_follow_the_content_and_the_secret() {
        let data = random(40 << 20);
        let chunker = chunker(1);
        let all = lengths(&chunker, &data);
        assert!(all[..all.len() - 1].iter().all(|n| (CHUNK_MIN..=CHUNK_MAX).contains(n)));
        assert!((25..50).contains(&all.len()), "{}", all.len());
        assert_ne!(all, lengths(&self::chunker(2), &data));
        // One byte in front: the cuts are the same a few chunks later.
        let moved = lengths(&chunker, &[b"+", &data[..]].concat());
        assert_eq!(all[all.len() - 20..], moved[moved.len() - 20..]);
        // Zeros have no cuts of their own.
        let zeros = lengths(&chunker, &vec![0; 9 << 20]);
        assert!(zeros.iter().rev().skip(1).all(|n| *n == zeros[0]));
    }

    #[test]
    fn cuts_are_those_of_the_rule() {
        let data = random(12 << 20);
        let chunker = chunker(3);
        let mut rest = &data[..];
        while rest.len() > CHUNK_MAX {
            let cut = chunker.cut(rest, 0);
            assert_eq!(cut, cut_by_rule(&chunker, rest));
            rest = &rest[cut.unwrap()..];
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn a_cut_does_not_depend_on_how_the_content_arrives(steps in proptest::collection::vec(1..700_000_usize, 12)) {
            let data = random(5 << 20);
            let chunker = chunker(4);
            let whole = chunker.cut(&data, 0);
            let (mut there, mut found) = (0, None);
            for step in steps.into_iter().chain([data.len()]) {
                let searched = there;
                there = (there + step).min(data.len());
                found = chunker.cut(&data[..there], searched);
                if found.is_some() {
                    break;
                }
            }
            prop_assert_eq!(found, whole);
        }
    }
}
