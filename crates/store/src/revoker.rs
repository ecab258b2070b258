//! Designated revokers in a store. When the certificate of a revoker is added or removed, the certificates
//! that name the revoker are evaluated again, in the same transaction.
//!
//! A designated revocation depends on the certificate that it is in and on the primary key of the revoker,
//! which the fingerprint determines. Other changes of the revoker's certificate have no effect. The table
//! `revoker` maps a revoker to the certificates that name it.

use std::collections::BTreeSet;

use rusqlite::{Connection, OptionalExtension as _};
use talaria_cert::{Cert, DesignatedRevocation, Fingerprint, Handle, Summary};

use crate::blob;
use crate::ingest::{BY_FINGERPRINT, ChangeKind, by_fingerprint, log};
use crate::{Store, StoreError, Stored};

impl Store {
    /// Candidates for certificates that name the key with this fingerprint as a revoker, by their numbers.
    ///
    /// # Errors
    ///
    /// [`StoreError::Engine`].
    pub fn naming(&self, revoker: Fingerprint) -> Result<Vec<i64>, StoreError> {
        self.run(|connection| naming(connection, [revoker])).map(|ids| ids.into_iter().collect())
    }

    /// The designated revocations of a certificate by revokers in the store, of any date.
    pub(crate) fn designated(
        &self,
        stored: &Stored,
        now: u32,
    ) -> Result<Vec<DesignatedRevocation>, StoreError> {
        let mut found = Vec::new();
        for revoker in stored.cert.revokers(&stored.verdicts, now) {
            for by in revoker.fingerprints() {
                if let Some(body) = self.run(|connection| primary_key(connection, by))? {
                    found.extend(stored.cert.revocations_by(by, &body));
                }
            }
        }
        Ok(found)
    }
}

/// Applies the designated revocations by revokers in the store to the `summary` of `cert` at `now`, in seconds
/// since 1970.
pub(crate) fn ask(
    connection: &Connection,
    cert: &Cert,
    summary: &mut Summary,
    now: u32,
) -> rusqlite::Result<()> {
    if summary.revokers.is_empty() {
        return Ok(());
    }
    let mut failure = None;
    summary.ask_revokers(cert, now, |fingerprint| {
        primary_key(connection, fingerprint).unwrap_or_else(|error| {
            failure = Some(error);
            None
        })
    });
    failure.map_or(Ok(()), Err)
}

/// The body of a primary key packet in the store.
fn primary_key(
    connection: &Connection,
    fingerprint: Fingerprint,
) -> rusqlite::Result<Option<Vec<u8>>> {
    let id: Option<i64> = connection
        .prepare_cached(BY_FINGERPRINT)?
        .query_row(by_fingerprint(fingerprint), |row| row.get(0))
        .optional()?;
    let Some(id) = id else { return Ok(None) };
    let found = blob::intact(connection, id)?;
    Ok(found.and_then(|blob| talaria_cert::first_packet(&blob.bytes).map(|key| key.body.to_vec())))
}

/// Candidates for certificates that name one of these keys as a revoker, looked up by handle.
pub(crate) fn naming(
    connection: &Connection,
    revokers: impl IntoIterator<Item = Fingerprint>,
) -> rusqlite::Result<BTreeSet<i64>> {
    let mut found = BTreeSet::new();
    let mut select = connection.prepare_cached("SELECT cert FROM revoker WHERE handle = ?1")?;
    for revoker in revokers {
        let handle = Handle::of_fingerprint(revoker).0.cast_signed();
        let mut rows = select.query([handle])?;
        while let Some(row) = rows.next()? {
            found.insert(row.get::<_, i64>(0)?);
        }
    }
    Ok(found)
}

/// Evaluates certificates again and stores their summaries. Returns those whose primary key changed between
/// revoked and not revoked.
pub(crate) fn renew(
    connection: &Connection,
    certs: impl IntoIterator<Item = i64>,
    now: u32,
) -> rusqlite::Result<Vec<i64>> {
    let mut turned = Vec::new();
    let mut select = connection.prepare_cached("SELECT summary FROM cert WHERE id = ?1")?;
    let mut update = connection.prepare_cached("UPDATE cert SET summary = ?2 WHERE id = ?1")?;
    for id in certs {
        let stored: Option<Vec<u8>> = select.query_row([id], |row| row.get(0)).optional()?;
        // A check reports certificates that cannot be read.
        let (Some(before), Some(blob)) = (stored, blob::intact(connection, id)?) else { continue };
        let Some((cert, verdicts)) = blob.decode() else { continue };
        let before = Summary::read(cert.fingerprint(), &before);
        let mut summary = Summary::evaluate(&cert, &verdicts, now);
        ask(connection, &cert, &mut summary, now)?;
        if before.as_ref() == Some(&summary) {
            continue;
        }
        let mut stored = Vec::new();
        summary.write(&mut stored);
        update.execute((id, stored))?;
        let is_turned = |before: &Summary| before.primary.revoked != summary.primary.revoked;
        if before.as_ref().is_none_or(is_turned) {
            turned.push(id);
        }
    }
    Ok(turned)
}

/// Evaluates all certificates again that name a revoker.
pub(crate) fn renew_all(connection: &Connection, now: u32) -> rusqlite::Result<()> {
    let all: BTreeSet<i64> = connection
        .prepare("SELECT DISTINCT cert FROM revoker")?
        .query_map([], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    renew(connection, all, now).map(drop)
}

/// Evaluates certificates again after their revokers were added or removed. Returns those that changed between
/// revoked and not revoked, and adds them to the change log. Certificates in `written` already have a log
/// entry. `last` is the number of the last change.
pub(crate) fn follow(
    connection: &Connection,
    revokers: impl IntoIterator<Item = Fingerprint>,
    written: &[i64],
    last: &mut i64,
    now: u32,
) -> rusqlite::Result<Vec<i64>> {
    let turned = renew(connection, naming(connection, revokers)?, now)?;
    let mut update = connection.prepare_cached("UPDATE cert SET change = ?2 WHERE id = ?1")?;
    let written: BTreeSet<i64> = written.iter().copied().collect();
    for id in turned.iter().filter(|id| !written.contains(id)) {
        *last += 1;
        log(connection, *last, now, *id, ChangeKind::Updated)?;
        update.execute((id, *last))?;
    }
    Ok(turned)
}
