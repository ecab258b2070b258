//! Steps on files and folders, which the simulator of disks sees and can make fail.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use talaria_store::{FileStep, take_file_step as take, try_sync_folder};
pub(crate) use talaria_store::{WrittenFile, folder_of};

/// A lock on a folder against other processes and threads.
///
/// Dropping it gives the lock up. Closing the file alone would not do that at once: a program that another thread is just
/// starting has a copy of it for a moment.
pub(crate) struct FolderLock(File);

impl FolderLock {
    /// Waits for the lock on a folder.
    pub(crate) fn wait(folder: &Path) -> io::Result<Self> {
        let file = File::open(folder)?;
        file.lock()?;
        Ok(Self(file))
    }

    /// Locks a folder. Returns `None` if it is locked already.
    pub(crate) fn try_take(folder: &Path) -> io::Result<Option<Self>> {
        let file = File::open(folder)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

impl Drop for FolderLock {
    fn drop(&mut self) {
        // Closing the file gives the lock up, too, as soon as nobody has a copy.
        let _ = self.0.unlock();
    }
}

/// Renames a file. A file of the new name is replaced.
pub(crate) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    take(FileStep::Rename { from, to }, || fs::rename(from, to))
}

/// Removes a file.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    take(FileStep::Remove(path), || fs::remove_file(path))
}

/// Removes a file that may be gone.
pub(crate) fn remove_if_there(path: &Path) -> io::Result<()> {
    match remove(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

/// Makes sure that the names in a folder are on disk.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    take(FileStep::SyncFolder(folder), || File::open(folder)?.sync_all())
}

/// Makes a folder and those above it with these permission bits, where they are missing. Their names are on disk then.
pub(crate) fn make_folder(path: &Path, mode: u32) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let above = folder_of(path);
    make_folder(above, mode)?;
    let made = take(FileStep::CreateFolder(path), || DirBuilder::new().mode(mode).create(path));
    match made {
        // Another process was faster.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => {}
        result => result?,
    }
    try_sync_folder(above)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn a_lock_ends_although_a_copy_of_its_file_is_open() {
        let folder = tempfile::tempdir().unwrap();
        let lock = FolderLock::wait(folder.path()).unwrap();
        let _copy = lock.0.try_clone().unwrap();
        assert!(FolderLock::try_take(folder.path()).unwrap().is_none());
        drop(lock);
        assert!(FolderLock::try_take(folder.path()).unwrap().is_some());
    }

    #[test]
    fn folders_are_made_with_those_above_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b/c");
        for _ in 0..2 {
            make_folder(&path, 0o700).unwrap();
            assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o700);
        }
        fs::write(path.join("file"), "").unwrap();
        assert!(make_folder(&path.join("file"), 0o700).is_err());
        assert!(make_folder(&path.join("file/d"), 0o700).is_err());
    }
}
