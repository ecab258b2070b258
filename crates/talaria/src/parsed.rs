//! Certificates of the stores by their names: verified, or in Sequoia's form.

use std::ops::ControlFlow;

use talaria_cert::user_id::visible_text;
use talaria_cert::{Fingerprint, Verified};
use talaria_message::{Issuer, openpgp, read_cert};
use talaria_store::{Order, Query};

use crate::error::Error;
use crate::stores::Stores;

/// The maximum number of certificates that match one query.
const CANDIDATES_MAX: usize = 50;

impl Stores {
    /// The certificates that match `query`, in Sequoia's form.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`], or errors of reading the stores.
    pub fn parsed(&self, query: &Query, now: u32) -> Result<Vec<openpgp::Cert>, Error> {
        let mut certs = Vec::new();
        for fingerprint in self.candidates(query, now)? {
            if let Some(cert) = self.cert(fingerprint)?
                && let Ok(cert) = read_cert(cert.as_bytes())
            {
                certs.push(cert);
            }
        }
        Ok(certs)
    }

    /// The fingerprints of the first certificates that match `query`.
    fn candidates(&self, query: &Query, now: u32) -> Result<Vec<Fingerprint>, Error> {
        let mut fingerprints = Vec::new();
        self.visit(std::slice::from_ref(query), Order::Insertion, now, |_, row| {
            fingerprints.push(row.summary.fingerprint());
            let full = fingerprints.len() == CANDIDATES_MAX;
            Ok(if full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        Ok(fingerprints)
    }

    /// The error if `query` matches nothing exactly: its partial matches, or not found.
    pub(crate) fn inexact(&self, query: &Query, now: u32) -> Error {
        self.parsed(query, now).map_or_else(
            |error| error,
            |found| Error::Inexact {
                query: query.to_string(),
                candidates: found.iter().map(described).collect(),
            },
        )
    }

    /// The certificate of the key with this fingerprint.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`], or errors of reading the stores.
    pub fn owner_of_key(
        &self,
        key: &openpgp::Fingerprint,
        now: u32,
    ) -> Result<openpgp::Cert, Error> {
        let query = format!("0x{}", key.to_hex());
        let found = self.parsed(&query.parse()?, now)?;
        with_key(&found, key).cloned().ok_or(Error::NotFound { query })
    }

    /// The certificates that contain the key of an issuer.
    #[must_use]
    pub fn having(&self, issuer: &Issuer, now: u32) -> Vec<Verified> {
        let id = issuer.key_id.to_string();
        let name = issuer.fingerprint.map_or(id, |fingerprint| fingerprint.to_string());
        // What cannot be read counts as absent: the report on the signature says that the key is
        // missing.
        let Ok(query) = format!("0x{name}").parse() else { return Vec::new() };
        let found = self.candidates(&query, now).unwrap_or_default();
        found.into_iter().filter_map(|name| self.verified(name).ok()?).collect()
    }
}

/// The certificate among `certs` that has the key with this fingerprint.
#[must_use]
pub fn with_key<'c>(
    certs: &'c [openpgp::Cert],
    key: &openpgp::Fingerprint,
) -> Option<&'c openpgp::Cert> {
    certs.iter().find(|cert| cert.keys().any(|one| one.key().fingerprint() == *key))
}

/// The description of a certificate in a list of candidates.
#[must_use]
pub fn described(cert: &openpgp::Cert) -> String {
    let user_id = cert.userids().next().map(|id| id.userid().to_string()).unwrap_or_default();
    format!("{} {}", cert.fingerprint().to_hex(), visible_text(&user_id))
}

/// The fingerprint of a certificate in the form of the stores; `None` for a version without
/// signatures and messages.
pub(crate) fn stored_fingerprint(fingerprint: &openpgp::Fingerprint) -> Option<Fingerprint> {
    match fingerprint {
        openpgp::Fingerprint::V4(bytes) => Some(Fingerprint::V4(*bytes)),
        openpgp::Fingerprint::V6(bytes) => Some(Fingerprint::V6(*bytes)),
        _ => None,
    }
}
