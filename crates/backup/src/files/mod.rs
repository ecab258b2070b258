//! What touches the file system.

mod alive;
mod attributes;
mod cache;
mod folder;
mod input;
mod mount;
mod restore;
mod run;
mod scratch;
mod select;
mod state;
mod tree;
mod walk;

pub use cache::{Cache, CacheWriter, Cached};
pub use folder::Folder;
pub use mount::{Mount, Mounted, Tell};
pub use restore::{Event, Overwrite, RestoreOptions, RestoreReport, restore};
pub use run::{CreateOptions, Run};
pub use scratch::ScratchFolder;
pub use select::Selection;
pub use state::{RunLock, State};
pub use walk::{Item, Stamp, Walk, WalkOptions, Walked, parse_path_list};

#[cfg(test)]
mod tests;
