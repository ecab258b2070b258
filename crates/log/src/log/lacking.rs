//! What nodes tell each other of what they have: heads, and places along chains. An entry is named
//! by its place in the order of admission on this node.

use std::collections::{HashMap, HashSet};

use super::memory::Log;
use crate::graph::Number;
use crate::name::EntryId;

/// Whether an entry is in a copy of the log.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Known {
    /// The entry is admitted.
    Here,
    /// The entry waits for the clock of this node, or for such an entry.
    Ahead,
    /// The entry is not here, or waits for others that are not here.
    Lacking,
}

impl Log {
    /// Whether an entry is here.
    #[must_use]
    pub fn knows(&self, id: &EntryId) -> Known {
        match self.graph.number(id) {
            Some(_) => Known::Here,
            None if self.waiting.is_ahead(id) => Known::Ahead,
            None => Known::Lacking,
        }
    }

    /// The entries without a successor in their chain among those with a place from `from` to
    /// before `end`.
    #[must_use]
    pub fn heads_between(&self, from: u64, end: u64) -> Vec<EntryId> {
        self.tips_between(from, end).into_iter().map(|tip| self.graph.node(tip).id).collect()
    }

    /// Entries with a place before `end` whose successors in their chain all have places from
    /// `end`.
    fn tips_between(&self, from: u64, end: u64) -> Vec<Number> {
        let end = end.min(self.graph.nodes.len() as u64);
        if end == self.graph.nodes.len() as u64 {
            let tips = self.graph.chains.iter().flat_map(|chain| chain.tips.iter().copied());
            return tips.filter(|&tip| u64::from(tip) >= from).collect();
        }
        // The last entries are not on disk yet: few.
        let is_tip =
            |number: &Number| self.graph.children(*number).all(|child| u64::from(child) >= end);
        let tips = self.graph.chains.iter().flat_map(|chain| chain.tips.iter().copied());
        let before = tips.filter_map(|tip| {
            let mut at = Some(tip);
            while let Some(number) = at.filter(|&number| u64::from(number) >= end) {
                at = self.graph.previous(number);
            }
            at
        });
        let found: HashSet<Number> =
            before.filter(|number| u64::from(*number) >= from && is_tip(number)).collect();
        let mut found: Vec<Number> = found.into_iter().collect();
        found.sort_unstable();
        found
    }

    /// Identities along the chains that have a head with a place from `from` to before `end`: the
    /// head, and the entries 1, 2, 4, 8, … places before it, down to one of `shared`. At most
    /// `max`.
    #[must_use]
    pub fn places_between(
        &self,
        (from, end): (u64, u64),
        shared: &HashSet<EntryId>,
        max: usize,
    ) -> Vec<EntryId> {
        let mut found = Vec::new();
        for tip in self.tips_between(from, end) {
            let (mut at, mut distance) = (Some(tip), 0_u64);
            while let Some(number) = at {
                let id = self.graph.node(number).id;
                // The first entry is named, too: who has another one there has another branch.
                at = self.graph.previous(number);
                if shared.contains(&id) {
                    // A head is announced anyway.
                    if distance == 0 {
                        break;
                    }
                    at = None;
                }
                if distance == 0 || distance.is_power_of_two() || at.is_none() {
                    if found.len() == max {
                        return found;
                    }
                    found.push(id);
                }
                distance += 1;
            }
        }
        found
    }

    /// The places of those of some entries whose deletable value is here and not deleted,
    /// ascending.
    #[must_use]
    pub fn places_of_values(&self, ids: &[EntryId]) -> Vec<u64> {
        let here = ids.iter().filter(|id| self.state.has_value(id));
        let mut places: Vec<u64> =
            here.filter_map(|id| self.graph.number(id)).map(u64::from).collect();
        places.sort_unstable();
        places.dedup();
        places
    }

    /// Removes identities that are not here, or are before another one in its chain.
    pub fn keep_last(&self, have: &mut HashSet<EntryId>) {
        let mut by_chain: HashMap<u32, Vec<Number>> = HashMap::new();
        for number in have.iter().filter_map(|id| self.graph.number(id)) {
            let last = by_chain.entry(self.graph.chain_of(number)).or_default();
            if !last.iter().any(|&other| self.graph.is_up_to(number, other)) {
                last.retain(|&other| !self.graph.is_up_to(other, number));
                last.push(number);
            }
        }
        let last = by_chain.into_values().flatten();
        *have = last.map(|number| self.graph.node(number).id).collect();
    }
}
