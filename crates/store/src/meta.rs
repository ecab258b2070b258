//! Table `meta`: single values by name. No other module reads or writes it, so that every value is
//! compared with its checksum.

use rusqlite::types::{FromSql, Value};
use rusqlite::{Connection, OptionalExtension as _};

use crate::{format, sums};

/// A value, as it is stored.
#[derive(Debug)]
pub(crate) enum Entry<T> {
    Missing,
    /// It is not the value that was written, or none of this type.
    Damaged,
    Good(T),
}

impl<T> Entry<T> {
    /// The value. A damaged one counts as missing: whoever asks can do without.
    pub(crate) fn good(self) -> Option<T> {
        match self {
            Self::Good(value) => Some(value),
            Self::Missing | Self::Damaged => None,
        }
    }
}

/// The value of a name.
pub(crate) fn get<T: FromSql>(connection: &Connection, name: &str) -> rusqlite::Result<Entry<T>> {
    let read = || {
        connection
            .prepare_cached("SELECT value, sum FROM meta WHERE name = ?1")?
            .query_row([name], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()
    };
    let mut row: Option<(Value, Option<i64>)> = read()?;
    // Its checksum may be where this connection does not look yet.
    if matches!(row, Some((_, None))) && format::leave_older_form(connection)? {
        row = read()?;
    }
    let Some((value, sum)) = row else { return Ok(Entry::Missing) };
    let is_good = match sum {
        Some(sum) => sum == sums::of_meta(name, &bytes(&value)),
        // An upgrade writes the format last.
        None => format::of(connection)? < format::STAMPED_FORMAT,
    };
    if !is_good {
        return Ok(Entry::Damaged);
    }
    Ok(T::column_result((&value).into()).map_or(Entry::Damaged, Entry::Good))
}

/// Sets the value of a name.
pub(crate) fn set(
    connection: &Connection,
    name: &str,
    value: impl Into<Value>,
) -> rusqlite::Result<()> {
    let value = value.into();
    let sum = sums::of_meta(name, &bytes(&value));
    connection
        .prepare_cached("INSERT OR REPLACE INTO meta (name, value, sum) VALUES (?1, ?2, ?3)")?
        .execute((name, value, sum))
        .map(drop)
}

/// Sets the value of a name that has none.
pub(crate) fn set_first(
    connection: &Connection,
    name: &str,
    value: impl Into<Value>,
) -> rusqlite::Result<()> {
    match get::<Value>(connection, name)? {
        Entry::Missing => set(connection, name, value),
        Entry::Damaged | Entry::Good(_) => Ok(()),
    }
}

/// Removes a name.
pub(crate) fn remove(connection: &Connection, name: &str) -> rusqlite::Result<()> {
    connection.prepare_cached("DELETE FROM meta WHERE name = ?1")?.execute([name]).map(drop)
}

/// The first name that begins with `prefix`.
pub(crate) fn first_name(
    connection: &Connection,
    prefix: &str,
) -> rusqlite::Result<Option<String>> {
    let next: Option<String> = connection
        .prepare_cached("SELECT name FROM meta WHERE name >= ?1 ORDER BY name LIMIT 1")?
        .query_row([prefix], |row| row.get(0))
        .optional()?;
    Ok(next.filter(|name| name.starts_with(prefix)))
}

/// Removes the generations of links that began before a time.
pub(crate) fn forget_links(connection: &Connection, before: u32) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "DELETE FROM meta WHERE name >= 'link:' AND name < 'link;' \
             AND (value & 4294967295) < ?1",
        )?
        .execute([before])
        .map(drop)
}

/// Removes the values that say how far something has come that a rebuild does as a whole.
pub(crate) fn forget_derived(connection: &Connection) -> rusqlite::Result<()> {
    let names = names(connection)?;
    names.iter().filter(|name| is_derived(name)).try_for_each(|name| remove(connection, name))
}

fn names(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    connection
        .prepare("SELECT name FROM meta ORDER BY name")?
        .query_map([], |row| row.get(0))?
        .collect()
}

/// Whether a rebuild makes the value again.
pub(crate) fn is_derived(name: &str) -> bool {
    let first = name.split(':').next().unwrap_or(name);
    ["indexed", "reindexed", "digests", "filled", "view", "followed"].contains(&first)
}

/// The names whose values are not those that were written.
pub(crate) fn damaged(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut damaged = Vec::new();
    for name in names(connection)? {
        if !matches!(get::<Value>(connection, &name)?, Entry::Good(_)) {
            damaged.push(name);
        }
    }
    Ok(damaged)
}

/// Gives all values their checksums, in an upgrade.
pub(crate) fn seal(connection: &Connection) -> rusqlite::Result<()> {
    let all: Vec<(String, Value)> = connection
        .prepare("SELECT name, value FROM meta")?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    all.into_iter().try_for_each(|(name, value)| set(connection, &name, value))
}

fn bytes(value: &Value) -> Vec<u8> {
    match value {
        Value::Null => Vec::new(),
        Value::Integer(number) => number.to_string().into_bytes(),
        Value::Real(number) => number.to_string().into_bytes(),
        Value::Text(text) => text.as_bytes().to_vec(),
        Value::Blob(bytes) => bytes.clone(),
    }
}
