//! Merge rules: the content of a field as a function of the set of its changes.
//!
//! No rule depends on the order in which changes are applied. Changes apply once each; the caller keeps entries apart
//! by their identity.

mod list;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use crate::action::FieldChange;
use crate::clock::Clock;
use crate::genesis::MergeRule;
use crate::name::{EntryId, KeyName};
use crate::octets::write_part;
use crate::value::Value;

use list::List;

/// The order of entries: clock, then author, then identity. It agrees with the past, because clocks grow.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Stamp {
    pub(crate) clock: Clock,
    pub(crate) author: KeyName,
    pub(crate) id: EntryId,
}

/// The content of a field.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Content {
    /// The value of the last writer.
    LastWriter(Value),
    /// The values that nothing has replaced, by their writes. Several are a conflict. A write without a value has
    /// removed the values before it.
    Strict(BTreeMap<EntryId, Option<Value>>),
    /// The elements of a set, each with its additions.
    Set(BTreeMap<Value, Vec<EntryId>>),
    /// The exact sum.
    Counter(i128),
    /// The elements of a list in order, with their identities.
    List(Vec<(EntryId, Value)>),
}

impl Content {
    /// Appends the octets of the content, for the hash of the state.
    pub fn write(&self, out: &mut Vec<u8>) {
        let written = |value: &Value| {
            let mut octets = Vec::new();
            value.write(&mut octets);
            octets
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

/// What is known of deletable values.
#[derive(Clone, Copy)]
pub(crate) struct Sight<'a> {
    /// The entries whose values are deleted.
    pub(crate) deleted: &'a HashSet<EntryId>,
    /// The values that are here. `None` for the commitments in their place, which are equal on all nodes.
    pub(crate) values: Option<&'a HashMap<EntryId, Value>>,
}

impl Sight<'_> {
    /// Whether the value of an entry is not deleted.
    fn is_there(&self, id: EntryId, value: &Value) -> bool {
        !matches!(value, Value::Committed(_)) || !self.deleted.contains(&id)
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

    /// Applies a change that fits the rule. `counts` is false for an entry that is not honoured: it only keeps its place
    /// in a list.
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
