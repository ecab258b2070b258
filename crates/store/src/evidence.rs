//! What the store says of the last version of each certificate, beside its rows in `blob` and `cert`: the change log, the
//! tombstones, and the index of digests. For checks and repairs, which read everything (`docs/decisions/0025-stale-pages.md`).

use std::collections::{BTreeSet, HashMap, HashSet};

use rusqlite::Connection;
use talaria_cert::View;

use crate::blob;
use crate::log::{self, Latest};
use crate::{meta, row};

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
        let is_remade = meta::get::<i64>(connection, REMADE)?.good().is_some();
        Ok(Self {
            latest: log::latest(connection)?,
            disputed: disputed(connection)?,
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

    /// Whether `table`, a table of digests, has the digest of a certificate and no other one. An index that is not there at all
    /// denies nothing.
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

    /// The certificates without bytes that were not deleted, as the change log, the rows in `cert` and the tombstones say.
    pub(crate) fn lost(&self, connection: &Connection) -> rusqlite::Result<BTreeSet<i64>> {
        let mut lost: BTreeSet<i64> = self
            .latest
            .iter()
            .filter(|(_, latest)| !latest.is_deleted)
            .map(|(id, _)| *id)
            .collect();
        for id in orphans(connection)? {
            let Some(row) = row::get(connection, id)? else { continue };
            let grave = match row.fingerprint() {
                Some(fingerprint) => log::grave(connection, fingerprint)?,
                None => None,
            };
            if grave.is_some_and(|grave| grave.is_good && grave.change > row.change) {
                lost.remove(&id);
            } else if row.is_sealed() == Some(true) && !self.latest.contains_key(&id) {
                lost.insert(id);
            }
        }
        let mut here = connection.prepare("SELECT id FROM blob")?;
        let mut rows = here.query([])?;
        while let Some(row) = rows.next()? {
            lost.remove(&row.get(0)?);
        }
        Ok(lost)
    }
}

/// The certificates of which the index has several digests: one of them is that of another version.
fn disputed(connection: &Connection) -> rusqlite::Result<HashSet<i64>> {
    let found = connection
        .prepare("SELECT cert FROM digest WHERE view = ?1 GROUP BY cert HAVING count(*) > 1")?
        .query_map([View::Sks.number()], |row| row.get(0))?
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

/// The rows of `cert` without a certificate.
pub(crate) fn orphans(connection: &Connection) -> rusqlite::Result<Vec<i64>> {
    connection
        .prepare(
            "SELECT id FROM cert WHERE NOT EXISTS (SELECT 1 FROM blob WHERE blob.id = cert.id)",
        )?
        .query_map([], |row| row.get(0))?
        .collect()
}
