//! The hybrid clock: real time where possible, and always growing along a chain and past all links.

/// A point of the hybrid clock: milliseconds since 1970 in 48 bits, and a counter in 16 bits.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Clock(pub u64);

impl Clock {
    /// The last point. No entry can follow one that has it.
    pub const MAX: Self = Self(u64::MAX);

    /// The first point of a millisecond. Times past the year 10889 are that of the last
    /// millisecond.
    #[must_use]
    pub fn at_ms(ms: u64) -> Self {
        Self(ms.min((1 << 48) - 1) << 16)
    }

    /// Milliseconds since 1970.
    #[must_use]
    pub fn ms(self) -> u64 {
        self.0 >> 16
    }

    /// The point of an entry that is made at `now_ms` and follows `latest`. `None` if the clock has
    /// reached its end.
    #[must_use]
    pub fn after(latest: Self, now_ms: u64) -> Option<Self> {
        latest.0.checked_add(1).map(|next| Self(next).max(Self::at_ms(now_ms)))
    }
}
