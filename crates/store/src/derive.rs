//! Index rows derived from certificates, collected for a whole store at a time.
//!
//! A bulk build fills the tables from these rows, and a check compares them with the tables.

use std::path::Path;

use rusqlite::Connection;
use talaria_cert::{Terms, View};

use crate::blob::Share;
use crate::error::StoreError;
use crate::format;
use crate::schema::{self, POSTINGS, lists};
use crate::sorter::Sorter;

/// Why index rows could not be sorted or written.
#[derive(Debug)]
pub(crate) enum Failure {
    Io(std::io::Error),
    Engine(rusqlite::Error),
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Engine(error)
    }
}

/// Converts an error of a bulk operation on `path`.
pub(crate) fn failed(path: &Path, failure: Failure) -> StoreError {
    match failure {
        Failure::Engine(source) => StoreError::engine(path, source),
        Failure::Io(source) if source.kind() == std::io::ErrorKind::StorageFull => {
            StoreError::Full { path: path.to_owned() }
        }
        Failure::Io(source) if source.kind() == std::io::ErrorKind::FileTooLarge => {
            StoreError::TooLarge { path: path.to_owned() }
        }
        Failure::Io(source) => {
            StoreError::Io { action: "sort the indexes of", path: path.to_owned(), source }
        }
    }
}

/// The rows of all index tables, sorted outside of the store.
pub(crate) struct Derived {
    postings: [Sorter<16>; POSTINGS.len()],
    /// View, digest, certificate.
    digests: Sorter<25>,
}

impl Derived {
    /// Uses about `memory_bytes` of memory, and files in `folder` beyond that.
    pub(crate) fn new(folder: &Path, memory_bytes: usize) -> Self {
        let part = memory_bytes / 7;
        Self {
            postings: [(); POSTINGS.len()].map(|()| Sorter::new(folder, part)),
            digests: Sorter::new(folder, part),
        }
    }

    pub(crate) fn add(
        &mut self,
        id: i64,
        terms: &Terms,
        digests: &[(View, [u8; 16])],
    ) -> std::io::Result<()> {
        let id = id.to_be_bytes();
        for (sorter, list) in self.postings.iter_mut().zip(lists(terms)) {
            for handle in list {
                // The table sorts handles as signed numbers. With the sign bit flipped, bytes sort
                // in the same order.
                let mut record = [0; 16];
                record[..8].copy_from_slice(&(handle.0 ^ 1 << 63).to_be_bytes());
                record[8..].copy_from_slice(&id);
                sorter.push(record)?;
            }
        }
        for (view, digest) in digests {
            let mut record = [0; 25];
            record[0] = view.number();
            record[1..17].copy_from_slice(digest);
            record[17..].copy_from_slice(&id);
            self.digests.push(record)?;
        }
        Ok(())
    }

    /// Writes the rows into empty tables, in key order.
    pub(crate) fn fill(self, connection: &Connection) -> Result<(), Failure> {
        for (table, sorter) in POSTINGS.iter().zip(self.postings) {
            if !schema::keeps(connection, table)? {
                continue;
            }
            let mut insert = connection.prepare(&format!("INSERT INTO {table} VALUES (?1, ?2)"))?;
            sorter.drain(|record| {
                let (handle, id) = posting(record);
                insert.execute((handle, id))?;
                Ok::<(), Failure>(())
            })?;
        }
        let mut insert = connection.prepare("INSERT INTO digest VALUES (?1, ?2, ?3)")?;
        self.digests.drain(|record| {
            insert.execute((record[0], &record[1..17], number(&record[17..])))?;
            Ok(())
        })
    }

    /// Compares the rows, which are those of a part of the certificates, with the tables. Calls
    /// `differs` with the table and the certificate of each row that is on one side only.
    pub(crate) fn compare(
        self,
        connection: &Connection,
        part: Share,
        mut differs: impl FnMut(&'static str, i64),
    ) -> Result<(), Failure> {
        let is_older = format::of(connection)? < format::HOLDINGS_FORMAT;
        for (table, sorter) in POSTINGS.iter().copied().zip(self.postings) {
            // It has other handles there.
            if table == "key" && is_older || !schema::keeps(connection, table)? {
                continue;
            }
            let mut statement = connection.prepare(&format!(
                "SELECT handle, cert FROM {table} WHERE {} ORDER BY 1, 2",
                part.condition("cert")
            ))?;
            let rows = statement.query_map([], |row| Ok((row.get::<_, i64>(0)?, row.get(1)?)))?;
            compare(rows, sorter, posting, |(_, id)| {
                differs(table, id);
                Ok(())
            })?;
        }
        let incomplete = schema::incomplete_views(connection)?;
        let incomplete: Vec<String> =
            incomplete.into_iter().map(|view| view.number().to_string()).collect();
        let mut statement = connection.prepare(&format!(
            "SELECT view, digest, cert FROM digest WHERE {} AND view NOT IN ({}) \
             ORDER BY view, digest, cert",
            part.condition("cert"),
            incomplete.join(", ")
        ))?;
        let rows = statement.query_map([], |row| {
            Ok(((row.get::<_, u8>(0)?, row.get::<_, Vec<u8>>(1)?), row.get(2)?))
        })?;
        let digest =
            |record: &[u8; 25]| ((record[0], record[1..17].to_vec()), number(&record[17..]));
        compare(rows, self.digests, digest, |(_, id)| {
            differs("digest", id);
            Ok(())
        })
    }

    /// Compares the rows with the tables, and returns those that are on one side only. The tables
    /// are read in pieces: if others write meanwhile, a row that differs may be right.
    pub(crate) fn differences(
        self,
        connection: &Connection,
        folder: &Path,
    ) -> Result<Differences, Failure> {
        let sorter = Sorter::new(folder, DIFFERENCES_BYTES);
        let mut differences = Differences { count: 0, sorter };
        for (number, (table, sorter)) in (0_u8..).zip(POSTINGS.iter().zip(self.postings)) {
            if !schema::keeps(connection, table)? {
                continue;
            }
            let sql = format!(
                "SELECT handle, cert FROM {table} WHERE (handle, cert) > (?1, ?2) \
                 ORDER BY handle, cert LIMIT {PIECE}"
            );
            let next = |after: Option<(i64, i64)>| {
                let after = after.unwrap_or((i64::MIN, i64::MIN));
                let mut statement = connection.prepare_cached(&sql)?;
                let rows = statement.query_map(after, |row| Ok((row.get(0)?, row.get(1)?)))?;
                rows.collect()
            };
            compare(in_pieces(next), sorter, posting, |(handle, cert): (i64, i64)| {
                differences.push(Difference::posting(number, handle, cert))
            })?;
        }
        let next = |after: Option<DigestRow>| {
            let (view, digest, cert) = after.unwrap_or((0, [0; 16], i64::MIN));
            let mut statement = connection.prepare_cached(&format!(
                "SELECT view, digest, cert FROM digest WHERE (view, digest, cert) > (?1, ?2, ?3) \
                 ORDER BY view, digest, cert LIMIT {PIECE}"
            ))?;
            let rows = statement.query_map((view, digest, cert), |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?))
            })?;
            rows.collect()
        };
        let row = |record: &[u8; 25]| {
            let digest = *record[1..].first_chunk().expect("25 bytes");
            (record[0], digest, number(&record[17..]))
        };
        compare(in_pieces(next), self.digests, row, |(view, digest, cert): DigestRow| {
            differences.push(Difference::digest(view, digest, cert))
        })?;
        Ok(differences)
    }
}

/// Rows of a table that are read at a time.
const PIECE: usize = 20_000;

/// Memory for rows that differ before they go to disk: 16 MiB.
const DIFFERENCES_BYTES: usize = 16 << 20;

/// View, digest, certificate.
type DigestRow = (u8, [u8; 16], i64);

/// The rows of a table, of which `next` reads those after one.
fn in_pieces<R: Copy>(
    mut next: impl FnMut(Option<R>) -> rusqlite::Result<Vec<R>>,
) -> impl Iterator<Item = rusqlite::Result<R>> {
    let (mut piece, mut last, mut ended) = (Vec::new().into_iter(), None, false);
    std::iter::from_fn(move || {
        if let Some(row) = piece.next() {
            last = Some(row);
            return Some(Ok(row));
        }
        if ended {
            return None;
        }
        match next(last) {
            Ok(rows) => piece = rows.into_iter(),
            Err(error) => {
                ended = true;
                return Some(Err(error));
            }
        }
        last = piece.next();
        ended = last.is_none();
        last.map(Ok)
    })
}

/// The bytes of a [`Difference`] for sorting.
const DIFFERENCE: usize = 26;

/// The rows that differ, sorted by certificate.
pub(crate) struct Differences {
    pub(crate) count: u64,
    pub(crate) sorter: Sorter<DIFFERENCE>,
}

impl Differences {
    fn push(&mut self, difference: Difference) -> Result<(), Failure> {
        self.count += 1;
        let mut record = [0; DIFFERENCE];
        record[..8].copy_from_slice(&difference.cert.to_be_bytes());
        record[8] = difference.table;
        record[9..].copy_from_slice(&difference.key);
        Ok(self.sorter.push(record)?)
    }
}

/// A row of an index table.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Difference {
    pub(crate) cert: i64,
    /// The number in [`POSTINGS`], or [`Self::DIGEST`].
    table: u8,
    /// A handle, or a view and a digest.
    key: [u8; 17],
}

impl Difference {
    const DIGEST: u8 = u8::MAX;

    fn posting(table: u8, handle: i64, cert: i64) -> Self {
        let mut key = [0; 17];
        key[..8].copy_from_slice(&handle.to_be_bytes());
        Self { cert, table, key }
    }

    fn digest(view: u8, digest: [u8; 16], cert: i64) -> Self {
        let mut key = [view; 17];
        key[1..].copy_from_slice(&digest);
        Self { cert, table: Self::DIGEST, key }
    }

    /// All index rows of a certificate.
    pub(crate) fn all(
        cert: i64,
        terms: &Terms,
        digests: &[(View, [u8; 16])],
    ) -> impl Iterator<Item = Self> {
        let postings = (0..).zip(lists(terms)).flat_map(move |(table, list)| {
            list.iter().map(move |handle| Self::posting(table, handle.0.cast_signed(), cert))
        });
        let digests = digests.iter();
        postings
            .chain(digests.map(move |&(view, digest)| Self::digest(view.number(), digest, cert)))
    }

    pub(crate) fn read(record: &[u8; DIFFERENCE]) -> Self {
        let key = *record.last_chunk().expect("26 bytes");
        Self { cert: number(&record[..8]), table: record[8], key }
    }

    pub(crate) fn insert(&self, connection: &Connection) -> rusqlite::Result<()> {
        self.execute(
            connection,
            |table| format!("INSERT OR IGNORE INTO {table} VALUES (?1, ?2)"),
            "INSERT OR IGNORE INTO digest VALUES (?1, ?2, ?3)",
        )
    }

    pub(crate) fn delete(&self, connection: &Connection) -> rusqlite::Result<()> {
        self.execute(
            connection,
            |table| format!("DELETE FROM {table} WHERE handle = ?1 AND cert = ?2"),
            "DELETE FROM digest WHERE view = ?1 AND digest = ?2 AND cert = ?3",
        )
    }

    fn execute(
        &self,
        connection: &Connection,
        posting: impl Fn(&str) -> String,
        digest: &str,
    ) -> rusqlite::Result<()> {
        match POSTINGS.get(usize::from(self.table)) {
            Some(table) if !schema::keeps(connection, table)? => Ok(0),
            Some(table) => {
                let handle = number(&self.key[..8]);
                connection.prepare_cached(&posting(table))?.execute((handle, self.cert))
            }
            None => {
                connection.prepare_cached(digest)?.execute((self.key[0], &self.key[1..], self.cert))
            }
        }
        .map(drop)
    }
}

/// Compares two ascending lists in one pass. Calls `differs` with each row that is in one of them
/// only.
fn compare<R: Ord, const N: usize>(
    mut rows: impl Iterator<Item = rusqlite::Result<R>>,
    expected: Sorter<N>,
    row_of: impl Fn(&[u8; N]) -> R,
    mut differs: impl FnMut(R) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut row = rows.next().transpose()?;
    expected.drain(|record| {
        let wanted = row_of(record);
        while let Some(extra) = row.take_if(|row| *row < wanted) {
            differs(extra)?;
            row = rows.next().transpose()?;
        }
        if row.take_if(|row| *row == wanted).is_some() {
            row = rows.next().transpose()?;
            return Ok(());
        }
        differs(wanted)
    })?;
    while let Some(extra) = row {
        differs(extra)?;
        row = rows.next().transpose()?;
    }
    Ok(())
}

fn posting(record: &[u8; 16]) -> (i64, i64) {
    let (&handle, &id) =
        (record.first_chunk::<8>().expect("16 bytes"), record.last_chunk::<8>().expect("16 bytes"));
    ((u64::from_be_bytes(handle) ^ 1 << 63).cast_signed(), i64::from_be_bytes(id))
}

fn number(bytes: &[u8]) -> i64 {
    bytes.iter().fold(0, |number, &byte| number << 8 | i64::from(byte))
}
