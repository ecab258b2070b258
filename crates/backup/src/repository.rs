//! A repository: its configuration, its keys and its snapshots.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use talaria_cert::timestamp;
use talaria_message::openpgp::Fingerprint;
use talaria_message::openpgp::cert::Cert;
use talaria_message::openpgp::serialize::SerializeInto as _;
use talaria_message::{
    CLOCK_SKEW_S, DecryptionKey, EncryptOptions, Recipients, Rules, Secrets, SigningKey,
    decryption_keys, encrypt, pack, read_cert, read_certs,
};
use zeroize::Zeroizing;

use crate::backend::{Backend, read_object};
use crate::config::{Epoch, RepositoryConfig, Role};
use crate::document::{self, DocumentStanding, is_revoked, verifier};
use crate::epoch::{EpochKey, EpochProfile, Sealing, Use, cert_name, group_name, key_name};
use crate::error::{BackupError, Result};
use crate::forgotten::Forgotten;
use crate::id::{GroupSecret, Id, Identifiers, Kind, RepositoryId, from_hex, in_folder, to_hex};
use crate::listed::Listed;
use crate::snapshot::{PREPARED, SNAPSHOTS, Snapshot};
use crate::table::{InMemory, Scratch};
use crate::text::Lines;

/// The object that makes a place a repository.
const MARK: &str = "talaria-backup";
const MARK_DOMAIN: &str = "talaria backup repository";
const GROUP_DOMAIN: &str = "talaria backup group secret";
/// The maximum length of a certificate, or of the keys of an epoch, in bytes.
pub(crate) const CERT_BYTES_MAX: u64 = 4 << 20;
/// The maximum length of all certificates of a repository together, in bytes.
const ALL_CERTS_BYTES_MAX: usize = 64 << 20;
/// The maximum length of a snapshot or configuration in bytes.
pub(crate) const SIGNED_BYTES_MAX: u64 = 16 << 20;
/// The maximum number of certificates in a repository.
const CERTS_MAX: usize = 10_000;

/// The options of a new repository.
pub struct InitOptions<'a> {
    /// The certificate of the owner.
    pub owner: &'a Cert,
    /// The certificates that can read everything.
    pub readers: &'a [Cert],
    /// The packets.
    pub profile: EpochProfile,
    /// Snapshots and indexes must be signed.
    pub signed: bool,
}

/// Facts about a repository from an earlier use.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Expected {
    /// The owner.
    pub owner: Option<Fingerprint>,
    /// The highest number of a configuration.
    pub configuration: u32,
}

/// A repository with its configuration.
pub struct Repository {
    backend: Arc<dyn Backend>,
    id: RepositoryId,
    config: RepositoryConfig,
    /// Whose word the configuration is.
    standing: DocumentStanding,
    /// The BLAKE3 hash of the text of the configuration.
    hash: [u8; 32],
    certs: Arc<[Cert]>,
    /// Where large tables go.
    scratch: Arc<dyn Scratch>,
    /// All keys that have or had the role `prune`.
    pruners: BTreeSet<Fingerprint>,
}

/// The secrets that a reader or a client has from a repository.
pub struct Keys {
    pub(crate) identifiers: Identifiers,
    group: GroupSecret,
    /// Index keys by epoch, with secrets.
    index: BTreeMap<u32, Cert>,
    /// Data keys by epoch, with secrets; none for clients.
    data: BTreeMap<u32, Cert>,
    /// Why the keys of an epoch are not here.
    missing: Vec<Arc<BackupError>>,
}

/// A change of the people who have access.
#[derive(Clone, Debug)]
pub enum Change<'a> {
    /// A reader can read everything from now on, old snapshots included.
    AddReader(&'a Cert),
    /// A client can create snapshots from now on.
    AddClient(&'a Cert),
    /// A reader or client loses access to everything that is written from now on.
    Remove(&'a Fingerprint),
    /// A reader or client has exactly these roles from now on, beside those that it has anyway.
    SetRoles(&'a Fingerprint, BTreeSet<Role>),
}

impl Repository {
    /// Makes a repository, owned and signed by `signer`, at `now` in seconds since 1970.
    ///
    /// # Errors
    ///
    /// [`BackupError::Refused`] if the place holds a repository, finished or not, or if there is no
    /// reader; [`BackupError::Message`] for a reader that cannot be encrypted to.
    pub fn init(
        backend: Arc<dyn Backend>,
        options: &InitOptions<'_>,
        signer: &mut SigningKey,
        now: u32,
    ) -> Result<Self> {
        if options.readers.is_empty() {
            return Err(BackupError::Refused("a repository needs a reader".into()));
        }
        match backend.get(MARK, 0) {
            Err(BackupError::Missing { .. }) => {}
            Ok(_) | Err(BackupError::Damaged { .. }) => {
                return Err(BackupError::Occupied);
            }
            Err(error) => return Err(error),
        }
        for folder in ["config", "certs", "keys", "packs", "indexes", "snapshots"] {
            if !backend.list(folder)?.is_empty() {
                return Err(BackupError::Refused(format!(
                    "there is an unfinished or damaged repository: it has a folder \"{folder}\" but no file \
                     \"{MARK}\"; choose another place, or delete this one"
                )));
            }
        }
        let mut id = RepositoryId([0; 16]);
        let mut group = GroupSecret(Zeroizing::new([0; 32]));
        random(&mut id.0)?;
        random(&mut *group.0)?;
        let certs: Vec<Cert> =
            std::iter::once(options.owner).chain(options.readers).cloned().collect();
        let fingerprints = |certs: &[Cert]| certs.iter().map(Cert::fingerprint).collect();
        let mut repository = Self {
            backend,
            scratch: Arc::new(InMemory),
            pruners: BTreeSet::new(),
            id,
            config: RepositoryConfig {
                number: 0,
                time: now,
                previous: None,
                group: group.hash(id),
                signed: options.signed,
                owner: options.owner.fingerprint(),
                signers: BTreeMap::new(),
                readers: fingerprints(options.readers),
                clients: BTreeSet::new(),
                epochs: Vec::new(),
            },
            standing: DocumentStanding::Good(options.owner.fingerprint()),
            hash: [0; 32],
            certs: certs.into(),
        };
        repository.write_certs(options.readers.iter().chain([options.owner]))?;
        repository.try_to_replace(options.owner)?;
        repository.begin_epoch(options.profile, now)?;
        for reader in options.readers {
            repository.give_group(&group, reader, now)?;
        }
        repository.write_config(&repository.config.clone(), signer, now)?;
        // Whoever finds the mark finds all the rest.
        repository.backend.sync()?;
        let mark = format!("{MARK_DOMAIN} 1\nid {id}\n");
        repository.backend.put(MARK, &[mark.as_bytes()])?;
        repository.backend.sync()?;
        Ok(repository)
    }

    /// The id of the repository in a place, which is not authenticated before [`Self::open`].
    ///
    /// # Errors
    ///
    /// [`BackupError::Missing`] if there is no repository; [`BackupError::Newer`] if its format is
    /// newer.
    pub fn id_in(backend: &dyn Backend) -> Result<RepositoryId> {
        let mark = backend.get(MARK, 4096)?;
        let mut lines = Lines::open(MARK, &mark, MARK_DOMAIN, None)?;
        let id = lines.one("id")?.parse().map_err(|_| lines.damaged("its id is invalid"))?;
        lines.end()?;
        Ok(id)
    }

    /// Opens a repository at `now`, in seconds since 1970. `known` returns the caller's copy of a
    /// certificate, which may have revocations that the repository lacks.
    ///
    /// # Errors
    ///
    /// [`BackupError::Missing`] if there is no repository; [`BackupError::Newer`] if its format is
    /// newer; [`BackupError::Damaged`] if its configuration is not what its owner signed;
    /// [`BackupError::Refused`] if it is not the `expected` one.
    pub fn open(
        backend: Arc<dyn Backend>,
        expected: &Expected,
        known: &mut dyn FnMut(&Fingerprint) -> Option<Cert>,
        now: u32,
    ) -> Result<Self> {
        let id = Self::id_in(&*backend)?;
        let certs: Arc<[Cert]> = read_all_certs(&*backend, known)?.into();
        let verifier = verifier(certs.clone(), now);
        let mut numbers = Vec::new();
        for object in backend.list("config")? {
            let number = in_folder("config", &object.name);
            numbers.extend(number.filter(|number| RepositoryConfig::name(*number) == object.name));
        }
        numbers.sort_unstable();
        if numbers.is_empty()
            || numbers.iter().zip(1u32..).any(|(&number, expected)| number != expected)
        {
            return Err(BackupError::damaged("config", "configurations are missing in between"));
        }
        let mut pruners = BTreeSet::new();
        let mut newest: Option<(RepositoryConfig, DocumentStanding, [u8; 32])> = None;
        for number in numbers {
            let name = RepositoryConfig::name(number);
            let bytes = backend.get(&name, SIGNED_BYTES_MAX)?;
            let document = document::open(&name, &bytes, &mut Secrets::default(), &verifier)?;
            let config = RepositoryConfig::parse(&name, &document.text, id)?;
            let before = newest.as_ref().map(|(config, _, hash)| (config, hash));
            let standing = DocumentStanding::of(&document.signatures, |signer| match before {
                None => *signer == config.owner,
                Some((before, _)) => before.has_role(signer, Role::Admin),
            });
            if let DocumentStanding::Foreign(why) = standing {
                return Err(BackupError::damaged(name, why));
            }
            let follows = match before {
                None => config.number == 1 && config.previous.is_none(),
                Some((before, hash)) => {
                    config.number == before.number + 1
                        && config.previous.as_ref() == Some(hash)
                        && config.owner == before.owner
                }
            };
            if !follows {
                return Err(BackupError::damaged(
                    name,
                    "it does not follow the configuration before it",
                ));
            }
            pruners.extend(config.pruners());
            let hash = *blake3::hash(&document.text).as_bytes();
            newest = Some((config, standing, hash));
        }
        let (config, standing, hash) = newest.expect("there is a configuration");
        if let Some(owner) = &expected.owner
            && *owner != config.owner
        {
            return Err(BackupError::Refused(format!(
                "the repository belongs to {}, not to {}: somebody may have replaced it",
                config.owner.to_hex(),
                owner.to_hex()
            )));
        }
        if config.number < expected.configuration {
            return Err(BackupError::Refused(format!(
                "the repository has configuration {} now, and had {} before: somebody has rolled it back",
                config.number, expected.configuration
            )));
        }
        Ok(Self {
            backend,
            id,
            config,
            standing,
            hash,
            certs,
            scratch: Arc::new(InMemory),
            pruners,
        })
    }

    /// The id of the repository.
    #[must_use]
    pub fn id(&self) -> RepositoryId {
        self.id
    }

    /// The configuration that holds.
    #[must_use]
    pub fn config(&self) -> &RepositoryConfig {
        &self.config
    }

    /// Whose word the configuration is: never [`DocumentStanding::Foreign`] or
    /// [`DocumentStanding::Unsigned`].
    #[must_use]
    pub fn standing(&self) -> &DocumentStanding {
        &self.standing
    }

    /// The time of the configuration, if that is later than `now`: then this machine's clock is
    /// wrong. Reading needs no clock; what writes is [refused](BackupError::Refused).
    #[must_use]
    pub fn clock_behind(&self, now: u32) -> Option<u32> {
        let time = self.config.time;
        (time > now.saturating_add(CLOCK_SKEW_S)).then_some(time)
    }

    /// Refuses to write at a time before the configuration.
    ///
    /// # Errors
    ///
    /// [`BackupError::Refused`].
    pub fn check_clock(&self, now: u32) -> Result<()> {
        match self.clock_behind(now) {
            None => Ok(()),
            Some(time) => Err(BackupError::Refused(format!(
                "the clock of this machine says {}, and the repository has a configuration of {}: set the clock",
                timestamp(now),
                timestamp(time)
            ))),
        }
    }

    /// Everybody who had the role `prune` when the repository was opened, or before.
    pub(crate) fn pruners(&self) -> &BTreeSet<Fingerprint> {
        &self.pruners
    }

    pub(crate) fn certs(&self) -> Arc<[Cert]> {
        self.certs.clone()
    }

    /// The storage.
    #[must_use]
    pub fn backend(&self) -> &Arc<dyn Backend> {
        &self.backend
    }

    /// Keeps large tables in temporary files from now on, so that the memory of an operation has a
    /// limit. Without it they are in memory, at 32 bytes a chunk.
    pub fn set_scratch(&mut self, scratch: Arc<dyn Scratch>) {
        self.scratch = scratch;
    }

    /// Where large tables go.
    pub(crate) fn scratch(&self) -> &Arc<dyn Scratch> {
        &self.scratch
    }

    /// The certificate with this fingerprint, as the repository and the caller know it.
    #[must_use]
    pub fn cert(&self, fingerprint: &Fingerprint) -> Option<&Cert> {
        self.certs.iter().find(|cert| cert.fingerprint() == *fingerprint)
    }

    /// The keys of the first of `recipients` that is a reader or client, which `secrets` can
    /// decrypt.
    ///
    /// # Errors
    ///
    /// [`BackupError::NoKey`] if none is; [`BackupError::Message`] if the secrets do not decrypt
    /// them.
    pub fn unlock(&self, secrets: &mut Secrets, recipients: &[Fingerprint]) -> Result<Keys> {
        let readers = recipients.iter().filter(|one| self.config.readers.contains(one));
        let clients = recipients.iter().filter(|one| self.config.clients.contains(one));
        let Some(recipient) = readers.chain(clients).next() else {
            let names = |set: &BTreeSet<Fingerprint>| {
                set.iter().map(Fingerprint::to_hex).collect::<Vec<_>>().join(", ")
            };
            let has_clients = !self.config.clients.is_empty();
            return Err(BackupError::NoKey {
                readers: names(&self.config.readers),
                clients: if has_clients { names(&self.config.clients) } else { "none".into() },
            });
        };
        let verifier = verifier(Arc::new([]), 0);
        let mut read = |name: &str| -> Result<Zeroizing<Vec<u8>>> {
            let bytes = self.backend.get(name, CERT_BYTES_MAX)?;
            let document = document::open(name, &bytes, secrets, &verifier)?;
            if document.profile.is_none() {
                return Err(BackupError::damaged(name, "it is not encrypted"));
            }
            Ok(Zeroizing::new(document.text))
        };
        let name = group_name(recipient);
        let text = read(&name)?;
        let mut lines = Lines::open(&name, &text, GROUP_DOMAIN, None)?;
        let secret =
            from_hex(lines.one("secret")?).ok_or_else(|| lines.damaged("its secret is invalid"))?;
        lines.end()?;
        let group = GroupSecret(Zeroizing::new(secret));
        if group.hash(self.id) != self.config.group {
            return Err(BackupError::damaged(
                name,
                "it is not the secret that the configuration names",
            ));
        }
        let is_reader = self.config.readers.contains(recipient);
        let (mut index, mut data, mut missing) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        for epoch in &self.config.epochs {
            let Some((data_key, index_key)) = &epoch.keys else { continue };
            let name = key_name(epoch.number, recipient);
            // The other epochs can still be read.
            let keys = match read(&name) {
                Err(error @ (BackupError::Missing { .. } | BackupError::Damaged { .. })) => {
                    missing.push(Arc::new(error));
                    continue;
                }
                keys => keys?,
            };
            let damaged = |why: &str| Arc::new(BackupError::damaged(&name, why));
            let Ok(keys) = read_certs(&keys) else {
                missing.push(damaged("it holds no keys"));
                continue;
            };
            for key in keys.into_iter().flatten().filter(Cert::is_tsk) {
                if key.fingerprint() == *index_key {
                    index.insert(epoch.number, key);
                } else if key.fingerprint() == *data_key {
                    data.insert(epoch.number, key);
                }
            }
            if !index.contains_key(&epoch.number)
                || (is_reader && !data.contains_key(&epoch.number))
            {
                missing.push(damaged("it does not hold the keys that the configuration names"));
            }
        }
        Ok(Keys { identifiers: Identifiers::new(&group, self.id), group, index, data, missing })
    }

    /// All snapshots that were not forgotten, oldest first, and the objects among them that cannot
    /// be read.
    ///
    /// # Errors
    ///
    /// Errors of listing.
    pub fn snapshots(&self, keys: &Keys, now: u32) -> Result<(Vec<Listed>, Vec<BackupError>)> {
        let (found, _, unreadable) = self.survey(keys, now)?;
        Ok((found, unreadable))
    }

    /// Like [`Self::snapshots`], with those that were forgotten.
    ///
    /// # Errors
    ///
    /// Errors of listing.
    pub fn survey(
        &self,
        keys: &Keys,
        now: u32,
    ) -> Result<(Vec<Listed>, Forgotten, Vec<BackupError>)> {
        let verifier = verifier(self.certs.clone(), now);
        let mut secrets = keys.index_secrets();
        // First: a snapshot that is deleted meanwhile has its tombstone already.
        let objects = self.backend.list(SNAPSHOTS)?;
        let (forgotten, mut unreadable) = self.forgotten(keys, now)?;
        let (attested, errors) = self.attested(keys, now)?;
        unreadable.extend(errors);
        let mut found = Vec::new();
        for object in objects {
            let id = in_folder(SNAPSHOTS, &object.name);
            let Some(id) = id.filter(|id| !forgotten.contains(id)) else { continue };
            let name = Snapshot::name(&id);
            match self.snapshot((&name, id), keys, &mut secrets, &verifier, attested.contains(&id))
            {
                Ok(listed) => found.push(listed),
                Err(error) => unreadable.push(error),
            }
        }
        found.sort_by_key(|listed| (listed.snapshot.time, listed.snapshot.number, listed.id));
        Ok((found, forgotten, unreadable))
    }

    /// The snapshots that runs have prepared and not published, without those that cannot be read:
    /// a prune keeps what they need.
    ///
    /// # Errors
    ///
    /// Errors of the storage.
    pub(crate) fn prepared(&self, keys: &Keys, now: u32) -> Result<Vec<Listed>> {
        let verifier = verifier(self.certs.clone(), now);
        let mut secrets = keys.index_secrets();
        let mut found = Vec::new();
        for object in self.backend.list(PREPARED)? {
            let Some(id) = in_folder(PREPARED, &object.name) else { continue };
            match self.snapshot((&object.name, id), keys, &mut secrets, &verifier, false) {
                Ok(listed) => found.push(listed),
                Err(error) if error.is_of_storage() => return Err(error),
                // It was published or given up meanwhile, or no run has written it.
                Err(_) => {}
            }
        }
        Ok(found)
    }

    fn snapshot(
        &self,
        (name, id): (&str, Id),
        keys: &Keys,
        secrets: &mut Secrets,
        verifier: &talaria_message::Verifier<'_>,
        is_attested: bool,
    ) -> Result<Listed> {
        let damaged = |why: &str| BackupError::damaged(name, why);
        let (snapshot, signatures) =
            read_object(&*self.backend, name, SIGNED_BYTES_MAX, |bytes| {
                let document = document::open(name, bytes, secrets, verifier)?;
                if keys.identifiers.of(Kind::Snapshot, &document.text) != id {
                    return Err(damaged("its name is not the identifier of its content"));
                }
                let snapshot = Snapshot::parse(name, &document.text, self.id)?;
                let epoch = self.epoch(snapshot.epoch).ok_or_else(|| {
                    damaged(&format!("epoch {} is not in the configuration", snapshot.epoch))
                })?;
                if epoch.profile.packets() != document.profile {
                    return Err(damaged("its packets are not those of its epoch's profile"));
                }
                Ok((snapshot, document.signatures))
            })?;
        let is_client = |signer: &Fingerprint| snapshot.client.as_ref() == Some(signer);
        let may_create = |signer: &Fingerprint| {
            is_client(signer) && (is_attested || self.config.has_role(signer, Role::Create))
        };
        let standing = match (self.config.signed, &snapshot.client) {
            (false, None) => DocumentStanding::Unsigned,
            _ => DocumentStanding::of(&signatures, may_create),
        };
        let standing = match standing {
            // A thief of the key can give a snapshot any date.
            DocumentStanding::Doubtful(signer, why) if is_revoked(&signatures) && !is_attested => {
                DocumentStanding::Foreign(format!(
                    "{why} of its client {}, and the owner has not attested it or a later one",
                    signer.to_hex()
                ))
            }
            standing => standing,
        };
        let is_unattested =
            !standing.counts() && DocumentStanding::of(&signatures, is_client).counts();
        Ok(Listed { id, snapshot, standing, is_unattested })
    }

    /// Writes a snapshot, signed by its client, and returns its identifier. Everything it needs is
    /// durable before, and the snapshot is when this returns.
    ///
    /// # Errors
    ///
    /// Errors of the key and of the storage.
    pub fn write_snapshot(
        &self,
        keys: &Keys,
        snapshot: &Snapshot,
        signer: Option<&mut SigningKey>,
        now: u32,
    ) -> Result<Id> {
        let (id, sealed) = self.seal_snapshot(keys, snapshot, signer, now)?;
        self.put_snapshot(&id, &sealed)?;
        Ok(id)
    }

    /// The identifier of a snapshot, and the content of its object.
    pub(crate) fn seal_snapshot(
        &self,
        keys: &Keys,
        snapshot: &Snapshot,
        signer: Option<&mut SigningKey>,
        now: u32,
    ) -> Result<(Id, Vec<u8>)> {
        let text = snapshot.text(self.id);
        let id = keys.identifiers.of(Kind::Snapshot, text.as_bytes());
        let name = Snapshot::name(&id);
        let sealed = self.sealing(Use::Index, now)?.seal(&name, text.as_bytes(), signer, now)?;
        if sealed.len() as u64 > SIGNED_BYTES_MAX {
            return Err(BackupError::Refused(format!(
                "the snapshot names too many paths, tags or owners: its document may have {SIGNED_BYTES_MAX} bytes"
            )));
        }
        Ok((id, sealed))
    }

    /// Writes the object of a snapshot. What it needs is durable before.
    pub(crate) fn put_snapshot(&self, id: &Id, sealed: &[u8]) -> Result<()> {
        self.backend.sync()?;
        self.backend.put(&Snapshot::name(id), &[sealed])?;
        self.backend.sync()
    }

    /// Encrypts to the newest epoch.
    pub(crate) fn sealing(&self, used_for: Use, now: u32) -> Result<Sealing> {
        self.check_clock(now)?;
        let epoch = self.config.newest_epoch();
        let cert = match (&epoch.keys, used_for) {
            (None, _) => None,
            (Some((data, _)), Use::Data) => Some(data),
            (Some((_, index)), Use::Index) => Some(index),
        };
        let cert = cert.map(|fingerprint| {
            let missing = || BackupError::Missing { name: cert_name(fingerprint) };
            self.cert(fingerprint).ok_or_else(missing)
        });
        Sealing::new(epoch.profile, cert.transpose()?, epoch.created, now)
    }

    fn epoch(&self, number: u32) -> Option<&Epoch> {
        self.config.epochs.iter().find(|epoch| epoch.number == number)
    }

    /// Changes who has access, by a new configuration that `signer` signs. `keys` must be those of
    /// a reader.
    ///
    /// # Errors
    ///
    /// [`BackupError::Refused`] for a change that is none, or that would leave no reader;
    /// [`BackupError::Exists`] if somebody else has changed the configuration meanwhile.
    pub fn change(
        &mut self,
        keys: &Keys,
        change: &Change<'_>,
        signer: &mut SigningKey,
        now: u32,
    ) -> Result<()> {
        self.check_clock(now)?;
        let before = self.config.clone();
        let changed =
            self.apply(keys, change, now).and_then(|()| self.write_config(&before, signer, now));
        if changed.is_err() {
            self.config = before;
        }
        changed
    }

    fn apply(&mut self, keys: &Keys, change: &Change<'_>, now: u32) -> Result<()> {
        let refused = |why: String| Err(BackupError::Refused(why));
        match change {
            Change::SetRoles(fingerprint, roles) => self.set_roles(fingerprint, roles),
            Change::AddReader(cert) | Change::AddClient(cert) => {
                let is_reader = matches!(change, Change::AddReader(_));
                let fingerprint = cert.fingerprint();
                let set =
                    if is_reader { &mut self.config.readers } else { &mut self.config.clients };
                if !set.insert(fingerprint.clone()) {
                    return refused(format!("{} has this access already", fingerprint.to_hex()));
                }
                if is_reader {
                    self.config.clients.remove(&fingerprint);
                } else if self.config.readers.contains(&fingerprint) {
                    return refused(format!(
                        "{} is a reader, who can do more",
                        fingerprint.to_hex()
                    ));
                }
                let mut certs = self.certs.to_vec();
                certs.push((*cert).clone());
                self.certs = certs.into();
                self.write_certs([*cert])?;
                for epoch in &self.config.epochs {
                    if epoch.keys.is_none() {
                        continue;
                    }
                    let (index, data) =
                        (keys.index.get(&epoch.number), keys.data.get(&epoch.number));
                    let (Some(index), Some(data)) = (index, data) else {
                        return refused(
                            "only a reader can give access: no data keys are here".into(),
                        );
                    };
                    let data = is_reader.then_some(data);
                    self.give_keys(epoch.number, data.into_iter().chain([index]), cert, now)?;
                }
                self.give_group(&keys.group, cert, now)
            }
            Change::Remove(fingerprint) => {
                let was_reader = self.config.readers.remove(fingerprint);
                let was_client = self.config.clients.remove(fingerprint);
                if !was_reader && !was_client {
                    return refused(format!(
                        "{} is neither reader nor client",
                        fingerprint.to_hex()
                    ));
                }
                if self.config.readers.is_empty() {
                    return refused(format!(
                        "{} is the only reader, and nobody could read the repository without one; to add \
                         another one: talaria backup key add CERT",
                        fingerprint.to_hex()
                    ));
                }
                self.config.signers.remove(*fingerprint);
                self.begin_epoch(self.config.newest_epoch().profile, now)
            }
        }
    }

    fn set_roles(&mut self, fingerprint: &Fingerprint, roles: &BTreeSet<Role>) -> Result<()> {
        let refused =
            |why: &str| Err(BackupError::Refused(format!("{} {why}", fingerprint.to_hex())));
        if *fingerprint == self.config.owner {
            return refused("is the owner, who has all roles");
        }
        let before = self.config.signers.get(fingerprint);
        if before.map_or(roles.is_empty(), |before| before == roles) {
            return refused("has these roles already");
        }
        let (readers, clients) = (&self.config.readers, &self.config.clients);
        if !readers.contains(fingerprint) && !clients.contains(fingerprint) {
            return refused("is neither reader nor client, and cannot open the repository");
        }
        if roles.contains(&Role::Prune) && !readers.contains(fingerprint) {
            return refused("is no reader, and only readers can tell which packs are used");
        }
        if roles.is_empty() {
            self.config.signers.remove(fingerprint);
        } else {
            self.config.signers.insert(fingerprint.clone(), roles.clone());
        }
        Ok(())
    }

    /// Makes the keys of a new epoch and gives them to all readers and clients.
    fn begin_epoch(&mut self, profile: EpochProfile, now: u32) -> Result<()> {
        let number = self.config.epochs.last().map_or(1, |epoch| epoch.number + 1);
        let mut epoch = Epoch { number, created: now, profile, keys: None };
        if profile != EpochProfile::None {
            let data = EpochKey::generate(self.id, number, profile, Use::Data, now)?;
            let index = EpochKey::generate(self.id, number, profile, Use::Index, now)?;
            let recipients = self.config.readers.iter().chain(&self.config.clients);
            for recipient in recipients {
                let missing = || BackupError::Missing { name: cert_name(recipient) };
                let cert = self.cert(recipient).ok_or_else(missing)?;
                let mut plain = Zeroizing::new(Vec::new());
                if self.config.readers.contains(recipient) {
                    plain.extend_from_slice(&data.secret);
                }
                plain.extend_from_slice(&index.secret);
                self.put_for(&key_name(number, recipient), &plain, cert, now)?;
            }
            self.write_certs([&data.cert, &index.cert])?;
            epoch.keys = Some((data.cert.fingerprint(), index.cert.fingerprint()));
            let mut certs = self.certs.to_vec();
            certs.extend([data.cert, index.cert]);
            self.certs = certs.into();
        }
        self.config.epochs.push(epoch);
        Ok(())
    }

    fn give_keys<'a>(
        &self,
        epoch: u32,
        keys: impl Iterator<Item = &'a Cert>,
        to: &Cert,
        now: u32,
    ) -> Result<()> {
        let name = key_name(epoch, &to.fingerprint());
        let mut plain = Zeroizing::new(Vec::new());
        for key in keys {
            let bytes = key.as_tsk().to_vec();
            let bytes = bytes.map_err(|error| BackupError::damaged(&name, error.to_string()))?;
            plain.extend_from_slice(&Zeroizing::new(bytes));
        }
        self.put_for(&name, &plain, to, now)
    }

    fn give_group(&self, group: &GroupSecret, to: &Cert, now: u32) -> Result<()> {
        let text = Zeroizing::new(format!("{GROUP_DOMAIN} 1\nsecret {}\n", to_hex(&*group.0)));
        self.put_for(&group_name(&to.fingerprint()), text.as_bytes(), to, now)
    }

    /// Writes an object encrypted to one certificate. An object of that name is left from an
    /// earlier change: a failed one, or one that was taken back.
    fn put_for(&self, name: &str, plain: &[u8], to: &Cert, now: u32) -> Result<()> {
        let failed = |source| BackupError::Message { name: name.into(), source };
        let mut recipients = Recipients::default();
        recipients.add(to, Rules::default(), &mut |_| None, now).map_err(failed)?;
        let mut options = EncryptOptions::default();
        options.size = Some(plain.len() as u64);
        options.threads = 1;
        let mut sealed = Vec::new();
        encrypt(plain, &mut sealed, &recipients, &mut [], &options, now).map_err(failed)?;
        match self.backend.put(name, &[&sealed]) {
            Err(BackupError::Exists { .. }) => {}
            put => return put,
        }
        self.backend.delete(name)?;
        self.backend.put(name, &[&sealed])
    }

    fn write_certs<'a>(&self, certs: impl IntoIterator<Item = &'a Cert>) -> Result<()> {
        for cert in certs {
            let name = cert_name(&cert.fingerprint());
            let bytes = cert.to_vec();
            let bytes = bytes.map_err(|error| BackupError::damaged(&name, error.to_string()))?;
            match self.backend.put(&name, &[&bytes]) {
                Err(BackupError::Exists { .. }) => {}
                put => put?,
            }
        }
        Ok(())
    }

    /// Refuses a storage that replaces objects.
    fn try_to_replace(&self, cert: &Cert) -> Result<()> {
        let name = cert_name(&cert.fingerprint());
        match self.backend.put(&name, &[b""]) {
            Err(BackupError::Exists { .. }) => Ok(()),
            Ok(()) => Err(BackupError::Refused(
                "the storage replaces objects that are there; choose one that creates an object only if its name is free \
                 (S3: If-None-Match)"
                    .into(),
            )),
            Err(error) => Err(error),
        }
    }

    /// Signs and writes the configuration with the next number. `before` says who may do so.
    fn write_config(
        &mut self,
        before: &RepositoryConfig,
        signer: &mut SigningKey,
        now: u32,
    ) -> Result<()> {
        if let DocumentStanding::Doubtful(owner, why) = &self.standing {
            return Err(BackupError::Refused(format!(
                "the configuration is signed by {}, and {why}",
                owner.to_hex()
            )));
        }
        let config = &mut self.config;
        config.previous = (config.number > 0).then_some(self.hash);
        config.number += 1;
        config.time = now;
        let text = config.text(self.id);
        let name = RepositoryConfig::name(config.number);
        let mut message = Vec::new();
        let mut options = EncryptOptions::default();
        options.size = Some(text.len() as u64);
        pack(text.as_bytes(), &mut message, std::slice::from_mut(signer), &options, now)
            .map_err(|source| BackupError::Message { name: name.clone(), source })?;
        // A configuration that nobody can read would lock everybody out.
        let verifier = verifier(self.certs.clone(), now);
        let read = document::open(&name, &message, &mut Secrets::default(), &verifier)?;
        let standing =
            DocumentStanding::of(&read.signatures, |signer| before.has_role(signer, Role::Admin));
        if let DocumentStanding::Foreign(why) = &standing {
            return Err(BackupError::Refused(format!(
                "this key cannot sign the configuration: {why}"
            )));
        }
        self.backend.sync()?;
        self.backend.put(&name, &[&message])?;
        self.backend.sync()?;
        self.hash = *blake3::hash(text.as_bytes()).as_bytes();
        self.standing = standing;
        Ok(())
    }
}

impl Keys {
    /// The identifiers of chunks.
    #[must_use]
    pub fn identifiers(&self) -> &Identifiers {
        &self.identifiers
    }

    /// Whether the keys read the content of files.
    #[must_use]
    pub fn can_read(&self) -> bool {
        !self.data.is_empty()
    }

    /// The errors for epochs without a key. Data encrypted in such an epoch cannot be read.
    #[must_use]
    pub fn missing(&self) -> &[Arc<BackupError>] {
        &self.missing
    }

    /// The secrets that open indexes and snapshots.
    pub(crate) fn index_secrets(&self) -> Secrets {
        secrets(self.index.values())
    }

    /// The secret data keys of an epoch.
    pub(crate) fn data_keys(&self, epoch: u32) -> Vec<DecryptionKey> {
        secrets(self.data.get(&epoch).into_iter()).keys
    }
}

fn secrets<'a>(keys: impl Iterator<Item = &'a Cert>) -> Secrets {
    Secrets { keys: decryption_keys(keys, |_, _| None), ..Secrets::default() }
}

fn read_all_certs(
    backend: &dyn Backend,
    known: &mut dyn FnMut(&Fingerprint) -> Option<Cert>,
) -> Result<Vec<Cert>> {
    let (mut certs, mut bytes_left) = (Vec::new(), ALL_CERTS_BYTES_MAX);
    for object in backend.list("certs")? {
        if certs.len() == CERTS_MAX {
            return Err(BackupError::damaged(
                "certs",
                format!("it has more than {CERTS_MAX} certificates"),
            ));
        }
        let bytes = backend.get(&object.name, CERT_BYTES_MAX)?;
        bytes_left = bytes_left.checked_sub(bytes.len()).ok_or_else(|| {
            BackupError::damaged("certs", format!("it has more than {ALL_CERTS_BYTES_MAX} bytes"))
        })?;
        let Ok(cert) = read_cert(&bytes) else { continue };
        if cert_name(&cert.fingerprint()) != object.name {
            continue;
        }
        let cert = match known(&cert.fingerprint()) {
            None => cert,
            Some(more) => cert.clone().merge_public(more).unwrap_or(cert),
        };
        certs.push(cert);
    }
    Ok(certs)
}

pub(crate) fn random(out: &mut [u8]) -> Result<()> {
    getrandom::fill(out).map_err(|error| BackupError::Refused(format!("no random bytes: {error}")))
}
