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

/// The number of buckets: with ten million rows a bucket has 2,400, and an insertion moves 40 KB at most.
const BUCKETS: usize = 4096;

/// Rows in the order of their keys, in buckets by the first bits of the key.
struct Buckets<T>(Vec<Vec<T>>);

impl<T: Copy> Buckets<T> {
    fn new() -> Self {
        Self((0..BUCKETS).map(|_| Vec::new()).collect())
    }

    fn number(key: &Short) -> usize {
        usize::from(u16::from_be_bytes([key[0], key[1]]) >> 4)
    }

    fn of(&self, key: &Short) -> &[T] {
        &self.0[Self::number(key)]
    }

    fn insert(&mut self, key: &Short, at: usize, row: T) {
        let bucket = &mut self.0[Self::number(key)];
        if bucket.len() == bucket.capacity() {
            // Doubling would waste half of the memory.
            bucket.reserve_exact(bucket.len() / 8 + 4);
        }
        bucket.insert(at, row);
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.0.iter().map(Vec::len).sum()
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
        let key = short(id);
        self.0.of(&key).binary_search(&key).is_ok()
    }

    /// Adds a chunk; false if it was there.
    pub(crate) fn insert(&mut self, id: &Id) -> bool {
        let key = short(id);
        match self.0.of(&key).binary_search(&key) {
            Ok(_) => false,
            Err(at) => {
                self.0.insert(&key, at, key);
                true
            }
        }
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
#[derive(Clone, Copy)]
struct Row {
    key: Short,
    pack: u32,
    /// The offset in blocks of 512 octets.
    block: u32,
    stored: u32,
    /// The length of the plaintext in 31 bits, and whether the chunk is compressed.
    plain: u32,
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
            let key = short(id);
            let at = self.rows.of(&key).partition_point(|row| row.key <= key);
            let block = u32::try_from(offset / 512).expect("a pack is smaller");
            let plain = plain | if *compressed { COMPRESSED } else { 0 };
            self.rows.insert(&key, at, Row { key, pack: number, block, stored: *stored, plain });
        }
    }

    /// The copies of a chunk.
    pub(crate) fn places(&self, id: &Id) -> impl Iterator<Item = Place> {
        let key = short(id);
        let bucket = self.rows.of(&key);
        let first = bucket.partition_point(|row| row.key < key);
        bucket[first..].iter().take_while(move |row| row.key == key).map(|row| Place {
            pack: row.pack,
            offset: u64::from(row.block) * 512,
            stored: row.stored,
            plain: row.plain & !COMPRESSED,
            compressed: row.plain & COMPRESSED != 0,
        })
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
                prop_assert_eq!(&located.places(&id).collect::<Vec<_>>(), places);
            }
            prop_assert_eq!(located.len(), packs.iter().map(Vec::len).sum::<usize>());
            prop_assert_eq!(located.places(&Id([9; 32])).count(), 0);
        }
    }
}
