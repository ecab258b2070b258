//! Snapshots: what owners say a log was (`docs/formats/log.md`, Snapshot).

use crate::bytes::{Fields, Malformed};
use crate::name::EntryId;

/// Most entries beside genesis that show who has signed a snapshot.
pub const EVIDENCE_MAX: usize = 4096;

/// What a log was: a statement about the past of its entry.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Snapshot {
    /// The number of entries.
    pub entries: u64,
    /// The root of the tree (RFC 6962) over their identities, in the order of entries.
    pub root: [u8; 32],
    /// The hash of the state.
    pub state: [u8; 32],
}

/// The reason why a snapshot is wrong.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BadSnapshot {
    /// Another number of entries is before it.
    #[error("it states {stated} entries, but {found} are before it")]
    Entries {
        /// The number in the snapshot.
        stated: u64,
        /// The number of entries in the past.
        found: u64,
    },
    /// The root is not that of the entries before it.
    #[error("the root is not that of the entries before it")]
    Root,
    /// The entries before it give another state.
    #[error("the entries before it give another state, {}", EntryId(*.found))]
    State {
        /// The hash of that state.
        found: [u8; 32],
    },
    /// An entry before it cannot be read from disk, so nobody knows here whether it is right.
    #[error("an entry before it cannot be read")]
    Unreadable,
}

impl BadSnapshot {
    /// The kind, one word.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Entries { .. } => "entries",
            Self::Root => "root",
            Self::State { .. } => "state",
            Self::Unreadable => "unreadable",
        }
    }
}

impl Snapshot {
    /// Compares the statement with what it should be.
    pub(crate) fn check(&self, right: &Self) -> Result<(), BadSnapshot> {
        if self.entries != right.entries {
            return Err(BadSnapshot::Entries { stated: self.entries, found: right.entries });
        }
        if self.root != right.root {
            return Err(BadSnapshot::Root);
        }
        if self.state != right.state {
            return Err(BadSnapshot::State { found: right.state });
        }
        Ok(())
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.entries.to_be_bytes());
        out.extend(self.root);
        out.extend(self.state);
    }

    pub(crate) fn read(fields: &mut Fields<'_>) -> Result<Self, Malformed> {
        Ok(Self { entries: fields.u64()?, root: fields.array()?, state: fields.array()? })
    }
}
