//! The form in which texts are searched, and its words. Indexes, queries and comparisons use these
//! functions and nothing else, so that a search finds the same with and without an index.

use icu_casemap::{CaseMapper, CaseMapperBorrowed};
use icu_normalizer::{
    ComposingNormalizerBorrowed as Composing, DecomposingNormalizerBorrowed as Decomposing,
};
use icu_properties::props::{
    Alphabetic, DefaultIgnorableCodePoint, GeneralCategory, GeneralCategoryGroup, Ideographic,
    Script,
};
use icu_properties::{
    CodePointMapData, CodePointMapDataBorrowed, CodePointSetData, CodePointSetDataBorrowed,
};

const CASES: CaseMapperBorrowed<'_> = CaseMapper::new();
pub(crate) const COMPOSED: Composing<'_> = Composing::new_nfc();
const DECOMPOSED: Decomposing<'_> = Decomposing::new_nfkd();
const CATEGORY: CodePointMapDataBorrowed<'_, GeneralCategory> = CodePointMapData::new();
const SCRIPT: CodePointMapDataBorrowed<'_, Script> = CodePointMapData::new();
const ALPHABETIC: CodePointSetDataBorrowed<'_> = CodePointSetData::new::<Alphabetic>();
const IDEOGRAPHIC: CodePointSetDataBorrowed<'_> = CodePointSetData::new::<Ideographic>();
const IGNORABLE: CodePointSetDataBorrowed<'_> =
    CodePointSetData::new::<DefaultIgnorableCodePoint>();

/// The form for searches: upper and lower case, compatibility forms and diacritics make no
/// difference.
///
/// This is NFKC with full case folding. It has no characters that are ignorable by default and no
/// diacritics, Latin letters with a stroke have none, and control characters are spaces. Folding a
/// text again does not change it. `docs/formats/store.md` has the steps.
#[must_use]
pub fn folded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        // Neither normal forms nor case foldings join an ASCII character with what stands before
        // it, and the marks that could follow it are diacritics.
        let (ascii, others) = rest.split_at(first(rest, |byte| !byte.is_ascii()));
        fold_ascii(ascii, &mut out);
        let (others, after) = others.split_at(first(others, |byte| byte.is_ascii()));
        if !others.is_empty() {
            fold_others(others, &mut out);
        }
        rest = after;
    }
    out
}

/// The place of the first byte like that, or the length.
fn first(text: &str, which: impl Fn(u8) -> bool) -> usize {
    text.bytes().position(which).unwrap_or(text.len())
}

fn fold_ascii(text: &str, out: &mut String) {
    // Not `any`, which would look at one byte after the other.
    if text.bytes().fold(false, |found, byte| found | byte.is_ascii_control()) {
        out.extend(text.chars().filter_map(plain).map(|c| c.to_ascii_lowercase()));
        return;
    }
    let start = out.len();
    out.push_str(text);
    out[start..].make_ascii_lowercase();
}

fn fold_others(text: &str, out: &mut String) {
    // Without a first decomposition, the dot of İ would become a letter of its own, and so would an
    // iota subscript.
    let letters: String = DECOMPOSED.normalize_iter(text.chars()).filter_map(plain).collect();
    // Some letters fold to letters with a diacritic.
    let cases = CASES.fold_string(&letters);
    let again = DECOMPOSED.normalize_iter(cases.chars()).filter_map(plain);
    out.extend(COMPOSED.normalize_iter(again));
}

/// A character of a decomposed text as it is searched.
fn plain(c: char) -> Option<char> {
    match c {
        '\0'..='\x1f' | '\x7f'..='\u{9f}' => Some(' '),
        ' '..='~' => Some(c),
        // Letters with a stroke have no decomposition.
        'Ł' | 'ł' => Some('l'),
        'Ø' | 'ø' => Some('o'),
        'Đ' | 'đ' => Some('d'),
        'Ħ' | 'ħ' => Some('h'),
        'Ŧ' | 'ŧ' => Some('t'),
        // Turkish writes the capital of ı as I.
        'ı' => Some('i'),
        _ if IGNORABLE.contains(c) || is_diacritic(c) => None,
        _ => Some(c),
    }
}

/// Whether `c` is a mark without which the word stays readable.
///
/// Marks of other scripts are vowels, or end a syllable. The voicing marks of kana make another
/// consonant.
fn is_diacritic(c: char) -> bool {
    const VOICING: [char; 2] = ['\u{3099}', '\u{309a}'];
    let is_mark =
        matches!(CATEGORY.get(c), GeneralCategory::NonspacingMark | GeneralCategory::EnclosingMark);
    // Marks for several scripts have the script "inherited".
    let scripts = [
        Script::Inherited,
        Script::Latin,
        Script::Greek,
        Script::Cyrillic,
        Script::Hebrew,
        Script::Arabic,
        Script::Syriac,
    ];
    is_mark && !VOICING.contains(&c) && scripts.contains(&SCRIPT.get(c))
}

/// The form for comparing whole texts without regard to case, in every script: simple case folding,
/// letter by letter.
///
/// Nothing else becomes equal. ß stays one letter, because straße.example and strasse.example are
/// two domains, and no other letter becomes an ASCII one.
#[must_use]
pub fn caseless(text: &str) -> String {
    let fold = |c: char| match CASES.simple_fold(c) {
        // A mark below a letter, whose capital is a letter.
        _ if c == '\u{345}' => c,
        folded if folded.is_ascii() => c.to_ascii_lowercase(),
        folded => folded,
    };
    text.chars().map(fold).collect()
}

/// The words of a text, folded. See [`words_of_folded`].
pub fn words(text: &str) -> impl Iterator<Item = String> {
    let text = folded(text);
    words_of_folded(&text).map(str::to_owned).collect::<Vec<_>>().into_iter()
}

/// The words of a folded text: sequences of letters, digits and marks. Ideographs and hiragana are
/// words of their own, because their scripts have no spaces between words.
pub fn words_of_folded(folded: &str) -> impl Iterator<Item = &str> {
    let mut rest = folded;
    std::iter::from_fn(move || {
        let start = rest.find(|c| Role::of(c) != Role::Outside)?;
        let mut characters = rest[start..].char_indices();
        let (_, first) = characters.next()?;
        let is_alone = Role::of(first) == Role::Alone;
        let ends = |c| match Role::of(c) {
            Role::Outside | Role::Alone => true,
            Role::Letter => is_alone,
            Role::Mark => false,
        };
        let length = characters.find(|&(_, c)| ends(c)).map_or(rest.len() - start, |(at, _)| at);
        let word = &rest[start..start + length];
        rest = &rest[start + length..];
        Some(word)
    })
}

/// The role of a character in a word.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Role {
    /// It separates words.
    Outside,
    /// A letter or digit.
    Letter,
    /// It belongs to the letter before it.
    Mark,
    /// A word of its own.
    Alone,
}

impl Role {
    fn of(c: char) -> Self {
        if c.is_ascii() {
            return if c.is_ascii_alphanumeric() { Self::Letter } else { Self::Outside };
        }
        let category = CATEGORY.get(c);
        if GeneralCategoryGroup::Mark.contains(category) {
            Self::Mark
        } else if IDEOGRAPHIC.contains(c) || SCRIPT.get(c) == Script::Hiragana {
            Self::Alone
        } else if ALPHABETIC.contains(c) || GeneralCategoryGroup::Number.contains(category) {
            Self::Letter
        } else {
            Self::Outside
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hex::Lower;
    use crate::sha256;
    use proptest::prelude::*;

    fn characters() -> impl Iterator<Item = char> {
        '\0'..=char::MAX
    }

    #[test]
    fn different_writings_fold_to_one() {
        let same = [
            ["Straße", "STRASSE"],
            ["STRAẞE", "strasse"],
            ["ﬁlm", "FILM"],
            ["İSTANBUL", "istanbul"],
            ["ISPARTA", "ısparta"],
            ["Müller", "Muller"],
            ["Mu\u{308}ller", "MÜLLER"],
            ["Łukasz Østergård", "lukasz ostergard"],
            ["Nguyễn", "NGUYEN"],
            ["Ὀδυσσεύς", "ΟΔΥΣΣΕΥΣ"],
            ["ᾳ", "Α\u{345}"],
            ["Ёлкин", "елкин"],
            ["ᲗᲑᲘᲚᲘᲡᲘ", "თბილისი"],
            ["ᏣᎳᎩ", "ꮳꮃꭹ"],
            ["שָׁלוֹם", "שלום"],
            ["مُحَمَّد", "محمد"],
            ["أحمد", "احمد"],
            ["ｶﾞﾗｽ", "ガラス"],
            ["Ａｌｉｃｅ", "alice"],
            ["각", "\u{1100}\u{1161}\u{11a8}"],
            ["क\u{93c}", "क़"],
            ["so\u{ad}ft\u{200d}", "soft"],
            ["a\tb\u{0}", "A B "],
        ];
        for [one, other] in same {
            assert_eq!(folded(one), folded(other));
        }
        for [one, other] in [["か", "が"], ["हिन्दी", "हन्दी"], ["कि", "क"], ["ไท", "ไท้"]]
        {
            assert_ne!(folded(one), folded(other));
        }
    }

    #[test]
    fn nothing_but_case_is_without_regard() {
        for [one, other] in [
            ["MÜLLER@Example.ORG", "müller@example.org"],
            ["ΟΔΥΣΣΕΎΣ", "οδυσσεύς"],
            ["ЁЛКИН", "ёлкин"],
            ["ᏣᎳᎩ", "ꮳꮃꭹ"],
            ["STRAẞE", "straße"],
            ["Ⅷ", "ⅷ"],
        ] {
            assert_eq!(caseless(one), caseless(other));
        }
        for [one, other] in [
            ["Müller", "Muller"],
            ["straße", "strasse"],
            ["ban\u{212a}", "bank"],
            ["\u{17f}upport", "support"],
            ["İ", "i"],
            ["x²", "x2"],
            ["a\u{200d}", "a"],
        ] {
            assert_ne!(caseless(one), caseless(other));
        }
    }

    /// So the indexes of folded texts find all that is equal without regard to case.
    #[test]
    fn characters_that_differ_in_case_only_fold_to_one() {
        for c in characters() {
            let this = c.to_string();
            assert_eq!(folded(&caseless(&this)), folded(&this), "U+{:04X}", u32::from(c));
        }
    }

    #[test]
    fn words_are_the_same_in_every_script() {
        let cases: [(&str, &[&str]); 9] = [
            (
                "Bob-Joe O'Neil <bob_j@mail.example>",
                &["bob", "joe", "o", "neil", "bob", "j", "mail", "example"],
            ),
            ("हिन्दी भाषा", &["हिन्दी", "भाषा"]),
            ("İzmir, İSTANBUL", &["izmir", "istanbul"]),
            ("สมชาย ใจดี", &["สมชาย", "ใจดี"]),
            ("தமிழ்—മലയാളം", &["தமிழ்", "മലയാളം"]),
            ("김철수(金哲洙)", &["김철수", "金", "哲", "洙"]),
            ("佐々木みどり カタカナ", &["佐", "々", "木", "み", "ど", "り", "カタカナ"]),
            ("½ x²", &["1", "2", "x2"]),
            ("- \u{301} ☎", &[]),
        ];
        for (text, expected) in cases {
            assert_eq!(words(text).collect::<Vec<_>>(), expected, "{text}");
        }
    }

    #[test]
    fn folding_again_changes_no_character() {
        for c in characters() {
            let once = folded(c.encode_utf8(&mut [0; 4]));
            assert_eq!(folded(&once), once, "U+{:04X}", u32::from(c));
            assert!(!once.contains('\0'));
        }
    }

    #[test]
    fn upper_and_lower_case_of_every_letter_fold_to_one() {
        for c in characters() {
            let lower: String = c.to_lowercase().collect();
            let upper: String = c.to_uppercase().collect();
            let this = folded(c.encode_utf8(&mut [0; 4]));
            assert_eq!(folded(&lower), this, "U+{:04X}", u32::from(c));
            // An iota subscript is a diacritic, but its capital is a letter.
            if !DECOMPOSED.normalize_iter([c].into_iter()).any(|c| c == '\u{345}') {
                assert_eq!(folded(&upper), this, "U+{:04X}", u32::from(c));
            }
        }
    }

    /// Stores keep folded texts in their indexes. If another version of Unicode changes this
    /// digest, those indexes have to be rebuilt: give the store a new format.
    #[test]
    fn the_folding_is_that_of_the_store_format() {
        let mut all = Vec::new();
        for c in characters() {
            all.extend(folded(c.encode_utf8(&mut [0; 4])).bytes());
            all.extend([0xff, Role::of(c) as u8]);
        }
        assert_eq!(
            Lower(&sha256(&[&all])).to_string(),
            "51d4cc506b92e8f034038de37a45913a23cda9769885f37cc01a031679a23c45"
        );
    }

    proptest! {
        #[test]
        fn folding_again_changes_nothing(text in any::<String>()) {
            let once = folded(&text);
            prop_assert_eq!(folded(&once), once.as_str());
            let words: Vec<String> = words(&text).collect();
            for word in &words {
                prop_assert!(super::words(word).eq([word.as_str()]));
            }
            prop_assert!(super::words(&words.join(" ")).eq(words));
        }

        #[test]
        fn ascii_characters_separate_what_is_folded(
            texts in proptest::collection::vec(any::<String>(), 0..4),
            marks in "[a-zA-Z<=>][\\p{M}]{1,3}[a-z]",
        ) {
            let text = texts.join("K") + &marks;
            let mut whole = String::new();
            fold_others(&text, &mut whole);
            prop_assert_eq!(folded(&text), whole);
        }

        #[test]
        fn equivalent_texts_fold_to_one(text in any::<String>()) {
            let decomposed: String = DECOMPOSED.normalize_iter(text.chars()).collect();
            let composed: String = COMPOSED.normalize_iter(text.chars()).collect();
            prop_assert_eq!(folded(&decomposed), folded(&text));
            prop_assert_eq!(folded(&composed), folded(&text));
        }
    }
}
