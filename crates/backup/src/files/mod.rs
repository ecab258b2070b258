//! What touches the file system.

mod folder;
mod state;
mod walk;

pub use folder::Folder;
pub use state::{RunLock, State};
pub use walk::{Item, Stamp, Walked};
