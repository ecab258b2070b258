//! Any bytes as the content of a pack.

/// Checks one input.
pub fn run(bytes: &[u8]) {
    crate::backup::pack(bytes);
}
