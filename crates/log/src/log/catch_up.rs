//! The entries that a peer lacks, and those of one branch: in bounded pieces, without looking at
//! all entries.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use super::memory::Log;
use crate::graph::{Location, Number, Source};
use crate::name::EntryId;

/// A place among the admitted entries, for a peer that has some of them. It stays good while the
/// log grows: entries that are admitted later come behind those before.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CatchUp {
    /// The first sequence that the peer lacks, by branch.
    next: Vec<u64>,
}

/// The entries behind a [`CatchUp`], in the order of their admission.
pub(crate) struct Lacking<'a> {
    log: &'a Log,
    /// The next entry of each branch that has one.
    open: BinaryHeap<Reverse<(Number, u32, u64)>>,
}

impl Iterator for Lacking<'_> {
    type Item = Number;

    fn next(&mut self) -> Option<Number> {
        let Reverse((number, branch, sequence)) = self.open.pop()?;
        if let Some(next) = self.log.graph.branches[branch as usize].at(sequence + 1) {
            self.open.push(Reverse((next, branch, sequence + 1)));
        }
        Some(number)
    }
}

impl Log {
    /// The place for a peer that has the entries `heads` and their past. Heads that are not here
    /// are left out: the peer has more than this node.
    #[must_use]
    pub fn catch_up(&self, heads: &[EntryId]) -> CatchUp {
        let graph = &self.graph;
        let mut place = self.start();
        for head in heads.iter().filter_map(|head| graph.number(head)) {
            // Genesis is in every past.
            place.pass(self, 0);
            place.pass(self, head);
            for &(_, tip) in graph.others_of(head) {
                place.pass(self, tip);
            }
        }
        place
    }

    /// The place for a peer that has nothing.
    fn start(&self) -> CatchUp {
        CatchUp { next: self.graph.branches.iter().map(|branch| branch.start).collect() }
    }

    /// The places of the entries that are not at or before one of `have` in its chain, ascending:
    /// each behind its past. At most `max`, the first ones.
    #[must_use]
    pub fn lacking<'a>(&self, have: impl IntoIterator<Item = &'a EntryId>, max: usize) -> Vec<u64> {
        let mut place = self.start();
        for number in have.into_iter().filter_map(|id| self.graph.number(id)) {
            place.pass(self, number);
        }
        self.lacking_from(&place).take(max).map(u64::from).collect()
    }

    /// Takes the identities of the next entries that the peer lacks, at most `most`, each behind
    /// its past. None are left if there is none.
    #[must_use]
    pub fn next_lacking(&self, place: &mut CatchUp, most: usize) -> Vec<EntryId> {
        let numbers: Vec<Number> = self.lacking_from(place).take(most).collect();
        let taken = numbers.into_iter().map(|number| {
            place.pass(self, number);
            self.graph.node(number).id
        });
        taken.collect()
    }

    pub(crate) fn lacking_from(&self, place: &CatchUp) -> Lacking<'_> {
        let branches = self.graph.branches.iter().enumerate();
        let open = branches.filter_map(|(at, branch)| {
            let sequence = place.next.get(at).copied().unwrap_or(branch.start);
            let number = branch.at(sequence)?;
            Some(Reverse((number, u32::try_from(at).ok()?, sequence)))
        });
        Lacking { log: self, open: open.collect() }
    }

    /// The entries of the branch that ends with `tip`, behind a sequence, ascending. From the first
    /// one without it.
    pub(crate) fn branch_behind(&self, tip: &EntryId, behind: Option<u64>) -> Vec<(u32, u64, u64)> {
        let Some(tip) = self.graph.number(tip) else { return Vec::new() };
        let tip = self.graph.node(tip);
        let first = behind.map_or(0, |behind| behind.saturating_add(1));
        let mut parts = Vec::new();
        let (mut at, mut last) = (tip.branch, tip.sequence());
        loop {
            let branch = &self.graph.branches[at as usize];
            if last >= first {
                parts.push((at, branch.start.max(first), last));
            }
            match branch.parent {
                Some(parent) if branch.start > first => (at, last) = parent,
                _ => break,
            }
        }
        parts.reverse();
        parts
    }

    /// The entry at a place of a branch.
    pub(crate) fn at_place(&self, branch: u32, sequence: u64) -> Option<Number> {
        self.graph.branches[branch as usize].at(sequence)
    }

    /// The place of an entry on disk.
    pub(crate) fn location(&self, number: Number) -> Option<Location> {
        self.graph.node(number).location
    }

    pub(crate) fn id_of(&self, number: Number) -> EntryId {
        self.graph.node(number).id
    }

    pub(crate) fn number(&self, id: &EntryId) -> Option<Number> {
        self.graph.number(id)
    }

    /// Reads entries that are on disk from `source`.
    pub(crate) fn read_from(&mut self, source: Arc<dyn Source>) {
        self.graph.read_from(source);
    }

    /// Notes that an entry is on disk. If it changes an object, it is read from there from now on.
    /// Gives its place before.
    pub(crate) fn stored(&mut self, id: &EntryId, location: Location) -> Option<Location> {
        self.graph.stored(self.graph.number(id)?, location)
    }

    /// Notes the new place of an entry whose segment was written anew, unless it stands in a later
    /// segment again, with its value.
    pub(crate) fn moved(&mut self, id: &EntryId, location: Location) {
        let number = self.graph.number(id);
        let last = |number: &Number| self.location(*number);
        let is_here = |last: Location| last.segment == location.segment;
        if let Some(number) = number.filter(|number| last(number).is_some_and(is_here)) {
            self.graph.stored(number, location);
        }
    }

    /// Notes that the entry number `at` in the order of admission is on disk, if it is this one.
    /// Entries come to disk in this order, and a look-up for each would cost more. Gives its place
    /// before.
    pub(crate) fn stored_at(
        &mut self,
        at: u64,
        id: &EntryId,
        location: Location,
    ) -> Option<Location> {
        match Number::try_from(at) {
            Ok(number)
                if self.graph.nodes.get(number as usize).is_some_and(|node| node.id == *id) =>
            {
                self.graph.stored(number, location)
            }
            _ => self.stored(id, location),
        }
    }
}

impl CatchUp {
    /// Goes behind an entry and those before it in its chain.
    pub(crate) fn pass(&mut self, log: &Log, number: Number) {
        let graph = &log.graph;
        for branch in graph.branches.iter().skip(self.next.len()) {
            self.next.push(branch.start);
        }
        let node = graph.node(number);
        let (mut at, mut last) = (node.branch, node.sequence());
        loop {
            let next = &mut self.next[at as usize];
            if *next > last {
                // Whoever has this entry has those before it.
                return;
            }
            *next = last + 1;
            match graph.branches[at as usize].parent {
                Some(parent) => (at, last) = parent,
                None => return,
            }
        }
    }
}
