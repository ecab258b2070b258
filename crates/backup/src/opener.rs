//! Opening packs: of the right epoch, in the right format, whole or in parts.

use parking_lot::Mutex;
use talaria_message::{
    DecryptOptions, DecryptionKey, MessageError, OpenedBy, RangeOpener, Release, Rules, Secrets,
    Verifier, decrypt, literal_start,
};

use crate::backend::Backend;
use crate::epoch::EpochProfile;
use crate::error::{BackupError, Result};
use crate::id::{Id, Identifiers, ObjectHash, RepositoryId};
use crate::index::IndexedPack;
use crate::pack::{self, PACK_BYTES_MAX, PackedChunk, SEALED_EXTRA_MAX, pack_name};

/// Bytes from the start of a pack that are enough to read any part of it: a wrapped session key,
/// the headers, and one chunk of 64 KiB.
const START_BYTES: u64 = 68 << 10;

/// The secret data keys of an epoch, and the format of its packs.
pub(crate) struct EpochReader {
    pub(crate) number: u32,
    pub(crate) profile: EpochProfile,
    /// None for [`EpochProfile::None`].
    pub(crate) keys: Vec<DecryptionKey>,
}

/// Opens the packs of some epochs.
pub(crate) struct PackOpener {
    /// The profile of the epoch of each key, by the fingerprint of the key.
    profiles: Vec<(String, EpochProfile, u32)>,
    /// An epoch has no encryption.
    plain: bool,
    secrets: Mutex<Secrets>,
}

/// A pack of which parts can be read.
pub(crate) enum OpenPack {
    /// Parts can be decrypted.
    Ranges(RangeOpener),
    /// Not encrypted: where the content starts, and its length.
    Plain(u64, u64),
    /// The content of a pack that has to be decrypted as a whole.
    Whole(Vec<u8>),
}

impl PackOpener {
    pub(crate) fn new(epochs: Vec<EpochReader>) -> Self {
        let mut opener =
            Self { profiles: Vec::new(), plain: false, secrets: Mutex::new(Secrets::default()) };
        let mut secrets = Secrets::default();
        for EpochReader { number, profile, keys } in epochs {
            opener.plain |= profile == EpochProfile::None;
            for key in keys {
                opener.profiles.push((key.public().fingerprint().to_hex(), profile, number));
                secrets.keys.push(key);
            }
        }
        opener.secrets = Mutex::new(secrets);
        opener
    }

    /// Refuses a format that the epoch of the key does not have.
    fn check(&self, name: &str, by: &OpenedBy, found: talaria_message::Profile) -> Result<()> {
        let OpenedBy::Key(key) = by else {
            return Err(BackupError::damaged(name, "it was not decrypted with a key"));
        };
        let profile =
            self.profiles.iter().find(|(known, ..)| known == key).map(|(_, profile, _)| profile);
        if profile.and_then(|profile| profile.packets()) == Some(found) {
            return Ok(());
        }
        Err(BackupError::damaged(name, "its packets are not those of its epoch's profile"))
    }

    /// Opens a pack of `bytes` bytes, so that parts can be read.
    pub(crate) fn open(&self, backend: &dyn Backend, name: &str, bytes: u64) -> Result<OpenPack> {
        let start = backend.get_range(name, 0, START_BYTES.min(bytes))?;
        let failed = |source| failed(name, source);
        if self.plain && is_literal(&start) {
            let content = literal_start(&start, bytes).map_err(failed)?;
            return Ok(OpenPack::Plain(content, bytes - content));
        }
        let opened = {
            let mut secrets = self.secrets.lock();
            RangeOpener::new(&start, bytes, &mut secrets)
        };
        match opened {
            Ok(opener) => {
                self.check(name, opener.by(), opener.profile())?;
                Ok(OpenPack::Ranges(opener))
            }
            Err(MessageError::Unsupported(_)) if self.has(EpochProfile::Rfc4880) => {
                let object = backend.get(name, PACK_BYTES_MAX + SEALED_EXTRA_MAX)?;
                Ok(OpenPack::Whole(self.decrypted(name, &object)?))
            }
            Err(error) => Err(failed(error)),
        }
    }

    /// The number of the epoch that a pack is encrypted to; `None` if it is not encrypted, or to
    /// another key.
    pub(crate) fn epoch_of(
        &self,
        backend: &dyn Backend,
        name: &str,
        bytes: u64,
    ) -> Result<Option<u32>> {
        let start = backend.get_range(name, 0, START_BYTES.min(bytes))?;
        if self.plain && is_literal(&start) {
            return Ok(None);
        }
        let by = {
            let mut secrets = self.secrets.lock();
            match RangeOpener::new(&start, bytes, &mut secrets) {
                Ok(opener) => Some(opener.by().clone()),
                // Version 1 packets cannot be read in parts.
                Err(MessageError::Unsupported(_)) if self.has(EpochProfile::Rfc4880) => {
                    drop(secrets);
                    self.decrypted_by(name, &backend.get(name, PACK_BYTES_MAX + SEALED_EXTRA_MAX)?)?
                        .1
                }
                Err(error) => return Err(failed(name, error)),
            }
        };
        let Some(OpenedBy::Key(key)) = by else { return Ok(None) };
        Ok(self.profiles.iter().find(|(known, ..)| *known == key).map(|(.., number)| *number))
    }

    fn has(&self, profile: EpochProfile) -> bool {
        self.profiles.iter().any(|(_, known, _)| *known == profile)
    }

    /// The content of a pack.
    fn decrypted(&self, name: &str, object: &[u8]) -> Result<Vec<u8>> {
        Ok(self.decrypted_by(name, object)?.0)
    }

    /// The content of a pack, and the key that opened it.
    fn decrypted_by(&self, name: &str, object: &[u8]) -> Result<(Vec<u8>, Option<OpenedBy>)> {
        let failed = |source| failed(name, source);
        let bytes = object.len() as u64;
        if self.plain && is_literal(object) {
            let start = literal_start(object, bytes).map_err(failed)?;
            let start = usize::try_from(start).expect("it is in memory");
            return Ok((object[start..].to_vec(), None));
        }
        let mut secrets = self.secrets.lock();
        match RangeOpener::new(object, bytes, &mut secrets) {
            Ok(opener) => {
                drop(secrets);
                self.check(name, opener.by(), opener.profile())?;
                let by = opener.by().clone();
                Ok((opener.open_whole(object).map_err(failed)?, Some(by)))
            }
            Err(MessageError::Unsupported(_)) if self.has(EpochProfile::Rfc4880) => {
                let mut content = Vec::with_capacity(object.len());
                // After an error, nothing of it is used.
                let mut options = DecryptOptions::new(Release::Streamed);
                options.threads = 1;
                let nobody = Verifier::new(Box::new(|_| Vec::new()), Rules::default(), 0);
                let done = decrypt(&mut &*object, &mut content, &mut secrets, &nobody, options)
                    .map_err(failed)?;
                self.check(name, &done.by, done.profile)?;
                if !done.signatures.is_empty() {
                    return Err(BackupError::damaged(name, "it is signed, which no pack is"));
                }
                Ok((content, Some(done.by)))
            }
            Err(error) => Err(failed(error)),
        }
    }

    /// Reads a pack as a whole: its hash is its name, it is authentic to its end, and its archive
    /// and index are those that a writer makes. The chunks are not checked yet, see
    /// [`WholePack::chunk`].
    pub(crate) fn read_whole(
        &self,
        backend: &dyn Backend,
        hash: &ObjectHash,
        repository: RepositoryId,
    ) -> Result<WholePack> {
        let name = pack_name(hash);
        let object = backend.get(&name, PACK_BYTES_MAX + SEALED_EXTRA_MAX)?;
        if ObjectHash::of(&object) != *hash {
            return Err(BackupError::damaged(name, "its hash is not its name"));
        }
        let bytes = object.len() as u64;
        let content = self.decrypted(&name, &object)?;
        let chunks = pack::parse(&name, &content, repository)?;
        Ok(WholePack { indexed: IndexedPack { hash: *hash, bytes, chunks }, content })
    }
}

/// A message with packets that are literal data from the start, which need no key.
fn is_literal(start: &[u8]) -> bool {
    start.first() == Some(&0xcb)
}

/// An error of the content of an object is damage of the object.
fn failed(name: &str, source: MessageError) -> BackupError {
    match source {
        MessageError::NoSecret { .. } => BackupError::Message { name: name.into(), source },
        MessageError::Read(source) => BackupError::Storage { name: name.into(), source },
        damage => BackupError::damaged(name, damage.to_string()),
    }
}

/// A pack in memory.
pub(crate) struct WholePack {
    /// The entry of the pack in an index, made from its content.
    pub(crate) indexed: IndexedPack,
    content: Vec<u8>,
}

impl WholePack {
    /// The plaintext of one of the chunks of [`Self::indexed`], if its identifier is right.
    pub(crate) fn chunk(&self, chunk: &PackedChunk, identifiers: &Identifiers) -> Result<Vec<u8>> {
        let range = chunk.range();
        let at = |byte: u64| usize::try_from(byte).unwrap_or(usize::MAX);
        let bytes = self.content.get(at(range.start)..at(range.end));
        bytes
            .ok_or("a chunk goes beyond its end")
            .and_then(|bytes| chunk.plaintext(bytes.to_vec(), identifiers))
            .map_err(|why| BackupError::damaged(pack_name(&self.indexed.hash), why))
    }

    /// The chunks that are not what their identifiers say.
    pub(crate) fn damaged_chunks(&self, identifiers: &Identifiers) -> Vec<Id> {
        let is_damaged = |chunk: &&PackedChunk| self.chunk(chunk, identifiers).is_err();
        self.indexed.chunks.iter().filter(is_damaged).map(|chunk| chunk.id).collect()
    }
}
