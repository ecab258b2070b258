//! Expiry times, as users write them.

use std::str::FromStr;

use talaria::parse_day;

use crate::error::CliError;

/// An expiry time, as a user writes it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Expiry {
    Never,
    /// A number of seconds from now.
    In(u32),
    /// A time in seconds since 1970.
    At(u32),
}

impl Expiry {
    /// The expiry time in seconds since 1970; `None` for never.
    pub(crate) fn at(self, now: u32) -> Option<u32> {
        match self {
            Self::Never => None,
            Self::In(seconds) => Some(now.saturating_add(seconds)),
            Self::At(time) => Some(time),
        }
    }

    /// The number of seconds from now until expiry; an error unless expiry is in the future.
    pub(crate) fn seconds(self, now: u32) -> Result<Option<u32>, CliError> {
        match self.at(now) {
            None => Ok(None),
            Some(end) if end > now => Ok(Some(end - now)),
            Some(_) => Err(CliError::Usage(
                "the expiry date of a key must be after its creation date".into(),
            )),
        }
    }
}

impl FromStr for Expiry {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        const SHAPE: &str =
            "it is never, now, a date (2030-12-31) or a time from now: 90d, 8w, 6m, 2y";
        const DAY: u32 = 86400;
        match text {
            "never" => return Ok(Self::Never),
            "now" => return Ok(Self::In(0)),
            _ => {}
        }
        if let [year, month, day] = text.split('-').collect::<Vec<_>>()[..] {
            let late = year.parse::<u32>().is_ok_and(|year| year > 2105);
            return match parse_day(&format!("{year:0>4}-{month:0>2}-{day:0>2}")) {
                Some(days) => Ok(Self::At(days * DAY)),
                None if late => Err("a date is before 2106"),
                None => Err(SHAPE),
            };
        }
        let (digits, unit) = text.split_at_checked(text.len().saturating_sub(1)).ok_or(SHAPE)?;
        let days = match unit {
            "d" => 1,
            "w" => 7,
            "m" => 30,
            "y" => 365,
            _ => return Err(SHAPE),
        };
        let count: u32 = digits.parse().map_err(|_| SHAPE)?;
        count.checked_mul(days * DAY).map(Self::In).ok_or("that is too long; say never")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expiry_accepts_dates_and_durations() {
        let cases = [
            ("never", None),
            ("now", Some(1000)),
            ("1d", Some(87400)),
            ("2w", Some(1000 + 14 * 86400)),
            ("6m", Some(1000 + 180 * 86400)),
            ("2y", Some(1000 + 730 * 86400)),
            ("1970-01-02", Some(86400)),
            ("2000-03-01", Some(951_868_800)),
            ("2030-12-31", Some(1_924_905_600)),
        ];
        for (text, expected) in cases {
            assert_eq!(text.parse::<Expiry>().unwrap().at(1000), expected, "{text}");
        }
        for bad in [
            "",
            "y",
            "1",
            "-1d",
            "1.5y",
            "2001-02-29",
            "2001-13-01",
            "2001-00-01",
            "1969-12-31",
            "9999-01-01",
            "999y",
            "2001-01",
            "ü",
            "1ü",
        ] {
            assert!(bad.parse::<Expiry>().is_err(), "{bad}");
        }
    }
}
