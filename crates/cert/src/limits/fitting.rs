//! A certificate in its parts: components, each with the signatures on it.

use std::collections::HashMap;

use crate::attestation::Attested;
use crate::cert::Cert;
use crate::classes::{class_of, essential_bytes};
use crate::fingerprint::{Fingerprint, KeyId};
use crate::hash::sha256;
use crate::identity::{Variant, Variants};
use crate::limits::bounds::Limits;
use crate::limits::rank::{Pool, Rank};
use crate::packet::PacketRef;
use crate::signature::kind;
use crate::tag::Tag;
use crate::verdict::Verdict;

/// A component that is not too large, with its signatures.
pub(super) struct Fitting<'a> {
    pub(super) at: usize,
    pub(super) packet: PacketRef<'a>,
    /// Whether the owner has signed it. The primary key always is.
    pub(super) is_bound: bool,
    pub(super) candidates: Vec<Candidate<'a>>,
}

impl Fitting<'_> {
    /// Notes which signatures of other keys the owner has attested.
    pub(super) fn attest(&mut self) {
        let own = self.candidates.iter().filter(|candidate| candidate.verdict == Verdict::Good);
        let attested = Attested::by(own.filter_map(|candidate| candidate.variants.signature()));
        for candidate in &mut self.candidates {
            candidate.is_attested = self.is_bound
                && !attested.is_empty()
                && candidate.verdict.is_by_others()
                && attested.names_one(&candidate.variants);
        }
    }
}

/// A signature on a component, with all its packets.
pub(super) struct Candidate<'a> {
    pub(super) variants: Variants<'a>,
    pub(super) verdict: Verdict,
    /// The known key that made it.
    pub(super) by: Option<Issuer>,
    /// The class of worth that its issuer gives it: 1 for one whom the owner has certified, 2 for
    /// another known one, 3 for none.
    pub(super) by_class: u8,
    /// Whether the owner has attested it.
    pub(super) is_attested: bool,
    pub(super) pool: Pool,
    pub(super) rank: Rank,
    pub(super) size_class: usize,
}

impl<'a> Candidate<'a> {
    pub(super) fn new(
        variants: Variants<'a>,
        judged: &HashMap<usize, Verdict>,
        component: usize,
    ) -> Self {
        let verdict = |variant: &Variant<'_>| judged.get(&variant.at).copied();
        let verdicts = || variants.0.iter().filter_map(verdict);
        let verdict = verdicts().find(|&verdict| verdict == Verdict::Good);
        let verdict = verdict.or_else(|| verdicts().next()).unwrap_or(Verdict::Unchecked);
        let signature = variants.signature();
        let bytes = signature.map_or(variants.0[0].body.len(), |s| essential_bytes(&s));
        let id = signature.map_or_else(|| sha256(&[variants.0[0].body]), |s| s.id());
        let rank = Rank::unranked(id);
        let size_class = class_of(bytes.max(component));
        let (by, by_class, is_attested, pool) = (None, rank.class, false, Pool::Bad);
        Self { variants, verdict, by, by_class, is_attested, pool, rank, size_class }
    }

    /// The verdict on a packet of the signature: packets that do not name the key that made it, or
    /// others beside it, are not verified. So nothing that is served in the name of a key was made
    /// by another one.
    pub(super) fn verdict_on(&self, variant: &Variant<'_>, verdict: Verdict) -> Verdict {
        match (verdict, self.by) {
            (Verdict::Certified, Some(by)) if !variant.names_only(by.id) => Verdict::Foreign,
            _ => verdict,
        }
    }

    pub(super) fn is_attestation(&self) -> bool {
        self.variants.signature().is_some_and(|signature| signature.kind == kind::ATTESTATION)
    }

    /// Whether the signature binds its component to the certificate.
    pub(super) fn binds(&self) -> bool {
        self.verdict == Verdict::Good && self.variants.signature().is_some_and(|s| s.binds())
    }
}

/// A known key that made a signature, by the key ID that the signature names.
#[derive(Clone, Copy, Debug)]
pub(super) struct Issuer {
    pub(super) id: KeyId,
    pub(super) fingerprint: Fingerprint,
}

impl Cert {
    /// The components that are not too large, each with its signatures.
    pub(super) fn parts(&self, verdicts: &[Verdict], limits: &Limits) -> Vec<Fitting<'_>> {
        let mut verdicts = verdicts.iter().copied();
        let mut parts: Vec<Fitting<'_>> = Vec::new();
        let mut packets = self.packets().enumerate().peekable();
        while let Some((at, packet)) = packets.next() {
            let bytes = packet.body.len();
            let stays = at == 0
                || bytes <= limits.packet_bytes
                    && (packet.tag != Tag::USER_ID || bytes <= limits.user_id_bytes)
                    && (packet.tag != Tag::USER_ATTRIBUTE || limits.attributes);
            let mut bodies = Vec::new();
            let mut judged: HashMap<usize, Verdict> = HashMap::new();
            while let Some((on, signature)) = packets.next_if(|(_, p)| p.tag == Tag::SIGNATURE) {
                let verdict = verdicts.next().unwrap_or(Verdict::Unchecked);
                if signature.body.len() <= limits.packet_bytes {
                    bodies.push((on, signature.body));
                    judged.insert(on, verdict);
                }
            }
            if !stays {
                continue;
            }
            let component = if at == 0 { 0 } else { bytes };
            let groups = Variants::of(bodies.into_iter()).into_iter();
            let candidates: Vec<_> =
                groups.map(|variants| Candidate::new(variants, &judged, component)).collect();
            let is_bound = at == 0 || candidates.iter().any(Candidate::binds);
            parts.push(Fitting { at, packet, is_bound, candidates });
        }
        parts
    }
}

/// Whether a packet is an attestation, without reading all of it.
pub(super) fn is_attestation(body: &[u8]) -> bool {
    matches!(body, [4..=6, kind::ATTESTATION, ..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attestation::tests::attestation;
    use crate::limits::samples::{OWN, bodies, cert, has, judged, keep, signature, user_id};

    #[test]
    fn packets_above_their_bounds_go_with_the_signatures_on_them() {
        let fits = signature(0x13, 1, OWN, b"12345");
        let long = signature(0x13, 2, OWN, b"123456");
        let whole = cert(&[
            user_id(b"short", vec![fits.clone(), long.clone()]),
            user_id(&[b'u'; 60], vec![fits.clone()]),
            (Tag::USER_ATTRIBUTE, b"photo", vec![fits.clone()]),
        ]);
        let verdicts = vec![Verdict::Good; bodies(&whole).count()];
        let of = |limits: Limits| keep(&whole, &verdicts, &limits);
        assert_eq!(of(Limits::default()), whole);
        let cut = of(Limits { packet_bytes: fits.len(), ..Limits::default() });
        assert_eq!(cut, whole.retain(|_, packet| packet.body.len() <= fits.len()));
        let cut = of(Limits { user_id_bytes: 5, ..Limits::default() });
        assert_eq!(cut, whole.retain(|_, packet| packet.body != [b'u'; 60]));
        let cut = of(Limits { attributes: false, ..Limits::default() });
        assert_eq!(cut, whole.retain(|_, packet| packet.tag != Tag::USER_ATTRIBUTE));
        // The primary key stays, whatever its length.
        assert_eq!(of(Limits { packet_bytes: 0, ..Limits::default() }), cert(&[]));
    }

    #[test]
    fn what_the_owner_attests_stays_before_signatures_of_unknown_keys() {
        let good = signature(0x13, 1, OWN, b"good");
        let flood: Vec<_> = (0..100u8).map(|n| signature(0x10, 1, 7, &[n, 9])).collect();
        let attested = attestation(5, &flood[40..44], b"");
        let signatures = [&flood[..], &[good.clone(), attested.clone()]].concat();
        let whole = cert(&[user_id(b"one", signatures.clone())]);
        let limits = Limits { foreign_signatures: 4, ..Limits::default() };
        let kept = keep(&whole, &judged(&whole, &[good.clone(), attested.clone()]), &limits);
        assert_eq!(bodies(&kept).count(), 6);
        assert!(flood[40..44].iter().all(|body| has(&kept, body)));
        // A forged attestation changes nothing.
        let kept = keep(&whole, &judged(&whole, &[good]), &limits);
        assert!(!flood[40..44].iter().all(|body| has(&kept, body)));
        // An attestation makes no user ID the owner's.
        let alone = cert(&[user_id(b"one", signatures)]);
        let limits = Limits { components: 1, bad_signatures: 4, ..Limits::default() };
        let kept = keep(&alone, &judged(&alone, &[attested]), &limits);
        assert_eq!(bodies(&kept).count(), 4);
    }
}
