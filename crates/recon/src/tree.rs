//! The prefix tree over a set of digests.
//!
//! Every node covers the digests with one prefix and knows how many they are and their values at
//! the sample points, which is all that a comparison with a peer needs. Nodes with at most
//! [`LEAF_MAX`] digests are leaves, all others have four children: the shape depends on nothing but
//! the set. Peers may split their trees elsewhere, so a [`Subtree`] can be had for any prefix.

use std::slice;

use crate::digest::Digest;
use crate::field::{self, EMPTY, Values};
use crate::prefix::{Prefix, child};

/// Maximum number of digests in a leaf; a node with more has children.
pub const LEAF_MAX: usize = 50;

/// A set of digests that can be compared with that of a peer.
///
/// 32 bytes of memory per digest when built at once, 40 when grown one by one. Equal sets are equal
/// trees.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct PrefixTree {
    root: Node,
}

impl PrefixTree {
    /// The tree of these digests, in any order and with repetitions.
    ///
    /// A million takes about 0.15 seconds of one core, a little less if they are in order.
    #[must_use]
    pub fn build(digests: impl IntoIterator<Item = Digest>) -> Self {
        Self { root: Node::build(&sorted(digests), 0) }
    }

    /// The number of digests.
    #[must_use]
    pub fn len(&self) -> usize {
        self.root.len
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether a digest is in the set.
    #[must_use]
    pub fn contains(&self, digest: &Digest) -> bool {
        let (mut node, mut depth) = (&self.root, 0);
        loop {
            match &node.below {
                Below::Leaf(digests) => return digests.binary_search(digest).is_ok(),
                Below::Inner(children) => node = &children[child(digest.key(), depth)],
            }
            depth += 1;
        }
    }

    /// All digests in order.
    #[must_use]
    pub fn iter(&self) -> Digests<'_> {
        Digests { nodes: vec![&self.root], leaf: [].iter() }
    }

    /// Adds a digest; returns whether it is new.
    pub fn insert(&mut self, digest: Digest) -> bool {
        self.root.insert(&[digest], 0) == 1
    }

    /// Adds digests in any order; returns how many are new. Costs less than one after the other.
    pub fn insert_many(&mut self, digests: impl IntoIterator<Item = Digest>) -> usize {
        self.root.insert(&sorted(digests), 0)
    }

    /// Takes a digest out; returns whether it was there.
    pub fn remove(&mut self, digest: &Digest) -> bool {
        self.root.remove(slice::from_ref(digest), 0) == 1
    }

    /// Takes out digests in any order; returns how many were there. Costs less than one after the
    /// other.
    pub fn remove_many(&mut self, digests: impl IntoIterator<Item = Digest>) -> usize {
        self.root.remove(&sorted(digests), 0)
    }

    /// The digests with a prefix, whether or not it is a node of this tree.
    ///
    /// At most 64 steps and the values of one leaf.
    #[must_use]
    pub fn at(&self, prefix: Prefix) -> Subtree<'_> {
        let (mut node, mut depth) = (&self.root, 0);
        loop {
            match (&node.below, prefix.bits() - 2 * depth) {
                (_, 0) => return Subtree(Place::Node(node)),
                (Below::Leaf(digests), _) => {
                    let start = digests.partition_point(|digest| *digest < prefix.first());
                    let rest = &digests[start..];
                    let len = rest.partition_point(|digest| prefix.contains(digest));
                    return Subtree(Place::Leaf(&rest[..len]));
                }
                (Below::Inner(children), 1) => {
                    let first = prefix.child(depth);
                    return Subtree(Place::Half(&children[first], &children[first + 1]));
                }
                (Below::Inner(children), _) => node = &children[prefix.child(depth)],
            }
            depth += 1;
        }
    }

    /// Computes everything again from the digests and compares.
    ///
    /// # Errors
    ///
    /// The prefix of an inconsistent node: only a bug or bad memory can cause it.
    pub fn check(&self) -> Result<(), Prefix> {
        self.root.check(Prefix::ROOT)
    }
}

impl FromIterator<Digest> for PrefixTree {
    fn from_iter<I: IntoIterator<Item = Digest>>(digests: I) -> Self {
        Self::build(digests)
    }
}

impl Extend<Digest> for PrefixTree {
    fn extend<I: IntoIterator<Item = Digest>>(&mut self, digests: I) {
        self.insert_many(digests);
    }
}

impl<'a> IntoIterator for &'a PrefixTree {
    type Item = Digest;
    type IntoIter = Digests<'a>;

    fn into_iter(self) -> Digests<'a> {
        self.iter()
    }
}

/// The digests of a [`PrefixTree`] that begin with one prefix.
#[derive(Clone, Copy, Debug)]
pub struct Subtree<'a>(Place<'a>);

/// The node below a prefix.
#[derive(Clone, Copy, Debug)]
enum Place<'a> {
    /// A node.
    Node(&'a Node),
    /// Two neighbouring children, if the number of bits is odd.
    Half(&'a Node, &'a Node),
    /// A part of a leaf.
    Leaf(&'a [Digest]),
}

impl<'a> Subtree<'a> {
    /// The number of digests.
    #[must_use]
    pub fn len(self) -> usize {
        match self.0 {
            Place::Node(node) => node.len,
            Place::Half(first, second) => first.len + second.len,
            Place::Leaf(digests) => digests.len(),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Whether the tree has nothing below this prefix but digests.
    #[must_use]
    pub fn is_leaf(self) -> bool {
        match self.0 {
            Place::Node(node) => matches!(node.below, Below::Leaf(_)),
            Place::Half(..) => false,
            Place::Leaf(_) => true,
        }
    }

    /// The values of the digests at the [`POINTS`](crate::POINTS).
    #[must_use]
    pub fn values(self) -> Values {
        match self.0 {
            Place::Node(node) => node.values,
            Place::Half(first, second) => {
                let mut values = first.values;
                field::join(&mut values, &second.values);
                values
            }
            Place::Leaf(digests) => field::product(digests),
        }
    }

    /// The digests in order.
    #[must_use]
    pub fn iter(self) -> Digests<'a> {
        match self.0 {
            Place::Node(node) => Digests { nodes: vec![node], leaf: [].iter() },
            Place::Half(first, second) => Digests { nodes: vec![second, first], leaf: [].iter() },
            Place::Leaf(digests) => Digests { nodes: Vec::new(), leaf: digests.iter() },
        }
    }
}

impl<'a> IntoIterator for Subtree<'a> {
    type Item = Digest;
    type IntoIter = Digests<'a>;

    fn into_iter(self) -> Digests<'a> {
        self.iter()
    }
}

/// Digests of a [`PrefixTree`] in order.
#[derive(Clone, Debug)]
pub struct Digests<'a> {
    /// Still to come, the next one last.
    nodes: Vec<&'a Node>,
    leaf: slice::Iter<'a, Digest>,
}

impl Iterator for Digests<'_> {
    type Item = Digest;

    fn next(&mut self) -> Option<Digest> {
        loop {
            if let Some(digest) = self.leaf.next() {
                return Some(*digest);
            }
            match &self.nodes.pop()?.below {
                Below::Leaf(digests) => self.leaf = digests.iter(),
                Below::Inner(children) => self.nodes.extend(children.iter().rev()),
            }
        }
    }
}

#[derive(Clone, Debug, Eq, PartialEq)]
struct Node {
    len: usize,
    values: Values,
    below: Below,
}

#[derive(Clone, Debug, Eq, PartialEq)]
enum Below {
    /// At most [`LEAF_MAX`] digests in order.
    Leaf(Vec<Digest>),
    Inner(Box<[Node; 4]>),
}

impl Default for Node {
    fn default() -> Self {
        Self { len: 0, values: EMPTY, below: Below::Leaf(Vec::new()) }
    }
}

impl Node {
    /// `digests` are in order, each once.
    fn build(digests: &[Digest], depth: u32) -> Self {
        if digests.len() <= LEAF_MAX {
            let values = field::product(digests);
            return Self { len: digests.len(), values, below: Below::Leaf(digests.to_vec()) };
        }
        let children = Box::new(parts(digests, depth).map(|part| Self::build(part, depth + 1)));
        Self { len: digests.len(), values: joined(&children), below: Below::Inner(children) }
    }

    /// `digests` are in order, each once. Returns how many were new.
    fn insert(&mut self, digests: &[Digest], depth: u32) -> usize {
        let before = self.len;
        match &mut self.below {
            Below::Leaf(leaf) if digests.len() <= LEAF_MAX => {
                for digest in digests {
                    if let Err(at) = leaf.binary_search(digest) {
                        leaf.insert(at, *digest);
                        field::join(&mut self.values, &field::single(*digest));
                    }
                }
                self.len = leaf.len();
                if self.len > LEAF_MAX {
                    *self = Self::build(leaf, depth);
                }
            }
            Below::Leaf(leaf) => {
                *self = Self::build(&sorted(leaf.iter().chain(digests).copied()), depth);
            }
            Below::Inner(children) => {
                for (child, part) in children.iter_mut().zip(parts(digests, depth)) {
                    if !part.is_empty() {
                        self.len += child.insert(part, depth + 1);
                    }
                }
                if self.len != before {
                    self.values = joined(children);
                }
            }
        }
        self.len - before
    }

    /// `digests` are in order, each once. Returns how many were there.
    ///
    /// Values are multiplied again instead of divided: a product of so few costs no more than an
    /// inverse, and there is none of zero.
    fn remove(&mut self, digests: &[Digest], depth: u32) -> usize {
        let before = self.len;
        match &mut self.below {
            Below::Leaf(leaf) => {
                leaf.retain(|digest| digests.binary_search(digest).is_err());
                self.len = leaf.len();
                if self.len != before {
                    self.values = field::product(leaf);
                }
            }
            Below::Inner(children) => {
                for (child, part) in children.iter_mut().zip(parts(digests, depth)) {
                    if !part.is_empty() {
                        self.len -= child.remove(part, depth + 1);
                    }
                }
                if self.len <= LEAF_MAX {
                    let left = Digests { nodes: children.iter().rev().collect(), leaf: [].iter() };
                    let left: Vec<_> = left.collect();
                    *self = Self::build(&left, depth);
                } else if self.len != before {
                    self.values = joined(children);
                }
            }
        }
        before - self.len
    }

    fn check(&self, prefix: Prefix) -> Result<(), Prefix> {
        let (len, values) = match &self.below {
            Below::Leaf(digests) => {
                let in_order = digests.windows(2).all(|pair| pair[0] < pair[1]);
                let in_place = digests.iter().all(|digest| prefix.contains(digest));
                if !in_order || !in_place || digests.len() > LEAF_MAX {
                    return Err(prefix);
                }
                (digests.len(), field::product(digests))
            }
            Below::Inner(children) => {
                for (child, prefix) in children.iter().zip(prefix.children().ok_or(prefix)?) {
                    child.check(prefix)?;
                }
                let len = children.iter().map(|child| child.len).sum();
                if len <= LEAF_MAX {
                    return Err(prefix);
                }
                (len, joined(children))
            }
        };
        if self.len == len && self.values == values { Ok(()) } else { Err(prefix) }
    }
}

/// The values of the union of four nodes.
fn joined(children: &[Node; 4]) -> Values {
    let mut values = children[0].values;
    for child in &children[1..] {
        field::join(&mut values, &child.values);
    }
    values
}

/// Digests in order, shared out to the four children of a node at this depth.
fn parts(digests: &[Digest], depth: u32) -> [&[Digest]; 4] {
    let mut rest = digests;
    [0, 1, 2, 3].map(|number| {
        let len = rest.partition_point(|digest| child(digest.key(), depth) == number);
        let part;
        (part, rest) = rest.split_at(len);
        part
    })
}

/// In order, each once.
fn sorted(digests: impl IntoIterator<Item = Digest>) -> Vec<Digest> {
    let mut digests: Vec<_> = digests.into_iter().collect();
    if !digests.is_sorted() {
        digests.sort_unstable_by_key(|digest| digest.key());
    }
    digests.dedup();
    digests
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// Digests with many long common prefixes.
    fn digest() -> impl Strategy<Value = Digest> {
        let crowded = (0..300u128, 0..4u32, 0..3u32).prop_map(|(number, spread, place)| {
            (number << (8 * spread) ^ 0x1234_5678 << (40 * place)).to_be_bytes()
        });
        prop_oneof![crowded, any::<[u8; 16]>()].prop_map(Digest)
    }

    fn digests(max: usize) -> impl Strategy<Value = Vec<Digest>> {
        prop::collection::vec(digest(), 0..max)
    }

    #[test]
    fn a_leaf_splits_at_fifty_one_digests_and_merges_again() {
        let digest = |n: u8| Digest([n; 16]);
        let mut tree = PrefixTree::build((0..50).map(digest));
        assert!(tree.at(Prefix::ROOT).is_leaf());
        assert!(tree.insert(digest(50)));
        assert!(!tree.insert(digest(50)));
        assert!(!tree.at(Prefix::ROOT).is_leaf());
        assert_eq!(tree.check(), Ok(()));
        assert!(tree.remove(&digest(7)));
        assert!(!tree.remove(&digest(7)));
        assert!(tree.at(Prefix::ROOT).is_leaf());
        assert_eq!(tree, PrefixTree::build((0..51).filter(|n| *n != 7).map(digest)));
    }

    #[test]
    fn digests_that_differ_in_the_last_bit_are_distinguished() {
        let tree = PrefixTree::build((0..51u128).map(|n| Digest(n.to_be_bytes())));
        assert_eq!(tree.check(), Ok(()));
        let two = Digest(2u128.to_be_bytes());
        for (bits, expected) in [(0, 51), (122, 51), (123, 32), (126, 4), (127, 2), (128, 1)] {
            assert_eq!(tree.at(Prefix::new(two, bits).unwrap()).len(), expected, "{bits}");
        }
    }

    #[test]
    fn check_finds_damage() {
        let mut tree = PrefixTree::build((0..=255).map(|n| Digest([n; 16])));
        let Below::Inner(children) = &mut tree.root.below else { panic!("256 in a leaf") };
        children[2].values[3] += crate::Zp::ONE;
        assert_eq!(tree.check().map_err(Prefix::to_bytes), Err(vec![0b1000_0000]));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn the_tree_depends_on_the_set_and_not_on_its_history(
            keep in digests(400), drop in digests(400), more in digests(100), cut in 0..400usize,
        ) {
            let drop: BTreeSet<_> = drop.into_iter().filter(|d| !keep.contains(d)).collect();
            let built = PrefixTree::build(keep.iter().copied());
            prop_assert_eq!(built.check(), Ok(()));
            let set: BTreeSet<_> = keep.iter().copied().collect();
            prop_assert!(built.iter().eq(set.iter().copied()));
            prop_assert_eq!(built.len(), set.len());

            // One after the other, with visitors.
            let mut tree = PrefixTree::default();
            drop.iter().for_each(|digest| assert!(tree.insert(*digest)));
            let new = keep.iter().filter(|digest| tree.insert(**digest)).count();
            prop_assert_eq!(new, set.len());
            prop_assert_eq!(tree.check(), Ok(()));
            drop.iter().for_each(|digest| assert!(tree.remove(digest)));
            prop_assert_eq!(&tree, &built);

            // Many at once.
            let (first, second) = keep.split_at(cut.min(keep.len()));
            let mut tree = PrefixTree::build(first.iter().copied());
            tree.insert_many(drop.iter().copied());
            tree.extend(second.iter().copied());
            prop_assert_eq!(tree.len(), set.len() + drop.len());
            let absent = more.iter().filter(|digest| !set.contains(digest));
            tree.remove_many(drop.iter().chain(absent).copied());
            prop_assert_eq!(tree.check(), Ok(()));
            prop_assert_eq!(&tree, &built);
            for digest in more {
                prop_assert_eq!(tree.contains(&digest), set.contains(&digest));
            }
        }

        #[test]
        fn any_prefix_is_a_subtree(digests in digests(500), other in digest(), bits in 0..=128u32) {
            let tree = PrefixTree::build(digests.iter().copied());
            for digest in digests.first().copied().into_iter().chain([other]) {
                let prefix = Prefix::new(digest, bits).unwrap();
                let set: BTreeSet<_> =
                    digests.iter().filter(|digest| prefix.contains(digest)).copied().collect();
                let within: Vec<_> = set.into_iter().collect();
                let subtree = tree.at(prefix);
                prop_assert!(subtree.iter().eq(within.iter().copied()));
                prop_assert_eq!(subtree.len(), within.len());
                prop_assert_eq!(subtree.values(), field::product(&within));
                prop_assert!(within.len() <= LEAF_MAX || !subtree.is_leaf());
            }
        }
    }
}
