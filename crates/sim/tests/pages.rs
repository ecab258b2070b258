//! Disks that did not write a page, wrote it in the wrong place, or let it rot.
//!
//! `TALARIA_SEEDS` sets the number of seeds, `TALARIA_SEED` runs a single one.

use talaria_sim::{PagesReport, Rot, run_pages};

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

fn run_all(rots: &[Rot], files: usize, seeds: u64) -> PagesReport {
    let only = number("TALARIA_SEED");
    let seeds = number("TALARIA_SEEDS").unwrap_or(talaria_needs::short_or_full(seeds, 10_000));
    let seeds = only.map_or(0..seeds, |seed| seed..seed + 1);
    let mut total = PagesReport::default();
    for seed in seeds {
        match run_pages(seed, rots, files) {
            Ok(report) => total += report,
            Err(failure) => panic!("TALARIA_SEED={seed}: {failure}"),
        }
    }
    println!("{total:?}");
    total
}

#[test]
fn lost_writes_are_named_and_never_made_permanent() {
    let report = run_all(&[Rot::Stale], 24, 4);
    assert!(report.named > report.files / 2, "{report:?}");
}

#[test]
fn rotten_and_misplaced_pages_are_named_and_never_made_permanent() {
    let report = run_all(&[Rot::Misplaced, Rot::Zeros, Rot::Flipped], 20, 3);
    assert!(report.named > report.files / 3, "{report:?}");
}
