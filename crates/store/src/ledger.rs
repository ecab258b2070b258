//! Verdicts on signatures by other keys that a change needs, computed before the store is locked.
//!
//! A verdict follows from the bytes of the key, of the signed component and of the signature alone.
//! A ledger is therefore never wrong. It can be incomplete, if another process changes the store
//! between the rehearsal of a change and the change itself. What is missing is then computed under
//! the lock.

use std::collections::HashMap;
use std::time::Duration;

use talaria_cert::{Cert, DesignatedRevocation, Fingerprint, Key, PacketRef, Tag, Work};

/// Verdicts that were computed in a rehearsal.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    /// The CPU time for designated revocations. What is above its limit counts, but is not
    /// verified.
    work: Work,
    /// Whether certifications were made by their issuers, by the names that the web of trust gives
    /// them.
    certifications: HashMap<[u8; 15], bool>,
    /// The designated revocations in a certificate, by certificate and revoker.
    designated: HashMap<[u8; 32], Vec<DesignatedRevocation>>,
}

impl Ledger {
    /// An empty ledger for verdicts that may take so much CPU time.
    pub(crate) fn within(work: Work) -> Self {
        Self { work, ..Self::default() }
    }

    /// The CPU time that the verdicts take. If it is above what is allowed, some are missing.
    pub(crate) fn work(&self) -> Work {
        self.work
    }

    /// The verdicts of several ledgers.
    pub(crate) fn joined<'a>(ledgers: impl Iterator<Item = &'a Self>) -> Self {
        let mut joined = Self::default();
        for ledger in ledgers {
            joined.work = joined.work.up_to(ledger.work.allowed());
            joined.certifications.extend(&ledger.certifications);
            joined.designated.extend(ledger.designated.iter().map(|(k, v)| (*k, v.clone())));
        }
        joined
    }

    /// The verdict on a certification, if it is known.
    pub(crate) fn certification(&self, name: &[u8; 15]) -> Option<bool> {
        self.certifications.get(name).copied()
    }

    /// Adds verdicts on certifications: the name, then 1 for a good signature.
    pub(crate) fn add_certifications(&mut self, entries: Vec<[u8; 16]>) {
        self.certifications.extend(entries.into_iter().map(|entry| {
            let (name, good) = entry.split_first_chunk().expect("16 bytes");
            (*name, good == [1])
        }));
    }

    /// Number of verdicts on certifications.
    pub(crate) fn count(&self) -> u64 {
        self.certifications.len() as u64
    }

    /// The designated revocations in `cert` by the revoker whose primary key packet has this body.
    /// `None` if that is not known and would take long, in a ledger with a limit: then the
    /// certificate has to be evaluated again.
    pub(crate) fn designated(
        &self,
        cert: &Cert,
        by: Fingerprint,
        body: &[u8],
    ) -> Option<Vec<DesignatedRevocation>> {
        match self.designated.get(&name(cert, by, body)) {
            Some(known) => Some(known.clone()),
            None if self.is_limited() && cert.revocations_tried(by) > FEW => None,
            None => Some(cert.revocations_by(by, body)),
        }
    }

    /// The same, and keeps them. `None` above the limit.
    pub(crate) fn keep_designated(
        &mut self,
        cert: &Cert,
        by: Fingerprint,
        body: &[u8],
    ) -> Option<Vec<DesignatedRevocation>> {
        let name = name(cert, by, body);
        if let Some(known) = self.designated.get(&name) {
            return Some(known.clone());
        }
        let number = u32::try_from(cert.revocations_tried(by)).unwrap_or(u32::MAX);
        self.work.take(cost_of_signature(body).saturating_mul(number)).ok()?;
        let made = cert.revocations_by(by, body);
        self.designated.insert(name, made.clone());
        Some(made)
    }

    /// Whether the verdicts have a limit.
    pub(crate) fn is_limited(&self) -> bool {
        self.work.is_bounded()
    }
}

/// Revocations that are verified at once, while the store is locked.
const FEW: usize = 4;

fn name(cert: &Cert, by: Fingerprint, body: &[u8]) -> [u8; 32] {
    let length = (body.len() as u64).to_be_bytes();
    talaria_cert::sha256(&[&by.to_stored(), &length, body, cert.as_bytes()])
}

/// The cost of verifying one signature by the key with this packet body.
fn cost_of_signature(key: &[u8]) -> Duration {
    let packet = PacketRef { tag: Tag::PUBLIC_KEY, body: key };
    Key::parse(packet).map_or(Duration::ZERO, |key| key.verification_cost())
}
