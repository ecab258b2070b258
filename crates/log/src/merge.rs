//! Merge rules: the content of a field as a function of the set of its changes.
//!
//! No rule depends on the order in which changes are applied. Changes apply once each; the caller
//! keeps entries apart by their identity.

mod index_parts;
mod list;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use crate::action::FieldChange;
use crate::bytes::{Fields, Malformed, write_part};
use crate::genesis::MergeRule;
use crate::name::EntryId;
use crate::stamp::Stamp;
use crate::value::{VALUE_BYTES_MAX, Value};
use index_parts::{optional, read_optional, read_set, write_count, write_optional, write_set};
use list::List;

/// The content of a field.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Content {
    /// The value of the last writer.
    LastWriter(Value),
    /// The values that nothing has replaced, by their writes. Several are a conflict. A write
    /// without a value has removed the values before it.
    Strict(BTreeMap<EntryId, Option<Value>>),
    /// The elements of a set, each with its additions.
    Set(BTreeMap<Value, Vec<EntryId>>),
    /// The exact sum.
    Counter(i128),
    /// The elements of a list in order, with their identities.
    List(Vec<(EntryId, Value)>),
}

impl Content {
    /// Appends the bytes of the content, for the hash of the state.
    pub fn write(&self, out: &mut Vec<u8>) {
        let written = |value: &Value| {
            let mut bytes = Vec::new();
            value.write(&mut bytes);
            bytes
        };
        match self {
            Self::LastWriter(value) => {
                out.push(MergeRule::LastWriter.number());
                write_part(out, 4, &written(value));
            }
            Self::Strict(values) => {
                out.push(MergeRule::Strict.number());
                out.extend((values.len() as u64).to_be_bytes());
                for (id, value) in values {
                    out.extend(id.0);
                    out.push(u8::from(value.is_some()));
                    write_part(out, 4, &value.as_ref().map(written).unwrap_or_default());
                }
            }
            Self::Set(elements) => {
                out.push(MergeRule::Set.number());
                out.extend((elements.len() as u64).to_be_bytes());
                for (value, additions) in elements {
                    write_part(out, 4, &written(value));
                    out.extend((additions.len() as u64).to_be_bytes());
                    additions.iter().for_each(|id| out.extend(id.0));
                }
            }
            Self::Counter(sum) => {
                out.push(MergeRule::Counter.number());
                out.extend(sum.to_be_bytes());
            }
            Self::List(elements) => {
                out.push(MergeRule::List.number());
                out.extend((elements.len() as u64).to_be_bytes());
                for (id, value) in elements {
                    out.extend(id.0);
                    write_part(out, 4, &written(value));
                }
            }
        }
    }
}

impl Content {
    /// Reads the content of a field with a rule.
    ///
    /// # Errors
    ///
    /// [`Malformed`] for bytes that [`Self::write`] does not write.
    pub(crate) fn read(rule: MergeRule, fields: &mut Fields<'_>) -> Result<Self, Malformed> {
        fn value(fields: &mut Fields<'_>) -> Result<Value, Malformed> {
            Value::read(fields.part(4, VALUE_BYTES_MAX, "value")?)
        }
        /// The number of writes or elements. There is at least one, or no content.
        fn count(fields: &mut Fields<'_>) -> Result<u64, Malformed> {
            let count = fields.u64()?;
            if count == 0 { Err(Malformed::Field("number of values")) } else { Ok(count) }
        }
        if fields.u8()? != rule.number() {
            return Err(Malformed::Field("merge rule"));
        }
        Ok(match rule {
            MergeRule::LastWriter => Self::LastWriter(value(fields)?),
            MergeRule::Strict => {
                let mut writes = BTreeMap::new();
                for _ in 0..count(fields)? {
                    let id = fields.id()?;
                    let value = match (fields.u8()?, fields.part(4, VALUE_BYTES_MAX, "value")?) {
                        (0, []) => None,
                        (1, bytes) => Some(Value::read(bytes)?),
                        _ => return Err(Malformed::Field("whether there is a value")),
                    };
                    if writes.last_key_value().is_some_and(|(last, _)| *last >= id) {
                        return Err(Malformed::Order("writes"));
                    }
                    writes.insert(id, value);
                }
                Self::Strict(writes)
            }
            MergeRule::Set => {
                let mut elements: BTreeMap<Value, Vec<EntryId>> = BTreeMap::new();
                for _ in 0..count(fields)? {
                    let value = value(fields)?;
                    let mut additions = Vec::new();
                    for _ in 0..count(fields)? {
                        let id = fields.id()?;
                        if additions.last().is_some_and(|last| *last >= id) {
                            return Err(Malformed::Order("additions"));
                        }
                        additions.push(id);
                    }
                    if elements.last_key_value().is_some_and(|(last, _)| *last >= value) {
                        return Err(Malformed::Order("elements"));
                    }
                    elements.insert(value, additions);
                }
                Self::Set(elements)
            }
            MergeRule::Counter => Self::Counter(i128::from_be_bytes(fields.array()?)),
            MergeRule::List => {
                let mut elements = Vec::new();
                for _ in 0..count(fields)? {
                    elements.push((fields.id()?, value(fields)?));
                }
                Self::List(elements)
            }
        })
    }

    /// Calls a function with each value.
    pub(crate) fn each_value(&self, mut see: impl FnMut(&Value)) {
        match self {
            Self::LastWriter(value) => see(value),
            Self::Strict(writes) => writes.values().flatten().for_each(see),
            Self::Set(elements) => elements.keys().for_each(see),
            Self::Counter(_) => {}
            Self::List(elements) => elements.iter().for_each(|(_, value)| see(value)),
        }
    }

    /// The content with other values.
    pub(crate) fn map(self, mut value: impl FnMut(Value) -> Value) -> Self {
        match self {
            Self::LastWriter(one) => Self::LastWriter(value(one)),
            Self::Strict(writes) => Self::Strict(
                writes.into_iter().map(|(id, one)| (id, one.map(&mut value))).collect(),
            ),
            Self::Set(elements) => {
                let mut all: BTreeMap<Value, Vec<EntryId>> = BTreeMap::new();
                for (one, additions) in elements {
                    all.entry(value(one)).or_default().extend(additions);
                }
                // Two commitments to one value are one element.
                all.values_mut().for_each(|additions| additions.sort_unstable());
                Self::Set(all)
            }
            Self::Counter(sum) => Self::Counter(sum),
            Self::List(elements) => {
                Self::List(elements.into_iter().map(|(id, one)| (id, value(one))).collect())
            }
        }
    }
}

/// What is known of deletable values.
#[derive(Clone, Copy)]
pub(crate) struct Sight<'a> {
    /// The entries whose values are deleted.
    pub(crate) deleted: &'a HashSet<EntryId>,
    /// The values that are here. `None` for the commitments in their place, which are equal on all
    /// nodes.
    pub(crate) values: Option<&'a HashMap<EntryId, Value>>,
}

impl Sight<'_> {
    /// Whether the value of an entry is not deleted.
    fn is_there(&self, id: EntryId, value: &Value) -> bool {
        !matches!(value, Value::Committed(_)) || !self.deleted.contains(&id)
    }

    /// [`FieldState::has_content`] for the bytes of a field. False if they are not those of a field
    /// with this rule.
    pub(crate) fn has_content(self, rule: MergeRule, bytes: &[u8]) -> bool {
        if rule != MergeRule::LastWriter {
            return FieldState::read(rule, bytes).is_ok_and(|state| state.has_content(self));
        }
        let Ok(Some(last)) = LastWrite::read(&mut Fields(bytes)) else { return false };
        let is_there =
            |value| !Value::is_committed(value) || !self.deleted.contains(&last.stamp.id);
        last.value.is_some_and(is_there)
    }

    /// The value of an entry as it is seen. `None` if it is deleted.
    pub(crate) fn value(&self, id: EntryId, value: &Value) -> Option<Value> {
        if !self.is_there(id, value) {
            return None;
        }
        let known = match value {
            Value::Committed(_) => self.values.and_then(|values| values.get(&id)),
            _ => None,
        };
        Some(known.unwrap_or(value).clone())
    }
}

/// The changes of a field, as far as its content depends on them.
#[derive(Clone, Debug)]
pub(crate) enum FieldState {
    LastWriter(Option<(Stamp, Option<Value>)>),
    Strict { writes: BTreeMap<EntryId, Option<Value>>, replaced: BTreeSet<EntryId> },
    Set { additions: BTreeMap<EntryId, Value>, removed: BTreeSet<EntryId> },
    Counter(Option<i128>),
    List(List),
}

impl FieldState {
    pub(crate) fn new(rule: MergeRule) -> Self {
        match rule {
            MergeRule::LastWriter => Self::LastWriter(None),
            MergeRule::Strict => {
                Self::Strict { writes: BTreeMap::new(), replaced: BTreeSet::new() }
            }
            MergeRule::Set => Self::Set { additions: BTreeMap::new(), removed: BTreeSet::new() },
            MergeRule::Counter => Self::Counter(None),
            MergeRule::List => Self::List(List::default()),
        }
    }

    /// Applies a change that fits the rule. `counts` is false for an entry that is not honoured: it
    /// only keeps its place in a list.
    pub(crate) fn apply(&mut self, stamp: Stamp, change: &FieldChange, counts: bool) {
        match (self, change) {
            (Self::List(list), FieldChange::Insert { parent, side, value }) => {
                list.insert(stamp, *parent, *side, counts.then(|| value.clone()));
            }
            _ if !counts => {}
            (Self::List(list), FieldChange::Erase(element)) => list.erase(*element),
            (Self::LastWriter(last), FieldChange::Set(value)) => {
                if last.as_ref().is_none_or(|(before, _)| *before < stamp) {
                    *last = Some((stamp, value.clone()));
                }
            }
            (Self::Strict { writes, replaced }, FieldChange::Replace { replaced: old, value }) => {
                replaced.extend(old);
                old.iter().for_each(|old| drop(writes.remove(old)));
                if !replaced.contains(&stamp.id) {
                    writes.insert(stamp.id, value.clone());
                }
            }
            (Self::Set { additions, removed }, FieldChange::Add(value)) => {
                if !removed.contains(&stamp.id) {
                    additions.insert(stamp.id, value.clone());
                }
            }
            (Self::Set { additions, removed }, FieldChange::Remove(old)) => {
                removed.extend(old);
                old.iter().for_each(|old| drop(additions.remove(old)));
            }
            // At most 2^63 entries of at most 2^63 each.
            (Self::Counter(sum), FieldChange::Count(number)) => {
                *sum = Some(sum.unwrap_or(0) + i128::from(*number));
            }
            (state, change) => unreachable!("{change:?} is not a change for {state:?}"),
        }
    }

    /// The rule of the field.
    pub(crate) fn rule(&self) -> MergeRule {
        match self {
            Self::LastWriter(_) => MergeRule::LastWriter,
            Self::Strict { .. } => MergeRule::Strict,
            Self::Set { .. } => MergeRule::Set,
            Self::Counter(_) => MergeRule::Counter,
            Self::List(_) => MergeRule::List,
        }
    }

    /// Appends the field for an index.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::LastWriter(last) => {
                out.push(u8::from(last.is_some()));
                if let Some((stamp, value)) = last {
                    stamp.write(out);
                    write_optional(value.as_ref(), out);
                }
            }
            Self::Strict { writes, replaced } => {
                write_count(writes.len(), out);
                for (id, value) in writes {
                    out.extend(id.0);
                    write_optional(value.as_ref(), out);
                }
                write_set(replaced, out);
            }
            Self::Set { additions, removed } => {
                write_count(additions.len(), out);
                for (id, value) in additions {
                    out.extend(id.0);
                    write_optional(Some(value), out);
                }
                write_set(removed, out);
            }
            Self::Counter(sum) => {
                out.push(u8::from(sum.is_some()));
                sum.iter().for_each(|sum| out.extend(sum.to_be_bytes()));
            }
            Self::List(list) => list.write(out),
        }
    }

    /// Reads a field with a rule that takes all of `bytes`.
    ///
    /// # Errors
    ///
    /// [`Malformed`] if the bytes are not those of such a field.
    pub(crate) fn read(rule: MergeRule, bytes: &[u8]) -> Result<Self, Malformed> {
        let mut rest = Fields(bytes);
        let fields = &mut rest;
        let read = match rule {
            MergeRule::LastWriter => {
                let last = LastWrite::read(fields)?;
                Self::LastWriter(match last {
                    Some(LastWrite { stamp, value }) => {
                        Some((stamp, value.map(Value::read).transpose()?))
                    }
                    None => None,
                })
            }
            MergeRule::Strict => {
                let mut writes = BTreeMap::new();
                for _ in 0..fields.u64()? {
                    writes.insert(fields.id()?, read_optional(fields)?);
                }
                Self::Strict { writes, replaced: read_set(fields)? }
            }
            MergeRule::Set => {
                let mut additions = BTreeMap::new();
                for _ in 0..fields.u64()? {
                    let (id, value) = (fields.id()?, read_optional(fields)?);
                    additions.insert(id, value.ok_or(Malformed::Field("addition"))?);
                }
                Self::Set { additions, removed: read_set(fields)? }
            }
            MergeRule::Counter => Self::Counter(match fields.u8()? {
                0 => None,
                _ => Some(i128::from_be_bytes(fields.array()?)),
            }),
            MergeRule::List => Self::List(List::read(fields)?),
        };
        rest.end()?;
        Ok(read)
    }

    /// Whether [`Self::read`] reads `bytes`. Most fields have the last writer, and are not copied
    /// for that.
    ///
    /// # Errors
    ///
    /// As [`Self::read`].
    pub(crate) fn check(rule: MergeRule, bytes: &[u8]) -> Result<(), Malformed> {
        if rule != MergeRule::LastWriter {
            return Self::read(rule, bytes).map(drop);
        }
        let mut fields = Fields(bytes);
        if let Some(value) = LastWrite::read(&mut fields)?.and_then(|last| last.value) {
            Value::check(value)?;
        }
        fields.end()
    }

    /// Calls a function with the values in the content, and their entries.
    pub(crate) fn each_value(&self, mut see: impl FnMut(EntryId, &Value)) {
        match self {
            Self::LastWriter(last) => {
                if let Some((stamp, Some(value))) = last {
                    see(stamp.id, value);
                }
            }
            Self::Strict { writes, .. } => {
                let values = writes.iter().filter_map(|(id, value)| Some((*id, value.as_ref()?)));
                values.for_each(|(id, value)| see(id, value));
            }
            Self::Set { additions, .. } => additions.iter().for_each(|(id, value)| see(*id, value)),
            Self::Counter(_) => {}
            Self::List(list) => list.elements().iter().for_each(|(id, value)| see(*id, value)),
        }
    }

    /// Whether there is a content.
    pub(crate) fn has_content(&self, sight: Sight<'_>) -> bool {
        match self {
            Self::LastWriter(Some((stamp, Some(value)))) => sight.is_there(stamp.id, value),
            Self::LastWriter(_) => false,
            Self::Strict { writes, .. } => !writes.is_empty(),
            Self::Set { additions, .. } => {
                additions.iter().any(|(id, value)| sight.is_there(*id, value))
            }
            Self::Counter(sum) => sum.is_some(),
            Self::List(list) => {
                list.elements().iter().any(|(id, value)| sight.is_there(*id, value))
            }
        }
    }

    /// The content; `None` if nothing was written, or everything unset.
    pub(crate) fn content(&self, sight: Sight<'_>) -> Option<Content> {
        Some(match self {
            Self::LastWriter(last) => {
                let (stamp, value) = last.as_ref()?;
                Content::LastWriter(sight.value(stamp.id, value.as_ref()?)?)
            }
            Self::Strict { writes, .. } if writes.is_empty() => return None,
            Self::Strict { writes, .. } => {
                let seen = |(id, value): (&EntryId, &Option<Value>)| {
                    (*id, value.as_ref().and_then(|value| sight.value(*id, value)))
                };
                Content::Strict(writes.iter().map(seen).collect())
            }
            Self::Set { additions, .. } => {
                let mut elements: BTreeMap<Value, Vec<EntryId>> = BTreeMap::new();
                for (id, value) in additions {
                    if let Some(value) = sight.value(*id, value) {
                        elements.entry(value).or_default().push(*id);
                    }
                }
                if elements.is_empty() {
                    return None;
                }
                Content::Set(elements)
            }
            Self::Counter(sum) => Content::Counter((*sum)?),
            Self::List(list) => {
                let mut elements = list.elements();
                elements.retain_mut(|(id, value)| match sight.value(*id, value) {
                    Some(seen) => {
                        *value = seen;
                        true
                    }
                    None => false,
                });
                if elements.is_empty() {
                    return None;
                }
                Content::List(elements)
            }
        })
    }
}

/// The last write of a field in the bytes of an index.
struct LastWrite<'a> {
    stamp: Stamp,
    value: Option<&'a [u8]>,
}

impl<'a> LastWrite<'a> {
    /// `None` if there is no write.
    fn read(fields: &mut Fields<'a>) -> Result<Option<Self>, Malformed> {
        match fields.u8()? {
            0 => Ok(None),
            _ => Ok(Some(Self { stamp: Stamp::read(fields)?, value: optional(fields)? })),
        }
    }
}
