//! The bytes of entries, signatures and batches.

use std::collections::BTreeSet;

use proptest::prelude::*;
use talaria_log::{
    Action, Change, Checkpoint, Commitment, Cosignatures, DataAction, Edge, Encrypted, Entry,
    EntryId, Evidence, FieldChange, Float, Genesis, Maker, Malformed, NodeKey, Note, NoteKind,
    NoteSecret, Operations, Pattern, Revocation, Side, Signed, Snapshot, StoredSignature, Target,
    TreeHead, Value, WitnessRequest, WrappedKey, is_included, read_record, to_records,
};
use talaria_message::Sealer;

use crate::people::{
    NOW, NOW_MS, Notary, Person, V6, begin, change, genesis_of, grant_to, object, pair, set,
};

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<String>().prop_map(Value::String),
        any::<i64>().prop_map(Value::Integer),
        any::<f64>().prop_map(|number| Value::Float(Float::new(number))),
        any::<bool>().prop_map(Value::Boolean),
        prop::collection::vec(any::<u8>(), 0..40).prop_map(Value::Bytes),
        any::<u8>().prop_map(|number| Value::Object(object(number))),
        any::<([u8; 32], u32)>().prop_map(|(hash, bytes)| {
            let bytes = 1 + bytes % 65_536;
            Value::Committed(Commitment { bytes, hash })
        }),
        (any::<[u8; 32]>(), prop::collection::vec(any::<u8>(), 0..9000)).prop_map(|(id, plain)| {
            let packet = Sealer::with_session_key(&id).seal(&plain).unwrap();
            Value::Encrypted(Encrypted::new(EntryId(id), packet).unwrap())
        }),
    ]
}

fn ids(at_most: usize) -> impl Strategy<Value = Vec<EntryId>> {
    prop::collection::btree_set(any::<[u8; 32]>().prop_map(EntryId), 0..=at_most)
        .prop_map(|ids| ids.into_iter().collect())
}

fn field_change() -> impl Strategy<Value = FieldChange> {
    let id = || any::<[u8; 32]>().prop_map(EntryId);
    prop_oneof![
        prop::option::of(value()).prop_map(FieldChange::Set),
        (ids(32), prop::option::of(value()))
            .prop_map(|(replaced, value)| FieldChange::Replace { replaced, value }),
        value().prop_map(FieldChange::Add),
        ids(32).prop_filter("not empty", |ids| !ids.is_empty()).prop_map(FieldChange::Remove),
        any::<i64>().prop_map(FieldChange::Count),
        (id(), any::<bool>(), value()).prop_map(|(parent, left, value)| FieldChange::Insert {
            parent,
            side: if left { Side::Left } else { Side::Right },
            value
        }),
        id().prop_map(FieldChange::Erase),
    ]
}

/// A message that looks as if it were for these readers.
fn wrapped(readers: &BTreeSet<u64>, is_aead: bool, data: &[u8]) -> WrappedKey {
    let mut message = Vec::new();
    for reader in readers {
        message.extend([0xc1, 10, 3]);
        message.extend(reader.to_be_bytes());
        message.push(25);
    }
    let length = u8::try_from(data.len()).unwrap();
    message.extend([if is_aead { 0xd4 } else { 0xd2 }, length]);
    message.extend(data);
    WrappedKey::new([5; 32], message).unwrap()
}

fn action() -> impl Strategy<Value = Action> {
    let id = || any::<[u8; 32]>().prop_map(EntryId);
    let field = "[a-z/]{1,20}";
    let data = |change| Action::Data(DataAction { object: object(7), change });
    prop_oneof![
        field.prop_map(move |name| data(Change::Create(name))),
        Just(data(Change::Delete)),
        (field, field_change()).prop_map(move |(field, change)| data(Change::Field(field, change))),
        (
            "[a-z]{1,9}\\*?",
            prop::collection::btree_set(1u64.., 1..9),
            any::<bool>(),
            prop::collection::vec(any::<u8>(), 1..190)
        )
            .prop_map(move |(fields, readers, is_aead, content)| {
                let key = Box::new(wrapped(&readers, is_aead, &content));
                data(Change::Encrypt(Pattern::new(&fields).unwrap(), key))
            }),
        field.prop_map(move |fields| {
            data(Change::StopEncrypting(Pattern::new(&fields).unwrap()))
        }),
        (0u8..3, 0u8..4, ids(40), any::<u32>()).prop_map(|(kind, reason, heads, since)| {
            let since = if heads.is_empty() { since.into() } else { 0 };
            let chain = Person::new(0, 1).chain;
            let target = match kind {
                0 => Target::Author(chain.author),
                1 => Target::Key(chain.author, chain.subkey),
                _ => Target::Grant(EntryId([kind; 32])),
            };
            Action::Revoke(Revocation { target, reason, since, heads })
        }),
        (field, any::<u32>()).prop_map(|(field, ends)| {
            let mut grant = grant_to(&Person::new(2, 1));
            grant.fields = Pattern::new(&field).unwrap();
            grant.ends_ms = ends.into();
            grant.operations = Operations::FIELDS;
            Action::Grant(Box::new(grant))
        }),
        id().prop_map(Action::Approve),
        id().prop_map(Action::Choose),
        (id(), 1u64..1 << 40, 0u8..4, any::<u32>()).prop_map(|(before, size, lines, time)| {
            let key = NoteSecret::new("example.org/x", NoteKind::Plain, &[7; 32]).unwrap();
            let head = TreeHead { origin: "example.org/x".to_owned(), size, root: before.0 };
            let text = head.to_string();
            let mut signed = vec![key.sign(&text)];
            signed.extend((0..lines).map(|_| key.cosign(&text, time.into())));
            let edge = Edge::new(size, vec![before.0; size.count_ones() as usize]).unwrap();
            let note = Note { head, lines: signed };
            Action::Checkpoint(Box::new(Checkpoint { before, edge, note }))
        }),
        (id(), 1u8..33, any::<u32>()).prop_map(|(checkpoint, lines, time)| {
            let key = NoteSecret::new("w", NoteKind::Timed, &[7; 32]).unwrap();
            let lines = (0..lines).map(|n| key.cosign(&n.to_string(), time.into())).collect();
            Action::Cosign(Cosignatures { checkpoint, lines })
        }),
        id().prop_map(Action::EndNode),
        (any::<[u8; 32]>(), "[a-zé-]{0,20}")
            .prop_map(|(key, name)| Action::PublishNode(NodeKey { key, name })),
        (any::<u64>(), id(), id()).prop_map(|(entries, root, state)| {
            Action::Snapshot(Snapshot { entries, root: root.0, state: state.0 })
        }),
        Just(Action::Genesis(Box::new(genesis_of(&[&Person::new(0, 1), &Person::new(1, 1)], 2)))),
    ]
}

fn entry() -> impl Strategy<Value = Entry> {
    (action(), any::<u64>(), any::<[u8; 32]>(), ids(8), any::<u64>()).prop_map(
        |(action, sequence, any, links, clock)| {
            let is_genesis = matches!(action, Action::Genesis(_));
            let sequence = if is_genesis { 0 } else { sequence };
            Entry {
                log: if is_genesis { EntryId::NONE } else { EntryId([9; 32]) },
                chain: Person::new(usize::from(any[0] % 6), any[1]).chain,
                sequence,
                previous: if sequence == 0 { EntryId::NONE } else { EntryId(any) },
                links: if is_genesis { Vec::new() } else { links },
                clock: talaria_log::Clock(clock),
                grant: EntryId::NONE,
                action,
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn an_entry_has_one_encoding(entry in entry(), at: prop::sample::Index, flip in 1u8..) {
        let bytes = entry.to_bytes();
        prop_assert_eq!(Entry::read(&bytes).unwrap(), entry.clone());
        // A change of any byte is another entry or none. Nothing is read into what it was.
        let mut changed = bytes.clone();
        changed[at.index(bytes.len())] ^= flip;
        if let Ok(other) = Entry::read(&changed) {
            prop_assert_ne!(&other, &entry);
            prop_assert_eq!(other.to_bytes(), changed);
        }
        let mut longer = bytes.clone();
        longer.push(0);
        prop_assert_eq!(Entry::read(&longer), Err(Malformed::Trailing));
        prop_assert!(Entry::read(&bytes[..at.index(bytes.len())]).is_err());
    }

    #[test]
    fn no_bytes_make_the_readers_panic(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let _ = Entry::read(&bytes);
        let _ = read_record(&bytes);
        let _ = Value::read(&bytes);
        let text = String::from_utf8_lossy(&bytes);
        let _ = Note::read(&text);
        let _ = WitnessRequest::read(&text);
        let _ = text.parse::<NoteSecret>();
    }
}

#[test]
fn numbers_have_one_nan_and_no_negative_zero() {
    let bytes = |number: f64| {
        let mut out = Vec::new();
        Value::Float(Float::new(number)).write(&mut out);
        out
    };
    assert_eq!(bytes(f64::NAN), bytes(-f64::from_bits(0x7ff0_0000_0000_0001)));
    assert_eq!(bytes(-0.0), bytes(0.0));
    assert_ne!(bytes(f64::INFINITY), bytes(f64::NEG_INFINITY));
    for bits in [0x8000_0000_0000_0000_u64, 0x7ff8_0000_0000_0001, 0xfff8_0000_0000_0000] {
        let bytes = [&[3][..], &bits.to_be_bytes()].concat();
        assert_eq!(Value::read(&bytes), Err(Malformed::Field("float")));
    }
    assert!(Value::read(&[4, 2]).is_err());
}

/// The stored form gives back the packet that the key made, byte by byte.
#[test]
fn templates_give_the_whole_packet_back() {
    for (person, stored) in [(0, 69), (V6, 85)] {
        let mut author = Person::new(person, 1);
        let log = EntryId([5; 32]);
        for round in 0..40_u8 {
            // Some R or S begin with zero bytes, which an MPI leaves out.
            let bytes = [round; 50];
            author.key.set_hash(8).unwrap();
            let packet = author.key.sign_for_log(&bytes, &log.0, NOW).unwrap();
            let subkey = author.chain.subkey;
            let short = StoredSignature::of_packet(&packet, subkey, log).unwrap();
            assert_eq!(short.to_packet(&bytes, subkey, log), packet);
            let entry = set("x");
            let entry = Entry { action: entry, ..entry_of(&author, log) };
            let record = Signed::alone(entry.clone(), short).to_record();
            assert_eq!(record.len(), 1 + 4 + entry.to_bytes().len() + stored);
        }
    }
}

fn entry_of(author: &Person, log: EntryId) -> Entry {
    Entry {
        log,
        chain: author.chain,
        sequence: 0,
        previous: EntryId::NONE,
        links: Vec::new(),
        clock: talaria_log::Clock::at_ms(NOW_MS),
        grant: EntryId::NONE,
        action: set("x"),
    }
}

#[test]
fn a_whole_batch_is_one_record_and_each_entry_has_a_proof() {
    let mut pair = pair();
    let mut entries = Vec::new();
    for number in 0..21 {
        let entry = pair.alice.draft(&pair.log, change(2, "count", FieldChange::Count(number)));
        pair.log.append(entry.clone()).unwrap();
        entries.push(entry);
    }
    let mut maker = Maker { chain: pair.alice.chain, key: &mut pair.alice.key };
    let signed = maker.sign_batch(entries, pair.log.id(), NOW_MS).unwrap();
    let mut records = Vec::new();
    to_records(&signed, &mut records);
    assert_eq!(records.len(), 1);
    assert_eq!(read_record(&records[0]).unwrap(), signed);
    // Parts of a batch are records of their own.
    let mut records = Vec::new();
    to_records(&signed[3..], &mut records);
    assert_eq!(records.len(), 18);
    for (record, signed) in records.iter().zip(&signed[3..]) {
        let read = read_record(record).unwrap().remove(0);
        assert_eq!(&read, signed);
        let Evidence::InBatch(batch, path) = &read.evidence else { panic!("{read:?}") };
        let at = usize::try_from(read.entry.sequence - batch.statement.first).unwrap();
        assert!(is_included(&read.id, at, 21, &path.hashes(), &batch.statement.root));
        let mut log = pair.copy();
        assert_eq!(log.offer(vec![read], NOW_MS).outcomes, [talaria_log::Outcome::WaitsForPast]);
    }
    let mut log = pair.copy();
    let outcomes = log.offer(signed, NOW_MS).outcomes;
    assert!(outcomes.iter().all(|outcome| *outcome == talaria_log::Outcome::Added));
    assert_eq!(log.state_hash(), pair.log.state_hash());
}

#[test]
fn genesis_names_witnesses_in_order_and_a_majority_of_them() {
    let mut alice = Person::new(0, 1);
    let good = Notary::new(3).of(genesis_of(&[&Person::new(0, 1)], 1));
    let mut read = |genesis: Genesis| {
        let signed = begin(&mut alice, genesis.clone());
        read_record(&signed.to_record()).map(|read| {
            assert_eq!(read[0].entry.action, Action::Genesis(Box::new(genesis)));
        })
    };
    assert_eq!(read(good.clone()), Ok(()));
    assert_eq!(read(Genesis { witness_threshold: 3, ..good.clone() }), Ok(()));
    for witness_threshold in [0, 1, 4] {
        let wrong = Genesis { witness_threshold, ..good.clone() };
        assert_eq!(read(wrong), Err(Malformed::Field("witnesses of a checkpoint")));
    }
    let mut reversed = good.clone();
    reversed.witnesses.reverse();
    assert_eq!(read(reversed), Err(Malformed::Order("witnesses")));
    for name in ["", "a b", "a+b"] {
        let mut named = good.clone();
        named.witnesses[1].name = name.to_owned();
        assert_eq!(read(named), Err(Malformed::Field("name of a witness")));
    }
    let nobody = Genesis { checkpointer: None, ..good.clone() };
    assert_eq!(read(nobody), Err(Malformed::Field("witnesses of a checkpoint")));
    let grace = Genesis { grace_s: 1, ..genesis_of(&[&Person::new(0, 1)], 1) };
    assert_eq!(read(grace), Err(Malformed::Field("grace time")));
}

#[test]
fn genesis_names_the_owners_in_order() {
    let (mut alice, bob) = (Person::new(0, 1), Person::new(1, 1));
    let mut genesis = genesis_of(&[&alice, &bob], 1);
    genesis.owners.reverse();
    let signed = begin(&mut alice, genesis);
    assert_eq!(read_record(&signed.to_record()), Err(Malformed::Order("owners")));
}
