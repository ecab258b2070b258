//! Ed25519 (RFC 8032, section 5.1): one rule for one signature and for many.
//!
//! A signature is good if A and R are canonical encodings of points, S is below the order of the
//! base point, `[S]B - [h]A` has the bytes of R, and A has no component of small order. The
//! equation is that of libgcrypt, and so of gpg, without a cofactor; for other A, libgcrypt differs
//! from all other libraries, see decision record 0003.
//!
//! A batch gives the same verdicts as single checks, and is only faster. The sum of many equations,
//! each times a random number, holds for points with a component of small order even where one of
//! the equations does not. So a batch counts only if all its points are shown to have no such
//! component; decision record 0003 has the reasons and the figures. A signature that no batch
//! proves good is checked alone.
//!
//! Curve points, scalars and their products are those of curve25519-dalek.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use aws_lc_rs::digest;
use curve25519_dalek::constants::ED25519_BASEPOINT_POINT;
use curve25519_dalek::edwards::{CompressedEdwardsY, EdwardsPoint};
use curve25519_dalek::scalar::Scalar;
use curve25519_dalek::traits::{Identity as _, IsIdentity as _, VartimeMultiscalarMul as _};
use ed25519_dalek::{Signature, Verifier as _, VerifyingKey};

use crate::hash::HashValue;
use crate::key::{Curve, Key, Material};
use crate::verdict::Verdict;

/// Smallest batch. Fewer signatures are faster one by one, because each of the [`SUMS`] costs about
/// as much as one signature.
const BATCH_MIN: usize = 80;

/// Largest batch. More signatures in one batch are hardly faster.
const BATCH_MAX: usize = 2048;

/// Number of sums over random subsets of points. Each sum misses a component of small order with a
/// probability of at most one half.
const SUMS: usize = 64;

/// Number of points whose subset sums are all computed before they are added to the [`SUMS`] sums.
/// 5 needs the fewest additions.
const GROUP: usize = 5;

/// An Ed25519 key, decompressed.
pub(crate) struct PublicKey {
    key: VerifyingKey,
    /// Whether the point is in the group of the base point and is not its zero. Empty until it is
    /// computed.
    is_sound: OnceLock<bool>,
}

impl PublicKey {
    /// Reads a key. `None` if the bytes are not a point, or not its canonical encoding.
    pub(crate) fn read(bytes: &[u8; 32]) -> Option<Self> {
        let key = VerifyingKey::from_bytes(bytes).ok().filter(|_| is_canonical(bytes))?;
        let is_sound = if key.is_weak() { OnceLock::from(false) } else { OnceLock::new() };
        Some(Self { key, is_sound })
    }

    /// Whether the key made the signature `signed` of the bytes `message`. The verdict on a single
    /// Ed25519 signature always comes from this function.
    pub(crate) fn verifies(&self, message: &[u8], signed: &[u8; 64]) -> bool {
        self.satisfies(message, signed)
            && *self.is_sound.get_or_init(|| self.key.to_edwards().is_torsion_free())
    }

    /// Whether the equation holds, for any key. This is the check of Go, and so of Hockeypuck.
    pub(crate) fn satisfies(&self, message: &[u8], signed: &[u8; 64]) -> bool {
        self.key.verify(message, &Signature::from_bytes(signed)).is_ok()
    }
}

/// An Ed25519 key of a certificate, for signatures that are not in signature packets.
#[derive(Clone)]
pub struct Ed25519Key(Arc<PublicKey>);

impl Ed25519Key {
    /// Reads the key of a packet, in either form: algorithm 22 with this curve, or algorithm 27.
    /// `None` for other algorithms, and for points that no signature by this rule can be good for.
    #[must_use]
    pub fn of(key: &Key<'_>) -> Option<Self> {
        let point = match key.material {
            Material::Ec { curve: Some(Curve::Ed25519), point: [0x40, point @ ..] }
                if key.algorithm == 22 =>
            {
                point
            }
            Material::Native(point) if key.algorithm == 27 => point,
            _ => return None,
        };
        PublicKey::read(point.try_into().ok()?).map(|key| Self(Arc::new(key)))
    }

    /// Reads the 32 bytes of a key that is in no packet. `None` for points that no signature by
    /// this rule can be good for.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; 32]) -> Option<Self> {
        PublicKey::read(bytes).map(|key| Self(Arc::new(key)))
    }

    /// Whether the key made the signature `signed`, R and S, of the bytes `message`.
    #[must_use]
    pub fn verifies(&self, message: &[u8], signed: &[u8; 64]) -> bool {
        self.0.verifies(message, signed)
    }

    /// The check of the signature `signed`, R and S, on `digest`.
    #[must_use]
    pub fn job(&self, signed: [u8; 64], digest: HashValue) -> Job {
        Job::new(Arc::clone(&self.0), signed, digest)
    }
}

/// An Ed25519 signature that waits to be checked in a batch.
pub struct Job {
    key: Arc<PublicKey>,
    signed: [u8; 64],
    digest: HashValue,
}

impl Job {
    pub(crate) fn new(key: Arc<PublicKey>, signed: [u8; 64], digest: HashValue) -> Self {
        Self { key, signed, digest }
    }

    /// The verdict on the signature, computed alone.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        if self.key.verifies(self.digest.as_bytes(), &self.signed) {
            Verdict::Good
        } else {
            Verdict::Bad
        }
    }

    /// The parts of the equation. `None` if they are not canonical, or if the key is known to be
    /// bad.
    fn equation(&self, place: usize) -> Option<Equation<'_>> {
        if self.key.is_sound.get() == Some(&false) {
            return None;
        }
        let (r, s) = self.signed.split_first_chunk::<32>()?;
        let s = Option::from(Scalar::from_canonical_bytes(s.try_into().ok()?))?;
        let point = is_canonical(r).then(|| CompressedEdwardsY(*r).decompress()).flatten()?;
        let mut context = digest::Context::new(&digest::SHA512);
        context.update(r);
        context.update(self.key.key.as_bytes());
        context.update(self.digest.as_bytes());
        let h = Scalar::from_bytes_mod_order_wide(context.finish().as_ref().try_into().ok()?);
        Some(Equation { place, key: &self.key, r: point, s, h })
    }
}

/// The equation `[s]B = R + [h]A`, and the place of its signature in the list.
struct Equation<'a> {
    place: usize,
    key: &'a PublicKey,
    r: EdwardsPoint,
    s: Scalar,
    h: Scalar,
}

/// The verdicts on `jobs`, each [`Verdict::Good`] or [`Verdict::Bad`]. They equal those of
/// [`Job::verdict`], whatever other jobs there are, with a probability of error of at most 2^-64
/// per batch. An attacker cannot raise that probability, since each batch draws its random numbers
/// after its signatures are fixed.
#[must_use]
pub fn ed25519_verdicts(jobs: &[Job]) -> Vec<Verdict> {
    let mut verdicts = vec![Verdict::Unchecked; jobs.len()];
    if jobs.len() >= BATCH_MIN {
        let equations: Vec<_> =
            jobs.iter().enumerate().filter_map(|(place, job)| job.equation(place)).collect();
        equations.chunks(BATCH_MAX).for_each(|batch| mark_good(batch, &mut verdicts));
    }
    for (verdict, job) in verdicts.iter_mut().zip(jobs) {
        if *verdict != Verdict::Good {
            *verdict = job.verdict();
        }
    }
    verdicts
}

/// Marks the signatures that are proved good. A batch that does not hold is split into halves, so
/// that one bad signature costs its neighbours little.
fn mark_good(batch: &[Equation<'_>], verdicts: &mut [Verdict]) {
    if batch.len() < BATCH_MIN {
        return;
    }
    if holds(batch) == Some(true) {
        batch.iter().for_each(|equation| verdicts[equation.place] = Verdict::Good);
        return;
    }
    let (left, right) = batch.split_at(batch.len() / 2);
    mark_good(left, verdicts);
    mark_good(right, verdicts);
}

/// Whether every equation of a batch holds. `None` if the system gives no random numbers.
fn holds(batch: &[Equation<'_>]) -> Option<bool> {
    // Signatures by the same key share one product.
    let mut places: HashMap<&[u8; 32], usize> = HashMap::new();
    let mut keys: Vec<(&PublicKey, Scalar)> = Vec::new();
    let mut factors = Vec::with_capacity(batch.len());
    let mut base = Scalar::ZERO;
    let random = random(batch.len() * 16)?;
    for (equation, bytes) in batch.iter().zip(random.chunks_exact(16)) {
        let factor = Scalar::from(u128::from_le_bytes(bytes.try_into().ok()?));
        base -= factor * equation.s;
        factors.push(factor);
        let place = *places.entry(equation.key.key.as_bytes()).or_insert(keys.len());
        if place == keys.len() {
            keys.push((equation.key, Scalar::ZERO));
        }
        keys[place].1 += factor * equation.h;
        if equation.key.is_sound.get().is_some() {
            keys[place].0 = equation.key;
        }
    }
    let scalars = factors.iter().chain(keys.iter().map(|(_, sum)| sum)).chain([&base]);
    let points = batch.iter().map(|equation| equation.r);
    let points = points.chain(keys.iter().map(|(key, _)| key.key.to_edwards()));
    let sum =
        EdwardsPoint::vartime_multiscalar_mul(scalars, points.chain([ED25519_BASEPOINT_POINT]));
    // Components of small order have a check of their own.
    if !sum.mul_by_cofactor().is_identity() {
        return Some(false);
    }
    let unknown = || keys.iter().filter(|(key, _)| key.is_sound.get().is_none());
    let points: Vec<EdwardsPoint> = batch
        .iter()
        .map(|equation| equation.r)
        .chain(unknown().map(|(key, _)| key.key.to_edwards()))
        .collect();
    let holds = are_torsion_free(&points)?;
    if holds {
        unknown().for_each(|(key, _)| {
            let _ = key.is_sound.set(true);
        });
    }
    Some(holds)
}

/// Whether no point has a component of small order. The check misses one with a probability of at
/// most 2^-64: for any choice of the other points in a subset, at most one of the two sums, with
/// and without a point that has such a component, has none itself. `None` if the system gives no
/// random numbers.
fn are_torsion_free(points: &[EdwardsPoint]) -> Option<bool> {
    let random = random(points.len() * (SUMS / 8))?;
    let mut sums = [EdwardsPoint::identity(); SUMS];
    for (group, bytes) in points.chunks(GROUP).zip(random.chunks(GROUP * (SUMS / 8))) {
        // All sums of points of the group. The index of a sum has one bit for each point.
        let mut table = [EdwardsPoint::identity(); 1 << GROUP];
        for (at, point) in group.iter().enumerate() {
            let (known, rest) = table.split_at_mut(1 << at);
            known.iter().zip(rest).for_each(|(known, sum)| *sum = known + point);
        }
        // Each sum takes one bit of the bytes of a point.
        for (number, sum) in sums.iter_mut().enumerate() {
            let bit = |bytes: &[u8]| usize::from(bytes[number / 8] >> (number % 8) & 1);
            let members = bytes.chunks_exact(SUMS / 8).enumerate();
            let place = members.fold(0, |place, (at, bytes)| place | bit(bytes) << at);
            if place != 0 {
                *sum += table[place];
            }
        }
    }
    Some(sums.iter().all(EdwardsPoint::is_torsion_free))
}

/// Random bytes that nobody can predict.
fn random(len: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; len];
    getrandom::fill(&mut bytes).ok()?;
    Some(bytes)
}

/// Whether the bytes are the canonical encoding of a point: y is below 2^255 - 19, and x = 0 has no
/// sign.
fn is_canonical(bytes: &[u8; 32]) -> bool {
    let mut y = *bytes;
    y[31] &= 0x7f;
    // p, lowest byte first.
    let mut modulus = [0xff; 32];
    (modulus[0], modulus[31]) = (0xed, 0x7f);
    if !y.iter().rev().lt(modulus.iter().rev()) {
        return false;
    }
    // x is 0 where y is 1 or -1.
    let mut one = [0; 32];
    one[0] = 1;
    let mut minus_one = modulus;
    minus_one[0] -= 1;
    bytes[31] & 0x80 == 0 || (y != one && y != minus_one)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::Hasher;
    use curve25519_dalek::constants::EIGHT_TORSION;
    use proptest::prelude::*;

    fn scalar(seed: u64) -> Scalar {
        Scalar::from_bytes_mod_order(crate::hash::sha256(&[&seed.to_be_bytes()]))
    }

    fn digest(seed: u64) -> HashValue {
        let mut hasher = Hasher::new(8).unwrap();
        hasher.update(&seed.to_be_bytes());
        hasher.finish().unwrap()
    }

    fn challenge(r: &[u8; 32], a: &[u8; 32], digest: &HashValue) -> Scalar {
        let mut context = digest::Context::new(&digest::SHA512);
        context.update(r);
        context.update(a);
        context.update(digest.as_bytes());
        Scalar::from_bytes_mod_order_wide(context.finish().as_ref().try_into().unwrap())
    }

    /// A signature by the secret `seed`, with points of small order added to A and R. The signature
    /// satisfies the equation multiplied by eight.
    fn signed(seed: u64, a: EdwardsPoint, r: EdwardsPoint) -> ([u8; 32], [u8; 64], HashValue) {
        let (secret, nonce, digest) = (scalar(seed), scalar(!seed), digest(seed));
        let a = (EdwardsPoint::mul_base(&secret) + a).compress().0;
        let r = (EdwardsPoint::mul_base(&nonce) + r).compress().0;
        let s = nonce + challenge(&r, &a, &digest) * secret;
        let mut signed = [0; 64];
        signed[..32].copy_from_slice(&r);
        signed[32..].copy_from_slice(s.as_bytes());
        (a, signed, digest)
    }

    fn job((a, signed, digest): ([u8; 32], [u8; 64], HashValue)) -> Job {
        Job::new(Arc::new(PublicKey::read(&a).unwrap()), signed, digest)
    }

    fn good(seed: u64) -> Job {
        job(signed(seed, EdwardsPoint::identity(), EdwardsPoint::identity()))
    }

    /// A second implementation of the rule: bytes are compared, nothing is multiplied by eight, and
    /// keys have no component of small order.
    fn by_the_rule((a, signed, digest): &([u8; 32], [u8; 64], HashValue)) -> bool {
        let (r, s) = (signed[..32].try_into().unwrap(), signed[32..].try_into().unwrap());
        let canonical = |bytes: &[u8; 32]| {
            CompressedEdwardsY(*bytes).decompress().is_some_and(|p| p.compress().0 == *bytes)
        };
        let s: Option<Scalar> = Scalar::from_canonical_bytes(s).into();
        let (Some(s), true, true) = (s, canonical(a), canonical(&r)) else { return false };
        let point = CompressedEdwardsY(*a).decompress().unwrap();
        point.is_torsion_free()
            && !point.is_identity()
            && (EdwardsPoint::mul_base(&s) - point * challenge(&r, a, digest)).compress().0 == r
    }

    fn verdict(good: bool) -> Verdict {
        if good { Verdict::Good } else { Verdict::Bad }
    }

    /// All 64 pairs of small-order components of A and R, first each alone, then all together among
    /// other signatures.
    #[test]
    fn a_component_of_small_order_has_one_verdict_alone_and_in_a_batch() {
        for round in 0..4 {
            let mut made = Vec::new();
            for (i, a) in EIGHT_TORSION.into_iter().enumerate() {
                for (j, r) in EIGHT_TORSION.into_iter().enumerate() {
                    made.push(signed(1000 * round + 8 * i as u64 + j as u64, a, r));
                }
            }
            let expected: Vec<_> = made.iter().map(|made| verdict(by_the_rule(made))).collect();
            assert!(expected.contains(&Verdict::Bad) && expected.contains(&Verdict::Good));
            let jobs: Vec<_> = made.into_iter().map(job).collect();
            assert_eq!(jobs.iter().map(Job::verdict).collect::<Vec<_>>(), expected);
            assert_eq!(ed25519_verdicts(&jobs), expected);
            for (job, expected) in jobs.into_iter().zip(expected) {
                let mut jobs: Vec<_> = (0..80).map(|seed| good(seed + 70_000)).collect();
                jobs.insert(33, job);
                let verdicts = ed25519_verdicts(&jobs);
                assert_eq!(verdicts[33], expected);
                assert!(verdicts.iter().enumerate().all(|(at, v)| at == 33 || *v == Verdict::Good));
            }
        }
    }

    /// Small-order components that cancel each other within a batch.
    #[test]
    fn small_order_components_that_cancel_each_other_are_found() {
        for torsion in EIGHT_TORSION {
            let made: Vec<_> = (0..100)
                .map(|seed| {
                    let r = if seed % 2 == 0 { torsion } else { -torsion };
                    signed(seed, EdwardsPoint::identity(), r)
                })
                .collect();
            let expected: Vec<_> = made.iter().map(|made| verdict(by_the_rule(made))).collect();
            let jobs: Vec<_> = made.into_iter().map(job).collect();
            assert_eq!(ed25519_verdicts(&jobs), expected);
        }
    }

    /// Many signatures by one key, as on documents: the product of the key is shared, and the proof
    /// is cached.
    #[test]
    fn the_cached_proof_for_a_key_holds_for_that_key_only() {
        let torsion = EIGHT_TORSION[4];
        for (a, is_free) in [(EdwardsPoint::identity(), true), (torsion, false)] {
            let key = Arc::new(PublicKey::read(&signed(9, a, a).0).unwrap());
            let jobs: Vec<_> = (0..200)
                .map(|seed| {
                    let (nonce, digest, secret) = (scalar(seed), digest(seed), scalar(9));
                    let r = EdwardsPoint::mul_base(&nonce).compress().0;
                    let s = nonce + challenge(&r, key.key.as_bytes(), &digest) * secret;
                    let signed = [r, s.to_bytes()].concat().try_into().unwrap();
                    Job::new(Arc::clone(&key), signed, digest)
                })
                .collect();
            for _ in 0..2 {
                let alone: Vec<_> = jobs.iter().map(Job::verdict).collect();
                assert_eq!(ed25519_verdicts(&jobs), alone);
                assert_eq!(alone.contains(&Verdict::Bad), !is_free);
                assert_eq!(key.is_sound.get(), Some(&is_free));
            }
        }
    }

    /// The subset sums detect one bad point among many, whatever its order.
    #[test]
    fn a_point_with_a_component_of_small_order_is_found() {
        let mut points: Vec<_> =
            (0..333).map(|seed| EdwardsPoint::mul_base(&scalar(seed))).collect();
        assert_eq!(are_torsion_free(&points), Some(true));
        for (at, torsion) in EIGHT_TORSION.into_iter().enumerate().skip(1) {
            let place = at * 47;
            let before = points[place];
            points[place] = before + torsion;
            assert!(!points[place].is_torsion_free());
            assert_eq!(are_torsion_free(&points), Some(false));
            points[place] = before;
        }
        assert_eq!(are_torsion_free(&points[..1]), Some(true));
        assert_eq!(are_torsion_free(&[]), Some(true));
    }

    fn compressed(bytes: &[u8; 32]) -> Option<bool> {
        CompressedEdwardsY(*bytes).decompress().map(|point| point.compress().0 == *bytes)
    }

    /// An encoding that is not canonical has y from 2^255 - 19, or x = 0 with a sign.
    #[test]
    fn encodings_with_a_large_y_or_a_negative_zero_are_not_canonical() {
        let mut odd = 0;
        for sign in [0, 0x80] {
            for low in 0..=255 {
                for high in [[0; 31], {
                    let mut high = [0xff; 31];
                    high[30] = 0x7f;
                    high
                }] {
                    let mut bytes = [0; 32];
                    bytes[0] = low;
                    bytes[1..].copy_from_slice(&high);
                    bytes[31] |= sign;
                    if let Some(expected) = compressed(&bytes) {
                        assert_eq!(is_canonical(&bytes), expected, "{bytes:02x?}");
                        odd += usize::from(!expected);
                    }
                }
            }
        }
        assert!(odd > 10, "{odd}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn an_encoding_is_canonical_if_compression_gives_it(bytes: [u8; 32]) {
            if let Some(expected) = compressed(&bytes) {
                prop_assert_eq!(is_canonical(&bytes), expected);
            }
        }

        /// For any change in any of the signatures, the verdict in a batch is that of the rule.
        #[test]
        fn a_batch_agrees_with_the_rule(
            count in 64usize..200,
            changes in prop::collection::vec((any::<prop::sample::Index>(), 0usize..8, 0usize..8, 0usize..64, any::<u8>()), 0..6),
        ) {
            let mut made: Vec<_> = (0..count as u64)
                .map(|seed| signed(seed % 90, EdwardsPoint::identity(), EdwardsPoint::identity()))
                .collect();
            for (place, a, r, byte, flipped) in changes {
                let at = place.index(count);
                made[at] = signed(at as u64, EIGHT_TORSION[a], EIGHT_TORSION[r]);
                if flipped > 200 {
                    made[at].1[byte] ^= flipped;
                }
            }
            let expected: Vec<_> = made.iter().map(|made| verdict(by_the_rule(made))).collect();
            let jobs: Vec<_> = made.into_iter().map(job).collect();
            prop_assert_eq!(ed25519_verdicts(&jobs), expected.clone());
            prop_assert_eq!(jobs.iter().map(Job::verdict).collect::<Vec<_>>(), expected);
        }
    }
}
