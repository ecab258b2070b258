//! The folder with the secret keys of a user: finding, importing, exporting and deleting keys.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use openpgp::serialize::{Marshal as _, MarshalInto as _};
use talaria_cert::{Addressee, Validity};
use talaria_disk::{FolderLock, Readers, TEMPORARY, make_folder, remove, replace, sync_folder};
use talaria_message::make::{Protection, is_stub, protected, with_secrets};
use talaria_message::{openpgp, read_cert, read_certs, unsupported_cert};
use talaria_store::Query;

use crate::error::{Error, failed, of_make};
use crate::keys::public::{refused, summary};
use crate::keys::questions::names;
use crate::parsed::described;

/// The extension of key files.
pub(super) const EXTENSION: &str = "pgp";

/// The extension of the files of keys that are being generated.
pub(super) const UNFINISHED: &str = "new";

/// The permission bits for group and others, which must not be set.
const OTHERS: u32 = 0o077;

/// The maximum length of a key file in bytes: the largest certificate that a store accepts, and
/// secrets.
const KEY_BYTES_MAX: u64 = talaria_cert::CERT_BYTES_MAX as u64 + (1 << 20);

/// The key store of a user.
#[derive(Clone, Debug)]
pub struct KeyStore {
    pub(super) folder: PathBuf,
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

    /// The path for the revocation certificate of a key. Its folder is created if it does not
    /// exist.
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

    /// Adds the key `cert`, or merges it into the stored copy. Secrets already in the key store
    /// keep their passphrase; new secrets without a passphrase get `protection`. Stubs, which GnuPG
    /// writes in place of secrets that are elsewhere, are not imported.
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

    /// The transferable secret keys that match any of `queries`, locked as they are in the key
    /// store. A missing secret is replaced by a stub, as GnuPG requires it.
    ///
    /// # Errors
    ///
    /// [`Error::NoKey`] for a query that matches no key, [`Error::Ambiguous`] for one that matches
    /// several; the errors of [`Self::list`].
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
    pub(super) fn update(
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

    /// Locks the folder against changes by others until the value is dropped. Creates the folder if
    /// it does not exist.
    pub(super) fn lock(&self) -> Result<FolderLock, Error> {
        make_folder(&self.folder, 0o700).map_err(|error| failed("make", &self.folder, error))?;
        let lock =
            FolderLock::wait(&self.folder).map_err(|error| failed("lock", &self.folder, error))?;
        self.sweep().map_err(|error| failed("clean up", &self.folder, error))?;
        Ok(lock)
    }

    /// Removes the temporary files of writers that were killed. The caller holds the lock, so no
    /// writer uses them.
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
    pub(super) fn sync(&self) -> Result<(), Error> {
        sync_folder(&self.folder).map_err(|error| failed("write", &self.folder, error))
    }
}

/// The certificates with secrets in `input`, binary or armored. Errors call the input `name`.
///
/// # Errors
///
/// [`Error::NotKeys`] if the input is no keyring; [`Error::Unrecognised`] for an unsupported key.
pub fn read_keys(mut input: impl Read, name: &str) -> Result<Vec<openpgp::Cert>, Error> {
    let mut bytes = zeroize::Zeroizing::new(Vec::new());
    input.read_to_end(&mut bytes).map_err(|source| Error::Io {
        action: "read",
        name: name.to_owned(),
        source,
    })?;
    let mut certs = Vec::new();
    let not_keys = || Error::NotKeys { name: name.to_owned() };
    for cert in read_certs(&bytes).map_err(|_| not_keys())? {
        let cert = cert.map_err(|error| match unsupported_cert(&error) {
            Some(what) => Error::Unrecognised { name: name.to_owned(), what },
            None => not_keys(),
        })?;
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

/// `cert` without the secrets that `other` has, too.
pub(super) fn without_secrets_of(
    cert: openpgp::Cert,
    other: &openpgp::Cert,
) -> Result<openpgp::Cert, Error> {
    let name = cert.fingerprint().to_hex();
    with_secrets(cert, &mut |key| {
        let fingerprint = key.fingerprint();
        let known = other.keys().secret().any(|other| other.key().fingerprint() == fingerprint);
        Ok((!known).then_some(key))
    })
    .map_err(|error| of_make("change", &name, error))
}

pub(super) fn serialized(cert: &openpgp::Cert) -> Result<zeroize::Zeroizing<Vec<u8>>, Error> {
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
