//! The outcome of a command that failed: its exit status, and the name of the error in JSON.

use talaria::cert::ErrorKind;

/// The outcome of a command that failed (`docs/json.md`, Errors).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Outcome {
    /// The exit status.
    pub(crate) status: u8,
    /// The name of the error in JSON.
    pub(crate) kind: &'static str,
}

impl Outcome {
    /// The user answered no.
    pub(crate) const DECLINED: Self = Self::new(1, "unconfirmed");
    /// There is nobody to ask.
    pub(crate) const UNCONFIRMED: Self = Self::new(2, "unconfirmed");
    /// Wrong options or arguments.
    pub(crate) const USAGE: Self = Self::new(2, "usage");

    const fn new(status: u8, kind: &'static str) -> Self {
        Self { status, kind }
    }
}

impl From<ErrorKind> for Outcome {
    fn from(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::NotFound | ErrorKind::Exists => Self::new(1, "not_found"),
            ErrorKind::Ambiguous => Self::new(1, "ambiguous"),
            ErrorKind::Unconfirmed
            | ErrorKind::Refused
            | ErrorKind::NotAccepted
            | ErrorKind::UnusableKey
            | ErrorKind::NoSecret => Self::new(1, "refused"),
            ErrorKind::Usage => Self::USAGE,
            ErrorKind::Malformed
            | ErrorKind::Tampered
            | ErrorKind::Unsupported
            | ErrorKind::TooLarge
            | ErrorKind::Unexpected
            | ErrorKind::UnfitKey => Self::new(3, "bad_input"),
            ErrorKind::NoStore | ErrorKind::Store | ErrorKind::Unproven | ErrorKind::KeyHolder => {
                Self::new(4, "store")
            }
            ErrorKind::StoreIo | ErrorKind::Io | ErrorKind::Bug => Self::new(5, "io"),
            ErrorKind::Interrupted => Self::new(130, "interrupted"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_a_documented_outcome() {
        let documented = include_str!("../../../docs/json.md");
        for kind in ErrorKind::ALL {
            let Outcome { status, kind: name } = Outcome::from(kind);
            let row = format!("| {status} | `{name}` |");
            assert!(documented.contains(&row), "{kind:?}: {row}");
        }
    }
}
