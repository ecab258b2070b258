//! Verdicts of readers on packs: whole, with the chunks that an index names, or damaged.
//!
//! A client cannot read packs. It may rely on a pack of somebody else only if a reader has computed
//! the identifiers of all chunks in it and has signed for the result.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

use talaria_message::SigningKey;
use talaria_message::openpgp::Fingerprint;

use crate::config::Role;
use crate::document::DocumentStanding;
use crate::error::{BackupError, Result};
use crate::id::{ObjectHash, RepositoryId, from_hex, to_hex};
use crate::index::IndexedPack;
use crate::repository::{Keys, Repository};
use crate::signed::Header;
use crate::table::{Key, Keyed, Row, Scratch, Table};
use crate::text::Lines;

/// The folder of these documents.
pub(crate) const VERIFIED: &str = "verified";

const DOMAIN: &str = "talaria backup verified";

/// Packs after which a reader begins the next document: an interruption forgets no more.
pub(crate) const VERDICTS: usize = 1024;

/// The verdicts of one reader on packs.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Verdicts {
    /// Whole packs, with the hashes of the lines that an index has for them.
    pub(crate) good: BTreeMap<ObjectHash, [u8; 32]>,
    /// Packs that differ from what was written, or have a chunk that does not match its name.
    pub(crate) damaged: BTreeSet<ObjectHash>,
}

impl Verdicts {
    /// The number of packs.
    pub(crate) fn len(&self) -> usize {
        self.good.len() + self.damaged.len()
    }

    fn text(&self, repository: RepositoryId, header: Header) -> String {
        let mut out = header.text(DOMAIN, repository);
        for (pack, lines) in &self.good {
            let _ = writeln!(out, "pack {pack} {}", to_hex(lines));
        }
        for pack in &self.damaged {
            let _ = writeln!(out, "damaged {pack}");
        }
        out
    }

    fn parse(name: &str, bytes: &[u8], repository: RepositoryId) -> Result<Self> {
        let id = repository.to_string();
        let mut lines = Lines::open(name, bytes, DOMAIN, Some(&id))?;
        let header = Header::read(&mut lines)?;
        let good = lines.many("pack").into_iter().map(|fields| {
            let (pack, lines) = fields.split_once(' ')?;
            Some((pack.parse().ok()?, from_hex(lines)?))
        });
        let good = good.collect::<Option<BTreeMap<_, _>>>();
        let good = good.ok_or_else(|| lines.damaged("a pack cannot be read"))?;
        let damaged = lines.many("damaged").into_iter().map(str::parse);
        let damaged = damaged.collect::<Result<BTreeSet<_>>>();
        let damaged = damaged.map_err(|_| lines.damaged("a damaged pack cannot be read"))?;
        lines.end()?;
        let verdicts = Self { good, damaged };
        if verdicts.text(repository, header).as_bytes() != bytes {
            return Err(BackupError::damaged(name, "its lines are not in the form of the format"));
        }
        Ok(verdicts)
    }
}

/// The packs that the document with this text says are whole, and those that it says are damaged.
///
/// # Errors
///
/// [`Damaged`](BackupError::Damaged) with the reason; [`Newer`](BackupError::Newer).
pub fn parse_verified(
    name: &str,
    bytes: &[u8],
    repository: RepositoryId,
) -> Result<(BTreeSet<ObjectHash>, BTreeSet<ObjectHash>)> {
    let verdicts = Verdicts::parse(name, bytes, repository)?;
    Ok((verdicts.good.into_keys().collect(), verdicts.damaged))
}

/// The hash of the lines that an index has for a pack, its own name among them. The whole of it is
/// compared: a thief could make two packs that are the same in half of it.
#[derive(Clone, Copy, Eq, Ord, PartialEq, PartialOrd)]
struct LinesHash {
    key: Key,
    rest: Key,
}

impl LinesHash {
    fn of(hash: &[u8; 32]) -> Self {
        let (key, rest) = hash.split_at(16);
        let half = |bytes: &[u8]| bytes.try_into().expect("it is half of a hash");
        Self { key: half(key), rest: half(rest) }
    }
}

impl Keyed for LinesHash {
    fn key(&self) -> &Key {
        &self.key
    }
}

impl Row for LinesHash {
    const BYTES: usize = 32;

    fn write(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.key);
        bytes.extend_from_slice(&self.rest);
    }

    fn read(bytes: &[u8]) -> Self {
        Self::of(bytes.try_into().expect("a row has this length"))
    }
}

/// The verdicts of all readers with the role `prune` on packs.
pub(crate) struct Verified {
    good: Table<LinesHash>,
    damaged: BTreeSet<ObjectHash>,
}

impl Verified {
    fn new(scratch: Arc<dyn Scratch>) -> Self {
        Self { good: Table::new(scratch), damaged: BTreeSet::new() }
    }

    /// Whether a reader has signed that the pack is whole and has these chunks.
    ///
    /// # Errors
    ///
    /// Errors of temporary files.
    pub(crate) fn covers(&self, pack: &IndexedPack) -> Result<bool> {
        let wanted = LinesHash::of(&pack.lines_hash());
        Ok(self.good.find(&wanted.key)?.contains(&wanted))
    }

    /// The packs that a reader found damaged.
    pub(crate) fn damaged(&self) -> &BTreeSet<ObjectHash> {
        &self.damaged
    }

    /// Whether `who`, a client or pruner, may rely on the entry of a pack in an index: the index is
    /// its own, or a reader has signed for the pack. Another client could have stored something
    /// else under the name of a chunk.
    ///
    /// # Errors
    ///
    /// Errors of temporary files.
    pub(crate) fn lets(
        &self,
        who: Option<&Fingerprint>,
        pack: &IndexedPack,
        standing: &DocumentStanding,
    ) -> Result<bool> {
        let is_own = match (standing, who) {
            (DocumentStanding::Good(signer) | DocumentStanding::Past(signer, _), Some(who)) => {
                signer == who
            }
            (DocumentStanding::Unsigned, None) => true,
            _ => false,
        };
        Ok(is_own || self.covers(pack)?)
    }
}

impl Repository {
    /// The verdicts of readers on packs, and the documents that cannot be read, that nobody signed
    /// who ever had the role, or whose signer has it and may be a thief.
    ///
    /// # Errors
    ///
    /// Errors of the storage.
    pub(crate) fn verified(&self, keys: &Keys, now: u32) -> Result<(Verified, Vec<BackupError>)> {
        let mut verified = Verified::new(Arc::clone(self.scratch()));
        let unreadable = self.read_signed(keys, VERIFIED, now, &mut |signed| {
            let verdicts = Verdicts::parse(&signed.name, signed.text(), self.id())?;
            match signed.standing(|signer| self.config().has_role(signer, Role::Prune)) {
                DocumentStanding::Good(_) | DocumentStanding::Past(..) => {
                    for lines in verdicts.good.values() {
                        verified.good.push(LinesHash::of(lines))?;
                    }
                    verified.damaged.extend(verdicts.damaged);
                }
                DocumentStanding::Doubtful(signer, why) => {
                    let why = format!(
                        "{why}: take the role `prune` from {}, and let another reader verify the packs",
                        signer.to_hex()
                    );
                    return Err(BackupError::damaged(&signed.name, why));
                }
                DocumentStanding::Unsigned | DocumentStanding::Foreign(_) => {
                    if let DocumentStanding::Foreign(why) =
                        signed.standing(|one| self.pruners().contains(one))
                    {
                        return Err(BackupError::damaged(&signed.name, why));
                    }
                }
            }
            Ok(())
        })?;
        verified.good.merge()?;
        Ok((verified, unreadable))
    }

    /// Calls `each` with the name of every such document of somebody who has or had the role, and
    /// its packs.
    ///
    /// # Errors
    ///
    /// Errors of the storage.
    pub(crate) fn each_verified(
        &self,
        keys: &Keys,
        now: u32,
        each: &mut dyn FnMut(&str, &mut dyn Iterator<Item = &ObjectHash>) -> Result<()>,
    ) -> Result<()> {
        self.read_signed(keys, VERIFIED, now, &mut |signed| {
            let verdicts = Verdicts::parse(&signed.name, signed.text(), self.id())?;
            if signed.standing(|signer| self.pruners().contains(signer)).counts() {
                each(&signed.name, &mut verdicts.good.keys().chain(&verdicts.damaged))?;
            }
            Ok(())
        })
        .map(|_| ())
    }

    /// Signs for packs, in as many documents as it takes.
    pub(crate) fn write_verified(
        &self,
        keys: &Keys,
        verdicts: &Verdicts,
        signer: &mut SigningKey,
        now: u32,
    ) -> Result<()> {
        let good: Vec<_> = verdicts.good.iter().collect();
        let damaged: Vec<_> = verdicts.damaged.iter().collect();
        let parts = good.len().max(damaged.len()).div_ceil(VERDICTS);
        for part in 0..parts {
            let of =
                |length: usize| (part * VERDICTS).min(length)..((part + 1) * VERDICTS).min(length);
            let part = Verdicts {
                good: good[of(good.len())].iter().map(|(pack, lines)| (**pack, **lines)).collect(),
                damaged: damaged[of(damaged.len())].iter().map(|pack| **pack).collect(),
            };
            let text = part.text(self.id(), Header::new(now)?);
            self.write_signed(keys, VERIFIED, &text, Some(signer), now)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use proptest::prelude::*;
    use talaria_message::openpgp::Cert;

    use super::*;
    use crate::check::ReadData;
    use crate::epoch::Use;
    use crate::id::{Id, Kind};
    use crate::pack::{PackWriter, pack_name};
    use crate::progress::BackupProgress;
    use crate::repair::RepairOptions;
    use crate::snapshot::Heads;
    use crate::table::InMemory;
    use crate::testing::{NOW, People, noise, signer};

    const REPOSITORY: RepositoryId = RepositoryId([2; 16]);

    proptest! {
        #[test]
        fn verdicts_come_back_and_have_one_text(
            good in proptest::collection::btree_map(any::<[u8; 32]>(), any::<[u8; 32]>(), 0..5),
            damaged in proptest::collection::btree_set(any::<[u8; 32]>(), 0..5),
            at in any::<proptest::sample::Index>(), byte: u8,
        ) {
            let header = Header { nonce: [5; 16], time: 1_795_381_506 };
            let good = good.into_iter().map(|(pack, lines)| (ObjectHash(pack), lines)).collect();
            let verdicts = Verdicts { good, damaged: damaged.into_iter().map(ObjectHash).collect() };
            let text = verdicts.text(REPOSITORY, header);
            prop_assert_eq!(Verdicts::parse("v", text.as_bytes(), REPOSITORY).unwrap(), verdicts.clone());
            prop_assert!(Verdicts::parse("v", text.as_bytes(), RepositoryId([3; 16])).is_err());
            let mut changed = text.clone().into_bytes();
            let at = at.index(changed.len());
            changed[at] = byte;
            if let Ok(read) = Verdicts::parse("v", &changed, REPOSITORY) {
                let body = |text: &[u8]| String::from_utf8(text.to_vec()).unwrap().lines().skip(4).collect::<Vec<_>>().join("\n");
                let again = read.text(REPOSITORY, header);
                prop_assert_eq!(body(again.as_bytes()), body(&changed));
            }
        }
    }

    #[test]
    fn a_verdict_covers_the_very_lines_that_were_verified() {
        let pack = IndexedPack { hash: ObjectHash([7; 32]), bytes: 5000, chunks: Vec::new() };
        let mut verified = Verified::new(Arc::new(InMemory));
        let hash = pack.lines_hash();
        verified.good.push(LinesHash::of(&hash)).unwrap();
        // Half of the hash is the same.
        let mut other = hash;
        other[31] ^= 1;
        verified.good.push(LinesHash::of(&other)).unwrap();
        assert!(verified.covers(&pack).unwrap());
        for changed in [
            IndexedPack { bytes: 5001, ..pack.clone() },
            IndexedPack { hash: ObjectHash([8; 32]), ..pack.clone() },
        ] {
            assert!(!verified.covers(&changed).unwrap());
        }
        let mut only_half = Verified::new(Arc::new(InMemory));
        only_half.good.push(LinesHash::of(&other)).unwrap();
        assert!(!only_half.covers(&pack).unwrap());
    }

    /// A stolen client stores garbage under the identifier of the next file of another, in a pack
    /// and an index that are well formed.
    #[test]
    fn garbage_of_a_stolen_client_is_relied_on_by_nobody_and_named() {
        let place = People::new();
        let (repository, keys) = place.open_as(&place.alice);
        let plain = noise(5, 100_000);
        let id = keys.identifiers.of(Kind::Data, &plain);
        let store = |id, bytes: Vec<u8>| {
            let mut pack = PackWriter::default();
            let length = u32::try_from(bytes.len()).unwrap();
            pack.push(Kind::Data, id, length, false, bytes);
            let (mut content, chunks) = pack.finish(repository.id());
            let mut archive = Vec::new();
            content.read_to_end(&mut archive).unwrap();
            let sealing = repository.sealing(Use::Data, NOW).unwrap();
            let object = sealing.seal("a pack", &archive, None, NOW).unwrap();
            let hash = ObjectHash::of(&object);
            repository.backend().put(&pack_name(&hash), &[&object]).unwrap();
            let packs = [IndexedPack { hash, bytes: object.len() as u64, chunks }];
            repository.write_index(&packs, Some(&mut signer(&place.carol)), NOW).unwrap();
            hash
        };
        let promote = || {
            let by = (&place.alice.fingerprint(), &mut signer(&place.alice));
            let (seen, progress) = (Heads::new(), BackupProgress::default());
            repository.check_and_promote(&keys, by, ReadData::No, &seen, &progress, NOW).unwrap()
        };
        let relies = |who: &Cert, id: &Id| {
            let (present, packs, unreadable) =
                repository.present(&keys, Some(&who.fingerprint()), NOW).unwrap();
            assert!(unreadable.is_empty(), "{unreadable:?}");
            (present.contains(id).unwrap(), packs.len())
        };
        let garbage = store(id, noise(6, 100_000));
        let good = noise(7, 90_000);
        let good_id = keys.identifiers.of(Kind::Data, &good);
        store(good_id, good);
        assert_eq!(relies(&place.alice, &id), (false, 0));
        let checked = promote();
        assert_eq!(checked.promoted, 1);
        let named = checked.problems.iter().find(|one| one.object == pack_name(&garbage));
        assert!(named.is_some_and(|one| one.why.contains("not what its name says")), "{checked:?}");
        assert_eq!(
            (relies(&place.alice, &id), relies(&place.alice, &good_id).0),
            ((false, 1), true)
        );
        // She reads the garbage again the next time, and refuses it again.
        let checked = promote();
        assert_eq!((checked.promoted, checked.packs_read), (0, 1));
        // The client itself relies on the wrong chunk that it stored. After a repair it does not.
        assert_eq!(relies(&place.carol, &id), (true, 2));
        let by = (&place.alice.fingerprint(), signer(&place.alice));
        let options = RepairOptions { read: ReadData::All, set_aside: true };
        let seen = Heads::new();
        let repaired = repository.repair(&keys, by, &options, &seen, &Arc::default(), NOW).unwrap();
        assert!(repaired.damaged.contains(&garbage) && repaired.set_aside.is_empty());
        assert_eq!(relies(&place.carol, &id), (false, 1));
        // With the true content, it counts.
        store(id, plain);
        assert_eq!((promote().promoted, relies(&place.alice, &id)), (1, (true, 2)));
    }
}
