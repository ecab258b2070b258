//! Messages between two peers, to bytes and back.

mod decoder;
mod read;

pub use decoder::Decoder;
pub(crate) use read::Reader;

use crate::digest::Digest;
use crate::field::{POINTS, Values, Zp};
use crate::prefix::Prefix;

/// How many bits a level of the tree takes; must be the same at both peers.
pub const BIT_QUANTUM: u32 = 2;

/// How many differences one node can resolve, one less than there are [`POINTS`]; must be the same
/// at both peers.
pub const M_BAR: u32 = 5;

/// The longest message that is read. Hockeypuck has the same bound, SKS has none.
pub const MESSAGE_BYTES_MAX: usize = 16 << 20;

/// The longest message that is read before both peers agree to talk.
pub const HANDSHAKE_BYTES_MAX: usize = 16 << 10;

/// One message, or the verdict on the peer's configuration.
///
/// Of sets, the order on the wire means nothing.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Message {
    /// How the sender would like to compare; the first message of both.
    Config(Config),
    /// The sender accepts the other's configuration. Has no frame and comes after the configuration.
    Passed,
    /// The sender does not, and why. In place of [`Message::Passed`].
    Failed(String),
    /// Compare by values: the sender has `len` digests with `prefix`.
    Poly {
        /// The node that is compared.
        prefix: Prefix,
        /// How many digests the sender has there.
        len: u32,
        /// Their values at the [`POINTS`](crate::POINTS).
        values: Box<Values>,
    },
    /// Compare by digests: these are all that the sender has with `prefix`.
    Full {
        /// The node that is compared.
        prefix: Prefix,
        /// All digests of the sender there.
        digests: Vec<Digest>,
    },
    /// These the receiver has not.
    Elements(Vec<Digest>),
    /// Answer to [`Message::Poly`]: these are all that the sender has there.
    FullElements(Vec<Digest>),
    /// Answer to [`Message::Poly`]: too many differences, ask for the children.
    SyncFail,
    /// The sender has no more questions.
    Done,
    /// The sender now waits for the answers.
    Flush,
    /// The sender gives up.
    Error(String),
    /// Between the processes of one SKS, never between servers.
    DbRequest(Vec<u8>),
    /// Between the processes of one SKS, never between servers.
    DbReply(Vec<u8>),
}

/// How a peer would like to compare.
///
/// Read from pairs of name and value, in any order; unknown ones are ignored.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Config {
    /// Three numbers with dots, maybe with something behind.
    pub version: String,
    /// Where the peer serves certificates.
    pub http_port: u16,
    /// [`BIT_QUANTUM`] at all known servers.
    pub bit_quantum: u32,
    /// [`M_BAR`] at all known servers.
    pub m_bar: u32,
    /// What was done to the certificates before the digests were made, separated by commas.
    pub filters: String,
}

/// Why bytes are no message.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// Longer than what is read.
    #[error("{announced} announced, at most {max} are read")]
    TooMany {
        /// What the peer announced, bytes of a message or digests of a query.
        announced: u64,
        /// What is read at most.
        max: usize,
    },
    /// A type byte that the protocol does not have.
    #[error("no message has type {0}")]
    Kind(u8),
    /// The bytes are not what the message consists of.
    #[error("malformed {0}")]
    Malformed(&'static str),
}

impl Message {
    /// What it is called, in errors.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Config(_) => "configuration",
            Self::Passed => "acceptance",
            Self::Failed(_) => "refusal",
            Self::Poly { .. } => "request by values",
            Self::Full { .. } => "request by digests",
            Self::Elements(_) => "set of missing digests",
            Self::FullElements(_) => "set of all digests",
            Self::SyncFail => "failure to compare",
            Self::Done => "end",
            Self::Flush => "flush",
            Self::Error(_) => "error",
            Self::DbRequest(_) | Self::DbReply(_) => "message of SKS to itself",
        }
    }

    /// Appends the bytes of the message.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Passed => return put_string(out, b"passed"),
            Self::Failed(reason) => {
                put_string(out, b"failed");
                return put_string(out, reason.as_bytes());
            }
            _ => {}
        }
        let start = out.len();
        out.extend([0; 4]);
        out.push(self.kind());
        match self {
            Self::Passed | Self::Failed(_) | Self::SyncFail | Self::Done | Self::Flush => {}
            Self::Poly { prefix, len, values } => {
                put_prefix(out, *prefix);
                out.extend(len.to_be_bytes());
                put_int(out, values.len());
                values.iter().for_each(|value| out.extend(value.to_bytes()));
            }
            Self::Full { prefix, digests } => {
                put_prefix(out, *prefix);
                put_set(out, digests);
            }
            Self::Elements(digests) | Self::FullElements(digests) => put_set(out, digests),
            Self::Error(text) => put_string(out, text.as_bytes()),
            Self::DbRequest(bytes) | Self::DbReply(bytes) => put_string(out, bytes),
            Self::Config(config) => config.encode(out),
        }
        let len = int(out.len() - start - 4);
        out[start..start + 4].copy_from_slice(&len);
    }

    /// The type byte.
    fn kind(&self) -> u8 {
        match self {
            Self::Poly { .. } => 0,
            Self::Full { .. } => 1,
            Self::Elements(_) => 2,
            Self::FullElements(_) => 3,
            Self::SyncFail => 4,
            Self::Done => 5,
            Self::Flush => 6,
            Self::Error(_) => 7,
            Self::DbRequest(_) => 8,
            Self::DbReply(_) => 9,
            Self::Config(_) => 10,
            Self::Passed | Self::Failed(_) => unreachable!("a verdict has no frame"),
        }
    }

    /// Reads what is in a frame: the type byte and the body.
    fn decode(frame: &[u8]) -> Result<Self, DecodeError> {
        let (&kind, body) = frame.split_first().ok_or(DecodeError::Malformed("empty message"))?;
        let mut body = Reader::new(body);
        let message = match kind {
            0 => {
                let prefix = body.prefix()?;
                let len = body.int()?;
                if body.int()? as usize != POINTS.len() {
                    return Err(DecodeError::Malformed("number of values"));
                }
                let mut values = Box::new([Zp::ZERO; POINTS.len()]);
                for value in &mut *values {
                    *value = body.element()?;
                }
                Self::Poly { prefix, len, values }
            }
            1 => Self::Full { prefix: body.prefix()?, digests: body.set()? },
            2 => Self::Elements(body.set()?),
            3 => Self::FullElements(body.set()?),
            4 => Self::SyncFail,
            5 => Self::Done,
            6 => Self::Flush,
            7 => Self::Error(String::from_utf8_lossy(body.string()?).into_owned()),
            8 => Self::DbRequest(body.string()?.to_vec()),
            9 => Self::DbReply(body.string()?.to_vec()),
            10 => Self::Config(Config::decode(&mut body)?),
            _ => return Err(DecodeError::Kind(kind)),
        };
        body.end("end of a message")?;
        Ok(message)
    }
}

impl Config {
    /// In the order of SKS, that of the names.
    fn encode(&self, out: &mut Vec<u8>) {
        let pairs: [(&str, &[u8]); 5] = [
            ("bitquantum", &self.bit_quantum.to_be_bytes()),
            ("filters", self.filters.as_bytes()),
            ("http port", &u32::from(self.http_port).to_be_bytes()),
            ("mbar", &self.m_bar.to_be_bytes()),
            ("version", self.version.as_bytes()),
        ];
        put_int(out, pairs.len());
        for (name, value) in pairs {
            put_string(out, name.as_bytes());
            put_string(out, value);
        }
    }

    fn decode(body: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (mut version, mut filters) = (None, None);
        let (mut http_port, mut bit_quantum, mut m_bar) = (None, None, None);
        let text = |bytes: &[u8]| {
            String::from_utf8(bytes.to_vec()).map_err(|_| DecodeError::Malformed("text"))
        };
        let number = |bytes: &[u8]| {
            let bytes = bytes.try_into().map_err(|_| DecodeError::Malformed("number"))?;
            Ok(u32::from_be_bytes(bytes))
        };
        for _ in 0..body.int()? {
            let (name, value) = (body.string()?, body.string()?);
            match name {
                b"version" => version = Some(text(value)?),
                b"filters" => filters = Some(text(value)?),
                b"bitquantum" => bit_quantum = Some(number(value)?),
                b"mbar" => m_bar = Some(number(value)?),
                b"http port" => {
                    let port = u16::try_from(number(value)?);
                    http_port = Some(port.map_err(|_| DecodeError::Malformed("port"))?);
                }
                _ => {}
            }
        }
        let missing = DecodeError::Malformed("configuration: something is missing");
        Ok(Self {
            version: version.ok_or(missing)?,
            http_port: http_port.ok_or(missing)?,
            bit_quantum: bit_quantum.ok_or(missing)?,
            m_bar: m_bar.ok_or(missing)?,
            filters: filters.unwrap_or_default(),
        })
    }
}

fn int(number: usize) -> [u8; 4] {
    u32::try_from(number).expect("what we send has a bound").to_be_bytes()
}

pub(crate) fn put_int(out: &mut Vec<u8>, number: usize) {
    out.extend(int(number));
}

pub(crate) fn put_string(out: &mut Vec<u8>, bytes: &[u8]) {
    put_int(out, bytes.len());
    out.extend(bytes);
}

fn put_prefix(out: &mut Vec<u8>, prefix: Prefix) {
    out.extend(prefix.bits().to_be_bytes());
    put_string(out, &prefix.to_bytes());
}

fn put_set(out: &mut Vec<u8>, digests: &[Digest]) {
    put_int(out, digests.len());
    out.reserve(digests.len() * Zp::BYTES);
    for digest in digests {
        out.extend(digest.0);
        out.push(0);
    }
}
