//! Simulations of the signed log by seed.
//!
//! `TALARIA_SEEDS` sets the number of seeds, `TALARIA_SEED` runs a single one, or with
//! `TALARIA_SEEDS` the ones from it on.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use talaria_sim::{Defect, LogFailure, LogReport, run_log};

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

/// Runs seeds on all cores until one fails.
fn run_seeds(seeds: Range<u64>, defect: Defect) -> Result<LogReport, LogFailure> {
    let next = AtomicU64::new(seeds.start);
    let total = Mutex::new(Ok(LogReport::default()));
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    let result = run_log(seed, defect);
                    let mut total = total.lock().unwrap();
                    match (result, &mut *total) {
                        (Ok(report), Ok(total)) => *total += report,
                        (Err(failure), Ok(_)) => {
                            *total = Err(failure);
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

/// Twenty nodes come to the same state, and no acknowledged entry is lost.
#[test]
fn twenty_nodes_converge() {
    let first = number("TALARIA_SEED");
    let count = number("TALARIA_SEEDS").unwrap_or(if first.is_some() {
        1
    } else {
        talaria_needs::short_or_full(100, 10_000)
    });
    let first = first.unwrap_or(0);
    match run_seeds(first..first + count, Defect::None) {
        Ok(report) => {
            println!("{report:?}");
            // A simulation in which nothing happens shows nothing.
            let happened = [
                ("acknowledged entries", report.acknowledged),
                ("lost packets", report.lost),
                ("repeated packets", report.repeated),
                ("refused entries", report.refused),
                ("waiting entries", report.waited),
                ("crashes", report.crashes),
                ("torn groups", report.torn),
                ("full disks", report.full),
                ("machines that were set back", report.set_back),
                ("forks", report.forks),
                ("entries that do not count", report.ended),
                ("deleted values", report.deleted),
                ("values that came later", report.values),
                ("valid checkpoints", report.checkpoints),
                ("forks of the checkpointer", report.checkpoint_forks),
                ("entries of an expired key", report.expired),
                ("snapshots in force", report.snapshots),
                ("keys of nodes", report.node_keys),
                ("ended keys of nodes", report.node_keys_ended),
            ];
            for (what, count) in happened {
                assert!(report.seeds < 50 || count > 0, "no {what}");
            }
        }
        Err(failure) => {
            panic!(
                "\nTALARIA_SEED={} cargo test -p talaria-sim --test log\n{failure}",
                failure.seed
            )
        }
    }
}

/// A simulator that never fails shows nothing.
#[test]
fn defects_are_noticed() {
    for (defect, promise) in [
        (Defect::SyncsIgnored, &["damaged", "lost", "forked"][..]),
        (Defect::SentBeforeSync, &["forked"][..]),
        (Defect::InstanceKept, &["forked"][..]),
    ] {
        let failure = run_seeds(0..60, defect).expect_err(&format!("{defect:?}"));
        assert!(promise.iter().any(|word| failure.why.contains(word)), "{defect:?}: {failure}");
    }
}

/// Equal seeds give equal simulations, so a failure can be replayed.
#[test]
fn a_seed_decides_everything() {
    let [one, two] = [7, 7].map(|seed| run_log(seed, Defect::None).unwrap());
    assert_eq!(one, two);
    assert_ne!(one, run_log(8, Defect::None).unwrap());
}
