//! Restoring: the entries of a snapshot, written beneath a folder.
//!
//! Everything is reached from the descriptor of the target, one component after the other, and
//! never through a symbolic link, so no tree can write outside of the target. The first pass makes
//! folders and files. The second pass makes symbolic links, further hard links, FIFOs and devices,
//! and sets the modes and times of folders.
//!
//! A restore that was killed and is run again completes: files have other names until they are
//! whole ([`unfinished`]), and folders another mode ([`beneath::UNFINISHED`]).

mod apply;
mod beneath;
mod unfinished;
mod verify;
mod wanted;

use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use crossbeam_channel::{Receiver, Sender, bounded};
use parking_lot::Mutex;
use rustix::fs::{
    AtFlags, FileType, Mode, Stat, fchmod, linkat, makedev, mknodat, readlinkat, statat, symlinkat,
    syncfs, unlinkat,
};
use rustix::io::Errno;

pub use self::verify::{Mismatch, VerifyReport, verify};
pub use self::wanted::{Overwrite, RestoreEvent, RestoreOptions};

use self::apply::{Object, apply, is_privileged};
use self::beneath::{Folders, Left, Obstacle, State, find_parent, is_unfinished, name_of};
use self::verify::{has_content, open_file};
use self::wanted::{
    THREADS_MAX, Wanted, base_of, has_meta, make_target, meta_of, next_wanted, open_target,
    target_failed, threads_of,
};
use super::attributes;
use super::select::Verdict;
use crate::chunks::ReadChunks;
use crate::entry::{Entry, Extent, Meta, Node, Time};
use crate::error::{BackupError, Result};
use crate::id::Kind;
use crate::progress::BackupProgress;
use crate::text::{Place, escaped};
use crate::tree::{ContentParts, Entries, Finder, Tree, is_beneath, parents};

/// Small files of one folder that a thread takes at once.
const BATCH_FILES: usize = 32;
/// A file with more parts is written by several threads.
const SMALL_PARTS_MAX: usize = 4;
/// A shorter range is a part of a chunk that has several small files.
const SHARED_BYTES_MAX: u64 = 128 << 10;

/// Counts of a restore.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct RestoreReport {
    /// Files with their content.
    pub files: u64,
    /// Bytes of these files.
    pub bytes: u64,
    /// Folders.
    pub folders: u64,
    /// Symbolic links, further hard links, FIFOs and devices.
    pub others: u64,
    /// Paths that were already as in the snapshot.
    pub unchanged: u64,
    /// Paths for which there was [`RestoreEvent::Kept`].
    pub kept: u64,
    /// [`RestoreEvent::Differs`].
    pub differing: u64,
    /// [`RestoreEvent::Withheld`].
    pub withheld: u64,
    /// [`RestoreEvent::Incomplete`].
    pub incomplete: u64,
    /// [`RestoreEvent::Failed`], and parts of the tree that cannot be read.
    pub failed: u64,
}

impl std::ops::AddAssign for RestoreReport {
    fn add_assign(&mut self, other: Self) {
        self.files += other.files;
        self.bytes += other.bytes;
        self.folders += other.folders;
        self.others += other.others;
        self.unchanged += other.unchanged;
        self.kept += other.kept;
        self.differing += other.differing;
        self.withheld += other.withheld;
        self.incomplete += other.incomplete;
        self.failed += other.failed;
    }
}

/// Restores a tree to the folder `target`, which is made if it is not there.
///
/// `tell` gets the path of each event in the snapshot; the path is empty for a part of the tree
/// that cannot be read, since the paths in it are not known. It is called by several threads.
///
/// # Errors
///
/// [`Damaged`](BackupError::Damaged) if the tree breaks a rule of the format;
/// [`Cancelled`](BackupError::Cancelled); [`Refused`](BackupError::Refused) if the snapshot does
/// not have the subfolder; errors of the target folder itself.
pub fn restore(
    tree: &Tree<'_>,
    target: &Path,
    options: &RestoreOptions,
    progress: &BackupProgress,
    tell: &(dyn Fn(&[u8], RestoreEvent) + Sync),
) -> Result<RestoreReport> {
    let base = base_of(tree, &options.subfolder)?;
    let meta = meta_of(tree, &options.subfolder)?;
    make_target(target, meta.is_some())?;
    let folder = open_target(target)?;
    let meta = meta.filter(|_| is_unfinished(&folder));
    let run = Restoration {
        tree: *tree,
        chunks: tree.chunks(),
        target: Arc::new(folder),
        base,
        options,
        progress,
        tell,
        counts: Counts::default(),
    };
    let existing = run.make_files()?;
    run.make_others(&existing)?;
    if let Some(meta) = meta {
        run.finish_folder(&options.subfolder, &run.target, &meta);
    }
    syncfs(&*run.target).map_err(|error| target_failed(target, error.into()))?;
    Ok(run.counts.report())
}

/// A folder of the snapshot that becomes a folder beneath the target.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Mapping {
    /// The folder of the snapshot, without a leading slash; empty for everything.
    pub from: Vec<u8>,
    /// Its folder beneath the target; empty for the target itself. A leading slash does not count.
    pub to: PathBuf,
}

/// The places for [`restore`] and [`verify`] of several folders of a tree: a target and options for
/// each. The targets are made, so that nothing in the snapshot can lead the way to one of them
/// elsewhere.
///
/// # Errors
///
/// [`Refused`](BackupError::Refused) if the snapshot does not have a folder, or if a mapping leads
/// out of `target`; errors of the tree and of the file system.
pub fn map_folders(
    tree: &Tree<'_>,
    target: &Path,
    mappings: &[Mapping],
    options: &RestoreOptions,
) -> Result<Vec<(PathBuf, RestoreOptions)>> {
    let mut places = Vec::new();
    for Mapping { from, to } in mappings {
        let refused = |why: &str| {
            let path = escaped(from, Place::Last);
            BackupError::Refused(format!("/{path} {why}"))
        };
        if !from.is_empty() {
            match tree.get(from)? {
                Some(Entry { node: Node::Directory(_), .. }) => {}
                Some(_) => return Err(refused("is no folder in the snapshot")),
                None => return Err(refused("is not in the snapshot")),
            }
        }
        let below = to.strip_prefix("/").unwrap_or(to);
        if below.components().any(|part| !matches!(part, Component::Normal(_) | Component::CurDir))
        {
            let to = escaped(to.as_os_str().as_encoded_bytes(), Place::Last);
            return Err(refused(&format!("cannot become {to}, which is not beneath the target")));
        }
        places.push((
            target.join(below),
            RestoreOptions { subfolder: from.clone(), ..options.clone() },
        ));
    }
    for (target, options) in &places {
        make_target(target, meta_of(tree, &options.subfolder)?.is_some())?;
    }
    Ok(places)
}

#[derive(Default)]
struct Counts {
    files: AtomicU64,
    bytes: AtomicU64,
    folders: AtomicU64,
    others: AtomicU64,
    unchanged: AtomicU64,
    kept: AtomicU64,
    differing: AtomicU64,
    withheld: AtomicU64,
    incomplete: AtomicU64,
    failed: AtomicU64,
}

impl Counts {
    fn report(&self) -> RestoreReport {
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        RestoreReport {
            files: get(&self.files),
            bytes: get(&self.bytes),
            folders: get(&self.folders),
            others: get(&self.others),
            unchanged: get(&self.unchanged),
            kept: get(&self.kept),
            differing: get(&self.differing),
            withheld: get(&self.withheld),
            incomplete: get(&self.incomplete),
            failed: get(&self.failed),
        }
    }
}

struct Restoration<'a> {
    tree: Tree<'a>,
    chunks: &'a dyn ReadChunks,
    target: Arc<OwnedFd>,
    /// The folder of the snapshot that becomes the target.
    base: &'a [u8],
    options: &'a RestoreOptions,
    progress: &'a BackupProgress,
    tell: &'a (dyn Fn(&[u8], RestoreEvent) + Sync),
    counts: Counts,
}

/// A file that is to be written.
struct FileJob {
    path: Vec<u8>,
    folder: Arc<OwnedFd>,
    /// Whether nothing can be in its place: this restore has made the folder.
    is_alone: bool,
    meta: Meta,
    size: u64,
    content: Vec<Extent>,
}

/// A file that is being written.
struct Open {
    path: Vec<u8>,
    folder: Arc<OwnedFd>,
    meta: Meta,
    size: u64,
    file: File,
    name: CString,
    /// The name until the file is whole.
    unfinished: CString,
    /// Whether something else has the name, which is to be replaced.
    replaces: bool,
    /// The end of the last part that was written.
    end: AtomicU64,
    has_failed: AtomicBool,
    error: Mutex<Option<BackupError>>,
}

enum Job {
    Files(Vec<FileJob>),
    Extent { open: Arc<Open>, offset: u64, part: Extent },
}

/// Whether something is in the place of an entry.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Way {
    Free,
    Taken,
}

/// What is in the place of an entry, beside the entry.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Likeness {
    /// It is as it would be restored.
    Same,
    /// It has the same content, and other metadata.
    Alike,
    Different,
}

impl Restoration<'_> {
    fn event(&self, path: &[u8], event: RestoreEvent) {
        let count = match event {
            RestoreEvent::Kept => &self.counts.kept,
            RestoreEvent::Differs => &self.counts.differing,
            RestoreEvent::Withheld { .. } => &self.counts.withheld,
            RestoreEvent::Incomplete { .. } => &self.counts.incomplete,
            RestoreEvent::Failed { .. } => &self.counts.failed,
        };
        count.fetch_add(1, Ordering::Relaxed);
        (self.tell)(path, event);
    }

    fn fail(&self, path: &[u8], source: io::Error) {
        let source = BackupError::File { path: escaped(path, Place::Last), source };
        self.event(path, RestoreEvent::Failed { source });
    }

    /// The next entry that is wanted or a parent of such.
    fn next(
        &self,
        entries: &mut Entries<'_>,
        wanted: &mut Wanted,
        pass: Pass,
    ) -> Result<Option<(Entry, Verdict)>> {
        let mut failed = |source| {
            if pass == Pass::Files {
                self.event(&[], RestoreEvent::Failed { source });
            }
        };
        next_wanted(entries, wanted, self.options, self.base, self.progress, &mut failed)
    }

    fn folders(&self) -> Folders {
        let obstacle = match self.options.overwrite {
            Overwrite::Never | Overwrite::IfNewer => Obstacle::Keep,
            Overwrite::IfChanged | Overwrite::IfDifferent | Overwrite::Always => Obstacle::Remove,
        };
        Folders::new(Arc::clone(&self.target), self.base, obstacle)
    }

    /// The first pass: folders and files. Gives the folders that were there and are to be left as
    /// they are.
    fn make_files(&self) -> Result<HashSet<Vec<u8>>> {
        let threads = threads_of(self.options).min(THREADS_MAX);
        thread::scope(|scope| {
            let (jobs, queue) = bounded::<Job>(2 * threads);
            for _ in 0..threads {
                let queue = queue.clone();
                scope.spawn(move || self.work(&queue));
            }
            drop(queue);
            self.hand_out(&jobs)
        })
    }

    fn hand_out(&self, jobs: &Sender<Job>) -> Result<HashSet<Vec<u8>>> {
        let mut existing = HashSet::new();
        let keeps = self.options.overwrite == Overwrite::Never;
        let mut note = |left: Option<Left>| {
            left.is_some_and(|left| {
                if keeps && matches!(left.state, State::There { new: false, .. }) {
                    existing.insert(left.path);
                }
                true
            })
        };
        let mut folders = self.folders();
        let mut wanted = Wanted::default();
        let mut entries = self.tree.entries_from(&self.options.subfolder);
        let mut batch: Vec<FileJob> = Vec::new();
        let send = |job| jobs.send(job).expect("the threads wait for jobs until there are no more");
        while let Some((entry, verdict)) = self.next(&mut entries, &mut wanted, Pass::Files)? {
            while folders.left_by(&entry.path) {
                note(folders.leave());
                if !batch.is_empty() {
                    send(Job::Files(std::mem::take(&mut batch)));
                }
            }
            match entry.node {
                Node::Directory(meta) => {
                    if !batch.is_empty() {
                        send(Job::Files(std::mem::take(&mut batch)));
                    }
                    folders.enter(&entry.path, Some(meta));
                    if verdict == Verdict::Wanted
                        && let Err(source) = folders.innermost()
                    {
                        self.fail(&entry.path, source);
                    }
                }
                Node::File { meta, size, content } => {
                    let folder = match folders.parent_of(&entry.path) {
                        Ok(folder) => folder,
                        Err(source) => {
                            self.fail(&entry.path, source);
                            continue;
                        }
                    };
                    let is_alone = folders.is_empty();
                    let job = FileJob { path: entry.path, folder, is_alone, meta, size, content };
                    if is_small(&job.content) {
                        batch.push(job);
                        if batch.len() == BATCH_FILES {
                            send(Job::Files(std::mem::take(&mut batch)));
                        }
                    } else {
                        self.hand_out_parts(job, &send);
                    }
                }
                // The second pass makes it. Its folder is made now, to know whether that was there
                // before.
                _ => {
                    let _ = folders.parent_of(&entry.path);
                }
            }
        }
        if !batch.is_empty() {
            send(Job::Files(batch));
        }
        while note(folders.leave()) {}
        Ok(existing)
    }

    /// Hands out the parts of a long file.
    fn hand_out_parts(&self, mut job: FileJob, send: &impl Fn(Job)) {
        let content = std::mem::take(&mut job.content);
        let Some(open) = self.open(job, &content) else { return };
        let open = Arc::new(open);
        let mut offset = 0;
        for part in ContentParts::new(self.chunks, content) {
            let part = match part {
                Ok(part) => part,
                Err(error) => {
                    open.fail(error);
                    break;
                }
            };
            if open.has_failed.load(Ordering::Relaxed) || self.progress.go_on().is_err() {
                break;
            }
            let length = part.length();
            send(Job::Extent { open: Arc::clone(&open), offset, part });
            offset += length;
        }
        if let Err(error) = self.progress.go_on() {
            open.fail(error);
        }
        self.release(open);
    }

    fn work(&self, jobs: &Receiver<Job>) {
        for job in jobs {
            match job {
                Job::Files(files) => files.into_iter().for_each(|file| self.write_file(file)),
                Job::Extent { open, offset, part } => {
                    if !open.has_failed.load(Ordering::Relaxed)
                        && let Err(error) = self.write_part(&open, offset, part)
                    {
                        open.fail(error);
                    }
                    self.release(open);
                }
            }
        }
    }

    /// Writes a file in one go.
    fn write_file(&self, mut job: FileJob) {
        if self.progress.go_on().is_err() {
            return;
        }
        let content = std::mem::take(&mut job.content);
        let Some(open) = self.open(job, &content) else { return };
        let mut offset = 0;
        for part in ContentParts::new(self.chunks, content) {
            let written = part.and_then(|part| {
                let length = part.length();
                self.write_part(&open, offset, part)?;
                offset += length;
                Ok(())
            });
            if let Err(error) = written {
                open.fail(error);
                break;
            }
        }
        self.complete(&open);
    }

    fn write_part(&self, open: &Open, offset: u64, part: Extent) -> Result<()> {
        let write = |bytes: &[u8]| {
            open.end.fetch_max(offset + bytes.len() as u64, Ordering::Relaxed);
            open.file.write_all_at(bytes, offset).map_err(|source| BackupError::File {
                path: escaped(&open.path, Place::Last),
                source,
            })
        };
        match part {
            Extent::Inline(content) => write(&content),
            Extent::Hole(_) => Ok(()),
            Extent::Data { id, offset, length } => {
                let (shared, own);
                let chunk: &[u8] = if length <= SHARED_BYTES_MAX {
                    shared = self.chunks.read_shared(Kind::Data, &id)?;
                    &shared
                } else {
                    own = self.chunks.read(Kind::Data, &id)?;
                    &own
                };
                let range = usize::try_from(offset)
                    .ok()
                    .zip(usize::try_from(length).ok())
                    .and_then(|(start, length)| chunk.get(start..start.checked_add(length)?));
                let short = || {
                    let name = format!("data {id}");
                    BackupError::damaged(name, "it is shorter than a reference to it says")
                };
                write(range.ok_or_else(short)?)
            }
            Extent::List { .. } => unreachable!("lists are resolved"),
        }
    }

    /// Creates a file, under another name until it is whole.
    fn open(&self, job: FileJob, content: &[Extent]) -> Option<Open> {
        let FileJob { path, folder, is_alone, meta, size, .. } = job;
        let name = name_of(&path);
        let likeness = |found: &Stat| {
            self.likeness_of_file(found, &folder, &name, &path, (&meta, size, content))
        };
        let way = if is_alone {
            Way::Free
        } else {
            self.judge_existing(&path, &folder, &name, meta.mtime, likeness)?
        };
        let make = |own: &CStr| unfinished::create(&folder, own);
        match unfinished::make(&folder, &name, |own| self.has_beside(&path, own), make) {
            Ok((file, unfinished)) => Some(Open {
                path,
                folder,
                meta,
                size,
                file,
                name,
                unfinished,
                replaces: way == Way::Taken,
                end: AtomicU64::new(0),
                has_failed: AtomicBool::new(false),
                error: Mutex::new(None),
            }),
            Err(error) => {
                self.fail(&path, error);
                None
            }
        }
    }

    /// Whether the snapshot has something of this name in the folder of an entry.
    fn has_beside(&self, path: &[u8], name: &CStr) -> bool {
        let folder = parents(path).last().map_or(&b""[..], |folder| folder);
        let slash: &[u8] = if folder.is_empty() { b"" } else { b"/" };
        let beside = [folder, slash, name.to_bytes()].concat();
        // If the tree cannot be read there, nothing may be taken for a file that was left.
        !matches!(self.tree.get(&beside), Ok(None))
    }

    /// Compares something in the place of a file with the file: its metadata, and where it matters
    /// its content.
    fn likeness_of_file(
        &self,
        found: &Stat,
        folder: &OwnedFd,
        name: &CStr,
        path: &[u8],
        (meta, size, content): (&Meta, u64, &[Extent]),
    ) -> Likeness {
        let overwrite = self.options.overwrite;
        if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile
            || u64::try_from(found.st_size) != Ok(size)
        {
            return Likeness::Different;
        }
        let is_same =
            has_meta(found, meta, self.options) && self.has_attributes(folder, name, meta);
        let compares = match overwrite {
            Overwrite::Never => !is_same,
            Overwrite::IfDifferent => is_same,
            Overwrite::IfChanged | Overwrite::IfNewer | Overwrite::Always => false,
        };
        if compares && !self.has_content(folder, name, path, content) {
            return Likeness::Different;
        }
        if is_same { Likeness::Same } else { Likeness::Alike }
    }

    /// Whether something has the attributes of an entry, as far as they would be restored.
    fn has_attributes(&self, folder: &OwnedFd, name: &CStr, meta: &Meta) -> bool {
        let wanted =
            |(name, _): &&(Vec<u8>, Vec<u8>)| self.options.privileged || !is_privileged(name);
        attributes::read(folder, name).is_ok_and(|found| {
            found.iter().filter(wanted).eq(meta.attributes.iter().filter(wanted))
        })
    }

    /// Whether a file has this content. If it cannot be read, it is replaced.
    fn has_content(&self, folder: &OwnedFd, name: &CStr, path: &[u8], content: &[Extent]) -> bool {
        open_file(folder, name).is_ok_and(|file| {
            let same = has_content(self.chunks, None, &file, path, content, self.progress);
            same.unwrap_or(false)
        })
    }

    /// Decides what happens to something in the place of an entry. `None`: it stays, and that was
    /// told.
    fn judge_existing(
        &self,
        path: &[u8],
        folder: &OwnedFd,
        name: &CStr,
        time: Time,
        likeness: impl FnOnce(&Stat) -> Likeness,
    ) -> Option<Way> {
        let found = match statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => found,
            Err(Errno::NOENT) => return Some(Way::Free),
            Err(error) => {
                self.fail(path, error.into());
                return None;
            }
        };
        let overwrite = self.options.overwrite;
        if overwrite != Overwrite::Always {
            match likeness(&found) {
                Likeness::Same => {
                    self.counts.unchanged.fetch_add(1, Ordering::Relaxed);
                    return None;
                }
                Likeness::Alike if overwrite == Overwrite::Never => {
                    self.event(path, RestoreEvent::Kept);
                    return None;
                }
                Likeness::Different if overwrite == Overwrite::Never => {
                    self.event(path, RestoreEvent::Differs);
                    return None;
                }
                Likeness::Alike | Likeness::Different => {}
            }
        }
        if overwrite == Overwrite::IfNewer && time_of(&found) >= time {
            self.event(path, RestoreEvent::Kept);
            return None;
        }
        if FileType::from_raw_mode(found.st_mode) == FileType::Directory {
            let why = "a folder is in its place; remove it first";
            self.fail(path, io::Error::new(io::ErrorKind::IsADirectory, why));
            return None;
        }
        Some(Way::Taken)
    }

    /// Completes a file if no other thread works on it.
    fn release(&self, open: Arc<Open>) {
        if let Some(open) = Arc::into_inner(open) {
            self.complete(&open);
        }
    }

    /// Gives a written file its length, metadata and name; removes it if it has failed.
    fn complete(&self, open: &Open) {
        let error = open.error.lock().take();
        let finish = || -> io::Result<()> {
            // A hole at the end is not written.
            if open.end.load(Ordering::Relaxed) < open.size {
                open.file.set_len(open.size)?;
            }
            let mut tell = |event| self.event(&open.path, event);
            apply(&Object::open(&open.file), &open.meta, self.options, &mut tell);
            unfinished::finish(&open.folder, &open.unfinished, &open.name, open.replaces)
        };
        let result = match error {
            Some(error) => Err(error),
            None => finish().map_err(|source| BackupError::File {
                path: escaped(&open.path, Place::Last),
                source,
            }),
        };
        match result {
            Ok(()) => {
                self.counts.files.fetch_add(1, Ordering::Relaxed);
                self.counts.bytes.fetch_add(open.size, Ordering::Relaxed);
                BackupProgress::add(&self.progress.entries, 1);
                BackupProgress::add(&self.progress.bytes, open.size);
            }
            Err(source) => {
                let _ = unlinkat(&open.folder, &open.unfinished, AtFlags::empty());
                if !matches!(source, BackupError::Cancelled) {
                    self.event(&open.path, RestoreEvent::Failed { source });
                }
            }
        }
    }

    /// The second pass: everything that is no file, and the metadata of folders.
    fn make_others(&self, existing: &HashSet<Vec<u8>>) -> Result<()> {
        let mut folders = self.folders();
        let mut wanted = Wanted::default();
        let mut links = Links { finder: Finder::new(self.tree), copies: HashMap::new() };
        let mut entries = self.tree.entries_from(&self.options.subfolder);
        while let Some((entry, verdict)) = self.next(&mut entries, &mut wanted, Pass::Others)? {
            while folders.left_by(&entry.path) {
                self.leave(&mut folders, existing);
            }
            match entry.node {
                Node::Directory(meta) => {
                    folders.enter(&entry.path, Some(meta));
                    if verdict == Verdict::Wanted {
                        // A failure was told in the first pass.
                        let _ = folders.innermost();
                    }
                }
                // So that the folders that the first pass made for it count as made.
                Node::File { .. } => {
                    let _ = folders.parent_of(&entry.path);
                }
                _ => match folders.parent_of(&entry.path) {
                    Ok(folder) => self.make_other(&entry, &folder, &mut links)?,
                    Err(source) => self.fail(&entry.path, source),
                },
            }
        }
        while self.leave(&mut folders, existing) {}
        Ok(())
    }

    /// Leaves the innermost folder and gives it its metadata.
    fn leave(&self, folders: &mut Folders, existing: &HashSet<Vec<u8>>) -> bool {
        let Some(Left { path, state, meta, folder }) = folders.leave() else { return false };
        if !matches!(state, State::There { .. }) || existing.contains(&path) {
            return true;
        }
        match (folder, meta) {
            (Ok(folder), Some(meta)) => self.finish_folder(&path, &folder, &meta),
            (Ok(folder), None) => {
                let _ = fchmod(&folder, Mode::RWXU);
            }
            (Err(source), _) => self.fail(&path, source),
        }
        true
    }

    /// Gives a folder its metadata.
    fn finish_folder(&self, path: &[u8], folder: &OwnedFd, meta: &Meta) {
        let mut tell = |event| self.event(path, event);
        apply(&Object::open(folder), meta, self.options, &mut tell);
        self.counts.folders.fetch_add(1, Ordering::Relaxed);
        BackupProgress::add(&self.progress.entries, 1);
    }

    /// Makes an entry that is neither a folder nor a file.
    fn make_other(
        &self,
        entry: &Entry,
        folder: &Arc<OwnedFd>,
        links: &mut Links<'_>,
    ) -> Result<()> {
        let path = &entry.path;
        if let Node::HardLink { first } = &entry.node {
            return self.make_link(path, first, folder, links);
        }
        if matches!(entry.node, Node::Device { .. }) && !self.options.privileged {
            self.event(path, RestoreEvent::Withheld { what: "device".into() });
            return Ok(());
        }
        let name = name_of(path);
        let likeness = |found: &Stat| {
            if is_same_node(found, &entry.node, folder, &name) {
                Likeness::Same
            } else {
                Likeness::Different
            }
        };
        let time = entry.node.meta().map(|meta| meta.mtime).unwrap_or_default();
        let Some(way) = self.judge_existing(path, folder, &name, time, likeness) else {
            return Ok(());
        };
        let make = |own: &CStr| -> io::Result<()> {
            let special =
                |kind, device| mknodat(folder, own, kind, Mode::RUSR | Mode::WUSR, device);
            match &entry.node {
                Node::Symlink { target, .. } => symlinkat(target.as_slice(), folder, own)?,
                Node::Fifo(_) => special(FileType::Fifo, 0)?,
                Node::Device { block: true, major, minor, .. } => {
                    special(FileType::BlockDevice, makedev(*major, *minor))?;
                }
                Node::Device { major, minor, .. } => {
                    special(FileType::CharacterDevice, makedev(*major, *minor))?;
                }
                Node::File { .. } | Node::Directory(_) | Node::HardLink { .. } => {
                    unreachable!("these are made elsewhere")
                }
            }
            Ok(())
        };
        let result = unfinished::make(folder, &name, |own| self.has_beside(path, own), make)
            .and_then(|((), own)| {
                let object = match &entry.node {
                    Node::Symlink { .. } => Object::Symlink(folder, &own),
                    _ => Object::special(folder, &own)?,
                };
                if let Some(meta) = entry.node.meta() {
                    apply(&object, meta, self.options, &mut |event| self.event(path, event));
                }
                unfinished::finish(folder, &own, &name, way == Way::Taken).inspect_err(|_| {
                    let _ = unlinkat(folder, &own, AtFlags::empty());
                })
            });
        match result {
            Ok(()) => {
                self.counts.others.fetch_add(1, Ordering::Relaxed);
                BackupProgress::add(&self.progress.entries, 1);
            }
            Err(source) => self.fail(path, source),
        }
        Ok(())
    }

    /// Makes a further name of a file. If the first name is not restored, or is something else now,
    /// the file is restored here.
    fn make_link(
        &self,
        path: &[u8],
        first: &[u8],
        folder: &Arc<OwnedFd>,
        links: &mut Links<'_>,
    ) -> Result<()> {
        let node = match links.finder.get(first) {
            Ok(Some(entry)) => entry.node,
            Ok(None) => {
                self.fail(path, io::Error::new(io::ErrorKind::NotFound, "its first link is lost"));
                return Ok(());
            }
            Err(source) => {
                self.event(path, RestoreEvent::Failed { source });
                return Ok(());
            }
        };
        let name = name_of(path);
        let is_restored =
            is_beneath(first, self.base) && self.options.selection.wants(first, false);
        let copy = links.copies.get(first);
        for source in is_restored.then_some(first).into_iter().chain(copy.map(Vec::as_slice)) {
            let below = &source[self.base.len()..];
            let below = below.strip_prefix(b"/").unwrap_or(below);
            let Ok(parent) = find_parent(&self.target, below) else { continue };
            let source_name = name_of(source);
            let Ok(found) = statat(&parent, &source_name, AtFlags::SYMLINK_NOFOLLOW) else {
                continue;
            };
            if !is_same_node(&found, &node, &parent, &source_name) {
                continue;
            }
            let likeness = |other: &Stat| {
                if (other.st_dev, other.st_ino) == (found.st_dev, found.st_ino) {
                    return Likeness::Same;
                }
                let alike = match &node {
                    Node::File { meta, size, content } => {
                        let file = (meta, *size, content.as_slice());
                        self.likeness_of_file(other, folder, &name, path, file)
                            != Likeness::Different
                    }
                    node => is_same_node(other, node, folder, &name),
                };
                if alike { Likeness::Alike } else { Likeness::Different }
            };
            let time = node.meta().map(|meta| meta.mtime).unwrap_or_default();
            let Some(way) = self.judge_existing(path, folder, &name, time, likeness) else {
                return Ok(());
            };
            if way == Way::Taken
                && let Err(error) = unlinkat(folder, &name, AtFlags::empty())
            {
                self.fail(path, error.into());
                return Ok(());
            }
            // Never through a symbolic link: without a flag, the call links the link itself.
            if linkat(&parent, &source_name, folder, &name, AtFlags::empty()).is_ok() {
                self.counts.others.fetch_add(1, Ordering::Relaxed);
                BackupProgress::add(&self.progress.entries, 1);
                return Ok(());
            }
        }
        links.copies.insert(first.to_vec(), path.to_vec());
        match node {
            Node::File { meta, size, content } => {
                let folder = Arc::clone(folder);
                let (path, is_alone) = (path.to_vec(), false);
                self.write_file(FileJob { path, folder, is_alone, meta, size, content });
                Ok(())
            }
            // The reader has refused further hard links to directories and to further hard links.
            Node::Directory(_) | Node::HardLink { .. } => Ok(()),
            node => self.make_other(&Entry { path: path.to_vec(), node }, folder, links),
        }
    }
}

impl Open {
    fn fail(&self, error: BackupError) {
        self.has_failed.store(true, Ordering::Relaxed);
        let mut first = self.error.lock();
        first.get_or_insert(error);
    }
}

/// The data of the second pass about further hard links.
struct Links<'a> {
    finder: Finder<'a>,
    /// Where a file was restored whose first path was not.
    copies: HashMap<Vec<u8>, Vec<u8>>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Pass {
    Files,
    Others,
}

/// Whether one thread writes a content at once.
fn is_small(content: &[Extent]) -> bool {
    content.len() <= SMALL_PARTS_MAX
        && !content.iter().any(|part| matches!(part, Extent::List { .. }))
}

fn time_of(found: &Stat) -> Time {
    let nanoseconds = u32::try_from(found.st_mtime_nsec).unwrap_or(u32::MAX);
    Time { seconds: found.st_mtime, nanoseconds }
}

/// Whether something is the restored form of a node, as far as a glance shows: kind, size, time,
/// target, device.
fn is_same_node(found: &Stat, node: &Node, folder: &OwnedFd, name: &CStr) -> bool {
    let kind = FileType::from_raw_mode(found.st_mode);
    let time = time_of(found);
    match node {
        Node::File { meta, size, .. } => {
            kind == FileType::RegularFile
                && u64::try_from(found.st_size) == Ok(*size)
                && time == meta.mtime
        }
        Node::Symlink { target, meta } => {
            kind == FileType::Symlink
                && time == meta.mtime
                && readlinkat(folder, name, Vec::new())
                    .is_ok_and(|link| link.as_bytes() == target.as_slice())
        }
        Node::Device { block, major, minor, .. } => {
            let expected = if *block { FileType::BlockDevice } else { FileType::CharacterDevice };
            kind == expected && found.st_rdev == makedev(*major, *minor)
        }
        Node::Fifo(_) => kind == FileType::Fifo,
        Node::Directory(_) | Node::HardLink { .. } => false,
    }
}

#[cfg(test)]
mod tests;
