//! Damaged bytes of certificates that were repaired: table `set_aside`.
//!
//! They may be all that is left of a revocation or of a signature by others, so that a repair keeps them. They hold the
//! user IDs of the certificate, so that deleting or redacting the certificate deletes them.

use rusqlite::{Connection, OptionalExtension as _};
use talaria_cert::{Fingerprint, Timestamp};

use crate::{Store, StoreError, sums};

/// The damaged bytes of a certificate that was repaired.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SetAside {
    /// The number of the entry.
    pub number: i64,
    /// The time of the repair.
    pub time: Timestamp,
    /// The fingerprint in the row of the certificate, if it could be read.
    pub fingerprint: Option<Fingerprint>,
    /// The number of damaged bytes.
    pub length: u64,
}

impl Store {
    /// The damaged bytes that repairs have set aside, oldest first.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] or [`StoreError::Engine`].
    pub fn set_aside(&self) -> Result<Vec<SetAside>, StoreError> {
        self.run(|connection| {
            connection
                .prepare_cached(
                    "SELECT number, time, fingerprint, length(bytes) FROM set_aside ORDER BY number",
                )?
                .query_map([], |row| {
                    let fingerprint: Option<Vec<u8>> = row.get(2)?;
                    Ok(SetAside {
                        number: row.get(0)?,
                        time: Timestamp::new(row.get(1)?),
                        fingerprint: fingerprint
                            .and_then(|stored| Some(Fingerprint::from_stored(&stored)?.0)),
                        length: row.get::<_, u32>(3)?.into(),
                    })
                })?
                .collect()
        })
    }

    /// The damaged bytes of an entry of [`Self::set_aside`]. `None` if there is no such entry.
    ///
    /// # Errors
    ///
    /// As [`Self::set_aside`].
    pub fn set_aside_bytes(&self, number: i64) -> Result<Option<Vec<u8>>, StoreError> {
        self.run(|connection| {
            connection
                .prepare_cached("SELECT bytes FROM set_aside WHERE number = ?1")?
                .query_row([number], |row| row.get(0))
                .optional()
        })
    }

    /// Deletes entries of [`Self::set_aside`]. Returns how many of them were there.
    ///
    /// # Errors
    ///
    /// [`StoreError::ReadOnly`] or any error of a write.
    pub fn delete_set_aside(&mut self, numbers: &[i64]) -> Result<u64, StoreError> {
        self.transaction(|connection, _| {
            let mut delete =
                connection.prepare_cached("DELETE FROM set_aside WHERE number = ?1")?;
            let mut count = 0;
            for number in numbers {
                count += delete.execute([number])? as u64;
            }
            Ok(count)
        })
    }
}

/// Sets damaged bytes aside.
pub(crate) fn add(
    connection: &Connection,
    bytes: &[u8],
    fingerprint: Option<Fingerprint>,
    now: u32,
) -> rusqlite::Result<()> {
    let stored = fingerprint.map(|fingerprint| fingerprint.to_stored());
    let sum = sums::of_set_aside(now, stored.as_deref().unwrap_or_default(), bytes);
    connection
        .prepare_cached(
            "INSERT INTO set_aside (time, fingerprint, bytes, sum) VALUES (?1, ?2, ?3, ?4)",
        )?
        .execute((now, stored, bytes, sum))?;
    Ok(())
}

/// Deletes what repairs have set aside of a certificate that is deleted or redacted: its user IDs are among the bytes.
pub(crate) fn forget(connection: &Connection, fingerprint: Fingerprint) -> rusqlite::Result<()> {
    connection
        .prepare_cached("DELETE FROM set_aside WHERE fingerprint = ?1")?
        .execute([fingerprint.to_stored()])
        .map(drop)
}
