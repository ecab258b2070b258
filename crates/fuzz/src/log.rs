//! What holds for any bytes as parts of a signed log.

use talaria_log::{
    EXPORT_MAGIC, Entry, EntryId, Genesis, Log, Maker, Outcome, SEGMENT_BYTES, SNAPSHOT_MAGIC,
    Signed, SnapshotFile, Tail, read_export, read_record, scan, to_records,
};

/// A time after the entries of the seeds, in milliseconds since 1970.
pub const NOW_MS: u64 = 1_740_000_000_000;

/// Entries of a record are written the same again, and their identity is that of their bytes.
pub fn record(bytes: &[u8]) {
    let Ok(entries) = read_record(bytes) else { return };
    for signed in &entries {
        assert_eq!(signed.entry.to_bytes(), signed.bytes);
        assert_eq!(Entry::read(&signed.bytes).as_ref(), Ok(&*signed.entry));
        let alone = read_record(&signed.to_record()).expect("it was written");
        assert_eq!(alone, std::slice::from_ref(signed));
    }
    let mut records = Vec::new();
    to_records(&entries, &mut records);
    let again: Vec<Signed> =
        records.iter().flat_map(|record| read_record(record).expect("it was written")).collect();
    assert_eq!(again, entries);
}

/// The entries of an export as a log takes them: what is admitted is admitted in any order, and no
/// entry twice.
pub fn export(bytes: &[u8]) {
    let mut entries = Vec::new();
    let mut input = bytes;
    let whole = read_export(&mut input, "export", |found| {
        entries.extend(found);
        Ok(())
    });
    if whole.is_ok() {
        assert!(input.is_empty() && bytes.starts_with(&EXPORT_MAGIC));
    }
    let Some((first, rest)) = entries.split_first() else { return };
    let Ok(mut log) = Log::begin(first) else { return };
    let Ok(mut backwards) = Log::begin(first) else { return };
    let offered = log.offer(rest.to_vec(), NOW_MS);
    assert_eq!(offered.outcomes.len(), rest.len());
    assert_eq!(log.len(), 1 + offered.added.len());
    for signed in rest.iter().rev() {
        backwards.offer(vec![signed.clone()], NOW_MS);
    }
    // A copy whose proof does not hold may come before one whose proof does, so each is offered
    // once more.
    log.offer(rest.to_vec(), NOW_MS);
    backwards.offer(rest.to_vec(), NOW_MS);
    assert_eq!(log.state_hash(), backwards.state_hash());
    assert_eq!(log.heads(), backwards.heads());
    let again = log.offer(rest.to_vec(), NOW_MS);
    assert!(again.added.is_empty());
    assert!(!again.outcomes.contains(&Outcome::Added));
    // What was admitted can be restored without its signature.
    let mut restored = Log::begin(first).expect("it began before");
    for (id, _) in log.entries().skip(1) {
        let signed = rest.iter().find(|signed| signed.id == id).expect("it was offered");
        assert_eq!(restored.restore(signed), Ok(()));
    }
    restored.settle();
    assert_eq!(restored.state_hash(), log.state_hash());
}

/// The file of a snapshot, of whatever log it names. The contents that are read are those that were
/// signed.
pub fn snapshot(bytes: &[u8]) {
    // The first record has genesis, after its length, its kind and its own length.
    let genesis = bytes.get(SNAPSHOT_MAGIC.len() + 9..);
    let length = bytes.get(SNAPSHOT_MAGIC.len() + 5..SNAPSHOT_MAGIC.len() + 9);
    let length = length.and_then(|length| length.try_into().ok()).map(u32::from_be_bytes);
    let genesis = genesis.zip(length).and_then(|(bytes, length)| bytes.get(..length as usize));
    let log = genesis.map_or(EntryId::NONE, EntryId::of);
    let Ok(file) = SnapshotFile::read(&mut &bytes[..], log) else { return };
    assert_eq!(file.log(), log);
    assert!(file.signers().len() >= usize::from(file.genesis().threshold));
    for object in file.objects() {
        assert_eq!(file.fields(object.id).count(), object.fields);
        assert_eq!(file.object(object.id), Some(object));
    }
}

/// The frames of a segment follow each other and end within it.
pub fn segment(bytes: &[u8]) {
    for first in [0, 7] {
        let Ok(found) = scan(bytes, first) else { continue };
        let mut end = 48;
        for (at, frame) in found.frames.iter().enumerate() {
            assert_eq!(frame.number, first + at as u64);
            assert!(frame.group <= frame.number && frame.group >= first);
            assert!(frame.payload.start == end + 40 && frame.payload.end <= bytes.len());
            end = frame.payload.end;
        }
        assert_eq!(found.end, end);
        assert!(found.end <= bytes.len() && bytes.len() <= SEGMENT_BYTES);
        let is_zero = bytes[end..].iter().all(|byte| *byte == 0);
        assert_eq!(found.tail == Tail::Clean, is_zero);
    }
}

/// A small log of one author: entries with signatures of their own, and a batch.
#[must_use]
pub fn seed(
    key: &mut talaria_message::SigningKey,
    certificate: &talaria_log::Certificate,
    readers: &talaria_message::Recipients,
) -> Vec<Signed> {
    use talaria_log::{
        Action, Change, DataAction, Edit, Encrypted, FieldChange, MergeRule, ObjectId, Pattern,
        Update, Value, WrappedKey,
    };
    use talaria_message::{EncryptOptions, Sealer};

    let mut maker = Maker::new(certificate, key, [1; 16]).expect("it is their key");
    let mut genesis = Genesis::new(vec![certificate.clone()], 1);
    for (pattern, rule) in [("set", MergeRule::Set), ("list", MergeRule::List)] {
        genesis.rules.push((Pattern::new(pattern).expect("it is one"), rule));
    }
    let genesis = maker.begin(genesis, NOW_MS - 1000).expect("the key signs");
    let mut log = Log::begin(&genesis).expect("it is genesis");
    let mut entries = vec![genesis];
    maker.chain.instance = [2; 16];
    let mut together = Vec::new();
    for (number, field) in ["color", "set", "list", "list", "color"].into_iter().enumerate() {
        let value = Value::Integer(i64::try_from(number).expect("a few"));
        let update =
            Update { object: "server".to_owned(), edit: Edit::Put(field.to_owned(), value) };
        for data in log.operations(certificate.name(), &update).expect("it fits") {
            let entry = log.draft(maker.chain, Action::Data(data), NOW_MS).expect("they may");
            log.append(entry.clone()).expect("they may");
            if number < 3 {
                entries.push(maker.sign(entry, log.id(), NOW_MS).expect("the key signs"));
            } else {
                together.push(entry);
            }
        }
    }
    entries.extend(maker.sign_batch(together, log.id(), NOW_MS).expect("the key signs"));
    let object = ObjectId::of(log.id(), certificate.name(), "server");
    let mut add = |change| {
        let data = Action::Data(DataAction { object, change });
        let made = maker.make(&mut log, data, NOW_MS).expect("they may");
        let id = made.id;
        entries.push(made);
        id
    };
    let message = Sealer::new(readers, EncryptOptions::default()).and_then(|s| s.seal(b"key"));
    let key = WrappedKey::new([1; 32], message.expect("they have keys")).expect("it is one");
    let fields = Pattern::new("pin*").expect("it is one");
    let epoch = add(Change::Encrypt(fields.clone(), Box::new(key)));
    let packet = Sealer::with_session_key(&[1; 32]).seal(b"value").expect("it is short");
    let value = Value::Encrypted(Encrypted::new(epoch, packet).expect("it is one"));
    add(Change::Field("pin".to_owned(), FieldChange::Set(Some(value))));
    add(Change::StopEncrypting(fields));
    entries
}
