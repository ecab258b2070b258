//! Secret keys that people upload by mistake.
//!
//! The public part of a secret key is a certificate like any other, but nobody should believe that the upload went well.

use talaria_cert::{Armor, Splitter, Tag, packets};

use crate::answer::Refusal;
use crate::submission::SPLIT_BYTES;

/// The label of a secret key in armor.
const LABEL: &[u8] = b"-----BEGIN PGP PRIVATE KEY BLOCK-----";

/// Refuses an upload that has a secret key in it, whatever its armor says.
///
/// # Errors
///
/// [`Refusal::SecretKey`].
pub(crate) fn refuse(bytes: &[u8]) -> Result<(), Refusal> {
    let start = bytes.iter().position(|b| !b.is_ascii_whitespace()).unwrap_or(bytes.len());
    let bytes = &bytes[start..];
    let is_binary = bytes.first().is_some_and(|first| first & 0x80 != 0);
    let has = if is_binary {
        has_secret(Splitter::new(bytes, SPLIT_BYTES))
    } else {
        bytes.windows(LABEL.len()).any(|window| window == LABEL)
            || has_secret(Splitter::new(Armor::new(bytes), SPLIT_BYTES))
    };
    if has { Err(Refusal::SecretKey) } else { Ok(()) }
}

/// Whether one of the certificates has a packet with a secret part. Data that cannot be read are refused elsewhere.
fn has_secret(mut splitter: Splitter<impl std::io::Read>) -> bool {
    while let Ok(Some(batch)) = splitter.next_batch() {
        let is_secret = |raw| {
            packets(raw)
                .map_while(Result::ok)
                .any(|packet| matches!(packet.tag, Tag::SECRET_KEY | Tag::SECRET_SUBKEY))
        };
        if batch.certs().any(|(_, raw)| is_secret(raw)) {
            return true;
        }
    }
    false
}
