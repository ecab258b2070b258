//! Digests, computed by AWS-LC, or by Sequoia for algorithms that AWS-LC does not have.

use aws_lc_rs::digest::{self, Algorithm, Context};
use md5::{Digest as _, Md5};
use sequoia_openpgp as openpgp;

/// SHA-1 over `parts`, for version 4 fingerprints and keygrips, which are only names.
pub(crate) fn sha1(parts: &[&[u8]]) -> [u8; 20] {
    fixed(&digest::SHA1_FOR_LEGACY_USE_ONLY, parts)
}

/// SHA-256 over `parts`.
#[must_use]
pub fn sha256(parts: &[&[u8]]) -> [u8; 32] {
    match parts {
        // Without a context, which costs as much as a block of 64 bytes.
        [one] => {
            let mut out = [0; 32];
            out.copy_from_slice(digest::digest(&digest::SHA256, one).as_ref());
            out
        }
        _ => fixed(&digest::SHA256, parts),
    }
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

/// The name of a digest algorithm by its number (RFC 9580, section 9.5), as GnuPG writes it.
#[must_use]
pub fn digest_name(number: u8) -> Option<&'static str> {
    Some(match number {
        1 => "MD5",
        2 => "SHA1",
        3 => "RIPEMD160",
        8 => "SHA256",
        9 => "SHA384",
        10 => "SHA512",
        11 => "SHA224",
        12 => "SHA3-256",
        14 => "SHA3-512",
        _ => return None,
    })
}

/// A digest that is being computed.
#[derive(Clone)]
pub struct Hasher(State);

#[derive(Clone)]
enum State {
    /// Computed by AWS-LC.
    Fast(Context),
    /// Computed by Sequoia, for algorithms that AWS-LC does not have.
    Slow(openpgp::crypto::hash::Context),
    /// SHA-1, computed by Sequoia, which detects collisions.
    Checked(openpgp::crypto::hash::Context),
    /// MD5, which neither library has. Only the views of peers that accept MD5 use it.
    Md5(Md5),
}

/// A digest.
#[derive(Clone)]
pub enum HashValue {
    /// Computed by AWS-LC, which can check signatures on it.
    Fast(digest::Digest),
    /// Computed by another library.
    Slow(Vec<u8>),
}

impl Hasher {
    /// Starts a digest by the number of its algorithm (RFC 9580, section 9.5). `None` for unknown
    /// algorithms.
    #[must_use]
    pub fn new(algorithm: u8) -> Option<Self> {
        let fast = match algorithm {
            2 => &digest::SHA1_FOR_LEGACY_USE_ONLY,
            8 => &digest::SHA256,
            9 => &digest::SHA384,
            10 => &digest::SHA512,
            1 => return Some(Self(State::Md5(Md5::new()))),
            _ => {
                let slow = openpgp::types::HashAlgorithm::from(algorithm).context().ok()?;
                return Some(Self(State::Slow(slow.for_digest())));
            }
        };
        Some(Self(State::Fast(Context::new(fast))))
    }

    /// Like [`Self::new`], but SHA-1 has no digest for data that were made for a collision. SHA-1
    /// is four times slower then.
    #[must_use]
    pub fn checked(algorithm: u8) -> Option<Self> {
        match openpgp::types::HashAlgorithm::from(algorithm) {
            sha1 @ openpgp::types::HashAlgorithm::SHA1 => {
                Some(Self(State::Checked(sha1.context().ok()?.for_digest())))
            }
            _ => Self::new(algorithm),
        }
    }

    /// Adds `bytes` to the digest.
    pub fn update(&mut self, bytes: &[u8]) {
        match &mut self.0 {
            State::Fast(context) => context.update(bytes),
            State::Slow(context) | State::Checked(context) => context.update(bytes),
            State::Md5(context) => context.update(bytes),
        }
    }

    /// The digest; `None` if the implementation fails, or for a collision ([`Self::checked`]).
    #[must_use]
    pub fn finish(self) -> Option<HashValue> {
        Some(match self.0 {
            State::Fast(context) => HashValue::Fast(context.finish()),
            State::Slow(context) => HashValue::Slow(context.into_digest().ok()?),
            State::Checked(context) => {
                let digest = context.into_digest().ok()?;
                let sha1 = &digest::SHA1_FOR_LEGACY_USE_ONLY;
                HashValue::Fast(digest::Digest::import_less_safe(&digest, sha1).ok()?)
            }
            State::Md5(context) => HashValue::Slow(context.finalize().to_vec()),
        })
    }
}

impl HashValue {
    /// The bytes of the digest.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Fast(digest) => digest.as_ref(),
            Self::Slow(digest) => digest,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checked_digest_is_the_usual_one_of_usual_data() {
        for algorithm in [2, 8, 10, 11] {
            for bytes in [0, 1, 63, 64, 65, 1000] {
                let data = vec![7; bytes];
                let digests = [Hasher::new(algorithm), Hasher::checked(algorithm)].map(|hasher| {
                    let mut hasher = hasher.unwrap();
                    hasher.update(&data);
                    hasher.clone().finish().unwrap().as_bytes().to_vec()
                });
                assert_eq!(digests[0], digests[1]);
            }
        }
    }
}
