//! The cleartext signature framework (RFC 9580, section 7): signed text that stays readable.

use std::io::{BufRead, Write};

use crate::armor::{ArmorReader, ArmorWriter, Label};
use crate::error::{MessageError, Result};
use crate::framing::{self, tag};
use crate::sign::SigningKey;
use crate::verify::Verifier;
use crate::verify::report::SignatureReport;

/// The line that begins a signed text.
pub(crate) const CLEARTEXT_HEAD: &str = "-----BEGIN PGP SIGNED MESSAGE-----";
/// The maximum length of a signed text in bytes. The text is held in memory, because its signatures
/// follow it.
pub const CLEARTEXT_BYTES_MAX: u64 = 16 << 20;

/// The signed part of a line: all but the white space at its end (RFC 9580, section 7.2).
fn signed(line: &[u8]) -> &[u8] {
    let end = line.iter().rposition(|byte| !matches!(byte, b' ' | b'\t' | b'\r' | b'\n'));
    &line[..end.map_or(0, |last| last + 1)]
}

/// The bytes of a text that a cleartext signature covers, with these line ends.
fn covered(text: &[u8], line_end: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + text.len() / 40);
    for (at, line) in text.split(|&byte| byte == b'\n').enumerate() {
        if at > 0 {
            out.extend(line_end);
        }
        out.extend_from_slice(signed(line));
    }
    out
}

fn read_text(input: &mut impl BufRead) -> Result<Vec<u8>> {
    let mut text = Vec::new();
    let mut limited = std::io::Read::take(&mut *input, CLEARTEXT_BYTES_MAX + 1);
    std::io::Read::read_to_end(&mut limited, &mut text).map_err(MessageError::read)?;
    if text.len() as u64 > CLEARTEXT_BYTES_MAX {
        let what = "bytes of text with a cleartext signature";
        return Err(MessageError::TooLarge { what, limit: CLEARTEXT_BYTES_MAX });
    }
    Ok(text)
}

/// Signs a text of at most 16 MiB, at `now` in seconds since 1970.
///
/// # Errors
///
/// Errors of reading, of writing, and of the keys.
pub fn sign_cleartext(
    input: &mut impl BufRead,
    output: &mut impl Write,
    signers: &mut [SigningKey],
    now: u32,
) -> Result<()> {
    let text = read_text(input)?;
    let mut names: Vec<&str> = signers.iter().map(SigningKey::hash_name).collect();
    names.sort_unstable();
    names.dedup();
    let mut out = format!("{CLEARTEXT_HEAD}\n").into_bytes();
    names.iter().for_each(|name| out.extend(format!("Hash: {name}\n").bytes()));
    out.push(b'\n');
    let canonical = covered(&text, b"\r\n");
    // The line end that is added to the last line is no part of the text.
    for line in text.split(|&byte| byte == b'\n') {
        // Mail programs change "From " at the start of a line.
        if line.starts_with(b"-") || line.starts_with(b"From ") {
            out.extend(b"- ");
        }
        out.extend_from_slice(line);
        out.push(b'\n');
    }
    output.write_all(&out).map_err(MessageError::write)?;
    let mut armor = ArmorWriter::new(output, Label::Signature)?;
    for signer in signers {
        let mut hasher = signer.begin(true)?;
        hasher.update(&canonical);
        let body = signer.finish(hasher, now)?;
        let mut packet = Vec::new();
        framing::write_packet(&mut packet, tag::SIGNATURE, &body)?;
        armor.write_all(&packet).map_err(MessageError::write)?;
    }
    armor.finish().map(drop)
}

/// A parsed signed text.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SignedText {
    /// The signed text, with line feeds: without dash escapes and without white space at the ends
    /// of lines.
    pub text: Vec<u8>,
    /// The signature packets.
    pub signatures: Vec<u8>,
    /// The number of unsigned bytes before and after the signed text, without white space. They are
    /// not in [`Self::text`].
    pub apart: u64,
}

/// Digest names that a `Hash` header may have (RFC 9580, section 9.5).
const DIGESTS: [&[u8]; 9] = [
    b"MD5",
    b"SHA1",
    b"RIPEMD160",
    b"SHA256",
    b"SHA384",
    b"SHA512",
    b"SHA224",
    b"SHA3-256",
    b"SHA3-512",
];

/// Whether a header is a `Hash` header with digest names only (RFC 9580, section 6.2.2.1). Any
/// other text in a header would look signed without being signed.
fn is_hash_header(header: &[u8]) -> bool {
    header.strip_prefix(b"Hash:").is_some_and(|names| {
        names.split(|&byte| byte == b',').all(|name| DIGESTS.contains(&name.trim_ascii()))
    })
}

/// The lines of an input, with a limit on the bytes of all lines together.
struct Lines<'r, R> {
    input: &'r mut R,
    left: u64,
    line: Vec<u8>,
}

impl<R: BufRead> Lines<'_, R> {
    /// Reads a line with its line end; `false` at the end of the input.
    fn next(&mut self) -> Result<bool> {
        self.line.clear();
        let mut limited = std::io::Read::take(&mut *self.input, self.left + 1);
        let read = limited.read_until(b'\n', &mut self.line).map_err(MessageError::read)? as u64;
        if read > self.left {
            let what = "bytes of text with a cleartext signature";
            return Err(MessageError::TooLarge { what, limit: CLEARTEXT_BYTES_MAX });
        }
        self.left -= read;
        Ok(read > 0)
    }

    /// The bytes of the line without white space at both ends.
    fn said(&self) -> u64 {
        self.line.trim_ascii().len() as u64
    }
}

/// The number of bytes of text after an armored block, without white space. The text is no part of
/// the block.
///
/// # Errors
///
/// [`MessageError::Malformed`] if another armored block follows: a reader who sees both takes them
/// for one.
pub(crate) fn behind(input: &mut impl BufRead) -> Result<u64> {
    let mut lines = Lines { input, left: CLEARTEXT_BYTES_MAX, line: Vec::new() };
    let mut said = 0;
    while lines.next()? {
        if lines.line.starts_with(b"-----BEGIN PGP ") {
            return Err(MessageError::Malformed("another armored block follows the signed text"));
        }
        said += lines.said();
    }
    Ok(said)
}

/// Parses a signed text.
///
/// # Errors
///
/// [`MessageError::Malformed`] if the input is no signed text, has a header other than `Hash`, or
/// has another armored block after it, which would look like a part of the text;
/// [`MessageError::Truncated`].
pub fn split_cleartext(input: &mut impl BufRead) -> Result<SignedText> {
    const ENDS: MessageError = MessageError::Truncated("the input ends within the signed text");
    const SIGNATURE_HEAD: &[u8] = b"-----BEGIN PGP SIGNATURE-----";
    let mut lines = Lines { input, left: CLEARTEXT_BYTES_MAX, line: Vec::new() };
    let mut apart = 0;
    loop {
        if !lines.next()? {
            return Err(MessageError::Malformed("no signed text found"));
        }
        if signed(&lines.line) == CLEARTEXT_HEAD.as_bytes() {
            break;
        }
        apart += lines.said();
    }
    loop {
        if !lines.next()? {
            return Err(ENDS);
        }
        match signed(&lines.line) {
            [] => break,
            header if is_hash_header(header) => {}
            _ => {
                let why = "the signed text has a header that is not `Hash:` with digest names";
                return Err(MessageError::Malformed(why));
            }
        }
    }
    let mut text = Vec::new();
    loop {
        if !lines.next()? {
            return Err(ENDS);
        }
        if signed(&lines.line) == SIGNATURE_HEAD {
            break;
        }
        match lines.line.strip_prefix(b"- ") {
            Some(rest) => text.extend_from_slice(rest),
            None if lines.line.starts_with(b"-") => {
                return Err(MessageError::Malformed(
                    "a line of the signed text lacks its dash escape",
                ));
            }
            None => text.extend_from_slice(&lines.line),
        }
    }
    // The last line end of the text belongs to the head line of the signature.
    text.pop();
    let head = [SIGNATURE_HEAD, b"\n"].concat();
    let rest = std::io::Read::chain(&head[..], &mut *lines.input);
    let mut signatures = Vec::new();
    let mut armor = ArmorReader::new(rest)?;
    let mut limited = std::io::Read::take(&mut armor, 1 << 20);
    std::io::Read::read_to_end(&mut limited, &mut signatures).map_err(MessageError::read)?;
    apart += behind(lines.input)?;
    Ok(SignedText { text: covered(&text, b"\n"), signatures, apart })
}

/// Checks a signed text. Returns the text and a report on each signature.
///
/// # Errors
///
/// The errors of [`split_cleartext`].
pub fn verify_cleartext(
    input: &mut impl BufRead,
    verifier: &Verifier<'_>,
) -> Result<(SignedText, Vec<SignatureReport>)> {
    let signed = split_cleartext(input)?;
    let canonical = covered(&signed.text, b"\r\n");
    let reports = verifier.detached(&signed.signatures, &mut &canonical[..])?;
    Ok((signed, reports))
}
