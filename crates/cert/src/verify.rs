//! Verdicts on the self-signatures of a certificate.
//!
//! A verdict is pure arithmetic. It depends on the key, the component and the signature, never on
//! time or policy, so it is computed once and stored permanently. [`crate::summary`] decides what a
//! good signature means today.
//!
//! The cheapest check comes first. A digest whose first 16 bits differ ends the check. RSA keys are
//! set up once per certificate (AWS-LC). Ed25519 signatures of many certificates are checked in
//! batches ([`crate::ed25519`]). [`crate::arithmetic`] handles all other algorithms.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use aws_lc_rs::digest;
use aws_lc_rs::rsa::PublicKeyComponents;
use aws_lc_rs::signature::{self, RsaParameters};
use rayon::prelude::*;

use crate::arithmetic;
use crate::cert::Cert;
use crate::ed25519::{self, Job, ed25519_verdicts};
use crate::fields::{eddsa_legacy, mpi};
use crate::fingerprint::Fingerprint;
use crate::hash::{HashValue, Hasher};
use crate::identity::{Claim, Variants};
use crate::key::{Curve, Key, Material};
use crate::packet::PacketRef;
use crate::signature::{Signature, kind};
use crate::tag::Tag;
use crate::verdict::{Verdict, Verification};

/// The version of this verifier. It grows when signatures are judged differently, or when an
/// algorithm is added. A store records it beside the verdicts.
///
/// Version 1 did not record its number. It accepted Ed25519 signatures that other programs reject,
/// and rejected signatures whose claimed date is before their key's. Version 2 checked the
/// arithmetic only, but trusted hints that anybody can change: it tried the primary key only on
/// packets that name it, and only if the first 16 bits of the digest agree. Version 3 gives all
/// packets of a signature the same verdict, and tries the primary key on every signature. Version 4
/// does not try it while all packets of a signature name other keys. Version 5 knows attestations
/// ([`kind::ATTESTATION`]). Version 6 knows the Ed448 signatures of GnuPG, and reduces the second
/// half of all. Version 7 knows RSA keys with long exponents, detects collisions of SHA-1, and
/// accepts no signature whose version is not that of its key. Versions 8 and 9 judge as version 7
/// does. Since version 8 summaries follow the rules of [`crate::Rules`], and since version 9 they
/// say which subkeys have signed the primary key.
pub const VERIFIER: u8 = 9;

/// Whether a version of the verifier judges a signature, as one by `key`, as this one does.
fn judges_alike(verifier: u8, key: &Key<'_>, signature: &Signature<'_>) -> bool {
    let as_6 = || {
        let is_long = matches!(key.material, Material::Rsa { e, .. } if has_long_exponent(e));
        !is_long && signature.hash != SHA1 && has_version_of(key, signature)
    };
    match verifier {
        7 | 8 | VERIFIER => true,
        6 => as_6(),
        5 => as_6() && !signature.may_be_ed448(),
        4 => as_6() && !signature.may_be_ed448() && signature.kind != kind::ATTESTATION,
        _ => false,
    }
}

/// Whether a version of the verifier that has found another key to be the maker of a signature may
/// be wrong.
fn may_have_erred(verifier: u8, signature: &Signature<'_>) -> bool {
    let is_6 = signature.version == 6;
    let is_other = |issuer: Fingerprint| is_6 != matches!(issuer, Fingerprint::V6(_));
    let mut named = signature.issuers().into_iter().filter_map(|(_, issuer)| issuer);
    verifier < 7 && (signature.hash == SHA1 || named.any(is_other))
}

/// Earlier verdicts, and the version of the verifier that made them.
#[derive(Clone, Copy, Debug)]
pub struct Earlier<'a> {
    /// One verdict per signature, in canonical packet order. Missing verdicts count as
    /// [`Verdict::Unchecked`].
    pub verdicts: &'a [Verdict],
    /// The version of the verifier that made the verdicts.
    pub verifier: u8,
}

impl Earlier<'_> {
    /// The earlier verdict on a signature with the primary key `key`, if this verifier comes to the
    /// same. `None` if the signature must be verified again.
    ///
    /// A newer verifier than this one may know more, but this version cannot rely on it.
    fn certain(&self, number: usize, key: &Key<'_>, signature: &Signature<'_>) -> Option<Verdict> {
        let verdict = *self.verdicts.get(number)?;
        let is_certain = match verdict {
            Verdict::Unchecked | Verdict::Other => false,
            Verdict::Good if self.verifier < 7 => {
                let is_rsa = matches!(signature.algorithm, 1 | 3);
                let is_sound = signature.hash != SHA1 && has_version_of(key, signature);
                is_sound && (self.verifier >= 2 || is_rsa)
            }
            _ => judges_alike(self.verifier, key, signature),
        };
        (is_certain && self.verifier <= VERIFIER).then_some(verdict)
    }

    /// The earlier verdict on a signature that `variants` are packets of. Only [`Verdict::Good`]
    /// says which key made it. A verdict that the key did not make it says no more, since there may
    /// be other packets now.
    fn certain_of(&self, key: &Key<'_>, variants: &Variants<'_>) -> Option<Verdict> {
        let signature = variants.signature()?;
        let known =
            variants.0.iter().filter_map(|variant| self.certain(variant.at, key, &signature));
        known.min_by_key(|&verdict| match verdict {
            Verdict::Good => 0,
            Verdict::Foreign | Verdict::Certified => 2,
            _ => 1,
        })
    }

    /// Whether the primary key `key` was tried on the signature, and another key has made it.
    fn says_tried(&self, key: &Key<'_>, variants: &Variants<'_>) -> bool {
        variants.signature().is_some_and(|signature| judges_alike(self.verifier, key, &signature))
            && variants.0.iter().any(|variant| {
                let verdict = self.verdicts.get(variant.at);
                matches!(verdict, Some(Verdict::Foreign | Verdict::Certified))
            })
    }

    /// Whether another key has made the signature.
    fn says_certified(&self, variants: &Variants<'_>) -> bool {
        self.verifier <= VERIFIER
            && self.verifier >= 4
            && !variants.signature().is_some_and(|made| may_have_erred(self.verifier, &made))
            && variants.0.iter().any(|v| self.verdicts.get(v.at) == Some(&Verdict::Certified))
    }
}

/// Number of certificates that are verified as one unit of work: large enough for efficient Ed25519
/// batches, small enough to keep all cores busy.
const UNIT_CERTS: std::ops::RangeInclusive<usize> = 256..=1024;

/// Verdicts on all signatures of `certs`, one list per certificate in canonical packet order.
/// Uses all cores.
#[must_use]
pub fn verdicts(certs: &[&Cert], verification: Verification) -> Vec<Vec<Verdict>> {
    let none = Earlier { verdicts: &[], verifier: VERIFIER };
    let certs: Vec<_> = certs.iter().map(|&cert| (cert, none)).collect();
    renewed(&certs, verification)
}

/// Verdicts on all signatures of `certs`. Earlier verdicts are reused where this verifier agrees
/// with them. Uses all cores.
///
/// If `verification` is deferred, unchecked signatures stay unchecked, but uncertain verdicts are
/// still recomputed.
#[must_use]
pub fn renewed(certs: &[(&Cert, Earlier<'_>)], verification: Verification) -> Vec<Vec<Verdict>> {
    let unit = certs.len().div_ceil(2 * rayon::current_num_threads());
    certs
        .par_chunks(unit.clamp(*UNIT_CERTS.start(), *UNIT_CERTS.end()))
        .flat_map_iter(|unit| {
            let mut batch = Batch::default();
            let mut out: Vec<Vec<Verdict>> = unit
                .iter()
                .enumerate()
                .map(|(at, (cert, earlier))| {
                    check(cert, *earlier, verification, Trying::Hinted, at, &mut batch)
                })
                .collect();
            batch.write(&mut out);
            out
        })
        .collect()
}

/// Verdicts on all signatures of `cert`, given those of this verifier: the primary key is also
/// tried on each [`Verdict::Other`]. What another key has made becomes [`Verdict::Foreign`].
pub(crate) fn tried(cert: &Cert, verdicts: &[Verdict]) -> Vec<Verdict> {
    let earlier = Earlier { verdicts, verifier: VERIFIER };
    let mut batch = Batch::default();
    let mut out = [check(cert, earlier, Verification::Full, Trying::All, 0, &mut batch)];
    batch.write(&mut out);
    let [out] = out;
    out
}

/// Verdicts on the signatures of `joined`. Those that `known` has too are taken from `verdicts`;
/// the others are not verified here.
#[must_use]
pub fn carried_over(joined: &Cert, known: &Cert, verdicts: &[Verdict]) -> Vec<Verdict> {
    // Components can be large and have many signatures, so each is looked up only once.
    let mut earlier: HashMap<PacketRef<'_>, HashMap<&[u8], Verdict>> = HashMap::new();
    let mut verdicts = verdicts.iter().copied();
    for (component, bodies) in by_component(known) {
        earlier.insert(component, bodies.into_iter().zip(verdicts.by_ref()).collect());
    }
    by_component(joined)
        .into_iter()
        .flat_map(|(component, bodies)| {
            let known = earlier.get(&component);
            bodies.into_iter().map(move |body| {
                known.and_then(|known| known.get(body)).copied().unwrap_or(Verdict::Unchecked)
            })
        })
        .collect()
}

/// The components of a certificate, each with its signatures.
fn by_component(cert: &Cert) -> Vec<(PacketRef<'_>, Vec<&[u8]>)> {
    let mut components: Vec<(PacketRef<'_>, Vec<&[u8]>)> = Vec::new();
    for packet in cert.packets() {
        match components.last_mut() {
            Some((_, bodies)) if packet.tag == Tag::SIGNATURE => bodies.push(packet.body),
            _ => components.push((packet, Vec::new())),
        }
    }
    components
}

/// Verifies the signatures of `joined` that are [`Verdict::Unchecked`] in `carried`.
#[must_use]
pub fn complete(joined: &Cert, carried: Vec<Verdict>, verification: Verification) -> Vec<Verdict> {
    renew(joined, carried, VERIFIER, verification)
}

/// Verifies the signatures of `joined` that are [`Verdict::Unchecked`] in `carried`. Also verifies
/// those that the verifier of version `verifier`, which made the other verdicts, may have judged
/// differently.
#[must_use]
pub fn renew(
    joined: &Cert,
    carried: Vec<Verdict>,
    verifier: u8,
    verification: Verification,
) -> Vec<Verdict> {
    if verifier == VERIFIER && !carried.contains(&Verdict::Unchecked) {
        return carried;
    }
    let earlier = Earlier { verdicts: &carried, verifier };
    renewed(&[(joined, earlier)], verification).remove(0)
}

/// The signatures of a certificate, each with its component.
pub(crate) fn signatures(cert: &Cert) -> impl Iterator<Item = (PacketRef<'_>, &[u8])> {
    let mut component = PacketRef { tag: Tag(0), body: &[] };
    cert.packets().filter_map(move |packet| {
        if packet.tag == Tag::SIGNATURE {
            return Some((component, packet.body));
        }
        component = packet;
        None
    })
}

/// The good signatures of a certificate, each with its component. `verdicts` are those on its
/// signatures, in canonical order.
pub(crate) fn good<'a>(
    cert: &'a Cert,
    verdicts: &[Verdict],
) -> impl Iterator<Item = (PacketRef<'a>, Signature<'a>)> {
    let judged = signatures(cert).zip(verdicts.iter().copied());
    let good = judged.filter(|(_, verdict)| *verdict == Verdict::Good);
    good.filter_map(|((component, body), _)| Some((component, Signature::parse(body)?)))
}

/// Whether a signature of this type may be on a component of this kind.
fn belongs(kind: u8, component: Tag) -> bool {
    match component {
        Tag::PUBLIC_KEY => matches!(kind, kind::DIRECT_KEY | kind::KEY_REVOCATION),
        Tag::USER_ID | Tag::USER_ATTRIBUTE => {
            kind::CERTIFICATION.contains(&kind)
                || matches!(kind, kind::CERTIFICATION_REVOCATION | kind::ATTESTATION)
        }
        Tag::PUBLIC_SUBKEY => matches!(kind, kind::SUBKEY_BINDING | kind::SUBKEY_REVOCATION),
        _ => false,
    }
}

/// The signatures on which the primary key is tried.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Trying {
    /// Those of which a packet names it, or names nobody.
    Hinted,
    /// Those of which the hashed area names no other key.
    All,
}

fn check(
    cert: &Cert,
    earlier: Earlier<'_>,
    verification: Verification,
    trying: Trying,
    at: usize,
    batch: &mut Batch,
) -> Vec<Verdict> {
    let Some(Ok(primary)) = cert.packets().next().map(Key::parse) else { return Vec::new() };
    let id = cert.fingerprint().key_id();
    let mut verifier = PrimaryKeyVerifier::new(primary);
    let mut verdicts = vec![Verdict::Malformed; cert.signature_count()];
    let mut number = 0;
    for (component, bodies) in by_component(cert) {
        let numbered = bodies.into_iter().map(|body| {
            number += 1;
            (number - 1, body)
        });
        for variants in Variants::of(numbered) {
            let Some(signature) = variants.signature() else { continue };
            let claim = variants.claim(id);
            // A packet that only says whose signature it is does not make it a bad one of the
            // owner.
            let otherwise = (claim != Claim::Own).then_some(Verdict::Foreign);
            let verdict = if claim == Claim::SignedOther {
                Verdict::Foreign
            } else if !belongs(signature.kind, component.tag) {
                otherwise.unwrap_or(Verdict::Misplaced)
            } else if signature.hash == MD5 {
                otherwise.unwrap_or(Verdict::Weak)
            } else if matches!(claim, Claim::Nobody | Claim::Other)
                && !fits(&verifier.primary, &signature)
            {
                Verdict::Foreign
            } else if claim == Claim::Other && trying == Trying::Hinted {
                if earlier.says_tried(&verifier.primary, &variants) {
                    Verdict::Foreign
                } else {
                    Verdict::Other
                }
            } else {
                match earlier.certain_of(&verifier.primary, &variants) {
                    Some(Verdict::Good) => Verdict::Good,
                    Some(_) if otherwise.is_some() => Verdict::Foreign,
                    Some(verdict) if !verdict.is_by_others() => verdict,
                    _ => {
                        let known = variants.0.iter().any(|variant| {
                            let verdict = earlier.verdicts.get(variant.at);
                            verdict.is_some_and(|verdict| {
                                !matches!(verdict, Verdict::Unchecked | Verdict::Other)
                            })
                        });
                        if verification == Verification::Deferred && !known {
                            Verdict::Unchecked
                        } else {
                            let value = signature.value();
                            let signature = Signature { numbers: &value, ..signature };
                            let verdict = verifier.verify(component, &signature, |job| {
                                batch.jobs.push(job);
                                let numbers = variants.0.iter().map(|variant| variant.at).collect();
                                batch.places.push(Place { cert: at, numbers, otherwise });
                            });
                            match verdict {
                                Verdict::Good | Verdict::Unchecked => verdict,
                                _ => otherwise.unwrap_or(verdict),
                            }
                        }
                    }
                }
            };
            let verdict = match verdict {
                Verdict::Foreign if earlier.says_certified(&variants) => Verdict::Certified,
                verdict => verdict,
            };
            variants.0.iter().for_each(|variant| verdicts[variant.at] = verdict);
        }
    }
    verdicts
}

/// A hash algorithm that is broken.
pub(crate) const MD5: u8 = 1;
/// A hash algorithm with known collisions, which are detected.
const SHA1: u8 = 2;

/// Whether a key can make a signature, by its version and algorithm.
pub(crate) fn fits(key: &Key<'_>, signature: &Signature<'_>) -> bool {
    let (by, of) = (key.algorithm, signature.algorithm);
    has_version_of(key, signature) && (by == of || matches!((by, of), (1..=3, 1 | 3)))
}

/// Whether a signature has the version of its key: keys of version 6 make signatures of version 6,
/// and no other keys do (RFC 9580, sections 5.2 and 10.3.2.2).
fn has_version_of(key: &Key<'_>, signature: &Signature<'_>) -> bool {
    (key.version == 6) == (signature.version == 6)
}

/// Whether AWS-LC computes with the exponent of an RSA key: it does with up to 33 bits.
fn has_long_exponent(e: &[u8]) -> bool {
    let e = &e[e.iter().take_while(|&&byte| byte == 0).count()..];
    e.len() > 5 || e.len() == 5 && e[0] > 1
}

/// The primary key, prepared for verification.
pub(crate) struct PrimaryKeyVerifier<'a> {
    primary: Key<'a>,
    setup: KeySetup,
    /// Digests that have taken in the primary key and one component, by hash algorithm and whether
    /// for version 3. The signatures on a component share them, so each component is hashed once
    /// per algorithm, whatever its number of signatures.
    begun: HashMap<(u8, bool), Hasher>,
    component: Option<PacketRef<'a>>,
    /// Number of bytes that may still be hashed for salted signatures, which cannot share digests:
    /// on components of each power of two of their size, so that large ones take nothing from small
    /// ones.
    salted_bytes: [usize; usize::BITS as usize],
}

/// Verifies third-party certifications of one certificate. Each component is hashed once for all of
/// them.
pub struct CertificationVerifier<'a>(PrimaryKeyVerifier<'a>);

impl<'a> CertificationVerifier<'a> {
    /// Prepares `cert`. `None` if its primary key cannot be read.
    #[must_use]
    pub fn new(cert: &'a Cert) -> Option<Self> {
        Some(Self(PrimaryKeyVerifier::new(Key::parse(cert.packets().next()?).ok()?)))
    }

    /// The verdict on a signature with this body on `component`, as a signature by `issuer`.
    /// `setup` belongs to the issuer.
    pub fn by(
        &mut self,
        issuer: &Key<'_>,
        setup: &KeySetup,
        component: PacketRef<'a>,
        body: &[u8],
    ) -> Verdict {
        let Some(signature) = Signature::parse(body) else { return Verdict::Malformed };
        let digest = match self.0.digest(component, &signature) {
            Ok(digest) => digest,
            Err(verdict) => return verdict,
        };
        let mut job = None;
        match setup.verify(issuer, &signature, &digest, |deferred| job = Some(deferred)) {
            Verdict::Unchecked => job.map_or(Verdict::Bad, |job| job.verdict()),
            verdict => verdict,
        }
    }
}

impl<'a> CertificationVerifier<'a> {
    /// Whether `issuer` made the signature on `component`, whatever the packet says about the first
    /// 16 bits of the digest. `setup` belongs to the issuer.
    pub(crate) fn made(
        &mut self,
        issuer: &Key<'_>,
        setup: &KeySetup,
        component: PacketRef<'a>,
        signature: &Signature<'_>,
    ) -> bool {
        if signature.hash == MD5 || signature.excludes(|| issuer.fingerprint()) {
            return false;
        }
        let Ok(digest) = self.0.digest(component, signature) else { return false };
        setup.made(issuer, signature, &digest)
    }
}

/// Maximum number of bytes hashed for the version 6 signatures of one certificate, on components of
/// one power of two of their size: 64 MiB, and 256 MiB for components below 8 KiB. Signatures
/// beyond that are [`Verdict::Unsupported`]. Real certificates need less than a thousandth of that.
fn salted_bytes_max(power: usize) -> usize {
    if power < 13 { 256 << 20 } else { 64 << 20 }
}

impl<'a> PrimaryKeyVerifier<'a> {
    pub(crate) fn new(primary: Key<'a>) -> Self {
        Self {
            primary,
            setup: KeySetup::default(),
            begun: HashMap::new(),
            component: None,
            salted_bytes: std::array::from_fn(salted_bytes_max),
        }
    }

    fn verify(
        &mut self,
        component: PacketRef<'a>,
        signature: &Signature<'_>,
        defer: impl FnOnce(Job),
    ) -> Verdict {
        let digest = match self.digest(component, signature) {
            Ok(digest) => digest,
            Err(verdict) => return verdict,
        };
        self.setup.verify_value(&self.primary, signature, &digest, defer)
    }

    /// The digest that a signature on `component` signs, for any signer. `None` if it cannot be
    /// computed here.
    pub(crate) fn digest_of(
        &mut self,
        component: PacketRef<'a>,
        signature: &Signature<'_>,
    ) -> Option<HashValue> {
        self.digest(component, signature).ok()
    }

    /// The digest that a signature signs (RFC 9580, section 5.2.4).
    fn digest(
        &mut self,
        component: PacketRef<'a>,
        signature: &Signature<'_>,
    ) -> Result<HashValue, Verdict> {
        let hasher = if signature.version == 6 {
            let bytes = self.primary.body.len() + component.body.len();
            let left = &mut self.salted_bytes[bytes.checked_ilog2().unwrap_or(0) as usize];
            *left = left.checked_sub(bytes).ok_or(Verdict::Unsupported)?;
            let mut hasher = Hasher::checked(signature.hash).ok_or(Verdict::Unsupported)?;
            hasher.update(signature.salt);
            self.begin(&mut hasher, component, false)?;
            hasher
        } else {
            // Compares addresses in memory. Comparing contents would be slow, since it happens for
            // every signature.
            if !self.component.is_some_and(|last| std::ptr::eq(last.body, component.body)) {
                self.begun.clear();
                self.component = Some(component);
            }
            let version_3 = signature.version == 3;
            let key = (signature.hash, version_3);
            if let Some(begun) = self.begun.get(&key) {
                begun.clone()
            } else {
                let mut hasher = Hasher::checked(signature.hash).ok_or(Verdict::Unsupported)?;
                self.begin(&mut hasher, component, version_3)?;
                self.begun.insert(key, hasher.clone());
                hasher
            }
        };
        // SHA-1 has no digest for a collision.
        let none = if signature.hash == SHA1 { Verdict::Weak } else { Verdict::Unsupported };
        signature.digest(hasher).ok_or(none)
    }

    /// Hashes the primary key and the component.
    #[expect(clippy::cast_possible_truncation, reason = "packet bodies are at most 16 MiB")]
    fn begin(
        &self,
        hasher: &mut Hasher,
        component: PacketRef<'_>,
        version_3: bool,
    ) -> Result<(), Verdict> {
        let mut key = |key: &Key<'_>| {
            let (prefix, len) = key.hash_prefix();
            hasher.update(&prefix[..len]);
            hasher.update(key.body);
        };
        key(&self.primary);
        match component.tag {
            Tag::PUBLIC_SUBKEY => key(&Key::parse(component).map_err(|_| Verdict::Malformed)?),
            Tag::USER_ID | Tag::USER_ATTRIBUTE => {
                if !version_3 {
                    let constant = if component.tag == Tag::USER_ID { 0xb4 } else { 0xd1 };
                    hasher.update(&[constant]);
                    hasher.update(&(component.body.len() as u32).to_be_bytes());
                }
                hasher.update(component.body);
            }
            _ => {}
        }
        Ok(())
    }
}

/// Intermediate results of a public key, kept so that checking its next signature is faster. A
/// setup must be used with one key only.
#[derive(Default)]
pub struct KeySetup {
    /// RSA keys in AWS-LC's form, by hash algorithm.
    rsa: [OnceLock<Option<signature::ParsedPublicKey>>; 11],
    /// An Ed25519 key, decompressed.
    ed25519: OnceLock<Option<Arc<ed25519::PublicKey>>>,
}

impl KeySetup {
    /// Verifies that `key` made `signature` over the data of `digest`.
    ///
    /// An Ed25519 signature may be given to `defer` instead, to be checked in a batch. The verdict
    /// is then [`Verdict::Unchecked`].
    pub fn verify(
        &self,
        key: &Key<'_>,
        signature: &Signature<'_>,
        digest: &HashValue,
        defer: impl FnOnce(Job),
    ) -> Verdict {
        if digest.as_bytes()[..2] != signature.digest_prefix {
            return Verdict::Bad;
        }
        self.verify_value(key, signature, digest, defer)
    }

    /// Whether `key` made `signature` over the data of `digest`, whatever the packet says about the
    /// first 16 bits of the digest.
    pub(crate) fn made(
        &self,
        key: &Key<'_>,
        signature: &Signature<'_>,
        digest: &HashValue,
    ) -> bool {
        let mut job = None;
        match self.verify_value(key, signature, digest, |deferred| job = Some(deferred)) {
            Verdict::Unchecked => job.is_some_and(|job| job.verdict() == Verdict::Good),
            verdict => verdict == Verdict::Good,
        }
    }

    /// Like [`Self::verify`], whatever the packet says about the first 16 bits of the digest.
    fn verify_value(
        &self,
        key: &Key<'_>,
        signature: &Signature<'_>,
        digest: &HashValue,
        defer: impl FnOnce(Job),
    ) -> Verdict {
        if !has_version_of(key, signature) {
            return Verdict::Bad;
        }
        match (key.material, signature.algorithm) {
            (Material::Rsa { n, e }, 1 | 3) => {
                if let HashValue::Fast(digest) = digest
                    && let Some(rsa_key) = self.rsa_key(key.bits(), signature.hash, n, e)
                {
                    return rsa(rsa_key, n.len(), digest, signature.numbers);
                }
                arithmetic::verdict(key, signature, digest.as_bytes())
            }
            (Material::Ec { curve: Some(Curve::Ed25519), point: [0x40, point @ ..] }, 22) => {
                self.ed25519(point, eddsa_legacy(signature.numbers), digest, defer)
            }
            (Material::Native(point), 27) => {
                self.ed25519(point, signature.numbers.try_into().ok(), digest, defer)
            }
            _ => arithmetic::verdict(key, signature, digest.as_bytes()),
        }
    }

    fn ed25519(
        &self,
        point: &[u8],
        signed: Option<[u8; 64]>,
        digest: &HashValue,
        defer: impl FnOnce(Job),
    ) -> Verdict {
        let (Ok(point), Some(signed)) = (point.try_into(), signed) else {
            return Verdict::Malformed;
        };
        let key = self.ed25519.get_or_init(|| ed25519::PublicKey::read(point).map(Arc::new));
        let Some(key) = key else { return Verdict::Bad };
        defer(Job::new(Arc::clone(key), signed, digest.clone()));
        Verdict::Unchecked
    }

    /// The key in AWS-LC's form. `None` for sizes and exponents that AWS-LC refuses.
    fn rsa_key(
        &self,
        bits: u16,
        hash: u8,
        n: &[u8],
        e: &[u8],
    ) -> Option<&signature::ParsedPublicKey> {
        let bits_min = if hash == 9 { 2048 } else { 1024 };
        if !(bits_min..=8192).contains(&bits) || has_long_exponent(e) {
            return None;
        }
        self.rsa[usize::from(hash)]
            .get_or_init(|| {
                let parameters: &'static RsaParameters = match hash {
                    2 => &signature::RSA_PKCS1_1024_8192_SHA1_FOR_LEGACY_USE_ONLY,
                    8 => &signature::RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY,
                    9 => &signature::RSA_PKCS1_2048_8192_SHA384,
                    _ => &signature::RSA_PKCS1_1024_8192_SHA512_FOR_LEGACY_USE_ONLY,
                };
                PublicKeyComponents { n, e }.to_parsed_public_key(parameters).ok()
            })
            .as_ref()
    }
}

/// Reads one RSA signature: an MPI, padded to the length of the modulus.
fn rsa(
    key: &signature::ParsedPublicKey,
    modulus_bytes: usize,
    digest: &digest::Digest,
    numbers: &[u8],
) -> Verdict {
    let Some(number) = mpi(numbers).map(|(number, _)| number) else { return Verdict::Malformed };
    if number.len() > modulus_bytes {
        return Verdict::Bad;
    }
    let mut padded = vec![0; modulus_bytes - number.len()];
    padded.extend_from_slice(number);
    match key.verify_digest_sig(digest, &padded) {
        Ok(()) => Verdict::Good,
        Err(_) => Verdict::Bad,
    }
}

/// The Ed25519 signatures of one unit of work, each with the place of its verdict.
#[derive(Default)]
struct Batch {
    jobs: Vec<Job>,
    places: Vec<Place>,
}

/// The place of the verdict on a signature.
struct Place {
    /// Index of the certificate.
    cert: usize,
    /// Indexes of the packets of the signature.
    numbers: Vec<usize>,
    /// The verdict if the primary key did not make the signature, unless it is [`Verdict::Bad`].
    otherwise: Option<Verdict>,
}

impl Batch {
    /// Writes each verdict to the place of its signature.
    fn write(self, verdicts: &mut [Vec<Verdict>]) {
        for (place, verdict) in self.places.into_iter().zip(ed25519_verdicts(&self.jobs)) {
            let verdict = match place.otherwise {
                Some(otherwise) if verdict != Verdict::Good => otherwise,
                _ => verdict,
            };
            place.numbers.iter().for_each(|&number| verdicts[place.cert][number] = verdict);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_on_large_components_take_nothing_from_those_on_small_ones() {
        let key = [4, 0, 0, 0, 1, 1, 0, 9, 1, 1, 0, 2, 3];
        let primary = Key::parse(PacketRef { tag: Tag::PUBLIC_KEY, body: &key }).unwrap();
        let mut verifier = PrimaryKeyVerifier::new(primary);
        let mut body = vec![6, 0x13, 27, 8, 0, 0, 0, 6, 5, 2, 0, 0, 0, 1, 0, 0, 0, 0, 1, 2, 16];
        body.extend([9; 16 + 64]);
        let signature = Signature::parse(&body).unwrap();
        let user_id = |body| PacketRef { tag: Tag::USER_ID, body };
        let large = vec![b'u'; 2 << 20];
        let mut digests = |of: &'static [u8]| {
            (0..40).filter(|_| verifier.digest(user_id(of), &signature).is_ok()).count()
        };
        assert_eq!(digests(large.leak()), 31);
        assert_eq!(digests(b"Alice <alice@example.org>"), 40);
    }
}
