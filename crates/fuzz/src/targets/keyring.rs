//! Any bytes as a keyring.

/// Checks one input.
pub fn run(bytes: &[u8]) {
    crate::ring(bytes);
}
