//! Restore drills and their records.

use std::fs;
use std::sync::Mutex;

use talaria_backup::{
    BackupError, BackupProgress, Change, Drill, EpochProfile, Rehearsed, SnapshotName, Tree,
    rehearse,
};

use crate::create::{back_up, files, noise};
use crate::people::{NOW, Place, name, person, signer};
use crate::prune::objects;

/// A drill of the newest snapshot, with the paths that could not be read.
fn drill(place: &Place, sample: u8) -> (Drill, Vec<String>) {
    let (repository, keys) = place.open_as(&place.alice);
    let (listed, _) = repository.snapshots(&keys, NOW + 10).unwrap();
    let listed = listed.last().unwrap();
    let (reader, _) = repository.reader(&keys, NOW).unwrap();
    let failed = Mutex::new(Vec::new());
    let tell = |path: &[u8], _: BackupError| {
        failed.lock().unwrap().push(String::from_utf8_lossy(path).into_owned());
    };
    let tree = Tree::new(&reader, listed.snapshot.root);
    let read = rehearse(&tree, sample, 2, &BackupProgress::default(), &tell).unwrap();
    let drill = Drill {
        reader: name(&place.alice),
        time: NOW + 10,
        host: b"elsewhere".to_vec(),
        snapshot: SnapshotName::of(listed),
        sample,
        read,
    };
    (drill, failed.into_inner().unwrap())
}

#[test]
fn a_drill_reads_everything_and_names_what_is_damaged() {
    let place = Place::new(EpochProfile::Rfc9580);
    let root = files(&place);
    let (repository, keys) = place.open_as(&place.alice);
    let state = place.path("../state");
    back_up(&repository, &keys, &place.alice, &state, &root, NOW).unwrap();
    let before = objects(&place, "packs");
    fs::write(root.join("later"), noise(70, 400_000)).unwrap();
    let (run, _) = back_up(&repository, &keys, &place.alice, &state, &root, NOW + 1).unwrap();
    let (good, failed) = drill(&place, 100);
    assert!(failed.is_empty(), "{failed:?}");
    let snapshot = &run.snapshot;
    let expected =
        Rehearsed { entries: snapshot.entries, files: 7, bytes: snapshot.bytes, failed: 0 };
    assert_eq!(good.read, expected);
    // The tree is always read whole, and a sample is not always the same.
    let shares: Vec<u64> = (0..40).map(|_| drill(&place, 50).0.read.files).collect();
    assert!(
        shares.iter().all(|share| *share <= 7) && shares.iter().any(|share| *share != shares[0])
    );
    let sum: u64 = shares.iter().sum();
    assert!((60..220).contains(&sum), "{sum}");
    // The pack with the content of the new file, or with the tree.
    for pack in objects(&place, "packs").difference(&before) {
        let path = place.path(pack);
        let bytes = fs::read(&path).unwrap();
        let mut changed = bytes.clone();
        changed[bytes.len() / 2] ^= 1;
        fs::write(&path, changed).unwrap();
        let (bad, failed) = drill(&place, 100);
        assert!(bad.read.failed > 0 && bad.read.files < 7, "{:?}", bad.read);
        assert!(failed.iter().all(|path| path.is_empty() || path.ends_with("later")), "{failed:?}");
        fs::write(&path, bytes).unwrap();
    }
}

#[test]
fn only_the_record_of_a_reader_counts() {
    let place = Place::new(EpochProfile::Rfc9580);
    let root = files(&place);
    let (mut repository, keys) = place.open_as(&place.alice);
    let (reader, client) = (person("bob"), person("carol"));
    let alice = &mut signer(&place.alice);
    repository.change(&keys, &Change::AddReader(&reader), alice, NOW).unwrap();
    repository.change(&keys, &Change::AddClient(&client), alice, NOW).unwrap();
    back_up(&repository, &keys, &place.alice, &place.path("../state"), &root, NOW).unwrap();
    let (drill, _) = drill(&place, 100);
    let by = |person| Drill { reader: name(person), ..drill.clone() };
    let write = |drill: &Drill, by| {
        repository.record_drill(&keys, drill, &mut signer(by)).map(|()| drill.clone())
    };
    let own = write(&by(&place.alice), &place.alice).unwrap();
    let other = write(&Drill { time: NOW + 11, ..by(&reader) }, &reader).unwrap();
    // A client has read no files, and cannot sign for a reader.
    assert!(matches!(write(&by(&client), &client), Err(BackupError::Refused(_))));
    write(&by(&reader), &client).unwrap();
    write(&by(&place.alice), &reader).unwrap();
    assert_eq!(objects(&place, "drills").len(), 4);
    // Clients see the records.
    for person in [&place.alice, &reader, &client] {
        let (repository, keys) = place.open_as(person);
        let (drills, unreadable) = repository.drills(&keys, NOW + 20).unwrap();
        assert_eq!(drills, [own.clone(), other.clone()]);
        assert!(unreadable.is_empty());
    }
    // A damaged record is named, and hides no other.
    let names = objects(&place, "drills");
    let path = place.path(names.first().unwrap());
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(path, bytes).unwrap();
    let (_, unreadable) = repository.drills(&keys, NOW + 20).unwrap();
    assert_eq!(unreadable.len(), 1);
    // The record of a former reader does not count.
    let (mut repository, keys) = place.open_as(&place.alice);
    repository.change(&keys, &Change::Remove(&name(&reader)), alice, NOW + 30).unwrap();
    let (repository, keys) = place.open_as(&place.alice);
    let (drills, _) = repository.drills(&keys, NOW + 40).unwrap();
    assert!(drills.iter().all(|drill| drill.reader == name(&place.alice)));
}
