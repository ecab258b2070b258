//! Plots as SVG, without scripts, in colours that do on light and on dark ground.

#![expect(clippy::cast_precision_loss, reason = "places on an axis are few")]

use std::fmt::Write as _;

/// How the figures are drawn.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Form {
    /// Groups of bars.
    #[default]
    Bars,
    /// A line with dots for each series.
    Lines,
}

/// The scale of the vertical axis.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Scale {
    /// From 0.
    #[default]
    Linear,
    /// By powers of ten, for figures above 0.
    Logarithmic,
}

/// A plot.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plot {
    /// What is shown.
    pub title: String,
    /// Name of the horizontal axis, with its unit.
    pub x: String,
    /// Name of the vertical axis, with its unit.
    pub y: String,
    /// Places on the horizontal axis, in order.
    pub places: Vec<String>,
    /// Each with its name and a figure for each place, if there is one.
    pub series: Vec<(String, Vec<Option<f64>>)>,
    /// Bars or lines.
    pub form: Form,
    /// The scale of the vertical axis.
    pub scale: Scale,
}

/// Width of the picture.
const WIDTH: f64 = 900.0;

/// About the width of a character.
const LETTER: f64 = 6.6;

/// Names of places that are too long to lie are turned by this, in degrees; its cosine and sine.
const TURN: (f64, f64, f64) = (50.0, 0.643, 0.766);

/// The field of the figures: left, top, right, bottom.
const FIELD: (f64, f64, f64, f64) = (80.0, 90.0, 880.0, 400.0);

/// Told apart by most who do not see all colours (Okabe and Ito).
const COLOURS: [&str; 7] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f"];

/// The vertical axis.
struct Axis {
    scale: Scale,
    /// The lowest and the highest figure; for a logarithmic scale their logarithms.
    from: f64,
    to: f64,
    ticks: Vec<f64>,
}

impl Axis {
    fn new(figures: impl Iterator<Item = f64> + Clone, scale: Scale) -> Self {
        let highest = figures.clone().fold(f64::MIN_POSITIVE, f64::max);
        match scale {
            Scale::Linear => {
                // Steps of 1, 2 or 5 times a power of ten, four to eight of them.
                let power = 10f64.powf((highest / 5.0).log10().floor());
                let step = [1.0, 2.0, 5.0, 10.0].map(|n| n * power);
                let step = step.into_iter().find(|step| highest / step <= 6.0).unwrap_or(highest);
                let to = (highest / step).ceil() * step;
                let mut ticks = vec![0.0];
                while ticks[ticks.len() - 1] < to - step / 2.0 {
                    ticks.push(ticks.len() as f64 * step);
                }
                Self { scale, from: 0.0, to, ticks }
            }
            Scale::Logarithmic => {
                let lowest = figures.filter(|&figure| figure > 0.0).fold(highest, f64::min);
                let from = lowest.log10().floor();
                let to = highest.log10().ceil().max(from + 1.0);
                let mut ticks = Vec::new();
                let mut at = from;
                while at <= to {
                    ticks.push(10f64.powf(at));
                    at += 1.0;
                }
                Self { scale, from, to, ticks }
            }
        }
    }

    /// Where a figure is drawn.
    fn place(&self, figure: f64) -> f64 {
        let (_, top, _, bottom) = FIELD;
        let value = match self.scale {
            Scale::Linear => figure,
            Scale::Logarithmic if figure > 0.0 => figure.log10(),
            Scale::Logarithmic => self.from,
        };
        bottom - (value - self.from) / (self.to - self.from) * (bottom - top)
    }
}

impl Plot {
    /// The plot as an SVG document.
    #[must_use]
    pub fn svg(&self) -> String {
        let mut out = String::new();
        // Writing to a string does not fail.
        let _ = self.draw(&mut out);
        out
    }

    fn draw(&self, out: &mut String) -> std::fmt::Result {
        let (left, top, right, bottom) = FIELD;
        let longest = self.places.iter().map(|place| place.chars().count()).max().unwrap_or(0);
        let longest = longest as f64 * LETTER;
        let step = (right - left) / self.places.len().max(1) as f64;
        let turned = longest + LETTER > step;
        let (degrees, cosine, sine) = TURN;
        // Turned names need room below the field, and the first one on its left.
        let (margin, height) = if turned {
            ((longest * cosine - left - step / 2.0).max(0.0), bottom + 60.0 + longest * sine)
        } else {
            (0.0, bottom + 70.0)
        };
        let figures = self.series.iter().flat_map(|(_, figures)| figures.iter().flatten().copied());
        let axis = Axis::new(figures, self.scale);
        write!(
            out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"{x:.0} 0 {width:.0} {height:.0}\" \
             role=\"img\" font-family=\"system-ui, sans-serif\" font-size=\"13\">\n\
             <title>{title}</title>\n\
             <style>text {{ fill: #333 }} .grid {{ stroke: #888; stroke-opacity: .3 }} \
             .axis {{ stroke: #888 }} .value {{ font-size: 10px }} \
             @media (prefers-color-scheme: dark) {{ text {{ fill: #ddd }} }}</style>\n\
             <text x=\"{left}\" y=\"28\" font-size=\"17\" font-weight=\"600\">{title}</text>\n",
            x = -margin,
            width = WIDTH + margin,
            title = escaped(&self.title),
        )?;
        for &tick in &axis.ticks {
            let y = axis.place(tick);
            writeln!(
                out,
                "<line class=\"grid\" x1=\"{left}\" y1=\"{y:.1}\" x2=\"{right}\" y2=\"{y:.1}\"/>\
                 <text x=\"{x}\" y=\"{at:.1}\" text-anchor=\"end\">{label}</text>",
                x = left - 8.0,
                at = y + 4.0,
                label = short(tick),
            )?;
        }
        writeln!(
            out,
            "<line class=\"axis\" x1=\"{left}\" y1=\"{bottom}\" x2=\"{right}\" y2=\"{bottom}\"/>\n\
             <text x=\"{middle}\" y=\"{low:.0}\" text-anchor=\"middle\">{x}</text>\n\
             <text transform=\"translate(20 {centre}) rotate(-90)\" \
             text-anchor=\"middle\">{y}</text>",
            middle = f64::midpoint(left, right),
            low = height - 12.0,
            centre = f64::midpoint(top, bottom),
            x = escaped(&self.x),
            y = escaped(&self.y),
        )?;
        for (at, place) in self.places.iter().enumerate() {
            let x = left + (at as f64 + 0.5) * step;
            let place = escaped(place);
            if turned {
                writeln!(
                    out,
                    "<text transform=\"translate({x:.1} {y}) rotate(-{degrees})\" \
                     text-anchor=\"end\">{place}</text>",
                    y = bottom + 18.0,
                )?;
            } else {
                writeln!(
                    out,
                    "<text x=\"{x:.1}\" y=\"{y}\" text-anchor=\"middle\">{place}</text>",
                    y = bottom + 20.0,
                )?;
            }
        }
        let mut legend = left;
        for (at, (name, figures)) in self.series.iter().enumerate() {
            let colour = COLOURS[at % COLOURS.len()];
            writeln!(
                out,
                "<rect x=\"{legend:.1}\" y=\"46\" width=\"12\" height=\"12\" rx=\"2\" \
                 fill=\"{colour}\"/><text x=\"{x:.1}\" y=\"57\">{name}</text>",
                x = legend + 18.0,
                name = escaped(name),
            )?;
            legend += 40.0 + name.chars().count() as f64 * 7.2;
            match self.form {
                Form::Bars => self.bars(out, at, figures, &axis, step)?,
                Form::Lines => lines(out, colour, figures, &axis, step)?,
            }
        }
        out.push_str("</svg>\n");
        Ok(())
    }

    fn bars(
        &self,
        out: &mut String,
        at: usize,
        figures: &[Option<f64>],
        axis: &Axis,
        step: f64,
    ) -> std::fmt::Result {
        let (left, _, _, bottom) = FIELD;
        let width = (step * 0.8 / self.series.len() as f64).min(60.0);
        let offset = (at as f64 - self.series.len() as f64 / 2.0) * width;
        for (place, figure) in figures.iter().enumerate() {
            let Some(figure) = figure else { continue };
            let x = left + (place as f64 + 0.5) * step + offset;
            let y = axis.place(*figure).min(bottom - 1.0);
            writeln!(
                out,
                "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{w:.1}\" height=\"{h:.1}\" rx=\"1.5\" \
                 fill=\"{colour}\"/>",
                w = width - 1.0,
                h = bottom - y,
                colour = COLOURS[at % COLOURS.len()],
            )?;
            if width >= 22.0 {
                writeln!(
                    out,
                    "<text class=\"value\" x=\"{x:.1}\" y=\"{y:.1}\" \
                     text-anchor=\"middle\">{label}</text>",
                    x = x + width / 2.0,
                    y = y - 4.0,
                    label = short(*figure),
                )?;
            }
        }
        Ok(())
    }
}

fn lines(
    out: &mut String,
    colour: &str,
    figures: &[Option<f64>],
    axis: &Axis,
    step: f64,
) -> std::fmt::Result {
    let points: Vec<(f64, f64)> = figures
        .iter()
        .enumerate()
        .filter_map(|(at, figure)| {
            Some((FIELD.0 + (at as f64 + 0.5) * step, axis.place((*figure)?)))
        })
        .collect();
    let path: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    writeln!(
        out,
        "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2.5\"/>",
        path.join(" "),
    )?;
    points.iter().try_for_each(|(x, y)| {
        writeln!(out, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"{colour}\"/>")
    })
}

/// A figure as short as it can be written.
fn short(figure: f64) -> String {
    let (figure, unit) = match figure.abs() {
        size if size >= 1e6 => (figure / 1e6, "M"),
        size if size >= 1e4 => (figure / 1e3, "k"),
        _ => (figure, ""),
    };
    // Two digits that count.
    let digits = match figure.abs() {
        size if size >= 9.95 || size == 0.0 => 0,
        size if size >= 0.995 => 1,
        size if size >= 0.0995 => 2,
        size if size >= 0.009_95 => 3,
        _ => 5,
    };
    let text = format!("{figure:.digits$}");
    let text = if digits > 0 { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text}{unit}")
}

/// Text as it stands in XML.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_larger_figure_is_drawn_higher_on_both_scales() {
        for scale in [Scale::Linear, Scale::Logarithmic] {
            let axis = Axis::new([0.02, 3.0, 70.0].into_iter(), scale);
            assert!(axis.place(70.0) < axis.place(3.0), "{scale:?}");
            assert!(axis.place(70.0) >= FIELD.1 - 0.01);
            assert!(axis.place(0.02) <= FIELD.3 + 0.01);
        }
    }

    #[test]
    fn names_cannot_break_out_of_the_document() {
        let plot = Plot {
            title: "a < b & \"c\"".into(),
            places: vec!["<mail>".into()],
            series: vec![("x".into(), vec![Some(1.0)])],
            ..Plot::default()
        };
        let svg = plot.svg();
        assert!(svg.contains("a &lt; b &amp; &quot;c&quot;") && svg.contains("&lt;mail&gt;"));
    }

    #[test]
    fn figures_are_short() {
        let cases = [(0.0, "0"), (0.0125, "0.013"), (0.5, "0.5"), (12.6, "13"), (71_200.0, "71k")];
        for (figure, expected) in cases {
            assert_eq!(short(figure), expected);
        }
    }
}
