//! Checking a repository: is everything there that the snapshots need, and is it what it was?

use std::collections::{BTreeSet, HashMap, HashSet};
use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::catalog::ListedPacks;
use crate::chain::{Heads, irregularities};
use crate::chunks::ReadChunks as _;
use crate::document::Standing;
use crate::entry::{Node, Part};
use crate::error::{BackupError, Result};
use crate::id::{Id, Kind, ObjectHash};
use crate::index::IndexedPack;
use crate::pack::{Stored, pack_name};
use crate::progress::Progress;
use crate::repository::{Keys, Listed, Repository};
use crate::source::Source;
use crate::text::{Place, escaped};
use crate::tree::{Parts, Tree};

/// The maximum number of files that are named as touched by damage.
const NAMED_MAX: usize = 1000;

/// Which packs a check reads.
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
    fn wants(self, pack: &ObjectHash) -> bool {
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
    /// What is wrong with it.
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
    /// What is wrong.
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
        progress: &Progress,
        now: u32,
    ) -> Result<Checked> {
        let mut checked = Checked::default();
        keys.missing().iter().for_each(|error| checked.add_error(error));
        let (snapshots, forgotten, unreadable) = self.survey(keys, now)?;
        unreadable.iter().for_each(|error| checked.add_error(error));
        for irregularity in irregularities(&snapshots, &forgotten, seen) {
            checked.add("snapshots", irregularity.to_string());
        }
        for Listed { id, standing, .. } in &snapshots {
            if let Standing::Foreign(why) = standing {
                checked.add(format!("snapshots/{id}"), why);
            }
        }
        let listed = self.listed_packs()?;
        let mut source = self.empty_source(keys)?;
        let mut missing: HashMap<ObjectHash, Vec<(Kind, Id)>> = HashMap::new();
        let (mut suspects, mut named) = (HashSet::new(), HashMap::<ObjectHash, Vec<Stored>>::new());
        let unreadable = self.indexes(keys, now, &mut |pack, standing| {
            source.add(pack)?;
            let why = match listed.get(&pack.hash) {
                None => {
                    // A prune deletes packs, and leaves indexes that name others, too.
                    let chunks = pack.chunks.iter().map(|chunk| (chunk.kind, chunk.id));
                    missing.entry(pack.hash).or_default().extend(chunks.clone());
                    suspects.extend(chunks);
                    None
                }
                Some(bytes) if bytes != pack.bytes => {
                    Some(format!("it has {bytes} octets, and an index says {}", pack.bytes))
                }
                Some(_) => None,
            };
            if let Some(why) = why {
                checked.add(pack_name(&pack.hash), why);
                suspects.extend(pack.chunks.iter().map(|chunk| (chunk.kind, chunk.id)));
            }
            if let Standing::Foreign(why) = standing {
                checked.add("indexes", format!("an index does not count: {why}"));
            }
            let chunks = named.entry(pack.hash).or_default();
            if read.wants(&pack.hash) {
                chunks.extend(&pack.chunks);
            }
            Ok(())
        })?;
        source.merge()?;
        unreadable.iter().for_each(|error| checked.add_error(error));
        checked.packs = listed.len() as u64;
        checked.unindexed =
            listed.iter().filter(|(hash, _)| !named.contains_key(hash)).count() as u64;
        read_packs(&source, keys, read, &listed, &named, &mut checked, &mut suspects, progress)?;
        // A chunk is lost if no copy of it is good.
        let lost: HashSet<Id> = suspects
            .into_iter()
            .filter(|(kind, id)| source.read(*kind, id).is_err())
            .map(|(_, id)| id)
            .collect();
        let (mut roots, mut hit) = (HashSet::new(), HashSet::new());
        let before = checked.problems.len();
        for Listed { id, snapshot, .. } in &snapshots {
            checked.snapshots += 1;
            if roots.insert(snapshot.root.id) {
                check_tree(&source, id, snapshot.root, &lost, &mut hit, &mut checked, progress)?;
            }
        }
        let has_lost_trees = checked.problems.len() > before;
        for (pack, chunks) in missing {
            let is_needed = |(kind, id): &(Kind, Id)| {
                lost.contains(id) && (hit.contains(id) || *kind != Kind::Data && has_lost_trees)
            };
            if chunks.iter().any(is_needed) {
                checked.add(pack_name(&pack), "an index names it, and it is missing");
            }
        }
        Ok(checked)
    }
}

/// Reads the packs that are wanted, on all cores.
#[expect(clippy::too_many_arguments, reason = "one step of the check")]
fn read_packs(
    source: &Source,
    keys: &Keys,
    read: ReadData,
    listed: &ListedPacks,
    named: &HashMap<ObjectHash, Vec<Stored>>,
    checked: &mut Checked,
    suspects: &mut HashSet<(Kind, Id)>,
    progress: &Progress,
) -> Result<()> {
    let wanted: Vec<_> = listed.iter().filter(|(hash, _)| read.wants(hash)).collect();
    let next = AtomicUsize::new(0);
    let results = Mutex::new((checked, suspects));
    let work = || -> Result<()> {
        while let Some((hash, bytes)) = wanted.get(next.fetch_add(1, Ordering::Relaxed)) {
            progress.go_on()?;
            let known = named.get(hash).map_or(&[][..], Vec::as_slice);
            let (problem, bad) = match source.read_pack(hash) {
                Err(error @ (BackupError::Storage { .. } | BackupError::Refused(_))) => {
                    return Err(error);
                }
                Err(error) => {
                    (Some(error), known.iter().map(|chunk| (chunk.kind, chunk.id)).collect())
                }
                Ok(pack) => {
                    let damaged: HashSet<Id> =
                        pack.damaged_chunks(&keys.identifiers).into_iter().collect();
                    let bad: Vec<_> = known
                        .iter()
                        .filter(|chunk| damaged.contains(&chunk.id) || !has(&pack.indexed, chunk))
                        .map(|chunk| (chunk.kind, chunk.id))
                        .collect();
                    let why = match (damaged.len(), bad.is_empty()) {
                        (0, true) => None,
                        (0, false) => {
                            Some("an index names chunks that it does not have".to_owned())
                        }
                        (count, _) => {
                            Some(format!("{count} of its chunks are not what their names say"))
                        }
                    };
                    (why.map(|why| BackupError::damaged(pack_name(hash), why)), bad)
                }
            };
            Progress::add(&progress.packs, 1);
            Progress::add(&progress.read_bytes, *bytes);
            let mut results = results.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let (checked, suspects) = &mut *results;
            checked.packs_read += 1;
            checked.bytes_read += bytes;
            if let Some(problem) = problem {
                checked.add_error(&problem);
            }
            suspects.extend(bad);
        }
        Ok(())
    };
    let threads = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("no worker panics"))
    })
}

fn has(pack: &IndexedPack, chunk: &Stored) -> bool {
    pack.chunks.iter().any(|own| own == chunk)
}

/// Reads a tree and names what is not there for it.
fn check_tree(
    source: &Source,
    id: &Id,
    root: crate::snapshot::Root,
    lost: &HashSet<Id>,
    hit: &mut HashSet<Id>,
    checked: &mut Checked,
    progress: &Progress,
) -> Result<()> {
    for entry in Tree::new(source, root).entries() {
        progress.go_on()?;
        let entry = match entry {
            Ok(entry) => entry,
            Err(error @ BackupError::Storage { .. }) => return Err(error),
            Err(error) => {
                checked.add_error(&error);
                checked.add(format!("snapshots/{id}"), "its tree cannot be read to the end");
                return Ok(());
            }
        };
        checked.entries += 1;
        Progress::add(&progress.entries, 1);
        let Node::File { content, .. } = entry.node else { continue };
        // All parts are looked at, so that each pack that the file lacks is named.
        let mut why: Option<String> = None;
        for part in Parts::new(source, content) {
            let wrong = match part {
                Err(error) => Some(error.to_string()),
                Ok(Part::Data { id, .. }) => match source.contains(&id) {
                    Ok(true) => lost.contains(&id).then(|| {
                        hit.insert(id);
                        format!("its chunk {id} is lost")
                    }),
                    Ok(false) => Some(format!("no index names its chunk {id}")),
                    Err(error) => Some(error.to_string()),
                },
                Ok(_) => None,
            };
            why = why.or(wrong);
        }
        let Some(why) = why else { continue };
        if checked.problems.len() < NAMED_MAX {
            checked.add(format!("snapshots/{id}: {}", escaped(&entry.path, Place::Last)), why);
        } else {
            checked.more += 1;
        }
    }
    Ok(())
}
