//! Folders beneath the target, reached by descriptors only.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{
    AtFlags, Mode, OFlags, ResolveFlags, fchmod, fstat, mkdirat, openat, openat2, unlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::entry::Meta;
use crate::tree::{is_beneath, parents};

/// Folders that are open at the same time.
const OPEN_MAX: usize = 64;

/// The mode of a folder that a restore has made, until everything is in it: what a folder hardly
/// ever has. A restore that was killed leaves it, and the next one completes the folder.
pub(super) const UNFINISHED: Mode = Mode::RWXU.union(Mode::SVTX);

/// A component of a path of a tree: it is not empty, `.` or `..`, and has no `/`.
pub(super) fn name_of(path: &[u8]) -> CString {
    let start = path.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
    CString::new(&path[start..]).expect("the path of an entry has no NUL")
}

/// Opens a folder in a folder. A symbolic link is an error.
pub(super) fn open_folder(parent: &OwnedFd, name: &CStr) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    match openat2(parent, name, flags, Mode::empty(), beneath) {
        // Old kernels and some containers do not have the call. For one component, the flags say
        // the same.
        Err(Errno::NOSYS | Errno::PERM) => openat(parent, name, flags, Mode::empty()),
        opened => opened,
    }
}

/// The action if another object is in the place of a folder.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Obstacle {
    /// Leave it.
    Keep,
    /// Remove it.
    Remove,
}

/// The folders from the target to the current entry.
pub(super) struct Folders {
    target: Arc<OwnedFd>,
    /// The length of the part of paths that does not count: the folder of the snapshot that becomes
    /// the target.
    base_bytes: usize,
    obstacle: Obstacle,
    path: Vec<u8>,
    levels: Vec<Level>,
}

/// A folder that was left.
pub(super) struct Left {
    pub(super) path: Vec<u8>,
    pub(super) state: State,
    /// Its metadata in the tree. `None` if its entry is lost.
    pub(super) meta: Option<Meta>,
    /// The folder, if it is there.
    pub(super) folder: io::Result<Arc<OwnedFd>>,
}

/// A folder between the target and the current entry.
struct Level {
    /// The length of its path.
    path_bytes: usize,
    meta: Option<Meta>,
    state: State,
    folder: Option<Arc<OwnedFd>>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum State {
    /// The folder is not made yet.
    Unmade,
    /// The folder is there. `new`: it was not there before this restore, or the same one that was
    /// interrupted. `empty`: it was made now, so that nothing is in it but what this restore puts
    /// there.
    There { new: bool, empty: bool },
    /// The folder cannot be made.
    Failed,
}

impl Folders {
    pub(super) fn new(target: Arc<OwnedFd>, base: &[u8], obstacle: Obstacle) -> Self {
        Self { target, base_bytes: base.len(), obstacle, path: Vec::new(), levels: Vec::new() }
    }

    /// Whether `path` is not beneath the innermost folder, so that it has to be left, with
    /// [`Self::leave`].
    pub(super) fn left_by(&self, path: &[u8]) -> bool {
        self.levels.last().is_some_and(|level| !is_beneath(path, &self.path[..level.path_bytes]))
    }

    /// Removes the innermost folder.
    pub(super) fn leave(&mut self) -> Option<Left> {
        let depth = self.levels.len();
        let state = self.levels.last()?.state;
        let folder = match state {
            State::There { .. } => self.open(depth),
            State::Unmade | State::Failed => Err(Errno::NOENT.into()),
        };
        let level = self.levels.pop()?;
        let path = self.path[..level.path_bytes].to_vec();
        Some(Left { path, state, meta: level.meta, folder })
    }

    /// Takes a folder as the innermost one. Folders that do not have it beneath them have been
    /// left.
    pub(super) fn enter(&mut self, path: &[u8], meta: Option<Meta>) {
        self.complete(path);
        self.path.clear();
        self.path.extend_from_slice(path);
        let level = Level { path_bytes: path.len(), meta, state: State::Unmade, folder: None };
        self.levels.push(level);
    }

    /// The folder that `path` is in, made if it is not there.
    pub(super) fn parent_of(&mut self, path: &[u8]) -> io::Result<Arc<OwnedFd>> {
        self.complete(path);
        self.open(self.levels.len())
    }

    /// Whether nothing can be in the innermost folder but what this restore has put there.
    pub(super) fn is_empty(&self) -> bool {
        let state = self.levels.last().map(|level| level.state);
        matches!(state, Some(State::There { empty: true, .. }))
    }

    /// The innermost folder, made if it is not there.
    pub(super) fn innermost(&mut self) -> io::Result<Arc<OwnedFd>> {
        self.open(self.levels.len())
    }

    /// Adds the parents of `path` whose entries are lost.
    fn complete(&mut self, path: &[u8]) {
        let known = self.levels.last().map_or(self.base_bytes, |level| level.path_bytes);
        let missing: Vec<_> =
            parents(path).map(<[u8]>::len).filter(|bytes| *bytes > known).collect();
        if !missing.is_empty() {
            self.path.clear();
            self.path.extend_from_slice(path);
        }
        self.levels.extend(missing.into_iter().map(|path_bytes| Level {
            path_bytes,
            meta: None,
            state: State::Unmade,
            folder: None,
        }));
    }

    /// The folder at a depth, with all above it.
    fn open(&mut self, depth: usize) -> io::Result<Arc<OwnedFd>> {
        let open = self.levels[..depth].iter().rposition(|level| level.folder.is_some());
        let mut folder = match open {
            Some(index) => Arc::clone(self.levels[index].folder.as_ref().expect("it is open")),
            None => Arc::clone(&self.target),
        };
        for index in open.map_or(0, |index| index + 1)..depth {
            let name = name_of(&self.path[..self.levels[index].path_bytes]);
            let opened = match self.levels[index].state {
                State::Failed => Err(io::Error::other("its folder could not be made")),
                State::There { .. } => open_folder(&folder, &name).map_err(io::Error::from),
                State::Unmade => {
                    let made = make_folder(&folder, &name, self.obstacle);
                    if let Ok((folder, State::There { new: false, .. })) = &made
                        && self.obstacle == Obstacle::Remove
                        && self.levels[index].meta.is_some()
                    {
                        open_to_owner(folder);
                    }
                    self.levels[index].state = match &made {
                        Ok((_, state)) => *state,
                        Err(_) => State::Failed,
                    };
                    made.map(|(folder, _)| folder)
                }
            };
            folder = Arc::new(opened?);
            self.levels[index].folder = Some(Arc::clone(&folder));
            if let Some(far) = index.checked_sub(OPEN_MAX) {
                self.levels[far].folder = None;
            }
        }
        Ok(folder)
    }
}

/// Opens a folder, or makes it.
fn make_folder(parent: &OwnedFd, name: &CStr, obstacle: Obstacle) -> io::Result<(OwnedFd, State)> {
    let make = || mkdirat(parent, name, UNFINISHED);
    let mut made = make();
    let mut opened = match made {
        Ok(()) | Err(Errno::EXIST) => open_folder(parent, name),
        Err(error) => return Err(error.into()),
    };
    if matches!(opened, Err(Errno::NOTDIR | Errno::LOOP)) {
        if obstacle == Obstacle::Keep {
            let why = "something that is no folder is in its place; --overwrite removes it";
            return Err(io::Error::new(io::ErrorKind::NotADirectory, why));
        }
        unlinkat(parent, name, AtFlags::empty())?;
        made = make();
        made?;
        opened = open_folder(parent, name);
    }
    let opened = opened?;
    let empty = made.is_ok();
    let new = empty || is_unfinished(&opened);
    Ok((opened, State::There { new, empty }))
}

/// Whether a restore has made this folder that did not come to its end. The set-group-ID bit comes
/// from the folder above.
pub(super) fn is_unfinished(folder: &OwnedFd) -> bool {
    fstat(folder).is_ok_and(|found| {
        let mode = Mode::from_raw_mode(found.st_mode).difference(Mode::SGID);
        mode == UNFINISHED && found.st_uid == geteuid().as_raw()
    })
}

/// Lets its owner write in a folder that is there and gets its mode again at the end. Where this
/// fails, writing does.
fn open_to_owner(folder: &OwnedFd) {
    if let Ok(found) = fstat(folder) {
        let mode = Mode::from_raw_mode(found.st_mode);
        if !mode.contains(Mode::RWXU) {
            let _ = fchmod(folder, mode | Mode::RWXU);
        }
    }
}

/// Opens the folder that a path beneath `target` is in, without making anything.
pub(super) fn find_parent(target: &Arc<OwnedFd>, path: &[u8]) -> rustix::io::Result<Arc<OwnedFd>> {
    let mut folder = Arc::clone(target);
    for parent in parents(path) {
        folder = Arc::new(open_folder(&folder, &name_of(parent))?);
    }
    Ok(folder)
}
