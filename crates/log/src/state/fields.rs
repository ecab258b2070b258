//! The fields of an object: as values, or packed as they stand in an index.
//!
//! A log that is opened has many objects that nobody changes. Their fields stay packed, in half of
//! the memory.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::OnceLock;

use crate::action::NAME_BYTES_MAX;
use crate::bytes::{Fields, Malformed, write_part};
use crate::genesis::{Genesis, MergeRule};
use crate::merge::{FieldState, Sight};
use crate::tables::NameHash;

/// Packed bytes that are searched for one field, at most: some microseconds.
const SEARCHED_BYTES: usize = 1 << 16;

/// Fields by name. A look-up in a map that is in order compares many names, each in a place of its
/// own.
type ByName = HashMap<String, FieldState, NameHash>;

/// Fields in the order of their names.
pub(super) fn ascending(fields: &ByName) -> Vec<(&str, &FieldState)> {
    let mut all: Vec<_> = fields.iter().map(|(name, state)| (name.as_str(), state)).collect();
    all.sort_unstable_by_key(|(name, _)| *name);
    all
}

/// The fields of an object.
#[derive(Clone, Debug, Default)]
pub(super) struct ObjectFields {
    /// The bytes from an index; empty as soon as a field was changed.
    packed: Box<[u8]>,
    open: OnceLock<ByName>,
}

/// A field as it stands in an index.
struct Packed<'a> {
    name: &'a str,
    rule: MergeRule,
    state: &'a [u8],
}

impl<'a> Packed<'a> {
    fn read(fields: &mut Fields<'a>) -> Result<Self, Malformed> {
        const WHAT: &str = "field";
        let name = fields.part(2, NAME_BYTES_MAX, WHAT)?;
        let name = std::str::from_utf8(name).map_err(|_| Malformed::Field(WHAT))?;
        let rule = MergeRule::from_number(fields.u8()?).ok_or(Malformed::Field("merge rule"))?;
        Ok(Self { name, rule, state: fields.part(8, usize::MAX, WHAT)? })
    }

    fn all(bytes: &'a [u8]) -> impl Iterator<Item = Result<Self, Malformed>> {
        let mut rest = Fields(bytes);
        std::iter::from_fn(move || (!rest.0.is_empty()).then(|| Self::read(&mut rest)))
    }

    fn open(&self) -> Result<(String, FieldState), Malformed> {
        Ok((self.name.to_owned(), FieldState::read(self.rule, self.state)?))
    }
}

impl ObjectFields {
    /// The fields from an index, which are checked here and opened later.
    ///
    /// # Errors
    ///
    /// [`Malformed`] if they are no fields with these rules.
    pub(super) fn of_index(bytes: Box<[u8]>, genesis: &Genesis) -> Result<Self, Malformed> {
        let mut last = "";
        for field in Packed::all(&bytes) {
            let field = field?;
            // Every name is longer than the empty one.
            if field.name <= last {
                return Err(Malformed::Order("fields"));
            }
            if field.rule != genesis.rule(field.name) {
                return Err(Malformed::Field("merge rule"));
            }
            FieldState::check(field.rule, field.state)?;
            last = field.name;
        }
        Ok(Self { packed: bytes, open: OnceLock::new() })
    }

    /// The bytes for an index.
    pub(super) fn to_index(&self) -> Cow<'_, [u8]> {
        if !self.packed.is_empty() {
            return Cow::Borrowed(&self.packed);
        }
        let mut out = Vec::new();
        for (name, state) in ascending(self.open()) {
            write_part(&mut out, 2, name.as_bytes());
            out.push(state.rule().number());
            let start = out.len();
            out.extend([0; 8]);
            state.write(&mut out);
            let length = (out.len() - start - 8) as u64;
            out[start..start + 8].copy_from_slice(&length.to_be_bytes());
        }
        Cow::Owned(out)
    }

    fn unpacked(&self) -> ByName {
        let all = Packed::all(&self.packed).map(|field| field.and_then(|field| field.open()));
        all.collect::<Result<_, _>>().expect("packed fields were checked")
    }

    /// A field. Few bytes are searched for it where they are; many are opened, so that the next
    /// look-up is fast.
    pub(super) fn get(&self, name: &str) -> Option<Cow<'_, FieldState>> {
        if self.open.get().is_none() && self.packed.len() <= SEARCHED_BYTES {
            let mut all = Packed::all(&self.packed).flatten();
            let found = all.find(|field| field.name == name)?;
            return FieldState::read(found.rule, found.state).ok().map(Cow::Owned);
        }
        self.open().get(name).map(Cow::Borrowed)
    }

    /// The fields. They stay open.
    pub(super) fn open(&self) -> &ByName {
        self.open.get_or_init(|| self.unpacked())
    }

    /// The fields, to be changed.
    pub(super) fn open_mut(&mut self) -> &mut ByName {
        self.open();
        self.packed = Box::default();
        self.open.get_mut().expect("the fields were opened")
    }

    /// The fields for one look. They stay packed if they are.
    pub(super) fn peek(&self) -> Cow<'_, ByName> {
        self.open.get().map_or_else(|| Cow::Owned(self.unpacked()), Cow::Borrowed)
    }

    /// The number of fields that have a content.
    pub(super) fn with_content(&self, sight: Sight<'_>) -> usize {
        if let Some(open) = self.open.get() {
            return open.values().filter(|state| state.has_content(sight)).count();
        }
        let is_seen = |field: &Packed<'_>| sight.has_content(field.rule, field.state);
        Packed::all(&self.packed).flatten().filter(is_seen).count()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use proptest::prelude::*;
    use talaria_cert::Fingerprint;

    use crate::action::{FieldChange, Side};
    use crate::clock::Clock;
    use crate::commitment::Commitment;
    use crate::genesis::Pattern;
    use crate::name::{EntryId, KeyName};
    use crate::stamp::Stamp;
    use crate::value::Value;

    fn genesis() -> Genesis {
        let mut genesis = Genesis::new(Vec::new(), 1);
        for rule in ["strict", "set", "counter", "list"] {
            let pattern = Pattern::new(&format!("{rule}*")).unwrap();
            genesis.rules.push((pattern, MergeRule::from_name(rule).unwrap()));
        }
        genesis
    }

    fn id(number: u8) -> EntryId {
        EntryId([number; 32])
    }

    fn value() -> impl Strategy<Value = Value> {
        prop_oneof![
            ".{0,9}".prop_map(Value::String),
            any::<i64>().prop_map(Value::Integer),
            prop::collection::vec(any::<u8>(), 0..9).prop_map(Value::Bytes),
            (1..9_u32, any::<[u8; 32]>())
                .prop_map(|(bytes, hash)| Value::Committed(Commitment { bytes, hash })),
        ]
    }

    fn change() -> impl Strategy<Value = (&'static str, FieldChange)> {
        let ids = || prop::collection::vec((0..30_u8).prop_map(id), 0..3);
        prop_oneof![
            prop::option::of(value()).prop_map(|value| ("a", FieldChange::Set(value))),
            prop::option::of(value()).prop_map(|value| ("b", FieldChange::Set(value))),
            (ids(), prop::option::of(value()))
                .prop_map(|(replaced, value)| ("strict", FieldChange::Replace { replaced, value })),
            value().prop_map(|value| ("set", FieldChange::Add(value))),
            ids().prop_map(|ids| ("set", FieldChange::Remove(ids))),
            any::<i64>().prop_map(|number| ("counter", FieldChange::Count(number))),
            (any::<u8>(), any::<bool>(), value()).prop_map(|(parent, is_left, value)| {
                let side = if is_left { Side::Left } else { Side::Right };
                ("list", FieldChange::Insert { parent: id(parent), side, value })
            }),
            (0..9_u8).prop_map(|element| ("list", FieldChange::Erase(id(element)))),
        ]
    }

    fn apply(fields: &mut ObjectFields, number: usize, name: &str, change: &FieldChange) {
        let author = KeyName::of(Fingerprint::V4([7; 20])).unwrap();
        // No entry has the identity 0.
        let number = u8::try_from(number + 1).unwrap();
        let stamp = Stamp { clock: Clock(u64::from(number)), author, id: id(number) };
        let new = || FieldState::new(genesis().rule(name));
        let mut change = change.clone();
        if let FieldChange::Insert { parent, .. } = &mut change {
            // The parent is in the past, as in every log.
            *parent = id(parent.0[0] % number);
        }
        let state = fields.open_mut().entry(name.to_owned()).or_insert_with(new);
        state.apply(stamp, &change, number % 7 != 3);
    }

    fn contents(fields: &ByName, sight: Sight<'_>) -> String {
        let fields = ascending(fields).into_iter();
        fields.map(|(name, state)| format!("{name} {:?}\n", state.content(sight))).collect()
    }

    proptest! {
        /// Packed fields say the same as open ones, before and after further changes.
        #[test]
        fn packed_fields_are_the_same(
            changes in prop::collection::vec(change(), 0..20),
            behind in prop::collection::vec(change(), 0..4),
            deleted in prop::collection::hash_set((0..20_u8).prop_map(id), 0..9),
        ) {
            let sight = Sight { deleted: &deleted, values: None };
            let mut fields = ObjectFields::default();
            for (number, (name, change)) in changes.iter().enumerate() {
                apply(&mut fields, number, name, change);
            }
            let bytes = fields.to_index().into_owned();
            let mut packed = ObjectFields::of_index(bytes.clone().into(), &genesis()).unwrap();
            prop_assert_eq!(packed.with_content(sight), fields.with_content(sight));
            prop_assert_eq!(contents(&packed.peek(), sight), contents(fields.open(), sight));
            for name in ["a", "b", "strict", "set", "counter", "list", ""] {
                let content = |field: Option<Cow<'_, FieldState>>| field?.content(sight);
                let wanted = fields.open().get(name).map(Cow::Borrowed);
                prop_assert_eq!(content(packed.get(name)), content(wanted));
            }
            prop_assert!(packed.open.get().is_none());
            prop_assert_eq!(&*packed.to_index(), &bytes[..]);
            prop_assert_eq!(contents(packed.open(), sight), contents(fields.open(), sight));
            prop_assert_eq!(packed.with_content(sight), fields.with_content(sight));
            for (number, (name, change)) in behind.iter().enumerate() {
                apply(&mut fields, changes.len() + number, name, change);
                apply(&mut packed, changes.len() + number, name, change);
            }
            prop_assert_eq!(contents(&packed.peek(), sight), contents(fields.open(), sight));
        }

        /// Bytes that are taken from an index can be opened; others are refused.
        #[test]
        fn changed_bytes_are_refused_or_open(
            changes in prop::collection::vec(change(), 1..20),
            at in any::<prop::sample::Index>(),
            byte in any::<u8>(),
            cut in any::<bool>(),
        ) {
            let mut fields = ObjectFields::default();
            for (number, (name, change)) in changes.iter().enumerate() {
                apply(&mut fields, number, name, change);
            }
            let mut bytes = fields.to_index().into_owned();
            let at = at.index(bytes.len());
            if cut {
                bytes.truncate(at);
            } else {
                bytes[at] = byte;
            }
            if let Ok(taken) = ObjectFields::of_index(bytes.into(), &genesis()) {
                let none = HashSet::new();
                let sight = Sight { deleted: &none, values: None };
                let seen = taken.with_content(sight);
                taken.open();
                prop_assert_eq!(taken.with_content(sight), seen);
            }
        }
    }
}
