//! Index rows derived from certificates, collected for a whole store at a time.
//!
//! A bulk build fills the tables from these rows, and a check compares them with the tables.

use std::path::Path;

use rusqlite::Connection;
use talaria_cert::{Terms, View};

use crate::blob::Part;
use crate::schema::{POSTINGS, lists};
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

    /// Compares the rows, which are those of a part of the certificates, with the tables. Calls `differs` with the table and the certificate of each
    /// row that is on one side only.
    pub(crate) fn compare(
        self,
        connection: &Connection,
        part: Part,
        mut differs: impl FnMut(&'static str, i64),
    ) -> Result<(), Failure> {
        for (table, sorter) in POSTINGS.iter().copied().zip(self.postings) {
            let mut statement = connection.prepare(&format!(
                "SELECT handle, cert FROM {table} WHERE {} ORDER BY 1, 2",
                part.condition("cert")
            ))?;
            let rows = statement.query_map([], |row| Ok((row.get::<_, i64>(0)?, row.get(1)?)))?;
            compare(rows, sorter, posting, |id| differs(table, id))?;
        }
        let mut statement = connection.prepare(&format!(
            "SELECT view, digest, cert FROM digest WHERE {} ORDER BY view, digest, cert",
            part.condition("cert")
        ))?;
        let rows = statement.query_map([], |row| {
            Ok(((row.get::<_, u8>(0)?, row.get::<_, Vec<u8>>(1)?), row.get(2)?))
        })?;
        let digest =
            |record: &[u8; 25]| ((record[0], record[1..17].to_vec()), number(&record[17..]));
        compare(rows, self.digests, digest, |id| differs("digest", id))
    }
}

/// Compares two ascending lists in one pass.
fn compare<K: Ord, const N: usize>(
    mut rows: impl Iterator<Item = rusqlite::Result<(K, i64)>>,
    expected: Sorter<N>,
    key: impl Fn(&[u8; N]) -> (K, i64),
    mut differs: impl FnMut(i64),
) -> Result<(), Failure> {
    let mut row = rows.next().transpose()?;
    expected.drain(|record| {
        let wanted = key(record);
        while let Some(extra) = row.take_if(|row| *row < wanted) {
            differs(extra.1);
            row = rows.next().transpose()?;
        }
        if row.take_if(|row| *row == wanted).is_some() {
            row = rows.next().transpose()?;
        } else {
            differs(wanted.1);
        }
        Ok::<(), Failure>(())
    })?;
    while let Some(extra) = row {
        differs(extra.1);
        row = rows.next().transpose()?;
    }
    Ok(())
}

fn posting(record: &[u8; 16]) -> (i64, i64) {
    let (&handle, &id) = (
        record.first_chunk::<8>().expect("16 octets"),
        record.last_chunk::<8>().expect("16 octets"),
    );
    ((u64::from_be_bytes(handle) ^ 1 << 63).cast_signed(), i64::from_be_bytes(id))
}

fn number(bytes: &[u8]) -> i64 {
    bytes.iter().fold(0, |number, &byte| number << 8 | i64::from(byte))
}
