//! The difference of two sets from their values at a few points.
//!
//! A set stands for the polynomial that has its elements as roots. In the quotient of the
//! polynomials of two sets, only elements of one of the sets are left, and a quotient of low degree
//! is known from few values. After Minsky, Trachtenberg and Zippel, "Set Reconciliation with Nearly
//! Optimal Communication Complexity", 2003.

use crate::field::Zp;

/// Maximum number of attempts to split a polynomial; each time succeeds with about one
/// half.
const SPLITS_MAX: usize = 64;

/// The differences of two sets.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Difference {
    /// Elements that only the peer has.
    pub remote_only: Vec<Zp>,
    /// Elements that only we have.
    pub local_only: Vec<Zp>,
}

/// The difference of two sets from their values at `points`, the last of which is a check.
///
/// `surplus` is how many elements more the peer has. `random` may be anything that varies. Costs
/// about 0.1 milliseconds if there is a difference of two and more.
///
/// `None` if the sets differ by as many elements as there are points or more, if the local set
/// contains one of the points, or if the values are not those of any set.
#[must_use]
pub fn reconcile(
    points: &[Zp],
    remote: &[Zp],
    local: &[Zp],
    surplus: i64,
    random: &mut impl FnMut() -> u128,
) -> Option<Difference> {
    assert!(points.len() == remote.len() && points.len() == local.len(), "a value per point");
    if surplus == 0 && remote == local {
        return Some(Difference::default());
    }
    let (remote_degree, local_degree) = degrees(points.len().checked_sub(1)?, surplus)?;
    let mut quotients = local.to_vec();
    if !Zp::invert_all(&mut quotients) {
        return None;
    }
    for (quotient, remote) in quotients.iter_mut().zip(remote) {
        *quotient *= *remote;
    }
    let (numerator, denominator) = interpolate(points, &quotients, remote_degree, local_degree)?;
    // Fewer differences than the degrees allow for leave a common factor.
    let common = numerator.clone().gcd(denominator.clone());
    let numerator = numerator.divide(&common).0;
    let denominator = denominator.divide(&common).0;
    for (&point, &quotient) in points.iter().zip(&quotients) {
        let divisor = denominator.at(point);
        if divisor == Zp::ZERO || numerator.at(point) != quotient * divisor {
            return None;
        }
    }
    Some(Difference {
        remote_only: numerator.roots(random)?,
        local_only: denominator.roots(random)?,
    })
}

/// The number of differing elements that values at `count` points can tell.
fn degrees(count: usize, surplus: i64) -> Option<(usize, usize)> {
    let count = i64::try_from(count).ok()?;
    if surplus.abs() > count {
        return None;
    }
    let count = count - (count + surplus) % 2;
    let local = (count - surplus) / 2;
    Some((usize::try_from(local + surplus).ok()?, usize::try_from(local).ok()?))
}

/// Two polynomials of these degrees whose quotient has these values.
fn interpolate(
    points: &[Zp],
    quotients: &[Zp],
    remote_degree: usize,
    local_degree: usize,
) -> Option<(Poly, Poly)> {
    let unknowns = remote_degree + local_degree;
    // numerator(point) = quotient * denominator(point), in which the first coefficients are 1.
    let rows = points.iter().zip(quotients).take(unknowns).map(|(&point, &quotient)| {
        let mut row = Vec::with_capacity(unknowns + 1);
        let mut power = Zp::ONE;
        for _ in 0..remote_degree {
            row.push(power);
            power *= point;
        }
        let numerator_first = power;
        let mut power = -quotient;
        for _ in 0..local_degree {
            row.push(power);
            power *= point;
        }
        row.push(-power - numerator_first);
        row
    });
    let solution = solve(rows.collect())?;
    let (numerator, denominator) = solution.split_at(remote_degree);
    let monic = |rest: &[Zp]| Poly(rest.iter().copied().chain([Zp::ONE]).collect());
    Some((monic(numerator), monic(denominator)))
}

/// Solves linear equations, one per row with the right side last; free variables become zero.
///
/// `None` if they contradict each other.
fn solve(mut rows: Vec<Vec<Zp>>) -> Option<Vec<Zp>> {
    let unknowns = rows.len();
    let mut pivots = Vec::with_capacity(unknowns);
    for column in 0..unknowns {
        let done = pivots.len();
        let Some(found) = (done..unknowns).find(|&row| rows[row][column] != Zp::ZERO) else {
            continue;
        };
        rows.swap(done, found);
        let inverse = rows[done][column].inverse()?;
        rows[done].iter_mut().for_each(|entry| *entry *= inverse);
        let pivot = rows[done].clone();
        for (number, row) in rows.iter_mut().enumerate() {
            let factor = row[column];
            if number != done && factor != Zp::ZERO {
                for (entry, above) in row.iter_mut().zip(&pivot) {
                    *entry -= factor * *above;
                }
            }
        }
        pivots.push(column);
    }
    if rows[pivots.len()..].iter().any(|row| row[unknowns] != Zp::ZERO) {
        return None;
    }
    let mut solution = vec![Zp::ZERO; unknowns];
    for (row, column) in rows.iter().zip(pivots) {
        solution[column] = row[unknowns];
    }
    Some(solution)
}

/// A polynomial, the constant coefficient first, the last one not zero.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Poly(Vec<Zp>);

impl Poly {
    fn new(mut coefficients: Vec<Zp>) -> Self {
        while coefficients.last() == Some(&Zp::ZERO) {
            coefficients.pop();
        }
        Self(coefficients)
    }

    /// None of zero.
    fn degree(&self) -> Option<usize> {
        self.0.len().checked_sub(1)
    }

    fn at(&self, point: Zp) -> Zp {
        self.0.iter().rev().fold(Zp::ZERO, |value, &coefficient| value * point + coefficient)
    }

    /// With 1 as its first coefficient.
    fn monic(mut self) -> Self {
        if let Some(inverse) = self.0.last().and_then(|first| first.inverse()) {
            self.0.iter_mut().for_each(|coefficient| *coefficient *= inverse);
        }
        self
    }

    /// Quotient and rest, by a monic polynomial.
    fn divide(mut self, divisor: &Self) -> (Self, Self) {
        debug_assert_eq!(divisor.0.last(), Some(&Zp::ONE));
        let degree = divisor.0.len() - 1;
        let Some(steps) = self.0.len().checked_sub(degree) else {
            return (Self(Vec::new()), self);
        };
        for step in (0..steps).rev() {
            let factor = self.0[step + degree];
            for (entry, coefficient) in self.0[step..].iter_mut().zip(&divisor.0[..degree]) {
                *entry -= factor * *coefficient;
            }
        }
        let quotient = self.0.split_off(degree);
        (Self::new(quotient), Self::new(self.0))
    }

    /// The greatest common divisor, monic.
    fn gcd(self, other: Self) -> Self {
        let (mut a, mut b) = (self, other.monic());
        while !b.0.is_empty() {
            let rest = a.divide(&b).1;
            (a, b) = (b, rest.monic());
        }
        a.monic()
    }

    /// `(z + shift)` to the power of `(P - 1) / 2`, modulo a monic polynomial of at least degree 1.
    fn half_power(modulus: &Self, shift: Zp) -> Self {
        let degree = modulus.0.len() - 1;
        let mut power = vec![Zp::ZERO; degree];
        power[0] = Zp::ONE;
        let mut square = vec![Zp::ZERO; 2 * degree];
        for bit in (0..129).rev() {
            square.fill(Zp::ZERO);
            for (i, &a) in power.iter().enumerate() {
                square[2 * i] += a * a;
                for (j, &b) in power[..i].iter().enumerate() {
                    let product = a * b;
                    square[i + j] += product + product;
                }
            }
            if Zp::HALF[bit / 64] >> (bit % 64) & 1 == 1 {
                // Times z + shift, from the top.
                for at in (1..2 * degree).rev() {
                    square[at] = square[at] * shift + square[at - 1];
                }
                square[0] *= shift;
            }
            for top in (degree..2 * degree).rev() {
                let factor = square[top];
                if factor != Zp::ZERO {
                    for (entry, coefficient) in square[top - degree..].iter_mut().zip(&modulus.0) {
                        *entry -= factor * *coefficient;
                    }
                }
            }
            power.copy_from_slice(&square[..degree]);
        }
        Self::new(power)
    }

    /// The roots of a monic polynomial, if they are as many as its degree and all different.
    fn roots(self, random: &mut impl FnMut() -> u128) -> Option<Vec<Zp>> {
        if self.degree()? > 1 && !self.splits() {
            return None;
        }
        let mut roots = Vec::new();
        let mut factors = vec![self];
        while let Some(factor) = factors.pop() {
            match factor.degree()? {
                0 => {}
                1 => roots.push(-factor.0[0]),
                _ => factors.extend(factor.split(random)?),
            }
        }
        Some(roots)
    }

    /// Whether it divides `z^P - z`, the product over all elements `z - e`.
    fn splits(&self) -> bool {
        let half = Self::half_power(self, Zp::ZERO);
        let mut power = vec![Zp::ZERO; 2 * half.0.len()];
        for (i, &a) in half.0.iter().enumerate() {
            for (j, &b) in half.0.iter().enumerate() {
                power[i + j + 1] += a * b;
            }
        }
        let z = Self(vec![Zp::ZERO, Zp::ONE]);
        Self::new(power).divide(self).1 == z.divide(self).1
    }

    /// Two factors. Half of all elements are squares, so for most shifts some of the roots are, and
    /// some are not.
    fn split(self, random: &mut impl FnMut() -> u128) -> Option<[Self; 2]> {
        for _ in 0..SPLITS_MAX {
            let mut power = Self::half_power(&self, Zp::from_u128(random())).0;
            match power.first_mut() {
                Some(constant) => *constant -= Zp::ONE,
                None => continue,
            }
            let factor = self.clone().gcd(Self::new(power));
            if factor.degree() > Some(0) && factor.degree() < self.degree() {
                let other = self.divide(&factor).0;
                return Some([factor, other]);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use fastrand::Rng;
    use proptest::prelude::*;

    use super::*;
    use crate::digest::Digest;
    use crate::field::{POINTS, product};

    fn digests(numbers: impl IntoIterator<Item = u128>) -> Vec<Digest> {
        numbers.into_iter().map(|n| Digest(n.to_le_bytes())).collect()
    }

    /// The sorted digests of a difference of elements.
    fn found(elements: &[Zp]) -> Vec<Digest> {
        let mut digests: Vec<_> = elements.iter().map(|zp| zp.digest().unwrap()).collect();
        digests.sort();
        digests
    }

    fn difference(remote: &[Digest], local: &[Digest]) -> Option<(Vec<Digest>, Vec<Digest>)> {
        let surplus = i64::try_from(remote.len()).unwrap() - i64::try_from(local.len()).unwrap();
        let mut random = Rng::with_seed(1);
        let found_by =
            reconcile(&POINTS, &product(remote), &product(local), surplus, &mut || random.u128(..));
        found_by.map(|sets| (found(&sets.remote_only), found(&sets.local_only)))
    }

    #[test]
    fn a_known_difference_is_found() {
        let remote = digests([1000, 2000, 77, 1 << 100]);
        let local = digests([1000, 2000, 99]);
        let only = |numbers: &[u128]| {
            let mut digests = digests(numbers.iter().copied());
            digests.sort();
            digests
        };
        assert_eq!(difference(&remote, &local), Some((only(&[77, 1 << 100]), only(&[99]))));
        assert_eq!(difference(&remote, &remote), Some((vec![], vec![])));
        // Values that no set can have.
        let mut values = product(&remote);
        values[5] += Zp::ONE;
        assert_eq!(reconcile(&POINTS, &values, &product(&local), 1, &mut || 3), None);
    }

    #[test]
    fn roots_of_squares_and_of_irreducible_polynomials_are_refused() {
        let mut random = Rng::with_seed(2);
        let mut roots = |numbers: &[Zp]| Poly(numbers.to_vec()).roots(&mut || random.u128(..));
        let n = Zp::from_u128;
        // (z - 3)(z - 5), (z - 3)^2, and z^2 + 1, since P is 3 modulo 4.
        assert_eq!(roots(&[n(15), -n(8), n(1)]).map(|r| r.len()), Some(2));
        assert_eq!(roots(&[n(9), -n(6), n(1)]), None);
        assert_eq!(roots(&[n(1), n(0), n(1)]), None);
        // z (z - 1), with roots that are points.
        assert_eq!(roots(&[n(0), -n(1), n(1)]).map(|r| r.len()), Some(2));
        assert_eq!(roots(&[n(1)]), Some(vec![]));
    }

    #[test]
    fn a_local_digest_equal_to_a_point_is_refused() {
        let local = digests([0, 50]);
        assert_eq!(difference(&digests([50]), &local), None);
        // In the remote set it does no harm.
        assert_eq!(difference(&local, &digests([50])), Some((digests([0]), vec![])));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn up_to_five_differences_are_found_and_more_are_noticed(
            shared in prop::collection::btree_set(3..u128::MAX, 0..20),
            remote_only in prop::collection::btree_set(3..u128::MAX, 0..8),
            local_only in prop::collection::btree_set(3..u128::MAX, 0..8),
        ) {
            let union = |a: &BTreeSet<u128>, b: &BTreeSet<u128>| {
                let all: BTreeSet<u128> = a.union(b).copied().collect();
                digests(all)
            };
            let (remote, local) = (union(&shared, &remote_only), union(&shared, &local_only));
            let only = |a: &[Digest], b: &[Digest]| {
                let b: BTreeSet<_> = b.iter().collect();
                let mut only: Vec<_> = a.iter().filter(|d| !b.contains(d)).copied().collect();
                only.sort();
                only
            };
            let expected = (only(&remote, &local), only(&local, &remote));
            let count = expected.0.len() + expected.1.len();
            let expected = (count <= 5).then_some(expected);
            prop_assert_eq!(difference(&remote, &local), expected);
        }

        #[test]
        fn any_values_cause_no_panic(
            values in prop::collection::vec(any::<u128>().prop_map(Zp::from_u128), 12),
            surplus in -7..7i64,
        ) {
            let mut random = Rng::with_seed(3);
            let (remote, local) = values.split_at(6);
            let _ = reconcile(&POINTS, remote, local, surplus, &mut || random.u128(..));
        }

        #[test]
        fn division_leaves_a_remainder_of_lower_degree(
            a in prop::collection::vec((0..9u128).prop_map(Zp::from_u128), 0..8),
            b in prop::collection::vec((0..9u128).prop_map(Zp::from_u128), 1..6),
        ) {
            let (a, b) = (Poly::new(a), Poly::new(b).monic());
            prop_assume!(b.degree().is_some());
            let (quotient, rest) = a.clone().divide(&b);
            prop_assert!(rest.degree() < b.degree());
            for point in POINTS {
                prop_assert_eq!(a.at(point), quotient.at(point) * b.at(point) + rest.at(point));
            }
            let common = a.clone().gcd(b.clone());
            prop_assert_eq!(a.divide(&common).1, Poly(vec![]));
            prop_assert_eq!(b.divide(&common).1, Poly(vec![]));
        }
    }
}
