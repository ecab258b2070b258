//! What the indexes of a repository say: for readers, and for a client that deduplicates.

use std::collections::HashMap;
use std::sync::Arc;

use talaria_message::openpgp::Fingerprint;

use crate::chunks::ReadChunks;
use crate::config::Role;
use crate::document::{self, Standing, verifier};
use crate::epoch::Profile;
use crate::error::{BackupError, Result};
use crate::id::{Id, Kind, ObjectHash};
use crate::index::{self, INDEX_BYTES_MAX, IndexedPack};
use crate::located::Present;
use crate::pack::pack_of_name;
use crate::repository::{Keys, Listed, Repository};
use crate::source::{EpochReader, Source};

impl Repository {
    /// Calls `each` with every pack of every index and whose word the index is. Returns the indexes that cannot be
    /// read.
    pub(crate) fn indexes(
        &self,
        keys: &Keys,
        now: u32,
        each: &mut dyn FnMut(&IndexedPack, &Standing),
    ) -> Result<Vec<BackupError>> {
        let verifier = verifier(self.certs(), now);
        let mut secrets = keys.index_secrets();
        let mut unreadable = Vec::new();
        for object in self.backend().list("indexes")? {
            let name = object.name;
            let hash =
                name.strip_prefix("indexes/").and_then(|hash| hash.parse::<ObjectHash>().ok());
            let Some(hash) = hash else { continue };
            let mut read = || -> Result<()> {
                let bytes = self.backend().get(&name, INDEX_BYTES_MAX)?;
                if ObjectHash::of(&bytes) != hash {
                    return Err(BackupError::damaged(
                        &name,
                        "its name is not the hash of its content",
                    ));
                }
                let document = document::open(&name, &bytes, &mut secrets, &verifier)?;
                let encrypts = self.config().epochs.iter().map(|epoch| epoch.profile.packets());
                if !encrypts.into_iter().any(|packets| packets == document.profile) {
                    return Err(BackupError::damaged(&name, "no epoch has packets like its own"));
                }
                let may_create =
                    |signer: &Fingerprint| self.config().has_role(signer, Role::Create);
                let standing = match Standing::of(&document.signatures, may_create) {
                    Standing::Foreign(_)
                        if !self.config().signed && document.signatures.is_empty() =>
                    {
                        Standing::Unsigned
                    }
                    standing => standing,
                };
                for pack in index::parse(&name, &document.text, self.id())? {
                    each(&pack, &standing);
                }
                Ok(())
            };
            if let Err(error) = read() {
                unreadable.push(error);
            }
        }
        Ok(unreadable)
    }

    /// The lengths of the packs that the storage lists.
    pub(crate) fn listed_packs(&self) -> Result<HashMap<ObjectHash, u64>> {
        let objects = self.backend().list("packs")?;
        let packs = objects
            .into_iter()
            .filter_map(|object| Some((pack_of_name(&object.name)?, object.bytes)));
        Ok(packs.collect())
    }

    /// A reader of all chunks, and the indexes that cannot be read. Any index may say where a chunk is: its
    /// identifier decides whether it is the right one.
    ///
    /// # Errors
    ///
    /// Errors of the storage; [`BackupError::Refused`] if `keys` read no data.
    pub(crate) fn source(&self, keys: &Keys, now: u32) -> Result<(Source, Vec<BackupError>)> {
        let mut source = self.empty_source(keys)?;
        let unreadable = self.indexes(keys, now, &mut |pack, _| source.add(pack))?;
        Ok((source, unreadable))
    }

    /// A reader that knows no chunk yet.
    pub(crate) fn empty_source(&self, keys: &Keys) -> Result<Source> {
        let encrypts = |profile| profile != Profile::None;
        if !keys.can_read() && self.config().epochs.iter().all(|epoch| encrypts(epoch.profile)) {
            return Err(BackupError::Refused(
                "these keys write only: a client cannot read the content of files".into(),
            ));
        }
        let epochs = self.config().epochs.iter().map(|epoch| EpochReader {
            profile: epoch.profile,
            keys: keys.data_keys(epoch.number),
        });
        let backend = Arc::clone(self.backend());
        Ok(Source::new(backend, self.id(), keys.identifiers.clone(), epochs.collect()))
    }

    /// The chunks that `client` need not store again: those that its own indexes name, in packs that
    /// the storage lists. Another client could have stored something else under the same name.
    pub(crate) fn present(
        &self,
        keys: &Keys,
        client: Option<&Fingerprint>,
        now: u32,
    ) -> Result<(Present, Vec<BackupError>)> {
        let listed = self.listed_packs()?;
        let mut present = Present::new();
        let unreadable = self.indexes(keys, now, &mut |pack, standing| {
            let is_own = match (standing, client) {
                (Standing::Good(signer), Some(client)) => signer == client,
                (Standing::Unsigned, None) => true,
                _ => false,
            };
            if is_own && listed.get(&pack.hash) == Some(&pack.bytes) {
                present.add(pack);
            }
        })?;
        Ok((present, unreadable))
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

impl Repository {
    /// A reader of everything in the repository, and the indexes that cannot be read: what only they name cannot be
    /// found.
    ///
    /// # Errors
    ///
    /// Errors of the storage; [`BackupError::Refused`] if `keys` read no data.
    pub fn reader(&self, keys: &Keys, now: u32) -> Result<(Reader, Vec<BackupError>)> {
        let (source, unreadable) = self.source(keys, now)?;
        Ok((Reader(source), unreadable))
    }
}

/// The snapshot that a user means: `latest`, `latest~1` for the one before, or the start of an identifier, of at least 4 digits.
///
/// `latest` never means a snapshot that does not count.
///
/// # Errors
///
/// [`BackupError::Refused`] if there is none, or if there are several.
pub fn select<'a>(snapshots: &'a [Listed], name: &str) -> Result<&'a Listed> {
    let refused = |why: String| BackupError::Refused(why);
    if let Some(before) = name.strip_prefix("latest") {
        let before = match before.strip_prefix('~') {
            None if before.is_empty() => Some(0),
            None => None,
            Some(before) => before.parse::<usize>().ok(),
        };
        let before = before
            .ok_or_else(|| refused(format!("\"{name}\" is not \"latest\" or \"latest~1\"")))?;
        let counts = |listed: &&Listed| !matches!(listed.standing, Standing::Foreign(_));
        let mut newest: Vec<&Listed> = snapshots.iter().filter(counts).collect();
        newest.sort_by_key(|listed| (listed.snapshot.time, listed.snapshot.number));
        let place = newest.len().checked_sub(before + 1);
        return place.map(|place| newest[place]).ok_or_else(|| {
            refused(match newest.len() {
                0 => "the repository has no snapshot that counts".into(),
                1 => format!("there is no snapshot {name}: the repository has one"),
                count => format!("there is no snapshot {name}: the repository has {count}"),
            })
        });
    }
    let is_start =
        (4..=64).contains(&name.len()) && name.bytes().all(|octet| octet.is_ascii_hexdigit());
    if !is_start {
        return Err(refused(format!(
            "\"{name}\" names no snapshot: use \"latest\", or at least 4 digits of an identifier"
        )));
    }
    let name = name.to_lowercase();
    let mut found = snapshots.iter().filter(|listed| listed.id.to_string().starts_with(&name));
    match (found.next(), found.next()) {
        (Some(one), None) => Ok(one),
        (None, _) => Err(refused(format!("there is no snapshot {name}"))),
        _ => Err(refused(format!("there are several snapshots {name}…: use more digits"))),
    }
}
