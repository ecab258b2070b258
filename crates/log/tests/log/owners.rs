//! Owners: thresholds, and owners who end each other.

use talaria_log::{Action, Log, Outcome, Refusal, Revocation, Standing, Target};

use crate::people::{Person, begin, genesis_of, grant, name, offer, revoke, set};

fn two_owners(threshold: u8) -> (Person, Person, talaria_log::Signed) {
    let (mut alice, bob) = (Person::new(0, 1), Person::new(1, 1));
    let genesis = genesis_of(&[&alice, &bob], threshold);
    let genesis = begin(&mut alice, genesis);
    (alice, bob, genesis)
}

#[test]
fn two_owners_who_remove_each_other_are_both_removed() {
    let (mut alice, mut bob, genesis) = two_owners(1);
    let (mut one, mut two) = (Log::begin(&genesis).unwrap(), Log::begin(&genesis).unwrap());
    let of_alice = alice.make(&mut one, set("alice")).unwrap();
    let against_bob = alice.make(&mut one, revoke(&bob, Vec::new())).unwrap();
    let of_bob = bob.make(&mut two, set("bob")).unwrap();
    let against_alice = bob.make(&mut two, revoke(&alice, Vec::new())).unwrap();
    offer(&mut one, &[&of_bob, &against_alice]);
    offer(&mut two, &[&of_alice, &against_bob]);
    for log in [&one, &two] {
        assert_eq!(log.standing(&of_alice.id), Some(Standing::Revoked));
        assert_eq!(log.standing(&of_bob.id), Some(Standing::Revoked));
        assert_eq!(name(log), None);
    }
    assert_eq!(one.state_hash(), two.state_hash());
    assert!(alice.make(&mut one, set("x")).is_err());
    assert!(bob.make(&mut two, set("x")).is_err());
}

#[test]
fn a_threshold_needs_as_many_owners() {
    let (mut alice, mut bob, genesis) = two_owners(2);
    let mut log = Log::begin(&genesis).unwrap();
    let mut carol = Person::new(2, 1);
    let given = alice.make(&mut log, grant(&carol)).unwrap();
    let refused = carol.make(&mut log, set("x")).unwrap_err().to_string();
    assert!(refused.contains("not in force"), "{refused}");
    // Approving twice is approving once.
    alice.make(&mut log, Action::Approve(given.id)).unwrap();
    assert!(carol.make(&mut log, set("x")).is_err());
    // Carol cannot approve, and nobody approves what is no decision.
    assert!(carol.make(&mut log, Action::Approve(given.id)).is_err());
    assert!(bob.make(&mut log, Action::Approve(genesis.id)).is_err());
    let early = log.draft(bob.chain, Action::Approve(given.id), crate::people::NOW_MS).unwrap();
    bob.make(&mut log, Action::Approve(given.id)).unwrap();
    assert!(log.draft(bob.chain, early.action, crate::people::NOW_MS).is_ok());
    let first = carol.make(&mut log, set("carol")).unwrap();
    assert_eq!(name(&log).as_deref(), Some("carol"));

    let end = alice.make(&mut log, revoke(&carol, Vec::new())).unwrap();
    assert_eq!(log.standing(&first.id), Some(Standing::Counts));
    bob.make(&mut log, Action::Approve(end.id)).unwrap();
    assert_eq!(log.standing(&first.id), Some(Standing::Revoked));
    assert_eq!(name(&log), None);
}

/// A thief of one owner's key removes nobody if two owners must agree.
#[test]
fn a_thief_alone_does_not_reach_the_threshold() {
    let (mut alice, mut bob, genesis) = two_owners(2);
    let mut log = Log::begin(&genesis).unwrap();
    let by_bob = bob.make(&mut log, set("bob")).unwrap();
    alice.make(&mut log, revoke(&bob, Vec::new())).unwrap();
    assert_eq!(log.standing(&by_bob.id), Some(Standing::Counts));
    assert!(bob.make(&mut log, set("still here")).is_ok());
}

/// An entry counts only if its past has enough approvals: those that come later do not help.
#[test]
fn an_approval_must_be_in_the_past() {
    let (mut alice, mut bob, genesis) = two_owners(2);
    let mut log = Log::begin(&genesis).unwrap();
    let mut carol = Person::new(2, 1);
    let given = alice.make(&mut log, grant(&carol)).unwrap();
    let mut approved = Log::begin(&genesis).unwrap();
    offer(&mut approved, &[&given]);
    let approval = bob.make(&mut approved, Action::Approve(given.id)).unwrap();
    let mut entry = carol.draft(&approved, set("early"));
    entry.links = vec![given.id];
    let early = carol.sign(entry, log.id());
    for log in [&mut log, &mut approved] {
        assert_eq!(offer(log, &[&early]).outcomes, [Outcome::Refused(Refusal::GrantNotInForce)]);
    }
    offer(&mut log, &[&approval]);
    assert!(carol.make(&mut log, set("now")).is_ok());
}

#[test]
fn a_revoked_grant_ends_its_use_and_no_other() {
    let (mut alice, _, genesis) = two_owners(1);
    let mut log = Log::begin(&genesis).unwrap();
    let mut carol = Person::new(2, 1);
    let first = alice.make(&mut log, grant(&carol)).unwrap();
    let used = carol.make(&mut log, set("1")).unwrap();
    let late = carol.make(&mut log, set("2")).unwrap();
    let target = Target::Grant(first.id);
    let end = Revocation { target, reason: 0, since: 0, heads: vec![used.id] };
    alice.make(&mut log, Action::Revoke(end)).unwrap();
    assert_eq!(log.standing(&used.id), Some(Standing::Counts));
    assert_eq!(log.standing(&late.id), Some(Standing::Revoked));
    assert_eq!(name(&log).as_deref(), Some("1"));
    assert!(carol.make(&mut log, set("3")).is_err());
    // A head must be by the one whose grant ends.
    let end = Revocation { target, reason: 0, since: 0, heads: vec![first.id] };
    assert!(alice.make(&mut log, Action::Revoke(end)).is_err());
}

/// If the owner who gave a grant is revoked before it, what was done with it does not count.
#[test]
fn a_grant_falls_with_its_owner() {
    let (mut alice, mut bob, genesis) = two_owners(1);
    let mut log = Log::begin(&genesis).unwrap();
    let mut carol = Person::new(2, 1);
    let before = bob.make(&mut log, set("bob")).unwrap();
    bob.make(&mut log, grant(&carol)).unwrap();
    let used = carol.make(&mut log, set("carol")).unwrap();
    alice.make(&mut log, revoke(&bob, vec![before.id])).unwrap();
    assert_eq!(log.standing(&before.id), Some(Standing::Counts));
    assert_eq!(log.standing(&used.id), Some(Standing::GrantEnded));
    assert_eq!(name(&log).as_deref(), Some("bob"));
}
