//! Indexes: which chunks are in which packs.

use std::fmt::Write as _;

use crate::error::{BackupError, Result};
use crate::id::{ObjectHash, RepositoryId};
use crate::pack::{PACK_BYTES_MAX, SEALED_EXTRA_MAX, Stored, number};
use crate::text::Lines;

/// The maximum number of octets in the object of an index. Readers refuse more.
pub(crate) const INDEX_BYTES_MAX: u64 = 64 << 20;

/// Packs and chunks after which a writer begins the next index: a crash forgets less than that.
pub(crate) const INDEX_PACKS: usize = 256;
/// See [`INDEX_PACKS`].
pub(crate) const INDEX_CHUNKS: usize = 65_536;

const DOMAIN: &str = "talaria backup index";

/// A pack with its chunks.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct IndexedPack {
    pub(crate) hash: ObjectHash,
    /// The length of the object in octets.
    pub(crate) bytes: u64,
    pub(crate) chunks: Vec<Stored>,
}

/// Appends a pack to the text of an index.
fn push_pack(text: &mut String, pack: &IndexedPack) {
    let _ = writeln!(text, "pack {} {}", pack.hash, pack.bytes);
    pack.chunks.iter().for_each(|chunk| chunk.write(text));
}

/// The text of an index.
pub(crate) fn write(repository: RepositoryId, packs: &[IndexedPack]) -> String {
    let mut text = format!("{DOMAIN} 1\nrepository {repository}\n");
    packs.iter().for_each(|pack| push_pack(&mut text, pack));
    text
}

/// The packs in the text of the index with the object name `name`.
///
/// # Errors
///
/// [`Damaged`](BackupError::Damaged) with the reason; [`Newer`](BackupError::Newer).
pub(crate) fn parse(name: &str, text: &[u8], repository: RepositoryId) -> Result<Vec<IndexedPack>> {
    let repository = repository.to_string();
    let mut lines = Lines::open(name, text, DOMAIN, Some(&repository))?;
    let mut packs: Vec<IndexedPack> = Vec::new();
    while let Some(line) = lines.any() {
        let refused = || {
            let start: String = line.chars().take(40).collect();
            BackupError::damaged(name, format!("the line \"{start}\" is wrong"))
        };
        if let Some(fields) = line.strip_prefix("pack ") {
            let (hash, bytes) = fields.split_once(' ').ok_or_else(refused)?;
            let hash = hash.parse().map_err(|_| refused())?;
            let bytes = number(bytes).filter(|bytes| *bytes <= PACK_BYTES_MAX + SEALED_EXTRA_MAX);
            let bytes = bytes.ok_or_else(refused)?;
            packs.push(IndexedPack { hash, bytes, chunks: Vec::new() });
        } else {
            let chunk = Stored::parse(line).ok_or_else(refused)?;
            let pack = packs.last_mut().ok_or_else(refused)?;
            let end = pack.chunks.last().map_or(0, |before| before.range().end);
            // A chunk has a header in front of it, and nothing is in two chunks.
            if chunk.offset < end || chunk.range().end > pack.bytes {
                return Err(refused());
            }
            pack.chunks.push(chunk);
        }
    }
    Ok(packs)
}

/// The name of the object of an index.
pub(crate) fn index_name(hash: &ObjectHash) -> String {
    format!("indexes/{hash}")
}
