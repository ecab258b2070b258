//! Reading and writing the fields of the format, which are big-endian.

use crate::name::{EntryId, KEY_NAME_BYTES, KeyName, ObjectId};

/// The bytes are not an encoding that the format allows.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Malformed {
    /// A field ends after the end of the bytes.
    #[error("the bytes end within a field")]
    Short,
    /// Bytes follow the last field.
    #[error("bytes follow the last field")]
    Trailing,
    /// A field has a value that the format does not allow.
    #[error("the field `{0}` has a value that the format does not allow")]
    Field(&'static str),
    /// A list is not ascending, or has an item twice.
    #[error("the list `{0}` is not ascending")]
    Order(&'static str),
    /// A part is longer than its limit.
    #[error("`{what}` has {found} bytes or items, more than {limit}")]
    Limit {
        /// The part.
        what: &'static str,
        /// Its length.
        found: u64,
        /// Its limit.
        limit: u64,
    },
}

/// Fields that are read from the start of bytes.
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    pub(crate) fn take(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let (field, rest) = self.0.split_at_checked(len).ok_or(Malformed::Short)?;
        self.0 = rest;
        Ok(field)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (field, rest) = self.0.split_first_chunk::<N>().ok_or(Malformed::Short)?;
        self.0 = rest;
        Ok(*field)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Malformed> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_be_bytes)
    }

    pub(crate) fn id(&mut self) -> Result<EntryId, Malformed> {
        self.array().map(EntryId)
    }

    pub(crate) fn object(&mut self) -> Result<ObjectId, Malformed> {
        self.array().map(ObjectId)
    }

    pub(crate) fn key(&mut self, what: &'static str) -> Result<KeyName, Malformed> {
        let bytes = self.array::<KEY_NAME_BYTES>()?;
        KeyName::from_bytes(&bytes).ok_or(Malformed::Field(what))
    }

    /// A part with its length in `wide` bytes before it.
    pub(crate) fn part(
        &mut self,
        wide: usize,
        limit: usize,
        what: &'static str,
    ) -> Result<&'a [u8], Malformed> {
        let length = self.take(wide)?.iter().fold(0, |a, &byte| a << 8 | u64::from(byte));
        let limit = limit as u64;
        if length > limit {
            return Err(Malformed::Limit { what, found: length, limit });
        }
        self.take(usize::try_from(length).map_err(|_| Malformed::Short)?)
    }

    /// A text with its length in two bytes before it.
    pub(crate) fn text(&mut self, limit: usize, what: &'static str) -> Result<String, Malformed> {
        let bytes = self.part(2, limit, what)?;
        text(bytes).ok_or(Malformed::Field(what)).map(str::to_owned)
    }

    /// `count` identities, ascending.
    pub(crate) fn ids(
        &mut self,
        count: usize,
        limit: usize,
        what: &'static str,
    ) -> Result<Vec<EntryId>, Malformed> {
        if count > limit {
            return Err(Malformed::Limit { what, found: count as u64, limit: limit as u64 });
        }
        let ids = (0..count).map(|_| self.id()).collect::<Result<Vec<_>, _>>()?;
        if !ids.is_sorted_by(|a, b| a < b) {
            return Err(Malformed::Order(what));
        }
        Ok(ids)
    }

    pub(crate) fn end(&self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed::Trailing) }
    }
}

/// The text of bytes that are UTF-8 without control characters.
pub(crate) fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok().filter(|text| !text.chars().any(char::is_control))
}

/// Writes the length of a part in `wide` bytes, and the part. The limits of the parts keep them
/// below the greatest such length.
pub(crate) fn write_part(out: &mut Vec<u8>, wide: usize, part: &[u8]) {
    let length = (part.len() as u64).to_be_bytes();
    debug_assert!(length[..8 - wide].iter().all(|&byte| byte == 0), "a part beyond its limit");
    out.extend_from_slice(&length[8 - wide..]);
    out.extend_from_slice(part);
}

pub(crate) fn write_ids(out: &mut Vec<u8>, ids: &[EntryId]) {
    ids.iter().for_each(|id| out.extend_from_slice(&id.0));
}

/// The length of a list whose limit is below 256.
pub(crate) fn count_u8(len: usize) -> u8 {
    u8::try_from(len).unwrap_or(u8::MAX)
}

/// The length of a list whose limit is below 65,536.
pub(crate) fn count_u16(len: usize) -> u16 {
    u16::try_from(len).unwrap_or(u16::MAX)
}
