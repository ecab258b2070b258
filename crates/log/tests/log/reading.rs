//! Reading entries on disk again: by identity, along a branch, and as far as a peer lacks them.

use talaria_log::{EntryId, Evidence, Log, LogFolder, Signed};

use crate::files::{create, put, put_batch};
use crate::people::{NOW_MS, Person, offer, set};

fn all(log: &LogFolder) -> Vec<Signed> {
    let mut all = Vec::new();
    log.each(|signed| {
        all.push(signed);
        Ok(())
    })
    .unwrap();
    all
}

/// A log in a folder with entries alone and in batches, and a fork that came from elsewhere.
fn forked(folder: &std::path::Path) -> (LogFolder, Signed) {
    let (log, mut alice) = create(&folder.join("log"), 0);
    let first = put(&log, &mut alice, "first");
    let genesis = all(&log).remove(0);
    let mut older = Log::begin(&genesis).unwrap();
    let fork = alice.make(&mut older, set("fork")).unwrap();
    put_batch(&log, &mut alice, 40);
    put(&log, &mut alice, "last");
    log.append(|log| {
        let offered = offer(log, &[&fork]);
        Ok::<_, talaria_log::LogError>((offered.added, ()))
    })
    .unwrap();
    assert_eq!(log.read(|log| log.forks().len()).unwrap(), 1);
    (log, first)
}

#[test]
fn an_entry_is_read_with_its_proof() {
    let folder = tempfile::tempdir().unwrap();
    let (log, _) = forked(folder.path());
    let wanted = all(&log);
    for signed in &wanted {
        assert_eq!(log.signed(&signed.id).unwrap().as_ref(), Some(signed));
    }
    assert!(log.signed(&EntryId([7; 32])).unwrap().is_none());
    drop(log);
    let log = LogFolder::open(&folder.path().join("log")).unwrap();
    for signed in wanted {
        assert_eq!(log.signed(&signed.id).unwrap(), Some(signed));
    }
}

#[test]
fn a_peer_gets_all_that_it_lacks_behind_its_past() {
    let folder = tempfile::tempdir().unwrap();
    let (log, first) = forked(folder.path());
    let entries = all(&log);
    // Whatever the peer has, it gets the rest, in pieces of any size.
    for heads in [
        vec![],
        vec![entries[0].id],
        vec![first.id],
        vec![entries[20].id],
        vec![entries[20].id, entries[entries.len() - 1].id, EntryId([9; 32])],
    ] {
        for bytes in [1, 3000, 1 << 20] {
            let mut copy = Log::begin(&entries[0]).unwrap();
            let known: Vec<&Signed> = match heads.first() {
                None => Vec::new(),
                Some(head) => {
                    let end = entries.iter().position(|signed| signed.id == *head).unwrap();
                    entries[1..=end].iter().collect()
                }
            };
            offer(&mut copy, &known);
            let mut place = log.catch_up(&heads).unwrap();
            let mut count = 0;
            loop {
                let piece = log.next_lacking(&mut place, bytes).unwrap();
                if piece.is_empty() {
                    break;
                }
                let is_batch = matches!(piece[0].evidence, Evidence::InBatch(..));
                assert!(bytes > 1 || piece.len() == 1 || is_batch);
                count += piece.len();
                copy.offer(piece, NOW_MS);
                assert_eq!(copy.waiting(), 0);
            }
            assert!(copy.len() >= entries.len() - 1);
            let has_fork = heads.len() < 2;
            if has_fork {
                assert_eq!(copy.state_hash(), log.read(Log::state_hash).unwrap());
                assert!(count + known.len() >= entries.len() - 1, "{count}");
            }
            assert!(count < entries.len() || heads.is_empty());
        }
    }
    // The place stays good while the log grows.
    let mut place = log.catch_up(&log.read(Log::heads).unwrap()).unwrap();
    assert!(log.next_lacking(&mut place, 1 << 20).unwrap().is_empty());
    let mut other = Person::new(0, 7);
    let more = put(&log, &mut other, "more");
    let piece = log.next_lacking(&mut place, 1 << 20).unwrap();
    assert_eq!(piece.iter().map(|signed| signed.id).collect::<Vec<_>>(), [more.id]);
}

#[test]
fn a_branch_is_read_behind_a_sequence() {
    let folder = tempfile::tempdir().unwrap();
    let (log, first) = forked(folder.path());
    let entries = all(&log);
    let (fork, last) = (&entries[entries.len() - 1], &entries[entries.len() - 2]);
    let read = |tip: &Signed, behind, bytes| -> Vec<EntryId> {
        let found = log.branch_behind(&tip.id, behind, bytes).unwrap();
        found.into_iter().map(|signed| signed.id).collect()
    };
    // Genesis is in a chain of its own here.
    let main: Vec<EntryId> = entries[1..entries.len() - 1].iter().map(|signed| signed.id).collect();
    assert_eq!(main.len(), 42);
    assert_eq!(read(last, None, usize::MAX), main);
    assert_eq!(read(last, Some(0), usize::MAX), main[1..]);
    assert_eq!(read(last, Some(40), usize::MAX), [last.id]);
    assert_eq!(read(last, Some(41), usize::MAX), []);
    assert_eq!(read(last, None, 1), main[..1]);
    assert_eq!(read(fork, None, usize::MAX), [fork.id]);
    assert_eq!(read(fork, Some(0), usize::MAX), []);
    assert_eq!(read(&first, None, usize::MAX), [first.id]);
}

/// Bytes that changed on disk under an open log are noticed when they are read again.
#[test]
fn a_damaged_frame_is_not_read() {
    use std::os::unix::fs::FileExt as _;
    let folder = tempfile::tempdir().unwrap();
    let (log, _) = forked(folder.path());
    let entries = all(&log);
    let path = folder.path().join("log/segments/00000000");
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    file.write_all_at(b"x", log.bytes() - 1).unwrap();
    let last = entries[entries.len() - 1].id;
    assert!(matches!(log.signed(&last), Err(talaria_log::LogError::Damaged { .. })));
    assert!(log.signed(&entries[3].id).unwrap().is_some());
}

/// One process has a log open at a time, and nobody waits for it without a word.
#[test]
fn a_log_that_is_open_elsewhere_is_said_to_be() {
    let folder = tempfile::tempdir().unwrap();
    let (log, _) = create(&folder.path().join("log"), 0);
    let path = log.path().to_owned();
    assert!(matches!(LogFolder::open(&path), Err(talaria_log::LogError::InUse { .. })));
    let waited = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            let tell = || waited.store(true, std::sync::atomic::Ordering::SeqCst);
            LogFolder::open_when_free(&path, tell).unwrap().id()
        });
        while !waited.load(std::sync::atomic::Ordering::SeqCst) {
            std::thread::yield_now();
        }
        let id = log.id();
        drop(log);
        assert_eq!(other.join().unwrap(), id);
    });
}
