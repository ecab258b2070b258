//! Secret keys that people upload by mistake.
//!
//! The public part of a secret key is a certificate like any other, but nobody should believe that
//! the upload went well.

use talaria_cert::{Splitter, Tag, packets};

use crate::answer::Refusal;
use crate::submission::{is_binary, splitter};

/// The label of a secret key in armor.
const LABEL: &[u8] = b"-----BEGIN PGP PRIVATE KEY BLOCK-----";

/// Refuses an upload that has a secret key in it, whatever its armor says.
///
/// # Errors
///
/// [`Refusal::SecretKey`].
pub(crate) fn refuse(bytes: &[u8]) -> Result<(), Refusal> {
    let has_label = !is_binary(bytes) && bytes.windows(LABEL.len()).any(|window| window == LABEL);
    if has_label || has_secret(splitter(bytes)) { Err(Refusal::SecretKey) } else { Ok(()) }
}

/// Whether one of the certificates has a packet with a secret part. Data that cannot be read are
/// refused elsewhere.
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
