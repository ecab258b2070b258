//! Listeners: what they are asked and told, when, and in which order.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, Mutex};

use talaria_log::{
    Change, Clock, DraftError, Edit, Entry, EntryId, Event, Interest, Kind, LogError, LogFolder,
    Maker, Pattern, Patterns, Signed, Signing, Standing, Turn, Update, Value,
};

use crate::people::{NOW_MS, Person, begin, change, genesis_of, grant, object, revoke, set};

fn create(folder: &Path) -> (Arc<LogFolder>, Person) {
    let mut alice = Person::new(0, 1);
    let genesis = genesis_of(&[&alice], 1);
    let genesis = begin(&mut alice, genesis);
    let log = LogFolder::create(folder, &genesis).unwrap();
    alice.chain.instance = log.instance();
    (Arc::new(log), alice)
}

fn put(log: &LogFolder, person: &mut Person, updates: &[Update]) -> Result<Vec<EntryId>, LogError> {
    let mut maker = Maker { chain: person.chain, key: &mut person.key };
    log.put(&mut maker, updates, Signing::Each, NOW_MS).map_err(|error| error.error)
}

fn update(object: &str, field: &str, value: i64) -> Update {
    let edit = Edit::Put(field.to_owned(), Value::Integer(value));
    Update { object: object.to_owned(), edit }
}

fn patterns(texts: &[&str]) -> Patterns {
    let patterns: Vec<Pattern> = texts.iter().map(|text| Pattern::new(text).unwrap()).collect();
    Patterns::new(&patterns)
}

type Told = Arc<Mutex<Vec<Event>>>;

/// Keeps all events that an interest matches.
fn record(log: &LogFolder, interest: Interest) -> Told {
    let told = Told::default();
    let keep = Arc::clone(&told);
    log.after(interest, move |event| {
        keep.lock().unwrap().push(event.clone());
        ControlFlow::Continue(())
    });
    told
}

fn take(log: &LogFolder, entries: Vec<Signed>) {
    log.append(|log| {
        let offered = log.offer(entries, NOW_MS);
        Ok::<_, LogError>((offered.added, ()))
    })
    .unwrap();
}

#[test]
fn listeners_are_told_what_they_want() {
    let folder = tempfile::tempdir().unwrap();
    let (log, mut alice) = create(&folder.path().join("log"));
    put(&log, &mut alice, &[update("earlier", "color", 0)]).unwrap();
    let all = record(&log, Interest::default());
    let colors = record(
        &log,
        Interest {
            kinds: vec![Kind::Update],
            fields: patterns(&["color*"]),
            ..Interest::default()
        },
    );
    let server = Interest { objects: patterns(&["server-*"]), ..Interest::default() };
    let server = record(&log, server);
    let ids = put(
        &log,
        &mut alice,
        &[
            update("server-1", "color/top", 1),
            update("server-1", "size", 2),
            update("desk", "color", 3),
        ],
    );
    let ids = ids.unwrap();
    put(&log, &mut alice, &[Update { object: "server-1".to_owned(), edit: Edit::Delete }]).unwrap();
    let seen = |told: &Told| -> Vec<(EntryId, Option<String>)> {
        told.lock().unwrap().iter().map(|event| (event.entry, event.name.clone())).collect()
    };
    let (one, desk) = (Some("server-1".to_owned()), Some("desk".to_owned()));
    let in_order: Vec<EntryId> = seen(&all).into_iter().map(|(id, _)| id).collect();
    assert_eq!(in_order[..5], ids[..]);
    assert_eq!(in_order.len(), 6);
    assert_eq!(seen(&colors), [(ids[1], one.clone()), (ids[4], desk)]);
    assert!(seen(&server).iter().all(|(_, name)| *name == one));
    assert_eq!(seen(&server).len(), 4);
    assert_eq!(all.lock().unwrap()[5].change, Change::Delete);
    // Nobody is told twice, also after the log is opened again.
    drop(log);
    let log = LogFolder::open(&folder.path().join("log")).unwrap();
    let again = record(&log, Interest::default());
    let mut person = Person::new(0, 1);
    person.chain.instance = log.instance();
    put(&log, &mut person, &[update("desk", "color", 4)]).unwrap();
    assert_eq!(again.lock().unwrap().len(), 1);
}

/// A listener says that it wants no more.
#[test]
fn a_listener_ends_itself() {
    let folder = tempfile::tempdir().unwrap();
    let (log, mut alice) = create(&folder.path().join("log"));
    let count = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&count);
    log.after(Interest::default(), move |_| {
        *counted.lock().unwrap() += 1;
        ControlFlow::Break(())
    });
    put(&log, &mut alice, &[update("a", "x", 1), update("b", "x", 1)]).unwrap();
    assert_eq!(*count.lock().unwrap(), 1);
}

/// A rejected change is not signed, and not in the log. A change by somebody else counts, whatever
/// the listener thinks of it.
#[test]
fn a_listener_rejects_before_signing_only() {
    let folder = tempfile::tempdir().unwrap();
    let (log, mut alice) = create(&folder.path().join("log"));
    let mut carol = Person::new(2, 7);
    let given = log.append(|log| {
        let signed = alice.make(log, grant(&carol)).unwrap();
        Ok::<_, LogError>((vec![signed], ()))
    });
    given.unwrap();
    let sizes = Interest { fields: patterns(&["size"]), ..Interest::default() };
    log.before(sizes, |proposal| match &proposal.data.change {
        Change::Field(_, talaria_log::FieldChange::Set(Some(Value::Integer(0..10)))) => Ok(()),
        Change::Field(..) => Err("a size is from 0 to 9".to_owned()),
        _ => Ok(()),
    });
    put(&log, &mut alice, &[update("desk", "size", 9), update("desk", "height", 99)]).unwrap();
    let before = log.read(|log| (log.len(), log.state_hash())).unwrap();
    let rejected = put(&log, &mut alice, &[update("desk", "size", 10)]).unwrap_err();
    assert!(
        matches!(&rejected, LogError::Draft(DraftError::Rejected(why)) if why.contains("0 to 9")),
        "{rejected}"
    );
    assert_eq!(log.read(|log| (log.len(), log.state_hash())).unwrap(), before);
    // Carol's node has no such listener.
    let id = log.read(|log| log.find_object("desk").unwrap()).unwrap();
    let field = talaria_log::FieldChange::Set(Some(Value::Integer(77)));
    let data = talaria_log::DataAction { object: id, change: Change::Field("size".into(), field) };
    let entry = log
        .read(|log| {
            // Drafted by hand, as another node does it.
            let granted = log.grants().next().unwrap().0;
            Entry {
                log: log.id(),
                chain: carol.chain,
                sequence: 0,
                previous: EntryId::NONE,
                links: log.heads(),
                clock: Clock(log.latest().0 + 1),
                grant: granted,
                action: talaria_log::Action::Data(data),
            }
        })
        .unwrap();
    let signed = carol.sign(entry, log.id());
    take(&log, vec![signed]);
    let size = log.read(|log| log.state().field(id, "size")).unwrap();
    assert_eq!(size, Some(talaria_log::Content::LastWriter(Value::Integer(77))));
}

/// A revocation undoes changes: listeners are told which ones, and why.
#[test]
fn changes_that_cease_to_count_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let (log, mut alice) = create(&folder.path().join("log"));
    let mut carol = Person::new(2, 7);
    let carols = log.append(|log| {
        let given = alice.make(log, grant(&carol)).unwrap();
        let first = carol.make(log, set("first")).unwrap();
        let second = carol.make(log, set("second")).unwrap();
        let (one, two) = (first.id, second.id);
        Ok::<_, LogError>((vec![given, first, second], (one, two)))
    });
    let (first, second) = carols.unwrap();
    let told = record(&log, Interest::default());
    log.append(|log| {
        let ended = alice.make(log, revoke(&carol, vec![first])).unwrap();
        Ok::<_, LogError>((vec![ended], ()))
    })
    .unwrap();
    let told = told.lock().unwrap();
    assert_eq!(told.len(), 1);
    assert_eq!((told[0].entry, told[0].turn), (second, Turn::Undone(Standing::Revoked)));
    assert_eq!((told[0].author, told[0].object), (carol.name(), object(1)));
}

/// A listener reads and writes the log while it is told, and threads write at once: each change is
/// told once, after those that were admitted before it.
#[test]
fn listeners_hold_no_lock_and_keep_the_order() {
    const THREADS: u8 = 4;
    const EACH: usize = 25;
    let folder = tempfile::tempdir().unwrap();
    let (log, mut alice) = create(&folder.path().join("log"));
    let members: Vec<Person> = (0..=THREADS).map(|device| Person::new(2, 100 + device)).collect();
    log.append(|log| {
        let signed = alice.make(log, grant(&members[0])).unwrap();
        Ok::<_, LogError>((vec![signed], ()))
    })
    .unwrap();
    let mut members = members.into_iter();
    let echo = Mutex::new(members.next().unwrap());
    let told = Told::default();
    let (keep, weak) = (Arc::clone(&told), Arc::downgrade(&log));
    log.after(Interest::default(), move |event| {
        let log = weak.upgrade().unwrap();
        // What is told is in the log, and counts.
        assert_eq!(log.read(|log| log.standing(&event.entry)).unwrap(), Some(Standing::Counts));
        let is_first = matches!(&event.change, Change::Field(field, _) if field == "name");
        keep.lock().unwrap().push(event.clone());
        if is_first {
            let mut person = echo.lock().unwrap();
            log.append(|log| {
                let count = change(1, "count", talaria_log::FieldChange::Count(1));
                Ok::<_, LogError>((vec![person.make(log, count).unwrap()], ()))
            })
            .unwrap();
        }
        ControlFlow::Continue(())
    });
    std::thread::scope(|scope| {
        for mut member in members {
            let log = &log;
            scope.spawn(move || {
                for number in 0..EACH {
                    log.append(|log| {
                        let signed = member.make(log, set(&number.to_string())).unwrap();
                        Ok::<_, LogError>((vec![signed], ()))
                    })
                    .unwrap();
                }
            });
        }
    });
    let told: Vec<EntryId> = told.lock().unwrap().iter().map(|event| event.entry).collect();
    assert_eq!(told.len(), 2 * usize::from(THREADS) * EACH);
    let admitted: Vec<EntryId> =
        log.read(|log| log.entries().skip(2).map(|(id, _)| id).collect()).unwrap();
    assert_eq!(told, admitted);
    let sum = log.read(|log| log.state().field(object(1), "count")).unwrap();
    assert_eq!(sum, Some(talaria_log::Content::Counter((usize::from(THREADS) * EACH) as i128)));
}
