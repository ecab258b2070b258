//! The regular expression that limits a trust signature (RFC 9580, section 5.2.3.22).

use std::sync::OnceLock;

use regex::bytes::{Regex, RegexBuilder};

/// Memory of a compiled expression.
const COMPILED_BYTES_MAX: usize = 1 << 20;

/// Which user IDs an introducer may speak for.
///
/// Only what is in use is understood: an expression in the form `<[^>]+[@.]example\.com>$`, or a plain text
/// to be found; operators other than the dot are taken literally. `GnuPG` does the same.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    text: Vec<u8>,
    compiled: OnceLock<Option<Regex>>,
}

impl PartialEq for Scope {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Scope {}

impl Scope {
    /// The scope with this expression.
    #[must_use]
    pub fn new(text: &[u8]) -> Self {
        Self { text: text.to_vec(), compiled: OnceLock::new() }
    }

    /// The expression as it is in the signature.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.text
    }

    /// Whether a user ID is within. Nothing is within an expression that cannot be understood.
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
}

fn pattern(text: &[u8]) -> String {
    const START: &[u8] = b"<[^>]+[@.]";
    const END: &[u8] = b">$";
    let framed = text.strip_prefix(START).and_then(|rest| rest.strip_suffix(END));
    let mut pattern = String::new();
    if framed.is_some() {
        pattern.push_str("<[^>]+[@.]");
    }
    let mut octets = framed.unwrap_or(text).iter();
    while let Some(&octet) = octets.next() {
        match octet {
            b'.' => pattern.push_str("(?s-u:.)"),
            b'\\' => match octets.next() {
                Some(&escaped) => literal(&mut pattern, escaped),
                // An expression of nothing: no text is found by it.
                None => return "[^\\x00-\\xff]".to_owned(),
            },
            octet => literal(&mut pattern, octet),
        }
    }
    if framed.is_some() {
        pattern.push_str(">$");
    }
    pattern
}

fn literal(pattern: &mut String, octet: u8) {
    if octet.is_ascii_alphanumeric() {
        pattern.push(char::from(octet));
    } else {
        pattern.push_str(&format!("\\x{octet:02x}"));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_domain() {
        let scope = Scope::new(b"<[^>]+[@.]example\\.com>$");
        assert!(scope.has(b"Alice <alice@example.com>"));
        assert!(scope.has(b"Alice <alice@mail.EXAMPLE.com>"));
        assert!(!scope.has(b"Alice <alice@example.org>"));
        assert!(!scope.has(b"Alice <alice@examplexcom>"));
        assert!(!scope.has(b"Alice <alice@example.com> (old)"));
    }

    #[test]
    fn a_text_and_operators() {
        assert!(Scope::new(b"example.com").has(b"alice@example.com"));
        assert!(!Scope::new(b"a|b").has(b"alice"));
        assert!(Scope::new(b"a|b").has(b"xa|b"));
        assert!(!Scope::new(b"example\\").has(b"example"));
        assert!(Scope::new(b"").has(b"anything"));
    }

    proptest! {
        #[test]
        fn any_expression_is_taken(text: Vec<u8>, user_id: Vec<u8>) {
            let _ = Scope::new(&text).has(&user_id);
        }

        #[test]
        fn a_plain_text_is_found(text in "[a-z@]{0,9}", before in ".{0,5}", after in ".{0,5}") {
            let user_id = format!("{before}{text}{after}");
            prop_assert!(Scope::new(text.as_bytes()).has(user_id.as_bytes()));
        }
    }
}
