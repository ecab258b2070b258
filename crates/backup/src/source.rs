//! Reading chunks from packs.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::backend::{Backend, is_of_one_object};
use crate::chunks::{CHUNK_BYTES_MAX, ReadChunks};
use crate::error::{BackupError, Result};
use crate::id::{Id, Identifiers, Kind, ObjectHash, RepositoryId};
use crate::index::IndexedPack;
use crate::located::{Located, Place};
pub(crate) use crate::opener::EpochReader;
use crate::opener::{OpenPack, PackOpener, WholePack};
use crate::pack::{PackedChunk, pack_name};
use crate::table::Scratch;

/// Bytes of chunks in the cache of [`Source::read_shared`].
const SHARED_BYTES: usize = 16 << 20;
/// Bytes of open packs in memory. A pack of which parts can be read counts as 4 KiB.
const OPEN_BYTES: usize = 48 << 20;
const OPEN_PACK_BYTES: usize = 4 << 10;

/// The chunks of a repository, by its indexes.
pub(crate) struct Source {
    backend: Arc<dyn Backend>,
    repository: RepositoryId,
    identifiers: Identifiers,
    opener: PackOpener,
    located: Located,
    open: Mutex<Recent<u32, Slot>>,
    shared: Mutex<Recent<(Kind, Id), Shared>>,
}

/// A chunk in the cache.
type Shared = Arc<Vec<u8>>;

/// A pack that one thread opens and the others wait for.
type Slot = Arc<Mutex<Option<Arc<OpenPack>>>>;

impl Source {
    /// Reads packs of these epochs. The source knows no chunk before [`Self::add`].
    pub(crate) fn new(
        backend: Arc<dyn Backend>,
        scratch: Arc<dyn Scratch>,
        repository: RepositoryId,
        identifiers: Identifiers,
        epochs: Vec<EpochReader>,
    ) -> Self {
        Self {
            backend,
            repository,
            identifiers,
            opener: PackOpener::new(epochs),
            located: Located::new(scratch),
            open: Mutex::new(Recent::new(OPEN_BYTES)),
            shared: Mutex::new(Recent::new(SHARED_BYTES)),
        }
    }

    /// Adds the chunks of a pack. Two indexes may describe the same pack; if they differ, both
    /// descriptions are tried.
    ///
    /// # Errors
    ///
    /// Errors of temporary files.
    pub(crate) fn add(&mut self, pack: &IndexedPack) -> Result<()> {
        self.located.add(pack)
    }

    /// [`is_of_one_object`], for the storage of this source.
    pub(crate) fn is_of_one_object(&self, error: &BackupError) -> bool {
        is_of_one_object(&*self.backend, error)
    }

    /// Makes searches fast, after the last [`Self::add`].
    ///
    /// # Errors
    ///
    /// Errors of temporary files.
    pub(crate) fn merge(&mut self) -> Result<()> {
        self.located.merge()
    }

    /// The number of chunks, with all their copies.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.located.len()
    }

    /// Reads a pack as a whole, for checks and to make its index again. The chunks are not checked
    /// yet.
    ///
    /// # Errors
    ///
    /// [`Damaged`](BackupError::Damaged) with the reason; [`Missing`](BackupError::Missing); errors
    /// of the storage.
    pub(crate) fn read_pack(&self, hash: &ObjectHash) -> Result<WholePack> {
        self.opener.read_whole(&*self.backend, hash, self.repository)
    }

    /// Whether an index names the chunk.
    ///
    /// # Errors
    ///
    /// Errors of temporary files.
    pub(crate) fn contains(&self, id: &Id) -> Result<bool> {
        Ok(!self.located.places(id)?.is_empty())
    }

    /// The number of the epoch that a pack is encrypted to; `None` if it is not encrypted.
    pub(crate) fn epoch_of(&self, hash: &ObjectHash, bytes: u64) -> Result<Option<u32>> {
        self.opener.epoch_of(&*self.backend, &pack_name(hash), bytes)
    }

    fn open_pack(&self, number: u32, name: &str, bytes: u64) -> Result<Arc<OpenPack>> {
        let slot = self.open.lock().get_or(number, OPEN_PACK_BYTES, Slot::default);
        let mut opened = slot.lock();
        if let Some(opened) = &*opened {
            return Ok(Arc::clone(opened));
        }
        let pack = Arc::new(self.opener.open(&*self.backend, name, bytes)?);
        if let OpenPack::Whole(content) = &*pack {
            self.open.lock().weigh(&number, content.len());
        }
        *opened = Some(Arc::clone(&pack));
        Ok(pack)
    }

    /// One copy of a chunk.
    fn copy(&self, kind: Kind, id: &Id, place: Place) -> Result<Vec<u8>> {
        let (hash, bytes) = self.located.pack(place.pack);
        let name = pack_name(&hash);
        let damaged = |why: &str| BackupError::damaged(&*name, why);
        let Place { offset, stored, plain, compressed, .. } = place;
        let chunk = PackedChunk { kind, id: *id, offset, stored, plain, compressed };
        let range = chunk.range();
        let pack = self.open_pack(place.pack, &name, bytes)?;
        let length = match &*pack {
            OpenPack::Ranges(opener) => opener.content_bytes(),
            OpenPack::Plain(_, length) => *length,
            OpenPack::Whole(content) => content.len() as u64,
        };
        if range.end > length {
            return Err(damaged("an index names a chunk beyond its end"));
        }
        let bytes = match &*pack {
            OpenPack::Ranges(opener) => {
                let needed = opener.needed(&range);
                let sealed =
                    self.backend.get_range(&name, needed.start, needed.end - needed.start)?;
                opener.open_range(&range, &sealed).map_err(|error| damaged(&error.to_string()))?
            }
            OpenPack::Plain(start, _) => {
                self.backend.get_range(&name, start + range.start, u64::from(stored))?
            }
            OpenPack::Whole(content) => {
                let at = |byte| usize::try_from(byte).expect("it is in memory");
                content[at(range.start)..at(range.end)].to_vec()
            }
        };
        chunk.plaintext(bytes, &self.identifiers).map_err(damaged)
    }
}

impl ReadChunks for Source {
    fn read(&self, kind: Kind, id: &Id) -> Result<Vec<u8>> {
        let chunk = || format!("the {} chunk {id}", kind.name());
        let (mut why, mut failed) = (Vec::new(), None);
        for place in self.located.places(id)? {
            match self.copy(kind, id, place) {
                Ok(plain) => return Ok(plain),
                Err(error @ (BackupError::Damaged { .. } | BackupError::Missing { .. })) => {
                    why.push(error.to_string());
                }
                // Another copy may be within reach.
                Err(error) => failed = Some(error),
            }
        }
        match (failed, why.is_empty()) {
            (Some(error), _) => Err(error),
            (None, true) => Err(BackupError::Missing { name: chunk() }),
            (None, false) => Err(BackupError::damaged(chunk(), why.join("; "))),
        }
    }

    fn read_shared(&self, kind: Kind, id: &Id) -> Result<Arc<Vec<u8>>> {
        if let Some(plain) = self.shared.lock().get(&(kind, *id)) {
            return Ok(plain);
        }
        let plain = Arc::new(self.read(kind, id)?);
        debug_assert!(plain.len() <= CHUNK_BYTES_MAX);
        self.shared.lock().get_or((kind, *id), plain.len(), || Arc::clone(&plain));
        Ok(plain)
    }

    fn place(&self, id: &Id) -> Option<u64> {
        let place = *self.located.places(id).ok()?.first()?;
        Some(u64::from(place.pack) << 32 | place.offset)
    }
}

/// A map with a limit on the weight of its values, which drops the oldest.
struct Recent<K, V> {
    map: HashMap<K, (V, usize)>,
    order: VecDeque<K>,
    weight: usize,
    limit: usize,
}

impl<K: Copy + Eq + Hash, V: Clone> Recent<K, V> {
    fn new(limit: usize) -> Self {
        Self { map: HashMap::new(), order: VecDeque::new(), weight: 0, limit }
    }

    fn get(&self, key: &K) -> Option<V> {
        self.map.get(key).map(|(value, _)| value.clone())
    }

    fn get_or(&mut self, key: K, weight: usize, new: impl FnOnce() -> V) -> V {
        if let Some(value) = self.get(&key) {
            return value;
        }
        let value = new();
        self.map.insert(key, (value.clone(), weight));
        self.order.push_back(key);
        self.weight += weight;
        self.shrink();
        value
    }

    /// Corrects the weight of a value.
    fn weigh(&mut self, key: &K, weight: usize) {
        if let Some((_, known)) = self.map.get_mut(key) {
            self.weight = self.weight - *known + weight;
            *known = weight;
        }
        self.shrink();
    }

    /// Drops old values, except for the newest.
    fn shrink(&mut self) {
        while self.weight > self.limit && self.order.len() > 1 {
            let Some(oldest) = self.order.pop_front() else { break };
            if let Some((_, weight)) = self.map.remove(&oldest) {
                self.weight -= weight;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunks::WriteChunks as _;
    use crate::compress::Zstd;
    use crate::epoch::EpochProfile;
    use crate::testing::{Memory, Place as Repository, REPOSITORY, noise};

    /// A chunk that was stored.
    type Known = (Kind, Id, Vec<u8>);

    /// A repository with chunks in one pack.
    fn filled(profile: EpochProfile) -> (Repository, Vec<Known>) {
        let place = Repository::new(profile);
        let (mut sink, _) = place.sink(place.present(), 2);
        let plains = [
            (Kind::Data, noise(1, 300_000)),
            (Kind::Data, b"word ".repeat(40_000)),
            (Kind::List, b"hole:1\n".to_vec()),
            (Kind::Tree, b"tree\n".repeat(50)),
            (Kind::Data, noise(2, 1)),
            (Kind::Data, Vec::new()),
        ];
        let known = plains.map(|(kind, plain)| (kind, sink.write(kind, &plain).unwrap(), plain));
        sink.finish().unwrap();
        (place, known.into())
    }

    fn is_damaged<T>(result: &Result<T>) -> bool {
        matches!(result, Err(BackupError::Damaged { .. } | BackupError::Missing { .. }))
    }

    #[test]
    fn chunks_read_back_equal_in_every_profile() {
        for profile in EpochProfile::ALL {
            let (place, known) = filled(profile);
            let source = place.source();
            assert_eq!(source.len(), known.len());
            for (kind, id, plain) in &known {
                assert_eq!(source.read(*kind, id).unwrap(), *plain, "{profile}");
                assert_eq!(*source.read_shared(*kind, id).unwrap(), *plain);
                assert_eq!(*source.read_shared(*kind, id).unwrap(), *plain);
                assert!(source.contains(id).unwrap() && source.place(id).is_some());
            }
            let missing = source.read(Kind::Data, &Id([9; 32]));
            assert!(matches!(missing, Err(BackupError::Missing { .. })));
            assert_eq!(source.place(&Id([9; 32])), None);
            // The index can be made again from the pack.
            let indexed = place.indexed();
            let pack = source.read_pack(&indexed[0].hash).unwrap();
            assert_eq!(pack.indexed, indexed[0]);
            assert!(pack.damaged_chunks(&place.identifiers).is_empty());
        }
    }

    /// A flipped bit never gives other content. What it does not touch can still be read.
    #[test]
    fn a_flipped_bit_anywhere_is_found_and_harms_its_neighbourhood_only() {
        for profile in EpochProfile::ALL {
            let (place, known) = filled(profile);
            let name = place.backend.names("packs/").remove(0);
            let indexed = place.indexed();
            let bytes = usize::try_from(indexed[0].bytes).unwrap();
            let start = (0..160).step_by(7);
            let inside = (160..bytes - 40).step_by(bytes / 40);
            let mut harmed = 0;
            for at in start.chain(inside).chain(bytes - 40..bytes) {
                place.backend.change(&name, |pack| pack[at] ^= 1 << (at % 8));
                let source = place.source();
                let whole = source.read_pack(&indexed[0].hash);
                assert!(matches!(whole, Err(BackupError::Damaged { .. })), "{profile} {at}");
                let mut good = 0;
                for (kind, id, plain) in &known {
                    match source.read(*kind, id) {
                        Ok(read) => {
                            assert_eq!(read, *plain, "{profile} {at}");
                            good += 1;
                        }
                        Err(error) => {
                            let named = matches!(
                                error,
                                BackupError::Damaged { .. } | BackupError::Message { .. }
                            );
                            assert!(named, "{profile} {at}: {error}");
                        }
                    }
                }
                harmed += known.len() - good;
                // In the middle of the first chunk, which has 300,000 bytes, nothing else is.
                if profile == EpochProfile::Rfc9580 && (80_000..250_000).contains(&at) {
                    assert!(good >= known.len() - 1, "{at}: {good}");
                }
                place.backend.change(&name, |pack| pack[at] ^= 1 << (at % 8));
            }
            assert!(harmed > 0);
            assert!(place.source().read_pack(&indexed[0].hash).is_ok());
        }
    }

    #[test]
    fn a_truncated_or_longer_pack_is_refused() {
        for profile in EpochProfile::ALL {
            let (place, known) = filled(profile);
            let name = place.backend.names("packs/").remove(0);
            let whole = place.backend.get(&name, u64::MAX).unwrap();
            let hash = place.indexed()[0].hash;
            for length in [0, 1, 100, 200, 70_000, whole.len() / 2, whole.len() - 1] {
                place.backend.change(&name, |pack| pack.truncate(length));
                let source = place.source();
                assert!(is_damaged(&source.read_pack(&hash)));
                let last = &known[3];
                let read = source.read(last.0, &last.1);
                // Without the end, the part that is there is still good in some profiles.
                assert!(read.is_err() || read.unwrap() == last.2, "{profile} {length}");
                assert!(length > 70_000 || source.read(last.0, &last.1).is_err());
                place.backend.change(&name, |pack| *pack = whole.clone());
            }
            place.backend.change(&name, |pack| pack.push(0));
            assert!(is_damaged(&place.source().read_pack(&hash)));
        }
    }

    #[test]
    fn a_pack_under_the_name_of_another_is_refused() {
        for profile in EpochProfile::ALL {
            let place = Repository::new(profile);
            let ids = &place.identifiers;
            let packs = [1, 2].map(|seed| {
                let plain = noise(seed, 5000);
                let id = ids.of(Kind::Data, &plain);
                (place.pack(&[(Kind::Data, id, 5000, false, plain)]), id)
            });
            let names = [&packs[0].0, &packs[1].0].map(|pack| pack_name(&pack.hash));
            let second = place.backend.get(&names[1], u64::MAX).unwrap();
            place.backend.change(&names[0], |pack| *pack = second);
            let mut source = place.empty_source();
            packs.iter().for_each(|(pack, _)| source.add(pack).unwrap());
            assert!(is_damaged(&source.read(Kind::Data, &packs[0].1)), "{profile}");
            assert!(source.read(Kind::Data, &packs[1].1).is_ok());
            assert!(is_damaged(&source.read_pack(&packs[0].0.hash)));
        }
    }

    #[test]
    fn content_under_the_name_of_another_chunk_is_refused_and_other_copies_are_tried() {
        let place = Repository::new(EpochProfile::Rfc9580);
        let good = b"the right content".to_vec();
        let id = place.identifiers.of(Kind::Data, &good);
        let garbage = place.pack(&[(Kind::Data, id, 17, false, b"the wrong content".to_vec())]);
        let mut source = place.empty_source();
        source.add(&garbage).unwrap();
        assert!(is_damaged(&source.read(Kind::Data, &id)));
        let pack = source.read_pack(&garbage.hash).unwrap();
        assert_eq!(pack.damaged_chunks(&place.identifiers), [id]);
        // A copy in a pack that is gone, and a good one.
        let copy = place.pack(&[(Kind::Data, id, 17, false, good.clone())]);
        let gone = IndexedPack { hash: ObjectHash([5; 32]), ..copy.clone() };
        source.add(&gone).unwrap();
        assert!(is_damaged(&source.read(Kind::Data, &id)));
        source.add(&copy).unwrap();
        assert_eq!(source.read(Kind::Data, &id).unwrap(), good);
    }

    /// The kind is a part of the identifier: nobody gets a tree into a snapshot by storing a file.
    #[test]
    fn a_file_with_the_text_of_a_tree_is_no_tree() {
        let place = Repository::new(EpochProfile::LibrePgp);
        let (mut sink, _) = place.sink(place.present(), 1);
        let text = b"d 0755 0 0 0.000000000 - - - etc\n";
        let file = sink.write(Kind::Data, text).unwrap();
        let tree = sink.write(Kind::Tree, text).unwrap();
        assert_ne!(file, tree);
        sink.finish().unwrap();
        let source = place.source();
        assert_eq!(source.read(Kind::Tree, &tree).unwrap(), text);
        assert!(is_damaged(&source.read(Kind::Tree, &file)));
        assert!(is_damaged(&source.read(Kind::List, &tree)));
        // Nor by an index that names the file a tree.
        let mut forged = place.indexed();
        for chunk in forged.iter_mut().flat_map(|pack| &mut pack.chunks) {
            (chunk.kind, chunk.id) = (Kind::Tree, Id([8; 32]));
        }
        let mut source = place.empty_source();
        forged.iter().for_each(|pack| source.add(pack).unwrap());
        assert!(is_damaged(&source.read(Kind::Tree, &Id([8; 32]))));
    }

    #[test]
    fn a_forged_index_leads_nowhere() {
        let (place, known) = filled(EpochProfile::Rfc9580);
        let indexed = place.indexed().remove(0);
        let (_, id, plain) = &known[1];
        let at = indexed.chunks.iter().position(|chunk| chunk.id == *id).unwrap();
        let forge = |change: &dyn Fn(&mut PackedChunk)| {
            let mut pack = indexed.clone();
            change(&mut pack.chunks[at]);
            let mut source = place.empty_source();
            source.add(&pack).unwrap();
            let forged = source.read(Kind::Data, id);
            // Beside a true index, a forged one does no harm.
            source.add(&indexed).unwrap();
            assert_eq!(source.read(Kind::Data, id).unwrap(), *plain);
            forged
        };
        assert_eq!(forge(&|_| ()).unwrap(), *plain);
        let changes: [&dyn Fn(&mut PackedChunk); 8] = [
            &|chunk| chunk.offset += 512,
            &|chunk| chunk.offset = (60 << 20) / 512 * 512,
            &|chunk| chunk.stored -= 1,
            &|chunk| chunk.stored += 1,
            &|chunk| chunk.stored = 8 << 20,
            &|chunk| chunk.plain -= 1,
            &|chunk| chunk.plain = 8 << 20,
            &|chunk| chunk.compressed = false,
        ];
        for (n, change) in changes.iter().enumerate() {
            assert!(is_damaged(&forge(change)), "change {n}");
        }
        // A pack with another length, or of another name.
        for pack in [
            IndexedPack { bytes: indexed.bytes - 1, ..indexed.clone() },
            IndexedPack { bytes: indexed.bytes + 1, ..indexed.clone() },
            IndexedPack { hash: ObjectHash([3; 32]), ..indexed.clone() },
        ] {
            let mut source = place.empty_source();
            source.add(&pack).unwrap();
            assert!(is_damaged(&source.read(Kind::Data, id)));
            source.add(&indexed).unwrap();
            assert_eq!(source.read(Kind::Data, id).unwrap(), *plain);
        }
    }

    #[test]
    fn a_decompression_bomb_is_refused() {
        let place = Repository::new(EpochProfile::Rfc9580);
        let bomb = Zstd::new().compress(&vec![0; 8 << 20]).unwrap();
        let id = place.identifiers.of(Kind::Data, &[0; 1000]);
        // It says that it has 1,000 bytes, and has 8 MiB.
        let pack = place.pack(&[(Kind::Data, id, 1000, true, bomb)]);
        let mut source = place.empty_source();
        source.add(&pack).unwrap();
        let read = source.read(Kind::Data, &id);
        assert!(is_damaged(&read) && read.unwrap_err().to_string().contains("decompress"));
        assert!(is_damaged(&source.read_pack(&pack.hash)));
    }

    #[test]
    fn packets_of_another_profile_are_refused() {
        for (profile, other) in [
            (EpochProfile::LibrePgp, EpochProfile::Rfc4880),
            (EpochProfile::Rfc4880, EpochProfile::LibrePgp),
            (EpochProfile::LibrePgp, EpochProfile::None),
            (EpochProfile::Rfc9580, EpochProfile::None),
        ] {
            let (place, known) = filled(profile);
            let indexed = place.indexed().remove(0);
            let content = {
                let ids = &place.identifiers;
                let mut pack = crate::pack::PackWriter::default();
                for (kind, id, plain) in &known {
                    assert_eq!(ids.of(*kind, plain), *id);
                    pack.push(
                        *kind,
                        *id,
                        u32::try_from(plain.len()).unwrap(),
                        false,
                        plain.clone(),
                    );
                }
                pack.finish(REPOSITORY)
            };
            let (mut stream, chunks) = content;
            let mut bytes = Vec::new();
            std::io::Read::read_to_end(&mut stream, &mut bytes).unwrap();
            let pack = place.put_pack(other, &bytes, chunks);
            let mut source = place.empty_source();
            source.add(&pack).unwrap();
            for (kind, id, _) in &known {
                assert!(source.read(*kind, id).is_err(), "{profile} {other}");
            }
            assert!(source.read_pack(&pack.hash).is_err());
            assert!(source.read_pack(&indexed.hash).is_ok());
        }
    }

    #[test]
    fn a_key_of_another_epoch_is_named_as_missing() {
        let (place, known) = filled(EpochProfile::Rfc9580);
        let other = Repository::new(EpochProfile::Rfc9580);
        let mut source = other.empty_source();
        place.indexed().iter().for_each(|pack| source.add(pack).unwrap());
        assert!(matches!(source.read(known[0].0, &known[0].1), Err(BackupError::Damaged { .. })));
        let name = place.backend.names("packs/").remove(0);
        let pack = place.backend.get(&name, u64::MAX).unwrap();
        crate::backend::Backend::put(&*other.backend as &Memory, &name, &[&pack]).unwrap();
        let read = source.read(known[0].0, &known[0].1);
        assert!(matches!(read, Err(BackupError::Message { .. })), "{read:?}");
    }

    #[test]
    fn the_cache_keeps_the_newest() {
        let mut recent = Recent::new(10);
        for n in 0..8 {
            assert_eq!(recent.get_or(n, 3, || n), n);
        }
        assert_eq!((recent.get(&4), recent.get(&5), recent.get(&7)), (None, Some(5), Some(7)));
        recent.weigh(&7, 100);
        assert_eq!((recent.get(&6), recent.get(&7)), (None, Some(7)));
        assert_eq!(recent.get_or(8, 1, || 8), 8);
        assert_eq!((recent.get(&7), recent.weight), (None, 1));
    }
}
