//! What a person wants to have restored, and what is said of each path.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::thread;

use rustix::fs::{CWD, Mode, OFlags, Stat, openat};

use super::super::owners::Owners;
use super::super::select::{PathSelection, Verdict};
use super::beneath::UNFINISHED;
use crate::entry::{Entry, Meta, Node};
use crate::error::{BackupError, Result};
use crate::progress::BackupProgress;
use crate::text::{Place, escaped};
use crate::tree::{Entries, Tree, is_beneath, parents};

/// More threads would need more open folders than a process may have.
pub(super) const THREADS_MAX: usize = 64;

/// When to replace files that are there.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Overwrite {
    /// Leave everything that is there, folders with their mode and time too.
    #[default]
    Never,
    /// Replace files whose size, time, mode, attributes or, where owners are restored, owner
    /// differ.
    IfChanged,
    /// As [`Self::IfChanged`], and compare the content of the others, too.
    IfDifferent,
    /// Replace files that have an older time than in the snapshot.
    IfNewer,
    /// Replace all files.
    Always,
}

/// Options of a restore.
#[derive(Clone, Debug, Default)]
pub struct RestoreOptions {
    /// The paths to restore.
    pub selection: PathSelection,
    /// The folder of the snapshot that becomes the target, or the only file to restore. Empty for
    /// everything.
    pub subfolder: Vec<u8>,
    /// When to replace files that are there. A folder is never replaced by a file.
    pub overwrite: Overwrite,
    /// Restore owners and groups, which usually only root can.
    pub owners: bool,
    /// The numbers of the owners.
    pub names: Owners,
    /// Restore devices, set-user-ID and set-group-ID bits, and the attributes `security.*` and
    /// `trusted.*`. Without this, they are [withheld](RestoreEvent::Withheld).
    pub privileged: bool,
    /// The number of threads that write files; 0 for one per core.
    pub threads: usize,
}

/// Something that a person should know about a path.
#[derive(Debug)]
pub enum RestoreEvent {
    /// Something is in its place and was left there, as [`Overwrite`] says: the same content with
    /// other metadata, or something newer that was to be left.
    Kept,
    /// Something else is in its place and was left there, as [`Overwrite::Never`] says. The restored
    /// folder is not as the snapshot.
    Differs,
    /// A part of it needs [`RestoreOptions::privileged`] and was left out.
    Withheld {
        /// The part, in words.
        what: String,
    },
    /// A part of it could not be restored. The rest was.
    Incomplete {
        /// The part, in words.
        what: String,
        /// The reason.
        source: io::Error,
    },
    /// It could not be restored. Nothing wrong was left in its place.
    Failed {
        /// The reason.
        source: BackupError,
    },
}

/// The folder of the snapshot that becomes the target, if `subfolder` is restored: itself, or the
/// folder of a file.
pub(super) fn base_of<'a>(tree: &Tree<'_>, subfolder: &'a [u8]) -> Result<&'a [u8]> {
    if subfolder.is_empty() {
        return Ok(subfolder);
    }
    match tree.get(subfolder)? {
        Some(Entry { node: Node::Directory(_), .. }) => Ok(subfolder),
        Some(_) => Ok(parents(subfolder).last().unwrap_or_default()),
        None => {
            let path = escaped(subfolder, Place::Last);
            Err(BackupError::NotFound(format!("the snapshot has no path \"{path}\"")))
        }
    }
}

/// The metadata of the folder of the snapshot that becomes the target. `None` if that is the whole
/// snapshot, or the subfolder is a file.
pub(super) fn meta_of(tree: &Tree<'_>, subfolder: &[u8]) -> Result<Option<Meta>> {
    match tree.get(subfolder)? {
        Some(Entry { node: Node::Directory(meta), .. }) if !subfolder.is_empty() => Ok(Some(meta)),
        _ => Ok(None),
    }
}

pub(super) fn target_failed(target: &Path, source: io::Error) -> BackupError {
    let path = escaped(target.as_os_str().as_encoded_bytes(), Place::Last);
    BackupError::File { path, source }
}

/// Makes the target and the folders above it, where they are not there. With `marks`, the target
/// has the mode of a folder that is not whole yet.
pub(super) fn make_target(target: &Path, marks: bool) -> Result<()> {
    let mut make = DirBuilder::new();
    if marks {
        if let Some(above) = target.parent() {
            fs::create_dir_all(above).map_err(|error| target_failed(target, error))?;
        }
        make.mode(UNFINISHED.bits());
    }
    match make.recursive(!marks).create(target) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && target.is_dir() => Ok(()),
        made => made.map_err(|error| target_failed(target, error)),
    }
}

pub(super) fn open_target(target: &Path) -> Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat(CWD, target, flags, Mode::empty()).map_err(|error| target_failed(target, error.into()))
}

/// The number of threads that a person wants.
pub(super) fn threads_of(options: &RestoreOptions) -> usize {
    match options.threads {
        0 => thread::available_parallelism().map_or(1, std::num::NonZero::get),
        threads => threads,
    }
}

/// Whether an existing file has the mode, the time and, where they are restored, the owners of an
/// entry.
pub(super) fn has_meta(found: &Stat, meta: &Meta, options: &RestoreOptions) -> bool {
    let time = (found.st_mtime, found.st_mtime_nsec);
    let mode = if options.privileged { 0o7777 } else { 0o1777 };
    time == (meta.mtime.seconds, u64::from(meta.mtime.nanoseconds))
        && (found.st_mode ^ u32::from(meta.mode)) & mode == 0
        && (!options.owners || (found.st_uid, found.st_gid) == options.names.of(meta))
}

/// The next entry that is wanted or a parent of such. `failed` gets errors of parts of the tree.
pub(super) fn next_wanted(
    entries: &mut Entries<'_>,
    wanted: &mut Wanted,
    options: &RestoreOptions,
    base: &[u8],
    progress: &BackupProgress,
    failed: &mut dyn FnMut(BackupError),
) -> Result<Option<(Entry, Verdict)>> {
    loop {
        progress.go_on()?;
        let entry = match entries.next() {
            None => return Ok(None),
            Some(Ok(entry)) => entry,
            Some(Err(error)) if entries.is_refused() => return Err(error),
            Some(Err(source)) => {
                failed(source);
                continue;
            }
        };
        let subfolder = &options.subfolder;
        if entry.path != *subfolder && !is_beneath(&entry.path, subfolder) {
            return Ok(None);
        }
        // The subfolder itself is the target.
        if entry.path == base {
            continue;
        }
        let is_folder = matches!(entry.node, Node::Directory(_));
        let verdict = wanted.judge(&options.selection, &entry.path, is_folder);
        if verdict != Verdict::Unwanted {
            return Ok(Some((entry, verdict)));
        }
    }
}

/// Follows the selection through the tree.
#[derive(Default)]
pub(super) struct Wanted {
    /// The last folder that is wanted with everything beneath it that is not excluded.
    wanted: Option<Vec<u8>>,
    /// The last folder that is not, with everything beneath it.
    unwanted: Option<Vec<u8>>,
}

impl Wanted {
    fn judge(&mut self, selection: &PathSelection, path: &[u8], is_folder: bool) -> Verdict {
        let is_within = |folder: &Option<Vec<u8>>| {
            folder.as_ref().is_some_and(|folder| is_beneath(path, folder))
        };
        if is_within(&self.unwanted) {
            return Verdict::Unwanted;
        }
        let is_wanted = is_within(&self.wanted);
        let verdict = selection.judge(path, is_folder, is_wanted);
        match verdict {
            Verdict::Wanted if is_folder && !is_wanted => self.wanted = Some(path.to_vec()),
            Verdict::Unwanted if is_folder => self.unwanted = Some(path.to_vec()),
            _ => {}
        }
        verdict
    }
}
