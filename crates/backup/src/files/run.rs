//! A run: files are walked and read, and a snapshot is written.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use talaria_message::SigningKey;
use talaria_message::openpgp::Fingerprint;

use super::alive::Alive;
use super::cache::{Cache, CacheWriter};
use super::state::State;
use super::tree::{Report, create_tree};
use super::walk::{Walk, WalkOptions};
use crate::chain::heads;
use crate::create::Remark;
use crate::document::Standing;
use crate::entry::Entry;
use crate::epoch::Use;
use crate::error::{BackupError, Result};
use crate::id::{Id, ObjectHash};
use crate::plan::is_lost;
use crate::progress::Progress;
use crate::repository::{Keys, Repository};
use crate::sink::{SealIndex, Sink, SinkOptions, lock};
use crate::snapshot::{Head, Snapshot};

/// The number of paths that a report names, of each kind.
const NAMED_MAX: usize = 1000;
/// How often a run begins again because prunes have deleted packs that it needs.
const ATTEMPTS: usize = 5;
/// The name of the cache in the state folder.
const CACHE: &str = "cache";

/// What to back up, and how.
#[derive(Clone, Debug, Default)]
pub struct CreateOptions {
    /// Files and folders.
    pub paths: Vec<PathBuf>,
    /// What to leave out.
    pub walk: WalkOptions,
    /// The name of the machine.
    pub host: Vec<u8>,
    /// Labels.
    pub tags: BTreeSet<Vec<u8>>,
    /// The number of threads that read and compress.
    pub threads: usize,
}

/// What a run has done.
#[derive(Debug)]
pub struct Run {
    /// The identifier of the snapshot.
    pub id: Id,
    /// The snapshot.
    pub snapshot: Snapshot,
    /// Paths that could not be read, with the reason: the first thousand.
    pub unread: Vec<(Vec<u8>, io::Error)>,
    /// Files that changed while they were read. The snapshot may have a mixture of old and new content.
    pub changed: Vec<Vec<u8>>,
    /// Paths whose extended attributes could not be read and are missing, with the reason.
    pub without_attributes: Vec<(Vec<u8>, io::Error)>,
    /// Sockets, which are left out.
    pub sockets: u64,
    /// Indexes that could not be read. What only they name is stored again.
    pub unreadable: Vec<BackupError>,
}

impl Repository {
    /// Backs up files as the client whose certificate is `client`, signed by `signer`; both are `None` for an
    /// unsigned snapshot. `now` is in seconds since 1970.
    ///
    /// # Errors
    ///
    /// [`BackupError::Refused`] if the client may not create snapshots here, or if the configuration is signed by a
    /// revoked key; [`BackupError::Cancelled`]; errors of the storage. A path that cannot be read is no error: it is in the
    /// result.
    pub fn create(
        &self,
        keys: &Keys,
        client: Option<(&Fingerprint, SigningKey)>,
        state: &mut State,
        options: &CreateOptions,
        progress: &Arc<Progress>,
        now: u32,
    ) -> Result<Run> {
        let refused = |why: String| Err(BackupError::Refused(why));
        if let Standing::Doubtful(signer, why) = self.standing() {
            return refused(format!(
                "the configuration is signed by {}, and {why}: somebody else may have changed who can read",
                signer.to_hex()
            ));
        }
        let (name, signer) = match client {
            Some((name, signer)) => (Some(name.clone()), Some(Arc::new(Mutex::new(signer)))),
            None if self.config().signed => {
                return refused("snapshots must be signed in this repository".into());
            }
            None => (None, None),
        };
        if let Some(name) = &name
            && !self.config().has_role(name, crate::Role::Create)
        {
            return refused(format!(
                "{} may not create snapshots in this repository",
                name.to_hex()
            ));
        }
        let _run = state.lock_run()?;
        let (listed, forgotten, unreadable) = self.survey(keys, now)?;
        // It could be this client's newest: the next one would have the same number.
        if let Some(error) = unreadable.into_iter().find(BackupError::is_of_storage) {
            return Err(error);
        }
        let mut others = heads(&listed);
        forgotten.raise(&mut others);
        for (client, head) in &state.heads {
            let newest = others.entry(client.clone()).or_insert(*head);
            if newest.number < head.number {
                *newest = *head;
            }
        }
        let own = others.remove(&name);
        let taker = Writer { repository: self, keys, name, signer, options, progress, now };
        let others = others.into_iter().filter_map(|(client, head)| Some((client?, head)));
        let mut chain = Chain { own, heads: others.collect() };
        let mut written: Option<(Id, Snapshot)> = None;
        for _ in 0..ATTEMPTS {
            let lease =
                Alive::begin(self, keys, taker.name.as_ref(), taker.signer.clone(), state, now)?;
            let Attempt { snapshot, relied, notes, next_cache, unreadable } =
                taker.attempt(state, &chain)?;
            // The chunks of the same tree are all there again.
            let id = match written.take() {
                Some((id, before)) if before.root == snapshot.root => id,
                before => {
                    let mut snapshot = snapshot.clone();
                    if let Some((id, before)) = before
                        && self.backend().delete(&Snapshot::name(&id)).is_err()
                    {
                        chain.own = Some(Head { number: before.number, id });
                    }
                    (snapshot.number, snapshot.previous) = chain.next()?;
                    taker.write(&snapshot)?
                }
            };
            let lost = {
                let commits = self.commits(keys, now)?;
                let committed: BTreeSet<_> =
                    commits.iter().flat_map(|commit| &commit.packs).collect();
                let listed = self.listed_packs()?;
                let mut lost = false;
                for pack in &relied {
                    // A storage may list new objects late.
                    let is_there = listed.get(pack).is_some() || self.has_pack(pack)?;
                    lost |= is_lost(is_there, committed.contains(pack));
                }
                lost
            };
            if lost {
                // A prune did not wait for this run, or began while it stood still.
                written = Some((id, snapshot));
                continue;
            }
            drop(lease);
            let head = Head { number: snapshot.number, id };
            let heads = crate::Heads::from([(taker.name, head)]);
            state.remember(&self.config().owner, self.config().number, &heads)?;
            let _ = next_cache.map(CacheWriter::finish);
            let Notes { unread, changed, without_attributes, sockets, .. } = notes;
            return Ok(Run {
                id,
                snapshot,
                unread,
                changed,
                without_attributes,
                sockets,
                unreadable,
            });
        }
        refused("prunes have deleted packs of this run again and again: try later".into())
    }
}

/// What a client writes, and with which keys.
struct Writer<'a> {
    repository: &'a Repository,
    keys: &'a Keys,
    name: Option<Fingerprint>,
    signer: Option<Arc<Mutex<SigningKey>>>,
    options: &'a CreateOptions,
    progress: &'a Arc<Progress>,
    now: u32,
}

/// The newest known snapshots.
struct Chain {
    own: Option<Head>,
    heads: BTreeMap<Fingerprint, Head>,
}

impl Chain {
    /// The number of the next snapshot, and the identifier of the one before it.
    fn next(&self) -> Result<(u64, Option<Id>)> {
        // Who stole the key of this client could have used up the numbers.
        let number = self.own.map_or(Some(1), |head| head.number.checked_add(1));
        let number = number.ok_or_else(|| {
            BackupError::Refused(
                "this client has no number left for a snapshot: use another key".into(),
            )
        })?;
        Ok((number, self.own.map(|head| head.id)))
    }
}

/// A tree that was written, and the packs that it may need.
struct Attempt {
    snapshot: Snapshot,
    relied: Vec<ObjectHash>,
    notes: Notes,
    next_cache: Option<CacheWriter>,
    unreadable: Vec<BackupError>,
}

impl Writer<'_> {
    fn write(&self, snapshot: &Snapshot) -> Result<Id> {
        let mut signer = self.signer.as_ref().map(|signer| lock(signer));
        self.repository.write_snapshot(self.keys, snapshot, signer.as_deref_mut(), self.now)
    }

    fn attempt(&self, state: &State, chain: &Chain) -> Result<Attempt> {
        let Self { repository, keys, name, options, progress, now, .. } = self;
        let (number, previous) = chain.next()?;
        let (present, mut relied, unreadable) = repository.present(keys, name.as_ref(), *now)?;
        let sealing = repository.sealing(Use::Index, *now)?;
        let (index_signer, now) = (self.signer.clone(), *now);
        let seal_index: SealIndex = Box::new(move |text| {
            let mut signer = index_signer.as_ref().map(|signer| lock(signer));
            sealing.seal("indexes", text.as_bytes(), signer.as_deref_mut(), now)
        });
        let sink = Sink::new(SinkOptions {
            backend: Arc::clone(repository.backend()),
            repository: repository.id(),
            identifiers: keys.identifiers.clone(),
            packs: repository.sealing(Use::Data, now)?,
            seal_index,
            present,
            now,
            threads: options.threads.max(1),
            progress: Arc::clone(progress),
        });
        let store = Arc::clone(sink.store());
        let cache_path = state.folder().join(CACHE);
        let failed = |source| BackupError::File { path: "/".into(), source };
        let walk = Walk::new(&options.paths, options.walk.clone()).map_err(failed)?;
        let mut cache = Cache::open(&cache_path, repository.id());
        let next_cache = CacheWriter::create(&cache_path, repository.id()).ok();
        let mut notes = Notes::default();
        let (made, next_cache) = create_tree(walk, &mut cache, next_cache, sink, &mut notes)?;
        relied.extend(store.written());
        let absolute = options.paths.iter().map(|path| {
            let absolute = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            absolute.as_os_str().as_bytes().to_vec()
        });
        let snapshot = Snapshot {
            client: name.clone(),
            number,
            previous,
            time: now,
            epoch: repository.config().newest_epoch().number,
            host: options.host.clone(),
            root: made.root,
            entries: made.counts.entries,
            bytes: made.counts.bytes,
            unread: made.counts.unread,
            paths: absolute.collect(),
            tags: options.tags.clone(),
            users: names("/etc/passwd", &notes.users),
            groups: names("/etc/group", &notes.groups),
            heads: chain.heads.clone(),
        };
        Ok(Attempt { snapshot, relied, notes, next_cache, unreadable })
    }
}

/// What is noted on the way.
#[derive(Default)]
struct Notes {
    unread: Vec<(Vec<u8>, io::Error)>,
    changed: Vec<Vec<u8>>,
    without_attributes: Vec<(Vec<u8>, io::Error)>,
    sockets: u64,
    users: BTreeSet<u32>,
    groups: BTreeSet<u32>,
}

impl Report for Notes {
    fn stored(&mut self, entry: &Entry) {
        if let Some(meta) = entry.node.meta() {
            self.users.insert(meta.uid);
            self.groups.insert(meta.gid);
        }
    }

    fn unread(&mut self, path: &[u8], error: &io::Error) {
        if self.unread.len() < NAMED_MAX {
            self.unread.push((path.to_vec(), copied(error)));
        }
    }

    fn socket(&mut self, _: &[u8]) {
        self.sockets += 1;
    }

    fn remark(&mut self, path: &[u8], remark: &Remark) {
        match remark {
            Remark::Changed if self.changed.len() < NAMED_MAX => self.changed.push(path.to_vec()),
            Remark::NoAttributes(error) if self.without_attributes.len() < NAMED_MAX => {
                self.without_attributes.push((path.to_vec(), copied(error)));
            }
            _ => {}
        }
    }

    // Without a cache the next run reads everything again, which is slower and not wrong.
    fn no_cache(&mut self, _: &io::Error) {}
}

fn copied(error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), error.to_string())
}

/// The names of these numbers in a file like `/etc/passwd`.
fn names(file: &str, numbers: &BTreeSet<u32>) -> BTreeMap<u32, Vec<u8>> {
    let text = fs::read(file).unwrap_or_default();
    let mut names = BTreeMap::new();
    for line in text.split(|octet| *octet == b'\n') {
        let mut fields = line.split(|octet| *octet == b':');
        let (name, number) = (fields.next(), fields.nth(1));
        let number = number.and_then(|number| std::str::from_utf8(number).ok()?.parse().ok());
        if let (Some(name), Some(number)) = (name, number)
            && numbers.contains(&number)
        {
            names.entry(number).or_insert_with(|| name.to_vec());
        }
    }
    names
}
