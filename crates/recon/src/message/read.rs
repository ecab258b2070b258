//! The parts of messages.

use super::error::DecodeError;
use crate::digest::Digest;
use crate::field::Zp;
use crate::prefix::Prefix;

/// Reads parts from the front of bytes that have all arrived.
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The remaining bytes.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.0
    }

    /// A number of four bytes, the highest first.
    pub(crate) fn int(&mut self) -> Result<u32, DecodeError> {
        let (bytes, rest) = self.0.split_first_chunk().ok_or(DecodeError::Malformed("number"))?;
        self.0 = rest;
        Ok(u32::from_be_bytes(*bytes))
    }

    /// A length and so many bytes.
    pub(crate) fn string(&mut self) -> Result<&'a [u8], DecodeError> {
        let len = self.int()? as usize;
        let (bytes, rest) = self.0.split_at_checked(len).ok_or(DecodeError::Malformed("string"))?;
        self.0 = rest;
        Ok(bytes)
    }

    /// A number of the field, 17 bytes.
    pub(crate) fn element(&mut self) -> Result<Zp, DecodeError> {
        let malformed = DecodeError::Malformed("element");
        let (bytes, rest) = self.0.split_first_chunk().ok_or(malformed)?;
        self.0 = rest;
        Zp::from_bytes(*bytes).ok_or(malformed)
    }

    /// A count and so many digests, each in the 17 bytes of an element.
    pub(crate) fn set(&mut self) -> Result<Vec<Digest>, DecodeError> {
        let malformed = DecodeError::Malformed("set");
        let len = self.int()? as usize * Zp::BYTES;
        let (bytes, rest) = self.0.split_at_checked(len).ok_or(malformed)?;
        self.0 = rest;
        bytes
            .chunks_exact(Zp::BYTES)
            .map(|element| {
                let (digest, top) = element.split_first_chunk().ok_or(malformed)?;
                if top == [0] { Ok(Digest(*digest)) } else { Err(malformed) }
            })
            .collect()
    }

    /// A number of bits and their bytes; the bits after the last one are ignored.
    pub(crate) fn prefix(&mut self) -> Result<Prefix, DecodeError> {
        let malformed = DecodeError::Malformed("prefix");
        let bits = self.int()?;
        let bytes = self.string()?;
        let mut padded = [0; 16];
        let filled = padded.get_mut(..bytes.len()).ok_or(malformed)?;
        filled.copy_from_slice(bytes);
        if bits.div_ceil(8) as usize != bytes.len() {
            return Err(malformed);
        }
        Prefix::new(Digest(padded), bits).ok_or(malformed)
    }

    /// Nothing is left.
    pub(crate) fn end(&self, what: &'static str) -> Result<(), DecodeError> {
        if self.0.is_empty() { Ok(()) } else { Err(DecodeError::Malformed(what)) }
    }
}
