//! Entries, and their bytes (`docs/formats/log.md`).

use crate::action::{Action, NAME_BYTES_MAX};
use crate::bytes::{Fields, Malformed, count_u8, write_ids, write_part};
use crate::clock::Clock;
use crate::commitment::Commitment;
use crate::name::{ChainName, EntryId, KeyName};
use crate::value::VALUE_BYTES_MAX;

/// Most links of an entry.
pub const LINKS_MAX: usize = 8;
/// Longest entry, in bytes.
pub const ENTRY_BYTES_MAX: usize = VALUE_BYTES_MAX + 1024;

const MAGIC: [u8; 5] = *b"TLGE\x01";

/// One change, as its author signs it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Entry {
    /// The log; [`EntryId::NONE`] in the genesis entry.
    pub log: EntryId,
    /// The chain: author, key and device instance.
    pub chain: ChainName,
    /// The place in the chain, from 0.
    pub sequence: u64,
    /// The entry before in the chain; [`EntryId::NONE`] at its start.
    pub previous: EntryId,
    /// Heads of other chains, ascending.
    pub links: Vec<EntryId>,
    /// The hybrid clock.
    pub clock: Clock,
    /// The grant that allows the entry; [`EntryId::NONE`] where genesis does.
    pub grant: EntryId,
    /// The operation.
    pub action: Action,
}

impl Entry {
    /// The author: the name of the primary key.
    #[must_use]
    pub fn author(&self) -> KeyName {
        self.chain.author
    }

    /// The commitment of the entry, if its value is deletable.
    #[must_use]
    pub fn commitment(&self) -> Option<&Commitment> {
        self.action.commitment()
    }

    /// The bytes that are signed and hashed.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(512);
        out.extend(MAGIC);
        out.extend(self.log.0);
        out.extend(self.chain.author.to_bytes());
        out.extend(self.chain.subkey.to_bytes());
        out.extend(self.chain.instance);
        out.extend(self.sequence.to_be_bytes());
        out.extend(self.previous.0);
        out.push(count_u8(self.links.len()));
        write_ids(&mut out, &self.links);
        out.extend(self.clock.0.to_be_bytes());
        out.extend(self.grant.0);
        out.extend(self.action.object().0);
        out.push(self.action.number());
        write_part(&mut out, 2, self.action.field().as_bytes());
        match self.action.value() {
            None => out.push(0),
            Some(value) => {
                out.push(1);
                write_part(&mut out, 4, &value);
            }
        }
        out
    }

    /// Reads an entry that takes all of `bytes`.
    ///
    /// # Errors
    ///
    /// [`Malformed`] for every bytes that [`Self::to_bytes`] does not write for an allowed entry.
    pub fn read(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut fields = Fields(bytes);
        if fields.array()? != MAGIC {
            return Err(Malformed::Field("start of an entry"));
        }
        let log = fields.id()?;
        let chain = ChainName {
            author: fields.key("author")?,
            subkey: fields.key("key")?,
            instance: fields.array()?,
        };
        let sequence = fields.u64()?;
        let previous = fields.id()?;
        if (sequence == 0) != previous.is_none() {
            return Err(Malformed::Field("previous entry"));
        }
        let count = usize::from(fields.u8()?);
        let links = fields.ids(count, LINKS_MAX, "links")?;
        let clock = Clock(fields.u64()?);
        let grant = fields.id()?;
        let object = fields.object()?;
        let number = fields.u8()?;
        let field = fields.text(NAME_BYTES_MAX, "field")?;
        let value = match fields.u8()? {
            0 => None,
            1 => Some(fields.part(4, VALUE_BYTES_MAX, "value")?),
            _ => return Err(Malformed::Field("form of the value")),
        };
        fields.end()?;
        let action = Action::read(number, object, &field, value)?;
        if matches!(action, Action::Genesis(_)) {
            if !log.is_none() || sequence != 0 || !links.is_empty() || !grant.is_none() {
                return Err(Malformed::Field("place of genesis"));
            }
        } else if log.is_none() {
            return Err(Malformed::Field("log"));
        }
        Ok(Self { log, chain, sequence, previous, links, clock, grant, action })
    }
}
