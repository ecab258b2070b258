//! The cache of a run: the findings of the last run, so that unchanged files are not read again.
//!
//! One sequential file has a record for each entry, in the order of the tree, so the walk and the
//! file are merged and no record is ever looked up. The file is a line `talaria backup cache 1
//! REPOSITORY`, then blocks: length (4 bytes, little-endian), BLAKE3 hash, records. Whatever is
//! damaged, of another version or of another repository counts as absent, and files are read.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, BufWriter, Read as _, Write as _};
use std::path::Path;

use talaria_disk::{NewFile, Readers};

use super::attributes::Attributes;
use super::walk::{Stamp, WalkItem};
use crate::entry::{Entry, Extent, Node, Time};
use crate::id::{Id, RepositoryId};
use crate::tree::path_order;

/// A block is written when it has this many bytes.
const BLOCK_BYTES: usize = 64 << 10;
/// A longer block counts as damaged. The longest record has to fit.
const BLOCK_BYTES_MAX: usize = 64 << 20;
/// Files with more parts are not in the cache, to bound the memory. 2^20 parts of 1 MiB are a file
/// of 1 TiB.
const PARTS_MAX: usize = 1 << 20;

/// The fields of a record after the path, where nothing but the path is known: inode 0, which no
/// file has, two times, size, no attributes, no parts.
const UNKNOWN: [u8; 22] = [0; 22];

/// The cached facts about an item.
#[derive(Debug, Eq, PartialEq)]
pub enum Cached {
    /// Nothing: attributes and content have to be read.
    Nothing,
    /// The attributes, which are now in the entry. The content has to be read.
    Attributes,
    /// The attributes, which are now in the entry, and the content; only a file has parts.
    All(Vec<Extent>),
}

/// The difference between a path and its cached entry.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum FileChange {
    /// The cache does not have the path.
    #[default]
    New,
    /// Inode, size or times differ, or were too new at the last run to tell.
    Changed,
    /// They are the same.
    Unchanged,
}

/// Reads the cache of an earlier run.
pub struct Cache {
    source: Option<Source>,
    next: Option<Record>,
    change: FileChange,
}

struct Source {
    file: BufReader<File>,
    block: Vec<u8>,
    at: usize,
    path: Vec<u8>,
}

struct Record {
    path: Vec<u8>,
    inode: u64,
    ctime: Time,
    mtime: Time,
    size: u64,
    attributes: Attributes,
    parts: Vec<Extent>,
}

fn first_line(repository: RepositoryId) -> String {
    format!("talaria backup cache 1 {repository}\n")
}

impl Cache {
    /// The cache in a file, or an empty one if there is none that is good and of this repository.
    #[must_use]
    pub fn open(path: &Path, repository: RepositoryId) -> Self {
        let open = || -> io::Result<Option<Source>> {
            let mut file = BufReader::with_capacity(BLOCK_BYTES, File::open(path)?);
            let expected = first_line(repository);
            let mut line = String::new();
            (&mut file).take(expected.len() as u64).read_line(&mut line)?;
            let good = line == expected;
            Ok(good.then(|| Source { file, block: Vec::new(), at: 0, path: Vec::new() }))
        };
        Self { source: open().ok().flatten(), next: None, change: FileChange::New }
    }

    /// A cache that knows nothing.
    #[must_use]
    pub fn empty() -> Self {
        Self { source: None, next: None, change: FileChange::New }
    }

    /// The cached entry of an item. Items have to come in the order of the tree.
    ///
    /// A file is unchanged if its path, inode, size, and the times of the last change of its inode
    /// and of its content are the same. Its content counts only if `is_present` says of each chunk
    /// that the repository still has it.
    pub fn find(&mut self, item: &mut WalkItem, is_present: impl Fn(&Id) -> bool) -> Cached {
        self.change = FileChange::New;
        let path = &item.entry.path;
        while self.next.as_ref().is_none_or(|next| path_order(&next.path, path).is_lt()) {
            self.next = self.source.as_mut().and_then(Source::next);
            if self.next.is_none() {
                self.source = None;
                return Cached::Nothing;
            }
        }
        let Some(record) = self.next.take_if(|next| next.path == *path) else {
            return Cached::Nothing;
        };
        self.change = FileChange::Changed;
        let Some(meta) = item.entry.node.meta() else { return Cached::Nothing };
        if record.inode == 0 || record.inode != item.stamp.inode || record.ctime != item.stamp.ctime
        {
            return Cached::Nothing;
        }
        let is_same = record.mtime == meta.mtime && record.size == size_of(&item.entry);
        if is_same {
            self.change = FileChange::Unchanged;
        }
        item.set_attributes(record.attributes);
        let present = record.parts.iter().all(|part| match part {
            Extent::Data { id, .. } | Extent::List { id, .. } => is_present(id),
            Extent::Inline(_) | Extent::Hole(_) => true,
        });
        if is_same && present { Cached::All(record.parts) } else { Cached::Attributes }
    }

    /// How the last item of [`Self::find`] differs from its record.
    #[must_use]
    pub fn change(&self) -> FileChange {
        self.change
    }
}

fn size_of(entry: &Entry) -> u64 {
    match entry.node {
        Node::File { size, .. } => size,
        _ => 0,
    }
}

impl Source {
    /// The next record; nothing after the end or damage.
    fn next(&mut self) -> Option<Record> {
        if self.at == self.block.len() {
            self.read_block()?;
        }
        let mut fields = Fields(&self.block[self.at..]);
        let record = fields.record(&mut self.path)?;
        self.at = self.block.len() - fields.0.len();
        Some(record)
    }

    fn read_block(&mut self) -> Option<()> {
        let (mut length, mut hash) = ([0; 4], [0; 32]);
        self.file.read_exact(&mut length).ok()?;
        self.file.read_exact(&mut hash).ok()?;
        let length = usize::try_from(u32::from_le_bytes(length)).ok()?;
        if length == 0 || length > BLOCK_BYTES_MAX {
            return None;
        }
        self.block.clear();
        (&mut self.file).take(length as u64).read_to_end(&mut self.block).ok()?;
        self.at = 0;
        self.path.clear();
        (self.block.len() == length && *blake3::hash(&self.block).as_bytes() == hash).then_some(())
    }
}

/// Reads the fields of records from bytes. The bytes are hashed, so bounds only guard against bugs.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<u64> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.take(1)?[0];
            number |= u64::from(byte & 0x7f).checked_shl(shift)?;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    fn length(&mut self) -> Option<usize> {
        usize::try_from(self.number()?).ok()
    }

    fn bytes(&mut self) -> Option<Vec<u8>> {
        let length = self.length()?;
        Some(self.take(length)?.to_vec())
    }

    fn time(&mut self) -> Option<Time> {
        let seconds = i64::from_le_bytes(*self.take(8)?.first_chunk()?);
        Some(Time { seconds, nanoseconds: u32::try_from(self.number()?).ok()? })
    }

    fn part(&mut self) -> Option<Extent> {
        Some(match self.take(1)?[0] {
            0 => Extent::Inline(self.bytes()?),
            1 => Extent::Data {
                id: Id(*self.take(32)?.first_chunk()?),
                offset: self.number()?,
                length: self.number()?,
            },
            2 => Extent::Hole(self.number()?),
            _ => return None,
        })
    }

    /// The next record. `path` is that of the record before, and becomes that of this one.
    fn record(&mut self, path: &mut Vec<u8>) -> Option<Record> {
        let shared = self.length()?;
        if shared > path.len() {
            return None;
        }
        path.truncate(shared);
        let length = self.length()?;
        path.extend_from_slice(self.take(length)?);
        let (inode, ctime, mtime) = (self.number()?, self.time()?, self.time()?);
        let size = self.number()?;
        let count = self.number()?;
        let pair = |_| Some((self.bytes()?, self.bytes()?));
        let attributes = (0..count).map(pair).collect::<Option<_>>()?;
        let count = self.number()?;
        let parts = (0..count).map(|_| self.part()).collect::<Option<_>>()?;
        Some(Record { path: path.clone(), inode, ctime, mtime, size, attributes, parts })
    }
}

/// Writes the cache of a run beside the last one, and replaces that at the end.
pub struct CacheWriter {
    file: BufWriter<NewFile>,
    block: Vec<u8>,
    last: Vec<u8>,
}

impl CacheWriter {
    /// A cache that will be in the file `path`.
    ///
    /// # Errors
    ///
    /// Errors of the file system.
    pub fn create(path: &Path, repository: RepositoryId) -> io::Result<Self> {
        let mut file = BufWriter::with_capacity(BLOCK_BYTES, NewFile::replacing(path)?);
        file.write_all(first_line(repository).as_bytes())?;
        Ok(Self { file, block: Vec::new(), last: Vec::new() })
    }

    /// Appends an entry with its attributes and, for a file, its parts with all lists resolved.
    /// Entries come in the order of the tree. Of an entry whose stamp is not settled only the path
    /// is noted: a later change could go unnoticed.
    ///
    /// # Errors
    ///
    /// Errors of the file system.
    pub fn push(&mut self, stamp: &Stamp, entry: &Entry, parts: &[Extent]) -> io::Result<()> {
        let Some(meta) = entry.node.meta() else { return Ok(()) };
        let has_list = parts.iter().any(|part| matches!(part, Extent::List { .. }));
        let is_known = stamp.is_settled && !has_list && parts.len() <= PARTS_MAX;
        if self.block.len() >= BLOCK_BYTES {
            self.write_block()?;
        }
        let block = &mut self.block;
        let shared = self.last.iter().zip(&entry.path).take_while(|(a, b)| a == b).count();
        push_number(block, shared as u64);
        push_bytes(block, &entry.path[shared..]);
        self.last.clone_from(&entry.path);
        if !is_known {
            block.extend_from_slice(&UNKNOWN);
            return Ok(());
        }
        push_number(block, stamp.inode);
        for time in [stamp.ctime, meta.mtime] {
            block.extend_from_slice(&time.seconds.to_le_bytes());
            push_number(block, u64::from(time.nanoseconds));
        }
        push_number(block, size_of(entry));
        push_number(block, meta.attributes.len() as u64);
        for (name, value) in &meta.attributes {
            push_bytes(block, name);
            push_bytes(block, value);
        }
        push_number(block, parts.len() as u64);
        for part in parts {
            match part {
                Extent::Inline(content) => {
                    block.push(0);
                    push_bytes(block, content);
                }
                Extent::Data { id, offset, length } => {
                    block.push(1);
                    block.extend_from_slice(&id.0);
                    push_number(block, *offset);
                    push_number(block, *length);
                }
                Extent::Hole(length) => {
                    block.push(2);
                    push_number(block, *length);
                }
                Extent::List { .. } => unreachable!("such a file is left out"),
            }
        }
        Ok(())
    }

    /// Replaces the cache of the last run. Call this when the snapshot is written.
    ///
    /// # Errors
    ///
    /// Errors of the file system.
    pub fn finish(mut self) -> io::Result<()> {
        self.write_block()?;
        let file = self.file.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.name_unsynced(Readers::Owner)
    }

    fn write_block(&mut self) -> io::Result<()> {
        if self.block.is_empty() {
            return Ok(());
        }
        let length = u32::try_from(self.block.len()).map_err(io::Error::other)?;
        self.file.write_all(&length.to_le_bytes())?;
        self.file.write_all(blake3::hash(&self.block).as_bytes())?;
        self.file.write_all(&self.block)?;
        self.block.clear();
        self.last.clear();
        Ok(())
    }
}

fn push_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(u8::try_from(number & 0x7f).expect("7 bits") | 0x80);
        number >>= 7;
    }
    out.push(u8::try_from(number).expect("7 bits"));
}

fn push_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    push_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::thread::sleep;
    use std::time::Duration;

    use super::super::{Walk, WalkOptions, Walked};
    use super::*;

    const REPOSITORY: RepositoryId = RepositoryId([1; 16]);

    fn items(top: &Path) -> Vec<WalkItem> {
        let items = Walk::new(&[top.to_owned()], WalkOptions::default()).unwrap();
        let items = items.map(|walked| match walked {
            Walked::Item(item) => item,
            other => panic!("{other:?}"),
        });
        let top = top.strip_prefix("/").unwrap().as_os_str().as_encoded_bytes().to_vec();
        items.filter(|item| item.entry.path.starts_with(&top)).collect()
    }

    /// Parts that depend on the path and the size of the file.
    fn parts_of(item: &WalkItem) -> Vec<Extent> {
        let Node::File { size, .. } = item.entry.node else { return Vec::new() };
        let id = Id(*blake3::hash(&item.entry.path).as_bytes());
        vec![
            Extent::Data { id, offset: size, length: 1 << 40 },
            Extent::Hole(300),
            Extent::Inline(vec![5; 200]),
        ]
    }

    fn save(path: &Path, top: &Path) {
        let mut writer = CacheWriter::create(path, REPOSITORY).unwrap();
        for mut item in items(top) {
            item.set_attributes(vec![(b"user.x".to_vec(), item.entry.path.clone())]);
            writer.push(&item.stamp, &item.entry, &parts_of(&item)).unwrap();
        }
        writer.finish().unwrap();
    }

    /// The names of the items beneath `top` of which the cache knows all, and those of which it
    /// knows the attributes.
    fn known(
        path: &Path,
        top: &Path,
        is_present: impl Fn(&Id) -> bool,
    ) -> (Vec<String>, Vec<String>) {
        let mut cache = Cache::open(path, REPOSITORY);
        let (mut all, mut attributes) = (Vec::new(), Vec::new());
        for mut item in items(top) {
            let cached = cache.find(&mut item, &is_present);
            let name = String::from_utf8_lossy(&item.entry.path).into_owned();
            let name = name.rsplit('/').next().unwrap().to_owned();
            if cached != Cached::Nothing {
                let own = &item.entry.node.meta().unwrap().attributes;
                assert_eq!(*own, [(b"user.x".to_vec(), item.entry.path.clone())]);
            }
            match cached {
                Cached::Nothing => {}
                Cached::Attributes => attributes.push(name),
                Cached::All(parts) => {
                    assert_eq!(parts, parts_of(&item));
                    all.push(name);
                }
            }
        }
        (all, attributes)
    }

    fn wait_until_settled() {
        sleep(Duration::from_millis(60));
    }

    #[test]
    fn unchanged_files_are_known_and_changed_ones_are_not() {
        let place = tempfile::tempdir().unwrap();
        let top = place.path().canonicalize().unwrap().join("top");
        let cache = place.path().join("cache");
        fs::create_dir(&top).unwrap();
        for name in ["a", "b", "c", "d", "e", "f"] {
            fs::write(top.join(name), name).unwrap();
        }
        wait_until_settled();
        save(&cache, &top);
        let all = ["top", "a", "b", "c", "d", "e", "f"].map(str::to_owned).to_vec();
        assert_eq!(known(&cache, &top, |_| true), (all, vec![]));

        fs::write(top.join("a"), "A").unwrap();
        // The time of the content is set back; the time of the inode cannot be.
        let old = fs::metadata(top.join("b")).unwrap().modified().unwrap();
        fs::write(top.join("b"), "B").unwrap();
        File::options().write(true).open(top.join("b")).unwrap().set_modified(old).unwrap();
        fs::remove_file(top.join("c")).unwrap();
        fs::rename(top.join("d"), top.join("bb")).unwrap();
        fs::write(top.join("new"), "new").unwrap();
        let e = items(&top).into_iter().find(|item| item.entry.path.ends_with(b"/e")).unwrap();
        let Extent::Data { id: lost, .. } = parts_of(&e)[0] else { panic!("a data part") };
        let found = known(&cache, &top, |id| *id != lost);
        assert_eq!(found, (vec!["f".to_owned()], vec!["e".to_owned()]));
    }

    #[test]
    fn the_cache_does_not_trust_a_file_changed_just_now() {
        let place = tempfile::tempdir().unwrap();
        let top = place.path().canonicalize().unwrap().join("top");
        fs::create_dir(&top).unwrap();
        let cache = place.path().join("cache");
        // A change in the same tick of the clock can leave all times and the size as they were.
        for round in 0..50 {
            fs::write(top.join("file"), format!("{round:04}")).unwrap();
            save(&cache, &top);
            fs::write(top.join("file"), format!("{round:04}").replace('0', "x")).unwrap();
            let (all, _) = known(&cache, &top, |_| true);
            assert!(!all.contains(&"file".to_owned()), "round {round}");
        }
        wait_until_settled();
        save(&cache, &top);
        assert_eq!(known(&cache, &top, |_| true).0, ["top", "file"]);
    }

    #[test]
    fn a_damaged_cache_or_one_of_another_repository_knows_nothing_wrong() {
        let place = tempfile::tempdir().unwrap();
        let top = place.path().canonicalize().unwrap().join("top");
        fs::create_dir(&top).unwrap();
        // Several blocks.
        for n in 0..1000 {
            fs::write(top.join(format!("{n:0100}")), "x").unwrap();
        }
        wait_until_settled();
        let path = place.path().join("cache");
        save(&path, &top);
        let count = known(&path, &top, |_| true).0.len();
        assert_eq!(count, 1001);
        let good = fs::read(&path).unwrap();
        assert!(good.len() > 3 * BLOCK_BYTES, "{}", good.len());
        let mut fewest = count;
        for at in (0..good.len()).step_by(good.len() / 23) {
            let mut bad = good.clone();
            bad[at] ^= 1;
            fs::write(&path, &bad).unwrap();
            // A cached entry that is left is right: `known` compares it.
            let left = known(&path, &top, |_| true).0.len();
            assert!(left < count, "byte {at}");
            fewest = fewest.min(left);
            fs::write(&path, &good[..at]).unwrap();
            assert!(known(&path, &top, |_| true).0.len() < count, "cut at {at}");
        }
        assert_eq!(fewest, 0);
        fs::write(&path, &good).unwrap();
        let mut other = Cache::open(&path, RepositoryId([2; 16]));
        for mut item in items(&top) {
            assert_eq!(other.find(&mut item, |_| true), Cached::Nothing);
        }
        assert_eq!(known(&place.path().join("none"), &top, |_| true).0, [""; 0]);
    }
}
