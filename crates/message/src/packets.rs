//! An incremental parser for the packets inside a message: literal data, signatures and one-pass
//! signatures, compressed data and the packets in it.
//!
//! The parser is a state machine without a stream of its own. Decrypted data arrives in pieces, in
//! order, from changing threads.

use std::io::{self, Write};

use crate::content::Literal;
use crate::error::{Cost, MessageError, Result};
use crate::framing::{self, Length, tag};

/// Limits on the size of the content and on the cost of passphrases. Programs set the fields of
/// [`Self::default`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ReadLimits {
    /// The maximum ratio of content to message, for content beyond [`Self::expansion_free_bytes`].
    /// DEFLATE expands one byte to at most 1,032; bzip2 expands zeros more.
    pub expansion: u64,
    /// The number of bytes of content that is always allowed.
    pub expansion_free_bytes: u64,
    /// The maximum cost of trying passphrases that are stretched with Argon2: MiB of memory times
    /// passes, over all packets and all tries of a message. One try may use at most half of this
    /// number as its memory in MiB.
    pub argon2_mib: u64,
}

impl Default for ReadLimits {
    fn default() -> Self {
        // The Argon2 limit allows two passes over 2 GiB, the most that RFC 9106 recommends.
        Self { expansion: 1100, expansion_free_bytes: 256 << 20, argon2_mib: 4096 }
    }
}

/// The maximum nesting of compressed packets.
const DEPTH_MAX: usize = 3;
/// The maximum length of a signature packet, in bytes.
const SIGNATURE_BYTES_MAX: usize = 64 << 10;
/// The number of bytes decompressed at once.
const PIECE_BYTES: usize = 64 << 10;

/// The consumer of the parts of a message.
pub(crate) trait Document: Send {
    /// Receives a one-pass signature packet.
    fn one_pass(&mut self, body: &[u8]) -> Result<()>;
    /// Receives a signature packet, before or after the data.
    fn signature(&mut self, body: &[u8]) -> Result<()>;
    /// Receives the start of the literal packet.
    fn literal(&mut self, literal: Literal) -> Result<()>;
    /// Receives a piece of the literal data.
    fn data(&mut self, data: &[u8]) -> Result<()>;
    /// Receives the end of the literal packet.
    fn end(&mut self) -> Result<()>;
}

enum State {
    /// Bytes of an incomplete packet header.
    Header(Vec<u8>),
    /// Inside the body of a packet: the bytes left of the current part.
    Body { packet: Packet, left: u64, last: bool },
    /// Bytes of the length of the next part.
    Part { packet: Packet, length: Vec<u8> },
}

/// A packet whose body is arriving.
enum Packet {
    /// Fields before the literal data.
    LiteralFields(Vec<u8>),
    LiteralData,
    /// Compressed data whose algorithm is not known yet.
    Compressed,
    Decompressed(Box<Decompressor>),
    /// A signature or one-pass signature packet.
    Small {
        tag: u8,
        body: Vec<u8>,
    },
    Skipped,
}

struct Decompressor {
    codec: Codec,
    ended: bool,
    inner: Packets,
    piece: Vec<u8>,
}

enum Codec {
    Stored,
    Flate(flate2::Decompress),
    Bzip2(bzip2::Decompress),
}

/// The state of the parser.
struct Packets {
    state: State,
    depth: usize,
    /// The content has begun: literal or compressed data. Markers and padding do not count.
    content: bool,
}

/// The expansion of a message by its compressed packets so far, over all levels of nesting.
struct Budget {
    limits: ReadLimits,
    /// The bytes of the message.
    taken: u64,
    /// The bytes decompressed from its compressed packets.
    given: u64,
}

impl Budget {
    /// Counts bytes decompressed from a compressed packet; fails beyond the limit.
    fn give(&mut self, bytes: usize) -> Result<()> {
        self.given += bytes as u64;
        let ReadLimits { expansion, expansion_free_bytes, .. } = self.limits;
        if self.given > expansion_free_bytes && self.given / expansion.max(1) > self.taken {
            return Err(MessageError::OverLimit { what: Cost::Expansion, limit: expansion });
        }
        Ok(())
    }
}

impl Packets {
    fn new(depth: usize) -> Self {
        Self { state: State::Header(Vec::new()), depth, content: false }
    }

    /// Parses the next bytes.
    fn push(&mut self, mut data: &[u8], to: &mut dyn Document, budget: &mut Budget) -> Result<()> {
        while !data.is_empty() {
            match &mut self.state {
                State::Header(header) => {
                    header.push(data[0]);
                    data = &data[1..];
                    if let Some((tag, length)) = complete(framing::read_header(&mut &header[..]))? {
                        let (left, last) = part(length);
                        self.content |= matches!(tag, tag::LITERAL | tag::COMPRESSED);
                        self.state = State::Body { packet: Packet::new(tag)?, left, last };
                        self.end_part(to)?;
                    }
                }
                State::Part { length, .. } => {
                    length.push(data[0]);
                    data = &data[1..];
                    // Parse the length like that of a packet header in the same form, whatever the
                    // packet type.
                    let header = [&[0xc0], &length[..]].concat();
                    if let Some((_, length)) = complete(framing::read_header(&mut &header[..]))? {
                        let (left, last) = part(length);
                        let state = std::mem::replace(&mut self.state, State::Header(Vec::new()));
                        if let State::Part { packet, .. } = state {
                            self.state = State::Body { packet, left, last };
                        }
                        self.end_part(to)?;
                    }
                }
                State::Body { packet, left, .. } => {
                    let now = data.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                    if *left != u64::MAX {
                        *left -= now as u64;
                    }
                    packet.push(&data[..now], to, self.depth, budget)?;
                    data = &data[now..];
                    self.end_part(to)?;
                }
            }
        }
        Ok(())
    }

    /// Handles the end of a part of a body.
    fn end_part(&mut self, to: &mut dyn Document) -> Result<()> {
        if !matches!(self.state, State::Body { left: 0, .. }) {
            return Ok(());
        }
        match std::mem::replace(&mut self.state, State::Header(Vec::new())) {
            State::Body { packet, last: true, .. } => packet.finish(to),
            State::Body { packet, .. } => {
                self.state = State::Part { packet, length: Vec::new() };
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Handles the end of the input.
    fn finish(&mut self, to: &mut dyn Document) -> Result<()> {
        match std::mem::replace(&mut self.state, State::Header(Vec::new())) {
            State::Header(header) if header.is_empty() => Ok(()),
            // The body has an indeterminate length.
            State::Body { packet, left: u64::MAX, .. } => packet.finish(to),
            _ => Err(MessageError::Truncated("the input ends within a packet")),
        }
    }
}

fn part(length: Length) -> (u64, bool) {
    match length {
        Length::Definite(bytes) => (bytes, true),
        Length::Partial(bytes) => (bytes, false),
        Length::Indeterminate => (u64::MAX, true),
    }
}

/// `None` if more bytes are needed.
fn complete<T>(read: Result<Option<T>>) -> Result<Option<T>> {
    match read {
        Err(MessageError::Truncated(_)) => Ok(None),
        other => other,
    }
}

impl Packet {
    fn new(tag: u8) -> Result<Self> {
        Ok(match tag {
            tag::LITERAL => Self::LiteralFields(Vec::new()),
            tag::COMPRESSED => Self::Compressed,
            tag::SIGNATURE | tag::ONE_PASS => Self::Small { tag, body: Vec::new() },
            tag::MARKER | tag::PADDING => Self::Skipped,
            tag::PKESK | tag::SKESK | tag::SED | tag::SEIPD | tag::AEAD => {
                return Err(MessageError::Malformed("an encrypted message in another message"));
            }
            // Packet types that implementations must skip (RFC 9580, section 4.3).
            40..=63 => Self::Skipped,
            _ => {
                return Err(MessageError::Malformed("a packet that is not allowed in a message"));
            }
        })
    }

    fn push(
        &mut self,
        mut data: &[u8],
        to: &mut dyn Document,
        depth: usize,
        budget: &mut Budget,
    ) -> Result<()> {
        if let Self::LiteralFields(fields) = self {
            while !data.is_empty() {
                fields.push(data[0]);
                data = &data[1..];
                let [kind, name_bytes, rest @ ..] = &fields[..] else { continue };
                let name_bytes = usize::from(*name_bytes);
                if rest.len() < name_bytes + 4 {
                    continue;
                }
                let (name, date) = rest.split_at(name_bytes);
                let date = u32::from_be_bytes([date[0], date[1], date[2], date[3]]);
                let text = matches!(kind, b't' | b'u');
                to.literal(Literal { text, name: name.to_vec(), date })?;
                *self = Self::LiteralData;
                break;
            }
        }
        if data.is_empty() {
            return Ok(());
        }
        if let Self::Compressed = self {
            let codec = match data[0] {
                0 => Codec::Stored,
                1 => Codec::Flate(flate2::Decompress::new(false)),
                2 => Codec::Flate(flate2::Decompress::new(true)),
                3 => Codec::Bzip2(bzip2::Decompress::new(false)),
                other => {
                    let what = format!("compression algorithm number {other}");
                    return Err(MessageError::Unsupported(what));
                }
            };
            if depth == DEPTH_MAX {
                let limit = DEPTH_MAX as u64;
                return Err(MessageError::TooLarge { what: "levels of compression", limit });
            }
            data = &data[1..];
            *self = Self::Decompressed(Box::new(Decompressor {
                codec,
                ended: false,
                inner: Packets::new(depth + 1),
                piece: vec![0; PIECE_BYTES],
            }));
        }
        match self {
            Self::LiteralData => to.data(data),
            Self::Small { body, .. } => {
                if body.len() + data.len() > SIGNATURE_BYTES_MAX {
                    let limit = SIGNATURE_BYTES_MAX as u64;
                    return Err(MessageError::TooLarge { what: "bytes in a signature", limit });
                }
                body.extend_from_slice(data);
                Ok(())
            }
            Self::Decompressed(decompressor) => decompressor.push(data, to, budget),
            _ => Ok(()),
        }
    }

    fn finish(self, to: &mut dyn Document) -> Result<()> {
        match self {
            Self::LiteralFields(_) => Err(MessageError::Malformed("a literal packet is too short")),
            Self::LiteralData => to.end(),
            Self::Compressed => Err(MessageError::Malformed("a compressed packet is too short")),
            Self::Decompressed(mut decompressor) => {
                if !decompressor.ended && !matches!(decompressor.codec, Codec::Stored) {
                    return Err(MessageError::Truncated("the compressed data are truncated"));
                }
                decompressor.inner.finish(to)?;
                // A compressed packet must contain a message (RFC 9580, section 10.3).
                if !decompressor.inner.content {
                    return Err(MessageError::Malformed("the compressed data contain no message"));
                }
                Ok(())
            }
            Self::Small { tag: tag::SIGNATURE, body } => to.signature(&body),
            Self::Small { body, .. } => to.one_pass(&body),
            Self::Skipped => Ok(()),
        }
    }
}

impl Decompressor {
    fn push(&mut self, mut data: &[u8], to: &mut dyn Document, budget: &mut Budget) -> Result<()> {
        const DAMAGED: MessageError = MessageError::Malformed("the compressed data are damaged");
        loop {
            // Bytes after the end of the compressed stream are padding, as Sequoia 1.x writes it.
            if self.ended {
                return Ok(());
            }
            let (read, made) = match &mut self.codec {
                Codec::Stored => {
                    budget.give(data.len())?;
                    return self.inner.push(data, to, budget);
                }
                Codec::Flate(codec) => {
                    let before = (codec.total_in(), codec.total_out());
                    let status = codec
                        .decompress(data, &mut self.piece, flate2::FlushDecompress::None)
                        .map_err(|_| DAMAGED)?;
                    self.ended = status == flate2::Status::StreamEnd;
                    (codec.total_in() - before.0, codec.total_out() - before.1)
                }
                Codec::Bzip2(codec) => {
                    let before = (codec.total_in(), codec.total_out());
                    let status = codec.decompress(data, &mut self.piece).map_err(|_| DAMAGED)?;
                    self.ended = status == bzip2::Status::StreamEnd;
                    (codec.total_in() - before.0, codec.total_out() - before.1)
                }
            };
            let (read, made) =
                (usize::try_from(read).unwrap_or(usize::MAX), usize::try_from(made).unwrap_or(0));
            budget.give(made)?;
            self.inner.push(&self.piece[..made], to, budget)?;
            data = &data[read..];
            if data.is_empty() && made < self.piece.len() {
                return Ok(());
            }
            if read == 0 && made == 0 && !self.ended {
                return Err(DAMAGED);
            }
        }
    }
}

/// The parser as a writer.
pub(crate) struct PacketWriter<'a, D> {
    packets: Packets,
    budget: Budget,
    document: &'a mut D,
}

impl<'a, D: Document> PacketWriter<'a, D> {
    pub(crate) fn new(document: &'a mut D, limits: ReadLimits) -> Self {
        let budget = Budget { limits, taken: 0, given: 0 };
        Self { packets: Packets::new(0), budget, document }
    }

    /// Handles the end of the input.
    pub(crate) fn finish(mut self) -> Result<()> {
        self.packets.finish(self.document)
    }
}

impl<D: Document> Write for PacketWriter<'_, D> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.budget.taken += data.len() as u64;
        self.packets.push(data, self.document, &mut self.budget)?;
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
