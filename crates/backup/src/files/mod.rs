//! What touches the file system.

mod attributes;
mod cache;
mod folder;
mod select;
mod state;
mod walk;

pub use cache::{Cache, CacheWriter, Cached};
pub use folder::Folder;
pub use select::Selection;
pub use state::{RunLock, State};
pub use walk::{Item, Stamp, Walk, WalkOptions, Walked, parse_path_list};

#[cfg(test)]
mod tests;
