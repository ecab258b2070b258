//! Verdicts on signatures by other keys that a change needs, computed before the store is locked.
//!
//! A verdict follows from the bytes of the key, of the signed component and of the signature alone. A ledger is
//! therefore never wrong. It can be incomplete, if another process changes the store between the rehearsal of a
//! change and the change itself. What is missing is then computed under the lock.

use std::collections::HashMap;

use talaria_cert::{Cert, DesignatedRevocation, Fingerprint};

/// Verdicts that were computed in a rehearsal.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// Whether certifications were made by their issuers, by the names that the web of trust gives them.
    certifications: HashMap<[u8; 15], bool>,
    /// The designated revocations in a certificate, by certificate and revoker.
    designated: HashMap<[u8; 32], Vec<DesignatedRevocation>>,
}

impl Ledger {
    /// The verdict on a certification, if it is known.
    pub(crate) fn certification(&self, name: &[u8; 15]) -> Option<bool> {
        self.certifications.get(name).copied()
    }

    /// Adds verdicts on certifications: the name, then 1 for a good signature.
    pub(crate) fn add_certifications(&mut self, entries: Vec<[u8; 16]>) {
        self.certifications.extend(entries.into_iter().map(|entry| {
            let (name, good) = entry.split_first_chunk().expect("16 octets");
            (*name, good == [1])
        }));
    }

    /// Number of verdicts on certifications.
    pub(crate) fn count(&self) -> u64 {
        self.certifications.len() as u64
    }

    /// The designated revocations in `cert` by the revoker whose primary key packet has this body.
    pub(crate) fn designated(
        &self,
        cert: &Cert,
        by: Fingerprint,
        body: &[u8],
    ) -> Vec<DesignatedRevocation> {
        match self.designated.get(&name(cert, by, body)) {
            Some(known) => known.clone(),
            None => cert.revocations_by(by, body),
        }
    }

    /// The same, and keeps them.
    pub(crate) fn keep_designated(
        &mut self,
        cert: &Cert,
        by: Fingerprint,
        body: &[u8],
    ) -> Vec<DesignatedRevocation> {
        let name = name(cert, by, body);
        self.designated.entry(name).or_insert_with(|| cert.revocations_by(by, body)).clone()
    }
}

fn name(cert: &Cert, by: Fingerprint, body: &[u8]) -> [u8; 32] {
    let length = (body.len() as u64).to_be_bytes();
    talaria_cert::sha256(&[&by.to_stored(), &length, body, cert.as_bytes()])
}
