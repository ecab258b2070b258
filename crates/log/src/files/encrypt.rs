//! Beginning and ending the encryption of fields.

use talaria_message::{Compression, EncryptOptions, MessageError, Recipients, Sealer};
use zeroize::Zeroizing;

use super::error::LogError;
use super::folder::LogFolder;
use crate::action::{Action, Change, DataAction};
use crate::encrypted::{READERS_MAX, WrappedKey};
use crate::epoch::EpochKeys;
use crate::genesis::{MergeRule, Pattern};
use crate::log::draft::Maker;
use crate::log::error::{DraftError, UpdateError};
use crate::log::memory::Log;
use crate::log::update::{Update, check_name};
use crate::name::{EntryId, KeyName, ObjectId};
use crate::plaintext::EpochPlace;
use crate::record::Signed;

impl LogFolder {
    /// Begins an epoch: from here on, values of the fields of an object are encrypted for
    /// `readers`, and for nobody else. The object is created if there is none of this name. Values
    /// of earlier epochs stay as they are.
    ///
    /// # Errors
    ///
    /// [`LogError::Readers`] without readers, and with passphrases; [`LogError::Update`] for a
    /// counter, and for too many keys; the errors of [`Self::put_action`].
    pub fn begin_epoch(
        &self,
        maker: &mut Maker<'_>,
        object: &str,
        fields: &Pattern,
        readers: &Recipients,
        now_ms: u64,
    ) -> Result<EntryId, LogError> {
        let (log, rule) = self.read(|log| (log.id(), log.genesis().rule(fields.as_str())))?;
        if !fields.as_str().ends_with('*') && rule == MergeRule::Counter {
            return Err(UpdateError::EncryptedCounter(fields.as_str().to_owned()).into());
        }
        let author = maker.chain.author;
        let (object, creation) = self.read(|log| place(log, author, object))??;
        let key = wrap(EpochPlace { log, object, fields, author }, readers)?;
        let change = Change::Encrypt(fields.clone(), Box::new(key));
        self.put_all(maker, creation, DataAction { object, change }, now_ms)
    }

    /// Ends the encryption of fields of an object: from here on, values are written as they are.
    /// Values that are there stay encrypted.
    ///
    /// # Errors
    ///
    /// [`LogError::Update`] if there is no such object; the errors of [`Self::put_action`].
    pub fn stop_encrypting(
        &self,
        maker: &mut Maker<'_>,
        object: &str,
        fields: &Pattern,
        now_ms: u64,
    ) -> Result<EntryId, LogError> {
        let object = self.read(|log| log.find_object(object))??;
        let change = Change::StopEncrypting(fields.clone());
        self.put_all(maker, None, DataAction { object, change }, now_ms)
    }

    fn put_all(
        &self,
        maker: &mut Maker<'_>,
        creation: Option<DataAction>,
        data: DataAction,
        now_ms: u64,
    ) -> Result<EntryId, LogError> {
        maker.chain.instance = self.instance();
        self.append(|log| {
            let mut signed: Vec<Signed> = Vec::new();
            for data in creation.into_iter().chain([data]) {
                signed.push(maker.make(log, Action::Data(data), now_ms)?);
            }
            let id = signed.last().map_or(EntryId::NONE, |last| last.id);
            Ok::<_, LogError>((signed, id))
        })
    }

    /// Opens the epochs under which updates are encrypted. Nobody waits for the log while a card or
    /// a passphrase is asked for.
    pub(super) fn learn_epochs(
        &self,
        updates: &[Update],
        keys: &EpochKeys,
    ) -> Result<(), LogError> {
        let epochs = self.read(|log| {
            let mut epochs: Vec<EntryId> = Vec::new();
            if log.state().has_epochs() {
                epochs.extend(updates.iter().filter_map(|update| log.epoch_of(update)));
                epochs.sort_unstable();
                epochs.dedup();
            }
            let entry = |id| Some((id, log.entry(&id)?));
            epochs.into_iter().filter_map(entry).collect::<Vec<_>>()
        })?;
        for (id, entry) in epochs {
            keys.learn(self.id(), id, &entry);
        }
        Ok(())
    }
}

/// The object with a name, and what creates it if there is none.
fn place(
    log: &Log,
    author: KeyName,
    name: &str,
) -> Result<(ObjectId, Option<DataAction>), UpdateError> {
    match log.find_object(name) {
        Err(UpdateError::NoObject(_)) => {
            check_name(name)?;
            let object = ObjectId::of(log.id(), author, name);
            let change = Change::Create(name.to_owned());
            Ok((object, Some(DataAction { object, change })))
        }
        found => Ok((found?, None)),
    }
}

/// A new key for an epoch, wrapped for its readers.
fn wrap(place: EpochPlace<'_>, readers: &Recipients) -> Result<WrappedKey, LogError> {
    let failed = |source| LogError::Readers { source };
    if readers.passwords() > 0 {
        let usage = "the readers of a log have keys, not passphrases";
        return Err(failed(MessageError::Usage(usage)));
    }
    if readers.keys() > READERS_MAX {
        return Err(UpdateError::TooManyReaders { found: readers.keys() }.into());
    }
    let mut key = Zeroizing::new([0; 32]);
    getrandom::fill(&mut *key).map_err(|_| LogError::Random)?;
    let (content, hash) = place.content(&key);
    let mut options = EncryptOptions::default();
    options.compression = Compression::None;
    let sealer = Sealer::new(readers, options).map_err(failed)?;
    let message = sealer.seal(&content).map_err(failed)?;
    WrappedKey::new(hash, message)
        .map_err(|malformed| LogError::Draft(DraftError::Refused(malformed.into())))
}
