//! SQLite databases of GnuPG: opened to read, never changed, with their damage.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags};

use talaria_disk::beside;

use crate::error::GnupgError;

/// The first bytes of an SQLite database.
pub(crate) const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// Bytes of the header.
const HEADER_BYTES: u64 = 100;

/// How long a process that writes is waited for.
const BUSY: Duration = Duration::from_secs(10);

/// Opens a database that another program may have open. Nothing is written, neither to it nor
/// beside it. `None` if the file is no SQLite.
///
/// The header is read by a descriptor of its own, and closing that drops the locks that other
/// connections of this process have on the same file (POSIX): callers see to it that there is none.
///
/// # Errors
///
/// [`GnupgError::Io`], [`GnupgError::Unfinished`], [`GnupgError::Damaged`] if the list of tables
/// cannot be read, or [`GnupgError::Database`].
pub(crate) fn open(path: &Path) -> Result<Option<Connection>, GnupgError> {
    let head = head(path).map_err(GnupgError::io("read", path))?;
    if !head.starts_with(MAGIC) {
        return Ok(None);
    }
    let unfinished = || GnupgError::Unfinished { path: path.to_owned() };
    // Versions for writing and reading: 2 is a log ahead of the file. GnuPG does not use it, and
    // SQLite cannot open it without leaving files beside it.
    if matches!(head.get(18..20), Some([2, _] | [_, 2])) {
        if has_bytes(&beside(path, "-wal")) {
            return Err(unfinished());
        }
        let opened = try_open(path, "mode=ro&immutable=1");
        return opened.map(Some).map_err(|source| failed(path, None, source));
    }
    match try_open(path, "mode=ro") {
        Ok(connection) => Ok(Some(connection)),
        // If there is a journal, a transaction was broken off, and what is in the file is not to be
        // taken as it lies there.
        Err(source) if is_unfinished(path) => Err(match source.sqlite_error_code() {
            Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen) => unfinished(),
            _ => failed(path, None, source),
        }),
        // On a read-only file system, SQLite cannot take its locks, and nobody changes the file.
        Err(_) if is_read_only(path) => {
            let opened = try_open(path, "mode=ro&immutable=1");
            opened.map(Some).map_err(|source| failed(path, None, source))
        }
        Err(source) => Err(failed(path, None, source)),
    }
}

/// Whether the file system of a file is mounted read-only.
fn is_read_only(path: &Path) -> bool {
    rustix::fs::statvfs(path)
        .is_ok_and(|disk| disk.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY))
}

/// Whether a transaction lies beside the file that has to be taken back or brought in.
pub(crate) fn is_unfinished(path: &Path) -> bool {
    ["-journal", "-wal"].iter().any(|suffix| has_bytes(&beside(path, suffix)))
}

/// Compares the length of a database that is being read with what its header says: SQLite takes
/// the missing part of the last page for zeros.
///
/// # Errors
///
/// [`GnupgError::Damaged`] if it is cut off, or what SQLite says.
pub(crate) fn check_length(path: &Path, connection: &Connection) -> Result<(), GnupgError> {
    let bytes = number(connection, "PRAGMA page_count")
        .and_then(|pages| Ok(pages.saturating_mul(number(connection, "PRAGMA page_size")?)))
        .map_err(|source| failed(path, Some(connection), source))?;
    let len = fs::metadata(path).map_err(GnupgError::io("look at", path))?.len();
    is_shorter(path, len, bytes).map_or(Ok(()), Err)
}

/// Names the damaged part, if damage is the reason why SQLite failed.
pub(crate) fn failed(
    path: &Path,
    connection: Option<&Connection>,
    source: rusqlite::Error,
) -> GnupgError {
    use ErrorCode::{DatabaseCorrupt, NotADatabase};
    let damaged = matches!(source.sqlite_error_code(), Some(DatabaseCorrupt | NotADatabase));
    let found = damaged.then(|| cut_off(path).or_else(|| damage(path, connection))).flatten();
    found.unwrap_or_else(|| GnupgError::Database { path: path.to_owned(), source: source.into() })
}

/// An error if the file has fewer bytes than its header says.
fn cut_off(path: &Path) -> Option<GnupgError> {
    let head = head(path).ok()?;
    let len = fs::metadata(path).ok()?.len();
    let be =
        |range| head.get(range).map(|b: &[u8]| b.iter().fold(0, |n, &b| n << 8 | u64::from(b)));
    let page_bytes = match be(16..18) {
        Some(1) => 1 << 16,
        Some(bytes) if bytes >= 512 && bytes.is_power_of_two() => bytes,
        Some(bytes) => {
            let what = format!("{} has pages of {bytes} bytes", path.display());
            return Some(GnupgError::Damaged { what, offset: 16 });
        }
        None => HEADER_BYTES,
    };
    // The number of pages counts only if whoever wrote last has set it.
    let counted = be(24..28).filter(|_| be(24..28) == be(92..96)).and_then(|_| be(28..32));
    let bytes = page_bytes * counted.unwrap_or(1).max(1);
    is_shorter(path, len, bytes)
}

fn is_shorter(path: &Path, len: u64, bytes: u64) -> Option<GnupgError> {
    (len < bytes).then(|| {
        let what = format!("{} is truncated: it should have {bytes} bytes", path.display());
        GnupgError::Damaged { what, offset: len }
    })
}

/// Lets SQLite look for the page that is damaged.
fn damage(path: &Path, connection: Option<&Connection>) -> Option<GnupgError> {
    let Some(connection) = connection else {
        let what = format!("the list of tables of {} cannot be read", path.display());
        return Some(GnupgError::Damaged { what, offset: 0 });
    };
    let found: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)).ok()?;
    let found = found.lines().find(|line| !line.starts_with("***"))?;
    let (_, page) = found.split_once("page ").or_else(|| found.split_once("Page "))?;
    let digits = page.find(|c: char| !c.is_ascii_digit()).unwrap_or(page.len());
    let page = page[..digits].parse::<u64>().ok()?.checked_sub(1)?;
    let offset = page.checked_mul(number(connection, "PRAGMA page_size").ok()?)?;
    Some(GnupgError::Damaged { what: format!("{}: {found}", path.display()), offset })
}

fn number(connection: &Connection, sql: &str) -> rusqlite::Result<u64> {
    connection.query_row(sql, [], |row| row.get(0).map(i64::cast_unsigned))
}

fn try_open(path: &Path, how: &str) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_URI;
    let connection = Connection::open_with_flags(uri(path, how), flags)?;
    connection.busy_timeout(BUSY)?;
    connection.execute_batch(
        "PRAGMA trusted_schema = OFF; PRAGMA query_only = ON; PRAGMA cell_size_check = ON;",
    )?;
    connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
    Ok(connection)
}

/// The address of a file, with all that has a meaning in one written as `%XX`.
pub(crate) fn uri(path: &Path, how: &str) -> String {
    let mut out = String::from("file:");
    for &byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => {
                out.push(byte.into());
            }
            _ => {
                const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
                out.push('%');
                out.push(DIGITS[usize::from(byte >> 4)].into());
                out.push(DIGITS[usize::from(byte & 15)].into());
            }
        }
    }
    out.push('?');
    out.push_str(how);
    out
}

/// The header, or what there is of it.
fn head(path: &Path) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    File::open(path)?.take(HEADER_BYTES).read_to_end(&mut head)?;
    Ok(head)
}

fn has_bytes(path: &Path) -> bool {
    path.metadata().is_ok_and(|meta| meta.len() > 0)
}
