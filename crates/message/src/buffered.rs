//! Encryption from memory to memory.
//!
//! A writer of many large messages has their content in pieces and wants each message in one
//! buffer. The content is encrypted on its way from the pieces to the buffer, without a copy.

use std::io::{BufRead, Cursor, Read as _, Write as _};

use crate::aead::each_piece;
use crate::compression::Compression;
use crate::content::literal_start;
use crate::encrypt::{EncryptOptions, Recipients, Suite, encrypt};
use crate::error::{MessageError, Result};
use crate::framing;

/// Writes a message with `bytes` bytes of content to the start of `out`, and returns its length.
/// The message has neither signatures nor compression, and is made on this thread. Without
/// `recipients` it is a literal packet, not encrypted.
///
/// # Errors
///
/// [`MessageError::Usage`] if `out` is shorter than the message, for an empty set of recipients,
/// and for text; [`MessageError::Truncated`] if `input` has fewer bytes; [`MessageError::TooLarge`]
/// beyond 4 GiB; errors of the keys.
pub fn encrypt_buffered(
    input: impl BufRead + Send,
    bytes: u64,
    out: &mut [u8],
    recipients: Option<&Recipients>,
    options: &EncryptOptions,
) -> Result<usize> {
    if options.literal.text {
        return Err(MessageError::Usage("the lines of text are not converted in a buffer"));
    }
    if recipients.is_some_and(Recipients::is_empty) {
        return Err(MessageError::Usage("a message needs a recipient or a passphrase"));
    }
    let literal = literal_start(bytes, &options.literal)?;
    let plain = literal.len() as u64 + bytes;
    let mut content = Cursor::new(literal).chain(input);
    let Some(recipients) = recipients else {
        let body = body(out, &[], plain)?;
        each_piece(&mut content, body.len(), |at, piece| {
            body[at..at + piece.len()].copy_from_slice(piece);
            Ok(())
        })?;
        return Ok(body.len());
    };
    let suite = Suite::choose(recipients, options);
    let session_key = suite.session_key()?;
    let (fields, Some(chunks)) = suite.begin(&session_key)? else {
        // CFB encrypts a stream.
        let (_, input) = content.into_inner();
        let options = EncryptOptions {
            size: Some(bytes),
            compression: Compression::None,
            threads: 1,
            ..options.clone()
        };
        let (room, mut rest) = (out.len(), out);
        encrypt(input, &mut rest, recipients, &mut [], &options, 0)?;
        return Ok(room - rest.len());
    };
    let mut start = suite.wrap(&session_key, recipients)?;
    let sealed = chunks.sealed_bytes(plain);
    framing::write_header(&mut start, suite.tag(), fields.len() as u64 + sealed)?;
    start.extend(fields);
    let body = body(out, &start, sealed)?;
    chunks.seal_to(&mut content, usize::try_from(plain).unwrap_or(usize::MAX), body)?;
    Ok(start.len() + body.len())
}

/// Writes the start of a message to `out`, and returns the room for the `bytes` bytes after it.
fn body<'a>(mut out: &'a mut [u8], start: &[u8], bytes: u64) -> Result<&'a mut [u8]> {
    const SHORT: MessageError = MessageError::Usage("the buffer is shorter than the message");
    out.write_all(start).map_err(|_| SHORT)?;
    usize::try_from(bytes).ok().and_then(|bytes| out.get_mut(..bytes)).ok_or(SHORT)
}
