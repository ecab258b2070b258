//! Ciphers, AEAD modes and chunk sizes, with their registry numbers.

use std::fmt;

use crate::error::{MessageError, Result};

/// A symmetric cipher (RFC 9580, section 9.3).
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[repr(u8)]
pub enum Cipher {
    /// AES with 128-bit keys.
    Aes128 = 7,
    /// AES with 192-bit keys.
    Aes192 = 8,
    /// AES with 256-bit keys.
    #[default]
    Aes256 = 9,
    /// Triple DES; for decryption only.
    TripleDes = 2,
    /// Camellia with 128-bit keys; for decryption only.
    Camellia128 = 11,
    /// Camellia with 192-bit keys; for decryption only.
    Camellia192 = 12,
    /// Camellia with 256-bit keys; for decryption only.
    Camellia256 = 13,
}

impl Cipher {
    /// The cipher with this registry number.
    pub(crate) fn from_number(number: u8) -> Result<Self> {
        Ok(match number {
            2 => Self::TripleDes,
            7 => Self::Aes128,
            8 => Self::Aes192,
            9 => Self::Aes256,
            11 => Self::Camellia128,
            12 => Self::Camellia192,
            13 => Self::Camellia256,
            1 => return Err(MessageError::Unsupported("the cipher IDEA".into())),
            3 => return Err(MessageError::Unsupported("the cipher CAST5".into())),
            4 => return Err(MessageError::Unsupported("the cipher Blowfish".into())),
            10 => return Err(MessageError::Unsupported("the cipher Twofish".into())),
            other => return Err(MessageError::Unsupported(format!("cipher number {other}"))),
        })
    }

    /// The key length in bytes.
    #[must_use]
    pub fn key_bytes(self) -> usize {
        match self {
            Self::Aes128 | Self::Camellia128 => 16,
            Self::Aes192 | Self::Camellia192 | Self::TripleDes => 24,
            Self::Aes256 | Self::Camellia256 => 32,
        }
    }

    /// The block length in bytes.
    pub(crate) fn block_bytes(self) -> usize {
        if self == Self::TripleDes { 8 } else { 16 }
    }

    /// The cipher in ECB mode, for single blocks.
    pub(crate) fn ecb(self) -> &'static openssl::cipher::CipherRef {
        use openssl::cipher::Cipher as C;
        match self {
            Self::Aes128 => C::aes_128_ecb(),
            Self::Aes192 => C::aes_192_ecb(),
            Self::Aes256 => C::aes_256_ecb(),
            Self::TripleDes => C::des_ede3_ecb(),
            Self::Camellia128 => C::camellia128_ecb(),
            Self::Camellia192 => C::camellia192_ecb(),
            Self::Camellia256 => C::camellia256_ecb(),
        }
    }

    /// The cipher in full-block CFB mode, for the ciphers that are used to encrypt.
    pub(crate) fn cfb(self) -> Result<&'static openssl::cipher::CipherRef> {
        use openssl::cipher::Cipher as C;
        Ok(match self {
            Self::Aes128 => C::aes_128_cfb128(),
            Self::Aes192 => C::aes_192_cfb128(),
            Self::Aes256 => C::aes_256_cfb128(),
            other => return Err(MessageError::Unsupported(format!("writing with {other}"))),
        })
    }

    pub(crate) fn sequoia(self) -> sequoia_openpgp::types::SymmetricAlgorithm {
        (self as u8).into()
    }
}

impl fmt::Display for Cipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Aes128 => "AES128",
            Self::Aes192 => "AES192",
            Self::Aes256 => "AES256",
            Self::TripleDes => "3DES",
            Self::Camellia128 => "CAMELLIA128",
            Self::Camellia192 => "CAMELLIA192",
            Self::Camellia256 => "CAMELLIA256",
        })
    }
}

/// An AEAD mode (RFC 9580, section 9.6).
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[repr(u8)]
pub enum Aead {
    /// EAX; for decryption only, since no hardware accelerates it.
    Eax = 1,
    /// OCB, the mode that every implementation of RFC 9580 has.
    Ocb = 2,
    /// GCM, the fastest mode on current hardware.
    #[default]
    Gcm = 3,
}

/// The length of an authentication tag in bytes, in all three modes.
pub(crate) const TAG_BYTES: usize = 16;

impl Aead {
    /// The mode with this registry number.
    pub(crate) fn from_number(number: u8) -> Result<Self> {
        match number {
            1 => Ok(Self::Eax),
            2 => Ok(Self::Ocb),
            3 => Ok(Self::Gcm),
            other => Err(MessageError::Unsupported(format!("AEAD mode number {other}"))),
        }
    }

    /// The nonce length in bytes.
    pub(crate) fn nonce_bytes(self) -> usize {
        match self {
            Self::Eax => 16,
            Self::Ocb => 15,
            Self::Gcm => 12,
        }
    }
}

impl fmt::Display for Aead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Eax => "EAX",
            Self::Ocb => "OCB",
            Self::Gcm => "GCM",
        })
    }
}

/// The amount of plaintext that one authentication tag covers: two to the power of 6 to 22 bytes
/// (RFC 9580, section 5.13.2).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ChunkSize(u8);

impl ChunkSize {
    /// Decodes the chunk-size byte of the packet.
    pub(crate) fn from_byte(byte: u8) -> Result<Self> {
        if byte <= 16 {
            Ok(Self(byte))
        } else {
            Err(MessageError::TooLarge { what: "bytes in an AEAD chunk", limit: 1 << 22 })
        }
    }

    /// Chunks of `bytes` bytes, a power of two from 64 to 4 MiB; `None` for other sizes.
    #[must_use]
    pub fn from_bytes(bytes: usize) -> Option<Self> {
        (bytes.is_power_of_two() && (1 << 6..=1 << 22).contains(&bytes))
            .then(|| Self(u8::try_from(bytes.trailing_zeros() - 6).unwrap_or_default()))
    }

    pub(crate) fn byte(self) -> u8 {
        self.0
    }

    pub(crate) fn bytes(self) -> usize {
        1 << (self.0 + 6)
    }
}

/// 256 KiB: a chunk and its ciphertext fit into the second-level cache of a core.
impl Default for ChunkSize {
    fn default() -> Self {
        Self(12)
    }
}
