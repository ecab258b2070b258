//! Steps on files and folders, which the simulator of disks sees and can make fail.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::{self, IoSlice, Write};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use talaria_store::{FileStep, take_file_step as take};

/// A file that was made for writing.
#[derive(Debug)]
pub(crate) struct WrittenFile {
    file: File,
    /// The path of the file, or `#INODE` in its folder.
    path: PathBuf,
    /// The number of octets written.
    offset: u64,
}

impl WrittenFile {
    /// The file with the name `path`: a new one, or an earlier one that is emptied.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        Self::made(File::create(path)?, path.to_owned())
    }

    /// An empty file without a name in `folder`.
    pub(crate) fn unnamed(file: File, folder: &Path) -> io::Result<Self> {
        let path = folder.join(format!("#{}", file.metadata()?.ino()));
        Self::made(file, path)
    }

    /// The empty file `file`, which has the name `path`.
    pub(crate) fn made(file: File, path: PathBuf) -> io::Result<Self> {
        take(FileStep::Create(&path), || Ok(()))?;
        Ok(Self { file, path, offset: 0 })
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Makes sure that the content is on disk.
    pub(crate) fn sync(&self) -> io::Result<()> {
        take(FileStep::Sync(&self.path), || self.file.sync_all())
    }

    /// Gives the file its first name through `link`.
    pub(crate) fn name(&self, name: &Path, link: impl FnMut() -> io::Result<()>) -> io::Result<()> {
        take(FileStep::Rename { from: &self.path, to: name }, link)
    }
}

impl Write for WrittenFile {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(data)])
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut written = 0;
        take(FileStep::Write { path: &self.path, offset: self.offset, parts }, || {
            written = self.file.write_vectored(parts)?;
            Ok(())
        })?;
        self.offset += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

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

/// The same, for a folder that perhaps may not be read, and then cannot be synced.
pub(crate) fn try_sync_folder(folder: &Path) -> io::Result<()> {
    take(FileStep::SyncFolder(folder), || {
        File::open(folder).map_or(Ok(()), |folder| folder.sync_all())
    })
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

/// The folder of a file.
pub(crate) fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
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
