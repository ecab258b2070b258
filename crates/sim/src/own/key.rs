//! New keys, under power cuts.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::Path;

use talaria::Stores;
use talaria::keys::{GenerateOptions, KeyStore, Protection};
use talaria::message::openpgp::Packet;
use talaria::message::openpgp::serialize::MarshalInto as _;
use talaria_disk::{NewFile, Readers};
use talaria_store::{Access, Depth};
use talaria_trust::Level;

use super::scenario::{Done, Scenario, files_of, text};
use crate::model::{Content, MAIN};
use crate::run::NOW;

/// Keys that are generated.
#[derive(Default)]
pub(super) struct Key {
    /// Fingerprint, key file and revocation certificate of the keys that were acknowledged.
    made: Vec<(String, Vec<u8>, Vec<u8>)>,
}

/// The reason why a key could not be generated.
struct Why(String);

impl From<talaria::Error> for Why {
    fn from(error: talaria::Error) -> Self {
        Self(text(error))
    }
}

impl Key {
    /// Opens the key store and the store, as each command does.
    fn open(root: &Path) -> Result<(KeyStore, Stores), talaria::Error> {
        let keys = KeyStore::open(&root.join("keys"))?;
        let stores = Stores::open(&[root.join(MAIN)], Access::Create, NOW)?;
        keys.settle(&stores)?;
        Ok((keys, stores))
    }

    fn file_of(fingerprint: &str) -> String {
        format!("keys/{fingerprint}.pgp")
    }

    fn revocation_of(fingerprint: &str) -> String {
        format!("keys/revocations/{fingerprint}.asc")
    }

    /// Generates a key and returns its fingerprint.
    fn generate(root: &Path, name: &str) -> Result<String, Why> {
        let (keys, mut stores) = Self::open(root)?;
        let user_ids = vec![format!("{name}@example.org")];
        let mut options = GenerateOptions::default();
        options.user_ids = user_ids;
        let new = keys.generate(&options, &Protection::Unprotected, &mut stores, NOW)?;
        let revocation = Packet::from(new.generated().revocation.clone());
        let written = || {
            let mut file = NewFile::beginning(new.revocation_path())?;
            file.write_all(&revocation.to_vec().map_err(std::io::Error::other)?)?;
            Ok(file)
        };
        let file = written().map_err(|error: std::io::Error| Why(text(error)))?;
        let made = new.publish(&mut stores, NOW, || {
            file.keep(Readers::Owner).map_err(|error| Why(text(error)))
        })?;
        Ok(made.cert.fingerprint().to_hex())
    }
}

impl Scenario for Key {
    fn operations(&self) -> usize {
        2
    }

    fn operate(&mut self, root: &Path, number: usize) -> Done {
        let fingerprint = Self::generate(root, &format!("key{number}")).map_err(|why| why.0)?;
        let read = |name: String| fs::read(root.join(name)).map_err(text);
        let key = read(Self::file_of(&fingerprint))?;
        let revocation = read(Self::revocation_of(&fingerprint))?;
        self.made.push((fingerprint, key, revocation));
        Ok(())
    }

    fn recover(&self, root: &Path) -> Done {
        Self::open(root).map(drop).map_err(text)
    }

    fn look(&self, root: &Path, done: usize, is_running: bool) -> Done {
        let (keys, stores) = Self::open(root).map_err(text)?;
        if keys.is_unsettled().map_err(text)? {
            return Err("a key is neither there nor gone".to_owned());
        }
        let listed = keys.list().map_err(text)?;
        let found: BTreeSet<String> =
            listed.iter().map(|cert| cert.fingerprint().to_hex()).collect();
        let mut files = files_of(root)?;
        // The store may have left a file with a temporary name.
        files.retain(|name, _| name.starts_with("keys/"));
        for fingerprint in &found {
            let (Some(key), Some(revocation)) = (
                files.remove(&Self::file_of(fingerprint)),
                files.remove(&Self::revocation_of(fingerprint)),
            ) else {
                return Err(format!("{fingerprint} has no revocation certificate"));
            };
            if revocation.is_empty() {
                return Err(format!("the revocation certificate of {fingerprint} is empty"));
            }
            let made = self.made.iter().find(|made| made.0 == *fingerprint);
            if made.is_some_and(|made| made.1 != key || made.2 != revocation) {
                return Err(format!("{fingerprint} is not the key that was made"));
            }
        }
        if !files.is_empty() {
            return Err(format!("other files are there: {:?}", files.keys()));
        }
        if let Some((lost, ..)) = self.made[..done].iter().find(|made| !found.contains(&made.0)) {
            return Err(format!("{lost} is lost"));
        }
        if found.len() > done + usize::from(is_running) {
            return Err(format!("there are {} keys", found.len()));
        }
        let store = &stores.iter().next().expect("one store").store;
        let report = store.check(Depth::Structure, |_| {}).map_err(text)?;
        if !report.is_clean() {
            return Err(format!("a check found {:?}", report.findings));
        }
        let content = Content::of(store).map_err(text)?;
        let certs: BTreeSet<String> = content.certs.keys().map(ToString::to_string).collect();
        let trusted = store.web().ownertrusts().map_err(text)?.into_iter();
        let trusted = trusted.filter(|(_, value)| *value == Level::Ultimate as u8);
        let trusted: BTreeSet<String> = trusted.map(|(name, _)| name.to_string()).collect();
        if certs == found && trusted == found {
            return Ok(());
        }
        Err(format!("keys {found:?}, certificates {certs:?}, trusted {trusted:?}"))
    }

    fn go_on(&self, root: &Path) -> Done {
        Self::generate(root, "another").map(drop).map_err(|why| why.0)
    }
}
