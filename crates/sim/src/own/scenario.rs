//! Operations that write files of talaria, and what must be true of the files at any time.

use std::fmt;
use std::fs;
use std::path::Path;

use crate::disk::Files;
use crate::model::MAIN;
use crate::record::files_in;

pub(super) type Done<T = ()> = Result<T, String>;

pub(super) fn text(error: impl fmt::Debug) -> String {
    format!("{error:?}")
}

/// Operations that write files of talaria.
pub(super) trait Scenario {
    /// The number of operations.
    fn operations(&self) -> usize;

    /// Does an operation in the folder `root`.
    fn operate(&mut self, root: &Path, number: usize) -> Done;

    /// Adapts files that a cut has left to the new folder `root`: a file may name its inode.
    fn arrive(&self, root: &Path) -> Done {
        let _ = root;
        Ok(())
    }

    /// Completes or takes back what was interrupted, as the next command does.
    fn recover(&self, root: &Path) -> Done {
        let _ = root;
        Ok(())
    }

    /// Checks that the folder holds what the first `done` operations made. If the next one is
    /// running, its result may be there.
    fn look(&self, root: &Path, done: usize, is_running: bool) -> Done;

    /// Works with what is there, as the next command does.
    fn go_on(&self, root: &Path) -> Done;
}

/// Names and contents of the files in a folder, those of stores left out.
pub(super) fn files_of(root: &Path) -> Done<Files> {
    let files = files_in(root).map_err(text)?;
    let files = files.into_iter().filter(|(name, _)| !name.contains(MAIN));
    files.map(|(name, path)| Ok((name, fs::read(path).map_err(text)?))).collect()
}
