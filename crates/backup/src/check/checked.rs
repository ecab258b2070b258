//! The result of a check.

use std::collections::BTreeSet;

use crate::error::BackupError;

/// Something that is wrong in a repository.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Problem {
    /// The object, or the snapshot and path.
    pub object: String,
    /// Description of the problem.
    pub why: String,
}

/// The result of a check.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Checked {
    /// Snapshots whose trees were read.
    pub snapshots: u64,
    /// Entries of these trees; a tree that several snapshots have counts once.
    pub entries: u64,
    /// Packs that the storage lists.
    pub packs: u64,
    /// Packs that were read to their end.
    pub packs_read: u64,
    /// Bytes of these packs.
    pub bytes_read: u64,
    /// Packs that no index names: left by a run that was interrupted.
    pub unindexed: u64,
    /// Packs that were signed for, so that all clients may rely on them.
    pub promoted: u64,
    /// The problems.
    pub problems: BTreeSet<Problem>,
    /// More files are touched by damage than are named.
    pub more: u64,
}

impl Checked {
    pub(super) fn add(&mut self, object: impl Into<String>, why: impl Into<String>) {
        self.problems.insert(Problem { object: object.into(), why: why.into() });
    }

    pub(super) fn add_errors(&mut self, errors: &[BackupError]) {
        errors.iter().for_each(|error| self.add_error(error));
    }

    pub(super) fn add_error(&mut self, error: &BackupError) {
        match error {
            BackupError::Damaged { name, why } => self.add(name, why),
            BackupError::Missing { name } => self.add(name, "it is missing"),
            BackupError::Newer { name, found } => {
                self.add(name, format!("its format is newer: {found}"));
            }
            BackupError::Storage { name, source } => {
                self.add(name, format!("it cannot be read: {source}"));
            }
            BackupError::Message { name, source } => self.add(name, source.to_string()),
            error => self.add("repository", error.to_string()),
        }
    }
}
