//! Deleting certificates, compacting the store, changing its layout, and measuring its size.

use std::io;
use std::time::{Duration, Instant};

use talaria_cert::merge::Record;
use talaria_cert::{Fingerprint, Timestamp};

use crate::change::{self, ChangeKind};
use crate::error::StoreError;
use crate::find::{self, Found};
use crate::ingest::Rows;
use crate::journal::set_journal_mode;
use crate::ledger::Ledger;
use crate::number::CertId;
use crate::open_files::OpenFiles;
use crate::schema::{self, TextIndex};
use crate::store::Store;
use crate::texts::Texts;
use crate::tombstone::{self, Return};
use crate::{aside, blob, damage, revoker, row, trust};

/// The result of a compaction.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Compacted {
    /// The write-ahead log is empty. Otherwise another program still reads an older state, and text
    /// that was deleted or redacted can be in the file and in the log.
    pub is_log_empty: bool,
}

/// The interval at which a compaction asks whether readers have ended.
const LOOK: Duration = Duration::from_millis(50);

/// The size of a store on disk.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Pages {
    /// Size of a page in bytes.
    pub page_bytes: u64,
    /// Number of pages in the file.
    pub total: u64,
    /// Number of free pages.
    pub free: u64,
}

impl Store {
    /// Deletes certificates, all or none, and leaves a tombstone for each. Certificates that are
    /// not in the store are only blocked, if `returning` is [`Return::Blocked`]. Returns the number
    /// of deleted certificates.
    ///
    /// # Errors
    ///
    /// [`StoreError::ReadOnly`] or any error of a write; the store stays unchanged.
    pub fn delete(
        &mut self,
        fingerprints: &[Fingerprint],
        returning: Return,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        let now = now.seconds();
        let (mut found, mut gone_ids) = (Vec::new(), Vec::new());
        for &fingerprint in fingerprints {
            if let Some(row) = self.row(fingerprint)? {
                let stored = match self.stored(row.id) {
                    // A damaged certificate is deleted with all rows that name it.
                    Err(StoreError::DamagedCert { .. }) => None,
                    stored => stored?,
                };
                gone_ids.push(row.id.get());
                found.push((fingerprint, row.change.get(), stored));
            }
        }
        let ledger = self.rehearse(std::iter::empty(), &gone_ids, now, Ledger::default())?;
        let blocked = returning == Return::Blocked;
        let mut overtaken = Vec::new();
        let mut deleted = 0;
        self.transaction(|connection, last| {
            let views = schema::views(connection)?;
            let mut last = last;
            let mut rows = Rows::default();
            let mut texts = Texts::default();
            let mut gone = Vec::new();
            let mut purged = Vec::new();
            for &fingerprint in fingerprints {
                aside::forget(connection, fingerprint)?;
            }
            for (fingerprint, change, stored) in found {
                let stored_fingerprint = fingerprint.to_stored();
                let Some(Found { id, change: now_change, .. }) =
                    find::row(connection, fingerprint)?
                else {
                    continue;
                };
                if now_change != change {
                    overtaken.push(fingerprint);
                    continue;
                }
                if let Some(stored) = stored {
                    let prepared = Record::new(stored.cert, stored.verdicts, now.into(), &views);
                    rows.add(id, &prepared);
                    texts.remove(id, prepared.terms.text);
                    gone.push((id, prepared.cert));
                    row::delete(connection, id)?;
                } else {
                    damage::purge(connection, id)?;
                    purged.push(fingerprint);
                }
                blob::retire(connection, id)?;
                last += 1;
                change::append(connection, last, now, id, ChangeKind::Deleted)?;
                tombstone::bury(connection, &stored_fingerprint, last, blocked)?;
                deleted += 1;
            }
            rows.delete(connection)?;
            texts.write(connection)?;
            let removed = gone.iter().map(|(_, cert)| cert.fingerprint());
            let revokers: Vec<_> = removed.chain(purged.iter().copied()).collect();
            let turned = revoker::follow(connection, revokers, &[], &mut last, now, &ledger)?;
            trust::forget(connection, &gone, now, &ledger)?;
            if !purged.is_empty() {
                trust::renew(connection, now, &ledger)?;
            }
            trust::follow(connection, turned, now, &ledger)?;
            if blocked {
                for &fingerprint in fingerprints {
                    let stored = fingerprint.to_stored();
                    let here = find::row(connection, fingerprint)?;
                    if here.is_none() {
                        let buried = tombstone::grave(connection, fingerprint)?;
                        let change = buried.map_or(last, |grave| grave.change);
                        tombstone::bury(connection, &stored, change, true)?;
                    } else if !overtaken.contains(&fingerprint) {
                        // The certificate was added after the lookup.
                        overtaken.push(fingerprint);
                    }
                }
            }
            Ok(())
        })?;
        if !overtaken.is_empty() {
            deleted += self.delete(&overtaken, returning, now.into())?;
        }
        Ok(deleted)
    }

    /// Drops log entries that a later change replaced, merges the full-text indexes, releases free
    /// pages, and rewrites the file in order. With `page_bytes`, the pages get that size. Then it
    /// empties the write-ahead log, and waits up to `patience` until no reader needs it. Writers do
    /// not wait for these readers.
    ///
    /// # Errors
    ///
    /// [`StoreError::Busy`] if another process uses the store while its page size is changed;
    /// [`StoreError::Full`] if there is no room for a second copy. The store stays unchanged.
    pub fn compact(
        &mut self,
        page_bytes: Option<u32>,
        patience: Duration,
    ) -> Result<Compacted, StoreError> {
        self.transaction(|connection, last| {
            connection.execute(
                // The last change of a certificate stays even if its row does not name it: then the
                // disk has lost a write.
                "DELETE FROM change WHERE number < ?1 AND NOT EXISTS \
                 (SELECT 1 FROM cert WHERE cert.id = change.cert AND cert.change = change.number) \
                 AND number NOT IN (SELECT change FROM tombstone) \
                 AND (kind = 3 OR number NOT IN (SELECT max(number) FROM change GROUP BY cert))",
                [last],
            )?;
            for index in TextIndex::ALL {
                if index.exists(connection)? {
                    let table = index.table();
                    connection.execute(
                        &format!("INSERT INTO {table} ({table}) VALUES ('optimize')"),
                        [],
                    )?;
                }
            }
            Ok(())
        })?;
        let change_size = match page_bytes {
            Some(bytes) => u64::from(bytes) != self.pages()?.page_bytes,
            None => false,
        };
        let busy = StoreError::Busy { path: self.path.clone() };
        if change_size {
            // The log is deleted even if the rest of this step fails, for example on a full disk.
            self.files.iter().for_each(OpenFiles::renew_log);
            // The page size cannot change while the store uses a write-ahead log.
            let left = self.leave_log();
            if !matches!(left, Ok(true)) {
                // It may be closed already.
                let _ = self.run(|connection| set_journal_mode(connection, "WAL"));
                return left.and(Err(busy));
            }
        }
        let result = self.run(|connection| {
            if let (true, Some(bytes)) = (change_size, page_bytes) {
                connection.execute_batch(&format!("PRAGMA page_size = {bytes}"))?;
            }
            connection.execute_batch("VACUUM")
        });
        self.run(|connection| set_journal_mode(connection, "WAL"))?;
        result?;
        self.check_files()?;
        let emptied = self.empty_log(patience);
        self.wait_for_locks()?;
        Ok(Compacted { is_log_empty: emptied? })
    }

    /// Copies the write-ahead log into the file and deletes it, so that the store is in rollback
    /// mode. Returns false if another process uses the store.
    fn leave_log(&self) -> Result<bool, StoreError> {
        if self.run(|connection| set_journal_mode(connection, "DELETE"))? != "delete" {
            return Ok(false);
        }
        // SQLite ignores that it cannot delete the log, and then goes on with it. Pages of another
        // size in it would damage the store.
        match self.files.as_ref().map(OpenFiles::log_path) {
            Some(log) if log.exists() => {
                let source = io::Error::other("the folder must be writable");
                Err(StoreError::Io { action: "delete", path: log.to_owned(), source })
            }
            _ => Ok(true),
        }
    }

    /// Copies the write-ahead log into the file and empties it. Returns false if readers still need
    /// it after `patience`. No lock is held during the wait. The connection no longer waits for
    /// locks.
    fn empty_log(&self, patience: Duration) -> Result<bool, StoreError> {
        let begun = Instant::now();
        let checkpoint = |mode| {
            self.run(|connection| {
                connection.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |row| {
                    Ok((row.get::<_, i64>(0)? == 0, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?))
                })
            })
        };
        // With a time limit, SQLite would wait for readers under the write lock.
        self.run(|connection| connection.busy_timeout(Duration::ZERO))?;
        loop {
            let (_, frames, copied) = checkpoint("PASSIVE")?;
            if frames == copied && checkpoint("TRUNCATE")?.0 {
                return Ok(true);
            }
            if begun.elapsed() >= patience {
                return Ok(false);
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Evaluates some of the certificates again that name a new certificate as their revoker, and
    /// that a write with a limit has left for later. Returns whether there may be more.
    ///
    /// # Errors
    ///
    /// [`StoreError::Busy`] or any error of a write; the rest stays for later.
    pub fn follow_revokers(&mut self, now: Timestamp) -> Result<bool, StoreError> {
        if !self.run(revoker::are_followers_left)? {
            return Ok(false);
        }
        let now = now.seconds();
        self.transaction(|connection, mut last| {
            let turned = revoker::follow_later(connection, &mut last, now)?;
            let goes_on = turned.is_some();
            trust::follow(connection, turned.unwrap_or_default(), now, &Ledger::default())?;
            Ok(goes_on)
        })
    }

    /// The size of the store on disk.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] or [`StoreError::Engine`].
    pub fn pages(&self) -> Result<Pages, StoreError> {
        let pragma = |name: &str| {
            self.run(|connection| {
                connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0))
            })
            .map(i64::cast_unsigned)
        };
        Ok(Pages {
            page_bytes: pragma("page_size")?,
            total: pragma("page_count")?,
            free: pragma("freelist_count")?,
        })
    }

    /// Length of a certificate in bytes, by its number in the store. The certificate itself is not
    /// read.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] or [`StoreError::Engine`].
    pub fn cert_length(&self, id: CertId) -> Result<u64, StoreError> {
        self.run(|connection| blob::length(connection, id.get())).map(i64::cast_unsigned)
    }
}
