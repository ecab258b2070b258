//! The arguments that gpg accepts for options that have no effect on anything that is done here. A
//! wrong one is an error in gpg, so it may not be passed over.

use crate::algorithm;
use crate::gpg::table::Argument;

const CIPHERS: [&str; 12] = [
    "IDEA",
    "3DES",
    "CAST5",
    "BLOWFISH",
    "AES",
    "AES128",
    "AES192",
    "AES256",
    "TWOFISH",
    "CAMELLIA128",
    "CAMELLIA192",
    "CAMELLIA256",
];
const COMPRESSIONS: [&str; 5] = ["UNCOMPRESSED", "NONE", "ZIP", "ZLIB", "BZIP2"];

/// Whether gpg accepts the argument. An uncertain one is not.
pub(crate) fn is_known(kind: Argument, text: &str) -> bool {
    let upper = text.to_ascii_uppercase();
    let lower = text.to_ascii_lowercase();
    match kind {
        Argument::Charset => matches!(lower.as_str(), "utf-8" | "utf8"),
        Argument::Cipher => is_cipher(&upper),
        Argument::Digest => algorithm::digest_number(&upper).is_some_and(|number| number != 1),
        Argument::Compression => {
            COMPRESSIONS.contains(&upper.as_str())
                || matches!(upper.as_str(), "0" | "1" | "2" | "3")
        }
        Argument::Preferences => {
            let mut words = upper.split([' ', ',']).filter(|word| !word.is_empty());
            words.all(is_preference)
        }
        Argument::Locate => lower.split([' ', ',']).all(|word| {
            let known =
                ["", "clear", "nodefault", "local", "ldap", "cert", "dane", "wkd", "keyserver"];
            known.contains(&word)
        }),
        Argument::Keyserver => {
            let schemes = ["hkp://", "hkps://", "ldap://", "ldaps://", "http://", "https://"];
            let rest = schemes.iter().find_map(|scheme| lower.strip_prefix(scheme));
            rest.is_some_and(|rest| {
                let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._:/".contains(c);
                !rest.is_empty() && rest.chars().all(is_plain)
            })
        }
        Argument::KeyserverOptions => lower.split([' ', ',']).all(is_keyserver_option),
        Argument::Pinentry => {
            matches!(lower.as_str(), "default" | "ask" | "cancel" | "error" | "loopback")
        }
        Argument::Origin => matches!(text, "none" | "local" | "remote" | "browser"),
        Argument::S2kMode => matches!(text, "1" | "3"),
        Argument::Compliance => lower == "gnupg",
    }
}

/// The number of a cipher with which messages are written here, by its name.
pub(crate) fn cipher(text: &str) -> Option<u8> {
    match text.to_ascii_uppercase().as_str() {
        "AES" | "AES128" | "S7" => Some(7),
        "AES192" | "S8" => Some(8),
        "AES256" | "S9" => Some(9),
        _ => None,
    }
}

/// The number of a compression by its name.
pub(crate) fn compression(text: &str) -> Option<u8> {
    match text.to_ascii_uppercase().as_str() {
        "UNCOMPRESSED" | "NONE" | "0" => Some(0),
        "ZIP" | "1" => Some(1),
        "ZLIB" | "2" => Some(2),
        "BZIP2" | "3" => Some(3),
        _ => None,
    }
}

fn is_cipher(upper: &str) -> bool {
    CIPHERS.contains(&upper) || is_numbered(upper, 'S', &[1, 2, 3, 4, 7, 8, 9, 10, 11, 12, 13])
}

/// A word of a list of preferences.
fn is_preference(upper: &str) -> bool {
    CIPHERS.contains(&upper)
        || COMPRESSIONS.contains(&upper)
        || matches!(upper, "SHA1" | "SHA224" | "SHA256" | "SHA384" | "SHA512" | "RIPEMD160")
        || is_numbered(upper, 'S', &[1, 2, 3, 4, 7, 8, 9, 10])
        || is_numbered(upper, 'H', &[2, 3, 8, 9, 10, 11])
        || is_numbered(upper, 'Z', &[0, 1, 2, 3])
}

fn is_numbered(upper: &str, letter: char, numbers: &[u32]) -> bool {
    let number = upper.strip_prefix(letter).and_then(|digits| digits.parse().ok());
    number.is_some_and(|number| numbers.contains(&number))
}

/// What changes nothing as long as no key is fetched.
fn is_keyserver_option(word: &str) -> bool {
    let word = word.strip_prefix("no-").unwrap_or(word);
    matches!(word, "" | "include-revoked" | "include-subkeys" | "honor-keyserver-url")
        || word.strip_prefix("timeout=").is_some_and(|rest| rest.parse::<u32>().is_ok())
}

/// Whether gpg has this option of listings.
pub(crate) fn is_list_option(name: &str) -> bool {
    const ALL: [&str; 14] = [
        "show-photos",
        "show-usage",
        "show-policy-urls",
        "show-notations",
        "show-std-notations",
        "show-standard-notations",
        "show-user-notations",
        "show-keyserver-urls",
        "show-uid-validity",
        "show-unusable-uids",
        "show-unusable-subkeys",
        "show-keyring",
        "show-sig-expire",
        "show-sig-subpackets",
    ];
    ALL.contains(&name)
}

/// Whether gpg has this option of exports.
pub(crate) fn is_export_option(name: &str) -> bool {
    const ALL: [&str; 5] = [
        "export-local-sigs",
        "export-attributes",
        "export-sensitive-revkeys",
        "export-clean",
        "export-minimal",
    ];
    ALL.contains(&name)
}
