//! What each call from another language needs: the time, locks, and a guard against panics.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::SystemTime;

use crate::error::Error;

/// The current time in milliseconds since 1970.
pub(super) fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

/// The current time in seconds since 1970.
pub(super) fn now() -> u32 {
    u32::try_from(now_ms() / 1000).unwrap_or(u32::MAX)
}

/// Runs the work of a call from another language. A panic is a bug in talaria, and the caller gets
/// it as an error.
///
/// # Errors
///
/// The error of `work`, or [`Error::Bug`].
pub fn guarded<T>(work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    // Values that a panic left inconsistent are dropped, or are behind locks that tolerate it (see
    // `lock`).
    catch_unwind(AssertUnwindSafe(work)).unwrap_or(Err(Error::Bug))
}
