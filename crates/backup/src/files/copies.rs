//! Copies of documents on this machine, so that a repository behind a network is not read again and
//! again.

use std::collections::HashMap;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::RwLock;
use talaria_disk::{NewFile, Readers, make_folder, remove, remove_if_there};

use crate::backend::{Backend, Object};
use crate::error::Result;

/// The folders of a repository that are copied. Their objects are named by their content and never
/// change.
const FOLDERS: [&str; 6] = ["indexes", "snapshots", "forgotten", "verified", "attested", "drills"];
/// The maximum number of bytes of the objects of a folder that are copied. The indexes of a hundred
/// million chunks take less.
const FOLDER_BYTES_MAX: u64 = 16 << 30;
/// The maximum length of an object that is copied ahead, in bytes.
const AHEAD_BYTES_MAX: u64 = 8 << 20;
/// Objects that are fetched at the same time.
const THREADS: usize = 8;
/// The length of the hash in front of a copy.
const HASH_BYTES: usize = 32;

/// A storage whose indexes and snapshots are copied to a folder of this machine.
///
/// A copy counts only while the storage lists the object. When a folder is listed, objects without
/// a copy are fetched, several at a time, and copies of deleted objects go. Copies are not synced:
/// a damaged one is fetched again, also one that was damaged on its way from the storage.
pub struct LocalCopies {
    backend: Arc<dyn Backend>,
    root: PathBuf,
    /// The objects that the storage listed last, with their lengths.
    listed: RwLock<HashMap<String, u64>>,
}

impl LocalCopies {
    /// Copies the objects that are read from `backend` to the folder `root`, which is made when it
    /// is needed.
    #[must_use]
    pub fn new(backend: Arc<dyn Backend>, root: impl Into<PathBuf>) -> Self {
        Self { backend, root: root.into(), listed: RwLock::default() }
    }

    /// Where the copy of an object is, if it is one of those that are copied.
    fn path(&self, name: &str) -> Option<PathBuf> {
        let (folder, rest) = name.split_once('/')?;
        let is_id = rest.len() == 64 && rest.bytes().all(|byte| byte.is_ascii_hexdigit());
        (FOLDERS.contains(&folder) && is_id).then(|| self.root.join(folder).join(rest))
    }

    /// The length of an object that the storage has listed.
    fn listed_length(&self, name: &str) -> Option<u64> {
        let listed = self.listed.read();
        listed.get(name).copied()
    }

    /// The copy of an object of this length, if it is undamaged.
    fn copy(path: &Path, length: u64) -> Option<Vec<u8>> {
        let mut bytes = fs::read(path).ok()?;
        let content = bytes.get(HASH_BYTES..)?;
        let is_right = content.len() as u64 == length
            && blake3::hash(content).as_bytes()[..] == bytes[..HASH_BYTES];
        is_right.then(|| bytes.split_off(HASH_BYTES))
    }

    /// Keeps a copy. Without one the next command asks the storage again, which is slower and not
    /// wrong.
    fn keep(path: &Path, parts: &[&[u8]]) -> io::Result<()> {
        let folder = path.parent().expect("a copy is in a folder");
        make_folder(folder, 0o700)?;
        let mut hash = blake3::Hasher::new();
        parts.iter().for_each(|part| {
            hash.update(part);
        });
        let mut file = NewFile::replacing(path)?;
        file.write_all(hash.finalize().as_bytes())?;
        parts.iter().try_for_each(|part| file.write_all(part))?;
        file.name_unsynced(Readers::Owner)
    }

    /// Removes copies of objects that the storage does not list.
    fn sweep(&self, folder: &str) -> io::Result<()> {
        let listed = self.listed.read();
        for entry in fs::read_dir(self.root.join(folder))? {
            let entry = entry?;
            let name = entry.file_name();
            if !name.to_str().is_some_and(|name| listed.contains_key(&format!("{folder}/{name}"))) {
                remove(&entry.path())?;
            }
        }
        Ok(())
    }

    /// Fetches objects without a copy. An error shows when the object is read.
    fn fetch(&self, wanted: &[Object]) {
        let next = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..THREADS.min(wanted.len()) {
                scope.spawn(|| {
                    while let Some(object) = wanted.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let path = self.path(&object.name);
                        let fetched = self.backend.get(&object.name, object.bytes);
                        if let (Some(path), Ok(content)) = (path, fetched) {
                            let _ = Self::keep(&path, &[&content]);
                        }
                    }
                });
            }
        });
    }
}

impl Backend for LocalCopies {
    fn put(&self, name: &str, parts: &[&[u8]]) -> Result<()> {
        self.backend.put(name, parts)?;
        if let Some(path) = self.path(name) {
            let _ = Self::keep(&path, parts);
        }
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        self.backend.sync()
    }

    fn get(&self, name: &str, limit: u64) -> Result<Vec<u8>> {
        let Some((path, length)) = self.path(name).zip(self.listed_length(name)) else {
            return self.backend.get(name, limit);
        };
        if length <= limit
            && let Some(copy) = Self::copy(&path, length)
        {
            return Ok(copy);
        }
        let content = self.backend.get(name, limit)?;
        let _ = Self::keep(&path, &[&content]);
        Ok(content)
    }

    fn get_range(&self, name: &str, offset: u64, length: u64) -> Result<Vec<u8>> {
        self.backend.get_range(name, offset, length)
    }

    fn list_each(&self, folder: &str, each: &mut dyn FnMut(Object)) -> Result<()> {
        if !FOLDERS.contains(&folder) {
            return self.backend.list_each(folder, each);
        }
        let objects = self.backend.list(folder)?;
        let mut listed = self.listed.write();
        let prefix = format!("{folder}/");
        listed.retain(|name, _| !name.starts_with(&prefix));
        let mut left = FOLDER_BYTES_MAX;
        let mut wanted = Vec::new();
        for object in &objects {
            let Some(path) = self.path(&object.name) else { continue };
            let Some(rest) = left.checked_sub(object.bytes) else { continue };
            left = rest;
            listed.insert(object.name.clone(), object.bytes);
            if !path.exists() && object.bytes <= AHEAD_BYTES_MAX {
                wanted.push(object.clone());
            }
        }
        drop(listed);
        let _ = self.sweep(folder);
        self.fetch(&wanted);
        objects.into_iter().for_each(each);
        Ok(())
    }

    fn lists_at_once(&self) -> bool {
        self.backend.lists_at_once()
    }

    fn delete(&self, name: &str) -> Result<()> {
        self.backend.delete(name)?;
        if let Some(path) = self.path(name) {
            let _ = remove_if_there(&path);
        }
        Ok(())
    }

    fn drop_copy(&self, name: &str) -> bool {
        self.path(name).is_some_and(|path| remove(&path).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;
    use crate::error::BackupError;
    use crate::files::Folder;

    /// A folder that notes which objects are read.
    struct Noted {
        folder: Folder,
        read: Mutex<Vec<String>>,
    }

    impl Noted {
        fn taken(&self) -> Vec<String> {
            let mut read = std::mem::take(&mut *self.read.lock());
            read.sort();
            read
        }
    }

    impl Backend for Noted {
        fn put(&self, name: &str, parts: &[&[u8]]) -> Result<()> {
            self.folder.put(name, parts)
        }

        fn sync(&self) -> Result<()> {
            self.folder.sync()
        }

        fn get(&self, name: &str, limit: u64) -> Result<Vec<u8>> {
            self.read.lock().push(name.to_owned());
            self.folder.get(name, limit)
        }

        fn get_range(&self, name: &str, offset: u64, length: u64) -> Result<Vec<u8>> {
            self.folder.get_range(name, offset, length)
        }

        fn list_each(&self, folder: &str, each: &mut dyn FnMut(Object)) -> Result<()> {
            self.folder.list_each(folder, each)
        }

        fn lists_at_once(&self) -> bool {
            self.folder.lists_at_once()
        }

        fn delete(&self, name: &str) -> Result<()> {
            self.folder.delete(name)
        }
    }

    fn index(number: usize) -> String {
        format!("indexes/{number:064x}")
    }

    #[test]
    fn an_object_is_fetched_once_and_a_copy_lives_as_long_as_it() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().join("copies");
        let folder = Folder::new(place.path().join("repository"));
        let storage = Arc::new(Noted { folder, read: Mutex::default() });
        let open = || LocalCopies::new(storage.clone(), &root);
        for number in 0..20 {
            storage
                .put(&index(number), &[b"index ", &[b'a' + u8::try_from(number).unwrap()]])
                .unwrap();
        }
        storage.put("keys/1/reader", &[b"key"]).unwrap();
        let copies = open();
        assert_eq!(copies.list("indexes").unwrap().len(), 20);
        assert_eq!(storage.taken(), (0..20).map(index).collect::<Vec<_>>());
        let read_all = |copies: &LocalCopies| {
            for object in copies.list("indexes").unwrap() {
                let number = usize::from_str_radix(&object.name[8..], 16).unwrap();
                let content = copies.get(&object.name, 100).unwrap();
                assert_eq!(
                    content,
                    [b"index ", &[b'a' + u8::try_from(number).unwrap()][..]].concat()
                );
            }
            copies.get("keys/1/reader", 100).unwrap();
        };
        read_all(&copies);
        // Another command finds the copies. It reads only objects without a copy.
        read_all(&open());
        assert_eq!(storage.taken(), ["keys/1/reader"; 2]);
        assert!(matches!(copies.get(&index(3), 6), Err(BackupError::Damaged { .. })));
        storage.taken();

        // A damaged, a short and a lost copy are fetched again when they are read.
        let copy = |number| root.join(index(number));
        let mut bytes = fs::read(copy(1)).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(copy(1), bytes).unwrap();
        fs::write(copy(2), "short").unwrap();
        fs::remove_file(copy(3)).unwrap();
        read_all(&open());
        assert_eq!(storage.taken(), [index(1), index(2), index(3), "keys/1/reader".into()]);
        read_all(&open());
        assert_eq!(storage.taken(), ["keys/1/reader"]);

        // Objects that this machine writes are not fetched.
        copies.put(&index(20), &[b"index u"]).unwrap();
        read_all(&open());
        // If others delete an object, its copy is deleted as well; an object that was not listed is
        // requested.
        storage.delete(&index(4)).unwrap();
        storage.taken();
        let copies = open();
        assert!(copies.get(&index(4), 100).is_err());
        assert_eq!(copies.list("indexes").unwrap().len(), 20);
        assert!(!copy(4).exists() && copy(5).exists());
        copies.delete(&index(5)).unwrap();
        assert!(!copy(5).exists() && copies.get(&index(5), 100).is_err());
        // Names that are no hashes are never paths of copies.
        for name in ["indexes/../../seen", "indexes/a/b", "packs/ab/cd", "indexes/x"] {
            assert!(copies.path(name).is_none(), "{name}");
        }
    }
}
