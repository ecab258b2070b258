//! Listeners: what a program wants to be asked or told about changes of objects.
//!
//! A listener "before" may reject a change of this node's own author before it is signed. What is
//! signed and valid counts on every node, so changes by others reach listeners "after" only
//! (`files/announce.rs`).

use crate::action::Change;
use crate::clock::Clock;
use crate::genesis::Pattern;
use crate::log::standing::Standing;
use crate::name::{EntryId, KeyName, ObjectId};

/// A set of patterns, compiled once: a text is looked up by two binary searches, whatever the
/// number of patterns.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Patterns {
    /// Whole texts, ascending.
    texts: Vec<String>,
    /// Starts of texts, ascending. None is the start of another one.
    starts: Vec<String>,
}

impl Patterns {
    /// All texts.
    #[must_use]
    pub fn all() -> Self {
        Self { texts: Vec::new(), starts: vec![String::new()] }
    }

    /// The texts that one of `patterns` matches.
    #[must_use]
    pub fn new(patterns: &[Pattern]) -> Self {
        let mut texts = Vec::new();
        let mut starts: Vec<String> = Vec::new();
        for pattern in patterns {
            match pattern.as_str().strip_suffix('*') {
                Some(start) => starts.push(start.to_owned()),
                None => texts.push(pattern.as_str().to_owned()),
            }
        }
        texts.sort_unstable();
        starts.sort_unstable();
        // Behind a start come the longer ones that it covers.
        starts.dedup_by(|longer, start| longer.starts_with(start.as_str()));
        Self { texts, starts }
    }

    /// Whether a pattern of the set matches.
    #[must_use]
    pub fn matches(&self, text: &str) -> bool {
        // No start covers another one, so the greatest that is not behind the text is the only
        // candidate.
        let behind = self.starts.partition_point(|start| start.as_str() <= text);
        behind.checked_sub(1).is_some_and(|at| text.starts_with(&self.starts[at]))
            || self.texts.binary_search_by(|whole| whole.as_str().cmp(text)).is_ok()
    }
}

/// The kinds of changes of objects.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Kind {
    /// An object is created.
    Create,
    /// A field is changed, or who can read fields.
    Update,
    /// An object is deleted.
    Delete,
}

impl Kind {
    /// The kind of a change.
    #[must_use]
    pub fn of(change: &Change) -> Self {
        match change {
            Change::Create(_) => Self::Create,
            Change::Field(..) | Change::Encrypt(..) | Change::StopEncrypting(_) => Self::Update,
            Change::Delete => Self::Delete,
        }
    }
}

/// The changes that a listener wants. The default is all of them.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Interest {
    /// The kinds of changes.
    pub kinds: Vec<Kind>,
    /// Objects, by their name or by their identity in hexadecimal digits.
    pub objects: Patterns,
    /// Fields, for the changes that have one.
    pub fields: Patterns,
}

impl Default for Interest {
    fn default() -> Self {
        let kinds = vec![Kind::Create, Kind::Update, Kind::Delete];
        Self { kinds, objects: Patterns::all(), fields: Patterns::all() }
    }
}

impl Interest {
    /// Whether the listener wants a change of an object, whose name is known if it was created.
    #[must_use]
    pub fn wants(&self, object: ObjectId, name: Option<&str>, change: &Change) -> bool {
        let is_field = match change {
            Change::Field(field, _) => self.fields.matches(field),
            Change::Encrypt(fields, _) | Change::StopEncrypting(fields) => {
                self.fields.matches(fields.as_str())
            }
            Change::Create(_) | Change::Delete => true,
        };
        let name = match change {
            Change::Create(name) => Some(name.as_str()),
            _ => name,
        };
        is_field
            && self.kinds.contains(&Kind::of(change))
            && (name.is_some_and(|name| self.objects.matches(name))
                || self.objects.matches(&object.to_string()))
    }
}

/// A change that began or ceased to count.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Event {
    /// What happened.
    pub turn: Turn,
    /// The entry.
    pub entry: EntryId,
    /// Its author.
    pub author: KeyName,
    /// Its clock.
    pub clock: Clock,
    /// The object.
    pub object: ObjectId,
    /// The name of the object, if it was created.
    pub name: Option<String>,
    /// The change.
    pub change: Change,
}

/// The turns of an entry.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Turn {
    /// The entry counts from now on.
    Applied,
    /// The entry counted and does not count any more.
    Undone(Standing),
}

impl Event {
    /// The bytes of the event in memory, roughly.
    pub(crate) fn bytes(&self) -> usize {
        let change = match &self.change {
            Change::Create(name) => name.len(),
            Change::Delete => 0,
            Change::Encrypt(fields, key) => fields.as_str().len() + key.bytes(),
            Change::StopEncrypting(fields) => fields.as_str().len(),
            Change::Field(field, change) => field.len() + change.bytes(),
        };
        size_of::<Self>() + self.name.as_ref().map_or(0, String::len) + change
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns(texts: &[&str]) -> Patterns {
        let patterns: Vec<Pattern> = texts.iter().map(|text| Pattern::new(text).unwrap()).collect();
        Patterns::new(&patterns)
    }

    #[test]
    fn compiled_patterns_match_as_single_ones() {
        let words = ["a*", "ab*", "b", "bc*", "c", "ca", "d/*", "ä*", "*x", "e**"];
        let texts = [
            "", "a", "aa", "ab", "abc", "b", "bc", "bcd", "bd", "c", "ca", "cab", "d", "d/", "d/1",
            "äh", "*x", "e*y", "ey",
        ];
        for first in 0..words.len() {
            for last in first..=words.len() {
                let chosen = &words[first..last];
                let compiled = patterns(chosen);
                for text in texts {
                    let wanted =
                        chosen.iter().any(|word| Pattern::new(word).unwrap().matches(text));
                    assert_eq!(compiled.matches(text), wanted, "{chosen:?} {text}");
                }
            }
        }
        assert!(Patterns::all().matches("") && Patterns::all().matches("x"));
    }
}
