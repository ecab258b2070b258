//! Damage to the bytes of certificates: it is noticed, named, never made permanent, and repaired
//! with copies.

use rusqlite::Connection;
use talaria_cert::{Cert, Fingerprint, Verification, View};
use talaria_store::{
    Access, Depth, GivenUp, IngestOutcome, IngestRefusal, Query, Redaction, Remedy, Repair, Return,
    Salvage, Share, Store, StoreError, TextIndex,
};

use crate::common::{
    Folder, NOW, assert_clean, cert_id, contents, corpus, make_format_5, make_format_7, part,
    set_meta,
};

/// Pseudo-random numbers, the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }
}

fn bytes_of(connection: &Connection, id: i64) -> Vec<u8> {
    connection.query_row("SELECT bytes FROM blob WHERE id = ?1", [id], |row| row.get(0)).unwrap()
}

fn set_bytes(connection: &Connection, id: i64, bytes: &[u8]) {
    connection.execute("UPDATE blob SET bytes = ?2 WHERE id = ?1", (id, bytes)).unwrap();
}

/// Flips one bit in the certificate with number `id`.
fn flip(connection: &Connection, id: i64, numbers: &mut Numbers) -> Vec<u8> {
    let mut bytes = bytes_of(connection, id);
    let at = numbers.below(bytes.len());
    bytes[at] ^= 1 << numbers.below(8);
    set_bytes(connection, id, &bytes);
    bytes
}

/// Makes the store one of format 4.
fn make_format_4(connection: &Connection) {
    make_format_5(connection);
    connection
        .execute_batch(
            "DROP TABLE checksum; DROP TABLE set_aside; DROP INDEX published_email;
             PRAGMA user_version = 4;",
        )
        .unwrap();
}

#[test]
fn a_certificate_whose_bytes_are_gone_is_damaged_and_not_deleted() {
    let folder = Folder::new();
    let all = corpus(5);
    let mut store = folder.filled(&all);
    let id = cert_id(1);
    let name = store.fingerprint(id).unwrap().unwrap();
    let damage = Connection::open(folder.path()).unwrap();
    damage.execute("DELETE FROM blob WHERE id = 1", []).unwrap();
    let lost = |read: Result<Option<_>, StoreError>| {
        let error = read.unwrap_err();
        let StoreError::DamagedCert { fingerprint, .. } = &error else { panic!("{error}") };
        assert_eq!(*fingerprint, Some(name));
    };
    lost(store.stored(id));
    lost(store.get(name));
    // One that an operator deletes is just gone.
    let other = all.iter().map(Cert::fingerprint).find(|other| *other != name).unwrap();
    let other = store.row(other).unwrap().unwrap();
    store.delete(&[other.summary.fingerprint()], Return::Allowed, NOW.into()).unwrap();
    assert!(store.stored(other.id).unwrap().is_none());
}

#[test]
fn a_flipped_bit_is_found_never_accepted_and_repaired_by_an_equal_copy() {
    let folder = Folder::new();
    let all = corpus(12);
    let mut store = folder.filled(&all);
    let before = contents(&store);
    let damage = Connection::open(folder.path()).unwrap();
    let mut numbers = Numbers(1);
    for _ in 0..60 {
        let id = i64::try_from(numbers.below(all.len())).unwrap() + 1;
        let original = Cert::from_canonical(bytes_of(&damage, id)).unwrap();
        let name = original.fingerprint();
        let flipped = flip(&damage, id, &mut numbers);
        // Nothing gives it out.
        match store.stored(cert_id(id)) {
            Err(StoreError::DamagedCert { id: found, fingerprint, .. }) => {
                assert_eq!((found, fingerprint), (cert_id(id), Some(name)));
            }
            other => panic!("{other:?}"),
        }
        for depth in [Depth::Signatures, Depth::Structure, Depth::Checksums] {
            let report = store.check(depth, |_| {}).unwrap();
            assert_eq!(report.count, 1, "{report:?}");
            assert_eq!(report.findings[0].object, format!("certificate {name}"));
            assert!(report.findings[0].remedy == Remedy::Copy);
        }
        // A rebuild changes nothing about it, and says so.
        let last = store.log().last().unwrap();
        let report = store.rebuild(NOW.into()).unwrap();
        assert_eq!((report.certs, report.count), (11, 1), "{report:?}");
        assert_eq!(report.findings[0].object, format!("certificate {name}"));
        assert_eq!(bytes_of(&damage, id), flipped);
        assert_eq!(store.log().last().unwrap(), last);
        assert_eq!(store.check(Depth::Signatures, |_| {}).unwrap().count, 1);
        // It still has its row, so that a copy finds it.
        assert_eq!(store.row(name).unwrap().unwrap().id, cert_id(id));
        let damaged = store.damage().certs(|_| {}).unwrap();
        assert_eq!(damaged.len(), 1);
        assert_eq!((damaged[0].number(), damaged[0].fingerprint), (id, Some(name)));
        assert_eq!(
            store.damage_mut().repair(cert_id(id), &[], Salvage::WithCopy, NOW.into()).unwrap(),
            Some(Repair::NoCopy)
        );
        assert_eq!(bytes_of(&damage, id), flipped);
        let copies = [all[0].clone(), original];
        assert_eq!(
            store.damage_mut().repair(cert_id(id), &copies, Salvage::WithCopy, NOW.into()).unwrap(),
            Some(Repair::Restored)
        );
        assert_clean(&store);
        assert_eq!(contents(&store), before);
        assert_eq!(
            store.damage_mut().repair(cert_id(id), &copies, Salvage::Always, NOW.into()).unwrap(),
            None
        );
    }
    assert!(store.damage().set_aside().unwrap().is_empty());
}

#[test]
fn a_certificate_that_cannot_be_read_keeps_its_bytes_through_a_rebuild() {
    let folder = Folder::new();
    let all = corpus(20);
    let mut store = folder.filled(&all);
    let damage = Connection::open(folder.path()).unwrap();
    let cut = bytes_of(&damage, 4)[..100].to_vec();
    set_bytes(&damage, 4, &cut);
    let report = store.rebuild(NOW.into()).unwrap();
    assert_eq!((report.certs, report.count), (19, 1));
    assert_eq!(bytes_of(&damage, 4), cut);
    assert!(store.row(all[3].fingerprint()).unwrap().is_some());
    assert_eq!(store.check(Depth::Signatures, |_| {}).unwrap().count, 1);
}

#[test]
fn a_different_copy_replaces_a_damaged_certificate_and_its_bytes_are_set_aside() {
    let folder = Folder::new();
    let all = corpus(20);
    let mut store = folder.filled(&all);
    let damage = Connection::open(folder.path()).unwrap();
    // The first half of the packets of the certificate: not equal to the one that was written.
    let copy = part(&all[5], |at| at % 2 == 0);
    assert_ne!(copy, all[5]);
    let mut bytes = bytes_of(&damage, 6);
    let end = bytes.len() - 1;
    bytes[end] ^= 1;
    set_bytes(&damage, 6, &bytes);
    let last = store.log().last().unwrap();
    let repair = store
        .damage_mut()
        .repair(cert_id(6), std::slice::from_ref(&copy), Salvage::WithCopy, NOW.into())
        .unwrap();
    assert_eq!(repair, Some(Repair::Replaced));
    assert_eq!(store.log().last().unwrap(), last.next());
    assert_clean(&store);
    let stored = store.get(all[5].fingerprint()).unwrap().unwrap().cert;
    // The proven part stays, together with the copy, and nothing else comes in.
    assert_eq!(stored.union(&copy), stored);
    assert_eq!(stored.union(&all[5]), all[5]);
    let aside = store.damage().set_aside().unwrap();
    assert_eq!(aside.len(), 1);
    assert_eq!(aside[0].fingerprint, Some(all[5].fingerprint()));
    assert_eq!(store.damage().set_aside_bytes(aside[0].number).unwrap(), Some(bytes));
}

#[test]
fn deleting_a_certificate_deletes_its_set_aside_bytes() {
    let folder = Folder::new();
    let all = corpus(20);
    let mut store = folder.filled(&all);
    let damage = Connection::open(folder.path()).unwrap();
    for id in [4, 5, 6, 7] {
        set_bytes(&damage, id, b"nothing");
        assert_eq!(
            store.damage_mut().repair(cert_id(id), &[], Salvage::Always, NOW.into()).unwrap(),
            Some(Repair::Removed)
        );
    }
    let here = |store: &Store| -> Vec<Option<Fingerprint>> {
        store.damage().set_aside().unwrap().into_iter().map(|aside| aside.fingerprint).collect()
    };
    let name = |at: usize| Some(all[at].fingerprint());
    assert_eq!(here(&store), [name(3), name(4), name(5), name(6)]);
    store.delete(&[all[3].fingerprint()], Return::Allowed, NOW.into()).unwrap();
    assert_eq!(here(&store), [name(4), name(5), name(6)]);
    store.delete(&[all[4].fingerprint()], Return::Blocked, NOW.into()).unwrap();
    assert_eq!(here(&store), [name(5), name(6)]);
    store.operator_mut().redact(all[5].fingerprint(), &[Redaction::All], NOW.into()).unwrap();
    assert_eq!(here(&store), [name(6)]);
    let number = store.damage().set_aside().unwrap()[0].number;
    assert_eq!(store.damage_mut().delete_set_aside(&[number, 99]).unwrap(), 1);
    assert_eq!(store.damage().set_aside_bytes(number).unwrap(), None);
    assert!(here(&store).is_empty());
}

#[test]
fn salvage_keeps_proven_parts_and_removes_the_rest() {
    let folder = Folder::new();
    let all = corpus(20);
    let mut store = folder.filled(&all);
    let damage = Connection::open(folder.path()).unwrap();
    let mut bytes = bytes_of(&damage, 6);
    let end = bytes.len() - 1;
    bytes[end] ^= 1;
    set_bytes(&damage, 6, &bytes);
    set_bytes(&damage, 7, b"nothing");
    assert_eq!(
        store.damage_mut().repair(cert_id(6), &[], Salvage::Always, NOW.into()).unwrap(),
        Some(Repair::Salvaged)
    );
    assert_eq!(
        store.damage_mut().repair(cert_id(7), &[], Salvage::Always, NOW.into()).unwrap(),
        Some(Repair::Removed)
    );
    assert_clean(&store);
    assert!(store.get(all[5].fingerprint()).unwrap().is_some());
    assert!(store.get(all[6].fingerprint()).unwrap().is_none());
    assert_eq!(store.damage().set_aside().unwrap().len(), 2);
    // Nothing blocks its return.
    let outcomes = store.ingest(vec![all[6].clone()], Verification::Full, NOW.into()).unwrap();
    assert_eq!(outcomes, [IngestOutcome::New]);
    assert_clean(&store);
}

#[test]
fn a_damaged_certificate_is_never_merged_and_stops_no_others() {
    let folder = Folder::new();
    let all = corpus(30);
    let mut store = folder.filled(&all[..20]);
    let damage = Connection::open(folder.path()).unwrap();
    let flipped = flip(&damage, 3, &mut Numbers(7));
    let outcomes = store.ingest(all.clone(), Verification::Full, NOW.into()).unwrap();
    for (at, outcome) in outcomes.into_iter().enumerate() {
        let expected = match at {
            2 => IngestOutcome::Refused(IngestRefusal::DamagedCopy),
            0..20 => IngestOutcome::Unchanged,
            _ => IngestOutcome::New,
        };
        assert_eq!(outcome, expected, "certificate {at}");
    }
    assert_eq!(bytes_of(&damage, 3), flipped);
    // Its owner or the operator can still delete it.
    assert_eq!(store.delete(&[all[2].fingerprint()], Return::Allowed, NOW.into()).unwrap(), 1);
    assert_clean(&store);
}

#[test]
fn damaged_verdicts_are_not_used_and_a_rebuild_computes_them_again() {
    let folder = Folder::new();
    let all = corpus(12);
    let mut store = folder.filled(&all);
    let damage = Connection::open(folder.path()).unwrap();
    let verdicts: Vec<u8> =
        damage.query_row("SELECT verdicts FROM blob WHERE id = 2", [], |row| row.get(0)).unwrap();
    let mut flipped = verdicts.clone();
    flipped[0] = if flipped[0] == 1 { 2 } else { 1 };
    damage.execute("UPDATE blob SET verdicts = ?1 WHERE id = 2", [&flipped]).unwrap();
    let found = store.stored(cert_id(2));
    assert!(matches!(found, Err(StoreError::DamagedCert { id, .. }) if id == cert_id(2)));
    // Without computing signatures, too.
    let report = store.check(Depth::Structure, |_| {}).unwrap();
    assert!(
        report.count > 0 && report.findings.iter().all(|finding| finding.remedy == Remedy::Rebuild)
    );
    assert!(store.rebuild(NOW.into()).unwrap().is_clean());
    assert_clean(&store);
    let again: Vec<u8> =
        damage.query_row("SELECT verdicts FROM blob WHERE id = 2", [], |row| row.get(0)).unwrap();
    assert_eq!(again, verdicts);
}

#[test]
fn a_damaged_checksum_is_written_again_by_a_rebuild() {
    let folder = Folder::new();
    let mut store = folder.filled(&corpus(12));
    let damage = Connection::open(folder.path()).unwrap();
    for statement in [
        "UPDATE blob SET sum = sum + 1 WHERE id = 3",
        "UPDATE blob SET digest = zeroblob(16) WHERE id = 3",
        "UPDATE blob SET digest = NULL WHERE id = 3",
        "UPDATE blob SET digest = NULL, sum = NULL WHERE id = 3",
    ] {
        damage.execute(statement, []).unwrap();
        let report = store.check(Depth::Structure, |_| {}).unwrap();
        assert!(report.count > 0, "{statement}");
        assert!(
            report.findings.iter().all(|finding| finding.remedy == Remedy::Rebuild),
            "{report:?}"
        );
        assert!(store.rebuild(NOW.into()).unwrap().is_clean(), "{statement}");
        assert_clean(&store);
    }
}

#[test]
fn a_migration_blesses_nothing() {
    let folder = Folder::new();
    let all = corpus(20);
    drop(folder.filled(&all));
    let damage = Connection::open(folder.path()).unwrap();
    let mut numbers = Numbers(3);
    let damaged: Vec<i64> = vec![2, 5, 11, 20];
    for &id in &damaged {
        flip(&damage, id, &mut numbers);
    }
    make_format_4(&damage);
    {
        // Without an upgrade, the stored digests tell as much, and no rebuild is advised.
        let store = Store::open(&folder.path(), Access::Read).unwrap();
        let report = store.check(Depth::Signatures, |_| {}).unwrap();
        assert_eq!(report.count, 4, "{report:?}");
        assert!(report.findings.iter().all(|finding| finding.remedy == Remedy::Copy), "{report:?}");
    }
    let mut store = folder.store();
    assert_eq!(store.upgraded_from(), Some(4));
    let found: Vec<i64> =
        store.damage().certs(|_| {}).unwrap().into_iter().map(|cert| cert.number()).collect();
    assert_eq!(found, damaged);
    let report = store.rebuild(NOW.into()).unwrap();
    assert_eq!((report.certs, report.count), (16, 4));
    let report = store.check(Depth::Structure, |_| {}).unwrap();
    assert!(
        report.count >= 4 && report.findings.iter().all(|finding| finding.remedy == Remedy::Copy)
    );
    for &id in &damaged {
        let at = usize::try_from(id).unwrap() - 1;
        assert!(matches!(store.stored(cert_id(id)), Err(StoreError::DamagedCert { .. })));
        let repair = store
            .damage_mut()
            .repair(cert_id(id), &all[at..=at], Salvage::WithCopy, NOW.into())
            .unwrap();
        assert_eq!(repair, Some(Repair::Replaced));
    }
    assert_clean(&store);
}

#[test]
fn a_store_of_format_6_is_upgraded_at_once_and_loses_nothing() {
    let folder = Folder::new();
    let all = corpus(100);
    let mut store = folder.filled(&all[..70]);
    while store.operator_mut().tidy().unwrap() {}
    let peer = "a.example:11370";
    store.keyserver_mut().mark_unobtainable(peer, View::Sks, &[[1; 16]], 1, NOW.into()).unwrap();
    drop(store);
    let connection = Connection::open(folder.path()).unwrap();
    make_format_7(&connection);
    connection
        .execute_batch("DELETE FROM meta WHERE name = 'indexed'; PRAGMA user_version = 6;")
        .unwrap();
    drop(connection);
    let finds = |store: &Store, certs: &[Cert]| {
        for cert in certs {
            let text = String::from_utf8(cert.user_ids().next().unwrap().to_vec()).unwrap();
            let words = Query::Words(talaria_cert::user_id::words(&text).collect());
            let found = store.select(&words, 200).unwrap().rows;
            assert!(found.iter().any(|row| row.summary.fingerprint() == cert.fingerprint()));
        }
    };
    let store = Store::open(&folder.path(), Access::Read).unwrap();
    assert_eq!(store.upgraded_from(), None);
    finds(&store, &all[..70]);
    assert_clean(&store);
    drop(store);
    let mut store = folder.store();
    assert_eq!(store.upgraded_from(), Some(6));
    assert_eq!(store.keyserver().unobtainable_count().unwrap(), 1);
    for cert in &all[70..] {
        store.ingest(vec![cert.clone()], Verification::Full, NOW.into()).unwrap();
    }
    finds(&store, &all);
    assert_clean(&store);
}

#[test]
fn checksums_move_into_the_rows_of_certificates_as_these_are_written() {
    let folder = Folder::new();
    let half = |cert: &Cert| part(cert, |at| at % 2 == 0);
    let all: Vec<Cert> =
        corpus(60).into_iter().filter(|cert| half(cert) != *cert).take(21).collect();
    let (new, all) = all.split_last().unwrap();
    let halves: Vec<Cert> = all.iter().map(half).collect();
    let before = contents(&folder.filled(&halves));
    let connection = Connection::open(folder.path()).unwrap();
    make_format_7(&connection);
    let former = || -> i64 {
        connection.query_row("SELECT count(*) FROM checksum", [], |row| row.get(0)).unwrap()
    };
    let reader = Store::open(&folder.path(), Access::Read).unwrap();
    assert_eq!(contents(&reader), before);
    let mut store = folder.store();
    assert_eq!(store.upgraded_from(), Some(7));
    assert_eq!((former(), contents(&reader), contents(&store)), (20, before.clone(), before));
    assert_clean(&store);
    // A certificate that is written again, a new one, and one that is deleted.
    store.ingest(all[..5].to_vec(), Verification::Full, NOW.into()).unwrap();
    assert_eq!(former(), 15);
    store.ingest(vec![new.clone()], Verification::Full, NOW.into()).unwrap();
    store.delete(&[all[19].fingerprint()], Return::Allowed, NOW.into()).unwrap();
    assert_eq!(former(), 14);
    // A reader that opened the older store sees everything.
    let now = contents(&store);
    let found = reader.get(new.fingerprint()).unwrap();
    assert_eq!(found.map(|stored| stored.cert).as_ref(), Some(new));
    assert_eq!(contents(&reader), now);
    assert_clean(&store);
    assert_clean(&reader);
    // Damage is found in either place.
    for (id, statement) in [
        (2, "UPDATE blob SET sum = sum + 1 WHERE id = 2"),
        (9, "UPDATE checksum SET sum = sum + 1 WHERE cert = 9"),
    ] {
        connection.execute(statement, []).unwrap();
        assert!(matches!(store.stored(cert_id(id)), Err(StoreError::DamagedCert { .. })));
    }
    assert!(store.rebuild(NOW.into()).unwrap().is_clean());
    assert_eq!((former(), contents(&store)), (13, now));
    assert_clean(&store);
}

#[test]
fn an_upgrade_passes_a_row_that_cannot_be_read() {
    let folder = Folder::new();
    let all = corpus(20);
    drop(folder.filled(&all));
    let connection = Connection::open(folder.path()).unwrap();
    make_format_7(&connection);
    connection.execute("UPDATE cert SET summary = zeroblob(3) WHERE id = 4", []).unwrap();
    let mut store = folder.store();
    assert_eq!(store.upgraded_from(), Some(7));
    let name_of = |cert: &Cert| {
        let text = String::from_utf8(cert.user_ids().next().unwrap().to_vec()).unwrap();
        Query::Words(talaria_cert::user_id::words(&text).collect())
    };
    for (at, cert) in all.iter().enumerate().filter(|(at, _)| *at != 3) {
        let found = store.select(&name_of(cert), 30).unwrap().rows;
        assert!(found.iter().any(|row| row.summary.fingerprint() == cert.fingerprint()), "{at}");
    }
    let report = store.check(Depth::Structure, |_| {}).unwrap();
    assert!(report.count > 0);
    assert!(store.rebuild(NOW.into()).unwrap().is_clean());
    assert_clean(&store);
    assert_eq!(store.select(&name_of(&all[3]), 30).unwrap().rows.len(), 1);
}

#[test]
fn older_formats_are_read_as_they_are_and_upgraded_only_by_writing() {
    for older in [4, 5, 7] {
        let folder = Folder::new();
        let all = corpus(20);
        let mut store = folder.filled(&all);
        while store.operator_mut().tidy().unwrap() {}
        let before = contents(&store);
        drop(store);
        let make = match older {
            4 => make_format_4,
            5 => make_format_5,
            _ => make_format_7,
        };
        make(&Connection::open(folder.path()).unwrap());
        let format = || -> i64 {
            let connection = Connection::open(folder.path()).unwrap();
            connection.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap()
        };
        let finds_all = |store: &Store| {
            for (cert, key) in all.iter().flat_map(|cert| cert.keys().map(move |key| (cert, key))) {
                let id = Query::KeyId(key.fingerprint().key_id());
                let found = store.owners(&id, 10, 10).unwrap().rows;
                assert_eq!(found.len(), 1);
                assert_eq!(found[0].summary.fingerprint(), cert.fingerprint());
            }
        };
        {
            let store = Store::open(&folder.path(), Access::Read).unwrap();
            assert_eq!(store.upgraded_from(), None);
            assert_eq!(contents(&store), before);
            assert_eq!(store.has_index(TextIndex::Trigrams).unwrap(), older > 4);
            assert!(!store.has_index(TextIndex::Words).unwrap());
            let nothing = |given_up: GivenUp| -> Result<(), StoreError> { panic!("{given_up:?}") };
            store.keyserver().for_each_given_up(nothing).unwrap();
            finds_all(&store);
            assert_clean(&store);
        }
        assert_eq!(format(), older);
        let store = folder.store();
        assert_eq!(store.upgraded_from(), Some(older));
        assert!(store.has_index(TextIndex::Words).unwrap());
        assert_eq!(store.keyserver().unobtainable_count().unwrap(), 0);
        finds_all(&store);
        assert_clean(&store);
        assert_eq!(contents(&store), before);
        assert_eq!(format(), talaria_store::FORMAT);
        assert_eq!(folder.store().upgraded_from(), None);
    }
}

#[test]
fn an_interrupted_upgrade_continues_where_it_was() {
    let folder = Folder::new();
    let all = corpus(20);
    let before = contents(&folder.filled(&all));
    let connection = Connection::open(folder.path()).unwrap();
    // The state after a kill between two pieces.
    connection
        .execute_batch(
            "UPDATE blob SET digest = NULL, sum = NULL, change = NULL WHERE id > 7;
             UPDATE cert SET sum = NULL WHERE id > 7;",
        )
        .unwrap();
    set_meta(&connection, "sealed", 7);
    let reader = Store::open(&folder.path(), Access::Read).unwrap();
    assert_eq!(contents(&reader), before);
    assert_clean(&reader);
    drop(reader);
    let store = folder.store();
    assert_clean(&store);
    let sealed: i64 =
        connection.query_row("SELECT count(*) FROM checksum", [], |row| row.get(0)).unwrap();
    assert_eq!(sealed, 13);
    assert_eq!(contents(&store), before);
}

#[test]
fn the_subsets_of_a_check_find_the_same_damage_as_a_whole_check() {
    let folder = Folder::new();
    let store = folder.filled(&corpus(40));
    let damage = Connection::open(folder.path()).unwrap();
    damage
        .execute_batch(
            "DELETE FROM key WHERE cert = 7;
             UPDATE blob SET verdicts = zeroblob(length(verdicts)) WHERE id = 9;
             DELETE FROM cert WHERE id = 12;
             UPDATE change SET sum = sum + 1 WHERE number = 30;",
        )
        .unwrap();
    flip(&damage, 21, &mut Numbers(5));
    let whole = store.check(Depth::Structure, |_| {}).unwrap();
    let (mut findings, mut certs) = (Vec::new(), 0);
    for number in 1..=7 {
        let part = Share::new(number, 7).unwrap();
        let report = store.check_part(Depth::Structure, part, |_| {}).unwrap();
        certs += report.certs;
        for finding in report.findings {
            if !findings.contains(&finding) {
                findings.push(finding);
            }
        }
    }
    assert_eq!(certs, 40);
    let key = |finding: &talaria_store::Finding| (finding.object.clone(), finding.what.clone());
    findings.sort_by_key(key);
    let mut expected = whole.findings;
    expected.sort_by_key(key);
    assert_eq!(findings, expected);
    assert!(Share::new(0, 7).is_none() && Share::new(8, 7).is_none());
}
