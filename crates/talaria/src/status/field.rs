//! The fields of a status line.

/// Escapes a text for a status line: control characters and `%` as GnuPG does, and characters that
/// some programs take for line ends.
pub(super) fn escaped(text: &str) -> String {
    let plain = |c: char| !c.is_control() && !matches!(c, '%' | '\u{2028}' | '\u{2029}');
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if plain(c) {
            out.push(c);
        } else {
            let mut bytes = [0; 4];
            c.encode_utf8(&mut bytes).bytes().for_each(|byte| out += &format!("%{byte:02X}"));
        }
    }
    out
}

/// Escapes a file name for a status line, as one word.
pub(super) fn escaped_name(name: &[u8]) -> String {
    let mut out = String::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        out += &escaped(chunk.valid()).replace(' ', "%20");
        chunk.invalid().iter().for_each(|byte| out += &format!("%{byte:02X}"));
    }
    out
}

/// The key ID of a hexadecimal fingerprint or key ID; zeros for a key that is not named.
pub(super) fn key_id(name: &str) -> String {
    match name.len() {
        40 => name[24..].to_owned(),
        64 => name[..16].to_owned(),
        16 => name.to_owned(),
        _ => "0".repeat(16),
    }
}
