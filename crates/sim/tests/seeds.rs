//! Simulations by seed.
//!
//! `TALARIA_SEEDS` sets the number of seeds, `TALARIA_SEED` runs a single one, or with
//! `TALARIA_SEEDS` the ones from it on.

use std::iter;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use talaria_sim::{Copy, Failure, Fault, Operation, Report, Script, Syncs, run};
use talaria_store::Return;

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
    let first = number("TALARIA_SEED");
    let count = number("TALARIA_SEEDS").unwrap_or(if first.is_some() {
        1
    } else {
        talaria_needs::short_or_full(60, 10_000)
    });
    let first = first.unwrap_or(0);
    let seeds = first..first + count;
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

fn import(certs: std::ops::Range<usize>) -> Operation {
    Operation::Import { by: 0, copies: certs.map(|cert| (cert, Copy::Whole)).collect() }
}

/// A step of an operation fails, or the disk is full from this step on. The operation is then
/// wholly there or not at all, and the same connection goes on.
#[test]
fn a_step_that_fails_leaves_a_store_that_can_be_used() {
    let operations = [
        import(2..5),
        Operation::Delete { by: 0, certs: vec![0, 1], returning: Return::Blocked },
        Operation::Redact { by: 0, cert: 0, user_id: None },
        Operation::Compact { by: 0 },
        Operation::Repage { by: 0, page_bytes: 8192 },
        Operation::Upgrade { by: 0, from: 4 },
        Operation::Upgrade { by: 0, from: 9 },
        Operation::Backup { by: 0, number: 2 },
        Operation::Restore { backup: 0, number: 2 },
        Operation::Build { number: 2, copies: (0..6).map(|cert| (cert / 2, Copy::Odd)).collect() },
    ];
    // Every step of all operations takes minutes.
    let stride = talaria_needs::short_or_full(7, 1);
    for (at, operation) in operations.into_iter().enumerate() {
        let backup = Operation::Backup { by: 0, number: 0 };
        let all = vec![backup, import(0..3), operation.clone(), import(5..7)];
        for fault in [Fault::Broken, Fault::Full] {
            let steps = iter::successors(Some(at as u64), |step| Some(step + stride));
            for step in steps {
                let script = Script::failing(all.clone(), 2, fault, step);
                let report = run(&script, Syncs::Obeyed).unwrap_or_else(|f| panic!("{f}"));
                if report.faults == 0 {
                    break;
                }
            }
        }
    }
}

/// If SQLite cannot delete the log, it goes on with it and says nothing. Pages of another size in
/// the log made the store unreadable (found by seed 6137).
#[test]
fn a_change_of_the_page_size_can_fail_at_every_step() {
    let upgrade = Operation::Upgrade { by: 1, from: 4 };
    let repage = Operation::Repage { by: 0, page_bytes: 8192 };
    for fault in [Fault::Broken, Fault::Full] {
        for step in 0.. {
            let all = vec![import(0..3), upgrade.clone(), repage.clone(), import(3..5)];
            let report = run(&Script::failing(all, 2, fault, step), Syncs::Obeyed);
            let report = report.unwrap_or_else(|f| panic!("{fault:?} at step {step}: {f}"));
            if report.faults == 0 {
                assert!(step > 30, "{step} steps are not all");
                break;
            }
        }
    }
}

/// The disk is full while the page size is changed. The store then has no log until it is opened
/// again.
#[test]
fn a_store_without_a_log_loses_nothing() {
    for step in 0..4 {
        let repage = Operation::Repage { by: 0, page_bytes: 8192 };
        let all = vec![import(0..3), repage, import(3..5), import(5..7)];
        let report = run(&Script::failing(all, 1, Fault::Full, step).with_cuts(), Syncs::Obeyed);
        assert_eq!(report.unwrap_or_else(|f| panic!("{f}")).failed, 1);
    }
}

/// The first change of a connection is made durable in another way than later ones. If it panics,
/// the next change is the first one.
#[test]
fn a_change_that_panics_leaves_the_next_one_as_durable_as_ever() {
    for seed in 0..8 {
        let all = vec![Operation::Panic { by: 0 }, import(0..2), import(2..4)];
        let report = run(&Script::of_operations(all, seed), Syncs::Obeyed);
        assert_eq!(report.unwrap_or_else(|f| panic!("{f}")).acknowledged, 3);
    }
}
