//! Texts that strangers wrote, fingerprints, times and numbers, as pages show them.

use maud::{Markup, Render, html};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use talaria_cert::Fingerprint;

use super::texts::Texts;
use crate::clock::day_text;
use talaria::timestamp;

/// Characters of a text that are shown at once; the rest is behind a click.
const SHOWN_CHARACTERS: usize = 160;

/// Characters of a text that are shown at all.
const CHARACTERS_MAX: usize = 20_000;

/// Whether a character cannot be seen, or changes how others are seen: controls, marks and overrides
/// of direction, zero-width spaces, tags. Joiners within words stay what they are, some scripts and
/// many pictographs need them.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}'
                | '\u{61c}'
                | '\u{180e}'
                | '\u{200b}'
                | '\u{200e}'
                | '\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

/// A text with hidden characters made visible, for places without markup.
pub(crate) fn plain(text: &str, characters: usize) -> String {
    let mut out = String::with_capacity(text.len().min(4 * characters));
    for (at, c) in text.chars().enumerate() {
        if at == characters {
            out.push('…');
            break;
        }
        if is_hidden(c) {
            out.push_str(&format!("[U+{:04X}]", u32::from(c)));
        } else {
            out.push(c);
        }
    }
    out
}

/// A text without hidden characters, for input fields, where they are accidental.
pub(crate) fn visible(text: &str) -> String {
    text.chars().filter(|&c| !is_hidden(c)).collect()
}

/// A text with hidden characters made visible, isolated from the surrounding text.
struct Foreign<'a> {
    text: &'a str,
    characters: usize,
}

impl Render for Foreign<'_> {
    fn render(&self) -> Markup {
        let (mut parts, mut rest, mut left) = (Vec::new(), self.text, self.characters);
        while let Some(first) = rest.chars().next().filter(|_| left > 0) {
            if is_hidden(first) {
                parts.push((Some(first), ""));
                (rest, left) = (&rest[first.len_utf8()..], left - 1);
            } else {
                let end = rest
                    .char_indices()
                    .enumerate()
                    .find(|&(n, (_, c))| n == left || is_hidden(c))
                    .map_or(rest.len(), |(_, (at, _))| at);
                let run;
                (run, rest) = rest.split_at(end);
                left -= run.chars().count();
                parts.push((None, run));
            }
        }
        html! {
            bdi {
                @for (hidden, run) in parts {
                    @if let Some(c) = hidden {
                        span.hidden { (format!("U+{:04X}", u32::from(c))) }
                    } @else { (run) }
                }
                @if !rest.is_empty() { "…" }
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
