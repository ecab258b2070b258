//! The consumer of a message with signatures.

use std::io::Write;

use talaria_cert::Fingerprint;

use crate::content::Literal;
use crate::error::{MessageError, Result};
use crate::lines::Native;
use crate::packets::Document;
use crate::verify::Verifier;
use crate::verify::received::{Announced, Digests, ReceivedSignature, SIGNATURES_MAX};
use crate::verify::report::SignatureReport;

/// The maximum length of all signatures in a message together, in bytes.
const SIGNATURE_BYTES_MAX: usize = 8 << 20;

/// The consumer of a message: passes the data on and collects its signatures.
pub(crate) struct Receiver<'a> {
    output: &'a mut (dyn Write + Send),
    announced: Vec<Announced>,
    before: Vec<ReceivedSignature>,
    signatures: Vec<ReceivedSignature>,
    digests: Digests,
    /// The bytes of all signatures so far.
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

    /// Verifies the signatures after the whole message has arrived. `recipients` are the
    /// certificates whose keys decrypted the message.
    pub(crate) fn finish(
        mut self,
        verifier: &Verifier<'_>,
        recipients: &[Fingerprint],
    ) -> Result<(Literal, Vec<SignatureReport>)> {
        let Some(literal) = self.literal.take().filter(|_| self.ended) else {
            return Err(MessageError::Malformed("the message has no literal data"));
        };
        // An announced signature is missing. Somebody removed it and so changed the message, even
        // if others are left.
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
