//! The only write path for certificates. New certificates are merged with the stored copies
//! (`intake.rs`), and all derived data change in the same transaction.

use std::collections::HashSet;

use rusqlite::Connection;
use talaria_cert::merge::{IngestOutcome, Stored};
use talaria_cert::merge::{Record, bytes_digest, digests};
use talaria_cert::{
    Cert, Earlier, Fingerprint, Handle, Summary, Timestamp, VERIFIER, Verdict, Verification, View,
    key_handles, renewed,
};

use crate::blob::{self, Version};
use crate::change::{self, ChangeKind};
use crate::error::StoreError;
use crate::ledger::Ledger;
use crate::number::CertId;
use crate::row::{self, RawRow};
use crate::schema::{self, POSTINGS, lists};
use crate::store::Store;
use crate::texts::Texts;
use crate::trust::planned::Planned;
use crate::trust::rehearsal::rehearse;
use crate::{find, redaction, revoker, tombstone, trust};

/// An index row that waits to be written.
#[derive(Default)]
pub(crate) struct Rows {
    pub(crate) postings: [Vec<(Handle, i64)>; POSTINGS.len()],
    pub(crate) digests: Vec<(u8, [u8; 16], i64)>,
}

impl Rows {
    pub(crate) fn add(&mut self, id: i64, prepared: &Record) {
        for (rows, list) in self.postings.iter_mut().zip(lists(&prepared.terms)) {
            rows.extend(list.iter().map(|&handle| (handle, id)));
        }
        self.add_digests(id, &prepared.digests);
    }

    /// The key IDs of a certificate, by how it holds the keys.
    fn add_keys(&mut self, id: i64, cert: &Cert, verdicts: &[Verdict]) {
        let keys = POSTINGS.iter().zip(&mut self.postings).filter(|(table, _)| **table == "key");
        for (_, rows) in keys {
            rows.extend(key_handles(cert, verdicts).into_iter().map(|handle| (handle, id)));
        }
    }

    fn add_digests(&mut self, id: i64, digests: &[(View, [u8; 16])]) {
        self.digests.extend(digests.iter().map(|&(view, digest)| (view.number(), digest, id)));
    }

    /// The rows that `prepared` has and `other` does not.
    fn add_difference(&mut self, id: i64, prepared: &Record, other: &Record) {
        let lists = lists(&prepared.terms).into_iter().zip(lists(&other.terms));
        for (rows, (list, others)) in self.postings.iter_mut().zip(lists) {
            let others: HashSet<&Handle> = others.iter().collect();
            rows.extend(list.iter().filter(|h| !others.contains(h)).map(|&handle| (handle, id)));
        }
        for entry in prepared.digests.iter().filter(|entry| !other.digests.contains(entry)) {
            self.digests.push((entry.0.number(), entry.1, id));
        }
    }

    /// Sorts rows in the order of the tables, so that a batch writes each page once.
    pub(crate) fn sort(&mut self) {
        // The tables store handles as signed numbers.
        let key = |row: &(Handle, i64)| (row.0.0.cast_signed(), row.1);
        self.postings.iter_mut().for_each(|rows| rows.sort_unstable_by_key(key));
        self.digests.sort_unstable();
    }

    fn write(
        mut self,
        connection: &Connection,
        posting: impl Fn(&str) -> String,
        digest: &str,
    ) -> rusqlite::Result<()> {
        self.sort();
        for (table, rows) in POSTINGS.iter().zip(&self.postings) {
            if rows.is_empty() || !schema::keeps(connection, table)? {
                continue;
            }
            let mut statement = connection.prepare_cached(&posting(table))?;
            for (handle, id) in rows {
                statement.execute((handle.0.cast_signed(), id))?;
            }
        }
        let mut statement = connection.prepare_cached(digest)?;
        for (view, digest, id) in &self.digests {
            statement.execute((view, digest, id))?;
        }
        Ok(())
    }

    pub(crate) fn insert(self, connection: &Connection) -> rusqlite::Result<()> {
        self.write(
            connection,
            |table| format!("INSERT OR IGNORE INTO {table} VALUES (?1, ?2)"),
            "INSERT OR IGNORE INTO digest VALUES (?1, ?2, ?3)",
        )
    }

    pub(crate) fn delete(self, connection: &Connection) -> rusqlite::Result<()> {
        self.write(
            connection,
            |table| format!("DELETE FROM {table} WHERE handle = ?1 AND cert = ?2"),
            "DELETE FROM digest WHERE view = ?1 AND digest = ?2 AND cert = ?3",
        )
    }
}

impl Store {
    /// Merges `certs` into the store at `now` and returns one outcome per certificate,
    /// in input order.
    ///
    /// Certificates, verdicts, indexes and log change together or not at all. Each call syncs once,
    /// so pass certificates in batches. Signatures that are new to the store are verified before
    /// the store is locked, on all cores.
    ///
    /// # Errors
    ///
    /// [`StoreError::ReadOnly`], [`StoreError::Full`], [`StoreError::Busy`],
    /// [`StoreError::Damaged`]; the store stays unchanged.
    pub fn ingest(
        &mut self,
        certs: Vec<Cert>,
        verification: Verification,
        now: Timestamp,
    ) -> Result<Vec<IngestOutcome>, StoreError> {
        let ingested = self.ingest_counted(certs, verification, now)?;
        Ok(ingested.into_iter().map(|ingested| ingested.outcome).collect())
    }

    /// Computes the signatures by other keys that writing and deleting certificates needs, before
    /// the store is locked, and adds them to a ledger. Certificates without a number are new.
    pub(crate) fn rehearse<'p>(
        &self,
        planned: impl Iterator<Item = (Option<i64>, &'p Cert, &'p Summary)>,
        gone: &[i64],
        now: u32,
        mut ledger: Ledger,
    ) -> Result<Ledger, StoreError> {
        // Within a transaction, the store is locked already.
        if self.is_in_transaction {
            return Ok(ledger);
        }
        let planned: Vec<(Option<i64>, &Cert, &Summary)> = planned.collect();
        self.run(|connection| {
            let names_revokers = planned.iter().any(|(.., summary)| !summary.revokers.is_empty());
            if !names_revokers && !revoker::are_any(connection)? && !trust::is_kept(connection)? {
                return Ok(());
            }
            let mut planned: Vec<_> =
                planned.iter().map(|&(id, cert, summary)| (id, cert, summary.clone())).collect();
            let followers = revoker::rehearse(connection, &mut planned, now, &mut ledger)?;
            let followers =
                followers.iter().map(|(id, cert, summary)| (*id, Some((cert, summary))));
            let certs = planned.iter().zip(1..).map(|((id, cert, summary), number): (_, i64)| {
                (id.unwrap_or(-number), Some((*cert, summary)))
            });
            let gone = gone.iter().map(|&id| (id, None));
            let certs = followers.chain(gone).chain(certs).collect();
            let planned = Planned { certs, ..Planned::default() };
            rehearse(connection, planned, now, &mut ledger)
        })?;
        Ok(ledger)
    }

    /// Verifies self-signatures that an ingest or build left unchecked, and those that an older
    /// verifier may have judged differently, in batches of `batch` certificates. Returns the number
    /// of completed certificates.
    ///
    /// A certificate whose digests change as a result gets a row in the change log.
    ///
    /// # Errors
    ///
    /// As [`Self::ingest`].
    pub fn verify_unchecked(&mut self, batch: u32, now: Timestamp) -> Result<u64, StoreError> {
        let now = now.seconds();
        self.writable()?;
        let (mut after, mut completed) = (0, 0);
        loop {
            let ids: Vec<(i64, i64, u8)> = self.run(|connection| {
                // The lowest bit of the second byte of a summary says whether all signatures were
                // checked.
                connection
                    .prepare_cached(
                        "SELECT id, change, verifier FROM cert WHERE id > ?1 \
                         AND (substr(summary, 2, 1) IN (x'00', x'02', x'04', x'06') OR verifier < ?3) \
                         ORDER BY id LIMIT ?2",
                    )?
                    .query_map((after, batch, VERIFIER), |row| {
                        Ok((row.get(0)?, row.get(1)?, row.get(2)?))
                    })?
                    .collect()
            })?;
            let Some(&(last, ..)) = ids.last() else { return Ok(completed) };
            after = last;
            let mut found = Vec::with_capacity(ids.len());
            for (id, change, verifier) in ids {
                match self.stored(CertId::new(id)) {
                    Ok(stored) => found.extend(stored.map(|stored| (id, change, verifier, stored))),
                    // A check reports it.
                    Err(StoreError::DamagedCert { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
            let earlier: Vec<_> = found
                .iter()
                .map(|(_, _, verifier, Stored { cert, verdicts })| {
                    (cert, Earlier { verdicts, verifier: *verifier })
                })
                .collect();
            let checked = renewed(&earlier, Verification::Full);
            completed += found.len() as u64;
            let evaluated: Vec<Summary> = found
                .iter()
                .zip(&checked)
                .map(|((.., stored), verdicts)| Summary::evaluate(&stored.cert, verdicts, now))
                .collect();
            let planned = found.iter().zip(&evaluated);
            let planned =
                planned.map(|((id, .., stored), summary)| (Some(*id), &stored.cert, summary));
            let ledger = self.rehearse(planned, &[], now, Ledger::default())?;
            self.transaction(|connection, mut last| {
                let views = schema::views(connection)?;
                let (mut gone, mut fresh) = (Rows::default(), Rows::default());
                let mut written = Vec::with_capacity(found.len());
                let checked = checked.into_iter().zip(evaluated);
                for ((id, change, _, stored), (verdicts, mut evaluated)) in
                    found.iter().zip(checked)
                {
                    revoker::ask(connection, &stored.cert, &mut evaluated, now, &ledger)?;
                    // The content of a view depends on verdicts.
                    let before = digests(&stored.cert, &stored.verdicts, &views);
                    let after = digests(&stored.cert, &verdicts, &views);
                    let number = if before == after { *change } else { last + 1 };
                    // If another process has changed the certificate meanwhile, its results stay.
                    let Some(row) = row::get(connection, *id)?.filter(|row| row.change == *change)
                    else {
                        continue;
                    };
                    if number != *change {
                        last = number;
                        change::append(connection, last, now, *id, ChangeKind::Updated)?;
                    }
                    let is_same = verdicts == stored.verdicts;
                    if !is_same {
                        let digest = &bytes_digest(stored.cert.as_bytes());
                        let version = Version { change: number, digest };
                        blob::update_verdicts(connection, *id, &numbers(&verdicts), version)?;
                    }
                    let former = row.former.filter(|_| is_same);
                    let row = RawRow::new(*id, stored.cert.fingerprint(), number, &evaluated);
                    RawRow { former, ..row }.write(connection)?;
                    gone.add_digests(*id, &before);
                    fresh.add_digests(*id, &after);
                    gone.add_keys(*id, &stored.cert, &stored.verdicts);
                    fresh.add_keys(*id, &stored.cert, &verdicts);
                    written.push(*id);
                }
                gone.delete(connection)?;
                fresh.insert(connection)?;
                trust::follow(connection, written, now, &ledger)
            })?;
        }
    }
}

/// The stored form of verdicts: one byte each.
pub(crate) fn numbers(verdicts: &[Verdict]) -> Vec<u8> {
    verdicts.iter().map(|&verdict| verdict as u8).collect()
}

/// The changes of one transaction.
pub(crate) struct BatchWriter<'a> {
    connection: &'a Connection,
    last_change: i64,
    last_id: i64,
    now: u32,
    views: &'a [View],
    ledger: &'a Ledger,
    /// Whether the store has any tombstones or redactions.
    guarded: bool,
    insert: Rows,
    delete: Rows,
    texts: Texts,
    /// Numbers of the certificates that were written.
    written: Vec<i64>,
    /// Fingerprints of the written certificates that were not in the store before.
    arrived: Vec<Fingerprint>,
}

impl<'a> BatchWriter<'a> {
    pub(crate) fn new(
        connection: &'a Connection,
        last_change: i64,
        now: u32,
        views: &'a [View],
        ledger: &'a Ledger,
    ) -> rusqlite::Result<Self> {
        Ok(Self {
            ledger,
            connection,
            last_change,
            last_id: blob::last_id(connection)?,
            now,
            views,
            guarded: connection
                .prepare_cached("SELECT 1 FROM tombstone UNION ALL SELECT 1 FROM redaction")?
                .exists([])?,
            insert: Rows::default(),
            delete: Rows::default(),
            texts: Texts::default(),
            written: Vec::new(),
            arrived: Vec::new(),
        })
    }

    /// The number of a certificate, and its last change.
    pub(crate) fn current(&self, fingerprint: Fingerprint) -> rusqlite::Result<Option<(i64, i64)>> {
        let found = find::row(self.connection, fingerprint)?;
        Ok(found.map(|found| (found.id, found.change)))
    }

    /// Whether the certificate or a part of it was blocked or redacted after it was planned.
    pub(crate) fn is_unwanted(&self, cert: &Cert, is_here: bool) -> rusqlite::Result<bool> {
        if !self.guarded {
            return Ok(false);
        }
        let blocked = tombstone::is_blocked(self.connection, cert.fingerprint())?;
        Ok(blocked && !is_here || redaction::of(self.connection, cert)?.touches(cert))
    }

    fn log(&mut self, id: i64, kind: ChangeKind) -> rusqlite::Result<()> {
        self.last_change += 1;
        change::append(self.connection, self.last_change, self.now, id, kind)
    }

    pub(crate) fn insert(&mut self, prepared: &Record) -> rusqlite::Result<()> {
        self.last_id += 1;
        let id = self.last_id;
        self.written.push(id);
        self.arrived.push(prepared.cert.fingerprint());
        self.log(id, ChangeKind::New)?;
        tombstone::forget_tombstone(self.connection, prepared.cert.fingerprint())?;
        let row = self.row(id, self.last_change, prepared)?;
        self.texts.note_size(row.summary.len());
        row.write(self.connection)?;
        // Written at once, so that a second copy within this batch is found.
        let handle = Handle::of_fingerprint(prepared.cert.fingerprint()).0.cast_signed();
        self.connection
            .prepare_cached("INSERT INTO fingerprint VALUES (?1, ?2)")?
            .execute((handle, id))?;
        let (verdicts, bytes) = (numbers(&prepared.verdicts), prepared.cert.as_bytes());
        let version = Version { change: self.last_change, digest: &prepared.bytes_digest };
        blob::insert(self.connection, id, &verdicts, bytes, version)?;
        self.insert.add(id, prepared);
        self.texts.note_new(id);
        Ok(())
    }

    /// Overwrites the stored copy, whose last change is `change`. If only verdicts were recomputed
    /// and stayed the same, no row is added to the log.
    pub(crate) fn update(
        &mut self,
        id: i64,
        change: i64,
        prepared: &Record,
        before: &Stored,
    ) -> rusqlite::Result<()> {
        self.written.push(id);
        let is_same = before.cert == prepared.cert && before.verdicts == prepared.verdicts;
        let change = if is_same {
            change
        } else {
            self.log(id, ChangeKind::Updated)?;
            self.last_change
        };
        let mut row = self.row(id, change, prepared)?;
        self.texts.note_size(row.summary.len());
        if is_same {
            row.former = row::get(self.connection, id)?.and_then(|before| before.former);
            return row.write(self.connection);
        }
        row.write(self.connection)?;
        let (verdicts, bytes) = (numbers(&prepared.verdicts), prepared.cert.as_bytes());
        let version = Version { change, digest: &prepared.bytes_digest };
        blob::update(self.connection, id, &verdicts, bytes, version)?;
        let before =
            Record::new(before.cert.clone(), before.verdicts.clone(), self.now.into(), self.views);
        self.delete.add_difference(id, &before, prepared);
        self.insert.add_difference(id, prepared, &before);
        if before.terms.text != prepared.terms.text {
            self.texts.remove(id, before.terms.text);
            self.texts.add(id, prepared.terms.text.clone());
        }
        Ok(())
    }

    /// The row of a certificate, with revocations by designated revokers in the store.
    fn row(&self, id: i64, change: i64, prepared: &Record) -> rusqlite::Result<RawRow> {
        let fingerprint = prepared.cert.fingerprint();
        if prepared.summary.revokers.is_empty() {
            return Ok(RawRow::new(id, fingerprint, change, &prepared.summary));
        }
        let mut summary = prepared.summary.clone();
        if !revoker::ask(self.connection, &prepared.cert, &mut summary, self.now, self.ledger)? {
            // A revoker has arrived since it was prepared.
            for by in summary.revokers.iter().flat_map(|named| named.revoker.fingerprints()) {
                revoker::leave_for_later(self.connection, by)?;
            }
        }
        Ok(RawRow::new(id, fingerprint, change, &summary))
    }

    pub(crate) fn finish(self) -> rusqlite::Result<()> {
        let Self { connection, now, mut written, mut last_change, ledger, .. } = self;
        self.delete.delete(connection)?;
        self.insert.insert(connection)?;
        self.texts.write(connection)?;
        let arrived = self.arrived;
        let turned = revoker::follow(connection, arrived, &written, &mut last_change, now, ledger)?;
        written.extend(turned);
        trust::follow(connection, written, now, ledger)
    }
}
