//! The sizes of the pipes at the ends of a command.

use std::fs::File;

/// The wanted capacity of a pipe in bytes, if the system allows it.
const PIPE_BYTES: usize = 1 << 20;

/// Enlarges a pipe: with a larger pipe the programs at its ends switch less often.
pub(crate) fn widen(file: &File) {
    let _ = rustix::pipe::fcntl_setpipe_size(file, PIPE_BYTES);
}
