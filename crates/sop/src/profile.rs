//! The profiles of `generate-key` and `encrypt`.

use sop::errors::Error;

use crate::error::Result;

/// The specification that new keys and messages follow.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum SopProfile {
    /// RFC 9580.
    #[default]
    Rfc9580,
    /// RFC 4880, which older programs read.
    Rfc4880,
}

/// Each with its name and its aliases, the default first.
const PROFILES: [(SopProfile, &str, &[&str]); 2] = [
    (SopProfile::Rfc9580, "rfc9580", &["default", "performance", "security"]),
    (SopProfile::Rfc4880, "rfc4880", &["compatibility"]),
];

impl SopProfile {
    pub(crate) fn named(wanted: &str) -> Result<Self> {
        let is_wanted = |(_, name, aliases): &&(Self, &str, &[&str])| {
            *name == wanted || aliases.contains(&wanted)
        };
        let found = PROFILES.iter().find(is_wanted);
        found.map(|&(profile, ..)| profile).ok_or(Error::UnsupportedProfile)
    }

    /// Names and descriptions, for `list-profiles`.
    pub(crate) fn list(describe: impl Fn(Self) -> &'static str) -> Vec<(String, String)> {
        let line = |&(profile, name, aliases): &(Self, &str, &[&str])| {
            let description = format!("{} (aliases: {})", describe(profile), aliases.join(", "));
            (name.to_owned(), description)
        };
        PROFILES.iter().map(line).collect()
    }
}
