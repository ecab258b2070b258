//! Compact tables of chunks by identifier.
//!
//! A table keeps the first 16 octets of an identifier. To find content with the first 16 octets of one of ten
//! million others costs somebody who knows the group secret 2^104 hashes, and a reader computes the whole
//! identifier in any case.

use crate::id::{Id, ObjectHash};
use crate::index::IndexedPack;
use crate::pack::Stored;

/// The start of an identifier.
type Short = [u8; 16];

fn short(id: &Id) -> Short {
    id.0[..16].try_into().expect("it is shorter")
}

/// The number of buckets.
const BUCKETS: usize = 4096;

/// A row with its key, by which rows are sorted.
trait Keyed: Copy + Ord {
    fn key(&self) -> &Short;
}

/// Rows in buckets by the first bits of the key.
struct Buckets<T>(Vec<Bucket<T>>);

/// Sorted rows, then new ones in no order: few, so that searching them costs little.
struct Bucket<T> {
    rows: Vec<T>,
    sorted: usize,
}

impl<T: Keyed> Buckets<T> {
    fn new() -> Self {
        Self((0..BUCKETS).map(|_| Bucket { rows: Vec::new(), sorted: 0 }).collect())
    }

    fn number(key: &Short) -> usize {
        usize::from(u16::from_be_bytes([key[0], key[1]]) >> 4)
    }

    /// The rows with this key.
    fn find<'a>(&'a self, key: &'a Short) -> impl Iterator<Item = &'a T> {
        let Bucket { rows, sorted } = &self.0[Self::number(key)];
        let (old, new) = rows.split_at(*sorted);
        let old = &old[old.partition_point(|row| row.key() < key)..];
        let old = old.iter().take_while(move |row| row.key() == key);
        old.chain(new.iter().filter(move |row| row.key() == key))
    }

    fn push(&mut self, row: T) {
        let Bucket { rows, sorted } = &mut self.0[Self::number(row.key())];
        if rows.len() == rows.capacity() {
            // Doubling would waste half of the memory.
            rows.reserve_exact(rows.len() / 8 + 4);
        }
        rows.push(row);
        // The sort finds the sorted part and merges: each row is moved some 16 times in all.
        if rows.len() - *sorted > 32 + *sorted / 16 {
            rows.sort();
            *sorted = rows.len();
        }
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.0.iter().map(|bucket| bucket.rows.len()).sum()
    }

    /// Octets of memory.
    #[cfg(test)]
    fn memory(&self) -> usize {
        let rows: usize = self.0.iter().map(|bucket| bucket.rows.capacity()).sum();
        rows * size_of::<T>() + BUCKETS * size_of::<Bucket<T>>()
    }
}

impl Keyed for Short {
    fn key(&self) -> &Short {
        self
    }
}

/// A set of chunks, at some 18 octets each.
pub(crate) struct Present(Buckets<Short>);

impl Present {
    pub(crate) fn new() -> Self {
        Self(Buckets::new())
    }

    /// Whether the chunk is in the set.
    pub(crate) fn contains(&self, id: &Id) -> bool {
        self.0.find(&short(id)).next().is_some()
    }

    /// Adds a chunk; false if it was there.
    pub(crate) fn insert(&mut self, id: &Id) -> bool {
        let is_new = !self.contains(id);
        if is_new {
            self.0.push(short(id));
        }
        is_new
    }

    /// Adds the chunks of a pack, which the storage must have.
    pub(crate) fn add(&mut self, pack: &IndexedPack) {
        for chunk in &pack.chunks {
            self.insert(&chunk.id);
        }
    }

    /// The number of chunks.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

/// A chunk in a pack: 32 octets.
#[derive(Clone, Copy, Eq, Ord, PartialEq, PartialOrd)]
struct Row {
    key: Short,
    pack: u32,
    /// The offset in blocks of 512 octets.
    block: u32,
    stored: u32,
    /// The length of the plaintext in 31 bits, and whether the chunk is compressed.
    plain: u32,
}

impl Keyed for Row {
    fn key(&self) -> &Short {
        &self.key
    }
}

/// The bit of [`Row::plain`] for compressed chunks.
const COMPRESSED: u32 = 1 << 31;

/// Where a copy of a chunk is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Place {
    /// The number of the pack in [`Located`].
    pub(crate) pack: u32,
    pub(crate) offset: u64,
    pub(crate) stored: u32,
    pub(crate) plain: u32,
    pub(crate) compressed: bool,
}

/// The places of all copies of all chunks, at some 36 octets each.
pub(crate) struct Located {
    packs: Vec<(ObjectHash, u64)>,
    rows: Buckets<Row>,
}

impl Located {
    pub(crate) fn new() -> Self {
        Self { packs: Vec::new(), rows: Buckets::new() }
    }

    /// Adds the chunks of a pack. A pack may be added only once.
    pub(crate) fn add(&mut self, pack: &IndexedPack) {
        let number = u32::try_from(self.packs.len()).expect("2^32 packs hold 64 PiB");
        self.packs.push((pack.hash, pack.bytes));
        for Stored { id, offset, stored, plain, compressed, .. } in &pack.chunks {
            let block = u32::try_from(offset / 512).expect("a pack is smaller");
            let plain = plain | if *compressed { COMPRESSED } else { 0 };
            self.rows.push(Row { key: short(id), pack: number, block, stored: *stored, plain });
        }
    }

    /// The copies of a chunk.
    pub(crate) fn places(&self, id: &Id) -> Vec<Place> {
        let place = |row: &Row| Place {
            pack: row.pack,
            offset: u64::from(row.block) * 512,
            stored: row.stored,
            plain: row.plain & !COMPRESSED,
            compressed: row.plain & COMPRESSED != 0,
        };
        self.rows.find(&short(id)).map(place).collect()
    }

    /// The name and length of a pack.
    pub(crate) fn pack(&self, number: u32) -> (ObjectHash, u64) {
        self.packs[number as usize]
    }

    /// The number of copies of chunks.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;
    use crate::id::Kind;

    /// Identifiers with few different starts.
    fn id() -> impl Strategy<Value = Id> {
        (0..4_u8, 0..40_u8, any::<[u8; 1]>()).prop_map(|(first, last, [end])| {
            let mut id = [first.wrapping_mul(85); 32];
            (id[15], id[31]) = (last, end);
            Id(id)
        })
    }

    proptest! {
        #[test]
        fn a_set_has_the_chunks_that_were_added(ids in proptest::collection::vec(id(), 0..200)) {
            let (mut set, mut model) = (Present::new(), BTreeSet::new());
            for id in &ids {
                prop_assert_eq!(set.contains(id), model.contains(&id.0[..16]));
                prop_assert_eq!(set.insert(id), model.insert(id.0[..16].to_vec()));
            }
            prop_assert_eq!(set.len(), model.len());
        }

        #[test]
        fn all_copies_are_found(packs in proptest::collection::vec(proptest::collection::vec(id(), 0..20), 0..10)) {
            let (mut located, mut model) = (Located::new(), BTreeMap::<_, Vec<_>>::new());
            for (number, ids) in (0_u32..).zip(&packs) {
                let chunks = (1_u32..).zip(ids).map(|(n, id)| Stored {
                    kind: Kind::Data, id: *id, offset: u64::from(n) * 512, stored: n, plain: 2 * n, compressed: n % 2 == 0,
                });
                let pack = IndexedPack {
                    hash: ObjectHash([u8::try_from(number).unwrap(); 32]), bytes: 1 << 20, chunks: chunks.collect(),
                };
                located.add(&pack);
                for chunk in &pack.chunks {
                    let &Stored { offset, stored, plain, compressed, .. } = chunk;
                    let place = Place { pack: number, offset, stored, plain, compressed };
                    model.entry(chunk.id.0[..16].to_vec()).or_default().push(place);
                }
            }
            for (key, places) in &model {
                let mut id = Id([0; 32]);
                id.0[..16].copy_from_slice(key);
                prop_assert_eq!(&located.places(&id), places);
            }
            prop_assert_eq!(located.len(), packs.iter().map(Vec::len).sum::<usize>());
            prop_assert!(located.places(&Id([9; 32])).is_empty());
        }
    }

    /// The limit of a run is 256 MiB, with ten million chunks: 18 octets a chunk leave 76 MiB for everything else.
    #[test]
    fn a_chunk_takes_18_octets_for_a_writer_and_36_for_a_reader() {
        let (mut present, mut located) = (Present::new(), Located::new());
        let mut octets = blake3::Hasher::new().finalize_xof();
        for number in 0..150_u8 {
            let chunks = (1..=2000).map(|n| {
                let mut id = Id([0; 32]);
                octets.fill(&mut id.0);
                Stored {
                    kind: Kind::Data,
                    id,
                    offset: n * 512,
                    stored: 1,
                    plain: 1,
                    compressed: false,
                }
            });
            let chunks: Vec<Stored> = chunks.collect();
            let pack = IndexedPack { hash: ObjectHash([number; 32]), bytes: 2 << 20, chunks };
            present.add(&pack);
            located.add(&pack);
            assert!(pack.chunks.iter().all(|chunk| present.contains(&chunk.id)));
            assert_eq!(located.places(&pack.chunks[7].id)[0].offset, 8 * 512);
        }
        let count = present.len();
        assert_eq!((count, located.len()), (300_000, 300_000));
        let tables = BUCKETS * size_of::<Bucket<Row>>();
        assert!(present.0.memory() - tables <= 18 * count, "{}", present.0.memory());
        assert!(located.rows.memory() - tables <= 36 * count, "{}", located.rows.memory());
    }
}
