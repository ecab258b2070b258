//! The key store: secret keys in a private folder, one file per certificate.
//!
//! `docs/formats/keys.md` describes the layout. A file is a binary transferable secret key (RFC 9580, section
//! 10.2), named by the fingerprint of its certificate: `FINGERPRINT.pgp`. Its secrets are encrypted with a
//! passphrase by the means of OpenPGP, unless the user has chosen no passphrase. talaria refuses the folder
//! and its files if other users may access them. To change a file, talaria writes a complete new one to disk
//! and renames it. A writer holds a lock on the folder, and removes the temporary files of writers that were killed.
//!
//! Unlocked keys are never written to disk and end with the process. Sequoia keeps them encrypted in memory
//! between uses and overwrites them on drop. An Ed25519 key that is ready to sign is in memory a second time,
//! not encrypted ([`talaria_message::SigningKey`]). The program itself must prevent that the system writes
//! pages of memory to disk: [`talaria_message::keep_secrets_in_memory`].
//!
//! The certificates of other people are not in the key store but in the certificate store, which also has the
//! public parts of these keys.

mod change;
mod generate;

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use openpgp::crypto::Signer;
use openpgp::packet::Key;
use openpgp::packet::key::KeyRole;
use openpgp::policy::Policy;
use openpgp::serialize::{Marshal as _, MarshalInto as _};
use talaria_cert::{Addressee, PacketRef, Summary, Tag, Validity, Verification};
use talaria_message::make::{self, is_stub, protected, with_secrets};
use talaria_message::{
    AskForKey, Revocations, openpgp, read_cert, read_certs, unsupported_cert, usable,
};
use talaria_store::{IngestOutcome, Query};

pub use change::{
    Added, MadeRevocation, Revocation, RevocationTarget, Subkey, revocation, unlocked,
};
pub use generate::NewKey;
pub use talaria_message::make::{
    GenerateOptions, Generated, KeyAlgorithm, KeyProfile, Protection, Rank, RevocationReason,
    SubkeyOptions, SubkeyUse,
};

use crate::error::{Error, of_make};
use crate::file_steps::{FolderLock, make_folder, remove, sync_folder};
use crate::parsed::described;
use crate::stores::Stores;

/// The extension of key files.
const EXTENSION: &str = "pgp";
/// The extension of the files of keys that are being generated.
const UNFINISHED: &str = "new";
/// The permission bits for group and others, which must not be set.
const OTHERS: u32 = 0o077;
/// The maximum length of a key file in octets: the largest certificate that a store accepts, and secrets.
const KEY_BYTES_MAX: u64 = talaria_cert::CERT_BYTES_MAX as u64 + (1 << 20);

/// The key store of a user.
#[derive(Clone, Debug)]
pub struct KeyStore {
    folder: PathBuf,
}

/// The result of importing a key.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Imported {
    /// The key is new.
    New,
    /// The key got new parts.
    Updated,
    /// The key store already had the key in full.
    Unchanged,
}

impl KeyStore {
    /// Opens the key store in `folder`. The folder is created when a key is written.
    ///
    /// # Errors
    ///
    /// [`Error::Exposed`] if other users may access the folder.
    pub fn open(folder: &Path) -> Result<Self, Error> {
        match fs::metadata(folder) {
            Ok(metadata) if metadata.is_dir() => check_private(folder, &metadata)?,
            Ok(_) => return Err(failed("read", folder, io::ErrorKind::NotADirectory.into())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed("read", folder, error)),
        }
        Ok(Self { folder: folder.to_owned() })
    }

    /// All keys, in the order of their fingerprints.
    ///
    /// # Errors
    ///
    /// [`Error::Exposed`], [`Error::KeyFile`] or [`Error::Io`] for the first unusable file.
    pub fn list(&self) -> Result<Vec<openpgp::Cert>, Error> {
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed("read", &self.folder, error)),
        };
        let mut paths = Vec::new();
        for entry in entries {
            let path = entry.map_err(|error| failed("read", &self.folder, error))?.path();
            // Skip temporary files that a crash has left.
            if path.extension().is_some_and(|extension| extension == EXTENSION) {
                paths.push(path);
            }
        }
        paths.sort();
        paths.iter().filter_map(|path| self.read(path).transpose()).collect()
    }

    /// The keys that match `query`.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::list`].
    pub fn find(&self, query: &Query) -> Result<Vec<openpgp::Cert>, Error> {
        if let Query::Fingerprint(bytes) = query {
            let version = if bytes.len() == 32 { 6 } else { 4 };
            if let Ok(fingerprint) = openpgp::Fingerprint::from_bytes(version, bytes)
                && let Some(cert) = self.get(&fingerprint)?
            {
                return Ok(vec![cert]);
            }
        }
        let mut certs = self.list()?;
        certs.retain(|cert| names(query, cert));
        Ok(certs)
    }

    /// The only key that matches `query`.
    ///
    /// # Errors
    ///
    /// [`Error::NoKey`]; [`Error::Ambiguous`]; the errors of [`Self::list`].
    pub fn one(&self, query: &Query) -> Result<openpgp::Cert, Error> {
        let mut found = self.find(query)?;
        match (found.pop(), &found[..]) {
            (Some(cert), []) => Ok(cert),
            (None, _) => Err(Error::NoKey { query: query.to_string() }),
            (Some(last), rest) => Err(Error::Ambiguous {
                query: query.to_string(),
                candidates: rest.iter().chain([&last]).map(described).collect(),
            }),
        }
    }

    /// The key with this fingerprint.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::list`].
    pub fn get(&self, fingerprint: &openpgp::Fingerprint) -> Result<Option<openpgp::Cert>, Error> {
        self.read(&self.path(fingerprint))
    }

    /// The path for the revocation certificate of a key. Its folder is created if it does not exist.
    ///
    /// # Errors
    ///
    /// [`Error::Io`].
    pub fn revocation_path(&self, fingerprint: &openpgp::Fingerprint) -> Result<PathBuf, Error> {
        let folder = self.folder.join("revocations");
        make_folder(&folder, 0o700).map_err(|error| failed("make", &folder, error))?;
        Ok(folder.join(format!("{}.asc", fingerprint.to_hex())))
    }

    /// The keys that are usable at `now` and have a user ID with the address of `user_id`.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::list`].
    pub fn with_address_of(&self, user_id: &str, now: u32) -> Result<Vec<openpgp::Cert>, Error> {
        let wanted = Addressee::of_user_id(user_id.as_bytes());
        let mut found = Vec::new();
        for cert in self.list()? {
            let has = cert.userids().any(|id| Addressee::of_user_id(id.userid().value()) == wanted);
            if has && summary(&cert, now)?.validity(now) == Validity::Valid {
                found.push(cert);
            }
        }
        Ok(found)
    }

    /// The path of the file of a key.
    #[must_use]
    pub fn path(&self, fingerprint: &openpgp::Fingerprint) -> PathBuf {
        self.folder.join(format!("{}.{EXTENSION}", fingerprint.to_hex()))
    }

    /// Adds the key `cert`, or merges it into the stored copy. Secrets already in the key store keep their
    /// passphrase; new secrets without a passphrase get `protection`. Stubs, which GnuPG writes in place of
    /// secrets that are elsewhere, are not imported.
    ///
    /// # Errors
    ///
    /// [`Error::NoSecret`] if `cert` has no secret; the errors of [`Self::list`].
    pub fn import(&self, cert: openpgp::Cert, protection: &Protection) -> Result<Imported, Error> {
        let name = cert.fingerprint().to_hex();
        let cert = with_secrets(cert, &mut |key| Ok((!is_stub(&key)).then_some(key)))
            .and_then(|cert| protected(cert, protection))
            .map_err(|error| of_make("import", &name, error))?;
        if !cert.is_tsk() {
            return Err(Error::NoSecret { name: cert.fingerprint().to_hex() });
        }
        let _lock = self.lock()?;
        let Some(ours) = self.get(&cert.fingerprint())? else {
            self.write(&cert)?;
            return Ok(Imported::New);
        };
        let joined = without_secrets_of(cert, &ours)?.merge_public_and_secret(ours.clone());
        let joined = joined.map_err(|source| refused("join", &ours, source))?;
        if serialized(&joined)? == serialized(&ours)? {
            return Ok(Imported::Unchanged);
        }
        self.write(&joined)?;
        Ok(Imported::Updated)
    }

    /// The transferable secret keys that match any of `queries`, locked as they are in the key store. A
    /// missing secret is replaced by a stub, as GnuPG requires it.
    ///
    /// # Errors
    ///
    /// [`Error::NoKey`] for a query that matches no key, [`Error::Ambiguous`] for one that matches several;
    /// the errors of [`Self::list`].
    pub fn export(&self, queries: &[Query]) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        let mut seen = Vec::new();
        for query in queries {
            let cert = self.one(query)?;
            if !seen.contains(&cert.fingerprint()) {
                seen.push(cert.fingerprint());
                let tsk = cert.as_tsk().emit_secret_key_stubs(true);
                tsk.serialize(&mut bytes).map_err(|source| refused("write", &cert, source))?;
            }
        }
        Ok(bytes)
    }

    /// Deletes a key. Its certificate stays in the certificate store.
    ///
    /// # Errors
    ///
    /// [`Error::Io`].
    pub fn delete(&self, fingerprint: &openpgp::Fingerprint) -> Result<(), Error> {
        let _lock = self.lock()?;
        let path = self.path(fingerprint);
        remove(&path).map_err(|error| failed("delete", &path, error))?;
        self.sync()
    }

    /// Changes the key with this fingerprint, if it exists.
    fn update(
        &self,
        fingerprint: &openpgp::Fingerprint,
        change: impl FnOnce(openpgp::Cert) -> Result<openpgp::Cert, Error>,
    ) -> Result<openpgp::Cert, Error> {
        let _lock = self.lock()?;
        let ours = self.get(fingerprint)?;
        let ours = ours.ok_or_else(|| Error::NoKey { query: fingerprint.to_hex() })?;
        let changed = change(ours)?;
        self.write(&changed)?;
        Ok(changed)
    }

    /// Locks the folder against changes by others until the value is dropped. Creates the folder if it does
    /// not exist.
    fn lock(&self) -> Result<FolderLock, Error> {
        make_folder(&self.folder, 0o700).map_err(|error| failed("make", &self.folder, error))?;
        let lock =
            FolderLock::wait(&self.folder).map_err(|error| failed("lock", &self.folder, error))?;
        self.sweep().map_err(|error| failed("clean up", &self.folder, error))?;
        Ok(lock)
    }

    /// Removes the temporary files of writers that were killed. The caller holds the lock, so no writer uses them.
    fn sweep(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            let is_temporary =
                entry.file_name().as_encoded_bytes().starts_with(TEMPORARY.as_bytes());
            if is_temporary && entry.file_type()?.is_file() {
                remove(&entry.path())?;
            }
        }
        Ok(())
    }

    fn read(&self, path: &Path) -> Result<Option<openpgp::Cert>, Error> {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed("read", path, error)),
        };
        let metadata = file.metadata().map_err(|error| failed("read", path, error))?;
        check_private(path, &metadata)?;
        let mut bytes = zeroize::Zeroizing::new(Vec::new());
        let read = file.take(KEY_BYTES_MAX).read_to_end(&mut bytes);
        read.map_err(|error| failed("read", path, error))?;
        let damaged = |source: openpgp::anyhow::Error| Error::KeyFile {
            path: path.to_owned(),
            source: source.into(),
        };
        let cert = read_cert(&bytes).map_err(damaged)?;
        if self.path(&cert.fingerprint()) != path {
            let what = format!("it has the key {}", cert.fingerprint().to_hex());
            return Err(damaged(openpgp::anyhow::Error::msg(what)));
        }
        Ok(Some(cert))
    }

    /// Writes a key. The caller must hold the lock.
    fn write(&self, cert: &openpgp::Cert) -> Result<(), Error> {
        let bytes = serialized(cert)?;
        let path = self.path(&cert.fingerprint());
        replace(&path, &bytes, Readers::Owner).map_err(|error| failed("write", &path, error))
    }

    /// Makes sure that the names in the folder are on disk.
    fn sync(&self) -> Result<(), Error> {
        sync_folder(&self.folder).map_err(|error| failed("write", &self.folder, error))
    }
}

impl Stores {
    /// `cert` merged with its copy in the stores.
    ///
    /// # Errors
    ///
    /// Errors of reading the store.
    pub fn refreshed(&self, cert: openpgp::Cert, now: u32) -> Result<openpgp::Cert, Error> {
        let query = Query::Fingerprint(cert.fingerprint().as_bytes().to_vec());
        let known = match self.parsed(&query, now) {
            Ok(certs) => certs,
            Err(Error::NotFound { .. }) => return Ok(cert),
            Err(error) => return Err(error),
        };
        match known.into_iter().find(|known| known.fingerprint() == cert.fingerprint()) {
            Some(known) => {
                let kept = cert.clone();
                cert.merge_public(known).map_err(|source| refused("join", &kept, source))
            }
            None => Ok(cert),
        }
    }

    /// Merges the public part of `cert` into the store.
    ///
    /// # Errors
    ///
    /// [`Error::Keyring`], or errors of writing the store.
    pub fn add_public(&mut self, cert: &openpgp::Cert, now: u32) -> Result<IngestOutcome, Error> {
        let outcomes =
            self.writable()?.ingest(vec![public(cert)?], Verification::Full, now.into())?;
        Ok(outcomes[0])
    }
}

/// The certificates with secrets in `input`, binary or armored. Errors call the input `name`.
///
/// # Errors
///
/// [`Error::Unrecognised`] if the input is no keyring.
pub fn read_keys(mut input: impl Read, name: &str) -> Result<Vec<openpgp::Cert>, Error> {
    let unreadable = |what| Error::Unrecognised { name: name.to_owned(), what };
    const NO_KEYS: &str = "not a file with OpenPGP keys";
    let mut bytes = zeroize::Zeroizing::new(Vec::new());
    input.read_to_end(&mut bytes).map_err(|source| Error::Io {
        action: "read",
        name: name.to_owned(),
        source,
    })?;
    let mut certs = Vec::new();
    for cert in read_certs(&bytes).map_err(|_| unreadable(NO_KEYS))? {
        let cert = cert.map_err(|error| unreadable(unsupported_cert(&error).unwrap_or(NO_KEYS)))?;
        if cert.is_tsk() {
            certs.push(cert);
        }
    }
    Ok(certs)
}

/// Whether any secret in `cert` can be used without a passphrase.
#[must_use]
pub fn is_unprotected(cert: &openpgp::Cert) -> bool {
    cert.keys().unencrypted_secret().next().is_some()
}

/// The summary of a key's certificate, as in a listing.
///
/// # Errors
///
/// [`Error::KeyRefused`] if a store would reject the certificate.
pub fn summary(cert: &openpgp::Cert, now: u32) -> Result<Summary, Error> {
    let public = public(cert)?;
    let verdicts = talaria_cert::verdicts(&[&public], Verification::Full);
    Ok(Summary::evaluate(&public, &verdicts[0], now))
}

/// Whether `cert` has a secret key that may sign at `now`, in seconds since 1970.
#[must_use]
pub fn can_sign(cert: &openpgp::Cert, policy: &dyn Policy, now: u32) -> bool {
    let revocations = Revocations::of(cert, policy, &mut |_| Vec::new(), now);
    usable(cert, policy, now, &revocations).is_ok_and(|valid| {
        let mut keys = valid.keys().alive().revoked(false).supported().for_signing().secret();
        keys.any(|key| !revocations.hold(&key.key().fingerprint(), now))
    })
}

/// Whether the secret primary key of `cert` is here and may certify at `now`, in seconds since 1970.
#[must_use]
pub fn can_certify(cert: &openpgp::Cert, policy: &dyn Policy, now: u32) -> bool {
    cert.primary_key().key().has_secret() && make::may_certify(cert, policy, now).is_ok()
}

/// The primary key of `cert`, unlocked, if the key may certify at `now`, in seconds since 1970.
///
/// # Errors
///
/// [`Error::Message`] if the key may not certify, or if no passphrase unlocks it; [`Error::NoSecret`].
pub fn certifier(
    cert: &openpgp::Cert,
    policy: &dyn Policy,
    now: u32,
    ask: &mut AskForKey<'_>,
) -> Result<Box<dyn Signer>, Error> {
    let signer = make::certifier(cert, policy, now, ask);
    Ok(Box::new(signer.map_err(|error| of_make("use", &cert.fingerprint().to_hex(), error))?))
}

/// Whether `query` matches `cert`: one of its keys or one of its user IDs.
#[must_use]
pub fn names(query: &Query, cert: &openpgp::Cert) -> bool {
    cert.userids().any(|id| query.names_text(id.userid().value()))
        || cert.keys().any(|key| with_parsed(key.key(), |key| query.names_key(key)) == Some(true))
}

/// Applies `look` to the certificate of a key in its stored form; `None` if the store does not support the
/// kind of key.
pub(crate) fn with_parsed<P, R, T>(
    key: &Key<P, R>,
    look: impl FnOnce(&talaria_cert::Key<'_>) -> T,
) -> Option<T>
where
    P: openpgp::packet::key::KeyParts,
    R: KeyRole,
{
    let body = key.parts_as_public().role_as_primary().to_vec().ok()?;
    let packet = PacketRef { tag: Tag::PUBLIC_KEY, body: &body };
    talaria_cert::Key::parse(packet).ok().map(|key| look(&key))
}

/// `cert` without the secrets that `other` has, too.
fn without_secrets_of(cert: openpgp::Cert, other: &openpgp::Cert) -> Result<openpgp::Cert, Error> {
    let name = cert.fingerprint().to_hex();
    with_secrets(cert, &mut |key| {
        let fingerprint = key.fingerprint();
        let known = other.keys().secret().any(|other| other.key().fingerprint() == fingerprint);
        Ok((!known).then_some(key))
    })
    .map_err(|error| of_make("change", &name, error))
}

/// The public part of `cert`, in the form of the store.
fn public(cert: &openpgp::Cert) -> Result<talaria_cert::Cert, Error> {
    let bytes = cert.to_vec().map_err(|source| refused("write", cert, source))?;
    talaria_cert::Cert::parse(&bytes)
        .map_err(|reason| refused("write", cert, openpgp::anyhow::Error::new(reason)))
}

fn serialized(cert: &openpgp::Cert) -> Result<zeroize::Zeroizing<Vec<u8>>, Error> {
    let bytes = cert.as_tsk().to_vec().map_err(|source| refused("write", cert, source))?;
    Ok(zeroize::Zeroizing::new(bytes))
}

fn check_private(path: &Path, metadata: &fs::Metadata) -> Result<(), Error> {
    let mode = metadata.permissions().mode() & 0o777;
    if mode & OTHERS != 0 {
        return Err(Error::Exposed { path: path.to_owned(), mode });
    }
    Ok(())
}

fn failed(action: &'static str, path: &Path, source: io::Error) -> Error {
    Error::Io { action, name: path.display().to_string(), source }
}

fn refused(action: &'static str, cert: &openpgp::Cert, source: openpgp::anyhow::Error) -> Error {
    Error::KeyRefused { action, name: cert.fingerprint().to_hex(), source: source.into() }
}
