//! A session key, and any bytes as a message encrypted with it.

/// Checks one input.
pub fn run(bytes: &[u8]) {
    crate::messages::decrypted(bytes);
}
