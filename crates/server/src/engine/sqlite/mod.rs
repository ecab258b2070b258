//! The engine in one file of SQLite.
//!
//! Readers see one state of the store each and wait for nobody, so point reads finish on the thread that asks. Long reads
//! run on a few threads of their own. One thread writes.

mod certified;
mod orders;
mod reader;
mod syncer;
mod trees;
mod writer;

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::JoinHandle;

use talaria_cert::{Address, Fingerprint, Limits, View};
use talaria_recon::PrefixTree;
use talaria_store::{Access, CertId, Cursor, Intake, Preparation, Store, StoreError};

use super::error::EngineError;
use super::facts::{Facts, Progress};
use super::order::{Conflict, Done, Order};
use crate::clock;
use crate::turns::{TurnError, Turns};

pub(crate) use reader::Reader;
pub(crate) use writer::Ended;

use reader::{Readers, facts};
use trees::Trees;
use writer::Writer;

/// Page cache of the connection that writes.
const WRITER_CACHE_BYTES: u64 = 64 << 20;

/// Certificates that are counted in one turn: some 50 ms.
const PIECE: u64 = 10_000;

/// A store that is open.
#[derive(Debug)]
pub(crate) struct Sqlite {
    readers: Readers,
    writer: Writer,
    trees: Trees,
    turns: Turns,
}

/// A count over all certificates, as far as it has come.
#[derive(Debug, Default)]
pub(crate) struct Counting {
    pub(crate) holds: talaria::Statistics,
    /// The last certificate that was counted, `None` at the start and at the end.
    after: Option<CertId>,
}

impl Counting {
    /// Whether there are more certificates to be counted.
    pub(crate) fn goes_on(&self) -> bool {
        self.after.is_some()
    }
}

impl Sqlite {
    /// Opens the store at `path`, which is made if it does not exist, builds its trees, and starts its threads. Waits for
    /// locks of other processes end when `stop` is set. Also returns the end of the writing thread, and a secret of the store.
    pub(crate) fn open(
        path: &Path,
        limits: Limits,
        stop: Arc<AtomicBool>,
    ) -> Result<(Self, JoinHandle<Ended>, Vec<u8>), OpenError> {
        let mut store = Store::open(path, Access::Create)?;
        if let Some(from) = store.upgraded_from() {
            tracing::info!(from, to = talaria_store::FORMAT, "upgraded the format of the store");
        }
        if let Some(kind) = store.network_file_system() {
            tracing::warn!(
                kind,
                "the store is on a network file system: use it from this computer only"
            );
        }
        let trees = Trees::build(&store)?;
        let secret = store.keyserver_mut().secret()?;
        store.stop_waiting_when(stop)?;
        // Mapped pages would count as this process's memory.
        store.set_memory(WRITER_CACHE_BYTES, 0)?;
        let readers = Readers::new(path, store.open_files());
        let (writer, thread) = Writer::start(store, limits);
        let turns = Turns::start("read").map_err(OpenError::Threads)?;
        Ok((Self { readers, writer, trees, turns }, thread, secret))
    }

    pub(crate) fn reading(&self) -> Result<Reader, StoreError> {
        self.readers.get()
    }

    pub(crate) fn check(&self) -> Result<(), Arc<StoreError>> {
        self.readers.check().map_err(Arc::new)
    }

    pub(crate) async fn long<T, E>(
        &self,
        work: impl AsyncFnOnce() -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<TurnError> + Send + 'static,
    {
        self.turns.run(work).await
    }

    async fn change<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Store) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, EngineError> {
        self.writer.run(work).await
    }

    pub(crate) async fn write(
        &self,
        mut intake: Intake,
        again: Option<Preparation>,
    ) -> Result<Intake, EngineError> {
        if let Some(preparation) = again {
            let work = move |store: &mut Store| {
                store.prepare_again(&mut intake, &preparation)?;
                Ok(intake)
            };
            intake = self.change(work).await?;
        }
        self.writer.write(intake).await
    }

    pub(crate) async fn carry_out(
        &self,
        orders: Vec<Order>,
    ) -> Result<Result<Vec<Done>, Conflict>, EngineError> {
        self.change(move |store| orders::carry_out(store, orders)).await
    }

    pub(crate) async fn publish<D: Send + 'static>(
        &self,
        fingerprint: Fingerprint,
        email: Address,
        decide: impl FnOnce(&Facts) -> Result<(), D> + Send + 'static,
    ) -> Result<Result<(), D>, EngineError> {
        let work = move |store: &mut Store| {
            let now = clock::now().into();
            if let Err(decision) = decide(&facts(store, fingerprint, &email, now)?) {
                return Ok(Err(decision));
            }
            store.keyserver_mut().publish(fingerprint, &email, now)?;
            Ok(Ok(()))
        };
        self.change(work).await
    }

    pub(crate) async fn unpublish(
        &self,
        fingerprint: Fingerprint,
        email: Address,
    ) -> Result<(), EngineError> {
        let work = move |store: &mut Store| {
            if store.keyserver().published(fingerprint)?.contains(&email) {
                store.keyserver_mut().unpublish(fingerprint, &email, clock::now().into())?;
            }
            Ok(())
        };
        self.change(work).await
    }

    pub(crate) async fn mark_in_vain(
        &self,
        peer: String,
        view: View,
        digests: Vec<[u8; 16]>,
        tries: u32,
    ) -> Result<(), EngineError> {
        let work = move |store: &mut Store| {
            store.keyserver_mut().mark_unobtainable(
                &peer,
                view,
                &digests,
                tries,
                clock::now().into(),
            )
        };
        self.change(work).await
    }

    pub(crate) async fn add_to_tally(&self, counts: Vec<(String, u64)>) -> Result<(), EngineError> {
        self.change(move |store| store.keyserver_mut().add_to_tally(clock::today(), &counts)).await
    }

    pub(crate) async fn tidy_step(&self) -> Result<bool, EngineError> {
        let found = self.readers.certified().take_due();
        if found.is_empty() {
            return self.change(|store| store.operator_mut().tidy()).await;
        }
        self.change(move |store| store.keep_certified(&found)).await.map(|()| true)
    }

    pub(crate) async fn set_limits(&self, limits: Limits) -> Result<(), EngineError> {
        let work = move |store: &mut Store| {
            store.operator_mut().set_limits(limits);
            Ok(())
        };
        self.change(work).await
    }

    pub(crate) fn has_tree(&self, view: View) -> bool {
        self.trees.with(view, |_| ()).is_some()
    }

    pub(crate) fn with_tree<T>(
        &self,
        view: View,
        look: impl FnOnce(&PrefixTree) -> T,
    ) -> Option<T> {
        self.trees.with(view, look)
    }

    pub(crate) fn follow(&self) -> Result<(), StoreError> {
        self.trees.follow(&*self.readers.get()?).map(drop)
    }

    /// A step at a time, so that an upload waits for one at most.
    pub(crate) async fn add_view_step(&self, view: View) -> Result<bool, EngineError> {
        self.change(move |store| store.digests_mut().add_view_step(view)).await
    }

    pub(crate) fn add_tree(&self, view: View) -> Result<(), StoreError> {
        self.trees.add(view, &*self.readers.get()?)
    }

    /// Counts the next certificates.
    pub(crate) fn count_on(&self, counting: Counting) -> Result<Counting, StoreError> {
        let Counting { mut holds, after } = counting;
        let (reader, now) = (self.readers.get()?, clock::now());
        let store: &Store = &reader;
        let mut cursor =
            after.map_or(Cursor::start(talaria_store::Order::Insertion), Cursor::Insertion);
        let end = holds.certificates + PIECE;
        let (mut failure, mut last) = (None, None);
        store.walk(&mut cursor, |row| {
            let id = row.id;
            let added = store.current(row, now.into()).and_then(|row| holds.add(store, &row, now));
            if let Err(error) = added {
                failure = Some(error);
                return ControlFlow::Break(());
            }
            if holds.certificates == end {
                last = Some(id);
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        })?;
        match failure {
            Some(error) => Err(error),
            None => Ok(Counting { holds, after: last }),
        }
    }

    pub(crate) async fn close(&self) {
        self.writer.close().await;
    }

    pub(crate) fn progress(&self) -> Progress {
        Progress {
            commits: self.writer.commits(),
            waiting: self.writer.waiting(),
            has_ended: self.writer.has_ended(),
            has_verdicts: self.readers.certified().is_due(),
        }
    }

    /// A defect in the thread that writes.
    #[cfg(test)]
    pub(crate) async fn panic(&self) -> Result<(), EngineError> {
        self.change(|_| -> Result<(), StoreError> { panic!("a defect") }).await
    }
}

/// Why a store was not opened.
#[derive(Debug)]
pub(crate) enum OpenError {
    Store(StoreError),
    Threads(std::io::Error),
}

impl From<StoreError> for OpenError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}
