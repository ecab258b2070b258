//! How much a user ID is believed, or an owner trusted.

/// Levels of trust, in `GnuPG`'s order: where two of them meet, the later one counts.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[repr(u8)]
pub enum Level {
    /// Nothing is known.
    #[default]
    Unknown = 0,
    /// What was believed is over.
    Expired = 1,
    /// There is something, but not enough to say more.
    Undefined = 2,
    /// It is not to be believed.
    Never = 3,
    /// It is believed, if others say the same.
    Marginal = 4,
    /// It is believed.
    Full = 5,
    /// It is one's own.
    Ultimate = 6,
}

impl Level {
    /// All of them, by number.
    pub const ALL: [Self; 7] = [
        Self::Unknown,
        Self::Expired,
        Self::Undefined,
        Self::Never,
        Self::Marginal,
        Self::Full,
        Self::Ultimate,
    ];

    /// The level with a number of `GnuPG`'s; flags above the lowest four bits are left out.
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

    /// The word for people.
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

    /// What TOFU and the web of trust say together: never before expired, expired before anything else, and
    /// the higher level otherwise.
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
    fn no_comes_before_yes() {
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
