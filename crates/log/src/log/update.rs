//! Updates as people give them: an object by its name, a field, and a value that its merge rule
//! takes up.

use super::error::UpdateError;
use super::memory::Log;
use crate::action::{
    Change, DataAction, FieldChange, NAME_BYTES_MAX, REPLACED_MAX, Revocation, Target,
};
use crate::bytes::text;
use crate::deletable::Opening;
use crate::epoch::EpochKeys;
use crate::genesis::MergeRule;
use crate::merge::Content;
use crate::name::{EntryId, KeyName, ObjectId};
use crate::state::Encryption;
use crate::value::Value;

/// A wanted change of an object.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Update {
    /// The name of the object, or its identity in 64 hexadecimal digits.
    pub object: String,
    /// The change.
    pub edit: Edit,
}

/// The kinds of wanted changes. The merge rule of the field decides which entries they become.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Edit {
    /// Puts a value: sets it (last writer wins), sets it in place of all values (strict), adds it
    /// (set, counter), or appends it (list).
    Put(String, Value),
    /// Puts a value that can be deleted for good later. Not for counters.
    PutDeletable(String, Opening),
    /// Removes the value of a field; with a value, that element of a set or a list.
    Remove(String, Option<Value>),
    /// Deletes the object.
    Delete,
    /// Deletes the deletable values of a field for good, earlier ones included.
    DeleteValues(String),
}

/// The entries that count of an author, a key or a grant that a revocation ends.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum Honoured {
    /// All that are here.
    #[default]
    Known,
    /// Those up to these entries, the last one of each device. Devices without one do not count at
    /// all.
    Last(Vec<EntryId>),
    /// None, from the beginning.
    Nothing,
    /// Those that a valid checkpoint covered before this time, in seconds since 1970.
    Before(u64),
}

impl Log {
    /// A revocation of `target`. The reason is one of RFC 9580, section 5.2.3.31, from 0 to 3.
    ///
    /// # Errors
    ///
    /// [`UpdateError::Forked`] if entries of a device must be named; [`UpdateError::NoEntry`].
    pub fn revocation(
        &self,
        target: Target,
        honoured: &Honoured,
        reason: u8,
    ) -> Result<Revocation, UpdateError> {
        let (mut heads, mut since) = (Vec::new(), 0);
        match honoured {
            Honoured::Known => heads = self.heads_of(target).ok_or(UpdateError::Forked)?,
            Honoured::Last(last) => {
                heads.clone_from(last);
                heads.sort_unstable();
                heads.dedup();
                if let Some(unknown) = heads.iter().find(|head| self.entry(head).is_none()) {
                    return Err(UpdateError::NoEntry(*unknown));
                }
            }
            Honoured::Nothing => {}
            Honoured::Before(time) => since = *time,
        }
        Ok(Revocation { target, reason, since, heads })
    }

    /// The object with a name, or with an identity in hexadecimal digits. An object that was never
    /// created has no name, but an identity.
    ///
    /// # Errors
    ///
    /// [`UpdateError::NoObject`]; [`UpdateError::Ambiguous`].
    pub fn find_object(&self, name: &str) -> Result<ObjectId, UpdateError> {
        one_object(self.state.creators(name).collect(), name)
    }

    /// The operations that an update by `author` becomes, given the log as it is. The first one
    /// creates the object if there is none of this name.
    ///
    /// # Errors
    ///
    /// [`UpdateError`].
    pub fn operations(
        &self,
        author: KeyName,
        update: &Update,
    ) -> Result<Vec<DataAction>, UpdateError> {
        Ok(self.operations_with(author, update, &EpochKeys::default())?.0)
    }

    /// The operations, where values of encrypted fields are encrypted with `keys`; and the opening
    /// of the value that is written, if it is deletable.
    ///
    /// # Errors
    ///
    /// [`UpdateError`].
    pub fn operations_with(
        &self,
        author: KeyName,
        update: &Update,
        keys: &EpochKeys,
    ) -> Result<(Vec<DataAction>, Option<Opening>), UpdateError> {
        let name = &update.object;
        let mut written = None;
        let mut made = Vec::new();
        let object = match (self.find_object(name), &update.edit) {
            (Err(UpdateError::NoObject(_)), Edit::Put(..) | Edit::PutDeletable(..)) => {
                check_name(name)?;
                let object = ObjectId::of(self.id, author, name);
                made.push(DataAction { object, change: Change::Create(name.clone()) });
                object
            }
            (found, _) => found?,
        };
        let (field, changes) = match &update.edit {
            Edit::Delete => {
                self.state.object(object).ok_or_else(|| UpdateError::NoObject(name.clone()))?;
                made.push(DataAction { object, change: Change::Delete });
                return Ok((made, None));
            }
            Edit::Put(field, value) => {
                let encrypted = self.encrypt((author, object, field), value, keys)?;
                (field, vec![self.put(object, field, encrypted.as_ref().unwrap_or(value))?])
            }
            Edit::PutDeletable(field, opening) => {
                let encrypted = match opening.value() {
                    Some(value) => self.encrypt((author, object, field), &value, keys)?,
                    None => None,
                };
                let opening = encrypted
                    .map_or_else(|| opening.clone(), |encrypted| opening.with_value(&encrypted));
                let value = Value::Committed(opening.commitment());
                written = Some(opening);
                (field, vec![self.put(object, field, &value)?])
            }
            Edit::DeleteValues(field) => (field, self.delete_values(object, field)?),
            Edit::Remove(field, value) => {
                (field, self.remove(object, field, value.as_ref(), keys)?)
            }
        };
        check_name(field)?;
        made.extend(
            changes
                .into_iter()
                .map(|change| DataAction { object, change: Change::Field(field.clone(), change) }),
        );
        Ok((made, written))
    }

    /// The entry that begins the epoch under which an update is encrypted.
    pub(crate) fn epoch_of(&self, update: &Update) -> Option<EntryId> {
        let (Edit::Put(field, _) | Edit::PutDeletable(field, _)) = &update.edit else {
            return None;
        };
        match self.state.encryption(self.find_object(&update.object).ok()?, field) {
            Encryption::Epoch(epoch) => Some(epoch),
            _ => None,
        }
    }

    /// A value encrypted under the last epoch of its field. `None` if the field is not encrypted.
    fn encrypt(
        &self,
        (author, object, field): (KeyName, ObjectId, &str),
        value: &Value,
        keys: &EpochKeys,
    ) -> Result<Option<Value>, UpdateError> {
        let of_field = || field.to_owned();
        match self.state.encryption(object, field) {
            Encryption::None => Ok(None),
            _ if matches!(value, Value::Encrypted(_)) => Ok(None),
            Encryption::Lost => Err(UpdateError::EncryptionLost(of_field())),
            Encryption::Epoch(_) if self.genesis.rule(field) == MergeRule::Counter => {
                Err(UpdateError::EncryptedCounter(of_field()))
            }
            Encryption::Epoch(epoch) => keys
                .encrypt(self, (author, epoch), (object, field), value)
                .map(|encrypted| Some(Value::Encrypted(encrypted)))
                .map_err(|why| UpdateError::NotReader { field: of_field(), why }),
        }
    }

    fn put(
        &self,
        object: ObjectId,
        field: &str,
        value: &Value,
    ) -> Result<FieldChange, UpdateError> {
        let value = value.clone();
        Ok(match self.genesis.rule(field) {
            MergeRule::LastWriter => FieldChange::Set(Some(value)),
            MergeRule::Strict => {
                FieldChange::Replace { replaced: self.writes(object, field)?, value: Some(value) }
            }
            MergeRule::Set => FieldChange::Add(value),
            MergeRule::Counter => match value {
                Value::Integer(number) => FieldChange::Count(number),
                _ => return Err(UpdateError::NotInteger(field.to_owned())),
            },
            MergeRule::List => {
                let last = match self.state.field(object, field) {
                    Some(Content::List(elements)) => elements.last().map(|(id, _)| *id),
                    _ => None,
                };
                let (parent, side) = self.state.place_in_list(object, field, last);
                FieldChange::Insert { parent, side, value }
            }
        })
    }

    pub(super) fn remove(
        &self,
        object: ObjectId,
        field: &str,
        value: Option<&Value>,
        keys: &EpochKeys,
    ) -> Result<Vec<FieldChange>, UpdateError> {
        let rule = self.genesis.rule(field);
        let text = || value.map(ToString::to_string).unwrap_or_default();
        let absent = || UpdateError::Absent { field: field.to_owned(), value: text() };
        match (rule, value) {
            (MergeRule::Counter, _) => return Err(UpdateError::Counter(field.to_owned())),
            (MergeRule::Set | MergeRule::List, None) => {
                return Err(UpdateError::WhichElement(field.to_owned()));
            }
            (MergeRule::LastWriter | MergeRule::Strict, Some(_)) => {
                return Err(UpdateError::OneValue(field.to_owned()));
            }
            _ => {}
        }
        // No key is needed unless an element must be found.
        let content = match value {
            Some(_) => keys.field(self, object, field),
            None => self.state.field(object, field),
        };
        let content = content.ok_or_else(absent)?;
        Ok(match content {
            Content::LastWriter(_) => vec![FieldChange::Set(None)],
            Content::Strict(_) => {
                vec![FieldChange::Replace { replaced: self.writes(object, field)?, value: None }]
            }
            Content::Set(mut elements) => {
                let mut additions =
                    value.and_then(|value| elements.remove(value)).ok_or_else(absent)?;
                additions.sort_unstable();
                let parts = additions.chunks(REPLACED_MAX);
                parts.map(|part| FieldChange::Remove(part.to_vec())).collect()
            }
            Content::List(elements) => {
                let same = elements.iter().filter(|(_, element)| Some(element) == value);
                let erased: Vec<FieldChange> =
                    same.map(|(id, _)| FieldChange::Erase(*id)).collect();
                if erased.is_empty() {
                    return Err(absent());
                }
                erased
            }
            Content::Counter(_) => return Err(UpdateError::Counter(field.to_owned())),
        })
    }

    /// The deletion of all deletable values that were ever written to a field.
    fn delete_values(
        &self,
        object: ObjectId,
        field: &str,
    ) -> Result<Vec<FieldChange>, UpdateError> {
        let mut ids: Vec<EntryId> = self
            .history(object, Some(field))
            .into_iter()
            .filter(|(id, entry)| entry.commitment().is_some() && !self.state.is_deleted(id))
            .map(|(id, _)| id)
            .collect();
        if ids.is_empty() {
            return Err(UpdateError::NoDeletable(field.to_owned()));
        }
        ids.sort_unstable();
        let parts = ids.chunks(REPLACED_MAX);
        Ok(parts.map(|part| FieldChange::DeleteValues(part.to_vec())).collect())
    }

    /// The writes of a strict field that nothing has replaced, ascending.
    fn writes(&self, object: ObjectId, field: &str) -> Result<Vec<EntryId>, UpdateError> {
        let Some(Content::Strict(writes)) = self.state.field(object, field) else {
            return Ok(Vec::new());
        };
        if writes.len() > REPLACED_MAX {
            return Err(UpdateError::TooMany { field: field.to_owned(), found: writes.len() });
        }
        Ok(writes.into_keys().collect())
    }
}

/// The only one of the objects with this name; without one, that with this identity.
pub(crate) fn one_object(
    mut found: Vec<(ObjectId, KeyName)>,
    name: &str,
) -> Result<ObjectId, UpdateError> {
    match (found.len(), name.parse::<ObjectId>()) {
        (1, _) => Ok(found.remove(0).0),
        (0, Ok(id)) => Ok(id),
        (0, Err(_)) => Err(UpdateError::NoObject(name.to_owned())),
        _ => Err(UpdateError::Ambiguous { name: name.to_owned(), objects: found }),
    }
}

/// Refuses a text that cannot name an object or a field.
pub(crate) fn check_name(name: &str) -> Result<(), UpdateError> {
    let fits = (1..=NAME_BYTES_MAX).contains(&name.len()) && text(name.as_bytes()).is_some();
    if fits { Ok(()) } else { Err(UpdateError::Name(name.to_owned())) }
}
