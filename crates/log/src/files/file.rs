//! The files of a folder: their names, their locks, and errors of operations on them.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{io, thread};

use talaria_disk::remove_if_there;

use super::error::LogError;

/// The name of the file in the folder of a log that has the secret key of its node, if there is
/// one.
pub const NODE_KEY: &str = "node.key";

pub(super) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> LogError + use<> {
    let path = path.to_owned();
    move |source| LogError::Io { action, path, source }
}

/// The folder of the segments.
pub(super) const SEGMENTS: &str = "segments";

pub(super) fn segment_path(folder: &Path, number: u64) -> PathBuf {
    folder.join(SEGMENTS).join(format!("{number:08}"))
}

/// A segment that has no number yet: the first one of a new log, or the new form of one that a
/// compaction writes.
pub(super) fn new_segment_path(folder: &Path) -> PathBuf {
    folder.join(SEGMENTS).join("new")
}

/// Removes what a compaction has left that a crash has cut off.
pub(super) fn remove_new_segment(folder: &Path) -> Result<(), LogError> {
    let path = new_segment_path(folder);
    remove_if_there(&path).map_err(io("remove", &path))
}

/// A file of the folder that has no content, only locks.
pub(super) fn lock_file(folder: &Path, name: &str) -> Result<(PathBuf, File), LogError> {
    let path = folder.join(name);
    let file = open_lock(&path).map_err(io("open", &path))?;
    Ok((path, file))
}

/// Opens a file that has only locks, or makes it. Others than the user and the group cannot open
/// it: whoever can read a file can also lock it, and make everybody wait.
pub(super) fn open_lock(path: &Path) -> io::Result<File> {
    talaria_disk::open_lock(path, 0o660)
}

/// Locks a file if no other process has it locked. A process that is being started holds the files
/// of its parent until it runs its program, so a lock that was just given up can seem taken for a
/// moment.
pub(super) fn is_locked_soon(file: &File) -> io::Result<bool> {
    for pause_ms in [1, 4, 16, 64, 0] {
        match file.try_lock() {
            Ok(()) => return Ok(true),
            Err(TryLockError::WouldBlock) => thread::sleep(Duration::from_millis(pause_ms)),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    Ok(false)
}
