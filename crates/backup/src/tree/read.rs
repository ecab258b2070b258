//! Reading of trees.

use super::line::{check_line, parse_child, parse_entry, path_field};
use super::order::{Order, parents, path_order};
use super::rules::{LEVEL_MAX, Rule};
use crate::chunks::{CHUNK_BYTES_MAX, ReadChunks};
use crate::entry::{Entry, Node};
use crate::error::{BackupError, Result};
use crate::id::{Id, Kind};
use crate::snapshot::Root;
use crate::text::{Place, escaped};

/// The tree of a snapshot.
#[derive(Clone, Copy)]
pub struct Tree<'a> {
    chunks: &'a dyn ReadChunks,
    root: Root,
}

impl<'a> Tree<'a> {
    /// The tree that starts at `root`.
    #[must_use]
    pub fn new(chunks: &'a dyn ReadChunks, root: Root) -> Self {
        Self { chunks, root }
    }

    /// The source of the chunks of the tree and of its files.
    pub(crate) fn chunks(&self) -> &'a dyn ReadChunks {
        self.chunks
    }

    /// All entries in order.
    #[must_use]
    pub fn entries(&self) -> Entries<'a> {
        self.entries_from(&[])
    }

    /// The entries from `path` on, `path` included. Chunks before it are not read, except to look
    /// up parents and first hard links.
    #[must_use]
    pub fn entries_from(&self, path: &[u8]) -> Entries<'a> {
        Entries {
            chunks: self.chunks,
            finder: Finder::new(*self),
            next: Some(Reference { level: self.root.level, id: self.root.id, first: None }),
            branches: Vec::new(),
            leaf: None,
            order: Order::default(),
            from: path.to_vec(),
            gap: if path.is_empty() { Gap::None } else { Gap::Start },
            refused: false,
        }
    }

    /// The entry at `path`.
    ///
    /// # Errors
    ///
    /// As the iterator of [`Self::entries`].
    pub fn get(&self, path: &[u8]) -> Result<Option<Entry>> {
        Finder::new(*self).get(path)
    }
}

/// A chunk of the tree that is not read yet.
struct Reference {
    level: u8,
    id: Id,
    /// The path of the first entry; the root has none.
    first: Option<Vec<u8>>,
}

/// A chunk of the tree.
enum Chunk {
    Branch(Branch),
    Leaf(Leaf),
}

/// A chunk with references.
struct Branch {
    /// The level of the children.
    level: u8,
    children: Vec<(Id, Vec<u8>)>,
    next: usize,
}

/// A chunk with entries.
struct Leaf {
    id: Id,
    text: String,
    at: usize,
    line: usize,
    first: Option<Vec<u8>>,
}

impl Reference {
    fn parse(self, plain: Vec<u8>) -> Result<Chunk> {
        let Self { level, id, first } = self;
        let damaged = |why: &str| BackupError::damaged(format!("tree {id}"), why);
        if level > LEVEL_MAX {
            return Err(damaged("its level is above 8"));
        }
        if plain.len() > CHUNK_BYTES_MAX {
            return Err(damaged("it has more than 8 MiB"));
        }
        let text = String::from_utf8(plain).map_err(|_| damaged("it is not UTF-8 text"))?;
        let is_empty_tree = text.is_empty() && level == 0 && first.is_none();
        if !text.ends_with('\n') && !is_empty_tree {
            return Err(damaged("it has no line, or its last line has no end"));
        }
        if level == 0 {
            return Ok(Chunk::Leaf(Leaf { id, text, at: 0, line: 0, first }));
        }
        let children = text.split_terminator('\n').map(parse_child);
        let children: Vec<_> =
            children.collect::<std::result::Result<_, Rule>>().map_err(damaged)?;
        if !children.is_sorted_by(|(_, a), (_, b)| path_order(a, b).is_lt()) {
            return Err(damaged("its references do not ascend by path"));
        }
        if first.is_some_and(|first| children.first().is_none_or(|(_, found)| *found != first)) {
            return Err(damaged("its first path is not the one that its reference says"));
        }
        Ok(Chunk::Branch(Branch { level: level - 1, children, next: 0 }))
    }
}

impl Branch {
    /// The reference to the child that has `path`, if one has it.
    fn child_of(&self, path: &[u8]) -> Option<usize> {
        self.children.partition_point(|(_, first)| path_order(first, path).is_le()).checked_sub(1)
    }

    fn reference(&self, child: usize) -> Option<Reference> {
        let (id, first) = self.children.get(child)?;
        Some(Reference { level: self.level, id: *id, first: Some(first.clone()) })
    }
}

impl Leaf {
    /// The next entry, checked as far as it needs no other entry.
    fn next(&mut self) -> Option<Result<Entry>> {
        let (line, _) = self.text[self.at..].split_once('\n')?;
        self.at += line.len() + 1;
        self.line += 1;
        let entry = check_line(line).and_then(|()| parse_entry(line)).and_then(|entry| match self
            .first
            .take()
        {
            Some(first) if first != entry.path => {
                Err("its first path is not the one that its reference says")
            }
            _ => Ok(entry),
        });
        Some(entry.map_err(|rule| self.damaged(rule)))
    }

    /// The entry at a path, found by its text.
    fn get(&mut self, path: &[u8]) -> Option<Result<Entry>> {
        let field = escaped(path, Place::Last);
        let mut line = 0;
        let found = self.text.split_terminator('\n').find(|text| {
            line += 1;
            text.ends_with(&field) && path_field(text) == Some(&field)
        })?;
        self.line = line;
        Some(parse_entry(found).map_err(|rule| self.damaged(rule)))
    }

    fn damaged(&self, rule: Rule) -> BackupError {
        BackupError::damaged(format!("tree {}", self.id), format!("line {}: {rule}", self.line))
    }
}

/// Looks up single paths. It keeps the chunks of the last one, since the next is often near it.
pub(crate) struct Finder<'a> {
    tree: Tree<'a>,
    /// One chunk of each level, the root last.
    kept: Vec<Option<(Id, Chunk)>>,
}

impl<'a> Finder<'a> {
    pub(crate) fn new(tree: Tree<'a>) -> Self {
        Self { tree, kept: Vec::new() }
    }

    pub(crate) fn get(&mut self, path: &[u8]) -> Result<Option<Entry>> {
        let Root { level, id } = self.tree.root;
        self.kept.resize_with(usize::from(level) + 1, || None);
        let mut reference = Reference { level, id, first: None };
        loop {
            let kept = &mut self.kept[usize::from(reference.level)];
            if kept.as_ref().is_none_or(|(id, _)| *id != reference.id) {
                let plain = self.tree.chunks.read(Kind::Tree, &reference.id)?;
                *kept = Some((reference.id, reference.parse(plain)?));
            }
            reference = match kept {
                Some((_, Chunk::Leaf(leaf))) => return leaf.get(path).transpose(),
                Some((_, Chunk::Branch(branch))) => {
                    match branch.child_of(path).and_then(|child| branch.reference(child)) {
                        Some(reference) => reference,
                        None => return Ok(None),
                    }
                }
                None => return Ok(None),
            };
        }
    }
}

/// Entries before the next one that were not read.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Gap {
    None,
    /// The reader starts in the middle, and looks up the parents of its first entry.
    Start,
    /// A chunk could not be read. The parents of the next entry may have been in it.
    Lost,
}

/// The entries of a tree in order.
///
/// An error is either a chunk that cannot be read ([`Missing`](BackupError::Missing) for example):
/// the iterator goes on with the entries after it, and takes their parents for directories. Or a
/// rule of the format is broken: the iterator ends.
pub struct Entries<'a> {
    chunks: &'a dyn ReadChunks,
    finder: Finder<'a>,
    next: Option<Reference>,
    branches: Vec<Branch>,
    leaf: Option<Leaf>,
    order: Order,
    from: Vec<u8>,
    gap: Gap,
    refused: bool,
}

impl Entries<'_> {
    /// Whether the last error was a broken rule of the format, so that nothing follows.
    pub(crate) fn is_refused(&self) -> bool {
        self.refused
    }

    fn end(&mut self) {
        self.refused = true;
        self.next = None;
        self.branches.clear();
        self.leaf = None;
    }

    /// The next chunk to read.
    fn next_reference(&mut self) -> Option<Reference> {
        if let Some(reference) = self.next.take() {
            return Some(reference);
        }
        loop {
            let branch = self.branches.last_mut()?;
            branch.next += 1;
            if let Some(reference) = branch.reference(branch.next - 1) {
                return Some(reference);
            }
            self.branches.pop();
        }
    }

    /// Reads the next chunk. A chunk that cannot be read leaves a gap.
    fn descend(&mut self, reference: Reference) -> Result<()> {
        let plain = match self.chunks.read(Kind::Tree, &reference.id) {
            Ok(plain) => plain,
            Err(error) => {
                self.gap = Gap::Lost;
                return Err(error);
            }
        };
        match reference.parse(plain) {
            Ok(Chunk::Leaf(leaf)) => self.leaf = Some(leaf),
            Ok(Chunk::Branch(mut branch)) => {
                branch.next = branch.child_of(&self.from).unwrap_or(0);
                self.branches.push(branch);
            }
            Err(error) => {
                self.end();
                return Err(error);
            }
        }
        Ok(())
    }

    /// Checks an entry against those before it.
    fn check(&mut self, entry: &Entry) -> Result<()> {
        let is_folder = matches!(entry.node, Node::Directory(_));
        let taken = match self.gap {
            Gap::None => self.order.push(&entry.path, is_folder),
            Gap::Start | Gap::Lost => self.order.push_after_gap(&entry.path, is_folder),
        };
        let name = |path: &[u8]| format!("the tree at {}", escaped(path, Place::Last));
        taken.map_err(|rule| BackupError::damaged(name(&entry.path), rule))?;
        if self.gap == Gap::Start {
            for parent in parents(&entry.path) {
                let found = self.finder.get(parent)?;
                if !matches!(found, Some(Entry { node: Node::Directory(_), .. })) {
                    let rule = "the parent of the path is not an earlier directory";
                    return Err(BackupError::damaged(name(&entry.path), rule));
                }
            }
        }
        self.gap = Gap::None;
        if let Node::HardLink { first } = &entry.node {
            match self.finder.get(first) {
                Ok(Some(found)) => match found.node {
                    Node::Directory(_) | Node::HardLink { .. } => {
                        let rule = "its first link is a directory or a further link";
                        return Err(BackupError::damaged(name(&entry.path), rule));
                    }
                    _ => {}
                },
                Ok(None) => {
                    let rule = "its first link is not there";
                    return Err(BackupError::damaged(name(&entry.path), rule));
                }
                // The first link is lost, and was reported. The further one is as good as it can
                // be.
                Err(_) => {}
            }
        }
        Ok(())
    }
}

impl Iterator for Entries<'_> {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(leaf) = &mut self.leaf {
                let Some(next) = leaf.next() else {
                    self.leaf = None;
                    continue;
                };
                let checked = next.and_then(|entry| {
                    if path_order(&entry.path, &self.from).is_lt() {
                        return Ok(None);
                    }
                    self.check(&entry)?;
                    Ok(Some(entry))
                });
                match checked {
                    Ok(None) => {}
                    Ok(Some(entry)) => return Some(Ok(entry)),
                    Err(error) => {
                        self.end();
                        return Some(Err(error));
                    }
                }
            } else {
                let reference = self.next_reference()?;
                if let Err(error) = self.descend(reference) {
                    return Some(Err(error));
                }
            }
        }
    }
}
