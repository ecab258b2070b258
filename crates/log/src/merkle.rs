//! Merkle trees over the identities of entries (RFC 6962, section 2.1).

use talaria_cert::sha256;

use crate::name::EntryId;

/// Longest audit path: that of 65,536 leaves.
pub(crate) const PATH_MAX: usize = 16;

type Hash = [u8; 32];

fn leaf(id: &EntryId) -> Hash {
    sha256(&[&[0], &id.0])
}

fn inner(left: &Hash, right: &Hash) -> Hash {
    sha256(&[&[1], left, right])
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

/// The root of the tree over `leaves`, of which there is at least one, and the audit path of each, from the leaf to the root.
pub(crate) fn root_and_paths(leaves: &[EntryId]) -> (Hash, Vec<Vec<Hash>>) {
    fn below(leaves: &[EntryId], paths: &mut [Vec<Hash>]) -> Hash {
        match leaves {
            [] => sha256(&[]),
            [one] => leaf(one),
            _ => {
                let at = split(leaves.len());
                let (left_paths, right_paths) = paths.split_at_mut(at);
                let left = below(&leaves[..at], left_paths);
                let right = below(&leaves[at..], right_paths);
                left_paths.iter_mut().for_each(|path| path.push(right));
                right_paths.iter_mut().for_each(|path| path.push(left));
                inner(&left, &right)
            }
        }
    }
    let mut paths = vec![Vec::new(); leaves.len()];
    let root = below(leaves, &mut paths);
    (root, paths)
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
    fn each_leaf_is_proved_at_its_own_place_only() {
        for count in 1..=20 {
            let leaves = leaves(count);
            let (root, paths) = root_and_paths(&leaves);
            assert_eq!(root, super::root(&leaves));
            for (at, path) in paths.iter().enumerate() {
                assert!(path.len() <= PATH_MAX);
                for (other, id) in leaves.iter().enumerate() {
                    let fits = is_included(id, at, count, path, &root);
                    assert_eq!(fits, other == at, "{count} {at} {other}");
                }
                assert!((0..=count).all(
                    |other| other == at || !is_included(&leaves[at], other, count, path, &root)
                ));
                let mut longer = path.clone();
                longer.push([0; 32]);
                assert!(!is_included(&leaves[at], at, count, &longer, &root));
            }
        }
    }
}
