//! Designated revokers in a store. When the certificate of a revoker is added or removed, the certificates
//! that name the revoker are evaluated again, in the same transaction.
//!
//! A designated revocation depends on the certificate that it is in and on the primary key of the revoker,
//! which the fingerprint determines. Other changes of the revoker's certificate have no effect. The table
//! `revoker` maps a revoker to the certificates that name it.

use std::collections::{BTreeSet, HashMap};

use rusqlite::{Connection, OptionalExtension as _};
use talaria_cert::{Cert, DesignatedRevocation, Fingerprint, Handle, Summary};

use crate::blob;
use crate::ingest::{BY_FINGERPRINT, by_fingerprint};
use crate::ledger::Ledger;
use crate::{ChangeKind, Store, StoreError, Stored, log};

impl Store {
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
    ledger: &Ledger,
) -> rusqlite::Result<()> {
    let look_up = |by| primary_key(connection, by);
    ask_with(summary, now, look_up, |by, body| ledger.designated(cert, by, body))
}

fn ask_with(
    summary: &mut Summary,
    now: u32,
    look_up: impl Fn(Fingerprint) -> rusqlite::Result<Option<Vec<u8>>>,
    made: impl FnMut(Fingerprint, &[u8]) -> Vec<DesignatedRevocation>,
) -> rusqlite::Result<()> {
    if summary.revokers.is_empty() {
        return Ok(());
    }
    let mut failure = None;
    let look_up = |by| {
        look_up(by).unwrap_or_else(|error| {
            failure = Some(error);
            None
        })
    };
    summary.ask_revokers(now, look_up, made);
    failure.map_or(Ok(()), Err)
}

/// Does what [`ask`] and [`follow`] will do when `planned` certificates are written, without writing, and keeps the
/// verdicts in `ledger`. Certificates without a number are new. Applies the revocations to the summaries, and returns the
/// certificates in the store that name a new one as their revoker.
pub(crate) fn rehearse(
    connection: &Connection,
    planned: &mut [(Option<i64>, &Cert, Summary)],
    now: u32,
    ledger: &mut Ledger,
) -> rusqlite::Result<Vec<(i64, Cert, Summary)>> {
    let new: HashMap<Fingerprint, &Cert> = planned
        .iter()
        .filter(|(id, ..)| id.is_none())
        .map(|&(_, cert, _)| (cert.fingerprint(), cert))
        .collect();
    let look_up = |by: Fingerprint| match new.get(&by) {
        Some(cert) => Ok(talaria_cert::first_packet(cert.as_bytes()).map(|key| key.body.to_vec())),
        None => primary_key(connection, by),
    };
    for (_, cert, summary) in planned.iter_mut() {
        ask_with(summary, now, look_up, |by, body| ledger.keep_designated(cert, by, body))?;
    }
    let mut followers = Vec::new();
    for id in naming(connection, new.keys().copied())? {
        let Some((cert, verdicts)) = blob::intact(connection, id)?.and_then(|blob| blob.decode())
        else {
            continue;
        };
        let mut summary = Summary::evaluate(&cert, &verdicts, now);
        ask_with(&mut summary, now, look_up, |by, body| ledger.keep_designated(&cert, by, body))?;
        followers.push((id, cert, summary));
    }
    Ok(followers)
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

/// Whether any certificate in the store names a revoker.
pub(crate) fn are_any(connection: &Connection) -> rusqlite::Result<bool> {
    connection.prepare_cached("SELECT 1 FROM revoker LIMIT 1")?.exists([])
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
    ledger: &Ledger,
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
        ask(connection, &cert, &mut summary, now, ledger)?;
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

/// The certificates that name a revoker.
pub(crate) fn all_naming(connection: &Connection) -> rusqlite::Result<Vec<i64>> {
    connection
        .prepare("SELECT DISTINCT cert FROM revoker ORDER BY cert")?
        .query_map([], |row| row.get(0))?
        .collect()
}

/// Evaluates all certificates again that name a revoker.
pub(crate) fn renew_all(connection: &Connection, now: u32) -> rusqlite::Result<()> {
    renew(connection, all_naming(connection)?, now, &Ledger::default()).map(drop)
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
    ledger: &Ledger,
) -> rusqlite::Result<Vec<i64>> {
    let turned = renew(connection, naming(connection, revokers)?, now, ledger)?;
    let mut update = connection.prepare_cached("UPDATE cert SET change = ?2 WHERE id = ?1")?;
    let written: BTreeSet<i64> = written.iter().copied().collect();
    for id in turned.iter().filter(|id| !written.contains(id)) {
        *last += 1;
        log::append(connection, *last, now, *id, ChangeKind::Updated)?;
        update.execute((id, *last))?;
    }
    Ok(turned)
}
