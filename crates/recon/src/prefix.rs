//! A place in the tree: a string of bits.

use std::fmt;

use crate::digest::Digest;

/// The first bits of digests, at most 128; names a subtree.
///
/// Bit 0 is the highest bit of the first byte. An odd number of bits names no node of a tree with
/// four children each, but is still a set of digests.
#[derive(Clone, Copy, Eq, Hash, PartialEq)]
pub struct Prefix {
    /// Left aligned; the bits after the first `len` are zero.
    key: u128,
    len: u8,
}

impl Prefix {
    /// Of no bits: all digests.
    pub const ROOT: Self = Self { key: 0, len: 0 };

    /// The most bits a prefix can have, those of a digest.
    pub const BITS_MAX: u32 = 128;

    /// The first `len` bits of a digest.
    ///
    /// `None` if a digest has fewer.
    #[must_use]
    pub fn new(digest: Digest, len: u32) -> Option<Self> {
        let short = u8::try_from(len).ok().filter(|_| len <= Self::BITS_MAX)?;
        Some(Self { key: digest.key() & mask(len), len: short })
    }

    /// The number of bits.
    #[must_use]
    pub fn bits(self) -> u32 {
        u32::from(self.len)
    }

    /// The bits, in as many bytes as they need, zero behind the last one.
    #[must_use]
    pub fn to_bytes(self) -> Vec<u8> {
        self.key.to_be_bytes()[..self.bits().div_ceil(8) as usize].to_vec()
    }

    /// Whether a digest begins with these bits.
    #[must_use]
    pub fn contains(self, digest: &Digest) -> bool {
        digest.key() & mask(self.bits()) == self.key
    }

    /// The four prefixes that are one level of the tree further down, in order.
    ///
    /// `None` if there is no bit left to tell digests apart.
    #[must_use]
    pub fn children(self) -> Option<[Self; 4]> {
        let len = self.len + 2;
        let shift = Self::BITS_MAX.checked_sub(u32::from(len))?;
        Some([0, 1, 2, 3].map(|child: u128| Self { key: self.key | child << shift, len }))
    }

    /// The index of the child that leads to these bits, of a node at this depth.
    pub(crate) fn child(self, depth: u32) -> usize {
        child(self.key, depth)
    }

    /// The first digest with these bits.
    pub(crate) fn first(self) -> Digest {
        Digest(self.key.to_be_bytes())
    }
}

impl fmt::Debug for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = format!("{:0128b}", self.key);
        write!(f, "Prefix({})", &digits[..usize::from(self.len)])
    }
}

/// The index of the child that leads to a key, of a node at this depth.
pub(crate) fn child(key: u128, depth: u32) -> usize {
    debug_assert!(depth < 64, "distinct digests differ within 128 bits");
    (key >> (126 - 2 * depth)) as usize & 3
}

/// Ones where the first `len` bits are.
fn mask(len: u32) -> u128 {
    u128::MAX.checked_shl(Prefix::BITS_MAX - len).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_numbered_from_the_highest_bit_of_the_first_byte() {
        let mut digest = Digest([0; 16]);
        digest.0[..2].copy_from_slice(&[0b1011_0001, 0b1111_1111]);
        let prefix = Prefix::new(digest, 11).unwrap();
        assert_eq!(prefix.to_bytes(), [0b1011_0001, 0b1110_0000]);
        assert_eq!(format!("{prefix:?}"), "Prefix(10110001111)");
        assert!(prefix.contains(&digest));
        digest.0[1] = 0b1101_1111;
        assert!(!prefix.contains(&digest));
        assert!(Prefix::ROOT.contains(&digest));
        assert_eq!([0, 1, 2, 3].map(|depth| prefix.child(depth)), [0b10, 0b11, 0b00, 0b01]);
    }

    #[test]
    fn children_partition_the_digests() {
        let digest = Digest([0xa7; 16]);
        let mut prefix = Prefix::ROOT;
        while let Some(children) = prefix.children() {
            let ours: Vec<_> = children.iter().filter(|child| child.contains(&digest)).collect();
            assert_eq!(ours, [&Prefix::new(digest, prefix.bits() + 2).unwrap()]);
            prefix = *ours[0];
        }
        assert_eq!(prefix.bits(), 128);
        assert_eq!(Prefix::new(digest, 129), None);
        assert_eq!(Prefix::new(digest, 127).unwrap().children(), None);
    }
}
