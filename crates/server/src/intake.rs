//! The way of certificates into the store. Their cost is counted before any work is done (`Cert::cost`). They are verified
//! and joined side by side on a few threads. The one thread that writes only commits them.
//!
//! Cheap uploads have threads of their own, so they wait neither for costly ones nor for gossip. An upload that another one
//! has overtaken is prepared again. So a cheap upload overtakes a costly one of the same certificate, and not the other way
//! round.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use talaria_cert::{Cert, Verification};

use crate::answer::Refusal;
use crate::clock;
use crate::config::Settings;
use crate::engine::{Engine, IngestOutcome, Ingested, Intake, Preparation, Reading};
use crate::metrics::{Metrics, count};
use crate::turns::Turns;

/// The CPU time up to which an upload is cheap. Real certificates need a few milliseconds.
const CHEAP: Duration = Duration::from_millis(50);

/// Times that an upload is prepared again because another one was faster. After that, a cheap one is prepared in its turn
/// by the thread that writes, and a costly one is refused for now.
const AGAIN_MAX: usize = 8;

/// Octets of the certificates of a peer that are prepared at once: what is prepared takes several times as much memory.
const GROUP_BYTES: usize = 16 << 20;

/// The threads on which certificates are prepared, and the way from there into the store.
#[derive(Debug)]
pub(crate) struct Lanes {
    settings: Settings,
    engine: Engine,
    metrics: Arc<Metrics>,
    cheap: Turns,
    costly: Turns,
    peers: Turns,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Lane {
    Cheap,
    Costly,
    Peers,
}

/// The cost of certificates, by the model of [`Cert::cost`].
fn cost(certs: &[Cert]) -> Duration {
    certs.iter().map(Cert::cost).fold(Duration::ZERO, Duration::saturating_add)
}

impl Lanes {
    pub(crate) fn start(
        settings: Settings,
        engine: Engine,
        metrics: Arc<Metrics>,
    ) -> io::Result<Self> {
        Ok(Self {
            settings,
            engine,
            metrics,
            cheap: Turns::start("cheap")?,
            costly: Turns::start_half("costly")?,
            peers: Turns::start_half("peers")?,
        })
    }

    fn of(&self, lane: Lane) -> &Turns {
        match lane {
            Lane::Cheap => &self.cheap,
            Lane::Costly => &self.costly,
            Lane::Peers => &self.peers,
        }
    }

    /// Runs work on certificates of a client, with a view of the store, on a thread for work of their cost.
    ///
    /// # Errors
    ///
    /// [`Refusal::TooCostly`] without any work, [`Refusal::Busy`], and the errors of `work`.
    pub(crate) async fn work_on<T: Send + 'static>(
        &self,
        certs: Vec<Cert>,
        work: impl FnOnce(&Reading, Vec<Cert>) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        let (needed, allowed) = (cost(&certs), self.settings.load().policy.upload_cpu());
        if needed > allowed {
            return Err(Refusal::TooCostly { needed, allowed });
        }
        let lane = if needed <= CHEAP { Lane::Cheap } else { Lane::Costly };
        let engine = self.engine.clone();
        self.of(lane).run(move || work(&engine.reading()?, certs)).await
    }

    /// Adds certificates that a client uploaded. What is acknowledged is on disk. If the upload is refused, nothing of it is
    /// written.
    ///
    /// # Errors
    ///
    /// [`Refusal::TooCostly`], [`Refusal::Busy`], [`Refusal::Store`].
    pub(crate) async fn add(&self, certs: Vec<Cert>) -> Result<Vec<Ingested>, Refusal> {
        let allowed = self.settings.load().policy.upload_cpu();
        let needed = cost(&certs);
        // The store may know keys that have to be tried, too. So an upload can turn out to be costly.
        if needed <= CHEAP {
            match self.prepare(Lane::Cheap, certs.clone(), CHEAP.min(allowed)).await {
                Err(Refusal::TooCostly { .. }) => {}
                intake => return self.write(Lane::Cheap, intake?).await,
            }
        }
        if needed > allowed {
            return Err(Refusal::TooCostly { needed, allowed });
        }
        let intake = self.prepare(Lane::Costly, certs, allowed).await?;
        self.write(Lane::Costly, intake).await
    }

    /// Adds certificates that a gossip peer delivered, as they are. Those that cost more than an upload may cost are left out.
    ///
    /// # Errors
    ///
    /// [`Refusal::Busy`], [`Refusal::Store`].
    pub(crate) async fn add_from_peer(&self, certs: Vec<Cert>) -> Result<Vec<Ingested>, Refusal> {
        let allowed = self.settings.load().policy.upload_cpu();
        let mut ingested = Vec::with_capacity(certs.len());
        let mut groups = grouped(certs, allowed);
        while let Some(group) = groups.pop() {
            match self.prepare(Lane::Peers, group.clone(), allowed).await {
                Ok(intake) => ingested.extend(self.write(Lane::Peers, intake).await?),
                Err(Refusal::TooCostly { needed, .. }) => match group.as_slice() {
                    [cert] => {
                        count(&self.metrics.certs_too_costly, 1);
                        let (fingerprint, seconds) = (cert.fingerprint(), needed.as_secs_f64());
                        tracing::warn!(%fingerprint, seconds, "a certificate of a peer is too costly");
                    }
                    _ => groups.extend(group.into_iter().map(|cert| vec![cert])),
                },
                Err(other) => return Err(other),
            }
        }
        Ok(ingested)
    }

    /// How certificates of strangers are prepared, by the settings.
    pub(crate) fn preparation(&self) -> Preparation {
        let policy = &self.settings.load().policy;
        Preparation {
            limits: policy.limits(),
            verification: Verification::Full,
            now: clock::now().into(),
            allowed: policy.upload_cpu(),
        }
    }

    async fn prepare(
        &self,
        lane: Lane,
        certs: Vec<Cert>,
        allowed: Duration,
    ) -> Result<Intake, Refusal> {
        let engine = self.engine.clone();
        let preparation = Preparation { allowed, ..self.preparation() };
        let work = move || Ok(engine.reading()?.prepare(certs, &preparation)?);
        self.of(lane).run(work).await
    }

    /// Writes prepared certificates, a transaction at a time, and prepares those again that others have changed first.
    async fn write(&self, lane: Lane, mut intake: Intake) -> Result<Vec<Ingested>, Refusal> {
        let mut again = 0;
        while !intake.is_written() {
            if intake.is_overtaken() {
                again += 1;
                let preparation = self.preparation();
                if again <= AGAIN_MAX {
                    let engine = self.engine.clone();
                    let work = move || {
                        engine.reading()?.prepare_again(&mut intake, &preparation)?;
                        Ok::<_, Refusal>(intake)
                    };
                    intake = self.of(lane).run(work).await.map_err(|refusal| match refusal {
                        Refusal::TooCostly { .. } => Refusal::Busy,
                        other => other,
                    })?;
                } else if lane == Lane::Costly {
                    return Err(Refusal::Busy);
                } else {
                    intake = self.engine.prepare_in_turn(intake, preparation).await?;
                }
            }
            intake = self.engine.write(intake).await?;
        }
        let ingested = intake.into_ingested();
        for Ingested { outcome, .. } in &ingested {
            let counter = match outcome {
                IngestOutcome::New => &self.metrics.certs_new,
                IngestOutcome::Updated => &self.metrics.certs_updated,
                IngestOutcome::Unchanged => &self.metrics.certs_unchanged,
                IngestOutcome::Refused(_) => &self.metrics.certs_refused,
            };
            count(counter, 1);
        }
        Ok(ingested)
    }
}

/// Groups that may be prepared at once. A certificate that is above the limit has a group of its own.
fn grouped(certs: Vec<Cert>, allowed: Duration) -> Vec<Vec<Cert>> {
    let mut groups: Vec<Vec<Cert>> = Vec::new();
    let (mut cost, mut bytes) = (Duration::ZERO, 0);
    for cert in certs {
        cost = cost.saturating_add(cert.cost());
        bytes += cert.as_bytes().len();
        match groups.last_mut() {
            Some(group) if cost <= allowed && bytes <= GROUP_BYTES => group.push(cert),
            _ => {
                (cost, bytes) = (cert.cost(), cert.as_bytes().len());
                groups.push(vec![cert]);
            }
        }
    }
    groups
}
