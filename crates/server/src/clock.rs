//! The time, as the store counts it.

use std::time::SystemTime;

/// Seconds since 1970.
pub(crate) fn now() -> u32 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u32::try_from(now.as_secs()).unwrap_or(u32::MAX)
}

/// Days since 1970.
pub(crate) fn today() -> u32 {
    now() / 86400
}

/// A day as it is written: YYYY-MM-DD.
pub(crate) fn day_text(day: u32) -> String {
    talaria::day(day.saturating_mul(86400))
}
