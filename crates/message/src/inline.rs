//! Messages that are not encrypted: signed, compressed or packed.

use std::io::{Read, Write};

use talaria_cert::Signature;

use crate::content::Literal;
use crate::error::{MessageError, Result};
use crate::framing::{self, tag};
use crate::lines::Native;
use crate::packets::{Document, PacketWriter, ReadLimits};
use crate::sign::TEXT;
use crate::verify::Verifier;
use crate::verify::received::SIGNATURES_MAX;
use crate::verify::receiver::Receiver;
use crate::verify::report::SignatureReport;

/// The number of bytes parsed at once.
const PIECE_BYTES: usize = 128 << 10;

/// Writes the content of a message that is not encrypted, and checks its signatures. The reports
/// are in the order of the packets. The written content is authentic only if the reports say so.
///
/// # Errors
///
/// Errors of the message, of reading and of writing.
pub fn verify_inline(
    input: &mut (impl Read + ?Sized),
    output: &mut (dyn Write + Send),
    verifier: &Verifier<'_>,
    limits: ReadLimits,
) -> Result<(Literal, Vec<SignatureReport>)> {
    let mut receiver = Receiver::new(output);
    take_apart(input, &mut receiver, limits)?;
    receiver.finish(verifier, &[])
}

/// Splits an inline-signed message: writes its content to `output` and returns its signature
/// packets.
///
/// # Errors
///
/// The errors of [`verify_inline`].
pub fn detach(
    input: &mut (impl Read + ?Sized),
    output: &mut (dyn Write + Send),
    limits: ReadLimits,
) -> Result<Vec<u8>> {
    let mut splitter = Splitter {
        output,
        signatures: Vec::new(),
        count: 0,
        announced: 0,
        literal: false,
        binary: false,
        lines: None,
    };
    take_apart(input, &mut splitter, limits)?;
    if splitter.announced > 0 {
        return Err(MessageError::Malformed("an announced signature is missing"));
    }
    if splitter.signatures.is_empty() || !splitter.literal {
        return Err(MessageError::Malformed("the input is not a signed message"));
    }
    Ok(splitter.signatures)
}

fn take_apart(
    input: &mut (impl Read + ?Sized),
    document: &mut impl Document,
    limits: ReadLimits,
) -> Result<()> {
    let mut packets = PacketWriter::new(document, limits);
    let mut buffer = vec![0; PIECE_BYTES];
    loop {
        let read = framing::read_full(&mut &mut *input, &mut buffer)?;
        packets.write_all(&buffer[..read]).map_err(MessageError::read)?;
        if read < buffer.len() {
            return packets.finish();
        }
    }
}

struct Splitter<'a> {
    output: &'a mut (dyn Write + Send),
    signatures: Vec<u8>,
    /// The number of signatures.
    count: usize,
    /// The number of announced signatures that are still to come.
    announced: usize,
    literal: bool,
    /// At least one signature covers the bytes unchanged.
    binary: bool,
    /// The converter to native line ends, for text that is signed as text.
    lines: Option<Native>,
}

impl Document for Splitter<'_> {
    fn one_pass(&mut self, body: &[u8]) -> Result<()> {
        // The first bytes of the body: version and type.
        self.binary |= body.get(1) != Some(&TEXT);
        self.announced += 1;
        Ok(())
    }

    fn signature(&mut self, body: &[u8]) -> Result<()> {
        self.count += 1;
        if self.count > SIGNATURES_MAX {
            let limit = SIGNATURES_MAX as u64;
            return Err(MessageError::TooLarge { what: "signatures", limit });
        }
        if self.literal {
            self.announced = self.announced.saturating_sub(1);
        } else {
            let kind = Signature::parse(body).map(|signature| signature.kind);
            self.binary |= kind != Some(TEXT);
        }
        framing::write_packet(&mut self.signatures, tag::SIGNATURE, body)
    }

    fn literal(&mut self, literal: Literal) -> Result<()> {
        if std::mem::replace(&mut self.literal, true) {
            return Err(MessageError::Malformed("the message has more than one literal packet"));
        }
        self.lines = (literal.text && !self.binary).then(Native::default);
        Ok(())
    }

    fn data(&mut self, data: &[u8]) -> Result<()> {
        let output = &mut *self.output;
        let mut write = |data: &[u8]| output.write_all(data).map_err(MessageError::write);
        match &mut self.lines {
            Some(lines) => lines.push(data, write),
            None => write(data),
        }
    }

    fn end(&mut self) -> Result<()> {
        let output = &mut *self.output;
        let write = |data: &[u8]| output.write_all(data).map_err(MessageError::write);
        self.lines.as_mut().map_or(Ok(()), |lines| lines.finish(write))
    }
}
