use std::collections::{BTreeMap, HashMap};

use parking_lot::Mutex;
use proptest::prelude::*;
use zeroize::Zeroizing;

use super::line::{parse_entry, push_entry};
use super::*;
use crate::chunks::{ReadChunks, WriteChunks};
use crate::entry::{Entry, Extent, Meta, Node, Time};
use crate::error::{BackupError, Result};
use crate::id::{GroupSecret, Id, Identifiers, Kind, RepositoryId};
use crate::snapshot::Root;

/// Chunks in memory.
pub(crate) struct Memory {
    pub(crate) identifiers: Identifiers,
    pub(crate) chunks: HashMap<(Kind, Id), Vec<u8>>,
    reads: Mutex<usize>,
}

impl Memory {
    pub(crate) fn new() -> Self {
        let group = GroupSecret(Zeroizing::new([7; 32]));
        let identifiers = Identifiers::new(&group, RepositoryId([9; 16]));
        Self { identifiers, chunks: HashMap::new(), reads: Mutex::new(0) }
    }

    pub(crate) fn tree(&mut self, entries: &[Entry]) -> Root {
        let mut writer = TreeWriter::new(self.identifiers.clone());
        for entry in entries {
            writer.push(entry, self).unwrap();
        }
        writer.finish(self).unwrap()
    }

    /// A tree of one chunk with this text, whatever it says.
    pub(crate) fn leaf(&mut self, text: &str) -> Root {
        Root { level: 0, id: self.write(Kind::Tree, text.as_bytes()).unwrap() }
    }

    fn take_reads(&self) -> usize {
        std::mem::take(&mut self.reads.lock())
    }
}

impl ReadChunks for Memory {
    fn read(&self, kind: Kind, id: &Id) -> Result<Vec<u8>> {
        *self.reads.lock() += 1;
        let missing = || BackupError::Missing { name: format!("{} {id}", kind.name()) };
        self.chunks.get(&(kind, *id)).cloned().ok_or_else(missing)
    }
}

impl WriteChunks for Memory {
    fn write(&mut self, kind: Kind, plain: &[u8]) -> Result<Id> {
        let id = self.identifiers.of(kind, plain);
        self.chunks.insert((kind, id), plain.to_vec());
        Ok(id)
    }
}

fn read_all(chunks: &Memory, root: Root) -> Result<Vec<Entry>> {
    Tree::new(chunks, root).entries().collect()
}

fn folder(path: &str) -> Entry {
    Entry { path: path.into(), node: Node::Directory(Meta { mode: 0o755, ..Meta::default() }) }
}

fn file(path: String, content: &[u8]) -> Entry {
    let meta = Meta { mode: 0o644, ..Meta::default() };
    let size = content.len() as u64;
    let content = if content.is_empty() { vec![] } else { vec![Extent::Inline(content.to_vec())] };
    Entry { path: path.into_bytes(), node: Node::File { meta, size, content } }
}

/// 40 folders of 500 files: chunks on three levels.
fn many() -> Vec<Entry> {
    let mut entries = Vec::new();
    for outer in 0..40 {
        entries.push(folder(&format!("home/{outer:02}")));
        entries.extend((0..500).map(|inner| {
            file(format!("home/{outer:02}/file {inner:04} {}", "x".repeat(90)), &[1])
        }));
    }
    entries.insert(0, folder("home"));
    entries
}

#[test]
fn an_entry_is_one_line_as_the_format_says() {
    let id = Id([0xab; 32]);
    let meta = Meta {
        mode: 0o4755,
        uid: 1000,
        gid: 0,
        mtime: Time { seconds: -2, nanoseconds: 5 },
        attributes: vec![(b"user.a b".to_vec(), b"\xff".to_vec()), (b"user.c".to_vec(), vec![])],
    };
    let content = vec![
        Extent::Inline(b"hi".to_vec()),
        Extent::Data { id, offset: 0, length: 7 },
        Extent::Hole(4096),
        Extent::List { id, length: 1 },
    ];
    let entry =
        Entry { path: b"a b/\xffc".to_vec(), node: Node::File { meta, size: 4106, content } };
    let mut line = String::new();
    push_entry(&mut line, &entry);
    let hex = "ab".repeat(32);
    let expected = format!(
        "f 4755 1000 0 -2.000000005 4106 =aGk=,{hex}:0:7,hole:4096,*{hex}:1 user.a\\x20b=/w==;user.c= a b/\\xffc\n"
    );
    assert_eq!(line, expected);
    assert_eq!(parse_entry(line.trim_end_matches('\n')), Ok(entry));
}

#[test]
fn each_broken_rule_is_refused_by_name() {
    let id = "ab".repeat(32);
    let folders = "d 0755 0 0 0.000000000 - - - a\n";
    let file = |path: &str| format!("f 0644 0 0 0.000000000 0 - - {path}\n");
    let with = |content: &str, size: u64| format!("f 0644 0 0 0.000000000 {size} {content} - x\n");
    let long = "c".repeat(256);
    let deep = "c/".repeat(8192) + "c";
    let cases = [
        // Paths
        (file("/etc/passwd"), "a component of the path is empty"),
        (file(""), "a component of the path is empty"),
        (format!("{folders}{}", file("a/")), "a component of the path is empty"),
        (format!("{folders}{}", file("a//b")), "a component of the path is empty"),
        (file(".."), "\".\" or \"..\""),
        (file("../x"), "\".\" or \"..\""),
        (format!("{folders}{}", file("a/../../x")), "\".\" or \"..\""),
        (format!("{folders}{}", file("a/.")), "\".\" or \"..\""),
        (file("a\\x00b"), "contains NUL"),
        (file(&long), "more than 255 bytes"),
        (file(&deep), "more than 16,384 bytes"),
        (file("a\\x2fb"), "only form"),
        (file("a\\x41"), "only form"),
        (file("a\rb"), "only form"),
        // Order and parents
        (file("b") + &file("a"), "not in ascending order"),
        (file("a") + &file("a"), "there twice"),
        (format!("{folders}{}", file("a")), "there twice"),
        (format!("{folders}{}{}", file("a.b"), file("a/b")), "not in ascending order"),
        (file("a/b"), "not an earlier directory"),
        (file("a") + &file("a/b"), "not an earlier directory"),
        (
            format!("l 0777 0 0 0.000000000 - /etc - a\n{}", file("a/passwd")),
            "not an earlier directory",
        ),
        (format!("{folders}{}", file("a/b/c")), "not an earlier directory"),
        (format!("{folders}{}{}", file("ab"), file("ab/c")), "not an earlier directory"),
        // Hard links
        (format!("{}h - - - - - x - y\n", file("a")), "first link is not there"),
        (format!("{folders}h - - - - - a - b\n"), "a directory or a further link"),
        (
            format!("{}h - - - - - a - b\nh - - - - - b - c\n", file("a")),
            "a directory or a further link",
        ),
        (format!("h - - - - - b - a\n{}", file("b")), "not after its first"),
        ("h - - - - - a - a\n".to_owned(), "not after its first"),
        (format!("{}h - - - - - ../a - b\n", file("a")), "\".\" or \"..\""),
        (format!("{}h 0644 0 0 0.000000000 - a - b\n", file("a")), "has no mode"),
        // Content
        (with("-", 1), "do not sum to the size"),
        (with("=aGk=", 3), "do not sum to the size"),
        (with(&format!("{id}:0:9223372036854775807"), 1), "after 8 MiB"),
        (with(&format!("{id}:18446744073709551615:2"), 1), "after 8 MiB"),
        (with("hole:18446744073709551615,hole:2", 1), "more than 64 bits"),
        (with("hole:18446744073709551615", u64::MAX), "more than 63 bits"),
        (with("hole:0", 0), "no byte"),
        (with("=", 0), "no byte"),
        (with(&format!("={}", "AAAA".repeat(171)), 513), "more than 512 bytes"),
        (with("=aGl=", 2), "not in a form"),
        (with("=aGk", 2), "not in a form"),
        (with("=aGk=,", 2), "not in a form"),
        (with(&format!("{}:0:1", id.to_uppercase()), 1), "not in a form"),
        (with("hole:01", 1), "not in a form"),
        (with("hole:+1", 1), "not in a form"),
        ("l 0777 0 0 0.000000000 - a\\x00b - x\n".to_owned(), "target of a symbolic link"),
        ("l 0777 0 0 0.000000000 -  - x\n".to_owned(), "target of a symbolic link"),
        (
            format!("l 0777 0 0 0.000000000 - {} - x\n", "a".repeat(4096)),
            "target of a symbolic link",
        ),
        ("c 0600 0 0 0.000000000 - 1:4294967296 - x\n".to_owned(), "two decimal numbers"),
        ("c 0600 0 0 0.000000000 - 1 - x\n".to_owned(), "two decimal numbers"),
        ("d 0755 0 0 0.000000000 - x - a\n".to_owned(), "has no content"),
        ("d 0755 0 0 0.000000000 5 - - a\n".to_owned(), "only a file has a size"),
        // Fields
        ("s 0755 0 0 0.000000000 - - - a\n".to_owned(), "kind of an entry"),
        ("d 755 0 0 0.000000000 - - - a\n".to_owned(), "four octal digits"),
        ("d 0788 0 0 0.000000000 - - - a\n".to_owned(), "four octal digits"),
        ("d 0755 00 0 0.000000000 - - - a\n".to_owned(), "the owner is not"),
        ("d 0755 0 -1 0.000000000 - - - a\n".to_owned(), "the owner is not"),
        ("d 0755 0 4294967296 0.000000000 - - - a\n".to_owned(), "the owner is not"),
        ("d 0755 0 0 0.0 - - - a\n".to_owned(), "seconds and nine digits"),
        ("d 0755 0 0 -0.000000000 - - - a\n".to_owned(), "seconds and nine digits"),
        ("d 0755 0 0 +1.000000000 - - - a\n".to_owned(), "seconds and nine digits"),
        ("d 0755 0 0 0.000000000 - - a\n".to_owned(), "nine fields"),
        ("\n".to_owned(), "nine fields"),
        ("d 0755 0 0 0.000000000 - - user.b=;user.a= a\n".to_owned(), "ascend by name"),
        ("d 0755 0 0 0.000000000 - - user.a=;user.a= a\n".to_owned(), "ascend by name"),
        ("d 0755 0 0 0.000000000 - - user.a a\n".to_owned(), "name and base64"),
        ("d 0755 0 0 0.000000000 - - =AAAA a\n".to_owned(), "name of an attribute"),
        ("d 0755 0 0 0.000000000 - - a\\x00=AAAA a\n".to_owned(), "name of an attribute"),
        ("d 0755 0 0 0.000000000 - - - a".to_owned(), "last line has no end"),
    ];
    for (text, rule) in cases {
        let mut chunks = Memory::new();
        let root = chunks.leaf(&text);
        let mut entries = Tree::new(&chunks, root).entries();
        let error = entries.by_ref().find_map(std::result::Result::err);
        let error = error.unwrap_or_else(|| panic!("not refused: {rule}: {text:.200}")).to_string();
        assert!(error.contains(rule), "{error}\nis not: {rule}\n{text:.200}");
        assert!(entries.next().is_none(), "nothing follows: {rule}");
    }
}

#[test]
fn a_tree_of_other_levels_first_paths_or_order_is_refused() {
    let mut chunks = Memory::new();
    let a = chunks.leaf("f 0644 0 0 0.000000000 0 - - a\n").id;
    let b = chunks.leaf("f 0644 0 0 0.000000000 0 - - b\n").id;
    let c = chunks.leaf("f 0644 0 0 0.000000000 0 - - c\n").id;
    let empty = chunks.leaf("").id;
    let two = chunks.leaf(&format!("{a} a\n{b} b\n")).id;
    let mut refused = |level, text: String, rule: &str| {
        let id = chunks.leaf(&text).id;
        let root = Root { level, id };
        let error = read_all(&chunks, root).expect_err(rule).to_string();
        assert!(error.contains(rule), "{error}: not {rule}");
    };
    refused(1, format!("{b} b\n{a} a\n"), "do not ascend");
    refused(1, format!("{a} a\n{a} a\n"), "do not ascend");
    refused(1, format!("{a} a\n{a} b\n"), "first path is not the one");
    refused(1, format!("{a} a\n{c} b\n"), "first path is not the one");
    refused(2, format!("{two} b\n"), "first path is not the one");
    refused(1, format!("{two} a\n"), "nine fields");
    refused(1, format!("{empty} a\n"), "has no line");
    refused(1, String::new(), "has no line");
    refused(2, format!("{a} a\n"), "64 lower-case");
    refused(9, format!("{a} a\n"), "level is above 8");
    refused(1, format!("{a} ../a\n"), "\".\" or \"..\"");
    refused(1, "f 0644 0 0 0.000000000 0 - - a\n".into(), "64 lower-case");
    let a_to_c = chunks.leaf("f 0644 0 0 0.000000000 0 - - a\nf 0644 0 0 0.000000000 0 - - c\n").id;
    let root = Root { level: 1, id: chunks.leaf(&format!("{a_to_c} a\n{b} b\n")).id };
    let error = read_all(&chunks, root).unwrap_err().to_string();
    assert!(error.contains("not in ascending order"), "{error}");
    let id = chunks.write(Kind::Tree, b"f \xff\n").unwrap();
    let error = read_all(&chunks, Root { level: 0, id }).unwrap_err().to_string();
    assert!(error.contains("not UTF-8"), "{error}");
    let id = chunks.write(Kind::Tree, &vec![b'\n'; (8 << 20) + 1]).unwrap();
    let error = read_all(&chunks, Root { level: 0, id }).unwrap_err().to_string();
    assert!(error.contains("more than 8 MiB"), "{error}");
}

#[test]
fn a_writer_refuses_entries_that_a_reader_would_refuse() {
    let mut chunks = Memory::new();
    let mut writer = TreeWriter::new(chunks.identifiers.clone());
    writer.push(&folder("b"), &mut chunks).unwrap();
    for path in ["a", "b", "c/d", "../x", "b/"] {
        let refused = writer.push(&file(path.into(), b""), &mut chunks);
        assert!(matches!(refused, Err(BackupError::Refused(_))), "{path}");
    }
    let mut wrong = file("c".into(), b"text");
    if let Node::File { size, .. } = &mut wrong.node {
        *size = 5;
    }
    assert!(matches!(writer.push(&wrong, &mut chunks), Err(BackupError::Refused(_))));
    let mut large = folder("c");
    if let Some(meta) = large.node.meta_mut() {
        let names = (10..99).map(|n| format!("user.{n}").into_bytes());
        meta.attributes = names.map(|name| (name, vec![0; 65_536])).collect();
    }
    assert!(matches!(writer.push(&large, &mut chunks), Err(BackupError::Refused(_))));
    writer.push(&file("b/c".into(), b"text"), &mut chunks).unwrap();
    let root = writer.finish(&mut chunks).unwrap();
    let paths: Vec<_> = read_all(&chunks, root).unwrap().into_iter().map(|e| e.path).collect();
    assert_eq!(paths, [b"b".to_vec(), b"b/c".to_vec()]);
}

#[test]
fn a_large_tree_comes_back_and_a_change_writes_few_chunks() {
    let mut chunks = Memory::new();
    let mut entries = many();
    let root = chunks.tree(&entries);
    assert!(root.level >= 1, "{root:?}");
    assert_eq!(read_all(&chunks, root).unwrap(), entries);
    let before = chunks.chunks.len();
    assert!(before > 50, "{before} chunks");
    assert!(chunks.chunks.values().all(|chunk| chunk.len() <= 1 << 20));

    entries[9000] = file(String::from_utf8(entries[9000].path.clone()).unwrap(), b"changed");
    entries.remove(12_000);
    chunks.tree(&entries);
    let new = chunks.chunks.len() - before;
    // Two changes: at most a few chunks beside each, and one on each level above.
    assert!(new <= 4 + 2 * usize::from(root.level), "{new} of {before} chunks are new");
}

#[test]
fn reading_from_a_path_skips_chunks_before_it() {
    let mut chunks = Memory::new();
    let entries = many();
    let root = chunks.tree(&entries);
    let tree = Tree::new(&chunks, root);
    for at in [0, 1, 2, 7, 10_000, entries.len() - 1] {
        chunks.take_reads();
        let first: Vec<_> =
            tree.entries_from(&entries[at].path).take(3).map(Result::unwrap).collect();
        assert_eq!(first, entries[at..entries.len().min(at + 3)]);
        let reads = chunks.take_reads();
        assert!(reads <= 3 * (usize::from(root.level) + 2), "{reads} reads");
        assert_eq!(tree.get(&entries[at].path).unwrap().as_ref(), Some(&entries[at]));
    }
    let beside: Vec<_> =
        tree.entries_from(b"home/20/file 0100").take(1).map(Result::unwrap).collect();
    assert_eq!(beside[0].path, entries[2 + 20 * 501 + 100].path);
    assert!(tree.entries_from(b"zzz").next().is_none());
    assert_eq!(tree.get(b"home/20/file").unwrap(), None);
    assert_eq!(tree.get(b"a").unwrap(), None);
}

#[test]
fn entries_after_a_lost_chunk_are_still_read() {
    let mut chunks = Memory::new();
    let entries = many();
    let root = chunks.tree(&entries);
    let lost = chunks.chunks.iter().find(|(_, text)| {
        String::from_utf8_lossy(text).contains(" home/20\n") && text.starts_with(b"f ")
    });
    let (lost, text) = lost.map(|(key, text)| (*key, text.clone())).unwrap();
    chunks.chunks.remove(&lost);
    let (good, bad): (Vec<_>, Vec<_>) = Tree::new(&chunks, root).entries().partition(Result::is_ok);
    assert_eq!(bad.len(), 1);
    assert!(matches!(bad[0], Err(BackupError::Missing { .. })));
    let lines = text.split(|byte| *byte == b'\n').count() - 1;
    assert_eq!(good.len(), entries.len() - lines);
    assert!(good.iter().any(|entry| entry.as_ref().unwrap().path.starts_with(b"home/20/")));
}

#[test]
fn a_start_beneath_a_path_that_is_no_directory_is_refused() {
    let mut chunks = Memory::new();
    let text = "l 0777 0 0 0.000000000 - /etc - a\nf 0644 0 0 0.000000000 0 - - a/passwd\n";
    let root = chunks.leaf(text);
    let error = Tree::new(&chunks, root).entries_from(b"a/passwd").next().unwrap().unwrap_err();
    assert!(error.to_string().contains("not an earlier directory"), "{error}");
}

fn data(n: u32) -> Extent {
    let hash = blake3::hash(&n.to_le_bytes());
    Extent::Data { id: Id(*hash.as_bytes()), offset: 0, length: u64::from(n % 1000 + 1) }
}

fn content_of(chunks: &mut Memory, parts: &[Extent]) -> Vec<Extent> {
    let mut writer = ContentWriter::new();
    for part in parts {
        writer.push(part.clone(), chunks).unwrap();
    }
    writer.finish(chunks).unwrap()
}

#[test]
fn long_contents_become_lists_and_come_back() {
    for count in [0, 1, 64, 65, 2000, 100_000] {
        let mut chunks = Memory::new();
        let parts: Vec<_> = (0..count).map(data).collect();
        let content = content_of(&mut chunks, &parts);
        assert!(content.len() <= 64);
        let sum: u64 = parts.iter().map(Extent::length).sum();
        assert_eq!(content.iter().map(Extent::length).sum::<u64>(), sum);
        let read: Vec<_> = ContentParts::new(&chunks, content).map(Result::unwrap).collect();
        assert_eq!(read, parts);
    }
    let mut chunks = Memory::new();
    let mut parts: Vec<_> = (0..100_000).map(data).collect();
    content_of(&mut chunks, &parts);
    let before = chunks.chunks.len();
    parts.insert(50_000, data(200_000));
    content_of(&mut chunks, &parts);
    let new = chunks.chunks.len() - before;
    assert!(before > 100 && new <= 6, "{new} of {before} lists are new");
    // Holes have no identifier that could cut.
    let holes = vec![Extent::Hole(1); 5000];
    let content = content_of(&mut chunks, &holes);
    assert_eq!(ContentParts::new(&chunks, content).count(), 5000);
}

#[test]
fn hostile_lists_are_refused() {
    let mut chunks = Memory::new();
    let mut list = |text: &str| chunks.write(Kind::List, text.as_bytes()).unwrap();
    let one = list("=QQ==\n");
    let mut nested = one;
    for _ in 0..4 {
        nested = list(&format!("*{nested}:1\n"));
    }
    let cases = [
        (one, 2, "fewer bytes"),
        (list("=QQ==\n=QQ==\n"), 1, "more bytes"),
        (list("hole:18446744073709551615\nhole:5\n"), 4, "more bytes"),
        (nested, 1, "more than 4 levels"),
        (list("=QQ=="), 1, "no end"),
        (list(""), 1, "no end"),
        (list("=\n=QQ==\n"), 1, "no byte"),
        (list("=QQ==\n\n"), 1, "not in a form"),
        (list("d 0755 0 0 0.000000000 - - - a\n"), 1, "not in a form"),
    ];
    for (id, length, rule) in cases {
        let mut parts =
            ContentParts::new(&chunks, vec![Extent::List { id, length }, Extent::Hole(1)]);
        let error = parts.find_map(std::result::Result::err).expect(rule).to_string();
        assert!(error.contains(rule), "{error}: not {rule}");
        assert!(parts.next().is_none());
    }
    let four = ContentParts::new(&chunks, vec![Extent::List { id: one, length: 1 }]).count();
    assert_eq!(four, 1);
}

fn meta() -> impl Strategy<Value = Meta> {
    let attributes = proptest::collection::btree_map(
        proptest::collection::vec(1..=255_u8, 1..20),
        proptest::collection::vec(any::<u8>(), 0..40),
        0..3,
    );
    (0..=0o7777_u16, any::<u32>(), any::<u32>(), any::<i64>(), 0..1_000_000_000_u32, attributes)
        .prop_map(|(mode, uid, gid, seconds, nanoseconds, attributes)| {
            let mtime = Time { seconds, nanoseconds };
            Meta { mode, uid, gid, mtime, attributes: attributes.into_iter().collect() }
        })
}

fn part() -> impl Strategy<Value = Extent> {
    let id = any::<[u8; 32]>().prop_map(Id);
    prop_oneof![
        proptest::collection::vec(any::<u8>(), 1..=512).prop_map(Extent::Inline),
        (id.clone(), 0..1000_u64, 1..1000_u64).prop_map(|(id, offset, length)| Extent::Data {
            id,
            offset,
            length
        }),
        (1..u64::from(u32::MAX)).prop_map(Extent::Hole),
        (id, 1..u64::from(u32::MAX)).prop_map(|(id, length)| Extent::List { id, length }),
    ]
}

fn leaf() -> impl Strategy<Value = Node> {
    let target = proptest::collection::vec(1..=255_u8, 1..30);
    prop_oneof![
        (meta(), proptest::collection::vec(part(), 0..4)).prop_map(|(meta, content)| {
            let size = content.iter().map(Extent::length).sum();
            Node::File { meta, size, content }
        }),
        (meta(), target).prop_map(|(meta, target)| Node::Symlink { meta, target }),
        (meta(), any::<bool>(), any::<u32>(), any::<u32>())
            .prop_map(|(meta, block, major, minor)| Node::Device { meta, block, major, minor }),
        meta().prop_map(Node::Fifo),
    ]
}

fn component() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![Just(b'a'), Just(b'b'), Just(b'.'), Just(b' '), any::<u8>()];
    proptest::collection::vec(byte, 1..6).prop_filter("a component", |name| {
        !name.contains(&b'/') && !name.contains(&0) && name != b"." && name != b".."
    })
}

/// Entries at random paths with all their parents, in order.
pub(crate) fn entries() -> impl Strategy<Value = Vec<Entry>> {
    let path = proptest::collection::vec(component(), 1..4);
    proptest::collection::vec((path, leaf(), any::<bool>()), 0..40).prop_map(|items| {
        let mut tree: BTreeMap<Vec<Vec<u8>>, Option<Node>> = BTreeMap::new();
        for (path, node, _) in items {
            let blocked = (1..path.len()).any(|n| matches!(tree.get(&path[..n]), Some(Some(_))));
            if blocked || tree.contains_key(&path) {
                continue;
            }
            for n in 1..path.len() {
                tree.entry(path[..n].to_vec()).or_insert(None);
            }
            tree.insert(path, Some(node));
        }
        let node = |node: Option<Node>| node.unwrap_or(Node::Directory(Meta::default()));
        let mut entries: Vec<_> = tree
            .into_iter()
            .map(|(path, found)| Entry { path: path.join(&b'/'), node: node(found) })
            .collect();
        if let Some(first) = entries.iter().find(|e| !matches!(e.node, Node::Directory(_))) {
            let first = first.path.clone();
            entries.push(Entry { path: vec![0xff; 9], node: Node::HardLink { first } });
        }
        entries
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_tree_comes_back_from_every_path(entries in entries()) {
        let mut chunks = Memory::new();
        let root = chunks.tree(&entries);
        prop_assert_eq!(&read_all(&chunks, root).unwrap(), &entries);
        let tree = Tree::new(&chunks, root);
        for (at, entry) in entries.iter().enumerate() {
            let rest: Vec<_> = tree.entries_from(&entry.path).map(Result::unwrap).collect();
            prop_assert_eq!(&rest, &entries[at..]);
            prop_assert_eq!(tree.get(&entry.path).unwrap(), Some(entry.clone()));
        }
    }

    #[test]
    fn an_entry_that_is_read_is_written_the_same(
        line in "[fdlhcbp] [0-7]{4} [0-9]{1,3} [0-9]{1,3} -?[0-9]{1,2}\\.[0-9]{9} [0-9-]{1,2} (-|=QQ==|hole:[0-9]{1,2}|[a-z/]{1,4}|[0-9]:[0-9]{1,2}) (-|a=QQ==|a=) [a-c/.]{1,4}",
    ) {
        if let Ok(entry) = parse_entry(&line) {
            let mut again = String::new();
            push_entry(&mut again, &entry);
            prop_assert_eq!(again, line + "\n");
        }
    }

    #[test]
    fn entries_are_ordered_by_path_components(a in proptest::collection::vec(component(), 1..4), b in proptest::collection::vec(component(), 1..4)) {
        prop_assert_eq!(path_order(&a.join(&b'/'), &b.join(&b'/')), a.cmp(&b));
    }
}
