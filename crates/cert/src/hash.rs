//! Digests, computed by AWS-LC as far as it has them, and SHA-1 with a detection of collisions.

use aws_lc_rs::digest::{self, Algorithm, Context};
use md5::{Digest as _, Md5};
use ripemd::Ripemd160;
use sha1collisiondetection::Sha1CD;

/// SHA-1 over `parts`, for version 4 fingerprints, keygrips and the like, which are only names.
#[must_use]
pub fn sha1(parts: &[&[u8]]) -> [u8; 20] {
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
    /// With this digest, AWS-LC can check signatures.
    Fast(Context),
    Other(Context),
    /// SHA-1, computed so that collisions are detected.
    Checked(Box<Sha1CD>),
    Ripemd(Ripemd160),
    /// Only the views of peers that accept MD5 use it.
    Md5(Md5),
}

/// A digest.
#[derive(Clone)]
pub enum HashValue {
    /// With this digest, AWS-LC can check signatures.
    Fast(digest::Digest),
    /// Any other digest.
    Slow(Vec<u8>),
}

impl Hasher {
    /// Starts a digest by the number of its algorithm (RFC 9580, section 9.5). `None` for unknown
    /// algorithms.
    #[must_use]
    pub fn new(algorithm: u8) -> Option<Self> {
        let fast = |algorithm| State::Fast(Context::new(algorithm));
        let other = |algorithm| State::Other(Context::new(algorithm));
        Some(Self(match algorithm {
            1 => State::Md5(Md5::new()),
            2 => fast(&digest::SHA1_FOR_LEGACY_USE_ONLY),
            3 => State::Ripemd(Ripemd160::new()),
            8 => fast(&digest::SHA256),
            9 => fast(&digest::SHA384),
            10 => fast(&digest::SHA512),
            11 => other(&digest::SHA224),
            12 => other(&digest::SHA3_256),
            14 => other(&digest::SHA3_512),
            _ => return None,
        }))
    }

    /// Like [`Self::new`], but SHA-1 has no digest for data that were made for a collision. SHA-1
    /// is four times slower then.
    #[must_use]
    pub fn checked(algorithm: u8) -> Option<Self> {
        if algorithm == 2 {
            Some(Self(State::Checked(Box::default())))
        } else {
            Self::new(algorithm)
        }
    }

    /// Adds `bytes` to the digest.
    pub fn update(&mut self, bytes: &[u8]) {
        match &mut self.0 {
            State::Fast(context) | State::Other(context) => context.update(bytes),
            State::Checked(context) => context.update(bytes),
            State::Ripemd(context) => context.update(bytes),
            State::Md5(context) => context.update(bytes),
        }
    }

    /// The digest; `None` for a collision ([`Self::checked`]).
    #[must_use]
    pub fn finish(self) -> Option<HashValue> {
        Some(match self.0 {
            State::Fast(context) => HashValue::Fast(context.finish()),
            State::Other(context) => HashValue::Slow(context.finish().as_ref().to_vec()),
            State::Ripemd(context) => HashValue::Slow(context.finalize().to_vec()),
            State::Checked(context) => {
                let digest = context.finalize_cd().ok()?;
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
    use openssl::hash::MessageDigest;

    use super::*;

    fn digest(hasher: Option<Hasher>, data: &[u8]) -> Vec<u8> {
        let mut hasher = hasher.unwrap();
        hasher.update(data);
        hasher.clone().finish().unwrap().as_bytes().to_vec()
    }

    #[test]
    fn digests_are_those_of_openssl() {
        let known = [
            (1, MessageDigest::md5()),
            (2, MessageDigest::sha1()),
            (8, MessageDigest::sha256()),
            (9, MessageDigest::sha384()),
            (10, MessageDigest::sha512()),
            (11, MessageDigest::sha224()),
            (12, MessageDigest::sha3_256()),
            (14, MessageDigest::sha3_512()),
        ];
        for (algorithm, theirs) in known {
            let ours = digest(Hasher::new(algorithm), b"abc");
            assert_eq!(ours, *openssl::hash::hash(theirs, b"abc").unwrap());
        }
        // The example of the authors of RIPEMD-160; OpenSSL has it in a provider of its own.
        let ripemd = digest(Hasher::new(3), b"abc");
        assert_eq!(
            crate::hex::Upper(&ripemd).to_string(),
            "8EB208F7E05D987A9B044A8E98C6B087F15A0BFC"
        );
        for unknown in [0, 4, 5, 6, 7, 13, 15, 255] {
            assert!(Hasher::new(unknown).is_none() && digest_name(unknown).is_none());
        }
    }

    #[test]
    fn a_checked_digest_is_the_usual_one_of_usual_data() {
        for algorithm in [2, 8, 10, 11] {
            for bytes in [0, 1, 63, 64, 65, 1000] {
                let data = vec![7; bytes];
                let digests = [Hasher::new(algorithm), Hasher::checked(algorithm)];
                let digests = digests.map(|hasher| digest(hasher, &data));
                assert_eq!(digests[0], digests[1]);
            }
        }
    }
}
