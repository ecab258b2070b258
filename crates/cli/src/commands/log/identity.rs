//! Identities of entries, as text.

use talaria_log::EntryId;

/// Reads the identity of an entry.
pub(super) fn parse_entry(text: &str) -> Result<EntryId, String> {
    text.parse().map_err(|_| "an identity has 64 hexadecimal digits".to_owned())
}

/// The first digits of an identity, for people.
pub(super) fn short(id: &impl ToString) -> String {
    id.to_string()[..16].to_owned()
}
