//! A repository in memory, for tests.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use talaria_message::make::{GenerateOptions, Protection, generate};
use talaria_message::openpgp::{Cert, Fingerprint};
use talaria_message::{Rules, Secrets, SigningKey, decryption_keys, read_cert, signing_key};
use zeroize::Zeroizing;

use crate::backend::{Backend, Object};
use crate::document::DocumentStanding;
use crate::epoch::{EpochKey, EpochProfile, Sealing, Use};
use crate::error::{BackupError, Result};
use crate::id::{GroupSecret, Id, Identifiers, Kind, ObjectHash, RepositoryId};
use crate::index::{self, IndexedPack};
use crate::listed::Listed;
use crate::located::Present;
use crate::opener::EpochReader;
use crate::pack::{PackWriter, pack_name};
use crate::progress::BackupProgress;
use crate::repository::{Change, Expected, InitOptions, Keys, Repository};
use crate::sink::{Sink, SinkOptions};
use crate::snapshot::{Root, Snapshot};
use crate::source::Source;
use crate::table::InMemory;

pub(crate) const REPOSITORY: RepositoryId = RepositoryId([2; 16]);
pub(crate) const NOW: u32 = 1_795_000_000;

/// Objects in memory.
#[derive(Default)]
pub(crate) struct Memory {
    pub(crate) objects: Mutex<BTreeMap<String, Vec<u8>>>,
    /// After this many objects, each further one fails; 0 for never.
    pub(crate) full_after: AtomicUsize,
}

impl Memory {
    pub(crate) fn names(&self, folder: &str) -> Vec<String> {
        let objects = self.objects.lock();
        objects.keys().filter(|name| name.starts_with(folder)).cloned().collect()
    }

    pub(crate) fn change(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        change(self.objects.lock().get_mut(name).unwrap());
    }
}

impl Backend for Memory {
    fn put(&self, name: &str, parts: &[&[u8]]) -> Result<()> {
        let mut objects = self.objects.lock();
        let full = self.full_after.load(Ordering::Relaxed);
        if full > 0 && objects.len() >= full {
            let source = std::io::ErrorKind::StorageFull.into();
            return Err(BackupError::Storage { name: name.into(), source });
        }
        match objects.insert(name.into(), parts.concat()) {
            None => Ok(()),
            Some(before) => {
                objects.insert(name.into(), before);
                Err(BackupError::Exists { name: name.into() })
            }
        }
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn get(&self, name: &str, limit: u64) -> Result<Vec<u8>> {
        let object = self.get_range(name, 0, u64::MAX)?;
        if object.len() as u64 > limit {
            return Err(BackupError::damaged(name, "it is too large"));
        }
        Ok(object)
    }

    fn get_range(&self, name: &str, offset: u64, length: u64) -> Result<Vec<u8>> {
        let objects = self.objects.lock();
        let object = objects.get(name).ok_or_else(|| BackupError::Missing { name: name.into() })?;
        let at = |byte: u64| usize::try_from(byte).unwrap_or(usize::MAX).min(object.len());
        Ok(object[at(offset)..at(offset.saturating_add(length))].to_vec())
    }

    fn list_each(&self, folder: &str, each: &mut dyn FnMut(Object)) -> Result<()> {
        let objects = self.objects.lock();
        let all = objects.iter().filter(|(name, _)| name.starts_with(&format!("{folder}/")));
        all.map(|(name, object)| Object { name: name.clone(), bytes: object.len() as u64 })
            .for_each(each);
        Ok(())
    }

    fn lists_at_once(&self) -> bool {
        true
    }

    fn delete(&self, name: &str) -> Result<()> {
        self.objects.lock().remove(name);
        Ok(())
    }
}

/// A repository with one epoch. Indexes are in clear.
pub(crate) struct Place {
    pub(crate) backend: Arc<Memory>,
    pub(crate) profile: EpochProfile,
    pub(crate) identifiers: Identifiers,
    key: EpochKey,
}

impl Place {
    pub(crate) fn new(profile: EpochProfile) -> Self {
        let group = GroupSecret(Zeroizing::new([1; 32]));
        Self {
            backend: Arc::default(),
            profile,
            identifiers: Identifiers::new(&group, REPOSITORY),
            key: EpochKey::generate(REPOSITORY, 1, profile, Use::Data, NOW).unwrap(),
        }
    }

    pub(crate) fn sealing(&self, profile: EpochProfile) -> Sealing {
        Sealing::new(profile, Some(&self.key.cert), NOW, NOW).unwrap()
    }

    pub(crate) fn sink(&self, present: Present, threads: usize) -> (Sink, Arc<BackupProgress>) {
        let progress = Arc::new(BackupProgress::default());
        let sink = Sink::new(SinkOptions {
            backend: Arc::clone(&self.backend) as Arc<dyn Backend>,
            repository: REPOSITORY,
            identifiers: self.identifiers.clone(),
            packs: self.sealing(self.profile),
            seal_index: Box::new(|text| Ok(text.as_bytes().to_vec())),
            present,
            threads,
            progress: Arc::clone(&progress),
        });
        (sink, progress)
    }

    /// The packs of all indexes.
    pub(crate) fn indexed(&self) -> Vec<IndexedPack> {
        let names = self.backend.names("indexes/");
        let read = |name: &String| {
            index::parse(name, &self.backend.get(name, u64::MAX).unwrap(), REPOSITORY).unwrap()
        };
        names.iter().flat_map(read).collect()
    }

    pub(crate) fn present(&self) -> Present {
        let mut present = Present::new(Arc::new(InMemory));
        self.indexed().iter().for_each(|pack| present.add(pack).unwrap());
        present
    }

    /// A reader that has no index.
    pub(crate) fn empty_source(&self) -> Source {
        let cert = read_cert(&self.key.secret).unwrap();
        let keys = decryption_keys([&cert], |_, _| None);
        let epoch = EpochReader { number: 1, profile: self.profile, keys };
        let backend = Arc::clone(&self.backend) as Arc<dyn Backend>;
        Source::new(backend, Arc::new(InMemory), REPOSITORY, self.identifiers.clone(), vec![epoch])
    }

    pub(crate) fn source(&self) -> Source {
        let mut source = self.empty_source();
        self.indexed().iter().for_each(|pack| source.add(pack).unwrap());
        source
    }

    /// Writes a pack with these chunks under these names, whatever they are.
    pub(crate) fn pack(&self, chunks: &[(Kind, crate::id::Id, u32, bool, Vec<u8>)]) -> IndexedPack {
        let mut pack = PackWriter::default();
        for (kind, id, plain, compressed, bytes) in chunks {
            pack.push(*kind, *id, *plain, *compressed, bytes.clone());
        }
        let (mut content, chunks) = pack.finish(REPOSITORY);
        let mut plain = Vec::new();
        content.read_to_end(&mut plain).unwrap();
        self.put_pack(self.profile, &plain, chunks)
    }

    /// Writes a pack with this content.
    pub(crate) fn put_pack(
        &self,
        profile: EpochProfile,
        content: &[u8],
        chunks: Vec<crate::pack::PackedChunk>,
    ) -> IndexedPack {
        let object = self.sealing(profile).seal("a pack", content, None, NOW).unwrap();
        let hash = ObjectHash::of(&object);
        self.backend.put(&pack_name(&hash), &[&object]).unwrap();
        IndexedPack { hash, bytes: object.len() as u64, chunks }
    }
}

/// The signing key of a person.
pub(crate) fn signer(cert: &Cert) -> SigningKey {
    signing_key(cert, Rules::default(), NOW, &mut |_, _| None).unwrap()
}

/// A repository in memory, of Alice, with a client.
pub(crate) struct People {
    pub(crate) backend: Arc<Memory>,
    pub(crate) alice: Cert,
    pub(crate) carol: Cert,
}

impl People {
    pub(crate) fn new() -> Self {
        let person = |name: &str| {
            let user_ids = vec![format!("{name} <{name}@example.org>")];
            let mut options = GenerateOptions::default();
            options.user_ids = user_ids;
            generate(&options, &Protection::Unprotected, NOW - 86_400).unwrap().cert
        };
        let place =
            Self { backend: Arc::default(), alice: person("alice"), carol: person("carol") };
        let backend = Arc::clone(&place.backend) as Arc<dyn Backend>;
        let options = InitOptions {
            owner: &place.alice,
            readers: std::slice::from_ref(&place.alice),
            profile: EpochProfile::Rfc9580,
            signed: true,
        };
        Repository::init(backend, &options, &mut signer(&place.alice), NOW).unwrap();
        let (mut repository, keys) = place.open_as(&place.alice);
        let change = Change::AddClient(&place.carol);
        repository.change(&keys, &change, &mut signer(&place.alice), NOW).unwrap();
        place
    }

    /// The repository with the keys that a person has of it.
    pub(crate) fn open_as(&self, person: &Cert) -> (Repository, Keys) {
        let backend = Arc::clone(&self.backend) as Arc<dyn Backend>;
        let expected = Expected::default();
        let repository = Repository::open(backend, &expected, &mut |_| None, NOW).unwrap();
        let keys = decryption_keys([person], |_, _| None);
        let mut secrets = Secrets { keys, ..Secrets::default() };
        let keys = repository.unlock(&mut secrets, &[person.fingerprint()]).unwrap();
        (repository, keys)
    }
}

/// Bytes that look random and do not compress.
pub(crate) fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut out = vec![0; bytes];
    blake3::Hasher::new().update(&seed.to_be_bytes()).finalize_xof().fill(&mut out);
    out
}

/// The fingerprint of a client.
pub(crate) fn key(byte: u8) -> Fingerprint {
    Fingerprint::from_bytes(4, &[byte; 20]).unwrap()
}

/// A good snapshot of a client, without a snapshot before it.
pub(crate) fn listed(client: u8, number: u64, id: Id) -> Listed {
    Listed {
        id,
        snapshot: Snapshot {
            client: Some(key(client)),
            number,
            previous: None,
            time: 0,
            epoch: 1,
            host: b"alpha".to_vec(),
            root: Root { level: 0, id: Id([0; 32]) },
            entries: 0,
            bytes: 0,
            unread: 0,
            paths: BTreeSet::new(),
            tags: BTreeSet::new(),
            users: BTreeMap::new(),
            groups: BTreeMap::new(),
            heads: BTreeMap::new(),
            original: None,
        },
        standing: DocumentStanding::Good(key(client)),
        is_unattested: false,
    }
}
