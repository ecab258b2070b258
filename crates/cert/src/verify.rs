//! Verdicts on the self-signatures of a certificate.
//!
//! A verdict is pure arithmetic. It depends on the key, the component and the signature, never on time or
//! policy, so it is computed once and stored permanently. [`crate::summary`] decides what a good signature
//! means today.
//!
//! The cheapest check comes first. A digest whose first 16 bits differ ends the check. RSA keys are set up
//! once per certificate (AWS-LC). Ed25519 signatures of many certificates are checked in batches
//! ([`crate::ed25519`]). [`crate::arithmetic`] handles all other algorithms.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use aws_lc_rs::digest;
use aws_lc_rs::rsa::PublicKeyComponents;
use aws_lc_rs::signature::{self, RsaParameters};
use rayon::prelude::*;

use crate::arithmetic;
use crate::ed25519::{self, Job, ed25519_verdicts};
use crate::hash::{HashValue, Hasher};
use crate::key::Material;
use crate::packet::{PacketRef, Tag};
use crate::signature::kind;
use crate::{Cert, Curve, Key, Signature};

/// The verdict on one signature packet.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[repr(u8)]
pub enum Verdict {
    /// Names the primary key as its issuer; not verified yet.
    Unchecked = 0,
    /// Made by the primary key over this component.
    Good = 1,
    /// Names the primary key as its issuer, but was not made by it.
    Bad = 2,
    /// Uses an algorithm, version or curve that is not supported here.
    Unsupported = 3,
    /// Uses a broken digest algorithm (MD5).
    Weak = 4,
    /// Its fields do not fit into the packet.
    Malformed = 5,
    /// Names another key as its issuer, or none.
    Foreign = 6,
    /// Its type does not belong on this component.
    Misplaced = 7,
}

impl Verdict {
    /// The verdict with a number, as given by casting [`Self`] to `u8`.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        const ALL: [Verdict; 8] = [
            Verdict::Unchecked,
            Verdict::Good,
            Verdict::Bad,
            Verdict::Unsupported,
            Verdict::Weak,
            Verdict::Malformed,
            Verdict::Foreign,
            Verdict::Misplaced,
        ];
        ALL.get(usize::from(number)).copied()
    }
}

/// Whether self-signatures are verified now.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Verification {
    /// Verify all self-signatures.
    #[default]
    Full,
    /// Verify none: they stay [`Verdict::Unchecked`].
    Deferred,
}

/// The version of this verifier. It grows when signatures are judged differently, or when an algorithm is
/// added. A store records it beside the verdicts.
///
/// Version 1 did not record its number. It accepted Ed25519 signatures that other programs reject, and
/// rejected signatures whose claimed date is before their key's. Version 2 checks the arithmetic only.
pub const VERIFIER: u8 = 2;

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
    /// The earlier verdict on a signature, if this verifier comes to the same. `None` if the signature must
    /// be verified again.
    ///
    /// A newer verifier than this one may know more, but this version cannot rely on it.
    fn certain(&self, number: usize, algorithm: u8) -> Option<Verdict> {
        let verdict = *self.verdicts.get(number)?;
        let is_certain = match verdict {
            Verdict::Unchecked => false,
            Verdict::Unsupported => self.verifier == VERIFIER,
            Verdict::Good => self.verifier >= 2 || matches!(algorithm, 1 | 3),
            _ => self.verifier >= 2,
        };
        (is_certain && self.verifier <= VERIFIER).then_some(verdict)
    }
}

/// Number of certificates that are verified as one unit of work: large enough for efficient Ed25519 batches,
/// small enough to keep all cores busy.
const UNIT_CERTS: std::ops::RangeInclusive<usize> = 256..=1024;

/// Verdicts on all signatures of `certs`, one list per certificate in canonical packet order.
/// Uses all cores.
#[must_use]
pub fn verdicts(certs: &[&Cert], verification: Verification) -> Vec<Vec<Verdict>> {
    let none = Earlier { verdicts: &[], verifier: VERIFIER };
    let certs: Vec<_> = certs.iter().map(|&cert| (cert, none)).collect();
    renewed(&certs, verification)
}

/// Verdicts on all signatures of `certs`. Earlier verdicts are reused where this verifier agrees with them.
/// Uses all cores.
///
/// If `verification` is deferred, unchecked signatures stay unchecked, but uncertain verdicts are still
/// recomputed.
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
                .map(|(at, (cert, earlier))| check(cert, *earlier, verification, at, &mut batch))
                .collect();
            batch.write(&mut out);
            out
        })
        .collect()
}

/// Verdicts on the signatures of `joined`. Those that `known` has too are taken from `verdicts`; the others
/// are not verified here.
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

/// Verifies the signatures of `joined` that are [`Verdict::Unchecked`] in `carried`. Also verifies those
/// that the verifier of version `verifier`, which made the other verdicts, may have judged differently.
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

/// Whether a signature of this type may be on a component of this kind.
fn belongs(kind: u8, component: Tag) -> bool {
    match component {
        Tag::PUBLIC_KEY => matches!(kind, kind::DIRECT_KEY | kind::KEY_REVOCATION),
        Tag::USER_ID | Tag::USER_ATTRIBUTE => {
            kind::CERTIFICATION.contains(&kind) || kind == kind::CERTIFICATION_REVOCATION
        }
        Tag::PUBLIC_SUBKEY => matches!(kind, kind::SUBKEY_BINDING | kind::SUBKEY_REVOCATION),
        _ => false,
    }
}

fn check(
    cert: &Cert,
    earlier: Earlier<'_>,
    verification: Verification,
    at: usize,
    batch: &mut Batch,
) -> Vec<Verdict> {
    let Some(Ok(primary)) = cert.packets().next().map(Key::parse) else { return Vec::new() };
    let id = cert.fingerprint().key_id();
    let mut verifier = PrimaryKeyVerifier::new(primary);
    signatures(cert)
        .enumerate()
        .map(|(number, (component, body))| {
            let Some(signature) = Signature::parse(body) else { return Verdict::Malformed };
            match signature {
                _ if !signature.names(id) => Verdict::Foreign,
                _ if !belongs(signature.kind, component.tag) => Verdict::Misplaced,
                Signature { hash: 1, .. } => Verdict::Weak,
                _ => {
                    let known =
                        earlier.verdicts.get(number).is_some_and(|&v| v != Verdict::Unchecked);
                    if let Some(verdict) = earlier.certain(number, signature.algorithm) {
                        return verdict;
                    }
                    if verification == Verification::Deferred && !known {
                        return Verdict::Unchecked;
                    }
                    verifier.verify(component, &signature, |job| {
                        batch.jobs.push(job);
                        batch.places.push((at, number));
                    })
                }
            }
        })
        .collect()
}

/// The primary key, prepared for verification.
pub(crate) struct PrimaryKeyVerifier<'a> {
    primary: Key<'a>,
    setup: KeySetup,
    /// Digests that have taken in the primary key and one component, by hash algorithm and whether for
    /// version 3. The signatures on a component share them, so each component is hashed once per algorithm,
    /// whatever its number of signatures.
    begun: HashMap<(u8, bool), Hasher>,
    component: Option<PacketRef<'a>>,
    /// Number of bytes that may still be hashed for salted signatures, which cannot share digests.
    salted_bytes: usize,
}

/// Verifies third-party certifications of one certificate. Each component is hashed once for all of them.
pub struct CertificationVerifier<'a>(PrimaryKeyVerifier<'a>);

impl<'a> CertificationVerifier<'a> {
    /// Prepares `cert`. `None` if its primary key cannot be read.
    #[must_use]
    pub fn new(cert: &'a Cert) -> Option<Self> {
        Some(Self(PrimaryKeyVerifier::new(Key::parse(cert.packets().next()?).ok()?)))
    }

    /// The verdict on a signature with this body on `component`, as a signature by `issuer`. `setup` belongs
    /// to the issuer.
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

/// Maximum number of bytes hashed for the version 6 signatures of one certificate: 1 GiB. Signatures beyond
/// that are [`Verdict::Unsupported`]. Real certificates need less than a ten-thousandth of that.
const SALTED_BYTES_MAX: usize = 1 << 30;

impl<'a> PrimaryKeyVerifier<'a> {
    pub(crate) fn new(primary: Key<'a>) -> Self {
        Self {
            primary,
            setup: KeySetup::default(),
            begun: HashMap::new(),
            component: None,
            salted_bytes: SALTED_BYTES_MAX,
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
        self.setup.verify(&self.primary, signature, &digest, defer)
    }

    /// The digest that a signature on `component` signs, for any signer. `None` if it cannot be computed
    /// here.
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
            self.salted_bytes = self.salted_bytes.checked_sub(bytes).ok_or(Verdict::Unsupported)?;
            let mut hasher = Hasher::new(signature.hash).ok_or(Verdict::Unsupported)?;
            hasher.update(signature.salt);
            self.begin(&mut hasher, component, false)?;
            hasher
        } else {
            // Compares addresses in memory. Comparing contents would be slow, since it happens for every
            // signature.
            if !self.component.is_some_and(|last| std::ptr::eq(last.body, component.body)) {
                self.begun.clear();
                self.component = Some(component);
            }
            let version_3 = signature.version == 3;
            let key = (signature.hash, version_3);
            if let Some(begun) = self.begun.get(&key) {
                begun.clone()
            } else {
                let mut hasher = Hasher::new(signature.hash).ok_or(Verdict::Unsupported)?;
                self.begin(&mut hasher, component, version_3)?;
                self.begun.insert(key, hasher.clone());
                hasher
            }
        };
        signature.digest(hasher).ok_or(Verdict::Unsupported)
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

/// Intermediate results of a public key, kept so that checking its next signature is faster. A setup must be
/// used with one key only.
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
    /// An Ed25519 signature may be given to `defer` instead, to be checked in a batch. The verdict is then
    /// [`Verdict::Unchecked`].
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
                self.ed25519(point, ed25519_legacy(signature.numbers), digest, defer)
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

    /// The key in AWS-LC's form. `None` for sizes that AWS-LC refuses.
    fn rsa_key(
        &self,
        bits: u16,
        hash: u8,
        n: &[u8],
        e: &[u8],
    ) -> Option<&signature::ParsedPublicKey> {
        let bits_min = if hash == 9 { 2048 } else { 1024 };
        if !(bits_min..=8192).contains(&bits) {
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

pub(crate) fn mpi(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&bits, rest) = bytes.split_first_chunk::<2>()?;
    rest.split_at_checked(usize::from(u16::from_be_bytes(bits)).div_ceil(8))
}

/// The two MPIs of an `EdDSA` signature in version 4 form, as 64 octets.
pub(crate) fn ed25519_legacy(numbers: &[u8]) -> Option<[u8; 64]> {
    let (r, rest) = mpi(numbers)?;
    let (s, _) = mpi(rest)?;
    let mut out = [0; 64];
    out.get_mut(32usize.checked_sub(r.len())?..32)?.copy_from_slice(r);
    out.get_mut(64usize.checked_sub(s.len()).filter(|&at| at >= 32)?..)?.copy_from_slice(s);
    Some(out)
}

/// The Ed25519 signatures of one unit of work, each with the index of its certificate and of its signature.
#[derive(Default)]
struct Batch {
    jobs: Vec<Job>,
    places: Vec<(usize, usize)>,
}

impl Batch {
    /// Writes each verdict to the place of its signature.
    fn write(self, verdicts: &mut [Vec<Verdict>]) {
        for ((cert, signature), verdict) in
            self.places.into_iter().zip(ed25519_verdicts(&self.jobs))
        {
            verdicts[cert][signature] = verdict;
        }
    }
}
