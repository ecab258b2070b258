//! The spellings of a word whose letters have an umlaut, a ring or a stroke: Müller, Mueller and
//! Muller.
//!
//! [Folding](crate::user_id::folded) makes one word of Müller and Muller, so that a word has two
//! spellings here: with one letter and with two. A word that was typed with an umlaut says where it
//! is. In any other word, each pair of letters may stand for one, and each vowel for a pair.

use crate::folding::{COMPOSED, words};

/// Maximum number of spellings of a word. Those that change the fewest letters come first, and the
/// word itself is always one.
pub const SPELLINGS_MAX: usize = 24;

/// Maximum number of spellings of a word that are tried, since many can be the same: those of
/// "aaaa" all differ in length only.
const TRIES_MAX: usize = 256;

/// Letters that are also written as two.
const LETTERS: [(char, &str); 7] = [
    ('ä', "ae"),
    ('ö', "oe"),
    ('ü', "ue"),
    ('å', "aa"),
    ('ø', "oe"),
    // Folding leaves these as they are.
    ('æ', "ae"),
    ('œ', "oe"),
];

/// Parts of a folded word that are also written in other ways. The first of them that fits is
/// taken.
const PARTS: [(&str, &[&str]); 9] = [
    ("ae", &["a", "æ"]),
    ("oe", &["o", "œ"]),
    ("ue", &["u"]),
    ("aa", &["a"]),
    ("a", &["ae", "aa"]),
    ("o", &["oe"]),
    ("u", &["ue"]),
    ("æ", &["ae"]),
    ("œ", &["oe"]),
];

/// The words of a text as [`words`] makes them, each with its other spellings: at most
/// [`SPELLINGS_MAX`], the word itself first.
#[must_use]
pub fn spellings(text: &str) -> Vec<Vec<String>> {
    let mut long = String::with_capacity(text.len());
    for c in COMPOSED.normalize_iter(text.to_lowercase().chars()) {
        match LETTERS.iter().find(|(letter, _)| *letter == c) {
            Some((_, two)) => long.push_str(two),
            None => long.push(c),
        }
    }
    // Letters for letters change nothing about where words end.
    words(text)
        .zip(words(&long))
        .map(|(word, long)| if word == long { every_spelling(&word) } else { vec![word, long] })
        .collect()
}

/// A folded text in the form that all spellings of its words share: an `a` for `ae`, `aa` and `æ`,
/// an `o` for `oe` and `œ`, a `u` for `ue`. An index of words in this form finds all spellings
/// under one entry. Unrelated words may share a form, so the form only selects candidates.
#[must_use]
pub fn shared_form(folded: &str) -> String {
    let mut shared = String::with_capacity(folded.len());
    let mut last = ' ';
    for c in folded.chars() {
        let c = match c {
            'æ' => 'a',
            'œ' => 'o',
            c => c,
        };
        let is_second_letter = matches!((last, c), ('a', 'a' | 'e') | ('o' | 'u', 'e'));
        if !is_second_letter {
            shared.push(c);
            last = c;
        }
    }
    shared
}

/// A part of a word that is also written in other ways, behind letters that are not.
struct Site<'a> {
    before: &'a str,
    part: &'a str,
    others: &'static [&'static str],
}

/// The spellings of a folded word in which no letter says how it is written.
fn every_spelling(word: &str) -> Vec<String> {
    let (mut sites, mut done) = (Vec::new(), 0);
    let mut places = word.char_indices().map(|(at, _)| at);
    while let Some(at) = places.find(|&at| at >= done) {
        if let Some((part, others)) = PARTS.iter().find(|(part, _)| word[at..].starts_with(part)) {
            sites.push(Site { before: &word[done..at], part, others });
            done = at + part.len();
        }
    }
    let (mut all, mut tries_left) = (vec![word.to_owned()], TRIES_MAX);
    for changes in 1..=sites.len() {
        change(&sites, &word[done..], changes, &mut String::new(), &mut all, &mut tries_left);
    }
    all
}

/// Appends the spellings that go on from `start` and change this number of `sites`.
fn change(
    sites: &[Site<'_>],
    end: &str,
    changes: usize,
    start: &mut String,
    all: &mut Vec<String>,
    tries_left: &mut usize,
) {
    if all.len() == SPELLINGS_MAX || *tries_left == 0 || sites.len() < changes {
        return;
    }
    let length = start.len();
    if let Some((site, rest)) = sites.split_first() {
        start.push_str(site.before);
        let before = start.len();
        for other in site.others.iter().filter(|_| changes > 0) {
            start.push_str(other);
            change(rest, end, changes - 1, start, all, tries_left);
            start.truncate(before);
        }
        start.push_str(site.part);
        change(rest, end, changes, start, all, tries_left);
    } else {
        *tries_left -= 1;
        start.push_str(end);
        if !all.contains(start) {
            all.push(start.clone());
        }
    }
    start.truncate(length);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folding::folded;
    use proptest::prelude::*;

    /// Without a bound on what is tried, this never ends.
    #[test]
    fn a_long_word_of_equal_letters_has_few_spellings() {
        for part in ["a", "ae", "oe", "u", "aeoeue", "a "] {
            let all = spellings(&part.repeat(2000));
            assert!(all.iter().all(|word| word.len() <= SPELLINGS_MAX), "{part}");
        }
    }

    fn of(word: &str) -> Vec<String> {
        let [spellings] = &spellings(word)[..] else { panic!("{word}: one word") };
        spellings.clone()
    }

    #[test]
    fn every_spelling_of_a_name_finds_every_other() {
        for names in [
            ["Müller", "Mueller", "Muller"],
            ["Jörg", "Joerg", "Jorg"],
            ["Østergård", "Oestergaard", "Ostergard"],
            ["JÄGER", "JAEGER", "JAGER"],
            ["Håkan", "Haakan", "Hakan"],
            ["Häuser", "Haeuser", "Hauser"],
            ["Jägermüller", "Jaegermueller", "Jagermuller"],
        ] {
            for searched in names {
                let found = of(searched);
                for name in names {
                    assert!(found.contains(&folded(name)), "{searched} finds no {name}: {found:?}");
                }
            }
        }
        assert_eq!(of("Jæger"), ["jæger", "jaeger"]);
        assert!(of("jaeger").contains(&"jæger".to_owned()));
    }

    #[test]
    fn each_word_has_spellings_of_its_own() {
        let all = spellings("Michael Mueller");
        assert_eq!(all.len(), 2);
        assert!(all[0].contains(&"michael".into()) && all[1].contains(&"muller".into()));
        assert_eq!(of("Mu\u{308}ller"), ["muller", "mueller"]);
        assert_eq!(of("Brigitte"), ["brigitte"]);
        assert_eq!(of("Елена"), ["елена"]);
        assert_eq!(spellings("").len(), 0);
    }

    proptest! {
        /// A name with an umlaut, and what people make of it who have no such letter.
        #[test]
        fn a_word_with_an_umlaut_is_found_however_it_is_spelled(
            start in "[b-df-hj-np-tv-z]{1,3}([ai][b-df-hj-np-tv-z]){0,2}",
            which in 0..5_usize,
            end in "[b-df-hj-np-tv-z]{1,2}([eo][b-df-hj-np-tv-z]){0,2}",
        ) {
            let (letter, two) = LETTERS[which];
            let names = [format!("{start}{letter}{end}"), format!("{start}{two}{end}")];
            let plain = folded(&names[0]);
            let names = [plain.as_str(), &names[0], &names[1]];
            for searched in names {
                let found = of(searched);
                for name in names {
                    prop_assert!(found.contains(&folded(name)), "{searched}: {name}: {found:?}");
                }
            }
        }

        #[test]
        fn all_spellings_share_one_form(text in "(\\PC|[aeouæœ]|[aeouäöüåøæ]){0,60}") {
            let shared: Vec<String> = words(&text).map(|word| shared_form(&word)).collect();
            prop_assert_eq!(words(&shared_form(&folded(&text))).collect::<Vec<_>>(), shared.clone());
            for (shared, of_word) in shared.iter().zip(spellings(&text)) {
                for spelling in of_word {
                    prop_assert_eq!(&shared_form(&spelling), shared, "{}", spelling);
                }
                prop_assert_eq!(&shared_form(shared), shared);
                prop_assert!(words(shared).eq([shared.as_str()]));
            }
        }

        #[test]
        fn spellings_are_few_folded_words(text in "(\\PC|[aeouäöüåøæ]){0,60}") {
            let all = spellings(&text);
            prop_assert!(all.iter().map(|of_word| of_word[0].clone()).eq(words(&text)));
            for of_word in all {
                prop_assert!(of_word.len() <= SPELLINGS_MAX);
                for (at, spelling) in of_word.iter().enumerate() {
                    prop_assert!(words(spelling).eq([spelling.as_str()]));
                    prop_assert!(!of_word[..at].contains(spelling));
                }
            }
        }
    }
}
