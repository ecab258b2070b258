//! What a prune does where snapshots are missing: nobody can tell what these need.

use std::collections::{BTreeSet, HashSet};

use talaria_message::openpgp::Fingerprint;

use crate::chain::{Evidence, Irregularity, irregularities};
use crate::document::DocumentStanding;
use crate::error::{BackupError, Result};
use crate::forgotten::Forgotten;
use crate::id::{Id, ObjectHash};
use crate::index::IndexedPack;
use crate::listed::Listed;
use crate::snapshot::Heads;
use crate::verified::Verified;

/// Snapshots that are missing, as clients say, and the packs that they may need.
#[derive(Default)]
pub(crate) struct Gaps {
    /// What is said.
    pub(crate) missing: Vec<Irregularity>,
    /// The clients whose snapshots these are.
    clients: BTreeSet<Fingerprint>,
    /// The packs that stay therefore.
    spared: HashSet<ObjectHash>,
}

impl Gaps {
    /// Looks for missing snapshots, given the heads that the caller has seen.
    ///
    /// # Errors
    ///
    /// [`BackupError::Gap`] if one is missing that this machine has seen, and that is not among
    /// `despite`: a late listing or a half-finished copy of the repository looks like that, too,
    /// and what the snapshot needs would be gone for good. What clients say stops nothing, since a
    /// client may be stolen.
    pub(crate) fn find(
        snapshots: &[Listed],
        forgotten: &Forgotten,
        seen: &Heads,
        despite: &BTreeSet<Id>,
    ) -> Result<Self> {
        let mut gaps = Self::default();
        for found in irregularities(snapshots, forgotten, seen) {
            match &found {
                Irregularity::Missing { id, .. } if despite.contains(id) => {}
                Irregularity::Missing { id, evidence: Evidence::Seen, .. } => {
                    return Err(BackupError::Gap { id: id.to_string(), what: found.to_string() });
                }
                Irregularity::Missing { client: Some(client), .. } => {
                    gaps.clients.insert(client.clone());
                    gaps.missing.push(found);
                }
                Irregularity::Missing { client: None, .. } | Irregularity::Branched { .. } => {}
            }
        }
        Ok(gaps)
    }

    /// Notes the description of a pack. What such a client wrote stays, and what a reader has
    /// confirmed for all clients.
    pub(crate) fn note(
        &mut self,
        pack: &IndexedPack,
        standing: &DocumentStanding,
        verified: &Verified,
    ) -> Result<()> {
        if !self.clients.is_empty()
            && (standing.signer().is_some_and(|signer| self.clients.contains(signer))
                || verified.covers(pack)?)
        {
            self.spared.insert(pack.hash);
        }
        Ok(())
    }

    /// Notes a pack that no index describes: nobody knows whose it is.
    pub(crate) fn note_unknown(&mut self, pack: &ObjectHash) {
        if !self.clients.is_empty() {
            self.spared.insert(*pack);
        }
    }

    /// Whether a pack stays.
    pub(crate) fn spare(&self, pack: &ObjectHash) -> bool {
        self.spared.contains(pack)
    }
}
