//! Creating the tree of a snapshot: files are read by many threads, entries are written in the
//! order of the walk.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::io;

use crate::bundle::{Bundle, Bundler, InBundle};
use crate::entry::{Entry, Extent, Node};
use crate::error::{BackupError, Result};
use crate::id::{Id, Kind};
use crate::progress::BackupProgress;
use crate::reading::{ChunkInput, Content, Done, Readers};
use crate::sink::Sink;
use crate::snapshot::Root;
use crate::tree::rules::INLINE_BYTES_MAX;
use crate::tree::{ContentWriter, TreeWriter};

/// Items that wait for a worker or are with one. Each may hold a folder open.
const WAITING_MAX: usize = 512;
/// Bytes of small files that are in memory before they are in a bundle.
const WAITING_BYTES_MAX: u64 = 16 << 20;
/// Items and bytes that a worker gets at once.
const BATCH: usize = 32;
const BATCH_BYTES: u64 = 1 << 20;
/// Entries that wait for a bundle. It is closed when they are more: among many unchanged files, few
/// changed ones do not fill a bundle.
const UNBUNDLED_MAX: usize = 4096;

/// That many paths may be deleted during a run, or else one of so many. If there are more of them, a
/// folder may have gone that should be there.
const VANISHED_MAX: u64 = 10;
const VANISHED_SHARE: u64 = 100;

/// Something about a path that is in the tree all the same.
#[derive(Debug)]
pub(crate) enum Remark {
    /// The file changed while it was read. Its content can be a mixture.
    Changed,
    /// The extended attributes could not be read, and are missing.
    NoAttributes(io::Error),
}

/// A path of a walk that has to be read.
pub(crate) trait Reading: ChunkInput {
    /// The entry, without content, after the path was read.
    fn into_entry(self) -> (Entry, Option<Remark>);
    /// The path.
    fn path(&self) -> &[u8];
    /// Whether its absence is no failure: a listing gave the path, and nobody has named it.
    fn may_vanish(&self) -> bool;
}

/// Hears what becomes of the paths of a run, in the order of the walk.
pub(crate) trait Listener<T> {
    /// An entry is in the tree. Its content has no lists.
    fn stored(&mut self, entry: &Entry, tag: T, remark: Option<Remark>);
    /// A path could not be read. It is missing in the tree.
    fn unread(&mut self, path: &[u8], error: io::Error);
}

/// Counts of a run.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Counts {
    pub(crate) entries: u64,
    /// Bytes of files, as in their sizes.
    pub(crate) bytes: u64,
    /// Paths that could not be read.
    pub(crate) unread: u64,
    /// Paths that were deleted between the listing of their folder and their turn.
    pub(crate) vanished: u64,
    /// The owners of the entries.
    pub(crate) users: BTreeSet<u32>,
    pub(crate) groups: BTreeSet<u32>,
}

impl Counts {
    /// Counts deleted paths as unread, if they are too many.
    fn judge_vanished(&mut self) {
        let all = self.entries.saturating_add(self.vanished);
        if self.vanished > VANISHED_MAX.max(all / VANISHED_SHARE) {
            self.unread += std::mem::take(&mut self.vanished);
        }
    }
}

/// The result of a run.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Created {
    pub(crate) root: Root,
    pub(crate) counts: Counts,
}

/// A tree in the making. `I` is a path that has to be read, and `T` goes with each path to the
/// listener.
pub(crate) struct Creation<I: Reading, T> {
    // Before the sink: its threads use the sink.
    readers: Readers<I>,
    sink: Sink,
    tree: TreeWriter,
    bundler: Bundler,
    /// Paths in the order of the walk, until they have been read.
    slots: VecDeque<(T, Slot<I>)>,
    /// The ticket of the first of them.
    first: u64,
    batch: Vec<(u64, I)>,
    batch_bytes: u64,
    /// Bytes in memory of small files that are being read, or wait for their turn.
    waiting_bytes: u64,
    /// Entries that wait for a bundle, and those behind them.
    placed: VecDeque<Placed<T>>,
    bundles: HashMap<u64, Id>,
    /// Paths that are missing: their further hard links are, too.
    missing: HashSet<Vec<u8>>,
    counts: Counts,
}

/// An entry with the remark about it, and the bundle that it waits for.
type Placed<T> = (T, Entry, Option<Remark>, Option<InBundle>);

enum Slot<I> {
    /// Everything is known.
    Ready(Entry),
    /// It is with a worker. The bytes count in [`Creation::waiting_bytes`].
    Waiting(u64),
    Read(u64, I, io::Result<Content>),
}

impl<I: Reading, T> Creation<I, T> {
    pub(crate) fn new(sink: Sink) -> Self {
        Self {
            readers: Readers::new(sink.store()),
            tree: TreeWriter::new(sink.store().identifiers.clone()),
            sink,
            bundler: Bundler::default(),
            slots: VecDeque::new(),
            first: 0,
            batch: Vec::new(),
            batch_bytes: 0,
            waiting_bytes: 0,
            placed: VecDeque::new(),
            bundles: HashMap::new(),
            missing: HashSet::new(),
            counts: Counts::default(),
        }
    }

    /// Whether the repository has a chunk, or gets it by this run.
    ///
    /// # Errors
    ///
    /// Errors of temporary files.
    pub(crate) fn has(&self, id: &Id) -> Result<bool> {
        self.sink.store().contains(id)
    }

    /// # Errors
    ///
    /// [`Cancelled`](BackupError::Cancelled); an error of another thread.
    pub(crate) fn go_on(&self) -> Result<()> {
        let store = self.sink.store();
        store.go_on().map_err(|error| store.error_or(error))
    }

    /// Appends an entry that is complete: an unchanged file with all its parts, or a further hard
    /// link.
    pub(crate) fn push(
        &mut self,
        entry: Entry,
        tag: T,
        listener: &mut impl Listener<T>,
    ) -> Result<()> {
        self.slots.push_back((tag, Slot::Ready(entry)));
        self.advance(listener)
    }

    /// Appends a path that has to be read.
    pub(crate) fn read(&mut self, path: I, tag: T, listener: &mut impl Listener<T>) -> Result<()> {
        let ticket = self.first + self.slots.len() as u64;
        let bytes = path.bytes();
        let in_memory = if bytes <= crate::bundle::BUNDLED_MAX as u64 { bytes } else { 0 };
        self.waiting_bytes += in_memory;
        self.slots.push_back((tag, Slot::Waiting(in_memory)));
        self.batch.push((ticket, path));
        self.batch_bytes = self.batch_bytes.saturating_add(bytes);
        if self.batch.len() >= BATCH || self.batch_bytes >= BATCH_BYTES {
            self.submit();
        }
        self.advance(listener)
    }

    /// Notes a path that could not be read.
    pub(crate) fn unread(
        &mut self,
        path: &[u8],
        error: io::Error,
        listener: &mut impl Listener<T>,
    ) {
        self.counts.unread += 1;
        listener.unread(path, error);
    }

    /// Notes a path that was deleted before it was read.
    pub(crate) fn vanished(&mut self) {
        self.counts.vanished += 1;
    }

    /// Waits for everything, and writes the rest. All chunks and their indexes are durable
    /// afterwards.
    ///
    /// # Errors
    ///
    /// [`Cancelled`](BackupError::Cancelled); errors of the storage.
    pub(crate) fn finish(mut self, listener: &mut impl Listener<T>) -> Result<Created> {
        self.submit();
        while !self.slots.is_empty() {
            self.take_results(listener)?;
            if !self.slots.is_empty() {
                self.wait()?;
            }
        }
        let last = self.bundler.close();
        self.store(last);
        while !self.placed.is_empty() {
            self.emit(listener)?;
            if !self.placed.is_empty() {
                self.wait()?;
            }
        }
        let Self { readers, mut sink, tree, mut counts, .. } = self;
        drop(readers);
        counts.judge_vanished();
        let root = tree.finish(&mut sink)?;
        sink.finish()?;
        Ok(Created { root, counts })
    }

    fn submit(&mut self) {
        self.batch_bytes = 0;
        if !self.batch.is_empty() {
            self.readers.files(std::mem::take(&mut self.batch));
        }
    }

    fn store(&mut self, bundle: Option<Bundle>) {
        if let Some((number, plain)) = bundle {
            self.readers.chunk(number, Kind::Data, plain);
        }
    }

    /// Takes the results that are there, and waits for more where too much is in memory.
    fn advance(&mut self, listener: &mut impl Listener<T>) -> Result<()> {
        while let Some(done) = self.readers.try_next() {
            self.take(done)?;
        }
        self.take_results(listener)?;
        while self.slots.len() > WAITING_MAX || self.waiting_bytes > WAITING_BYTES_MAX {
            self.submit();
            self.wait()?;
            self.take_results(listener)?;
        }
        if self.placed.len() > UNBUNDLED_MAX {
            let open = self.bundler.close();
            self.store(open);
            while self.placed.len() > UNBUNDLED_MAX {
                self.wait()?;
                self.take_results(listener)?;
            }
        }
        Ok(())
    }

    fn wait(&mut self) -> Result<()> {
        let done = self.readers.next();
        self.take(done)
    }

    fn take(&mut self, done: Done<I>) -> Result<()> {
        match done {
            Done::Files(files) => {
                for (ticket, path, content) in files {
                    let at = usize::try_from(ticket - self.first).expect("it is in memory");
                    let slot = &mut self.slots[at].1;
                    let Slot::Waiting(bytes) = *slot else { unreachable!("it was read twice") };
                    *slot = Slot::Read(bytes, path, content);
                }
                Ok(())
            }
            Done::Chunk(bundle, id) => {
                self.bundles.insert(bundle, id);
                Ok(())
            }
            Done::Failed => Err(self.sink.store().error_or(BackupError::Cancelled)),
        }
    }

    /// Moves paths that have been read, in order, into bundles and then into the tree.
    fn take_results(&mut self, listener: &mut impl Listener<T>) -> Result<()> {
        while self.slots.front().is_some_and(|(_, slot)| !matches!(slot, Slot::Waiting(_))) {
            let Some((tag, slot)) = self.slots.pop_front() else { break };
            self.first += 1;
            match slot {
                Slot::Ready(entry) => self.place(tag, entry, None, None, listener),
                Slot::Read(waiting, path, Ok(content)) => {
                    self.waiting_bytes -= waiting;
                    self.place_read(tag, path.into_entry(), content, listener);
                }
                Slot::Read(waiting, path, Err(error)) => {
                    self.waiting_bytes -= waiting;
                    self.missing.insert(path.path().to_vec());
                    if error.kind() == io::ErrorKind::NotFound && path.may_vanish() {
                        self.vanished();
                    } else {
                        self.unread(path.path(), error, listener);
                    }
                }
                Slot::Waiting(_) => unreachable!("it has been read"),
            }
        }
        self.emit(listener)
    }

    fn place_read(
        &mut self,
        tag: T,
        (mut entry, remark): (Entry, Option<Remark>),
        read: Content,
        listener: &mut impl Listener<T>,
    ) {
        let mut bundled = None;
        if let Node::File { size, content, .. } = &mut entry.node {
            match read {
                Content::Small(bytes, ends) => {
                    *size = bytes.len() as u64;
                    if bytes.len() > INLINE_BYTES_MAX {
                        let (place, complete) = self.bundler.push(&bytes, ends);
                        bundled = Some(place);
                        complete.into_iter().for_each(|bundle| self.store(bundle));
                    } else if !bytes.is_empty() {
                        *content = vec![Extent::Inline(bytes)];
                    }
                }
                Content::Parts(parts, bytes) => (*size, *content) = (bytes, parts),
            }
        }
        self.place(tag, entry, remark, bundled, listener);
    }

    fn place(
        &mut self,
        tag: T,
        entry: Entry,
        remark: Option<Remark>,
        bundled: Option<InBundle>,
        listener: &mut impl Listener<T>,
    ) {
        if let Node::HardLink { first } = &entry.node
            && self.missing.contains(first)
        {
            let why = "it is a hard link to a file that could not be read";
            self.unread(&entry.path, io::Error::other(why), listener);
            return;
        }
        self.placed.push_back((tag, entry, remark, bundled));
    }

    /// Writes the entries whose bundles are stored.
    fn emit(&mut self, listener: &mut impl Listener<T>) -> Result<()> {
        while let Some((_, entry, _, bundled)) = self.placed.front_mut() {
            if let Some(InBundle { bundle, offset, length }) = *bundled {
                let Some(id) = self.bundles.get(&bundle) else { break };
                let part = Extent::Data { id: *id, offset, length };
                if let Node::File { content, .. } = &mut entry.node {
                    *content = vec![part];
                }
                // Entries come in the order of their bundles.
                self.bundles.retain(|known, _| *known >= bundle);
            }
            let Some((tag, mut entry, remark, _)) = self.placed.pop_front() else { break };
            listener.stored(&entry, tag, remark);
            self.counts.entries += 1;
            if let Some(meta) = entry.node.meta() {
                self.counts.users.insert(meta.uid);
                self.counts.groups.insert(meta.gid);
            }
            if let Node::File { size, content, .. } = &mut entry.node {
                self.counts.bytes += *size;
                BackupProgress::add(&self.sink.store().progress.bytes, *size);
                if content.len() > 1 {
                    let mut writer = ContentWriter::new();
                    for part in std::mem::take(content) {
                        writer.push(part, &mut self.sink)?;
                    }
                    *content = writer.finish(&mut self.sink)?;
                }
            }
            BackupProgress::add(&self.sink.store().progress.entries, 1);
            self.tree.push(&entry, &mut self.sink)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;
    use crate::chunks::ReadChunks as _;
    use crate::entry::Meta;
    use crate::epoch::EpochProfile;
    use crate::reading::Piece;
    use crate::testing::{Place, noise};
    use crate::tree::{ContentParts, Tree};

    /// A file in memory.
    #[derive(Clone)]
    struct File {
        path: &'static str,
        /// Data and holes.
        pieces: Vec<Stretch>,
        /// The length that the walk saw.
        bytes: u64,
        /// Bytes that one call gives at most.
        step: usize,
        at: usize,
    }

    /// A stretch of a file, or an error.
    #[derive(Clone)]
    enum Stretch {
        Data(Vec<u8>),
        Hole(u64),
        Fails,
    }

    fn file(path: &'static str, content: Vec<u8>) -> File {
        File {
            path,
            bytes: content.len() as u64,
            pieces: vec![Stretch::Data(content)],
            step: 100_000,
            at: 0,
        }
    }

    impl ChunkInput for File {
        fn bytes(&self) -> u64 {
            self.bytes
        }

        fn open(&mut self) -> io::Result<()> {
            if self.path.ends_with("locked") {
                Err(io::ErrorKind::PermissionDenied.into())
            } else {
                Ok(())
            }
        }

        fn read(&mut self, buffer: &mut [u8]) -> io::Result<Piece> {
            let Some(piece) = self.pieces.first() else { return Ok(Piece::End) };
            let (piece, is_over) = match piece {
                Stretch::Data(data) => {
                    let n = (data.len() - self.at).min(buffer.len()).min(self.step);
                    buffer[..n].copy_from_slice(&data[self.at..self.at + n]);
                    self.at += n;
                    (Piece::Data(n), self.at == data.len())
                }
                Stretch::Hole(bytes) => (Piece::Hole(*bytes), true),
                Stretch::Fails => return Err(io::Error::other("the disk is broken")),
            };
            if is_over {
                self.pieces.remove(0);
                self.at = 0;
            }
            if piece == Piece::Data(0) { self.read(buffer) } else { Ok(piece) }
        }

        fn close(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Reading for File {
        fn into_entry(self) -> (Entry, Option<Remark>) {
            let meta = Meta { uid: 7, gid: 8, ..Meta::default() };
            let node = Node::File { meta, size: 0, content: Vec::new() };
            (Entry { path: self.path.into(), node }, None)
        }

        fn path(&self) -> &[u8] {
            self.path.as_bytes()
        }

        fn may_vanish(&self) -> bool {
            false
        }
    }

    #[derive(Default)]
    struct Heard {
        stored: BTreeMap<Vec<u8>, Entry>,
        unread: Vec<(Vec<u8>, String)>,
    }

    impl Listener<()> for Heard {
        fn stored(&mut self, entry: &Entry, (): (), _: Option<Remark>) {
            self.stored.insert(entry.path.clone(), entry.clone());
        }

        fn unread(&mut self, path: &[u8], error: io::Error) {
            self.unread.push((path.to_vec(), error.to_string()));
        }
    }

    fn create(place: &Place, files: &[File], threads: usize) -> Result<(Created, Heard)> {
        let (sink, _) = place.sink(place.present(), threads);
        let (mut creation, mut heard) = (Creation::new(sink), Heard::default());
        for file in files {
            creation.read(file.clone(), (), &mut heard)?;
        }
        let created = creation.finish(&mut heard)?;
        Ok((created, heard))
    }

    /// The content of every file of a tree.
    fn contents(place: &Place, root: Root) -> Vec<(String, Vec<u8>)> {
        let source = place.source();
        let tree = Tree::new(&source, root);
        let read = |entry: Entry| {
            let Node::File { size, content, .. } = entry.node else {
                return (String::new(), Vec::new());
            };
            let mut bytes = Vec::new();
            for part in ContentParts::new(&source, content) {
                match part.unwrap() {
                    Extent::Inline(data) => bytes.extend(data),
                    Extent::Hole(length) => {
                        bytes.resize(bytes.len() + usize::try_from(length).unwrap(), 0);
                    }
                    Extent::Data { id, offset, length } => {
                        let chunk = source.read_shared(Kind::Data, &id).unwrap();
                        let at = |byte| usize::try_from(byte).unwrap();
                        bytes.extend_from_slice(&chunk[at(offset)..at(offset + length)]);
                    }
                    Extent::List { .. } => unreachable!("lists are resolved"),
                }
            }
            assert_eq!(bytes.len() as u64, size);
            (String::from_utf8(entry.path).unwrap(), bytes)
        };
        tree.entries().map(|entry| read(entry.unwrap())).collect()
    }

    fn name(n: usize) -> &'static str {
        Box::leak(format!("f{n:04}").into_boxed_str())
    }

    /// Files of all kinds of lengths, in the order of their names.
    fn files() -> Vec<File> {
        let lengths = [
            0,
            1,
            511,
            512,
            513,
            5000,
            40_000,
            131_072,
            131_073,
            600_000,
            5 << 20,
            3,
            700,
            9 << 20,
        ];
        (0..600)
            .map(|n| {
                let bytes =
                    if n < 2 * lengths.len() { lengths[n % lengths.len()] } else { n * 7 % 3000 };
                file(name(n), noise(n as u64, bytes))
            })
            .collect()
    }

    fn expected(files: &[File]) -> Vec<(String, Vec<u8>)> {
        let bytes = |piece: &Stretch| match piece {
            Stretch::Data(data) => data.clone(),
            Stretch::Hole(bytes) => vec![0; usize::try_from(*bytes).unwrap()],
            Stretch::Fails => Vec::new(),
        };
        let content = |file: &File| file.pieces.iter().flat_map(bytes).collect();
        files.iter().map(|file| (file.path.to_owned(), content(file))).collect()
    }

    #[test]
    fn a_tree_has_the_files_that_were_read_and_does_not_depend_on_the_threads() {
        let files = files();
        let mut roots = Vec::new();
        for threads in [1, 4] {
            let place = Place::new(EpochProfile::Rfc9580);
            let (created, heard) = create(&place, &files, threads).unwrap();
            assert_eq!(contents(&place, created.root), expected(&files));
            let Counts { entries, bytes, unread, vanished: _, users, groups } =
                created.counts.clone();
            assert_eq!((entries, unread), (files.len() as u64, 0));
            assert!(users.into_iter().eq([7]) && groups.into_iter().eq([8]));
            assert_eq!(bytes, files.iter().map(|file| file.bytes).sum::<u64>());
            assert_eq!(heard.stored.len(), files.len());
            // Nothing is stored again.
            let chunks = place.source().len();
            let (again, _) = create(&place, &files, threads).unwrap();
            assert_eq!((again, place.source().len()), (created.clone(), chunks));
            // Unchanged files need not be read.
            let (sink, progress) = place.sink(place.present(), threads);
            let (mut creation, mut second) = (Creation::<File, ()>::new(sink), Heard::default());
            for entry in heard.stored.values() {
                let Node::File { content, .. } = &entry.node else { panic!("only files") };
                let has = |part: &Extent| match part {
                    Extent::Data { id, .. } => creation.has(id).unwrap(),
                    _ => true,
                };
                assert!(content.iter().all(has));
                creation.push(entry.clone(), (), &mut second).unwrap();
            }
            assert!(!creation.has(&Id([9; 32])).unwrap());
            assert_eq!(creation.finish(&mut second).unwrap(), created);
            assert_eq!((progress.read_bytes.load(Relaxed), progress.packs.load(Relaxed)), (0, 0));
            roots.push(created.root);
        }
        assert_eq!(roots[0], roots[1]);
    }

    #[test]
    fn small_files_share_chunks() {
        let place = Place::new(EpochProfile::Rfc9580);
        let files: Vec<_> = (0..2000).map(|n| file(name(n), noise(n as u64, 1000))).collect();
        let (created, _) = create(&place, &files, 2).unwrap();
        assert_eq!(contents(&place, created.root), expected(&files));
        let data = place
            .indexed()
            .iter()
            .flat_map(|pack| &pack.chunks)
            .filter(|c| c.kind == Kind::Data)
            .count();
        assert!((2..30).contains(&data), "{data}");
    }

    #[test]
    fn holes_are_not_stored() {
        let place = Place::new(EpochProfile::Rfc9580);
        let sparse = File {
            pieces: vec![
                Stretch::Hole(1 << 30),
                Stretch::Data(noise(1, 200_000)),
                Stretch::Hole(4096),
                Stretch::Data(noise(2, 10)),
                Stretch::Hole(1 << 20),
            ],
            bytes: (1 << 30) + 200_000 + 4096 + 10 + (1 << 20),
            ..file("sparse", Vec::new())
        };
        let (created, heard) = create(&place, std::slice::from_ref(&sparse), 2).unwrap();
        assert_eq!(created.counts.bytes, sparse.bytes);
        let entry = &heard.stored[&b"sparse"[..]];
        let Node::File { content, .. } = &entry.node else { panic!("it is a file") };
        let lengths: Vec<_> = content.iter().map(Extent::length).collect();
        assert_eq!(lengths, [1 << 30, 200_000, 4096, 10, 1 << 20]);
        assert!(matches!(
            content[..],
            [
                Extent::Hole(_),
                Extent::Data { .. },
                Extent::Hole(_),
                Extent::Data { .. },
                Extent::Hole(_)
            ]
        ));
        // A small file that starts with data.
        let small = File {
            pieces: vec![Stretch::Data(vec![1; 100]), Stretch::Hole(1 << 20)],
            bytes: 100 + (1 << 20),
            ..file("small", Vec::new())
        };
        let (created, _) = create(&place, std::slice::from_ref(&small), 2).unwrap();
        assert_eq!(contents(&place, created.root), expected(&[small]));
    }

    #[test]
    fn files_that_grow_shrink_or_fail_do_not_harm_the_others() {
        let place = Place::new(EpochProfile::Rfc9580);
        let mut all = vec![
            File { bytes: 100, ..file("a-grown", noise(1, 5000)) },
            File { bytes: 10, ..file("b-grown", noise(2, 3 << 20)) },
            File { bytes: 5000, ..file("c-shrunk", noise(3, 100)) },
            File { bytes: 9 << 20, ..file("d-shrunk", noise(4, 400)) },
            File { bytes: 0, ..file("e-as-in-proc", noise(5, 300)) },
        ];
        let good = all.clone();
        let half = Stretch::Data(noise(6, 2 << 20));
        all.push(File {
            pieces: vec![half, Stretch::Fails],
            bytes: 4 << 20,
            ..file("f-broken", Vec::new())
        });
        all.push(file("g-locked", vec![1]));
        let (sink, _) = place.sink(place.present(), 2);
        let (mut creation, mut heard) = (Creation::new(sink), Heard::default());
        for file in all {
            creation.read(file, (), &mut heard).unwrap();
        }
        // Further links to a file that could not be read are missing, too.
        for (path, first) in [("h-link", "f-broken"), ("i-link", "a-grown")] {
            let node = Node::HardLink { first: first.into() };
            creation.push(Entry { path: path.into(), node }, (), &mut heard).unwrap();
        }
        creation.unread(b"j", io::ErrorKind::NotFound.into(), &mut heard);
        let created = creation.finish(&mut heard).unwrap();
        assert_eq!((created.counts.entries, created.counts.unread), (6, 4));
        let read = contents(&place, created.root);
        assert_eq!(read[..5], expected(&good));
        let mut unread: Vec<_> = heard.unread.iter().map(|(path, _)| &path[..]).collect();
        unread.sort_unstable();
        assert_eq!(unread, [&b"f-broken"[..], b"g-locked", b"h-link", b"j"]);
        assert!(heard.unread.iter().any(|(_, why)| why.contains("the disk is broken")));
    }

    #[test]
    fn a_failing_storage_or_a_cancellation_ends_the_run_with_its_reason() {
        let files = files();
        for threads in [1, 3] {
            let place = Place::new(EpochProfile::Rfc9580);
            place.backend.full_after.store(1, Relaxed);
            let Err(BackupError::Storage { .. }) = create(&place, &files, threads) else {
                panic!("the storage is full")
            };
            let place = Place::new(EpochProfile::Rfc9580);
            let (sink, progress) = place.sink(place.present(), threads);
            let (mut creation, mut heard) = (Creation::new(sink), Heard::default());
            let result = files.iter().enumerate().try_for_each(|(n, file)| {
                if n == 20 {
                    progress.cancel();
                }
                creation.read(file.clone(), (), &mut heard)
            });
            let result = result.and_then(|()| creation.finish(&mut heard).map(drop));
            assert!(matches!(result, Err(BackupError::Cancelled)), "{result:?}");
        }
    }
}
