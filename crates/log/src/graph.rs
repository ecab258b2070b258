//! The graph of admitted entries: chains, branches, forks, and the past of each entry.
//!
//! Entries have local numbers in the order of their admission. Nothing that is computed here
//! depends on that order.
//!
//! An entry takes some 120 bytes here. Its bytes are elsewhere as soon as they are on disk, except
//! for operations on the log itself.

use std::borrow::Borrow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::Hash;
use std::num::NonZeroU32;
use std::sync::Arc;

use hashbrown::HashTable;

use crate::action::{Action, Grant, number as operation};
use crate::clock::Clock;
use crate::entry::Entry;
use crate::name::{ChainName, EntryId, ObjectId};
use crate::stamp::Stamp;
use crate::tables::{IdHash, NameHash, NumberHash};

/// The number of an admitted entry.
pub(crate) type Number = u32;

/// The last known entries of chains, ascending by chain.
pub(crate) type LastEntries = [(u32, Number)];

/// An admitted entry.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) id: EntryId,
    pub(crate) clock: Clock,
    /// The sum of the bytes of the chain up to here.
    pub(crate) chain_bytes: u64,
    /// The place of the bytes in the segments of a folder. `None` until the entry is on disk.
    pub(crate) location: Option<Location>,
    pub(crate) branch: u32,
    sequence: u32,
    /// The place of the last entries of other chains in the past.
    others: u32,
    /// The grant. It cannot be genesis, which has the number 0.
    pub(crate) grant: Option<NonZeroU32>,
    /// The number of the operation.
    pub(crate) operation: u8,
    pub(crate) object: u32,
    pub(crate) field: u32,
    /// Whether the entry counts, as of the last settlement.
    pub(crate) honoured: bool,
    /// Whether the entry counts in the state.
    pub(crate) applied: bool,
}

/// The place of an entry in the segments of a folder. Offsets count from the start of the segment.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Location {
    pub(crate) segment: u32,
    /// The start of the frame.
    pub(crate) frame: u32,
    /// The start of the record, behind its length.
    pub(crate) record: u32,
    /// The start of the bytes of the entry, and their number.
    pub(crate) entry: u32,
    pub(crate) bytes: u32,
}

impl Node {
    pub(crate) fn sequence(&self) -> u64 {
        u64::from(self.sequence)
    }

    /// Whether the entry changes an object.
    pub(crate) fn is_data(&self) -> bool {
        matches!(self.operation, operation::CREATE..operation::GRANT)
    }
}

/// Reads entries again whose bytes are on disk. Who implements it remembers why it could not.
pub(crate) trait Source: Send + Sync {
    fn entry(&self, id: &EntryId, location: Location) -> Option<Entry>;
}

/// A chain.
pub(crate) struct Chain {
    pub(crate) name: ChainName,
    /// Entries without a successor.
    pub(crate) tips: Vec<Number>,
    first: Option<Number>,
    forks: Vec<u32>,
}

/// Two or more entries at one place.
pub(crate) struct Fork {
    pub(crate) children: Vec<Number>,
}

/// A part of a chain without forks. It hangs on the entry with a sequence of another branch.
pub(crate) struct Branch {
    chain: u32,
    pub(crate) parent: Option<(u32, u64)>,
    /// The sequence of the first entry.
    pub(crate) start: u64,
    /// The entries, in order.
    numbers: Vec<Number>,
}

impl Branch {
    /// The entry with a sequence, if it is on this branch.
    pub(crate) fn at(&self, sequence: u64) -> Option<Number> {
        let at = usize::try_from(sequence.checked_sub(self.start)?).ok()?;
        self.numbers.get(at).copied()
    }
}

/// The past of an entry, without the entry.
pub(crate) struct Past {
    pub(crate) previous: Option<Number>,
    others: Others,
}

/// The last entries of other chains in a past.
enum Others {
    /// Those at a place of the graph.
    Known(u32),
    New(Box<LastEntries>),
}

/// A closed set of entries.
#[derive(Clone, Copy)]
pub(crate) enum View<'a> {
    /// All admitted entries.
    All,
    /// The past of an entry.
    Past(&'a Past),
}

/// Names that stand in many entries, by number. The number 0 is the empty name.
pub(crate) struct Names<T> {
    all: Vec<T>,
    numbers: HashMap<T, u32, NameHash>,
}

impl<T: Clone + Eq + Hash> Names<T> {
    fn starting_with(empty: T) -> Self {
        let mut names = Self { all: Vec::new(), numbers: HashMap::default() };
        names.add(empty);
        names
    }

    pub(crate) fn number<Q>(&self, name: &Q) -> Option<u32>
    where
        T: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.numbers.get(name).copied()
    }

    pub(crate) fn name(&self, number: u32) -> &T {
        &self.all[number as usize]
    }

    pub(crate) fn all(&self) -> &[T] {
        &self.all
    }

    /// Adds a name that is not there.
    pub(crate) fn add(&mut self, name: T) -> u32 {
        let number = u32::try_from(self.all.len()).expect("fewer than 2^32 names");
        self.all.push(name.clone());
        self.numbers.insert(name, number);
        number
    }
}

/// The graph.
pub(crate) struct Graph {
    pub(crate) nodes: Vec<Node>,
    by_id: HashTable<Number>,
    hasher: IdHash,
    pub(crate) chains: Vec<Chain>,
    by_name: HashMap<ChainName, u32>,
    pub(crate) branches: Vec<Branch>,
    forks: Vec<Fork>,
    fork_after: HashMap<(u32, Option<Number>), u32>,
    /// The last entries of other chains, for the pasts of entries. The first one is empty.
    pub(crate) others: Vec<Box<LastEntries>>,
    pub(crate) objects: Names<ObjectId>,
    pub(crate) fields: Names<Arc<str>>,
    /// The entries about each object, in the order of their admission.
    about: Vec<Vec<Number>>,
    /// Operations on the log itself, and the entries that are not on disk.
    bodies: HashMap<Number, Arc<Entry>, NumberHash>,
    source: Option<Arc<dyn Source>>,
}

impl Default for Graph {
    fn default() -> Self {
        Self {
            nodes: Vec::new(),
            by_id: HashTable::new(),
            hasher: IdHash::default(),
            chains: Vec::new(),
            by_name: HashMap::new(),
            branches: Vec::new(),
            forks: Vec::new(),
            fork_after: HashMap::new(),
            others: vec![Box::default()],
            objects: Names::starting_with(ObjectId::NONE),
            fields: Names::starting_with(Arc::default()),
            about: vec![Vec::new()],
            bodies: HashMap::default(),
            source: None,
        }
    }
}

/// What the graph keeps of an entry, without its place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) id: EntryId,
    pub(crate) clock: Clock,
    pub(crate) chain: u32,
    pub(crate) bytes: u32,
    pub(crate) grant: Option<NonZeroU32>,
    pub(crate) operation: u8,
    pub(crate) object: u32,
    pub(crate) field: u32,
}

impl Graph {
    pub(crate) fn number(&self, id: &EntryId) -> Option<Number> {
        // Most entries that are asked for are those before the next one.
        if self.nodes.last().is_some_and(|last| last.id == *id) {
            return self.numbers().last();
        }
        let is_it = |number: &Number| self.nodes[*number as usize].id == *id;
        self.by_id.find(self.hasher.of(id), is_it).copied()
    }

    /// The numbers of all entries.
    pub(crate) fn numbers(&self) -> std::ops::Range<Number> {
        0..Number::try_from(self.nodes.len()).expect("fewer than 2^32 entries")
    }

    pub(crate) fn node(&self, number: Number) -> &Node {
        &self.nodes[number as usize]
    }

    pub(crate) fn chain(&self, name: &ChainName) -> Option<&Chain> {
        self.by_name.get(name).map(|&at| &self.chains[at as usize])
    }

    /// The chain of an entry.
    pub(crate) fn chain_of(&self, number: Number) -> u32 {
        self.branches[self.node(number).branch as usize].chain
    }

    /// The name of the chain of an entry.
    pub(crate) fn name_of(&self, number: Number) -> &ChainName {
        &self.chains[self.chain_of(number) as usize].name
    }

    pub(crate) fn stamp(&self, number: Number) -> Stamp {
        let node = self.node(number);
        Stamp { clock: node.clock, author: self.name_of(number).author, id: node.id }
    }

    /// An entry. `None` if it cannot be read from disk.
    pub(crate) fn entry(&self, number: Number) -> Option<Arc<Entry>> {
        if let Some(entry) = self.bodies.get(&number) {
            return Some(Arc::clone(entry));
        }
        let node = self.node(number);
        self.source.as_ref()?.entry(&node.id, node.location?).map(Arc::new)
    }

    /// The operation of an entry on the log itself.
    ///
    /// # Panics
    ///
    /// If the entry changes an object.
    pub(crate) fn control(&self, number: Number) -> &Action {
        &self.control_entry(number).action
    }

    /// The entry of an operation on the log itself.
    ///
    /// # Panics
    ///
    /// If the entry changes an object.
    pub(crate) fn control_entry(&self, number: Number) -> &Entry {
        self.bodies.get(&number).expect("operations on the log stay in memory")
    }

    /// The grant with a number.
    pub(crate) fn grant(&self, number: Number) -> Option<&Grant> {
        match self.bodies.get(&number).map(|entry| &entry.action) {
            Some(Action::Grant(grant)) => Some(grant),
            _ => None,
        }
    }

    /// Reads entries that are on disk from `source`.
    pub(crate) fn read_from(&mut self, source: Arc<dyn Source>) {
        self.source = Some(source);
    }

    /// Lets another graph read the same entries that are on disk.
    pub(crate) fn share_source(&self, other: &mut Self) {
        other.source.clone_from(&self.source);
    }

    /// Notes that an entry is on disk. Its bytes leave the memory if they change an object. Gives
    /// its place before.
    pub(crate) fn stored(&mut self, number: Number, location: Location) -> Option<Location> {
        let node = &mut self.nodes[number as usize];
        let before = node.location.replace(location);
        if node.is_data() && self.source.is_some() {
            self.bodies.remove(&number);
        }
        before
    }

    /// The entries about an object, in the order of their admission; about one of its fields, if it
    /// is named.
    pub(crate) fn about(&self, object: u32, field: Option<u32>) -> impl Iterator<Item = Number> {
        let all = self.about[object as usize].iter().copied();
        all.filter(move |&number| field.is_none_or(|field| self.node(number).field == field))
    }

    /// Whether `a` is `b` or before it, in one chain.
    pub(crate) fn is_up_to(&self, a: Number, b: Number) -> bool {
        let (a, b) = (self.node(a), self.node(b));
        if a.sequence > b.sequence {
            return false;
        }
        let (mut branch, mut end) = (b.branch, b.sequence());
        loop {
            if branch == a.branch {
                return a.sequence() <= end;
            }
            match self.branches[branch as usize].parent {
                Some((parent, at)) => (branch, end) = (parent, at),
                None => return false,
            }
        }
    }

    /// The past of an entry with these neighbours.
    pub(crate) fn past(&self, previous: Option<Number>, links: &[Number]) -> Past {
        let start = previous.map_or(0, |previous| self.node(previous).others);
        if links.is_empty() {
            return Past { previous, others: Others::Known(start) };
        }
        let mut known: BTreeMap<u32, Vec<Number>> = BTreeMap::new();
        for &(chain, tip) in &self.others[start as usize] {
            known.entry(chain).or_default().push(tip);
        }
        for &link in links {
            for &(chain, tip) in self.others_of(link) {
                self.add_tip(&mut known, chain, tip);
            }
            self.add_tip(&mut known, self.chain_of(link), link);
        }
        let known = known
            .into_iter()
            .flat_map(|(chain, tips)| tips.into_iter().map(move |tip| (chain, tip)));
        Past { previous, others: Others::New(known.collect()) }
    }

    /// The past of an admitted entry.
    pub(crate) fn past_of(&self, number: Number) -> Past {
        let others = Others::Known(self.node(number).others);
        Past { previous: self.previous(number), others }
    }

    /// The last entries of other chains in the past of an admitted entry.
    pub(crate) fn others_of(&self, number: Number) -> &LastEntries {
        &self.others[self.node(number).others as usize]
    }

    fn others_in<'a>(&'a self, past: &'a Past) -> &'a LastEntries {
        match &past.others {
            Others::Known(at) => &self.others[*at as usize],
            Others::New(others) => others,
        }
    }

    fn add_tip(&self, known: &mut BTreeMap<u32, Vec<Number>>, chain: u32, tip: Number) {
        let tips = known.entry(chain).or_default();
        if !tips.iter().any(|&other| self.is_up_to(tip, other)) {
            tips.retain(|&other| !self.is_up_to(other, tip));
            tips.push(tip);
        }
    }

    pub(crate) fn contains(&self, view: View<'_>, number: Number) -> bool {
        match view {
            View::All => true,
            View::Past(past) => self.is_in(past, number),
        }
    }

    /// Whether an entry is in a past. Genesis is in every past.
    pub(crate) fn is_in(&self, past: &Past, number: Number) -> bool {
        number == 0
            || past.previous.is_some_and(|previous| self.is_up_to(number, previous))
            || self.is_among(number, self.others_in(past))
    }

    /// Whether an entry is one of the last entries of chains, or before one.
    fn is_among(&self, number: Number, last: &LastEntries) -> bool {
        let chain = self.chain_of(number);
        let start = last.partition_point(|(other, _)| *other < chain);
        let tips = last[start..].iter().take_while(|(other, _)| *other == chain);
        tips.into_iter().any(|&(_, tip)| self.is_up_to(number, tip))
    }

    /// Whether an entry is in the past of another.
    pub(crate) fn precedes(&self, a: Number, b: Number) -> bool {
        if a == b || b == 0 {
            return false;
        }
        a == 0 || self.is_up_to(a, b) || self.is_among(a, self.others_of(b))
    }

    /// The entries in a past that are not in the past of `known`, in no particular order. The cost
    /// is that of what is found, and of the number of chains.
    pub(crate) fn beyond(&self, past: &Past, known: Option<Number>) -> Vec<Number> {
        let is_known = |number| known.is_some_and(|known| self.precedes(number, known));
        let mut found = Vec::new();
        let mut seen = HashSet::new();
        let others = self.others_in(past).iter().map(|&(_, tip)| tip);
        let tips = past.previous.into_iter().chain(others);
        // Genesis is in every past, also of entries without a link.
        for tip in tips.chain([0]) {
            let mut next = Some(tip);
            while let Some(number) = next.filter(|&number| !is_known(number)) {
                // Branches of one chain have a common beginning.
                if !seen.insert(number) {
                    break;
                }
                found.push(number);
                next = self.previous(number);
            }
        }
        found
    }

    /// The number of the chains of an author in a past.
    pub(crate) fn chains_of(&self, past: &Past, name: &ChainName) -> usize {
        let is_theirs = |chain: &u32| {
            let other = &self.chains[*chain as usize].name;
            other.author == name.author && other != name
        };
        let mut chains: Vec<u32> = self.others_in(past).iter().map(|&(chain, _)| chain).collect();
        if !self.nodes.is_empty() {
            chains.push(self.chain_of(0));
        }
        chains.sort_unstable();
        chains.dedup();
        chains.iter().filter(|&chain| is_theirs(chain)).count()
    }

    /// The forks at or before an entry, each with the child that leads to the entry.
    pub(crate) fn forks_before(&self, number: Number) -> impl Iterator<Item = (&Fork, Number)> {
        let chain = &self.chains[self.chain_of(number) as usize];
        chain.forks.iter().filter_map(move |&at| {
            let fork = &self.forks[at as usize];
            let leads = fork.children.iter().find(|&&child| self.is_up_to(child, number));
            leads.map(|&child| (fork, child))
        })
    }

    /// All forks.
    pub(crate) fn forks(&self) -> &[Fork] {
        &self.forks
    }

    /// The entry before an entry in its chain.
    pub(crate) fn previous(&self, number: Number) -> Option<Number> {
        let node = self.node(number);
        let branch = &self.branches[node.branch as usize];
        if node.sequence() > branch.start {
            return branch.at(node.sequence() - 1);
        }
        branch.parent.and_then(|(parent, at)| self.branches[parent as usize].at(at))
    }

    /// The first entry that came behind an entry in its chain.
    fn first_child(&self, number: Number) -> Option<Number> {
        let node = self.node(number);
        // It goes on with the branch; later ones begin their own.
        self.branches[node.branch as usize].at(node.sequence() + 1)
    }

    /// The entries right behind an entry in its chain: more than one at a fork.
    pub(crate) fn children(&self, number: Number) -> impl Iterator<Item = Number> {
        let chain = self.chain_of(number);
        // Most chains have no fork.
        let fork = if self.chains[chain as usize].forks.is_empty() {
            None
        } else {
            self.fork_after.get(&(chain, Some(number)))
        };
        let all = fork.map(|&at| &self.forks[at as usize].children[..]);
        let alone = if all.is_some() { None } else { self.first_child(number) };
        all.unwrap_or_default().iter().copied().chain(alone)
    }

    /// Adds an entry with its past. Returns its number and whether it makes a fork.
    pub(crate) fn add(
        &mut self,
        id: EntryId,
        entry: Arc<Entry>,
        past: Past,
        bytes: usize,
    ) -> (Number, bool) {
        let bytes = u32::try_from(bytes).expect("an entry has at most 66 KiB");
        let Past { previous, others } = past;
        let others = match others {
            Others::Known(at) => at,
            Others::New(others) => self.add_others(others),
        };
        let grant = if entry.grant.is_none() { None } else { self.number(&entry.grant) };
        let chain = match previous {
            Some(previous) => self.chain_of(previous),
            None => self.chain_number(entry.chain),
        };
        let object = entry.action.object();
        let object = match self.objects.number(&object) {
            Some(known) => known,
            None => self.add_object(object),
        };
        let field = entry.action.field();
        let field = match self.fields.number(field) {
            Some(known) => known,
            None => self.fields.add(field.into()),
        };
        let shape = Shape {
            id,
            clock: entry.clock,
            chain,
            bytes,
            grant: grant.and_then(NonZeroU32::new),
            operation: entry.action.number(),
            object,
            field,
        };
        let (number, is_fork) = self.add_shape(shape, previous, others);
        if object != 0 {
            self.about[object as usize].push(number);
        }
        let (nodes, hasher) = (&self.nodes, &self.hasher);
        let hash = |number: &Number| hasher.of(&nodes[*number as usize].id);
        self.by_id.insert_unique(hasher.of(&id), number, hash);
        self.bodies.insert(number, entry);
        (number, is_fork)
    }

    /// Makes room for entries.
    pub(crate) fn reserve(&mut self, entries: usize) {
        self.nodes.reserve_exact(entries);
    }

    /// Makes the entries from a number on findable, which [`Self::add_shape`] has added. All at
    /// once, this takes a fraction of the time.
    pub(crate) fn find_from(&mut self, first: Number) {
        let Self { nodes, by_id, hasher, about, .. } = self;
        let new = &nodes[first as usize..];
        let mut counts = vec![0; about.len()];
        new.iter().for_each(|node| counts[node.object as usize] += 1);
        counts[0] = 0;
        for (about, count) in about.iter_mut().zip(counts) {
            about.reserve_exact(count);
        }
        by_id.reserve(new.len(), |number| hasher.of(&nodes[*number as usize].id));
        let hash = |number: &Number| hasher.of(&nodes[*number as usize].id);
        for (number, node) in (first..).zip(new) {
            by_id.insert_unique(hasher.of(&node.id), number, hash);
        }
        for (number, node) in (first..).zip(new) {
            if node.object != 0 {
                about[node.object as usize].push(number);
            }
        }
    }

    /// Adds an entry without its body. It can be found after [`Self::find_from`].
    pub(crate) fn add_shape(
        &mut self,
        shape: Shape,
        previous: Option<Number>,
        others: u32,
    ) -> (Number, bool) {
        let Shape { id, clock, chain, bytes, grant, operation, object, field } = shape;
        let number = Number::try_from(self.nodes.len()).expect("fewer than 2^32 entries");
        let before = match previous {
            Some(previous) => self.first_child(previous),
            None => self.chains[chain as usize].first,
        };
        let parent = previous.map(|previous| (self.node(previous).branch, self.node(previous)));
        let start = parent.map_or(0, |(_, node)| node.sequence + 1);
        let chain_bytes = parent.map_or(0, |(_, node)| node.chain_bytes) + u64::from(bytes);
        let parent = parent.map(|(branch, node)| (branch, node.sequence()));
        let branch = if let (None, Some((branch, _))) = (before, parent) {
            branch
        } else {
            let numbers = Vec::new();
            self.branches.push(Branch { chain, parent, start: u64::from(start), numbers });
            u32::try_from(self.branches.len() - 1).expect("fewer than 2^32 branches")
        };
        self.branches[branch as usize].numbers.push(number);
        if previous.is_none() && before.is_none() {
            self.chains[chain as usize].first = Some(number);
        }
        if let Some(first) = before {
            let forks = &mut self.forks;
            let of_chain = &mut self.chains[chain as usize].forks;
            let at = *self.fork_after.entry((chain, previous)).or_insert_with(|| {
                forks.push(Fork { children: vec![first] });
                let at = u32::try_from(forks.len() - 1).expect("fewer than 2^32 forks");
                of_chain.push(at);
                at
            });
            self.forks[at as usize].children.push(number);
        }
        let tips = &mut self.chains[chain as usize].tips;
        tips.retain(|&tip| Some(tip) != previous);
        tips.push(number);
        self.nodes.push(Node {
            id,
            clock,
            chain_bytes,
            location: None,
            branch,
            sequence: start,
            others,
            grant,
            operation,
            object,
            field,
            honoured: false,
            applied: false,
        });
        (number, before.is_some())
    }

    /// The shape of an entry, with the entry before it in its chain and the place of the last
    /// entries of other chains.
    pub(crate) fn shape(&self, number: Number) -> (Shape, Option<Number>, u32) {
        let Node { id, clock, grant, operation, object, field, others, .. } = *self.node(number);
        let previous = self.previous(number);
        let before = previous.map_or(0, |previous| self.node(previous).chain_bytes);
        let bytes = self.node(number).chain_bytes - before;
        let bytes = u32::try_from(bytes).expect("an entry has at most 66 KiB");
        let chain = self.chain_of(number);
        let shape = Shape { id, clock, chain, bytes, grant, operation, object, field };
        (shape, previous, others)
    }

    /// Whether the grant of each entry is one.
    pub(crate) fn grants_are_grants(&self) -> bool {
        let grants = self.nodes.iter().filter_map(|node| node.grant);
        grants.into_iter().all(|grant| self.node(grant.get()).operation == operation::GRANT)
    }

    /// Adds the body of an operation on the log itself.
    pub(crate) fn add_body(&mut self, number: Number, entry: Arc<Entry>) {
        self.bodies.insert(number, entry);
    }

    pub(crate) fn add_others(&mut self, others: Box<LastEntries>) -> u32 {
        self.others.push(others);
        u32::try_from(self.others.len() - 1).expect("not more than entries")
    }

    pub(crate) fn add_object(&mut self, object: ObjectId) -> u32 {
        self.about.push(Vec::new());
        self.objects.add(object)
    }

    pub(crate) fn chain_number(&mut self, name: ChainName) -> u32 {
        let chains = &mut self.chains;
        *self.by_name.entry(name).or_insert_with(|| {
            chains.push(Chain { name, tips: Vec::new(), first: None, forks: Vec::new() });
            u32::try_from(chains.len() - 1).expect("fewer than 2^32 chains")
        })
    }
}
