//! The prefix trees in memory, one per view, which follow the change log of the store.
//!
//! The trees follow the log and not this server's own writes. So they are right after a crash, and
//! after another program, such as the command line, has written to the store.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use talaria_cert::View;
use talaria_recon::{Digest, PrefixTree};
use talaria_store::{CertId, ChangeNumber, Store, StoreError};

/// A tree with the digests of all certificates.
#[derive(Debug, Default)]
struct Followed {
    tree: PrefixTree,
    digests: Digests,
}

/// The digest of each certificate by its number, all zero where the view has none.
///
/// Numbers come from the file of the store. One far above all others, as damage makes it, takes as
/// little memory as any.
#[derive(Debug, Default)]
struct Digests {
    /// By number.
    near: Vec<[u8; 16]>,
    /// The digests whose number was far above the end of `near`.
    far: HashMap<CertId, [u8; 16]>,
}

/// By how many places `near` grows at most: 16 MiB.
const GAP_MAX: usize = 1 << 20;

impl Digests {
    /// Sets the digest of a certificate, and returns the one before.
    fn replace(&mut self, id: CertId, digest: [u8; 16]) -> [u8; 16] {
        let at = id.place().filter(|at| at.saturating_sub(self.near.len()) < GAP_MAX);
        // A number that was far stays there, even if `near` has grown past it.
        let is_far = at.is_none() || (!self.far.is_empty() && self.far.contains_key(&id));
        match at {
            Some(at) if !is_far => {
                if at >= self.near.len() {
                    self.near.resize(at + 1, NONE);
                }
                std::mem::replace(&mut self.near[at], digest)
            }
            _ => self.far.insert(id, digest).unwrap_or(NONE),
        }
    }
}

/// All trees of a store.
#[derive(Debug, Default)]
pub(crate) struct Trees {
    views: RwLock<Vec<(View, Arc<RwLock<Followed>>)>>,
    /// The place that the trees have reached. Locked while they follow.
    reached: Mutex<Reached>,
}

/// The place in the change log that the trees have reached.
#[derive(Clone, Copy, Debug, Default)]
struct Reached {
    /// The number of the last change that is in them.
    change: ChangeNumber,
    /// The tables that they were read from.
    tables: i64,
}

impl Reached {
    /// The current end of the change log. Later changes are seen when the trees follow.
    fn now(store: &Store) -> Result<Self, StoreError> {
        Ok(Self { tables: store.digests().tables_made()?, change: store.log().last()? })
    }
}

const NONE: [u8; 16] = [0; 16];

impl Trees {
    /// Builds the trees of all views that the store keeps.
    pub(crate) fn build(store: &Store) -> Result<Self, StoreError> {
        let reached = Reached::now(store)?;
        let mut views = Vec::new();
        for view in store.digests().views()? {
            views.push((view, Arc::new(RwLock::new(read(store, view)?))));
        }
        Ok(Self { views: RwLock::new(views), reached: Mutex::new(reached) })
    }

    /// Builds the tree of a view that the store has got since.
    pub(crate) fn add(&self, view: View, store: &Store) -> Result<(), StoreError> {
        // Nothing follows meanwhile, so the new tree is not older than the others.
        let _reached = self.reached.lock();
        let mut views = self.views.write();
        if views.iter().all(|(kept, _)| *kept != view) {
            views.push((view, Arc::new(RwLock::new(read(store, view)?))));
        }
        Ok(())
    }

    /// Looks at the tree of a view; `None` if there is none.
    pub(crate) fn with<T>(&self, view: View, look: impl FnOnce(&PrefixTree) -> T) -> Option<T> {
        let all = self.views.read();
        let followed = all.iter().find(|(kept, _)| *kept == view).map(|(_, f)| Arc::clone(f))?;
        drop(all);
        let followed = followed.read();
        Some(look(&followed.tree))
    }

    /// Brings the trees to the end of the change log, or reads them again if the store made its
    /// tables again. Returns how many changes there were.
    pub(crate) fn follow(&self, store: &Store) -> Result<usize, StoreError> {
        let mut reached = self.reached.lock();
        if store.digests().tables_made()? != reached.tables {
            let now = Reached::now(store)?;
            let views = self.views.read().clone();
            for (view, followed) in views {
                let again = read(store, view)?;
                *followed.write() = again;
            }
            *reached = now;
        }
        if store.log().last()? == reached.change {
            return Ok(0);
        }
        let mut changed = Vec::new();
        let mut last = reached.change;
        store.log().for_each(reached.change, |number, _, id, _| {
            last = number;
            changed.push(id);
        })?;
        let count = changed.len();
        changed.sort_unstable();
        changed.dedup();
        let mut now = Vec::with_capacity(changed.len());
        for id in changed {
            now.push((id, store.digests().of(id)?));
        }
        let views = self.views.read().clone();
        for (view, followed) in views {
            let mut followed = followed.write();
            let Followed { tree, digests } = &mut *followed;
            let (mut gone, mut come) = (Vec::new(), Vec::new());
            for (id, kept) in &now {
                let new = kept.iter().find(|(kept, _)| *kept == view).map_or(NONE, |(_, d)| *d);
                let old = digests.replace(*id, new);
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
    let mut digests = Digests::default();
    store.digests().for_each(view, |digest, id| {
        sorted.push(Digest(digest));
        digests.replace(id, digest);
    })?;
    Ok(Followed { tree: PrefixTree::build(sorted), digests })
}

#[cfg(test)]
mod tests {
    use talaria_store::Cursor;

    use super::*;

    /// Only the store makes numbers, and reads those of cursors.
    fn number(id: i64) -> CertId {
        match format!("i:{id}").parse() {
            Ok(Cursor::Insertion(id)) => id,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_damaged_number_takes_no_memory() {
        let mut digests = Digests::default();
        let ids = [1, 3, i64::MAX, -5, 1 << 40, 2 << 20, 1 << 19];
        for (id, mark) in ids.into_iter().zip(1..) {
            assert_eq!(digests.replace(number(id), [mark; 16]), NONE);
        }
        // `near` grows past a number that was far.
        for id in 1..=3 {
            digests.replace(number(id << 20), [0xff; 16]);
        }
        for (id, mark) in ids.into_iter().zip(1..).filter(|(id, _)| *id != 2 << 20) {
            assert_eq!(digests.replace(number(id), NONE), [mark; 16], "{id}");
        }
        assert_eq!(digests.replace(number(2 << 20), NONE), [0xff; 16]);
        assert!(digests.near.len() <= 4 << 20);
    }
}
