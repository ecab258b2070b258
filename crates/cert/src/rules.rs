//! The rules by which the self-signatures of a certificate count.
//!
//! A verdict says whether the owner made a signature. Whether the signature still counts depends on
//! its hash function: whoever can make two texts with the same SHA-1 can move a certification that
//! the owner made of another key onto the owner's own certificate. Decision 27 has the rules and
//! their reasons. Revocations count with every hash function, under every policy.

use std::str::FromStr;

use crate::signature::Signature;

/// The GnuPG release to follow where releases differ.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Gnupg {
    /// 2.2: certifications of others with SHA-1 count if they were made before 2019-01-19.
    V2_2,
    /// 2.4, which is stricter: third-party certifications with SHA-1 never count. In listings, a
    /// subkey expires with its primary key, if not earlier.
    #[default]
    V2_4,
}

/// The rules by which self-signatures count.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Rules {
    /// A self-signature with SHA-1 or RIPEMD-160 counts if it is dated before 2023-02-01 and its
    /// component has no better one.
    #[default]
    Standard,
    /// No self-signature with SHA-1 or RIPEMD-160 counts, as with `sq`.
    Strict,
    /// All self-signatures count but those with MD5, as with GnuPG.
    Gnupg(Gnupg),
}

impl Rules {
    /// All rules that a user can choose.
    pub const ALL: [Self; 4] =
        [Self::Standard, Self::Strict, Self::Gnupg(Gnupg::V2_2), Self::Gnupg(Gnupg::V2_4)];

    /// The name that [`Self::from_str`] reads.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Standard => "standard",
            Self::Strict => "strict",
            Self::Gnupg(Gnupg::V2_2) => "gnupg-2.2",
            Self::Gnupg(Gnupg::V2_4) => "gnupg-2.4",
        }
    }

    /// The release of GnuPG that listings in its format follow.
    #[must_use]
    pub fn gnupg(self) -> Gnupg {
        if let Self::Gnupg(release) = self { release } else { Gnupg::default() }
    }

    /// Whether a self-signature that is no revocation counts for its component, which has a
    /// `better` one or not: one with a sound hash function.
    pub(crate) fn count(self, signature: &Signature<'_>, better: bool) -> bool {
        match (Weak::of(signature), self) {
            (None, _) => true,
            (Some(weak), Self::Gnupg(_)) => weak.hash != MD5,
            (Some(_), Self::Strict) => false,
            (Some(weak), Self::Standard) => weak.hash != MD5 && !better && weak.made < SHA_1_END,
        }
    }

    /// The weakness of a signature that counts, as these rules see it: GnuPG sees none.
    pub(crate) fn weakness(self, signature: &Signature<'_>) -> Option<Weak> {
        if let Self::Gnupg(_) = self { None } else { Weak::of(signature) }
    }
}

/// The error of a name that no rules have.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("unknown policy (known: standard, strict, gnupg-2.2, gnupg-2.4)")]
pub struct RulesError;

impl FromStr for Rules {
    type Err = RulesError;

    fn from_str(name: &str) -> Result<Self, RulesError> {
        Self::ALL.into_iter().find(|rules| rules.name() == name).ok_or(RulesError)
    }
}

/// 2023-02-01, since when Sequoia accepts no SHA-1 in self-signatures.
const SHA_1_END: u32 = 1_675_209_600;

/// The number of MD5 (RFC 9580, section 9.5).
const MD5: u8 = 1;

/// A self-signature with a broken hash function.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Weak {
    /// The time of the signature, in seconds since 1970.
    pub made: u32,
    /// The number of its hash function (RFC 9580, section 9.5).
    pub hash: u8,
}

impl Weak {
    /// The name of the hash function.
    #[must_use]
    pub fn hash_name(self) -> &'static str {
        match self.hash {
            1 => "MD5",
            2 => "SHA-1",
            3 => "RIPEMD-160",
            _ => "an unknown hash function",
        }
    }

    /// The description of a signature whose hash function is broken.
    pub(crate) fn of(signature: &Signature<'_>) -> Option<Self> {
        let Signature { created: made, hash, .. } = *signature;
        matches!(hash, 1..=3).then_some(Self { made, hash })
    }
}
