//! The content of a TOFU database.

use talaria_cert::{Fingerprint, KeyId};

/// The most rows that are read or written, over all tables: 10 million.
pub const TOFU_ROWS_MAX: usize = 10_000_000;

/// The longest text in a row: 16 KiB. GnuPG takes user IDs of up to 2 KiB.
pub const TOFU_TEXT_BYTES_MAX: usize = 16 << 10;

/// The content of a TOFU database.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct TofuDatabase {
    /// The bindings, one for each pair of key and e-mail address, in the order of their numbers: as
    /// they were first seen. Those of a folder are in the order of its files.
    pub bindings: Vec<TofuBinding>,
    /// The keys that were ultimately trusted when the effective policies were worked out. With
    /// other keys, GnuPG works them out again.
    pub ultimately_trusted: Vec<KeyId>,
}

/// A key with one of its e-mail addresses.
///
/// GnuPG stores the bytes of a user ID as they are in the certificate, so they need not be UTF-8.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TofuBinding {
    /// The primary key.
    pub fingerprint: Fingerprint,
    /// The e-mail address in lower case; for a user ID without one, all of it.
    pub email: Vec<u8>,
    /// The user ID that the address is from.
    pub user_id: Vec<u8>,
    /// When the binding was recorded, or its policy was changed: seconds since 1970.
    pub time: i64,
    /// The user's decision, or [`TofuPolicy::Auto`].
    pub policy: TofuPolicy,
    /// Another key with this address.
    pub conflict: Option<Fingerprint>,
    /// The policy that GnuPG found to hold; `None` if it has to be worked out.
    pub effective: Option<TofuPolicy>,
    /// Signatures by the key that were verified.
    pub signatures: Vec<TofuSignature>,
    /// When something was encrypted to the key: seconds since 1970.
    pub encryptions: Vec<i64>,
}

/// A signature that was verified, and is counted once.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TofuSignature {
    /// The digest that was signed, in base 64.
    pub digest: String,
    /// Where the signed data came from. GnuPG writes `unknown`.
    pub origin: String,
    /// When it was made, as the signature says: seconds since 1970.
    pub sig_time: i64,
    /// When it was first verified: seconds since 1970.
    pub time: i64,
}

/// A decision about a binding.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum TofuPolicy {
    /// Nothing yet: the default policy holds.
    Auto,
    /// Full validity.
    Good,
    /// Unknown validity.
    Unknown,
    /// The binding is not to be used.
    Bad,
    /// The user is to be asked.
    Ask,
}

impl TofuPolicy {
    /// The policy of a number from 1 to 5.
    #[must_use]
    pub fn from_number(number: i64) -> Option<Self> {
        Some(match number {
            1 => Self::Auto,
            2 => Self::Good,
            3 => Self::Unknown,
            4 => Self::Bad,
            5 => Self::Ask,
            _ => return None,
        })
    }

    /// The number that stands for the policy in the database.
    #[must_use]
    pub fn number(self) -> i64 {
        match self {
            Self::Auto => 1,
            Self::Good => 2,
            Self::Unknown => 3,
            Self::Bad => 4,
            Self::Ask => 5,
        }
    }
}
