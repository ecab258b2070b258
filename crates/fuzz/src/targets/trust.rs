//! Any bytes as GnuPG's trust database, and any text as an exported ownertrust.

use std::hint::black_box;

use talaria_gnupg::{is_ownertrust, is_trustdb, read_ownertrust, read_trustdb, write_ownertrust};

/// Checks one input.
pub fn run(bytes: &[u8]) {
    black_box((is_trustdb(bytes), is_ownertrust(bytes)));
    if let Ok(entries) = read_trustdb(bytes) {
        assert!(entries.len() <= bytes.len() / 40);
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(mut entries) = read_ownertrust(text) {
        entries.retain(|(_, value)| *value != 0);
        assert_eq!(read_ownertrust(&write_ownertrust(&entries)).ok(), Some(entries));
    }
}
