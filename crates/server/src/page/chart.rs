//! Charts: bars beside each other and below each other, each with its figures as a table.
//!
//! As in [`super::timeline`], places are in percent of the width, and colours come from the style.

#![expect(clippy::cast_precision_loss, reason = "places in a picture")]

use maud::{Markup, html};

use super::number::grouped;
use super::texts::Texts;

/// Heights of the column area and of the area below it.
const FIELD: f64 = 160.0;
const BELOW: f64 = 24.0;

/// Height of a bar that lies, with its label.
const BAR: usize = 40;

/// The drawing.
pub(crate) struct Chart<'a> {
    pub(crate) title: &'a str,
    /// The heading of the labels in the table.
    pub(crate) labels: &'a str,
    /// Names of the series, bottom up.
    pub(crate) series: &'a [&'a str],
    /// A label and a figure for each series.
    pub(crate) rows: Vec<(String, Vec<u64>)>,
}

impl Chart<'_> {
    /// Columns beside each other, series stacked.
    pub(crate) fn columns(&self, texts: &Texts) -> Markup {
        let highest = self.rows.iter().map(|(_, figures)| figures.iter().sum::<u64>()).max();
        let highest = highest.unwrap_or(0).max(1);
        let top = ceiling(highest);
        let step = 100.0 / self.rows.len().max(1) as f64;
        // At most six labels have room on a phone.
        let every = self.rows.len().div_ceil(6).max(1);
        let number = |n: u64| grouped(n, texts.thousands);
        self.figure(
            texts,
            &html! {
                svg.chart width="100%" height=(FIELD + BELOW + 14.0) role="img" aria-label=(self.title) {
                    @for part in [1u32, 2] {
                        @let y = 14.0 + FIELD * (1.0 - f64::from(part) / 2.0);
                        line.grid x1="0" x2="100%" y1=(y) y2=(y) {}
                        @let figure = top * u64::from(part);
                        @if figure.is_multiple_of(2) {
                            text.tick x="0" y=(y - 3.0) { (number(figure / 2)) }
                        }
                    }
                    @for (at, (label, figures)) in self.rows.iter().enumerate() {
                        @let x = at as f64 * step;
                        g {
                            title { (label) ": " (self.said(figures, texts)) }
                            @for (series, (below, figure)) in stacked(figures).enumerate() {
                                @let height = FIELD * figure as f64 / top as f64;
                                @let base = FIELD * below as f64 / top as f64;
                                @if figure > 0 {
                                    rect class={ "series-" (series % 6) } x=(format!("{:.2}%", x + step * 0.1))
                                        y=(format!("{:.1}", 14.0 + FIELD - base - height.max(1.0)))
                                        width=(format!("{:.2}%", step * 0.8))
                                        height=(format!("{:.1}", height.max(1.0))) {}
                                }
                            }
                        }
                        @if at % every == 0 {
                            text.tick x=(format!("{:.2}%", x + step * 0.1)) y=(14.0 + FIELD + 16.0) {
                                (short(label))
                            }
                        }
                    }
                    line.base x1="0" x2="100%" y1=(14.0 + FIELD) y2=(14.0 + FIELD) {}
                }
            },
        )
    }

    /// Bars below each other, of the first series. The whole width is the sum of all.
    pub(crate) fn bars(&self, texts: &Texts) -> Markup {
        let first = |figures: &[u64]| figures.first().copied().unwrap_or(0);
        let total = self.rows.iter().map(|(_, figures)| first(figures)).sum::<u64>().max(1);
        self.figure(
            texts,
            &html! {
                svg.chart width="100%" height=(self.rows.len() * BAR) role="img" aria-label=(self.title) {
                    @for (at, (label, figures)) in self.rows.iter().enumerate() {
                        @let figure = first(figures);
                        @let share = 100.0 * figure as f64 / total as f64;
                        text.label x="0" y=(at * BAR + 14) { (label) }
                        text.label.figure x="100%" y=(at * BAR + 14) text-anchor="end" {
                            (grouped(figure, texts.thousands)) " · " (format!("{share:.1}")) " %"
                        }
                        rect.rail x="0" y=(at * BAR + 20) width="100%" height="10" rx="3" {}
                        @if figure > 0 {
                            rect.series-0 x="0" y=(at * BAR + 20) height="10" rx="3"
                                width=(format!("{:.2}%", share.max(0.4))) {}
                        }
                    }
                }
            },
        )
    }

    /// The picture with its title, its series and its figures.
    fn figure(&self, texts: &Texts, picture: &Markup) -> Markup {
        html! {
            figure.plot {
                figcaption {
                    h3 { (self.title) }
                    @if self.series.len() > 1 {
                        ul.series {
                            @for (at, name) in self.series.iter().enumerate() {
                                li { span class={ "swatch series-" (at % 6) } aria-hidden="true" {} (name) }
                            }
                        }
                    }
                }
                @if self.rows.is_empty() {
                    p { (texts.nothing_yet) }
                } @else {
                    (picture)
                    details {
                        summary { (texts.as_table) }
                        div.scroll tabindex="0" role="region" aria-label=(self.title) {
                            table {
                                thead {
                                    tr {
                                        th scope="col" { (self.labels) }
                                        @for name in self.series { th.number scope="col" { (name) } }
                                    }
                                }
                                tbody {
                                    @for (label, figures) in &self.rows {
                                        tr {
                                            th scope="row" { (label) }
                                            @for &figure in figures {
                                                td.number { (grouped(figure, texts.thousands)) }
                                            }
                                        }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }

    fn said(&self, figures: &[u64], texts: &Texts) -> String {
        let parts = self.series.iter().zip(figures);
        let parts: Vec<String> =
            parts.map(|(name, &n)| format!("{name} {}", grouped(n, texts.thousands))).collect();
        parts.join(", ")
    }
}

/// A label below a column: days without their year.
fn short(label: &str) -> &str {
    match label.split_once('-') {
        Some((year, day)) if year.len() == 4 && day.len() == 5 => day,
        _ => label,
    }
}

/// Figures with the sum of those before them.
fn stacked(figures: &[u64]) -> impl Iterator<Item = (u64, u64)> {
    figures.iter().scan(0, |sum, &figure| {
        let below = *sum;
        *sum += figure;
        Some((below, figure))
    })
}

/// The next number of one digit and zeros.
fn ceiling(highest: u64) -> u64 {
    let power = 10u64.pow(highest.ilog10());
    highest.div_ceil(power).saturating_mul(power)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_end_at_round_numbers() {
        assert_eq!([1, 9, 10, 11, 99, 100, 1234].map(ceiling), [1, 9, 10, 20, 100, 100, 2000]);
    }

    #[test]
    fn columns_are_stacked() {
        let all: Vec<_> = stacked(&[1, 2, 3]).collect();
        assert_eq!(all, [(0, 1), (1, 2), (3, 3)]);
    }
}
