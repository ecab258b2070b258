//! Time spans in words.

/// A time span in the largest unit that fits: `90 s`, `3 h`, `12 days`.
#[must_use]
pub fn time_span(seconds: u32) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}
