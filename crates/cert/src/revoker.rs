//! Designated revokers (RFC 9580, section 5.2.3.23): keys that may revoke another key.
//!
//! The rules are GnuPG's. Every good direct-key signature of the certificate names revokers, not
//! only the newest. A revoker revokes the key as a whole (type 0x20) and nothing else. The state of
//! the revoker's own certificate does not matter, so there is no chain to follow.

use crate::cert::Cert;
use crate::critical::Context;
use crate::fingerprint::Fingerprint;
use crate::identity::Variants;
use crate::key::Key;
use crate::packet::PacketRef;
use crate::signature::{Revoker, Signature, kind};
use crate::tag::Tag;
use crate::verdict::Verdict;
use crate::verify::{CertificationVerifier, KeySetup, signatures};

/// Maximum number of revocations in the name of one revoker that are tried on a certificate. The
/// limits of a keyserver keep fewer ([`crate::Limits`]).
const REVOCATIONS_TRIED: usize = 64;

/// A revocation by a designated revoker.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DesignatedRevocation {
    /// Fingerprint of the revoker's primary key.
    pub by: Fingerprint,
    /// Creation time of the revocation, in seconds since 1970.
    pub created: u32,
    /// Whether the revocation invalidates signatures of any time. True unless the reason is that
    /// the key is superseded or retired.
    pub hard: bool,
}

/// State of a designated revoker.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum RevokerState {
    /// The revoker's certificate is missing, so the revoker may have revoked the key.
    Unknown = 0,
    /// The revoker's certificate is available, and the revoker has not revoked the key.
    Silent = 1,
    /// The revoker has revoked the key.
    Revoked = 2,
}

impl Cert {
    /// The designated revokers that good direct-key signatures made by `now` name, in ascending
    /// order without duplicates.
    #[must_use]
    pub fn revokers(&self, verdicts: &[Verdict], now: u32) -> Vec<Revoker> {
        let mut revokers: Vec<Revoker> = self
            .direct(verdicts)
            .filter(|(signature, _, verdict)| {
                *verdict == Verdict::Good
                    && signature.created <= now
                    && signature.understood(&Context::Certificate).is_ok()
            })
            .flat_map(|(signature, ..)| signature.revokers())
            .collect();
        revokers.sort_unstable();
        revokers.dedup();
        revokers
    }

    /// The fingerprints of all designated revokers that direct-key signatures name, whether the
    /// signatures are good or not. The certificates of these revokers can change the state of this
    /// certificate.
    #[must_use]
    pub fn named_revokers(&self) -> Vec<Fingerprint> {
        let named = self.direct(&[]).flat_map(|(signature, ..)| signature.revokers());
        let mut named: Vec<Fingerprint> =
            named.flat_map(|revoker| revoker.fingerprints()).collect();
        named.sort_unstable();
        named.dedup();
        named
    }

    /// The good revocations of the primary key by the key `by`, whose packet has this `body`.
    /// Revocations of any date are included. Empty if the packet is that of another key.
    #[must_use]
    pub fn revocations_by(&self, by: Fingerprint, body: &[u8]) -> Vec<DesignatedRevocation> {
        let made = self.signatures_of_revoker(by, body).into_iter();
        made.map(|signature| DesignatedRevocation {
            by,
            created: signature.created,
            hard: signature.is_hard(),
        })
        .collect()
    }

    /// The signatures that are [`Self::revocations_by`] a key. The first 64 in its name are tried,
    /// each once, by their SHA-256.
    #[must_use]
    pub fn signatures_of_revoker(&self, by: Fingerprint, body: &[u8]) -> Vec<Signature<'_>> {
        let packet = PacketRef { tag: Tag::PUBLIC_KEY, body };
        let (Some(mut certified), Ok(key)) = (CertificationVerifier::new(self), Key::parse(packet))
        else {
            return Vec::new();
        };
        if key.fingerprint() != by {
            return Vec::new();
        }
        let setup = KeySetup::default();
        let Some(primary) = self.packets().next() else { return Vec::new() };
        let mut named = self.revocations_naming(by);
        named.sort_by_cached_key(Signature::id);
        named.truncate(REVOCATIONS_TRIED);
        named.retain(|signature| {
            let value = signature.value();
            let exact = Signature { numbers: &value, ..*signature };
            signature.created >= key.created && certified.made(&key, &setup, primary, &exact)
        });
        named
    }

    /// The number of signatures that [`Self::signatures_of_revoker`] tries.
    #[must_use]
    pub fn revocations_tried(&self, by: Fingerprint) -> usize {
        self.revocations_naming(by).len().min(REVOCATIONS_TRIED)
    }

    /// The revocations of the primary key of which a packet names the key `by` as the issuer.
    /// Whether `by` made them is not verified.
    fn revocations_naming(&self, by: Fingerprint) -> Vec<Signature<'_>> {
        let id = by.key_id();
        let bodies = self.packets().skip(1).take_while(|packet| packet.tag == Tag::SIGNATURE);
        let mut variants = Variants::of(bodies.map(|packet| packet.body).enumerate());
        variants.retain(|variants| {
            variants.signature().is_some_and(|signature| {
                signature.kind == kind::KEY_REVOCATION && !signature.excludes(|| by)
            }) && variants.0.iter().any(|variant| variant.names(id))
        });
        variants.iter().filter_map(Variants::signature).collect()
    }

    /// The signatures on the primary key.
    fn direct<'a>(
        &'a self,
        verdicts: &'a [Verdict],
    ) -> impl Iterator<Item = (Signature<'a>, &'a [u8], Verdict)> {
        let verdicts = verdicts.iter().copied().chain(std::iter::repeat(Verdict::Unchecked));
        signatures(self)
            .zip(verdicts)
            .take_while(|((component, _), _)| is_primary(component))
            .filter_map(|((_, body), verdict)| Some((Signature::parse(body)?, body, verdict)))
    }
}

fn is_primary(component: &PacketRef<'_>) -> bool {
    component.tag == Tag::PUBLIC_KEY
}

impl Signature<'_> {
    /// Whether a revocation invalidates signatures of all times, because its reason is not that the
    /// key was superseded or retired (RFC 9580, section 5.2.3.31).
    #[must_use]
    pub fn is_hard(&self) -> bool {
        const SUPERSEDED: u8 = 1;
        const RETIRED: u8 = 3;
        !matches!(self.revocation_reason, Some((SUPERSEDED | RETIRED, _)))
    }

    /// Whether the signature counts at a time: it was made by then, or it is a hard revocation of a
    /// key. A wrong clock does not make a key good that its owner calls compromised.
    #[must_use]
    pub fn has_begun(&self, now: u32) -> bool {
        let revokes_key = matches!(self.kind, kind::KEY_REVOCATION | kind::SUBKEY_REVOCATION);
        self.created <= now || revokes_key && self.is_hard()
    }
}

impl DesignatedRevocation {
    /// Whether the revocation counts at a time, as [`Signature::has_begun`].
    #[must_use]
    pub fn has_begun(&self, now: u32) -> bool {
        self.created <= now || self.hard
    }
}
