//! Rebuilds all derived tables from the certificates, for a rebuild or a migration.

use std::path::Path;

use rayon::prelude::*;
use rusqlite::{Connection, OptionalExtension as _};
use talaria_cert::{
    Cert, Earlier, Reason, VERIFIER, Verdict, Verification, View, renewed, verdicts,
};

use crate::build::fill_text;
use crate::derive::{Derived, Failure};
use crate::ingest::{ChangeKind, Prepared, log, numbers};
use crate::revoker;
use crate::schema::{self, TextIndex};

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

/// A certificate as stored.
struct Entry {
    id: i64,
    verdicts: Vec<u8>,
    bytes: Vec<u8>,
}

/// Rebuilds all derived tables within a transaction of the caller. The tables of the web of trust are left
/// empty. Temporary files go to `folder`. Calls `unreadable` for each certificate that cannot be read; it gets
/// no rows. Returns the number of certificates and of good self-signatures.
///
/// A certificate whose verdicts changed gets a row in the change log.
pub(crate) fn remake(
    connection: &Connection,
    now: u32,
    folder: &Path,
    source: Verdicts,
    mut unreadable: impl FnMut(i64, &Reason) -> rusqlite::Result<()>,
) -> Result<(u64, u64), Failure> {
    let mut indexes = Vec::new();
    for index in TextIndex::ALL {
        if index.exists(connection)? {
            indexes.push(index);
        }
    }
    let views = schema::views(connection)?;
    schema::drop_derived(connection)?;
    schema::create_derived(connection, &indexes)?;
    connection.execute_batch(
        "DROP TABLE IF EXISTS temp.latest;
         CREATE TEMP TABLE latest (cert INTEGER PRIMARY KEY, number INTEGER);
         INSERT INTO temp.latest SELECT cert, max(number) FROM change GROUP BY cert;",
    )?;
    let mut last_change: i64 =
        connection
            .query_row("SELECT coalesce(max(number), 0) FROM change", [], |row| row.get(0))?;
    let mut derived = Derived::new(folder, MEMORY_BYTES);
    let (mut after, mut certs, mut good) = (0, 0, 0);
    loop {
        let entries = entries(connection, after)?;
        let Some(last) = entries.last() else { break };
        after = last.id;
        for (id, before, prepared) in prepare(entries, source, now, &views) {
            let prepared = match prepared {
                Ok(prepared) => prepared,
                Err(reason) => {
                    unreadable(id, &reason)?;
                    continue;
                }
            };
            derived.add(id, &prepared.terms, &prepared.digests)?;
            let verdicts = numbers(&prepared.verdicts);
            let mut change: i64 = connection
                .prepare_cached("SELECT number FROM temp.latest WHERE cert = ?1")?
                .query_row([id], |row| row.get(0))
                .optional()?
                .unwrap_or(0);
            if verdicts != before.verdicts {
                last_change += 1;
                change = last_change;
                log(connection, change, now, id, ChangeKind::Updated)?;
            }
            if verdicts != before.verdicts || prepared.cert.as_bytes() != before.bytes {
                connection
                    .prepare_cached("UPDATE blob SET verdicts = ?2, bytes = ?3 WHERE id = ?1")?
                    .execute((id, &verdicts, prepared.cert.as_bytes()))?;
            }
            let mut summary = Vec::new();
            prepared.summary.write(&mut summary);
            connection.prepare_cached("INSERT INTO cert VALUES (?1, ?2, ?3, ?4, ?5)")?.execute(
                (id, prepared.cert.fingerprint().to_stored(), change, VERIFIER, summary),
            )?;
            certs += 1;
            good += prepared.verdicts.iter().filter(|&&v| v == Verdict::Good).count() as u64;
        }
    }
    connection.execute_batch("DROP TABLE temp.latest")?;
    derived.fill(connection)?;
    revoker::renew_all(connection, now)?;
    indexes.into_iter().try_for_each(|index| fill_text(connection, index))?;
    Ok((certs, good))
}

/// The next certificates after number `after`.
fn entries(connection: &Connection, after: i64) -> rusqlite::Result<Vec<Entry>> {
    let mut statement = connection
        .prepare_cached("SELECT id, verdicts, bytes FROM blob WHERE id > ?1 ORDER BY id")?;
    let mut rows = statement.query([after])?;
    let (mut entries, mut bytes) = (Vec::new(), 0);
    while entries.len() < BATCH
        && bytes < BATCH_BYTES
        && let Some(row) = rows.next()?
    {
        let entry = Entry { id: row.get(0)?, verdicts: row.get(1)?, bytes: row.get(2)? };
        bytes += entry.bytes.len();
        entries.push(entry);
    }
    Ok(entries)
}

/// Reads and verifies certificates on all cores.
fn prepare(
    entries: Vec<Entry>,
    source: Verdicts,
    now: u32,
    views: &[View],
) -> Vec<(i64, Entry, Result<Prepared, Reason>)> {
    let parsed: Vec<(Entry, Result<Cert, Reason>)> = entries
        .into_par_iter()
        .map(|entry| {
            // A rebuild repairs the form of readable certificates. A migration keeps damaged data as they are.
            let cert = match source {
                Verdicts::Computed => Cert::parse(&entry.bytes),
                Verdicts::Stored(_) => Cert::from_canonical(entry.bytes.clone()),
            };
            (entry, cert)
        })
        .collect();
    let good = parsed.iter().filter_map(|(entry, cert)| Some((entry, cert.as_ref().ok()?)));
    let judged = match source {
        Verdicts::Computed => {
            let good: Vec<&Cert> = good.map(|(_, cert)| cert).collect();
            verdicts(&good, Verification::Full)
        }
        Verdicts::Stored(verifier) => {
            let good: Vec<(&Cert, Vec<Verdict>)> =
                good.map(|(entry, cert)| (cert, stored(entry, cert))).collect();
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
        .map(|(entry, cert)| {
            (entry, cert.map(|cert| (cert, judged.next().expect("one list per certificate"))))
        })
        .collect();
    work.into_par_iter()
        .map(|(entry, cert)| {
            let prepared = cert.map(|(cert, verdicts)| Prepared::new(cert, verdicts, now, views));
            (entry.id, entry, prepared)
        })
        .collect()
}

/// The verdicts of an entry. If they are damaged, all of them count as uncertain.
fn stored(entry: &Entry, cert: &Cert) -> Vec<Verdict> {
    let verdicts: Option<Vec<_>> =
        entry.verdicts.iter().map(|&number| Verdict::from_number(number)).collect();
    verdicts
        .filter(|verdicts| verdicts.len() == cert.signature_count())
        .unwrap_or_else(|| vec![Verdict::Unsupported; cert.signature_count()])
}
