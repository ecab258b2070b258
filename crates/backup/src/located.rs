//! Compact tables of chunks by identifier.
//!
//! A table keeps the first 16 bytes of an identifier. To find content with the first 16 bytes of
//! one of ten million others costs somebody who knows the group secret 2^104 hashes, and a reader
//! computes the whole identifier in any case.

use std::sync::Arc;

use crate::error::Result;
use crate::id::{Id, ObjectHash};
use crate::index::IndexedPack;
use crate::pack::PackedChunk;
use crate::table::{Buckets, Key, Keyed, Row, Scratch, Table};

fn key(bytes: &[u8; 32]) -> Key {
    bytes[..16].try_into().expect("it is shorter")
}

/// A set of chunks.
pub(crate) struct Present(Table<Key>);

impl Present {
    pub(crate) fn new(scratch: Arc<dyn Scratch>) -> Self {
        Self(Table::new(scratch))
    }

    /// Whether the chunk is in the set.
    pub(crate) fn contains(&self, id: &Id) -> Result<bool> {
        self.0.contains(&key(&id.0))
    }

    /// Adds a chunk; false if it was there.
    pub(crate) fn insert(&mut self, id: &Id) -> Result<bool> {
        let is_new = !self.contains(id)?;
        if is_new {
            self.0.push(key(&id.0))?;
        }
        Ok(is_new)
    }

    /// Adds the chunks of a pack, which the storage must have.
    pub(crate) fn add(&mut self, pack: &IndexedPack) -> Result<()> {
        pack.chunks.iter().try_for_each(|chunk| self.0.push(key(&chunk.id.0)))
    }

    /// Makes searches fast, after the last [`Self::add`].
    pub(crate) fn merge(&mut self) -> Result<()> {
        self.0.merge()
    }
}

/// A chunk in a pack.
#[derive(Clone, Copy, Eq, Ord, PartialEq, PartialOrd)]
struct Copied {
    key: Key,
    pack: u32,
    /// The offset in blocks of 512 bytes.
    block: u32,
    stored: u32,
    /// The length of the plaintext in 31 bits, and whether the chunk is compressed.
    plain: u32,
}

impl Keyed for Copied {
    fn key(&self) -> &Key {
        &self.key
    }
}

impl Row for Copied {
    const BYTES: usize = 32;

    fn write(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.key);
        for number in [self.pack, self.block, self.stored, self.plain] {
            bytes.extend_from_slice(&number.to_be_bytes());
        }
    }

    fn read(bytes: &[u8]) -> Self {
        let (key, numbers) = bytes.split_at(16);
        let number = |at: usize| {
            let bytes = numbers[4 * at..4 * at + 4].try_into();
            u32::from_be_bytes(bytes.expect("it has 4 bytes"))
        };
        Self {
            key: key.try_into().expect("it has 16 bytes"),
            pack: number(0),
            block: number(1),
            stored: number(2),
            plain: number(3),
        }
    }
}

/// The bit of [`Copied::plain`] for compressed chunks.
const COMPRESSED: u32 = 1 << 31;

/// The place of a copy of a chunk.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Place {
    /// The number of the pack in [`Located`].
    pub(crate) pack: u32,
    pub(crate) offset: u64,
    pub(crate) stored: u32,
    pub(crate) plain: u32,
    pub(crate) compressed: bool,
}

/// A pack by its hash.
#[derive(Clone, Copy, Eq, Ord, PartialEq, PartialOrd)]
struct PackNumber {
    key: Key,
    number: u32,
}

impl Keyed for PackNumber {
    fn key(&self) -> &Key {
        &self.key
    }
}

/// The places of all copies of all chunks. A pack takes some 60 bytes of memory.
pub(crate) struct Located {
    packs: Vec<(ObjectHash, u64)>,
    numbers: Buckets<PackNumber>,
    copies: Table<Copied>,
}

impl Located {
    pub(crate) fn new(scratch: Arc<dyn Scratch>) -> Self {
        Self { packs: Vec::new(), numbers: Buckets::new(), copies: Table::new(scratch) }
    }

    /// Adds the chunks of a pack. Two indexes may describe the same pack; if they differ, both
    /// descriptions are kept.
    pub(crate) fn add(&mut self, pack: &IndexedPack) -> Result<()> {
        let identity = (pack.hash, pack.bytes);
        let key_of_pack = key(&pack.hash.0);
        let number = self.number_of(&key_of_pack, &identity).unwrap_or_else(|| {
            let number = u32::try_from(self.packs.len()).expect("2^32 packs hold 64 PiB");
            self.packs.push(identity);
            self.numbers.push(PackNumber { key: key_of_pack, number });
            number
        });
        for PackedChunk { id, offset, stored, plain, compressed, .. } in &pack.chunks {
            let block = u32::try_from(offset / 512).expect("a pack is smaller");
            let plain = plain | if *compressed { COMPRESSED } else { 0 };
            let key = key(&id.0);
            self.copies.push(Copied { key, pack: number, block, stored: *stored, plain })?;
        }
        Ok(())
    }

    fn number_of(&self, key: &Key, identity: &(ObjectHash, u64)) -> Option<u32> {
        let mut known = self.numbers.find(key).map(|row| row.number);
        known.find(|number| self.packs[*number as usize] == *identity)
    }

    /// Makes searches fast, after the last [`Self::add`].
    pub(crate) fn merge(&mut self) -> Result<()> {
        self.copies.merge()
    }

    /// The copies of a chunk.
    pub(crate) fn places(&self, id: &Id) -> Result<Vec<Place>> {
        let place = |row: Copied| Place {
            pack: row.pack,
            offset: u64::from(row.block) * 512,
            stored: row.stored,
            plain: row.plain & !COMPRESSED,
            compressed: row.plain & COMPRESSED != 0,
        };
        Ok(self.copies.find(&key(&id.0))?.into_iter().map(place).collect())
    }

    /// The name and length of a pack.
    pub(crate) fn pack(&self, number: u32) -> (ObjectHash, u64) {
        self.packs[number as usize]
    }

    /// The number of copies of chunks.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.copies.len()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;
    use crate::id::Kind;
    use crate::table::InMemory;

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
            let (mut set, mut model) = (Present::new(Arc::new(InMemory)), BTreeSet::new());
            for id in &ids {
                prop_assert_eq!(set.contains(id).unwrap(), model.contains(&id.0[..16]));
                prop_assert_eq!(set.insert(id).unwrap(), model.insert(id.0[..16].to_vec()));
            }
        }

        #[test]
        fn all_copies_are_found(packs in proptest::collection::vec(proptest::collection::vec(id(), 0..20), 0..10)) {
            let (mut located, mut model) = (Located::new(Arc::new(InMemory)), BTreeMap::<_, Vec<_>>::new());
            for (number, ids) in (0_u32..).zip(&packs) {
                let chunks = (1_u32..).zip(ids).map(|(n, id)| PackedChunk {
                    kind: Kind::Data, id: *id, offset: u64::from(n) * 512, stored: n, plain: 2 * n, compressed: n % 2 == 0,
                });
                let pack = IndexedPack {
                    hash: ObjectHash([u8::try_from(number).unwrap(); 32]), bytes: 1 << 20, chunks: chunks.collect(),
                };
                // An index may say the same again.
                located.add(&pack).unwrap();
                located.add(&pack).unwrap();
                for chunk in &pack.chunks {
                    let &PackedChunk { offset, stored, plain, compressed, .. } = chunk;
                    let place = Place { pack: number, offset, stored, plain, compressed };
                    model.entry(chunk.id.0[..16].to_vec()).or_default().push(place);
                }
            }
            for (key, places) in &model {
                let mut id = Id([0; 32]);
                id.0[..16].copy_from_slice(key);
                prop_assert_eq!(&located.places(&id).unwrap(), places);
            }
            prop_assert!(located.places(&Id([9; 32])).unwrap().is_empty());
        }
    }
}
