//! The digests by which gossip peers identify certificates, one set per view.

use rusqlite::OptionalExtension as _;
use talaria_cert::View;

use crate::blob::{self, Part};
use crate::ingest::digests;
use crate::{CertId, Store, StoreError, schema};

/// Number of certificates that are read at a time when a view is added, and their size, above which none is added.
const BATCH: usize = 1000;
const BATCH_BYTES: usize = 16 << 20;

impl Store {
    /// The views for which the store keeps digests. SKS is always among them.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] or [`StoreError::Engine`].
    pub fn views(&self) -> Result<Vec<View>, StoreError> {
        self.run(schema::views)
    }

    /// Adds the digests of a view, in one transaction.
    ///
    /// # Errors
    ///
    /// [`StoreError::ReadOnly`] or any error of a write; the store stays unchanged.
    pub fn add_view(&mut self, view: View) -> Result<(), StoreError> {
        self.transaction(|connection, _| {
            let mut views = schema::views(connection)?;
            if views.contains(&view) {
                return Ok(());
            }
            views.push(view);
            schema::set_views(connection, &views)?;
            let mut insert = connection.prepare("INSERT INTO digest VALUES (?1, ?2, ?3)")?;
            let mut after = 0;
            loop {
                let blobs = blob::batch(connection, after, (BATCH, BATCH_BYTES), Part::ALL)?;
                let Some(last) = blobs.last() else { return Ok(()) };
                after = last.id;
                for blob in blobs {
                    if !blob::is_usable(connection, &blob)? {
                        continue;
                    }
                    let digest =
                        blob.decode().and_then(|(cert, verdicts)| view.digest(&cert, &verdicts));
                    if let Some(digest) = digest {
                        insert.execute((view.number(), digest, blob.id))?;
                    }
                }
            }
        })
    }

    /// Removes the digests of a view, except those of SKS.
    ///
    /// # Errors
    ///
    /// [`StoreError::ReadOnly`] or any error of a write; the store stays unchanged.
    pub fn drop_view(&mut self, view: View) -> Result<(), StoreError> {
        self.transaction(|connection, _| {
            let mut views = schema::views(connection)?;
            views.retain(|&kept| kept != view || kept == View::Sks);
            schema::set_views(connection, &views)?;
            if view != View::Sks {
                connection.execute("DELETE FROM digest WHERE view = ?1", [view.number()])?;
            }
            Ok(())
        })
    }

    /// A number that changes when tables are rebuilt, for example by [`Self::rebuild`]. Callers that
    /// keep digests in memory must then read them again, since the change log does not show a rebuild.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] or [`StoreError::Engine`].
    pub fn tables_made(&self) -> Result<i64, StoreError> {
        self.run(|connection| {
            connection.prepare_cached("PRAGMA schema_version")?.query_row([], |row| row.get(0))
        })
    }

    /// Calls `each` with all digests of a view and the number of each certificate, in ascending order.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] or [`StoreError::Engine`].
    pub fn for_each_digest(
        &self,
        view: View,
        mut each: impl FnMut([u8; 16], CertId),
    ) -> Result<(), StoreError> {
        self.run(|connection| {
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
    pub fn by_digest(&self, digest: [u8; 16]) -> Result<Option<(View, CertId)>, StoreError> {
        for view in self.views()? {
            let found = self.run(|connection| {
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
    pub fn digests_of(&self, id: CertId) -> Result<Vec<(View, [u8; 16])>, StoreError> {
        let views = self.views()?;
        Ok(match self.stored(id)? {
            Some(stored) => digests(&stored.cert, &stored.verdicts, &views),
            None => Vec::new(),
        })
    }
}
