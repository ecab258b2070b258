//! Entries of a tree: the data of a snapshot about one path.

use crate::id::Id;

/// The entry of a snapshot at a path.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Entry {
    /// The path without a leading slash.
    pub path: Vec<u8>,
    /// The object at the path.
    pub node: Node,
}

/// An object of a file system.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Node {
    /// A regular file.
    File {
        /// Permissions, owner, time.
        meta: Meta,
        /// The length in bytes.
        size: u64,
        /// The content in order; the lengths sum to `size`.
        content: Vec<Extent>,
    },
    /// A directory.
    Directory(Meta),
    /// A symbolic link.
    Symlink {
        /// Permissions, owner, time.
        meta: Meta,
        /// The target, as it stands in the link.
        target: Vec<u8>,
    },
    /// A further name of an earlier entry that is not a directory.
    HardLink {
        /// The path of the first name.
        first: Vec<u8>,
    },
    /// A block or character device.
    Device {
        /// Permissions, owner, time.
        meta: Meta,
        /// A block device; else a character device.
        block: bool,
        /// The major number.
        major: u32,
        /// The minor number.
        minor: u32,
    },
    /// A FIFO.
    Fifo(Meta),
}

/// Permissions, owner, time and extended attributes.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Meta {
    /// Permissions, set-user-ID, set-group-ID, sticky: 12 bits.
    pub mode: u16,
    /// The number of the owner.
    pub uid: u32,
    /// The number of the group.
    pub gid: u32,
    /// The time of the last change of the content.
    pub mtime: Time,
    /// Extended attributes with their names, sorted by name.
    pub attributes: Vec<(Vec<u8>, Vec<u8>)>,
}

/// A time of a file.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct Time {
    /// Seconds since 1970.
    pub seconds: i64,
    /// Nanoseconds after that, below 10^9.
    pub nanoseconds: u32,
}

/// A part of the content of a file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Extent {
    /// The content itself, for small files.
    Inline(Vec<u8>),
    /// A range of a data chunk.
    Data {
        /// The chunk.
        id: Id,
        /// The start of the range in the plaintext of the chunk.
        offset: u64,
        /// The length of the range in bytes.
        length: u64,
    },
    /// Zeros that the file does not store.
    Hole(u64),
    /// A chunk with further parts.
    List {
        /// The chunk.
        id: Id,
        /// The length of the content that the chunk stands for, in bytes.
        length: u64,
    },
}

impl Node {
    /// Permissions, owner, time; a further hard link has those of the first.
    #[must_use]
    pub fn meta(&self) -> Option<&Meta> {
        match self {
            Self::File { meta, .. }
            | Self::Directory(meta)
            | Self::Symlink { meta, .. }
            | Self::Device { meta, .. }
            | Self::Fifo(meta) => Some(meta),
            Self::HardLink { .. } => None,
        }
    }

    /// As [`Self::meta`], to be changed.
    pub fn meta_mut(&mut self) -> Option<&mut Meta> {
        match self {
            Self::File { meta, .. }
            | Self::Directory(meta)
            | Self::Symlink { meta, .. }
            | Self::Device { meta, .. }
            | Self::Fifo(meta) => Some(meta),
            Self::HardLink { .. } => None,
        }
    }
}

impl Extent {
    /// The length of the content that the part stands for, in bytes.
    #[must_use]
    pub fn length(&self) -> u64 {
        match self {
            Self::Inline(content) => content.len() as u64,
            Self::Data { length, .. } | Self::Hole(length) | Self::List { length, .. } => *length,
        }
    }
}
