//! How figures are written in pictures: three digits that count, everywhere.

use crate::table::three_digits;

/// The unit of figures.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Unit {
    /// A number without a unit.
    #[default]
    None,
    /// Seconds, written as s, ms or µs.
    Seconds,
    /// A count, written with its share of all counts.
    Share,
    /// A unit that is written behind the number.
    Named(&'static str),
}

impl Unit {
    /// A figure with its unit. `of` is the sum of which a share is taken, or the largest figure
    /// beside this one, which decides between seconds and their parts.
    pub(super) fn write(self, figure: f64, of: f64) -> String {
        match self {
            Self::None => number(figure),
            Self::Named(unit) => format!("{} {unit}", three_digits(figure)),
            Self::Seconds if of >= 0.9995 => format!("{} s", three_digits(figure)),
            Self::Seconds if of >= 0.000_999_5 => format!("{} ms", three_digits(figure * 1e3)),
            Self::Seconds => format!("{} µs", three_digits(figure * 1e6)),
            Self::Share if of > 0.0 => {
                let percent = 100.0 * figure / of;
                let percent = match percent {
                    0.0 => "0".to_owned(),
                    share if share < 0.95 => "<1".to_owned(),
                    share => format!("{share:.0}"),
                };
                format!("{} ({percent} %)", number(figure))
            }
            Self::Share => number(figure),
        }
    }
}

/// A number: whole ones in full, others with three digits that count.
pub(crate) fn number(figure: f64) -> String {
    let text = three_digits(figure);
    if figure.fract() == 0.0 && text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

/// The ratio of two figures.
pub(super) fn times(factor: f64) -> String {
    let text = match factor {
        factor if factor >= 9.95 => three_digits(factor.round()),
        factor if factor >= 0.095 => format!("{factor:.1}"),
        factor => format!("{factor:.2}"),
    };
    let text = if factor >= 9.95 && text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    };
    format!("{text}×")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits_and_a_unit() {
        let cases = [
            (Unit::Seconds, 96.737, 96.737, "96.7 s"),
            (Unit::Seconds, 0.765_591, 96.737, "0.766 s"),
            (Unit::Seconds, 0.765_591, 0.765_591, "766 ms"),
            (Unit::Seconds, 0.000_012, 0.000_02, "12.0 µs"),
            (Unit::None, 26_993.5, 0.0, "26,994"),
            (Unit::None, 8.0, 0.0, "8"),
            (Unit::Named("MB/s"), 28.0, 0.0, "28.0 MB/s"),
            (Unit::Share, 416.0, 905.0, "416 (46 %)"),
            (Unit::Share, 2.0, 905.0, "2 (<1 %)"),
        ];
        for (unit, figure, of, expected) in cases {
            assert_eq!(unit.write(figure, of), expected);
        }
    }

    #[test]
    fn factors_are_short() {
        let cases =
            [(126.36, "126×"), (1375.8, "1,376×"), (31.6, "32×"), (2.05, "2.0×"), (0.427, "0.4×")];
        for (factor, expected) in cases {
            assert_eq!(times(factor), expected);
        }
    }
}
