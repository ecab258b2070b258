//! What a simulation reports.

use std::fmt;
use std::ops::AddAssign;

/// The events of simulations.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct LogReport {
    /// Simulations.
    pub seeds: u64,
    /// Entries that all nodes have at the end.
    pub entries: u64,
    /// Entries that were acknowledged to honest authors.
    pub acknowledged: u64,
    /// Packets.
    pub packets: u64,
    /// Connections.
    pub connections: u64,
    /// Packets and connections that were lost.
    pub lost: u64,
    /// Packets that arrived twice.
    pub repeated: u64,
    /// Records that were damaged or forged, and refused.
    pub refused: u64,
    /// Entries that waited for their past or their time.
    pub waited: u64,
    /// Crashes.
    pub crashes: u64,
    /// Restarts that found a group cut off.
    pub torn: u64,
    /// Commits that failed because the disk was full.
    pub full: u64,
    /// Machines that were set back to an older state.
    pub set_back: u64,
    /// Forks at the end.
    pub forks: u64,
    /// Entries that are admitted and do not count.
    pub ended: u64,
    /// Deletable values that are deleted at the end.
    pub deleted: u64,
    /// Deletable values that came to a node after their entries.
    pub values: u64,
    /// Valid checkpoints.
    pub checkpoints: u64,
    /// Forks of the checkpointer.
    pub checkpoint_forks: u64,
    /// Entries of the key that expires which do not count for that.
    pub expired: u64,
    /// Snapshots in force.
    pub snapshots: u64,
    /// Keys of nodes that may connect.
    pub node_keys: u64,
    /// Others.
    pub node_keys_ended: u64,
    /// Segments.
    pub segments: u64,
}

impl AddAssign for LogReport {
    fn add_assign(&mut self, other: Self) {
        let pairs = [
            (&mut self.seeds, other.seeds),
            (&mut self.entries, other.entries),
            (&mut self.acknowledged, other.acknowledged),
            (&mut self.packets, other.packets),
            (&mut self.connections, other.connections),
            (&mut self.lost, other.lost),
            (&mut self.repeated, other.repeated),
            (&mut self.refused, other.refused),
            (&mut self.waited, other.waited),
            (&mut self.crashes, other.crashes),
            (&mut self.torn, other.torn),
            (&mut self.full, other.full),
            (&mut self.set_back, other.set_back),
            (&mut self.forks, other.forks),
            (&mut self.ended, other.ended),
            (&mut self.deleted, other.deleted),
            (&mut self.values, other.values),
            (&mut self.checkpoints, other.checkpoints),
            (&mut self.checkpoint_forks, other.checkpoint_forks),
            (&mut self.expired, other.expired),
            (&mut self.snapshots, other.snapshots),
            (&mut self.node_keys, other.node_keys),
            (&mut self.node_keys_ended, other.node_keys_ended),
            (&mut self.segments, other.segments),
        ];
        for (sum, more) in pairs {
            *sum += more;
        }
    }
}

/// A promise of the log that was broken.
#[derive(Clone, Debug)]
pub struct LogFailure {
    /// The seed.
    pub seed: u64,
    /// The step at which it was noticed.
    pub step: usize,
    /// The promise.
    pub why: String,
}

impl fmt::Display for LogFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {}, step {}: {}", self.seed, self.step, self.why)
    }
}
