//! Certificates that an index names and that nobody has compared yet.

use std::collections::HashSet;

use talaria_cert::{Addressee, Fingerprint, Handle, KeyId};

use crate::error::StoreError;
use crate::number::CertId;
use crate::revoker;
use crate::store::Store;

/// Candidates from the indexes of a store. An index has handles, which collide: the caller compares
/// the certificates.
#[derive(Clone, Copy, Debug)]
pub struct Candidates<'s>(&'s Store);

impl Store {
    /// Candidates from the indexes, without a look at the certificates.
    #[must_use]
    pub fn candidates(&self) -> Candidates<'_> {
        Candidates(self)
    }
}

impl Candidates<'_> {
    /// Candidates for certificates that have a key with this ID.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] or [`StoreError::Engine`].
    pub fn with_key(self, id: KeyId) -> Result<Vec<CertId>, StoreError> {
        Ok(self.0.with_key(id)?.into_iter().map(CertId::new).collect())
    }

    /// Candidates for certificates that have a user ID with the identity `addressee`.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] or [`StoreError::Engine`].
    pub fn with_addressee(self, addressee: &Addressee) -> Result<Vec<CertId>, StoreError> {
        self.0.run(|connection| {
            connection
                .prepare_cached("SELECT cert FROM address WHERE handle = ?1")?
                .query_map([Handle::of_addressee(addressee).0.cast_signed()], |row| {
                    row.get(0).map(CertId::new)
                })?
                .collect()
        })
    }

    /// The handles of identities that more than one certificate may have, found in one pass over
    /// the index.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] or [`StoreError::Engine`].
    pub fn shared_addresses(self) -> Result<HashSet<Handle>, StoreError> {
        self.0.run(|connection| {
            let mut statement = connection.prepare("SELECT handle FROM address ORDER BY handle")?;
            let mut rows = statement.query([])?;
            let (mut shared, mut last) = (HashSet::new(), None);
            while let Some(row) = rows.next()? {
                let handle: i64 = row.get(0)?;
                if last.replace(handle) == Some(handle) {
                    shared.insert(Handle(handle.cast_unsigned()));
                }
            }
            Ok(shared)
        })
    }

    /// Candidates for certificates that one of `issuers` certified: those with a signature that
    /// names one of them.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] or [`StoreError::Engine`].
    pub fn named_by(self, issuers: &[KeyId]) -> Result<HashSet<CertId>, StoreError> {
        self.0.run(|connection| {
            let mut found = HashSet::new();
            for issuer in issuers {
                let certs = connection
                    .prepare_cached("SELECT cert FROM certifier WHERE handle = ?1")?
                    .query_map([issuer.0.cast_signed()], |row| row.get(0).map(CertId::new))?
                    .collect::<rusqlite::Result<Vec<_>>>()?;
                found.extend(certs);
            }
            Ok(found)
        })
    }

    /// Candidates for certificates that name the key with this fingerprint as a revoker, by their
    /// numbers.
    ///
    /// # Errors
    ///
    /// [`StoreError::Engine`].
    pub fn naming(self, revoker: Fingerprint) -> Result<Vec<CertId>, StoreError> {
        let ids = self.0.run(|connection| revoker::naming(connection, [revoker]))?;
        Ok(ids.into_iter().map(CertId::new).collect())
    }
}
