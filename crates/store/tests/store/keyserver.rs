//! The guarantees of a store for a keyserver, tested with the real engine in a temporary directory.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::common::{
    Folder, NOW, assert_clean, cert_id, contents, corpus, make_format_7, make_format_8, part, seal,
};
use proptest::prelude::*;
use rusqlite::Connection;
use talaria_cert::{Address, Cert, Limits, PacketRef, Tag, Verdict, Verification, View};
use talaria_store::{
    Access, BuildOptions, Builder, ChangeNumber, Depth, GivenUp, IngestOutcome, IngestRefusal,
    Peer, Position, Query, Redaction, Return, Store, StoreError, TextIndex, UNOBTAINABLE_MAX,
    Unobtainable,
};

const OTHER: View = View::Hockeypuck23;

/// The certificate with packets appended.
pub(crate) fn with_packets(cert: &Cert, packets: &[(Tag, Vec<u8>)]) -> Cert {
    let mut raw = cert.as_bytes().to_vec();
    for (tag, body) in packets {
        raw.extend([0xc0 | tag.0, 255]);
        raw.extend(u32::try_from(body.len()).unwrap().to_be_bytes());
        raw.extend_from_slice(body);
    }
    Cert::parse(&raw).unwrap()
}

/// A forged version 3 signature.
fn forged(kind: u8, created: u32, signer: u64, number: u32) -> (Tag, Vec<u8>) {
    let mut body = vec![3, 5, kind];
    body.extend(created.to_be_bytes());
    body.extend(signer.to_be_bytes());
    body.extend([1, 8, 0, 0, 0, 32]);
    body.extend(number.to_be_bytes());
    (Tag::SIGNATURE, body)
}

fn user_id(text: &str) -> (Tag, Vec<u8>) {
    (Tag::USER_ID, text.as_bytes().to_vec())
}

/// Certificates with only the signatures of their owners.
fn own(count: u64) -> Vec<Cert> {
    let good = |cert: &Cert| {
        let id = cert.fingerprint().key_id();
        cert.retain(|_, packet| {
            packet.tag != Tag::SIGNATURE
                || talaria_cert::Signature::parse(packet.body).is_some_and(|s| s.names(id))
        })
    };
    corpus(count).iter().map(good).collect()
}

/// The number of a certificate in the file.
fn number_of(connection: &Connection, cert: &Cert) -> i64 {
    let fingerprint = cert.fingerprint().to_stored();
    let sql = "SELECT id FROM cert WHERE fingerprint = ?1";
    connection.query_row(sql, [fingerprint], |row| row.get(0)).unwrap()
}

/// Checks that every digest of a store belongs to a certificate and finds it.
fn assert_digests(store: &Store) {
    for view in store.digests().views().unwrap() {
        let mut found = BTreeSet::new();
        store.digests().for_each(view, |digest, id| assert!(found.insert((digest, id)))).unwrap();
        let mut expected = BTreeSet::new();
        for name in contents(store).into_keys() {
            let id = store.row(name).unwrap().unwrap().id;
            let stored = store.stored(id).unwrap().unwrap();
            if let Some(digest) = view.digest(&stored.cert, &stored.verdicts) {
                expected.insert((digest, id));
                assert_eq!(store.digests().find(digest).unwrap().map(|(_, id)| id), Some(id));
                assert!(store.digests().of(id).unwrap().contains(&(view, digest)));
            }
        }
        assert_eq!(found, expected, "{view:?}");
    }
}

fn found(store: &Store, search: &str) -> usize {
    store.select(&search.parse::<Query>().unwrap(), 100).unwrap().rows.len()
}

fn owned((peer, digest, tries): (&str, u8, u32)) -> (String, u8, u32) {
    (peer.to_owned(), digest, tries)
}

/// Peer, first byte of the digest, and tries of what peers did not deliver.
fn given_up(store: &Store) -> Vec<(String, u8, u32)> {
    let mut all = Vec::new();
    let visit = |given_up: GivenUp| {
        all.push((given_up.peer, given_up.digest[0], given_up.attempts.tries));
        Ok::<(), StoreError>(())
    };
    store.keyserver().for_each_given_up(visit).unwrap();
    all
}

/// Any peer can announce any number of digests.
#[test]
fn what_peers_fail_to_deliver_is_bounded_and_marked_in_time_that_does_not_grow() {
    let mut store = Store::in_memory(Path::new("memory")).unwrap();
    let digest = |n: i64| -> [u8; 16] { (i128::from(n) << 64).to_be_bytes() };
    let mut mark = |from: i64, count: i64| {
        let digests: Vec<[u8; 16]> = (from..from + count).map(digest).collect();
        let start = std::time::Instant::now();
        let mut keyserver = store.keyserver_mut();
        keyserver.mark_unobtainable("a:1", View::Sks, &digests, 1, NOW.into()).unwrap();
        start.elapsed()
    };
    mark(0, UNOBTAINABLE_MAX);
    // A mark of the first one makes it the newest.
    mark(0, 1);
    let full: std::time::Duration = (0..100).map(|n| mark(UNOBTAINABLE_MAX + n, 1)).sum();
    let keyserver = store.keyserver();
    assert_eq!(keyserver.unobtainable_count().unwrap(), UNOBTAINABLE_MAX.cast_unsigned());
    let is_marked =
        |n| keyserver.unobtainable("a:1", View::Sks, digest(n)).unwrap().map(|marked| marked.tries);
    assert_eq!(is_marked(0), Some(2));
    assert_eq!(is_marked(100), None, "the oldest has gone");
    assert_eq!(is_marked(101), Some(1));
    assert_eq!(is_marked(UNOBTAINABLE_MAX + 99), Some(1));
    // A count of all rows takes longer for each.
    assert!(full < std::time::Duration::from_millis(200), "{full:?} for 100 marks");
}

#[test]
fn a_certificate_that_came_from_elsewhere_is_not_listed_as_given_up() {
    let folder = Folder::new();
    let mut store = folder.store();
    let cert = corpus(1).swap_remove(0);
    let digest = cert.sks_digest();
    for peer in ["a:1", "b:1"] {
        let digests = [digest, [7; 16]];
        let mut keyserver = store.keyserver_mut();
        keyserver.mark_unobtainable(peer, View::Sks, &digests, 1, NOW.into()).unwrap();
    }
    assert_eq!((given_up(&store).len(), store.keyserver().unobtainable_count().unwrap()), (4, 4));
    store.ingest(vec![cert.clone()], Verification::Full, NOW.into()).unwrap();
    let left = [("a:1", 7, 1), ("b:1", 7, 1)].map(owned);
    assert_eq!(
        (given_up(&store), store.keyserver().unobtainable_count().unwrap()),
        (left.into(), 2)
    );
    // Without the certificate, nobody has delivered it.
    store.delete(&[cert.fingerprint()], Return::Allowed, NOW.into()).unwrap();
    assert_eq!(given_up(&store).len(), 4);
}

/// Converts a store to format 1: the reverse of the migration.
fn make_format_1(path: &Path) {
    let connection = Connection::open(path).unwrap();
    make_format_7(&connection);
    connection
        .execute_batch(
            "BEGIN;
             DROP TABLE checksum; DROP TABLE set_aside; DROP INDEX published_email;
             ALTER TABLE digest RENAME TO digest_2;
             CREATE TABLE digest (digest BLOB, cert INTEGER, PRIMARY KEY (digest, cert)) WITHOUT ROWID;
             INSERT INTO digest SELECT digest, cert FROM digest_2 WHERE view = 0;
             DROP TABLE digest_2;
             DROP TABLE peer; DROP TABLE redaction; DROP TABLE published; DROP TABLE unobtainable;
             DROP TABLE tally; DROP TABLE binding; DROP TABLE verified; DROP TABLE encrypted;
             DROP TABLE trust; DROP TABLE introducer; DROP TABLE certifier;
             DELETE FROM meta WHERE name IN ('views', 'secret', 'trust');
             ALTER TABLE cert DROP COLUMN verifier;
             PRAGMA user_version = 1;
             COMMIT;",
        )
        .unwrap();
}

#[test]
fn opening_migrates_format_1() {
    let all = corpus(60);
    for access in [Access::Write, Access::Create] {
        let folder = Folder::new();
        let mut store = folder.filled(&all);
        store.web_mut().set_ownertrust(&[(all[0].fingerprint(), 5)], NOW.into()).unwrap();
        store.delete(&[all[1].fingerprint()], Return::Blocked, NOW.into()).unwrap();
        let before = (
            contents(&store),
            store.name().unwrap(),
            store.log().last().unwrap(),
            store.web().ownertrusts().unwrap(),
            store.log().tombstones(ChangeNumber::START).unwrap(),
        );
        drop(store);
        make_format_1(&folder.path());
        let store = Store::open(&folder.path(), access).unwrap();
        let after = (
            contents(&store),
            store.name().unwrap(),
            store.log().last().unwrap(),
            store.web().ownertrusts().unwrap(),
            store.log().tombstones(ChangeNumber::START).unwrap(),
        );
        assert_eq!(before, after);
        assert_eq!(store.digests().views().unwrap(), [View::Sks]);
        assert_digests(&store);
        assert_clean(&store);
        drop(store);
        // The migration is permanent.
        let mut store = Store::open(&folder.path(), Access::Write).unwrap();
        store.digests_mut().add_view(OTHER).unwrap();
        store.ingest(all.clone(), Verification::Full, NOW.into()).unwrap();
        assert_digests(&store);
        assert_clean(&store);
    }
}

/// Converts a store to format 2, which had no trust tables.
fn make_format_2(path: &Path) {
    let connection = Connection::open(path).unwrap();
    make_format_7(&connection);
    connection
        .execute_batch(
            "BEGIN;
             DROP TABLE checksum; DROP TABLE set_aside; DROP INDEX published_email;
             DROP TABLE binding; DROP TABLE verified; DROP TABLE encrypted;
             DROP TABLE trust; DROP TABLE introducer; DROP TABLE certifier;
             DELETE FROM meta WHERE name = 'trust';
             ALTER TABLE cert DROP COLUMN verifier;
             PRAGMA user_version = 2;
             COMMIT;",
        )
        .unwrap();
}

#[test]
fn opening_migrates_format_2() {
    let all = corpus(60);
    for access in [Access::Write, Access::Create] {
        let folder = Folder::new();
        let mut store = folder.filled(&all);
        store.digests_mut().add_view(OTHER).unwrap();
        store.web_mut().set_ownertrust(&[(all[0].fingerprint(), 6)], NOW.into()).unwrap();
        let standing = |store: &Store| {
            let row = store.row(all[0].fingerprint()).unwrap().unwrap();
            store.web().at(NOW.into()).unwrap().standing(store, row.id).unwrap().map(|s| s.levels)
        };
        let before = (
            contents(&store),
            store.name().unwrap(),
            store.log().last().unwrap(),
            store.web().ownertrusts().unwrap(),
            store.digests().views().unwrap(),
            standing(&store),
        );
        assert!(before.5.is_some());
        drop(store);
        make_format_2(&folder.path());
        let store = Store::open(&folder.path(), access).unwrap();
        let after = (
            contents(&store),
            store.name().unwrap(),
            store.log().last().unwrap(),
            store.web().ownertrusts().unwrap(),
            store.digests().views().unwrap(),
            standing(&store),
        );
        assert!(before == after, "something has changed");
        assert_eq!(before.5, after.5);
        assert_digests(&store);
        assert_clean(&store);
    }
}

/// Converts a store to format 3, which did not have the version of the verifier.
fn make_format_3(path: &Path) {
    let connection = Connection::open(path).unwrap();
    make_format_7(&connection);
    connection
        .execute_batch(
            "BEGIN; DROP TABLE checksum; DROP TABLE set_aside; DROP INDEX published_email;
             ALTER TABLE cert DROP COLUMN verifier; PRAGMA user_version = 3; COMMIT;",
        )
        .unwrap();
}

#[test]
fn opening_migrates_format_3() {
    let all = corpus(60);
    for access in [Access::Write, Access::Create] {
        let folder = Folder::new();
        let mut store = folder.filled(&all);
        store.digests_mut().add_view(OTHER).unwrap();
        store.web_mut().set_ownertrust(&[(all[0].fingerprint(), 6)], NOW.into()).unwrap();
        store.operator_mut().drop_index(TextIndex::Trigrams).unwrap();
        let state = |store: &Store| {
            let row = store.row(all[0].fingerprint()).unwrap().unwrap();
            let levels = store
                .web()
                .at(NOW.into())
                .unwrap()
                .standing(store, row.id)
                .unwrap()
                .map(|s| s.levels);
            (
                contents(store),
                store.name().unwrap(),
                store.log().last().unwrap(),
                store.web().ownertrusts().unwrap(),
                store.digests().views().unwrap(),
                TextIndex::ALL.map(|index| store.has_index(index).unwrap()),
                levels.unwrap(),
            )
        };
        let before = state(&store);
        drop(store);
        make_format_3(&folder.path());
        let store = Store::open(&folder.path(), access).unwrap();
        assert!(before == state(&store), "something has changed");
        assert_digests(&store);
        assert_clean(&store);
    }
}

/// The verifier of format 3 accepted some bad signatures, rejected some good ones, and knew fewer
/// algorithms. A migration computes these verdicts again, and logs the changed certificates.
#[test]
fn a_migration_recomputes_verdicts_that_an_old_verifier_got_wrong() {
    let all = corpus(60);
    for wrong in [Verdict::Good, Verdict::Bad, Verdict::Unsupported] {
        let folder = Folder::new();
        let mut store = folder.filled(&all);
        store.digests_mut().add_view(OTHER).unwrap();
        let last = store.log().last().unwrap();
        let mut expected = BTreeSet::new();
        let connection = Connection::open(folder.path()).unwrap();
        for cert in &all {
            let id = store.row(cert.fingerprint()).unwrap().unwrap().id;
            let right = store.stored(id).unwrap().unwrap().verdicts;
            let kind = |packet: PacketRef<'_>| {
                talaria_cert::Signature::parse(packet.body).unwrap().algorithm
            };
            let kinds: Vec<u8> =
                cert.packets().filter(|p| p.tag == Tag::SIGNATURE).map(kind).collect();
            let damaged: Vec<u8> = right
                .iter()
                .zip(kinds)
                .map(|(&verdict, algorithm)| match verdict {
                    Verdict::Good | Verdict::Bad if algorithm == 22 => wrong as u8,
                    Verdict::Good if wrong != Verdict::Good => wrong as u8,
                    verdict => verdict as u8,
                })
                .collect();
            if right.iter().map(|&v| v as u8).ne(damaged.iter().copied()) {
                expected.insert(id);
            }
            let number = number_of(&connection, cert);
            connection
                .execute("UPDATE blob SET verdicts = ?2 WHERE id = ?1", (number, damaged))
                .unwrap();
        }
        drop((connection, store));
        make_format_3(&folder.path());
        let store = Store::open(&folder.path(), Access::Write).unwrap();
        assert_clean(&store);
        assert_digests(&store);
        let mut changed = BTreeSet::new();
        store
            .log()
            .for_each(last, |_, _, id, _| {
                changed.insert(id);
            })
            .unwrap();
        assert_eq!(changed, expected);
        assert_eq!(expected.is_empty(), wrong == Verdict::Good);
    }
}

/// Deferred verification stays deferred: opening a store must not take hours.
#[test]
fn a_migration_leaves_deferred_signatures_deferred() {
    let folder = Folder::new();
    let all = corpus(20);
    let mut store = folder.store();
    store.ingest(all.clone(), Verification::Deferred, NOW.into()).unwrap();
    let verdicts = |store: &Store| -> Vec<Vec<Verdict>> {
        all.iter().map(|cert| store.get(cert.fingerprint()).unwrap().unwrap().verdicts).collect()
    };
    let before = verdicts(&store);
    assert!(before.iter().flatten().any(|&verdict| verdict == Verdict::Unchecked));
    drop(store);
    make_format_3(&folder.path());
    let mut store = Store::open(&folder.path(), Access::Write).unwrap();
    assert_eq!(verdicts(&store), before);
    assert_clean(&store);
    store.verify_unchecked(7, NOW.into()).unwrap();
    assert_eq!(verdicts(&store), verdicts(&Folder::new().filled(&all)));
    assert_clean(&store);
}

/// A migration neither hides damage nor stops at it.
#[test]
fn a_migration_keeps_the_bytes_of_a_damaged_certificate() {
    let folder = Folder::new();
    let all = corpus(20);
    drop(folder.filled(&all));
    make_format_3(&folder.path());
    let connection = Connection::open(folder.path()).unwrap();
    connection.execute("UPDATE blob SET bytes = substr(bytes, 1, 100) WHERE id = 4", []).unwrap();
    drop(connection);
    let store = Store::open(&folder.path(), Access::Write).unwrap();
    // Its row stays, so that a copy can repair it.
    assert_eq!(store.count().unwrap(), 20);
    let report = store.check(Depth::Signatures, |_| {}).unwrap();
    let name = format!("certificate {}", all[3].fingerprint());
    assert!(report.findings.iter().all(|finding| finding.object == name), "{report:?}");
    assert!(!report.is_clean());
    let connection = Connection::open(folder.path()).unwrap();
    let kept: i64 = connection
        .query_row("SELECT length(bytes) FROM blob WHERE id = 4", [], |row| row.get(0))
        .unwrap();
    assert_eq!(kept, 100);
}

/// A release with other verdicts does not report the store of an older one as damaged, and neither
/// does an older release with the store of a newer one.
#[test]
fn verdicts_of_another_verifier_version_are_no_damage() {
    for (verifier, stays) in [(1, false), (200, true)] {
        let folder = Folder::new();
        let all = corpus(40);
        let mut store = folder.filled(&all);
        store.digests_mut().add_view(OTHER).unwrap();
        let right: Vec<_> =
            all.iter().map(|c| store.get(c.fingerprint()).unwrap().unwrap().verdicts).collect();
        let read = |store: &Store| -> Vec<Vec<Verdict>> {
            all.iter().map(|c| store.get(c.fingerprint()).unwrap().unwrap().verdicts).collect()
        };
        let connection = Connection::open(folder.path()).unwrap();
        for (cert, right) in all.iter().zip(&right) {
            let number = number_of(&connection, cert);
            let other: Vec<u8> = right
                .iter()
                .map(|&v| if v == Verdict::Good { Verdict::Unsupported } else { v } as u8)
                .collect();
            connection
                .execute("UPDATE blob SET verdicts = ?2 WHERE id = ?1", (number, other))
                .unwrap();
        }
        connection.execute("UPDATE cert SET verifier = ?1", [verifier]).unwrap();
        seal(&connection);
        let report = store.check(Depth::Signatures, |_| {}).unwrap();
        let damaged = report.findings.iter().any(|finding| finding.what.contains("verdicts"));
        assert!(!damaged, "{report:?}");
        // The same certificate once more.
        let last = store.log().last().unwrap();
        let outcomes = store.ingest(all[..10].to_vec(), Verification::Full, NOW.into()).unwrap();
        assert!(outcomes.iter().all(|outcome| *outcome == IngestOutcome::Unchanged));
        assert_eq!(read(&store)[..10] == right[..10], !stays);
        assert_eq!(store.log().last().unwrap() == last, stays);
        // All of them.
        let completed = store.verify_unchecked(7, NOW.into()).unwrap();
        assert_eq!(completed, if stays { 0 } else { 30 });
        assert_eq!(read(&store) == right, !stays);
        if !stays {
            assert_digests(&store);
            store.rebuild(NOW.into()).unwrap();
            assert_clean(&store);
        }
    }
}

#[test]
fn concurrent_migrations_succeed() {
    let folder = Folder::new();
    drop(folder.filled(&corpus(60)));
    make_format_1(&folder.path());
    thread::scope(|scope| {
        for access in [Access::Write, Access::Create, Access::Write, Access::Create] {
            let path = folder.path();
            scope.spawn(move || {
                let store = Store::open(&path, access).unwrap();
                assert_eq!(store.count().unwrap(), 60);
                assert_digests(&store);
            });
        }
    });
    assert_clean(&folder.store());
}

/// A file that nobody can write.
#[test]
fn a_read_only_store_of_format_1_is_refused() {
    let folder = Folder::new();
    drop(folder.filled(&corpus(3)));
    make_format_1(&folder.path());
    let before = std::fs::read(folder.path()).unwrap();
    let _lock = Connection::open(folder.path()).unwrap();
    let mut permissions = std::fs::metadata(folder.path()).unwrap().permissions();
    permissions.set_readonly(true);
    std::fs::set_permissions(folder.path(), permissions).unwrap();
    if std::fs::OpenOptions::new().append(true).open(folder.path()).is_ok() {
        // The superuser is not refused.
        return;
    }
    match Store::open(&folder.path(), Access::Read) {
        Err(error @ StoreError::Outdated { found: 1, known: 6, .. }) => {
            assert!(error.to_string().contains("has store format 1"));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(std::fs::read(folder.path()).unwrap(), before);
}

#[test]
fn digests_of_all_views_follow_every_write() {
    let folder = Folder::new();
    let all = corpus(80);
    let mut store = folder.store();
    store.digests_mut().add_view(OTHER).unwrap();
    assert_eq!(store.digests().views().unwrap(), [View::Sks, OTHER]);
    let halves: Vec<Cert> = all.iter().map(|cert| part(cert, |at| at % 2 == 0)).collect();
    // Forged signatures are in one view only.
    let id = all[0].fingerprint().key_id().0;
    let noisy = with_packets(&all[0], &[forged(0x18, 9, id, 1)]);
    store.ingest(halves, Verification::Full, NOW.into()).unwrap();
    assert_digests(&store);
    store.ingest(vec![noisy], Verification::Full, NOW.into()).unwrap();
    store.ingest(all.clone(), Verification::Full, NOW.into()).unwrap();
    assert_digests(&store);
    let digests = store.digests().of(cert_id(1)).unwrap();
    assert!(digests.len() < 2 || digests[0].1 != digests[1].1);
    store.replace(part(&all[3], |_| false), NOW.into()).unwrap();
    assert_digests(&store);
    store.delete(&[all[4].fingerprint()], Return::Allowed, NOW.into()).unwrap();
    assert_digests(&store);
    let first = all[5].user_ids().next().unwrap().to_vec();
    store
        .operator_mut()
        .redact(all[5].fingerprint(), &[Redaction::of(&first)], NOW.into())
        .unwrap();
    assert_digests(&store);
    assert_clean(&store);
    assert_eq!(store.digests().find([7; 16]).unwrap(), None);
    store.rebuild(NOW.into()).unwrap();
    assert_digests(&store);
    assert_clean(&store);
}

#[test]
fn a_view_is_added_in_pieces_while_others_write() {
    let all = corpus(1400);
    let (old, new) = all.split_at(1300);
    let folder = Folder::new();
    let mut other = folder.store();
    let id = old[1].fingerprint().key_id().0;
    let shorter: Vec<Cert> = old[..100].iter().map(|cert| part(cert, |at| at < 2)).collect();
    other.ingest([&shorter, &old[100..]].concat(), Verification::Full, NOW.into()).unwrap();
    let mut steps = 0;
    loop {
        // Each step may be the last one of a process.
        let mut store = Store::open(&folder.path(), Access::Write).unwrap();
        let more = store.digests_mut().add_view_step(OTHER).unwrap();
        assert_eq!(store.digests().views().unwrap().contains(&OTHER), !more);
        if !more {
            break;
        }
        // Certificates before and behind the place arrive, grow, change their digest, and go.
        let noisy = with_packets(&old[1200 + steps], &[forged(0x18, 9, id, 1)]);
        let written = vec![new[steps].clone(), old[steps].clone(), old[99 - steps].clone(), noisy];
        other.ingest(written, Verification::Full, NOW.into()).unwrap();
        let gone = [old[300 + steps].fingerprint(), old[1100 + steps].fingerprint()];
        other.delete(&gone, Return::Allowed, NOW.into()).unwrap();
        // An incomplete view is no damage.
        assert_clean(&store);
        steps += 1;
    }
    assert!(steps >= 3, "{steps}");
    assert_digests(&other);
    assert_clean(&other);
    other.ingest(all.clone(), Verification::Full, NOW.into()).unwrap();
    assert_digests(&other);
    assert_clean(&other);
}

#[test]
fn a_view_added_later_has_the_same_digests() {
    let all = corpus(1200);
    let (early, late) = (Folder::new(), Folder::new());
    let mut with = early.store();
    with.digests_mut().add_view(OTHER).unwrap();
    with.ingest(all.clone(), Verification::Full, NOW.into()).unwrap();
    let mut without = late.filled(&all);
    let digests = |store: &Store, view| {
        let mut all = Vec::new();
        store.digests().for_each(view, |digest, id| all.push((digest, id))).unwrap();
        all
    };
    assert_eq!(digests(&without, OTHER), []);
    without.digests_mut().add_view(OTHER).unwrap();
    without.digests_mut().add_view(OTHER).unwrap();
    for view in View::ALL {
        assert_eq!(digests(&with, view), digests(&without, view));
    }
    assert_clean(&without);
    without.digests_mut().drop_view(OTHER).unwrap();
    without.digests_mut().drop_view(View::Sks).unwrap();
    assert_eq!(without.digests().views().unwrap(), [View::Sks]);
    assert_eq!(digests(&without, OTHER), []);
    assert_eq!(digests(&without, View::Sks), digests(&with, View::Sks));
    assert_clean(&without);
}

#[test]
fn a_build_keeps_the_chosen_views_and_that_of_sks() {
    let folder = Folder::new();
    let all = corpus(50);
    let raw: Vec<&[u8]> = all.iter().map(Cert::as_bytes).collect();
    let target = folder.folder().join("built.db");
    let options = |views: &[View]| {
        let mut options = BuildOptions::new(NOW.into());
        options.memory_bytes = 4096;
        options.views = views.to_vec();
        options
    };
    let append = |builder: &mut Builder, options: &BuildOptions, raw: &[&[u8]], offset| {
        let drafts = Builder::prepare(options, raw).into_iter().map(Result::unwrap);
        builder.append(&drafts.collect::<Vec<_>>(), Position { input: 0, offset }).unwrap();
    };
    // A build started for other views does not resume.
    let first = options(&[]);
    let mut builder = Builder::start(&target, "a", first.clone()).unwrap();
    append(&mut builder, &first, &raw[..10], 10);
    drop(builder);
    let second = options(&[OTHER]);
    let mut builder = Builder::start(&target, "a", second.clone()).unwrap();
    assert_eq!(builder.appended(), 0);
    append(&mut builder, &second, &raw[..40], 40);
    drop(builder);
    let mut builder = Builder::start(&target, "a", second.clone()).unwrap();
    assert_eq!(builder.appended(), 40);
    append(&mut builder, &second, &raw[30..], 50);
    builder.finish(|_| {}).unwrap();
    let store = Store::open(&target, Access::Read).unwrap();
    assert_eq!(store.count().unwrap(), 50);
    assert_eq!(store.digests().views().unwrap(), [View::Sks, OTHER]);
    assert_digests(&store);
    assert_clean(&store);
}

/// The content of a view depends on verdicts, so late verdicts change its digests.
#[test]
fn digests_follow_signatures_that_are_verified_later() {
    let folder = Folder::new();
    let mut store = folder.store();
    store.digests_mut().add_view(OTHER).unwrap();
    let noisy: Vec<Cert> = own(20)
        .iter()
        .map(|cert| {
            let id = cert.fingerprint().key_id().0;
            with_packets(cert, &[user_id("~"), forged(0x13, 9, id, 1)])
        })
        .collect();
    store.ingest(noisy, Verification::Deferred, NOW.into()).unwrap();
    assert_digests(&store);
    assert_eq!(store.verify_unchecked(7, NOW.into()).unwrap(), 20);
    assert_digests(&store);
    assert_clean(&store);
}

#[test]
fn running_writers_maintain_a_view_that_another_process_adds() {
    let folder = Folder::new();
    let all = corpus(100);
    let mut store = folder.store();
    thread::scope(|scope| {
        let (all, path) = (&all, folder.path());
        let writer = scope.spawn(move || {
            let mut store = Store::open(&path, Access::Write).unwrap();
            for batch in all.chunks(5) {
                store.ingest(batch.to_vec(), Verification::Full, NOW.into()).unwrap();
                store.delete(&[batch[0].fingerprint()], Return::Allowed, NOW.into()).unwrap();
            }
        });
        while !writer.is_finished() {
            store.digests_mut().add_view(OTHER).unwrap();
            thread::sleep(Duration::from_millis(5));
            store.digests_mut().drop_view(OTHER).unwrap();
            thread::sleep(Duration::from_millis(5));
        }
        store.digests_mut().add_view(OTHER).unwrap();
    });
    assert_eq!(store.count().unwrap(), 80);
    assert_digests(&store);
    assert_clean(&store);
}

/// Limits like those of a keyserver, but smaller.
fn limits() -> Limits {
    Limits {
        packet_bytes: 8 << 10,
        user_id_bytes: 300,
        components: 20,
        own_signatures: 100,
        bad_signatures: 10,
        signatures_per_signer: 2,
        foreign_signatures: 50,
        ..Limits::default()
    }
}

/// A hundred thousand signatures, newer than all others.
fn flood(cert: &Cert, signer: impl Fn(u32) -> u64) -> Cert {
    let of = |n| forged(0x13, u32::MAX - n, signer(n), n);
    let (tag, name) = (Tag::USER_ID, cert.user_ids().next().unwrap().to_vec());
    let packets: Vec<_> = [(tag, name)].into_iter().chain((0..100_000).map(of)).collect();
    with_packets(&cert.retain(|at, _| at == 0), &packets)
}

#[test]
fn a_flood_of_signatures_displaces_no_good_ones() {
    let folder = Folder::new();
    let all = own(3);
    let mut store = folder.store();
    store.operator_mut().set_limits(limits());
    store.ingest(all.clone(), Verification::Full, NOW.into()).unwrap();
    for (cert, by_owner) in [(&all[0], true), (&all[1], false)] {
        let id = cert.fingerprint().key_id().0;
        let flood = flood(cert, |n| if by_owner { id } else { u64::from(n) });
        let started = std::time::Instant::now();
        let outcome = store.ingest(vec![flood.clone()], Verification::Full, NOW.into()).unwrap();
        let first = started.elapsed();
        assert_eq!(outcome, [IngestOutcome::Updated]);
        let stored = store.get(cert.fingerprint()).unwrap().unwrap();
        assert_eq!(stored.cert.union(cert), stored.cert, "nothing of it is lost");
        let more = stored.cert.signature_count() - cert.signature_count();
        assert_eq!(more, if by_owner { 10 } else { 50 });
        let started = std::time::Instant::now();
        let outcome = store.ingest(vec![flood.clone()], Verification::Full, NOW.into()).unwrap();
        println!("a flood (by its owner: {by_owner}): {first:?}, again: {:?}", started.elapsed());
        assert_eq!(outcome, [IngestOutcome::Unchanged]);
    }
    // An earlier flood does not keep later certificates out.
    let cert = &all[2];
    store.delete(&[cert.fingerprint()], Return::Allowed, NOW.into()).unwrap();
    let id = cert.fingerprint().key_id().0;
    store.ingest(vec![flood(cert, |_| id).union(cert)], Verification::Full, NOW.into()).unwrap();
    store.ingest(vec![cert.clone()], Verification::Full, NOW.into()).unwrap();
    let stored = store.get(cert.fingerprint()).unwrap().unwrap();
    assert_eq!(stored.cert.union(cert), stored.cert);
    assert_clean(&store);
}

#[test]
fn unsigned_user_ids_displace_none_of_the_owner() {
    let folder = Folder::new();
    let cert = own(50).into_iter().find(|cert| cert.user_ids().count() > 1).unwrap();
    let last = cert.user_ids().last().unwrap().to_vec();
    let before = cert.retain(|_, packet| packet.body != last);
    let junk: Vec<_> = (0..10_000).map(|n| user_id(&format!("{n:0200}"))).collect();
    let mut store = folder.store();
    store.operator_mut().set_limits(limits());
    store.ingest(vec![before.clone()], Verification::Full, NOW.into()).unwrap();
    let junk = with_packets(&before, &junk);
    store.ingest(vec![junk.clone()], Verification::Full, NOW.into()).unwrap();
    let outcome = store.ingest(vec![junk], Verification::Full, NOW.into()).unwrap();
    assert_eq!(outcome, [IngestOutcome::Unchanged]);
    store.ingest(vec![cert.clone()], Verification::Full, NOW.into()).unwrap();
    let stored = store.get(cert.fingerprint()).unwrap().unwrap().cert;
    assert_eq!(stored.union(&cert), stored);
    assert_eq!(stored.user_ids().count(), cert.user_ids().count() + 20);
    assert_clean(&store);
}

#[test]
fn a_certificate_at_its_limit_accepts_a_revocation() {
    let folder = Folder::new();
    let revokes = |packet: &[u8]| {
        talaria_cert::Signature::parse(packet).is_some_and(|s| matches!(s.kind, 0x20 | 0x28 | 0x30))
    };
    let revoked = own(300)
        .into_iter()
        .find(|cert| cert.packets().any(|p| p.tag == Tag::SIGNATURE && revokes(p.body)));
    let revoked = revoked.unwrap();
    let before = revoked.retain(|_, packet| packet.tag != Tag::SIGNATURE || !revokes(packet.body));
    assert_ne!(before, revoked);
    let mut store = folder.store();
    store.operator_mut().set_limits(limits());
    store.ingest(vec![before.clone()], Verification::Full, NOW.into()).unwrap();
    // Forged signatures arrive first, more than the limit allows.
    let id = before.fingerprint().key_id().0;
    let many: Vec<_> = (0..100_000).map(|n| forged(0x20, u32::MAX, id, n)).collect();
    let flood = with_packets(&before.retain(|at, _| at == 0), &many);
    store.ingest(vec![flood.clone()], Verification::Full, NOW.into()).unwrap();
    let outcome = store.ingest(vec![flood], Verification::Full, NOW.into()).unwrap();
    assert_eq!(outcome, [IngestOutcome::Unchanged]);
    store.ingest(vec![revoked.clone()], Verification::Full, NOW.into()).unwrap();
    let stored = store.get(revoked.fingerprint()).unwrap().unwrap();
    assert_eq!(stored.cert.union(&revoked), stored.cert);
    assert!(stored.verdicts.iter().filter(|&&v| v == Verdict::Bad).count() <= 10);
    // A certificate with more signatures than are looked at is refused, but signatures of others do
    // not count.
    let count = u32::try_from(stored.cert.signature_count()).unwrap();
    store
        .operator_mut()
        .set_limits(Limits { signatures: stored.cert.signature_count() + 5, ..limits() });
    for (signer, outcome) in [
        (7, IngestOutcome::Unchanged),
        (id, IngestOutcome::Refused(IngestRefusal::TooManySignatures)),
    ] {
        let many: Vec<_> = (0..count + 9).map(|n| forged(0x20, n, signer, n)).collect();
        let more = with_packets(&before.retain(|at, _| at == 0), &many);
        let told = store.ingest_counted(vec![more], Verification::Full, NOW.into()).unwrap();
        assert_eq!(told[0].outcome, outcome);
        assert_eq!(told[0].left_out.signatures > 0, signer == 7);
    }
    assert_clean(&store);
}

#[test]
fn replace_removes_the_old_certificate_from_every_index() {
    let folder = Folder::new();
    let cert = own(50).into_iter().find(|cert| cert.user_ids().count() > 1).unwrap();
    let gone = String::from_utf8(cert.user_ids().last().unwrap().to_vec()).unwrap();
    let email = Address::of_user_id(gone.as_bytes()).unwrap().to_string();
    let smaller = cert.retain(|_, packet| packet.body != gone.as_bytes());
    let mut store = folder.filled(std::slice::from_ref(&cert));
    store.digests_mut().add_view(OTHER).unwrap();
    let searches = [format!("={gone}"), format!("<{email}>"), format!("*{gone}"), email.clone()];
    assert!(searches.iter().all(|search| found(&store, search) == 1));
    let token = store.log().last().unwrap();
    assert_eq!(store.replace(smaller.clone(), (NOW + 1).into()).unwrap(), IngestOutcome::Updated);
    assert_eq!(store.get(cert.fingerprint()).unwrap().unwrap().cert, smaller);
    assert!(searches.iter().all(|search| found(&store, search) == 0));
    let mut changes = Vec::new();
    store.log().for_each(token, |_, time, cert, kind| changes.push((time, cert, kind))).unwrap();
    assert_eq!(changes, [((NOW + 1).into(), cert_id(1), 2)]);
    assert_eq!(store.replace(smaller, NOW.into()).unwrap(), IngestOutcome::Unchanged);
    assert_eq!(store.replace(own(1).remove(0), NOW.into()).unwrap(), IngestOutcome::New);
    assert_digests(&store);
    assert_clean(&store);
}

#[test]
fn a_redacted_user_id_stays_out() {
    let revoked = own(300).into_iter().find(|cert| {
        cert.user_ids().count() > 1
            && cert.packets().nth(1).is_some_and(|packet| packet.tag == Tag::SIGNATURE)
    });
    let many = own(50).into_iter().find(|cert| cert.user_ids().count() > 1).unwrap();
    for (cert, all) in [(&many, false), (&many, true), (revoked.as_ref().unwrap_or(&many), true)] {
        let folder = Folder::new();
        let name = cert.fingerprint();
        let revocation = cert.retain(|at, packet| at == 1 && packet.tag == Tag::SIGNATURE);
        let before = cert.retain(|at, packet| at != 1 || packet.tag != Tag::SIGNATURE);
        let mut store = folder.filled(std::slice::from_ref(&before));
        let gone: Vec<String> = before
            .user_ids()
            .take(if all { 9 } else { 1 })
            .map(|user_id| String::from_utf8(user_id.to_vec()).unwrap())
            .collect();
        for user_id in before.user_ids() {
            let email = Address::of_user_id(user_id).unwrap();
            store.keyserver_mut().publish(name, &email, NOW.into()).unwrap();
        }
        let redaction = if all { Redaction::All } else { Redaction::of(gone[0].as_bytes()) };
        let old_digest = store.digests().of(cert_id(1)).unwrap()[0].1;
        assert!(store.operator_mut().redact(name, &[redaction], NOW.into()).unwrap());
        assert!(store.operator().is_redacted(name).unwrap());
        let assert_gone = |store: &Store| {
            let stored = store.get(name).unwrap().unwrap();
            let left: Vec<&[u8]> = stored.cert.user_ids().collect();
            assert_eq!(left.len(), before.user_ids().count() - gone.len());
            assert!(gone.iter().all(|gone| !left.contains(&gone.as_bytes())));
            for user_id in &gone {
                let email = Address::of_user_id(user_id.as_bytes()).unwrap();
                for search in [format!("={user_id}"), format!("<{email}>"), format!("*{user_id}")] {
                    assert_eq!(found(store, &search), 0, "{search}");
                }
                assert!(!store.keyserver().published(name).unwrap().contains(&email));
            }
            assert_eq!(store.keyserver().published(name).unwrap().len(), left.len());
            assert_eq!(store.digests().find(old_digest).unwrap(), None);
            assert_eq!(stored.cert.keys().count(), cert.keys().count());
        };
        assert_gone(&store);
        let outcome = store.ingest(vec![before.clone()], Verification::Full, NOW.into()).unwrap();
        assert_eq!(outcome, [IngestOutcome::Unchanged]);
        assert_gone(&store);
        if revocation.signature_count() > 0 {
            let outcome = store.ingest(vec![revocation], Verification::Full, NOW.into()).unwrap();
            assert_eq!(outcome, [IngestOutcome::Updated]);
            assert_gone(&store);
        }
        assert_clean(&store);
        // The bytes of the file do not contain it either.
        assert!(store.compact(None, Duration::ZERO).unwrap().is_log_empty);
        let bytes = std::fs::read(folder.path()).unwrap();
        for user_id in &gone {
            assert!(!bytes.windows(user_id.len()).any(|window| window == user_id.as_bytes()));
        }
        assert_eq!(store.operator_mut().unredact(name).unwrap(), 1);
        assert!(!store.operator().is_redacted(name).unwrap());
        let outcome = store.ingest(vec![cert.clone()], Verification::Full, NOW.into()).unwrap();
        assert_eq!(outcome, [IngestOutcome::Updated]);
        assert_eq!(store.get(name).unwrap().unwrap().cert, *cert);
        assert_clean(&store);
    }
}

/// A redaction that fails in its last step has not begun.
#[test]
fn a_redaction_is_made_as_a_whole_or_not_at_all() {
    let folder = Folder::new();
    let cert = own(1).remove(0);
    let name = cert.fingerprint();
    let mut store = folder.filled(std::slice::from_ref(&cert));
    let user_ids: Vec<Vec<u8>> = cert.user_ids().map(<[u8]>::to_vec).collect();
    store
        .keyserver_mut()
        .publish(name, &Address::of_user_id(&user_ids[0]).unwrap(), NOW.into())
        .unwrap();
    let faults = rusqlite::Connection::open(folder.path()).unwrap();
    faults
        .execute_batch(
            "CREATE TRIGGER fault BEFORE DELETE ON published BEGIN SELECT RAISE(ABORT, 'a fault'); END",
        )
        .unwrap();
    let redactions: Vec<_> = user_ids.iter().map(|user_id| Redaction::of(user_id)).collect();
    assert!(store.operator_mut().redact(name, &redactions, NOW.into()).is_err());
    assert!(!store.operator().is_redacted(name).unwrap());
    assert_eq!(store.get(name).unwrap().unwrap().cert, cert);
    assert_eq!(store.keyserver().published(name).unwrap().len(), 1);
    faults.execute_batch("DROP TRIGGER fault").unwrap();
    assert!(store.operator_mut().redact(name, &redactions, NOW.into()).unwrap());
    assert_eq!(store.get(name).unwrap().unwrap().cert.user_ids().count(), 0);
    assert!(store.keyserver().published(name).unwrap().is_empty());
    assert_clean(&store);
}

/// A decision must also hold for writers that started before it.
#[test]
fn running_writers_obey_new_redactions_and_blocks() {
    let folder = Folder::new();
    let all = own(120);
    let mut store = folder.store();
    thread::scope(|scope| {
        let (all, path) = (&all, folder.path());
        scope.spawn(move || {
            let mut store = Store::open(&path, Access::Write).unwrap();
            for batch in all.chunks(3) {
                store.ingest(batch.to_vec(), Verification::Full, NOW.into()).unwrap();
            }
        });
        for pair in all.chunks(2) {
            store
                .operator_mut()
                .redact(pair[0].fingerprint(), &[Redaction::All], NOW.into())
                .unwrap();
            store.delete(&[pair[1].fingerprint()], Return::Blocked, NOW.into()).unwrap();
        }
    });
    for pair in all.chunks(2) {
        let redacted = store.get(pair[0].fingerprint()).unwrap().unwrap();
        assert_eq!(redacted.cert.user_ids().count(), 0);
        assert!(store.get(pair[1].fingerprint()).unwrap().is_none());
    }
    assert_clean(&store);
}

#[test]
fn a_certificate_above_its_limit_can_be_redacted() {
    let folder = Folder::new();
    let cert = own(1).remove(0);
    let mut store = folder.filled(std::slice::from_ref(&cert));
    store.operator_mut().set_limits(Limits { signatures: 1, ..limits() });
    assert!(
        store.operator_mut().redact(cert.fingerprint(), &[Redaction::All], NOW.into()).unwrap()
    );
    assert_eq!(store.get(cert.fingerprint()).unwrap().unwrap().cert.user_ids().count(), 0);
    assert_clean(&store);
}

#[test]
fn a_redaction_holds_for_certificates_that_arrive_later() {
    let folder = Folder::new();
    let cert = own(1).remove(0);
    let mut store = folder.store();
    assert!(
        !store.operator_mut().redact(cert.fingerprint(), &[Redaction::All], NOW.into()).unwrap()
    );
    let outcome = store.ingest(vec![cert.clone()], Verification::Full, NOW.into()).unwrap();
    assert_eq!(outcome, [IngestOutcome::New]);
    assert_eq!(store.get(cert.fingerprint()).unwrap().unwrap().cert.user_ids().count(), 0);
    store.replace(cert.clone(), NOW.into()).unwrap();
    assert_eq!(store.get(cert.fingerprint()).unwrap().unwrap().cert.user_ids().count(), 0);
    assert_clean(&store);
}

fn peers() -> [Peer; 2] {
    let peer =
        |host: &str, http_port, view| Peer { host: host.into(), port: 11370, http_port, view };
    [peer("a.example.org", None, View::Sks), peer("b.example.org", Some(80), OTHER)]
}

#[test]
fn the_records_of_a_keyserver_read_back() {
    let folder = Folder::new();
    let all = corpus(2);
    let mut store = folder.store();
    peers().iter().for_each(|peer| store.keyserver_mut().add_peer(peer).unwrap());
    assert_eq!(store.keyserver().peers().unwrap(), peers());
    assert!(store.keyserver_mut().remove_peer("a.example.org", 11370).unwrap());
    assert!(!store.keyserver_mut().remove_peer("a.example.org", 11371).unwrap());
    assert_eq!(store.keyserver().peers().unwrap(), peers()[1..]);

    let (a, b) = (all[0].fingerprint(), all[1].fingerprint());
    let address: Address = "x@example.org".parse().unwrap();
    store.keyserver_mut().publish(a, &address, NOW.into()).unwrap();
    store.keyserver_mut().publish(b, &address, NOW.into()).unwrap();
    assert_eq!(store.keyserver().published(a).unwrap(), []);
    assert_eq!(store.keyserver().published(b).unwrap(), std::slice::from_ref(&address));
    assert!(store.keyserver_mut().unpublish(b, &address, NOW.into()).unwrap());
    assert!(!store.keyserver_mut().unpublish(b, &address, NOW.into()).unwrap());

    let mut mark = |peer: &str, digests: &[[u8; 16]], time: u32| {
        let mut keyserver = store.keyserver_mut();
        keyserver.mark_unobtainable(peer, View::Sks, digests, 1, time.into()).unwrap();
    };
    mark("a:1", &[[1; 16], [2; 16]], NOW);
    mark("a:1", &[[1; 16]], NOW + 1);
    mark("a:12", &[[3; 16]], NOW);
    let expected = Unobtainable { tries: 2, time: (NOW + 1).into() };
    assert_eq!(store.keyserver().unobtainable("a:1", View::Sks, [1; 16]).unwrap(), Some(expected));
    assert_eq!(store.keyserver().unobtainable("a:12", View::Sks, [1; 16]).unwrap(), None);
    assert_eq!(store.keyserver().unobtainable("a:1", OTHER, [1; 16]).unwrap(), None);
    assert_eq!(given_up(&store), [("a:1", 1, 2), ("a:1", 2, 1), ("a:12", 3, 1)].map(owned));
    assert_eq!(store.keyserver_mut().forget_unobtainable("a:1").unwrap(), 2);
    assert_eq!(given_up(&store), [("a:12", 3, 1)].map(owned));
    // What a peer did not deliver goes with it.
    let removed = Peer { host: "a".into(), port: 12, http_port: None, view: View::Sks };
    store.keyserver_mut().add_peer(&removed).unwrap();
    assert!(store.keyserver_mut().remove_peer("a", 12).unwrap());
    assert_eq!(given_up(&store), []);

    store.keyserver_mut().add_to_tally(3, &[("a".into(), 1), ("b".into(), 2)]).unwrap();
    store.keyserver_mut().add_to_tally(3, &[("a".into(), 4)]).unwrap();
    store.keyserver_mut().add_to_tally(2, &[("a".into(), 9)]).unwrap();
    let tally: Vec<_> = store.keyserver().tally(3).unwrap().into_iter().collect();
    assert_eq!(tally, [((3, "a".into()), 5), ((3, "b".into()), 2)]);

    let secret = store.keyserver_mut().secret().unwrap();
    assert_eq!(secret.len(), 64);
    drop(store);
    assert_eq!(folder.store().keyserver_mut().secret().unwrap(), secret);
    assert_ne!(Folder::new().store().keyserver_mut().secret().unwrap(), secret);
    assert_clean(&folder.store());
}

#[test]
fn a_backup_during_writes_is_consistent() {
    let folder = Folder::new();
    let all = corpus(2000);
    drop(folder.filled(&all[..1000]));
    let target = folder.folder().join("backup.db");
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let (all, path, done) = (&all, folder.path(), &done);
        let writer = scope.spawn(move || {
            let mut store = Store::open(&path, Access::Write).unwrap();
            for cert in all[1000..].iter().cycle() {
                if done.load(Ordering::Relaxed) {
                    break;
                }
                store.ingest(vec![cert.clone()], Verification::Full, NOW.into()).unwrap();
                store.delete(&[cert.fingerprint()], Return::Allowed, NOW.into()).unwrap();
            }
        });
        let store = Store::open(&folder.path(), Access::Read).unwrap();
        let mut steps = Vec::new();
        for _ in 0..3 {
            store
                .backup(&target, |pages, total| {
                    // The backup appears only when it is complete.
                    assert!(!target.exists());
                    steps.push((pages, total));
                })
                .unwrap();
            let (pages, total) = *steps.last().unwrap();
            assert_eq!(pages, total);
            let copy = Store::open(&target, Access::Read).unwrap();
            assert!((1000..=1001).contains(&copy.count().unwrap()));
            assert_clean(&copy);
            drop(copy);
            std::fs::remove_file(&target).unwrap();
        }
        done.store(true, Ordering::Relaxed);
        writer.join().unwrap();
    });
    let mut left: Vec<_> = std::fs::read_dir(folder.folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("backup.db"))
        .collect();
    left.retain(|name| name != "backup.db-wal" && name != "backup.db-shm");
    assert_eq!(left, Vec::<String>::new());
}

#[test]
fn a_backup_is_an_independent_store_and_replaces_no_file() {
    let folder = Folder::new();
    let all = corpus(30);
    let mut store = folder.filled(&all);
    peers().iter().for_each(|peer| store.keyserver_mut().add_peer(peer).unwrap());
    let target = folder.folder().join("backup.db");
    // Leftovers of an interrupted backup do not prevent a new one.
    std::fs::write(folder.folder().join("backup.db.partial"), "half").unwrap();
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(folder.path(), private).unwrap();
    store.backup(&target, |_, _| {}).unwrap();
    let mode = std::fs::metadata(&target).unwrap().permissions();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&mode) & 0o777, 0o600);
    assert!(!folder.folder().join("backup.db.partial").exists());
    let before = std::fs::read(&target).unwrap();
    match store.backup(&target, |_, _| {}) {
        Err(StoreError::Io { action: "back up to", source, .. }) => {
            assert_eq!(source.kind(), std::io::ErrorKind::AlreadyExists);
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(std::fs::read(&target).unwrap(), before);
    let mut copy = Store::open(&target, Access::Write).unwrap();
    assert_eq!(contents(&copy), contents(&store));
    assert_eq!(copy.keyserver().peers().unwrap(), peers());
    copy.delete(&[all[0].fingerprint()], Return::Allowed, NOW.into()).unwrap();
    assert_eq!(store.count().unwrap(), 30);
    // The original store can still be written.
    store.delete(&[all[1].fingerprint()], Return::Allowed, NOW.into()).unwrap();
    assert_clean(&store);
    assert_clean(&copy);
    let nowhere = folder.folder().join("missing").join("backup.db");
    assert!(store.backup(&nowhere, |_, _| {}).is_err());
}

/// The same as for the store itself, for the tables of a keyserver.
#[test]
fn check_finds_a_flipped_byte_in_operator_decisions() {
    let folder = Folder::new();
    let all = corpus(4);
    let mut store = folder.filled(&all);
    store.digests_mut().add_view(OTHER).unwrap();
    peers().iter().for_each(|peer| store.keyserver_mut().add_peer(peer).unwrap());
    store
        .keyserver_mut()
        .publish(all[0].fingerprint(), &"owner@example.org".parse().unwrap(), NOW.into())
        .unwrap();
    store.operator_mut().redact(all[1].fingerprint(), &[Redaction::All], NOW.into()).unwrap();
    store
        .operator_mut()
        .redact(all[2].fingerprint(), &[Redaction::of(b"somebody")], NOW.into())
        .unwrap();
    assert!(store.compact(Some(4096), Duration::ZERO).unwrap().is_log_empty);
    drop(store);
    let good = std::fs::read(folder.path()).unwrap();
    let image = |path: &Path| -> Result<String, StoreError> {
        let store = Store::open(path, Access::Read)?;
        let published: Result<Vec<_>, _> =
            all.iter().map(|cert| store.keyserver().published(cert.fingerprint())).collect();
        let redacted: Result<Vec<_>, _> =
            all.iter().map(|cert| store.operator().is_redacted(cert.fingerprint())).collect();
        Ok(format!(
            "{:?} {:?} {published:?} {redacted:?}",
            store.keyserver().peers()?,
            store.digests().views()?
        ))
    };
    let truth = image(&folder.path()).unwrap();
    let flipped = folder.folder().join("flipped.db");
    let mut undetected = Vec::new();
    // All used bytes of the pages of these tables.
    let pages: BTreeSet<i64> = {
        let connection = Connection::open(folder.path()).unwrap();
        let sql = "SELECT rootpage FROM sqlite_schema \
                   WHERE name IN ('peer', 'redaction', 'published', 'meta')";
        let mut statement = connection.prepare(sql).unwrap();
        statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    assert_eq!(pages.len(), 4);
    for page in pages {
        let page = usize::try_from(page - 1).unwrap() * 4096;
        for at in (page..page + 4096).filter(|&at| good[at] != 0) {
            let mut bytes = good.clone();
            bytes[at] ^= 0x10;
            std::fs::write(&flipped, &bytes).unwrap();
            let clean = Store::open(&flipped, Access::Read)
                .and_then(|store| store.check(Depth::Structure, |_| {}))
                .is_ok_and(|report| report.is_clean());
            if clean && image(&flipped).ok().as_ref() != Some(&truth) {
                undetected.push(at);
            }
            for suffix in ["-wal", "-shm"] {
                let _ = std::fs::remove_file(format!("{}{suffix}", flipped.display()));
            }
        }
    }
    assert_eq!(undetected, Vec::<usize>::new());
}

#[derive(Clone, Debug)]
enum Action {
    Ingest { at: usize, odd: bool },
    Replace { at: usize, odd: bool },
    Delete { at: usize },
    Redact { at: usize },
    AddView,
    DropView,
    Rebuild,
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        6 => (0usize..8, any::<bool>()).prop_map(|(at, odd)| Action::Ingest { at, odd }),
        3 => (0usize..8, any::<bool>()).prop_map(|(at, odd)| Action::Replace { at, odd }),
        2 => (0usize..8).prop_map(|at| Action::Delete { at }),
        1 => (0usize..8).prop_map(|at| Action::Redact { at }),
        1 => Just(Action::AddView),
        1 => Just(Action::DropView),
        1 => Just(Action::Rebuild),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// After any operations, a store with views and limits is consistent.
    #[test]
    fn digests_agree_with_the_certificates_after_any_writes(actions in prop::collection::vec(action(), 1..16)) {
        let folder = Folder::new();
        let all = corpus(8);
        let half = |at: usize, odd| part(&all[at], |at| (at % 2 == 1) == odd);
        let mut store = folder.store();
        store.operator_mut().set_limits(Limits { foreign_signatures: 3, bad_signatures: 2, ..limits() });
        for action in actions {
            match action {
                Action::Ingest { at, odd } => {
                    store.ingest(vec![half(at, odd)], Verification::Full, NOW.into()).unwrap();
                }
                Action::Replace { at, odd } => {
                    store.replace(half(at, odd), NOW.into()).unwrap();
                }
                Action::Delete { at } => {
                    store.delete(&[all[at].fingerprint()], Return::Allowed, NOW.into()).unwrap();
                }
                Action::Redact { at } => {
                    store.operator_mut().redact(all[at].fingerprint(), &[Redaction::All], NOW.into()).unwrap();
                }
                Action::AddView => store.digests_mut().add_view(OTHER).unwrap(),
                Action::DropView => store.digests_mut().drop_view(OTHER).unwrap(),
                Action::Rebuild => drop(store.rebuild(NOW.into()).unwrap()),
            }
        }
        assert_digests(&store);
        assert_clean(&store);
    }
}

/// Earlier versions gave Hockeypuck 2.1 the digests of certificates of version 6.
#[test]
fn a_migration_removes_version_6_from_the_view_of_hockeypuck_2_1() {
    let mut key = vec![6, 0x60, 0, 0, 0, 27, 0, 0, 0, 32];
    key.extend([0x40; 32]);
    let later =
        Cert::parse(&[&[0xc6, u8::try_from(key.len()).unwrap()], &key[..]].concat()).unwrap();
    let usual = corpus(1).remove(0);
    let folder = Folder::new();
    let mut store = folder.filled(&[later, usual.clone()]);
    store.digests_mut().add_view(View::Hockeypuck21).unwrap();
    let digests = |store: &Store| {
        let mut all = Vec::new();
        store.digests().for_each(View::Hockeypuck21, |digest, _| all.push(digest)).unwrap();
        all
    };
    let kept = View::Hockeypuck21.digest(&usual, &[]).unwrap();
    assert_eq!(digests(&store), [kept]);
    drop(store);
    let connection = Connection::open(folder.path()).unwrap();
    let insert = "INSERT INTO digest SELECT 2, x'00112233445566778899aabbccddeeff', id FROM cert \
        WHERE substr(fingerprint, 1, 1) = x'06'";
    assert_eq!(connection.execute(insert, []).unwrap(), 1);
    make_format_8(&connection);
    drop(connection);
    let store = folder.store();
    assert_eq!(digests(&store), [kept]);
    assert_clean(&store);
}
