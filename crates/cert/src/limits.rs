//! Limits on the certificates of a keyserver, to which anybody may add packets.
//!
//! The packets that are kept are a function of the packets that were offered, in whatever order and
//! parts: `keep(keep(A) ∪ B) = keep(A ∪ B)`, as long as the same issuers are known and the owner
//! has bound the same components and revokers, and attested the same signatures. Limits are
//! therefore counts of signatures, by identity and by size class, and never sums of bytes. Each
//! signature competes only within its pool, in an order that does not depend on the other pools:
//!
//! 1. signatures of the owner: those that name a revoker, then the newest of each kind on each
//!    component, then the others; hard revocations before others;
//! 2. revocations by a revoker whom the owner named, whether the revoker is known here or not;
//! 3. signatures of other keys on components that the owner has bound: those that the newest
//!    attestation of the owner names, then those of keys that this owner certified, then those of
//!    other keys in the store, then those that nobody here can verify, by their SHA-256;
//! 4. signatures in the name of the owner that the owner did not make, or that cannot be checked
//!    here;
//! 5. components that the owner has not bound, and the signatures on them.
//!
//! Dates rank only signatures that were verified; a date after tomorrow counts as the oldest.
//! `docs/decisions/0008-signature-identity.md` has the reasons.

pub(crate) mod bounds;
mod certified;
mod components;
mod fits;
mod fitting;
pub(crate) mod issuers;
mod makers;
mod pools;
mod rank;
mod revokers;
#[cfg(test)]
pub(crate) mod samples;
pub(crate) mod time;
mod variants;

use std::collections::{BTreeMap, BTreeSet};

use crate::cert::Cert;
use crate::identity::Claim;
use crate::limits::bounds::Limits;
use crate::limits::components::drop_unbound;
use crate::limits::fitting::Fitting;
use crate::limits::issuers::Issuers;
use crate::limits::makers::{must_rank, others_exceed};
use crate::limits::pools::{AHEAD_S, assign_pools, choose_others, choose_own};
use crate::limits::revokers::revokers;
use crate::limits::time::TimeLeft;
use crate::limits::variants::drop_long_hints;
use crate::signature::Signature;
use crate::tag::Tag;
use crate::verdict::Verdict;
use crate::verify::tried;
use crate::work::Work;

impl Cert {
    /// The certificate within `limits`, with its verdicts. `None` if all of it stays and no verdict
    /// changes.
    ///
    /// `verdicts` are those on all signatures, in canonical order, none of them
    /// [`Verdict::Unchecked`]. `issuers` are asked only if signatures by other keys have to be
    /// ranked. Those that a known key made then get the verdict [`Verdict::Certified`], as far as
    /// there is `work` left: a quarter of it for finding the keys that they name, and a quarter for
    /// finding out which of these keys the owner has certified. `now` is in seconds since 1970.
    ///
    /// Before anything is dropped, the primary key is tried on each [`Verdict::Other`]. So hints,
    /// which anybody can change, decide nothing here.
    #[must_use]
    pub fn within(
        &self,
        verdicts: &[Verdict],
        limits: &Limits,
        now: u32,
        work: &mut Work,
        issuers: &mut dyn Issuers,
    ) -> Option<(Self, Vec<Verdict>)> {
        self.within_by(verdicts, limits, now, work, issuers, tried)
    }

    fn within_by(
        &self,
        verdicts: &[Verdict],
        limits: &Limits,
        now: u32,
        work: &mut Work,
        issuers: &mut dyn Issuers,
        try_all: impl FnOnce(&Self, &[Verdict]) -> Vec<Verdict>,
    ) -> Option<(Self, Vec<Verdict>)> {
        if self.is_within(verdicts, limits) {
            return None;
        }
        let mut parts = self.parts(verdicts, limits);
        if verdicts.contains(&Verdict::Other) {
            if self.all_stay(&parts, limits) {
                return None;
            }
            parts = self.parts(&try_all(self, verdicts), limits);
        }
        drop_long_hints(&mut parts, limits, self.fingerprint().key_id());
        let revokers = revokers(&parts, |verdict| verdict == Verdict::Good);
        if must_rank(&parts, limits, &revokers) {
            let mut left = TimeLeft::of(*work);
            for candidate in parts.iter_mut().flat_map(|part| &mut part.candidates) {
                if candidate.verdict == Verdict::Certified {
                    // The rank is that of the key that made it.
                    candidate.verdict = Verdict::Foreign;
                }
            }
            self.verify_others(&mut parts, issuers, &mut left);
            if others_exceed(&parts, limits.foreign_signatures) {
                self.rank_certified(&mut parts, issuers, &mut left);
            }
            // What is beyond it is left out, and nothing is refused for it.
            let _ = work.take(left.needed(*work));
        }
        parts.iter_mut().for_each(Fitting::attest);
        self.choose_variants(&mut parts, limits, &revokers);
        let tomorrow = now.saturating_add(AHEAD_S);
        assign_pools(&mut parts, &revokers, tomorrow);
        choose_own(&mut parts, limits);
        drop_unbound(&mut parts, limits);
        // A component may have lost all that bound it.
        parts.iter_mut().for_each(Fitting::attest);
        assign_pools(&mut parts, &revokers, tomorrow);
        choose_others(&mut parts, &revokers, limits);

        let id = self.fingerprint().key_id();
        let mut kept: BTreeMap<usize, Verdict> = BTreeMap::new();
        let mut components = BTreeSet::new();
        for part in &parts {
            components.insert(part.at);
            for candidate in &part.candidates {
                // Verdicts are the same, whether a limit was near or not.
                let is_hidden = candidate.verdict == Verdict::Good
                    && candidate.variants.claim(id) == Claim::Other;
                let verdict = if is_hidden { Verdict::Other } else { candidate.verdict };
                kept.extend(
                    candidate.variants.0.iter().map(|v| (v.at, candidate.verdict_on(v, verdict))),
                );
            }
        }
        let cert = self.retain(|at, packet| {
            if packet.tag == Tag::SIGNATURE {
                kept.contains_key(&at)
            } else {
                components.contains(&at)
            }
        });
        let left: Vec<Verdict> = kept.into_values().collect();
        (cert != *self || left != verdicts).then_some((cert, left))
    }

    /// The certificate without signatures that do not name the primary key.
    #[must_use]
    pub fn without_others(&self) -> Self {
        let id = self.fingerprint().key_id();
        self.retain(|_, packet| {
            packet.tag != Tag::SIGNATURE
                || Signature::parse(packet.body).is_some_and(|signature| signature.names(id))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attestation::tests::attestation;
    use crate::classes::CLASSES;
    use crate::identity::Variants;
    use crate::limits::fitting::is_attestation;
    use crate::limits::samples::{
        NOW, OWN, TestPart, any_cert, any_verdicts, bodies, cert, has, hinted, keep, nobody,
        unbounded, user_id,
    };
    use crate::packet::PacketRef;
    use proptest::prelude::*;

    /// The verdicts of a verifier that tries the primary key on all signatures, or only on those
    /// whose packets do not all name other keys. The owner has made two of five signatures.
    fn hinted_verdicts(cert: &Cert, trying_all: bool) -> Vec<Verdict> {
        let id = cert.fingerprint().key_id();
        let mut verdicts = Vec::new();
        let mut packets = cert.packets().peekable();
        while let Some(_component) = packets.next() {
            let mut bodies = Vec::new();
            while let Some(packet) = packets.next_if(|packet| packet.tag == Tag::SIGNATURE) {
                bodies.push(packet.body);
            }
            let mut judged = vec![Verdict::Malformed; bodies.len()];
            for variants in Variants::of(bodies.into_iter().enumerate()) {
                let Some(signature) = variants.signature() else { continue };
                let verdict = match (variants.claim(id), signature.id()[0] % 5) {
                    (Claim::SignedOther, _) => Verdict::Foreign,
                    (Claim::Other, _) if !trying_all => Verdict::Other,
                    (_, 0 | 1) => Verdict::Good,
                    (Claim::Own, _) => Verdict::Bad,
                    _ => Verdict::Foreign,
                };
                variants.0.iter().for_each(|variant| judged[variant.at] = verdict);
            }
            verdicts.extend(judged);
        }
        verdicts
    }

    /// The certificate within limits, if the primary key is tried only where that is needed.
    fn keep_hinted(cert: &Cert, limits: &Limits) -> (Cert, Vec<Verdict>) {
        let verdicts = hinted_verdicts(cert, false);
        let try_all = |cert: &Cert, _: &[Verdict]| hinted_verdicts(cert, true);
        let kept = cert.within_by(&verdicts, limits, NOW, &mut unbounded(), &mut nobody(), try_all);
        kept.unwrap_or_else(|| (cert.clone(), verdicts))
    }

    fn any_hinted_cert() -> impl Strategy<Value = Cert> {
        let tag = prop::sample::select(vec![6u8, 13, 13, 13, 14]);
        let kind = prop::sample::select(vec![0x10u8, 0x13, 0x18, 0x1f, 0x20, 0x30]);
        let issuers = prop::collection::vec(0u64..4, 0..3);
        let text = prop::collection::vec(0u8..3, 0..3);
        let signature = (kind, text, issuers).prop_map(|(k, x, i)| hinted(k, &x, &i));
        let signatures = prop::collection::vec(signature, 0..8);
        prop::collection::vec((tag, prop::collection::vec(0u8..2, 0..2), signatures), 0..6)
            .prop_map(|parts| {
                let (mut direct, rest): (Vec<_>, Vec<_>) =
                    parts.into_iter().partition(|(tag, ..)| *tag == 6);
                direct.extend(rest);
                let parts: Vec<TestPart<'_>> =
                    direct.iter().map(|(tag, body, s)| (Tag(*tag), &body[..], s.clone())).collect();
                cert(&parts)
            })
    }

    #[test]
    fn a_signature_of_the_owner_that_names_others_is_not_displaced_by_signatures_of_others() {
        let id = |body: &[u8]| Signature::parse(body).unwrap().id()[0] % 5;
        let texts = || (0..200u8).map(|n| vec![n; 2]);
        let own = texts().map(|x| hinted(0x13, &x, &[7])).find(|body| id(body) == 0).unwrap();
        let flood: Vec<_> =
            texts().map(|x| hinted(0x13, &x, &[7])).filter(|body| id(body) > 1).collect();
        let whole = cert(&[user_id(b"one", [&flood[..], std::slice::from_ref(&own)].concat())]);
        let limits = Limits { foreign_signatures: 4, ..Limits::default() };
        let (kept, verdicts) = keep_hinted(&whole, &limits);
        assert!(has(&kept, &own));
        assert_eq!(bodies(&kept).count(), 5);
        assert_eq!(verdicts.iter().filter(|&&verdict| verdict == Verdict::Foreign).count(), 4);
        // Where nothing is dropped, its verdict is the same, until a packet of it names the owner.
        assert!(verdicts.contains(&Verdict::Other));
        let text = texts().find(|x| hinted(0x13, x, &[7]) == own).unwrap();
        let true_hint = cert(&[user_id(b"one", vec![hinted(0x13, &text, &[OWN])])]);
        let (_, verdicts) = keep_hinted(&kept.union(&true_hint), &limits);
        assert_eq!(verdicts.iter().filter(|&&verdict| verdict == Verdict::Good).count(), 2);
    }

    /// A good attestation on each user ID of a certificate, of some signatures on it.
    fn attestations(whole: &Cert, which: u8) -> Cert {
        let mut added = cert(&[]);
        for part in whole.parts(&any_verdicts(whole), &Limits::default()) {
            let signatures = part.candidates.iter().flat_map(|candidate| &candidate.variants.0);
            let chosen = signatures.filter(|variant| {
                variant.signature.is_some_and(|signature| signature.id()[1] % 4 < which % 4)
            });
            let chosen: Vec<Vec<u8>> = chosen.map(|variant| variant.body.to_vec()).collect();
            if part.packet.tag != Tag::USER_ID || chosen.is_empty() {
                continue;
            }
            let mut made = (0..200u8).map(|text| attestation(9, &chosen, &[text, 1]));
            let good = made.find(|body| Signature::parse(body).unwrap().id()[0] % 5 > 2);
            added = added.union(&cert(&[user_id(part.packet.body, vec![good.unwrap()])]));
        }
        added
    }

    /// The attestations that [`attestations`] made.
    fn attested(cert: &Cert) -> Vec<&[u8]> {
        let is_newest = |body: &&[u8]| {
            is_attestation(body) && Signature::parse(body).is_some_and(|s| s.created == 9)
        };
        bodies(cert).filter(is_newest).collect()
    }

    fn any_hint_bytes() -> impl Strategy<Value = usize> {
        prop_oneof![0usize..24, 1024usize..1060]
    }

    fn any_limits() -> impl Strategy<Value = Limits> {
        let counts =
            (0usize..6, 20usize..40, 0usize..6, 0usize..4, 0usize..12, 1usize..4, any_hint_bytes());
        (60usize..4000, 0usize..5, any::<bool>(), counts).prop_map(
            |(packet_bytes, user_id_bytes, attributes, counts)| Limits {
                packet_bytes,
                user_id_bytes,
                attributes,
                components: counts.0,
                own_signatures: counts.1,
                bad_signatures: counts.2,
                signatures_per_signer: counts.3,
                foreign_signatures: counts.4,
                variants: counts.5,
                hint_bytes: counts.6,
                ..Limits::default()
            },
        )
    }

    /// The components with one good signature each.
    fn bindings(cert: &Cert) -> Cert {
        let mut verdicts = any_verdicts(cert).into_iter();
        let mut is_bound = false;
        let keep: Vec<bool> = cert
            .packets()
            .map(|packet| {
                if packet.tag != Tag::SIGNATURE {
                    is_bound = false;
                    return true;
                }
                let is_good =
                    verdicts.next() == Some(Verdict::Good) && !is_attestation(packet.body);
                is_good && !std::mem::replace(&mut is_bound, true)
            })
            .collect();
        cert.retain(|at, packet| packet.tag != Tag::SIGNATURE || keep[at])
    }

    fn bound(cert: &Cert) -> Vec<PacketRef<'_>> {
        let verdicts = any_verdicts(cert);
        let parts = cert.parts(&verdicts, &Limits::default());
        parts.into_iter().filter(|part| part.is_bound).map(|part| part.packet).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, max_global_rejects: 1 << 16, ..ProptestConfig::default() })]

        /// The law for limits: the kept packets do not depend on the order and the parts in which
        /// packets arrive.
        #[test]
        fn what_is_kept_is_a_function_of_what_was_offered(
            a in any_cert(), b in any_cert(), c in any_cert(), limits in any_limits(), which: u8,
        ) {
            let keep = |cert: &Cert| keep(cert, &any_verdicts(cert), &limits);
            // The owner has bound the same components, and attested the same signatures, in all
            // copies.
            let whole = a.union(&b).union(&c);
            let base = bindings(&whole).union(&attestations(&whole, which));
            let [a, b, c] = [a, b, c].map(|cert| cert.union(&base));
            let all = keep(&whole.union(&base));
            let same =
                |cert: &Cert| bound(cert) == bound(&all) && attested(cert) == attested(&all);
            let pairs = [(&a, &b), (&b, &c), (&c, &a)];
            prop_assume!([&a, &b, &c].into_iter().all(|one| same(&keep(one))));
            prop_assume!(pairs.into_iter().all(|(one, other)| same(&keep(&one.union(other)))));
            prop_assert_eq!(&keep(&keep(&keep(&a).union(&b)).union(&c)), &all);
            prop_assert_eq!(&keep(&keep(&keep(&c).union(&a)).union(&b)), &all);
            prop_assert_eq!(&keep(&a.union(&keep(&b.union(&keep(&c))))), &all);
        }

        /// The result is a part of the input, within the limits, and the verdicts belong to it.
        #[test]
        fn the_limits_hold(whole in any_cert(), limits in any_limits()) {
            let verdicts = any_verdicts(&whole);
            let kept = whole.within(&verdicts, &limits, NOW, &mut unbounded(), &mut nobody());
            let Some((cut, left)) = kept else { return Ok(()) };
            prop_assert_eq!(keep(&cut, &left, &limits), cut.clone());
            prop_assert_eq!(cut.union(&whole), whole.clone());
            prop_assert_eq!(&left, &any_verdicts(&cut));
            prop_assert!(cut.packets().skip(1).all(|p| p.body.len() <= limits.packet_bytes));
            prop_assert!(cut.user_ids().all(|body| body.len() <= limits.user_id_bytes));
            let parts = cut.parts(&left, &Limits::default());
            let unbound = parts.iter().filter(|part| !part.is_bound).count();
            prop_assert!(unbound <= limits.components.max(1) * CLASSES);
            let groups = parts.iter().flat_map(|part| &part.candidates);
            let bad = groups.filter(|c| !matches!(c.verdict, Verdict::Good | Verdict::Foreign));
            prop_assert!(bad.count() <= 3 * CLASSES * limits.bad_signatures.max(1));
        }

        /// What is kept does not depend on hints, although they say which signatures are tried.
        #[test]
        fn what_is_kept_is_what_a_verifier_keeps_that_tries_all(
            whole in any_hinted_cert(), limits in any_limits(),
        ) {
            let limits = Limits { own_signatures: limits.own_signatures - 19, ..limits };
            let full = hinted_verdicts(&whole, true);
            let (kept, left) = keep_hinted(&whole, &limits);
            prop_assert_eq!(&kept, &keep(&whole, &full, &limits));
            // Verdicts belong to the packets that are kept. That a signature was tried in vain is
            // remembered.
            let fresh = hinted_verdicts(&kept, false);
            prop_assert_eq!(left.len(), fresh.len());
            for (left, fresh) in left.into_iter().zip(fresh) {
                prop_assert!(left == fresh || (left, fresh) == (Verdict::Foreign, Verdict::Other));
            }
        }

        /// Below the limits nothing is dropped.
        #[test]
        fn nothing_is_dropped_below_the_limits(whole in any_cert()) {
            let few = Limits {
                packet_bytes: 4000,
                user_id_bytes: 2000,
                components: 100,
                own_signatures: 1000,
                bad_signatures: 1000,
                foreign_signatures: 1000,
                signatures_per_signer: 1000,
                variants: 100,
                ..Limits::default()
            };
            prop_assert_eq!(keep(&whole, &any_verdicts(&whole), &few), whole);
        }
    }
}
