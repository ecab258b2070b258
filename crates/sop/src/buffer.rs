//! Sizes of the buffers of operations, and where content waits.

use std::io;

use talaria_disk::TemporaryFile;
use talaria_message::Spool;

/// Bytes that are read at once.
pub(crate) const READ_BYTES: usize = 64 << 10;
/// Bytes that are written at once.
pub(crate) const WRITE_BYTES: usize = 256 << 10;

/// A file for content that must wait.
pub(crate) fn spool() -> io::Result<Box<dyn Spool>> {
    Ok(Box::new(TemporaryFile::new()?))
}
