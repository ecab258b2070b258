//! Key pairs that follow from a seed, and signatures by them.
//!
//! They are for measurements only: who knows the seed knows the keys, and RSA keys share primes.

use aws_lc_rs::agreement::{PrivateKey, X25519};
use aws_lc_rs::digest::{self, Context, SHA1_FOR_LEGACY_USE_ONLY, SHA256, SHA512};
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use openssl::bn::{BigNum, BigNumContext, BigNumRef};
use openssl::error::ErrorStack;
use openssl::pkey::Private;
use openssl::rsa::{Padding, Rsa};
use rayon::prelude::*;

/// Public exponent of all RSA keys.
const EXPONENT: u32 = 65_537;

/// Primes are shared from here on: 512 make 130,816 different RSA keys.
const PRIMES_MAX: usize = 512;

/// 64 bytes derived from the seed, a number and their purpose.
pub(crate) fn derive(seed: u64, index: u64, purpose: &str) -> [u8; 64] {
    let mut context = Context::new(&SHA512);
    context.update(&seed.to_be_bytes());
    context.update(&index.to_be_bytes());
    context.update(purpose.as_bytes());
    let mut out = [0; 64];
    out.copy_from_slice(context.finish().as_ref());
    out
}

/// The first 32 bytes of [`derive`], as secret keys are made from.
pub(crate) fn secret(seed: u64, index: u64, purpose: &str) -> [u8; 32] {
    let mut out = [0; 32];
    out.copy_from_slice(&derive(seed, index, purpose)[..32]);
    out
}

/// The purpose of a key and its algorithm (RFC 9580, section 9.1).
pub(crate) enum Secret {
    /// Algorithm 22.
    EdDsaLegacy(Ed25519KeyPair),
    /// Algorithm 27.
    Ed25519(Ed25519KeyPair),
    /// Algorithm 1.
    Rsa(Rsa<Private>),
    /// Algorithm 18 on Curve25519; it cannot sign.
    Ecdh,
    /// Algorithm 25; it cannot sign.
    X25519,
}

/// A key pair with its public key packet.
pub(crate) struct KeyPair {
    /// Body of the public key packet.
    pub(crate) body: Vec<u8>,
    pub(crate) fingerprint: [u8; 20],
    /// Seconds since 1970.
    pub(crate) created: u32,
    pub(crate) secret: Secret,
}

impl KeyPair {
    fn new(created: u32, secret: Secret, algorithm: u8, material: &[u8]) -> Self {
        let mut body = Vec::with_capacity(6 + material.len());
        body.push(4);
        body.extend_from_slice(&created.to_be_bytes());
        body.push(algorithm);
        body.extend_from_slice(material);
        let mut context = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
        context.update(&framed(&body));
        context.update(&body);
        let mut fingerprint = [0; 20];
        fingerprint.copy_from_slice(context.finish().as_ref());
        Self { body, fingerprint, created, secret }
    }

    /// A signing key of algorithm 22, as GnuPG 2.2 and 2.4 write it.
    pub(crate) fn eddsa_legacy(secret: &[u8; 32], created: u32) -> Self {
        const OID: &[u8] = &[9, 0x2b, 0x06, 0x01, 0x04, 0x01, 0xda, 0x47, 0x0f, 0x01];
        let secret = signing(secret);
        let material = [OID, &[1, 7, 0x40], secret.public_key().as_ref()].concat();
        Self::new(created, Secret::EdDsaLegacy(secret), 22, &material)
    }

    /// An encryption key of algorithm 18, as GnuPG 2.2 and 2.4 write it.
    pub(crate) fn ecdh(secret: &[u8; 32], created: u32) -> Self {
        const OID: &[u8] = &[10, 0x2b, 0x06, 0x01, 0x04, 0x01, 0x97, 0x55, 0x01, 0x05, 0x01];
        // SHA-256 and AES-128 derive the key that wraps the session key.
        let material = [OID, &[1, 7, 0x40], &point(secret), &[3, 1, 8, 7]].concat();
        Self::new(created, Secret::Ecdh, 18, &material)
    }

    /// A signing key of algorithm 27 (RFC 9580).
    pub(crate) fn ed25519(secret: &[u8; 32], created: u32) -> Self {
        let secret = signing(secret);
        let public = secret.public_key().as_ref().to_vec();
        Self::new(created, Secret::Ed25519(secret), 27, &public)
    }

    /// An encryption key of algorithm 25 (RFC 9580).
    pub(crate) fn x25519(secret: &[u8; 32], created: u32) -> Self {
        Self::new(created, Secret::X25519, 25, &point(secret))
    }

    /// An RSA key of 2048 bits.
    pub(crate) fn rsa(key: Rsa<Private>, created: u32) -> Self {
        let mut material = Vec::with_capacity(263);
        push_mpi(&mut material, &key.n().to_vec());
        push_mpi(&mut material, &key.e().to_vec());
        Self::new(created, Secret::Rsa(key), 1, &material)
    }

    /// The number of its algorithm.
    pub(crate) fn algorithm(&self) -> u8 {
        self.body[5]
    }

    /// The low half of the fingerprint's last 16 bytes.
    pub(crate) fn key_id(&self) -> &[u8] {
        &self.fingerprint[12..]
    }

    /// Number of the hash algorithm in signatures by this key.
    pub(crate) fn hash(&self) -> u8 {
        if matches!(self.secret, Secret::Rsa(_)) { 10 } else { 8 }
    }

    /// Starts the digest of a signature by this key.
    pub(crate) fn hasher(&self) -> Context {
        Context::new(if self.hash() == 10 { &SHA512 } else { &SHA256 })
    }

    /// Signs a digest and appends the numbers of the signature to `out`.
    pub(crate) fn sign(&self, digest: &digest::Digest, out: &mut Vec<u8>) {
        match &self.secret {
            Secret::EdDsaLegacy(key) => {
                let signed = key.sign(digest.as_ref());
                let (r, s) = signed.as_ref().split_at(32);
                push_mpi(out, r);
                push_mpi(out, s);
            }
            Secret::Ed25519(key) => out.extend_from_slice(key.sign(digest.as_ref()).as_ref()),
            Secret::Rsa(key) => {
                // DigestInfo of SHA-512 (RFC 8017, section 9.2).
                const PREFIX: [u8; 19] = [
                    0x30, 0x51, 0x30, 0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04,
                    0x02, 0x03, 0x05, 0x00, 0x04, 0x40,
                ];
                let info = [&PREFIX[..], digest.as_ref()].concat();
                let mut signed = [0; 256];
                key.private_encrypt(&info, &mut signed, Padding::PKCS1)
                    .expect("a key of 2048 bits signs a digest of 64 bytes");
                push_mpi(out, &signed);
            }
            Secret::Ecdh | Secret::X25519 => unreachable!("encryption keys are not asked to sign"),
        }
    }
}

fn signing(secret: &[u8; 32]) -> Ed25519KeyPair {
    Ed25519KeyPair::from_seed_unchecked(secret).expect("any 32 bytes are a key")
}

/// The public point of a Curve25519 key.
fn point(secret: &[u8; 32]) -> Vec<u8> {
    let key = PrivateKey::from_private_key(&X25519, secret).expect("any 32 bytes are a key");
    key.compute_public_key().expect("any key has a point").as_ref().to_vec()
}

/// The prefix of the body of a version 4 key when it is hashed.
#[expect(clippy::cast_possible_truncation, reason = "key bodies here have a few hundred bytes")]
pub(crate) fn framed(body: &[u8]) -> [u8; 3] {
    let len = (body.len() as u16).to_be_bytes();
    [0x99, len[0], len[1]]
}

/// Appends a multiprecision integer (RFC 9580, section 3.2).
#[expect(clippy::cast_possible_truncation, reason = "numbers here have at most 2048 bits")]
fn push_mpi(out: &mut Vec<u8>, number: &[u8]) {
    let zeros = number.iter().take_while(|&&byte| byte == 0).count();
    let number = &number[zeros..];
    let top = number.first().map_or(0, |byte| byte.leading_zeros() as usize);
    out.extend_from_slice(&((number.len() * 8 - top) as u16).to_be_bytes());
    out.extend_from_slice(number);
}

/// Primes of 1024 bits, each a function of the seed and its number; any two make an RSA key.
pub(crate) struct Primes(Vec<BigNum>);

impl Primes {
    /// As many primes as are needed for `keys` different keys, up to [`PRIMES_MAX`]. Some 10 ms of
    /// computation for each of them, on all cores.
    pub(crate) fn new(seed: u64, keys: u64) -> Self {
        if keys == 0 {
            return Self(Vec::new());
        }
        let wanted =
            usize::try_from((2 * keys).isqrt() + 2).map_or(PRIMES_MAX, |n| n.min(PRIMES_MAX));
        let sieve = small_primes();
        let prime = |at: usize| prime(seed, at as u64, &sieve).expect("memory for a few numbers");
        Self((0..wanted).into_par_iter().map(prime).collect())
    }

    /// RSA key number `number`.
    pub(crate) fn key(&self, number: u64) -> Rsa<Private> {
        // With a limit that does not depend on how many primes there are now: a key is the same
        // in a small set and in a large one.
        let number = number % (PRIMES_MAX as u64 * (PRIMES_MAX as u64 - 1) / 2);
        let b = u64::midpoint(1, (1 + 8 * number).isqrt());
        let a = number - b * (b - 1) / 2;
        let at = |n: u64| &self.0[usize::try_from(n).expect("primes are counted")];
        assemble(at(a), at(b)).expect("two primes make a key")
    }
}

#[expect(clippy::many_single_char_names, reason = "RFC 8017 names them so")]
fn assemble(p: &BigNumRef, q: &BigNumRef) -> Result<Rsa<Private>, ErrorStack> {
    let (p, q) = if p > q { (p, q) } else { (q, p) };
    let mut context = BigNumContext::new()?;
    let less = |number: &BigNumRef| -> Result<BigNum, ErrorStack> {
        let mut less = number.to_owned()?;
        less.sub_word(1)?;
        Ok(less)
    };
    let (p1, q1) = (less(p)?, less(q)?);
    let (mut n, mut phi, mut d) = (BigNum::new()?, BigNum::new()?, BigNum::new()?);
    let (mut dp, mut dq, mut inverse) = (BigNum::new()?, BigNum::new()?, BigNum::new()?);
    let e = BigNum::from_u32(EXPONENT)?;
    n.checked_mul(p, q, &mut context)?;
    phi.checked_mul(&p1, &q1, &mut context)?;
    d.mod_inverse(&e, &phi, &mut context)?;
    dp.nnmod(&d, &p1, &mut context)?;
    dq.nnmod(&d, &q1, &mut context)?;
    inverse.mod_inverse(q, p, &mut context)?;
    Rsa::from_private_components(n, e, d, p.to_owned()?, q.to_owned()?, dp, dq, inverse)
}

/// The odd primes below 2^14.
fn small_primes() -> Vec<u32> {
    let mut found: Vec<u32> = Vec::with_capacity(1900);
    for number in (3..1 << 14).step_by(2) {
        let divides = |prime: &&u32| number % **prime == 0;
        if !found.iter().take_while(|prime| **prime * **prime <= number).any(|p| divides(&p)) {
            found.push(number);
        }
    }
    found
}

/// The first prime after a number that follows from the seed.
fn prime(seed: u64, index: u64, sieve: &[u32]) -> Result<BigNum, ErrorStack> {
    let start = [derive(seed, index, "prime, high"), derive(seed, index, "prime, low")].concat();
    let mut start = BigNum::from_slice(&start)?;
    // The two top bits, so that the product of two of them has 2048 bits.
    for bit in [0, 1022, 1023] {
        start.set_bit(bit)?;
    }
    let mut remainders = Vec::with_capacity(sieve.len());
    for &small in sieve {
        remainders.push(u32::try_from(start.mod_word(small)?).unwrap_or(0));
    }
    let mut context = BigNumContext::new()?;
    let two = BigNum::from_u32(2)?;
    let mut power = BigNum::new()?;
    for step in (2u32..).step_by(2) {
        if remainders.iter().zip(sieve).any(|(rest, small)| (rest + step) % small == 0) {
            continue;
        }
        let mut less = start.as_ref().to_owned()?;
        less.add_word(step - 1)?;
        let mut candidate = less.as_ref().to_owned()?;
        candidate.add_word(1)?;
        if candidate.mod_word(EXPONENT)? == 1 {
            continue;
        }
        // Fermat's test to base 2: of random numbers of this size it lets none through that is not
        // prime, for all anybody knows.
        power.mod_exp(&two, &less, &candidate, &mut context)?;
        if power == BigNum::from_u32(1)? {
            return Ok(candidate);
        }
    }
    unreachable!("there is a prime within 4 billion numbers of 1024 bits")
}
