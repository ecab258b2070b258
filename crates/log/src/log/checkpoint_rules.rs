//! Checkpoints of a log: which are admissible, which are valid in a closed set, and what follows
//! from them (decision record 11).
//!
//! Nothing here asks whether the author of an entry counts: the signatures in notes decide. So
//! expiry, revocations and forks can ask for checkpoints without going round in a circle.

use std::collections::BTreeMap;

use super::checkpoint_trees::{Checkpoints, Times, Tree};
use super::error::DraftError;
use super::memory::Log;
use super::trial::Place;
use crate::action::{Action, Grant, number as operation};
use crate::certificate::Certificate;
use crate::checkpoint::{BadCheckpoint, Checkpoint, Cosignatures};
use crate::entry::Entry;
use crate::graph::{Fork, Number, Past, View};
use crate::merkle::{Edge, consistency};
use crate::name::{ChainName, EntryId};
use crate::note::{Note, NoteKey, NoteKind, NoteLine, NoteSecret, TreeHead, origin};
use crate::refusal::Refusal;
use crate::stamp::Stamp;
use crate::witness::WitnessRequest;

/// Most checkpoints for which cosignatures are tried, from the last one.
const COSIGNED_TRIED_MAX: usize = 1000;

/// A checkpoint of a log.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CheckpointInfo {
    /// Its entry; of several with the same tree, the first in the order of entries.
    pub entry: EntryId,
    /// The entry of the checkpoint before; [`EntryId::NONE`] for the first one.
    pub before: EntryId,
    /// The tree.
    pub head: TreeHead,
    /// The time by the checkpointer, in seconds since 1970.
    pub time: u64,
    /// The names of the witnesses who cosigned, each with its first time.
    pub cosigned: Vec<(String, u64)>,
    /// The time by which it existed, as far as enough witnesses say.
    pub existed_by: Option<u64>,
    /// Whether it is valid: cosigned by enough witnesses, and not behind a fork of the
    /// checkpointer.
    pub is_valid: bool,
}

/// Checkpoints that do not see each other, with the same one before them: evidence against the
/// checkpointer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CheckpointFork {
    /// The entry of the checkpoint before; [`EntryId::NONE`] if there is none.
    pub before: EntryId,
    /// The entries of the first checkpoint on each branch, ascending.
    pub branches: Vec<EntryId>,
}

impl Log {
    /// Whether a checkpoint fits its place and its signatures hold.
    pub(super) fn checkpoint_fits(
        &self,
        checkpoint: &Checkpoint,
        place: &Place,
    ) -> Result<(), BadCheckpoint> {
        let key = self.checkpointer().ok_or(BadCheckpoint::NoCheckpointer)?;
        let head = checkpoint.head();
        if head.origin != key.name {
            return Err(BadCheckpoint::Origin(head.origin.clone()));
        }
        let text = head.to_string();
        let [plain, timed, cosigned @ ..] = &checkpoint.note.lines[..] else {
            return Err(BadCheckpoint::Signature);
        };
        key.verify(&text, plain).ok_or(BadCheckpoint::Signature)?;
        let key = NoteKey { kind: NoteKind::Timed, ..key };
        let time = key.verify(&text, timed).ok_or(BadCheckpoint::Signature)?;
        self.check_cosigned(&text, cosigned)?;
        let before = self.checkpoint_before(checkpoint.before, &place.past)?;
        if let Some((number, _)) = before
            && self.noted_time(number) > time
        {
            return Err(BadCheckpoint::Time);
        }
        let (edge, found) = self.edge(before.map(|(number, _)| number), &place.past, head.size)?;
        if found != head.size {
            return Err(BadCheckpoint::Size { size: head.size, found });
        }
        if edge != checkpoint.edge || edge.root() != head.root {
            return Err(BadCheckpoint::Root);
        }
        Ok(())
    }

    /// Whether cosignatures hold for the checkpoint that they name.
    pub(super) fn cosignatures_fit(
        &self,
        cosignatures: &Cosignatures,
        place: &Place,
    ) -> Result<(), Refusal> {
        let number = self.graph.number(&cosignatures.checkpoint);
        let number = number.filter(|&number| self.graph.is_in(&place.past, number));
        let is_one = |&number: &Number| self.graph.node(number).operation == operation::CHECKPOINT;
        match number.filter(is_one).map(|number| self.graph.control(number)) {
            Some(Action::Checkpoint(checkpoint)) => {
                let text = checkpoint.head().to_string();
                Ok(self.check_cosigned(&text, &cosignatures.lines)?)
            }
            _ => Err(Refusal::Reference("the checkpoint")),
        }
    }

    /// Checks that lines are by witnesses, ascending, and hold.
    fn check_cosigned(&self, text: &str, lines: &[NoteLine]) -> Result<(), BadCheckpoint> {
        let mut last = None;
        for line in lines {
            let place = self.witness_of(line).filter(|&place| last.is_none_or(|last| last < place));
            let witness = place.map(|place| self.genesis.witnesses[place].note_key());
            let time = witness.and_then(|witness| witness.verify(text, line));
            time.ok_or_else(|| BadCheckpoint::Cosignature(line.name.clone()))?;
            last = place;
        }
        Ok(())
    }

    /// The place of the witness who is named in a line.
    fn witness_of(&self, line: &NoteLine) -> Option<usize> {
        let is_theirs = |key: NoteKey| key.name == line.name && key.id() == line.id;
        self.genesis.witnesses.iter().position(|witness| is_theirs(witness.note_key()))
    }

    /// The entry and the tree of the checkpoint that another one names as the one before it.
    fn checkpoint_before(
        &self,
        before: EntryId,
        past: &Past,
    ) -> Result<Option<(Number, usize)>, BadCheckpoint> {
        let checkpoints = &self.checkpoints;
        let (found, next) = if before.is_none() {
            (None, &checkpoints.first)
        } else {
            let number = self.graph.number(&before);
            let number = number.filter(|&number| self.graph.is_in(past, number));
            let found = number
                .and_then(|number| Some((number, *checkpoints.by_entry.get(&number)?)))
                .ok_or(BadCheckpoint::Before)?;
            (Some(found), &checkpoints.trees[found.1].after)
        };
        let is_there = |&tree: &usize| {
            let entries = &checkpoints.trees[tree].entries;
            entries.iter().any(|(number, _)| self.graph.is_in(past, *number))
        };
        if next.iter().any(is_there) { Err(BadCheckpoint::Before) } else { Ok(found) }
    }

    /// The edge of the tree over a past, and the number of its leaves. If there are more than
    /// `size`, the edge is not computed.
    fn edge(
        &self,
        before: Option<Number>,
        past: &Past,
        size: u64,
    ) -> Result<(Edge, u64), BadCheckpoint> {
        let mut edge = match before.map(|before| self.graph.control(before)) {
            Some(Action::Checkpoint(checkpoint)) => checkpoint.edge.clone(),
            Some(_) => return Err(BadCheckpoint::Before),
            None => Edge::default(),
        };
        let new = self.new_leaves(before, past);
        let found = edge.size() + new.len() as u64;
        if found <= size {
            new.iter().for_each(|id| edge.append(id));
        }
        Ok((edge, found))
    }

    /// The entries in a past that a checkpoint does not cover, in the order of entries.
    pub(super) fn new_leaves(&self, before: Option<Number>, past: &Past) -> Vec<EntryId> {
        let found = self.graph.beyond(past, before);
        let mut stamps: Vec<Stamp> =
            found.into_iter().map(|number| self.graph.stamp(number)).collect();
        stamps.sort_unstable();
        stamps.into_iter().map(|stamp| stamp.id).collect()
    }

    /// The time of the checkpointer in the note of a checkpoint.
    fn noted_time(&self, number: Number) -> u64 {
        let tree = self.checkpoints.by_entry.get(&number).map(|&at| &self.checkpoints.trees[at]);
        let entry = tree.and_then(|tree| tree.entries.iter().find(|(entry, _)| *entry == number));
        entry.map_or(0, |(_, time)| *time)
    }

    /// Takes up the keys of a certificate.
    pub(super) fn add_deadlines(&mut self, certificate: &Certificate) {
        if self.genesis.checkpointer.is_some() {
            let ends = certificate.keys().filter_map(|key| key.expires);
            let grace = u64::from(self.genesis.grace_s);
            self.checkpoints.deadlines.extend(ends.map(|end| end + grace));
        }
    }

    /// Takes up an admitted checkpoint. Returns whether other entries can count now, or no longer.
    pub(super) fn add_checkpoint(&mut self, number: Number, checkpoint: &Checkpoint) -> bool {
        let before = self.graph.number(&checkpoint.before);
        let before = before.and_then(|before| self.checkpoints.by_entry.get(&before).copied());
        let head = checkpoint.head();
        let checkpoints = &mut self.checkpoints;
        let Checkpoints { trees, first, by_head, is_forked, existed_by, .. } = checkpoints;
        let at = *by_head.entry((before, head.size, head.root)).or_insert_with(|| {
            let at = trees.len();
            let tree = Tree {
                before,
                after: Vec::new(),
                entries: Vec::new(),
                cosigned: Vec::new(),
                times: None,
            };
            trees.push(tree);
            existed_by.push(u64::MAX);
            let siblings = match before {
                Some(before) => &mut trees[before].after,
                None => first,
            };
            siblings.push(at);
            *is_forked |= siblings.len() > 1;
            at
        });
        checkpoints.by_entry.insert(number, at);
        let time = checkpoint.note.lines.get(1).map_or(0, time_of);
        checkpoints.trees[at].entries.push((number, time));
        self.add_cosigned(number, at, checkpoint.note.lines.get(2..).unwrap_or_default())
    }

    /// Takes up admitted cosignatures. Returns whether other entries can count now, or no longer.
    pub(super) fn add_cosignatures(&mut self, number: Number, added: &Cosignatures) -> bool {
        let of = self.graph.number(&added.checkpoint);
        let at = of.and_then(|of| self.checkpoints.by_entry.get(&of).copied());
        at.is_some_and(|at| self.add_cosigned(number, at, &added.lines))
    }

    fn add_cosigned(&mut self, number: Number, at: usize, lines: &[NoteLine]) -> bool {
        let places = lines.iter().map(|line| (self.witness_of(line), time_of(line)));
        let found: Vec<_> =
            places.filter_map(|(place, time)| Some((number, place?, time))).collect();
        self.checkpoints.trees[at].cosigned.extend(found);
        let before = self.checkpoints.trees[at].times;
        let times = self.times_of(&self.checkpoints.trees[at], |_| true);
        let reached_before = self.checkpoints.reached;
        let checkpoints = &mut self.checkpoints;
        checkpoints.trees[at].times = times;
        let Some(times) = times.filter(|_| times != before) else { return false };
        checkpoints.reached = reached_before.max(times.reached);
        for least in checkpoints.existed_by[..=at].iter_mut().rev() {
            if *least <= times.existed_by {
                break;
            }
            *least = times.existed_by;
        }
        // A key is expired now, or entries of an expired key are covered now.
        let from = reached_before.min(times.existed_by);
        let is_passed = from < checkpoints.reached
            && checkpoints.deadlines.range(from..checkpoints.reached).next().is_some();
        is_passed
            || checkpoints.is_time_stated
            || checkpoints.is_forked
            || !self.graph.forks().is_empty()
    }

    /// The times of a tree in the set of entries that `has` names. `None` if it is not cosigned
    /// there.
    fn times_of(&self, tree: &Tree, has: impl Fn(Number) -> bool) -> Option<Times> {
        let mut noted = tree.entries.iter().filter(|(number, _)| has(*number)).peekable();
        noted.peek()?;
        let Some(last) = usize::from(self.genesis.witness_threshold).checked_sub(1) else {
            let (mut existed_by, mut reached) = (u64::MAX, 0);
            noted.for_each(|&(_, time)| {
                (existed_by, reached) = (existed_by.min(time), reached.max(time));
            });
            return Some(Times { existed_by, reached });
        };
        let mut by_witness: BTreeMap<usize, (u64, u64)> = BTreeMap::new();
        for &(_, witness, time) in tree.cosigned.iter().filter(|(number, ..)| has(*number)) {
            let (least, greatest) = by_witness.entry(witness).or_insert((time, time));
            (*least, *greatest) = ((*least).min(time), (*greatest).max(time));
        }
        let (mut least, mut greatest): (Vec<u64>, Vec<u64>) = by_witness.into_values().unzip();
        least.sort_unstable();
        greatest.sort_unstable_by_key(|&time| std::cmp::Reverse(time));
        Some(Times { existed_by: *least.get(last)?, reached: *greatest.get(last)? })
    }

    fn times(&self, at: usize, view: View<'_>) -> Option<Times> {
        let tree = &self.checkpoints.trees[at];
        match view {
            View::All => tree.times,
            // What is not cosigned among all entries is not among fewer.
            View::Past(_) => {
                tree.times?;
                self.times_of(tree, |number| self.graph.contains(view, number))
            }
        }
    }

    /// The times of a tree that is valid in a set.
    fn valid_times(&self, at: usize, view: View<'_>) -> Option<Times> {
        self.times(at, view).filter(|_| self.is_on_line(at, view))
    }

    /// Whether no fork of the checkpointer in a set ends the line of a tree at or before it.
    fn is_on_line(&self, at: usize, view: View<'_>) -> bool {
        let Checkpoints { trees, first, is_forked, .. } = &self.checkpoints;
        let mut next = Some(at).filter(|_| *is_forked);
        while let Some(branch) = next {
            next = trees[branch].before;
            let branches = next.map_or(first, |before| &trees[before].after);
            let is_rival = |other: &usize| *other != branch && self.has_cosigned(*other, view);
            if branches.iter().any(is_rival) && self.chosen_branch(branches, view) != Some(branch) {
                return false;
            }
        }
        true
    }

    /// Whether a tree, or one that follows it, is cosigned in a set.
    fn has_cosigned(&self, at: usize, view: View<'_>) -> bool {
        let mut next = vec![at];
        while let Some(at) = next.pop() {
            if self.times(at, view).is_some() {
                return true;
            }
            next.extend(&self.checkpoints.trees[at].after);
        }
        false
    }

    /// The branch that the last choice of the owners names.
    fn chosen_branch(&self, branches: &[usize], view: View<'_>) -> Option<usize> {
        let mut last: Option<(Stamp, usize)> = None;
        for &control in &self.controls.choices {
            let stamp = self.graph.stamp(control);
            let Action::Choose(id) = self.graph.control(control) else { continue };
            let number = self.graph.number(id);
            let mut at = number.and_then(|number| self.checkpoints.by_entry.get(&number).copied());
            while let Some(tree) = at.filter(|tree| !branches.contains(tree)) {
                at = self.checkpoints.trees[tree].before;
            }
            let is_later = last.is_none_or(|(last, _)| last < stamp);
            if let Some(branch) = at.filter(|_| is_later && self.is_agreed(control, view)) {
                last = Some((stamp, branch));
            }
        }
        last.map(|(_, branch)| branch)
    }

    /// Whether a tree covers an entry.
    pub(super) fn covers(&self, at: usize, number: Number) -> bool {
        let entries = &self.checkpoints.trees[at].entries;
        entries.first().is_some_and(|(entry, _)| self.graph.precedes(number, *entry))
    }

    /// The trees that may cover an entry. Without a fork of the checkpointer, all of them do.
    fn covering(&self, number: Number) -> std::ops::Range<usize> {
        let trees = &self.checkpoints.trees;
        let start = if self.checkpoints.is_forked {
            0
        } else {
            let (mut low, mut high) = (0, trees.len());
            while low < high {
                let middle = low.midpoint(high);
                if self.covers(middle, number) { high = middle } else { low = middle + 1 }
            }
            low
        };
        start..trees.len()
    }

    /// Whether a valid checkpoint in a set covers an entry and existed by `limit`.
    fn is_covered_by(&self, number: Number, limit: u64, view: View<'_>) -> bool {
        let Checkpoints { trees, existed_by, .. } = &self.checkpoints;
        for at in self.covering(number) {
            if existed_by[at] > limit {
                return false;
            }
            // In a smaller set, a checkpoint does not exist by an earlier time.
            if trees[at].times.is_some_and(|times| times.existed_by <= limit)
                && self.covers(at, number)
                && self.valid_times(at, view).is_some_and(|times| times.existed_by <= limit)
            {
                return true;
            }
        }
        false
    }

    /// Whether the time of a valid checkpoint in a set is past `limit`.
    fn is_past(&self, limit: u64, view: View<'_>) -> bool {
        let checkpoints = &self.checkpoints;
        if checkpoints.reached <= limit {
            return false;
        }
        if matches!(view, View::All) && !checkpoints.is_forked {
            return true;
        }
        let is_later = |at: usize| {
            // In a smaller set, a checkpoint does not reach a later time.
            checkpoints.trees[at].times.is_some_and(|times| times.reached > limit)
                && self.valid_times(at, view).is_some_and(|times| times.reached > limit)
        };
        (0..checkpoints.trees.len()).rev().any(is_later)
    }

    /// Whether the key of an entry is expired in a set, and no checkpoint covers the entry in time.
    pub(super) fn is_expired(&self, number: Number, view: View<'_>) -> bool {
        if number == 0 || self.checkpoints.reached == 0 {
            return false;
        }
        let grant = self.graph.node(number).grant.and_then(|grant| self.graph.grant(grant.get()));
        let end = self.key_end(grant, self.graph.name_of(number));
        let deadline = end.map(|end| end + u64::from(self.genesis.grace_s));
        deadline.is_some_and(|deadline| {
            self.is_past(deadline, view) && !self.is_covered_by(number, deadline, view)
        })
    }

    /// The expiry of the key of a chain, by the certificate in a grant, or in genesis without a
    /// grant.
    pub(super) fn key_end(&self, grant: Option<&Grant>, chain: &ChainName) -> Option<u64> {
        let certificate = match grant {
            Some(grant) => Some(&grant.certificate),
            None => self.genesis.owners.iter().find(|owner| owner.name() == chain.author),
        };
        certificate?.expires(chain.subkey)
    }

    /// Whether a revocation that states the time of a compromise lets an entry count: a valid
    /// checkpoint in the set existed before.
    pub(super) fn existed_before(&self, number: Number, since: u64, view: View<'_>) -> bool {
        since.checked_sub(1).is_some_and(|limit| self.is_covered_by(number, limit, view))
    }

    /// Whether a valid checkpoint in a set covers an entry behind a fork, and nothing of the other
    /// branches.
    pub(super) fn is_alone_in_checkpoint(
        &self,
        fork: &Fork,
        child: Number,
        number: Number,
        view: View<'_>,
    ) -> bool {
        self.covering(number).any(|at| {
            let rivals = || fork.children.iter().filter(|&&other| other != child);
            self.covers(at, number)
                && !rivals().any(|&other| self.covers(at, other))
                && self.valid_times(at, view).is_some()
        })
    }

    /// The checkpoints, each behind the one before it.
    #[must_use]
    pub fn checkpoints(&self) -> Vec<CheckpointInfo> {
        (0..self.checkpoints.trees.len()).filter_map(|at| self.checkpoint_info(at)).collect()
    }

    /// The last checkpoint: that with the most leaves on a line that no fork ends.
    #[must_use]
    pub fn last_checkpoint(&self) -> Option<CheckpointInfo> {
        self.last_tree().and_then(|at| self.checkpoint_info(at))
    }

    /// The last checkpoint that is valid.
    #[must_use]
    pub fn last_valid_checkpoint(&self) -> Option<CheckpointInfo> {
        let trees = (0..self.checkpoints.trees.len()).rev();
        let valid = trees.filter(|&at| self.valid_times(at, View::All).is_some());
        valid
            .max_by_key(|&at| self.head(at).map(|head| head.size))
            .and_then(|at| self.checkpoint_info(at))
    }

    fn checkpoint_info(&self, at: usize) -> Option<CheckpointInfo> {
        let tree = &self.checkpoints.trees[at];
        let (entry, checkpoint) = self.checkpoint_of(at)?;
        let mut cosigned: BTreeMap<usize, u64> = BTreeMap::new();
        for &(_, witness, time) in &tree.cosigned {
            let first = cosigned.entry(witness).or_insert(time);
            *first = time.min(*first);
        }
        let name =
            |(witness, time): (usize, u64)| (self.genesis.witnesses[witness].name.clone(), time);
        let before = tree.before.and_then(|before| self.checkpoint_of(before));
        Some(CheckpointInfo {
            entry,
            before: before.map_or(EntryId::NONE, |(id, _)| id),
            head: checkpoint.head().clone(),
            time: checkpoint.note.lines.get(1).map_or(0, time_of),
            cosigned: cosigned.into_iter().map(name).collect(),
            existed_by: tree.times.map(|times| times.existed_by),
            is_valid: self.valid_times(at, View::All).is_some(),
        })
    }

    /// The entry of a tree that is the first in the order of entries, and its checkpoint.
    fn checkpoint_of(&self, at: usize) -> Option<(EntryId, &Checkpoint)> {
        let entries = self.checkpoints.trees[at].entries.iter();
        let numbers = entries.map(|(number, _)| *number);
        let first = numbers.min_by_key(|&number| self.graph.stamp(number))?;
        match self.graph.control(first) {
            Action::Checkpoint(checkpoint) => Some((self.graph.node(first).id, checkpoint)),
            _ => None,
        }
    }

    fn head(&self, at: usize) -> Option<&TreeHead> {
        self.checkpoint_of(at).map(|(_, checkpoint)| checkpoint.head())
    }

    /// The forks of the checkpointer, ascending.
    #[must_use]
    pub fn checkpoint_forks(&self) -> Vec<CheckpointFork> {
        let Checkpoints { trees, first, .. } = &self.checkpoints;
        let id = |at: usize| self.checkpoint_of(at).map_or(EntryId::NONE, |(id, _)| id);
        let after = (0..trees.len()).map(|at| (id(at), &trees[at].after));
        let forks = std::iter::once((EntryId::NONE, first)).chain(after);
        let mut forks: Vec<CheckpointFork> = forks
            .filter(|(_, after)| after.len() > 1)
            .map(|(before, after)| {
                let mut branches: Vec<EntryId> = after.iter().map(|&at| id(at)).collect();
                branches.sort_unstable();
                CheckpointFork { before, branches }
            })
            .collect();
        forks.sort_by_key(|fork| fork.before);
        forks
    }

    fn tree_of(&self, checkpoint: &EntryId) -> Option<usize> {
        self.checkpoints.by_entry.get(&self.graph.number(checkpoint)?).copied()
    }

    /// The note of a checkpoint, with the cosignatures that have come since.
    #[must_use]
    pub fn checkpoint_note(&self, checkpoint: &EntryId) -> Option<Note> {
        let at = self.tree_of(checkpoint)?;
        let (_, found) = self.checkpoint_of(at)?;
        let mut lines: BTreeMap<usize, &NoteLine> = BTreeMap::new();
        let entries = self.checkpoints.trees[at].cosigned.iter().map(|(number, ..)| *number);
        for number in entries {
            let signed = match self.graph.control(number) {
                Action::Checkpoint(checkpoint) => checkpoint.note.lines.get(2..),
                Action::Cosign(cosignatures) => Some(&cosignatures.lines[..]),
                _ => None,
            };
            for line in signed.unwrap_or_default() {
                let Some(witness) = self.witness_of(line) else { continue };
                let first = lines.entry(witness).or_insert(line);
                if time_of(line) < time_of(first) {
                    *first = line;
                }
            }
        }
        let own = found.note.lines.iter().take(2);
        let lines = own.chain(lines.into_values()).cloned().collect();
        Some(Note { head: found.head().clone(), lines })
    }

    /// The leaves of a checkpoint, in their order.
    #[must_use]
    pub fn checkpoint_leaves(&self, checkpoint: &EntryId) -> Option<Vec<EntryId>> {
        let mut line = vec![self.tree_of(checkpoint)?];
        while let Some(before) = line.last().and_then(|&at| self.checkpoints.trees[at].before) {
            line.push(before);
        }
        let mut leaves = Vec::new();
        let mut before = None;
        for at in line.into_iter().rev() {
            let (number, _) = *self.checkpoints.trees[at].entries.first()?;
            leaves.extend(self.new_leaves(before, &self.graph.past_of(number)));
            before = Some(number);
        }
        Some(leaves)
    }

    /// The request to a witness that cosigned the checkpoint `old` last, or none if it is
    /// [`EntryId::NONE`]. `None` if one of them is no checkpoint, or if `old` has more leaves.
    #[must_use]
    pub fn witness_request(&self, checkpoint: &EntryId, old: &EntryId) -> Option<WitnessRequest> {
        let size = match self.tree_of(old) {
            Some(at) => self.head(at)?.size,
            None if old.is_none() => 0,
            None => return None,
        };
        self.witness_request_from(checkpoint, Some(size))
    }

    /// The same for a witness that cosigned a tree of `old` leaves last: by default, that of the
    /// last valid checkpoint before this one.
    #[must_use]
    pub fn witness_request_from(
        &self,
        checkpoint: &EntryId,
        old: Option<u64>,
    ) -> Option<WitnessRequest> {
        let leaves = self.checkpoint_leaves(checkpoint)?;
        let known = || {
            let last = self.last_valid_checkpoint();
            let size = last.filter(|last| last.entry != *checkpoint).map(|last| last.head.size);
            size.filter(|size| *size <= leaves.len() as u64).unwrap_or(0)
        };
        let old = old.unwrap_or_else(known);
        let size = usize::try_from(old).ok().filter(|size| *size <= leaves.len())?;
        let note = self.checkpoint_note(checkpoint)?;
        Some(WitnessRequest { old, proof: consistency(&leaves, size), note })
    }

    /// The key of the checkpointer, with the name that witnesses know.
    #[must_use]
    pub fn checkpointer(&self) -> Option<NoteKey> {
        let key = self.genesis.checkpointer?;
        Some(NoteKey { name: origin(self.id), kind: NoteKind::Plain, key })
    }

    /// The cosignatures in the answer of a witness, or in a whole note, with the checkpoint for
    /// which they hold: one of the last thousand. Lines by others are left out. `None` if none
    /// holds.
    #[must_use]
    pub fn find_cosigned(&self, answer: &str) -> Option<Cosignatures> {
        let lines = NoteLine::read_answer(answer);
        for at in (0..self.checkpoints.trees.len()).rev().take(COSIGNED_TRIED_MAX) {
            let (id, checkpoint) = self.checkpoint_of(at)?;
            let text = checkpoint.head().to_string();
            let mut found: BTreeMap<usize, &NoteLine> = BTreeMap::new();
            for line in &lines {
                if let Some(place) = self.witness_of(line)
                    && self.genesis.witnesses[place].note_key().verify(&text, line).is_some()
                {
                    found.insert(place, line);
                }
            }
            if !found.is_empty() {
                let lines = found.into_values().cloned().collect();
                return Some(Cosignatures { checkpoint: id, lines });
            }
        }
        None
    }

    /// The tree that a new checkpoint follows: the last one of its line, with the most leaves.
    fn last_tree(&self) -> Option<usize> {
        let trees = &self.checkpoints.trees;
        let ends = (0..trees.len()).filter(|&at| trees[at].after.is_empty());
        let order = |at: &usize| {
            let head = self.head(*at);
            (self.is_on_line(*at, View::All), head.map(|head| (head.size, head.root)))
        };
        ends.max_by_key(order)
    }

    /// A checkpoint at the end of a chain, over all that it has seen, at `time` in seconds
    /// since 1970.
    ///
    /// # Errors
    ///
    /// [`DraftError::NotCheckpointer`], and the errors of [`Self::draft`].
    pub fn draft_checkpoint(
        &self,
        chain: ChainName,
        key: &NoteSecret,
        time: u64,
        now_ms: u64,
    ) -> Result<Entry, DraftError> {
        let key = key.named(&origin(self.id));
        let is_theirs = |key: &NoteSecret| Some(key.public().key) == self.genesis.checkpointer;
        let key = key.filter(is_theirs).ok_or(DraftError::NotCheckpointer)?;
        let before = self.last_tree().and_then(|at| self.checkpoint_of(at));
        let noted = before.and_then(|(_, before)| before.note.lines.get(1)).map_or(0, time_of);
        let head = TreeHead { origin: origin(self.id), size: 0, root: [0; 32] };
        let mut checkpoint = Checkpoint {
            before: before.map_or(EntryId::NONE, |(id, _)| id),
            edge: Edge::default(),
            note: Note { head, lines: Vec::new() },
        };
        // What is before the entry says what the tree is.
        let action = Action::Checkpoint(Box::new(checkpoint.clone()));
        let mut entry = self.draft(chain, action, now_ms)?;
        let number = |id: &EntryId| self.graph.number(id);
        let links: Vec<Number> = entry.links.iter().filter_map(number).collect();
        let past = self.graph.past(number(&entry.previous), &links);
        let refused = |bad: BadCheckpoint| Refusal::from(bad);
        let before = self.checkpoint_before(checkpoint.before, &past).map_err(refused)?;
        let before = before.map(|(number, _)| number);
        let (edge, size) = self.edge(before, &past, u64::MAX).map_err(refused)?;
        checkpoint.note.head = TreeHead { origin: origin(self.id), size, root: edge.root() };
        checkpoint.edge = edge;
        let text = checkpoint.head().to_string();
        checkpoint.note.lines = vec![key.sign(&text), key.cosign(&text, time.max(noted))];
        entry.action = Action::Checkpoint(Box::new(checkpoint));
        Ok(entry)
    }
}

/// The time in a line whose signature has one.
fn time_of(line: &NoteLine) -> u64 {
    line.signature.first_chunk::<8>().map_or(0, |time| u64::from_be_bytes(*time))
}
