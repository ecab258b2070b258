//! The limits of the format of trees, and what a reader says of a tree that breaks a rule.

/// The rule of the format that something breaks, in words for an error.
pub(crate) type Rule = &'static str;

/// A path is never longer. Bytes.
pub(crate) const PATH_BYTES_MAX: usize = 16_384;
/// A component of a path is never longer. Bytes.
pub(crate) const COMPONENT_BYTES_MAX: usize = 255;
/// The content that an entry itself holds is never longer. Bytes.
pub(crate) const INLINE_BYTES_MAX: usize = 512;
/// The target of a symbolic link is never longer. Bytes.
pub(crate) const TARGET_BYTES_MAX: usize = 4095;
/// The line of an entry is never longer. Bytes.
pub(crate) const LINE_BYTES_MAX: usize = 4 << 20;
/// The highest level of a tree.
pub(crate) const LEVEL_MAX: u8 = 8;
/// Lists within lists.
pub(crate) const LIST_DEPTH_MAX: usize = 4;
