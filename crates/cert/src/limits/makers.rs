//! The makers of the signatures of other keys: which known keys made them, and whom the owner has
//! certified of these.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use crate::cert::Cert;
use crate::claims::Claims;
use crate::classes::{CLASSES, admitted};
use crate::fingerprint::{Fingerprint, KeyId};
use crate::hash::sha256;
use crate::identity::named;
use crate::key::Key;
use crate::limits::bounds::Limits;
use crate::limits::fitting::{Fitting, Issuer};
use crate::limits::issuers::Issuers;
use crate::limits::revokers::Revokers;
use crate::limits::time::TimeLeft;
use crate::packet::PacketRef;
use crate::served::DESIGNATED_MAX;
use crate::signature::Signature;
use crate::tag::Tag;
use crate::verdict::Verdict;
use crate::verify::{CertificationVerifier, KeySetup};

/// Whether it matters which of the signatures of other keys can be verified.
pub(super) fn must_rank(parts: &[Fitting<'_>], limits: &Limits, revokers: &Revokers) -> bool {
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

/// Whether there are more signatures of other keys than a limit admits, so that their order
/// matters.
pub(super) fn others_exceed(parts: &[Fitting<'_>], limit: usize) -> bool {
    let mut counts = [0; CLASSES];
    let candidates = parts.iter().flat_map(|part| &part.candidates);
    for candidate in candidates.filter(|candidate| candidate.verdict.is_by_others()) {
        counts[candidate.size_class] += 1;
    }
    counts.iter().enumerate().any(|(class, &count)| count > admitted(limit, class))
}

/// To look for a key takes the first time, and the second one more for each that is found.
const LOOK_UP_NS: u64 = 10_000;

const FOUND_NS: u64 = 40_000;

/// To read a certificate takes as much for each byte.
const BYTE_NS: u64 = 2;

/// A known issuer, prepared for verification.
struct PreparedIssuer {
    /// The body of its primary key packet.
    body: Vec<u8>,
    fingerprint: Fingerprint,
    /// The cost of one signature.
    cost_ns: u64,
    setup: KeySetup,
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

impl Cert {
    /// Finds the signatures that known keys made, as far as there is time, beside those that were
    /// verified. Keys come in the order of what all signatures in their name cost together, so a
    /// flood in the name of some keys does not keep signatures of others from being verified.
    pub(super) fn verify_others(
        &self,
        parts: &mut [Fitting<'_>],
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

    /// Finds the verified signatures of keys that the owner has certified, as far as there is time.
    /// The shortest certificates are read first. Of these, those with certifications of the owner
    /// that were verified come first, then those with the fewest that need not be genuine.
    pub(super) fn rank_certified(
        &self,
        parts: &mut [Fitting<'_>],
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
            .map(|(by, places)| (issuers.bytes(by).unwrap_or(0), by, places))
            .collect();
        sorted.sort_unstable();
        let mut claims: Vec<(Claims, &[(usize, usize)])> = Vec::new();
        for (bytes, fingerprint, places) in &sorted {
            let cost_ns = LOOK_UP_NS + FOUND_NS + BYTE_NS * bytes;
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
}
