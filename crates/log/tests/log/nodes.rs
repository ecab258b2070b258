//! Keys of nodes: who may publish and end them, and when they count.

use talaria_log::{
    Action, BadSignature, DraftError, Entry, EntryId, Evidence, Log, Maker, NODES_MAX, NodeKey,
    Outcome, Refusal, Revocation, Signed, SignedStatement, Target, batch,
};

use crate::people::{NOW_MS, Pair, Person, offer, pair, refusal, set};

fn publish(number: u8) -> Action {
    Action::PublishNode(NodeKey { key: [number; 32], name: format!("node-{number}") })
}

fn counts(log: &Log, number: u8) -> bool {
    log.node(&[number; 32]).is_some()
}

#[test]
fn owners_and_authors_with_a_grant_publish_keys_of_nodes() {
    let Pair { mut alice, mut carol, mut log, genesis, grant } = pair();
    alice.make(&mut log, publish(1)).unwrap();
    let theirs = carol.make(&mut log, publish(2)).unwrap();
    assert_eq!(
        log.node(&[2; 32]).unwrap(),
        (carol.name(), &NodeKey { key: [2; 32], name: "node-2".into() })
    );
    assert!(counts(&log, 1) && counts(&log, 2) && !counts(&log, 3));
    // A stranger may not, and no stranger may end a key.
    let mut mallory = Person::new(3, 1);
    for action in [publish(3), Action::EndNode(theirs.id)] {
        assert!(log.draft(mallory.chain, action.clone(), NOW_MS).is_err());
        let mut entry = alice.draft(&log, action);
        (entry.chain, entry.sequence, entry.previous) = (mallory.chain, 0, EntryId::NONE);
        let stranger = mallory.sign(entry, log.id());
        assert_eq!(refusal(&mut log, &stranger), Refusal::Stranger(mallory.name()));
    }
    // An author ends the keys of others only as an owner.
    let ours = log.nodes().next().unwrap().0;
    let refused = carol.make(&mut log, Action::EndNode(ours));
    assert!(matches!(refused, Err(DraftError::Refused(Refusal::NotOwner))), "{refused:?}");
    carol.make(&mut log, Action::EndNode(theirs.id)).unwrap();
    assert!(!counts(&log, 2));
    carol.make(&mut log, publish(4)).unwrap();
    let fourth = log.nodes().last().unwrap().0;
    alice.make(&mut log, Action::EndNode(fourth)).unwrap();
    assert!(!counts(&log, 4));
    // An ended key can be published again.
    carol.make(&mut log, publish(4)).unwrap();
    assert!(counts(&log, 4));
    // Only publications are ended.
    for wrong in [genesis.id, grant.id, EntryId([5; 32])] {
        let refused = alice.make(&mut log, Action::EndNode(wrong));
        assert!(refused.is_err());
    }
}

/// A revocation that names the publication as honoured still ends the key: who is out does not read
/// on.
#[test]
fn the_key_of_a_node_ends_with_its_author_or_grant() {
    let targets: [fn(&Pair) -> Target; 3] = [
        |pair| Target::Author(pair.carol.name()),
        |pair| Target::Key(pair.carol.name(), pair.carol.chain.subkey),
        |pair| Target::Grant(pair.grant.id),
    ];
    for target in targets {
        let mut pair = pair();
        let published = pair.carol.make(&mut pair.log, publish(2)).unwrap();
        let target = target(&pair);
        let revocation = Revocation { target, reason: 0, since: 0, heads: vec![published.id] };
        assert!(counts(&pair.log, 2));
        pair.alice.make(&mut pair.log, Action::Revoke(revocation)).unwrap();
        assert_eq!(pair.log.standing(&published.id), Some(talaria_log::Standing::Counts));
        assert!(!counts(&pair.log, 2), "{target:?}");
        assert!(pair.log.nodes().all(|(_, _, _, may)| !may));
    }
    // A fork ends it, too.
    let Pair { mut alice, mut carol, mut log, .. } = pair();
    let one = carol.draft(&log, publish(2));
    let other = carol.draft(&log, set("x"));
    let (one, other) = (carol.sign(one, log.id()), carol.sign(other, log.id()));
    offer(&mut log, &[&one]);
    assert!(counts(&log, 2));
    offer(&mut log, &[&other]);
    assert!(!counts(&log, 2));
    alice.make(&mut log, Action::Choose(one.id)).unwrap();
    assert!(counts(&log, 2));
}

#[test]
fn an_author_has_a_bounded_number_of_nodes() {
    let Pair { mut carol, mut log, .. } = pair();
    let max = u8::try_from(NODES_MAX).unwrap();
    let made: Vec<Signed> =
        (0..max).map(|number| carol.make(&mut log, publish(number)).unwrap()).collect();
    let refused = carol.make(&mut log, publish(max));
    let limit = Refusal::Limit("keys of nodes");
    assert!(matches!(refused, Err(DraftError::Refused(reason)) if reason == limit));
    carol.make(&mut log, Action::EndNode(made[3].id)).unwrap();
    carol.make(&mut log, publish(max)).unwrap();
    assert!(counts(&log, max) && !counts(&log, 3));
}

/// Entries of a batch that is forged are all refused, by one check: 20,000 single checks would take
/// a second.
#[test]
fn a_forged_batch_is_checked_once() {
    let Pair { mut alice, mut log, genesis, grant, .. } = pair();
    let entries: Vec<Entry> = (0..20_000)
        .map(|number| {
            let entry = alice.draft(&log, set(&number.to_string()));
            log.append(entry.clone()).unwrap();
            entry
        })
        .collect();
    let mut sign = |entries: &[Entry]| {
        let mut maker = Maker { chain: alice.chain, key: &mut alice.key };
        maker.sign_batch(entries.to_vec(), log.id(), NOW_MS).unwrap()
    };
    let (good, other) = (sign(&entries), sign(&entries[1..]));
    let (Evidence::InBatch(good_one, _), Evidence::InBatch(other, _)) =
        (&good[0].evidence, &other[0].evidence)
    else {
        panic!("they are in a batch");
    };
    // A signature by the right key on another statement.
    let forged =
        SignedStatement { statement: good_one.statement, signature: other.signature.clone() };
    let forged = batch(forged, entries).unwrap();
    let mut copy = Log::begin(&genesis).unwrap();
    offer(&mut copy, &[&grant]);
    let time = |copy: &mut Log, entries: Vec<Signed>| {
        let begun = std::time::Instant::now();
        let offered = copy.offer(entries, NOW_MS);
        (offered, begun.elapsed())
    };
    let (offered, of_forged) = time(&mut copy, forged);
    let refused = Outcome::Refused(Refusal::Signature(BadSignature::Forged));
    assert!(offered.outcomes.iter().all(|outcome| *outcome == refused));
    assert_eq!(offered.added.len(), 0);
    let (offered, of_good) = time(&mut copy, good);
    assert_eq!(offered.added.len(), 20_000);
    // Refusing costs less than admitting, which checks one signature.
    assert!(of_forged < of_good * 2, "{of_forged:?}, and {of_good:?}");
}
