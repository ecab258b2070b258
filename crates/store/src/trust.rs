//! The web of trust over the certificates of a store, updated whenever they change.
//!
//! The result for each certificate is a row of its own ([`Standing`]), with the span of time for which it is
//! true. It depends on the certificate and on the role of its issuers as introducers. A change therefore
//! recomputes only the certificates that it can affect, in the same transaction. The signature of an
//! introducer is verified when it is first needed, and its verdict is stored in the row.
//!
//! A store without ultimately trusted keys has no web of trust. The web is created when the first key becomes
//! ultimately trusted.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use rayon::prelude::*;
use rusqlite::{Connection, OptionalExtension as _};
use talaria_cert::{
    Cert, CertificationVerifier, Fingerprint, Gnupg, Key, KeyId, KeySetup, PacketRef, Span,
    Summary, Tag, Timestamp, Verdict,
};
use talaria_trust::{
    Certification, Introducer, IntroducerCert, Level, Rules, Scope, Standing, Subject, SubjectId,
    certifiers, evaluate, issuers,
};

use crate::blob::{self, Integrity, Part};
use crate::derive::Failure;
use crate::error::StoreError;
use crate::ledger::Ledger;
use crate::meta::{self, Entry};
use crate::number::CertId;
use crate::sorter::Sorter;
use crate::store::Store;
use crate::{find, owner, revoker, row, sums};

/// The stored name of GnuPG's 2.2 rules in `meta`.
const GNUPG_2_2: &str = "2.2";
/// Number of certificates that are held in memory at once.
const CHUNK: usize = 512;

/// Once a chunk has this many bytes of certificates, no further certificate is added to it: 16 MiB.
const CHUNK_BYTES: usize = 16 << 20;
/// Memory for sorting before files are used: 64 MiB.
const SORT_BYTES: usize = 64 << 20;

/// The result of an evaluation.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct TrustReport {
    /// Number of evaluations of a certificate.
    pub evaluated: u64,
    /// Number of verified signatures.
    pub computed: u64,
    /// Number of certificates whose validity changed.
    pub changed: u64,
}

/// A certification by an introducer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Certifier {
    /// Index of the user ID in the summary.
    pub user_id: usize,
    /// Number of the introducer's certificate in the store.
    pub cert: CertId,
    /// The introducer's role in the web of trust.
    pub introducer: Introducer,
    /// Creation time of the certification.
    pub created: Timestamp,
    /// Expiry time of the certification, `None` for never.
    pub expires: Option<Timestamp>,
}

/// A snapshot of the web of trust for readers. Rows that are no longer true are recomputed in memory.
#[derive(Debug, Default)]
pub struct TrustView {
    again: HashMap<i64, Option<Standing>>,
}

impl TrustView {
    /// The standing of a certificate of `store`. `None` if the web of trust has no result for it.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] or [`StoreError::Engine`].
    pub fn standing(&self, store: &Store, id: CertId) -> Result<Option<Standing>, StoreError> {
        if let Some(standing) = self.again.get(&id.get()) {
            return Ok(standing.clone());
        }
        Ok(store.run(|connection| Node::load(connection, id.get()))?.standing)
    }

    /// The certificates that may have a fully valid user ID, found in one pass over the results. For a listing, this costs less
    /// than a look-up for each certificate.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] or [`StoreError::Engine`].
    pub fn candidates(&self, store: &Store) -> Result<HashSet<CertId>, StoreError> {
        let mut found = store.run(|connection| {
            let mut statement = connection.prepare_cached("SELECT cert, standing FROM trust")?;
            let mut rows = statement.query([])?;
            let mut found = HashSet::new();
            while let Some(row) = rows.next()? {
                if Node::may_be_full(row.get_ref(1)?.as_bytes()?) {
                    found.insert(CertId::new(row.get(0)?));
                }
            }
            Ok(found)
        })?;
        found.extend(self.again.keys().map(|id| CertId::new(*id)));
        Ok(found)
    }
}

/// Finds the introducers that certified certificates, with a cache.
pub struct Certifiers<'s> {
    store: &'s Store,
    web: Option<Evaluation<'s>>,
    now: u32,
}

impl<'s> Certifiers<'s> {
    /// The certifications by introducers at `now`.
    pub(crate) fn new(store: &'s Store, now: u32) -> Result<Self, StoreError> {
        let connection = &store.connection;
        let web = || -> rusqlite::Result<Option<Evaluation<'_>>> {
            let Some(mut web) = Evaluation::of(connection, now)? else { return Ok(None) };
            web.spread(due(connection, now)?)?;
            Ok(Some(web))
        };
        let web = web().map_err(|source| StoreError::engine(&store.path, source))?;
        Ok(Self { store, web, now })
    }

    /// The introducers with a valid certification on a certificate, the most trusted of each user ID first.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] or [`StoreError::Engine`].
    pub fn of(&mut self, id: CertId) -> Result<Vec<Certifier>, StoreError> {
        self.find(id.get(), false)
    }

    /// The introducers whose certifications decided the standing of a certificate. Further introducers that
    /// could not change the result are left out. No signature is verified.
    ///
    /// # Errors
    ///
    /// As [`Self::of`].
    pub fn that_decided(&mut self, id: CertId) -> Result<Vec<Certifier>, StoreError> {
        self.find(id.get(), true)
    }

    fn find(&mut self, id: i64, only_known: bool) -> Result<Vec<Certifier>, StoreError> {
        let Self { store, web: Some(web), now } = self else { return Ok(Vec::new()) };
        let now = *now;
        store.run(|connection| {
            let Some((cert, summary)) = read(connection, id, now)? else { return Ok(Vec::new()) };
            let voices = web.voices(issuers(&cert))?;
            let subject = Subject::of(&cert, &summary, web.rules.gnupg, now);
            let known = web.node(id)?;
            let mut oracle = Oracle { only_known, ..Oracle::new(&cert, known, &voices) };
            let found = certifiers(
                &subject,
                now,
                |id| voices.named(id),
                |issuer, user_id, certification| oracle.made(issuer, user_id, certification),
            );
            let certifier =
                |(user_id, issuer, certification): (_, &IntroducerCert, &Certification<'_>)| {
                    Certifier {
                        user_id,
                        cert: CertId::new(issuer.cert),
                        introducer: issuer.introducer.clone(),
                        created: certification.created.into(),
                        expires: Some(certification.expires)
                            .filter(|&time| time != 0)
                            .map(Timestamp::new),
                    }
                };
            Ok(found.into_iter().map(certifier).collect())
        })
    }
}

/// Brings the web of trust to `now`, and creates it if keys are ultimately trusted. With `anew`, recomputes it from the
/// certificates alone.
pub(crate) fn update(
    connection: &Connection,
    anew: bool,
    now: u32,
    ledger: &Ledger,
) -> rusqlite::Result<TrustReport> {
    if rules(connection)?.is_none() {
        if ultimates(connection)?.is_empty() {
            return Ok(TrustReport::default());
        }
        set_rules(connection, Rules::default())?;
        return renew(connection, now, ledger);
    }
    if anew {
        let before = said(connection)?;
        let report = renew(connection, now, ledger)?;
        let after = said(connection)?;
        let differs = |id: &&i64| before.get(id) != after.get(id);
        let ids: BTreeSet<&i64> = before.keys().chain(after.keys()).collect();
        let changed = ids.into_iter().filter(differs).count() as u64;
        return Ok(TrustReport { changed, ..report });
    }
    let web = Evaluation::with(connection, now, ledger)?;
    web.map_or(Ok(TrustReport::default()), |web| web.recompute(BTreeSet::new()))
}

/// Records owner trust, and updates the web of trust.
pub(crate) fn set_owners(
    connection: &Connection,
    entries: &[(Fingerprint, u8)],
    now: u32,
    ledger: &Ledger,
) -> rusqlite::Result<TrustReport> {
    let mut changed = BTreeSet::new();
    for (fingerprint, value) in entries {
        owner::set(connection, &fingerprint.to_stored(), *value)?;
        changed.extend(find(connection, *fingerprint)?);
    }
    if rules(connection)?.is_none() {
        let own = |value: u8| Level::from_number(value) == Some(Level::Ultimate);
        if !entries.iter().any(|&(_, value)| own(value)) {
            return Ok(TrustReport::default());
        }
        set_rules(connection, Rules::default())?;
        return renew(connection, now, ledger);
    }
    Evaluation::with(connection, now, ledger)?
        .map_or(Ok(TrustReport::default()), |web| web.recompute(changed))
}

/// The web of trust at `now`, without writing.
pub(crate) fn view(connection: &Connection, now: u32) -> rusqlite::Result<TrustView> {
    let due = due(connection, now)?;
    if due.is_empty() {
        return Ok(TrustView::default());
    }
    let Some(mut web) = Evaluation::of(connection, now)? else { return Ok(TrustView::default()) };
    web.spread(due)?;
    let again = web.nodes.into_iter().map(|(id, node)| (id, node.standing)).collect();
    Ok(TrustView { again })
}

/// Whether the store has a web of trust.
pub(crate) fn is_kept(connection: &Connection) -> rusqlite::Result<bool> {
    rules(connection).map(|rules| rules.is_some())
}

/// Changes to be made, for a rehearsal.
#[derive(Default)]
pub(crate) struct Planned<'p> {
    /// The certificates to be written, by number, and `None` for those to be deleted. New ones have numbers below 0.
    pub(crate) certs: HashMap<i64, Option<(&'p Cert, &'p Summary)>>,
    /// Owner trust to be recorded, by stored fingerprint.
    pub(crate) owners: HashMap<Vec<u8>, u8>,
    /// The rules, if the web is to be recomputed from the certificates alone.
    pub(crate) anew: Option<Rules>,
}

/// Evaluates what will change in the web of trust when planned changes are made, without writing, and keeps the verdicts on
/// signatures in `ledger`.
pub(crate) fn rehearse(
    connection: &Connection,
    planned: Planned<'_>,
    now: u32,
    ledger: &mut Ledger,
) -> rusqlite::Result<()> {
    let mut index = None;
    let mut web = match Evaluation::of(connection, now)? {
        Some(web) => web,
        None if begins(connection, &planned)? => {
            index = Some(FirstIndex::make(connection)?);
            let rules = planned.anew.unwrap_or_default();
            let mut web = Evaluation::new(connection, rules, now);
            (web.from_nothing, web.is_first) = (true, true);
            web
        }
        None => return Ok(()),
    };
    let mut start: BTreeSet<i64> = planned.certs.keys().copied().collect();
    for stored in planned.owners.keys() {
        if let Some((fingerprint, _)) = Fingerprint::from_stored(stored) {
            start.extend(find(connection, fingerprint)?);
        }
    }
    if let Some(rules) = planned.anew {
        (web.rules, web.from_nothing) = (rules, true);
    }
    if web.from_nothing {
        start.extend(ultimates(connection)?);
    } else {
        start.extend(due(connection, now)?);
    }
    for (&id, cert) in &planned.certs {
        for issuer in cert.iter().flat_map(|(cert, _)| issuers(cert)) {
            web.planned_by.entry(issuer).or_default().push(id);
        }
    }
    (web.planned, web.fresh) = (planned, Some(Vec::new()));
    web.spread(start)?;
    ledger.add_certifications(web.fresh.take().unwrap_or_default());
    drop((web, index));
    Ok(())
}

/// Whether a store without a web of trust gets one by planned changes of trust.
fn begins(connection: &Connection, planned: &Planned<'_>) -> rusqlite::Result<bool> {
    let is_own = |&value: &u8| Level::from_number(value) == Some(Level::Ultimate);
    let of_trust = planned.anew.is_some() || planned.owners.values().any(is_own);
    Ok(of_trust || planned.certs.is_empty() && !ultimates(connection)?.is_empty())
}

/// The index of issuers of a web of trust that does not exist yet, as a temporary table: the store itself gets the index under
/// the lock.
struct FirstIndex<'c>(&'c Connection);

impl<'c> FirstIndex<'c> {
    fn make(connection: &'c Connection) -> rusqlite::Result<Self> {
        let index = Self(connection);
        // In a file, since it grows with the store.
        connection.execute_batch(
            "PRAGMA temp_store = FILE; \
             CREATE TEMP TABLE first_certifier (handle, cert, PRIMARY KEY (handle, cert)) WITHOUT ROWID;",
        )?;
        index_issuers(connection, "temp.first_certifier")?;
        Ok(index)
    }
}

impl Drop for FirstIndex<'_> {
    fn drop(&mut self) {
        // Setting this deletes all temporary tables.
        let _ = self.0.execute_batch("PRAGMA temp_store = MEMORY");
    }
}

/// Updates the web of trust after certificates changed, within a transaction.
pub(crate) fn follow(
    connection: &Connection,
    changed: impl IntoIterator<Item = i64>,
    now: u32,
    ledger: &Ledger,
) -> rusqlite::Result<()> {
    let Some(mut web) = Evaluation::with(connection, now, ledger)? else { return Ok(()) };
    let changed: BTreeSet<i64> = changed.into_iter().collect();
    for &id in &changed {
        if let Some((cert, _)) = read(connection, id, now)? {
            web.note_issuers(id, &cert)?;
        }
    }
    web.recompute(changed).map(drop)
}

/// Updates the web of trust after certificates were deleted, within a transaction.
pub(crate) fn forget(
    connection: &Connection,
    gone: &[(i64, Cert)],
    now: u32,
    ledger: &Ledger,
) -> rusqlite::Result<()> {
    let Some(mut web) = Evaluation::with(connection, now, ledger)? else { return Ok(()) };
    let mut delete =
        connection.prepare_cached("DELETE FROM certifier WHERE handle = ?1 AND cert = ?2")?;
    for (id, cert) in gone {
        web.keys.insert(*id, IssuerKey::of(cert.as_bytes()).map(Arc::new));
        for issuer in issuers(cert) {
            delete.execute((issuer.0.cast_signed(), id))?;
        }
    }
    web.recompute(gone.iter().map(|(id, _)| *id).collect()).map(drop)
}

/// The stored validity of user IDs, for all certificates with a standing.
fn said(connection: &Connection) -> rusqlite::Result<HashMap<i64, Vec<Level>>> {
    let mut rows = connection.prepare("SELECT cert, start, until, standing FROM trust")?;
    let said = rows.query_map([], |row| {
        let id = row.get(0)?;
        let span = (row.get(1)?, row.get(2)?);
        let node = Node::read(id, span, row.get_ref(3)?.as_bytes()?);
        let levels = node.and_then(|node| node.standing).map(|standing| standing.levels);
        Ok((id, levels.unwrap_or_default()))
    })?;
    let mut said = said.collect::<rusqlite::Result<HashMap<_, Vec<_>>>>()?;
    said.retain(|_, levels| levels.iter().any(|&level| level != Level::Unknown));
    Ok(said)
}

/// Creates the web of trust if the store has none yet but has ultimately trusted keys.
pub(crate) fn adopt(connection: &Connection, now: u32) -> rusqlite::Result<()> {
    if ultimates(connection)?.is_empty() {
        return Ok(());
    }
    set_rules(connection, Rules::default())?;
    renew(connection, now, &Ledger::default()).map(drop)
}

/// Recomputes the web of trust from the certificates alone, if the store has rules for it.
pub(crate) fn renew(
    connection: &Connection,
    now: u32,
    ledger: &Ledger,
) -> rusqlite::Result<TrustReport> {
    connection
        .execute_batch("DELETE FROM trust; DELETE FROM introducer; DELETE FROM certifier;")?;
    let Some(web) = Evaluation::with(connection, now, ledger)? else {
        return Ok(TrustReport::default());
    };
    index_issuers(connection, "certifier")?;
    let own = ultimates(connection)?;
    web.recompute(own)
}

/// The certificates whose stored standing differs from one that is recomputed from the certificates alone. The
/// time of the comparison is the latest start of a stored span.
pub(crate) fn misfits(connection: &Connection) -> rusqlite::Result<Vec<i64>> {
    let stored: HashMap<i64, Option<Node>> = connection
        .prepare("SELECT cert, start, until, standing FROM trust")?
        .query_map([], |row| {
            let id = row.get(0)?;
            Ok((id, Node::read(id, (row.get(1)?, row.get(2)?), row.get_ref(3)?.as_bytes()?)))
        })?
        .collect::<rusqlite::Result<_>>()?;
    let standings = stored.values().flatten().filter_map(|node| node.standing.as_ref());
    let now = standings.map(|standing| standing.holds.from).max().unwrap_or(0);
    let mut misfits: BTreeSet<i64> =
        stored.iter().filter(|(_, node)| node.is_none()).map(|(id, _)| *id).collect();
    let Some(mut web) = Evaluation::of(connection, now)? else {
        return Ok(stored.into_keys().collect());
    };
    web.from_nothing = true;
    web.spread(ultimates(connection)?)?;
    let says_nothing = |node: &Node| {
        let levels = node.standing.as_ref().map_or(&[][..], |standing| &standing.levels[..]);
        node.introducer().is_none() && levels.iter().all(|&level| level == Level::Unknown)
    };
    let said = |node: &Node| node.standing.clone().map(|s| (s.levels, s.introducer));
    let nobody = Node::default();
    for id in stored.keys().chain(web.nodes.keys()).copied() {
        let ours = web.nodes.get(&id).unwrap_or(&nobody);
        let theirs = stored.get(&id).and_then(Option::as_ref).unwrap_or(&nobody);
        let fits = said(ours) == said(theirs) || says_nothing(ours) && says_nothing(theirs);
        if !fits {
            misfits.insert(id);
        }
    }
    let mut known =
        connection.prepare("SELECT 1 FROM introducer WHERE handle = ?1 AND cert = ?2")?;
    for (&id, key) in &web.keys {
        let Some(key) = key else { continue };
        let introduces = web.nodes.get(&id).is_some_and(|node| node.introducer().is_some());
        if introduces != known.exists((key.id.0.cast_signed(), id))? {
            misfits.insert(id);
        }
    }
    // Additional rows are harmless: they only add certificates to evaluate.
    let mut known =
        connection.prepare("SELECT 1 FROM certifier WHERE handle = ?1 AND cert = ?2")?;
    each_with_issuers(connection, |id, issuers| {
        for issuer in issuers {
            if !known.exists((issuer.0.cast_signed(), id))? {
                misfits.insert(id);
            }
        }
        Ok(())
    })?;
    Ok(misfits.into_iter().collect())
}

/// Visits all certificates with the issuers of their certifications.
fn each_with_issuers(
    connection: &Connection,
    mut visit: impl FnMut(i64, Vec<KeyId>) -> rusqlite::Result<()>,
) -> rusqlite::Result<()> {
    let mut after = 0;
    loop {
        let blobs = blob::batch(connection, after, (CHUNK, CHUNK_BYTES), Part::ALL)?;
        let Some(last) = blobs.last() else { return Ok(()) };
        after = last.id;
        let found: Vec<(i64, Vec<KeyId>)> = blobs
            .into_par_iter()
            .map(|blob| {
                let is_damaged = matches!(blob.integrity(), Integrity::Bytes | Integrity::Stale);
                let cert = Cert::from_canonical(blob.bytes).ok().filter(|_| !is_damaged);
                (blob.id, cert.map_or(vec![], |cert| issuers(&cert)))
            })
            .collect();
        found.into_iter().try_for_each(|(id, issuers)| visit(id, issuers))?;
    }
}

/// Fills the table of certifications by issuer.
fn index_issuers(connection: &Connection, table: &str) -> rusqlite::Result<()> {
    let failed = |failure| match failure {
        Failure::Engine(error) => error,
        Failure::Io(error) => rusqlite::Error::ToSqlConversionFailure(Box::new(error)),
    };
    let mut sorter = Sorter::<16>::new(&std::env::temp_dir(), SORT_BYTES);
    each_with_issuers(connection, |id, issuers| {
        for issuer in issuers {
            let mut record = [0; 16];
            record[..8].copy_from_slice(&(issuer.0 ^ 1 << 63).to_be_bytes());
            record[8..].copy_from_slice(&id.to_be_bytes());
            sorter.push(record).map_err(|error| failed(error.into()))?;
        }
        Ok(())
    })?;
    let mut insert = connection.prepare(&format!("INSERT INTO {table} VALUES (?1, ?2)"))?;
    let drained: Result<(), Failure> = sorter.drain(|record| {
        let number = |octets: &[u8]| octets.iter().fold(0, |n: u64, &o| n << 8 | u64::from(o));
        let handle = (number(&record[..8]) ^ 1 << 63).cast_signed();
        insert.execute((handle, number(&record[8..]).cast_signed()))?;
        Ok(())
    });
    drained.map_err(failed)
}

pub(crate) fn rules(connection: &Connection) -> rusqlite::Result<Option<Rules>> {
    let text: String = match meta::get(connection, RULES)? {
        Entry::Good(text) => text,
        Entry::Missing => return Ok(None),
        Entry::Damaged => return Ok(Some(strictest_rules())),
    };
    let mut words = text.split(' ');
    let mut next = |default| words.next().and_then(|word| word.parse().ok()).unwrap_or(default);
    let mut rules = Rules::default();
    for rule in [&mut rules.completes, &mut rules.marginals, &mut rules.depth] {
        *rule = next(*rule);
    }
    rules.gnupg = if words.next() == Some(GNUPG_2_2) { Gnupg::V2_2 } else { Gnupg::V2_4 };
    Ok(Some(rules))
}

/// The entry of `meta` with the rules.
const RULES: &str = "trust";

/// The rules as long as nobody knows which ones the user has set: nobody is an introducer but the user, and no number of marginal
/// certifications suffices.
fn strictest_rules() -> Rules {
    let mut rules = Rules::default();
    (rules.completes, rules.marginals, rules.depth) = (u8::MAX, u8::MAX, 1);
    rules.gnupg = Gnupg::V2_4;
    rules
}

pub(crate) fn set_rules(connection: &Connection, rules: Rules) -> rusqlite::Result<()> {
    let Rules { completes, marginals, depth, gnupg, .. } = rules;
    let gnupg = match gnupg {
        Gnupg::V2_2 => GNUPG_2_2,
        Gnupg::V2_4 => "2.4",
    };
    meta::set(connection, RULES, format!("{completes} {marginals} {depth} {gnupg}"))
}

/// The certificates of the store that are ultimately trusted.
fn ultimates(connection: &Connection) -> rusqlite::Result<BTreeSet<i64>> {
    let mut found = BTreeSet::new();
    for row in owner::all(connection)? {
        let is_own = Level::from_number(row.value) == Some(Level::Ultimate);
        if let Some(fingerprint) = row.fingerprint().filter(|_| is_own) {
            found.extend(find(connection, fingerprint)?);
        }
    }
    Ok(found)
}

fn find(connection: &Connection, fingerprint: Fingerprint) -> rusqlite::Result<Option<i64>> {
    Ok(find::row(connection, fingerprint)?.map(|found| found.id))
}

/// The certificates whose standing is not true at `now`.
fn due(connection: &Connection, now: u32) -> rusqlite::Result<BTreeSet<i64>> {
    // Clocks hardly ever go back, but each of the two searches is one step in an index.
    connection
        .prepare_cached(
            "SELECT cert FROM trust WHERE until <= ?1 UNION ALL SELECT cert FROM trust WHERE start > ?1",
        )?
        .query_map([now], |row| row.get(0))?
        .collect()
}

/// A certificate and its summary at `now`. `None` if the certificate is missing or cannot be read.
fn read(connection: &Connection, id: i64, now: u32) -> rusqlite::Result<Option<(Cert, Summary)>> {
    let (Some(row), Some(blob)) = (row::get(connection, id)?, blob::intact(connection, id)?) else {
        return Ok(None);
    };
    let Some((cert, verdicts)) = blob.decode() else { return Ok(None) };
    let stored = row.summary().filter(|stored| stored.fingerprint() == cert.fingerprint());
    if let Some(summary) = stored.filter(|stored| stored.holds.contains(now)) {
        return Ok(Some((cert, summary)));
    }
    let mut summary = Summary::evaluate(&cert, &verdicts, now);
    revoker::ask(connection, &cert, &mut summary, now, &Ledger::default())?;
    Ok(Some((cert, summary)))
}

/// The stored data of a certificate in the web of trust.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
struct Node {
    standing: Option<Standing>,
    /// Sorted verdicts: the first 15 octets of a digest over issuer, component and signature, then 1 for a
    /// good signature.
    verdicts: Vec<[u8; 16]>,
}

impl Node {
    fn load(connection: &Connection, id: i64) -> rusqlite::Result<Self> {
        let node = connection
            .prepare_cached("SELECT start, until, standing FROM trust WHERE cert = ?1")?
            .query_row([id], |row| {
                Ok(Self::read(id, (row.get(0)?, row.get(1)?), row.get_ref(2)?.as_bytes()?))
            })
            .optional()?;
        // An unreadable row counts as no standing at all.
        Ok(node.flatten().unwrap_or_default())
    }

    /// Reads a row. `None` if the row is damaged.
    fn read(id: i64, (start, until): (i64, i64), stored: &[u8]) -> Option<Self> {
        let holds = Span { from: start.try_into().ok()?, until: until.try_into().ok()? };
        let (stored, sum) = stored.split_last_chunk::<4>()?;
        if *sum != Self::sum(id, holds, stored) {
            return None;
        }
        let (&[FORMAT, count @ ..], mut rest) = stored.split_first_chunk::<3>()? else {
            return None;
        };
        let mut take = |count: usize| {
            let (taken, behind) = rest.split_at_checked(count)?;
            rest = behind;
            Some(taken)
        };
        let levels = take(usize::from(u16::from_be_bytes(count)))?;
        let levels = levels.iter().map(|&number| Level::from_number(number));
        let levels = levels.collect::<Option<Vec<_>>>()?;
        let introducer = match take(1)? {
            [0] => None,
            [scoped @ 1..=2] => {
                let fields = take(3)?;
                let (depth, reach) = (fields[0], fields[2]);
                let level = Level::from_number(fields[1])?;
                let scope = if *scoped == 2 {
                    let len = u16::from_be_bytes(take(2)?.try_into().ok()?);
                    Some(Scope::new(take(usize::from(len))?))
                } else {
                    None
                };
                Some(Introducer { depth, level, reach, scope })
            }
            _ => return None,
        };
        let (verdicts, []) = rest.as_chunks::<16>() else { return None };
        let standing = Some(Standing { levels, introducer, holds });
        Some(Self { standing, verdicts: verdicts.to_vec() })
    }

    /// Whether the stored form may have a fully valid user ID. Its checksum is not compared.
    fn may_be_full(stored: &[u8]) -> bool {
        let Some((&[_, count @ ..], rest)) = stored.split_first_chunk::<3>() else { return true };
        let levels = rest.get(..usize::from(u16::from_be_bytes(count)));
        levels.is_none_or(|levels| levels.iter().any(|level| *level >= Level::Full as u8))
    }

    fn write(&self, id: i64, standing: &Standing) -> Vec<u8> {
        // A certificate has no room for more components or longer scopes.
        let short = |count: usize| u16::try_from(count).unwrap_or(u16::MAX).to_be_bytes();
        let mut out = vec![FORMAT];
        out.extend(short(standing.levels.len()));
        out.extend(standing.levels.iter().map(|&level| level as u8));
        match &standing.introducer {
            None => out.push(0),
            Some(Introducer { depth, level, reach, scope }) => {
                out.extend([1 + u8::from(scope.is_some()), *depth, *level as u8, *reach]);
                if let Some(scope) = scope {
                    out.extend(short(scope.as_bytes().len()));
                    out.extend_from_slice(scope.as_bytes());
                }
            }
        }
        out.extend_from_slice(self.verdicts.as_flattened());
        out.extend(Self::sum(id, standing.holds, &out));
        out
    }

    /// The checksum of a row. Without it, a damaged verdict would look like a computed one.
    fn sum(id: i64, holds: Span, stored: &[u8]) -> [u8; 4] {
        let Span { from, until } = holds;
        let sum = sums::of(&[&id.to_be_bytes(), &from.to_be_bytes(), &until.to_be_bytes(), stored]);
        *sum.to_be_bytes().last_chunk().expect("8 octets")
    }

    fn introducer(&self) -> Option<&Introducer> {
        self.standing.as_ref()?.introducer.as_ref()
    }

    fn verdict(&self, name: &[u8; 15]) -> Option<bool> {
        let at = self
            .verdicts
            .binary_search_by_key(name, |entry| *entry.first_chunk().expect("16 octets"))
            .ok()?;
        Some(self.verdicts[at][15] == 1)
    }
}

/// First octet of the stored form of a standing.
const FORMAT: u8 = 1;

/// The primary key of an introducer.
struct IssuerKey {
    id: KeyId,
    fingerprint: Vec<u8>,
    created: u32,
    body: Vec<u8>,
    setup: KeySetup,
}

impl IssuerKey {
    /// Reads the primary key of a certificate.
    fn of(cert: &[u8]) -> Option<Self> {
        let packet = talaria_cert::first_packet(cert)?;
        let key = Key::parse(packet).ok()?;
        let fingerprint = key.fingerprint();
        Some(Self {
            id: fingerprint.key_id(),
            fingerprint: fingerprint.to_stored(),
            created: key.created,
            body: packet.body.to_vec(),
            setup: KeySetup::default(),
        })
    }

    /// The name of the verdict on a signature of this key on `component`. The component is part of the name,
    /// because the same signature may be on several components.
    fn verdict_name(&self, component: PacketRef<'_>, signature: &[u8]) -> [u8; 15] {
        let length = (component.body.len() as u64).to_be_bytes();
        let parts = [&self.fingerprint[..], &[component.tag.0], &length, component.body, signature];
        *talaria_cert::sha256(&parts).first_chunk().expect("32 octets")
    }
}

/// A certificate to evaluate.
struct Work {
    id: i64,
    cert: Cert,
    summary: Summary,
    owner: Level,
    issuers: Vec<KeyId>,
}

/// The web of trust within a transaction, or in a rehearsal of one.
struct Evaluation<'c> {
    connection: &'c Connection,
    rules: Rules,
    now: u32,
    /// Verdicts that are known from a rehearsal.
    ledger: Option<&'c Ledger>,
    /// In a rehearsal: the changes to be made.
    planned: Planned<'c>,
    /// In a rehearsal: the planned certificates with a certification that names this key ID as its issuer.
    planned_by: HashMap<KeyId, Vec<i64>>,
    /// In a rehearsal: the verdicts so far.
    fresh: Option<Vec<[u8; 16]>>,
    /// In a rehearsal: whether the store has no web yet, and a temporary index of issuers ([`FirstIndex`]).
    is_first: bool,
    /// Whether stored rows of the web are ignored.
    from_nothing: bool,
    /// The nodes that were read or computed.
    nodes: HashMap<i64, Node>,
    /// The nodes that differ from the stored rows.
    touched: BTreeSet<i64>,
    /// The introducers by key ID, for the key IDs looked up so far.
    introducers: HashMap<KeyId, Vec<i64>>,
    keys: HashMap<i64, Option<Arc<IssuerKey>>>,
    report: TrustReport,
}

impl<'c> Evaluation<'c> {
    /// Loads the rules. `None` if the store has no web of trust.
    fn of(connection: &'c Connection, now: u32) -> rusqlite::Result<Option<Self>> {
        Ok(rules(connection)?.map(|rules| Self::new(connection, rules, now)))
    }

    fn new(connection: &'c Connection, rules: Rules, now: u32) -> Self {
        Self {
            connection,
            rules,
            now,
            ledger: None,
            planned: Planned::default(),
            planned_by: HashMap::new(),
            fresh: None,
            is_first: false,
            from_nothing: false,
            nodes: HashMap::new(),
            touched: BTreeSet::new(),
            introducers: HashMap::new(),
            keys: HashMap::new(),
            report: TrustReport::default(),
        }
    }

    /// The same, with the verdicts of a rehearsal.
    fn with(
        connection: &'c Connection,
        now: u32,
        ledger: &'c Ledger,
    ) -> rusqlite::Result<Option<Self>> {
        let report = TrustReport { computed: ledger.count(), ..TrustReport::default() };
        Ok(Self::of(connection, now)?.map(|web| Self { ledger: Some(ledger), report, ..web }))
    }

    /// Records the issuers of a certificate's certifications.
    fn note_issuers(&mut self, id: i64, cert: &Cert) -> rusqlite::Result<()> {
        let mut insert =
            self.connection.prepare_cached("INSERT OR IGNORE INTO certifier VALUES (?1, ?2)")?;
        for issuer in issuers(cert) {
            insert.execute((issuer.0.cast_signed(), id))?;
        }
        Ok(())
    }

    /// Evaluates the certificates in `start`, those whose span is over, and all that depend on them, and
    /// stores the results. All rows are then true.
    fn recompute(mut self, mut start: BTreeSet<i64>) -> rusqlite::Result<TrustReport> {
        start.extend(due(self.connection, self.now)?);
        self.spread(start)?;
        let connection = self.connection;
        let mut insert =
            connection.prepare_cached("INSERT OR REPLACE INTO trust VALUES (?1, ?2, ?3, ?4)")?;
        let mut delete = connection.prepare_cached("DELETE FROM trust WHERE cert = ?1")?;
        let mut introduce =
            connection.prepare_cached("INSERT OR IGNORE INTO introducer VALUES (?1, ?2)")?;
        let mut dismiss =
            connection.prepare_cached("DELETE FROM introducer WHERE cert = ?1 AND handle = ?2")?;
        for id in &self.touched {
            let node = &self.nodes[id];
            match &node.standing {
                Some(standing) => {
                    let Span { from, until } = standing.holds;
                    insert.execute((id, from, until, node.write(*id, standing)))?;
                }
                None => delete.execute([id]).map(drop)?,
            }
            if let Some(Some(key)) = self.keys.get(id) {
                let handle = key.id.0.cast_signed();
                if node.introducer().is_some() {
                    introduce.execute((handle, id))?;
                } else {
                    dismiss.execute((id, handle))?;
                }
            }
        }
        Ok(self.report)
    }

    /// Evaluates the certificates in `start`. While introducers change, also evaluates the certificates that
    /// they certified.
    fn spread(&mut self, start: BTreeSet<i64>) -> rusqlite::Result<()> {
        let mut work = start;
        while !work.is_empty() {
            let round: Vec<i64> = std::mem::take(&mut work).into_iter().collect();
            for chunk in round.chunks(CHUNK) {
                for (id, node) in self.look(chunk)? {
                    let before = self.node(id)?.clone();
                    if before == node {
                        continue;
                    }
                    if before.standing.as_ref().map(|s| &s.levels)
                        != node.standing.as_ref().map(|s| &s.levels)
                    {
                        self.report.changed += 1;
                    }
                    if before.introducer() != node.introducer()
                        && let Some(key) = self.key(id)?
                    {
                        work.extend(self.certified_by(key.id)?);
                        let known = self.introducers_named(key.id)?;
                        known.retain(|&known| known != id);
                        if node.introducer().is_some() {
                            known.push(id);
                        }
                    }
                    self.nodes.insert(id, node);
                    self.touched.insert(id);
                }
            }
        }
        Ok(())
    }

    /// Evaluates some certificates, on all cores.
    fn look(&mut self, ids: &[i64]) -> rusqlite::Result<Vec<(i64, Node)>> {
        let mut gone = Vec::new();
        let mut works = Vec::with_capacity(ids.len());
        for &id in ids {
            self.node(id)?;
            let Some((cert, summary)) = self.read(id)? else {
                gone.push((id, Node::default()));
                continue;
            };
            let stored = cert.fingerprint().to_stored();
            let owner = match self.planned.owners.get(&stored) {
                Some(&planned) => Some(planned),
                None => owner::get(self.connection, &stored)?,
            };
            let owner = owner.and_then(Level::from_number).unwrap_or_default();
            works.push(Work { id, issuers: issuers(&cert), cert, summary, owner });
        }
        let voices = self.voices(works.iter().flat_map(|work| work.issuers.iter().copied()))?;
        self.report.evaluated += ids.len() as u64;
        let (rules, now, nodes, ledger) = (self.rules, self.now, &self.nodes, self.ledger);
        let done: Vec<(i64, Evaluated)> = works
            .par_iter()
            .map(|work| (work.id, work.evaluate(&nodes[&work.id], rules, now, &voices, ledger)))
            .collect();
        let mut found = gone;
        for (id, evaluated) in done {
            self.report.computed += evaluated.computed;
            if let Some(fresh) = &mut self.fresh {
                fresh.extend(evaluated.fresh);
            }
            found.push((id, evaluated.node));
        }
        Ok(found)
    }

    /// A certificate and its summary, as they are or are planned to be.
    fn read(&self, id: i64) -> rusqlite::Result<Option<(Cert, Summary)>> {
        match self.planned.certs.get(&id) {
            Some(planned) => Ok(planned.map(|(cert, summary)| (cert.clone(), summary.clone()))),
            None => read(self.connection, id, self.now),
        }
    }

    /// The introducers among `issuers`, with their keys.
    fn voices(&mut self, issuers: impl IntoIterator<Item = KeyId>) -> rusqlite::Result<Voices> {
        let mut voices = Voices::default();
        for issuer in issuers {
            if voices.speaking.contains_key(&issuer) {
                continue;
            }
            let mut here = Vec::new();
            for cert in self.introducers_named(issuer)?.clone() {
                let introducer = self.node(cert)?.introducer().cloned();
                if let (Some(introducer), Some(key)) = (introducer, self.key(cert)?) {
                    here.push(IntroducerCert { cert, introducer });
                    voices.keys.insert(cert, key);
                }
            }
            voices.speaking.insert(issuer, here);
        }
        Ok(voices)
    }

    fn node(&mut self, id: i64) -> rusqlite::Result<&Node> {
        if !self.nodes.contains_key(&id) {
            let blank = self.from_nothing;
            let node = if blank { Node::default() } else { Node::load(self.connection, id)? };
            self.nodes.insert(id, node);
        }
        Ok(&self.nodes[&id])
    }

    /// The certificates with a certification that names this key ID as its issuer.
    fn certified_by(&self, id: KeyId) -> rusqlite::Result<Vec<i64>> {
        let sql = if self.is_first {
            "SELECT cert FROM temp.first_certifier WHERE handle = ?1"
        } else {
            "SELECT cert FROM certifier WHERE handle = ?1"
        };
        let mut found = self
            .connection
            .prepare_cached(sql)?
            .query_map([id.0.cast_signed()], |row| row.get(0))?
            .collect::<rusqlite::Result<Vec<i64>>>()?;
        found.extend(self.planned_by.get(&id).into_iter().flatten());
        Ok(found)
    }

    /// The introducers whose primary key has this ID.
    fn introducers_named(&mut self, id: KeyId) -> rusqlite::Result<&mut Vec<i64>> {
        if self.from_nothing {
            return Ok(self.introducers.entry(id).or_default());
        }
        if !self.introducers.contains_key(&id) {
            let found = self
                .connection
                .prepare_cached("SELECT cert FROM introducer WHERE handle = ?1")?
                .query_map([id.0.cast_signed()], |row| row.get(0))?
                .collect::<rusqlite::Result<Vec<i64>>>()?;
            self.introducers.insert(id, found);
        }
        Ok(self.introducers.get_mut(&id).expect("it was put there"))
    }

    /// The primary key of a certificate, read once.
    fn key(&mut self, id: i64) -> rusqlite::Result<Option<Arc<IssuerKey>>> {
        if let Some(key) = self.keys.get(&id) {
            return Ok(key.clone());
        }
        let key = match self.planned.certs.get(&id) {
            Some(Some((cert, _))) => IssuerKey::of(cert.as_bytes()),
            _ => blob::intact(self.connection, id)?.and_then(|blob| IssuerKey::of(&blob.bytes)),
        };
        let key = key.map(Arc::new);
        self.keys.insert(id, key.clone());
        Ok(key)
    }
}

/// The introducers that can affect a set of certificates.
#[derive(Default)]
struct Voices {
    speaking: HashMap<KeyId, Vec<IntroducerCert>>,
    keys: HashMap<i64, Arc<IssuerKey>>,
}

impl Voices {
    fn named(&self, id: KeyId) -> &[IntroducerCert] {
        self.speaking.get(&id).map_or(&[][..], Vec::as_slice)
    }
}

/// Answers whether introducers made signatures on a certificate, from known verdicts or by verifying.
struct Oracle<'w> {
    voices: &'w Voices,
    known: &'w Node,
    certified: Option<CertificationVerifier<'w>>,
    /// Verdicts of a rehearsal.
    ledger: Option<&'w Ledger>,
    /// Verdicts that the stored row does not have.
    fresh: Vec<[u8; 16]>,
    /// Number of verified signatures.
    computed: u64,
    /// Whether signatures without a known verdict count as not made.
    only_known: bool,
}

impl<'w> Oracle<'w> {
    fn new(cert: &'w Cert, known: &'w Node, voices: &'w Voices) -> Self {
        let certified = CertificationVerifier::new(cert);
        let fresh = Vec::new();
        Self { voices, known, certified, ledger: None, fresh, computed: 0, only_known: false }
    }

    fn made(
        &mut self,
        issuer: &IntroducerCert,
        user_id: &SubjectId<'w>,
        certification: &Certification<'w>,
    ) -> bool {
        let (Some(key), Some(certified)) =
            (self.voices.keys.get(&issuer.cert), &mut self.certified)
        else {
            return false;
        };
        if key.created > certification.created {
            return false;
        }
        let name = key.verdict_name(user_id.packet, certification.body);
        if let Some(good) = self.known.verdict(&name) {
            return good;
        }
        if self.only_known {
            return false;
        }
        let good = if let Some(good) = self.ledger.and_then(|ledger| ledger.certification(&name)) {
            good
        } else {
            let packet = PacketRef { tag: Tag::PUBLIC_KEY, body: &key.body };
            let Ok(parsed) = Key::parse(packet) else { return false };
            self.computed += 1;
            let verdict = certified.by(&parsed, &key.setup, user_id.packet, certification.body);
            verdict == Verdict::Good
        };
        let mut entry = [u8::from(good); 16];
        entry[..15].copy_from_slice(&name);
        self.fresh.push(entry);
        good
    }
}

/// The result of an evaluation.
struct Evaluated {
    node: Node,
    /// The verdicts that the stored row did not have.
    fresh: Vec<[u8; 16]>,
    /// Number of verified signatures.
    computed: u64,
}

impl Work {
    fn evaluate(
        &self,
        before: &Node,
        rules: Rules,
        now: u32,
        voices: &Voices,
        ledger: Option<&Ledger>,
    ) -> Evaluated {
        let subject = Subject::of(&self.cert, &self.summary, rules.gnupg, now);
        let mut oracle = Oracle { ledger, ..Oracle::new(&self.cert, before, voices) };
        let standing = evaluate(
            &subject,
            self.owner,
            rules,
            now,
            |id| voices.named(id),
            |issuer, user_id, certification| oracle.made(issuer, user_id, certification),
        );
        let Oracle { fresh, computed, .. } = oracle;
        let mut verdicts = fresh.clone();
        verdicts.extend_from_slice(&before.verdicts);
        verdicts.sort_unstable();
        verdicts.dedup();
        Evaluated { node: Node { standing: Some(standing), verdicts }, fresh, computed }
    }
}

#[cfg(test)]
mod tests {
    use talaria_bench::{CorpusProfile, Generate, certs};
    use talaria_cert::{Verification, verdicts};

    use super::*;
    use crate::{Access, Return};

    const NOW: u32 = 1_740_000_000;

    /// All stored verdicts on certifications.
    fn stored(store: &Store) -> HashMap<[u8; 15], bool> {
        let mut all = Ledger::default();
        let ids: Vec<i64> = store
            .run(|connection| {
                connection
                    .prepare("SELECT cert FROM trust")?
                    .query_map([], |row| row.get(0))?
                    .collect()
            })
            .unwrap();
        let nodes = ids.into_iter().map(|id| store.run(|connection| Node::load(connection, id)));
        let entries: Vec<[u8; 16]> = nodes.flat_map(|node| node.unwrap().verdicts).collect();
        all.add_certifications(entries.clone());
        entries
            .iter()
            .map(|entry| entry.first_chunk().unwrap())
            .map(|name| (*name, all.certification(name).unwrap()))
            .collect()
    }

    #[test]
    fn all_signatures_that_a_change_needs_are_computed_before_the_store_is_locked() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = Store::open(&folder.path().join("store.db"), Access::Create).unwrap();
        let generate = Generate { seed: 1, first: 0, count: 400, profile: CorpusProfile::small() };
        let all = certs(&generate);
        let mut made: HashMap<KeyId, usize> = HashMap::new();
        for issuer in all.iter().flat_map(issuers) {
            *made.entry(issuer).or_default() += 1;
        }
        let count = |cert: &&Cert| made.get(&cert.fingerprint().key_id()).copied().unwrap_or(0);
        let (early, late) = all.split_at(200);
        // One owner is there when his trust is recorded, the other arrives later.
        let here = early.iter().max_by_key(count).unwrap();
        let coming = late.iter().max_by_key(count).unwrap();
        assert!(count(&here) > 0 && count(&coming) > 0);
        store.ingest(early.to_vec(), Verification::Full, NOW.into()).unwrap();
        let owner = Level::Ultimate as u8;
        // The first owner begins the web.
        let planned = Planned {
            owners: [(here.fingerprint().to_stored(), owner)].into(),
            ..Planned::default()
        };
        let ledger = store.web().rehearse(planned, NOW).unwrap();
        store.web_mut().set_ownertrust(&[(here.fingerprint(), owner)], NOW.into()).unwrap();
        assert!(!stored(&store).is_empty());
        check(&HashMap::new(), &stored(&store), &ledger);

        let before = stored(&store);
        let planned = Planned {
            owners: [(coming.fingerprint().to_stored(), owner)].into(),
            ..Planned::default()
        };
        let ledger = store.web().rehearse(planned, NOW).unwrap();
        store.web_mut().set_ownertrust(&[(coming.fingerprint(), owner)], NOW.into()).unwrap();
        check(&before, &stored(&store), &ledger);

        let before = stored(&store);
        let pairs: Vec<&Cert> = late.iter().collect();
        let summaries: Vec<Summary> = verdicts(&pairs, Verification::Full)
            .into_iter()
            .zip(late)
            .map(|(verdicts, cert)| Summary::evaluate(cert, &verdicts, NOW))
            .collect();
        let planned = late.iter().zip(&summaries).map(|(cert, summary)| (None, cert, summary));
        let ledger = store.rehearse(planned, &[], NOW, Ledger::default()).unwrap();
        store.ingest(late.to_vec(), Verification::Full, NOW.into()).unwrap();
        let after = stored(&store);
        assert!(after.len() > before.len() + 10, "{} and {}", before.len(), after.len());
        check(&before, &after, &ledger);

        let before = stored(&store);
        let id = store.row(here.fingerprint()).unwrap().unwrap().id;
        let ledger =
            store.rehearse(std::iter::empty(), &[id.get()], NOW, Ledger::default()).unwrap();
        store.delete(&[here.fingerprint()], Return::Allowed, NOW.into()).unwrap();
        check(&before, &stored(&store), &ledger);

        let mut rules = Rules::default();
        rules.marginals = 1;
        let planned = Planned { anew: Some(rules), ..Planned::default() };
        let ledger = store.web().rehearse(planned, NOW).unwrap();
        store.web_mut().set_rules(rules, NOW.into()).unwrap();
        check(&HashMap::new(), &stored(&store), &ledger);
    }

    /// Every verdict that a change added was in the ledger of its rehearsal.
    fn check(before: &HashMap<[u8; 15], bool>, after: &HashMap<[u8; 15], bool>, ledger: &Ledger) {
        for (name, good) in after.iter().filter(|(name, _)| !before.contains_key(*name)) {
            assert_eq!(ledger.certification(name), Some(*good));
        }
    }
}
