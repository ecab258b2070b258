//! Limits on the certificates of a keyserver, to which anybody may add packets.
//!
//! The packets that are kept are a function of the packets that were offered, in whatever order and parts:
//! `keep(keep(A) ∪ B) = keep(A ∪ B)`, as long as the same issuers are known and the owner has bound the same components
//! and revokers, and attested the same signatures. Limits are therefore counts of signatures, by identity and by size class, and never sums of
//! bytes. Each signature competes only within its pool, in an order that does not depend on the other pools:
//!
//! 1. signatures of the owner: those that name a revoker, then the newest of each kind on each component, then the
//!    others; hard revocations before others;
//! 2. revocations by a revoker whom the owner named, whether the revoker is known here or not;
//! 3. signatures of other keys on components that the owner has bound: those that the newest attestation of the owner
//!    names, then those of keys that this owner certified, then those of other keys in the store, then those that nobody
//!    here can verify, by their SHA-256;
//! 4. signatures in the name of the owner that the owner did not make, or that cannot be checked here;
//! 5. components that the owner has not bound, and the signatures on them.
//!
//! Dates rank only signatures that were verified; a date after tomorrow counts as the oldest.
//! `docs/decisions/0008-signature-identity.md` has the reasons.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::Duration;

use crate::attestation::Attested;
use crate::cert::Cert;
use crate::claims::Claims;
use crate::classes::{CLASS_BYTES, CLASSES, admitted, class_of, essential_bytes};
use crate::fingerprint::{Fingerprint, KeyId};
use crate::hash::sha256;
use crate::identity::{Claim, Variant, Variants, named};
use crate::key::Key;
use crate::packet::PacketRef;
use crate::served::DESIGNATED_MAX;
use crate::signature::{Signature, kind};
use crate::tag::Tag;
use crate::verdict::Verdict;
use crate::verify::{CertificationVerifier, KeySetup, tried};

/// Limits on one certificate. The default has no limits.
///
/// A number of signatures or components is that of packets of up to 1 KiB. Of those up to 8 KiB there may be an eighth as
/// many more, of those up to 64 KiB a sixty-fourth, of longer ones a five-hundredth, and at least one of each.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Limits {
    /// Maximum bytes of one packet. The primary key always stays, whatever its length.
    pub packet_bytes: usize,
    /// Maximum bytes of one user ID.
    pub user_id_bytes: usize,
    /// Whether user attributes (photos) are kept.
    pub attributes: bool,
    /// Maximum number of user IDs, attributes, subkeys and unknown components together that the owner has not bound.
    pub components: usize,
    /// Maximum number of signatures that are looked at. If a certificate has more, signatures that do not name the
    /// primary key are left out unseen, and if it still has more, all that was offered.
    pub signatures: usize,
    /// Maximum number of packets of one signature.
    pub variants: usize,
    /// Maximum bytes that a packet has beside the identity of its signature, if the owner did not make it: hints, which
    /// nobody has signed.
    pub hint_bytes: usize,
    /// Maximum number of signatures that the primary key made.
    pub own_signatures: usize,
    /// Maximum number of signatures in the name of the primary key that turn out not to be made by it, or cannot be
    /// checked. The same limit holds for the signatures on components that the owner has not bound.
    pub bad_signatures: usize,
    /// Maximum number of signatures that one known key made on one component. As many revocations may come on top.
    pub signatures_per_signer: usize,
    /// Maximum number of signatures of other keys on the whole certificate.
    pub foreign_signatures: usize,
    /// The number of signatures of other keys above which those of known keys are verified.
    pub foreign_unranked: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            packet_bytes: usize::MAX,
            user_id_bytes: usize::MAX,
            attributes: true,
            components: usize::MAX,
            signatures: usize::MAX,
            variants: usize::MAX,
            hint_bytes: usize::MAX,
            own_signatures: usize::MAX,
            bad_signatures: usize::MAX,
            signatures_per_signer: usize::MAX,
            foreign_signatures: usize::MAX,
            foreign_unranked: usize::MAX,
        }
    }
}

impl Limits {
    /// The bytes of as many signatures as a limit on their number admits, at most.
    ///
    /// ```
    /// # use talaria_cert::Limits;
    /// // 64 signatures of up to 1 KiB, 8 of up to 8 KiB, one of up to 64 KiB, and one of the longest kind.
    /// assert_eq!(Limits::largest(64, 128 << 10), 3 * (64 << 10) + (128 << 10));
    /// ```
    #[must_use]
    pub fn largest(limit: usize, packet_bytes: usize) -> usize {
        CLASS_BYTES
            .into_iter()
            .chain([packet_bytes])
            .enumerate()
            .map(|(class, bytes)| admitted(limit, class).saturating_mul(bytes))
            .fold(0, usize::saturating_add)
    }
}

/// The certificates in which the issuers of signatures on another certificate are looked for: those of a store. What cannot
/// be read counts as not there.
pub trait Issuers {
    /// Whether there is a primary key with a key ID.
    fn has(&mut self, id: KeyId) -> bool;

    /// The bodies of the primary key packets with a key ID.
    fn keys(&mut self, id: KeyId) -> Vec<Vec<u8>>;

    /// The length of the certificate with a fingerprint, in octets.
    fn octets(&mut self, fingerprint: Fingerprint) -> Option<u64>;

    /// What [`Cert::claims_of`] says of the certificate with the fingerprint `certified`, and the key of `owner`.
    fn claims_of(&mut self, owner: &Cert, certified: Fingerprint) -> Option<Claims>;
}

/// Certificates with the verdicts on their signatures.
impl Issuers for Vec<(Cert, Vec<Verdict>)> {
    fn has(&mut self, id: KeyId) -> bool {
        !self.keys(id).is_empty()
    }

    fn keys(&mut self, id: KeyId) -> Vec<Vec<u8>> {
        let named = self.iter().filter(|(known, _)| known.fingerprint().key_id() == id);
        named.filter_map(|(known, _)| Some(known.packets().next()?.body.to_vec())).collect()
    }

    fn octets(&mut self, fingerprint: Fingerprint) -> Option<u64> {
        let (known, _) = self.iter().find(|(known, _)| known.fingerprint() == fingerprint)?;
        Some(known.as_bytes().len() as u64)
    }

    fn claims_of(&mut self, owner: &Cert, certified: Fingerprint) -> Option<Claims> {
        let (known, verdicts) = self.iter().find(|(known, _)| known.fingerprint() == certified)?;
        known.claims_of(owner, verdicts)
    }
}

/// The CPU time that the signatures of other keys on one certificate may take, by the model of [`Cert::cost`]: a quarter of it
/// for finding the keys that they name, and a quarter for finding out which of these keys the owner has certified. Signatures
/// beyond it are not verified.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TimeForOthers {
    /// The time that they may take.
    pub allowed: Duration,
    /// The time that they have taken, or would have taken if more had been allowed: more than that if any of them were left
    /// out.
    pub needed: Duration,
}

impl TimeForOthers {
    /// Without a limit.
    pub const UNBOUNDED: Self = Self::of(Duration::MAX);

    /// The allowed time, of which nothing is taken yet.
    #[must_use]
    pub const fn of(allowed: Duration) -> Self {
        Self { allowed, needed: Duration::ZERO }
    }

    /// The parts of the allowed time.
    fn left(self) -> TimeLeft {
        let allowed = u64::try_from(self.allowed.as_nanos()).unwrap_or(u64::MAX);
        let part = |quarters| if allowed == u64::MAX { allowed } else { allowed / 4 * quarters };
        TimeLeft {
            finding_ns: part(1),
            verifying_ns: part(2),
            ranking_ns: part(1),
            needed_ns: 0,
            is_cut: false,
        }
    }

    fn take(&mut self, left: &TimeLeft) {
        let needed = Duration::from_nanos(left.needed_ns);
        // The parts are not for each other, so the whole may be enough for less than all.
        self.needed =
            if left.is_cut { needed.max(self.allowed + Duration::from_nanos(1)) } else { needed };
    }
}

/// What is left of the time for the signatures of other keys.
struct TimeLeft {
    /// For finding keys.
    finding_ns: u64,
    /// For verifying the signatures.
    verifying_ns: u64,
    /// For verifying what the owner has signed on the certificates of their issuers.
    ranking_ns: u64,
    needed_ns: u64,
    /// Whether it was not enough.
    is_cut: bool,
}

impl TimeLeft {
    /// Takes time from a part. False if nothing was left of it.
    fn take(&mut self, part: impl FnOnce(&mut Self) -> &mut u64, cost_ns: u64) -> bool {
        let left = part(self);
        let had_some = *left > 0;
        *left = left.saturating_sub(cost_ns);
        self.is_cut |= !had_some;
        had_some
    }
}

/// The time of [`Cert::certified`].
const CERTIFIED: TimeLeft = TimeLeft {
    finding_ns: 100_000_000,
    verifying_ns: 200_000_000,
    ranking_ns: 500_000_000,
    needed_ns: 0,
    is_cut: false,
};

/// To look for a key takes the first time, and the second one more for each that is found.
const LOOK_UP_NS: u64 = 10_000;
const FOUND_NS: u64 = 40_000;

/// To read a certificate takes as much for each octet.
const OCTET_NS: u64 = 2;

/// Seconds that a date may be ahead of the clock: one day.
const AHEAD_S: u32 = 86_400;

/// The number of packets of each size class that a signature may have beside its first.
fn further_variants(limits: &Limits) -> [usize; CLASSES] {
    std::array::from_fn(|class| limits.variants.saturating_sub(1) >> (3 * class))
}

/// The pool in which a signature competes for its place.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Pool {
    Own,
    Designated,
    Foreign,
    Bad,
    /// On a component that the owner has not bound.
    Stray,
}

/// The rank of a signature in its pool: the smallest stay. The parts that are not used in a pool are 0.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Rank {
    /// The class of worth.
    class: u8,
    /// The number of better signatures of the same kind, on the same component and by the same key.
    behind: usize,
    /// Everything but hard revocations.
    is_soft: bool,
    /// Verified signatures only; those dated after tomorrow count as the oldest.
    created: Reverse<u32>,
    /// SHA-256 of the component, for strays, so that a component goes as a whole.
    component: [u8; 32],
    id: [u8; 32],
}

impl Rank {
    /// The rank of a signature of which nothing but its identity is known.
    fn unranked(id: [u8; 32]) -> Self {
        Self { class: 3, behind: 0, is_soft: true, created: Reverse(0), component: [0; 32], id }
    }
}

/// A known key that made a signature, by the key ID that the signature names.
#[derive(Clone, Copy, Debug)]
struct Issuer {
    id: KeyId,
    fingerprint: Fingerprint,
}

/// A signature on a component, with all its packets.
struct Candidate<'a> {
    variants: Variants<'a>,
    verdict: Verdict,
    /// The known key that made it.
    by: Option<Issuer>,
    /// The class of worth that its issuer gives it: 1 for one whom the owner has certified, 2 for another known one, 3 for
    /// none.
    by_class: u8,
    /// Whether the owner has attested it.
    is_attested: bool,
    pool: Pool,
    rank: Rank,
    size_class: usize,
}

/// A component that is not too large, with its signatures.
struct Part<'a> {
    at: usize,
    packet: PacketRef<'a>,
    /// Whether the owner has signed it. The primary key always is.
    is_bound: bool,
    candidates: Vec<Candidate<'a>>,
}

impl Part<'_> {
    /// Notes which signatures of other keys the owner has attested.
    fn attest(&mut self) {
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

/// A known issuer, prepared for verification.
struct PreparedIssuer {
    /// The body of its primary key packet.
    body: Vec<u8>,
    fingerprint: Fingerprint,
    /// The cost of one signature.
    cost_ns: u64,
    setup: KeySetup,
}

impl Cert {
    /// The certificate within `limits`, with its verdicts. `None` if all of it stays and no verdict changes.
    ///
    /// `verdicts` are those on all signatures, in canonical order, none of them [`Verdict::Unchecked`]. `issuers` are
    /// asked only if signatures by other keys have to be ranked. Those that a known key made then get the verdict
    /// [`Verdict::Certified`], as far as there is `time`. `now` is in seconds since 1970.
    ///
    /// Before anything is dropped, the primary key is tried on each [`Verdict::Other`]. So hints, which anybody can
    /// change, decide nothing here.
    #[must_use]
    pub fn within(
        &self,
        verdicts: &[Verdict],
        limits: &Limits,
        now: u32,
        time: &mut TimeForOthers,
        issuers: &mut dyn Issuers,
    ) -> Option<(Self, Vec<Verdict>)> {
        self.within_by(verdicts, limits, now, time, issuers, tried)
    }

    fn within_by(
        &self,
        verdicts: &[Verdict],
        limits: &Limits,
        now: u32,
        time: &mut TimeForOthers,
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
            let mut left = time.left();
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
            time.take(&left);
        }
        parts.iter_mut().for_each(Part::attest);
        self.choose_variants(&mut parts, limits, &revokers);
        let tomorrow = now.saturating_add(AHEAD_S);
        assign_pools(&mut parts, &revokers, tomorrow);
        choose_own(&mut parts, limits);
        drop_unbound(&mut parts, limits);
        // A component may have lost all that bound it.
        parts.iter_mut().for_each(Part::attest);
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

    /// The verdicts, with [`Verdict::Certified`] for those signatures of other keys, on components that the owner has
    /// signed, that one of the `issuers` made, as was verified. One that has this verdict already, and names its issuer in the
    /// octets that are signed, keeps it if there is such a key. If there are more signatures of other keys than `unranked`
    /// admits, as [`Limits`] count, those of keys that the owner has certified get [`Verdict::Mutual`].
    ///
    /// `verdicts` are those on all signatures, in canonical order. The cost is that of verifying each signature that does
    /// not have the verdict, and at most 0.3 s by the model of [`Self::cost`]: a few thousand usual signatures. Signatures
    /// beyond it do not get the verdict. To find those of keys that the owner has certified may take 0.5 s more.
    #[must_use]
    pub fn certified(
        &self,
        verdicts: &[Verdict],
        unranked: usize,
        issuers: &mut dyn Issuers,
    ) -> Vec<Verdict> {
        let mut parts = self.parts(verdicts, &Limits::default());
        parts.retain(|part| part.is_bound);
        let certified = parts.iter_mut().flat_map(|part| &mut part.candidates);
        for candidate in certified.filter(|candidate| candidate.verdict == Verdict::Certified) {
            let issuer = candidate.variants.signature().and_then(|s| s.signed_issuer);
            if !issuer.is_some_and(|id| issuers.has(id)) {
                candidate.verdict = Verdict::Foreign;
            }
        }
        let mut left = CERTIFIED;
        self.verify_others(&mut parts, issuers, &mut left);
        if others_exceed(&parts, unranked) {
            self.rank_certified(&mut parts, issuers, &mut left);
        }
        let mut judged: HashMap<usize, Verdict> = HashMap::new();
        for candidate in parts.iter().flat_map(|part| &part.candidates) {
            let verdict =
                if candidate.by_class == 1 { Verdict::Mutual } else { Verdict::Certified };
            let right = candidate.variants.0.iter().filter(|variant| {
                candidate.verdict == Verdict::Certified
                    && candidate.verdict_on(variant, Verdict::Certified) == Verdict::Certified
            });
            judged.extend(right.map(|variant| (variant.at, verdict)));
        }
        let signatures = self.packets().enumerate().filter(|(_, p)| p.tag == Tag::SIGNATURE);
        let judge = |((at, _), &verdict)| match verdict {
            _ if judged.contains_key(&at) => judged[&at],
            Verdict::Certified => Verdict::Foreign,
            other => other,
        };
        signatures.zip(verdicts).map(judge).collect()
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

    /// Whether the certificate is certainly within the limits. True for most certificates, and decided without reading
    /// a signature.
    fn is_within(&self, verdicts: &[Verdict], limits: &Limits) -> bool {
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
            // The class is that of the identity. A packet of the first class has one of the first class.
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
            // A signature that may have another packet is looked at. Version 3 may be written as 2, in another place.
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

    /// Whether nothing of the certificate is dropped, and no signature has to be ranked, whichever signatures of
    /// [`Verdict::Other`] are the owner's.
    fn all_stay(&self, parts: &[Part<'_>], limits: &Limits) -> bool {
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
            // Signatures on components that the owner has not bound share one limit, whoever made them.
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

    /// The components that are not too large, each with its signatures.
    fn parts(&self, verdicts: &[Verdict], limits: &Limits) -> Vec<Part<'_>> {
        let mut verdicts = verdicts.iter().copied();
        let mut parts: Vec<Part<'_>> = Vec::new();
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
            parts.push(Part { at, packet, is_bound, candidates });
        }
        parts
    }

    /// Finds the signatures that known keys made, as far as there is time, beside those that were verified. Keys come in the
    /// order of what all signatures in their name cost together, so a flood in the name of some keys does not keep signatures of
    /// others from being verified.
    fn verify_others(
        &self,
        parts: &mut [Part<'_>],
        issuers: &mut dyn Issuers,
        left: &mut TimeLeft,
    ) {
        let Some(mut certified) = CertificationVerifier::new(self) else { return };
        let mut claims: Vec<(BTreeSet<KeyId>, usize, usize)> = Vec::new();
        for (at, part) in parts.iter_mut().enumerate() {
            for (number, candidate) in part.candidates.iter_mut().enumerate() {
                if candidate.verdict.is_by_others() && candidate.verdict != Verdict::Certified {
                    candidate.verdict = Verdict::Foreign;
                    claims.push((named(&candidate.variants), at, number));
                }
            }
        }
        claims.sort_by_key(|(ids, ..)| ids.len());
        let mut in_name_of: HashMap<KeyId, Vec<usize>> = HashMap::new();
        for (number, (ids, ..)) in claims.iter().enumerate() {
            for id in ids {
                in_name_of.entry(*id).or_default().push(number);
            }
        }
        let mut known: Vec<(u64, Fingerprint, KeyId, PreparedIssuer)> = Vec::new();
        let mut looked_for: HashSet<KeyId> = HashSet::new();
        for id in claims.iter().flat_map(|(ids, ..)| ids) {
            if !looked_for.insert(*id) {
                continue;
            }
            if left.finding_ns == 0 {
                left.is_cut = true;
                break;
            }
            let found = issuers.keys(*id).into_iter().filter_map(PreparedIssuer::new);
            let before = known.len();
            let number = in_name_of[id].len() as u64;
            known.extend(found.map(|issuer| {
                (issuer.cost_ns.saturating_mul(number), issuer.fingerprint, *id, issuer)
            }));
            let cost_ns = LOOK_UP_NS + FOUND_NS * (known.len() - before) as u64;
            left.take(|left| &mut left.finding_ns, cost_ns);
            left.needed_ns = left.needed_ns.saturating_add(cost_ns);
        }
        known.sort_by_key(|&(cost_ns, fingerprint, ..)| (cost_ns, fingerprint));
        for (cost_ns, fingerprint, id, issuer) in &known {
            left.needed_ns = left.needed_ns.saturating_add(*cost_ns);
            let Some(key) = issuer.key() else { continue };
            for (_, at, number) in in_name_of[id].iter().map(|&number| &claims[number]) {
                let part = &mut parts[*at];
                let candidate = &mut part.candidates[*number];
                if candidate.by.is_some() {
                    continue;
                }
                let Some(signature) = candidate.variants.signature() else { continue };
                if !left.take(|left| &mut left.verifying_ns, issuer.cost_ns) {
                    break;
                }
                let value = signature.value();
                let signature = Signature { numbers: &value, ..signature };
                if certified.made(&key, &issuer.setup, part.packet, &signature) {
                    candidate.by = Some(Issuer { id: *id, fingerprint: *fingerprint });
                    candidate.verdict = Verdict::Certified;
                    candidate.by_class = 2;
                    candidate.rank.component = sha256(&[&fingerprint.to_stored()]);
                }
            }
        }
    }

    /// Finds the verified signatures of keys that the owner has certified, as far as there is time. The shortest certificates are
    /// read first. Of these, those with certifications of the owner that were verified come first, then those with the fewest
    /// that need not be genuine.
    fn rank_certified(
        &self,
        parts: &mut [Part<'_>],
        issuers: &mut dyn Issuers,
        left: &mut TimeLeft,
    ) {
        let owner = self.packets().next().map(Key::parse);
        let Some(Ok(owner)) = owner else { return };
        let mut by_id: HashMap<KeyId, Option<Fingerprint>> = HashMap::new();
        let mut made_by: BTreeMap<Fingerprint, Vec<(usize, usize)>> = BTreeMap::new();
        for (at, part) in parts.iter().enumerate() {
            for (number, candidate) in part.candidates.iter().enumerate() {
                if candidate.verdict != Verdict::Certified {
                    continue;
                }
                let signed = candidate.variants.signature().and_then(|s| s.signed_issuer);
                let fingerprint = candidate.by.map(|by| by.fingerprint).or_else(|| {
                    *by_id.entry(signed?).or_insert_with_key(|&id| {
                        let key = issuers.keys(id).into_iter().find_map(PreparedIssuer::new);
                        Some(key?.fingerprint)
                    })
                });
                if let Some(fingerprint) = fingerprint {
                    made_by.entry(fingerprint).or_default().push((at, number));
                }
            }
        }
        let mut sorted: Vec<_> = made_by
            .into_iter()
            .map(|(by, places)| (issuers.octets(by).unwrap_or(0), by, places))
            .collect();
        sorted.sort_unstable();
        let mut claims: Vec<(Claims, &[(usize, usize)])> = Vec::new();
        for (octets, fingerprint, places) in &sorted {
            let cost_ns = LOOK_UP_NS + FOUND_NS + OCTET_NS * octets;
            if !left.take(|left| &mut left.ranking_ns, cost_ns) {
                break;
            }
            left.needed_ns = left.needed_ns.saturating_add(cost_ns);
            let found = issuers.claims_of(self, *fingerprint);
            claims.extend(found.map(|claims| (claims, &places[..])));
        }
        claims.sort_by_key(|(claims, _)| (!claims.has_verified(), claims.count()));
        let setup = KeySetup::default();
        for (claims, places) in claims {
            let cost_ns = owner.verification_ns().saturating_mul(claims.count() as u64);
            left.needed_ns = left.needed_ns.saturating_add(cost_ns);
            if !left.take(|left| &mut left.ranking_ns, cost_ns) {
                break;
            }
            if claims.is_one_by(&owner, &setup) {
                for &(at, number) in places {
                    parts[at].candidates[number].by_class = 1;
                }
            }
        }
    }

    /// Drops packets of signatures that have too many. The first one has all that is worth keeping: it says the
    /// issuer, and has the newest back signature that verifies.
    fn choose_variants(&self, parts: &mut [Part<'_>], limits: &Limits, revokers: &Revokers) {
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
                let octets = hints.digest_octets(part.packet, &signature);
                let mut sorted = Vec::with_capacity(candidate.variants.0.len());
                for &variant in &candidate.variants.0 {
                    let back = if own { hints.back_signature(part.packet, &variant) } else { None };
                    let fields = variant.signature;
                    let names_own = fields.is_some_and(|s| s.names(id));
                    let names_right = match candidate.by {
                        Some(by) => variant.names_only(by.id),
                        None if own => names_own,
                        // At least one packet must say in the name of which revoker it is, or that the owner need not have made it.
                        None if is_revocation => revokers.keys().any(|&by| variant.names(by)),
                        None => !is_foreign || !names_own,
                    };
                    let key = (
                        Reverse(back.map_or(0, |(created, _)| u64::from(created) + 1)),
                        !names_right,
                        fields.map(|s| s.digest_prefix) != octets,
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

impl<'a> Candidate<'a> {
    fn new(variants: Variants<'a>, judged: &HashMap<usize, Verdict>, component: usize) -> Self {
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

    /// The verdict on a packet of the signature: packets that do not name the key that made it, or others beside it, are not
    /// verified. So nothing that is served in the name of a key was made by another one.
    fn verdict_on(&self, variant: &Variant<'_>, verdict: Verdict) -> Verdict {
        match (verdict, self.by) {
            (Verdict::Certified, Some(by)) if !variant.names_only(by.id) => Verdict::Foreign,
            _ => verdict,
        }
    }

    /// Whether no packet has longer hints than `limits` admit.
    fn has_short_hints(&self, limits: &Limits) -> bool {
        self.variants.0.iter().all(|variant| variant.has_short_hints(limits))
    }

    /// The named revokers in whose name the signature may be, if it is a revocation by one. That of a known key with the key
    /// ID of a revoker is not.
    fn designated<'r>(&self, revokers: &'r Revokers) -> impl Iterator<Item = KeyId> + use<'r> {
        let named = if revokers.is_empty() { BTreeSet::new() } else { named(&self.variants) };
        let by = self.by;
        named.into_iter().filter(move |id| {
            let fingerprints = revokers.get(id);
            fingerprints.is_some_and(|all| by.is_none_or(|by| all.contains(&by.fingerprint)))
        })
    }

    fn is_attestation(&self) -> bool {
        self.variants.signature().is_some_and(|signature| signature.kind == kind::ATTESTATION)
    }

    /// Whether the signature binds its component to the certificate.
    fn binds(&self) -> bool {
        self.verdict == Verdict::Good && self.variants.signature().is_some_and(|s| s.binds())
    }
}

impl PreparedIssuer {
    fn new(body: Vec<u8>) -> Option<Self> {
        let key = Key::parse(PacketRef { tag: Tag::PUBLIC_KEY, body: &body }).ok()?;
        let (fingerprint, cost_ns) = (key.fingerprint(), key.verification_ns());
        Some(Self { body, fingerprint, cost_ns, setup: KeySetup::default() })
    }

    fn key(&self) -> Option<Key<'_>> {
        Key::parse(PacketRef { tag: Tag::PUBLIC_KEY, body: &self.body }).ok()
    }
}

/// The designated revokers whom the owner named, by key ID.
type Revokers = BTreeMap<KeyId, BTreeSet<Fingerprint>>;

/// The revokers that the signatures with these verdicts name.
fn revokers(parts: &[Part<'_>], which: impl Fn(Verdict) -> bool) -> Revokers {
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

/// Whether it matters which of the signatures of other keys can be verified.
fn must_rank(parts: &[Part<'_>], limits: &Limits, revokers: &Revokers) -> bool {
    for part in parts {
        let mut by: HashMap<KeyId, usize> = HashMap::new();
        for candidate in part.candidates.iter().filter(|c| c.verdict.is_by_others()) {
            if candidate.variants.0.len() > limits.variants {
                return true;
            }
            for issuer in named(&candidate.variants) {
                let of_issuer = by.entry(issuer).or_default();
                *of_issuer += 1;
                let is_revoker = revokers.contains_key(&issuer);
                if *of_issuer > limits.signatures_per_signer
                    || is_revoker && *of_issuer > DESIGNATED_MAX
                {
                    return true;
                }
            }
        }
    }
    others_exceed(parts, limits.foreign_signatures.min(limits.foreign_unranked))
}

/// Whether there are more signatures of other keys than a limit admits, so that their order matters.
fn others_exceed(parts: &[Part<'_>], limit: usize) -> bool {
    let mut counts = [0; CLASSES];
    let candidates = parts.iter().flat_map(|part| &part.candidates);
    for candidate in candidates.filter(|candidate| candidate.verdict.is_by_others()) {
        counts[candidate.size_class] += 1;
    }
    counts.iter().enumerate().any(|(class, &count)| count > admitted(limit, class))
}

/// Drops packets with long hints of signatures that the owner did not make, so that the number of signatures bounds the
/// bytes.
fn drop_long_hints(parts: &mut [Part<'_>], limits: &Limits, id: KeyId) {
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

/// Drops components that the owner has not bound, above their limit: the smallest SHA-256 stay.
fn drop_unbound(parts: &mut Vec<Part<'_>>, limits: &Limits) {
    let mut unbound: Vec<(usize, [u8; 32], usize)> = parts
        .iter()
        .filter(|part| !part.is_bound)
        .map(|part| (class_of(part.packet.body.len()), name_of(part.packet), part.at))
        .collect();
    unbound.sort_unstable();
    let mut counts = [0; CLASSES];
    let mut gone = BTreeSet::new();
    for (class, _, at) in unbound {
        counts[class] += 1;
        if counts[class] > admitted(limits.components, class) {
            gone.insert(at);
        }
    }
    parts.retain(|part| !gone.contains(&part.at));
}

fn name_of(component: PacketRef<'_>) -> [u8; 32] {
    sha256(&[&[component.tag.0], component.body])
}

/// Decides where each signature competes, and its rank there, except for the number of better ones of its kind.
fn assign_pools(parts: &mut [Part<'_>], revokers: &Revokers, tomorrow: u32) {
    for part in parts {
        let component = name_of(part.packet);
        for candidate in &mut part.candidates {
            let Some(signature) = candidate.variants.signature() else {
                candidate.pool = if part.is_bound { Pool::Bad } else { Pool::Stray };
                candidate.rank.component = if part.is_bound { [0; 32] } else { component };
                continue;
            };
            let created = if signature.created > tomorrow { 0 } else { signature.created };
            let is_hard = is_revocation(signature.kind) && signature.is_hard();
            let rank = &mut candidate.rank;
            match candidate.verdict {
                Verdict::Good if part.is_bound => {
                    candidate.pool = Pool::Own;
                    let names_revoker = signature.revokers().next().is_some();
                    rank.class = u8::from(!names_revoker);
                    (rank.is_soft, rank.created) = (!is_hard, Reverse(created));
                }
                _ if !part.is_bound => {
                    candidate.pool = Pool::Stray;
                    *rank = Rank { class: 0, component, ..Rank::unranked(rank.id) };
                }
                verdict if verdict.is_by_others() => {
                    candidate.pool = Pool::Foreign;
                    let is_key_revocation = part.at == 0 && signature.kind == kind::KEY_REVOCATION;
                    if is_key_revocation && candidate.designated(revokers).next().is_some() {
                        candidate.pool = Pool::Designated;
                    }
                    let rank = &mut candidate.rank;
                    if candidate.by.is_some() {
                        (rank.is_soft, rank.created) = (!is_hard, Reverse(created));
                    }
                    rank.class = if candidate.is_attested { 0 } else { candidate.by_class };
                }
                verdict => {
                    candidate.pool = Pool::Bad;
                    rank.class = u8::from(verdict != Verdict::Unsupported);
                }
            }
        }
    }
}

/// Chooses the signatures of the owner that stay, and with them the components that the owner has bound.
fn choose_own(parts: &mut [Part<'_>], limits: &Limits) {
    count_better(parts, &Revokers::new());
    let mut gone = BTreeSet::new();
    drop_above(parts, Pool::Own, limits.own_signatures, &mut gone);
    drop_all(parts, &gone);
    for part in parts.iter_mut().filter(|part| part.at > 0) {
        part.is_bound = part.candidates.iter().any(|c| c.pool == Pool::Own && c.binds());
    }
}

/// Chooses the signatures that stay in the other pools.
fn choose_others(parts: &mut [Part<'_>], revokers: &Revokers, limits: &Limits) {
    count_better(parts, revokers);
    let mut gone = BTreeSet::new();
    // The first revocations of each named revoker stay. Others that a known key made compete with all other signatures, and the
    // rest is dropped, so that whoever has the key of the revoker does not have to try many.
    for (at, part) in parts.iter_mut().enumerate() {
        for (number, candidate) in part.candidates.iter_mut().enumerate() {
            if candidate.pool == Pool::Designated && candidate.rank.behind >= DESIGNATED_MAX {
                candidate.pool = Pool::Foreign;
                if candidate.by.is_none() {
                    gone.insert((at, number));
                }
            }
            if candidate.pool == Pool::Foreign
                && candidate.by.is_some()
                && candidate.rank.behind >= limits.signatures_per_signer
            {
                gone.insert((at, number));
            }
        }
    }
    drop_above(parts, Pool::Foreign, limits.foreign_signatures, &mut gone);
    drop_above(parts, Pool::Bad, limits.bad_signatures, &mut gone);
    drop_above(parts, Pool::Stray, limits.bad_signatures, &mut gone);
    drop_all(parts, &gone);
}

/// The places of signatures: the number of the part, and the number in it.
type Places = BTreeSet<(usize, usize)>;

/// Adds to `gone` the signatures of a pool that are above its limit in their size class.
fn drop_above(parts: &[Part<'_>], pool: Pool, limit: usize, gone: &mut Places) {
    let mut ranked: [Vec<(Rank, usize, usize)>; CLASSES * CLASSES] = Default::default();
    for (at, part) in parts.iter().enumerate() {
        for (number, candidate) in part.candidates.iter().enumerate() {
            if candidate.pool == pool && !gone.contains(&(at, number)) {
                // Components that the owner has not bound compete by size, too.
                let component = match pool {
                    Pool::Stray => class_of(part.packet.body.len()),
                    _ => 0,
                };
                let class = CLASSES * component + candidate.size_class;
                ranked[class].push((candidate.rank, at, number));
            }
        }
    }
    for (class, mut ranked) in ranked.into_iter().enumerate() {
        ranked.sort_unstable();
        let over = ranked.into_iter().skip(admitted(limit, class % CLASSES));
        gone.extend(over.map(|(_, at, number)| (at, number)));
    }
}

fn drop_all(parts: &mut [Part<'_>], gone: &Places) {
    for (at, part) in parts.iter_mut().enumerate() {
        let mut number = 0;
        part.candidates.retain(|_| {
            number += 1;
            !gone.contains(&(at, number - 1))
        });
    }
}

/// Counts for each verified signature those that are better, of the same kind and size, on the same component and by the
/// same key; and for each revocation by a named revoker those in the same name, where that number is the smallest.
fn count_better(parts: &mut [Part<'_>], revokers: &Revokers) {
    for part in parts {
        let mut groups: BTreeMap<_, Vec<usize>> = BTreeMap::new();
        for (number, candidate) in part.candidates.iter_mut().enumerate() {
            candidate.rank.behind = 0;
            let Some(signature) = candidate.variants.signature() else { continue };
            let kind = match signature.kind {
                kind if kind::CERTIFICATION.contains(&kind) => *kind::CERTIFICATION.start(),
                kind => kind,
            };
            let Rank { class, component, .. } = candidate.rank;
            let size = candidate.size_class;
            match candidate.pool {
                Pool::Designated => {
                    for by in candidate.designated(revokers) {
                        let group = (size, 0, [0; 32], kind, Some(by));
                        groups.entry(group).or_default().push(number);
                    }
                }
                Pool::Foreign if candidate.by.is_none() => {}
                Pool::Own | Pool::Foreign => {
                    let group = (size, class, component, kind, None);
                    groups.entry(group).or_default().push(number);
                }
                Pool::Bad | Pool::Stray => {}
            }
        }
        let mut behind: HashMap<usize, usize> = HashMap::new();
        for mut group in groups.into_values() {
            group.sort_unstable_by_key(|&number| part.candidates[number].rank);
            for (place, number) in group.into_iter().enumerate() {
                behind
                    .entry(number)
                    .and_modify(|least| *least = place.min(*least))
                    .or_insert(place);
            }
        }
        for (number, behind) in behind {
            part.candidates[number].rank.behind = behind;
        }
    }
}

/// The bytes of a packet beside the identity of its signature.
fn hint_bytes(signature: &Signature<'_>, packet_bytes: usize) -> usize {
    packet_bytes.saturating_sub(essential_bytes(signature))
}

impl Variant<'_> {
    fn has_short_hints(&self, limits: &Limits) -> bool {
        self.signature.is_none_or(|s| hint_bytes(&s, self.body.len()) <= limits.hint_bytes)
    }
}

/// The hashed part of a signature from version 4 on, or the octets that variants of a version 3 signature share.
/// Empty if the packet is too short.
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

/// Whether a packet is an attestation, without reading all of it.
fn is_attestation(body: &[u8]) -> bool {
    matches!(body, [4..=6, kind::ATTESTATION, ..])
}

pub(crate) fn is_revocation(kind: u8) -> bool {
    matches!(kind, kind::KEY_REVOCATION | kind::SUBKEY_REVOCATION | kind::CERTIFICATION_REVOCATION)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::attestation::tests::attestation;
    use crate::packet;
    use proptest::prelude::*;

    /// The smallest version 4 RSA key.
    const PRIMARY: &[u8] = &[4, 0, 0, 0, 1, 1, 0, 9, 1, 1, 0, 2, 3];

    /// The signer number of the primary key. Other numbers are other keys.
    pub(crate) const OWN: u64 = 0;

    const NOW: u32 = 1_000_000;

    /// A component with the signatures on it.
    pub(crate) type TestPart<'a> = (Tag, &'a [u8], Vec<Vec<u8>>);

    pub(crate) fn cert(parts: &[TestPart<'_>]) -> Cert {
        let mut raw = Vec::new();
        packet::write(&mut raw, Tag::PUBLIC_KEY, PRIMARY);
        for (tag, body, signatures) in parts {
            if *tag != Tag::PUBLIC_KEY {
                packet::write(&mut raw, *tag, body);
            }
            signatures.iter().for_each(|body| packet::write(&mut raw, Tag::SIGNATURE, body));
        }
        Cert::parse(&raw).unwrap()
    }

    /// A version 4 signature with a signed issuer, and with `text` as its number.
    pub(crate) fn signature(kind: u8, created: u32, signer: u64, text: &[u8]) -> Vec<u8> {
        variant(kind, created, signer, text, &[])
    }

    /// The same with an unhashed area.
    fn variant(kind: u8, created: u32, signer: u64, text: &[u8], unhashed: &[u8]) -> Vec<u8> {
        let signer = if signer == OWN { cert(&[]).fingerprint().key_id().0 } else { signer };
        let mut body = vec![4, kind, 1, 8, 0, 16];
        body.extend([5, 2]);
        body.extend(created.to_be_bytes());
        body.extend([9, 16]);
        body.extend(signer.to_be_bytes());
        body.extend(u16::try_from(unhashed.len()).unwrap().to_be_bytes());
        body.extend(unhashed);
        body.extend([0, 0]);
        body.extend(u16::try_from(8 * (text.len() + 1)).unwrap().to_be_bytes());
        body.push(0xff);
        body.extend(text);
        body
    }

    fn user_id(body: &[u8], signatures: Vec<Vec<u8>>) -> TestPart<'_> {
        (Tag::USER_ID, body, signatures)
    }

    pub(crate) fn bodies(cert: &Cert) -> impl Iterator<Item = &[u8]> {
        cert.packets().filter(|packet| packet.tag == Tag::SIGNATURE).map(|packet| packet.body)
    }

    fn has(cert: &Cert, body: &[u8]) -> bool {
        bodies(cert).any(|there| there == body)
    }

    /// A verdict for each signature. For self-signatures it depends on their identity.
    pub(crate) fn any_verdicts(cert: &Cert) -> Vec<Verdict> {
        let id = cert.fingerprint().key_id();
        let judge = |body: &[u8]| match Signature::parse(body) {
            None => Verdict::Malformed,
            Some(signature) if !signature.names(id) => Verdict::Foreign,
            Some(signature) => match signature.id()[0] % 5 {
                0 => Verdict::Bad,
                1 => Verdict::Unsupported,
                2 => Verdict::Misplaced,
                _ => Verdict::Good,
            },
        };
        bodies(cert).map(judge).collect()
    }

    /// The verdicts with only these signatures good.
    fn judged(cert: &Cert, good: &[Vec<u8>]) -> Vec<Verdict> {
        let id = cert.fingerprint().key_id();
        let good: Vec<[u8; 32]> =
            good.iter().map(|body| Signature::parse(body).unwrap().id()).collect();
        let judge = |body: &[u8]| match Signature::parse(body) {
            None => Verdict::Malformed,
            Some(signature) if good.contains(&signature.id()) => Verdict::Good,
            Some(signature) if signature.names(id) => Verdict::Bad,
            Some(_) => Verdict::Foreign,
        };
        bodies(cert).map(judge).collect()
    }

    fn nobody() -> Vec<(Cert, Vec<Verdict>)> {
        Vec::new()
    }

    fn unbounded() -> TimeForOthers {
        TimeForOthers::UNBOUNDED
    }

    /// The certificate within limits, if no other key is known.
    fn keep(cert: &Cert, verdicts: &[Verdict], limits: &Limits) -> Cert {
        let kept = cert.within(verdicts, limits, NOW, &mut unbounded(), &mut nobody());
        kept.map_or_else(|| cert.clone(), |(kept, _)| kept)
    }

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
    fn forged_signatures_displace_neither_good_ones_nor_each_other_by_date() {
        let good: Vec<_> = (1..=5).map(|time| signature(0x13, time, OWN, b"good")).collect();
        let forged = |n: u32| signature(0x20, u32::MAX - n, OWN, &n.to_be_bytes());
        let flood = cert(&[(Tag::PUBLIC_KEY, b"", (0..5000).map(forged).collect())]);
        let whole = cert(&[user_id(b"one", good.clone())]).union(&flood);
        let limits = Limits { own_signatures: 5, bad_signatures: 10, ..Limits::default() };
        let kept = keep(&whole, &judged(&whole, &good), &limits);
        assert!(good.iter().all(|body| has(&kept, body)));
        assert_eq!(bodies(&kept).count(), 15);
    }

    #[test]
    fn the_newest_self_signature_of_each_kind_stays_and_a_hard_revocation_before_others() {
        let revocation = |time, reason: u8| {
            let mut body = signature(0x20, time, OWN, b"");
            // A reason for the revocation, in the hashed area.
            body.splice(22..22, [2, 29, reason]);
            body[5] += 3;
            body
        };
        let one: Vec<_> = (1..=9).map(|time| signature(0x13, time, OWN, b"")).collect();
        let two: Vec<_> = (1..=9).map(|time| signature(0x13, 100 + time, OWN, b"")).collect();
        let late = signature(0x13, NOW + 2 * AHEAD_S, OWN, b"");
        let revocations = vec![revocation(1, 2), revocation(9, 3), revocation(8, 1)];
        let whole = cert(&[
            (Tag::PUBLIC_KEY, b"", revocations.clone()),
            user_id(b"one", [&one[..], &[late]].concat()),
            user_id(b"two", two.clone()),
        ]);
        let verdicts = vec![Verdict::Good; bodies(&whole).count()];
        let limits = Limits { own_signatures: 3, ..Limits::default() };
        let kept = keep(&whole, &verdicts, &limits);
        assert_eq!(bodies(&kept).count(), 3);
        for body in [&revocations[0], &one[8], &two[8]] {
            assert!(has(&kept, body));
        }
    }

    /// A direct-key signature of the owner that names a revoker.
    pub(crate) fn naming(revoker: [u8; 20]) -> Vec<u8> {
        let mut body = signature(0x1f, 1, OWN, b"good");
        body.splice(22..22, [&[23, 12, 0x80, 1][..], &revoker].concat());
        body[5] += 24;
        body
    }

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

    #[test]
    fn limits_are_those_of_a_size_class() {
        let sizes = [100, 2000, 20_000];
        let of = |size: usize, n: u8| {
            let mut body = signature(0x13, 1, 7, &[n; 5]);
            let area = vec![7; size];
            // A large subpacket in the hashed area.
            let mut packet = vec![255];
            packet.extend(u32::try_from(area.len() + 1).unwrap().to_be_bytes());
            packet.push(100);
            packet.extend(&area);
            let length = u16::try_from(16 + packet.len()).unwrap().to_be_bytes();
            body.splice(22..22, packet);
            body.splice(4..6, length);
            body
        };
        let all: Vec<_> =
            sizes.iter().flat_map(|&size| (0..30).map(move |n| of(size, n))).collect();
        let good = signature(0x13, 1, OWN, b"good");
        let whole = cert(&[user_id(b"one", [&all[..], std::slice::from_ref(&good)].concat())]);
        let limits = Limits { foreign_signatures: 16, ..Limits::default() };
        let kept = keep(&whole, &judged(&whole, &[good]), &limits);
        let count = |size: usize| {
            bodies(&kept).filter(|body| (size / 2..2 * size).contains(&body.len())).count()
        };
        assert_eq!((count(100), count(2000), count(20_000)), (16, 2, 1));
        assert_eq!(bodies(&kept).count(), 16 + 2 + 1 + 1);
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

    #[test]
    fn a_signature_that_names_a_fingerprint_is_by_no_other_key_with_its_key_id() {
        let named = Fingerprint::V4([7; 20]);
        let mut body = vec![4, 0x10, 1, 8, 0, 23, 22, 33];
        body.extend(named.to_stored());
        body.extend([0, 0, 1, 2, 0, 8, 0x80]);
        let signature = Signature::parse(&body).unwrap();
        assert_eq!(signature.signed_issuer, Some(named.key_id()));
        assert!(!signature.excludes(|| named));
        assert!(signature.excludes(|| Fingerprint::V3([1; 16], named.key_id())));
        let unnamed = hinted(0x10, b"text", &[named.key_id().0]);
        assert!(!Signature::parse(&unnamed).unwrap().excludes(|| named));
    }

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
    fn components_of_strangers_do_not_displace_those_of_the_owner() {
        let good = signature(0x13, 1, OWN, b"good");
        let names: Vec<Vec<u8>> = (0..200u8).map(|n| vec![n, 1]).collect();
        let stray = |name: &'static [u8]| user_id(name, vec![signature(0x10, 5, 7, name)]);
        let mut parts: Vec<_> = names.iter().map(|name| user_id(name, vec![])).collect();
        parts.extend([stray(b"s1"), stray(b"s2"), user_id(b"owner", vec![good.clone()])]);
        let whole = cert(&parts);
        let limits = Limits { components: 9, ..Limits::default() };
        let kept = keep(&whole, &judged(&whole, &[good]), &limits);
        assert_eq!(kept.user_ids().count(), 10);
        assert!(kept.user_ids().any(|name| name == b"owner"));
    }

    fn any_signature() -> impl Strategy<Value = Vec<u8>> {
        let kinds =
            prop::sample::select(vec![0x10u8, 0x13, 0x16, 0x18, 0x1f, 0x20, 0x28, 0x30, 0x40]);
        let text = prop_oneof![
            9 => prop::collection::vec(0u8..2, 0..3),
            1 => prop::collection::vec(0u8..2, 1020..1100),
        ];
        let unhashed = prop_oneof![
            3 => Just(vec![]),
            2 => prop::collection::vec(0u8..2, 1..3).prop_map(|text| [&[3, 100][..], &text, &[0, 0]].concat()[..4].to_vec()),
            // Longer than a signature of the first size class.
            1 => (0u8..2).prop_map(|octet| [&[255, 0, 0, 4, 1, 100][..], &[octet; 1024]].concat()),
        ];
        prop_oneof![
            9 => (kinds, 0u32..5, 0u64..3, text, unhashed)
                .prop_map(|(k, t, s, x, u)| variant(k, t, s, &x, &u)),
            1 => prop::collection::vec(any::<u8>(), 0..4),
        ]
    }

    pub(crate) fn any_cert() -> impl Strategy<Value = Cert> {
        let tag = prop::sample::select(vec![6u8, 13, 13, 13, 14, 17, 21, 40]);
        let body = prop::collection::vec(0u8..3, 0..3);
        let signatures = prop::collection::vec(any_signature(), 0..8);
        prop::collection::vec((tag, body, signatures), 0..8).prop_map(|parts| {
            let (mut direct, rest): (Vec<_>, Vec<_>) =
                parts.into_iter().partition(|(tag, ..)| *tag == 6);
            direct.extend(rest);
            let parts: Vec<TestPart<'_>> =
                direct.iter().map(|(tag, body, s)| (Tag(*tag), &body[..], s.clone())).collect();
            cert(&parts)
        })
    }

    /// A signature whose issuers are only in octets that anybody can change.
    pub(crate) fn hinted(kind: u8, text: &[u8], issuers: &[u64]) -> Vec<u8> {
        let own = cert(&[]).fingerprint().key_id().0;
        let hints = issuers.iter().flat_map(|&issuer| {
            let issuer = if issuer == OWN { own } else { issuer };
            [&[9, 16][..], &issuer.to_be_bytes()].concat()
        });
        let hints: Vec<u8> = hints.collect();
        let mut body = vec![4, kind, 1, 8, 0, 6, 5, 2, 0, 0, 0, 1];
        body.extend(u16::try_from(hints.len()).unwrap().to_be_bytes());
        body.extend(hints);
        body.extend([0, 0]);
        body.extend(u16::try_from(8 * (text.len() + 1)).unwrap().to_be_bytes());
        body.push(0xff);
        body.extend(text);
        body
    }

    /// The verdicts of a verifier that tries the primary key on all signatures, or only on those whose packets do not
    /// all name other keys. The owner has made two of five signatures.
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

        /// The law for limits: the kept packets do not depend on the order and the parts in which packets arrive.
        #[test]
        fn what_is_kept_is_a_function_of_what_was_offered(
            a in any_cert(), b in any_cert(), c in any_cert(), limits in any_limits(), which: u8,
        ) {
            let keep = |cert: &Cert| keep(cert, &any_verdicts(cert), &limits);
            // The owner has bound the same components, and attested the same signatures, in all copies.
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
            // Verdicts belong to the packets that are kept. That a signature was tried in vain is remembered.
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
