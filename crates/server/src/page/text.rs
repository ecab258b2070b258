//! Texts that strangers wrote, fingerprints, times and numbers, as pages show them.

use maud::{Markup, Render, html};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use talaria_cert::Fingerprint;
use talaria_cert::user_id::{hidden_characters, is_right_to_left};

use super::texts::Texts;
use crate::clock::day_text;
use talaria::timestamp;

/// Characters of a text that are shown at once; the rest is behind a click.
const SHOWN_CHARACTERS: usize = 160;

/// Characters of a text that are shown at all.
const CHARACTERS_MAX: usize = 20_000;

/// A text with hidden characters made visible, for places without markup. If a part of it runs from
/// right to left, it is isolated from the surrounding text.
pub(crate) fn plain(text: &str, characters: usize) -> String {
    isolated(shown(text, characters))
}

/// The same, and shortened also if its hidden characters take space.
pub(crate) fn label(text: &str, characters: usize) -> String {
    isolated(shown(&shown(text, characters), characters))
}

fn shown(text: &str, characters: usize) -> String {
    let mut out = String::with_capacity(text.len().min(4 * characters));
    for (at, (c, is_hidden)) in hidden_characters(text).enumerate() {
        if at == characters {
            out.push('…');
            break;
        }
        if is_hidden {
            out.push_str(&format!("[U+{:04X}]", u32::from(c)));
        } else {
            out.push(c);
        }
    }
    out
}

/// A text between the marks of an isolate (Unicode, Annex 9), if it needs them.
fn isolated(text: String) -> String {
    if is_right_to_left(&text) { format!("\u{2068}{text}\u{2069}") } else { text }
}

/// A text without hidden characters, for input fields, where they are accidental.
pub(crate) fn visible(text: &str) -> String {
    hidden_characters(text).filter(|(_, is_hidden)| !is_hidden).map(|(c, _)| c).collect()
}

/// A text with hidden characters made visible, isolated from the surrounding text.
struct Foreign<'a> {
    text: &'a str,
    characters: usize,
}

impl Render for Foreign<'_> {
    fn render(&self) -> Markup {
        let mut parts: Vec<(Option<char>, String)> = Vec::new();
        for (c, is_hidden) in hidden_characters(self.text).take(self.characters) {
            match parts.last_mut() {
                _ if is_hidden => parts.push((Some(c), String::new())),
                Some((None, run)) => run.push(c),
                _ => parts.push((None, c.into())),
            }
        }
        html! {
            bdi {
                @for (hidden, run) in parts {
                    @if let Some(c) = hidden {
                        span.hidden { (format!("U+{:04X}", u32::from(c))) }
                    } @else { (run) }
                }
                @if self.text.chars().nth(self.characters).is_some() { "…" }
            }
        }
    }
}

/// Untrusted text on one line or a few: shortened, with hidden characters made visible.
pub(crate) fn foreign(text: &str) -> Markup {
    Foreign { text, characters: SHOWN_CHARACTERS }.render()
}

/// All of a text that [`foreign`] shortens, behind a click; nothing if it does not.
pub(crate) fn rest(text: &str, texts: &Texts) -> Markup {
    let length = text.chars().count();
    if length <= SHOWN_CHARACTERS {
        return html! {};
    }
    html! {
        details.whole {
            summary { ((texts.whole_text)(length as u64)) }
            p { (Foreign { text, characters: CHARACTERS_MAX }) }
        }
    }
}

/// A fingerprint in groups of four digits, a little more space in the middle.
pub(crate) fn fingerprint(fingerprint: Fingerprint) -> Markup {
    let digits = fingerprint.to_string();
    let groups: Vec<&str> = (0..digits.len()).step_by(4).map(|at| &digits[at..at + 4]).collect();
    let (left, right) = groups.split_at(groups.len().div_ceil(2));
    html! {
        code.fingerprint {
            span { (left.join(" ")) } " " span { (right.join(" ")) }
        }
    }
}

/// The path of the page of a certificate.
pub(crate) fn path(fingerprint: Fingerprint) -> String {
    format!("/certificate/{fingerprint}")
}

/// A day, with the moment for programs and on pointing at it.
pub(crate) fn day(time: u32) -> Markup {
    let moment = timestamp(time);
    html! { time datetime=(moment) title=(moment) { (day_text(time / 86400)) } }
}

/// A moment, to the second.
pub(crate) fn moment(time: u32) -> Markup {
    let text = timestamp(time);
    let shown = text.replace('T', " ").replace('Z', " UTC");
    html! { time datetime=(text) { (shown) } }
}

/// A text as a part of a query.
pub(crate) fn encoded(text: &str) -> String {
    const SET: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
    utf8_percent_encode(text, SET).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_characters_are_made_visible() {
        let text = "a\u{202e}<b>\n\u{7f}é";
        assert_eq!(plain(text, 100), "a[U+202E]<b>[U+000A][U+007F]é");
        assert_eq!(
            foreign(text).into_string(),
            "<bdi>a<span class=\"hidden\">U+202E</span>&lt;b&gt;<span class=\"hidden\">U+000A</span>\
             <span class=\"hidden\">U+007F</span>é</bdi>"
        );
    }

    #[test]
    fn a_text_from_right_to_left_stands_alone() {
        assert_eq!(plain("אבג", 100), "\u{2068}אבג\u{2069}");
        assert_eq!(plain("abc", 100), "abc");
        assert_eq!(label("\u{202e}\u{202e}אבג", 10), "[U+202E][U…");
        assert_eq!(label("אבג", 2), "\u{2068}אב…\u{2069}");
        // Nothing in it ends the isolate.
        assert_eq!(plain("א\u{2069}", 9), "\u{2068}א[U+2069]\u{2069}");
    }

    #[test]
    fn long_texts_are_shortened_by_characters() {
        assert_eq!(plain("ééé", 2), "éé…");
        assert_eq!(plain("éé", 2), "éé");
        let exact = "é".repeat(SHOWN_CHARACTERS);
        assert_eq!(foreign(&exact).into_string(), format!("<bdi>{exact}</bdi>"));
        let longer = format!("{exact}x");
        assert_eq!(foreign(&longer).into_string(), format!("<bdi>{exact}…</bdi>"));
        assert!(rest(&longer, &super::super::language::ENGLISH).into_string().contains(&longer));
        assert!(rest(&exact, &super::super::language::ENGLISH).into_string().is_empty());
    }
}
