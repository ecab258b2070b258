//! Snapshots of a log in a folder: signing them, and writing the files that show them.

use std::io::{self, Write};
use std::path::Path;

use super::error::LogError;
use super::folder::LogFolder;
use crate::log::draft::Maker;
use crate::log::error::DraftError;
use crate::name::EntryId;
use crate::record::Signed;
use crate::snapshot::Snapshot;
use crate::snapshot_file::{end_openings, write_opening, write_start};

/// The content of the file of a snapshot.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SnapshotWritten {
    /// What the owners have signed.
    pub snapshot: Snapshot,
    /// The number of objects, deleted ones included.
    pub objects: usize,
    /// The number of deletable values that are beside them, and of those that are not here or are
    /// deleted.
    pub values: (u64, u64),
}

impl LogFolder {
    /// Writes a snapshot of all that this node has seen, by the owner of `maker`, at `now_ms` in
    /// milliseconds since 1970.
    ///
    /// # Errors
    ///
    /// [`LogError::Draft`] if the log does not allow it; the errors of [`Self::append`].
    pub fn put_snapshot(&self, maker: &mut Maker<'_>, now_ms: u64) -> Result<EntryId, LogError> {
        maker.chain.instance = self.instance();
        self.append(|log| {
            let entry = log.draft_snapshot(maker.chain, now_ms)?;
            let entry = log.admit_own(entry).map_err(DraftError::from)?;
            let id = entry.id;
            Ok((vec![maker.sign_alone(entry, log.id(), now_ms)?], id))
        })
    }

    /// Writes the file of a snapshot that is in force to `out`, called `name`. It has deletable
    /// values that are here and not deleted now. Other threads wait while the state is computed.
    ///
    /// # Errors
    ///
    /// [`LogError::NoSnapshot`], [`LogError::SnapshotNotInForce`] or [`LogError::BadSnapshot`];
    /// [`LogError::Io`] and [`LogError::Damaged`].
    pub fn write_snapshot(
        &self,
        id: &EntryId,
        out: &mut impl Write,
        name: &Path,
    ) -> Result<SnapshotWritten, LogError> {
        let (covered, evidence) = self.read(|log| {
            let info = log.snapshot(id).ok_or(LogError::NoSnapshot { id: *id })?;
            let (agreed, needed) = (info.agreed.len(), log.genesis().threshold);
            let evidence = log.snapshot_evidence(id);
            if !info.is_in_force {
                return Err(LogError::SnapshotNotInForce { id: *id, agreed, needed });
            }
            let covered = log.covered_by(id).ok_or(LogError::NoSnapshot { id: *id })?;
            let right = covered.and_then(|covered| {
                info.snapshot.check(&covered.snapshot)?;
                Ok(covered)
            });
            let covered = right.map_err(|source| LogError::BadSnapshot { id: *id, source })?;
            Ok((covered, evidence.ok_or(LogError::SnapshotEvidence { id: *id })?))
        })??;
        let signed = |id: &EntryId| self.signed(id)?.ok_or(LogError::Failed);
        let genesis = signed(&self.id())?;
        let evidence = evidence.iter().map(signed).collect::<Result<Vec<Signed>, _>>()?;
        let failed =
            |source: io::Error| LogError::Io { action: "write", path: name.to_owned(), source };
        write_start(out, &genesis, &evidence, &covered.state).map_err(failed)?;
        let mut committed = covered.state.committed();
        committed.sort_unstable_by_key(|(commitment, id)| (commitment.hash, *id));
        let (mut written, mut absent) = (0, 0);
        // Entries with the same commitment have the same value.
        for same in committed.chunk_by(|(one, _), (other, _)| one == other) {
            let mut opening = None;
            for (_, id) in same {
                if opening.is_none() {
                    opening = signed(id)?.opening;
                }
            }
            if let Some(opening) = opening {
                write_opening(out, &opening).map_err(failed)?;
                written += 1;
            } else {
                absent += 1;
            }
        }
        end_openings(out).and_then(|()| out.flush()).map_err(failed)?;
        let (objects, values) = (covered.state.contents().count(), (written, absent));
        Ok(SnapshotWritten { snapshot: covered.snapshot, objects, values })
    }
}
