//! Attacks on the simulated log: two stories, a stolen key, clocks far ahead, ungranted fields,
//! forgeries.

use talaria_log::{
    Action, Change, Clock, DataAction, Entry, FieldChange, Log, ObjectId, Signed, Value,
};

use super::node::{packet, restored};
use super::people::{BEGIN_MS, MALLORY, MEMBERS, STRANGER, VICTIM};
use super::world::{NODES, World};
use crate::numbers::Numbers;

/// A year in milliseconds.
const YEAR_MS: u64 = 365 * 86_400_000;

/// Damages one byte of records in a few cases.
pub(super) fn damage(records: &mut [Vec<u8>], numbers: &mut Numbers) {
    if !numbers.percent(3) {
        return;
    }
    let at = numbers.below(records.len());
    let record = &mut records[at];
    let byte = numbers.below(record.len());
    record[byte] ^= 1 << numbers.below(8);
}

/// Sets a note, which Mallory may do.
fn note(text: &str) -> Action {
    let value = Value::String(text.to_owned());
    let change = Change::Field("note".to_owned(), FieldChange::Set(Some(value)));
    Action::Data(DataAction { object: ObjectId([9; 32]), change })
}

/// Sets a name, which members may do.
fn name(text: &str) -> Action {
    let value = Value::String(text.to_owned());
    let change = Change::Field("name-0".to_owned(), FieldChange::Set(Some(value)));
    Action::Data(DataAction { object: ObjectId([9; 32]), change })
}

impl World {
    /// One attack.
    pub(super) fn attack(&mut self) {
        let node = self.numbers.below(NODES);
        // The attacker has the entries of some node.
        let Ok(copy) = restored(&self.nodes[node].stored) else { return };
        match self.numbers.below(8) {
            0 | 1 => self.two_stories(copy, node),
            2 => self.fork_of_a_thief(copy),
            3 => self.back_dated(),
            4 => self.far_ahead(copy),
            5 => self.ungranted(&copy),
            6 => self.forged(&copy),
            _ => self.replayed(node),
        }
    }

    /// Sends entries to the nodes that `wanted` names.
    fn spread(&mut self, entries: &[Signed], wanted: impl Fn(usize) -> bool) {
        let packet = packet(entries);
        for to in (0..NODES).filter(|&to| wanted(to)) {
            self.network.send((to, to), &packet, self.now_ms, &mut self.numbers);
        }
    }

    /// Mallory signs two entries for one place, and tells each half of the nodes another one.
    fn two_stories(&mut self, mut copy: Log, node: usize) {
        let instance = [201 + u8::try_from(self.numbers.below(2)).unwrap_or_default(); 16];
        let now_ms = self.now_ms;
        let mut maker = self.people[MALLORY].maker(instance);
        let Ok(mut other) = restored(&self.nodes[node].stored) else { return };
        let one = maker.make(&mut copy, note("one story"), now_ms);
        let two = maker.make(&mut other, note("another story"), now_ms);
        let (Ok(one), Ok(two)) = (one, two) else { return };
        self.made.extend([one.id, two.id]);
        self.spread(&[one], |to| to % 2 == 0);
        self.spread(&[two], |to| to % 2 == 1);
    }

    /// A thief writes at the end of a chain of the key's owner.
    fn fork_of_a_thief(&mut self, mut copy: Log) {
        let own: Vec<usize> = (0..NODES).filter(|node| node % MEMBERS == VICTIM).collect();
        let instance = self.nodes[own[self.numbers.below(own.len())]].instance;
        let now_ms = self.now_ms;
        let made = self.people[VICTIM].maker(instance).make(&mut copy, name("stolen"), now_ms);
        let Ok(made) = made else { return };
        self.made.insert(made.id);
        let to = self.numbers.below(NODES);
        self.spread(&[made], |node| node == to);
    }

    /// A thief begins a chain that looks older than everything else.
    fn back_dated(&mut self) {
        if self.attacks.stolen == 20 {
            return;
        }
        self.attacks.stolen += 1;
        let Ok(copy) = restored(&self.begun) else { return };
        let mut maker = self.people[VICTIM].maker([220 + self.attacks.stolen; 16]);
        let Ok(draft) = copy.draft(maker.chain, name("old"), BEGIN_MS) else { return };
        let clock = Clock(copy.latest().0 + u64::from(self.attacks.stolen));
        let entry = Entry { clock, ..draft };
        let made = maker.sign(entry, copy.id(), BEGIN_MS).expect("the key signs");
        self.made.insert(made.id);
        let to = self.numbers.below(NODES);
        self.spread(&[made], |node| node % 3 == to % 3);
    }

    /// An entry of Mallory's is dated a year ahead. It waits everywhere, and counts nowhere before
    /// its time.
    fn far_ahead(&mut self, mut copy: Log) {
        let now_ms = self.now_ms + YEAR_MS;
        let made = self.people[MALLORY].maker([203; 16]).make(&mut copy, note("future"), now_ms);
        let Ok(made) = made else { return };
        self.attacks.seen = Some(made.clone());
        self.spread(&[made], |_| true);
    }

    /// Mallory sets a field that the grant does not cover.
    fn ungranted(&mut self, copy: &Log) {
        let mut maker = self.people[MALLORY].maker([204; 16]);
        let Ok(draft) = copy.draft(maker.chain, note("x"), self.now_ms) else { return };
        let entry = Entry { action: name("mine"), ..draft };
        let made = maker.sign(entry, copy.id(), self.now_ms).expect("the key signs");
        self.spread(&[made], |_| true);
    }

    /// A stranger signs in the name of an honest node, at the end of its chain.
    fn forged(&mut self, copy: &Log) {
        let node = self.numbers.below(NODES);
        let honest = self.people[self.nodes[node].person].maker(self.nodes[node].instance).chain;
        let Ok(entry) = copy.draft(honest, name("forged"), self.now_ms) else { return };
        let mut stranger = self.people[STRANGER].maker([205; 16]);
        let own = Entry { chain: stranger.chain, ..entry.clone() };
        // Once with the stranger's key in the name of the honest one, once as the stranger's own
        // with the grant of another.
        let Ok(forged) = stranger.sign(entry, copy.id(), self.now_ms) else { return };
        let Ok(own) = stranger.sign(own, copy.id(), self.now_ms) else { return };
        self.spread(&[forged, own], |_| true);
    }

    /// An entry that was seen before comes again.
    fn replayed(&mut self, node: usize) {
        let stored = &self.nodes[node].stored;
        let at = self.numbers.below(stored.len());
        let mut again = vec![stored[at].clone()];
        again.extend(self.attacks.seen.clone());
        self.spread(&again, |to| to % 4 == 0);
    }
}
