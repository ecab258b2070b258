//! The identity of a signature: the part of its packet that only its issuer can make.
//!
//! The identity is the hashed part, the salt and the value, which is the number or the numbers of
//! the algorithm in their only canonical form. Everything else in the packet is a hint that anybody
//! can change: the unhashed area, the first 16 bits of the digest, leading zeros of the numbers,
//! bytes after them, and the issuer of a version 3 signature. Two packets with the same identity
//! are *variants* of one signature.
//!
//! Variants are kept byte for byte, since peers compare whole packets. Verdicts, limits on numbers
//! and serving go by identity (`docs/decisions/0008-signature-identity.md`).

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};

use curve25519_dalek::scalar::Scalar;

use crate::arithmetic::below_order_of_ed448;
use crate::fields::mpi;
use crate::fingerprint::KeyId;
use crate::hash::sha256;
use crate::signature::Signature;

/// The most bits of a number in a key or a signature that other programs read, as in GnuPG.
pub const NUMBER_BITS_MAX: usize = 16_384;

/// One packet of a signature.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Variant<'a> {
    /// Number of the packet, as the caller counts.
    pub(crate) at: usize,
    pub(crate) body: &'a [u8],
    /// The fields, if they fit into the packet.
    pub(crate) signature: Option<Signature<'a>>,
}

impl Variant<'_> {
    /// Whether the packet names a key as the issuer, alone or beside others.
    pub(crate) fn names(&self, id: KeyId) -> bool {
        self.signature.is_some_and(|signature| signature.may_be_by(id))
    }

    /// Whether the packet names a key as the only issuer.
    pub(crate) fn names_only(&self, id: KeyId) -> bool {
        self.signature.is_some_and(|signature| signature.sole_issuer() == Some(id))
    }
}

/// The packets on one component that are the same signature: one or more, in canonical order.
#[derive(Clone, Debug)]
pub(crate) struct Variants<'a>(pub(crate) Vec<Variant<'a>>);

impl<'a> Variants<'a> {
    /// Groups the signatures on one component, which come in canonical order, by identity.
    pub(crate) fn of(signatures: impl Iterator<Item = (usize, &'a [u8])>) -> Vec<Self> {
        let mut groups: Vec<Self> = Vec::with_capacity(signatures.size_hint().0);
        // Variants have the same hashed part. From version 4 on, it comes first in the packet, so
        // they are neighbours, perhaps with malformed packets between them.
        let mut first: Option<(usize, &[u8])> = None;
        let mut run: HashMap<Vec<u8>, usize> = HashMap::new();
        // Version 3 may be written as 2.
        let mut old: HashMap<Vec<u8>, usize> = HashMap::new();
        for (at, body) in signatures {
            let variant = Variant { at, body, signature: Signature::parse(body) };
            let Some(signature) = variant.signature else {
                groups.push(Self(vec![variant]));
                continue;
            };
            let next = groups.len();
            let place = match first {
                _ if signature.version == 3 => {
                    let identity = [signature.hashed, &signature.unhashed_identity()].concat();
                    *old.entry(identity).or_insert(next)
                }
                Some((start, hashed)) if signature.hashed == hashed => {
                    if run.is_empty()
                        && let Some(first) = groups[start].0[0].signature
                    {
                        run.insert(first.unhashed_identity(), start);
                    }
                    *run.entry(signature.unhashed_identity()).or_insert(next)
                }
                _ => {
                    run.clear();
                    first = Some((next, signature.hashed));
                    next
                }
            };
            match groups.get_mut(place) {
                Some(group) => group.0.push(variant),
                None => groups.push(Self(vec![variant])),
            }
        }
        groups
    }

    /// The fields of the signature, as far as all variants agree on them.
    pub(crate) fn signature(&self) -> Option<Signature<'a>> {
        self.0[0].signature
    }

    /// The claims of all variants about the issuer, seen from the key `id`.
    pub(crate) fn claim(&self, id: KeyId) -> Claim {
        let signed = self.signature().and_then(|signature| signature.signed_issuer);
        match signed {
            Some(issuer) if issuer == id => Claim::Own,
            Some(_) => Claim::SignedOther,
            None => {
                let mut signatures = self.0.iter().filter_map(|variant| variant.signature);
                let hints = |signature: Signature<'_>| {
                    signature.issuers().iter().any(|&(issuer, _)| issuer == id)
                };
                if signatures.clone().all(|signature| signature.names(id)) {
                    Claim::Own
                } else if signatures.clone().any(hints) {
                    Claim::Both
                } else if signatures.any(|signature| signature.issuer.is_none()) {
                    Claim::Nobody
                } else {
                    Claim::Other
                }
            }
        }
    }
}

/// The issuer of a signature, as its variants claim it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Claim {
    /// All variants name the key.
    Own,
    /// Some variants name the key, perhaps beside others.
    Both,
    /// No variant names the key, and some name none.
    Nobody,
    /// All variants name other keys, in bytes that are not signed.
    Other,
    /// The hashed area names another key.
    SignedOther,
}

/// Bytes of each half of an Ed25519 signature.
const ED25519_HALF: usize = 32;

/// Bytes of each half of an Ed448 signature.
const ED448_HALF: usize = 57;

/// Bytes of an Ed448 signature of algorithm 22 in one number, with the byte before it.
const ED448_PREFIXED: usize = 1 + 2 * ED448_HALF;

impl<'a> Signature<'a> {
    /// The name of the signature: SHA-256 over its identity.
    #[must_use]
    pub fn id(&self) -> [u8; 32] {
        let length = (self.hashed.len() as u64).to_be_bytes();
        sha256(&[&[self.version], &length, self.hashed, &self.unhashed_identity()])
    }

    /// The part of the identity that is not in the hashed part. Algorithms are in the hashed part,
    /// except in version 3.
    fn unhashed_identity(&self) -> Vec<u8> {
        let value = self.value();
        let mut identity = Vec::with_capacity(3 + self.salt.len() + value.len());
        identity.extend_from_slice(&[self.algorithm, self.hash]);
        identity.push(u8::try_from(self.salt.len()).unwrap_or(u8::MAX));
        identity.extend_from_slice(self.salt);
        identity.extend_from_slice(&value);
        identity
    }

    /// The numbers of the signature in their canonical form: no leading zeros, the right count of
    /// bits, nothing behind them, and the second half of an Ed25519 or Ed448 signature below the
    /// order of the group. The two numbers of Ed448 have 57 bytes each, as GnuPG writes them: it
    /// does not read them without their leading zeros. The bytes as they are, if they have another
    /// form.
    ///
    /// A value of RSA that is not below the modulus is no signature of the key, and so is not
    /// reduced.
    pub(crate) fn value(&self) -> Cow<'a, [u8]> {
        match self.algorithm {
            27 | 28 => {
                let half = if self.algorithm == 27 { ED25519_HALF } else { ED448_HALF };
                let Some(both) = self.numbers.get(..2 * half) else {
                    return Cow::Borrowed(self.numbers);
                };
                let (r, s) = both.split_at(half);
                match below_order(s) {
                    Cow::Borrowed(_) => Cow::Borrowed(both),
                    Cow::Owned(reduced) => Cow::Owned([r, &reduced].concat()),
                }
            }
            _ => {
                let mut rest = Some(self.numbers);
                let canonical = self.for_canonical_numbers(|bytes| {
                    rest = rest.and_then(|rest| rest.strip_prefix(bytes));
                });
                if canonical.is_none() || rest.is_some_and(<[u8]>::is_empty) {
                    return Cow::Borrowed(self.numbers);
                }
                let mut all = Vec::with_capacity(self.numbers.len());
                self.for_canonical_numbers(|bytes| all.extend_from_slice(bytes));
                Cow::Owned(all)
            }
        }
    }

    /// Gives the bytes of the multiprecision integers in canonical form, part by part. `None` if
    /// the packet does not have them; then some parts may have been given.
    fn for_canonical_numbers(&self, mut give: impl FnMut(&[u8])) -> Option<()> {
        let count = numbers_of(self.algorithm)?;
        let mut rest = self.numbers;
        let mut next = || {
            let (number, behind) = mpi(rest)?;
            rest = behind;
            Some(stripped(number))
        };
        let mut give = |number: &[u8]| {
            // A leading zero has all its bits.
            let zeros = number.first().map_or(0, |top| top.leading_zeros() as usize % 8);
            give(&u16::try_from(number.len() * 8 - zeros).ok()?.to_be_bytes());
            give(number);
            Some(())
        };
        if self.algorithm != 22 {
            return (0..count).try_for_each(|_| give(next()?));
        }
        let r = next()?;
        if r.len() == ED448_PREFIXED {
            // Both halves of Ed448 follow a prefix, and the second number says nothing.
            return give(&[&[0x40], &r[1..]].concat()).and_then(|()| give(&[]));
        }
        let s = next()?;
        let longest = r.len().max(s.len());
        if longest <= ED25519_HALF {
            let s = padded::<ED25519_HALF>(s);
            give(r).and_then(|()| give(stripped(&below_order(&s))))
        } else if longest <= ED448_HALF {
            let [r, s] = [r, s].map(padded::<ED448_HALF>);
            give(&r).and_then(|()| give(&below_order(&s)))
        } else {
            give(r).and_then(|()| give(s))
        }
    }

    /// Whether an Ed448 key may have made it: no other key makes numbers of that length.
    pub(crate) fn may_be_ed448(&self) -> bool {
        match self.algorithm {
            28 => true,
            22 => mpi(self.numbers).is_some_and(|(r, rest)| {
                let s = mpi(rest).map_or(&[][..], |(s, _)| s);
                stripped(r).len().max(stripped(s).len()) > ED25519_HALF
            }),
            _ => false,
        }
    }

    /// Whether the packet has the value in its canonical form.
    pub(crate) fn has_exact_value(&self) -> bool {
        matches!(self.value(), Cow::Borrowed(value) if value.len() == self.numbers.len())
    }

    /// Whether the packet has all numbers of its algorithm, none of them too long. False for
    /// algorithms that are not known here. GnuPG 2.4 aborts at a number without bytes, such as the
    /// second one of Ed448 behind a prefix.
    pub(crate) fn has_readable_numbers(&self) -> bool {
        match self.algorithm {
            27 => self.numbers.len() >= 2 * ED25519_HALF,
            28 => self.numbers.len() >= 2 * ED448_HALF,
            algorithm => {
                let Some(count) = numbers_of(algorithm) else { return false };
                let value = self.value();
                let mut rest = &value[..];
                (0..count).all(|_| {
                    let Some((number, behind)) = mpi(rest) else { return false };
                    rest = behind;
                    (1..=NUMBER_BITS_MAX / 8).contains(&stripped(number).len())
                })
            }
        }
    }
}

/// The number of multiprecision integers of a signature. `None` if the algorithm has another form
/// or is unknown.
fn numbers_of(algorithm: u8) -> Option<usize> {
    match algorithm {
        1 | 3 => Some(1),
        17 | 19 | 22 => Some(2),
        _ => None,
    }
}

fn stripped(number: &[u8]) -> &[u8] {
    let zeros = number.iter().take_while(|&&byte| byte == 0).count();
    &number[zeros..]
}

/// The number with leading zeros. It must not be longer.
fn padded<const BYTES: usize>(number: &[u8]) -> [u8; BYTES] {
    let mut padded = [0; BYTES];
    padded[BYTES - number.len()..].copy_from_slice(number);
    padded
}

/// The second half of an Ed25519 or Ed448 signature, a little-endian number, below the order of the
/// group. Borrowed if it is.
fn below_order(bytes: &[u8]) -> Cow<'_, [u8]> {
    let Ok(number) = <[u8; ED25519_HALF]>::try_from(bytes) else {
        return below_order_of_ed448(bytes);
    };
    // The order of Ed25519 is just above 2^252.
    if number[31] < 0x10 {
        return Cow::Borrowed(bytes);
    }
    let reduced = Scalar::from_bytes_mod_order(number).to_bytes();
    if reduced == number { Cow::Borrowed(bytes) } else { Cow::Owned(reduced.to_vec()) }
}

/// All keys that the packets of a signature name, at most [`crate::ISSUERS_MAX`] of each packet.
pub(crate) fn named(variants: &Variants<'_>) -> BTreeSet<KeyId> {
    let signatures = variants.0.iter().filter_map(|variant| variant.signature);
    match variants.signature().and_then(|signature| signature.signed_issuer) {
        Some(issuer) => [issuer].into(),
        None => signatures.flat_map(|s| s.issuers()).map(|(issuer, _)| issuer).collect(),
    }
}

#[cfg(test)]
mod tests {
    use openssl::bn::BigNum;

    use super::*;

    /// The order of the group of Ed25519, 2^252 + 27742317777372353535851937790883648493,
    /// little-endian.
    const ORDER: [u8; 32] = [
        0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde,
        0x14, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10,
    ];

    /// An Ed25519 signature of version 4 with these areas, digest bytes and numbers.
    fn signature(hashed: &[u8], unhashed: &[u8], bytes: [u8; 2], numbers: &[u8]) -> Vec<u8> {
        let length = |area: &[u8]| u16::try_from(area.len()).unwrap().to_be_bytes();
        let mut body = vec![4, 0x13, 22, 8];
        body.extend(length(hashed));
        body.extend(hashed);
        body.extend(length(unhashed));
        body.extend(unhashed);
        body.extend(bytes);
        body.extend(numbers);
        body
    }

    #[test]
    fn the_prefix_and_the_second_number_of_ed448_are_no_part_of_a_signature() {
        let of = |prefix: u8, bits: [u8; 2], rest: &[u8]| {
            let numbers = [&bits[..], &[prefix], &[7; 114], rest].concat();
            Signature::parse(&signature(&[5, 2, 0, 0, 0, 9], &[], [1, 2], &numbers)).unwrap().id()
        };
        let usual = of(0x40, [3, 0x97], &[0, 0]);
        for rest in [&[0, 0][..], &[0, 1, 1], &[0, 9, 1, 2], &[]] {
            assert_eq!(of(0x40, [3, 0x97], rest), usual);
            assert_eq!(of(0x80, [3, 0x98], rest), usual);
        }
    }

    #[test]
    fn version_3_may_be_written_as_2() {
        let body = |version: u8, time: u8| {
            [&[version, 5, 0x13, 0, 0, 0, time][..], &[7; 8], &[1, 8, 1, 2, 0, 8, 0x80]].concat()
        };
        // In canonical order, another signature is between the two.
        let all = [body(2, 1), body(2, 2), body(3, 1)];
        let groups = Variants::of(all.iter().enumerate().map(|(at, body)| (at, &body[..])));
        let places: Vec<Vec<usize>> =
            groups.iter().map(|group| group.0.iter().map(|v| v.at).collect()).collect();
        assert_eq!(places, [vec![0, 2], vec![1]]);
    }

    #[test]
    fn a_number_without_bytes_cannot_be_read() {
        let is_readable = |numbers: &[u8]| {
            let body = signature(&[5, 2, 0, 0, 0, 9], &[], [1, 2], numbers);
            Signature::parse(&body).unwrap().has_readable_numbers()
        };
        assert!(is_readable(&[0, 9, 1, 7, 0, 8, 0x80]));
        for numbers in [&[0, 0, 0, 8, 0x80][..], &[0, 8, 0x80, 0, 0], &[0, 8, 0, 0, 8, 0x80]] {
            assert!(!is_readable(numbers), "{numbers:?}");
        }
        let ed448 = [&[3, 0x97, 0x40][..], &[7; 114], &[0, 8, 0x80]].concat();
        assert!(!is_readable(&ed448));
        // It would be served as the zero that it is.
        assert!(!is_readable(&[&[0, 9, 1, 7, 1, 0][..], &ORDER].concat()));
    }

    /// GnuPG writes a leading zero with all its bits. Other programs leave it out.
    #[test]
    fn the_numbers_of_ed448_have_57_bytes_each() {
        let body = |numbers: &[u8]| signature(&[5, 2, 0, 0, 0, 9], &[], [1, 2], numbers);
        let (r, s) = ([&[0, 0x1d][..], &[7; 55]].concat(), [&[0x8a][..], &[9; 55], &[0]].concat());
        let written = [&[1, 0xc8][..], &r, &[1, 0xc8], &s].concat();
        let exact = body(&written);
        let exact = Signature::parse(&exact).unwrap();
        assert!(exact.has_exact_value() && exact.has_readable_numbers() && exact.may_be_ed448());
        let order = [
            "f34458ab92c27823558fc58d72c26c219036d6ae49db4ec4e923ca7cffffffff",
            "ffffffffffffffffffffffffffffffffffffffffffffff3f",
        ];
        let order = BigNum::from_hex_str(&order.concat()).unwrap().to_vec();
        let mut sum = 0u16;
        let above: Vec<u8> = s
            .iter()
            .zip(order.iter().chain(&[0]))
            .map(|(a, b)| {
                sum = u16::from(*a) + u16::from(*b) + (sum >> 8);
                sum.to_be_bytes()[1]
            })
            .collect();
        for other in [
            [&[1, 0xbd][..], &r[1..], &[1, 0xc8], &s].concat(),
            [&[1, 0xd0][..], &[0], &r, &[1, 0xc8], &s, &[5]].concat(),
            [&[1, 0xc8][..], &r, &[1, 0xc8], &above].concat(),
        ] {
            let body = body(&other);
            let signature = Signature::parse(&body).unwrap();
            assert_eq!(*signature.value(), written);
            assert_eq!(signature.id(), exact.id());
            assert!(!signature.has_exact_value());
        }
    }

    #[test]
    fn packets_that_differ_only_in_what_is_not_signed_are_one_signature() {
        let hashed = [5, 2, 0, 0, 0, 9];
        let numbers = [0, 9, 1, 7, 0, 8, 0x80];
        let body = signature(&hashed, &[], [1, 2], &numbers);
        let mut same = vec![
            signature(&hashed, &[9, 16, 1, 1, 1, 1, 1, 1, 1, 1], [1, 2], &numbers),
            signature(&hashed, &[], [3, 4], &numbers),
            // Leading zeros, a wrong count of bits, and bytes behind the numbers.
            signature(&hashed, &[], [1, 2], &[0, 24, 0, 1, 7, 0, 8, 0x80]),
            signature(&hashed, &[], [1, 2], &[0, 16, 1, 7, 0, 8, 0x80]),
            signature(&hashed, &[], [1, 2], &[0, 9, 1, 7, 0, 8, 0x80, 99]),
        ];
        same.push(body.clone());
        let id = |body: &[u8]| Signature::parse(body).unwrap().id();
        assert!(same.iter().all(|other| id(other) == id(&body)));
        let zero = signature(&hashed, &[], [1, 2], &[0, 9, 1, 7, 0, 0]);
        let order = [&[0, 9, 1, 7, 1, 0][..], &ORDER].concat();
        assert_eq!(id(&signature(&hashed, &[], [1, 2], &order)), id(&zero));

        let other = [
            signature(&[5, 2, 0, 0, 0, 8], &[], [1, 2], &numbers),
            signature(&hashed, &[], [1, 2], &[0, 9, 1, 6, 0, 8, 0x80]),
        ];
        assert!(other.iter().all(|other| id(other) != id(&body)));
        // A malformed packet between them separates nothing.
        let mut all = [&same[..], &other].concat();
        all.push([&body[..12], &[0, 0]].concat());
        all.sort();
        let numbered = all.iter().enumerate().map(|(at, body)| (at, &body[..]));
        let groups = Variants::of(numbered);
        let mut sizes: Vec<usize> = groups.iter().map(|group| group.0.len()).collect();
        sizes.sort_unstable();
        assert_eq!(sizes, [1, 1, 1, 6]);
    }
}
