//! The change log, and the tombstones of deleted certificates, for users.

use rusqlite::OptionalExtension as _;
use talaria_cert::{Fingerprint, Timestamp};

use crate::error::StoreError;
use crate::number::{CertId, ChangeNumber};
use crate::store::Store;
use crate::tombstone::{GRAVES, Grave, Return, Tombstone};

/// The change log of a store: a row for each change of a certificate, in order.
#[derive(Clone, Copy, Debug)]
pub struct Log<'s>(&'s Store);

impl Store {
    /// The change log.
    #[must_use]
    pub fn log(&self) -> Log<'_> {
        Log(self)
    }
}

impl Log<'_> {
    /// The number of the newest change, 0 in an empty store. It shows cheaply whether the store has
    /// changed: reading it takes one access to the last page of the log.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] or [`StoreError::Engine`].
    pub fn last(self) -> Result<ChangeNumber, StoreError> {
        self.0.run(|connection| {
            connection
                .prepare_cached("SELECT coalesce(max(number), 0) FROM change")?
                .query_row([], |row| row.get(0).map(ChangeNumber::new))
        })
    }

    /// Time of a change. `None` if the log no longer has the change.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] or [`StoreError::Engine`].
    pub fn time_of(self, number: ChangeNumber) -> Result<Option<Timestamp>, StoreError> {
        self.0.run(|connection| {
            connection
                .prepare_cached("SELECT time FROM change WHERE number = ?1")?
                .query_row([number.get()], |row| row.get(0).map(Timestamp::new))
                .optional()
        })
    }

    /// Calls `each` with every change after the change `after`, in order: number, time, certificate
    /// and kind (1 new, 2 updated, 3 deleted).
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] or [`StoreError::Engine`].
    pub fn for_each(
        self,
        after: ChangeNumber,
        mut each: impl FnMut(ChangeNumber, Timestamp, CertId, u8),
    ) -> Result<(), StoreError> {
        self.0.run(|connection| {
            let mut statement = connection.prepare_cached(
                "SELECT number, time, cert, kind FROM change WHERE number > ?1 ORDER BY number",
            )?;
            let mut rows = statement.query([after.get()])?;
            while let Some(row) = rows.next()? {
                let (number, cert) = (ChangeNumber::new(row.get(0)?), CertId::new(row.get(2)?));
                each(number, Timestamp::new(row.get(1)?), cert, row.get(3)?);
            }
            Ok(())
        })
    }

    /// Number of new, updated and deleted certificates on each day (days since 1970) from `since`
    /// on, as far back as the change log goes.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] or [`StoreError::Engine`].
    pub fn by_day(self, since: u32) -> Result<Vec<(u32, [u64; 3])>, StoreError> {
        let start = self.first_at(i64::from(since) * 86400)?;
        self.0.run(|connection| {
            connection
                .prepare_cached(
                    "SELECT time / 86400, sum(kind = 1), sum(kind = 2), sum(kind = 3) \
                     FROM change WHERE number >= ?1 GROUP BY 1 ORDER BY 1",
                )?
                .query_map([start], |row| {
                    let count = |at| row.get::<_, i64>(at).map(i64::cast_unsigned);
                    Ok((row.get(0)?, [count(1)?, count(2)?, count(3)?]))
                })?
                .collect()
        })
    }

    /// The first four bytes of the fingerprints of the certificates that changed on a day (days
    /// since 1970), including those deleted that day. They are in order, each once.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] or [`StoreError::Engine`].
    pub fn prefixes_changed_on(self, day: u32) -> Result<Vec<[u8; 4]>, StoreError> {
        let start = self.first_at(i64::from(day) * 86400)?;
        let end = self.first_at((i64::from(day) + 1) * 86400)?;
        let stored: Vec<Option<[u8; 4]>> = self.0.run(|connection| {
            connection
                .prepare_cached(
                    "SELECT fingerprint FROM change CROSS JOIN cert ON cert.id = change.cert \
                     WHERE change.number >= ?1 AND change.number < ?2 \
                     UNION ALL SELECT fingerprint FROM tombstone WHERE change >= ?1 AND change < ?2",
                )?
                .query_map((start, end), |row| {
                    let stored = Fingerprint::from_stored(row.get_ref(0)?.as_bytes()?);
                    Ok(stored.and_then(|(fingerprint, _)| fingerprint.as_bytes().first_chunk().copied()))
                })?
                .collect()
        })?;
        let prefixes: Option<Vec<[u8; 4]>> = stored.into_iter().collect();
        let mut prefixes =
            prefixes.ok_or_else(|| self.0.damaged("the fingerprint of a certificate"))?;
        prefixes.sort_unstable();
        prefixes.dedup();
        Ok(prefixes)
    }

    /// The number of the first change at `time` or later, or one more than the last number if there
    /// is none. The log is in order of time, unless a clock was set back.
    fn first_at(self, time: i64) -> Result<i64, StoreError> {
        let (mut low, mut high) = (1, self.last()?.next().get());
        while low < high {
            let middle = low + (high - low) / 2;
            let found: Option<(i64, i64)> = self.0.run(|connection| {
                connection
                    .prepare_cached(
                        "SELECT number, time FROM change WHERE number >= ?1 ORDER BY number LIMIT 1",
                    )?
                    .query_row([middle], |row| Ok((row.get(0)?, row.get(1)?)))
                    .optional()
            })?;
            match found {
                Some((number, then)) if then < time => low = number + 1,
                _ => high = middle,
            }
        }
        Ok(low)
    }

    /// The certificates deleted after the change `after` that were not added again, oldest first.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] or [`StoreError::Engine`].
    pub fn tombstones(self, after: ChangeNumber) -> Result<Vec<Tombstone>, StoreError> {
        let graves = self.0.run(|connection| {
            connection
                .prepare_cached(&format!("{GRAVES} WHERE change > ?1 ORDER BY change"))?
                .query_map([after.get()], Grave::read)?
                .collect::<rusqlite::Result<Vec<_>>>()
        })?;
        graves
            .into_iter()
            .map(|grave| {
                let fingerprint = grave
                    .fingerprint()
                    .ok_or_else(|| self.0.damaged("a row of table tombstone"))?;
                let returning = if grave.is_blocked() { Return::Blocked } else { Return::Allowed };
                Ok(Tombstone { fingerprint, change: ChangeNumber::new(grave.change), returning })
            })
            .collect()
    }

    /// All certificates that were deleted or blocked and not added again, oldest first. Among them
    /// are those that were never in the store.
    ///
    /// # Errors
    ///
    /// As [`Self::tombstones`].
    pub fn all_tombstones(self) -> Result<Vec<Tombstone>, StoreError> {
        self.tombstones(ChangeNumber::new(-1))
    }
}
