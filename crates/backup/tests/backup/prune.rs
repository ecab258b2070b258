//! Pruning: what is deleted, what stays, beside writers, other prunes and thieves.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use talaria_backup::{
    Backend, BackupError, BackupProgress, Change, ContentParts, EpochProfile, Expected, Extent,
    Folder, Head, Heads, Id, Keys, Node, Object, Patience, PruneOptions, Pruned, ReadData,
    Repository, Role, Snapshot, SnapshotName, State, Tree, heads,
};
use talaria_message::openpgp::Cert;

use crate::create::{back_up, noise};
use crate::people::{NOW, Place, name, person, secrets, signer, snapshot};

/// Waits for nobody: every lease is too old.
pub(crate) const AT_ONCE: PruneOptions = PruneOptions {
    max_unused: 0,
    rekey: false,
    patience: Patience { idle: 0, total: 0 },
    seen: Heads::new(),
    despite_missing: BTreeSet::new(),
};

pub(crate) type Hook = Box<dyn FnOnce() + Send>;

/// A folder with a fault or a neighbour at a chosen moment.
pub(crate) struct Hooked {
    inner: Folder,
    /// Changes that still work. Each further one fails.
    pub(crate) changes: AtomicI64,
    /// Runs once before an object with this start of its name is created.
    pub(crate) before_put: Mutex<Option<(&'static str, Hook)>>,
}

impl Hooked {
    pub(crate) fn new(place: &Place) -> Self {
        let inner = Folder::new(place.path(""));
        Self { inner, changes: AtomicI64::new(i64::MAX), before_put: Mutex::new(None) }
    }

    fn change(&self, name: &str) -> Result<(), BackupError> {
        if self.changes.fetch_sub(1, Ordering::Relaxed) > 0 {
            return Ok(());
        }
        let source = std::io::ErrorKind::ConnectionReset.into();
        Err(BackupError::Storage { name: name.into(), source })
    }
}

impl Backend for Hooked {
    fn put(&self, name: &str, parts: &[&[u8]]) -> Result<(), BackupError> {
        let hook = {
            let mut hook = self.before_put.lock().unwrap();
            hook.take_if(|(start, _)| name.starts_with(*start))
        };
        if let Some((_, hook)) = hook {
            hook();
        }
        self.change(name)?;
        self.inner.put(name, parts)
    }

    fn sync(&self) -> Result<(), BackupError> {
        self.inner.sync()
    }

    fn get(&self, name: &str, limit: u64) -> Result<Vec<u8>, BackupError> {
        self.inner.get(name, limit)
    }

    fn get_range(&self, name: &str, offset: u64, length: u64) -> Result<Vec<u8>, BackupError> {
        self.inner.get_range(name, offset, length)
    }

    fn list_each(&self, folder: &str, each: &mut dyn FnMut(Object)) -> Result<(), BackupError> {
        self.inner.list_each(folder, each)
    }

    fn lists_at_once(&self) -> bool {
        self.inner.lists_at_once()
    }

    fn delete(&self, name: &str) -> Result<(), BackupError> {
        self.change(name)?;
        self.inner.delete(name)
    }
}

/// The repository in a storage, with the keys that a person has of it.
pub(crate) fn open(backend: Arc<dyn Backend>, person: &Cert) -> (Repository, Keys) {
    let repository = Repository::open(backend, &Expected::default(), &mut |_| None, NOW).unwrap();
    let keys = repository.unlock(&mut secrets(person), &[person.fingerprint()]).unwrap();
    (repository, keys)
}

pub(crate) fn prune(
    repository: &Repository,
    keys: &Keys,
    by: &Cert,
    options: &PruneOptions,
) -> Result<Pruned, BackupError> {
    let by = (&name(by), signer(by));
    repository.prune(keys, by, options, &mut |_| Ok(0), &Arc::default(), NOW)
}

pub(crate) fn forget(repository: &Repository, keys: &Keys, ids: &[Id], by: &Cert) {
    let (listed, _) = repository.snapshots(keys, NOW).unwrap();
    let names = listed.iter().filter(|one| ids.contains(&one.id)).map(SnapshotName::of).collect();
    repository.forget(keys, &names, (&name(by), &mut signer(by)), NOW).unwrap();
}

/// Asserts that everything is there and whole, and returns the number of packs.
pub(crate) fn sound(place: &Place) -> u64 {
    let (repository, keys) = place.open_as(&place.alice);
    let checked = repository
        .check(&keys, ReadData::All, &Heads::new(), &BackupProgress::default(), NOW)
        .unwrap();
    assert!(checked.problems.is_empty(), "{checked:?}");
    checked.packs
}

pub(crate) fn objects(place: &Place, folder: &str) -> BTreeSet<String> {
    let objects = place.backend().list(folder).unwrap();
    objects.into_iter().map(|object| object.name).collect()
}

/// Three snapshots of a folder whose files change in part. The last one stays.
pub(crate) fn history(place: &Place) -> (PathBuf, Vec<Id>) {
    let root = place.path("../files");
    fs::create_dir_all(&root).unwrap();
    let root = root.canonicalize().unwrap();
    let (repository, keys) = place.open_as(&place.alice);
    let mut ids = Vec::new();
    for turn in 0..3_u64 {
        fs::write(root.join("same"), noise(1, 400_000)).unwrap();
        fs::write(root.join("changes"), noise(10 + turn, 900_000)).unwrap();
        fs::write(root.join(format!("only {turn}")), noise(20 + turn, 200_000)).unwrap();
        if turn > 0 {
            fs::remove_file(root.join(format!("only {}", turn - 1))).unwrap();
        }
        let state = place.path("../state");
        let (run, _) = back_up(&repository, &keys, &place.alice, &state, &root, NOW).unwrap();
        ids.push(run.id);
    }
    (root, ids)
}

#[test]
fn a_prune_deletes_what_only_forgotten_snapshots_needed() {
    for profile in EpochProfile::ALL {
        let place = Place::new(profile);
        let (_, ids) = history(&place);
        let (repository, keys) = place.open_as(&place.alice);
        let nothing = prune(&repository, &keys, &place.alice, &AT_ONCE).unwrap();
        assert_eq!((nothing.deleted_packs, nothing.copied_bytes), (0, 0), "{profile}");
        forget(&repository, &keys, &ids[..2], &place.alice);
        let dry = repository.prune_dry(&keys, &AT_ONCE, &BackupProgress::default(), NOW).unwrap();
        assert_eq!(objects(&place, "snapshots").len(), 3, "nothing was changed");
        let pruned = prune(&repository, &keys, &place.alice, &AT_ONCE).unwrap();
        assert_eq!((pruned.deleted_packs, pruned.snapshots), (dry.deleted_packs, 2));
        // Two of three versions are gone; of the first pack, the part that did not change was
        // copied.
        assert!(pruned.deleted_bytes > 2_200_000, "{profile}: {pruned:?}");
        assert!((400_000..500_000).contains(&pruned.copied_bytes), "{profile}: {pruned:?}");
        sound(&place);
        assert_eq!(objects(&place, "snapshots"), [format!("snapshots/{}", ids[2])].into());
        for folder in ["plans", "commits", "leases"] {
            assert!(objects(&place, folder).is_empty(), "{folder}");
        }
        let again = prune(&repository, &keys, &place.alice, &AT_ONCE).unwrap();
        assert_eq!((again.deleted_packs, again.copied_bytes), (0, 0), "{profile}");
        // The client need not store again what the prune has copied.
        let (root, state) = (place.path("../files"), place.path("../state"));
        let (_, progress) =
            back_up(&repository, &keys, &place.alice, &state, &root, NOW + 1).unwrap();
        assert!(progress.new_bytes.load(Ordering::Relaxed) < 10_000);
    }
}

#[test]
fn a_missing_snapshot_stops_a_prune_until_it_is_there_again_or_somebody_decides() {
    let place = Place::new(EpochProfile::Rfc9580);
    let (_, ids) = history(&place);
    let (repository, keys) = place.open_as(&place.alice);
    let (listed, _) = repository.snapshots(&keys, NOW).unwrap();
    let seen = PruneOptions { seen: heads(&listed), ..AT_ONCE };
    let object = |id: &Id| place.path(&format!("snapshots/{id}"));
    let aside = place.path("../aside");
    // This machine has seen the last one.
    fs::rename(object(&ids[2]), &aside).unwrap();
    let packs = objects(&place, "packs");
    let dry = repository.prune_dry(&keys, &seen, &BackupProgress::default(), NOW);
    for refused in [dry, prune(&repository, &keys, &place.alice, &seen)] {
        let Err(BackupError::Gap { id, .. }) = refused else { panic!("{refused:?}") };
        assert_eq!(id, ids[2].to_string());
    }
    assert_eq!(objects(&place, "packs"), packs);
    fs::rename(&aside, object(&ids[2])).unwrap();
    let pruned = prune(&repository, &keys, &place.alice, &seen).unwrap();
    assert_eq!((pruned.deleted_packs, pruned.missing.len()), (0, 0));
    // Only the snapshot after it names the second one: its client may be stolen, and what it wrote
    // stays.
    fs::rename(object(&ids[1]), &aside).unwrap();
    let pruned = prune(&repository, &keys, &place.alice, &seen).unwrap();
    assert_eq!((pruned.deleted_packs, pruned.missing.len()), (0, 1));
    let despite = PruneOptions { despite_missing: [ids[1]].into(), ..seen };
    assert!(prune(&repository, &keys, &place.alice, &despite).unwrap().deleted_packs > 0);
}

#[test]
fn a_thief_who_says_that_a_snapshot_is_missing_stops_no_prune_and_costs_nobody_content() {
    let place = Place::new(EpochProfile::Rfc9580);
    let (_, ids) = history(&place);
    let thief = person("thief");
    let (mut repository, keys) = place.open_as(&place.alice);
    repository.change(&keys, &Change::AddClient(&thief), &mut signer(&place.alice), NOW).unwrap();
    let (listed, _) = repository.snapshots(&keys, NOW).unwrap();
    let invented = Id([9; 32]);
    let mut claim = Snapshot { root: listed[2].snapshot.root, ..snapshot(&thief, 1, None) };
    claim.heads.insert(name(&place.alice), Head { number: 999, id: invented });
    repository.write_snapshot(&keys, &claim, Some(&mut signer(&thief)), NOW).unwrap();
    forget(&repository, &keys, &ids[..2], &place.alice);
    let pruned = prune(&repository, &keys, &place.alice, &AT_ONCE).unwrap();
    assert_eq!((pruned.missing.len(), pruned.deleted_packs, pruned.snapshots), (1, 0, 2));
    let told = pruned.missing[0].to_string();
    assert!(told.ends_with(&format!("as only client {} says", name(&thief).to_hex())), "{told}");
    // The owner ends it.
    let names = [SnapshotName::unreadable(invented)].into();
    let by = (&name(&place.alice), &mut signer(&place.alice));
    repository.forget(&keys, &names, by, NOW).unwrap();
    let pruned = prune(&repository, &keys, &place.alice, &AT_ONCE).unwrap();
    assert!(pruned.missing.is_empty() && pruned.deleted_packs > 0, "{pruned:?}");
    sound(&place);
}

#[test]
fn a_little_waste_is_left_alone() {
    let place = Place::new(EpochProfile::Rfc9580);
    let (_, ids) = history(&place);
    let (repository, keys) = place.open_as(&place.alice);
    forget(&repository, &keys, &ids[..1], &place.alice);
    let options = PruneOptions { max_unused: 90, ..AT_ONCE };
    let pruned = prune(&repository, &keys, &place.alice, &options).unwrap();
    assert_eq!(pruned.copied_bytes, 0);
    sound(&place);
}

#[test]
fn a_prune_needs_the_role_and_the_keys_of_a_reader() {
    let place = Place::new(EpochProfile::Rfc9580);
    let (_, ids) = history(&place);
    let carol = person("carol");
    let (mut repository, keys) = place.open_as(&place.alice);
    let mut change = |change: &Change<'_>| {
        repository.change(&keys, change, &mut signer(&place.alice), NOW).unwrap();
    };
    change(&Change::AddReader(&carol));
    forget(&place.open_as(&place.alice).0, &keys, &ids[..2], &place.alice);
    let (theirs, their_keys) = place.open_as(&carol);
    let refused = prune(&theirs, &their_keys, &carol, &AT_ONCE);
    assert!(matches!(refused, Err(BackupError::Refused(_))));
    change(&Change::SetRoles(&name(&carol), [Role::Prune].into()));
    let (theirs, their_keys) = place.open_as(&carol);
    let pruned = prune(&theirs, &their_keys, &carol, &AT_ONCE).unwrap();
    assert!(pruned.deleted_packs > 0 && pruned.copied_bytes > 0);
    sound(&place);
}

/// Every change of the storage is the last one before a crash. The next prune finishes, and nothing
/// is lost at any moment.
#[test]
fn a_prune_that_dies_anywhere_harms_nothing_and_the_next_one_continues() {
    let place = Place::new(EpochProfile::Rfc4880);
    let (root, ids) = history(&place);
    let copy = place.path("../copy");
    let restore_copy = || {
        let _ = fs::remove_dir_all(place.path(""));
        copy_folder(&copy, &place.path(""));
    };
    let (repository, keys) = place.open_as(&place.alice);
    forget(&repository, &keys, &ids[..2], &place.alice);
    copy_folder(&place.path(""), &copy);
    let mut steps = 0;
    loop {
        let hooked = Arc::new(Hooked::new(&place));
        hooked.changes.store(steps, Ordering::Relaxed);
        let (broken, keys) = open(hooked, &place.alice);
        let done = prune(&broken, &keys, &place.alice, &AT_ONCE);
        sound(&place);
        if done.is_ok() {
            break;
        }
        // Beside the dead one, a client backs up; packs of its plan do not count for it.
        let (repository, keys) = place.open_as(&place.alice);
        let state = place.path("../state2");
        back_up(&repository, &keys, &place.alice, &state, &root, NOW + 1).unwrap();
        sound(&place);
        prune(&repository, &keys, &place.alice, &AT_ONCE).unwrap();
        sound(&place);
        assert!(objects(&place, "plans").is_empty() && objects(&place, "commits").is_empty());
        assert_eq!(objects(&place, "snapshots").len(), 2);
        restore_copy();
        let _ = fs::remove_dir_all(place.path("../state2"));
        steps += 1;
    }
    assert!(steps > 8, "{steps}");
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Backs up a file of so many bytes more, and dies after so many changes of the storage.
fn dies_after(changes: i64, place: &Place, root: &Path, bytes: usize, (state, now): (&Path, u32)) {
    let hooked = Arc::new(Hooked::new(place));
    hooked.changes.store(changes, Ordering::Relaxed);
    let (broken, keys) = open(hooked, &place.alice);
    fs::write(root.join("more"), noise(60, bytes)).unwrap();
    assert!(back_up(&broken, &keys, &place.alice, state, root, now).is_err());
}

/// At the worst moment: the run has decided what it need not store, and a prune that does not wait
/// deletes that.
#[test]
fn a_run_whose_packs_are_pruned_stores_them_again() {
    for moment in ["indexes/", "prepared/"] {
        for changes_meanwhile in [false, true] {
            let place = Arc::new(Place::new(EpochProfile::Rfc9580));
            let (root, ids) = history(&place);
            let state = place.path("../state");
            let (repository, keys) = place.open_as(&place.alice);
            forget(&repository, &keys, &ids, &place.alice);
            let hooked = Arc::new(Hooked::new(&place));
            let (other, neighbour) = (Arc::clone(&place), root.clone());
            let hook: Hook = Box::new(move || {
                let (repository, keys) = other.open_as(&other.alice);
                let pruned = prune(&repository, &keys, &other.alice, &AT_ONCE).unwrap();
                assert!(pruned.deleted_packs > 0);
                if changes_meanwhile {
                    fs::write(neighbour.join("changes"), noise(77, 100_000)).unwrap();
                }
            });
            *hooked.before_put.lock().unwrap() = Some((moment, hook));
            fs::write(root.join("new"), noise(50, 10_000)).unwrap();
            let (broken, keys) = open(hooked, &place.alice);
            let (run, _) = back_up(&broken, &keys, &place.alice, &state, &root, NOW + 1).unwrap();
            sound(&place);
            let (listed, _) = place.open_as(&place.alice).0.snapshots(&keys, NOW).unwrap();
            assert_eq!(listed.len(), 1, "{moment}");
            assert_eq!((listed[0].id, listed[0].snapshot.number), (run.id, 4));
            assert!(objects(&place, "leases").is_empty() && objects(&place, "prepared").is_empty());
        }
    }
}

/// Nothing in the storage shows a snapshot that its run may have to give up.
#[test]
fn a_prune_keeps_what_a_run_is_about_to_publish() {
    let place = Arc::new(Place::new(EpochProfile::Rfc9580));
    let (root, ids) = history(&place);
    let (repository, keys) = place.open_as(&place.alice);
    forget(&repository, &keys, &ids, &place.alice);
    let hooked = Arc::new(Hooked::new(&place));
    let other = Arc::clone(&place);
    let hook: Hook = Box::new(move || {
        let (repository, keys) = other.open_as(&other.alice);
        assert!(repository.snapshots(&keys, NOW).unwrap().0.is_empty());
        let pruned = prune(&repository, &keys, &other.alice, &AT_ONCE).unwrap();
        assert_eq!(pruned.prepared.len(), 1);
    });
    *hooked.before_put.lock().unwrap() = Some(("snapshots/", hook));
    let (broken, keys) = open(hooked, &place.alice);
    let state = place.path("../state");
    let (run, _) = back_up(&broken, &keys, &place.alice, &state, &root, NOW + 1).unwrap();
    assert!(sound(&place) > 0);
    assert_eq!(objects(&place, "snapshots"), [format!("snapshots/{}", run.id)].into());
}

#[test]
fn a_snapshot_that_a_dead_run_prepared_keeps_its_content_until_the_next_run_or_a_tombstone() {
    for is_forgotten in [false, true] {
        let place = Place::new(EpochProfile::Rfc9580);
        let (root, _) = history(&place);
        let before = sound(&place);
        // Lease, pack, index and prepared snapshot.
        let state = place.path("../state");
        dies_after(4, &place, &root, 50_000, (&state, NOW + 1));
        assert_eq!(objects(&place, "prepared").len(), 1);
        let (repository, keys) = place.open_as(&place.alice);
        let pruned = prune(&repository, &keys, &place.alice, &AT_ONCE).unwrap();
        let id = *pruned.prepared.first().unwrap();
        assert_eq!((sound(&place), pruned.prepared.len()), (before + 1, 1));
        assert!(repository.has_object_of(&id).unwrap());
        if is_forgotten {
            let names = [SnapshotName::unreadable(id)].into();
            let by = (&name(&place.alice), &mut signer(&place.alice));
            repository.forget(&keys, &names, by, NOW).unwrap();
            let pruned = prune(&repository, &keys, &place.alice, &AT_ONCE).unwrap();
            assert!(pruned.prepared.is_empty() && pruned.deleted_packs > 0, "{pruned:?}");
            assert!(!repository.has_object_of(&id).unwrap());
        } else {
            let (run, progress) =
                back_up(&repository, &keys, &place.alice, &state, &root, NOW + 2).unwrap();
            assert!(progress.new_bytes.load(Ordering::Relaxed) < 10_000);
            assert_eq!(run.snapshot.number, 4);
        }
        assert!(objects(&place, "prepared").is_empty());
        sound(&place);
    }
}

#[test]
fn a_prune_waits_for_a_living_run_and_not_for_a_dead_one() {
    let place = Arc::new(Place::new(EpochProfile::Rfc9580));
    let (root, ids) = history(&place);
    let (repository, keys) = place.open_as(&place.alice);
    forget(&repository, &keys, &ids, &place.alice);
    let hooked = Arc::new(Hooked::new(&place));
    let other = Arc::clone(&place);
    let waits = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&waits);
    let hook: Hook = Box::new(move || {
        let (repository, keys) = other.open_as(&other.alice);
        let by = (&name(&other.alice), signer(&other.alice));
        let mut clock = 0;
        let mut wait = |runs| {
            seen.lock().unwrap().push(runs);
            clock += 100;
            // The user gives up.
            if clock > 500 { Err(BackupError::Cancelled) } else { Ok(clock) }
        };
        let options = PruneOptions { patience: Patience::default(), ..AT_ONCE };
        let cancelled = repository.prune(&keys, by, &options, &mut wait, &Arc::default(), NOW);
        assert!(matches!(cancelled, Err(BackupError::Cancelled)));
    });
    *hooked.before_put.lock().unwrap() = Some(("snapshots/", hook));
    let (broken, keys) = open(hooked, &place.alice);
    back_up(&broken, &keys, &place.alice, &place.path("../state"), &root, NOW + 1).unwrap();
    assert!(waits.lock().unwrap().contains(&1), "{waits:?}");
    sound(&place);
    // A run that died left its lease: after 15 minutes of the prune's clock, it is not waited for.
    dies_after(1, &place, &root, 50_000, (&place.path("../state3"), NOW + 2));
    assert_eq!(objects(&place, "leases").len(), 1);
    let (repository, keys) = place.open_as(&place.alice);
    let by = (&name(&place.alice), signer(&place.alice));
    let mut clock = 0;
    let mut wait = |_| {
        clock += 100;
        Ok(clock)
    };
    let options = PruneOptions { patience: Patience::default(), ..AT_ONCE };
    repository.prune(&keys, by, &options, &mut wait, &Arc::default(), NOW).unwrap();
    assert!((900..1300).contains(&clock), "{clock}");
    assert!(objects(&place, "leases").is_empty());
    sound(&place);
}

#[test]
fn the_next_run_of_a_machine_ends_the_lease_of_its_dead_one() {
    let place = Place::new(EpochProfile::Rfc9580);
    let (root, _) = history(&place);
    let state = place.path("../state");
    dies_after(1, &place, &root, 50_000, (&state, NOW + 1));
    assert_eq!(objects(&place, "leases").len(), 1);
    let (repository, keys) = place.open_as(&place.alice);
    back_up(&repository, &keys, &place.alice, &state, &root, NOW + 2).unwrap();
    assert!(objects(&place, "leases").is_empty());
}

#[test]
fn packs_of_an_interrupted_run_are_deleted_and_foreign_objects_stay() {
    let place = Place::new(EpochProfile::Rfc9580);
    let (root, _) = history(&place);
    let before = sound(&place);
    // The lease and one pack.
    dies_after(2, &place, &root, 500_000, (&place.path("../state3"), NOW + 1));
    assert_eq!(sound(&place), before + 1);
    let odd = format!("packs/ab/ab{}", "0".repeat(62));
    fs::create_dir_all(place.path("packs/ab")).unwrap();
    fs::write(place.path(&odd), "noise").unwrap();
    let (repository, keys) = place.open_as(&place.alice);
    let pruned = prune(&repository, &keys, &place.alice, &AT_ONCE).unwrap();
    assert_eq!(pruned.deleted_packs, 1);
    assert!(place.path(&odd).exists(), "nobody knows what it has");
    fs::remove_file(place.path(&odd)).unwrap();
    assert_eq!(sound(&place), before);
}

#[test]
fn prune_plans_by_clients_have_no_effect_and_plans_by_former_pruners_do() {
    let place = Place::new(EpochProfile::Rfc9580);
    let (root, ids) = history(&place);
    let carol = person("carol");
    let (mut repository, keys) = place.open_as(&place.alice);
    let mut change = |change: &Change<'_>| {
        repository.change(&keys, change, &mut signer(&place.alice), NOW).unwrap();
    };
    change(&Change::AddReader(&carol));
    change(&Change::SetRoles(&name(&carol), [Role::Prune].into()));
    let (repository2, _) = place.open_as(&place.alice);
    forget(&repository2, &keys, &ids, &place.alice);
    let dead_prune = |by: &Cert| {
        let hooked = Arc::new(Hooked::new(&place));
        // Plan and commit, and no deletion.
        hooked.changes.store(2, Ordering::Relaxed);
        let (broken, their_keys) = open(hooked, &carol);
        let by = (&name(&carol), signer(by));
        broken.prune(&their_keys, by, &AT_ONCE, &mut |_| Ok(0), &Arc::default(), NOW)
    };
    let new_bytes = |state: &str| {
        let (repository, keys) = place.open_as(&place.alice);
        let state = place.path(state);
        let run = back_up(&repository, &keys, &place.alice, &state, &root, NOW + 1).unwrap();
        run.1.new_bytes.load(Ordering::Relaxed)
    };
    // Somebody else signs in her name.
    let mallory = person("mallory");
    assert!(dead_prune(&mallory).is_err());
    assert_eq!(objects(&place, "plans").len(), 1);
    assert!(new_bytes("../state") < 10_000, "the plan does not count");
    fs::remove_dir_all(place.path("plans")).unwrap();
    let _ = fs::remove_dir_all(place.path("commits"));
    let (listed, _) = place.open_as(&place.alice).0.snapshots(&keys, NOW).unwrap();
    let again: Vec<Id> = listed.iter().map(|one| one.id).collect();
    forget(&repository2, &keys, &again, &place.alice);
    assert!(dead_prune(&carol).is_err());
    assert_eq!((objects(&place, "plans").len(), objects(&place, "commits").len()), (1, 1));
    // Her role ends; her prune may still be going on.
    change(&Change::SetRoles(&name(&carol), BTreeSet::new()));
    assert!(new_bytes("../state5") > 1_000_000);
    sound(&place);
    let (repository, keys) = place.open_as(&place.alice);
    prune(&repository, &keys, &place.alice, &AT_ONCE).unwrap();
    sound(&place);
}

#[test]
fn a_snapshot_that_cannot_be_read_stops_a_prune_until_it_is_forgotten() {
    let place = Place::new(EpochProfile::Rfc9580);
    let (_, ids) = history(&place);
    let (repository, keys) = place.open_as(&place.alice);
    forget(&repository, &keys, &ids[..1], &place.alice);
    let path = place.path(&format!("snapshots/{}", ids[1]));
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&path, bytes).unwrap();
    let before = objects(&place, "packs");
    let refused = prune(&repository, &keys, &place.alice, &AT_ONCE).unwrap_err().to_string();
    assert!(refused.contains(&ids[1].to_string()) && refused.contains("forget"), "{refused}");
    assert_eq!(objects(&place, "packs"), before);
    let names = [SnapshotName::unreadable(ids[1])].into();
    repository
        .forget(&keys, &names, (&name(&place.alice), &mut signer(&place.alice)), NOW)
        .unwrap();
    assert!(prune(&repository, &keys, &place.alice, &AT_ONCE).unwrap().deleted_packs > 0);
    assert_eq!(objects(&place, "snapshots").len(), 1);
}

#[test]
fn a_pack_with_a_damaged_chunk_that_is_needed_stays_and_is_named() {
    let place = Place::new(EpochProfile::Rfc9580);
    let (root, ids) = history(&place);
    let (repository, keys) = place.open_as(&place.alice);
    forget(&repository, &keys, &ids[..2], &place.alice);
    // The first pack has the part that did not change, and is to be copied.
    let dry = repository.prune_dry(&keys, &AT_ONCE, &BackupProgress::default(), NOW).unwrap();
    assert!((400_000..500_000).contains(&dry.copied_bytes), "{dry:?}");
    // The largest chunk of the file that did not change.
    let (listed, _) = repository.snapshots(&keys, NOW).unwrap();
    let (reader, _) = repository.reader(&keys, NOW).unwrap();
    let path = root.join("same").to_str().unwrap().as_bytes()[1..].to_vec();
    let entry = Tree::new(&reader, listed[0].snapshot.root).get(&path).unwrap().unwrap();
    let Node::File { content, .. } = entry.node else { panic!("it is a file") };
    let parts = ContentParts::new(&reader, content).map(Result::unwrap);
    let (length, chunk) = parts
        .filter_map(|part| match part {
            Extent::Data { id, length, .. } => Some((length, id)),
            _ => None,
        })
        .max()
        .unwrap();
    assert!(length > 3 << 16, "a whole AEAD chunk is in its middle");
    let indexes = objects(&place, "indexes").into_iter();
    let packs = indexes.flat_map(|name| repository.read_index(&keys, &name, NOW).unwrap());
    let found = packs.flat_map(|pack| pack.chunks.into_iter().map(move |one| (pack.hash, one)));
    let (hash, stored) = found.into_iter().find(|(_, one)| one.id == chunk).unwrap();
    let hash = hash.to_string();
    let damaged = format!("packs/{}/{hash}", &hash[..2]);
    let mut bytes = fs::read(place.path(&damaged)).unwrap();
    // Somewhat later than in the content, since there are tags in between.
    let middle = usize::try_from(stored.offset + u64::from(stored.stored) / 2).unwrap() + 500;
    bytes[middle] ^= 1;
    fs::write(place.path(&damaged), bytes).unwrap();
    let before = objects(&place, "packs");
    let pruned = prune(&repository, &keys, &place.alice, &AT_ONCE).unwrap();
    let kept: Vec<_> = pruned.kept.iter().map(|one| &one.object).collect();
    assert_eq!(kept, [&damaged], "{pruned:?}");
    assert!(pruned.kept.iter().all(|one| one.why.contains(&chunk.to_string())), "{pruned:?}");
    // The others are gone, and what is good of this one was copied.
    let after = objects(&place, "packs");
    assert_eq!(pruned.deleted_packs, dry.deleted_packs - 1);
    assert!(
        after.contains(&damaged)
            && before.difference(&after).count() as u64 == pruned.deleted_packs
    );
    let checked = repository
        .check(&keys, ReadData::All, &Heads::new(), &BackupProgress::default(), NOW)
        .unwrap();
    let objects_of: BTreeSet<_> = checked.problems.iter().map(|one| &*one.object).collect();
    let file = format!("snapshots/{}: {}", ids[2], String::from_utf8(path).unwrap());
    assert_eq!(objects_of, [&*damaged, &*file].into());
    // The next run stores again what counts as absent, and then the pack can go.
    let state = place.path("../state9");
    back_up(&repository, &keys, &place.alice, &state, &root, NOW + 1).unwrap();
    let pruned = prune(&repository, &keys, &place.alice, &AT_ONCE).unwrap();
    assert!(pruned.kept.is_empty() && !place.path(&damaged).exists(), "{pruned:?}");
    sound(&place);
}

#[test]
fn rekeying_leaves_no_pack_for_the_old_keys() {
    for profile in [EpochProfile::Rfc9580, EpochProfile::Rfc4880] {
        let place = Place::new(profile);
        let bob = person("bob");
        let (mut repository, keys) = place.open_as(&place.alice);
        let change = |repository: &mut Repository, change: &Change<'_>| {
            repository.change(&keys, change, &mut signer(&place.alice), NOW).unwrap();
        };
        change(&mut repository, &Change::AddReader(&bob));
        let (root, _) = history(&place);
        let old_keys = place.open_as(&bob).1;
        change(&mut repository, &Change::Remove(&name(&bob)));
        let (repository, keys) = place.open_as(&place.alice);
        let before = objects(&place, "packs");
        let nothing = prune(&repository, &keys, &place.alice, &AT_ONCE).unwrap();
        assert_eq!(nothing.deleted_packs, 0);
        // A removed reader who kept the keys can still read everything.
        let readable = |keys: &Keys| {
            let checked = repository
                .check(keys, ReadData::All, &Heads::new(), &BackupProgress::default(), NOW)
                .unwrap();
            checked.problems.iter().filter(|one| one.object.starts_with("packs/")).count()
        };
        assert_eq!(readable(&old_keys), 0);
        let options = PruneOptions { rekey: true, ..AT_ONCE };
        let pruned = prune(&repository, &keys, &place.alice, &options).unwrap();
        assert_eq!(pruned.deleted_packs, before.len() as u64, "{profile}");
        let after = objects(&place, "packs");
        assert!(after.is_disjoint(&before));
        assert_eq!(readable(&old_keys), after.len());
        sound(&place);
        let again = prune(&repository, &keys, &place.alice, &options).unwrap();
        assert_eq!(again.deleted_packs, 0);
        let state = place.path("../state");
        let (_, progress) =
            back_up(&repository, &keys, &place.alice, &state, &root, NOW + 1).unwrap();
        assert!(progress.new_bytes.load(Ordering::Relaxed) < 10_000, "{profile}");
    }
}

#[test]
fn two_clients_back_up_while_a_third_prunes() {
    let place = Arc::new(Place::new(EpochProfile::Rfc4880));
    let carol = person("carol");
    let (mut repository, keys) = place.open_as(&place.alice);
    repository.change(&keys, &Change::AddClient(&carol), &mut signer(&place.alice), NOW).unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = [("alice", place.alice.clone()), ("carol", carol)]
            .into_iter()
            .map(|(who, cert)| {
                let place = Arc::clone(&place);
                scope.spawn(move || {
                    let root = place.path(&format!("../{who}"));
                    fs::create_dir_all(&root).unwrap();
                    for turn in 0..12_u64 {
                        // The content of forgotten snapshots returns, and its packs may be planned.
                        fs::write(root.join("file"), noise(turn % 3, 300_000)).unwrap();
                        let (repository, keys) = place.open_as(&cert);
                        let state = place.path(&format!("../state of {who}"));
                        let now = NOW + u32::try_from(turn).unwrap();
                        back_up(&repository, &keys, &cert, &state, &root, now).unwrap();
                    }
                })
            })
            .collect();
        let pruner = scope.spawn(|| {
            let mut deleted = 0;
            while !stop.load(Ordering::Relaxed) {
                let (repository, keys) = place.open_as(&place.alice);
                let (listed, _) = repository.snapshots(&keys, NOW).unwrap();
                let mut newest = std::collections::BTreeMap::new();
                for one in &listed {
                    let number = newest.entry(one.snapshot.client.clone()).or_insert(0);
                    *number = one.snapshot.number.max(*number);
                }
                let old =
                    listed.iter().filter(|one| newest[&one.snapshot.client] != one.snapshot.number);
                let old: Vec<Id> = old.map(|one| one.id).collect();
                forget(&repository, &keys, &old, &place.alice);
                // Half of the prunes wait for nobody.
                let idle = if deleted % 2 == 0 { 0 } else { 60 };
                let options = PruneOptions { patience: Patience { idle, total: idle }, ..AT_ONCE };
                let by = (&name(&place.alice), signer(&place.alice));
                let mut clock = 0;
                let mut wait = |runs| {
                    if runs > 0 {
                        std::thread::sleep(std::time::Duration::from_millis(5));
                        clock += 1;
                    }
                    Ok(clock)
                };
                match repository.prune(&keys, by, &options, &mut wait, &Arc::default(), NOW) {
                    Ok(pruned) => deleted += pruned.deleted_packs,
                    // A run has not yet stored again what was pruned under it.
                    Err(BackupError::Refused(_)) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            deleted
        });
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        stop.store(true, Ordering::Relaxed);
        assert!(pruner.join().unwrap() > 0);
    });
    sound(&place);
    let (repository, keys) = place.open_as(&place.alice);
    let (listed, _) = repository.snapshots(&keys, NOW).unwrap();
    assert!(listed.len() >= 2);
    let _ = State::open(&place.path("../state of carol"), repository.id()).unwrap();
}
