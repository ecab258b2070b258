//! People with keys, and repositories of theirs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use talaria_backup::{
    EpochProfile, Expected, Folder, Id, InitOptions, Keys, Repository, Root, Snapshot,
};
use talaria_message::make::{GenerateOptions, Protection, generate};
use talaria_message::openpgp::cert::CertRevocationBuilder;
use talaria_message::openpgp::types::ReasonForRevocation;
use talaria_message::openpgp::{Cert, Fingerprint};
use talaria_message::{Rules, Secrets, SigningKey, decryption_keys, signing_key};

/// The time of all tests: 2026-11-22.
pub(crate) const NOW: u32 = 1_795_381_506;

/// A new key of somebody, made a day before [`NOW`].
pub(crate) fn person(name: &str) -> Cert {
    let mut options = GenerateOptions::default();
    options.user_ids = vec![format!("{name} <{name}@example.org>")];
    generate(&options, &Protection::Unprotected, NOW - 86_400).unwrap().cert
}

/// The signing key of a person.
pub(crate) fn signer(cert: &Cert) -> SigningKey {
    signing_key(cert, Rules::default(), NOW, &mut |_, _| None).unwrap()
}

/// The secrets of a person.
pub(crate) fn secrets(cert: &Cert) -> Secrets {
    Secrets { keys: decryption_keys([cert], |_, _| None), ..Secrets::default() }
}

/// An empty snapshot of a client.
pub(crate) fn snapshot(client: &Cert, number: u64, previous: Option<Id>) -> Snapshot {
    Snapshot {
        client: Some(name(client)),
        number,
        previous,
        time: NOW,
        epoch: 1,
        host: b"alpha".to_vec(),
        root: Root { level: 0, id: Id([1; 32]) },
        entries: 0,
        bytes: 0,
        unread: 0,
        paths: [b"/home".to_vec()].into(),
        tags: BTreeSet::new(),
        users: BTreeMap::new(),
        groups: BTreeMap::new(),
        heads: BTreeMap::new(),
        original: None,
    }
}

/// A folder with a repository of Alice.
pub(crate) struct Place {
    folder: tempfile::TempDir,
    pub(crate) alice: Cert,
}

impl Place {
    /// A repository that Alice owns, reads and writes.
    pub(crate) fn new(profile: EpochProfile) -> Self {
        let place = Self { folder: tempfile::tempdir().unwrap(), alice: person("alice") };
        let options = InitOptions {
            owner: &place.alice,
            readers: std::slice::from_ref(&place.alice),
            profile,
            signed: true,
        };
        Repository::init(place.backend(), &options, &mut signer(&place.alice), NOW).unwrap();
        place
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("repository").join(name)
    }

    pub(crate) fn backend(&self) -> Arc<Folder> {
        Arc::new(Folder::new(self.path("")))
    }

    pub(crate) fn open(&self) -> Result<Repository, talaria_backup::BackupError> {
        self.open_expecting(&Expected::default())
    }

    pub(crate) fn open_expecting(
        &self,
        expected: &Expected,
    ) -> Result<Repository, talaria_backup::BackupError> {
        Repository::open(self.backend(), expected, &mut |_| None, NOW)
    }

    /// The repository with the keys that a person has of it.
    pub(crate) fn open_as(&self, person: &Cert) -> (Repository, Keys) {
        let repository = self.open().unwrap();
        let keys = repository.unlock(&mut secrets(person), &[person.fingerprint()]).unwrap();
        (repository, keys)
    }
}

/// The fingerprint of a person.
pub(crate) fn name(cert: &Cert) -> Fingerprint {
    cert.fingerprint()
}

/// The certificate with a revocation that was made at this time.
pub(crate) fn revoked(cert: &Cert, reason: ReasonForRevocation, time: u32) -> Cert {
    let primary = cert.primary_key().key().clone().parts_into_secret().unwrap();
    let at = std::time::UNIX_EPOCH + std::time::Duration::from_secs(time.into());
    let revocation = CertRevocationBuilder::new()
        .set_reason_for_revocation(reason, b"")
        .unwrap()
        .set_signature_creation_time(at)
        .unwrap()
        .build(&mut primary.into_keypair().unwrap(), cert, None)
        .unwrap();
    cert.clone().insert_packets(revocation).unwrap().0
}
