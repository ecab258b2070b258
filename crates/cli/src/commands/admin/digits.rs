//! Fingerprints as operators type them.

use std::str::FromStr;

use talaria::cert::hex::Upper;
use talaria::cert::{Fingerprint, Query, Summary};
use talaria_server::{KeptOut, Operator};

use crate::error::CliError;

/// The bytes of a fingerprint: 16, 20 or 32.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Digits(pub(crate) Vec<u8>);

impl FromStr for Digits {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        match text.parse() {
            Ok(Query::Fingerprint(bytes)) => Ok(Self(bytes)),
            _ => Err("a fingerprint has 40 or 64 hexadecimal digits, 32 in version 3"),
        }
    }
}

impl Digits {
    /// The fingerprint with these bytes: a `known` one, otherwise that of the version with this
    /// length. `None` for a version 3 fingerprint that is not known, because the bytes do not give
    /// its key ID.
    pub(crate) fn resolve(
        &self,
        known: impl FnOnce(&Query) -> Result<Vec<Fingerprint>, CliError>,
    ) -> Result<Option<Fingerprint>, CliError> {
        let bytes = self.0.as_slice();
        let likely = match bytes.len() {
            20 => return Ok(bytes.try_into().ok().map(Fingerprint::V4)),
            32 => bytes.try_into().ok().map(Fingerprint::V6),
            _ => None,
        };
        let known = known(&Query::Fingerprint(bytes.to_vec()))?;
        let known = known.into_iter().find(|fingerprint| fingerprint.as_bytes() == bytes);
        Ok(known.or(likely))
    }

    /// The fingerprint with these bytes, or an error if it is unknown.
    pub(super) fn known(&self, operator: &Operator) -> Result<Fingerprint, CliError> {
        let known = |query: &Query| {
            let here = operator.find(query, 100)?;
            let kept_out = operator.kept_out()?;
            let kept_out = kept_out.iter().map(KeptOut::fingerprint);
            Ok(here.iter().map(Summary::fingerprint).chain(kept_out).collect())
        };
        self.resolve(known)?.ok_or_else(|| CliError::Missing(format!("no certificate {self}")))
    }
}

impl std::fmt::Display for Digits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        Upper(&self.0).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn admin_commands_require_whole_fingerprints() {
        let whole = "0123456789ABCDEF0123456789ABCDEF01234567";
        assert_eq!(whole.parse::<Digits>().unwrap().to_string(), whole);
        assert_eq!(format!("0x{}", whole.to_lowercase()).parse(), whole.parse::<Digits>());
        for bad in ["0123456789ABCDEF", "alice", "<alice@example.org>", ""] {
            assert!(bad.parse::<Digits>().is_err(), "{bad}");
        }
    }
}
