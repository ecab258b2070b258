//! Messages from a stream of bytes.

use crate::message::{DecodeError, GossipMessage, HANDSHAKE_BYTES_MAX, MESSAGE_BYTES_MAX, Reader};

/// The most room for received bytes: a message, and what came with its end. Only a caller that
/// feeds more at once gets more.
const ROOM_BYTES_MAX: usize = MESSAGE_BYTES_MAX + (64 << 10);

/// Maximum length of a part of a verdict.
const VERDICT_BYTES_MAX: usize = 4096;

/// Cuts bytes, in whatever pieces they come, into the messages of one peer.
///
/// Holds the part of one message that has arrived, and the bytes that the caller fed beyond it. It
/// never reserves room for announced bytes. The first message is limited to
/// [`HANDSHAKE_BYTES_MAX`], those after the handshake to [`MESSAGE_BYTES_MAX`].
#[derive(Debug, Default)]
pub struct Decoder {
    bytes: Vec<u8>,
    /// The number of `bytes` that belong to returned messages.
    taken: usize,
    due: Due,
    damaged: Option<DecodeError>,
}

/// The beginning of a message, which may not have arrived whole.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Frame {
    /// The type byte.
    pub(crate) kind: u8,
    /// The announced length in bytes, with the type byte.
    pub(crate) len: u32,
}

/// The kind of message that comes next. It depends on the messages before: a verdict has no frame.
#[derive(Clone, Copy, Debug, Default)]
enum Due {
    #[default]
    Config,
    Verdict,
    Dialogue,
}

impl Decoder {
    /// At the beginning of a connection.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the bytes that have arrived.
    pub fn feed(&mut self, bytes: &[u8]) {
        if self.damaged.is_none() {
            self.bytes.drain(..self.taken);
            self.taken = 0;
            let needed = self.bytes.len() + bytes.len();
            if needed > self.bytes.capacity() {
                // Twice as much as before, but not twice the largest message.
                let double = 2 * self.bytes.capacity();
                let room = if double < MESSAGE_BYTES_MAX { double } else { ROOM_BYTES_MAX };
                self.bytes.reserve_exact(room.max(needed) - self.bytes.len());
            }
            self.bytes.extend_from_slice(bytes);
        }
    }

    /// Whether the peer stopped within a message.
    #[must_use]
    pub fn is_amid(&self) -> bool {
        self.taken < self.bytes.len()
    }

    /// The beginning of the next message; `None` until it has arrived, and for a verdict, which has
    /// no frame.
    #[must_use]
    pub fn announced(&self) -> Option<Frame> {
        let mut rest = Reader::new(&self.bytes[self.taken..]);
        let len = rest.int().ok()?;
        let &kind = rest.rest().first()?;
        let has_frame = len > 0 && !matches!(self.due, Due::Verdict);
        has_frame.then_some(Frame { kind, len })
    }

    /// The next message; `None` until more bytes come.
    ///
    /// # Errors
    ///
    /// [`DecodeError`]; then there is no telling where the next message begins, and every later
    /// call fails as well.
    pub fn next_message(&mut self) -> Result<Option<GossipMessage>, DecodeError> {
        if let Some(error) = self.damaged {
            return Err(error);
        }
        let rest = &self.bytes[self.taken..];
        let next = match self.due {
            Due::Verdict => verdict(rest),
            Due::Config => frame(rest, HANDSHAKE_BYTES_MAX),
            Due::Dialogue => frame(rest, MESSAGE_BYTES_MAX),
        };
        match next {
            Ok(Some((message, len))) => {
                self.taken += len;
                self.due = match (self.due, &message) {
                    (Due::Config, GossipMessage::Config(_)) => Due::Verdict,
                    _ => Due::Dialogue,
                };
                Ok(Some(message))
            }
            Ok(None) => Ok(None),
            Err(error) => {
                self.damaged = Some(error);
                self.bytes = Vec::new();
                self.taken = 0;
                Err(error)
            }
        }
    }
}

/// A message with its length before it; and how many bytes that was.
fn frame(bytes: &[u8], max: usize) -> Result<Option<(GossipMessage, usize)>, DecodeError> {
    let Some((body, len)) = string(bytes, max)? else { return Ok(None) };
    Ok(Some((GossipMessage::decode(body)?, len)))
}

/// One string, or two if the first is not the good news.
fn verdict(bytes: &[u8]) -> Result<Option<(GossipMessage, usize)>, DecodeError> {
    let Some((word, len)) = string(bytes, VERDICT_BYTES_MAX)? else { return Ok(None) };
    match word {
        b"passed" => Ok(Some((GossipMessage::Passed, len))),
        b"failed" => {
            let Some((reason, more)) = string(&bytes[len..], VERDICT_BYTES_MAX)? else {
                return Ok(None);
            };
            let reason = String::from_utf8_lossy(reason).into_owned();
            Ok(Some((GossipMessage::Failed(reason), len + more)))
        }
        _ => Err(DecodeError::Malformed("verdict")),
    }
}

/// A length and so many bytes, if they are there; and the length of both.
fn string(bytes: &[u8], max: usize) -> Result<Option<(&[u8], usize)>, DecodeError> {
    let Ok(announced) = Reader::new(bytes).int() else { return Ok(None) };
    let len = announced as usize;
    if len > max {
        return Err(DecodeError::TooMany { announced: announced.into(), max });
    }
    Ok(bytes.get(4..4 + len).map(|body| (body, 4 + len)))
}
