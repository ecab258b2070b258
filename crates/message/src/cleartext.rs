//! The cleartext signature framework (RFC 9580, section 7): text that stays readable.

use std::io::{BufRead, Write};

use crate::armor::{ArmorReader, ArmorWriter, Label};
use crate::error::{MessageError, Result};
use crate::framing::{self, tag};
use crate::sign::SigningKey;
use crate::verify::{SignatureReport, Verifier};

/// The line in front of it all.
pub(crate) const CLEARTEXT_HEAD: &str = "-----BEGIN PGP SIGNED MESSAGE-----";
/// Octets of a signed text: it is held in memory, since its signatures follow it.
const TEXT_BYTES_MAX: u64 = 16 << 20;

/// What is signed of a line: all but the white space at its end (RFC 9580, section 7.2).
fn signed(line: &[u8]) -> &[u8] {
    let end = line.iter().rposition(|octet| !matches!(octet, b' ' | b'\t' | b'\r' | b'\n'));
    &line[..end.map_or(0, |last| last + 1)]
}

/// What a cleartext signature covers of a text, with these line ends.
fn covered(text: &[u8], line_end: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + text.len() / 40);
    for (at, line) in text.split(|&octet| octet == b'\n').enumerate() {
        if at > 0 {
            out.extend(line_end);
        }
        out.extend_from_slice(signed(line));
    }
    out
}

fn read_text(input: &mut impl BufRead) -> Result<Vec<u8>> {
    let mut text = Vec::new();
    let mut limited = std::io::Read::take(&mut *input, TEXT_BYTES_MAX + 1);
    std::io::Read::read_to_end(&mut limited, &mut text).map_err(MessageError::read)?;
    if text.len() as u64 > TEXT_BYTES_MAX {
        let what = "octets of text with a cleartext signature";
        return Err(MessageError::TooLarge { what, limit: TEXT_BYTES_MAX });
    }
    Ok(text)
}

/// Signs a text of at most 16 MiB, at `now` in seconds since 1970.
///
/// # Errors
///
/// What reading, writing and the keys can meet.
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
    // The line end that is added to the last line does not belong to the text.
    for line in text.split(|&octet| octet == b'\n') {
        // "From " at the start of a line is changed by mail programs.
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

/// A signed text, taken apart.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SignedText {
    /// What the signatures cover, with line feeds: no escapes, and no white space at the ends of lines.
    pub text: Vec<u8>,
    /// The signature packets.
    pub signatures: Vec<u8>,
    /// Octets in front of the signed text and behind it, which nobody signed and which are not in
    /// [`Self::text`]; white space is not counted.
    pub apart: u64,
}

/// Names of digests that a `Hash` header may have (RFC 9580, section 9.5).
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

/// Whether a header says which digests are used, and nothing else (RFC 9580, section 6.2.2.1): whatever else
/// stands there looks signed, and is not.
fn is_hash_header(header: &[u8]) -> bool {
    header.strip_prefix(b"Hash:").is_some_and(|names| {
        names.split(|&octet| octet == b',').all(|name| DIGESTS.contains(&name.trim_ascii()))
    })
}

/// The lines of an input, up to a number of octets in all.
struct Lines<'r, R> {
    input: &'r mut R,
    left: u64,
    line: Vec<u8>,
}

impl<R: BufRead> Lines<'_, R> {
    /// Reads a line with its end; `false` at the end of the input.
    fn next(&mut self) -> Result<bool> {
        self.line.clear();
        let mut limited = std::io::Read::take(&mut *self.input, self.left + 1);
        let read = limited.read_until(b'\n', &mut self.line).map_err(MessageError::read)? as u64;
        if read > self.left {
            let what = "octets of text with a cleartext signature";
            return Err(MessageError::TooLarge { what, limit: TEXT_BYTES_MAX });
        }
        self.left -= read;
        Ok(read > 0)
    }

    /// Octets of the line that are no white space around it.
    fn said(&self) -> u64 {
        self.line.trim_ascii().len() as u64
    }
}

/// Octets of text behind an armored block, which is no part of it; white space is not counted.
///
/// # Errors
///
/// [`MessageError::Malformed`] if another armored block follows: who sees both takes them for one.
pub(crate) fn behind(input: &mut impl BufRead) -> Result<u64> {
    let mut lines = Lines { input, left: TEXT_BYTES_MAX, line: Vec::new() };
    let mut said = 0;
    while lines.next()? {
        if lines.line.starts_with(b"-----BEGIN PGP ") {
            return Err(MessageError::Malformed("another armored block follows the signed one"));
        }
        said += lines.said();
    }
    Ok(said)
}

/// Takes a signed text apart.
///
/// # Errors
///
/// [`MessageError::Malformed`] if it is none, has a header that is not `Hash`, or is followed by another
/// armored block, which would look like a part of it; [`MessageError::Truncated`].
pub fn split_cleartext(input: &mut impl BufRead) -> Result<SignedText> {
    const ENDS: MessageError = MessageError::Truncated("it ends in the signed text");
    const SIGNATURE_HEAD: &[u8] = b"-----BEGIN PGP SIGNATURE-----";
    let mut lines = Lines { input, left: TEXT_BYTES_MAX, line: Vec::new() };
    let mut apart = 0;
    loop {
        if !lines.next()? {
            return Err(MessageError::Malformed("there is no signed text"));
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
                let why = "a header of the signed text is not `Hash` with names of digests";
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
                return Err(MessageError::Malformed("a line of the signed text is not escaped"));
            }
            None => text.extend_from_slice(&lines.line),
        }
    }
    // The end of the last line belongs to the head line behind it.
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

/// Checks a signed text. Returns what is signed, and what came out.
///
/// # Errors
///
/// What [`split_cleartext`] meets.
pub fn verify_cleartext(
    input: &mut impl BufRead,
    verifier: &Verifier<'_>,
) -> Result<(SignedText, Vec<SignatureReport>)> {
    let signed = split_cleartext(input)?;
    let canonical = covered(&signed.text, b"\r\n");
    let reports = verifier.detached(&signed.signatures, &mut &canonical[..])?;
    Ok((signed, reports))
}
