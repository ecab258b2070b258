//! The web of trust at a moment, for readers.

use std::collections::{HashMap, HashSet};

use rusqlite::Connection;
use talaria_trust::Standing;

use crate::error::StoreError;
use crate::number::CertId;
use crate::store::Store;
use crate::trust::evaluation::Evaluation;
use crate::trust::node::{Node, due};

/// A snapshot of the web of trust for readers. Rows that are no longer true are recomputed in
/// memory.
#[derive(Debug, Default)]
pub struct TrustView {
    again: HashMap<i64, Option<Standing>>,
}

impl TrustView {
    /// The standing of a certificate of `store`. `None` if the web of trust has no result for it.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] or [`StoreError::Engine`].
    pub fn standing(&self, store: &Store, id: CertId) -> Result<Option<Standing>, StoreError> {
        if let Some(standing) = self.again.get(&id.get()) {
            return Ok(standing.clone());
        }
        Ok(store.run(|connection| Node::load(connection, id.get()))?.standing)
    }

    /// The certificates that may have a fully valid user ID, found in one pass over the results.
    /// For a listing, this costs less than a look-up for each certificate.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] or [`StoreError::Engine`].
    pub fn candidates(&self, store: &Store) -> Result<HashSet<CertId>, StoreError> {
        let mut found = store.run(|connection| {
            let mut statement = connection.prepare_cached("SELECT cert, standing FROM trust")?;
            let mut rows = statement.query([])?;
            let mut found = HashSet::new();
            while let Some(row) = rows.next()? {
                if Node::may_be_full(row.get_ref(1)?.as_bytes()?) {
                    found.insert(CertId::new(row.get(0)?));
                }
            }
            Ok(found)
        })?;
        found.extend(self.again.keys().map(|id| CertId::new(*id)));
        Ok(found)
    }
}

/// The web of trust at `now`, without writing.
pub(crate) fn view(connection: &Connection, now: u32) -> rusqlite::Result<TrustView> {
    let due = due(connection, now)?;
    if due.is_empty() {
        return Ok(TrustView::default());
    }
    let Some(mut web) = Evaluation::of(connection, now)? else { return Ok(TrustView::default()) };
    web.spread(due)?;
    let again = web.nodes.into_iter().map(|(id, node)| (id, node.standing)).collect();
    Ok(TrustView { again })
}
