//! The threads that answer requests: one for each core, each with a share of the connections. A connection stays on its
//! thread, so a request that arrives wakes no second one. With threads that take work from each other, a look-up took an eighth
//! more of CPU time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use std::{io, iter};

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use crate::turns;

/// The time that the tasks of a thread get to end.
const GRACE: Duration = Duration::from_secs(5);

/// The threads. They end when this value is dropped.
#[derive(Debug)]
pub(crate) struct Workers(Vec<Worker>);

#[derive(Debug)]
struct Worker {
    runtime: Handle,
    /// The number of its connections.
    load: Arc<AtomicUsize>,
    /// Ends the thread.
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

/// The place of a connection on a thread, until it is dropped.
#[derive(Debug)]
pub(crate) struct Share(Arc<AtomicUsize>);

impl Workers {
    /// Starts a thread for each core.
    pub(crate) fn start() -> io::Result<Self> {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        Self::start_some(cores)
    }

    fn start_some(count: usize) -> io::Result<Self> {
        iter::repeat_with(Worker::start).take(count).collect::<io::Result<_>>().map(Self)
    }

    /// Gives a connection a place on the thread that has the fewest, and runs its task there.
    pub(crate) fn spawn<T>(&self, task: impl FnOnce(Share) -> T)
    where
        T: Future<Output = ()> + Send + 'static,
    {
        let least = self.0.iter().min_by_key(|worker| worker.load.load(Ordering::Relaxed));
        let Worker { runtime, load, .. } = least.expect("a machine has a core");
        load.fetch_add(1, Ordering::Relaxed);
        runtime.spawn(task(Share(Arc::clone(load))));
    }
}

impl Worker {
    fn start() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel();
        let thread = thread::Builder::new().name("talaria-http".into()).spawn(move || {
            turns::stay_on_this_thread();
            let _ = runtime.block_on(stopped);
            runtime.shutdown_timeout(GRACE);
        })?;
        Ok(Self { runtime: handle, load: Arc::default(), stop, thread })
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        // All of them end side by side.
        let threads: Vec<_> = self
            .0
            .drain(..)
            .map(|Worker { stop, thread, .. }| {
                let _ = stop.send(());
                thread
            })
            .collect();
        for thread in threads {
            // One that has panicked has ended, too.
            let _ = thread.join();
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_connection_goes_to_the_thread_with_the_fewest() {
        let workers = Workers::start_some(3).unwrap();
        let loads = || -> Vec<_> {
            workers.0.iter().map(|worker| worker.load.load(Ordering::Relaxed)).collect()
        };
        let connect = || {
            let mut place = None;
            workers.spawn(|share| {
                place = Some(share);
                async {}
            });
            place.unwrap()
        };
        let mut places: Vec<_> = iter::repeat_with(connect).take(6).collect();
        assert_eq!(loads(), [2, 2, 2]);
        places.remove(1);
        assert_eq!(loads(), [2, 1, 2]);
        places.push(connect());
        assert_eq!(loads(), [2, 2, 2]);
    }

    #[test]
    fn a_task_runs_on_such_a_thread_and_ends_with_it() {
        let workers = Workers::start().unwrap();
        let (sender, named) = oneshot::channel();
        let (kept, mut dropped) = oneshot::channel::<()>();
        workers.spawn(|share| async move {
            let _ = sender.send(thread::current().name().map(str::to_owned));
            tokio::time::sleep(Duration::from_secs(3600)).await;
            drop((kept, share));
        });
        assert_eq!(named.blocking_recv().unwrap().as_deref(), Some("talaria-http"));
        drop(workers);
        assert_eq!(dropped.try_recv(), Err(oneshot::error::TryRecvError::Closed));
    }
}
