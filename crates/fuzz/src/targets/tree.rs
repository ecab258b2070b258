//! Any text as the chunks of a tree and of lists: either refused, or it keeps every rule and is
//! written again the same.

use std::collections::HashMap;

use talaria_backup::{
    BackupError, ContentParts, Entry, Extent, GroupSecret, Id, Identifiers, Kind, Node, ReadChunks,
    RepositoryId, Root, Tree, TreeWriter, WriteChunks, is_beneath, path_order,
};

/// The most parts of a file that are read: a list may have itself in it many times.
const PARTS_MAX: usize = 10_000;

/// Chunks of the input. The first byte of an identifier says which.
struct Input<'a>(Vec<&'a [u8]>);

impl ReadChunks for Input<'_> {
    fn read(&self, kind: Kind, id: &Id) -> Result<Vec<u8>, BackupError> {
        let chunk = self.0.get(usize::from(id.0[0])).map(|chunk| chunk.to_vec());
        chunk.ok_or_else(|| BackupError::Missing { name: format!("{} {id}", kind.name()) })
    }
}

struct Written {
    identifiers: Identifiers,
    chunks: HashMap<Id, Vec<u8>>,
}

impl ReadChunks for Written {
    fn read(&self, kind: Kind, id: &Id) -> Result<Vec<u8>, BackupError> {
        assert_eq!(kind, Kind::Tree);
        Ok(self.chunks[id].clone())
    }
}

impl WriteChunks for Written {
    fn write(&mut self, kind: Kind, plain: &[u8]) -> Result<Id, BackupError> {
        let id = self.identifiers.of(kind, plain);
        self.chunks.insert(id, plain.to_vec());
        Ok(id)
    }
}

/// Checks one input.
pub fn run(bytes: &[u8]) {
    let Some((level, rest)) = bytes.split_first() else { return };
    // No text has this byte.
    let input = Input(rest.split(|byte| *byte == 0xff).collect());
    let tree = Tree::new(&input, Root { level: level % 3, id: Id([0; 32]) });
    let mut entries: Vec<Entry> = Vec::new();
    let mut is_whole = true;
    for entry in tree.entries() {
        match entry {
            Ok(entry) => entries.push(entry),
            Err(_) => is_whole = false,
        }
    }
    for pair in entries.windows(2) {
        assert!(path_order(&pair[0].path, &pair[1].path).is_lt());
    }
    for entry in &entries {
        let components = entry.path.split(|byte| *byte == b'/');
        assert!(components.clone().all(|name| !matches!(name, b"" | b"." | b"..")));
        assert!(!entry.path.contains(&0));
        if let Node::File { content, size, .. } = &entry.node {
            read_parts(&input, content, *size);
        }
    }
    if !is_whole {
        return;
    }
    for entry in &entries {
        let parent = entry.path.rsplitn(2, |byte| *byte == b'/').nth(1);
        let is_folder = |other: &Entry| matches!(other.node, Node::Directory(_));
        let has_parent =
            |parent| entries.iter().any(|other| other.path == parent && is_folder(other));
        assert!(parent.is_none_or(has_parent));
        // What is beneath an entry that is no folder would lead through it.
        assert!(
            is_folder(entry) || !entries.iter().any(|other| is_beneath(&other.path, &entry.path))
        );
    }
    let identifiers = Identifiers::new(&GroupSecret([1; 32].into()), RepositoryId([2; 16]));
    let mut written = Written { identifiers: identifiers.clone(), chunks: HashMap::new() };
    let mut writer = TreeWriter::new(identifiers);
    for entry in &entries {
        writer.push(entry, &mut written).expect("an entry that was read can be written");
    }
    let root = writer.finish(&mut written).expect("there is room");
    let tree = Tree::new(&written, root);
    let again: Vec<Entry> = tree.entries().map(|entry| entry.expect("it was written")).collect();
    assert_eq!(again, entries);
    for at in [0, entries.len() / 2, entries.len().saturating_sub(1)] {
        if let Some(entry) = entries.get(at) {
            assert_eq!(tree.get(&entry.path).expect("it was written").as_ref(), Some(entry));
            let rest = tree.entries_from(&entry.path).map(|entry| entry.expect("it was written"));
            assert!(rest.eq(entries[at..].iter().cloned()));
        }
    }
}

/// Reads the parts of a file, whose lengths sum to its size.
fn read_parts(input: &Input<'_>, content: &[Extent], size: u64) {
    let mut sum = 0_u64;
    let mut count = 0;
    for part in ContentParts::new(input, content.to_vec()).take(PARTS_MAX) {
        let Ok(part) = part else { return };
        assert!(!matches!(part, Extent::List { .. }) && part.length() > 0);
        sum = sum.checked_add(part.length()).expect("a size has 63 bits");
        count += 1;
    }
    assert!(sum == size || count == PARTS_MAX && sum < size);
}
