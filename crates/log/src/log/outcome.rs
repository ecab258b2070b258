//! The outcomes for offered entries.

use crate::deletable::Opening;
use crate::name::EntryId;
use crate::record::Signed;
use crate::refusal::Refusal;

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

/// The result of [`Log::offer`](crate::Log::offer).
#[derive(Debug, Default)]
pub struct Offered {
    /// The outcome for each offered entry, in their order.
    pub outcomes: Vec<Outcome>,
    /// The entries that are admitted now, each behind its past, those included that waited before.
    pub added: Vec<Signed>,
    /// The entries that waited before and are refused now.
    pub refused: Vec<(EntryId, Refusal)>,
    /// The deletable values that came to entries that were here without them. The caller brings
    /// them to disk.
    pub revealed: Vec<(EntryId, Opening)>,
}
