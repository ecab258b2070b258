//! The field in which sets are compared: numbers modulo a prime of 129 bits.
//!
//! A number `x` is held in Montgomery form, `x * 2^128 mod P`. The prime has no special form, but
//! it lies between `2^128` and `2^129`, so a product takes two rounds of 64 bits, and the 129th bit
//! is added once afterwards.

use std::fmt;
use std::ops::{Add, AddAssign, Mul, MulAssign, Neg, Sub, SubAssign};

use crate::digest::Digest;

/// The prime, lowest limb first. In decimal: 530512889551602322505127520352579437339.
const P: [u64; 3] = [0xc91f_85d9_30a5_431b, 0x8f1d_10e4_878b_1fdf, 1];

/// `-1 / P` modulo `2^64`.
const P_INVERSE_NEGATED: u64 = inverse_negated(P[0]);

/// The points at which sets are evaluated: 0, -1, 1, -2, 2, -3.
///
/// One more than the differences that a node of the tree can resolve, as a check.
pub const POINTS: Values = [
    Zp::ZERO,
    Zp::from_u128(1).negated(),
    Zp::from_u128(1),
    Zp::from_u128(2).negated(),
    Zp::from_u128(2),
    Zp::from_u128(3).negated(),
];

/// A set of digests at each of the [`POINTS`]: the product of point less digest.
pub type Values = [Zp; 6];

/// The values of the set without elements.
pub(crate) const EMPTY: Values = [Zp::ONE; 6];

/// An element of the field, a number below 530512889551602322505127520352579437339.
///
/// On the wire it has 17 bytes, the lowest first. A digest is the number that its 16 bytes are.
#[derive(Clone, Copy, Eq, Hash, PartialEq)]
pub struct Zp([u64; 3]);

impl Zp {
    /// The number 0.
    pub const ZERO: Self = Self([0; 3]);

    /// The number 1.
    pub const ONE: Self = Self::from_u128(1);

    /// Length of the wire form.
    pub const BYTES: usize = 17;

    /// The number itself; all of 128 bits are below the prime.
    #[must_use]
    pub const fn from_u128(number: u128) -> Self {
        montgomery([low(number), low(number >> 64), 0], R_SQUARED)
    }

    /// Reads the wire form; `None` if the number is not below the prime.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 17]) -> Option<Self> {
        let mut limbs = [0, 0, u64::from(bytes[16])];
        for (limb, chunk) in limbs.iter_mut().zip(bytes[..16].chunks_exact(8)) {
            *limb = u64::from_le_bytes(chunk.try_into().expect("chunks of eight bytes"));
        }
        (less(limbs, P)).then(|| montgomery(limbs, R_SQUARED))
    }

    /// The wire form.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 17] {
        let [low, high, top] = self.number();
        let mut bytes = [0; 17];
        bytes[..8].copy_from_slice(&low.to_le_bytes());
        bytes[8..16].copy_from_slice(&high.to_le_bytes());
        bytes[16] = top.to_le_bytes()[0];
        bytes
    }

    /// The digest that is this number; `None` if the number has more than 128 bits.
    #[must_use]
    pub fn digest(self) -> Option<Digest> {
        let bytes = self.to_bytes();
        let (digest, top) = bytes.split_first_chunk::<16>()?;
        (top == [0]).then_some(Digest(*digest))
    }

    /// `self` to the power of `exponent`.
    #[must_use]
    pub fn pow(self, exponent: [u64; 3]) -> Self {
        let mut result = Self::ONE;
        for bit in (0..192).rev() {
            result *= result;
            if exponent[bit / 64] >> (bit % 64) & 1 == 1 {
                result *= self;
            }
        }
        result
    }

    /// `1 / self`; `None` of zero. Costs about 200 products.
    #[must_use]
    pub fn inverse(self) -> Option<Self> {
        (self != Self::ZERO).then(|| self.pow([P[0] - 2, P[1], P[2]]))
    }

    /// Inverts all of `numbers` at the cost of one inverse and three products each.
    ///
    /// Returns whether it could: if one is zero, nothing is changed.
    #[must_use]
    pub fn invert_all(numbers: &mut [Self]) -> bool {
        let mut product = Self::ONE;
        let mut before = Vec::with_capacity(numbers.len());
        for number in numbers.iter() {
            before.push(product);
            product *= *number;
        }
        let Some(mut inverse) = product.inverse() else { return false };
        for (number, before) in numbers.iter_mut().zip(before).rev() {
            let inverted = inverse * before;
            inverse *= *number;
            *number = inverted;
        }
        true
    }

    /// `(P - 1) / 2`, to the power of which a number is 1 if it is a square.
    pub(crate) const HALF: [u64; 3] = [P[0] >> 1 | P[1] << 63, P[1] >> 1 | P[2] << 63, P[2] >> 1];

    const fn negated(self) -> Self {
        subtract([0; 3], self.0)
    }

    /// Out of Montgomery form.
    fn number(self) -> [u64; 3] {
        montgomery(self.0, Self([1, 0, 0])).0
    }
}

impl From<Digest> for Zp {
    fn from(digest: Digest) -> Self {
        Self::from_u128(u128::from_le_bytes(digest.0))
    }
}

impl Add for Zp {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        add(self.0, other.0)
    }
}

impl Sub for Zp {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        subtract(self.0, other.0)
    }
}

impl Mul for Zp {
    type Output = Self;

    #[inline]
    fn mul(self, other: Self) -> Self {
        montgomery(self.0, other)
    }
}

impl Neg for Zp {
    type Output = Self;

    fn neg(self) -> Self {
        self.negated()
    }
}

impl AddAssign for Zp {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl SubAssign for Zp {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

impl MulAssign for Zp {
    #[inline]
    fn mul_assign(&mut self, other: Self) {
        *self = *self * other;
    }
}

impl fmt::Debug for Zp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [low, high, top] = self.number();
        write!(f, "Zp(0x{top:x}{high:016x}{low:016x})")
    }
}

/// Adds the elements of a set to another that has none of them.
pub(crate) fn join(values: &mut Values, more: &Values) {
    for (value, more) in values.iter_mut().zip(more) {
        *value *= *more;
    }
}

/// The values of the set with only this element.
pub(crate) fn single(digest: Digest) -> Values {
    let element = Zp::from(digest);
    POINTS.map(|point| point - element)
}

/// The values of the set of these digests.
pub(crate) fn product(digests: &[Digest]) -> Values {
    let mut values = EMPTY;
    for digest in digests {
        join(&mut values, &single(*digest));
    }
    values
}

/// `2^256 mod P`, which brings a number into Montgomery form.
const R_SQUARED: Zp = {
    // 2^128 is below P; doubled 128 times.
    let mut power = Zp([0, 0, 1]);
    let mut bit = 0;
    while bit < 128 {
        power = add(power.0, power.0);
        bit += 1;
    }
    power
};

/// By Newton's method, which doubles the number of right bits.
const fn inverse_negated(odd: u64) -> u64 {
    let mut inverse = odd; // three bits are right
    let mut round = 0;
    while round < 5 {
        inverse = inverse.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(inverse)));
        round += 1;
    }
    inverse.wrapping_neg()
}

#[expect(clippy::cast_possible_truncation, reason = "the low limb is what is asked for")]
const fn low(number: u128) -> u64 {
    number as u64
}

/// `carry + a + b * c`, which fits.
#[inline]
const fn multiply_add(carry: u64, a: u64, b: u64, c: u64) -> (u64, u64) {
    let sum = carry as u128 + a as u128 + b as u128 * c as u128;
    (low(sum), low(sum >> 64))
}

/// `a * b / 2^128 mod P`, for `a` and `b` below P.
#[inline]
const fn montgomery([a0, a1, a2]: [u64; 3], Zp(b): Zp) -> Zp {
    let sum = round(a0, b, [0; 3]);
    let [s0, s1, s2] = round(a1, b, sum);
    // Only the 129th bit of `a` is left.
    let keep = a2.wrapping_neg();
    let (r0, carry) = multiply_add(0, s0, b[0] & keep, 1);
    let (r1, carry) = multiply_add(carry, s1, b[1] & keep, 1);
    let r2 = s2 + (b[2] & keep) + carry;
    // Below three times P.
    Zp(reduce(reduce([r0, r1, r2])))
}

/// `(sum + limb * b + m * P) / 2^64`, where `m` makes it divide.
#[inline]
const fn round(limb: u64, [b0, b1, b2]: [u64; 3], [s0, s1, s2]: [u64; 3]) -> [u64; 3] {
    let (t0, carry) = multiply_add(0, s0, limb, b0);
    let (t1, carry) = multiply_add(carry, s1, limb, b1);
    let t2 = s2 as u128 + carry as u128 + (limb & b2.wrapping_neg()) as u128;
    let m = t0.wrapping_mul(P_INVERSE_NEGATED);
    let (_, carry) = multiply_add(0, t0, m, P[0]);
    let (r0, carry) = multiply_add(carry, t1, m, P[1]);
    let top = t2 + m as u128 + carry as u128;
    [r0, low(top), low(top >> 64)]
}

/// Subtracts P if it can be.
#[inline]
const fn reduce(number: [u64; 3]) -> [u64; 3] {
    let (rest, borrowed) = minus(number, P);
    let keep = (borrowed as u64).wrapping_neg();
    [
        rest[0] ^ (keep & (rest[0] ^ number[0])),
        rest[1] ^ (keep & (rest[1] ^ number[1])),
        rest[2] ^ (keep & (rest[2] ^ number[2])),
    ]
}

#[inline]
const fn add(a: [u64; 3], b: [u64; 3]) -> Zp {
    Zp(reduce(plus(a, b)))
}

#[inline]
const fn subtract(a: [u64; 3], b: [u64; 3]) -> Zp {
    let (rest, borrowed) = minus(a, b);
    let keep = (borrowed as u64).wrapping_neg();
    Zp(plus(rest, [P[0] & keep, P[1] & keep, P[2] & keep]))
}

#[inline]
const fn plus(a: [u64; 3], b: [u64; 3]) -> [u64; 3] {
    let (r0, carry) = multiply_add(0, a[0], b[0], 1);
    let (r1, carry) = multiply_add(carry, a[1], b[1], 1);
    [r0, r1, a[2].wrapping_add(b[2]).wrapping_add(carry)]
}

/// The difference, and whether it is below zero (then modulo `2^192`).
#[inline]
const fn minus(a: [u64; 3], b: [u64; 3]) -> ([u64; 3], bool) {
    let (r0, b0) = a[0].overflowing_sub(b[0]);
    let (r1, b1) = a[1].overflowing_sub(b[1]);
    let (r1, c1) = r1.overflowing_sub(b0 as u64);
    let (r2, b2) = a[2].overflowing_sub(b[2]);
    let (r2, c2) = r2.overflowing_sub((b1 | c1) as u64);
    ([r0, r1, r2], b2 | c2)
}

const fn less(a: [u64; 3], b: [u64; 3]) -> bool {
    minus(a, b).1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Any element, with more frequent border values.
    fn element() -> impl Strategy<Value = Zp> {
        prop_oneof![
            any::<u128>().prop_map(Zp::from_u128),
            (any::<u128>(), any::<u128>()).prop_map(|(a, b)| Zp::from_u128(a) + Zp::from_u128(b)),
            (0..4u128).prop_map(Zp::from_u128),
            (0..4u128).prop_map(|n| -Zp::from_u128(n)),
            (0..4u128).prop_map(|n| Zp::from_u128(u128::MAX - n)),
        ]
    }

    /// `a * b mod P`, bit by bit.
    fn slow_product(a: Zp, b: Zp) -> Zp {
        let bits = b.number();
        (0..129).rev().fold(Zp::ZERO, |sum, bit| {
            let sum = sum + sum;
            if bits[bit / 64] >> (bit % 64) & 1 == 1 { sum + a } else { sum }
        })
    }

    proptest! {
        #[test]
        fn the_field_axioms_hold(a in element(), b in element(), c in element()) {
            prop_assert_eq!(a + b, b + a);
            prop_assert_eq!((a + b) + c, a + (b + c));
            prop_assert_eq!(a * b, b * a);
            prop_assert_eq!((a * b) * c, a * (b * c));
            prop_assert_eq!((a + b) * c, a * c + b * c);
            prop_assert_eq!(a - b, a + -b);
            prop_assert_eq!(a + -a, Zp::ZERO);
            prop_assert_eq!(a * Zp::ONE, a);
            prop_assert_eq!(a + Zp::ZERO, a);
            prop_assert_eq!(a * b, slow_product(a, b));
            prop_assert_eq!(a.inverse().map(|inverse| a * inverse), (a != Zp::ZERO).then_some(Zp::ONE));
        }

        #[test]
        fn the_wire_form_reads_back(a in element()) {
            prop_assert!(less(a.0, P));
            prop_assert_eq!(Zp::from_bytes(a.to_bytes()), Some(a));
        }

        #[test]
        fn invert_all_inverts_all_numbers_or_none(numbers in prop::collection::vec(element(), 0..9)) {
            let mut inverted = numbers.clone();
            if Zp::invert_all(&mut inverted) {
                for (number, inverse) in numbers.iter().zip(inverted) {
                    prop_assert_eq!(number.inverse(), Some(inverse));
                }
            } else {
                prop_assert!(numbers.contains(&Zp::ZERO));
                prop_assert_eq!(numbers, inverted);
            }
        }
    }

    #[test]
    fn the_prime_equals_that_of_the_protocol() {
        let low = 530_512_889_551_602_322_505_127_520_352_579_437_339_f64;
        assert!((low / 2f64.powi(128) - 1.559).abs() < 0.001);
        // P - 2^128 in decimal, computed with another program.
        let low = u128::from(P[1]) << 64 | u128::from(P[0]);
        assert_eq!(low, 190_230_522_630_663_859_041_752_912_920_811_225_883);
        assert_eq!(P[2], 1);
        assert_eq!(Zp::from_u128(3).pow(Zp::HALF).pow([2, 0, 0]), Zp::ONE);
    }

    #[test]
    fn a_digest_is_a_number_with_its_lowest_byte_first() {
        let mut digest = Digest([0; 16]);
        digest.0[0] = 7;
        assert_eq!(Zp::from(digest), Zp::from_u128(7));
        digest.0[15] = 1;
        assert_eq!(Zp::from(digest), Zp::from_u128(7 + (1 << 120)));
        assert_eq!(Zp::from(digest).digest(), Some(digest));
        assert_eq!((-Zp::ONE).digest(), None);
        let mut bytes = [0; 17];
        bytes[..16].copy_from_slice(&digest.0);
        assert_eq!(Zp::from(digest).to_bytes(), bytes);
    }

    #[test]
    fn points_alternate_around_zero() {
        let bytes = POINTS.map(Zp::to_bytes);
        let p_less = |n: u8| {
            let mut bytes = [0; 17];
            bytes[..8].copy_from_slice(&(P[0] - u64::from(n)).to_le_bytes());
            bytes[8..16].copy_from_slice(&P[1].to_le_bytes());
            bytes[16] = 1;
            bytes
        };
        let small = |n: u8| std::array::from_fn::<u8, 17, _>(|at| if at == 0 { n } else { 0 });
        assert_eq!(bytes, [small(0), p_less(1), small(1), p_less(2), small(2), p_less(3)]);
        // P and larger numbers are not elements.
        assert_eq!(Zp::from_bytes(p_less(0)), None);
        assert_eq!(Zp::from_bytes([0xff; 17]), None);
    }

    #[test]
    fn values_are_products_of_differences() {
        // {3, 10} at 0, -1, 1: 30, 44, 18.
        let set = [3, 10].map(|n: u128| Digest(n.to_le_bytes()));
        let values = product(&set);
        assert_eq!(values[..3], [30, 44, 18].map(Zp::from_u128));
    }
}
