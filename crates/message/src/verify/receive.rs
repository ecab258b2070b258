//! Signatures as they arrive: announced before the data, next to it, or detached from it.

use std::io::Write;

use talaria_cert::{Fingerprint, Signature};

use super::{SIGNATURES_MAX, SignatureReport, Verifier};
use crate::content::Literal;
use crate::error::{MessageError, Result};
use crate::lines::Native;
use crate::packets::Document;
use crate::sign::{DocumentHasher, TEXT, salt_bytes};

/// A signature with its digest of the document.
pub(crate) struct ReceivedSignature {
    pub(super) body: Vec<u8>,
    pub(super) hasher: Option<DocumentHasher>,
    pub(super) problem: Option<&'static str>,
}

impl ReceivedSignature {
    /// A signature that is known before its document.
    pub(super) fn before(body: &[u8]) -> Self {
        let hasher = Signature::parse(body)
            .filter(|signature| signature.version != 5)
            .filter(|signature| {
                signature.version != 6 || signature.salt.len() == salt_bytes(signature.hash)
            })
            .and_then(|signature| {
                let text = signature.kind == TEXT;
                DocumentHasher::new(signature.hash, text, signature.salt.to_vec()).ok()
            });
        Self { body: body.to_vec(), hasher, problem: is_version_5(body).then_some(VERSION_5) }
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
    hasher: Option<DocumentHasher>,
}

impl Announced {
    fn parse(body: &[u8]) -> Result<Self> {
        const SHORT: MessageError =
            MessageError::Malformed("a one-pass signature packet is too short");
        let &[version, kind, hash, _, ref rest @ ..] = body else { return Err(SHORT) };
        let mut salt = &[][..];
        if version == 6 {
            let (&len, rest) = rest.split_first().ok_or(SHORT)?;
            salt = rest.get(..usize::from(len)).ok_or(SHORT)?;
        }
        let known = version == 3 || version == 6 && salt.len() == salt_bytes(hash);
        let hasher =
            known.then(|| DocumentHasher::new(hash, kind == TEXT, salt.to_vec()).ok()).flatten();
        Ok(Self { version, kind, hash, hasher })
    }

    /// The announced digest together with its signature.
    fn with(self, body: &[u8]) -> ReceivedSignature {
        let body = body.to_vec();
        let fits = Signature::parse(&body).is_some_and(|signature| {
            let version = if self.version == 6 { 6 } else { signature.version };
            (signature.version, signature.kind, signature.hash) == (version, self.kind, self.hash)
                && self.hasher.as_ref().is_none_or(|hasher| hasher.salt == signature.salt)
        });
        if is_version_5(&body) {
            ReceivedSignature { body, hasher: None, problem: Some(VERSION_5) }
        } else if fits {
            ReceivedSignature { body, hasher: self.hasher, problem: None }
        } else {
            let problem = Some("the signature does not match its one-pass signature packet");
            ReceivedSignature { body, hasher: None, problem }
        }
    }
}

/// The consumer of a message: passes the data on and collects its signatures.
pub(crate) struct Receiver<'a> {
    output: &'a mut (dyn Write + Send),
    announced: Vec<Announced>,
    before: Vec<ReceivedSignature>,
    signatures: Vec<ReceivedSignature>,
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
            literal: None,
            lines: None,
            ended: false,
        }
    }

    fn bounded(&self) -> Result<()> {
        let count = self.announced.len() + self.before.len() + self.signatures.len();
        if count < SIGNATURES_MAX {
            Ok(())
        } else {
            let limit = SIGNATURES_MAX as u64;
            Err(MessageError::TooLarge { what: "signatures", limit })
        }
    }

    /// Verifies the signatures after the whole message has arrived. `recipients` are the certificates whose
    /// keys decrypted the message.
    pub(crate) fn finish(
        self,
        verifier: &Verifier<'_>,
        recipients: &[Fingerprint],
    ) -> Result<(Literal, Vec<SignatureReport>)> {
        let Some(literal) = self.literal.filter(|_| self.ended) else {
            return Err(MessageError::Malformed("the message has no literal data"));
        };
        // An announced signature is missing. Somebody removed it and so changed the message, even if others
        // are left.
        if !self.announced.is_empty() {
            return Err(MessageError::Malformed("an announced signature is missing"));
        }
        let reports = self
            .before
            .into_iter()
            .chain(self.signatures)
            .map(|seen| verifier.check(seen, recipients))
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
        self.announced.push(Announced::parse(body)?);
        Ok(())
    }

    fn signature(&mut self, body: &[u8]) -> Result<()> {
        self.bounded()?;
        if self.literal.is_none() {
            self.before.push(ReceivedSignature::before(body));
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
        let announced = self.announced.iter_mut().filter_map(|one| one.hasher.as_mut());
        let before = self.before.iter_mut().filter_map(|seen| seen.hasher.as_mut());
        announced.chain(before).for_each(|hasher| hasher.update(data));
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
