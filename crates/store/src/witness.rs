//! The steps on files that the store takes without SQLite. A simulator of disks can watch them, and make them fail.

use std::io;
use std::path::Path;
use std::sync::OnceLock;

/// A step on a file or its name.
#[derive(Clone, Copy, Debug)]
pub enum FileStep<'a> {
    /// The content of a file is synced.
    Sync(&'a Path),
    /// A file gets another name, which no other file has.
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
pub fn watch_file_steps(witness: Witness) {
    let _ = WITNESS.set(witness);
}

/// Takes a step through `action`, in the sight of the witness if there is one.
pub(crate) fn take(
    step: FileStep<'_>,
    mut action: impl FnMut() -> io::Result<()>,
) -> io::Result<()> {
    match WITNESS.get() {
        Some(witness) => witness(step, &mut action),
        None => action(),
    }
}
