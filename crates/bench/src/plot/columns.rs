//! Vertical bars: how many there are of each year or size.

use super::draw::{Text, rect, text, text_width};
use super::number::number;

/// A histogram.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Columns {
    /// Names of the columns and how many there are, from left to right.
    pub counts: Vec<(String, f64)>,
}

/// Height of the longest column.
const HEIGHT: f64 = 120.0;

/// Size of letters.
const SIZE: f64 = 11.5;

impl Columns {
    pub(super) fn draw(&self, out: &mut String, x: f64, y: f64, width: f64) -> f64 {
        let step = width / self.counts.len().max(1) as f64;
        let largest = self.counts.iter().map(|(_, count)| *count).fold(f64::MIN_POSITIVE, f64::max);
        let top = y + 14.0;
        let bottom = top + HEIGHT;
        let widest = |texts: &mut dyn Iterator<Item = String>| {
            texts.map(|text| text_width(&text, SIZE)).fold(0.0, f64::max)
        };
        let names = widest(&mut self.counts.iter().map(|(name, _)| name.clone()));
        // Where names would touch, every second or third is written, counted from the last one.
        let every = ((names + 8.0) / step).ceil().max(1.0);
        for (at, (name, count)) in self.counts.iter().enumerate() {
            let left = x + step * at as f64;
            let middle = left + step / 2.0;
            let height = (count / largest * HEIGHT).max(if *count > 0.0 { 1.5 } else { 0.0 });
            let wide = (step * 0.78).min(46.0);
            if height > 0.0 {
                rect(out, "p-0", (middle - wide / 2.0, bottom - height), (wide, height));
                let value = number(*count);
                if text_width(&value, SIZE) <= step + 2.0 {
                    let at = Text::new(middle, bottom - height - 5.0, SIZE).soft().middle();
                    text(out, at, &value);
                }
            }
            if ((self.counts.len() - 1 - at) as f64 % every) < 0.5 {
                text(out, Text::new(middle, bottom + 17.0, SIZE).middle(), name);
            }
        }
        use std::fmt::Write as _;
        let _ = writeln!(
            out,
            "<line class=\"p-axis\" x1=\"{x:.1}\" y1=\"{bottom:.1}\" x2=\"{right:.1}\" \
             y2=\"{bottom:.1}\"/>",
            right = x + width,
        );
        bottom + 22.0 - y
    }
}
