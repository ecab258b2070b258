//! The steps on files that talaria takes without SQLite. A simulator of disks can watch them, and
//! make them fail.

use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::OnceLock;

/// A step on a file or its name. A file without a name has the path `#INODE` in its folder here.
#[derive(Clone, Copy, Debug)]
pub enum FileStep<'a> {
    /// An empty file was made, or a file was emptied.
    Create(&'a Path),
    /// A folder is made.
    CreateFolder(&'a Path),
    /// Bytes are written to a file.
    Write {
        /// The file.
        path: &'a Path,
        /// The place of the first byte.
        offset: u64,
        /// The bytes. If fewer of them are written, the next step continues there.
        parts: &'a [IoSlice<'a>],
    },
    /// A file becomes shorter, or longer by zeros.
    Resize {
        /// The file.
        path: &'a Path,
        /// The new length in bytes.
        length: u64,
    },
    /// The content of a file is synced.
    Sync(&'a Path),
    /// A file gets another name, or its first one.
    Rename {
        /// The old name.
        from: &'a Path,
        /// The new name.
        to: &'a Path,
    },
    /// A name is removed.
    Remove(&'a Path),
    /// The names in a folder are synced.
    SyncFolder(&'a Path),
}

/// Takes a step, or fails in its place. The second argument takes the step.
pub type Witness = fn(FileStep<'_>, &mut dyn FnMut() -> io::Result<()>) -> io::Result<()>;

static WITNESS: OnceLock<Witness> = OnceLock::new();

/// Lets `witness` take all steps of this process from now on. Only the first witness counts.
#[doc(hidden)]
pub fn watch(witness: Witness) {
    let _ = WITNESS.set(witness);
}

/// Takes a step through `action`, in the sight of the witness if there is one.
///
/// # Errors
///
/// Those of `action`, or of the witness.
pub fn take(step: FileStep<'_>, mut action: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    match WITNESS.get() {
        Some(witness) => witness(step, &mut action),
        None => action(),
    }
}
