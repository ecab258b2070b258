//! What a key is called in texts: where gpg-agent asks for its passphrase, and of a message to it.

use crate::algorithm::public_name;
use crate::keyblock::{KeyState, Keyblock};
use crate::text::printable;
use crate::time;

/// The user ID that stands for a certificate.
pub(crate) fn user_id(keyblock: &Keyblock) -> String {
    let shown = keyblock.primary_user_id().or(keyblock.any_user_id());
    shown.map_or_else(String::new, |id| printable(&id.text))
}

/// The length and the algorithm of a key: `2048-bit RSA`.
pub(crate) fn kind(state: &KeyState) -> String {
    let (bits, algorithm) = state.key().map_or((0, 0), |key| (key.bits(), key.algorithm));
    format!("{bits}-bit {}", public_name(algorithm))
}

/// What gpg-agent says about a key where it asks for its passphrase.
pub(crate) fn for_agent(keyblock: &Keyblock, state: &KeyState) -> String {
    let primary = keyblock.primary();
    let main = if state.fingerprint == primary.fingerprint {
        String::new()
    } else {
        format!(" (main key ID {:016X})", primary.id)
    };
    let (name, kind, day) = (user_id(keyblock), kind(state), time::day(state.created));
    format!("\"{name}\"\n{kind} key, ID {:016X},\ncreated {day}{main}.\n", state.id)
}
