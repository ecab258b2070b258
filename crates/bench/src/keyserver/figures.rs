//! Figures from counts and from several runs.

/// The median of figures, of at least one.
pub(super) fn middle(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// A figure as a number of which three digits count.
#[expect(clippy::cast_precision_loss, reason = "three digits count")]
pub(super) fn float(count: u64) -> f64 {
    count as f64
}
