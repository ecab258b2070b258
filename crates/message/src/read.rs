//! Reading a received message of any kind: encrypted, signed, or a text with a cleartext signature.
//! Content is released only as far as the required signatures allow.

use std::io::{self, BufRead, BufReader, Read, Write};

use crate::accept::{Acceptance, ExpectedSigner, Facts, NotAccepted, Unsigned};
use crate::armor::ArmorInput;
use crate::cleartext::{behind, verify_cleartext};
use crate::content::Literal;
use crate::decrypt::{Again, DecryptOptions, Decrypted, Release, decrypt};
use crate::error::{MessageError, Result};
use crate::held::{Held, Spool};
use crate::inline::verify_inline;
use crate::kind::MessageKind;
use crate::packets::ReadLimits;
use crate::recognise::Message;
use crate::secrets::Secrets;
use crate::verify::Verifier;
use crate::verify::report::SignatureReport;

/// A function that creates files for content that is too long for memory. The data in these files
/// is encrypted.
pub type Spools<'a> = &'a (dyn Fn() -> io::Result<Box<dyn Spool>> + Send + Sync);

/// A function that opens the input again, at its start.
pub type Reopen<'a> = &'a (dyn Fn() -> io::Result<Box<dyn Read + Send>> + Sync);

/// The buffer of an input that is read a second time, in bytes.
const AGAIN_BYTES: usize = 256 << 10;

/// Options for reading a message. Programs set the fields of [`Self::new`].
#[non_exhaustive]
pub struct ReadOptions<'a> {
    /// The signers that must have made a good signature. With `None` any signer is accepted, and
    /// encrypted messages need no signature.
    pub expected: Option<Vec<ExpectedSigner>>,
    /// The output is discarded by the caller if an error occurs or the message is not accepted. So
    /// nothing needs to be held back.
    pub disposable: bool,
    /// Encrypted content may be released before its integrity is known, unless signers are
    /// expected.
    pub streamed: bool,
    /// The storage for content that is held back.
    pub spools: Spools<'a>,
    /// Opens the input a second time, if it is a file. Then a long encrypted message is read twice
    /// instead of being held back.
    pub again: Option<Reopen<'a>>,
    /// Limits on the size of the content and on the cost of passphrases.
    pub limits: ReadLimits,
    /// The number of threads.
    pub threads: usize,
}

impl<'a> ReadOptions<'a> {
    /// Options without expected signers, under which no content is released before its integrity is
    /// known.
    #[must_use]
    pub fn new(spools: Spools<'a>) -> Self {
        Self {
            expected: None,
            disposable: false,
            streamed: false,
            spools,
            again: None,
            limits: ReadLimits::default(),
            threads: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }

    /// The acceptance policy of these options; `unsigned` is the verdict on messages without a good
    /// signature.
    fn acceptance(&self, unsigned: Unsigned) -> Acceptance {
        match &self.expected {
            Some(signers) => Acceptance::Expected(signers.clone()),
            None => Acceptance::NoneBad(unsigned),
        }
    }

    fn held(&self) -> Held<'a> {
        Held::new(Box::new(self.spools))
    }
}

/// The result of reading a message.
pub struct Received {
    /// The details of the message.
    pub parts: Parts,
    /// The number of unsigned bytes of text before and after the message; they are no part of the
    /// content.
    pub apart: u64,
    /// Whether the message is accepted. If not, nothing was written to an output that is not
    /// disposable, with one exception: an encrypted message without expected signers is written as
    /// it is decrypted.
    pub decision: std::result::Result<Facts, NotAccepted>,
}

/// The details of a message by its kind.
pub enum Parts {
    /// The message was encrypted.
    Decrypted(Decrypted),
    /// The message was signed only.
    Signed {
        /// The metadata of the content.
        literal: Literal,
        /// Reports on the signatures, in the order of their packets.
        signatures: Vec<SignatureReport>,
    },
}

impl Received {
    /// Reports on the signatures, in the order of their packets.
    #[must_use]
    pub fn signatures(&self) -> &[SignatureReport] {
        match &self.parts {
            Parts::Decrypted(decrypted) => &decrypted.signatures,
            Parts::Signed { signatures, .. } => signatures,
        }
    }

    /// The metadata of the content.
    #[must_use]
    pub fn literal(&self) -> &Literal {
        match &self.parts {
            Parts::Decrypted(decrypted) => &decrypted.literal,
            Parts::Signed { literal, .. } => literal,
        }
    }
}

/// Writes the content of an encrypted or signed message, and checks its signatures.
///
/// # Errors
///
/// [`MessageError::OtherKind`] if the message is neither; errors of the message, of reading and of
/// writing.
pub fn read_message<R: BufRead + Send>(
    message: Message<R>,
    output: &mut (dyn Write + Send),
    secrets: &mut Secrets,
    verifier: &Verifier<'_>,
    options: &ReadOptions<'_>,
) -> Result<Received> {
    if message.kind() != MessageKind::Encrypted {
        return match verify_message(message, output, verifier, options) {
            Err(MessageError::OtherKind { found, .. }) => {
                Err(MessageError::OtherKind { found, wanted: "an encrypted or signed message" })
            }
            other => other,
        };
    }
    let apart = message.leading_text();
    let mut input = message.into_packets()?;
    let ReadOptions { disposable, streamed, spools, again, limits, threads, .. } = *options;
    let acceptance = options.acceptance(Unsigned::Accepted);
    let again = again.map(|again| {
        move || -> Result<Box<dyn Read + Send>> {
            let again = BufReader::with_capacity(AGAIN_BYTES, again().map_err(MessageError::read)?);
            Ok(Box::new(Message::new(again)?.into_packets()?))
        }
    });
    let again = again.as_ref().map(|again| again as Again<'_>);
    let mut run = |output: &mut (dyn Write + Send), streamed: bool| {
        let checked = Release::Checked { spool: spools, again };
        let release = if streamed { Release::Streamed } else { checked };
        let how = DecryptOptions { release, limits, threads };
        let decrypted = decrypt(&mut input, output, secrets, verifier, how)?;
        let decision = acceptance.decide(&decrypted.signatures);
        Ok(Received { parts: Parts::Decrypted(decrypted), apart, decision })
    };
    if disposable || options.expected.is_none() {
        return run(output, disposable || streamed);
    }
    let mut held = options.held();
    let received = run(&mut held, true)?;
    if received.decision.is_ok() {
        held.release(output)?;
    }
    Ok(received)
}

/// Writes the content of a signed message or text that is not encrypted, if its signatures are
/// accepted.
///
/// # Errors
///
/// [`MessageError::OtherKind`] if the input is not signed; errors of the message, of reading and of
/// writing.
pub fn verify_message<R: BufRead>(
    message: Message<R>,
    output: &mut (dyn Write + Send),
    verifier: &Verifier<'_>,
    options: &ReadOptions<'_>,
) -> Result<Received> {
    let acceptance = options.acceptance(Unsigned::Refused);
    let mut apart = message.leading_text();
    match message.kind() {
        MessageKind::SignedText => {
            let (signed, signatures) = verify_cleartext(&mut message.into_text(), verifier)?;
            apart += signed.apart;
            let decision = acceptance.decide(&signatures);
            if decision.is_ok() || options.disposable {
                output.write_all(&signed.text).map_err(MessageError::write)?;
                output.flush().map_err(MessageError::write)?;
            }
            let literal = Literal { text: true, ..Literal::default() };
            Ok(Received { parts: Parts::Signed { literal, signatures }, apart, decision })
        }
        MessageKind::Signed => {
            let mut input = message.into_packets()?;
            let mut held = options.held();
            let out: &mut (dyn Write + Send) =
                if options.disposable { &mut *output } else { &mut held };
            let (literal, signatures) = verify_inline(&mut input, out, verifier, options.limits)?;
            if let ArmorInput::Armored(armor) = input {
                apart += behind(&mut armor.into_inner())?;
            }
            let decision = acceptance.decide(&signatures);
            if decision.is_ok() && !options.disposable {
                held.release(output)?;
            }
            Ok(Received { parts: Parts::Signed { literal, signatures }, apart, decision })
        }
        found => Err(MessageError::OtherKind { found, wanted: "a signed message" }),
    }
}

/// Reads detached signatures: packets, or one or more armored blocks.
///
/// # Errors
///
/// [`MessageError::OtherKind`] for other data; [`MessageError::TooLarge`] beyond 1 MiB.
pub fn read_signatures(input: &mut (impl Read + ?Sized)) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    input.take(SIGNATURES_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(MessageError::read)?;
    if bytes.len() as u64 > SIGNATURES_BYTES_MAX {
        let what = "bytes in a file of signatures";
        return Err(MessageError::TooLarge { what, limit: SIGNATURES_BYTES_MAX });
    }
    signatures(&bytes)
}

/// The maximum length of a file of detached signatures, in bytes.
const SIGNATURES_BYTES_MAX: u64 = 1 << 20;

/// Like [`read_signatures`], for signatures in memory.
///
/// # Errors
///
/// [`MessageError::OtherKind`] for other data.
pub fn signatures(bytes: &[u8]) -> Result<Vec<u8>> {
    let found = Message::new(bytes)?.kind();
    if found != MessageKind::DetachedSignature {
        return Err(MessageError::OtherKind { found, wanted: "a detached signature" });
    }
    Ok(crate::armor::unarmored(bytes)?.into_owned())
}
