//! The name of a certificate among keyservers.

use std::fmt;
use std::str::FromStr;

use data_encoding::{HEXLOWER_PERMISSIVE, HEXUPPER};

/// The digest of one certificate as SKS computes it, 16 bytes of MD5.
///
/// It names one state of a certificate: with another signature comes another digest. Nothing here
/// depends on how it is computed. Order is that of the bytes, and is the order of the tree. The
/// text form is hex: any case is read, upper case is written.
#[derive(Clone, Copy, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Digest(pub [u8; 16]);

/// A text that is no digest: not 32 hexadecimal digits.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("a digest is 32 hexadecimal digits")]
pub struct DigestError;

impl Digest {
    /// The bytes as one number in which the first bit of the tree's keys is the highest.
    pub(crate) fn key(self) -> u128 {
        u128::from_be_bytes(self.0)
    }
}

impl From<[u8; 16]> for Digest {
    fn from(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        HEXUPPER.encode_display(&self.0).fmt(f)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

impl FromStr for Digest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, DigestError> {
        let bytes = HEXLOWER_PERMISSIVE.decode(text.as_bytes()).map_err(|_| DigestError)?;
        Ok(Self(bytes.try_into().map_err(|_| DigestError)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_read_in_any_case_and_written_in_upper_case() {
        let text = "00FF0123456789ABCDEF0123456789AB";
        let digest: Digest = text.parse().unwrap();
        assert_eq!(digest.0[..3], [0, 0xff, 1]);
        assert_eq!(digest.to_string(), text);
        assert_eq!(text.to_lowercase().parse(), Ok(digest));
        for bad in ["", "+0FF0123456789ABCDEF0123456789AB", "00FF0123456789ABCDEF0123456789", "é"]
        {
            assert_eq!(bad.parse::<Digest>(), Err(DigestError), "{bad}");
        }
    }
}
