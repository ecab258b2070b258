//! Foreign text for people, and mail addresses in it.

/// A text from a packet, for people: control characters and bytes that are not UTF-8 are escaped.
pub(crate) fn printable(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\n' => out += "\\n",
                '\r' => out += "\\r",
                '\u{c}' => out += "\\f",
                '\u{b}' => out += "\\v",
                '\u{8}' => out += "\\b",
                '\0' => out += "\\0",
                c if c.is_ascii_control() => out += &format!("\\x{:02x}", u32::from(c)),
                // What could change how a terminal shows the text around it.
                c if c.is_control() => out.extend(c.escape_unicode()),
                c => out.push(c),
            }
        }
        chunk.invalid().iter().for_each(|byte| out += &format!("\\x{byte:02x}"));
    }
    out
}

/// The mail address in a user ID, in lower case; `None` if the user ID has none.
pub(crate) fn mailbox(user_id: &str) -> Option<String> {
    let address = if let Some((_, rest)) = user_id.split_once('<') {
        let (address, _) = rest.split_once('>')?;
        let (local, domain) = address.split_once('@')?;
        let is_sound = !local.is_empty()
            && !domain.is_empty()
            && !domain.contains('@')
            && !domain.ends_with('.')
            && !domain.contains("..")
            && !address.contains(|c: char| c == ' ' || c.is_ascii_control());
        is_sound.then_some(address)?
    } else {
        let (local, domain) = user_id.split_once('@')?;
        let is_word = |c: char| !c.is_ascii() || c.is_ascii_alphanumeric() || "_-.".contains(c);
        let is_sound = !local.is_empty()
            && !domain.is_empty()
            && local.chars().all(|c| is_word(c) || "!#$%&'*+/=?^`{|}~".contains(c))
            && domain.chars().all(is_word)
            && !domain.ends_with('.')
            && !user_id.contains("..");
        is_sound.then_some(user_id)?
    };
    Some(address.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_found_as_gnupg_finds_them() {
        for (user_id, wanted) in [
            ("Alice <Alice@Example.org>", Some("alice@example.org")),
            ("alice@example.org", Some("alice@example.org")),
            ("<a b@example.org>", None),
            ("a b@example.org", None),
            ("<a@b@c>", None),
            ("<@c>", None),
            ("Alice <a@b", None),
            ("Alice", None),
            ("<a@b.>", None),
            ("<a..b@c.d>", Some("a..b@c.d")),
            ("a..b@c.d", None),
        ] {
            assert_eq!(mailbox(user_id).as_deref(), wanted, "{user_id}");
        }
    }

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(printable(b"a\x1b[1m\n\xff\xc3\xa9"), "a\\x1b[1m\\n\\xff\u{e9}");
    }
}
