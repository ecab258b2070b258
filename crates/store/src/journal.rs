//! The journal mode of a database.

use rusqlite::Connection;

/// Sets the journal mode of a database, and returns the mode that it has then.
///
/// SQLite returns the mode before it commits the change to the header of the file. So the statement
/// runs to its end: a reader of the first row alone would not learn that the commit has failed, and
/// would take the database for one in the new mode.
pub(crate) fn set_journal_mode(connection: &Connection, mode: &str) -> rusqlite::Result<String> {
    let mut statement = connection.prepare(&format!("PRAGMA journal_mode = {mode}"))?;
    let mut rows = statement.query([])?;
    let mut now = String::new();
    while let Some(row) = rows.next()? {
        now = row.get(0)?;
    }
    Ok(now)
}
