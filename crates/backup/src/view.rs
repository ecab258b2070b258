//! Files of a snapshot one at a time, as somebody who browses wants them: look-up, listing of a
//! folder, reading of a range.

use std::ops::Range;

use crate::chunks::ReadChunks;
use crate::entry::{Entry, Extent, Node};
use crate::error::{BackupError, Result};
use crate::id::Kind;
use crate::snapshot::Root;
use crate::tree::rules::LIST_DEPTH_MAX;
use crate::tree::{Entries, Tree, is_beneath, parse_list};

/// Entries beneath a folder that are read to get to the next one. After so many, the reader looks
/// for it.
const STEPS_MAX: usize = 500;

/// A snapshot to browse.
#[derive(Clone, Copy)]
pub struct SnapshotView<'a> {
    tree: Tree<'a>,
}

impl<'a> SnapshotView<'a> {
    /// The snapshot whose tree starts at `root`.
    #[must_use]
    pub fn new(chunks: &'a dyn ReadChunks, root: Root) -> Self {
        Self { tree: Tree::new(chunks, root) }
    }

    /// The entry at `path`. A further hard link has the content and the attributes of the first.
    ///
    /// # Errors
    ///
    /// [`Missing`](BackupError::Missing) and [`Damaged`](BackupError::Damaged) chunks of the tree;
    /// errors of the storage.
    pub fn get(&self, path: &[u8]) -> Result<Option<Entry>> {
        let Some(entry) = self.tree.get(path)? else { return Ok(None) };
        let Node::HardLink { first } = &entry.node else { return Ok(Some(entry)) };
        let first = self.tree.get(first)?;
        let node = first.map(|first| first.node);
        Ok(node
            .filter(|node| !matches!(node, Node::HardLink { .. } | Node::Directory(_)))
            .map(|node| Entry { path: entry.path, node }))
    }

    /// The entries of a folder, without those beneath its folders, in order. `after` is the path of
    /// the last one that the caller knows, if it knows some.
    #[must_use]
    pub fn children(&self, folder: &[u8], after: Option<&[u8]>) -> Children<'a> {
        let from = after.map_or_else(|| folder.to_vec(), past);
        Children {
            tree: self.tree,
            folder: folder.to_vec(),
            entries: self.tree.entries_from(&from),
            known: None,
        }
    }

    /// The bytes in `range` of a content, fewer where it ends.
    ///
    /// # Errors
    ///
    /// As [`Self::get`].
    pub fn read(&self, content: &[Extent], range: Range<u64>) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.read_parts(content, range, 0, &mut bytes)?;
        Ok(bytes)
    }

    fn read_parts(
        &self,
        parts: &[Extent],
        range: Range<u64>,
        depth: usize,
        bytes: &mut Vec<u8>,
    ) -> Result<()> {
        let mut start = 0_u64;
        for part in parts {
            let end = start.saturating_add(part.length());
            let wanted = range.start.max(start)..range.end.min(end);
            if wanted.start < wanted.end {
                let wanted = wanted.start - start..wanted.end - start;
                match part {
                    Extent::Inline(inline) => bytes.extend_from_slice(slice(inline, &wanted)?),
                    Extent::Hole(_) => {
                        bytes.resize(bytes.len() + index(wanted.end - wanted.start)?, 0);
                    }
                    Extent::Data { id, offset, .. } => {
                        let chunk = self.tree.chunks().read_shared(Kind::Data, id)?;
                        let wanted = offset + wanted.start..offset + wanted.end;
                        bytes.extend_from_slice(slice(&chunk, &wanted)?);
                    }
                    Extent::List { .. } if depth == LIST_DEPTH_MAX => {
                        return Err(BackupError::damaged("a list", "lists are nested too deeply"));
                    }
                    Extent::List { id, length } => {
                        let text = self.tree.chunks().read_shared(Kind::List, id)?;
                        let parts = parse_list(*id, &text, *length)?;
                        self.read_parts(&parts, wanted, depth + 1, bytes)?;
                    }
                }
            }
            if end >= range.end {
                break;
            }
            start = end;
        }
        Ok(())
    }
}

fn index(bytes: u64) -> Result<usize> {
    usize::try_from(bytes).map_err(|_| BackupError::Refused("the range is too long".into()))
}

fn slice<'a>(bytes: &'a [u8], range: &Range<u64>) -> Result<&'a [u8]> {
    bytes
        .get(index(range.start)?..index(range.end)?)
        .ok_or_else(|| BackupError::damaged("a chunk", "it is shorter than its reference"))
}

/// The least path after `path` and everything beneath it: no component has the byte 0, and a
/// separator sorts before 1.
fn past(path: &[u8]) -> Vec<u8> {
    let mut past = path.to_vec();
    past.push(1);
    past
}

/// The entries of a folder.
pub struct Children<'a> {
    tree: Tree<'a>,
    folder: Vec<u8>,
    entries: Entries<'a>,
    /// The last folder that was returned. The entries beneath it are left out.
    known: Option<Vec<u8>>,
}

impl Iterator for Children<'_> {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut steps = 0;
        loop {
            let entry = match self.entries.next()? {
                Ok(entry) => entry,
                Err(error) => return Some(Err(error)),
            };
            if entry.path == self.folder {
                continue;
            }
            if !is_beneath(&entry.path, &self.folder) {
                return None;
            }
            if let Some(known) = &self.known
                && is_beneath(&entry.path, known)
            {
                steps += 1;
                if steps == STEPS_MAX {
                    self.entries = self.tree.entries_from(&past(known));
                }
                continue;
            }
            self.known = matches!(entry.node, Node::Directory(_)).then(|| entry.path.clone());
            return Some(Ok(entry));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::entry::Meta;
    use crate::epoch::EpochProfile;
    use crate::testing::{Place, noise};
    use crate::tree::{ContentWriter, TreeWriter};

    /// A tree of folders (names that end with `d`) and files, stored.
    fn stored(paths: &[Vec<u8>], content: &[Extent]) -> (Place, Root) {
        let place = Place::new(EpochProfile::None);
        let (mut sink, _) = place.sink(place.present(), 1);
        let mut tree = TreeWriter::new(place.identifiers.clone());
        for path in paths {
            let node = if path.ends_with(b"d") {
                Node::Directory(Meta::default())
            } else {
                let size = content.iter().map(Extent::length).sum();
                Node::File { meta: Meta::default(), size, content: content.to_vec() }
            };
            tree.push(&Entry { path: path.clone(), node }, &mut sink).unwrap();
        }
        let root = tree.finish(&mut sink).unwrap();
        sink.finish().unwrap();
        (place, root)
    }

    #[test]
    fn a_folder_lists_its_own_entries_also_from_the_middle() {
        let mut paths: Vec<Vec<u8>> = vec![b"a-file".to_vec(), b"bd".to_vec()];
        // More than are read one by one.
        paths.extend((0..3 * STEPS_MAX).map(|n| format!("bd/{n:05}").into_bytes()));
        paths.extend(
            [&b"bd\x01"[..], b"c", b"dd", b"dd/ed", b"dd/ed/f", b"dd/g"].map(<[u8]>::to_vec),
        );
        let (place, root) = stored(&paths, &[]);
        let source = place.source();
        let view = SnapshotView::new(&source, root);
        let names = |folder: &[u8], after: Option<&[u8]>| -> Vec<Vec<u8>> {
            view.children(folder, after).map(|entry| entry.unwrap().path).collect()
        };
        assert_eq!(names(b"", None), [&b"a-file"[..], b"bd", b"bd\x01", b"c", b"dd"]);
        assert_eq!(names(b"", Some(b"bd")), [&b"bd\x01"[..], b"c", b"dd"]);
        assert_eq!(names(b"dd", None), [&b"dd/ed"[..], b"dd/g"]);
        assert_eq!(names(b"dd", Some(b"dd/ed")), [b"dd/g"]);
        assert!(names(b"dd", Some(b"dd/g")).is_empty());
        assert_eq!(names(b"bd", None).len(), 3 * STEPS_MAX);
        assert_eq!(names(b"bd", Some(b"bd/00009"))[0], b"bd/00010");
        assert!(view.get(b"dd/ed/f").unwrap().is_some() && view.get(b"dd/ed/h").unwrap().is_none());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn every_range_equals_that_part_of_the_file(
            lengths in proptest::collection::vec((0..3_u8, 1..900_usize), 1..700),
            ranges in proptest::collection::vec((0..400_000_u64, 0..3000_u64), 8),
        ) {
            let place = Place::new(EpochProfile::None);
            let (mut sink, _) = place.sink(place.present(), 1);
            let (mut plain, mut writer) = (Vec::new(), ContentWriter::new());
            for (number, (kind, length)) in (0..).zip(lengths) {
                let bytes = if kind == 0 { vec![0; length] } else { noise(number, length) };
                let part = if kind == 0 {
                    Extent::Hole(length as u64)
                } else {
                    let id = crate::chunks::WriteChunks::write(&mut sink, Kind::Data, &bytes).unwrap();
                    Extent::Data { id, offset: 0, length: length as u64 }
                };
                plain.extend(bytes);
                writer.push(part, &mut sink).unwrap();
            }
            let content = writer.finish(&mut sink).unwrap();
            sink.finish().unwrap();
            let source = Arc::new(place.source());
            let root = Root { level: 0, id: crate::id::Id([0; 32]) };
            let view = SnapshotView::new(&*source, root);
            for (start, length) in ranges {
                let at = |byte: u64| usize::try_from(byte).unwrap().min(plain.len());
                let expected = &plain[at(start)..at(start + length)];
                prop_assert_eq!(view.read(&content, start..start + length).unwrap(), expected);
            }
        }
    }
}
