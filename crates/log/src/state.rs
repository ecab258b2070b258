//! The state of a log: objects and fields, merged from the entries that count.

use std::collections::{BTreeMap, HashMap, HashSet};

use talaria_cert::sha256;

use crate::action::{Change, DataAction, FieldChange};
use crate::deletable::Opening;
use crate::genesis::Genesis;
use crate::merge::{Content, FieldState, Sight, Stamp};
use crate::name::{EntryId, KeyName, ObjectId};
use crate::octets::write_part;
use crate::value::Value;

/// The objects of a log.
#[derive(Clone, Debug, Default)]
pub struct State {
    objects: BTreeMap<ObjectId, Object>,
    /// The entries whose deletable values are deleted.
    deleted: HashSet<EntryId>,
    /// The deletable values that are here, by entry.
    values: HashMap<EntryId, Value>,
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
    /// Forgets all changes. Deletable values stay.
    pub(crate) fn clear(&mut self) {
        self.objects.clear();
        self.deleted.clear();
    }

    /// Notes the deletable value of an entry.
    pub(crate) fn reveal(&mut self, id: EntryId, opening: &Opening) {
        if let Some(value) = opening.value() {
            self.values.insert(id, value);
        }
    }

    /// Drops the deletable values that are deleted.
    pub(crate) fn drop_deleted(&mut self) {
        self.values.retain(|id, _| !self.deleted.contains(id));
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

    /// The octets of the deletable value of an entry, if it is here.
    pub(crate) fn value_octets(&self, entry: &EntryId) -> usize {
        self.values.get(entry).map_or(0, |value| value.octets() + 80)
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
        if let Change::Field(_, FieldChange::DeleteValues(ids)) = &data.change {
            if counts {
                self.deleted.extend(ids);
            }
            return;
        }
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
        self.objects.iter().filter_map(|(id, object)| object.info(*id, self.sight()))
    }

    /// The objects with this name that are not deleted, in the order of their identities. Several authors can give one
    /// name to different objects.
    pub fn named(&self, name: &str) -> impl Iterator<Item = ObjectInfo> {
        // Few objects have the name, and their fields alone are looked at.
        let has_name =
            move |object: &Object| object.named.as_ref().is_some_and(|(theirs, _)| theirs == name);
        let found = self.objects.iter().filter(move |(_, object)| has_name(object));
        found.filter_map(|(id, object)| object.info(*id, self.sight()))
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
        let fields = object.into_iter().flat_map(|object| &object.fields);
        fields.filter_map(|(name, state)| Some((name.as_str(), state.content(self.sight())?)))
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

    /// The hash of the sorted contents, deleted objects included. Commitments stand for deletable values, so it is the same on
    /// nodes that have the values and on others.
    #[must_use]
    pub fn hash(&self, log: EntryId) -> [u8; 32] {
        let mut out = b"TLGH".to_vec();
        out.extend(log.0);
        let sight = Sight { deleted: &self.deleted, values: None };
        for (id, object) in &self.objects {
            let mut part = Vec::new();
            if let Some((name, creator)) = &object.named {
                write_part(&mut part, 2, name.as_bytes());
                part.extend(creator.to_octets());
            }
            part.extend([u8::from(object.named.is_some()), u8::from(object.is_deleted())]);
            let mut is_empty = object.named.is_none() && object.last.is_none();
            for (name, state) in &object.fields {
                if let Some(content) = state.content(sight) {
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

    fn info(&self, id: ObjectId, sight: Sight<'_>) -> Option<ObjectInfo> {
        let fields = self.fields.values().filter(|state| state.has_content(sight)).count();
        let is_there = !self.is_deleted() && (fields > 0 || self.named.is_some());
        is_there.then(|| ObjectInfo { id, named: self.named.clone(), fields })
    }
}
