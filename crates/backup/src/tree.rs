//! The tree of a snapshot: the sorted list of all its entries, in chunks.
//!
//! [`TreeWriter`] takes entries in order and cuts them into chunks. [`Tree`] reads them back, all or from a path on, and refuses
//! every tree that breaks a rule of the format. Both hold a few chunks in memory, whatever the size of the tree.

mod content;
mod line;
mod mark;
mod order;
mod read;
mod write;

pub(crate) use content::parse_list;
pub use content::{ContentParts, ContentWriter};
pub(crate) use mark::mark;
pub(crate) use order::{check_path, parents};
pub use order::{is_beneath, path_order};
pub(crate) use read::Finder;
pub use read::{Entries, Tree};
pub use write::TreeWriter;

/// A path is never longer. Octets.
pub(crate) const PATH_BYTES_MAX: usize = 16_384;
/// A component of a path is never longer. Octets.
pub(crate) const COMPONENT_BYTES_MAX: usize = 255;
/// The content that an entry itself holds is never longer. Octets.
pub(crate) const INLINE_BYTES_MAX: usize = 512;
/// The target of a symbolic link is never longer. Octets.
pub(crate) const TARGET_BYTES_MAX: usize = 4095;
/// The line of an entry is never longer. Octets.
pub(crate) const LINE_BYTES_MAX: usize = 4 << 20;
/// The highest level of a tree.
pub(crate) const LEVEL_MAX: u8 = 8;
/// Lists within lists.
pub(crate) const LIST_DEPTH_MAX: usize = 4;

#[cfg(test)]
pub(crate) mod tests;
