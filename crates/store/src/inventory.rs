//! The inventories of the tables with decisions of the user and the operator: the number of rows,
//! and the sum of their checksums, in table `meta`. The checksum of a row shows that it is damaged;
//! the inventory shows that a row is missing or was replaced later, because the disk has lost a
//! write. All writes of these tables are here.

use rusqlite::{Connection, Params};

use crate::meta::{self, Entry};

/// The tables with an inventory. Each has a column `sum`.
pub(crate) const TABLES: [&str; 6] =
    ["tombstone", "ownertrust", "peer", "redaction", "published", "binding"];

/// Removes the rows that fulfil a condition. Returns how many.
pub(crate) fn remove(
    connection: &Connection,
    table: &str,
    condition: &str,
    key: impl Params,
) -> rusqlite::Result<u64> {
    let removed =
        sums(connection, &format!("DELETE FROM {table} WHERE {condition} RETURNING {SUM}"), key)?;
    note(connection, table, removed.iter().fold(0, |all, sum| all.wrapping_sub(entry(*sum))))?;
    Ok(removed.len() as u64)
}

/// Adds a row of so many columns, unless there is one with its key.
pub(crate) fn add(
    connection: &Connection,
    table: &str,
    columns: usize,
    row: impl Params,
) -> rusqlite::Result<()> {
    let places: Vec<String> = (1..=columns).map(|place| format!("?{place}")).collect();
    let places = places.join(", ");
    let added = sums(
        connection,
        &format!("INSERT OR IGNORE INTO {table} VALUES ({places}) RETURNING {SUM}"),
        row,
    )?;
    note(connection, table, added.iter().fold(0, |all, sum| all.wrapping_add(entry(*sum))))
}

/// The checksum of a row; 0 for one that is no number, because it is damaged.
const SUM: &str = "CASE WHEN typeof(sum) = 'integer' THEN sum ELSE 0 END";

fn sums(connection: &Connection, sql: &str, parameters: impl Params) -> rusqlite::Result<Vec<i64>> {
    connection.prepare_cached(sql)?.query_map(parameters, |row| row.get(0))?.collect()
}

/// What a row counts for: itself, and its checksum.
fn entry(sum: i64) -> i64 {
    (1 << 32) + (sum & 0xffff_ffff)
}

fn name(table: &str) -> String {
    format!("rows:{table}")
}

fn note(connection: &Connection, table: &str, difference: i64) -> rusqlite::Result<()> {
    if difference == 0 {
        return Ok(());
    }
    let before = match meta::get(connection, &name(table))? {
        Entry::Good(before) => before,
        Entry::Missing => 0_i64,
        // It stays for a check.
        Entry::Damaged => return Ok(()),
    };
    meta::set(connection, &name(table), before.wrapping_add(difference))
}

fn actual(connection: &Connection, table: &str) -> rusqlite::Result<i64> {
    let sums = sums(connection, &format!("SELECT {SUM} FROM {table}"), ())?;
    Ok(sums.into_iter().fold(0, |all, sum| all.wrapping_add(entry(sum))))
}

/// The tables whose rows are not those that were written.
pub(crate) fn differing(connection: &Connection) -> rusqlite::Result<Vec<&'static str>> {
    let mut differing = Vec::new();
    for table in TABLES {
        let written = match meta::get(connection, &name(table))? {
            Entry::Good(written) => written,
            Entry::Missing => 0,
            // It is named itself.
            Entry::Damaged => continue,
        };
        if actual(connection, table)? != written {
            differing.push(table);
        }
    }
    Ok(differing)
}

/// Takes the inventory of a table as it is.
pub(crate) fn take(connection: &Connection, table: &str) -> rusqlite::Result<()> {
    match actual(connection, table)? {
        0 => meta::remove(connection, &name(table)),
        actual => meta::set(connection, &name(table), actual),
    }
}
