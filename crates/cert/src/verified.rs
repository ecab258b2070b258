//! A certificate whose signatures have been verified.

use crate::cert::Cert;
use crate::merge::Stored;
use crate::tag::Tag;
use crate::verdict::{Verdict, Verification};
use crate::verify::{carried_over, complete, renew, verdicts};

/// A certificate with verdicts on all its signatures, none of them [`Verdict::Unchecked`], as this
/// version makes them.
///
/// ```
/// use talaria_cert::{Armor, BATCH_BYTES, Cert, Judge, Purpose, Rules, Splitter, Verified};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let ring = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/alice-and-bob.asc"));
/// let now = 1_800_000_000;
/// let batch = Splitter::new(Armor::new(&ring[..]), BATCH_BYTES).next_batch()?.ok_or("empty")?;
/// for (_offset, raw) in batch.certs() {
///     let judge = Judge::new(Verified::new(Cert::parse(raw)?), Rules::Standard, now, |_| None);
///     assert!(judge.usable(Purpose::Certify, now).is_ok());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Verified {
    cert: Cert,
    verdicts: Vec<Verdict>,
}

impl Verified {
    /// Verifies all signatures of a certificate.
    #[must_use]
    pub fn new(cert: Cert) -> Self {
        let verdicts = verdicts(&[&cert], Verification::Full).remove(0);
        Self { cert, verdicts }
    }

    /// Takes the verdicts that the verifier of version `verifier` made, and verifies what is
    /// unchecked, or may have been judged differently by that version.
    #[must_use]
    pub fn of_stored(stored: Stored, verifier: u8) -> Self {
        let Stored { cert, verdicts } = stored;
        let verdicts = renew(&cert, verdicts, verifier, Verification::Full);
        Self { cert, verdicts }
    }

    /// The union with another copy of the certificate. What is known is not verified again.
    #[must_use]
    pub fn union(&self, other: &Cert) -> Self {
        let cert = self.cert.union(other);
        let carried = carried_over(&cert, &self.cert, &self.verdicts);
        let verdicts = complete(&cert, carried, Verification::Full);
        Self { cert, verdicts }
    }

    /// The same certificate, in which the good signatures whose packets `is_weak` names are weak:
    /// for users who accept less than others.
    #[must_use]
    pub fn weakened(mut self, is_weak: impl Fn(&[u8]) -> bool) -> Self {
        let signatures = self.cert.packets().filter(|packet| packet.tag == Tag::SIGNATURE);
        for (packet, verdict) in signatures.zip(&mut self.verdicts) {
            if *verdict == Verdict::Good && is_weak(packet.body) {
                *verdict = Verdict::Weak;
            }
        }
        self
    }

    /// The certificate.
    #[must_use]
    pub fn cert(&self) -> &Cert {
        &self.cert
    }

    /// The bodies of the signatures by the primary key that are good.
    pub fn good(&self) -> impl Iterator<Item = &[u8]> {
        let signatures = self.cert.packets().filter(|packet| packet.tag == Tag::SIGNATURE);
        let judged = signatures.zip(&self.verdicts);
        judged.filter(|(_, verdict)| **verdict == Verdict::Good).map(|(packet, _)| packet.body)
    }

    /// One verdict per signature packet, in canonical order.
    #[must_use]
    pub fn verdicts(&self) -> &[Verdict] {
        &self.verdicts
    }
}
