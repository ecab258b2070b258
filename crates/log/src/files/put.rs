//! Writing updates: one commit for any number of them.

use super::error::LogError;
use super::folder::LogFolder;
use crate::action::Action;
use crate::deletable::Opening;
use crate::epoch::EpochKeys;
use crate::log::draft::Maker;
use crate::log::error::DraftError;
use crate::log::update::Update;
use crate::name::EntryId;
use crate::note::NoteSecret;
use crate::record::{Signed, Unsigned, together};
use crate::value::Value;

/// The number of signatures for entries that are made together.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Signing {
    /// Each entry has a signature of its own.
    #[default]
    Each,
    /// One signature stands for as many entries as one record can hold: up to 65,536 entries, and
    /// 3 MiB.
    Together,
}

/// An update was not written, and no other one of the same call.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct PutError {
    /// The number of the update in the call, from 0, if it is the fault of one.
    pub at: Option<usize>,
    /// The reason.
    #[source]
    pub error: LogError,
}

impl From<LogError> for PutError {
    fn from(error: LogError) -> Self {
        Self { at: None, error }
    }
}

/// A deletable value with a salt from the system.
///
/// # Errors
///
/// [`LogError::Random`].
pub fn deletable(value: &Value) -> Result<Opening, LogError> {
    let mut salt = [0; 32];
    getrandom::fill(&mut salt).map_err(|_| LogError::Random)?;
    Ok(Opening::new(value, salt))
}

impl LogFolder {
    /// Writes updates by the author of `maker`, at `now_ms` in milliseconds since 1970, and returns
    /// the identities of the entries. They are on disk when this returns. If one update cannot be
    /// written, none is, and the log must be opened again.
    ///
    /// # Errors
    ///
    /// [`PutError`], with the number of the update.
    pub fn put(
        &self,
        maker: &mut Maker<'_>,
        updates: &[Update],
        signing: Signing,
        now_ms: u64,
    ) -> Result<Vec<EntryId>, PutError> {
        self.put_with(maker, updates, signing, now_ms, &EpochKeys::default())
    }

    /// Like [`Self::put`], and values of encrypted fields are encrypted under the last epoch of
    /// their field, with the keys of `keys`.
    ///
    /// # Errors
    ///
    /// [`PutError`], with the number of the update.
    pub fn put_with(
        &self,
        maker: &mut Maker<'_>,
        updates: &[Update],
        signing: Signing,
        now_ms: u64,
        keys: &EpochKeys,
    ) -> Result<Vec<EntryId>, PutError> {
        maker.chain.instance = self.instance();
        self.learn_epochs(updates, keys)?;
        self.append(|log| {
            let mut entries: Vec<Unsigned> = Vec::with_capacity(updates.len());
            for (at, update) in updates.iter().enumerate() {
                let failed = |error: LogError| PutError { at: Some(at), error };
                let operations = log.operations_with(maker.chain.author, update, keys);
                let (operations, opening) = operations.map_err(|error| failed(error.into()))?;
                for data in operations {
                    let draft = log.draft(maker.chain, Action::Data(data), now_ms);
                    let entry = draft.map_err(|error| failed(error.into()))?;
                    let mut own =
                        log.admit_own(entry).map_err(|r| failed(DraftError::from(r).into()))?;
                    if let Some(opening) = &opening
                        && log.reveal(&own.id, opening)
                    {
                        own.opening = Some(opening.clone());
                    }
                    entries.push(own);
                }
            }
            let mut signed: Vec<Signed> = Vec::with_capacity(entries.len());
            match signing {
                Signing::Each => {
                    for entry in entries {
                        let entry = maker.sign_alone(entry, log.id(), now_ms);
                        signed.push(entry.map_err(LogError::from)?);
                    }
                }
                Signing::Together => {
                    let mut rest = entries.into_iter();
                    while !rest.as_slice().is_empty() {
                        let bytes = rest.as_slice().iter().map(Unsigned::size);
                        let count = together(bytes);
                        let batch = rest.by_ref().take(count).collect();
                        let batch = maker.sign_together(batch, log.id(), now_ms);
                        signed.extend(batch.map_err(LogError::from)?);
                    }
                }
            }
            let ids = signed.iter().map(|signed| signed.id).collect();
            Ok((signed, ids))
        })
    }

    /// Writes one operation on the log itself, such as a grant, by the author of `maker`.
    ///
    /// # Errors
    ///
    /// [`LogError::Draft`] if the log does not allow it; the errors of [`Self::append`].
    pub fn put_action(
        &self,
        maker: &mut Maker<'_>,
        action: Action,
        now_ms: u64,
    ) -> Result<EntryId, LogError> {
        maker.chain.instance = self.instance();
        self.append(|log| {
            let signed = maker.make(log, action, now_ms)?;
            let id = signed.id;
            Ok((vec![signed], id))
        })
    }

    /// Writes a checkpoint over all that this node has seen, by the author of `maker` with the key
    /// of the checkpointer, at `now_ms` in milliseconds since 1970.
    ///
    /// # Errors
    ///
    /// [`LogError::Draft`] if the log does not allow it; the errors of [`Self::append`].
    pub fn put_checkpoint(
        &self,
        maker: &mut Maker<'_>,
        key: &NoteSecret,
        now_ms: u64,
    ) -> Result<EntryId, LogError> {
        maker.chain.instance = self.instance();
        self.append(|log| {
            let entry = log.draft_checkpoint(maker.chain, key, now_ms / 1000, now_ms)?;
            let entry = log.admit_own(entry).map_err(DraftError::from)?;
            let id = entry.id;
            Ok((vec![maker.sign_alone(entry, log.id(), now_ms)?], id))
        })
    }
}
