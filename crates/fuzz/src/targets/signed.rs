//! Any bytes as a tombstone, plan, lease, attestation or verdict.

/// Checks one input.
pub fn run(bytes: &[u8]) {
    crate::backup::signed(bytes);
}
