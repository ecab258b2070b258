//! The one place that writes to the store: a thread that takes whatever was prepared (`intake.rs`)
//! and commits it as one transaction. Another thread (`syncer.rs`) puts the commits on the disk and
//! then answers, while the next batch is written. So the rate of durable uploads grows with the
//! number of clients.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use talaria_store::{Intake, Store, StoreError};
use tokio::sync::{mpsc, oneshot};

use super::copier::{Copier, copy};
use super::reader::Readers;
use super::syncer::{Batch, Ended, Reply, Syncer};
use crate::clock;
use crate::engine::error::EngineError;

/// Certificates that one transaction writes, so that nobody waits long for it. The rest of a large
/// upload waits in the queue again.
const BATCH_CERTS: usize = 500;

/// Requests in the queue. If it is full, callers wait until there is a place.
const QUEUE: usize = 1024;

/// Work on the store that is no upload. Returns the error that ends the writer, if there is one.
type Task = Box<dyn FnOnce(&mut Store) -> Option<Arc<StoreError>> + Send>;

enum Job {
    Write { intake: Box<Intake>, reply: Reply },
    Task(Task),
    Close,
}

/// A handle to the writing thread. It ends when it is closed or the last handle is gone, and all
/// that was handed over is written then.
#[derive(Clone, Debug)]
pub(crate) struct Writer {
    jobs: mpsc::Sender<Job>,
    commits: Arc<AtomicU64>,
    /// They are told of each write before anybody gets an answer.
    readers: Readers,
}

impl Writer {
    /// Starts the thread. The store is closed at the end of it, after all answers. With `second`,
    /// another connection for writing, a long log is copied while this one goes on.
    pub(crate) fn start(
        mut store: Store,
        second: Option<Store>,
        readers: Readers,
    ) -> Result<(Self, JoinHandle<Ended>), StoreError> {
        let (jobs, queue) = mpsc::channel(QUEUE);
        let writer = Self { jobs, commits: Arc::default(), readers };
        let handle = writer.jobs.downgrade();
        let wake = move || {
            if let Some(jobs) = handle.upgrade() {
                // If the queue is full, the writer does not sleep.
                let _ = jobs.try_send(Job::Task(Box::new(|_| None)));
            }
        };
        let copier = if let Some(second) = second {
            Some(Copier::start(&mut store, second, writer.finish())?)
        } else {
            let readers = writer.readers.clone();
            store.when_log_is_long(move |_| {
                readers.let_go();
                true
            })?;
            None
        };
        let (counter, readers) = (Arc::clone(&writer.commits), writer.readers.clone());
        let thread = std::thread::Builder::new()
            .name("talaria-writer".into())
            .spawn(move || {
                let syncer = Syncer::start(store.log_to_sync(), wake);
                let ended = run(&mut store, queue, &readers, &syncer, copier.as_ref(), &counter);
                let synced = syncer.end();
                if let Some(copier) = copier {
                    copier.end();
                }
                ended.and(synced)
            })
            .expect("a thread at start");
        Ok((writer, thread))
    }

    /// Lets the writing thread copy the rest of the log, or end because of an error.
    fn finish(&self) -> impl FnMut(Option<Arc<StoreError>>) + Send + 'static {
        let (jobs, readers) = (self.jobs.downgrade(), self.readers.clone());
        move |error| {
            let Some(jobs) = jobs.upgrade() else { return };
            let readers = readers.clone();
            let rest: Task = Box::new(move |store| {
                readers.let_go();
                error.or_else(|| copy(store))
            });
            // If it has ended, the log is copied when the store is closed.
            let _ = jobs.blocking_send(Job::Task(rest));
        }
    }

    /// Writes prepared certificates, as many as fit into one transaction. What is written is on the
    /// disk, and so is what the certificates were prepared against.
    pub(crate) async fn write(&self, intake: Intake) -> Result<Intake, EngineError> {
        let (reply, outcome) = oneshot::channel();
        let intake = Box::new(intake);
        self.jobs.send(Job::Write { intake, reply }).await.map_err(|_| EngineError::Closed)?;
        outcome.await.map_err(|_| EngineError::Closed)?.map_err(EngineError::from)
    }

    /// Does something else with the store, in its turn.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Store) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, EngineError> {
        let (done, outcome) = oneshot::channel();
        let readers = self.readers.clone();
        let task: Task = Box::new(move |store| {
            let result = work(store).map_err(Arc::new);
            readers.have_to_look();
            let last = result.as_ref().err().filter(|error| is_last(error)).cloned();
            let _ = done.send(result);
            last
        });
        self.jobs.send(Job::Task(task)).await.map_err(|_| EngineError::Closed)?;
        outcome.await.map_err(|_| EngineError::Closed)?.map_err(EngineError::from)
    }

    /// Lets the thread end after it has written all requests in the queue. Later requests get
    /// [`EngineError::Closed`].
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

/// Whether nothing can be written any more: another file has the name of the store, or it has
/// another format.
fn is_last(error: &StoreError) -> bool {
    matches!(error, StoreError::Moved { .. } | StoreError::Format { .. })
}

fn run(
    store: &mut Store,
    mut queue: mpsc::Receiver<Job>,
    readers: &Readers,
    syncer: &Syncer,
    copier: Option<&Copier>,
    commits: &AtomicU64,
) -> Ended {
    let mut next = None;
    while let Some(job) = next.take().or_else(|| queue.blocking_recv()) {
        if syncer.has_failed() {
            // Its end says why.
            return Ok(());
        }
        let (mut intakes, mut replies) = match job {
            Job::Task(task) => match task(store) {
                None => continue,
                Some(error) => return Err(error),
            },
            Job::Close => return Ok(()),
            Job::Write { intake, reply } => (vec![*intake], vec![reply]),
        };
        let mut count = intakes[0].pending();
        while count < BATCH_CERTS {
            match queue.try_recv() {
                Ok(Job::Write { intake, reply }) => {
                    count += intake.pending();
                    intakes.push(*intake);
                    replies.push(reply);
                }
                Ok(task) => {
                    next = Some(task);
                    break;
                }
                Err(_) => break,
            }
        }
        let commit = u64::from(count > 0);
        let number = commits.fetch_add(commit, Ordering::Relaxed) + commit;
        let written = if count == 0 {
            // A certificate can be unchanged because another process has added it a moment ago.
            store.sync_what_was_read()
        } else {
            store.write_ahead(&mut intakes, BATCH_CERTS, clock::now().into())
        };
        readers.have_to_look();
        match written {
            Ok(()) => syncer.put(Batch { number, intakes, replies }),
            Err(error) => {
                tracing::error!(%error, "cannot write to the store");
                let error = Arc::new(error);
                for reply in replies {
                    let _ = reply.send(Err(Arc::clone(&error)));
                }
                if count == 0 || is_last(&error) {
                    return Err(error);
                }
            }
        }
        if let Some(copier) = copier.filter(|copier| copier.is_late()) {
            readers.let_go();
            if let Some(error) = copier.catch_up(store) {
                return Err(error);
            }
        }
    }
    Ok(())
}
