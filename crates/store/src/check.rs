//! Checking a store: reading all data and comparing derived data with the certificates. Also
//! rebuilding the derived data.

use std::collections::BTreeMap;
use std::path::Path;

use rayon::prelude::*;
use rusqlite::Connection;
use talaria_cert::{
    Cert, Fingerprint, Summary, Terms, VERIFIER, Verdict, Verification, View, verdicts,
};

use crate::build::failed;
use crate::derive::{Derived, Failure};
use crate::ingest::digests;
use crate::remake::{Verdicts, remake};
use crate::revoker;
use crate::schema::{self, TextIndex};
use crate::store::RawRow;
use crate::{Store, StoreError, sums, trust};

/// Number of certificates that are checked at a time.
const BATCH: i64 = 2000;

/// Memory for sorting index rows before they go to disk: 256 MiB.
const MEMORY_BYTES: usize = 256 << 20;

/// Maximum number of findings that are listed. Further findings are only counted.
const FINDINGS_MAX: usize = 1000;

/// Whether a check verifies signatures again.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Depth {
    /// Verify all self-signatures and compare the results with the stored verdicts.
    #[default]
    Signatures,
    /// Trust the stored verdicts.
    Structure,
}

/// A problem found by a check.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Finding {
    /// The affected object: a certificate, a row, a table.
    pub object: String,
    /// Description of the problem.
    pub what: String,
    /// Whether `rebuild` repairs it.
    pub derived: bool,
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
    fn add(&mut self, object: impl Into<String>, what: impl Into<String>, derived: bool) {
        self.count += 1;
        if self.findings.len() < FINDINGS_MAX {
            let finding = Finding { object: object.into(), what: what.into(), derived };
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
    id: i64,
    verdicts: Vec<u8>,
    bytes: Vec<u8>,
    row: Option<RawRow>,
    /// The version of the verifier that made the verdicts.
    verifier: u8,
}

/// The result of reading an entry.
struct Read {
    id: i64,
    name: String,
    /// Whether the certificate could be read.
    readable: bool,
    terms: Terms,
    digests: Vec<(View, [u8; 16])>,
    problems: Vec<(String, bool)>,
    computed: u64,
    /// For a certificate that names revokers: the certificate, its summary without the revokers'
    /// revocations, and the stored summary.
    unasked: Option<Box<(Cert, Summary, Summary)>>,
}

impl Store {
    /// Reads all data, recomputes all derived data, and compares. `progress` gets the number of
    /// certificates checked so far.
    ///
    /// # Errors
    ///
    /// When the store cannot be read at all. Problems inside the store are in the [`CheckReport`].
    pub fn check(
        &self,
        depth: Depth,
        mut progress: impl FnMut(u64),
    ) -> Result<CheckReport, StoreError> {
        let mut report = CheckReport::default();
        let mut run = || -> Result<(), Failure> {
            // A transaction makes the check see one state of the store, whatever other processes
            // write.
            self.connection.execute_batch("BEGIN")?;
            structure(&self.connection, &mut report)?;
            definitions(&self.connection, &mut report)?;
            rows(&self.connection, &mut report)?;
            self.certificates(depth, &mut report, &mut progress)
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
                report.add("the file", error.to_string(), false);
                Ok(report)
            }
            Err(failure) => Err(failed(&self.path, failure)),
        }
    }

    fn certificates(
        &self,
        depth: Depth,
        report: &mut CheckReport,
        progress: &mut impl FnMut(u64),
    ) -> Result<(), Failure> {
        let folder = std::env::temp_dir();
        let mut derived = Derived::new(&folder, MEMORY_BYTES);
        let texts = Connection::open("")?;
        texts.execute_batch("PRAGMA journal_mode = OFF; BEGIN")?;
        let mut indexes = Vec::new();
        for index in TextIndex::ALL {
            if index.exists(&self.connection)? {
                index.create(&texts)?;
                indexes.push(index);
            }
        }
        let views = schema::views(&self.connection)?;
        let mut after = 0;
        loop {
            let entries = self.entries(after)?;
            let Some(last) = entries.last() else { break };
            after = last.id;
            for mut read in read_entries(entries, depth, &views) {
                if let Some(unasked) = read.unasked.take() {
                    let (cert, mut again, stored) = *unasked;
                    revoker::ask(&self.connection, &cert, &mut again, stored.holds.from)?;
                    if again != stored {
                        let what = "its summary does not match its packets and revokers";
                        report.add(&read.name, what, true);
                    }
                }
                for (what, is_derived) in read.problems {
                    report.add(&read.name, what, is_derived);
                }
                report.certs += 1;
                report.signatures += read.computed;
                if read.readable {
                    derived.add(read.id, &read.terms, &read.digests)?;
                }
                for index in &indexes {
                    if !read.terms.text.is_empty() {
                        let table = index.table();
                        texts
                            .prepare_cached(&format!(
                                "INSERT INTO {table} (rowid, text) VALUES (?1, ?2)"
                            ))?
                            .execute((read.id, &read.terms.text))?;
                    }
                }
            }
            progress(report.certs);
        }
        derived.compare(&self.connection, |table, id| {
            report.add(
                format!("table {table}"),
                format!("does not match certificate number {id}"),
                true,
            );
        })?;
        for id in trust::misfits(&self.connection)? {
            let what = format!("does not match certificate number {id}");
            report.add("table trust", what, true);
        }
        let orphans: i64 = self.connection.query_row(
            "SELECT count(*) FROM cert WHERE NOT EXISTS (SELECT 1 FROM blob WHERE blob.id = cert.id)",
            [],
            |row| row.get(0),
        )?;
        if orphans > 0 {
            report.add("table cert", format!("{orphans} rows without a certificate"), true);
        }
        for index in indexes {
            if vocabulary(&self.connection, index)? != vocabulary(&texts, index)? {
                report.add(
                    format!("index {}", index.table()),
                    "does not match the certificates",
                    true,
                );
            }
        }
        Ok(())
    }

    fn entries(&self, after: i64) -> rusqlite::Result<Vec<Entry>> {
        self.connection
            .prepare_cached(
                "SELECT blob.id, blob.verdicts, blob.bytes, cert.fingerprint, cert.change, \
                 cert.summary, coalesce(cert.verifier, 0) FROM blob LEFT JOIN cert ON cert.id = blob.id \
                 WHERE blob.id > ?1 ORDER BY blob.id LIMIT ?2",
            )?
            .query_map((after, BATCH), |row| {
                let id = row.get(0)?;
                let fingerprint: Option<Vec<u8>> = row.get(3)?;
                let raw = match fingerprint {
                    Some(fingerprint) => {
                        Some(RawRow { id, fingerprint, change: row.get(4)?, summary: row.get(5)? })
                    }
                    None => None,
                };
                let (verdicts, bytes, verifier) = (row.get(1)?, row.get(2)?, row.get(6)?);
                Ok(Entry { id, verdicts, bytes, row: raw, verifier })
            })?
            .collect()
    }

    /// Rebuilds all derived tables from the certificates, in one transaction. Certificates that cannot
    /// be read are removed and reported; the finding has their bytes.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] if no certificates can be read, or any error of a write. The store
    /// stays unchanged.
    pub fn rebuild(&mut self, now: u32) -> Result<CheckReport, StoreError> {
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
        let (certs, signatures) =
            remake(connection, now, folder, Verdicts::Computed, |id, reason| {
                let object = format!("certificate number {id}");
                report.add(object, format!("{reason}; removed"), false);
                schema::retire(connection, id)
            })?;
        (report.certs, report.signatures) = (certs, signatures);
        trust::renew(connection, now)?;
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
            report.add("the file", line, false);
        }
    }
    Ok(())
}

/// Compares the definitions of tables and indexes with those of a new store.
fn definitions(connection: &Connection, report: &mut CheckReport) -> rusqlite::Result<()> {
    let mut indexes = Vec::new();
    for index in TextIndex::ALL {
        if index.exists(connection)? {
            indexes.push(index);
        }
    }
    let fresh = Connection::open_in_memory()?;
    schema::create(&fresh, &indexes)?;
    let list = |connection: &Connection| -> rusqlite::Result<BTreeMap<String, String>> {
        connection
            .prepare(
                "SELECT type || ' ' || name, tbl_name || ' ' || ifnull(sql, '') FROM sqlite_schema",
            )?
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect()
    };
    let (mut ours, expected) = (list(connection)?, list(&fresh)?);
    for (name, definition) in expected {
        match ours.remove(&name) {
            Some(found) if found == definition => {}
            Some(_) => report.add(name, "its definition differs from that of this format", false),
            None => report.add(name, "is missing", false),
        }
    }
    // SQLite's own tables do no harm, and neither do objects that a user has added.
    Ok(())
}

/// Checks rows that have their own checksum, and their relations to each other.
fn rows(connection: &Connection, report: &mut CheckReport) -> rusqlite::Result<()> {
    let name: Option<String> = connection
        .query_row("SELECT value FROM meta WHERE name = 'store'", [], |row| row.get(0))
        .ok();
    if !name.is_some_and(|name| name.len() == 32 && name.bytes().all(|b| b.is_ascii_hexdigit())) {
        report.add("table meta", "the name of the store is damaged", false);
    }
    let mut statement = connection.prepare("SELECT number, time, cert, kind, sum FROM change")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let number: i64 = row.get(0)?;
        if sums::of_change(number, row.get(1)?, row.get(2)?, row.get(3)?) != row.get::<_, i64>(4)? {
            report.add(format!("change {number}"), "its checksum does not match", false);
        }
    }
    let mut statement =
        connection.prepare("SELECT fingerprint, change, blocked, sum FROM tombstone")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let stored: Vec<u8> = row.get(0)?;
        let sum = sums::of_tombstone(&stored, row.get(1)?, row.get(2)?);
        if sum != row.get::<_, i64>(3)? {
            report.add("a tombstone", "its checksum does not match", false);
        }
    }
    let mut statement = connection.prepare("SELECT fingerprint, value, sum FROM ownertrust")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (stored, value): (Vec<u8>, u8) = (row.get(0)?, row.get(1)?);
        if sums::of(&[&stored, &[value]]) != row.get::<_, i64>(2)? {
            report.add("an ownertrust", "its checksum does not match", false);
        }
    }
    other_rows(connection, report)?;
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
            true,
        );
    }
    Ok(())
}

/// Checks other rows that have their own checksum.
fn other_rows(connection: &Connection, report: &mut CheckReport) -> rusqlite::Result<()> {
    let mut check =
        |table: &str, columns: &str, sum: &dyn Fn(&rusqlite::Row<'_>) -> rusqlite::Result<i64>| {
            let mut statement =
                connection.prepare(&format!("SELECT sum, {columns} FROM {table}"))?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                if sum(row)? != row.get::<_, i64>(0)? {
                    report.add(format!("table {table}"), "a checksum does not match", false);
                }
            }
            rusqlite::Result::Ok(())
        };
    check("peer", "host, port, http_port, view", &|row| {
        let (host, port): (String, u16) = (row.get(1)?, row.get(2)?);
        Ok(sums::of_peer(&host, port, row.get(3)?, row.get(4)?))
    })?;
    check("redaction", "fingerprint, user_id", &|row| {
        let (fingerprint, user_id): (Vec<u8>, Vec<u8>) = (row.get(1)?, row.get(2)?);
        Ok(sums::of(&[&fingerprint, &user_id]))
    })?;
    check("published", "fingerprint, email, time", &|row| {
        let (fingerprint, email): (Vec<u8>, String) = (row.get(1)?, row.get(2)?);
        Ok(sums::of_published(&fingerprint, &email, row.get(3)?))
    })?;
    let columns = "email, fingerprint, user_id, time, policy, effective, conflict";
    check("binding", columns, &|row| {
        let (email, fingerprint, user_id): (Vec<u8>, Vec<u8>, Vec<u8>) =
            (row.get(1)?, row.get(2)?, row.get(3)?);
        let conflict: Option<Vec<u8>> = row.get(7)?;
        Ok(sums::of_binding(
            (&email, &fingerprint, &user_id),
            row.get(4)?,
            (row.get(5)?, row.get(6)?),
            conflict.as_deref().unwrap_or_default(),
        ))
    })
}

/// Reads entries on all cores.
fn read_entries(entries: Vec<Entry>, depth: Depth, views: &[View]) -> Vec<Read> {
    let parsed: Vec<(Entry, Result<Cert, String>)> = entries
        .into_par_iter()
        .map(|entry| {
            let cert = Cert::parse(&entry.bytes).map_err(|reason| reason.to_string());
            let cert = cert.and_then(|cert| {
                if cert.as_bytes() == entry.bytes {
                    Ok(cert)
                } else {
                    Err("its bytes are not in canonical form".to_owned())
                }
            });
            (entry, cert)
        })
        .collect();
    let good: Vec<&Cert> = parsed.iter().filter_map(|(_, cert)| cert.as_ref().ok()).collect();
    let mut computed = match depth {
        Depth::Signatures => verdicts(&good, Verification::Full),
        Depth::Structure => Vec::new(),
    }
    .into_iter();
    let work: Vec<_> = parsed
        .into_iter()
        .map(|(entry, cert)| {
            let fresh = if cert.is_ok() { computed.next() } else { None };
            (entry, cert, fresh)
        })
        .collect();
    work.into_par_iter()
        .map(|(entry, cert, fresh)| read_entry(&entry, cert, fresh, views))
        .collect()
}

fn read_entry(
    entry: &Entry,
    cert: Result<Cert, String>,
    fresh: Option<Vec<Verdict>>,
    views: &[View],
) -> Read {
    let mut read = Read {
        id: entry.id,
        name: format!("certificate number {}", entry.id),
        readable: false,
        terms: Terms::default(),
        digests: Vec::new(),
        problems: Vec::new(),
        computed: 0,
        unasked: None,
    };
    let cert = match cert {
        Ok(cert) => cert,
        Err(what) => {
            read.problems.push((what, false));
            return read;
        }
    };
    read.name = format!("certificate {}", cert.fingerprint());
    read.readable = true;
    let stored: Option<Vec<Verdict>> =
        entry.verdicts.iter().map(|&verdict| Verdict::from_number(verdict)).collect();
    let stored = stored.filter(|stored| stored.len() == cert.signature_count());
    if stored.is_none() {
        read.problems.push(("its verdicts are damaged".into(), true));
    }
    let stored = stored.unwrap_or_default();
    if let Some(fresh) = fresh {
        read.computed = fresh.iter().filter(|&&verdict| verdict == Verdict::Good).count() as u64;
        // A deferred verdict is not wrong, and a verifier of another version may judge differently.
        let differs =
            stored.iter().zip(&fresh).any(|(old, new)| old != new && *old != Verdict::Unchecked);
        if differs && entry.verifier == VERIFIER {
            read.problems.push(("its verdicts do not match its signatures".into(), true));
        }
    }
    let row = entry.row.as_ref().and_then(|row| {
        let (fingerprint, rest) = Fingerprint::from_stored(&row.fingerprint)?;
        let fits = rest.is_empty() && fingerprint == cert.fingerprint();
        let summary = Summary::read(fingerprint, &row.summary)?;
        fits.then_some(summary)
    });
    match row {
        None => read.problems.push(("its row in table cert is damaged or missing".into(), true)),
        Some(summary) => {
            // A summary is the same at any time within its span.
            let again = Summary::evaluate(&cert, &stored, summary.holds.from);
            if !again.revokers.is_empty() {
                read.unasked = Some(Box::new((cert.clone(), again, summary)));
            } else if again != summary {
                read.problems.push(("its summary does not match its packets".into(), true));
            }
        }
    }
    let summary = Summary::evaluate(&cert, &stored, 0);
    read.terms = Terms::of(&cert, &summary);
    read.digests = digests(&cert, &stored, views);
    read
}

/// Number of the postings of a full-text index, and one digest over all of them.
fn vocabulary(connection: &Connection, index: TextIndex) -> rusqlite::Result<(u64, u64)> {
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
            let term = row.get_ref(0)?.as_bytes().unwrap_or_default().to_vec();
            let doc: i64 = row.get(1)?;
            // A sum does not depend on the order.
            let handle = talaria_cert::Handle::of_bytes(&[&term, &doc.to_be_bytes()]);
            sum = (sum.0 + 1, handle.0.wrapping_add(sum.1));
        }
    }
    connection.execute_batch(&format!("DROP TABLE temp.{table}_instance"))?;
    Ok(sum)
}
