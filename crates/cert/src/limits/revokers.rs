//! The designated revokers of a certificate, and the signatures in their name.

use std::collections::{BTreeMap, BTreeSet};

use crate::fingerprint::{Fingerprint, KeyId};
use crate::identity::named;
use crate::limits::fitting::{Candidate, Fitting};
use crate::verdict::Verdict;

/// The designated revokers whom the owner named, by key ID.
pub(super) type Revokers = BTreeMap<KeyId, BTreeSet<Fingerprint>>;

/// The revokers that the signatures with these verdicts name.
pub(super) fn revokers(parts: &[Fitting<'_>], which: impl Fn(Verdict) -> bool) -> Revokers {
    let mut revokers = Revokers::new();
    let good = parts.iter().take(1).flat_map(|part| &part.candidates);
    let good = good.filter(|candidate| which(candidate.verdict));
    for signature in good.filter_map(|candidate| candidate.variants.signature()) {
        for fingerprint in signature.revokers().flat_map(|revoker| revoker.fingerprints()) {
            revokers.entry(fingerprint.key_id()).or_default().insert(fingerprint);
        }
    }
    revokers
}

impl Candidate<'_> {
    /// The named revokers in whose name the signature may be, if it is a revocation by one. That of
    /// a known key with the key ID of a revoker is not.
    pub(super) fn designated<'r>(
        &self,
        revokers: &'r Revokers,
    ) -> impl Iterator<Item = KeyId> + use<'r> {
        let named = if revokers.is_empty() { BTreeSet::new() } else { named(&self.variants) };
        let by = self.by;
        named.into_iter().filter(move |id| {
            let fingerprints = revokers.get(id);
            fingerprints.is_some_and(|all| by.is_none_or(|by| all.contains(&by.fingerprint)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::Variants;
    use crate::limits::bounds::Limits;
    use crate::limits::fitting::Issuer;
    use crate::limits::samples::{bodies, cert, hinted, judged, keep, naming};
    use crate::served::DESIGNATED_MAX;
    use crate::tag::Tag;
    use std::collections::HashMap;

    #[test]
    fn revocations_in_the_name_of_a_revoker_have_a_limit_whatever_else_they_name() {
        let naming = naming([3; 20]);
        let revoker = u64::from_be_bytes([3; 8]);
        let flood = (1..=200u8).map(|n| hinted(0x20, &[n], &[u64::from(n), revoker]));
        let flood = cert(&[(Tag::PUBLIC_KEY, b"", flood.collect())]);
        let whole = cert(&[(Tag::PUBLIC_KEY, b"", vec![naming.clone()])]).union(&flood);
        let limits = Limits { foreign_signatures: 3, ..Limits::default() };
        let kept = keep(&whole, &judged(&whole, &[naming]), &limits);
        assert_eq!(bodies(&kept).count(), 1 + DESIGNATED_MAX);
    }

    #[test]
    fn a_known_key_with_the_key_id_of_a_revoker_does_not_revoke_in_its_name() {
        let revoker = Fingerprint::V4([7; 20]);
        let id = revoker.key_id();
        let body = hinted(0x20, b"text", &[id.0]);
        let variants = Variants::of([(1, &body[..])].into_iter()).remove(0);
        let mut candidate = Candidate::new(variants, &HashMap::new(), 0);
        let revokers: Revokers = [(id, [revoker].into())].into();
        let designated = |candidate: &Candidate<'_>| candidate.designated(&revokers).count();
        assert_eq!(designated(&candidate), 1);
        candidate.by = Some(Issuer { id, fingerprint: revoker });
        assert_eq!(designated(&candidate), 1);
        candidate.by = Some(Issuer { id, fingerprint: Fingerprint::V3([7; 16], id) });
        assert_eq!(designated(&candidate), 0);
    }
}
