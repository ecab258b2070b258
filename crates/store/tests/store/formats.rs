//! Real files of older formats: they open, are upgraded, and keep all their contents.

use std::collections::BTreeMap;
use std::path::Path;

use rusqlite::Connection;
use talaria_cert::{Address, Cert, Peer, Redacted, Redaction, Verification, View, address};
use talaria_store::{
    Access, Binding, Depth, Event, Layout, Observation, Remedy, Return, Store, StoreError,
};
use talaria_trust::Rules;
use talaria_trust::tofu::Policy;

use crate::common::{Folder, NOW, assert_clean, contents, corpus, part, seal_former};

pub(crate) fn half(cert: &Cert) -> Cert {
    part(cert, |at| at % 2 == 0)
}

pub(crate) fn binding(cert: &Cert) -> Binding {
    let user_id = cert.user_ids().next().unwrap();
    Binding {
        fingerprint: cert.fingerprint(),
        email: address::gnupg_name(user_id),
        user_id: user_id.to_vec(),
        time: i64::from(NOW),
        policy: Policy::Good,
        effective: None,
        conflict: None,
    }
}

pub(crate) fn peer() -> Peer {
    Peer { host: "peer.example".into(), port: 11370, http_port: Some(11371), view: View::Sks }
}

/// Makes the store of which there is a file for each format.
pub(crate) fn make(path: &Path) {
    let all = corpus(12);
    let mut layout = Layout::default();
    layout.page_bytes = 4096;
    layout.keygrips = false;
    let mut store = Store::open_with(path, Access::Create, &layout).unwrap();
    let halves: Vec<Cert> = all[..10].iter().map(half).collect();
    store.ingest(halves, Verification::Full, NOW.into()).unwrap();
    store.ingest(all[..4].to_vec(), Verification::Full, NOW.into()).unwrap();
    store.delete(&[all[4].fingerprint()], Return::Allowed, NOW.into()).unwrap();
    let blocked = [all[5].fingerprint(), all[11].fingerprint()];
    store.delete(&blocked, Return::Blocked, NOW.into()).unwrap();
    let user_id = all[6].user_ids().next().unwrap();
    let redacted = [Redaction::of(user_id)];
    store.operator_mut().redact(all[6].fingerprint(), &redacted, NOW.into()).unwrap();
    let owners = [(all[0].fingerprint(), 6), (all[1].fingerprint(), 4)];
    store.web_mut().set_ownertrust(&owners, NOW.into()).unwrap();
    let mut rules = Rules::default();
    rules.marginals = 1;
    store.web_mut().set_rules(rules, NOW.into()).unwrap();
    let event = Event::Encrypted(i64::from(NOW));
    let observation = Observation { binding: binding(&all[2]), event };
    store.tofu_mut().observe(&[observation]).unwrap();
    let email = Address::of_user_id(all[3].user_ids().next().unwrap()).unwrap();
    store.keyserver_mut().publish(all[3].fingerprint(), &email, NOW.into()).unwrap();
    store.keyserver_mut().add_peer(&peer()).unwrap();
    store
        .keyserver_mut()
        .mark_unobtainable("peer.example:11370", View::Sks, &[[1; 16]], 1, NOW.into())
        .unwrap();
    store.keyserver_mut().add_to_tally(20_000, &[("lookups".into(), 3)]).unwrap();
    store.keyserver_mut().secret().unwrap();
    store.compact(None, std::time::Duration::ZERO).unwrap();
}

/// The file that the program before format 10 has made as [`make`] does. To make it small, SQLite
/// then dropped the optional indexes of keygrips and trigrams, and vacuumed it.
const FORMAT_9: &[u8] = include_bytes!("fixtures/format-9.db");

/// What [`make`] has put into a store.
fn assert_made(store: &Store) {
    let all = corpus(12);
    let mut expected: BTreeMap<_, _> =
        all[..4].iter().map(|cert| (cert.fingerprint(), cert.as_bytes().to_vec())).collect();
    for cert in &all[6..10] {
        let mut cert = half(cert);
        if cert.fingerprint() == all[6].fingerprint() {
            cert =
                Redacted::new(vec![Redaction::of(all[6].user_ids().next().unwrap())]).apply(&cert);
        }
        expected.insert(cert.fingerprint(), cert.as_bytes().to_vec());
    }
    assert_eq!(contents(store), expected);
    let tombstones = store.log().all_tombstones().unwrap();
    let mut graves: Vec<_> = tombstones.iter().map(|t| (t.fingerprint, t.returning)).collect();
    graves.sort_by_key(|(name, _)| all.iter().position(|cert| cert.fingerprint() == *name));
    let (free, blocked) = (Return::Allowed, Return::Blocked);
    let wanted = [(4, free), (5, blocked), (11, blocked)];
    assert_eq!(graves, wanted.map(|(at, returning)| (all[at].fingerprint(), returning)));
    assert!(store.operator().is_redacted(all[6].fingerprint()).unwrap());
    assert_eq!(store.web().ownertrust(all[0].fingerprint()).unwrap(), Some(6));
    assert_eq!(store.web().ownertrust(all[1].fingerprint()).unwrap(), Some(4));
    assert_eq!(store.web().rules().unwrap().unwrap().marginals, 1);
    assert_eq!(store.tofu().bindings().unwrap(), [binding(&all[2])]);
    let email = Address::of_user_id(all[3].user_ids().next().unwrap()).unwrap();
    let confirmed = store.keyserver().confirmed(&email).unwrap().unwrap();
    assert_eq!(confirmed.summary.fingerprint(), all[3].fingerprint());
    assert_eq!(store.keyserver().peers().unwrap(), [peer()]);
    assert_eq!(store.keyserver().unobtainable_count().unwrap(), 1);
    assert_eq!(store.keyserver().tally(0).unwrap().len(), 1);
    assert_clean(store);
}

fn file(folder: &Folder, content: &[u8]) {
    std::fs::write(folder.path(), content).unwrap();
}

#[test]
fn this_version_makes_such_a_store() {
    let folder = Folder::new();
    make(&folder.path());
    assert_made(&folder.store());
}

#[test]
fn a_file_of_format_9_is_read_as_it_is_and_upgraded_with_all_contents() {
    let folder = Folder::new();
    file(&folder, FORMAT_9);
    let reader = Store::open(&folder.path(), Access::Read).unwrap();
    assert_made(&reader);
    let mut store = folder.store();
    assert_eq!(store.upgraded_from(), Some(9));
    assert_made(&store);
    // A reader from before the upgrade sees it, too.
    assert_made(&reader);
    let disk = Connection::open(folder.path()).unwrap();
    let count = |sql: &str| disk.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(count("SELECT count(*) FROM cert WHERE sum IS NULL OR former IS NULL"), 0);
    assert_eq!(count("SELECT count(*) FROM blob WHERE change IS NOT NULL"), 0);
    // A certificate that is written names its change.
    let all = corpus(12);
    store.ingest(vec![all[7].clone()], Verification::Full, NOW.into()).unwrap();
    assert_eq!(count("SELECT count(*) FROM blob WHERE change IS NOT NULL"), 1);
    assert_eq!(count("SELECT count(*) FROM cert WHERE former IS NULL"), 1);
    assert_clean(&store);
    assert!(store.rebuild(NOW.into()).unwrap().is_clean());
    assert_clean(&store);
    let ended = store.reindex(NOW.into(), |_| std::ops::ControlFlow::Continue(())).unwrap();
    assert!(ended.unwrap().is_clean());
    assert_clean(&store);
    assert_eq!(count("SELECT count(*) FROM blob WHERE change IS NOT NULL"), 1);
}

#[test]
fn an_upgrade_from_format_9_confirms_no_lost_write() {
    let folder = Folder::new();
    file(&folder, FORMAT_9);
    // An old row whose checksum fits: the new row of another certificate would not have this
    // digest.
    let disk = Connection::open(folder.path()).unwrap();
    let other = folder.folder().join("other.db");
    let all = corpus(12);
    let at = all[..4].iter().position(|cert| half(cert) != *cert).unwrap();
    let id = i64::try_from(at).unwrap() + 1;
    let mut before = Store::open(&other, Access::Create).unwrap();
    before.ingest(vec![half(&all[at])], Verification::Full, NOW.into()).unwrap();
    drop(before);
    disk.execute_batch(&format!("ATTACH '{}' AS other", other.display())).unwrap();
    disk.execute("UPDATE blob SET bytes = (SELECT bytes FROM other.blob), verdicts = (SELECT verdicts FROM other.blob) WHERE id = ?1", [id]).unwrap();
    disk.execute_batch("DETACH other").unwrap();
    seal_former(&disk, id);
    drop(disk);
    let store = folder.store();
    assert!(matches!(store.get(all[at].fingerprint()), Err(StoreError::DamagedCert { .. })));
    let report = store.check(Depth::Structure, |_| {}).unwrap();
    let name = format!("certificate {}", all[at].fingerprint());
    let finding = report.findings.iter().find(|finding| finding.object == name).unwrap();
    assert_eq!(finding.remedy, Remedy::Copy, "{report:?}");
}
