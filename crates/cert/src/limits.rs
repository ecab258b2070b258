//! What a keyserver keeps of a certificate that anybody may add to.
//!
//! Signatures can be made up by the thousand in the name of anybody, so the number that is kept is
//! bounded before any of them is computed. What was already known to be good is kept first, then
//! revocations, then what is newest. A certificate that has reached its limit still takes
//! revocations.

use std::collections::{HashMap, HashSet};

use crate::verify::{Verdict, signatures};
use crate::{Cert, PacketRef, Signature, Tag, kind};

/// Bounds on one certificate. The default has none.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Limits {
    /// Bytes of the certificate.
    pub cert_bytes: usize,
    /// Bytes of one packet.
    pub packet_bytes: usize,
    /// Bytes of one user ID.
    pub user_id_bytes: usize,
    /// User IDs, attributes, subkeys and unknown components together.
    pub components: usize,
    /// Whether user attributes (photos) are kept.
    pub attributes: bool,
    /// Signatures in the name of the primary key.
    pub own_signatures: usize,
    /// Of these, the ones that turn out not to be made by it.
    pub bad_signatures: usize,
    /// Signatures of one other key on one component; as many revocations come on top.
    pub signatures_per_signer: usize,
    /// Signatures of other keys on the whole certificate.
    pub foreign_signatures: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            cert_bytes: crate::CERT_BYTES_MAX,
            packet_bytes: usize::MAX,
            user_id_bytes: usize::MAX,
            components: usize::MAX,
            attributes: true,
            own_signatures: usize::MAX,
            bad_signatures: usize::MAX,
            signatures_per_signer: usize::MAX,
            foreign_signatures: usize::MAX,
        }
    }
}

/// Bytes that revocations may add to a certificate that has reached its limit.
const REVOCATION_BYTES: usize = 64 << 10;

/// What is weighed to find the signatures to keep: the larger, the sooner it stays.
type Weight = (bool, bool, u32);

/// A signature packet that may have to go.
struct Candidate {
    /// Which packet of the certificate.
    at: usize,
    component: usize,
    signer: u64,
    weight: Weight,
    bytes: usize,
}

impl Cert {
    /// The certificate within `limits`, or `None` if even what must stay has too many bytes.
    ///
    /// `known` is a copy whose verdicts are there: its good self-signatures stay before others.
    #[must_use]
    pub fn within(&self, limits: &Limits, known: Option<(&Self, &[Verdict])>) -> Option<Self> {
        if self.is_within(limits) {
            return Some(self.clone());
        }
        let good = known.map(|(cert, verdicts)| good_signatures(cert, verdicts));
        let good = good.unwrap_or_default();
        let known_components: HashSet<PacketRef<'_>> =
            known.into_iter().flat_map(|(cert, _)| components(cert)).collect();

        let mut keep = vec![true; self.packets().len()];
        let id = self.fingerprint().key_id();
        let (mut own, mut foreign) = (Vec::new(), Vec::new());
        let mut components = Vec::new();
        let mut dropped = false;
        for (at, packet) in self.packets().enumerate() {
            if packet.tag != Tag::SIGNATURE {
                let too_large = packet.body.len() > limits.packet_bytes
                    || packet.tag == Tag::USER_ID && packet.body.len() > limits.user_id_bytes
                    || packet.tag == Tag::USER_ATTRIBUTE && !limits.attributes;
                dropped = at > 0 && too_large;
                keep[at] = !dropped;
                if at > 0 && !dropped {
                    components.push((!known_components.contains(&packet), at));
                }
                continue;
            }
            if dropped || packet.body.len() > limits.packet_bytes {
                keep[at] = false;
                continue;
            }
            let signature = Signature::parse(packet.body);
            let revokes = signature.is_some_and(|s| is_revocation(s.kind));
            let candidate = Candidate {
                at,
                component: components.last().map_or(0, |&(_, at)| at),
                signer: signature.and_then(|s| s.issuer).map_or(0, |id| id.0),
                weight: (
                    good.contains(packet.body),
                    revokes,
                    signature.map_or(0, |signature| signature.created),
                ),
                bytes: packet.body.len(),
            };
            if signature.is_some_and(|signature| signature.names(id)) {
                own.push(candidate);
            } else {
                foreign.push(candidate);
            }
        }
        // New components go first, and among them the last.
        components.sort_unstable();
        for &(_, at) in components.iter().skip(limits.components) {
            keep[at] = false;
        }
        heaviest_first(&mut own);
        own.iter().skip(limits.own_signatures).for_each(|c| keep[c.at] = false);
        heaviest_first(&mut foreign);
        let mut per_signer: HashMap<(usize, u64, bool), usize> = HashMap::new();
        let mut kept = 0;
        foreign.retain(|c| {
            let count = per_signer.entry((c.component, c.signer, c.weight.1)).or_default();
            *count += 1;
            let stays = *count <= limits.signatures_per_signer && kept < limits.foreign_signatures;
            kept += usize::from(stays);
            keep[c.at] = stays;
            stays
        });
        let mut cert = self.retain(|at, _| keep[at]);
        if cert.as_bytes().len() > limits.cert_bytes {
            // The lightest signatures of others make room.
            let mut excess = cert.as_bytes().len() - limits.cert_bytes;
            for c in foreign.iter().rev() {
                if excess == 0 {
                    break;
                }
                keep[c.at] = false;
                excess = excess.saturating_sub(c.bytes);
            }
            cert = self.retain(|at, _| keep[at]);
        }
        (cert.as_bytes().len() <= limits.cert_bytes).then_some(cert)
    }

    /// What is taken of `self` although the copy that is there has reached its limit: revocations of
    /// the primary key and its subkeys. `None` if these, too, are too much.
    #[must_use]
    pub fn with_revocations_of(&self, other: &Self, limits: &Limits) -> Option<Self> {
        let here: HashSet<PacketRef<'_>> = components(self).collect();
        let mut component = true;
        let revocations = other.retain(|_, packet| {
            if packet.tag != Tag::SIGNATURE {
                component = here.contains(&packet);
                return component;
            }
            Signature::parse(packet.body).is_some_and(|signature| {
                signature.names(self.fingerprint().key_id()) && is_revocation(signature.kind)
            })
        });
        let joined = self.union(&revocations);
        (joined.as_bytes().len() <= limits.cert_bytes.saturating_add(REVOCATION_BYTES))
            .then_some(joined)
    }

    /// The certificate without the bad signatures above the limit, and the verdicts that stay.
    #[must_use]
    pub fn without_noise(&self, limits: &Limits, verdicts: Vec<Verdict>) -> (Self, Vec<Verdict>) {
        let is_bad = |verdict: Verdict| {
            matches!(
                verdict,
                Verdict::Bad | Verdict::Weak | Verdict::Misplaced | Verdict::Malformed
            )
        };
        if verdicts.iter().filter(|&&verdict| is_bad(verdict)).count() <= limits.bad_signatures {
            return (self.clone(), verdicts);
        }
        let (mut number, mut bad) = (0, 0);
        let mut kept = Vec::with_capacity(verdicts.len());
        let cert = self.retain(|_, packet| {
            if packet.tag != Tag::SIGNATURE {
                return true;
            }
            let verdict = verdicts[number];
            number += 1;
            bad += usize::from(is_bad(verdict));
            let stays = !is_bad(verdict) || bad <= limits.bad_signatures;
            if stays {
                kept.push(verdict);
            }
            stays
        });
        (cert, kept)
    }

    /// Whether nothing can have to go: the common case, seen without reading a signature.
    fn is_within(&self, limits: &Limits) -> bool {
        let (mut components, mut signatures) = (0usize, 0usize);
        for packet in self.packets() {
            let fits = packet.body.len() <= limits.packet_bytes
                && (packet.tag != Tag::USER_ID || packet.body.len() <= limits.user_id_bytes)
                && (packet.tag != Tag::USER_ATTRIBUTE || limits.attributes);
            if !fits {
                return false;
            }
            if packet.tag == Tag::SIGNATURE {
                signatures += 1;
            } else {
                components += 1;
            }
        }
        self.as_bytes().len() <= limits.cert_bytes
            && components.saturating_sub(1) <= limits.components
            && signatures <= limits.own_signatures
            && signatures <= limits.foreign_signatures
            && signatures <= limits.signatures_per_signer
    }
}

fn components(cert: &Cert) -> impl Iterator<Item = PacketRef<'_>> {
    cert.packets().filter(|packet| packet.tag != Tag::SIGNATURE)
}

fn good_signatures<'a>(cert: &'a Cert, verdicts: &[Verdict]) -> HashSet<&'a [u8]> {
    signatures(cert)
        .zip(verdicts)
        .filter(|(_, verdict)| **verdict == Verdict::Good)
        .map(|((_, body), _)| body)
        .collect()
}

fn is_revocation(kind: u8) -> bool {
    matches!(kind, kind::KEY_REVOCATION | kind::SUBKEY_REVOCATION | kind::CERTIFICATION_REVOCATION)
}

fn heaviest_first(candidates: &mut [Candidate]) {
    candidates.sort_unstable_by(|a, b| b.weight.cmp(&a.weight).then(a.at.cmp(&b.at)));
}
