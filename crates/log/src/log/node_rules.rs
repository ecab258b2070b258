//! The keys of nodes that may connect (`docs/formats/log.md`, Keys of nodes).

use super::memory::Log;
use super::standing::Standing;
use super::trial::Place;
use crate::action::{Action, Target, number as operation};
use crate::entry::Entry;
use crate::graph::{Number, View};
use crate::name::{EntryId, KeyName};
use crate::node::{NODES_MAX, NodeKey};
use crate::refusal::Refusal;

impl Log {
    /// The author and the name of a node that may connect with a key. `None` if the key is not
    /// published, or not any more.
    #[must_use]
    pub fn node(&self, key: &[u8; 32]) -> Option<(KeyName, &NodeKey)> {
        let found = self.nodes.by_key.get(key)?;
        let &number = found.iter().find(|&&number| self.may_connect(number))?;
        self.publication(number).map(|(_, author, node)| (author, node))
    }

    /// The published keys of nodes: the publication, its author, the key, and whether it may
    /// connect. In the order of their admission.
    pub fn nodes(&self) -> impl Iterator<Item = (EntryId, KeyName, &NodeKey, bool)> {
        self.nodes.all.iter().filter_map(|&number| {
            let (id, author, node) = self.publication(number)?;
            Some((id, author, node, self.may_connect(number)))
        })
    }

    fn publication(&self, number: Number) -> Option<(EntryId, KeyName, &NodeKey)> {
        let node = self.graph.node(number);
        if node.operation != operation::PUBLISH_NODE {
            return None;
        }
        match self.graph.control(number) {
            Action::PublishNode(key) => Some((node.id, self.graph.name_of(number).author, key)),
            _ => None,
        }
    }

    fn may_connect(&self, number: Number) -> bool {
        let node = self.graph.node(number);
        let chain = self.graph.name_of(number);
        let targets = [Target::Author(chain.author), Target::Key(chain.author, chain.subkey)];
        self.standing_of(number) == Standing::Counts
            && !self.nodes.ends.contains_key(&node.id)
            && targets.into_iter().all(|target| self.working(target, View::All).next().is_none())
            && node.grant.is_none_or(|grant| self.is_usable(grant.get(), View::All))
    }

    /// Whether the author of a publication has room for it.
    pub(super) fn has_room_for_node(&self, entry: &Entry, place: &Place) -> Result<(), Refusal> {
        let in_past = |number: Number| self.graph.is_in(&place.past, number);
        let theirs = self.nodes.by_author.get(&entry.author()).into_iter().flatten();
        let is_open = |&&number: &&Number| {
            let ends = self.nodes.ends.get(&self.graph.node(number).id);
            in_past(number) && !ends.into_iter().flatten().any(|&end| in_past(end))
        };
        if theirs.filter(is_open).count() < NODES_MAX {
            Ok(())
        } else {
            Err(Refusal::Limit("keys of nodes"))
        }
    }

    /// Whether an entry may end the publication that it names.
    pub(super) fn may_end_node(
        &self,
        entry: &Entry,
        publication: &EntryId,
        place: &Place,
    ) -> Result<(), Refusal> {
        let found = self.graph.number(publication);
        let found = found.filter(|&number| self.graph.is_in(&place.past, number));
        let found = found.and_then(|number| self.publication(number));
        let (_, author, _) = found.ok_or(Refusal::Reference("the key of a node"))?;
        // Without a grant, the author of the entry is an owner.
        if author == entry.author() || entry.grant.is_none() {
            Ok(())
        } else {
            Err(Refusal::NotOwner)
        }
    }
}
