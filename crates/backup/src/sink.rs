//! Writing chunks to packs.
//!
//! Any number of threads add chunks. The thread whose chunk fills a pack hands the pack to one of a
//! few threads that seal, hash and store packs, so that waiting for the storage does not stop the
//! others. Memory: one pack in the making, and one and a sealed one for each of these threads.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, bounded};
use parking_lot::Mutex;

use crate::backend::Backend;
use crate::chunks::{CHUNK_BYTES_MAX, WriteChunks};
use crate::compress::Zstd;
use crate::epoch::{Sealing, sealed_bytes_max};
use crate::error::{BackupError, Result};
use crate::id::{Id, Identifiers, Kind, ObjectHash, RepositoryId};
use crate::index::{self, INDEX_CHUNKS, INDEX_PACKS, IndexedPack, index_name};
use crate::located::Present;
use crate::pack::{PACK_BYTES, PackWriter, pack_name};
use crate::pages::PageBuffer;
use crate::progress::BackupProgress;

/// The maximum number of threads that seal packs.
const SEALERS_MAX: usize = 3;

/// Turns the text of an index into its object: signed and encrypted to the index key.
pub(crate) type SealIndex = Box<dyn FnMut(&str) -> Result<Vec<u8>> + Send>;

/// The destination of a run, and its keys.
pub(crate) struct SinkOptions {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) repository: RepositoryId,
    pub(crate) identifiers: Identifiers,
    /// Seals packs to the data key of the newest epoch.
    pub(crate) packs: Sealing,
    pub(crate) seal_index: SealIndex,
    /// The chunks of packs that this client's indexes name and that the storage lists.
    pub(crate) present: Present,
    pub(crate) threads: usize,
    pub(crate) progress: Arc<BackupProgress>,
}

/// Where the chunks of a run go. Indexes of packs are written during the run, so that a run that is
/// interrupted need not store everything again.
pub(crate) struct Sink {
    store: Arc<Store>,
    zstd: Zstd,
    sealers: Vec<JoinHandle<()>>,
}

/// The part of a sink that all threads share.
pub(crate) struct Store {
    backend: Arc<dyn Backend>,
    repository: RepositoryId,
    pub(crate) identifiers: Identifiers,
    packs: Sealing,
    pub(crate) threads: usize,
    pub(crate) progress: Arc<BackupProgress>,
    present: Mutex<Present>,
    open: Mutex<PackWriter>,
    /// Packs on their way to a sealer; `None` at the end.
    full: Mutex<Option<Sender<PackWriter>>>,
    index: Mutex<IndexWriter>,
    /// All packs that were written.
    written: Mutex<Vec<ObjectHash>>,
    has_failed: AtomicBool,
    failed: Mutex<Option<BackupError>>,
}

/// Packs that no index names yet.
struct IndexWriter {
    packs: VecDeque<IndexedPack>,
    chunks: usize,
    seal: SealIndex,
}

impl Sink {
    /// Starts the threads that seal packs.
    pub(crate) fn new(options: SinkOptions) -> Self {
        let SinkOptions {
            backend,
            repository,
            identifiers,
            packs,
            seal_index,
            present,
            threads,
            progress,
        } = options;
        // Without a queue: a full pack waits in the hands of the thread that filled it.
        let (full, sealing) = bounded(0);
        let store = Arc::new(Store {
            backend,
            repository,
            identifiers,
            packs,
            threads: threads.max(1),
            progress,
            present: Mutex::new(present),
            open: Mutex::default(),
            full: Mutex::new(Some(full)),
            index: Mutex::new(IndexWriter { packs: VecDeque::new(), chunks: 0, seal: seal_index }),
            written: Mutex::default(),
            has_failed: AtomicBool::new(false),
            failed: Mutex::new(None),
        });
        let sealers = (0..threads.clamp(1, SEALERS_MAX)).map(|_| {
            let (store, sealing) = (Arc::clone(&store), sealing.clone());
            std::thread::spawn(move || store.serve(&sealing))
        });
        Self { sealers: sealers.collect(), store, zstd: Zstd::new() }
    }

    /// The part that other threads use.
    pub(crate) fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// Writes the rest: the last pack, then the last index. All of it is durable afterwards.
    ///
    /// # Errors
    ///
    /// The first error of any thread.
    pub(crate) fn finish(mut self) -> Result<()> {
        let last = std::mem::take(&mut *self.store.open.lock());
        if !last.is_empty() && !self.store.has_failed() {
            self.store.send(last)?;
        }
        self.join();
        let written = self.store.go_on().and_then(|()| self.store.write_index(true));
        written.map_err(|error| self.store.error_or(error))?;
        self.store.backend.sync()
    }

    fn join(&mut self) {
        self.store.full.lock().take();
        for sealer in self.sealers.drain(..) {
            if let Err(panic) = sealer.join()
                && !std::thread::panicking()
            {
                std::panic::resume_unwind(panic);
            }
        }
    }
}

/// A run that fails or is cancelled still writes an index of its finished packs, where it can.
impl Drop for Sink {
    fn drop(&mut self) {
        if !self.sealers.is_empty() {
            self.join();
            // The run has failed already; the next one reads the packs again if this fails, too.
            let _ = self.store.write_index(true);
        }
    }
}

impl WriteChunks for Sink {
    fn write(&mut self, kind: Kind, plain: &[u8]) -> Result<Id> {
        self.store.add(kind, plain.to_vec(), &mut self.zstd)
    }
}

impl Store {
    /// Whether the repository has the chunk, or gets it by this run.
    ///
    /// # Errors
    ///
    /// Errors of temporary files.
    pub(crate) fn contains(&self, id: &Id) -> Result<bool> {
        self.present.lock().contains(id)
    }

    /// The packs that were written so far.
    pub(crate) fn written(&self) -> Vec<ObjectHash> {
        self.written.lock().clone()
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }

    /// # Errors
    ///
    /// [`Cancelled`](BackupError::Cancelled) after a cancellation or an error of another thread,
    /// which [`Self::error_or`] has.
    pub(crate) fn go_on(&self) -> Result<()> {
        if self.has_failed() {
            return Err(BackupError::Cancelled);
        }
        self.progress.go_on()
    }

    /// The first error of any thread, or this one.
    pub(crate) fn error_or(&self, error: BackupError) -> BackupError {
        self.failed.lock().take().unwrap_or(error)
    }

    /// Notes an error, which ends the run.
    pub(crate) fn fail(&self, error: BackupError) {
        if !matches!(error, BackupError::Cancelled) {
            self.failed.lock().get_or_insert(error);
        }
        self.has_failed.store(true, Ordering::Relaxed);
    }

    /// Stores a chunk unless it is there, and returns its identifier.
    pub(crate) fn add(&self, kind: Kind, plain: Vec<u8>, zstd: &mut Zstd) -> Result<Id> {
        self.go_on()?;
        assert!(plain.len() <= CHUNK_BYTES_MAX, "a chunk is smaller");
        let id = self.identifiers.of(kind, &plain);
        if !self.present.lock().insert(&id)? {
            return Ok(id);
        }
        let length = u32::try_from(plain.len()).expect("a chunk is smaller");
        let (compressed, bytes) = match zstd.compress(&plain) {
            Some(bytes) => (true, bytes),
            None => (false, plain),
        };
        BackupProgress::add(&self.progress.new_chunks, 1);
        BackupProgress::add(&self.progress.new_bytes, u64::from(length));
        BackupProgress::add(&self.progress.stored_bytes, bytes.len() as u64);
        let full = {
            let mut open = self.open.lock();
            open.push(kind, id, length, compressed, bytes);
            (open.bytes() >= PACK_BYTES).then(|| std::mem::take(&mut *open))
        };
        full.map_or(Ok(()), |full| self.send(full))?;
        Ok(id)
    }

    fn send(&self, pack: PackWriter) -> Result<()> {
        let Some(full) = self.full.lock().clone() else { return Err(BackupError::Cancelled) };
        full.send(pack).map_err(|_| BackupError::Cancelled)
    }

    /// The loop of a thread that seals packs.
    fn serve(&self, sealing: &Receiver<PackWriter>) {
        // A panic must not leave the others waiting.
        let _alarm = Alarm(self);
        let mut buffer = PageBuffer::default();
        for pack in sealing {
            // After an error, packs are taken and dropped, so that nobody waits.
            if self.go_on().is_err() {
                continue;
            }
            if let Err(error) = self.seal(pack, &mut buffer).and_then(|()| self.write_index(false))
            {
                self.fail(error);
            }
        }
    }

    fn seal(&self, pack: PackWriter, buffer: &mut PageBuffer) -> Result<()> {
        let (content, chunks) = pack.finish(self.repository);
        let bytes = content.length();
        let room = buffer.room(sealed_bytes_max(bytes));
        let sealed = self.packs.seal_pack(content, bytes, room)?;
        let object = buffer.content(sealed);
        let hash = ObjectHash::of(object);
        match self.backend.put(&pack_name(&hash), &[object]) {
            // The name is the hash of the content: it is the same object.
            Ok(()) | Err(BackupError::Exists { .. }) => {}
            Err(error) => return Err(error),
        }
        BackupProgress::add(&self.progress.packs, 1);
        BackupProgress::add(&self.progress.written_bytes, object.len() as u64);
        self.written.lock().push(hash);
        let mut index = self.index.lock();
        index.chunks += chunks.len();
        index.packs.push_back(IndexedPack { hash, bytes: object.len() as u64, chunks });
        Ok(())
    }

    /// Writes an index of the packs that are in none, if they are many or the `last`.
    fn write_index(&self, last: bool) -> Result<()> {
        let mut index = self.index.lock();
        let is_due = index.packs.len() >= INDEX_PACKS || index.chunks >= INDEX_CHUNKS || last;
        if !is_due || index.packs.is_empty() {
            return Ok(());
        }
        let packs: Vec<IndexedPack> = index.packs.drain(..).collect();
        index.chunks = 0;
        // The packs are durable before something refers to them.
        self.backend.sync()?;
        let object = (index.seal)(&index::write(self.repository, &packs))?;
        self.backend.put(&index_name(&ObjectHash::of(&object)), &[&object])?;
        BackupProgress::add(&self.progress.written_bytes, object.len() as u64);
        Ok(())
    }
}

/// Notes a panic as the end of the run.
pub(crate) struct Alarm<'a>(pub(crate) &'a Store);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail(BackupError::Cancelled);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;
    use crate::chunks::ReadChunks as _;
    use crate::epoch::EpochProfile;
    use crate::testing::{Place, noise};

    #[test]
    fn a_chunk_is_stored_once() {
        let place = Place::new(EpochProfile::Rfc9580);
        let (mut sink, progress) = place.sink(place.present(), 2);
        let plain = noise(1, 100_000);
        let id = sink.write(Kind::Data, &plain).unwrap();
        assert_eq!(sink.write(Kind::Data, &plain).unwrap(), id);
        assert!(sink.store().contains(&id).unwrap());
        sink.finish().unwrap();
        assert_eq!(progress.new_chunks.load(Relaxed), 1);
        assert_eq!(place.backend.names("packs/").len(), 1);
        // The next run knows it from the index.
        let (mut sink, progress) = place.sink(place.present(), 2);
        assert_eq!(sink.write(Kind::Data, &plain).unwrap(), id);
        sink.finish().unwrap();
        assert_eq!(progress.new_chunks.load(Relaxed), 0);
        assert_eq!(
            (place.backend.names("packs/").len(), place.backend.names("indexes/").len()),
            (1, 1)
        );
        assert_eq!(place.source().read(Kind::Data, &id).unwrap(), plain);
    }

    #[test]
    fn a_run_without_chunks_writes_nothing() {
        let place = Place::new(EpochProfile::Rfc9580);
        place.sink(place.present(), 2).0.finish().unwrap();
        assert!(place.backend.names("").is_empty());
    }

    #[test]
    fn packs_have_the_aimed_size_and_all_threads_fill_them() {
        let place = Place::new(EpochProfile::Rfc9580);
        let (sink, progress) = place.sink(place.present(), 3);
        let ids: Vec<Id> = std::thread::scope(|scope| {
            let add = |thread: u64| {
                let store = Arc::clone(sink.store());
                scope.spawn(move || {
                    let mut zstd = Zstd::new();
                    let mut add =
                        |n| store.add(Kind::Data, noise(100 * thread + n, 1 << 20), &mut zstd);
                    (0..17).map(&mut add).collect::<Result<Vec<_>>>().unwrap()
                })
            };
            let threads: Vec<_> = (0..3).map(add).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        sink.finish().unwrap();
        assert_eq!(progress.packs.load(Relaxed), 4);
        let source = place.source();
        for (n, id) in (0..).zip(&ids) {
            let plain = source.read(Kind::Data, id).unwrap();
            assert_eq!(plain, noise(100 * (n / 17) + n % 17, 1 << 20));
        }
    }

    #[test]
    fn a_full_storage_is_the_error_and_nothing_is_written_after_it() {
        for full_after in [1, 2, 3] {
            let place = Place::new(EpochProfile::Rfc9580);
            place.backend.full_after.store(full_after, Relaxed);
            let (mut sink, _) = place.sink(place.present(), 2);
            let result = (0..60)
                .try_for_each(|n| sink.write(Kind::Data, &noise(n, 1 << 20)).map(drop))
                .map_err(|error| sink.store().error_or(error));
            let result = result.and_then(|()| sink.finish());
            let Err(BackupError::Storage { source, .. }) = result else { panic!("{result:?}") };
            assert_eq!(source.kind(), std::io::ErrorKind::StorageFull);
            assert!(place.backend.names("packs/").len() <= full_after);
        }
    }

    /// A run that ends early leaves an index of the packs that it finished, so the next one
    /// continues.
    #[test]
    fn a_cancelled_run_need_not_store_everything_again() {
        let place = Place::new(EpochProfile::Rfc9580);
        let (mut sink, progress) = place.sink(place.present(), 2);
        for n in 0..40 {
            sink.write(Kind::Data, &noise(n, 1 << 20)).unwrap();
        }
        progress.cancel();
        let next = sink.write(Kind::Data, b"more");
        assert!(matches!(next, Err(BackupError::Cancelled)));
        drop(sink);
        let packs = place.backend.names("packs/").len();
        assert!((1..=3).contains(&packs), "{packs}");
        let (mut sink, progress) = place.sink(place.present(), 2);
        for n in 0..40 {
            sink.write(Kind::Data, &noise(n, 1 << 20)).unwrap();
        }
        sink.finish().unwrap();
        assert!(progress.new_chunks.load(Relaxed) <= 40 - 14, "{progress:?}");
        let source = place.source();
        let ids = &place.identifiers;
        for n in 0..40 {
            let plain = noise(n, 1 << 20);
            assert_eq!(source.read(Kind::Data, &ids.of(Kind::Data, &plain)).unwrap(), plain);
        }
    }
}
