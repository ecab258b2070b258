//! The cleartext signature framework (RFC 9580, section 7): text that stays readable.

use std::io::{BufRead, Write};

use crate::armor::{ArmorReader, ArmorWriter, Label};
use crate::error::{MessageError, Result};
use crate::framing::{self, tag};
use crate::sign::SigningKey;
use crate::verify::{SignatureReport, Verifier};

/// The line in front of it all.
pub const CLEARTEXT_HEAD: &str = "-----BEGIN PGP SIGNED MESSAGE-----";
/// Octets of a signed text: it is held in memory, since its signatures follow it.
const TEXT_BYTES_MAX: u64 = 16 << 20;

/// What is signed of a line: all but the white space at its end.
fn signed(line: &[u8]) -> &[u8] {
    let end = line.iter().rposition(|octet| !matches!(octet, b' ' | b'\t' | b'\r' | b'\n'));
    &line[..end.map_or(0, |last| last + 1)]
}

/// Lines joined as they are hashed.
fn canonical(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + text.len() / 40);
    for (at, line) in text.split(|&octet| octet == b'\n').enumerate() {
        if at > 0 {
            out.extend(b"\r\n");
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
    let canonical = canonical(&text);
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

/// Takes a signed text apart: the text, without its escapes, and the signature packets.
///
/// # Errors
///
/// [`MessageError::Malformed`] if it is none; [`MessageError::Truncated`].
pub fn split_cleartext(input: &mut impl BufRead) -> Result<(Vec<u8>, Vec<u8>)> {
    const ENDS: MessageError = MessageError::Truncated("it ends in the signed text");
    let mut line = Vec::new();
    let mut taken = 0u64;
    let mut next = |line: &mut Vec<u8>| -> Result<bool> {
        line.clear();
        let mut limited = std::io::Read::take(&mut *input, TEXT_BYTES_MAX);
        let read = limited.read_until(b'\n', line).map_err(MessageError::read)?;
        taken += read as u64;
        if taken > TEXT_BYTES_MAX {
            let what = "octets of text with a cleartext signature";
            return Err(MessageError::TooLarge { what, limit: TEXT_BYTES_MAX });
        }
        Ok(read > 0)
    };
    loop {
        if !next(&mut line)? {
            return Err(MessageError::Malformed("there is no signed text"));
        }
        if signed(&line) == CLEARTEXT_HEAD.as_bytes() {
            break;
        }
    }
    // Headers, which can say nothing but digests: what they are is in the signatures.
    loop {
        if !next(&mut line)? {
            return Err(ENDS);
        }
        match signed(&line) {
            [] => break,
            header if header.starts_with(b"Hash:") => {}
            _ => return Err(MessageError::Malformed("a header of the signed text is not one")),
        }
    }
    let mut text = Vec::new();
    loop {
        if !next(&mut line)? {
            return Err(ENDS);
        }
        if signed(&line) == b"-----BEGIN PGP SIGNATURE-----" {
            break;
        }
        match line.strip_prefix(b"- ") {
            Some(rest) => text.extend_from_slice(rest),
            None if line.starts_with(b"-") => {
                return Err(MessageError::Malformed("a line of the signed text is not escaped"));
            }
            None => text.extend_from_slice(&line),
        }
    }
    if text.pop().is_some() && text.last() == Some(&b'\r') {
        text.pop();
    }
    let rest = std::io::Read::chain(&b"-----BEGIN PGP SIGNATURE-----\n"[..], &mut *input);
    let mut signatures = Vec::new();
    let mut armor = ArmorReader::new(rest)?;
    let mut limited = std::io::Read::take(&mut armor, 1 << 20);
    std::io::Read::read_to_end(&mut limited, &mut signatures).map_err(MessageError::read)?;
    Ok((text, signatures))
}

/// Checks a signed text. Returns the text, without its escapes, and what came out.
///
/// # Errors
///
/// What [`split_cleartext`] meets.
pub fn verify_cleartext(
    input: &mut impl BufRead,
    verifier: &Verifier<'_>,
) -> Result<(Vec<u8>, Vec<SignatureReport>)> {
    let (text, signatures) = split_cleartext(input)?;
    let reports = verifier.detached(&signatures, &mut &canonical(&text)[..])?;
    Ok((text, reports))
}
