//! The engine in one file of SQLite.
//!
//! Readers see one state of the store each and wait for nobody, so point reads finish on the thread
//! that asks. Long reads run on a few threads of their own. One thread writes.

mod certified;
mod convert;
mod copier;
mod frequencies;
pub(crate) mod opaque;
mod orders;
mod reader;
mod syncer;
mod trees;
mod writer;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::JoinHandle;

use talaria_cert::View;
use talaria_recon::PrefixTree;
use talaria_store::{Layout, Store, StoreError};

use super::error::{EngineError, OpenError};
use super::facts::{Access, LINK_SECONDS_MAX, Note, Progress, Purpose};
use super::order::{Conflict, Done, Intake, Order, Preparation, Terms};
use crate::clock;
use crate::network::Network;
use crate::turns::{OneEach, TurnError, Turns};

pub(crate) use reader::Reader;
pub(crate) use syncer::Ended;

use reader::Readers;
use trees::Trees;
use writer::Writer;

/// Page cache of the connection that writes.
const WRITER_CACHE_BYTES: u64 = 64 << 20;

const _: () = assert!(LINK_SECONDS_MAX <= talaria_store::LINK_SECONDS_MAX);

/// A store that is open.
#[derive(Debug)]
pub(crate) struct Sqlite {
    readers: Readers,
    writer: Writer,
    trees: Trees,
    turns: Turns,
    /// The networks that have a turn, or wait for it.
    networks: OneEach<Network>,
}

impl Sqlite {
    /// Opens the store at `path`, and starts its threads. Waits for locks of other processes end
    /// when `stop` is set. Also returns the end of the writing thread, and a secret of the store if
    /// it is for a server.
    pub(crate) fn open(
        path: &Path,
        purpose: Purpose,
        stop: Arc<AtomicBool>,
    ) -> Result<(Self, JoinHandle<Ended>, Vec<u8>), OpenError> {
        let failed = |error| OpenError::Store(Arc::new(error));
        let (store, trees, secret) = open(path, purpose, stop).map_err(failed)?;
        let readers = Readers::new(path, store.open_files());
        let second = (purpose == Purpose::Serve)
            .then(|| Store::open(path, talaria_store::Access::Write).map_err(failed))
            .transpose()?;
        let (writer, thread) = Writer::start(store, second, readers.clone()).map_err(failed)?;
        let turns = Turns::start("read").map_err(OpenError::Threads)?;
        let networks = OneEach::default();
        Ok((Self { readers, writer, trees, turns, networks }, thread, secret))
    }

    pub(crate) fn reading(&self) -> Result<Reader, EngineError> {
        Ok(self.readers.get()?)
    }

    pub(crate) fn check(&self) -> Result<(), EngineError> {
        Ok(self.readers.check()?)
    }

    pub(crate) async fn long<T, E>(
        &self,
        network: Option<Network>,
        work: impl AsyncFnOnce() -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<TurnError> + Send + 'static,
    {
        let turn = match network {
            Some(network) => Some(self.networks.turn(network).await?),
            None => None,
        };
        // Work whose client has gone keeps the turn until it ends.
        let work = async move || {
            let _turn = turn;
            work().await
        };
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
        intake: Intake,
        again: Option<Preparation>,
    ) -> Result<Intake, EngineError> {
        let Intake::Sqlite(mut intake) = intake;
        if let Some(preparation) = again {
            let work = move |store: &mut Store| {
                store.prepare_again(&mut intake, &convert::preparation(&preparation))?;
                Ok(intake)
            };
            intake = self.change(work).await?;
        }
        Ok(Intake::Sqlite(self.writer.write(intake).await?))
    }

    pub(crate) async fn carry_out(
        &self,
        orders: Vec<Order>,
        terms: Terms,
    ) -> Result<Result<Vec<Done>, Conflict>, EngineError> {
        self.change(|store| orders::carry_out(store, orders, terms)).await
    }

    pub(crate) async fn note(&self, note: Note) -> Result<u64, EngineError> {
        self.change(|store| orders::note(store, note)).await
    }

    pub(crate) async fn tidy_step(&self) -> Result<bool, EngineError> {
        let found = self.readers.certified().take_due();
        if found.is_empty() {
            let step = |store: &mut Store| {
                Ok(store.follow_revokers(clock::now().into())? || store.operator_mut().tidy()?)
            };
            return self.change(step).await;
        }
        self.change(move |store| store.keep_certified(&found)).await.map(|()| true)
    }

    pub(crate) fn with_tree<T>(
        &self,
        view: View,
        look: impl FnOnce(&PrefixTree) -> T,
    ) -> Option<T> {
        self.trees.with(view, look)
    }

    pub(crate) fn follow(&self) -> Result<(), EngineError> {
        // Other processes empty the log, too.
        self.readers.let_go();
        self.trees.follow(&*self.readers.get()?)?;
        Ok(())
    }

    pub(crate) fn has_tree(&self, view: View) -> bool {
        self.trees.with(view, |_| ()).is_some()
    }

    /// Keeps the digests of a view, a step at a time, so that an upload waits for one at most.
    pub(crate) async fn keep_view(&self, view: View) -> Result<(), EngineError> {
        while self.change(move |store| store.digests_mut().add_view_step(view)).await? {}
        Ok(())
    }

    pub(crate) fn add_tree(&self, view: View) -> Result<(), EngineError> {
        Ok(self.trees.add(view, &*self.readers.get()?)?)
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

/// Opens a store, and builds its trees and gets its secret if it is for a server.
fn open(
    path: &Path,
    purpose: Purpose,
    stop: Arc<AtomicBool>,
) -> Result<(Store, Trees, Vec<u8>), StoreError> {
    let access = match purpose {
        Purpose::Serve | Purpose::Operate(Access::Create) => talaria_store::Access::Create,
        Purpose::Operate(Access::Write) => talaria_store::Access::Write,
        Purpose::Operate(Access::Read) => talaria_store::Access::Read,
    };
    // A new store is for uploads, and nobody asks a server for keygrips
    // (`docs/decisions/0023-one-row.md`).
    let mut layout = Layout::default();
    layout.page_bytes = 8 << 10;
    layout.keygrips = false;
    let mut store = Store::open_with(path, access, &layout)?;
    if let Some(from) = store.upgraded_from() {
        tracing::info!(from, to = talaria_store::FORMAT, "upgraded the format of the store");
    }
    if let Some(kind) = store.network_file_system() {
        tracing::warn!(
            kind,
            "the store is on a network file system: use it from this computer only"
        );
    }
    store.stop_waiting_when(stop)?;
    let (mut trees, mut secret) = (Trees::default(), Vec::new());
    if purpose == Purpose::Serve {
        trees = Trees::build(&store)?;
        secret = store.keyserver_mut().secret()?;
        // Mapped pages would count as this process's memory.
        store.set_memory(WRITER_CACHE_BYTES, 0)?;
    }
    Ok((store, trees, secret))
}
