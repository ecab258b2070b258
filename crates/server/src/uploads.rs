//! Uploads of clients: what the server takes of them is stored, and passed on to other keyservers.

use std::sync::Arc;

use talaria_cert::{Cert, Fingerprint, Query, Signature, Verdict, Verification, verdicts};

use crate::admission;
use crate::answer::Refusal;
use crate::config::Settings;
use crate::engine::{Bounds, Engine, IngestOutcome, Ingested, Judging, Reading};
use crate::intake::Lanes;
use crate::metrics::{Metrics, count};
use crate::network::Network;
use crate::news::Newsroom;
use crate::report::{NOTHING_ELSE_NEW, NOTHING_NEW, Named, Report, for_peers, left_out};
use crate::submission::{Rejected, Submission};

/// The certificates that may have made a revocation.
const OWNERS: Bounds = Bounds { results: 2, looks: 50 };

/// The way of uploads into the store.
#[derive(Debug)]
pub(crate) struct Uploads {
    pub(crate) settings: Settings,
    pub(crate) engine: Engine,
    pub(crate) lanes: Arc<Lanes>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) news: Newsroom,
}

impl Uploads {
    /// Stores the certificates that were submitted from a network durably, and returns a report.
    pub(crate) async fn submit(
        &self,
        from: Network,
        submission: Submission,
    ) -> Result<Report, Refusal> {
        if !self.settings.load().policy.uploads {
            return Err(Refusal::Forbidden("this server does not accept uploads".into()));
        }
        let submitted = self.submit_open(from, submission).await;
        if let Err(Refusal::TooCostly(_)) = submitted {
            count(&self.metrics.uploads_too_costly, 1);
        }
        submitted
    }

    async fn submit_open(&self, from: Network, submission: Submission) -> Result<Report, Refusal> {
        let Submission { mut certs, mut rejected, via } = submission;
        if rejected.iter().any(|one| one.revocation.is_some()) {
            certs.extend(self.revoked(&mut rejected).await?);
        }
        let light = self.lanes.light();
        let (config, is_light) = (self.settings.load_full(), light.is_some());
        let (certs, turned_away) =
            admission::choose(&self.lanes, from, config, certs, is_light).await?;
        let name = |cert: &Cert| (Named::new(cert.fingerprint()), for_peers(cert));
        let names: Vec<(Named, Option<String>)> = certs.iter().map(name).collect();
        let shared: Vec<Cert> = certs.iter().map(Cert::exportable).collect();
        let packets = |cert: &Cert| cert.packets().len();
        let local: Vec<usize> =
            certs.iter().zip(&shared).map(|(all, shared)| packets(all) - packets(shared)).collect();
        let outcomes = self.add(from, shared, via, is_light).await?;
        drop(light);
        let mut report = Report::default();
        for (((mut name, for_peers), local), ingested) in names.into_iter().zip(local).zip(outcomes)
        {
            let is_whole = ingested.left_out.is_none();
            if !is_whole || local > 0 {
                name.comment = Some(left_out(ingested.left_out, local));
                name.is_cut = true;
            }
            match ingested.outcome {
                outcome @ (IngestOutcome::New | IngestOutcome::Updated) => {
                    if let Some(why) = for_peers {
                        name.add_comment(why);
                        name.is_for_peers = true;
                    }
                    let is_new = matches!(outcome, IngestOutcome::New);
                    let list = if is_new { &mut report.inserted } else { &mut report.updated };
                    list.push(name);
                }
                IngestOutcome::Unchanged if is_whole && local > 0 => {
                    let comment = left_out(ingested.left_out, local);
                    name.comment = Some(format!("{NOTHING_ELSE_NEW}; {comment}"));
                    report.ignored.push(name);
                }
                // No new part was kept.
                IngestOutcome::Unchanged if name.comment.is_some() => {
                    report.here_before += 1;
                    report.invalid.push(name);
                }
                IngestOutcome::Unchanged => {
                    name.comment = Some(for_peers.unwrap_or_else(|| NOTHING_NEW.into()));
                    report.ignored.push(name);
                }
                IngestOutcome::Refused(refusal) => {
                    name.comment = Some(refusal.to_string());
                    report.invalid.push(name);
                }
            }
        }
        report.invalid.extend(turned_away);
        report.invalid.extend(rejected.into_iter().map(|one| Named {
            version: 0,
            cert: None,
            fingerprint: String::new(),
            comment: Some(one.why),
            is_for_peers: false,
            is_cut: true,
        }));
        Ok(report)
    }

    /// Takes the revocations out of `rejected` that the owners of certificates on this server made,
    /// and returns each with the primary key that it revokes. Whoever has lost a key has often
    /// nothing else.
    async fn revoked(&self, rejected: &mut Vec<Rejected>) -> Result<Vec<Cert>, Refusal> {
        let (mut revoked, mut left) = (Vec::new(), Vec::new());
        let mut store = self.engine.reading().await?;
        for one in rejected.drain(..) {
            let cert = match &one.revocation {
                Some(body) => revoked_by(&mut store, body).await?,
                None => None,
            };
            match cert {
                Some(cert) => revoked.push(cert),
                None => left.push(one),
            }
        }
        *rejected = left;
        Ok(revoked)
    }

    /// Adds certificates that a client uploaded: counted and passed on, but not to the keyserver
    /// `via` which they came.
    async fn add(
        &self,
        from: Network,
        certs: Vec<Cert>,
        via: Option<String>,
        is_light: bool,
    ) -> Result<Vec<Ingested>, Refusal> {
        let fingerprints: Vec<Fingerprint> = certs.iter().map(Cert::fingerprint).collect();
        let outcomes = self.lanes.add(from, certs, is_light).await?;
        let news = fingerprints.into_iter().zip(&outcomes);
        let news = news
            .filter(|(_, new)| matches!(new.outcome, IngestOutcome::New | IngestOutcome::Updated));
        self.news.announce(news.map(|(fingerprint, _)| fingerprint).collect(), via);
        Ok(outcomes)
    }
}

/// The primary key on this server that made a revocation of itself, with the revocation.
async fn revoked_by(store: &mut Reading, body: &[u8]) -> Result<Option<Cert>, Refusal> {
    let Some(issuer) = Signature::parse(body).and_then(|signature| signature.issuer) else {
        return Ok(None);
    };
    let found = store.find(&Query::KeyId(issuer), OWNERS).await?;
    for row in found.rows {
        if row.fingerprint().key_id() != issuer {
            continue;
        }
        let Some(stored) = store.stored(&row, Judging::Stored).await? else { continue };
        let revoked = stored.cert.retain(|at, _| at == 0).with_direct_signature(body);
        if verdicts(&[&revoked], Verification::Full)[0] == [Verdict::Good] {
            return Ok(Some(revoked));
        }
    }
    Ok(None)
}
