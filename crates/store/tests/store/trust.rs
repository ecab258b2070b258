//! The web of trust of a store on disk: its rules, and the incremental updates, which must equal a
//! computation from scratch.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::thread;

use crate::common::{Folder, assert_clean, contents};
use crate::people::{CREATED, Own, Person, Says};
use proptest::prelude::*;
use rusqlite::Connection;
use talaria_cert::{Cert, Fingerprint, Gnupg, Verification};
use talaria_store::{Access, Binding, Depth, Event, Observation, Remedy, Return, Store};
use talaria_trust::tofu::Policy;
use talaria_trust::{Introducer, Level, Rules};

/// The time of most events here.
const NOW: u32 = CREATED + 2000;

/// A store, and test users whose certificates are in it.
struct World {
    folder: Folder,
    store: Store,
    people: Vec<Person>,
}

impl World {
    /// So many users, each with one user ID. The first is the owner of the store.
    fn of(count: u8) -> Self {
        let people = (0..count).map(|number| {
            Person::new(number, &[&format!("Person {number} <{number}@example.org>")])
        });
        Self::with(people.collect())
    }

    fn with(people: Vec<Person>) -> Self {
        let folder = Folder::new();
        let certs: Vec<Cert> = people.iter().map(Person::cert).collect();
        let store = folder.filled(&certs);
        let mut world = Self { folder, store, people };
        world.trusts(0, Level::Ultimate);
        world
    }

    fn trusts(&mut self, who: usize, level: Level) {
        let entry = (self.people[who].fingerprint(), level as u8);
        self.store.web_mut().set_ownertrust(&[entry], NOW.into()).unwrap();
    }

    fn learns(&mut self, piece: Cert) {
        self.store.ingest(vec![piece], Verification::Full, NOW.into()).unwrap();
    }

    /// `by` certifies the first user ID of `of`.
    fn certifies(&mut self, by: usize, of: usize, says: &Says) {
        self.learns(self.people[by].certifies(&self.people[of], 0, says));
    }

    /// Each user in the chain certifies the next one.
    fn chain(&mut self, chain: &[usize]) {
        chain.windows(2).for_each(|pair| self.certifies(pair[0], pair[1], &Says::default()));
    }

    fn levels_at(&self, who: usize, now: u32) -> Vec<Level> {
        let row = self.store.row(self.people[who].fingerprint()).unwrap().unwrap();
        let standing =
            self.store.web().at(now.into()).unwrap().standing(&self.store, row.id).unwrap();
        standing.map_or(vec![Level::Unknown; row.summary.user_ids.len()], |s| s.levels)
    }

    fn level(&self, who: usize) -> Level {
        self.levels_at(who, NOW)[0]
    }

    fn level_at(&self, who: usize, now: u32) -> Level {
        self.levels_at(who, now)[0]
    }
}

/// The default rules with a change.
fn rules(change: impl FnOnce(&mut Rules)) -> Rules {
    let mut rules = Rules::default();
    change(&mut rules);
    rules
}

#[test]
fn one_full_or_three_marginal_introducers_are_enough() {
    let mut world = World::of(8);
    for introducer in 1..=4 {
        world.chain(&[0, introducer]);
        world.trusts(introducer, Level::Marginal);
    }
    for (count, expected) in [(1, Level::Marginal), (2, Level::Marginal), (3, Level::Full)] {
        world.chain(&[count, 5]);
        assert_eq!(world.level(5), expected, "{count} marginal");
    }
    // The fourth is fully trusted and sufficient alone.
    world.chain(&[4, 6]);
    assert_eq!(world.level(6), Level::Marginal);
    world.trusts(4, Level::Full);
    assert_eq!(world.level(6), Level::Full);
    // Certifications by an untrusted user give the level undefined.
    world.trusts(4, Level::Never);
    assert_eq!(world.level(6), Level::Undefined);
    assert_eq!(world.level(7), Level::Unknown);
    world.store.web_mut().set_rules(rules(|rules| rules.marginals = 4), NOW.into()).unwrap();
    assert_eq!(world.level(5), Level::Marginal);
    world.store.web_mut().set_rules(rules(|rules| rules.marginals = 2), NOW.into()).unwrap();
    assert_eq!(world.level(5), Level::Full);
    assert_clean(&world.store);
}

#[test]
fn introducers_count_up_to_the_maximum_depth() {
    let mut world = World::of(8);
    world.chain(&[0, 1, 2, 3, 4, 5, 6, 7]);
    (1..8).for_each(|who| world.trusts(who, Level::Full));
    // The last introducer is at depth 4. The fifth is valid but not an introducer.
    let reached = |world: &World| (1..8).take_while(|&who| world.level(who) == Level::Full).count();
    assert_eq!(reached(&world), 5);
    for depth in [1, 2, 5, 32] {
        let rules = rules(|rules| rules.depth = depth);
        world.store.web_mut().set_rules(rules, NOW.into()).unwrap();
        assert_eq!(reached(&world), usize::from(depth).min(7));
    }
    assert_clean(&world.store);
}

/// Marginal introducers at different depths add up.
#[test]
fn introducers_at_different_depths_add_up() {
    let mut world = World::of(6);
    world.chain(&[0, 1, 2, 3]);
    world.trusts(1, Level::Full);
    (2..=3).for_each(|who| world.trusts(who, Level::Full));
    for who in [1, 2, 3] {
        world.chain(&[who, 4]);
    }
    (2..=3).for_each(|who| world.trusts(who, Level::Marginal));
    // Only 2 certified 3, which is no longer sufficient.
    assert_eq!((world.level(3), world.level(4)), (Level::Marginal, Level::Full));
    world.chain(&[0, 3]);
    world.trusts(1, Level::Unknown);
    // Only 1 certified 2.
    assert_eq!((world.level(2), world.level(4)), (Level::Undefined, Level::Marginal));
    world.chain(&[0, 2]);
    assert_eq!(world.level(4), Level::Marginal);
    world.trusts(1, Level::Marginal);
    assert_eq!(world.level(4), Level::Full);
    // 1 and 2 at the first depth and 5 at the second are three together.
    world.chain(&[3, 5]);
    world.trusts(3, Level::Full);
    world.trusts(5, Level::Marginal);
    let mut other = World::of(6);
    other.chain(&[0, 1, 4]);
    other.chain(&[0, 2, 4]);
    other.chain(&[0, 3, 5, 4]);
    other.trusts(3, Level::Full);
    [1, 2].into_iter().for_each(|who| other.trusts(who, Level::Marginal));
    assert_eq!(other.level(4), Level::Marginal);
    other.trusts(5, Level::Marginal);
    assert_eq!(other.level(4), Level::Full);
    assert_clean(&world.store);
    assert_clean(&other.store);
}

#[test]
fn a_certification_can_be_revoked_and_made_again() {
    let mut world = World::of(3);
    world.chain(&[0, 1, 2]);
    world.trusts(1, Level::Full);
    assert_eq!(world.level(2), Level::Full);
    world.certifies(0, 1, &Says::revokes(CREATED + 10));
    assert_eq!((world.level(1), world.level(2)), (Level::Unknown, Level::Unknown));
    world.certifies(0, 1, &Says { created: CREATED + 20, ..Says::default() });
    assert_eq!((world.level(1), world.level(2)), (Level::Full, Level::Full));
    // Another user cannot revoke the certification.
    world.certifies(2, 1, &Says::revokes(CREATED + 30));
    assert_eq!(world.level(1), Level::Full);
    assert_clean(&world.store);
}

#[test]
fn an_irrevocable_certification_counts_until_it_expires() {
    let mut world = World::of(3);
    let irrevocable = Says { irrevocable: true, ..Says::default() };
    world.certifies(0, 1, &irrevocable);
    world.certifies(0, 1, &Says::revokes(CREATED + 10));
    assert_eq!(world.level(1), Level::Full);
    world.certifies(0, 2, &Says { expires: Some(NOW + 5), ..irrevocable });
    world.certifies(0, 2, &Says::revokes(CREATED + 10));
    assert_eq!(world.level_at(2, NOW + 4), Level::Full);
    assert_eq!(world.level_at(2, NOW + 5), Level::Unknown);
    assert_clean(&world.store);
}

#[test]
fn a_certification_expires_without_a_write() {
    let mut world = World::of(3);
    world.certifies(0, 1, &Says { expires: Some(NOW + 50), ..Says::default() });
    world.chain(&[1, 2]);
    world.trusts(1, Level::Full);
    let at = |world: &World, now| (world.level_at(1, now), world.level_at(2, now));
    assert_eq!(at(&world, NOW + 49), (Level::Full, Level::Full));
    assert_eq!(at(&world, NOW + 50), (Level::Unknown, Level::Unknown));
    // An expired newer certification replaces an older one that has not expired.
    world.certifies(0, 1, &Says { created: CREATED, ..Says::default() });
    assert_eq!(world.level_at(1, NOW + 50), Level::Unknown);
    let report = world.store.web_mut().update(false, (NOW + 50).into()).unwrap();
    assert_eq!((report.changed, report.computed), (2, 0));
    assert_eq!(at(&world, NOW + 50), (Level::Unknown, Level::Unknown));
    assert_eq!(at(&world, NOW), (Level::Full, Level::Full));
    assert_clean(&world.store);
}

#[test]
fn an_expired_own_key_introduces_nobody() {
    let mut world = World::of(3);
    world.chain(&[0, 1]);
    world.learns(world.people[0].own(&Own::Binds {
        user_id: 0,
        created: CREATED + 1,
        key_expires: Some(NOW + 50),
        expires: None,
    }));
    assert_eq!((world.level(0), world.level(1)), (Level::Ultimate, Level::Full));
    let later = NOW + 60;
    assert_eq!(world.level_at(0, later), Level::Ultimate);
    assert_eq!(world.level_at(1, later), Level::Unknown);
    assert_clean(&world.store);
}

#[test]
fn revoked_keys_and_user_ids_are_never_valid() {
    let mut world = World::of(4);
    world.chain(&[0, 1, 3]);
    world.chain(&[0, 2, 3]);
    [1, 2].into_iter().for_each(|who| world.trusts(who, Level::Full));
    world.learns(world.people[1].own(&Own::RevokesKey { created: CREATED + 5 }));
    assert_eq!((world.level(1), world.level(3)), (Level::Unknown, Level::Full));
    world.learns(world.people[2].own(&Own::RevokesUserId { user_id: 0, created: CREATED + 5 }));
    assert_eq!((world.level(2), world.level(3)), (Level::Unknown, Level::Unknown));
    assert_clean(&world.store);
}

#[test]
fn weak_and_unverified_certifications_do_not_count() {
    const SHA1_ENDS: u32 = CREATED + 1000;
    let (full, unknown) = (Level::Full, Level::Unknown);
    // By the rules of GnuPG 2.2, and by those of 2.4, which never accept SHA-1.
    for (says, expected) in [
        (Says { sha1: true, created: SHA1_ENDS, ..Says::default() }, [full, unknown]),
        (Says { sha1: true, created: SHA1_ENDS + 1, ..Says::default() }, [unknown, unknown]),
        (Says { created: SHA1_ENDS + 1, ..Says::default() }, [full, full]),
        (Says { kind: 0x11, ..Says::default() }, [unknown, unknown]),
        (Says { kind: 0x12, ..Says::default() }, [full, full]),
        (Says { kind: 0x13, ..Says::default() }, [full, full]),
    ] {
        let mut world = World::of(2);
        world.certifies(0, 1, &says);
        assert_eq!(world.level(1), expected[1], "{says:?}");
        for (gnupg, expected) in [Gnupg::V2_2, Gnupg::V2_4].into_iter().zip(expected) {
            world
                .store
                .web_mut()
                .set_rules(rules(|rules| rules.gnupg = gnupg), NOW.into())
                .unwrap();
            assert_eq!(world.level(1), expected, "{gnupg:?}: {says:?}");
            assert_clean(&world.store);
        }
    }
}

#[test]
fn trust_can_be_delegated() {
    for (says, first, second) in [
        (Says::default(), Level::Undefined, Level::Unknown),
        (Says::trusts(0, 120), Level::Undefined, Level::Unknown),
        (Says::trusts(1, 120), Level::Full, Level::Undefined),
        (Says::trusts(1, 60), Level::Marginal, Level::Unknown),
        (Says::trusts(1, 59), Level::Undefined, Level::Unknown),
        (Says::trusts(2, 120), Level::Full, Level::Full),
        (Says::trusts(2, 119), Level::Marginal, Level::Unknown),
    ] {
        // 1 delegates to 2 as well, but only within its own depth.
        let mut world = World::of(4);
        world.certifies(0, 1, &says);
        world.certifies(1, 2, &Says::trusts(5, 120));
        world.chain(&[2, 3]);
        assert_eq!((world.level(2), world.level(3)), (first, second), "{says:?}");
        assert_clean(&world.store);
    }
}

#[test]
fn a_delegation_is_limited_to_its_scope() {
    let within = "Person 2 <2@mail.example.org>";
    let beyond = "Person 3 <3@example.net>";
    let mut world = World::with(vec![
        Person::new(0, &["Person 0 <0@example.org>"]),
        Person::new(1, &["Person 1 <1@example.net>"]),
        Person::new(2, &[within, beyond]),
    ]);
    let scope = Some("<[^>]+[@.]example\\.org>$");
    world.certifies(0, 1, &Says { scope, ..Says::trusts(1, 120) });
    for user_id in 0..2 {
        world.learns(world.people[1].certifies(&world.people[2], user_id, &Says::default()));
    }
    assert_eq!(world.levels_at(2, NOW), [Level::Full, Level::Unknown]);
    assert_clean(&world.store);
}

#[test]
fn each_user_id_has_its_own_validity() {
    let mut world = World::with(vec![
        Person::new(0, &["Person 0 <0@example.org>"]),
        Person::new(1, &["A <1@example.org>", "B <1@example.net>"]),
        Person::new(2, &["Person 2 <2@example.org>"]),
    ]);
    world.learns(world.people[0].certifies(&world.people[1], 1, &Says::default()));
    world.chain(&[1, 2]);
    world.trusts(1, Level::Full);
    assert_eq!(world.levels_at(1, NOW), [Level::Unknown, Level::Full]);
    // One valid user ID is enough for an introducer.
    assert_eq!(world.level(2), Level::Full);
    world.learns(world.people[1].own(&Own::Binds {
        user_id: 1,
        created: CREATED + 1,
        key_expires: None,
        expires: Some(NOW + 9),
    }));
    assert_eq!(world.levels_at(1, NOW + 8), [Level::Unknown, Level::Full]);
    assert_eq!(world.levels_at(1, NOW + 9), [Level::Unknown, Level::Unknown]);
    assert_eq!(world.level_at(2, NOW + 9), Level::Unknown);
    assert_clean(&world.store);
}

#[test]
fn a_deleted_introducer_counts_again_when_imported_again() {
    let mut world = World::of(3);
    world.chain(&[0, 1, 2]);
    world.trusts(1, Level::Full);
    let whole = world.store.get(world.people[1].fingerprint()).unwrap().unwrap().cert;
    let fingerprints = [world.people[1].fingerprint()];
    world.store.delete(&fingerprints, Return::Allowed, NOW.into()).unwrap();
    assert_eq!(world.level(2), Level::Unknown);
    assert_clean(&world.store);
    world.learns(whole);
    assert_eq!(world.level(2), Level::Full);
    assert_clean(&world.store);
}

/// The bytes of the file and of its log.
fn bytes(store: &Path) -> (Vec<u8>, Vec<u8>) {
    let wal = store.with_file_name("store.db-wal");
    (fs::read(store).unwrap(), fs::read(wal).unwrap_or_default())
}

#[test]
fn a_listing_leaves_the_store_unchanged() {
    let mut world = World::of(6);
    for who in 1..5 {
        let expires = Some(NOW + 10 * u32::try_from(who).unwrap());
        world.certifies(0, who, &Says { expires, ..Says::default() });
        world.trusts(who, Level::Full);
        world.chain(&[who, 5]);
    }
    let path = world.folder.path();
    let before = bytes(&path);
    assert!(!before.1.is_empty());
    for access in [Access::Read, Access::Write] {
        let store = Store::open(&path, access).unwrap();
        for now in [NOW, NOW + 25, NOW + 1000, CREATED] {
            let web = store.web().at(now.into()).unwrap();
            for person in &world.people {
                let row = store.row(person.fingerprint()).unwrap().unwrap();
                web.standing(&store, row.id).unwrap();
                store.web().certifiers(now.into()).unwrap().of(row.id).unwrap();
                store.tofu().bindings_with(person.fingerprint()).unwrap();
            }
        }
        assert!(before == bytes(&path), "{access:?}");
    }
}

#[test]
fn concurrent_writers_lose_no_tofu_records() {
    const ROUNDS: u32 = 60;
    let folder = Folder::new();
    drop(folder.store());
    let binding = |n: u32| Binding {
        fingerprint: Fingerprint::V4([u8::try_from(n % 3).unwrap(); 20]),
        email: format!("{}@example.org", n % 5).into_bytes(),
        user_id: b"Somebody".to_vec(),
        time: n.into(),
        policy: Policy::Auto,
        effective: None,
        conflict: None,
    };
    thread::scope(|scope| {
        for writer in 0..2 {
            let path = folder.path();
            scope.spawn(move || {
                let mut store = Store::open(&path, Access::Write).unwrap();
                for round in 0..ROUNDS {
                    let verified = Event::Verified {
                        digest: format!("{writer}/{round}"),
                        origin: "unknown".to_owned(),
                        signed: round.into(),
                        time: round.into(),
                    };
                    // Both writers share the last binding.
                    let shared = Event::Verified {
                        digest: format!("{round}"),
                        origin: "unknown".to_owned(),
                        signed: round.into(),
                        time: round.into(),
                    };
                    let events = [verified, shared, Event::Encrypted(7), Event::Seen];
                    let observations: Vec<Observation> = events
                        .into_iter()
                        .map(|event| Observation { binding: binding(round), event })
                        .collect();
                    store.tofu_mut().observe(&observations).unwrap();
                }
            });
        }
    });
    let store = Store::open(&folder.path(), Access::Read).unwrap();
    assert_eq!(store.tofu().bindings().unwrap().len(), 15);
    let (mut verified, mut encrypted) = (0, 0);
    for binding in store.tofu().bindings().unwrap() {
        let (one, other) = store.tofu().history(binding.fingerprint, &binding.email).unwrap();
        verified += one.count;
        encrypted += other.count;
    }
    assert_eq!((verified, encrypted), (3 * u64::from(ROUNDS), 2 * u64::from(ROUNDS)));
    assert_clean(&store);
}

/// The standings of certificates with certifiers in the store, by fingerprint.
type Web = BTreeMap<Fingerprint, (Vec<Level>, Option<Introducer>)>;

fn web(store: &Store, now: u32) -> Web {
    let view = store.web().at(now.into()).unwrap();
    let mut web = Web::new();
    for fingerprint in contents(store).into_keys() {
        let row = store.row(fingerprint).unwrap().unwrap();
        if let Some(standing) = view.standing(store, row.id).unwrap() {
            let known = standing.levels.iter().any(|&level| level != Level::Unknown);
            if known || standing.introducer.is_some() {
                web.insert(fingerprint, (standing.levels, standing.introducer));
            }
        }
    }
    web
}

/// The web of trust of the content of `store`, computed from scratch in another store.
fn web_from_nothing(store: &Store, now: u32) -> Web {
    let folder = Folder::new();
    let mut other = folder.store();
    let certs = contents(store).into_values().map(|bytes| Cert::from_canonical(bytes).unwrap());
    other.ingest(certs.collect(), Verification::Full, now.into()).unwrap();
    if let Some(rules) = store.web().rules().unwrap() {
        other.web_mut().set_rules(rules, now.into()).unwrap();
    }
    other.web_mut().set_ownertrust(&store.web().ownertrusts().unwrap(), now.into()).unwrap();
    // It was computed from scratch already, so the result is the same.
    assert_eq!(other.web_mut().update(true, now.into()).unwrap().changed, 0);
    web(&other, now)
}

/// The tables with the certifiers.
fn tables(path: &Path) -> Vec<Vec<(i64, i64)>> {
    let connection = Connection::open(path).unwrap();
    ["introducer", "certifier"]
        .map(|table| {
            let sql = format!("SELECT handle, cert FROM {table} ORDER BY handle, cert");
            let mut statement = connection.prepare(&sql).unwrap();
            let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
            rows.map(Result::unwrap).collect()
        })
        .to_vec()
}

#[test]
fn check_finds_a_changed_byte_in_the_trust_tables_and_rebuild_repairs() {
    let mut world = World::of(5);
    world.certifies(0, 1, &Says { scope: Some("example"), ..Says::trusts(2, 120) });
    world.certifies(1, 2, &Says { expires: Some(NOW + 100), ..Says::default() });
    world.trusts(2, Level::Marginal);
    world.chain(&[2, 3]);
    world.chain(&[0, 4]);
    world.certifies(3, 4, &Says::default());
    let World { folder, mut store, .. } = world;
    let path = folder.path();
    let good = web(&store, NOW);
    assert_eq!(good.len(), 5);
    let raw = Connection::open(&path).unwrap();
    let rows: Vec<(i64, u32, u32, Vec<u8>)> = raw
        .prepare("SELECT cert, start, until, standing FROM trust")
        .unwrap()
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let put = |(cert, start, until, standing): &(i64, u32, u32, Vec<u8>)| {
        let sql = "INSERT OR REPLACE INTO trust VALUES (?1, ?2, ?3, ?4)";
        raw.execute(sql, (cert, start, until, standing)).unwrap();
    };
    let finds = |store: &Store, what: &str| {
        let report = store.check(Depth::Structure, |_| {}).unwrap();
        assert!(report.findings.iter().any(|found| found.object == "table trust"), "{what}");
        assert!(report.findings.iter().all(|found| found.remedy == Remedy::Rebuild), "{what}");
    };
    for row in &rows {
        let mut damaged = row.clone();
        for at in 0..row.3.len() {
            damaged.3[at] ^= 1 << (at % 8);
            put(&damaged);
            finds(&store, &format!("byte {at} of {}", row.0));
            // The damage makes no certificate valid meanwhile.
            for (fingerprint, said) in web(&store, NOW) {
                assert_eq!(said, good[&fingerprint]);
            }
            damaged.3[at] = row.3[at];
        }
        for bit in 0..32 {
            for damaged in [
                (row.0, row.1 ^ 1 << bit, row.2, row.3.clone()),
                (row.0, row.1, row.2 ^ 1 << bit, row.3.clone()),
            ] {
                put(&damaged);
                finds(&store, &format!("bit {bit} of the time of {}", row.0));
            }
        }
        put(row);
        assert_clean(&store);
    }
    for what in
        ["UPDATE trust SET standing = x'00'", "DELETE FROM certifier", "DELETE FROM introducer"]
    {
        raw.execute_batch(what).unwrap();
        finds(&store, what);
        store.rebuild(NOW.into()).unwrap();
        assert_eq!(web(&store, NOW), good);
        assert_clean(&store);
    }
}

const PEOPLE: usize = 7;

/// The number of user IDs of a user in random histories.
const USER_IDS: usize = 2;

/// A random event.
#[derive(Clone, Debug)]
enum Step {
    /// A user certifies or revokes a user ID; the store gets the signature at once or later.
    Certifies {
        by: usize,
        of: usize,
        user_id: usize,
        says: Says,
        now: bool,
    },
    /// A user changes the own certificate.
    Says {
        of: usize,
        own: Own,
        now: bool,
    },
    /// The store gets a part of all signatures on a certificate.
    Import {
        of: usize,
        mask: u64,
    },
    Trust {
        of: usize,
        value: u8,
    },
    Delete {
        of: usize,
    },
    Rules(Rules),
    /// The clock moves.
    Clock(u32),
    /// The web of trust is updated.
    Check,
}

/// Times close to each other, so that some coincide.
fn moment() -> impl Strategy<Value = u32> {
    (1..40_u32).prop_map(|n| CREATED + 50 * n)
}

fn says() -> impl Strategy<Value = Says> {
    let kind = prop_oneof![6 => Just(0x10), 1 => 0x11_u8..=0x13, 3 => Just(0x30)];
    let trust = (0..4_u8, prop_oneof![Just(120), Just(60), Just(10)]);
    let scope = prop_oneof![
        4 => Just(None),
        1 => Just(Some("<[^>]+[@.]example\\.org>$")),
        1 => Just(Some("<[^>]+[@.]example\\.net>$")),
    ];
    let rare = proptest::bool::weighted(0.1);
    (
        kind,
        moment(),
        proptest::option::weighted(0.2, 1..30_u32),
        proptest::option::weighted(0.25, trust),
        scope,
        rare,
        proptest::bool::weighted(0.1),
    )
        .prop_map(|(kind, created, lasts, trust, scope, irrevocable, sha1)| Says {
            kind,
            created,
            expires: lasts.map(|n| created + 50 * n),
            trust,
            scope: scope.filter(|_| trust.is_some()),
            irrevocable,
            sha1,
        })
}

fn own() -> impl Strategy<Value = Own> {
    let user_id = 0..USER_IDS;
    let later = || proptest::option::of(1..30_u32);
    prop_oneof![
        6 => (user_id.clone(), moment(), later(), later()).prop_map(
            |(user_id, created, key, lasts)| Own::Binds {
                user_id,
                created,
                key_expires: key.map(|n| CREATED + 50 * n),
                expires: lasts.map(|n| created + 50 * n),
            }
        ),
        2 => (user_id, moment()).prop_map(|(user_id, created)| Own::RevokesUserId { user_id, created }),
        1 => moment().prop_map(|created| Own::RevokesKey { created }),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let who = || 0..PEOPLE;
    let value = prop_oneof![
        1 => Just(0), 1 => 2..=3_u8, 3 => Just(4), 6 => Just(5), 3 => Just(6), 1 => Just(0x85)
    ];
    let now = || proptest::bool::weighted(0.8);
    prop_oneof![
        24 => (who(), who(), 0..USER_IDS, says(), now()).prop_map(
            |(by, of, user_id, says, now)| Step::Certifies { by, of, user_id, says, now }
        ),
        4 => (who(), own(), now()).prop_map(|(of, own, now)| Step::Says { of, own, now }),
        4 => (who(), any::<u64>()).prop_map(|(of, mask)| Step::Import { of, mask }),
        10 => (who(), value).prop_map(|(of, value)| Step::Trust { of, value }),
        2 => who().prop_map(|of| Step::Delete { of }),
        1 => (1..3_u8, 2..4_u8, 1..7_u8).prop_map(
            |(completes, marginals, depth)| {
                Step::Rules(rules(|rules| {
                    (rules.completes, rules.marginals, rules.depth) = (completes, marginals, depth);
                }))
            }
        ),
        4 => moment().prop_map(Step::Clock),
        2 => Just(Step::Check),
    ]
}

/// Users, all signatures ever made about each of them, and a store with a part of these.
struct History {
    people: Vec<Person>,
    said: Vec<Vec<Cert>>,
    store: Store,
    now: u32,
}

impl History {
    fn learn(&mut self, pieces: Vec<Cert>) {
        self.store.ingest(pieces, Verification::Full, self.now.into()).unwrap();
    }

    fn said(&mut self, of: usize, piece: Cert, now: bool) {
        self.said[of].push(piece.clone());
        if now {
            self.learn(vec![piece]);
        }
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::Certifies { by, of, user_id, says, now } if by != of => {
                let piece = self.people[*by].certifies(&self.people[*of], *user_id, says);
                self.said(*of, piece, *now);
            }
            Step::Certifies { .. } => {}
            Step::Says { of, own, now } => {
                let piece = self.people[*of].own(own);
                self.said(*of, piece, *now);
            }
            Step::Import { of, mask } => {
                let pieces = self.said[*of].iter().enumerate();
                let pieces = pieces.filter(|(at, _)| mask >> (at % 64) & 1 == 1);
                let pieces = pieces.map(|(_, piece)| piece.clone()).collect();
                self.learn(pieces);
            }
            Step::Trust { of, value } => {
                let entry = (self.people[*of].fingerprint(), *value);
                self.store.web_mut().set_ownertrust(&[entry], self.now.into()).unwrap();
            }
            Step::Delete { of } => {
                let gone = [self.people[*of].fingerprint()];
                self.store.delete(&gone, Return::Allowed, self.now.into()).unwrap();
            }
            Step::Rules(rules) => {
                self.store.web_mut().set_rules(*rules, self.now.into()).unwrap();
            }
            Step::Clock(now) => self.now = *now,
            Step::Check => drop(self.store.web_mut().update(false, self.now.into()).unwrap()),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: talaria_needs::short_or_full(15, 60), ..ProptestConfig::default() })]

    /// The order in which signatures arrive does not matter.
    #[test]
    fn incremental_trust_equals_trust_computed_from_scratch(
        steps in proptest::collection::vec(step(), 1..60),
        later in moment(),
    ) {
        let folder = Folder::new();
        let people: Vec<Person> = (0..PEOPLE)
            .map(|number| {
                let number = u8::try_from(number).unwrap();
                let name = |place: &str| format!("{number} <{number}@example.{place}>");
                Person::new(number, &[&name("org"), &name("net")])
            })
            .collect();
        let said: Vec<Vec<Cert>> = people.iter().map(|person| vec![person.cert()]).collect();
        let store = folder.filled(&said.concat());
        let mut history = History { people, said, store, now: CREATED + 1000 };
        history.take(&Step::Trust { of: 0, value: 6 });
        for (at, step) in steps.iter().enumerate() {
            history.take(step);
            if at % 8 == 0 {
                let History { store, now, .. } = &history;
                prop_assert_eq!(web(store, *now), web_from_nothing(store, *now), "step {}", at);
                assert_clean(store);
            }
        }
        let History { mut store, now, .. } = history;
        prop_assert_eq!(web(&store, now), web_from_nothing(&store, now));
        prop_assert_eq!(web(&store, later), web_from_nothing(&store, later));
        assert_clean(&store);
        store.web_mut().update(false, now.into()).unwrap();
        assert_clean(&store);
        let (before, known) = (web(&store, now), tables(&folder.path()));
        store.rebuild(now.into()).unwrap();
        prop_assert_eq!(web(&store, now), before);
        prop_assert_eq!(tables(&folder.path()), known);
    }
}
