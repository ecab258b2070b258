//! Encrypted fields: what readers see, what others see, and attacks.
//!
//! The bytes inside the ciphertext are made here from the document of the format, and not by the
//! code that is tested.

use std::path::Path;
use std::sync::{Arc, LazyLock, Mutex};

use talaria_log::{
    Action, Change, Content, DataAction, DraftError, Edit, Encrypted, Encryption, EntryId,
    EpochKeys, FieldChange, Grant, KeyName, Log, LogError, LogFolder, Maker, Malformed, ObjectId,
    Opening, Operations, Outcome, Pattern, PutError, READERS_MAX, Refusal, Signed, Signing,
    Unreadable, Update, UpdateError, Value, WrappedKey, deletable,
};
use talaria_message::make::{GenerateOptions, KeyProfile, Protection, generate};
use talaria_message::openpgp::Cert;
use talaria_message::{
    Aead, Compression, EncryptOptions, Opener, Profile, Recipients, Rules, Sealer, Secrets,
    Verifier, decryption_keys,
};

use crate::deletion::is_on_disk;
use crate::files::create;
use crate::people::{
    NOW, NOW_MS, Pair, Person, begin, change, genesis_of, grant_to, object, offer, pair, refusal,
    revoke,
};

const SECRET: &str = "a salary that few people know";

/// Three readers: two with keys of version 6, one with version 4.
static READERS: LazyLock<Vec<Cert>> = LazyLock::new(|| {
    let make = |number: usize| {
        let mut options = GenerateOptions::default();
        options.user_ids = vec![format!("Reader {number} <reader-{number}@example.org>")];
        options.profile = if number == 2 { KeyProfile::Rfc4880 } else { KeyProfile::Rfc9580 };
        generate(&options, &Protection::Unprotected, NOW - 1000).unwrap().cert
    };
    (0..3).map(make).collect()
});

fn recipients(readers: &[usize]) -> Recipients {
    let mut recipients = Recipients::default();
    for &reader in readers {
        recipients.add(&READERS[reader], Rules::default(), &mut |_| None, NOW).unwrap();
    }
    recipients
}

fn secrets(cert: &Cert) -> Secrets {
    Secrets { keys: decryption_keys([cert], |_, _| None), ..Secrets::default() }
}

fn keys(reader: usize) -> EpochKeys {
    EpochKeys::new(secrets(&READERS[reader]))
}

fn text(text: &str) -> Value {
    Value::String(text.to_owned())
}

fn pattern(text: &str) -> Pattern {
    Pattern::new(text).unwrap()
}

/// The place of something encrypted, as it claims inside.
#[derive(Clone, Copy)]
struct Place<'a> {
    log: EntryId,
    object: ObjectId,
    /// The field of a value, or the pattern of an epoch.
    field: &'a str,
    author: KeyName,
}

impl Place<'_> {
    fn bytes(&self, magic: &[u8]) -> Vec<u8> {
        let length = u16::try_from(self.field.len()).unwrap().to_be_bytes();
        let author = self.author.to_bytes();
        let parts: [&[u8]; 6] =
            [magic, &self.log.0, &self.object.0, &length, self.field.as_bytes(), &author];
        parts.concat()
    }

    fn epoch(&self, key: &[u8]) -> Vec<u8> {
        [&self.bytes(b"TLGK\x01"), key].concat()
    }

    fn value(&self, epoch: EntryId, value: &Value) -> Vec<u8> {
        let mut bytes = self.bytes(b"TLGV\x01");
        bytes.extend(epoch.0);
        value.write(&mut bytes);
        bytes
    }
}

const KEY: [u8; 32] = [7; 32];

fn sealed(content: &[u8], readers: &[usize]) -> Vec<u8> {
    Sealer::new(&recipients(readers), EncryptOptions::default()).unwrap().seal(content).unwrap()
}

fn wrapped(content: &[u8], readers: &[usize]) -> WrappedKey {
    WrappedKey::new(talaria_cert::sha256(&[content]), sealed(content, readers)).unwrap()
}

fn begins(number: u8, fields: &str, key: WrappedKey) -> Action {
    let change = Change::Encrypt(pattern(fields), Box::new(key));
    Action::Data(DataAction { object: object(number), change })
}

/// Somebody begins an epoch of fields of an object with the key [`KEY`], for the first reader.
fn epoch(log: &mut Log, by: &mut Person, number: u8, fields: &str) -> Signed {
    let place = Place { log: log.id(), object: object(number), field: fields, author: by.name() };
    by.make(log, begins(number, fields, wrapped(&place.epoch(&KEY), &[0]))).unwrap()
}

fn encrypted(plain: &[u8], epoch: EntryId) -> Value {
    let packet = Sealer::with_session_key(&KEY).seal(plain).unwrap();
    Value::Encrypted(Encrypted::new(epoch, packet).unwrap())
}

fn set(number: u8, field: &str, value: Value) -> Action {
    change(number, field, FieldChange::Set(Some(value)))
}

/// The reason why the first reader cannot read a field.
fn why(log: &Log, number: u8, field: &str) -> Unreadable {
    match keys(0).field(log, object(number), field) {
        Some(Content::LastWriter(Value::Encrypted(Encrypted { why: Some(why), .. }))) => why,
        other => panic!("{other:?}"),
    }
}

fn refused(made: Result<Signed, DraftError>) -> Refusal {
    match made {
        Err(DraftError::Refused(refusal)) => refusal,
        other => panic!("{other:?}"),
    }
}

// The folder, as people use it.

fn maker<T>(person: &mut Person, work: impl FnOnce(&mut Maker<'_>) -> T) -> T {
    work(&mut Maker { chain: person.chain, key: &mut person.key })
}

fn begin_epoch(log: &LogFolder, by: &mut Person, fields: &str, readers: &[usize]) -> EntryId {
    let (fields, readers) = (pattern(fields), recipients(readers));
    maker(by, |maker| log.begin_epoch(maker, "thing", &fields, &readers, NOW_MS)).unwrap()
}

fn put(
    log: &LogFolder,
    by: &mut Person,
    edit: Edit,
    keys: &EpochKeys,
) -> Result<Vec<EntryId>, PutError> {
    let update = Update { object: "thing".to_owned(), edit };
    maker(by, |maker| log.put_with(maker, &[update], Signing::Each, NOW_MS, keys))
}

fn put_text(log: &LogFolder, by: &mut Person, field: &str, secret: &str, reader: usize) {
    put(log, by, Edit::Put(field.to_owned(), text(secret)), &keys(reader)).unwrap();
}

fn seen(log: &LogFolder, field: &str, keys: &EpochKeys) -> Option<Content> {
    log.read(|log| keys.field(log, log.find_object("thing").unwrap(), field)).unwrap()
}

fn last(value: &str) -> Content {
    Content::LastWriter(text(value))
}

fn hidden(log: &LogFolder, field: &str, keys: &EpochKeys) -> Unreadable {
    match seen(log, field, keys) {
        Some(Content::LastWriter(Value::Encrypted(Encrypted { why: Some(why), .. }))) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn readers_see_what_others_do_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let (log, mut alice) = create(&path, 0);
    // One reader has a key of version 4, so the message has the form that GnuPG reads.
    begin_epoch(&log, &mut alice, "salary*", &[0, 2]);
    put_text(&log, &mut alice, "salary", SECRET, 0);
    put_text(&log, &mut alice, "color", "red", 0);
    for reader in [0, 2] {
        assert_eq!(seen(&log, "salary", &keys(reader)), Some(last(SECRET)));
    }
    assert_eq!(hidden(&log, "salary", &keys(1)), Unreadable::NoKey { readers: 2 });
    assert_eq!(hidden(&log, "salary", &EpochKeys::default()), Unreadable::NoKey { readers: 2 });
    assert_eq!(seen(&log, "color", &EpochKeys::default()), Some(last("red")));
    assert!(!is_on_disk(&path, SECRET) && is_on_disk(&path, "red"));
    assert_eq!(log.verify().unwrap().failed, []);
}

/// The log is opened from its index and from its segments, and knows the epochs each time.
#[test]
fn epochs_come_back_with_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let (log, mut alice) = create(&path, 0);
    let first = begin_epoch(&log, &mut alice, "a*", &[0]);
    let second = begin_epoch(&log, &mut alice, "b", &[1]);
    put_text(&log, &mut alice, "a", SECRET, 0);
    let fields = pattern("b");
    maker(&mut alice, |maker| log.stop_encrypting(maker, "thing", &fields, NOW_MS)).unwrap();
    let of = |log: &LogFolder| {
        log.read(|log| {
            let thing = log.find_object("thing").unwrap();
            let state = log.state();
            let epochs: Vec<EntryId> = state.epochs(None).map(|epoch| epoch.id).collect();
            (["a", "ab", "b", "c"].map(|field| state.encryption(thing, field)), epochs)
        })
        .unwrap()
    };
    let (a, none) = (Encryption::Epoch(first), Encryption::None);
    let before = of(&log);
    assert_eq!(before.0, [a, a, none, none]);
    assert_eq!(before.1[..2], [first, second]);
    log.write_index().unwrap();
    let hash = log.read(Log::state_hash).unwrap();
    drop(log);
    for has_index in [true, false] {
        assert_eq!(path.join("index").exists(), has_index);
        let log = LogFolder::open(&path).unwrap();
        assert_eq!(of(&log), before);
        assert_eq!(log.read(Log::state_hash).unwrap(), hash);
        assert_eq!(seen(&log, "a", &keys(0)), Some(last(SECRET)));
        drop(log);
        if has_index {
            std::fs::remove_file(path.join("index")).unwrap();
        }
    }
}

#[test]
fn every_rule_has_encrypted_values() {
    let folder = tempfile::tempdir().unwrap();
    let (log, mut alice) = create(&folder.path().join("log"), 0);
    begin_epoch(&log, &mut alice, "*", &[0]);
    for field in ["last", "strict", "set", "list"] {
        for value in ["one", "two", "one"] {
            put_text(&log, &mut alice, field, value, 0);
        }
    }
    let show = |field: &str| match seen(&log, field, &keys(0)).unwrap() {
        Content::LastWriter(value) => vec![value],
        Content::Strict(writes) => writes.into_values().flatten().collect(),
        Content::Set(elements) => elements.into_keys().collect(),
        Content::List(elements) => elements.into_iter().map(|(_, value)| value).collect(),
        other @ Content::Counter(_) => panic!("{other:?}"),
    };
    assert_eq!(show("last"), [text("one")]);
    assert_eq!(show("strict"), [text("one")]);
    assert_eq!(show("set"), [text("one"), text("two")]);
    assert_eq!(show("list"), [text("one"), text("two"), text("one")]);
}

#[test]
fn elements_are_removed_by_what_the_reader_sees() {
    let folder = tempfile::tempdir().unwrap();
    let (log, mut alice) = create(&folder.path().join("log"), 0);
    begin_epoch(&log, &mut alice, "*", &[0]);
    for field in ["set", "list"] {
        for value in ["one", "two", "one"] {
            put_text(&log, &mut alice, field, value, 0);
        }
        let edit = Edit::Remove(field.to_owned(), Some(text("one")));
        assert_eq!(
            put(&log, &mut alice, edit, &keys(0)).unwrap().len(),
            1 + usize::from(field == "list")
        );
    }
    assert!(matches!(seen(&log, "set", &keys(0)),
        Some(Content::Set(left)) if left.keys().eq([&text("two")])));
    assert!(matches!(seen(&log, "list", &keys(0)),
        Some(Content::List(left)) if left.len() == 1 && left[0].1 == text("two")));
}

#[test]
fn counters_are_not_encrypted() {
    let folder = tempfile::tempdir().unwrap();
    let (log, mut alice) = create(&folder.path().join("log"), 0);
    let (fields, readers) = (pattern("count"), recipients(&[0]));
    let begun =
        maker(&mut alice, |maker| log.begin_epoch(maker, "thing", &fields, &readers, NOW_MS));
    let wanted = || UpdateError::EncryptedCounter("count".to_owned());
    assert!(matches!(begun, Err(LogError::Update(error)) if error == wanted()));
    begin_epoch(&log, &mut alice, "*", &[0]);
    let edit = Edit::Put("count".to_owned(), Value::Integer(1));
    let failed = put(&log, &mut alice, edit, &keys(0)).unwrap_err().error;
    assert!(matches!(failed, LogError::Update(error) if error == wanted()));
}

#[test]
fn a_writer_who_is_no_reader_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let (log, mut alice) = create(&path, 0);
    begin_epoch(&log, &mut alice, "salary", &[1]);
    let before = log.read(Log::len).unwrap();
    let edits = || {
        let value = deletable(&text(SECRET)).unwrap();
        [
            Edit::Put("salary".to_owned(), text(SECRET)),
            Edit::PutDeletable("salary".to_owned(), value),
        ]
    };
    let why = Unreadable::NoKey { readers: 1 };
    let wanted = || UpdateError::NotReader { field: "salary".to_owned(), why: why.clone() };
    for keys in [keys(0), EpochKeys::default()] {
        for edit in edits() {
            let failed = put(&log, &mut alice, edit, &keys).unwrap_err().error;
            assert!(matches!(failed, LogError::Update(error) if error == wanted()));
        }
    }
    // Programs that know nothing of encryption get the same error.
    for edit in edits() {
        let update = Update { object: "thing".to_owned(), edit };
        let failed = maker(&mut alice, |maker| {
            log.put(maker, std::slice::from_ref(&update), Signing::Each, NOW_MS)
        });
        assert!(matches!(failed.unwrap_err().error, LogError::Update(error) if error == wanted()));
        let operations = log.read(|log| log.operations(alice.name(), &update)).unwrap();
        assert_eq!(operations.unwrap_err(), wanted());
    }
    assert_eq!(log.read(Log::len).unwrap(), before);
    assert!(!is_on_disk(&path, SECRET));
    // Removing a value needs no key.
    put_text(&log, &mut alice, "salary", SECRET, 1);
    put(&log, &mut alice, Edit::Remove("salary".to_owned(), None), &EpochKeys::default()).unwrap();
    assert_eq!(seen(&log, "salary", &keys(1)), None);
}

#[test]
fn a_removed_reader_keeps_old_values_and_gets_no_new_ones() {
    let folder = tempfile::tempdir().unwrap();
    let (log, mut alice) = create(&folder.path().join("log"), 0);
    begin_epoch(&log, &mut alice, "s*", &[0, 1]);
    put_text(&log, &mut alice, "s-old", "old", 1);
    begin_epoch(&log, &mut alice, "s*", &[0]);
    put_text(&log, &mut alice, "s-new", "new", 0);
    let removed = keys(1);
    assert_eq!(seen(&log, "s-old", &removed), Some(last("old")));
    assert_eq!(hidden(&log, "s-new", &removed), Unreadable::NoKey { readers: 1 });
    let edit = Edit::Put("s-new".to_owned(), text("mine"));
    assert!(put(&log, &mut alice, edit, &removed).is_err());
    let stays = keys(0);
    assert_eq!(seen(&log, "s-old", &stays), Some(last("old")));
    assert_eq!(seen(&log, "s-new", &stays), Some(last("new")));
}

#[test]
fn an_encrypted_value_can_be_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let (log, mut alice) = create(&path, 0);
    begin_epoch(&log, &mut alice, "salary", &[0]);
    let value = deletable(&text(SECRET)).unwrap();
    put(&log, &mut alice, Edit::PutDeletable("salary".to_owned(), value), &keys(0)).unwrap();
    assert_eq!(seen(&log, "salary", &keys(0)), Some(last(SECRET)));
    assert_eq!(hidden(&log, "salary", &keys(1)), Unreadable::NoKey { readers: 1 });
    assert!(!is_on_disk(&path, SECRET));
    drop(log);
    let log = LogFolder::open(&path).unwrap();
    assert_eq!(seen(&log, "salary", &keys(0)), Some(last(SECRET)));
    put(&log, &mut alice, Edit::DeleteValues("salary".to_owned()), &EpochKeys::default()).unwrap();
    assert_eq!(seen(&log, "salary", &keys(0)), None);
    assert_eq!(log.compact(|_| ()).unwrap().values, 1);
    assert_eq!(log.verify().unwrap().failed, []);
}

#[test]
fn without_an_epoch_that_counts_nothing_is_written_as_plaintext() {
    let mut pair = pair();
    let Pair { alice, carol, log, .. } = &mut pair;
    let put = |log: &Log, by: &Person, keys: &EpochKeys| {
        let edit = Edit::Put("salary".to_owned(), text(SECRET));
        let update = Update { object: object(1).to_string(), edit };
        log.operations_with(by.name(), &update, keys).map(|(mut made, _)| made.remove(0))
    };
    let of_alice = epoch(log, alice, 1, "salary");
    let of_carol = epoch(log, carol, 1, "s*");
    let encryption = |log: &Log| log.state().encryption(object(1), "salary");
    assert_eq!(encryption(log), Encryption::Epoch(of_carol.id));
    let made = put(log, alice, &keys(0)).unwrap();
    alice.make(log, Action::Data(made)).unwrap();
    // Carol's epoch ceases to count. The one before is used again, and the value under hers still
    // counts by its own author.
    alice.make(log, revoke(carol, Vec::new())).unwrap();
    assert_eq!(encryption(log), Encryption::Epoch(of_alice.id));
    let shown = keys(0).field(log, object(1), "salary");
    assert_eq!(shown, Some(Content::LastWriter(text(SECRET))));
    // Of another field, only hers is there.
    assert_eq!(log.state().encryption(object(1), "s2"), Encryption::Lost);
    let edit = Edit::Put("s2".to_owned(), text(SECRET));
    let update = Update { object: object(1).to_string(), edit };
    let refused = log.operations_with(alice.name(), &update, &keys(0)).unwrap_err();
    assert_eq!(refused, UpdateError::EncryptionLost("s2".to_owned()));
    // An owner decides.
    let stop = Change::StopEncrypting(pattern("s2"));
    alice.make(log, Action::Data(DataAction { object: object(1), change: stop })).unwrap();
    assert_eq!(log.state().encryption(object(1), "s2"), Encryption::None);
    assert!(log.operations(alice.name(), &update).is_ok());
    assert_eq!(encryption(log), Encryption::Epoch(of_alice.id));
}

#[test]
fn nodes_with_and_without_keys_agree() {
    let mut pair = pair();
    let begun = epoch(&mut pair.log, &mut pair.alice, 1, "salary");
    let place =
        Place { log: pair.log.id(), object: object(1), field: "salary", author: pair.alice.name() };
    let value = encrypted(&place.value(begun.id, &text(SECRET)), begun.id);
    let made = pair.alice.make(&mut pair.log, set(1, "salary", value)).unwrap();
    let mut copy = pair.copy();
    assert_eq!(offer(&mut copy, &[&made]).outcomes, [Outcome::WaitsForPast]);
    assert_eq!(offer(&mut copy, &[&begun]).outcomes, [Outcome::Added]);
    assert_eq!(copy.state_hash(), pair.log.state_hash());
    let shown = keys(0).field(&copy, object(1), "salary");
    assert_eq!(shown, Some(Content::LastWriter(text(SECRET))));
    // Reading changes nothing.
    assert_eq!(copy.state_hash(), pair.log.state_hash());
    // The program that reads a message of an epoch needs no talaria: it is an OpenPGP message.
    let Action::Data(DataAction { change: Change::Encrypt(_, key), .. }) = &begun.entry.action
    else {
        panic!("{begun:?}")
    };
    let nobody = || Verifier::new(Box::new(|_: &_| Vec::new()), Rules::default(), NOW);
    let mut opener = Opener::with(secrets(&READERS[0]), talaria_message::ReadLimits::default());
    let (content, _) = opener.open(key.message(), &nobody()).unwrap();
    let of_epoch = Place { field: "salary", ..place };
    assert_eq!(content, of_epoch.epoch(&KEY));
}

// Attacks on values.

/// A ciphertext is copied to another field, object, author, log or epoch. Its bytes are those of
/// Alice; the reader says what differs.
#[test]
fn moved_ciphertexts() {
    let mut pair = pair();
    let Pair { alice, carol, log, .. } = &mut pair;
    let begun = epoch(log, alice, 1, "s*");
    let place = Place { log: log.id(), object: object(1), field: "salary", author: alice.name() };
    let stolen = encrypted(&place.value(begun.id, &text(SECRET)), begun.id);
    alice.make(log, set(1, "salary", stolen.clone())).unwrap();
    assert!(matches!(keys(0).field(log, object(1), "salary"), Some(Content::LastWriter(value))
        if value == text(SECRET)));
    // By its author, to another field.
    alice.make(log, set(1, "sum", stolen.clone())).unwrap();
    assert_eq!(why(log, 1, "sum"), Unreadable::Moved("field"));
    // To another author.
    carol.make(log, set(1, "salary", stolen.clone())).unwrap();
    assert_eq!(why(log, 1, "salary"), Unreadable::Moved("author"));
    // Carol knows the key, and begins epochs with it.
    let Value::Encrypted(inner) = &stolen else { panic!("{stolen:?}") };
    let under = |epoch: &Signed| {
        Value::Encrypted(Encrypted::new(epoch.id, inner.packet().to_vec()).unwrap())
    };
    let other = epoch(log, carol, 2, "s*");
    carol.make(log, set(2, "salary", under(&other))).unwrap();
    assert_eq!(why(log, 2, "salary"), Unreadable::Moved("object"));
    // Alice herself under another epoch of the same fields with the same key.
    let again = epoch(log, alice, 1, "*");
    alice.make(log, set(1, "salary", under(&again))).unwrap();
    assert_eq!(why(log, 1, "salary"), Unreadable::Moved("epoch"));
    // In another log.
    let mut genesis = genesis_of(&[alice], 1);
    genesis.limits.chains += 1;
    let mut elsewhere = Log::begin(&begin(alice, genesis)).unwrap();
    let there = epoch(&mut elsewhere, alice, 1, "s*");
    alice.make(&mut elsewhere, set(1, "salary", under(&there))).unwrap();
    assert_eq!(why(&elsewhere, 1, "salary"), Unreadable::Moved("log"));
}

/// The epoch of a value is in its past, of its object, and of its field. Every node checks this.
#[test]
fn values_under_epochs_of_other_places_are_refused() {
    let mut pair = pair();
    let Pair { alice, grant, log, .. } = &mut pair;
    let begun = epoch(log, alice, 1, "s*");
    let no_epoch = alice.make(log, set(1, "color", text("red"))).unwrap();
    let stop = Change::StopEncrypting(pattern("s*"));
    let stop = Action::Data(DataAction { object: object(1), change: stop });
    let stop = alice.make(log, stop).unwrap();
    let wanted = Refusal::Reference("the epoch of the value");
    let mut try_one = |number: u8, field: &str, epoch: EntryId| {
        let made = alice.make(log, set(number, field, encrypted(b"anything", epoch)));
        made.map_or_else(|error| refused(Err(error)), |made| panic!("{made:?}"))
    };
    assert_eq!(try_one(2, "salary", begun.id), wanted);
    assert_eq!(try_one(1, "color", begun.id), wanted);
    assert_eq!(try_one(1, "salary", no_epoch.id), wanted);
    assert_eq!(try_one(1, "salary", stop.id), wanted);
    assert_eq!(try_one(1, "salary", EntryId([5; 32])), wanted);
    // In each kind of change.
    let value = || encrypted(b"anything", EntryId([5; 32]));
    for (field, change_of) in [
        ("strict", FieldChange::Replace { replaced: Vec::new(), value: Some(value()) }),
        ("set", FieldChange::Add(value())),
        (
            "list",
            FieldChange::Insert {
                parent: EntryId::NONE,
                side: talaria_log::Side::Right,
                value: value(),
            },
        ),
    ] {
        assert_eq!(refused(alice.make(log, change(1, field, change_of))), wanted);
    }
    // Not in the past of the entry, though the node has it.
    let mut carol = Person::new(2, 1);
    let mut entry = carol.draft(log, set(1, "salary", text("x")));
    entry.links = vec![grant.id];
    entry.action = set(1, "salary", encrypted(b"anything", begun.id));
    let forged = carol.sign(entry, log.id());
    assert_eq!(refusal(log, &forged), wanted);
}

/// A deletable value is beside the entry, so only readers see its epoch. They check the same.
#[test]
fn deletable_values_under_epochs_of_other_places() {
    let mut pair = pair();
    let Pair { alice, log, .. } = &mut pair;
    let begun = epoch(log, alice, 1, "s*");
    let place = Place { log: log.id(), object: object(1), field: "color", author: alice.name() };
    for (field, epoch, wanted) in [
        ("color", begun.id, Unreadable::NoEpoch),
        ("salary", EntryId([5; 32]), Unreadable::NoEpoch),
        ("salary", begun.id, Unreadable::Moved("field")),
    ] {
        let value = encrypted(&place.value(epoch, &text(SECRET)), epoch);
        let opening = Opening::new(&value, [1; 32]);
        let made = alice.make(log, set(1, field, Value::Committed(opening.commitment()))).unwrap();
        assert!(log.reveal(&made.id, &opening));
        assert_eq!(why(log, 1, field), wanted);
    }
}

#[test]
fn damaged_and_empty_values() {
    let mut pair = pair();
    let Pair { alice, log, .. } = &mut pair;
    let begun = epoch(log, alice, 1, "s*");
    let place = Place { log: log.id(), object: object(1), field: "salary", author: alice.name() };
    let nested = encrypted(b"anything", begun.id);
    let commitment = Value::Committed(Opening::new(&text("x"), [1; 32]).commitment());
    let mut trailing = place.value(begun.id, &Value::Boolean(true));
    trailing.push(0);
    for plain in [
        b"".to_vec(),
        b"TLGV".to_vec(),
        place.bytes(b"TLGV\x02"),
        place.value(begun.id, &text("x"))[..130].to_vec(),
        place.value(begun.id, &text("x"))[..142].to_vec(),
        place.value(begun.id, &nested),
        place.value(begun.id, &commitment),
        trailing,
    ] {
        alice.make(log, set(1, "salary", encrypted(&plain, begun.id))).unwrap();
        assert_eq!(why(log, 1, "salary"), Unreadable::NoValue);
    }
    // Another key, and every byte of the ciphertext.
    let good = place.value(begun.id, &text(SECRET));
    let other = Sealer::with_session_key(&[8; 32]).seal(&good).unwrap();
    let Value::Encrypted(good) = encrypted(&good, begun.id) else { unreachable!() };
    let mut packets = vec![other];
    for at in 3..good.packet().len() {
        let mut packet = good.packet().to_vec();
        packet[at] ^= 1;
        packets.push(packet);
    }
    let mut refused = 0;
    for packet in packets {
        let Ok(value) = Encrypted::new(begun.id, packet) else {
            refused += 1;
            continue;
        };
        alice.make(log, set(1, "salary", Value::Encrypted(value))).unwrap();
        assert_eq!(why(log, 1, "salary"), Unreadable::Damaged);
    }
    // The version, the cipher and the mode.
    assert_eq!(refused, 3);
}

// Attacks on epochs.

#[test]
fn epoch_by_an_ungranted_author() {
    let mut pair = pair();
    let mut dave = Person::new(3, 1);
    let mine = epoch(&mut pair.log, &mut pair.alice, 1, "salary");
    let (log, author) = (pair.log.id(), dave.name());
    let place = |field| Place { log, object: object(1), field, author };
    let key = wrapped(&place("salary").epoch(&KEY), &[1]);
    // A stranger has no place in the log at all.
    let made = refused(dave.make(&mut pair.log, begins(1, "salary", key.clone())));
    assert_eq!(made, Refusal::Stranger(dave.name()));
    // Whoever may only change values does not choose the readers.
    let narrow =
        Grant { fields: pattern("salary*"), operations: Operations::CHANGES, ..grant_to(&dave) };
    pair.alice.make(&mut pair.log, Action::Grant(Box::new(narrow.clone()))).unwrap();
    let made = dave.make(&mut pair.log, begins(1, "salary", key.clone()));
    assert_eq!(refused(made), Refusal::NotGranted);
    let stop = || {
        let change = Change::StopEncrypting(pattern("salary"));
        Action::Data(DataAction { object: object(1), change })
    };
    assert_eq!(refused(dave.make(&mut pair.log, stop())), Refusal::NotGranted);
    // The same, signed without asking.
    let mut entry = dave.draft(&pair.log, set(1, "salary", text("x")));
    for action in [begins(1, "salary", key.clone()), stop()] {
        entry.action = action;
        let forged = dave.sign(entry.clone(), pair.log.id());
        assert_eq!(refusal(&mut pair.log, &forged), Refusal::NotGranted);
    }
    assert_eq!(pair.log.state().encryption(object(1), "salary"), Encryption::Epoch(mine.id));
    // With the right for some fields, not for more of them.
    let readers = Grant { operations: Operations::READERS, ..narrow };
    pair.alice.make(&mut pair.log, Action::Grant(Box::new(readers))).unwrap();
    for wide in ["*", "s*", "salar*", "color"] {
        let key = wrapped(&place(wide).epoch(&KEY), &[1]);
        let made = dave.make(&mut pair.log, begins(1, wide, key));
        assert_eq!(refused(made), Refusal::NotGranted, "{wide}");
    }
    for fits in ["salary", "salary*", "salary-2*"] {
        let key = wrapped(&place(fits).epoch(&KEY), &[1]);
        dave.make(&mut pair.log, begins(1, fits, key)).unwrap();
    }
}

#[test]
fn patterns_cover_others() {
    let covers = |a: &str, b: &str| pattern(a).covers(&pattern(b));
    assert!(covers("*", "*") && covers("*", "a") && covers("*", "a*"));
    assert!(covers("a*", "a*") && covers("a*", "a") && covers("a*", "ab*"));
    assert!(covers("a", "a") && !covers("a", "a*") && !covers("a", "b") && !covers("ab*", "a*"));
    // Fields may have a star in their name.
    assert!(
        !covers("a**", "a*") && covers("a*", "a**") && covers("a**", "a*b") && !covers("a**", "ab")
    );
}

/// The message of an epoch says inside for which place its key was made.
#[test]
fn epoch_that_claims_another_place() {
    let mut pair = pair();
    let Pair { alice, log, .. } = &mut pair;
    let right = Place { log: log.id(), object: object(1), field: "s*", author: alice.name() };
    let wrong = [
        Place { log: EntryId([5; 32]), ..right },
        Place { object: object(2), ..right },
        Place { field: "t*", ..right },
        Place { author: Person::new(2, 1).name(), ..right },
    ];
    let mut contents: Vec<Vec<u8>> = wrong.iter().map(|place| place.epoch(&KEY)).collect();
    contents.push(right.epoch(&KEY[..31]));
    contents.push(right.epoch(&[7; 33]));
    contents.push(right.bytes(b"TLGK\x02"));
    contents.push(Vec::new());
    for content in contents {
        let begun = alice.make(log, begins(1, "s*", wrapped(&content, &[0]))).unwrap();
        let plain = Place { field: "salary", ..right }.value(begun.id, &text(SECRET));
        alice.make(log, set(1, "salary", encrypted(&plain, begun.id))).unwrap();
        assert_eq!(why(log, 1, "salary").kind(), "epoch");
        // Nobody writes under it.
        let edit = Edit::Put("salary".to_owned(), text(SECRET));
        let update = Update { object: object(1).to_string(), edit };
        let refused = log.operations_with(alice.name(), &update, &keys(0)).unwrap_err();
        assert!(matches!(refused, UpdateError::NotReader { why, .. } if why.kind() == "epoch"));
    }
}

/// An author gives two readers different keys, to show them different values. The entry commits to
/// one content.
#[test]
fn different_keys_for_different_readers() {
    let mut pair = pair();
    let Pair { alice, log, .. } = &mut pair;
    let place = Place { log: log.id(), object: object(1), field: "s*", author: alice.name() };
    let (content, other) = (place.epoch(&KEY), place.epoch(&[8; 32]));
    let key = WrappedKey::new(talaria_cert::sha256(&[&other]), sealed(&content, &[0])).unwrap();
    let begun = alice.make(log, begins(1, "s*", key)).unwrap();
    let plain = Place { field: "salary", ..place }.value(begun.id, &text(SECRET));
    alice.make(log, set(1, "salary", encrypted(&plain, begun.id))).unwrap();
    let wanted = Unreadable::Epoch("its author has committed to another key");
    assert_eq!(why(log, 1, "salary"), wanted);
}

/// The packets of a message.
fn packets(message: &[u8]) -> Vec<Vec<u8>> {
    use talaria_message::openpgp::parse::Parse as _;
    use talaria_message::openpgp::serialize::MarshalInto as _;
    let pile = talaria_message::openpgp::PacketPile::from_bytes(message).unwrap();
    pile.children().map(|packet| packet.to_vec().unwrap()).collect()
}

#[test]
fn garbage_instead_of_a_message() {
    let of = |message: &[u8]| WrappedKey::new([0; 32], message.to_vec());
    let good = sealed(b"content", &[0, 1]);
    assert_eq!(of(&good).unwrap().readers().len(), 2);
    let parts = packets(&good);
    assert_eq!(parts.concat(), good);
    let (keys, data) = parts.split_at(2);
    let v3 = packets(&sealed(b"content", &[2, 1]));
    let hidden = {
        let mut packet = v3[0].clone();
        packet[3..11].fill(0);
        packet
    };
    let mut password = Recipients::default();
    password.add_password("secret".into());
    password.add(&READERS[0], Rules::default(), &mut |_| None, NOW).unwrap();
    let mut options = EncryptOptions::default();
    options.profile = Some(Profile::Rfc9580);
    let with_password = Sealer::new(&password, options).unwrap().seal(b"content").unwrap();
    let mut partial = vec![0xd2, 0xe0];
    partial.extend([0; 40]);
    for (what, wrong) in [
        ("nothing", Vec::new()),
        ("no packets", b"garbage".to_vec()),
        ("no data", keys.concat()),
        ("no readers", data.concat()),
        ("literal data", b"\xcb\x0bb\0\0\0\0\0hello".to_vec()),
        ("something behind", [&good[..], &data[0]].concat()),
        ("a passphrase", with_password),
        ("a reader twice", [&keys[0][..], &keys[0], &data[0]].concat()),
        ("a hidden reader", [&hidden[..], &v3[1], &v3[2]].concat()),
        ("readers of two versions", [&keys[0][..], &v3[1], &v3[2]].concat()),
        ("a marker", [b"\xca\x03PGP", &good[..]].concat()),
        ("partial lengths", [&keys[0][..], &partial].concat()),
    ] {
        assert!(of(&wrong).is_err(), "{what}");
    }
    for cut in 0..good.len() {
        assert!(of(&good[..cut]).is_err(), "{cut}");
    }
}

#[test]
fn a_huge_number_of_readers() {
    let good = packets(&sealed(b"content", &[2]));
    let of = |count: usize| {
        let mut message = Vec::new();
        for number in 1..=count {
            let mut packet = good[0].clone();
            packet[3..11].copy_from_slice(&(number as u64).to_be_bytes());
            message.extend(packet);
        }
        message.extend(&good[1]);
        WrappedKey::new([0; 32], message)
    };
    assert_eq!(of(READERS_MAX).unwrap().readers().len(), READERS_MAX);
    let limit = READERS_MAX as u64;
    let wanted = Malformed::Limit { what: "readers", found: limit + 1, limit };
    assert_eq!(of(READERS_MAX + 1), Err(wanted));
    // The writer says it in words that fit.
    let folder = tempfile::tempdir().unwrap();
    let (log, mut alice) = create(&folder.path().join("log"), 0);
    let readers = recipients(&vec![0; READERS_MAX + 1]);
    let begun =
        maker(&mut alice, |maker| log.begin_epoch(maker, "x", &pattern("*"), &readers, NOW_MS));
    let found = READERS_MAX + 1;
    assert!(matches!(begun, Err(LogError::Update(error))
        if error == UpdateError::TooManyReaders { found }));
}

/// A passphrase can be made arbitrarily expensive to try. An epoch has none.
#[test]
fn passphrases_are_no_readers() {
    let folder = tempfile::tempdir().unwrap();
    let (log, mut alice) = create(&folder.path().join("log"), 0);
    let mut readers = recipients(&[0]);
    readers.add_password("secret".into());
    for readers in [readers, Recipients::default()] {
        let begun =
            maker(&mut alice, |maker| log.begin_epoch(maker, "x", &pattern("*"), &readers, NOW_MS));
        assert!(matches!(begun, Err(LogError::Readers { .. })), "{begun:?}");
    }
}

/// Content that expands is not expanded: neither in the message of an epoch nor in a value.
#[test]
fn decompression_bombs() {
    const ZEROS: usize = 32 << 20;
    let mut pair = pair();
    let Pair { alice, log, .. } = &mut pair;
    let mut options = EncryptOptions::default();
    options.compression = Compression::Zlib(9);
    (options.profile, options.aead) = (Some(Profile::Rfc9580), Some(Aead::Ocb));
    let bomb = Sealer::new(&recipients(&[0]), options).unwrap().seal(&vec![0; ZEROS]).unwrap();
    assert!(bomb.len() < 65_000);
    // Without the limits of the log it is a good message.
    let nobody = || Verifier::new(Box::new(|_: &_| Vec::new()), Rules::default(), NOW);
    let mut opener = Opener::with(secrets(&READERS[0]), talaria_message::ReadLimits::default());
    let (content, opened) = opener.open(&bomb, &nobody()).unwrap();
    assert_eq!(content.len(), ZEROS);
    let key = WrappedKey::new(talaria_cert::sha256(&[&content]), bomb.clone()).unwrap();
    let begun = alice.make(log, begins(1, "s*", key)).unwrap();
    alice.make(log, set(1, "salary", encrypted(b"anything", begun.id))).unwrap();
    assert_eq!(why(log, 1, "salary"), Unreadable::Epoch("its message is damaged"));
    // The same packet as a value, with its session key as the key of an epoch.
    let place = Place { log: log.id(), object: object(1), field: "s*", author: alice.name() };
    let content = place.epoch(&opened.session_key);
    let begun = alice.make(log, begins(1, "s*", wrapped(&content, &[0]))).unwrap();
    let value = Encrypted::new(begun.id, packets(&bomb).pop().unwrap()).unwrap();
    alice.make(log, set(1, "salary", Value::Encrypted(value))).unwrap();
    assert_eq!(why(log, 1, "salary"), Unreadable::Damaged);
}

/// An epoch is opened once, whether it can be or not.
#[test]
fn an_epoch_is_opened_once() {
    let folder = tempfile::tempdir().unwrap();
    let path: &Path = &folder.path().join("log");
    let (log, mut alice) = create(path, 0);
    begin_epoch(&log, &mut alice, "*", &[0]);
    for number in 0..20 {
        put_text(&log, &mut alice, &format!("field-{number}"), SECRET, 0);
    }
    let asked = Arc::new(Mutex::new(0));
    let count = Arc::clone(&asked);
    let elsewhere = |give: bool| {
        let count = Arc::clone(&count);
        let gives = move |_: bool| {
            *count.lock().unwrap() += 1;
            Ok(if give { secrets(&READERS[0]).keys } else { Vec::new() })
        };
        EpochKeys::new(Secrets { elsewhere: Some(Box::new(gives)), ..Secrets::default() })
    };
    for give in [true, false] {
        let keys = elsewhere(give);
        for number in 0..20 {
            let shown = seen(&log, &format!("field-{number}"), &keys);
            assert_eq!(shown == Some(last(SECRET)), give);
        }
        assert_eq!(std::mem::take(&mut *asked.lock().unwrap()), 1);
    }
}
