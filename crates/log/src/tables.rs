//! Hashes for tables that are looked up for every entry.
//!
//! Nobody outside of the process knows the keys. An identity is a hash already, so mixing it with a
//! key is enough.

use std::hash::{BuildHasher, Hasher, RandomState};

use crate::name::EntryId;

/// Hashes names that others choose freely. They do not know its keys, so they cannot choose names
/// of one hash.
pub(crate) type NameHash = ahash::RandomState;

/// Hashes identities of entries.
#[derive(Debug)]
pub(crate) struct IdHash([u64; 2]);

impl Default for IdHash {
    fn default() -> Self {
        let random = RandomState::new();
        Self([random.hash_one(0), random.hash_one(1)])
    }
}

impl IdHash {
    /// The hash of an identity, from 16 of its bytes.
    pub(crate) fn of(&self, id: &EntryId) -> u64 {
        let word = |at: usize| {
            let bytes = id.0[at..].first_chunk().expect("an identity has 32 bytes");
            u64::from_le_bytes(*bytes)
        };
        fold(word(0) ^ self.0[0], word(8) ^ self.0[1])
    }
}

/// Both halves of a product, mixed.
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    #[expect(clippy::cast_possible_truncation, reason = "the lower half")]
    let low = product as u64;
    low ^ (product >> 64) as u64
}

/// Hashes numbers that this process counts up.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NumberHash;

/// The hash of one number.
#[derive(Debug, Default)]
pub(crate) struct NumberHasher(u64);

impl BuildHasher for NumberHash {
    type Hasher = NumberHasher;

    fn build_hasher(&self) -> NumberHasher {
        NumberHasher::default()
    }
}

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u32(u32::from(byte)));
    }

    fn write_u32(&mut self, number: u32) {
        // An odd constant without a pattern: the golden ratio.
        self.0 = fold(self.0 ^ u64::from(number), 0x9e37_79b9_7f4a_7c15);
    }
}
