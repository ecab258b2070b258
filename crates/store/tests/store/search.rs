//! Searches by text find the same with and without indexes, in every script.

use std::collections::BTreeSet;

use crate::common::{Folder, NOW, assert_clean};
use proptest::prelude::*;
use talaria_cert::{Cert, Fingerprint, Verification};
use talaria_store::{Query, Return, Store, TextIndex};

/// A certificate of version 4 without signatures. Its fingerprint depends on `number`.
fn cert(number: u32, user_ids: &[Vec<u8>]) -> Cert {
    let mut key = vec![4];
    key.extend((NOW - number).to_be_bytes());
    // Ed25519, a point of 263 bits.
    key.extend([22, 9, 0x2b, 6, 1, 4, 1, 0xda, 0x47, 0x0f, 1, 1, 7, 0x40]);
    key.extend([7; 32]);
    let mut bytes = Vec::new();
    let packets = [(6, &key)].into_iter().chain(user_ids.iter().map(|user_id| (13, user_id)));
    for (tag, body) in packets {
        bytes.extend([0xc0 | tag, 0xff]);
        bytes.extend(u32::try_from(body.len()).unwrap().to_be_bytes());
        bytes.extend(body);
    }
    Cert::parse(&bytes).unwrap()
}

#[test]
fn a_search_with_a_bound_returns_some_megabytes_at_most() {
    let names =
        |number: u32| (0..2000).map(move |n| format!("common {number} {n:01000}").into_bytes());
    let certs: Vec<Cert> =
        (0..30).map(|number| cert(number, &names(number).collect::<Vec<_>>())).collect();
    let folder = Folder::new();
    let mut store = folder.store();
    store.ingest(certs, Verification::Full, NOW.into()).unwrap();
    let query = Query::Words(vec!["common".into()]);
    // 2 MB each.
    let found = store.select_within(&query, 500, 5000).unwrap();
    assert!((7..=9).contains(&found.rows.len()) && found.more, "{}", found.rows.len());
    assert_eq!(store.select(&query, 500).unwrap().rows.len(), 30);
    // Also of those that do not match.
    for query in [Query::Identity("common".into()), Query::Identity("co".into())] {
        let found = store.select_within(&query, 500, 5000).unwrap();
        assert!(found.rows.is_empty() && found.more, "{query}");
        assert!(!store.select(&query, 500).unwrap().more, "{query}");
    }
}

/// Two stores with the same certificates, the second without indexes.
struct Stores(
    [Store; 2],
    #[expect(dead_code, reason = "kept until the stores are closed")] [Folder; 2],
);

impl Stores {
    fn new(certs: &[Cert]) -> Self {
        let folders = [Folder::new(), Folder::new()];
        let stores = folders.each_ref().map(Folder::store);
        let mut stores = Self(stores, folders);
        TextIndex::ALL
            .iter()
            .for_each(|index| stores.0[1].operator_mut().drop_index(*index).unwrap());
        stores.add(certs);
        stores
    }

    fn add(&mut self, certs: &[Cert]) {
        for store in &mut self.0 {
            store.ingest(certs.to_vec(), Verification::Full, NOW.into()).unwrap();
        }
    }

    /// The certificates that both find.
    fn found(&self, query: &Query) -> Result<BTreeSet<Fingerprint>, TestCaseError> {
        let [with, without] = self.0.each_ref().map(|store| {
            let rows = store.select(query, usize::MAX).map(|found| found.rows);
            let rows = rows.map_err(|error| TestCaseError::fail(format!("{query:?}: {error}")))?;
            let found: BTreeSet<_> = rows.iter().map(|row| row.summary.fingerprint()).collect();
            Ok::<_, TestCaseError>(found)
        });
        let (with, without) = (with?, without?);
        prop_assert_eq!(&with, &without, "{:?}", query);
        Ok(with)
    }
}

#[test]
fn searches_in_every_script_find_all_writings() {
    let user_ids = [
        "हिन्दी भाषा <hindi@example.org>",
        "İSTANBUL <istanbul@example.org>",
        "ᲗᲑᲘᲚᲘᲡᲘ",
        "ᏣᎳᎩ ꭰꮒꮿꮻꮿ",
        "Hans Müller, Straße 1",
        "Hans Muller, STRASSE 2",
        "ﬁlm",
        "佐々木みどり",
        "ｶﾞﾗｽ",
        "nul\0 <nul@example.org>",
    ];
    let certs: Vec<Cert> =
        (0..).zip(user_ids).map(|(at, text)| cert(at, &[text.as_bytes().to_vec()])).collect();
    let stores = Stores::new(&certs);
    let cases: [(&str, &[usize]); 23] = [
        ("+हिन्दी", &[0]),
        ("+भाषा हिन्दी", &[0]),
        ("*हिन्दी", &[0]),
        ("+हन्दी", &[]),
        ("istanbul", &[1]),
        ("+İstanbul", &[1]),
        ("+istanbul", &[1]),
        ("თბილისი", &[2]),
        ("+თბილისი", &[2]),
        ("ᏣᎳᎩ", &[3]),
        ("+ꮳꮃꭹ", &[3]),
        ("*ᎠᏂᏯᏫᏯ", &[3]),
        ("muller", &[4, 5]),
        ("+MÜLLER", &[4, 5]),
        ("*straß", &[4, 5]),
        ("+strasse hans", &[4, 5]),
        ("film", &[6]),
        ("+ﬁlm", &[6]),
        ("+佐々木", &[7]),
        ("+みどり", &[7]),
        ("+ガラス", &[8]),
        ("+nul", &[9]),
        ("\u{200d}l\0 <n\u{301}", &[9]),
    ];
    for (text, expected) in cases {
        let found = stores.found(&text.parse().unwrap()).unwrap();
        let expected: BTreeSet<_> = expected.iter().map(|&at| certs[at].fingerprint()).collect();
        assert_eq!(found, expected, "{text}");
    }
    stores.0.iter().for_each(assert_clean);
}

/// Characters that tokenizers, normal forms or foldings treat in a special way, or any others.
fn text() -> impl Strategy<Value = String> {
    const SPECIAL: &str = "aBz1  .@-\"*'\0\nßẞİıſKﬁé\u{301}\u{345}\u{30c}ǰΐΣςᲐაᎠꭰᏸक\u{93c}\u{93f}\u{94d}\u{200d}\u{ad}\u{fe0f}\
        \u{fffe}\u{ffff}\u{fffd}가\u{1100}\u{1161}\u{11a8}日々か\u{3099}ガｶﾞก\u{e48}ה\u{5b8}ا\u{64e}½²´\u{3000}\u{a0}—☎𐐀𐐨𞤀𝐀\
        \u{10ffff}\u{f51}\u{f72}\u{f71}";
    let special: Vec<char> = SPECIAL.chars().collect();
    let character = prop_oneof![4 => proptest::sample::select(special), 1 => any::<char>()];
    proptest::collection::vec(character, 0..14).prop_map(|all| all.into_iter().collect())
}

/// A user ID: a text, one with an address, or bytes that are not UTF-8.
fn user_id() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => text().prop_map(String::into_bytes),
        3 => (text(), text()).prop_map(|(name, host)| format!("{name} <{name}@{host}>").into_bytes()),
        1 => (text(), any::<Vec<u8>>()).prop_map(|(text, bytes)| [bytes, text.into_bytes()].concat()),
    ]
}

/// Searches for parts of a user ID.
fn searches(user_id: &[u8], from: usize, length: usize) -> Vec<String> {
    let text = String::from_utf8_lossy(user_id);
    let count = text.chars().count().max(1);
    let part: String = text.chars().skip(from % count).take(1 + length).collect();
    let parts = [part.to_uppercase(), part.to_lowercase(), part];
    let marked = |part: &str| ["", "*", "+", "@", ".", "="].map(|mark| format!("{mark}{part}"));
    parts.iter().flat_map(|part| marked(part)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn searches_find_the_same_with_and_without_indexes(
        certs in proptest::collection::vec(proptest::collection::vec(user_id(), 0..3), 1..16),
        others in proptest::collection::vec(user_id(), 1..4),
        (from, length) in (any::<usize>(), 0_usize..9),
    ) {
        let certs: Vec<(Cert, Vec<Vec<u8>>)> =
            (0..).zip(certs).map(|(at, user_ids)| (cert(at, &user_ids), user_ids)).collect();
        let all: Vec<Cert> = certs.iter().map(|(cert, _)| cert.clone()).collect();
        let mut stores = Stores::new(&all);
        for (cert, user_ids) in &certs {
            for user_id in user_ids {
                for search in searches(user_id, from, length) {
                    let Ok(query) = search.parse::<Query>() else { continue };
                    let found = stores.found(&query)?;
                    let is_part = matches!(query, Query::Text(_) | Query::Substring(_));
                    if is_part && query.names_text(user_id) {
                        prop_assert!(found.contains(&cert.fingerprint()), "{search:?}");
                    }
                }
            }
        }
        for search in others.iter().flat_map(|other| searches(other, from, length)) {
            if let Ok(query) = search.parse() {
                stores.found(&query)?;
            }
            // A program can make any query.
            stores.found(&Query::Words(vec![search.clone()]))?;
            stores.found(&Query::Substring(search))?;
        }
        // Changes and deletions find the same postings.
        stores.add(&[cert(0, &others)]);
        stores.0[0].delete(&[all[all.len() - 1].fingerprint()], Return::Allowed, NOW.into()).unwrap();
        assert_clean(&stores.0[0]);
    }
}
