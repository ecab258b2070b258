//! An open store: reading single certificates, and transactions.

use std::cell::{Cell, RefCell};
use std::ffi::c_int;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use rusqlite::hooks::Wal;
use rusqlite::{Connection, OptionalExtension as _};
use talaria_cert::merge::Stored;
use talaria_cert::{Fingerprint, Limits, Rules, Summary, Timestamp, Verified};

use crate::blob::{self, Blob};
use crate::comparisons::Comparisons;
use crate::connect::{Access, BUSY_TIMEOUT, Frozen};
use crate::error::StoreError;
use crate::ledger::Ledger;
use crate::meta::{self, Entry};
use crate::number::{CertId, ChangeNumber};
use crate::open_files::OpenFiles;
use crate::place::network_file_system;
use crate::row::{self, RawRow};
use crate::schema::{self, TextIndex};
use crate::second_name::SecondName;
use crate::texts::LateTexts;
use crate::{find, format, revoker};
use talaria_disk::{FileStep, take};

/// The pauses between attempts to get a lock, in milliseconds; the last one is repeated. SQLite
/// uses the same.
const PAUSES_MS: [u64; 12] = [1, 2, 5, 10, 15, 20, 25, 25, 25, 50, 50, 100];

/// The level of syncing before a commit returns. With a log, EXTRA is the same as FULL. Without
/// one, after a change of the page size has failed, EXTRA also syncs the removal of the journal: a
/// power cut would otherwise undo the commit.
pub(crate) const SYNCHRONOUS: &str = "EXTRA";

/// Bytes of the write-ahead log from which on it is copied into the database. A page that changed
/// in many commits is copied once.
pub const LOG_BYTES: u64 = 64 << 20;

/// A set of certificates on disk, with indexes and a change log.
///
/// Several processes may read and write one store at once. A writer waits for other writers.
/// Readers see the last committed state and do not wait.
#[derive(Debug)]
pub struct Store {
    pub(crate) connection: Connection,
    pub(crate) path: PathBuf,
    pub(crate) access: Access,
    pub(crate) limits: Limits,
    /// `None` for a store in memory.
    pub(crate) files: Option<OpenFiles>,
    /// The state in which the store is read without locks, if it is.
    frozen: Option<Frozen>,
    /// Set when waiting for locks is to end.
    stop_waiting: Arc<AtomicBool>,
    pub(crate) is_in_transaction: bool,
    /// This connection has changed the store.
    has_changed: bool,
    /// Everything up to this version of the data is on the disk, apart from commits of this
    /// connection.
    synced_version: Cell<Option<i64>>,
    /// Number of open snapshots.
    pub(crate) snapshots: Cell<usize>,
    pub(crate) late_texts: RefCell<LateTexts>,
    pub(crate) compared: Comparisons,
    /// Whether the current snapshot has all that `compared` must know.
    pub(crate) has_followed: Cell<bool>,
    pub(crate) upgraded_from: Option<i64>,
}

/// A row of the certificate table: the data for a listing.
#[derive(Clone, Debug)]
pub struct Row {
    /// The number of the certificate in the store.
    pub id: CertId,
    /// The number of the last change of the certificate.
    pub change: ChangeNumber,
    /// The summary of the certificate. It may no longer be true at the current time, see
    /// [`Store::current`].
    pub summary: Summary,
}

impl Row {
    /// A text that changes whenever the certificate changes, and differs between the certificates
    /// of a store: for caches.
    #[must_use]
    pub fn tag(&self) -> String {
        format!("{:x}-{:x}", self.id.get(), self.change.get())
    }
}

/// The time used for a migration, in seconds since 1970. It need not be the caller's time: results
/// are stored with the span of time for which they are true, and are recomputed outside of it.
pub(crate) fn clock() -> u32 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u32::try_from(since.as_secs()).unwrap_or(u32::MAX)
}

impl Store {
    /// A store on a connection to its database, before anything is asked of it. A store in memory
    /// has no files.
    pub(crate) fn on(
        connection: Connection,
        path: &Path,
        access: Access,
        files: Option<OpenFiles>,
        frozen: Option<Frozen>,
    ) -> Self {
        Self {
            connection,
            path: path.to_owned(),
            access,
            limits: Limits::default(),
            files,
            frozen,
            stop_waiting: Arc::default(),
            is_in_transaction: false,
            has_changed: false,
            synced_version: Cell::new(None),
            snapshots: Cell::new(0),
            late_texts: RefCell::default(),
            compared: Comparisons::default(),
            has_followed: Cell::new(false),
            upgraded_from: None,
        }
    }

    /// The format that the store had before it was upgraded by being opened for writing. `None` if
    /// it was not upgraded.
    #[must_use]
    pub fn upgraded_from(&self) -> Option<i64> {
        self.upgraded_from
    }

    /// The kind of network file system that the store is on, for example "NFS"; `None` on a local
    /// one. On a network file system, a store is only safe while all programs that use it run on
    /// one computer.
    #[must_use]
    pub fn network_file_system(&self) -> Option<&'static str> {
        network_file_system(&self.path)
    }

    /// How the database has a second name, if it has one. A program that opens it by another name
    /// uses another log, so this one may miss its changes. Such a store is not opened for writing.
    #[must_use]
    pub fn second_name(&self) -> Option<SecondName> {
        self.files.as_ref().and_then(OpenFiles::second_name)
    }

    /// Shares with other connections which certificates were compared: see [`Comparisons`].
    pub fn share_comparisons(&mut self, compared: &Comparisons) {
        self.compared = compared.clone();
    }

    /// Waits for locks of other processes only as long as `stop` is not set. After that, a lock
    /// that is not free is [`StoreError::Busy`]. A wait notices it within 0.1 s.
    ///
    /// # Errors
    ///
    /// [`StoreError::Engine`].
    pub fn stop_waiting_when(&mut self, stop: Arc<AtomicBool>) -> Result<(), StoreError> {
        self.stop_waiting = stop;
        self.wait_for_locks()
    }

    /// Waits for locks of other processes, up to [`BUSY_TIMEOUT`].
    pub(crate) fn wait_for_locks(&mut self) -> Result<(), StoreError> {
        let stop = Arc::clone(&self.stop_waiting);
        let mut since = Instant::now();
        let wait = move |attempts: i32| {
            if attempts == 0 {
                since = Instant::now();
            }
            if stop.load(Ordering::Relaxed) || since.elapsed() >= BUSY_TIMEOUT {
                return false;
            }
            let at = usize::try_from(attempts).unwrap_or(0).min(PAUSES_MS.len() - 1);
            std::thread::sleep(Duration::from_millis(PAUSES_MS[at]));
            true
        };
        self.connection
            .busy_handler(Some(wait))
            .map_err(|source| StoreError::engine(&self.path, source))
    }

    /// Runs `work` and converts its errors.
    pub(crate) fn run<T>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let result = work(&self.connection);
        self.check_frozen()?;
        result.map_err(|source| StoreError::engine(&self.path, source))
    }

    /// Checks that whatever was read without locks is one state of the store, and its current one.
    pub(crate) fn check_frozen(&self) -> Result<(), StoreError> {
        self.frozen.as_ref().map_or(Ok(()), Frozen::check)
    }

    /// Whether the store is in memory only.
    #[must_use]
    pub fn is_in_memory(&self) -> bool {
        self.connection.path().is_none_or(str::is_empty)
    }

    /// The path of the store.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Refuses to write to a store that was opened for reading.
    pub(crate) fn writable(&self) -> Result<(), StoreError> {
        match self.access {
            Access::Read => Err(StoreError::ReadOnly { path: self.path.clone() }),
            Access::Write | Access::Create => Ok(()),
        }
    }

    pub(crate) fn damaged(&self, what: impl Into<String>) -> StoreError {
        StoreError::Damaged { path: self.path.clone(), what: what.into() }
    }

    /// The number of certificates.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] or [`StoreError::Engine`].
    pub fn count(&self) -> Result<u64, StoreError> {
        self.run(|connection| {
            connection
                .prepare_cached("SELECT count(*) FROM fingerprint")?
                .query_row([], |row| row.get::<_, i64>(0))
        })
        .map(i64::cast_unsigned)
    }

    /// Whether the store keeps a full-text index.
    ///
    /// # Errors
    ///
    /// [`StoreError::Engine`].
    pub fn has_index(&self, index: TextIndex) -> Result<bool, StoreError> {
        self.run(|connection| index.exists(connection))
    }

    /// Whether the store keeps an index of keygrips.
    ///
    /// # Errors
    ///
    /// [`StoreError::Engine`].
    pub fn has_keygrips(&self) -> Result<bool, StoreError> {
        self.run(schema::has_keygrips)
    }

    /// The row of the certificate whose primary key has this fingerprint.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] or [`StoreError::Engine`].
    pub fn row(&self, fingerprint: Fingerprint) -> Result<Option<Row>, StoreError> {
        let found = self.run(|connection| find::row(connection, fingerprint))?;
        found.map(|found| self.row_by_id(CertId::new(found.id))).transpose().map(Option::flatten)
    }

    /// The row of a certificate by its number in the store.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] or [`StoreError::Engine`].
    pub fn row_by_id(&self, id: CertId) -> Result<Option<Row>, StoreError> {
        let raw = self.run(|connection| row::get(connection, id.get()))?;
        raw.map(|raw| self.decode(&raw)).transpose()
    }

    /// The fingerprint of a certificate. Its summary is not read.
    ///
    /// # Errors
    ///
    /// [`StoreError::Engine`].
    pub fn fingerprint(&self, id: CertId) -> Result<Option<Fingerprint>, StoreError> {
        self.run(|connection| row::fingerprint(connection, id.get()))
    }

    /// The number of the last change of a certificate.
    ///
    /// # Errors
    ///
    /// [`StoreError::Engine`].
    pub fn last_change(&self, id: CertId) -> Result<Option<ChangeNumber>, StoreError> {
        self.run(|connection| {
            connection
                .prepare_cached("SELECT change FROM cert WHERE id = ?1")?
                .query_row([id.get()], |row| row.get(0).map(ChangeNumber::new))
                .optional()
        })
    }

    pub(crate) fn decode(&self, raw: &RawRow) -> Result<Row, StoreError> {
        let (id, change) = (CertId::new(raw.id), ChangeNumber::new(raw.change));
        let is_sealed = match raw.is_sealed() {
            Some(is_sealed) => is_sealed,
            None => self.run(|connection| blob::is_row_awaited(connection, raw.id))?,
        };
        let summary = match raw.summary().filter(|_| is_sealed && raw.has_judged()) {
            Some(summary) => summary,
            // What the row says may be wrong, so the certificate itself is asked.
            None => match self.stored(id)? {
                Some(stored) => self.evaluate(Rules::Standard, &stored, None, clock())?,
                None => return Err(self.damaged_cert(raw.id)?),
            },
        };
        Ok(Row { id, change, summary })
    }

    /// The summary of a certificate at `now`, with the revocations by revokers in the store.
    /// `known` is one of another time, by the standard rules, which spares the verification of
    /// signatures by subkeys: many rows may be read in a search.
    fn evaluate(
        &self,
        rules: Rules,
        stored: &Stored,
        known: Option<&Summary>,
        now: u32,
    ) -> Result<Summary, StoreError> {
        let Stored { cert, verdicts } = stored;
        let mut summary = match known.filter(|_| rules == Rules::Standard) {
            Some(known) => known.at_another_time(cert, verdicts, now),
            None => Summary::by(rules, cert, verdicts, now),
        };
        self.run(|connection| {
            revoker::ask(connection, &stored.cert, &mut summary, now, &Ledger::default())
        })?;
        Ok(summary)
    }

    /// The row with its summary by `rules` as of `now`. The summary is recomputed from the
    /// certificate if the stored one, by the standard rules, is another.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] or [`StoreError::Engine`].
    pub fn current(&self, row: Row, rules: Rules, now: Timestamp) -> Result<Row, StoreError> {
        let (id, change, now) = (row.id, row.change, now.seconds());
        let known = if row.summary.holds.contains(now) {
            row.summary.under(rules)
        } else {
            Err(Box::new(row.summary))
        };
        let summary = match known {
            Ok(summary) => summary,
            Err(other) => match self.stored(id)? {
                Some(stored) => self.evaluate(rules, &stored, Some(&other), now)?,
                None => *other,
            },
        };
        Ok(Row { id, change, summary })
    }

    /// A certificate by its number in the store.
    ///
    /// # Errors
    ///
    /// [`StoreError::DamagedCert`], also if its row is there and its bytes are not;
    /// [`StoreError::Damaged`] or [`StoreError::Engine`].
    pub fn stored(&self, id: CertId) -> Result<Option<Stored>, StoreError> {
        match self.run(|connection| blob::get(connection, id.get()))? {
            Some(blob) => self.decode_blob(blob).map(Some),
            None if self.run(|connection| row::exists(connection, id.get()))? => {
                Err(self.damaged_cert(id.get())?)
            }
            None => Ok(None),
        }
    }

    pub(crate) fn decode_blob(&self, blob: Blob) -> Result<Stored, StoreError> {
        let id = blob.id;
        let is_usable = self.run(|connection| blob::is_usable(connection, &blob))?;
        let decoded = if is_usable { blob.into_decoded() } else { None };
        match decoded {
            Some((cert, verdicts)) => Ok(Stored { cert, verdicts }),
            None => Err(self.damaged_cert(id)?),
        }
    }

    pub(crate) fn damaged_cert(&self, id: i64) -> Result<StoreError, StoreError> {
        let fingerprint = self.run(|connection| row::fingerprint(connection, id))?;
        Ok(StoreError::DamagedCert { path: self.path.clone(), id: CertId::new(id), fingerprint })
    }

    /// The certificate whose primary key has this fingerprint.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] or [`StoreError::Engine`].
    pub fn get(&self, fingerprint: Fingerprint) -> Result<Option<Stored>, StoreError> {
        match self.row(fingerprint)? {
            Some(row) => self.stored(row.id),
            None => Ok(None),
        }
    }

    /// As [`Self::get`]. What is unchecked, or may have been judged differently by an earlier
    /// version, is verified now.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::get`].
    pub fn verified(&self, fingerprint: Fingerprint) -> Result<Option<Verified>, StoreError> {
        let found = self.run(|connection| find::row(connection, fingerprint))?;
        let Some(found) = found else { return Ok(None) };
        let verifier = u8::try_from(found.verifier).unwrap_or(0);
        let stored = self.stored(CertId::new(found.id))?;
        Ok(stored.map(|stored| Verified::of_stored(stored, verifier)))
    }

    /// The name of the store, generated randomly when the store was created. Change numbers of
    /// different stores are not comparable.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] or [`StoreError::Engine`].
    pub fn name(&self) -> Result<String, StoreError> {
        match self.run(|connection| meta::get(connection, "store"))? {
            Entry::Good(name) => Ok(name),
            Entry::Damaged | Entry::Missing => Err(self.damaged("the name of the store")),
        }
    }

    /// Limits the memory of this value: cached pages, and mapped bytes of the file.
    ///
    /// # Errors
    ///
    /// [`StoreError::Engine`].
    pub fn set_memory(&self, cache_bytes: u64, map_bytes: u64) -> Result<(), StoreError> {
        self.run(|connection| {
            connection.execute_batch(&format!(
                "PRAGMA cache_size = -{}; PRAGMA mmap_size = {map_bytes};",
                cache_bytes / 1024
            ))
        })
    }

    /// Runs `work` as one transaction, or as a part of one. `work` gets the number of the last
    /// change before it.
    pub(crate) fn transaction<T>(
        &mut self,
        work: impl FnOnce(&Connection, i64) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        self.atomically(|store| {
            store.run(|connection| {
                let last = connection
                    .prepare_cached("SELECT coalesce(max(number), 0) FROM change")?
                    .query_row([], |row| row.get(0))?;
                work(connection, last)
            })
        })
    }

    /// Runs `work` so that all its changes are one transaction: all or none are made.
    ///
    /// # Errors
    ///
    /// Errors of `work`; [`StoreError::ReadOnly`] or any error of a write. The store stays
    /// unchanged.
    pub fn atomically<T, E: From<StoreError>>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, E>,
    ) -> Result<T, E> {
        self.writable()?;
        if self.is_in_transaction {
            return work(self);
        }
        if !self.has_changed && self.has_log()? {
            return self.first_change(work);
        }
        let changes = self.connection.total_changes();
        let result = self.commit(work)?;
        if self.connection.total_changes() == changes {
            // The commit wrote nothing, so it synced nothing.
            self.sync_what_was_read()?;
        }
        Ok(result)
    }

    /// Makes sure that everything that this connection has read survives a power loss: other
    /// processes commit before they sync. An operation that finds nothing to change ends with this.
    /// It costs nothing if nobody else has written.
    ///
    /// # Errors
    ///
    /// [`StoreError::Io`]. Then nobody knows what is on the disk, as for [`LogToSync::sync`].
    pub fn sync_what_was_read(&self) -> Result<(), StoreError> {
        let version = self.data_version()?;
        if self.synced_version.get() != Some(version) {
            // What was copied from the log into the database is on the disk.
            if self.files.as_ref().is_some_and(OpenFiles::has_log) {
                self.log_to_sync().sync()?;
            }
            self.synced_version.set(Some(version));
        }
        Ok(())
    }

    /// A number that changes with each commit of another connection.
    fn data_version(&self) -> Result<i64, StoreError> {
        self.run(|connection| {
            connection.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))
        })
    }

    /// The first change of a connection, which is the only one of many commands. The commit writes
    /// the log without a sync, and copying the log into the database makes the change durable: that
    /// syncs the log first. On closing, nothing is left to copy, so a command has four syncs
    /// instead of five.
    fn first_change<T, E: From<StoreError>>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, E>,
    ) -> Result<T, E> {
        self.synchronise("NORMAL")?;
        let result = self.commit(work);
        self.synchronise(SYNCHRONOUS)?;
        // Not before: after a panic of `work`, the next change is the first one.
        self.has_changed = true;
        let result = result?;
        let version = self.data_version()?;
        if !self.copy_log().unwrap_or(false) {
            // A reader needs the old pages, or the disk is full. The log is enough.
            self.log_to_sync().sync()?;
        }
        self.synced_version.set(Some(version));
        self.check_files()?;
        Ok(result)
    }

    /// Runs `work`, which changes the store at most once, without a sync at its commit: others see
    /// the change at once, and it survives a power loss after the next [`LogToSync::sync`].
    pub(crate) fn ahead_of_sync<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        // The first change has syncs of its own, and so has a store without a log.
        if self.is_in_transaction || !self.has_changed || !self.has_log()? {
            return work(self);
        }
        self.synchronise("NORMAL")?;
        let result = work(self);
        self.synchronise(SYNCHRONOUS)?;
        result
    }

    /// Lets `copies` decide, after each commit behind which the write-ahead log is longer than
    /// [`LOG_BYTES`], whether this commit copies it into the database. `copies` gets its length in
    /// bytes. Without it, every such commit does.
    ///
    /// # Errors
    ///
    /// [`StoreError::Engine`].
    pub fn when_log_is_long(
        &mut self,
        mut copies: impl FnMut(u64) -> bool + Send + 'static,
    ) -> Result<(), StoreError> {
        let page: u32 = self
            .run(|connection| connection.pragma_query_value(None, "page_size", |row| row.get(0)))?;
        let hook = move |log: &mut Wal, pages: c_int| {
            let length = u64::try_from(pages).unwrap_or(0) * u64::from(page);
            if length >= LOG_BYTES && copies(length) {
                // What is not copied stays in the log until the next commit.
                let _ = log.checkpoint();
            }
            Ok(())
        };
        let set = self.connection.wal_hook(Some(hook));
        set.map_err(|source| StoreError::engine(&self.path, source))
    }

    /// Copies the write-ahead log into the database, as far as no snapshot needs the old pages.
    /// Returns whether that was all of it: then the next change begins the log anew. Other
    /// connections may read and write meanwhile.
    ///
    /// # Errors
    ///
    /// [`StoreError::Engine`]. The log is still there.
    pub fn copy_log(&self) -> Result<bool, StoreError> {
        self.run(|connection| {
            connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| {
                // Another connection may be copying. Then SQLite knows no lengths.
                let (is_busy, length, copied): (bool, i64, i64) = row.try_into()?;
                Ok(!is_busy && length == copied)
            })
        })
    }

    /// The log of this store, for a thread that syncs it while this one goes on.
    #[must_use]
    pub fn log_to_sync(&self) -> LogToSync {
        LogToSync { path: self.files.as_ref().map(|files| files.log_path().to_owned()) }
    }

    /// Sets which steps of a commit SQLite syncs.
    fn synchronise(&self, steps: &str) -> Result<(), StoreError> {
        self.run(|connection| connection.execute_batch(&format!("PRAGMA synchronous = {steps}")))
    }

    /// Whether the store has a write-ahead log at the moment.
    pub(crate) fn has_log(&self) -> Result<bool, StoreError> {
        self.run(|connection| {
            connection.pragma_query_value(None, "journal_mode", |row| row.get::<_, String>(0))
        })
        .map(|mode| mode == "wal")
    }

    fn commit<T, E: From<StoreError>>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, E>,
    ) -> Result<T, E> {
        self.run(|connection| connection.prepare_cached("BEGIN IMMEDIATE")?.execute([]).map(drop))?;
        self.is_in_transaction = true;
        let mut open = Transaction { store: self, is_committed: false };
        open.store.check_unchanged()?;
        let result = work(open.store)?;
        open.store.run(|connection| connection.prepare_cached("COMMIT")?.execute([]))?;
        open.is_committed = true;
        drop(open);
        self.check_files()?;
        Ok(result)
    }

    /// Checks under the write lock that this is the store that was opened, in the format that this
    /// version writes: another program may have replaced or upgraded it.
    pub(crate) fn check_unchanged(&self) -> Result<(), StoreError> {
        self.check_files()?;
        let found: i64 = self.run(|connection| {
            connection.prepare_cached("PRAGMA user_version")?.query_row([], |row| row.get(0))
        })?;
        if found == format::FORMAT {
            return Ok(());
        }
        Err(StoreError::Format { path: self.path.clone(), found, known: format::FORMAT })
    }

    /// The files that are open, for noticing from any thread that they were moved or replaced;
    /// `None` for a store in memory.
    #[must_use]
    pub fn open_files(&self) -> Option<OpenFiles> {
        self.files.clone()
    }

    pub(crate) fn check_files(&self) -> Result<(), StoreError> {
        self.files.as_ref().map_or(Ok(()), OpenFiles::check)
    }
}

/// The write-ahead log of a store, whose commits may wait for a sync by another thread
/// ([`Store::write_ahead`]).
#[derive(Clone, Debug)]
pub struct LogToSync {
    /// `None` for a store in memory.
    path: Option<PathBuf>,
}

impl LogToSync {
    /// Syncs all commits that were made before, so that they survive a power loss.
    ///
    /// # Errors
    ///
    /// [`StoreError::Io`]. Then nobody knows which of the commits since the last sync are on the
    /// disk, and a later sync does not tell: whoever writes must close the store.
    pub fn sync(&self) -> Result<(), StoreError> {
        let Some(path) = &self.path else { return Ok(()) };
        let sync = || File::open(path)?.sync_data();
        take(FileStep::Sync(path), sync).map_err(|source| StoreError::Io {
            action: "sync",
            path: path.clone(),
            source,
        })
    }
}

/// A transaction that is rolled back unless it was committed, also if its work panics.
struct Transaction<'a> {
    store: &'a mut Store,
    is_committed: bool,
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        self.store.is_in_transaction = false;
        if !self.is_committed {
            // SQLite has rolled back already after some errors.
            let _ = self.store.connection.execute_batch("ROLLBACK");
        }
    }
}
