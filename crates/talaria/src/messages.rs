//! Messages with the certificates of the stores: recipients and signers.

use std::ops::ControlFlow;
use std::path::Path;

use talaria_cert::{Cert, Judge, Verified};
use talaria_disk::TemporaryFile;
use talaria_message::openpgp;
use talaria_message::{
    Decryptor, Issuer, KeyFault, Lookup, MessageError, Recipients, Rules, judge, read_cert,
    unsupported_cert,
};
use talaria_store::{Order, Query};

use crate::confirmed::{Claimant, Confirmation};
use crate::error::Error;
use crate::parsed::described;
use crate::source::{self, Input, Piece};
use crate::stores::Stores;

/// The maximum length of all certificates in one file of signers.
const CERTIFICATES_BYTES_MAX: usize = 256 << 20;

/// A certificate to encrypt to.
#[derive(Clone, Debug)]
pub struct Recipient {
    /// The certificate in Sequoia's form.
    pub cert: openpgp::Cert,
    /// What it may be used for, for [`Recipients::add_judged`].
    pub judge: Judge,
}

impl Stores {
    /// The certificate that matches `query` exactly; of several, the only one with a valid
    /// encryption key and the best [`Confirmation`]. A certificate that the user has called bad is
    /// never chosen, nor is a partial match: `alice` is in `malice@evil.example`, too.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`]; [`Error::Inexact`] with the partial matches; [`Error::Ambiguous`];
    /// [`Error::Distrusted`]; [`Error::Message`] with the reason if the certificate has no valid
    /// encryption key.
    pub fn recipient(&self, query: &Query, rules: Rules, now: u32) -> Result<Recipient, Error> {
        let claimants = self.claimants(query, now)?;
        if claimants.is_empty() {
            // Signatures by a key of an unsupported type cannot be verified, so none of its user
            // IDs is valid.
            return Err(match query.exact().map(|exact| self.unsupported(&exact, now)) {
                Some(named @ Error::Message(_)) => named,
                _ => self.inexact(query, now),
            });
        }
        // A certificate about which nothing is known never takes the place of one that the user
        // chose.
        let best = claimants.iter().map(|claimant| claimant.confirmation).max();
        let mut usable = Vec::new();
        let mut refused = None;
        for Claimant { cert, fingerprint, confirmation, .. } in claimants {
            if Some(confirmation) != best {
                continue;
            }
            if confirmation == Confirmation::Bad {
                refused = Some(Error::Distrusted { name: described(&cert) });
                continue;
            }
            let Some(judge) = self.judge(fingerprint, rules, now)? else { continue };
            match Recipients::default().add_judged(&cert, judge.clone(), now) {
                Ok(_) => usable.push(Recipient { cert, judge }),
                // The error shows the name from the query, because users know it better than the
                // fingerprint.
                Err(MessageError::Key { why, .. }) => {
                    refused = Some(MessageError::Key { name: described(&cert), why }.into());
                }
                Err(error) => refused = Some(error.into()),
            }
        }
        if usable.len() > 1 {
            return Err(Error::Ambiguous {
                query: query.to_string(),
                candidates: usable.iter().map(|one| described(&one.cert)).collect(),
            });
        }
        match (usable.pop(), refused) {
            (Some(recipient), _) => Ok(recipient),
            (None, Some(error)) => Err(error),
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
                let why = KeyFault::Other(format!("is {what}"));
                MessageError::Key { name: name.to_string(), why }.into()
            }
            _ => Error::NotFound { query: query.to_string() },
        }
    }

    /// Checks that no key in the stores has revoked `cert` as a designated revoker.
    ///
    /// # Errors
    ///
    /// [`Error::Message`] if one has revoked it.
    pub fn refuse_revoked(
        &self,
        cert: &openpgp::Cert,
        rules: Rules,
        now: u32,
    ) -> Result<(), Error> {
        if judge(cert, rules, &mut |by| self.cert(by).ok()?, now)?.at(now).primary.revoked {
            let name = cert.fingerprint().to_hex();
            return Err(MessageError::Key { name, why: KeyFault::Revoked }.into());
        }
        Ok(())
    }
}

/// A function that finds the certificates of issuers, for a [`talaria_message::Verifier`]: those in
/// `given`, completed with what the stores know of them, and those in the stores.
#[must_use]
pub fn lookup(stores: Option<Stores>, given: Vec<Cert>, now: u32) -> Lookup<'static> {
    Box::new(move |issuer: &Issuer| {
        let has = |cert: &&Cert| cert.keys().any(|key| key.fingerprint().key_id() == issuer.key_id);
        let mut found: Vec<Verified> = Vec::new();
        for cert in given.iter().filter(has) {
            // The store may have a revocation that the file lacks.
            let known = |stores: &Stores| stores.verified(cert.fingerprint()).ok()?;
            let known = stores.as_ref().and_then(known);
            let same = |known: &Verified| known.cert().packets().next() == cert.packets().next();
            let joined = known.filter(same).map(|known| known.union(cert));
            found.push(joined.unwrap_or_else(|| Verified::new(cert.clone())));
        }
        let stored = stores.as_ref().map(|stores| stores.having(issuer, now)).unwrap_or_default();
        for known in stored {
            if found.iter().all(|other| other.cert().fingerprint() != known.cert().fingerprint()) {
                found.push(known);
            }
        }
        found
    })
}

/// The certificates in a file or folder, in any format that [`crate::import`] reads.
///
/// # Errors
///
/// [`Error::Unrecognised`] if there is no certificate; errors of reading.
pub fn certificates_in(path: &Path) -> Result<Vec<Cert>, Error> {
    let name = path.display().to_string();
    let unrecognised = |what| Error::Unrecognised { name: name.clone(), what };
    let (mut certs, mut bytes) = (Vec::new(), 0);
    source::read(&Input::Path(path.to_owned()), &mut |pieces, _| {
        for piece in pieces {
            let Piece::Cert(_, raw) = piece else { continue };
            bytes += raw.len();
            if bytes > CERTIFICATES_BYTES_MAX {
                return Err(unrecognised(
                    "larger than 256 MiB, which is too much for a list of signers",
                ));
            }
            certs.extend(Cert::parse(&raw));
        }
        Ok(())
    })?;
    if certs.is_empty() {
        return Err(unrecognised("neither a certificate nor a keyring"));
    }
    Ok(certs)
}

/// A reader of messages as of `now`, in seconds since 1970, with temporary files for long content
/// that must wait.
#[must_use]
pub fn decryptor<'a>(now: u32) -> Decryptor<'a> {
    Decryptor::new(now).spool(|| Ok(Box::new(TemporaryFile::new()?)))
}
