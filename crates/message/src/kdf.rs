//! Key derivation.

use aws_lc_rs::hkdf;

use crate::error::{MessageError, Result};

/// Fills `out` with the output of HKDF-SHA256 (RFC 5869) for `key`.
pub(crate) fn hkdf_sha256(key: &[u8], salt: &[u8], info: &[u8], out: &mut [u8]) -> Result<()> {
    struct Bytes(usize);
    impl hkdf::KeyType for Bytes {
        fn len(&self) -> usize {
            self.0
        }
    }
    hkdf::Salt::new(hkdf::HKDF_SHA256, salt)
        .extract(key)
        .expand(&[info], Bytes(out.len()))
        .and_then(|okm| okm.fill(out))
        .map_err(MessageError::secret)
}
