//! The signers whose good signatures a document must have.

use std::path::PathBuf;

use talaria_cert::Cert;
use talaria_cert::hex::Upper;
use talaria_message::openpgp::Fingerprint;
use talaria_message::{ExpectedSigner, Lookup, SignatureReport};
use talaria_store::Query;

use crate::error::Error;
use crate::messages::{certificates_in, lookup};
use crate::stores::Stores;

/// The length in bytes above which a fingerprint names one key. Two keys of version 3 can have the
/// same one, of this length.
const SHARED_BYTES: usize = 16;

/// The signers whose good signatures are required.
#[derive(Clone, Debug, Default)]
pub struct RequiredSigners {
    /// `None` if any signer is accepted.
    pub expected: Option<Vec<ExpectedSigner>>,
    /// The certificates from files.
    pub given: Vec<Cert>,
}

impl RequiredSigners {
    /// Finds the signers with these names, and those in files. A name stands for the certificates
    /// whose word counts as that of the name ([`Stores::signers`]); a file for any of the
    /// certificates in it. `now` is in seconds since 1970.
    ///
    /// # Errors
    ///
    /// The errors of [`Stores::signers`], and [`Error::NotFound`] without a store;
    /// [`Error::Unrecognised`] if a file has no certificate; errors of reading.
    pub fn find(
        names: &[Query],
        files: &[PathBuf],
        stores: Option<&Stores>,
        now: u32,
    ) -> Result<Self, Error> {
        let missing = |query: &Query| Error::NotFound { query: query.to_string() };
        let named = |query: &Query| match (full_fingerprint(query), stores) {
            (Some(key), _) => Ok(key.into()),
            (None, Some(stores)) => {
                Ok(ExpectedSigner { any_of: stores.signers(query, now)?, name: None })
            }
            (None, None) => Err(missing(query)),
        };
        let mut expected = names.iter().map(named).collect::<Result<Vec<_>, Error>>()?;
        let mut given = Vec::new();
        for path in files {
            let certs = certificates_in(path)?;
            let any_of: Vec<Fingerprint> = certs.iter().filter_map(openpgp_fingerprint).collect();
            let name = (any_of.len() > 1)
                .then(|| format!("any of the {} certificates in {}", any_of.len(), path.display()));
            expected.push(ExpectedSigner { any_of, name });
            given.extend(certs);
        }
        Ok(Self { expected: (!expected.is_empty()).then_some(expected), given })
    }

    /// Whether a store is needed to find the signer with this name: all but a full fingerprint.
    #[must_use]
    pub fn needs_store(name: &Query) -> bool {
        full_fingerprint(name).is_none()
    }

    /// A function that finds certificates, for a [`talaria_message::Verifier`]: those from files,
    /// and those in the stores.
    #[must_use]
    pub fn lookup(&self, stores: Option<Stores>, now: u32) -> Lookup<'static> {
        lookup(stores, self.given.clone(), now)
    }

    /// The required signers that have made a good signature.
    pub fn found<'s>(
        &'s self,
        reports: &'s [SignatureReport],
    ) -> impl Iterator<Item = &'s Fingerprint> {
        self.expected.iter().flatten().flat_map(|signer| signer.found(reports))
    }
}

/// The key that a full fingerprint names, even without a store.
fn full_fingerprint(query: &Query) -> Option<Fingerprint> {
    match query {
        Query::Fingerprint(bytes) if bytes.len() > SHARED_BYTES => {
            Upper(bytes).to_string().parse().ok()
        }
        _ => None,
    }
}

fn openpgp_fingerprint(cert: &Cert) -> Option<Fingerprint> {
    cert.fingerprint().to_string().parse().ok()
}
