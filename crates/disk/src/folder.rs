//! Folders, their locks, and the names in them.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::{CWD, RenameFlags};
use rustix::io::Errno;

use crate::name::folder_of;
use crate::step::{FileStep, take};

/// A lock on a folder against other processes and threads.
///
/// Dropping it gives the lock up. Closing the file alone would not do that at once: a program that
/// another thread is just starting has a copy of it for a moment.
#[derive(Debug)]
pub struct FolderLock(File);

impl FolderLock {
    /// Waits for the lock on a folder.
    ///
    /// # Errors
    ///
    /// If the folder cannot be opened or locked.
    pub fn wait(folder: &Path) -> io::Result<Self> {
        let file = File::open(folder)?;
        file.lock()?;
        Ok(Self(file))
    }

    /// Locks a folder. Returns `None` if it is locked already.
    ///
    /// # Errors
    ///
    /// If the folder cannot be opened or locked.
    pub fn try_take(folder: &Path) -> io::Result<Option<Self>> {
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

/// Opens a file that has no content, only locks, or makes it with these permission bits. Whoever
/// can read a file can lock it, and make everybody wait.
///
/// # Errors
///
/// If it cannot be opened.
pub fn open_lock(path: &Path, mode: u32) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true).mode(mode);
    let mut file = None;
    take(FileStep::Create(path), || {
        file = Some(options.open(path)?);
        Ok(())
    })?;
    file.ok_or_else(|| io::ErrorKind::Other.into())
}

/// Renames a file. A file of the new name is replaced.
///
/// # Errors
///
/// Those of the system.
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    take(FileStep::Rename { from, to }, || fs::rename(from, to))
}

/// Renames a file. Fails if there is a file of the new name.
///
/// # Errors
///
/// [`io::ErrorKind::AlreadyExists`]; others of the system.
pub fn rename_to_free(from: &Path, to: &Path) -> io::Result<()> {
    take(FileStep::Rename { from, to }, || {
        match rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {}
            renamed => return Ok(renamed?),
        }
        // The file system has no such renaming.
        rustix::fs::link(from, to).map_err(of_linking)?;
        fs::remove_file(from).inspect_err(|_| drop(fs::remove_file(to)))
    })
}

/// The error of making a hard link where nothing else gives a file its name.
fn of_linking(error: Errno) -> io::Error {
    match error {
        Errno::PERM | Errno::NOSYS | Errno::OPNOTSUPP => {
            let what = "its file system can neither make hard links nor rename a file without replacing another one";
            io::Error::new(io::ErrorKind::Unsupported, what)
        }
        error => error.into(),
    }
}

/// Removes a file.
///
/// # Errors
///
/// Those of the system.
pub fn remove(path: &Path) -> io::Result<()> {
    take(FileStep::Remove(path), || fs::remove_file(path))
}

/// Removes a file that may be gone.
///
/// # Errors
///
/// Those of the system.
pub fn remove_if_there(path: &Path) -> io::Result<()> {
    match remove(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

/// Makes sure that the names in a folder are on disk.
///
/// # Errors
///
/// Those of the system.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    take(FileStep::SyncFolder(folder), || File::open(folder)?.sync_all())
}

/// The same, unless the folder may not be read, and then cannot be synced.
///
/// # Errors
///
/// Those of the sync.
pub fn try_sync_folder(folder: &Path) -> io::Result<()> {
    take(FileStep::SyncFolder(folder), || match File::open(folder) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        folder => folder?.sync_all(),
    })
}

/// Makes a folder with these permission bits. Its name is not yet on disk.
///
/// # Errors
///
/// [`io::ErrorKind::AlreadyExists`] if it is there; others of the system.
pub fn create_folder(path: &Path, mode: u32) -> io::Result<()> {
    take(FileStep::CreateFolder(path), || DirBuilder::new().mode(mode).create(path))
}

/// Makes a folder and those above it with these permission bits, where they are missing. Their
/// names are on disk then.
///
/// # Errors
///
/// Those of the system.
pub fn make_folder(path: &Path, mode: u32) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let above = folder_of(path);
    make_folder(above, mode)?;
    match create_folder(path, mode) {
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

    #[test]
    fn a_file_system_without_links_is_not_called_read_only() {
        for error in [Errno::PERM, Errno::NOSYS, Errno::OPNOTSUPP] {
            let error = of_linking(error);
            assert_eq!(error.kind(), io::ErrorKind::Unsupported);
            assert!(error.to_string().contains("can neither make hard links nor"), "{error}");
        }
        for error in [Errno::ACCESS, Errno::ROFS, Errno::EXIST] {
            assert_eq!(of_linking(error).raw_os_error(), Some(error.raw_os_error()));
        }
    }
}
