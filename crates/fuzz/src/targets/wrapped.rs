//! A choice of a receiver, and any content of a session key that is wrapped with its public key.

/// Checks one input.
pub fn run(bytes: &[u8]) {
    crate::messages::wrapped(bytes);
}
