//! Evaluating certificates, and all that depend on them.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use rayon::prelude::*;
use rusqlite::Connection;
use talaria_cert::{Cert, KeyId, Span, Summary};
use talaria_trust::{IntroducerCert, Level, Rules, Subject, evaluate, issuers};

use crate::ledger::Ledger;
use crate::trust::node::{Node, due};
use crate::trust::planned::Planned;
use crate::trust::rules;
use crate::trust::voices::{IssuerKey, Oracle, Voices};
use crate::{blob, owner, revoker, row};

/// Number of certificates that are evaluated at once.
const CHUNK: usize = 512;

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

/// The web of trust within a transaction, or in a rehearsal of one.
pub(super) struct Evaluation<'c> {
    connection: &'c Connection,
    pub(super) rules: Rules,
    now: u32,
    /// Verdicts that are known from a rehearsal.
    ledger: Option<&'c Ledger>,
    /// In a rehearsal: the changes to be made.
    pub(super) planned: Planned<'c>,
    /// In a rehearsal: the planned certificates with a certification that names this key ID as its
    /// issuer.
    pub(super) planned_by: HashMap<KeyId, Vec<i64>>,
    /// In a rehearsal: the verdicts so far.
    pub(super) fresh: Option<Vec<[u8; 16]>>,
    /// In a rehearsal: whether the store has no web yet, and a temporary index of issuers
    /// (`FirstIndex`).
    pub(super) is_first: bool,
    /// Whether stored rows of the web are ignored.
    pub(super) from_nothing: bool,
    /// The nodes that were read or computed.
    pub(super) nodes: HashMap<i64, Node>,
    /// The nodes that differ from the stored rows.
    touched: BTreeSet<i64>,
    /// The introducers by key ID, for the key IDs looked up so far.
    introducers: HashMap<KeyId, Vec<i64>>,
    pub(super) keys: HashMap<i64, Option<Arc<IssuerKey>>>,
    report: TrustReport,
}

impl<'c> Evaluation<'c> {
    /// Loads the rules. `None` if the store has no web of trust.
    pub(super) fn of(connection: &'c Connection, now: u32) -> rusqlite::Result<Option<Self>> {
        Ok(rules::get(connection)?.map(|rules| Self::new(connection, rules, now)))
    }

    pub(super) fn new(connection: &'c Connection, rules: Rules, now: u32) -> Self {
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
    pub(super) fn with(
        connection: &'c Connection,
        now: u32,
        ledger: &'c Ledger,
    ) -> rusqlite::Result<Option<Self>> {
        let report = TrustReport { computed: ledger.count(), ..TrustReport::default() };
        Ok(Self::of(connection, now)?.map(|web| Self { ledger: Some(ledger), report, ..web }))
    }

    /// Records the issuers of a certificate's certifications.
    pub(super) fn note_issuers(&mut self, id: i64, cert: &Cert) -> rusqlite::Result<()> {
        let mut insert =
            self.connection.prepare_cached("INSERT OR IGNORE INTO certifier VALUES (?1, ?2)")?;
        for issuer in issuers(cert) {
            insert.execute((issuer.0.cast_signed(), id))?;
        }
        Ok(())
    }

    /// Evaluates the certificates in `start`, those whose span is over, and all that depend on
    /// them, and stores the results. All rows are then true.
    pub(super) fn recompute(mut self, mut start: BTreeSet<i64>) -> rusqlite::Result<TrustReport> {
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

    /// Evaluates the certificates in `start`. While introducers change, also evaluates the
    /// certificates that they certified.
    pub(super) fn spread(&mut self, start: BTreeSet<i64>) -> rusqlite::Result<()> {
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
    pub(super) fn voices(
        &mut self,
        issuers: impl IntoIterator<Item = KeyId>,
    ) -> rusqlite::Result<Voices> {
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

    pub(super) fn node(&mut self, id: i64) -> rusqlite::Result<&Node> {
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

/// A certificate and its summary at `now`. `None` if the certificate is missing or cannot be read.
pub(super) fn read(
    connection: &Connection,
    id: i64,
    now: u32,
) -> rusqlite::Result<Option<(Cert, Summary)>> {
    let (Some(row), Some(blob)) = (row::get(connection, id)?, blob::intact(connection, id)?) else {
        return Ok(None);
    };
    let Some((cert, verdicts)) = blob.decode() else { return Ok(None) };
    let stored = row.summary().filter(|stored| stored.fingerprint() == cert.fingerprint());
    if let Some(summary) = stored.filter(|stored| stored.holds.contains(now)) {
        return Ok(Some((cert, summary)));
    }
    let mut summary = Summary::glance(talaria_cert::Rules::Standard, &cert, &verdicts, now);
    revoker::ask(connection, &cert, &mut summary, now, &Ledger::default())?;
    Ok(Some((cert, summary)))
}

/// A certificate to evaluate.
struct Work {
    id: i64,
    cert: Cert,
    summary: Summary,
    owner: Level,
    issuers: Vec<KeyId>,
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
        let mut oracle = Oracle::new(&self.cert, before, voices);
        oracle.ledger = ledger;
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
