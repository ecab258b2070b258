//! The start and the end of every run of a client: its place in the chain of snapshots, its lease,
//! and a last look whether its packs are still there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::Mutex;
use talaria_message::SigningKey;
use talaria_message::openpgp::Fingerprint;

use super::alive::Alive;
use super::state::{RunLock, State};
use crate::backend::Backend;
use crate::chain::heads;
use crate::document::DocumentStanding;
use crate::epoch::Use;
use crate::error::{BackupError, Result};
use crate::id::{Id, ObjectHash};
use crate::listed::Listed;
use crate::plan::is_lost;
use crate::progress::BackupProgress;
use crate::repository::{Keys, Repository};
use crate::sink::{SealIndex, Sink, SinkOptions, Store};
use crate::snapshot::{Head, Root, Snapshot};

/// The number of times that a run begins again because prunes have deleted packs that it needs.
const ATTEMPTS: usize = 5;

/// A client that may write snapshots, and how it does.
pub(super) struct Writer<'a> {
    pub(super) repository: &'a Repository,
    pub(super) keys: &'a Keys,
    pub(super) name: Option<Fingerprint>,
    signer: Option<Arc<Mutex<SigningKey>>>,
    threads: usize,
    pub(super) progress: &'a Arc<BackupProgress>,
    pub(super) now: u32,
}

/// Where the chunks of a run go.
pub(super) struct Chunks {
    pub(super) sink: Sink,
    store: Arc<Store>,
    /// The packs that count as present.
    present: Vec<ObjectHash>,
    /// Indexes that could not be read. What only they name is stored again.
    pub(super) unreadable: Vec<BackupError>,
}

/// The rest of a [`Chunks`] whose sink is used up: the packs that a tree may need.
pub(super) struct Relied {
    store: Arc<Store>,
    present: Vec<ObjectHash>,
}

impl Chunks {
    /// The sink, the packs that the run relies on, and the errors of indexes.
    pub(super) fn split(self) -> (Sink, Relied, Vec<BackupError>) {
        let Self { sink, store, present, unreadable } = self;
        (sink, Relied { store, present }, unreadable)
    }
}

impl<'a> Writer<'a> {
    /// A writer of snapshots as `client`, `None` for unsigned ones.
    ///
    /// # Errors
    ///
    /// [`BackupError::Refused`] if the client may not create snapshots here, or if the
    /// configuration is signed by a revoked key.
    pub(super) fn new(
        repository: &'a Repository,
        keys: &'a Keys,
        client: Option<(&Fingerprint, SigningKey)>,
        threads: usize,
        progress: &'a Arc<BackupProgress>,
        now: u32,
    ) -> Result<Self> {
        let refused = |why: String| Err(BackupError::Refused(why));
        if let DocumentStanding::Doubtful(signer, why) = repository.standing() {
            return refused(format!(
                "the configuration is signed by {}, and {why}: somebody else may have changed who can read",
                signer.to_hex()
            ));
        }
        let (name, signer) = match client {
            Some((name, signer)) => (Some(name.clone()), Some(Arc::new(Mutex::new(signer)))),
            None if repository.config().signed => {
                return refused("snapshots must be signed in this repository".into());
            }
            None => (None, None),
        };
        if let Some(name) = &name
            && !repository.config().has_role(name, crate::config::Role::Create)
        {
            return refused(format!(
                "{} may not create snapshots in this repository",
                name.to_hex()
            ));
        }
        Ok(Self { repository, keys, name, signer, threads, progress, now })
    }

    /// Where chunks go: to `backend`, unless the repository has them.
    pub(super) fn chunks(&self, backend: Arc<dyn Backend>) -> Result<Chunks> {
        let Self { repository, keys, now, .. } = self;
        let (chunks, present, unreadable) = repository.present(keys, self.name.as_ref(), *now)?;
        let sealing = repository.sealing(Use::Index, *now)?;
        let (index_signer, now) = (self.signer.clone(), *now);
        let seal_index: SealIndex = Box::new(move |text| {
            let mut signer = index_signer.as_ref().map(|signer| signer.lock());
            sealing.seal("indexes", text.as_bytes(), signer.as_deref_mut(), now)
        });
        let sink = Sink::new(SinkOptions {
            backend,
            repository: repository.id(),
            identifiers: keys.identifiers.clone(),
            packs: repository.sealing(Use::Data, now)?,
            seal_index,
            present: chunks,
            threads: self.threads.max(1),
            progress: Arc::clone(self.progress),
        });
        let store = Arc::clone(sink.store());
        Ok(Chunks { sink, store, present, unreadable })
    }

    /// The client's place in the chain of snapshots. Nobody else on this machine writes until it is
    /// dropped.
    pub(super) fn begin(&self, state: &State) -> Result<Chain> {
        let run_lock = state.lock_run()?;
        let (listed, forgotten, unreadable) = self.repository.survey(self.keys, self.now)?;
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
        let own = others.remove(&self.name);
        let others = others.into_iter().filter_map(|(client, head)| Some((client?, head)));
        Ok(Chain { own, heads: others.collect(), listed, _lock: run_lock })
    }

    /// A snapshot of this client with this tree and nothing else. [`Self::write`] gives it its
    /// place in the chain.
    pub(super) fn snapshot(&self, root: Root) -> Snapshot {
        Snapshot {
            client: self.name.clone(),
            number: 0,
            previous: None,
            time: self.now,
            epoch: self.repository.config().newest_epoch().number,
            host: Vec::new(),
            root,
            entries: 0,
            bytes: 0,
            unread: 0,
            paths: BTreeSet::new(),
            tags: BTreeSet::new(),
            users: BTreeMap::new(),
            groups: BTreeMap::new(),
            heads: BTreeMap::new(),
            original: None,
        }
    }

    /// Writes the snapshot that `attempt` makes, as [`Self::write_all`] does.
    pub(super) fn write<T>(
        &self,
        chain: &mut Chain,
        state: &mut State,
        mut attempt: impl FnMut(Chunks) -> Result<(Snapshot, Relied, T)>,
    ) -> Result<(Id, Snapshot, T)> {
        let (written, rest) = self.write_all(chain, state, |chunks| {
            let (snapshot, relied, rest) = attempt(chunks)?;
            Ok((vec![snapshot], relied, rest))
        })?;
        let (id, snapshot) = written.into_iter().next().expect("it was written");
        Ok((id, snapshot, rest))
    }

    /// Writes the snapshots that `attempt` makes, under one lease. It is called again if prunes
    /// have deleted packs that they need. The snapshots are the newest of the chain afterwards, and
    /// remembered. Nobody sees a snapshot that is given up: other clients name those that they see.
    ///
    /// # Errors
    ///
    /// The errors of `attempt`, of the key, of the storage and of the state.
    pub(super) fn write_all<T>(
        &self,
        chain: &mut Chain,
        state: &mut State,
        mut attempt: impl FnMut(Chunks) -> Result<(Vec<Snapshot>, Relied, T)>,
    ) -> Result<(Vec<(Id, Snapshot)>, T)> {
        let Self { repository, keys, now, .. } = self;
        let (name, signer) = (self.name.as_ref(), self.signer.clone());
        let alive = Alive::begin(repository, keys, name, signer, state, *now)?;
        for turn in 0..ATTEMPTS {
            if turn > 0 {
                alive.renew()?;
            }
            // Before hours of work.
            after(chain.own)?;
            let chunks = self.chunks(Arc::clone(repository.backend()))?;
            let (snapshots, relied, rest) = attempt(chunks)?;
            let (mut own, mut made) = (chain.own, Vec::new());
            for mut snapshot in snapshots {
                (snapshot.number, snapshot.previous) = after(own)?;
                snapshot.heads = chain.heads.clone();
                let mut signer = self.signer.as_ref().map(|signer| signer.lock());
                let (id, sealed) =
                    repository.seal_snapshot(keys, &snapshot, signer.as_deref_mut(), *now)?;
                own = Some(Head { number: snapshot.number, id });
                made.push((id, snapshot, sealed));
            }
            alive.prepare(made.iter().map(|(id, _, sealed)| (id, &**sealed)))?;
            if self.has_lost(&relied)? {
                // A prune did not wait for this run, or began while it stood still.
                continue;
            }
            // From here on, every prune sees what they need.
            for (id, _, sealed) in &made {
                repository.put_snapshot(id, sealed)?;
            }
            drop(alive);
            chain.own = own;
            if let Some(head) = own.filter(|_| !made.is_empty()) {
                let heads = crate::snapshot::Heads::from([(self.name.clone(), head)]);
                state.remember(&repository.config().owner, repository.config().number, &heads)?;
            }
            return Ok((made.into_iter().map(|(id, snapshot, _)| (id, snapshot)).collect(), rest));
        }
        Err(BackupError::Refused("prunes keep deleting packs of this backup: try later".into()))
    }

    /// Whether a pack that a snapshot may need is gone, or will be.
    fn has_lost(&self, relied: &Relied) -> Result<bool> {
        let commits = self.repository.commits(self.keys, self.now)?;
        let committed: BTreeSet<_> = commits.iter().flat_map(|commit| &commit.packs).collect();
        let listed = self.repository.listed_packs()?;
        let mut lost = false;
        for pack in relied.present.iter().chain(&relied.store.written()) {
            // A storage may list new objects late.
            let is_there = listed.get(pack).is_some() || self.repository.has_pack(pack)?;
            lost |= is_lost(is_there, committed.contains(pack));
        }
        Ok(lost)
    }
}

/// The newest known snapshots, and the lock of the run.
pub(super) struct Chain {
    own: Option<Head>,
    heads: BTreeMap<Fingerprint, Head>,
    /// All snapshots, as the run found them.
    pub(super) listed: Vec<Listed>,
    _lock: RunLock,
}

/// The number of the snapshot after `own`, and the identifier of the one before it.
fn after(own: Option<Head>) -> Result<(u64, Option<Id>)> {
    // A thief of the client's key could have used up the numbers.
    let number = own.map_or(Some(1), |head| head.number.checked_add(1));
    let number = number.ok_or_else(|| {
        BackupError::Refused("this client has used all snapshot numbers: use another key".into())
    })?;
    Ok((number, own.map(|head| head.id)))
}
