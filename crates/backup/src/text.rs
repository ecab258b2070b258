//! Line text: fields, their escapes, and documents with a domain line.

use std::fmt::Write as _;

use crate::error::{BackupError, Result};

/// The place of a field in its line. The last field may contain the characters that separate
/// others.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Place {
    /// Before another field.
    Inner,
    /// At the end of the line.
    Last,
}

/// Whether a byte of ASCII stands for itself.
fn is_plain(byte: u8, place: Place) -> bool {
    match byte {
        0..0x20 | 0x7f | b'\\' => false,
        b' ' | b',' | b';' | b'=' | b':' => place == Place::Last,
        _ => true,
    }
}

/// Appends a value as a field.
pub(crate) fn push_escaped(out: &mut String, value: &[u8], place: Place) {
    for chunk in value.utf8_chunks() {
        let mut rest = chunk.valid();
        while let Some(at) = rest.bytes().position(|byte| !is_plain(byte, place)) {
            out.push_str(&rest[..at]);
            let _ = write!(out, "\\x{:02x}", rest.as_bytes()[at]);
            rest = &rest[at + 1..];
        }
        out.push_str(rest);
        for byte in chunk.invalid() {
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
}

/// A value as a field.
pub(crate) fn escaped(value: &[u8], place: Place) -> String {
    let mut out = String::with_capacity(value.len());
    push_escaped(&mut out, value, place);
    out
}

/// The value of a field; `None` if the field is not in the only form that [`push_escaped`] gives.
pub(crate) fn unescaped(field: &str, place: Place) -> Option<Vec<u8>> {
    if field.bytes().all(|byte| is_plain(byte, place)) {
        return Some(field.as_bytes().to_vec());
    }
    let mut value = Vec::with_capacity(field.len());
    let mut rest = field.as_bytes();
    while let [first, after @ ..] = rest {
        if *first == b'\\' {
            let digits = after.strip_prefix(b"x")?.get(..2)?;
            let digits = std::str::from_utf8(digits).ok()?;
            value.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &after[3..];
        } else {
            value.push(*first);
            rest = after;
        }
    }
    (escaped(&value, place) == field).then_some(value)
}

/// The lines of a document of one kind in one repository.
pub(crate) struct Lines<'a> {
    name: &'a str,
    rest: std::str::Lines<'a>,
    next: Option<&'a str>,
}

impl<'a> Lines<'a> {
    /// The lines after the domain line `domain VERSION` and, if given, the line of the repository.
    /// `name` is the object, for errors.
    pub(crate) fn open(
        name: &'a str,
        text: &'a [u8],
        domain: &str,
        repository: Option<&str>,
    ) -> Result<Self> {
        let damaged = |why: &str| BackupError::damaged(name, why);
        let text = std::str::from_utf8(text).map_err(|_| damaged("it is not UTF-8 text"))?;
        if !text.ends_with('\n') || text.contains('\r') {
            return Err(damaged("its last line has no end, or a line ends in a carriage return"));
        }
        let mut rest = text.lines();
        let first = rest.next().unwrap_or_default();
        let version = first.strip_prefix(domain).and_then(|rest| rest.strip_prefix(' '));
        match version {
            Some("1") => {}
            Some(version) if version.parse::<u32>().is_ok_and(|version| version > 1) => {
                return Err(BackupError::Newer { name: name.into(), found: first.into() });
            }
            _ => return Err(damaged(&format!("its first line is not \"{domain} 1\""))),
        }
        let next = rest.next();
        let mut lines = Self { name, rest, next };
        if let Some(repository) = repository
            && lines.one("repository")? != repository
        {
            return Err(damaged("it belongs to another repository"));
        }
        Ok(lines)
    }

    /// The fields of the next line if it starts with `keyword`.
    pub(crate) fn next_if(&mut self, keyword: &str) -> Option<&'a str> {
        let fields = self.next?.strip_prefix(keyword)?.strip_prefix(' ')?;
        self.next = self.rest.next();
        Some(fields)
    }

    /// The fields of the next line, which must start with `keyword`.
    pub(crate) fn one(&mut self, keyword: &str) -> Result<&'a str> {
        self.next_if(keyword)
            .ok_or_else(|| self.damaged(&format!("a line \"{keyword} …\" is missing")))
    }

    /// The fields of all next lines that start with `keyword`.
    pub(crate) fn many(&mut self, keyword: &str) -> Vec<&'a str> {
        std::iter::from_fn(|| self.next_if(keyword)).collect()
    }

    /// The next line, whatever its keyword.
    pub(crate) fn any(&mut self) -> Option<&'a str> {
        let line = self.next?;
        self.next = self.rest.next();
        Some(line)
    }

    /// Refuses further lines.
    pub(crate) fn end(self) -> Result<()> {
        match self.next {
            None => Ok(()),
            Some(line) => {
                let start: String = line.chars().take(40).collect();
                Err(self.damaged(&format!("the line \"{start}\" is not expected there")))
            }
        }
    }

    /// An error about this document.
    pub(crate) fn damaged(&self, why: &str) -> BackupError {
        BackupError::damaged(self.name, why)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_field_has_one_form() {
        assert_eq!(escaped(b"a b\n\\\xff", Place::Last), "a b\\x0a\\x5c\\xff");
        assert_eq!(escaped("ü ,".as_bytes(), Place::Inner), "ü\\x20\\x2c");
        for other in ["\\x41", "\\x0A", "\\n", "\\x0", "\\", "\\xc3\\xbc", "\n"] {
            assert_eq!(unescaped(other, Place::Last), None, "{other}");
        }
        assert_eq!(unescaped("a b", Place::Inner), None);
    }

    proptest! {
        #[test]
        fn every_value_comes_back(value: Vec<u8>) {
            for place in [Place::Inner, Place::Last] {
                let field = escaped(&value, place);
                prop_assert!(!field.contains('\n'));
                prop_assert_eq!(unescaped(&field, place), Some(value.clone()));
            }
        }

        #[test]
        fn a_field_that_is_read_is_written_the_same(field in "[ -~\\\\x0-9a-fü\u{80}]{0,40}") {
            for place in [Place::Inner, Place::Last] {
                if let Some(value) = unescaped(&field, place) {
                    prop_assert_eq!(escaped(&value, place), field.clone());
                }
            }
        }
    }

    #[test]
    fn a_document_has_its_domain_its_repository_and_known_lines_only() {
        let open = |text: &'static str| {
            let mut lines =
                Lines::open("indexes/1", text.as_bytes(), "talaria backup index", Some("ab"))?;
            lines.many("pack");
            lines.end()
        };
        assert!(open("talaria backup index 1\nrepository ab\npack 1\npack 2\n").is_ok());
        assert!(matches!(open("talaria backup index 2\nx\n"), Err(BackupError::Newer { .. })));
        for text in [
            "",
            "talaria backup index 1",
            "talaria backup pack 1\nrepository ab\n",
            "talaria backup index 1\nrepository cd\n",
            "talaria backup index 1\n",
            "talaria backup index 1\nrepository ab\npacks 1\n",
            "talaria backup index 1\nrepository ab\n\n",
        ] {
            assert!(matches!(open(text), Err(BackupError::Damaged { .. })), "{text:?}");
        }
    }
}
