//! The costly part of a write, done before the store is locked: copies are joined, signatures verified, limits applied,
//! and indexes computed.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

use rayon::prelude::*;
use rusqlite::OptionalExtension as _;
use talaria_cert::{
    CERT_BYTES_MAX, Cert, Fingerprint, Key, KeyId, Limits, PACKETS_MAX, PacketRef, PossibleIssuer,
    Signature, Tag, Timestamp, VERIFIER, Verdict, Verification, View, carried_over, complete,
    renew, sha256, verdicts,
};

use crate::blob;
use crate::ingest::{
    BY_FINGERPRINT, BatchWriter, IngestOutcome, IngestRefusal, Ingested, LeftOut, Prepared,
    by_fingerprint,
};
use crate::ledger::Ledger;
use crate::schema;
use crate::{CertId, Store, StoreError, Stored};

/// How certificates are prepared for a write.
#[derive(Clone, Debug)]
pub struct Preparation {
    /// The limits on each certificate.
    pub limits: Limits,
    /// Whether self-signatures are verified now. With limits or redactions they always are.
    pub verification: Verification,
    /// The time of the write.
    pub now: Timestamp,
    /// The CPU time that all the certificates may cost together, by the model of [`Cert::cost`]. The signatures by keys
    /// in the store that have to be verified count, too.
    pub allowed: Duration,
}

impl Preparation {
    /// Without a limit on CPU time.
    fn unbounded(limits: &Limits, verification: Verification, now: Timestamp) -> Self {
        Self { limits: limits.clone(), verification, now, allowed: Duration::MAX }
    }
}

/// Certificates that are ready to be written. [`Store::prepare`] does all that is costly without locking the store, and
/// [`Store::write`] only writes.
#[derive(Debug)]
pub struct Intake {
    joining: Joining,
    /// For each given certificate, its place among the distinct ones, and whether it added anything to the copies before it.
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
    /// CPU time by the model: of the given certificates alone, and all so far.
    own_cost: Duration,
    cost: Duration,
}

/// A certificate that is yet to be written.
#[derive(Debug)]
struct Pending {
    place: usize,
    prepared: Prepared,
    plan: Plan,
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

    /// Whether some certificates have to be prepared again, because somebody else changed them first.
    #[must_use]
    pub fn is_overtaken(&self) -> bool {
        self.pending.is_empty() && !self.overtaken.is_empty()
    }

    /// One outcome for each given certificate, in their order. Copies of one certificate share their count of parts that
    /// were not kept.
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

/// The planned change for a certificate, computed before the store is locked.
#[derive(Debug)]
enum Plan {
    Insert,
    /// `verifier` is the version of the verifier that made the stored verdicts.
    Update {
        id: i64,
        seen_change: i64,
        before: Stored,
        verifier: u8,
    },
    Done(IngestOutcome),
}

/// The way to combine a new copy with the stored copy.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Joining {
    Union,
    Replace,
}

impl Store {
    /// Like [`Self::ingest`], and counts the parts of each certificate that were not kept. Copies of one certificate in
    /// `certs` share their count.
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

    /// Replaces the stored copy by `cert`, so that owners can remove parts of their certificate. Otherwise
    /// like [`Self::ingest`].
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

    /// Prepares certificates for [`Self::write`], against the store as it is now. Nothing is locked or written, so a store
    /// that is open for reading will do. Uses all threads of the current thread pool of rayon.
    ///
    /// # Errors
    ///
    /// [`StoreError::TooCostly`] and the errors of reading.
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
        let mut cost = Duration::ZERO;
        if preparation.allowed < Duration::MAX {
            // Some views verify again.
            let rounds =
                1 + self.run(schema::views)?.into_iter().filter(|view| view.verifies()).count();
            let rounds = u32::try_from(rounds).unwrap_or(u32::MAX);
            for cert in &certs {
                charge(&mut cost, cert.cost().saturating_mul(rounds), preparation.allowed)?;
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
            own_cost: cost,
            cost,
        };
        let left_out = self.prepare_unique(
            &mut intake,
            unique.into_iter().enumerate().collect(),
            preparation,
        )?;
        intake.left_out = left_out;
        Ok(intake)
    }

    /// Prepares the certificates again that somebody else has changed meanwhile. This costs CPU time like the first time.
    ///
    /// # Errors
    ///
    /// As [`Self::prepare`].
    pub fn prepare_again(
        &self,
        intake: &mut Intake,
        preparation: &Preparation,
    ) -> Result<(), StoreError> {
        charge(&mut intake.cost, intake.own_cost, preparation.allowed)?;
        let overtaken = std::mem::take(&mut intake.overtaken);
        // The parts that were left out are those of the certificates as they were given.
        self.prepare_unique(intake, overtaken, preparation).map(drop)
    }

    /// Prepares certificates with their places, no two of them with the same fingerprint. Returns the parts of each that
    /// will not be kept.
    fn prepare_unique(
        &self,
        intake: &mut Intake,
        certs: Vec<(usize, Cert)>,
        preparation: &Preparation,
    ) -> Result<Vec<LeftOut>, StoreError> {
        let Preparation { limits, verification, now, allowed } = preparation;
        let now = now.seconds();
        let (places, mut unique): (Vec<usize>, Vec<Cert>) = certs.into_iter().unzip();
        let views = self.run(schema::views)?;
        let redacting = self.has_redactions()?;
        let is_limited = *limits != Limits::default();
        // Limits depend on the verdicts.
        let verification = if is_limited { Verification::Full } else { *verification };
        let offered = if is_limited || redacting { unique.clone() } else { Vec::new() };
        let mut plans = Vec::with_capacity(unique.len());
        for cert in &mut unique {
            if redacting {
                *cert = self.redacted(cert)?;
            }
            plans.push(self.plan(cert, intake.joining, redacting, limits)?);
        }
        let fresh: Vec<&Cert> = unique
            .iter()
            .zip(&plans)
            .filter_map(|(cert, plan)| matches!(plan, Plan::Insert).then_some(cert))
            .collect();
        let mut fresh = verdicts(&fresh, verification).into_iter();
        let work: Vec<(Cert, Plan, Vec<Verdict>)> = unique
            .into_iter()
            .zip(plans)
            .map(|(cert, plan)| {
                let verdicts = match &plan {
                    Plan::Insert => fresh.next().unwrap_or_default(),
                    Plan::Update { .. } | Plan::Done(_) => Vec::new(),
                };
                (cert, plan, verdicts)
            })
            .collect();
        let mut work: Vec<(Cert, Plan, Vec<Verdict>)> = work
            .into_par_iter()
            .map(|(cert, plan, fresh)| {
                let verdicts = match &plan {
                    Plan::Update { before, verifier, .. } => {
                        let carried = carried_over(&cert, &before.cert, &before.verdicts);
                        renew(&cert, carried, *verifier, verification)
                    }
                    Plan::Insert | Plan::Done(_) => fresh,
                };
                (cert, plan, verdicts)
            })
            .collect();
        if is_limited {
            for (cert, plan, verdicts) in &mut work {
                if !matches!(plan, Plan::Done(_)) {
                    self.keep_within_limits(cert, verdicts, preparation, &mut intake.cost)?;
                }
            }
        }
        let left_out: Vec<LeftOut> = if offered.is_empty() {
            vec![LeftOut::default(); work.len()]
        } else {
            let count = |(offered, (cert, plan, _)): (&Cert, &(Cert, Plan, _))| match plan {
                Plan::Done(IngestOutcome::Refused(_)) => LeftOut::default(),
                _ => LeftOut::of(offered, cert),
            };
            offered.par_iter().zip(&work).map(count).collect()
        };
        drop(offered);
        let work: Vec<(Plan, Option<Prepared>)> = work
            .into_par_iter()
            .map(|(cert, plan, verdicts)| match &plan {
                Plan::Done(_) => (plan, None),
                Plan::Update { before, verifier, .. }
                    if before.cert == cert
                        && before.verdicts == verdicts
                        && *verifier >= VERIFIER =>
                {
                    (Plan::Done(IngestOutcome::Unchanged), None)
                }
                _ => (plan, Some(Prepared::new(cert, verdicts, now, &views))),
            })
            .collect();
        for (place, (plan, prepared)) in places.into_iter().zip(work) {
            match (plan, prepared) {
                (Plan::Done(outcome), _) => intake.outcomes[place] = Some(outcome),
                (plan, Some(prepared)) => {
                    intake.pending.push_back(Pending { place, prepared, plan });
                }
                (Plan::Insert | Plan::Update { .. }, None) => {
                    unreachable!("planned and not prepared")
                }
            }
        }
        intake.views = views;
        let planned = intake.pending.iter().map(|Pending { prepared, plan, .. }| {
            let id = if let Plan::Update { id, .. } = plan { Some(*id) } else { None };
            (id, &prepared.cert, &prepared.summary)
        });
        let ledger = Ledger::within(allowed.saturating_sub(intake.cost));
        intake.ledger = self.rehearse(planned, &[], now, ledger)?;
        charge(&mut intake.cost, intake.ledger.cost(), *allowed)?;
        Ok(left_out)
    }

    /// Writes prepared certificates in one transaction, at most `certs_max` of them: those of the first intake first. The
    /// time of the transaction therefore has a bound, and the caller repeats it for the rest. A certificate that somebody
    /// else has changed since it was prepared is not written, and waits for [`Self::prepare_again`].
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
        let mut left = certs_max;
        let portions: Vec<usize> = intakes
            .iter()
            .map(|intake| {
                let portion = intake.pending.len().min(left);
                left -= portion;
                portion
            })
            .collect();
        if portions.iter().all(|&portion| portion == 0) {
            return Ok(());
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
                for Pending { prepared, plan, .. } in intake.pending.iter().take(portion) {
                    let current = writer.current(prepared.cert.fingerprint())?;
                    let is_overtaken = intake.views != views
                        || writer.is_unwanted(&prepared.cert, current.is_some())?;
                    written.push(match (plan, current) {
                        _ if is_overtaken => None,
                        (Plan::Insert, None) => {
                            writer.insert(prepared)?;
                            Some(IngestOutcome::New)
                        }
                        (Plan::Update { id, seen_change, before, .. }, Some((_, change)))
                            if change == *seen_change =>
                        {
                            writer.update(*id, change, prepared, before)?;
                            Some(if before.cert == prepared.cert {
                                IngestOutcome::Unchanged
                            } else {
                                IngestOutcome::Updated
                            })
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
            for (Pending { place, prepared, .. }, outcome) in
                intake.pending.drain(..portion).zip(written.by_ref())
            {
                intake.outcomes[place] = outcome;
                if outcome.is_none() {
                    intake.overtaken.push((place, prepared.cert));
                }
            }
        }
        Ok(())
    }

    /// Drops packets that the limits do not admit.
    fn keep_within_limits(
        &self,
        cert: &mut Cert,
        verdicts: &mut Vec<Verdict>,
        preparation: &Preparation,
        cost: &mut Duration,
    ) -> Result<(), StoreError> {
        if verdicts.contains(&Verdict::Unchecked) {
            *verdicts = complete(cert, std::mem::take(verdicts), Verification::Full);
        }
        let mut failure = None;
        let mut numbers = None;
        let mut look_up = |id: KeyId| {
            // After a failure, the rest is not worth its time.
            if failure.is_some() {
                return Vec::new();
            }
            let issuers = self.issuers(id, Some(cert)).and_then(|issuers| {
                let number = numbers.get_or_insert_with(|| numbers_by_issuer(cert)).get(&id);
                for issuer in &issuers {
                    let each = cost_of_signature(&issuer.key);
                    let all = each.saturating_mul(number.copied().unwrap_or(0));
                    charge(cost, all, preparation.allowed)?;
                }
                Ok(issuers)
            });
            issuers.unwrap_or_else(|error| {
                failure = Some(error);
                Vec::new()
            })
        };
        let now = preparation.now.seconds();
        let kept = cert.within(verdicts, &preparation.limits, now, &mut look_up);
        if let Some(error) = failure {
            return Err(error);
        }
        if let Some((kept, left)) = kept {
            (*cert, *verdicts) = (kept, left);
        }
        Ok(())
    }

    /// The verdicts on a certificate, with [`Verdict::Certified`] for those signatures of other keys that keys in the store
    /// made. The cost is that of verifying each signature.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] or [`StoreError::Engine`].
    pub fn certified(&self, cert: &Cert, verdicts: &[Verdict]) -> Result<Vec<Verdict>, StoreError> {
        let mut failure = None;
        let mut look_up = |id: KeyId| {
            self.issuers(id, None).unwrap_or_else(|error| {
                failure = Some(error);
                Vec::new()
            })
        };
        let certified = cert.certified(verdicts, &mut look_up);
        failure.map_or(Ok(certified), Err)
    }

    /// The keys in the store with a key ID that may have made signatures on a certificate. Whether its owner has certified
    /// them is looked up if the certificate is given.
    fn issuers(&self, id: KeyId, on: Option<&Cert>) -> Result<Vec<PossibleIssuer>, StoreError> {
        let mut issuers = Vec::new();
        for row in self.primary_keys(id)? {
            let stored = match self.stored(CertId::new(row)) {
                Ok(Some(stored)) => stored,
                // A check reports it.
                Ok(None) | Err(StoreError::DamagedCert { .. }) => continue,
                Err(error) => return Err(error),
            };
            if let Some(key) = stored.cert.packets().next() {
                let is_certified = on.is_some_and(|on| stored.cert.is_certified_by(on));
                issuers.push(PossibleIssuer { key: key.body.to_vec(), is_certified });
            }
        }
        Ok(issuers)
    }

    /// Compares `cert` with the stored copy, and merges the two.
    fn plan(
        &self,
        cert: &mut Cert,
        joining: Joining,
        redacting: bool,
        limits: &Limits,
    ) -> Result<Plan, StoreError> {
        const TOO_MANY: Plan = Plan::Done(IngestOutcome::Refused(IngestRefusal::TooManySignatures));
        let found: Option<(i64, i64, u8)> = self.run(|connection| {
            connection
                .prepare_cached(BY_FINGERPRINT)?
                .query_row(by_fingerprint(cert.fingerprint()), |row| {
                    Ok((row.get(0)?, row.get(1)?, row.get(2)?))
                })
                .optional()
        })?;
        let Some((id, seen_change, verifier)) = found else {
            if self.operator().is_blocked(cert.fingerprint())? {
                return Ok(Plan::Done(IngestOutcome::Refused(IngestRefusal::Blocked)));
            }
            if cert.signature_count() > limits.signatures {
                *cert = cert.without_others();
            }
            let is_readable = cert.signature_count() <= limits.signatures;
            return Ok(if is_readable { Plan::Insert } else { TOO_MANY });
        };
        let same = self.run(|connection| blob::is_same(connection, id, cert.as_bytes()))?;
        // Verdicts of an older verifier are recomputed, even if nothing else is new.
        let is_current = verifier >= VERIFIER;
        if same && is_current {
            return Ok(Plan::Done(IngestOutcome::Unchanged));
        }
        let before = match self.stored(CertId::new(id)) {
            Ok(Some(before)) => before,
            // A damaged copy is never merged. The other certificates of the batch are not affected.
            Err(StoreError::DamagedCert { .. }) | Ok(None) => {
                return Ok(Plan::Done(IngestOutcome::Refused(IngestRefusal::DamagedCopy)));
            }
            Err(error) => return Err(error),
        };
        // Redacted user IDs are removed from the stored copy, too.
        let ours = redacting.then(|| self.redacted(&before.cert)).transpose()?;
        let ours = ours.as_ref().unwrap_or(&before.cert);
        let offered = if ours.signature_count() + cert.signature_count() > limits.signatures {
            cert.without_others()
        } else {
            cert.clone()
        };
        let joined = match joining {
            Joining::Replace if ours.packets().next() != offered.packets().next() => {
                Err(IngestRefusal::OtherPrimaryKey)
            }
            Joining::Replace => Ok(offered),
            Joining::Union => {
                joined(ours, &offered).map(|joined| joined.unwrap_or_else(|| ours.clone()))
            }
        };
        Ok(match joined {
            Ok(joined) if joined == before.cert && is_current => {
                // Offered parts that the store left out are counted.
                *cert = joined;
                Plan::Done(IngestOutcome::Unchanged)
            }
            // A stored certificate above the limit may still shrink.
            Ok(joined)
                if joined.signature_count()
                    > limits.signatures.max(before.cert.signature_count()) =>
            {
                TOO_MANY
            }
            Ok(joined) => {
                *cert = joined;
                Plan::Update { id, seen_change, before, verifier }
            }
            Err(refusal) => Plan::Done(IngestOutcome::Refused(refusal)),
        })
    }
}

/// Adds to a cost.
///
/// # Errors
///
/// [`StoreError::TooCostly`] above the allowed cost.
fn charge(cost: &mut Duration, more: Duration, allowed: Duration) -> Result<(), StoreError> {
    *cost = cost.saturating_add(more);
    if *cost > allowed { Err(StoreError::TooCostly { needed: *cost, allowed }) } else { Ok(()) }
}

/// The number of signatures that name each key as their issuer.
fn numbers_by_issuer(cert: &Cert) -> HashMap<KeyId, u32> {
    let mut numbers = HashMap::new();
    for packet in cert.packets().filter(|packet| packet.tag == Tag::SIGNATURE) {
        for (issuer, _) in Signature::parse(packet.body).iter().flat_map(Signature::issuers) {
            *numbers.entry(issuer).or_default() += 1;
        }
    }
    numbers
}

/// The cost of verifying one signature by the key with this packet body.
pub(crate) fn cost_of_signature(key: &[u8]) -> Duration {
    let packet = PacketRef { tag: Tag::PUBLIC_KEY, body: key };
    Key::parse(packet).map_or(Duration::ZERO, |key| key.verification_cost())
}

/// Merges copies of one certificate within a batch. Returns each certificate once. For each input it also
/// returns the index of the merged certificate, and whether the input added anything to the copies before
/// it. The time grows with the bytes, not with the bytes times the copies.
fn join_within(certs: Vec<Cert>) -> (Vec<Cert>, Vec<(usize, bool)>) {
    let mut groups: Vec<Group> = Vec::with_capacity(certs.len());
    let mut places = Vec::with_capacity(certs.len());
    let mut known: HashMap<Fingerprint, Vec<usize>> = HashMap::with_capacity(certs.len());
    for cert in certs {
        let same = known.entry(cert.fingerprint()).or_default();
        // A copy that fits none of the groups stays a certificate of its own in the batch, and is refused when it is
        // written.
        let place = same.iter().find_map(|&at| Some((at, groups[at].add(&cert)?)));
        places.push(place.unwrap_or((groups.len(), true)));
        if place.is_none() {
            same.push(groups.len());
            groups.push(Group::new(cert));
        }
    }
    (groups.into_iter().map(|group| union(group.copies)).collect(), places)
}

/// Copies of one certificate, with the same primary key. Their union is within the bounds of a certificate.
struct Group {
    copies: Vec<Cert>,
    /// SHA-256 of each component, and of each signature with its component. Empty for a single copy.
    seen: HashSet<[u8; 32]>,
    bytes: usize,
    packets: usize,
}

impl Group {
    fn new(cert: Cert) -> Self {
        let (bytes, packets) = (cert.as_bytes().len(), cert.packets().len());
        Self { copies: vec![cert], seen: HashSet::new(), bytes, packets }
    }

    /// Adds a copy. Returns whether it has anything that the copies before it do not have, or `None` if it has another
    /// primary key, or the union would be too large.
    fn add(&mut self, cert: &Cert) -> Option<bool> {
        let first = &self.copies[0];
        if first.packets().next() != cert.packets().next() {
            return None;
        }
        if self.copies.last() == Some(cert) {
            return Some(false);
        }
        if self.seen.is_empty() {
            self.seen.extend(packet_digests(first));
        }
        let news: Vec<_> =
            packet_digests(cert).filter(|digest| !self.seen.contains(digest)).collect();
        if news.is_empty() {
            return Some(false);
        }
        let mut cert = cert.clone();
        self.bytes += cert.as_bytes().len();
        self.packets += cert.packets().len();
        if self.bytes > CERT_BYTES_MAX || self.packets > PACKETS_MAX {
            // The copies may have much in common.
            let whole = union(std::mem::take(&mut self.copies));
            let larger = joined(&whole, &cert);
            let fits = larger.is_ok();
            cert = larger.ok().flatten().unwrap_or(whole);
            (self.bytes, self.packets) = (cert.as_bytes().len(), cert.packets().len());
            self.copies.push(cert);
            if !fits {
                return None;
            }
        } else {
            self.copies.push(cert);
        }
        self.seen.extend(news);
        Some(true)
    }
}

/// The union of one or more copies, joined in pairs.
fn union(mut copies: Vec<Cert>) -> Cert {
    while copies.len() > 1 {
        let join = |pair: &[Cert]| match pair {
            [one, other] => one.union(other),
            rest => rest[0].clone(),
        };
        copies = copies.chunks(2).map(join).collect();
    }
    copies.swap_remove(0)
}

/// SHA-256 of each component, and of each signature with its component.
pub(crate) fn packet_digests(cert: &Cert) -> impl Iterator<Item = [u8; 32]> + '_ {
    let mut component = [0; 32];
    cert.packets().map(move |packet| {
        if packet.tag == Tag::SIGNATURE {
            return sha256(&[b"signature", &component, packet.body]);
        }
        component = sha256(&[b"component", &[packet.tag.0], packet.body]);
        component
    })
}

/// The union of the stored copy with a new one. `None` if the new copy adds nothing.
fn joined(ours: &Cert, theirs: &Cert) -> Result<Option<Cert>, IngestRefusal> {
    if ours.packets().next() != theirs.packets().next() {
        return Err(IngestRefusal::OtherPrimaryKey);
    }
    let joined = ours.union(theirs);
    if joined.as_bytes().len() > CERT_BYTES_MAX || joined.packets().len() > PACKETS_MAX {
        return Err(IngestRefusal::TooLarge);
    }
    Ok((joined.as_bytes() != ours.as_bytes()).then_some(joined))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A certificate with user IDs that have signatures. `0` and `1` are two certificates.
    fn cert(which: u8, parts: &[(u8, Vec<u8>)]) -> Cert {
        let mut raw = vec![0xc6, 13, 4, 0, 0, 0, which, 1, 0, 9, 1, 1, 0, 2, 3];
        for (name, signatures) in parts {
            raw.extend([0xcd, 1, *name]);
            for signature in signatures {
                raw.extend([0xc2, 2, 9, *signature]);
            }
        }
        Cert::parse(&raw).unwrap()
    }

    fn any_cert() -> impl Strategy<Value = Cert> {
        let part = (0u8..3, prop::collection::vec(0u8..4, 0..3));
        (0u8..2, prop::collection::vec(part, 0..4)).prop_map(|(which, parts)| cert(which, &parts))
    }

    proptest! {
        #[test]
        fn copies_in_a_batch_are_joined_as_one_by_one(
            certs in prop::collection::vec(any_cert(), 0..12),
        ) {
            let mut unique: Vec<Cert> = Vec::new();
            let mut places = Vec::new();
            for cert in &certs {
                let found = unique.iter().position(|one| one.fingerprint() == cert.fingerprint());
                if let Some(at) = found {
                    let larger = joined(&unique[at], cert).unwrap();
                    places.push((at, larger.is_some()));
                    unique[at] = larger.unwrap_or_else(|| unique[at].clone());
                } else {
                    places.push((unique.len(), true));
                    unique.push(cert.clone());
                }
            }
            prop_assert_eq!(join_within(certs), (unique, places));
        }
    }

    #[test]
    fn the_time_for_copies_does_not_grow_with_their_square() {
        let names: Vec<_> = (0..=255).map(|name| (name, vec![])).collect();
        let copies: Vec<Cert> = (0..20_000usize)
            .map(|at| {
                cert(0, &[names[at % 256].clone(), (7, vec![u8::try_from(at / 256).unwrap()])])
            })
            .collect();
        let (unique, places) = join_within(copies);
        assert_eq!((unique.len(), places.len()), (1, 20_000));
        assert_eq!(unique[0].packets().len(), 1 + 256 + 79);
    }
}
