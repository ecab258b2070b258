//! Reading what somebody was sent, whatever it is: encrypted, signed, or a signed text. Its content goes out
//! only as far as the signatures that it must have allow.

use std::io::{self, BufRead, Read, Write};

use sequoia_openpgp::Fingerprint;

use crate::accept::{Acceptance, Facts, NotAccepted, Unsigned};
use crate::armor::Input;
use crate::cleartext::{behind, verify_cleartext};
use crate::content::Literal;
use crate::decrypt::{DecryptOptions, Decrypted, Release, Spool, decrypt};
use crate::error::{MessageError, Result};
use crate::held::Held;
use crate::inline::verify_inline;
use crate::kind::{Message, MessageKind};
use crate::packets::Limits;
use crate::secrets::Secrets;
use crate::verify::{SignatureReport, Verifier};

/// Makes files for what is too long for memory. What goes there is encrypted.
pub type Spools<'a> = &'a (dyn Fn() -> io::Result<Box<dyn Spool>> + Send + Sync);

/// How to read a message.
pub struct ReadOptions<'a> {
    /// Who must have made a good signature; `None` if anybody may, and encrypted messages need not be signed
    /// at all.
    pub expected: Option<Vec<Fingerprint>>,
    /// What is written to the output disappears if there is an error or if the message is not accepted. So
    /// nothing is held back.
    pub disposable: bool,
    /// Encrypted content may leave before its integrity is known, unless signers are expected.
    pub streamed: bool,
    /// Where content waits that must not leave yet.
    pub spools: Spools<'a>,
    /// Bounds on what comes out.
    pub limits: Limits,
    /// Threads that work at once.
    pub threads: usize,
}

impl<'a> ReadOptions<'a> {
    /// Nobody is expected, and nothing leaves before it is known to be whole.
    #[must_use]
    pub fn new(spools: Spools<'a>) -> Self {
        Self {
            expected: None,
            disposable: false,
            streamed: false,
            spools,
            limits: Limits::default(),
            threads: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }

    /// The policy for a message that may be without signatures, or not.
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

/// A message that was read.
pub struct Received {
    /// What it was made of.
    pub parts: Parts,
    /// Octets of text in front of it and behind it, which nobody signed; not a part of the content.
    pub apart: u64,
    /// Whether it is accepted. If not, nothing of it was written to an output that is not disposable, but for
    /// an encrypted message for which nobody is expected: that leaves as it is decrypted.
    pub decision: std::result::Result<Facts, NotAccepted>,
}

/// What a message was made of.
pub enum Parts {
    /// It was encrypted.
    Decrypted(Decrypted),
    /// It was signed only.
    Signed {
        /// What is said about the content.
        literal: Literal,
        /// Its signatures, in the order of their packets.
        signatures: Vec<SignatureReport>,
    },
}

impl Received {
    /// Its signatures, in the order of their packets.
    #[must_use]
    pub fn signatures(&self) -> &[SignatureReport] {
        match &self.parts {
            Parts::Decrypted(decrypted) => &decrypted.signatures,
            Parts::Signed { signatures, .. } => signatures,
        }
    }

    /// What is said about the content.
    #[must_use]
    pub fn literal(&self) -> &Literal {
        match &self.parts {
            Parts::Decrypted(decrypted) => &decrypted.literal,
            Parts::Signed { literal, .. } => literal,
        }
    }
}

/// Writes the content of a message that is encrypted or signed, and checks its signatures.
///
/// # Errors
///
/// [`MessageError::OtherKind`] if it is neither; what is wrong with it, or with reading and writing.
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
    let ReadOptions { disposable, streamed, spools, limits, threads, .. } = *options;
    let acceptance = options.acceptance(Unsigned::Accepted);
    let mut spool = || spools();
    let mut run = |output: &mut (dyn Write + Send), streamed: bool| {
        let release = if streamed { Release::Streamed } else { Release::Checked(&mut spool) };
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

/// Writes the content of a message or text that is signed and not encrypted, if its signatures are accepted.
///
/// # Errors
///
/// [`MessageError::OtherKind`] if it is not signed; what is wrong with it, or with reading and writing.
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
            if let Input::Armored(armor) = input {
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

/// Reads detached signatures: packets, or armored blocks one after the other.
///
/// # Errors
///
/// [`MessageError::OtherKind`] if it is something else; [`MessageError::TooLarge`] beyond 1 MiB.
pub fn read_signatures(input: &mut (impl Read + ?Sized)) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    input.take(SIGNATURES_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(MessageError::read)?;
    if bytes.len() as u64 > SIGNATURES_BYTES_MAX {
        let what = "octets in a file of signatures";
        return Err(MessageError::TooLarge { what, limit: SIGNATURES_BYTES_MAX });
    }
    signatures(&bytes)
}

/// Octets of a file of detached signatures.
const SIGNATURES_BYTES_MAX: u64 = 1 << 20;

/// As [`read_signatures`], of what is in memory.
///
/// # Errors
///
/// [`MessageError::OtherKind`] if it is something else.
pub fn signatures(bytes: &[u8]) -> Result<Vec<u8>> {
    let found = Message::new(bytes)?.kind();
    if found != MessageKind::DetachedSignature {
        return Err(MessageError::OtherKind { found, wanted: "a detached signature" });
    }
    Ok(crate::armor::unarmored(bytes)?.into_owned())
}
