//! An entry on trial: what is known of its signature, and its place in the graph.

use std::sync::Arc;

use crate::certificate::MemberKey;
use crate::graph::{Number, Past};
use crate::name::EntryId;
use crate::record::Signed;
use crate::refusal::Refusal;
use crate::signature::BadSignature;

/// An entry that may be admitted, and what is known about its signature.
pub(super) struct Trial {
    pub(super) signed: Signed,
    pub(super) checked: Option<Checked>,
    /// Whether the statement of its batch is about the entry.
    pub(super) is_covered: bool,
}

/// The result of checking a signature with a key.
#[derive(Clone)]
pub(super) struct Checked {
    pub(super) key: Arc<MemberKey>,
    /// The reason why the signature does not hold.
    pub(super) bad: Option<BadSignature>,
}

/// The place of an entry in the graph.
pub(super) struct Place {
    pub(super) past: Past,
    pub(super) links: Vec<Number>,
}

/// An entry has no place in the graph, or not yet.
pub(super) enum NotPlaced {
    /// An entry before it is missing.
    Missing(EntryId),
    Refused(Refusal),
}
