//! Errors of an exchange.

/// The reason why an exchange failed. Write the outbox, then close the connection.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ExchangeError {
    /// The peer's version is not three numbers, or is too old.
    #[error("the peer has version {0:?}, and at least 0.1.5 is required")]
    Version(String),
    /// The peer's tree is built otherwise.
    #[error("the peer has {name} {theirs}, not {ours}")]
    Parameter {
        /// Its name in the configuration.
        name: &'static str,
        /// The peer's number.
        theirs: u32,
        /// Ours, the only one we know.
        ours: u32,
    },
    /// The peer makes its digests from other data.
    #[error("the peer has filters {theirs:?}, not {ours:?}")]
    Filters {
        /// As the peer said.
        theirs: String,
        /// As set for this peer.
        ours: String,
    },
    /// The peer does not like our configuration, and why, in its first words.
    #[error("the peer refused: {0:?}")]
    Refused(String),
    /// The peer gave up, and why, in its first words.
    #[error("the peer reported: {0:?}")]
    Peer(String),
    /// The message is longer than any of its type has to be here.
    #[error("the peer announced {announced} bytes as {found}, the limit is {max}")]
    TooLong {
        /// The announced data.
        found: &'static str,
        /// The announced length.
        announced: u32,
        /// The most bytes that are read.
        max: usize,
    },
    /// The message is known but makes no sense here.
    #[error("unexpected {found}, expected {due}")]
    Unexpected {
        /// The received data.
        found: &'static str,
        /// The expected values.
        due: &'static str,
    },
}
