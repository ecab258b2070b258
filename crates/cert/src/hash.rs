//! Digests, by way of AWS-LC, and for what that does not have, of Sequoia.

use aws_lc_rs::digest::{self, Algorithm, Context};
use md5::{Digest as _, Md5};
use sequoia_openpgp as openpgp;

/// SHA-1 over `parts`, for version 4 fingerprints and keygrips: names, not security.
pub(crate) fn sha1(parts: &[&[u8]]) -> [u8; 20] {
    fixed(&digest::SHA1_FOR_LEGACY_USE_ONLY, parts)
}

/// SHA-256 over `parts`.
#[must_use]
pub fn sha256(parts: &[&[u8]]) -> [u8; 32] {
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

/// A digest in the making.
#[derive(Clone)]
pub struct Hasher(State);

#[derive(Clone)]
enum State {
    /// By AWS-LC.
    Fast(Context),
    /// By Sequoia, for algorithms that AWS-LC does not have.
    Slow(openpgp::crypto::hash::Context),
    /// MD5, which neither has. For views of peers that believe in it.
    Md5(Md5),
}

/// A digest.
#[derive(Clone)]
pub enum Digest {
    /// By AWS-LC, which can check signatures on it.
    Fast(digest::Digest),
    /// By others.
    Slow(Vec<u8>),
}

impl Hasher {
    /// Starts a digest by its number (RFC 9580, section 9.5); `None` for those that are not known.
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

    /// Takes in `bytes`.
    pub fn update(&mut self, bytes: &[u8]) {
        match &mut self.0 {
            State::Fast(context) => context.update(bytes),
            State::Slow(context) => context.update(bytes),
            State::Md5(context) => context.update(bytes),
        }
    }

    /// The digest; `None` if the implementation fails.
    #[must_use]
    pub fn finish(self) -> Option<Digest> {
        Some(match self.0 {
            State::Fast(context) => Digest::Fast(context.finish()),
            State::Slow(context) => Digest::Slow(context.into_digest().ok()?),
            State::Md5(context) => Digest::Slow(context.finalize().to_vec()),
        })
    }
}

impl Digest {
    /// The octets.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Fast(digest) => digest.as_ref(),
            Self::Slow(digest) => digest,
        }
    }
}
