//! What the store says of the last version of each certificate, beside its rows in `blob` and
//! `cert`: the change log, the tombstones, and the index of digests. For checks and repairs, which
//! read everything (`docs/decisions/0025-stale-pages.md`).

use std::collections::{BTreeSet, HashMap, HashSet};

use rusqlite::Connection;
use talaria_cert::View;

use crate::blob::{self, Blob, Integrity, Share};
use crate::change::{self, Latest};
use crate::row::{self, RawRow};
use crate::{meta, tombstone};

/// The last change of each certificate, and what the index of digests says.
#[derive(Debug)]
pub(crate) struct Evidence {
    latest: HashMap<i64, Latest>,
    /// The certificates of which the index has several digests.
    disputed: HashSet<i64>,
    /// Whether the index is there. A lost write leaves some of it.
    has_digests: bool,
}

/// The entry of `meta` that is there while a reindex fills an index of digests that was empty.
const REMADE: &str = "digests";

impl Evidence {
    pub(crate) fn gather(connection: &Connection) -> rusqlite::Result<Self> {
        Self::about(connection, None)
    }

    /// What is known of one certificate.
    pub(crate) fn of(connection: &Connection, id: i64) -> rusqlite::Result<Self> {
        Self::about(connection, Some(id))
    }

    fn about(connection: &Connection, only: Option<i64>) -> rusqlite::Result<Self> {
        let is_remade = meta::get::<i64>(connection, REMADE)?.good().is_some();
        Ok(Self {
            latest: change::latest(connection, only)?,
            disputed: disputed(connection, only)?,
            has_digests: !is_remade && has_digests(connection)?,
        })
    }

    /// Whether the index of digests is there.
    pub(crate) fn has_digests(&self) -> bool {
        self.has_digests
    }

    /// The last change of a certificate in the log, unless it is a deletion.
    pub(crate) fn last_change(&self, id: i64) -> Option<i64> {
        self.latest.get(&id).filter(|latest| !latest.is_deleted).map(|latest| latest.number)
    }

    /// Whether a certificate was deleted, as the log says.
    pub(crate) fn is_deleted(&self, id: i64) -> bool {
        self.latest.get(&id).is_some_and(|latest| latest.is_deleted)
    }

    /// The certificates that were deleted, as the log says.
    pub(crate) fn deleted(&self) -> impl Iterator<Item = i64> + '_ {
        self.latest.iter().filter(|(_, latest)| latest.is_deleted).map(|(id, _)| *id)
    }

    /// Whether `table`, a table of digests, has the digest of a certificate and no other one. An
    /// index that is not there at all denies nothing.
    pub(crate) fn confirms(
        &self,
        connection: &Connection,
        table: &str,
        id: i64,
        sks_digest: &[u8; 16],
    ) -> rusqlite::Result<bool> {
        if !self.has_digests {
            return Ok(true);
        }
        Ok(!self.disputed.contains(&id) && blob::is_confirmed(connection, table, id, sks_digest)?)
    }

    /// Compares a certificate with all that says which version was written last. `row` is its row
    /// in `cert`.
    pub(crate) fn judge(&self, blob: &Blob, row: Option<&RawRow>) -> Integrity {
        let is_row_good = row.is_some_and(|row| row.is_sealed() == Some(true));
        blob.judged(self.last_change(blob.id), is_row_good)
    }

    /// The certificates of a part that have no bytes, and were not deleted. `seen` has all those
    /// with bytes.
    pub(crate) fn lost(
        &self,
        connection: &Connection,
        seen: &Seen,
        part: Share,
    ) -> rusqlite::Result<BTreeSet<i64>> {
        let logged = self.latest.keys().copied();
        let logged = logged.filter(|id| part.has(*id) && !seen.has(*id));
        let mut lost = BTreeSet::new();
        for id in logged.chain(orphans(connection, seen, part)?) {
            if self.lacks(connection, id)? {
                lost.insert(id);
            }
        }
        Ok(lost)
    }

    /// Whether a certificate without bytes should have some, as the change log, its row in `cert`
    /// and the tombstones say.
    fn lacks(&self, connection: &Connection, id: i64) -> rusqlite::Result<bool> {
        if self.is_deleted(id) {
            return Ok(false);
        }
        let Some(row) = row::get(connection, id)? else {
            return Ok(self.last_change(id).is_some());
        };
        if let Some(fingerprint) = row.fingerprint()
            && let Some(grave) = tombstone::grave(connection, fingerprint)?
            && grave.is_good
            && grave.change > row.change
        {
            return Ok(false);
        }
        Ok(self.last_change(id).is_some() || row.is_sealed() == Some(true))
    }
}

/// Whether a certificate has no bytes and should have some.
pub(crate) fn is_lost(connection: &Connection, id: i64) -> rusqlite::Result<bool> {
    Ok(!blob::exists(connection, id)? && Evidence::of(connection, id)?.lacks(connection, id)?)
}

/// The numbers of certificates that have bytes. A search for those that have none would read the
/// whole table once more.
#[derive(Debug, Default)]
pub(crate) struct Seen(HashMap<i64, u64>);

impl Seen {
    /// Reads all numbers.
    pub(crate) fn all(connection: &Connection) -> rusqlite::Result<Self> {
        let mut seen = Self::default();
        let mut statement = connection.prepare("SELECT id FROM blob")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            seen.insert(row.get(0)?);
        }
        Ok(seen)
    }

    pub(crate) fn insert(&mut self, id: i64) {
        *self.0.entry(id.div_euclid(64)).or_default() |= 1 << id.rem_euclid(64);
    }

    fn has(&self, id: i64) -> bool {
        self.0.get(&id.div_euclid(64)).is_some_and(|bits| bits >> id.rem_euclid(64) & 1 == 1)
    }
}

/// The certificates of which the index has several digests: one of them is that of another version.
fn disputed(connection: &Connection, only: Option<i64>) -> rusqlite::Result<HashSet<i64>> {
    let found = connection
        .prepare(
            "SELECT cert FROM digest WHERE view = ?1 AND (?2 IS NULL OR cert = ?2) \
             GROUP BY cert HAVING count(*) > 1",
        )?
        .query_map((View::Sks.number(), only), |row| row.get(0))?
        .collect();
    // Of pages that cannot be read, nothing is confirmed.
    if blob::is_unreadable(&found) { Ok(HashSet::new()) } else { found }
}

fn has_digests(connection: &Connection) -> rusqlite::Result<bool> {
    let found =
        connection.prepare("SELECT 1 FROM digest WHERE view = ?1")?.exists([View::Sks.number()]);
    if blob::is_unreadable(&found) { Ok(false) } else { found }
}

/// Records whether an index of digests that was empty is being filled.
pub(crate) fn set_remade(connection: &Connection, is_remade: bool) -> rusqlite::Result<()> {
    if is_remade { meta::set(connection, REMADE, 1) } else { meta::remove(connection, REMADE) }
}

/// The rows of `cert` of a part without a certificate.
pub(crate) fn orphans(
    connection: &Connection,
    seen: &Seen,
    part: Share,
) -> rusqlite::Result<Vec<i64>> {
    let mut orphans = Vec::new();
    let mut statement = connection.prepare("SELECT id FROM cert")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let id = row.get(0)?;
        if part.has(id) && !seen.has(id) {
            orphans.push(id);
        }
    }
    Ok(orphans)
}
