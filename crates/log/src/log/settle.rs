//! Taking up admitted entries: the state, and which entries count after them.

use std::collections::HashSet;
use std::sync::Arc;

use super::admit::weight;
use super::memory::Log;
use super::standing::Standing;
use crate::action::Action;
use crate::entry::Entry;
use crate::graph::{Number, Past};
use crate::name::EntryId;

impl Log {
    /// Computes again which entries count, if that can have changed.
    pub fn settle(&mut self) {
        if !std::mem::take(&mut self.unsettled) {
            return;
        }
        let mut changed = HashSet::new();
        for number in self.graph.numbers() {
            let counts = number == 0 || self.standing_of(number) == Standing::Counts;
            self.note_turn(number, counts);
            let node = &mut self.graph.nodes[number as usize];
            node.honoured = counts;
            if node.applied != counts && node.is_data() {
                node.applied = counts;
                changed.insert((node.object, node.field));
            }
        }
        // Each field depends on its own entries only.
        for (object, field) in changed {
            let graph = &self.graph;
            self.state.forget(*graph.objects.name(object), graph.fields.name(field));
            for number in graph.about(object, Some(field)) {
                let Some(entry) = graph.entry(number) else { continue };
                if let Action::Data(data) = &entry.action {
                    let counts = graph.node(number).applied;
                    self.state.apply(&self.genesis, graph.stamp(number), data, counts);
                }
            }
        }
    }

    /// Adds an admissible entry.
    pub(super) fn add(&mut self, id: EntryId, entry: &Arc<Entry>, past: Past, bytes: usize) {
        if entry.commitment().is_some() {
            self.state.lack(id);
        }
        let bytes = weight(entry, bytes);
        let (number, is_fork) = self.graph.add(id, Arc::clone(entry), past, bytes);
        // A fork ends entries that counted, and so do revocations and choices.
        self.unsettled |= is_fork;
        self.unsettled |= self.note_control(number, entry);
        let counts = self.standing_of(number) == Standing::Counts;
        if let Action::Data(data) = &entry.action {
            self.state.apply(&self.genesis, self.graph.stamp(number), data, counts);
            self.graph.nodes[number as usize].applied = counts;
        }
        if !self.unsettled {
            self.note_turn(number, counts);
            self.graph.nodes[number as usize].honoured = counts;
        }
    }

    /// Takes up an admitted operation on the log itself. Returns whether other entries can count
    /// now, or no longer.
    pub(super) fn note_control(&mut self, number: Number, entry: &Entry) -> bool {
        match &entry.action {
            Action::Revoke(revocation) => {
                self.checkpoints.add_revocation(revocation);
                self.controls.revocations.entry(revocation.target).or_default().push(number);
                self.controls.all_revocations.push(number);
                return true;
            }
            Action::Choose(_) => {
                self.controls.choices.push(number);
                return true;
            }
            Action::Approve(target) => {
                self.controls.approvals.entry(*target).or_default().push(number);
                return true;
            }
            Action::Grant(grant) => {
                self.grants.push(number);
                self.add_deadlines(&grant.certificate);
                for key in grant.certificate.keys() {
                    self.keys.entry(key.name).or_insert_with(|| Arc::clone(key));
                }
            }
            Action::Checkpoint(checkpoint) => return self.add_checkpoint(number, checkpoint),
            Action::Cosign(cosignatures) => return self.add_cosignatures(number, cosignatures),
            Action::PublishNode(key) => self.nodes.publish(number, entry.author(), key),
            Action::EndNode(publication) => self.nodes.end(number, *publication),
            Action::Snapshot(_) => self.snapshots.push(number),
            Action::Data(_) | Action::Genesis(_) => {}
        }
        false
    }
}
