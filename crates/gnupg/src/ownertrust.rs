//! Ownertrust lists, as `gpg --export-ownertrust` writes them.
//!
//! Text: comments behind `#`, and lines `FINGERPRINT:VALUE:`. The value is 2 undefined, 3 never,
//! 4 marginal, 5 full, 6 ultimate, and 128 is added for a disabled key.

use std::fmt::Write as _;

use talaria_cert::hex;
use talaria_cert::{Fingerprint, KeyId};

use crate::error::GnupgError;

/// The first line of gpg's lists.
const TITLE: &str = "# List of assigned trustvalues";

/// Whether a file that starts with `head` is an ownertrust list: its first line that is no comment
/// is an entry, or its first line is the one that gpg writes.
#[must_use]
pub fn is_ownertrust(head: &[u8]) -> bool {
    if head.starts_with(TITLE.as_bytes()) {
        return true;
    }
    let mut lines = head.split(|&b| b == b'\n').map(<[u8]>::trim_ascii);
    let first = lines.find(|line| !line.is_empty() && !line.starts_with(b"#"));
    first.and_then(|line| std::str::from_utf8(line).ok()).is_some_and(|line| entry(line).is_ok())
}

/// Reads an ownertrust list, in the order of its lines.
///
/// Fingerprints of 64 digits are taken for those of version 5, the only ones of that length that
/// GnuPG knows; what has 32 digits, an MD5 fingerprint of version 3, is passed over, as it does not
/// say the key ID.
///
/// # Errors
///
/// [`GnupgError::Ownertrust`] at the first line of another form. Nothing is taken then: half a list
/// of whom to trust is worse than none.
pub fn read_ownertrust(text: &str) -> Result<Vec<(Fingerprint, u8)>, GnupgError> {
    let mut entries = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match entry(line) {
            Ok((Fingerprint::V3(..), _)) => {}
            Ok(found) => entries.push(found),
            Err(what) => return Err(GnupgError::Ownertrust { line: at + 1, what }),
        }
    }
    Ok(entries)
}

/// Writes a list that `gpg --import-ownertrust` reads. Entries with the value 0 say nothing and are
/// left out.
#[must_use]
pub fn write_ownertrust(entries: &[(Fingerprint, u8)]) -> String {
    let mut text = String::with_capacity(100 + 44 * entries.len());
    text.push_str(TITLE);
    text.push_str("\n# (Use \"gpg --import-ownertrust\" to restore them)\n");
    for (fingerprint, value) in entries.iter().filter(|(_, value)| *value != 0) {
        writeln!(text, "{fingerprint}:{value}:").expect("a string takes all");
    }
    text
}

fn entry(line: &str) -> Result<(Fingerprint, u8), &'static str> {
    let (digits, rest) = line.split_once(':').ok_or("no colon after the fingerprint")?;
    let value = rest.split(':').next().unwrap_or_default();
    let is_decimal = value.bytes().all(|b| b.is_ascii_digit());
    let value =
        value.parse().ok().filter(|_| is_decimal).ok_or("the value is not a number up to 255")?;
    let no_fingerprint = "the fingerprint does not have 32, 40 or 64 hexadecimal digits";
    let fingerprint = match digits.len() {
        32 => hex::array(digits).map(|bytes| Fingerprint::V3(bytes, KeyId(0))),
        40 => hex::array(digits).map(Fingerprint::V4),
        64 => hex::array(digits).map(Fingerprint::V5),
        _ => None,
    };
    Ok((fingerprint.ok_or(no_fingerprint)?, value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_list_written_by_gpg_is_read() {
        let text = "# List of assigned trustvalues, created Mon 01 Jan 2024\n\
            # (Use \"gpg --import-ownertrust\" to restore them)\n\
            0123456789ABCDEF0123456789abcdef01234567:6:\n\n\
            0000000000000000000000000000000000000000000000000000000000000001:132:\n";
        let entries = read_ownertrust(text).unwrap();
        assert_eq!(entries.len(), 2);
        assert_eq!(entries[0].0.to_string(), "0123456789ABCDEF0123456789ABCDEF01234567");
        assert_eq!((entries[0].1, entries[1].1), (6, 132));
        assert_eq!(entries[1].0.version(), 5);
        assert!(is_ownertrust(text.as_bytes()));
    }

    #[test]
    fn the_error_has_the_number_of_the_bad_line() {
        for (text, line) in [
            ("# x\n\nABCD:6:\n", 3),
            ("0123456789ABCDEF0123456789ABCDEF01234567\n", 1),
            ("0123456789ABCDEF0123456789ABCDEF01234567:256:\n", 1),
            ("0123456789ABCDEF0123456789ABCDEF01234567:+6:\n", 1),
            ("0123456789ABCDEF0123456789ABCDEF0123456\u{e9}:6:\n", 1),
        ] {
            let error = read_ownertrust(text).unwrap_err();
            assert!(
                matches!(error, GnupgError::Ownertrust { line: found, .. } if found == line),
                "{error}"
            );
        }
    }

    proptest! {
        #[test]
        fn written_data_read_back(entries: Vec<([u8; 20], u8)>) {
            let entries: Vec<_> = entries.iter().map(|(f, v)| (Fingerprint::V4(*f), *v)).collect();
            let text = write_ownertrust(&entries);
            prop_assert!(is_ownertrust(text.as_bytes()));
            let kept: Vec<_> = entries.into_iter().filter(|(_, v)| *v != 0).collect();
            prop_assert_eq!(read_ownertrust(&text).unwrap(), kept);
        }

        /// Any text gives entries or an error with a line number, never a panic.
        #[test]
        fn any_text_is_read(text: String, bytes: Vec<u8>) {
            let _ = is_ownertrust(&bytes);
            let _ = read_ownertrust(&text);
        }
    }
}
