//! Whether numbers are a signature on a digest, and nothing else: no look at times, versions or the
//! first bits of the digest, which other software judges in its own way.

use openssl::bn::{BigNum, BigNumContext, BigNumRef};
use openssl::ec::{EcGroup, EcKey, EcPoint};
use openssl::ecdsa::EcdsaSig;
use openssl::nid::Nid;
use openssl::pkey::{Id, PKey};
use openssl::rsa::{Padding, Rsa};
use openssl::sign::Verifier;

use crate::ed25519::PublicKey;
use crate::key::Material;
use crate::verify::{ed25519_legacy, mpi};
use crate::{Curve, Key, Signature};

/// Whether `key` has made the signature that has this digest.
pub(super) fn is_right(key: &Key<'_>, signature: &Signature<'_>, digest: &[u8]) -> bool {
    let numbers = signature.numbers;
    let right = match (key.material, signature.algorithm) {
        (Material::Rsa { n, e }, 1 | 3) => rsa(n, e, signature.hash, digest, numbers),
        (Material::Dsa { p, q, g, y }, 17) => dsa([p, q, g, y], digest, numbers),
        (Material::Ec { curve: Some(curve), point }, 19) => ecdsa(curve, point, digest, numbers),
        (Material::Ec { curve: Some(Curve::Ed25519), point: [0x40, point @ ..] }, 22) => {
            ed25519_legacy(numbers).map(|signed| ed25519(point, digest, &signed))
        }
        (Material::Ec { curve: Some(Curve::Ed448), point: [0x40, point @ ..] }, 22) => {
            // Both halves are in the first number, behind a prefix octet.
            mpi(numbers).and_then(|(both, _)| ed448(point, digest, both.get(1..)?))
        }
        (Material::Native(point), 27) => {
            numbers.get(..64).map(|signed| ed25519(point, digest, signed))
        }
        (Material::Native(point), 28) => {
            numbers.get(..114).and_then(|signed| ed448(point, digest, signed))
        }
        _ => None,
    };
    right == Some(true)
}

/// What goes before a digest that RSA signs (RFC 9580, section 5.2.2), without its first octet, which
/// is the length of all: object identifiers of the hash algorithms.
fn digest_info(hash: u8) -> Option<&'static [u8]> {
    Some(match hash {
        1 => &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x02, 0x05],
        2 => &[0x2b, 0x0e, 0x03, 0x02, 0x1a],
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
fn rsa(n: &[u8], e: &[u8], hash: u8, digest: &[u8], numbers: &[u8]) -> Option<bool> {
    let oid = digest_info(hash)?;
    let mut expected = vec![0x30, (8 + oid.len() + digest.len()) as u8];
    expected.extend_from_slice(&[0x30, (4 + oid.len()) as u8, 0x06, oid.len() as u8]);
    expected.extend_from_slice(oid);
    expected.extend_from_slice(&[0x05, 0x00, 0x04, digest.len() as u8]);
    expected.extend_from_slice(digest);
    let (number, _) = mpi(numbers)?;
    let mut signed = vec![0; n.len().checked_sub(number.len())?];
    signed.extend_from_slice(number);
    let key = Rsa::from_public_components(big(n)?, big(e)?).ok()?;
    let mut got = vec![0; n.len()];
    let len = key.public_decrypt(&signed, &mut got, Padding::PKCS1).ok()?;
    Some(got[..len] == expected)
}

/// The equation of FIPS 186-4, section 4.7, whatever the size of the numbers.
fn dsa(key: [&[u8]; 4], digest: &[u8], numbers: &[u8]) -> Option<bool> {
    let (r, rest) = mpi(numbers)?;
    let (s, _) = mpi(rest)?;
    let [Some(modulus), Some(order), Some(base), Some(public)] = key.map(big) else { return None };
    let (r, s) = (big(r)?, big(s)?);
    if order.num_bits() % 8 != 0
        || r.num_bits() == 0
        || s.num_bits() == 0
        || r >= order
        || s >= order
    {
        return None;
    }
    let hashed = big(&digest[..digest.len().min(usize::try_from(order.num_bytes()).ok()?)])?;
    let mut cx = BigNumContext::new().ok()?;
    let product =
        |one: &BigNumRef, two: &BigNumRef, modulus: &BigNumRef, cx: &mut BigNumContext| {
            let mut out = BigNum::new().ok()?;
            out.mod_mul(one, two, modulus, cx).ok().map(|()| out)
        };
    let mut inverse = BigNum::new().ok()?;
    inverse.mod_inverse(&s, &order, &mut cx).ok()?;
    let (u1, u2) =
        (product(&hashed, &inverse, &order, &mut cx)?, product(&r, &inverse, &order, &mut cx)?);
    let (mut left, mut right) = (BigNum::new().ok()?, BigNum::new().ok()?);
    left.mod_exp(&base, &u1, &modulus, &mut cx).ok()?;
    right.mod_exp(&public, &u2, &modulus, &mut cx).ok()?;
    let whole = product(&left, &right, &modulus, &mut cx)?;
    let mut remainder = BigNum::new().ok()?;
    remainder.nnmod(&whole, &order, &mut cx).ok()?;
    Some(remainder == r)
}

fn ecdsa(curve: Curve, point: &[u8], digest: &[u8], numbers: &[u8]) -> Option<bool> {
    let group = EcGroup::from_curve_name(weierstrass(curve)?).ok()?;
    let mut cx = BigNumContext::new().ok()?;
    let point = EcPoint::from_bytes(&group, point, &mut cx).ok()?;
    let key = EcKey::from_public_key(&group, &point).ok()?;
    let (r, rest) = mpi(numbers)?;
    let (s, _) = mpi(rest)?;
    let signed = EcdsaSig::from_private_components(big(r)?, big(s)?).ok()?;
    signed.verify(digest, &key).ok()
}

fn ed25519(point: &[u8], digest: &[u8], signed: &[u8]) -> bool {
    let (Ok(point), Ok(signed)) = (point.try_into(), signed.try_into()) else { return false };
    PublicKey::read(point).is_some_and(|key| key.verifies(digest, signed))
}

fn ed448(point: &[u8], digest: &[u8], signed: &[u8]) -> Option<bool> {
    let key = PKey::public_key_from_raw_bytes(point, Id::ED448).ok()?;
    let mut verifier = Verifier::new_without_digest(&key).ok()?;
    verifier.verify_oneshot(signed, digest).ok()
}

/// Whether an uncompressed point is one of the curve.
pub(super) fn is_on_curve(curve: Curve, point: &[u8]) -> bool {
    let Some(group) = weierstrass(curve).and_then(|nid| EcGroup::from_curve_name(nid).ok()) else {
        return false;
    };
    let octets = usize::try_from(group.degree()).unwrap_or(0).div_ceil(8);
    point.first() == Some(&4)
        && point.len() == 1 + 2 * octets
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

fn big(bytes: &[u8]) -> Option<BigNum> {
    BigNum::from_slice(bytes).ok()
}
