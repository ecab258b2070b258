//! The packets of one signature that stay: a few of them, with short hints.

use std::cmp::Reverse;

use crate::cert::Cert;
use crate::classes::{CLASSES, class_of, essential_bytes};
use crate::fingerprint::KeyId;
use crate::identity::{Claim, Variant};
use crate::limits::bounds::Limits;
use crate::limits::fitting::{Candidate, Fitting};
use crate::limits::revokers::Revokers;
use crate::signature::Signature;
use crate::verdict::Verdict;

/// The number of packets of each size class that a signature may have beside its first.
pub(super) fn further_variants(limits: &Limits) -> [usize; CLASSES] {
    std::array::from_fn(|class| limits.variants.saturating_sub(1) >> (3 * class))
}

/// The bytes of a packet beside the identity of its signature.
pub(super) fn hint_bytes(signature: &Signature<'_>, packet_bytes: usize) -> usize {
    packet_bytes.saturating_sub(essential_bytes(signature))
}

impl Variant<'_> {
    fn has_short_hints(&self, limits: &Limits) -> bool {
        self.signature.is_none_or(|s| hint_bytes(&s, self.body.len()) <= limits.hint_bytes)
    }
}

impl Candidate<'_> {
    /// Whether no packet has longer hints than `limits` admit.
    pub(super) fn has_short_hints(&self, limits: &Limits) -> bool {
        self.variants.0.iter().all(|variant| variant.has_short_hints(limits))
    }
}

/// Drops packets with long hints of signatures that the owner did not make, so that the number of
/// signatures bounds the bytes.
pub(super) fn drop_long_hints(parts: &mut [Fitting<'_>], limits: &Limits, id: KeyId) {
    for part in parts {
        for candidate in part.candidates.iter_mut().filter(|c| c.verdict != Verdict::Good) {
            let before = candidate.variants.0.len();
            candidate.variants.0.retain(|variant| variant.has_short_hints(limits));
            let left = candidate.variants.0.len();
            // Only a packet that is gone said that another key may have made it.
            if (1..before).contains(&left)
                && candidate.verdict.is_by_others()
                && candidate.variants.claim(id) == Claim::Own
            {
                candidate.verdict = Verdict::Bad;
            }
        }
        part.candidates.retain(|candidate| !candidate.variants.0.is_empty());
    }
}

impl Cert {
    /// Drops packets of signatures that have too many. The first one has all that is worth keeping:
    /// it says the issuer, and has the newest back signature that verifies.
    pub(super) fn choose_variants(
        &self,
        parts: &mut [Fitting<'_>],
        limits: &Limits,
        revokers: &Revokers,
    ) {
        let id = self.fingerprint().key_id();
        let mut hints = None;
        for part in parts {
            for candidate in part.candidates.iter_mut().filter(|c| c.variants.0.len() > 1) {
                let Some(signature) = candidate.variants.signature() else { continue };
                let hints = match &mut hints {
                    Some(hints) => hints,
                    None => match crate::served::Hints::new(self) {
                        Some(new) => hints.insert(new),
                        None => return,
                    },
                };
                let essential = essential_bytes(&signature);
                let own = candidate.verdict == Verdict::Good;
                let is_foreign = candidate.verdict.is_by_others();
                let is_revocation = is_foreign && candidate.designated(revokers).next().is_some();
                let bytes = hints.digest_bytes(part.packet, &signature);
                let mut sorted = Vec::with_capacity(candidate.variants.0.len());
                for &variant in &candidate.variants.0 {
                    let back = if own { hints.back_signature(part.packet, &variant) } else { None };
                    let fields = variant.signature;
                    let names_own = fields.is_some_and(|s| s.names(id));
                    let names_right = match candidate.by {
                        Some(by) => variant.names_only(by.id),
                        None if own => names_own,
                        // At least one packet must say in the name of which revoker it is, or that
                        // the owner need not have made it.
                        None if is_revocation => revokers.keys().any(|&by| variant.names(by)),
                        None => !is_foreign || !names_own,
                    };
                    let key = (
                        Reverse(back.map_or(0, |(created, _)| u64::from(created) + 1)),
                        !names_right,
                        fields.map(|s| s.digest_prefix) != bytes,
                        // Attestations name what their signer has written.
                        !fields.is_some_and(|s| s.has_exact_value()),
                        variant.body.len(),
                        variant.body,
                    );
                    sorted.push((key, variant));
                }
                sorted.sort_unstable_by(|a, b| a.0.cmp(&b.0));
                let mut left = further_variants(limits);
                let mut first = true;
                let mut chosen: Vec<Variant<'_>> = Vec::new();
                for (_, variant) in sorted {
                    let room = &mut left[class_of(variant.body.len().saturating_sub(essential))];
                    if !std::mem::take(&mut first) {
                        if *room == 0 {
                            continue;
                        }
                        *room -= 1;
                    }
                    chosen.push(variant);
                }
                chosen.sort_unstable_by_key(|variant| variant.at);
                candidate.variants.0 = chosen;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::samples::{
        OWN, bodies, cert, has, judged, keep, signature, user_id, variant,
    };

    #[test]
    fn copies_of_a_signature_take_no_place_from_other_signatures() {
        let good: Vec<_> = (1..=5).map(|time| signature(0x13, time, OWN, b"good")).collect();
        let copies = (0..2000u32)
            .map(|n| variant(0x13, 1, OWN, b"good", &[&[5, 100][..], &n.to_be_bytes()].concat()));
        let flood = cert(&[user_id(b"one", copies.collect())]);
        let whole = cert(&[user_id(b"one", good.clone())]).union(&flood);
        let limits = Limits { own_signatures: 5, variants: 4, ..Limits::default() };
        let kept = keep(&whole, &judged(&whole, &good), &limits);
        assert!(good.iter().all(|body| has(&kept, body)));
        assert_eq!(bodies(&kept).count(), 5 + 3);
    }

    #[test]
    fn long_hints_are_kept_in_signatures_of_the_owner_only() {
        let long = [&[200, 100][..], &[7; 199]].concat();
        let own = variant(0x13, 1, OWN, b"good", &long);
        let others = [7, OWN].map(|signer| variant(0x13, 1, signer, b"other", &long));
        let short = signature(0x13, 2, 7, b"short");
        let all = [&others[..], &[own.clone(), short.clone()]].concat();
        let whole = cert(&[user_id(b"one", all)]);
        let verdicts = judged(&whole, std::slice::from_ref(&own));
        let limits = Limits { hint_bytes: 200, ..Limits::default() };
        let kept = keep(&whole, &verdicts, &limits);
        assert_eq!(kept, cert(&[user_id(b"one", vec![own, short])]));
        let enough = Limits { hint_bytes: 220, ..Limits::default() };
        assert_eq!(keep(&whole, &verdicts, &enough), whole);
    }
}
