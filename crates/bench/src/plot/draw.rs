//! Texts, rectangles and legends in SVG.

use std::fmt::Write as _;

use super::series::Colour;

/// The position and style of a text.
#[derive(Clone, Copy)]
pub(super) struct Text {
    x: f64,
    y: f64,
    size: f64,
    class: &'static str,
    weight: &'static str,
    anchor: &'static str,
}

impl Text {
    pub(super) fn new(x: f64, y: f64, size: f64) -> Self {
        Self { x, y, size, class: "p-text", weight: "", anchor: "" }
    }

    pub(super) fn soft(mut self) -> Self {
        self.class = "p-soft";
        self
    }

    pub(super) fn bold(mut self) -> Self {
        self.weight = " font-weight=\"600\"";
        self
    }

    pub(super) fn end(mut self) -> Self {
        self.anchor = " text-anchor=\"end\"";
        self
    }

    pub(super) fn middle(mut self) -> Self {
        self.anchor = " text-anchor=\"middle\"";
        self
    }
}

pub(super) fn text(out: &mut String, how: Text, text: &str) {
    let Text { x, y, size, class, weight, anchor } = how;
    let text = escaped(text);
    // Writing to a string does not fail.
    let _ = writeln!(
        out,
        "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\"{weight}{anchor}>\
         {text}</text>"
    );
}

pub(super) fn rect(out: &mut String, class: &str, (x, y): (f64, f64), (width, height): (f64, f64)) {
    let _ = writeln!(
        out,
        "<rect class=\"{class} p-bar\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" \
         height=\"{height:.1}\" rx=\"2\"/>"
    );
}

/// About the width of a text in a usual font.
pub(super) fn text_width(text: &str, size: f64) -> f64 {
    text.chars().count() as f64 * size * 0.56
}

/// Names and colours of several series in one line, and the height of it.
pub(super) fn legend(out: &mut String, x: f64, y: f64, names: &[&str]) -> f64 {
    let mut at = x;
    for (number, name) in names.iter().enumerate() {
        let class = Colour::Series(number).class();
        rect(out, &class, (at, y), (11.0, 11.0));
        text(out, Text::new(at + 17.0, y + 10.0, 13.0), name);
        at += 17.0 + text_width(name, 13.0) + 22.0;
    }
    26.0
}

/// Text as it stands in XML and HTML.
#[must_use]
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
