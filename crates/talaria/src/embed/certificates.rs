//! A store of certificates, shared by threads.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use talaria_message::Rules;
use talaria_store::{Access, ChangeNumber, Order, Query, StoreError};

use crate::embed::call::now;
use crate::error::Error;
use crate::stores::Stores;

/// A store or keyring file, opened for reading.
#[derive(Clone)]
pub struct Certificates {
    pub(super) stores: Arc<Mutex<Stores>>,
    /// The rules by which the certificates count.
    pub(super) rules: Rules,
}

impl Certificates {
    /// Opens the store at `path`, whose certificates count by `rules`.
    ///
    /// # Errors
    ///
    /// The errors of [`Stores::open`].
    pub fn open(path: &Path, rules: Rules) -> Result<Self, Error> {
        let stores = Stores::open(&[path.to_owned()], Access::Read, now())?;
        Ok(Self { stores: Arc::new(Mutex::new(stores.judged_by(rules))), rules })
    }

    /// All certificates that match `query`, as they are stored. Anybody can make a certificate with
    /// any user ID: to encrypt, query a fingerprint or use [`Self::recipient`].
    ///
    /// # Errors
    ///
    /// [`Error::Query`], [`Error::NotFound`], or errors of reading the store.
    pub fn lookup(&self, query: &str) -> Result<Vec<Vec<u8>>, Error> {
        let certs = find(&self.stores.lock(), &query.parse()?)?;
        Ok(certs.iter().map(|cert| cert.as_bytes().to_vec()).collect())
    }

    /// The only certificate that `query` names and that has a key to encrypt to, as it is stored.
    ///
    /// # Errors
    ///
    /// The errors of [`Stores::recipient`].
    pub fn recipient(&self, query: &str) -> Result<Vec<u8>, Error> {
        let stores = self.stores.lock();
        let query: Query = query.parse()?;
        let name = stores.recipient(&query, self.rules, now())?.cert.fingerprint().to_hex();
        // Another certificate may have the same key as a subkey.
        let mut found = find(&stores, &name.parse()?)?;
        found.retain(|cert| cert.fingerprint().to_string() == name);
        let cert = found.pop().ok_or(Error::NotFound { query: query.to_string() })?;
        Ok(cert.as_bytes().to_vec())
    }

    /// The sum of the numbers of the last changes, which grows with each change of one of the
    /// stores.
    pub(super) fn last_changes(&self) -> Result<i64, StoreError> {
        self.stores
            .lock()
            .iter()
            .map(|opened| opened.store.log().last().map(ChangeNumber::get))
            .sum()
    }
}

/// All certificates that match `query`.
fn find(stores: &Stores, query: &Query) -> Result<Vec<talaria_cert::Cert>, Error> {
    let mut fingerprints = Vec::new();
    stores.visit(std::slice::from_ref(query), Order::Insertion, now(), |_, row| {
        fingerprints.push(row.summary.fingerprint());
        Ok(ControlFlow::Continue(()))
    })?;
    let certs = fingerprints.into_iter().map(|fingerprint| stores.cert(fingerprint));
    Ok(certs.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
}
