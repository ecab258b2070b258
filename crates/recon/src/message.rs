//! Messages between two peers, to bytes and back.

mod error;
mod read;

pub use error::DecodeError;
pub(crate) use read::Reader;

use crate::digest::Digest;
use crate::field::{POINTS, Values, Zp};
use crate::prefix::Prefix;

/// Bits per level of the tree; must be the same at both peers.
pub const BIT_QUANTUM: u32 = 2;

/// Number of differences that one node can resolve, one less than there are [`POINTS`]; must be the
/// same at both peers.
pub const M_BAR: u32 = 5;

/// The longest message that is read. Hockeypuck has the same bound, SKS has none. Within an
/// exchange, [`Exchange::admit`](crate::Exchange::admit) has lower bounds for most messages.
pub const MESSAGE_BYTES_MAX: usize = 16 << 20;

/// The longest message that is read before both peers agree to talk.
pub const HANDSHAKE_BYTES_MAX: usize = 16 << 10;

/// The maximum length of a reason in bytes.
const REASON_CHARS_MAX: usize = 1000;

/// One message, or the verdict on the peer's configuration.
///
/// Of sets, the order on the wire means nothing.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum GossipMessage {
    /// The settings of the sender; the first message of both.
    Config(PeerConfig),
    /// The sender accepts the other's configuration. Has no frame and comes after the
    /// configuration.
    Passed,
    /// The sender does not, and why. In place of [`GossipMessage::Passed`].
    Failed(String),
    /// Compare by values: the sender has `len` digests with `prefix`.
    Poly {
        /// The node that is compared.
        prefix: Prefix,
        /// The number of digests that the sender has there.
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
    /// Answer to [`GossipMessage::Poly`]: these are all that the sender has there.
    FullElements(Vec<Digest>),
    /// Answer to [`GossipMessage::Poly`]: too many differences, ask for the children.
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

/// The settings of a peer.
///
/// Read from pairs of name and value, in any order; unknown ones are ignored.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PeerConfig {
    /// Three numbers with dots, maybe with something behind.
    pub version: String,
    /// The HTTP port at which the peer serves certificates.
    pub http_port: u16,
    /// [`BIT_QUANTUM`] at all known servers.
    pub bit_quantum: u32,
    /// [`M_BAR`] at all known servers.
    pub m_bar: u32,
    /// The filters applied to certificates before the digests were made, separated by commas.
    pub filters: String,
}

impl GossipMessage {
    /// Its name in errors.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Passed => "acceptance",
            Self::Failed(_) => "refusal",
            _ => kind_name(self.kind()),
        }
    }

    /// Appends the bytes of the message.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Passed => return put_string(out, b"passed"),
            Self::Failed(reason) => {
                put_string(out, b"failed");
                // It may quote the peer.
                let reason: String = reason.chars().take(REASON_CHARS_MAX).collect();
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

    /// Parses the content of a frame: the type byte and the body.
    pub(crate) fn decode(frame: &[u8]) -> Result<Self, DecodeError> {
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
            10 => Self::Config(PeerConfig::decode(&mut body)?),
            _ => return Err(DecodeError::Kind(kind)),
        };
        body.end("end of a message")?;
        Ok(message)
    }
}

impl PeerConfig {
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
        let missing = DecodeError::Malformed("configuration: a field is missing");
        Ok(Self {
            version: version.ok_or(missing)?,
            http_port: http_port.ok_or(missing)?,
            bit_quantum: bit_quantum.ok_or(missing)?,
            m_bar: m_bar.ok_or(missing)?,
            filters: filters.unwrap_or_default(),
        })
    }
}

/// The name in errors of the messages with a type byte.
pub(crate) fn kind_name(kind: u8) -> &'static str {
    match kind {
        0 => "request by values",
        1 => "request by digests",
        2 => "set of missing digests",
        3 => "set of all digests",
        4 => "failure to compare",
        5 => "end",
        6 => "flush",
        7 => "error",
        8 | 9 => "message of SKS to itself",
        10 => "configuration",
        _ => "message of an unknown type",
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::decoder::Decoder;

    fn text() -> impl Strategy<Value = String> {
        prop::collection::vec(any::<char>(), 0..20).prop_map(String::from_iter)
    }

    fn digests() -> impl Strategy<Value = Vec<Digest>> {
        prop::collection::vec(any::<[u8; 16]>().prop_map(Digest), 0..9)
    }

    fn prefix() -> impl Strategy<Value = Prefix> {
        (any::<[u8; 16]>(), 0..=128u32)
            .prop_map(|(bytes, bits)| Prefix::new(Digest(bytes), bits).unwrap())
    }

    prop_compose! {
        fn config()(
            version in text(), http_port: u16, bit_quantum: u32, m_bar: u32, filters in text(),
        ) -> PeerConfig {
            PeerConfig { version, http_port, bit_quantum, m_bar, filters }
        }
    }

    fn message() -> impl Strategy<Value = GossipMessage> {
        let values = any::<[u128; 6]>().prop_map(|numbers| Box::new(numbers.map(Zp::from_u128)));
        prop_oneof![
            config().prop_map(GossipMessage::Config),
            (prefix(), any::<u32>(), values)
                .prop_map(|(prefix, len, values)| GossipMessage::Poly { prefix, len, values }),
            (prefix(), digests())
                .prop_map(|(prefix, digests)| GossipMessage::Full { prefix, digests }),
            digests().prop_map(GossipMessage::Elements),
            digests().prop_map(GossipMessage::FullElements),
            Just(GossipMessage::SyncFail),
            Just(GossipMessage::Done),
            Just(GossipMessage::Flush),
            text().prop_map(GossipMessage::Error),
            any::<Vec<u8>>().prop_map(GossipMessage::DbRequest),
            any::<Vec<u8>>().prop_map(GossipMessage::DbReply),
        ]
    }

    /// A message of one side in an exchange.
    fn dialogue() -> impl Strategy<Value = Vec<GossipMessage>> {
        let verdict =
            prop_oneof![Just(GossipMessage::Passed), text().prop_map(GossipMessage::Failed)];
        (config(), verdict, prop::collection::vec(message(), 0..9)).prop_map(
            |(config, verdict, messages)| {
                [GossipMessage::Config(config), verdict].into_iter().chain(messages).collect()
            },
        )
    }

    fn encoded(messages: &[GossipMessage]) -> Vec<u8> {
        let mut bytes = Vec::new();
        messages.iter().for_each(|message| message.encode(&mut bytes));
        bytes
    }

    /// The messages decoded from bytes in pieces of these lengths.
    fn decoded(bytes: &[u8], pieces: &[usize]) -> (Vec<GossipMessage>, Option<DecodeError>) {
        let mut decoder = Decoder::new();
        let (mut messages, mut rest) = (Vec::new(), bytes);
        for len in pieces.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let piece;
            (piece, rest) = rest.split_at(rest.len().min(*len));
            decoder.feed(piece);
            loop {
                match decoder.next_message() {
                    Ok(Some(message)) => messages.push(message),
                    Ok(None) => break,
                    Err(error) => return (messages, Some(error)),
                }
            }
        }
        (messages, None)
    }

    #[test]
    fn the_bytes_equal_those_in_the_document() {
        let prefix = Prefix::new(Digest([0xb4; 16]), 6).unwrap();
        let frame = |message: GossipMessage| encoded(&[message]);
        assert_eq!(frame(GossipMessage::Flush), [0, 0, 0, 1, 6]);
        let full = GossipMessage::Full { prefix, digests: vec![Digest([7; 16])] };
        let mut expected = vec![0, 0, 0, 31, 1, 0, 0, 0, 6, 0, 0, 0, 1, 0xb4, 0, 0, 0, 1];
        expected.extend([7; 16]);
        expected.push(0);
        assert_eq!(frame(full), expected);
        let poly = GossipMessage::Poly { prefix: Prefix::ROOT, len: 3, values: Box::new(POINTS) };
        let bytes = frame(poly);
        assert_eq!(bytes[..21], [0, 0, 0, 119, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 6]);
        assert_eq!(bytes.len(), 4 + 119);
        assert_eq!(frame(GossipMessage::Passed), *b"\0\0\0\x06passed");
        assert_eq!(frame(GossipMessage::Failed("no".into())), *b"\0\0\0\x06failed\0\0\0\x02no");
        let config = PeerConfig {
            version: "1.1.6".into(),
            http_port: 11371,
            bit_quantum: 2,
            m_bar: 5,
            filters: "a,b".into(),
        };
        let expected = b"\0\0\0\x66\x0a\0\0\0\x05\
            \0\0\0\x0abitquantum\0\0\0\x04\0\0\0\x02\
            \0\0\0\x07filters\0\0\0\x03a,b\
            \0\0\0\x09http port\0\0\0\x04\0\0\x2c\x6b\
            \0\0\0\x04mbar\0\0\0\x04\0\0\0\x05\
            \0\0\0\x07version\0\0\0\x051.1.6";
        assert_eq!(frame(GossipMessage::Config(config)), *expected);
    }

    #[test]
    fn a_too_large_length_is_refused_before_its_bytes_arrive() {
        let too_many =
            |announced: usize, max| Some(DecodeError::TooMany { announced: announced as u64, max });
        let longer = int(HANDSHAKE_BYTES_MAX + 1);
        let expected = too_many(HANDSHAKE_BYTES_MAX + 1, HANDSHAKE_BYTES_MAX);
        assert_eq!(decoded(&longer, &[9]).1, expected);

        let config = b"\0\0\0\x02\x07\0".to_vec();
        assert_eq!(decoded(&config, &[9]).1, Some(DecodeError::Malformed("number")));
        let hello = encoded(&[GossipMessage::Done]);
        let after = [&hello[..], &int(MESSAGE_BYTES_MAX)].concat();
        assert_eq!(decoded(&after, &[9]), (vec![GossipMessage::Done], None));
        let after = [&hello[..], &int(MESSAGE_BYTES_MAX + 1)].concat();
        assert_eq!(decoded(&after, &[9]).1, too_many(MESSAGE_BYTES_MAX + 1, MESSAGE_BYTES_MAX));
    }

    #[test]
    fn malformed_messages_are_refused() {
        for (frame, expected) in [
            (&b"\0\0\0\0"[..], DecodeError::Malformed("empty message")),
            (b"\0\0\0\x01\x0b", DecodeError::Kind(11)),
            (b"\0\0\0\x02\x05\0", DecodeError::Malformed("end of a message")),
            // Announces four billion digests.
            (b"\0\0\0\x05\x02\xff\xff\xff\xff", DecodeError::Malformed("set")),
            // Nine bits in one byte, and 129 bits.
            (b"\0\0\0\x0a\x01\0\0\0\x09\0\0\0\x01\0", DecodeError::Malformed("prefix")),
            (
                b"\0\0\0\x1a\x01\0\0\0\x81\0\0\0\x1112345678901234567",
                DecodeError::Malformed("prefix"),
            ),
            // A number of 129 bits is not a digest.
            (
                b"\0\0\0\x16\x02\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01",
                DecodeError::Malformed("set"),
            ),
        ] {
            assert_eq!(decoded(frame, &[99]).1, Some(expected));
        }
    }

    proptest! {
        #[test]
        fn messages_read_back_from_any_pieces(
            dialogue in dialogue(), pieces in prop::collection::vec(1..50usize, 1..5),
        ) {
            prop_assert_eq!(decoded(&encoded(&dialogue), &pieces), (dialogue, None));
        }

        #[test]
        fn damaged_bytes_read_the_same_in_any_pieces(
            dialogue in dialogue(),
            damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
            pieces in prop::collection::vec(1..50usize, 1..5),
        ) {
            let mut bytes = encoded(&dialogue);
            for (at, byte) in damage {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            let whole = decoded(&bytes, &[bytes.len()]);
            prop_assert_eq!(decoded(&bytes, &pieces), whole);
        }

        #[test]
        fn any_bytes_are_messages_or_an_error(bytes in prop::collection::vec(any::<u8>(), 1..200)) {
            let whole = decoded(&bytes, &[bytes.len()]);
            prop_assert_eq!(decoded(&bytes, &[1]), whole);
        }
    }
}
