//! The content of a message: a literal packet, signed or not, compressed or not, as one stream to
//! be encrypted or written unencrypted.

use std::io::{self, Cursor, Read};

use crate::compression::Compression;
use crate::error::{MessageError, Result};
use crate::framing::{self, PartialReader, tag};
use crate::lines::CanonicalReader;
use crate::sign::{DocumentHasher, SigningKey};

/// The metadata of the content in a literal packet (RFC 9580, section 5.9).
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Literal {
    /// The content is UTF-8 text. Its lines end with carriage return and line feed in the message,
    /// and with a line feed outside the message.
    pub text: bool,
    /// The file name, at most 255 bytes; not protected by signatures.
    pub name: Vec<u8>,
    /// The date in seconds since 1970, 0 for none; not protected by signatures.
    pub date: u32,
}

impl Literal {
    /// The encoded fields in front of the content.
    fn fields(&self) -> Result<Vec<u8>> {
        let name_bytes = u8::try_from(self.name.len())
            .map_err(|_| MessageError::Usage("a file name in a message has at most 255 bytes"))?;
        let mut fields = vec![if self.text { b'u' } else { b'b' }, name_bytes];
        fields.extend_from_slice(&self.name);
        fields.extend(self.date.to_be_bytes());
        Ok(fields)
    }
}

/// A stream with its length, if the length is known.
pub(crate) struct Content<'a> {
    pub(crate) stream: Box<dyn Read + Send + 'a>,
    pub(crate) bytes: Option<u64>,
}

/// The bytes before `size` bytes of data in a literal packet of definite length.
pub(crate) fn literal_start(size: u64, literal: &Literal) -> Result<Vec<u8>> {
    let fields = literal.fields()?;
    let mut start = Vec::new();
    framing::write_header(&mut start, tag::LITERAL, fields.len() as u64 + size)?;
    start.extend(fields);
    Ok(start)
}

/// A literal packet with the data of `data`; `size` is the length of the data, if it is known.
fn literal<'a>(
    data: Box<dyn Read + Send + 'a>,
    size: Option<u64>,
    literal: &Literal,
) -> Result<Content<'a>> {
    let fields = literal.fields()?;
    if let Some(size) = size
        && framing::is_definite(size + fields.len() as u64)
    {
        let start = literal_start(size, literal)?;
        let bytes = start.len() as u64 + size;
        let data = Exactly { data, left: size };
        return Ok(Content {
            stream: Box::new(Cursor::new(start).chain(data)),
            bytes: Some(bytes),
        });
    }
    let body = Cursor::new(fields).chain(data);
    Ok(Content { stream: Box::new(PartialReader::new(body, tag::LITERAL)), bytes: None })
}

/// An input whose length was announced, and must be exactly that.
struct Exactly<R> {
    data: R,
    left: u64,
}

impl<R: Read> Read for Exactly<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let wanted = buf.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let read = self.data.read(&mut buf[..wanted])?;
        if read == 0 && wanted > 0 {
            let why = "the input became shorter while it was read";
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, why));
        }
        self.left -= read as u64;
        Ok(read)
    }
}

/// The whole content, with signatures and compression as wanted.
pub(crate) fn content<'a>(
    data: impl Read + Send + 'a,
    size: Option<u64>,
    how: &Literal,
    signers: &'a mut [SigningKey],
    now: u32,
    compression: Compression,
) -> Result<Content<'a>> {
    let (data, size): (Box<dyn Read + Send + 'a>, _) = if how.text {
        (Box::new(CanonicalReader::new(data)), None)
    } else {
        (Box::new(data), size)
    };
    let (compression, data) = compression.choose(data)?;
    let plain = if signers.is_empty() {
        literal(data, size, how)?
    } else {
        signed(data, size, how, signers, now)?
    };
    Ok(match compression {
        Compression::None => plain,
        _ => Content { stream: compression.packet(plain.stream), bytes: None },
    })
}

/// One-pass signature packets, the literal packet, then the signature packets (RFC 9580, section
/// 10.3).
fn signed<'a>(
    data: Box<dyn Read + Send + 'a>,
    size: Option<u64>,
    how: &Literal,
    signers: &'a mut [SigningKey],
    now: u32,
) -> Result<Content<'a>> {
    let mut one_pass = Vec::new();
    let mut hashers = Vec::with_capacity(signers.len());
    let count = signers.len();
    for (at, signer) in signers.iter().enumerate() {
        let hasher = signer.begin(how.text)?;
        let body = signer.one_pass(&hasher, at + 1 == count);
        framing::write_packet(&mut one_pass, tag::ONE_PASS, &body)?;
        hashers.push(hasher);
    }
    // The hashers see the data on its way into the literal packet. At its end they are taken back
    // to make the signatures, in reverse order.
    let shared = std::sync::Arc::new(parking_lot::Mutex::new(hashers));
    let tee = Tee { data, hashers: std::sync::Arc::clone(&shared) };
    let literal = literal(Box::new(tee), size, how)?;
    let signatures = Signatures { hashers: shared, signers, now, made: None };
    let stream = Cursor::new(one_pass).chain(literal.stream).chain(signatures);
    Ok(Content { stream: Box::new(stream), bytes: None })
}

type Shared = std::sync::Arc<parking_lot::Mutex<Vec<DocumentHasher>>>;

struct Tee<R> {
    data: R,
    hashers: Shared,
}

impl<R: Read> Read for Tee<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let read = self.data.read(buf)?;
        self.hashers.lock().iter_mut().for_each(|hasher| hasher.update(&buf[..read]));
        Ok(read)
    }
}

/// The signatures, made when they are read: after the data.
struct Signatures<'a> {
    hashers: Shared,
    signers: &'a mut [SigningKey],
    now: u32,
    made: Option<Cursor<Vec<u8>>>,
}

impl Read for Signatures<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.made.is_none() {
            let mut packets = Vec::new();
            let hashers = std::mem::take(&mut *self.hashers.lock());
            for (signer, hasher) in self.signers.iter_mut().zip(hashers).rev() {
                let body = signer.finish(hasher, self.now)?;
                framing::write_packet(&mut packets, tag::SIGNATURE, &body)?;
            }
            self.made = Some(Cursor::new(packets));
        }
        self.made.as_mut().map_or(Ok(0), |made| made.read(buf))
    }
}
