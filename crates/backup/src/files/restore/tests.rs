use std::fs::{self, File};
use std::io::{Seek as _, SeekFrom, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use rustix::fs::{CWD, XattrFlags, setxattr};

use super::super::owners::Owners;
use super::super::select::PathSelection;
use super::super::{Walk, WalkOptions, Walked};
use super::*;
use crate::chunks::WriteChunks as _;
use crate::snapshot::Root;
use crate::tree::tests::Memory;
use crate::tree::{ContentWriter, TreeWriter, path_order};

const PART: usize = 64 << 10;

fn inside(path: &Path) -> Vec<u8> {
    path.as_os_str().as_bytes()[1..].to_vec()
}

/// The entries beneath a folder, with paths from there, with attributes and without content.
fn entries(top: &Path) -> Vec<Entry> {
    let base = inside(top);
    let mut found = Vec::new();
    for walked in Walk::new(&[top.to_owned()], WalkOptions::default()).unwrap() {
        let Walked::Item(mut item) = walked else { panic!("{walked:?}") };
        item.read_attributes().unwrap();
        if let Node::HardLink { first } = &mut item.entry.node {
            first.drain(..=base.len());
        }
        if is_beneath(&item.entry.path, &base) {
            item.entry.path.drain(..=base.len());
            found.push(item.entry);
        }
    }
    found
}

fn on_disk(top: &Path, path: &[u8]) -> PathBuf {
    top.join(std::ffi::OsStr::from_bytes(path))
}

/// A snapshot of a folder: inline and data parts, and holes where there are blocks of zeros.
fn snapshot(top: &Path) -> (Memory, Root) {
    let mut chunks = Memory::new();
    let mut tree = TreeWriter::new(chunks.identifiers.clone());
    for mut entry in entries(top) {
        if let Node::File { content, size, .. } = &mut entry.node {
            let bytes = fs::read(on_disk(top, &entry.path)).unwrap();
            assert_eq!(bytes.len() as u64, *size);
            let mut writer = ContentWriter::new();
            for bytes in bytes.chunks(PART) {
                let length = bytes.len() as u64;
                let part = if bytes.len() == PART && bytes.iter().all(|byte| *byte == 0) {
                    Extent::Hole(length)
                } else if bytes.len() <= 512 {
                    Extent::Inline(bytes.to_vec())
                } else {
                    // A chunk has more than the range.
                    let chunk = [b"before", bytes, b"after"].concat();
                    let id = chunks.write(Kind::Data, &chunk).unwrap();
                    Extent::Data { id, offset: 6, length }
                };
                writer.push(part, &mut chunks).unwrap();
            }
            *content = writer.finish(&mut chunks).unwrap();
        }
        tree.push(&entry, &mut chunks).unwrap();
    }
    let root = tree.finish(&mut chunks).unwrap();
    (chunks, root)
}

type Events = Vec<(String, String)>;

/// Restores; gives what was told, sorted, as paths and texts.
fn run(
    chunks: &Memory,
    root: Root,
    target: &Path,
    options: &RestoreOptions,
) -> Result<(RestoreReport, Events)> {
    let events = Mutex::new(Vec::new());
    let tell = |path: &[u8], event: RestoreEvent| {
        let text = match event {
            RestoreEvent::Kept => "kept".to_owned(),
            RestoreEvent::Differs => "differs".to_owned(),
            RestoreEvent::Withheld { what } => format!("withheld: {what}"),
            RestoreEvent::Incomplete { what, source } => format!("incomplete: {what}: {source}"),
            RestoreEvent::Failed { source } => format!("failed: {source}"),
        };
        events.lock().push((String::from_utf8_lossy(path).into_owned(), text));
    };
    let tree = Tree::new(chunks, root);
    let report = restore(&tree, target, options, &BackupProgress::default(), &tell)?;
    let mut events = events.into_inner();
    events.sort();
    let count =
        report.kept + report.differing + report.withheld + report.incomplete + report.failed;
    assert_eq!(count, events.len() as u64, "{events:?}");
    Ok((report, events))
}

fn options() -> RestoreOptions {
    RestoreOptions { owners: rustix::process::geteuid().is_root(), ..RestoreOptions::default() }
}

/// Compares two folders: path, kind, mode, owner, time in nanoseconds, attributes, links, content
/// and, nearly, blocks.
fn assert_same(expected: &Path, found: &Path) {
    let (a, b) = (entries(expected), entries(found));
    for (a, b) in a.iter().zip(&b) {
        assert_eq!(a, b);
        if let Node::File { .. } = a.node {
            let (a, b) = (on_disk(expected, &a.path), on_disk(found, &b.path));
            assert!(fs::read(&a).unwrap() == fs::read(&b).unwrap(), "{}", a.display());
            let blocks = |path: &Path| fs::metadata(path).unwrap().blocks();
            assert!(blocks(&b) <= blocks(&a) + 256, "{} is not sparse", b.display());
        }
    }
    assert_eq!(a.len(), b.len());
}

fn write(path: &Path, content: &[u8]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

fn random(length: usize, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; length];
    blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut bytes);
    bytes
}

/// Sets the time of anything, in seconds and nanoseconds.
fn set_time(path: &Path, seconds: i64, nanoseconds: i64) {
    let time = rustix::fs::Timespec { tv_sec: seconds, tv_nsec: nanoseconds };
    let times = rustix::fs::Timestamps { last_access: time, last_modification: time };
    rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
}

/// A folder with everything that a snapshot can have without being root.
fn everything(top: &Path) {
    for (n, length) in (0..).zip([0, 1, 512, 513, 70_000, 1_000_000, 5_000_000]) {
        write(&top.join(format!("sizes/{length}")), &random(length, n));
        set_time(
            &top.join(format!("sizes/{length}")),
            1_500_000_000 - i64::try_from(n).unwrap(),
            123_456_789,
        );
    }
    let odd = on_disk(top, b"odd \xff\nname\\/ \xc3\xbc");
    write(&odd, b"odd");
    // A sparse file with holes at both ends and in the middle.
    let mut sparse = File::create(top.join("sparse")).unwrap();
    for at in [PART * 20, PART * 60] {
        sparse.seek(SeekFrom::Start(at as u64)).unwrap();
        sparse.write_all(&random(PART, 99)).unwrap();
    }
    sparse.set_len((PART * 100) as u64).unwrap();
    File::create(top.join("hole")).unwrap().set_len((PART * 40) as u64).unwrap();
    fs::create_dir_all(top.join("empty/folder")).unwrap();
    for (name, target) in
        [("dangling", "../no/where"), ("absolute", "/etc/passwd"), ("folder", "sizes")]
    {
        symlink(target, top.join(name)).unwrap();
    }
    set_time(&top.join("dangling"), -5, 999_999_999);
    fs::create_dir(top.join("links")).unwrap();
    fs::hard_link(top.join("sizes/513"), top.join("links/one")).unwrap();
    fs::hard_link(top.join("sizes/513"), top.join("zlink")).unwrap();
    fs::hard_link(top.join("dangling"), top.join("links/symlink")).unwrap();
    mknodat(CWD, top.join("fifo"), FileType::Fifo, Mode::RUSR | Mode::WGRP, 0).unwrap();
    setxattr(top.join("sizes/1"), "user.one", b"\0value\xff", XattrFlags::empty()).unwrap();
    setxattr(top.join("empty"), "user.two", &[1; 2000], XattrFlags::empty()).unwrap();
    for (name, mode) in [
        ("sizes/1", 0o444),
        ("sizes/512", 0o1604),
        ("empty/folder", 0o1777),
        ("links", 0o555),
        ("sizes", 0o500),
    ] {
        fs::set_permissions(top.join(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    for (n, name) in (0..).zip(["links", "sizes", "empty/folder", "empty"]) {
        set_time(&top.join(name), 1_000_000_000 + n, 7);
    }
}

/// An access control list: the owner rw, user 1 r, the group and the mask r, others nothing.
fn access_list() -> Vec<u8> {
    let mut list = 2_u32.to_le_bytes().to_vec();
    for (tag, rights, id) in [
        (1_u16, 6_u16, u32::MAX),
        (2, 4, 1),
        (4, 4, u32::MAX),
        (0x10, 4, u32::MAX),
        (0x20, 0, u32::MAX),
    ] {
        list.extend(tag.to_le_bytes());
        list.extend(rights.to_le_bytes());
        list.extend(id.to_le_bytes());
    }
    list
}

#[test]
fn everything_comes_back() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path().canonicalize().unwrap();
    let (source, target) = (place.join("source"), place.join("made/target"));
    everything(&source);
    // Not every file system has access control lists.
    let has_list = setxattr(
        source.join("sizes/0"),
        "system.posix_acl_access",
        &access_list(),
        XattrFlags::empty(),
    );
    let (chunks, root) = snapshot(&source);
    let (report, events) = run(&chunks, root, &target, &options()).unwrap();
    assert_eq!(events, []);
    assert_eq!((report.files, report.folders, report.others), (10, 5, 7));
    assert_same(&source, &target);
    let inode = |name: &str| fs::symlink_metadata(target.join(name)).unwrap().ino();
    assert_eq!(inode("sizes/513"), inode("links/one"));
    assert_eq!(inode("sizes/513"), inode("zlink"));
    assert_eq!(inode("dangling"), inode("links/symlink"));
    let list = entries(&target).into_iter().find(|entry| entry.path == b"sizes/0").unwrap();
    let has_restored =
        list.node.meta().unwrap().attributes.iter().any(|(_, value)| *value == access_list());
    assert_eq!(has_restored, has_list.is_ok());

    // Again over the same folder: nothing is replaced.
    let again = RestoreOptions { overwrite: Overwrite::IfChanged, ..options() };
    let (report, events) = run(&chunks, root, &target, &again).unwrap();
    assert_eq!((report.files, report.others, report.unchanged, events), (0, 0, 17, vec![]));
    assert_same(&source, &target);
    let always = RestoreOptions { overwrite: Overwrite::Always, threads: 1, ..options() };
    let (report, events) = run(&chunks, root, &target, &always).unwrap();
    assert_eq!((report.files, events), (10, vec![]));
    assert_same(&source, &target);
}

#[test]
fn overwrite_policies_decide_about_existing_files() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path().canonicalize().unwrap();
    let (source, target) = (place.join("source"), place.join("target"));
    for name in ["same", "changed", "folder/new", "link"] {
        write(&source.join(name), b"snapshot");
        set_time(&source.join(name), 1_000_000_000, 5);
    }
    fs::hard_link(source.join("changed"), source.join("zlink")).unwrap();
    set_time(&source.join("folder"), 1_000_000_000, 5);
    let (chunks, root) = snapshot(&source);
    let prepare = || {
        let _ = fs::remove_dir_all(&target);
        write(&target.join("same"), b"snapshot");
        set_time(&target.join("same"), 1_000_000_000, 5);
        let mode = fs::metadata(source.join("same")).unwrap().permissions();
        fs::set_permissions(target.join("same"), mode).unwrap();
        write(&target.join("changed"), b"local");
        symlink("/nowhere", target.join("link")).unwrap();
        fs::create_dir(target.join("folder")).unwrap();
        set_time(&target.join("folder"), 2_000_000_000, 0);
        fs::metadata(target.join("same")).unwrap().ino()
    };
    let with = |overwrite| {
        run(&chunks, root, &target, &RestoreOptions { overwrite, ..options() }).unwrap()
    };

    let inode = prepare();
    let (report, events) = with(Overwrite::Never);
    let differ = ["changed", "link"].map(|name| (name.to_owned(), "differs".to_owned()));
    assert_eq!((events, report.unchanged), (differ.to_vec(), 1));
    assert_eq!(fs::read(target.join("changed")).unwrap(), b"local");
    assert_eq!(fs::read_link(target.join("link")).unwrap(), Path::new("/nowhere"));
    assert_eq!(fs::read(target.join("folder/new")).unwrap(), b"snapshot");
    assert_ne!(fs::metadata(target.join("folder")).unwrap().mtime(), 1_000_000_000);
    // Its first name is another file here, so the further one is restored by itself.
    assert_eq!(fs::read(target.join("zlink")).unwrap(), b"snapshot");
    assert_eq!((report.files, report.others), (2, 0));
    assert_eq!(fs::metadata(target.join("same")).unwrap().ino(), inode);

    let inode = prepare();
    let (report, events) = with(Overwrite::IfChanged);
    assert_eq!((events, report.unchanged), (vec![], 1));
    assert_eq!(fs::metadata(target.join("same")).unwrap().ino(), inode);
    assert_same(&source, &target);

    let inode = prepare();
    let (report, events) = with(Overwrite::Always);
    assert_eq!((events, report.unchanged), (vec![], 0));
    assert_ne!(fs::metadata(target.join("same")).unwrap().ino(), inode);
    assert_same(&source, &target);

    // A folder is never removed for a file, with any policy.
    prepare();
    fs::remove_file(target.join("same")).unwrap();
    write(&target.join("same/precious"), b"local");
    let (_, events) = with(Overwrite::Always);
    assert_eq!(events.len(), 1, "{events:?}");
    assert!(
        events[0].0 == "same" && events[0].1.contains("a folder is in its place"),
        "{events:?}"
    );
    assert_eq!(fs::read(target.join("same/precious")).unwrap(), b"local");
}

/// A path, its times and number of links and mode, and its content.
type PathState = (PathBuf, [i64; 6], Vec<u8>);

/// Everything about a folder outside of the target that a restore could change.
fn state_of(folder: &Path) -> Vec<PathState> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let listed = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
        for path in listed.chain([folder.clone()]) {
            let stat = fs::symlink_metadata(&path).unwrap();
            let content = if stat.is_file() { fs::read(&path).unwrap() } else { vec![] };
            if stat.is_dir() && path != folder {
                folders.push(path.clone());
            }
            let (links, mode) = (i64::try_from(stat.nlink()).unwrap(), i64::from(stat.mode()));
            let times = [stat.mtime(), stat.mtime_nsec(), stat.ctime(), stat.ctime_nsec()];
            let [m, mn, c, cn] = times;
            found.push((path, [m, mn, c, cn, links, mode], content));
        }
    }
    found.sort();
    found
}

#[test]
fn links_in_the_target_lead_nowhere_outside() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path().canonicalize().unwrap();
    let (source, outside) = (place.join("source"), place.join("outside"));
    for name in ["a/file", "a/deep/file", "b", "c", "d/file"] {
        write(&source.join(name), b"from the snapshot");
        set_time(&source.join(name), 1_000_000_000, 5);
        write(&outside.join(name), b"outside of target");
    }
    symlink("x", source.join("s")).unwrap();
    fs::hard_link(source.join("a/file"), source.join("zlink")).unwrap();
    // The file outside looks as if it had been restored, so that only the path protects it.
    write(&outside.join("file"), b"outside of target");
    set_time(&outside.join("file"), 1_000_000_000, 5);
    let (chunks, root) = snapshot(&source);
    for overwrite in [Overwrite::Never, Overwrite::IfChanged, Overwrite::Always] {
        let target = place.join(format!("{overwrite:?}"));
        fs::create_dir(&target).unwrap();
        symlink("../outside", target.join("a")).unwrap();
        symlink("../outside/b", target.join("b")).unwrap();
        fs::hard_link(outside.join("c"), target.join("c")).unwrap();
        symlink(&outside, target.join("d")).unwrap();
        symlink("../outside/c", target.join("s")).unwrap();
        let before = state_of(&outside);
        let linked = RestoreOptions { overwrite, ..options() };
        let (_, events) = run(&chunks, root, &target, &linked).unwrap();
        let after = state_of(&outside);
        if overwrite == Overwrite::Never {
            assert_eq!(before, after);
            let failed = events.iter().filter(|(_, text)| text.starts_with("failed: "));
            let failed: Vec<_> = failed.map(|(path, _)| path.as_str()).collect();
            assert_eq!(failed, ["a", "a/deep", "a/deep/file", "a/file", "d", "d/file"]);
            assert_eq!(fs::read_link(target.join("a")).unwrap(), Path::new("../outside"));
        } else {
            assert_eq!(events, []);
            assert_same(&source, &target);
            // Only the number of links of `c` and with it the time of its inode changed: its name
            // in the target is gone.
            for (before, after) in before.iter().zip(&after) {
                assert_eq!(before.2, after.2);
                if !before.0.ends_with("c") {
                    assert_eq!(before, after);
                }
            }
            // The first round has left its name.
            assert_eq!(fs::metadata(outside.join("c")).unwrap().nlink(), 2);
        }
        let through = fs::symlink_metadata(target.join("zlink")).unwrap();
        assert!(
            through.is_file() && through.ino() != fs::metadata(outside.join("file")).unwrap().ino()
        );
    }
}

#[test]
fn a_hostile_tree_gives_no_rights_and_leaves_the_target_alone() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path().canonicalize().unwrap();
    let outside = place.join("outside");
    write(&outside.join("passwd"), b"root");
    let before = state_of(&outside);
    let mut chunks = Memory::new();
    // Paths through a symbolic link and out of the target.
    for text in [
        "l 0777 0 0 1.000000000 - ../outside - a\nf 0644 0 0 1.000000000 1 =QQ== - a/passwd\n",
        "f 0644 0 0 1.000000000 1 =QQ== - ../outside/passwd\n",
        "d 0755 0 0 1.000000000 - - - a\nf 0644 0 0 1.000000000 1 =QQ== - a/../../outside/passwd\n",
        "f 0644 0 0 1.000000000 1 =QQ== - /etc/passwd\n",
        "h - - - - - ../outside/passwd - a\n",
        "f 0644 0 0 1.000000000 1 =QQ== - a\nl 0777 0 0 1.000000000 - ../outside - a\n",
    ] {
        let root = chunks.leaf(text);
        let refused = run(&chunks, root, &place.join("refused"), &options());
        assert!(matches!(refused, Err(BackupError::Damaged { .. })), "{text}: {refused:?}");
    }
    let text = "c 0666 0 0 1.000000000 - 1:3 - device\n\
        f 0755 4294967295 4294967295 1.000000000 1 =QQ== - owner\n\
        f 6755 12345 0 1.000000000 1 =QQ== security.capability=AQAAAgAgAAAAAAAAAAAAAAAAAAA=;trusted.x=AA== setuid\n";
    let root = chunks.leaf(text);
    let target = place.join("target");
    let plain = RestoreOptions { owners: true, ..RestoreOptions::default() };
    let (report, events) = run(&chunks, root, &target, &plain).unwrap();
    let expected = [
        ("device", "withheld: device"),
        ("owner", "incomplete: owner: it is not a valid number"),
        ("setuid", "withheld: attribute security.capability"),
        ("setuid", "withheld: attribute trusted.x"),
        ("setuid", "withheld: mode 6755"),
    ];
    let events: Vec<_> = events.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let is_root = rustix::process::geteuid().is_root();
    assert_eq!(
        events
            .iter()
            .filter(|event| is_root || !event.1.starts_with("incomplete: owner: Op"))
            .copied()
            .collect::<Vec<_>>(),
        expected
    );
    assert_eq!((report.files, report.withheld), (2, 4));
    assert!(!target.join("device").exists());
    assert_eq!(fs::metadata(target.join("setuid")).unwrap().mode() & 0o7777, 0o755);
    // With the flag, the bits are set if the owner is.
    let all = RestoreOptions { privileged: true, overwrite: Overwrite::Always, ..plain };
    let (_, events) = run(&chunks, root, &target, &all).unwrap();
    let is_withheld =
        events.iter().any(|(path, text)| path == "setuid" && text == "withheld: mode 6755");
    let stat = fs::metadata(target.join("setuid")).unwrap();
    assert_eq!(stat.mode() & 0o7777, if is_withheld { 0o755 } else { 0o6755 });
    assert_eq!(is_withheld, stat.uid() != 12345);
    assert_eq!(state_of(&outside), before);
}

#[test]
fn damage_affects_only_the_files_that_contain_it() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path().canonicalize().unwrap();
    let (source, target) = (place.join("source"), place.join("target"));
    for (n, name) in ["good", "bad", "large", "short", "other/good"].into_iter().enumerate() {
        let length = if name == "large" { 30 * PART } else { 1000 };
        write(&source.join(name), &random(length, n as u64));
    }
    let (mut chunks, _) = snapshot(&source);
    let mut tree = TreeWriter::new(chunks.identifiers.clone());
    let mut all = entries(&source);
    all.sort_by(|a, b| path_order(&a.path, &b.path));
    for mut entry in all {
        let bytes = fs::read(on_disk(&source, &entry.path)).unwrap_or_default();
        if let Node::File { content, size, .. } = &mut entry.node {
            for (at, bytes) in bytes.chunks(PART).enumerate() {
                let length = bytes.len() as u64;
                let id = chunks.write(Kind::Data, bytes).unwrap();
                let is_lost = entry.path == b"bad" || entry.path == b"large" && at == 20;
                if is_lost {
                    chunks.chunks.remove(&(Kind::Data, id));
                }
                let extra = u64::from(entry.path == b"short");
                *size += extra;
                content.push(Extent::Data { id, offset: 0, length: length + extra });
            }
        }
        tree.push(&entry, &mut chunks).unwrap();
    }
    let root = tree.finish(&mut chunks).unwrap();
    // An older version that is to be replaced stays if the new one is damaged.
    write(&target.join("bad"), b"older");
    let always = RestoreOptions { overwrite: Overwrite::Always, ..options() };
    let (report, events) = run(&chunks, root, &target, &always).unwrap();
    let paths: Vec<_> = events.iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(paths, ["bad", "large", "short"]);
    assert!(events[0].1.contains("missing in the repository"), "{events:?}");
    assert!(events[2].1.contains("shorter than a reference"), "{events:?}");
    assert_eq!((report.files, report.failed), (2, 3));
    assert_eq!(fs::read(target.join("bad")).unwrap(), b"older");
    let mut names: Vec<_> =
        fs::read_dir(&target).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["bad", "good", "other"]);
}

#[test]
fn a_lost_part_of_the_tree_costs_only_its_entries() {
    const FILES: u64 = 300;
    let place = tempfile::tempdir().unwrap();
    let place = place.path().canonicalize().unwrap();
    let (source, target) = (place.join("source"), place.join("target"));
    for folder in 0..4 {
        for file in 0..FILES {
            write(&source.join(format!("{folder}/{file:03}{}", "x".repeat(200))), b"x");
        }
    }
    let (mut chunks, root) = snapshot(&source);
    let is_leaf = |text: &[u8]| text.starts_with(b"f ") || text.starts_with(b"d ");
    let leaves: Vec<_> = chunks
        .chunks
        .iter()
        .filter(|(_, text)| is_leaf(text))
        .map(|(key, text)| (*key, text.clone()))
        .collect();
    assert!(root.level == 1 && leaves.len() > 2);
    // The chunk with the folder 2 is lost; some of the files in it are elsewhere.
    let (lost, text) =
        leaves.iter().find(|(_, text)| String::from_utf8_lossy(text).contains(" 2\n")).unwrap();
    chunks.chunks.remove(lost);
    let lost_files =
        text.split(|byte| *byte == b'\n').filter(|line| line.starts_with(b"f ")).count();
    let (report, events) = run(&chunks, root, &target, &options()).unwrap();
    assert_eq!(events.len(), 1);
    assert!(events[0].0.is_empty() && events[0].1.contains("missing"), "{events:?}");
    assert_eq!(report.files, 4 * FILES - lost_files as u64);
    assert!(target.join("2").is_dir());
}

#[test]
fn subfolders_and_selections_restore_only_the_named_paths() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path().canonicalize().unwrap();
    let source = place.join("source");
    for name in
        ["home/alice/a.txt", "home/alice/b.o", "home/alice/deep/c.txt", "home/bob/d.txt", "e.txt"]
    {
        write(&source.join(name), name.as_bytes());
    }
    fs::hard_link(source.join("e.txt"), source.join("home/alice/link")).unwrap();
    fs::hard_link(source.join("e.txt"), source.join("home/alice/link2")).unwrap();
    for name in ["home/alice/deep", "home/alice", "home/bob", "home"] {
        set_time(&source.join(name), 1_000_000_000, 1);
    }
    let (chunks, root) = snapshot(&source);
    let mut count = 0;
    let mut restored = |subfolder: &str, include: &[&str], exclude: &[&str]| {
        count += 1;
        let target = place.join(format!("target{count}"));
        let owned = |all: &[&str]| all.iter().map(|&one| one.to_owned()).collect::<Vec<_>>();
        let selection = PathSelection::new(&owned(include), &owned(exclude)).unwrap();
        let some = RestoreOptions { selection, subfolder: subfolder.into(), ..options() };
        let (_, events) = run(&chunks, root, &target, &some).unwrap();
        assert_eq!(events, []);
        let paths =
            entries(&target).into_iter().map(|entry| String::from_utf8(entry.path).unwrap());
        (paths.collect::<Vec<_>>(), target)
    };
    let (paths, target) = restored("home/alice", &[], &[]);
    assert_eq!(paths, ["a.txt", "b.o", "deep", "deep/c.txt", "link", "link2"]);
    assert_eq!(fs::metadata(target.join("deep")).unwrap().mtime(), 1_000_000_000);
    // The first name is outside of the subfolder: the further ones are a file of their own.
    assert_eq!(fs::read(target.join("link")).unwrap(), b"e.txt");
    let inode = |name: &str| fs::metadata(target.join(name)).unwrap().ino();
    assert_eq!(inode("link"), inode("link2"));
    assert_eq!(restored("home/bob/d.txt", &[], &[]).0, ["d.txt"]);
    assert_eq!(restored("home/alice/link2", &[], &[]).0, ["link2"]);
    let (paths, target) = restored("", &["*.txt"], &["bob", "/e.txt"]);
    assert_eq!(
        paths,
        ["home", "home/alice", "home/alice/a.txt", "home/alice/deep", "home/alice/deep/c.txt"]
    );
    assert_eq!(fs::metadata(target.join("home")).unwrap().mtime(), 1_000_000_000);
    assert_eq!(
        restored("home", &["/home/alice"], &["deep", "link*"]).0,
        ["alice", "alice/a.txt", "alice/b.o"]
    );
    assert_eq!(
        restored("", &[], &["/e.txt", "home/bob", "deep/"]).0,
        [
            "home",
            "home/alice",
            "home/alice/a.txt",
            "home/alice/b.o",
            "home/alice/link",
            "home/alice/link2"
        ]
    );
    let none = RestoreOptions { subfolder: b"home/carol".to_vec(), ..options() };
    let refused = run(&chunks, root, &place.join("none"), &none);
    assert!(matches!(refused, Err(BackupError::NotFound(_))), "{refused:?}");
}

#[test]
fn a_cancelled_restore_ends_without_partial_files() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path().canonicalize().unwrap();
    let (source, target) = (place.join("source"), place.join("target"));
    write(&source.join("large"), &random(100 * PART, 1));
    for n in 0..50 {
        write(&source.join(format!("small{n}")), &random(600, n));
    }
    let (chunks, root) = snapshot(&source);
    let progress = BackupProgress::default();
    progress.cancel();
    let result = restore(&Tree::new(&chunks, root), &target, &options(), &progress, &|_, _| {});
    assert!(matches!(result, Err(BackupError::Cancelled)));
    assert_eq!(fs::read_dir(&target).unwrap().count(), 0);
}

#[test]
fn a_tree_deeper_than_paths_and_descriptors_allow_comes_back() {
    const LEVELS: usize = 1100;
    let place = tempfile::tempdir().unwrap();
    let place = place.path().canonicalize().unwrap();
    let mut chunks = Memory::new();
    let mut tree = TreeWriter::new(chunks.identifiers.clone());
    let mut path = Vec::new();
    for level in 0..LEVELS {
        if level > 0 {
            path.push(b'/');
        }
        path.extend_from_slice(b"folder");
        let meta =
            Meta { mode: 0o755, mtime: Time { seconds: 5, nanoseconds: 7 }, ..Meta::default() };
        tree.push(&Entry { path: path.clone(), node: Node::Directory(meta) }, &mut chunks).unwrap();
    }
    for level in (1..=LEVELS).rev().step_by(300) {
        let path = [&path[..level * 7 - 1], b"/last".as_slice()].concat();
        let meta = Meta { mode: 0o644, ..Meta::default() };
        let node = Node::File { meta, size: 1, content: vec![Extent::Inline(vec![1])] };
        tree.push(&Entry { path, node }, &mut chunks).unwrap();
    }
    let root = tree.finish(&mut chunks).unwrap();
    let plain = RestoreOptions::default();
    let (report, events) = run(&chunks, root, &place.join("target"), &plain).unwrap();
    let found = entries(&place.join("target"));
    assert!(found.iter().filter_map(|entry| entry.node.meta()).all(|meta| meta.mtime.seconds <= 5));
    assert_eq!(found.len(), LEVELS + 4);
    assert_eq!((report.folders, report.files, events), (LEVELS as u64, 4, vec![]));
}

/// Makes a random entry one that everybody can restore and read back.
fn tame(entry: &mut Entry) {
    if let Node::Device { .. } = entry.node {
        entry.node = Node::Fifo(Meta { mode: 0o640, ..Meta::default() });
    }
    let is_symlink = matches!(entry.node, Node::Symlink { .. });
    if let Node::File { content, size, .. } = &mut entry.node {
        content.retain(|part| matches!(part, Extent::Inline(_)));
        *size = content.iter().map(Extent::length).sum();
    }
    let is_plain = matches!(entry.node, Node::File { .. } | Node::Directory(_));
    if let Some(meta) = entry.node.meta_mut() {
        meta.mode = if is_symlink { 0o777 } else { meta.mode & 0o1777 | 0o700 };
        meta.uid = rustix::process::geteuid().as_raw();
        meta.gid = rustix::process::getegid().as_raw();
        // Every file system has times of 31 bits.
        meta.mtime.seconds = meta.mtime.seconds.rem_euclid(1 << 31);
        meta.attributes.retain(|_| is_plain);
        for (name, _) in &mut meta.attributes {
            name.splice(..0, *b"user.");
        }
    }
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(24))]

    #[test]
    fn every_tree_comes_back_from_the_file_system(mut tree in crate::tree::tests::entries()) {
        let place = tempfile::tempdir().unwrap();
        let target = place.path().canonicalize().unwrap().join("target");
        tree.iter_mut().for_each(tame);
        let mut chunks = Memory::new();
        let root = chunks.tree(&tree);
        let (_, events) = run(&chunks, root, &target, &RestoreOptions::default()).unwrap();
        proptest::prop_assert_eq!(events, []);
        let content = |entry: &Entry| match &entry.node {
            Node::File { .. } => fs::read(on_disk(&target, &entry.path)).unwrap(),
            _ => Vec::new(),
        };
        let found: Vec<_> = entries(&target).into_iter().map(|entry| (content(&entry), entry)).collect();
        let expected = tree.into_iter().map(|mut entry| {
            let mut bytes = Vec::new();
            if let Node::File { content, .. } = &mut entry.node {
                for part in std::mem::take(content) {
                    if let Extent::Inline(part) = part {
                        bytes.extend(part);
                    }
                }
            }
            (bytes, entry)
        });
        proptest::prop_assert_eq!(found, expected.collect::<Vec<_>>());
    }
}

/// Compares; gives the paths that differ with what was told, sorted.
fn compared(
    chunks: &Memory,
    root: Root,
    target: &Path,
    options: &RestoreOptions,
) -> (VerifyReport, Events) {
    let told = Mutex::new(Vec::new());
    let tell = |path: &[u8], difference: Mismatch| {
        let text = match difference {
            Mismatch::Differs(what) => what.to_owned(),
            Mismatch::Absent => "absent".to_owned(),
            Mismatch::Failed(error) => format!("failed: {error}"),
        };
        told.lock().push((String::from_utf8_lossy(path).into_owned(), text));
    };
    let tree = Tree::new(chunks, root);
    let identifiers = &chunks.identifiers;
    let report =
        verify(&tree, identifiers, target, options, &BackupProgress::default(), &tell).unwrap();
    let mut told = told.into_inner();
    told.sort();
    assert_eq!(report.different, told.len() as u64);
    (report, told)
}

#[test]
fn every_difference_from_the_snapshot_is_named() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path().canonicalize().unwrap();
    let (source, target) = (place.join("source"), place.join("target"));
    everything(&source);
    let (chunks, root) = snapshot(&source);
    run(&chunks, root, &target, &options()).unwrap();
    let (report, told) = compared(&chunks, root, &target, &options());
    assert_eq!(told, []);
    // Further hard links are compared as files.
    assert_eq!((report.files, report.others), (12, 10));
    let keep_time = |name: &str, change: &dyn Fn(&Path)| {
        let path = target.join(name);
        let before = fs::symlink_metadata(&path).unwrap();
        change(&path);
        set_time(&path, before.mtime(), before.mtime_nsec());
    };
    fs::set_permissions(target.join("sizes"), fs::Permissions::from_mode(0o700)).unwrap();
    // One bit in the middle of a long file, in a part that is read from a chunk, and one in a hole.
    for (name, at) in [("sizes/5000000", 3_000_000), ("hole", 1_000_000), ("sizes/512", 511)] {
        keep_time(name, &|path| {
            let mut bytes = fs::read(path).unwrap();
            bytes[at] ^= 1;
            fs::write(path, bytes).unwrap();
        });
    }
    keep_time("sizes/70000", &|path| {
        File::options().append(true).open(path).unwrap().write_all(b"x").unwrap();
    });
    set_time(&target.join("sizes/1000000"), 1, 1);
    fs::remove_file(target.join("folder")).unwrap();
    symlink("elsewhere", target.join("folder")).unwrap();
    fs::remove_file(target.join("fifo")).unwrap();
    fs::create_dir(target.join("fifo")).unwrap();
    fs::remove_dir(target.join("empty/folder")).unwrap();
    write(&target.join("further"), b"this does not matter");
    let (_, told) = compared(&chunks, root, &target, &options());
    let expected = [
        ("empty/folder", "absent"),
        ("fifo", "kind"),
        ("folder", "target"),
        ("hole", "content"),
        ("sizes/1000000", "mode, time or owner"),
        ("sizes/5000000", "content"),
        ("sizes/512", "content"),
        ("sizes/70000", "size"),
    ];
    let expected = expected.map(|(path, what)| (path.to_owned(), what.to_owned()));
    assert_eq!(told, expected);
    // Only what is selected counts.
    let selection = PathSelection::new(&["sizes/5*".into()], &["512".into()]).unwrap();
    let (_, told) = compared(&chunks, root, &target, &RestoreOptions { selection, ..options() });
    assert_eq!(told, [expected[5].clone()]);
    // A folder that became a symbolic link is not followed.
    fs::set_permissions(target.join("links"), fs::Permissions::from_mode(0o700)).unwrap();
    fs::rename(target.join("links"), place.join("outside")).unwrap();
    symlink(place.join("outside"), target.join("links")).unwrap();
    let subfolder = b"links".to_vec();
    let below = RestoreOptions { subfolder, ..options() };
    let (_, told) = compared(&chunks, root, &place.join("outside"), &below);
    assert_eq!(told, []);
    let (_, told) = compared(&chunks, root, &target, &options());
    let in_links: Vec<_> = told.iter().filter(|(path, _)| path.starts_with("links")).collect();
    assert_eq!(in_links.len(), 3, "{told:?}");
}

#[test]
fn folders_are_restored_under_other_names_and_nowhere_else() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path().canonicalize().unwrap();
    let (source, target) = (place.join("source"), place.join("target"));
    write(&source.join("home/alice/letter"), b"letter");
    write(&source.join("home/bob/note"), b"note");
    write(&source.join("etc/passwd"), b"passwd");
    write(&source.join("file"), b"file");
    // Half of the way of another mapping.
    symlink(&place, source.join("etc/way")).unwrap();
    let (chunks, root) = snapshot(&source);
    let tree = Tree::new(&chunks, root);
    let mapping = |from: &str, to: &str| Mapping { from: from.into(), to: to.into() };
    let map = |mappings: &[Mapping]| map_folders(&tree, &target, mappings, &options());
    let places =
        map(&[mapping("etc", "a"), mapping("home/alice", "/a/way/deep"), mapping("home/bob", "")])
            .unwrap();
    let mut report = RestoreReport::default();
    let events = Mutex::new(Vec::new());
    for (target, options) in &places {
        let tell = |path: &[u8], _: RestoreEvent| events.lock().push(path.to_vec());
        report += restore(&tree, target, options, &BackupProgress::default(), &tell).unwrap();
        let none = |path: &[u8], difference: Mismatch| {
            assert!(path == b"etc/way", "{path:?}: {difference:?}");
        };
        verify(&tree, &chunks.identifiers, target, options, &BackupProgress::default(), &none)
            .unwrap();
    }
    assert_eq!(report.files, 3);
    for (name, content) in
        [("a/passwd", "passwd"), ("a/way/deep/letter", "letter"), ("note", "note")]
    {
        assert_eq!(fs::read_to_string(target.join(name)).unwrap(), content);
    }
    // The link has not led the second mapping out of the target.
    assert_eq!(*events.lock(), [b"etc/way".to_vec()]);
    assert!(!place.join("deep").exists());
    for (from, to) in [("home", "../x"), ("home", "a/../../x"), ("file", "x"), ("nothing", "x")] {
        let refused = map(&[mapping(from, to)]);
        assert!(matches!(refused, Err(BackupError::Refused(_))), "{from} {to}: {refused:?}");
    }
}

#[test]
fn newer_files_stay_and_different_contents_and_attributes_are_found() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path().canonicalize().unwrap();
    let (source, target) = (place.join("source"), place.join("target"));
    let names = ["same", "content", "attribute", "older", "newer", "long"];
    for name in names {
        let content = if name == "long" { vec![7; 700_000] } else { b"snapshot".to_vec() };
        write(&source.join(name), &content);
        set_time(&source.join(name), 1_000_000_000, 5);
    }
    symlink("there", source.join("link")).unwrap();
    set_time(&source.join("link"), 1_000_000_000, 5);
    let (chunks, root) = snapshot(&source);
    let prepare = || {
        let _ = fs::remove_dir_all(&target);
        run(&chunks, root, &target, &options()).unwrap();
        fs::write(target.join("content"), b"SNAPSHOT").unwrap();
        let mut long = vec![7; 700_000];
        long[350_000] = 8;
        fs::write(target.join("long"), long).unwrap();
        setxattr(target.join("attribute"), "user.more", b"x", XattrFlags::empty()).unwrap();
        fs::write(target.join("older"), b"before").unwrap();
        fs::write(target.join("newer"), b"after").unwrap();
        fs::remove_file(target.join("link")).unwrap();
        symlink("elsewhere", target.join("link")).unwrap();
        for name in ["content", "attribute", "long"] {
            set_time(&target.join(name), 1_000_000_000, 5);
        }
        set_time(&target.join("older"), 1_000_000_000, 4);
        for name in ["newer", "link"] {
            set_time(&target.join(name), 1_000_000_000, 6);
        }
    };
    let replaced = |overwrite| {
        prepare();
        let options = RestoreOptions { overwrite, ..options() };
        let (report, events) = run(&chunks, root, &target, &options).unwrap();
        let is_restored = |name: &&&str| {
            let path = target.join(name);
            let attribute = rustix::fs::getxattr(&path, "user.more", &mut [0_u8; 8]);
            attribute.is_err() && fs::read(path).unwrap() == fs::read(source.join(name)).unwrap()
        };
        let restored: Vec<&str> = names.iter().filter(is_restored).copied().collect();
        let told = (report.unchanged, report.kept, report.differing);
        assert_eq!(events.len() as u64, report.kept + report.differing);
        let link = fs::read_link(target.join("link")).unwrap();
        (restored, report.files, told, link.to_str() == Some("there"))
    };
    use Overwrite::{Always, IfChanged, IfDifferent, IfNewer, Never};
    assert_eq!(replaced(Never), (vec!["same"], 0, (3, 1, 3), false));
    let changed = vec!["same", "attribute", "older", "newer"];
    assert_eq!(replaced(IfChanged), (changed, 3, (3, 0, 0), true));
    assert_eq!(replaced(IfDifferent), (names.to_vec(), 5, (1, 0, 0), true));
    assert_eq!(replaced(IfNewer), (vec!["same", "older"], 1, (3, 3, 0), false));
    assert_eq!(replaced(Always), (names.to_vec(), 6, (0, 0, 0), true));
}

/// The states that a kill can leave are made by hand here; the command is killed in the tests of the
/// command.
#[test]
fn what_an_interrupted_restore_left_is_completed_and_nothing_else_is_taken_for_it() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path().canonicalize().unwrap();
    let (source, target) = (place.join("source"), place.join("target"));
    write(&source.join("folder/file"), &random(300_000, 1));
    symlink("file", source.join("folder/link")).unwrap();
    // A file of the snapshot whose name is the one that another file has while it is written.
    let name = unfinished::name_for(c"taken", 0);
    let taken = source.join(name.to_str().unwrap());
    write(&taken, b"a file like any other");
    write(&source.join("taken"), b"content");
    for name in ["folder/file", "folder/link", "folder", "taken"] {
        set_time(&source.join(name), 1_000_000_000, 5);
    }
    let (chunks, root) = snapshot(&source);
    let left =
        |name: &CStr| target.join("folder").join(unfinished::name_for(name, 0).to_str().unwrap());

    fs::create_dir_all(target.join("folder")).unwrap();
    fs::set_permissions(target.join("folder"), fs::Permissions::from_mode(0o1700)).unwrap();
    fs::write(left(c"file"), b"part").unwrap();
    fs::set_permissions(left(c"file"), fs::Permissions::from_mode(0o400)).unwrap();
    symlink("file", left(c"link")).unwrap();
    let (report, events) = run(&chunks, root, &target, &options()).unwrap();
    assert_eq!((report.files, report.others, report.folders, events), (3, 1, 1, vec![]));
    assert_same(&source, &target);

    // What another restore has in work is not touched.
    fs::remove_dir_all(&target).unwrap();
    fs::create_dir_all(target.join("folder")).unwrap();
    let folder = open_target(&target.join("folder")).unwrap();
    let in_work = unfinished::create(&folder, &unfinished::name_for(c"file", 0)).unwrap();
    in_work.write_all_at(b"part", 0).unwrap();
    let (report, events) = run(&chunks, root, &target, &options()).unwrap();
    // The folder was there before, and was no unfinished one.
    assert_eq!((report.files, report.folders, events), (3, 0, vec![]));
    assert_eq!(fs::read(left(c"file")).unwrap(), b"part");
    assert!(fs::read(target.join("folder/file")).unwrap() == random(300_000, 1));
}

/// Only root may give files away.
#[test]
fn owners_get_the_numbers_of_their_names() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let target = place.path().canonicalize().unwrap().join("target");
    let mut chunks = Memory::new();
    let meta = Meta { mode: 0o640, uid: 4242, gid: 4243, ..Meta::default() };
    let node = Node::File { meta, size: 0, content: Vec::new() };
    let root = chunks.tree(&[Entry { path: b"file".to_vec(), node }]);
    let mut snapshot = crate::testing::listed(1, 1, crate::id::Id([1; 32])).snapshot;
    snapshot.users = [(4242, b"root".to_vec())].into();
    let names = Owners::by_name(&snapshot);
    let options = RestoreOptions { owners: true, names, ..RestoreOptions::default() };
    let (_, events) = run(&chunks, root, &target, &options).unwrap();
    assert_eq!(events, []);
    // The group has no name in the snapshot.
    let found = fs::metadata(target.join("file")).unwrap();
    assert_eq!((found.uid(), found.gid()), (0, 4243));
    let again = RestoreOptions { overwrite: Overwrite::IfChanged, ..options };
    assert_eq!(run(&chunks, root, &target, &again).unwrap().0.unchanged, 1);
    assert_eq!(compared(&chunks, root, &target, &again).1, []);
}
