//! Calendar dates of times, in UTC. Times are in seconds since 1970.

use jiff::Timestamp;
use jiff::tz::TimeZone;

fn at(time: u32) -> Timestamp {
    Timestamp::from_second(time.into()).expect("a time before 2107")
}

/// The year of a time.
#[must_use]
pub fn year(time: u32) -> i32 {
    TimeZone::UTC.to_datetime(at(time)).year().into()
}

/// The day of a time as text: `2026-11-22`.
#[must_use]
pub fn day(time: u32) -> String {
    let mut text = timestamp(time);
    text.truncate("2026-11-22".len());
    text
}

/// A time as text by RFC 3339: `2026-11-22T21:05:06Z`.
#[must_use]
pub fn timestamp(time: u32) -> String {
    at(time).to_string()
}

/// The days since 1970 of a date as text, `2026-11-22`; `None` for other text.
#[must_use]
pub fn parse_day(text: &str) -> Option<u32> {
    parse_timestamp(&format!("{text}T00:00:00Z")).map(|time| time / 86_400)
}

/// The time of a text that [`timestamp`] writes; `None` for other text.
#[must_use]
pub fn parse_timestamp(text: &str) -> Option<u32> {
    let time = text.parse::<Timestamp>().ok()?.as_second();
    let time = u32::try_from(time).ok()?;
    (timestamp(time) == text).then_some(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_agree_with_the_calendar() {
        let cases = [
            (0, 1970, "1970-01-01"),
            (951_782_400, 2000, "2000-02-29"),
            (951_868_800, 2000, "2000-03-01"),
            (1_795_223_179, 2026, "2026-11-21"),
            (u32::MAX, 2106, "2106-02-07"),
        ];
        for (time, expected, text) in cases {
            assert_eq!((year(time), day(time).as_str()), (expected, text));
        }
    }

    #[test]
    fn a_timestamp_has_one_form() {
        for time in [0, 59, 951_782_399, 951_782_400, 1_795_381_506, u32::MAX] {
            assert_eq!(parse_timestamp(&timestamp(time)), Some(time), "{time}");
        }
        assert_eq!(timestamp(1_795_381_506), "2026-11-22T21:05:06Z");
        for wrong in [
            "",
            "2026-11-22T21:05:06",
            "2026-11-22T21:05:06.0Z",
            "2026-11-22T21:05:06+00:00",
            "2026-11-22t21:05:06z",
            "20261122T210506Z",
            "2016-12-31T23:59:60Z",
            "2026-11-22 21:05:06Z",
            "2026-11-22T24:00:00Z",
            "2026-11-22T1:05:06Z",
            "2026-02-30T00:00:00Z",
            "2026-11-22T21:05:06:07Z",
            "2107-01-01T00:00:00Z",
        ] {
            assert_eq!(parse_timestamp(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_day_has_one_form() {
        for day in [0, 1, 58, 59, 60, 364, 365, 11016, 19_782, 20_000, 40_000] {
            assert_eq!(parse_day(&super::day(day * 86_400)), Some(day));
        }
        for wrong in
            ["", "2026-13-01", "2026-02-30", "26-01-01", "2026-1-1", "20260101", "1969-12-31"]
        {
            assert_eq!(parse_day(wrong), None, "{wrong}");
        }
    }
}
