//! Repair: what is damaged, what comes back, and that nothing good is ever lost.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use talaria_backup::{
    BackupProgress, Change, EpochProfile, Heads, Id, ReadData, RepairOptions, Repaired,
    RestoreOptions, Tree, restore,
};

use crate::create::{back_up, noise};
use crate::people::{NOW, Place, name, person, signer};

/// Contents by path.
type Files = BTreeMap<String, Vec<u8>>;

/// All objects in a folder and its folders.
fn objects(place: &Place, folder: &str) -> Files {
    let (mut open, mut found) = (vec![place.path(folder)], Files::new());
    while let Some(path) = open.pop() {
        for entry in fs::read_dir(&path).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                let name = path.strip_prefix(place.path("")).unwrap().to_str().unwrap().to_owned();
                found.insert(name, fs::read(path).unwrap());
            }
        }
    }
    found
}

/// Two snapshots; only the first has the file "old", which is in no folder any more.
fn history(place: &Place) -> (PathBuf, Vec<(Id, Files)>) {
    let root = place.path("../files");
    fs::create_dir_all(&root).unwrap();
    let root = root.canonicalize().unwrap();
    let mut made = Vec::new();
    fs::write(root.join("old"), noise(1, 700_000)).unwrap();
    fs::write(root.join("same"), noise(2, 900_000)).unwrap();
    for turn in 0..2_u64 {
        fs::write(root.join("new"), noise(5 + turn, 300_000)).unwrap();
        let id = create(place, &root, u32::try_from(turn).unwrap());
        made.push((id, files_in(&root)));
        let _ = fs::remove_file(root.join("old"));
    }
    (root, made)
}

fn files_in(folder: &Path) -> Files {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    entries.map(|path| (name(&path), fs::read(&path).unwrap())).collect()
}

fn create(place: &Place, root: &Path, turn: u32) -> Id {
    let (repository, keys) = place.open_as(&place.alice);
    let state = place.path("../state");
    back_up(&repository, &keys, &place.alice, &state, root, NOW + turn).unwrap().0.id
}

/// The files of a snapshot that come back whole.
fn restored(place: &Place, id: Id, root: &Path) -> Files {
    let (repository, keys) = place.open_as(&place.alice);
    let (listed, _) = repository.snapshots(&keys, NOW + 9).unwrap();
    let listed = listed.iter().find(|one| one.id == id).unwrap();
    let (reader, _) = repository.reader(&keys, NOW + 9).unwrap();
    let target = place.path("../restored");
    let _ = fs::remove_dir_all(&target);
    let subfolder = root.to_str().unwrap().as_bytes()[1..].to_vec();
    let options = RestoreOptions { subfolder, threads: 2, ..RestoreOptions::default() };
    let tree = Tree::new(&reader, listed.snapshot.root);
    match restore(&tree, &target, &options, &BackupProgress::default(), &|_, _| {}) {
        Ok(_) => files_in(&target),
        Err(_) => Files::new(),
    }
}

fn repair(place: &Place, options: RepairOptions) -> Repaired {
    let (repository, keys) = place.open_as(&place.alice);
    let before = objects(place, "");
    let progress = BackupProgress::default();
    let dry = repository.repair_dry(&keys, &options, &Heads::new(), &progress, NOW).unwrap();
    assert_eq!(objects(place, ""), before, "a dry run changes nothing");
    let by = (&name(&place.alice), signer(&place.alice));
    let seen = Heads::new();
    let done = repository.repair(&keys, by, &options, &seen, &Arc::default(), NOW).unwrap();
    assert_eq!((dry.indexed, &dry.damaged), (done.indexed, &done.damaged));
    assert_eq!(
        (dry.set_aside, &dry.checked.problems),
        (done.set_aside.clone(), &done.checked.problems)
    );
    // Nothing that was there is gone: it is where it was, or in the folder for what was set aside.
    let after = objects(place, "");
    for (name, content) in before {
        let aside = format!("set-aside/{name}");
        let place = if done.set_aside.contains(&name) { &aside } else { &name };
        assert!(after.get(place) == Some(&content), "{name}");
    }
    done
}

const READ: RepairOptions = RepairOptions { read: ReadData::All, set_aside: false };

fn sound(place: &Place) {
    let (repository, keys) = place.open_as(&place.alice);
    let progress = BackupProgress::default();
    let checked =
        repository.check(&keys, ReadData::All, &Heads::new(), &progress, NOW + 9).unwrap();
    assert!(checked.problems.is_empty(), "{checked:?}");
}

/// Changes a byte in the middle of an object.
fn flip(place: &Place, name: &str) {
    let path = place.path(name);
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_whole_repository_needs_no_repair() {
    let place = Place::new(EpochProfile::Rfc9580);
    history(&place);
    let before = objects(&place, "");
    let done = repair(&place, RepairOptions { set_aside: true, ..READ });
    assert!(done.checked.problems.is_empty() && done.damaged.is_empty() && done.indexed == 0);
    assert_eq!(objects(&place, ""), before);
}

#[test]
fn missing_and_damaged_indexes_are_rebuilt() {
    for profile in [EpochProfile::Rfc9580, EpochProfile::Rfc4880, EpochProfile::None] {
        for set_aside in [false, true] {
            for is_gone in [true, false] {
                let place = Place::new(profile);
                let (root, made) = history(&place);
                for name in objects(&place, "indexes").keys() {
                    if is_gone {
                        fs::remove_file(place.path(name)).unwrap();
                    } else {
                        flip(&place, name);
                    }
                }
                assert!(restored(&place, made[0].0, &root).is_empty());
                let done = repair(&place, RepairOptions { set_aside, ..RepairOptions::default() });
                assert!(done.indexed >= 2 && done.damaged.is_empty(), "{profile}: {done:?}");
                assert_eq!(done.set_aside.is_empty(), is_gone || !set_aside, "{done:?}");
                for (id, files) in &made {
                    assert!(restored(&place, *id, &root) == *files, "{profile}");
                }
                if set_aside || is_gone {
                    sound(&place);
                }
                // A client of the repository relies on what the reader has indexed.
                let packs = objects(&place, "packs").len();
                create(&place, &root, 3);
                assert!(objects(&place, "packs").len() <= packs + 1);
            }
        }
    }
}

#[test]
fn lost_packs_are_stored_again_from_files_and_lost_files_are_named() {
    let place = Place::new(EpochProfile::Rfc9580);
    let (root, made) = history(&place);
    let (first, second) = (&made[0], &made[1]);
    for name in objects(&place, "packs").keys() {
        fs::remove_file(place.path(name)).unwrap();
    }
    let done = repair(&place, RepairOptions::default());
    // Trees are lost, too.
    for (id, _) in &made {
        let object = format!("snapshots/{id}");
        let found = done.checked.problems.iter().any(|one| one.object == object);
        assert!(found, "{done:?}");
    }
    let third = create(&place, &root, 3);
    assert!(restored(&place, third, &root) == second.1);
    let lost = repair(&place, READ);
    let names = |done: &Repaired, id: Id, file: &str| {
        let end = format!("/{file}");
        let id = format!("snapshots/{id}: ");
        let mut problems = done.checked.problems.iter();
        problems.any(|one| one.object.starts_with(&id) && one.object.ends_with(&end))
    };
    assert!(!names(&lost, third, "new") && !names(&lost, third, "same"));
    let comes_back = |id: Id| restored(&place, id, &root);
    assert!(!comes_back(first.0).contains_key("old"));
}

#[test]
fn the_good_part_of_a_damaged_pack_stays_and_the_rest_is_stored_again() {
    for set_aside in [false, true] {
        let place = Place::new(EpochProfile::Rfc9580);
        let (root, made) = history(&place);
        let packs = objects(&place, "packs");
        // The first pack has "old" and "same", and one chunk of it is hit.
        let (largest, _) = packs.iter().max_by_key(|(_, bytes)| bytes.len()).unwrap();
        flip(&place, largest);
        let good: Vec<Files> = made.iter().map(|(id, _)| restored(&place, *id, &root)).collect();
        let whole = |at: usize, name: &str| good[at].get(name) == made[at].1.get(name);
        assert!(!whole(0, "old") || !whole(0, "same") || !whole(0, "new"));
        let done = repair(&place, RepairOptions { set_aside, ..READ });
        assert_eq!(done.damaged.len(), 1, "{done:?}");
        assert_eq!(done.set_aside.contains(largest), set_aside, "{done:?}");
        assert_eq!(done.copied_bytes > 0, set_aside);
        let named = done.checked.problems.iter().filter(|one| one.object.starts_with("snapshots/"));
        assert!(named.count() >= 1, "{done:?}");
        // Good content stays good.
        for (at, (id, files)) in made.iter().enumerate() {
            let now = restored(&place, *id, &root);
            for name in files.keys().filter(|name| whole(at, name)) {
                assert!(now[name] == files[name], "{name}");
            }
        }
        // Everything that the machine still has comes back, in the old snapshots, too.
        fs::write(root.join("old"), noise(1, 700_000)).unwrap();
        let third = create(&place, &root, 3);
        for (id, files) in &made {
            assert!(restored(&place, *id, &root) == *files, "{set_aside}");
        }
        assert_eq!(restored(&place, third, &root).len(), 3);
        if set_aside {
            sound(&place);
        }
    }
}

#[test]
fn a_truncated_pack_is_found_without_reading_the_others() {
    let place = Place::new(EpochProfile::LibrePgp);
    let (root, made) = history(&place);
    let packs = objects(&place, "packs");
    let (largest, bytes) = packs.iter().max_by_key(|(_, bytes)| bytes.len()).unwrap();
    fs::write(place.path(largest), &bytes[..bytes.len() / 2]).unwrap();
    let done = repair(&place, RepairOptions { set_aside: true, ..RepairOptions::default() });
    assert_eq!((done.checked.packs_read, done.set_aside.len()), (1, 1), "{done:?}");
    // The tree of the first snapshot was at the end of the pack.
    let object = format!("snapshots/{}", made[0].0);
    assert!(done.checked.problems.iter().any(|one| one.object == object), "{done:?}");
    let third = create(&place, &root, 3);
    for id in [made[1].0, third] {
        assert!(restored(&place, id, &root) == made[1].1);
    }
}

#[test]
fn a_repair_needs_the_role_and_the_keys_of_a_reader() {
    let place = Place::new(EpochProfile::Rfc9580);
    history(&place);
    let (bob, carol) = (person("bob"), person("carol"));
    let (mut repository, keys) = place.open_as(&place.alice);
    for change in [Change::AddReader(&bob), Change::AddClient(&carol)] {
        repository.change(&keys, &change, &mut signer(&place.alice), NOW).unwrap();
    }
    for who in [&bob, &carol] {
        let (repository, keys) = place.open_as(who);
        let by = (&name(who), signer(who));
        let seen = Heads::new();
        let refused = repository.repair(&keys, by, &READ, &seen, &Arc::default(), NOW);
        assert!(refused.unwrap_err().to_string().contains("role"));
    }
}

/// A prune in the meantime takes the damaged pack away once everything needed of it is elsewhere.
#[test]
fn a_damaged_pack_goes_with_the_next_prune_after_its_content_was_stored_again() {
    let place = Place::new(EpochProfile::Rfc9580);
    let (root, made) = history(&place);
    let packs = objects(&place, "packs");
    let (largest, _) = packs.iter().max_by_key(|(_, bytes)| bytes.len()).unwrap();
    flip(&place, largest);
    repair(&place, READ);
    let prune = || {
        let (repository, keys) = place.open_as(&place.alice);
        let by = (&name(&place.alice), signer(&place.alice));
        let options = talaria_backup::PruneOptions {
            patience: talaria_backup::Patience { idle: 0, total: 0 },
            ..Default::default()
        };
        repository.prune(&keys, by, &options, &mut |_| Ok(0), &Arc::default(), NOW).unwrap()
    };
    // The lost content is needed: the pack stays and is reported.
    let pruned = prune();
    assert!(pruned.kept.iter().any(|one| one.object == *largest), "{pruned:?}");
    assert!(place.path(largest).exists());
    fs::write(root.join("old"), noise(1, 700_000)).unwrap();
    create(&place, &root, 3);
    let pruned = prune();
    assert!(pruned.kept.is_empty() && !place.path(largest).exists(), "{pruned:?}");
    for (id, files) in &made {
        assert!(restored(&place, *id, &root) == *files);
    }
    sound(&place);
}
