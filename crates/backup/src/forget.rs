//! Snapshots that are no longer needed: tombstones, and protections against them.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use talaria_message::SigningKey;
use talaria_message::openpgp::Fingerprint;

use crate::config::Role;
use crate::error::{BackupError, Result};
use crate::forgotten::{Forgotten, SnapshotName};
use crate::id::{Id, RepositoryId};
use crate::repository::{Keys, Repository};
use crate::signed::Header;
use crate::snapshot::{PREPARED, SNAPSHOTS, Snapshot};
use crate::text::Lines;

/// The folder of tombstones.
pub(crate) const FORGOTTEN: &str = "forgotten";
/// The folder of protections.
pub(crate) const PROTECTED: &str = "protected";

/// The number of documents with tombstones of one signer from which on a prune makes them fewer.
const DOCUMENTS_MANY: usize = 32;
/// The maximum number of snapshots in a document that a prune makes; each takes some 140 bytes.
const MERGED_MAX: usize = 20_000;

const TOMBSTONE_DOMAIN: &str = "talaria backup forgotten";
const PROTECTION_DOMAIN: &str = "talaria backup protected";

/// A document that names snapshots.
pub(crate) fn text(
    domain: &str,
    repository: RepositoryId,
    header: Header,
    names: &BTreeSet<SnapshotName>,
) -> String {
    let mut out = header.text(domain, repository);
    for name in names {
        let _ = writeln!(out, "snapshot {}", name.fields());
    }
    out
}

/// The snapshots that such a document names.
pub(crate) fn parse(
    domain: &str,
    name: &str,
    bytes: &[u8],
    repository: RepositoryId,
) -> Result<BTreeSet<SnapshotName>> {
    let id = repository.to_string();
    let mut lines = Lines::open(name, bytes, domain, Some(&id))?;
    let header = Header::read(&mut lines)?;
    let names = lines.many("snapshot").into_iter().map(SnapshotName::parse);
    let names = names.collect::<Option<BTreeSet<_>>>();
    let names = names.ok_or_else(|| lines.damaged("a snapshot cannot be read"))?;
    lines.end()?;
    if text(domain, repository, header, &names).as_bytes() != bytes {
        return Err(BackupError::damaged(name, "its lines are not in the form of the format"));
    }
    Ok(names)
}

/// The snapshots that the tombstone with this text names.
///
/// # Errors
///
/// [`Damaged`](BackupError::Damaged) with the reason; [`Newer`](BackupError::Newer).
pub fn parse_tombstone(
    name: &str,
    text: &[u8],
    repository: RepositoryId,
) -> Result<BTreeSet<SnapshotName>> {
    parse(TOMBSTONE_DOMAIN, name, text, repository)
}

impl Repository {
    /// The snapshots that were forgotten or are protected, and the documents that cannot be read.
    ///
    /// # Errors
    ///
    /// Errors of the storage.
    pub fn forgotten(&self, keys: &Keys, now: u32) -> Result<(Forgotten, Vec<BackupError>)> {
        let mut forgotten = Forgotten::default();
        let mut unreadable = self.read_signed(keys, FORGOTTEN, now, &mut |signed| {
            let names = parse_tombstone(&signed.name, signed.text(), self.id())?;
            let may_forget = |signer: &Fingerprint| self.config().has_role(signer, Role::Forget);
            if let Some(signer) = signed.signer(may_forget) {
                for name in names {
                    let (_, signers) =
                        forgotten.named.entry(name.id).or_insert((name, BTreeSet::new()));
                    signers.insert(signer.clone());
                }
            }
            Ok(())
        })?;
        unreadable.extend(self.each_protection(keys, now, &mut |_, names| {
            forgotten.protected.extend(names.iter().map(|name| name.id));
            Ok(())
        })?);
        Ok((forgotten, unreadable))
    }

    /// Calls `each` with the name and content of every protection that counts.
    fn each_protection(
        &self,
        keys: &Keys,
        now: u32,
        each: &mut dyn FnMut(&str, &BTreeSet<SnapshotName>) -> Result<()>,
    ) -> Result<Vec<BackupError>> {
        self.read_signed(keys, PROTECTED, now, &mut |signed| {
            let names = parse(PROTECTION_DOMAIN, &signed.name, signed.text(), self.id())?;
            let may_protect = |signer: &Fingerprint| self.config().has_role(signer, Role::Admin);
            match signed.signer(may_protect) {
                Some(_) => each(&signed.name, &names),
                None => Ok(()),
            }
        })
    }

    /// Whether the storage has an object of the snapshot, published or only prepared, readable or
    /// not.
    ///
    /// # Errors
    ///
    /// Errors of the storage.
    pub fn has_object_of(&self, id: &Id) -> Result<bool> {
        let mut found = false;
        for (folder, name) in
            [(SNAPSHOTS, Snapshot::name(id)), (PREPARED, Snapshot::prepared_name(id))]
        {
            self.backend().list_each(folder, &mut |object| found |= object.name == name)?;
        }
        Ok(found)
    }

    fn need_role(&self, name: &Fingerprint, role: Role) -> Result<()> {
        if self.config().has_role(name, role) {
            return Ok(());
        }
        Err(BackupError::Refused(format!(
            "{} has no role \"{}\" in this repository",
            name.to_hex(),
            role.name()
        )))
    }

    /// Forgets snapshots, by a tombstone that the certificate `name` signs. Their objects stay
    /// until the next prune.
    ///
    /// # Errors
    ///
    /// [`BackupError::Refused`] if the certificate may not do that, or if a snapshot is protected;
    /// errors of the key and of the storage.
    pub fn forget(
        &self,
        keys: &Keys,
        snapshots: &BTreeSet<SnapshotName>,
        (name, signer): (&Fingerprint, &mut SigningKey),
        now: u32,
    ) -> Result<()> {
        self.need_role(name, Role::Forget)?;
        let (known, _) = self.forgotten(keys, now)?;
        if let Some(one) = snapshots.iter().find(|one| known.is_protected(&one.id)) {
            return Err(BackupError::Refused(format!(
                "snapshot {} is protected; to end the protection: talaria backup protect --remove",
                one.id
            )));
        }
        if !snapshots.is_empty() {
            let text = text(TOMBSTONE_DOMAIN, self.id(), Header::new(now)?, snapshots);
            self.write_signed(keys, FORGOTTEN, &text, Some(signer), now)?;
        }
        Ok(())
    }

    /// Writes the tombstones of `former`, who will lose the role `forget`, again in the name of
    /// somebody who keeps it. Returns the number of snapshots in them.
    ///
    /// # Errors
    ///
    /// [`BackupError::Refused`] if the certificate may not do that; errors of the key and of the
    /// storage.
    pub fn renew_tombstones(
        &self,
        keys: &Keys,
        former: &Fingerprint,
        (name, signer): (&Fingerprint, &mut SigningKey),
        now: u32,
    ) -> Result<usize> {
        let (known, _) = self.forgotten(keys, now)?;
        let of_former = |signers: &BTreeSet<_>| signers.contains(former) && signers.len() == 1;
        let names = known.named.into_values().filter(|(_, signers)| of_former(signers));
        let names: BTreeSet<_> = names.map(|(name, _)| name).collect();
        if !names.is_empty() {
            self.need_role(name, Role::Forget)?;
            let text = text(TOMBSTONE_DOMAIN, self.id(), Header::new(now)?, &names);
            self.write_signed(keys, FORGOTTEN, &text, Some(signer), now)?;
        }
        Ok(names.len())
    }

    /// Writes the tombstones of `name` again in few documents, if they are in many, since every
    /// command reads them all. Returns the number of documents that were deleted.
    ///
    /// # Errors
    ///
    /// Errors of the key and of the storage. The tombstones are there all the time.
    pub(crate) fn merge_tombstones(
        &self,
        keys: &Keys,
        (name, signer): (&Fingerprint, &mut SigningKey),
        now: u32,
    ) -> Result<usize> {
        let may_forget =
            |signer: &Fingerprint| signer == name && self.config().has_role(signer, Role::Forget);
        let (mut old, mut names) = (Vec::new(), BTreeSet::new());
        self.read_signed(keys, FORGOTTEN, now, &mut |signed| {
            let found = parse_tombstone(&signed.name, signed.text(), self.id())?;
            if signed.signer(may_forget).is_some() && found.len() < MERGED_MAX / 2 {
                old.push(signed.name.clone());
                names.extend(found);
            }
            Ok(())
        })?;
        if old.len() < DOCUMENTS_MANY {
            return Ok(0);
        }
        let names: Vec<_> = names.into_iter().collect();
        for names in names.chunks(MERGED_MAX) {
            let names = names.iter().cloned().collect();
            let text = text(TOMBSTONE_DOMAIN, self.id(), Header::new(now)?, &names);
            self.write_signed(keys, FORGOTTEN, &text, Some(signer), now)?;
        }
        for object in &old {
            self.backend().delete(object)?;
        }
        Ok(old.len())
    }

    /// Protects a snapshot: no tombstone has an effect on it.
    ///
    /// # Errors
    ///
    /// [`BackupError::Refused`] if the certificate may not do that, or if the snapshot was
    /// forgotten; errors of the key and of the storage.
    pub fn protect(
        &self,
        keys: &Keys,
        snapshot: &SnapshotName,
        (name, signer): (&Fingerprint, &mut SigningKey),
        now: u32,
    ) -> Result<()> {
        self.need_role(name, Role::Admin)?;
        let text =
            text(PROTECTION_DOMAIN, self.id(), Header::new(now)?, &[snapshot.clone()].into());
        let id = self.write_signed(keys, PROTECTED, &text, Some(signer), now)?;
        // A prune may have deleted parts of it already.
        let (known, _) = self.forgotten(keys, now)?;
        if known.named.contains_key(&snapshot.id) {
            self.backend().delete(&format!("{PROTECTED}/{id}"))?;
            return Err(BackupError::Refused(format!(
                "snapshot {} was forgotten: its content may be gone",
                snapshot.id
            )));
        }
        Ok(())
    }

    /// Ends the protection of a snapshot; false if it was not protected.
    ///
    /// # Errors
    ///
    /// Errors of the storage.
    pub fn unprotect(&self, keys: &Keys, snapshot: &Id, now: u32) -> Result<bool> {
        self.check_clock(now)?;
        let mut objects = Vec::new();
        self.each_protection(keys, now, &mut |object, names| {
            if names.iter().any(|name| name.id == *snapshot) {
                objects.push(object.to_owned());
            }
            Ok(())
        })?;
        for object in &objects {
            self.backend().delete(object)?;
        }
        Ok(!objects.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::snapshot::{Head, Heads};

    const REPOSITORY: RepositoryId = RepositoryId([2; 16]);
    const HEADER: Header = Header { nonce: [5; 16], time: 1_795_381_506 };

    fn name() -> impl Strategy<Value = SnapshotName> {
        let client = proptest::option::of(any::<[u8; 20]>());
        (client, any::<u64>(), any::<[u8; 32]>()).prop_map(|(client, number, id)| SnapshotName {
            client: client.map(|bytes| Fingerprint::from_bytes(4, &bytes).unwrap()),
            number,
            id: Id(id),
        })
    }

    proptest! {
        #[test]
        fn a_tombstone_comes_back_and_has_one_text(
            names in proptest::collection::btree_set(name(), 0..5), at in any::<proptest::sample::Index>(), byte: u8,
        ) {
            let written = text(TOMBSTONE_DOMAIN, REPOSITORY, HEADER, &names);
            prop_assert_eq!(parse_tombstone("t", written.as_bytes(), REPOSITORY).unwrap(), names);
            prop_assert!(parse_tombstone("t", written.as_bytes(), RepositoryId([3; 16])).is_err());
            prop_assert!(parse(PROTECTION_DOMAIN, "t", written.as_bytes(), REPOSITORY).is_err());
            let mut changed = written.into_bytes();
            let at = at.index(changed.len());
            changed[at] = byte;
            // The header is read and not given back.
            if let Ok(read) = parse_tombstone("t", &changed, REPOSITORY) {
                let lines = |text: &[u8]| String::from_utf8(text.to_vec()).unwrap().lines().skip(4).collect::<Vec<_>>().join("\n");
                let again = text(TOMBSTONE_DOMAIN, REPOSITORY, HEADER, &read);
                prop_assert_eq!(lines(again.as_bytes()), lines(&changed));
            }
        }
    }

    #[test]
    fn a_protected_snapshot_is_not_forgotten_and_its_number_stays_used() {
        let name = SnapshotName { client: None, number: 7, id: Id([1; 32]) };
        let mut forgotten = Forgotten::of([name.clone(), SnapshotName::unreadable(Id([2; 32]))]);
        assert!(forgotten.contains(&name.id) && forgotten.contains(&Id([2; 32])));
        let mut heads = Heads::new();
        forgotten.raise(&mut heads);
        assert_eq!(heads, Heads::from([(None, Head { number: 7, id: name.id })]));
        forgotten.protected.insert(name.id);
        assert!(!forgotten.contains(&name.id));
        assert_eq!(forgotten.iter().count(), 1);
    }
}
