//! The numbers that a store gives to certificates and to changes.

use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;

/// The number of a certificate in one store.
///
/// Only the store makes numbers, and a [`Cursor`](crate::Cursor) is their only form as text.
/// Nothing can be computed with them, and those of two stores are not comparable. Outside of the
/// store, a certificate is named by its fingerprint. A caller that has a number, from a
/// [`Row`](crate::Row), an index or the change log, gives it back to save a look-up of the
/// fingerprint. A number may name no certificate: the certificate may have been deleted since.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct CertId(i64);

impl CertId {
    pub(crate) const fn new(number: i64) -> Self {
        Self(number)
    }

    pub(crate) const fn get(self) -> i64 {
        self.0
    }

    /// The place of the certificate in a table in memory that has one place for each number.
    /// Numbers start at 1 and have few gaps, but one from a damaged file may be far above all
    /// others, or have no place at all.
    #[must_use]
    pub fn place(self) -> Option<usize> {
        usize::try_from(self.0).ok()
    }
}

/// The number of a change in the change log of one store. Later changes have higher numbers.
///
/// As text, it is the decimal number. Numbers of different stores are not comparable.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ChangeNumber(i64);

impl ChangeNumber {
    /// Before the first change; the last change of an empty store. Certificates that were blocked
    /// without being in the store have it, too.
    pub const START: Self = Self(0);

    pub(crate) const fn new(number: i64) -> Self {
        Self(number)
    }

    /// The number, for output.
    #[must_use]
    pub const fn get(self) -> i64 {
        self.0
    }

    /// The number of the change after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// The number of changes after `earlier`, up to this one.
    #[must_use]
    pub const fn since(self, earlier: Self) -> u64 {
        let count = self.0.saturating_sub(earlier.0);
        if count < 0 { 0 } else { count.cast_unsigned() }
    }
}

impl fmt::Display for ChangeNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for ChangeNumber {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Self, ParseIntError> {
        text.parse().map(Self)
    }
}
