//! A model of writers and prunes on one storage. Every step is one request, and all interleavings
//! are tried, with every actor dying or standing still for ever at any step, and every lease
//! running out at any time.
//!
//! There is one chunk. Pack 0 has it at first; each writer and prune can write one further pack of
//! it. The rules are the functions that the real code calls. Each rule can be turned off, to see
//! that the model notices.

use std::collections::HashSet;

use super::{can_rely, is_lost, may_delete};

/// The number of attempts of a writer or a prune.
const ATTEMPTS: u8 = 2;

/// A set of packs, of writers or of prunes, as bits.
type Set = u16;

fn has(set: Set, one: usize) -> bool {
    set >> one & 1 == 1
}

fn members(set: Set) -> impl Iterator<Item = usize> {
    (0..16).filter(move |one| has(set, *one))
}

/// Rules that can be rules.
#[derive(Clone, Copy, Default)]
struct Rules {
    /// Fewer choices, for more actors.
    narrow: bool,
    writer_ignores_plans: bool,
    writer_lists_no_commits: bool,
    writer_lists_no_packs: bool,
    writer_publishes_at_once: bool,
    prune_lists_no_snapshots: bool,
    prune_lists_no_prepared: bool,
    prune_trusts_planned_copies: bool,
    prune_takes_plans_back: bool,
    prune_leaves_plans_of_others: bool,
}

impl Rules {
    fn attempts(self) -> u8 {
        if self.narrow { 1 } else { ATTEMPTS }
    }
}

/// The storage as everybody sees it.
#[derive(Clone, Copy, Default, Eq, Hash, PartialEq)]
struct Storage {
    packs: Set,
    /// Packs that an index names.
    indexed: Set,
    /// Snapshots that need the chunk: of writers, and one that was there before.
    snapshots: Set,
    /// Snapshots that writers have not published yet.
    prepared: Set,
    leases: Set,
    /// The packs of each prune's plan, and of its commit.
    plans: [Set; 2],
    commits: [Set; 2],
}

impl Storage {
    fn planned(&self) -> Set {
        self.plans.iter().chain(&self.commits).fold(0, |all, plan| all | plan)
    }

    /// The packs of which somebody who lists plans first may rely on.
    fn reliable(&self, planned: Set) -> Set {
        members(self.indexed)
            .filter(|pack| can_rely(has(self.packs, *pack), has(planned, *pack)))
            .fold(0, |all, pack| all | 1 << pack)
    }
}

#[derive(Clone, Copy, Default, Eq, Hash, PartialEq)]
struct Writer {
    step: u8,
    attempt: u8,
    /// The plans or commits that it listed last.
    planned: Set,
    /// The packs that it needs.
    relied: Set,
}

#[derive(Clone, Copy, Default, Eq, Hash, PartialEq)]
struct Prune {
    step: u8,
    attempt: u8,
    chosen: Set,
    /// The prunes whose plans it carries out.
    ours: Set,
    doomed: Set,
    waiting: Set,
    planned: Set,
    relied: Set,
    is_needed: bool,
}

const DEAD: u8 = 99;

#[derive(Clone, Copy, Eq, Hash, PartialEq)]
struct World {
    storage: Storage,
    writers: [Writer; 2],
    prunes: [Prune; 2],
}

/// The snapshot that was there before.
const OLD: usize = 7;

impl World {
    fn new(writers: usize, prunes: usize, old_is_needed: bool) -> Self {
        let storage = Storage {
            packs: 1,
            indexed: 1,
            snapshots: u16::from(old_is_needed) << OLD,
            ..Storage::default()
        };
        let dead = |number: usize, count| if number < count { 0 } else { DEAD };
        let writer = |number| Writer { step: dead(number, writers), ..Writer::default() };
        let prune = |number| Prune { step: dead(number, prunes), ..Prune::default() };
        Self { storage, writers: [writer(0), writer(1)], prunes: [prune(0), prune(1)] }
    }

    /// A snapshot that anybody can see has its chunk.
    fn is_sound(&self) -> bool {
        self.storage.snapshots == 0 || self.storage.packs & self.storage.indexed != 0
    }

    fn next(&self, rules: Rules, each: &mut dyn FnMut(World)) {
        for number in 0..2 {
            self.writer(number, rules, each);
            self.prune(number, rules, each);
        }
    }

    fn writer(&self, number: usize, rules: Rules, each: &mut dyn FnMut(World)) {
        let mut world = *self;
        let (writer, storage) = (&mut world.writers[number], &mut world.storage);
        let pack = 1 + number;
        // A pack of a second attempt has another name.
        let pack = if writer.attempt == 0 { pack } else { pack + 4 };
        match writer.step {
            0 => storage.leases |= 1 << number,
            1 => writer.planned = if rules.writer_ignores_plans { 0 } else { storage.planned() },
            2 => {
                writer.relied = storage.reliable(writer.planned);
                if writer.relied != 0 {
                    // Everything is there already.
                    writer.step = 4;
                }
            }
            3 => {
                storage.packs |= 1 << pack;
                writer.relied |= 1 << pack;
            }
            4 => storage.indexed |= 1 << pack,
            5 if rules.writer_publishes_at_once => storage.snapshots |= 1 << number,
            5 => storage.prepared |= 1 << number,
            6 => writer.planned = storage.commits[0] | storage.commits[1],
            7 => {
                let committed = if rules.writer_lists_no_commits { 0 } else { writer.planned };
                let listed = if rules.writer_lists_no_packs { !0 } else { storage.packs };
                let mut relied = members(writer.relied);
                if relied.any(|pack| is_lost(has(listed, pack), has(committed, pack))) {
                    writer.attempt += 1;
                    writer.step = if writer.attempt == rules.attempts() { DEAD } else { 0 };
                    writer.relied = 0;
                    each(world);
                    return;
                }
            }
            8 => storage.snapshots |= 1 << number,
            9 => storage.prepared &= !(1 << number),
            10 => storage.leases &= !(1 << number),
            _ => return,
        }
        writer.step += 1;
        if writer.step == 11 {
            *writer = Writer { step: DEAD, ..Writer::default() };
        }
        each(world);
    }

    /// The worlds after a step of a prune that can go several ways. Returns whether it is one.
    fn prune_chooses(&self, number: usize, rules: Rules, each: &mut dyn FnMut(World)) -> bool {
        let (prune, storage) = (&self.prunes[number], &self.storage);
        match prune.step {
            // Any packs may be chosen, used ones, too: they are copied.
            0 => {
                let all = [storage.packs, storage.packs & 1, storage.packs & !1];
                for chosen in if rules.narrow { &all[..1] } else { &all[..] } {
                    let mut world = *self;
                    world.prunes[number].chosen = *chosen;
                    world.prunes[number].step = 1;
                    each(world);
                }
                true
            }
            // Whether a run has ended or is too slow: its lease is gone, or the prune deletes it.
            4 => {
                for run in members(prune.waiting) {
                    let mut world = *self;
                    world.storage.leases &= !(1 << run);
                    world.prunes[number].waiting &= !(1 << run);
                    each(world);
                }
                prune.waiting != 0
            }
            // One deletion after the other.
            15 => {
                let left = prune.doomed & storage.packs;
                for pack in members(left) {
                    let mut world = *self;
                    world.storage.packs &= !(1 << pack);
                    each(world);
                }
                left != 0
            }
            _ => false,
        }
    }

    /// The worlds after a step of a prune.
    fn prune(&self, number: usize, rules: Rules, each: &mut dyn FnMut(World)) {
        if self.prune_chooses(number, rules, each) {
            return;
        }
        let mut world = *self;
        let (prune, storage) = (&mut world.prunes[number], &mut world.storage);
        let copy = if prune.attempt == 0 { 3 + number } else { 7 + number };
        match prune.step {
            1 => storage.plans[number] |= prune.chosen,
            2 => {
                prune.ours =
                    u16::from(storage.plans[0] != 0) | u16::from(storage.plans[1] != 0) << 1;
                if rules.prune_leaves_plans_of_others {
                    prune.ours &= 1 << number;
                }
                prune.doomed = members(prune.ours).fold(0, |all, plan| all | storage.plans[plan]);
            }
            3 => prune.waiting = storage.leases,
            5 | 6 => {
                let plan = usize::from(prune.step - 5);
                if has(prune.ours, plan) {
                    storage.commits[plan] |= storage.plans[plan] & prune.doomed;
                }
            }
            7 => prune.is_needed = storage.prepared != 0 && !rules.prune_lists_no_prepared,
            8 => {
                prune.is_needed |= storage.snapshots != 0 && !rules.prune_lists_no_snapshots;
            }
            9 => {
                prune.planned = if rules.prune_trusts_planned_copies {
                    prune.doomed
                } else {
                    storage.planned()
                };
                prune.relied = storage.reliable(prune.planned);
                if !prune.is_needed || prune.relied != 0 {
                    prune.step = 11;
                } else if storage.packs == 0 {
                    // Nothing to copy from.
                    prune.step = DEAD - 1;
                }
            }
            10 => {
                storage.packs |= 1 << copy;
                prune.relied = 1 << copy;
            }
            11 => storage.indexed |= 1 << copy,
            12 => {
                prune.planned =
                    if rules.prune_trusts_planned_copies { prune.doomed } else { storage.planned() }
            }
            13 => {
                let (listed, planned) = (storage.packs, prune.planned);
                let can = |pack| can_rely(has(listed, pack), has(planned, pack));
                let has_copies = prune.relied != 0 && members(prune.relied).all(can);
                if !may_delete(prune.is_needed, has_copies) {
                    prune.attempt += 1;
                    prune.step = if prune.attempt == rules.attempts() { DEAD } else { 7 };
                    each(world);
                    return;
                }
            }
            14 => {
                if rules.prune_takes_plans_back {
                    storage.commits = [0; 2];
                    storage.plans = [0; 2];
                }
            }
            // Nothing is left to wait for, or to delete.
            4 | 15 => {}
            16 | 17 => {
                let plans =
                    if prune.step == 16 { &mut storage.commits } else { &mut storage.plans };
                for plan in plans {
                    if *plan & storage.packs == 0 {
                        *plan = 0;
                    }
                }
            }
            _ => return,
        }
        prune.step += 1;
        if prune.step == 18 {
            *prune = Prune { step: DEAD, ..Prune::default() };
        }
        each(world);
    }
}

/// Tries everything. Returns the number of states, or a state that is not sound.
fn explore(start: World, rules: Rules) -> Result<usize, ()> {
    let mut seen = HashSet::from([start]);
    let mut open = vec![start];
    while let Some(world) = open.pop() {
        if !world.is_sound() {
            return Err(());
        }
        // An actor that dies does what one does that is never chosen again.
        world.next(rules, &mut |next| {
            if seen.insert(next) {
                open.push(next);
            }
        });
    }
    Ok(seen.len())
}

#[test]
fn no_interleaving_of_writers_and_prunes_loses_a_chunk() {
    for old_is_needed in [false, true] {
        for (writers, prunes) in [(1, 1), (2, 1), (1, 2), (0, 2)] {
            let start = World::new(writers, prunes, old_is_needed);
            let states = explore(start, Rules::default());
            assert!(states.is_ok_and(|states| states > 100), "{writers} {prunes} {old_is_needed}");
        }
    }
}

/// Some 37 million states, which take 3 GB and two minutes: only in the long form of the tests.
#[test]
fn two_writers_and_two_prunes_lose_nothing() {
    if talaria_needs::short_or_full(true, false) {
        return;
    }
    let narrow = Rules { narrow: true, ..Rules::default() };
    for old_is_needed in [false, true] {
        let states = explore(World::new(2, 2, old_is_needed), narrow);
        assert!(states.is_ok_and(|states| states > 1_000_000));
    }
}

#[test]
fn the_model_notices_every_broken_rule() {
    let good = Rules::default();
    for (rules, writers, prunes) in [
        (Rules { writer_lists_no_commits: true, ..good }, 1, 1),
        (Rules { writer_lists_no_packs: true, ..good }, 1, 1),
        (Rules { writer_publishes_at_once: true, ..good }, 1, 1),
        (Rules { prune_lists_no_snapshots: true, ..good }, 1, 1),
        (Rules { prune_lists_no_prepared: true, ..good }, 1, 1),
        (
            Rules { prune_trusts_planned_copies: true, prune_leaves_plans_of_others: true, ..good },
            0,
            2,
        ),
        (Rules { prune_takes_plans_back: true, ..good }, 1, 1),
    ] {
        let lost = [false, true].map(|old| explore(World::new(writers, prunes, old), rules));
        assert!(lost.contains(&Err(())), "{writers} {prunes}");
    }
    // Where there are two guards, one is enough: heeding plans saves work, since the end of the run
    // notices, too.
    for rules in [
        Rules { writer_ignores_plans: true, ..good },
        Rules { prune_trusts_planned_copies: true, ..good },
        Rules { prune_leaves_plans_of_others: true, ..good },
    ] {
        for (writers, prunes) in [(1, 1), (0, 2)] {
            let start = World::new(writers, prunes, true);
            assert!(explore(start, rules).is_ok(), "{writers} {prunes}");
        }
    }
}
