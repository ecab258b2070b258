//! Power cuts and faults while talaria writes outputs, keys, dumps, backups and logs.

use talaria_sim::{Fault, Own, Syncs, cut_own, fail_own, sample_own};

/// What is lost differs between seeds; where the power is cut does not.
fn cut_with_seeds(own: Own) {
    // A seed has hundreds of cuts.
    let count = talaria_needs::short_or_full(1, 100);
    let mut cuts = 0;
    for seed in 0..count {
        let report = cut_own(own, seed, Syncs::Obeyed);
        let report = report.unwrap_or_else(|what| panic!("seed {seed}: {what}"));
        println!("{own:?}, seed {seed}: {report:?}");
        cuts += report.cuts;
    }
    assert!(cuts > count * 10, "only {cuts} cuts");
    let seen = (0..10).any(|seed| cut_own(own, seed, Syncs::Ignored).is_err());
    assert!(seen, "a disk that ignores syncs was not noticed");
}

/// Each seed is one cut of the same recording. `TALARIA_SEEDS` sets their number, `TALARIA_SEED`
/// the first one.
fn sample_cuts(own: Own) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let first = number("TALARIA_SEED").unwrap_or(0);
    let count = number("TALARIA_SEEDS").unwrap_or(talaria_needs::short_or_full(1000, 10_000));
    let report = sample_own(own, first..first + count, Syncs::Obeyed);
    println!("{own:?}: {:?}", report.unwrap_or_else(|what| panic!("{what}")));
    let ignored = sample_own(own, 0..100, Syncs::Ignored);
    assert!(ignored.is_err(), "a disk that ignores syncs was not noticed: {ignored:?}");
}

fn fail_at_steps(own: Own, stride: u64) {
    for fault in [Fault::Broken, Fault::Full] {
        let report = fail_own(own, fault, stride).unwrap_or_else(|what| panic!("{what}"));
        println!("{own:?}, {fault:?}: {report:?}");
        assert!(report.failed * stride > 5, "{report:?}");
    }
}

#[test]
fn an_output_is_there_when_it_is_acknowledged_and_complete_when_it_is_there() {
    cut_with_seeds(Own::Output);
}

#[test]
fn a_new_key_is_there_when_it_is_acknowledged_and_has_all_its_parts_when_it_is_there() {
    cut_with_seeds(Own::Key);
}

#[test]
fn a_dump_is_there_when_it_is_acknowledged_and_complete_when_it_has_a_position() {
    cut_with_seeds(Own::Dump);
}

#[test]
fn an_output_that_fails_leaves_nothing_or_the_file_before() {
    fail_at_steps(Own::Output, 1);
}

#[test]
fn a_new_key_that_fails_is_wholly_there_or_not_at_all() {
    fail_at_steps(Own::Key, 1);
}

#[test]
fn a_dump_that_fails_can_be_made_again() {
    fail_at_steps(Own::Dump, 1);
}

#[test]
fn a_snapshot_is_there_when_it_is_acknowledged_and_a_cut_run_harms_nothing() {
    sample_cuts(Own::Backup);
}

#[test]
fn an_entry_of_a_log_is_there_when_it_is_acknowledged() {
    sample_cuts(Own::Log);
}

#[test]
fn a_backup_that_fails_can_be_made_again() {
    fail_at_steps(Own::Backup, talaria_needs::short_or_full(11, 1));
}

#[test]
fn a_change_of_a_log_that_fails_can_be_made_again() {
    fail_at_steps(Own::Log, talaria_needs::short_or_full(3, 1));
}
