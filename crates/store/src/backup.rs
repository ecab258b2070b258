//! Copies of a whole store while it is in use, and their return.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};

use crate::error::StoreError;
use crate::journal::set_journal_mode;
use crate::place::{put_in_place, refuse_leftovers, remove_database, set_aside};
use crate::store::Store;
use talaria_disk::beside;

/// Number of pages that a backup copies between two progress calls.
const BACKUP_PAGES: i32 = 1024;

impl Store {
    /// Copies the store to a new file while it is in use, as a snapshot of one moment. Calls
    /// `progress` with the number of copied pages and of all pages. Other processes can go on
    /// writing; their changes stay in the log beside the store until the copy is done.
    ///
    /// The copy appears at `target` when it is complete. Until then its name has `.partial`
    /// appended.
    ///
    /// # Errors
    ///
    /// [`StoreError::Io`] if `target` exists, or any error of a write.
    pub fn backup(&self, target: &Path, progress: impl FnMut(u64, u64)) -> Result<(), StoreError> {
        if target.exists() {
            let source = io::Error::new(io::ErrorKind::AlreadyExists, "it already exists");
            return Err(StoreError::Io { action: "back up to", path: target.to_owned(), source });
        }
        refuse_leftovers(target)?;
        self.copy_to(target, progress, || Ok(()))
    }

    /// Puts a copy of this store, which is a backup, at `target`. A store that is there is renamed
    /// to `aside` with its log, damaged or not, when the copy is complete.
    ///
    /// # Errors
    ///
    /// [`StoreError::Busy`] if another process uses the store at `target`; any error of a write.
    /// The store at `target`, if there was one, is there or at `aside`.
    pub fn restore(
        &self,
        target: &Path,
        aside: &Path,
        progress: impl FnMut(u64, u64),
    ) -> Result<(), StoreError> {
        if !target.exists() {
            return self.backup(target, progress);
        }
        refuse_if_used(target)?;
        self.copy_to(target, progress, || {
            refuse_if_used(target)?;
            set_aside(target, aside)
        })
    }

    /// Copies the store to `target`, whose name `free_name` makes free when the copy is complete.
    fn copy_to(
        &self,
        target: &Path,
        progress: impl FnMut(u64, u64),
        free_name: impl FnOnce() -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let new = beside(target, ".partial");
        // Removes the files of an interrupted copy.
        let _ = remove_database(&new);
        // Without a snapshot, a page written by another process would start the copy again.
        let snapshot = self.snapshot()?;
        make_as_private(&new, self.path()).map_err(|source| StoreError::Io {
            action: "create",
            path: new.clone(),
            source,
        })?;
        let copied = copy(&snapshot.connection, &new, progress);
        drop(snapshot);
        let moved = copied
            .map_err(|source| StoreError::engine(target, source))
            .and_then(|()| free_name())
            .and_then(|()| put_in_place(&new, target));
        let _ = remove_database(&new);
        moved
    }
}

/// Makes an empty file that the same users can read as `like`: a copy has the secret of the store,
/// too.
fn make_as_private(new: &Path, like: &Path) -> io::Result<()> {
    let permissions = fs::metadata(like)?.permissions();
    fs::File::create_new(new)?.set_permissions(permissions)
}

/// Refuses a store that another process has open. Whether a damaged one is in use cannot be known.
fn refuse_if_used(path: &Path) -> Result<(), StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_READ_WRITE;
    let leave_log = || -> rusqlite::Result<String> {
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(Duration::ZERO)?;
        // Nobody else may use the store while it gives up its log.
        set_journal_mode(&connection, "DELETE")
    };
    match leave_log() {
        Ok(mode) if mode == "wal" => Err(StoreError::Busy { path: path.to_owned() }),
        Ok(_) => Ok(()),
        Err(error) => match StoreError::engine(path, error) {
            busy @ StoreError::Busy { .. } => Err(busy),
            _ => Ok(()),
        },
    }
}

/// Copies all pages of a database into a new file.
fn copy(
    connection: &Connection,
    new: &Path,
    mut progress: impl FnMut(u64, u64),
) -> rusqlite::Result<()> {
    connection.query_row("SELECT count(*) FROM meta", [], |_| Ok(()))?;
    let mut out = Connection::open(new)?;
    // The file is synced once, when it is complete.
    out.execute_batch("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF")?;
    {
        let backup = Backup::new(connection, &mut out)?;
        loop {
            let step = backup.step(BACKUP_PAGES)?;
            let pages = backup.progress();
            let count = |pages: i32| u64::try_from(pages).unwrap_or(0);
            progress(count(pages.pagecount - pages.remaining), count(pages.pagecount));
            match step {
                StepResult::Done => break,
                StepResult::More => {}
                // This is not expected: readers of a write-ahead log block no process and wait for
                // none.
                _ => std::thread::sleep(Duration::from_millis(10)),
            }
        }
    }
    set_journal_mode(&out, "WAL").map(drop)
}
