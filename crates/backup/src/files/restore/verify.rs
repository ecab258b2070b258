//! Comparing a folder with a snapshot. Nothing is written.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crossbeam_channel::{Sender, bounded};
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, Stat, fstat, makedev, openat, readlinkat, statat,
};

use super::super::select::Verdict;
use super::beneath::{find_parent, name_of};
use super::wanted::{
    RestoreOptions, THREADS_MAX, Wanted, base_of, has_meta, next_wanted, open_target, threads_of,
};
use crate::chunks::ReadChunks;
use crate::entry::{Entry, Extent, Node};
use crate::error::{BackupError, Result};
use crate::id::{Id, Identifiers, Kind};
use crate::progress::BackupProgress;
use crate::text::{Place, escaped};
use crate::tree::{ContentParts, Finder, Tree};

/// Bytes of a hole that are compared at once.
const HOLE_BYTES: usize = 256 << 10;
/// Entries that a thread takes at once.
const BATCH: usize = 32;

/// Why a path is not as in the snapshot.
#[derive(Debug)]
pub enum Mismatch {
    /// This part of it differs, in words.
    Differs(&'static str),
    /// Nothing is there.
    Absent,
    /// It could not be compared, or a part of the tree could not be read: then the path is empty.
    Failed(BackupError),
}

/// Counts of a comparison.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct VerifyReport {
    /// Files with the content of the snapshot.
    pub files: u64,
    /// Bytes of these files.
    pub bytes: u64,
    /// Other paths that are as in the snapshot.
    pub others: u64,
    /// Paths that are not.
    pub different: u64,
}

impl std::ops::AddAssign for VerifyReport {
    fn add_assign(&mut self, other: Self) {
        self.files += other.files;
        self.bytes += other.bytes;
        self.others += other.others;
        self.different += other.different;
    }
}

/// Reads the content of the folder `target`, and compares it with the files that
/// [`restore`](super::restore) would write there: kinds, content, targets of links, modes, times
/// and, with [`RestoreOptions::owners`], owners. Extended attributes, and modes and times of
/// folders, are not compared. Devices are compared only with [`RestoreOptions::privileged`].
/// Further files in the folder do not matter.
///
/// A part of a file that is a whole chunk is compared by its identifier, and not read from the
/// repository.
///
/// `tell` is called by several threads.
///
/// # Errors
///
/// The errors of [`restore`](super::restore).
pub fn verify(
    tree: &Tree<'_>,
    identifiers: &Identifiers,
    target: &Path,
    options: &RestoreOptions,
    progress: &BackupProgress,
    tell: &(dyn Fn(&[u8], Mismatch) + Sync),
) -> Result<VerifyReport> {
    let run = Comparison {
        chunks: tree.chunks(),
        identifiers,
        base: base_of(tree, &options.subfolder)?,
        target: Arc::new(open_target(target)?),
        options,
        progress,
        tell,
        files: AtomicU64::new(0),
        bytes: AtomicU64::new(0),
        others: AtomicU64::new(0),
        different: AtomicU64::new(0),
    };
    let threads = threads_of(options).min(THREADS_MAX);
    thread::scope(|scope| {
        let (jobs, queue) = bounded::<Vec<Entry>>(2 * threads);
        for _ in 0..threads {
            let (run, queue) = (&run, queue.clone());
            scope.spawn(move || {
                for entry in queue.iter().flatten() {
                    if progress.go_on().is_ok() {
                        run.compare(&entry);
                    }
                }
            });
        }
        drop(queue);
        run.hand_out(tree, &jobs)
    })?;
    progress.go_on()?;
    let get = |count: AtomicU64| count.into_inner();
    Ok(VerifyReport {
        files: get(run.files),
        bytes: get(run.bytes),
        others: get(run.others),
        different: get(run.different),
    })
}

struct Comparison<'a> {
    chunks: &'a dyn ReadChunks,
    identifiers: &'a Identifiers,
    base: &'a [u8],
    target: Arc<OwnedFd>,
    options: &'a RestoreOptions,
    progress: &'a BackupProgress,
    tell: &'a (dyn Fn(&[u8], Mismatch) + Sync),
    files: AtomicU64,
    bytes: AtomicU64,
    others: AtomicU64,
    different: AtomicU64,
}

impl Comparison<'_> {
    fn tell(&self, path: &[u8], difference: Mismatch) {
        self.different.fetch_add(1, Ordering::Relaxed);
        (self.tell)(path, difference);
    }

    fn hand_out(&self, tree: &Tree<'_>, jobs: &Sender<Vec<Entry>>) -> Result<()> {
        let mut finder = Finder::new(*tree);
        let mut wanted = Wanted::default();
        let mut entries = tree.entries_from(&self.options.subfolder);
        let mut batch = Vec::new();
        let mut failed = |source| self.tell(&[], Mismatch::Failed(source));
        let send = |batch| jobs.send(batch).expect("the threads wait until there are no more");
        loop {
            let next = next_wanted(
                &mut entries,
                &mut wanted,
                self.options,
                self.base,
                self.progress,
                &mut failed,
            )?;
            let Some((mut entry, verdict)) = next else { break };
            // Whether it was restored depends on what is beneath it.
            if verdict != Verdict::Wanted {
                continue;
            }
            if let Node::HardLink { first } = &entry.node {
                match finder.get(first) {
                    Ok(Some(found)) => entry.node = found.node,
                    Ok(None) => {
                        self.tell(&entry.path, Mismatch::Differs("its first link is lost"));
                        continue;
                    }
                    Err(source) => {
                        self.tell(&entry.path, Mismatch::Failed(source));
                        continue;
                    }
                }
            }
            batch.push(entry);
            if batch.len() == BATCH {
                send(std::mem::take(&mut batch));
            }
        }
        send(batch);
        Ok(())
    }

    fn compare(&self, entry: &Entry) {
        let path = &entry.path;
        if matches!(entry.node, Node::Device { .. }) && !self.options.privileged {
            return;
        }
        let failed = |source: io::Error| {
            let path = escaped(path, Place::Last);
            Mismatch::Failed(BackupError::File { path, source })
        };
        let below = &path[self.base.len()..];
        let below = below.strip_prefix(b"/").unwrap_or(below);
        let name = name_of(path);
        let found = find_parent(&self.target, below).and_then(|parent| {
            let found = statat(&parent, &name, AtFlags::SYMLINK_NOFOLLOW)?;
            Ok((parent, found))
        });
        let (parent, found) = match found {
            Ok(found) => found,
            Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => {
                self.tell(path, Mismatch::Absent);
                return;
            }
            Err(error) => {
                self.tell(path, failed(error.into()));
                return;
            }
        };
        if let Some(what) = self.difference(&entry.node, &found) {
            self.tell(path, Mismatch::Differs(what));
            return;
        }
        match &entry.node {
            Node::File { content, size, .. } => {
                let file = match open_file(&parent, &name) {
                    Ok(file) => file,
                    Err(error) => {
                        self.tell(path, failed(error.into()));
                        return;
                    }
                };
                let (identifiers, progress) = (Some(self.identifiers), self.progress);
                match has_content(self.chunks, identifiers, &file, path, content, progress) {
                    Ok(true) => {
                        self.files.fetch_add(1, Ordering::Relaxed);
                        self.bytes.fetch_add(*size, Ordering::Relaxed);
                        BackupProgress::add(&self.progress.entries, 1);
                        BackupProgress::add(&self.progress.bytes, *size);
                    }
                    Ok(false) => self.tell(path, Mismatch::Differs("content")),
                    Err(BackupError::Cancelled) => {}
                    Err(source) => self.tell(path, Mismatch::Failed(source)),
                }
                return;
            }
            Node::Symlink { target, .. } => {
                let is_same = readlinkat(&parent, &name, Vec::new())
                    .is_ok_and(|link| link.as_bytes() == target.as_slice());
                if !is_same {
                    self.tell(path, Mismatch::Differs("target"));
                    return;
                }
            }
            _ => {}
        }
        self.others.fetch_add(1, Ordering::Relaxed);
        BackupProgress::add(&self.progress.entries, 1);
    }

    /// The differences that metadata alone show.
    fn difference(&self, node: &Node, found: &Stat) -> Option<&'static str> {
        let kind = match node {
            Node::File { .. } => FileType::RegularFile,
            Node::Directory(_) => FileType::Directory,
            Node::Symlink { .. } => FileType::Symlink,
            Node::Device { block: true, .. } => FileType::BlockDevice,
            Node::Device { .. } => FileType::CharacterDevice,
            Node::Fifo(_) => FileType::Fifo,
            Node::HardLink { .. } => return Some("kind"),
        };
        if FileType::from_raw_mode(found.st_mode) != kind {
            return Some("kind");
        }
        match node {
            Node::File { size, .. } if u64::try_from(found.st_size) != Ok(*size) => Some("size"),
            Node::Device { major, minor, .. } if found.st_rdev != makedev(*major, *minor) => {
                Some("device")
            }
            // A folder that was there before keeps its own, and a symbolic link has no mode.
            Node::Directory(_) | Node::Symlink { .. } => None,
            _ => match node.meta() {
                Some(meta) if !has_meta(found, meta, self.options) => Some("mode, time or owner"),
                _ => None,
            },
        }
    }
}

/// Opens a file for reading. A symbolic link is an error, and a FIFO is not waited for.
pub(super) fn open_file(folder: &OwnedFd, name: &CStr) -> rustix::io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    openat(folder, name, flags, Mode::empty()).map(File::from)
}

/// Whether a file has this content. With `identifiers`, parts that are whole chunks are not read
/// from the repository.
pub(super) fn has_content(
    chunks: &dyn ReadChunks,
    identifiers: Option<&Identifiers>,
    file: &File,
    path: &[u8],
    content: &[Extent],
    progress: &BackupProgress,
) -> Result<bool> {
    let failed = |source| BackupError::File { path: escaped(path, Place::Last), source };
    let is_whole = |id: Id, bytes: &[u8]| {
        identifiers.is_some_and(|identifiers| identifiers.of(Kind::Data, bytes) == id)
    };
    let mut buffer = Vec::new();
    let mut at = 0;
    let read = |buffer: &mut Vec<u8>, at: u64, length: u64| {
        buffer.resize(usize::try_from(length).expect("a chunk has at most 8 MiB"), 0);
        match file.read_exact_at(buffer, at) {
            Ok(()) => Ok(true),
            // It was cut off meanwhile.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
            Err(error) => Err(failed(error)),
        }
    };
    for part in ContentParts::new(chunks, content.to_vec()) {
        progress.go_on()?;
        let part = part?;
        let length = part.length();
        let is_same = match part {
            Extent::Inline(bytes) => read(&mut buffer, at, length)? && buffer == bytes,
            Extent::Hole(_) => {
                let (mut at, mut left) = (at, length);
                loop {
                    let step = left.min(HOLE_BYTES as u64);
                    if step == 0 {
                        break true;
                    }
                    if !read(&mut buffer, at, step)? || buffer.iter().any(|byte| *byte != 0) {
                        break false;
                    }
                    (at, left) = (at + step, left - step);
                }
            }
            Extent::Data { id, offset, length } => {
                read(&mut buffer, at, length)?
                    && (offset == 0 && is_whole(id, &buffer) || {
                        let chunk = chunks.read_shared(Kind::Data, &id)?;
                        let start = usize::try_from(offset).ok();
                        let range = start
                            .and_then(|start| chunk.get(start..))
                            .and_then(|rest| rest.get(..buffer.len()));
                        range == Some(&buffer[..])
                    })
            }
            Extent::List { .. } => unreachable!("lists are resolved"),
        };
        if !is_same {
            return Ok(false);
        }
        at += length;
    }
    Ok(fstat(file).is_ok_and(|found| u64::try_from(found.st_size) == Ok(at)))
}
