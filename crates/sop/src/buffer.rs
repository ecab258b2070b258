//! Sizes of the buffers of operations.

/// Bytes that are read at once.
pub(crate) const READ_BYTES: usize = 64 << 10;
/// Bytes that are written at once.
pub(crate) const WRITE_BYTES: usize = 256 << 10;
