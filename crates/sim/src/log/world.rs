//! The simulated world, as it begins.

use std::collections::{BTreeMap, BTreeSet};

use talaria_log::{
    Action, EntryId, Genesis, Grant, Log, MergeRule, ObjectId, Operations, Pattern, Signed,
};

use super::defect::Defect;
use super::disk::{Cut, Disk};
use super::network::Network;
use super::node::Node;
use super::people::{BEGIN_MS, MALLORY, MEMBERS, Notary, OWNERS, Person, VICTIM, people};
use super::report::LogReport;
use crate::numbers::Numbers;

/// The nodes.
pub(super) const NODES: usize = 20;
/// The largest deviation of a clock in milliseconds.
pub(super) const SKEW_MS_MAX: usize = 300_000;

/// Twenty nodes, and what the simulator knows of them.
pub(super) struct World {
    pub(super) numbers: Numbers,
    pub(super) now_ms: u64,
    pub(super) step: usize,
    pub(super) people: Vec<Person>,
    pub(super) notary: Notary,
    pub(super) nodes: Vec<Node>,
    pub(super) network: Network,
    /// The entries that every node begins with: genesis, grants and approvals.
    pub(super) begun: Vec<Signed>,
    /// Entries of which an author knows that they are stored, with the number of the node.
    pub(super) acknowledged: BTreeMap<EntryId, usize>,
    /// All entries that somebody with the right key has signed and that the log allows.
    pub(super) made: BTreeSet<EntryId>,
    pub(super) attacks: Attacks,
    /// States of disks to which machines are set back.
    pub(super) backups: Vec<(usize, Disk)>,
    pub(super) instances: u8,
    /// Whether nothing fails any more.
    pub(super) is_healed: bool,
    pub(super) defect: Defect,
    pub(super) report: LogReport,
}

/// The attackers' memory.
#[derive(Default)]
pub(super) struct Attacks {
    /// Instances that the thief has made.
    pub(super) stolen: u8,
    /// A record that somebody has seen before.
    pub(super) seen: Option<Signed>,
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

impl World {
    pub(super) fn new(seed: u64, defect: Defect) -> Self {
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
}
