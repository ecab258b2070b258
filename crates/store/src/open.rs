//! Opening a store: making it where there is none, and upgrading it where it is of an older format.

use std::io;
use std::path::Path;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, MAIN_DB, OpenFlags};

use crate::connect::{Access, BUSY_TIMEOUT, connect, is_open_error};
use crate::derive::{Failure, failed};
use crate::error::StoreError;
use crate::journal::set_journal_mode;
use crate::open_files::OpenFiles;
use crate::place::write_in_place;
use crate::schema::{self, Indexes, TextIndex};
use crate::store::{SYNCHRONOUS, Store, clock};
use crate::{blob, format, meta, migrate, seal};

/// Maximum number of bytes of the file that readers map into memory: 1 GiB.
const MMAP_BYTES: i64 = 1 << 30;

/// Page cache of a connection, in KiB: 64 MiB.
const CACHE_KIB: i64 = 64 << 10;

/// Layout of a new store. Programs set the fields of the default one.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Layout {
    /// Page size in bytes, a power of two from 4 to 64 KiB. 16 KiB balances bulk work, single
    /// commits and the size of the file (`docs/decisions/0018-page-size.md`). `talaria tune`
    /// measures it.
    pub page_bytes: u32,
    /// The full-text indexes of the store.
    pub text: Vec<TextIndex>,
    /// Whether the store has an index of keygrips, by which the keys of gpg-agent are found. A
    /// keyserver has no use for it.
    pub keygrips: bool,
}

impl Default for Layout {
    fn default() -> Self {
        Self { page_bytes: 16 << 10, text: TextIndex::ALL.to_vec(), keygrips: true }
    }
}

impl Layout {
    pub(crate) fn indexes(&self) -> Indexes {
        let has = |index: &TextIndex| self.text.contains(index);
        let text = TextIndex::ALL.into_iter().filter(has).collect();
        Indexes { text, keygrips: self.keygrips }
    }
}

impl Store {
    /// Opens the store at `path`. A new store gets the default layout. Opening for writing upgrades
    /// a store of an older format. Reading does not: format 4 is read as it is, and older formats
    /// are refused.
    ///
    /// # Errors
    ///
    /// [`StoreError::Missing`], [`StoreError::Foreign`], [`StoreError::Format`],
    /// [`StoreError::Outdated`], [`StoreError::ReadOnly`], [`StoreError::SecondName`],
    /// [`StoreError::NoIndex`], [`StoreError::Damaged`]; the file is untouched by any of them.
    pub fn open(path: &Path, access: Access) -> Result<Self, StoreError> {
        Self::open_with(path, access, &Layout::default())
    }

    /// Opens the store at `path`. A new store gets `layout`.
    ///
    /// # Errors
    ///
    /// As [`Self::open`].
    pub fn open_with(path: &Path, access: Access, layout: &Layout) -> Result<Self, StoreError> {
        let io = |source| StoreError::Io { action: "open", path: path.to_owned(), source };
        let missing = !path.try_exists().map_err(io)?;
        if missing {
            if access != Access::Create {
                return Err(StoreError::Missing { path: path.to_owned() });
            }
            make(path, layout)?;
        }
        let before = OpenFiles::at(path).map_err(io)?;
        if let (Access::Write | Access::Create, Some(name)) = (access, before.second_name()) {
            return Err(StoreError::SecondName { path: path.to_owned(), name });
        }
        let (connection, frozen) = connect(path, &before, access)?;
        let files = OpenFiles::at(path).map_err(io)?;
        if !files.is_same_database(&before) {
            return Err(StoreError::Moved { path: path.to_owned() });
        }
        let mut store = Self::on(connection, path, access, Some(files), frozen);
        store.wait_for_locks()?;
        store.run(|connection| {
            keep_plans(connection)?;
            connection.set_prepared_statement_cache_capacity(64);
            connection.execute_batch(&format!(
                "PRAGMA cache_size = -{CACHE_KIB}; PRAGMA mmap_size = {MMAP_BYTES}; \
                 PRAGMA temp_store = MEMORY; PRAGMA trusted_schema = OFF; \
                 PRAGMA synchronous = {SYNCHRONOUS};"
            ))
        })?;
        store.upgraded_from = store.identify()?;
        if access != Access::Read {
            store.keep_a_log()?;
            store.check_files()?;
            store.when_log_is_long(|_| true)?;
        }
        if missing {
            // The first commit to a new log has a sync of its own for the header of the log, as a
            // protection against old frames. A new log has no old frames, so this commit goes
            // without a sync. The next commit syncs everything.
            store.run(|connection| {
                connection.execute_batch("PRAGMA synchronous = OFF")?;
                meta::set_first(connection, "created", i64::from(clock()))?;
                connection.execute_batch(&format!("PRAGMA synchronous = {SYNCHRONOUS}"))
            })?;
        }
        Ok(store)
    }

    /// Switches the store back to a write-ahead log if it has none, since readers would block
    /// writers otherwise. This is the state after a command was killed while it changed the page
    /// size. If switching is not possible now, a later opening does it.
    fn keep_a_log(&self) -> Result<(), StoreError> {
        if !self.has_log()? {
            let _ = set_journal_mode(&self.connection, "WAL");
        }
        Ok(())
    }

    /// A store in memory, which ends with this value.
    ///
    /// # Errors
    ///
    /// When there is not enough memory.
    pub fn in_memory(name: &Path) -> Result<Self, StoreError> {
        let connection =
            Connection::open_in_memory().map_err(|source| StoreError::engine(name, source))?;
        let store = Self::on(connection, name, Access::Create, None, None);
        store.run(keep_plans)?;
        store.run(|connection| schema::create(connection, &Layout::default().indexes()))?;
        Ok(store)
    }

    /// Checks the application ID and the format of the file. Migrates older formats if the store
    /// was opened for writing, and returns the format that was found.
    fn identify(&mut self) -> Result<Option<i64>, StoreError> {
        let pragma = |name| {
            self.run(|connection| {
                connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0))
            })
        };
        match (pragma("application_id")?, pragma("user_version")?) {
            (format::APPLICATION, found @ 1..=format::FORMAT) => match self.access {
                Access::Write | Access::Create => {
                    if found < format::FORMAT {
                        self.migrate(found)?;
                    }
                    self.seal_all()?;
                    Ok((found < format::FORMAT).then_some(found))
                }
                Access::Read if found < format::OLDEST_READABLE => Err(StoreError::Outdated {
                    path: self.path.clone(),
                    found,
                    known: format::FORMAT,
                }),
                Access::Read => {
                    self.run(|connection| format::take_older_form(connection, found))?;
                    Ok(None)
                }
            },
            (format::APPLICATION, found) => {
                Err(StoreError::Format { path: self.path.clone(), found, known: format::FORMAT })
            }
            _ => Err(StoreError::Foreign { path: self.path.clone() }),
        }
    }

    /// Writes the checksums that are missing since the store was upgraded, in pieces: an
    /// interrupted upgrade continues where it was.
    fn seal_all(&mut self) -> Result<(), StoreError> {
        while self.run(blob::sealed_until)?.is_some() {
            self.atomically(|store| store.run(|connection| seal::next(connection, clock())))?;
        }
        Ok(())
    }

    /// Migrates a store of an older format to the current format.
    fn migrate(&self, found: i64) -> Result<(), StoreError> {
        let outdated =
            || StoreError::Outdated { path: self.path.clone(), found, known: format::FORMAT };
        let folder = self.path.parent().unwrap_or(Path::new("."));
        let run = || -> Result<(), Failure> {
            let flags = OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_READ_WRITE;
            let mut writer = Connection::open_with_flags(&self.path, flags)?;
            writer.busy_timeout(BUSY_TIMEOUT)?;
            writer.execute_batch(&format!("PRAGMA cache_size = -{CACHE_KIB};"))?;
            let transaction =
                writer.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
            // Another process may have migrated the store already.
            let found = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
            if found < format::FORMAT {
                migrate::migrate(&transaction, found, clock(), folder)?;
            }
            Ok(transaction.commit()?)
        };
        run().map_err(|failure| match failure {
            Failure::Engine(error) if is_open_error(&error) => outdated(),
            failure => failed(&self.path, failure),
        })
    }
}

/// Creates an empty store, which appears at `path` when it is complete. If another process has
/// created a store there first, that store stays.
fn make(path: &Path, layout: &Layout) -> Result<(), StoreError> {
    let database = empty(layout).map_err(|source| StoreError::engine(path, source))?;
    let io = |source: io::Error| match source.kind() {
        io::ErrorKind::StorageFull => StoreError::Full { path: path.to_owned() },
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
            StoreError::ReadOnly { path: path.to_owned() }
        }
        _ => StoreError::Io { action: "make", path: path.to_owned(), source },
    };
    match write_in_place(&database, path) {
        Err(StoreError::Io { source, .. }) if source.kind() == io::ErrorKind::AlreadyExists => {
            // Another process has made the store.
            if path.exists() {
                return Ok(());
            }
            Err(io(io::Error::other("it is a symbolic link to a file that does not exist")))
        }
        Err(StoreError::Io { source, .. }) => Err(io(source)),
        made => made,
    }
}

/// The file of an empty store.
fn empty(layout: &Layout) -> rusqlite::Result<Vec<u8>> {
    /// The places of the versions in the header, and the version that says that the database has a
    /// write-ahead log (sqlite.org/fileformat.html, section 1.3.3).
    const VERSIONS: std::ops::Range<usize> = 18..20;
    const WITH_LOG: u8 = 2;

    let mut connection = Connection::open_in_memory()?;
    connection.pragma_update(None, "page_size", layout.page_bytes)?;
    schema::create(&connection, &layout.indexes())?;
    let mut database = connection.serialize(MAIN_DB)?.to_vec();
    database[VERSIONS].fill(WITH_LOG);
    Ok(database)
}

/// Plans a statement once. Otherwise SQLite looks at the bound values of some statements, such as
/// that for a certificate by its number, and plans them again each time that they have others,
/// which takes longer than running them. The store keeps no statistics, so values change no plan.
fn keep_plans(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map(drop)
}
