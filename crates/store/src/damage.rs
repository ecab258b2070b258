//! Certificates whose stored bytes are damaged, and their repair with copies from elsewhere.

use std::borrow::Borrow;

use rusqlite::{Connection, OptionalExtension as _};
use talaria_cert::merge::{Record, bytes_digest};
use talaria_cert::{
    CERT_BYTES_MAX, Cert, Fingerprint, PACKETS_MAX, Timestamp, Verification, verdicts,
};

use crate::blob::{self, Blob, Integrity, Share, Version};
use crate::change::{self, ChangeKind};
use crate::error::StoreError;
use crate::evidence::{self, Evidence, Seen};
use crate::ingest::{Rows, numbers};
use crate::ledger::Ledger;
use crate::number::CertId;
use crate::row::{self, RawRow};
use crate::schema::{self, POSTINGS};
use crate::store::Store;
use crate::texts::Texts;
use crate::{aside, inventory, revoker, trust};

/// Number of certificates that are read at a time, and their size, above which none is added:
/// 64 MiB.
const BATCH: usize = 2000;
const BATCH_BYTES: usize = 64 << 20;

/// A certificate whose stored bytes or verdicts are not those that were written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DamagedCert {
    /// The number of the certificate in the store.
    pub id: CertId,
    /// The fingerprint in its row, if it can be read.
    pub fingerprint: Option<Fingerprint>,
    /// The digest of the certificate that was written, see [`Self::digest_of`].
    pub digest: Option<[u8; 16]>,
}

impl DamagedCert {
    /// The number as reports of damage show it: a damaged row may have no other name.
    #[must_use]
    pub fn number(&self) -> i64 {
        self.id.get()
    }

    /// The first 16 bytes of the SHA-256 of a certificate in canonical form.
    #[must_use]
    pub fn digest_of(cert: &Cert) -> [u8; 16] {
        bytes_digest(cert.as_bytes())
    }
}

/// The permitted repair of a damaged certificate without an equal copy.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Salvage {
    /// It is replaced if there is another copy.
    #[default]
    WithCopy,
    /// It is replaced by the part that its own signatures still prove, or removed if they prove
    /// nothing. Bytes that agree with their checksum, and may only be older than the last change,
    /// stay as they are.
    Always,
}

/// The result of the repair of a damaged certificate.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Repair {
    /// It is again the certificate that was written.
    Restored,
    /// Another copy took its place, with the part that its own signatures still prove. The damaged
    /// bytes are set aside.
    Replaced,
    /// The part that its own signatures still prove took its place. The damaged bytes are set
    /// aside.
    Salvaged,
    /// It was removed, since nothing is proven. The damaged bytes are set aside.
    Removed,
    /// Nothing was changed: there is no copy.
    NoCopy,
}

/// The damaged bytes of a certificate that was repaired.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SetAside {
    /// The number of the entry.
    pub number: i64,
    /// The time of the repair.
    pub time: Timestamp,
    /// The fingerprint in the row of the certificate, if it could be read.
    pub fingerprint: Option<Fingerprint>,
    /// The number of damaged bytes.
    pub length: u64,
}

/// The certificates of a store whose bytes are not those that were written, and what repairs have
/// set aside.
#[derive(Debug)]
pub struct Damage<S>(S);

impl Store {
    /// The damage in the store.
    #[must_use]
    pub fn damage(&self) -> Damage<&Self> {
        Damage(self)
    }

    /// The damage in the store, for repairs.
    #[must_use]
    pub fn damage_mut(&mut self) -> Damage<&mut Self> {
        Damage(self)
    }
}

impl<S: Borrow<Store>> Damage<S> {
    fn store(&self) -> &Store {
        self.0.borrow()
    }

    /// The certificates whose bytes or verdicts do not match their checksums. `progress` gets the
    /// number of certificates read so far.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] or [`StoreError::Engine`], if the file itself is damaged.
    pub fn certs(&self, mut progress: impl FnMut(u64)) -> Result<Vec<DamagedCert>, StoreError> {
        let evidence = self.store().run(Evidence::gather)?;
        let (mut after, mut read, mut found) = (0, 0, Vec::new());
        let mut seen = Seen::default();
        loop {
            let blobs = self.store().run(|connection| {
                blob::batch(connection, after, (BATCH, BATCH_BYTES), Share::ALL)
            })?;
            let Some(last) = blobs.last() else {
                let lost =
                    self.store().run(|connection| evidence.lost(connection, &seen, Share::ALL))?;
                for id in lost {
                    // Another program may have deleted it meanwhile.
                    if self.store().run(|connection| evidence::is_lost(connection, id))? {
                        found.push(self.damaged(id, None)?);
                    }
                }
                found.sort_unstable_by_key(|cert| cert.id);
                return Ok(found);
            };
            after = last.id;
            read += blobs.len() as u64;
            for blob in &blobs {
                seen.insert(blob.id);
                if !self.store().run(|connection| is_good(connection, blob, &evidence))? {
                    // The digest of a certificate that was replaced says nothing about the one that
                    // replaced it.
                    let is_stale = blob.integrity() == Integrity::Stale;
                    let digest = blob.written_digest().filter(|_| !is_stale);
                    found.push(self.damaged(blob.id, digest)?);
                }
            }
            progress(read);
        }
    }

    fn damaged(&self, id: i64, digest: Option<[u8; 16]>) -> Result<DamagedCert, StoreError> {
        let fingerprint = self.store().run(|connection| row::fingerprint(connection, id))?;
        Ok(DamagedCert { id: CertId::new(id), fingerprint, digest })
    }

    /// The damaged bytes that repairs have set aside, oldest first.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] or [`StoreError::Engine`].
    pub fn set_aside(&self) -> Result<Vec<SetAside>, StoreError> {
        self.store().run(|connection| {
            connection
                .prepare_cached(
                    "SELECT number, time, fingerprint, length(bytes) FROM set_aside ORDER BY number",
                )?
                .query_map([], |row| {
                    let fingerprint: Option<Vec<u8>> = row.get(2)?;
                    Ok(SetAside {
                        number: row.get(0)?,
                        time: Timestamp::new(row.get(1)?),
                        fingerprint: fingerprint
                            .and_then(|stored| Some(Fingerprint::from_stored(&stored)?.0)),
                        length: row.get::<_, u32>(3)?.into(),
                    })
                })?
                .collect()
        })
    }

    /// The damaged bytes of an entry of [`Self::set_aside`]. `None` if there is no such entry.
    ///
    /// # Errors
    ///
    /// As [`Self::set_aside`].
    pub fn set_aside_bytes(&self, number: i64) -> Result<Option<Vec<u8>>, StoreError> {
        self.store().run(|connection| {
            connection
                .prepare_cached("SELECT bytes FROM set_aside WHERE number = ?1")?
                .query_row([number], |row| row.get(0))
                .optional()
        })
    }
}

impl Damage<&mut Store> {
    /// Repairs the damaged certificate with number `id` in one transaction. `copies` are
    /// certificates from elsewhere: one that equals the certificate that was written restores it;
    /// others with its fingerprint replace it. `None` if the certificate is not damaged or not
    /// there.
    ///
    /// # Errors
    ///
    /// [`StoreError::ReadOnly`] or any error of a write; the store stays unchanged.
    pub fn repair(
        &mut self,
        id: CertId,
        copies: &[Cert],
        salvage: Salvage,
        now: Timestamp,
    ) -> Result<Option<Repair>, StoreError> {
        let now = now.seconds();
        let copies: Vec<Cert> =
            copies.iter().map(|copy| self.0.redacted(copy)).collect::<Result<_, _>>()?;
        let id = id.get();
        self.0.transaction(|connection, last| {
            let evidence = Evidence::of(connection, id)?;
            let fingerprint = row::fingerprint(connection, id)?;
            let blob = blob::get(connection, id)?;
            let mended = match &blob {
                Some(blob) if is_good(connection, blob, &evidence)? => return Ok(None),
                Some(blob) => mended(connection, blob, &evidence, fingerprint, &copies, salvage)?,
                None if evidence::is_lost(connection, id)? => {
                    let copy = copies.iter().filter(|c| Some(c.fingerprint()) == fingerprint);
                    let copy = copy.cloned().reduce(|joined, copy| union(joined, &copy));
                    match (copy, salvage) {
                        (Some(copy), _) => Some((Some(copy), Repair::Replaced)),
                        (None, Salvage::Always) => Some((None, Repair::Removed)),
                        (None, Salvage::WithCopy) => None,
                    }
                }
                None => return Ok(None),
            };
            let Some((cert, repair)) = mended else { return Ok(Some(Repair::NoCopy)) };
            if let Some(blob) = blob.filter(|_| repair != Repair::Restored) {
                aside::add(connection, &blob.bytes, fingerprint, now)?;
            }
            let ledger = Ledger::default();
            let mut last = last + 1;
            purge(connection, id)?;
            if let Some(cert) = &cert {
                change::append(connection, last, now, id, ChangeKind::Updated)?;
                rewrite(connection, id, last, cert.clone(), now)?;
            } else {
                change::append(connection, last, now, id, ChangeKind::Deleted)?;
                blob::retire(connection, id)?;
            }
            let arrived = cert.as_ref().map(Cert::fingerprint).or(fingerprint);
            let mut written = vec![id];
            written
                .extend(revoker::follow(connection, arrived, &written, &mut last, now, &ledger)?);
            if cert.is_none() {
                trust::renew(connection, now, &ledger)?;
            }
            trust::follow(connection, written, now, &ledger)?;
            Ok(Some(repair))
        })
    }

    /// Accepts the rows that the tables with decisions of the user and the operator have, where the
    /// disk has lost a write. Returns the names of these tables.
    ///
    /// # Errors
    ///
    /// [`StoreError::ReadOnly`] or any error of a write.
    pub fn accept_decisions(&mut self) -> Result<Vec<&'static str>, StoreError> {
        self.0.transaction(|connection, _| {
            let tables = inventory::differing(connection)?;
            tables.iter().try_for_each(|table| inventory::take(connection, table))?;
            Ok(tables)
        })
    }

    /// Deletes entries of [`Self::set_aside`]. Returns how many of them were there.
    ///
    /// # Errors
    ///
    /// [`StoreError::ReadOnly`] or any error of a write.
    pub fn delete_set_aside(&mut self, numbers: &[i64]) -> Result<u64, StoreError> {
        self.0.transaction(|connection, _| {
            let mut delete =
                connection.prepare_cached("DELETE FROM set_aside WHERE number = ?1")?;
            let mut count = 0;
            for number in numbers {
                count += delete.execute([number])? as u64;
            }
            Ok(count)
        })
    }
}

/// Whether a certificate is the one that was written last, and can be read.
fn is_good(connection: &Connection, blob: &Blob, evidence: &Evidence) -> rusqlite::Result<bool> {
    if evidence.is_deleted(blob.id) {
        // A rebuild completes the deletion.
        return Ok(true);
    }
    if !blob::is_usable(connection, blob)? || is_stale(connection, blob, evidence)? {
        return Ok(false);
    }
    match blob.decode() {
        Some((cert, _)) => evidence.confirms(connection, "digest", blob.id, &cert.sks_digest()),
        None => Ok(false),
    }
}

/// Whether a certificate is one that was replaced later.
fn is_stale(connection: &Connection, blob: &Blob, evidence: &Evidence) -> rusqlite::Result<bool> {
    let row = row::get(connection, blob.id)?;
    Ok(evidence.judge(blob, row.as_ref()) == Integrity::Stale)
}

/// The numbers of certificates that are there more than once, those of each together, in ascending
/// order.
pub(crate) fn duplicates(connection: &Connection) -> rusqlite::Result<Vec<Vec<i64>>> {
    let twice: Vec<Vec<u8>> = connection
        .prepare("SELECT fingerprint FROM cert GROUP BY fingerprint HAVING count(*) > 1")?
        .query_map([], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    let mut by_fingerprint =
        connection.prepare("SELECT id FROM cert WHERE fingerprint = ?1 ORDER BY id")?;
    twice
        .into_iter()
        .map(|stored| by_fingerprint.query_map([stored], |row| row.get(0))?.collect())
        .collect()
}

/// Joins the copies of one certificate, all of which are readable, in the first of `ids`, within a
/// transaction. Nothing changes if one of them is damaged.
pub(crate) fn join(connection: &Connection, ids: &[i64], now: u32) -> rusqlite::Result<()> {
    let mut copies = Vec::with_capacity(ids.len());
    for &id in ids {
        let copy = blob::intact(connection, id)?.and_then(|blob| blob.decode());
        let Some((copy, _)) = copy else { return Ok(()) };
        copies.push(copy);
    }
    let Some(joined) = copies.into_iter().reduce(|joined, copy| union(joined, &copy)) else {
        return Ok(());
    };
    let mut last: i64 =
        connection.query_row("SELECT max(number) FROM change", [], |row| row.get(0))?;
    for &id in &ids[1..] {
        last += 1;
        purge(connection, id)?;
        blob::retire(connection, id)?;
        change::append(connection, last, now, id, ChangeKind::Deleted)?;
    }
    last += 1;
    purge(connection, ids[0])?;
    change::append(connection, last, now, ids[0], ChangeKind::Updated)?;
    rewrite(connection, ids[0], last, joined, now)
}

/// The certificate that takes the place of a damaged one, `None` for nothing. `None` as a whole if
/// it cannot be repaired.
fn mended(
    connection: &Connection,
    blob: &Blob,
    evidence: &Evidence,
    fingerprint: Option<Fingerprint>,
    copies: &[Cert],
    salvage: Salvage,
) -> rusqlite::Result<Option<(Option<Cert>, Repair)>> {
    let is_stale = is_stale(connection, blob, evidence)?;
    if !is_stale
        && let Some(copy) =
            copies.iter().find(|copy| blob.written_digest() == Some(DamagedCert::digest_of(copy)))
    {
        return Ok(Some((Some(copy.clone()), Repair::Restored)));
    }
    if let Ok(cert) = Cert::from_canonical(blob.bytes.clone()) {
        let is_written = match blob.integrity() {
            _ if is_stale => false,
            Integrity::Bytes | Integrity::Stale => false,
            _ => {
                // An equal copy, or the digest that was stored with the certificate.
                copies.contains(&cert)
                    || evidence.confirms(connection, "digest", blob.id, &cert.sks_digest())?
            }
        };
        if is_written {
            return Ok(Some((Some(cert), Repair::Restored)));
        }
    }
    let salvaged = match blob.integrity() {
        Integrity::Intact | Integrity::Row | Integrity::Stale => {
            Cert::from_canonical(blob.bytes.clone()).ok()
        }
        _ => fingerprint.and_then(|fingerprint| Cert::salvage(&blob.bytes, fingerprint)),
    };
    let others = copies.iter().filter(|copy| Some(copy.fingerprint()) == fingerprint);
    let copy = others.cloned().reduce(|joined, copy| union(joined, &copy));
    if is_stale
        && salvage == Salvage::WithCopy
        && let (Some(copy), Some(salvaged)) = (&copy, &salvaged)
        && union(salvaged.clone(), copy).as_bytes() == blob.bytes
    {
        // The copy has nothing of what was lost.
        return Ok(None);
    }
    Ok(match (copy, salvaged, salvage) {
        (Some(copy), Some(salvaged), _) => Some((Some(union(copy, &salvaged)), Repair::Replaced)),
        (Some(copy), None, _) => Some((Some(copy), Repair::Replaced)),
        (None, Some(salvaged), Salvage::Always) => Some((Some(salvaged), Repair::Salvaged)),
        (None, None, Salvage::Always) => Some((None, Repair::Removed)),
        (None, _, Salvage::WithCopy) => None,
    })
}

/// The union of two copies of a certificate; the first alone if they do not fit together.
fn union(first: Cert, second: &Cert) -> Cert {
    if first.packets().next() != second.packets().next() {
        return first;
    }
    let joined = first.union(second);
    let fits = joined.as_bytes().len() <= CERT_BYTES_MAX && joined.packets().len() <= PACKETS_MAX;
    if fits { joined } else { first }
}

/// Removes all rows that were derived from a certificate, whatever they say.
pub(crate) fn purge(connection: &Connection, id: i64) -> rusqlite::Result<()> {
    let row = row::get(connection, id)?;
    if let Some(summary) = row.as_ref().and_then(RawRow::summary) {
        let mut texts = Texts::default();
        texts.remove(id, talaria_cert::search_text(&summary));
        texts.write(connection)?;
    }
    for table in POSTINGS.into_iter().chain(["digest"]) {
        if !schema::keeps(connection, table)? {
            continue;
        }
        connection.execute(&format!("DELETE FROM {table} WHERE cert = ?1"), [id])?;
    }
    row::delete(connection, id)
}

/// Writes a certificate in the place of a damaged one, whose rows are gone.
fn rewrite(
    connection: &Connection,
    id: i64,
    change: i64,
    cert: Cert,
    now: u32,
) -> rusqlite::Result<()> {
    let fresh = verdicts(&[&cert], Verification::Full).into_iter().next().unwrap_or_default();
    let mut prepared = Record::new(cert, fresh, now.into(), &schema::views(connection)?);
    revoker::ask(connection, &prepared.cert, &mut prepared.summary, now, &Ledger::default())?;
    RawRow::new(id, prepared.cert.fingerprint(), change, &prepared.summary).write(connection)?;
    let (numbers, bytes) = (numbers(&prepared.verdicts), prepared.cert.as_bytes());
    let version = Version { change, digest: &prepared.bytes_digest };
    blob::replace(connection, id, &numbers, bytes, version)?;
    let mut rows = Rows::default();
    rows.add(id, &prepared);
    rows.insert(connection)?;
    let mut texts = Texts::default();
    texts.add(id, prepared.terms.text);
    texts.write(connection)
}
