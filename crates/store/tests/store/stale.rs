//! Rows that a disk did not write: an older version is there, and its checksum fits.

use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};
use talaria_cert::{Cert, Query, Verification};
use talaria_store::{
    Access, Depth, IngestOutcome, Remedy, Repair, Return, Salvage, Store, StoreError,
};

use crate::common::{Folder, NOW, assert_clean, cert_id, contents, corpus, part};

/// The row of a certificate in a table.
fn row(connection: &Connection, table: &str, id: i64) -> Vec<Value> {
    let mut statement =
        connection.prepare(&format!("SELECT * FROM {table} WHERE id = ?1")).unwrap();
    let count = statement.column_count();
    statement.query_row([id], |row| (0..count).map(|at| row.get(at)).collect()).unwrap()
}

fn put(connection: &Connection, table: &str, row: Vec<Value>) {
    let places = vec!["?"; row.len()].join(", ");
    let sql = format!("INSERT OR REPLACE INTO {table} VALUES ({places})");
    connection.execute(&sql, params_from_iter(row)).unwrap();
}

fn half(cert: &Cert) -> Cert {
    part(cert, |at| at % 2 == 0)
}

/// Certificates of which a half is another certificate.
fn grown() -> Vec<Cert> {
    corpus(40).into_iter().filter(|cert| half(cert) != *cert).take(12).collect()
}

/// A store whose certificates have grown, and in which the rows of number 4 in `tables` are those
/// from before.
fn with_lost_writes(folder: &Folder, tables: &[&str]) -> (Store, Vec<Cert>) {
    let all = grown();
    let mut store = folder.filled(&all.iter().map(half).collect::<Vec<_>>());
    let disk = Connection::open(folder.path()).unwrap();
    let before: Vec<_> = tables.iter().map(|table| (table, row(&disk, table, 4))).collect();
    store.ingest(all.clone(), Verification::Full, NOW.into()).unwrap();
    before.into_iter().for_each(|(table, row)| put(&disk, table, row));
    (store, all)
}

/// A check at any depth names the certificate, and only a copy repairs it.
fn needs_a_copy(store: &Store, cert: &Cert) {
    for depth in [Depth::Signatures, Depth::Structure, Depth::Checksums] {
        let report = store.check(depth, |_| {}).unwrap();
        assert_eq!(report.findings.len(), 1, "{depth:?}: {report:?}");
        assert_eq!(report.findings[0].object, format!("certificate {}", cert.fingerprint()));
        assert_eq!(report.findings[0].remedy, Remedy::Copy);
    }
}

fn is_not_given_out(store: &Store, cert: &Cert) {
    let query = Query::Fingerprint(cert.fingerprint().as_bytes().to_vec());
    for read in [store.get(cert.fingerprint()).map(drop), store.sole(&query, u32::MAX).map(drop)] {
        assert!(matches!(read, Err(StoreError::DamagedCert { .. })), "{read:?}");
    }
}

#[test]
fn a_lost_write_of_a_certificate_is_found_and_only_a_copy_repairs_it() {
    let folder = Folder::new();
    let (mut store, all) = with_lost_writes(&folder, &["blob"]);
    is_not_given_out(&store, &all[3]);
    is_not_given_out(&Store::open(&folder.path(), Access::Read).unwrap(), &all[3]);
    needs_a_copy(&store, &all[3]);
    // A rebuild, a compaction and another page size hide nothing.
    let report = store.rebuild(NOW.into()).unwrap();
    assert_eq!((report.certs, report.count), (11, 1), "{report:?}");
    needs_a_copy(&store, &all[3]);
    // The page size does not change under the cursors of the full-text indexes.
    drop(store);
    let mut store = folder.store();
    store.compact(Some(4096), std::time::Duration::ZERO).unwrap();
    needs_a_copy(&store, &all[3]);
    is_not_given_out(&store, &all[3]);
    let backup = folder.folder().join("backup.db");
    store.backup(&backup, |_, _| {}).unwrap();
    needs_a_copy(&Store::open(&backup, Access::Read).unwrap(), &all[3]);
    // What is there is not joined, and not taken for the certificate.
    for copy in [all[3].clone(), half(&all[3])] {
        let outcome = store.ingest(vec![copy], Verification::Full, NOW.into()).unwrap();
        assert!(matches!(outcome[0], IngestOutcome::Refused(_)), "{outcome:?}");
    }
    let damaged = store.damage().certs(|_| {}).unwrap();
    assert_eq!(damaged.len(), 1);
    let repair = |store: &mut Store, copies: &[Cert]| {
        store.damage_mut().repair(cert_id(4), copies, Salvage::WithCopy, NOW.into()).unwrap()
    };
    assert_eq!(repair(&mut store, &[]), Some(Repair::NoCopy));
    assert_eq!(repair(&mut store, &all), Some(Repair::Replaced));
    assert_clean(&store);
    let whole: Vec<_> =
        all.iter().map(|cert| (cert.fingerprint(), cert.as_bytes().to_vec())).collect();
    assert_eq!(contents(&store), whole.into_iter().collect());
}

#[test]
fn a_lost_write_of_the_row_for_listings_is_made_again_by_a_rebuild() {
    let folder = Folder::new();
    let (mut store, all) = with_lost_writes(&folder, &["cert"]);
    assert_eq!(store.get(all[3].fingerprint()).unwrap().unwrap().cert, all[3]);
    let report = store.check(Depth::Structure, |_| {}).unwrap();
    assert!(report.count > 0);
    assert!(report.findings.iter().all(|f| f.remedy == Remedy::Rebuild), "{report:?}");
    assert!(!store.check(Depth::Checksums, |_| {}).unwrap().is_clean());
    assert!(store.rebuild(NOW.into()).unwrap().is_clean());
    assert_clean(&store);
    assert_eq!(store.get(all[3].fingerprint()).unwrap().unwrap().cert, all[3]);
}

#[test]
fn the_change_log_shows_that_both_rows_are_old() {
    let folder = Folder::new();
    let (mut store, all) = with_lost_writes(&folder, &["blob", "cert"]);
    let names = |store: &Store| {
        let report = store.check(Depth::Structure, |_| {}).unwrap();
        let of_cert =
            |f: &&talaria_store::Finding| f.object.contains(&all[3].fingerprint().to_string());
        let finding = report.findings.iter().find(of_cert).unwrap();
        assert_eq!(finding.remedy, Remedy::Copy);
    };
    names(&store);
    store.compact(None, std::time::Duration::ZERO).unwrap();
    names(&store);
    assert_eq!(store.rebuild(NOW.into()).unwrap().count, 1);
    names(&store);
    is_not_given_out(&store, &all[3]);
    let repair =
        store.damage_mut().repair(cert_id(4), &all, Salvage::WithCopy, NOW.into()).unwrap();
    assert_eq!(repair, Some(Repair::Replaced));
    assert_clean(&store);
}

/// The rows that the last change of a certificate wrote, each of which a disk may have lost.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Lost {
    Bytes,
    Row,
    Log,
    NewDigest,
    OldDigest,
}

/// Every choice of rows but none and all: a check names the certificate, a rebuild makes nothing
/// permanent, and a copy repairs it.
#[test]
fn a_change_of_which_any_part_is_lost_is_found() {
    const DIGEST: &str = "SELECT view, digest, cert FROM digest WHERE cert = 4 AND view = 0";
    let kinds = [Lost::NewDigest, Lost::Bytes, Lost::Row, Lost::Log, Lost::OldDigest];
    let all = grown();
    for choice in 1_u32..31 {
        let lost = (0..5).filter(|at| choice >> at & 1 == 1).map(|at| kinds[at]);
        let lost: Vec<Lost> = lost.collect();
        let folder = Folder::new();
        let mut store = folder.filled(&all[..6].iter().map(half).collect::<Vec<_>>());
        let disk = Connection::open(folder.path()).unwrap();
        let [bytes, listing] = ["blob", "cert"].map(|table| row(&disk, table, 4));
        let digest = |row: &rusqlite::Row<'_>| (0..3).map(|at| row.get(at)).collect();
        let old_digest: Vec<Value> = disk.query_row(DIGEST, [], digest).unwrap();
        store.ingest(vec![all[3].clone()], Verification::Full, NOW.into()).unwrap();
        for part in &lost {
            let sql = match part {
                Lost::Bytes => {
                    put(&disk, "blob", bytes.clone());
                    continue;
                }
                Lost::Row => {
                    put(&disk, "cert", listing.clone());
                    continue;
                }
                Lost::OldDigest => {
                    put(&disk, "digest", old_digest.clone());
                    continue;
                }
                Lost::Log => "DELETE FROM change WHERE number = 7",
                Lost::NewDigest => "DELETE FROM digest WHERE cert = 4 AND view = 0",
            };
            disk.execute(sql, []).unwrap();
        }
        let name = all[3].fingerprint().to_string();
        let found = |store: &Store| {
            let report = store.check(Depth::Structure, |_| {}).unwrap();
            let is_it = |f: &talaria_store::Finding| f.object.contains(&name);
            let needs_copy = report.findings.iter().any(|f| is_it(f) && f.remedy == Remedy::Copy);
            let read = store.get(all[3].fingerprint());
            let is_new = read.is_ok_and(|found| found.unwrap().cert == all[3]);
            (report.is_clean(), needs_copy, is_new)
        };
        let (is_clean, needs_copy, is_new) = found(&store);
        assert!(!is_clean && (needs_copy || is_new), "{lost:?}");
        if choice % 2 == 0 {
            store.reindex(NOW.into(), |_| std::ops::ControlFlow::Continue(())).unwrap();
        }
        store.rebuild(NOW.into()).unwrap();
        let (is_clean, needs_copy, is_new) = found(&store);
        assert!(needs_copy || is_clean && is_new, "after a rebuild: {lost:?}");
        let repaired =
            store.damage_mut().repair(cert_id(4), &all, Salvage::WithCopy, NOW.into()).unwrap();
        assert_eq!(repaired.is_some(), needs_copy, "{lost:?}");
        assert_clean(&store);
        assert!(found(&store).2, "{lost:?}");
    }
}

#[test]
fn a_copy_that_is_as_old_repairs_nothing() {
    let folder = Folder::new();
    let (mut store, all) = with_lost_writes(&folder, &["blob"]);
    let mut repair = |copies: &[Cert]| {
        store.damage_mut().repair(cert_id(4), copies, Salvage::WithCopy, NOW.into()).unwrap()
    };
    assert_eq!(repair(&[half(&all[3])]), Some(Repair::NoCopy));
    assert_eq!(repair(&[half(&all[3]), all[3].clone()]), Some(Repair::Replaced));
    assert_clean(&store);
    // Who has no copy keeps what there is.
    let folder = Folder::new();
    let (mut store, all) = with_lost_writes(&folder, &["blob"]);
    let repaired = store.damage_mut().repair(cert_id(4), &[], Salvage::Always, NOW.into());
    assert_eq!(repaired.unwrap(), Some(Repair::Salvaged));
    assert_clean(&store);
    assert_eq!(store.get(all[3].fingerprint()).unwrap().unwrap().cert, half(&all[3]));
}

#[test]
fn a_look_up_by_key_reads_the_row_for_listings_once_and_notices_later_losses() {
    let folder = Folder::new();
    let all = grown();
    drop(folder.filled(&all.iter().map(half).collect::<Vec<_>>()));
    let reader = Store::open(&folder.path(), Access::Read).unwrap();
    let disk = Connection::open(folder.path()).unwrap();
    let query = Query::Fingerprint(all[3].fingerprint().as_bytes().to_vec());
    let read = |reader: &Store| reader.sole(&query, u32::MAX).unwrap().unwrap().stored.cert;
    assert_eq!(read(&reader), half(&all[3]));
    // Known versions need no row.
    let listing = row(&disk, "cert", 4);
    disk.execute("DELETE FROM cert WHERE id = 4", []).unwrap();
    assert_eq!(read(&reader), half(&all[3]));
    put(&disk, "cert", listing);
    let former = row(&disk, "blob", 4);
    folder.store().ingest(all.clone(), Verification::Full, NOW.into()).unwrap();
    assert_eq!(read(&reader), all[3]);
    put(&disk, "blob", former);
    is_not_given_out(&reader, &all[3]);
}

#[test]
fn a_lost_certificate_is_named_until_it_is_repaired() {
    let folder = Folder::new();
    let all = corpus(12);
    let mut store = folder.filled(&all);
    let disk = Connection::open(folder.path()).unwrap();
    disk.execute_batch("DELETE FROM blob WHERE id IN (3, 5); DELETE FROM cert WHERE id = 5")
        .unwrap();
    let lost = |store: &Store| {
        let report = store.check(Depth::Structure, |_| {}).unwrap();
        let lost = report.findings.iter().filter(|f| f.what == "its bytes are missing");
        lost.map(|finding| finding.object.clone()).collect::<Vec<_>>()
    };
    let names =
        [format!("certificate {}", all[2].fingerprint()), "certificate number 5".to_owned()];
    assert_eq!(lost(&store), names);
    store.rebuild(NOW.into()).unwrap();
    assert_eq!(lost(&store), names);
    store.reindex(NOW.into(), |_| std::ops::ControlFlow::Continue(())).unwrap();
    assert_eq!(lost(&store), names);
    assert!(matches!(store.get(all[2].fingerprint()), Err(StoreError::DamagedCert { .. })));
    let mut repair =
        |id, salvage| store.damage_mut().repair(cert_id(id), &all, salvage, NOW.into()).unwrap();
    assert_eq!(repair(3, Salvage::WithCopy), Some(Repair::Replaced));
    assert_eq!(repair(5, Salvage::WithCopy), Some(Repair::NoCopy));
    assert_eq!(repair(5, Salvage::Always), Some(Repair::Removed));
    assert_clean(&store);
    let outcome = store.ingest(all.clone(), Verification::Full, NOW.into()).unwrap();
    let new = outcome.iter().filter(|outcome| **outcome == IngestOutcome::New).count();
    assert_eq!(new, 1);
    assert_clean(&store);
}

fn a_part_of_a_deletion_is_lost(online: bool) {
    let folder = Folder::new();
    let all = corpus(12);
    let mut store = folder.filled(&all);
    let disk = Connection::open(folder.path()).unwrap();
    let rows = ["blob", "cert"].map(|table| (table, row(&disk, table, 4)));
    store.delete(&[all[3].fingerprint()], Return::Blocked, NOW.into()).unwrap();
    rows.into_iter().for_each(|(table, row)| put(&disk, table, row));
    assert!(!store.check(Depth::Checksums, |_| {}).unwrap().is_clean());
    if online {
        store.reindex(NOW.into(), |_| std::ops::ControlFlow::Continue(())).unwrap();
    } else {
        assert!(store.rebuild(NOW.into()).unwrap().is_clean());
    }
    assert_clean(&store);
    assert!(store.get(all[3].fingerprint()).unwrap().is_none());
}

#[test]
fn a_deletion_of_which_a_part_is_lost_is_completed() {
    [false, true].into_iter().for_each(a_part_of_a_deletion_is_lost);
}

#[test]
fn a_lost_row_of_an_index_makes_no_second_copy_and_copies_are_joined() {
    let folder = Folder::new();
    let all = grown();
    let mut store = folder.filled(&all[..6]);
    let disk = Connection::open(folder.path()).unwrap();
    disk.execute_batch("DELETE FROM fingerprint WHERE cert = 2").unwrap();
    assert!(store.row(all[1].fingerprint()).unwrap().is_some());
    let outcome = store.ingest(vec![all[1].clone()], Verification::Full, NOW.into()).unwrap();
    assert_eq!(outcome, [IngestOutcome::Unchanged]);
    let report = store.check(Depth::Structure, |_| {}).unwrap();
    assert_eq!(report.findings[0].object, "table fingerprint");
    assert!(store.rebuild(NOW.into()).unwrap().is_clean());
    assert_clean(&store);
    // Without any index, the certificate comes twice.
    store.ingest(vec![half(&all[7])], Verification::Full, NOW.into()).unwrap();
    disk.execute_batch("DELETE FROM fingerprint WHERE cert = 7; DELETE FROM key WHERE cert = 7;")
        .unwrap();
    let other = part(&all[7], |at| at % 2 == 1);
    store.ingest(vec![other], Verification::Full, NOW.into()).unwrap();
    let report = store.check(Depth::Structure, |_| {}).unwrap();
    let twice = |f: &&talaria_store::Finding| f.what == "is there twice, as numbers 7 and 8";
    assert_eq!(report.findings.iter().filter(twice).count(), 1, "{report:?}");
    assert!(store.rebuild(NOW.into()).unwrap().is_clean());
    assert_clean(&store);
    assert_eq!(store.get(all[7].fingerprint()).unwrap().unwrap().cert, all[7]);
    assert_eq!(store.count().unwrap(), 7);
}
