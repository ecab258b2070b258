//! The state of a log: objects and fields, merged from the entries that count.

use std::collections::BTreeMap;

use talaria_cert::sha256;

use crate::action::{Change, DataAction};
use crate::genesis::Genesis;
use crate::merge::{Content, FieldState, Stamp};
use crate::name::{EntryId, KeyName, ObjectId};
use crate::octets::write_part;

/// The objects of a log.
#[derive(Clone, Debug, Default)]
pub struct State {
    objects: BTreeMap<ObjectId, Object>,
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
                let state = object.fields.entry(field.clone());
                let state = state.or_insert_with(|| FieldState::new(genesis.rule(field)));
                state.apply(stamp, change, counts);
            }
            _ if !counts => {}
            Change::Create(name) => {
                object.named = Some((name.clone(), stamp.author));
                object.note(stamp, true);
            }
            Change::Delete => object.note(stamp, false),
        }
    }

    /// The objects that are not deleted, in the order of their identities.
    pub fn objects(&self) -> impl Iterator<Item = ObjectInfo> {
        self.objects.iter().filter_map(|(id, object)| object.info(*id))
    }

    /// The objects with this name that are not deleted, in the order of their identities. Several authors can give one
    /// name to different objects.
    pub fn named(&self, name: &str) -> impl Iterator<Item = ObjectInfo> {
        // Few objects have the name, and their fields alone are looked at.
        let has_name =
            move |object: &Object| object.named.as_ref().is_some_and(|(theirs, _)| theirs == name);
        let found = self.objects.iter().filter(move |(_, object)| has_name(object));
        found.filter_map(|(id, object)| object.info(*id))
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
