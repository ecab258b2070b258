//! A storage that fails, forgets and is behind, and runs on it.
//!
//! One seed decides every fault; a failure prints it. `TALARIA_BACKUP_SEEDS` sets the number of
//! seeds.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use talaria_backup::{
    Backend, BackupError, BackupProgress, EpochProfile, Heads, InitOptions, Keys, LocalCopies,
    Object, Patience, PruneOptions, Pruned, ReadData, Repository, RestoreOptions, SnapshotName,
    Tree, restore,
};
use talaria_message::openpgp::Cert;

use crate::create::{back_up, noise};
use crate::people::{NOW, name, person, secrets, signer};

/// How often a storage fails, in thousandths of the calls of each kind.
#[derive(Clone, Copy, Default)]
struct Rates {
    /// Nothing happens, and the call fails.
    before: u64,
    /// The object is created or deleted, and the call fails all the same.
    after: u64,
    /// An object that was created since the last crash is not listed.
    unlisted: u64,
    /// The storage says that its lists can be late.
    admits_late_lists: bool,
    /// An object replaces another of its name.
    replaced: u64,
    /// From this call on, the storage fails until the crash.
    dead: u64,
    /// A bit of what is read is flipped on its way.
    flipped: u64,
}

/// Objects in memory, with faults.
#[derive(Default)]
struct Faulty(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    random: u64,
    rates: Rates,
    is_dead: bool,
    objects: BTreeMap<String, Arc<Vec<u8>>>,
    /// Names that a crash can lose.
    volatile: BTreeSet<String>,
    /// Names that were created since the last crash.
    young: BTreeSet<String>,
    faults: u64,
}

impl Inner {
    fn happens(&mut self, thousandths: u64) -> bool {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let happens = (self.random >> 20) % 1000 < thousandths;
        self.faults += u64::from(happens);
        happens
    }

    fn fail<T>(name: &str) -> Result<T, BackupError> {
        let source = io::Error::new(io::ErrorKind::ConnectionReset, "a simulated fault");
        Err(BackupError::Storage { name: name.to_owned(), source })
    }

    /// The action before every call.
    fn begin(&mut self, name: &str) -> Result<(), BackupError> {
        self.is_dead |= self.happens(self.rates.dead);
        if self.is_dead || self.happens(self.rates.before) { Self::fail(name) } else { Ok(()) }
    }

    /// The action after every call with an effect.
    fn end(&mut self, name: &str) -> Result<(), BackupError> {
        if self.happens(self.rates.after) { Self::fail(name) } else { Ok(()) }
    }
}

impl Faulty {
    fn new(seed: u64) -> Arc<Self> {
        let random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        Arc::new(Self(Mutex::new(Inner { random, ..Inner::default() })))
    }

    fn inner(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.0.lock().unwrap()
    }

    fn set(&self, rates: Rates) {
        self.inner().rates = rates;
    }

    /// A power loss: each object that was not synced is there or not.
    fn crash(&self) {
        let mut inner = self.inner();
        for name in std::mem::take(&mut inner.volatile) {
            if inner.happens(500) {
                inner.objects.remove(&name);
            }
        }
        inner.young.clear();
        inner.is_dead = false;
    }
}

impl Backend for Faulty {
    fn put(&self, name: &str, parts: &[&[u8]]) -> Result<(), BackupError> {
        let mut inner = self.inner();
        inner.begin(name)?;
        let replaced = inner.rates.replaced;
        if inner.objects.contains_key(name) && !inner.happens(replaced) {
            return Err(BackupError::Exists { name: name.into() });
        }
        inner.objects.insert(name.into(), Arc::new(parts.concat()));
        inner.volatile.insert(name.into());
        inner.young.insert(name.into());
        inner.end(name)
    }

    fn sync(&self) -> Result<(), BackupError> {
        let mut inner = self.inner();
        inner.begin("sync")?;
        inner.volatile.clear();
        inner.end("sync")
    }

    fn get(&self, name: &str, limit: u64) -> Result<Vec<u8>, BackupError> {
        let bytes = self.get_range(name, 0, u64::MAX)?;
        if bytes.len() as u64 > limit {
            return Err(BackupError::Damaged { name: name.into(), why: "it is too large".into() });
        }
        Ok(bytes)
    }

    fn get_range(&self, name: &str, offset: u64, length: u64) -> Result<Vec<u8>, BackupError> {
        let mut inner = self.inner();
        inner.begin(name)?;
        let object = inner.objects.get(name);
        let object = object.ok_or_else(|| BackupError::Missing { name: name.into() })?;
        let at = |byte: u64| usize::try_from(byte).unwrap_or(usize::MAX).min(object.len());
        let mut bytes = object[at(offset)..at(offset.saturating_add(length))].to_vec();
        let flipped = inner.rates.flipped;
        if inner.happens(flipped)
            && let Some(byte) = bytes.last_mut()
        {
            *byte ^= 1;
        }
        Ok(bytes)
    }

    fn list_each(&self, folder: &str, each: &mut dyn FnMut(Object)) -> Result<(), BackupError> {
        let mut inner = self.inner();
        inner.begin(folder)?;
        let start = format!("{folder}/");
        let mut objects: Vec<Object> = inner
            .objects
            .iter()
            .filter(|(name, _)| name.starts_with(&start))
            .map(|(name, object)| Object { name: name.clone(), bytes: object.len() as u64 })
            .collect();
        let unlisted = inner.rates.unlisted;
        objects.retain(|object| !(inner.young.contains(&object.name) && inner.happens(unlisted)));
        // Somebody who is told of an object may ask for it.
        drop(inner);
        objects.into_iter().for_each(each);
        Ok(())
    }

    fn lists_at_once(&self) -> bool {
        !self.inner().rates.admits_late_lists
    }

    fn delete(&self, name: &str) -> Result<(), BackupError> {
        let mut inner = self.inner();
        inner.begin(name)?;
        inner.objects.remove(name);
        inner.end(name)
    }
}

/// A repository of Alice on a faulty storage.
struct Place {
    storage: Arc<Faulty>,
    alice: Cert,
    folder: tempfile::TempDir,
}

impl Place {
    fn new(alice: &Cert, seed: u64) -> Self {
        let place = Self {
            storage: Faulty::new(seed),
            alice: alice.clone(),
            folder: tempfile::tempdir().unwrap(),
        };
        place.init().unwrap();
        place
    }

    fn init(&self) -> Result<Repository, BackupError> {
        let readers = std::slice::from_ref(&self.alice);
        let options = InitOptions {
            owner: &self.alice,
            readers,
            profile: EpochProfile::Rfc9580,
            signed: true,
        };
        Repository::init(self.backend(), &options, &mut signer(&self.alice), NOW)
    }

    fn backend(&self) -> Arc<dyn Backend> {
        Arc::clone(&self.storage) as Arc<dyn Backend>
    }

    fn open(&self) -> Result<(Repository, Keys), BackupError> {
        let expected = talaria_backup::Expected::default();
        let repository = Repository::open(self.backend(), &expected, &mut |_| None, NOW)?;
        let keys = repository.unlock(&mut secrets(&self.alice), &[name(&self.alice)])?;
        Ok((repository, keys))
    }

    fn source(&self) -> std::path::PathBuf {
        self.folder.path().canonicalize().unwrap().join("files")
    }

    /// Changes some files. The same turn of the same seed makes the same change.
    fn change(&self, seed: u64, turn: u64) -> Files {
        let root = self.source();
        fs::create_dir_all(root.join("deep")).unwrap();
        for number in 0..8 {
            let which = seed.wrapping_mul(31).wrapping_add(turn * 7 + number);
            if turn == 0 || which.is_multiple_of(3) {
                let length = usize::try_from(which * 7919 % 9000).unwrap();
                // One file has several chunks.
                let length = if number == 0 { 400_000 + length } else { length };
                fs::write(root.join(format!("deep/{number}")), noise(which, length)).unwrap();
            }
        }
        read(&root.join("deep"))
    }

    fn create(&self, now: u32) -> Result<String, BackupError> {
        let (repository, keys) = self.open()?;
        let state = self.folder.path().join("state");
        let run = back_up(&repository, &keys, &self.alice, &state, &self.source(), now)?;
        assert!(run.0.seen.unread.is_empty(), "{:?}", run.0.seen.unread);
        Ok(run.0.id.to_string())
    }

    /// Forgets all snapshots but this one, and prunes. The storage fails during the prune only.
    fn prune(&self, newest: &str, rates: Rates) -> Result<Pruned, BackupError> {
        let (repository, keys) = self.open()?;
        let (listed, _) = repository.snapshots(&keys, NOW)?;
        let old = listed.iter().filter(|one| one.id.to_string() != newest);
        let old: BTreeSet<_> = old.map(SnapshotName::of).collect();
        if !old.is_empty() {
            let by = (&name(&self.alice), &mut signer(&self.alice));
            repository.forget(&keys, &old, by, NOW)?;
        }
        let options = PruneOptions {
            max_unused: 0,
            patience: Patience { idle: 0, total: 0 },
            ..PruneOptions::default()
        };
        let by = (&name(&self.alice), signer(&self.alice));
        self.storage.set(rates);
        let pruned = repository.prune(&keys, by, &options, &mut |_| Ok(0), &Arc::default(), NOW);
        self.storage.set(Rates::default());
        pruned
    }

    /// The files of a snapshot; an error, or `None` if a part of it was not restored.
    fn restore(&self, id: &str) -> Result<Option<Files>, BackupError> {
        let (repository, keys) = self.open()?;
        let (listed, _) = repository.snapshots(&keys, NOW)?;
        let Some(listed) = listed.iter().find(|listed| listed.id.to_string() == id) else {
            return Err(BackupError::Missing { name: id.to_owned() });
        };
        let (reader, _) = repository.reader(&keys, NOW)?;
        let target = self.folder.path().join("restored");
        let _ = fs::remove_dir_all(&target);
        let subfolder = self.source().join("deep").into_os_string().into_encoded_bytes();
        let options = RestoreOptions {
            subfolder: subfolder[1..].to_vec(),
            threads: 2,
            ..RestoreOptions::default()
        };
        let tree = Tree::new(&reader, listed.snapshot.root);
        let report = restore(&tree, &target, &options, &BackupProgress::default(), &|_, _| {})?;
        let files = read(&target);
        Ok((report.failed == 0).then_some(files))
    }

    fn problems(&self) -> Vec<String> {
        let (repository, keys) = self.open().unwrap();
        let progress = BackupProgress::default();
        let checked = repository.check(&keys, ReadData::All, &Heads::new(), &progress, NOW);
        let problems = checked.unwrap().problems;
        problems.into_iter().map(|problem| format!("{}: {}", problem.object, problem.why)).collect()
    }
}

/// Files of a folder, by name.
type Files = BTreeMap<String, Vec<u8>>;

fn read(folder: &Path) -> Files {
    let mut files = Files::new();
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        files.insert(entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap());
    }
    files
}

fn seeds(default: u64) -> std::ops::Range<u64> {
    let given = std::env::var("TALARIA_BACKUP_SEEDS").ok().and_then(|text| text.parse().ok());
    0..given.unwrap_or_else(|| talaria_needs::short_or_full(default, 200))
}

fn is_fault(error: &BackupError) -> bool {
    matches!(error, BackupError::Storage { .. })
}

/// Whatever fails, a snapshot that was reported as made is there, whole, and nothing else counts as
/// damage.
#[test]
fn a_finished_snapshot_survives_every_fault() {
    let alice = person("alice");
    let (mut finished_runs, mut failed_runs, mut faults) = (0, 0, 0);
    for seed in seeds(24) {
        let place = Place::new(&alice, seed);
        let mut finished: Vec<(String, Files)> = Vec::new();
        for turn in 0..6 {
            let files = place.change(seed, turn);
            let harsh = u64::from(turn % 3 == 2);
            place.storage.set(Rates {
                before: 8 + 60 * harsh,
                after: 8,
                dead: 10 * (1 - harsh),
                ..Rates::default()
            });
            let created = place.create(NOW + u32::try_from(turn).unwrap());
            place.storage.set(Rates::default());
            match created {
                Ok(id) => finished.push((id, files)),
                Err(error) => {
                    failed_runs += 1;
                    assert!(is_fault(&error), "seed {seed}, turn {turn}: {error}");
                }
            }
            if seed % 2 == 0 || turn % 2 == 1 {
                place.storage.crash();
            }
            place.storage.inner().is_dead = false;
            // Another machine, or one whose disk was replaced.
            if (seed + turn) % 5 == 0 {
                let _ = fs::remove_dir_all(place.folder.path().join("state"));
            }
        }
        place.storage.crash();
        let problems = place.problems();
        assert!(problems.is_empty(), "seed {seed}: {problems:?}");
        for (number, (id, files)) in finished.iter().enumerate() {
            let restored = place.restore(id).unwrap();
            assert!(restored.as_ref() == Some(files), "seed {seed}: snapshot {number}");
            // While the storage fails, a restore says so, or everything is right.
            place.storage.set(Rates { before: 40, ..Rates::default() });
            match place.restore(id) {
                Ok(Some(restored)) => assert!(restored == *files, "seed {seed}: {number}"),
                Ok(None) => {}
                // An index that could not be read hides chunks.
                Err(BackupError::Missing { .. }) => {}
                Err(error) => assert!(is_fault(&error), "seed {seed}: {error}"),
            }
            place.storage.set(Rates::default());
        }
        // And the next run continues.
        let files = place.change(seed, 9);
        let id = place.create(NOW + 9).unwrap();
        assert!(place.restore(&id).unwrap() == Some(files), "seed {seed}");
        finished_runs += finished.len();
        faults += place.storage.inner().faults;
    }
    // The faults are neither too few nor too many to say something.
    assert!(finished_runs > 10 && failed_runs > 10 && faults > 100);
}

/// Whatever fails, a prune deletes nothing that the remaining snapshot needs, and the next one
/// finishes.
#[test]
fn a_prune_on_a_failing_storage_loses_nothing() {
    let alice = person("alice");
    let (mut done, mut failed) = (0, 0);
    for seed in seeds(20) {
        let place = Place::new(&alice, seed);
        let mut newest = (String::new(), Files::new());
        for turn in 0..5 {
            let files = place.change(seed, turn);
            newest = (place.create(NOW + u32::try_from(turn).unwrap()).unwrap(), files);
            let harsh = u64::from(turn % 2 == 1);
            let rates = Rates { before: 4 + 20 * harsh, after: 4, dead: 10, ..Rates::default() };
            match place.prune(&newest.0, rates) {
                Ok(_) => done += 1,
                Err(error) => {
                    failed += 1;
                    assert!(is_fault(&error), "seed {seed}, turn {turn}: {error}");
                }
            }
            if seed % 2 == 0 {
                place.storage.crash();
            }
            place.storage.inner().is_dead = false;
            let problems = place.problems();
            assert!(problems.is_empty(), "seed {seed}, turn {turn}: {problems:?}");
            let restored = place.restore(&newest.0).unwrap();
            assert!(restored.as_ref() == Some(&newest.1), "seed {seed}, turn {turn}");
        }
        place.prune(&newest.0, Rates::default()).unwrap();
        assert!(place.problems().is_empty(), "seed {seed}");
        assert!(place.restore(&newest.0).unwrap().as_ref() == Some(&newest.1), "seed {seed}");
        let inner = place.storage.inner();
        let left = |folder: &str| inner.objects.keys().any(|name| name.starts_with(folder));
        assert!(!left("plans/") && !left("commits/"), "seed {seed}");
    }
    assert!(done > 10 && failed > 10, "{done} {failed}");
}

/// A copy that was damaged in transit is read again, and is not damage of the repository.
#[test]
fn a_copy_that_was_damaged_on_its_way_is_not_kept() {
    let alice = person("alice");
    let place = Place::new(&alice, 1);
    place.change(1, 0);
    place.create(NOW).unwrap();
    let (repository, keys) = place.open().unwrap();
    let by = (&name(&alice), &mut signer(&alice));
    let (found, _) = repository.snapshots(&keys, NOW).unwrap();
    repository.attest(&keys, &found, &found[0], by, NOW).unwrap();
    let root = place.folder.path().join("copies");
    let copies = Arc::new(LocalCopies::new(place.backend(), &root));
    let expected = talaria_backup::Expected::default();
    let repository = Repository::open(copies.clone(), &expected, &mut |_| None, NOW).unwrap();
    let folders = ["snapshots", "indexes", "attested"];
    place.storage.set(Rates { flipped: 1000, ..Rates::default() });
    for folder in folders {
        let copied = copies.list(folder).unwrap();
        assert_eq!(fs::read_dir(root.join(folder)).unwrap().count(), copied.len());
        assert!(!copied.is_empty(), "{folder}");
    }
    let damaged = repository.snapshots(&keys, NOW).unwrap();
    assert!(damaged.0.is_empty() && !damaged.1.is_empty(), "{damaged:?}");
    for folder in folders {
        copies.list(folder).unwrap();
    }
    place.storage.set(Rates::default());
    let (found, damaged) = repository.snapshots(&keys, NOW).unwrap();
    assert!(found.len() == 1 && damaged.is_empty(), "{damaged:?}");
    let (_, damaged) = repository.reader(&keys, NOW).unwrap();
    assert!(damaged.is_empty(), "{damaged:?}");
}

/// Where lists are late, a prune could delete what it does not see anybody need. It refuses such a
/// storage, and one that does not say so is found out by its own plan.
#[test]
fn a_prune_refuses_a_storage_whose_lists_are_late() {
    let alice = person("alice");
    let place = Place::new(&alice, 1);
    place.change(1, 0);
    place.create(NOW).unwrap();
    place.change(1, 1);
    let files = place.change(1, 2);
    let id = place.create(NOW + 1).unwrap();
    let packs = |place: &Place| {
        let inner = place.storage.inner();
        inner.objects.keys().filter(|name| name.starts_with("packs/")).count()
    };
    let before = packs(&place);
    for rates in [
        Rates { admits_late_lists: true, ..Rates::default() },
        Rates { unlisted: 1000, ..Rates::default() },
    ] {
        place.storage.crash();
        let refused = place.prune(&id, rates).unwrap_err();
        assert!(matches!(refused, BackupError::Refused(_)), "{refused}");
        assert!(refused.to_string().contains("does not list"), "{refused}");
        assert_eq!(packs(&place), before);
    }
    place.storage.crash();
    assert!(place.prune(&id, Rates::default()).unwrap().deleted_packs > 0);
    assert!(place.restore(&id).unwrap() == Some(files));
}

/// A storage that lists new objects late makes runs store more, and harms nothing.
#[test]
fn outdated_lists_of_a_storage_lose_nothing() {
    let alice = person("alice");
    for seed in seeds(8) {
        let place = Place::new(&alice, seed);
        place.storage.crash();
        let mut finished = Vec::new();
        for turn in 0..5 {
            let files = place.change(seed, turn);
            place.storage.set(Rates { unlisted: 400, ..Rates::default() });
            let id = place.create(NOW + u32::try_from(turn).unwrap()).unwrap();
            place.storage.set(Rates::default());
            finished.push((id, files));
        }
        place.storage.crash();
        for (id, files) in &finished {
            assert!(place.restore(id).unwrap().as_ref() == Some(files), "seed {seed}");
        }
        // The client remembers its newest snapshot, so a list that lacks it starts no second chain.
        let problems = place.problems();
        assert!(problems.is_empty(), "seed {seed}: {problems:?}");
    }
}

/// A repository that could not be finished is refused until its rest is deleted; a finished one
/// works.
#[test]
fn an_interrupted_init_is_no_repository() {
    let alice = person("alice");
    let (mut made, mut failed) = (0, 0);
    for seed in seeds(30) {
        let folder = tempfile::tempdir().unwrap();
        let place = Place { storage: Faulty::new(seed), alice: alice.clone(), folder };
        place.storage.set(Rates { before: 15, after: 15, dead: 15, ..Rates::default() });
        let init = place.init();
        place.storage.set(Rates::default());
        place.storage.crash();
        match init {
            Ok(_) => made += 1,
            Err(error) => {
                failed += 1;
                assert!(is_fault(&error), "seed {seed}: {error}");
            }
        }
        let is_made = init_is_whole(&place);
        assert!(is_made || !place.storage.inner().objects.contains_key("talaria-backup"));
        if !is_made {
            let any = !place.storage.inner().objects.is_empty();
            let again = place.init();
            assert_eq!(matches!(again, Err(BackupError::Refused(_))), any, "seed {seed}");
        }
    }
    assert!(made > 2 && failed > 5, "{made} {failed}");
}

fn init_is_whole(place: &Place) -> bool {
    place.change(1, 0);
    match place.create(NOW) {
        Ok(_) => true,
        Err(BackupError::Missing { .. }) => false,
        Err(error) => panic!("{error}"),
    }
}

/// A storage that does not keep its promise gets no repository.
#[test]
fn a_storage_that_replaces_objects_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let place = Place { storage: Faulty::new(1), alice: person("alice"), folder };
    place.storage.set(Rates { replaced: 1000, ..Rates::default() });
    let Err(BackupError::Refused(why)) = place.init() else { panic!("it made a repository") };
    assert!(why.contains("replaces objects"), "{why}");
    assert!(!place.storage.inner().objects.contains_key("talaria-backup"));
}
