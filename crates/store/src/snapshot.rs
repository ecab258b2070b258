//! Reading one state of a store.

use std::borrow::Borrow;
use std::ops::Deref;

use crate::error::StoreError;
use crate::store::Store;

/// A store at one moment: all reads through a snapshot see the same state, and cost less. The
/// snapshot ends when this value is dropped.
///
/// A snapshot blocks no writer. It should be short, because the write-ahead log cannot be emptied
/// meanwhile. `S` is a borrowed store ([`Store::snapshot`]) or an owned one
/// ([`Store::into_snapshot`]).
#[derive(Debug)]
pub struct Snapshot<S: Borrow<Store>> {
    /// There until the snapshot ends.
    store: Option<S>,
}

impl Store {
    /// Starts a snapshot. Within another snapshot or a transaction of the same store, it is a part
    /// of that one.
    ///
    /// # Errors
    ///
    /// [`StoreError::Engine`].
    pub fn snapshot(&self) -> Result<Snapshot<&Self>, StoreError> {
        self.begin_snapshot()?;
        Ok(Snapshot { store: Some(self) })
    }

    /// Starts a snapshot that owns the store. [`Snapshot::end`] gives it back.
    ///
    /// # Errors
    ///
    /// [`StoreError::Engine`].
    pub fn into_snapshot(self) -> Result<Snapshot<Self>, StoreError> {
        self.begin_snapshot()?;
        Ok(Snapshot { store: Some(self) })
    }

    fn begin_snapshot(&self) -> Result<(), StoreError> {
        let open = self.snapshots.get();
        if open == 0 && !self.is_in_transaction {
            self.run(|connection| connection.prepare_cached("BEGIN")?.execute([]).map(drop))?;
            self.has_followed.set(false);
        }
        self.snapshots.set(open + 1);
        Ok(())
    }

    /// Ends a snapshot, and the transaction with the last one. A transaction for writing cannot
    /// begin or end while a snapshot is open, since it borrows the store mutably.
    fn end_snapshot(&self) -> Result<(), StoreError> {
        let open = self.snapshots.get() - 1;
        self.snapshots.set(open);
        if open > 0 || self.is_in_transaction {
            return Ok(());
        }
        self.run(|connection| connection.prepare_cached("COMMIT")?.execute([]).map(drop))
    }
}

impl<S: Borrow<Store>> Snapshot<S> {
    /// Ends the snapshot and gives the store back.
    ///
    /// # Errors
    ///
    /// [`StoreError::Engine`]. The store is dropped; an owned one is closed.
    pub fn end(mut self) -> Result<S, StoreError> {
        let store = self.store.take().expect("there until the snapshot ends");
        store.borrow().end_snapshot()?;
        Ok(store)
    }
}

impl<S: Borrow<Store>> Deref for Snapshot<S> {
    type Target = Store;

    fn deref(&self) -> &Store {
        self.store.as_ref().expect("there until the snapshot ends").borrow()
    }
}

impl<S: Borrow<Store>> Drop for Snapshot<S> {
    fn drop(&mut self) {
        if let Some(store) = self.store.take() {
            // A transaction that has read only loses nothing by an error.
            let _ = store.borrow().end_snapshot();
        }
    }
}
