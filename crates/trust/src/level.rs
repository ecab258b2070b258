//! Levels of validity and of owner trust.

/// Levels of trust, in `GnuPG`'s order. Of two levels, the later one takes precedence.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[repr(u8)]
pub enum Level {
    /// No information.
    #[default]
    Unknown = 0,
    /// The certificate or user ID has expired.
    Expired = 1,
    /// There is some information, but not enough for a level.
    Undefined = 2,
    /// Not trusted.
    Never = 3,
    /// Marginally trusted: more certifications are needed.
    Marginal = 4,
    /// Fully trusted.
    Full = 5,
    /// The user's own.
    Ultimate = 6,
}

impl Level {
    /// All levels, by number.
    pub const ALL: [Self; 7] = [
        Self::Unknown,
        Self::Expired,
        Self::Undefined,
        Self::Never,
        Self::Marginal,
        Self::Full,
        Self::Ultimate,
    ];

    /// The level with one of `GnuPG`'s numbers; only the lowest four bits are read.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number & 0x0f)).copied()
    }

    /// The letter that `gpg --with-colons` prints.
    #[must_use]
    pub fn letter(self) -> char {
        match self {
            Self::Unknown => '-',
            Self::Expired => 'e',
            Self::Undefined => 'q',
            Self::Never => 'n',
            Self::Marginal => 'm',
            Self::Full => 'f',
            Self::Ultimate => 'u',
        }
    }

    /// The name of the level.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Expired => "expired",
            Self::Undefined => "undefined",
            Self::Never => "never",
            Self::Marginal => "marginal",
            Self::Full => "full",
            Self::Ultimate => "ultimate",
        }
    }

    /// Combines the levels of TOFU and the web of trust: never takes precedence over expired, and
    /// expired over all other levels. Otherwise the higher level counts.
    #[must_use]
    pub fn combine(self, other: Self) -> Self {
        for verdict in [Self::Never, Self::Expired] {
            if self == verdict || other == verdict {
                return verdict;
            }
        }
        self.max(other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_and_expired_override_other_levels() {
        assert_eq!(Level::Never.combine(Level::Ultimate), Level::Never);
        assert_eq!(Level::Full.combine(Level::Expired), Level::Expired);
        assert_eq!(Level::Marginal.combine(Level::Marginal), Level::Marginal);
        assert_eq!(Level::Undefined.combine(Level::Full), Level::Full);
        for level in Level::ALL {
            assert_eq!(Level::from_number(level as u8), Some(level));
            assert_eq!(level.combine(Level::Unknown), level);
        }
    }
}
