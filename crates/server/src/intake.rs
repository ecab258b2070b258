//! The way of certificates into the store. Their cost is counted before any work is done
//! (`Cert::cost`). They are verified and joined side by side on a few threads. The one thread that
//! writes only commits them.
//!
//! A few of the lightest uploads are verified where they arrive. Cheap ones have threads of their
//! own, so they wait neither for costly ones nor for gossip. Costly uploads share the cores that
//! are left, and each network has one at a time. The certificates of peers have threads of their
//! own, which the peers share in the same way. An upload that another one has overtaken is prepared
//! again. So a cheap upload overtakes a costly one of the same certificate, and not the other way
//! round.

use std::cmp::Reverse;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use talaria_cert::{Cert, TooCostly, Work};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::answer::Refusal;
use crate::config::Settings;
use crate::engine::{Arrival, Engine, IngestOutcome, Ingested, Intake, Preparation, Reading};
use crate::metrics::{Metrics, count};
use crate::network::Network;
use crate::turns::{BEHIND, FairTurns, Turns, stay_on_this_thread};

/// The CPU time, by the model, up to which an upload is verified on the thread that answers it:
/// most real certificates need less. They need a third of it, and to wake other threads would take
/// as long.
const LIGHT: Duration = Duration::from_millis(2);

/// Uploads at once that may be verified where they arrive. Of more, look-ups on the same thread
/// would have to wait for each.
const LIGHT_MAX: usize = 16;

/// The CPU time up to which an upload is cheap. Nearly all real certificates need less.
const CHEAP: Duration = Duration::from_millis(50);

/// The least number of threads for costly uploads. Each upload can take seconds, so they share the
/// cores and do not wait for each other.
const COSTLY_THREADS: usize = 8;

/// Times that an upload is prepared again because another one was faster. After that, a cheap one
/// is prepared in its turn by the thread that writes, and a costly one is refused for now.
const AGAIN_MAX: usize = 8;

/// The time that certificates of a peer wait for their turn. No client waits for them, and each
/// other peer may take `policy.upload_cpu_ms` first.
const PEERS_PATIENCE: Duration = Duration::from_secs(600);

/// The CPU time for the certificates of one exchange with a peer, as a multiple of that for one
/// upload.
const EXCHANGE_UPLOADS: u32 = 2;

/// Bytes of the certificates of a peer that are prepared at once: what is prepared takes several
/// times as much memory.
const GROUP_BYTES: usize = 16 << 20;

/// The threads on which certificates are prepared, and the way from there into the store.
#[derive(Debug)]
pub(crate) struct Lanes {
    settings: Settings,
    engine: Engine,
    metrics: Arc<Metrics>,
    light: Arc<Semaphore>,
    cheap: Turns,
    /// One costly upload at a time for each network.
    costly: FairTurns<Network>,
    /// One group of certificates at a time for each peer, by name.
    peers: FairTurns<Arc<str>>,
}

/// The threads that an upload goes to.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Lane {
    /// The thread that answers the upload.
    Here,
    Cheap,
    /// For uploads from this network.
    Costly(Network),
    /// For certificates from the peer of this name.
    Peer(Arc<str>),
}

/// The CPU time that the certificates of one exchange with a peer may still take, by the model of
/// [`Cert::cost`].
///
/// The first [`LIGHT`] of each certificate are free, because an exchange may bring thousands of
/// usual certificates. So the whole of it is for the few that are costlier.
#[derive(Debug)]
pub(crate) struct Allowance {
    left: Duration,
    is_exceeded: bool,
}

impl Allowance {
    /// The allowance of an exchange, if one upload may take `upload`.
    pub(crate) fn new(upload: Duration) -> Self {
        Self { left: upload.saturating_mul(EXCHANGE_UPLOADS), is_exceeded: false }
    }

    /// Whether certificates were left out because the others had taken too much.
    pub(crate) fn is_exceeded(&self) -> bool {
        self.is_exceeded
    }

    /// The part of a cost that is not free.
    fn counted(cost: Duration, certs: usize) -> Duration {
        cost.saturating_sub(LIGHT.saturating_mul(u32::try_from(certs).unwrap_or(u32::MAX)))
    }

    /// Whether the allowance is enough for so many certificates. If not, it is exceeded.
    fn covers(&mut self, cost: Duration, certs: usize) -> bool {
        self.is_exceeded |= Self::counted(cost, certs) > self.left;
        !self.is_exceeded
    }

    fn charge(&mut self, cost: Duration, certs: usize) {
        self.left = self.left.saturating_sub(Self::counted(cost, certs));
    }
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
            light: Arc::new(Semaphore::new(LIGHT_MAX)),
            cheap: Turns::start("cheap")?,
            costly: FairTurns::of(Turns::start_behind("costly", COSTLY_THREADS, BEHIND)?),
            peers: FairTurns::of(Turns::start_behind("peers", 1, BEHIND)?)
                .with_patience(PEERS_PATIENCE),
        })
    }

    /// A place among the few uploads that may be verified where they arrive, until they are
    /// written.
    pub(crate) fn light(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.light).try_acquire_owned().ok()
    }

    /// Runs work on a thread of a lane.
    async fn run<T: Send + 'static>(
        &self,
        lane: Lane,
        work: impl AsyncFnOnce() -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        match lane {
            Lane::Here => {
                stay_on_this_thread();
                work().await
            }
            Lane::Cheap => self.cheap.run(work).await,
            Lane::Costly(network) => self.costly.run(network, work).await,
            Lane::Peer(name) => self.peers.run(name, work).await,
        }
    }

    /// Runs work on certificates that came from a network, with a view of the store and with the
    /// settings for preparing them, on a thread for work of their cost: on this one only if they
    /// are light and `is_light` allows it. It runs again elsewhere if it turns out to be costlier.
    /// Returns the lane, too.
    ///
    /// # Errors
    ///
    /// [`Refusal::TooCostly`], [`Refusal::Busy`], and the errors of `work`.
    pub(crate) async fn work_on<T: Send + 'static>(
        &self,
        from: Network,
        certs: Vec<Cert>,
        is_light: bool,
        work: impl AsyncFn(&mut Reading, Vec<Cert>, &Preparation) -> Result<T, Refusal>
        + Clone
        + Send
        + 'static,
    ) -> Result<(T, Lane), Refusal> {
        let preparation = self.preparation();
        let (needed, allowed) = (cost(&certs), preparation.work.allowed());
        if needed > allowed {
            return Err(Refusal::TooCostly(TooCostly { needed, allowed }));
        }
        for (most, lane) in [(LIGHT, Lane::Here), (CHEAP, Lane::Cheap)] {
            if needed > most || lane == Lane::Here && !is_light {
                continue;
            }
            let preparation = Preparation {
                limits: preparation.limits.clone(),
                work: preparation.work.up_to(most),
            };
            let (engine, work, certs) = (self.engine.clone(), work.clone(), certs.clone());
            let work = async move || work(&mut engine.reading().await?, certs, &preparation).await;
            match self.run(lane.clone(), work).await {
                // The store may know keys that have to be tried, too. So an upload can turn out to
                // be costlier.
                Err(Refusal::TooCostly(_)) if allowed > most => {}
                result => return Ok((result?, lane)),
            }
        }
        let (engine, lane) = (self.engine.clone(), Lane::Costly(from));
        let work = async move || work(&mut engine.reading().await?, certs, &preparation).await;
        Ok((self.run(lane.clone(), work).await?, lane))
    }

    /// Adds certificates that a client uploaded. What is acknowledged is on disk. If the upload is
    /// refused, nothing of it is written.
    ///
    /// # Errors
    ///
    /// [`Refusal::TooCostly`], [`Refusal::Busy`], [`Refusal::Store`].
    pub(crate) async fn add(
        &self,
        from: Network,
        certs: Vec<Cert>,
        is_light: bool,
    ) -> Result<Vec<Ingested>, Refusal> {
        let prepare = async |store: &mut Reading, certs: Vec<Cert>, preparation: &Preparation| {
            Ok(store.prepare(Arrival::Copies(certs), preparation).await?)
        };
        let (intake, lane) = self.work_on(from, certs, is_light, prepare).await?;
        Ok(self.write(lane, intake).await?.0)
    }

    /// Adds certificates that a gossip peer delivered, as they are. Those that cost more than an
    /// upload may cost are left out. The cheapest come first. If the allowance of the exchange is
    /// not enough for the others, they are left out, too, and the allowance is exceeded.
    ///
    /// # Errors
    ///
    /// [`Refusal::Busy`], [`Refusal::Store`].
    pub(crate) async fn add_from_peer(
        &self,
        peer: &Arc<str>,
        mut certs: Vec<Cert>,
        allowance: &mut Allowance,
    ) -> Result<Vec<Ingested>, Refusal> {
        let allowed = self.settings.load().policy.upload_cpu();
        let mut ingested = Vec::with_capacity(certs.len());
        // The last group is the next one.
        certs.sort_by_cached_key(|cert| Reverse(cert.cost()));
        let mut groups = grouped(certs, allowed);
        while let Some(group) = groups.pop() {
            let (needed, count_all) = (cost(&group), group.len());
            // A certificate that costs too much for an upload is left out before it is verified.
            if needed <= allowed && !allowance.covers(needed, count_all) {
                break;
            }
            match self.prepare_for_peer(peer, group.clone()).await {
                Ok(intake) => {
                    let (written, taken) = self.write(Lane::Peer(Arc::clone(peer)), intake).await?;
                    ingested.extend(written);
                    allowance.charge(taken, count_all);
                }
                Err(Refusal::TooCostly(_) | Refusal::TooLarge(_)) if count_all > 1 => {
                    groups.extend(group.into_iter().map(|cert| vec![cert]));
                }
                Err(Refusal::TooCostly(TooCostly { needed: together, .. })) => {
                    count(&self.metrics.certs_too_costly, 1);
                    let fingerprint = group[0].fingerprint();
                    let seconds = together.as_secs_f64();
                    tracing::warn!(%fingerprint, seconds, "a certificate of a peer is too costly");
                    // With the stored copy it costs too much, which may have been found out late.
                    let taken = if needed <= allowed { needed } else { group[0].handling_cost() };
                    allowance.charge(taken, count_all);
                }
                Err(other) => return Err(other),
            }
        }
        Ok(ingested)
    }

    /// How certificates of strangers are prepared, by the settings.
    pub(crate) fn preparation(&self) -> Preparation {
        let policy = &self.settings.load().policy;
        let allowed = policy.upload_cpu();
        Preparation { limits: policy.limits(), work: Work::of(allowed).with_part(allowed / 4) }
    }

    async fn prepare_for_peer(&self, peer: &Arc<str>, certs: Vec<Cert>) -> Result<Intake, Refusal> {
        let (engine, preparation) = (self.engine.clone(), self.preparation());
        let work = async move || {
            Ok(engine.reading().await?.prepare(Arrival::Copies(certs), &preparation).await?)
        };
        self.run(Lane::Peer(Arc::clone(peer)), work).await
    }

    /// Writes prepared certificates, a transaction at a time, and prepares those again that others
    /// have changed first. What is cheap stays so, each time that it is prepared. Returns the cost
    /// of all preparations, too.
    async fn write(
        &self,
        lane: Lane,
        mut intake: Intake,
    ) -> Result<(Vec<Ingested>, Duration), Refusal> {
        let busy = |refusal: Refusal| match refusal {
            Refusal::TooCostly(_) => Refusal::Busy,
            other => other,
        };
        // What somebody else has made of the certificate may be no longer light.
        let lane = if lane == Lane::Here { Lane::Cheap } else { lane };
        let mut again = 0;
        // An intake that changes nothing goes there once, too: what it was compared with may not be
        // on the disk yet.
        loop {
            let mut in_turn = None;
            if intake.is_overtaken() {
                again += 1;
                let mut preparation = self.preparation();
                if lane == Lane::Cheap || again > AGAIN_MAX {
                    let cheap = intake.work().needed().saturating_add(CHEAP);
                    preparation.work = preparation.work.up_to(cheap);
                }
                let prepared = if again <= AGAIN_MAX {
                    let engine = self.engine.clone();
                    let work = async move || {
                        let arrival = Arrival::Overtaken(Box::new(intake));
                        Ok(engine.reading().await?.prepare(arrival, &preparation).await?)
                    };
                    self.run(lane.clone(), work).await
                } else {
                    in_turn = Some(preparation);
                    Ok(intake)
                };
                intake = prepared.map_err(busy)?;
            }
            intake = self.engine.write(intake, in_turn).await.map_err(Into::into).map_err(busy)?;
            if intake.is_written() {
                break;
            }
        }
        let cost = intake.work().needed();
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
        Ok((ingested, cost))
    }
}

/// Groups that may be prepared at once. A certificate that is above the limit has a group of its
/// own.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_certificates_leave_the_allowance_of_an_exchange_to_costly_ones() {
        let second = Duration::from_secs(1);
        let mut allowance = Allowance::new(second);
        for _ in 0..150 {
            assert!(allowance.covers(100 * LIGHT, 100));
            allowance.charge(100 * LIGHT, 100);
        }
        // Two uploads may be as costly as any, and no third one.
        for _ in 0..2 {
            assert!(allowance.covers(second, 1));
            allowance.charge(second, 1);
        }
        assert!(!allowance.is_exceeded() && !allowance.covers(second, 1));
        assert!(allowance.is_exceeded());
    }
}
