//! The copy of a log in a folder as a session sees it.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::error::LogError;
use super::folder::LogFolder;
use crate::log::lacking::Known;
use crate::log::memory::Log;
use crate::name::EntryId;
use crate::record::Signed;
use crate::sync::limits::{LACKING_MAX, VALUES_MAX, WANT_MAX};
use crate::sync::replica::{Replica, Taken, begin, piece};

/// A log in a folder, for sessions with other nodes. It may be wanted only: then the folder is made
/// when the genesis entry comes.
#[derive(Clone)]
pub struct FolderReplica {
    folder: PathBuf,
    wanted: EntryId,
    log: Option<Arc<LogFolder>>,
}

impl FolderReplica {
    /// A log that is here.
    #[must_use]
    pub fn new(log: Arc<LogFolder>) -> Self {
        Self { folder: log.path().to_owned(), wanted: log.id(), log: Some(log) }
    }

    /// The log with the identity `wanted`, which is to come into `folder`.
    #[must_use]
    pub fn wanted(folder: &Path, wanted: EntryId) -> Self {
        Self { folder: folder.to_owned(), wanted, log: None }
    }

    /// The identity of the log.
    #[must_use]
    pub fn id(&self) -> EntryId {
        self.wanted
    }

    /// The log, if it is here.
    #[must_use]
    pub fn log(&self) -> Option<&Arc<LogFolder>> {
        self.log.as_ref()
    }

    /// Asks the log, which is in memory. Without a log, there is nothing.
    fn ask<T: Default>(&self, read: impl FnOnce(&Log) -> T) -> T {
        self.log.as_ref().and_then(|log| log.read(read).ok()).unwrap_or_default()
    }
}

impl Replica for FolderReplica {
    type Error = LogError;

    fn end(&mut self) -> Result<u64, LogError> {
        Ok(self.log.as_ref().map_or(0, |log| log.durable()))
    }

    fn knows(&mut self, id: &EntryId) -> Known {
        self.ask(|log| Some(log.knows(id))).unwrap_or(Known::Lacking)
    }

    fn heads(&mut self, from: u64, end: u64) -> Vec<EntryId> {
        self.ask(|log| log.heads_between(from, end))
    }

    fn places(&mut self, between: (u64, u64), shared: &HashSet<EntryId>) -> Vec<EntryId> {
        self.ask(|log| log.places_between(between, shared, WANT_MAX))
    }

    fn keep_last(&mut self, have: &mut HashSet<EntryId>) {
        self.ask(|log| log.keep_last(have));
    }

    fn lacking(&mut self, have: &HashSet<EntryId>) -> Vec<u64> {
        self.ask(|log| log.lacking(have, LACKING_MAX))
    }

    fn lacking_values(&mut self, behind: Option<EntryId>) -> Vec<EntryId> {
        self.ask(|log| log.lacking_values(behind, VALUES_MAX))
    }

    fn places_of_values(&mut self, ids: &[EntryId]) -> Vec<u64> {
        self.ask(|log| log.places_of_values(ids))
    }

    fn read(&mut self, places: &[u64]) -> Result<Vec<Signed>, LogError> {
        let Some(log) = &self.log else { return Ok(Vec::new()) };
        piece(places, |place| log.signed_with_number(place)?.ok_or(LogError::Failed))
    }

    fn take(&mut self, mut entries: Vec<Signed>, now_ms: u64) -> Result<Taken, LogError> {
        let mut begun = 0;
        let log = if let Some(log) = &self.log {
            log
        } else {
            match begin(&entries, self.wanted) {
                Ok(_) => {
                    let made = LogFolder::create(&self.folder, &entries.remove(0))?;
                    begun = 1;
                    self.log.insert(Arc::new(made))
                }
                Err(refused) => return Ok(Taken { refused: vec![refused], ..Taken::default() }),
            }
        };
        if entries.is_empty() {
            return Ok(Taken { added: begun, ..Taken::default() });
        }
        let ids: Vec<EntryId> = entries.iter().map(|signed| signed.id).collect();
        let (offered, added) = log.offer(entries, now_ms)?;
        let values = offered.revealed.len() as u64;
        Ok(Taken { values, ..Taken::of(&ids, offered.outcomes, begun + added) })
    }
}
