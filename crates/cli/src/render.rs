//! Certificates as text for people and as JSON: the words that the forms share.

mod details;
pub(crate) mod json;
pub(crate) mod lines;
pub(crate) mod short;
mod signatures;
pub(crate) mod text;
pub(crate) mod validity;

use talaria::cert::{Capabilities, Validity, user_id};

use crate::progress::grouped;

/// A name for people: a user ID, a file name. Hidden characters are escapes, so that the name stays
/// in its place in a line.
pub(crate) fn printable(text: &[u8]) -> String {
    user_id::visible_text(&user_id::text(text)).into_owned()
}

/// A count with its noun; `noun` is the singular.
pub(crate) fn counted(count: impl TryInto<u64>, noun: &str) -> String {
    let count = count.try_into().unwrap_or(u64::MAX);
    match (count, noun.strip_suffix('y')) {
        (1, _) => format!("1 {noun}"),
        (_, Some(stem)) if !stem.ends_with('e') => format!("{} {stem}ies", grouped(count)),
        (_, _) if noun.ends_with("ss") => format!("{} {noun}es", grouped(count)),
        _ => format!("{} {noun}s", grouped(count)),
    }
}

/// The letters of capabilities, in upper case.
pub(crate) fn letters(capabilities: Capabilities) -> String {
    [
        (Capabilities::SIGN, 'S'),
        (Capabilities::CERTIFY, 'C'),
        (Capabilities::ENCRYPT, 'E'),
        (Capabilities::AUTHENTICATE, 'A'),
    ]
    .iter()
    .filter(|(which, _)| capabilities.has(*which))
    .map(|(_, letter)| *letter)
    .collect()
}

/// The state of a certificate or a part of it in words. Usable says nothing about whose it is.
pub(crate) fn state(validity: Validity) -> &'static str {
    match validity {
        Validity::Valid => "usable",
        other => word(other),
    }
}

/// The state in JSON.
pub(crate) fn word(validity: Validity) -> &'static str {
    match validity {
        Validity::Valid => "valid",
        Validity::Expired => "expired",
        Validity::Revoked => "revoked",
        Validity::Invalid => "invalid",
    }
}
