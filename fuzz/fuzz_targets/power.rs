//! Any octets as operations on a store, faults of its disk and power cuts: what was acknowledged is there afterwards.

#![no_main]

use talaria_sim::{Script, Syncs, run};

libfuzzer_sys::fuzz_target!(|octets: &[u8]| {
    if let Err(failure) = run(&Script::of_octets(octets), Syncs::Obeyed) {
        panic!("{failure}");
    }
});
