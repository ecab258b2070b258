//! Who holds a key: the owner of a subkey for signing comes before those who have only taken it.

use rusqlite::Connection;
use talaria_cert::{Cert, Fingerprint, Key, PacketRef, Query, Tag, Verification};
use talaria_store::{HOLDERS_MAX, Store};

use crate::common::{Folder, NOW, assert_clean, corpus, make_format_8, part};

/// A certificate with a subkey for signing, the subkey, and other certificates that have taken it.
fn owner_and_adopters() -> (Cert, Fingerprint, Vec<Cert>) {
    let all = corpus(60);
    let subkeys = |cert: &Cert| {
        let subkeys = cert.packets().filter(|packet| packet.tag == Tag::PUBLIC_SUBKEY);
        subkeys.map(|packet| packet.body.to_vec()).collect::<Vec<_>>()
    };
    // The second subkey is for signing.
    let owner = all.iter().find(|cert| subkeys(cert).len() == 2).unwrap().clone();
    let subkey = subkeys(&owner).remove(1);
    let packet = PacketRef { tag: Tag::PUBLIC_SUBKEY, body: &subkey };
    let fingerprint = Key::parse(packet).unwrap().fingerprint();
    let write = |raw: &mut Vec<u8>, tag: Tag, body: &[u8]| {
        raw.extend([0xc0 | tag.0, 255]);
        raw.extend(u32::try_from(body.len()).unwrap().to_be_bytes());
        raw.extend_from_slice(body);
    };
    let adopters = all.iter().filter(|cert| **cert != owner).map(|cert| {
        let mut raw = Vec::new();
        write(&mut raw, Tag::PUBLIC_KEY, cert.packets().next().unwrap().body);
        write(&mut raw, Tag::PUBLIC_SUBKEY, &subkey);
        Cert::parse(&raw).unwrap()
    });
    let adopters: Vec<Cert> = adopters.collect();
    assert!(adopters.len() > 2 * HOLDERS_MAX);
    (owner, fingerprint, adopters)
}

/// The certificates that a look-up of a key finds.
fn found(store: &Store, key: Fingerprint) -> Vec<Fingerprint> {
    let queries = [Query::KeyId(key.key_id()), Query::Fingerprint(key.as_bytes().to_vec())];
    let [by_id, by_fingerprint] = queries.map(|query| {
        let found = store.owners(&query, 100, 1000).unwrap();
        found.rows.iter().map(|row| row.summary.fingerprint()).collect::<Vec<_>>()
    });
    assert_eq!(by_id, by_fingerprint);
    by_id
}

#[test]
fn a_subkey_leads_to_its_owner_as_soon_as_it_is_verified() {
    let (owner, subkey, adopters) = owner_and_adopters();
    let folder = Folder::new();
    let mut store = folder.store();
    store.ingest(adopters.clone(), Verification::Deferred, NOW.into()).unwrap();
    store.ingest(vec![owner.clone()], Verification::Deferred, NOW.into()).unwrap();
    // Nobody has verified anything, so the first in the store come first.
    let first: Vec<Fingerprint> = adopters[..HOLDERS_MAX].iter().map(Cert::fingerprint).collect();
    assert_eq!(found(&store, subkey), first);
    assert_clean(&store);
    store.verify_unchecked(7, NOW.into()).unwrap();
    assert_eq!(found(&store, subkey)[..2], [owner.fingerprint(), first[0]]);
    assert_eq!(store.holder(subkey.key_id()).unwrap().unwrap().fingerprint(), owner.fingerprint());
    assert_clean(&store);
}

#[test]
fn a_binding_that_arrives_later_brings_the_owner_to_the_front() {
    let (owner, subkey, adopters) = owner_and_adopters();
    let is_subkey = |packet: PacketRef<'_>| {
        packet.tag == Tag::PUBLIC_SUBKEY && Key::parse(packet).unwrap().fingerprint() == subkey
    };
    let place = owner.packets().position(is_subkey).unwrap();
    let without_binding = part(&owner, |at| at <= place);
    let folder = Folder::new();
    let mut store = folder.filled(&adopters);
    store.ingest(vec![without_binding], Verification::Full, NOW.into()).unwrap();
    assert!(!found(&store, subkey).contains(&owner.fingerprint()));
    store.ingest(vec![owner.clone()], Verification::Full, NOW.into()).unwrap();
    assert_eq!(found(&store, subkey)[0], owner.fingerprint());
    assert_clean(&store);
}

#[test]
fn an_upgrade_of_format_8_finds_the_owner_of_a_subkey() {
    let (owner, subkey, mut adopters) = owner_and_adopters();
    let folder = Folder::new();
    adopters.push(owner.clone());
    drop(folder.filled(&adopters));
    let connection = Connection::open(folder.path()).unwrap();
    make_format_8(&connection);
    drop(connection);
    let store = Store::open(&folder.path(), talaria_store::Access::Read).unwrap();
    // It is not known who has signed back. Owners of primary keys are known.
    assert_eq!(found(&store, subkey).len(), HOLDERS_MAX);
    for cert in &adopters {
        assert_eq!(found(&store, cert.fingerprint()), [cert.fingerprint()]);
    }
    assert_clean(&store);
    drop(store);
    let store = folder.store();
    assert_eq!(store.upgraded_from(), Some(8));
    assert_eq!(found(&store, subkey)[0], owner.fingerprint());
    assert_clean(&store);
}
