//! The certificates in which makers of signatures are looked for.

use crate::cert::Cert;
use crate::claims::Claims;
use crate::fingerprint::{Fingerprint, KeyId};
use crate::verdict::Verdict;

/// The certificates in which the issuers of signatures on another certificate are looked for: those
/// of a store. What cannot be read counts as not there.
pub trait Issuers {
    /// Whether there is a primary key with a key ID.
    fn has(&mut self, id: KeyId) -> bool;

    /// The bodies of the primary key packets with a key ID.
    fn keys(&mut self, id: KeyId) -> Vec<Vec<u8>>;

    /// The length of the certificate with a fingerprint, in bytes.
    fn bytes(&mut self, fingerprint: Fingerprint) -> Option<u64>;

    /// What [`Cert::claims_of`] says of the certificate with the fingerprint `certified`, and the
    /// key of `owner`.
    fn claims_of(&mut self, owner: &Cert, certified: Fingerprint) -> Option<Claims>;
}

/// Certificates with the verdicts on their signatures.
impl Issuers for Vec<(Cert, Vec<Verdict>)> {
    fn has(&mut self, id: KeyId) -> bool {
        !self.keys(id).is_empty()
    }

    fn keys(&mut self, id: KeyId) -> Vec<Vec<u8>> {
        let named = self.iter().filter(|(known, _)| known.fingerprint().key_id() == id);
        named.filter_map(|(known, _)| Some(known.packets().next()?.body.to_vec())).collect()
    }

    fn bytes(&mut self, fingerprint: Fingerprint) -> Option<u64> {
        let (known, _) = self.iter().find(|(known, _)| known.fingerprint() == fingerprint)?;
        Some(known.as_bytes().len() as u64)
    }

    fn claims_of(&mut self, owner: &Cert, certified: Fingerprint) -> Option<Claims> {
        let (known, verdicts) = self.iter().find(|(known, _)| known.fingerprint() == certified)?;
        known.claims_of(owner, verdicts)
    }
}
