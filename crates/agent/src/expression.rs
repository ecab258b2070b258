//! S-expressions, in which libgcrypt writes keys, signatures and ciphertexts: `(4:name5:value)`.

use crate::error::AgentError;

/// The maximum nesting of lists in an answer.
const DEPTH_MAX: usize = 16;

/// A list or a string of bytes.
#[derive(Debug)]
pub(super) enum Expression<'a> {
    List(Vec<Expression<'a>>),
    Bytes(&'a [u8]),
}

impl<'a> Expression<'a> {
    /// Parses one expression. Bytes after it are ignored: the agent ends answers with a 0.
    pub(super) fn parse(text: &'a [u8]) -> Result<Self, AgentError> {
        let mut rest = text;
        Self::read(&mut rest, 0).ok_or(AgentError::Malformed("a broken expression"))
    }

    fn read(rest: &mut &'a [u8], depth: usize) -> Option<Self> {
        if let Some(inner) = rest.strip_prefix(b"(") {
            *rest = inner;
            let mut list = Vec::new();
            loop {
                if let Some(behind) = rest.strip_prefix(b")") {
                    *rest = behind;
                    return Some(Self::List(list));
                }
                if depth == DEPTH_MAX {
                    return None;
                }
                list.push(Self::read(rest, depth + 1)?);
            }
        }
        let colon = rest.iter().take(8).position(|&byte| byte == b':')?;
        let len: usize = std::str::from_utf8(&rest[..colon]).ok()?.parse().ok()?;
        let bytes = rest.get(colon + 1..)?.get(..len)?;
        *rest = &rest[colon + 1 + len..];
        Some(Self::Bytes(bytes))
    }

    /// The value that follows `name` in the first list that begins with `name`, at any depth.
    pub(super) fn value(&self, name: &str) -> Option<&'a [u8]> {
        let Self::List(list) = self else { return None };
        if let [Self::Bytes(first), Self::Bytes(value), ..] = &list[..]
            && *first == name.as_bytes()
        {
            return Some(value);
        }
        list.iter().find_map(|inner| inner.value(name))
    }
}

/// Encodes a ciphertext: `(enc-val(NAME(NUMBER BYTES)…))`.
pub(super) fn list(name: &str, numbers: &[(&str, &[u8])]) -> Vec<u8> {
    let mut text = format!("(7:enc-val({}:{name}", name.len()).into_bytes();
    for (name, bytes) in numbers {
        text.extend(format!("({}:{name}{}:", name.len(), bytes.len()).bytes());
        text.extend_from_slice(bytes);
        text.push(b')');
    }
    text.extend(b"))");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_in_nested_lists() {
        let text = b"(7:sig-val(5:eddsa(1:r3:abc)(1:s2:)()))\0";
        let signature = Expression::parse(text).unwrap();
        assert_eq!(signature.value("r"), Some(&b"abc"[..]));
        assert_eq!(signature.value("s"), Some(&b")("[..]));
        assert_eq!(signature.value("e"), None);
        let text = list("rsa", &[("a", b"12345")]);
        assert_eq!(text, b"(7:enc-val(3:rsa(1:a5:12345)))");
        assert_eq!(Expression::parse(&text).unwrap().value("a"), Some(&b"12345"[..]));
    }

    #[test]
    fn malformed_expressions_are_refused() {
        let deep = [b"(".repeat(100), b")".repeat(100)].concat();
        for text in [&b""[..], b"(", b"(3:ab)", b"(99999999999999999999:a)", b"(a)", &deep] {
            assert!(Expression::parse(text).is_err(), "{text:?}");
        }
    }
}
