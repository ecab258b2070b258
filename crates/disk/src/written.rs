//! Files that are written in place.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, Write};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate};

use crate::step::{FileStep, take};

/// A file that was made or opened for writing.
#[derive(Debug)]
pub struct WrittenFile {
    file: File,
    /// The path of the file, or `#INODE` in its folder.
    path: PathBuf,
    /// The number of bytes written by [`Write`].
    offset: u64,
}

impl WrittenFile {
    /// The file with the name `path`: a new one, or an earlier one that is emptied. It can be read,
    /// too.
    ///
    /// # Errors
    ///
    /// If it cannot be created.
    pub fn create(path: &Path) -> io::Result<Self> {
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path)?;
        Self::made(file, path.to_owned())
    }

    /// A new file with the name `path`. It can be read, too.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::AlreadyExists`] if there is a file of that name; or if it cannot be
    /// created.
    pub fn create_new(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
        Self::made(file, path.to_owned())
    }

    /// A file that is there, to be read and changed.
    ///
    /// # Errors
    ///
    /// If it is not there, or may not be changed.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        Ok(Self { file, path: path.to_owned(), offset: 0 })
    }

    /// A new file in `folder` that never gets a name: it is gone when it is closed. It can be read,
    /// too.
    ///
    /// # Errors
    ///
    /// If it cannot be created.
    pub fn temporary(folder: &Path) -> io::Result<Self> {
        Self::unnamed(tempfile::tempfile_in(folder)?, folder)
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

    /// The open file.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The name of the file when it was opened.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Lets the file take `length` bytes on the disk, with zeros where nothing is written. Where
    /// the file system cannot do that, the file is only as long.
    ///
    /// # Errors
    ///
    /// Those of the system, as if the disk is full.
    pub fn reserve(&self, length: u64) -> io::Result<()> {
        take(FileStep::Resize { path: &self.path, length }, || {
            match fallocate(&self.file, FallocateFlags::empty(), 0, length) {
                Ok(()) => Ok(()),
                Err(_) => self.file.set_len(length),
            }
        })
    }

    /// Writes all of `bytes` at the place `offset`.
    ///
    /// # Errors
    ///
    /// Those of the system. Some of the bytes may have been written then.
    pub fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let parts = &[IoSlice::new(bytes)];
        take(FileStep::Write { path: &self.path, offset, parts }, || {
            self.file.write_all_at(bytes, offset)
        })
    }

    /// Makes sure that the content is on disk.
    ///
    /// # Errors
    ///
    /// Those of the system.
    pub fn sync(&self) -> io::Result<()> {
        take(FileStep::Sync(&self.path), || self.file.sync_all())
    }

    /// The same, without the times of the file.
    ///
    /// # Errors
    ///
    /// Those of the system.
    pub fn sync_data(&self) -> io::Result<()> {
        take(FileStep::Sync(&self.path), || self.file.sync_data())
    }

    /// The file was renamed. Later steps have its new name.
    pub fn renamed(&mut self, to: &Path) {
        to.clone_into(&mut self.path);
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

/// Makes sure that the content of a file is on disk.
///
/// # Errors
///
/// Those of the system.
pub fn sync_file(path: &Path) -> io::Result<()> {
    take(FileStep::Sync(path), || File::open(path)?.sync_all())
}
