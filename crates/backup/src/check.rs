//! Checking a repository: every object that the snapshots need is there and unchanged.

pub(crate) mod checked;
pub(crate) mod described;
pub(crate) mod packs;
mod people;
mod trees;

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;
use talaria_message::SigningKey;
use talaria_message::openpgp::Fingerprint;

use crate::backend::is_of_one_object;
use crate::catalog::ListedPacks;
use crate::chain::irregularities;
use crate::check::checked::Checked;
use crate::check::described::{Described, Descriptions, Indexed};
use crate::check::packs::{Adopt, Findings, Found, PackReader};
use crate::check::trees::{Needed, Trees};
use crate::chunks::ReadChunks as _;
use crate::document::DocumentStanding;
use crate::error::Result;
use crate::id::{Id, Kind, ObjectHash};
use crate::listed::Listed;
use crate::located::Present;
use crate::pack::pack_name;
use crate::progress::BackupProgress;
use crate::repository::{Keys, Repository};
use crate::snapshot::Heads;
use crate::source::Source;
use crate::verified::{VERDICTS, Verdicts};

/// The packs that a check reads.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum ReadData {
    /// None: only documents and trees are read.
    #[default]
    No,
    /// All of them.
    All,
    /// Extent `part` of `of` parts, counted from 1. All parts together are all packs.
    Subset {
        /// The part, from 1 on.
        part: u32,
        /// The number of parts.
        of: u32,
    },
}

impl ReadData {
    pub(crate) fn wants(self, pack: &ObjectHash) -> bool {
        match self {
            Self::No => false,
            Self::All => true,
            Self::Subset { part, of } => {
                let [a, b, c, d, ..] = pack.0;
                u32::from_be_bytes([a, b, c, d]) % of == part - 1
            }
        }
    }
}

/// Packs with their lengths.
type Packs = Vec<(ObjectHash, u64)>;

/// The action on each pack that is read.
pub(crate) struct Examine<'a> {
    pub(crate) read: ReadData,
    pub(crate) seen: &'a Heads,
    /// Whether a pack of this length, with these descriptions, is read even if `read` does not want
    /// it.
    pub(crate) also: &'a dyn Fn(u64, &[Described]) -> bool,
    /// Packs that no index describes whose signer may are read, and what is in them counts as
    /// found.
    pub(crate) adopt: bool,
    /// Hears of every pack that was read.
    pub(crate) found: &'a mut (dyn FnMut(Found<'_>) -> Result<()> + Send),
}

impl Examine<'_> {
    /// The packs to read, with their lengths: first those to adopt, then the others.
    fn choose(&self, listed: &ListedPacks, described: &Descriptions) -> (Packs, Packs) {
        let (mut first, mut wanted) = (Vec::new(), Vec::new());
        for (hash, bytes) in listed.iter() {
            let known = described.of(&hash);
            if self.adopt && !known.iter().any(|one| one.is_trusted) {
                first.push((hash, bytes));
            } else if self.read.wants(&hash) || (self.also)(bytes, known) {
                wanted.push((hash, bytes));
            }
        }
        (first, wanted)
    }
}

impl Repository {
    /// Checks documents, indexes and trees, and reads packs as `read` says. `seen` are heads that
    /// the caller has seen before.
    ///
    /// Problems are in the result; an error means that the check could not be done.
    ///
    /// # Errors
    ///
    /// Errors of listing; [`Cancelled`](crate::BackupError::Cancelled);
    /// [`Refused`](crate::BackupError::Refused) if `keys` read no data.
    pub fn check(
        &self,
        keys: &Keys,
        read: ReadData,
        seen: &Heads,
        progress: &BackupProgress,
        now: u32,
    ) -> Result<Checked> {
        let (also, found) = (&|_: u64, _: &[Described]| false, &mut |_: Found<'_>| Ok(()));
        self.examine(keys, Examine { read, seen, also, adopt: false, found }, progress, now)
    }

    /// Like [`Self::check`], and signs for the packs that nobody has signed for: they are whole,
    /// and the reader has computed the identifiers of all their chunks, so other clients may rely
    /// on them.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::check`]; [`Refused`](crate::BackupError::Refused) if the certificate
    /// has no role `prune`. This role may vouch for packs, since it may also delete them.
    pub fn check_and_promote(
        &self,
        keys: &Keys,
        by: (&Fingerprint, &mut SigningKey),
        read: ReadData,
        seen: &Heads,
        progress: &BackupProgress,
        now: u32,
    ) -> Result<Checked> {
        let signer = self.reader_who_vouches(keys, by)?;
        let (mut verdicts, mut promoted) = (Verdicts::default(), 0);
        let mut found = |found: Found<'_>| {
            if let Found::Good(pack) = found {
                verdicts.good.insert(pack.hash, pack.lines_hash());
                promoted += 1;
                if verdicts.len() >= VERDICTS {
                    self.write_verified(keys, &std::mem::take(&mut verdicts), signer, now)?;
                }
            }
            Ok(())
        };
        let also = |_: u64, known: &[Described]| !known.iter().any(|one| one.is_verified);
        let plan = Examine { read, seen, also: &also, adopt: false, found: &mut found };
        let mut checked = self.examine(keys, plan, progress, now)?;
        self.write_verified(keys, &verdicts, signer, now)?;
        checked.promoted = promoted;
        Ok(checked)
    }

    /// Refuses somebody on whose word no client would rely.
    pub(crate) fn reader_who_vouches<'a>(
        &self,
        keys: &Keys,
        (name, signer): (&Fingerprint, &'a mut SigningKey),
    ) -> Result<&'a mut SigningKey> {
        self.refuse_without_role_prune(name)?;
        // Says so before anything is read.
        self.empty_source(keys)?;
        Ok(signer)
    }

    pub(crate) fn examine(
        &self,
        keys: &Keys,
        plan: Examine<'_>,
        progress: &BackupProgress,
        now: u32,
    ) -> Result<Checked> {
        let mut checked = Checked::default();
        let snapshots = self.check_documents(keys, plan.seen, &mut checked, now)?;
        let (verified, unreadable) = self.verified(keys, now)?;
        checked.add_errors(&unreadable);
        let listed = self.listed_packs()?;
        let mut source = self.empty_source(keys)?;
        let Indexed { described, mut bad, missing } =
            self.indexed(keys, (&listed, &verified), &mut source, &mut checked, now)?;
        checked.packs = listed.len() as u64;
        let unindexed = listed.iter().filter(|(hash, _)| described.of(hash).is_empty());
        checked.unindexed = unindexed.count() as u64;
        let (first, wanted) = plan.choose(&listed, &described);
        let Examine { found: hear, .. } = plan;
        let reader = self.empty_source(keys)?;
        let findings = Findings { hear, checked: &mut checked, bad: &mut bad, source: &mut source };
        let packs = PackReader {
            backend: &**self.backend(),
            source: &reader,
            keys,
            described: &described,
            progress,
            findings: Mutex::new(findings),
        };
        packs.read(&first, Adopt::Yes)?;
        packs.read(&wanted, Adopt::No)?;
        drop(reader);
        source.merge()?;
        let lost = self.lost(keys, &bad, &source, progress, now)?;
        let trees = Trees {
            backend: &**self.backend(),
            source: &source,
            lost: &lost,
            hit: Present::new(Arc::clone(self.scratch())),
            checked: &mut checked,
            progress,
        };
        let needed = trees.check_all(&snapshots)?;
        for pack in self.needed_packs(keys, &missing, &lost, &needed, now)? {
            checked.add(pack_name(&pack), "an index names it, and it is missing");
        }
        Ok(checked)
    }

    /// Checks keys, snapshots and tombstones. Returns the snapshots.
    fn check_documents(
        &self,
        keys: &Keys,
        seen: &Heads,
        checked: &mut Checked,
        now: u32,
    ) -> Result<Vec<Listed>> {
        keys.missing().iter().for_each(|error| checked.add_error(error));
        self.check_people(checked)?;
        let (snapshots, forgotten, unreadable) = self.survey(keys, now)?;
        checked.add_errors(&unreadable);
        for irregularity in irregularities(&snapshots, &forgotten, seen) {
            checked.add("snapshots", irregularity.to_string());
        }
        for Listed { id, standing, .. } in &snapshots {
            if let DocumentStanding::Foreign(why) = standing {
                checked.add(format!("snapshots/{id}"), why);
            }
        }
        Ok(snapshots)
    }

    /// The chunks of bad packs of which no copy is good.
    fn lost(
        &self,
        keys: &Keys,
        bad: &HashSet<ObjectHash>,
        source: &Source,
        progress: &BackupProgress,
        now: u32,
    ) -> Result<Present> {
        let mut lost = Present::new(Arc::clone(self.scratch()));
        self.each_chunk(keys, bad, now, &mut |_, kind, id| {
            progress.go_on()?;
            if !lost.contains(id)? {
                match source.read(kind, id) {
                    Ok(_) => {}
                    Err(error)
                        if error.is_of_storage()
                            && !is_of_one_object(&**self.backend(), &error) =>
                    {
                        return Err(error);
                    }
                    Err(_) => {
                        lost.insert(id)?;
                    }
                }
            }
            Ok(())
        })?;
        lost.merge()?;
        Ok(lost)
    }

    /// The missing packs that have lost chunks which snapshots need.
    fn needed_packs(
        &self,
        keys: &Keys,
        missing: &HashSet<ObjectHash>,
        lost: &Present,
        needed: &Needed,
        now: u32,
    ) -> Result<BTreeSet<ObjectHash>> {
        let mut packs = BTreeSet::new();
        self.each_chunk(keys, missing, now, &mut |pack, kind, id| {
            if !packs.contains(pack) && lost.contains(id)? && needed.has(kind, id)? {
                packs.insert(*pack);
            }
            Ok(())
        })?;
        Ok(packs)
    }

    /// Calls `each` with all chunks that indexes name in some packs.
    pub(crate) fn each_chunk(
        &self,
        keys: &Keys,
        packs: &HashSet<ObjectHash>,
        now: u32,
        each: &mut dyn FnMut(&ObjectHash, Kind, &Id) -> Result<()>,
    ) -> Result<()> {
        if packs.is_empty() {
            return Ok(());
        }
        self.indexes(keys, now, &mut |pack, _| {
            let chunks = pack.chunks.iter().filter(|_| packs.contains(&pack.hash));
            chunks.into_iter().try_for_each(|chunk| each(&pack.hash, chunk.kind, &chunk.id))
        })
        .map(|_| ())
    }
}
