//! The regular expression that limits a trust signature (RFC 9580, section 5.2.3.22).

use std::sync::OnceLock;

use regex::bytes::{Regex, RegexBuilder};

/// Maximum memory of a compiled expression, in bytes.
const COMPILED_BYTES_MAX: usize = 1 << 20;

/// The user IDs that an introducer may certify.
///
/// [`Self::has`] follows `GnuPG`, which supports only the common forms: an expression in the form
/// `<[^>]+[@.]example\.com>$`, or a plain text to search for; operators other than the dot are
/// taken literally. [`Self::covers`] follows the standard.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    text: Vec<u8>,
    compiled: OnceLock<Option<Regex>>,
    standard: OnceLock<Option<Regex>>,
}

impl PartialEq for Scope {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Scope {}

impl Scope {
    /// The scope with the expression `text`.
    #[must_use]
    pub fn new(text: &[u8]) -> Self {
        Self { text: text.to_vec(), ..Self::default() }
    }

    /// The expression as in the signature.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.text
    }

    /// Whether a user ID is within the scope, by `GnuPG`'s rules. An expression that is not
    /// understood covers no user ID.
    #[must_use]
    pub fn has(&self, user_id: &[u8]) -> bool {
        let compiled = self.compiled.get_or_init(|| {
            let pattern = pattern(&self.text);
            RegexBuilder::new(&pattern)
                .case_insensitive(true)
                .unicode(false)
                .size_limit(COMPILED_BYTES_MAX)
                .build()
                .ok()
        });
        compiled.as_ref().is_some_and(|regex| regex.is_match(user_id))
    }

    /// Whether a user ID is within the scope, with all operators of RFC 9580, section 8. An invalid
    /// expression covers no user ID. User IDs that are not UTF-8, or have control characters, are
    /// not covered either.
    #[must_use]
    pub fn covers(&self, user_id: &[u8]) -> bool {
        let clean = std::str::from_utf8(user_id).is_ok_and(|text| !text.contains(char::is_control));
        let standard = self.standard.get_or_init(|| {
            let pattern = standard(std::str::from_utf8(&self.text).ok()?)?;
            RegexBuilder::new(&pattern).size_limit(COMPILED_BYTES_MAX).build().ok()
        });
        clean && standard.as_ref().is_some_and(|regex| regex.is_match(user_id))
    }
}

/// Converts an expression of RFC 9580, section 8, to the syntax of the `regex` crate, which has
/// more operators and other rules for brackets. `None` if the expression is invalid.
fn standard(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut characters = text.chars().peekable();
    // Whether a repetition operator may follow.
    let mut atom = false;
    while let Some(character) = characters.next() {
        match character {
            '*' | '+' | '?' => {
                if !std::mem::take(&mut atom) {
                    return None;
                }
                out.push(character);
                continue;
            }
            '|' | '(' => {
                out.push(character);
                atom = false;
                continue;
            }
            '^' => out.push_str("\\A"),
            '$' => out.push_str("\\z"),
            '.' => out.push_str("(?s:.)"),
            '[' => bracket(&mut characters, &mut out)?,
            ')' => out.push(')'),
            '\\' => out.push_str(&regex::escape(&characters.next()?.to_string())),
            character => out.push_str(&regex::escape(&character.to_string())),
        }
        atom = true;
    }
    Some(out)
}

/// A range: the characters between the brackets. The first of them may be a closing bracket.
fn bracket(
    characters: &mut std::iter::Peekable<std::str::Chars<'_>>,
    out: &mut String,
) -> Option<()> {
    out.push('[');
    if characters.next_if_eq(&'^').is_some() {
        out.push('^');
    }
    let mut members = Vec::new();
    loop {
        match characters.next()? {
            ']' if !members.is_empty() => break,
            member => members.push(member),
        }
    }
    let mut rest = &members[..];
    loop {
        match rest {
            [] => break,
            &[from, '-', to, ref after @ ..] => {
                out.push_str(&format!("\\x{{{:x}}}-\\x{{{:x}}}", u32::from(from), u32::from(to)));
                rest = after;
            }
            &[member, ref after @ ..] => {
                out.push_str(&format!("\\x{{{:x}}}", u32::from(member)));
                rest = after;
            }
        }
    }
    out.push(']');
    Some(())
}

fn pattern(text: &[u8]) -> String {
    const START: &[u8] = b"<[^>]+[@.]";
    const END: &[u8] = b">$";
    let framed = text.strip_prefix(START).and_then(|rest| rest.strip_suffix(END));
    let mut pattern = String::new();
    if framed.is_some() {
        pattern.push_str("<[^>]+[@.]");
    }
    let mut bytes = framed.unwrap_or(text).iter();
    while let Some(&byte) = bytes.next() {
        match byte {
            b'.' => pattern.push_str("(?s-u:.)"),
            b'\\' => match bytes.next() {
                Some(&escaped) => literal(&mut pattern, escaped),
                // An expression that ends with an escape matches no text.
                None => return "[^\\x00-\\xff]".to_owned(),
            },
            byte => literal(&mut pattern, byte),
        }
    }
    if framed.is_some() {
        pattern.push_str(">$");
    }
    pattern
}

fn literal(pattern: &mut String, byte: u8) {
    if byte.is_ascii_alphanumeric() {
        pattern.push(char::from(byte));
    } else {
        pattern.push_str(&format!("\\x{byte:02x}"));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_domain_matches_addresses_in_it() {
        let scope = Scope::new(b"<[^>]+[@.]example\\.com>$");
        assert!(scope.has(b"Alice <alice@example.com>"));
        assert!(scope.has(b"Alice <alice@mail.EXAMPLE.com>"));
        assert!(!scope.has(b"Alice <alice@example.org>"));
        assert!(!scope.has(b"Alice <alice@examplexcom>"));
        assert!(!scope.has(b"Alice <alice@example.com> (old)"));
    }

    #[test]
    fn plain_text_matches_anywhere_and_operators_are_literal() {
        assert!(Scope::new(b"example.com").has(b"alice@example.com"));
        assert!(!Scope::new(b"a|b").has(b"alice"));
        assert!(Scope::new(b"a|b").has(b"xa|b"));
        assert!(!Scope::new(b"example\\").has(b"example"));
        assert!(Scope::new(b"").has(b"anything"));
    }

    #[test]
    fn regular_expressions_have_the_operators_of_the_standard() {
        let covers = |scope: &str, text: &str| Scope::new(scope.as_bytes()).covers(text.as_bytes());
        assert!(covers("<[^>]+[@.]example\\.com>$", "Alice <alice@mail.example.com>"));
        assert!(!covers("<[^>]+[@.]example\\.com>$", "Alice <alice@mail.EXAMPLE.com>"));
        assert!(!covers("<[^>]+[@.]example\\.com>$", "Alice <alice@example.com> (old)"));
        assert!(covers("@(a|b)\\.example>?$", "alice@b.example") && !covers("^b", "ab"));
        assert!(covers("a{2}", "a{2}") && !covers("a{2}", "aa") && covers("\\d", "d"));
        assert!(covers("[]a-c]x", "]x") && covers("[]a-c]x", "bx") && !covers("[^]a-c]x", "bx"));
        assert!(covers("^a.*z?$", "abc") && covers("", "anything") && !covers("", "a\nb"));
        for wrong in ["*a", "a**", "(a", "a)", "[a", "a\\", "[z-a]"] {
            assert!(!covers(wrong, wrong), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn any_expression_is_parsed(text: Vec<u8>, user_id: Vec<u8>) {
            let _ = (Scope::new(&text).has(&user_id), Scope::new(&text).covers(&user_id));
        }

        #[test]
        fn plain_text_is_found(text in "[a-z@]{0,9}", before in ".{0,5}", after in ".{0,5}") {
            let user_id = format!("{before}{text}{after}");
            prop_assert!(Scope::new(text.as_bytes()).has(user_id.as_bytes()));
        }
    }
}
