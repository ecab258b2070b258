//! The prefix trees in memory, one per view, which follow the change log of the store.
//!
//! The log is what is followed, not our own writes: so they are right after a crash, and whoever else
//! writes to the store, such as the command line.

use std::sync::{Arc, Mutex, PoisonError, RwLock};

use talaria_cert::View;
use talaria_recon::{Digest, PrefixTree};
use talaria_store::{Store, StoreError};

/// A tree with the digests of all certificates.
#[derive(Debug, Default)]
struct Followed {
    tree: PrefixTree,
    /// The digest of each certificate by its number, all zero where the view has none.
    digests: Vec<[u8; 16]>,
}

/// All trees of a store.
#[derive(Debug, Default)]
pub(crate) struct Trees {
    views: RwLock<Vec<(View, Arc<RwLock<Followed>>)>>,
    /// How far the trees have come. Held while they follow.
    reached: Mutex<Reached>,
}

/// The place in the change log that the trees have reached.
#[derive(Clone, Copy, Debug, Default)]
struct Reached {
    /// The number of the last change that is in them.
    change: i64,
    /// The tables that they were read from.
    tables: i64,
}

impl Reached {
    /// What is there now. Whatever is written from here on is seen again when the trees follow.
    fn now(store: &Store) -> Result<Self, StoreError> {
        Ok(Self { tables: store.tables_made()?, change: store.last_change()? })
    }
}

const NONE: [u8; 16] = [0; 16];

impl Trees {
    /// Builds the trees of all views that the store keeps.
    pub(crate) fn build(store: &Store) -> Result<Self, StoreError> {
        let reached = Reached::now(store)?;
        let mut views = Vec::new();
        for view in store.views()? {
            views.push((view, Arc::new(RwLock::new(read(store, view)?))));
        }
        Ok(Self { views: RwLock::new(views), reached: Mutex::new(reached) })
    }

    /// Builds the tree of a view that the store has got since.
    pub(crate) fn add(&self, view: View, store: &Store) -> Result<(), StoreError> {
        // Nothing follows meanwhile, so the new tree is not older than the others.
        let _reached = self.reached.lock().unwrap_or_else(PoisonError::into_inner);
        let mut views = self.views.write().unwrap_or_else(PoisonError::into_inner);
        if views.iter().all(|(kept, _)| *kept != view) {
            views.push((view, Arc::new(RwLock::new(read(store, view)?))));
        }
        Ok(())
    }

    /// Looks at the tree of a view; `None` if there is none.
    pub(crate) fn with<T>(&self, view: View, look: impl FnOnce(&PrefixTree) -> T) -> Option<T> {
        let all = self.views.read().unwrap_or_else(PoisonError::into_inner);
        let followed = all.iter().find(|(kept, _)| *kept == view).map(|(_, f)| Arc::clone(f))?;
        drop(all);
        let followed = followed.read().unwrap_or_else(PoisonError::into_inner);
        Some(look(&followed.tree))
    }

    /// The views that there are trees for.
    pub(crate) fn views(&self) -> Vec<View> {
        let views = self.views.read().unwrap_or_else(PoisonError::into_inner);
        views.iter().map(|(view, _)| *view).collect()
    }

    /// Brings the trees to the end of the change log, or reads them again if the store made its tables
    /// again. Returns how many changes there were.
    pub(crate) fn follow(&self, store: &Store) -> Result<usize, StoreError> {
        let mut reached = self.reached.lock().unwrap_or_else(PoisonError::into_inner);
        if store.tables_made()? != reached.tables {
            let now = Reached::now(store)?;
            let views = self.views.read().unwrap_or_else(PoisonError::into_inner).clone();
            for (view, followed) in views {
                let again = read(store, view)?;
                *followed.write().unwrap_or_else(PoisonError::into_inner) = again;
            }
            *reached = now;
        }
        if store.last_change()? == reached.change {
            return Ok(0);
        }
        let mut changed = Vec::new();
        let mut last = reached.change;
        store.for_each_change(reached.change, |number, _, id, _| {
            last = number;
            changed.push(id);
        })?;
        let count = changed.len();
        changed.sort_unstable();
        changed.dedup();
        let mut now = Vec::with_capacity(changed.len());
        for id in changed {
            now.push((id, store.digests_of(id)?));
        }
        let views = self.views.read().unwrap_or_else(PoisonError::into_inner).clone();
        for (view, followed) in views {
            let mut followed = followed.write().unwrap_or_else(PoisonError::into_inner);
            let Followed { tree, digests } = &mut *followed;
            let (mut gone, mut come) = (Vec::new(), Vec::new());
            for (id, kept) in &now {
                let new = kept.iter().find(|(kept, _)| *kept == view).map_or(NONE, |(_, d)| *d);
                let old = std::mem::replace(slot(digests, *id), new);
                if old != new {
                    gone.extend((old != NONE).then_some(Digest(old)));
                    come.extend((new != NONE).then_some(Digest(new)));
                }
            }
            tree.remove_many(gone);
            tree.insert_many(come);
        }
        reached.change = last;
        Ok(count)
    }
}

/// The tree of a view as the store has it.
fn read(store: &Store, view: View) -> Result<Followed, StoreError> {
    let mut sorted = Vec::new();
    let mut digests = Vec::new();
    store.for_each_digest(view, |digest, id| {
        sorted.push(Digest(digest));
        *slot(&mut digests, id) = digest;
    })?;
    Ok(Followed { tree: PrefixTree::build(sorted), digests })
}

fn slot(digests: &mut Vec<[u8; 16]>, id: i64) -> &mut [u8; 16] {
    let at = usize::try_from(id).unwrap_or(0);
    if at >= digests.len() {
        digests.resize(at + 1, NONE);
    }
    &mut digests[at]
}
