//! Where a signature competes, and its rank there.

use std::cmp::Reverse;

/// The pool in which a signature competes for its place.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Pool {
    Own,
    Designated,
    Foreign,
    Bad,
    /// On a component that the owner has not bound.
    Stray,
}

/// The rank of a signature in its pool: the smallest stay. The parts that are not used in a pool
/// are 0.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Rank {
    /// The class of worth.
    pub(super) class: u8,
    /// The number of better signatures of the same kind, on the same component and by the same key.
    pub(super) behind: usize,
    /// Everything but hard revocations.
    pub(super) is_soft: bool,
    /// Verified signatures only; those dated after tomorrow count as the oldest.
    pub(super) created: Reverse<u32>,
    /// SHA-256 of the component, for strays, so that a component goes as a whole.
    pub(super) component: [u8; 32],
    pub(super) id: [u8; 32],
}

impl Rank {
    /// The rank of a signature of which nothing but its identity is known.
    pub(super) fn unranked(id: [u8; 32]) -> Self {
        Self { class: 3, behind: 0, is_soft: true, created: Reverse(0), component: [0; 32], id }
    }
}
