//! The operations of entries, with their values.

use crate::bytes::{Fields, Malformed, count_u8, count_u16, text, write_ids, write_part};
use crate::certificate::{CERTIFICATE_BYTES_MAX, Certificate};
use crate::checkpoint::{Checkpoint, Cosignatures};
use crate::commitment::Commitment;
use crate::encrypted::WrappedKey;
use crate::genesis::{Genesis, MergeRule, Pattern};
use crate::name::{EntryId, KeyName, ObjectId};
use crate::node::NodeKey;
use crate::note::NUMBER_MAX;
use crate::snapshot::Snapshot;
use crate::value::Value;

/// Longest name of an object, and longest field, in bytes.
pub const NAME_BYTES_MAX: usize = 256;
/// Most writes or additions that one entry replaces or removes.
pub const REPLACED_MAX: usize = 32;
/// Most heads of a revocation.
pub const HEADS_MAX: usize = 1024;

/// The numbers of the operations.
pub(crate) mod number {
    pub(crate) const GENESIS: u8 = 0;
    pub(crate) const CREATE: u8 = 1;
    pub(crate) const DELETE: u8 = 2;
    pub(crate) const SET: u8 = 3;
    pub(crate) const UNSET: u8 = 4;
    pub(crate) const REPLACE: u8 = 5;
    pub(crate) const ADD: u8 = 6;
    pub(crate) const REMOVE: u8 = 7;
    pub(crate) const COUNT: u8 = 8;
    pub(crate) const INSERT: u8 = 9;
    pub(crate) const ERASE: u8 = 10;
    pub(crate) const DELETE_VALUES: u8 = 11;
    pub(crate) const ENCRYPT: u8 = 12;
    pub(crate) const STOP_ENCRYPTING: u8 = 13;
    pub(crate) const GRANT: u8 = 32;
    pub(crate) const REVOKE: u8 = 33;
    pub(crate) const APPROVE: u8 = 34;
    pub(crate) const CHOOSE: u8 = 35;
    pub(crate) const CHECKPOINT: u8 = 38;
    pub(crate) const COSIGN: u8 = 39;
    pub(crate) const PUBLISH_NODE: u8 = 36;
    pub(crate) const END_NODE: u8 = 37;
    pub(crate) const SNAPSHOT: u8 = 40;
}

/// The action of an entry.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Action {
    /// Begins a log.
    Genesis(Box<Genesis>),
    /// Changes an object.
    Data(DataAction),
    /// Allows an author to change objects.
    Grant(Box<Grant>),
    /// Ends an author, a key or a grant.
    Revoke(Revocation),
    /// Agrees with a grant, a revocation, a choice or a snapshot of another owner.
    Approve(EntryId),
    /// Chooses the branch of an entry behind a fork.
    Choose(EntryId),
    /// Says which entries existed, and when.
    Checkpoint(Box<Checkpoint>),
    /// Adds cosignatures to a checkpoint.
    Cosign(Cosignatures),
    /// Publishes the key of a node.
    PublishNode(NodeKey),
    /// Ends the key of a node that another entry published.
    EndNode(EntryId),
    /// States what the log is in the past of the entry.
    Snapshot(Snapshot),
}

/// A change of an object.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DataAction {
    /// The object.
    pub object: ObjectId,
    /// The change.
    pub change: Change,
}

/// The kinds of changes of an object.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Change {
    /// Creates the object with a name.
    Create(String),
    /// Deletes the object. Its fields are kept.
    Delete,
    /// Changes a field.
    Field(String, FieldChange),
    /// Begins an epoch: from here on, values of these fields are encrypted with another key.
    Encrypt(Pattern, Box<WrappedKey>),
    /// From here on, values of these fields are not encrypted.
    StopEncrypting(Pattern),
}

/// The kinds of changes of a field.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum FieldChange {
    /// Sets the value, or unsets it.
    Set(Option<Value>),
    /// Sets the value in place of the values of the entries that are named.
    Replace {
        /// The replaced writes.
        replaced: Vec<EntryId>,
        /// The new value, if there is one.
        value: Option<Value>,
    },
    /// Adds an element to a set.
    Add(Value),
    /// Removes elements of a set by their additions.
    Remove(Vec<EntryId>),
    /// Adds a number to a counter.
    Count(i64),
    /// Inserts an element into a list.
    Insert {
        /// The element next to which it is inserted; [`EntryId::NONE`] for the root.
        parent: EntryId,
        /// The side of the parent.
        side: Side,
        /// The element.
        value: Value,
    },
    /// Erases an element of a list.
    Erase(EntryId),
    /// Deletes the deletable values of earlier changes of the field, for good.
    DeleteValues(Vec<EntryId>),
}

/// The sides of an element of a list.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Side {
    /// Before the element.
    Left,
    /// Behind the element.
    Right,
}

impl FieldChange {
    /// The bytes of the change in memory, roughly.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Set(value) => value.as_ref().map_or(0, Value::bytes),
            Self::Replace { replaced, value } => {
                replaced.len() * 32 + value.as_ref().map_or(0, Value::bytes)
            }
            Self::Add(value) | Self::Insert { value, .. } => value.bytes(),
            Self::Remove(ids) | Self::DeleteValues(ids) => ids.len() * 32,
            Self::Count(_) | Self::Erase(_) => 0,
        }
    }

    /// The value of the change, if it has one.
    #[must_use]
    pub fn value(&self) -> Option<Value> {
        match self {
            Self::Set(value) | Self::Replace { value, .. } => value.clone(),
            Self::Add(value) | Self::Insert { value, .. } => Some(value.clone()),
            Self::Count(number) => Some(Value::Integer(*number)),
            Self::Remove(_) | Self::Erase(_) | Self::DeleteValues(_) => None,
        }
    }

    /// The typed value that stands in the entry.
    pub(crate) fn stated(&self) -> Option<&Value> {
        match self {
            Self::Set(value) | Self::Replace { value, .. } => value.as_ref(),
            Self::Add(value) | Self::Insert { value, .. } => Some(value),
            _ => None,
        }
    }

    pub(crate) fn stated_mut(&mut self) -> Option<&mut Value> {
        match self {
            Self::Set(value) | Self::Replace { value, .. } => value.as_mut(),
            Self::Add(value) | Self::Insert { value, .. } => Some(value),
            _ => None,
        }
    }

    /// The epoch of the value that stands in the entry, if it is encrypted. That of a deletable
    /// value stands beside the entry.
    #[must_use]
    pub fn epoch(&self) -> Option<EntryId> {
        match self.stated() {
            Some(Value::Encrypted(encrypted)) => Some(encrypted.epoch),
            _ => None,
        }
    }

    /// The commitment of the change, if its value is deletable.
    #[must_use]
    pub fn commitment(&self) -> Option<&Commitment> {
        match self.stated() {
            Some(Value::Committed(commitment)) => Some(commitment),
            _ => None,
        }
    }

    /// Whether the change fits fields with a rule.
    #[must_use]
    pub fn fits(&self, rule: MergeRule) -> bool {
        match self {
            Self::Set(_) => rule == MergeRule::LastWriter,
            Self::Replace { .. } => rule == MergeRule::Strict,
            Self::Add(_) | Self::Remove(_) => rule == MergeRule::Set,
            Self::Count(_) => rule == MergeRule::Counter,
            Self::Insert { .. } | Self::Erase(_) => rule == MergeRule::List,
            // What it names has a value, which no count has.
            Self::DeleteValues(_) => true,
        }
    }
}

/// Permission for an author to change objects.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Grant {
    /// The certificate of the author who gets it.
    pub certificate: Certificate,
    /// The object; [`ObjectId::NONE`] for all.
    pub object: ObjectId,
    /// The fields.
    pub fields: Pattern,
    /// The operations: bit n for the operation n.
    pub operations: Operations,
    /// The end in milliseconds since 1970, judged by the clock of entries; 0 for none.
    pub ends_ms: u64,
}

/// A set of operations on data.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Operations(u32);

impl Operations {
    /// All operations of this version, 1 to 13.
    pub const ALL: Self = Self(0x3ffe);
    /// Creating and deleting objects, and changing fields.
    pub const CHANGES: Self = Self(0x0ffe);
    /// Creating and deleting objects.
    pub const OBJECTS: Self = Self(0x006);
    /// Changing fields.
    pub const FIELDS: Self = Self(0xff8);
    /// Choosing who reads encrypted fields.
    pub const READERS: Self = Self(0x3000);

    /// Whether the operation with this number is in the set.
    #[must_use]
    pub fn has(self, number: u8) -> bool {
        number < 32 && self.0 >> number & 1 == 1
    }
}

impl Grant {
    /// The author who gets it.
    #[must_use]
    pub fn author(&self) -> KeyName {
        self.certificate.name()
    }

    /// Whether the grant has not come to its end at a time of the clock.
    pub(crate) fn lasts(&self, ms: u64) -> bool {
        self.ends_ms == 0 || ms < self.ends_ms
    }

    /// Whether the grant allows a change at a time of the clock.
    pub(crate) fn covers(&self, data: &DataAction, ms: u64) -> bool {
        self.operations.has(data.change.number())
            && (self.object == ObjectId::NONE || self.object == data.object)
            && self.lasts(ms)
            && match &data.change {
                Change::Field(field, _) => self.fields.matches(field),
                Change::Encrypt(fields, _) | Change::StopEncrypting(fields) => {
                    self.fields.covers(fields)
                }
                Change::Create(_) | Change::Delete => true,
            }
    }
}

/// The end of an author, a key or a grant.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Revocation {
    /// The author, key or grant that ends.
    pub target: Target,
    /// The reason (RFC 9580, section 5.2.3.31): 0 none, 1 superseded, 2 compromised, 3 retired.
    pub reason: u8,
    /// The time of the compromise in seconds since 1970: what a checkpoint covers that existed
    /// before still counts. 0 if none is stated, and with heads.
    pub since: u64,
    /// The last entry of each chain that counts. Chains without one do not count at all.
    pub heads: Vec<EntryId>,
}

/// The target of a revocation.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Target {
    /// All keys of an author.
    Author(KeyName),
    /// One key of an author.
    Key(KeyName, KeyName),
    /// A grant.
    Grant(EntryId),
}

impl Change {
    pub(crate) fn number(&self) -> u8 {
        match self {
            Self::Create(_) => number::CREATE,
            Self::Delete => number::DELETE,
            Self::Encrypt(..) => number::ENCRYPT,
            Self::StopEncrypting(_) => number::STOP_ENCRYPTING,
            Self::Field(_, change) => match change {
                FieldChange::Set(Some(_)) => number::SET,
                FieldChange::Set(None) => number::UNSET,
                FieldChange::Replace { .. } => number::REPLACE,
                FieldChange::Add(_) => number::ADD,
                FieldChange::Remove(_) => number::REMOVE,
                FieldChange::Count(_) => number::COUNT,
                FieldChange::Insert { .. } => number::INSERT,
                FieldChange::Erase(_) => number::ERASE,
                FieldChange::DeleteValues(_) => number::DELETE_VALUES,
            },
        }
    }
}

impl Action {
    /// The number of the operation.
    #[must_use]
    pub fn number(&self) -> u8 {
        match self {
            Self::Genesis(_) => number::GENESIS,
            Self::Data(data) => data.change.number(),
            Self::Grant(_) => number::GRANT,
            Self::Revoke(_) => number::REVOKE,
            Self::Approve(_) => number::APPROVE,
            Self::Choose(_) => number::CHOOSE,
            Self::Checkpoint(_) => number::CHECKPOINT,
            Self::Cosign(_) => number::COSIGN,
            Self::PublishNode(_) => number::PUBLISH_NODE,
            Self::EndNode(_) => number::END_NODE,
            Self::Snapshot(_) => number::SNAPSHOT,
        }
    }

    /// The name of the operation, for people and JSON.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self.number() {
            number::GENESIS => "genesis",
            number::CREATE => "create",
            number::DELETE => "delete",
            number::SET => "set",
            number::UNSET => "unset",
            number::REPLACE => "replace",
            number::ADD => "add",
            number::REMOVE => "remove",
            number::COUNT => "count",
            number::INSERT => "insert",
            number::ERASE => "erase",
            number::DELETE_VALUES => "delete-values",
            number::ENCRYPT => "encrypt",
            number::STOP_ENCRYPTING => "stop-encrypting",
            number::GRANT => "grant",
            number::REVOKE => "revoke",
            number::APPROVE => "approve",
            number::PUBLISH_NODE => "publish-node",
            number::END_NODE => "end-node",
            number::CHOOSE => "choose",
            number::CHECKPOINT => "checkpoint",
            number::SNAPSHOT => "snapshot",
            _ => "cosign",
        }
    }

    /// The object; [`ObjectId::NONE`] if the operation has none.
    #[must_use]
    pub fn object(&self) -> ObjectId {
        match self {
            Self::Data(data) => data.object,
            _ => ObjectId::NONE,
        }
    }

    /// The field, or the pattern of fields; empty if the operation has none.
    #[must_use]
    pub fn field(&self) -> &str {
        match self {
            Self::Data(DataAction { change, .. }) => match change {
                Change::Field(field, _) => field,
                Change::Encrypt(fields, _) | Change::StopEncrypting(fields) => fields.as_str(),
                Change::Create(_) | Change::Delete => "",
            },
            _ => "",
        }
    }

    pub(crate) fn commitment(&self) -> Option<&Commitment> {
        match self {
            Self::Data(DataAction { change: Change::Field(_, change), .. }) => change.commitment(),
            _ => None,
        }
    }

    /// The bytes of the value; `None` for an operation without one.
    pub(crate) fn value(&self) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        match self {
            Self::Genesis(genesis) => genesis.write(&mut out),
            Self::Grant(grant) => {
                out.extend(grant.author().to_bytes());
                write_part(&mut out, 4, grant.certificate.as_bytes());
                out.extend(grant.object.0);
                grant.fields.write(&mut out);
                out.extend(grant.operations.0.to_be_bytes());
                out.extend(grant.ends_ms.to_be_bytes());
            }
            Self::Revoke(revocation) => {
                match revocation.target {
                    Target::Author(author) => {
                        out.push(1);
                        out.extend(author.to_bytes());
                    }
                    Target::Key(author, subkey) => {
                        out.push(2);
                        out.extend(author.to_bytes());
                        out.extend(subkey.to_bytes());
                    }
                    Target::Grant(grant) => {
                        out.push(3);
                        out.extend(grant.0);
                    }
                }
                out.push(revocation.reason);
                out.extend(revocation.since.to_be_bytes());
                out.extend(count_u16(revocation.heads.len()).to_be_bytes());
                write_ids(&mut out, &revocation.heads);
            }
            Self::Approve(id) | Self::Choose(id) | Self::EndNode(id) => out.extend(id.0),
            Self::PublishNode(node) => node.write(&mut out),
            Self::Snapshot(snapshot) => snapshot.write(&mut out),
            Self::Checkpoint(checkpoint) => checkpoint.write(&mut out),
            Self::Cosign(cosignatures) => cosignatures.write(&mut out),
            Self::Data(data) => match &data.change {
                Change::Delete | Change::StopEncrypting(_) => return None,
                Change::Encrypt(_, key) => key.write(&mut out),
                Change::Create(name) => out.extend_from_slice(name.as_bytes()),
                Change::Field(_, change) => match change {
                    FieldChange::Set(None) => return None,
                    FieldChange::Set(Some(value)) | FieldChange::Add(value) => {
                        value.write(&mut out);
                    }
                    FieldChange::Replace { replaced, value } => {
                        out.push(count_u8(replaced.len()));
                        write_ids(&mut out, replaced);
                        out.push(u8::from(value.is_some()));
                        value.iter().for_each(|value| value.write(&mut out));
                    }
                    FieldChange::Remove(ids) | FieldChange::DeleteValues(ids) => {
                        out.push(count_u8(ids.len()));
                        write_ids(&mut out, ids);
                    }
                    FieldChange::Count(number) => out.extend(number.to_be_bytes()),
                    FieldChange::Insert { parent, side, value } => {
                        out.extend(parent.0);
                        out.push(u8::from(*side == Side::Right));
                        value.write(&mut out);
                    }
                    FieldChange::Erase(element) => out.extend(element.0),
                },
            },
        }
        Some(out)
    }

    /// Reads an operation from the parts of an entry.
    pub(crate) fn read(
        operation: u8,
        object: ObjectId,
        field: &str,
        value: Option<&[u8]>,
    ) -> Result<Self, Malformed> {
        use self::number as n;
        let has_object = matches!(operation, n::CREATE..=n::STOP_ENCRYPTING);
        if has_object == (object == ObjectId::NONE) {
            return Err(Malformed::Field("object"));
        }
        if matches!(operation, n::SET..=n::STOP_ENCRYPTING) == field.is_empty() {
            return Err(Malformed::Field("field"));
        }
        if matches!(operation, n::DELETE | n::UNSET | n::STOP_ENCRYPTING) == value.is_some() {
            return Err(Malformed::Field("form of the value"));
        }
        let bytes = value.unwrap_or_default();
        let mut fields = Fields(bytes);
        let action = match operation {
            n::GENESIS => Self::Genesis(Box::new(Genesis::read(&mut fields)?)),
            n::CREATE..=n::STOP_ENCRYPTING => {
                let change = Change::read(operation, field, bytes)?;
                return Ok(Self::Data(DataAction { object, change }));
            }
            n::GRANT => Self::Grant(Box::new(Grant::read(&mut fields)?)),
            n::REVOKE => Self::Revoke(Revocation::read(&mut fields)?),
            n::APPROVE => Self::Approve(fields.id()?),
            n::CHOOSE => Self::Choose(fields.id()?),
            n::CHECKPOINT => return Ok(Self::Checkpoint(Box::new(Checkpoint::read(bytes)?))),
            n::COSIGN => return Ok(Self::Cosign(Cosignatures::read(bytes)?)),
            n::PUBLISH_NODE => return Ok(Self::PublishNode(NodeKey::read(bytes)?)),
            n::END_NODE => Self::EndNode(fields.id()?),
            n::SNAPSHOT => Self::Snapshot(Snapshot::read(&mut fields)?),
            _ => return Err(Malformed::Field("operation")),
        };
        // The arms whose value takes all bytes have returned.
        fields.end()?;
        Ok(action)
    }
}

impl Change {
    fn read(operation: u8, field: &str, bytes: &[u8]) -> Result<Self, Malformed> {
        use self::number as n;
        let pattern = || Pattern::new(field).ok_or(Malformed::Field("pattern"));
        Ok(match operation {
            n::CREATE => {
                let named = (1..=NAME_BYTES_MAX).contains(&bytes.len());
                let name = text(bytes).filter(|_| named).ok_or(Malformed::Field("name"))?;
                Self::Create(name.to_owned())
            }
            n::DELETE => Self::Delete,
            n::ENCRYPT => Self::Encrypt(pattern()?, Box::new(WrappedKey::read(bytes)?)),
            n::STOP_ENCRYPTING => Self::StopEncrypting(pattern()?),
            _ => Self::Field(field.to_owned(), FieldChange::read(operation, bytes)?),
        })
    }
}

impl FieldChange {
    fn read(operation: u8, bytes: &[u8]) -> Result<Self, Malformed> {
        use self::number as n;
        let mut fields = Fields(bytes);
        let change = match operation {
            n::SET => return Ok(Self::Set(Some(Value::read(bytes)?))),
            n::UNSET => Self::Set(None),
            n::REPLACE => {
                let count = usize::from(fields.u8()?);
                let replaced = fields.ids(count, REPLACED_MAX, "replaced writes")?;
                match fields.u8()? {
                    0 => Self::Replace { replaced, value: None },
                    1 => {
                        let value = Some(Value::read(fields.0)?);
                        return Ok(Self::Replace { replaced, value });
                    }
                    _ => return Err(Malformed::Field("whether there is a value")),
                }
            }
            n::ADD => return Ok(Self::Add(Value::read(bytes)?)),
            n::REMOVE => Self::Remove(some_ids(&mut fields, "removed additions")?),
            n::COUNT => Self::Count(i64::from_be_bytes(fields.array()?)),
            n::INSERT => {
                let parent = fields.id()?;
                let side = match fields.u8()? {
                    0 if !parent.is_none() => Side::Left,
                    1 => Side::Right,
                    _ => return Err(Malformed::Field("side")),
                };
                return Ok(Self::Insert { parent, side, value: Value::read(fields.0)? });
            }
            n::ERASE => Self::Erase(fields.id()?),
            n::DELETE_VALUES => Self::DeleteValues(some_ids(&mut fields, "deleted values")?),
            _ => return Err(Malformed::Field("operation")),
        };
        // The arms whose value takes all bytes have returned.
        fields.end()?;
        Ok(change)
    }
}

fn some_ids(fields: &mut Fields<'_>, what: &'static str) -> Result<Vec<EntryId>, Malformed> {
    let count = usize::from(fields.u8()?);
    let ids = fields.ids(count, REPLACED_MAX, what)?;
    if ids.is_empty() { Err(Malformed::Field(what)) } else { Ok(ids) }
}

impl Grant {
    fn read(from: &mut Fields<'_>) -> Result<Self, Malformed> {
        let author = from.key("author of a grant")?;
        let bytes = from.part(4, CERTIFICATE_BYTES_MAX, "certificate")?;
        let certificate = Certificate::read(bytes)?;
        if certificate.name() != author {
            return Err(Malformed::Field("author of a grant"));
        }
        let object = from.object()?;
        let fields = Pattern::read(from)?;
        let operations = Operations(from.u32()?);
        if operations.0 & !Operations::ALL.0 != 0 || operations.0 == 0 {
            return Err(Malformed::Field("operations"));
        }
        let ends_ms = from.u64()?;
        if ends_ms >> 48 != 0 {
            return Err(Malformed::Field("end of a grant"));
        }
        Ok(Self { certificate, object, fields, operations, ends_ms })
    }
}

impl Revocation {
    fn read(from: &mut Fields<'_>) -> Result<Self, Malformed> {
        let target = match from.u8()? {
            1 => Target::Author(from.key("author")?),
            2 => Target::Key(from.key("author")?, from.key("key")?),
            3 => Target::Grant(from.id()?),
            _ => return Err(Malformed::Field("kind of a revocation")),
        };
        let reason = from.u8()?;
        if reason > 3 {
            return Err(Malformed::Field("reason"));
        }
        let since = from.u64()?;
        let count = usize::from(from.u16()?);
        let heads = from.ids(count, HEADS_MAX, "heads")?;
        if since > NUMBER_MAX || (since > 0 && count > 0) {
            return Err(Malformed::Field("time of the compromise"));
        }
        Ok(Self { target, reason, since, heads })
    }
}
