//! Decryption of any range of a message, without the rest.
//!
//! Each chunk of an AEAD packet (version 2 of type 18, and type 20) is authenticated with its
//! number. So a reader of a large message in a storage needs its start, with the wrapped session
//! key and the packet headers, and the chunks around the range. Nothing is known about the chunks
//! that were not read: the message may end early, or be damaged elsewhere. The content must be one
//! literal packet of definite length with binary data, neither signed nor compressed.

use std::io::Read;
use std::ops::Range;

use crate::algorithm::TAG_BYTES;
use crate::chunked::Chunks;
use crate::decrypt::{Opening, Sealed, read_wrapped};
use crate::encrypt::Profile;
use crate::error::{MessageError, Result};
use crate::framing::{self, Length, tag};
use crate::packets::ReadLimits;
use crate::secrets::{OpenedBy, Remembered, Secrets, Wrapped};

/// The longest header of a literal packet: type, length, format, name, date.
const HEADER_BYTES_MAX: u64 = 6 + 2 + 255 + 4;

/// Decrypts ranges of the content of one message.
pub struct RangeOpener {
    chunks: Chunks,
    profile: Profile,
    by: OpenedBy,
    /// The offset of the encrypted stream in the message.
    stream: u64,
    /// Bytes of plaintext in the encrypted stream.
    plain: u64,
    /// The offset of the content in the plaintext.
    content: u64,
}

impl RangeOpener {
    /// Reads the start of a message of `message_bytes` bytes in binary form: the packets with
    /// wrapped session keys, the header of the encrypted packet and its first chunk. A message to
    /// one recipient with chunks of 64 KiB needs 67,000 bytes of it.
    ///
    /// # Errors
    ///
    /// [`MessageError::Truncated`] if `start` is too short; [`MessageError::Unsupported`] for a
    /// message that has to be read as a whole: version 1, partial lengths, signed or compressed
    /// content; errors of the message and of the keys.
    pub fn new(start: &[u8], message_bytes: u64, secrets: &mut Secrets) -> Result<Self> {
        let mut wrapped = Wrapped::default();
        let (tag, length, body) = read_wrapped(start, &mut wrapped)?;
        let Length::Definite(body_bytes) = length else {
            return Err(whole("partial lengths"));
        };
        let before = (start.len() - body.len()) as u64;
        match (before + body_bytes).cmp(&message_bytes) {
            std::cmp::Ordering::Less => {
                return Err(MessageError::Malformed("data follows the encrypted data"));
            }
            std::cmp::Ordering::Equal => {}
            std::cmp::Ordering::Greater => {
                return Err(MessageError::Truncated("the input ends within a packet"));
            }
        }
        let mut stream = body;
        let sealed = Sealed::read(tag, &mut stream)?;
        let fields = (body.len() - stream.len()) as u64;
        let Opening { found, chunks, .. } = sealed.open(
            secrets,
            &mut Remembered::default(),
            wrapped,
            stream,
            ReadLimits::default().argon2_mib,
        )?;
        let Some(chunks) = chunks else { return Err(whole("version 1 of the encrypted packet")) };
        let plain = body_bytes.checked_sub(fields).and_then(|bytes| chunks.plain_bytes(bytes));
        let Some(plain) = plain else {
            return Err(MessageError::Truncated("the input ends within an authentication tag"));
        };
        let mut opener = Self {
            chunks,
            profile: sealed.profile(),
            by: found.by,
            stream: before + fields,
            plain,
            content: 0,
        };
        let header = opener.open(0..HEADER_BYTES_MAX.min(plain), start, 0)?;
        opener.content = literal_header(&header, plain)?;
        Ok(opener)
    }

    /// The format of the encrypted packet.
    #[must_use]
    pub fn profile(&self) -> Profile {
        self.profile
    }

    /// The secret that gave the session key.
    #[must_use]
    pub fn by(&self) -> &OpenedBy {
        &self.by
    }

    /// The length of the content in bytes, as the headers say.
    #[must_use]
    pub fn content_bytes(&self) -> u64 {
        self.plain - self.content
    }

    /// The range of the message that is needed to decrypt a range of the content.
    ///
    /// # Panics
    ///
    /// If the range goes beyond the content, or is backwards.
    #[must_use]
    pub fn needed(&self, range: &Range<u64>) -> Range<u64> {
        assert!(
            range.start <= range.end && range.end <= self.content_bytes(),
            "it is in the content"
        );
        self.sealed(&(range.start + self.content..range.end + self.content))
    }

    /// The range of the message with a range of the plaintext.
    fn sealed(&self, plain: &Range<u64>) -> Range<u64> {
        let (_, sealed) = self.chunks.covering(plain);
        let end = self.stream + self.chunks.sealed_bytes(self.plain) - TAG_BYTES as u64;
        (self.stream + sealed.start).min(end)..(self.stream + sealed.end).min(end)
    }

    /// Decrypts a range of the content from the bytes of the message that [`Self::needed`] names.
    ///
    /// # Errors
    ///
    /// [`MessageError::Tampered`] if a chunk is not authentic; [`MessageError::Truncated`] if
    /// `sealed` has another length.
    ///
    /// # Panics
    ///
    /// As [`Self::needed`].
    pub fn open_range(&self, range: &Range<u64>, sealed: &[u8]) -> Result<Vec<u8>> {
        let needed = self.needed(range);
        if sealed.len() as u64 != needed.end - needed.start {
            return Err(MessageError::Truncated("the input ends within a packet"));
        }
        self.open_plain(&(range.start + self.content..range.end + self.content), sealed)
    }

    /// Decrypts the whole content of the whole message, and checks that nothing is missing at the
    /// end.
    ///
    /// # Errors
    ///
    /// [`MessageError::Tampered`]; [`MessageError::Truncated`] if the message has another length
    /// than the one that was given to [`Self::new`].
    pub fn open_whole(&self, message: &[u8]) -> Result<Vec<u8>> {
        let end = self.stream + self.chunks.sealed_bytes(self.plain);
        let stream = usize::try_from(self.stream).ok().and_then(|start| message.get(start..));
        let stream = stream.and_then(<[u8]>::split_last_chunk::<TAG_BYTES>);
        let Some((chunks, tag)) = stream.filter(|_| message.len() as u64 == end) else {
            return Err(MessageError::Truncated("the input ends within a packet"));
        };
        self.chunks.check_end(self.plain, tag)?;
        let at = |byte: u64| usize::try_from(byte).unwrap_or(usize::MAX);
        self.chunks.open_range(0, chunks, at(self.content)..at(self.plain))
    }

    /// Decrypts a range of the plaintext from `message`, a part of the message from the byte `from`
    /// on.
    fn open(&self, plain: Range<u64>, message: &[u8], from: u64) -> Result<Vec<u8>> {
        let sealed = self.sealed(&plain);
        let at = |byte: u64| usize::try_from(byte - from).unwrap_or(usize::MAX);
        let Some(chunks) = message.get(at(sealed.start)..at(sealed.end)) else {
            return Err(MessageError::Truncated("the first chunk is not complete"));
        };
        self.open_plain(&plain, chunks)
    }

    /// Decrypts a range of the plaintext from the chunks around it.
    fn open_plain(&self, plain: &Range<u64>, chunks: &[u8]) -> Result<Vec<u8>> {
        let (numbers, _) = self.chunks.covering(plain);
        let before = numbers.start * self.chunks.chunk_bytes();
        let at = |byte: u64| usize::try_from(byte - before).unwrap_or(usize::MAX);
        self.chunks.open_range(numbers.start, chunks, at(plain.start)..at(plain.end))
    }
}

fn whole(what: &str) -> MessageError {
    MessageError::Unsupported(format!("{what}, and cannot be read in parts"))
}

/// The length of the header of a literal packet that is all of the `plain` bytes.
fn literal_header(start: &[u8], plain: u64) -> Result<u64> {
    let mut rest = start;
    let short = || MessageError::Malformed("the content is too short for a literal packet");
    let Some((found, length)) = framing::read_header(&mut rest)? else { return Err(short()) };
    let body = match (found, length) {
        (tag::LITERAL, Length::Definite(body)) => body,
        (tag::LITERAL, _) => return Err(whole("partial lengths")),
        _ => return Err(whole("content that is signed or compressed")),
    };
    let header = (start.len() - rest.len()) as u64;
    let mut fields = [0; 2];
    rest.read_exact(&mut fields).map_err(|_| short())?;
    if fields[0] != b'b' {
        return Err(whole("text"));
    }
    let fields = 2 + u64::from(fields[1]) + 4;
    if header + body != plain || fields > body {
        return Err(MessageError::Malformed("the content is not one literal packet"));
    }
    Ok(header + fields)
}

/// The offset of the content of a message that is one literal packet of definite length, without
/// encryption. `start` is the start of a message of `message_bytes` bytes.
///
/// # Errors
///
/// [`MessageError::Unsupported`] or [`MessageError::Malformed`] for every other message.
pub fn literal_start(start: &[u8], message_bytes: u64) -> Result<u64> {
    literal_header(start, message_bytes)
}
