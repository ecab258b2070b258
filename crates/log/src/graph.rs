//! The graph of admitted entries: chains, branches, forks, and the past of each entry.
//!
//! Entries have local numbers in the order of their admission. Nothing that is computed here depends on that order.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use crate::entry::Entry;
use crate::merge::Stamp;
use crate::name::{ChainName, EntryId};

/// The number of an admitted entry.
pub(crate) type Number = u32;

/// The last known entries of chains.
pub(crate) type LastEntries = BTreeMap<u32, Vec<Number>>;

/// An admitted entry.
pub(crate) struct Node {
    pub(crate) id: EntryId,
    pub(crate) entry: Arc<Entry>,
    pub(crate) chain: u32,
    pub(crate) branch: u32,
    /// The last entries of other chains in the past.
    pub(crate) others: Arc<LastEntries>,
    first_child: Option<Number>,
    /// The sum of the octets of the chain up to here.
    pub(crate) chain_octets: u64,
    /// Whether the entry counts, as of the last settlement.
    pub(crate) honoured: bool,
    /// The place of the octets in the segments of a folder. `None` until the entry is on disk.
    pub(crate) location: Option<Location>,
}

/// The place of an entry in the segments of a folder. Offsets count from the start of the segment.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Location {
    pub(crate) segment: u32,
    /// The start of the frame.
    pub(crate) frame: u32,
    /// The start of the record, behind its length.
    pub(crate) record: u32,
    /// The start of the octets of the entry, and their number.
    pub(crate) entry: u32,
    pub(crate) octets: u32,
}

impl Node {
    pub(crate) fn stamp(&self) -> Stamp {
        Stamp { clock: self.entry.clock, author: self.entry.author(), id: self.id }
    }
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
    others: Arc<LastEntries>,
}

/// A closed set of entries.
#[derive(Clone, Copy)]
pub(crate) enum View<'a> {
    /// All admitted entries.
    All,
    /// The past of an entry.
    Past(&'a Past),
}

/// The graph.
#[derive(Default)]
pub(crate) struct Graph {
    pub(crate) nodes: Vec<Node>,
    by_id: HashMap<EntryId, Number>,
    pub(crate) chains: Vec<Chain>,
    by_name: HashMap<ChainName, u32>,
    pub(crate) branches: Vec<Branch>,
    forks: Vec<Fork>,
    fork_after: HashMap<(u32, Option<Number>), u32>,
}

impl Graph {
    pub(crate) fn number(&self, id: &EntryId) -> Option<Number> {
        self.by_id.get(id).copied()
    }

    /// The numbers of all entries.
    pub(crate) fn numbers(&self) -> std::ops::Range<Number> {
        0..Number::try_from(self.nodes.len()).expect("fewer than 2^32 entries")
    }

    pub(crate) fn node(&self, number: Number) -> &Node {
        &self.nodes[number as usize]
    }

    pub(crate) fn find(&self, id: &EntryId) -> Option<&Node> {
        self.number(id).map(|number| self.node(number))
    }

    pub(crate) fn chain(&self, name: &ChainName) -> Option<&Chain> {
        self.by_name.get(name).map(|&at| &self.chains[at as usize])
    }

    /// Whether `a` is `b` or before it, in one chain.
    pub(crate) fn is_up_to(&self, a: Number, b: Number) -> bool {
        let (a, b) = (self.node(a), self.node(b));
        if a.chain != b.chain || a.entry.sequence > b.entry.sequence {
            return false;
        }
        let (mut branch, mut end) = (b.branch, b.entry.sequence);
        loop {
            if branch == a.branch {
                return a.entry.sequence <= end;
            }
            match self.branches[branch as usize].parent {
                Some((parent, at)) => (branch, end) = (parent, at),
                None => return false,
            }
        }
    }

    /// The past of an entry with these neighbours.
    pub(crate) fn past(&self, previous: Option<Number>, links: &[Number]) -> Past {
        let start = previous.map(|previous| Arc::clone(&self.node(previous).others));
        let mut others = start.unwrap_or_default();
        if !links.is_empty() {
            let mut known = (*others).clone();
            for &link in links {
                for (&chain, tips) in &*Arc::clone(&self.node(link).others) {
                    tips.iter().for_each(|&tip| self.add_tip(&mut known, chain, tip));
                }
                self.add_tip(&mut known, self.node(link).chain, link);
            }
            others = Arc::new(known);
        }
        Past { previous, others }
    }

    /// The past of an admitted entry.
    pub(crate) fn past_of(&self, number: Number) -> Past {
        let node = self.node(number);
        Past { previous: self.number(&node.entry.previous), others: Arc::clone(&node.others) }
    }

    fn add_tip(&self, known: &mut LastEntries, chain: u32, tip: Number) {
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
            || past
                .others
                .get(&self.node(number).chain)
                .is_some_and(|tips| tips.iter().any(|&tip| self.is_up_to(number, tip)))
    }

    /// Whether an entry is in the past of another.
    pub(crate) fn precedes(&self, a: Number, b: Number) -> bool {
        if a == b || b == 0 {
            return false;
        }
        let (tips, chain) = (&self.node(b).others, self.node(a).chain);
        a == 0
            || self.is_up_to(a, b)
            || tips.get(&chain).is_some_and(|tips| tips.iter().any(|&tip| self.is_up_to(a, tip)))
    }

    /// The entries in a past that are not in the past of `known`, in no particular order. The cost is that of what is
    /// found, and of the number of chains.
    pub(crate) fn beyond(&self, past: &Past, known: Option<Number>) -> Vec<Number> {
        let is_known = |number| known.is_some_and(|known| self.precedes(number, known));
        let mut found = Vec::new();
        let mut seen = HashSet::new();
        let tips = past.previous.iter().chain(past.others.values().flatten()).copied();
        // Genesis is in every past, also of entries without a link.
        for tip in tips.chain([0]) {
            let mut next = Some(tip);
            while let Some(number) = next.filter(|&number| !is_known(number)) {
                // Branches of one chain have a common beginning.
                if !seen.insert(number) {
                    break;
                }
                found.push(number);
                next = self.number(&self.node(number).entry.previous);
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
        let genesis = self.nodes.first().map(|genesis| genesis.chain);
        let genesis = genesis.filter(|chain| !past.others.contains_key(chain));
        past.others.keys().copied().chain(genesis).filter(is_theirs).count()
    }

    /// The forks at or before an entry, each with the child that leads to the entry.
    pub(crate) fn forks_before(&self, number: Number) -> impl Iterator<Item = (&Fork, Number)> {
        let chain = &self.chains[self.node(number).chain as usize];
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
        self.number(&self.node(number).entry.previous)
    }

    /// The entries right behind an entry in its chain: more than one at a fork.
    pub(crate) fn children(&self, number: Number) -> impl Iterator<Item = Number> {
        self.children_at(self.node(number).chain, Some(number))
    }

    /// The entries right behind a place of a chain; those at its start for `None`.
    fn children_at(&self, chain: u32, number: Option<Number>) -> impl Iterator<Item = Number> {
        let of = &self.chains[chain as usize];
        let first = match number {
            Some(number) => self.node(number).first_child,
            None => of.first,
        };
        // Most chains have no fork.
        let fork = if of.forks.is_empty() { None } else { self.fork_after.get(&(chain, number)) };
        let all = fork.map(|&at| &self.forks[at as usize].children[..]);
        let alone = if all.is_some() { None } else { first };
        all.unwrap_or_default().iter().copied().chain(alone)
    }

    /// Appends the entries of a chain that are not one of `known` or before it.
    pub(crate) fn behind(&self, chain: usize, known: &[Number], out: &mut Vec<Number>) {
        let of = &self.chains[chain];
        let number = u32::try_from(chain).expect("fewer than 2^32 chains");
        let is_known = |entry: Number| known.iter().any(|&one| self.is_up_to(entry, one));
        let mut starts: Vec<Number> = Vec::new();
        if known.is_empty() {
            starts.extend(self.children_at(number, None));
        } else {
            let behind = known.iter().flat_map(|&one| self.children(one));
            let beside = of.forks.iter().flat_map(|&at| self.forks[at as usize].children.iter());
            starts.extend(behind.chain(beside.copied()).filter(|&one| !is_known(one)));
        }
        if of.forks.is_empty() {
            while let Some(entry) = starts.pop() {
                out.push(entry);
                starts.extend(self.node(entry).first_child);
            }
        } else {
            let mut seen = std::collections::HashSet::new();
            while let Some(entry) = starts.pop() {
                if seen.insert(entry) {
                    out.push(entry);
                    starts.extend(self.children(entry));
                }
            }
        }
    }

    /// Adds an entry with its past. Returns its number and whether it makes a fork.
    pub(crate) fn add(
        &mut self,
        id: EntryId,
        entry: Arc<Entry>,
        past: Past,
        octets: u64,
    ) -> (Number, bool) {
        let number = Number::try_from(self.nodes.len()).expect("fewer than 2^32 entries");
        let chain = self.chain_number(entry.chain);
        let previous = past.previous;
        let before = match previous {
            Some(previous) => self.nodes[previous as usize].first_child,
            None => self.chains[chain as usize].first,
        };
        let parent = previous.map(|previous| {
            let node = self.node(previous);
            (node.branch, node.entry.sequence)
        });
        let branch = if let (None, Some((branch, _))) = (before, parent) {
            branch
        } else {
            let start = entry.sequence;
            self.branches.push(Branch { parent, start, numbers: Vec::new() });
            u32::try_from(self.branches.len() - 1).expect("fewer than 2^32 branches")
        };
        self.branches[branch as usize].numbers.push(number);
        let mut is_fork = false;
        match before {
            None => match previous {
                Some(previous) => self.nodes[previous as usize].first_child = Some(number),
                None => self.chains[chain as usize].first = Some(number),
            },
            Some(first) => {
                is_fork = true;
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
        }
        let chain_octets = previous.map_or(0, |previous| self.node(previous).chain_octets) + octets;
        let tips = &mut self.chains[chain as usize].tips;
        tips.retain(|&tip| Some(tip) != previous);
        tips.push(number);
        self.by_id.insert(id, number);
        self.nodes.push(Node {
            id,
            entry,
            chain,
            branch,
            others: past.others,
            first_child: None,
            chain_octets,
            honoured: false,
            location: None,
        });
        (number, is_fork)
    }

    fn chain_number(&mut self, name: ChainName) -> u32 {
        let chains = &mut self.chains;
        *self.by_name.entry(name).or_insert_with(|| {
            chains.push(Chain { name, tips: Vec::new(), first: None, forks: Vec::new() });
            u32::try_from(chains.len() - 1).expect("fewer than 2^32 chains")
        })
    }
}
