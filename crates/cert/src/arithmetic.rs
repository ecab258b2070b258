//! The arithmetic of signatures on a digest, for all algorithms. Times, versions and the first bits
//! of the digest are not checked here: other code does that, and each peer's software has its own
//! rules.
//!
//! [`crate::verify`] has faster paths for common algorithms, with the same results.

use std::borrow::Cow;

use openssl::bn::{BigNum, BigNumContext, BigNumRef};
use openssl::dsa::{Dsa, DsaSig};
use openssl::ec::{EcGroup, EcKey, EcPoint};
use openssl::ecdsa::EcdsaSig;
use openssl::nid::Nid;
use openssl::pkey::{Id, PKey};
use openssl::pkey_ctx::PkeyCtx;
use openssl::sign::Verifier;

use crate::ed25519::PublicKey;
use crate::fields::{eddsa_legacy, mpi};
use crate::key::{Curve, Key, Material};
use crate::signature::Signature;
use crate::verdict::Verdict;

/// Longest modulus of an RSA key that is accepted, as in OpenSSL: 16,384 bits.
const MODULUS_BITS_MAX: i32 = 16_384;

/// Longest exponent of an RSA key whose modulus may have [`MODULUS_BITS_MAX`]. The time for a
/// signature grows with the length of the exponent.
const EXPONENT_BITS_MAX: i32 = 64;

/// Longest modulus of an RSA key with a longer exponent. A signature takes at most 20 ms.
const LONG_EXPONENT_BITS_MAX: i32 = 4096;

/// Shortest padding of an RSA signature, in bytes (RFC 8017, section 9.2).
const PADDING_BYTES_MIN: usize = 8;

/// Longest modulus of a DSA key that is accepted. gpg makes no DSA keys with more than 3,072 bits,
/// and the time for a signature grows with the square of the length.
const DSA_MODULUS_BITS_MAX: i32 = 4096;

/// Longest order of a DSA key that is accepted; gpg makes no DSA keys with more than 512 bits.
const ORDER_BITS_MAX: i32 = 512;

/// The order of the group of Ed448.
const ED448_ORDER: &str = concat!(
    "3fffffffffffffffffffffffffffffffffffffffffffffffffffffff7cca23e9c44edb49aed63690216cc2728dc58f55",
    "2378c292ab5844f3",
);

/// Whether `key` made this signature on this digest.
pub(crate) fn is_right(key: &Key<'_>, signature: &Signature<'_>, digest: &[u8]) -> bool {
    verdict(key, signature, digest) == Verdict::Good
}

/// Checks whether `key` made this signature on this digest: [`Verdict::Good`], [`Verdict::Bad`],
/// [`Verdict::Malformed`] or [`Verdict::Unsupported`].
pub(crate) fn verdict(key: &Key<'_>, signature: &Signature<'_>, digest: &[u8]) -> Verdict {
    let numbers = signature.numbers;
    let right = match (key.material, signature.algorithm) {
        (Material::Rsa { n, e }, 1 | 3) => rsa(n, e, signature.hash, digest, numbers),
        (Material::Dsa { p, q, g, y }, 17) => dsa([p, q, g, y], digest, numbers),
        (Material::Ec { curve: Some(curve), point }, 19) => ecdsa(curve, point, digest, numbers),
        (Material::Ec { curve: Some(Curve::Ed25519), point: [0x40, point @ ..] }, 22) => {
            eddsa_legacy::<64>(numbers)
                .ok_or(Verdict::Malformed)
                .map(|signed| ed25519(point, digest, &signed))
        }
        (Material::Ec { curve: Some(Curve::Ed448), point: [0x40, point @ ..] }, 22)
            if point.len() == 57 =>
        {
            // The first number has both halves, after a prefix byte.
            let both = mpi(numbers).and_then(|(both, _)| both.get(1..));
            both.ok_or(Verdict::Malformed).and_then(|both| ed448(point, digest, both))
        }
        (Material::Ec { curve: Some(Curve::Ed448), point }, 22) => {
            // GnuPG writes no prefixes: neither to the point nor to the two numbers.
            let both = eddsa_legacy::<114>(numbers).ok_or(Verdict::Malformed);
            both.and_then(|both| ed448(point, digest, &both))
        }
        (Material::Native(point), 27) => {
            let signed = numbers.get(..64).ok_or(Verdict::Malformed);
            signed.map(|signed| ed25519(point, digest, signed))
        }
        (Material::Native(point), 28) => {
            let signed = numbers.get(..114).ok_or(Verdict::Malformed);
            signed.and_then(|signed| ed448(point, digest, signed))
        }
        _ => Err(Verdict::Unsupported),
    };
    match right {
        Ok(true) => Verdict::Good,
        Ok(false) => Verdict::Bad,
        Err(verdict) => verdict,
    }
}

/// Whether the signature's numbers are right, or the verdict if they cannot be checked.
type Right = Result<bool, Verdict>;

/// The prefix that RSA signatures put before a digest (RFC 9580, section 5.2.2): the object
/// identifier of the hash algorithm. The first byte, the total length, is left out.
fn digest_info(hash: u8) -> Option<&'static [u8]> {
    Some(match hash {
        1 => &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x02, 0x05],
        2 => &[0x2b, 0x0e, 0x03, 0x02, 0x1a],
        3 => &[0x2b, 0x24, 0x03, 0x02, 0x01],
        8 => &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01],
        9 => &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x02],
        10 => &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x03],
        11 => &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x04],
        12 => &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x08],
        14 => &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x0a],
        _ => return None,
    })
}

#[expect(clippy::cast_possible_truncation, reason = "identifiers and digests are short")]
fn rsa(n: &[u8], e: &[u8], hash: u8, digest: &[u8], numbers: &[u8]) -> Right {
    let oid = digest_info(hash).ok_or(Verdict::Unsupported)?;
    let mut expected = vec![0x30, (8 + oid.len() + digest.len()) as u8];
    expected.extend_from_slice(&[0x30, (4 + oid.len()) as u8, 0x06, oid.len() as u8]);
    expected.extend_from_slice(oid);
    expected.extend_from_slice(&[0x05, 0x00, 0x04, digest.len() as u8]);
    expected.extend_from_slice(digest);
    let (number, _) = mpi(numbers).ok_or(Verdict::Malformed)?;
    let (modulus, exponent, number) = (big(n)?, big(e)?, big(number)?);
    let is_long = exponent.num_bits() > EXPONENT_BITS_MAX;
    if modulus.num_bits() > if is_long { LONG_EXPONENT_BITS_MAX } else { MODULUS_BITS_MAX } {
        return Err(Verdict::Unsupported);
    }
    // No key is generated with an even modulus, and a signature is below the modulus.
    let bytes = usize::try_from(modulus.num_bytes()).map_err(|_| Verdict::Unsupported)?;
    let padding = bytes.saturating_sub(expected.len() + 3);
    if !modulus.is_bit_set(0) || number >= modulus || padding < PADDING_BYTES_MIN {
        return Ok(false);
    }
    let (mut power, mut cx) =
        (BigNum::new().map_err(unsupported)?, BigNumContext::new().map_err(unsupported)?);
    power.mod_exp(&number, &exponent, &modulus, &mut cx).map_err(unsupported)?;
    let padded = [&[1][..], &vec![0xff; padding], &[0], &expected].concat();
    Ok(*power == *big(&padded)?)
}

fn dsa(key: [&[u8]; 4], digest: &[u8], numbers: &[u8]) -> Right {
    let (r, rest) = mpi(numbers).ok_or(Verdict::Malformed)?;
    let (s, _) = mpi(rest).ok_or(Verdict::Malformed)?;
    let [modulus, order, base, public] = key.map(big);
    let (modulus, order, base, public) = (modulus?, order?, base?, public?);
    let (r, s) = (big(r)?, big(s)?);
    if modulus.num_bits() > DSA_MODULUS_BITS_MAX
        || order.num_bits() > ORDER_BITS_MAX
        || order.num_bits() % 8 != 0
        || order.num_bits() == 0
    {
        return Err(Verdict::Unsupported);
    }
    if r.num_bits() == 0 || s.num_bits() == 0 || r >= order || s >= order {
        return Ok(false);
    }
    // OpenSSL takes the key sizes of the standard, which nearly all keys have.
    let standard = || {
        let copy = |number: &BigNumRef| number.to_owned();
        let key = Dsa::from_public_components(
            copy(&modulus).ok()?,
            copy(&order).ok()?,
            copy(&base).ok()?,
            copy(&public).ok()?,
        );
        let signed = DsaSig::from_private_components(copy(&r).ok()?, copy(&s).ok()?).ok()?;
        let key = PKey::from_dsa(key.ok()?).ok()?;
        let mut cx = PkeyCtx::new(&key).ok()?;
        cx.verify_init().ok()?;
        cx.verify(digest, &signed.to_der().ok()?).ok()
    };
    match standard() {
        Some(right) => Ok(right),
        None => dsa_equation([&modulus, &order, &base, &public], digest, &r, &s),
    }
}

/// The equation of FIPS 186-4, section 4.7, for numbers of any size.
fn dsa_equation(key: [&BigNumRef; 4], digest: &[u8], r: &BigNumRef, s: &BigNumRef) -> Right {
    let [modulus, order, base, public] = key;
    let bytes = usize::try_from(order.num_bytes()).map_err(|_| Verdict::Unsupported)?;
    let hashed = big(&digest[..digest.len().min(bytes)])?;
    let mut cx = BigNumContext::new().map_err(unsupported)?;
    let number = || BigNum::new().map_err(unsupported);
    let mut inverse = number()?;
    if inverse.mod_inverse(s, order, &mut cx).is_err() {
        return Ok(false);
    }
    let (mut u1, mut u2, mut left, mut right) = (number()?, number()?, number()?, number()?);
    let (mut whole, mut remainder) = (number()?, number()?);
    u1.mod_mul(&hashed, &inverse, order, &mut cx)
        .and_then(|()| u2.mod_mul(r, &inverse, order, &mut cx))
        .and_then(|()| left.mod_exp(base, &u1, modulus, &mut cx))
        .and_then(|()| right.mod_exp(public, &u2, modulus, &mut cx))
        .and_then(|()| whole.mod_mul(&left, &right, modulus, &mut cx))
        .and_then(|()| remainder.nnmod(&whole, order, &mut cx))
        .map_err(unsupported)?;
    Ok(*remainder == *r)
}

fn ecdsa(curve: Curve, point: &[u8], digest: &[u8], numbers: &[u8]) -> Right {
    let nid = weierstrass(curve).ok_or(Verdict::Unsupported)?;
    let group = EcGroup::from_curve_name(nid).map_err(unsupported)?;
    let (r, rest) = mpi(numbers).ok_or(Verdict::Malformed)?;
    let (s, _) = mpi(rest).ok_or(Verdict::Malformed)?;
    let signed = EcdsaSig::from_private_components(big(r)?, big(s)?).map_err(unsupported)?;
    let mut cx = BigNumContext::new().map_err(unsupported)?;
    // A point that is not on the curve cannot have made a signature.
    let Ok(point) = EcPoint::from_bytes(&group, point, &mut cx) else { return Ok(false) };
    let key = EcKey::from_public_key(&group, &point).map_err(unsupported)?;
    Ok(signed.verify(digest, &key).unwrap_or(false))
}

/// Ed25519 as Go verifies it, for Hockeypuck's views. The verdicts of talaria come from
/// [`crate::ed25519`].
fn ed25519(point: &[u8], digest: &[u8], signed: &[u8]) -> bool {
    let (Ok(point), Ok(signed)) = (point.try_into(), signed.try_into()) else { return false };
    PublicKey::read(point).is_some_and(|key| key.satisfies(digest, signed))
}

fn ed448(point: &[u8], digest: &[u8], signed: &[u8]) -> Right {
    let Ok(key) = PKey::public_key_from_raw_bytes(point, Id::ED448) else { return Ok(false) };
    let mut verifier = Verifier::new_without_digest(&key).map_err(unsupported)?;
    Ok(verifier.verify_oneshot(signed, digest).unwrap_or(false))
}

/// A little-endian number, the second half of an Ed448 signature, below the order of the group (RFC
/// 8032, section 5.2). Borrowed if it is.
pub(crate) fn below_order_of_ed448(bytes: &[u8]) -> Cow<'_, [u8]> {
    // The order is just below 2^446.
    if let [.., 0..0x3f, 0] = bytes {
        return Cow::Borrowed(bytes);
    }
    let reduced = || {
        let number: Vec<u8> = bytes.iter().rev().copied().collect();
        let (number, order) = (BigNum::from_slice(&number)?, BigNum::from_hex_str(ED448_ORDER)?);
        let (mut remainder, mut cx) = (BigNum::new()?, BigNumContext::new()?);
        remainder.nnmod(&number, &order, &mut cx)?;
        remainder.to_vec_padded(i32::try_from(bytes.len()).unwrap_or(i32::MAX))
    };
    match reduced() {
        Ok(mut reduced) => {
            reduced.reverse();
            if reduced == bytes { Cow::Borrowed(bytes) } else { Cow::Owned(reduced) }
        }
        Err(_) => Cow::Borrowed(bytes),
    }
}

/// Whether an uncompressed point is on the curve.
pub(crate) fn is_on_curve(curve: Curve, point: &[u8]) -> bool {
    let Some(group) = weierstrass(curve).and_then(|nid| EcGroup::from_curve_name(nid).ok()) else {
        return false;
    };
    let bytes = usize::try_from(group.degree()).unwrap_or(0).div_ceil(8);
    point.first() == Some(&4)
        && point.len() == 1 + 2 * bytes
        && BigNumContext::new()
            .is_ok_and(|mut cx| EcPoint::from_bytes(&group, point, &mut cx).is_ok())
}

fn weierstrass(curve: Curve) -> Option<Nid> {
    Some(match curve {
        Curve::NistP256 => Nid::X9_62_PRIME256V1,
        Curve::NistP384 => Nid::SECP384R1,
        Curve::NistP521 => Nid::SECP521R1,
        Curve::Secp256k1 => Nid::SECP256K1,
        Curve::BrainpoolP256 => Nid::BRAINPOOL_P256R1,
        Curve::BrainpoolP384 => Nid::BRAINPOOL_P384R1,
        Curve::BrainpoolP512 => Nid::BRAINPOOL_P512R1,
        Curve::Ed25519 | Curve::Cv25519 | Curve::Ed448 | Curve::X448 => return None,
    })
}

fn big(bytes: &[u8]) -> Result<BigNum, Verdict> {
    BigNum::from_slice(bytes).map_err(unsupported)
}

fn unsupported(_: openssl::error::ErrorStack) -> Verdict {
    Verdict::Unsupported
}

#[cfg(test)]
mod tests {
    use super::*;
    use openssl::pkey::Private;

    fn mpis(numbers: &[&BigNumRef]) -> Vec<u8> {
        let mut out = Vec::new();
        for number in numbers {
            out.extend(u16::try_from(number.num_bits()).unwrap().to_be_bytes());
            out.extend(number.to_vec());
        }
        out
    }

    /// OpenSSL and the equation for other sizes give the same verdict on a signature, and on a
    /// signature with an additional byte.
    #[test]
    fn both_implementations_of_dsa_give_the_same_verdict() {
        let key: Dsa<Private> = Dsa::generate(1024).unwrap();
        let pkey = PKey::from_dsa(key.clone()).unwrap();
        let public = [key.p(), key.q(), key.g(), key.pub_key()].map(BigNumRef::to_vec);
        let public: [&[u8]; 4] = [&public[0], &public[1], &public[2], &public[3]];
        for bytes in [20_u8, 32, 64] {
            let digest = vec![bytes; usize::from(bytes)];
            let mut cx = PkeyCtx::new(&pkey).unwrap();
            cx.sign_init().unwrap();
            let mut der = Vec::new();
            cx.sign_to_vec(&digest, &mut der).unwrap();
            let signed = DsaSig::from_der(&der).unwrap();
            let numbers = mpis(&[signed.r(), signed.s()]);
            let other = vec![bytes ^ 1; usize::from(bytes)];
            for (digest, right) in [(&digest, true), (&other, false)] {
                assert_eq!(dsa(public, digest, &numbers), Ok(right));
                let [p, q, g, y] = public.map(|number| big(number).unwrap());
                let direct = dsa_equation([&p, &q, &g, &y], digest, signed.r(), signed.s());
                assert_eq!(direct, Ok(right));
            }
            assert_eq!(dsa(public, &digest, &numbers[..9]), Err(Verdict::Malformed));
            let zero = mpis(&[&BigNum::new().unwrap(), signed.s()]);
            assert_eq!(dsa(public, &digest, &zero), Ok(false));
        }
    }

    /// Numbers from a stranger must not cost minutes of computing time.
    #[test]
    fn numbers_beyond_the_bounds_are_unsupported() {
        let huge = [0xff; 8000];
        let numbers = [&[0, 8, 5][..], &[0, 8, 7]].concat();
        let unsupported = Err(Verdict::Unsupported);
        assert_eq!(dsa([&huge, &[0xfb], &[2], &[3]], &[1; 32], &numbers), unsupported);
        assert_eq!(dsa([&[0xfb; 128], &huge, &[2], &[3]], &[1; 32], &numbers), unsupported);
        assert_eq!(rsa(&huge, &[3], 8, &[1; 32], &numbers), unsupported);
        // 4,104 bits with an exponent of 72.
        assert_eq!(rsa(&[0xff; 513], &[0xff; 9], 8, &[1; 32], &numbers), unsupported);
        assert_eq!(rsa(&[0xff; 513], &[0xff; 8], 8, &[1; 32], &numbers), Ok(false));
    }

    /// A verdict is arithmetic only. The claimed date of a self-signature does not matter, even if
    /// it is before the date of the key.
    #[test]
    fn a_date_before_that_of_the_key_does_not_make_a_signature_bad() {
        let group = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1).unwrap();
        let pair = EcKey::generate(&group).unwrap();
        let mut cx = BigNumContext::new().unwrap();
        let form = openssl::ec::PointConversionForm::UNCOMPRESSED;
        let point = pair.public_key().to_bytes(&group, form, &mut cx).unwrap();
        let mut key = vec![4, 0, 0, 2, 0, 19, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7, 2, 3];
        key.extend(point);
        let mut raw = Vec::new();
        crate::packet::write(&mut raw, crate::Tag::PUBLIC_KEY, &key);
        let id = crate::Cert::parse(&raw).unwrap().fingerprint().key_id();
        let hashed = [4, 0x1f, 19, 8, 0, 6, 5, 2, 0, 0, 1, 0];
        let len = [0x99, 0, u8::try_from(key.len()).unwrap()];
        let digest = crate::hash::sha256(&[&len, &key, &hashed, &[4, 0xff, 0, 0, 0, 12]]);
        let signed = EcdsaSig::sign(&digest, &pair).unwrap();
        let mut body = hashed.to_vec();
        body.extend([0, 10, 9, 16]);
        body.extend(id.0.to_be_bytes());
        body.extend(&digest[..2]);
        body.extend(mpis(&[signed.r(), signed.s()]));
        crate::packet::write(&mut raw, crate::Tag::SIGNATURE, &body);
        let cert = crate::Cert::parse(&raw).unwrap();
        assert_eq!(crate::verdicts(&[&cert], crate::Verification::Full), [[Verdict::Good]]);
    }

    #[test]
    fn ecdsa_is_verified_on_all_curves_of_gnupg() {
        for curve in [
            Curve::NistP256,
            Curve::NistP384,
            Curve::NistP521,
            Curve::Secp256k1,
            Curve::BrainpoolP256,
            Curve::BrainpoolP384,
            Curve::BrainpoolP512,
        ] {
            let group = EcGroup::from_curve_name(weierstrass(curve).unwrap()).unwrap();
            let key = EcKey::generate(&group).unwrap();
            let mut cx = BigNumContext::new().unwrap();
            let form = openssl::ec::PointConversionForm::UNCOMPRESSED;
            let point = key.public_key().to_bytes(&group, form, &mut cx).unwrap();
            let signed = EcdsaSig::sign(&[7; 32], &key).unwrap();
            let numbers = mpis(&[signed.r(), signed.s()]);
            assert_eq!(ecdsa(curve, &point, &[7; 32], &numbers), Ok(true));
            assert_eq!(ecdsa(curve, &point, &[8; 32], &numbers), Ok(false));
            assert_eq!(ecdsa(curve, &point[1..], &[7; 32], &numbers), Ok(false));
            assert_eq!(ecdsa(curve, &point, &[7; 32], &numbers[..3]), Err(Verdict::Malformed));
        }
    }
}
