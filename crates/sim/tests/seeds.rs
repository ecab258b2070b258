//! Simulations by seed.
//!
//! `TALARIA_SEEDS` sets the number of seeds, and `TALARIA_SEED` runs a single one.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use talaria_sim::{Failure, Report, Script, Syncs, run};

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

/// Runs seeds on all cores until one fails.
fn run_seeds(seeds: std::ops::Range<u64>, syncs: Syncs) -> Result<Report, (u64, Failure)> {
    let next = AtomicU64::new(seeds.start);
    let total = Mutex::new(Ok(Report::default()));
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    let result = run(&Script::of_seed(seed), syncs);
                    let mut total = total.lock().unwrap();
                    match (result, &mut *total) {
                        (Ok(report), Ok(total)) => *total += report,
                        (Err(failure), Ok(_)) => {
                            *total = Err((seed, failure));
                            next.store(seeds.end, Ordering::Relaxed);
                        }
                        (_, Err(_)) => {}
                    }
                }
            });
        }
    });
    total.into_inner().unwrap()
}

#[test]
fn nothing_acknowledged_is_lost() {
    let seeds = match number("TALARIA_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("TALARIA_SEEDS").unwrap_or(200),
    };
    match run_seeds(seeds, Syncs::Obeyed) {
        Ok(report) => println!("{report:?}"),
        Err((seed, failure)) => {
            panic!("\nTALARIA_SEED={seed} cargo test -p talaria-sim\n{failure}")
        }
    }
}

/// A simulator that never fails shows nothing.
#[test]
fn a_disk_that_ignores_syncs_is_noticed() {
    assert!(run_seeds(0..20, Syncs::Ignored).is_err());
}
