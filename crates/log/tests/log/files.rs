//! Logs in folders: group commit, recovery and exports.

use std::fs;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use talaria_log::{
    DraftError, Edit, Evidence, Imported, Log, LogError, LogFolder, Maker, Recovered, Signed,
    Signing, Update, Value, read_export,
};

use talaria_message::openpgp;
use talaria_message::openpgp::parse::Parse as _;

use crate::people::{NOW_MS, Person, V6, begin, genesis_of, grant, name, set};

pub(crate) fn create(folder: &Path, owner: usize) -> (LogFolder, Person) {
    let mut alice = Person::new(owner, 1);
    let genesis = genesis_of(&[&alice], 1);
    let genesis = begin(&mut alice, genesis);
    let log = LogFolder::create(folder, &genesis).unwrap();
    alice.chain.instance = log.instance();
    (log, alice)
}

pub(crate) fn put(log: &LogFolder, person: &mut Person, text: &str) -> Signed {
    let made = log.append(|log| {
        let signed = person.make(log, set(text))?;
        Ok::<_, Failure>((vec![signed.clone()], signed))
    });
    made.unwrap()
}

pub(crate) fn put_batch(log: &LogFolder, person: &mut Person, count: usize) {
    log.append(|log| {
        let mut entries = Vec::new();
        for number in 0..count {
            let entry = log.draft(person.chain, set(&number.to_string()), NOW_MS)?;
            log.append(entry.clone()).map_err(DraftError::from)?;
            entries.push(entry);
        }
        let mut maker = Maker { chain: person.chain, key: &mut person.key };
        let signed = maker.sign_batch(entries, log.id(), NOW_MS)?;
        Ok::<_, Failure>((signed, ()))
    })
    .unwrap();
}

#[derive(Debug)]
struct Failure(#[expect(dead_code, reason = "shown if a test fails")] String);

impl From<LogError> for Failure {
    fn from(error: LogError) -> Self {
        Self(error.to_string())
    }
}

impl From<DraftError> for Failure {
    fn from(error: DraftError) -> Self {
        Self(error.to_string())
    }
}

#[test]
fn a_log_is_the_same_after_it_is_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    let (log, mut alice) = create(&folder.path().join("log"), 0);
    for number in 0..30 {
        put(&log, &mut alice, &number.to_string());
    }
    put_batch(&log, &mut alice, 300);
    let hash = log.read(Log::state_hash).unwrap();
    drop(log);
    let log = LogFolder::open(&folder.path().join("log")).unwrap();
    assert_eq!(log.recovered(), Recovered::Clean);
    assert_eq!(log.read(|log| (log.len(), log.state_hash())).unwrap(), (331, hash));
    let verified = log.verify().unwrap();
    assert_eq!((verified.entries, verified.state_hash), (331, hash));
    assert_eq!(verified.failed, []);
    assert_eq!(alice.chain.instance, log.instance());
    put(&log, &mut alice, "more");
    assert!(log.read(|log| log.forks().is_empty()).unwrap());
    assert!(matches!(
        LogFolder::create(&folder.path().join("log"), &first(&log)),
        Err(LogError::Occupied { .. })
    ));
    assert!(matches!(LogFolder::open(folder.path()), Err(LogError::NotALog { .. })));
}

/// A batch that one record cannot hold would need an audit path beside each entry.
#[test]
fn updates_that_no_record_can_hold_are_several_batches() {
    let folder = tempfile::tempdir().unwrap();
    let (log, mut alice) = create(&folder.path().join("log"), 0);
    let update = |number: usize| Update {
        object: "server".to_owned(),
        edit: Edit::Put("text".to_owned(), Value::String(format!("{number:060000}"))),
    };
    let updates: Vec<Update> = (0..130).map(update).collect();
    let mut maker = Maker { chain: alice.chain, key: &mut alice.key };
    let syncs = log.syncs();
    let ids = log.put(&mut maker, &updates, Signing::Together, NOW_MS).unwrap();
    // The creation of the object, and its field.
    assert_eq!((ids.len(), log.syncs() - syncs), (131, 1));
    let mut batches = Vec::new();
    log.each(|signed| {
        if let Evidence::InBatch(batch, _) = &signed.evidence {
            batches.push(batch.statement.count);
        }
        Ok(())
    })
    .unwrap();
    batches.dedup();
    assert_eq!(batches, [53, 52, 26]);
    let mut exported = Vec::new();
    log.export(&mut exported, Path::new("memory")).unwrap();
    // The names of an entry take some 300 bytes, and an audit path 192 and a statement 200 more.
    assert!(exported.len() < 130 * 60_400, "{} bytes", exported.len());
    assert_eq!(log.verify().unwrap().failed, []);
}

fn first(log: &LogFolder) -> Signed {
    let mut first = None;
    log.each(|signed| {
        first.get_or_insert(signed);
        Ok(())
    })
    .unwrap();
    first.unwrap()
}

/// Entries that fill several segments.
#[test]
fn a_log_goes_over_to_the_next_segment() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let (log, mut alice) = create(&path, 0);
    let text = "x".repeat(60_000);
    for round in 0..40 {
        log.append(|log| {
            let signed: Result<Vec<_>, _> =
                (0..15).map(|n| alice.make(log, set(&format!("{round}.{n}{text}")))).collect();
            Ok::<_, Failure>((signed?, ()))
        })
        .unwrap();
    }
    assert!(path.join("segments/00000002").exists());
    let hash = log.read(Log::state_hash).unwrap();
    drop(log);
    let log = LogFolder::open(&path).unwrap();
    assert_eq!(log.read(|log| (log.len(), log.state_hash())).unwrap(), (601, hash));
    drop(log);
    // A broken frame that is followed by another segment is no torn tail.
    let segment = fs::File::options().write(true).open(path.join("segments/00000001")).unwrap();
    segment.write_all_at(b"damage", 15 << 20).unwrap();
    assert!(matches!(LogFolder::open(&path), Err(LogError::Damaged { .. })));
}

/// Opening takes a broken last group for what a crash has left. The log that has written it knows
/// better.
#[test]
fn an_open_log_notices_that_its_last_group_is_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let (log, mut alice) = create(&path, 0);
    put(&log, &mut alice, "one");
    let end = log.bytes();
    put(&log, &mut alice, "two");
    assert_eq!(log.verify().unwrap().entries, 3);
    let segment = fs::File::options().write(true).open(path.join("segments/00000000")).unwrap();
    segment.write_all_at(b"damage", log.bytes() - 10).unwrap();
    let offset = |result| match result {
        Err(LogError::Damaged { offset, .. }) => offset,
        other => panic!("{other:?}"),
    };
    assert_eq!(offset(log.verify().map(|_| ())), end);
    assert_eq!(offset(log.export(&mut Vec::new(), Path::new("memory")).map(|_| ())), end);
}

/// Whatever part of the last group has reached the disk, the log ends before it, and goes on from
/// there.
#[test]
fn a_torn_tail_is_cut_at_the_last_whole_group() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let (log, mut alice) = create(&path, 0);
    put(&log, &mut alice, "acknowledged");
    let end = log.bytes();
    put(&log, &mut alice, "torn");
    let whole = log.bytes();
    drop(log);
    let segment = path.join("segments/00000000");
    let bytes = fs::read(&segment).unwrap();
    let ends = end..whole;
    for cut in ends.clone().step_by(37).chain([whole - 1]) {
        let at = usize::try_from(cut).unwrap();
        let mut torn = bytes.clone();
        torn[at..usize::try_from(whole).unwrap()].fill(0);
        if cut % 2 == 0 {
            // Bytes that were never written in order.
            torn[usize::try_from(whole).unwrap() - 1] = 7;
        }
        if torn == bytes {
            // The lost bytes were the same by chance.
            continue;
        }
        fs::write(&segment, &torn).unwrap();
        let log = LogFolder::open(&path).unwrap();
        assert_eq!(log.read(name).unwrap().as_deref(), Some("acknowledged"), "{cut}");
        let mut again = Person::new(0, 1);
        again.chain.instance = log.instance();
        put(&log, &mut again, "after");
        drop(log);
        let log = LogFolder::open(&path).unwrap();
        assert_eq!(log.recovered(), Recovered::Clean);
        assert_eq!(log.read(name).unwrap().as_deref(), Some("after"), "{cut}");
        assert_eq!(log.verify().unwrap().failed, []);
    }
}

/// Every flipped bit before the last group is noticed, and nothing is changed.
#[test]
fn damage_before_the_last_group_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let (log, mut alice) = create(&path, 0);
    put(&log, &mut alice, "one");
    let end = log.bytes();
    put(&log, &mut alice, "two");
    drop(log);
    let segment = path.join("segments/00000000");
    let bytes = fs::read(&segment).unwrap();
    for at in (0..end).step_by(53) {
        let mut damaged = bytes.clone();
        damaged[usize::try_from(at).unwrap()] ^= 0x10;
        fs::write(&segment, &damaged).unwrap();
        assert!(matches!(LogFolder::open(&path), Err(LogError::Damaged { .. })), "{at} of {end}");
        assert_eq!(fs::read(&segment).unwrap(), damaged);
    }
}

/// Threads that wait share a sync.
#[test]
fn threads_share_syncs_and_lose_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let (log, mut alice) = create(&path, 0);
    let members: Vec<Person> = (0..8).map(|device| Person::new(2, 100 + device)).collect();
    log.append(|log| {
        let signed = alice.make(log, grant(&members[0]))?;
        Ok::<_, Failure>((vec![signed], ()))
    })
    .unwrap();
    let before = log.syncs();
    let log = Arc::new(log);
    let made = Arc::new(Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for mut member in members {
            let (log, made) = (Arc::clone(&log), Arc::clone(&made));
            scope.spawn(move || {
                for number in 0..25 {
                    let signed = put(&log, &mut member, &number.to_string());
                    made.lock().unwrap().push(signed.id);
                }
            });
        }
    });
    let syncs = log.syncs() - before;
    assert!(syncs <= 200, "{syncs}");
    drop(Arc::into_inner(log));
    let log = LogFolder::open(&path).unwrap();
    let made = made.lock().unwrap();
    assert_eq!(made.len(), 200);
    assert!(made.iter().all(|id| log.read(|log| log.entry(id).is_some()).unwrap()));
    assert_eq!(log.verify().unwrap().failed, []);
}

/// A group commit: many entries that wait for the disk at once need few syncs.
#[test]
fn one_append_of_many_entries_needs_one_sync() {
    let folder = tempfile::tempdir().unwrap();
    let (log, mut alice) = create(&folder.path().join("log"), 0);
    let before = log.syncs();
    put_batch(&log, &mut alice, 1000);
    assert_eq!(log.syncs() - before, 1);
}

#[test]
fn an_export_makes_the_same_log_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    let (log, mut alice) = create(&folder.path().join("log"), 0);
    put(&log, &mut alice, "one");
    put_batch(&log, &mut alice, 20);
    let mut file = Vec::new();
    assert_eq!(log.export(&mut file, Path::new("file")).unwrap().entries, 22);
    let copy = LogFolder::create(&folder.path().join("copy"), &first(&log)).unwrap();
    let imported = copy.import(&mut &file[..], "file", NOW_MS).unwrap();
    assert_eq!((imported.added, imported.known, imported.refused.len()), (21, 1, 0));
    assert_eq!(copy.read(Log::state_hash).unwrap(), log.read(Log::state_hash).unwrap());
    let again = copy.import(&mut &file[..], "file", NOW_MS).unwrap();
    assert_eq!((again.added, again.known), (0, 22));
    // A cut is noticed, and so are other files.
    for cut in [3, 8, 100] {
        let result = read_export(&mut &file[..cut], "file", |_| Ok(()));
        assert!(matches!(result, Err(LogError::NotAnExport { .. })), "{cut}");
    }
    // What is before a cut is taken, also into a new copy.
    let cut = &file[..file.len() - 1];
    let damaged = |result: Result<Imported, LogError>| {
        assert!(matches!(result, Err(LogError::DamagedExport { entries: 2, .. })), "{result:?}");
    };
    damaged(
        LogFolder::create(&folder.path().join("cut"), &first(&log))
            .unwrap()
            .import(&mut &*cut, "file", NOW_MS),
    );
    let path = folder.path().join("new");
    damaged(
        LogFolder::receive(&path, &mut &*cut, "file", None, NOW_MS).map(|(_, imported)| imported),
    );
    for name in ["cut", "new"] {
        let copy = LogFolder::open(&folder.path().join(name)).unwrap();
        assert_eq!(copy.read(Log::len).unwrap(), 2);
    }
    let (other, _) = create(&folder.path().join("other"), 1);
    assert!(matches!(other.import(&mut &file[..], "file", NOW_MS), Err(LogError::OtherLog { .. })));
}

/// A value that somebody has edited on disk, with the checksum made right, is found by `verify`.
#[test]
fn an_edited_value_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let (log, mut alice) = create(&folder.path().join("log"), 0);
    put(&log, &mut alice, "honest");
    let mut file = Vec::new();
    log.export(&mut file, Path::new("file")).unwrap();
    let at = file.windows(6).position(|bytes| bytes == b"honest").unwrap();
    file[at] = b'H';
    let copy = LogFolder::create(&folder.path().join("copy"), &first(&log)).unwrap();
    let imported = copy.import(&mut &file[..], "file", NOW_MS).unwrap();
    assert_eq!(imported.added, 0);
    assert_eq!(imported.refused[0].1.kind(), "signature");
}

fn run(command: &mut Command) -> (bool, String) {
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.success(), text)
}

/// Stock tools verify what `export --pgp` writes.
#[test]
fn gpg_and_sq_verify_exported_signatures() {
    let folder = tempfile::tempdir().unwrap();
    for (owner, has_gpg) in [(0, true), (V6, false)] {
        let path = folder.path().join(owner.to_string());
        let (log, mut alice) = create(&path.join("log"), owner);
        put(&log, &mut alice, "one");
        put_batch(&log, &mut alice, 5);
        let out = path.join("pgp");
        fs::create_dir(&out).unwrap();
        let files = log.export_pgp(&out).unwrap();
        assert_eq!((files.signatures, files.proven), (3, 5));
        assert_eq!(files.not_for_gnupg, if has_gpg { 0 } else { 3 });
        let home = path.join("home");
        fs::create_dir(&home).unwrap();
        let gpg = |arguments: &[&str]| {
            let mut command = Command::new("gpg");
            command.arg("--homedir").arg(&home).args([
                "--batch",
                "--no-tty",
                "--trust-model",
                "always",
            ]);
            run(command.args(arguments).current_dir(&out))
        };
        if has_gpg {
            let (imported, text) = gpg(&["--import", "certs.pgp"]);
            assert!(imported, "{text}");
        }
        for signed in ["00000000.entry", "00000001.entry", "00000002.statement"] {
            let signature = format!("{signed}.sig");
            if has_gpg {
                let (good, text) = gpg(&["--verify", &signature, signed]);
                assert!(good && text.contains("Good signature"), "{signed}: {text}");
                fs::write(out.join("other"), b"other").unwrap();
                assert!(!gpg(&["--verify", &signature, "other"]).0);
            }
            if has_gpg {
                // Debian's sq of 2022 reads no version 6.
                let mut sq = Command::new("sq");
                sq.args(["verify", "--signer-cert", "certs.pgp", "--detached", &signature, signed]);
                let (good, text) = run(sq.current_dir(&out));
                assert!(good, "{signed}: {text}");
            }
            let bytes = fs::read(out.join(&signature)).unwrap();
            let openpgp::Packet::Signature(read) = openpgp::Packet::from_bytes(&bytes).unwrap()
            else {
                panic!("{signature}")
            };
            let data = fs::read(out.join(signed)).unwrap();
            read.verify_message(alice.key.public(), &data).unwrap();
        }
    }
}

/// Whoever can open a file can lock it, and keep the log from its users.
#[test]
fn others_cannot_open_the_locks_of_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let (log, _) = create(&folder.path().join("log"), 1);
    log.lend().unwrap();
    let locks = ["lock", "turn"].map(|name| folder.path().join("log").join(name));
    for lock in locks.iter().filter(|lock| lock.exists()) {
        let mode = fs::metadata(lock).unwrap().permissions().mode();
        assert_eq!(mode & 0o7, 0, "{}", lock.display());
    }
    assert!(locks[0].exists());
}

/// The first segment has no number until genesis is on disk (a cut while it was written left a log
/// that was called damaged).
#[test]
fn a_log_whose_creation_was_cut_off_is_no_log() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    drop(create(&path, 0));
    let segments = path.join("segments");
    fs::rename(segments.join("00000000"), segments.join("new")).unwrap();
    assert!(matches!(LogFolder::open(&path), Err(LogError::NotALog { .. })));
}

/// The same command again makes the log.
#[test]
fn a_log_can_be_made_where_its_creation_was_cut_off() {
    for has_segment in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let segments = path.join("segments");
        fs::create_dir_all(&segments).unwrap();
        if has_segment {
            fs::write(segments.join("new"), "half of a segment").unwrap();
        }
        drop(create(&path, 0));
        assert!(LogFolder::open(&path).is_ok());
        assert!(!segments.join("new").exists());
    }
    // Something else is not removed.
    let folder = tempfile::tempdir().unwrap();
    let segments = folder.path().join("segments");
    fs::create_dir(&segments).unwrap();
    fs::write(segments.join("mine"), "").unwrap();
    let mut alice = Person::new(0, 1);
    let genesis = genesis_of(&[&alice], 1);
    let genesis = begin(&mut alice, genesis);
    let refused = LogFolder::create(folder.path(), &genesis);
    assert!(matches!(refused, Err(LogError::Occupied { .. })));
    assert!(segments.join("mine").exists());
}
