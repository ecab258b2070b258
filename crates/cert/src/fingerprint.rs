//! Key fingerprints and key IDs.
//!
//! A fingerprint names one key, primary or subkey, and never a certificate: two certificates may
//! carry the same subkey. Prefer it to a key ID, which collides and only selects candidates.

use std::fmt;

use crate::hex::Upper;

/// The fingerprint of a key (RFC 9580, section 5.5.4).
///
/// Order is version, then bytes, and is also the key order of the store. The text form is hex,
/// upper case, without spaces.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Fingerprint {
    /// MD5 over the numbers of an RSA key, 16 bytes. The key ID is kept too, since it does not
    /// follow from the fingerprint.
    V3([u8; 16], KeyId),
    /// SHA-1 over the public key packet, 20 bytes.
    V4([u8; 20]),
    /// SHA-256 over the public key packet, 32 bytes (LibrePGP's version 5).
    V5([u8; 32]),
    /// SHA-256 over the public key packet, 32 bytes.
    V6([u8; 32]),
}

impl Fingerprint {
    /// The bytes of the fingerprint, 16, 20 or 32.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::V3(bytes, _) => bytes,
            Self::V4(bytes) => bytes,
            Self::V5(bytes) | Self::V6(bytes) => bytes,
        }
    }

    /// The version of the key.
    #[must_use]
    pub fn version(&self) -> u8 {
        match self {
            Self::V3(..) => 3,
            Self::V4(_) => 4,
            Self::V5(_) => 5,
            Self::V6(_) => 6,
        }
    }

    /// The key ID (RFC 9580, section 5.5.4): the low 64 bits in version 4, the high 64 bits in
    /// later versions.
    #[must_use]
    pub fn key_id(&self) -> KeyId {
        let be = |bytes: &[u8]| KeyId(bytes.iter().fold(0, |id, &b| id << 8 | u64::from(b)));
        match self {
            Self::V3(_, id) => *id,
            Self::V4(bytes) => be(&bytes[12..]),
            Self::V5(bytes) | Self::V6(bytes) => be(&bytes[..8]),
        }
    }

    /// The stored form: a version byte, then the fingerprint. In version 3 the key ID follows.
    #[must_use]
    pub fn to_stored(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(33);
        out.push(self.version());
        out.extend_from_slice(self.as_bytes());
        if let Self::V3(_, id) = self {
            out.extend_from_slice(&id.0.to_be_bytes());
        }
        out
    }

    /// Reads the form of [`Self::to_stored`] from the start of `bytes`, and returns the rest of
    /// `bytes` too.
    #[must_use]
    pub fn from_stored(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (&version, rest) = bytes.split_first()?;
        Some(match version {
            3 => {
                let (fingerprint, rest) = rest.split_first_chunk::<16>()?;
                let (id, rest) = rest.split_first_chunk::<8>()?;
                (Self::V3(*fingerprint, KeyId(u64::from_be_bytes(*id))), rest)
            }
            4 => rest.split_first_chunk::<20>().map(|(f, rest)| (Self::V4(*f), rest))?,
            5 => rest.split_first_chunk::<32>().map(|(f, rest)| (Self::V5(*f), rest))?,
            6 => rest.split_first_chunk::<32>().map(|(f, rest)| (Self::V6(*f), rest))?,
            _ => return None,
        })
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Upper(self.as_bytes()).fmt(f)
    }
}

/// The 64-bit ID of a key.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct KeyId(pub u64);

impl KeyId {
    /// The ID with its halves swapped, so that IDs with the same low 32 bits (short key ID) sort
    /// together.
    #[must_use]
    pub fn rotated(self) -> u64 {
        self.0.rotate_left(32)
    }

    /// The low 32 bits, which gpg and SKS call the short key ID.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "that is what it is for")]
    pub fn short(self) -> u32 {
        self.0 as u32
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Upper(&self.0.to_be_bytes()).fmt(f)
    }
}

/// GnuPG's name of a key pair, derived from its numbers alone, 20 bytes (libgcrypt,
/// `gcry_pk_get_keygrip`).
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Keygrip(pub [u8; 20]);

impl fmt::Display for Keygrip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Upper(&self.0).fmt(f)
    }
}
