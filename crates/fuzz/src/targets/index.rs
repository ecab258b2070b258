//! Any bytes as the text of an index of a backup.

/// Checks one input.
pub fn run(bytes: &[u8]) {
    crate::backup::index(bytes);
}
