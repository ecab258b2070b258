//! The tree of a snapshot: the sorted list of all its entries, in chunks.
//!
//! [`TreeWriter`] takes entries in order and cuts them into chunks. [`Tree`] reads them back, all
//! or from a path on, and refuses every tree that breaks a rule of the format. Both hold a few
//! chunks in memory, whatever the size of the tree.

mod content;
mod line;
mod mark;
mod order;
mod read;
pub(crate) mod rules;
mod write;

pub(crate) use content::parse_list;
pub use content::{ContentParts, ContentWriter};
pub(crate) use mark::mark;
pub(crate) use order::{check_path, parents};
pub use order::{is_beneath, path_order};
pub(crate) use read::Finder;
pub use read::{Entries, Tree};
pub use write::TreeWriter;

#[cfg(test)]
pub(crate) mod tests;
