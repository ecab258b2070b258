//! The parts of a log in memory: how they begin, and what they have.

use std::collections::HashMap;
use std::sync::Arc;

use super::checkpoint_trees::Checkpoints;
use super::error::GenesisError;
use super::nodes::Nodes;
use super::standing::Standing;
use super::waiting::Waiting;
use crate::action::{Action, DataAction, Grant, HEADS_MAX, Target};
use crate::certificate::{Certificate, MemberKey};
use crate::clock::Clock;
use crate::entry::Entry;
use crate::genesis::Genesis;
use crate::graph::{Graph, Number, View};
use crate::listen::Interest;
use crate::name::{ChainName, EntryId, KeyName, ObjectId};
use crate::record::{Evidence, Signed};
use crate::refusal::Refusal;
use crate::state::State;

/// A log in memory.
pub struct Log {
    pub(super) id: EntryId,
    pub(super) genesis: Genesis,
    pub(super) graph: Graph,
    pub(super) controls: Controls,
    pub(super) checkpoints: Checkpoints,
    pub(super) grants: Vec<Number>,
    pub(super) snapshots: Vec<Number>,
    pub(super) nodes: Nodes,
    /// The keys in admitted certificates, for checking many signatures at once. The certificate of
    /// an entry decides which key is meant.
    pub(super) keys: HashMap<KeyName, Arc<MemberKey>>,
    pub(super) waiting: Waiting,
    pub(super) state: State,
    /// Whether what counts must be computed again.
    pub(super) unsettled: bool,
    pub(super) listening: Listening,
}

/// Admitted entries that end or choose other entries.
#[derive(Default)]
pub(super) struct Controls {
    pub(super) revocations: HashMap<Target, Vec<Number>>,
    pub(super) all_revocations: Vec<Number>,
    pub(super) approvals: HashMap<EntryId, Vec<Number>>,
    pub(super) choices: Vec<Number>,
}

/// Those who listen, and what they were not told yet.
#[derive(Default)]
pub(super) struct Listening {
    pub(super) before: Vec<(Interest, Before)>,
    /// The changes that turned, in order, and whether they count now. `None` if nobody wants to
    /// know.
    pub(super) turned: Option<Vec<(Number, bool)>>,
}

/// A change that this node is about to sign.
pub struct Proposal<'a> {
    /// The log as it is before the change.
    pub log: &'a Log,
    /// The author.
    pub author: KeyName,
    /// The change.
    pub data: &'a DataAction,
}

/// A listener that is asked before a change is signed. An error is the reason for rejecting it.
pub(crate) type Before = Box<dyn Fn(&Proposal<'_>) -> Result<(), String> + Send>;

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

impl Log {
    /// The log that begins with a genesis entry.
    ///
    /// # Errors
    ///
    /// [`GenesisError`] if the entry is no genesis that an owner has signed.
    pub fn begin(genesis: &Signed) -> Result<Self, GenesisError> {
        let log = Self::begin_own(Arc::clone(&genesis.entry), genesis.bytes.len())?;
        if !matches!(genesis.evidence, Evidence::Alone(_)) {
            return Err(GenesisError::Refused(Refusal::Batch));
        }
        let key = log.owner_key(&genesis.entry.chain).map_err(GenesisError::Refused)?;
        log.check(genesis, &key).map_err(GenesisError::Refused)?;
        Ok(log)
    }

    /// The log of a genesis entry whose signature is known to hold, or that the caller signs before
    /// it leaves.
    ///
    /// # Errors
    ///
    /// [`GenesisError`] if the entry is no genesis by an owner.
    pub fn begin_own(entry: impl Into<Arc<Entry>>, bytes: usize) -> Result<Self, GenesisError> {
        let entry = entry.into();
        let Action::Genesis(genesis) = &entry.action else { return Err(GenesisError::NotGenesis) };
        let id = EntryId::of(&entry.to_bytes());
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
            listening: Listening::default(),
        };
        for owner in &genesis.owners {
            log.add_deadlines(owner);
            for key in owner.keys() {
                log.keys.insert(key.name, Arc::clone(key));
            }
        }
        log.owner_key(&entry.chain).map_err(GenesisError::Refused)?;
        let past = log.graph.past(None, &[]);
        let (number, _) = log.graph.add(id, entry, past, bytes);
        log.graph.nodes[number as usize].honoured = true;
        Ok(log)
    }

    /// The key of an owner that signs a chain.
    pub(super) fn owner_key(&self, chain: &ChainName) -> Result<Arc<MemberKey>, Refusal> {
        let owner = self.genesis.owners.iter().find(|owner| owner.name() == chain.author);
        let owner = owner.ok_or(Refusal::Stranger(chain.author))?;
        self.key_of(owner, chain)
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

    /// Drops the deletable values that are deleted.
    pub(crate) fn drop_deleted(&mut self) {
        self.state.drop_deleted();
    }

    /// Removes the deletable value beside an entry if it is deleted: it must not reach a disk or a
    /// peer any more.
    pub(crate) fn withhold(&self, signed: &mut Signed) {
        if signed.opening.is_some() && self.state.is_deleted(&signed.id) {
            signed.opening = None;
        }
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

    /// The identities and entries in the order of their admission on this node: each behind its
    /// past.
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

    /// The admitted entries about an object, and about one field of it if it is named, in the order
    /// of the merge rules: clock, author, identity. The cost is that of the entries about the
    /// object.
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

    /// The last entries of the chains that a revocation of `target` concerns, ascending: with them
    /// as heads, what was written so far still counts. `None` if one of the chains is forked, or if
    /// there are more than [`HEADS_MAX`] chains; then the caller must say which entries count.
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
