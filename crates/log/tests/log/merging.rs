//! Merge rules, with entries that are made without seeing each other.

use talaria_log::{Change, Content, DataAction, FieldChange, Log, ObjectId, Signed, Value};

use crate::people::{Pair, Person, change, name, object, offer, pair, set};

/// Two copies of a log, Alice's and Carol's.
fn copies() -> (Pair, Log) {
    let pair = pair();
    let copy = pair.copy();
    (pair, copy)
}

fn text(text: &str) -> Value {
    Value::String(text.to_owned())
}

fn exchange(one: &mut Log, ones: &[&Signed], two: &mut Log, twos: &[&Signed]) {
    offer(one, twos);
    offer(two, ones);
    assert_eq!(one.state_hash(), two.state_hash());
}

/// A writer who has seen a value wins over it, also with a slow clock. Among concurrent writers,
/// the clock decides.
#[test]
fn last_writer_wins_by_past_first_and_clock_then() {
    let (mut pair, mut copy) = copies();
    let ahead = crate::people::NOW_MS + 50_000;
    let fast = pair.alice.make_at(&mut pair.log, set("fast clock"), ahead).unwrap();
    let slow = pair.carol.make(&mut copy, set("slow clock")).unwrap();
    exchange(&mut pair.log, &[&fast], &mut copy, &[&slow]);
    assert_eq!(name(&copy).as_deref(), Some("fast clock"));
    let answer = pair.carol.make(&mut copy, set("has seen it")).unwrap();
    offer(&mut pair.log, &[&answer]);
    assert_eq!(name(&pair.log).as_deref(), Some("has seen it"));
    let gone = pair.alice.make(&mut pair.log, change(1, "name", FieldChange::Set(None))).unwrap();
    offer(&mut copy, &[&gone]);
    assert_eq!(name(&copy), None);
}

#[test]
fn strict_values_stay_side_by_side_until_one_replaces_them() {
    let (mut pair, mut copy) = copies();
    let write = |replaced: &[&Signed], value: &str| {
        let mut replaced: Vec<_> = replaced.iter().map(|write| write.id).collect();
        replaced.sort_unstable();
        change(1, "strict", FieldChange::Replace { replaced, value: Some(text(value)) })
    };
    let first = pair.alice.make(&mut pair.log, write(&[], "first")).unwrap();
    offer(&mut copy, &[&first]);
    let one = pair.alice.make(&mut pair.log, write(&[&first], "one")).unwrap();
    let two = pair.carol.make(&mut copy, write(&[&first], "two")).unwrap();
    exchange(&mut pair.log, &[&one], &mut copy, &[&two]);
    let values = |log: &Log| match log.state().field(object(1), "strict") {
        Some(Content::Strict(values)) => {
            let mut values: Vec<String> =
                values.values().flatten().map(ToString::to_string).collect();
            values.sort();
            values
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(values(&copy), ["one", "two"]);
    let both = pair.carol.make(&mut copy, write(&[&one, &two], "both")).unwrap();
    offer(&mut pair.log, &[&both]);
    assert_eq!(values(&pair.log), ["both"]);
    // Only writes of the same field can be replaced.
    let other = pair.alice.make(&mut pair.log, set("x")).unwrap();
    assert!(pair.alice.make(&mut pair.log, write(&[&other], "x")).is_err());
}

#[test]
fn an_element_that_is_added_while_it_is_removed_stays() {
    let (mut pair, mut copy) = copies();
    let add = || change(1, "set", FieldChange::Add(text("red")));
    let first = pair.alice.make(&mut pair.log, add()).unwrap();
    offer(&mut copy, &[&first]);
    let remove = change(1, "set", FieldChange::Remove(vec![first.id]));
    let removed = pair.alice.make(&mut pair.log, remove).unwrap();
    assert_eq!(pair.log.state().field(object(1), "set"), None);
    let again = pair.carol.make(&mut copy, add()).unwrap();
    exchange(&mut pair.log, &[&removed], &mut copy, &[&again]);
    let Some(Content::Set(set)) = copy.state().field(object(1), "set") else { panic!() };
    assert_eq!(set[&text("red")], [again.id]);
}

#[test]
fn counters_add_up_and_do_not_overflow() {
    let (mut pair, mut copy) = copies();
    let count = |number| change(1, "count", FieldChange::Count(number));
    let ones: Vec<_> =
        [i64::MAX, i64::MAX, -3].map(|n| pair.alice.make(&mut pair.log, count(n)).unwrap()).into();
    let twos: Vec<_> =
        [i64::MAX, i64::MIN].map(|n| pair.carol.make(&mut copy, count(n)).unwrap()).into();
    let (ones, twos): (Vec<_>, Vec<_>) = (ones.iter().collect(), twos.iter().collect());
    exchange(&mut pair.log, &ones, &mut copy, &twos);
    let sum = 2 * i128::from(i64::MAX) - 3 - 1;
    assert_eq!(copy.state().field(object(1), "count"), Some(Content::Counter(sum)));
}

#[test]
fn words_in_a_list_do_not_mix() {
    let (mut pair, mut copy) = copies();
    let type_word = |person: &mut Person, log: &mut Log, word: &str| -> Vec<Signed> {
        let mut last = None;
        word.chars()
            .map(|letter| {
                let (parent, side) = log.state().place_in_list(object(1), "list", last);
                let value = text(&letter.to_string());
                let insert = change(1, "list", FieldChange::Insert { parent, side, value });
                let signed = person.make(log, insert).unwrap();
                last = Some(signed.id);
                signed
            })
            .collect()
    };
    let ones = type_word(&mut pair.alice, &mut pair.log, "milk");
    let twos = type_word(&mut pair.carol, &mut copy, "eggs");
    exchange(
        &mut pair.log,
        &ones.iter().collect::<Vec<_>>(),
        &mut copy,
        &twos.iter().collect::<Vec<_>>(),
    );
    let read = |log: &Log| match log.state().field(object(1), "list") {
        Some(Content::List(list)) => list.iter().map(|(_, v)| v.to_string()).collect::<String>(),
        other => panic!("{other:?}"),
    };
    assert!(["milkeggs", "eggsmilk"].contains(&read(&copy).as_str()), "{}", read(&copy));
    let erase = change(1, "list", FieldChange::Erase(ones[1].id));
    let erased = pair.carol.make(&mut copy, erase).unwrap();
    offer(&mut pair.log, &[&erased]);
    assert!(read(&pair.log).contains("mlk"), "{}", read(&pair.log));
}

#[test]
fn a_deleted_object_is_hidden_until_it_is_created_again() {
    let (mut pair, _) = copies();
    let id = ObjectId::of(pair.log.id(), pair.alice.name(), "box");
    let data = |change| talaria_log::Action::Data(DataAction { object: id, change });
    let create = || data(Change::Create("box".to_owned()));
    let value = FieldChange::Set(Some(text("red")));
    pair.alice.make(&mut pair.log, create()).unwrap();
    pair.alice.make(&mut pair.log, data(Change::Field("color".to_owned(), value))).unwrap();
    pair.alice.make(&mut pair.log, data(Change::Delete)).unwrap();
    assert_eq!(pair.log.state().objects().count(), 0);
    assert_eq!(pair.log.state().field(id, "color"), None);
    pair.alice.make(&mut pair.log, create()).unwrap();
    assert_eq!(pair.log.state().fields(id).count(), 1);
    assert_eq!(pair.log.state().objects().next().unwrap().named.unwrap().0, "box");
}

/// A field has one rule, from genesis.
#[test]
fn an_operation_that_does_not_fit_the_rule_is_refused() {
    let (mut pair, _) = copies();
    for (field, wrong) in [
        ("count", FieldChange::Set(None)),
        ("name", FieldChange::Count(1)),
        ("list", FieldChange::Add(text("x"))),
    ] {
        let refused = pair.alice.make(&mut pair.log, change(1, field, wrong)).unwrap_err();
        assert!(refused.to_string().contains("merge rule"), "{refused}");
    }
}
