//! Whether a certificate is within limits, so that all of it stays.

use crate::cert::Cert;
use crate::classes::{CLASSES, admitted, class_of, essential_bytes};
use crate::limits::bounds::Limits;
use crate::limits::fitting::{Candidate, Fitting, is_attestation};
use crate::limits::makers::must_rank;
use crate::limits::revokers::revokers;
use crate::limits::variants::{further_variants, hint_bytes};
use crate::signature::Signature;
use crate::tag::Tag;
use crate::verdict::Verdict;

impl Cert {
    /// Whether the certificate is certainly within the limits. True for most certificates, and
    /// decided without reading a signature.
    pub(super) fn is_within(&self, verdicts: &[Verdict], limits: &Limits) -> bool {
        let mut verdicts = verdicts.iter();
        let mut counts = [[0usize; CLASSES]; 3];
        let mut others = 0;
        let mut unbound = [0usize; CLASSES];
        let (mut component, mut is_bound) = (0, true);
        let mut hashed: &[u8] = &[];
        let mut has_attested = false;
        let mut close = |component: usize, is_bound: bool| {
            if !is_bound {
                unbound[class_of(component)] += 1;
            }
        };
        for (at, packet) in self.packets().enumerate() {
            let bytes = packet.body.len();
            let fits = bytes <= limits.packet_bytes
                && (packet.tag != Tag::USER_ID || bytes <= limits.user_id_bytes)
                && (packet.tag != Tag::USER_ATTRIBUTE || limits.attributes);
            if !fits && at > 0 {
                return false;
            }
            if packet.tag != Tag::SIGNATURE {
                close(component, is_bound);
                (component, is_bound, others) = (if at == 0 { 0 } else { bytes }, at == 0, 0);
                hashed = &[];
                continue;
            }
            let verdict = verdicts.next().copied().unwrap_or(Verdict::Unchecked);
            let pool = match verdict {
                Verdict::Good => {
                    is_bound |= !is_attestation(packet.body);
                    has_attested |= is_attestation(packet.body);
                    0
                }
                verdict if verdict.is_by_others() => {
                    others += 1;
                    1
                }
                _ => 2,
            };
            // The class is that of the identity. A packet of the first class has one of the first
            // class.
            let essential = match class_of(bytes) {
                0 => bytes,
                _ => Signature::parse(packet.body).map_or(bytes, |s| essential_bytes(&s)),
            };
            let class = class_of(essential.max(component));
            // Nobody has tried whether it is the owner's.
            if verdict == Verdict::Other {
                counts[0][class] += 1;
            }
            counts[pool][class] += 1;
            if verdict != Verdict::Good && bytes > limits.hint_bytes {
                let hints = Signature::parse(packet.body).map_or(0, |s| hint_bytes(&s, bytes));
                if hints > limits.hint_bytes {
                    return false;
                }
            }
            // A signature that may have another packet is looked at. Version 3 may be written as 2,
            // in another place.
            let may_be_variant = !hashed.is_empty() && packet.body.starts_with(hashed)
                || packet.body.first() == Some(&2);
            if limits.variants < usize::MAX && may_be_variant {
                return false;
            }
            hashed = hashed_part(packet.body);
            if others > limits.signatures_per_signer {
                return false;
            }
        }
        close(component, is_bound);
        let fits = |counts: &[usize; CLASSES], limit: usize| {
            counts.iter().enumerate().all(|(class, &count)| count <= admitted(limit, class))
        };
        // Signatures on components that the owner has not bound share one limit, whoever made them.
        let has_unbound = unbound != [0; CLASSES];
        let others: [usize; CLASSES] =
            std::array::from_fn(|class| counts[1][class] + counts[2][class]);
        // The owner's attestation on such a component is one of them, too.
        !(has_attested && has_unbound)
            && fits(&counts[0], limits.own_signatures)
            && fits(&counts[1], limits.foreign_signatures.min(limits.foreign_unranked))
            && fits(&counts[2], limits.bad_signatures)
            && fits(&unbound, limits.components)
            && (!has_unbound || fits(&others, limits.bad_signatures))
    }

    /// Whether nothing of the certificate is dropped, and no signature has to be ranked, whichever
    /// signatures of [`Verdict::Other`] are the owner's.
    pub(super) fn all_stay(&self, parts: &[Fitting<'_>], limits: &Limits) -> bool {
        let candidates = || parts.iter().flat_map(|part| &part.candidates);
        let packets: usize = candidates().map(|candidate| candidate.variants.0.len()).sum();
        if parts.len() + packets < self.packets().len() {
            return false;
        }
        let may_be_own = |verdict| matches!(verdict, Verdict::Good | Verdict::Other);
        if must_rank(parts, limits, &revokers(parts, may_be_own)) {
            return false;
        }
        let fits = |limit: usize, which: &dyn Fn(Verdict) -> bool| {
            let mut counts = [0; CLASSES];
            candidates()
                .filter(|candidate| which(candidate.verdict))
                .for_each(|candidate| counts[candidate.size_class] += 1);
            counts.iter().enumerate().all(|(class, &count)| count <= admitted(limit, class))
        };
        let is_bad = |verdict: Verdict| verdict != Verdict::Good && !verdict.is_by_others();
        let mut unbound = [0; CLASSES];
        for part in parts.iter().filter(|part| !part.is_bound) {
            unbound[class_of(part.packet.body.len())] += 1;
        }
        let components_fit =
            unbound.iter().enumerate().all(|(class, &n)| n <= admitted(limits.components, class));
        let is_stray = |c: &Candidate<'_>| may_be_own(c.verdict) && c.is_attestation();
        components_fit
            && !parts.iter().any(|part| !part.is_bound && part.candidates.iter().any(is_stray))
            && fits(limits.own_signatures, &may_be_own)
            && fits(limits.bad_signatures, &is_bad)
            // Signatures on components that the owner has not bound share one limit, whoever made
            // them.
            && (unbound == [0; CLASSES]
                || fits(limits.bad_signatures, &|verdict| verdict != Verdict::Good))
            && candidates().all(|c| c.verdict == Verdict::Good || c.has_short_hints(limits))
            && candidates().all(|candidate| {
                let essential = candidate.variants.signature().map_or(0, |s| essential_bytes(&s));
                let mut left = further_variants(limits);
                candidate.variants.0.len() == 1
                    || candidate.variants.0.iter().all(|variant| {
                        let class = class_of(variant.body.len().saturating_sub(essential));
                        left[class] = left[class].wrapping_sub(1);
                        left[class] != usize::MAX
                    })
            })
    }
}

/// The hashed part of a signature from version 4 on, or the bytes that variants of a version 3
/// signature share. Empty if the packet is too short.
fn hashed_part(body: &[u8]) -> &[u8] {
    let end = match *body {
        [2 | 3, ..] => Some(7),
        [6, _, _, _, a, b, c, d, ..] => {
            usize::try_from(u32::from_be_bytes([a, b, c, d])).ok().map(|n| n + 8)
        }
        [_, _, _, _, a, b, ..] => Some(usize::from(u16::from_be_bytes([a, b])) + 6),
        _ => None,
    };
    end.and_then(|end| body.get(..end)).unwrap_or_default()
}
