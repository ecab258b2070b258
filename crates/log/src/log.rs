//! A log in memory: which entries are admitted, and which of them count (decision record 6).
//!
//! [`Log::offer`] takes entries from anywhere, in any order. Whether an entry is admitted is a
//! function of genesis, the entry and its past; whether it counts, of the set of admitted entries.
//! Nothing here opens a file or reads a clock.

mod admit;
pub(crate) mod catch_up;
mod checkpoint_rules;
mod checkpoint_trees;
pub(crate) mod draft;
pub(crate) mod error;
mod honour;
mod index_items;
pub(crate) mod lacking;
pub(crate) mod memory;
mod node_rules;
mod nodes;
mod offer;
pub(crate) mod outcome;
mod settle;
pub(crate) mod snapshot_rules;
pub(crate) mod standing;
mod trial;
mod turns;
pub(crate) mod update;
mod waiting;

pub use catch_up::CatchUp;
pub use checkpoint_rules::{CheckpointFork, CheckpointInfo};
pub use draft::Maker;
pub use error::{DraftError, GenesisError, UpdateError};
pub use lacking::Known;
pub use memory::{ForkEvidence, Log, Proposal};
pub use outcome::{Offered, Outcome};
pub use snapshot_rules::SnapshotInfo;
pub use standing::Standing;
pub use update::{Edit, Honoured, Update};
pub use waiting::{AHEAD_MS, WAITING_BYTES_MAX, WAITING_MAX};
