//! Encrypted fields as they stand in entries.
//!
//! An entry begins an **epoch**: it has a key, wrapped once for each reader by an OpenPGP message.
//! Values of the epoch are encrypted with this key, and say inside where they belong. Nodes without
//! the key admit, merge and hash all of them like others.

use std::fmt;
use std::hash::{Hash, Hasher};

use talaria_cert::hex::Upper;
use talaria_cert::sha256;

use crate::bytes::{Fields, Malformed};
use crate::name::EntryId;

/// Most keys of readers of an epoch. A reader with several encryption keys has several.
pub const READERS_MAX: usize = 256;

/// Version 2, AES-256, OCB (RFC 9580, section 5.13.2).
const SEALED_START: [u8; 3] = [2, 9, 2];
/// The version, the three numbers, the salt, and two authentication tags.
const SEALED_BYTES_MIN: usize = 4 + 32 + 2 * 16;

/// Types of packets (RFC 9580, section 5).
const PKESK: u8 = 1;
const SEIPD: u8 = 18;
/// The AEAD packet of GnuPG.
const AEAD: u8 = 20;

/// An encrypted typed value. Two are equal if their bytes are.
#[derive(Clone, Debug)]
pub struct Encrypted {
    /// The entry that begins the epoch.
    pub epoch: EntryId,
    /// One encrypted packet.
    packet: Vec<u8>,
    /// The reason why it was not opened, if somebody tried. It is no part of the value.
    pub why: Option<Unreadable>,
}

/// The reason why an encrypted value cannot be read, or the key of its epoch.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Unreadable {
    /// None of the keys that the epoch is encrypted to is here.
    #[error("{}", no_key(*.readers))]
    NoKey {
        /// The number of keys of readers.
        readers: usize,
    },
    /// A key of a reader is here and cannot be used, for example because it is locked.
    #[error("the key of a reader cannot be used: {0}")]
    Secret(String),
    /// The entry that begins the epoch is not here, or is about another object or other fields.
    #[error("its epoch is not here, or is not about this field")]
    NoEpoch,
    /// The message of the epoch has no key for this epoch.
    #[error("its epoch is forged or damaged: {0}")]
    Epoch(&'static str),
    /// The value was encrypted for another place, and copied here.
    #[error("it was moved from another place: its {0} is another one")]
    Moved(&'static str),
    /// The value was not encrypted with the key of the epoch, or was changed.
    #[error("it is damaged, or was not encrypted with the key of its epoch")]
    Damaged,
    /// There is no typed value inside.
    #[error("there is no value inside")]
    NoValue,
}

fn no_key(readers: usize) -> String {
    match readers {
        1 => "you do not have the key of its only reader".to_owned(),
        count => format!("you have none of the {count} keys of its readers"),
    }
}

impl Unreadable {
    /// The kind of the reason, one word.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::NoKey { .. } => "no-key",
            Self::Secret(_) => "secret",
            Self::NoEpoch => "no-epoch",
            Self::Epoch(_) => "epoch",
            Self::Moved(_) => "moved",
            Self::Damaged => "damaged",
            Self::NoValue => "no-value",
        }
    }
}

impl Encrypted {
    /// An encrypted value of an epoch: one packet of version 2 and type 18, with AES-256 and OCB.
    ///
    /// # Errors
    ///
    /// [`Malformed`] if the bytes are not one packet of this kind.
    pub fn new(epoch: EntryId, packet: Vec<u8>) -> Result<Self, Malformed> {
        const WRONG: Malformed = Malformed::Field("encrypted value");
        let mut fields = Fields(&packet);
        let (tag, body) = packet_of(&mut fields)?;
        if tag != SEIPD || body.len() < SEALED_BYTES_MIN || !body.starts_with(&SEALED_START) {
            return Err(WRONG);
        }
        fields.end()?;
        Ok(Self { epoch, packet, why: None })
    }

    /// The encrypted packet.
    #[must_use]
    pub fn packet(&self) -> &[u8] {
        &self.packet
    }

    /// The same value with the reason why it was not opened.
    pub(crate) fn because(self, why: Unreadable) -> Self {
        Self { why: Some(why), ..self }
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.epoch.0);
        out.extend_from_slice(&self.packet);
    }

    pub(crate) fn read(fields: &mut Fields<'_>) -> Result<Self, Malformed> {
        let epoch = fields.id()?;
        let packet = fields.take(fields.0.len())?.to_vec();
        Self::new(epoch, packet)
    }

    fn content(&self) -> (&EntryId, &[u8]) {
        (&self.epoch, &self.packet)
    }
}

impl PartialEq for Encrypted {
    fn eq(&self, other: &Self) -> bool {
        self.content() == other.content()
    }
}

impl Eq for Encrypted {}

impl PartialOrd for Encrypted {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Encrypted {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.content().cmp(&other.content())
    }
}

impl Hash for Encrypted {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.content().hash(state);
    }
}

/// The key of an epoch, wrapped for its readers.
#[derive(Clone, Eq, PartialEq)]
pub struct WrappedKey {
    /// The hash of the content of the message.
    hash: [u8; 32],
    /// The OpenPGP message.
    message: Vec<u8>,
    readers: Vec<String>,
}

impl fmt::Debug for WrappedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WrappedKey").field("readers", &self.readers).finish_non_exhaustive()
    }
}

impl WrappedKey {
    /// A message with the content that has a hash.
    ///
    /// # Errors
    ///
    /// [`Malformed`] if the message has another form than the format allows.
    pub fn new(hash: [u8; 32], message: Vec<u8>) -> Result<Self, Malformed> {
        let readers = readers_of(&message)?;
        Ok(Self { hash, message, readers })
    }

    /// The names of the keys of the readers: key IDs or fingerprints, in upper-case hexadecimal
    /// digits.
    #[must_use]
    pub fn readers(&self) -> &[String] {
        &self.readers
    }

    /// The OpenPGP message. Readers decrypt it with any OpenPGP program.
    #[must_use]
    pub fn message(&self) -> &[u8] {
        &self.message
    }

    /// Whether a content of the message is the one to which the author has committed.
    pub(crate) fn has_content(&self, content: &[u8]) -> bool {
        sha256(&[content]) == self.hash
    }

    /// The bytes in memory.
    pub(crate) fn bytes(&self) -> usize {
        self.message.len() + self.readers.len() * 64
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.hash);
        out.extend_from_slice(&self.message);
    }

    pub(crate) fn read(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut fields = Fields(bytes);
        let hash = fields.array()?;
        Self::new(hash, fields.0.to_vec())
    }
}

/// The names of the keys in front of a message: packets of type 1, all of version 3 or all of
/// version 6, of which each names another key, and one encrypted packet.
fn readers_of(message: &[u8]) -> Result<Vec<String>, Malformed> {
    const WRONG: Malformed = Malformed::Field("message to the readers");
    let mut fields = Fields(message);
    let mut readers: Vec<String> = Vec::new();
    let mut all = None;
    loop {
        let (tag, body) = packet_of(&mut fields)?;
        match tag {
            PKESK => {}
            SEIPD | AEAD if !readers.is_empty() && !body.is_empty() => break,
            _ => return Err(WRONG),
        }
        let mut body = Fields(body);
        let version = body.u8()?;
        if *all.get_or_insert(version) != version {
            return Err(WRONG);
        }
        let name = match version {
            3 => body.take(8)?,
            6 => match (body.u8()?, body.u8()?) {
                (21, 4) => body.take(20)?,
                (33, 6) => body.take(32)?,
                _ => return Err(WRONG),
            },
            _ => return Err(WRONG),
        };
        let text = Upper(name).to_string();
        // A key that is named twice, or a hidden one, could cost its owner many uses of it.
        if name.iter().all(|&byte| byte == 0) || readers.contains(&text) {
            return Err(Malformed::Field("reader"));
        }
        if readers.len() == READERS_MAX {
            let (found, limit) = (READERS_MAX as u64 + 1, READERS_MAX as u64);
            return Err(Malformed::Limit { what: "readers", found, limit });
        }
        readers.push(text);
    }
    fields.end()?;
    Ok(readers)
}

/// The next packet: its type and body. The header has the new format and a definite length in its
/// shortest form.
fn packet_of<'a>(fields: &mut Fields<'a>) -> Result<(u8, &'a [u8]), Malformed> {
    const WRONG: Malformed = Malformed::Field("packet header");
    let first = fields.u8()?;
    if first & 0xc0 != 0xc0 {
        return Err(WRONG);
    }
    let length = match fields.u8()? {
        byte @ 0..192 => u32::from(byte),
        byte @ 192..224 => (u32::from(byte) - 192) * 256 + u32::from(fields.u8()?) + 192,
        255 => match fields.u32()? {
            length @ 8384.. => length,
            _ => return Err(WRONG),
        },
        _ => return Err(WRONG),
    };
    Ok((first & 0x3f, fields.take(length as usize)?))
}
