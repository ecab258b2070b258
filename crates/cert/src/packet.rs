//! Packet framing (RFC 9580, section 4.2).
//!
//! Finds the start, the end and the tag of a packet, in either header format. Packet bodies are not
//! read. Written headers are always in the OpenPGP ("new") format.

use crate::error::Reason;
use crate::tag::Tag;

/// The longest packet that is read: 16 MiB, far above any packet of a real certificate.
///
/// A longer packet is refused before any memory is allocated for it.
pub const PACKET_BYTES_MAX: usize = 16 << 20;

/// A packet in a buffer: its tag and its body.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct PacketRef<'a> {
    /// The type of the packet.
    pub tag: Tag,
    /// The bytes after the header.
    pub body: &'a [u8],
}

/// A parsed packet header.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Header {
    pub(crate) tag: Tag,
    /// Bytes of the header itself, 2 to 6.
    pub(crate) len: usize,
    /// Bytes of the body after the header.
    pub(crate) body: usize,
}

impl Header {
    /// Reads the header at the start of `bytes`. `None` if `bytes` is too short to decide.
    pub(crate) fn read(bytes: &[u8]) -> Result<Option<Self>, Reason> {
        let Some(&first) = bytes.first() else { return Ok(None) };
        if first & 0x80 == 0 {
            return Err(Reason::NotAPacket { byte: first });
        }
        let be = |from: usize, n: usize| {
            bytes
                .get(from..from + n)
                .map(|b| b.iter().fold(0usize, |a, &x| a << 8 | usize::from(x)))
        };
        let (tag, len, body) = if first & 0x40 == 0 {
            let tag = Tag(first >> 2 & 0x0f);
            let n = match first & 3 {
                0 => 1,
                1 => 2,
                2 => 4,
                _ => return Err(Reason::IndeterminateLength { tag: tag.0 }),
            };
            (tag, 1 + n, be(1, n))
        } else {
            let tag = Tag(first & 0x3f);
            match bytes.get(1) {
                None => return Ok(None),
                Some(&b @ 0..=191) => (tag, 2, Some(usize::from(b))),
                Some(&b @ 192..=223) => (
                    tag,
                    3,
                    bytes.get(2).map(|&c| ((usize::from(b) - 192) << 8) + usize::from(c) + 192),
                ),
                Some(224..=254) => return Err(Reason::PartialLength { tag: tag.0 }),
                Some(255) => (tag, 6, be(2, 4)),
            }
        };
        if tag.0 == 0 {
            return Err(Reason::NotAPacket { byte: first });
        }
        Ok(body.map(|body| Self { tag, len, body }))
    }
}

/// Appends a packet to `out`, with a header in the OpenPGP format.
pub(crate) fn write(out: &mut Vec<u8>, tag: Tag, body: &[u8]) {
    out.push(0xc0 | tag.0);
    write_length(out, body.len(), 8383);
    out.extend_from_slice(body);
}

/// Appends a length in the OpenPGP format (RFC 9580, section 4.2.1). `two_bytes` is the largest
/// length that two bytes express: fewer for packets than for subpackets, since packets have partial
/// lengths.
#[expect(clippy::cast_possible_truncation, reason = "each arm bounds the value it casts")]
pub(crate) fn write_length(out: &mut Vec<u8>, len: usize, two_bytes: usize) {
    match len {
        0..=191 => out.push(len as u8),
        _ if len <= two_bytes => {
            out.push(((len - 192) >> 8) as u8 + 192);
            out.push((len - 192) as u8);
        }
        _ => {
            out.push(255);
            out.extend_from_slice(&(len as u32).to_be_bytes());
        }
    }
}

/// Iterates over the packets of a buffer. The first one that is not framed correctly is an error,
/// and the last item.
pub fn packets(mut bytes: &[u8]) -> impl Iterator<Item = Result<PacketRef<'_>, Reason>> {
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let header = match Header::read(bytes) {
            Ok(Some(header)) if header.len + header.body <= bytes.len() => header,
            Ok(header) => {
                let tag = header.map_or(0, |h| h.tag.0);
                let wants = header.map_or(0, |h| h.body);
                let has = bytes.len();
                bytes = &[];
                return Some(Err(Reason::Truncated { tag, wants, has }));
            }
            Err(reason) => {
                bytes = &[];
                return Some(Err(reason));
            }
        };
        let (packet, rest) = bytes.split_at(header.len + header.body);
        bytes = rest;
        Some(Ok(PacketRef { tag: header.tag, body: &packet[header.len..] }))
    })
}

/// The first packet of `bytes`, if it is complete.
#[must_use]
pub fn first_packet(bytes: &[u8]) -> Option<PacketRef<'_>> {
    packets(bytes).next()?.ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Written packets are read back unchanged, around every boundary of the length encoding.
        #[test]
        fn written_packets_read_back(
            tag in 1u8..64,
            len in prop_oneof![0usize..400, 8300usize..8500, 65_530usize..65_540],
        ) {
            let body = vec![7u8; len];
            let mut out = Vec::new();
            write(&mut out, Tag(tag), &body);
            let read: Vec<_> = packets(&out).collect::<Result<_, _>>().unwrap();
            prop_assert_eq!(read, vec![PacketRef { tag: Tag(tag), body: &body }]);
        }

        /// Reading any bytes ends in packets or an error, without a panic, and never returns more
        /// bytes than were given.
        #[test]
        fn any_bytes_are_read(bytes: Vec<u8>) {
            let total: usize = packets(&bytes).map_while(Result::ok).map(|p| p.body.len()).sum();
            prop_assert!(total <= bytes.len());
        }
    }
}
