//! Forgetting snapshots: who may, and what others can make of it.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use talaria_backup::{
    Backend, BackupError, Change, EpochProfile, Expected, Heads, Id, Keys, Repository, Role,
    SnapshotName, heads, irregularities,
};
use talaria_message::openpgp::Cert;

use crate::people::{NOW, Place, name, person, signer, snapshot};
use crate::prune::{AT_ONCE, Hooked};

fn write(
    repository: &Repository,
    keys: &Keys,
    client: &Cert,
    number: u64,
    previous: Option<Id>,
) -> SnapshotName {
    let snapshot = snapshot(client, number, previous);
    let id = repository.write_snapshot(keys, &snapshot, Some(&mut signer(client)), NOW).unwrap();
    SnapshotName { client: Some(name(client)), number, id }
}

fn forget(
    repository: &Repository,
    keys: &Keys,
    what: &SnapshotName,
    by: &Cert,
) -> Result<(), BackupError> {
    repository.forget(keys, &[what.clone()].into(), (&name(by), &mut signer(by)), NOW)
}

/// The identifiers of the snapshots, and the number of faults in their chains.
fn seen(repository: &Repository, keys: &Keys, heads: &Heads) -> (Vec<Id>, usize) {
    let (listed, forgotten, unreadable) = repository.survey(keys, NOW).unwrap();
    let ids = listed.iter().map(|listed| listed.id).collect();
    (ids, irregularities(&listed, &forgotten, heads).len() + unreadable.len())
}

#[test]
fn a_forgotten_snapshot_leaves_no_gap_and_its_object_is_ignored() {
    let place = Place::new(EpochProfile::Rfc9580);
    let (repository, keys) = place.open_as(&place.alice);
    let first = write(&repository, &keys, &place.alice, 1, None);
    let second = write(&repository, &keys, &place.alice, 2, Some(first.id));
    let known = heads(&repository.snapshots(&keys, NOW).unwrap().0);
    forget(&repository, &keys, &second, &place.alice).unwrap();
    assert_eq!(seen(&repository, &keys, &known), (vec![first.id], 0));
    // Whether the object is there or was deleted makes no difference.
    let path = place.path(&format!("snapshots/{}", second.id));
    let object = fs::read(&path).unwrap();
    fs::remove_file(&path).unwrap();
    assert_eq!(seen(&repository, &keys, &known), (vec![first.id], 0));
    fs::write(&path, object).unwrap();
    assert_eq!(seen(&repository, &keys, &known), (vec![first.id], 0));
    // Without the tombstone, the gap is named.
    fs::remove_file(&path).unwrap();
    fs::remove_dir_all(place.path("forgotten")).unwrap();
    assert_eq!(seen(&repository, &keys, &known), (vec![first.id], 1));
}

/// A repository of Alice in which she has forgotten 40 snapshots, and Carol 10, one at a time.
fn many_tombstones() -> (Place, BTreeSet<Id>) {
    let place = Place::new(EpochProfile::Rfc9580);
    let carol = person("carol");
    let (mut repository, keys) = place.open_as(&place.alice);
    let of_carol = name(&carol);
    for change in [
        Change::AddClient(&carol),
        Change::SetRoles(&of_carol, [Role::Create, Role::Forget].into()),
    ] {
        repository.change(&keys, &change, &mut signer(&place.alice), NOW).unwrap();
    }
    let mut ids = BTreeSet::new();
    let mut last = None;
    for number in 1..=50 {
        let snapshot = write(&repository, &keys, &place.alice, number, last);
        last = Some(snapshot.id);
        ids.insert(snapshot.id);
        let by = if number % 5 == 0 { &carol } else { &place.alice };
        forget(&repository, &keys, &snapshot, by).unwrap();
    }
    (place, ids)
}

fn prune(place: &Place, storage: Arc<dyn Backend>) -> Result<(), BackupError> {
    let (_, keys) = place.open_as(&place.alice);
    let repository = Repository::open(storage, &Expected::default(), &mut |_| None, NOW)?;
    let by = (&name(&place.alice), signer(&place.alice));
    repository.prune(&keys, by, &AT_ONCE, &mut |_| Ok(0), &Arc::default(), NOW).map(|_| ())
}

/// The forgotten snapshots, and the number of documents that name them.
fn forgotten(place: &Place) -> (BTreeSet<Id>, usize) {
    let (repository, keys) = place.open_as(&place.alice);
    let (_, forgotten, unreadable) = repository.survey(&keys, NOW).unwrap();
    assert!(unreadable.is_empty(), "{unreadable:?}");
    let documents = fs::read_dir(place.path("forgotten")).unwrap().count();
    (forgotten.iter().map(|one| one.id).collect(), documents)
}

/// Every command reads all tombstones.
#[test]
fn a_prune_makes_few_documents_of_many_tombstones() {
    let (place, ids) = many_tombstones();
    assert_eq!(forgotten(&place), (ids.clone(), 50));
    // Nobody signs for what another has forgotten, and few documents stay as they are.
    for _ in 0..2 {
        prune(&place, place.backend()).unwrap();
        assert_eq!(forgotten(&place), (ids.clone(), 11));
    }
}

#[test]
fn wherever_a_prune_dies_all_tombstones_count() {
    let (place, ids) = many_tombstones();
    for allowed in 0.. {
        let storage = Arc::new(Hooked::new(&place));
        storage.changes.store(allowed, Ordering::Relaxed);
        let pruned = prune(&place, storage);
        let (still, documents) = forgotten(&place);
        assert_eq!(still, ids, "{allowed}");
        if pruned.is_ok() {
            assert!(documents < 10 + 32, "{documents}");
            break;
        }
    }
}

#[test]
fn tombstones_signed_without_the_role_have_no_effect() {
    let place = Place::new(EpochProfile::Rfc9580);
    let carol = person("carol");
    let (mut repository, keys) = place.open_as(&place.alice);
    repository.change(&keys, &Change::AddClient(&carol), &mut signer(&place.alice), NOW).unwrap();
    let snapshot = write(&repository, &keys, &carol, 1, None);
    let refused = forget(&repository, &keys, &snapshot, &carol);
    assert!(matches!(refused, Err(BackupError::Refused(_))), "not even its own");
    // A thief of the client's key does not ask: the name of the owner, and the client's signature.
    let by = (&name(&place.alice), &mut signer(&carol));
    repository.forget(&keys, &[snapshot.clone()].into(), by, NOW).unwrap();
    assert_eq!(fs::read_dir(place.path("forgotten")).unwrap().count(), 1);
    assert_eq!(seen(&repository, &keys, &Heads::new()), (vec![snapshot.id], 0));
    // With the role, it has.
    let of_carol = name(&carol);
    let roles = |roles: &[Role]| Change::SetRoles(&of_carol, roles.iter().copied().collect());
    let mut change = |change| repository.change(&keys, &change, &mut signer(&place.alice), NOW);
    assert!(matches!(change(roles(&[Role::Prune])), Err(BackupError::Refused(_))), "no reader");
    change(roles(&[Role::Forget])).unwrap();
    let (mut repository, keys) = place.open_as(&place.alice);
    assert_eq!(seen(&repository, &keys, &Heads::new()), (vec![], 0));
    // Before a role is removed, the tombstones of its holder are signed again.
    let by = (&name(&place.alice), &mut signer(&place.alice));
    assert_eq!(repository.renew_tombstones(&keys, &name(&carol), by, NOW).unwrap(), 1);
    repository.change(&keys, &roles(&[]), &mut signer(&place.alice), NOW).unwrap();
    assert_eq!(seen(&repository, &keys, &Heads::new()), (vec![], 0));
}

#[test]
fn a_changed_or_foreign_tombstone_has_no_effect() {
    let (place, other) = (Place::new(EpochProfile::Rfc9580), Place::new(EpochProfile::Rfc9580));
    let (repository, keys) = place.open_as(&place.alice);
    let snapshot = write(&repository, &keys, &place.alice, 1, None);
    forget(&repository, &keys, &snapshot, &place.alice).unwrap();
    let path = fs::read_dir(place.path("forgotten")).unwrap().next().unwrap().unwrap().path();
    let good = fs::read(&path).unwrap();
    for at in [0, 1, good.len() / 3, good.len() / 2, good.len() - 20, good.len() - 1] {
        let mut bad = good.clone();
        bad[at] ^= 4;
        fs::write(&path, &bad).unwrap();
        assert_eq!(seen(&repository, &keys, &Heads::new()), (vec![snapshot.id], 1), "byte {at}");
    }
    // From another repository with the same people; under the name of another document.
    let (theirs, their_keys) = other.open_as(&other.alice);
    forget(&theirs, &their_keys, &snapshot, &other.alice).unwrap();
    let foreign = fs::read_dir(other.path("forgotten")).unwrap().next().unwrap().unwrap().path();
    fs::copy(&foreign, &path).unwrap();
    assert_eq!(seen(&repository, &keys, &Heads::new()), (vec![snapshot.id], 1));
    fs::write(&path, &good).unwrap();
    fs::rename(&path, path.with_file_name(snapshot.id.to_string())).unwrap();
    assert_eq!(seen(&repository, &keys, &Heads::new()), (vec![snapshot.id], 1));
    fs::rename(path.with_file_name(snapshot.id.to_string()), &path).unwrap();
    assert_eq!(seen(&repository, &keys, &Heads::new()), (vec![], 0));
}

#[test]
fn a_protected_snapshot_stays_until_the_protection_ends() {
    let place = Place::new(EpochProfile::Rfc9580);
    let carol = person("carol");
    let (mut repository, keys) = place.open_as(&place.alice);
    let alice = &place.alice;
    repository.change(&keys, &Change::AddClient(&carol), &mut signer(alice), NOW).unwrap();
    let snapshot = write(&repository, &keys, alice, 1, None);
    let by_carol = (&name(&carol), &mut signer(&carol));
    assert!(repository.protect(&keys, &snapshot, by_carol, NOW).is_err());
    repository.protect(&keys, &snapshot, (&name(alice), &mut signer(alice)), NOW).unwrap();
    let refused = forget(&repository, &keys, &snapshot, alice).unwrap_err().to_string();
    assert!(refused.contains("protected"), "{refused}");
    assert!(repository.unprotect(&keys, &snapshot.id, NOW).unwrap());
    assert!(!repository.unprotect(&keys, &snapshot.id, NOW).unwrap());
    forget(&repository, &keys, &snapshot, alice).unwrap();
    // Too late: its content may be gone.
    let late = repository.protect(&keys, &snapshot, (&name(alice), &mut signer(alice)), NOW);
    assert!(matches!(late, Err(BackupError::Refused(_))));
    assert_eq!(seen(&repository, &keys, &Heads::new()), (vec![], 0));
}

#[test]
fn an_object_that_cannot_be_read_can_be_forgotten() {
    let place = Place::new(EpochProfile::Rfc9580);
    let (repository, keys) = place.open_as(&place.alice);
    let id = Id([9; 32]);
    fs::create_dir_all(place.path("snapshots")).unwrap();
    fs::write(place.path(&format!("snapshots/{id}")), "noise").unwrap();
    assert_eq!(seen(&repository, &keys, &Heads::new()).1, 1);
    forget(&repository, &keys, &SnapshotName::unreadable(id), &place.alice).unwrap();
    assert_eq!(seen(&repository, &keys, &Heads::new()), (vec![], 0));
}
