//! The snapshots that tombstones and protections name.

use std::collections::{BTreeMap, BTreeSet};

use talaria_message::openpgp::Fingerprint;

use crate::config::fingerprint;
use crate::id::Id;
use crate::listed::Listed;
use crate::snapshot::{Head, Heads};

/// A snapshot as a tombstone names it.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct SnapshotName {
    /// The client; `None` for an unsigned snapshot, and for one that cannot be read.
    pub client: Option<Fingerprint>,
    /// The number; 0 for a snapshot that cannot be read.
    pub number: u64,
    /// The identifier.
    pub id: Id,
}

impl SnapshotName {
    /// The name of a snapshot that could be read.
    #[must_use]
    pub fn of(listed: &Listed) -> Self {
        let Listed { id, snapshot, .. } = listed;
        Self { client: snapshot.client.clone(), number: snapshot.number, id: *id }
    }

    /// The fields of a line that names the snapshot.
    pub(crate) fn fields(&self) -> String {
        let client = self.client.as_ref().map_or("none".into(), Fingerprint::to_hex);
        format!("{client} {} {}", self.number, self.id)
    }

    /// Reads [`Self::fields`].
    pub(crate) fn parse(fields: &str) -> Option<Self> {
        let mut fields = fields.splitn(3, ' ');
        let client = match fields.next()? {
            "none" => None,
            client => Some(fingerprint(client)?),
        };
        let number = fields.next()?.parse().ok()?;
        Some(Self { client, number, id: fields.next()?.parse().ok()? })
    }

    /// The name of a snapshot that cannot be read.
    #[must_use]
    pub fn unreadable(id: Id) -> Self {
        Self { client: None, number: 0, id }
    }
}

/// The snapshots that were forgotten or are protected.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Forgotten {
    /// Snapshots with a tombstone that counts, whose signers are the values.
    pub(crate) named: BTreeMap<Id, (SnapshotName, BTreeSet<Fingerprint>)>,
    pub(crate) protected: BTreeSet<Id>,
}

impl Forgotten {
    /// Whether a tombstone counts for the snapshot, and it is not protected.
    #[must_use]
    pub fn contains(&self, id: &Id) -> bool {
        self.named.contains_key(id) && !self.protected.contains(id)
    }

    /// Whether the snapshot is protected.
    #[must_use]
    pub fn is_protected(&self, id: &Id) -> bool {
        self.protected.contains(id)
    }

    /// The forgotten snapshots.
    pub fn iter(&self) -> impl Iterator<Item = &SnapshotName> {
        let all = self.named.values().map(|(name, _)| name);
        all.filter(|name| !self.protected.contains(&name.id))
    }

    /// Raises heads to forgotten snapshots that were newer: their numbers are not used again.
    pub(crate) fn raise(&self, heads: &mut Heads) {
        for SnapshotName { client, number, id } in self.named.values().map(|(name, _)| name) {
            let head = Head { number: *number, id: *id };
            if *number == 0 {
                continue;
            }
            let newest = heads.entry(client.clone()).or_insert(head);
            if newest.number < head.number {
                *newest = head;
            }
        }
    }

    #[cfg(test)]
    pub(crate) fn protect_for_test(&mut self, id: Id) {
        self.protected.insert(id);
    }

    #[cfg(test)]
    pub(crate) fn of(names: impl IntoIterator<Item = SnapshotName>) -> Self {
        let named = names.into_iter().map(|name| (name.id, (name, BTreeSet::new())));
        Self { named: named.collect(), protected: BTreeSet::new() }
    }
}
