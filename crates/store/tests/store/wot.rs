//! The trust amount of each user ID in random networks, compared with the results of `sequoia-wot`
//! (0.15.3) for the same networks.
//!
//! `wot.txt` has these results: a line for each network, with an amount for each user ID of each
//! user. Certificates are not the same bytes each time, but keys, user IDs and certifications are
//! the same. With `TALARIA_WRITE` set to a folder, each network is written into it: `N.pgp`, and
//! `N.txt` with the trust roots and their amounts.

use std::fs;
use std::path::Path;

use talaria_cert::{Cert, Validity};
use talaria_store::Certifications;
use talaria_trust::flow::{FULL, Flow, PARTIAL};

use crate::common::Folder;
use crate::people::{CREATED, Own, Person, Says};

const NETWORKS: u64 = 400;
const PEOPLE: u8 = 9;
/// The reference time.
const NOW: u32 = CREATED + 1000;
/// Domains for scopes.
const DOMAINS: [&str; 2] = ["example.org", "mail.example.com"];

/// A deterministic random generator (`SplitMix64`).
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        u32::try_from((z ^ (z >> 31)) % u64::from(bound)).unwrap()
    }

    fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(u32::try_from(choices.len()).unwrap()) as usize]
    }

    fn says(&mut self) -> Says {
        let created = CREATED + 1 + self.below(40) * 10;
        let depth = self.of(&[0, 1, 1, 2, 3, 255]);
        let amount = self.of(&[30, 60, 60, 90, 120]);
        let scopes = ["<[^>]+[@.]example\\.com>$", "@(example|other)\\.org>$", "^P[0-4]? <"];
        Says {
            kind: self.of(&[0x10, 0x10, 0x11, 0x12, 0x13]),
            created,
            expires: (self.below(12) == 0).then(|| created + 1 + self.below(900)),
            trust: (self.below(5) > 0).then_some((depth, amount)),
            scope: (self.below(6) == 0).then(|| self.of(&scopes)),
            irrevocable: false,
            sha1: self.below(25) == 0,
        }
    }

    /// Later changes of the own certificate.
    fn own(&mut self) -> Own {
        let user_id = self.below(2) as usize;
        let created = CREATED + 1 + self.below(400);
        match self.below(3) {
            0 => Own::RevokesKey { created },
            1 => Own::RevokesUserId { user_id, created },
            _ => {
                let key_expires = Some(created + 1 + self.below(600));
                Own::Binds { user_id, created, key_expires, expires: None }
            }
        }
    }
}

fn names(person: usize) -> [String; 2] {
    DOMAINS.map(|domain| format!("P{person} <p{person}@{domain}>"))
}

/// A network, and its trust roots with their amounts, in the order of their fingerprints.
fn network(number: u64) -> (Vec<Person>, Vec<Cert>, Vec<(usize, u8)>) {
    let mut draw = Draw(number);
    let person = |number: u8| {
        let names = names(number.into());
        Person::new(number, &[&names[0], &names[1]])
    };
    let people: Vec<Person> = (0..PEOPLE).map(person).collect();
    let mut certs: Vec<Cert> = people.iter().map(Person::cert).collect();
    let mut add = |at: usize, piece: Cert| certs[at] = certs[at].union(&piece);
    for _ in 0..draw.of(&[12, 20, 40]) {
        let (from, to) = (draw.below(PEOPLE.into()) as usize, draw.below(PEOPLE.into()) as usize);
        let user_id = draw.below(2) as usize;
        let says = draw.says();
        if from == to {
            continue;
        }
        add(to, people[from].certifies(&people[to], user_id, &says));
        if draw.below(15) == 0 {
            let revokes = Says::revokes(says.created + 1 + draw.below(100));
            add(to, people[from].certifies(&people[to], user_id, &revokes));
        }
        if draw.below(10) == 0 {
            add(to, people[from].certifies(&people[to], user_id, &draw.says()));
        }
    }
    for (at, person) in people.iter().enumerate().skip(2) {
        if draw.below(8) == 0 {
            add(at, person.own(&draw.own()));
        }
    }
    let mut roots = vec![(0, FULL), (1, PARTIAL), (2, PARTIAL), (3, FULL)];
    roots.truncate(1 + draw.below(3) as usize);
    if draw.below(3) == 0 {
        roots[0].1 = PARTIAL;
    }
    roots.sort_by_key(|&(at, _)| people[at].fingerprint());
    (people, certs, roots)
}

/// Writes a network for other programs.
fn write(folder: &Path, number: u64) {
    let (people, certs, roots) = network(number);
    let bytes: Vec<&[u8]> = certs.iter().map(Cert::as_bytes).collect();
    fs::write(folder.join(format!("{number}.pgp")), bytes.concat()).unwrap();
    let root = |&(at, amount): &(usize, u8)| format!("{}={amount}", people[at].fingerprint());
    let roots: Vec<String> = roots.iter().map(root).collect();
    fs::write(folder.join(format!("{number}.txt")), format!("{NOW} {}", roots.join(" "))).unwrap();
}

#[test]
fn trust_amounts_equal_those_of_sequoia() {
    if let Some(folder) = std::env::var_os("TALARIA_WRITE") {
        (0..NETWORKS).for_each(|number| write(Path::new(&folder), number));
        return;
    }
    let mut lines = include_str!("wot.txt").lines();
    let mut seen = [0; 3];
    let mut different = Vec::new();
    let networks = talaria_needs::short_or_full(NETWORKS / 4, NETWORKS);
    for number in 0..networks {
        let (people, certs, roots) = network(number);
        let folder = Folder::new();
        let store = folder.filled(&certs);
        let id = |person: &Person| store.row(person.fingerprint()).unwrap().unwrap().id;
        let roots: Vec<_> = roots.iter().map(|&(at, amount)| (id(&people[at]), amount)).collect();
        let mut flow = Flow::new(Certifications::new(&store, NOW.into()), roots);
        let expected = lines.next().expect("a line for each network");
        let mut expected = expected.split(' ').map(|amount| amount.parse::<u32>().unwrap());
        for (at, person) in people.iter().enumerate() {
            let row = store.row(person.fingerprint()).unwrap().unwrap();
            let row = store.current(row, talaria_cert::Rules::Standard, NOW.into()).unwrap();
            for text in names(at) {
                let amount = expected.next().expect("an amount for each user ID");
                let mut texts = row.summary.texts();
                let user_id = texts.position(|other| other == text.as_bytes()).unwrap();
                let found = &row.summary.user_ids[user_id];
                // The comparison skips revoked and expired user IDs.
                if [row.summary.validity(NOW), found.validity(NOW)] != [Validity::Valid; 2] {
                    continue;
                }
                let target = (row.id, user_id, text.as_bytes());
                let found = flow.paths(target).unwrap();
                let sum = found.amount();
                if sum != amount || found.cut_off {
                    different.push(format!("{number}, {text}: {sum}, not {amount}: {found:?}"));
                }
                seen[match sum {
                    0 => 0,
                    1..120 => 1,
                    _ => 2,
                }] += 1;
            }
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
    assert!(
        seen.iter().all(|&count| count > networks * 3 / 4),
        "the networks are too much alike: {seen:?}"
    );
}

/// Sixty people who delegate to each other: strangers at first, then within reach of a root.
#[test]
fn a_ring_of_sixty_costs_what_its_certifications_cost() {
    const COUNT: u8 = 60;
    let name = |number: u8| format!("P{number} <p{number}@example.org>");
    let people: Vec<Person> =
        (0..=COUNT).map(|number| Person::new(number, &[&name(number)])).collect();
    let mut certs: Vec<Cert> = people.iter().map(Person::cert).collect();
    let (root, ring) = people.split_first().unwrap();
    for (at, to) in ring.iter().enumerate() {
        for from in ring.iter().filter(|from| from.fingerprint() != to.fingerprint()) {
            let says = from.certifies(to, 0, &Says::trusts(255, 60));
            certs[at + 1] = certs[at + 1].union(&says);
        }
    }
    for is_anchored in [false, true] {
        if is_anchored {
            let says = root.certifies(&ring[0], 0, &Says::trusts(255, FULL));
            certs[1] = certs[1].union(&says);
        }
        let folder = Folder::new();
        let store = folder.filled(&certs);
        let id = |person: &Person| store.row(person.fingerprint()).unwrap().unwrap().id;
        let roots = vec![(id(root), FULL)];
        let mut flow = Flow::new(Certifications::new(&store, NOW.into()), roots);
        for (number, person) in (1..=COUNT).zip(ring) {
            let found = flow.paths((id(person), 0, name(number).as_bytes())).unwrap();
            // From the first member, 60 flow over each certification to another one.
            let expected = if is_anchored { u32::from(FULL) } else { 0 };
            assert_eq!((found.amount(), found.cut_off), (expected, false), "{number}");
        }
    }
}
