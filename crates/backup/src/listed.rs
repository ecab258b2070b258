//! A snapshot in the list of a repository.

use crate::document::DocumentStanding;
use crate::id::Id;
use crate::snapshot::Snapshot;

/// A snapshot as a repository has it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Listed {
    /// The identifier.
    pub id: Id,
    /// The content.
    pub snapshot: Snapshot,
    /// Whose word it is.
    pub standing: DocumentStanding,
    /// Its client signed it, and it does not count only because that key is revoked, or the client
    /// was removed, and the owner has not attested it.
    pub is_unattested: bool,
}
