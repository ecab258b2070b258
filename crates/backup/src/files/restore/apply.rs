//! Mode, owner, times and attributes of restored files.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};

use rustix::fs::{
    AtFlags, CWD, Gid, Mode, OFlags, Timespec, Timestamps, UTIME_OMIT, Uid, XattrFlags, chmodat,
    chownat, fchmod, fchown, fsetxattr, fstat, futimens, openat, setxattr, utimensat,
};

use super::super::attributes;
use super::wanted::{RestoreEvent, RestoreOptions};
use crate::entry::Meta;

/// The bits for set-user-ID and set-group-ID.
const SET_ID: u16 = 0o6000;

/// A restored file that gets its mode, owner, times and attributes.
pub(super) enum Object<'a> {
    /// An open file or folder.
    Open(BorrowedFd<'a>),
    /// A symbolic link, by its name in a folder.
    Symlink(&'a OwnedFd, &'a CStr),
    /// A device or FIFO, opened only as a path.
    Path(OwnedFd),
}

impl<'a> Object<'a> {
    /// A device or FIFO in a folder.
    pub(super) fn special(folder: &OwnedFd, name: &CStr) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(Self::Path(openat(folder, name, flags, Mode::empty())?))
    }

    pub(super) fn open(file: &'a impl AsFd) -> Self {
        Self::Open(file.as_fd())
    }

    fn set_owner(&self, owner: Option<Uid>, group: Option<Gid>) -> rustix::io::Result<()> {
        match self {
            Self::Open(file) => fchown(file, owner, group),
            Self::Symlink(folder, name) => {
                chownat(folder, *name, owner, group, AtFlags::SYMLINK_NOFOLLOW)
            }
            Self::Path(file) => chownat(file, c"", owner, group, AtFlags::EMPTY_PATH),
        }
    }

    fn set_attribute(&self, name: &[u8], value: &[u8]) -> io::Result<()> {
        match self {
            Self::Open(file) => Ok(fsetxattr(file, name, value, XattrFlags::empty())?),
            Self::Symlink(folder, own) => attributes::set(folder, own, name, value),
            Self::Path(file) => Ok(setxattr(path_of(file), name, value, XattrFlags::empty())?),
        }
    }

    fn set_mode(&self, mode: Mode) -> rustix::io::Result<()> {
        match self {
            Self::Open(file) => fchmod(file, mode),
            // A symbolic link has no mode of its own.
            Self::Symlink(..) => Ok(()),
            Self::Path(file) => chmodat(CWD, path_of(file), mode, AtFlags::empty()),
        }
    }

    fn set_times(&self, times: &Timestamps) -> rustix::io::Result<()> {
        match self {
            Self::Open(file) => futimens(file, times),
            Self::Symlink(folder, name) => {
                utimensat(folder, *name, times, AtFlags::SYMLINK_NOFOLLOW)
            }
            Self::Path(file) => utimensat(CWD, path_of(file), times, AtFlags::empty()),
        }
    }

    fn is_owned_by(&self, owner: (u32, u32)) -> bool {
        let found = match self {
            Self::Open(file) => fstat(file),
            Self::Symlink(..) => return false,
            Self::Path(file) => fstat(file),
        };
        found.is_ok_and(|found| (found.st_uid, found.st_gid) == owner)
    }
}

/// The path by which the kernel reaches a file that is open as a path.
fn path_of(file: &OwnedFd) -> CString {
    CString::new(format!("/proc/self/fd/{}", file.as_raw_fd())).expect("there is no NUL")
}

/// Sets owner, attributes, mode and time, in this order: a new owner clears bits of the mode and
/// capabilities, an access control list changes the mode, and everything but the time changes the
/// time of the inode.
pub(super) fn apply(
    object: &Object<'_>,
    meta: &Meta,
    options: &RestoreOptions,
    tell: &mut dyn FnMut(RestoreEvent),
) {
    let mut failed = |what: &str, source: io::Error| {
        tell(RestoreEvent::Incomplete { what: what.to_owned(), source });
    };
    let owner = options.names.of(meta);
    if options.owners {
        // The highest number would mean: leave it.
        if owner.0 == u32::MAX || owner.1 == u32::MAX {
            failed(
                "owner",
                io::Error::new(io::ErrorKind::InvalidInput, "it is not a valid number"),
            );
        } else {
            let (user, group) = (Uid::from_raw(owner.0), Gid::from_raw(owner.1));
            if let Err(error) = object.set_owner(Some(user), Some(group)) {
                failed("owner", error.into());
            }
        }
    }
    for (name, value) in &meta.attributes {
        if is_privileged(name) && !options.privileged {
            tell(RestoreEvent::Withheld { what: format!("attribute {}", name.escape_ascii()) });
        } else if let Err(source) = object.set_attribute(name, value) {
            let what = format!("attribute {}", name.escape_ascii());
            tell(RestoreEvent::Incomplete { what, source });
        }
    }
    if !matches!(object, Object::Symlink(..)) {
        let mut mode = meta.mode;
        // For another owner, the bits would give other rights.
        if mode & SET_ID != 0 && !(options.privileged && object.is_owned_by(owner)) {
            mode &= !SET_ID;
            tell(RestoreEvent::Withheld { what: format!("mode {:04o}", meta.mode) });
        }
        if let Err(error) = object.set_mode(Mode::from_raw_mode(u32::from(mode))) {
            tell(RestoreEvent::Incomplete { what: "mode".into(), source: error.into() });
        }
    }
    let times = Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec {
            tv_sec: meta.mtime.seconds,
            tv_nsec: i64::from(meta.mtime.nanoseconds),
        },
    };
    if let Err(error) = object.set_times(&times) {
        tell(RestoreEvent::Incomplete { what: "time".into(), source: error.into() });
    }
}

/// Attributes that give rights or carry labels of the system.
pub(super) fn is_privileged(name: &[u8]) -> bool {
    name.starts_with(b"security.") || name.starts_with(b"trusted.")
}
