//! Any bytes as certificates in a store, and as a signature by one of them.

/// Checks one input.
pub fn run(bytes: &[u8]) {
    crate::known::stored(bytes);
}
