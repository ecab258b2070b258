//! Names: of entries, keys, objects and chains.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use talaria_cert::hex::{self, Lower};
use talaria_cert::{Fingerprint, sha256};

/// The identity of an entry: the hash of its bytes, 32 bytes. The identity of the genesis entry
/// names a log.
#[derive(Clone, Copy, Default, Eq, Hash, PartialEq)]
pub struct EntryId(pub [u8; 32]);

impl EntryId {
    /// All zero: no entry.
    pub const NONE: Self = Self([0; 32]);

    /// The identity of the entry with these bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(sha256(&[bytes]))
    }

    /// Whether this is no entry.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::NONE
    }
}

/// An object, 32 bytes.
#[derive(Clone, Copy, Default, Eq, Hash, PartialEq)]
pub struct ObjectId(pub [u8; 32]);

impl ObjectId {
    /// All zero: no object, or in a grant all objects.
    pub const NONE: Self = Self([0; 32]);

    /// The object that `creator` creates in `log` under `name`.
    #[must_use]
    pub fn of(log: EntryId, creator: KeyName, name: &str) -> Self {
        Self(sha256(&[b"TLGO", &log.0, &creator.to_bytes(), name.as_bytes()]))
    }
}

/// A text is not the name of an entry or an object: 64 hexadecimal digits.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("expected 64 hexadecimal digits")]
pub struct NotAnId;

/// Compares hashes as their bytes: nearly always the first ones decide.
fn compare(a: &[u8; 32], b: &[u8; 32]) -> Ordering {
    let first = |bytes: &[u8; 32]| bytes.first_chunk().map(|bytes| u64::from_be_bytes(*bytes));
    first(a).cmp(&first(b)).then_with(|| a.cmp(b))
}

macro_rules! hexadecimal {
    ($name:ident) => {
        impl Ord for $name {
            fn cmp(&self, other: &Self) -> Ordering {
                compare(&self.0, &other.0)
            }
        }

        impl PartialOrd for $name {
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                Some(self.cmp(other))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                Lower(&self.0).fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                Lower(&self.0[..6]).fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = NotAnId;

            fn from_str(text: &str) -> Result<Self, NotAnId> {
                hex::array(text).map(Self).ok_or(NotAnId)
            }
        }
    };
}

hexadecimal!(EntryId);
hexadecimal!(ObjectId);

/// The name of a key: version 4 or 6, and the fingerprint. A version 4 fingerprint has 12 zero
/// bytes behind it.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct KeyName {
    version: u8,
    bytes: [u8; 32],
}

/// The length of a key name in bytes.
pub(crate) const KEY_NAME_BYTES: usize = 33;

impl KeyName {
    /// The name of a key with this fingerprint. `None` for versions other than 4 and 6, which may
    /// not sign entries.
    #[must_use]
    pub fn of(fingerprint: Fingerprint) -> Option<Self> {
        let version = fingerprint.version();
        if !matches!(version, 4 | 6) {
            return None;
        }
        let mut bytes = [0; 32];
        bytes[..fingerprint.as_bytes().len()].copy_from_slice(fingerprint.as_bytes());
        Some(Self { version, bytes })
    }

    /// The name of a key with this fingerprint, as Sequoia has it. `None` for versions other than 4
    /// and 6.
    #[must_use]
    pub fn of_openpgp(fingerprint: &talaria_message::openpgp::Fingerprint) -> Option<Self> {
        use talaria_message::openpgp::Fingerprint as Theirs;
        match fingerprint {
            Theirs::V4(bytes) => Self::of(Fingerprint::V4(*bytes)),
            Theirs::V6(bytes) => Self::of(Fingerprint::V6(*bytes)),
            _ => None,
        }
    }

    /// The fingerprint.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        match self.bytes.first_chunk::<20>() {
            Some(short) if self.version == 4 => Fingerprint::V4(*short),
            _ => Fingerprint::V6(self.bytes),
        }
    }

    /// The version of the key: 4 or 6.
    #[must_use]
    pub fn version(&self) -> u8 {
        self.version
    }

    /// The 33 bytes of the name.
    #[must_use]
    pub fn to_bytes(self) -> [u8; KEY_NAME_BYTES] {
        let mut out = [0; KEY_NAME_BYTES];
        out[0] = self.version;
        out[1..].copy_from_slice(&self.bytes);
        out
    }

    /// Reads the 33 bytes of a name. `None` if they are not the form of one.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; KEY_NAME_BYTES]) -> Option<Self> {
        let (&version, rest) = bytes.split_first()?;
        let is_named = match version {
            4 => rest[20..].iter().all(|&byte| byte == 0),
            6 => true,
            _ => false,
        };
        is_named.then_some(Self { version, bytes: rest.try_into().ok()? })
    }
}

impl fmt::Display for KeyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fingerprint().fmt(f)
    }
}

/// The name of a chain: the entries that one key signs on one device instance.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ChainName {
    /// The primary key of the author.
    pub author: KeyName,
    /// The key that signs.
    pub subkey: KeyName,
    /// Random, and new after every restore of a machine.
    pub instance: [u8; 16],
}
