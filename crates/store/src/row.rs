//! Rows of table `cert`: what listings need of a certificate, under a checksum. No other module
//! writes this table.

use rusqlite::{Connection, OptionalExtension as _, Row};
use talaria_cert::{Fingerprint, Summary, VERIFIER};

use crate::{blob, sums};

/// The columns of a [`RawRow`].
macro_rules! columns {
    () => {
        "cert.id, cert.fingerprint, cert.change, cert.verifier, cert.summary, cert.sum, cert.former"
    };
}
pub(crate) use columns;

/// The row of a certificate by its number.
pub(crate) const ROW: &str = concat!("SELECT ", columns!(), " FROM cert WHERE id = ?1");

/// The rows of all certificates after a number, in their order.
pub(crate) const ROWS_AFTER: &str =
    concat!("SELECT ", columns!(), " FROM cert WHERE id > ?1 ORDER BY id");

/// The first verifier whose summaries are those of the judge of decision 27.
const FIRST_JUDGE: i64 = 9;

/// A row in its stored form.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct RawRow {
    pub(crate) id: i64,
    pub(crate) fingerprint: Vec<u8>,
    /// The last change of the certificate. Its row in `blob` names it, too.
    pub(crate) change: i64,
    /// The verifier that made the verdicts.
    pub(crate) verifier: i64,
    pub(crate) summary: Vec<u8>,
    /// `None` until an upgrade has come to the row.
    pub(crate) sum: Option<i64>,
    /// The checksum of the row in `blob`, if that names no change: an older format wrote it.
    pub(crate) former: Option<i64>,
}

impl RawRow {
    /// Whether the summary follows the rules of today.
    pub(crate) fn has_judged(&self) -> bool {
        self.verifier >= FIRST_JUDGE
    }

    /// A new row, by this verifier. It needs [`Self::write`].
    pub(crate) fn new(id: i64, fingerprint: Fingerprint, change: i64, summary: &Summary) -> Self {
        let mut row = Self {
            id,
            fingerprint: fingerprint.to_stored(),
            change,
            verifier: VERIFIER.into(),
            summary: Vec::new(),
            sum: None,
            former: None,
        };
        row.set_summary(summary);
        row
    }

    pub(crate) fn set_summary(&mut self, summary: &Summary) {
        self.summary.clear();
        summary.write(&mut self.summary);
    }

    /// Reads [`columns`].
    pub(crate) fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            id: row.get(0)?,
            fingerprint: row.get(1)?,
            change: row.get(2)?,
            verifier: row.get(3)?,
            summary: row.get(4)?,
            sum: row.get(5)?,
            former: row.get(6)?,
        })
    }

    /// Writes the row with its checksum, in the place of one that may be there.
    pub(crate) fn write(&self, connection: &Connection) -> rusqlite::Result<()> {
        self.put(connection, Some(self.checksum()))
    }

    /// Writes the row as it is, damaged or not.
    pub(crate) fn keep(&self, connection: &Connection) -> rusqlite::Result<()> {
        self.put(connection, self.sum)
    }

    fn put(&self, connection: &Connection, sum: Option<i64>) -> rusqlite::Result<()> {
        let Self { id, fingerprint, change, verifier, summary, sum: _, former } = self;
        connection
            .prepare_cached("INSERT OR REPLACE INTO cert VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")?
            .execute((id, fingerprint, change, verifier, summary, sum, former))
            .map(drop)
    }

    fn checksum(&self) -> i64 {
        let number = |number: i64| number.to_be_bytes();
        // A row without a former checksum differs from all with one.
        let former = self.former.map(number);
        sums::of_row(&[
            &number(self.id),
            &number(self.change),
            &number(self.verifier),
            former.as_ref().map_or(&[], |former| &former[..]),
            &self.fingerprint,
            &self.summary,
        ])
    }

    /// Whether the row is the one that was written. `None` if it has no checksum.
    pub(crate) fn is_sealed(&self) -> Option<bool> {
        self.sum.map(|sum| sum == self.checksum())
    }

    /// The stored summary. `None` if it or another part of the row is damaged.
    pub(crate) fn summary(&self) -> Option<Summary> {
        if self.is_sealed() == Some(false) {
            return None;
        }
        Summary::read(self.fingerprint()?, &self.summary)
    }

    /// The fingerprint, without regard to the checksum.
    pub(crate) fn fingerprint(&self) -> Option<Fingerprint> {
        match Fingerprint::from_stored(&self.fingerprint)? {
            (fingerprint, []) => Some(fingerprint),
            _ => None,
        }
    }
}

/// The row of a certificate, damaged or not.
pub(crate) fn get(connection: &Connection, id: i64) -> rusqlite::Result<Option<RawRow>> {
    connection.prepare_cached(ROW)?.query_row([id], RawRow::read).optional()
}

/// Notes a change of a certificate that is written in none of its rows but by its number.
pub(crate) fn set_change(connection: &Connection, id: i64, change: i64) -> rusqlite::Result<()> {
    if let Some(row) = get(connection, id)? {
        blob::set_change(connection, id, change)?;
        RawRow { change, former: None, ..row }.write(connection)?;
    }
    Ok(())
}

pub(crate) fn delete(connection: &Connection, id: i64) -> rusqlite::Result<()> {
    connection.prepare_cached("DELETE FROM cert WHERE id = ?1")?.execute([id]).map(drop)
}

/// Whether a certificate has a row.
pub(crate) fn exists(connection: &Connection, id: i64) -> rusqlite::Result<bool> {
    connection.prepare_cached("SELECT 1 FROM cert WHERE id = ?1")?.exists([id])
}

/// The fingerprint in the row of a certificate. `None` if it is missing or damaged.
pub(crate) fn fingerprint(
    connection: &Connection,
    id: i64,
) -> rusqlite::Result<Option<Fingerprint>> {
    let stored: Option<Vec<u8>> = connection
        .prepare_cached("SELECT fingerprint FROM cert WHERE id = ?1")?
        .query_row([id], |row| row.get(0))
        .optional()?;
    Ok(stored.and_then(|stored| match Fingerprint::from_stored(&stored) {
        Some((fingerprint, [])) => Some(fingerprint),
        _ => None,
    }))
}
