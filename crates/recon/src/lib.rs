//! Which certificates two keyservers do not share, found with little traffic: the set
//! reconciliation that SKS and Hockeypuck speak ("recon", gossip).
//!
//! A server keeps the [`Digest`]s of its certificates in a [`Tree`]. An [`Exchange`] compares it with
//! the tree of a peer and ends with the digests that the peer has and we have not; fetching those
//! certificates is another protocol, of which [`encode_hashquery`] and its siblings read and write
//! the bodies.
//!
//! There are no sockets here, no clock and no OpenPGP: bytes go into a [`Decoder`], messages into
//! the exchange, bytes for the peer come out of an [`Outbox`].
//!
//! ```text
//! bytes --> Decoder --> Message --> Exchange::step --> Outbox --> bytes
//!                                         |
//!                                         +--> Outcome
//! ```
//!
//! `docs/formats/recon.md` describes the protocol byte by byte.

mod digest;
mod exchange;
mod field;
mod hashquery;
mod message;
mod poly;
mod prefix;
mod random;
mod tree;

pub use digest::{Digest, DigestError};
pub use exchange::{
    Ending, Exchange, ExchangeError, FULL_BELOW, FilterRule, OUTSTANDING_MAX, Outbox, Outcome,
    REPLY_DIGESTS_MAX, REQUESTS_MAX, Role, SENT_DIGESTS_MAX, Settings,
};
pub use field::{POINTS, Values, Zp};
pub use hashquery::{
    HASHQUERY_DIGESTS_MAX, decode_hashquery, decode_hashreply, encode_hashquery, encode_hashreply,
};
pub use message::{
    BIT_QUANTUM, Config, DecodeError, Decoder, HANDSHAKE_BYTES_MAX, M_BAR, MESSAGE_BYTES_MAX,
    Message,
};
pub use poly::{Difference, reconcile};
pub use prefix::Prefix;
pub use tree::{Digests, LEAF_MAX, Subtree, Tree};
