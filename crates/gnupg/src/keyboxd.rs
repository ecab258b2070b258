//! keyboxd's database, `public-keys.d/pubring.db`: SQLite with a row per certificate.
//!
//! It is opened to read and never changed. The column `keyblob` of table `pubkey` holds the raw
//! keyblock.

use std::ops::ControlFlow;
use std::path::Path;

use rusqlite::Connection;
use rusqlite::types::ValueRef;

use crate::error::GnupgError;
use crate::sqlite;

/// The largest keyblock that is read: 64 MiB. keyboxd itself hands out at most 16 MiB.
const KEYBLOCK_BYTES_MAX: i64 = 64 << 20;

/// Rows of OpenPGP certificates in table `pubkey`, in the order in which keyboxd lists them.
const KEYBLOCKS: &str = "SELECT CASE WHEN length(keyblob) <= ?1 THEN keyblob ELSE 0 END \
     FROM pubkey WHERE type = 1 ORDER BY ubid";

/// Whether the file is keyboxd's database: SQLite, with the table that holds its certificates.
#[must_use]
pub fn is_keyboxd(path: &Path) -> bool {
    open(path).is_ok()
}

/// Hands the raw keyblocks of keyboxd's database to `each`, in the order of their fingerprints,
/// until it breaks off. One keyblock is held at a time.
///
/// # Errors
///
/// [`GnupgError::NotKeyboxd`], or why the database cannot be opened or read. Rows that hold no
/// keyblock do not keep the others from being read; the first of them is named at the end, as
/// [`GnupgError::Damaged`] with the number of the row in place of an offset.
pub fn read_keyboxd(
    path: &Path,
    mut each: impl FnMut(Vec<u8>) -> ControlFlow<()>,
) -> Result<(), GnupgError> {
    let connection = open(path)?;
    let failed = |source| sqlite::failed(path, Some(&connection), source);
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
        let what = format!("row {offset} of table pubkey contains no keyblock");
        Err(GnupgError::Damaged { what, offset })
    })
}

fn open(path: &Path) -> Result<Connection, GnupgError> {
    let not_keyboxd = || GnupgError::NotKeyboxd { path: path.to_owned() };
    let connection = sqlite::open(path)?.ok_or_else(not_keyboxd)?;
    let tables: u32 = connection
        .query_row(
            "SELECT count(*) FROM sqlite_schema WHERE type = 'table' \
             AND name IN ('pubkey', 'fingerprint', 'userid')",
            [],
            |row| row.get(0),
        )
        .map_err(|source| sqlite::failed(path, Some(&connection), source))?;
    if tables == 3 { Ok(connection) } else { Err(not_keyboxd()) }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

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
    fn rows_are_in_the_order_of_keyboxd() {
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
    fn reading_stops_when_the_caller_says_so() {
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

        /// A database with changed bytes, or with any bytes after the magic, causes no panic.
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
