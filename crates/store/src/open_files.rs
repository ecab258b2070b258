//! The files of an open store.

use std::cell::Cell;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::error::StoreError;
use crate::second_name::SecondName;
use talaria_disk::{beside, folder_of};

/// Device and number of a file.
type Inode = (u64, u64);

/// The files of a store that is open: nothing else knows where its log is. They are noted once, to
/// notice when their names lead to other files: a change would go to a file without a name, and be
/// gone with the process.
#[derive(Clone, Debug)]
pub struct OpenFiles {
    path: PathBuf,
    database: Inode,
    /// The name of the database without symbolic links, which SQLite follows: its log, index and
    /// journal are beside this one.
    target: PathBuf,
    log_path: PathBuf,
    /// The write-ahead log, which is there as long as a connection has it open.
    log: Cell<Option<Inode>>,
}

impl OpenFiles {
    /// Notes which file has the name `path`: before and after SQLite opens it, with the same
    /// result.
    pub(crate) fn at(path: &Path) -> io::Result<Self> {
        // The program may change its folder, as SQLite knows.
        let path = std::path::absolute(path)?;
        let target = fs::canonicalize(&path)?;
        let log_path = beside(&target, "-wal");
        Ok(Self { database: inode(&path)?, path, target, log_path, log: Cell::new(None) })
    }

    /// Whether both values are about the same database.
    pub(crate) fn is_same_database(&self, other: &Self) -> bool {
        self.database == other.database
    }

    /// The database, without symbolic links.
    pub(crate) fn target(&self) -> &Path {
        &self.target
    }

    /// The write-ahead log of the database.
    pub(crate) fn log_path(&self) -> &Path {
        &self.log_path
    }

    /// Whether the database has a log that is not empty.
    pub(crate) fn has_log(&self) -> bool {
        has_content(&self.log_path)
    }

    /// The journal that a killed process may have left.
    pub(crate) fn journal_path(&self) -> PathBuf {
        beside(&self.target, "-journal")
    }

    /// Whether the database has the journal of a killed process.
    pub(crate) fn has_journal(&self) -> bool {
        has_content(&self.journal_path())
    }

    /// Whether this process may make files beside the database.
    pub(crate) fn may_make_files(&self) -> bool {
        rustix::fs::access(folder_of(&self.target), rustix::fs::Access::WRITE_OK).is_ok()
    }

    /// The log is about to be deleted and made again by this connection.
    pub(crate) fn renew_log(&self) {
        self.log.set(None);
    }

    /// Checks that the names still lead to the same files. The first log that is seen is the one
    /// that is open, so the first call comes soon after opening. A store that is open keeps its
    /// log, so the check needs no lock.
    ///
    /// # Errors
    ///
    /// [`StoreError::Moved`].
    pub fn check(&self) -> Result<(), StoreError> {
        let log = inode(&self.log_path).ok();
        if self.log.get().is_none() {
            self.log.set(log);
        }
        if self.log.get() == log && inode(&self.path).is_ok_and(|now| now == self.database) {
            return Ok(());
        }
        Err(StoreError::Moved { path: self.path.clone() })
    }

    /// How the database has a second name at the moment, if it has one.
    #[must_use]
    pub fn second_name(&self) -> Option<SecondName> {
        SecondName::of(&self.target)
    }
}

/// Whether there is a file that is not empty.
pub(crate) fn has_content(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|meta| meta.len() > 0)
}

fn inode(path: &Path) -> io::Result<Inode> {
    fs::metadata(path).map(|meta| (meta.dev(), meta.ino()))
}
