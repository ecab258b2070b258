//! A simulation of the signed log: twenty nodes with disks, clocks and a network, attackers among them, by one seed.
//!
//! The pure core of `talaria-log` runs unchanged: `Log` in memory, records, and the functions that read and write segments. The
//! simulator gives it disks that lose and tear what was not synced, or are full; clocks that differ by minutes; and a network that
//! loses, delays, repeats, reorders and damages packets, and is parted for a while. Nodes also exchange entries by sessions of the real
//! protocol, over lines that break at any octet.
//!
//! Seven people have nodes, two of them are owners. The key of a third one is stolen: the thief forks and dates entries back, and an owner
//! revokes it. The certificate of a fourth one expires, as checkpoints and three witnesses say. Values are deleted, and some nodes give none away. Mallory tells two halves of the nodes different stories, dates entries a year ahead, and writes fields that nobody has
//! granted. A stranger forges.
//!
//! At the end the network heals. Then all nodes must have the same entries, the same hash of the state, the same checkpoints and keys of nodes, and each value that one of them has and that is
//! not deleted; each entry that was acknowledged
//! to its author must be there; no chain of an honest node may be forked; and a log that gets the same entries in another order must come to the
//! same hash.

mod attack;
mod connection;
mod disk;
mod network;
mod node;
mod people;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::AddAssign;

use talaria_log::{
    Action, Cosignatures, Edit, EntryId, Genesis, Grant, Log, MergeRule, NodeKey, ObjectId,
    Opening, Operations, Outcome, Pattern, Revocation, Signed, Standing, Target, Update, Value,
};

use crate::disk::Fate;
use crate::numbers::Numbers;
use attack::Attacks;
use connection::connect;
use disk::{Cut, Disk, Stopped};
use network::{Network, Packet};
use node::{Node, Taken, restored};
use people::{BEGIN_MS, EXPIRING, MALLORY, MEMBERS, Notary, OWNERS, Person, VICTIM, people};

/// The nodes.
const NODES: usize = 20;
/// The steps of a simulation.
const STEPS: usize = 400;
/// Rounds of exchanges after the network has healed.
const ROUNDS_MAX: usize = 60;
/// The largest deviation of a clock in milliseconds.
const SKEW_MS_MAX: usize = 300_000;

/// Something that is wrong on purpose, to see that the simulator notices it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Defect {
    /// Nothing.
    #[default]
    None,
    /// Disks ignore syncs.
    SyncsIgnored,
    /// Entries leave a node before they are durable.
    SentBeforeSync,
    /// A machine that is set back to an older state keeps its instance.
    InstanceKept,
}

/// The events of simulations.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct LogReport {
    /// Simulations.
    pub seeds: u64,
    /// Entries that all nodes have at the end.
    pub entries: u64,
    /// Entries that were acknowledged to honest authors.
    pub acknowledged: u64,
    /// Packets.
    pub packets: u64,
    /// Connections.
    pub connections: u64,
    /// Packets and connections that were lost.
    pub lost: u64,
    /// Packets that arrived twice.
    pub repeated: u64,
    /// Records that were damaged or forged, and refused.
    pub refused: u64,
    /// Entries that waited for their past or their time.
    pub waited: u64,
    /// Crashes.
    pub crashes: u64,
    /// Restarts that found a group cut off.
    pub torn: u64,
    /// Commits that failed because the disk was full.
    pub full: u64,
    /// Machines that were set back to an older state.
    pub set_back: u64,
    /// Forks at the end.
    pub forks: u64,
    /// Entries that are admitted and do not count.
    pub ended: u64,
    /// Deletable values that are deleted at the end.
    pub deleted: u64,
    /// Deletable values that came to a node after their entries.
    pub values: u64,
    /// Valid checkpoints.
    pub checkpoints: u64,
    /// Forks of the checkpointer.
    pub checkpoint_forks: u64,
    /// Entries of the key that expires which do not count for that.
    pub expired: u64,
    /// Snapshots in force.
    pub snapshots: u64,
    /// Keys of nodes that may connect.
    pub node_keys: u64,
    /// Others.
    pub node_keys_ended: u64,
    /// Segments.
    pub segments: u64,
}

impl AddAssign for LogReport {
    fn add_assign(&mut self, other: Self) {
        let pairs = [
            (&mut self.seeds, other.seeds),
            (&mut self.entries, other.entries),
            (&mut self.acknowledged, other.acknowledged),
            (&mut self.packets, other.packets),
            (&mut self.connections, other.connections),
            (&mut self.lost, other.lost),
            (&mut self.repeated, other.repeated),
            (&mut self.refused, other.refused),
            (&mut self.waited, other.waited),
            (&mut self.crashes, other.crashes),
            (&mut self.torn, other.torn),
            (&mut self.full, other.full),
            (&mut self.set_back, other.set_back),
            (&mut self.forks, other.forks),
            (&mut self.ended, other.ended),
            (&mut self.deleted, other.deleted),
            (&mut self.values, other.values),
            (&mut self.checkpoints, other.checkpoints),
            (&mut self.checkpoint_forks, other.checkpoint_forks),
            (&mut self.expired, other.expired),
            (&mut self.snapshots, other.snapshots),
            (&mut self.node_keys, other.node_keys),
            (&mut self.node_keys_ended, other.node_keys_ended),
            (&mut self.segments, other.segments),
        ];
        for (sum, more) in pairs {
            *sum += more;
        }
    }
}

/// A promise of the log that was broken.
#[derive(Clone, Debug)]
pub struct LogFailure {
    /// The seed.
    pub seed: u64,
    /// The step at which it was noticed.
    pub step: usize,
    /// The promise.
    pub why: String,
}

impl fmt::Display for LogFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {}, step {}: {}", self.seed, self.step, self.why)
    }
}

/// Runs the simulation of a seed.
///
/// # Errors
///
/// [`LogFailure`] if a promise of the log is broken.
pub fn run_log(seed: u64, defect: Defect) -> Result<LogReport, LogFailure> {
    let mut world = World::new(seed, defect);
    let failed = |world: &World, why| LogFailure { seed, step: world.step, why };
    for step in 0..STEPS {
        world.step = step;
        if let Err(why) = world.step() {
            return Err(failed(&world, why));
        }
    }
    world.step = STEPS;
    match world.heal().and_then(|()| world.check()) {
        Ok(()) => Ok(world.report),
        Err(why) => Err(failed(&world, why)),
    }
}

struct World {
    numbers: Numbers,
    now_ms: u64,
    step: usize,
    people: Vec<Person>,
    notary: Notary,
    nodes: Vec<Node>,
    network: Network,
    /// The entries that every node begins with: genesis, grants and approvals.
    begun: Vec<Signed>,
    /// Entries of which an author knows that they are stored, with the number of the node.
    acknowledged: BTreeMap<EntryId, usize>,
    /// All entries that somebody with the right key has signed and that the log allows.
    made: BTreeSet<EntryId>,
    attacks: Attacks,
    /// States of disks to which machines are set back.
    backups: Vec<(usize, Disk)>,
    instances: u8,
    /// Whether nothing fails any more.
    is_healed: bool,
    defect: Defect,
    report: LogReport,
}

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

/// The entries that every node begins with.
fn begin(
    people: &mut [Person],
    notary: &Notary,
    threshold: u8,
    made: &mut BTreeSet<EntryId>,
) -> Vec<Signed> {
    let owners = people[..OWNERS].iter().map(|owner| owner.certificate.clone()).collect();
    let mut genesis = notary.of(Genesis::new(owners, threshold));
    let rule = |pattern: &str, rule| (Pattern::new(pattern).expect("short"), rule);
    genesis.rules = vec![
        rule("strict", MergeRule::Strict),
        rule("set", MergeRule::Set),
        rule("count", MergeRule::Counter),
        rule("list", MergeRule::List),
    ];
    let [first, second] = [[101; 16], [102; 16]];
    let genesis = people[0].maker(first).begin(genesis, BEGIN_MS - 60_000).expect("the key signs");
    let mut log = Log::begin(&genesis).expect("an owner has signed");
    let mut begun = vec![genesis];
    for member in OWNERS..=MALLORY {
        let grant = Grant {
            certificate: people[member].certificate.clone(),
            object: ObjectId::NONE,
            fields: Pattern::new(if member == MALLORY { "note*" } else { "*" }).expect("short"),
            operations: if member == MALLORY { Operations::FIELDS } else { Operations::ALL },
            // One grant ends in the middle.
            ends_ms: if member == VICTIM - 1 { BEGIN_MS + 200_000 } else { 0 },
        };
        let now_ms = BEGIN_MS - 50_000;
        let grant = Action::Grant(Box::new(grant));
        let grant = people[0].maker(first).make(&mut log, grant, now_ms).expect("an owner");
        let id = grant.id;
        begun.push(grant);
        if threshold > 1 {
            let approval = Action::Approve(id);
            let made = people[1].maker(second).make(&mut log, approval, now_ms);
            begun.push(made.expect("an owner"));
        }
    }
    made.extend(begun.iter().map(|signed| signed.id));
    begun
}

/// All that nodes with the same entries agree on beside the state, as text: which entries count and why, checkpoints, snapshots and keys of nodes.
fn agreed(log: &Log) -> String {
    let mut ids: Vec<EntryId> = log.ids().collect();
    ids.sort_unstable();
    let standings = ids.iter().map(|id| log.standing(id));
    let standings: Vec<Option<Standing>> = standings.collect();
    let mut checkpoints = log.checkpoints();
    checkpoints.sort_by_key(|checkpoint| checkpoint.entry);
    let mut nodes: Vec<(EntryId, bool)> = log.nodes().map(|(id, .., may)| (id, may)).collect();
    nodes.sort_unstable();
    let (forks, snapshots) = (log.checkpoint_forks(), log.snapshots());
    format!("{standings:?} {checkpoints:?} {forks:?} {snapshots:?} {nodes:?}")
}

impl World {
    fn new(seed: u64, defect: Defect) -> Self {
        let mut numbers = Numbers::new(seed ^ 0x10c5_ed10);
        let mut people = people();
        let mut made = BTreeSet::new();
        let threshold = if numbers.percent(30) { 2 } else { 1 };
        let notary = Notary::new();
        let begun = begin(&mut people, &notary, threshold, &mut made);
        let nodes = (0..NODES).map(|number| {
            // Before the simulation, everything is durable.
            let mut disk = Disk::new(begun[0].id, Defect::None);
            disk.commit(&begun, &mut Cut(None)).expect("a new disk has room");
            let most_ms = if numbers.percent(15) { SKEW_MS_MAX } else { 30_000 };
            let skew = numbers.below(most_ms);
            let skew_ms = i64::try_from(skew).unwrap_or_default();
            let mut node = Node {
                person: number % MEMBERS,
                instance: [u8::try_from(number).unwrap_or_default() + 1; 16],
                log: None,
                stored: Vec::new(),
                disk,
                skew_ms: if numbers.percent(50) { skew_ms } else { -skew_ms },
                up_ms: 0,
            };
            node.start().expect("a new disk");
            node.disk.set_defect(defect);
            node
        });
        Self {
            nodes: nodes.collect(),
            now_ms: BEGIN_MS,
            step: 0,
            people,
            notary,
            network: Network::default(),
            begun,
            acknowledged: BTreeMap::new(),
            made,
            attacks: Attacks::default(),
            backups: Vec::new(),
            instances: 150,
            is_healed: false,
            defect,
            report: LogReport { seeds: 1, ..LogReport::default() },
            numbers,
        }
    }

    fn step(&mut self) -> Result<(), String> {
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
                let octets = is_broken.then(|| 1 + self.numbers.below(20_000));
                if self.network.is_parted(node, to) {
                    self.network.lost += 1;
                } else {
                    self.connect(node, to, octets)?;
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
    fn start(&mut self, number: usize) -> Result<(), String> {
        let node = &mut self.nodes[number];
        let is_torn = node.start().map_err(|why| format!("node {number}: {why}"))?;
        self.report.torn += u64::from(is_torn);
        Ok(())
    }

    /// The step at which the power is cut during a commit, in a few cases.
    fn cut(&mut self) -> Cut {
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

    fn crash(&mut self, number: usize) {
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
            let packet = node::packet(&made);
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
                attack::damage(&mut records, &mut self.numbers);
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

    /// An owner states what the node has: a checkpoint with the key of the checkpointer, or a snapshot.
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
    fn set_back(&mut self, number: usize) {
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
        // An entry that only this disk had is lost with it. What is on its way may still come. Another node answers for the others
        // from now on, until it is set back, too.
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

    /// Everything works again, and all nodes exchange until nothing is new.
    fn heal(&mut self) -> Result<(), String> {
        self.network.parted = 0;
        self.now_ms += 2 * SKEW_MS_MAX as u64 + 400_000;
        for number in 0..NODES {
            let disk = &mut self.nodes[number].disk;
            disk.segments_max = usize::MAX;
            // One more crash at the end: the disk must have everything that was acknowledged.
            self.crash(number);
            self.start(number)?;
        }
        self.is_healed = true;
        let amount = |world: &Self| -> usize {
            let values =
                |node: &Node| node.stored.iter().filter(|signed| signed.opening.is_some()).count();
            world.nodes.iter().map(|node| node.stored.len() + values(node)).sum()
        };
        for _ in 0..ROUNDS_MAX {
            let before = amount(self);
            for number in 0..NODES {
                for step in [1, 7] {
                    self.connect(number, (number + step) % NODES, None)?;
                }
            }
            if before == amount(self) {
                return Ok(());
            }
        }
        Err(format!("the nodes did not come to an end in {ROUNDS_MAX} rounds"))
    }

    /// Connects two nodes, until the line breaks after some octets.
    fn connect(&mut self, one: usize, other: usize, octets: Option<usize>) -> Result<(), String> {
        if one == other || self.nodes[one].log.is_none() || self.nodes[other].log.is_none() {
            return Ok(());
        }
        let cuts = [self.cut(), self.cut()];
        let (low, high) = (one.min(other), one.max(other));
        let (before, behind) = self.nodes.split_at_mut(high);
        let mut pair = [&mut before[low], &mut behind[0]];
        let withholds = [(); 2].map(|()| !self.is_healed && self.numbers.percent(20));
        let ended = connect(&mut pair, octets, self.now_ms, cuts, withholds, &mut self.numbers)
            .map_err(|why| format!("nodes {low} and {high}: {why}"))?;
        self.report.connections += 1;
        self.report.waited += ended.waiting;
        self.report.values += ended.values;
        if let Some((at, stopped)) = ended.stopped {
            self.stopped([low, high][at], Err(stopped));
        }
        Ok(())
    }

    fn check(&mut self) -> Result<(), String> {
        let of = |node: &Node| -> BTreeSet<EntryId> {
            node.stored.iter().map(|signed| signed.id).collect()
        };
        let all = of(&self.nodes[0]);
        let log = self.nodes[0].log.as_ref().ok_or("node 0 is down")?;
        let (hash, decided) = (log.state_hash(), agreed(log));
        // The values that somebody has.
        let values: BTreeSet<EntryId> = self
            .nodes
            .iter()
            .filter_map(|node| node.log.as_ref())
            .flat_map(|log| log.ids().filter(|id| log.state().has_value(id)))
            .collect();
        for (number, node) in self.nodes.iter().enumerate() {
            let theirs = of(node);
            if theirs != all {
                let (more, less) = (theirs.difference(&all).next(), all.difference(&theirs).next());
                return Err(format!(
                    "node {number} has {} entries and node 0 {}: {more:?} only there, {less:?} only here",
                    theirs.len(),
                    all.len()
                ));
            }
            let log = node.log.as_ref().ok_or("a node is down")?;
            if log.state_hash() != hash {
                return Err(format!("nodes 0 and {number} have the same entries and other states"));
            }
            if agreed(log) != decided {
                return Err(format!(
                    "nodes 0 and {number} disagree: {} and {decided}",
                    agreed(log)
                ));
            }
            if let Some(id) = values.iter().find(|id| !log.state().has_value(id)) {
                return Err(format!("node {number} does not have the value of the entry {id}"));
            }
            let after = restored(&node.stored)?;
            if after.missing_values() != log.missing_values() {
                return Err(format!("node {number} has other values after a restart"));
            }
            if after.state_hash() != hash {
                return Err(format!("node {number} has another state after a restart"));
            }
        }
        if let Some((id, node)) = self.acknowledged.iter().find(|(id, _)| !all.contains(id)) {
            return Err(format!("the entry {id}, which node {node} acknowledged, is lost"));
        }
        let all_made = self.begun.iter().map(|signed| signed.id).chain(self.made.iter().copied());
        let all_made: BTreeSet<EntryId> = all_made.collect();
        if let Some(id) = all.difference(&all_made).next() {
            return Err(format!("the entry {id} is admitted, and nobody may have written it"));
        }
        self.check_forks(log)?;
        self.check_order(hash)?;
        self.report.entries = all.len() as u64;
        self.report.forks = log.forks().len() as u64;
        let ended = |id: &&EntryId| log.standing(id) != Some(Standing::Counts);
        self.report.ended = all.iter().filter(ended).count() as u64;
        for id in &all {
            self.report.deleted += u64::from(log.state().is_deleted(id));
            self.report.expired += u64::from(log.standing(id) == Some(Standing::Expired));
        }
        let checkpoints = log.checkpoints();
        let valid = checkpoints.iter().filter(|checkpoint| checkpoint.is_valid).count();
        self.report.checkpoints = valid as u64;
        self.report.checkpoint_forks = log.checkpoint_forks().len() as u64;
        for snapshot in log.snapshots() {
            self.report.snapshots += u64::from(snapshot.is_in_force);
            if log.check_snapshot(&snapshot.entry) != Some(Ok(())) {
                return Err(format!("the snapshot {} of an honest owner is wrong", snapshot.entry));
            }
        }
        let may = log.nodes().filter(|(.., may)| *may).count();
        self.report.node_keys = may as u64;
        self.report.node_keys_ended = (log.nodes().count() - may) as u64;
        self.report.packets = self.network.sent();
        self.report.lost = self.network.lost;
        self.report.repeated = self.network.repeated;
        self.report.segments = self.nodes.iter().map(|node| node.disk.segments() as u64).sum();
        Ok(())
    }

    /// Only attackers fork.
    fn check_forks(&self, log: &Log) -> Result<(), String> {
        let attackers = [VICTIM, MALLORY].map(|person| self.people[person].certificate.name());
        match log.forks().into_iter().find(|fork| !attackers.contains(&fork.chain.author)) {
            None => Ok(()),
            Some(fork) => Err(format!(
                "the chain of an honest node is forked at {}: instance {}",
                fork.sequence, fork.chain.instance[0]
            )),
        }
    }

    /// Another order of delivery gives the same state.
    fn check_order(&self, hash: [u8; 32]) -> Result<(), String> {
        let [genesis, rest @ ..] = &self.nodes[0].stored[..] else { return Ok(()) };
        let mut log = Log::begin(genesis).map_err(|error| error.to_string())?;
        let mut rest = rest.to_vec();
        let mut numbers = self.numbers.clone();
        while !rest.is_empty() {
            let part = (0..rest.len().min(16)).map(|_| {
                let at = numbers.below(rest.len());
                rest.swap_remove(at)
            });
            let part: Vec<Signed> = part.collect();
            let outcomes = log.offer(part, self.now_ms).outcomes;
            if let Some(outcome) =
                outcomes.iter().find(|outcome| matches!(outcome, Outcome::Refused(_)))
            {
                return Err(format!("an admitted entry is refused in another order: {outcome:?}"));
            }
        }
        if log.state_hash() == hash {
            Ok(())
        } else {
            Err("another order of delivery gives another state".into())
        }
    }
}
