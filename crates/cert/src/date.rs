//! Calendar dates of times.

/// Year, month and day of a time in seconds since 1970, in UTC.
///
/// Counts days in the proleptic Gregorian calendar from 1 March of year 0.
#[must_use]
pub fn date(time: u32) -> (i32, u32, u32) {
    let days = i64::from(time / 86_400) + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = year_of_era + era * 400 + carry;
    (
        i32::try_from(year).unwrap_or_default(),
        u32::try_from(month).unwrap_or_default(),
        u32::try_from(day).unwrap_or_default(),
    )
}

/// A time as text by RFC 3339, in UTC: `2026-11-22T21:05:06Z`.
#[must_use]
pub fn timestamp(time: u32) -> String {
    let (year, month, day) = date(time);
    let (hour, minute, second) = (time / 3600 % 24, time / 60 % 60, time % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// The days since 1970 of a date as text, `2026-11-22`; `None` for other text.
#[must_use]
pub fn parse_day(text: &str) -> Option<u32> {
    let (year, rest) = text.split_once('-')?;
    let (month, day) = rest.split_once('-')?;
    if (year.len(), month.len(), day.len()) != (4, 2, 2) {
        return None;
    }
    let (year, month, day): (i64, i64, i64) =
        (year.parse().ok()?, month.parse().ok()?, day.parse().ok()?);
    // Days from civil, for years from 1970 on.
    let shifted = if month <= 2 { year - 1 } else { year };
    let era = shifted.div_euclid(400);
    let of_era = shifted - era * 400;
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468;
    let days = u32::try_from(days).ok()?;
    let same =
        timestamp(days.checked_mul(86_400)?).split_once('T').is_some_and(|(day, _)| day == text);
    same.then_some(days)
}

/// The time of a text that [`timestamp`] writes; `None` for other text.
#[must_use]
pub fn parse_timestamp(text: &str) -> Option<u32> {
    let (day, rest) = text.split_once('T')?;
    let mut parts = rest.strip_suffix('Z')?.split(':').map(|part| part.parse::<u32>().ok());
    let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next()??);
    let in_day =
        hour.checked_mul(3600)?.checked_add(minute.checked_mul(60)?)?.checked_add(second)?;
    let time = parse_day(day)?.checked_mul(86_400)?.checked_add(in_day)?;
    (timestamp(time) == text).then_some(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_agree_with_the_calendar() {
        let cases = [
            (0, (1970, 1, 1)),
            (951_782_400, (2000, 2, 29)),
            (951_868_800, (2000, 3, 1)),
            (1_795_223_179, (2026, 11, 21)),
            (u32::MAX, (2106, 2, 7)),
        ];
        for (time, expected) in cases {
            assert_eq!(date(time), expected);
        }
    }

    #[test]
    fn a_timestamp_has_one_form() {
        for time in [0, 59, 951_782_399, 951_782_400, 1_795_381_506, u32::MAX] {
            assert_eq!(parse_timestamp(&timestamp(time)), Some(time), "{time}");
        }
        assert_eq!(timestamp(1_795_381_506), "2026-11-22T21:05:06Z");
        for wrong in [
            "2026-11-22T21:05:06",
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
            let text = timestamp(day * 86_400);
            assert_eq!(parse_day(text.split_once('T').unwrap().0), Some(day));
        }
        for wrong in ["", "2026-13-01", "2026-02-30", "26-01-01", "2026-1-1", "x", "1969-12-31"] {
            assert_eq!(parse_day(wrong), None, "{wrong}");
        }
    }
}
