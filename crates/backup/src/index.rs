//! Indexes: which chunks are in which packs.

use std::fmt::Write as _;

use crate::error::{BackupError, Result};
use crate::id::{ObjectHash, RepositoryId};
use crate::pack::{PACK_BYTES_MAX, PackedChunk, SEALED_EXTRA_MAX, number};
use crate::text::Lines;

/// The maximum number of bytes in the object of an index. Readers refuse more.
pub(crate) const INDEX_BYTES_MAX: u64 = 64 << 20;

/// Packs and chunks after which a writer begins the next index: a crash forgets less than that.
pub(crate) const INDEX_PACKS: usize = 256;
/// See [`INDEX_PACKS`].
pub(crate) const INDEX_CHUNKS: usize = 65_536;

const DOMAIN: &str = "talaria backup index";

/// A pack with its chunks.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct IndexedPack {
    /// The hash of the object.
    pub hash: ObjectHash,
    /// The length of the object in bytes.
    pub bytes: u64,
    /// The chunks, by ascending offset.
    pub chunks: Vec<PackedChunk>,
}

impl IndexedPack {
    /// The BLAKE3 hash of the lines of the pack in an index, the first with its name and length.
    pub(crate) fn lines_hash(&self) -> [u8; 32] {
        let mut lines = String::new();
        push_pack(&mut lines, self);
        *blake3::hash(lines.as_bytes()).as_bytes()
    }
}

/// Appends a pack to the text of an index.
fn push_pack(text: &mut String, pack: &IndexedPack) {
    let _ = writeln!(text, "pack {} {}", pack.hash, pack.bytes);
    pack.chunks.iter().for_each(|chunk| chunk.write(text));
}

/// The text of an index.
#[must_use]
pub fn write(repository: RepositoryId, packs: &[IndexedPack]) -> String {
    let mut text = format!("{DOMAIN} 1\nrepository {repository}\n");
    packs.iter().for_each(|pack| push_pack(&mut text, pack));
    text
}

/// The packs in the text of the index with the object name `name`.
///
/// # Errors
///
/// [`Damaged`](BackupError::Damaged) with the reason; [`Newer`](BackupError::Newer).
pub fn parse(name: &str, text: &[u8], repository: RepositoryId) -> Result<Vec<IndexedPack>> {
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
            let chunk = PackedChunk::parse(line).ok_or_else(refused)?;
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::id::{Id, Kind};

    const REPOSITORY: RepositoryId = RepositoryId([2; 16]);

    /// Kind, identifier, stored length, compressed.
    type Chunk = (usize, [u8; 32], u32, bool);

    fn packs() -> impl Strategy<Value = Vec<IndexedPack>> {
        let chunk = (0..3_usize, any::<[u8; 32]>(), 0..9000_u32, any::<bool>());
        let pack = (any::<[u8; 32]>(), proptest::collection::vec(chunk, 0..6));
        proptest::collection::vec(pack, 0..5).prop_map(|packs| {
            let pack = |(hash, chunks): ([u8; 32], Vec<Chunk>)| {
                let mut offset = 512;
                let chunks = chunks.into_iter().map(|(kind, id, stored, compressed)| {
                    let kind = [Kind::Data, Kind::List, Kind::Tree][kind];
                    let plain = if compressed { stored * 3 } else { stored };
                    let chunk = PackedChunk { kind, id: Id(id), offset, stored, plain, compressed };
                    offset = chunk.range().end.next_multiple_of(512) + 512;
                    chunk
                });
                let chunks = chunks.collect();
                IndexedPack { hash: ObjectHash(hash), bytes: 100_000, chunks }
            };
            packs.into_iter().map(pack).collect()
        })
    }

    proptest! {
        #[test]
        fn an_index_is_read_as_it_was_written(packs in packs()) {
            let text = write(REPOSITORY, &packs);
            prop_assert_eq!(parse("i", text.as_bytes(), REPOSITORY).unwrap(), packs);
            prop_assert!(parse("i", text.as_bytes(), RepositoryId([3; 16])).is_err());
        }

        /// An index that is read is written the same, so it has no second form.
        #[test]
        fn a_changed_index_is_another_one_or_refused(packs in packs(), at in 0.0..1.0_f64, byte: u8) {
            let mut text = write(REPOSITORY, &packs).into_bytes();
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
            let at = (at * text.len() as f64) as usize;
            text[at] = byte;
            if let Ok(read) = parse("i", &text, REPOSITORY) {
                prop_assert_eq!(write(REPOSITORY, &read).into_bytes(), text);
            }
        }
    }

    #[test]
    fn impossible_indexes_are_refused() {
        let (hash, id) = ("ab".repeat(32), "cd".repeat(32));
        let read = |lines: &str| {
            let text = format!("talaria backup index 1\nrepository {REPOSITORY}\n{lines}");
            parse("i", text.as_bytes(), REPOSITORY)
        };
        let chunk = format!("data {id} 512 100 100 -\n");
        assert!(read(&format!("pack {hash} 4096\n{chunk}")).is_ok());
        for lines in [
            // Without a pack, beyond the end of the pack, twice, over each other.
            chunk.clone(),
            format!("pack {hash} 600\n{chunk}"),
            format!("pack {hash} 4096\n{chunk}{chunk}"),
            format!("pack {hash} 4096\ndata {id} 512 1000 1000 -\ndata {id} 1024 9 9 -\n"),
            format!("pack {hash} 99999999999\n{chunk}"),
            format!("pack {hash}\n{chunk}"),
            format!("pack {} 4096\n", hash.to_uppercase()),
            format!("pack {hash} 4096\n\n"),
            format!("pack {hash} 4096\nfile {id}\n"),
        ] {
            assert!(matches!(read(&lines), Err(BackupError::Damaged { .. })), "{lines}");
        }
    }
}
