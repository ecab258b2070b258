//! Second names of a database.

use std::fmt;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags};

/// How a database has a second name. SQLite names the log after the database, so each name has a
/// log of its own, and connections under different names do not know of each other. A symbolic link
/// is no second name, and neither is another mount of the folder.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SecondName {
    /// The file has several hard links.
    HardLink {
        /// The number of its names.
        names: u32,
    },
    /// The file itself is a mount point, as of containers that get the file and not its folder.
    Mount,
}

impl SecondName {
    /// How the file at `path` has a second name at the moment, if it has one.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let found = rustix::fs::statx(CWD, path, AtFlags::empty(), StatxFlags::NLINK).ok()?;
        if found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT) {
            Some(Self::Mount)
        } else if found.stx_nlink > 1 {
            Some(Self::HardLink { names: found.stx_nlink })
        } else {
            None
        }
    }
}

impl fmt::Display for SecondName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HardLink { names } => write!(f, "has {names} names (hard links)"),
            Self::Mount => f.write_str("is mounted as a single file"),
        }
    }
}
