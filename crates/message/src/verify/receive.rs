//! Signatures as they arrive: announced before the data, next to it, or detached from it.

use std::io::Write;

use talaria_cert::{Fingerprint, Hasher, Signature};

use super::{SIGNATURE_BYTES_MAX, SIGNATURES_MAX, SignatureReport, Verifier};
use crate::content::Literal;
use crate::error::{MessageError, Result};
use crate::lines::Native;
use crate::packets::Document;
use crate::sign::{DocumentHasher, TEXT, salt_bytes};

/// The digests of a document. Signatures with the same algorithm, type and salt share one.
#[derive(Default)]
pub(crate) struct Digests(Vec<DocumentHasher>);

impl Digests {
    /// The place of a digest, which is started if it is new; `None` if its algorithm is not supported.
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
pub(crate) struct ReceivedSignature {
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
struct Announced {
    version: u8,
    kind: u8,
    hash: u8,
    salt: Vec<u8>,
    /// The place of its digest.
    digest: Option<usize>,
}

impl Announced {
    fn parse(body: &[u8], digests: &mut Digests) -> Result<Self> {
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
    fn with(self, body: &[u8]) -> ReceivedSignature {
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

/// The consumer of a message: passes the data on and collects its signatures.
pub(crate) struct Receiver<'a> {
    output: &'a mut (dyn Write + Send),
    announced: Vec<Announced>,
    before: Vec<ReceivedSignature>,
    signatures: Vec<ReceivedSignature>,
    digests: Digests,
    /// The octets of all signatures so far.
    signature_bytes: usize,
    literal: Option<Literal>,
    /// The converter to native line ends, for text.
    lines: Option<Native>,
    ended: bool,
}

impl<'a> Receiver<'a> {
    pub(crate) fn new(output: &'a mut (dyn Write + Send)) -> Self {
        Self {
            output,
            announced: Vec::new(),
            before: Vec::new(),
            signatures: Vec::new(),
            digests: Digests::default(),
            signature_bytes: 0,
            literal: None,
            lines: None,
            ended: false,
        }
    }

    /// Checks the number of signatures before the data. Each one after the data has been announced.
    fn bounded(&self) -> Result<()> {
        if self.announced.len() + self.before.len() < SIGNATURES_MAX {
            Ok(())
        } else {
            let limit = SIGNATURES_MAX as u64;
            Err(MessageError::TooLarge { what: "signatures", limit })
        }
    }

    /// Verifies the signatures after the whole message has arrived. `recipients` are the certificates whose
    /// keys decrypted the message.
    pub(crate) fn finish(
        mut self,
        verifier: &Verifier<'_>,
        recipients: &[Fingerprint],
    ) -> Result<(Literal, Vec<SignatureReport>)> {
        let Some(literal) = self.literal.take().filter(|_| self.ended) else {
            return Err(MessageError::Malformed("the message has no literal data"));
        };
        // An announced signature is missing. Somebody removed it and so changed the message, even if others
        // are left.
        if !self.announced.is_empty() {
            return Err(MessageError::Malformed("an announced signature is missing"));
        }
        self.digests.end();
        let reports = self
            .before
            .iter()
            .chain(&self.signatures)
            .map(|seen| verifier.check(seen, &self.digests, recipients))
            .collect();
        Ok((literal, reports))
    }
}

impl Document for Receiver<'_> {
    fn one_pass(&mut self, body: &[u8]) -> Result<()> {
        self.bounded()?;
        if self.literal.is_some() {
            return Err(MessageError::Malformed("a one-pass signature packet follows the data"));
        }
        self.announced.push(Announced::parse(body, &mut self.digests)?);
        Ok(())
    }

    fn signature(&mut self, body: &[u8]) -> Result<()> {
        self.signature_bytes += body.len();
        if self.signature_bytes > SIGNATURE_BYTES_MAX {
            let limit = SIGNATURE_BYTES_MAX as u64;
            return Err(MessageError::TooLarge { what: "bytes of signatures", limit });
        }
        if self.literal.is_none() {
            self.bounded()?;
            self.before.push(ReceivedSignature::before(body, &mut self.digests));
            return Ok(());
        }
        let announced = self.announced.pop().ok_or(MessageError::Malformed(
            "a signature without a one-pass signature packet follows the data",
        ))?;
        self.signatures.push(announced.with(body));
        Ok(())
    }

    fn literal(&mut self, literal: Literal) -> Result<()> {
        if self.literal.is_some() {
            return Err(MessageError::Malformed("the message has more than one literal packet"));
        }
        self.lines = literal.text.then(Native::default);
        self.literal = Some(literal);
        Ok(())
    }

    fn data(&mut self, data: &[u8]) -> Result<()> {
        self.digests.update(data);
        let output = &mut *self.output;
        let mut write = |data: &[u8]| output.write_all(data).map_err(MessageError::write);
        match &mut self.lines {
            Some(lines) => lines.push(data, write),
            None => write(data),
        }
    }

    fn end(&mut self) -> Result<()> {
        self.ended = true;
        let output = &mut *self.output;
        let write = |data: &[u8]| output.write_all(data).map_err(MessageError::write);
        self.lines.as_mut().map_or(Ok(()), |lines| lines.finish(write))
    }
}
