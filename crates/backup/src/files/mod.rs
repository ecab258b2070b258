//! What touches the file system.

mod folder;

pub use folder::Folder;
