//! Entries that wait for their past, or for the clock of this node. They are in memory only, and
//! bounded.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::outcome::Outcome;
use super::trial::Trial;
use crate::clock::Clock;
use crate::name::EntryId;
use crate::record::Signed;

/// Most entries that wait.
pub const WAITING_MAX: usize = 65_536;
/// Most bytes of entries that wait.
pub const WAITING_BYTES_MAX: usize = 64 << 20;
/// The tolerated advance of the clock of an entry before that of this node, in milliseconds.
pub const AHEAD_MS: u64 = 60_000;

/// Entries that wait.
#[derive(Default)]
pub(super) struct Waiting {
    /// By the identity of one entry that is missing.
    for_past: HashMap<EntryId, Vec<Trial>>,
    for_clock: BTreeMap<(Clock, EntryId), Trial>,
    /// The lengths of the entries, by the hash of their records: a copy with a forged signature
    /// must not keep away a copy with a good one.
    known: HashMap<EntryId, usize>,
    /// The missing entry, by the identity of an entry that waits for it; [`EntryId::NONE`] for the
    /// clock. The copies of an entry wait for the same.
    waits_for: HashMap<EntryId, EntryId>,
    bytes: usize,
    /// Entries that were refused for good, as far as there is room. Those behind them are refused
    /// too, and do not wait.
    refused: HashSet<EntryId>,
}

impl Waiting {
    pub(super) fn len(&self) -> usize {
        self.known.len()
    }

    /// The number of entries that wait for the clock.
    pub(super) fn ahead(&self) -> usize {
        self.for_clock.len()
    }

    /// Whether an entry waits for the clock, or for an entry that does. Who forges a copy of an
    /// entry behind such a one delays it only while it could not be admitted anyway.
    pub(super) fn is_ahead(&self, id: &EntryId) -> bool {
        let mut at = *id;
        // The graph of missing entries has no circles, since identities are hashes.
        while let Some(missing) = self.waits_for.get(&at) {
            if missing.is_none() {
                return true;
            }
            at = *missing;
        }
        false
    }

    /// Whether the same entry waits with the same proof.
    pub(super) fn has(&self, signed: &Signed) -> bool {
        !self.known.is_empty() && self.known.contains_key(&record_hash(signed))
    }

    fn keep(&mut self, trial: &mut Trial) -> bool {
        let bytes = trial.signed.size();
        if self.known.len() >= WAITING_MAX || self.bytes + bytes > WAITING_BYTES_MAX {
            return false;
        }
        self.bytes += bytes;
        // The tree of its batch can be a thousand times larger.
        trial.signed.detach();
        self.known.insert(record_hash(&trial.signed), bytes);
        true
    }

    fn drop_known(&mut self, trial: &Trial) {
        self.bytes -= self.known.remove(&record_hash(&trial.signed)).unwrap_or(0);
        self.waits_for.remove(&trial.signed.id);
    }

    /// Keeps an entry until the entry `missing` is here.
    pub(super) fn for_past(&mut self, missing: EntryId, mut trial: Trial) -> Outcome {
        if !self.keep(&mut trial) {
            return Outcome::NotKept;
        }
        self.waits_for.insert(trial.signed.id, missing);
        self.for_past.entry(missing).or_default().push(trial);
        Outcome::WaitsForPast
    }

    /// Keeps an entry until its time.
    pub(super) fn for_clock(&mut self, mut trial: Trial) -> Outcome {
        if !self.keep(&mut trial) {
            return Outcome::NotKept;
        }
        let id = trial.signed.id;
        // Two copies with different proofs are both good here.
        if let Some(other) = self.for_clock.insert((trial.signed.entry.clock, id), trial) {
            self.drop_known(&other);
        }
        self.waits_for.insert(id, EntryId::NONE);
        Outcome::WaitsForClock
    }

    /// The entries whose time has come.
    pub(super) fn due(&mut self, now_ms: u64) -> Vec<Trial> {
        let end = Clock::at_ms(now_ms.saturating_add(AHEAD_MS).saturating_add(1));
        let later = self.for_clock.split_off(&(end, EntryId::NONE));
        let due: Vec<Trial> = std::mem::replace(&mut self.for_clock, later).into_values().collect();
        due.iter().for_each(|trial| self.drop_known(trial));
        due
    }

    /// The entries that wait for `id`.
    pub(super) fn behind(&mut self, id: &EntryId) -> Vec<Trial> {
        let waiting = self.for_past.remove(id).unwrap_or_default();
        waiting.iter().for_each(|trial| self.drop_known(trial));
        waiting
    }

    pub(super) fn refuse(&mut self, id: EntryId) {
        if self.refused.len() < WAITING_MAX {
            self.refused.insert(id);
        }
    }

    pub(super) fn is_refused(&self, id: &EntryId) -> bool {
        self.refused.contains(id)
    }
}

fn record_hash(signed: &Signed) -> EntryId {
    EntryId::of(&signed.to_record())
}
