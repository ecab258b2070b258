//! Headers and bodies of packets (RFC 9580, section 4.2), as far as GnuPG 2.2 accepts them.

use std::io::{self, Read};

/// Types of packets (RFC 9580, section 5).
pub(crate) mod tag {
    /// A session key that is encrypted to a key.
    pub(crate) const WRAPPED: u8 = 1;
    pub(crate) const SIGNATURE: u8 = 2;
    pub(crate) const ONE_PASS: u8 = 4;
    pub(crate) const COMPRESSED: u8 = 8;
    pub(crate) const MARKER: u8 = 10;
    pub(crate) const LITERAL: u8 = 11;
    /// A session key that is encrypted to a passphrase.
    pub(crate) const STRETCHED: u8 = 3;
    /// Encrypted data with a check of its integrity.
    pub(crate) const ENCRYPTED: u8 = 18;
    pub(crate) const MDC: u8 = 19;
    /// GnuPG uses it inside, and accepts none from outside.
    pub(crate) const CONTROL: u8 = 63;
}

/// The length of a packet body as its header gives it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Length {
    /// A body of this many bytes.
    Definite(u64),
    /// A part of this many bytes, with another length after it.
    Partial(u64),
    /// A body up to the end of the input.
    Indeterminate,
}

/// What stands where a packet should start.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum Header {
    /// A packet of this type.
    Packet(u8, Length),
    /// The end of the input.
    End,
    /// No packet, for this reason.
    Invalid(String),
}

/// The packet types whose length may be unknown at their start.
fn is_streamed(tag: u8) -> bool {
    matches!(tag, 8 | 9 | 11 | 18 | 20)
}

/// The next byte; `None` at the end of the input.
pub(crate) fn byte(input: &mut (impl Read + ?Sized)) -> io::Result<Option<u8>> {
    let mut byte = [0];
    loop {
        match input.read(&mut byte) {
            Ok(0) => return Ok(None),
            Ok(_) => return Ok(Some(byte[0])),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// A big-endian number of `bytes` bytes; `None` if the input ends before.
fn number(input: &mut (impl Read + ?Sized), bytes: usize) -> io::Result<Option<u64>> {
    let mut all = 0;
    for _ in 0..bytes {
        let Some(byte) = byte(input)? else { return Ok(None) };
        all = all << 8 | u64::from(byte);
    }
    Ok(Some(all))
}

/// Reads a packet header.
///
/// # Errors
///
/// Errors of reading.
pub(crate) fn header(input: &mut (impl Read + ?Sized)) -> io::Result<Header> {
    let invalid = |why: &str| Ok(Header::Invalid(format!("[don't know]: {why}")));
    let Some(first) = byte(input)? else { return Ok(Header::End) };
    if first & 0x80 == 0 {
        return invalid(&format!("invalid packet (ctb={first:02x})"));
    }
    if first & 0x40 == 0 {
        let tag = first >> 2 & 0xf;
        let bytes = match first & 3 {
            3 if matches!(tag, 8 | 9 | 11) => {
                return Ok(Header::Packet(tag, Length::Indeterminate));
            }
            3 => {
                return invalid(&format!("indeterminate length for invalid packet type {tag}"));
            }
            log => 1 << log,
        };
        let Some(length) = number(input, bytes)? else { return invalid("length invalid") };
        return Ok(Header::Packet(tag, Length::Definite(length)));
    }
    let tag = first & 0x3f;
    let Some(first) = byte(input)? else { return invalid("1st length byte missing") };
    let length = match first {
        0..192 => u64::from(first),
        192..224 => {
            let Some(second) = byte(input)? else { return invalid("2nd length byte missing") };
            (u64::from(first) - 192) * 256 + u64::from(second) + 192
        }
        255 => {
            let Some(length) = number(input, 4)? else { return invalid("4 byte length invalid") };
            length
        }
        _ if is_streamed(tag) => {
            return Ok(Header::Packet(tag, Length::Partial(1 << (first & 31))));
        }
        _ => return invalid(&format!("partial length invalid for packet type {tag}")),
    };
    if tag == 63 && length == u64::from(u32::MAX) {
        return invalid("garbled packet detected");
    }
    Ok(Header::Packet(tag, Length::Definite(length)))
}

/// A reader of a packet body without its partial lengths.
pub(crate) struct Body<'a> {
    input: &'a mut dyn Read,
    left: u64,
    last: bool,
    indeterminate: bool,
    /// The input has ended within the body.
    truncated: bool,
}

impl<'a> Body<'a> {
    /// A reader of the body after a header with this length.
    pub(crate) fn new(input: &'a mut dyn Read, length: Length) -> Self {
        let (left, last) = match length {
            Length::Definite(bytes) => (bytes, true),
            Length::Partial(bytes) => (bytes, false),
            Length::Indeterminate => (u64::MAX, true),
        };
        let indeterminate = length == Length::Indeterminate;
        Self { input, left, last, indeterminate, truncated: false }
    }

    /// Whether the input has ended within the body.
    pub(crate) fn is_truncated(&self) -> bool {
        self.truncated
    }

    /// The number of bytes left of a body of definite length.
    pub(crate) fn left(&self) -> u64 {
        self.left
    }

    /// Reads all that is left, and keeps nothing.
    pub(crate) fn skip(&mut self) -> io::Result<()> {
        io::copy(self, &mut io::sink()).map(drop)
    }

    /// Reads at most `limit` bytes of the body, and skips the rest.
    pub(crate) fn read_small(&mut self, limit: u64) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        self.take(limit).read_to_end(&mut body)?;
        self.skip()?;
        Ok(body)
    }

    /// Reads the length of the next part.
    fn next_part(&mut self) -> io::Result<()> {
        let Some(first) = byte(self.input)? else {
            (self.truncated, self.last) = (true, true);
            return Ok(());
        };
        let length = match first {
            0..192 => Some(u64::from(first)),
            192..224 => byte(self.input)?
                .map(|second| (u64::from(first) - 192) * 256 + u64::from(second) + 192),
            255 => number(self.input, 4)?,
            _ => {
                self.left = 1 << (first & 31);
                return Ok(());
            }
        };
        self.last = true;
        self.truncated = length.is_none();
        self.left = length.unwrap_or(0);
        Ok(())
    }
}

impl Read for Body<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.left == 0 && !self.last {
            self.next_part()?;
        }
        if self.left == 0 || out.is_empty() || self.truncated {
            return Ok(0);
        }
        let wanted = out.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let read = self.input.read(&mut out[..wanted])?;
        if self.indeterminate {
            return Ok(read);
        }
        self.truncated = read == 0;
        self.left -= read as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_in_parts_is_read_as_one() {
        let mut input = &[&[0xe1_u8][..], b"ab", &[0xe0], b"c", &[2], b"de", b"rest"].concat()[1..];
        let mut out = Vec::new();
        let mut body = Body::new(&mut input, Length::Partial(2));
        body.read_to_end(&mut out).unwrap();
        assert!(!body.is_truncated());
        assert_eq!((&out[..], input), (&b"abcde"[..], &b"rest"[..]));
    }

    #[test]
    fn a_body_that_ends_early_is_truncated() {
        for length in [Length::Definite(9), Length::Partial(8), Length::Partial(4)] {
            let mut input = &b"abcd"[..];
            let mut body = Body::new(&mut input, length);
            assert_eq!(body.read_small(100).unwrap(), b"abcd");
            assert!(body.is_truncated(), "{length:?}");
        }
    }

    #[test]
    fn headers_are_those_that_gnupg_reads() {
        let read = |mut bytes: &[u8]| header(&mut bytes).unwrap();
        assert_eq!(read(&[]), Header::End);
        assert_eq!(read(&[0x89, 1, 2]), Header::Packet(2, Length::Definite(258)));
        assert_eq!(read(&[0xa3]), Header::Packet(8, Length::Indeterminate));
        assert_eq!(read(&[0xc2, 0xff, 0, 1, 0, 0]), Header::Packet(2, Length::Definite(1 << 16)));
        assert_eq!(read(&[0xcb, 0xe2]), Header::Packet(11, Length::Partial(4)));
        for bytes in [&[0x41][..], &[0x8b], &[0xc2, 0xe2], &[0xc2], &[0xc2, 200], &[0x89, 1]] {
            assert!(matches!(read(bytes), Header::Invalid(_)), "{bytes:x?}");
        }
    }
}
