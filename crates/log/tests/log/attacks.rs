//! Attacks, one test each, named after what the attacker does.

use talaria_log::{
    Action, BadSignature, Clock, Entry, EntryId, Evidence, FieldChange, Grant, Log, Maker,
    ObjectId, Operations, Outcome, Pattern, Refusal, Signed, Standing, StoredSignature, Value,
    read_record,
};
use talaria_message::{NotCounted, Outcome as DocumentOutcome, Rules, Verifier};

use crate::people::{
    NOW, NOW_MS, Pair, Person, V6, begin, change, genesis_of, grant, grant_to, name, object, offer,
    pair, refusal, revoke, set,
};

#[test]
fn forged_signature() {
    let mut pair = pair();
    let entry = pair.alice.draft(&pair.log, set("forged"));
    // Signed by another key than the one that the entry names.
    let packet = pair.carol.key.sign_for_log(&entry.to_bytes(), &pair.log.id().0, NOW).unwrap();
    let signature =
        StoredSignature::of_packet(&packet, pair.carol.chain.subkey, pair.log.id()).unwrap();
    let forged = Signed::alone(entry.clone(), signature);
    assert_eq!(refusal(&mut pair.log, &forged), Refusal::Signature(BadSignature::Forged));
    // Any byte of a good signature changed.
    let good = pair.alice.sign(entry, pair.log.id());
    let record = good.to_record();
    for at in record.len() - 68..record.len() {
        let mut changed = record.clone();
        changed[at] ^= 4;
        let offered = pair.log.offer(read_record(&changed).unwrap(), NOW_MS);
        assert_eq!(
            offered.outcomes,
            [Outcome::Refused(Refusal::Signature(BadSignature::Forged))],
            "{at}"
        );
    }
    // The entry itself is not spoiled by forged copies.
    assert_eq!(offer(&mut pair.log, &[&good]).outcomes, [Outcome::Added]);
}

/// A forged copy arrives first. If its key is known, it takes no room; else it waits for its past.
/// The good copy counts all the same.
#[test]
fn forged_copy_that_comes_first() {
    let mut pair = pair();
    let first = pair.carol.make(&mut pair.log, set("1")).unwrap();
    let second = pair.carol.make(&mut pair.log, set("2")).unwrap();
    let Evidence::Alone(other) = first.evidence.clone() else { panic!() };
    let forged = Signed { evidence: Evidence::Alone(other), ..second.clone() };
    let mut copy = pair.copy();
    let refused = Outcome::Refused(Refusal::Signature(BadSignature::Forged));
    assert_eq!(offer(&mut copy, &[&forged]).outcomes, [refused]);
    assert_eq!(offer(&mut copy, &[&second]).outcomes, [Outcome::WaitsForPast]);
    assert_eq!(offer(&mut copy, &[&first]).added.len(), 2);
    // Here, no grant has named the key yet.
    let mut copy = Log::begin(&pair.genesis).unwrap();
    assert_eq!(offer(&mut copy, &[&forged]).outcomes, [Outcome::WaitsForPast]);
    assert_eq!(offer(&mut copy, &[&second]).outcomes, [Outcome::WaitsForPast]);
    let offered = offer(&mut copy, &[&pair.grant, &first]);
    assert_eq!(offered.added.len(), 3);
    assert_eq!(offered.refused[0].0, second.id);
    assert_eq!((name(&copy).as_deref(), copy.waiting()), (Some("2"), 0));
}

#[test]
fn replayed_entry() {
    let mut pair = pair();
    let add = change(1, "count", FieldChange::Count(5));
    let once = pair.alice.make(&mut pair.log, add).unwrap();
    let hash = pair.log.state_hash();
    for _ in 0..3 {
        assert_eq!(
            offer(&mut pair.log, &[&once, &once]).outcomes,
            [Outcome::Known, Outcome::Known]
        );
    }
    assert_eq!(pair.log.state_hash(), hash);
    // In another log by the same owner.
    let other = Entry { clock: Clock(7), ..Entry::clone(&pair.genesis.entry) };
    let other = pair.alice.sign(other, EntryId::NONE);
    let mut other = Log::begin(&other).unwrap();
    assert_eq!(refusal(&mut other, &once), Refusal::OtherLog);
    // The same content under the name of the other log does not fit the signature.
    let moved = Entry { log: other.id(), ..Entry::clone(&once.entry) };
    let moved = Entry { sequence: 1, previous: other.id(), ..moved };
    let Evidence::Alone(signature) = once.evidence else { panic!() };
    let moved = Signed::alone(moved, signature);
    assert_eq!(refusal(&mut other, &moved), Refusal::Signature(BadSignature::Forged));
}

#[test]
fn wrong_author() {
    let mut pair = pair();
    let mallory = Person::new(3, 1);
    // Nobody has given Mallory anything.
    let mut entry = pair.alice.draft(&pair.log, set("x"));
    entry.chain = mallory.chain;
    (entry.sequence, entry.previous) = (0, EntryId::NONE);
    let mut mallory = mallory;
    let stranger = mallory.sign(entry.clone(), pair.log.id());
    assert_eq!(refusal(&mut pair.log, &stranger), Refusal::Stranger(mallory.name()));
    // Mallory's key under Alice's name.
    entry.chain.author = pair.alice.name();
    let signed = mallory.sign(entry.clone(), pair.log.id());
    let key = mallory.chain.subkey;
    let author = pair.alice.name();
    assert_eq!(refusal(&mut pair.log, &signed), Refusal::Key { author, key });
    // Carol's grant, used by Mallory.
    entry.chain = mallory.chain;
    entry.grant = pair.grant.id;
    entry.links = vec![pair.grant.id];
    let signed = mallory.sign(entry.clone(), pair.log.id());
    assert_eq!(refusal(&mut pair.log, &signed), Refusal::OtherGrant);
    // A member does what only owners may.
    for action in [grant(&mallory), revoke(&pair.alice, Vec::new()), Action::Choose(pair.grant.id)]
    {
        entry.chain = pair.carol.chain;
        entry.action = action;
        let signed = pair.carol.sign(entry.clone(), pair.log.id());
        assert_eq!(refusal(&mut pair.log, &signed), Refusal::NotOwner);
    }
}

#[test]
fn ungranted_field() {
    let mut pair = pair();
    let dave = Person::new(3, 1);
    let ends_ms = NOW_MS + 1000;
    let narrow = Grant {
        object: object(1),
        fields: Pattern::new("color*").unwrap(),
        operations: Operations::FIELDS,
        ends_ms,
        ..grant_to(&dave)
    };
    let narrow = pair.alice.make(&mut pair.log, Action::Grant(Box::new(narrow))).unwrap();
    let mut dave = dave;
    let text = || FieldChange::Set(Some(Value::String("x".to_owned())));
    let allowed = dave.draft(&pair.log, change(1, "color/top", text()));
    assert_eq!(allowed.grant, narrow.id);
    let cases = [
        (change(1, "colo", text()), Refusal::NotGranted),
        (change(1, "name", text()), Refusal::NotGranted),
        (change(2, "color", text()), Refusal::NotGranted),
        (change(1, "count", FieldChange::Count(1)), Refusal::NotGranted),
        (
            Action::Data(talaria_log::DataAction {
                object: object(1),
                change: talaria_log::Change::Delete,
            }),
            Refusal::NotGranted,
        ),
    ];
    for (action, reason) in cases {
        let entry = Entry { action, ..allowed.clone() };
        let signed = dave.sign(entry, pair.log.id());
        assert_eq!(refusal(&mut pair.log, &signed), reason);
    }
    let late = Entry { clock: Clock::at_ms(ends_ms), ..allowed.clone() };
    let late = dave.sign(late, pair.log.id());
    assert_eq!(refusal(&mut pair.log, &late), Refusal::NotGranted);
    // A grant that the entry has not seen.
    let blind = Entry { links: Vec::new(), ..allowed.clone() };
    let blind = dave.sign(blind, pair.log.id());
    assert_eq!(refusal(&mut pair.log, &blind), Refusal::UnknownGrant);
    let allowed = dave.sign(allowed, pair.log.id());
    assert_eq!(offer(&mut pair.log, &[&allowed]).outcomes, [Outcome::Added]);
}

#[test]
fn clock_far_in_the_future() {
    let mut pair = pair();
    let year = 365 * 24 * 3_600_000;
    let early = pair.alice.draft(&pair.log, set("now"));
    let ahead = Entry { clock: Clock::at_ms(NOW_MS + year), ..early.clone() };
    let ahead = pair.alice.sign(ahead, pair.log.id());
    let mut copy = pair.copy();
    assert_eq!(offer(&mut copy, &[&ahead]).outcomes, [Outcome::WaitsForClock]);
    assert_eq!((name(&copy), copy.waiting()), (None, 1));
    // Nobody links to it or is dated after it.
    let mut carol = Person::new(2, 1);
    let next = carol.make(&mut copy, set("carol")).unwrap();
    assert!(next.entry.clock.ms() <= NOW_MS);
    assert!(!next.entry.links.contains(&ahead.id));
    // It counts when its time has come, and not before.
    assert!(copy.offer(Vec::new(), NOW_MS + year - 60_001).added.is_empty());
    assert_eq!(copy.offer(Vec::new(), NOW_MS + year - 60_000).added.len(), 1);
    assert_eq!(name(&copy).as_deref(), Some("now"));
    // A refused entry does not wait, whatever its clock.
    let end = Entry { clock: Clock::MAX, grant: ahead.id, ..early };
    let end = pair.alice.sign(end, pair.log.id());
    assert_eq!(refusal(&mut copy, &end), Refusal::UnknownGrant);
}

#[test]
fn reordered_chain() {
    let mut pair = pair();
    let entries: Vec<Signed> =
        (0..4).map(|n| pair.alice.make(&mut pair.log, set(&n.to_string())).unwrap()).collect();
    // Another order of delivery gives the same.
    let mut copy = pair.copy();
    for entry in entries.iter().rev() {
        offer(&mut copy, &[entry]);
    }
    assert_eq!(copy.state_hash(), pair.log.state_hash());
    assert_eq!(copy.waiting(), 0);
    // Another order in the entries is refused.
    let wrong = Entry { sequence: 9, ..Entry::clone(&entries[3].entry) };
    let wrong = pair.alice.sign(wrong, pair.log.id());
    assert_eq!(refusal(&mut copy, &wrong), Refusal::Sequence);
    let wrong = Entry { previous: pair.genesis.id, ..Entry::clone(&entries[3].entry) };
    let wrong = pair.alice.sign(wrong, pair.log.id());
    assert_eq!(refusal(&mut copy, &wrong), Refusal::Sequence);
    let early = Entry { clock: Clock(entries[2].entry.clock.0), ..Entry::clone(&entries[3].entry) };
    let early = pair.alice.sign(early, pair.log.id());
    assert_eq!(refusal(&mut copy, &early), Refusal::Clock);
    // Entries behind a refused entry are refused, not kept.
    let behind = Entry { sequence: 5, previous: early.id, ..Entry::clone(&entries[3].entry) };
    let behind = Entry { clock: Clock(u64::MAX >> 1), ..behind };
    let behind = pair.alice.sign(behind, pair.log.id());
    assert_eq!(refusal(&mut copy, &behind), Refusal::Past);
}

#[test]
fn oversized_value() {
    let mut alice = Person::new(0, 1);
    let mut genesis = genesis_of(&[&alice], 1);
    genesis.limits.value_bytes = 100;
    genesis.limits.chain_entries = 4;
    genesis.limits.chains = 2;
    let genesis = begin(&mut alice, genesis);
    let mut log = Log::begin(&genesis).unwrap();
    let text = |bytes: usize| set(&"x".repeat(bytes));
    let refused = alice.make(&mut log, text(100)).unwrap_err().to_string();
    assert!(refused.contains("101 bytes, more than 100"), "{refused}");
    alice.make(&mut log, text(99)).unwrap();
    // The format has a limit of its own, which is checked before anything is stored.
    let mut entry = alice.draft(&log, text(65_535));
    assert!(Entry::read(&entry.to_bytes()).is_ok());
    entry.action = text(65_536);
    assert!(Entry::read(&entry.to_bytes()).is_err());
    // Chains end, and their number too.
    alice.make(&mut log, text(1)).unwrap();
    alice.make(&mut log, text(1)).unwrap();
    let refused = alice.make(&mut log, text(1)).unwrap_err().to_string();
    assert!(refused.contains("entries of a chain"), "{refused}");
    alice.chain.instance = [2; 16];
    alice.make(&mut log, text(1)).unwrap();
    alice.chain.instance = [3; 16];
    let refused = alice.make(&mut log, text(1)).unwrap_err().to_string();
    assert!(refused.contains("limit of chains"), "{refused}");
}

/// A thief has Carol's key. Alice revokes it and names the last entry that Carol remembers. The
/// thief writes entries that look older.
#[test]
fn stolen_then_revoked_key_that_backdates() {
    let Pair { mut alice, mut carol, genesis, grant, mut log } = pair();
    let good = carol.make(&mut log, set("by carol")).unwrap();
    let copy = |entries: &[&Signed]| {
        let mut log = Log::begin(&genesis).unwrap();
        offer(&mut log, entries);
        log
    };
    // The thief knows what was there before the revocation.
    let mut thiefs = copy(&[&grant, &good]);
    let mut thief = Person::new(2, 1);
    let on_top = thief.make(&mut thiefs, set("by the thief")).unwrap();
    thief.chain.instance = [66; 16];
    let mut before = copy(&[&grant]);
    let back_dated = thief.draft(&before, set("old, by the thief"));
    let back_dated = Entry { clock: Clock(grant.entry.clock.0 + 1), ..back_dated };
    let back_dated = thief.sign(back_dated, log.id());
    assert_eq!(offer(&mut before, &[&back_dated]).outcomes, [Outcome::Added]);

    let end = alice.make(&mut log, revoke(&carol, vec![good.id])).unwrap();
    let offered = offer(&mut log, &[&on_top, &back_dated]);
    assert_eq!(offered.outcomes, [Outcome::Added, Outcome::Added]);
    assert_eq!(log.standing(&good.id), Some(Standing::Counts));
    for stolen in [&on_top, &back_dated] {
        assert_eq!(log.standing(&stolen.id), Some(Standing::Revoked));
    }
    assert_eq!(name(&log).as_deref(), Some("by carol"));
    // The other order: what was applied is undone.
    let mut other = copy(&[&grant, &good, &on_top, &back_dated]);
    assert_eq!(name(&other).as_deref(), Some("by the thief"));
    offer(&mut other, &[&end]);
    assert_eq!(other.state_hash(), log.state_hash());
    // An author who has seen the revocation cannot go on.
    assert!(thief.make(&mut log, set("x")).is_err());
    let mut aware = Entry::clone(&on_top.entry);
    aware.links = vec![end.id];
    aware.clock = Clock(end.entry.clock.0 + 1);
    let aware = Person::new(2, 1).sign(aware, log.id());
    assert_eq!(refusal(&mut log, &aware), Refusal::Revoked);
}

/// Carol's key signs two entries at one place and shows each to one half of the nodes.
#[test]
fn fork_that_tells_two_stories() {
    let Pair { mut alice, mut carol, genesis, grant, mut log } = pair();
    let before = carol.make(&mut log, set("before")).unwrap();
    let copy = |entries: &[&Signed]| {
        let mut log = Log::begin(&genesis).unwrap();
        offer(&mut log, entries);
        log
    };
    let (mut east, mut west) = (copy(&[&grant, &before]), copy(&[&grant, &before]));
    let one = carol.make(&mut east, set("one story")).unwrap();
    let two = carol.make(&mut west, set("another story")).unwrap();
    let later = carol.make(&mut west, set("and so on")).unwrap();
    assert_ne!(east.state_hash(), west.state_hash());
    offer(&mut east, &[&two, &later]);
    offer(&mut west, &[&one]);
    for log in [&east, &west] {
        assert_eq!(name(log).as_deref(), Some("before"));
        assert_eq!(log.standing(&before.id), Some(Standing::Counts));
        for entry in [&one, &two, &later] {
            assert_eq!(log.standing(&entry.id), Some(Standing::Forked));
        }
        // Evidence that convinces everybody: two entries that the key has signed.
        let [fork] = &log.forks()[..] else { panic!("{:?}", log.forks()) };
        let mut both = vec![one.id, two.id];
        both.sort_unstable();
        assert_eq!((&fork.entries, fork.sequence), (&both, 1));
    }
    assert_eq!(east.state_hash(), west.state_hash());
    // A node that has the fork does not write on it.
    assert!(carol.make(&mut east, set("x")).is_err());
    // An owner chooses.
    offer(&mut log, &[&one, &two, &later]);
    let choice = alice.make(&mut log, Action::Choose(later.id)).unwrap();
    offer(&mut east, &[&choice]);
    for log in [&log, &east] {
        assert_eq!(name(log).as_deref(), Some("and so on"));
        assert_eq!(log.standing(&one.id), Some(Standing::Forked));
    }
    assert!(carol.make(&mut east, set("goes on")).is_ok());
}

/// A restored machine must take a new instance; then nothing is forked. A fork at the first entry
/// is one, too.
#[test]
fn restored_machine_and_fork_at_the_first_entry() {
    let Pair { mut alice, mut carol, grant, mut log, .. } = pair();
    let first = carol.make(&mut log, set("first")).unwrap();
    carol.chain.instance = [2; 16];
    carol.make(&mut log, set("after the restore")).unwrap();
    assert!(log.forks().is_empty());
    assert_eq!(name(&log).as_deref(), Some("after the restore"));
    let mut again = Person::new(2, 1);
    let entry = Entry { action: set("twin"), ..Entry::clone(&first.entry) };
    let twin = again.sign(entry, log.id());
    offer(&mut log, &[&twin]);
    assert_eq!(log.forks()[0].sequence, 0);
    assert_eq!(log.standing(&first.id), Some(Standing::Forked));
    assert_eq!(name(&log).as_deref(), Some("after the restore"));
    // A revocation that names a head on one branch chooses it.
    let heads = vec![first.id];
    let target = talaria_log::Target::Author(carol.name());
    let end = talaria_log::Revocation { target, reason: 2, since: 0, heads };
    alice.make(&mut log, Action::Revoke(end)).unwrap();
    assert_eq!(log.standing(&first.id), Some(Standing::Counts));
    assert_eq!(log.standing(&twin.id), Some(Standing::Revoked));
    assert_eq!(name(&log).as_deref(), Some("first"));
    // The place of genesis cannot be taken.
    let mut at_genesis = Entry::clone(&grant.entry);
    (at_genesis.sequence, at_genesis.previous) = (0, EntryId::NONE);
    let at_genesis = alice.sign(at_genesis, log.id());
    assert_eq!(refusal(&mut log, &at_genesis), Refusal::GenesisPlace);
}

#[test]
fn document_signature_offered_as_an_entry() {
    for person in [0, V6] {
        let mut alice = Person::new(person, 1);
        let genesis = genesis_of(&[&alice], 1);
        let genesis = begin(&mut alice, genesis);
        let mut log = Log::begin(&genesis).unwrap();
        let entry = alice.draft(&log, set("a document"));
        // Somebody has Alice sign a file that is an entry.
        let packet = alice.key.sign(&entry.to_bytes(), NOW).unwrap();
        let signature = StoredSignature::of_packet(&packet, alice.chain.subkey, log.id()).unwrap();
        let offered = Signed::alone(entry.clone(), signature);
        assert_eq!(refusal(&mut log, &offered), Refusal::Signature(BadSignature::NotOfLog));
        // The numbers of that signature in a template.
        let mut record = alice.sign(entry.clone(), log.id()).to_record();
        let end = record.len();
        record[end - 64..].copy_from_slice(packet.last_chunk::<64>().unwrap());
        let offered = log.offer(read_record(&record).unwrap(), NOW_MS);
        assert_eq!(offered.outcomes, [Outcome::Refused(Refusal::Signature(BadSignature::Forged))]);
        // The signature of an entry of another log.
        let packet = alice.key.sign_for_log(&entry.to_bytes(), &[7; 32], NOW).unwrap();
        let signature = StoredSignature::of_packet(&packet, alice.chain.subkey, log.id()).unwrap();
        let offered = Signed::alone(entry, signature);
        assert_eq!(refusal(&mut log, &offered), Refusal::Signature(BadSignature::NotOfLog));
        // Genesis is held to the same.
        let packet = alice.key.sign(&genesis.bytes, NOW).unwrap();
        let signature =
            StoredSignature::of_packet(&packet, alice.chain.subkey, genesis.id).unwrap();
        assert!(Log::begin(&Signed::alone(Entry::clone(&genesis.entry), signature)).is_err());
    }
}

#[test]
fn entry_signature_offered_on_a_document() {
    for person in [0, V6] {
        let mut alice = Person::new(person, 1);
        let genesis = genesis_of(&[&alice], 1);
        let genesis = begin(&mut alice, genesis);
        let Evidence::Alone(signature) = &genesis.evidence else { panic!() };
        let packet = signature.to_packet(&genesis.bytes, alice.chain.subkey, genesis.id);
        let cert = talaria_message::read_cert(alice.certificate.as_bytes()).unwrap();
        let verifier =
            Verifier::new(talaria_message::lookup_in([cert]), Rules::default(), NOW + 10);
        let report = verifier.one(&packet, &genesis.bytes);
        assert!(
            matches!(
                report.outcome,
                DocumentOutcome::NotCounted(NotCounted::Misused(why)) if why.contains("log")
            ),
            "{:?}",
            report.outcome
        );
        // A signature on the document itself is good.
        let packet = alice.key.sign(&genesis.bytes, NOW).unwrap();
        assert!(verifier.one(&packet, &genesis.bytes).is_good());
    }
}

/// A batch statement is about its own entries only.
#[test]
fn statement_of_one_batch_offered_with_another() {
    let mut pair = pair();
    let mut batch = |text: &str| {
        let mut entries = Vec::new();
        for _ in 0..3 {
            let entry = pair.alice.draft(&pair.log, set(text));
            pair.log.append(entry.clone()).unwrap();
            entries.push(entry);
        }
        let mut maker = Maker { chain: pair.alice.chain, key: &mut pair.alice.key };
        maker.sign_batch(entries, pair.log.id(), NOW_MS).unwrap()
    };
    let (one, two) = (batch("one"), batch("two"));
    let mut copy = pair.copy();
    assert_eq!(copy.offer(one.clone(), NOW_MS).added.len(), 3);
    for at in 0..3 {
        let swapped = Signed { evidence: one[at].evidence.clone(), ..two[at].clone() };
        assert_eq!(refusal(&mut copy, &swapped), Refusal::Batch);
    }
    // A path that is that of the neighbour.
    let Evidence::InBatch(statement, path) = &two[1].evidence else { panic!() };
    let evidence = Evidence::InBatch(statement.clone(), path.clone());
    let swapped = Signed { evidence, ..two[0].clone() };
    assert_eq!(refusal(&mut copy, &swapped), Refusal::Batch);
    // A statement that the author has not signed.
    let Evidence::InBatch(other, _) = &one[0].evidence else { panic!() };
    let forged = talaria_log::SignedStatement {
        statement: statement.statement,
        signature: other.signature.clone(),
    };
    let entries = two.iter().map(|signed| Entry::clone(&signed.entry)).collect();
    let forged = talaria_log::batch(forged, entries).unwrap();
    let outcomes = copy.offer(forged, NOW_MS).outcomes;
    let forged = Outcome::Refused(Refusal::Signature(BadSignature::Forged));
    assert_eq!(outcomes[0], forged);
    assert_eq!(copy.offer(two, NOW_MS).added.len(), 3);
    assert_eq!(copy.state_hash(), pair.log.state_hash());
}

/// An object belongs to who creates it.
#[test]
fn creating_an_object_under_the_name_of_another() {
    let mut pair = pair();
    let create = |object, name: &str| {
        let change = talaria_log::Change::Create(name.to_owned());
        Action::Data(talaria_log::DataAction { object, change })
    };
    let of_alice = ObjectId::of(pair.log.id(), pair.alice.name(), "server");
    let refused = pair.carol.make(&mut pair.log, create(of_alice, "server"));
    assert!(refused.unwrap_err().to_string().contains("does not belong"));
    pair.alice.make(&mut pair.log, create(of_alice, "server")).unwrap();
}
