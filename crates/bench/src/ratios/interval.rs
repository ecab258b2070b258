//! The median of a few figures, and how far it can be trusted.

/// The median of a sample, with an interval that has the median of the population in at least 95 of
/// 100 samples.
///
/// The bounds are two figures of the sample itself, chosen by the binomial distribution. So single
/// runs that something else has disturbed count as one figure each, however far away they are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Interval {
    pub(super) low: f64,
    pub(super) middle: f64,
    pub(super) high: f64,
}

impl Interval {
    /// Of at least one figure. Fewer than six have no interval of 95 %: it is then all of them.
    pub(super) fn of_median(mut figures: Vec<f64>) -> Self {
        figures.sort_by(f64::total_cmp);
        let outside = left_out(figures.len());
        Self {
            low: figures[outside],
            middle: figures[figures.len() / 2],
            high: figures[figures.len() - 1 - outside],
        }
    }
}

/// How many of the smallest and of the largest of `count` figures are outside of the interval.
///
/// The median is below the figure at place `k` (from 0) if at most `k` of `count` throws of a coin
/// are heads.
fn left_out(count: usize) -> usize {
    let (mut outside, mut term) = (0.0, 0.5_f64.powi(i32::try_from(count).unwrap_or(i32::MAX)));
    for place in 0..count / 2 {
        outside += term;
        if 2.0 * outside > 0.05 {
            return place.saturating_sub(1);
        }
        #[expect(clippy::cast_precision_loss, reason = "small numbers")]
        let factor = (count - place) as f64 / (place + 1) as f64;
        term *= factor;
    }
    (count / 2).saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table for the sign test in textbooks: 6 to 8 figures leave none out, 9 one, 12 two, 15
    /// three, 20 five.
    #[test]
    fn the_interval_has_the_ranks_of_the_binomial_distribution() {
        for (count, outside) in [(6, 0), (8, 0), (9, 1), (11, 1), (12, 2), (15, 3), (20, 5)] {
            assert_eq!(left_out(count), outside, "{count}");
        }
        for count in 1..6 {
            assert_eq!(left_out(count), 0, "{count}");
        }
    }

    #[test]
    fn one_disturbed_run_of_nine_moves_no_bound_far() {
        let quiet: Vec<f64> = (0..9).map(|at| 1.0 + f64::from(at) / 100.0).collect();
        let mut disturbed = quiet.clone();
        disturbed[0] = 40.0;
        let (quiet, disturbed) = (Interval::of_median(quiet), Interval::of_median(disturbed));
        assert!(disturbed.low - quiet.low < 0.02 && disturbed.high < 1.1, "{disturbed:?}");
    }
}
