//! The state of a log: objects and fields, merged from the entries that count.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{Read, Write};

use talaria_cert::sha256;

use crate::action::{Change, DataAction, NAME_OCTETS_MAX};
use crate::genesis::Genesis;
use crate::merge::{Content, FieldState, Stamp};
use crate::name::{EntryId, KeyName, ObjectId};
use crate::octets::{Malformed, write_part};
use crate::snapshot::{Reader, Writer};

/// The objects of a log.
#[derive(Clone, Debug, Default)]
pub struct State {
    objects: BTreeMap<ObjectId, Object>,
    /// The objects that were created with a name, also those whose creation does not count any more.
    by_name: HashMap<String, BTreeSet<ObjectId>>,
}

#[derive(Clone, Debug, Default)]
struct Object {
    /// The name and the creator, from any creation.
    named: Option<(String, KeyName)>,
    /// The last creation or deletion.
    last: Option<(Stamp, bool)>,
    fields: BTreeMap<String, FieldState>,
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
    /// Applies a change. `counts` is false for an entry that is not honoured.
    pub(crate) fn apply(
        &mut self,
        genesis: &Genesis,
        stamp: Stamp,
        data: &DataAction,
        counts: bool,
    ) {
        let object = self.objects.entry(data.object).or_default();
        match &data.change {
            Change::Field(field, change) => {
                if let Some(state) = object.fields.get_mut(field) {
                    state.apply(stamp, change, counts);
                } else {
                    let mut state = FieldState::new(genesis.rule(field));
                    state.apply(stamp, change, counts);
                    object.fields.insert(field.clone(), state);
                }
            }
            _ if !counts => {}
            Change::Create(name) => {
                self.by_name.entry(name.clone()).or_default().insert(data.object);
                object.named = Some((name.clone(), stamp.author));
                object.note(stamp, true);
            }
            Change::Delete => object.note(stamp, false),
        }
    }

    /// Forgets the changes of a field; without a name, the creations and deletions of the object.
    pub(crate) fn forget(&mut self, object: ObjectId, field: &str) {
        let Some(object) = self.objects.get_mut(&object) else { return };
        if field.is_empty() {
            (object.named, object.last) = (None, None);
        } else {
            object.fields.remove(field);
        }
    }

    /// The objects that are not deleted, in the order of their identities.
    pub fn objects(&self) -> impl Iterator<Item = ObjectInfo> {
        self.objects.iter().filter_map(|(id, object)| object.info(*id))
    }

    /// The objects with this name that are not deleted, in the order of their identities. Several authors can give one
    /// name to different objects.
    pub fn named(&self, name: &str) -> impl Iterator<Item = ObjectInfo> {
        self.creators(name).filter_map(|(id, _)| self.object(id))
    }

    /// The objects with this name that are not deleted, each with its creator, in the order of their identities.
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
        self.objects.get(&id)?.info(id)
    }

    /// The content of a field of an object that is not deleted.
    #[must_use]
    pub fn field(&self, object: ObjectId, field: &str) -> Option<Content> {
        let object = self.objects.get(&object).filter(|object| !object.is_deleted())?;
        object.fields.get(field)?.content()
    }

    /// The fields with their contents, of an object that is not deleted.
    pub fn fields(&self, object: ObjectId) -> impl Iterator<Item = (&str, Content)> {
        let object = self.objects.get(&object).filter(|object| !object.is_deleted());
        let fields = object.into_iter().flat_map(|object| &object.fields);
        fields.filter_map(|(name, state)| Some((name.as_str(), state.content()?)))
    }

    /// The place for a new element of a list behind the element `after`; at the start for `None`.
    #[must_use]
    pub fn place_in_list(
        &self,
        object: ObjectId,
        field: &str,
        after: Option<EntryId>,
    ) -> (EntryId, crate::action::Side) {
        match self.objects.get(&object).and_then(|object| object.fields.get(field)) {
            Some(FieldState::List(list)) => list.place_after(after),
            _ => (EntryId::NONE, crate::action::Side::Right),
        }
    }

    /// The hash of the sorted contents, deleted objects included.
    #[must_use]
    pub fn hash(&self, log: EntryId) -> [u8; 32] {
        let mut out = b"TLGH".to_vec();
        out.extend(log.0);
        for (id, object) in &self.objects {
            let mut part = Vec::new();
            if let Some((name, creator)) = &object.named {
                write_part(&mut part, 2, name.as_bytes());
                part.extend(creator.to_octets());
            }
            part.extend([u8::from(object.named.is_some()), u8::from(object.is_deleted())]);
            let mut is_empty = object.named.is_none() && object.last.is_none();
            for (name, state) in &object.fields {
                if let Some(content) = state.content() {
                    write_part(&mut part, 2, name.as_bytes());
                    content.write(&mut part);
                    is_empty = false;
                }
            }
            if !is_empty {
                out.extend(id.0);
                // One object is hashed apart, so that lengths say where it ends.
                out.extend(sha256(&[&part]));
            }
        }
        sha256(&[&out])
    }
}

impl State {
    /// Writes the state into an index.
    pub(crate) fn write_index(&self, out: &mut Writer<impl Write>) {
        out.item(|out| out.extend((self.objects.len() as u64).to_be_bytes()));
        for (id, object) in &self.objects {
            out.item(|out| {
                out.extend(id.0);
                out.push(u8::from(object.named.is_some()));
                if let Some((name, creator)) = &object.named {
                    write_part(out, 2, name.as_bytes());
                    out.extend(creator.to_octets());
                }
                out.push(u8::from(object.last.is_some()));
                if let Some((stamp, exists)) = &object.last {
                    stamp.write(out);
                    out.push(u8::from(*exists));
                }
                out.extend((object.fields.len() as u64).to_be_bytes());
            });
            for (name, field) in &object.fields {
                out.item(|out| write_part(out, 2, name.as_bytes()));
                field.write_index(out);
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
            let (id, mut object, fields) = input.item(|fields| {
                let id = fields.object()?;
                let named = match fields.u8()? {
                    0 => None,
                    _ => Some((fields.text(NAME_OCTETS_MAX, "name")?, fields.key("creator")?)),
                };
                let last = match fields.u8()? {
                    0 => None,
                    _ => Some((Stamp::read(fields)?, fields.u8()? == 1)),
                };
                Ok((id, Object { named, last, fields: BTreeMap::new() }, fields.u64()?))
            })?;
            if let Some((name, _)) = &object.named {
                state.by_name.entry(name.clone()).or_default().insert(id);
            }
            let mut found = Vec::new();
            for _ in 0..fields {
                let name = input.item(|fields| fields.text(NAME_OCTETS_MAX, "field"))?;
                let field = FieldState::read_index(genesis.rule(&name), input)?;
                found.push((name, field));
            }
            // A map of ascending items is made at once.
            object.fields = found.into_iter().collect();
            all.push((id, object));
        }
        state.objects = all.into_iter().collect();
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

    fn info(&self, id: ObjectId) -> Option<ObjectInfo> {
        let fields = self.fields.values().filter(|state| state.has_content()).count();
        let is_there = !self.is_deleted() && (fields > 0 || self.named.is_some());
        is_there.then(|| ObjectInfo { id, named: self.named.clone(), fields })
    }
}
