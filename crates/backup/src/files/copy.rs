//! Copying snapshots from one repository to another.
//!
//! The two have other keys, so identifiers differ, and every chunk is read, checked and written
//! anew. The person who copies signs as a client of the new repository; the snapshot says of which
//! one it is a copy.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use parking_lot::Mutex;
use talaria_message::SigningKey;
use talaria_message::openpgp::Fingerprint;

use super::state::State;
use super::writing::{Chunks, Writer};
use crate::catalog::Reader;
use crate::chunks::ReadChunks as _;
use crate::compress::Zstd;
use crate::document::DocumentStanding;
use crate::entry::{Entry, Extent, Node};
use crate::error::{BackupError, Result};
use crate::id::{Id, Identifiers, Kind, RepositoryId};
use crate::listed::Listed;
use crate::progress::BackupProgress;
use crate::repository::{Keys, Repository};
use crate::sink::{Sink, Store};
use crate::snapshot::{Original, Root, Snapshot};
use crate::tree::{ContentParts, ContentWriter, Tree, TreeWriter};

/// Chunks whose new identifiers are remembered, 64 bytes each. Others are read again, and not
/// stored again.
const KNOWN_MAX: usize = 1 << 20;
/// Chunks that are copied at once, by all threads.
const CHUNKS_MAX: usize = 64;
/// Entries that wait for their chunks.
const WAITING_MAX: usize = 1024;
/// Snapshots and bytes that are copied under one lease. A prune waits for its end.
const GROUP_SNAPSHOTS: usize = 64;
const GROUP_BYTES: u64 = 4 << 30;

/// The snapshots that are copied, and how to read them.
pub struct CopySource<'a> {
    /// The repository that has them.
    pub repository: RepositoryId,
    /// Its chunks.
    pub reader: &'a Reader,
    /// The snapshots, oldest first.
    pub snapshots: &'a [Listed],
}

/// A snapshot that is there after a copy.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Copied {
    /// Its identifier.
    pub id: Id,
    /// Its content.
    pub snapshot: Snapshot,
    /// It was there before.
    pub was_there: bool,
}

/// The result of a copy.
#[derive(Debug, Default)]
pub struct CopyReport {
    /// Snapshots that are there now, in the order of the source.
    pub copied: Vec<Copied>,
    /// Snapshots of the source that are damaged, and not copied.
    pub failed: Vec<(Id, BackupError)>,
}

impl Repository {
    /// Copies snapshots to this repository, as the client `client`; `None` for unsigned snapshots.
    /// A snapshot of which this repository has a copy by this client is not copied again, and
    /// neither is a chunk, so a copy that was interrupted continues. `now` is in seconds
    /// since 1970.
    ///
    /// # Errors
    ///
    /// The errors of [`Repository::create`] and of reading the source. Snapshots copied before the
    /// error stay.
    pub fn copy(
        &self,
        keys: &Keys,
        client: Option<(&Fingerprint, SigningKey)>,
        state: &mut State,
        (source, threads): (&CopySource<'_>, usize),
        progress: &Arc<BackupProgress>,
        now: u32,
    ) -> Result<CopyReport> {
        if source.repository == self.id() {
            return Err(BackupError::Refused("a repository cannot be copied to itself".into()));
        }
        let writer = Writer::new(self, keys, client, threads, progress, now)?;
        let mut chain = writer.begin(state)?;
        let mut copied: Vec<(usize, Copied)> = Vec::new();
        let mut failed = Vec::new();
        let mut wanted: VecDeque<Wanted<'_>> = VecDeque::new();
        for (place, from) in source.snapshots.iter().enumerate() {
            let Listed { id, snapshot, .. } = from;
            let original = Original {
                repository: source.repository,
                id: *id,
                client: snapshot.client.clone(),
                number: snapshot.number,
                time: snapshot.time,
            };
            let is_of = |snapshot: &Snapshot| snapshot.original.as_ref() == Some(&original);
            // Another client could say that it has copied something.
            let is_copy = |listed: &&Listed| {
                is_of(&listed.snapshot)
                    && listed.snapshot.client == writer.name
                    && !matches!(
                        listed.standing,
                        DocumentStanding::Foreign(_) | DocumentStanding::Doubtful(..)
                    )
            };
            let is_twice = copied.iter().any(|(_, copied)| is_of(&copied.snapshot))
                || wanted.iter().any(|wanted| wanted.original == original);
            if let Some(there) = chain.listed.iter().find(is_copy).filter(|_| !is_twice) {
                let snapshot = there.snapshot.clone();
                copied.push((place, Copied { id: there.id, snapshot, was_there: true }));
            } else if !is_twice {
                wanted.push_back(Wanted { place, from, original });
            }
        }
        let mut known = HashMap::new();
        while !wanted.is_empty() {
            let made = |chunks: Chunks| {
                let (sink, relied, _) = chunks.split();
                let group = Group { writer: &writer, reader: source.reader, known: &mut known };
                let (snapshots, done) = group.copy(&wanted, sink)?;
                Ok((snapshots, relied, done))
            };
            let (written, done) = writer.write_all(&mut chain, state, made)?;
            let mut written = written.into_iter();
            for (wanted, result) in wanted.drain(..done.len()).zip(done) {
                if let Err(error) = result {
                    failed.push((wanted.from.id, error));
                } else if let Some((id, snapshot)) = written.next() {
                    copied.push((wanted.place, Copied { id, snapshot, was_there: false }));
                }
            }
        }
        copied.sort_by_key(|(place, _)| *place);
        let copied = copied.into_iter().map(|(_, copied)| copied).collect();
        Ok(CopyReport { copied, failed })
    }
}

/// A snapshot that is not there yet.
struct Wanted<'a> {
    /// Its place in the source.
    place: usize,
    from: &'a Listed,
    original: Original,
}

/// Snapshots that are copied under one lease, so that the indexes of the repository are read once
/// for all of them.
struct Group<'a> {
    writer: &'a Writer<'a>,
    reader: &'a Reader,
    known: &'a mut HashMap<Id, Id>,
}

impl Group<'_> {
    /// Copies the trees of the first of these snapshots and everything that their files need. All
    /// of it is durable afterwards. Returns the new snapshots, and for each of the first wanted
    /// ones whether it could be read.
    fn copy(
        self,
        wanted: &VecDeque<Wanted<'_>>,
        sink: Sink,
    ) -> Result<(Vec<Snapshot>, Vec<Result<()>>)> {
        let Self { writer, reader, known } = self;
        let store = Arc::clone(sink.store());
        let begun = store.progress.new_bytes.load(Ordering::Relaxed);
        let mut copying = Copying::new(reader, sink, &writer.keys.identifiers, known);
        let (mut snapshots, mut done) = (Vec::new(), Vec::new());
        for Wanted { from: Listed { snapshot: from, .. }, original, .. } in wanted {
            let new_bytes = store.progress.new_bytes.load(Ordering::Relaxed) - begun;
            if done.len() >= GROUP_SNAPSHOTS || new_bytes >= GROUP_BYTES {
                break;
            }
            match copying.copy(from.root, &store.progress) {
                Ok(root) => {
                    snapshots.push(Snapshot {
                        host: from.host.clone(),
                        entries: from.entries,
                        bytes: from.bytes,
                        unread: from.unread,
                        paths: from.paths.clone(),
                        tags: from.tags.clone(),
                        users: from.users.clone(),
                        groups: from.groups.clone(),
                        original: Some(original.clone()),
                        ..writer.snapshot(root)
                    });
                    done.push(Ok(()));
                }
                Err(error @ (BackupError::Damaged { .. } | BackupError::Missing { .. })) => {
                    done.push(Err(error));
                }
                // An object of the source that cannot be read, while all others can.
                Err(error) if !store.has_failed() && reader.0.is_of_one_object(&error) => {
                    done.push(Err(error));
                }
                Err(error) => return Err(store.error_or(error)),
            }
        }
        copying.sink.finish()?;
        Ok((snapshots, done))
    }
}

/// Trees in the making, one after the other.
struct Copying<'a> {
    reader: &'a Reader,
    sink: Sink,
    identifiers: &'a Identifiers,
    tree: TreeWriter,
    known: &'a mut HashMap<Id, Id>,
    /// Entries without lists whose chunks are not copied yet, and the number of their references.
    waiting: Vec<Entry>,
    chunks: usize,
}

impl<'a> Copying<'a> {
    fn new(
        reader: &'a Reader,
        sink: Sink,
        identifiers: &'a Identifiers,
        known: &'a mut HashMap<Id, Id>,
    ) -> Self {
        let tree = TreeWriter::new(identifiers.clone());
        Self { reader, sink, identifiers, tree, known, waiting: Vec::new(), chunks: 0 }
    }

    /// Copies a tree. After an error, the next one begins anew.
    fn copy(&mut self, root: Root, progress: &BackupProgress) -> Result<Root> {
        self.tree = TreeWriter::new(self.identifiers.clone());
        self.waiting.clear();
        self.chunks = 0;
        for entry in Tree::new(self.reader, root).entries() {
            progress.go_on()?;
            let mut entry = entry?;
            BackupProgress::add(&progress.entries, 1);
            if let Node::File { size, content, .. } = &mut entry.node {
                BackupProgress::add(&progress.bytes, *size);
                if content.iter().any(|part| matches!(part, Extent::List { .. })) {
                    self.flush()?;
                    *content = self.copy_content(std::mem::take(content), progress)?;
                    self.tree.push(&entry, &mut self.sink)?;
                    continue;
                }
                self.chunks += content.len();
            }
            self.waiting.push(entry);
            if self.chunks >= CHUNKS_MAX || self.waiting.len() >= WAITING_MAX {
                self.flush()?;
            }
        }
        self.flush()?;
        let tree = TreeWriter::new(self.identifiers.clone());
        std::mem::replace(&mut self.tree, tree).finish(&mut self.sink)
    }

    /// Writes the entries that wait.
    fn flush(&mut self) -> Result<()> {
        let mut waiting = std::mem::take(&mut self.waiting);
        self.chunks = 0;
        let contents = waiting.iter().filter_map(|entry| match &entry.node {
            Node::File { content, .. } => Some(content),
            _ => None,
        });
        let parts: Vec<&Extent> = contents.flatten().collect();
        self.copy_chunks(&parts)?;
        for entry in &mut waiting {
            if let Node::File { content, .. } = &mut entry.node {
                let mut writer = ContentWriter::new();
                for part in std::mem::take(content) {
                    writer.push(self.renamed(part), &mut self.sink)?;
                }
                *content = writer.finish(&mut self.sink)?;
            }
            self.tree.push(entry, &mut self.sink)?;
        }
        Ok(())
    }

    /// Copies a content with lists, some parts at a time.
    fn copy_content(
        &mut self,
        content: Vec<Extent>,
        progress: &BackupProgress,
    ) -> Result<Vec<Extent>> {
        let mut writer = ContentWriter::new();
        let mut parts = ContentParts::new(self.reader, content);
        loop {
            progress.go_on()?;
            let group: Vec<Extent> = parts.by_ref().take(CHUNKS_MAX).collect::<Result<_>>()?;
            if group.is_empty() {
                return writer.finish(&mut self.sink);
            }
            self.copy_chunks(&group.iter().collect::<Vec<_>>())?;
            for part in group {
                writer.push(self.renamed(part), &mut self.sink)?;
            }
        }
    }

    /// A part under the identifier in the new repository, after [`Self::copy_chunks`].
    fn renamed(&self, part: Extent) -> Extent {
        match part {
            Extent::Data { id, offset, length } => {
                Extent::Data { id: self.known[&id], offset, length }
            }
            part => part,
        }
    }

    /// Reads the chunks of these parts, and stores them under their new identifiers.
    fn copy_chunks(&mut self, parts: &[&Extent]) -> Result<()> {
        let ids: BTreeSet<Id> = parts
            .iter()
            .filter_map(|part| if let Extent::Data { id, .. } = part { Some(*id) } else { None })
            .collect();
        if self.known.len() + ids.len() > KNOWN_MAX {
            self.known.clear();
        }
        let store = self.sink.store();
        let mut missing = Vec::new();
        for id in ids {
            let is_there = match self.known.get(&id) {
                Some(new) => store.contains(new)?,
                None => false,
            };
            if !is_there {
                missing.push(id);
            }
        }
        let (next, copied) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        let copy = || {
            let mut zstd = Zstd::new();
            while let Some(id) = missing.get(next.fetch_add(1, Ordering::Relaxed)) {
                let new = copy_chunk(self.reader, *id, store, &mut zstd);
                let is_over = new.is_err();
                copied.lock().push((*id, new));
                if is_over {
                    return;
                }
            }
        };
        thread::scope(|scope| {
            for _ in 1..store.threads.min(missing.len()) {
                scope.spawn(copy);
            }
            copy();
        });
        for (id, new) in copied.into_inner() {
            self.known.insert(id, new?);
        }
        Ok(())
    }
}

fn copy_chunk(reader: &Reader, id: Id, store: &Store, zstd: &mut Zstd) -> Result<Id> {
    store.go_on()?;
    store.add(Kind::Data, reader.read(Kind::Data, &id)?, zstd)
}
