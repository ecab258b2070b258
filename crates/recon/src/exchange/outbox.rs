//! Messages to the peer.

use crate::message::GossipMessage;

/// More than this is not held back: it is then due without being asked for.
const HELD_BYTES_MAX: usize = 1 << 20;

/// Bytes for the peer, and which of them are due.
///
/// Answers are held back until the peer says that it reads them: a peer that still writes its
/// requests does not read, and both would wait for each other.
#[derive(Debug, Default)]
pub struct Outbox {
    bytes: Vec<u8>,
    due: usize,
}

impl Outbox {
    /// Without anything in it.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The bytes to write now, in order; often none.
    ///
    /// The connection is to be read on only when they are written: nothing else limits how much
    /// gathers here.
    #[must_use]
    pub fn take_due(&mut self) -> Vec<u8> {
        let rest = self.bytes.split_off(self.due);
        self.due = 0;
        std::mem::replace(&mut self.bytes, rest)
    }

    pub(super) fn push(&mut self, message: &GossipMessage) {
        message.encode(&mut self.bytes);
        if self.bytes.len() > HELD_BYTES_MAX {
            self.flush();
        }
    }

    /// All that was pushed is due.
    pub(super) fn flush(&mut self) {
        self.due = self.bytes.len();
    }
}
