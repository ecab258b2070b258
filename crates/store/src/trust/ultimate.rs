//! The keys of the user: their certificates are ultimately trusted.

use std::collections::BTreeSet;

use rusqlite::Connection;
use talaria_trust::Level;

use crate::{find, owner};

/// The certificates of the store that are ultimately trusted.
pub(super) fn ultimates(connection: &Connection) -> rusqlite::Result<BTreeSet<i64>> {
    let mut found = BTreeSet::new();
    for row in owner::all(connection)? {
        let is_own = Level::from_number(row.value) == Some(Level::Ultimate);
        if let Some(fingerprint) = row.fingerprint().filter(|_| is_own) {
            found.extend(find::id(connection, fingerprint)?);
        }
    }
    Ok(found)
}
