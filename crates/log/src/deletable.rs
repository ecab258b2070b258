//! Deletable values: an entry has a commitment, and the value travels beside it.
//!
//! A value and its salt can be removed everywhere without a change of what its author has signed.
//! Without the salt, nobody can find out by trial which value it was.

use talaria_cert::sha256;

use crate::bytes::{Fields, Malformed, write_part};
use crate::commitment::Commitment;
use crate::entry::Entry;
use crate::value::{VALUE_BYTES_MAX, Value};

/// A deletable value with the salt of its commitment.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Opening {
    salt: [u8; 32],
    bytes: Vec<u8>,
}

impl Opening {
    /// A value with 32 random bytes, which must be used for nothing else.
    #[must_use]
    pub fn new(value: &Value, salt: [u8; 32]) -> Self {
        let mut bytes = Vec::new();
        value.write(&mut bytes);
        Self { salt, bytes }
    }

    /// The commitment that stands for the value in an entry.
    #[must_use]
    pub fn commitment(&self) -> Commitment {
        let hash = sha256(&[&self.salt, &self.bytes]);
        // A value beyond 65,536 bytes is refused, so one beyond 4 GiB is, too.
        Commitment { bytes: u32::try_from(self.bytes.len()).unwrap_or(u32::MAX), hash }
    }

    /// Whether this is the value that an entry commits to.
    #[must_use]
    pub fn opens(&self, entry: &Entry) -> bool {
        entry.commitment().is_some_and(|wanted| *wanted == self.commitment())
    }

    /// The value. `None` if the author committed to bytes that are none.
    #[must_use]
    pub fn value(&self) -> Option<Value> {
        let value = Value::read(&self.bytes).ok()?;
        (!matches!(value, Value::Committed(_))).then_some(value)
    }

    /// The same opening with another value, for a value that is encrypted before anybody has seen
    /// the commitment.
    pub(crate) fn with_value(&self, value: &Value) -> Self {
        Self::new(value, self.salt)
    }

    /// The bytes in a record.
    pub(crate) fn record_bytes(&self) -> usize {
        self.bytes.len() + 40
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.salt);
        write_part(out, 4, &self.bytes);
    }

    pub(crate) fn read(fields: &mut Fields<'_>) -> Result<Self, Malformed> {
        let salt = fields.array()?;
        Ok(Self { salt, bytes: fields.part(4, VALUE_BYTES_MAX, "deletable value")?.to_vec() })
    }
}
