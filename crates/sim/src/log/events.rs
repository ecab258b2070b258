//! The events of a simulation: a step is one of them.

use talaria_log::{
    Action, Cosignatures, Edit, EntryId, Grant, NodeKey, ObjectId, Opening, Operations, Pattern,
    Revocation, Signed, Target, Update, Value,
};

use super::attack::damage;
use super::connection::connect;
use super::defect::Defect;
use super::disk::{Cut, Stopped};
use super::network::Packet;
use super::node::{Taken, packet};
use super::people::{EXPIRING, MALLORY, MEMBERS, OWNERS, VICTIM};
use super::world::{NODES, World};
use crate::disk::Fate;
use crate::numbers::Numbers;

/// One of four integers.
fn small(numbers: &mut Numbers) -> i64 {
    i64::try_from(numbers.below(4)).unwrap_or_default()
}

/// A change of a field that a member makes.
fn update(numbers: &mut Numbers, step: usize) -> Update {
    let number = i64::try_from(step).unwrap_or_default();
    let (field, value) = match numbers.below(6) {
        0 | 1 => (format!("name-{}", numbers.below(2)), Value::String(format!("{step}"))),
        2 => ("strict".to_owned(), Value::Integer(number)),
        3 => ("set".to_owned(), Value::Integer(small(numbers))),
        4 => ("count".to_owned(), Value::Integer(number)),
        _ => ("list".to_owned(), Value::Integer(small(numbers))),
    };
    let is_counter = field.starts_with("count");
    let edit = match numbers.below(14) {
        8..=10 if !is_counter => {
            let mut salt = [0; 32];
            salt.chunks_mut(8).for_each(|part| part.copy_from_slice(&numbers.draw().to_be_bytes()));
            Edit::PutDeletable(field, Opening::new(&value, salt))
        }
        11..=13 if !is_counter => Edit::DeleteValues(field),
        0 if is_counter => Edit::Put(field, value),
        0 if matches!(&*field, "set" | "list") => Edit::Remove(field, Some(value)),
        0 => Edit::Remove(field, None),
        _ => Edit::Put(field, value),
    };
    let edit = if numbers.percent(2) { Edit::Delete } else { edit };
    Update { object: format!("server-{}", numbers.below(3)), edit }
}

impl World {
    pub(super) fn step(&mut self) -> Result<(), String> {
        self.now_ms += self.numbers.below(1500) as u64;
        for number in 0..NODES {
            if self.nodes[number].log.is_none() && self.nodes[number].up_ms <= self.now_ms {
                self.start(number)?;
            }
        }
        for sent in self.network.arrived(self.now_ms) {
            self.deliver(sent.from, sent.to, sent.packet);
        }
        let node = self.numbers.below(NODES);
        match self.numbers.below(100) {
            0..16 => self.write(node),
            16..43 => {
                let to = self.numbers.below(NODES);
                if self.nodes[node].log.is_some() && to != node {
                    let ask = self.nodes[node].ask();
                    self.network.send((node, to), &ask, self.now_ms, &mut self.numbers);
                }
            }
            43..68 => {
                let to = self.numbers.below(NODES);
                let is_broken = self.numbers.percent(40);
                let bytes = is_broken.then(|| 1 + self.numbers.below(20_000));
                if self.network.is_parted(node, to) {
                    self.network.lost += 1;
                } else {
                    self.connect(node, to, bytes)?;
                }
            }
            68..72 => self.crash(node),
            72..79 => self.owner_acts(),
            79..81 => {
                // Owners' nodes are parted too, and so are their decisions.
                let sides = u32::try_from(self.numbers.draw() >> 32).unwrap_or_default();
                self.network.parted = if self.numbers.percent(50) { sides } else { 0 };
            }
            81..83 => {
                let disk = &mut self.nodes[node].disk;
                let is_full = self.numbers.percent(60);
                disk.segments_max = if is_full { disk.segments() } else { usize::MAX };
            }
            83..86 => self.set_back(node),
            86..94 => self.attack(),
            94..97 => self.member_acts(node),
            _ => self.network.parted = 0,
        }
        Ok(())
    }

    /// Starts a node that was down.
    pub(super) fn start(&mut self, number: usize) -> Result<(), String> {
        let node = &mut self.nodes[number];
        let is_torn = node.start().map_err(|why| format!("node {number}: {why}"))?;
        self.report.torn += u64::from(is_torn);
        Ok(())
    }

    /// The step at which the power is cut during a commit, in a few cases.
    pub(super) fn cut(&mut self) -> Cut {
        // Many cuts before the sync, so that a node that sends too early is seen soon.
        if !self.is_healed && self.defect == Defect::SentBeforeSync && self.numbers.percent(30) {
            return Cut(Some(0));
        }
        let is_cut = !self.is_healed && self.numbers.percent(8);
        Cut(is_cut.then(|| self.numbers.below(3)))
    }

    /// The end of a commit at a node.
    fn stopped(&mut self, number: usize, result: Result<(), Stopped>) {
        match result {
            Ok(()) => {}
            Err(Stopped::Cut) => self.crash(number),
            Err(Stopped::Full) => {
                self.report.full += 1;
                self.nodes[number].up_ms = self.now_ms + 1000;
                // Somebody makes room, or not yet.
                if self.numbers.percent(50) {
                    self.nodes[number].disk.segments_max = usize::MAX;
                }
            }
        }
    }

    pub(super) fn crash(&mut self, number: usize) {
        let fate = Fate::draw(&mut self.numbers);
        let node = &mut self.nodes[number];
        node.disk.crash(fate, &mut self.numbers);
        node.log = None;
        node.up_ms = self.now_ms + self.numbers.below(60_000) as u64;
        self.report.crashes += 1;
    }

    fn write(&mut self, number: usize) {
        let count = 1 + self.numbers.below(3) * self.numbers.below(2);
        let updates: Vec<Update> =
            (0..count).map(|_| update(&mut self.numbers, self.step)).collect();
        let together = self.numbers.percent(30);
        let person = &mut self.people[self.nodes[number].person];
        let node = &mut self.nodes[number];
        if let Some(made) = node.draft(person, &updates, together, self.now_ms) {
            self.store_own(number, made);
        }
    }

    /// Brings entries of an honest node to its disk, and acknowledges them.
    fn store_own(&mut self, number: usize, made: Vec<Signed>) {
        let ids: Vec<EntryId> = made.iter().map(|signed| signed.id).collect();
        self.made.extend(&ids);
        if self.defect == Defect::SentBeforeSync {
            let to = self.numbers.below(NODES);
            let packet = packet(&made);
            self.network.send((number, to), &packet, self.now_ms, &mut self.numbers);
        }
        let mut cut = self.cut();
        let result = self.nodes[number].commit(made, &mut cut);
        if result.is_ok() {
            self.report.acknowledged += ids.len() as u64;
            self.acknowledged.extend(ids.into_iter().map(|id| (id, number)));
        }
        self.stopped(number, result);
    }

    fn deliver(&mut self, from: usize, to: usize, packet: Packet) {
        if self.nodes[to].log.is_none() {
            return;
        }
        match packet {
            Packet::Have(have) => {
                let withholds = self.numbers.percent(20);
                for answer in self.nodes[to].answer(&have, withholds) {
                    self.network.send((to, from), &answer, self.now_ms, &mut self.numbers);
                }
            }
            Packet::Records(mut records) => {
                damage(&mut records, &mut self.numbers);
                let mut cut = self.cut();
                let (taken, result) = self.nodes[to].take(&records, self.now_ms, &mut cut);
                self.note(&taken);
                self.stopped(to, result);
            }
        }
    }

    fn note(&mut self, taken: &Taken) {
        self.report.refused += (taken.refused.len() + taken.unreadable) as u64;
        self.report.waited += taken.waiting as u64;
        self.report.values += taken.values as u64;
    }

    /// A member publishes the key of a node, or ends one.
    fn member_acts(&mut self, number: usize) {
        let author = self.people[self.nodes[number].person].certificate.name();
        let Some(log) = &self.nodes[number].log else { return };
        let own = log.nodes().filter(|(_, by, _, may)| *may && *by == author);
        let own: Vec<EntryId> = own.map(|(id, ..)| id).collect();
        let numbers = &mut self.numbers;
        let action = if own.is_empty() || numbers.percent(60) {
            let seed = u8::try_from(numbers.below(40)).unwrap_or_default();
            Action::PublishNode(NodeKey { key: [seed; 32], name: format!("node {number}") })
        } else {
            Action::EndNode(own[numbers.below(own.len())])
        };
        let person = &mut self.people[self.nodes[number].person];
        if let Ok(made) = self.nodes[number].act(person, action, self.now_ms) {
            self.store_own(number, vec![made]);
        }
    }

    /// An owner states what the node has: a checkpoint with the key of the checkpointer, or a
    /// snapshot.
    fn owner_states(&mut self, number: usize, is_checkpoint: bool) {
        let person = &mut self.people[self.nodes[number].person];
        let key = &self.notary.key;
        let time = self.now_ms / 1000;
        let made = self.nodes[number].state(
            person,
            |log, chain, now_ms| {
                if is_checkpoint {
                    log.draft_checkpoint(chain, key, time, now_ms)
                } else {
                    log.draft_snapshot(chain, now_ms)
                }
            },
            self.now_ms,
        );
        if let Ok(made) = made {
            self.store_own(number, vec![made]);
        }
    }

    /// An owner approves, chooses, revokes, or grants.
    fn owner_acts(&mut self) {
        let owned = (0..NODES).filter(|&node| self.nodes[node].person < OWNERS);
        let owned: Vec<usize> = owned.collect();
        let number = owned[self.numbers.below(owned.len())];
        let Some(log) = &self.nodes[number].log else { return };
        let numbers = &mut self.numbers;
        let action = match numbers.below(14) {
            6..=8 => return self.owner_states(number, true),
            9 => return self.owner_states(number, false),
            10 | 11 => {
                let known = log.checkpoints();
                let Some(last) = known.last() else { return };
                let other = &known[numbers.below(known.len())];
                let checkpoint = if numbers.percent(80) { last } else { other };
                // Enough witnesses, or fewer. One of them lies about the time in a few cases.
                let first = numbers.below(self.notary.len());
                let late_s = if numbers.percent(10) { 100 } else { 0 };
                let time = self.now_ms / 1000 + late_s;
                let places = first.saturating_sub(1)..self.notary.len();
                let lines = self.notary.cosign(&checkpoint.head, places, time);
                Action::Cosign(Cosignatures { checkpoint: checkpoint.entry, lines })
            }
            12 => {
                let forks = log.checkpoint_forks();
                if forks.is_empty() {
                    return;
                }
                let fork = &forks[numbers.below(forks.len())];
                Action::Choose(fork.branches[numbers.below(fork.branches.len())])
            }
            13 => {
                let target = Target::Author(self.people[VICTIM].certificate.name());
                let since = self.now_ms / 1000 - numbers.below(60) as u64;
                Action::Revoke(Revocation { target, reason: 2, since, heads: Vec::new() })
            }
            0 => {
                let decisions: Vec<EntryId> = log
                    .entries()
                    .filter(|(_, entry)| matches!(entry.action.number(), 32 | 33 | 35 | 40))
                    .map(|(id, _)| id)
                    .collect();
                Action::Approve(decisions[numbers.below(decisions.len())])
            }
            1 | 2 => {
                let forks = log.forks();
                if forks.is_empty() {
                    return;
                }
                let fork = &forks[numbers.below(forks.len())];
                Action::Choose(fork.entries[numbers.below(fork.entries.len())])
            }
            3 | 4 => {
                let person = [VICTIM, VICTIM, MALLORY, 2][numbers.below(4)];
                let author = self.people[person].certificate.name();
                let target = Target::Author(author);
                // The owner names what he knows, or nothing.
                let mut heads = log.heads_of(target).unwrap_or_default();
                if numbers.percent(30) {
                    heads.truncate(1);
                }
                // Most seeds go on without revocations of honest people.
                if person == 2 && numbers.percent(80) {
                    return;
                }
                Action::Revoke(Revocation { target, reason: 2, since: 0, heads })
            }
            _ => {
                let person = OWNERS + numbers.below(MEMBERS - OWNERS);
                let person = if numbers.percent(20) { EXPIRING } else { person };
                Action::Grant(Box::new(Grant {
                    certificate: self.people[person].newer.clone(),
                    object: ObjectId::NONE,
                    fields: Pattern::new("*").expect("short"),
                    operations: Operations::FIELDS,
                    ends_ms: 0,
                }))
            }
        };
        let person = &mut self.people[self.nodes[number].person];
        if let Ok(made) = self.nodes[number].act(person, action, self.now_ms) {
            self.store_own(number, vec![made]);
        }
    }

    /// Keeps the state of a disk, or sets a machine back to one.
    pub(super) fn set_back(&mut self, number: usize) {
        if self.numbers.percent(60) || self.backups.is_empty() {
            self.backups.push((number, self.nodes[number].disk.clone()));
            return;
        }
        let at = self.numbers.below(self.backups.len());
        let (number, disk) = self.backups.swap_remove(at);
        let node = &mut self.nodes[number];
        node.disk = disk;
        node.disk.crash(Fate::Kill, &mut self.numbers);
        node.log = None;
        node.stored.clear();
        node.up_ms = self.now_ms;
        if self.defect != Defect::InstanceKept {
            self.instances += 1;
            node.instance = [self.instances; 16];
        }
        self.report.set_back += 1;
        // An entry that only this disk had is lost with it. What is on its way may still come.
        // Another node answers for the others from now on, until it is set back, too.
        let nodes = &self.nodes;
        let holder = |id: &EntryId| {
            nodes.iter().position(|node| node.stored.iter().any(|signed| signed.id == *id))
        };
        self.acknowledged.retain(|id, by| {
            if *by == number {
                match holder(id) {
                    Some(other) => *by = other,
                    None => return false,
                }
            }
            true
        });
    }

    /// Connects two nodes, until the line breaks after some bytes.
    pub(super) fn connect(
        &mut self,
        one: usize,
        other: usize,
        bytes: Option<usize>,
    ) -> Result<(), String> {
        if one == other || self.nodes[one].log.is_none() || self.nodes[other].log.is_none() {
            return Ok(());
        }
        let cuts = [self.cut(), self.cut()];
        let (low, high) = (one.min(other), one.max(other));
        let (before, behind) = self.nodes.split_at_mut(high);
        let mut pair = [&mut before[low], &mut behind[0]];
        let withholds = [(); 2].map(|()| !self.is_healed && self.numbers.percent(20));
        let ended = connect(&mut pair, bytes, self.now_ms, cuts, withholds, &mut self.numbers)
            .map_err(|why| format!("nodes {low} and {high}: {why}"))?;
        self.report.connections += 1;
        self.report.waited += ended.waiting;
        self.report.values += ended.values;
        if let Some((at, stopped)) = ended.stopped {
            self.stopped([low, high][at], Err(stopped));
        }
        Ok(())
    }
}
