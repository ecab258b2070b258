//! Any bytes as a signed message, a signed text, or a detached signature.

/// Checks one input.
pub fn run(bytes: &[u8]) {
    crate::messages::verified(bytes);
}
