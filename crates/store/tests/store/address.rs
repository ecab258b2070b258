//! Comparison of addresses in the store, and the migration of addresses from older formats.

use crate::common::{Folder, NOW, assert_clean, corpus, make_format_7};
use rusqlite::Connection;
use talaria_cert::{Address, Fingerprint, Handle};
use talaria_store::{Access, Binding, Event, Query, Store};
use talaria_trust::tofu::Policy;

/// Two forms of one address, which gpg compares as bytes, and a lookalike.
const UNICODE: &str = "user@bücher.example";
const ASCII: &str = "user@xn--bcher-kva.example";
const OTHER: &str = "user@bucher.example";

fn binding(fingerprint: Fingerprint, email: &str, policy: Policy) -> (Binding, Vec<Event>) {
    let binding = Binding {
        fingerprint,
        email: email.into(),
        user_id: format!("User <{email}>").into(),
        time: NOW.into(),
        policy,
        effective: None,
        conflict: None,
    };
    (binding, vec![Event::Encrypted(NOW.into())])
}

fn policies(store: &Store, fingerprint: Fingerprint) -> Vec<(String, Policy)> {
    let bindings = store.tofu().bindings_with(fingerprint).unwrap().into_iter();
    bindings.map(|b| (String::from_utf8(b.email).unwrap(), b.policy)).collect()
}

#[test]
fn the_stricter_policy_for_two_forms_of_an_address_wins() {
    use Policy::{Ask, Auto, Bad, Good, Unknown};
    let folder = Folder::new();
    let mut store = folder.store();
    let cases = [
        ([Good, Bad], [Bad, Bad]),
        ([Ask, Good], [Ask, Ask]),
        ([Unknown, Good], [Unknown, Unknown]),
        ([Auto, Good], [Good, Good]),
        ([Bad, Auto], [Bad, Bad]),
        ([Auto, Auto], [Auto, Auto]),
    ];
    let name = |at: usize| Fingerprint::V4([u8::try_from(at).unwrap(); 20]);
    for (at, ([unicode, ascii], _)) in cases.iter().enumerate() {
        let rows = [(UNICODE, *unicode), (ASCII, *ascii), (OTHER, Good)];
        let rows = rows.map(|(email, policy)| binding(name(at), email, policy));
        store.tofu_mut().join_bindings(&rows).unwrap();
    }
    // Another certificate with the address has its own decisions.
    store.tofu_mut().join_bindings(&[binding(name(99), UNICODE, Good)]).unwrap();
    drop(store);
    make_format_3(&folder);
    let store = Store::open(&folder.path(), Access::Write).unwrap();
    for (at, (_, [unicode, ascii])) in cases.into_iter().enumerate() {
        let expected = [(OTHER, Good), (UNICODE, unicode), (ASCII, ascii)];
        let expected = expected.map(|(email, policy)| (email.to_owned(), policy));
        assert_eq!(policies(&store, name(at)), expected);
        // Records of signatures stay under the form in which they were seen.
        assert_eq!(store.tofu().events(name(at), ASCII.as_bytes()).unwrap().len(), 1);
        assert_eq!(store.tofu().events(name(at), UNICODE.as_bytes()).unwrap().len(), 1);
    }
    assert_eq!(policies(&store, name(99)), [(UNICODE.to_owned(), Good)]);
    assert_clean(&store);
}

#[test]
fn a_policy_holds_for_both_forms_of_an_address() {
    let folder = Folder::new();
    let mut store = folder.store();
    let name = Fingerprint::V4([1; 20]);
    let rows = [UNICODE, ASCII, OTHER].map(|email| binding(name, email, Policy::Bad));
    store.tofu_mut().join_bindings(&rows).unwrap();
    store.tofu_mut().set_bindings(&[binding(name, ASCII, Policy::Good).0]).unwrap();
    let expected = [(OTHER, Policy::Bad), (UNICODE, Policy::Good), (ASCII, Policy::Good)];
    assert_eq!(policies(&store, name), expected.map(|(email, p)| (email.to_owned(), p)));
    assert_clean(&store);
}

#[test]
fn a_migration_normalises_confirmed_addresses() {
    let folder = Folder::new();
    let all = corpus(3);
    drop(folder.filled(&all));
    make_format_3(&folder);
    let connection = Connection::open(folder.path()).unwrap();
    let rows = [
        (0, UNICODE, NOW),
        (1, ASCII, NOW - 5),
        (2, "plain@example.org", NOW),
        (2, "two@at@example.org", NOW),
    ];
    for (at, email, time) in rows {
        let fingerprint = all[at].fingerprint().to_stored();
        let parts = [&fingerprint[..], email.as_bytes(), &time.to_be_bytes()];
        let sum = i64::from(u32::try_from(Handle::of_bytes(&parts).0).unwrap().cast_signed());
        connection
            .execute(
                "INSERT INTO published VALUES (?1, ?2, ?3, ?4)",
                (fingerprint, email, time, sum),
            )
            .unwrap();
    }
    drop(connection);
    let store = Store::open(&folder.path(), Access::Write).unwrap();
    let published = |at: usize| store.keyserver().published(all[at].fingerprint()).unwrap();
    // Of two merged addresses, the last confirmation counts.
    assert_eq!(published(0), [ASCII.parse::<Address>().unwrap()]);
    assert_eq!(published(1), []);
    assert_eq!(published(2), ["plain@example.org".parse::<Address>().unwrap()]);
    assert_clean(&store);
}

/// Changes only the format number: a migration rebuilds all derived tables anyway.
fn make_format_3(folder: &Folder) {
    let connection = Connection::open(folder.path()).unwrap();
    make_format_7(&connection);
    connection.execute_batch("DELETE FROM address; DROP TABLE checksum; DROP TABLE set_aside; DROP INDEX published_email; PRAGMA user_version = 3;").unwrap();
}

#[test]
fn searches_find_addresses_after_a_migration() {
    let folder = Folder::new();
    let all = corpus(30);
    drop(folder.filled(&all));
    make_format_3(&folder);
    let store = Store::open(&folder.path(), Access::Write).unwrap();
    for cert in &all {
        for address in cert.user_ids().filter_map(Address::of_user_id) {
            let found = store.select(&Query::Email(address), usize::MAX).unwrap();
            assert!(found.rows.iter().any(|row| row.summary.fingerprint() == cert.fingerprint()));
        }
    }
    assert_clean(&store);
}
