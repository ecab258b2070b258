//! The admitted publications of keys of nodes.

use std::collections::HashMap;

use crate::graph::Number;
use crate::name::{EntryId, KeyName};
use crate::node::NodeKey;

/// Admitted publications of keys of nodes, and their ends.
#[derive(Default)]
pub(super) struct Nodes {
    pub(super) by_key: HashMap<[u8; 32], Vec<Number>>,
    pub(super) by_author: HashMap<KeyName, Vec<Number>>,
    pub(super) all: Vec<Number>,
    pub(super) ends: HashMap<EntryId, Vec<Number>>,
}

impl Nodes {
    pub(super) fn publish(&mut self, number: Number, author: KeyName, node: &NodeKey) {
        self.by_key.entry(node.key).or_default().push(number);
        self.by_author.entry(author).or_default().push(number);
        self.all.push(number);
    }

    pub(super) fn end(&mut self, number: Number, publication: EntryId) {
        self.ends.entry(publication).or_default().push(number);
    }
}
