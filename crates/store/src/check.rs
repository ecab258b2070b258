//! Checking a store: reading all data and comparing derived data with the certificates. Also
//! rebuilding the derived data.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::Path;

use rayon::prelude::*;
use rusqlite::Connection;
use talaria_cert::merge::digests;
use talaria_cert::{
    Cert, Fingerprint, Summary, Terms, Timestamp, VERIFIER, Verdict, Verification, View,
    search_text, verdicts,
};

use crate::blob::{self, Blob, Integrity, Share};
use crate::derive::failed;
use crate::derive::{Derived, Failure};
use crate::error::StoreError;
use crate::evidence::{self, Evidence, Seen};
use crate::keyserver::{self, Confirmation};
use crate::ledger::Ledger;
use crate::redaction::{self, RedactionRow};
use crate::remake::{Verdicts, remake};
use crate::row::{self, RawRow, columns};
use crate::schema::{self, Indexes, TextIndex};
use crate::store::Store;
use crate::tofu::{self, BindingRow};
use crate::tombstone::{self, Grave};
use crate::trust::misfits::misfits;
use crate::{damage, format, inventory, meta, owner, revoker, sums, texts, trust};

/// Number of certificates that are checked at a time, and their size, above which none is added:
/// 64 MiB.
const BATCH: usize = 2000;
const BATCH_BYTES: usize = 64 << 20;

/// Memory for sorting index rows before they go to disk: 256 MiB.
const MEMORY_BYTES: usize = 256 << 20;

/// Maximum number of findings that are listed. Further findings are only counted.
const FINDINGS_MAX: usize = 1000;

/// The depth of a check: the results that it computes again.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Depth {
    /// Verify all self-signatures and compare the results with the stored verdicts.
    #[default]
    Signatures,
    /// Trust the stored verdicts.
    Structure,
    /// Compare certificates with their checksums only, not the indexes with the certificates.
    Checksums,
}

/// A problem found by a check.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Finding {
    /// The affected object: a certificate, a row, a table.
    pub object: String,
    /// Description of the problem.
    pub what: String,
    /// The remedy.
    pub remedy: Remedy,
}

/// The remedy for a problem.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Remedy {
    /// [`Store::rebuild`]: the damaged data follows from the certificates.
    Rebuild,
    /// [`Damage::repair`](crate::Damage::repair) with a copy of the certificate.
    Copy,
    /// A backup of the store: the damaged data is recorded nowhere else.
    Restore,
}

impl Remedy {
    /// The remedy as one word: "rebuild", "copy" or "restore".
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Rebuild => "rebuild",
            Self::Copy => "copy",
            Self::Restore => "restore",
        }
    }
}

/// The result of a check.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct CheckReport {
    /// Number of certificates that were read.
    pub certs: u64,
    /// Number of signatures that were verified.
    pub signatures: u64,
    /// The first thousand findings.
    pub findings: Vec<Finding>,
    /// Number of all findings.
    pub count: u64,
}

impl CheckReport {
    pub(crate) fn add(
        &mut self,
        object: impl Into<String>,
        what: impl Into<String>,
        remedy: Remedy,
    ) {
        self.count += 1;
        if self.findings.len() < FINDINGS_MAX {
            let finding = Finding { object: object.into(), what: what.into(), remedy };
            if self.findings.contains(&finding) {
                self.count -= 1;
            } else {
                self.findings.push(finding);
            }
        }
    }

    /// Whether there are no findings.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.count == 0
    }
}

/// A certificate as stored, not yet checked.
struct Entry {
    blob: Blob,
    row: Option<RawRow>,
}

/// A certificate of which something was read.
struct Parsed {
    entry: Entry,
    integrity: Integrity,
    /// The certificate, or why it is not the one that was written.
    cert: Result<Cert, String>,
}

/// The result of reading an entry.
struct Read {
    id: i64,
    name: String,
    /// Whether the certificate is the one that was written, as far as can be told, and could be
    /// read.
    is_good: bool,
    terms: Terms,
    digests: Vec<(View, [u8; 16])>,
    problems: Vec<(String, Remedy)>,
    computed: u64,
    /// For a certificate that names revokers: the certificate, its summary without the revokers'
    /// revocations, and the stored summary.
    unasked: Option<Box<(Cert, Summary, Summary)>>,
}

impl Store {
    /// Reads all data and compares it with its checksums. Except with [`Depth::Checksums`],
    /// recomputes all derived data and compares. `progress` gets the number of certificates checked
    /// so far.
    ///
    /// # Errors
    ///
    /// When the store cannot be read at all. Problems inside the store are in the [`CheckReport`].
    pub fn check(
        &self,
        depth: Depth,
        progress: impl FnMut(u64),
    ) -> Result<CheckReport, StoreError> {
        self.check_part(depth, Share::ALL, progress)
    }

    /// Like [`Self::check`], for a part of the certificates and their rows in all tables. The first
    /// part also checks the structure of the file and all rows that belong to no certificate.
    ///
    /// # Errors
    ///
    /// As [`Self::check`].
    pub fn check_part(
        &self,
        depth: Depth,
        part: Share,
        mut progress: impl FnMut(u64),
    ) -> Result<CheckReport, StoreError> {
        let mut report = CheckReport::default();
        let mut run = || -> Result<(), Failure> {
            // A transaction makes the check see one state of the store, whatever other processes
            // write.
            self.connection.execute_batch("BEGIN")?;
            if part.is_first() {
                structure(&self.connection, &mut report)?;
                definitions(&self.connection, &mut report)?;
                rows(&self.connection, &mut report)?;
            }
            match depth {
                Depth::Checksums => self.compare_checksums(part, &mut report, &mut progress),
                _ => self.certificates(depth, part, &mut report, &mut progress),
            }
        };
        let result = run();
        let _ = self.connection.execute_batch("ROLLBACK");
        match result {
            Ok(()) => Ok(report),
            Err(Failure::Engine(error))
                if error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseCorrupt)
                    || report.count > 0
                    || matches!(
                        error,
                        rusqlite::Error::InvalidColumnType(..)
                            | rusqlite::Error::FromSqlConversionFailure(..)
                            | rusqlite::Error::IntegralValueOutOfRange(..)
                    ) =>
            {
                report.add("the file", error.to_string(), Remedy::Restore);
                Ok(report)
            }
            Err(failure) => Err(failed(&self.path, failure)),
        }
    }

    /// Compares certificates with their checksums. Of those that differ or have none, everything is
    /// checked.
    fn compare_checksums(
        &self,
        part: Share,
        report: &mut CheckReport,
        progress: &mut impl FnMut(u64),
    ) -> Result<(), Failure> {
        let views = schema::complete_views(&self.connection)?;
        let evidence = Evidence::gather(&self.connection)?;
        let (mut after, mut seen) = (0, Seen::default());
        loop {
            let blobs = blob::batch(&self.connection, after, (BATCH, BATCH_BYTES), part)?;
            let Some(last) = blobs.last() else {
                self.lost(&evidence, &seen, part, report)?;
                return Ok(damaged_rows(&self.connection, part, report)?);
            };
            after = last.id;
            blobs.iter().for_each(|blob| seen.insert(blob.id));
            report.certs += blobs.len() as u64;
            let doubtful: Vec<Blob> = blobs
                .into_par_iter()
                .filter(|blob| {
                    let latest = evidence.last_change(blob.id);
                    latest.is_none() || blob.judged(latest, true) != Integrity::Intact
                })
                .collect();
            let entries = self.with_rows(doubtful, part)?;
            for read in
                read_entries(&self.connection, entries, Depth::Structure, &views, &evidence)?
            {
                for (what, remedy) in read.problems {
                    report.add(&read.name, what, remedy);
                }
            }
            progress(report.certs);
        }
    }

    fn certificates(
        &self,
        depth: Depth,
        part: Share,
        report: &mut CheckReport,
        progress: &mut impl FnMut(u64),
    ) -> Result<(), Failure> {
        let folder = std::env::temp_dir();
        let mut derived = Derived::new(&folder, MEMORY_BYTES);
        let scratch = Connection::open("")?;
        scratch.execute_batch("PRAGMA journal_mode = OFF; BEGIN")?;
        let indexed_until = texts::indexed_until(&self.connection)?;
        let mut indexes = Vec::new();
        for index in TextIndex::ALL {
            if index.exists(&self.connection)? {
                index.create(&scratch)?;
                indexes.push(index);
            }
        }
        let views = schema::complete_views(&self.connection)?;
        let evidence = Evidence::gather(&self.connection)?;
        // Rows of damaged certificates cannot be compared with anything.
        let (mut damaged, mut seen) = (HashSet::new(), Seen::default());
        if part.is_first() {
            duplicates(&self.connection, report)?;
        }
        let mut after = 0;
        loop {
            let entries = self.entries(after, part)?;
            let Some(last) = entries.last() else { break };
            after = last.blob.id;
            for mut read in read_entries(&self.connection, entries, depth, &views, &evidence)? {
                if let Some(unasked) = read.unasked.take() {
                    let (cert, mut again, stored) = *unasked;
                    revoker::ask(
                        &self.connection,
                        &cert,
                        &mut again,
                        stored.holds.from,
                        &Ledger::default(),
                    )?;
                    if again != stored {
                        let what = "its summary does not match its packets and revokers";
                        report.add(&read.name, what, Remedy::Rebuild);
                    }
                }
                for (what, remedy) in read.problems {
                    report.add(&read.name, what, remedy);
                }
                seen.insert(read.id);
                report.certs += 1;
                report.signatures += read.computed;
                if read.is_good {
                    derived.add(read.id, &read.terms, &read.digests)?;
                } else {
                    damaged.insert(read.id);
                }
                if read.id <= indexed_until {
                    fill_scratch(&scratch, &indexes, read.id, &read.terms.text)?;
                }
            }
            progress(report.certs);
        }
        for id in self.lost(&evidence, &seen, part, report)? {
            damaged.insert(id);
            if id <= indexed_until {
                // Its row keeps its texts.
                let row = row::get(&self.connection, id)?;
                let text = row.and_then(|row| row.summary()).map(|summary| search_text(&summary));
                fill_scratch(&scratch, &indexes, id, &text.unwrap_or_default())?;
            }
        }
        derived.compare(&self.connection, part, |table, id| {
            if damaged.contains(&id) {
                return;
            }
            report.add(
                format!("table {table}"),
                format!("does not match certificate number {id}"),
                Remedy::Rebuild,
            );
        })?;
        for id in misfits(&self.connection)? {
            if damaged.contains(&id) || !part.has(id) {
                continue;
            }
            let what = format!("does not match certificate number {id}");
            report.add("table trust", what, Remedy::Rebuild);
        }
        self.texts(&indexes, &scratch, part, report)
    }

    /// Compares full-text indexes with those made of the certificates in `scratch`.
    fn texts(
        &self,
        indexes: &[TextIndex],
        scratch: &Connection,
        part: Share,
        report: &mut CheckReport,
    ) -> Result<(), Failure> {
        for &index in indexes {
            let ours = vocabulary(&self.connection, index, part)?;
            if ours != vocabulary(scratch, index, Share::ALL)? {
                report.add(
                    format!("index {}", index.table()),
                    "does not match the certificates",
                    Remedy::Rebuild,
                );
            }
        }
        Ok(())
    }

    /// The next certificates of a part after number `after`.
    fn entries(&self, after: i64, part: Share) -> rusqlite::Result<Vec<Entry>> {
        let blobs = blob::batch(&self.connection, after, (BATCH, BATCH_BYTES), part)?;
        self.with_rows(blobs, part)
    }

    /// Reports the certificates of a part that are in the change log or in table `cert`, and have
    /// no bytes. Returns their numbers.
    fn lost(
        &self,
        evidence: &Evidence,
        seen: &Seen,
        part: Share,
        report: &mut CheckReport,
    ) -> rusqlite::Result<BTreeSet<i64>> {
        let connection = &self.connection;
        let lost = evidence.lost(connection, seen, part)?;
        for &id in &lost {
            let name = certificate_name(id, row::fingerprint(connection, id)?);
            report.add(name, blob::LOST, Remedy::Copy);
        }
        let mut orphans = evidence::orphans(connection, seen, part)?;
        orphans.retain(|id| !lost.contains(id));
        if !orphans.is_empty() {
            let what = format!("{} rows without a certificate", orphans.len());
            report.add("table cert", what, Remedy::Rebuild);
        }
        Ok(lost)
    }

    /// Certificates of a part, in the order of their numbers, with their rows.
    fn with_rows(&self, blobs: Vec<Blob>, part: Share) -> rusqlite::Result<Vec<Entry>> {
        let (Some(first), Some(last)) = (blobs.first(), blobs.last()) else {
            return Ok(Vec::new());
        };
        let ids = (first.id, last.id);
        let mut rows: HashMap<i64, RawRow> = self
            .connection
            .prepare_cached(&format!(
                "SELECT {} FROM cert WHERE id >= ?1 AND id <= ?2 AND {}",
                columns!(),
                part.condition("id")
            ))?
            .query_map(ids, |row| Ok((row.get(0)?, RawRow::read(row)?)))?
            .collect::<rusqlite::Result<_>>()?;
        let entry = |blob: Blob| {
            let row = rows.remove(&blob.id);
            Entry { blob, row }
        };
        Ok(blobs.into_iter().map(entry).collect())
    }

    /// Rebuilds all derived tables from the certificates, in one transaction. A certificate whose
    /// bytes are damaged is reported, and keeps its bytes and its old row: a rebuild never makes
    /// damage permanent.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] if no certificates can be read, or any error of a write. The store
    /// stays unchanged.
    pub fn rebuild(&mut self, now: Timestamp) -> Result<CheckReport, StoreError> {
        let now = now.seconds();
        let mut report = CheckReport::default();
        let path = self.path.clone();
        let folder = path.parent().map_or_else(|| Path::new(".").to_owned(), Path::to_owned);
        self.atomically(|store| {
            store.rebuild_rows(now, &folder, &mut report).map_err(|failure| failed(&path, failure))
        })?;
        Ok(report)
    }

    fn rebuild_rows(
        &self,
        now: u32,
        folder: &Path,
        report: &mut CheckReport,
    ) -> Result<(), Failure> {
        let connection = &self.connection;
        let mut damaged = Vec::new();
        let remade = remake(connection, now, folder, Verdicts::Computed, |id, what| {
            damaged.push((id, what));
        })?;
        for (id, what) in damaged {
            let name = certificate_name(id, row::fingerprint(connection, id)?);
            report.add(name, what, Remedy::Copy);
        }
        for ids in damage::duplicates(connection)? {
            damage::join(connection, &ids, now)?;
        }
        (report.certs, report.signatures) = (remade.certs, remade.good_signatures);
        trust::renew(connection, now, &Ledger::default())?;
        Ok(())
    }
}

/// SQLite's own check of its pages and trees.
fn structure(connection: &Connection, report: &mut CheckReport) -> rusqlite::Result<()> {
    let mut statement = connection.prepare("PRAGMA integrity_check(100)")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let line: String = row.get(0)?;
        if line != "ok" {
            report.add("the file", line, Remedy::Restore);
        }
    }
    Ok(())
}

/// The name of a certificate in a finding.
pub(crate) fn certificate_name(id: i64, fingerprint: Option<Fingerprint>) -> String {
    match fingerprint {
        Some(fingerprint) => format!("certificate {fingerprint}"),
        None => format!("certificate number {id}"),
    }
}

/// Compares the definitions of tables and indexes with those of a new store.
fn definitions(connection: &Connection, report: &mut CheckReport) -> rusqlite::Result<()> {
    let mut indexes = Indexes::found(connection)?;
    let format = format::of(connection)?;
    if format < format::ONE_ROW_FORMAT {
        indexes.keygrips = true;
    }
    let fresh = Connection::open_in_memory()?;
    schema::create(&fresh, &indexes)?;
    schema::make_older(&fresh, format)?;
    let list = |connection: &Connection| -> rusqlite::Result<BTreeMap<String, String>> {
        connection
            .prepare(
                "SELECT type || ' ' || name, tbl_name || ' ' || ifnull(sql, '') FROM sqlite_schema",
            )?
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect()
    };
    let (mut ours, expected) = (list(connection)?, list(&fresh)?);
    // A table that was renamed has its name in quotation marks.
    let plain = |definition: &str| definition.replace(['"', '\''], "");
    for (name, definition) in expected {
        match ours.remove(&name) {
            Some(found) if plain(&found) == plain(&definition) => {}
            Some(_) => {
                let what = "its definition differs from that of this format";
                report.add(name, what, Remedy::Restore);
            }
            None => report.add(name, "is missing", Remedy::Restore),
        }
    }
    // SQLite's own tables do no harm, and neither do objects that a user has added.
    Ok(())
}

/// Checks rows that have their own checksum, and their relations to each other.
fn rows(connection: &Connection, report: &mut CheckReport) -> rusqlite::Result<()> {
    let name = meta::get::<String>(connection, "store")?.good().unwrap_or_default();
    if name.len() != 32 || !name.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        report.add("table meta", "the name of the store is damaged", Remedy::Restore);
    }
    for name in meta::damaged(connection)? {
        let remedy = if meta::is_derived(&name) { Remedy::Rebuild } else { Remedy::Restore };
        report.add(format!("table meta, {name}"), SUM, remedy);
    }
    let mut statement = connection.prepare("SELECT number, time, cert, kind, sum FROM change")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let number: i64 = row.get(0)?;
        if sums::of_change(number, row.get(1)?, row.get(2)?, row.get(3)?) != row.get::<_, i64>(4)? {
            report.add(format!("change {number}"), SUM, Remedy::Restore);
        }
    }
    other_rows(connection, report)?;
    // Before, rows had no inventory.
    if format::of(connection)? >= format::STAMPED_FORMAT {
        for table in inventory::differing(connection)? {
            report.add(format!("table {table}"), INVENTORY, Remedy::Restore);
        }
    }
    let stale: i64 = connection.query_row(
        "SELECT count(*) FROM cert WHERE NOT EXISTS \
         (SELECT 1 FROM change WHERE change.number = cert.change AND change.cert = cert.id)",
        [],
        |row| row.get(0),
    )?;
    if stale > 0 {
        report.add(
            "table cert",
            format!("{stale} rows name a change of another certificate"),
            Remedy::Rebuild,
        );
    }
    Ok(())
}

/// The finding for a row that is not the one that was written.
const SUM: &str = "its checksum does not match";

/// The finding for a table of decisions.
const INVENTORY: &str =
    "rows are missing or older than what was written: the disk has lost a write";

/// The finding for a row of `cert` that is not the one that was written.
const ROW_SUM: &str = "its row in table cert does not match its checksum";

/// Checks rows with what the user or the operator has decided, as all who use them read them.
fn other_rows(connection: &Connection, report: &mut CheckReport) -> rusqlite::Result<()> {
    let mut note = |name: String, is_good: bool| {
        if !is_good {
            report.add(name, SUM, Remedy::Restore);
        }
    };
    for row in connection.prepare(tombstone::GRAVES)?.query_map([], Grave::read)? {
        let row = row?;
        note(row.name(), row.is_good);
    }
    for row in owner::all(connection)? {
        note(row.name(), row.is_good);
    }
    for row in connection.prepare(keyserver::PEERS)?.query_map([], keyserver::read_peer)? {
        let (name, peer) = row?;
        note(name, peer.is_some());
    }
    for row in connection.prepare(redaction::REDACTIONS)?.query_map([], RedactionRow::read)? {
        let row = row?;
        note(row.name(), row.is_good);
    }
    for row in connection.prepare(keyserver::PUBLISHED)?.query_map([], Confirmation::read)? {
        let row = row?;
        note(row.name(), row.is_good);
    }
    for row in connection.prepare(tofu::BINDINGS)?.query_map([], BindingRow::read)? {
        let row = row?;
        note(row.name(), row.is_good);
    }
    if format::of(connection)? >= format::CHECKSUM_FORMAT {
        let mut statement =
            connection.prepare("SELECT number, time, fingerprint, bytes, sum FROM set_aside")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let (fingerprint, bytes): (Option<Vec<u8>>, Vec<u8>) = (row.get(2)?, row.get(3)?);
            let fingerprint = fingerprint.as_deref().unwrap_or_default();
            let sum = sums::of_set_aside(row.get(1)?, fingerprint, &bytes);
            note(format!("bytes set aside, number {}", row.get::<_, i64>(0)?), sum == row.get(4)?);
        }
    }
    Ok(())
}

/// Reports rows of `cert` that do not match their checksums.
fn damaged_rows(
    connection: &Connection,
    part: Share,
    report: &mut CheckReport,
) -> rusqlite::Result<()> {
    let sql = format!("SELECT {} FROM cert WHERE {}", columns!(), part.condition("id"));
    for row in connection.prepare(&sql)?.query_map([], RawRow::read)? {
        let row = row?;
        if row.is_sealed() == Some(false) {
            report.add(certificate_name(row.id, row.fingerprint()), ROW_SUM, Remedy::Rebuild);
        }
    }
    Ok(())
}

/// Reports certificates that are there twice.
fn duplicates(connection: &Connection, report: &mut CheckReport) -> rusqlite::Result<()> {
    for ids in damage::duplicates(connection)? {
        let name = certificate_name(ids[0], row::fingerprint(connection, ids[0])?);
        let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
        report.add(
            name,
            format!("is there twice, as numbers {}", ids.join(" and ")),
            Remedy::Rebuild,
        );
    }
    Ok(())
}

/// Reads entries on all cores.
fn read_entries(
    connection: &Connection,
    entries: Vec<Entry>,
    depth: Depth,
    views: &[View],
    evidence: &Evidence,
) -> rusqlite::Result<Vec<Read>> {
    let mut parsed: Vec<Parsed> = entries
        .into_par_iter()
        .map(|entry| {
            let integrity = evidence.judge(&entry.blob, entry.row.as_ref());
            let cert = match integrity {
                Integrity::Bytes | Integrity::Stale => Err(integrity.finding().to_owned()),
                _ => Cert::parse_in_place(&entry.blob.bytes).map_err(|reason| reason.to_string()),
            };
            let cert = cert.and_then(|cert| {
                if cert.as_bytes() == entry.blob.bytes {
                    Ok(cert)
                } else {
                    Err("its bytes are not in canonical form".to_owned())
                }
            });
            Parsed { entry, integrity, cert }
        })
        .collect();
    for Parsed { entry, cert: read, .. } in &mut parsed {
        // The rest of a deleted certificate has none.
        if !evidence.is_deleted(entry.blob.id)
            && let Ok(cert) = &read
            && !evidence.confirms(connection, "digest", entry.blob.id, &cert.sks_digest())?
        {
            *read = Err(blob::UNCONFIRMED.to_owned());
        }
    }
    let good: Vec<&Cert> = parsed.iter().filter_map(|parsed| parsed.cert.as_ref().ok()).collect();
    let mut computed = match depth {
        Depth::Signatures => verdicts(&good, Verification::Full),
        Depth::Structure | Depth::Checksums => Vec::new(),
    }
    .into_iter();
    let work: Vec<_> = parsed
        .into_iter()
        .map(|parsed| {
            let fresh = if parsed.cert.is_ok() { computed.next() } else { None };
            let blob = &parsed.entry.blob;
            let is_row_unsealed =
                parsed.entry.row.as_ref().is_some_and(|row| row.is_sealed().is_none());
            let lacks_checksum = parsed.integrity == Integrity::Unsealed
                && !blob::is_awaited(connection, blob)?
                || is_row_unsealed && !blob::is_row_awaited(connection, blob.id)?;
            Ok((parsed, lacks_checksum, fresh))
        })
        .collect::<rusqlite::Result<_>>()?;
    Ok(work
        .into_par_iter()
        .map(|(parsed, lacks_checksum, fresh)| {
            let is_deleted = evidence.is_deleted(parsed.entry.blob.id);
            read_entry(parsed, (lacks_checksum, is_deleted), fresh, views)
        })
        .collect())
}

fn read_entry(
    Parsed { entry, integrity, cert }: Parsed,
    (lacks_checksum, is_deleted): (bool, bool),
    fresh: Option<Vec<Verdict>>,
    views: &[View],
) -> Read {
    let summary = entry.row.as_ref().and_then(RawRow::summary);
    let mut read = Read {
        id: entry.blob.id,
        name: certificate_name(entry.blob.id, summary.as_ref().map(Summary::fingerprint)),
        is_good: false,
        terms: Terms::default(),
        digests: Vec::new(),
        problems: Vec::new(),
        computed: 0,
        unasked: None,
    };
    let cert = match cert {
        Ok(cert) => cert,
        Err(what) => {
            read.problems.push((what, Remedy::Copy));
            read.terms.text = summary.as_ref().map(search_text).unwrap_or_default();
            return read;
        }
    };
    read.name = format!("certificate {}", cert.fingerprint());
    read.is_good = true;
    if lacks_checksum {
        read.problems.push(("it has no checksum".into(), Remedy::Rebuild));
    }
    if is_deleted {
        let what = "it was deleted, and its bytes are still there: the disk has lost a write";
        read.problems.push((what.into(), Remedy::Rebuild));
    }
    if integrity == Integrity::Row {
        let what = "its row in table cert is older than its last change: the disk has lost a write";
        read.problems.push((what.into(), Remedy::Rebuild));
    }
    let is_row_damaged = match entry.row.as_ref().map(RawRow::is_sealed) {
        Some(Some(is_good)) => !is_good,
        _ => false,
    };
    if is_row_damaged {
        read.problems.push((ROW_SUM.into(), Remedy::Rebuild));
    }
    if integrity == Integrity::Verdicts {
        read.problems.push(("its verdicts do not match their checksum".into(), Remedy::Rebuild));
    }
    let stored = entry.blob.verdicts_on(&cert);
    if stored.is_none() {
        read.problems.push(("its verdicts are damaged".into(), Remedy::Rebuild));
    }
    let stored = stored.unwrap_or_default();
    if let Some(fresh) = fresh {
        read.computed = fresh.iter().filter(|&&verdict| verdict == Verdict::Good).count() as u64;
        // A deferred verdict is not wrong, and a verifier of another version may judge differently.
        // Which other keys were tried depends on other certificates and on limits, so a verifier of
        // this one alone computes less.
        let differs = stored.iter().zip(&fresh).any(|(old, new)| match old {
            Verdict::Unchecked => false,
            Verdict::Certified | Verdict::Foreign => {
                !matches!(new, Verdict::Foreign | Verdict::Other)
            }
            old => old != new,
        });
        let verifier = entry.row.as_ref().map(|row| row.verifier);
        if differs && verifier == Some(VERIFIER.into()) {
            read.problems
                .push(("its verdicts do not match its signatures".into(), Remedy::Rebuild));
        }
    }
    match summary.filter(|summary| summary.fingerprint() == cert.fingerprint()) {
        None if is_row_damaged => {}
        None => read
            .problems
            .push(("its row in table cert is damaged or missing".into(), Remedy::Rebuild)),
        // The rules of another verifier may be others.
        Some(_) if entry.row.as_ref().is_none_or(|row| row.verifier != VERIFIER.into()) => {}
        Some(summary) => {
            // A summary is the same at any time within its span. Which subkeys have signed the
            // primary key is taken from it, as verdicts are from the store.
            let again = summary.at_another_time(&cert, &stored, summary.holds.from);
            if !again.revokers.is_empty() {
                read.unasked = Some(Box::new((cert.clone(), again, summary)));
            } else if again != summary {
                read.problems
                    .push(("its summary does not match its packets".into(), Remedy::Rebuild));
            }
        }
    }
    let summary = Summary::glance(talaria_cert::Rules::Standard, &cert, &stored, 0);
    read.terms = Terms::of(&cert, &stored, &summary);
    read.digests = digests(&cert, &stored, views);
    read
}

/// Adds the texts of a certificate to the indexes with which those of the store are compared.
fn fill_scratch(
    scratch: &Connection,
    indexes: &[TextIndex],
    id: i64,
    text: &str,
) -> rusqlite::Result<()> {
    for index in indexes.iter().filter(|_| !text.is_empty()) {
        let table = index.table();
        scratch
            .prepare_cached(&format!("INSERT INTO {table} (rowid, text) VALUES (?1, ?2)"))?
            .execute((id, index.content(text)))?;
    }
    Ok(())
}

/// Number of the postings of a full-text index, and one digest over all of them.
fn vocabulary(
    connection: &Connection,
    index: TextIndex,
    part: Share,
) -> rusqlite::Result<(u64, u64)> {
    let table = index.table();
    connection.execute_batch(&format!(
        "CREATE VIRTUAL TABLE IF NOT EXISTS temp.{table}_instance \
         USING fts5vocab(main, {table}, instance)"
    ))?;
    let mut sum = (0, 0);
    {
        let mut statement =
            connection.prepare(&format!("SELECT term, doc FROM temp.{table}_instance"))?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let doc: i64 = row.get(1)?;
            if !part.has(doc) {
                continue;
            }
            let term = row.get_ref(0)?.as_bytes().unwrap_or_default().to_vec();
            // A sum does not depend on the order.
            let handle = talaria_cert::Handle::of_bytes(&[&term, &doc.to_be_bytes()]);
            sum = (sum.0 + 1, handle.0.wrapping_add(sum.1));
        }
    }
    connection.execute_batch(&format!("DROP TABLE temp.{table}_instance"))?;
    Ok(sum)
}
