//! Any bytes as a compressed file, and as an xz file with the right checksums.

/// Checks one input.
pub fn run(bytes: &[u8]) {
    talaria::fuzz::decompress(bytes);
}
