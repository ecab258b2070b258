//! Names of files that are not whole yet.
//!
//! A file gets its own name when it is whole, so a restore that was killed leaves no part of a file
//! under it. What it leaves has a name that follows from the file's name, and the next restore into
//! the same folder takes that for its own. A file in work is locked, so two restores at the same
//! time do not take each other's.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{
    AtFlags, FileType, FlockOperation, Mode, OFlags, RenameFlags, flock, linkat, openat, renameat,
    renameat_with, statat, unlinkat,
};
use rustix::io::Errno;

/// Names that are tried.
const TRIES: usize = 1000;
/// How all these names begin.
const PREFIX: &str = ".talaria-restore-";

/// A name for something in a folder until it is whole.
pub(super) fn name_for(name: &CStr, attempt: usize) -> CString {
    let hash = blake3::hash(name.to_bytes()).to_hex();
    let name = format!("{PREFIX}{}-{attempt}", &hash[..16]);
    CString::new(name).expect("there is no NUL")
}

/// Makes something in a folder that will be called `name`, and gives what `make` gave, and the name
/// that it has until then.
///
/// `is_in_tree` says whether a snapshot has something of a name in this folder. That is nothing
/// that an earlier restore left.
pub(super) fn make<T>(
    folder: &OwnedFd,
    name: &CStr,
    is_in_tree: impl Fn(&CStr) -> bool,
    make: impl Fn(&CStr) -> io::Result<T>,
) -> io::Result<(T, CString)> {
    for attempt in 0..TRIES {
        let own = name_for(name, attempt);
        match make(&own) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => return Ok((made?, own)),
        }
        if !is_in_tree(&own) && remove_left(folder, &own) {
            match make(&own) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => return Ok((made?, own)),
            }
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Creates a file that is not there, and locks it. Nothing is followed or opened.
pub(super) fn create(folder: &OwnedFd, name: &CStr) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(folder, name, flags, Mode::RUSR | Mode::WUSR)?;
    // Another restore can have taken it for one that was left, before it had its lock. If it is
    // gone already, it gets no name at the end, and the file counts as failed.
    if !is_free(&file)? {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    Ok(File::from(file))
}

/// Locks a file, unless another process has locked it. On a file system without locks, all files
/// are free.
fn is_free(file: &OwnedFd) -> rustix::io::Result<bool> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) | Err(Errno::NOLCK | Errno::NOSYS | Errno::OPNOTSUPP | Errno::INVAL) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Removes what an earlier restore left, and says whether it did.
fn remove_left(folder: &OwnedFd, name: &CStr) -> bool {
    let Ok(found) = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) else { return false };
    let mut lock = None;
    match FileType::from_raw_mode(found.st_mode) {
        FileType::Directory => return false,
        FileType::RegularFile => {
            let open = |flags| {
                let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
                openat(folder, name, flags, Mode::empty())
            };
            // It can have its mode already.
            match open(OFlags::RDONLY).or_else(|_| open(OFlags::WRONLY)) {
                Ok(file) if is_free(&file).unwrap_or(false) => lock = Some(file),
                _ => return false,
            }
        }
        _ => {}
    }
    let is_removed = unlinkat(folder, name, AtFlags::empty()).is_ok();
    drop(lock);
    is_removed
}

/// Gives something its own name. `replace`: something else that has the name is replaced.
pub(super) fn finish(folder: &OwnedFd, from: &CStr, to: &CStr, replace: bool) -> io::Result<()> {
    if replace {
        return Ok(renameat(folder, from, folder, to)?);
    }
    match renameat_with(folder, from, folder, to, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {}
        renamed => return Ok(renamed?),
    }
    // The file system has no such renaming.
    match linkat(folder, from, folder, to, AtFlags::empty()) {
        Ok(()) => return Ok(unlinkat(folder, from, AtFlags::empty())?),
        Err(Errno::PERM | Errno::NOSYS | Errno::OPNOTSUPP) => {}
        Err(error) => return Err(error.into()),
    }
    // Nor hard links.
    match statat(folder, to, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => Ok(renameat(folder, from, folder, to)?),
        Ok(_) => Err(Errno::EXIST.into()),
        Err(error) => Err(error.into()),
    }
}
