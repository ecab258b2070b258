//! Any bytes as GnuPG's `pubring.gpg`: a keyring in which trust packets follow each packet.

/// Checks one input.
pub fn run(bytes: &[u8]) {
    crate::ring(bytes);
}
