//! Rebuilds all derived tables from the certificates, for a rebuild or a migration.

use std::path::Path;

use rayon::prelude::*;
use rusqlite::{Connection, OptionalExtension as _};
use talaria_cert::merge::Record;
use talaria_cert::{
    Cert, Earlier, Handle, Reason, Terms, Verdict, Verification, View, key_handles,
    key_handles_of_damaged, keygrip_handles, renewed, verdicts,
};

use crate::blob::{self, Blob, Integrity, Share, Version};
use crate::change::{self, ChangeKind};
use crate::derive::{Derived, Failure};
use crate::evidence::{Evidence, Seen};
use crate::ingest::numbers;
use crate::row::{self, RawRow, columns};
use crate::schema::{self, Indexes};
use crate::texts::fill_text;
use crate::{meta, revoker};

/// Maximum number of certificates that are read at a time.
const BATCH: usize = 2000;

/// Once a batch has this many bytes of certificates, no further certificate is added to it: 16 MiB.
const BATCH_BYTES: usize = 16 << 20;

/// Memory for sorting index rows before they go to disk: 256 MiB.
const MEMORY_BYTES: usize = 256 << 20;

/// Source of the verdicts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Verdicts {
    /// All signatures are verified again.
    Computed,
    /// Stored verdicts, made by the verifier of this version. Signatures that this verifier may
    /// judge differently are verified again.
    Stored(u8),
}

/// The result of rebuilding the derived tables.
#[derive(Default)]
pub(crate) struct Remade {
    /// Number of certificates whose rows were computed.
    pub(crate) certs: u64,
    /// Number of their good self-signatures.
    pub(crate) good_signatures: u64,
}

/// Rebuilds all derived tables within a transaction of the caller. The tables of the web of trust
/// are left empty. Temporary files go to `folder`.
///
/// Calls `damaged` for each certificate whose bytes are not those that were written last, as far as
/// its checksum, its row, the change log or its stored digest can tell, or that cannot be read. Its
/// bytes stay as they are, without a new checksum. It keeps its old row, so that it can be found
/// and repaired.
///
/// A certificate whose verdicts changed gets a row in the change log. One that was deleted, as the
/// change log says, and of which the disk has kept a part is deleted.
pub(crate) fn remake(
    connection: &Connection,
    now: u32,
    folder: &Path,
    source: Verdicts,
    mut damaged: impl FnMut(i64, String),
) -> Result<Remade, Failure> {
    let evidence = Evidence::gather(connection)?;
    let lost = evidence.lost(connection, &Seen::all(connection)?, Share::ALL)?;
    let indexes = Indexes::found(connection)?;
    let views = schema::views(connection)?;
    let before = schema::set_derived_aside(connection)?;
    schema::drop_derived(connection)?;
    schema::create_derived(connection, &indexes)?;
    connection.execute_batch(
        "DROP TABLE IF EXISTS temp.kept;
         CREATE TEMP TABLE kept (cert INTEGER PRIMARY KEY);",
    )?;
    let mut last_change = last_change(connection)?;
    let mut derived = Derived::new(folder, MEMORY_BYTES);
    let mut remade = Remade::default();
    let mut after = 0;
    loop {
        let size = (BATCH, BATCH_BYTES);
        let blobs = blob::batch_beside(connection, "cert_before", after, size, Share::ALL)?;
        let Some(last) = blobs.last() else { break };
        after = last.id;
        for (before, prepared) in prepare(blobs, source, now, &views) {
            let id = before.id;
            let latest = evidence.last_change(id);
            if evidence.is_deleted(id) {
                blob::retire(connection, id)?;
                continue;
            }
            let former_row = row(connection, "cert_before", id)?;
            let integrity = evidence.judge(&before, former_row.as_ref());
            let is_good = match (integrity, &prepared) {
                (_, Err(_)) | (Integrity::Bytes | Integrity::Stale, _) => false,
                (_, Ok(prepared)) => {
                    let digest = prepared.cert.sks_digest();
                    evidence.confirms(connection, "digest_before", id, &digest)?
                }
            };
            if !is_good {
                let reason = prepared.as_ref().err().map(ToString::to_string);
                damaged(id, reason.unwrap_or_else(|| integrity.finding().to_owned()));
                log_again(connection, id, latest, &mut last_change, now)?;
                if keep_row(connection, id, &mut derived)? {
                    continue;
                }
            }
            let Ok(prepared) = prepared else { continue };
            // A digest would confirm bytes that nothing confirms.
            let digests = if is_good { &prepared.digests[..] } else { &[] };
            derived.add(id, &prepared.terms, digests)?;
            let verdicts = numbers(&prepared.verdicts);
            let mut change = latest.unwrap_or(0);
            let mut former = None;
            if is_good {
                let is_same_form = prepared.cert.as_bytes() == before.bytes;
                let is_same = is_same_form && verdicts == before.verdicts;
                let is_logged = latest.is_some() && before.change.is_none_or(|own| own == change);
                if !is_same || !is_logged {
                    last_change += 1;
                    change = last_change;
                    change::append(connection, change, now, id, ChangeKind::Updated)?;
                }
                let version = Version { change, digest: &prepared.bytes_digest };
                let is_sealed = matches!(integrity, Integrity::Intact | Integrity::Row);
                if !is_same_form {
                    let bytes = prepared.cert.as_bytes();
                    blob::update(connection, id, &verdicts, bytes, version)?;
                } else if is_same && is_logged && is_sealed {
                    former = before.former();
                } else {
                    blob::update_verdicts(connection, id, &verdicts, version)?;
                }
            }
            let fresh = RawRow::new(id, prepared.cert.fingerprint(), change, &prepared.summary);
            RawRow { former, ..fresh }.write(connection)?;
            remade.certs += 1;
            remade.good_signatures +=
                prepared.verdicts.iter().filter(|&&v| v == Verdict::Good).count() as u64;
        }
    }
    for id in lost {
        damaged(id, blob::LOST.to_owned());
        log_again(connection, id, evidence.last_change(id), &mut last_change, now)?;
        keep_row(connection, id, &mut derived)?;
    }
    derived.fill(connection)?;
    drop_former(connection, &before)?;
    blob::set_sealed_until(connection, None)?;
    revoker::renew_all(connection, now)?;
    indexes.text.into_iter().try_for_each(|index| fill_text(connection, index))?;
    meta::forget_derived(connection)?;
    Ok(remade)
}

/// The number of the last change. The disk may have lost rows of the log, whose numbers are not
/// given again.
fn last_change(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row(
        "SELECT max((SELECT coalesce(max(number), 0) FROM change), \
         (SELECT coalesce(max(change), 0) FROM blob))",
        [],
        |row| row.get(0),
    )
}

/// Drops the derived tables of before, except for what they have of damaged certificates, which
/// goes into the new ones.
fn drop_former(connection: &Connection, tables: &[&str]) -> rusqlite::Result<()> {
    let has_kept = connection.prepare("SELECT 1 FROM temp.kept")?.exists([])?;
    for &table in tables {
        if has_kept && table != "cert" {
            let columns = if table == "digest" { "view, digest, cert" } else { "handle, cert" };
            let kept = connection.execute_batch(&format!(
                "INSERT OR IGNORE INTO {table} SELECT {columns} FROM {table}_before
                     WHERE cert IN (SELECT cert FROM temp.kept)"
            ));
            // The rows that cannot be read are lost. Those certificates are still found by their
            // fingerprints.
            if !blob::is_unreadable(&kept) {
                kept?;
            }
        }
        connection.execute_batch(&format!("DROP TABLE {table}_before"))?;
    }
    connection.execute_batch("DROP TABLE temp.kept;")
}

/// Fills the index of key IDs anew, from the certificates. A certificate that cannot be read is
/// there by the keys in its row.
pub(crate) fn remake_keys(connection: &Connection, folder: &Path) -> Result<(), Failure> {
    let mut derived = Derived::new(folder, MEMORY_BYTES);
    let keys = |blob: &Blob| blob.decode().map(|(cert, verdicts)| key_handles(&cert, &verdicts));
    for_each_batch(connection, keys, |id, keys| {
        let keys = match keys {
            Some(keys) => keys,
            None => row::get(connection, id)?
                .and_then(|row| row.summary())
                .map(|summary| key_handles_of_damaged(&summary))
                .unwrap_or_default(),
        };
        Ok(derived.add(id, &Terms { keys, ..Terms::default() }, &[])?)
    })?;
    connection.execute_batch("DELETE FROM key")?;
    derived.fill(connection)
}

/// Makes the index of keygrips, from the certificates.
pub(crate) fn make_keygrips(connection: &Connection, folder: &Path) -> Result<(), Failure> {
    let mut derived = Derived::new(folder, MEMORY_BYTES);
    let keygrips = |blob: &Blob| blob.decode().map(|(cert, _)| keygrip_handles(&cert));
    for_each_batch(connection, keygrips, |id, keygrips| {
        let keygrips = keygrips.unwrap_or_default();
        Ok(derived.add(id, &Terms { keygrips, ..Terms::default() }, &[])?)
    })?;
    schema::create_keygrips(connection)?;
    derived.fill(connection)
}

/// Computes the handles of all certificates on all cores, and calls `each` with the number of each
/// certificate, in their order.
fn for_each_batch(
    connection: &Connection,
    handles: impl Fn(&Blob) -> Option<Vec<Handle>> + Sync,
    mut each: impl FnMut(i64, Option<Vec<Handle>>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut after = 0;
    loop {
        let blobs = blob::batch(connection, after, (BATCH, BATCH_BYTES), Share::ALL)?;
        let Some(last) = blobs.last() else { return Ok(()) };
        after = last.id;
        let computed: Vec<_> = blobs.par_iter().map(|blob| (blob.id, handles(blob))).collect();
        computed.into_iter().try_for_each(|(id, handles)| each(id, handles))?;
    }
}

/// The row of a certificate in a table like `cert`.
fn row(connection: &Connection, table: &str, id: i64) -> rusqlite::Result<Option<RawRow>> {
    connection
        .prepare_cached(&format!("SELECT {} FROM {table} AS cert WHERE id = ?1", columns!()))?
        .query_row([id], RawRow::read)
        .optional()
}

/// Records the change again that the row of a damaged certificate names, if the log has lost it. If
/// its number was given to another change since, it gets a new one.
fn log_again(
    connection: &Connection,
    id: i64,
    latest: Option<i64>,
    last_change: &mut i64,
    now: u32,
) -> Result<(), Failure> {
    let Some(row) = row(connection, "cert_before", id)? else { return Ok(()) };
    if latest.is_some_and(|latest| latest >= row.change) {
        return Ok(());
    }
    let is_free = !change::has(connection, row.change)?;
    let number = if is_free { row.change } else { *last_change + 1 };
    *last_change = number.max(*last_change);
    Ok(change::append(connection, number, now, id, ChangeKind::Updated)?)
}

/// Keeps the row that a damaged certificate had; its index rows are kept at the end. Returns
/// whether it had a row that can be read. If the log has a later change, the row names it, so that
/// readers notice that the certificate is an old one.
fn keep_row(connection: &Connection, id: i64, derived: &mut Derived) -> Result<bool, Failure> {
    let Some(row) = row(connection, "cert_before", id)? else { return Ok(false) };
    let Some(summary) = row.summary() else { return Ok(false) };
    match change::last_change_of(connection, id)? {
        latest if latest > row.change => {
            RawRow { change: latest, former: None, ..row }.write(connection)?;
        }
        _ => row.keep(connection)?,
    }
    connection.prepare_cached("INSERT INTO temp.kept VALUES (?1)")?.execute([id])?;
    let terms = Terms {
        fingerprint: vec![Handle::of_fingerprint(summary.fingerprint())],
        ..Terms::default()
    };
    derived.add(id, &terms, &[])?;
    Ok(true)
}

/// Reads and verifies certificates on all cores.
fn prepare(
    blobs: Vec<Blob>,
    source: Verdicts,
    now: u32,
    views: &[View],
) -> Vec<(Blob, Result<Record, Reason>)> {
    let parsed: Vec<(Blob, Result<Cert, Reason>)> = blobs
        .into_par_iter()
        .map(|blob| {
            // A rebuild repairs the form of readable certificates. A migration keeps damaged data
            // as they are.
            let cert = match source {
                Verdicts::Computed => Cert::parse(&blob.bytes),
                Verdicts::Stored(_) => Cert::from_canonical(blob.bytes.clone()),
            };
            (blob, cert)
        })
        .collect();
    let good = parsed.iter().filter_map(|(blob, cert)| Some((blob, cert.as_ref().ok()?)));
    let judged = match source {
        Verdicts::Computed => {
            let good: Vec<&Cert> = good.map(|(_, cert)| cert).collect();
            verdicts(&good, Verification::Full)
        }
        Verdicts::Stored(verifier) => {
            let good: Vec<(&Cert, Vec<Verdict>)> =
                good.map(|(blob, cert)| (cert, stored(blob, cert))).collect();
            let earlier: Vec<_> = good
                .iter()
                .map(|(cert, verdicts)| (*cert, Earlier { verdicts, verifier }))
                .collect();
            renewed(&earlier, Verification::Deferred)
        }
    };
    let mut judged = judged.into_iter();
    let work: Vec<_> = parsed
        .into_iter()
        .map(|(blob, cert)| {
            (blob, cert.map(|cert| (cert, judged.next().expect("one list per certificate"))))
        })
        .collect();
    work.into_par_iter()
        .map(|(blob, cert)| {
            let prepared =
                cert.map(|(cert, verdicts)| Record::new(cert, verdicts, now.into(), views));
            (blob, prepared)
        })
        .collect()
}

/// The verdicts of a stored certificate. If they are damaged, all of them count as uncertain.
fn stored(blob: &Blob, cert: &Cert) -> Vec<Verdict> {
    blob.verdicts_on(cert).unwrap_or_else(|| vec![Verdict::Unsupported; cert.signature_count()])
}
