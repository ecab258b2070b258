//! The guarantees of a store, tested with the real engine in a temporary directory.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::Path;
use std::thread;
use std::time::Duration;

use crate::common::{Folder, NOW, assert_clean, contents, corpus, part};
use crate::keyserver::with_packets;
use proptest::prelude::*;
use rusqlite::Connection;
use talaria_cert::{Address, Cert, Fingerprint, Tag, Verification, user_id};
use talaria_store::{
    Access, BuildOptions, Builder, ChangeNumber, Cursor, Depth, IngestOutcome, IngestRefusal,
    Layout, Order, Position, Query, Remedy, Repair, Return, Salvage, Store, StoreError, TextIndex,
};

/// `docs/formats/store.md` has a row for each table and names each column in it.
#[test]
fn the_documentation_has_every_table_and_column() {
    let text = include_str!("../../../../docs/formats/store.md");
    let folder = Folder::new();
    drop(folder.store());
    let connection = Connection::open(folder.path()).unwrap();
    let columns: Vec<(String, String)> = connection
        .prepare(
            "SELECT t.name, c.name FROM sqlite_schema AS t, pragma_table_info(t.name) AS c \
             WHERE t.type = 'table' AND t.name NOT LIKE 'words\\__%' ESCAPE '\\' \
             AND t.name NOT LIKE 'trigrams\\__%' ESCAPE '\\'",
        )
        .unwrap()
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert!(columns.len() > 30);
    for (table, column) in columns {
        let start = text.find(&format!("\n| `{table}` |")).unwrap_or_else(|| panic!("{table}"));
        let rows = text[start + 1..].lines().enumerate();
        let mut rows = rows.take_while(|(at, row)| *at == 0 || row.starts_with("| | "));
        assert!(rows.any(|(_, row)| row.contains(&format!("`{column}`"))), "{table}.{column}");
    }
    let version: i64 =
        connection.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
    assert!(text.starts_with(&format!("# The store file, format {version}\n")));
}

#[test]
fn ingest_merges_and_reports_new() {
    let folder = Folder::new();
    let mut store = folder.store();
    let all = corpus(40);
    let halves: Vec<Cert> = all.iter().map(|cert| part(cert, |at| at % 2 == 0)).collect();
    let first = store.ingest(halves, Verification::Full, NOW.into()).unwrap();
    assert!(first.iter().all(|outcome| *outcome == IngestOutcome::New));
    let again = store.ingest(all.clone(), Verification::Full, NOW.into()).unwrap();
    assert!(again.iter().all(|o| matches!(o, IngestOutcome::Updated | IngestOutcome::Unchanged)));
    assert!(again.contains(&IngestOutcome::Updated));
    let third = store.ingest(all.clone(), Verification::Full, NOW.into()).unwrap();
    assert!(third.iter().all(|outcome| *outcome == IngestOutcome::Unchanged));
    let expected: BTreeMap<_, _> =
        all.iter().map(|cert| (cert.fingerprint(), cert.as_bytes().to_vec())).collect();
    assert_eq!(contents(&store), expected);
    assert_clean(&store);
}

#[test]
fn every_form_of_search_finds_exactly_its_matches() {
    let folder = Folder::new();
    let all = corpus(300);
    let store = folder.filled(&all);
    for indexes in [true, false] {
        if !indexes {
            let mut writer = Store::open(&folder.path(), Access::Write).unwrap();
            TextIndex::ALL
                .iter()
                .for_each(|index| writer.operator_mut().drop_index(*index).unwrap());
            writer.operator_mut().drop_keygrips().unwrap();
            assert!(!store.has_keygrips().unwrap());
        }
        for cert in all.iter().step_by(7) {
            let mut searches = Vec::new();
            for key in cert.keys() {
                let fingerprint = key.fingerprint();
                searches.push(fingerprint.to_string());
                searches.push(fingerprint.key_id().to_string());
                searches.push(format!("0x{:08x}", fingerprint.key_id().short()));
                searches.push(format!("&{}", key.keygrip().unwrap()));
            }
            for user_id in cert.user_ids() {
                let text = std::str::from_utf8(user_id).unwrap();
                let email = Address::of_user_id(user_id).unwrap().to_string();
                let name = text.split(" <").next().unwrap();
                searches.push(format!("={text}"));
                searches.push(format!("<{email}>"));
                searches.push(email.to_uppercase());
                searches.push(format!("@{}", email.split_once('@').unwrap().1));
                searches.push(format!("*{}", name.to_lowercase()));
                searches.push(format!("+{name}"));
                searches.push(name.chars().take(2).collect());
            }
            for search in searches {
                let query: Query = search.parse().unwrap();
                let found = store.select(&query, usize::MAX).unwrap();
                let found: BTreeSet<_> =
                    found.rows.iter().map(|r| r.summary.fingerprint()).collect();
                let expected: BTreeSet<_> = all
                    .iter()
                    .filter(|cert| named_by(&query, cert))
                    .map(Cert::fingerprint)
                    .collect();
                assert!(found.contains(&cert.fingerprint()), "{search}");
                assert_eq!(found, expected, "{search}, indexes: {indexes}");
            }
        }
        let missing: Query = "nobody@nowhere.invalid".parse().unwrap();
        assert!(store.select(&missing, 10).unwrap().rows.is_empty());
    }
    let mut writer = Store::open(&folder.path(), Access::Write).unwrap();
    TextIndex::ALL.iter().for_each(|index| writer.operator_mut().add_index(*index).unwrap());
    writer.operator_mut().add_keygrips().unwrap();
    assert!(store.has_keygrips().unwrap());
    assert_clean(&store);
}

#[test]
fn a_store_without_the_index_of_keygrips_takes_every_kind_of_write() {
    let folder = Folder::new();
    let all = corpus(60);
    let mut layout = Layout::default();
    layout.keygrips = false;
    let mut store = Store::open_with(&folder.path(), Access::Create, &layout).unwrap();
    let halves: Vec<Cert> = all.iter().map(|cert| part(cert, |at| at % 2 == 0)).collect();
    store.ingest(halves, Verification::Full, NOW.into()).unwrap();
    store.ingest(all.clone(), Verification::Full, NOW.into()).unwrap();
    store.delete(&[all[1].fingerprint()], Return::Allowed, NOW.into()).unwrap();
    let damage = Connection::open(folder.path()).unwrap();
    damage.execute("UPDATE blob SET bytes = zeroblob(length(bytes)) WHERE id = 3", []).unwrap();
    let id = store.row(all[2].fingerprint()).unwrap().unwrap().id;
    let repair = store.damage_mut().repair(id, &all[2..3], Salvage::WithCopy, NOW.into()).unwrap();
    assert_eq!(repair, Some(Repair::Restored));
    // A copy with less, for a certificate that nothing proves.
    damage.execute("UPDATE blob SET bytes = zeroblob(length(bytes)) WHERE id = 4", []).unwrap();
    let id = store.row(all[3].fingerprint()).unwrap().unwrap().id;
    let less = [part(&all[3], |at| at % 2 == 0)];
    let repair = store.damage_mut().repair(id, &less, Salvage::WithCopy, NOW.into()).unwrap();
    assert_eq!(repair, Some(Repair::Replaced));
    assert_clean(&store);
    damage.execute_batch("DELETE FROM address; DELETE FROM cert WHERE id = 9").unwrap();
    let report = store.reindex(NOW.into(), |_| ControlFlow::Continue(())).unwrap().unwrap();
    assert!(report.is_clean(), "{report:?}");
    assert_clean(&store);
    assert!(store.rebuild(NOW.into()).unwrap().is_clean());
    assert_clean(&store);
    assert!(!store.has_keygrips().unwrap());
    // It finds keygrips all the same, and with the index just as without.
    let with_key = |store: &Store, cert: &Cert| -> Vec<Fingerprint> {
        let grip = cert.keys().last().unwrap().keygrip().unwrap();
        let found = store.select(&Query::Keygrip(grip.0), 9).unwrap().rows;
        found.iter().map(|row| row.summary.fingerprint()).collect()
    };
    assert_eq!(with_key(&store, &all[0]), [all[0].fingerprint()]);
    assert_eq!(with_key(&store, &all[1]), []);
    store.operator_mut().add_keygrips().unwrap();
    assert_eq!(with_key(&store, &all[0]), [all[0].fingerprint()]);
    assert_eq!(with_key(&store, &all[1]), []);
    assert_clean(&store);
}

/// The same search, evaluated on the certificate itself.
fn named_by(query: &Query, cert: &Cert) -> bool {
    let keys = || cert.keys().map(|key| key.fingerprint());
    let text = |which: &dyn Fn(&str, Option<&str>) -> bool| {
        cert.user_ids().any(|user_id| {
            let email = Address::of_user_id(user_id);
            which(std::str::from_utf8(user_id).unwrap(), email.as_ref().and_then(Address::to_str))
        })
    };
    match query {
        Query::Fingerprint(bytes) => keys().any(|f| f.as_bytes() == bytes),
        Query::KeyId(id) => keys().any(|f| f.key_id() == *id),
        Query::ShortKeyId(id) => keys().any(|f| f.key_id().short() == *id),
        Query::Keygrip(grip) => cert.keys().any(|key| key.keygrip().is_some_and(|k| k.0 == *grip)),
        Query::Exact(exact) => text(&|text, _| text == exact),
        Query::Email(email) => text(&|_, found| found == email.to_str()),
        Query::Identity(identity) => text(&|text, found| {
            [Some(text), found]
                .into_iter()
                .flatten()
                .any(|one| one.to_lowercase() == identity.to_lowercase())
        }),
        Query::EmailPart(part) => text(&|_, found| found.is_some_and(|f| f.contains(part))),
        Query::EmailEnd(end) => text(&|_, found| found.is_some_and(|f| f.ends_with(end))),
        Query::Text(part) | Query::Substring(part) => {
            text(&|text, _| user_id::folded(text).contains(&user_id::folded(part)))
        }
        Query::Words(words) => text(&|text, _| {
            let all: Vec<_> = user_id::words(text).collect();
            words.iter().all(|word| all.contains(word))
        }),
        Query::Spelled(words) => text(&|text, _| {
            let all: Vec<_> = user_id::words(text).collect();
            words.iter().all(|word| word.iter().any(|spelling| all.contains(spelling)))
        }),
    }
}

#[test]
fn a_limited_search_reports_that_there_are_more_hits() {
    let folder = Folder::new();
    let store = folder.filled(&corpus(50));
    let query: Query = ".".parse::<Query>().unwrap_or(Query::EmailPart("@".into()));
    let found = store.select(&query, 10).unwrap();
    assert_eq!((found.rows.len(), found.more), (10, true));
    assert!(!store.select(&query, 50).unwrap().more);
}

#[test]
fn a_walk_resumes_after_a_restart() {
    let folder = Folder::new();
    let all = corpus(2500);
    drop(folder.filled(&all));
    for order in [Order::Insertion, Order::Key, Order::Change] {
        let mut seen = Vec::new();
        let mut place = Cursor::start(order).to_string();
        loop {
            // Only the text of the cursor survives the restart.
            let store = Store::open(&folder.path(), Access::Read).unwrap();
            let mut cursor: Cursor = place.parse().unwrap();
            let before = seen.len();
            store
                .walk(&mut cursor, |row| {
                    seen.push(row.summary.fingerprint());
                    if seen.len() % 611 == 0 {
                        ControlFlow::Break(())
                    } else {
                        ControlFlow::Continue(())
                    }
                })
                .unwrap();
            place = cursor.to_string();
            if seen.len() == before {
                break;
            }
        }
        let mut expected: Vec<_> = all.iter().map(Cert::fingerprint).collect();
        if order == Order::Key {
            expected.sort_unstable();
        }
        assert_eq!(seen, expected, "{order:?}");
    }
}

#[test]
fn the_change_log_has_the_changes_since_a_token() {
    let folder = Folder::new();
    let all = corpus(20);
    let mut store = folder.store();
    store.ingest(all[..10].to_vec(), Verification::Full, NOW.into()).unwrap();
    let token = store.log().last().unwrap();
    assert_eq!(token.get(), 10);
    store.ingest(all[..10].to_vec(), Verification::Full, NOW.into()).unwrap();
    assert_eq!(store.log().last().unwrap(), token, "nothing new is no change");
    store.ingest(all[8..12].to_vec(), Verification::Full, NOW.into()).unwrap();
    store
        .delete(&[all[0].fingerprint(), all[11].fingerprint()], Return::Allowed, NOW.into())
        .unwrap();
    let mut changed = Vec::new();
    store
        .walk(&mut Cursor::Change(token), |row| {
            changed.push(row.summary.fingerprint());
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(changed, [all[10].fingerprint()], "deleted certificates are not among them");
    let gone: Vec<_> =
        store.log().tombstones(token).unwrap().into_iter().map(|t| t.fingerprint).collect();
    assert_eq!(gone, [all[0].fingerprint(), all[11].fingerprint()]);
    store.ingest(all[..1].to_vec(), Verification::Full, NOW.into()).unwrap();
    assert_eq!(store.log().tombstones(token).unwrap().len(), 1, "what came back is not deleted");
    assert!(store.compact(None, Duration::ZERO).unwrap().is_log_empty);
    assert_clean(&store);
    assert_eq!(
        store.log().tombstones(ChangeNumber::START).unwrap().len(),
        1,
        "compacting forgets no deletion"
    );
}

#[test]
fn a_blocked_certificate_stays_out_until_it_is_unblocked() {
    let folder = Folder::new();
    let all = corpus(3);
    let mut store = folder.filled(&all[..2]);
    let names: Vec<_> = all.iter().map(Cert::fingerprint).collect();
    assert_eq!(store.delete(&names[1..], Return::Blocked, NOW.into()).unwrap(), 1);
    let outcomes = store.ingest(all.clone(), Verification::Full, NOW.into()).unwrap();
    let refused = IngestOutcome::Refused(IngestRefusal::Blocked);
    assert_eq!(outcomes, [IngestOutcome::Unchanged, refused, refused]);
    assert_eq!(store.operator_mut().unblock(&names[1..2]).unwrap(), 1);
    let outcomes = store.ingest(all, Verification::Full, NOW.into()).unwrap();
    assert_eq!(outcomes, [IngestOutcome::Unchanged, IngestOutcome::New, refused]);
    assert_clean(&store);
}

#[test]
fn derived_tables_can_be_rebuilt_from_the_certificates() {
    let folder = Folder::new();
    let mut store = folder.filled(&corpus(200));
    store.delete(&[corpus(3)[2].fingerprint()], Return::Allowed, NOW.into()).unwrap();
    let damage = Connection::open(folder.path()).unwrap();
    for (table, statement) in [
        ("cert", "UPDATE cert SET summary = zeroblob(length(summary)) WHERE id = 7"),
        ("cert", "DELETE FROM cert WHERE id = 9"),
        ("key", "DELETE FROM key WHERE cert = 7"),
        ("keygrip", "UPDATE keygrip SET handle = handle + 1 WHERE cert = 8"),
        ("address", "INSERT INTO address VALUES (1, 5)"),
        ("digest", "INSERT INTO digest VALUES (0, zeroblob(16), 5000)"),
        ("words", "INSERT INTO words (words, rowid, text) VALUES ('delete', 5, 'x')"),
        ("trigrams", "INSERT INTO trigrams (rowid, text) VALUES (5, 'intruder')"),
        ("blob", "UPDATE blob SET verdicts = zeroblob(length(verdicts) + 1) WHERE id = 12"),
    ] {
        damage.execute(statement, []).unwrap();
        let report = store.check(Depth::Signatures, |_| {}).unwrap();
        if table != "words" {
            assert!(!report.is_clean(), "{table}: {statement}");
        }
        assert!(
            report.findings.iter().all(|finding| finding.remedy == Remedy::Rebuild),
            "{report:?}"
        );
        store.rebuild(NOW.into()).unwrap();
        assert_clean(&store);
    }
}

#[test]
fn a_store_of_a_newer_format_is_refused_and_unchanged() {
    let folder = Folder::new();
    drop(folder.filled(&corpus(3)));
    Connection::open(folder.path()).unwrap().execute_batch("PRAGMA user_version = 77").unwrap();
    let before = std::fs::read(folder.path()).unwrap();
    for access in [Access::Read, Access::Write, Access::Create] {
        match Store::open(&folder.path(), access) {
            Err(StoreError::Format { path, found: 77, known: talaria_store::FORMAT }) => {
                assert_eq!(path, folder.path());
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(std::fs::read(folder.path()).unwrap(), before);
}

#[test]
fn other_files_are_refused_and_unchanged() {
    let folder = Folder::new();
    Connection::open(folder.path()).unwrap().execute_batch("CREATE TABLE other (x)").unwrap();
    let before = std::fs::read(folder.path()).unwrap();
    for access in [Access::Read, Access::Write, Access::Create] {
        assert!(matches!(Store::open(&folder.path(), access), Err(StoreError::Foreign { .. })));
    }
    assert_eq!(std::fs::read(folder.path()).unwrap(), before);
    let text = folder.folder().join("notes.txt");
    std::fs::write(&text, "just some text, longer than a header of a database would be".repeat(9))
        .unwrap();
    for access in [Access::Read, Access::Create] {
        assert!(matches!(Store::open(&text, access), Err(StoreError::Foreign { .. })));
    }
    let missing = folder.folder().join("missing.db");
    assert!(matches!(Store::open(&missing, Access::Read), Err(StoreError::Missing { .. })));
    assert!(!missing.exists());
}

#[test]
fn a_bulk_build_equals_an_ingest() {
    let folder = Folder::new();
    let all = corpus(500);
    let ingested = folder.filled(&all);
    let target = folder.folder().join("built.db");
    let options = build_options();
    let raw: Vec<&[u8]> = all.iter().map(Cert::as_bytes).collect();
    let mut builder = Builder::start(&target, "a", options.clone()).unwrap();
    // Some certificates come twice, once with fewer packets.
    let partial = part(&all[5], |at| at % 2 == 0);
    let batches = [&raw[..300], &raw[250..], &[partial.as_bytes()]];
    for (number, batch) in batches.into_iter().enumerate() {
        let drafts: Vec<_> =
            Builder::prepare(&options, batch).into_iter().map(Result::unwrap).collect();
        builder.append(&drafts, Position { input: 0, offset: number as u64 + 1 }).unwrap();
    }
    let built = builder.finish(|_| {}).unwrap();
    assert_eq!((built.certs, built.joined), (500, 51));
    let store = Store::open(&target, Access::Read).unwrap();
    assert_eq!(contents(&store), contents(&ingested));
    assert_clean(&store);
    assert!(matches!(Builder::start(&target, "a", options), Err(StoreError::Exists { .. })));
}

#[test]
fn a_build_names_the_copies_that_it_cannot_merge() {
    let folder = Folder::new();
    let target = folder.folder().join("built.db");
    let options = build_options();
    let cert = corpus(1).remove(0);
    // Each copy is small enough, both together are not.
    let copy = |filler: u8| {
        let photos: Vec<_> = (0..3).map(|number| vec![filler + number; 12 << 20]).collect();
        let photos: Vec<_> = photos.into_iter().map(|body| (Tag::USER_ATTRIBUTE, body)).collect();
        with_packets(&cert, &photos)
    };
    let copies = [copy(1), copy(11)];
    let raw: Vec<&[u8]> = copies.iter().map(Cert::as_bytes).collect();
    let mut builder = Builder::start(&target, "inputs", options.clone()).unwrap();
    let drafts: Vec<_> = Builder::prepare(&options, &raw).into_iter().map(Result::unwrap).collect();
    builder.append(&drafts, Position { input: 0, offset: 1 }).unwrap();
    let built = builder.finish(|_| {}).unwrap();
    assert_eq!(built.refused, [(cert.fingerprint(), IngestRefusal::TooLarge)]);
    assert_eq!((built.certs, built.joined, built.refused_count), (1, 0, 1));
    let store = Store::open(&target, Access::Read).unwrap();
    assert_eq!(store.get(cert.fingerprint()).unwrap().unwrap().cert, copies[0]);
}

#[test]
fn an_interrupted_build_resumes() {
    let folder = Folder::new();
    let target = folder.folder().join("built.db");
    let all = corpus(100);
    let options = build_options();
    let raw: Vec<&[u8]> = all.iter().map(Cert::as_bytes).collect();
    let drafts = |part: &[&[u8]]| -> Vec<_> {
        Builder::prepare(&options, part).into_iter().map(Result::unwrap).collect()
    };
    let mut builder = Builder::start(&target, "inputs", options.clone()).unwrap();
    builder.append(&drafts(&raw[..60]), Position { input: 0, offset: 60 }).unwrap();
    drop(builder);
    assert!(!target.exists());
    let mut builder = Builder::start(&target, "inputs", options.clone()).unwrap();
    assert_eq!(builder.position(), Position { input: 0, offset: 60 });
    assert_eq!(builder.appended(), 60);
    builder.append(&drafts(&raw[60..]), Position { input: 0, offset: 100 }).unwrap();
    assert_eq!(builder.finish(|_| {}).unwrap().certs, 100);
    assert_clean(&Store::open(&target, Access::Read).unwrap());
    // Other inputs start from the beginning.
    let other = folder.folder().join("other.db");
    let mut builder = Builder::start(&other, "inputs", options.clone()).unwrap();
    builder.append(&drafts(&raw[..60]), Position { input: 0, offset: 60 }).unwrap();
    drop(builder);
    let builder = Builder::start(&other, "other inputs", options.clone()).unwrap();
    assert_eq!(builder.position(), Position::default());
    drop(builder);
    // So do other indexes.
    let another = folder.folder().join("another.db");
    let mut builder = Builder::start(&another, "inputs", options.clone()).unwrap();
    builder.append(&drafts(&raw[..60]), Position { input: 0, offset: 60 }).unwrap();
    drop(builder);
    let mut fewer = options;
    fewer.layout.keygrips = false;
    fewer.layout.text = vec![TextIndex::Words];
    let builder = Builder::start(&another, "inputs", fewer).unwrap();
    assert_eq!((builder.position(), builder.appended()), (Position::default(), 0));
}

fn build_options() -> BuildOptions {
    let mut options = BuildOptions::new(NOW.into());
    options.memory_bytes = 4096;
    options
}

#[test]
fn deferred_signatures_can_be_verified_later() {
    let folder = Folder::new();
    let all = corpus(50);
    let mut store = folder.store();
    store.ingest(all.clone(), Verification::Deferred, NOW.into()).unwrap();
    let row = store.row(all[0].fingerprint()).unwrap().unwrap();
    assert!(!row.summary.checked);
    assert_eq!(store.verify_unchecked(7, NOW.into()).unwrap(), 50);
    assert_eq!(store.verify_unchecked(7, NOW.into()).unwrap(), 0);
    let other = Folder::new();
    let full = other.filled(&all);
    for cert in &all {
        let ours = store.row(cert.fingerprint()).unwrap().unwrap().summary;
        assert_eq!(ours, full.row(cert.fingerprint()).unwrap().unwrap().summary);
    }
    assert_clean(&store);
}

#[test]
fn concurrent_importers_and_readers_lose_nothing() {
    let folder = Folder::new();
    let all = corpus(400);
    drop(folder.store());
    let path = folder.path();
    thread::scope(|scope| {
        for offset in 0..2 {
            let (all, path) = (&all, &path);
            scope.spawn(move || {
                let mut store = Store::open(path, Access::Write).unwrap();
                // Both write parts of the same certificates, in overlapping batches.
                for batch in all.chunks(13) {
                    let parts =
                        batch.iter().map(|cert| part(cert, |at| at % 2 == offset)).collect();
                    store.ingest(parts, Verification::Full, NOW.into()).unwrap();
                }
            });
        }
        for _ in 0..4 {
            let (all, path) = (&all, &path);
            scope.spawn(move || {
                let store = Store::open(path, Access::Read).unwrap();
                for cert in all.iter().cycle().take(2000) {
                    let Some(stored) = store.get(cert.fingerprint()).unwrap() else { continue };
                    // A stored certificate is always one of the possible unions, never a part.
                    assert_eq!(stored.cert.union(cert), *cert);
                    assert_eq!(stored.verdicts.len(), stored.cert.signature_count());
                }
            });
        }
    });
    let store = folder.store();
    let expected: BTreeMap<_, _> =
        all.iter().map(|cert| (cert.fingerprint(), cert.as_bytes().to_vec())).collect();
    assert_eq!(contents(&store), expected);
    assert_clean(&store);
}

#[test]
fn a_read_only_store_can_be_read() {
    let folder = Folder::new();
    let all = corpus(5);
    drop(folder.filled(&all));
    let mut store = Store::open(&folder.path(), Access::Read).unwrap();
    let refused = store.ingest(all.clone(), Verification::Full, NOW.into());
    assert!(matches!(refused, Err(StoreError::ReadOnly { .. })));
    let refused = store.delete(&[all[0].fingerprint()], Return::Allowed, NOW.into());
    assert!(matches!(refused, Err(StoreError::ReadOnly { .. })));
    assert_eq!(store.count().unwrap(), 5);
}

/// A reader of an older state keeps text in the log. Writers do not wait for it, and the result
/// says so.
#[test]
fn a_snapshot_sees_one_state_until_the_last_guard_is_dropped() {
    let folder = Folder::new();
    let all = corpus(4);
    let mut writer = folder.filled(&all[..1]);
    let mut add = |at: usize| {
        writer.ingest(vec![all[at].clone()], Verification::Full, NOW.into()).unwrap();
    };
    let reader = Store::open(&folder.path(), Access::Read).unwrap();
    let outer = reader.snapshot().unwrap();
    assert_eq!(outer.count().unwrap(), 1);
    add(1);
    // One within another one is a part of it, in whatever order the two end.
    let inner = outer.snapshot().unwrap();
    assert_eq!(inner.count().unwrap(), 1);
    let second = reader.snapshot().unwrap();
    drop(inner);
    drop(outer);
    assert_eq!(second.count().unwrap(), 1);
    drop(second);
    assert_eq!(reader.count().unwrap(), 2);

    let owned = reader.into_snapshot().unwrap();
    assert_eq!(owned.count().unwrap(), 2);
    add(2);
    assert_eq!(owned.count().unwrap(), 2);
    assert_eq!(owned.end().unwrap().count().unwrap(), 3);

    // Within a change, a snapshot sees the change and does not end it.
    let seen = writer.atomically::<_, StoreError>(|store| {
        store.ingest(vec![all[3].clone()], Verification::Full, NOW.into())?;
        let count = store.snapshot()?.count()?;
        store.delete(&[all[0].fingerprint()], Return::Allowed, NOW.into())?;
        Ok((count, store.snapshot()?.count()?))
    });
    assert_eq!(seen.unwrap(), (4, 3));
    assert_eq!(writer.count().unwrap(), 3);
}

#[test]
fn a_compaction_that_waits_for_a_reader_stops_nobody() {
    let folder = Folder::new();
    let all = corpus(60);
    let mut store = folder.filled(&all[..20]);
    let user_id = all[0].user_ids().next().unwrap().to_vec();
    let has_text = || {
        ["", "-wal"].iter().any(|suffix| {
            let path = format!("{}{suffix}", folder.path().display());
            let bytes = std::fs::read(path).unwrap_or_default();
            bytes.windows(user_id.len()).any(|window| window == user_id)
        })
    };
    let reader = Store::open(&folder.path(), Access::Read).unwrap();
    let snapshot = reader.snapshot().unwrap();
    assert_eq!(snapshot.count().unwrap(), 20);
    store.delete(&[all[0].fingerprint()], Return::Allowed, NOW.into()).unwrap();
    let mut writer = Store::open(&folder.path(), Access::Write).unwrap();
    let (compacted, written) = thread::scope(|scope| {
        let compaction = scope.spawn(|| store.compact(None, Duration::from_secs(2)).unwrap());
        let mut written = 0;
        while !compaction.is_finished() {
            let cert = all[20 + written % 40].clone();
            writer.ingest(vec![cert], Verification::Full, NOW.into()).unwrap();
            written += 1;
        }
        (compaction.join().unwrap(), written)
    });
    assert!(!compacted.is_log_empty && has_text());
    assert!(written > 20, "{written} changes while the compaction waited");
    drop(snapshot);
    let compacted = store.compact(None, Duration::from_secs(60)).unwrap();
    assert!(compacted.is_log_empty && !has_text());
    // A change of the page size makes the log again.
    drop((reader, writer));
    assert!(store.compact(Some(8192), Duration::ZERO).unwrap().is_log_empty);
    store.ingest(all[..1].to_vec(), Verification::Full, NOW.into()).unwrap();
    assert_clean(&store);
}

/// Flips bytes of a small store one by one (a sample of them): either the check finds it, or
/// the store still has the same content.
#[test]
fn check_finds_every_flipped_byte_that_matters() {
    let folder = Folder::new();
    let all = corpus(12);
    let mut store = folder.filled(&all);
    store.web_mut().set_ownertrust(&[(all[0].fingerprint(), 5)], NOW.into()).unwrap();
    store.delete(&[all[1].fingerprint()], Return::Blocked, NOW.into()).unwrap();
    assert!(store.compact(Some(4096), Duration::ZERO).unwrap().is_log_empty);
    drop(store);
    let good = std::fs::read(folder.path()).unwrap();
    let truth = image(&folder.path()).unwrap();
    let flipped = folder.folder().join("flipped.db");
    let mut undetected = Vec::new();
    for at in (0..good.len()).step_by(talaria_needs::short_or_full(373, 37)).chain(0..100) {
        let mut bytes = good.clone();
        bytes[at] ^= 0x10;
        std::fs::write(&flipped, &bytes).unwrap();
        let clean = Store::open(&flipped, Access::Read)
            .and_then(|store| store.check(Depth::Signatures, |_| {}))
            .is_ok_and(|report| report.is_clean());
        if clean && image(&flipped).ok().as_ref() != Some(&truth) {
            undetected.push(at);
        }
        for suffix in ["-wal", "-shm"] {
            let _ = std::fs::remove_file(format!("{}{suffix}", flipped.display()));
        }
    }
    assert_eq!(undetected, Vec::<usize>::new());
}

/// All content that a store can return.
fn image(path: &Path) -> Result<String, StoreError> {
    let store = Store::open(path, Access::Read)?;
    let mut text = format!(
        "{} {} {:?} {:?}",
        store.name()?,
        store.log().last()?,
        store.web().ownertrusts()?,
        store.log().tombstones(ChangeNumber::START)?
    );
    for order in [Order::Insertion, Order::Key, Order::Change] {
        let mut rows = Vec::new();
        store.walk(&mut Cursor::start(order), |row| {
            rows.push(row);
            ControlFlow::Continue(())
        })?;
        for row in rows {
            let stored = store.stored(row.id)?;
            text.push_str(&format!("{row:?} {stored:?}"));
            let summary = &row.summary;
            let mut searches: Vec<String> =
                summary.keys().map(|key| key.fingerprint.to_string()).collect();
            for user_id in summary.texts() {
                let user_id = String::from_utf8_lossy(user_id);
                searches.extend([
                    format!("={user_id}"),
                    format!("*{user_id}"),
                    format!("+{user_id}"),
                ]);
            }
            for search in searches {
                let found = store.select(&search.parse().unwrap(), 10)?;
                let found: Vec<_> = found.rows.iter().map(|row| row.id).collect();
                text.push_str(&format!("{search} {found:?}"));
            }
        }
    }
    Ok(text)
}

#[derive(Clone, Debug)]
enum Action {
    Ingest { first: usize, count: usize, odd: bool },
    Delete { at: usize },
    Compact,
    Reopen,
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        6 => (0usize..30, 1usize..8, any::<bool>())
            .prop_map(|(first, count, odd)| Action::Ingest { first, count, odd }),
        3 => (0usize..30).prop_map(|at| Action::Delete { at }),
        1 => Just(Action::Compact),
        1 => Just(Action::Reopen),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// After any operations, a store has the content of a map of unions.
    #[test]
    fn a_store_behaves_like_a_map_of_unions(actions in prop::collection::vec(action(), 1..16)) {
        let folder = Folder::new();
        let all = corpus(38);
        let mut store = folder.store();
        let mut model: BTreeMap<Fingerprint, Cert> = BTreeMap::new();
        for action in actions {
            match action {
                Action::Ingest { first, count, odd } => {
                    let parts: Vec<Cert> = all[first..first + count]
                        .iter()
                        .map(|cert| part(cert, |at| (at % 2 == 1) == odd))
                        .collect();
                    store.ingest(parts.clone(), Verification::Full, NOW.into()).unwrap();
                    for cert in parts {
                        model
                            .entry(cert.fingerprint())
                            .and_modify(|ours| *ours = ours.union(&cert))
                            .or_insert(cert);
                    }
                }
                Action::Delete { at } => {
                    let name = all[at].fingerprint();
                    let there = model.remove(&name).is_some();
                    let deleted = store.delete(&[name], Return::Allowed, NOW.into()).unwrap();
                    prop_assert_eq!(deleted, u64::from(there));
                }
                Action::Compact => assert!(store.compact(None, Duration::ZERO).unwrap().is_log_empty),
                Action::Reopen => store = folder.store(),
            }
        }
        let expected: BTreeMap<_, _> =
            model.iter().map(|(name, cert)| (*name, cert.as_bytes().to_vec())).collect();
        prop_assert_eq!(contents(&store), expected);
        assert_clean(&store);
    }
}
