//! The change log, and the tombstones of deleted certificates.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension as _};
use talaria_cert::{Fingerprint, Timestamp};

use crate::error::StoreError;
use crate::maintain::Return;
use crate::number::{CertId, ChangeNumber};
use crate::store::Store;
use crate::{inventory, sums};

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

/// A certificate that was deleted.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Tombstone {
    /// The fingerprint of the certificate.
    pub fingerprint: Fingerprint,
    /// The number of the change that deleted it.
    pub change: ChangeNumber,
    /// Whether the certificate can be imported again.
    pub returning: Return,
}

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
    /// The number of the newest change, 0 in an empty store. It shows cheaply whether the store has changed:
    /// reading it takes one access to the last page of the log.
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

    /// Calls `each` with every change after the change `after`, in order: number, time, certificate and kind (1 new, 2
    /// updated, 3 deleted).
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

    /// Number of new, updated and deleted certificates on each day (days since 1970) from `since` on, as far back
    /// as the change log goes.
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

    /// The first four octets of the fingerprints of the certificates that changed on a day (days since 1970), including
    /// those deleted that day. They are in order, each once.
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

    /// The number of the first change at `time` or later, or one more than the last number if there is none. The
    /// log is in order of time, unless a clock was set back.
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

    /// All certificates that were deleted or blocked and not added again, oldest first. Among them are those that were never in
    /// the store.
    ///
    /// # Errors
    ///
    /// As [`Self::tombstones`].
    pub fn all_tombstones(self) -> Result<Vec<Tombstone>, StoreError> {
        self.tombstones(ChangeNumber::new(-1))
    }
}

/// The columns of a [`Grave`].
pub(crate) const GRAVES: &str = "SELECT fingerprint, change, blocked, sum FROM tombstone";

/// A row of table `tombstone`, in its stored form.
#[derive(Debug)]
pub(crate) struct Grave {
    stored: Vec<u8>,
    pub(crate) change: i64,
    blocked: bool,
    /// Whether the row is the one that was written.
    pub(crate) is_good: bool,
}

impl Grave {
    pub(crate) fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Self> {
        let (stored, change, blocked): (Vec<u8>, i64, i64) =
            (row.get(0)?, row.get(1)?, row.get(2)?);
        let sum = sums::of_tombstone(&stored, change, blocked == 1);
        let is_good = matches!(blocked, 0 | 1) && sum == row.get::<_, i64>(3)?;
        Ok(Self { stored, change, blocked: blocked == 1, is_good })
    }

    /// Whether the certificate must not come back. If the row is damaged, it must not.
    pub(crate) fn is_blocked(&self) -> bool {
        self.blocked || !self.is_good
    }

    pub(crate) fn fingerprint(&self) -> Option<Fingerprint> {
        Some(Fingerprint::from_stored(&self.stored)?.0)
    }

    /// The name in a finding.
    pub(crate) fn name(&self) -> String {
        match self.fingerprint() {
            Some(fingerprint) => format!("the tombstone of {fingerprint}"),
            None => "a tombstone".to_owned(),
        }
    }
}

/// The tombstone of a certificate.
pub(crate) fn grave(
    connection: &Connection,
    fingerprint: Fingerprint,
) -> rusqlite::Result<Option<Grave>> {
    connection
        .prepare_cached(&format!("{GRAVES} WHERE fingerprint = ?1"))?
        .query_row([fingerprint.to_stored()], Grave::read)
        .optional()
}

/// Whether a certificate must not come back.
pub(crate) fn is_blocked(
    connection: &Connection,
    fingerprint: Fingerprint,
) -> rusqlite::Result<bool> {
    Ok(grave(connection, fingerprint)?.is_some_and(|grave| grave.is_blocked()))
}

/// Removes the tombstone of a certificate that comes back. A damaged one stays for a check.
pub(crate) fn forget_tombstone(
    connection: &Connection,
    fingerprint: Fingerprint,
) -> rusqlite::Result<()> {
    if grave(connection, fingerprint)?.is_none_or(|grave| !grave.is_good) {
        return Ok(());
    }
    inventory::remove(connection, "tombstone", "fingerprint = ?1", [fingerprint.to_stored()])?;
    Ok(())
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

/// Records that a certificate was deleted, and whether it is blocked.
pub(crate) fn bury(
    connection: &Connection,
    fingerprint: &[u8],
    change: i64,
    blocked: bool,
) -> rusqlite::Result<()> {
    let sum = sums::of_tombstone(fingerprint, change, blocked);
    inventory::remove(connection, "tombstone", "fingerprint = ?1", [fingerprint])?;
    inventory::add(connection, "tombstone", 4, (fingerprint, change, blocked, sum))
}
