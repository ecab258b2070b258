//! Any bytes as operations on a store, faults of its disk and power cuts: what was acknowledged is
//! there afterwards.

use talaria_sim::{Script, Syncs};

/// Checks one input.
pub fn run(bytes: &[u8]) {
    if let Err(failure) = talaria_sim::run(&Script::of_bytes(bytes), Syncs::Obeyed) {
        panic!("{failure}");
    }
}
