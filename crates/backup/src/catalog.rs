//! The content of all indexes of a repository: for readers, and for a client that deduplicates.

use std::collections::BTreeSet;
use std::sync::Arc;

use talaria_message::openpgp::Fingerprint;
use talaria_message::{Secrets, SigningKey, Verifier};

use crate::backend::read_object;
use crate::chunks::ReadChunks;
use crate::config::Role;
use crate::document::{self, DocumentStanding, verifier};
use crate::entry::Extent;
use crate::epoch::{EpochProfile, Use};
use crate::error::{BackupError, Result};
use crate::id::{Id, Kind, ObjectHash, in_folder};
use crate::index::{self, INDEX_BYTES_MAX, IndexedPack};
use crate::listed::Listed;
use crate::located::Present;
use crate::pack::{pack_name, pack_of_name};
use crate::plan::can_rely;
use crate::repository::{Keys, Repository};
use crate::source::{EpochReader, Source};
use crate::tree::ContentParts;

/// Gets the name of an index, its packs, and whose word it is.
type EachIndex<'a> = dyn FnMut(&str, &[IndexedPack], &DocumentStanding) -> Result<()> + 'a;

impl Repository {
    /// Calls `each` with every pack of every index and whose word the index is. Returns the indexes
    /// that cannot be read. An error of `each` ends it.
    pub(crate) fn indexes(
        &self,
        keys: &Keys,
        now: u32,
        each: &mut dyn FnMut(&IndexedPack, &DocumentStanding) -> Result<()>,
    ) -> Result<Vec<BackupError>> {
        self.named_indexes(keys, now, &mut |_, packs, standing| {
            packs.iter().try_for_each(|pack| each(pack, standing))
        })
    }

    /// Like [`Self::indexes`], with the name of the object and all its packs. An index that is
    /// deleted meanwhile is left out.
    pub(crate) fn named_indexes(
        &self,
        keys: &Keys,
        now: u32,
        each: &mut EachIndex<'_>,
    ) -> Result<Vec<BackupError>> {
        let verifier = verifier(self.certs(), now);
        let mut secrets = keys.index_secrets();
        let mut unreadable = Vec::new();
        for object in self.backend().list("indexes")? {
            let name = object.name;
            let Some(hash) = in_folder::<ObjectHash>("indexes", &name) else { continue };
            match self.index(&name, &hash, &mut secrets, &verifier) {
                Ok((packs, standing)) => each(&name, &packs, &standing)?,
                Err(BackupError::Missing { .. }) => {}
                Err(error) => unreadable.push(error),
            }
        }
        Ok(unreadable)
    }

    /// The packs of an index, and whose word it is.
    fn index(
        &self,
        name: &str,
        hash: &ObjectHash,
        secrets: &mut Secrets,
        verifier: &Verifier<'_>,
    ) -> Result<(Vec<IndexedPack>, DocumentStanding)> {
        let damaged = |why: &str| BackupError::damaged(name, why);
        let (packs, signatures) = read_object(&**self.backend(), name, INDEX_BYTES_MAX, |bytes| {
            if ObjectHash::of(bytes) != *hash {
                return Err(damaged("its name is not the hash of its content"));
            }
            let document = document::open(name, bytes, secrets, verifier)?;
            let encrypts = self.config().epochs.iter().map(|epoch| epoch.profile.packets());
            if !encrypts.into_iter().any(|packets| packets == document.profile) {
                return Err(damaged("no epoch has packets like its own"));
            }
            Ok((index::parse(name, &document.text, self.id())?, document.signatures))
        })?;
        let may_create = |signer: &Fingerprint| {
            let has = |role| self.config().has_role(signer, role);
            has(Role::Create) || has(Role::Prune)
        };
        let standing = match DocumentStanding::of(&signatures, may_create) {
            DocumentStanding::Foreign(_) if !self.config().signed && signatures.is_empty() => {
                DocumentStanding::Unsigned
            }
            standing => standing,
        };
        Ok((packs, standing))
    }

    /// The packs of one index.
    ///
    /// # Errors
    ///
    /// [`BackupError::Missing`]; [`BackupError::Damaged`] and [`BackupError::Message`] with the
    /// reason; errors of the storage.
    pub fn read_index(&self, keys: &Keys, name: &str, now: u32) -> Result<Vec<IndexedPack>> {
        let hash = in_folder("indexes", name);
        let hash = hash.ok_or_else(|| BackupError::damaged(name, "it is no name of an index"))?;
        let verifier = verifier(self.certs(), now);
        Ok(self.index(name, &hash, &mut keys.index_secrets(), &verifier)?.0)
    }

    /// Writes an index of packs, encrypted to the index key and signed by `signer`, if it is given.
    ///
    /// # Errors
    ///
    /// [`BackupError::Message`] if it cannot be encrypted or signed; errors of the storage.
    pub fn write_index(
        &self,
        packs: &[IndexedPack],
        signer: Option<&mut SigningKey>,
        now: u32,
    ) -> Result<()> {
        let text = index::write(self.id(), packs);
        let sealed =
            self.sealing(Use::Index, now)?.seal("indexes", text.as_bytes(), signer, now)?;
        self.backend().put(&index::index_name(&ObjectHash::of(&sealed)), &[&sealed])?;
        self.backend().sync()
    }

    /// The lengths of the packs that the storage lists.
    pub(crate) fn listed_packs(&self) -> Result<ListedPacks> {
        let mut packs = Vec::new();
        self.backend().list_each("packs", &mut |object| {
            packs.extend(pack_of_name(&object.name).map(|hash| (hash, object.bytes)));
        })?;
        packs.sort_unstable();
        Ok(ListedPacks(packs))
    }

    /// The number of packs that the storage lists, and their bytes.
    ///
    /// # Errors
    ///
    /// Errors of the storage.
    pub fn pack_totals(&self) -> Result<(u64, u64)> {
        let listed = self.listed_packs()?;
        Ok((listed.len() as u64, listed.iter().map(|(_, bytes)| bytes).sum()))
    }

    /// Whether the storage has a pack, by a look at the pack itself.
    pub(crate) fn has_pack(&self, hash: &ObjectHash) -> Result<bool> {
        match self.backend().get_range(&pack_name(hash), 0, 1) {
            Ok(bytes) => Ok(!bytes.is_empty()),
            Err(BackupError::Missing { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// A reader of all chunks, and the indexes that cannot be read. Any index may say where a chunk
    /// is: its identifier decides whether it is the right one.
    ///
    /// # Errors
    ///
    /// Errors of the storage; [`BackupError::Refused`] if `keys` read no data.
    pub(crate) fn source(&self, keys: &Keys, now: u32) -> Result<(Source, Vec<BackupError>)> {
        let mut source = self.empty_source(keys)?;
        let unreadable = self.indexes(keys, now, &mut |pack, _| source.add(pack))?;
        source.merge()?;
        Ok((source, unreadable))
    }

    /// A reader that knows no chunk yet.
    pub(crate) fn empty_source(&self, keys: &Keys) -> Result<Source> {
        let encrypts = |profile| profile != EpochProfile::None;
        if !keys.can_read() && self.config().epochs.iter().all(|epoch| encrypts(epoch.profile)) {
            return Err(BackupError::Refused(
                "these keys can only write: a client cannot read the content of files".into(),
            ));
        }
        let epochs = self.config().epochs.iter().map(|epoch| EpochReader {
            number: epoch.number,
            profile: epoch.profile,
            keys: keys.data_keys(epoch.number),
        });
        let (backend, scratch) = (Arc::clone(self.backend()), Arc::clone(self.scratch()));
        Ok(Source::new(backend, scratch, self.id(), keys.identifiers.clone(), epochs.collect()))
    }

    /// The chunks that `client` need not store again, with their packs, and the documents that
    /// cannot be read. They are in packs that the storage lists, that no plan names and no reader
    /// found damaged, and on which the client may rely ([`Verified::lets`]).
    pub(crate) fn present(
        &self,
        keys: &Keys,
        client: Option<&Fingerprint>,
        now: u32,
    ) -> Result<(Present, Vec<ObjectHash>, Vec<BackupError>)> {
        let mut absent = self.plans(keys, now)?.planned();
        let (verified, mut unreadable) = self.verified(keys, now)?;
        absent.extend(verified.damaged());
        let listed = self.listed_packs()?;
        let mut packs = Vec::new();
        let mut present = Present::new(Arc::clone(self.scratch()));
        unreadable.extend(self.indexes(keys, now, &mut |pack, standing| {
            let is_listed = listed.get(&pack.hash) == Some(pack.bytes);
            if can_rely(is_listed, absent.contains(&pack.hash))
                && verified.lets(client, pack, standing)?
            {
                packs.push(pack.hash);
                present.add(pack)?;
            }
            Ok(())
        })?);
        present.merge()?;
        packs.sort_unstable();
        packs.dedup();
        Ok((present, packs, unreadable))
    }
}

/// The packs that a storage lists, with their lengths: 40 bytes a pack.
pub(crate) struct ListedPacks(Vec<(ObjectHash, u64)>);

impl ListedPacks {
    /// The length of a pack, if it is there.
    pub(crate) fn get(&self, hash: &ObjectHash) -> Option<u64> {
        let at = self.0.binary_search_by_key(hash, |(hash, _)| *hash).ok()?;
        Some(self.0[at].1)
    }

    /// All packs with their lengths, by their hashes.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (ObjectHash, u64)> {
        self.0.iter().copied()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

/// Reads the chunks of a repository, and with them its trees.
pub struct Reader(pub(crate) Source);

impl ReadChunks for Reader {
    fn read(&self, kind: Kind, id: &Id) -> Result<Vec<u8>> {
        self.0.read(kind, id)
    }

    fn read_shared(&self, kind: Kind, id: &Id) -> Result<Arc<Vec<u8>>> {
        self.0.read_shared(kind, id)
    }
}

impl Reader {
    /// Whether two contents are the same bytes. Small files share chunks with their neighbours, so
    /// equal contents can have different parts.
    ///
    /// # Errors
    ///
    /// Errors of reading chunks.
    pub fn same_content(&self, a: &[Extent], b: &[Extent]) -> Result<bool> {
        if a == b {
            return Ok(true);
        }
        let (mut a, mut b) = (Bytes::new(self, a), Bytes::new(self, b));
        loop {
            a.fill()?;
            b.fill()?;
            let length = match (&a.part, &b.part) {
                (None, None) => return Ok(true),
                (Some(a), Some(b)) => a.length().min(b.length()),
                _ => return Ok(false),
            };
            let is_same = a.part.as_ref().zip(b.part.as_ref()).is_some_and(|(a, b)| match (a, b) {
                (
                    Extent::Data { id: a, offset: from_a, .. },
                    Extent::Data { id: b, offset: from_b, .. },
                ) => a == b && from_a == from_b,
                (Extent::Hole(_), Extent::Hole(_)) => true,
                _ => false,
            });
            if !is_same && a.start(length)? != b.start(length)? {
                return Ok(false);
            }
            a.skip(length);
            b.skip(length);
        }
    }
}

/// The bytes of a content, part by part.
struct Bytes<'a> {
    reader: &'a Reader,
    parts: ContentParts<'a>,
    /// The rest of the current part.
    part: Option<Extent>,
}

impl<'a> Bytes<'a> {
    fn new(reader: &'a Reader, content: &[Extent]) -> Self {
        Self { reader, parts: ContentParts::new(reader, content.to_vec()), part: None }
    }

    fn fill(&mut self) -> Result<()> {
        while self.part.as_ref().is_none_or(|part| part.length() == 0) {
            self.part = self.parts.next().transpose()?;
            if self.part.is_none() {
                break;
            }
        }
        Ok(())
    }

    /// The first `length` bytes of the current part. A part of a file is at most a chunk, unless it
    /// is a hole.
    fn start(&self, length: u64) -> Result<Vec<u8>> {
        let at = |byte: u64| usize::try_from(byte).unwrap_or(usize::MAX);
        Ok(match &self.part {
            Some(Extent::Inline(bytes)) => bytes[..at(length)].to_vec(),
            Some(Extent::Data { id, offset, .. }) => {
                let chunk = self.reader.read_shared(Kind::Data, id)?;
                let range = chunk.get(at(*offset)..at(offset + length));
                range
                    .ok_or_else(|| {
                        BackupError::damaged(
                            format!("data {id}"),
                            "it is shorter than its reference",
                        )
                    })?
                    .to_vec()
            }
            Some(Extent::Hole(_)) => vec![0; at(length)],
            Some(Extent::List { .. }) | None => Vec::new(),
        })
    }

    fn skip(&mut self, by: u64) {
        match &mut self.part {
            Some(Extent::Inline(bytes)) => {
                bytes.drain(..usize::try_from(by).unwrap_or(usize::MAX).min(bytes.len()));
            }
            Some(Extent::Data { offset, length, .. }) => {
                *offset += by;
                *length -= by;
            }
            Some(Extent::Hole(length)) => *length -= by,
            Some(Extent::List { .. }) | None => {}
        }
    }
}

impl Repository {
    /// A reader of everything in the repository, and the indexes that cannot be read: chunks that
    /// only they name cannot be found.
    ///
    /// # Errors
    ///
    /// Errors of the storage; [`BackupError::Refused`] if `keys` read no data.
    pub fn reader(&self, keys: &Keys, now: u32) -> Result<(Reader, Vec<BackupError>)> {
        let (source, unreadable) = self.source(keys, now)?;
        Ok((Reader(source), unreadable))
    }
}

/// The snapshot that a user means: `latest`, `latest~1` for the one before, or the start of an
/// identifier, of at least 4 digits.
///
/// `latest` never means a snapshot that does not count. If there are several clients, it needs one:
/// `client`.
///
/// # Errors
///
/// [`BackupError::Refused`] if there is none, or if there are several.
pub fn select<'a>(
    snapshots: &'a [Listed],
    name: &str,
    client: Option<&Fingerprint>,
) -> Result<&'a Listed> {
    let refused = |why: String| BackupError::Refused(why);
    if snapshots.is_empty() {
        return Err(BackupError::Empty);
    }
    if let Some(before) = name.strip_prefix("latest") {
        let before = match before.strip_prefix('~') {
            None if before.is_empty() => Some(0),
            None => None,
            Some(before) => before.parse::<usize>().ok(),
        };
        let before = before.ok_or_else(|| {
            BackupError::NotFound(format!("\"{name}\" is not \"latest\" or \"latest~1\""))
        })?;
        let counts = |listed: &&Listed| listed.standing.counts();
        let is_meant = |listed: &&Listed| {
            client.is_none_or(|client| listed.snapshot.client.as_ref() == Some(client))
        };
        let mut newest: Vec<&Listed> = snapshots.iter().filter(counts).filter(is_meant).collect();
        let clients: BTreeSet<_> = newest.iter().map(|listed| &listed.snapshot.client).collect();
        if clients.len() > 1 {
            // Times and host names are claims of a client. A stolen client could date its snapshot
            // last.
            let names: Vec<String> = clients
                .iter()
                .map(|client| client.as_ref().map_or("unsigned".into(), Fingerprint::to_hex))
                .collect();
            return Err(refused(format!(
                "\"{name}\" is ambiguous, because there are snapshots of several clients: choose one with --client ({})",
                names.join(", ")
            )));
        }
        newest.sort_by_key(|listed| listed.snapshot.number);
        let place = newest.len().checked_sub(before + 1);
        return place.map(|place| newest[place]).ok_or_else(|| {
            BackupError::NotFound(match newest.len() {
                0 if snapshots.iter().any(|listed| listed.is_unattested) => {
                    "no snapshot counts, because the client is revoked or removed: name a snapshot by its identifier, or let the owner attest \
                     the newest one that is genuine (talaria backup attest)"
                        .into()
                }
                0 => "the repository has no snapshot that counts".into(),
                1 => format!("there is no snapshot {name}: the repository has 1 snapshot"),
                count => format!("there is no snapshot {name}: the repository has {count} snapshots"),
            })
        });
    }
    let is_start =
        (4..=64).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_start {
        return Err(BackupError::NotFound(format!(
            "\"{name}\" is not a snapshot: use \"latest\", or at least 4 digits of an identifier"
        )));
    }
    let name = name.to_lowercase();
    let mut found = snapshots.iter().filter(|listed| listed.id.to_string().starts_with(&name));
    match (found.next(), found.next()) {
        (Some(one), None) => Ok(one),
        (None, _) => Err(BackupError::NotFound(format!("there is no snapshot {name}"))),
        _ => Err(refused(format!("several snapshots start with {name}: use more digits"))),
    }
}
