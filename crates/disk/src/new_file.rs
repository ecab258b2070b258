//! Files that appear when they are complete.
//!
//! Everything that talaria writes for a user goes through [`NewFile`]: new stores, outputs of
//! commands, and keys. While it is written, a file has no name, so nothing is left of it if the
//! process is killed. It has a temporary name, which starts with [`TEMPORARY`], for the moment
//! before it replaces another file, and from the start where the file system has no files without
//! names, or does not keep what is synced in one.

use std::fs::{self, File, Permissions};
use std::io::{self, IoSlice, Write};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use tempfile::TempPath;

use crate::folder::{rename, rename_to_free, try_sync_folder};
use crate::name::folder_of;
use crate::written::WrittenFile;

/// The start of temporary names.
pub const TEMPORARY: &str = ".tmp-";

/// A file that is being written. It gets its name when it is complete and on disk.
#[derive(Debug)]
pub struct NewFile {
    file: WrittenFile,
    temporary: Option<TempPath>,
    /// The name of the finished file.
    path: PathBuf,
    /// What it replaces; `None` if it must not replace anything.
    replaced: Option<Replaced>,
}

/// Who may read a finished file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Readers {
    /// Its owner only.
    Owner,
    /// Those whom the user's mask allows, or who may read the file that is replaced.
    Usual,
    /// Everybody, whatever the user's mask says.
    Everybody,
}

/// What a new file replaces.
#[derive(Debug)]
struct Replaced {
    /// Its path without symbolic links, which stay.
    path: PathBuf,
    /// The permission bits of the file that was there at the start.
    mode: Option<u32>,
}

impl NewFile {
    /// Starts a file that will be `path`. If there is a file of that name by then, [`Self::keep`]
    /// replaces it; a symbolic link stays, and its target is replaced.
    ///
    /// # Errors
    ///
    /// If `path` is a folder, or its folder cannot be written to.
    pub fn replacing(path: &Path) -> io::Result<Self> {
        let replaced = match path.metadata() {
            Ok(metadata) if metadata.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
            Ok(metadata) => {
                Replaced { path: path.canonicalize()?, mode: Some(metadata.permissions().mode()) }
            }
            Err(_) => Replaced { path: path.to_owned(), mode: None },
        };
        Self::start(path, Some(replaced))
    }

    /// Starts a file that will be `path`. [`Self::keep`] replaces nothing: it fails if there is a
    /// file of that name by then.
    ///
    /// # Errors
    ///
    /// If the folder cannot be written to.
    pub fn beginning(path: &Path) -> io::Result<Self> {
        Self::start(path, None)
    }

    fn start(path: &Path, replaced: Option<Replaced>) -> io::Result<Self> {
        let (file, temporary) =
            unnamed(folder_of(replaced.as_ref().map_or(path, |replaced| &replaced.path)))?;
        Ok(Self { file, temporary, path: path.to_owned(), replaced })
    }

    /// The temporary name of the file, if it has one.
    #[must_use]
    pub fn temporary(&self) -> Option<&Path> {
        self.temporary.as_deref()
    }

    /// The open file.
    #[must_use]
    pub fn file(&self) -> &File {
        self.file.file()
    }

    /// Finishes the file: it is on disk, gets its name, and the name is on disk. A file that
    /// replaces another one has at most the permissions of that one, unless everybody may read it.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::AlreadyExists`] if there is a file by now that must not be replaced; errors
    /// of writing.
    pub fn keep(self, readers: Readers) -> io::Result<()> {
        let folder = self.folder().to_owned();
        self.name(readers)?;
        // A folder that may not be read cannot be synced; the file is complete anyway.
        try_sync_folder(&folder)
    }

    /// Makes sure that the content so far is on disk. [`Self::keep`] and [`Self::name`] do so, too.
    ///
    /// # Errors
    ///
    /// Those of the system, as if the disk is full.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }

    /// Finishes the file as [`Self::keep`] does, but a crash may take its name away until
    /// [`sync_folder`] is called for [`Self::folder`].
    ///
    /// [`sync_folder`]: crate::sync_folder
    ///
    /// # Errors
    ///
    /// As [`Self::keep`].
    pub fn name(self, readers: Readers) -> io::Result<()> {
        self.permit(readers)?;
        self.file.sync()?;
        self.put_in_place()
    }

    /// Gives the file its name without any sync. After a crash, the file can be there with any
    /// content, so its reader must notice that.
    ///
    /// # Errors
    ///
    /// As [`Self::keep`].
    pub fn name_unsynced(self, readers: Readers) -> io::Result<()> {
        self.permit(readers)?;
        self.put_in_place()
    }

    /// The folder in which the file gets its name.
    #[must_use]
    pub fn folder(&self) -> &Path {
        folder_of(self.replaced.as_ref().map_or(&self.path, |replaced| &replaced.path))
    }

    fn permit(&self, readers: Readers) -> io::Result<()> {
        let mode = match (readers, self.replaced.as_ref().and_then(|replaced| replaced.mode)) {
            // New files are so.
            (Readers::Owner, None) => return Ok(()),
            (Readers::Owner, Some(mode)) => mode & 0o600,
            (Readers::Usual, None) => 0o666 & !mask(),
            (Readers::Usual, Some(mode)) => mode & 0o777,
            (Readers::Everybody, _) => 0o644,
        };
        self.file().set_permissions(Permissions::from_mode(mode))
    }

    /// Gives the file its name.
    fn put_in_place(self) -> io::Result<()> {
        let target = self.replaced.as_ref().map(|replaced| replaced.path.as_path());
        match (self.temporary, target) {
            (Some(temporary), Some(target)) => renamed(temporary, target, Existing::Replaced),
            (Some(temporary), None) => renamed(temporary, &self.path, Existing::Kept),
            (None, None) => link(&self.file, &self.path),
            // A link cannot replace a file; a renaming can.
            (None, Some(target)) => {
                let temporary = tempfile::Builder::new()
                    .prefix(TEMPORARY)
                    .make_in(folder_of(target), |name| link(&self.file, name))?;
                renamed(temporary.into_temp_path(), target, Existing::Replaced)
            }
        }
    }
}

/// Writes a file wholly: it is on disk under its name when this returns, and replaces an earlier
/// one in one step.
///
/// # Errors
///
/// As [`NewFile::replacing`] and [`NewFile::keep`].
pub fn replace(path: &Path, bytes: &[u8], readers: Readers) -> io::Result<()> {
    let mut file = NewFile::replacing(path)?;
    file.write_all(bytes)?;
    file.keep(readers)
}

/// Gives a file with a temporary name its final name.
fn renamed(temporary: TempPath, to: &Path, existing: Existing) -> io::Result<()> {
    match existing {
        Existing::Replaced => rename(&temporary, to)?,
        Existing::Kept => rename_to_free(&temporary, to)?,
    }
    // Another file can have that name by now.
    temporary.keep().map(drop).map_err(|error| error.error)
}

/// The fate of a file that has the name already.
#[derive(Clone, Copy)]
enum Existing {
    Replaced,
    Kept,
}

impl AsFd for NewFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file().as_fd()
    }
}

impl Write for NewFile {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.file.write(data)
    }

    fn write_vectored(&mut self, data: &[IoSlice<'_>]) -> io::Result<usize> {
        self.file.write_vectored(data)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The permission bits that the user takes from new files.
fn mask() -> u32 {
    // Linux 4.7 and later tell it. To ask by setting it would open the files that other threads
    // make meanwhile.
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    if let Some(mask) = mask.and_then(|mask| u32::from_str_radix(mask.trim(), 8).ok()) {
        return mask;
    }
    let mask = rustix::process::umask(Mode::empty());
    rustix::process::umask(mask);
    mask.bits()
}

/// A new file in `folder` that only the user can read: without a name, or with a temporary name
/// where the file system has no files without names.
fn unnamed(folder: &Path) -> io::Result<(WrittenFile, Option<TempPath>)> {
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    if let Ok(file) = rustix::fs::open(folder, flags, Mode::RUSR | Mode::WUSR) {
        let is_kept = rustix::fs::fstatfs(&file).is_ok_and(|system| keeps_unnamed(system.f_type));
        let file = File::from(file);
        if is_kept && descriptor_path(&file).exists() {
            return Ok((WrittenFile::unnamed(file, folder)?, None));
        }
    }
    named(folder)
}

/// Whether a file system, by its type as statfs(2) lists them, keeps what is synced in a file without
/// a name. Btrfs takes such a sync for needless (`btrfs_log_inode_parent` in Linux before 6.16): if
/// the file gets a name and the power is cut within half a minute, it is there and empty.
fn keeps_unnamed(file_system: i64) -> bool {
    const BTRFS: i64 = 0x9123_683e;
    // A type has 32 bits, of which some systems extend the sign.
    file_system & 0xffff_ffff != BTRFS
}

/// The same with a temporary name.
fn named(folder: &Path) -> io::Result<(WrittenFile, Option<TempPath>)> {
    let (file, path) = tempfile::Builder::new().prefix(TEMPORARY).tempfile_in(folder)?.into_parts();
    Ok((WrittenFile::made(file, path.to_path_buf())?, Some(path)))
}

/// The path by which the system knows an open file (proc(5)).
fn descriptor_path(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// Gives a file without a name this name; fails if there is a file of this name.
fn link(file: &WrittenFile, path: &Path) -> io::Result<()> {
    let from = descriptor_path(file.file());
    file.name(path, || Ok(rustix::fs::linkat(CWD, &from, CWD, path, AtFlags::SYMLINK_FOLLOW)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn an_unfinished_file_has_no_name() {
        let folder = tempfile::tempdir().unwrap();
        let count = || fs::read_dir(folder.path()).unwrap().count();
        let path = folder.path().join("out");
        let mut new = NewFile::beginning(&path).unwrap();
        new.write_all(b"secret").unwrap();
        let has_name = new.temporary().is_some();
        assert_eq!(count(), usize::from(has_name));
        drop(new);
        assert_eq!(count(), 0);
        // The other way, for file systems without such files.
        let (file, temporary) = named(folder.path()).unwrap();
        let new = NewFile { file, temporary, path: path.clone(), replaced: None };
        new.keep(Readers::Owner).unwrap();
        assert_eq!((count(), mode(&path)), (1, 0o600));
    }

    #[test]
    fn files_without_names_are_not_for_btrfs() {
        assert!(!keeps_unnamed(0x9123_683e) && !keeps_unnamed(-0x6edc_97c2));
        // ext4, XFS and tmpfs.
        assert!([0xef53, 0x5846_5342, 0x0102_1994].map(keeps_unnamed) == [true; 3]);
    }

    #[test]
    fn a_file_that_appears_meanwhile_is_replaced_if_that_was_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let mut new = NewFile::replacing(&path).unwrap();
        new.write_all(b"new").unwrap();
        fs::write(&path, "of another process").unwrap();
        new.keep(Readers::Usual).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        // A symbolic link that leads nowhere is replaced, too.
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("nowhere", &link).unwrap();
        replace(&link, b"new", Readers::Owner).unwrap();
        assert_eq!((fs::read(&link).unwrap(), mode(&link)), (b"new".to_vec(), 0o600));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_file_that_appears_meanwhile_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        for by_name in [false, true] {
            let mut new = NewFile::beginning(&path).unwrap();
            if by_name {
                (new.file, new.temporary) = named(folder.path()).unwrap();
            }
            fs::write(&path, "old").unwrap();
            let error = new.keep(Readers::Usual).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
            assert_eq!(fs::read(&path).unwrap(), b"old");
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
            fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn a_replaced_file_keeps_its_link_and_its_mode() {
        let folder = tempfile::tempdir().unwrap();
        let (path, symlink) = (folder.path().join("out"), folder.path().join("link"));
        let write = |path: &Path, readers| {
            let mut new = NewFile::replacing(path)?;
            new.write_all(b"new")?;
            new.keep(readers)
        };
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink(&path, &symlink).unwrap();
        write(&symlink, Readers::Usual).unwrap();
        assert!(symlink.symlink_metadata().unwrap().is_symlink());
        assert_eq!((fs::read(&path).unwrap(), mode(&path)), (b"new".to_vec(), 0o640));
        write(&path, Readers::Owner).unwrap();
        assert_eq!(mode(&path), 0o600);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}
