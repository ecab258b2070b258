//! The thread that puts commits on the disk, and then answers for them. During one sync, the next
//! commit is made, and the one after it gathers: more than that would make small commits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use talaria_store::{Intake, LogToSync, StoreError};
use tokio::sync::oneshot;

use crate::engine::error::Cause;

/// The end of writing: the error because of which it cannot go on, or none after it was closed.
pub(crate) type Ended = Result<(), Cause>;

/// Where the outcome of a write goes.
pub(super) type Reply = oneshot::Sender<Result<Intake, Arc<StoreError>>>;

/// Intakes that were written together.
pub(super) struct Batch {
    /// The number of the last commit that they depend on.
    pub(super) number: u64,
    pub(super) intakes: Vec<Intake>,
    pub(super) replies: Vec<Reply>,
}

impl Batch {
    fn answer(self) {
        for (intake, reply) in self.intakes.into_iter().zip(self.replies) {
            let _ = reply.send(Ok(intake));
        }
    }

    fn refuse(self, error: &Arc<StoreError>) {
        for reply in self.replies {
            let _ = reply.send(Err(Arc::clone(error)));
        }
    }
}

/// A handle to the thread.
pub(super) struct Syncer {
    batches: SyncSender<Batch>,
    /// The number of the last commit that is on the disk.
    synced: Arc<AtomicU64>,
    has_failed: Arc<AtomicBool>,
    thread: JoinHandle<Ended>,
}

impl Syncer {
    /// Starts the thread. It calls `wake`, which must not wait, if a sync fails: then nobody knows
    /// what is on the disk.
    pub(super) fn start(log: LogToSync, wake: impl FnOnce() + Send + 'static) -> Self {
        let (batches, waiting) = sync_channel(0);
        let synced = Arc::new(AtomicU64::new(0));
        let has_failed = Arc::new(AtomicBool::new(false));
        let (last, failed) = (Arc::clone(&synced), Arc::clone(&has_failed));
        let thread = std::thread::Builder::new()
            .name("talaria-syncer".into())
            .spawn(move || {
                let ended = run(&log, &waiting, &last);
                if let Err(error) = &ended {
                    failed.store(true, Ordering::Release);
                    wake();
                    waiting.into_iter().for_each(|batch| batch.refuse(error));
                }
                ended.map_err(|error| -> Cause { error })
            })
            .expect("a thread at start");
        Self { batches, synced, has_failed, thread }
    }

    /// Answers for a batch as soon as it is on the disk. Waits until the sync before has ended.
    pub(super) fn put(&self, batch: Batch) {
        if self.synced.load(Ordering::Acquire) >= batch.number {
            batch.answer();
        } else {
            // Those who ask see that the thread is gone.
            let _ = self.batches.send(batch);
        }
    }

    /// Whether nothing can be written any more.
    pub(super) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Acquire)
    }

    /// Waits until all batches are answered.
    pub(super) fn end(self) -> Ended {
        drop(self.batches);
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// Syncs until no more batches come, or a sync fails.
fn run(
    log: &LogToSync,
    waiting: &Receiver<Batch>,
    synced: &AtomicU64,
) -> Result<(), Arc<StoreError>> {
    while let Ok(batch) = waiting.recv() {
        if let Err(error) = log.sync() {
            tracing::error!(%error, "cannot write to the store");
            let error = Arc::new(error);
            batch.refuse(&error);
            return Err(error);
        }
        synced.store(batch.number, Ordering::Release);
        batch.answer();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use talaria_cert::{Limits, Verification, Work};
    use talaria_corpus::{Generate, certs};
    use talaria_store::{Access, Preparation, Store};
    use tokio::sync::oneshot::Receiver;

    use super::*;

    /// A batch, and what its asker gets.
    fn batch(store: &Store, number: u64) -> (Batch, Receiver<Result<Intake, Arc<StoreError>>>) {
        let preparation = Preparation {
            limits: Limits::default(),
            verification: Verification::Full,
            now: 1_740_000_000.into(),
            work: Work::UNBOUNDED,
        };
        let certs = certs(&Generate { first: number, count: 1, ..Generate::default() });
        let intake = store.prepare(certs, &preparation).unwrap();
        let (reply, answer) = oneshot::channel();
        (Batch { number, intakes: vec![intake], replies: vec![reply] }, answer)
    }

    #[test]
    fn nothing_is_answered_with_success_after_a_sync_that_failed() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("certs.db"), Access::Create).unwrap();
        let (told, failure) = channel();
        let syncer = Syncer::start(store.log_to_sync(), move || told.send(()).unwrap());
        let (first, answer) = batch(&store, 1);
        syncer.put(first);
        assert!(answer.blocking_recv().unwrap().is_ok());
        std::fs::remove_file(folder.path().join("certs.db-wal")).unwrap();
        // What depends on nothing new needs no sync.
        let (same, answer) = batch(&store, 1);
        syncer.put(same);
        assert!(answer.blocking_recv().unwrap().is_ok());
        for number in 2..4 {
            let (next, answer) = batch(&store, number);
            syncer.put(next);
            let error = answer.blocking_recv().unwrap().unwrap_err().to_string();
            assert!(error.contains("cannot sync") && error.contains("certs.db-wal"), "{error}");
        }
        failure.recv().unwrap();
        assert!(syncer.has_failed());
        assert!(syncer.end().is_err());
    }
}
