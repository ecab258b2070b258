//! Rebuilds all derived tables from the certificates, for a rebuild or a migration.

use std::path::Path;

use rayon::prelude::*;
use rusqlite::{Connection, OptionalExtension as _};
use talaria_cert::merge::Record;
use talaria_cert::{
    Cert, Earlier, Handle, Reason, Terms, VERIFIER, Verdict, Verification, View, key_handles,
    key_handles_of_damaged, keygrip_handles, renewed, verdicts,
};

use crate::blob::{self, Blob, Integrity, Part};
use crate::build::fill_text;
use crate::derive::{Derived, Failure};
use crate::ingest::numbers;
use crate::revoker;
use crate::schema::{self, Indexes};
use crate::store::RawRow;
use crate::{ChangeKind, log, texts};

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
    /// Stored verdicts, made by the verifier of this version. Signatures that this verifier may judge
    /// differently are verified again.
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

/// Rebuilds all derived tables within a transaction of the caller. The tables of the web of trust are left
/// empty. Temporary files go to `folder`.
///
/// Calls `damaged` for each certificate whose bytes are not those that were written, as far as its checksum or its
/// stored digest can tell, or that cannot be read. Its bytes stay as they are, without a new checksum. It keeps its
/// old row, so that it can be found and repaired.
///
/// A certificate whose verdicts changed gets a row in the change log.
pub(crate) fn remake(
    connection: &Connection,
    now: u32,
    folder: &Path,
    source: Verdicts,
    mut damaged: impl FnMut(i64, Option<&Reason>),
) -> Result<Remade, Failure> {
    let indexes = Indexes::found(connection)?;
    let views = schema::views(connection)?;
    let before = schema::set_derived_aside(connection)?;
    schema::drop_derived(connection)?;
    schema::create_derived(connection, &indexes)?;
    connection.execute_batch(
        "DROP TABLE IF EXISTS temp.latest;
         CREATE TEMP TABLE latest (cert INTEGER PRIMARY KEY, number INTEGER);
         INSERT INTO temp.latest SELECT cert, max(number) FROM change GROUP BY cert;
         DROP TABLE IF EXISTS temp.kept;
         CREATE TEMP TABLE kept (cert INTEGER PRIMARY KEY);",
    )?;
    let mut last_change: i64 =
        connection
            .query_row("SELECT coalesce(max(number), 0) FROM change", [], |row| row.get(0))?;
    let mut derived = Derived::new(folder, MEMORY_BYTES);
    let mut remade = Remade::default();
    let mut after = 0;
    loop {
        let blobs = blob::batch(connection, after, (BATCH, BATCH_BYTES), Part::ALL)?;
        let Some(last) = blobs.last() else { break };
        after = last.id;
        for (before, integrity, prepared) in prepare(blobs, source, now, &views) {
            let id = before.id;
            let is_good = match (integrity, &prepared) {
                (_, Err(_)) | (Integrity::Bytes, _) => false,
                (Integrity::Intact | Integrity::Verdicts, Ok(_)) => true,
                (Integrity::Unsealed, Ok(prepared)) => {
                    let digest = prepared.cert.sks_digest();
                    blob::is_confirmed(connection, "digest_before", id, &digest)?
                }
            };
            if !is_good {
                damaged(id, prepared.as_ref().err());
                if keep_row(connection, id, &mut derived)? {
                    continue;
                }
            }
            let Ok(prepared) = prepared else { continue };
            derived.add(id, &prepared.terms, &prepared.digests)?;
            let verdicts = numbers(&prepared.verdicts);
            let mut change: i64 = connection
                .prepare_cached("SELECT number FROM temp.latest WHERE cert = ?1")?
                .query_row([id], |row| row.get(0))
                .optional()?
                .unwrap_or(0);
            if is_good {
                let is_same_form = prepared.cert.as_bytes() == before.bytes;
                if verdicts != before.verdicts || !is_same_form {
                    last_change += 1;
                    change = last_change;
                    log::append(connection, change, now, id, ChangeKind::Updated)?;
                }
                if !is_same_form {
                    let bytes = prepared.cert.as_bytes();
                    blob::update(connection, id, &verdicts, bytes, &prepared.bytes_digest)?;
                } else if verdicts != before.verdicts || integrity != Integrity::Intact {
                    blob::update_verdicts(connection, id, &verdicts, &prepared.bytes_digest)?;
                }
            }
            let mut summary = Vec::new();
            prepared.summary.write(&mut summary);
            connection.prepare_cached("INSERT INTO cert VALUES (?1, ?2, ?3, ?4, ?5)")?.execute(
                (id, prepared.cert.fingerprint().to_stored(), change, VERIFIER, summary),
            )?;
            remade.certs += 1;
            remade.good_signatures +=
                prepared.verdicts.iter().filter(|&&v| v == Verdict::Good).count() as u64;
        }
    }
    derived.fill(connection)?;
    let has_kept = connection.prepare("SELECT 1 FROM temp.kept")?.exists([])?;
    for table in before {
        if has_kept && table != "cert" {
            let columns = if table == "digest" { "view, digest, cert" } else { "handle, cert" };
            connection.execute_batch(&format!(
                "INSERT OR IGNORE INTO {table} SELECT {columns} FROM {table}_before
                     WHERE cert IN (SELECT cert FROM temp.kept)"
            ))?;
        }
        connection.execute_batch(&format!("DROP TABLE {table}_before"))?;
    }
    connection.execute_batch("DROP TABLE temp.latest; DROP TABLE temp.kept;")?;
    blob::set_sealed_until(connection, None)?;
    revoker::renew_all(connection, now)?;
    indexes.text.into_iter().try_for_each(|index| fill_text(connection, index))?;
    texts::forget_late(connection)?;
    Ok(remade)
}

/// Fills the index of key IDs anew, from the certificates. A certificate that cannot be read is there by the keys in its row.
pub(crate) fn remake_keys(connection: &Connection, folder: &Path) -> Result<(), Failure> {
    let mut derived = Derived::new(folder, MEMORY_BYTES);
    let keys = |blob: &Blob| blob.decode().map(|(cert, verdicts)| key_handles(&cert, &verdicts));
    for_each_batch(connection, keys, |id, keys| {
        let keys = match keys {
            Some(keys) => keys,
            None => row(connection, "cert", id)?
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

/// Computes the handles of all certificates on all cores, and calls `each` with the number of each certificate, in their order.
fn for_each_batch(
    connection: &Connection,
    handles: impl Fn(&Blob) -> Option<Vec<Handle>> + Sync,
    mut each: impl FnMut(i64, Option<Vec<Handle>>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut after = 0;
    loop {
        let blobs = blob::batch(connection, after, (BATCH, BATCH_BYTES), Part::ALL)?;
        let Some(last) = blobs.last() else { return Ok(()) };
        after = last.id;
        let computed: Vec<_> = blobs.par_iter().map(|blob| (blob.id, handles(blob))).collect();
        computed.into_iter().try_for_each(|(id, handles)| each(id, handles))?;
    }
}

/// The row of a certificate in a table like `cert`.
fn row(connection: &Connection, table: &str, id: i64) -> rusqlite::Result<Option<RawRow>> {
    connection
        .prepare_cached(&format!(
            "SELECT id, fingerprint, change, summary FROM {table} WHERE id = ?1"
        ))?
        .query_row([id], RawRow::read)
        .optional()
}

/// Keeps the row that a damaged certificate had; its index rows are kept at the end. Returns whether it had a row that can
/// be read.
fn keep_row(connection: &Connection, id: i64, derived: &mut Derived) -> Result<bool, Failure> {
    let Some(row) = row(connection, "cert_before", id)? else { return Ok(false) };
    let Some(summary) = row.summary() else { return Ok(false) };
    connection.prepare_cached("INSERT INTO cert VALUES (?1, ?2, ?3, ?4, ?5)")?.execute((
        id,
        &row.fingerprint,
        row.change,
        VERIFIER,
        &row.summary,
    ))?;
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
) -> Vec<(Blob, Integrity, Result<Record, Reason>)> {
    let parsed: Vec<(Blob, Result<Cert, Reason>)> = blobs
        .into_par_iter()
        .map(|blob| {
            // A rebuild repairs the form of readable certificates. A migration keeps damaged data as they are.
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
            let integrity = blob.integrity();
            (blob, integrity, prepared)
        })
        .collect()
}

/// The verdicts of a stored certificate. If they are damaged, all of them count as uncertain.
fn stored(blob: &Blob, cert: &Cert) -> Vec<Verdict> {
    blob.verdicts_on(cert).unwrap_or_else(|| vec![Verdict::Unsupported; cert.signature_count()])
}
