//! A repository that is the one that the user knows, and the user's place in it.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use talaria_backup::{
    Backend, BackupError, Change, DocumentStanding, Drill, Expected, Heads, Id, InitOptions,
    Irregularity, Keys, Listed, LocalCopies, Reader, Repository, Role, State, heads,
    irregularities, select,
};
use talaria_message::openpgp::{Cert, Fingerprint};
use talaria_message::{Secrets, SigningKey};
use talaria_store::Query;

use crate::backup::authority::Authority;
use crate::backup::error::ClientError;
use crate::backup::health::Health;
use crate::backup::notice::Notice;
use crate::parsed::described;

/// Where objects are read from that this machine has read before.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ReadFrom {
    /// The storage: what is read is what a restore on another machine would get.
    Storage,
    /// This machine's copies, which are kept in its record of the repository.
    LocalCopies,
}

/// The repository to open, and what its user has and expects.
pub struct ClientOptions<'a> {
    /// The storage.
    pub backend: Arc<dyn Backend>,
    /// The name of the place, which is the same wherever the user stands. Another repository than
    /// the last one in this place is refused, unless the owner is given.
    pub place: String,
    /// The folder of this machine's records of repositories.
    pub state: &'a Path,
    /// The owner, if the user knows who it is.
    pub owner: Option<Fingerprint>,
    /// Snapshots that must be there, or have been forgotten by somebody with the right to do so.
    pub heads: &'a [Id],
    /// Where objects are read from that this machine has read before.
    pub read_from: ReadFrom,
    /// A function that returns the user's copy of a certificate, which may have revocations that
    /// the repository lacks.
    pub known: &'a mut dyn FnMut(&Fingerprint) -> Option<Cert>,
    /// The certificates of the user's secret keys.
    pub own: Vec<Cert>,
    /// The user's secrets. Keys that are [elsewhere](Secrets::elsewhere) are tried for all readers
    /// and clients, too.
    pub secrets: Secrets,
}

/// A repository that is the one that the user knows, and the user's place in it.
///
/// [`Notice`]s are told as they are found, so also those before an error.
pub struct Client {
    /// The repository.
    pub repository: Repository,
    /// This machine's record of it.
    pub state: State,
    /// What the user can decrypt of it.
    pub keys: Keys,
    /// The certificates of the user's secret keys.
    pub own: Vec<Cert>,
}

impl Client {
    /// Makes a repository at `now`, in seconds since 1970, and remembers it in the folder `state`
    /// as the one of its `place`, so that the next use is not the first. The function gives the
    /// name of the place when the repository is there: the real path of a folder is known then.
    ///
    /// # Errors
    ///
    /// The errors of [`Repository::init`], and of the file system.
    pub fn init(
        backend: Arc<dyn Backend>,
        (state, place): (&Path, impl FnOnce() -> String),
        options: &InitOptions<'_>,
        signer: &mut SigningKey,
        now: u32,
    ) -> Result<Repository, BackupError> {
        let repository = Repository::init(backend, options, signer, now)?;
        State::remember_place(state, &place(), repository.id())?;
        let (owner, number) = (&repository.config().owner, repository.config().number);
        State::open(state, repository.id())?.remember(owner, number, &Heads::new())?;
        Ok(repository)
    }

    /// Opens a repository at `now`, in seconds since 1970, and decrypts its keys.
    ///
    /// It must be the repository that this machine knows by its place, with the owner that the user
    /// named, or else the known one, and its configuration may not be older than the one seen
    /// before. What was seen is remembered.
    ///
    /// # Errors
    ///
    /// [`ClientError::NoRepository`]; [`ClientError::HeadMissing`];
    /// [`BackupError::Refused`] if it is not the known repository, or was rolled back;
    /// [`BackupError::NoKey`]; errors of the storage, of the secrets and of the file system.
    pub fn open(
        options: ClientOptions<'_>,
        now: u32,
        tell: &mut dyn FnMut(Notice),
    ) -> Result<Self, ClientError> {
        let ClientOptions { mut backend, place, state: folder, read_from, own, .. } = options;
        let id = match Repository::id_in(&*backend) {
            Err(BackupError::Missing { .. }) => return Err(ClientError::NoRepository { place }),
            id => id?,
        };
        // A user who gives the owner's fingerprint knows which repository to expect.
        if options.owner.is_none() {
            State::check_place(folder, &place, id)?;
        }
        let mut state = State::open(folder, id)?;
        if read_from == ReadFrom::LocalCopies {
            backend = Arc::new(LocalCopies::new(backend, state.folder().join("copies")));
        }
        let is_first_use = state.expected.owner.is_none() && options.owner.is_none();
        let owner = options.owner.or_else(|| state.expected.owner.clone());
        let expected = Expected { owner, configuration: state.expected.configuration };
        let mut repository = Repository::open(backend, &expected, options.known, now)?;
        repository.set_scratch(state.scratch());
        State::remember_place(folder, &place, id)?;
        let owner = repository.config().owner.clone();
        if is_first_use {
            tell(Notice::FirstUse { owner: owner.clone() });
        }
        if let DocumentStanding::Doubtful(signer, why) = repository.standing() {
            tell(Notice::DoubtfulConfiguration { signer: signer.clone(), why: why.clone() });
        }
        if let Some(configuration) = repository.clock_behind(now) {
            tell(Notice::ClockBehind { now, configuration });
        }
        let mut secrets = options.secrets;
        let mut recipients: Vec<Fingerprint> = own.iter().map(Cert::fingerprint).collect();
        if secrets.elsewhere.is_some() {
            let config = repository.config();
            recipients.extend(config.readers.iter().chain(&config.clients).cloned());
        }
        let keys = repository.unlock(&mut secrets, &recipients)?;
        keys.missing().iter().cloned().map(Notice::MissingKeys).for_each(&mut *tell);
        state.remember(&owner, repository.config().number, &Heads::new())?;
        let client = Self { repository, state, keys, own };
        client.expect(options.heads, now)?;
        Ok(client)
    }

    /// Refuses a repository that lacks one of these snapshots: somebody has put back an old state.
    /// A snapshot that somebody with the right to do so has forgotten is not missing.
    ///
    /// # Errors
    ///
    /// [`ClientError::HeadMissing`]; errors of the storage.
    pub fn expect(&self, heads: &[Id], now: u32) -> Result<(), ClientError> {
        if heads.is_empty() {
            return Ok(());
        }
        let (listed, forgotten, _) = self.repository.survey(&self.keys, now)?;
        let is_there = |head: &Id| {
            let is_it = |one: &Listed| one.id == *head && one.standing.counts();
            forgotten.contains(head) || listed.iter().any(is_it)
        };
        match heads.iter().find(|head| !is_there(head)) {
            None => Ok(()),
            Some(head) => Err(ClientError::HeadMissing { head: *head }),
        }
    }

    /// All snapshots, oldest first, and the faults in their chains. Tells what is wrong with them,
    /// and remembers the newest of each client.
    ///
    /// # Errors
    ///
    /// Errors of the storage and of the file system.
    pub fn snapshots(
        &mut self,
        now: u32,
        tell: &mut dyn FnMut(Notice),
    ) -> Result<(Vec<Listed>, Vec<Irregularity>), ClientError> {
        let (listed, forgotten, unreadable) = self.repository.survey(&self.keys, now)?;
        unreadable.into_iter().map(Notice::Unreadable).for_each(&mut *tell);
        let wrong = irregularities(&listed, &forgotten, &self.state.heads);
        wrong.iter().cloned().map(Notice::Irregular).for_each(tell);
        self.remember(&heads(&listed))?;
        Ok((listed, wrong))
    }

    /// The snapshot with this name, as [`select`] finds it, and a reader of the repository. Tells
    /// if it is not known to be good.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::snapshots`], [`select`] and [`Self::reader`].
    pub fn read(
        &mut self,
        name: &str,
        client: Option<&Fingerprint>,
        now: u32,
        tell: &mut dyn FnMut(Notice),
    ) -> Result<(Listed, Reader), ClientError> {
        let (listed, _) = self.snapshots(now, tell)?;
        let listed = select(&listed, name, client)?.clone();
        if !matches!(listed.standing, DocumentStanding::Good(_) | DocumentStanding::Past(..)) {
            tell(Notice::NotGood { id: listed.id, standing: listed.standing.clone() });
        }
        Ok((listed, self.reader(now, tell)?))
    }

    /// A reader of the repository. Tells which indexes cannot be read.
    ///
    /// # Errors
    ///
    /// [`BackupError::Refused`] if the user's keys read no content; errors of the storage.
    pub fn reader(&self, now: u32, tell: &mut dyn FnMut(Notice)) -> Result<Reader, ClientError> {
        let (reader, unreadable) = self.repository.reader(&self.keys, now)?;
        unreadable.into_iter().map(Notice::Unreadable).for_each(tell);
        Ok(reader)
    }

    /// The restore drills, oldest first. Tells which records cannot be read.
    ///
    /// # Errors
    ///
    /// Errors of the storage.
    pub fn drills(
        &self,
        now: u32,
        tell: &mut dyn FnMut(Notice),
    ) -> Result<Vec<Drill>, ClientError> {
        let (drills, unreadable) = self.repository.drills(&self.keys, now)?;
        unreadable.into_iter().map(Notice::Unreadable).for_each(tell);
        Ok(drills)
    }

    /// The newest snapshot of each client, and its last restore drill.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::snapshots`] and [`Self::drills`].
    pub fn health(
        &mut self,
        now: u32,
        tell: &mut dyn FnMut(Notice),
    ) -> Result<Health, ClientError> {
        let (listed, _) = self.snapshots(now, tell)?;
        Ok(Health::new(&listed, &self.drills(now, tell)?, now))
    }

    /// The only one of the user's certificates that has an authority.
    ///
    /// # Errors
    ///
    /// [`ClientError::NoAuthority`] if none has it; [`ClientError::WhichSigner`] if several have.
    pub fn holder(&self, authority: Authority) -> Result<&Cert, ClientError> {
        let config = self.repository.config();
        let able = self.own.iter().filter(|cert| authority.is_held(&cert.fingerprint(), config));
        match able.collect::<Vec<_>>()[..] {
            [cert] => Ok(cert),
            [] => Err(ClientError::NoAuthority { authority, owner: config.owner.clone() }),
            ref many => Err(ClientError::WhichSigner {
                candidates: many.iter().map(|cert| described(cert)).collect(),
            }),
        }
    }

    /// The reader or client that a query names by a fingerprint, or else the only one among the
    /// certificates that `find` has for it.
    ///
    /// # Errors
    ///
    /// [`ClientError::NotMember`] if there is none, or if there are several; errors of `find`.
    pub fn member<E: From<ClientError>>(
        &self,
        query: &Query,
        find: impl FnOnce() -> Result<Vec<Fingerprint>, E>,
    ) -> Result<Fingerprint, E> {
        let config = self.repository.config();
        let text = query.to_string().to_uppercase();
        let text = text.strip_prefix("0X").unwrap_or(&text);
        let mut members = config.readers.iter().chain(&config.clients);
        if let Some(found) = members.find(|one| one.to_hex() == text) {
            return Ok(found.clone());
        }
        let is_member = |one: &_| config.readers.contains(one) || config.clients.contains(one);
        let mut found = find()?.into_iter().filter(is_member);
        found
            .next()
            .filter(|_| found.next().is_none())
            .ok_or_else(|| ClientError::NotMember { query: query.to_string() }.into())
    }

    /// Changes who has access, and remembers the new configuration.
    ///
    /// # Errors
    ///
    /// The errors of [`Repository::change`], and of the file system.
    pub fn change(
        &mut self,
        change: &Change<'_>,
        signer: &mut SigningKey,
        now: u32,
    ) -> Result<(), BackupError> {
        self.repository.change(&self.keys, change, signer, now)?;
        self.remember(&Heads::new())
    }

    /// Gives a reader or client exactly these roles. If it may not forget snapshots any more, the
    /// signer answers for those that it has forgotten: else they would be missing.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::change`] and of [`Repository::renew_tombstones`].
    pub fn set_roles(
        &mut self,
        member: &Fingerprint,
        roles: BTreeSet<Role>,
        (name, signer): (&Fingerprint, &mut SigningKey),
        now: u32,
    ) -> Result<(), BackupError> {
        if !roles.contains(&Role::Forget) {
            self.repository.renew_tombstones(&self.keys, member, (name, &mut *signer), now)?;
        }
        self.change(&Change::SetRoles(member, roles), signer, now)
    }

    /// Remembers the configuration that holds, and the newest snapshots.
    fn remember(&mut self, heads: &Heads) -> Result<(), BackupError> {
        let config = self.repository.config();
        self.state.remember(&config.owner, config.number, heads)
    }
}

/// The snapshots that count and are of a client, if there is one.
pub fn counting<'a>(
    listed: &'a [Listed],
    client: Option<&'a Fingerprint>,
) -> impl Iterator<Item = &'a Listed> {
    listed.iter().filter(move |one| {
        let is_of = |client| one.snapshot.client.as_ref() == Some(client);
        one.standing.counts() && client.is_none_or(is_of)
    })
}
