//! The key of the checkpointer of a new log, and the witnesses that genesis names.

use std::path::{Path, PathBuf};

use talaria_disk::remove;

use super::error::LogError;
use super::folder::LogFolder;
use super::witness_folder::{
    WitnessError, make_note_key, public_path, read_public_note_key, write_note_key,
};
use crate::genesis::{GRACE_S, Genesis, WITNESSES_MAX, Witness};
use crate::note::{NoteKey, NoteKind, NoteSecret, origin};
use crate::record::Signed;

/// A checkpointer that is made with its log.
#[derive(Clone, Copy, Debug)]
pub struct NewCheckpointer<'a> {
    /// The new file for the secret key; the public one is beside it, at [`public_path`].
    pub key: &'a Path,
    /// Files with the public keys of the witnesses.
    pub witnesses: &'a [PathBuf],
    /// The number of witnesses who must cosign a checkpoint: a majority. The smallest one by
    /// default.
    pub cosigners: Option<u8>,
    /// The time, in seconds, within which a checkpoint must cover the entries of a key that has
    /// expired. [`GRACE_S`] by default.
    pub grace_s: Option<u32>,
}

impl NewCheckpointer<'_> {
    /// Makes a log in `folder`, with a checkpointer. `sign` makes its first entry of the genesis
    /// that names the checkpointer and the witnesses. Returns the public key of the checkpointer,
    /// too.
    ///
    /// # Errors
    ///
    /// [`WitnessError`] for the keys; the errors of `sign` and of [`LogFolder::create`]. No key and
    /// no log is left then.
    pub fn create_log<E: From<LogError> + From<WitnessError>>(
        &self,
        folder: &Path,
        genesis: Genesis,
        sign: impl FnOnce(Genesis) -> Result<Signed, E>,
    ) -> Result<(LogFolder, NoteKey), E> {
        let (genesis, key) = self.name_in(genesis)?;
        let genesis = sign(genesis)?;
        let name = origin(genesis.id);
        let key = key.named(&name).ok_or(WitnessError::Name(name))?;
        // The key is on disk before the log: without it, the log would have no checkpoints for
        // ever.
        write_note_key(self.key, &key)?;
        let made = LogFolder::create(folder, &genesis);
        let is_another = matches!(made, Err(LogError::Occupied { .. } | LogError::InUse { .. }));
        if is_another || !LogFolder::is_there(folder) {
            let _ = remove(self.key);
            let _ = remove(&public_path(self.key));
        }
        Ok((made?, key.public()))
    }

    /// Names the checkpointer, with a new key, and the witnesses in genesis.
    fn name_in(&self, genesis: Genesis) -> Result<(Genesis, NoteSecret), WitnessError> {
        let mut witnesses: Vec<Witness> = Vec::new();
        for path in self.witnesses {
            let found = read_public_note_key(path)?;
            if found.kind != NoteKind::Timed {
                return Err(WitnessError::NotAWitness { path: path.clone() });
            }
            if witnesses.iter().all(|other| other.key != found.key) {
                witnesses.push(Witness { name: found.name, key: found.key });
            }
        }
        let count = witnesses.len();
        if count > WITNESSES_MAX {
            return Err(WitnessError::Many);
        }
        // The name follows from the log, which does not exist yet.
        let key = make_note_key("checkpointer", NoteKind::Plain)?;
        let mut genesis = genesis.with_checkpointer(key.public().key, witnesses);
        let majority = genesis.witness_threshold;
        if let Some(wanted) = self.cosigners {
            if wanted < majority || usize::from(wanted) > count {
                return Err(WitnessError::Cosigners { wanted, majority, count });
            }
            genesis.witness_threshold = wanted;
        }
        genesis.grace_s = self.grace_s.unwrap_or(GRACE_S);
        Ok((genesis, key))
    }
}
