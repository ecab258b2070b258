//! The end of a simulation: the network heals, and the promises of the log are checked.

use std::collections::BTreeSet;

use talaria_log::{EntryId, Log, Outcome, Signed, Standing};

use super::node::{Node, restored};
use super::people::{MALLORY, VICTIM};
use super::world::{NODES, SKEW_MS_MAX, World};

/// Rounds of exchanges after the network has healed.
const ROUNDS_MAX: usize = 60;

/// All that nodes with the same entries agree on beside the state, as text: which entries count and
/// why, checkpoints, snapshots and keys of nodes.
fn agreed(log: &Log) -> String {
    let mut ids: Vec<EntryId> = log.ids().collect();
    ids.sort_unstable();
    let standings = ids.iter().map(|id| log.standing(id));
    let standings: Vec<Option<Standing>> = standings.collect();
    let mut checkpoints = log.checkpoints();
    checkpoints.sort_by_key(|checkpoint| checkpoint.entry);
    let mut nodes: Vec<(EntryId, bool)> = log.nodes().map(|(id, .., may)| (id, may)).collect();
    nodes.sort_unstable();
    let (forks, snapshots) = (log.checkpoint_forks(), log.snapshots());
    format!("{standings:?} {checkpoints:?} {forks:?} {snapshots:?} {nodes:?}")
}

impl World {
    /// Everything works again, and all nodes exchange until nothing is new.
    pub(super) fn heal(&mut self) -> Result<(), String> {
        self.network.parted = 0;
        self.now_ms += 2 * SKEW_MS_MAX as u64 + 400_000;
        for number in 0..NODES {
            let disk = &mut self.nodes[number].disk;
            disk.segments_max = usize::MAX;
            // One more crash at the end: the disk must have everything that was acknowledged.
            self.crash(number);
            self.start(number)?;
        }
        self.is_healed = true;
        let amount = |world: &Self| -> usize {
            let values =
                |node: &Node| node.stored.iter().filter(|signed| signed.opening.is_some()).count();
            world.nodes.iter().map(|node| node.stored.len() + values(node)).sum()
        };
        for _ in 0..ROUNDS_MAX {
            let before = amount(self);
            for number in 0..NODES {
                for step in [1, 7] {
                    self.connect(number, (number + step) % NODES, None)?;
                }
            }
            if before == amount(self) {
                return Ok(());
            }
        }
        Err(format!("the nodes did not come to an end in {ROUNDS_MAX} rounds"))
    }

    pub(super) fn check(&mut self) -> Result<(), String> {
        let of = |node: &Node| -> BTreeSet<EntryId> {
            node.stored.iter().map(|signed| signed.id).collect()
        };
        let all = of(&self.nodes[0]);
        let log = self.nodes[0].log.as_ref().ok_or("node 0 is down")?;
        let (hash, decided) = (log.state_hash(), agreed(log));
        // The values that somebody has.
        let values: BTreeSet<EntryId> = self
            .nodes
            .iter()
            .filter_map(|node| node.log.as_ref())
            .flat_map(|log| log.ids().filter(|id| log.state().has_value(id)))
            .collect();
        for (number, node) in self.nodes.iter().enumerate() {
            let theirs = of(node);
            if theirs != all {
                let (more, less) = (theirs.difference(&all).next(), all.difference(&theirs).next());
                return Err(format!(
                    "node {number} has {} entries and node 0 {}: {more:?} only there, {less:?} only here",
                    theirs.len(),
                    all.len()
                ));
            }
            let log = node.log.as_ref().ok_or("a node is down")?;
            if log.state_hash() != hash {
                return Err(format!("nodes 0 and {number} have the same entries and other states"));
            }
            if agreed(log) != decided {
                return Err(format!(
                    "nodes 0 and {number} disagree: {} and {decided}",
                    agreed(log)
                ));
            }
            if let Some(id) = values.iter().find(|id| !log.state().has_value(id)) {
                return Err(format!("node {number} does not have the value of the entry {id}"));
            }
            let after = restored(&node.stored)?;
            if after.missing_values() != log.missing_values() {
                return Err(format!("node {number} has other values after a restart"));
            }
            if after.state_hash() != hash {
                return Err(format!("node {number} has another state after a restart"));
            }
        }
        if let Some((id, node)) = self.acknowledged.iter().find(|(id, _)| !all.contains(id)) {
            return Err(format!("the entry {id}, which node {node} acknowledged, is lost"));
        }
        let all_made = self.begun.iter().map(|signed| signed.id).chain(self.made.iter().copied());
        let all_made: BTreeSet<EntryId> = all_made.collect();
        if let Some(id) = all.difference(&all_made).next() {
            return Err(format!("the entry {id} is admitted, and nobody may have written it"));
        }
        self.check_forks(log)?;
        self.check_order(hash)?;
        self.report.entries = all.len() as u64;
        self.report.forks = log.forks().len() as u64;
        let ended = |id: &&EntryId| log.standing(id) != Some(Standing::Counts);
        self.report.ended = all.iter().filter(ended).count() as u64;
        for id in &all {
            self.report.deleted += u64::from(log.state().is_deleted(id));
            self.report.expired += u64::from(log.standing(id) == Some(Standing::Expired));
        }
        let checkpoints = log.checkpoints();
        let valid = checkpoints.iter().filter(|checkpoint| checkpoint.is_valid).count();
        self.report.checkpoints = valid as u64;
        self.report.checkpoint_forks = log.checkpoint_forks().len() as u64;
        for snapshot in log.snapshots() {
            self.report.snapshots += u64::from(snapshot.is_in_force);
            if log.check_snapshot(&snapshot.entry) != Some(Ok(())) {
                return Err(format!("the snapshot {} of an honest owner is wrong", snapshot.entry));
            }
        }
        let may = log.nodes().filter(|(.., may)| *may).count();
        self.report.node_keys = may as u64;
        self.report.node_keys_ended = (log.nodes().count() - may) as u64;
        self.report.packets = self.network.sent();
        self.report.lost = self.network.lost;
        self.report.repeated = self.network.repeated;
        self.report.segments = self.nodes.iter().map(|node| node.disk.segments() as u64).sum();
        Ok(())
    }

    /// Only attackers fork.
    fn check_forks(&self, log: &Log) -> Result<(), String> {
        let attackers = [VICTIM, MALLORY].map(|person| self.people[person].certificate.name());
        match log.forks().into_iter().find(|fork| !attackers.contains(&fork.chain.author)) {
            None => Ok(()),
            Some(fork) => Err(format!(
                "the chain of an honest node is forked at {}: instance {}",
                fork.sequence, fork.chain.instance[0]
            )),
        }
    }

    /// Another order of delivery gives the same state.
    fn check_order(&self, hash: [u8; 32]) -> Result<(), String> {
        let [genesis, rest @ ..] = &self.nodes[0].stored[..] else { return Ok(()) };
        let mut log = Log::begin(genesis).map_err(|error| error.to_string())?;
        let mut rest = rest.to_vec();
        let mut numbers = self.numbers.clone();
        while !rest.is_empty() {
            let part = (0..rest.len().min(16)).map(|_| {
                let at = numbers.below(rest.len());
                rest.swap_remove(at)
            });
            let part: Vec<Signed> = part.collect();
            let outcomes = log.offer(part, self.now_ms).outcomes;
            if let Some(outcome) =
                outcomes.iter().find(|outcome| matches!(outcome, Outcome::Refused(_)))
            {
                return Err(format!("an admitted entry is refused in another order: {outcome:?}"));
            }
        }
        if log.state_hash() == hash {
            Ok(())
        } else {
            Err("another order of delivery gives another state".into())
        }
    }
}
