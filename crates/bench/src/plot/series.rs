//! Figures and their colours.

/// Figures of one kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// Their name in the legend.
    pub name: String,
    /// A figure for each place, if it was measured.
    pub figures: Vec<Option<f64>>,
}

/// The meaning of a colour.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Colour {
    /// The series of this number; 0 is ours.
    Series(usize),
    /// Something good.
    Good,
    /// Something to look at.
    Warning,
    /// Something bad.
    Bad,
    /// All else.
    Rest,
}

impl Colour {
    /// The class of the style sheet.
    pub(super) fn class(self) -> String {
        match self {
            Self::Series(at) if at < 6 => format!("p-{at}"),
            Self::Series(_) | Self::Rest => "p-rest".to_owned(),
            Self::Good => "p-good".to_owned(),
            Self::Warning => "p-warning".to_owned(),
            Self::Bad => "p-bad".to_owned(),
        }
    }
}
