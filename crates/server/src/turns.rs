//! Turns: a fixed number of threads for long work, one piece at a time on each.
//!
//! The threads are few, and they stay: each thread keeps some of the memory that it has needed. Work that is parallel
//! elsewhere (rayon) stays on its thread here, so that nobody's work fills the threads that others need.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use std::{io, thread};

use tokio::sync::{Semaphore, oneshot};

/// The greatest number of threads.
const THREADS_MAX: usize = 16;

/// The time that a request waits for a thread.
const PATIENCE: Duration = Duration::from_secs(20);

/// Why work was not done.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum TurnError {
    /// No thread became free for a long time.
    Busy,
    /// The work panicked.
    Failed,
}

type Job = Box<dyn FnOnce() + Send>;

/// A fixed number of threads, and the queue of work for them.
#[derive(Clone, Debug)]
pub(crate) struct Turns {
    free: Arc<Semaphore>,
    jobs: Sender<Job>,
}

impl Turns {
    /// Starts a thread for each core, and one more for work that waits for the disk. They end when the last clone of this
    /// value is dropped and the queue is empty.
    pub(crate) fn start(name: &str) -> io::Result<Self> {
        Self::start_some(name, cores() + 1)
    }

    /// Starts one thread for every two cores, so that such work leaves the others free.
    pub(crate) fn start_half(name: &str) -> io::Result<Self> {
        Self::start_some(name, (cores() / 2).max(1))
    }

    fn start_some(name: &str, count: usize) -> io::Result<Self> {
        let count = count.min(THREADS_MAX);
        let (jobs, queue) = channel();
        let queue = Arc::new(Mutex::new(queue));
        for _ in 0..count {
            let queue = Arc::clone(&queue);
            thread::Builder::new().name(name.into()).spawn(move || work_off(&queue))?;
        }
        Ok(Self { free: Arc::new(Semaphore::new(count)), jobs })
    }

    /// Runs `work` when a thread is free. It ends even if nobody waits for the result any more.
    ///
    /// # Errors
    ///
    /// [`TurnError`], and the errors of `work`.
    pub(crate) async fn run<T, E>(
        &self,
        work: impl FnOnce() -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<TurnError> + Send + 'static,
    {
        let free = tokio::time::timeout(PATIENCE, Arc::clone(&self.free).acquire_owned()).await;
        let Ok(Ok(free)) = free else { return Err(TurnError::Busy.into()) };
        let (sender, result) = oneshot::channel();
        let job: Job = Box::new(move || {
            let result = catch_unwind(AssertUnwindSafe(work));
            drop(free);
            if let Ok(result) = result {
                // The client may have gone.
                let _ = sender.send(result);
            }
        });
        self.jobs.send(job).map_err(|_| TurnError::Failed)?;
        result.await.unwrap_or_else(|_| Err(TurnError::Failed.into()))
    }
}

/// Runs work that may take milliseconds off the threads that answer requests, on a thread that is not one of a few.
pub(crate) async fn blocking<T, E>(
    work: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T, E>
where
    T: Send + 'static,
    E: From<TurnError> + Send + 'static,
{
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|_| Err(TurnError::Failed.into()))
}

fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

fn work_off(queue: &Mutex<Receiver<Job>>) {
    let own = rayon::ThreadPoolBuilder::new().num_threads(1).use_current_thread().build();
    if let Err(error) = &own {
        tracing::warn!(%error, "long work may use the threads of other work");
    }
    loop {
        let job = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = job else { return };
        job();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_that_panics_fails_alone() {
        let turns = Turns::start("test").unwrap();
        for _ in 0..2 * THREADS_MAX {
            let panicked = turns.run(|| -> Result<(), TurnError> { panic!("on purpose") }).await;
            assert_eq!(panicked, Err(TurnError::Failed));
        }
        assert_eq!(turns.run(|| Ok::<_, TurnError>(7)).await, Ok(7));
    }

    #[tokio::test]
    async fn work_ends_if_nobody_waits() {
        let turns = Turns::start("test").unwrap();
        let (sender, done) = oneshot::channel();
        let work = turns.run(move || {
            thread::sleep(Duration::from_millis(100));
            let _ = sender.send(());
            Ok::<_, TurnError>(())
        });
        assert!(tokio::time::timeout(Duration::from_millis(10), work).await.is_err());
        done.await.unwrap();
    }
}
