//! Generating keys for the key store.
//!
//! A new key has three parts: its file in the key store, its certificate in the store with the
//! trust of an own key, and a revocation certificate. All of them are there, or none. The file has
//! the name `FINGERPRINT.STORE.new` until the store has committed the certificate, where `STORE`
//! names the store. If the process is killed before, the next one looks into the store and finishes
//! the work or takes it back ([`KeyStore::settle`]).

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use talaria_cert::{Fingerprint, Verification};
use talaria_disk::{FolderLock, NewFile, Readers, folder_of, remove_if_there, rename, sync_folder};
use talaria_message::make::{self, GenerateOptions, Generated, Protection};
use talaria_message::openpgp;
use talaria_store::{IngestOutcome, StoreError};
use talaria_trust::Level;

use crate::error::{Error, failed, of_make};
use crate::keys::key_store::{EXTENSION, KeyStore, UNFINISHED, serialized};
use crate::keys::public::public;
use crate::stores::Stores;

/// A new key that is not in use yet. It disappears unless [`Self::publish`] succeeds.
pub struct NewKey<'a> {
    keys: &'a KeyStore,
    made: Generated,
    /// The file of the key under its first name.
    path: PathBuf,
    revocation: PathBuf,
    is_published: bool,
    _lock: FolderLock,
}

impl KeyStore {
    /// Generates a key at `now`, in seconds since 1970: a primary key that certifies, a signing
    /// subkey and an encryption subkey. The key is on disk, but nobody sees it before
    /// [`NewKey::publish`]. No other process can change the key store until then.
    ///
    /// # Errors
    ///
    /// [`Error::KeyRefused`] if such a key cannot be generated; errors of the store, and of
    /// writing.
    pub fn generate(
        &self,
        options: &GenerateOptions,
        protection: &Protection,
        stores: &mut Stores,
        now: u32,
    ) -> Result<NewKey<'_>, Error> {
        let name = options.user_ids.first().map(String::as_str).unwrap_or_default();
        let made = make::generate(options, protection, now);
        let made = made.map_err(|error| of_make("make", name, error))?;
        let store = stores.writable()?.name()?;
        let lock = self.lock()?;
        let fingerprint = made.cert.fingerprint();
        let path = self.folder.join(format!("{}.{store}.{UNFINISHED}", fingerprint.to_hex()));
        let revocation = self.revocation_path(&fingerprint)?;
        let bytes = serialized(&made.cert)?;
        let new = NewKey { keys: self, made, path, revocation, is_published: false, _lock: lock };
        let written = NewFile::beginning(&new.path).and_then(|mut file| {
            file.write_all(&bytes)?;
            file.keep(Readers::Owner)
        });
        written.map_err(|error| failed("write", &new.path, error))?;
        Ok(new)
    }

    /// Completes or takes back keys whose generation for the first of `stores` was interrupted: a
    /// key stays if the store has its certificate. Does nothing while another process changes the
    /// key store.
    ///
    /// # Errors
    ///
    /// Errors of the store, and of renaming and removing files.
    pub fn settle(&self, stores: &Stores) -> Result<(), Error> {
        let unfinished = self.unfinished()?;
        let Some(store) = stores.iter().next().filter(|_| !unfinished.is_empty()) else {
            return Ok(());
        };
        let name = store.store.name()?;
        let lock = FolderLock::try_take(&self.folder)
            .map_err(|error| failed("lock", &self.folder, error))?;
        let Some(_lock) = lock else {
            return Ok(());
        };
        for (path, fingerprint, of_store) in unfinished {
            if of_store != name || !path.exists() {
                continue;
            }
            let bytes = fingerprint.as_bytes();
            let stored = match (bytes.try_into(), bytes.try_into()) {
                (Ok(bytes), _) => store.store.row(Fingerprint::V4(bytes))?,
                (_, Ok(bytes)) => store.store.row(Fingerprint::V6(bytes))?,
                _ => continue,
            };
            if stored.is_some() {
                let named = self.path(&fingerprint);
                rename(&path, &named).map_err(|error| failed("rename", &path, error))?;
            } else {
                remove(&self.revocation_path(&fingerprint)?)?;
                remove_if_there(&path).map_err(|error| failed("remove", &path, error))?;
            }
            self.sync()?;
        }
        Ok(())
    }

    /// Whether [`Self::settle`] has something to do.
    ///
    /// # Errors
    ///
    /// If the folder cannot be read.
    pub fn is_unsettled(&self) -> Result<bool, Error> {
        Ok(!self.unfinished()?.is_empty())
    }

    /// The files of keys that are being generated, or whose generation was interrupted, with their
    /// fingerprints and the names of their stores.
    fn unfinished(&self) -> Result<Vec<(PathBuf, openpgp::Fingerprint, String)>, Error> {
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed("read", &self.folder, error)),
        };
        let mut found = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|error| failed("read", &self.folder, error))?;
            let name = entry.file_name();
            let parts = name.to_str().map(|name| name.split('.').collect::<Vec<_>>());
            if let Some([fingerprint, store, UNFINISHED]) = parts.as_deref()
                && let Ok(fingerprint) = fingerprint.parse()
            {
                found.push((entry.path(), fingerprint, (*store).to_owned()));
            }
        }
        Ok(found)
    }
}

impl NewKey<'_> {
    /// The key and its revocation certificate.
    #[must_use]
    pub fn generated(&self) -> &Generated {
        &self.made
    }

    /// The path for the revocation certificate beside the keys. A file there disappears with the
    /// key.
    #[must_use]
    pub fn revocation_path(&self) -> &Path {
        &self.revocation
    }

    /// Puts the certificate into the store, as one of the user's own, and the key into the key
    /// store. `deliver` comes last before the store commits: it gives the revocation certificate
    /// its name. If it fails, nothing was done.
    ///
    /// # Errors
    ///
    /// The error of `deliver`; [`Error::KeyRefused`] if the store refuses the certificate; errors
    /// of writing.
    pub fn publish<E: From<Error>>(
        mut self,
        stores: &mut Stores,
        now: u32,
        deliver: impl FnOnce() -> Result<(), E>,
    ) -> Result<Generated, E> {
        let cert = public(&self.made.cert)?;
        let own = (cert.fingerprint(), Level::Ultimate as u8);
        let stored = stores.writable()?.atomically(|store| {
            let outcomes = store.ingest(vec![cert], Verification::Full, now.into())?;
            if let [IngestOutcome::Refused(why)] = outcomes[..] {
                let name = self.made.cert.fingerprint().to_hex();
                let refused = Error::KeyRefused { action: "store", name, source: why.into() };
                return Err(Failed::Other(refused.into()));
            }
            store.web_mut().set_ownertrust(&[own], now.into())?;
            deliver().map_err(Failed::Other)
        });
        match stored {
            Ok(()) => {}
            Err(Failed::Store(error)) => return Err(Error::from(error).into()),
            Err(Failed::Other(error)) => return Err(error),
        }
        // From here on, a killed process leaves work that `settle` completes.
        self.is_published = true;
        let path = self
            .path
            .with_file_name(format!("{}.{EXTENSION}", self.made.cert.fingerprint().to_hex()));
        rename(&self.path, &path).map_err(|error| failed("write", &path, error))?;
        self.keys.sync()?;
        Ok(self.made.clone())
    }
}

impl Drop for NewKey<'_> {
    fn drop(&mut self) {
        if self.is_published {
            return;
        }
        // The other order would leave a revocation certificate that nothing leads to.
        if remove(&self.revocation).is_ok() && remove_if_there(&self.path).is_ok() {
            let _ = self.keys.sync();
        }
    }
}

/// The reason why a key could not be published.
enum Failed<E> {
    Store(StoreError),
    Other(E),
}

impl<E> From<StoreError> for Failed<E> {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// Removes a revocation certificate that may be gone. It does not come back after a power cut.
fn remove(path: &Path) -> Result<(), Error> {
    remove_if_there(path)
        .and_then(|()| sync_folder(folder_of(path)))
        .map_err(|error| failed("remove", path, error))
}
