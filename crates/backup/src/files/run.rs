//! A run: files are walked and read, and a snapshot is written.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use talaria_message::SigningKey;
use talaria_message::openpgp::Fingerprint;

use super::cache::{Cache, CacheWriter, FileChange};
use super::caches::{cache_of, cache_to_read, remove_oldest};
use super::dry::DryRun;
use super::owners::{group_names, user_names};
use super::state::State;
use super::stream::{Stream, create_stream};
use super::tree::{Report, create_tree};
use super::walk::{Walk, WalkOptions};
use super::writing::{Chunks, Relied, Writer};
use crate::create::{Created, Remark};
use crate::entry::{Entry, Node};
use crate::error::{BackupError, Result};
use crate::id::Id;
use crate::progress::BackupProgress;
use crate::repository::{Keys, Repository};
use crate::snapshot::Snapshot;

/// The number of paths that a report names, of each kind.
const NAMED_MAX: usize = 1000;

/// The paths to back up, and the options.
#[derive(Clone, Debug, Default)]
pub struct CreateOptions {
    /// Files and folders.
    pub paths: Vec<PathBuf>,
    /// The paths to leave out.
    pub walk: WalkOptions,
    /// The name of the machine.
    pub host: Vec<u8>,
    /// Labels.
    pub tags: BTreeSet<Vec<u8>>,
    /// The number of threads that read and compress.
    pub threads: usize,
}

/// The result of a run.
#[derive(Debug)]
pub struct BackupRun {
    /// The identifier of the snapshot.
    pub id: Id,
    /// The snapshot.
    pub snapshot: Snapshot,
    /// The counts and warnings.
    pub seen: Seen,
}

/// Counts and warnings of a run.
#[derive(Debug, Default)]
pub struct Seen {
    /// The entries of the snapshot.
    pub entries: u64,
    /// The bytes of its files.
    pub bytes: u64,
    /// Paths that could not be read, the number of them.
    pub unread_count: u64,
    /// Paths that were deleted between the listing of their folder and their turn. They are no
    /// failure. If they are more than ten and than a hundredth of all paths, they count as unread.
    pub vanished: u64,
    /// Paths that could not be read, with the reason: the first thousand.
    pub unread: Vec<(Vec<u8>, io::Error)>,
    /// Files that changed while they were read. The snapshot may have a mixture of old and new
    /// content.
    pub changed: Vec<Vec<u8>>,
    /// Paths whose extended attributes could not be read and are missing, with the reason.
    pub without_attributes: Vec<(Vec<u8>, io::Error)>,
    /// Sockets, which are left out.
    pub sockets: u64,
    /// Files of the snapshot, compared with the last run of this machine.
    pub files: FileCounts,
    /// Indexes that could not be read. What only they name is stored again.
    pub unreadable: Vec<BackupError>,
    users: BTreeSet<u32>,
    groups: BTreeSet<u32>,
}

/// Numbers of files, compared with the cache of the last run.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct FileCounts {
    /// The last run did not have these paths.
    pub new: u64,
    /// Inode, size or times are others, or were too new at the last run to tell. They are read
    /// again.
    pub changed: u64,
    /// The others.
    pub unchanged: u64,
}

impl Repository {
    /// Backs up files as the client whose certificate is `client`, signed by `signer`; both are
    /// `None` for an unsigned snapshot. `now` is in seconds since 1970.
    ///
    /// # Errors
    ///
    /// [`BackupError::Refused`] if the client may not create snapshots here, or if the
    /// configuration is signed by a revoked key; [`BackupError::File`] if none of the paths exists,
    /// because a snapshot of nothing would be the newest; [`BackupError::Cancelled`]; errors of the
    /// storage. A single path that cannot be read is no error: it is in the result.
    pub fn create(
        &self,
        keys: &Keys,
        client: Option<(&Fingerprint, SigningKey)>,
        state: &mut State,
        options: &CreateOptions,
        progress: &Arc<BackupProgress>,
        now: u32,
    ) -> Result<BackupRun> {
        is_any_there(&options.paths)?;
        let writer = Writer::new(self, keys, client, options.threads, progress, now)?;
        let mut chain = writer.begin(state)?;
        let cache_path = cache_of(state.folder(), &options.paths);
        let (id, snapshot, (seen, next_cache)) = writer.write(&mut chain, state, |chunks| {
            let mut cache = Cache::open(&cache_to_read(&cache_path), self.id());
            let next_cache = CacheWriter::create(&cache_path, self.id()).ok();
            let (made, relied, seen, next_cache) = walk(chunks, options, &mut cache, next_cache)?;
            let snapshot = snapshot(&writer, options, &made, &seen);
            Ok((snapshot, relied, (seen, next_cache)))
        })?;
        let _ = next_cache.map(CacheWriter::finish);
        remove_oldest(state.folder());
        Ok(BackupRun { id, snapshot, seen })
    }

    /// Works as [`Self::create`], and writes nothing: no lease, no pack, no snapshot, no cache.
    /// Everything else is real: files that are not known as unchanged are read, and `progress`
    /// counts the bytes that would be stored.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::create`].
    pub fn try_create(
        &self,
        keys: &Keys,
        client: Option<(&Fingerprint, SigningKey)>,
        state: &State,
        options: &CreateOptions,
        progress: &Arc<BackupProgress>,
        now: u32,
    ) -> Result<Seen> {
        is_any_there(&options.paths)?;
        let writer = Writer::new(self, keys, client, options.threads, progress, now)?;
        let chunks = writer.chunks(Arc::new(DryRun(Arc::clone(self.backend()))))?;
        let cache_path = cache_of(state.folder(), &options.paths);
        let mut cache = Cache::open(&cache_to_read(&cache_path), self.id());
        let (_, _, seen, _) = walk(chunks, options, &mut cache, None)?;
        Ok(seen)
    }

    /// Backs up a stream as the only file of a snapshot. Of `options`, host, tags and threads
    /// count.
    ///
    /// The stream can be read once only. If a prune deletes packs of this run, it fails, and its
    /// snapshot does not stay.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::create`]; [`BackupError::File`] if the stream cannot be read: then
    /// there is no snapshot.
    pub fn create_from(
        &self,
        keys: &Keys,
        client: Option<(&Fingerprint, SigningKey)>,
        state: &mut State,
        (options, stream): (&CreateOptions, Stream),
        progress: &Arc<BackupProgress>,
        now: u32,
    ) -> Result<BackupRun> {
        let writer = Writer::new(self, keys, client, options.threads, progress, now)?;
        let mut chain = writer.begin(state)?;
        let options = CreateOptions {
            paths: vec![PathBuf::from(OsStr::from_bytes(&stream.path()))],
            ..options.clone()
        };
        let mut stream = Some(stream);
        let (id, snapshot, seen) = writer.write(&mut chain, state, |chunks| {
            let stream = stream.take().ok_or_else(|| {
                BackupError::Refused(
                    "a prune has deleted packs of this backup, and its input cannot be read again: repeat the backup".into(),
                )
            })?;
            let (sink, relied, unreadable) = chunks.split();
            let mut seen = Seen { unreadable, ..Seen::default() };
            let made = create_stream(stream, sink, &mut seen)?;
            seen.count(&made);
            Ok((snapshot(&writer, &options, &made, &seen), relied, seen))
        })?;
        Ok(BackupRun { id, snapshot, seen })
    }
}

/// Refuses paths of which none exists: they are misspelt, or their file system is not mounted.
fn is_any_there(paths: &[PathBuf]) -> Result<()> {
    let mut first = None;
    for path in paths {
        match path.symlink_metadata() {
            Err(source) if source.kind() == io::ErrorKind::NotFound => {
                first.get_or_insert((path, source));
            }
            _ => return Ok(()),
        }
    }
    first.map_or(Ok(()), |(path, source)| {
        Err(BackupError::File { path: path.display().to_string(), source })
    })
}

/// Walks, reads and stores. Returns the next cache, to be finished after the snapshot was written.
fn walk(
    chunks: Chunks,
    options: &CreateOptions,
    cache: &mut Cache,
    next_cache: Option<CacheWriter>,
) -> Result<(Created, Relied, Seen, Option<CacheWriter>)> {
    let (sink, relied, unreadable) = chunks.split();
    let failed = |source| BackupError::File { path: "/".into(), source };
    let walk = Walk::new(&options.paths, options.walk.clone()).map_err(failed)?;
    let mut seen = Seen { unreadable, ..Seen::default() };
    let (made, next_cache) = create_tree(walk, cache, next_cache, sink, &mut seen)?;
    seen.count(&made);
    Ok((made, relied, seen, next_cache))
}

/// The snapshot of a tree.
fn snapshot(writer: &Writer<'_>, options: &CreateOptions, made: &Created, seen: &Seen) -> Snapshot {
    let absolute = options.paths.iter().map(|path| {
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.clone());
        absolute.as_os_str().as_bytes().to_vec()
    });
    Snapshot {
        host: options.host.clone(),
        entries: made.counts.entries,
        bytes: made.counts.bytes,
        unread: made.counts.unread,
        paths: absolute.collect(),
        tags: options.tags.clone(),
        users: user_names(&seen.users),
        groups: group_names(&seen.groups),
        ..writer.snapshot(made.root)
    }
}

impl Seen {
    fn count(&mut self, made: &Created) {
        let counts = &made.counts;
        (self.entries, self.bytes, self.unread_count) =
            (counts.entries, counts.bytes, counts.unread);
        self.vanished = counts.vanished;
    }
}

impl Report for Seen {
    fn stored(&mut self, entry: &Entry, change: FileChange) {
        if matches!(entry.node, Node::File { .. }) {
            *match change {
                FileChange::New => &mut self.files.new,
                FileChange::Changed => &mut self.files.changed,
                FileChange::Unchanged => &mut self.files.unchanged,
            } += 1;
        }
        if let Some(meta) = entry.node.meta() {
            self.users.insert(meta.uid);
            self.groups.insert(meta.gid);
        }
    }

    fn unread(&mut self, path: &[u8], error: &io::Error) {
        if self.unread.len() < NAMED_MAX {
            self.unread.push((path.to_vec(), copied(error)));
        }
    }

    fn socket(&mut self, _: &[u8]) {
        self.sockets += 1;
    }

    fn remark(&mut self, path: &[u8], remark: &Remark) {
        match remark {
            Remark::Changed if self.changed.len() < NAMED_MAX => self.changed.push(path.to_vec()),
            Remark::NoAttributes(error) if self.without_attributes.len() < NAMED_MAX => {
                self.without_attributes.push((path.to_vec(), copied(error)));
            }
            _ => {}
        }
    }

    // Without a cache the next run reads everything again, which is slower and not wrong.
    fn no_cache(&mut self, _: &io::Error) {}
}

fn copied(error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), error.to_string())
}
