//! Typed values of fields.

use std::fmt;

use talaria_cert::hex::Lower;

use crate::bytes::{Fields, Malformed};
use crate::commitment::Commitment;
use crate::encrypted::Encrypted;
use crate::name::ObjectId;

/// Largest value of an entry, in bytes.
pub const VALUE_BYTES_MAX: usize = 65_536;

/// The value of a field. Two values are equal if their bytes are: there is one NaN, and no -0.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Value {
    /// A text. It is not normalized.
    String(String),
    /// A signed integer.
    Integer(i64),
    /// A floating-point number.
    Float(Float),
    /// True or false.
    Boolean(bool),
    /// Bytes.
    Bytes(Vec<u8>),
    /// Another object.
    Object(ObjectId),
    /// A deletable value that is not here, or that is deleted.
    Committed(Commitment),
    /// An encrypted value.
    Encrypted(Encrypted),
}

/// A floating-point number that compares by its bytes.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Float(u64);

/// The bytes of the only NaN.
const NAN: u64 = 0x7ff8_0000_0000_0000;

impl Float {
    /// The number. Every NaN is the same NaN, and -0 is 0.
    #[must_use]
    pub fn new(number: f64) -> Self {
        if number.is_nan() {
            Self(NAN)
        } else if number == 0.0 {
            Self(0)
        } else {
            Self(number.to_bits())
        }
    }

    /// The number.
    #[must_use]
    pub fn get(self) -> f64 {
        f64::from_bits(self.0)
    }
}

impl Value {
    /// The bytes of the value in memory, without the type itself.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::String(text) => text.len(),
            Self::Bytes(bytes) => bytes.len(),
            Self::Encrypted(encrypted) => encrypted.packet().len(),
            _ => 0,
        }
    }

    /// Appends the bytes of the value.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::String(text) => {
                out.push(1);
                out.extend_from_slice(text.as_bytes());
            }
            Self::Integer(number) => {
                out.push(2);
                out.extend_from_slice(&number.to_be_bytes());
            }
            Self::Float(number) => {
                out.push(3);
                out.extend_from_slice(&number.0.to_be_bytes());
            }
            Self::Boolean(value) => out.extend([4, u8::from(*value)]),
            Self::Bytes(bytes) => {
                out.push(5);
                out.extend_from_slice(bytes);
            }
            Self::Object(object) => {
                out.push(6);
                out.extend_from_slice(&object.0);
            }
            Self::Committed(Commitment { bytes, hash }) => {
                out.push(7);
                out.extend(bytes.to_be_bytes());
                out.extend(hash);
            }
            Self::Encrypted(encrypted) => {
                out.push(8);
                encrypted.write(out);
            }
        }
    }

    /// Whether [`Self::read`] reads `bytes`, without a copy.
    ///
    /// # Errors
    ///
    /// As [`Self::read`].
    pub(crate) fn check(bytes: &[u8]) -> Result<(), Malformed> {
        match bytes.split_first() {
            Some((1, text)) => text_of(text).map(drop),
            Some((5, _)) => Ok(()),
            _ => Self::read(bytes).map(drop),
        }
    }

    /// Whether a value that was read from these bytes is a commitment.
    pub(crate) fn is_committed(bytes: &[u8]) -> bool {
        bytes.first() == Some(&7)
    }

    /// Reads a value that takes all of `bytes`.
    ///
    /// # Errors
    ///
    /// [`Malformed`] if they are not the encoding of a value.
    pub fn read(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut fields = Fields(bytes);
        let kind = fields.u8()?;
        let value = match kind {
            1 => return text_of(fields.0).map(|text| Self::String(text.to_owned())),
            2 => Self::Integer(i64::from_be_bytes(fields.array()?)),
            3 => {
                let bits = fields.u64()?;
                let number = Float::new(f64::from_bits(bits));
                if number.0 != bits {
                    return Err(Malformed::Field("float"));
                }
                Self::Float(number)
            }
            4 => match fields.u8()? {
                value @ (0 | 1) => Self::Boolean(value == 1),
                _ => return Err(Malformed::Field("boolean")),
            },
            5 => return Ok(Self::Bytes(fields.0.to_vec())),
            6 => Self::Object(fields.object()?),
            7 => {
                let bytes = fields.u32()?;
                if !(1..=VALUE_BYTES_MAX).contains(&(bytes as usize)) {
                    return Err(Malformed::Field("length of a deletable value"));
                }
                Self::Committed(Commitment { bytes, hash: fields.array()? })
            }
            8 => Self::Encrypted(Encrypted::read(&mut fields)?),
            _ => return Err(Malformed::Field("type of a value")),
        };
        fields.end()?;
        Ok(value)
    }
}

fn text_of(bytes: &[u8]) -> Result<&str, Malformed> {
    std::str::from_utf8(bytes).map_err(|_| Malformed::Field("string"))
}

impl fmt::Display for Value {
    /// Writes the value for people. Texts appear as they are.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::String(text) => f.write_str(text),
            Self::Integer(number) => number.fmt(f),
            Self::Float(number) => number.get().fmt(f),
            Self::Boolean(value) => value.fmt(f),
            Self::Bytes(bytes) => Lower(bytes).fmt(f),
            Self::Object(object) => object.fmt(f),
            Self::Committed(_) => f.write_str("(value not here)"),
            Self::Encrypted(Encrypted { why: Some(why), .. }) => write!(f, "(encrypted: {why})"),
            Self::Encrypted(_) => f.write_str("(encrypted)"),
        }
    }
}
