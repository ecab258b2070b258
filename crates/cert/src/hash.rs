//! Digests, by way of AWS-LC.

use aws_lc_rs::digest::{self, Algorithm, Context};
use md5::{Digest as _, Md5};

/// SHA-1 over `parts`, for version 4 fingerprints and keygrips: names, not security.
pub(crate) fn sha1(parts: &[&[u8]]) -> [u8; 20] {
    fixed(&digest::SHA1_FOR_LEGACY_USE_ONLY, parts)
}

/// SHA-256 over `parts`.
pub(crate) fn sha256(parts: &[&[u8]]) -> [u8; 32] {
    fixed(&digest::SHA256, parts)
}

/// MD5 over `parts`, for version 3 fingerprints and the SKS digest.
pub(crate) fn md5<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> [u8; 16] {
    let mut md5 = Md5::new();
    parts.into_iter().for_each(|part| md5.update(part));
    md5.finalize().into()
}

fn fixed<const N: usize>(algorithm: &'static Algorithm, parts: &[&[u8]]) -> [u8; N] {
    let mut context = Context::new(algorithm);
    parts.iter().for_each(|part| context.update(part));
    let mut out = [0; N];
    out.copy_from_slice(context.finish().as_ref());
    out
}
