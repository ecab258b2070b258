//! Snapshots in a log: what they must state, which are wrong, and which are in force (decision
//! record 14).
//!
//! A snapshot is computed from the log with nothing but its past, and nothing else depends on it.

use super::error::DraftError;
use super::memory::Log;
use crate::action::{Action, number as operation};
use crate::clock::Clock;
use crate::entry::Entry;
use crate::graph::{self, Number, View};
use crate::merkle::Edge;
use crate::name::{ChainName, EntryId, KeyName};
use crate::snapshot::{BadSnapshot, EVIDENCE_MAX, Snapshot};
use crate::state::State;

/// A snapshot in a log.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SnapshotInfo {
    /// Its entry.
    pub entry: EntryId,
    /// Its author.
    pub author: KeyName,
    /// The clock of the entry: a claim of its author.
    pub clock: Clock,
    /// Its statement. It may be wrong.
    pub snapshot: Snapshot,
    /// The owners who have signed or approved it with entries that count, ascending. None if the
    /// snapshot itself does not count.
    pub agreed: Vec<KeyName>,
    /// Whether they are as many as the threshold says.
    pub is_in_force: bool,
}

/// What a snapshot must state, and the state that it is about.
pub(crate) struct Covered {
    pub(crate) snapshot: Snapshot,
    pub(crate) state: State,
}

impl Log {
    /// The snapshots, in the order of entries.
    #[must_use]
    pub fn snapshots(&self) -> Vec<SnapshotInfo> {
        let mut numbers = self.snapshots.clone();
        numbers.sort_unstable_by_key(|&number| self.graph.stamp(number));
        numbers.into_iter().filter_map(|number| self.snapshot_info(number)).collect()
    }

    /// A snapshot. `None` if the entry is none.
    #[must_use]
    pub fn snapshot(&self, entry: &EntryId) -> Option<SnapshotInfo> {
        self.snapshot_info(self.snapshot_number(entry)?)
    }

    fn snapshot_number(&self, entry: &EntryId) -> Option<Number> {
        let number = self.graph.number(entry)?;
        (self.graph.node(number).operation == operation::SNAPSHOT).then_some(number)
    }

    fn snapshot_info(&self, number: Number) -> Option<SnapshotInfo> {
        let Action::Snapshot(snapshot) = self.graph.control(number) else { return None };
        let node = self.graph.node(number);
        Some(SnapshotInfo {
            entry: node.id,
            author: self.graph.name_of(number).author,
            clock: node.clock,
            snapshot: *snapshot,
            agreed: self.agreeing(number, View::All).into_keys().collect(),
            is_in_force: self.is_in_force(number, View::All),
        })
    }

    /// Whether a snapshot states what its past is. `None` if the entry is no snapshot. The cost is
    /// that of all entries in its past, as if the log was opened without an index.
    #[must_use]
    pub fn check_snapshot(&self, entry: &EntryId) -> Option<Result<(), BadSnapshot>> {
        let number = self.snapshot_number(entry)?;
        let Action::Snapshot(stated) = self.graph.control(number) else { return None };
        Some(self.covered(number).and_then(|covered| stated.check(&covered.snapshot)))
    }

    /// What a snapshot covers.
    pub(crate) fn covered_by(&self, entry: &EntryId) -> Option<Result<Covered, BadSnapshot>> {
        self.snapshot_number(entry).map(|number| self.covered(number))
    }

    fn covered(&self, snapshot: Number) -> Result<Covered, BadSnapshot> {
        self.state_of(&self.graph.past_of(snapshot)).ok_or(BadSnapshot::Unreadable)
    }

    /// A past, as a snapshot states it. `None` if an entry cannot be read.
    fn state_of(&self, past: &graph::Past) -> Option<Covered> {
        let leaves = self.new_leaves(None, past);
        let mut edge = Edge::default();
        leaves.iter().for_each(|id| edge.append(id));
        let state = if leaves.len() == self.graph.nodes.len() {
            // The set of all entries is settled.
            self.state.clone()
        } else {
            self.only(past)?.state
        };
        let snapshot =
            Snapshot { entries: edge.size(), root: edge.root(), state: state.hash(self.id) };
        Some(Covered { snapshot, state })
    }

    /// The log with the entries of a past alone. `None` if an entry cannot be read.
    fn only(&self, past: &graph::Past) -> Option<Self> {
        let mut numbers = self.graph.beyond(past, None);
        // In the order of admission, each is behind its past.
        numbers.sort_unstable();
        let genesis = self.graph.entry(0)?;
        let bytes = genesis.to_bytes().len();
        let mut log = Self::begin_own(genesis, bytes).ok()?;
        self.graph.share_source(&mut log.graph);
        for number in numbers.into_iter().filter(|&number| number > 0) {
            let entry = self.graph.entry(number)?;
            let id = self.graph.node(number).id;
            let place = log.place(&entry).ok()?;
            // They were admitted, so all are within the limits.
            log.add(id, &entry, place.past, 0);
            if let Some(location) = self.graph.node(number).location {
                log.stored(&id, location);
            }
        }
        log.settle();
        Some(log)
    }

    /// A snapshot at the end of the chain of an owner, of all that it has seen.
    ///
    /// # Errors
    ///
    /// Those of [`Self::draft`].
    pub fn draft_snapshot(&self, chain: ChainName, now_ms: u64) -> Result<Entry, DraftError> {
        let nothing = Snapshot { entries: 0, root: [0; 32], state: [0; 32] };
        // What is before the entry says what the snapshot states.
        let mut entry = self.draft(chain, Action::Snapshot(nothing), now_ms)?;
        let number = |id: &EntryId| self.graph.number(id);
        let links: Vec<Number> = entry.links.iter().filter_map(number).collect();
        let past = self.graph.past(number(&entry.previous), &links);
        let covered = self.state_of(&past).ok_or(BadSnapshot::Unreadable)?;
        entry.action = Action::Snapshot(covered.snapshot);
        Ok(entry)
    }

    /// The entries that show that a snapshot is in force: itself, approvals, and the grants by
    /// whose certificates owners signed, with theirs. `None` if they are more than a file can have.
    pub(crate) fn snapshot_evidence(&self, snapshot: &EntryId) -> Option<Vec<EntryId>> {
        let mut found: Vec<Number> = Vec::new();
        let mut next = vec![self.snapshot_number(snapshot)?];
        while let Some(agreed) = next.pop() {
            for number in self.agreeing(agreed, View::All).into_values() {
                found.push(number);
                let grant = self.graph.node(number).grant.map(std::num::NonZero::get);
                next.extend(grant.filter(|grant| !found.contains(grant)));
            }
            if found.len() > EVIDENCE_MAX {
                return None;
            }
        }
        // An entry needs others in its past only.
        found.sort_unstable_by_key(|&number| self.graph.stamp(number));
        found.dedup();
        Some(found.into_iter().map(|number| self.graph.node(number).id).collect())
    }
}
