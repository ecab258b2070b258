//! Deletable values: what a commitment hides, what deleting removes, and attacks on both.

use std::fs;
use std::path::Path;

use talaria_log::{
    Action, Change, CompactStep, Content, DataAction, DraftError, Edit, EntryId, FieldChange,
    Grant, Log, LogError, LogFolder, Maker, Malformed, MemoryReplica, ObjectId, Opening,
    Operations, Outcome, Pattern, Recovered, Refusal, Replica as _, Signed, Signing, Update,
    UpdateError, Value, deletable, read_record, to_records,
};

use crate::files::{create, put_batch};
use crate::people::{
    NOW_MS, Pair, Person, begin, change, grant, grant_to, object, offer, pair, refusal,
};

const SECRET: &str = "the secret that must vanish";

pub(crate) fn opening(text: &str, salt: u8) -> Opening {
    Opening::new(&Value::String(text.to_owned()), [salt; 32])
}

fn commit(opening: &Opening) -> Action {
    let value = Some(Value::Committed(opening.commitment()));
    change(1, "name", FieldChange::Set(value))
}

pub(crate) fn delete(entries: &[&Signed]) -> Action {
    let mut ids: Vec<EntryId> = entries.iter().map(|signed| signed.id).collect();
    ids.sort_unstable();
    change(1, "name", FieldChange::DeleteValues(ids))
}

/// Alice's entry with a deletable value.
fn committed(pair: &mut Pair, opening: &Opening) -> Signed {
    let mut signed = pair.alice.make(&mut pair.log, commit(opening)).unwrap();
    assert!(pair.log.reveal(&signed.id, opening));
    signed.opening = Some(opening.clone());
    signed
}

pub(crate) fn shown(log: &Log) -> Option<Content> {
    log.state().field(object(1), "name")
}

pub(crate) fn text(text: &str) -> Content {
    Content::LastWriter(Value::String(text.to_owned()))
}

/// A node that has the value, one that never had it, and one from which it was deleted have the
/// same state.
#[test]
fn nodes_with_and_without_the_value_agree() {
    let mut pair = pair();
    let opening = opening(SECRET, 1);
    let signed = committed(&mut pair, &opening);
    let bare = Signed { opening: None, ..signed.clone() };
    let (mut with, mut without) = (pair.copy(), pair.copy());
    assert_eq!(offer(&mut with, &[&signed]).outcomes, [Outcome::Added]);
    assert_eq!(offer(&mut without, &[&bare]).outcomes, [Outcome::Added]);
    assert_eq!(shown(&with), Some(text(SECRET)));
    let hidden = Content::LastWriter(Value::Committed(opening.commitment()));
    assert_eq!(shown(&without), Some(hidden));
    assert_eq!(with.state_hash(), without.state_hash());
    let before = with.state_hash();
    let deletion = pair.alice.make(&mut pair.log, delete(&[&signed])).unwrap();
    for log in [&mut with, &mut without] {
        offer(log, &[&deletion]);
        assert_eq!(shown(log), None);
        assert_eq!(log.state_hash(), pair.log.state_hash());
    }
    assert_ne!(with.state_hash(), before);
    // A node that hears of both at once keeps nothing to write to its disk.
    let added = offer(&mut pair.copy(), &[&signed, &deletion]).added;
    assert!(added.len() == 2 && added.iter().all(|signed| signed.opening.is_none()));
}

/// Each kind of field forgets a deleted value, and only that one.
#[test]
fn every_rule_has_deletable_values() {
    let mut pair = pair();
    let value = |salt: u8| Value::Committed(opening(&salt.to_string(), salt).commitment());
    let mut expect = Vec::new();
    for (field, make) in [
        (
            "strict",
            &(|value| FieldChange::Replace { replaced: Vec::new(), value: Some(value) })
                as &dyn Fn(Value) -> FieldChange,
        ),
        ("set", &FieldChange::Add),
        ("list", &|value| {
            let (parent, side) = (EntryId::NONE, talaria_log::Side::Right);
            FieldChange::Insert { parent, side, value }
        }),
    ] {
        for salt in [1, 2] {
            let made = pair.alice.make(&mut pair.log, change(1, field, make(value(salt)))).unwrap();
            assert!(pair.log.reveal(&made.id, &opening(&salt.to_string(), salt)));
            if salt == 1 {
                let gone = FieldChange::DeleteValues(vec![made.id]);
                pair.alice.make(&mut pair.log, change(1, field, gone)).unwrap();
            }
        }
        let left: Vec<String> = match pair.log.state().field(object(1), field).unwrap() {
            Content::Strict(writes) => writes.values().flatten().map(ToString::to_string).collect(),
            Content::Set(elements) => elements.keys().map(ToString::to_string).collect(),
            Content::List(elements) => elements.iter().map(|(_, one)| one.to_string()).collect(),
            other => panic!("{other:?}"),
        };
        expect.push(left);
    }
    assert_eq!(expect, [["2"], ["2"], ["2"]]);
}

#[test]
fn wrong_salt() {
    let mut pair = pair();
    let mut copy = pair.copy();
    let signed = committed(&mut pair, &opening(SECRET, 1));
    for wrong in [opening(SECRET, 2), opening("another value", 1)] {
        let forged = Signed { opening: Some(wrong), ..signed.clone() };
        assert_eq!(refusal(&mut copy, &forged), Refusal::Opening);
    }
    // The entry is not spoiled by what came with it.
    assert_eq!(offer(&mut copy, &[&signed]).outcomes, [Outcome::Added]);
    assert_eq!(shown(&copy), Some(text(SECRET)));
    // No value stands beside an entry that has its own.
    let mut plain = pair.alice.make(&mut pair.log, crate::people::set("plain")).unwrap();
    plain.opening = Some(opening("plain", 1));
    let wanted = Malformed::Field("place of a deletable value");
    assert_eq!(read_record(&plain.to_record()), Err(wanted));
    assert_eq!(copy.offer(vec![plain], NOW_MS).outcomes, [Outcome::Refused(Refusal::Opening)]);
}

/// The limits count values that are not in the entry: they can not be passed by, and not differ
/// between nodes.
#[test]
fn oversized_deletable_value() {
    let mut pair = pair();
    let mut genesis = pair.log.genesis().clone();
    (genesis.limits.value_bytes, genesis.limits.chain_bytes) = (100, 10_000);
    let genesis = begin(&mut pair.alice, genesis);
    let mut log = Log::begin(&genesis).unwrap();
    let of = |bytes: usize| commit(&Opening::new(&Value::Bytes(vec![7; bytes - 1]), [1; 32]));
    let refused = pair.alice.make(&mut log, of(101));
    let wanted = Refusal::TooLarge { bytes: 101, limit: 100 };
    assert!(matches!(refused, Err(DraftError::Refused(refusal)) if refusal == wanted));
    let made = pair.alice.make(&mut log, of(100)).unwrap();
    // The chain ends where its values would be too long, too.
    let mut sum = genesis.bytes.len() + made.bytes.len() + 100;
    let end = loop {
        match pair.alice.make(&mut log, of(100)) {
            Ok(made) => sum += made.bytes.len() + 100,
            Err(error) => break error.to_string(),
        }
    };
    assert!(end.contains("bytes of a chain") && sum > 9_000 && sum <= 10_000, "{end} {sum}");
    // In a record, too.
    let mut signed = committed(&mut pair, &opening(SECRET, 1));
    signed.opening = Some(Opening::new(&Value::Bytes(vec![7; 70_000]), [1; 32]));
    assert!(matches!(read_record(&signed.to_record()), Err(Malformed::Limit { .. })));
}

#[test]
fn deletion_by_an_ungranted_author() {
    let mut pair = pair();
    let signed = committed(&mut pair, &opening(SECRET, 1));
    let mut dave = Person::new(3, 1);
    let narrow = Grant {
        fields: Pattern::new("color*").unwrap(),
        operations: Operations::FIELDS,
        ..grant_to(&dave)
    };
    pair.alice.make(&mut pair.log, Action::Grant(Box::new(narrow))).unwrap();
    let refused = dave.make(&mut pair.log, delete(&[&signed]));
    assert!(matches!(refused, Err(DraftError::Refused(Refusal::NotGranted))), "{refused:?}");
    // The same, signed without asking.
    let allowed = change(1, "color", FieldChange::Set(None));
    let mut entry = dave.draft(&pair.log, allowed);
    entry.action = delete(&[&signed]);
    let forged = dave.sign(entry.clone(), pair.log.id());
    assert_eq!(refusal(&mut pair.log, &forged), Refusal::NotGranted);
    // Under the name of a field that Dave may change.
    entry.action = change(1, "color", FieldChange::DeleteValues(vec![signed.id]));
    let forged = dave.sign(entry, pair.log.id());
    assert_eq!(refusal(&mut pair.log, &forged), Refusal::Reference("a deletable value"));
    assert_eq!(shown(&pair.log), Some(text(SECRET)));
}

/// Whoever copies a commitment into an entry of their own, and deletes that, deletes nothing of the
/// other.
#[test]
fn deletion_of_a_copied_commitment() {
    let mut pair = pair();
    let signed = committed(&mut pair, &opening(SECRET, 1));
    let mut mallory = Person::new(3, 1);
    pair.alice.make(&mut pair.log, grant(&mallory)).unwrap();
    let copied = change(1, "copy", commit_value(&opening(SECRET, 1)));
    let copied = mallory.make(&mut pair.log, copied).unwrap();
    let gone = change(1, "copy", FieldChange::DeleteValues(vec![copied.id]));
    mallory.make(&mut pair.log, gone).unwrap();
    assert_eq!(shown(&pair.log), Some(text(SECRET)));
    assert!(pair.log.state().has_value(&signed.id));
}

fn commit_value(opening: &Opening) -> FieldChange {
    FieldChange::Set(Some(Value::Committed(opening.commitment())))
}

/// A deleted value that somebody sends again does not come back, and a copy in memory does not send
/// it.
#[test]
fn replayed_value_after_its_deletion() {
    let mut pair = pair();
    let signed = committed(&mut pair, &opening(SECRET, 1));
    let deletion = pair.alice.make(&mut pair.log, delete(&[&signed])).unwrap();
    assert_eq!(offer(&mut pair.log, &[&signed]).outcomes, [Outcome::Known]);
    assert_eq!(shown(&pair.log), None);
    assert!(!pair.log.state().has_value(&signed.id));
    let mut replica = MemoryReplica::new(&pair.genesis).unwrap();
    replica.take(vec![pair.grant.clone(), signed.clone()], NOW_MS).unwrap();
    assert!(replica.read(&[2]).unwrap()[0].opening.is_some());
    replica.take(vec![deletion], NOW_MS).unwrap();
    assert!(replica.read(&[2]).unwrap()[0].opening.is_none());
}

/// A deletion whose author is revoked before it does not count. The value is there again where it
/// was not removed.
#[test]
fn deletion_by_a_revoked_author() {
    let mut pair = pair();
    let signed = committed(&mut pair, &opening(SECRET, 1));
    let grant = pair.grant.clone();
    pair.carol.make(&mut pair.log, delete(&[&signed])).unwrap();
    assert_eq!(shown(&pair.log), None);
    pair.alice.make(&mut pair.log, crate::people::revoke(&pair.carol, Vec::new())).unwrap();
    assert_eq!(shown(&pair.log), Some(text(SECRET)));
    assert!(pair.log.entry(&grant.id).is_some());
}

/// An author commits to bytes that are no value, or to another commitment. All nodes take the
/// entry, and none shows a value.
#[test]
fn commitment_to_no_value() {
    let mut pair = pair();
    let inner = opening(SECRET, 1);
    let nested = Opening::new(&Value::Committed(inner.commitment()), [2; 32]);
    let signed = committed(&mut pair, &nested);
    assert!(!pair.log.state().has_value(&signed.id));
    let mut copy = pair.copy();
    assert_eq!(offer(&mut copy, &[&signed]).outcomes, [Outcome::Added]);
    assert_eq!(copy.state_hash(), pair.log.state_hash());
}

/// Records keep values apart: alone, in a whole batch, and for an entry that is taken out of its
/// batch.
#[test]
fn records_carry_values_beside_entries() {
    let mut pair = pair();
    let mut entries = Vec::new();
    for number in 0..4 {
        let action = commit(&opening(SECRET, number));
        let entry = pair.log.draft(pair.alice.chain, action, NOW_MS).unwrap();
        pair.log.append(entry.clone()).unwrap();
        entries.push(entry);
    }
    let mut maker = Maker { chain: pair.alice.chain, key: &mut pair.alice.key };
    let mut signed = maker.sign_batch(entries, pair.log.id(), NOW_MS).unwrap();
    for number in [0, 2] {
        signed[number].opening = Some(opening(SECRET, u8::try_from(number).unwrap()));
    }
    let mut records = Vec::new();
    to_records(&signed, &mut records);
    assert_eq!(records.len(), 1);
    assert_eq!(read_record(&records[0]).unwrap(), signed);
    let one = signed[2].to_record();
    assert_eq!(read_record(&one).unwrap()[0].opening, signed[2].opening);
    for cut in 0..one.len() {
        assert!(read_record(&one[..cut]).is_err(), "{cut}");
    }
    // Without the values, the same entries with the same proof.
    let mut bare = signed.clone();
    bare.iter_mut().for_each(|signed| signed.opening = None);
    let mut without = Vec::new();
    to_records(&bare, &mut without);
    assert_eq!(records[0][records[0].len() - without[0].len()..], without[0]);
    // Twice the same place, or one that is not there.
    let mut twice = records[0].clone();
    let second = 5 + 4 + 32 + 4 + SECRET.len() + 1;
    assert_eq!(twice[second..second + 4], 2_u32.to_be_bytes());
    twice[second..second + 4].copy_from_slice(&0_u32.to_be_bytes());
    assert_eq!(read_record(&twice), Err(Malformed::Order("deletable values")));
    twice[second..second + 4].copy_from_slice(&4_u32.to_be_bytes());
    assert_eq!(read_record(&twice), Err(Malformed::Field("place of a deletable value")));
}

fn maker<T>(person: &mut Person, work: impl FnOnce(&mut Maker<'_>) -> T) -> T {
    work(&mut Maker { chain: person.chain, key: &mut person.key })
}

pub(crate) fn put_deletable(log: &LogFolder, person: &mut Person, field: &str, text: &str) {
    let value = deletable(&Value::String(text.to_owned())).unwrap();
    let edit = Edit::PutDeletable(field.to_owned(), value);
    let update = Update { object: "thing".to_owned(), edit };
    maker(person, |maker| log.put(maker, &[update], Signing::Each, NOW_MS)).unwrap();
}

pub(crate) fn delete_values(
    log: &LogFolder,
    person: &mut Person,
    field: &str,
) -> Result<(), LogError> {
    let edit = Edit::DeleteValues(field.to_owned());
    let update = Update { object: "thing".to_owned(), edit };
    let put = maker(person, |maker| log.put(maker, &[update], Signing::Each, NOW_MS));
    put.map(|_| ()).map_err(|error| error.error)
}

fn get(log: &LogFolder, field: &str) -> Option<Content> {
    log.read(|log| log.state().field(log.find_object("thing").unwrap(), field)).unwrap()
}

/// Whether any file of a log has the secret.
pub(crate) fn is_on_disk(folder: &Path, secret: &str) -> bool {
    let files = [folder.to_owned(), folder.join("segments")].map(|at| fs::read_dir(at).unwrap());
    let files = files.into_iter().flatten().map(|file| file.unwrap().path());
    files.filter(|path| path.is_file()).any(|path| has(&fs::read(path).unwrap(), secret))
}

pub(crate) fn copy_log(from: &Path, to: &Path) {
    fs::create_dir_all(to.join("segments")).unwrap();
    for file in fs::read_dir(from.join("segments")).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), to.join("segments").join(file.file_name())).unwrap();
    }
}

fn export(log: &LogFolder) -> Vec<u8> {
    let mut file = Vec::new();
    log.export(&mut file, Path::new("file")).unwrap();
    file
}

fn has(bytes: &[u8], secret: &str) -> bool {
    bytes.windows(secret.len()).any(|part| part == secret.as_bytes())
}

/// A log with values that stay, a value that is deleted, and one that is deleted after it was
/// overwritten.
fn with_deleted(path: &Path) -> (LogFolder, Person) {
    let (log, mut alice) = create(path, 0);
    put_deletable(&log, &mut alice, "kept", "kept value");
    put_deletable(&log, &mut alice, "gone", SECRET);
    put_deletable(&log, &mut alice, "gone", &SECRET.to_uppercase());
    put_batch(&log, &mut alice, 5);
    assert_eq!(get(&log, "gone"), Some(text(&SECRET.to_uppercase())));
    assert!(has(&export(&log), SECRET));
    delete_values(&log, &mut alice, "gone").unwrap();
    (log, alice)
}

/// After a deletion nothing leaves, after a compaction nothing is on disk, and every entry is
/// proved as before.
#[test]
fn compaction_removes_deleted_values_from_disk() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let (log, mut alice) = with_deleted(&path);
    assert_eq!((get(&log, "gone"), get(&log, "kept")), (None, Some(text("kept value"))));
    let exported = export(&log);
    assert!(!has(&exported, SECRET) && has(&exported, "kept value"));
    assert!(is_on_disk(&path, SECRET) && is_on_disk(&path, &SECRET.to_uppercase()));
    // The index has the values, too. With it, the log is the same.
    log.write_index().unwrap();
    fs::copy(path.join("index"), path.join("index.new")).unwrap();
    assert!(has(&fs::read(path.join("index")).unwrap(), SECRET));
    let (id, bytes) = (log.id(), log.bytes());
    drop(log);
    let log = LogFolder::open(&path).unwrap();
    assert_eq!((log.id(), log.bytes()), (id, bytes));
    assert_eq!((get(&log, "gone"), get(&log, "kept")), (None, Some(text("kept value"))));
    let (before, state) = (log.bytes(), log.read(Log::state_hash).unwrap());
    let ids: Vec<EntryId> = log.read(|log| log.entries().map(|(id, _)| id).collect()).unwrap();
    let compacted = log.compact(|_| ()).unwrap();
    assert_eq!((compacted.values, compacted.segments), (2, 1));
    assert_eq!(before - log.bytes(), compacted.bytes);
    assert!(compacted.bytes > 2 * SECRET.len() as u64);
    assert!(!is_on_disk(&path, SECRET) && !is_on_disk(&path, &SECRET.to_uppercase()));
    assert!(is_on_disk(&path, "kept value"));
    // The same entries with their proofs, in memory, by their places, and after a restart.
    let check = |log: &LogFolder| {
        assert_eq!(log.read(Log::state_hash).unwrap(), state);
        let verified = log.verify().unwrap();
        assert_eq!((verified.failed.len(), verified.state_hash), (0, state));
        assert_eq!(verified.entries, ids.len() as u64);
        assert!(ids.iter().all(|id| log.signed(id).unwrap().unwrap().id == *id));
        assert_eq!((get(log, "gone"), get(log, "kept")), (None, Some(text("kept value"))));
        assert_eq!(export(log), exported);
    };
    check(&log);
    assert_eq!(log.compact(|_| ()).unwrap().values, 0);
    log.write_index().unwrap();
    assert!(!is_on_disk(&path, SECRET));
    let index = fs::read(path.join("index")).unwrap();
    drop(log);
    let log = LogFolder::open(&path).unwrap();
    assert_eq!(log.recovered(), Recovered::Clean);
    assert_eq!(fs::read(path.join("index")).unwrap(), index, "the index fits the new segments");
    check(&log);
    // The log goes on.
    alice.chain.instance = log.instance();
    put_deletable(&log, &mut alice, "gone", "again");
    drop(log);
    let log = LogFolder::open(&path).unwrap();
    assert_eq!(get(&log, "gone"), Some(text("again")));
    // Another node gets what is kept, and comes to the same state.
    let other = folder.path().join("other");
    let (other, imported) =
        LogFolder::receive(&other, &mut &export(&log)[..], "file", None, NOW_MS).unwrap();
    assert!(imported.is_complete());
    assert_eq!(other.read(Log::state_hash).unwrap(), log.read(Log::state_hash).unwrap());
    assert_eq!(get(&other, "kept"), Some(text("kept value")));
    let again = delete_values(&other, &mut alice, "nothing");
    let wanted = LogError::Update(UpdateError::NoDeletable("nothing".to_owned()));
    assert_eq!(again.unwrap_err().to_string(), wanted.to_string());
}

/// A crash after any step of a compaction leaves a whole log, and the next compaction ends it. The
/// new form of a segment can be cut off.
#[test]
fn kill_at_each_step_of_a_compaction() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let (log, mut alice) = with_deleted(&path);
    // More than one segment, with deleted values in the last one, too.
    let long = "x".repeat(60_000);
    for number in 0..300 {
        put_deletable(&log, &mut alice, &format!("long-{number}"), &long);
    }
    put_deletable(&log, &mut alice, "late", SECRET);
    delete_values(&log, &mut alice, "late").unwrap();
    let state = log.read(Log::state_hash).unwrap();
    let mut steps = Vec::new();
    let snapshot = |name: String| {
        let to = folder.path().join(name);
        copy_log(&path, &to);
        to
    };
    log.compact(|step| steps.push((step, snapshot(format!("step-{}", steps.len()))))).unwrap();
    let told: Vec<CompactStep> = steps.iter().map(|(step, _)| *step).collect();
    let wanted = [0, 1].map(|number| [CompactStep::Written(number), CompactStep::Replaced(number)]);
    assert_eq!(told, wanted.concat());
    // Nothing of the new form has reached the disk, half of it, and all but its end.
    for (number, cut) in [0, 1000, 70_000].into_iter().enumerate() {
        let to = folder.path().join(format!("cut-{number}"));
        copy_log(&steps[0].1, &to);
        let file = fs::OpenOptions::new().write(true).open(to.join("segments/new")).unwrap();
        file.set_len(cut).unwrap();
        steps.push((steps[0].0, to));
    }
    for (step, copy) in steps {
        let log = LogFolder::open(&copy).unwrap();
        assert_eq!(log.recovered(), Recovered::Clean, "{step:?}");
        assert_eq!(log.read(Log::state_hash).unwrap(), state);
        assert_eq!(log.verify().unwrap().failed, []);
        assert!(!copy.join("segments/new").exists());
        log.compact(|_| ()).unwrap();
        assert!(!is_on_disk(&copy, SECRET), "{step:?}");
        let mut alice = Person::new(0, 1);
        alice.chain.instance = log.instance();
        put_deletable(&log, &mut alice, "after", "after");
        drop(log);
        let log = LogFolder::open(&copy).unwrap();
        assert_eq!(log.verify().unwrap().failed, []);
        assert_eq!((get(&log, "after"), get(&log, "late")), (Some(text("after")), None));
    }
}

/// Threads read and write while the log is compacted.
#[test]
fn reading_and_writing_during_a_compaction() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let (log, mut alice) = create(&path, 0);
    let ids: Vec<EntryId> = log.read(|log| log.entries().map(|(id, _)| id).collect()).unwrap();
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            for _ in 0..300 {
                assert!(ids.iter().all(|id| log.signed(id).unwrap().is_some()));
                let known: Vec<EntryId> =
                    log.read(|log| log.entries().map(|(id, _)| id).collect()).unwrap();
                // Entries that are not on disk yet are none.
                known.iter().for_each(|id| drop(log.signed(id).unwrap()));
            }
        });
        for number in 0..20 {
            put_deletable(&log, &mut alice, "field", &format!("{SECRET} {number}"));
            delete_values(&log, &mut alice, "field").unwrap();
            assert_eq!(log.compact(|_| ()).unwrap().values, 1);
        }
        reader.join().unwrap();
    });
    assert!(!is_on_disk(&path, SECRET));
    assert_eq!(log.verify().unwrap().failed, []);
}

/// An object whose identity nobody has created takes deletable values, too.
#[test]
fn deletion_without_a_created_object() {
    let mut pair = pair();
    let object = ObjectId([9; 32]);
    let opening = opening(SECRET, 1);
    let field = |change| {
        Action::Data(DataAction { object, change: Change::Field("name".to_owned(), change) })
    };
    let made = pair.alice.make(&mut pair.log, field(commit_value(&opening))).unwrap();
    assert_eq!(pair.log.state().object(object).unwrap().fields, 1);
    let gone = field(FieldChange::DeleteValues(vec![made.id]));
    pair.alice.make(&mut pair.log, gone).unwrap();
    assert_eq!(pair.log.state().object(object), None);
}
