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
}
