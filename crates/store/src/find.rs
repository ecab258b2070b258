//! Finding a certificate by its fingerprint. Nothing else decides whether a certificate is in the
//! store.

use rusqlite::{Connection, OptionalExtension as _};
use talaria_cert::{Fingerprint, Handle, Holding, Key, PacketRef, Tag};

use crate::{blob, row};

/// Finds a certificate by the index of fingerprints.
const BY_FINGERPRINT: &str = "SELECT id, change, verifier FROM cert \
    WHERE id IN (SELECT cert FROM fingerprint WHERE handle = ?1) AND fingerprint = ?2";

/// Certificates that an index has under the fingerprint or the key ID of a primary key.
const CANDIDATES: &str = "SELECT cert FROM fingerprint WHERE handle = ?1 \
    UNION ALL SELECT cert FROM key WHERE handle = ?2 LIMIT ?3";

/// Certificates that an index may have under one handle. Handles collide, but not often.
const CANDIDATES_MAX: i64 = 8;

/// A certificate that is in the store.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Found {
    pub(crate) id: i64,
    pub(crate) change: i64,
    pub(crate) verifier: i64,
}

/// The certificate whose primary key has this fingerprint. If one of its rows is lost or damaged,
/// it is still found, so that no second copy of it gets into the store.
pub(crate) fn row(
    connection: &Connection,
    fingerprint: Fingerprint,
) -> rusqlite::Result<Option<Found>> {
    let handle = Handle::of_fingerprint(fingerprint).0.cast_signed();
    let found = connection
        .prepare_cached(BY_FINGERPRINT)?
        .query_row((handle, fingerprint.to_stored()), |row| {
            Ok(Found { id: row.get(0)?, change: row.get(1)?, verifier: row.get(2)? })
        })
        .optional()?;
    if found.is_some() {
        return Ok(found);
    }
    let holding = match fingerprint {
        Fingerprint::V3(..) => Holding::Bound,
        _ => Holding::Primary,
    };
    let key = Handle::of_key(fingerprint.key_id(), holding).0.cast_signed();
    let candidates: Vec<i64> = connection
        .prepare_cached(CANDIDATES)?
        .query_map((handle, key, CANDIDATES_MAX), |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    for id in candidates {
        if let Some(found) = damaged(connection, id, fingerprint)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// The number of the certificate whose primary key has this fingerprint.
pub(crate) fn id(
    connection: &Connection,
    fingerprint: Fingerprint,
) -> rusqlite::Result<Option<i64>> {
    Ok(row(connection, fingerprint)?.map(|found| found.id))
}

/// Whether a certificate that an index names is the one with this fingerprint.
fn damaged(
    connection: &Connection,
    id: i64,
    fingerprint: Fingerprint,
) -> rusqlite::Result<Option<Found>> {
    let row = row::get(connection, id)?;
    let is_it = match &row {
        Some(row) if row.fingerprint() == Some(fingerprint) => true,
        Some(row) if row.is_sealed() != Some(false) => false,
        // The key says itself what its fingerprint is.
        _ => blob::primary_key(connection, id)?.is_some_and(|body| {
            Key::parse(PacketRef { tag: Tag::PUBLIC_KEY, body: &body })
                .is_ok_and(|key| key.fingerprint() == fingerprint)
        }),
    };
    let (change, verifier) = row.map_or((0, 0), |row| (row.change, row.verifier));
    Ok(is_it.then_some(Found { id, change, verifier }))
}
