//! A simulation of the signed log: twenty nodes with disks, clocks and a network, attackers among
//! them, by one seed.
//!
//! The pure core of `talaria-log` runs unchanged: `Log` in memory, records, and the functions that
//! read and write segments. The simulator gives it disks that lose and tear what was not synced, or
//! are full; clocks that differ by minutes; and a network that loses, delays, repeats, reorders and
//! damages packets, and is parted for a while. Nodes also exchange entries by sessions of the real
//! protocol, over lines that break at any byte.
//!
//! Seven people have nodes, two of them are owners. The key of a third one is stolen: the thief
//! forks and dates entries back, and an owner revokes it. The certificate of a fourth one expires,
//! as checkpoints and three witnesses say. Values are deleted, and some nodes give none away.
//! Mallory tells two halves of the nodes different stories, dates entries a year ahead, and writes
//! fields that nobody has granted. A stranger forges.
//!
//! At the end the network heals. Then all nodes must have the same entries, the same hash of the
//! state, the same checkpoints and keys of nodes, and each value that one of them has and that is
//! not deleted; each entry that was acknowledged to its author must be there; no chain of an honest
//! node may be forked; and a log that gets the same entries in another order must come to the same
//! hash.

mod attack;
mod check;
mod connection;
mod defect;
mod disk;
mod events;
mod network;
mod node;
mod people;
mod report;
mod world;

pub use defect::Defect;
pub use report::{LogFailure, LogReport};

use world::World;

/// The steps of a simulation.
const STEPS: usize = 400;

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
