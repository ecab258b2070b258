//! The prefix trees in memory, one per view, which follow the change log of the store.
//!
//! The log is what is followed, not our own writes: so they are right after a crash, and whoever else
//! writes to the store, such as the command line.

use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};

use talaria_cert::View;
use talaria_recon::{Digest, Tree};
use talaria_store::{Store, StoreError};

/// A tree and what is needed to keep it.
#[derive(Debug, Default)]
struct Followed {
    tree: Tree,
    /// The digest of each certificate by its number, all zero where the view has none.
    digests: Vec<[u8; 16]>,
}

/// All trees of a store.
#[derive(Clone, Debug)]
pub(crate) struct Trees(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    views: Vec<(View, RwLock<Followed>)>,
    /// The number of the change up to which the trees have come. Held while they follow.
    reached: Mutex<i64>,
}

/// A tree, not to be changed while it is held.
pub(crate) struct TreeRef<'a>(RwLockReadGuard<'a, Followed>);

impl std::ops::Deref for TreeRef<'_> {
    type Target = Tree;

    fn deref(&self) -> &Tree {
        &self.0.tree
    }
}

const NONE: [u8; 16] = [0; 16];

impl Trees {
    /// Builds the trees of all views that the store keeps.
    pub(crate) fn build(store: &Store) -> Result<Self, StoreError> {
        // What is written from here on is seen again when they follow.
        let reached = store.last_change()?;
        let mut views = Vec::new();
        for view in store.views()? {
            let mut sorted = Vec::new();
            let mut digests = Vec::new();
            store.for_each_digest(view, |digest, id| {
                sorted.push(Digest(digest));
                *slot(&mut digests, id) = digest;
            })?;
            let followed = Followed { tree: Tree::build(sorted), digests };
            views.push((view, RwLock::new(followed)));
        }
        Ok(Self(Arc::new(Inner { views, reached: Mutex::new(reached) })))
    }

    /// The tree of a view, if the store keeps that view.
    pub(crate) fn tree(&self, view: View) -> Option<TreeRef<'_>> {
        let (_, followed) = self.0.views.iter().find(|(kept, _)| *kept == view)?;
        Some(TreeRef(followed.read().unwrap_or_else(PoisonError::into_inner)))
    }

    /// The views that there are trees for.
    pub(crate) fn views(&self) -> impl Iterator<Item = View> {
        self.0.views.iter().map(|(view, _)| *view)
    }

    /// Brings the trees to the end of the change log. Returns how many changes there were.
    pub(crate) fn follow(&self, store: &Store) -> Result<usize, StoreError> {
        let mut reached = self.0.reached.lock().unwrap_or_else(PoisonError::into_inner);
        if store.last_change()? == *reached {
            return Ok(0);
        }
        let mut changed = Vec::new();
        let mut last = *reached;
        store.for_each_change(*reached, |number, _, id, _| {
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
        for (view, followed) in &self.0.views {
            let mut followed = followed.write().unwrap_or_else(PoisonError::into_inner);
            let Followed { tree, digests } = &mut *followed;
            let (mut gone, mut come) = (Vec::new(), Vec::new());
            for (id, kept) in &now {
                let new = kept.iter().find(|(kept, _)| kept == view).map_or(NONE, |(_, d)| *d);
                let old = std::mem::replace(slot(digests, *id), new);
                if old != new {
                    gone.extend((old != NONE).then_some(Digest(old)));
                    come.extend((new != NONE).then_some(Digest(new)));
                }
            }
            tree.remove_many(gone);
            tree.insert_many(come);
        }
        *reached = last;
        Ok(count)
    }
}

fn slot(digests: &mut Vec<[u8; 16]>, id: i64) -> &mut [u8; 16] {
    let at = usize::try_from(id).unwrap_or(0);
    if at >= digests.len() {
        digests.resize(at + 1, NONE);
    }
    &mut digests[at]
}
