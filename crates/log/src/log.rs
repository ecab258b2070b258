//! A log in memory: which entries are admitted, and which of them count (decision record 6).
//!
//! [`Log::offer`] takes entries from anywhere, in any order. Whether an entry is admitted is a function of genesis, the
//! entry and its past; whether it counts, of the set of admitted entries. Nothing here opens a file or reads a clock.

pub(crate) mod admit;
pub(crate) mod catch_up;
pub(crate) mod checkpoint;
pub(crate) mod draft;
pub(crate) mod honour;
pub(crate) mod index;
pub(crate) mod lacking;
pub(crate) mod nodes;
pub(crate) mod snapshot;
pub(crate) mod turns;
pub(crate) mod update;
pub(crate) mod waiting;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use talaria_cert::{Verdict, ed25519_verdicts};

use crate::action::{Action, Grant, HEADS_MAX, Target};
use crate::certificate::{Certificate, MemberKey};
use crate::clock::Clock;
use crate::deletable::Opening;
use crate::entry::Entry;
use crate::genesis::Genesis;
use crate::graph::{Graph, Number, View};
use crate::name::{ChainName, EntryId, KeyName, ObjectId};
use crate::octets::Malformed;
use crate::record::{Evidence, Signed, SignedStatement, Unsigned};
use crate::refusal::Refusal;
use crate::signature::{BadSignature, Check};
use crate::state::State;

pub use catch_up::CatchUp;
pub use checkpoint::{CheckpointFork, CheckpointInfo};
pub use draft::{DraftError, Maker};
pub use lacking::Known;
pub use snapshot::SnapshotInfo;
pub use update::{Edit, Honoured, Update, UpdateError};
pub(crate) use update::{check_name, one_object};
pub use waiting::{AHEAD_MS, WAITING_MAX, WAITING_OCTETS_MAX};

use admit::{Checked, Trial};
use checkpoint::Checkpoints;
use nodes::Nodes;
use waiting::Waiting;

/// A log in memory.
pub struct Log {
    id: EntryId,
    genesis: Genesis,
    graph: Graph,
    controls: Controls,
    checkpoints: Checkpoints,
    grants: Vec<Number>,
    snapshots: Vec<Number>,
    nodes: Nodes,
    /// The keys in admitted certificates, for checking many signatures at once. The certificate of an entry decides
    /// which key is meant.
    keys: HashMap<KeyName, Arc<MemberKey>>,
    waiting: Waiting,
    state: State,
    /// Whether what counts must be computed again.
    unsettled: bool,
    listening: turns::Listening,
}

/// Admitted entries that end or choose other entries.
#[derive(Default)]
struct Controls {
    revocations: HashMap<Target, Vec<Number>>,
    all_revocations: Vec<Number>,
    approvals: HashMap<EntryId, Vec<Number>>,
    choices: Vec<Number>,
}

/// The outcome for an offered entry.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Outcome {
    /// The entry is admitted now.
    Added,
    /// The entry was admitted before, or waits already.
    Known,
    /// The entry waits for entries before it.
    WaitsForPast,
    /// The entry waits until the clock of this node has come near its clock.
    WaitsForClock,
    /// Too much waits. The sender must offer the entry again later.
    NotKept,
    /// The entry is not admissible.
    Refused(Refusal),
}

/// The result of [`Log::offer`].
#[derive(Debug, Default)]
pub struct Offered {
    /// The outcome for each offered entry, in their order.
    pub outcomes: Vec<Outcome>,
    /// The entries that are admitted now, each behind its past, those included that waited before.
    pub added: Vec<Signed>,
    /// The entries that waited before and are refused now.
    pub refused: Vec<(EntryId, Refusal)>,
    /// The deletable values that came to entries that were here without them. The caller brings them to disk.
    pub revealed: Vec<(EntryId, Opening)>,
}

/// Whether an admitted entry counts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Standing {
    /// The entry counts.
    Counts,
    /// A revocation ends its key or its grant before it.
    Revoked,
    /// Its author has made two different entries at or before its place, and no owner has chosen.
    Forked,
    /// Its grant does not count any more.
    GrantEnded,
    /// Its key is expired, and no checkpoint covers it in time.
    Expired,
}

impl Standing {
    /// One word, as commands print it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Counts => "counts",
            Self::Revoked => "revoked",
            Self::Forked => "forked",
            Self::GrantEnded => "grant-ended",
            Self::Expired => "expired",
        }
    }
}

/// Two entries at one place: evidence that convinces everybody.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ForkEvidence {
    /// The chain.
    pub chain: ChainName,
    /// The place in the chain.
    pub sequence: u64,
    /// The entries at that place, ascending.
    pub entries: Vec<EntryId>,
}

/// A log cannot begin with an entry.
#[derive(Debug, thiserror::Error)]
pub enum GenesisError {
    /// The entry is no genesis.
    #[error("the entry does not begin a log")]
    NotGenesis,
    /// The author of genesis is no owner with this key, or the signature does not hold.
    #[error("genesis is not signed by an owner: {0}")]
    Refused(Refusal),
    /// The octets are no genesis.
    #[error(transparent)]
    Malformed(#[from] Malformed),
}

impl Log {
    /// The log that begins with a genesis entry.
    ///
    /// # Errors
    ///
    /// [`GenesisError`] if the entry is no genesis that an owner has signed.
    pub fn begin(genesis: &Signed) -> Result<Self, GenesisError> {
        let log = Self::begin_own(Arc::clone(&genesis.entry), genesis.octets.len())?;
        if !matches!(genesis.evidence, Evidence::Alone(_)) {
            return Err(GenesisError::Refused(Refusal::Batch));
        }
        let key = log.owner_key(&genesis.entry.chain).map_err(GenesisError::Refused)?;
        log.check(genesis, &key).map_err(GenesisError::Refused)?;
        Ok(log)
    }

    /// The log of a genesis entry whose signature is known to hold, or that the caller signs before it leaves.
    ///
    /// # Errors
    ///
    /// [`GenesisError`] if the entry is no genesis by an owner.
    pub fn begin_own(entry: impl Into<Arc<Entry>>, octets: usize) -> Result<Self, GenesisError> {
        let entry = entry.into();
        let Action::Genesis(genesis) = &entry.action else { return Err(GenesisError::NotGenesis) };
        let id = EntryId::of(&entry.to_octets());
        let mut log = Self {
            id,
            genesis: (**genesis).clone(),
            graph: Graph::default(),
            controls: Controls::default(),
            checkpoints: Checkpoints::default(),
            grants: Vec::new(),
            snapshots: Vec::new(),
            nodes: Nodes::default(),
            keys: HashMap::new(),
            waiting: Waiting::default(),
            state: State::default(),
            unsettled: false,
            listening: turns::Listening::default(),
        };
        for owner in &genesis.owners {
            log.add_deadlines(owner);
            for key in owner.keys() {
                log.keys.insert(key.name, Arc::clone(key));
            }
        }
        log.owner_key(&entry.chain).map_err(GenesisError::Refused)?;
        let past = log.graph.past(None, &[]);
        let (number, _) = log.graph.add(id, entry, past, octets);
        log.graph.nodes[number as usize].honoured = true;
        Ok(log)
    }

    /// The key of an owner that signs a chain.
    fn owner_key(&self, chain: &ChainName) -> Result<Arc<MemberKey>, Refusal> {
        let owner = self.genesis.owners.iter().find(|owner| owner.name() == chain.author);
        let owner = owner.ok_or(Refusal::Stranger(chain.author))?;
        self.key_of(owner, chain)
    }

    /// Offers entries, at `now_ms` in milliseconds since 1970. They may come in any order and more than once.
    ///
    /// Ed25519 signatures are checked together.
    pub fn offer(&mut self, entries: Vec<Signed>, now_ms: u64) -> Offered {
        let mut offered = Offered::default();
        let covered: Vec<bool> = entries.iter().map(Signed::is_covered).collect();
        let checked = self.check_many(&entries, &covered);
        for ((signed, checked), is_covered) in entries.into_iter().zip(checked).zip(covered) {
            let trial = Trial { signed, checked, is_covered };
            let outcome = self.take(trial, now_ms, &mut offered);
            offered.outcomes.push(outcome);
        }
        for trial in self.waiting.due(now_ms) {
            self.retry(trial, now_ms, &mut offered);
        }
        self.settle();
        for signed in &mut offered.added {
            if signed.opening.is_some() && self.state.is_deleted(&signed.id) {
                // What does not come to disk is not here.
                signed.opening = None;
                self.state.drop_value(&signed.id);
            }
        }
        offered.revealed.retain(|(id, _)| {
            let is_deleted = self.state.is_deleted(id);
            if is_deleted {
                self.state.drop_value(id);
            }
            !is_deleted
        });
        offered
    }

    /// Admits an entry of one's own, which the caller signs before it leaves.
    ///
    /// # Errors
    ///
    /// [`Refusal`] if the entry is not admissible, [`Refusal::Past`] if its past is not here, [`Refusal::Malformed`] if
    /// the format does not allow it.
    pub fn append(&mut self, entry: Entry) -> Result<EntryId, Refusal> {
        Ok(self.admit_own(entry)?.id)
    }

    pub(crate) fn admit_own(&mut self, entry: Entry) -> Result<Unsigned, Refusal> {
        let own = Unsigned::from(entry);
        // A caller can put more into an entry than the format allows, such as a list that is not ascending.
        if Entry::read(&own.octets)? != *own.entry {
            return Err(Malformed::Field("value").into());
        }
        self.admit_known(own.id, &own.entry, own.octets.len())?;
        self.settle();
        Ok(own)
    }

    /// Admits an entry that this node has admitted before, without checking its signature again. The caller calls
    /// [`Self::settle`] after the last one.
    ///
    /// # Errors
    ///
    /// [`Refusal`] if the entry is not admissible.
    pub fn restore(&mut self, signed: &Signed) -> Result<(), Refusal> {
        if self.graph.number(&signed.id).is_some() {
            // A record that was written when its value came.
            self.note_opening(signed);
            return Ok(());
        }
        self.admit_known(signed.id, &signed.entry, signed.octets.len())?;
        self.note_opening(signed);
        Ok(())
    }

    /// Notes the deletable value of an admitted entry. False if the entry is not here, or does not commit to it.
    pub fn reveal(&mut self, id: &EntryId, opening: &Opening) -> bool {
        let opens = self.entry(id).is_some_and(|entry| opening.opens(&entry));
        if opens {
            self.state.reveal(*id, opening);
        }
        opens
    }

    /// Notes the deletable value that came with an admitted entry. It was checked before.
    fn note_opening(&mut self, signed: &Signed) {
        if let Some(opening) = &signed.opening {
            self.state.reveal(signed.id, opening);
        }
    }

    /// The number of entries with a deletable value that is neither here nor deleted.
    #[must_use]
    pub fn missing_values(&self) -> u64 {
        self.state.count_lacking() as u64
    }

    /// The first of these entries behind one, ascending; at most `max`.
    #[must_use]
    pub fn lacking_values(&self, behind: Option<EntryId>, max: usize) -> Vec<EntryId> {
        self.state.lacking_behind(behind).take(max).collect()
    }

    /// Takes the deletable value that comes with an entry that is here, if it is neither here nor deleted.
    fn take_opening(&mut self, signed: &Signed, offered: &mut Offered) -> Outcome {
        if let Some(opening) = &signed.opening
            && self.state.is_lacking(&signed.id)
        {
            if !opening.opens(&signed.entry) {
                return Outcome::Refused(Refusal::Opening);
            }
            self.state.reveal(signed.id, opening);
            offered.revealed.push((signed.id, opening.clone()));
        }
        Outcome::Known
    }

    /// Drops the deletable values that are deleted.
    pub(crate) fn drop_deleted(&mut self) {
        self.state.drop_deleted();
    }

    /// Removes the deletable value beside an entry if it is deleted: it must not reach a disk or a peer any more.
    pub(crate) fn withhold(&self, signed: &mut Signed) {
        if signed.opening.is_some() && self.state.is_deleted(&signed.id) {
            signed.opening = None;
        }
    }

    fn admit_known(
        &mut self,
        id: EntryId,
        entry: &Arc<Entry>,
        octets: usize,
    ) -> Result<(), Refusal> {
        let place = match self.place(entry) {
            Ok(place) => place,
            Err(admit::NotPlaced::Missing(_)) => return Err(Refusal::Past),
            Err(admit::NotPlaced::Refused(refusal)) => return Err(refusal),
        };
        self.admissible(entry, octets, &place)?;
        self.add(id, entry, place.past, octets);
        Ok(())
    }

    /// Computes again which entries count, if that can have changed.
    pub fn settle(&mut self) {
        if !std::mem::take(&mut self.unsettled) {
            return;
        }
        let mut changed = HashSet::new();
        for number in self.graph.numbers() {
            let counts = number == 0 || self.standing_of(number) == Standing::Counts;
            self.note_turn(number, counts);
            let node = &mut self.graph.nodes[number as usize];
            node.honoured = counts;
            if node.applied != counts && node.is_data() {
                node.applied = counts;
                changed.insert((node.object, node.field));
            }
        }
        // Each field depends on its own entries only.
        for (object, field) in changed {
            let graph = &self.graph;
            self.state.forget(*graph.objects.name(object), graph.fields.name(field));
            for number in graph.about(object, Some(field)) {
                let Some(entry) = graph.entry(number) else { continue };
                if let Action::Data(data) = &entry.action {
                    let counts = graph.node(number).applied;
                    self.state.apply(&self.genesis, graph.stamp(number), data, counts);
                }
            }
        }
    }

    /// Adds an admissible entry.
    fn add(&mut self, id: EntryId, entry: &Arc<Entry>, past: crate::graph::Past, octets: usize) {
        if entry.commitment().is_some() {
            self.state.lack(id);
        }
        let octets = admit::weight(entry, octets);
        let (number, is_fork) = self.graph.add(id, Arc::clone(entry), past, octets);
        // A fork ends entries that counted, and so do revocations and choices.
        self.unsettled |= is_fork;
        self.unsettled |= self.note_control(number, entry);
        let counts = self.standing_of(number) == Standing::Counts;
        if let Action::Data(data) = &entry.action {
            self.state.apply(&self.genesis, self.graph.stamp(number), data, counts);
            self.graph.nodes[number as usize].applied = counts;
        }
        if !self.unsettled {
            self.note_turn(number, counts);
            self.graph.nodes[number as usize].honoured = counts;
        }
    }

    /// Takes up an admitted operation on the log itself. Returns whether other entries can count now, or no longer.
    fn note_control(&mut self, number: Number, entry: &Entry) -> bool {
        match &entry.action {
            Action::Revoke(revocation) => {
                self.checkpoints.add_revocation(revocation);
                self.controls.revocations.entry(revocation.target).or_default().push(number);
                self.controls.all_revocations.push(number);
                return true;
            }
            Action::Choose(_) => {
                self.controls.choices.push(number);
                return true;
            }
            Action::Approve(target) => {
                self.controls.approvals.entry(*target).or_default().push(number);
                return true;
            }
            Action::Grant(grant) => {
                self.grants.push(number);
                self.add_deadlines(&grant.certificate);
                for key in grant.certificate.keys() {
                    self.keys.entry(key.name).or_insert_with(|| Arc::clone(key));
                }
            }
            Action::Checkpoint(checkpoint) => return self.add_checkpoint(number, checkpoint),
            Action::Cosign(cosignatures) => return self.add_cosignatures(number, cosignatures),
            Action::PublishNode(key) => self.nodes.publish(number, entry.author(), key),
            Action::EndNode(publication) => self.nodes.end(number, *publication),
            Action::Snapshot(_) => self.snapshots.push(number),
            Action::Data(_) | Action::Genesis(_) => {}
        }
        false
    }

    /// Checks the signatures of entries whose keys are known, each batch once.
    fn check_many(&self, entries: &[Signed], covered: &[bool]) -> Vec<Option<Checked>> {
        let mut checked = vec![None; entries.len()];
        let mut jobs = Vec::new();
        let mut places: Vec<(Arc<MemberKey>, Vec<usize>)> = Vec::new();
        // Entries of one batch share a signature: the place of its first entry here, and its job.
        let mut batches: HashMap<*const SignedStatement, (usize, Option<usize>)> = HashMap::new();
        let mut last: Option<(*const SignedStatement, usize)> = None;
        for (at, signed) in entries.iter().enumerate() {
            let chain = &signed.entry.chain;
            // A batch comes in a row, and is by one key.
            if let Evidence::InBatch(batch, _) = &signed.evidence
                && let Some((_, job)) = last.filter(|(of, _)| *of == Arc::as_ptr(batch))
            {
                if signed.log() == self.id && covered[at] {
                    places[job].1.push(at);
                }
                continue;
            }
            let Some(key) = self.keys.get(&chain.subkey) else { continue };
            if self.graph.number(&signed.id).is_some() || signed.log() != self.id || !covered[at] {
                continue;
            }
            let check = match &signed.evidence {
                Evidence::Alone(signature) => signature.check(&signed.octets, key, self.id),
                Evidence::InBatch(batch, _) => match batches.get(&Arc::as_ptr(batch)) {
                    Some((_, Some(job))) => {
                        places[*job].1.push(at);
                        last = Some((Arc::as_ptr(batch), *job));
                        continue;
                    }
                    Some((first, None)) => {
                        let first = checked[*first].clone();
                        checked[at] = first;
                        continue;
                    }
                    None => batch.signature.check(&batch.statement.to_octets(), key, self.id),
                },
            };
            let mut job = None;
            let known = |bad| Checked { key: Arc::clone(key), bad };
            match check {
                Ok(Check::Deferred(deferred)) => {
                    job = Some(jobs.len());
                    jobs.push(*deferred);
                    places.push((Arc::clone(key), vec![at]));
                }
                Ok(Check::Good) => checked[at] = Some(known(None)),
                Err(bad) => checked[at] = Some(known(Some(bad))),
            }
            if let Evidence::InBatch(batch, _) = &signed.evidence {
                batches.insert(Arc::as_ptr(batch), (at, job));
                last = job.map(|job| (Arc::as_ptr(batch), job));
            }
        }
        for ((key, places), verdict) in places.iter().zip(ed25519_verdicts(&jobs)) {
            let bad = (verdict != Verdict::Good).then_some(BadSignature::Forged);
            for &at in places {
                checked[at] = Some(Checked { key: Arc::clone(key), bad });
            }
        }
        checked
    }

    /// The identity of the log.
    #[must_use]
    pub fn id(&self) -> EntryId {
        self.id
    }

    /// The content of the genesis entry.
    #[must_use]
    pub fn genesis(&self) -> &Genesis {
        &self.genesis
    }

    /// The objects and their fields, from the entries that count.
    #[must_use]
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The hash of the state. Equal for equal sets of admitted entries.
    #[must_use]
    pub fn state_hash(&self) -> [u8; 32] {
        self.state.hash(self.id)
    }

    /// The number of admitted entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.graph.nodes.len()
    }

    /// Whether there is no entry. There always is genesis.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.graph.nodes.is_empty()
    }

    /// An admitted entry. A log in a folder reads it from disk.
    #[must_use]
    pub fn entry(&self, id: &EntryId) -> Option<Arc<Entry>> {
        self.graph.entry(self.graph.number(id)?)
    }

    /// The identities and entries in the order of their admission on this node: each behind its past.
    pub fn entries(&self) -> impl Iterator<Item = (EntryId, Arc<Entry>)> {
        let entry = |number| Some((self.graph.node(number).id, self.graph.entry(number)?));
        self.graph.numbers().filter_map(entry)
    }

    /// The identities of the entries in the order of their admission on this node.
    pub fn ids(&self) -> impl Iterator<Item = EntryId> {
        self.graph.numbers().map(|number| self.graph.node(number).id)
    }

    /// The entries without a successor, of all chains, ascending.
    #[must_use]
    pub fn heads(&self) -> Vec<EntryId> {
        let tips = self.graph.chains.iter().flat_map(|chain| &chain.tips);
        let mut heads: Vec<EntryId> = tips.map(|&tip| self.graph.node(tip).id).collect();
        heads.sort_unstable();
        heads
    }

    /// The chains, each with the identities of its entries without a successor.
    pub fn chains(&self) -> impl Iterator<Item = (ChainName, Vec<EntryId>)> {
        self.graph.chains.iter().map(|chain| {
            (chain.name, chain.tips.iter().map(|&tip| self.graph.node(tip).id).collect())
        })
    }

    /// Forgets the entries that wait.
    pub(crate) fn forget_waiting(&mut self) {
        self.waiting = Waiting::default();
    }

    /// The number of entries that wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// The number of entries that wait for the clock of this node.
    #[must_use]
    pub fn ahead(&self) -> usize {
        self.waiting.ahead()
    }

    /// The admitted entries about an object, and about one field of it if it is named, in the order of the merge rules:
    /// clock, author, identity. The cost is that of the entries about the object.
    #[must_use]
    pub fn history(&self, object: ObjectId, field: Option<&str>) -> Vec<(EntryId, Arc<Entry>)> {
        let graph = &self.graph;
        let field = field.map(|field| graph.fields.number(field));
        let (Some(object), None | Some(Some(_))) = (graph.objects.number(&object), field) else {
            return Vec::new();
        };
        let mut found: Vec<Number> = graph.about(object, field.flatten()).collect();
        found.sort_unstable_by_key(|&number| graph.stamp(number));
        let entry = |number| Some((graph.node(number).id, graph.entry(number)?));
        found.into_iter().filter_map(entry).collect()
    }

    /// The last entries of the chains that a revocation of `target` concerns, ascending: with them as heads, what was
    /// written so far still counts. `None` if one of the chains is forked, or if there are more than
    /// [`HEADS_MAX`] chains; then the caller must say which entries count.
    #[must_use]
    pub fn heads_of(&self, target: Target) -> Option<Vec<EntryId>> {
        let author = match target {
            Target::Author(author) | Target::Key(author, _) => author,
            Target::Grant(grant) => self.graph.grant(self.graph.number(&grant)?)?.author(),
        };
        let is_theirs = |name: &ChainName| {
            name.author == author && !matches!(target, Target::Key(_, key) if name.subkey != key)
        };
        let mut heads = Vec::new();
        for chain in self.graph.chains.iter().filter(|chain| is_theirs(&chain.name)) {
            match chain.tips[..] {
                [tip] => heads.push(self.graph.node(tip).id),
                _ => return None,
            }
        }
        heads.sort_unstable();
        (heads.len() <= HEADS_MAX).then_some(heads)
    }

    /// Whether an admitted entry counts. `None` for other entries.
    #[must_use]
    pub fn standing(&self, id: &EntryId) -> Option<Standing> {
        let number = self.graph.number(id)?;
        Some(if number == 0 { Standing::Counts } else { self.standing_of(number) })
    }

    /// The forks, ascending by chain and place.
    #[must_use]
    pub fn forks(&self) -> Vec<ForkEvidence> {
        let mut forks: Vec<ForkEvidence> = self
            .graph
            .forks()
            .iter()
            .map(|fork| {
                let first = self.graph.node(fork.children[0]);
                let mut entries: Vec<EntryId> =
                    fork.children.iter().map(|&child| self.graph.node(child).id).collect();
                entries.sort_unstable();
                let chain = *self.graph.name_of(fork.children[0]);
                ForkEvidence { chain, sequence: first.sequence(), entries }
            })
            .collect();
        forks.sort_by_key(|fork| (fork.chain, fork.sequence, fork.entries.clone()));
        forks
    }

    /// The grants, each with whether it is in force, in the order of their admission.
    pub fn grants(&self) -> impl Iterator<Item = (EntryId, &Grant, bool)> {
        self.grants.iter().filter_map(|&number| {
            let grant = self.graph.grant(number)?;
            Some((self.graph.node(number).id, grant, self.is_usable(number, View::All)))
        })
    }

    /// Whether an author is an owner, removed or not.
    #[must_use]
    pub fn is_owner(&self, author: &KeyName) -> bool {
        self.genesis.owners.iter().any(|owner| owner.name() == *author)
    }

    /// The certificates of owners and of authors with a grant.
    pub fn certificates(&self) -> impl Iterator<Item = &Certificate> {
        let granted = self.grants.iter().filter_map(|&number| self.graph.grant(number));
        let granted = granted.map(|grant| &grant.certificate);
        self.genesis.owners.iter().chain(granted)
    }

    /// The clock of the latest entry.
    #[must_use]
    pub fn latest(&self) -> Clock {
        let tips = self.graph.chains.iter().flat_map(|chain| &chain.tips);
        tips.map(|&tip| self.graph.node(tip).clock).max().unwrap_or_default()
    }
}
