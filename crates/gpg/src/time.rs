//! Points in time as GnuPG writes them.

use std::ffi::CStr;
use std::time::SystemTime;

/// The present time in seconds since 1970.
pub(crate) fn now() -> u32 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u32::try_from(since.as_secs()).unwrap_or(u32::MAX)
}

/// A time, in seconds since 1970, in the time zone of the machine: `Mon Nov 30 07:17:04 2026 UTC`.
pub(crate) fn local(time: u32) -> String {
    const DAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let Some((tm, zone)) = broken_down(time) else { return "????-??-??".to_owned() };
    let name = |names: &[&'static str], at: i32| {
        usize::try_from(at).ok().and_then(|at| names.get(at).copied()).unwrap_or("?")
    };
    format!(
        "{} {} {:2} {:02}:{:02}:{:02} {} {zone}",
        name(&DAYS, tm.tm_wday),
        name(&MONTHS, tm.tm_mon),
        tm.tm_mday,
        tm.tm_hour,
        tm.tm_min,
        tm.tm_sec,
        1900 + tm.tm_year,
    )
}

/// The day of a time, in seconds since 1970, in the time zone of the machine: `2026-11-30`.
pub(crate) fn day(time: u32) -> String {
    let Some((tm, _)) = broken_down(time) else { return "????-??-??".to_owned() };
    format!("{:04}-{:02}-{:02}", 1900 + tm.tm_year, 1 + tm.tm_mon, tm.tm_mday)
}

/// The present time in the time zone of the machine, for a log: `2026-11-30 07:20:59`.
pub(crate) fn stamp() -> String {
    let Some((tm, _)) = broken_down(now()) else { return "????-??-??".to_owned() };
    let (year, month) = (1900 + tm.tm_year, 1 + tm.tm_mon);
    format!(
        "{year:04}-{month:02}-{:02} {:02}:{:02}:{:02}",
        tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec
    )
}

/// The fields of a time, and the short name of the time zone.
#[expect(unsafe_code, reason = "the C library knows the time zone")]
fn broken_down(time: u32) -> Option<(libc::tm, String)> {
    let time = libc::time_t::from(time);
    // SAFETY: A `tm` is plain data, for which zeros are valid.
    let mut tm: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: Both pointers are to live values. The program has one thread, and nothing in it sets
    // environment variables.
    if unsafe { libc::localtime_r(&raw const time, &raw mut tm) }.is_null() {
        return None;
    }
    let zone = if tm.tm_zone.is_null() {
        String::new()
    } else {
        // SAFETY: The C library gives a string that ends with zero and that stays.
        unsafe { CStr::from_ptr(tm.tm_zone) }.to_string_lossy().into_owned()
    };
    Some((tm, zone))
}
