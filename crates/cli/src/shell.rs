//! Words for a shell.

use std::ffi::OsStr;

use talaria::cert::user_id::hidden_characters;

/// A word for a shell command: quoted, if a shell would not take it as it is. Hidden characters are
/// escapes of the shell.
pub(crate) fn shell_word(text: impl AsRef<OsStr>) -> String {
    let text = text.as_ref().to_string_lossy();
    let plain = |c: char| c.is_alphanumeric() || "@%_+=:,./-".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.into_owned();
    }
    if hidden_characters(&text).all(|(_, is_hidden)| !is_hidden) {
        return format!("'{}'", text.replace('\'', "'\\''"));
    }
    let mut word = "$'".to_owned();
    for (c, is_hidden) in hidden_characters(&text) {
        match c {
            '\'' | '\\' => word.extend(['\\', c]),
            _ if is_hidden => {
                for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                    word.push_str(&format!("\\x{byte:02x}"));
                }
            }
            _ => word.push(c),
        }
    }
    word + "'"
}
