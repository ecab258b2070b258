//! Repair: indexes are made again from packs, damaged packs count as absent, and damaged objects
//! are set aside.
//!
//! Nothing is deleted: an object is moved only if its hash is not its name, and after everything
//! was copied that can still be read of it.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;
use talaria_message::SigningKey;
use talaria_message::openpgp::Fingerprint;

use crate::backend::is_of_one_object;
use crate::check::checked::Checked;
use crate::check::described::Described;
use crate::check::packs::Found;
use crate::check::{Examine, ReadData};
use crate::error::{BackupError, Result};
use crate::id::{ObjectHash, in_folder};
use crate::index::{INDEX_BYTES_MAX, INDEX_CHUNKS, INDEX_PACKS, IndexedPack, index_name};
use crate::pack::{PACK_BYTES_MAX, SEALED_EXTRA_MAX, pack_name};
use crate::progress::BackupProgress;
use crate::prune::copy;
use crate::repository::{Keys, Repository};
use crate::snapshot::Heads;
use crate::verified::{VERDICTS, Verdicts};

/// The folder of damaged objects, which do not have the content that was written.
const SET_ASIDE: &str = "set-aside";

/// Options of a repair.
#[derive(Clone, Copy, Debug, Default)]
pub struct RepairOptions {
    /// The packs to read, beside those that no index describes.
    pub read: ReadData,
    /// Move away damaged objects, which do not have the content that was written.
    pub set_aside: bool,
}

/// The findings and actions of a repair, or of a dry run.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Repaired {
    /// Problems that remain with the new indexes: above all files that lost content.
    pub checked: Checked,
    /// Packs that no index described, and that one describes now.
    pub indexed: u64,
    /// Damaged packs: clients store their content again.
    pub damaged: BTreeSet<ObjectHash>,
    /// Bytes of chunks that were copied from damaged packs.
    pub copied_bytes: u64,
    /// Objects that were moved, by their names before.
    pub set_aside: BTreeSet<String>,
}

/// The findings before they are written.
struct Waiting<'a> {
    /// `None` for a dry run.
    signer: Option<&'a mut SigningKey>,
    packs: Vec<IndexedPack>,
    chunks: usize,
    verdicts: Verdicts,
}

impl Waiting<'_> {
    /// Writes an index and verdicts, if they are many or the `last`.
    fn write(&mut self, repository: &Repository, keys: &Keys, now: u32, last: bool) -> Result<()> {
        let Some(signer) = &mut self.signer else {
            // Nothing is written, and memory has a limit.
            self.packs.clear();
            self.verdicts = Verdicts::default();
            return Ok(());
        };
        let is_due = self.packs.len() >= INDEX_PACKS || self.chunks >= INDEX_CHUNKS || last;
        if is_due && !self.packs.is_empty() {
            repository.write_index(&self.packs, Some(signer), now)?;
            self.packs.clear();
            self.chunks = 0;
        }
        if self.verdicts.len() >= VERDICTS || last {
            repository.write_verified(keys, &std::mem::take(&mut self.verdicts), signer, now)?;
        }
        Ok(())
    }
}

impl Repository {
    /// The result that a repair would have, without any change.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::check`].
    pub fn repair_dry(
        &self,
        keys: &Keys,
        options: &RepairOptions,
        seen: &Heads,
        progress: &BackupProgress,
        now: u32,
    ) -> Result<Repaired> {
        let mut repaired = self.make_indexes(keys, None, options, seen, progress, now)?;
        if options.set_aside {
            repaired.set_aside = self.changed_objects(keys, &repaired.damaged, now)?;
        }
        Ok(repaired)
    }

    /// Makes indexes again where they are missing or damaged, and says to all clients which packs
    /// are damaged, so that they store the chunks of these again. On demand, moves damaged objects
    /// away.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::check`]; [`BackupError::Refused`] if the certificate has no role
    /// `prune`.
    pub fn repair(
        &self,
        keys: &Keys,
        (name, mut signer): (&Fingerprint, SigningKey),
        options: &RepairOptions,
        seen: &Heads,
        progress: &Arc<BackupProgress>,
        now: u32,
    ) -> Result<Repaired> {
        self.reader_who_vouches(keys, (name, &mut signer))?;
        let mut repaired =
            self.make_indexes(keys, Some(&mut signer), options, seen, progress, now)?;
        if !options.set_aside {
            return Ok(repaired);
        }
        let changed = self.changed_objects(keys, &repaired.damaged, now)?;
        let packs = changed.iter().filter_map(|name| crate::pack::pack_of_name(name)).collect();
        repaired.copied_bytes =
            self.copy_readable(keys, &packs, &Arc::new(Mutex::new(signer)), progress, now)?;
        for name in changed {
            if self.set_aside(&name)? {
                repaired.set_aside.insert(name);
            }
        }
        Ok(repaired)
    }

    fn make_indexes(
        &self,
        keys: &Keys,
        signer: Option<&mut SigningKey>,
        options: &RepairOptions,
        seen: &Heads,
        progress: &BackupProgress,
        now: u32,
    ) -> Result<Repaired> {
        let mut repaired = Repaired::default();
        let (verified, _) = self.verified(keys, now)?;
        let mut waiting =
            Waiting { signer, packs: Vec::new(), chunks: 0, verdicts: Verdicts::default() };
        let mut found = |found: Found<'_>| {
            match found {
                Found::Good(_) => {}
                Found::Adopted(pack) => {
                    repaired.indexed += 1;
                    waiting.chunks += pack.chunks.len();
                    waiting.verdicts.good.insert(pack.hash, pack.lines_hash());
                    waiting.packs.push(pack.clone());
                }
                Found::Damaged(hash) => {
                    repaired.damaged.insert(hash);
                    if !verified.damaged().contains(&hash) {
                        waiting.verdicts.damaged.insert(hash);
                    }
                }
            }
            waiting.write(self, keys, now, false)
        };
        // A pack of another length is damaged.
        let also = |bytes: u64, known: &[Described]| known.iter().any(|one| one.bytes != bytes);
        let plan =
            Examine { read: options.read, seen, also: &also, adopt: true, found: &mut found };
        let checked = self.examine(keys, plan, progress, now)?;
        waiting.write(self, keys, now, true)?;
        repaired.checked = checked;
        let listed = self.listed_packs()?;
        let known = verified.damaged().iter().filter(|pack| listed.get(pack).is_some());
        repaired.damaged.extend(known);
        Ok(repaired)
    }

    /// The names of those packs and of all indexes whose content has another hash than their name
    /// says.
    fn changed_objects(
        &self,
        keys: &Keys,
        packs: &BTreeSet<ObjectHash>,
        now: u32,
    ) -> Result<BTreeSet<String>> {
        let mut changed = BTreeSet::new();
        let mut look = |name: String, hash: &ObjectHash, limit| {
            match self.backend().get(&name, limit) {
                Ok(bytes) if ObjectHash::of(&bytes) == *hash => {}
                Ok(_) | Err(BackupError::Damaged { .. }) => {
                    changed.insert(name);
                }
                Err(BackupError::Missing { .. }) => {}
                // It stays where it is.
                Err(error) if is_of_one_object(&**self.backend(), &error) => {}
                Err(error) => return Err(error),
            }
            Ok(())
        };
        for hash in packs {
            look(pack_name(hash), hash, PACK_BYTES_MAX + SEALED_EXTRA_MAX)?;
        }
        // Only those that could not be read before.
        let mut readable = HashSet::new();
        self.named_indexes(keys, now, &mut |name, _, _| {
            readable.insert(name.to_owned());
            Ok(())
        })?;
        for object in self.backend().list("indexes")? {
            if let Some(hash) = in_folder("indexes", &object.name)
                && !readable.contains(&object.name)
            {
                look(index_name(&hash), &hash, INDEX_BYTES_MAX)?;
            }
        }
        Ok(changed)
    }

    /// Copies the chunks of these packs that can be read and have no good copy in another. Returns
    /// the number of bytes.
    fn copy_readable(
        &self,
        keys: &Keys,
        packs: &HashSet<ObjectHash>,
        signer: &Arc<Mutex<SigningKey>>,
        progress: &Arc<BackupProgress>,
        now: u32,
    ) -> Result<u64> {
        if packs.is_empty() {
            return Ok(0);
        }
        let listed = self.listed_packs()?;
        let (mut good, mut all) = (self.empty_source(keys)?, self.empty_source(keys)?);
        self.indexes(keys, now, &mut |pack, _| {
            all.add(pack)?;
            if listed.get(&pack.hash).is_some() && !packs.contains(&pack.hash) {
                good.add(pack)?;
            }
            Ok(())
        })?;
        good.merge()?;
        all.merge()?;
        let (mut sink, verdicts) = self.copying(keys, signer, progress, now)?;
        let store = Arc::clone(sink.store());
        self.each_chunk(keys, packs, now, &mut |_, kind, id| {
            progress.go_on()?;
            match copy(kind, id, &good, &all, &mut sink) {
                // Unreadable content is lost, and was reported.
                Ok(_) | Err(BackupError::Damaged { .. } | BackupError::Missing { .. }) => Ok(()),
                Err(error) if !store.has_failed() && all.is_of_one_object(&error) => Ok(()),
                Err(error) => Err(error),
            }
        })?;
        sink.finish()?;
        self.write_verified(keys, &verdicts.lock(), &mut signer.lock(), now)?;
        Ok(store.progress.new_bytes.load(std::sync::atomic::Ordering::Relaxed))
    }

    /// Moves an object to another folder. False if it stays: another one of its name is there
    /// already, or it is too large.
    fn set_aside(&self, name: &str) -> Result<bool> {
        let limit = INDEX_BYTES_MAX.max(PACK_BYTES_MAX + SEALED_EXTRA_MAX);
        let bytes = match self.backend().get(name, limit) {
            // Nothing of this program is so large. It does no harm where it is.
            Err(BackupError::Damaged { .. }) => return Ok(false),
            bytes => bytes?,
        };
        let aside = format!("{SET_ASIDE}/{name}");
        match self.backend().put(&aside, &[&bytes]) {
            Ok(()) => {}
            Err(BackupError::Exists { .. }) if self.backend().get(&aside, u64::MAX)? == bytes => {}
            Err(BackupError::Exists { .. }) => return Ok(false),
            Err(error) => return Err(error),
        }
        self.backend().sync()?;
        self.backend().delete(name)?;
        Ok(true)
    }
}
