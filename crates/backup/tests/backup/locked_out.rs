//! A check by one reader says who else can no longer open the repository.

use std::fs;

use talaria_backup::{
    Backend as _, BackupProgress, Change, Checked, EpochProfile, Heads, ReadData, Role,
};

use crate::people::{NOW, Place, name, person, signer};

fn check(place: &Place) -> Checked {
    let (repository, keys) = place.open_as(&place.alice);
    repository.check(&keys, ReadData::No, &Heads::new(), &BackupProgress::default(), NOW).unwrap()
}

#[test]
fn a_check_names_everybody_who_is_locked_out() {
    let place = Place::new(EpochProfile::Rfc9580);
    let (bob, carol, dave) = (person("bob"), person("carol"), person("dave"));
    let (mut repository, keys) = place.open_as(&place.alice);
    let mut change = |change: &Change<'_>| {
        repository.change(&keys, change, &mut signer(&place.alice), NOW).unwrap();
    };
    change(&Change::AddReader(&bob));
    change(&Change::AddClient(&carol));
    change(&Change::SetRoles(&name(&bob), [Role::Prune].into()));
    change(&Change::AddClient(&dave));
    // A second epoch, which Dave has no key of, and needs none.
    change(&Change::Remove(&name(&dave)));
    assert!(check(&place).problems.is_empty(), "{:?}", check(&place));
    let mut found = 0;
    for folder in ["keys", "certs"] {
        for object in place.backend().list(folder).unwrap() {
            let path = place.path(&object.name);
            let is_of = |who| object.name.contains(&name(who).to_hex());
            // Without her own keys, or the certificate of the owner, Alice cannot open it.
            if is_of(&place.alice) {
                continue;
            }
            let whole = fs::read(&path).unwrap();
            let mut changes = vec![None];
            if folder == "keys" {
                changes.extend([Some(&b""[..]), Some(b"rubbish")]);
            }
            for change in changes {
                match change {
                    None => fs::remove_file(&path).unwrap(),
                    Some(content) => fs::write(&path, content).unwrap(),
                }
                let problems = check(&place).problems;
                let is_it = |one: &talaria_backup::Problem| one.object == object.name;
                let named = problems.iter().find(|one| is_it(one));
                if is_of(&dave) {
                    assert!(named.is_none(), "{problems:?}");
                } else {
                    let why = &named.unwrap_or_else(|| panic!("{} {problems:?}", object.name)).why;
                    let who = [&bob, &carol].into_iter().find(|who| is_of(*who));
                    if let (Some(who), "keys") = (who, folder) {
                        assert!(why.contains(&name(who).to_hex()), "{why}");
                    }
                    found += 1;
                }
                fs::write(&path, &whole).unwrap();
            }
        }
    }
    // Bob and Carol: the group secret and the keys of two epochs, each removed, emptied and
    // overwritten; their certificates, and those of two keys of two epochs.
    assert_eq!(found, 2 * 3 * 3 + 2 + 4);
    assert!(check(&place).problems.is_empty());
}
