//! Commitments: what stands in an entry for a deletable value.

/// A commitment to a typed value.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Commitment {
    /// The length of the value in bytes.
    pub bytes: u32,
    /// The hash of the salt and the bytes of the value.
    pub hash: [u8; 32],
}

impl Commitment {
    /// The bytes of a commitment as a typed value.
    pub(crate) const TYPED_BYTES: usize = 37;
}
