//! Walking: the entries of a snapshot, read from the file system in the order of the tree.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Statx, StatxFlags, openat, statx};

use crate::entry::{Entry, Time};

/// One result of a walk.
#[derive(Debug)]
pub enum Walked {
    /// An entry for the snapshot.
    Item(Item),
    /// A path that cannot be read. It is missing in the snapshot; a directory is there without its content.
    Unread {
        /// The path, without a leading slash.
        path: Vec<u8>,
        /// The reason.
        source: io::Error,
    },
    /// A socket. Snapshots have none.
    Socket {
        /// The path, without a leading slash.
        path: Vec<u8>,
    },
}

/// An entry with its file. It keeps the folder open, so that at most some hundred items should exist at the same time.
#[derive(Debug)]
pub struct Item {
    /// The entry: a file without content, and without extended attributes.
    pub entry: Entry,
    /// What the cache compares.
    pub stamp: Stamp,
    folder: Arc<OwnedFd>,
    name: CString,
    device: (u32, u32),
}

/// The state of a file that changes with each change of the file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Stamp {
    /// The number of the inode.
    pub inode: u64,
    /// The time of the last change of the inode.
    pub ctime: Time,
    /// A later change has a later time. `false` if the last change is so new that the next one could have the same time.
    pub is_settled: bool,
}

impl Item {
    /// Opens the file for reading.
    ///
    /// # Errors
    ///
    /// Errors of the file system; [`io::ErrorKind::NotFound`] if the path is now another file or no regular file.
    pub fn open(&self) -> io::Result<File> {
        let base =
            OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
        let open = |flags| openat(&self.folder, &self.name, flags, Mode::empty());
        // Only the owner and root may leave the time of access alone.
        let file = match open(base | OFlags::NOATIME) {
            Err(rustix::io::Errno::PERM) => open(base)?,
            opened => opened?,
        };
        let found = stat_open(&file)?;
        let is_same = is_regular(&found) && self.is_of(&found);
        if !is_same {
            let why = "the file was replaced after its folder was read";
            return Err(io::Error::new(io::ErrorKind::NotFound, why));
        }
        Ok(File::from(file))
    }

    /// Whether the open file changed since the walk saw it.
    ///
    /// # Errors
    ///
    /// Errors of the file system.
    pub fn has_changed(&self, file: &File) -> io::Result<bool> {
        let found = stat_open(file)?;
        Ok(!self.is_of(&found) || time_of(&found.stx_ctime) != self.stamp.ctime)
    }

    fn is_of(&self, found: &Statx) -> bool {
        (found.stx_dev_major, found.stx_dev_minor) == self.device
            && found.stx_ino == self.stamp.inode
    }
}

fn stat_open(file: impl std::os::fd::AsFd) -> rustix::io::Result<Statx> {
    statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS)
}

fn is_regular(stat: &Statx) -> bool {
    FileType::from_raw_mode(u32::from(stat.stx_mode)) == FileType::RegularFile
}

fn time_of(time: &rustix::fs::StatxTimestamp) -> Time {
    Time { seconds: time.tv_sec, nanoseconds: time.tv_nsec }
}
