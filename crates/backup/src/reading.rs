//! Reading many files at once: into memory if they are small, into chunks if not.
//!
//! Worker threads take batches of files. A worker that reads a large file offers its chunks to idle
//! workers, and stores those that nobody takes itself, so that one large file keeps all cores busy
//! and nobody waits for somebody who waits.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded, select, unbounded};

use crate::bundle::{BUNDLED_MAX, ends_bundle};
use crate::chunker::{CHUNK_MAX, Chunker};
use crate::compress::Zstd;
use crate::entry::Extent;
use crate::error::Result;
use crate::id::{Id, Kind};
use crate::progress::BackupProgress;
use crate::sink::{Alarm, Store};

/// Bytes that are read at once, and searched for a cut while they are in the cache of the core.
const STEP_BYTES: usize = 256 << 10;

/// The next piece of a file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Piece {
    /// Bytes in the buffer.
    Data(usize),
    /// Zeros that the file does not store.
    Hole(u64),
    /// The end of the file.
    End,
}

/// A file to read. Methods are called in their order, on one thread.
pub(crate) trait ChunkInput: Send + 'static {
    /// The length in bytes that the walk saw.
    fn bytes(&self) -> u64;
    /// Opens the file.
    fn open(&mut self) -> io::Result<()>;
    /// Reads the next piece.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<Piece>;
    /// Closes the file.
    fn close(&mut self) -> io::Result<()>;
}

/// The content of a file.
#[derive(Debug)]
pub(crate) enum Content {
    /// At most [`BUNDLED_MAX`] bytes, and whether a bundle ends after them.
    Small(Vec<u8>, bool),
    /// Parts in the repository, and their length.
    Parts(Vec<Extent>, u64),
}

/// The result of a job.
pub(crate) enum Done<I> {
    /// Files that were read, with their tickets. The inner error is one of the file.
    Files(Vec<(u64, I, io::Result<Content>)>),
    /// A chunk with this ticket was stored.
    Chunk(u64, Id),
    /// The run failed.
    Failed,
}

/// A job for a worker.
enum Job<I> {
    Files(Vec<(u64, I)>),
    Chunk(u64, Kind, Vec<u8>),
}

/// A chunk of a file that another worker reads.
struct Offered {
    number: usize,
    plain: Vec<u8>,
    stored: Sender<StoredChunk>,
}

/// The number of a chunk in its file, and its identifier.
type StoredChunk = (usize, Result<Id>);

/// The worker threads.
pub(crate) struct Readers<I> {
    jobs: Option<Sender<Job<I>>>,
    done: Receiver<Done<I>>,
    workers: Vec<JoinHandle<()>>,
}

impl<I: ChunkInput> Readers<I> {
    pub(crate) fn new(store: &Arc<Store>) -> Self {
        let threads = store.threads;
        let (jobs, taken) = bounded(2 * threads);
        let (finished, done) = unbounded();
        let offers = bounded(threads);
        let chunker = Arc::new(Chunker::new(&store.identifiers));
        let workers = (0..threads).map(|_| {
            let worker = Worker {
                store: Arc::clone(store),
                chunker: Arc::clone(&chunker),
                offers: offers.clone(),
                zstd: Zstd::new(),
                buffer: Vec::new(),
            };
            let (taken, finished) = (taken.clone(), finished.clone());
            std::thread::spawn(move || worker.serve(&taken, &finished))
        });
        Self { workers: workers.collect(), jobs: Some(jobs), done }
    }

    /// Reads files, each with a ticket. Waits if the workers are busy.
    pub(crate) fn files(&self, files: Vec<(u64, I)>) {
        self.send(Job::Files(files));
    }

    /// Stores a chunk.
    pub(crate) fn chunk(&self, ticket: u64, kind: Kind, plain: Vec<u8>) {
        self.send(Job::Chunk(ticket, kind, plain));
    }

    fn send(&self, job: Job<I>) {
        // The workers are gone only after a failure, which `Self::next` tells.
        let _ = self.jobs.as_ref().expect("it is there until the end").send(job);
    }

    /// The next result, if there is one already.
    pub(crate) fn try_next(&self) -> Option<Done<I>> {
        self.done.try_recv().ok()
    }

    /// Waits for the next result.
    pub(crate) fn next(&self) -> Done<I> {
        self.done.recv().unwrap_or(Done::Failed)
    }
}

/// Ends the workers.
impl<I> Drop for Readers<I> {
    fn drop(&mut self) {
        self.jobs.take();
        for worker in self.workers.drain(..) {
            if let Err(panic) = worker.join()
                && !std::thread::panicking()
            {
                std::panic::resume_unwind(panic);
            }
        }
    }
}

struct Worker {
    store: Arc<Store>,
    chunker: Arc<Chunker>,
    offers: (Sender<Offered>, Receiver<Offered>),
    zstd: Zstd,
    buffer: Vec<u8>,
}

/// An error of the run, or one of the file.
enum Failure {
    Run,
    File(io::Error),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::File(error)
    }
}

impl Worker {
    fn serve<I: ChunkInput>(mut self, jobs: &Receiver<Job<I>>, done: &Sender<Done<I>>) {
        let store = Arc::clone(&self.store);
        let _alarm = Alarm(&store);
        let offers = self.offers.1.clone();
        loop {
            if let Ok(offered) = offers.try_recv() {
                self.take(offered);
                continue;
            }
            let job = select! {
                recv(offers) -> offered => {
                    if let Ok(offered) = offered {
                        self.take(offered);
                    }
                    continue;
                }
                recv(jobs) -> job => job,
            };
            let Ok(job) = job else { return };
            let result = match job {
                Job::Files(files) => self.read_all(files),
                Job::Chunk(ticket, kind, plain) => {
                    self.add(kind, plain).map_or(Done::Failed, |id| Done::Chunk(ticket, id))
                }
            };
            // Nobody is there to listen after a failure.
            let _ = done.send(result);
        }
    }

    /// Stores a chunk. An error is noted for all.
    fn add(&mut self, kind: Kind, plain: Vec<u8>) -> Result<Id> {
        let stored = self.store.add(kind, plain, &mut self.zstd);
        stored.map_err(|error| {
            self.store.fail(error);
            crate::error::BackupError::Cancelled
        })
    }

    fn take(&mut self, offered: Offered) {
        let Offered { number, plain, stored } = offered;
        let id = self.add(Kind::Data, plain);
        let _ = stored.send((number, id));
    }

    fn read_all<I: ChunkInput>(&mut self, files: Vec<(u64, I)>) -> Done<I> {
        let mut done = Vec::with_capacity(files.len());
        for (ticket, mut file) in files {
            if let Err(error) = self.store.go_on() {
                self.store.fail(error);
                return Done::Failed;
            }
            let read = match self.read(&mut file) {
                Ok(content) => Ok(content),
                Err(Failure::File(error)) => Err(error),
                Err(Failure::Run) => return Done::Failed,
            };
            // The error of reading says more than one of closing.
            let read = match (read, file.close()) {
                (Ok(_), Err(error)) => Err(error),
                (read, _) => read,
            };
            done.push((ticket, file, read));
        }
        Done::Files(done)
    }

    fn read<I: ChunkInput>(&mut self, file: &mut I) -> std::result::Result<Content, Failure> {
        file.open()?;
        // One byte more than the file has, so that a file of this length is read at once.
        let expected = usize::try_from(file.bytes()).unwrap_or(usize::MAX).min(BUNDLED_MAX);
        self.buffer.resize((expected + 1).max(self.buffer.len()), 0);
        let mut filled = 0;
        let mut hole = None;
        loop {
            match file.read(&mut self.buffer[filled..])? {
                Piece::Data(n) => {
                    BackupProgress::add(&self.store.progress.read_bytes, n as u64);
                    filled += n;
                    let is_end = filled < self.buffer.len() && filled as u64 == file.bytes();
                    if is_end && filled <= expected {
                        break;
                    }
                    if filled > BUNDLED_MAX {
                        return self.read_large(file, filled, None);
                    }
                    if filled == self.buffer.len() {
                        self.buffer.resize(BUNDLED_MAX + 1, 0);
                    }
                }
                Piece::Hole(bytes) => {
                    hole = Some(bytes);
                    break;
                }
                Piece::End => break,
            }
        }
        if let Some(hole) = hole {
            return self.read_large(file, filled, Some(hole));
        }
        let content = self.buffer[..filled].to_vec();
        let ends = filled > 0 && ends_bundle(&self.store.identifiers, &content);
        Ok(Content::Small(content, ends))
    }

    /// Reads the rest of a large file after `filled` bytes in the buffer, and a hole after them.
    fn read_large<I: ChunkInput>(
        &mut self,
        file: &mut I,
        filled: usize,
        hole: Option<u64>,
    ) -> std::result::Result<Content, Failure> {
        let mut large = Large::default();
        let room = usize::try_from(file.bytes()).unwrap_or(usize::MAX);
        large.open.reserve_exact(room.clamp(filled, CHUNK_MAX / 2 - STEP_BYTES) + STEP_BYTES);
        large.open.extend_from_slice(&self.buffer[..filled]);
        self.cut(&mut large)?;
        if let Some(hole) = hole {
            self.push_hole(&mut large, hole)?;
        }
        loop {
            let start = large.open.len();
            large.open.resize(start + STEP_BYTES, 0);
            let piece = file.read(&mut large.open[start..]);
            let data = if let Ok(Piece::Data(n)) = piece { n } else { 0 };
            large.open.truncate(start + data);
            match piece? {
                Piece::Data(n) => {
                    BackupProgress::add(&self.store.progress.read_bytes, n as u64);
                    self.cut(&mut large)?;
                }
                Piece::Hole(bytes) => self.push_hole(&mut large, bytes)?,
                Piece::End => break,
            }
        }
        self.flush(&mut large)?;
        // Chunks that others took are awaited; while they work, this thread helps.
        while large.waiting > 0 {
            let (ids, offers) = (large.stored.1.clone(), self.offers.1.clone());
            select! {
                recv(ids) -> stored => {
                    let (number, id) = stored.map_err(|_| Failure::Run)?;
                    large.set(number, id.map_err(|_| Failure::Run)?);
                }
                recv(offers) -> offered => if let Ok(offered) = offered { self.take(offered) },
            }
        }
        Ok(Content::Parts(large.parts, large.bytes))
    }

    /// Takes the chunks from the open bytes that are complete.
    fn cut(&mut self, large: &mut Large) -> std::result::Result<(), Failure> {
        while let Some(length) = self.chunker.cut(&large.open, large.searched) {
            let mut rest = Vec::with_capacity(CHUNK_MAX / 2);
            rest.extend_from_slice(&large.open[length..]);
            let mut chunk = std::mem::replace(&mut large.open, rest);
            chunk.truncate(length);
            large.searched = 0;
            self.store_chunk(large, chunk)?;
        }
        large.searched = large.open.len();
        Ok(())
    }

    /// Makes the open bytes a chunk.
    fn flush(&mut self, large: &mut Large) -> std::result::Result<(), Failure> {
        let chunk = std::mem::take(&mut large.open);
        large.searched = 0;
        if chunk.is_empty() { Ok(()) } else { self.store_chunk(large, chunk) }
    }

    fn push_hole(&mut self, large: &mut Large, bytes: u64) -> std::result::Result<(), Failure> {
        self.flush(large)?;
        large.bytes += bytes;
        large.parts.push(Extent::Hole(bytes));
        Ok(())
    }

    fn store_chunk(
        &mut self,
        large: &mut Large,
        plain: Vec<u8>,
    ) -> std::result::Result<(), Failure> {
        self.store.go_on().map_err(|_| Failure::Run)?;
        let (number, length) = (large.parts.len(), plain.len() as u64);
        large.bytes += length;
        large.parts.push(Extent::Data { id: Id([0; 32]), offset: 0, length });
        while let Ok((number, id)) = large.stored.1.try_recv() {
            large.set(number, id.map_err(|_| Failure::Run)?);
        }
        let offered = Offered { number, plain, stored: large.stored.0.clone() };
        large.waiting += 1;
        if let Err(TrySendError::Full(offered) | TrySendError::Disconnected(offered)) =
            self.offers.0.try_send(offered)
        {
            let id = self.add(Kind::Data, offered.plain).map_err(|_| Failure::Run)?;
            large.set(number, id);
        }
        Ok(())
    }
}

/// A large file that is being read.
struct Large {
    parts: Vec<Extent>,
    bytes: u64,
    /// Bytes after the last chunk.
    open: Vec<u8>,
    /// The number of them without a cut.
    searched: usize,
    /// Chunks without an identifier yet.
    waiting: usize,
    stored: (Sender<StoredChunk>, Receiver<StoredChunk>),
}

impl Default for Large {
    fn default() -> Self {
        Self {
            parts: Vec::new(),
            bytes: 0,
            open: Vec::new(),
            searched: 0,
            waiting: 0,
            stored: unbounded(),
        }
    }
}

impl Large {
    fn set(&mut self, number: usize, stored: Id) {
        let Extent::Data { id, .. } = &mut self.parts[number] else {
            unreachable!("only chunks are stored")
        };
        *id = stored;
        self.waiting -= 1;
    }
}
