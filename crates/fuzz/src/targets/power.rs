//! Any octets as operations on a store, faults of its disk and power cuts: what was acknowledged is there afterwards.

use talaria_sim::{Script, Syncs};

/// Checks one input.
pub fn run(octets: &[u8]) {
    if let Err(failure) = talaria_sim::run(&Script::of_octets(octets), Syncs::Obeyed) {
        panic!("{failure}");
    }
}
