//! Figures about the whole store: computed once in a while, however many visitors ask.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use talaria_cert::View;
use talaria_recon::PrefixTree;
use tokio::sync::watch;

use crate::answer::Refusal;
use crate::clock;
use crate::engine::{Changes, Counting, Days, Engine, Reading, Tally};
use crate::metrics::{Metrics, count};

/// The maximum age of the contents.
const CONTENTS_EVERY: Duration = Duration::from_secs(600);

/// The maximum age of the changes.
const CHANGES_EVERY: Duration = Duration::from_secs(60);

/// The maximum age of the number of certificates that peers were asked for in vain.
const IN_VAIN_EVERY: Duration = Duration::from_secs(10);

/// The time that a visitor waits for the first figures.
const PATIENCE: Duration = Duration::from_secs(2);

/// Days of which the changes and requests are counted.
pub(crate) const DAYS: u32 = 30;

/// A value with the time of its computation.
#[derive(Debug)]
pub(crate) struct Dated<T> {
    at: Instant,
    /// Seconds since 1970.
    pub(crate) time: u32,
    pub(crate) value: T,
}

/// A value that is computed when somebody asks and the last one is too old.
#[derive(Debug)]
struct Periodic<T> {
    last: watch::Sender<Option<Arc<Dated<T>>>>,
    is_computing: AtomicBool,
}

impl<T> Default for Periodic<T> {
    fn default() -> Self {
        Self { last: watch::Sender::default(), is_computing: AtomicBool::new(false) }
    }
}

impl<T: Send + Sync + 'static> Periodic<T> {
    /// The last value. If it is older than `period`, `compute` starts in the background, once for
    /// all who ask. They wait for it only if there is no value yet, and not for long.
    async fn get<F>(
        self: &Arc<Self>,
        period: Duration,
        compute: impl FnOnce() -> F,
    ) -> Option<Arc<Dated<T>>>
    where
        F: Future<Output = Result<T, Refusal>> + Send + 'static,
    {
        let mut seen = self.last.subscribe();
        let last = seen.borrow_and_update().clone();
        let is_fresh = last.as_ref().is_some_and(|last| last.at.elapsed() < period);
        if !is_fresh && !self.is_computing.swap(true, Ordering::AcqRel) {
            let (this, computing) = (Arc::clone(self), compute());
            // It ends even if nobody waits any more.
            tokio::spawn(async move {
                match computing.await {
                    Ok(value) => {
                        let dated = Dated { at: Instant::now(), time: clock::now(), value };
                        this.last.send_replace(Some(Arc::new(dated)));
                    }
                    Err(error) => tracing::error!(%error, "cannot compute the statistics"),
                }
                this.is_computing.store(false, Ordering::Release);
            });
        }
        if last.is_some() {
            return last;
        }
        let first = tokio::time::timeout(PATIENCE, seen.wait_for(Option::is_some)).await;
        first.ok()?.ok()?.clone()
    }
}

/// The contents of the store.
#[derive(Debug)]
pub(crate) struct Contents {
    pub(crate) holds: talaria::Statistics,
    pub(crate) changes: Changes,
    /// Requests by day and kind.
    pub(crate) tally: Tally,
}

/// The figures of a server.
#[derive(Debug)]
pub(crate) struct Figures {
    engine: Engine,
    metrics: Arc<Metrics>,
    contents: Arc<Periodic<Contents>>,
    changes: Arc<Periodic<Changes>>,
    in_vain: Arc<Periodic<u64>>,
}

impl Figures {
    pub(crate) fn new(engine: Engine, metrics: Arc<Metrics>) -> Self {
        Self {
            engine,
            metrics,
            contents: Arc::default(),
            changes: Arc::default(),
            in_vain: Arc::default(),
        }
    }

    /// The contents, counted within the last ten minutes or since the last visit. `None` if the
    /// first count takes longer than visitors wait.
    pub(crate) async fn contents(&self) -> Option<Arc<Dated<Contents>>> {
        let compute = || contents(self.engine.clone(), Arc::clone(&self.metrics));
        self.contents.get(CONTENTS_EVERY, compute).await
    }

    /// The changes of the last days, counted within the last minute or since the last visit.
    pub(crate) async fn changes(&self) -> Option<Arc<Dated<Changes>>> {
        let compute = || changes(self.engine.clone(), Arc::clone(&self.metrics));
        self.changes.get(CHANGES_EVERY, compute).await
    }

    /// The number of certificates that peers were asked for in vain, counted within the last ten
    /// seconds or since the last visit. `None` if the first count takes longer than visitors wait.
    pub(crate) async fn in_vain(&self) -> Option<u64> {
        let compute = || in_vain(self.engine.clone());
        self.in_vain.get(IN_VAIN_EVERY, compute).await.map(|dated| dated.value)
    }

    /// The number of certificates as the trees have it: half a second old at most, and without a
    /// read.
    pub(crate) fn certs(&self) -> u64 {
        self.engine.with_tree(View::Sks, PrefixTree::len).unwrap_or(0) as u64
    }

    /// The number of certificates at this moment.
    pub(crate) async fn certs_now(&self) -> Result<u64, Refusal> {
        self.engine.follow(None).await?;
        Ok(self.certs())
    }
}

/// Counts in pieces, so that other reads get their turns, and no snapshot stays long.
async fn contents(engine: Engine, metrics: Arc<Metrics>) -> Result<Contents, Refusal> {
    count(&metrics.counted, 1);
    let mut counting = Counting::default();
    loop {
        // Each piece has a turn of its own.
        let count =
            async move |store: &mut Reading| Ok::<_, Refusal>(store.count_on(counting).await?);
        counting = engine.read(count).await?;
        if !counting.goes_on() {
            break;
        }
    }
    let since = clock::today().saturating_sub(DAYS - 1);
    let days = async move |store: &mut Reading| Ok::<_, Refusal>(store.days(since).await?);
    let Days { changes, tally } = engine.read(days).await?;
    Ok(Contents { holds: counting.holds, changes, tally })
}

async fn changes(engine: Engine, metrics: Arc<Metrics>) -> Result<Changes, Refusal> {
    count(&metrics.counted, 1);
    let since = clock::today().saturating_sub(DAYS);
    engine.read(async move |store: &mut Reading| Ok(store.days(since).await?.changes)).await
}

async fn in_vain(engine: Engine) -> Result<u64, Refusal> {
    engine.read(async move |store: &mut Reading| Ok(store.in_vain_count().await?)).await
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[tokio::test]
    async fn concurrent_visits_wait_for_one_computation_and_later_ones_take_its_value() {
        let (figure, computed) = (Arc::new(Periodic::default()), Arc::new(AtomicUsize::new(0)));
        let visit = |period| {
            let (figure, computed) = (Arc::clone(&figure), Arc::clone(&computed));
            async move {
                let compute = || async move {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    Ok(computed.fetch_add(1, Ordering::Relaxed) + 1)
                };
                figure.get(period, compute).await.expect("a value").value
            }
        };
        let long = Duration::from_secs(600);
        // One visitor leaves at once. The computation goes on.
        let _ = tokio::time::timeout(Duration::from_millis(5), visit(long)).await;
        let visits: Vec<_> = (0..50).map(|_| tokio::spawn(visit(long))).collect();
        for visit in visits {
            assert_eq!(visit.await.unwrap(), 1);
        }
        assert_eq!(visit(long).await, 1);
        assert_eq!(computed.load(Ordering::Relaxed), 1);
        // An old value is given out while the next one is computed.
        assert_eq!(visit(Duration::ZERO).await, 1);
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert_eq!(visit(long).await, 2);
    }

    #[tokio::test]
    async fn a_computation_that_fails_is_tried_again() {
        let figure = Arc::new(Periodic::default());
        let (period, failed) = (Duration::from_secs(600), || async { Err(Refusal::Busy) });
        let waits = figure.get(period, failed);
        assert!(tokio::time::timeout(Duration::from_millis(20), waits).await.is_err());
        assert_eq!(figure.get(period, || async { Ok(7) }).await.expect("a value").value, 7);
    }
}
