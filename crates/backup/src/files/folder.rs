//! A repository in a local folder.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use parking_lot::{Mutex, MutexGuard};
use talaria_disk::{NewFile, Readers, TEMPORARY, create_folder, remove, try_sync_folder};

use crate::backend::{Backend, Object};
use crate::error::{BackupError, Result};
use crate::files::direct::write_start;

/// Objects as files in a folder of the local file system.
pub struct Folder {
    root: PathBuf,
    names: Mutex<Names>,
}

/// What is known of the names in the folders.
#[derive(Default)]
struct Names {
    /// Folders with new names that are not durable yet.
    unsynced: Vec<PathBuf>,
    /// Folders whose own names are durable, or will be with the next sync.
    known: HashSet<PathBuf>,
}

impl Folder {
    /// The repository in the folder `root`, which need not exist.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> Self {
        let root = root.into();
        // The parent of a relative path with one component has no name.
        let root = std::path::absolute(&root).unwrap_or(root);
        Self { root, names: Mutex::default() }
    }

    /// The path of the folder.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    fn failed(&self, name: &str) -> impl FnOnce(io::Error) -> BackupError {
        let path = self.root.join(name);
        move |source| BackupError::Storage { name: path.display().to_string(), source }
    }

    fn open(&self, name: &str) -> Result<File> {
        match File::open(self.root.join(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(BackupError::Missing { name: name.into() })
            }
            opened => opened.map_err(self.failed(name)),
        }
    }

    fn names(&self) -> MutexGuard<'_, Names> {
        self.names.lock()
    }

    /// Notes that a name in `folder` is new.
    fn note(&self, folder: &Path) {
        let unsynced = &mut self.names().unsynced;
        if !unsynced.iter().any(|known| known == folder) {
            unsynced.push(folder.to_owned());
        }
    }

    /// Makes the folder of an object, with a private mode, and notes the folders that got a new
    /// name. A run that was killed can have made a folder of the repository that is there, so its
    /// name is noted once, too.
    fn make_folders(&self, folder: &Path) -> io::Result<()> {
        let is_there = folder.is_dir();
        let is_ours = folder.starts_with(&self.root);
        if is_there && (!is_ours || !self.names().known.insert(folder.to_owned())) {
            return Ok(());
        }
        if let Some(above) = folder.parent() {
            if !is_there || folder != self.root {
                self.make_folders(above)?;
            }
            self.note(above);
        }
        match create_folder(folder, 0o700) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            made => made,
        }
    }

    fn walk(&self, folder: &str, each: &mut dyn FnMut(Object)) -> io::Result<()> {
        let entries = match fs::read_dir(self.root.join(folder)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            let name = format!("{folder}/{name}");
            let kind = entry.file_type()?;
            if kind.is_dir() {
                self.walk(&name, each)?;
            } else if kind.is_file() && !name.contains(&format!("/{TEMPORARY}")) {
                match entry.metadata() {
                    Ok(meta) => each(Object { name, bytes: meta.len() }),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }
}

impl Backend for Folder {
    fn put(&self, name: &str, parts: &[&[u8]]) -> Result<()> {
        let path = self.root.join(name);
        let folder = path.parent().expect("an object is in a folder");
        let write = || -> io::Result<bool> {
            self.make_folders(folder)?;
            let mut file = NewFile::beginning(&path)?;
            if let Some((first, rest)) = parts.split_first() {
                let written = write_start(&mut file, first)?;
                file.write_all(&first[written..])?;
                rest.iter().try_for_each(|part| file.write_all(part))?;
            }
            match file.name(Readers::Owner) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
                named => named?,
            }
            self.note(folder);
            Ok(true)
        };
        if write().map_err(self.failed(name))? {
            Ok(())
        } else {
            Err(BackupError::Exists { name: name.into() })
        }
    }

    fn sync(&self) -> Result<()> {
        let unsynced = &mut self.names().unsynced;
        for folder in unsynced.iter() {
            // The folder of the repository may be one that cannot be read.
            try_sync_folder(folder).map_err(|source| BackupError::Storage {
                name: folder.display().to_string(),
                source,
            })?;
        }
        unsynced.clear();
        Ok(())
    }

    fn get(&self, name: &str, limit: u64) -> Result<Vec<u8>> {
        let file = self.open(name)?;
        let mut bytes = Vec::new();
        file.take(limit + 1).read_to_end(&mut bytes).map_err(self.failed(name))?;
        if bytes.len() as u64 > limit {
            return Err(BackupError::damaged(name, format!("it has more than {limit} bytes")));
        }
        Ok(bytes)
    }

    fn get_range(&self, name: &str, offset: u64, length: u64) -> Result<Vec<u8>> {
        let mut file = self.open(name)?;
        let mut bytes = Vec::new();
        let mut read = || -> io::Result<()> {
            file.seek(SeekFrom::Start(offset))?;
            (&mut file).take(length).read_to_end(&mut bytes)?;
            Ok(())
        };
        read().map_err(self.failed(name))?;
        Ok(bytes)
    }

    fn list_each(&self, folder: &str, each: &mut dyn FnMut(Object)) -> Result<()> {
        self.walk(folder, each).map_err(self.failed(folder))
    }

    fn lists_at_once(&self) -> bool {
        true
    }

    fn delete(&self, name: &str) -> Result<()> {
        match remove(&self.root.join(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed.map_err(self.failed(name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_created_once_and_whole() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::new(place.path().join("repository"));
        assert!(folder.list("packs").unwrap().is_empty());
        folder.put("packs/ab/abcd", &[b"one", b"two"]).unwrap();
        folder.sync().unwrap();
        let again = folder.put("packs/ab/abcd", &[b"other"]);
        assert!(matches!(again, Err(BackupError::Exists { .. })), "{again:?}");
        assert_eq!(folder.get("packs/ab/abcd", 6).unwrap(), b"onetwo");
        assert!(matches!(folder.get("packs/ab/abcd", 5), Err(BackupError::Damaged { .. })));
        assert_eq!(folder.get_range("packs/ab/abcd", 2, 2).unwrap(), b"et");
        assert_eq!(folder.get_range("packs/ab/abcd", 5, 9).unwrap(), b"o");
        assert!(matches!(folder.get("packs/ab/none", 9), Err(BackupError::Missing { .. })));
        fs::write(place.path().join("repository/packs/.tmp-1"), "left").unwrap();
        let listed = folder.list("packs").unwrap();
        assert_eq!(listed, [Object { name: "packs/ab/abcd".into(), bytes: 6 }]);
        folder.delete("packs/ab/abcd").unwrap();
        folder.delete("packs/ab/abcd").unwrap();
        assert!(folder.list("packs").unwrap().is_empty());
    }
}
