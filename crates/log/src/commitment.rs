//! Commitments: what stands in an entry for a deletable value.

/// A commitment to a typed value.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Commitment {
    /// The length of the value in octets.
    pub octets: u32,
    /// The hash of the salt and the octets of the value.
    pub hash: [u8; 32],
}

impl Commitment {
    /// The octets of a commitment as a typed value.
    pub(crate) const TYPED_OCTETS: usize = 37;
}
