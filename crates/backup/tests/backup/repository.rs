//! Permissions to read, write and change a repository, and the limits of a thief of the storage.

use std::fs;

use talaria_backup::{
    BackupError, Change, DocumentStanding, EpochProfile, Expected, Forgotten, Head, Heads, Id,
    InitOptions, Keys, Repository, Snapshot, irregularities, select,
};
use talaria_message::openpgp::Cert;
use talaria_message::openpgp::types::ReasonForRevocation;

use crate::people::{NOW, Place, name, person, revoked, secrets, signer, snapshot};

#[test]
fn a_snapshot_is_written_and_listed_in_every_profile() {
    for profile in EpochProfile::ALL {
        let place = Place::new(profile);
        let (repository, keys) = place.open_as(&place.alice);
        assert!(keys.can_read() || profile == EpochProfile::None);
        let written = snapshot(&place.alice, 1, None);
        let id = repository
            .write_snapshot(&keys, &written, Some(&mut signer(&place.alice)), NOW)
            .unwrap();
        let (listed, unreadable) = repository.snapshots(&keys, NOW).unwrap();
        assert!(unreadable.is_empty(), "{unreadable:?}");
        assert_eq!(listed.len(), 1);
        assert_eq!((listed[0].id, &listed[0].snapshot), (id, &written));
        assert_eq!(listed[0].standing, DocumentStanding::Good(name(&place.alice)), "{profile}");
    }
}

#[test]
fn a_place_with_a_repository_is_refused_for_a_new_one() {
    let place = Place::new(EpochProfile::Rfc4880);
    let before = fs::read(place.path("config/00000001")).unwrap();
    let init = || {
        let options = InitOptions {
            owner: &place.alice,
            readers: std::slice::from_ref(&place.alice),
            profile: EpochProfile::Rfc4880,
            signed: true,
        };
        Repository::init(place.backend(), &options, &mut signer(&place.alice), NOW).map(|_| ())
    };
    assert!(matches!(init(), Err(BackupError::Occupied)));
    fs::remove_file(place.path("talaria-backup")).unwrap();
    assert!(matches!(init(), Err(BackupError::Refused(_))), "an unfinished one");
    assert_eq!(fs::read(place.path("config/00000001")).unwrap(), before);
}

#[test]
fn a_repository_of_a_newer_format_is_named_and_left_alone() {
    let place = Place::new(EpochProfile::Rfc4880);
    let mark = fs::read_to_string(place.path("talaria-backup")).unwrap();
    fs::write(place.path("talaria-backup"), mark.replace("repository 1", "repository 2")).unwrap();
    let error = place.open().map(|_| ()).unwrap_err();
    assert!(matches!(error, BackupError::Newer { .. }), "{error}");
}

#[test]
fn a_changed_configuration_is_refused() {
    let place = Place::new(EpochProfile::Rfc4880);
    let path = place.path("config/00000001");
    let good = fs::read(&path).unwrap();
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 1;
        fs::write(&path, &bad).unwrap();
        // A flipped bit in the unhashed part of the signature changes nothing that counts.
        if let Ok(repository) = place.open() {
            let text = |repository: &Repository| format!("{:?}", repository.config());
            fs::write(&path, &good).unwrap();
            assert_eq!(text(&repository), text(&place.open().unwrap()), "byte {at}");
        }
    }
}

#[test]
fn a_replaced_repository_and_a_rolled_back_configuration_are_refused() {
    let place = Place::new(EpochProfile::Rfc4880);
    let other = Place::new(EpochProfile::Rfc4880);
    let expecting = |place: &Place, configuration| {
        let expected = Expected { owner: Some(name(&place.alice)), configuration };
        place.open_expecting(&expected).map(|_| ())
    };
    expecting(&place, 1).unwrap();
    let replaced =
        other.open_expecting(&Expected { owner: Some(name(&place.alice)), configuration: 1 });
    assert!(replaced.map(|_| ()).unwrap_err().to_string().contains("replaced"));
    let (mut repository, keys) = place.open_as(&place.alice);
    let bob = person("bob");
    repository.change(&keys, &Change::AddReader(&bob), &mut signer(&place.alice), NOW).unwrap();
    expecting(&place, 2).unwrap();
    fs::remove_file(place.path("config/00000002")).unwrap();
    assert!(expecting(&place, 2).unwrap_err().to_string().contains("rolled it back"));
    // Without a pin nobody can know.
    expecting(&place, 0).unwrap();
    // The configuration of another repository does not fit.
    fs::copy(other.path("config/00000001"), place.path("config/00000001")).unwrap();
    assert!(place.open().is_err());
}

#[test]
fn a_replaced_group_secret_is_refused() {
    let place = Place::new(EpochProfile::Rfc4880);
    let other = Place::new(EpochProfile::Rfc4880);
    let (mut repository, keys) = other.open_as(&other.alice);
    // Anybody can encrypt a secret of their own to Alice.
    repository
        .change(&keys, &Change::AddReader(&place.alice), &mut signer(&other.alice), NOW)
        .unwrap();
    let secret = format!("keys/group/{}.pgp", name(&place.alice).to_hex());
    fs::copy(other.path(&secret), place.path(&secret)).unwrap();
    let repository = place.open().unwrap();
    let refused = repository.unlock(&mut secrets(&place.alice), &[name(&place.alice)]);
    let said = refused.map(|_| ()).unwrap_err().to_string();
    assert!(said.contains("keys/group/") && said.contains("configuration names"), "{said}");
}

#[test]
fn only_an_admin_changes_the_configuration() {
    let place = Place::new(EpochProfile::Rfc4880);
    let (mut repository, keys) = place.open_as(&place.alice);
    let (bob, mallory) = (person("bob"), person("mallory"));
    repository.change(&keys, &Change::AddReader(&bob), &mut signer(&place.alice), NOW).unwrap();
    let (mut repository, keys) = place.open_as(&bob);
    let change = Change::AddReader(&mallory);
    let refused = repository.change(&keys, &change, &mut signer(&bob), NOW);
    assert!(matches!(refused, Err(BackupError::Refused(_))), "{refused:?}");
    assert!(!place.path("config/00000003").exists());
    assert_eq!(repository.config().number, 2);
}

#[test]
fn a_client_lists_snapshots_and_reads_no_data() {
    let place = Place::new(EpochProfile::Rfc9580);
    let carol = person("carol");
    let (mut repository, keys) = place.open_as(&place.alice);
    repository.change(&keys, &Change::AddClient(&carol), &mut signer(&place.alice), NOW).unwrap();
    let (repository, keys) = place.open_as(&carol);
    assert!(!keys.can_read());
    let first = snapshot(&carol, 1, None);
    repository.write_snapshot(&keys, &first, Some(&mut signer(&carol)), NOW).unwrap();
    let (listed, _) = repository.snapshots(&keys, NOW).unwrap();
    assert_eq!(listed[0].standing, DocumentStanding::Good(name(&carol)));
    // Nor can a client give access.
    let (mut repository, keys) = place.open_as(&carol);
    let change = Change::AddReader(&carol);
    assert!(repository.change(&keys, &change, &mut signer(&place.alice), NOW).is_err());
}

#[test]
fn a_removed_reader_reads_old_epochs_only() {
    let place = Place::new(EpochProfile::Rfc4880);
    let bob = person("bob");
    let (mut repository, keys) = place.open_as(&place.alice);
    repository.change(&keys, &Change::AddReader(&bob), &mut signer(&place.alice), NOW).unwrap();
    repository.change(&keys, &Change::Remove(&name(&bob)), &mut signer(&place.alice), NOW).unwrap();
    let repository = place.open().unwrap();
    assert_eq!(repository.config().newest_epoch().number, 2);
    assert!(repository.unlock(&mut secrets(&bob), &[name(&bob)]).is_err());
    assert!(
        place.path(&format!("keys/1/{}.pgp", name(&bob).to_hex())).exists(),
        "he may have a copy"
    );
    assert!(!place.path(&format!("keys/2/{}.pgp", name(&bob).to_hex())).exists());
    let last = repository.unlock(&mut secrets(&place.alice), &[name(&place.alice)]).unwrap();
    let (mut repository, _) = place.open_as(&place.alice);
    let nobody = Change::Remove(&name(&place.alice));
    assert!(repository.change(&last, &nobody, &mut signer(&place.alice), NOW).is_err());
}

#[test]
fn a_snapshot_that_nobody_here_signed_does_not_count() {
    let place = Place::new(EpochProfile::Rfc4880);
    let mallory = person("mallory");
    let (repository, keys) = place.open_as(&place.alice);
    let write = |client: &Cert, by: Option<&Cert>| {
        let mut key = by.map(signer);
        let snapshot = snapshot(client, 1, None);
        let id = repository.write_snapshot(&keys, &snapshot, key.as_mut(), NOW).unwrap();
        let (listed, _) = repository.snapshots(&keys, NOW).unwrap();
        let found = listed.into_iter().find(|listed| listed.id == id).unwrap();
        fs::remove_file(place.path(&format!("snapshots/{id}"))).unwrap();
        found.standing
    };
    assert_eq!(write(&place.alice, Some(&place.alice)), DocumentStanding::Good(name(&place.alice)));
    for (client, by) in [
        (&place.alice, Some(&mallory)),
        (&mallory, Some(&mallory)),
        (&mallory, Some(&place.alice)),
        (&place.alice, None),
    ] {
        let standing = write(client, by);
        assert!(matches!(standing, DocumentStanding::Foreign(_)), "{standing:?}");
    }
}

#[test]
fn a_snapshot_under_another_name_or_of_another_repository_is_damage() {
    let place = Place::new(EpochProfile::Rfc4880);
    let (repository, keys) = place.open_as(&place.alice);
    let written = snapshot(&place.alice, 1, None);
    let id =
        repository.write_snapshot(&keys, &written, Some(&mut signer(&place.alice)), NOW).unwrap();
    let path = place.path(&format!("snapshots/{id}"));
    let other = place.path(&format!("snapshots/{}", Id([7; 32])));
    fs::copy(&path, &other).unwrap();
    let (listed, unreadable) = repository.snapshots(&keys, NOW).unwrap();
    assert_eq!((listed.len(), unreadable.len()), (1, 1));
    assert!(unreadable[0].to_string().contains(&Id([7; 32]).to_string()), "{unreadable:?}");
    fs::remove_file(other).unwrap();
    let stranger = Place::new(EpochProfile::Rfc4880);
    fs::create_dir_all(stranger.path("snapshots")).unwrap();
    fs::copy(&path, stranger.path(&format!("snapshots/{id}"))).unwrap();
    let (repository, keys) = stranger.open_as(&stranger.alice);
    let (listed, unreadable) = repository.snapshots(&keys, NOW).unwrap();
    assert_eq!((listed.len(), unreadable.len()), (0, 1), "{listed:?}");
}

#[test]
fn a_revoked_signer_is_reported_and_prevents_no_listing() {
    let place = Place::new(EpochProfile::Rfc4880);
    let (repository, keys) = place.open_as(&place.alice);
    let written = snapshot(&place.alice, 1, None);
    repository.write_snapshot(&keys, &written, Some(&mut signer(&place.alice)), NOW).unwrap();
    let revoked = revoked(&place.alice, ReasonForRevocation::KeyCompromised, NOW);
    let mut known = |_: &_| Some(revoked.clone());
    let backend = place.backend();
    let repository = Repository::open(backend, &Expected::default(), &mut known, NOW).unwrap();
    assert!(
        matches!(repository.standing(), DocumentStanding::Doubtful(..)),
        "{:?}",
        repository.standing()
    );
    let (listed, _) = repository.snapshots(&keys, NOW).unwrap();
    assert!(listed[0].is_unattested && !listed[0].standing.counts(), "{:?}", listed[0].standing);
    // She is the owner, so nobody can attest it; by its name it can be restored.
    assert_eq!(select(&listed, &listed[0].id.to_string(), None).unwrap().id, listed[0].id);
    let refused = select(&listed, "latest", None).unwrap_err().to_string();
    assert!(refused.contains("by its identifier"), "{refused}");
    let by = (&name(&place.alice), &mut signer(&place.alice));
    let refused = repository.attest(&keys, &listed, &listed[0], by, NOW).unwrap_err();
    assert!(refused.to_string().contains("revoked"), "{refused}");
}

/// A stolen client's key is revoked. Its snapshots count as far as the owner says so, and no
/// further.
#[test]
fn snapshots_of_a_compromised_key_count_only_if_the_owner_attested_them_or_a_later_one() {
    let place = Place::new(EpochProfile::Rfc9580);
    let carol = person("carol");
    let (mut repository, keys) = place.open_as(&place.alice);
    repository.change(&keys, &Change::AddClient(&carol), &mut signer(&place.alice), NOW).unwrap();
    let write = |number, previous, time| {
        let snapshot = Snapshot { time, ..snapshot(&carol, number, previous) };
        repository.write_snapshot(&keys, &snapshot, Some(&mut signer(&carol)), NOW).unwrap()
    };
    let first = write(1, None, NOW);
    let second = write(2, Some(first), NOW);
    // The thief dates a branch back, and continues the chain.
    let branch = write(2, Some(first), NOW - 1000);
    let third = write(3, Some(second), NOW);
    let compromised = revoked(&carol, ReasonForRevocation::KeyCompromised, NOW);
    let open = || {
        let mut known = |one: &_| (*one == name(&carol)).then(|| compromised.clone());
        Repository::open(place.backend(), &Expected::default(), &mut known, NOW).unwrap()
    };
    let counting = |keys: &Keys| -> Vec<Id> {
        let (listed, unreadable) = open().snapshots(keys, NOW).unwrap();
        assert!(unreadable.is_empty(), "{unreadable:?}");
        listed.iter().filter(|one| one.standing.counts()).map(|one| one.id).collect()
    };
    assert!(counting(&keys).is_empty());
    let (listed, _) = open().snapshots(&keys, NOW).unwrap();
    let head = listed.iter().find(|one| one.id == second).unwrap();
    assert!(select(&listed, "latest", None).unwrap_err().to_string().contains("attest"));
    // Only the owner's word counts.
    let by = (&name(&carol), &mut signer(&carol));
    let refused = open().attest(&keys, &listed, head, by, NOW).unwrap_err().to_string();
    assert!(refused.contains("is not the owner"), "{refused}");
    let by = (&name(&place.alice), &mut signer(&carol));
    repository.attest(&keys, &listed, head, by, NOW).unwrap();
    let (listed, unreadable) = open().snapshots(&keys, NOW).unwrap();
    assert!(listed.iter().all(|one| !one.standing.counts()));
    assert!(unreadable[0].to_string().contains("attested/"), "{unreadable:?}");
    fs::remove_dir_all(place.path("attested")).unwrap();
    let by = (&name(&place.alice), &mut signer(&place.alice));
    assert_eq!(open().attest(&keys, &listed, head, by, NOW).unwrap(), 2);
    let counting = counting(&keys);
    assert_eq!(counting.len(), 2);
    assert!(counting.contains(&first) && counting.contains(&second));
    let (listed, _) = open().snapshots(&keys, NOW).unwrap();
    assert!(listed.iter().all(|one| one.is_unattested == [branch, third].contains(&one.id)));
    assert_eq!(select(&listed, "latest", None).unwrap().id, second);
    // The owner's word stands when the client is removed.
    let change = Change::Remove(&name(&carol));
    repository.change(&keys, &change, &mut signer(&place.alice), NOW).unwrap();
    let (_, keys) = place.open_as(&place.alice);
    let (listed, _) = open().snapshots(&keys, NOW).unwrap();
    assert_eq!(select(&listed, "latest", None).unwrap().id, second);
    assert_eq!(listed.iter().filter(|one| one.standing.counts()).count(), 2);
    // The later ones are there, and nobody reports them as missing.
    let seen = Heads::from([(Some(name(&carol)), Head { number: 3, id: third })]);
    assert!(irregularities(&listed, &Forgotten::default(), &seen).is_empty());
    let attested = fs::read_dir(place.path("attested")).unwrap().next().unwrap().unwrap();
    // An attestation of another repository is none.
    let stranger = Place::new(EpochProfile::Rfc9580);
    fs::create_dir_all(stranger.path("attested")).unwrap();
    let copy = stranger.path("attested").join(attested.file_name());
    fs::copy(attested.path(), copy).unwrap();
    let (repository, keys) = stranger.open_as(&stranger.alice);
    let (_, unreadable) = repository.snapshots(&keys, NOW).unwrap();
    assert_eq!(unreadable.len(), 1);
}

#[test]
fn latest_needs_a_client_where_there_are_several() {
    let place = Place::new(EpochProfile::Rfc4880);
    let carol = person("carol");
    let (mut repository, keys) = place.open_as(&place.alice);
    repository.change(&keys, &Change::AddClient(&carol), &mut signer(&place.alice), NOW).unwrap();
    let write = |client: &Cert, number, previous, time| {
        let snapshot = Snapshot { time, ..snapshot(client, number, previous) };
        repository.write_snapshot(&keys, &snapshot, Some(&mut signer(client)), NOW).unwrap()
    };
    let first = write(&place.alice, 1, None, NOW);
    let (listed, _) = repository.snapshots(&keys, NOW).unwrap();
    assert_eq!(select(&listed, "latest", None).unwrap().id, first);
    // Carol's machine was stolen, and its snapshot claims to be the newest one.
    let stolen = write(&carol, 1, None, NOW + 10_000_000);
    // The clock of Alice's machine went back: the number counts, not the time.
    let second = write(&place.alice, 2, Some(first), NOW - 1000);
    let (listed, _) = repository.snapshots(&keys, NOW).unwrap();
    assert!(matches!(select(&listed, "latest", None), Err(BackupError::Refused(_))));
    assert_eq!(select(&listed, "latest", Some(&name(&place.alice))).unwrap().id, second);
    assert_eq!(select(&listed, "latest~1", Some(&name(&place.alice))).unwrap().id, first);
    assert!(select(&listed, "latest~2", Some(&name(&place.alice))).is_err());
    assert_eq!(select(&listed, "latest", Some(&name(&carol))).unwrap().id, stolen);
    assert_eq!(select(&listed, &stolen.to_string()[..8], None).unwrap().id, stolen);
    for wrong in ["latest~", "latest~x", "latest2", "abc", "x", "", "0000000000"] {
        assert!(select(&listed, wrong, Some(&name(&carol))).is_err(), "{wrong}");
    }
}

#[test]
fn the_word_of_a_retired_key_stays() {
    let place = Place::new(EpochProfile::Rfc4880);
    let (repository, keys) = place.open_as(&place.alice);
    let written = snapshot(&place.alice, 1, None);
    repository.write_snapshot(&keys, &written, Some(&mut signer(&place.alice)), NOW).unwrap();
    let retired = revoked(&place.alice, ReasonForRevocation::KeyRetired, NOW + 10);
    let mut known = |_: &_| Some(retired.clone());
    let later = NOW + 20;
    let opened =
        Repository::open(place.backend(), &Expected::default(), &mut known, later).unwrap();
    assert!(matches!(opened.standing(), DocumentStanding::Past(..)), "{:?}", opened.standing());
    let (listed, _) = opened.snapshots(&keys, later).unwrap();
    assert!(matches!(&listed[0].standing, DocumentStanding::Past(..)), "{:?}", listed[0].standing);
}
