//! A disk that cannot read some objects. Everything else goes on, and each of these is named.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::sync::{Arc, Mutex};

use talaria_backup::{
    Backend, BackupError, BackupProgress, CopySource, EpochProfile, Heads, Object, ReadData,
    RepairOptions, State,
};

use crate::create::{back_up, noise};
use crate::people::{NOW, Place, name, signer};
use crate::prune::open;

/// A storage with bad sectors.
struct Sectors {
    storage: Arc<dyn Backend>,
    /// The objects that cannot be read.
    bad: Mutex<BTreeSet<String>>,
    /// Whether nothing can.
    is_gone: Mutex<bool>,
}

impl Sectors {
    fn check(&self, name: &str) -> Result<(), BackupError> {
        if *self.is_gone.lock().unwrap() || self.bad.lock().unwrap().contains(name) {
            let source = io::Error::from_raw_os_error(5);
            return Err(BackupError::Storage { name: name.into(), source });
        }
        Ok(())
    }
}

impl Backend for Sectors {
    fn put(&self, name: &str, parts: &[&[u8]]) -> Result<(), BackupError> {
        self.storage.put(name, parts)
    }

    fn sync(&self) -> Result<(), BackupError> {
        self.storage.sync()
    }

    fn get(&self, name: &str, limit: u64) -> Result<Vec<u8>, BackupError> {
        self.check(name)?;
        self.storage.get(name, limit)
    }

    fn get_range(&self, name: &str, offset: u64, length: u64) -> Result<Vec<u8>, BackupError> {
        self.check(name)?;
        self.storage.get_range(name, offset, length)
    }

    fn list_each(&self, folder: &str, each: &mut dyn FnMut(Object)) -> Result<(), BackupError> {
        self.check(folder)?;
        self.storage.list_each(folder, each)
    }

    fn lists_at_once(&self) -> bool {
        true
    }

    fn delete(&self, name: &str) -> Result<(), BackupError> {
        self.storage.delete(name)
    }
}

#[test]
fn a_bad_sector_is_named_and_everything_else_goes_on() {
    let place = Place::new(EpochProfile::Rfc9580);
    let disk = Arc::new(Sectors {
        storage: place.backend(),
        bad: Mutex::default(),
        is_gone: Mutex::default(),
    });
    let (repository, keys) = open(Arc::clone(&disk) as Arc<dyn Backend>, &place.alice);
    let root = place.path("../files");
    fs::create_dir_all(&root).unwrap();
    let root = root.canonicalize().unwrap();
    let state = place.path("../state");
    // Each run writes a pack of data and one of trees.
    let packs = || -> BTreeSet<String> {
        disk.storage.list("packs").unwrap().into_iter().map(|one| one.name).collect()
    };
    let mut of_runs = Vec::new();
    for turn in 0..3 {
        let before = packs();
        fs::write(root.join(format!("file{turn}")), noise(turn, 700_000)).unwrap();
        let now = NOW + u32::try_from(turn).unwrap();
        back_up(&repository, &keys, &place.alice, &state, &root, now).unwrap();
        let new = packs().difference(&before).cloned().collect::<Vec<_>>();
        let longest = new.iter().max_by_key(|name| fs::metadata(place.path(name)).unwrap().len());
        of_runs.push(longest.unwrap().clone());
    }
    // A flipped bit in one pack; another cannot be read.
    let flipped = place.path(&of_runs[1]);
    let mut bytes = fs::read(&flipped).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(flipped, bytes).unwrap();
    disk.bad.lock().unwrap().insert(of_runs[0].clone());

    let progress = Arc::new(BackupProgress::default());
    let check = || repository.check(&keys, ReadData::All, &Heads::new(), &progress, NOW + 9);
    let checked = check().unwrap();
    let has = |object: &str, why: &str| {
        let mut problems = checked.problems.iter();
        problems.any(|one| one.object.contains(object) && one.why.contains(why))
    };
    assert!(has(&of_runs[0], "it cannot be read: Input/output error"), "{checked:?}");
    assert!(has(&of_runs[1], ""), "{checked:?}");
    assert!(has("files/file0", "is lost") && has("files/file1", "is lost"), "{checked:?}");
    assert!(!has("files/file2", ""), "{checked:?}");

    // A storage that gives nothing is no damage.
    *disk.is_gone.lock().unwrap() = true;
    assert!(matches!(check(), Err(BackupError::Storage { .. })));
    *disk.is_gone.lock().unwrap() = false;

    // The third snapshot has all files, and none can be copied whole.
    let to = Place::new(EpochProfile::Rfc9580);
    let (target, target_keys) = open(to.backend(), &to.alice);
    let (listed, _) = repository.snapshots(&keys, NOW + 9).unwrap();
    let (reader, _) = repository.reader(&keys, NOW + 9).unwrap();
    let source = CopySource { repository: repository.id(), reader: &reader, snapshots: &listed };
    let mut copies = State::open(&to.path("../copies"), target.id()).unwrap();
    let client = Some((&name(&to.alice), signer(&to.alice)));
    let wanted = (&source, 2);
    let copied = target.copy(&target_keys, client, &mut copies, wanted, &progress, NOW + 9);
    assert_eq!(copied.unwrap().failed.len(), 3);

    // After a repair, the next run stores again what is lost.
    let options = RepairOptions { read: ReadData::All, set_aside: true };
    let by = (&name(&place.alice), signer(&place.alice));
    let repaired =
        repository.repair(&keys, by, &options, &Heads::new(), &progress, NOW + 10).unwrap();
    assert_eq!(repaired.damaged.len(), 2);
    assert!(!repaired.set_aside.contains(&of_runs[0]), "it cannot be moved");
    let run = back_up(&repository, &keys, &place.alice, &state, &root, NOW + 11).unwrap().0;
    let (reader, _) = repository.reader(&keys, NOW + 12).unwrap();
    let target = place.path("../restored");
    let subfolder = root.to_str().unwrap().as_bytes()[1..].to_vec();
    let options = talaria_backup::RestoreOptions { subfolder, ..Default::default() };
    let tree = talaria_backup::Tree::new(&reader, run.snapshot.root);
    let tell = |path: &[u8], event| panic!("{}: {event:?}", path.escape_ascii());
    talaria_backup::restore(&tree, &target, &options, &progress, &tell).unwrap();
    for turn in 0..3 {
        assert!(fs::read(target.join(format!("file{turn}"))).unwrap() == noise(turn, 700_000));
    }
}
