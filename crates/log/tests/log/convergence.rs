//! Any order, repetition and batching of delivery gives the same state and the same hash.
//!
//! A history is made by five chains with copies of the log that have seen different parts of it. It
//! has forks, grants, deletable values and their deletion, epochs and encrypted values, revocations
//! with heads, without, and with a stated time, approvals and choices, checkpoints, cosignatures
//! and a key that expires, made without seeing each other.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use talaria_log::{
    Action, Change, CheckpointFork, CheckpointInfo, Content, DataAction, Encrypted, Encryption,
    EntryId, FieldChange, ForkEvidence, Log, Maker, Opening, Outcome, Pattern, Revocation, Signed,
    SnapshotInfo, Standing, Target, Value, WrappedKey, read_record, to_records,
};
use talaria_message::Sealer;

use crate::people::{
    EXPIRING, GRACE, NOW, NOW_MS, Notary, Person, VALID_S, begin, change, genesis_of, grant,
    grant_by, object, offer, revoke, revoke_since, set,
};

/// Those who need a grant. The key of the second one expires.
const MEMBERS: [usize; 2] = [2, EXPIRING];

/// A step of a history: who does what. The numbers choose among what is there.
#[derive(Clone, Debug)]
struct Step {
    actor: usize,
    kind: u8,
    one: prop::sample::Index,
    two: prop::sample::Index,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (0usize..5, 0u8..40, any::<prop::sample::Index>(), any::<prop::sample::Index>())
        .prop_map(|(actor, kind, one, two)| Step { actor, kind, one, two });
    prop::collection::vec(step, 10..85)
}

struct Actor {
    person: Person,
    log: Log,
    /// The entries that the copy has, in their order.
    known: Vec<Signed>,
}

struct History {
    notary: Notary,
    actors: Vec<Actor>,
    genesis: Signed,
    made: Vec<Signed>,
}

impl History {
    /// Alice and Bob are owners, Carol and Mallory get grants. Mallory has two devices.
    fn new(threshold: u8, witnesses: u8) -> Self {
        let notary = Notary::new(witnesses);
        let mut alice = Person::new(0, 1);
        let genesis = notary.of(genesis_of(&[&alice, &Person::new(1, 1)], threshold));
        let genesis = begin(&mut alice, genesis);
        let [carol, mallory] = MEMBERS;
        let people = [
            alice,
            Person::new(1, 1),
            Person::new(carol, 1),
            Person::new(mallory, 1),
            Person::new(mallory, 2),
        ];
        let actor = |person| {
            let log = Log::begin(&genesis).unwrap();
            Actor { person, log, known: Vec::new() }
        };
        let actors = people.map(actor).into();
        let mut history = Self { notary, actors, genesis: genesis.clone(), made: Vec::new() };
        history.give_grants();
        history
    }

    /// Members need a grant before anything happens.
    fn give_grants(&mut self) {
        for member in MEMBERS {
            let given = grant(&Person::new(member, 1));
            let alice = &mut self.actors[0];
            let signed = alice.person.make(&mut alice.log, given).unwrap();
            alice.known.push(signed.clone());
            self.made.push(signed.clone());
            self.exchange(1, 0, false);
            let approval = Action::Approve(signed.id);
            let bob = &mut self.actors[1];
            let approval = bob.person.make(&mut bob.log, approval).unwrap();
            bob.known.push(approval.clone());
            self.made.push(approval);
            self.exchange(0, 1, false);
        }
        for actor in 1..5 {
            self.exchange(actor, 0, false);
        }
    }

    fn step(&mut self, step: &Step, number: usize) {
        let Step { actor, kind, one, two } = step;
        let ids: Vec<EntryId> = {
            let known = &self.actors[*actor].known;
            known.iter().map(|signed| signed.id).collect()
        };
        let pick = |index: &prop::sample::Index| ids.get(index.index(ids.len().max(1))).copied();
        let log = &self.actors[*actor].log;
        let value = Value::Integer(i64::try_from(number).unwrap());
        let some = |content: Option<Content>| -> Vec<EntryId> {
            let mut ids: Vec<EntryId> = match content {
                Some(Content::Strict(values)) => values.into_keys().collect(),
                Some(Content::Set(values)) => values.into_values().flatten().collect(),
                Some(Content::List(values)) => values.into_iter().map(|(id, _)| id).collect(),
                _ => Vec::new(),
            };
            ids.truncate(8);
            ids.sort_unstable();
            ids
        };
        let field = |field: &str| some(log.state().field(object(1), field));
        // Before and after the end of the key that expires.
        let times = [10, 20, 500, VALID_S, VALID_S + GRACE, VALID_S + GRACE + 1, 3 * VALID_S];
        let target = Person::new([2, EXPIRING, 1, 0][two.index(4)], 1);
        let opening = Opening::new(&value, [number.to_be_bytes()[7]; 32]);
        let committed = Value::Committed(opening.commitment());
        let action = match kind {
            0 | 1 => set(&number.to_string()),
            2 => change(
                1,
                "strict",
                FieldChange::Replace {
                    replaced: field("strict"),
                    value: (!number.is_multiple_of(3)).then_some(value),
                },
            ),
            3 => change(1, "set", FieldChange::Add(Value::Integer(small(one.index(3))))),
            4 => change(1, "set", FieldChange::Remove(field("set"))),
            5 => change(1, "count", FieldChange::Count(i64::MAX - small(one.index(9)))),
            6 => {
                let elements = field("list");
                let after = elements.get(one.index(elements.len() + 1)).copied();
                let (parent, side) = log.state().place_in_list(object(1), "list", after);
                change(1, "list", FieldChange::Insert { parent, side, value })
            }
            7 => match field("list").first() {
                Some(&element) => change(1, "list", FieldChange::Erase(element)),
                None => return,
            },
            8 | 9 => grant(&Person::new(MEMBERS[one.index(2)], 1)),
            10 => {
                // With the heads that the owner knows, or without.
                let chains = log.chains().filter(|(chain, _)| chain.author == target.name());
                let mut heads: Vec<EntryId> = chains.flat_map(|(_, heads)| heads).collect();
                heads.sort_unstable();
                if one.index(2) == 0 {
                    heads.truncate(1);
                }
                revoke(&target, heads)
            }
            11 => match pick(one) {
                Some(id) => Action::Revoke(Revocation {
                    target: Target::Grant(id),
                    reason: 0,
                    since: 0,
                    heads: Vec::new(),
                }),
                None => return,
            },
            12 | 18 => {
                let is_decision =
                    |id: &&EntryId| log.entry(id).is_some_and(|entry| entry.action.number() >= 32);
                let decisions: Vec<&EntryId> = ids.iter().filter(is_decision).collect();
                match decisions.get(one.index(decisions.len().max(1))) {
                    Some(&&id) => Action::Approve(id),
                    None => return,
                }
            }
            29 => {
                let forks = log.checkpoint_forks();
                let Some(fork) = forks.get(one.index(forks.len().max(1))) else { return };
                Action::Choose(fork.branches[two.index(fork.branches.len())])
            }
            13 | 19 | 38 | 39 => {
                let forks = log.forks();
                let Some(fork) = forks.get(one.index(forks.len().max(1))) else { return };
                Action::Choose(fork.entries[two.index(fork.entries.len())])
            }
            14 => return self.fork(*actor, *one, number),
            15 => return self.batch(*actor, number),
            22..=24 => {
                let actor = &mut self.actors[*actor];
                let time = times[two.index(times.len())];
                let made = self.notary.try_checkpoint(&mut actor.person, &mut actor.log, time);
                if let Ok(signed) = made {
                    actor.known.push(signed.clone());
                    self.made.push(signed);
                }
                return;
            }
            25 | 26 => {
                let known = log.checkpoints();
                let Some(checkpoint) = known.get(one.index(known.len().max(1))) else { return };
                let first = two.index(4);
                let witnesses = (first..self.notary.witnesses.len())
                    .map(|place| (place, times[(two.index(50) + place) % times.len()]))
                    .collect::<Vec<_>>();
                if witnesses.is_empty() {
                    return;
                }
                self.notary.cosignatures(log, checkpoint.entry, &witnesses)
            }
            30 => change(1, ["name", "other"][one.index(2)], FieldChange::Set(Some(committed))),
            31 => change(1, "set", FieldChange::Add(committed)),
            32 => {
                let (parent, side) = log.state().place_in_list(object(1), "list", None);
                change(1, "list", FieldChange::Insert { parent, side, value: committed })
            }
            33 => {
                let field = ["name", "other", "set", "list"][one.index(4)];
                let history = log.history(object(1), Some(field));
                let mut ids: Vec<EntryId> = history
                    .iter()
                    .filter(|(_, entry)| entry.commitment().is_some())
                    .map(|(id, _)| *id)
                    .skip(two.index(3))
                    .take(3)
                    .collect();
                ids.sort_unstable();
                change(1, field, FieldChange::DeleteValues(ids))
            }
            34 => {
                let Actor { person, log, known } = &mut self.actors[*actor];
                if let Ok(entry) = log.draft_snapshot(person.chain, NOW_MS) {
                    log.append(entry.clone()).unwrap();
                    let signed = person.sign(entry, log.id());
                    known.push(signed.clone());
                    self.made.push(signed);
                }
                return;
            }
            35 | 36 => {
                let fields = Pattern::new(["*", "n*", "name", "other"][one.index(4)]).unwrap();
                let object = object(1);
                let change = if *kind == 35 {
                    let message =
                        [&b"\xc1\x0a\x03reader-1\x19\xd2\x01"[..], &[number.to_be_bytes()[7]]];
                    let key = WrappedKey::new([1; 32], message.concat()).unwrap();
                    Change::Encrypt(fields, Box::new(key))
                } else {
                    Change::StopEncrypting(fields)
                };
                Action::Data(DataAction { object, change })
            }
            37 => {
                let field = ["name", "other"][one.index(2)];
                // Also under an epoch that does not count any more.
                let mut epochs = log.entries().filter_map(|(id, entry)| match &entry.action {
                    Action::Data(DataAction { change: Change::Encrypt(fields, _), .. }) => {
                        fields.matches(field).then_some(id)
                    }
                    _ => None,
                });
                let Some(epoch) = epochs.nth(two.index(3)) else { return };
                let packet = Sealer::with_session_key(&[1; 32]).seal(b"value").unwrap();
                let value = Value::Encrypted(Encrypted::new(epoch, packet).unwrap());
                change(1, field, FieldChange::Set(Some(value)))
            }
            27 => revoke_since(&target, u64::from(NOW + times[one.index(times.len())])),
            28 => grant_by(Person::renewed(EXPIRING, 2 * VALID_S)),
            _ => return self.exchange(*actor, one.index(5), two.index(3) == 0),
        };
        let actor = &mut self.actors[*actor];
        if let Ok(mut signed) = actor.person.make(&mut actor.log, action) {
            if actor.log.reveal(&signed.id, &opening) {
                signed.opening = Some(opening);
            }
            actor.known.push(signed.clone());
            self.made.push(signed);
        }
    }

    /// Signs an entry on top of an older state of one's own chain.
    fn fork(&mut self, actor: usize, at: prop::sample::Index, number: usize) {
        let end = at.index(self.actors[actor].known.len() + 1);
        let mut older = Log::begin(&self.genesis).unwrap();
        for signed in &self.actors[actor].known[..end] {
            offer(&mut older, &[signed]);
        }
        let person = &mut self.actors[actor].person;
        if let Ok(signed) = person.make(&mut older, set(&format!("fork {number}"))) {
            // Its maker does not remember it.
            self.made.push(signed);
        }
    }

    fn batch(&mut self, actor: usize, number: usize) {
        let Actor { person, log, known } = &mut self.actors[actor];
        let mut entries = Vec::new();
        for at in 0..3 {
            let action = set(&format!("batch {number}.{at}"));
            let Ok(entry) = log.draft(person.chain, action, NOW_MS) else { break };
            if log.append(entry.clone()).is_err() {
                break;
            }
            entries.push(entry);
        }
        if !entries.is_empty() {
            let mut maker = Maker { chain: person.chain, key: &mut person.key };
            let signed = maker.sign_batch(entries, log.id(), NOW_MS).unwrap();
            known.extend(signed.iter().cloned());
            self.made.extend(signed);
        }
    }

    /// Gives everything that one copy has to another, or everything that there is, with forks.
    fn exchange(&mut self, to: usize, from: usize, all: bool) {
        let entries = if all { self.made.clone() } else { self.actors[from].known.clone() };
        let actor = &mut self.actors[to];
        let added = actor.log.offer(entries, NOW_MS).added;
        actor.known.extend(added);
    }
}

fn small(number: usize) -> i64 {
    i64::try_from(number).unwrap()
}

/// Brings places into an order that a seed chooses.
fn shuffle(places: &mut [usize], mut seed: u64) {
    for end in (1..places.len()).rev() {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        places.swap(end, usize::try_from(seed >> 33).unwrap() % (end + 1));
    }
}

/// All that nodes must agree on: what counts, the heads, the hash of the state, the forks, the
/// checkpoints, and the snapshots.
type Seen = (
    Vec<(EntryId, Standing)>,
    Vec<EntryId>,
    [u8; 32],
    Vec<ForkEvidence>,
    (Vec<CheckpointInfo>, Vec<CheckpointFork>, Vec<Vec<EntryId>>),
    Vec<Encryption>,
    Vec<SnapshotInfo>,
);

fn seen(log: &Log) -> Seen {
    let mut standings: Vec<(EntryId, Standing)> =
        log.entries().map(|(id, _)| (id, log.standing(&id).unwrap())).collect();
    standings.sort_by_key(|(id, _)| *id);
    let mut checkpoints = log.checkpoints();
    checkpoints.sort_by_key(|checkpoint| checkpoint.entry);
    let leaves = checkpoints.iter().map(|one| log.checkpoint_leaves(&one.entry).unwrap()).collect();
    let forks = log.checkpoint_forks();
    let snapshots = log.snapshots();
    for snapshot in &snapshots {
        // Whoever made it had seen no more than its past.
        assert_eq!(log.check_snapshot(&snapshot.entry), Some(Ok(())));
    }
    let encryption = |field| log.state().encryption(object(1), field);
    let encryptions = ["name", "other", "set"].map(encryption).to_vec();
    let (heads, hash) = (log.heads(), log.state_hash());
    let of_checkpoints = (checkpoints, forks, leaves);
    (standings, heads, hash, log.forks(), of_checkpoints, encryptions, snapshots)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, rng_seed: RngSeed::Random, ..ProptestConfig::default() })]

    #[test]
    fn order_repetition_and_batching_of_delivery_do_not_matter(
        threshold in 1u8..3,
        witnesses in 0u8..3,
        steps in steps(),
        order: u64,
        sizes in prop::collection::vec(1usize..130, 40),
    ) {
        let mut history = History::new(threshold, [0, 1, 3][usize::from(witnesses)]);
        for (number, step) in steps.iter().enumerate() {
            history.step(step, number);
        }
        let made = &history.made;
        let mut straight = Log::begin(&history.genesis).unwrap();
        let outcomes = straight.offer(made.clone(), NOW_MS).outcomes;
        prop_assert!(outcomes.iter().all(|outcome| *outcome == Outcome::Added), "{:?}", outcomes);
        let wanted = seen(&straight);

        // One by one, in another order, each twice.
        let mut places: Vec<usize> = (0..made.len()).chain(0..made.len()).collect();
        shuffle(&mut places, order);
        let mut shuffled = Log::begin(&history.genesis).unwrap();
        for &place in &places {
            offer(&mut shuffled, &[&made[place]]);
        }
        prop_assert_eq!(shuffled.waiting(), 0);
        prop_assert_eq!(&seen(&shuffled), &wanted);

        // In pieces of any size, backwards.
        let mut pieces = Log::begin(&history.genesis).unwrap();
        let mut rest = &places[..];
        for size in sizes.iter().cycle() {
            if rest.is_empty() { break; }
            let (piece, behind) = rest.split_at(rest.len() - rest.len().min(*size));
            rest = piece;
            pieces.offer(behind.iter().map(|&place| made[place].clone()).collect(), NOW_MS);
        }
        prop_assert_eq!(&seen(&pieces), &wanted);

        // Without a single deletable value.
        let mut bare = made.clone();
        bare.iter_mut().for_each(|signed| signed.opening = None);
        let mut without = Log::begin(&history.genesis).unwrap();
        without.offer(bare, NOW_MS);
        prop_assert_eq!(&seen(&without), &wanted);

        // From disk: records, without checking signatures again.
        let mut records = Vec::new();
        to_records(made, &mut records);
        let mut restored = Log::begin(&history.genesis).unwrap();
        for signed in records.iter().flat_map(|record| read_record(record).unwrap()) {
            restored.restore(&signed).unwrap();
        }
        restored.settle();
        prop_assert_eq!(&seen(&restored), &wanted);
    }
}

/// The histories of the property test have what they are for: otherwise it would show nothing.
#[test]
fn histories_have_forks_revocations_and_choices() {
    use proptest::strategy::ValueTree as _;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let mut found = std::collections::BTreeMap::new();
    for round in 0..120 {
        let mut history = History::new(1, 3 * (round % 2));
        for (number, step) in steps().new_tree(&mut runner).unwrap().current().iter().enumerate() {
            history.step(step, number);
        }
        let mut log = Log::begin(&history.genesis).unwrap();
        log.offer(history.made, NOW_MS);
        let valid = log.checkpoints().iter().filter(|checkpoint| checkpoint.is_valid).count();
        let older =
            log.snapshots().iter().filter(|one| one.snapshot.state != log.state_hash()).count();
        *found.entry("snapshot of another state").or_insert(0) += older;
        *found.entry("valid checkpoint").or_insert(0) += valid;
        *found.entry("fork of the checkpointer").or_insert(0) += log.checkpoint_forks().len();
        let is_behind_fork = |entry: &talaria_log::Entry| {
            let forks = log.forks();
            forks.iter().any(|fork| fork.chain == entry.chain && fork.sequence <= entry.sequence)
        };
        for (id, entry) in log.entries() {
            let chosen = log.entries().any(|(_, other)| other.action.name() == "choose");
            if !chosen && is_behind_fork(&entry) && log.standing(&id) == Some(Standing::Counts) {
                *found.entry("spared by a checkpoint").or_insert(0) += 1;
            }
            *found.entry(entry.action.name()).or_insert(0) += 1;
            *found
                .entry(match log.standing(&id).unwrap() {
                    Standing::Counts => "counts",
                    Standing::Revoked => "revoked",
                    Standing::Forked => "forked",
                    Standing::GrantEnded => "grant ended",
                    Standing::Expired => "expired",
                })
                .or_insert(0) += 1;
        }
        *found
            .entry(match log.state().encryption(object(1), "name") {
                Encryption::Epoch(_) => "encrypted",
                Encryption::Lost => "lost epoch",
                Encryption::None => "not encrypted",
            })
            .or_insert(0) += 1;
    }
    for what in [
        "insert",
        "erase",
        "replace",
        "remove",
        "revoke",
        "choose",
        "approve",
        "forked",
        "revoked",
        "counts",
        "checkpoint",
        "cosign",
        "expired",
        "valid checkpoint",
        "fork of the checkpointer",
        "spared by a checkpoint",
        "encrypt",
        "stop-encrypting",
        "encrypted",
        "lost epoch",
        "not encrypted",
        "snapshot",
        "snapshot of another state",
    ] {
        assert!(found.get(what).is_some_and(|count| *count > 3), "{what}: {found:?}");
    }
}
