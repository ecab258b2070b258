//! Messages with the certificates of the stores: recipients and signers.

use std::ops::ControlFlow;

use talaria_cert::user_id::visible_text;
use talaria_cert::{Summary, UserIdContent, Validity};
use talaria_message::openpgp;
use talaria_message::openpgp::policy::Policy;
use talaria_message::{
    Decryptor, Issuer, Lookup, MessageError, Recipients, Revocations, read_cert, unsupported_cert,
};
use talaria_store::{Order, Query};

use crate::{Error, Stores};

/// The maximum number of certificates examined in a search for recipients.
const CANDIDATES_MAX: usize = 50;

impl Stores {
    /// The certificates that match `query`, in Sequoia's form.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`], or errors of reading the stores.
    pub fn parsed(&self, query: &Query, now: u32) -> Result<Vec<openpgp::Cert>, Error> {
        self.parsed_if(query, now, |_| true)
    }

    /// The certificates that match `query` and fulfil `wanted`, in Sequoia's form.
    fn parsed_if(
        &self,
        query: &Query,
        now: u32,
        wanted: impl Fn(&Summary) -> bool,
    ) -> Result<Vec<openpgp::Cert>, Error> {
        let mut fingerprints = Vec::new();
        self.visit(std::slice::from_ref(query), Order::Insertion, now, |_, row| {
            if wanted(&row.summary) {
                fingerprints.push(row.summary.fingerprint());
            }
            let full = fingerprints.len() == CANDIDATES_MAX;
            Ok(if full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        let mut certs = Vec::with_capacity(fingerprints.len());
        for fingerprint in fingerprints {
            if let Some(cert) = self.cert(fingerprint)?
                && let Ok(cert) = read_cert(cert.as_bytes())
            {
                certs.push(cert);
            }
        }
        Ok(certs)
    }

    /// The certificates that match `query` exactly: by key, or by the whole address or text of a user ID that
    /// is bound by its owner and not revoked.
    fn named_exactly(&self, query: &Query, now: u32) -> Result<Vec<openpgp::Cert>, Error> {
        let found = match query.exact() {
            Some(exact @ (Query::Email(_) | Query::Exact(_))) => {
                self.parsed_if(&exact, now, |summary| {
                    summary.user_ids.iter().any(|user_id| match &user_id.content {
                        UserIdContent::Text(text) => {
                            let gone = [Validity::Invalid, Validity::Revoked];
                            exact.names_text(text) && !gone.contains(&user_id.validity(now))
                        }
                        UserIdContent::Attribute { .. } => false,
                    })
                })
            }
            Some(exact) => self.parsed(&exact, now),
            None => return Ok(Vec::new()),
        };
        match found {
            Err(Error::NotFound { .. }) => Ok(Vec::new()),
            found => found,
        }
    }

    /// The certificate that matches `query` exactly; of several, the only one with a valid encryption key. A
    /// partial match is never chosen: `alice` is in `malice@evil.example`, too.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`]; [`Error::Inexact`] with the partial matches; [`Error::Ambiguous`];
    /// [`Error::Message`] with the reason if the certificate has no valid encryption key.
    pub fn recipient(
        &self,
        query: &Query,
        policy: &dyn Policy,
        now: u32,
    ) -> Result<openpgp::Cert, Error> {
        let certs = self.named_exactly(query, now)?;
        if certs.is_empty() {
            // Signatures by a key of an unsupported type cannot be verified, so none of its user IDs is
            // valid.
            return Err(match query.exact().map(|exact| self.unsupported(&exact, now)) {
                Some(named @ Error::Message(_)) => named,
                _ => self.inexact(query, now),
            });
        }
        let mut usable = Vec::new();
        let mut refused = None;
        for cert in certs {
            let mut look_up = |issuer: &Issuer| self.having(issuer, now);
            let mut alone = Recipients::default();
            match alone.add_unless_revoked(&cert, policy, &mut look_up, now) {
                Ok(()) => usable.push(cert),
                // The error shows the name from the query, because users know it better than the fingerprint.
                Err(MessageError::Key { why, .. }) => {
                    refused = Some(MessageError::Key { name: described(&cert), why });
                }
                Err(error) => refused = Some(error),
            }
        }
        if usable.len() > 1 {
            return Err(Error::Ambiguous {
                query: query.to_string(),
                candidates: usable.iter().map(described).collect(),
            });
        }
        match (usable.pop(), refused) {
            (Some(cert), _) => Ok(cert),
            (None, Some(error)) => Err(error.into()),
            (None, None) => Err(self.unsupported(query, now)),
        }
    }

    /// The reason why the stores have a certificate that matches `query` but cannot use it.
    fn unsupported(&self, query: &Query, now: u32) -> Error {
        let mut found = None;
        let visited = self.visit(std::slice::from_ref(query), Order::Insertion, now, |_, row| {
            found = Some(row.summary.fingerprint());
            Ok(ControlFlow::Break(()))
        });
        let stored = visited.and_then(|()| found.map_or(Ok(None), |name| self.cert(name)));
        let why = match &stored {
            Ok(Some(cert)) => read_cert(cert.as_bytes()).err(),
            _ => None,
        };
        match (found, why.as_ref().and_then(unsupported_cert)) {
            (Some(name), Some(what)) => {
                MessageError::Key { name: name.to_string(), why: format!("is {what}") }.into()
            }
            _ => Error::NotFound { query: query.to_string() },
        }
    }

    /// The only certificate that matches `query` exactly, as an expected signer: by key, or by the whole
    /// address or text of a user ID.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`]; [`Error::Inexact`] for a partial match; [`Error::Ambiguous`]; errors of reading
    /// the stores.
    pub fn signer(&self, query: &Query, now: u32) -> Result<openpgp::Fingerprint, Error> {
        // Anybody can generate a key with the same short key ID as another key.
        let is_weak = matches!(query, Query::ShortKeyId(_));
        let certs = if is_weak { Vec::new() } else { self.named_exactly(query, now)? };
        match &certs[..] {
            [] => Err(self.inexact(query, now)),
            [cert] => Ok(cert.fingerprint()),
            _ => Err(Error::Ambiguous {
                query: query.to_string(),
                candidates: certs.iter().map(described).collect(),
            }),
        }
    }

    /// The error if `query` matches nothing exactly: its partial matches, or not found.
    fn inexact(&self, query: &Query, now: u32) -> Error {
        self.parsed(query, now).map_or_else(
            |error| error,
            |found| Error::Inexact {
                query: query.to_string(),
                candidates: found.iter().map(described).collect(),
            },
        )
    }

    /// Checks that no key in the stores has revoked `cert` as a designated revoker.
    ///
    /// # Errors
    ///
    /// [`Error::Message`] if one has revoked it.
    pub fn refuse_revoked(
        &self,
        cert: &openpgp::Cert,
        policy: &dyn Policy,
        now: u32,
    ) -> Result<(), Error> {
        let mut look_up = |issuer: &Issuer| self.having(issuer, now);
        let name = cert.fingerprint();
        if Revocations::of(cert, policy, &mut look_up, now).hold(&name, now) {
            let why = "is revoked".to_owned();
            return Err(MessageError::Key { name: name.to_hex(), why }.into());
        }
        Ok(())
    }

    /// A function that finds the certificates of issuers, for a [`talaria_message::Verifier`].
    #[must_use]
    pub fn into_lookup(self, now: u32) -> Lookup<'static> {
        Box::new(move |issuer: &Issuer| self.having(issuer, now))
    }

    /// The certificates that contain the key of an issuer.
    pub(crate) fn having(&self, issuer: &Issuer, now: u32) -> Vec<openpgp::Cert> {
        let id = issuer.key_id.to_string();
        let name = issuer.fingerprint.map_or(id, |fingerprint| fingerprint.to_string());
        // An unreadable store counts as empty: the report on the signature says that the key is missing.
        let query: Option<Query> = format!("0x{name}").parse().ok();
        query.map(|query| self.parsed(&query, now).unwrap_or_default()).unwrap_or_default()
    }
}

/// A reader of messages as of `now`, in seconds since 1970, with temporary files for long content that must
/// wait.
#[must_use]
pub fn decryptor<'a>(now: u32) -> Decryptor<'a> {
    Decryptor::new(now).spool(|| Ok(Box::new(tempfile::tempfile()?)))
}

/// The description of a certificate in a list of candidates.
#[must_use]
pub fn described(cert: &openpgp::Cert) -> String {
    let user_id = cert.userids().next().map(|id| id.userid().to_string()).unwrap_or_default();
    format!("{} {}", cert.fingerprint().to_hex(), visible_text(&user_id))
}

impl From<MessageError> for Error {
    fn from(error: MessageError) -> Self {
        Self::Message(error)
    }
}
