//! All code that touches the file system.

mod alive;
mod attributes;
mod cache;
mod caches;
mod copies;
mod copy;
mod direct;
mod dry;
mod find;
mod folder;
mod input;
mod mount;
mod owners;
mod restore;
mod run;
mod scratch;
mod select;
mod state;
mod stream;
mod tree;
mod walk;
mod writing;

pub use cache::{Cache, CacheWriter, Cached, FileChange};
pub use copies::LocalCopies;
pub use copy::{Copied, CopyReport, CopySource};
pub use find::{Found, find};
pub use folder::Folder;
pub use mount::{Mount, Mounted, Tell};
pub use owners::{Owners, Stranger};
pub use restore::{
    Mapping, Mismatch, Overwrite, RestoreEvent, RestoreOptions, RestoreReport, VerifyReport,
    map_folders, restore, verify,
};
pub use run::{BackupRun, CreateOptions, FileCounts, Seen};
pub use scratch::ScratchFolder;
pub use select::PathSelection;
pub use state::{RunLock, State};
pub use stream::Stream;
pub use walk::{Stamp, Walk, WalkItem, WalkOptions, Walked, parse_path_list};

#[cfg(test)]
mod tests;
