//! What touches the file system.

mod folder;
mod walk;

pub use folder::Folder;
pub use walk::{Item, Stamp, Walked};
