//! The arguments that gpg accepts for options that have no effect on anything that is done here. A
//! wrong one is an error in gpg, so it may not be passed over.

use crate::algorithm;
use crate::gpg::table::Argument;

/// Whether gpg accepts the argument. An uncertain one is not.
pub(crate) fn is_known(kind: Argument, text: &str) -> bool {
    let upper = text.to_ascii_uppercase();
    let lower = text.to_ascii_lowercase();
    match kind {
        Argument::Charset => matches!(lower.as_str(), "utf-8" | "utf8"),
        Argument::Cipher => algorithm::cipher_number(&upper).is_some(),
        Argument::Digest => algorithm::digest_number(&upper).is_some_and(|number| number != 1),
        Argument::Compression => {
            let is_number = matches!(upper.as_str(), "0" | "1" | "2" | "3");
            is_number || algorithm::compression_number(&upper).is_some()
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

/// Whether the argument asks for what happens without the option.
pub(crate) fn is_usual(kind: Argument, text: &str) -> bool {
    match kind {
        Argument::Pinentry => matches!(text.to_ascii_lowercase().as_str(), "default" | "ask"),
        Argument::Origin => text == "none",
        _ => false,
    }
}

/// The numbers of one kind in a list of preferences; `None` if gpg would say something about it.
pub(crate) fn preferences(list: &str, number: impl Fn(&str) -> Option<u8>) -> Option<Vec<u8>> {
    let mut numbers = Vec::new();
    for word in list.split([' ', ',']).filter(|word| !word.is_empty()) {
        if word.eq_ignore_ascii_case("none") {
            return None;
        }
        if let Some(number) = number(word) {
            if numbers.contains(&number) {
                return None;
            }
            numbers.push(number);
        }
    }
    Some(numbers)
}

/// A word of a list of preferences.
fn is_preference(upper: &str) -> bool {
    // gpg knows the ciphers of this kind by their names only.
    !matches!(upper, "S11" | "S12" | "S13") && algorithm::cipher_number(upper).is_some()
        || algorithm::compression_number(upper).is_some()
        || algorithm::digest_number(upper).is_some_and(|number| number != 1)
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
