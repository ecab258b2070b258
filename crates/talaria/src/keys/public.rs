//! The public parts of keys, which are in the certificate store.

use openpgp::serialize::MarshalInto as _;
use talaria_cert::{Summary, Verification};
use talaria_message::openpgp;
use talaria_store::{IngestOutcome, Query};

use crate::error::Error;
use crate::stores::Stores;

impl Stores {
    /// `cert` merged with its copy in the stores.
    ///
    /// # Errors
    ///
    /// Errors of reading the store.
    pub fn refreshed(&self, cert: openpgp::Cert, now: u32) -> Result<openpgp::Cert, Error> {
        let query = Query::Fingerprint(cert.fingerprint().as_bytes().to_vec());
        let known = match self.parsed(&query, now) {
            Ok(certs) => certs,
            Err(Error::NotFound { .. }) => return Ok(cert),
            Err(error) => return Err(error),
        };
        match known.into_iter().find(|known| known.fingerprint() == cert.fingerprint()) {
            Some(known) => {
                let kept = cert.clone();
                cert.merge_public(known).map_err(|source| refused("join", &kept, source))
            }
            None => Ok(cert),
        }
    }

    /// Merges the public part of `cert` into the store.
    ///
    /// # Errors
    ///
    /// [`Error::Keyring`], or errors of writing the store.
    pub fn add_public(&mut self, cert: &openpgp::Cert, now: u32) -> Result<IngestOutcome, Error> {
        let outcomes =
            self.writable()?.ingest(vec![public(cert)?], Verification::Full, now.into())?;
        Ok(outcomes[0])
    }
}

/// The summary of a key's certificate, as in a listing.
///
/// # Errors
///
/// [`Error::KeyRefused`] if a store would reject the certificate.
pub fn summary(cert: &openpgp::Cert, now: u32) -> Result<Summary, Error> {
    let public = public(cert)?;
    let verdicts = talaria_cert::verdicts(&[&public], Verification::Full);
    Ok(Summary::evaluate(&public, &verdicts[0], now))
}

/// The public part of `cert`, in the form of the store.
pub(super) fn public(cert: &openpgp::Cert) -> Result<talaria_cert::Cert, Error> {
    let bytes = cert.to_vec().map_err(|source| refused("write", cert, source))?;
    talaria_cert::Cert::parse(&bytes)
        .map_err(|reason| refused("write", cert, openpgp::anyhow::Error::new(reason)))
}

/// The error for a failed operation on the key `cert`.
pub(super) fn refused(
    action: &'static str,
    cert: &openpgp::Cert,
    source: openpgp::anyhow::Error,
) -> Error {
    Error::KeyRefused { action, name: cert.fingerprint().to_hex(), source: source.into() }
}
