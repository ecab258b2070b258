//! Which characters of a foreign text can be seen, for programs that show it among texts of their
//! own.

use std::borrow::Cow;

use icu_properties::props::{
    BidiClass, DefaultIgnorableCodePoint, GeneralCategory, GeneralCategoryGroup, Script,
};
use icu_properties::{
    CodePointMapData, CodePointMapDataBorrowed, CodePointSetData, CodePointSetDataBorrowed,
};

const CATEGORY: CodePointMapDataBorrowed<'_, GeneralCategory> = CodePointMapData::new();
const SCRIPT: CodePointMapDataBorrowed<'_, Script> = CodePointMapData::new();
const DIRECTION: CodePointMapDataBorrowed<'_, BidiClass> = CodePointMapData::new();
const IGNORABLE: CodePointSetDataBorrowed<'_> =
    CodePointSetData::new::<DefaultIgnorableCodePoint>();

/// Marks on one letter that are shown. No script needs more, and a pile of them covers the lines
/// around.
const MARKS_MAX: usize = 4;

/// The characters of a text, each with whether it is hidden: whether it cannot be seen, or changes
/// how the characters around it are seen. These are controls, marks and overrides of direction,
/// invisible letters and spaces of no width, and piles of marks.
///
/// Joiners and selectors of variants are not hidden behind a character of a script that needs them,
/// or behind a pictograph.
pub fn hidden_characters(text: &str) -> impl Iterator<Item = (char, bool)> + '_ {
    let (mut before, mut marks) = ('a', 0);
    text.chars().map(move |c| {
        let is_mark = GeneralCategoryGroup::Mark.contains(CATEGORY.get(c));
        marks = if is_mark { marks + 1 } else { 0 };
        let is_hidden = if is_joiner(c) {
            !takes_joiners(before)
        } else {
            marks > MARKS_MAX || is_invisible(c)
        };
        if is_hidden {
            // Its place is taken by an escape, which has no variants.
            before = 'a';
        } else if !is_joiner(c) {
            before = c;
        }
        (c, is_hidden)
    })
}

/// A text whose hidden characters are escapes that can be read: `\u{1b}` for an escape character,
/// `\n` for the end of a line.
#[must_use]
pub fn visible_text(text: &str) -> Cow<'_, str> {
    with_escapes(text, |c, out| out.extend(c.escape_default()))
}

/// JSON whose hidden characters are escapes of JSON, so that its values stay the same. Outside of
/// strings, JSON has none but the ends of lines, so this is for JSON in one line.
#[must_use]
pub fn visible_json(json: &str) -> Cow<'_, str> {
    with_escapes(json, |c, out| {
        for unit in c.encode_utf16(&mut [0; 2]) {
            out.push_str(&format!("\\u{unit:04x}"));
        }
    })
}

fn with_escapes(text: &str, escape: impl Fn(char, &mut String)) -> Cow<'_, str> {
    let is_printable = |byte| (b' '..=b'~').contains(&byte);
    if text.bytes().all(is_printable) || hidden_characters(text).all(|(_, is_hidden)| !is_hidden) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len());
    for (c, is_hidden) in hidden_characters(text) {
        if is_hidden {
            escape(c, &mut out);
        } else {
            out.push(c);
        }
    }
    out.into()
}

/// Whether the letters of a text run from right to left somewhere, or numbers do, so that it has to
/// be isolated from its surroundings.
#[must_use]
pub fn is_right_to_left(text: &str) -> bool {
    const CLASSES: [BidiClass; 3] =
        [BidiClass::RightToLeft, BidiClass::ArabicLetter, BidiClass::ArabicNumber];
    !text.is_ascii() && text.chars().any(|c| CLASSES.contains(&DIRECTION.get(c)))
}

fn is_invisible(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_control();
    }
    let is_control = matches!(
        CATEGORY.get(c),
        GeneralCategory::Control
            | GeneralCategory::LineSeparator
            | GeneralCategory::ParagraphSeparator
    );
    // A pattern of Braille without a dot, and marks of annotations between the lines.
    is_control || IGNORABLE.contains(c) || matches!(c, '\u{2800}' | '\u{fff9}'..='\u{fffb}')
}

/// Whether it only chooses a form of the character before it, or joins it to the next one.
fn is_joiner(c: char) -> bool {
    matches!(
        c,
        '\u{180b}'..='\u{180d}'
            | '\u{180f}'
            | '\u{200c}'
            | '\u{200d}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{e0100}'..='\u{e01ef}'
    )
}

fn takes_joiners(c: char) -> bool {
    let scripts = [Script::Latin, Script::Greek, Script::Cyrillic];
    // Keycaps.
    matches!(c, '0'..='9' | '#' | '*') || !c.is_ascii() && !scripts.contains(&SCRIPT.get(c))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hidden(text: &str) -> Vec<char> {
        hidden_characters(text).filter(|(_, is_hidden)| *is_hidden).map(|(c, _)| c).collect()
    }

    #[test]
    fn characters_that_deceive_are_hidden() {
        for c in [
            '\0',
            '\n',
            '\u{7f}',
            '\u{85}',
            '\u{ad}',
            '\u{34f}',
            '\u{61c}',
            '\u{115f}',
            '\u{1160}',
            '\u{17b4}',
            '\u{180b}',
            '\u{180e}',
            '\u{200b}',
            '\u{200c}',
            '\u{200d}',
            '\u{200e}',
            '\u{202a}',
            '\u{202e}',
            '\u{2028}',
            '\u{2060}',
            '\u{2065}',
            '\u{2066}',
            '\u{2069}',
            '\u{206f}',
            '\u{2800}',
            '\u{3164}',
            '\u{fe0f}',
            '\u{feff}',
            '\u{ffa0}',
            '\u{fffa}',
            '\u{1d173}',
            '\u{e0001}',
            '\u{e0041}',
            '\u{e0100}',
            '\u{e0fff}',
        ] {
            assert_eq!(hidden(&format!("ali{c}ce")), [c], "U+{:04X}", u32::from(c));
        }
        assert_eq!(hidden(&format!("a{}", "\u{301}".repeat(7))), ['\u{301}'; 3]);
    }

    #[test]
    fn texts_that_people_write_have_nothing_hidden() {
        for text in [
            "Alice O'Neil <alice@example.org>",
            "Nguyễn Thị Minh Khai",
            "Nguye\u{302}\u{303}n",
            "می\u{200c}خواهم",
            "क्\u{200d}ष",
            "👩\u{200d}👩\u{200d}👧 ❤\u{fe0f}\u{200d}🔥 1\u{fe0f}\u{20e3}",
            "葛\u{e0100}城",
            "שָׁלוֹם",
            "佐々木　みどり",
        ] {
            assert!(hidden(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn hidden_characters_become_escapes() {
        for (text, shown) in [
            ("evil\x1b[2J.asc", r"evil\u{1b}[2J.asc"),
            ("a\r\n\tb\u{9b}31m\u{7f}", r"a\r\n\tb\u{9b}31m\u{7f}"),
            ("Ω \u{202e}gpj.exe", r"Ω \u{202e}gpj.exe"),
            ("佐々木　みどり", "佐々木　みどり"),
            ("\u{200e}\u{200c}", r"\u{200e}\u{200c}"),
        ] {
            assert_eq!(visible_text(text), shown);
        }
        let json = "{\"name\":\"\u{9b}2J\u{202e}Ω\u{e0001}\"}";
        assert_eq!(visible_json(json), r#"{"name":"\u009b2J\u202eΩ\udb40\udc01"}"#);
    }

    #[test]
    fn only_right_to_left_texts_need_isolation() {
        for text in ["אבג", "alice محمد", "\u{661}"] {
            assert!(is_right_to_left(text), "{text}");
        }
        for text in ["", "alice 1", "Müller", "Ёлкин", "佐々木", "สมชาย"] {
            assert!(!is_right_to_left(text), "{text}");
        }
    }

    proptest! {
        #[test]
        fn nothing_that_is_shown_controls_the_text_around_it(text in "(\\PC|\\p{C}|[\u{200b}-\u{206f}a]){0,40}") {
            let shown: String =
                hidden_characters(&text).filter(|(_, hidden)| !hidden).map(|(c, _)| c).collect();
            for c in shown.chars() {
                prop_assert!(!c.is_control());
                prop_assert!(!matches!(
                    DIRECTION.get(c),
                    BidiClass::LeftToRightEmbedding
                        | BidiClass::LeftToRightOverride
                        | BidiClass::LeftToRightIsolate
                        | BidiClass::RightToLeftEmbedding
                        | BidiClass::RightToLeftOverride
                        | BidiClass::RightToLeftIsolate
                        | BidiClass::FirstStrongIsolate
                        | BidiClass::PopDirectionalFormat
                        | BidiClass::PopDirectionalIsolate
                        | BidiClass::ParagraphSeparator
                ), "U+{:04X}", u32::from(c));
            }
        }
    }
}
