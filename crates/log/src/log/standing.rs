//! Whether an entry counts.

/// Whether an admitted entry counts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Standing {
    /// The entry counts.
    Counts,
    /// A revocation ends its key or its grant before it.
    Revoked,
    /// Its author has made two different entries at or before its place, and no owner has chosen.
    Forked,
    /// Its grant does not count any more.
    GrantEnded,
    /// Its key is expired, and no checkpoint covers it in time.
    Expired,
}

impl Standing {
    /// One word, as commands print it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Counts => "counts",
            Self::Revoked => "revoked",
            Self::Forked => "forked",
            Self::GrantEnded => "grant-ended",
            Self::Expired => "expired",
        }
    }
}
