//! The dates of new signatures.

use std::time::{Duration, SystemTime};

/// The time `seconds` after the start of 1970.
pub(super) fn at(seconds: u32) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds.into())
}

/// `now`, or one second after `earlier` if that is later.
pub(super) fn after(earlier: Option<SystemTime>, now: u32) -> SystemTime {
    let next = earlier.map(|earlier| earlier + Duration::from_secs(1));
    next.map_or(at(now), |next| next.max(at(now)))
}
