//! The CPU time that certificates of strangers may take, and that they have taken.

use std::time::Duration;

/// Certificates take more CPU time than is allowed.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "verifying the signatures takes at least {:.1} s of CPU time, and {:.1} s are allowed",
    needed.as_secs_f64(), allowed.as_secs_f64()
)]
pub struct TooCostly {
    /// The CPU time that they take, as far as it was counted.
    pub needed: Duration,
    /// The CPU time that is allowed.
    pub allowed: Duration,
}

/// The CPU time for some certificates, by the model of [`Cert::cost`](crate::Cert::cost): how much
/// is allowed, how much was needed so far, and how much of it may be for others.
///
/// What others have made is the signatures of other keys on a certificate, its stored copy, and the
/// certificates that name it as their revoker. Strangers can add to each of these, so each counts
/// for one part at most, and nothing is refused for what is beyond it.
///
/// ```
/// use std::time::Duration;
/// use talaria_cert::Work;
///
/// let second = Duration::from_secs(1);
/// let mut work = Work::of(4 * second).with_part(second);
/// work.take(2 * second)?;
/// work.take_for_others(60 * second)?;
/// assert_eq!(work.left(), second);
/// assert!(work.take(2 * second).is_err());
/// # Ok::<(), talaria_cert::TooCostly>(())
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Work {
    allowed: Duration,
    needed: Duration,
    part: Duration,
}

impl Default for Work {
    fn default() -> Self {
        Self::UNBOUNDED
    }
}

impl Work {
    /// Without a limit.
    pub const UNBOUNDED: Self = Self::of(Duration::MAX);

    /// The allowed time, of which nothing is needed yet. All of it may be for others.
    #[must_use]
    pub const fn of(allowed: Duration) -> Self {
        Self { allowed, needed: Duration::ZERO, part: allowed }
    }

    /// The same, with so much at most each time for what others have made.
    #[must_use]
    pub const fn with_part(self, part: Duration) -> Self {
        Self { part, ..self }
    }

    /// The same, with no more than `most` in all. The part for others stays: what is left out must
    /// not depend on how little was allowed at first.
    #[must_use]
    pub fn up_to(self, most: Duration) -> Self {
        Self { allowed: self.allowed.min(most), ..self }
    }

    /// Whether there is a limit.
    #[must_use]
    pub fn is_bounded(self) -> bool {
        self.allowed < Duration::MAX
    }

    /// The time that is allowed in all.
    #[must_use]
    pub fn allowed(self) -> Duration {
        self.allowed
    }

    /// The time that was needed so far: more than was allowed if it was not enough.
    #[must_use]
    pub fn needed(self) -> Duration {
        self.needed
    }

    /// The time that is left.
    #[must_use]
    pub fn left(self) -> Duration {
        if self.is_bounded() { self.allowed.saturating_sub(self.needed) } else { Duration::MAX }
    }

    /// The time for the next thing that others have made.
    #[must_use]
    pub fn for_others(self) -> Self {
        Self::of(self.left().min(self.part))
    }

    /// Takes time, also what is not there.
    ///
    /// # Errors
    ///
    /// More was taken by now than is allowed.
    pub fn take(&mut self, time: Duration) -> Result<(), TooCostly> {
        self.needed = self.needed.saturating_add(time);
        let Self { allowed, needed, .. } = *self;
        if needed > allowed { Err(TooCostly { needed, allowed }) } else { Ok(()) }
    }

    /// Takes time for what others have made: its part at most.
    ///
    /// # Errors
    ///
    /// As [`Self::take`].
    pub fn take_for_others(&mut self, time: Duration) -> Result<(), TooCostly> {
        self.take(time.min(self.part))
    }
}
