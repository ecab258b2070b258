//! Headers and bodies (RFC 9580, section 4.2) of packets of any length.

use std::io::{self, IoSlice, Read, Write};

use crate::error::{MessageError, Result};

/// Packet types (RFC 9580, section 5) that occur in messages.
pub(crate) mod tag {
    pub(crate) const PKESK: u8 = 1;
    pub(crate) const SIGNATURE: u8 = 2;
    pub(crate) const SKESK: u8 = 3;
    pub(crate) const ONE_PASS: u8 = 4;
    pub(crate) const COMPRESSED: u8 = 8;
    pub(crate) const SED: u8 = 9;
    pub(crate) const MARKER: u8 = 10;
    pub(crate) const LITERAL: u8 = 11;
    pub(crate) const SEIPD: u8 = 18;
    pub(crate) const MDC: u8 = 19;
    /// The AEAD encrypted data packet of GnuPG 2.3 and later (draft-koch-librepgp, section 5.16).
    pub(crate) const AEAD: u8 = 20;
    pub(crate) const PADDING: u8 = 21;
}

/// The length of a packet body as its header gives it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Length {
    /// A body, or last part, of this many bytes.
    Definite(u64),
    /// A part of this many bytes, with another length after it.
    Partial(u64),
    /// A body up to the end of the input; old packet format only.
    Indeterminate,
}

/// The smallest first partial length (RFC 9580, section 4.2.1.4).
const PARTIAL_MIN: usize = 512;

/// Appends the header of a packet with a body of `bytes` bytes.
pub(crate) fn write_header(out: &mut Vec<u8>, tag: u8, bytes: u64) -> Result<()> {
    out.push(0xc0 | tag);
    write_length(out, bytes)
}

/// Appends a packet.
pub(crate) fn write_packet(out: &mut Vec<u8>, tag: u8, body: &[u8]) -> Result<()> {
    write_header(out, tag, body.len() as u64)?;
    out.extend_from_slice(body);
    Ok(())
}

/// The number of bytes that encode a definite length.
fn write_length(out: &mut Vec<u8>, bytes: u64) -> Result<()> {
    match u32::try_from(bytes) {
        Ok(bytes @ 0..192) => out.push(bytes.to_be_bytes()[3]),
        Ok(bytes @ 192..8384) => {
            let [_, _, high, low] = (bytes - 192).to_be_bytes();
            out.extend([high + 192, low]);
        }
        Ok(bytes) => {
            out.push(0xff);
            out.extend(bytes.to_be_bytes());
        }
        Err(_) => {
            return Err(MessageError::TooLarge {
                what: "bytes in a packet of definite length",
                limit: u64::from(u32::MAX),
            });
        }
    }
    Ok(())
}

/// Whether a body of `bytes` bytes can have a definite length.
pub(crate) fn is_definite(bytes: u64) -> bool {
    u32::try_from(bytes).is_ok()
}

/// Reads `N` bytes; `None` if the input has ended before the first of them.
fn bytes<const N: usize>(input: &mut impl Read) -> Result<[u8; N]> {
    let mut bytes = [0; N];
    input.read_exact(&mut bytes).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => {
            MessageError::Truncated("the input ends within a packet header")
        }
        _ => MessageError::read(error),
    })?;
    Ok(bytes)
}

/// Reads a packet header: type and length; `None` at the end of the input.
pub(crate) fn read_header(input: &mut impl Read) -> Result<Option<(u8, Length)>> {
    let mut first = [0];
    if read_full(input, &mut first)? == 0 {
        return Ok(None);
    }
    let [first] = first;
    if first & 0x80 == 0 {
        return Err(MessageError::Malformed("a packet does not start with a packet header"));
    }
    if first & 0x40 != 0 {
        return Ok(Some((first & 0x3f, read_length(input)?)));
    }
    let length = match first & 3 {
        0 => Length::Definite(u64::from(bytes::<1>(input)?[0])),
        1 => Length::Definite(u64::from(u16::from_be_bytes(bytes(input)?))),
        2 => Length::Definite(u64::from(u32::from_be_bytes(bytes(input)?))),
        _ => Length::Indeterminate,
    };
    Ok(Some((first >> 2 & 0xf, length)))
}

fn read_length(input: &mut impl Read) -> Result<Length> {
    let [first] = bytes(input)?;
    Ok(match first {
        0..192 => Length::Definite(u64::from(first)),
        192..224 => {
            let [second] = bytes(input)?;
            Length::Definite(((u64::from(first) - 192) << 8) + u64::from(second) + 192)
        }
        224..255 => Length::Partial(1 << (first & 0x1f)),
        255 => Length::Definite(u64::from(u32::from_be_bytes(bytes(input)?))),
    })
}

/// Fills `buf`, or less of it if the input ends.
pub(crate) fn read_full(input: &mut impl Read, buf: &mut [u8]) -> Result<usize> {
    let mut filled = 0;
    while filled < buf.len() {
        match input.read(&mut buf[filled..]) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(MessageError::read(error)),
        }
    }
    Ok(filled)
}

/// Fills `buffer` behind its first `start` bytes with up to `bytes` from `input`, and cuts it off
/// there. Returns the number of bytes that were read: fewer at the end of the input. The buffer
/// grows with what is read, because a short input is not worth a large one; what it has already is
/// used again.
pub(crate) fn read_behind(
    input: &mut impl Read,
    buffer: &mut Vec<u8>,
    start: usize,
    bytes: usize,
) -> Result<usize> {
    const LEAST: usize = 4096;
    let mut filled = start;
    while filled < start + bytes {
        let size = (filled * 4).max(buffer.len());
        buffer.resize(size.clamp(start + LEAST.min(bytes), start + bytes), 0);
        filled += read_full(input, &mut buffer[filled..])?;
        if filled < buffer.len() {
            break;
        }
    }
    buffer.truncate(filled);
    Ok(filled - start)
}

/// A reader of a packet body without its partial lengths. An input that ends early is an error.
pub(crate) struct Body<R> {
    input: R,
    left: u64,
    last: bool,
    indeterminate: bool,
}

impl<R: Read> Body<R> {
    /// A reader of the body after a header with this length.
    pub(crate) fn new(input: R, length: Length) -> Self {
        let (left, last) = match length {
            Length::Definite(bytes) => (bytes, true),
            Length::Partial(bytes) => (bytes, false),
            Length::Indeterminate => (u64::MAX, true),
        };
        Self { input, left, last, indeterminate: length == Length::Indeterminate }
    }

    /// Reads a whole body of at most `limit` bytes.
    pub(crate) fn read_small(&mut self, limit: u64, what: &'static str) -> Result<Vec<u8>> {
        let mut body = Vec::new();
        self.take(limit + 1).read_to_end(&mut body).map_err(MessageError::read)?;
        if body.len() as u64 > limit {
            return Err(MessageError::TooLarge { what, limit });
        }
        Ok(body)
    }

    /// Returns the input, positioned after the part of the body already read.
    pub(crate) fn into_inner(self) -> R {
        self.input
    }
}

impl<R: Read> Read for Body<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        while self.left == 0 && !self.last {
            (self.left, self.last) = match read_length(&mut self.input)? {
                Length::Definite(bytes) => (bytes, true),
                Length::Partial(bytes) => (bytes, false),
                Length::Indeterminate => (0, true),
            };
        }
        if self.left == 0 || buf.is_empty() {
            return Ok(0);
        }
        let wanted = buf.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let read = self.input.read(&mut buf[..wanted])?;
        if self.indeterminate {
            return Ok(read);
        }
        if read == 0 {
            return Err(MessageError::Truncated("the input ends within a packet").into());
        }
        self.left -= read as u64;
        Ok(read)
    }
}

/// A writer for the body of a packet of unknown length, in parts whose lengths are powers of two.
///
/// Each write becomes as few parts as possible, directly from the caller's memory. Bytes too few
/// for a part wait for the next write. [`Self::finish`] writes the last part.
pub(crate) struct PartialWriter<W> {
    output: W,
    /// Fewer than [`PARTIAL_MIN`] bytes.
    rest: Vec<u8>,
}

impl<W: Write> PartialWriter<W> {
    /// Starts a packet.
    pub(crate) fn new(mut output: W, tag: u8) -> Result<Self> {
        output.write_all(&[0xc0 | tag]).map_err(MessageError::write)?;
        Ok(Self { output, rest: Vec::with_capacity(PARTIAL_MIN) })
    }

    /// Writes the last part and returns the output.
    pub(crate) fn finish(mut self) -> Result<W> {
        let mut last = Vec::with_capacity(self.rest.len() + 2);
        write_length(&mut last, self.rest.len() as u64)?;
        last.append(&mut self.rest);
        self.output.write_all(&last).map_err(MessageError::write)?;
        Ok(self.output)
    }
}

impl<W: Write> Write for PartialWriter<W> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let mut left = data;
        loop {
            let total = self.rest.len() + left.len();
            if total < PARTIAL_MIN {
                self.rest.extend_from_slice(left);
                return Ok(data.len());
            }
            let log = total.ilog2().min(30);
            let (now, behind) = left.split_at((1 << log) - self.rest.len());
            let header = [0xe0 | u8::try_from(log).unwrap_or_default()];
            write_all_of(&mut self.output, [&header, &self.rest, now])?;
            self.rest.clear();
            left = behind;
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

fn write_all_of(output: &mut impl Write, slices: [&[u8]; 3]) -> io::Result<()> {
    let mut slices = slices.map(IoSlice::new);
    let mut slices = &mut slices[..];
    IoSlice::advance_slices(&mut slices, 0);
    while !slices.is_empty() {
        match output.write_vectored(slices) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => IoSlice::advance_slices(&mut slices, n),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The length of a part of a [`PartialReader`]: two to the power of this many bytes.
const PART_LOG: u8 = 16;

/// A reader that produces a packet of unknown length: header, parts, last part.
pub(crate) struct PartialReader<R> {
    input: R,
    /// The header of the current part and its content.
    part: Vec<u8>,
    at: usize,
    ended: bool,
    tag: Option<u8>,
}

impl<R: Read> PartialReader<R> {
    /// A packet with `input` as its body.
    pub(crate) fn new(input: R, tag: u8) -> Self {
        Self { input, part: Vec::new(), at: 0, ended: false, tag: Some(tag) }
    }

    fn next_part(&mut self) -> Result<()> {
        /// Room in front of the content for a packet type and the longest length.
        const ROOM: usize = 6;
        self.part.resize(ROOM + (1 << PART_LOG), 0);
        let filled = read_full(&mut self.input, &mut self.part[ROOM..])?;
        let mut header: Vec<u8> = self.tag.take().map(|tag| 0xc0 | tag).into_iter().collect();
        if filled == 1 << PART_LOG {
            header.push(0xe0 | PART_LOG);
        } else {
            self.ended = true;
            write_length(&mut header, filled as u64)?;
        }
        self.at = ROOM - header.len();
        self.part[self.at..ROOM].copy_from_slice(&header);
        self.part.truncate(ROOM + filled);
        Ok(())
    }
}

impl<R: Read> Read for PartialReader<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.at == self.part.len() && !self.ended {
            self.next_part()?;
        }
        let read = (&self.part[self.at..]).read(buf)?;
        self.at += read;
        Ok(read)
    }
}
