//! The admitted checkpoints as trees, each behind the one before it.

use std::collections::{BTreeSet, HashMap};

use crate::action::Revocation;
use crate::graph::Number;

/// The checkpoints in the admitted entries.
#[derive(Default)]
pub(super) struct Checkpoints {
    /// Each behind the one before it.
    pub(super) trees: Vec<Tree>,
    /// Trees without one before them.
    pub(super) first: Vec<usize>,
    pub(super) by_head: HashMap<(Option<usize>, u64, [u8; 32]), usize>,
    pub(super) by_entry: HashMap<Number, usize>,
    /// For each tree, the least time by which it or a later one in the list existed.
    pub(super) existed_by: Vec<u64>,
    /// The greatest time of a cosigned tree.
    pub(super) reached: u64,
    /// Whether two trees have the same one before them.
    pub(super) is_forked: bool,
    /// The times until which checkpoints must cover the entries of keys.
    pub(super) deadlines: BTreeSet<u64>,
    /// Whether a revocation states the time of a compromise.
    pub(super) is_time_stated: bool,
}

/// A checkpoint. Several entries can have it.
pub(super) struct Tree {
    pub(super) before: Option<usize>,
    pub(super) after: Vec<usize>,
    /// The entries with the time of the checkpointer. They have the same past.
    pub(super) entries: Vec<(Number, u64)>,
    /// Entry, place of the witness in genesis, time.
    pub(super) cosigned: Vec<(Number, usize, u64)>,
    /// The times in the set of all admitted entries, if it is cosigned.
    pub(super) times: Option<Times>,
}

/// The times of a cosigned checkpoint in a closed set, in seconds since 1970.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Times {
    /// It existed by then.
    pub(super) existed_by: u64,
    /// This time was reached.
    pub(super) reached: u64,
}

impl Checkpoints {
    /// Takes up a revocation. Without a stated time, it needs no checkpoints.
    pub(super) fn add_revocation(&mut self, revocation: &Revocation) {
        self.is_time_stated |= revocation.since > 0;
    }
}
