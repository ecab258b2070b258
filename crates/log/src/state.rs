//! The state of a log: objects and fields, merged from the entries that count.

mod fields;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io::{Read, Write};
use std::ops::Bound;

use talaria_cert::sha256;

use crate::action::{Change, DataAction, FieldChange, NAME_BYTES_MAX};
use crate::bytes::{Malformed, write_part};
use crate::commitment::Commitment;
use crate::deletable::Opening;
use crate::genesis::{Genesis, Pattern};
use crate::items::{Reader, Writer};
use crate::merge::{Content, FieldState, Sight};
use crate::name::{EntryId, KeyName, ObjectId};
use crate::stamp::Stamp;
use crate::value::{VALUE_BYTES_MAX, Value};
use fields::{ObjectFields, ascending};

/// The bytes of the fields of an object in one item of an index, at most.
const ITEM_BYTES: usize = 1 << 18;

/// The objects of a log.
#[derive(Clone, Debug, Default)]
pub struct State {
    objects: BTreeMap<ObjectId, Object>,
    /// The objects that were created with a name, also those whose creation does not count any
    /// more.
    by_name: HashMap<String, BTreeSet<ObjectId>>,
    /// The entries whose deletable values are deleted, and the same by object and field.
    deleted: HashSet<EntryId>,
    deletions: BTreeMap<(ObjectId, String), Vec<EntryId>>,
    /// The beginnings and ends of encryption, also those that do not count any more.
    epochs: BTreeMap<ObjectId, Vec<Epoch>>,
    /// The deletable values that are here, by entry.
    values: HashMap<EntryId, Value>,
    /// The entries with a deletable value that has not come, or has left this node: those that are
    /// not deleted, and others.
    lacking: BTreeSet<EntryId>,
    gone: HashSet<EntryId>,
}

#[derive(Clone, Debug, Default)]
struct Object {
    /// The name and the creator, from any creation.
    named: Option<(String, KeyName)>,
    /// The last creation or deletion.
    last: Option<(Stamp, bool)>,
    fields: ObjectFields,
}

/// The beginning or the end of the encryption of fields.
#[derive(Clone, Debug)]
struct Epoch {
    stamp: Stamp,
    fields: Pattern,
    /// False if values are not encrypted from here on.
    encrypts: bool,
    counts: bool,
}

/// Whether the values of a field are encrypted from now on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Encryption {
    /// They are not.
    None,
    /// With the key of the epoch that this entry begins.
    Epoch(EntryId),
    /// They were, and what began the epoch does not count any more. Nobody decided anything else
    /// since.
    Lost,
}

/// What decides now how values of fields of an object are encrypted.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct EpochInfo {
    /// The entry.
    pub id: EntryId,
    /// The object.
    pub object: ObjectId,
    /// The fields.
    pub fields: Pattern,
    /// The author.
    pub author: KeyName,
    /// False if values are not encrypted from here on.
    pub encrypts: bool,
}

/// An object that is not deleted.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ObjectInfo {
    /// The object.
    pub id: ObjectId,
    /// Its name and creator, if it was created. Fields can be set without that.
    pub named: Option<(String, KeyName)>,
    /// The number of fields that have a content.
    pub fields: usize,
}

impl State {
    /// Notes that an entry has a deletable value, which is not here.
    pub(crate) fn lack(&mut self, id: EntryId) {
        if self.is_deleted(&id) {
            self.gone.insert(id);
        } else {
            self.lacking.insert(id);
        }
    }

    /// Notes the deletable value of an entry.
    pub(crate) fn reveal(&mut self, id: EntryId, opening: &Opening) {
        self.lacking.remove(&id);
        self.gone.remove(&id);
        if let Some(value) = opening.value() {
            self.values.insert(id, value);
        }
    }

    /// Drops the deletable value of an entry.
    pub(crate) fn drop_value(&mut self, id: &EntryId) {
        self.values.remove(id);
        self.lack(*id);
    }

    /// Drops the deletable values that are deleted.
    pub(crate) fn drop_deleted(&mut self) {
        let dropped = self.values.extract_if(|id, _| self.deleted.contains(id));
        // Should the deletion cease to count, somebody else may have them still.
        self.gone.extend(dropped.map(|(id, _)| id));
    }

    /// Whether an entry has a deletable value that is neither here nor deleted.
    pub(crate) fn is_lacking(&self, id: &EntryId) -> bool {
        self.lacking.contains(id)
    }

    /// The entries with a deletable value that is neither here nor deleted, ascending, behind one.
    pub(crate) fn lacking_behind(&self, behind: Option<EntryId>) -> impl Iterator<Item = EntryId> {
        let start = behind.map_or(Bound::Unbounded, Bound::Excluded);
        self.lacking.range((start, Bound::Unbounded)).copied()
    }

    /// The number of such entries.
    pub(crate) fn count_lacking(&self) -> usize {
        self.lacking.len()
    }

    /// The entries whose deletable values are deleted.
    pub(crate) fn deleted(&self) -> &HashSet<EntryId> {
        &self.deleted
    }

    /// Whether the deletable value of an entry is deleted.
    #[must_use]
    pub fn is_deleted(&self, entry: &EntryId) -> bool {
        self.deleted.contains(entry)
    }

    /// Whether the deletable value of an entry is here, and not deleted.
    #[must_use]
    pub fn has_value(&self, entry: &EntryId) -> bool {
        self.values.contains_key(entry) && !self.is_deleted(entry)
    }

    /// The bytes of the deletable value of an entry, if it is here.
    pub(crate) fn value_bytes(&self, entry: &EntryId) -> usize {
        self.values.get(entry).map_or(0, |value| value.bytes() + 80)
    }

    /// A change of an entry, with its deletable value if that is here and not deleted.
    #[must_use]
    pub fn revealed(&self, entry: &EntryId, change: &FieldChange) -> FieldChange {
        let mut change = change.clone();
        if change.commitment().is_some()
            && let Some(known) = self.values.get(entry).filter(|_| !self.is_deleted(entry))
            && let FieldChange::Set(Some(value))
            | FieldChange::Replace { value: Some(value), .. }
            | FieldChange::Add(value)
            | FieldChange::Insert { value, .. } = &mut change
        {
            value.clone_from(known);
        }
        change
    }

    fn sight(&self) -> Sight<'_> {
        Sight { deleted: &self.deleted, values: Some(&self.values) }
    }

    /// Applies a change. `counts` is false for an entry that is not honoured.
    pub(crate) fn apply(
        &mut self,
        genesis: &Genesis,
        stamp: Stamp,
        data: &DataAction,
        counts: bool,
    ) {
        if let Change::Field(field, FieldChange::DeleteValues(ids)) = &data.change {
            if counts {
                for id in ids {
                    self.deleted.insert(*id);
                    if self.lacking.remove(id) {
                        self.gone.insert(*id);
                    }
                }
                let of_field = (data.object, field.clone());
                self.deletions.entry(of_field).or_default().extend(ids);
            }
            return;
        }
        if let Change::Encrypt(fields, _) | Change::StopEncrypting(fields) = &data.change {
            let (fields, encrypts) = (fields.clone(), matches!(data.change, Change::Encrypt(..)));
            let epochs = self.epochs.entry(data.object).or_default();
            let at = epochs.partition_point(|other| other.stamp < stamp);
            epochs.insert(at, Epoch { stamp, fields, encrypts, counts });
            return;
        }
        let object = self.objects.entry(data.object).or_default();
        match &data.change {
            Change::Field(field, change) => {
                let fields = object.fields.open_mut();
                if let Some(state) = fields.get_mut(field) {
                    state.apply(stamp, change, counts);
                } else {
                    let mut state = FieldState::new(genesis.rule(field));
                    state.apply(stamp, change, counts);
                    fields.insert(field.clone(), state);
                }
            }
            _ if !counts => {}
            Change::Create(name) => {
                self.by_name.entry(name.clone()).or_default().insert(data.object);
                object.named = Some((name.clone(), stamp.author));
                object.note(stamp, true);
            }
            Change::Delete => object.note(stamp, false),
            Change::Encrypt(..) | Change::StopEncrypting(_) => unreachable!("done above"),
        }
    }

    /// Whether values of a field are encrypted from now on: the last entry about it that counts
    /// decides.
    #[must_use]
    pub fn encryption(&self, object: ObjectId, field: &str) -> Encryption {
        let of_object = self.epochs.get(&object).into_iter().flatten();
        let mut was_encrypted = false;
        for epoch in of_object.rev().filter(|epoch| epoch.fields.matches(field)) {
            match (epoch.counts, epoch.encrypts) {
                (true, true) => return Encryption::Epoch(epoch.stamp.id),
                (true, false) => return Encryption::None,
                (false, encrypts) => was_encrypted |= encrypts,
            }
        }
        if was_encrypted { Encryption::Lost } else { Encryption::None }
    }

    /// The beginnings and ends of encryption that count, of all objects or one, in the order of the
    /// merge rules for each object.
    pub fn epochs(&self, object: Option<ObjectId>) -> impl Iterator<Item = EpochInfo> {
        let wanted = move |of: &ObjectId| object.is_none_or(|object| object == *of);
        let all = self.epochs.iter().filter(move |(of, _)| wanted(of));
        all.flat_map(|(object, epochs)| {
            epochs.iter().filter(|epoch| epoch.counts).map(|epoch| EpochInfo {
                id: epoch.stamp.id,
                object: *object,
                fields: epoch.fields.clone(),
                author: epoch.stamp.author,
                encrypts: epoch.encrypts,
            })
        })
    }

    /// Whether an entry has ever begun an epoch.
    #[must_use]
    pub fn has_epochs(&self) -> bool {
        !self.epochs.is_empty()
    }

    /// The entry that decides the content of a field for which the last writer wins.
    pub(crate) fn last_write(&self, object: ObjectId, field: &str) -> Option<EntryId> {
        match &*self.objects.get(&object)?.fields.get(field)? {
            FieldState::LastWriter(Some((stamp, _))) => Some(stamp.id),
            _ => None,
        }
    }

    /// Forgets the changes of a field; without a name, the creations and deletions of the object.
    pub(crate) fn forget(&mut self, object: ObjectId, field: &str) {
        if let Some(ids) = self.deletions.remove(&(object, field.to_owned())) {
            for id in &ids {
                self.deleted.remove(id);
                if self.gone.remove(id) {
                    self.lacking.insert(*id);
                }
            }
        }
        if let Some(epochs) = self.epochs.get_mut(&object) {
            epochs.retain(|epoch| epoch.fields.as_str() != field);
        }
        let Some(object) = self.objects.get_mut(&object) else { return };
        if field.is_empty() {
            (object.named, object.last) = (None, None);
        } else {
            object.fields.open_mut().remove(field);
        }
    }

    /// The objects that are not deleted, in the order of their identities.
    pub fn objects(&self) -> impl Iterator<Item = ObjectInfo> {
        self.objects.iter().filter_map(|(id, object)| object.info(*id, self.sight()))
    }

    /// The objects with this name that are not deleted, in the order of their identities. Several
    /// authors can give one name to different objects.
    pub fn named(&self, name: &str) -> impl Iterator<Item = ObjectInfo> {
        self.creators(name).filter_map(|(id, _)| self.object(id))
    }

    /// The objects with this name that are not deleted, each with its creator, in the order of
    /// their identities.
    pub(crate) fn creators(&self, name: &str) -> impl Iterator<Item = (ObjectId, KeyName)> {
        let found = self.by_name.get(name).into_iter().flatten();
        found.filter_map(|id| {
            let object = self.objects.get(id).filter(|object| !object.is_deleted())?;
            object.named.as_ref().map(|(_, creator)| (*id, *creator))
        })
    }

    /// The name of an object that was created, deleted or not.
    #[must_use]
    pub fn name(&self, id: ObjectId) -> Option<&str> {
        self.objects.get(&id)?.named.as_ref().map(|(name, _)| name.as_str())
    }

    /// An object that is not deleted.
    #[must_use]
    pub fn object(&self, id: ObjectId) -> Option<ObjectInfo> {
        self.objects.get(&id)?.info(id, self.sight())
    }

    /// The content of a field of an object that is not deleted.
    #[must_use]
    pub fn field(&self, object: ObjectId, field: &str) -> Option<Content> {
        let object = self.objects.get(&object).filter(|object| !object.is_deleted())?;
        object.fields.get(field)?.content(self.sight())
    }

    /// The fields with their contents, of an object that is not deleted.
    pub fn fields(&self, object: ObjectId) -> impl Iterator<Item = (&str, Content)> {
        let object = self.objects.get(&object).filter(|object| !object.is_deleted());
        let fields = object.into_iter().flat_map(|object| ascending(object.fields.open()));
        fields.filter_map(|(name, state)| Some((name, state.content(self.sight())?)))
    }

    /// The place for a new element of a list behind the element `after`; at the start for `None`.
    #[must_use]
    pub fn place_in_list(
        &self,
        object: ObjectId,
        field: &str,
        after: Option<EntryId>,
    ) -> (EntryId, crate::action::Side) {
        match self.objects.get(&object).and_then(|object| object.fields.get(field)).as_deref() {
            Some(FieldState::List(list)) => list.place_after(after),
            _ => (EntryId::NONE, crate::action::Side::Right),
        }
    }

    /// The hash of the sorted contents, deleted objects included. Commitments stand for deletable
    /// values, so it is the same on nodes that have the values and on others.
    #[must_use]
    pub fn hash(&self, log: EntryId) -> [u8; 32] {
        let mut hash = StateHash::new(log);
        self.contents().for_each(|(id, bytes)| hash.add(id, &bytes));
        hash.finish()
    }

    /// The objects that the hash covers, ascending, each with its bytes (`docs/formats/log.md`,
    /// State).
    pub(crate) fn contents(&self) -> impl Iterator<Item = (ObjectId, Vec<u8>)> {
        let sight = Sight { deleted: &self.deleted, values: None };
        self.objects.iter().filter_map(move |(id, object)| {
            let mut bytes = vec![u8::from(object.named.is_some()), u8::from(object.is_deleted())];
            if let Some((name, creator)) = &object.named {
                write_part(&mut bytes, 2, name.as_bytes());
                bytes.extend(creator.to_bytes());
            }
            let mut is_empty = object.named.is_none() && object.last.is_none();
            for (name, state) in ascending(&object.fields.peek()) {
                if let Some(content) = state.content(sight) {
                    write_part(&mut bytes, 2, name.as_bytes());
                    content.write(&mut bytes);
                    is_empty = false;
                }
            }
            (!is_empty).then_some((*id, bytes))
        })
    }

    /// The commitments in the contents, each with its entry.
    pub(crate) fn committed(&self) -> Vec<(Commitment, EntryId)> {
        let mut found = Vec::new();
        for object in self.objects.values() {
            for field in object.fields.peek().values() {
                field.each_value(|id, value| {
                    if let Value::Committed(commitment) = value
                        && !self.deleted.contains(&id)
                    {
                        found.push((*commitment, id));
                    }
                });
            }
        }
        found
    }
}

/// The hash of a state, object by object, ascending.
pub(crate) struct StateHash(Vec<u8>);

impl StateHash {
    pub(crate) fn new(log: EntryId) -> Self {
        Self([b"TLGH", &log.0[..]].concat())
    }

    /// Adds an object with its bytes.
    pub(crate) fn add(&mut self, id: ObjectId, bytes: &[u8]) {
        self.0.extend(id.0);
        // One object is hashed apart, so that lengths say where it ends.
        self.0.extend(sha256(&[bytes]));
    }

    pub(crate) fn finish(self) -> [u8; 32] {
        sha256(&[&self.0])
    }
}

impl State {
    /// Writes the state into an index.
    pub(crate) fn write_index(&self, out: &mut Writer<impl Write>) {
        out.item(|out| out.extend((self.objects.len() as u64).to_be_bytes()));
        for (id, object) in &self.objects {
            let fields = object.fields.to_index();
            out.item(|out| {
                out.extend(id.0);
                out.push(u8::from(object.named.is_some()));
                if let Some((name, creator)) = &object.named {
                    write_part(out, 2, name.as_bytes());
                    out.extend(creator.to_bytes());
                }
                out.push(u8::from(object.last.is_some()));
                if let Some((stamp, exists)) = &object.last {
                    stamp.write(out);
                    out.push(u8::from(*exists));
                }
                out.extend((fields.len() as u64).to_be_bytes());
            });
            for piece in fields.chunks(ITEM_BYTES) {
                out.item(|out| write_part(out, 4, piece));
            }
        }
        out.item(|out| out.extend((self.deletions.len() as u64).to_be_bytes()));
        for ((object, field), ids) in &self.deletions {
            out.item(|out| {
                out.extend(object.0);
                write_part(out, 2, field.as_bytes());
                out.extend((ids.len() as u64).to_be_bytes());
            });
            ids.iter().for_each(|id| out.item(|out| out.extend(id.0)));
        }
        out.item(|out| out.extend((self.values.len() as u64).to_be_bytes()));
        for (id, value) in &self.values {
            out.item(|out| {
                let mut bytes = Vec::new();
                value.write(&mut bytes);
                out.extend(id.0);
                write_part(out, 4, &bytes);
            });
        }
        let lacking = self.lacking.len() + self.gone.len();
        out.item(|out| out.extend((lacking as u64).to_be_bytes()));
        let lacking = self.lacking.iter().chain(&self.gone);
        lacking.for_each(|id| out.item(|out| out.extend(id.0)));
        let epochs = self.epochs.values().map(Vec::len).sum::<usize>();
        out.item(|out| out.extend((epochs as u64).to_be_bytes()));
        for (object, epochs) in &self.epochs {
            for epoch in epochs {
                out.item(|out| {
                    out.extend(object.0);
                    epoch.stamp.write(out);
                    epoch.fields.write(out);
                    out.extend([u8::from(epoch.encrypts), u8::from(epoch.counts)]);
                });
            }
        }
    }

    /// Reads the state from an index.
    ///
    /// # Errors
    ///
    /// [`Malformed`] if the items are not those of a state.
    pub(crate) fn read_index(
        genesis: &Genesis,
        input: &mut Reader<impl Read>,
    ) -> Result<Self, Malformed> {
        let mut state = Self::default();
        let objects = input.count()?;
        let mut all = Vec::new();
        for _ in 0..objects {
            let (id, mut object, bytes) = input.item(|fields| {
                let id = fields.object()?;
                let named = match fields.u8()? {
                    0 => None,
                    _ => Some((fields.text(NAME_BYTES_MAX, "name")?, fields.key("creator")?)),
                };
                let last = match fields.u8()? {
                    0 => None,
                    _ => Some((Stamp::read(fields)?, fields.u8()? == 1)),
                };
                Ok((id, Object { named, last, fields: ObjectFields::default() }, fields.u64()?))
            })?;
            if let Some((name, _)) = &object.named {
                state.by_name.entry(name.clone()).or_default().insert(id);
            }
            let bytes = usize::try_from(bytes).map_err(|_| Malformed::Short)?;
            let mut fields = Vec::with_capacity(bytes.min(ITEM_BYTES));
            while fields.len() < bytes {
                let piece = (bytes - fields.len()).min(ITEM_BYTES);
                input.item(|input| {
                    fields.extend_from_slice(input.part(4, piece, "fields")?);
                    if fields.len() % ITEM_BYTES == 0 || fields.len() == bytes {
                        Ok(())
                    } else {
                        Err(Malformed::Short)
                    }
                })?;
            }
            object.fields = ObjectFields::of_index(fields.into(), genesis)?;
            all.push((id, object));
        }
        state.objects = all.into_iter().collect();
        for _ in 0..input.count()? {
            let (of_field, count) = input.item(|fields| {
                let of_field = (fields.object()?, fields.text(NAME_BYTES_MAX, "field")?);
                Ok((of_field, fields.u64()?))
            })?;
            let mut ids = Vec::new();
            for _ in 0..count {
                ids.push(input.item(|fields| fields.array().map(EntryId))?);
            }
            state.deleted.extend(&ids);
            state.deletions.insert(of_field, ids);
        }
        for _ in 0..input.count()? {
            let (id, value) = input.item(|fields| {
                let id = fields.array().map(EntryId)?;
                let bytes = fields.part(4, VALUE_BYTES_MAX, "deletable value")?;
                Ok((id, Value::read(bytes)?))
            })?;
            state.values.insert(id, value);
        }
        for _ in 0..input.count()? {
            state.lack(input.item(|fields| fields.array().map(EntryId))?);
        }
        for _ in 0..input.count()? {
            let (object, epoch) = input.item(|fields| {
                let object = fields.object()?;
                let (stamp, pattern) = (Stamp::read(fields)?, Pattern::read(fields)?);
                let (encrypts, counts) = (fields.u8()? == 1, fields.u8()? == 1);
                Ok((object, Epoch { stamp, fields: pattern, encrypts, counts }))
            })?;
            state.epochs.entry(object).or_default().push(epoch);
        }
        Ok(state)
    }
}

impl Object {
    fn note(&mut self, stamp: Stamp, exists: bool) {
        if self.last.is_none_or(|(before, _)| before < stamp) {
            self.last = Some((stamp, exists));
        }
    }

    fn is_deleted(&self) -> bool {
        self.last.is_some_and(|(_, exists)| !exists)
    }

    fn info(&self, id: ObjectId, sight: Sight<'_>) -> Option<ObjectInfo> {
        let fields = self.fields.with_content(sight);
        let is_there = !self.is_deleted() && (fields > 0 || self.named.is_some());
        is_there.then(|| ObjectInfo { id, named: self.named.clone(), fields })
    }
}
