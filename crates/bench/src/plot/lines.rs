//! Lines with a dot for each figure, for what grows.

use std::fmt::Write as _;

use super::draw::{Text, legend, rect, text};
use super::number::number;
use super::series::{Colour, Series};

/// Lines over a logarithmic horizontal axis.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lines {
    /// The positions of the figures on the horizontal axis: numbers above 0, in order.
    pub places: Vec<f64>,
    /// Name of the horizontal axis. That it is logarithmic is added.
    pub across: String,
    /// The lines.
    pub series: Vec<Series>,
    /// The vertical axis.
    pub axis: Axis,
}

/// A vertical axis.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Axis {
    /// From 0.
    #[default]
    Linear,
    /// By powers of ten; this is written at the axis.
    Logarithmic,
}

/// Height of the field of the figures.
const HEIGHT: f64 = 230.0;

/// Size of letters.
const SIZE: f64 = 12.5;

/// The lowest and the highest value of an axis (for a logarithmic one their logarithms), and what
/// is written at it.
struct Range {
    from: f64,
    to: f64,
    ticks: Vec<f64>,
}

impl Range {
    fn linear(highest: f64) -> Self {
        // Steps of 1, 2 or 5 times a power of ten, three to six of them.
        let power = 10f64.powf((highest / 5.0).log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|n| n * power);
        let step = step.into_iter().find(|step| highest / step <= 5.0).unwrap_or(highest);
        let to = (highest / step).ceil() * step;
        let mut ticks = vec![0.0];
        while ticks[ticks.len() - 1] < to - step / 2.0 {
            ticks.push(ticks.len() as f64 * step);
        }
        Self { from: 0.0, to, ticks }
    }

    fn logarithmic(lowest: f64, highest: f64) -> Self {
        let from = lowest.log10().floor();
        let to = highest.log10().ceil().max(from + 1.0);
        let mut ticks = Vec::new();
        let mut at = from;
        while at <= to {
            ticks.push(10f64.powf(at));
            at += 1.0;
        }
        Self { from, to, ticks }
    }

    fn share(&self, value: f64) -> f64 {
        (value - self.from) / (self.to - self.from)
    }
}

impl Lines {
    pub(super) fn draw(&self, out: &mut String, x: f64, y: f64, width: f64) -> f64 {
        let names: Vec<&str> = self.series.iter().map(|series| series.name.as_str()).collect();
        let top = y + legend(out, x, y, &names) + 6.0;
        let bottom = top + HEIGHT;
        let (left, right) = (x + 62.0, x + width - 46.0);
        let figures = || self.series.iter().flat_map(|line| line.figures.iter().flatten().copied());
        let highest = figures().fold(f64::MIN_POSITIVE, f64::max);
        let range = match self.axis {
            Axis::Linear => Range::linear(highest),
            Axis::Logarithmic => {
                Range::logarithmic(figures().filter(|&f| f > 0.0).fold(highest, f64::min), highest)
            }
        };
        let height = |figure: f64| {
            let value = if self.axis == Axis::Linear { figure } else { figure.log10() };
            bottom - range.share(value) * HEIGHT
        };
        for &tick in &range.ticks {
            let y = height(tick);
            let _ = writeln!(
                out,
                "<line class=\"p-grid\" x1=\"{left:.1}\" y1=\"{y:.1}\" x2=\"{right:.1}\" \
                 y2=\"{y:.1}\"/>"
            );
            text(out, Text::new(left - 9.0, y + 4.0, SIZE).soft().end(), &number(tick));
        }
        if self.axis == Axis::Logarithmic {
            text(out, Text::new(left + 6.0, top + 4.0, 11.0).soft(), "log scale");
        }
        let logarithm = |value: f64| value.max(f64::MIN_POSITIVE).log10();
        let ends = (self.places.first().copied(), self.places.last().copied());
        let (first, last) = match ends {
            (Some(first), Some(last)) if last > first => (logarithm(first), logarithm(last)),
            (Some(only), _) => (logarithm(only) - 1.0, logarithm(only) + 1.0),
            _ => (0.0, 1.0),
        };
        let place =
            |value: f64| left + (logarithm(value) - first) / (last - first) * (right - left);
        for &value in &self.places {
            text(out, Text::new(place(value), bottom + 18.0, SIZE).soft().middle(), &number(value));
        }
        let across = format!("{} (log scale)", self.across);
        let at = Text::new(f64::midpoint(left, right), bottom + 38.0, SIZE).soft().middle();
        text(out, at, &across);
        for (at, series) in self.series.iter().enumerate() {
            let class = Colour::Series(at).class();
            let points: Vec<(f64, f64, f64)> = self
                .places
                .iter()
                .zip(&series.figures)
                .filter_map(|(&value, figure)| Some((place(value), height((*figure)?), (*figure)?)))
                .collect();
            let path: Vec<String> =
                points.iter().map(|(x, y, _)| format!("{x:.1},{y:.1}")).collect();
            let _ = writeln!(
                out,
                "<polyline class=\"{class} p-line\" points=\"{}\" stroke-width=\"2.5\"/>",
                path.join(" ")
            );
            for (x, y, _) in &points {
                rect(out, &class, (x - 3.5, y - 3.5), (7.0, 7.0));
            }
            if let Some((x, y, figure)) = points.last() {
                text(out, Text::new(x + 9.0, y + 4.0, SIZE).bold(), &number(*figure));
            }
        }
        bottom + 44.0 - y
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_reach_the_highest_figure() {
        for highest in [0.02, 3.0, 70.0, 81.6, 1053.0] {
            let range = Range::linear(highest);
            assert!(range.to >= highest && range.share(highest) > 0.5, "{highest}");
            assert!((3..=7).contains(&range.ticks.len()), "{highest}: {:?}", range.ticks);
        }
        let range = Range::logarithmic(0.02, 70.0);
        assert_eq!(range.ticks.len(), 5);
    }
}
