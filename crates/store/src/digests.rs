//! The digests by which gossip peers identify certificates, one set per view.

use std::borrow::Borrow;

use rayon::prelude::*;
use rusqlite::OptionalExtension as _;
use talaria_cert::View;
use talaria_cert::merge::digests;

use crate::blob::{self, Blob, Share};
use crate::error::StoreError;
use crate::number::CertId;
use crate::schema;
use crate::store::Store;

/// Number of certificates of which a transaction writes the digests when a view is added, and their
/// size, above which none is added.
const BATCH: usize = 500;
const BATCH_BYTES: usize = 8 << 20;

/// The digests of a store, one set per view of gossip peers.
#[derive(Debug)]
pub struct Digests<S>(S);

impl Store {
    /// The digests for gossip.
    #[must_use]
    pub fn digests(&self) -> Digests<&Self> {
        Digests(self)
    }

    /// The digests for gossip, for adding and removing views.
    #[must_use]
    pub fn digests_mut(&mut self) -> Digests<&mut Self> {
        Digests(self)
    }
}

impl<S: Borrow<Store>> Digests<S> {
    fn store(&self) -> &Store {
        self.0.borrow()
    }

    /// The views for which the store keeps the digests of all certificates. SKS is always among
    /// them.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] or [`StoreError::Engine`].
    pub fn views(&self) -> Result<Vec<View>, StoreError> {
        self.store().run(schema::complete_views)
    }

    /// A number that changes when tables are rebuilt, for example by [`Store::rebuild`]. Callers
    /// that keep digests in memory must then read them again, since the change log does not show a
    /// rebuild.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] or [`StoreError::Engine`].
    pub fn tables_made(&self) -> Result<i64, StoreError> {
        self.store().run(|connection| {
            connection.prepare_cached("PRAGMA schema_version")?.query_row([], |row| row.get(0))
        })
    }

    /// Calls `each` with all digests of a view and the number of each certificate, in ascending
    /// order.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] or [`StoreError::Engine`].
    pub fn for_each(
        &self,
        view: View,
        mut each: impl FnMut([u8; 16], CertId),
    ) -> Result<(), StoreError> {
        self.store().run(|connection| {
            let mut statement = connection.prepare_cached(
                "SELECT digest, cert FROM digest WHERE view = ?1 ORDER BY digest",
            )?;
            let mut rows = statement.query([view.number()])?;
            while let Some(row) = rows.next()? {
                each(row.get(0)?, CertId::new(row.get(1)?));
            }
            Ok(())
        })
    }

    /// The certificate with this digest, and the view of the digest.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] or [`StoreError::Engine`].
    pub fn find(&self, digest: [u8; 16]) -> Result<Option<(View, CertId)>, StoreError> {
        for view in self.views()? {
            let found = self.store().run(|connection| {
                connection
                    .prepare_cached(
                        "SELECT cert FROM digest WHERE view = ?1 AND digest = ?2 LIMIT 1",
                    )?
                    .query_row((view.number(), digest), |row| row.get(0))
                    .optional()
            })?;
            if let Some(id) = found {
                return Ok(Some((view, CertId::new(id))));
            }
        }
        Ok(None)
    }

    /// The digests of a certificate, by view. Empty if the certificate is not in the store.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] or [`StoreError::Engine`].
    pub fn of(&self, id: CertId) -> Result<Vec<(View, [u8; 16])>, StoreError> {
        let views = self.views()?;
        Ok(match self.store().stored(id)? {
            Some(stored) => digests(&stored.cert, &stored.verdicts, &views),
            None => Vec::new(),
        })
    }
}

impl Digests<&mut Store> {
    /// Adds the digests of a view, in short transactions: see [`Self::add_view_step`].
    ///
    /// # Errors
    ///
    /// [`StoreError::ReadOnly`] or any error of a write.
    pub fn add_view(&mut self, view: View) -> Result<(), StoreError> {
        while self.add_view_step(view)? {}
        Ok(())
    }

    /// Adds the digests of a view for some more certificates, in one short transaction. Returns
    /// whether there may be more to add. [`Self::views`] has the view when all are there; writers
    /// keep its digests from the first step on. After an interruption, the next call continues.
    ///
    /// # Errors
    ///
    /// [`StoreError::ReadOnly`] or any error of a write.
    pub fn add_view_step(&mut self, view: View) -> Result<bool, StoreError> {
        let Some(after) = self.0.run(|connection| schema::added_until(connection, view))? else {
            return self.0.transaction(|connection, _| {
                let mut views = schema::views(connection)?;
                if views.contains(&view) {
                    return Ok(false);
                }
                views.push(view);
                schema::set_views(connection, &views)?;
                schema::set_added_until(connection, view, Some(0)).map(|()| true)
            });
        };
        let blobs = self
            .0
            .run(|connection| blob::batch(connection, after, (BATCH, BATCH_BYTES), Share::ALL))?;
        let digest_of =
            |blob: &Blob| blob.decode().and_then(|(cert, verdicts)| view.digest(&cert, &verdicts));
        let digests: Vec<Option<[u8; 16]>> = blobs.par_iter().map(digest_of).collect();
        // Writers keep the digests of certificates that arrive meanwhile.
        let bytes: usize = blobs.iter().map(|blob| blob.bytes.len()).sum();
        let is_full = blobs.len() == BATCH || bytes >= BATCH_BYTES;
        let last = blobs.last().filter(|_| is_full).map(|blob| blob.id);
        self.0.transaction(|connection, _| {
            let mut insert =
                connection.prepare_cached("INSERT OR IGNORE INTO digest VALUES (?1, ?2, ?3)")?;
            for (blob, digest) in blobs.iter().zip(digests) {
                let digest = if blob::is_current(connection, blob)? {
                    if blob::is_usable(connection, blob)? { digest } else { None }
                } else {
                    // Another program has changed it meanwhile.
                    blob::intact(connection, blob.id)?.as_ref().and_then(digest_of)
                };
                if let Some(digest) = digest {
                    insert.execute((view.number(), digest, blob.id))?;
                }
            }
            schema::set_added_until(connection, view, last)
        })?;
        Ok(last.is_some())
    }

    /// Removes the digests of a view, except those of SKS.
    ///
    /// # Errors
    ///
    /// [`StoreError::ReadOnly`] or any error of a write; the store stays unchanged.
    pub fn drop_view(&mut self, view: View) -> Result<(), StoreError> {
        self.0.transaction(|connection, _| {
            let mut views = schema::views(connection)?;
            views.retain(|&kept| kept != view || kept == View::Sks);
            schema::set_views(connection, &views)?;
            schema::set_added_until(connection, view, None)?;
            if view != View::Sks {
                connection.execute("DELETE FROM digest WHERE view = ?1", [view.number()])?;
            }
            Ok(())
        })
    }
}
