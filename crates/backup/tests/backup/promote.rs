//! Whose packs a client may rely on: its own, and those that a reader has signed for.

use std::collections::BTreeSet;
use std::fs;
use std::sync::atomic::Ordering;

use talaria_backup::{
    Backend as _, BackupError, BackupProgress, Change, Checked, EpochProfile, Expected, Heads,
    Keys, ReadData, Repository, Role,
};
use talaria_message::openpgp::Cert;
use talaria_message::openpgp::types::ReasonForRevocation;

use crate::create::{back_up, files};
use crate::people::{NOW, Place, name, person, revoked, signer};

/// More than the tree of the test's files has.
const TREE_BYTES: u64 = 10_000;

/// A repository of Alice with a client, Carol, and a reader, Bob.
fn place() -> (Place, Cert, Cert) {
    let place = Place::new(EpochProfile::Rfc9580);
    let (bob, carol) = (person("bob"), person("carol"));
    let (mut repository, keys) = place.open_as(&place.alice);
    for change in [Change::AddReader(&bob), Change::AddClient(&carol)] {
        repository.change(&keys, &change, &mut signer(&place.alice), NOW).unwrap();
    }
    (place, bob, carol)
}

fn set_roles(place: &Place, who: &Cert, roles: BTreeSet<Role>) {
    let (mut repository, keys) = place.open_as(&place.alice);
    let change = Change::SetRoles(&name(who), roles);
    repository.change(&keys, &change, &mut signer(&place.alice), NOW).unwrap();
}

fn promote(
    repository: &Repository,
    keys: &Keys,
    (who, by): (&Cert, &Cert),
) -> Result<Checked, BackupError> {
    let by = (&name(who), &mut signer(by));
    let progress = BackupProgress::default();
    repository.check_and_promote(keys, by, ReadData::No, &Heads::new(), &progress, NOW)
}

/// Bytes that a client stores for the files, with a state of its own.
fn new_bytes(place: &Place, client: &Cert, turn: &str) -> u64 {
    let (repository, keys) = place.open_as(client);
    let state = place.path(&format!("../state {turn}"));
    let root = place.path("../files").canonicalize().unwrap();
    let (_, progress) = back_up(&repository, &keys, client, &state, &root, NOW).unwrap();
    progress.new_bytes.load(Ordering::Relaxed)
}

#[test]
fn a_client_stores_nothing_again_that_a_reader_has_verified() {
    let (place, bob, carol) = place();
    files(&place);
    let all = new_bytes(&place, &carol, "of carol");
    let before = place.backend().list("packs").unwrap().len() as u64;
    // Bob reads everything, and his word does not count yet.
    let (repository, keys) = place.open_as(&bob);
    let refused = promote(&repository, &keys, (&bob, &bob)).unwrap_err();
    assert!(refused.to_string().contains("no role \"prune\""), "{refused}");
    assert!(!place.path("verified").exists());
    set_roles(&place, &bob, [Role::Prune, Role::Create].into());
    let (repository, keys) = place.open_as(&bob);
    let checked = promote(&repository, &keys, (&bob, &bob)).unwrap();
    assert!(checked.problems.is_empty(), "{checked:?}");
    assert_eq!((checked.promoted, checked.packs_read), (before, before));
    assert!(all > 9_000_000 && new_bytes(&place, &place.alice, "of alice") < TREE_BYTES);
    // Only what is new is read the next time.
    let again = promote(&repository, &keys, (&bob, &bob)).unwrap();
    assert!(again.packs_read <= 1 && again.problems.is_empty(), "{again:?}");
    // His confirmations end with his role.
    set_roles(&place, &bob, BTreeSet::new());
    assert!(new_bytes(&place, &place.alice, "new") > 9_000_000);
    let (repository, keys) = place.open_as(&place.alice);
    let checked = repository
        .check(&keys, ReadData::No, &Heads::new(), &BackupProgress::default(), NOW)
        .unwrap();
    assert!(checked.problems.is_empty(), "he had the role: {checked:?}");
}

#[test]
fn a_client_relies_on_its_own_packs_without_confirmation() {
    let (place, ..) = place();
    files(&place);
    assert!(new_bytes(&place, &place.alice, "one") > 9_000_000);
    assert!(new_bytes(&place, &place.alice, "two") < TREE_BYTES);
    // She has the role, and the client has not: her packs are not verified.
    let carol = person("dora");
    let (mut repository, keys) = place.open_as(&place.alice);
    let change = Change::AddClient(&carol);
    repository.change(&keys, &change, &mut signer(&place.alice), NOW).unwrap();
    assert!(new_bytes(&place, &carol, "three") > 9_000_000);
}

#[test]
fn forged_and_foreign_confirmations_have_no_effect_and_are_named() {
    let (place, bob, carol) = place();
    files(&place);
    assert!(new_bytes(&place, &carol, "of carol") > 9_000_000);
    set_roles(&place, &bob, [Role::Prune].into());
    let wrong = |why: &str| {
        assert!(new_bytes(&place, &place.alice, why) > 9_000_000, "{why}");
        let (repository, keys) = place.open_as(&place.alice);
        let progress = BackupProgress::default();
        let checked = repository.check(&keys, ReadData::No, &Heads::new(), &progress, NOW).unwrap();
        let found = checked.problems.iter().find(|one| one.object.starts_with("verified/"));
        assert!(found.is_some_and(|one| one.why.contains(why)), "{why}: {checked:?}");
        fs::remove_dir_all(place.path("verified")).unwrap();
        // Her own packs would be relied on.
        for folder in ["packs", "indexes", "snapshots"] {
            fs::remove_dir_all(place.path(folder)).unwrap();
        }
        assert!(new_bytes(&place, &carol, &format!("of carol, {why}")) > 9_000_000);
    };
    // Signed by a client in the name of Bob, and by somebody unknown.
    let (repository, keys) = place.open_as(&bob);
    promote(&repository, &keys, (&bob, &carol)).unwrap();
    wrong("no such role");
    let (repository, keys) = place.open_as(&bob);
    promote(&repository, &keys, (&bob, &person("mallory"))).unwrap();
    wrong("the certificate of its signer is not here");
    // A document of another repository of the same people.
    let (repository, keys) = place.open_as(&bob);
    promote(&repository, &keys, (&bob, &bob)).unwrap();
    let document = fs::read_dir(place.path("verified")).unwrap().next().unwrap().unwrap();
    let (other, ..) = self::place();
    fs::create_dir_all(other.path("verified")).unwrap();
    fs::copy(document.path(), other.path("verified").join(document.file_name())).unwrap();
    let (repository, keys) = other.open_as(&other.alice);
    let checked = repository
        .check(&keys, ReadData::No, &Heads::new(), &BackupProgress::default(), NOW)
        .unwrap();
    assert!(checked.problems.iter().any(|one| one.object.starts_with("verified/")), "{checked:?}");
    // One that was changed.
    let mut bytes = fs::read(document.path()).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(document.path(), bytes).unwrap();
    wrong("");
}

/// A thief of a reader's key can confirm garbage.
#[test]
fn confirmations_by_a_compromised_reader_have_no_effect_and_are_named() {
    let (place, bob, carol) = place();
    files(&place);
    assert!(new_bytes(&place, &carol, "of carol") > 9_000_000);
    set_roles(&place, &bob, [Role::Prune].into());
    let (repository, keys) = place.open_as(&bob);
    promote(&repository, &keys, (&bob, &bob)).unwrap();
    let root = place.path("../files").canonicalize().unwrap();
    let new_bytes_if = |reason, turn: &str| {
        let cert = revoked(&bob, reason, NOW + 1);
        let mut known = |one: &_| (*one == name(&bob)).then(|| cert.clone());
        let expected = Expected::default();
        let repository = Repository::open(place.backend(), &expected, &mut known, NOW + 2).unwrap();
        let (_, keys) = place.open_as(&place.alice);
        let progress = BackupProgress::default();
        let checked =
            repository.check(&keys, ReadData::No, &Heads::new(), &progress, NOW + 2).unwrap();
        let named = checked.problems.into_iter().find(|one| one.object.starts_with("verified/"));
        let state = place.path(&format!("../state {turn}"));
        let run = back_up(&repository, &keys, &place.alice, &state, &root, NOW + 2).unwrap();
        (run.1.new_bytes.load(Ordering::Relaxed), named)
    };
    let (stored, named) = new_bytes_if(ReasonForRevocation::KeyCompromised, "compromised");
    assert!(stored > 9_000_000, "{stored}");
    assert!(named.is_some_and(|one| one.why.contains("take the role `prune`")));
    // Her own packs would be relied on.
    for folder in ["packs", "indexes", "snapshots", "verified"] {
        fs::remove_dir_all(place.path(folder)).unwrap();
    }
    new_bytes(&place, &carol, "of carol, again");
    promote(&repository, &keys, (&bob, &bob)).unwrap();
    // A key that was retired afterwards did read them.
    let (stored, named) = new_bytes_if(ReasonForRevocation::KeyRetired, "retired");
    assert!(stored < TREE_BYTES && named.is_none(), "{stored} {named:?}");
}

/// An index of a thief that says of a good pack what it does not have.
#[test]
fn an_index_that_contradicts_a_verified_pack_is_not_relied_on() {
    let (place, bob, carol) = place();
    let root = files(&place);
    new_bytes(&place, &carol, "of carol");
    set_roles(&place, &bob, [Role::Prune].into());
    let (repository, keys) = place.open_as(&bob);
    promote(&repository, &keys, (&bob, &bob)).unwrap();
    // Content that Alice will have next week. The thief of Carol's machine can compute the
    // identifiers of its chunks.
    let before = place.backend().list("indexes").unwrap();
    fs::write(root.join("next"), crate::create::noise(77, 3_000_000)).unwrap();
    new_bytes(&place, &carol, "of carol, next");
    let after = place.backend().list("indexes").unwrap();
    let new = after.iter().find(|index| !before.contains(index)).unwrap();
    let (theirs, their_keys) = place.open_as(&carol);
    let index = theirs.read_index(&their_keys, &new.name, NOW).unwrap();
    let old = theirs.read_index(&their_keys, &before[0].name, NOW).unwrap();
    let mut forged = old[0].clone();
    let chunk = index[0].chunks.iter().find(|chunk| chunk.plain > 100_000).unwrap();
    for place in &mut forged.chunks {
        place.id = chunk.id;
    }
    fs::remove_file(place.path(&new.name)).unwrap();
    theirs.write_index(&[forged], Some(&mut signer(&carol)), NOW).unwrap();
    assert!(new_bytes(&place, &place.alice, "of alice") > 2_900_000);
    // Nor is it with Bob's word about the forged index: he says what he has read.
    let (repository, keys) = place.open_as(&bob);
    let checked = promote(&repository, &keys, (&bob, &bob)).unwrap();
    let progress = BackupProgress::default();
    let read = repository.check(&keys, ReadData::All, &Heads::new(), &progress, NOW).unwrap();
    let says = |checked: &Checked| {
        checked.problems.iter().any(|one| one.why.contains("an index names chunks"))
    };
    assert!(says(&read), "{checked:?} {read:?}");
    assert!(new_bytes(&place, &place.alice, "of alice, new") < TREE_BYTES);
}

#[test]
fn a_missing_verified_pack_counts_as_absent() {
    let (place, bob, carol) = place();
    files(&place);
    new_bytes(&place, &carol, "of carol");
    set_roles(&place, &bob, [Role::Prune].into());
    let (repository, keys) = place.open_as(&bob);
    promote(&repository, &keys, (&bob, &bob)).unwrap();
    fs::remove_dir_all(place.path("packs")).unwrap();
    assert!(new_bytes(&place, &place.alice, "of alice") > 9_000_000);
}
