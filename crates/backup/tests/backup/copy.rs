//! Copying snapshots between repositories with other keys.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use talaria_backup::{
    Backend, BackupError, BackupProgress, CopyReport, CopySource, EpochProfile, Id, Listed, Role,
    State,
};

use crate::create::{back_up, content, files, listing, noise};
use crate::people::{NOW, Place, name, person, signer};
use crate::prune::{AT_ONCE, Hook, Hooked, forget, history, objects, open, prune, sound};

/// Copies snapshots of one place to another, as the owner of the other, through a storage. The
/// second figure is the number of new bytes.
fn copy_through(
    from: &Place,
    to: &Place,
    backend: Arc<dyn Backend>,
    wanted: &[Id],
) -> Result<(CopyReport, u64), BackupError> {
    let (repository, keys) = from.open_as(&from.alice);
    let (mut listed, _) = repository.snapshots(&keys, NOW)?;
    listed.retain(|one| wanted.contains(&one.id));
    listed.sort_by_key(|one| one.snapshot.number);
    let (reader, _) = repository.reader(&keys, NOW)?;
    let source = CopySource { repository: repository.id(), reader: &reader, snapshots: &listed };
    let (target, keys) = open(backend, &to.alice);
    let mut state = State::open(&to.path("../state of copies"), target.id())?;
    let progress = Arc::new(BackupProgress::default());
    let client = Some((&name(&to.alice), signer(&to.alice)));
    let copies = target.copy(&keys, client, &mut state, (&source, 2), &progress, NOW + 100)?;
    Ok((copies, progress.new_bytes.load(Ordering::Relaxed)))
}

fn copy(from: &Place, to: &Place, wanted: &[Id]) -> Result<(CopyReport, u64), BackupError> {
    copy_through(from, to, to.backend(), wanted)
}

fn snapshots(place: &Place) -> Vec<Listed> {
    let (repository, keys) = place.open_as(&place.alice);
    let (mut listed, _) = repository.snapshots(&keys, NOW + 200).unwrap();
    listed.sort_by_key(|one| one.snapshot.number);
    listed
}

#[test]
fn snapshots_are_copied_once_to_every_profile() {
    let from = Place::new(EpochProfile::Rfc9580);
    let root = files(&from);
    // So many parts that they are in a list.
    let long = fs::File::create(root.join("long")).unwrap();
    for stretch in 0..100 {
        long.write_all_at(&noise(stretch, 4096), stretch << 17).unwrap();
    }
    let (repository, keys) = from.open_as(&from.alice);
    let state = from.path("../state");
    let first = back_up(&repository, &keys, &from.alice, &state, &root, NOW).unwrap().0.id;
    fs::write(root.join("small"), b"another").unwrap();
    let second = back_up(&repository, &keys, &from.alice, &state, &root, NOW + 1).unwrap().0.id;
    for profile in EpochProfile::ALL {
        let to = Place::new(profile);
        let (copies, new) = copy(&from, &to, &[first, second]).unwrap();
        assert!(copies.failed.is_empty() && copies.copied.iter().all(|one| !one.was_there));
        assert!(new > 9_000_000, "{new}");
        let (originals, listed) = (snapshots(&from), snapshots(&to));
        assert_eq!(listed.len(), 2);
        let (source, source_keys) = from.open_as(&from.alice);
        let (target, target_keys) = to.open_as(&to.alice);
        for (copy, original) in listed.iter().zip(&originals) {
            let (copy_of, of) = (&copy.snapshot, &original.snapshot);
            let line = copy_of.original.as_ref().unwrap();
            assert_eq!((line.repository, line.id), (repository.id(), original.id));
            assert_eq!((&line.client, line.number, line.time), (&of.client, of.number, of.time));
            assert_eq!((copy_of.made(), copy_of.time), (of.time, NOW + 100));
            assert_eq!(copy_of.client, Some(name(&to.alice)));
            assert_eq!((&copy_of.host, &copy_of.paths), (&of.host, &of.paths));
            assert_eq!((copy_of.entries, copy_of.bytes), (of.entries, of.bytes));
            assert_ne!(copy_of.root.id, of.root.id, "identifiers are keyed");
            for file in
                ["empty", "small", "deep/medium", "deep/er/large", "deep/text", "sparse", "long"]
            {
                let path = root.join(file);
                assert!(
                    content(&target, &target_keys, copy, &path)
                        == content(&source, &source_keys, original, &path),
                    "{profile} {file}"
                );
            }
        }
        sound(&to);
        // Again: nothing is written.
        let before = listing(&to.path(""));
        let (copies, new) = copy(&from, &to, &[first, second]).unwrap();
        assert!(copies.copied.len() == 2 && copies.copied.iter().all(|one| one.was_there));
        assert_eq!((listing(&to.path("")), new), (before, 0));
        // A third one stores what it does not share.
        fs::write(root.join("third"), noise(u64::from(profile as u8) + 90, 30_000)).unwrap();
        let now = NOW + 2 + profile as u32;
        let third = back_up(&repository, &keys, &from.alice, &state, &root, now).unwrap().0.id;
        let (_, new) = copy(&from, &to, &[third]).unwrap();
        assert!((30_000..90_000).contains(&new), "{new}");
        assert!(objects(&to, "leases").is_empty());
        sound(&to);
        forget(&repository, &keys, &[third], &from.alice);
    }
}

#[test]
fn an_interrupted_copy_continues_from_any_step() {
    let from = Place::new(EpochProfile::Rfc9580);
    let (_, ids) = history(&from);
    for changes in 1.. {
        let to = Place::new(EpochProfile::LibrePgp);
        let hooked = Arc::new(Hooked::new(&to));
        hooked.changes.store(changes, Ordering::Relaxed);
        let died = copy_through(&from, &to, Arc::clone(&hooked) as Arc<dyn Backend>, &ids);
        let there = snapshots(&to).len();
        let (copies, _) = copy(&from, &to, &ids).unwrap();
        let known = copies.copied.iter().filter(|one| one.was_there).count();
        assert_eq!((copies.copied.len(), known), (3, there), "{changes}");
        let listed = snapshots(&to);
        let originals: BTreeSet<Id> =
            listed.iter().map(|one| one.snapshot.original.as_ref().unwrap().id).collect();
        assert_eq!((listed.len(), originals), (3, ids.iter().copied().collect()), "{changes}");
        assert!(listed.iter().zip(1..).all(|(one, number)| one.snapshot.number == number));
        sound(&to);
        if died.is_ok() {
            // One lease, one pack and one index for three snapshots, each prepared and published.
            assert_eq!(changes, 9);
            break;
        }
    }
}

/// The copy has decided what it need not store, and a prune that does not wait deletes that.
#[test]
fn a_copy_whose_packs_are_pruned_stores_them_again() {
    let from = Place::new(EpochProfile::Rfc9580);
    let (_, ids) = history(&from);
    for moment in ["indexes/", "snapshots/"] {
        let to = Arc::new(Place::new(EpochProfile::Rfc9580));
        let (before, _) = copy(&from, &to, &ids[..1]).unwrap();
        let (repository, keys) = to.open_as(&to.alice);
        forget(&repository, &keys, &[before.copied[0].id], &to.alice);
        let hooked = Arc::new(Hooked::new(&to));
        let other = Arc::clone(&to);
        let hook: Hook = Box::new(move || {
            let (repository, keys) = other.open_as(&other.alice);
            let pruned = prune(&repository, &keys, &other.alice, &AT_ONCE).unwrap();
            assert!(pruned.deleted_packs > 0);
        });
        *hooked.before_put.lock().unwrap() = Some((moment, hook));
        let (copies, _) = copy_through(&from, &to, hooked, &ids[1..]).unwrap();
        let numbers = copies.copied.iter().map(|copied| copied.snapshot.number);
        assert_eq!(numbers.collect::<Vec<_>>(), [2, 3], "{moment}");
        let listed = snapshots(&to);
        let ids = |copied: &mut dyn Iterator<Item = Id>| copied.collect::<Vec<_>>();
        let made = ids(&mut copies.copied.iter().map(|copied| copied.id));
        assert_eq!(ids(&mut listed.iter().map(|listed| listed.id)), made);
        sound(&to);
    }
}

#[test]
fn a_damaged_snapshot_is_named_and_the_others_are_copied() {
    let from = Place::new(EpochProfile::Rfc9580);
    let root = from.path("../files");
    fs::create_dir_all(&root).unwrap();
    let (repository, keys) = from.open_as(&from.alice);
    let mut ids = Vec::new();
    let mut packs = Vec::new();
    for turn in 0..3 {
        fs::write(root.join("file"), noise(turn, 300_000)).unwrap();
        let now = NOW + u32::try_from(turn).unwrap();
        let state = from.path("../state");
        ids.push(back_up(&repository, &keys, &from.alice, &state, &root, now).unwrap().0.id);
        packs.push(objects(&from, "packs"));
    }
    for pack in packs[1].difference(&packs[0]) {
        let path = from.path(pack);
        let mut bytes = fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(path, bytes).unwrap();
    }
    let to = Place::new(EpochProfile::Rfc9580);
    let (copies, _) = copy(&from, &to, &ids).unwrap();
    assert_eq!(copies.failed.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [ids[1]]);
    let copied = copies.copied.iter().map(|one| one.snapshot.original.as_ref().unwrap().id);
    assert_eq!(copied.collect::<Vec<_>>(), [ids[0], ids[2]]);
    sound(&to);
}

#[test]
fn copying_to_the_same_repository_or_without_the_role_is_refused() {
    let from = Place::new(EpochProfile::Rfc9580);
    let (_, ids) = history(&from);
    let refused = copy(&from, &from, &ids);
    assert!(matches!(&refused, Err(BackupError::Refused(why)) if why.contains("itself")));
    let to = Place::new(EpochProfile::Rfc9580);
    let bob = person("bob");
    let (repository, keys) = from.open_as(&from.alice);
    let (listed, _) = repository.snapshots(&keys, NOW).unwrap();
    let (reader, _) = repository.reader(&keys, NOW).unwrap();
    let source = CopySource { repository: repository.id(), reader: &reader, snapshots: &listed };
    let (target, keys) = to.open_as(&to.alice);
    assert!(!target.config().has_role(&name(&bob), Role::Create));
    let mut state = State::open(&to.path("../state"), target.id()).unwrap();
    let client = Some((&name(&bob), signer(&bob)));
    let refused = target.copy(&keys, client, &mut state, (&source, 1), &Arc::default(), NOW);
    assert!(matches!(refused, Err(BackupError::Refused(_))));
    assert!(objects(&to, "leases").is_empty() && objects(&to, "packs").is_empty());
}
