//! Damage to what the user and the operator have decided: it is named, the strictest value counts,
//! and nothing overwrites it.

use rusqlite::Connection;
use talaria_cert::{Address, Cert, Redaction, Verification};
use talaria_store::{Depth, IngestOutcome, IngestRefusal, Remedy, Return, Store};
use talaria_trust::tofu::Policy;
use talaria_trust::{Level, Rules};

use crate::common::{Folder, NOW, assert_clean, contents, corpus};
use crate::formats::{binding, peer};

/// Damages one value, and expects a check to name `object`.
fn damage(folder: &Folder, store: &Store, sql: &str, object: &str) {
    let changed = Connection::open(folder.path()).unwrap().execute(sql, []).unwrap();
    assert_eq!(changed, 1, "{sql}");
    is_named(store, object);
}

fn is_named(store: &Store, object: &str) {
    for depth in [Depth::Signatures, Depth::Checksums] {
        let report = store.check(depth, |_| {}).unwrap();
        let finding = report.findings.iter().find(|finding| finding.object == object);
        let finding = finding.unwrap_or_else(|| panic!("{object}: {report:?}"));
        assert_eq!(finding.remedy, Remedy::Restore);
    }
}

#[test]
fn damaged_owner_trust_counts_as_never() {
    let folder = Folder::new();
    let all = corpus(12);
    let mut store = folder.filled(&all);
    let (own, other) = (all[0].fingerprint(), all[1].fingerprint());
    store.web_mut().set_ownertrust(&[(own, 6), (other, 4)], NOW.into()).unwrap();
    let sql = "UPDATE ownertrust SET value = 6 WHERE value = 4";
    damage(&folder, &store, sql, &format!("the owner trust of {other}"));
    assert_eq!(store.web().ownertrust(other).unwrap(), Some(3));
    assert!(store.web().ownertrusts().unwrap().contains(&(other, 3)));
    // A change of the web does not follow the damaged value, and does not hide it.
    store.web_mut().update(true, NOW.into()).unwrap();
    let row = store.row(other).unwrap().unwrap();
    let view = store.web().at(NOW.into()).unwrap();
    let introducer = view.standing(&store, row.id).unwrap().and_then(|found| found.introducer);
    assert_eq!(introducer.map(|introducer| introducer.level), Some(Level::Never));
    is_named(&store, &format!("the owner trust of {other}"));
    store.web_mut().set_ownertrust(&[(other, 4)], NOW.into()).unwrap();
    assert_eq!(store.web().ownertrust(other).unwrap(), Some(4));
    assert_clean(&store);
}

#[test]
fn a_lost_write_of_a_decision_is_named() {
    let folder = Folder::new();
    let all = corpus(12);
    let mut store = folder.filled(&all);
    let names: Vec<_> = all.iter().map(Cert::fingerprint).collect();
    let disk = Connection::open(folder.path()).unwrap();
    let named = |store: &Store, table: &str| {
        is_named(store, &format!("table {table}"));
    };
    store.web_mut().set_ownertrust(&[(names[0], 6)], NOW.into()).unwrap();
    store.web_mut().set_ownertrust(&[(names[0], 0), (names[1], 4)], NOW.into()).unwrap();
    store.web_mut().set_ownertrust(&[(names[1], 5)], NOW.into()).unwrap();
    store.delete(&names[2..4], Return::Blocked, NOW.into()).unwrap();
    store.operator_mut().redact(names[4], &[Redaction::All], NOW.into()).unwrap();
    store.keyserver_mut().add_peer(&peer()).unwrap();
    let email = Address::of_user_id(all[5].user_ids().next().unwrap()).unwrap();
    store.keyserver_mut().publish(names[5], &email, NOW.into()).unwrap();
    store.tofu_mut().set_bindings(&[binding(&all[6])]).unwrap();
    assert_clean(&store);
    for table in ["ownertrust", "tombstone", "redaction", "peer", "published", "binding"] {
        let sql = format!("DELETE FROM {table} WHERE sum = (SELECT max(sum) FROM {table})");
        assert_eq!(disk.execute(&sql, []).unwrap(), 1);
        named(&store, table);
        // A rebuild hides nothing. The user accepts what is there.
        store.rebuild(NOW.into()).unwrap();
        named(&store, table);
        assert_eq!(store.damage_mut().accept_decisions().unwrap(), [table]);
        assert_clean(&store);
    }
}

#[test]
fn damaged_rules_trust_nobody_but_the_user() {
    let folder = Folder::new();
    let all = corpus(12);
    let mut store = folder.filled(&all);
    store.web_mut().set_ownertrust(&[(all[0].fingerprint(), 6)], NOW.into()).unwrap();
    let sql = "UPDATE meta SET value = '1 1 5 2.4' WHERE name = 'trust'";
    damage(&folder, &store, sql, "table meta, trust");
    let rules = store.web().rules().unwrap().unwrap();
    assert_eq!((rules.completes, rules.marginals, rules.depth), (255, 255, 1));
    store.web_mut().set_rules(Rules::default(), NOW.into()).unwrap();
    assert_clean(&store);
}

#[test]
fn a_damaged_block_blocks_and_stays() {
    let folder = Folder::new();
    let all = corpus(12);
    let mut store = folder.filled(&all);
    let name = all[3].fingerprint();
    store.delete(&[name], Return::Blocked, NOW.into()).unwrap();
    let object = format!("the tombstone of {name}");
    damage(&folder, &store, "UPDATE tombstone SET blocked = 0", &object);
    assert!(store.operator().is_blocked(name).unwrap());
    assert_eq!(store.log().all_tombstones().unwrap()[0].returning, Return::Blocked);
    let outcome = store.ingest(vec![all[3].clone()], Verification::Full, NOW.into()).unwrap();
    assert_eq!(outcome, [IngestOutcome::Refused(IngestRefusal::Blocked)]);
    is_named(&store, &object);
    // The operator decides anew.
    assert_eq!(store.operator_mut().unblock(&[name]).unwrap(), 1);
    let outcome = store.ingest(vec![all[3].clone()], Verification::Full, NOW.into()).unwrap();
    assert_eq!(outcome, [IngestOutcome::New]);
    assert_clean(&store);
}

#[test]
fn a_damaged_number_gives_no_number_again() {
    let folder = Folder::new();
    let all = corpus(12);
    let mut store = folder.filled(&all[..10]);
    store.delete(&[all[9].fingerprint()], Return::Allowed, NOW.into()).unwrap();
    let sql = "UPDATE meta SET value = 5 WHERE name = 'retired'";
    damage(&folder, &store, sql, "table meta, retired");
    store.ingest(vec![all[10].clone()], Verification::Full, NOW.into()).unwrap();
    let row = store.row(all[10].fingerprint()).unwrap().unwrap();
    assert_eq!(row.id.place(), Some(11));
}

#[test]
fn a_damaged_policy_counts_as_bad_and_is_not_overwritten_by_another_database() {
    let folder = Folder::new();
    let all = corpus(12);
    let mut store = folder.filled(&all);
    let bound = binding(&all[2]);
    let bad = talaria_store::Binding { policy: Policy::Auto, ..bound.clone() };
    store.tofu_mut().set_bindings(&[bad]).unwrap();
    let object = format!("the TOFU binding of {}", String::from_utf8_lossy(&bound.email));
    damage(&folder, &store, "UPDATE binding SET policy = 2", &object);
    assert_eq!(store.tofu().bindings().unwrap()[0].policy, Policy::Bad);
    assert_eq!(store.tofu().bindings_of(&bound.email).unwrap()[0].policy, Policy::Bad);
    store.tofu_mut().join_bindings(&[(bound.clone(), Vec::new())]).unwrap();
    is_named(&store, &object);
    store.tofu_mut().set_bindings(std::slice::from_ref(&bound)).unwrap();
    assert_eq!(store.tofu().bindings().unwrap(), [bound]);
    assert_clean(&store);
}

#[test]
fn a_damaged_confirmation_confirms_nothing_and_a_damaged_peer_is_left_out() {
    let folder = Folder::new();
    let all = corpus(12);
    let mut store = folder.filled(&all);
    let email = Address::of_user_id(all[3].user_ids().next().unwrap()).unwrap();
    let name = all[3].fingerprint();
    store.keyserver_mut().publish(name, &email, NOW.into()).unwrap();
    store.keyserver_mut().add_peer(&peer()).unwrap();
    assert!(store.keyserver().confirmed(&email).unwrap().is_some());
    let sql = "UPDATE published SET time = time + 1";
    damage(&folder, &store, sql, &format!("the confirmed address {email}"));
    assert!(store.keyserver().confirmed(&email).unwrap().is_none());
    assert!(store.keyserver().published(name).unwrap().is_empty());
    damage(&folder, &store, "UPDATE peer SET http_port = 1", "the peer peer.example:11370");
    assert!(store.keyserver().peers().unwrap().is_empty());
    store.keyserver_mut().publish(name, &email, NOW.into()).unwrap();
    store.keyserver_mut().add_peer(&peer()).unwrap();
    assert_eq!(store.keyserver().peers().unwrap(), [peer()]);
    assert_clean(&store);
}

#[test]
fn a_damaged_redaction_lets_no_user_id_in_and_takes_none_away() {
    let folder = Folder::new();
    let several = |cert: &Cert| cert.user_ids().count() > 1;
    let all: Vec<Cert> = corpus(60).into_iter().filter(several).take(4).collect();
    let mut store = folder.filled(&all);
    let name = all[1].fingerprint();
    let redacted = Redaction::of(all[1].user_ids().next().unwrap());
    store.operator_mut().redact(name, &[redacted], NOW.into()).unwrap();
    let before = contents(&store);
    let sql = "UPDATE redaction SET user_id = CAST(x'00' || substr(user_id, 2) AS BLOB)";
    let object = format!("a redaction of {name}");
    damage(&folder, &store, sql, &object);
    assert!(store.operator().is_redacted(name).unwrap());
    store.ingest(all.clone(), Verification::Full, NOW.into()).unwrap();
    assert_eq!(contents(&store), before);
    is_named(&store, &object);
}

#[test]
fn a_listing_answers_from_no_damaged_summary() {
    let folder = Folder::new();
    let all = corpus(12);
    let mut store = folder.filled(&all);
    let before: Vec<_> = all.iter().map(|c| store.row(c.fingerprint()).unwrap().unwrap()).collect();
    let disk = Connection::open(folder.path()).unwrap();
    let length: i64 = disk
        .query_row("SELECT length(summary) FROM cert WHERE id = 4", [], |row| row.get(0))
        .unwrap();
    let summary: Vec<u8> =
        disk.query_row("SELECT summary FROM cert WHERE id = 4", [], |row| row.get(0)).unwrap();
    for at in 0..usize::try_from(length).unwrap() {
        let mut flipped = summary.clone();
        flipped[at] ^= 1;
        disk.execute("UPDATE cert SET summary = ?1 WHERE id = 4", [&flipped]).unwrap();
        let row = store.row(all[3].fingerprint()).unwrap().unwrap();
        let now = store.current(row, talaria_cert::Rules::Standard, NOW.into()).unwrap();
        assert_eq!(now.summary.user_ids, before[3].summary.user_ids, "byte {at}");
        assert_eq!(now.summary.primary, before[3].summary.primary, "byte {at}");
    }
    let report = store.check(Depth::Structure, |_| {}).unwrap();
    assert_eq!(report.findings.len(), 1, "{report:?}");
    assert_eq!(report.findings[0].what, "its row in table cert does not match its checksum");
    assert!(store.rebuild(NOW.into()).unwrap().is_clean());
    assert_clean(&store);
}
