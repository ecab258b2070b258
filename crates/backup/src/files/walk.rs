//! Walking: the entries of a snapshot, read from the file system in the order of the tree.
//!
//! Everything is read relative to descriptors of folders, so a folder that is replaced by a
//! symbolic link during the walk leads nowhere else.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ffi::{CStr, CString, OsStr};
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, RawDir, Statx, StatxFlags, openat, readlinkat, statx,
};
use rustix::io::Errno;

use super::attributes::{self, Attributes};
use super::select::{PathSelection, Verdict};
use crate::entry::{Entry, Meta, Node, Time};
use crate::tree::rules::PATH_BYTES_MAX;

/// The time stamps of a file system are those of the kernel's last tick, at most 10 ms ago, later
/// on a machine that is paused.
const TICK_NS: i128 = 50_000_000;
/// The time stamps of an old file system may be this much apart. Such stamps have no nanoseconds.
const COARSE_NS: i128 = 2_000_000_000;
/// Folders above this many levels are closed, and opened again on the way back.
const OPEN_FOLDERS_MAX: usize = 64;
/// The start of a file `CACHEDIR.TAG` (<https://bford.info/cachedir/>).
const CACHE_TAG: &[u8] = b"Signature: 8a477f597d28d172789f06886806bc55";
const CACHE_TAG_NAME: &[u8] = b"CACHEDIR.TAG";

/// Options of a walk.
#[derive(Clone, Debug, Default)]
pub struct WalkOptions {
    /// The selected paths. The roots themselves are always selected.
    pub selection: PathSelection,
    /// Leave out the content of folders with a valid file `CACHEDIR.TAG`, except that file.
    pub exclude_caches: bool,
    /// Leave out the content of folders that have a file with one of these names.
    pub exclude_if_present: Vec<Vec<u8>>,
    /// Leave out files with more bytes.
    pub file_bytes_max: Option<u64>,
    /// Leave out the content of folders on another file system than their root.
    pub one_file_system: bool,
}

/// One result of a walk.
#[derive(Debug)]
pub enum Walked {
    /// An entry for the snapshot.
    Item(WalkItem),
    /// A path that cannot be read. It is missing in the snapshot; a directory is there without its
    /// content.
    Unread {
        /// The path, without a leading slash.
        path: Vec<u8>,
        /// The reason.
        source: io::Error,
    },
    /// A path that was in the listing of its folder, and was deleted before it was read. It is
    /// missing in the snapshot; a directory is there without its content.
    Vanished {
        /// The path, without a leading slash.
        path: Vec<u8>,
    },
    /// A socket. Snapshots have none.
    Socket {
        /// The path, without a leading slash.
        path: Vec<u8>,
    },
}

/// An entry with its file. It keeps the folder open, so that at most some hundred items should
/// exist at the same time.
#[derive(Debug)]
pub struct WalkItem {
    /// The entry: a file without content, and without extended attributes until
    /// [`WalkItem::read_attributes`].
    pub entry: Entry,
    /// The metadata that the cache compares.
    pub stamp: Stamp,
    folder: Arc<OwnedFd>,
    name: CString,
    device: (u32, u32),
    /// Whether a person has named this path, or one beneath it.
    pub(super) is_named: bool,
}

/// The state of a file that changes with each change of the file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Stamp {
    /// The number of the inode.
    pub inode: u64,
    /// The time of the last change of the inode.
    pub ctime: Time,
    /// A later change has a later time. `false` if the last change is so new that the next one
    /// could have the same time.
    pub is_settled: bool,
}

impl WalkItem {
    /// Opens the file for reading.
    ///
    /// # Errors
    ///
    /// Errors of the file system; [`io::ErrorKind::NotFound`] if the path is now another file or no
    /// regular file.
    pub fn open(&self) -> io::Result<File> {
        let base =
            OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
        let open = |flags| openat(&self.folder, &self.name, flags, Mode::empty());
        // Only the owner and root may leave the time of access alone.
        let file = match open(base | OFlags::NOATIME) {
            Err(Errno::PERM) => open(base)?,
            opened => opened?,
        };
        let found = stat_open(&file)?;
        if kind_of(&found) != FileType::RegularFile || !self.is_of(&found) {
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

    /// Reads the extended attributes into the entry. A further hard link has none.
    ///
    /// # Errors
    ///
    /// Errors of the file system, also if the attributes have more than 2 MiB. The entry then has
    /// no attributes.
    pub fn read_attributes(&mut self) -> io::Result<()> {
        if let Some(meta) = self.entry.node.meta_mut() {
            meta.attributes = attributes::read(&self.folder, &self.name)?;
        }
        Ok(())
    }

    /// Sets attributes that are known to be those of the file.
    pub(super) fn set_attributes(&mut self, attributes: Attributes) {
        if let Some(meta) = self.entry.node.meta_mut() {
            meta.attributes = attributes;
        }
    }

    fn is_of(&self, found: &Statx) -> bool {
        device_of(found) == self.device && found.stx_ino == self.stamp.inode
    }
}

fn stat_open(file: impl AsFd) -> rustix::io::Result<Statx> {
    statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS)
}

fn kind_of(stat: &Statx) -> FileType {
    FileType::from_raw_mode(u32::from(stat.stx_mode))
}

fn device_of(stat: &Statx) -> (u32, u32) {
    (stat.stx_dev_major, stat.stx_dev_minor)
}

fn time_of(time: &rustix::fs::StatxTimestamp) -> Time {
    Time { seconds: time.tv_sec, nanoseconds: time.tv_nsec }
}

/// Whether a change after `now` has a later time than `ctime`.
fn is_settled(ctime: Time, now: i128) -> bool {
    let changed = i128::from(ctime.seconds) * 1_000_000_000 + i128::from(ctime.nanoseconds);
    let margin = if ctime.nanoseconds == 0 { COARSE_NS + TICK_NS } else { TICK_NS };
    changed + margin < now
}

fn now() -> i128 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    // Before 1970, nothing counts as settled.
    since.map_or(i128::MIN, |since| i128::try_from(since.as_nanos()).unwrap_or(i128::MAX))
}

/// Paths that are walked, as a tree of names.
#[derive(Debug, Default)]
struct Plan {
    /// Everything here is wanted.
    is_root: bool,
    below: BTreeMap<Vec<u8>, Plan>,
}

impl Plan {
    fn add(&mut self, path: &Path) {
        let mut node = self;
        for component in path.components() {
            if let Component::Normal(name) = component {
                node = node.below.entry(name.as_bytes().to_vec()).or_default();
            }
        }
        node.is_root = true;
    }
}

/// A walk over some roots and everything beneath them, in the order of the tree. Parents of the
/// roots are entries too.
///
/// Memory: the names of the folders on the way, and one path for each file with several hard links
/// that were not all seen.
pub struct Walk {
    options: WalkOptions,
    frames: Vec<Frame>,
    path: Vec<u8>,
    /// The first path of files with several links, and how many more there are.
    links: HashMap<Identity, (Vec<u8>, u32)>,
    ready: VecDeque<Walked>,
}

/// The device and the inode of a file.
type Identity = ((u32, u32), u64);

/// A folder on the way.
struct Frame {
    /// `None` while the walk is many levels below.
    folder: Option<Arc<OwnedFd>>,
    identity: Identity,
    /// The length of the path of the folder.
    path_bytes: usize,
    names: Names,
    plan: BTreeMap<Vec<u8>, Plan>,
    /// Everything in the folder is wanted, as far as it is not excluded; else only the plan.
    is_whole: bool,
    /// The folder or one above is included by a pattern.
    is_included: bool,
    /// The file system of the nearest root.
    device: (u32, u32),
    /// The time when the folder was read.
    read_at: i128,
    /// The entry of the folder, while nothing beneath it is wanted yet.
    pending: Option<WalkItem>,
}

/// Names in a folder, sorted, each with a NUL at its end.
#[derive(Default)]
struct Names {
    text: Vec<u8>,
    starts: Vec<usize>,
    next: usize,
}

impl Names {
    fn push(&mut self, name: &CStr) {
        self.starts.push(self.text.len());
        self.text.extend_from_slice(name.to_bytes_with_nul());
    }

    fn at(&self, start: usize) -> &CStr {
        CStr::from_bytes_until_nul(&self.text[start..]).expect("each name ends with NUL")
    }

    /// Sorts the names and removes doubles, which folders that change during the reading can have.
    fn sort(&mut self) {
        let mut starts = std::mem::take(&mut self.starts);
        starts.sort_unstable_by(|a, b| self.at(*a).cmp(self.at(*b)));
        starts.dedup_by(|a, b| self.at(*a) == self.at(*b));
        self.starts = starts;
    }

    fn contains(&self, name: &[u8]) -> bool {
        self.starts.binary_search_by(|start| self.at(*start).to_bytes().cmp(name)).is_ok()
    }

    fn next(&mut self) -> Option<CString> {
        let start = *self.starts.get(self.next)?;
        self.next += 1;
        Some(self.at(start).to_owned())
    }

    /// The names in an open folder; after an error, those before it.
    fn read(folder: &OwnedFd) -> (Self, io::Result<()>) {
        let mut names = Self::default();
        let mut buffer = Vec::with_capacity(32 << 10);
        let mut entries = RawDir::new(folder, buffer.spare_capacity_mut());
        let mut read = Ok(());
        while let Some(entry) = entries.next() {
            match entry {
                Ok(entry) if matches!(entry.file_name().to_bytes(), b"." | b"..") => {}
                Ok(entry) => names.push(entry.file_name()),
                Err(error) => {
                    read = Err(error.into());
                    break;
                }
            }
        }
        names.sort();
        (names, read)
    }
}

impl Walk {
    /// A walk over `roots`. Symbolic links on the way to a root are followed; the root itself is
    /// not, unless its path ends in `/`, `.` or `..`. A root that does not exist is
    /// [`Unread`](Walked::Unread).
    ///
    /// # Errors
    ///
    /// Errors of the file system, for the working directory and `/`.
    pub fn new(roots: &[PathBuf], options: WalkOptions) -> io::Result<Self> {
        let mut plan = Plan::default();
        let mut ready = VecDeque::new();
        for root in roots {
            match resolve(root) {
                Ok(path) => plan.add(&path),
                Err(source) => {
                    let path = std::path::absolute(root).unwrap_or_else(|_| root.clone());
                    let path = path.as_os_str().as_bytes();
                    let path = path.strip_prefix(b"/").unwrap_or(path).to_vec();
                    ready.push_back(Walked::Unread { path, source });
                }
            }
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let top = openat(CWD, c"/", flags, Mode::empty())?;
        let stat = stat_open(&top)?;
        let mut walk =
            Self { options, frames: Vec::new(), path: Vec::new(), links: HashMap::new(), ready };
        let is_included =
            walk.options.selection.judge_included(b"", true, false) == Verdict::Wanted;
        walk.enter(top, &stat, plan.below, plan.is_root, is_included, device_of(&stat), None);
        Ok(walk)
    }

    /// Enters an open folder whose path is `self.path`.
    #[expect(clippy::too_many_arguments, reason = "they are the parts of a frame")]
    fn enter(
        &mut self,
        folder: OwnedFd,
        stat: &Statx,
        plan: BTreeMap<Vec<u8>, Plan>,
        is_whole: bool,
        is_included: bool,
        device: (u32, u32),
        pending: Option<WalkItem>,
    ) {
        let read_at = now();
        let mut names = Names::default();
        if is_whole {
            let read;
            (names, read) = Names::read(&folder);
            if let Err(source) = read {
                self.ready.push_back(Walked::Unread { path: self.path.clone(), source });
            }
            if self.options.exclude_if_present.iter().any(|name| names.contains(name)) {
                names = Names::default();
            } else if self.options.exclude_caches
                && names.contains(CACHE_TAG_NAME)
                && has_cache_tag(&folder)
            {
                names = Names::default();
                names.push(c"CACHEDIR.TAG");
            }
        }
        for name in plan.keys() {
            names.push(&CString::new(name.as_slice()).expect("a path has no NUL"));
        }
        if !plan.is_empty() {
            names.sort();
        }
        if let Some(above) = self.frames.len().checked_sub(OPEN_FOLDERS_MAX) {
            self.frames[above].folder = None;
        }
        self.frames.push(Frame {
            folder: Some(Arc::new(folder)),
            identity: (device_of(stat), stat.stx_ino),
            path_bytes: self.path.len(),
            names,
            plan,
            is_whole,
            is_included,
            device,
            read_at,
            pending,
        });
    }

    /// Leaves the innermost folder, and opens the one above again if it was closed.
    fn leave(&mut self) {
        let left = self.frames.pop().expect("the walk is in a folder");
        let Some(frame) = self.frames.last_mut() else { return };
        if frame.folder.is_some() {
            return;
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let below = left.folder.expect("the innermost folder is open");
        let opened = openat(&below, c"..", flags, Mode::empty()).and_then(|folder| {
            let stat = stat_open(&folder)?;
            Ok((folder, (device_of(&stat), stat.stx_ino)))
        });
        let source = match opened {
            Ok((folder, identity)) if identity == frame.identity => {
                frame.folder = Some(Arc::new(folder));
                return;
            }
            Ok(_) => {
                io::Error::new(io::ErrorKind::NotFound, "the folder was moved during the walk")
            }
            Err(error) => error.into(),
        };
        // The rest of the folder cannot be reached. If it was moved, neither can closed folders
        // above it.
        let path = self.path[..frame.path_bytes].to_vec();
        frame.names = Names::default();
        frame.folder = Some(below);
        self.ready.push_back(Walked::Unread { path, source });
    }

    /// Visits a name in the innermost folder.
    fn visit(&mut self, name: CString) {
        let frame = self.frames.last_mut().expect("the walk is in a folder");
        self.path.truncate(frame.path_bytes);
        if !self.path.is_empty() {
            self.path.push(b'/');
        }
        self.path.extend_from_slice(name.to_bytes());
        let plan = frame.plan.remove(name.to_bytes()).unwrap_or_default();
        let folder = Arc::clone(frame.folder.as_ref().expect("the innermost folder is open"));
        let (is_included, is_whole, mut device) = (frame.is_included, frame.is_whole, frame.device);
        let read_at = frame.read_at;
        if self.path.len() > PATH_BYTES_MAX {
            let source = Errno::NAMETOOLONG.into();
            self.ready.push_back(Walked::Unread { path: self.path.clone(), source });
            return;
        }
        let stat = match statx(&folder, &name, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::BASIC_STATS) {
            Ok(stat) => stat,
            Err(error) => {
                self.miss(error, plan.is_root || !plan.below.is_empty());
                return;
            }
        };
        let kind = kind_of(&stat);
        let is_folder = kind == FileType::Directory;
        let selection = &self.options.selection;
        let mut verdict = match (plan.is_root, is_whole) {
            (true, _) => selection.judge_included(&self.path, is_folder, is_included),
            (false, true) => selection.judge(&self.path, is_folder, is_included),
            (false, false) => Verdict::Parent,
        };
        let mut goes_on = plan.is_root || is_whole && verdict != Verdict::Unwanted;
        if verdict == Verdict::Unwanted && !plan.below.is_empty() {
            verdict = Verdict::Parent;
        }
        if verdict == Verdict::Unwanted {
            return;
        }
        if is_folder {
            if plan.is_root {
                device = device_of(&stat);
            } else if self.options.one_file_system && device_of(&stat) != device {
                goes_on = false;
            }
            let is_named = plan.is_root || !plan.below.is_empty();
            let node = Node::Directory(meta_of(&stat));
            let item = self.item(&folder, (name, is_named), &stat, read_at, node);
            self.visit_folder(item, &stat, plan, goes_on, verdict, device);
        } else if verdict == Verdict::Wanted {
            self.visit_other(&folder, (name, plan.is_root), &stat, read_at);
        } else if !plan.below.is_empty() {
            let source = Errno::NOTDIR.into();
            self.ready.push_back(Walked::Unread { path: self.path.clone(), source });
        }
    }

    fn visit_folder(
        &mut self,
        item: WalkItem,
        stat: &Statx,
        plan: Plan,
        goes_on: bool,
        verdict: Verdict,
        device: (u32, u32),
    ) {
        let access = if goes_on { OFlags::RDONLY } else { OFlags::PATH };
        let flags = access | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let enters = goes_on || !plan.below.is_empty();
        let is_named = item.is_named;
        let opened = enters.then(|| openat(&item.folder, &item.name, flags, Mode::empty()));
        let pending = if verdict == Verdict::Wanted {
            self.emit(Walked::Item(item));
            None
        } else {
            Some(item)
        };
        match opened {
            Some(Ok(folder)) => {
                let is_included = verdict == Verdict::Wanted;
                self.enter(folder, stat, plan.below, goes_on, is_included, device, pending);
            }
            Some(Err(error)) => self.miss(error, is_named),
            None => {}
        }
    }

    /// Visits an entry that is not a folder.
    fn visit_other(
        &mut self,
        folder: &Arc<OwnedFd>,
        (name, is_named): (CString, bool),
        stat: &Statx,
        read_at: i128,
    ) {
        let kind = kind_of(stat);
        if kind == FileType::RegularFile
            && self.options.file_bytes_max.is_some_and(|max| stat.stx_size > max)
        {
            return;
        }
        let meta = meta_of(stat);
        let node = match kind {
            FileType::RegularFile => Node::File { meta, size: stat.stx_size, content: Vec::new() },
            FileType::Symlink => match readlinkat(folder, &name, Vec::new()) {
                Ok(target) => Node::Symlink { meta, target: target.into_bytes() },
                Err(error) => {
                    self.miss(error, is_named);
                    return;
                }
            },
            FileType::BlockDevice | FileType::CharacterDevice => Node::Device {
                meta,
                block: kind == FileType::BlockDevice,
                major: stat.stx_rdev_major,
                minor: stat.stx_rdev_minor,
            },
            FileType::Fifo => Node::Fifo(meta),
            FileType::Socket => {
                self.ready.push_back(Walked::Socket { path: self.path.clone() });
                return;
            }
            _ => {
                let source = io::Error::new(io::ErrorKind::Unsupported, "its kind is not known");
                self.ready.push_back(Walked::Unread { path: self.path.clone(), source });
                return;
            }
        };
        let node = self.first_link(stat).map_or(node, |first| Node::HardLink { first });
        let item = self.item(folder, (name, is_named), stat, read_at, node);
        self.emit(Walked::Item(item));
    }

    /// Notes that the current path cannot be reached. `is_named`: a person has named it, so that
    /// its absence is a failure.
    fn miss(&mut self, error: Errno, is_named: bool) {
        let path = self.path.clone();
        self.ready.push_back(match error {
            Errno::NOENT if !is_named => Walked::Vanished { path },
            error => Walked::Unread { path, source: error.into() },
        });
    }

    /// The first path of a file with several links, if that was seen before.
    fn first_link(&mut self, stat: &Statx) -> Option<Vec<u8>> {
        if stat.stx_nlink < 2 {
            return None;
        }
        let identity = (device_of(stat), stat.stx_ino);
        if let Some((first, more)) = self.links.get_mut(&identity) {
            *more -= 1;
            let first = if *more == 0 { std::mem::take(first) } else { first.clone() };
            if *more == 0 {
                self.links.remove(&identity);
            }
            return Some(first);
        }
        self.links.insert(identity, (self.path.clone(), stat.stx_nlink - 1));
        None
    }

    fn item(
        &self,
        folder: &Arc<OwnedFd>,
        (name, is_named): (CString, bool),
        stat: &Statx,
        read_at: i128,
        node: Node,
    ) -> WalkItem {
        let ctime = time_of(&stat.stx_ctime);
        WalkItem {
            entry: Entry { path: self.path.clone(), node },
            stamp: Stamp { inode: stat.stx_ino, ctime, is_settled: is_settled(ctime, read_at) },
            folder: Arc::clone(folder),
            name,
            device: device_of(stat),
            is_named,
        }
    }

    /// Appends a result, after the parents that waited for it.
    fn emit(&mut self, walked: Walked) {
        let pending = self.frames.iter_mut().filter_map(|frame| frame.pending.take());
        self.ready.extend(pending.map(Walked::Item));
        self.ready.push_back(walked);
    }
}

impl Iterator for Walk {
    type Item = Walked;

    fn next(&mut self) -> Option<Walked> {
        loop {
            if let Some(walked) = self.ready.pop_front() {
                return Some(walked);
            }
            match self.frames.last_mut()?.names.next() {
                Some(name) => self.visit(name),
                None => self.leave(),
            }
        }
    }
}

fn meta_of(stat: &Statx) -> Meta {
    Meta {
        mode: stat.stx_mode & 0o7777,
        uid: stat.stx_uid,
        gid: stat.stx_gid,
        mtime: time_of(&stat.stx_mtime),
        attributes: Vec::new(),
    }
}

/// The absolute path of a root without symbolic links, except at its end.
fn resolve(root: &Path) -> io::Result<PathBuf> {
    let text = root.as_os_str().as_bytes();
    let ends_in_folder = text.ends_with(b"/") || text.ends_with(b"/.");
    match (root.file_name(), root.parent()) {
        (Some(name), Some(parent)) if !ends_in_folder => {
            let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
            Ok(fs::canonicalize(parent)?.join(name))
        }
        _ => fs::canonicalize(root),
    }
}

/// The paths of a list of roots: one on each line, or, if there is a NUL, each with a NUL at its
/// end.
#[must_use]
pub fn parse_path_list(list: &[u8]) -> Vec<PathBuf> {
    let end = if list.contains(&0) { 0 } else { b'\n' };
    let paths = list.split(|byte| *byte == end).filter(|path| !path.is_empty());
    paths.map(|path| PathBuf::from(OsStr::from_bytes(path))).collect()
}

fn has_cache_tag(folder: &OwnedFd) -> bool {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let Ok(file) = openat(folder, c"CACHEDIR.TAG", flags, Mode::empty()) else { return false };
    let is_file = stat_open(&file).is_ok_and(|stat| kind_of(&stat) == FileType::RegularFile);
    let mut start = [0; CACHE_TAG.len()];
    is_file && File::from(file).read_exact(&mut start).is_ok() && start == CACHE_TAG
}
