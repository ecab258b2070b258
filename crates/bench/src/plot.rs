//! Pictures of figures: SVG without scripts, for light and for dark screens.
//!
//! A [`Picture`] is a title and some [`Panel`]s, each of which is bars, columns or lines. It has a
//! background of its own, so that it can be read wherever it is embedded. All of it is written by
//! hand, because plotting libraries fix the colours when they draw, and what is drawn here follows
//! the colours of the screen.

#![expect(clippy::cast_precision_loss, reason = "places on an axis are few")]

mod bars;
mod columns;
mod draw;
mod lines;
mod number;
mod series;

pub use bars::{Bars, Factor, Scale};
pub use columns::Columns;
pub use draw::escaped;
pub use lines::{Axis, Lines};
pub use number::Unit;
pub(crate) use number::number;
pub use series::{Colour, Series};

use self::draw::{Text, text};

/// Width of a picture in pixels.
const WIDTH: f64 = 960.0;

/// Space at the edges of a picture.
const MARGIN: f64 = 28.0;

/// Space between two panels side by side.
const GAP: f64 = 40.0;

/// Colours on light and on dark screens. Series are told apart by most who do not see all colours
/// (Okabe and Ito).
const STYLE: &str = "\
.p-ground{fill:#fff}.p-text{fill:#1f2328}.p-soft{fill:#59636e}.p-track{fill:#eff2f5}\
.p-grid{stroke:#d1d9e0}.p-axis{stroke:#818b98}\
.p-0{fill:#0072b2;stroke:#0072b2}.p-1{fill:#d55e00;stroke:#d55e00}\
.p-2{fill:#009e73;stroke:#009e73}.p-3{fill:#b8609b;stroke:#b8609b}\
.p-4{fill:#c98a00;stroke:#c98a00}.p-5{fill:#3d9bd6;stroke:#3d9bd6}\
.p-rest{fill:#9aa4af;stroke:#9aa4af}\
.p-good{fill:#1a7f37;stroke:#1a7f37}.p-warning{fill:#bf8700;stroke:#bf8700}\
.p-bad{fill:#cf222e;stroke:#cf222e}.p-bar{stroke:none}.p-line{fill:none}\
@media (prefers-color-scheme:dark){\
.p-ground{fill:#0d1117}.p-text{fill:#e6edf3}.p-soft{fill:#9198a1}.p-track{fill:#1b222b}\
.p-grid{stroke:#2b323b}.p-axis{stroke:#656c76}\
.p-0{fill:#4ea8e6;stroke:#4ea8e6}.p-1{fill:#f0883e;stroke:#f0883e}\
.p-2{fill:#3fb68b;stroke:#3fb68b}.p-3{fill:#dd8fbf;stroke:#dd8fbf}\
.p-4{fill:#e3b341;stroke:#e3b341}.p-5{fill:#8ccbf0;stroke:#8ccbf0}\
.p-rest{fill:#656c76;stroke:#656c76}\
.p-good{fill:#3fb950;stroke:#3fb950}.p-warning{fill:#d29922;stroke:#d29922}\
.p-bad{fill:#f85149;stroke:#f85149}.p-bar{stroke:none}.p-line{fill:none}}";

/// A picture.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Picture {
    /// The title.
    pub title: String,
    /// Lines below the title: data, machine, totals.
    pub subtitle: Vec<String>,
    /// The panels, in reading order.
    pub panels: Vec<Panel>,
    /// The number of panels side by side.
    pub columns: usize,
    /// A line at the bottom: the source.
    pub foot: String,
}

/// One part of a picture.
#[derive(Clone, Debug, PartialEq)]
pub struct Panel {
    /// The title; empty if that of the picture is enough.
    pub title: String,
    /// The unit, and which direction is better.
    pub note: String,
    /// The full width of the picture, where panels stand side by side.
    pub wide: bool,
    /// The drawing.
    pub body: Body,
}

/// The content of a panel.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// Horizontal bars.
    Bars(Bars),
    /// Vertical bars without gaps in their order: a histogram.
    Columns(Columns),
    /// Lines with a dot for each figure.
    Lines(Lines),
}

impl Picture {
    /// The picture as an SVG document.
    #[must_use]
    pub fn svg(&self) -> String {
        self.svg_of_width(WIDTH)
    }

    /// The picture as an SVG document of this width. Without a title it begins with its panels.
    #[must_use]
    pub fn svg_of_width(&self, width_px: f64) -> String {
        let mut body = String::new();
        let mut y = 0.0;
        if !self.title.is_empty() {
            y = MARGIN + 20.0;
            text(&mut body, Text::new(MARGIN, y, 21.0).bold(), &self.title);
        }
        for line in &self.subtitle {
            y += 22.0;
            text(&mut body, Text::new(MARGIN, y, 13.5).soft(), line);
        }
        y += 26.0;
        let columns = self.columns.max(1);
        let full = width_px - 2.0 * MARGIN;
        let narrow = (full - GAP * (columns - 1) as f64) / columns as f64;
        let mut rest = self.panels.as_slice();
        while let Some(first) = rest.first() {
            let alone = first.wide || columns == 1;
            let count = if alone {
                1
            } else {
                rest.iter().take(columns).take_while(|panel| !panel.wide).count()
            };
            let (row, next) = rest.split_at(count);
            let width = if alone { full } else { narrow };
            let mut height = 0.0_f64;
            for (at, panel) in row.iter().enumerate() {
                let x = MARGIN + (width + GAP) * at as f64;
                height = height.max(panel.draw(&mut body, x, y, width));
            }
            y += height + 30.0;
            rest = next;
        }
        if !self.foot.is_empty() {
            text(&mut body, Text::new(MARGIN, y, 12.0).soft(), &self.foot);
            y += 20.0;
        }
        let title = escaped(&self.title);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width_px:.0} {y:.0}\" \
             width=\"{width_px:.0}\" height=\"{y:.0}\" role=\"img\" \
             font-family=\"system-ui, -apple-system, 'Segoe UI', 'Noto Sans', Arial, sans-serif\">\n\
             <title>{title}</title>\n<style>{STYLE}</style>\n\
             <rect class=\"p-ground\" width=\"{width_px:.0}\" height=\"{y:.0}\" rx=\"8\"/>\n\
             {body}</svg>\n"
        )
    }
}

impl Panel {
    /// A panel of the full width, with neither a title nor a note.
    #[must_use]
    pub fn new(body: Body) -> Self {
        Self { title: String::new(), note: String::new(), wide: true, body }
    }

    /// The same with a title and a note.
    #[must_use]
    pub fn titled(mut self, title: &str, note: &str) -> Self {
        title.clone_into(&mut self.title);
        note.clone_into(&mut self.note);
        self
    }

    /// The same, to stand beside others.
    #[must_use]
    pub fn narrow(mut self) -> Self {
        self.wide = false;
        self
    }

    /// Draws it with its top left corner at a point, and returns its height.
    fn draw(&self, out: &mut String, x: f64, y: f64, width: f64) -> f64 {
        let mut top = y;
        if !self.title.is_empty() {
            text(out, Text::new(x, top + 12.0, 15.0).bold(), &self.title);
            top += 22.0;
        }
        if !self.note.is_empty() {
            text(out, Text::new(x, top + 8.0, 12.5).soft(), &self.note);
            top += 20.0;
        }
        top += 4.0;
        let height = match &self.body {
            Body::Bars(bars) => bars.draw(out, x, top, width),
            Body::Columns(columns) => columns.draw(out, x, top, width),
            Body::Lines(lines) => lines.draw(out, x, top, width),
        };
        top + height - y
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bars(scale: Scale) -> Bars {
        Bars {
            places: vec!["<mail>".into(), "key ID".into()],
            series: vec![
                Series { name: "talaria".into(), figures: vec![Some(2.0), Some(3.0)] },
                Series { name: "gpg & others".into(), figures: vec![Some(400.0), None] },
            ],
            scale,
            factor: Some(Factor { of: 1, to: 0, name: "less CPU".into() }),
            ..Bars::default()
        }
    }

    /// The widths of all drawn bars of a series.
    fn widths(svg: &str, class: &str) -> Vec<f64> {
        svg.lines()
            .filter(|line| line.contains(&format!("\"{class} p-bar\"")))
            .filter_map(|line| line.split("width=\"").nth(1)?.split('"').next()?.parse().ok())
            .filter(|&width: &f64| (width - 11.0).abs() > 0.01)
            .collect()
    }

    #[test]
    fn names_cannot_break_out_of_the_svg() {
        let panel = Panel::new(Body::Bars(bars(Scale::Linear))).titled("a < b", "\"c\"");
        let svg =
            Picture { title: "x & y".into(), panels: vec![panel], ..Picture::default() }.svg();
        for text in ["a &lt; b", "&quot;c&quot;", "x &amp; y", "&lt;mail&gt;", "gpg &amp; others"] {
            assert!(svg.contains(text), "{text}");
        }
    }

    #[test]
    fn the_length_of_a_bar_is_proportional_to_its_figure() {
        let draw = |scale| {
            let panels = vec![Panel::new(Body::Bars(bars(scale)))];
            Picture { panels, ..Picture::default() }.svg()
        };
        let linear = draw(Scale::Linear);
        let (ours, theirs) = (widths(&linear, "p-0"), widths(&linear, "p-1"));
        assert!((theirs[0] / ours[0] - 200.0).abs() < 8.0, "{ours:?} {theirs:?}");
        // With a scale for each group, the largest figure of each group has the full length.
        let each = draw(Scale::Each);
        let (ours, theirs) = (widths(&each, "p-0"), widths(&each, "p-1"));
        assert!((ours[1] - theirs[0]).abs() < 0.2, "{ours:?} {theirs:?}");
    }

    #[test]
    fn the_factor_is_written_where_both_figures_are_known() {
        let panels = vec![Panel::new(Body::Bars(bars(Scale::Each)))];
        let svg = Picture { panels, ..Picture::default() }.svg();
        assert_eq!(svg.matches('×').count(), 1);
        assert!(svg.contains(">200×<"));
    }

    #[test]
    fn panels_side_by_side_share_the_width() {
        let panel = Panel::new(Body::Bars(bars(Scale::Linear)));
        let picture = |panels| Picture { panels, columns: 2, ..Picture::default() }.svg();
        let height = |svg: &str| -> f64 {
            svg.split("height=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap()
        };
        let below = picture(vec![panel.clone(), panel.clone()]);
        let beside = picture(vec![panel.clone().narrow(), panel.narrow()]);
        assert!(height(&beside) < height(&below));
    }
}
