//! The packs that indexes describe, compared with those that the storage lists.

use std::collections::HashSet;

use crate::catalog::ListedPacks;
use crate::check::checked::Checked;
use crate::document::DocumentStanding;
use crate::error::Result;
use crate::id::ObjectHash;
use crate::pack::pack_name;
use crate::repository::{Keys, Repository};
use crate::source::Source;
use crate::verified::Verified;

/// The lines of one index about a pack.
pub(crate) struct Described {
    pack: ObjectHash,
    /// The length of the pack.
    pub(crate) bytes: u64,
    /// See [`IndexedPack::lines_hash`].
    pub(super) lines: [u8; 32],
    /// Somebody signed the index who may.
    pub(super) is_trusted: bool,
    /// A reader has signed that it is true.
    pub(super) is_verified: bool,
}

/// The lines of all indexes, by pack.
pub(super) struct Descriptions(Vec<Described>);

impl Descriptions {
    /// The lines about a pack, one for each index that names it.
    pub(super) fn of(&self, pack: &ObjectHash) -> &[Described] {
        let from = self.0.partition_point(|one| one.pack < *pack);
        let until = from + self.0[from..].partition_point(|one| one.pack == *pack);
        &self.0[from..until]
    }
}

/// The packs of all indexes.
pub(super) struct Indexed {
    pub(super) described: Descriptions,
    /// Packs that are not as an index describes them. Only of these, the chunks are looked at one
    /// by one.
    pub(super) bad: HashSet<ObjectHash>,
    /// The bad packs that the storage does not list.
    pub(super) missing: HashSet<ObjectHash>,
}

impl Repository {
    /// Reads all indexes, and adds their chunks to `source`.
    pub(super) fn indexed(
        &self,
        keys: &Keys,
        (listed, verified): (&ListedPacks, &Verified),
        source: &mut Source,
        checked: &mut Checked,
        now: u32,
    ) -> Result<Indexed> {
        let (mut bad, mut missing) = (HashSet::new(), HashSet::new());
        let mut described = Vec::new();
        let unreadable = self.indexes(keys, now, &mut |pack, standing| {
            source.add(pack)?;
            match listed.get(&pack.hash) {
                None => {
                    // A prune deletes packs, and leaves indexes that name others, too.
                    missing.insert(pack.hash);
                    bad.insert(pack.hash);
                }
                Some(bytes) if bytes != pack.bytes => {
                    let why = format!("it has {bytes} bytes, and an index says {}", pack.bytes);
                    checked.add(pack_name(&pack.hash), why);
                    bad.insert(pack.hash);
                }
                Some(_) => {}
            }
            if let DocumentStanding::Foreign(why) = standing {
                checked.add("indexes", format!("an index does not count: {why}"));
            }
            described.push(Described {
                pack: pack.hash,
                bytes: pack.bytes,
                lines: pack.lines_hash(),
                is_trusted: standing.is_trusted(),
                is_verified: verified.covers(pack)?,
            });
            Ok(())
        })?;
        checked.add_errors(&unreadable);
        described.sort_unstable_by_key(|one| one.pack);
        Ok(Indexed { described: Descriptions(described), bad, missing })
    }
}
