//! The GnuPG release to follow where releases differ.

use clap::ValueEnum;
use talaria::cert::Gnupg;

/// A release of GnuPG.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum Release {
    /// As GnuPG 2.2
    #[value(name = "2.2")]
    V2_2,
    /// As GnuPG 2.4, which is stricter
    #[default]
    #[value(name = "2.4")]
    V2_4,
}

impl Release {
    pub(crate) fn rules(self) -> Gnupg {
        match self {
            Self::V2_2 => Gnupg::V2_2,
            Self::V2_4 => Gnupg::V2_4,
        }
    }

    pub(crate) fn of(rules: Gnupg) -> Self {
        match rules {
            Gnupg::V2_2 => Self::V2_2,
            Gnupg::V2_4 => Self::V2_4,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::V2_2 => "2.2",
            Self::V2_4 => "2.4",
        }
    }
}
