//! The costly part of a write, done before the store is locked: what is stored is read, `merge.rs`
//! decides what becomes of it, and only then the store is locked and written.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use talaria_cert::Redacted;
use talaria_cert::merge::{Before, Joining, Offer, Record, Rules, decide, join_within};
use talaria_cert::merge::{IngestOutcome, Ingested, LeftOut, Stored};
use talaria_cert::{
    Cert, Claims, Fingerprint, Issuers, Key, KeyId, Limits, PacketRef, Tag, Timestamp, VERIFIER,
    Verdict, Verification, View, Work,
};

use crate::blob::{self, Version};
use crate::error::StoreError;
use crate::find::{self, Found};
use crate::ingest::BatchWriter;
use crate::ledger::Ledger;
use crate::number::{CertId, ChangeNumber};
use crate::store::Store;
use crate::{redaction, schema};

/// Bytes of copies in the store that are joined with others at once, if the cost is limited:
/// 16 MiB. A single certificate may be longer.
const COPIES_BYTES_MAX: usize = 16 << 20;

/// Bytes of certificates that one transaction of [`Store::write`] with a bound writes, beside the
/// first: 2 MiB.
const WRITE_BYTES_MAX: usize = 2 << 20;

/// How certificates are prepared for a write.
#[derive(Clone, Debug)]
pub struct Preparation {
    /// The limits on each certificate.
    pub limits: Limits,
    /// Whether self-signatures are verified now. With limits they always are.
    pub verification: Verification,
    /// The time of the write.
    pub now: Timestamp,
    /// The CPU time that all the certificates may take together.
    pub work: Work,
}

impl Preparation {
    /// Without a limit on CPU time.
    fn unbounded(limits: &Limits, verification: Verification, now: Timestamp) -> Self {
        Self { limits: limits.clone(), verification, now, work: Work::UNBOUNDED }
    }
}

/// Certificates that are ready to be written. [`Store::prepare`] does all that is costly without
/// locking the store, and [`Store::write`] only writes.
#[derive(Debug)]
pub struct Intake {
    joining: Joining,
    /// For each given certificate, its place among the distinct ones, and whether it added anything
    /// to the copies before it.
    places: Vec<(usize, bool)>,
    /// The outcomes of the distinct certificates, as far as they are decided.
    outcomes: Vec<Option<IngestOutcome>>,
    left_out: Vec<LeftOut>,
    /// The certificates that are yet to be written.
    pending: VecDeque<Pending>,
    /// Those that somebody else has changed since they were prepared, by place.
    overtaken: Vec<(usize, Cert)>,
    /// The views for which digests were computed.
    views: Vec<View>,
    ledger: Ledger,
    /// The CPU time of the given certificates alone.
    own_cost: Duration,
    /// All so far.
    work: Work,
}

/// A certificate that is yet to be written.
#[derive(Debug)]
struct Pending {
    place: usize,
    record: Record,
    /// The certificate as it was given, if something else is written.
    given: Option<Cert>,
    /// The stored copy that the record replaces.
    before: Option<(Seen, Stored)>,
    outcome: IngestOutcome,
}

/// The row of a certificate when it was read.
#[derive(Clone, Copy, Debug)]
struct Seen {
    id: i64,
    change: i64,
}

impl Intake {
    /// Whether all certificates are written or refused.
    #[must_use]
    pub fn is_written(&self) -> bool {
        self.pending.is_empty() && self.overtaken.is_empty()
    }

    /// The number of certificates that are yet to be written.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Whether some certificates have to be prepared again, because somebody else changed them
    /// first.
    #[must_use]
    pub fn is_overtaken(&self) -> bool {
        self.pending.is_empty() && !self.overtaken.is_empty()
    }

    /// The CPU time that preparing them has taken so far, if it has a limit.
    #[must_use]
    pub fn work(&self) -> Work {
        self.work
    }

    /// One outcome for each given certificate, in their order. Copies of one certificate share
    /// their count of parts that were not kept.
    ///
    /// # Panics
    ///
    /// If the intake is not written.
    #[must_use]
    pub fn into_ingested(self) -> Vec<Ingested> {
        let mut seen = vec![false; self.outcomes.len()];
        self.places
            .into_iter()
            .map(|(at, grew)| {
                let outcome = self.outcomes[at].expect("an intake that is written");
                let left_out = self.left_out[at];
                let outcome = match (std::mem::replace(&mut seen[at], true), outcome) {
                    (false, outcome) | (true, outcome @ IngestOutcome::Refused(_)) => outcome,
                    (true, _) if grew && left_out.is_none() => IngestOutcome::Updated,
                    (true, outcome) if grew => outcome,
                    (true, _) => IngestOutcome::Unchanged,
                };
                Ingested { outcome, left_out }
            })
            .collect()
    }
}

impl Store {
    /// Like [`Self::ingest`], and counts the parts of each certificate that were not kept. Copies
    /// of one certificate in `certs` share their count.
    ///
    /// # Errors
    ///
    /// As [`Self::ingest`].
    pub fn ingest_counted(
        &mut self,
        certs: Vec<Cert>,
        verification: Verification,
        now: Timestamp,
    ) -> Result<Vec<Ingested>, StoreError> {
        self.take_in(certs, Joining::Union, verification, now)
    }

    /// Replaces the stored copy by `cert`, so that owners can remove parts of their certificate.
    /// Otherwise like [`Self::ingest`].
    ///
    /// # Errors
    ///
    /// As [`Self::ingest`].
    pub fn replace(&mut self, cert: Cert, now: Timestamp) -> Result<IngestOutcome, StoreError> {
        let ingested = self.take_in(vec![cert], Joining::Replace, Verification::Full, now)?;
        Ok(ingested.into_iter().next().expect("one outcome for one certificate").outcome)
    }

    fn take_in(
        &mut self,
        certs: Vec<Cert>,
        joining: Joining,
        verification: Verification,
        now: Timestamp,
    ) -> Result<Vec<Ingested>, StoreError> {
        self.writable()?;
        let preparation = Preparation::unbounded(&self.limits, verification, now);
        let mut intake = self.prepare_joining(certs, joining, &preparation)?;
        loop {
            self.write(std::slice::from_mut(&mut intake), usize::MAX, now)?;
            if intake.is_written() {
                return Ok(intake.into_ingested());
            }
            // This is rare, and in each round the other writer has made progress.
            self.prepare_again(&mut intake, &preparation)?;
        }
    }

    /// Prepares certificates for [`Self::write`], against the store as it is now. Nothing is locked
    /// or written, so a store that is open for reading will do. Uses all threads of the current
    /// thread pool of rayon.
    ///
    /// # Errors
    ///
    /// [`StoreError::TooCostly`], [`StoreError::TooLong`] and the errors of reading.
    pub fn prepare(
        &self,
        certs: Vec<Cert>,
        preparation: &Preparation,
    ) -> Result<Intake, StoreError> {
        self.prepare_joining(certs, Joining::Union, preparation)
    }

    /// Like [`Self::prepare`], for a certificate that replaces its stored copy.
    ///
    /// # Errors
    ///
    /// As [`Self::prepare`].
    pub fn prepare_replacement(
        &self,
        cert: Cert,
        preparation: &Preparation,
    ) -> Result<Intake, StoreError> {
        self.prepare_joining(vec![cert], Joining::Replace, preparation)
    }

    fn prepare_joining(
        &self,
        certs: Vec<Cert>,
        joining: Joining,
        preparation: &Preparation,
    ) -> Result<Intake, StoreError> {
        let (mut own_cost, mut work) = (Duration::ZERO, preparation.work);
        if work.is_bounded() {
            // Some views verify again.
            let rounds =
                1 + self.run(schema::views)?.into_iter().filter(|view| view.verifies()).count();
            let rounds = u32::try_from(rounds).unwrap_or(u32::MAX);
            for cert in &certs {
                let cost = cert.cost().saturating_mul(rounds);
                own_cost = own_cost.saturating_add(cost);
                work.take(cost)?;
            }
        }
        let (unique, places) = join_within(certs);
        let mut intake = Intake {
            joining,
            places,
            outcomes: vec![None; unique.len()],
            left_out: vec![LeftOut::default(); unique.len()],
            pending: VecDeque::with_capacity(unique.len()),
            overtaken: Vec::new(),
            views: Vec::new(),
            ledger: Ledger::default(),
            own_cost,
            work,
        };
        let left_out = self.prepare_unique(
            &mut intake,
            unique.into_iter().enumerate().collect(),
            preparation,
        )?;
        intake.left_out = left_out;
        Ok(intake)
    }

    /// Prepares the certificates again that somebody else has changed meanwhile. This costs CPU
    /// time like the first time.
    ///
    /// # Errors
    ///
    /// As [`Self::prepare`].
    pub fn prepare_again(
        &self,
        intake: &mut Intake,
        preparation: &Preparation,
    ) -> Result<(), StoreError> {
        let mut work = preparation.work;
        work.take(intake.work.needed().saturating_add(intake.own_cost))?;
        intake.work = work;
        let overtaken = std::mem::take(&mut intake.overtaken);
        let places: Vec<usize> = overtaken.iter().map(|&(place, _)| place).collect();
        let left_out = self.prepare_unique(intake, overtaken, preparation)?;
        for (place, left_out) in places.into_iter().zip(left_out) {
            intake.left_out[place] = left_out;
        }
        Ok(())
    }

    /// Prepares certificates with their places, no two of them with the same fingerprint. Returns
    /// the parts of each that will not be kept.
    fn prepare_unique(
        &self,
        intake: &mut Intake,
        certs: Vec<(usize, Cert)>,
        preparation: &Preparation,
    ) -> Result<Vec<LeftOut>, StoreError> {
        let Preparation { limits, verification, now, work: _ } = preparation;
        let views = self.run(schema::views)?;
        let redacting = self.has_redactions()?;
        let (several, mut bytes) = (certs.len() > 1, 0);
        let mut offers = Vec::with_capacity(certs.len());
        let mut places = Vec::with_capacity(certs.len());
        // One look at the store for all certificates: a lock for each statement costs more than the
        // statement.
        let snapshot = self.snapshot()?;
        for (place, cert) in certs {
            let redacted = if redacting {
                self.run(|connection| redaction::of(connection, &cert))?
            } else {
                Redacted::default()
            };
            let given = cert.clone();
            let cert = if redacting && intake.joining == Joining::Union {
                self.run(|connection| redaction::admitted(connection, cert))?
            } else {
                cert
            };
            let offer = Offer::new(cert, intake.joining, redacted);
            let (seen, before) = self.before(offer.cert())?;
            if intake.work.is_bounded()
                && let Before::Present { stored, verifier } = &before
            {
                bytes += stored.cert.as_bytes().len();
                if bytes > COPIES_BYTES_MAX && several {
                    return Err(StoreError::TooLong { bytes_max: COPIES_BYTES_MAX });
                }
                // What nobody has verified yet is verified now.
                let is_judged =
                    *verifier >= VERIFIER && !stored.verdicts.contains(&Verdict::Unchecked);
                let cost = if is_judged { stored.cert.handling_cost() } else { stored.cert.cost() };
                // Strangers have made a part of it, so it does not refuse the rest.
                intake.work.take_for_others(cost)?;
            }
            places.push((place, seen, given));
            offers.push((offer, before));
        }
        snapshot.end()?;
        let rules = Rules { limits, verification: *verification, now: *now, views: &views };
        let mut issuers = StoredIssuers::of(self);
        let decided = decide(offers, &rules, &mut issuers, &mut intake.work)?;
        let decided = issuers.after(decided)?;
        let mut left_out = Vec::with_capacity(decided.len());
        for ((place, seen, given), decided) in places.into_iter().zip(decided) {
            left_out.push(decided.left_out);
            let outcome = decided.outcome;
            match decided.record {
                Some(record) => {
                    let before = seen.zip(decided.before);
                    let given = (given != record.cert).then_some(given);
                    intake.pending.push_back(Pending { place, record, given, before, outcome });
                }
                None => intake.outcomes[place] = Some(outcome),
            }
        }
        intake.views = views;
        let planned = intake.pending.iter().map(|Pending { record, before, .. }| {
            let id = before.as_ref().map(|(seen, _)| seen.id);
            (id, &record.cert, &record.summary)
        });
        let ledger = Ledger::within(intake.work.for_others());
        intake.ledger = self.rehearse(planned, &[], now.seconds(), ledger)?;
        intake.work.take_for_others(intake.ledger.work().needed())?;
        Ok(left_out)
    }

    /// Writes prepared certificates in one transaction, at most `certs_max` of them, and a few if
    /// they are long: those of the first intake first. The time of the transaction therefore has a
    /// bound, and the caller repeats it for the rest. A certificate that somebody else has changed
    /// since it was prepared is not written, and waits for [`Self::prepare_again`]. A certificate
    /// that is unchanged is on the disk then, whoever added it.
    ///
    /// # Errors
    ///
    /// As [`Self::ingest`]. The intakes stay as they are, too.
    pub fn write(
        &mut self,
        intakes: &mut [Intake],
        certs_max: usize,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        self.writable()?;
        let now = now.seconds();
        let (mut left, mut bytes) = (certs_max, 0);
        let is_bounded = certs_max < usize::MAX;
        let mut fits = |pending: &&Pending| {
            let fits = left > 0 && !(is_bounded && bytes > WRITE_BYTES_MAX);
            left = left.saturating_sub(1);
            bytes += pending.record.cert.as_bytes().len();
            fits
        };
        let portions: Vec<usize> = intakes
            .iter()
            .map(|intake| intake.pending.iter().take_while(&mut fits).count())
            .collect();
        if portions.iter().all(|&portion| portion == 0) {
            return self.sync_what_was_read();
        }
        let ledger = match &*intakes {
            [one] => Cow::Borrowed(&one.ledger),
            several => Cow::Owned(Ledger::joined(several.iter().map(|intake| &intake.ledger))),
        };
        // `None` if it was overtaken.
        let written: Vec<Option<IngestOutcome>> = self.transaction(|connection, last| {
            let views = schema::views(connection)?;
            let mut writer = BatchWriter::new(connection, last, now, &views, &ledger)?;
            let mut written = Vec::with_capacity(certs_max.min(1024));
            for (intake, &portion) in intakes.iter().zip(&portions) {
                for pending in intake.pending.iter().take(portion) {
                    let Pending { record, before, outcome, .. } = pending;
                    let current = writer.current(record.cert.fingerprint())?;
                    let is_overtaken = intake.views != views
                        || writer.is_unwanted(&record.cert, current.is_some())?;
                    written.push(match (before, current) {
                        _ if is_overtaken => None,
                        (None, None) => {
                            writer.insert(record)?;
                            Some(*outcome)
                        }
                        (Some((seen, before)), Some((_, change))) if change == seen.change => {
                            writer.update(seen.id, change, record, before)?;
                            Some(*outcome)
                        }
                        _ => None,
                    });
                }
            }
            writer.finish()?;
            Ok(written)
        })?;
        drop(ledger);
        let mut written = written.into_iter();
        for (intake, portion) in intakes.iter_mut().zip(portions) {
            for (Pending { place, record, given, .. }, outcome) in
                intake.pending.drain(..portion).zip(written.by_ref())
            {
                intake.outcomes[place] = outcome;
                if outcome.is_none() {
                    intake.overtaken.push((place, given.unwrap_or(record.cert)));
                }
            }
        }
        Ok(())
    }

    /// Like [`Self::write`], but the commit is not synced: what was written survives a power loss
    /// after the next [`LogToSync::sync`](crate::LogToSync::sync), which another thread can do
    /// while this one goes on.
    ///
    /// # Errors
    ///
    /// As [`Self::write`].
    pub fn write_ahead(
        &mut self,
        intakes: &mut [Intake],
        certs_max: usize,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        self.ahead_of_sync(|store| store.write(intakes, certs_max, now))
    }

    /// The verdicts on a certificate, with [`Verdict::Certified`] for those signatures of other
    /// keys that keys in the store made. The cost is that of verifying each signature that does not
    /// have this verdict already, and a look-up for each that has it. If there are more than
    /// `unranked` of them, it is found out which keys the owner has certified
    /// ([`Cert::certified`]).
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] or [`StoreError::Engine`].
    pub fn certified(
        &self,
        cert: &Cert,
        verdicts: &[Verdict],
        unranked: usize,
    ) -> Result<Vec<Verdict>, StoreError> {
        let mut issuers = StoredIssuers::of(self);
        let certified = cert.certified(verdicts, unranked, &mut issuers);
        issuers.after(certified)
    }

    /// Remembers what [`Self::certified`] has found, so that it is not verified again: the
    /// certificate, its last change then, and the verdicts. Certificates that have changed since
    /// are left out. Nothing else follows from the verdicts, so this is no change of a certificate.
    ///
    /// # Errors
    ///
    /// As [`Self::ingest`].
    pub fn keep_certified(
        &mut self,
        found: &[(CertId, ChangeNumber, Arc<[Verdict]>)],
    ) -> Result<(), StoreError> {
        self.writable()?;
        self.transaction(|connection, _| {
            let mut current = connection.prepare_cached(
                "SELECT 1 FROM cert WHERE id = ?1 AND change = ?2 AND verifier = ?3",
            )?;
            for (id, change, verdicts) in found {
                let row = (id.get(), change.get(), VERIFIER);
                if !current.exists(row)? {
                    continue;
                }
                let Some(blob) = blob::intact(connection, id.get())? else { continue };
                let Some(digest) = blob.written_digest() else { continue };
                if blob.verdicts.len() != verdicts.len() {
                    continue;
                }
                let others = [Verdict::Foreign as u8, Verdict::Other as u8];
                let both = blob.verdicts.iter().zip(verdicts.iter());
                let now: Vec<u8> = both
                    .map(|(&old, &new)| {
                        let learned = new.is_certified() && others.contains(&old);
                        if learned { Verdict::Certified as u8 } else { old }
                    })
                    .collect();
                if now != blob.verdicts {
                    let version = Version { change: change.get(), digest: &digest };
                    blob::update_verdicts(connection, id.get(), &now, version)?;
                }
            }
            Ok(())
        })
    }

    /// Reads what the store has of an offered certificate, and its row.
    fn before(&self, cert: &Cert) -> Result<(Option<Seen>, Before), StoreError> {
        let found = self.run(|connection| find::row(connection, cert.fingerprint()))?;
        let Some(Found { id, change, verifier }) = found else {
            let blocked = self.operator().is_blocked(cert.fingerprint())?;
            return Ok((None, if blocked { Before::Blocked } else { Before::Absent }));
        };
        let seen = Seen { id, change };
        let verifier = u8::try_from(verifier).unwrap_or(0);
        let same = self.run(|connection| blob::is_same(connection, id, cert.as_bytes(), change))?;
        if same && verifier >= VERIFIER {
            return Ok((Some(seen), Before::Same));
        }
        let before = match self.stored(CertId::new(seen.id)) {
            Ok(Some(stored)) => Before::Present { stored, verifier },
            Err(StoreError::DamagedCert { .. }) | Ok(None) => Before::Damaged,
            Err(error) => return Err(error),
        };
        Ok((Some(seen), before))
    }
}

/// The certificates of a store, in which issuers are looked for, and the first error at that.
struct StoredIssuers<'a> {
    store: &'a Store,
    failure: Option<StoreError>,
}

impl<'a> StoredIssuers<'a> {
    fn of(store: &'a Store) -> Self {
        Self { store, failure: None }
    }

    /// What was computed with the issuers, if all could be read.
    fn after<T>(self, computed: T) -> Result<T, StoreError> {
        self.failure.map_or(Ok(computed), Err)
    }

    /// Reads something. After an error, nothing is found.
    fn read<T: Default>(&mut self, read: impl FnOnce(&Store) -> Result<T, StoreError>) -> T {
        if self.failure.is_some() {
            return T::default();
        }
        read(self.store).unwrap_or_else(|error| {
            self.failure = Some(error);
            T::default()
        })
    }
}

impl Issuers for StoredIssuers<'_> {
    fn has(&mut self, id: KeyId) -> bool {
        !self.read(|store| store.primary_keys(id)).is_empty()
    }

    fn keys(&mut self, id: KeyId) -> Vec<Vec<u8>> {
        self.read(|store| {
            let mut keys = Vec::new();
            for row in store.primary_keys(id)? {
                let Some(key) = store.run(|connection| blob::primary_key(connection, row))? else {
                    continue;
                };
                // These come last. Anybody can make one with any key ID, so the first of them
                // counts, if there is no other.
                if key.first().is_some_and(|&version| version < 4) && !keys.is_empty() {
                    break;
                }
                // A check reports damage.
                let packet = PacketRef { tag: Tag::PUBLIC_KEY, body: &key };
                if Key::parse(packet).is_ok_and(|key| key.fingerprint().key_id() == id) {
                    keys.push(key);
                }
            }
            Ok(keys)
        })
    }

    fn bytes(&mut self, fingerprint: Fingerprint) -> Option<u64> {
        self.read(|store| {
            let Some(row) = store.row(fingerprint)? else { return Ok(None) };
            store.cert_length(row.id).map(Some)
        })
    }

    fn claims_of(&mut self, owner: &Cert, certified: Fingerprint) -> Option<Claims> {
        self.read(|store| {
            let stored = match store.get(certified) {
                // A check reports it.
                Err(StoreError::DamagedCert { .. }) => None,
                read => read?,
            };
            Ok(stored.and_then(|stored| stored.cert.claims_of(owner, &stored.verdicts)))
        })
    }
}
