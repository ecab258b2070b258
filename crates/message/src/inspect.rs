//! The packets of a message, as far as they can be listed without a key.

use std::io::{self, Read};

use talaria_cert::Signature;
use talaria_cert::hex::Upper;

use crate::algorithm::{Aead, ChunkSize, Cipher};
use crate::error::{MessageError, Result};
use crate::framing::{self, Body, Length, tag};
use crate::sign::hash_name;

/// The type of the first packet in `start` (RFC 9580, section 4.2); `None` if `start` does not
/// begin with a packet.
#[must_use]
pub fn first_type(start: &[u8]) -> Option<u8> {
    let first = *start.first()?;
    match first & 0xc0 {
        0xc0 => Some(first & 0x3f),
        0x80 => Some(first >> 2 & 0xf),
        _ => None,
    }
}

/// A packet of a message.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PacketInfo {
    /// The packet type (RFC 9580, section 5).
    pub tag: u8,
    /// The name of the packet type.
    pub name: &'static str,
    /// The length of the body in bytes.
    pub bytes: u64,
    /// The body has partial lengths. The length fields of its parts are not counted in
    /// [`Self::bytes`].
    pub partial: bool,
    /// Names and values of the packet's fields.
    pub fields: Vec<(&'static str, String)>,
}

/// The maximum number of packets in a listing.
const PACKETS_MAX: usize = 10_000;
/// The number of bytes at the start of a body that are parsed.
const START_BYTES: u64 = 64 << 10;

/// Lists the outermost packets of a message.
///
/// # Errors
///
/// Errors of the framing; [`MessageError::TooLarge`] beyond 10,000 packets.
pub fn inspect(mut input: &mut (dyn Read + Send)) -> Result<Vec<PacketInfo>> {
    let mut packets = Vec::new();
    while let Some((tag, length)) = framing::read_header(&mut input)? {
        if packets.len() == PACKETS_MAX {
            return Err(MessageError::TooLarge { what: "packets", limit: PACKETS_MAX as u64 });
        }
        let mut body = Body::new(&mut *input, length);
        let mut start = Vec::new();
        (&mut body).take(START_BYTES).read_to_end(&mut start).map_err(MessageError::read)?;
        let rest = io::copy(&mut body, &mut io::sink()).map_err(MessageError::read)?;
        packets.push(PacketInfo {
            tag,
            name: name(tag),
            bytes: start.len() as u64 + rest,
            partial: matches!(length, Length::Partial(_)),
            fields: fields(tag, &start),
        });
    }
    if packets.is_empty() {
        return Err(MessageError::Malformed("it is empty"));
    }
    Ok(packets)
}

fn name(tag: u8) -> &'static str {
    match tag {
        tag::PKESK => "public-key encrypted session key",
        tag::SIGNATURE => "signature",
        tag::SKESK => "symmetric-key encrypted session key",
        tag::ONE_PASS => "one-pass signature",
        5 => "secret key",
        6 => "public key",
        7 => "secret subkey",
        tag::COMPRESSED => "compressed data",
        tag::SED => "encrypted data without integrity protection",
        tag::MARKER => "marker",
        tag::LITERAL => "literal data",
        12 => "trust",
        13 => "user ID",
        14 => "public subkey",
        17 => "user attribute",
        tag::SEIPD => "encrypted and integrity protected data",
        tag::AEAD => "AEAD encrypted data of GnuPG",
        tag::PADDING => "padding",
        _ => "unknown packet",
    }
}

/// Names and values of the fields at the start of a body; fields that do not parse are left out.
fn fields(kind: u8, body: &[u8]) -> Vec<(&'static str, String)> {
    let hex = |bytes: &[u8]| Upper(bytes).to_string();
    let cipher =
        |number: u8| Cipher::from_number(number).map_or(number.to_string(), |c| c.to_string());
    let aead = |number: u8| Aead::from_number(number).map_or(number.to_string(), |a| a.to_string());
    let mut fields = Vec::new();
    match (kind, body) {
        (tag::PKESK, [3, id @ ..]) if id.len() > 8 => {
            fields.push(("version", "3".to_owned()));
            fields.push(("recipient", hex(&id[..8])));
            fields.push(("algorithm", id[8].to_string()));
        }
        (tag::PKESK, [6, len, rest @ ..]) if rest.len() > usize::from(*len) => {
            fields.push(("version", "6".to_owned()));
            let (recipient, rest) = rest.split_at(usize::from(*len));
            fields.push(("recipient", hex(recipient.get(1..).unwrap_or_default())));
            fields.push(("algorithm", rest[0].to_string()));
        }
        (tag::SKESK, [version, rest @ ..]) => {
            fields.push(("version", version.to_string()));
            let rest = if *version == 6 { rest.get(1..).unwrap_or_default() } else { rest };
            fields.extend(rest.first().map(|&number| ("cipher", cipher(number))));
            if *version > 4 {
                fields.extend(rest.get(1).map(|&number| ("aead", aead(number))));
            }
        }
        (tag::SEIPD, [1, ..]) => fields.push(("version", "1".to_owned())),
        (tag::SEIPD, [version @ 2, c, a, chunk, ..]) | (tag::AEAD, [version, c, a, chunk, ..]) => {
            fields.push(("version", version.to_string()));
            fields.push(("cipher", cipher(*c)));
            fields.push(("aead", aead(*a)));
            if let Ok(size) = ChunkSize::from_byte(*chunk) {
                fields.push(("chunk_bytes", size.bytes().to_string()));
            }
        }
        (tag::ONE_PASS, [version, kind, hash, algorithm, rest @ ..]) => {
            fields.push(("version", version.to_string()));
            fields.push(("type", format!("{kind:02x}")));
            fields.push(("hash", hash_name(*hash).to_owned()));
            fields.push(("algorithm", algorithm.to_string()));
            if let (3, Some(id)) = (version, rest.first_chunk::<8>()) {
                fields.push(("issuer", hex(id)));
            }
        }
        (tag::SIGNATURE, body) => {
            if let Some(signature) = Signature::parse(body) {
                fields.push(("version", signature.version.to_string()));
                fields.push(("type", format!("{:02x}", signature.kind)));
                fields.push(("hash", hash_name(signature.hash).to_owned()));
                fields.push(("algorithm", signature.algorithm.to_string()));
                fields.push(("created", signature.created.to_string()));
                let issuer = signature
                    .issuer_fingerprint
                    .map(|fingerprint| fingerprint.to_string())
                    .or(signature.issuer.map(|id| id.to_string()));
                fields.extend(issuer.map(|issuer| ("issuer", issuer)));
            }
        }
        (tag::COMPRESSED, [algorithm, ..]) => {
            let name = match algorithm {
                0 => "none",
                1 => "zip",
                2 => "zlib",
                3 => "bzip2",
                _ => "unknown",
            };
            fields.push(("algorithm", name.to_owned()));
        }
        (tag::LITERAL, [format, len, rest @ ..]) if rest.len() >= usize::from(*len) + 4 => {
            let (name, rest) = rest.split_at(usize::from(*len));
            let date = u32::from_be_bytes([rest[0], rest[1], rest[2], rest[3]]);
            fields.push(("format", char::from(*format).to_string()));
            fields.push(("name", String::from_utf8_lossy(name).into_owned()));
            fields.push(("date", date.to_string()));
        }
        _ => {}
    }
    fields
}
