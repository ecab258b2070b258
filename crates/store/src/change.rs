//! Table `change`: the change log, with a row for each change of a certificate.

use std::collections::HashMap;

use rusqlite::Connection;

use crate::sums;

/// The kinds of change in the log.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum ChangeKind {
    /// A certificate was added.
    New = 1,
    /// A certificate was extended or replaced.
    Updated = 2,
    /// A certificate was deleted.
    Deleted = 3,
}

/// The last change of a certificate, as the log has it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Latest {
    pub(crate) number: i64,
    pub(crate) is_deleted: bool,
}

/// The last change of each certificate, or of one alone. Damaged rows are left out.
pub(crate) fn latest(
    connection: &Connection,
    only: Option<i64>,
) -> rusqlite::Result<HashMap<i64, Latest>> {
    let mut latest = HashMap::new();
    // The other columns are those of the row with the highest number.
    let mut statement = connection.prepare(
        "SELECT cert, max(number), time, kind, sum FROM change WHERE ?1 IS NULL OR cert = ?1 \
         GROUP BY cert",
    )?;
    let mut rows = statement.query([only])?;
    while let Some(row) = rows.next()? {
        let (id, number, kind): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(3)?);
        if sums::of_change(number, row.get(2)?, id, kind) == row.get::<_, i64>(4)? {
            let is_deleted = kind == ChangeKind::Deleted as i64;
            latest.insert(id, Latest { number, is_deleted });
        }
    }
    Ok(latest)
}

/// The last change of a certificate. Reads the whole log, and is needed for damaged rows only.
pub(crate) fn last_change_of(connection: &Connection, id: i64) -> rusqlite::Result<i64> {
    connection
        .prepare_cached("SELECT coalesce(max(number), 0) FROM change WHERE cert = ?1")?
        .query_row([id], |row| row.get(0))
}

/// Whether there is a change with this number.
pub(crate) fn has(connection: &Connection, number: i64) -> rusqlite::Result<bool> {
    connection.prepare_cached("SELECT 1 FROM change WHERE number = ?1")?.exists([number])
}

/// Appends a row.
pub(crate) fn append(
    connection: &Connection,
    number: i64,
    now: u32,
    id: i64,
    kind: ChangeKind,
) -> rusqlite::Result<()> {
    let (time, kind) = (i64::from(now), kind as i64);
    connection.prepare_cached("INSERT INTO change VALUES (?1, ?2, ?3, ?4, ?5)")?.execute((
        number,
        time,
        id,
        kind,
        sums::of_change(number, time, id, kind),
    ))?;
    Ok(())
}
