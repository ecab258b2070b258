//! Points in time.

/// A point in time as OpenPGP has it (RFC 9580, section 3.5): seconds since 1970-01-01 00:00:00
/// UTC, up to the year 2106.
///
/// The public interface of the store takes and returns this type, since its functions have other
/// numbers beside the time: counts, days, numbers of certificates and changes. In this crate, in
/// `trust` and in `message`, a time is a bare `u32` in seconds, the field of a packet that it comes
/// from, and 0 often means "none" there; the type would add only conversions. Trust on first use
/// has times of 64 bits, as the database of GnuPG.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Timestamp(u32);

impl Timestamp {
    /// The time that is this number of seconds after the beginning of 1970.
    #[must_use]
    pub const fn new(seconds: u32) -> Self {
        Self(seconds)
    }

    /// Seconds since 1970.
    #[must_use]
    pub const fn seconds(self) -> u32 {
        self.0
    }
}

impl From<u32> for Timestamp {
    fn from(seconds: u32) -> Self {
        Self(seconds)
    }
}
