//! keyboxd's database, `public-keys.d/pubring.db`: SQLite with a row per certificate.
//!
//! It is opened to read and never changed. The column `keyblob` of table `pubkey` holds the raw
//! keyblock.

use std::ffi::OsStr;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};

use crate::GnupgError;

/// The largest keyblock that is read: 64 MiB. keyboxd itself hands out at most 16 MiB.
const KEYBLOCK_BYTES_MAX: i64 = 64 << 20;

/// Rows of OpenPGP certificates in table `pubkey`, in the order in which keyboxd lists them.
const KEYBLOCKS: &str = "SELECT CASE WHEN length(keyblob) <= ?1 THEN keyblob ELSE 0 END \
     FROM pubkey WHERE type = 1 ORDER BY ubid";

/// Whether the file is keyboxd's database: SQLite, with the table that holds its certificates.
#[must_use]
pub fn is_keyboxd(path: &Path) -> bool {
    use std::io::Read as _;
    let mut magic = [0; 16];
    let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut magic));
    read.is_ok() && magic == *b"SQLite format 3\0" && open(path).is_ok()
}

/// Hands the raw keyblocks of keyboxd's database to `each`, in the order of their fingerprints,
/// until it breaks off. One keyblock is held at a time.
///
/// # Errors
///
/// [`GnupgError::NotKeyboxd`] or [`GnupgError::Database`]. Rows that hold no keyblock do not keep
/// the others from being read; the first of them is named at the end, as [`GnupgError::Damaged`]
/// with the number of the row in place of an offset.
pub fn read_keyboxd(
    path: &Path,
    mut each: impl FnMut(Vec<u8>) -> ControlFlow<()>,
) -> Result<(), GnupgError> {
    let failed = |source| GnupgError::Database { path: path.to_owned(), source };
    let connection = open(path)?;
    let mut statement = connection.prepare(KEYBLOCKS).map_err(failed)?;
    let mut rows = statement.query([KEYBLOCK_BYTES_MAX]).map_err(failed)?;
    let mut damaged = None;
    for number in 1.. {
        let Some(row) = rows.next().map_err(failed)? else { break };
        match row.get_ref(0).map_err(failed)? {
            ValueRef::Blob(keyblock) => {
                if each(keyblock.to_vec()).is_break() {
                    return Ok(());
                }
            }
            _ => damaged = damaged.or(Some(number)),
        }
    }
    damaged.map_or(Ok(()), |offset| {
        let what = format!("row {offset} of table pubkey holds no keyblock");
        Err(GnupgError::Damaged { what, offset })
    })
}

fn open(path: &Path) -> Result<Connection, GnupgError> {
    let failed = |source| GnupgError::Database { path: path.to_owned(), source };
    let connection = match try_open(path, "mode=ro") {
        Ok(connection) => connection,
        // On a read-only disk SQLite cannot take its locks. If there is a journal, a transaction
        // was broken off, and what is in the file is not to be taken as it lies there.
        Err(_) if !has_journal(path) => try_open(path, "mode=ro&immutable=1").map_err(failed)?,
        Err(source) => return Err(failed(source)),
    };
    let tables: u32 = connection
        .query_row(
            "SELECT count(*) FROM sqlite_schema WHERE type = 'table' \
             AND name IN ('pubkey', 'fingerprint', 'userid')",
            [],
            |row| row.get(0),
        )
        .map_err(failed)?;
    if tables == 3 { Ok(connection) } else { Err(GnupgError::NotKeyboxd { path: path.to_owned() }) }
}

fn try_open(path: &Path, how: &str) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_URI;
    let connection = Connection::open_with_flags(uri(path, how), flags)?;
    connection.busy_timeout(std::time::Duration::from_secs(10))?;
    connection.execute_batch("PRAGMA trusted_schema = OFF; PRAGMA query_only = ON;")?;
    connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
    Ok(connection)
}

/// The address of a file, with all that has a meaning in one written as `%XX`.
fn uri(path: &Path, how: &str) -> String {
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

fn has_journal(path: &Path) -> bool {
    let mut journal = path.as_os_str().to_owned();
    journal.push(OsStr::new("-journal"));
    PathBuf::from(journal).metadata().is_ok_and(|meta| meta.len() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A database with the tables of keyboxd (its schema version 1) and the given rows.
    fn database(folder: &Path, rows: &[(u8, i64, Option<&[u8]>)]) -> PathBuf {
        let path = folder.join("a b?c#%41.db");
        let connection = Connection::open(&path).unwrap();
        connection
            .execute_batch(
                "CREATE TABLE pubkey (ubid BLOB NOT NULL PRIMARY KEY, type INTEGER NOT NULL,
                     ephemeral INTEGER, revoked INTEGER, keyblob BLOB);
                 CREATE TABLE fingerprint (fpr BLOB NOT NULL PRIMARY KEY, kid BLOB, keygrip BLOB,
                     subkey INTEGER, ubid BLOB);
                 CREATE TABLE userid (uid TEXT, addrspec TEXT, type INTEGER, uidno INTEGER,
                     ubid BLOB);",
            )
            .unwrap();
        for (ubid, kind, keyblock) in rows {
            connection
                .execute(
                    "INSERT INTO pubkey VALUES (?1, ?2, 0, 0, ?3)",
                    rusqlite::params![&[*ubid; 20][..], kind, keyblock],
                )
                .unwrap();
        }
        path
    }

    fn read(path: &Path) -> (Vec<Vec<u8>>, Result<(), GnupgError>) {
        let mut found = Vec::new();
        let result = read_keyboxd(path, |keyblock| {
            found.push(keyblock);
            ControlFlow::Continue(())
        });
        (found, result)
    }

    #[test]
    fn rows_come_in_the_order_of_keyboxd() {
        let folder = tempfile::tempdir().unwrap();
        let rows: [(u8, i64, Option<&[u8]>); 4] =
            [(3, 1, Some(b"c")), (1, 1, Some(b"a")), (2, 2, Some(b"x509")), (4, 1, None)];
        let path = database(folder.path(), &rows);
        assert!(is_keyboxd(&path));
        let before = std::fs::read(&path).unwrap();
        let (found, result) = read(&path);
        assert_eq!(found, [b"a", b"c"]);
        assert!(matches!(result, Err(GnupgError::Damaged { offset: 3, .. })));
        assert_eq!(std::fs::read(&path).unwrap(), before);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing lies beside it");
    }

    #[test]
    fn reading_stops_when_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = database(folder.path(), &[(1, 1, Some(b"a")), (2, 1, Some(b"b"))]);
        let mut count = 0;
        read_keyboxd(&path, |_| {
            count += 1;
            ControlFlow::Break(())
        })
        .unwrap();
        assert_eq!(count, 1);
    }

    #[test]
    fn other_databases_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("other.db");
        Connection::open(&path).unwrap().execute_batch("CREATE TABLE pubkey (a)").unwrap();
        assert!(!is_keyboxd(&path));
        assert!(matches!(read(&path).1, Err(GnupgError::NotKeyboxd { .. })));
        assert!(!is_keyboxd(&folder.path().join("missing.db")));
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]

        /// A database with any byte changed, or any bytes behind the magic, gives no panic.
        #[test]
        fn any_bytes_are_read(at in 0usize..28_000, byte: u8, bytes: Vec<u8>) {
            let folder = tempfile::tempdir().unwrap();
            let path = database(folder.path(), &[(1, 1, Some(b"a")), (2, 1, Some(&[7; 9000]))]);
            let mut database = std::fs::read(&path).unwrap();
            let len = database.len();
            database[at % len] = byte;
            std::fs::write(&path, &database).unwrap();
            let _ = (is_keyboxd(&path), read(&path));
            std::fs::write(&path, [b"SQLite format 3\0", &bytes[..]].concat()).unwrap();
            let _ = (is_keyboxd(&path), read(&path));
        }
    }
}
