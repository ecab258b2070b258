//! The thread that copies a long write-ahead log into the database, while others go on to write.
//! What they write meanwhile, the writer copies itself: that is little, and no commit comes in
//! between, so that the log can begin anew.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use parking_lot::Mutex;
use talaria_store::{LOG_BYTES, Store, StoreError};

/// Length of the log from which on the writer waits for the copy, and then makes the rest of it, in
/// bytes.
const LATE_BYTES: u64 = 4 * LOG_BYTES;

/// Page cache of the connection that copies. Pages go from the log into the database without it.
const CACHE_BYTES: u64 = 1 << 20;

/// A handle to the thread.
pub(super) struct Copier {
    state: Arc<State>,
    thread: JoinHandle<()>,
}

#[derive(Default)]
struct State {
    /// A copy is wanted, or on its way.
    is_asked: AtomicBool,
    /// The log has grown too long meanwhile.
    is_late: AtomicBool,
    has_ended: AtomicBool,
    /// Held during a copy. Without it, SQLite refuses a second copy at once.
    turn: Mutex<()>,
}

impl State {
    fn copy(&self, store: &Store) -> Option<Arc<StoreError>> {
        let _turn = self.turn.lock();
        copy(store)
    }
}

impl Copier {
    /// Starts the thread for the log of `writing`. `copying` is another connection to the same
    /// store. `finish` is called after each copy, with the error because of which the writer must
    /// end, if there is one.
    pub(super) fn start(
        writing: &mut Store,
        copying: Store,
        mut finish: impl FnMut(Option<Arc<StoreError>>) + Send + 'static,
    ) -> Result<Self, StoreError> {
        copying.set_memory(CACHE_BYTES, 0)?;
        let state = Arc::new(State::default());
        let asked = Arc::clone(&state);
        let thread = std::thread::Builder::new()
            .name("talaria-copier".into())
            .spawn(move || {
                while !asked.has_ended.load(Ordering::Acquire) {
                    if asked.is_asked.load(Ordering::Acquire) {
                        finish(asked.copy(&copying));
                        asked.is_asked.store(false, Ordering::Release);
                    } else {
                        std::thread::park();
                    }
                }
            })
            .expect("a thread at start");
        let (asking, sleeper) = (Arc::clone(&state), thread.thread().clone());
        writing.when_log_is_long(move |length| {
            asking.is_late.store(length >= LATE_BYTES, Ordering::Release);
            if !asking.is_asked.swap(true, Ordering::AcqRel) {
                sleeper.unpark();
            }
            false
        })?;
        Ok(Self { state, thread })
    }

    /// Whether the log is too long. The answer is yes once for each commit after which it is.
    pub(super) fn is_late(&self) -> bool {
        self.state.is_late.swap(false, Ordering::AcqRel)
    }

    /// Waits for the copy that is on its way, and makes the rest of it. Returns the error because
    /// of which the writer must end, if there is one.
    pub(super) fn catch_up(&self, store: &Store) -> Option<Arc<StoreError>> {
        self.state.copy(store)
    }

    /// Waits for the copy that has begun, if there is one.
    pub(super) fn end(self) {
        self.state.has_ended.store(true, Ordering::Release);
        self.thread.thread().unpark();
        if let Err(panic) = self.thread.join() {
            std::panic::resume_unwind(panic);
        }
    }
}

/// Copies the log. Returns the error because of which the writer must end, if there is one: if a
/// sync fails, nobody knows what is on the disk. Without room in the database, what is in the log
/// is safe there.
pub(super) fn copy(store: &Store) -> Option<Arc<StoreError>> {
    outcome(store.copy_log())
}

fn outcome(copied: Result<bool, StoreError>) -> Option<Arc<StoreError>> {
    match copied {
        Ok(_) => None,
        Err(
            error @ (StoreError::Full { .. }
            | StoreError::TooLarge { .. }
            | StoreError::Busy { .. }),
        ) => {
            tracing::warn!(%error, "cannot copy the write-ahead log into the database");
            None
        }
        Err(error) => {
            tracing::error!(%error, "cannot copy the write-ahead log into the database");
            Some(Arc::new(error))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use talaria_cert::{Limits, Verification, Work};
    use talaria_corpus::{Generate, certs};
    use talaria_store::{Access, Preparation};

    use super::*;

    /// A store, and a second connection to it.
    fn opened() -> (tempfile::TempDir, Store, Store) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("certs.db");
        let store = Store::open(&path, Access::Create).unwrap();
        let second = Store::open(&path, Access::Write).unwrap();
        (folder, store, second)
    }

    #[test]
    fn a_long_log_is_copied_while_the_writer_goes_on() {
        let (folder, mut store, second) = opened();
        let (told, copies) = channel();
        let copier = Copier::start(&mut store, second, move |error| {
            told.send(error.is_none()).unwrap();
        });
        let copier = copier.unwrap();
        let preparation = Preparation {
            limits: Limits::default(),
            verification: Verification::Deferred,
            now: 1_740_000_000.into(),
            work: Work::UNBOUNDED,
        };
        let log = || std::fs::metadata(folder.path().join("certs.db-wal")).unwrap().len();
        let mut first = 0;
        let mut write = |store: &mut Store| {
            let certs = certs(&Generate { first, count: 10_000, ..Generate::default() });
            first += 10_000;
            let mut intakes = [store.prepare(certs, &preparation).unwrap()];
            store.write(&mut intakes, 10_000, 1_740_000_000.into()).unwrap();
        };
        while copies.try_recv().is_err() {
            write(&mut store);
            if copier.is_late() {
                assert!(log() >= LATE_BYTES);
                assert!(copies.recv().unwrap());
                break;
            }
        }
        assert!(log() >= LOG_BYTES);
        // All of it is in the database, so the next commit begins the log anew.
        assert!(store.copy_log().unwrap());
        let length = log();
        write(&mut store);
        assert_eq!(log(), length);
        copier.end();
    }

    #[test]
    fn a_writer_that_is_late_waits_for_the_copy_on_its_way() {
        let (_folder, mut store, second) = opened();
        let copier = Copier::start(&mut store, second, |_| ()).unwrap();
        let turn = copier.state.turn.lock();
        let (told, caught_up) = channel();
        std::thread::scope(|scope| {
            let copier = &copier;
            scope.spawn(move || told.send(copier.catch_up(&store).is_none()).unwrap());
            caught_up.recv_timeout(Duration::from_millis(50)).unwrap_err();
            drop(turn);
            assert!(caught_up.recv().unwrap());
        });
        copier.end();
    }

    #[test]
    fn without_room_in_the_database_the_writer_goes_on() {
        let path = std::path::PathBuf::from("certs.db");
        let full = Err(StoreError::Full { path: path.clone() });
        assert!(outcome(full).is_none());
        let broken = Err(StoreError::Damaged { path, what: "a defect".into() });
        assert!(outcome(broken).is_some());
    }
}
