//! The keys of epochs, as far as a reader has them: opening and encrypting values.
//!
//! Nothing that decides about entries needs these keys. Each epoch is opened once. What it costs is
//! bounded by the format: a message names each key at most once.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use parking_lot::Mutex;
use talaria_message::{Cipher, MessageError, Opener, ReadLimits, Rules, Sealer, Secrets, Verifier};
use zeroize::Zeroizing;

use crate::action::{Action, Change, DataAction, FieldChange};
use crate::encrypted::{Encrypted, Unreadable, WrappedKey};
use crate::entry::Entry;
use crate::log::memory::Log;
use crate::merge::Content;
use crate::name::{EntryId, KeyName, ObjectId};
use crate::plaintext::{EpochPlace, ValuePlace};
use crate::value::Value;

/// The keys of epochs that somebody has opened, and the secrets that open more.
///
/// Without secrets it opens nothing, and encrypts nothing. All threads of a program share it.
pub struct EpochKeys(Mutex<Opened>);

/// What was opened, and what opens more.
struct Opened {
    opener: Opener,
    /// The epochs so far, also those that could not be opened: nobody is asked for a passphrase
    /// twice.
    known: HashMap<EntryId, Result<EpochKey, Unreadable>>,
}

/// The key of an epoch, ready for use.
struct EpochKey {
    sealer: Sealer,
    opener: Opener,
}

impl Default for EpochKeys {
    fn default() -> Self {
        Self::new(Secrets::default())
    }
}

impl fmt::Debug for EpochKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EpochKeys").finish_non_exhaustive()
    }
}

/// No message of an epoch, and no value, has more content than bytes.
fn limits() -> ReadLimits {
    let mut limits = ReadLimits::default();
    (limits.expansion, limits.expansion_free_bytes, limits.argon2_mib) = (1, 0, 0);
    limits
}

/// Decrypts one message. Signatures in it mean nothing: entries are signed.
fn open(opener: &mut Opener, message: &[u8]) -> Result<Zeroizing<Vec<u8>>, MessageError> {
    let verifier = Verifier::new(Box::new(|_: &_| Vec::new()), Rules::default(), 0);
    opener.open(message, &verifier).map(|(content, _)| content.into())
}

impl EpochKey {
    fn new(key: &[u8; 32]) -> Self {
        let sealer = Sealer::with_session_key(key);
        let session_keys = vec![(Some(Cipher::Aes256), Zeroizing::new(key.to_vec()))];
        let secrets = Secrets { session_keys, ..Secrets::default() };
        Self { sealer, opener: Opener::with(secrets, limits()) }
    }
}

impl Opened {
    fn learn(&mut self, log: EntryId, id: EntryId, entry: &Entry) {
        if self.known.contains_key(&id) {
            return;
        }
        let key = self.open_epoch(log, entry);
        self.known.insert(id, key);
    }

    fn open_epoch(&mut self, log: EntryId, entry: &Entry) -> Result<EpochKey, Unreadable> {
        let Action::Data(DataAction { object, change: Change::Encrypt(fields, key) }) =
            &entry.action
        else {
            return Err(Unreadable::NoEpoch);
        };
        let place = EpochPlace { log, object: *object, fields, author: entry.author() };
        let content = open(&mut self.opener, key.message()).map_err(|error| reason(&error, key))?;
        // Otherwise two readers could get different keys, and so different values.
        if !key.has_content(&content) {
            return Err(Unreadable::Epoch("its author has committed to another key"));
        }
        let key = place.key(&content)?;
        Ok(EpochKey::new(&key))
    }

    fn key(&mut self, log: &Log, epoch: &EntryId) -> Result<&mut EpochKey, Unreadable> {
        if !self.known.contains_key(epoch) {
            // It may come later.
            let entry = log.entry(epoch).ok_or(Unreadable::NoEpoch)?;
            self.learn(log.id(), *epoch, &entry);
        }
        let known = self.known.get_mut(epoch).ok_or(Unreadable::NoEpoch)?;
        known.as_mut().map_err(|why| why.clone())
    }
}

impl EpochKeys {
    /// Opens epochs with the secret keys in `secrets`. Their passphrases and session keys are not
    /// used.
    #[must_use]
    pub fn new(secrets: Secrets) -> Self {
        let Secrets { keys, elsewhere, .. } = secrets;
        let secrets = Secrets { keys, elsewhere, ..Secrets::default() };
        let opener = Opener::with(secrets, limits());
        Self(Mutex::new(Opened { opener, known: HashMap::new() }))
    }

    /// Opens the epoch that an entry of the log `log` begins, if that was not tried before.
    pub(crate) fn learn(&self, log: EntryId, id: EntryId, entry: &Entry) {
        self.0.lock().learn(log, id, entry);
    }

    /// Opens the encrypted value of an entry: the one that is in it, or beside it if it is
    /// deletable.
    ///
    /// # Errors
    ///
    /// [`Unreadable`].
    pub fn open(&self, log: &Log, entry: &EntryId, value: &Encrypted) -> Result<Value, Unreadable> {
        let epoch = value.epoch;
        let found = log.entry(entry).ok_or(Unreadable::NoEpoch)?;
        let Action::Data(DataAction { object, change: Change::Field(field, _) }) = &found.action
        else {
            return Err(Unreadable::NoValue);
        };
        // A deletable value was not compared with its epoch when it was admitted.
        if !log.is_epoch_of(&epoch, *object, field) {
            return Err(Unreadable::NoEpoch);
        }
        let place =
            ValuePlace { log: log.id(), object: *object, field, author: found.author(), epoch };
        let mut opened = self.0.lock();
        let key = opened.key(log, &epoch)?;
        let plain = open(&mut key.opener, value.packet()).map_err(|_| Unreadable::Damaged)?;
        place.value(&plain)
    }

    /// Encrypts a value that an author writes to a field, under an epoch.
    ///
    /// # Errors
    ///
    /// [`Unreadable`] if the key of the epoch is not here.
    pub fn encrypt(
        &self,
        log: &Log,
        (author, epoch): (KeyName, EntryId),
        (object, field): (ObjectId, &str),
        value: &Value,
    ) -> Result<Encrypted, Unreadable> {
        let place = ValuePlace { log: log.id(), object, field, author, epoch };
        let plain = Zeroizing::new(place.plain(value));
        let sealed = self.0.lock().key(log, &epoch)?.sealer.seal(&plain);
        let sealed = sealed.map_err(|error| Unreadable::Secret(error.to_string()))?;
        Encrypted::new(epoch, sealed).map_err(|_| Unreadable::Damaged)
    }

    /// A value of an entry as the reader sees it. A value that stays encrypted has the reason.
    fn seen(&self, log: &Log, entry: &EntryId, value: Value) -> Value {
        match value {
            Value::Encrypted(encrypted) => match self.open(log, entry, &encrypted) {
                Ok(value) => value,
                Err(why) => Value::Encrypted(encrypted.because(why)),
            },
            value => value,
        }
    }

    /// The content of a field as the reader sees it. Values that stay encrypted have the reason.
    pub fn field(&self, log: &Log, object: ObjectId, field: &str) -> Option<Content> {
        let content = log.state().field(object, field)?;
        Some(self.content(log, object, field, content))
    }

    /// The fields of an object with their contents, as the reader sees them.
    pub fn fields(&self, log: &Log, object: ObjectId) -> Vec<(String, Content)> {
        let fields = log.state().fields(object);
        let seen = |(name, content): (&str, _)| {
            (name.to_owned(), self.content(log, object, name, content))
        };
        fields.map(seen).collect()
    }

    fn content(&self, log: &Log, object: ObjectId, field: &str, content: Content) -> Content {
        match content {
            Content::LastWriter(value) => {
                Content::LastWriter(match log.state().last_write(object, field) {
                    Some(id) => self.seen(log, &id, value),
                    None => value,
                })
            }
            Content::Strict(writes) => {
                let seen = |(id, value): (EntryId, Option<Value>)| {
                    (id, value.map(|value| self.seen(log, &id, value)))
                };
                Content::Strict(writes.into_iter().map(seen).collect())
            }
            Content::Set(elements) => {
                // Two additions of one value have different bytes while they are encrypted.
                let mut seen: BTreeMap<Value, Vec<EntryId>> = BTreeMap::new();
                for (value, additions) in elements {
                    for id in additions {
                        seen.entry(self.seen(log, &id, value.clone())).or_default().push(id);
                    }
                }
                seen.values_mut().for_each(|additions| additions.sort_unstable());
                Content::Set(seen)
            }
            Content::List(elements) => Content::List(
                elements.into_iter().map(|(id, one)| (id, self.seen(log, &id, one))).collect(),
            ),
            Content::Counter(sum) => Content::Counter(sum),
        }
    }

    /// A change of an entry as the reader sees it, with its deletable value if that is here.
    pub fn revealed(&self, log: &Log, entry: &EntryId, change: &FieldChange) -> FieldChange {
        let mut change = log.state().revealed(entry, change);
        if let Some(value) = change.stated_mut() {
            let encrypted = std::mem::replace(value, Value::Boolean(false));
            *value = self.seen(log, entry, encrypted);
        }
        change
    }
}

/// The reason why the message of an epoch could not be opened.
fn reason(error: &MessageError, key: &WrappedKey) -> Unreadable {
    match error {
        MessageError::NoSecret { .. } => Unreadable::NoKey { readers: key.readers().len() },
        MessageError::Key { .. } | MessageError::Secret(_) | MessageError::Usage(_) => {
            Unreadable::Secret(error.to_string())
        }
        MessageError::Unopened { .. } => Unreadable::Epoch("its message does not open"),
        _ => Unreadable::Epoch("its message is damaged"),
    }
}
