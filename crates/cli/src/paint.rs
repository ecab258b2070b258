//! Colour of our own, and harmless text of others.
//!
//! All text for people passes [`harmless`] on its way to standard output and standard error. Names,
//! values and errors of others stay readable there, but they have no power over the terminal: only
//! styles that [`Paint`] made are in force.

use std::borrow::Cow;
use std::fmt::{self, Display};
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::sync::LazyLock;

use anstream::{AutoStream, ColorChoice};
use talaria::cert::user_id::visible_text;

/// The start of a style of our own. Its number is another one in each process, so that no text of
/// others has it: the styles that such a text has are shown as text.
static OWN: LazyLock<String> =
    LazyLock::new(|| format!("{ESCAPE}{};", RandomState::new().hash_one("style")));

/// The start of a style for a terminal.
const ESCAPE: &str = "\x1b[";

/// Gives text colour and weight by its meaning, or leaves the text plain if colour is off.
///
/// Only the 16 colours of the terminal's theme are used, so that dark and light backgrounds work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paint {
    on: bool,
}

impl Paint {
    /// The painter for standard output.
    pub(crate) fn stdout() -> Self {
        Self { on: AutoStream::choice(&io::stdout()) != ColorChoice::Never }
    }

    /// The painter for standard error.
    pub(crate) fn stderr() -> Self {
        Self { on: AutoStream::choice(&io::stderr()) != ColorChoice::Never }
    }

    /// Whether output has colour.
    pub(crate) fn is_on(self) -> bool {
        self.on
    }

    /// A painter without colour.
    #[cfg(test)]
    pub(crate) fn plain() -> Self {
        Self { on: false }
    }

    /// A painter with colour.
    #[cfg(test)]
    pub(crate) fn colored() -> Self {
        Self { on: true }
    }

    /// A trustworthy result.
    pub(crate) fn good<T: Display>(self, text: T) -> Painted<T> {
        self.with("32", text)
    }

    /// A doubtful result. It is not yellow, which many terminals with a light background show
    /// almost as white.
    pub(crate) fn doubtful<T: Display>(self, text: T) -> Painted<T> {
        self.with("35", text)
    }

    /// A result that must not be relied on.
    pub(crate) fn bad<T: Display>(self, text: T) -> Painted<T> {
        self.with("1;31", text)
    }

    /// The most important text of a line.
    pub(crate) fn strong<T: Display>(self, text: T) -> Painted<T> {
        self.with("1", text)
    }

    /// A name that the user can type.
    pub(crate) fn handle<T: Display>(self, text: T) -> Painted<T> {
        self.with("36", text)
    }

    /// Less important text.
    pub(crate) fn faint<T: Display>(self, text: T) -> Painted<T> {
        self.with("2", text)
    }

    fn with<T: Display>(self, style: &'static str, text: T) -> Painted<T> {
        Painted { style: self.on.then_some(style), text }
    }
}

/// A text with its colour, as the codes of a terminal (ECMA-48, "select graphic rendition"). Width
/// and alignment apply to the text only.
pub(crate) struct Painted<T> {
    style: Option<&'static str>,
    text: T,
}

impl<T: Display> Display for Painted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(style) = self.style else { return self.text.fmt(f) };
        write!(f, "{}{style}m", *OWN)?;
        self.text.fmt(f)?;
        write!(f, "{}0m", *OWN)
    }
}

/// A text whose styles are all ours, because its parts have no hidden characters.
pub(crate) fn own(text: &str) -> String {
    text.replace(ESCAPE, &OWN)
}

/// A line without any effect on a terminal but that of our own styles. Hidden characters of others,
/// also line ends, are escapes that can be read.
pub(crate) fn harmless(line: &str) -> Cow<'_, str> {
    let Some((first, rest)) = line.split_once(OWN.as_str()) else { return visible_text(line) };
    let mut out = visible_text(first).into_owned();
    for part in rest.split(OWN.as_str()) {
        let (style, text) = part.split_once('m').unwrap_or(("0", part));
        out.push_str(&format!("{ESCAPE}{style}m"));
        out.push_str(&visible_text(text));
    }
    out.into()
}

/// Lines with each of them as `harmless` makes it. Most are printable ASCII and are only copied.
pub(crate) fn each_line(mut lines: &[u8], harmless: fn(&str) -> Cow<'_, str>) -> Vec<u8> {
    let mut out = Vec::with_capacity(lines.len());
    while let Some(at) = first_suspicious(lines) {
        let start = lines[..at].iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let length = lines[at..].iter().position(|byte| *byte == b'\n');
        let end = length.map_or(lines.len(), |length| at + length);
        out.extend_from_slice(&lines[..start]);
        let line = String::from_utf8_lossy(&lines[start..end]);
        out.extend_from_slice(harmless(&line).as_bytes());
        lines = &lines[end..];
    }
    out.extend_from_slice(lines);
    out
}

/// The place of the first byte that is neither printable ASCII nor the end of a line.
fn first_suspicious(lines: &[u8]) -> Option<usize> {
    /// So many bytes are compared at once.
    const BLOCK: usize = 64;
    let is_plain = |byte: &u8| (b' '..=b'~').contains(byte) || *byte == b'\n';
    let all_plain = |block: &&[u8]| block.iter().fold(true, |all, byte| all & is_plain(byte));
    let plain = BLOCK * lines.chunks(BLOCK).take_while(all_plain).count();
    lines.get(plain..)?.iter().position(|byte| !is_plain(byte)).map(|at| plain + at)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use talaria::cert::user_id::{hidden_characters, visible_json};

    use super::*;

    #[test]
    fn padding_counts_the_columns_of_the_text() {
        let painted = Paint::colored().good("valid").to_string();
        assert_eq!(harmless(&painted), "\x1b[32mvalid\x1b[0m");
        let padded = format!("{:^9}", Paint::colored().good("valid"));
        assert!(padded.contains("  valid  "), "{padded:?}");
        assert_eq!(format!("{:^9}", Paint::plain().bad("valid")), "  valid  ");
    }

    #[test]
    fn only_styles_of_our_own_are_in_force() {
        let name = "\x1b[32mGood signature\x1b[0m\r\n\x1b]0;title\x07";
        let shown = r"\u{1b}[32mGood signature\u{1b}[0m\r\n\u{1b}]0;title\u{7}";
        assert_eq!(harmless(name), shown);
        let line = format!("{}: {name}", Paint::colored().bad(name));
        assert_eq!(harmless(&line), format!("\x1b[1;31m{shown}\x1b[0m: {shown}"));
        assert_eq!(harmless(&own("\x1b[1mUsage\x1b[0m")), "\x1b[1mUsage\x1b[0m");
    }

    #[test]
    fn lines_keep_their_ends() {
        let long = "x".repeat(1000);
        let lines = format!("{long}\ntwo\r\n{long}\tΩ\n\nlast\x1b");
        let shown = format!("{long}\ntwo\\r\n{long}\\tΩ\n\nlast\\u{{1b}}");
        assert_eq!(each_line(lines.as_bytes(), harmless), shown.as_bytes());
        assert_eq!(each_line(b"", harmless), b"");
        assert_eq!(each_line(b"a\n\xff\n", harmless), "a\n\u{fffd}\n".as_bytes());
    }

    proptest! {
        #[test]
        fn text_of_others_controls_nothing(text in "(\\PC|\\p{C}|\x1b\\[[0-9;]{0,3}m|[\u{200b}-\u{206f}a]){0,40}") {
            let shown = harmless(&text).into_owned();
            prop_assert!(hidden_characters(&shown).all(|(_, is_hidden)| !is_hidden), "{shown:?}");
            let painted = format!("{} {text}", Paint::colored().strong(&text));
            let shown = harmless(&painted).replacen("\x1b[1m", "", 1).replacen("\x1b[0m", "", 1);
            prop_assert!(hidden_characters(&shown).all(|(_, is_hidden)| !is_hidden), "{shown:?}");
        }

        #[test]
        fn json_has_the_same_values(text in "(\\PC|\\p{C}|[\u{200b}-\u{206f}\u{e0000}-\u{e0fff}]){0,40}") {
            let value = serde_json::json!({ "name": text });
            let json = value.to_string();
            let shown = visible_json(&json);
            prop_assert!(hidden_characters(&shown).all(|(_, is_hidden)| !is_hidden), "{shown:?}");
            prop_assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
        }
    }
}
