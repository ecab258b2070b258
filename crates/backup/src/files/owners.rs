//! Names of owners, as the system knows them: from its files, or from a directory such as LDAP.

use std::collections::{BTreeMap, BTreeSet};

use nix::unistd::{Gid, Group, Uid, User, getegid, geteuid};

use crate::entry::Meta;
use crate::snapshot::Snapshot;
use crate::text::{Place, escaped};

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
    strangers: Vec<Stranger>,
}

/// A name of a snapshot that this machine does not know, and whose number somebody else has here.
/// What it owned is given to whoever restores, and not to them.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Stranger {
    /// The name in the snapshot.
    pub name: String,
    /// Its number there.
    pub number: u32,
    /// The name of this number on this machine.
    pub here: String,
    /// Whether these are groups.
    pub is_group: bool,
}

impl Owners {
    /// The numbers that the names in the snapshot have on this machine. An owner whose name is not
    /// known here, or not in the snapshot, keeps its number, unless that is [somebody
    /// else's](Stranger).
    #[must_use]
    pub fn by_name(snapshot: &Snapshot) -> Self {
        let user = |name: &str| Some(User::from_name(name).ok()??.uid.as_raw());
        let group = |name: &str| Some(Group::from_name(name).ok()??.gid.as_raw());
        let mut owners = Self {
            users: numbers(&snapshot.users, user),
            groups: numbers(&snapshot.groups, group),
            strangers: Vec::new(),
        };
        let here = [
            user_names(&snapshot.users.keys().copied().collect()),
            group_names(&snapshot.groups.keys().copied().collect()),
        ];
        let own = [geteuid().as_raw(), getegid().as_raw()];
        let sides = [
            (&snapshot.users, &mut owners.users, false),
            (&snapshot.groups, &mut owners.groups, true),
        ];
        for (((names, known, is_group), here), own) in sides.into_iter().zip(here).zip(own) {
            for (&number, name) in names {
                if let (false, Some(here)) = (known.contains_key(&number), here.get(&number)) {
                    known.insert(number, own);
                    let [name, here] = [name, here].map(|name| escaped(name, Place::Last));
                    owners.strangers.push(Stranger { name, number, here, is_group });
                }
            }
        }
        owners
    }

    /// The names whose numbers are somebody else's here.
    #[must_use]
    pub fn strangers(&self) -> &[Stranger] {
        &self.strangers
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
        // The number of somebody who is not known here is that of somebody else.
        snapshot.users = [(0, b"nobody has this name".to_vec())].into();
        snapshot.groups = [(0, b"nor this".to_vec()), (601, b"nor this one".to_vec())].into();
        let owners = Owners::by_name(&snapshot);
        let of = owners.of(&Meta { uid: 0, gid: 0, ..Meta::default() });
        assert_eq!(of, (geteuid().as_raw(), getegid().as_raw()));
        let stranger = |name: &str, is_group| Stranger {
            name: name.into(),
            number: 0,
            here: "root".into(),
            is_group,
        };
        let strangers = [stranger("nobody has this name", false), stranger("nor this", true)];
        assert_eq!(owners.strangers(), strangers);
        assert_eq!(Owners::default().of(&Meta { uid: 500, ..Meta::default() }), (500, 0));
    }
}
