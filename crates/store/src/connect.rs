//! Connecting to the database of a store, whatever this process may write.

use std::fmt::Write as _;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rusqlite::{Connection, OpenFlags};
use rustix::fs::Access as Permission;

use crate::error::StoreError;
use crate::open_files::OpenFiles;

/// Maximum time that a writer waits for another writer: 60 s.
pub(crate) const BUSY_TIMEOUT: Duration = Duration::from_secs(60);

/// A time within which a file system may give two changes of a file the same time. Linux takes the
/// time from a clock that ticks every 10 ms at most.
const TICK: Duration = Duration::from_millis(20);

/// Access mode of a store.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Access {
    /// Read only. A store in a folder that this process may not write is read without an index of
    /// its log, if it has no log: [`StoreError::Changed`] if it gets one.
    Read,
    /// Read and write an existing store.
    Write,
    /// Read and write a store, and create it if it does not exist.
    Create,
}

/// Connects to the database at `path`, whose files are `files`. Also returns its state if it is
/// read without locks.
///
/// SQLite reads a store through an index of its log, which it makes beside the database. Where this
/// process may not make files, and nobody else has made an index, a store without a log is read as
/// it is ([`Frozen`]). The journal of a killed process is rolled back first, which needs a writable
/// connection.
pub(crate) fn connect(
    path: &Path,
    files: &OpenFiles,
    access: Access,
) -> Result<(Connection, Option<Frozen>), StoreError> {
    let engine = |source| StoreError::engine(path, source);
    // Asks the system without opening the file, since closing it again would drop the locks of
    // other connections of this process.
    let may = |permission| rustix::fs::access(path, permission);
    may(Permission::READ_OK).map_err(|error| StoreError::Io {
        action: "open",
        path: path.to_owned(),
        source: error.into(),
    })?;
    let flags = match access {
        Access::Create => OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE,
        Access::Write => OpenFlags::SQLITE_OPEN_READ_WRITE,
        Access::Read => OpenFlags::SQLITE_OPEN_READ_ONLY,
    };
    let open = || Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX);
    if access != Access::Read {
        // A writer makes a log where there is none.
        let has_log = || files.log_path().exists();
        if may(Permission::WRITE_OK).is_err() || !files.may_make_files() && !has_log() {
            return Err(StoreError::ReadOnly { path: path.to_owned() });
        }
        return Ok((open().map_err(engine)?, None));
    }
    let read = || {
        let connection = open()?;
        connection.pragma_query_value(None, "user_version", |_| Ok(()))?;
        Ok(connection)
    };
    match read() {
        Ok(connection) => Ok((connection, None)),
        Err(error) if !is_open_error(&error) => Err(engine(error)),
        Err(error) if files.has_journal() && roll_back(path).is_err() => {
            Err(if files.may_make_files() { engine(error) } else { no_index(path, files) })
        }
        Err(_) if files.may_make_files() => Ok((read().map_err(engine)?, None)),
        Err(_) => {
            let (connection, frozen) = Frozen::connect(path, files)?;
            Ok((connection, Some(frozen)))
        }
    }
}

/// Why a store cannot be read that has a log or a journal.
fn no_index(path: &Path, files: &OpenFiles) -> StoreError {
    let log = if files.has_journal() { files.journal_path() } else { files.log_path().to_owned() };
    StoreError::NoIndex { path: path.to_owned(), log }
}

/// The state of a database without a log that is read without locks. It is read only as long as
/// nobody has changed it: a writer begins with a log, and copies it into the database later.
#[derive(Debug)]
pub(crate) struct Frozen {
    path: PathBuf,
    files: OpenFiles,
    state: State,
}

/// Equal as long as nobody writes to a file or replaces it.
#[derive(Debug, Eq, PartialEq)]
struct State {
    inode: (u64, u64),
    bytes: u64,
    /// Time of the last change, in seconds and nanoseconds. No user can set it.
    changed: (i64, i64),
}

impl Frozen {
    fn connect(path: &Path, files: &OpenFiles) -> Result<(Connection, Self), StoreError> {
        let failed = |source| StoreError::Io { action: "open", path: path.to_owned(), source };
        let mut state = State::of(files).map_err(failed)?;
        // A change in the same tick would not be noticed.
        while state.is_recent() {
            std::thread::sleep(TICK);
            state = State::of(files).map_err(failed)?;
        }
        if files.has_log() || files.has_journal() {
            return Err(no_index(path, files));
        }
        let mut uri = "file:".to_owned();
        for byte in files.target().as_os_str().as_bytes() {
            let _ = write!(uri, "%{byte:02x}");
        }
        uri.push_str("?immutable=1");
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
            | OpenFlags::SQLITE_OPEN_URI
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(uri, flags)
            .map_err(|source| StoreError::engine(path, source))?;
        Ok((connection, Self { path: path.to_owned(), files: files.clone(), state }))
    }

    /// Checks that everything that was read until now is the current state of the store.
    ///
    /// # Errors
    ///
    /// [`StoreError::Changed`].
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        // In this order: a log is copied into the database before it is removed.
        let has_log = self.files.has_log() || self.files.has_journal();
        if !has_log && State::of(&self.files).is_ok_and(|now| now == self.state) {
            return Ok(());
        }
        Err(StoreError::Changed { path: self.path.clone() })
    }
}

impl State {
    fn of(files: &OpenFiles) -> io::Result<Self> {
        let meta = files.target().metadata()?;
        Ok(Self {
            inode: (meta.dev(), meta.ino()),
            bytes: meta.len(),
            changed: (meta.ctime(), meta.ctime_nsec()),
        })
    }

    /// Whether the next change could have the same time.
    fn is_recent(&self) -> bool {
        let (seconds, nanoseconds) = self.changed;
        let (Ok(seconds), Ok(nanoseconds)) = (u64::try_from(seconds), u32::try_from(nanoseconds))
        else {
            return false;
        };
        let changed = SystemTime::UNIX_EPOCH + Duration::new(seconds, nanoseconds);
        // A time in the future is of another clock.
        SystemTime::now().duration_since(changed).is_ok_and(|since| since < TICK)
    }
}

/// Whether SQLite could not open one of the files of a store.
pub(crate) fn is_open_error(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{CannotOpen, PermissionDenied, ReadOnly, SystemIoFailure};
    matches!(
        error.sqlite_error_code(),
        Some(CannotOpen | PermissionDenied | ReadOnly | SystemIoFailure)
    )
}

/// Rolls back the transaction whose journal is beside the database.
fn roll_back(path: &Path) -> rusqlite::Result<()> {
    let flags = OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_READ_WRITE;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))
}
