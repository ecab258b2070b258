//! Reading packs to their end, on all cores.

use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use rustix::io::Errno;

use crate::backend::{Backend, is_of_one_object};
use crate::check::checked::Checked;
use crate::check::described::Descriptions;
use crate::error::{BackupError, Result};
use crate::id::ObjectHash;
use crate::index::IndexedPack;
use crate::opener::WholePack;
use crate::pack::pack_name;
use crate::progress::BackupProgress;
use crate::repository::Keys;
use crate::source::Source;

/// The error of a disk that cannot read a sector.
const EIO: i32 = Errno::IO.raw_os_error();

/// A pack that was read to its end.
pub(crate) enum Found<'a> {
    /// It is whole, and all its identifiers are right.
    Good(&'a IndexedPack),
    /// As [`Self::Good`], and no index describes it whose signer may.
    Adopted(&'a IndexedPack),
    /// It differs from what was written, has a chunk that does not match its name, or is on a disk
    /// that cannot read it.
    Damaged(ObjectHash),
}

/// Whether the chunks of a pack count as found although no index describes it whose signer may.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Adopt {
    No,
    Yes,
}

/// Reads packs and notes what it finds.
pub(super) struct PackReader<'a> {
    pub(super) backend: &'a dyn Backend,
    pub(super) source: &'a Source,
    pub(super) keys: &'a Keys,
    pub(super) described: &'a Descriptions,
    pub(super) progress: &'a BackupProgress,
    pub(super) findings: Mutex<Findings<'a>>,
}

/// The findings of all threads.
pub(super) struct Findings<'a> {
    /// Hears of every pack that was read.
    pub(super) hear: &'a mut (dyn FnMut(Found<'_>) -> Result<()> + Send),
    pub(super) checked: &'a mut Checked,
    /// Packs that are not as an index describes them.
    pub(super) bad: &'a mut HashSet<ObjectHash>,
    /// Gets the chunks of adopted packs.
    pub(super) source: &'a mut Source,
}

impl PackReader<'_> {
    /// Reads packs, on all cores.
    pub(super) fn read(&self, wanted: &[(ObjectHash, u64)], adopt: Adopt) -> Result<()> {
        let next = AtomicUsize::new(0);
        let work = || -> Result<()> {
            while let Some((hash, bytes)) = wanted.get(next.fetch_add(1, Ordering::Relaxed)) {
                self.progress.go_on()?;
                self.note(hash, *bytes, self.source.read_pack(hash), adopt)?;
            }
            Ok(())
        };
        let threads = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        std::thread::scope(|scope| {
            let workers: Vec<_> =
                (0..threads.min(wanted.len())).map(|_| scope.spawn(work)).collect();
            workers.into_iter().try_for_each(|worker| worker.join().expect("no worker panics"))
        })
    }

    /// Notes the result of reading a pack of this length.
    fn note(
        &self,
        hash: &ObjectHash,
        bytes: u64,
        pack: Result<WholePack>,
        adopt: Adopt,
    ) -> Result<()> {
        let (why, is_bad) = match pack {
            Err(error @ BackupError::Refused(_)) => return Err(error),
            Err(error) if error.is_of_storage() => {
                if !is_of_one_object(self.backend, &error) {
                    return Err(error);
                }
                // Otherwise nothing is known of its content, so nobody says that it is damaged.
                if is_of_medium(&error) {
                    (self.findings.lock().hear)(Found::Damaged(*hash))?;
                }
                (Some(error), true)
            }
            Err(error) => {
                // Without the key of its epoch, nobody can tell whether it is damaged.
                if !matches!(error, BackupError::Message { .. }) {
                    (self.findings.lock().hear)(Found::Damaged(*hash))?;
                }
                (Some(error), true)
            }
            Ok(pack) => self.judge(hash, &pack, adopt)?,
        };
        BackupProgress::add(&self.progress.packs, 1);
        BackupProgress::add(&self.progress.read_bytes, bytes);
        let Findings { checked, bad, .. } = &mut *self.findings.lock();
        checked.packs_read += 1;
        checked.bytes_read += bytes;
        if let Some(why) = why {
            checked.add_error(&why);
        }
        if is_bad {
            bad.insert(*hash);
        }
        Ok(())
    }

    /// The problem of a pack that could be read, and whether it differs from a description.
    fn judge(
        &self,
        hash: &ObjectHash,
        pack: &WholePack,
        adopt: Adopt,
    ) -> Result<(Option<BackupError>, bool)> {
        let damaged = pack.damaged_chunks(&self.keys.identifiers).len();
        let lines = pack.indexed.lines_hash();
        let is_odd = self.described.of(hash).iter().any(|one| one.lines != lines);
        let why = match (damaged, is_odd) {
            (0, false) => None,
            (0, true) => Some("an index names chunks that it does not have".to_owned()),
            (1, _) => Some("1 of its chunks is not what its name says".to_owned()),
            (count, _) => Some(format!("{count} of its chunks are not what their names say")),
        };
        let Findings { hear, source, .. } = &mut *self.findings.lock();
        match (damaged, adopt) {
            (0, Adopt::No) => hear(Found::Good(&pack.indexed))?,
            (0, Adopt::Yes) => {
                source.add(&pack.indexed)?;
                hear(Found::Adopted(&pack.indexed))?;
            }
            _ => hear(Found::Damaged(*hash))?,
        }
        let why = why.map(|why| BackupError::damaged(pack_name(hash), why));
        Ok((why, damaged > 0 || is_odd))
    }
}

/// Whether a disk says that it cannot read an object.
fn is_of_medium(error: &BackupError) -> bool {
    matches!(error, BackupError::Storage { source, .. } if source.raw_os_error() == Some(EIO))
}
