//! User IDs as text: search forms and names. For the address in a user ID see [`crate::address`].

use std::borrow::Cow;

pub use crate::folding::{caseless, folded, words, words_of_folded};
pub use crate::spelling::{SPELLINGS_MAX, shared_form, spellings};
pub use crate::visible::{hidden_characters, is_right_to_left, visible_json, visible_text};

/// The text of a user ID, in which bytes that are not UTF-8 are replaced.
#[must_use]
pub fn text(user_id: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(user_id)
}

/// A name for a user ID or attribute where its text must not be stored: the SHA-256 digest of its
/// packet body.
#[must_use]
pub fn digest(body: &[u8]) -> [u8; 32] {
    crate::hash::sha256(&[body])
}

/// The name of a mailbox in a web key directory: SHA-1 of its local part in lower case, in
/// z-base-32 (draft-koch-openpgp-webkey-service, section 3.1).
#[must_use]
pub fn web_key_hash(local: impl AsRef<[u8]>) -> String {
    const DIGITS: &[u8; 32] = b"ybndrfg8ejkmcpqxot1uwisza345h769";
    let digest = crate::hash::sha1(&[&local.as_ref().to_ascii_lowercase()]);
    digest
        .chunks_exact(5)
        .flat_map(|group| {
            let bits = group.iter().fold(0u64, |bits, &byte| bits << 8 | u64::from(byte));
            (0..8).rev().map(move |at| char::from(DIGITS[(bits >> (5 * at) & 31) as usize]))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example in the draft.
    #[test]
    fn web_key_names_equal_those_in_the_draft() {
        assert_eq!(web_key_hash("Joe.Doe"), "iy9q119eutrkn8s1mk4r39qejnbu3n5q");
    }
}
