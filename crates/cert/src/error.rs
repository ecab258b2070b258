//! Reasons why bytes are not a certificate.

use crate::tag::Tag;

/// Why a certificate, or the bytes at the place of one, could not be read.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// The first bit of the byte is not set, but it is set in every packet header (RFC 9580,
    /// section 4.2).
    #[error("byte {byte:#04x} does not start an OpenPGP packet")]
    NotAPacket {
        /// The byte found.
        byte: u8,
    },
    /// The input ends inside a packet.
    #[error(
        "packet of type {tag} is truncated: its header announces {wants} bytes, {has} are left"
    )]
    Truncated {
        /// Packet type.
        tag: u8,
        /// Number of bytes that the header announces.
        wants: usize,
        /// Number of bytes that remain.
        has: usize,
    },
    /// A partial length, which only data packets may have (RFC 9580, section 4.2.1.4).
    #[error("packet of type {tag} has a partial length, which is not allowed in certificates")]
    PartialLength {
        /// Packet type.
        tag: u8,
    },
    /// A length that extends to the end of the file (RFC 9580, section 4.2.2).
    #[error("packet of type {tag} has no length")]
    IndeterminateLength {
        /// Packet type.
        tag: u8,
    },
    /// A packet larger than [`crate::PACKET_BYTES_MAX`].
    #[error("packet of type {tag} has {len} bytes, the limit is {max}")]
    PacketTooLarge {
        /// Packet type.
        tag: u8,
        /// Number of bytes that the header announces.
        len: usize,
        /// The limit in bytes.
        max: usize,
    },
    /// A certificate larger than [`crate::CERT_BYTES_MAX`].
    #[error("certificate has more than {max} bytes")]
    CertTooLarge {
        /// The limit in bytes.
        max: usize,
    },
    /// A certificate with more packets than [`crate::PACKETS_MAX`].
    #[error("certificate has more than {max} packets")]
    TooManyPackets {
        /// The limit.
        max: usize,
    },
    /// A packet outside of any certificate.
    #[error("{}", no_primary(*tag))]
    NoPrimary {
        /// Packet type.
        tag: u8,
    },
    /// A key packet of an unknown version.
    #[error("key version {version} is not supported")]
    KeyVersion {
        /// The version byte.
        version: u8,
    },
    /// A key packet whose fields do not fit into its body.
    #[error("the primary key packet is malformed")]
    MalformedKey,
    /// A key packet larger than [`crate::KEY_BYTES_MAX`]. No signature can cover such a key.
    #[error("the key has {bytes} bytes, which is too many for a signature to cover")]
    OversizedKey {
        /// Number of bytes of the public part.
        bytes: usize,
    },
    /// A key packet with a secret part of an algorithm whose public part has no known end.
    #[error("cannot find the public part of a secret key of algorithm {algorithm}")]
    SecretKey {
        /// The public-key algorithm (RFC 9580, section 9.1).
        algorithm: u8,
    },
    /// Invalid base64, or an armor that does not end.
    #[error("ASCII armor is damaged in line {line}")]
    Armor {
        /// Line of the file, from 1.
        line: u64,
    },
    /// A reader of a container format (keybox, SQLite, ...) could not read an entry.
    #[error("{0}")]
    Container(String),
}

fn no_primary(tag: u8) -> String {
    if tag == Tag::SIGNATURE.0 {
        return "a signature comes before any primary key; send a revocation together with the certificate that it revokes".to_owned();
    }
    format!("packet of type {tag} comes before any primary key")
}

/// A certificate that was rejected, and its position.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("offset {offset}: {reason}")]
pub struct Reject {
    /// Offset in bytes from the start of the input (of the decoded data, if the input was armored).
    pub offset: u64,
    /// Why it was rejected.
    pub reason: Reason,
}
