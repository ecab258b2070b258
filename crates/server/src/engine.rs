//! The store of a server: connections that read, the thread that writes, and the threads for long reads.

use std::ops::Deref;
use std::sync::Arc;

use talaria_store::{Store, StoreError};

use crate::answer::Refusal;
use crate::reader::{Reader, Readers};
use crate::trees::Trees;
use crate::turns::Turns;
use crate::writer::{WriteError, Writer};

/// A handle to the store.
#[derive(Clone, Debug)]
pub(crate) struct Engine(Arc<Parts>);

/// The parts of the engine.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) readers: Readers,
    pub(crate) writer: Writer,
    pub(crate) trees: Trees,
    turns: Turns,
}

impl Deref for Engine {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

impl Engine {
    pub(crate) fn new(readers: Readers, writer: Writer, trees: Trees, turns: Turns) -> Self {
        Self(Arc::new(Parts { readers, writer, trees, turns }))
    }

    /// A view of the store as it is at this moment, for reads that end at once.
    pub(crate) fn reading(&self) -> Result<Reader, StoreError> {
        self.readers.get()
    }

    /// Work that may take milliseconds, when a thread for it is free.
    pub(crate) async fn long<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        self.turns.run(work).await
    }

    /// Work on a view of the store that may take milliseconds.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Reader) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        let readers = self.readers.clone();
        self.turns.run(move || work(&readers.get()?)).await
    }

    /// Changes the store, in the turn of this work.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Store) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, WriteError> {
        self.writer.run(work).await
    }
}
