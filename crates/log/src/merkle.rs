//! Merkle trees over the identities of entries (RFC 6962, section 2.1): roots, edges, and proofs of
//! inclusion and consistency.

use talaria_cert::sha256;

use crate::name::EntryId;

/// Longest audit path: that of 65,536 leaves.
pub(crate) const PATH_MAX: usize = 16;

type Hash = [u8; 32];

fn leaf(id: &EntryId) -> Hash {
    let mut bytes = [0; 33];
    bytes[1..].copy_from_slice(&id.0);
    sha256(&[&bytes])
}

fn inner(left: &Hash, right: &Hash) -> Hash {
    let mut bytes = [1; 65];
    bytes[1..33].copy_from_slice(left);
    bytes[33..].copy_from_slice(right);
    sha256(&[&bytes])
}

/// The largest power of two below `count`, which is at least 2.
fn split(count: usize) -> usize {
    1 << (usize::BITS - 1 - (count - 1).leading_zeros())
}

/// The root of the tree over `leaves`, of which there is at least one.
#[must_use]
pub fn root(leaves: &[EntryId]) -> Hash {
    match leaves {
        [] => sha256(&[]),
        [one] => leaf(one),
        _ => {
            let (left, right) = leaves.split_at(split(leaves.len()));
            inner(&root(left), &root(right))
        }
    }
}

/// The right edge of a tree: the roots of its complete subtrees, from the left, one for each bit
/// that is 1 in its size. It is all that is needed to append leaves.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Edge {
    size: u64,
    roots: Vec<Hash>,
}

impl Edge {
    /// The edge of a tree with this number of leaves. `None` if the number of roots is another one.
    #[must_use]
    pub fn new(size: u64, roots: Vec<Hash>) -> Option<Self> {
        (roots.len() == size.count_ones() as usize).then_some(Self { size, roots })
    }

    /// The number of leaves of the tree.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The roots of the complete subtrees, from the left.
    #[must_use]
    pub fn roots(&self) -> &[Hash] {
        &self.roots
    }

    /// Appends a leaf.
    pub fn append(&mut self, id: &EntryId) {
        let mut hash = leaf(id);
        for _ in 0..self.size.trailing_ones() {
            hash = inner(&self.roots.pop().expect("a root for each bit"), &hash);
        }
        self.roots.push(hash);
        self.size += 1;
    }

    /// The root of the tree.
    #[must_use]
    pub fn root(&self) -> Hash {
        let joined = self.roots.iter().rev().copied().reduce(|right, left| inner(&left, &right));
        joined.unwrap_or_else(|| sha256(&[]))
    }
}

/// The proof that the tree over the first `old` of `leaves` is the beginning of that over all (RFC
/// 6962, section 2.1.2). Empty if `old` is 0 or all.
///
/// # Panics
///
/// If there are fewer than `old` leaves.
#[must_use]
pub fn consistency(leaves: &[EntryId], old: usize) -> Vec<Hash> {
    fn below(leaves: &[EntryId], old: usize, is_whole: bool, proof: &mut Vec<Hash>) {
        if old == leaves.len() {
            if !is_whole {
                proof.push(root(leaves));
            }
            return;
        }
        let at = split(leaves.len());
        if old <= at {
            below(&leaves[..at], old, is_whole, proof);
            proof.push(root(&leaves[at..]));
        } else {
            below(&leaves[at..], old - at, false, proof);
            proof.push(root(&leaves[..at]));
        }
    }
    assert!(old <= leaves.len(), "an older tree is not larger");
    let mut proof = Vec::new();
    if old > 0 {
        below(leaves, old, true, &mut proof);
    }
    proof
}

/// Whether `proof` shows that a tree of `old.0` leaves with the root `old.1` is the beginning of
/// the tree `new`. Every tree follows the empty one, without a proof.
#[must_use]
pub fn is_consistent(old: (u64, &Hash), new: (u64, &Hash), proof: &[Hash]) -> bool {
    /// The roots of the old and of the new tree, from a proof for a subtree of `count` leaves.
    /// `whole` is the root of the old tree where the subtree begins with all of it.
    fn climb(old: u64, count: u64, whole: Option<Hash>, proof: &[Hash]) -> Option<(Hash, Hash)> {
        if old == count {
            return match (whole, proof) {
                (Some(root), []) => Some((root, root)),
                (None, [root]) => Some((*root, *root)),
                _ => None,
            };
        }
        let (sibling, below) = proof.split_last()?;
        let at = 1 << (u64::BITS - 1 - (count - 1).leading_zeros());
        if old <= at {
            let (older, newer) = climb(old, at, whole, below)?;
            Some((older, inner(&newer, sibling)))
        } else {
            let (older, newer) = climb(old - at, count - at, None, below)?;
            Some((inner(sibling, &older), inner(sibling, &newer)))
        }
    }
    if old.0 == 0 {
        return proof.is_empty() && *old.1 == sha256(&[]);
    }
    old.0 <= new.0 && climb(old.0, new.0, Some(*old.1), proof) == Some((*old.1, *new.1))
}

/// The audit path of each of `leaves`, from the leaf to the root.
#[must_use]
pub fn paths(leaves: &[EntryId]) -> Vec<Vec<Hash>> {
    let tree = Levels::of(leaves.to_vec());
    (0..leaves.len()).map(|at| tree.path(at)).collect()
}

/// A tree with its leaves and the hashes of all levels. Any audit path can be read from it.
#[derive(Debug)]
pub(crate) struct Levels {
    leaves: Vec<EntryId>,
    /// The hashes of the leaves, then those of each level above, up to the root. A node without a
    /// sibling on its right goes up unchanged, which gives the tree of RFC 6962.
    levels: Vec<Vec<Hash>>,
}

impl Levels {
    /// The tree over `leaves`.
    pub(crate) fn of(leaves: Vec<EntryId>) -> Self {
        let mut levels = vec![leaves.iter().map(leaf).collect::<Vec<Hash>>()];
        while let Some(below) = levels.last().filter(|below| below.len() > 1) {
            let above = below.chunks(2).map(|pair| match pair {
                [left, right] => inner(left, right),
                alone => alone[0],
            });
            levels.push(above.collect());
        }
        Self { leaves, levels }
    }

    /// The root.
    pub(crate) fn root(&self) -> Hash {
        self.levels.last().and_then(|top| top.first()).copied().unwrap_or_else(|| sha256(&[]))
    }

    /// The audit path of the leaf number `at`, from the leaf to the root.
    pub(crate) fn path(&self, at: usize) -> Vec<Hash> {
        let siblings = self.levels.iter().enumerate().map(|(height, level)| {
            let sibling = (at >> height) ^ 1;
            level.get(sibling)
        });
        siblings.flatten().copied().collect()
    }

    /// Whether this tree has the root, the number of leaves and, at its place, the leaf.
    pub(crate) fn has(&self, id: &EntryId, at: usize, count: usize, root: &Hash) -> bool {
        self.leaves.len() == count && self.leaves.get(at) == Some(id) && self.root() == *root
    }
}

/// Whether `path` proves that `id` is leaf number `at` of `count` in the tree with this root.
#[must_use]
pub fn is_included(id: &EntryId, at: usize, count: usize, path: &[Hash], root: &Hash) -> bool {
    fn climb(id: &EntryId, at: usize, count: usize, path: &[Hash]) -> Option<Hash> {
        if count == 1 {
            return path.is_empty().then(|| leaf(id));
        }
        let (sibling, below) = path.split_last()?;
        let split = split(count);
        Some(if at < split {
            inner(&climb(id, at, split, below)?, sibling)
        } else {
            inner(sibling, &climb(id, at - split, count - split, below)?)
        })
    }
    at < count && climb(id, at, count, path).as_ref() == Some(root)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaves(count: usize) -> Vec<EntryId> {
        (0..count as u64).map(|n| EntryId(sha256(&[&n.to_be_bytes()]))).collect()
    }

    /// The definition of RFC 6962 for three leaves, written out.
    #[test]
    fn three_leaves_are_hashed_as_in_the_rfc() {
        let leaves = leaves(3);
        let hash = |prefix: u8, parts: &[&[u8]]| sha256(&[&[&[prefix][..]], parts].concat());
        let [one, two, three] = [0, 1, 2].map(|at| hash(0, &[&leaves[at].0]));
        assert_eq!(root(&leaves), hash(1, &[&hash(1, &[&one, &two]), &three]));
    }

    #[test]
    fn an_edge_gives_the_root_of_its_leaves() {
        let leaves = leaves(70);
        let mut edge = Edge::default();
        for count in 0..leaves.len() {
            assert_eq!(edge.root(), root(&leaves[..count]), "{count}");
            assert_eq!(Edge::new(edge.size(), edge.roots().to_vec()).as_ref(), Some(&edge));
            assert_eq!(Edge::new(edge.size() + 2, edge.roots().to_vec()).is_some(), {
                edge.size().count_ones() == (edge.size() + 2).count_ones()
            });
            edge.append(&leaves[count]);
        }
    }

    /// The algorithm of RFC 9162, section 2.1.4.2, which goes from the bits of the sizes and not
    /// from the tree.
    fn is_consistent_by_bits(old: (u64, &Hash), new: (u64, &Hash), proof: &[Hash]) -> bool {
        if old.0 == new.0 {
            return proof.is_empty() && old.1 == new.1;
        }
        let mut path = proof.to_vec();
        if old.0.is_power_of_two() {
            path.insert(0, *old.1);
        }
        let Some((&first, rest)) = path.split_first() else { return false };
        let (mut fn_, mut sn) = (old.0 - 1, new.0 - 1);
        while fn_ & 1 == 1 {
            (fn_, sn) = (fn_ >> 1, sn >> 1);
        }
        let (mut fr, mut sr) = (first, first);
        for c in rest {
            if sn == 0 {
                return false;
            }
            if fn_ & 1 == 1 || fn_ == sn {
                (fr, sr) = (inner(c, &fr), inner(c, &sr));
                while fn_ & 1 == 0 && fn_ != 0 {
                    (fn_, sn) = (fn_ >> 1, sn >> 1);
                }
            } else {
                sr = inner(&sr, c);
            }
            (fn_, sn) = (fn_ >> 1, sn >> 1);
        }
        fr == *old.1 && sr == *new.1 && sn == 0
    }

    #[test]
    fn a_tree_is_consistent_with_its_beginnings_only() {
        let leaves = leaves(35);
        for new in 1..=leaves.len() {
            let all = root(&leaves[..new]);
            let proved = (new as u64, &all);
            for old in 1..=new {
                let beginning = root(&leaves[..old]);
                let proof = consistency(&leaves[..new], old);
                let before = (old as u64, &beginning);
                assert!(is_consistent(before, proved, &proof), "{old} {new}");
                assert!(is_consistent_by_bits(before, proved, &proof), "{old} {new}");
                // Another root, another size, another proof.
                assert!(!is_consistent((before.0, &[7; 32]), proved, &proof));
                assert!(!is_consistent(before, (proved.0, &[7; 32]), &proof));
                if old > 1 {
                    assert!(!is_consistent((before.0 - 1, &beginning), proved, &proof));
                }
                let longer = [&proof[..], &[[0; 32]]].concat();
                assert!(!is_consistent(before, proved, &longer));
                for at in 0..proof.len() {
                    let mut changed = proof.clone();
                    changed[at][3] ^= 1;
                    assert!(!is_consistent(before, proved, &changed), "{old} {new} {at}");
                }
                if !proof.is_empty() {
                    assert!(!is_consistent(before, proved, &proof[1..]));
                }
            }
            assert!(is_consistent((0, &sha256(&[])), proved, &[]));
            assert!(!is_consistent((new as u64 + 1, &all), proved, &[]));
        }
    }

    #[test]
    fn each_leaf_is_proved_at_its_own_place_only() {
        for count in 1..=20 {
            let leaves = leaves(count);
            let (root, paths) = (root(&leaves), paths(&leaves));
            let tree = Levels::of(leaves.clone());
            assert_eq!(tree.root(), root);
            for (at, path) in paths.iter().enumerate() {
                assert!(path.len() <= PATH_MAX);
                for (other, id) in leaves.iter().enumerate() {
                    let fits = is_included(id, at, count, path, &root);
                    assert_eq!(fits, other == at, "{count} {at} {other}");
                    assert_eq!(tree.has(id, at, count, &root), other == at);
                }
                assert!((0..=count).all(
                    |other| other == at || !is_included(&leaves[at], other, count, path, &root)
                ));
                assert!(!tree.has(&leaves[at], at, count + 1, &root));
                assert!(!tree.has(&leaves[at], at, count, &[7; 32]));
                let mut longer = path.clone();
                longer.push([0; 32]);
                assert!(!is_included(&leaves[at], at, count, &longer, &root));
            }
        }
    }
}
