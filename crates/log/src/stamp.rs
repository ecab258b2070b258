//! The order of entries.

use crate::bytes::{Fields, Malformed};
use crate::clock::Clock;
use crate::name::{EntryId, KeyName};

/// The order of entries: clock, then author, then identity. It agrees with the past, because clocks
/// grow.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Stamp {
    pub(crate) clock: Clock,
    pub(crate) author: KeyName,
    pub(crate) id: EntryId,
}

impl Stamp {
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.clock.0.to_be_bytes());
        out.extend(self.author.to_bytes());
        out.extend(self.id.0);
    }

    pub(crate) fn read(fields: &mut Fields<'_>) -> Result<Self, Malformed> {
        let clock = Clock(fields.u64()?);
        Ok(Self { clock, author: fields.key("author")?, id: fields.id()? })
    }
}
