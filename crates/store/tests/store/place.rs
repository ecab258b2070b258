//! The file of a store, its name and its logs, with concurrent processes.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use crate::common::{Folder, NOW, assert_clean, contents, corpus};
use rusqlite::Connection;
use talaria_cert::{Cert, Limits, Verification, Work};
use talaria_disk::{FileStep, watch};
use talaria_store::{
    Access, BuildOptions, Builder, FileKind, IngestOutcome, Position, Preparation, SecondName,
    Store, StoreError, file_kind,
};

fn build_options() -> BuildOptions {
    let mut options = BuildOptions::new(NOW.into());
    options.memory_bytes = 4096;
    options
}

fn journal_mode(path: &Path) -> String {
    let connection = Connection::open(path).unwrap();
    connection.pragma_query_value(None, "journal_mode", |row| row.get(0)).unwrap()
}

/// A server creates its store during a build with the same name, and acknowledges an upload.
#[test]
fn a_build_does_not_replace_a_store_made_meanwhile() {
    let folder = Folder::new();
    let all = corpus(20);
    let options = build_options();
    let mut builder = Builder::start(&folder.path(), "a", options.clone()).unwrap();
    let raw: Vec<&[u8]> = all[..15].iter().map(Cert::as_bytes).collect();
    let drafts: Vec<_> = Builder::prepare(&options, &raw).into_iter().map(Result::unwrap).collect();
    builder.append(&drafts, Position { input: 0, offset: 1 }).unwrap();
    let store = folder.filled(&all[15..]);
    let refused = builder.finish(|_| {});
    assert!(
        matches!(&refused, Err(StoreError::Io { source, .. })
        if source.kind() == std::io::ErrorKind::AlreadyExists),
        "{refused:?}"
    );
    assert_eq!(store.count().unwrap(), 5);
    drop(store);
    assert_clean(&Store::open(&folder.path(), Access::Read).unwrap());
    // The built store is kept, and gets its name when the name is free.
    fs::rename(folder.path(), folder.folder().join("theirs.db")).unwrap();
    let builder = Builder::start(&folder.path(), "a", options).unwrap();
    let _ = builder.finish(|_| {}).unwrap();
}

#[test]
fn a_leftover_log_prevents_a_new_store_of_that_name() {
    let all = corpus(5);
    for suffix in ["-wal", "-journal"] {
        let folder = Folder::new();
        let beside = folder.folder().join("elsewhere.db");
        let store = folder.filled(&all);
        let log = folder.folder().join(format!("elsewhere.db{suffix}"));
        fs::write(&log, "changes of a store that was here").unwrap();
        let orphaned =
            |error| matches!(error, StoreError::Orphan { log: named, .. } if named == log);
        assert!(orphaned(Store::open(&beside, Access::Create).map(|_| ()).unwrap_err()));
        assert!(orphaned(Builder::start(&beside, "a", build_options()).map(|_| ()).unwrap_err()));
        assert!(orphaned(store.backup(&beside, |_, _| {}).unwrap_err()));
        assert!(!beside.exists());
        assert_eq!(fs::read(&log).unwrap(), b"changes of a store that was here");
        fs::remove_file(&log).unwrap();
        store.backup(&beside, |_, _| {}).unwrap();
    }
}

#[test]
fn a_symbolic_link_to_a_store_is_followed_and_one_that_leads_nowhere_is_named() {
    let all = corpus(7);
    let folder = Folder::new();
    let link = folder.folder().join("link.db");
    std::os::unix::fs::symlink(folder.path(), &link).unwrap();
    let refused = Store::open(&link, Access::Create).map(|_| ()).unwrap_err();
    let why = std::error::Error::source(&refused).unwrap().to_string();
    assert_eq!(why, "it is a symbolic link to a file that does not exist");
    assert!(link.is_symlink() && !folder.path().exists());
    drop(folder.filled(&all[..2]));
    let mut store = Store::open(&link, Access::Create).unwrap();
    assert_eq!(add(&mut store, &all[2..4]).unwrap(), 2);
    // The log has the name of the file, and not of the link.
    assert!(folder.path().with_extension("db-wal").exists());
    let mut second = Store::open(&folder.path(), Access::Write).unwrap();
    assert_eq!(add(&mut second, &all[4..6]).unwrap(), 2);
    assert_eq!(second.count().unwrap(), 6);
    assert_clean(&second);
    fs::remove_file(folder.path().with_extension("db-wal")).unwrap();
    assert!(matches!(add(&mut store, &all[6..]), Err(StoreError::Moved { .. })));
    fs::remove_file(&link).unwrap();
    assert!(matches!(add(&mut store, &all[6..]), Err(StoreError::Moved { .. })));
}

fn add(store: &mut Store, certs: &[Cert]) -> Result<usize, StoreError> {
    store.ingest(certs.to_vec(), Verification::Full, NOW.into()).map(|outcomes| outcomes.len())
}

/// Changes through a link are synced in the log of the file, which no checkpoint has emptied while
/// a reader needs the old state.
#[test]
fn a_store_behind_a_symbolic_link_is_written_beside_a_reader() {
    let all = corpus(12);
    let folder = Folder::new();
    drop(folder.filled(&all[..3]));
    let elsewhere = tempfile::tempdir().unwrap();
    let link = elsewhere.path().join("link.db");
    std::os::unix::fs::symlink(folder.path(), &link).unwrap();
    for certs in all[3..].chunks(3) {
        let reader = Store::open(&link, Access::Read).unwrap();
        let snapshot = reader.snapshot().unwrap();
        let before = snapshot.count().unwrap();
        let mut store = Store::open(&link, Access::Write).unwrap();
        assert_eq!(add(&mut store, certs).unwrap(), 3);
        assert!(!store.copy_log().unwrap(), "the reader needs the log");
        store.log_to_sync().sync().unwrap();
        assert_eq!(snapshot.count().unwrap(), before);
    }
    assert_clean(&Store::open(&folder.path(), Access::Read).unwrap());
    assert_eq!(Store::open(&link, Access::Read).unwrap().count().unwrap(), 12);
    assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 1, "nothing is beside the link");
}

/// Each name would have a log of its own, and one of two writers would lose its changes.
#[test]
fn a_store_with_two_names_is_not_opened_for_writing() {
    let all = corpus(12);
    let folder = Folder::new();
    let mut store = folder.filled(&all[..3]);
    let second = folder.folder().join("second.db");
    fs::hard_link(folder.path(), &second).unwrap();
    // Whoever has it open goes on, with its readers: a backup by hard links must not stop a server.
    assert_eq!(add(&mut store, &all[3..6]).unwrap(), 3);
    assert_eq!(Store::open(&folder.path(), Access::Read).unwrap().count().unwrap(), 6);
    let found = store.open_files().unwrap().second_name();
    assert_eq!(found, Some(SecondName::HardLink { names: 2 }));
    for path in [&folder.path(), &second] {
        for access in [Access::Write, Access::Create] {
            let refused = Store::open(path, access).map(|_| ());
            assert!(
                matches!(&refused, Err(StoreError::SecondName { path: named, .. }) if named == path),
                "{refused:?}"
            );
        }
    }
    assert!(!folder.folder().join("second.db-wal").exists());
    drop(store);
    fs::remove_file(&second).unwrap();
    let mut store = Store::open(&folder.path(), Access::Write).unwrap();
    assert_eq!(store.second_name(), None);
    assert_eq!(add(&mut store, &all[6..]).unwrap(), 6);
    assert_clean(&store);
    // A copy and a moved store are stores of their own.
    drop(store);
    fs::copy(folder.path(), &second).unwrap();
    let moved = folder.folder().join("moved.db");
    fs::rename(folder.path(), &moved).unwrap();
    for path in [second, moved] {
        assert_eq!(Store::open(&path, Access::Write).unwrap().count().unwrap(), 12);
    }
}

/// Syncs of logs so far, by their path.
static SYNCS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Notes syncs. A file with this name cannot get it.
const UNLINKED: &str = "unlinked.db";

fn note_steps(step: FileStep<'_>, action: &mut dyn FnMut() -> io::Result<()>) -> io::Result<()> {
    match step {
        FileStep::Sync(path) => SYNCS.lock().unwrap().push(path.to_owned()),
        FileStep::Rename { to, .. } if to.ends_with(UNLINKED) => {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "no links"));
        }
        _ => {}
    }
    action()
}

#[test]
fn a_store_that_cannot_get_its_name_leaves_nothing() {
    watch(note_steps);
    let folder = tempfile::tempdir().unwrap();
    let refused = Store::open(&folder.path().join(UNLINKED), Access::Create).map(|_| ());
    assert!(matches!(&refused, Err(StoreError::Io { action: "make", .. })), "{refused:?}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// Others commit before they sync. A power loss would take what was acknowledged a second time.
#[test]
fn unchanged_is_said_of_synced_certificates_only() {
    watch(note_steps);
    let all = corpus(8);
    let folder = Folder::new();
    let mut server = folder.filled(&all[..2]);
    add(&mut server, &all[2..3]).unwrap();
    let log = fs::canonicalize(folder.path()).unwrap().with_extension("db-wal");
    let syncs = || SYNCS.lock().unwrap().iter().filter(|path| **path == log).count();
    let preparation = Preparation {
        limits: Limits::default(),
        verification: Verification::Full,
        now: NOW.into(),
        work: Work::UNBOUNDED,
    };
    let mut command = Store::open(&folder.path(), Access::Write).unwrap();
    for round in 0..3 {
        let offered = vec![all[3 + round].clone()];
        let mut intake = server.prepare(offered.clone(), &preparation).unwrap();
        server.write_ahead(std::slice::from_mut(&mut intake), 9, NOW.into()).unwrap();
        let before = syncs();
        if round < 2 {
            for _ in 0..2 {
                let again = offered.clone();
                let outcomes = command.ingest(again, Verification::Full, NOW.into()).unwrap();
                assert_eq!(outcomes, [IngestOutcome::Unchanged]);
                // The second time, nobody has written meanwhile.
                assert_eq!(syncs(), before + 1);
            }
        } else {
            // The same holds for other changes that find nothing to change.
            command.operator_mut().unblock(&[all[0].fingerprint()]).unwrap();
            assert_eq!(syncs(), before + 1);
        }
        // The first change of a connection is another case than the others.
        add(&mut command, &all[6..]).unwrap();
    }
    // A log that was copied is on the disk.
    drop((server, command));
    let mut alone = Store::open(&folder.path(), Access::Write).unwrap();
    let before = syncs();
    assert_eq!(
        alone.ingest(all, Verification::Full, NOW.into()).unwrap(),
        [IngestOutcome::Unchanged; 8]
    );
    assert_eq!(syncs(), before);
}

/// A change that went to a file without a name would be gone with the process.
#[test]
fn a_store_that_is_moved_under_a_writer_acknowledges_nothing() {
    let all = corpus(12);
    type Damage = fn(&Path);
    let damages: [(&str, Damage); 5] = [
        ("moved", |path| fs::rename(path, path.with_extension("old")).unwrap()),
        ("deleted", |path| fs::remove_file(path).unwrap()),
        ("replaced by a copy", |path| {
            let old = path.with_extension("old");
            fs::rename(path, &old).unwrap();
            fs::copy(&old, path).unwrap();
        }),
        ("replaced by another", |path| {
            fs::rename(path, path.with_extension("old")).unwrap();
            drop(Store::open(path, Access::Create));
        }),
        ("without its log", |path| {
            fs::remove_file(path.with_extension("db-wal")).unwrap();
        }),
    ];
    for (name, damage) in damages {
        let folder = Folder::new();
        let mut store = folder.filled(&all[..5]);
        assert_eq!(add(&mut store, &all[5..8]).unwrap(), 3);
        damage(&folder.path());
        for _ in 0..2 {
            let refused = add(&mut store, &all[8..]);
            assert!(matches!(refused, Err(StoreError::Moved { .. })), "{name}: {refused:?}");
        }
        let refused = store.rebuild(NOW.into());
        assert!(matches!(refused, Err(StoreError::Moved { .. })), "{name}: {refused:?}");
        assert_eq!(store.count().unwrap(), 8, "{name}: the change was rolled back");
    }
}

/// Bindings catch panics, and go on with the store.
#[test]
fn work_that_fails_or_panics_leaves_no_open_transaction() {
    let all = corpus(9);
    let folder = Folder::new();
    let mut store = folder.filled(&all[..2]);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        store.atomically(|store| -> Result<(), StoreError> {
            add(store, &all[2..4])?;
            panic!("a defect")
        })
    }));
    assert!(panicked.is_err());
    let failed = store.atomically(|store| {
        add(store, &all[4..6])?;
        store.atomically(|_| Err::<(), _>(StoreError::NotFound(all[0].fingerprint())))
    });
    assert!(matches!(failed, Err(StoreError::NotFound(_))));
    assert_eq!(add(&mut store, &all[6..]).unwrap(), 3);
    // Another connection sees what was committed.
    let other = Store::open(&folder.path(), Access::Read).unwrap();
    assert_eq!(other.count().unwrap(), 5);
    assert!(other.get(all[2].fingerprint()).unwrap().is_none());
    assert_clean(&other);
}

#[test]
fn a_store_that_was_upgraded_under_a_writer_is_left_alone() {
    let all = corpus(6);
    let folder = Folder::new();
    let mut store = folder.filled(&all[..5]);
    let newer = Connection::open(folder.path()).unwrap();
    newer.execute_batch("PRAGMA user_version = 77").unwrap();
    let refused = add(&mut store, &all[5..]);
    assert!(matches!(refused, Err(StoreError::Format { found: 77, .. })), "{refused:?}");
    assert!(matches!(store.rebuild(NOW.into()), Err(StoreError::Format { found: 77, .. })));
    assert_eq!(store.count().unwrap(), 5);
}

/// Other programs may read, vacuum and checkpoint a store; a writer goes on.
#[test]
fn neighbours_that_read_vacuum_and_checkpoint_do_not_disturb_a_writer() {
    let all = corpus(12);
    let folder = Folder::new();
    let mut store = folder.filled(&all[..3]);
    for cert in &all[3..] {
        let other = Connection::open(folder.path()).unwrap();
        other.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
        let _: i64 = other.query_row("SELECT count(*) FROM cert", [], |row| row.get(0)).unwrap();
        other.execute_batch("VACUUM").unwrap();
        drop(other);
        let mut second = Store::open(&folder.path(), Access::Write).unwrap();
        assert_eq!(add(&mut second, std::slice::from_ref(cert)).unwrap(), 1);
        drop(second);
        assert_eq!(add(&mut store, std::slice::from_ref(cert)).unwrap(), 1);
    }
    assert_eq!(store.count().unwrap(), 12);
}

/// The lengths that SQLite gives then are equal, and mean nothing.
#[test]
fn a_log_that_another_connection_copies_does_not_count_as_copied() {
    let folder = Folder::new();
    let store = folder.filled(&corpus(5));
    assert!(store.copy_log().unwrap());
    let writer = Connection::open(folder.path()).unwrap();
    writer.execute_batch("BEGIN IMMEDIATE").unwrap();
    std::thread::scope(|scope| {
        let neighbour = scope.spawn(|| {
            let other = Connection::open(folder.path()).unwrap();
            other.busy_timeout(Duration::from_secs(60)).unwrap();
            // It has the lock for copying, and waits for the writer, as soon as it comes between
            // two copies of ours.
            let mut is_busy = true;
            while is_busy {
                let sql = "PRAGMA wal_checkpoint(FULL)";
                is_busy = other.query_row(sql, [], |row| row.get(0)).unwrap();
            }
        });
        while store.copy_log().unwrap() {
            assert!(!neighbour.is_finished());
            std::thread::sleep(Duration::from_millis(1));
        }
        writer.execute_batch("ROLLBACK").unwrap();
        neighbour.join().unwrap();
    });
    assert!(store.copy_log().unwrap());
}

#[test]
fn opening_restores_the_write_ahead_log_mode() {
    let folder = Folder::new();
    drop(folder.filled(&corpus(5)));
    Connection::open(folder.path()).unwrap().pragma_update(None, "journal_mode", "DELETE").unwrap();
    assert_eq!(journal_mode(&folder.path()), "delete");
    drop(Store::open(&folder.path(), Access::Read).unwrap());
    assert_eq!(journal_mode(&folder.path()), "delete");
    let store = Store::open(&folder.path(), Access::Write).unwrap();
    assert_eq!(journal_mode(&folder.path()), "wal");
    assert_clean(&store);
}

/// A command was killed while it wrote, and left changed pages and the journal for the rollback.
#[test]
fn a_reader_rolls_back_a_leftover_journal() {
    let folder = Folder::new();
    let store = folder.filled(&corpus(200));
    let before = contents(&store);
    drop(store);
    let killed = folder.folder().join("killed.db");
    let connection = Connection::open(folder.path()).unwrap();
    connection
        .execute_batch(
            "PRAGMA journal_mode = DELETE; PRAGMA cache_size = 1; BEGIN IMMEDIATE; \
             UPDATE blob SET bytes = zeroblob(length(bytes))",
        )
        .unwrap();
    for suffix in ["", "-journal"] {
        let of = |path: &Path| format!("{}{suffix}", path.display());
        fs::copy(of(&folder.path()), of(&killed)).unwrap();
    }
    drop(connection);
    let damaged = fs::read(&killed).unwrap() != fs::read(folder.path()).unwrap();
    assert!(damaged, "the transaction has written nothing yet");
    let store = Store::open(&killed, Access::Read).unwrap();
    assert_eq!(contents(&store), before);
    assert_clean(&store);
}

/// Locks on a file, as the system lists them. While other processes lock and unlock, a list can
/// miss some or have some twice, so the most different ones of several lists count.
fn locks(path: &Path) -> usize {
    let inode = format!(":{} ", fs::metadata(path).unwrap().ino());
    let count = || {
        let listed = fs::read_to_string("/proc/locks").unwrap();
        let of_file = listed.lines().filter(|line| line.contains(&inode));
        // Without the number of the line.
        let locks =
            of_file.filter_map(|line| line.split_once(": ").map(|(_, lock)| lock.to_owned()));
        locks.collect::<BTreeSet<_>>().len()
    };
    (0..50).map(|_| count()).max().unwrap()
}

#[test]
fn reading_the_kind_of_a_store_drops_no_lock() {
    let folder = Folder::new();
    let store = folder.filled(&corpus(5));
    assert_eq!(store.count().unwrap(), 5);
    assert!(locks(&folder.path()) > 0, "the store is open and not locked");
    for _ in 0..3 {
        assert_eq!(file_kind(&folder.path()).unwrap(), FileKind::Store);
        // All locks would go at once.
        assert!(locks(&folder.path()) > 0);
    }
    // Closing a descriptor drops the locks.
    drop(File::open(folder.path()).unwrap());
    assert_eq!(locks(&folder.path()), 0);
}
