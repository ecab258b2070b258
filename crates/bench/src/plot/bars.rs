//! Horizontal bars: a group for each place, a bar for each series.

use super::draw::{Text, legend, rect, text, text_width};
use super::number::{Unit, times};
use super::series::{Colour, Series};

/// Bars.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bars {
    /// Names of the groups, from top to bottom.
    pub places: Vec<String>,
    /// The figures; the first series is ours.
    pub series: Vec<Series>,
    /// Colours of the places, where there is one series; else they follow the series.
    pub colours: Vec<Colour>,
    /// The unit of all figures.
    pub unit: Unit,
    /// The length of a bar.
    pub scale: Scale,
    /// The quotient of two series, written beside each group.
    pub factor: Option<Factor>,
}

/// The length of a bar.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Scale {
    /// In proportion to its figure, in all places.
    #[default]
    Linear,
    /// In proportion to its figure within one place, where the largest has the full length.
    Each,
}

/// A quotient of two series.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Factor {
    /// The series that is divided; where it has no figure, the last series that has one.
    pub of: usize,
    /// The series that divides.
    pub to: usize,
    /// The heading above the quotients.
    pub name: String,
}

/// Height of a bar, and of the room below a group.
const BAR: f64 = 15.0;
const BELOW: f64 = 11.0;

/// Size of letters.
const SIZE: f64 = 13.0;

impl Bars {
    /// The same in the order of the factor, largest first.
    #[must_use]
    pub fn sorted_by_factor(mut self) -> Self {
        let Some(factor) = &self.factor else { return self };
        let key = |at: usize| self.quotient(at, factor).unwrap_or(0.0);
        let mut order: Vec<usize> = (0..self.places.len()).collect();
        order.sort_by(|&a, &b| key(b).total_cmp(&key(a)));
        self.reorder(&order);
        self
    }

    /// The same in the order of the first series, largest first.
    #[must_use]
    pub fn sorted(mut self) -> Self {
        let Some(first) = self.series.first() else { return self };
        let key = |at: usize| first.figures.get(at).copied().flatten().unwrap_or(0.0);
        let mut order: Vec<usize> = (0..self.places.len()).collect();
        order.sort_by(|&a, &b| key(b).total_cmp(&key(a)));
        self.reorder(&order);
        self
    }

    fn reorder(&mut self, order: &[usize]) {
        self.places = order.iter().map(|&at| self.places[at].clone()).collect();
        if !self.colours.is_empty() {
            self.colours = order.iter().map(|&at| self.colours[at]).collect();
        }
        for series in &mut self.series {
            series.figures =
                order.iter().map(|&at| series.figures.get(at).copied().flatten()).collect();
        }
    }

    fn quotient(&self, place: usize, factor: &Factor) -> Option<f64> {
        let figure = |series: usize| *self.series.get(series)?.figures.get(place)?;
        let mut others = (0..self.series.len()).rev().filter(|series| *series != factor.to);
        let of = figure(factor.of).or_else(|| others.find_map(figure));
        match (of?, figure(factor.to)?) {
            (of, to) if to > 0.0 => Some(of / to),
            _ => None,
        }
    }

    pub(super) fn draw(&self, out: &mut String, x: f64, y: f64, width: f64) -> f64 {
        let mut top = y;
        let at = |place: usize| {
            self.series.iter().filter_map(move |series| *series.figures.get(place)?)
        };
        let largest = (0..self.places.len()).flat_map(at).fold(f64::MIN_POSITIVE, f64::max);
        // The figure whose bar has the full length.
        let most = |place: usize| match self.scale {
            Scale::Linear => largest,
            Scale::Each => at(place).fold(f64::MIN_POSITIVE, f64::max),
        };
        let label = |series: &Series, place: usize, figure: f64| match self.unit {
            Unit::Share => self.unit.write(figure, series.figures.iter().flatten().sum()),
            unit => unit.write(figure, most(place)),
        };
        if self.series.len() > 1 {
            let names: Vec<&str> = self.series.iter().map(|series| series.name.as_str()).collect();
            top += legend(out, x, top, &names);
        }
        let longest = |texts: &mut dyn Iterator<Item = String>| {
            texts.map(|text| text_width(&text, SIZE)).fold(0.0, f64::max)
        };
        let names = longest(&mut self.places.iter().cloned()).min(width * 0.45);
        let values = longest(&mut self.series.iter().flat_map(|series| {
            let figures = series.figures.iter().enumerate();
            figures.filter_map(|(place, figure)| Some(label(series, place, (*figure)?)))
        }));
        let factors = if self.factor.is_some() { 84.0 } else { 0.0 };
        let left = x + names + 14.0;
        let room = (width - names - 14.0 - values - 10.0 - factors).max(20.0);
        if let Some(factor) = &self.factor {
            let at = Text::new(x + width, top - 16.0, 12.0).soft().end();
            text(out, at, &factor.name);
        }
        for (place, name) in self.places.iter().enumerate() {
            let figure = |series: &Series| series.figures.get(place).copied().flatten();
            let present: Vec<(usize, f64)> = self
                .series
                .iter()
                .enumerate()
                .filter_map(|(at, series)| Some((at, figure(series)?)))
                .collect();
            let height = BAR * present.len().max(1) as f64;
            let middle = top + height / 2.0 + SIZE * 0.36;
            text(out, Text::new(left - 14.0, middle, SIZE).end(), name);
            for (row, &(at, figure)) in present.iter().enumerate() {
                let colour = match self.colours.get(place) {
                    Some(&colour) if self.series.len() == 1 => colour,
                    _ => Colour::Series(at),
                };
                let y = top + BAR * row as f64;
                // Every measured bar is visible, however small.
                let length = (figure / most(place) * room).max(1.5);
                rect(out, &colour.class(), (left, y + 1.0), (length, BAR - 2.0));
                let value = label(&self.series[at], place, figure);
                text(out, Text::new(left + length + 7.0, y + 11.5, 12.0).soft(), &value);
            }
            let factor = self.factor.as_ref();
            if let Some(quotient) = factor.and_then(|factor| self.quotient(place, factor)) {
                let at = Text::new(x + width, middle + 2.0, 18.0).bold().end();
                text(out, at, &times(quotient));
            }
            top += height + BELOW;
        }
        top - BELOW - y
    }
}
