//! Snapshots as a read-only file system, by FUSE.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::num::NonZeroUsize;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory,
    ReplyEmpty, ReplyEntry, ReplyOpen, ReplyXattr, Request,
};
use parking_lot::Mutex;

use crate::catalog::Reader;
use crate::chunks::ReadChunks;
use crate::entry::{Entry, Meta, Node, Time};
use crate::error::{BackupError, Result};
use crate::id::{Id, Kind};
use crate::snapshot::Root;
use crate::view::SnapshotView;

/// The time for which the kernel may cache answers. Snapshots do not change.
const TTL: Duration = Duration::from_secs(3600);

/// Extended attributes with their names.
type Attributes = Vec<(Vec<u8>, Vec<u8>)>;

/// A snapshot in a mounted file system.
#[derive(Clone, Debug)]
pub struct Mounted {
    /// The name of its folder. The only snapshot of a file system may have none: its files are at
    /// the top then.
    pub name: String,
    /// Its tree.
    pub root: Root,
    /// Its time in seconds since 1970.
    pub time: u32,
}

/// A mounted file system. It is unmounted when this is dropped.
pub struct Mount {
    session: Option<BackgroundSession>,
}

/// Hears of a path that cannot be read, and why.
pub type Tell = Box<dyn Fn(&[u8], &BackupError) + Send + Sync>;

impl Mount {
    /// Mounts snapshots on the folder `target`, for the user of this process only. Set-user-ID bits
    /// and devices have no effect there, and attributes other than `user.*` are not shown.
    ///
    /// # Errors
    ///
    /// [`BackupError::File`] if it cannot be mounted: no FUSE, no such folder, no permission.
    pub fn new(reader: Reader, snapshots: Vec<Mounted>, target: &Path, tell: Tell) -> Result<Self> {
        let failed = |source| BackupError::File { path: target.display().to_string(), source };
        let mut key = [0; 32];
        getrandom::fill(&mut key).map_err(|error| failed(io::Error::other(error)))?;
        let files = Files {
            chunks: Shared(reader),
            snapshots,
            tell,
            key,
            known: Mutex::new(HashMap::new()),
            open: Mutex::new(HashMap::new()),
            handles: AtomicU64::new(1),
            uid: rustix::process::getuid().as_raw(),
            gid: rustix::process::getgid().as_raw(),
        };
        let mut config = Config::default();
        config.mount_options = vec![
            MountOption::RO,
            MountOption::NoSuid,
            MountOption::NoDev,
            MountOption::FSName("talaria".into()),
            MountOption::Subtype("talaria".into()),
        ];
        config.n_threads = Some(std::thread::available_parallelism().map_or(1, NonZeroUsize::get));
        let session = fuser::spawn_mount(files, target, &config).map_err(failed)?;
        Ok(Self { session: Some(session) })
    }

    /// Whether somebody else has unmounted it.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.session.as_ref().is_none_or(|session| session.guard.is_finished())
    }

    /// Unmounts it.
    ///
    /// # Errors
    ///
    /// Errors of the kernel: a program may have a file open.
    pub fn unmount(mut self) -> io::Result<()> {
        let Some(session) = self.session.take() else { return Ok(()) };
        if session.guard.is_finished() { session.join() } else { session.umount_and_join() }
    }
}

/// Chunks with a cache: who browses reads the same chunks of a tree again and again.
struct Shared(Reader);

impl ReadChunks for Shared {
    fn read(&self, kind: Kind, id: &Id) -> Result<Vec<u8>> {
        Ok(self.0.read_shared(kind, id)?.to_vec())
    }

    fn read_shared(&self, kind: Kind, id: &Id) -> Result<Arc<Vec<u8>>> {
        self.0.read_shared(kind, id)
    }
}

struct Files {
    chunks: Shared,
    snapshots: Vec<Mounted>,
    tell: Tell,
    /// The key for the numbers of files. Without one, a snapshot could have two paths with one
    /// number.
    key: [u8; 32],
    /// Paths that the kernel knows, by number, and how often it was told of each.
    known: Mutex<HashMap<u64, (Vec<u8>, u64)>>,
    open: Mutex<HashMap<u64, Open>>,
    handles: AtomicU64,
    uid: u32,
    gid: u32,
}

/// An open file or folder.
enum Open {
    File(Arc<Entry>),
    Folder(Listed),
}

/// The place that the listing of a folder has reached.
#[derive(Clone, Default)]
struct Listed {
    /// The number of entries that were given out.
    count: u64,
    /// The path of the last of them.
    last: Option<Vec<u8>>,
}

/// The entry at a path.
enum Found<'a> {
    /// The folder with all snapshots.
    Top,
    /// The folder of a snapshot.
    Snapshot(&'a Mounted),
    Entry(Entry),
}

impl Files {
    /// The snapshot that a path is in, and the path in there.
    fn snapshot<'a>(&self, path: &'a [u8]) -> Option<(&Mounted, &'a [u8])> {
        if let [only] = &self.snapshots[..]
            && only.name.is_empty()
        {
            return Some((only, path));
        }
        let end = path.iter().position(|byte| *byte == b'/').unwrap_or(path.len());
        let snapshot = self.snapshots.iter().find(|one| one.name.as_bytes() == &path[..end])?;
        Some((snapshot, path.get(end + 1..).unwrap_or_default()))
    }

    fn view(&self, snapshot: &Mounted) -> SnapshotView<'_> {
        SnapshotView::new(&self.chunks, snapshot.root)
    }

    fn find(&self, path: &[u8]) -> std::result::Result<Found<'_>, Errno> {
        let Some((snapshot, inside)) = self.snapshot(path) else {
            return if path.is_empty() { Ok(Found::Top) } else { Err(Errno::ENOENT) };
        };
        if inside.is_empty() {
            return Ok(Found::Snapshot(snapshot));
        }
        let entry = self.view(snapshot).get(inside).map_err(|error| self.failed(path, &error))?;
        Ok(Found::Entry(entry.ok_or(Errno::ENOENT)?))
    }

    fn failed(&self, path: &[u8], error: &BackupError) -> Errno {
        (self.tell)(path, error);
        Errno::EIO
    }

    /// The number of a path.
    fn number(&self, path: &[u8]) -> INodeNo {
        if path.is_empty() {
            return INodeNo::ROOT;
        }
        let hash = *blake3::keyed_hash(&self.key, path).as_bytes();
        let number = u64::from_le_bytes(hash[..8].try_into().expect("a hash is longer"));
        INodeNo(number.max(2))
    }

    fn path(&self, number: INodeNo) -> std::result::Result<Vec<u8>, Errno> {
        if number == INodeNo::ROOT {
            return Ok(Vec::new());
        }
        let known = self.known.lock();
        known.get(&number.0).map(|(path, _)| path.clone()).ok_or(Errno::ENOENT)
    }

    fn attributes(&self, path: &[u8], found: &Found<'_>) -> FileAttr {
        let folder = |seconds: u32| FileAttr {
            ino: self.number(path),
            size: 0,
            blocks: 0,
            atime: UNIX_EPOCH + Duration::from_secs(seconds.into()),
            mtime: UNIX_EPOCH + Duration::from_secs(seconds.into()),
            ctime: UNIX_EPOCH + Duration::from_secs(seconds.into()),
            crtime: UNIX_EPOCH,
            kind: FileType::Directory,
            perm: 0o555,
            nlink: 1,
            uid: self.uid,
            gid: self.gid,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        };
        let entry = match found {
            Found::Top => {
                return folder(self.snapshots.iter().map(|one| one.time).max().unwrap_or(0));
            }
            Found::Snapshot(snapshot) => return folder(snapshot.time),
            Found::Entry(entry) => entry,
        };
        let nothing = Meta::default();
        let meta = entry.node.meta().unwrap_or(&nothing);
        let (size, rdev) = match &entry.node {
            Node::File { size, .. } => (*size, 0),
            Node::Symlink { target, .. } => (target.len() as u64, 0),
            Node::Device { major, minor, .. } => (0, rustix::fs::makedev(*major, *minor)),
            _ => (0, 0),
        };
        let time = system_time(meta.mtime);
        FileAttr {
            size,
            blocks: size.div_ceil(512),
            atime: time,
            mtime: time,
            ctime: time,
            kind: kind(&entry.node),
            perm: meta.mode & 0o7777,
            uid: meta.uid,
            gid: meta.gid,
            rdev: u32::try_from(rdev).unwrap_or(0),
            ..folder(0)
        }
    }

    fn attributes_of(&self, number: INodeNo) -> std::result::Result<FileAttr, Errno> {
        let path = self.path(number)?;
        Ok(self.attributes(&path, &self.find(&path)?))
    }

    fn look_up(&self, parent: INodeNo, name: &OsStr) -> std::result::Result<FileAttr, Errno> {
        let mut path = self.path(parent)?;
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(name.as_bytes());
        let attributes = self.attributes(&path, &self.find(&path)?);
        self.known.lock().entry(attributes.ino.0).or_insert((path, 0)).1 += 1;
        Ok(attributes)
    }

    /// Adds entries of a folder to an answer, from the one with this number on.
    fn list(
        &self,
        number: INodeNo,
        handle: FileHandle,
        from: u64,
        reply: &mut ReplyDirectory,
    ) -> std::result::Result<(), Errno> {
        let path = self.path(number)?;
        let Some((snapshot, inside)) = self.snapshot(&path) else {
            let from = usize::try_from(from).unwrap_or(usize::MAX);
            for (at, snapshot) in (1..).zip(&self.snapshots).skip(from) {
                let number = self.number(snapshot.name.as_bytes());
                if reply.add(number, at, FileType::Directory, &snapshot.name) {
                    break;
                }
            }
            return Ok(());
        };
        let mut listed = match self.open.lock().get(&handle.0) {
            Some(Open::Folder(listed)) if listed.count == from => listed.clone(),
            _ => Listed::default(),
        };
        let view = self.view(snapshot);
        for entry in view.children(inside, listed.last.as_deref()) {
            let entry = entry.map_err(|error| self.failed(&path, &error))?;
            let slash = entry.path.iter().rposition(|byte| *byte == b'/');
            let name = &entry.path[slash.map_or(0, |at| at + 1)..];
            if listed.count >= from {
                let mut path = path.clone();
                if !path.is_empty() {
                    path.push(b'/');
                }
                path.extend_from_slice(name);
                let (number, kind) = (self.number(&path), kind(&entry.node));
                if reply.add(number, listed.count + 1, kind, OsStr::from_bytes(name)) {
                    break;
                }
            }
            listed.count += 1;
            listed.last = Some(entry.path);
        }
        if let Some(open) = self.open.lock().get_mut(&handle.0) {
            *open = Open::Folder(listed);
        }
        Ok(())
    }

    fn keep_open(&self, open: Open) -> FileHandle {
        let handle = self.handles.fetch_add(1, Ordering::Relaxed);
        self.open.lock().insert(handle, open);
        FileHandle(handle)
    }

    fn read_file(
        &self,
        number: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
    ) -> std::result::Result<Vec<u8>, Errno> {
        let entry = match self.open.lock().get(&handle.0) {
            Some(Open::File(entry)) => Arc::clone(entry),
            _ => return Err(Errno::EINVAL),
        };
        let path = self.path(number)?;
        let (snapshot, _) = self.snapshot(&path).ok_or(Errno::ENOENT)?;
        let Node::File { content, .. } = &entry.node else { return Err(Errno::EINVAL) };
        // The kernel takes a shorter answer for the end of the file.
        let end = offset.saturating_add(size.into());
        self.view(snapshot).read(content, offset..end).map_err(|error| self.failed(&path, &error))
    }

    /// The entry at a number, if it is in a snapshot.
    fn entry(&self, number: INodeNo) -> std::result::Result<Option<Entry>, Errno> {
        Ok(match self.find(&self.path(number)?)? {
            Found::Entry(entry) => Some(entry),
            Found::Top | Found::Snapshot(_) => None,
        })
    }

    /// The attributes of an entry that are shown.
    fn extended(&self, number: INodeNo) -> std::result::Result<Attributes, Errno> {
        let entry = self.entry(number)?;
        let meta = entry.as_ref().and_then(|entry| entry.node.meta());
        let all = meta.map(|meta| meta.attributes.clone()).unwrap_or_default();
        Ok(all.into_iter().filter(|(name, _)| name.starts_with(b"user.")).collect())
    }
}

fn kind(node: &Node) -> FileType {
    match node {
        // A further hard link has the kind of the first, which is a file nearly always. Only a hint
        // in listings depends on it.
        Node::File { .. } | Node::HardLink { .. } => FileType::RegularFile,
        Node::Directory(_) => FileType::Directory,
        Node::Symlink { .. } => FileType::Symlink,
        Node::Device { block: true, .. } => FileType::BlockDevice,
        Node::Device { .. } => FileType::CharDevice,
        Node::Fifo(_) => FileType::NamedPipe,
    }
}

fn system_time(time: Time) -> SystemTime {
    let seconds = Duration::from_secs(time.seconds.unsigned_abs());
    let whole = if time.seconds < 0 {
        UNIX_EPOCH.checked_sub(seconds)
    } else {
        UNIX_EPOCH.checked_add(seconds)
    };
    let exact =
        whole.and_then(|whole| whole.checked_add(Duration::from_nanos(time.nanoseconds.into())));
    exact.unwrap_or(UNIX_EPOCH)
}

/// Answers with a value of which the caller may want the length first.
fn answer(value: std::result::Result<Vec<u8>, Errno>, size: u32, reply: ReplyXattr) {
    match value {
        Err(error) => reply.error(error),
        Ok(value) => match u32::try_from(value.len()) {
            Ok(length) if size == 0 => reply.size(length),
            Ok(length) if length <= size => reply.data(&value),
            _ => reply.error(Errno::ERANGE),
        },
    }
}

impl Filesystem for Files {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.look_up(parent, name) {
            Ok(attributes) => reply.entry(&TTL, &attributes, Generation(0)),
            Err(error) => reply.error(error),
        }
    }

    fn forget(&self, _: &Request, number: INodeNo, times: u64) {
        let mut known = self.known.lock();
        if let Some((_, count)) = known.get_mut(&number.0) {
            *count = count.saturating_sub(times);
            if *count == 0 {
                known.remove(&number.0);
            }
        }
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes_of(number) {
            Ok(attributes) => reply.attr(&TTL, &attributes),
            Err(error) => reply.error(error),
        }
    }

    fn readlink(&self, _: &Request, number: INodeNo, reply: ReplyData) {
        match self.entry(number) {
            Ok(Some(Entry { node: Node::Symlink { target, .. }, .. })) => reply.data(&target),
            Ok(_) => reply.error(Errno::EINVAL),
            Err(error) => reply.error(error),
        }
    }

    fn open(&self, _: &Request, number: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.entry(number) {
            Ok(Some(entry)) => {
                let handle = self.keep_open(Open::File(Arc::new(entry)));
                reply.opened(handle, FopenFlags::FOPEN_KEEP_CACHE);
            }
            Ok(None) => reply.error(Errno::EISDIR),
            Err(error) => reply.error(error),
        }
    }

    fn read(
        &self,
        _: &Request,
        number: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.read_file(number, handle, offset, size) {
            Ok(bytes) => reply.data(&bytes),
            Err(error) => reply.error(error),
        }
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.open.lock().remove(&handle.0);
        reply.ok();
    }

    fn opendir(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let handle = self.keep_open(Open::Folder(Listed::default()));
        reply.opened(handle, FopenFlags::empty());
    }

    fn readdir(
        &self,
        _: &Request,
        number: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        match self.list(number, handle, offset, &mut reply) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        }
    }

    fn releasedir(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.open.lock().remove(&handle.0);
        reply.ok();
    }

    fn getxattr(&self, _: &Request, number: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let value = self.extended(number).and_then(|all| {
            let found = all.into_iter().find(|(known, _)| known == name.as_bytes());
            found.map(|(_, value)| value).ok_or(Errno::NO_XATTR)
        });
        answer(value, size, reply);
    }

    fn listxattr(&self, _: &Request, number: INodeNo, size: u32, reply: ReplyXattr) {
        let names = self
            .extended(number)
            .map(|all| all.into_iter().flat_map(|(name, _)| name.into_iter().chain([0])).collect());
        answer(names, size, reply);
    }
}
