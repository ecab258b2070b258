//! Any bytes as a certificate that is limited and served.

/// Checks one input.
pub fn run(bytes: &[u8]) {
    crate::kept(bytes);
}
