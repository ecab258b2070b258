//! Power cuts and faults while talaria writes outputs, keys and dumps.

use talaria_sim::{Fault, Own, Syncs, cut_own, fail_own};

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

fn fail_at_each_step(own: Own) {
    for fault in [Fault::Broken, Fault::Full] {
        let report = fail_own(own, fault).unwrap_or_else(|what| panic!("{what}"));
        println!("{own:?}, {fault:?}: {report:?}");
        assert!(report.failed > 5, "{report:?}");
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
    fail_at_each_step(Own::Output);
}

#[test]
fn a_new_key_that_fails_is_wholly_there_or_not_at_all() {
    fail_at_each_step(Own::Key);
}

#[test]
fn a_dump_that_fails_can_be_made_again() {
    fail_at_each_step(Own::Dump);
}
