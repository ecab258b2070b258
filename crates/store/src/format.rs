//! The formats of a store, and reading an older one in the form of this version.

use rusqlite::Connection;

/// The store format that this version writes (`PRAGMA user_version`).
pub const FORMAT: i64 = 10;

/// The first format with a checksum for each certificate.
pub(crate) const CHECKSUM_FORMAT: i64 = 5;

/// The first format in which the index of key IDs has primary keys first, and each peer has its own
/// unobtainable digests.
pub(crate) const OWNERS_FORMAT: i64 = 6;

/// The first format in which a certificate and its checksum are in one row, and in which an index
/// of keygrips may be missing.
pub(crate) const ONE_ROW_FORMAT: i64 = 8;

/// The first format in which the index of key IDs says how a certificate holds each key.
pub(crate) const HOLDINGS_FORMAT: i64 = 9;

/// The first format in which both rows of a certificate name its last change, and in which rows of
/// `cert` and `meta` have checksums.
pub(crate) const STAMPED_FORMAT: i64 = 10;

/// The oldest format that can be read without migrating the store.
pub(crate) const OLDEST_READABLE: i64 = 4;

/// Identifies the file as a store (`PRAGMA application_id`): "TALA".
pub(crate) const APPLICATION: i64 = 0x5441_4c41;

/// The format of the store. 0 in a build that has not begun.
pub(crate) fn of(connection: &Connection) -> rusqlite::Result<i64> {
    connection.prepare_cached("PRAGMA user_version")?.query_row([], |row| row.get(0))
}

/// Lets a connection read a store of an older format in the form of this one: as if no row had a
/// checksum that its format does not have, and with an empty table of checksums before format 5.
/// The store stays unchanged.
pub(crate) fn take_older_form(connection: &Connection, format: i64) -> rusqlite::Result<()> {
    if format < STAMPED_FORMAT {
        let checksum =
            if format < ONE_ROW_FORMAT { "NULL AS digest, NULL AS sum" } else { "digest, sum" };
        connection.execute_batch(&format!(
            "CREATE TEMP VIEW blob AS \
             SELECT id, verdicts, bytes, {checksum}, NULL AS change FROM main.blob;
             CREATE TEMP VIEW cert AS SELECT id, fingerprint, change, verifier, summary, \
             NULL AS sum, NULL AS former FROM main.cert;
             CREATE TEMP VIEW meta AS SELECT name, value, NULL AS sum FROM main.meta;"
        ))?;
    }
    if format < CHECKSUM_FORMAT {
        connection.execute_batch(
            "CREATE TEMP TABLE checksum (cert INTEGER PRIMARY KEY, digest BLOB, sum INTEGER)",
        )?;
    }
    Ok(())
}

/// Takes [`take_older_form`] back if somebody has upgraded the store meanwhile. Returns whether it
/// was so.
pub(crate) fn leave_older_form(connection: &Connection) -> rusqlite::Result<bool> {
    // A connection for writing has upgraded the store. Besides, looking makes a temporary database,
    // and SQLite does not change the page size beside one.
    if !connection.is_readonly("main")? {
        return Ok(false);
    }
    let is_in_older_form = connection
        .prepare_cached("SELECT 1 FROM sqlite_temp_schema WHERE name = 'blob'")?
        .exists([])?;
    if !is_in_older_form || of(connection)? < STAMPED_FORMAT {
        return Ok(false);
    }
    connection.execute_batch(
        "DROP VIEW temp.blob; DROP VIEW temp.cert; DROP VIEW temp.meta; \
         DROP TABLE IF EXISTS temp.checksum",
    )?;
    Ok(true)
}
