//! The index of a folder: it makes opening fast, and never says anything that the segments do not
//! say.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use talaria_log::{
    Action, Edit, EntryId, FieldChange, Log, LogError, LogFolder, Maker, Revocation, Side, Signing,
    Target, Update, Value,
};

use crate::files::{create, put, put_batch};
use crate::people::{NOW_MS, Person, change, grant, name, object, set};

/// All that a log says.
fn said(log: &Log) -> String {
    let mut said = format!("{:?} {:?} {}\n", log.state_hash(), log.heads(), log.len());
    for (id, entry) in log.entries() {
        let standing = log.standing(&id);
        writeln!(said, "{id} {standing:?} {entry:?}").unwrap();
    }
    for info in log.state().objects() {
        let history = log.history(info.id, None);
        let fields: Vec<_> = log.state().fields(info.id).collect();
        let field = fields.first().map(|(name, _)| log.history(info.id, Some(name)));
        writeln!(said, "{info:?} {fields:?} {history:?} {field:?}").unwrap();
    }
    let grants: Vec<_> = log.grants().map(|(id, _, is_usable)| (id, is_usable)).collect();
    let nodes: Vec<_> = log.nodes().collect();
    writeln!(said, "{grants:?} {:?} {nodes:?} {:?}", log.forks(), log.chains().count()).unwrap();
    said
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to.join("segments")).unwrap();
    for part in [from.to_owned(), from.join("segments")] {
        for file in fs::read_dir(part).unwrap() {
            let path = file.unwrap().path();
            if path.is_file() {
                fs::copy(&path, to.join(path.strip_prefix(from).unwrap())).unwrap();
            }
        }
    }
}

fn index(folder: &Path) -> PathBuf {
    folder.join("index")
}

fn read(folder: &Path) -> String {
    LogFolder::open(folder).unwrap().read(said).unwrap()
}

/// A log with every merge rule, a second author, a fork and a revocation.
fn log_with_everything(folder: &Path) -> (LogFolder, Person) {
    let (log, mut alice) = create(folder, 0);
    let mut bob = Person::new(1, 7);
    let mut twin = Person::new(1, 7);
    let add = |person: &mut Person, action: Action| -> EntryId {
        log.append(|log| {
            let made = person.make(log, action).unwrap();
            Ok::<_, LogError>((vec![made.clone()], made.id))
        })
        .unwrap()
    };
    let text = |text: &str| Value::String(text.to_owned());
    add(&mut alice, grant(&bob));
    let first = add(&mut bob, change(2, "set", FieldChange::Add(text("a"))));
    add(&mut bob, change(2, "set", FieldChange::Add(Value::Integer(-7))));
    add(&mut alice, change(2, "set", FieldChange::Remove(vec![first])));
    for number in [5, -3] {
        add(&mut alice, change(2, "count", FieldChange::Count(number)));
    }
    let strict = |replaced, value| change(3, "strict", FieldChange::Replace { replaced, value });
    let old = add(&mut bob, strict(Vec::new(), Some(text("old"))));
    add(&mut alice, strict(vec![old], Some(Value::Boolean(true))));
    add(&mut bob, strict(Vec::new(), Some(text("beside"))));
    let insert =
        |parent, side, value| change(3, "list", FieldChange::Insert { parent, side, value });
    let one = add(&mut bob, insert(EntryId::NONE, Side::Right, text("one")));
    let two = add(&mut alice, insert(one, Side::Right, text("two")));
    add(&mut bob, insert(one, Side::Left, text("zero")));
    add(&mut alice, change(3, "list", FieldChange::Erase(two)));
    add(&mut alice, change(4, "name", FieldChange::Set(Some(text("gone")))));
    add(&mut alice, change(4, "name", FieldChange::Set(None)));
    let updates = |edit: fn(usize) -> Edit| -> Vec<Update> {
        (0..4).map(|at| Update { object: format!("server-{}", at % 2), edit: edit(at) }).collect()
    };
    let mut maker = Maker { chain: alice.chain, key: &mut alice.key };
    let colors = updates(|at| Edit::Put("color".into(), Value::Integer(at.try_into().unwrap())));
    log.put(&mut maker, &colors, Signing::Together, NOW_MS).unwrap();
    let delete = [Update { object: "server-1".into(), edit: Edit::Delete }];
    log.put(&mut maker, &delete, Signing::Each, NOW_MS).unwrap();
    // Bob's second machine does not know what the first one wrote.
    let draft = |person: &mut Person, text: &str| {
        let entry = log.read(|log| person.draft(log, set(text))).unwrap();
        person.sign(entry, log.id())
    };
    let (left, right) = (draft(&mut bob, "left"), draft(&mut twin, "right"));
    log.append(|log| {
        let offered = log.offer(vec![left, right], NOW_MS);
        assert_eq!(offered.added.len(), 2);
        Ok::<_, LogError>((offered.added, ()))
    })
    .unwrap();
    put_batch(&log, &mut alice, 50);
    let target = Target::Author(bob.name());
    let heads = vec![old];
    let revocation = Revocation { target, reason: 0, since: 0, heads };
    add(&mut alice, Action::Revoke(revocation));
    assert!(log.read(|log| log.forks().len() == 1).unwrap());
    (log, alice)
}

/// Opens the folder with its index, and a copy without.
fn assert_same_without_index(folder: &Path) -> String {
    let plain = tempfile::tempdir().unwrap();
    copy(folder, plain.path());
    fs::remove_file(index(plain.path())).unwrap();
    let with = read(folder);
    assert_eq!(with, read(plain.path()));
    assert!(index(folder).exists());
    with
}

#[test]
fn a_log_from_its_index_is_that_of_the_segments() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let (log, mut alice) = log_with_everything(&path);
    let before = log.read(said).unwrap();
    log.write_index().unwrap();
    drop(log);
    assert_eq!(assert_same_without_index(&path), before);
    // It goes on from there: with new entries, and with a change of mind about old ones.
    let log = LogFolder::open(&path).unwrap();
    put(&log, &mut alice, "behind the index");
    drop(log);
    assert_same_without_index(&path);
    let log = LogFolder::open(&path).unwrap();
    let left = log.read(|log| log.forks()[0].entries[0]).unwrap();
    let mut maker = Maker { chain: alice.chain, key: &mut alice.key };
    log.put_action(&mut maker, Action::Choose(left), NOW_MS).unwrap();
    log.put(&mut maker, &[], Signing::Each, NOW_MS).unwrap();
    let chosen = log.read(said).unwrap();
    assert_eq!(log.verify().unwrap().state_hash, log.read(Log::state_hash).unwrap());
    drop(log);
    assert_eq!(assert_same_without_index(&path), chosen);
}

/// The entries before the index are not read when the log is opened, which is what makes it fast.
#[test]
fn opening_reads_only_what_is_behind_the_index() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let (log, mut alice) = create(&path, 0);
    let early = put(&log, &mut alice, "early");
    put(&log, &mut alice, "late");
    log.write_index().unwrap();
    drop(log);
    let segment = path.join("segments/00000000");
    let bytes = fs::read(&segment).unwrap();
    let at = bytes.windows(5).position(|five| five == b"early").unwrap();
    let file = fs::OpenOptions::new().write(true).open(&segment).unwrap();
    file.write_all_at(b"forge", at as u64).unwrap();
    let log = LogFolder::open(&path).unwrap();
    assert_eq!(log.read(name).unwrap().as_deref(), Some("late"));
    // It is found where it matters: when the entry is read, and by verification.
    let damaged = |result: Result<(), LogError>| {
        assert!(matches!(result, Err(LogError::Damaged { .. })), "{result:?}");
    };
    damaged(log.read(|log| assert!(log.entry(&early.id).is_none())));
    damaged(log.read(|log| assert_eq!(log.history(object(1), None).len(), 1)));
    damaged(log.signed(&early.id).map(|_| ()));
    damaged(log.verify().map(|_| ()));
    assert_eq!(log.read(name).unwrap().as_deref(), Some("late"));
    drop(log);
    fs::remove_file(index(&path)).unwrap();
    damaged(LogFolder::open(&path).map(|_| ()));
}

/// A revocation needs the entries of the fields that it changes. If one cannot be read, nothing is
/// decided without it.
#[test]
fn a_revocation_that_needs_a_damaged_entry_fails() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let (log, mut alice) = create(&path, 0);
    let mut bob = Person::new(1, 7);
    let mut maker = Maker { chain: alice.chain, key: &mut alice.key };
    log.put_action(&mut maker, grant(&bob), NOW_MS).unwrap();
    put(&log, &mut bob, "early");
    put(&log, &mut alice, "late");
    let segment = path.join("segments/00000000");
    let bytes = fs::read(&segment).unwrap();
    let at = bytes.windows(5).position(|five| five == b"early").unwrap();
    let file = fs::OpenOptions::new().write(true).open(&segment).unwrap();
    file.write_all_at(b"forge", at as u64).unwrap();
    let target = Target::Author(bob.name());
    let revocation = Revocation { target, reason: 0, since: 0, heads: Vec::new() };
    let mut maker = Maker { chain: alice.chain, key: &mut alice.key };
    let revoked = log.put_action(&mut maker, Action::Revoke(revocation), NOW_MS);
    assert!(matches!(revoked, Err(LogError::Damaged { .. })), "{revoked:?}");
    let later = log.put_action(&mut maker, grant(&bob), NOW_MS);
    assert!(matches!(later, Err(LogError::Failed)), "{later:?}");
}

#[test]
fn a_damaged_or_cut_index_is_made_again_from_the_segments() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let (log, _) = log_with_everything(&path);
    log.write_index().unwrap();
    drop(log);
    let wanted = read(&path);
    let good = fs::read(index(&path)).unwrap();
    let flipped = (0..good.len()).step_by(good.len() / 40).map(|at| {
        let mut bytes = good.clone();
        bytes[at] ^= 0x10;
        bytes
    });
    let cut = (0..good.len()).step_by(good.len() / 20).map(|at| good[..at].to_vec());
    let longer = [[&good[..], &good].concat(), [&good[..], b"\0"].concat()];
    for bytes in flipped.chain(cut).chain(longer) {
        fs::write(index(&path), bytes).unwrap();
        assert_eq!(read(&path), wanted);
        assert!(!index(&path).exists(), "a wrong index is removed");
    }
    // A crash between the writing and the renaming leaves a part of the new one behind.
    fs::write(index(&path), &good).unwrap();
    fs::write(path.join("index.new"), &good[..good.len() / 2]).unwrap();
    assert_eq!(read(&path), wanted);
    let log = LogFolder::open(&path).unwrap();
    log.write_index().unwrap();
    assert!(!path.join("index.new").exists());
}

/// The index of another log, and one that is ahead of segments which were set back.
#[test]
fn an_index_of_other_segments_is_not_used() {
    let folder = tempfile::tempdir().unwrap();
    let [path, old, other] = ["log", "old", "other"].map(|name| folder.path().join(name));
    let (log, mut alice) = create(&path, 0);
    put(&log, &mut alice, "one");
    drop(log);
    copy(&path, &old);
    let wanted = read(&old);
    let log = LogFolder::open(&path).unwrap();
    put(&log, &mut alice, "two");
    log.write_index().unwrap();
    drop(log);
    // The segments are those of before, cut at a frame; then they go on in another way, as long as
    // before.
    fs::copy(index(&path), index(&old)).unwrap();
    assert_eq!(read(&old), wanted);
    assert!(!index(&old).exists());
    let log = LogFolder::open(&old).unwrap();
    put(&log, &mut alice, "TWO");
    drop(log);
    let wanted = read(&old);
    fs::copy(index(&path), index(&old)).unwrap();
    assert_eq!(read(&old), wanted);
    assert_ne!(wanted, read(&path));

    let (log, mut carol) = create(&other, 2);
    put(&log, &mut carol, "one");
    put(&log, &mut carol, "two");
    drop(log);
    let wanted = read(&other);
    fs::copy(index(&path), index(&other)).unwrap();
    assert_eq!(read(&other), wanted);
    assert!(!index(&other).exists());
}

/// A log that grows gets an index by itself, and another one only when it has grown enough.
#[test]
fn an_index_is_written_when_the_log_has_grown() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let (log, mut alice) = create(&path, 0);
    put_batch(&log, &mut alice, 8000);
    assert!(!index(&path).exists());
    put_batch(&log, &mut alice, 300);
    let first = fs::read(index(&path)).unwrap();
    put_batch(&log, &mut alice, 300);
    drop(log);
    assert_eq!(fs::read(index(&path)).unwrap(), first);
    assert_same_without_index(&path);
}

/// A full disk, or a folder in the place of the file: the log goes on without an index.
#[test]
fn an_index_that_cannot_be_written_harms_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let (log, mut alice) = create(&path, 0);
    fs::create_dir(path.join("index.new")).unwrap();
    put(&log, &mut alice, "one");
    assert!(matches!(log.write_index(), Err(LogError::Io { .. })));
    put(&log, &mut alice, "two");
    drop(log);
    let log = LogFolder::open(&path).unwrap();
    assert_eq!(log.read(name).unwrap().as_deref(), Some("two"));
}
