//! Signatures as they arrive: announced before the data, next to it, or detached from it.

use talaria_cert::{Hasher, Signature};

use crate::error::{MessageError, Result};
use crate::sign::{DocumentHasher, TEXT, salt_bytes};

/// The maximum number of signatures on one document, as in other programs.
pub(crate) const SIGNATURES_MAX: usize = 1000;

/// The digests of a document. Signatures with the same algorithm, type and salt share one.
#[derive(Default)]
pub(super) struct Digests(Vec<DocumentHasher>);

impl Digests {
    /// The place of a digest, which is started if it is new; `None` if its algorithm is not
    /// supported.
    fn place(&mut self, hash: u8, text: bool, salt: &[u8]) -> Option<usize> {
        let known = self.0.iter().position(|hasher| hasher.is(hash, text, salt));
        if known.is_none() {
            self.0.push(DocumentHasher::new(hash, text, salt.to_vec()).ok()?);
        }
        known.or(Some(self.0.len() - 1))
    }

    /// Hashes the next part of the document.
    pub(super) fn update(&mut self, data: &[u8]) {
        self.0.iter_mut().for_each(|hasher| hasher.update(data));
    }

    /// Handles the end of the document.
    pub(super) fn end(&mut self) {
        self.0.iter_mut().for_each(DocumentHasher::finish_text);
    }

    /// The digest at a place, without the part that belongs to its signature.
    pub(super) fn at(&self, place: usize) -> &Hasher {
        &self.0[place].inner
    }
}

/// A signature with its digest of the document.
pub(super) struct ReceivedSignature {
    pub(super) body: Vec<u8>,
    /// The place of its digest.
    pub(super) digest: Option<usize>,
    pub(super) problem: Option<&'static str>,
}

impl ReceivedSignature {
    /// A signature that is known before its document.
    pub(super) fn before(body: &[u8], digests: &mut Digests) -> Self {
        let digest = Signature::parse(body)
            .filter(|signature| signature.version != 5)
            .filter(|signature| {
                signature.version != 6 || signature.salt.len() == salt_bytes(signature.hash)
            })
            .and_then(|signature| {
                digests.place(signature.hash, signature.kind == TEXT, signature.salt)
            });
        Self { body: body.to_vec(), digest, problem: is_version_5(body).then_some(VERSION_5) }
    }
}

const VERSION_5: &str = "the signature has version 5 (LibrePGP), which is not supported";

fn is_version_5(body: &[u8]) -> bool {
    body.first() == Some(&5)
}

/// The signature that a one-pass signature packet announces (RFC 9580, section 5.4).
pub(super) struct Announced {
    version: u8,
    kind: u8,
    hash: u8,
    salt: Vec<u8>,
    /// The place of its digest.
    digest: Option<usize>,
}

impl Announced {
    pub(super) fn parse(body: &[u8], digests: &mut Digests) -> Result<Self> {
        const SHORT: MessageError =
            MessageError::Malformed("a one-pass signature packet is too short");
        let &[version, kind, hash, _, ref rest @ ..] = body else { return Err(SHORT) };
        let mut salt = &[][..];
        if version == 6 {
            let (&len, rest) = rest.split_first().ok_or(SHORT)?;
            salt = rest.get(..usize::from(len)).ok_or(SHORT)?;
        }
        let known = version == 3 || version == 6 && salt.len() == salt_bytes(hash);
        let digest = known.then(|| digests.place(hash, kind == TEXT, salt)).flatten();
        Ok(Self { version, kind, hash, salt: salt.to_vec(), digest })
    }

    /// The announced digest together with its signature.
    pub(super) fn with(self, body: &[u8]) -> ReceivedSignature {
        let body = body.to_vec();
        let fits = Signature::parse(&body).is_some_and(|signature| {
            let version = if self.version == 6 { 6 } else { signature.version };
            (signature.version, signature.kind, signature.hash) == (version, self.kind, self.hash)
                && (self.digest.is_none() || self.salt == signature.salt)
        });
        if is_version_5(&body) {
            ReceivedSignature { body, digest: None, problem: Some(VERSION_5) }
        } else if fits {
            ReceivedSignature { body, digest: self.digest, problem: None }
        } else {
            let problem = Some("the signature does not match its one-pass signature packet");
            ReceivedSignature { body, digest: None, problem }
        }
    }
}
