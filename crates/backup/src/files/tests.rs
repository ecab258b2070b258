use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::walk::{Walk, WalkOptions, Walked};
use super::*;
use crate::entry::{Entry, Node};
use crate::tree::path_order;

fn write(path: &Path, content: &[u8]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

/// The path in the tree of a path of the file system.
fn inside(path: &Path) -> Vec<u8> {
    use std::os::unix::ffi::OsStrExt as _;
    path.as_os_str().as_bytes()[1..].to_vec()
}

/// The paths of a walk beneath `top`, with `!` after paths that cannot be read, `?` after deleted
/// ones and `=` after sockets.
fn walked(top: &Path, roots: &[PathBuf], options: WalkOptions) -> Vec<String> {
    let mut last = Vec::new();
    let mut found = Vec::new();
    for walked in Walk::new(roots, options).unwrap() {
        let (path, mark) = match walked {
            Walked::Item(item) => {
                assert!(path_order(&last, &item.entry.path).is_lt(), "{:?}", item.entry);
                last.clone_from(&item.entry.path);
                (item.entry.path, "")
            }
            Walked::Unread { path, .. } => (path, "!"),
            Walked::Vanished { path } => (path, "?"),
            Walked::Socket { path } => (path, "="),
        };
        if let Some([_, below @ ..]) = path.strip_prefix(inside(top).as_slice()) {
            found.push(String::from_utf8_lossy(below).into_owned() + mark);
        }
    }
    found
}

#[test]
fn a_walk_is_in_the_order_of_the_tree_and_has_all_kinds_of_nodes() {
    let place = tempfile::tempdir().unwrap();
    let top = place.path().canonicalize().unwrap();
    for name in ["a/x", "a/x y/z", "a.b", "a b", "a-", "b/c/d"] {
        write(&top.join(name), name.as_bytes());
    }
    fs::hard_link(top.join("a/x"), top.join("c")).unwrap();
    fs::hard_link(top.join("a/x"), top.join("a/w")).unwrap();
    symlink("../nowhere", top.join("l")).unwrap();
    mknodat(CWD, top.join("p"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    let _socket = UnixListener::bind(top.join("s")).unwrap();
    let found = walked(&top, std::slice::from_ref(&top), WalkOptions::default());
    assert_eq!(
        found,
        [
            "a", "a/w", "a/x", "a/x y", "a/x y/z", "a b", "a-", "a.b", "b", "b/c", "b/c/d", "c",
            "l", "p", "s="
        ]
    );
    let entries: Vec<Entry> = Walk::new(std::slice::from_ref(&top), WalkOptions::default())
        .unwrap()
        .filter_map(|walked| match walked {
            Walked::Item(item) => Some(item.entry),
            _ => None,
        })
        .collect();
    let at = |name: &str| {
        let path = inside(&top.join(name));
        entries.iter().find(|entry| entry.path == path).map(|entry| &entry.node).unwrap()
    };
    let first = inside(&top.join("a/w"));
    assert!(matches!(at("a/w"), Node::File { size: 3, .. }));
    assert_eq!(*at("a/x"), Node::HardLink { first: first.clone() });
    assert_eq!(*at("c"), Node::HardLink { first });
    assert!(matches!(at("l"), Node::Symlink { target, .. } if target == b"../nowhere"));
    assert!(matches!(at("p"), Node::Fifo(_)));
    let stat = fs::metadata(top.join("a.b")).unwrap();
    let meta = at("a.b").meta().unwrap();
    assert_eq!((meta.uid, meta.gid), (stat.uid(), stat.gid()));
    assert_eq!(u32::from(meta.mode), stat.mode() & 0o7777);
    assert_eq!(
        (meta.mtime.seconds, i64::from(meta.mtime.nanoseconds)),
        (stat.mtime(), stat.mtime_nsec())
    );
    // The parents of the root are there, and nothing beside it.
    let paths: Vec<_> = entries.iter().map(|entry| entry.path.clone()).collect();
    let parents = top.ancestors().count() - 1;
    assert_eq!(paths.len(), 14 + parents);
    assert!(paths[..parents].iter().all(|path| inside(&top).starts_with(path)));
}

#[test]
fn several_roots_are_one_sorted_tree_and_missing_ones_are_named() {
    let place = tempfile::tempdir().unwrap();
    let top = place.path().canonicalize().unwrap();
    for name in ["b/1", "b/2", "a/deep/1", "a/deep/2", "a/other", "c"] {
        write(&top.join(name), b"x");
    }
    symlink("a", top.join("link")).unwrap();
    let roots = |names: &[&str]| names.iter().map(|name| top.join(name)).collect::<Vec<_>>();
    let walk = |names: &[&str]| walked(&top, &roots(names), WalkOptions::default());
    assert_eq!(
        walk(&["c", "b/2", "a/deep", "a/deep/1"]),
        ["a", "a/deep", "a/deep/1", "a/deep/2", "b", "b/2", "c"]
    );
    // Symbolic links on the way are followed, at the end only with a slash.
    assert_eq!(walk(&["link/other"]), ["a", "a/other"]);
    assert_eq!(walk(&["link"]), ["link"]);
    assert_eq!(walk(&["link/"]), ["a", "a/deep", "a/deep/1", "a/deep/2", "a/other"]);
    assert_eq!(walk(&["b", "none", "no/where"]), ["no/where!", "b", "b/1", "b/2", "none!"]);
    assert_eq!(walk(&["none"]), ["none!"]);
    // A root in an excluded folder counts.
    let options = WalkOptions {
        selection: PathSelection::new(&[], &["a".into()]).unwrap(),
        ..WalkOptions::default()
    };
    let all = walked(&top, &[top.clone(), top.join("a/deep/2")], options);
    assert_eq!(all, ["a", "a/deep", "a/deep/2", "b", "b/1", "b/2", "c", "link"]);
}

#[test]
fn exclude_options_leave_out_matching_paths() {
    let place = tempfile::tempdir().unwrap();
    let top = place.path().canonicalize().unwrap();
    for name in [
        "keep/a.txt",
        "keep/a.o",
        "keep/deep/b.txt",
        "cache/x",
        "fake/x",
        "marked/x",
        "marked/.skip",
    ] {
        write(&top.join(name), b"x");
    }
    write(&top.join("large"), &[0; 100]);
    write(&top.join("cache/CACHEDIR.TAG"), b"Signature: 8a477f597d28d172789f06886806bc55\nmore");
    write(&top.join("fake/CACHEDIR.TAG"), b"Signature: 8a477f597d28d172789f06886806bc5");
    let with = |include: &[&str], exclude: &[&str]| {
        let owned = |all: &[&str]| all.iter().map(|&one| one.to_owned()).collect::<Vec<_>>();
        let selection = PathSelection::new(&owned(include), &owned(exclude)).unwrap();
        walked(
            &top,
            std::slice::from_ref(&top),
            WalkOptions { selection, ..WalkOptions::default() },
        )
    };
    assert_eq!(with(&["*.txt"], &[]), ["keep", "keep/a.txt", "keep/deep", "keep/deep/b.txt"]);
    assert_eq!(with(&["keep"], &["*.o", "deep/"]), ["keep", "keep/a.txt"]);
    assert_eq!(with(&["nothing"], &[]), [""; 0]);
    let options = WalkOptions {
        exclude_caches: true,
        exclude_if_present: vec![b".skip".to_vec()],
        file_bytes_max: Some(99),
        selection: PathSelection::new(&[], &["keep".into()]).unwrap(),
        one_file_system: true,
    };
    assert_eq!(
        walked(&top, std::slice::from_ref(&top), options),
        ["cache", "cache/CACHEDIR.TAG", "fake", "fake/CACHEDIR.TAG", "fake/x", "marked"]
    );
    assert_eq!(parse_path_list(b"/a b\n/c\n"), [PathBuf::from("/a b"), PathBuf::from("/c")]);
    assert_eq!(parse_path_list(b"/a\nb\0/c\0"), [PathBuf::from("/a\nb"), PathBuf::from("/c")]);
}

#[test]
fn one_file_system_stops_at_mount_points() {
    // /proc and /dev are file systems of their own on every Linux.
    let options = WalkOptions { one_file_system: true, ..WalkOptions::default() };
    let own = fs::metadata("/").unwrap().dev();
    let (mut proc, mut foreign) = (false, 0);
    // Only the first level below / is looked at.
    let shallow = PathSelection::new(&[], &["/*/*".into()]).unwrap();
    let options = WalkOptions { selection: shallow, ..options };
    for walked in Walk::new(&["/".into(), "/dev".into()], options).unwrap() {
        if let Walked::Item(item) = walked {
            let path = String::from_utf8_lossy(&item.entry.path).into_owned();
            proc |= path == "proc";
            foreign += usize::from(path.starts_with("proc/"));
        }
    }
    assert!(proc && foreign == 0 && fs::metadata("/proc").unwrap().dev() != own);
}

#[test]
fn a_folder_that_cannot_be_read_is_an_entry_and_is_named() {
    let place = tempfile::tempdir().unwrap();
    let top = place.path().canonicalize().unwrap();
    write(&top.join("closed/file"), b"x");
    write(&top.join("open"), b"x");
    fs::set_permissions(top.join("closed"), fs::Permissions::from_mode(0o000)).unwrap();
    let found = walked(&top, std::slice::from_ref(&top), WalkOptions::default());
    fs::set_permissions(top.join("closed"), fs::Permissions::from_mode(0o700)).unwrap();
    if rustix::process::geteuid().is_root() {
        assert_eq!(found, ["closed", "closed/file", "open"]);
    } else {
        assert_eq!(found, ["closed", "closed!", "open"]);
    }
}

#[test]
fn a_walk_goes_deeper_than_paths_and_descriptors_allow() {
    use rustix::fs::{OFlags, mkdirat, openat, unlinkat};
    const LEVELS: usize = 1100;
    let place = tempfile::tempdir().unwrap();
    let top = place.path().canonicalize().unwrap();
    // 1,100 levels: longer than PATH_MAX and deeper than 1,024 descriptors.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let mut folders = vec![openat(CWD, &top, flags, Mode::empty()).unwrap()];
    for level in 0..LEVELS {
        let folder = folders.last().unwrap();
        mkdirat(folder, "folder", Mode::RWXU).unwrap();
        if level % 1000 == 0 {
            drop(openat(folder, "zz", OFlags::CREATE | OFlags::WRONLY, Mode::RUSR).unwrap());
        }
        let below = openat(folder, "folder", flags, Mode::empty()).unwrap();
        folders.push(below);
        if folders.len() > 10 {
            folders.remove(0);
        }
    }
    let found = walked(&top, std::slice::from_ref(&top), WalkOptions::default());
    // The file system library cannot remove a tree this deep.
    let mut folder = folders.pop().unwrap();
    drop(folders);
    for _ in 0..LEVELS {
        let _ = unlinkat(&folder, "zz", rustix::fs::AtFlags::empty());
        folder = openat(&folder, "..", flags, Mode::empty()).unwrap();
        unlinkat(&folder, "folder", rustix::fs::AtFlags::REMOVEDIR).unwrap();
    }
    let _ = unlinkat(&folder, "zz", rustix::fs::AtFlags::empty());
    assert_eq!(found.len(), LEVELS + 2, "{:?}", found.iter().find(|path| path.ends_with('!')));
    assert_eq!(found[LEVELS + 1], "zz");
    assert!(found.iter().all(|path| !path.ends_with('!')));
}

#[test]
fn a_file_is_opened_only_while_it_is_the_one_that_the_walk_saw() {
    let place = tempfile::tempdir().unwrap();
    let top = place.path().canonicalize().unwrap();
    for name in ["changed", "fifo", "good", "link", "removed", "replaced"] {
        write(&top.join(name), b"text");
    }
    let items: Vec<_> = Walk::new(std::slice::from_ref(&top), WalkOptions::default())
        .unwrap()
        .filter_map(|walked| match walked {
            Walked::Item(item) if matches!(item.entry.node, Node::File { .. }) => Some(item),
            _ => None,
        })
        .collect();
    for name in ["fifo", "link", "removed", "replaced"] {
        // The inode stays, so that no other file gets its number.
        fs::rename(top.join(name), place.path().join(format!("old {name}"))).unwrap();
    }
    mknodat(CWD, top.join("fifo"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    symlink("old link", top.join("link")).unwrap();
    write(&top.join("replaced"), b"other");
    File::options().append(true).open(top.join("changed")).unwrap().write_all(b"more").unwrap();
    for item in &items {
        let name = item.entry.path.rsplit(|byte| *byte == b'/').next().unwrap();
        let opened = item.open();
        match name {
            b"good" | b"changed" => {
                let mut file = opened.unwrap();
                assert_eq!(item.has_changed(&file).unwrap(), name == b"changed");
                let mut text = String::new();
                file.read_to_string(&mut text).unwrap();
                assert!(text.starts_with("text"));
            }
            _ => assert!(opened.is_err(), "{}", String::from_utf8_lossy(name)),
        }
    }
    assert_eq!(items.len(), 6);
    assert!(fs::metadata(top.join("fifo")).unwrap().file_type().is_fifo());
}

#[test]
fn attributes_are_read_sorted_and_those_of_links_are_their_own() {
    use rustix::fs::{XattrFlags, setxattr};
    let place = tempfile::tempdir().unwrap();
    let top = place.path().canonicalize().unwrap();
    write(&top.join("file"), b"x");
    let large = vec![7; 3000];
    for (name, value) in [("user.b", b"\0\xff".as_slice()), ("user.a", large.as_slice())] {
        setxattr(top.join("file"), name, value, XattrFlags::empty()).unwrap();
    }
    symlink("file", top.join("link")).unwrap();
    for walked in Walk::new(std::slice::from_ref(&top), WalkOptions::default()).unwrap() {
        let Walked::Item(mut item) = walked else { panic!("{walked:?}") };
        item.read_attributes().unwrap();
        let attributes = item.entry.node.meta().unwrap().attributes.clone();
        let own: Vec<_> =
            attributes.into_iter().filter(|(name, _)| name.starts_with(b"user.")).collect();
        match item.entry.path.rsplit(|byte| *byte == b'/').next().unwrap() {
            b"file" => assert_eq!(
                own,
                [(b"user.a".to_vec(), large.clone()), (b"user.b".to_vec(), b"\0\xff".to_vec())]
            ),
            _ => assert!(own.is_empty()),
        }
    }
}
