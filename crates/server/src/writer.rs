//! The one place that writes to the store: a thread that takes whatever has come in together and
//! commits it as one transaction.
//!
//! While a commit waits for the disk, the next batch gathers. So the rate of durable uploads grows
//! with the number of clients, and one that comes alone waits for one sync only.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use talaria_cert::{Cert, Limits, Verification};
use talaria_store::{Ingested, Store, StoreError};
use tokio::sync::{mpsc, oneshot};

use crate::clock;

/// Certificates and bytes that go into one transaction.
const BATCH_CERTS: usize = 4096;
const BATCH_BYTES: usize = 64 << 20;

/// Requests in the queue. If it is full, callers wait until there is a place.
const QUEUE: usize = 1024;

/// Work on the store that is no upload. Returns the error that ends the writer, if there is one.
type Task = Box<dyn FnOnce(&mut Store) -> Option<Arc<StoreError>> + Send>;

/// The end of the writing thread: the error because of which it cannot go on, or none after it was closed.
pub(crate) type Ended = Result<(), Arc<StoreError>>;

enum Job {
    Add { certs: Vec<Cert>, done: oneshot::Sender<Result<Vec<Ingested>, Arc<StoreError>>> },
    Task(Task),
    Close,
}

/// Why something could not be written.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum WriteError {
    #[error(transparent)]
    Store(Arc<StoreError>),
    #[error("the server is shutting down")]
    Closed,
}

/// A handle to the writing thread. It ends when it is closed or the last handle is gone, and all that
/// was handed over is written then.
#[derive(Clone, Debug)]
pub(crate) struct Writer {
    jobs: mpsc::Sender<Job>,
    commits: Arc<AtomicU64>,
}

impl Writer {
    /// Starts the thread. The store is closed at the end of it.
    pub(crate) fn start(
        mut store: Store,
        limits: Limits,
    ) -> (Self, std::thread::JoinHandle<Ended>) {
        let (jobs, queue) = mpsc::channel(QUEUE);
        let commits = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&commits);
        store.set_limits(limits);
        let thread = std::thread::Builder::new()
            .name("talaria-writer".into())
            .spawn(move || run(&mut store, queue, &counter))
            .expect("a thread at start");
        (Self { jobs, commits }, thread)
    }

    /// Adds certificates. What is acknowledged is on disk.
    pub(crate) async fn add(&self, certs: Vec<Cert>) -> Result<Vec<Ingested>, WriteError> {
        let (done, outcome) = oneshot::channel();
        self.jobs.send(Job::Add { certs, done }).await.map_err(|_| WriteError::Closed)?;
        outcome.await.map_err(|_| WriteError::Closed)?.map_err(WriteError::Store)
    }

    /// Does something else with the store, in its turn.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Store) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, WriteError> {
        let (done, outcome) = oneshot::channel();
        let task: Task = Box::new(move |store| {
            let result = work(store).map_err(Arc::new);
            let last = result.as_ref().err().filter(|error| is_last(error)).cloned();
            let _ = done.send(result);
            last
        });
        self.jobs.send(Job::Task(task)).await.map_err(|_| WriteError::Closed)?;
        outcome.await.map_err(|_| WriteError::Closed)?.map_err(WriteError::Store)
    }

    /// Lets the thread end after it has written all requests in the queue. Later requests get
    /// [`WriteError::Closed`].
    pub(crate) async fn close(&self) {
        let _ = self.jobs.send(Job::Close).await;
    }

    /// Whether the thread takes no more.
    pub(crate) fn has_ended(&self) -> bool {
        self.jobs.is_closed()
    }

    /// Requests that wait.
    pub(crate) fn waiting(&self) -> usize {
        QUEUE - self.jobs.capacity()
    }

    /// Transactions so far.
    pub(crate) fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }
}

/// Whether nothing can be written any more: another file has the name of the store, or it has another format.
fn is_last(error: &StoreError) -> bool {
    matches!(error, StoreError::Moved { .. } | StoreError::Format { .. })
}

fn run(store: &mut Store, mut queue: mpsc::Receiver<Job>, commits: &AtomicU64) -> Ended {
    let mut next = None;
    while let Some(job) = next.take().or_else(|| queue.blocking_recv()) {
        let (mut certs, mut askers) = match job {
            Job::Task(task) => match task(store) {
                None => continue,
                Some(error) => return Err(error),
            },
            Job::Close => return Ok(()),
            Job::Add { certs, done } => (vec![], vec![(certs, done)]),
        };
        let size = |certs: &[Cert]| certs.iter().map(|cert| cert.as_bytes().len()).sum::<usize>();
        let mut bytes = size(&askers[0].0);
        let mut count = askers[0].0.len();
        while count < BATCH_CERTS && bytes < BATCH_BYTES {
            match queue.try_recv() {
                Ok(Job::Add { certs, done }) => {
                    bytes += size(&certs);
                    count += certs.len();
                    askers.push((certs, done));
                }
                Ok(task) => {
                    next = Some(task);
                    break;
                }
                Err(_) => break,
            }
        }
        let askers: Vec<_> = askers
            .into_iter()
            .map(|(mut theirs, done)| {
                let count = theirs.len();
                certs.append(&mut theirs);
                (count, done)
            })
            .collect();
        commits.fetch_add(1, Ordering::Relaxed);
        match store.ingest_counted(certs, Verification::Full, clock::now().into()) {
            Ok(outcomes) => {
                let mut outcomes = outcomes.into_iter();
                for (count, done) in askers {
                    let _ = done.send(Ok(outcomes.by_ref().take(count).collect()));
                }
            }
            Err(error) => {
                tracing::error!(%error, "cannot write to the store");
                let error = Arc::new(error);
                for (_, done) in askers {
                    let _ = done.send(Err(Arc::clone(&error)));
                }
                if is_last(&error) {
                    return Err(error);
                }
            }
        }
    }
    Ok(())
}
