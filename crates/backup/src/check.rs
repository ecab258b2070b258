//! Checking a repository: every object that the snapshots need is there and unchanged.

use std::collections::{BTreeSet, HashSet};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use talaria_message::SigningKey;
use talaria_message::openpgp::Fingerprint;

use crate::chain::irregularities;
use crate::chunks::ReadChunks as _;
use crate::document::DocumentStanding;
use crate::entry::{Node, Part};
use crate::error::{BackupError, Result};
use crate::id::{Id, Kind, ObjectHash};
use crate::index::IndexedPack;
use crate::listed::Listed;
use crate::located::Present;
use crate::opener::WholePack;
use crate::pack::pack_name;
use crate::progress::BackupProgress;
use crate::repository::{Keys, Repository};
use crate::sink::lock;
use crate::snapshot::Heads;
use crate::source::Source;
use crate::text::{Place, escaped};
use crate::tree::{ContentParts, Tree};
use crate::verified::{VERDICTS, Verdicts};

/// The maximum number of files that are named as touched by damage.
const NAMED_MAX: usize = 1000;

/// The packs that a check reads.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum ReadData {
    /// None: only documents and trees are read.
    #[default]
    No,
    /// All of them.
    All,
    /// Part `part` of `of` parts, counted from 1. All parts together are all packs.
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

/// Something that is wrong in a repository.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Problem {
    /// The object, or the snapshot and path.
    pub object: String,
    /// Description of the problem.
    pub why: String,
}

/// The result of a check.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Checked {
    /// Snapshots whose trees were read.
    pub snapshots: u64,
    /// Entries of these trees; a tree that several snapshots have counts once.
    pub entries: u64,
    /// Packs that the storage lists.
    pub packs: u64,
    /// Packs that were read to their end.
    pub packs_read: u64,
    /// Octets of these packs.
    pub bytes_read: u64,
    /// Packs that no index names: left by a run that was interrupted.
    pub unindexed: u64,
    /// Packs that were signed for, so that all clients may rely on them.
    pub promoted: u64,
    /// The problems.
    pub problems: BTreeSet<Problem>,
    /// More files are touched by damage than are named.
    pub more: u64,
}

impl Checked {
    fn add(&mut self, object: impl Into<String>, why: impl Into<String>) {
        self.problems.insert(Problem { object: object.into(), why: why.into() });
    }

    fn add_error(&mut self, error: &BackupError) {
        match error {
            BackupError::Damaged { name, why } => self.add(name, why),
            BackupError::Missing { name } => self.add(name, "it is missing"),
            BackupError::Newer { name, found } => {
                self.add(name, format!("its format is newer: {found}"));
            }
            BackupError::Message { name, source } => self.add(name, source.to_string()),
            error => self.add("repository", error.to_string()),
        }
    }
}

/// The lines of one index about a pack.
pub(crate) struct Described {
    pack: ObjectHash,
    /// The length of the pack.
    pub(crate) bytes: u64,
    /// See [`IndexedPack::lines_hash`].
    lines: [u8; 32],
    /// Somebody signed the index who may.
    is_trusted: bool,
    /// A reader has signed that it is true.
    is_verified: bool,
}

/// A pack that was read to its end.
pub(crate) enum Found<'a> {
    /// It is whole, and all its identifiers are right.
    Good(&'a IndexedPack),
    /// As [`Self::Good`], and no index describes it whose signer may.
    Adopted(&'a IndexedPack),
    /// It differs from what was written, or has a chunk that does not match its name.
    Damaged(ObjectHash),
}

/// The action on each pack that is read.
pub(crate) struct Examine<'a> {
    pub(crate) read: ReadData,
    pub(crate) seen: &'a Heads,
    /// Whether a pack of this length, with these descriptions, is read even if `read` does not want it.
    pub(crate) also: &'a dyn Fn(u64, &[Described]) -> bool,
    /// Packs that no index describes whose signer may are read, and what is in them counts as found.
    pub(crate) adopt: bool,
    /// Hears of every pack that was read.
    pub(crate) found: &'a mut (dyn FnMut(Found<'_>) -> Result<()> + Send),
}

impl Repository {
    /// Checks documents, indexes and trees, and reads packs as `read` says. `seen` are heads that the caller has
    /// seen before.
    ///
    /// Problems are in the result; an error means that the check could not be done.
    ///
    /// # Errors
    ///
    /// Errors of listing; [`BackupError::Cancelled`]; [`BackupError::Refused`] if `keys` read no data.
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

    /// Like [`Self::check`], and signs for the packs that nobody has signed for: they are whole, and the reader has
    /// computed the identifiers of all their chunks, so other clients may rely on them.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::check`]; [`BackupError::Refused`] if the certificate has no role `prune`. This role may
    /// vouch for packs, since it may also delete them.
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
        let Examine { read, seen, also, adopt, found } = plan;
        let mut checked = Checked::default();
        keys.missing().iter().for_each(|error| checked.add_error(error));
        let (snapshots, forgotten, unreadable) = self.survey(keys, now)?;
        unreadable.iter().for_each(|error| checked.add_error(error));
        for irregularity in irregularities(&snapshots, &forgotten, seen) {
            checked.add("snapshots", irregularity.to_string());
        }
        for Listed { id, standing, .. } in &snapshots {
            if let DocumentStanding::Foreign(why) = standing {
                checked.add(format!("snapshots/{id}"), why);
            }
        }
        let (verified, unreadable) = self.verified(keys, now)?;
        unreadable.iter().for_each(|error| checked.add_error(error));
        let listed = self.listed_packs()?;
        let mut source = self.empty_source(keys)?;
        // Packs that are not as an index describes them. Only of these, the chunks are looked at one by one.
        let (mut bad, mut missing) = (HashSet::new(), HashSet::new());
        let mut described = Vec::new();
        let unreadable = self.indexes(keys, now, &mut |pack, standing| {
            source.add(pack)?;
            match listed.get(&pack.hash) {
                None => {
                    // A prune deletes packs, and leaves indexes that name others, too.
                    missing.insert(pack.hash);
                    bad.insert(pack.hash);
                }
                Some(bytes) if bytes != pack.bytes => {
                    let why = format!("it has {bytes} octets, and an index says {}", pack.bytes);
                    checked.add(pack_name(&pack.hash), why);
                    bad.insert(pack.hash);
                }
                Some(_) => {}
            }
            if let DocumentStanding::Foreign(why) = standing {
                checked.add("indexes", format!("an index does not count: {why}"));
            }
            let is_verified = verified.covers(pack)?;
            described.push(Described {
                pack: pack.hash,
                bytes: pack.bytes,
                lines: pack.lines_hash(),
                is_trusted: standing.is_trusted(),
                is_verified,
            });
            Ok(())
        })?;
        unreadable.iter().for_each(|error| checked.add_error(error));
        described.sort_unstable_by_key(|one| one.pack);
        let known = |pack: &ObjectHash| {
            let from = described.partition_point(|one| one.pack < *pack);
            let until = from + described[from..].partition_point(|one| one.pack == *pack);
            &described[from..until]
        };
        checked.packs = listed.len() as u64;
        let is_unnamed = |pack: &ObjectHash| known(pack).is_empty();
        checked.unindexed = listed.iter().filter(|(hash, _)| is_unnamed(hash)).count() as u64;
        let (mut first, mut wanted) = (Vec::new(), Vec::new());
        for (hash, bytes) in listed.iter() {
            let known = known(&hash);
            if adopt && !known.iter().any(|one| one.is_trusted) {
                first.push((hash, bytes));
            } else if read.wants(&hash) || also(bytes, known) {
                wanted.push((hash, bytes));
            }
        }
        let reader = self.empty_source(keys)?;
        let found = Mutex::new((found, &mut checked, &mut bad, &mut source));
        let judge = |hash: &ObjectHash, bytes: u64, pack: Result<WholePack>, adopt: bool| {
            let odd = |pack: &IndexedPack| {
                let lines = pack.lines_hash();
                known(hash).iter().any(|one| one.lines != lines)
            };
            let (why, is_bad) = match pack {
                Err(error @ (BackupError::Storage { .. } | BackupError::Refused(_))) => {
                    return Err(error);
                }
                Err(error) => {
                    // Without the key of its epoch, nobody can tell whether it is damaged.
                    if !matches!(error, BackupError::Message { .. }) {
                        (lock(&found).0)(Found::Damaged(*hash))?;
                    }
                    (Some(error), true)
                }
                Ok(pack) => {
                    let damaged = pack.damaged_chunks(&keys.identifiers).len();
                    let is_odd = odd(&pack.indexed);
                    let why = match (damaged, is_odd) {
                        (0, false) => None,
                        (0, true) => Some("an index names chunks that it does not have".to_owned()),
                        (1, _) => Some("1 of its chunks is not what its name says".to_owned()),
                        (count, _) => {
                            Some(format!("{count} of its chunks are not what their names say"))
                        }
                    };
                    let (hear, _, _, source) = &mut *lock(&found);
                    match (damaged, adopt) {
                        (0, false) => hear(Found::Good(&pack.indexed))?,
                        (0, true) => {
                            source.add(&pack.indexed)?;
                            hear(Found::Adopted(&pack.indexed))?;
                        }
                        _ => hear(Found::Damaged(*hash))?,
                    }
                    (
                        why.map(|why| BackupError::damaged(pack_name(hash), why)),
                        damaged > 0 || is_odd,
                    )
                }
            };
            BackupProgress::add(&progress.packs, 1);
            BackupProgress::add(&progress.read_bytes, bytes);
            let (_, checked, bad, _) = &mut *lock(&found);
            checked.packs_read += 1;
            checked.bytes_read += bytes;
            if let Some(why) = why {
                checked.add_error(&why);
            }
            if is_bad {
                bad.insert(*hash);
            }
            Ok(())
        };
        read_packs(&reader, &first, progress, &|hash, bytes, pack| judge(hash, bytes, pack, true))?;
        read_packs(&reader, &wanted, progress, &|hash, bytes, pack| {
            judge(hash, bytes, pack, false)
        })?;
        drop(reader);
        source.merge()?;
        // A chunk is lost if no copy of it is good.
        let mut lost = Present::new(Arc::clone(self.scratch()));
        self.each_chunk(keys, &bad, now, &mut |_, kind, id| {
            progress.go_on()?;
            if !lost.contains(id)? {
                match source.read(kind, id) {
                    Ok(_) => {}
                    Err(error @ BackupError::Storage { .. }) => return Err(error),
                    Err(_) => {
                        lost.insert(id)?;
                    }
                }
            }
            Ok(())
        })?;
        lost.merge()?;
        let mut trees = Trees {
            source: &source,
            lost: &lost,
            hit: Present::new(Arc::clone(self.scratch())),
            checked: &mut checked,
            progress,
        };
        let (mut roots, before) = (HashSet::new(), trees.checked.problems.len());
        for Listed { id, snapshot, .. } in &snapshots {
            trees.checked.snapshots += 1;
            if roots.insert(snapshot.root.id) {
                trees.check(id, snapshot.root)?;
            }
        }
        let hit = trees.hit;
        let has_lost_trees = checked.problems.len() > before;
        let mut needed = BTreeSet::new();
        self.each_chunk(keys, &missing, now, &mut |pack, kind, id| {
            let is_hit =
                || Ok::<_, BackupError>(kind != Kind::Data && has_lost_trees || hit.contains(id)?);
            if !needed.contains(pack) && lost.contains(id)? && is_hit()? {
                needed.insert(*pack);
            }
            Ok(())
        })?;
        for pack in needed {
            checked.add(pack_name(&pack), "an index names it, and it is missing");
        }
        Ok(checked)
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

/// Gets a pack, its length, and the result of reading it.
type EachPack<'a> = dyn Fn(&ObjectHash, u64, Result<WholePack>) -> Result<()> + Sync + 'a;

/// Reads packs, on all cores.
fn read_packs(
    source: &Source,
    wanted: &[(ObjectHash, u64)],
    progress: &BackupProgress,
    each: &EachPack<'_>,
) -> Result<()> {
    let next = AtomicUsize::new(0);
    let work = || -> Result<()> {
        while let Some((hash, bytes)) = wanted.get(next.fetch_add(1, Ordering::Relaxed)) {
            progress.go_on()?;
            each(hash, *bytes, source.read_pack(hash))?;
        }
        Ok(())
    };
    let threads = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads.min(wanted.len())).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("no worker panics"))
    })
}

/// Reads trees and names their missing chunks.
struct Trees<'a> {
    source: &'a Source,
    lost: &'a Present,
    /// Lost chunks that a file needs.
    hit: Present,
    checked: &'a mut Checked,
    progress: &'a BackupProgress,
}

impl Trees<'_> {
    fn check(&mut self, id: &Id, root: crate::snapshot::Root) -> Result<()> {
        for entry in Tree::new(self.source, root).entries() {
            self.progress.go_on()?;
            let entry = match entry {
                Ok(entry) => entry,
                Err(error @ BackupError::Storage { .. }) => return Err(error),
                Err(error) => {
                    self.checked.add_error(&error);
                    self.checked
                        .add(format!("snapshots/{id}"), "its tree cannot be read to the end");
                    return Ok(());
                }
            };
            self.checked.entries += 1;
            BackupProgress::add(&self.progress.entries, 1);
            let Node::File { content, .. } = entry.node else { continue };
            // All parts are looked at, so that each pack that the file lacks is named.
            let mut why: Option<String> = None;
            for part in ContentParts::new(self.source, content) {
                let wrong = match part {
                    Err(error) => Some(error.to_string()),
                    Ok(Part::Data { id, .. }) => self.wrong(&id)?,
                    Ok(_) => None,
                };
                why = why.or(wrong);
            }
            let Some(why) = why else { continue };
            if self.checked.problems.len() < NAMED_MAX {
                let path = escaped(&entry.path, Place::Last);
                self.checked.add(format!("snapshots/{id}: {path}"), why);
            } else {
                self.checked.more += 1;
            }
        }
        Ok(())
    }

    /// The problem of a chunk that a file needs.
    fn wrong(&mut self, id: &Id) -> Result<Option<String>> {
        if self.lost.contains(id)? {
            self.hit.insert(id)?;
            return Ok(Some(format!("its chunk {id} is lost")));
        }
        let is_named = self.source.contains(id)?;
        Ok((!is_named).then(|| format!("no index names its chunk {id}")))
    }
}
