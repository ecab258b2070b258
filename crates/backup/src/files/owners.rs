//! Names of owners, as the system knows them: from its files, or from a directory such as LDAP.

use std::collections::{BTreeMap, BTreeSet};

use nix::unistd::{Gid, Group, Uid, User};

use crate::entry::Meta;
use crate::snapshot::Snapshot;

/// The names of users. A number without a name, or whose look-up fails, is left out.
pub(super) fn user_names(numbers: &BTreeSet<u32>) -> BTreeMap<u32, Vec<u8>> {
    let name = |number: u32| User::from_uid(Uid::from_raw(number)).ok()?.map(|user| user.name);
    names(numbers, name)
}

/// The names of groups.
pub(super) fn group_names(numbers: &BTreeSet<u32>) -> BTreeMap<u32, Vec<u8>> {
    let name = |number: u32| Group::from_gid(Gid::from_raw(number)).ok()?.map(|group| group.name);
    names(numbers, name)
}

fn names(numbers: &BTreeSet<u32>, name: impl Fn(u32) -> Option<String>) -> BTreeMap<u32, Vec<u8>> {
    let named = numbers.iter().filter_map(|number| Some((*number, name(*number)?.into_bytes())));
    named.filter(|(_, name)| !name.is_empty()).collect()
}

/// The numbers that owners of a snapshot get at a restore.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Owners {
    users: BTreeMap<u32, u32>,
    groups: BTreeMap<u32, u32>,
}

impl Owners {
    /// The numbers that the names in the snapshot have on this machine. An owner whose name is not
    /// known here, or not in the snapshot, keeps its number.
    #[must_use]
    pub fn by_name(snapshot: &Snapshot) -> Self {
        let user = |name: &str| Some(User::from_name(name).ok()??.uid.as_raw());
        let group = |name: &str| Some(Group::from_name(name).ok()??.gid.as_raw());
        Self { users: numbers(&snapshot.users, user), groups: numbers(&snapshot.groups, group) }
    }

    /// The owner and the group of an entry.
    pub(super) fn of(&self, meta: &Meta) -> (u32, u32) {
        let user = self.users.get(&meta.uid).copied();
        let group = self.groups.get(&meta.gid).copied();
        (user.unwrap_or(meta.uid), group.unwrap_or(meta.gid))
    }
}

/// The numbers of names here. A name that the system cannot be asked for has none.
fn numbers(
    names: &BTreeMap<u32, Vec<u8>>,
    number: impl Fn(&str) -> Option<u32>,
) -> BTreeMap<u32, u32> {
    let known = names.iter().filter_map(|(there, name)| {
        let name = std::str::from_utf8(name).ok()?;
        (!name.contains('\0')).then(|| number(name)).flatten().map(|here| (*there, here))
    });
    known.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Id;
    use crate::testing;

    #[test]
    fn owners_have_the_names_of_the_system_and_the_numbers_of_their_names() {
        let numbers = BTreeSet::from([0, 3_999_999_999]);
        assert_eq!(user_names(&numbers), [(0, b"root".to_vec())].into());
        assert_eq!(group_names(&numbers), [(0, b"root".to_vec())].into());
        let mut snapshot = testing::listed(1, 1, Id([1; 32])).snapshot;
        snapshot.users = [
            (500, b"root".to_vec()),
            (501, b"nobody has this name".to_vec()),
            (502, b"\xff".to_vec()),
            (503, b"ro\0ot".to_vec()),
        ]
        .into();
        snapshot.groups = [(600, b"root".to_vec())].into();
        let owners = Owners::by_name(&snapshot);
        let of = |uid, gid| owners.of(&Meta { uid, gid, ..Meta::default() });
        assert_eq!((of(500, 600), of(501, 601)), ((0, 0), (501, 601)));
        assert_eq!((of(502, 500), of(503, 0)), ((502, 500), (503, 0)));
        assert_eq!(Owners::default().of(&Meta { uid: 500, ..Meta::default() }), (500, 0));
    }
}
