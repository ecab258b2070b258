//! Messages with the certificates of the stores: whom to encrypt to, and who signed.

use std::ops::ControlFlow;

use talaria_cert::{Summary, UserIdContent, Validity};
use talaria_message::openpgp;
use talaria_message::openpgp::policy::Policy;
use talaria_message::{
    Decryptor, Issuer, Lookup, MessageError, Recipients, Revocations, read_cert, unsupported_cert,
};
use talaria_store::{Order, Query};

use crate::{Error, Stores};

/// Certificates that a search for recipients looks at.
const CANDIDATES_MAX: usize = 50;

impl Stores {
    /// The certificates that `query` names, as Sequoia has them.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`], or what reading can meet.
    pub fn parsed(&self, query: &Query, now: u32) -> Result<Vec<openpgp::Cert>, Error> {
        self.parsed_if(query, now, |_| true)
    }

    /// Those of the certificates that `query` names for which `wanted` holds, as Sequoia has them.
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

    /// The certificates that `query` names exactly: by key, or by the whole address or text of a user ID that is
    /// bound by its owner and not revoked.
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

    /// The certificate that `query` names exactly; of several, the only one that can be encrypted to. A search for
    /// a part of a name chooses none: `alice` is in `malice@evil.example`, too.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`]; [`Error::Inexact`] with what a search finds; [`Error::Ambiguous`]; [`Error::Message`]
    /// with the reason if it cannot be encrypted to.
    pub fn recipient(
        &self,
        query: &Query,
        policy: &dyn Policy,
        now: u32,
    ) -> Result<openpgp::Cert, Error> {
        let certs = self.named_exactly(query, now)?;
        if certs.is_empty() {
            // What signatures say of a key that is not supported cannot be known, so no user ID of it is valid.
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
                // People know the name, not the fingerprint.
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

    /// Why a certificate that `query` names cannot be used although the store has it.
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

    /// The only certificate that `query` names exactly, for those who expect it to have signed: by key, or by
    /// the whole address or text of a user ID.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`]; [`Error::Inexact`] for a part of a name; [`Error::Ambiguous`]; what reading can meet.
    pub fn signer(&self, query: &Query, now: u32) -> Result<openpgp::Fingerprint, Error> {
        // Anybody can make a key with the short ID of somebody else's.
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

    /// Why `query` chooses nothing: what it finds is not called exactly that, or there is nothing.
    fn inexact(&self, query: &Query, now: u32) -> Error {
        self.parsed(query, now).map_or_else(
            |error| error,
            |found| Error::Inexact {
                query: query.to_string(),
                candidates: found.iter().map(described).collect(),
            },
        )
    }

    /// Makes sure that no key which the stores have has revoked `cert` as a designated revoker.
    ///
    /// # Errors
    ///
    /// [`Error::Message`] if one has.
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

    /// Finds the certificates of issuers, for a [`talaria_message::Verifier`].
    #[must_use]
    pub fn into_lookup(self, now: u32) -> Lookup<'static> {
        Box::new(move |issuer: &Issuer| self.having(issuer, now))
    }

    /// The certificates that have the key of an issuer.
    pub(crate) fn having(&self, issuer: &Issuer, now: u32) -> Vec<openpgp::Cert> {
        let id = issuer.key_id.to_string();
        let name = issuer.fingerprint.map_or(id, |fingerprint| fingerprint.to_string());
        // A store that cannot be read has no certificate: the signature says so.
        let query: Option<Query> = format!("0x{name}").parse().ok();
        query.map(|query| self.parsed(&query, now).unwrap_or_default()).unwrap_or_default()
    }
}

/// A reader of messages as of `now`, in seconds since 1970, with temporary files for what must wait and is long.
#[must_use]
pub fn decryptor<'a>(now: u32) -> Decryptor<'a> {
    Decryptor::new(now).spool(|| Ok(Box::new(tempfile::tempfile()?)))
}

/// A certificate in a list of candidates.
#[must_use]
pub fn described(cert: &openpgp::Cert) -> String {
    let user_id = cert.userids().next().map(|id| id.userid().to_string()).unwrap_or_default();
    let shown: String = user_id.chars().filter(|c| !c.is_control()).collect();
    format!("{} {shown}", cert.fingerprint().to_hex())
}

impl From<MessageError> for Error {
    fn from(error: MessageError) -> Self {
        Self::Message(error)
    }
}
