//! Turns: a fixed number of threads for long work, one piece at a time on each.
//!
//! The threads are few, and they stay: each thread keeps some of the memory that it has needed.
//! Work that is parallel elsewhere (rayon) stays on its thread here, so that nobody's work fills
//! the threads that others need.

use std::cell::Cell;
use std::collections::HashMap;
use std::hash::Hash;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;
use std::{io, thread};

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// The greatest number of threads.
const THREADS_MAX: usize = 16;

/// The time that a request waits for a thread, or for the work of its network before.
const PATIENCE: Duration = Duration::from_secs(20);

/// How far threads for costly work stand behind the others of the server: by 10, they get a tenth
/// of a core that both want.
pub(crate) const BEHIND: i32 = 10;

/// Why work was not done.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum TurnError {
    /// No thread became free for a long time.
    Busy,
    /// The work panicked.
    Failed,
}

type Job = Box<dyn FnOnce() + Send>;

/// The results that may wait to be taken, for each thread. They may be large, and nobody counts
/// their memory yet.
const RESULTS_EACH: usize = 2;

/// A fixed number of threads, and the queue of work for them.
#[derive(Clone, Debug)]
pub(crate) struct Turns {
    /// For work that runs, and for results that nobody has taken.
    free: Arc<Semaphore>,
    jobs: Sender<Job>,
    /// The time that work waits for a thread.
    patience: Duration,
}

impl Turns {
    /// Starts a thread for each core, and one more for work that waits for the disk. They end when
    /// the last clone of this value is dropped and the queue is empty.
    pub(crate) fn start(name: &str) -> io::Result<Self> {
        Self::start_some(name, cores() + 1, 0)
    }

    /// Starts one thread for every two cores, and `least` of them in any case. The other threads of
    /// the server go first: the more so, the larger `nice` is.
    pub(crate) fn start_behind(name: &str, least: usize, nice: i32) -> io::Result<Self> {
        Self::start_some(name, (cores() / 2).max(least), nice)
    }

    fn start_some(name: &str, count: usize, nice: i32) -> io::Result<Self> {
        let count = count.min(THREADS_MAX);
        let (jobs, queue) = channel();
        let queue = Arc::new(Mutex::new(queue));
        for _ in 0..count {
            let queue = Arc::clone(&queue);
            thread::Builder::new().name(name.into()).spawn(move || work_off(&queue, nice))?;
        }
        let free = Arc::new(Semaphore::new(RESULTS_EACH * count));
        Ok(Self { free, jobs, patience: PATIENCE })
    }

    /// Runs `work` when a thread is free, which waits where the work waits. It ends even if nobody
    /// waits for the result any more. If nobody takes the results of others, no thread is free.
    ///
    /// # Errors
    ///
    /// [`TurnError`], and the errors of `work`.
    pub(crate) async fn run<T, E>(
        &self,
        work: impl AsyncFnOnce() -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<TurnError> + Send + 'static,
    {
        let free = Arc::clone(&self.free).acquire_owned();
        let free = tokio::time::timeout(self.patience, free).await;
        let Ok(Ok(free)) = free else { return Err(TurnError::Busy.into()) };
        let (sender, result) = oneshot::channel();
        let runtime = Handle::current();
        let job: Job = Box::new(move || {
            let result = catch_unwind(AssertUnwindSafe(|| runtime.block_on(work())));
            if let Ok(result) = result {
                // The client may have gone.
                let _ = sender.send((result, free));
            }
        });
        self.jobs.send(job).map_err(|_| TurnError::Failed)?;
        let (result, _free) = result.await.map_err(|_| TurnError::Failed)?;
        result
    }
}

/// One turn at a time for each key. Whoever has a turn gets the next one when it ends.
#[derive(Debug)]
pub(crate) struct OneEach<K> {
    turns: Mutex<HashMap<K, Arc<Semaphore>>>,
    /// The time that a key waits for its turn.
    patience: Duration,
}

impl<K> Default for OneEach<K> {
    fn default() -> Self {
        Self { turns: Mutex::default(), patience: PATIENCE }
    }
}

impl<K: Eq + Hash> OneEach<K> {
    /// The turn of `key`, which ends when it is dropped.
    ///
    /// # Errors
    ///
    /// [`TurnError::Busy`] if the one before does not end for a long time.
    pub(crate) async fn turn(&self, key: K) -> Result<OwnedSemaphorePermit, TurnError> {
        let turns = {
            let mut all = self.turns.lock();
            // Those that nobody has or waits for are not needed.
            all.retain(|_, turns| Arc::strong_count(turns) > 1);
            Arc::clone(all.entry(key).or_insert_with(|| Arc::new(Semaphore::new(1))))
        };
        let turn = tokio::time::timeout(self.patience, turns.acquire_owned()).await;
        turn.map_err(|_| TurnError::Busy)?.map_err(|_| TurnError::Failed)
    }
}

/// Threads that keys share fairly: one piece of work of each key at a time runs or waits for a
/// thread. So a key waits for at most one piece of each other key, however much work the others
/// have.
#[derive(Debug)]
pub(crate) struct FairTurns<K> {
    turns: Turns,
    each: OneEach<K>,
}

impl<K: Eq + Hash> FairTurns<K> {
    /// Shares the threads of `turns`.
    pub(crate) fn of(turns: Turns) -> Self {
        Self { turns, each: OneEach::default() }
    }

    /// Work waits for so long: first for the work of its key before, then for a thread.
    pub(crate) fn with_patience(mut self, patience: Duration) -> Self {
        self.turns.patience = patience;
        self.each.patience = patience;
        self
    }

    /// Runs `work` of `key`, as [`Turns::run`] does.
    ///
    /// # Errors
    ///
    /// [`TurnError`], and the errors of `work`.
    pub(crate) async fn run<T, E>(
        &self,
        key: K,
        work: impl AsyncFnOnce() -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<TurnError> + Send + 'static,
    {
        let turn = self.each.turn(key).await?;
        // The turn ends with the work, even if nobody waits for the result any more.
        self.turns
            .run(async move || {
                let result = work().await;
                drop(turn);
                result
            })
            .await
    }
}

/// Runs work that may take milliseconds off the threads that answer requests, on a thread that is
/// not one of a few.
pub(crate) async fn blocking<T, E>(
    work: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T, E>
where
    T: Send + 'static,
    E: From<TurnError> + Send + 'static,
{
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|_| Err(TurnError::Failed.into()))
}

/// Bytes that are parsed on the thread that answers. The worst of them take some hundred
/// microseconds.
const FEW_BYTES: usize = 16 << 10;

/// Runs work that parses so many bytes: few of them at once, more as [`blocking`] does.
pub(crate) async fn parsing<T, E>(
    bytes: usize,
    work: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T, E>
where
    T: Send + 'static,
    E: From<TurnError> + Send + 'static,
{
    if bytes <= FEW_BYTES { work() } else { blocking(work).await }
}

thread_local! {
    /// Whether the thread keeps its work.
    static STAYS: Cell<bool> = const { Cell::new(false) };
}

/// Keeps work that is parallel elsewhere (rayon) on this thread from now on. It must be one that
/// stays: its pool is never freed.
pub(crate) fn stay_on_this_thread() {
    if STAYS.replace(true) {
        return;
    }
    let own = rayon::ThreadPoolBuilder::new().num_threads(1).use_current_thread().build();
    match own {
        Ok(own) => std::mem::forget(own),
        Err(error) => tracing::warn!(%error, "work may use the threads of other work"),
    }
}

fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

fn work_off(queue: &Mutex<Receiver<Job>>, nice: i32) {
    // Elsewhere, this would be the priority of the whole process.
    if cfg!(target_os = "linux")
        && nice > 0
        && let Err(error) = rustix::process::setpriority_process(None, nice)
    {
        tracing::warn!(%error, "long work has the priority of other work");
    }
    stay_on_this_thread();
    loop {
        let job = queue.lock().recv();
        let Ok(job) = job else { return };
        job();
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;
    use std::task::Poll;

    use super::*;

    #[tokio::test]
    async fn work_that_panics_fails_alone() {
        let turns = Turns::start("test").unwrap();
        for _ in 0..2 * THREADS_MAX {
            let panicked =
                turns.run(async || -> Result<(), TurnError> { panic!("on purpose") }).await;
            assert_eq!(panicked, Err(TurnError::Failed));
        }
        assert_eq!(turns.run(async || Ok::<_, TurnError>(7)).await, Ok(7));
    }

    #[tokio::test]
    async fn each_has_one_turn_and_nobody_waits_for_others() {
        let all = OneEach::default();
        let first = all.turn(1).await.unwrap();
        let _other = all.turn(2).await.unwrap();
        let wait = tokio::time::timeout(Duration::from_millis(10), all.turn(1)).await;
        assert!(wait.is_err());
        drop(first);
        drop(all.turn(1).await.unwrap());
        drop(all.turn(3).await.unwrap());
        assert_eq!(all.turns.lock().len(), 2, "2, and 3, which is forgotten next");
    }

    #[tokio::test]
    async fn much_work_of_one_key_comes_behind_the_first_work_of_another() {
        let turns = Turns::start_some("test", 1, 0).unwrap();
        let turns = Arc::new(FairTurns::of(turns));
        let done: Arc<Mutex<Vec<&str>>> = Arc::default();
        let (go, begins) = channel::<()>();
        let mut begins = Some(begins);
        let mut all = Vec::new();
        for key in ["much", "much", "much", "much", "little"] {
            let (turns, done, begins) = (Arc::clone(&turns), Arc::clone(&done), begins.take());
            let work = async move || {
                // The first work takes until all the others wait.
                if let Some(begins) = begins {
                    begins.recv().unwrap();
                }
                done.lock().push(key);
                Ok::<_, TurnError>(())
            };
            all.push(tokio::spawn(async move { turns.run(key, work).await }));
            // Each stands in its queue before the next one comes.
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
        }
        go.send(()).unwrap();
        for work in all {
            assert_eq!(work.await.unwrap(), Ok(()));
        }
        assert_eq!(*done.lock(), ["much", "little", "much", "much", "much"]);
    }

    #[tokio::test]
    async fn few_results_wait_to_be_taken() {
        let turns = Turns::start_some("test", 1, 0).unwrap();
        let made: Arc<Mutex<usize>> = Arc::default();
        let all: Vec<_> = (0..20)
            .map(|_| {
                let (turns, made) = (turns.clone(), Arc::clone(&made));
                let work = async move || {
                    *made.lock() += 1;
                    Ok::<_, TurnError>(())
                };
                Box::pin(async move { turns.run(work).await })
            })
            .collect();
        let mut all = pin!(futures_util::future::join_all(all));
        // Everybody asks, and then does something else for a while.
        let asked = poll_fn(|cx| Poll::Ready(all.as_mut().poll(cx).is_pending()));
        assert!(asked.await);
        thread::sleep(Duration::from_millis(200));
        assert_eq!(*made.lock(), RESULTS_EACH);
        assert_eq!(all.await, [Ok(()); 20]);
    }

    #[tokio::test]
    async fn work_ends_if_nobody_waits() {
        let turns = Turns::start("test").unwrap();
        let (sender, done) = oneshot::channel();
        let work = turns.run(async move || {
            thread::sleep(Duration::from_millis(100));
            let _ = sender.send(());
            Ok::<_, TurnError>(())
        });
        assert!(tokio::time::timeout(Duration::from_millis(10), work).await.is_err());
        done.await.unwrap();
    }
}
