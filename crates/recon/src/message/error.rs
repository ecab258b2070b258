//! Why bytes are no message.

/// Why bytes are no message.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The length is above the limit.
    #[error("the peer announced {announced} bytes or digests, the limit is {max}")]
    TooMany {
        /// The size that the peer announced: bytes of a message or digests of a query.
        announced: u64,
        /// The most bytes that are read.
        max: usize,
    },
    /// A type byte that the protocol does not have.
    #[error("unknown message type {0}")]
    Kind(u8),
    /// The bytes do not form the message.
    #[error("malformed {0}")]
    Malformed(&'static str),
}
