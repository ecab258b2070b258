//! The names by which users mean certificates, as GnuPG reads them.

use std::ffi::OsStr;

use talaria_cert::{Fingerprint, Key, KeyId, Tag, hex, packets};

use crate::text::mailbox;

/// What a name stands for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Name {
    /// A key with this fingerprint.
    Fingerprint([u8; 20]),
    /// A key with this key ID.
    KeyId(u64),
    /// A key with this end of its key ID.
    Short(u32),
    /// This user ID.
    Exact(Vec<u8>),
    /// A user ID with this mail address.
    Mail(String),
    /// A user ID with this in it, in any case.
    Part(Vec<u8>),
}

impl Name {
    /// Reads a name; `None` for a kind that is not implemented.
    pub(crate) fn read(name: &OsStr) -> Option<Self> {
        let name = name.to_str()?.trim_matches([' ', '\t']);
        let rest = |at: usize| name.get(at..).filter(|rest| !rest.is_empty());
        match name.as_bytes().first()? {
            b'=' => return Some(Self::Exact(rest(1)?.as_bytes().to_vec())),
            b'*' => return Some(Self::Part(rest(1)?.as_bytes().to_vec())),
            b'<' => {
                let address = rest(1)?.strip_suffix('>')?;
                return Some(Self::Mail(address.to_ascii_lowercase()));
            }
            b'.' | b'@' | b'+' | b'/' | b'#' | b':' | b'&' | b'^' => return None,
            _ => {}
        }
        let (has_prefix, digits) = match name.strip_prefix("0x") {
            Some(digits) => (true, digits),
            None => (false, name),
        };
        let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        match (is_hex, digits.len()) {
            (true, 8) => return u32::from_str_radix(digits, 16).ok().map(Self::Short),
            (true, 16) => return u64::from_str_radix(digits, 16).ok().map(Self::KeyId),
            (true, 40) => return hex::array(digits).map(Self::Fingerprint),
            _ => {}
        }
        // Fingerprints in groups, with a mark behind them, or of other lengths.
        let starts =
            digits.bytes().take_while(|byte| byte.is_ascii_hexdigit() || b" :!".contains(byte));
        if has_prefix || starts.count() >= 8 {
            return None;
        }
        Some(Self::Part(name.as_bytes().to_vec()))
    }

    /// The fingerprint of the key that the name means in a certificate: for a user ID, that of the
    /// primary key. `None` if the certificate is not meant.
    pub(crate) fn find(&self, raw: &[u8]) -> Option<Fingerprint> {
        let mut primary = None;
        for packet in packets(raw).map_while(Result::ok) {
            match packet.tag {
                Tag::PUBLIC_KEY | Tag::PUBLIC_SUBKEY => {
                    let fingerprint = Key::parse(packet).ok()?.fingerprint();
                    primary.get_or_insert(fingerprint);
                    if self.is_key(&fingerprint) {
                        return Some(fingerprint);
                    }
                }
                Tag::USER_ID if self.is_user_id(packet.body) => return primary,
                _ => {}
            }
        }
        None
    }

    /// Whether it stands for a key with this fingerprint.
    pub(crate) fn is_key(&self, fingerprint: &Fingerprint) -> bool {
        let KeyId(id) = fingerprint.key_id();
        match self {
            Self::Fingerprint(wanted) => *fingerprint == Fingerprint::V4(*wanted),
            Self::KeyId(wanted) => id == *wanted,
            Self::Short(wanted) => id & 0xffff_ffff == u64::from(*wanted),
            _ => false,
        }
    }

    /// Whether it may stand for a user ID.
    pub(crate) fn is_of_user_id(&self) -> bool {
        matches!(self, Self::Exact(_) | Self::Mail(_) | Self::Part(_))
    }

    /// Whether it stands for this user ID.
    pub(crate) fn is_user_id(&self, text: &[u8]) -> bool {
        match self {
            Self::Exact(wanted) => text == wanted,
            Self::Mail(wanted) => address(text).is_some_and(|found| found == *wanted),
            Self::Part(wanted) => {
                text.windows(wanted.len()).any(|part| part.eq_ignore_ascii_case(wanted))
            }
            _ => false,
        }
    }
}

/// The mail address in a user ID: what is between the first angle brackets, or else all of it.
fn address(text: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(text);
    match text.split_once('<') {
        Some((_, rest)) if !rest.is_empty() => {
            rest.split_once('>').map(|(address, _)| address.to_ascii_lowercase())
        }
        _ => mailbox(&text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_gnupg_reads_them() {
        let part = |text: &str| Some(Name::Part(text.as_bytes().to_vec()));
        for (name, wanted) in [
            ("alice", part("alice")),
            (" alice ", part("alice")),
            ("*Alice", part("Alice")),
            ("=Alice <a@b>", Some(Name::Exact(b"Alice <a@b>".to_vec()))),
            ("<A@b>", Some(Name::Mail("a@b".to_owned()))),
            ("0xDEADBEEF", Some(Name::Short(0xdead_beef))),
            ("deadbeef", Some(Name::Short(0xdead_beef))),
            ("0123456789ABCDEF", Some(Name::KeyId(0x0123_4567_89ab_cdef))),
            ("deadbeef!", None),
            ("0xdead", None),
            ("dead beef dead", None),
            ("@b", None),
            ("&00", None),
            ("", None),
        ] {
            assert_eq!(Name::read(name.as_ref()), wanted, "{name}");
        }
    }
}
