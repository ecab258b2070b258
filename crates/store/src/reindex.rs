//! Rebuilding the derived data of a store in use, in transactions of a few hundredths of a second.
//!
//! 1. The verdicts, checksums and rows of certificates are computed again, in the order of their
//!    numbers. The place is recorded, so that a reindex that was ended continues there without
//!    verifying the signatures before it again.
//! 2. The index rows of all certificates are sorted outside of the store and compared with the
//!    tables. What is right for a row that differs is decided under the lock, from the certificate
//!    as it is then.
//! 3. Each full-text index is filled beside the old one, and takes its place at the end. Every
//!    writer changes both.
//!
//! Each transaction leaves a store that any program can use. [`Store::rebuild`] does the same in
//! one transaction, also if the tables themselves are damaged.

use std::collections::{HashMap, HashSet};
use std::io;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rayon::prelude::*;
use rusqlite::Connection;
use talaria_cert::merge::Record;
use talaria_cert::{
    Cert, Reason, Summary, Timestamp, VERIFIER, Verdict, Verification, View, search_text, verdicts,
};
use talaria_disk::folder_of;

use crate::blob::{self, Blob, Integrity, Share, Version};
use crate::change::{self, ChangeKind};
use crate::check::{CheckReport, Remedy, certificate_name};
use crate::derive::failed;
use crate::derive::{Derived, Difference, Differences, Failure};
use crate::error::StoreError;
use crate::evidence::{self, Evidence, Seen};
use crate::ingest::{Rows, numbers};
use crate::ledger::Ledger;
use crate::row::{self, ROWS_AFTER, RawRow, columns};
use crate::schema::{self, TextIndex};
use crate::store::Store;
use crate::texts::{self, Texts};
use crate::{damage, meta, revoker, trust};

/// Certificates that are read at a time, and their size, above which none is added.
const PIECE_CERTS: usize = 500;
const PIECE_BYTES: usize = 4 << 20;

/// Index rows that are collected for a transaction.
const PIECE_ROWS: usize = 2000;

/// Certificates that name revokers and are evaluated in a transaction.
const PIECE_NAMING: usize = 50;

/// Blocks of an old full-text index, of some 4 KiB, that are deleted in a transaction.
const PIECE_BLOCKS: u32 = 1000;

/// The time after which a transaction takes on no more work.
const HOLD: Duration = Duration::from_millis(40);

/// The same for a full-text index, which merges segments at the commit: that takes up to some
/// 100 ms more.
const HOLD_TEXT: Duration = Duration::from_millis(5);

/// The time that is left to other writers after each transaction. Those that wait for the lock try
/// at least every 25 ms in the first tenth of a second.
const REST: Duration = Duration::from_millis(30);

/// The interval at which the place is recorded if nothing else is written.
const RECORD_EVERY: Duration = Duration::from_secs(2);

/// The time for which a recorded place counts: what was damaged since is found if the certificates
/// are verified again.
const PLACE_SECONDS_MAX: u32 = 86_400;

/// Memory for sorting index rows before they go to disk: 64 MiB.
const MEMORY_BYTES: usize = 64 << 20;

/// The entry of `meta` with the place that a reindex has reached.
const REINDEXED: &str = "reindexed";

/// The steps of [`Store::reindex`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ReindexStep {
    /// Verifying signatures, and writing verdicts and rows of certificates.
    Certificates,
    /// Comparing and correcting index rows. The progress is in rows that differ.
    Rows,
    /// Filling a full-text index.
    Text(TextIndex),
}

/// The progress of [`Store::reindex`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ReindexProgress {
    /// The current step.
    pub step: ReindexStep,
    /// What was done of the step.
    pub done: u64,
    /// The size of the step.
    pub total: u64,
}

impl Store {
    /// Rebuilds all derived data from the certificates, in short transactions, while other programs
    /// read and write. Another writer waits for at most some 100 ms. Only a web of trust is
    /// computed in one transaction.
    ///
    /// `progress` is called after each piece. If it breaks off, or the process ends, the store can
    /// be used as it is, and a later call within a day continues. Returns `None` if `progress`
    /// broke off.
    ///
    /// A certificate whose bytes are damaged is reported, and keeps its bytes and its rows.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] if a table cannot be read; any error of a write.
    pub fn reindex(
        &mut self,
        now: Timestamp,
        mut progress: impl FnMut(ReindexProgress) -> ControlFlow<()>,
    ) -> Result<Option<CheckReport>, StoreError> {
        let path = self.path.clone();
        let mut reindex = Reindex {
            folder: folder_of(&path).to_owned(),
            evidence: Arc::new(self.run(Evidence::gather)?),
            store: self,
            now: now.seconds(),
            report: CheckReport::default(),
            wrote: None,
            progress: &mut progress,
        };
        match reindex.run() {
            Ok(()) => Ok(Some(reindex.report)),
            Err(Ended::BrokenOff) => Ok(None),
            Err(Ended::Failed(error)) => Err(error),
            Err(Ended::Unsorted(failure)) => Err(failed(&path, failure)),
        }
    }
}

/// Why a reindex ended before it was complete.
enum Ended {
    BrokenOff,
    Failed(StoreError),
    Unsorted(Failure),
}

impl From<StoreError> for Ended {
    fn from(error: StoreError) -> Self {
        Self::Failed(error)
    }
}

impl From<Failure> for Ended {
    fn from(failure: Failure) -> Self {
        Self::Unsorted(failure)
    }
}

impl From<io::Error> for Ended {
    fn from(error: io::Error) -> Self {
        Self::Unsorted(error.into())
    }
}

/// Rows by the number of their certificate.
type SeenRows = HashMap<i64, RawRow>;

/// A certificate that was read, with the verdicts that are stored if they can be used.
struct Parsed {
    blob: Blob,
    integrity: Integrity,
    cert: Result<Cert, Reason>,
    stored: Option<Vec<Verdict>>,
}

/// A certificate that was read and verified.
struct Computed {
    blob: Blob,
    integrity: Integrity,
    prepared: Result<Record, Reason>,
}

/// A certificate with something to write.
struct Wrong {
    id: i64,
    /// The row when the certificate was read.
    seen: Option<RawRow>,
    prepared: Record,
    action: Action,
    /// The change to record in its row, if it gets no new one.
    change: i64,
    /// The checksum of the row in `blob`, if that names no change.
    former: Option<i64>,
}

/// What is written beside the row of a certificate.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Action {
    Row,
    /// The checksum.
    Seal,
    /// Verdicts that differ.
    Verdicts,
    /// Bytes that are not in canonical form.
    Bytes,
    /// The index rows: the bytes may be damaged, but without a row nobody would find them.
    Unproven,
}

struct Reindex<'s> {
    store: &'s mut Store,
    folder: PathBuf,
    now: u32,
    report: CheckReport,
    /// What was known of the certificates before the reindex began.
    evidence: Arc<Evidence>,
    /// The end of the last transaction.
    wrote: Option<Instant>,
    progress: &'s mut dyn FnMut(ReindexProgress) -> ControlFlow<()>,
}

impl Reindex<'_> {
    fn run(&mut self) -> Result<(), Ended> {
        for index in TextIndex::ALL {
            self.drop_in_pieces(index)?;
        }
        if !self.evidence.has_digests() {
            self.write(|connection, _| evidence::set_remade(connection, true))?;
        }
        self.complete_deletions()?;
        let derived = self.certificates()?;
        self.drop_orphans()?;
        self.join_copies()?;
        let differences = derived.differences(&self.store.connection, &self.folder)?;
        self.rows(differences)?;
        self.revokers()?;
        for index in TextIndex::ALL {
            if self.store.has_index(index)? {
                self.text(index)?;
            }
        }
        if self.store.web().rules()?.is_some() {
            self.store.web_mut().update(true, self.now.into())?;
        }
        // Callers that keep digests in memory read them again after the schema changed.
        self.write(|connection, _| {
            meta::remove(connection, REINDEXED)?;
            evidence::set_remade(connection, false)?;
            connection.execute_batch("CREATE TABLE reindexed (x); DROP TABLE reindexed;")
        })?;
        Ok(())
    }

    /// Runs a transaction. Other writers had time before it.
    fn write<T>(
        &mut self,
        work: impl FnOnce(&Connection, i64) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        if let Some(wrote) = self.wrote {
            std::thread::sleep(REST.saturating_sub(wrote.elapsed()));
        }
        let result = self.store.transaction(work);
        self.wrote = Some(Instant::now());
        result
    }

    fn show(&mut self, step: ReindexStep, done: u64, total: u64) -> Result<(), Ended> {
        // Certificates may have arrived meanwhile.
        match (self.progress)(ReindexProgress { step, done: done.min(total), total }) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Ended::BrokenOff),
        }
    }

    /// The number of the last certificate that an earlier call verified; 0 if it was long ago or by
    /// another verifier.
    fn place(&self) -> Result<i64, StoreError> {
        let place = self.store.run(|connection| meta::get::<String>(connection, REINDEXED))?;
        let place = place.good().unwrap_or_default();
        let mut parts = place.split(' ').map(|part| part.parse::<i64>().unwrap_or(0));
        let mut part = || parts.next().unwrap_or(0);
        let (verifier, id, time) = (part(), part(), part());
        let is_recent = (0..=i64::from(PLACE_SECONDS_MAX)).contains(&(i64::from(self.now) - time));
        Ok(if is_recent && verifier == i64::from(VERIFIER) { id } else { 0 })
    }

    /// Computes the verdicts, checksums and rows of all certificates. Returns their index rows.
    fn certificates(&mut self) -> Result<Derived, Ended> {
        let views = self.store.run(schema::views)?;
        let total = self.store.count()?;
        let mut derived = Derived::new(&self.folder, MEMORY_BYTES);
        let verified = self.place()?;
        // Those that arrive meanwhile are right.
        let end = self.store.run(blob::highest_id)?;
        let (mut after, mut recorded) = (0, Instant::now());
        while after < end {
            let Some((blobs, mut rows)) = self.read(after)? else { break };
            let last = blobs.last().map_or(after, |blob| blob.id);
            let is_verified = last <= verified;
            let mut wrong = Vec::new();
            for mut computed in compute(blobs, is_verified, self.now, &views) {
                let seen = rows.remove(&computed.blob.id);
                computed.integrity = self.evidence.judge(&computed.blob, seen.as_ref());
                let is_good = self.is_good(&computed)?;
                self.note(&computed, is_good)?;
                if let (true, Ok(prepared)) = (is_good, &computed.prepared) {
                    derived.add(computed.blob.id, &prepared.terms, &prepared.digests)?;
                }
                if !is_verified {
                    wrong.extend(self.wrong(computed, seen, is_good)?);
                }
            }
            if !wrong.is_empty() || !is_verified && recorded.elapsed() > RECORD_EVERY {
                self.correct(&wrong, last, &views)?;
                recorded = Instant::now();
            }
            after = last;
            self.show(ReindexStep::Certificates, self.report.certs, total)?;
        }
        if after > verified {
            self.correct(&[], after, &views)?;
        }
        Ok(derived)
    }

    /// The next certificates and their rows, from one snapshot.
    fn read(&self, after: i64) -> Result<Option<(Vec<Blob>, SeenRows)>, StoreError> {
        let store = self.store.snapshot()?;
        store.run(|connection| {
            let size = (PIECE_CERTS, PIECE_BYTES);
            let blobs = blob::batch(connection, after, size, Share::ALL)?;
            let Some(last) = blobs.last() else { return Ok(None) };
            let rows = connection
                .prepare_cached(concat!(
                    "SELECT ",
                    columns!(),
                    " FROM cert WHERE id > ?1 AND id <= ?2"
                ))?
                .query_map((after, last.id), |row| Ok((row.get(0)?, RawRow::read(row)?)))?
                .collect::<rusqlite::Result<_>>()?;
            Ok(Some((blobs, rows)))
        })
    }

    /// Whether the bytes of a certificate are those that were written last, as far as its checksum
    /// and its stored digest can tell.
    fn is_good(&self, computed: &Computed) -> Result<bool, StoreError> {
        match (computed.integrity, &computed.prepared) {
            (_, Err(_)) | (Integrity::Bytes | Integrity::Stale, _) => Ok(false),
            (_, Ok(prepared)) => {
                let (blob, digest) = (&computed.blob, prepared.cert.sks_digest());
                let store = self.store.snapshot()?;
                store.run(|connection| {
                    // Another program may have changed it meanwhile.
                    Ok(self.evidence.confirms(connection, "digest", blob.id, &digest)?
                        || !blob::is_current(connection, blob)?)
                })
            }
        }
    }

    fn note(&mut self, computed: &Computed, is_good: bool) -> Result<(), StoreError> {
        self.report.certs += 1;
        if let Ok(prepared) = &computed.prepared {
            let good = prepared.verdicts.iter().filter(|&&verdict| verdict == Verdict::Good);
            self.report.signatures += good.count() as u64;
        }
        if !is_good {
            let id = computed.blob.id;
            let fingerprint = self.store.run(|c| row::fingerprint(c, id))?;
            let reason = computed.prepared.as_ref().err().map(ToString::to_string);
            let what = reason.unwrap_or_else(|| computed.integrity.finding().to_owned());
            self.report.add(certificate_name(id, fingerprint), what, Remedy::Copy);
        }
        Ok(())
    }

    /// What is to be written about a certificate, if anything is.
    fn wrong(
        &self,
        computed: Computed,
        seen: Option<RawRow>,
        is_good: bool,
    ) -> Result<Option<Wrong>, StoreError> {
        let Computed { blob, integrity, prepared } = computed;
        let Ok(mut prepared) = prepared else { return Ok(None) };
        if !is_good {
            // A digest would confirm bytes that nothing confirms.
            prepared.digests.clear();
        }
        let summary = seen.as_ref().and_then(RawRow::summary);
        let summary = summary.filter(|s| s.fingerprint() == prepared.cert.fingerprint());
        if !is_good && summary.is_some() {
            return Ok(None);
        }
        let action = if !is_good {
            Action::Unproven
        } else if prepared.cert.as_bytes() != blob.bytes {
            Action::Bytes
        } else if numbers(&prepared.verdicts) != blob.verdicts {
            Action::Verdicts
        } else if matches!(integrity, Integrity::Intact | Integrity::Row) {
            Action::Row
        } else {
            Action::Seal
        };
        let is_row_right = match (&seen, summary) {
            (Some(row), Some(summary)) if row.verifier == i64::from(VERIFIER) => {
                // A summary is the same at any time within its span.
                let then = summary.holds.from;
                let mut again = Summary::evaluate(&prepared.cert, &prepared.verdicts, then);
                self.store.run(|connection| {
                    let ledger = Ledger::default();
                    revoker::ask(connection, &prepared.cert, &mut again, then, &ledger)?;
                    let is_logged = is_change_of(connection, row.change, blob.id)?;
                    Ok(again == summary && is_logged && integrity == Integrity::Intact)
                })?
            }
            _ => false,
        };
        if is_row_right && action == Action::Row {
            return Ok(None);
        }
        let change = match blob.change.or_else(|| seen.as_ref().map(|row| row.change)) {
            Some(change) if self.store.run(|c| is_change_of(c, change, blob.id))? => change,
            _ => self.store.run(|c| change::last_change_of(c, blob.id))?,
        };
        Ok(Some(Wrong { id: blob.id, seen, prepared, action, change, former: blob.former() }))
    }

    /// Writes what is wrong, in one or more transactions, and then the place.
    fn correct(&mut self, wrong: &[Wrong], place: i64, views: &[View]) -> Result<(), StoreError> {
        let now = self.now;
        let planned = wrong.iter().map(|w| (Some(w.id), &w.prepared.cert, &w.prepared.summary));
        let ledger = self.store.rehearse(planned, &[], now, Ledger::default())?;
        let (mut rest, mut overtaken) = (wrong, Vec::new());
        loop {
            let written = self.write(|connection, last| {
                let written = write_wrong(connection, rest, last, now, &ledger, &mut overtaken)?;
                if written == rest.len() {
                    meta::set(connection, REINDEXED, format!("{VERIFIER} {place} {now}"))?;
                }
                Ok(written)
            })?;
            rest = &rest[written..];
            if rest.is_empty() {
                break;
            }
        }
        // Another program has changed these meanwhile. This is rare, and that program has made
        // progress.
        for id in overtaken {
            let (blob, row) = {
                let store = self.store.snapshot()?;
                store
                    .run(|connection| Ok((blob::get(connection, id)?, row::get(connection, id)?)))?
            };
            let Some(blob) = blob else { continue };
            for mut computed in compute(vec![blob], false, now, views) {
                computed.integrity = self.evidence.judge(&computed.blob, row.as_ref());
                let is_good = self.is_good(&computed)?;
                if let Some(wrong) = self.wrong(computed, row.clone(), is_good)? {
                    self.correct(&[wrong], place, views)?;
                }
            }
        }
        Ok(())
    }

    /// Removes what the disk has kept of certificates that were deleted, as the change log says.
    fn complete_deletions(&mut self) -> Result<(), StoreError> {
        let deleted: Vec<i64> = self.evidence.deleted().collect();
        for id in deleted {
            if self.store.run(|connection| blob::exists(connection, id))? {
                self.write(|connection, _| {
                    damage::purge(connection, id)?;
                    blob::retire(connection, id)
                })?;
            }
        }
        Ok(())
    }

    /// Joins certificates that are there twice.
    fn join_copies(&mut self) -> Result<(), StoreError> {
        let now = self.now;
        for ids in self.store.run(damage::duplicates)? {
            self.write(|connection, _| damage::join(connection, &ids, now))?;
        }
        Ok(())
    }

    /// Removes rows without a certificate. Their index rows differ, and go as such.
    fn drop_orphans(&mut self) -> Result<(), StoreError> {
        let (mut orphans, lost) = {
            // One state: others add and delete meanwhile.
            let store = self.store.snapshot()?;
            store.run(|connection| {
                let seen = Seen::all(connection)?;
                let lost = Evidence::gather(connection)?.lost(connection, &seen, Share::ALL)?;
                Ok((evidence::orphans(connection, &seen, Share::ALL)?, lost))
            })?
        };
        for &id in &lost {
            let name = certificate_name(id, self.store.run(|c| row::fingerprint(c, id))?);
            self.report.add(name, blob::LOST, Remedy::Copy);
        }
        orphans.retain(|id| !lost.contains(id));
        for ids in orphans.chunks(PIECE_ROWS) {
            self.write(|connection, _| {
                let mut delete = connection.prepare_cached(
                    "DELETE FROM cert WHERE id = ?1 \
                     AND NOT EXISTS (SELECT 1 FROM blob WHERE blob.id = ?1)",
                )?;
                ids.iter().try_for_each(|id| delete.execute([id]).map(drop))
            })?;
        }
        Ok(())
    }

    /// Corrects index rows that differ.
    fn rows(&mut self, differences: Differences) -> Result<(), Ended> {
        let (mut pending, mut done): (Vec<Difference>, u64) = (Vec::new(), 0);
        let total = differences.count;
        self.show(ReindexStep::Rows, 0, total)?;
        differences.sorter.drain(|record| {
            let difference = Difference::read(record);
            // The rows of a certificate are not torn apart.
            if pending.len() >= PIECE_ROWS
                && pending.last().is_some_and(|last| last.cert != difference.cert)
            {
                done += pending.len() as u64;
                self.settle(&std::mem::take(&mut pending))?;
                self.show(ReindexStep::Rows, done, total)?;
            }
            pending.push(difference);
            Ok::<(), Ended>(())
        })?;
        Ok(self.settle(&pending)?)
    }

    fn settle(&mut self, mut rest: &[Difference]) -> Result<(), StoreError> {
        while !rest.is_empty() {
            let evidence = Arc::clone(&self.evidence);
            let settled = self.write(|connection, _| settle(connection, rest, &evidence))?;
            rest = &rest[settled..];
        }
        Ok(())
    }

    /// Evaluates the certificates that name revokers: now every revoker is found.
    fn revokers(&mut self) -> Result<(), StoreError> {
        let naming = self.store.run(revoker::all_naming)?;
        let now = self.now;
        for ids in naming.chunks(PIECE_NAMING) {
            self.write(|connection, _| {
                let turned =
                    revoker::renew(connection, ids.iter().copied(), now, &Ledger::default())?;
                trust::follow(connection, turned, now, &Ledger::default())
            })?;
        }
        Ok(())
    }

    /// Fills a full-text index beside the old one, and gives it its name.
    fn text(&mut self, index: TextIndex) -> Result<(), Ended> {
        let total = self.store.count()?;
        let mut done = 0;
        self.write(|connection, _| match index.filled_until(connection)? {
            Some(_) => Ok(()),
            None => index.begin_anew(connection),
        })?;
        while let Some(filled) = self.write(|connection, _| fill(connection, index))? {
            done += filled;
            self.show(ReindexStep::Text(index), done, total)?;
        }
        self.drop_in_pieces(index)?;
        Ok(())
    }

    /// Removes what a full-text index left when another took its name.
    fn drop_in_pieces(&mut self, index: TextIndex) -> Result<(), StoreError> {
        while self.store.run(|connection| index.has_old(connection))? {
            self.write(|connection, _| index.drop_old(connection, PIECE_BLOCKS))?;
        }
        Ok(())
    }
}

/// Reads certificates and computes their data on all cores. With `is_verified`, stored verdicts
/// count.
fn compute(blobs: Vec<Blob>, is_verified: bool, now: u32, views: &[View]) -> Vec<Computed> {
    let parsed: Vec<Parsed> = blobs
        .into_par_iter()
        .map(|blob| {
            let (integrity, cert) = (blob.integrity(), Cert::parse(&blob.bytes));
            let stored = match (integrity, &cert) {
                // In another form, the signatures have another order.
                (Integrity::Intact | Integrity::Row | Integrity::Unsealed, Ok(cert))
                    if cert.as_bytes() == blob.bytes =>
                {
                    blob.verdicts_on(cert)
                }
                _ => None,
            };
            Parsed { blob, integrity, cert, stored }
        })
        .collect();
    let is_due = |parsed: &Parsed| !is_verified || parsed.stored.is_none();
    let due = parsed.iter().filter(|parsed| is_due(parsed));
    let due: Vec<&Cert> = due.filter_map(|parsed| parsed.cert.as_ref().ok()).collect();
    let mut fresh = verdicts(&due, Verification::Full).into_iter();
    let judged: Vec<(Parsed, Option<Vec<Verdict>>)> = parsed
        .into_iter()
        .map(|parsed| {
            let is_judged = parsed.cert.is_ok() && is_due(&parsed);
            (parsed, if is_judged { fresh.next() } else { None })
        })
        .collect();
    judged
        .into_par_iter()
        .map(|(Parsed { blob, integrity, cert, stored }, fresh)| {
            let prepared =
                cert.map(|cert| Record::new(cert, joined(stored, fresh), now.into(), views));
            Computed { blob, integrity, prepared }
        })
        .collect()
}

/// New verdicts. Those on signatures of other keys stay, since they depend on other certificates
/// and on limits.
fn joined(stored: Option<Vec<Verdict>>, fresh: Option<Vec<Verdict>>) -> Vec<Verdict> {
    match (stored, fresh) {
        (Some(stored), Some(fresh)) => stored
            .into_iter()
            .zip(fresh)
            .map(|(old, new)| if old.is_by_others() && new.is_by_others() { old } else { new })
            .collect(),
        (stored, fresh) => fresh.or(stored).unwrap_or_default(),
    }
}

/// Whether a change is one of a certificate.
fn is_change_of(connection: &Connection, number: i64, id: i64) -> rusqlite::Result<bool> {
    connection
        .prepare_cached("SELECT 1 FROM change WHERE number = ?1 AND cert = ?2")?
        .exists((number, id))
}

/// Writes certificates for as long as a transaction may take. Returns how many, with those that
/// were `overtaken`.
fn write_wrong(
    connection: &Connection,
    wrong: &[Wrong],
    mut last: i64,
    now: u32,
    ledger: &Ledger,
    overtaken: &mut Vec<i64>,
) -> rusqlite::Result<usize> {
    let started = Instant::now();
    let (mut written, mut texts, mut rows) = (Vec::new(), Texts::default(), Rows::default());
    let mut count = 0;
    for Wrong { id, seen: before, prepared, action, change, former } in wrong {
        if count > 0 && started.elapsed() > HOLD {
            break;
        }
        count += 1;
        if row::get(connection, *id)? != *before {
            overtaken.push(*id);
            continue;
        }
        let (verdicts, bytes) = (numbers(&prepared.verdicts), prepared.cert.as_bytes());
        let (mut change, mut former) = (*change, *former);
        // Of a certificate that the log does not have, the disk has lost that change.
        let is_logged = is_change_of(connection, change, *id)?;
        if matches!(action, Action::Verdicts | Action::Bytes) || !is_logged {
            last += 1;
            change = last;
            change::append(connection, change, now, *id, ChangeKind::Updated)?;
        }
        let version = Version { change, digest: &prepared.bytes_digest };
        match action {
            Action::Row if is_logged => {}
            Action::Unproven => rows.add(*id, prepared),
            Action::Row | Action::Seal | Action::Verdicts => {
                blob::update_verdicts(connection, *id, &verdicts, version)?;
                former = None;
            }
            Action::Bytes => {
                blob::update(connection, *id, &verdicts, bytes, version)?;
                former = None;
            }
        }
        let mut summary = prepared.summary.clone();
        revoker::ask(connection, &prepared.cert, &mut summary, now, ledger)?;
        let text = before.as_ref().and_then(RawRow::summary).map(|s| search_text(&s));
        if text.as_ref() != Some(&prepared.terms.text) {
            texts.remove(*id, text.unwrap_or_default());
            texts.add(*id, prepared.terms.text.clone());
        }
        let fresh = RawRow::new(*id, prepared.cert.fingerprint(), change, &summary);
        RawRow { former, ..fresh }.write(connection)?;
        written.push(*id);
    }
    rows.insert(connection)?;
    texts.write_to_new(connection)?;
    trust::follow(connection, written, now, ledger)?;
    Ok(count)
}

/// Inserts and deletes index rows that differ, as the certificates are now, for as long as a
/// transaction may take. Returns how many rows it looked at.
fn settle(
    connection: &Connection,
    rows: &[Difference],
    evidence: &Evidence,
) -> rusqlite::Result<usize> {
    let (started, views) = (Instant::now(), schema::views(connection)?);
    let mut settled = 0;
    for of_cert in rows.chunk_by(|one, next| one.cert == next.cert) {
        if settled > 0 && started.elapsed() > HOLD {
            break;
        }
        settled += of_cert.len();
        let id = of_cert[0].cert;
        let blob = blob::get(connection, id)?;
        let expected: HashSet<Difference> = match &blob {
            // Those of a lost certificate stay, so that a copy finds its place.
            None if row::exists(connection, id)? => continue,
            None => HashSet::new(),
            // Nothing is known about the rows of a damaged certificate.
            Some(blob) if !blob::is_usable(connection, blob)? => continue,
            Some(blob) => {
                let Some((cert, verdicts)) = blob.decode() else { continue };
                if !evidence.confirms(connection, "digest", id, &cert.sks_digest())? {
                    continue;
                }
                let prepared = Record::new(cert, verdicts, Timestamp::new(0), &views);
                Difference::all(id, &prepared.terms, &prepared.digests).collect()
            }
        };
        for row in of_cert {
            if expected.contains(row) { row.insert(connection)? } else { row.delete(connection)? }
        }
    }
    Ok(settled)
}

/// Adds the next certificates to a full-text index that is being filled, for as long as a
/// transaction may take. When it has all, it takes the name of the old one. Returns the number of
/// certificates that were added, `None` if the index is not being filled (any more).
fn fill(connection: &Connection, index: TextIndex) -> rusqlite::Result<Option<u64>> {
    let Some(after) = index.filled_until(connection)? else { return Ok(None) };
    // The new index has no text that the old one lacks.
    texts::add_late(connection)?;
    let started = Instant::now();
    let (mut filled, mut last, mut is_full) = (0, after, true);
    {
        let mut insert = connection.prepare_cached(&format!(
            "INSERT INTO {} (rowid, text) VALUES (?1, ?2)",
            index.new_table()
        ))?;
        let mut statement = connection.prepare_cached(ROWS_AFTER)?;
        let mut rows = statement.query([after])?;
        while let Some(row) = rows.next()? {
            let row = RawRow::read(row)?;
            (last, filled) = (row.id, filled + 1);
            // A row that cannot be read is that of a damaged certificate.
            let text = row.summary().map(|summary| search_text(&summary)).unwrap_or_default();
            if !text.is_empty() {
                insert.execute((row.id, index.content(&text)))?;
            }
            if started.elapsed() > HOLD_TEXT {
                is_full = false;
                break;
            }
        }
    }
    if is_full {
        index.take_place(connection)?;
    } else {
        index.set_filled_until(connection, last)?;
    }
    Ok(Some(filled))
}
